/*
 * How far the distributed engine gives way when parts of it fail: settings that an operator may turn
 * while it runs. Whoever reloads the configuration writes them; the stages read them each time they
 * count, so a new value is in force with the next buy, the next round. Any thread.
 */
#ifndef SLUICE_FLOW_RUNTIME_LIMITS_H
#define SLUICE_FLOW_RUNTIME_LIMITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct runtime_limits {
    _Atomic int64_t line;     /* buyers in line at a front while the gate is away */
    _Atomic int64_t line_ms;  /* how long each of them may stand there */
    _Atomic int64_t stale_ms; /* a decision that was not booked for so long fails; 0: never */
    _Atomic int64_t direct_after_ms; /* how long the queue may be away; INT64_MAX: for ever */
    _Atomic int64_t direct_outbox;   /* nor with so many decisions in one outbox; 0: no bound */
    _Atomic int64_t direct_rate;     /* of one relay, decisions a second; 0: as fast as it can */
};

/* Whether a buyer who asked then has waited too long for his booking. */
static inline bool runtime_limits_is_stale(const struct runtime_limits *runtime_limits,
                                           int64_t asked_ms, int64_t now_ms)
{
    int64_t stale_ms = atomic_load(&runtime_limits->stale_ms);
    return stale_ms > 0 && now_ms - asked_ms > stale_ms;
}

#endif
