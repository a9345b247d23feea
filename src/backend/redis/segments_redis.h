/*
 * port/segments.h on Redis, for the threads behind the fronts. An instance belongs to one thread
 * and has its own connections, made when needed: one to each server, and another to each for news.
 *
 * What the port leaves open:
 * - If a server does not answer within timeout_ms, the calls sent to it get SEGMENT_NOT_KNOWN, and
 *   the connection is closed. A new one is tried after a pause of 10 ms to 1 s; meanwhile calls get
 *   SEGMENT_NOT_ASKED at once. apply uses all servers at the same time. rebuild waits that long for
 *   each hundred steps. take and news may, in addition to wait_ms, wait for a server they use.
 * - The outbox is a stream with a consumer group. An entry belongs to `worker` until it is done. An
 *   entry that another worker has held for claim_ms is taken over. A worker that lost its
 *   connection gets all its entries once more.
 * - take returns ERR_IO once when a server goes away or was emptied, and continues with the others.
 * - If an event returns VERDICT_ALREADY_APPLIED with an order, the order already has that state and
 *   the cursor has not moved: as in core/gate.h, a SKIP with its number moves it.
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
    const char *prefix; /* prefix of every key */
    uint32_t timeout_ms;
    const char *worker;  /* the name at the outbox; the same after a restart */
    uint32_t claim_ms;   /* 0: 10 s */
    uint64_t outbox_max; /* entries of a segment, set by BEGIN; buys beyond are OVERLOADED. 0: no
                          * limit */
    struct clock_port *clock;
};

/* Strings are borrowed. No connection is made yet. ERR_INVALID, ERR_NOMEM, ERR_IO. */
int segments_redis_open(const struct segments_redis_options *options,
                        struct segments **ret_segments);
void segments_redis_close(struct segments *segments);

/*
 * Unlinks keys of older epochs of a segment, a limited number per call, if the segment is on this
 * server. 0: none left; ERR_AGAIN: call again; ERR_IO. After this instance has opened a segment,
 * look continues this by itself.
 */
int segments_redis_sweep(struct segments *segments, uint32_t segment, uint64_t *ret_unlinked);

/* Why the last connection to the segment's server failed or ended; never NULL. */
const char *segments_redis_trouble(struct segments *segments, uint32_t segment);

#endif
