/*
 * The server's clocks: a wall clock that somebody sets, and a boot clock that runs a little fast or
 * slow and starts anew with the machine.
 */
#include "sim_private.h"

static struct sim *sim_of(struct clock_port *clock)
{
    return ((struct sim_clock *)clock)->sim;
}

int64_t sim_clock_wall_ms(struct sim *sim)
{
    return SIM_EPOCH_MS + (sim->now_us + sim->clock.wall_offset_us) / 1000;
}

int64_t sim_clock_boot_us(struct sim *sim)
{
    const struct sim_clock *clock = &sim->clock;
    int64_t since = sim->now_us - clock->boot_since_us;
    return clock->boot_base_us + since + since * clock->drift_ppm / 1000000;
}

static int64_t op_wall_ms(struct clock_port *clock)
{
    return sim_clock_wall_ms(sim_of(clock));
}

static int64_t op_boot_us(struct clock_port *clock)
{
    return sim_clock_boot_us(sim_of(clock));
}

void sim_clock_reboot(struct sim *sim)
{
    sim->clock.boot_base_us = sim_between(sim, 1000000, 30000000);
    sim->clock.boot_since_us = sim->now_us;
}

void sim_clock_set(struct sim *sim, int64_t offset_us)
{
    sim->clock.wall_offset_us = offset_us;
    sim->clock.set_at_us = sim->now_us;
}

void sim_clock_init(struct sim *sim)
{
    static const struct clock_ops ops = {.wall_ms = op_wall_ms, .boot_us = op_boot_us};
    sim->clock = (struct sim_clock){
        .port = {&ops}, .sim = sim, .drift_ppm = sim->plan.drift_ppm, .boot_base_us = 5000000};
}
