/*
 * Where the segments are: one server, the master that Sentinels name, or the masters of a Cluster.
 *
 * One instance per process. Its thread asks the servers, blocking: every second, and at once and
 * more often after a suspicion (topology_suspect, topology_moved). Names are resolved there, so
 * loops never block. Every change raises the generation, which a loop reads with one atomic load.
 *
 * What can go wrong: no server answers. Then the last answer stays valid, and topology_trouble says
 * why. A Sentinel with a lower epoch than another, or a node whose cluster is down, does not
 * overrule one that knows more.
 *
 * Any thread may call all functions except open and close.
 */
#ifndef SLUICE_BACKEND_REDIS_TOPOLOGY_H
#define SLUICE_BACKEND_REDIS_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REDIS_HOST_MAX 64      /* a numeric address */
#define TOPOLOGY_NODES_MAX 64U /* as many as segments */
#define TOPOLOGY_TEXT_MAX 256

struct topology_node {
    char host[REDIS_HOST_MAX]; /* numeric */
    uint16_t port;
};

struct topology_options {
    const char *url;                    /* address.h */
    const char *password_file;          /* its first line is the password; NULL or "": the URL's */
    const char *sentinel_password_file; /* password of the Sentinels themselves; NULL or "": none */
    uint32_t timeout_ms;                /* to connect, and for each answer. 0: 1000 */
    uint32_t look_ms;                   /* 0: 1000 */
};

struct topology_numbers {
    uint64_t looks;
    uint64_t failures; /* looks that no server answered */
    uint64_t generation;
};

struct redis_topology;

/* Checks the URL; ERR_INVALID with the reason in ret_error. */
int topology_check_url(const char *url, char *ret_error, size_t capacity);

/* Looks once and starts the thread. It is no error if no server answers. ERR_INVALID: a wrong URL,
 * or an empty password file; ERR_IO: a file that cannot be read, no thread; ERR_NOMEM. */
int topology_open(const struct topology_options *options, struct redis_topology **ret_topology,
                  char *ret_error, size_t capacity);
void topology_close(struct redis_topology *topology); /* NULL is fine */

/* The natural number of segments: one per master. 0: not known yet. */
uint32_t topology_segments(struct redis_topology *topology);
/* Whether the URL names a Cluster. */
bool topology_is_cluster(const struct redis_topology *topology);
/* Credentials for the servers with the data. NULL: the default user; none. */
const char *topology_user(const struct redis_topology *topology);
const char *topology_password(const struct redis_topology *topology);

/* Raised by every change. */
uint64_t topology_generation(const struct redis_topology *topology);
/* The present server of the segment's keys. ERR_NOTFOUND: not known yet, or none. */
int topology_address(struct redis_topology *topology, uint32_t segment,
                     char ret_host[REDIS_HOST_MAX], uint16_t *ret_port, uint64_t *ret_generation);
/* All known masters (up to max), also those without a segment: they may get one. */
uint32_t topology_masters(struct redis_topology *topology, struct topology_node *ret_nodes,
                          uint32_t max);

/* A server reported that the slot has moved. Takes effect at once if the host is a numeric
 * address. */
void topology_moved(struct redis_topology *topology, uint32_t slot, const char *host,
                    uint16_t port);
/* The segment's server cannot be reached, or cannot serve: look again soon. */
void topology_suspect(struct redis_topology *topology, uint32_t segment);

/* Why the last look failed; empty: it succeeded. */
void topology_trouble(struct redis_topology *topology, char ret_text[TOPOLOGY_TEXT_MAX]);
void topology_count(struct redis_topology *topology, struct topology_numbers *ret_numbers);

#endif
