/*
 * The links of one loop (or of one thread): one to each master that the topology knows. A segment's
 * calls go to the link of its present address.
 *
 * What changes under way: when the topology says so, new calls go to the new address, and a link
 * that nobody needs any more is closed once nothing is in flight on it. MOVED: the topology is told,
 * and the call is sent to the node named; ASK: it is sent there once, behind ASKING. Both only over
 * a link that is ready; otherwise the call is told REDIS_NOT_ASKED, and the link is made for the
 * next one. A link that fails makes the topology look again.
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
    /* Of each link: host, port, user, password, epoll, seed and router are filled in. */
    struct link_config link;
    uint64_t seed; /* of the jitter */
};

struct redis_links;

/* The strings of config are borrowed. ERR_IO, ERR_NOMEM. */
int links_new(const struct links_config *config, struct redis_links **ret_links);
/* Calls in flight are told REDIS_NOT_KNOWN. */
void links_free(struct redis_links *links); /* NULL is fine */

/* 0: sent with the next flush. ERR_CLOSED: nobody to ask; ERR_FULL: too many in flight there. */
int links_send(struct redis_links *links, uint32_t segment, struct redis_op *op, int64_t now_us);
/* One write for each link that has something. */
void links_flush(struct redis_links *links);
/* Sends, reads, follows the topology, connects and gives up by time. Does not wait. */
void links_turn(struct redis_links *links, int64_t now_us);
/* Readable when links_turn has something to do. */
int links_fd(const struct redis_links *links);
/* Turn again by then; INT64_MAX: no need. */
int64_t links_next_us(const struct redis_links *links);

/* The link to the segment's present address is ready. */
bool links_ready(const struct redis_links *links, uint32_t segment);
/* Why the segment's link failed last; never NULL. */
const char *links_trouble(const struct redis_links *links, uint32_t segment);
/* Sums; those of links closed since, too. ret_ready: links that are. */
void links_count(const struct redis_links *links, struct link_numbers *ret_numbers,
                 uint32_t *ret_ready);

#endif
