/*
 * The links of one loop or thread: one to each master of the topology. Calls of a segment go to the
 * link of its present address.
 *
 * When the topology changes, new calls go to the new address, and a link that is no longer needed
 * is closed once nothing is in flight on it. MOVED: reports the move to the topology and sends the
 * call to the named node. ASK: sends it there once, with ASKING. Both need a link that is ready;
 * otherwise the call gets REDIS_NOT_ASKED, and the link is created for the next one. A failed link
 * makes the topology look again.
 *
 * Used by one thread; the topology by all.
 */
#ifndef SLUICE_BACKEND_REDIS_LINKS_H
#define SLUICE_BACKEND_REDIS_LINKS_H

#include "backend/redis/link.h"
#include "backend/redis/topology.h"

struct links_config {
    struct redis_topology *topology;
    uint32_t segments;
    /* For each link. Host, port, user, password, epoll, seed and router are filled in. */
    struct link_config link;
    uint64_t seed; /* for jitter */
};

struct redis_links;

/* The strings of config are borrowed. ERR_IO, ERR_NOMEM. */
int links_new(const struct links_config *config, struct redis_links **ret_links);
/* Calls in flight get REDIS_NOT_KNOWN. */
void links_free(struct redis_links *links); /* NULL is fine */

/* 0: sent with the next flush. ERR_CLOSED: no server; ERR_FULL: too many in flight there. */
int links_send(struct redis_links *links, uint32_t segment, struct redis_op *op, int64_t now_us);
/* One write for each link with output. */
void links_flush(struct redis_links *links);
/* Sends, reads, follows the topology, connects and handles timeouts. Does not block. */
void links_turn(struct redis_links *links, int64_t now_us);
/* Readable when links_turn has work. */
int links_fd(const struct redis_links *links);
/* When links_turn must be called next; INT64_MAX: no need. */
int64_t links_next_us(const struct redis_links *links);

/* Whether the link to the segment's present address is ready. */
bool links_ready(const struct redis_links *links, uint32_t segment);
/* Why the segment's link failed last; never NULL. */
const char *links_trouble(const struct redis_links *links, uint32_t segment);
/* Sums over all links, including closed ones. ret_ready: links that are ready. */
void links_count(const struct redis_links *links, struct link_numbers *ret_numbers,
                 uint32_t *ret_ready);

#endif
