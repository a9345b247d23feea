/*
 * Waiting requests: a ring (in order, for a free connection) and a heap (by time, for delayed
 * retries). Both grow as needed and belong to one thread.
 */
#ifndef SLUICE_BENCH_BENCH_QUEUE_H
#define SLUICE_BENCH_BENCH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_job;

/* One request of a job. */
struct bench_request {
    struct bench_job *job;
    int64_t due_ns;  /* when it should have been sent: its latency starts here */
    int64_t sent_ns; /* when it was sent */
    uint8_t step;    /* enum bench_step */
    int8_t known;    /* the order state its client knew when it was sent, or ANSWER_NONE */
    bool duplicate;  /* a repetition of the same buy: its answer is checked and has no effect on the
                      * job */
    bool drop;       /* cut the connection as soon as it is sent */
};

struct request_ring {
    struct bench_request *slots;
    size_t cap; /* a power of two, or 0 */
    size_t head;
    size_t count;
};

void request_ring_push(struct request_ring *ring, const struct bench_request *request);
bool request_ring_pop(struct request_ring *ring, struct bench_request *ret_request);
void request_ring_done(struct request_ring *ring);

struct request_timer {
    int64_t at_ns;
    uint64_t sequence; /* keeps the order of equal times */
    struct bench_request request;
};

struct request_heap {
    struct request_timer *timers;
    size_t cap;
    size_t count;
    uint64_t sequence;
};

void request_heap_push(struct request_heap *heap, int64_t at_ns,
                       const struct bench_request *request);
/* The earliest, if it is due. */
bool request_heap_pop(struct request_heap *heap, int64_t now_ns, struct bench_request *ret_request);
/* INT64_MAX: empty. */
int64_t request_heap_next_ns(const struct request_heap *heap);
void request_heap_done(struct request_heap *heap);

#endif
