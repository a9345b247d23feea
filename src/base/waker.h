/*
 * Wakes an event loop from other threads, only if it sleeps: waking a sleeping core costs more than
 * a whole request.
 *
 * The loop calls waker_sleepy(), checks for work once more, sleeps, and calls waker_awake(). Other
 * threads publish their work and then call waker_wake() (or waker_durable() when durable_lsn
 * moved). Either the loop sees the work in its last check, or the other thread sees that the loop
 * sleeps.
 */
#ifndef SLUICE_BASE_WAKER_H
#define SLUICE_BASE_WAKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct waker {
    _Atomic bool asleep;
    _Atomic uint64_t wants_lsn; /* the lowest lsn an answer waits for; UINT64_MAX: none */
    void (*wake)(void *context);
    void *context;
};

static inline void waker_init(struct waker *waker, void (*wake)(void *context), void *context)
{
    atomic_init(&waker->asleep, false);
    atomic_init(&waker->wants_lsn, UINT64_MAX);
    waker->wake = wake;
    waker->context = context;
}
static inline void waker_sleepy(struct waker *waker, uint64_t wants_lsn)
{
    atomic_store(&waker->wants_lsn, wants_lsn);
    atomic_store(&waker->asleep, true);
    atomic_thread_fence(memory_order_seq_cst); /* before the last check */
}
static inline void waker_awake(struct waker *waker)
{
    atomic_store(&waker->asleep, false);
}
static inline void waker_wake(struct waker *waker)
{
    atomic_thread_fence(memory_order_seq_cst); /* after the work was published */
    if (atomic_load(&waker->asleep) && atomic_exchange(&waker->asleep, false)) {
        waker->wake(waker->context);
    }
}
static inline void waker_durable(struct waker *waker, uint64_t durable_lsn)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&waker->asleep) && atomic_load(&waker->wants_lsn) <= durable_lsn) {
        waker_wake(waker);
    }
}

#endif
