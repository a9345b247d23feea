/* The ring and the heap of bench_queue.h. If there is no memory, the tool ends. */
#include "bench/bench_queue.h"

#include <stdlib.h>

#include "bench/bench.h"

void request_ring_push(struct request_ring *ring, const struct bench_request *request)
{
    if (ring->count == ring->cap) {
        size_t cap = ring->cap == 0 ? 64 : ring->cap * 2;
        struct bench_request *slots = bench_grow(NULL, cap * sizeof(*slots));
        for (size_t i = 0; i < ring->count; i++) {
            slots[i] = ring->slots[(ring->head + i) & (ring->cap - 1)];
        }
        free(ring->slots);
        ring->slots = slots;
        ring->cap = cap;
        ring->head = 0;
    }
    ring->slots[(ring->head + ring->count) & (ring->cap - 1)] = *request;
    ring->count++;
}

bool request_ring_pop(struct request_ring *ring, struct bench_request *ret_request)
{
    if (ring->count == 0) {
        return false;
    }
    *ret_request = ring->slots[ring->head];
    ring->head = (ring->head + 1) & (ring->cap - 1);
    ring->count--;
    return true;
}

void request_ring_done(struct request_ring *ring)
{
    free(ring->slots);
    *ring = (struct request_ring){0};
}

static bool timer_before(const struct request_timer *a, const struct request_timer *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->sequence < b->sequence;
}

void request_heap_push(struct request_heap *heap, int64_t at_ns,
                       const struct bench_request *request)
{
    if (heap->count == heap->cap) {
        heap->cap = heap->cap == 0 ? 64 : heap->cap * 2;
        heap->timers = bench_grow(heap->timers, heap->cap * sizeof(*heap->timers));
    }
    struct request_timer timer = {at_ns, heap->sequence++, *request};
    size_t at = heap->count++;
    while (at > 0 && timer_before(&timer, &heap->timers[(at - 1) / 2])) {
        heap->timers[at] = heap->timers[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->timers[at] = timer;
}

bool request_heap_pop(struct request_heap *heap, int64_t now_ns, struct bench_request *ret_request)
{
    if (heap->count == 0 || heap->timers[0].at_ns > now_ns) {
        return false;
    }
    *ret_request = heap->timers[0].request;
    struct request_timer last = heap->timers[--heap->count];
    size_t at = 0;
    for (;;) {
        size_t child = at * 2 + 1;
        if (child >= heap->count) {
            break;
        }
        if (child + 1 < heap->count &&
            timer_before(&heap->timers[child + 1], &heap->timers[child])) {
            child++;
        }
        if (!timer_before(&heap->timers[child], &last)) {
            break;
        }
        heap->timers[at] = heap->timers[child];
        at = child;
    }
    heap->timers[at] = last;
    return true;
}

int64_t request_heap_next_ns(const struct request_heap *heap)
{
    return heap->count == 0 ? INT64_MAX : heap->timers[0].at_ns;
}

void request_heap_done(struct request_heap *heap)
{
    free(heap->timers);
    *heap = (struct request_heap){0};
}
