/* See world.h: one seed. */
#include "world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "obs/log.h"

/* After healing: longer than any time to pay, any lease, any pause between two tries. */
#define BOUND_US 90000000
#define LOOK_EVERY_US 50000
#define STEPS_MAX 8000000

const char *sim_fault_text(enum sim_fault fault)
{
    static const char *const texts[] = {
#define X(name, text) [name] = text,
        SIM_FAULTS(X)
#undef X
    };
    return texts[fault];
}

void sim_ledger_clean(pid_t pid)
{
    (void)pid; /* this ledger has no files */
}

/* ---- drawing and notes ---- */

int64_t world_now_us(const struct world *world)
{
    return fibers_now_us(world->fibers);
}

uint64_t world_below(struct world *world, uint64_t bound)
{
    return prng_below(&world->prng, bound);
}

bool world_chance(struct world *world, uint32_t of_thousand)
{
    return of_thousand > 0 && world_below(world, 1000) < of_thousand;
}

int64_t world_between(struct world *world, int64_t low, int64_t high)
{
    return low + (int64_t)world_below(world, (uint64_t)(high - low) + 1);
}

int64_t world_about(struct world *world, int64_t mean_us)
{
    int64_t drawn = 1 + (int64_t)world_below(world, (uint64_t)mean_us * 2);
    return world_chance(world, 20) ? drawn * 10 : drawn;
}

static void hash_add(struct world *world, uint64_t value)
{
    uint64_t hash = (world->result->hash ^ value) * 0x9e3779b97f4a7c15ULL;
    world->result->hash = hash ^ hash >> 31;
}

static void note_print(FILE *file, int64_t at_us, const char *what, uint64_t a, uint64_t b,
                       uint64_t c)
{
    (void)fprintf(file, "%12.6f  %-40s %llu %llu %llu\n", (double)at_us / 1e6, what,
                  (unsigned long long)a, (unsigned long long)b, (unsigned long long)c);
}

void world_note(struct world *world, const char *what, uint64_t a, uint64_t b, uint64_t c)
{
    size_t at = world->notes_count++ % NOTES_KEPT;
    int64_t now_us = world_now_us(world);
    world->notes[at].at_us = now_us;
    world->notes[at].what = what;
    world->notes[at].a = a;
    world->notes[at].b = b;
    world->notes[at].c = c;
    for (const char *p = what; *p != '\0'; p++) {
        hash_add(world, (uint8_t)*p);
    }
    hash_add(world, (uint64_t)now_us);
    hash_add(world, a);
    hash_add(world, b);
    hash_add(world, c);
    if (world->options.trace) {
        note_print(stdout, now_us, what, a, b, c);
    }
}

void world_struck(struct world *world, enum sim_fault fault, uint64_t whom)
{
    world->result->faults[fault]++;
    world_note(world, sim_fault_text(fault), whom, 0, 0);
}

void world_broken(struct world *world, int promise, const char *format, ...)
{
    va_list arguments;
    if (world->result->broken) {
        return;
    }
    world->result->broken = true;
    world->result->promise = promise;
    va_start(arguments, format);
    (void)vsnprintf(world->result->what, sizeof(world->result->what), format, arguments);
    va_end(arguments);
    world_note(world, "BROKEN", (uint64_t)promise, 0, 0);
}

static void print_notes(const struct world *world)
{
    uint64_t from = world->notes_count > NOTES_KEPT ? world->notes_count - NOTES_KEPT : 0;
    for (uint64_t i = from; world->report != NULL && i < world->notes_count; i++) {
        size_t at = i % NOTES_KEPT;
        note_print(world->report, world->notes[at].at_us, world->notes[at].what, world->notes[at].a,
                   world->notes[at].b, world->notes[at].c);
    }
}

/* ---- the plan ---- */

