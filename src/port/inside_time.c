/* See inside_time.h. */
#include "port/inside_time.h"

enum clock_verdict clock_judge(const struct clock_bounds *bounds, int64_t wall_ms, int64_t known_ms)
{
    if (bounds->max_ahead_ms == 0 || known_ms == 0) {
        return CLOCK_GOOD;
    }
    if (wall_ms < known_ms - bounds->behind_ms) {
        return CLOCK_BEHIND;
    }
    if (wall_ms > known_ms + bounds->max_ahead_ms) {
        return CLOCK_AHEAD;
    }
    return wall_ms > known_ms + bounds->hold_ahead_ms ? CLOCK_DOUBTED : CLOCK_GOOD;
}

void inside_time_init(struct inside_time *ret_time, struct clock_port *clock, int64_t floor_ms)
{
    int64_t start_ms = clock_wall_ms(clock);
    if (start_ms < floor_ms) {
        start_ms = floor_ms;
    }
    ret_time->clock = clock;
    ret_time->jumped = false;
    atomic_init(&ret_time->offset_us, start_ms * 1000 - clock_boot_us(clock));
}

void inside_time_raise(struct inside_time *time, int64_t floor_ms)
{
    int64_t behind_us = floor_ms * 1000 - inside_time_us(time);
    if (behind_us > 0) {
        atomic_fetch_add(&time->offset_us, behind_us);
    }
}

bool inside_time_slew(struct inside_time *time, int64_t *ret_ahead_us)
{
    int64_t ahead_us = clock_wall_ms(time->clock) * 1000 - inside_time_us(time);
    if (ahead_us > SLEW_JUMP_US || ahead_us < -SLEW_JUMP_US) {
        bool first = !time->jumped;
        time->jumped = true;
        *ret_ahead_us = ahead_us;
        return first;
    }
    time->jumped = false;
    int64_t step = ahead_us > SLEW_STEP_US    ? SLEW_STEP_US
                   : ahead_us < -SLEW_STEP_US ? -SLEW_STEP_US
                                              : ahead_us;
    atomic_fetch_add_explicit(&time->offset_us, step, memory_order_relaxed);
    return false;
}
