/*
 * Refill requests: units that buyers want and their home segment lacks, although other segments
 * have them. The loops add requests; the promise resolver takes them and asks for transfers. There
 * is one request for each item and segment, for the largest number of units wanted. Requests beyond
 * REFILL_REQUESTS_MAX are dropped; buyers ask again. Any thread.
 */
#ifndef SLUICE_DISTRIBUTED_REFILL_REQUESTS_H
#define SLUICE_DISTRIBUTED_REFILL_REQUESTS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define REFILL_REQUESTS_MAX 256

struct refill {
    uint64_t item;
    uint32_t segment;
    uint64_t units;
};

struct refill_requests {
    pthread_mutex_t lock;
    size_t count;
    struct refill list[REFILL_REQUESTS_MAX];
};

void refill_requests_init(struct refill_requests *ret_refill_requests);
void refill_requests_done(struct refill_requests *refill_requests);
void refill_requests_add(struct refill_requests *refill_requests, uint32_t segment, uint64_t item,
                         uint64_t units);
/* Takes all requests, at most REFILL_REQUESTS_MAX, and leaves none. */
size_t refill_requests_take(struct refill_requests *refill_requests, struct refill *ret_list);

#endif
