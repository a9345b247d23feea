/*
 * Asking servers where the masters are: a Sentinel for the one of a name, a node of a Cluster for
 * its slots, the resolver for a name. Everything here blocks, up to the time given; only the thread
 * of topology.c calls it.
 */
#ifndef SLUICE_BACKEND_REDIS_DISCOVER_H
#define SLUICE_BACKEND_REDIS_DISCOVER_H

#include "backend/redis/address.h"
#include "backend/redis/topology.h"
#include "port/segments.h"

#define NO_NODE UINT8_MAX

/* Who asks. Empty texts: none. */
struct discover_login {
    const char *user;
    const char *password;
    uint32_t timeout_ms;
};

/* A server that is asked; its connection is kept from one question to the next. */
struct discover_door {
    struct redis_seed seed;
    struct redisContext *context; /* NULL: not connected */
};

/* What somebody says. */
struct discover_view {
    struct topology_node nodes[TOPOLOGY_NODES_MAX]; /* masters, those of segments first */
    uint32_t node_count;
    uint8_t owner[SEGMENTS_MAX]; /* of each segment: a node, or NO_NODE */
    uint64_t epoch;              /* how much he knows */
    bool sound;                  /* CLUSTER: it can serve, as he sees it */
};

void discover_close(struct discover_door *door);
/* A name or a numeric address made numeric. ERR_NOTFOUND. */
int discover_resolve(const char *host, char ret_host[REDIS_HOST_MAX]);
/* ERR_IO, ERR_NOTFOUND (no such master, no such name) with the reason in ret_why. */
int discover_sentinel(struct discover_door *door, const struct discover_login *login,
                      const char *master, struct discover_view *ret_view,
                      char ret_why[TOPOLOGY_TEXT_MAX]);
int discover_cluster(struct discover_door *door, const struct discover_login *login,
                     struct discover_view *ret_view, char ret_why[TOPOLOGY_TEXT_MAX]);

/* The node's number in the view; made if need be. NO_NODE: no room. */
uint8_t discover_node(struct discover_view *view, const char *host, uint16_t port);

#endif
