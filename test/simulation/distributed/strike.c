/* See world.h: faults, drawn one after the other until the world heals. */
#include "base/check.h"
#include "world.h"

static uint32_t some_segment(struct world *world)
{
    return (uint32_t)world_below(world, world->count);
}

/* ---- processes ---- */

static void kill_some(struct world *world)
{
    static const enum ram_crash hows[] = {RAM_DROP, RAM_KEEP, RAM_MIX};
    uint32_t index = (uint32_t)world_below(world, PROCESSES);
    enum ram_crash how = hows[world_below(world, 3)];
    world_struck(world, FAULT_KILL, index);
    process_kill(world, index, how);
    (void)fiber_sleep(world_about(world, 400000));
    process_start(world, index);
    world->result->restarts++;
}

static void kill_in_disk(struct world *world)
{
    struct process *process = &world->processes[world_below(world, PROCESSES)];
    uint64_t lives = process->lives;
    if (!process->up) {
        return;
    }
    world_struck(world, FAULT_DISK_DIES, process->index);
    process->ram.dead_at = process->ram.ops + 1 + world_below(world, 6);
    for (int i = 0; i < 400 && !journal_failed(process->parts.journal); i++) {
        (void)fiber_sleep(5000);
    }
    (void)fiber_sleep(world_between(world, 0, 1000000)); /* it goes on without its journal */
    CHECK(process->lives == lives);
    process_kill(world, process->index, world_chance(world, 500) ? RAM_DROP : RAM_MIX);
    (void)fiber_sleep(world_about(world, 200000));
    process_start(world, process->index);
    world->result->restarts++;
}

/* Starts with a clock that is hours to years off. The start is refused or waits; then somebody sets the
 * clock right. */
static void far_clock(struct world *world)
{
    static const int64_t far_s[] = {7200, 86400, 86400 * 365LL, 86400 * 3650LL};
    struct process *process = &world->processes[world_below(world, PROCESSES)];
    int64_t ahead_us = process->clock.ahead_us;
    int64_t off_us = far_s[world_below(world, 4)] * 1000000;
    if (world->ledger.events_count == 0) {
        return; /* no time is known to anybody */
    }
    world_struck(world, FAULT_FAR_CLOCK, process->index);
    process_kill(world, process->index, RAM_DROP);
    process->clock.ahead_us = ahead_us + (world_chance(world, 700) ? off_us : -off_us);
    process_start(world, process->index);
    world->result->restarts++;
    (void)fiber_sleep(world_about(world, 2000000));
    if (process->up) {
        world_broken(world, 10, "process %u has started with a clock %lld s off", process->index,
                     (long long)(process->clock.ahead_us / 1000000));
    }
    process->clock.ahead_us = ahead_us;
}

static void stand_still(struct world *world)
{
    uint32_t index = (uint32_t)world_below(world, PROCESSES);
    int64_t us = world_chance(world, 300) ? world_between(world, 5000000, 9000000)
                                          : world_between(world, 1000, 2000000);
    world_struck(world, FAULT_STILL, index);
    fibers_hold(world->fibers, index + 1, world_now_us(world) + us);
    if (world_chance(world, 500)) {
        (void)fiber_sleep(us);
    }
}

/* The gate gets more segments: processes know them from their next start on, one after the other. */
static void add_segments(struct world *world)
{
    uint32_t first = (uint32_t)world_below(world, PROCESSES);
    if (world->count == world->plan.segments) {
        return;
    }
    world->count += 1 + (uint32_t)world_below(world, world->plan.segments - world->count);
    world_struck(world, FAULT_ADDED, world->count);
    world->ledger.segments = world->count;
    for (uint32_t i = 0; i < PROCESSES; i++) {
        uint32_t index = (first + i) % PROCESSES;
        process_kill(world, index, RAM_DROP);
        (void)fiber_sleep(world_about(world, 200000));
        process_start(world, index);
        world->result->restarts++;
        (void)fiber_sleep(world_about(world, 1500000)); /* old and new beside each other */
    }
}

/* ---- segments ---- */

static void fail_over(struct world *world)
{
    uint32_t segment = some_segment(world);
    world_struck(world, FAULT_FAILOVER, segment);
    model_forgets(world, segment);
    (void)sim_segments_failover(world->segments, segment, (uint32_t)world_below(world, 20));
}

static void empty(struct world *world)
{
    uint32_t segment = some_segment(world);
    world_struck(world, FAULT_EMPTIED, segment);
    model_forgets(world, segment);
    sim_segments_empty(world->segments, segment);
}

static void go_away(struct world *world)
{
    uint32_t segment = some_segment(world);
    world_struck(world, FAULT_AWAY, segment);
    sim_segments_away(world->segments, segment, true);
    (void)fiber_sleep(world_about(world, 1500000));
    if (world_chance(world, 300)) { /* and another took its place */
        world_struck(world, FAULT_FAILOVER, segment);
        model_forgets(world, segment);
        (void)sim_segments_failover(world->segments, segment, (uint32_t)world_below(world, 20));
    }
    sim_segments_away(world->segments, segment, false);
}

static void lose_answers(struct world *world)
{
    uint32_t segment = some_segment(world);
    world_struck(world, FAULT_GATE_LOST, segment);
    sim_segments_lose(world->segments, segment, 1 + (uint32_t)world_below(world, 4));
}

static void break_gate(struct world *world)
{
    uint32_t segment = some_segment(world);
    if (sim_segments_break(world->segments, segment, 11 + world_below(world, ITEMS))) {
        world_struck(world, FAULT_GATE_BROKEN, segment);
        model_forgets(world, segment);
        world->model.broken_epoch[segment] = sim_segments_epoch(world->segments, segment);
    }
}

