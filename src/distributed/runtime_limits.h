/*
 * Limits of the distributed engine for the time when parts of it fail. An operator can change them
 * at run time. The thread that reloads the configuration writes them. The stages read them at each
 * use, so a new value applies to the next buy or the next iteration. Any thread.
 */
#ifndef SLUICE_DISTRIBUTED_RUNTIME_LIMITS_H
#define SLUICE_DISTRIBUTED_RUNTIME_LIMITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct runtime_limits {
    _Atomic int64_t line;     /* most buyers in line at a front while the gate is away */
    _Atomic int64_t line_ms;  /* how long each of them may wait there */
    _Atomic int64_t stale_ms; /* a decision not booked for this long fails; 0: never */
    /* Book directly if the queue is away for longer than this; INT64_MAX: never. */
    _Atomic int64_t direct_after_ms;
    /* Or if it is away and an outbox holds more decisions than this; 0: no bound. */
    _Atomic int64_t direct_outbox;
    _Atomic int64_t direct_rate; /* of one relay, direct bookings a second; 0: no limit */
};

/* True if a buyer who asked at asked_ms has waited too long for his booking. */
static inline bool runtime_limits_is_stale(const struct runtime_limits *runtime_limits,
                                           int64_t asked_ms, int64_t now_ms)
{
    int64_t stale_ms = atomic_load(&runtime_limits->stale_ms);
    return stale_ms > 0 && now_ms - asked_ms > stale_ms;
}

#endif
