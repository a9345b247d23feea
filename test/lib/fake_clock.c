/* See fake_clock.h. */
#include "fake_clock.h"

static int64_t wall_ms(struct clock_port *port)
{
    return atomic_load(&((struct fake_clock *)port)->wall_us) / 1000;
}

static int64_t boot_us(struct clock_port *port)
{
    return atomic_load(&((struct fake_clock *)port)->boot_us);
}

static const struct clock_ops ops = {.wall_ms = wall_ms, .boot_us = boot_us};

void fake_clock_init(struct fake_clock *ret_clock, int64_t start_wall_ms)
{
    ret_clock->port.ops = &ops;
    atomic_init(&ret_clock->wall_us, start_wall_ms * 1000);
    atomic_init(&ret_clock->boot_us, 5000000); /* the machine was started before the program */
}

void fake_clock_pass_us(struct fake_clock *clock, int64_t us)
{
    atomic_fetch_add(&clock->wall_us, us);
    atomic_fetch_add(&clock->boot_us, us);
}

void fake_clock_pass_ms(struct fake_clock *clock, int64_t ms)
{
    fake_clock_pass_us(clock, ms * 1000);
}

void fake_clock_set_wall_us(struct fake_clock *clock, int64_t wall_us)
{
    atomic_store(&clock->wall_us, wall_us);
}
