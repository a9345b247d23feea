/*
 * Finds the masters: asks a Sentinel for the master of a name, a node of a Cluster for its slots,
 * and the resolver for a name. Everything here blocks, up to the given time. Only the thread of
 * topology.c calls it.
 */
#ifndef SLUICE_BACKEND_REDIS_DISCOVER_H
#define SLUICE_BACKEND_REDIS_DISCOVER_H

#include "backend/redis/address.h"
#include "backend/redis/topology.h"
#include "port/segments.h"

#define NO_NODE UINT8_MAX

/* Credentials. Empty texts: none. */
struct discover_login {
    const char *user;
    const char *password;
    uint32_t timeout_ms;
};

/* A server to ask; its connection is kept between requests. */
struct discover_door {
    struct redis_seed seed;
    struct redisContext *context; /* NULL: not connected */
};

/* The answer of one server. */
struct discover_view {
    struct topology_node nodes[TOPOLOGY_NODES_MAX]; /* masters, those with segments first */
    uint32_t node_count;
    uint8_t owner[SEGMENTS_MAX]; /* of each segment: a node, or NO_NODE */
    uint64_t epoch;              /* the higher, the newer its knowledge */
    bool sound;                  /* CLUSTER: the cluster can serve, as seen by this node */
};

void discover_close(struct discover_door *door);
/* Resolves a name or a numeric address to a numeric one. ERR_NOTFOUND. */
int discover_resolve(const char *host, char ret_host[REDIS_HOST_MAX]);
/* ERR_IO, ERR_NOTFOUND (no such master, no such name) with the reason in ret_why. */
int discover_sentinel(struct discover_door *door, const struct discover_login *login,
                      const char *master, struct discover_view *ret_view,
                      char ret_why[TOPOLOGY_TEXT_MAX]);
int discover_cluster(struct discover_door *door, const struct discover_login *login,
                     struct discover_view *ret_view, char ret_why[TOPOLOGY_TEXT_MAX]);

/* The number of a node in the view, added if needed. NO_NODE: no room. */
uint8_t discover_node(struct discover_view *view, const char *host, uint16_t port);

#endif