static void draw_plan(struct world *world)
{
    struct plan *plan = &world->plan;
    uint32_t most = world->options.users_max > 0 && world->options.users_max < USERS_MOST
                        ? world->options.users_max
                        : USERS_MOST;
    plan->segments = 1 + (uint32_t)world_below(world, SEGMENTS_MOST);
    plan->users = 5 + (uint32_t)world_below(world, USERS_MOST - 4);
    plan->users = plan->users < most ? plan->users : most;
    plan->buys = 1 + (uint32_t)world_below(world, 6);
    static const uint32_t limits[ITEMS] = {1, 3, 0};
    for (uint32_t i = 0; i < ITEMS; i++) {
        plan->limits[i] = limits[i];
        plan->totals[i] = 1 + world_below(world, world_chance(world, 500) ? 12 : 80);
    }
    plan->pay_within_s = 2 + (uint32_t)world_below(world, 10);
    plan->bar_unpaid = world_chance(world, 300);
    plan->queue = world_chance(world, 850);
    plan->ends_us = world_between(world, 10000000, 40000000);
    plan->strikes_until_us = plan->ends_us + world_between(world, -5000000, 5000000);
    plan->strike_every_us = world_between(world, 300000, 4000000);
    plan->call_us = world_between(world, 50, 1500);
    plan->promise_resolver_us = world_between(world, 20000, 100000);
    plan->keeper_us = world_between(world, 50000, 200000);
    plan->claim_ms = world_between(world, 500, 5000);
    for (int i = 0; i < FAULT_COUNT; i++) { /* swarm: each seed has its own kinds */
        plan->faults |= (uint64_t)world_chance(world, 500) << i;
    }
    plan->faults &= world->options.faults_allowed;
    if (!plan->queue) {
        plan->faults &=
            ~(1ULL << FAULT_QUEUE_CUT | 1ULL << FAULT_QUEUE_DOWN | 1ULL << FAULT_QUEUE_UNSURE);
    }
    bool adds = (plan->faults >> FAULT_ADDED & 1) != 0;
    plan->first = adds ? 1 + (uint32_t)world_below(world, plan->segments) : plan->segments;
    world->count = plan->first;
}

/* What came later is drawn from a stream of its own: seeds without it keep their histories. */
static void draw_runtime_limits(struct world *world)
{
    static const int64_t stale_ms[] = {0, 0, 0, 1200, 5000, 25000};
    struct prng prng = prng_of(world->options.seed * 0x9e3779b97f4a7c15ULL + 7);
    static const int64_t rates[] = {0, 0, 3, 20, 200};
    world->plan.stale_ms = stale_ms[prng_below(&prng, 6)];
    world->plan.direct_outbox = (int64_t)prng_below(&prng, 30);
    world->plan.direct_rate = rates[prng_below(&prng, 5)];
    static const uint32_t patience[] = {20, 20, 2, 1, 0};
    world->plan.patience = patience[prng_below(&prng, 5)];
    world->plan.redrive_ms = 2000 + (int64_t)prng_below(&prng, 18000);
    world->plan.reconcile_bound_ms = 1500 + (int64_t)prng_below(&prng, 3000);
    world->plan.reconcile_every_ms = 1000 + (int64_t)prng_below(&prng, 8000);
    /* The database's clock, where clocks differ at all. */
    static const int64_t ledger_ahead_us[] = {0, 0, 3000000, -3000000, 30000000};
    world->plan.ledger_ahead_us = ledger_ahead_us[prng_below(&prng, 5)];
    world->plan.late_cancel_ms = (int64_t)prng_below(&prng, 3) * 3000;
    world->plan.cooling_ms = prng_below(&prng, 3) == 0 ? 500 + (int64_t)prng_below(&prng, 9000) : 0;
    if (prng_below(&prng, 3) == 0) { /* what is full is refused */
        world->plan.shares = (struct gate_shares){.buyer_orders = (uint32_t)prng_below(&prng, 3),
                                                  .item_orders = (uint32_t)prng_below(&prng, 12),
                                                  .sale_orders = (uint32_t)prng_below(&prng, 24),
                                                  .sale_buyers = (uint32_t)prng_below(&prng, 40)};
    }
}

static void decided(void *context, const struct gate_request *buy)
{
    promise_09_decided(context, buy);
}

static int64_t ask_delay_us(void *context)
{
    struct world *world = context;
    return world_about(world, world->plan.call_us);
}

static int64_t ledger_now_ms(void *context)
{
    return clock_wall_ms(&((struct world *)context)->ledger_clock.port);
}

