/*
 * port/segments.h on Redis, for the threads behind the fronts. An instance is for one thread and has
 * connections of its own, made when they are needed: one to each server, and one more to each for
 * news.
 *
 * What the port leaves open:
 * - A server that does not answer within timeout_ms costs the calls sent to it their answers
 *   (SEGMENT_NOT_KNOWN) and the connection; a new one is tried after a pause of 10 ms to 1 s, and
 *   meanwhile calls say SEGMENT_NOT_ASKED at once. apply asks all servers at the same time. rebuild
 *   waits that long for each hundred steps, not for all of them; take and news, besides wait_ms, for
 *   a server they ask or connect to.
 * - The outbox is a stream with a consumer group; an entry belongs to `worker` until it is done. An
 *   entry that another worker has had for claim_ms without being done is taken over. A worker that
 *   lost its connection gets all it holds once more.
 * - take says ERR_IO once when a server goes away or was emptied, and goes on with the others.
 * - Where an event says VERDICT_ALREADY_APPLIED with an order, the order is in that state already and the
 *   cursor has not moved: as in core/gate.h, a SKIP with its number moves it.
 */
#ifndef SLUICE_BACKEND_REDIS_SEGMENTS_REDIS_H
#define SLUICE_BACKEND_REDIS_SEGMENTS_REDIS_H

#include "backend/redis/topology.h"
#include "port/clock.h"
#include "port/segments.h"

#define REDIS_WORKER_MAX 64

struct segments_redis_options {
    struct redis_topology *topology; /* where the segments are; outlives the instance */
    uint32_t segments;
    const char *prefix; /* of every key */
    uint32_t timeout_ms;
    const char *worker;  /* who takes from the outbox: the same name after a restart */
    uint32_t claim_ms;   /* 0: 10 s */
    uint64_t outbox_max; /* entries of a segment, written by BEGIN; buys past it are OVERLOADED. 0:
                          * no bound */
    struct clock_port *clock;
};

/* Strings are borrowed. Connects nowhere yet. ERR_INVALID, ERR_NOMEM, ERR_IO. */
int segments_redis_open(const struct segments_redis_options *options,
                        struct segments **ret_segments);
void segments_redis_close(struct segments *segments);

/*
 * Unlinks keys that older epochs of a segment left behind, so many at most in one call; of a segment
 * that is this server's only. 0: none are left; ERR_AGAIN: call again; ERR_IO. look goes on with it
 * by itself after this instance has opened the segment.
 */
int segments_redis_sweep(struct segments *segments, uint32_t segment, uint64_t *ret_unlinked);

/* Why the last connection to the segment's server failed or ended; never NULL. */
const char *segments_redis_trouble(struct segments *segments, uint32_t segment);

#endif
