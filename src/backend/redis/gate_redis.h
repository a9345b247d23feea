/*
 * The gate on Redis for fronts: port/gate.h, answered by the scripts of lua/. Ledger events go
 * through segments_redis.h. Every loop has its own connection set, with one pipelined connection to
 * each server. A request goes to request->segment, which the caller sets.
 *
 * An iteration of a loop: gate_collect() takes the answers; gate_submit() returns GATE_PENDING and
 * puts a call into the connection set's buffer; gate_flush() sends all calls with one write per
 * server, before the loop sleeps. The loop wakes when redis_gate_fd() is readable, or at the time
 * that gate_flush() returned.
 *
 * What the outcome of a request means here:
 *   GATE_OUTCOME_AWAY     no Redis to ask. Mostly submit says so at once.
 *   GATE_OUTCOME_FULL     too many calls in flight; submit says so at once.
 *   GATE_OUTCOME_UNKNOWN  asked and not answered; or the segment is another than expected (epoch,
 *                         run id) or is being rebuilt: the same ticket tells, later. Or its epoch is
 *                         not known: submit says so at once.
 * Nothing here waits for a journal: lsn is 0, and the caller makes it durable before it promises.
 *
 * Threads: a connection set is used by its loop only; gate_place() by any thread.
 */
#ifndef SLUICE_BACKEND_REDIS_GATE_REDIS_H
#define SLUICE_BACKEND_REDIS_GATE_REDIS_H

#include "backend/redis/codec.h"
#include "backend/redis/topology.h"
#include "port/clock.h"
#include "port/gate.h"

struct redis_gate_config {
    struct redis_topology *topology; /* where the segments are; outlives the gate */
    uint32_t segments;               /* SEGMENTS_MAX at most */
    uint32_t loops;
    const char *prefix; /* prefix of every key */
    uint32_t connect_timeout_ms;
    uint32_t call_timeout_ms;
    uint32_t retry_min_ms;
    uint32_t retry_max_ms;
    uint32_t in_flight_max; /* of one loop to one node; a call costs about 100 bytes */
    uint64_t seed;          /* of the jitter */
    uint32_t
        wait_replicas; /* a buy that was decided is answered once so many have it. 0: at once */
    uint32_t wait_timeout_ms; /* else its outcome is unknown after this */
    struct clock_port *clock;
};

struct redis_gate_numbers {
    uint32_t ready; /* nodes */
    uint64_t not_known;
    uint64_t stale;
    struct link_numbers links; /* sums */
};

struct redis_gate;

/* Strings are borrowed. It connects when the loops collect. ERR_INVALID, ERR_NOMEM, ERR_IO. */
int redis_gate_new(const struct redis_gate_config *config, struct redis_gate **ret_gate);
/* After the loops have ended. Calls in flight are not answered. */
void redis_gate_free(struct redis_gate *gate);
struct gate_port *redis_gate_port(struct redis_gate *gate);

/* Whether the link to the segment's server is ready. */
bool redis_gate_ready(const struct redis_gate *gate, uint32_t loop, uint32_t segment);

/* Readable when there is something to collect. */
int redis_gate_fd(const struct redis_gate *gate, uint32_t loop);
void redis_gate_count(const struct redis_gate *gate, uint32_t loop,
                      struct redis_gate_numbers *ret_numbers);
/* Why the last connection to the segment's server failed; never NULL. */
const char *redis_gate_trouble(const struct redis_gate *gate, uint32_t loop, uint32_t segment);

#endif