static void open_world(struct world *world)
{
    static const uint32_t retry_s[] = {1, 2, 4};
    bool drift = (world->plan.faults >> FAULT_DRIFT & 1) != 0;
    world_clock_init(&world->clock, world, 0, 0);
    int64_t ledger_us = drift ? world_between(world, -80000, 80000) : 0;
    world_clock_init(&world->ledger_clock, world,
                     drift ? ledger_us + world->plan.ledger_ahead_us : 0, 0);
    world->segments =
        sim_segments_new((struct sim_segments_options){.segments = world->plan.segments,
                                                       .clock = &world->clock.port,
                                                       .claim_ms = world->plan.claim_ms,
                                                       .forget_max = 20,
                                                       .context = world,
                                                       .delay_us = ask_delay_us,
                                                       .decided = decided});
    world->broker = sim_broker_new(world_below(world, UINT64_MAX), retry_s, 3);
    sim_broker_time(world->broker, WORLD_NOW_MS);
    sim_broker_patience(world->broker, world->plan.patience);
    world->payments = sim_broker_new(world_below(world, UINT64_MAX), retry_s, 3);
    sim_broker_time(world->payments, WORLD_NOW_MS);
    world->events = sim_broker_new(world_below(world, UINT64_MAX), retry_s, 3);
    sim_broker_time(world->events, WORLD_NOW_MS);
    world_queue_init(&world->cashier, world, world->payments, true);
    world->cashier_parked = sim_queue_open(world->payments, false, 0, 0);
    memory_ledger_init_shared(&world->ledger, world->count);
    if (world->count > 1 && world_chance(world, 300)) {
        const char *why = "";
        CHECK(regions_parse("west 1-1100 0; east 1200- 1 2", world->count, &world->ledger.regions,
                            &why) == 0);
    }
    world->ledger.clock = ledger_now_ms;
    world->ledger.clock_context = world;
    model_init(&world->model);
    world->model.starts_ms = WORLD_NOW_MS + 1000;
    world->model.ends_ms = WORLD_NOW_MS + world->plan.ends_us / 1000;
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct process *process = &world->processes[i];
        ram_disk_init(&process->ram);
        world_clock_init(&process->clock, world, drift ? world_between(world, -60000, 60000) : 0,
                         drift ? world_between(world, -100, 100) : 0);
        if (drift) {
            world_struck(world, FAULT_DRIFT, i);
        }
        process_start(world, i);
    }
}

static void close_world(struct world *world)
{
    for (uint32_t i = 0; i < PROCESSES; i++) {
        process_kill(world, i, RAM_KEEP);
        ram_disk_done(&world->processes[i].ram);
    }
    fibers_free(world->fibers);
    sim_broker_free(world->broker);
    sim_queue_close(world->cashier.inner);
    sim_queue_close(world->cashier_parked);
    sim_broker_free(world->payments);
    sim_broker_free(world->events);
    sim_segments_free(world->segments);
    memory_ledger_done(&world->ledger);
    model_done(&world->model);
}

/* ---- the run ---- */

static void run(struct world *world)
{
    int64_t look_us = 0;
    int64_t settled_us = 0;
    while (!world->result->broken && fibers_step(world->fibers)) {
        int64_t now_us = world_now_us(world);
        sim_segments_run(world->segments);
        if (++world->result->steps > STEPS_MAX) {
            world_broken(world, 0, "no end after %d steps", STEPS_MAX);
        }
        if (now_us < look_us) {
            continue;
        }
        look_us = now_us + LOOK_EVERY_US;
        model_look(world);
        if (!world->healed) {
            continue;
        }
        bool settled = world->clients == 0 && model_is_settled(world);
        settled_us = !settled ? 0 : settled_us == 0 ? now_us : settled_us;
        if (settled && now_us - settled_us > 1000000 && !world->reconciles) {
            world->reconciles = true;
            reconcile_start(world);
        }
        if (settled && world->reconciled) {
            model_end(world);
            return;
        }
        if (now_us - world->model.healed_us > BOUND_US) {
            const char *left = promise_13_left(world);
            world_broken(world, 13, "%d s after the last fault there is left: %s",
                         BOUND_US / 1000000, left != NULL ? left : "a client without an answer");
        }
    }
}

static void count_states(struct world *world)
{
    for (size_t i = 0; i < world->ledger.orders_count; i++) {
        world->result->states[world->ledger.orders[i].state]++;
        world->result->orders++;
    }
}

void sim_run(const struct sim_options *options, struct sim_result *ret_result, void *report)
{
    struct world *world = calloc(1, sizeof(*world));
    CHECK(world != NULL);
    log_set_level(getenv("SIM_LOG") != NULL ? LOG_INFO : (enum log_level)(LOG_ERROR + 1));
    *ret_result = (struct sim_result){0};
    world->options = *options;
    world->result = ret_result;
    world->report = report;
    world->prng = prng_of(options->seed * 0x9e3779b97f4a7c15ULL);
    world->fibers = fibers_new();
    draw_plan(world);
    draw_runtime_limits(world);
    open_world(world);
    crowd_start(world);
    strike_start(world);
    run(world);
    count_states(world);
    ret_result->requests = world->requests;
    ret_result->virtual_us = (uint64_t)world_now_us(world);
    if (ret_result->broken) {
        print_notes(world);
    }
    close_world(world);
    free(world);
}