static void lose_news(struct world *world)
{
    world_struck(world, FAULT_NEWS_LOST, 0);
    sim_segments_lose_news(world->segments);
}

/* ---- queue and ledger ---- */

static void cut_queue(struct world *world)
{
    world_struck(world, FAULT_QUEUE_CUT, 0);
    sim_broker_cut(world->broker);
    sim_broker_cut(world->payments);
    sim_broker_cut(world->events);
}

static void queue_down(struct world *world)
{
    int64_t ms = world_between(world, 10, 6000);
    world_struck(world, FAULT_QUEUE_DOWN, 0);
    sim_broker_down(world->broker, clock_wall_ms(&world->clock.port) + ms);
    sim_broker_down(world->payments, clock_wall_ms(&world->clock.port) + ms);
    sim_broker_down(world->events, clock_wall_ms(&world->clock.port) + ms);
}

static void queue_unsure(struct world *world)
{
    struct sim_queue_faults faults = {.duplicate = 200,
                                      .reorder = 200,
                                      .lose_message = 100,
                                      .lose_confirm = 100,
                                      .lose_settle = 50,
                                      .outcome_ms = 50};
    world_struck(world, FAULT_QUEUE_UNSURE, 0);
    sim_broker_faults(world->broker, &faults);
    sim_broker_faults(world->payments, &faults);
    faults.lose_message = 0; /* an exchange whose queue refuses events may reorder them */
    sim_broker_faults(world->events, &faults);
    (void)fiber_sleep(world_about(world, 2000000));
    sim_broker_faults(world->broker, &(struct sim_queue_faults){0});
    sim_broker_faults(world->payments, &(struct sim_queue_faults){0});
    sim_broker_faults(world->events, &(struct sim_queue_faults){0});
}

static void ledger_down(struct world *world)
{
    world_struck(world, FAULT_LEDGER_DOWN, 0);
    world->ledger_down_until_us = world_now_us(world) + world_about(world, 1000000);
}

static void ledger_slow(struct world *world)
{
    world_struck(world, FAULT_LEDGER_SLOW, 0);
    world->ledger_slow_until_us = world_now_us(world) + world_about(world, 2000000);
}

static void ledger_loses(struct world *world)
{
    world->ledger_lose = 300; /* counted where it happens */
    (void)fiber_sleep(world_about(world, 1000000));
    world->ledger_lose = 0;
}

/* ---- drawing ---- */

static void (*const strikes[FAULT_COUNT])(struct world *world) = {
    [FAULT_KILL] = kill_some,          [FAULT_DISK_DIES] = kill_in_disk,
    [FAULT_STILL] = stand_still,       [FAULT_FAILOVER] = fail_over,
    [FAULT_EMPTIED] = empty,           [FAULT_AWAY] = go_away,
    [FAULT_GATE_LOST] = lose_answers,  [FAULT_GATE_BROKEN] = break_gate,
    [FAULT_NEWS_LOST] = lose_news,     [FAULT_QUEUE_CUT] = cut_queue,
    [FAULT_QUEUE_DOWN] = queue_down,   [FAULT_QUEUE_UNSURE] = queue_unsure,
    [FAULT_LEDGER_DOWN] = ledger_down, [FAULT_LEDGER_LOST] = ledger_loses,
    [FAULT_LEDGER_SLOW] = ledger_slow, [FAULT_ADDED] = add_segments,
    [FAULT_FAR_CLOCK] = far_clock,
};

/* One of these at a time; what lasts longer than its strike goes on beside the next. */
static void run_strikes(void *context)
{
    struct world *world = context;
    (void)fiber_sleep(world_between(world, 0, 3000000));
    while (world_now_us(world) < world->plan.strikes_until_us) {
        uint32_t kind = (uint32_t)world_below(world, FAULT_COUNT);
        if ((world->plan.faults >> kind & 1) != 0 && strikes[kind] != NULL) {
            strikes[kind](world);
            (void)fiber_sleep(world_about(world, world->plan.strike_every_us));
        } else {
            (void)fiber_sleep(world_between(world, 1000, 10000));
        }
    }
    if (world->result->restarts == 0 && (world->options.faults_allowed >> FAULT_KILL & 1) != 0) {
        kill_some(world); /* no history without one */
    }
    while (world->count < world->plan.segments) {
        add_segments(world);
    }
    strike_heal(world);
}

void strike_start(struct world *world)
{
    (void)fiber_start(world->fibers, 0, run_strikes, world);
}

void strike_heal(struct world *world)
{
    world->ledger_down_until_us = world->ledger_slow_until_us = 0;
    world->ledger_lose = 0;
    for (uint32_t s = 0; s < world->plan.segments; s++) {
        sim_segments_away(world->segments, s, false);
        sim_segments_lose(world->segments, s, 0);
    }
    for (uint32_t i = 0; i < PROCESSES; i++) {
        fibers_hold(world->fibers, i + 1, 0);
    }
    sim_broker_faults(world->broker, &(struct sim_queue_faults){0});
    sim_broker_faults(world->payments, &(struct sim_queue_faults){0});
    sim_broker_faults(world->events, &(struct sim_queue_faults){0});
    sim_broker_down(world->broker, 0);
    sim_broker_down(world->payments, 0);
    sim_broker_down(world->events, 0);
    /* An operator sends parked payments again. What is parked after that cannot be applied. */
    uint64_t redriven = 0;
    (void)redrive(world->cashier_parked, UINT64_MAX, NULL, &redriven);
    world->healed = true;
    world->model.healed_us = world_now_us(world);
    world_note(world, "healed", 0, 0, 0);
}
