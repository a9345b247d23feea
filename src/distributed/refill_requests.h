/*
 * Refill requests: units that buyers want and their home segment lacks, although other segments
 * have them. The loops tell who begins to wait and who is answered; the segment monitor takes what
 * is wanted and has units sent.
 *
 * There is one entry for each item and segment. What it asks for is the sum of all that waits there,
 * plus a forecast: as many units as came to be wanted in the busier of the last two periods of
 * REFILL_PERIOD_MS. So the next buyers find units, and a rush does not wait for a transfer after
 * each handful. Units that were granted are expected until buyers have taken as many, for at most
 * REFILL_TRANSIT_MS; more are asked for only if more buyers wait than units are expected.
 *
 * What can go wrong: more than REFILL_REQUESTS_MAX entries. Then a buyer is not counted; he asks
 * again, and is counted once there is room. Units that were granted and did not come (the source
 * had fewer) are asked for again after REFILL_TRANSIT_MS.
 *
 * Any thread.
 */
#ifndef SLUICE_DISTRIBUTED_REFILL_REQUESTS_H
#define SLUICE_DISTRIBUTED_REFILL_REQUESTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REFILL_REQUESTS_MAX 256
#define REFILL_PERIOD_MS 250
#define REFILL_TRANSIT_MS 150

/* What a home wants now. */
struct refill {
    uint64_t item;
    uint32_t segment;
    uint64_t waiting;  /* units that buyers wait for */
    uint64_t forecast; /* units that will soon be wanted */
    uint64_t expected; /* units that were granted and are on their way */
    uint64_t least;    /* the smallest quantity that a buyer wants */
};

struct refill_entry {
    struct refill refill;
    int64_t expected_until_ms;
    int64_t period_ms;    /* when the present period began */
    uint64_t came;        /* units that came to be wanted in it */
    uint64_t came_before; /* and in the one before */
};

struct refill_requests {
    pthread_mutex_t lock;
    _Atomic size_t count; /* changed under the lock */
    struct refill_entry list[REFILL_REQUESTS_MAX];
};

void refill_requests_init(struct refill_requests *ret_refill_requests);
void refill_requests_done(struct refill_requests *refill_requests);

/* A buyer begins to wait. False: there is no room; he is not counted. */
bool refill_requests_wait(struct refill_requests *refill_requests, uint32_t segment, uint64_t item,
                          uint64_t units);
/* A buyer who was counted waits no longer: he got his units, or not. */
void refill_requests_leave(struct refill_requests *refill_requests, uint32_t segment, uint64_t item,
                           uint64_t units, bool got);
/* A buyer got units at once. Costs one load while nobody waits anywhere. */
void refill_requests_got(struct refill_requests *refill_requests, uint32_t segment, uint64_t item,
                         uint64_t units);

/* What homes want that have buyers waiting: at most REFILL_REQUESTS_MAX. One thread. */
size_t refill_requests_take(struct refill_requests *refill_requests, int64_t now_ms,
                            struct refill *ret_list);
/* Units were granted to this home. */
void refill_requests_granted(struct refill_requests *refill_requests, const struct refill *refill,
                             uint64_t units, int64_t now_ms);

#endif
