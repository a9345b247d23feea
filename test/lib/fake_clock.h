/* A clock that stands still until a test moves it. Any thread may read it. */
#ifndef SLUICE_TEST_FAKE_CLOCK_H
#define SLUICE_TEST_FAKE_CLOCK_H

#include <stdatomic.h>

#include "port/clock.h"

struct fake_clock {
    struct clock_port port;
    _Atomic int64_t wall_us;
    _Atomic int64_t boot_us;
};

void fake_clock_init(struct fake_clock *ret_clock, int64_t wall_ms);
/* Time passes: both clocks move. */
void fake_clock_pass_us(struct fake_clock *clock, int64_t us);
void fake_clock_pass_ms(struct fake_clock *clock, int64_t ms);
/* Somebody sets the wall clock. */
void fake_clock_set_wall_us(struct fake_clock *clock, int64_t wall_us);

#endif
