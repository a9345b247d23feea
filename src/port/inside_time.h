/*
 * Inside time: the one clock the program decides with. It starts at the wall clock (or at the
 * highest time ever journalled, if that is later), advances with CLOCK_BOOTTIME, and is slewed
 * gently towards the wall clock. A jump of the wall clock is reported, not followed, so no sale
 * opens or expires because somebody set the clock. Any thread may read it; one thread slews it.
 */
#ifndef SLUICE_PORT_INSIDE_TIME_H
#define SLUICE_PORT_INSIDE_TIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "port/clock.h"

/* The most one slew corrects, and the difference above which the wall clock is not followed. */
#define SLEW_STEP_US 500
#define SLEW_JUMP_US 2000000

struct inside_time {
    struct clock_port *clock;
    _Atomic int64_t offset_us; /* inside = boot + offset */
    bool jumped;               /* a jump was reported and has not ended */
};

/* How far the wall clock may be from the last time known at a start. All 0: nothing is judged. */
struct clock_bounds {
    int64_t behind_ms;     /* further behind: refused */
    int64_t hold_ahead_ms; /* further ahead: doubted until it is confirmed */
    int64_t max_ahead_ms;  /* further ahead: refused */
};
enum clock_verdict { CLOCK_GOOD, CLOCK_DOUBTED, CLOCK_BEHIND, CLOCK_AHEAD };
/* known_ms: the last time known; 0: none, which is good. */
enum clock_verdict clock_judge(const struct clock_bounds *bounds, int64_t wall_ms,
                               int64_t known_ms);

void inside_time_init(struct inside_time *ret_time, struct clock_port *clock, int64_t floor_ms);
/* Before threads start: raises the time to at least floor_ms. */
void inside_time_raise(struct inside_time *time, int64_t floor_ms);
static inline int64_t inside_time_us(struct inside_time *time)
{
    return clock_boot_us(time->clock) +
           atomic_load_explicit(&time->offset_us, memory_order_relaxed);
}
static inline int64_t inside_time_ms(struct inside_time *time)
{
    return inside_time_us(time) / 1000;
}
/* Call about once a second. Moves at most SLEW_STEP_US towards the wall clock. Returns true when it
 * sees a jump for the first time; *ret_ahead_us is how far the wall clock is ahead. */
bool inside_time_slew(struct inside_time *time, int64_t *ret_ahead_us);

#endif
