/*
 * What buyers want and their home segment does not have, though others do: loops note it, promise resolver
 * takes it and asks for a transfer. A refill request for an item at a segment is one refill request, of the largest
 * number wanted; beyond a bound they are forgotten, buyers ask again. Any thread.
 */
#ifndef SLUICE_FLOW_REFILL_REQUESTS_H
#define SLUICE_FLOW_REFILL_REQUESTS_H

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
/* All of them, at most REFILL_REQUESTS_MAX; none are left. */
size_t refill_requests_take(struct refill_requests *refill_requests, struct refill *ret_list);

#endif
