/* See plan.h. */
#include "plan.h"

#include <string.h>

#include "base/check.h"
#include "sim_private.h"

/* ---- sizes and habits ---- */

static void draw_sale(struct sim *sim, struct plan_sale *sale, uint32_t number)
{
    int64_t length_ms = sim->plan.length_us / 1000;
    static const uint32_t limits[] = {1, 1, 2, 5, 0};
    *sale = (struct plan_sale){
        .id = number + 1,
        .starts_ms =
            SIM_EPOCH_MS + sim_between(sim, -2000, sim_chance(sim, 700) ? 500 : length_ms / 3),
        .pay_within_s = (uint32_t)sim_between(sim, 1, sim_chance(sim, 200) ? 30 : 8),
        .bar_unpaid = sim_chance(sim, 300),
        .opens_by_itself = sim_chance(sim, 600),
        .items_count = (uint32_t)sim_between(sim, 1, SIM_ITEMS_MAX),
    };
    sale->ends_ms = sim_chance(sim, 700)
                        ? SIM_EPOCH_MS + length_ms * 2 + 20000
                        : sale->starts_ms + sim_between(sim, length_ms / 3 + 500, length_ms * 2);
    for (uint32_t i = 0; i < sale->items_count; i++) {
        sale->items[i] = (struct plan_item){
            .id = (uint64_t)(number + 1) * 100 + i,
            .price_cents = (uint32_t)sim_between(sim, 1, 100000),
            .limit = limits[sim_below(sim, 5)],
            .total = (uint32_t)sim_between(sim, 1, sim_chance(sim, 400) ? 20 : 400),
        };
    }
}

static uint32_t habit(struct sim *sim, uint32_t most)
{
    return sim_chance(sim, 250) ? 0 : (uint32_t)sim_below(sim, most + 1);
}

static void draw_habits(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    plan->pay = habit(sim, 900);
    plan->cancel = habit(sim, 400);
    plan->late = habit(sim, 400);
    plan->hasty = habit(sim, 300);
    plan->again = habit(sim, 500);
    plan->other_qty = habit(sim, 100);
    plan->watch = habit(sim, 400);
    plan->poll = habit(sim, 600);
    plan->look = habit(sim, 300);
    plan->cheat = habit(sim, 100);
    plan->operate = habit(sim, 150);
    plan->my_orders = habit(sim, 100);
    plan->qty_max = (uint32_t)sim_between(sim, 1, 6);
}

/* Swarm testing: a seed in which everything goes wrong at once hides what one fault alone shows. */
static void draw_faults(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    plan->faults = prng_next(&sim->prng);
    plan->faults |= 1ULL << (sim_chance(sim, 500) ? FAULT_POWER : FAULT_KILL);
    plan->faults &= sim->options.faults_allowed & ((1ULL << FAULT_COUNT) - 1);
    plan->net_us = sim_fault_on(sim, FAULT_NET_DELAY) ? sim_between(sim, 1000, 30000)
                                                      : sim_between(sim, 20, 400);
    plan->cut = sim_fault_on(sim, FAULT_NET_CUT) ? habit(sim, 60) : 0;
    plan->split = sim_fault_on(sim, FAULT_NET_SPLIT) ? habit(sim, 300) : 0;
    plan->twice = sim_fault_on(sim, FAULT_NET_TWICE) ? habit(sim, 200) : 0;
    plan->lost = sim_fault_on(sim, FAULT_NET_LOST) ? habit(sim, 60) : 0;
    plan->stall = sim_fault_on(sim, FAULT_NET_STALL) ? habit(sim, 60) : 0;
    plan->drift_ppm = sim_fault_on(sim, FAULT_DRIFT) ? sim_between(sim, -400, 400) : 0;
    plan->ledger_lost = (uint32_t)sim_between(sim, 50, 800);
    plan->ledger_slow = (uint32_t)sim_between(sim, 50, 1000);
}

/* What came later is drawn from a stream of its own: seeds without it keep their histories. */
static void draw_later(struct sim *sim)
{
    struct prng prng = prng_of(sim->options.seed * 0x9e3779b97f4a7c15ULL + 7);
    bool counts_late = prng_below(&prng, 2) == 0;
    sim->plan.late_cancel_ms = counts_late ? 100 + (int64_t)prng_below(&prng, 8000) : 0;
    bool cools = prng_below(&prng, 4) == 0;
    sim->plan.cooling_ms = cools ? 100 + (int64_t)prng_below(&prng, 6000) : 0;
}

void plan_draw(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    draw_faults(sim);
    draw_later(sim);
    plan->users = (uint32_t)sim_between(sim, 3, sim_chance(sim, 500) ? 30 : SIM_USERS_MAX);
    plan->clients = (uint32_t)sim_between(sim, 4, SIM_CLIENTS_MAX);
    plan->loops = (uint32_t)sim_between(sim, 1, SIM_LOOPS_MAX);
    plan->requests = (uint32_t)sim_between(sim, 2000, sim_chance(sim, 100) ? 5000 : 2400);
    plan->length_us = sim_between(sim, 3000000, sim_chance(sim, 150) ? 90000000 : 30000000);
    plan->turn_us = sim_between(sim, 5, 200);
    plan->disk_us =
        sim_chance(sim, 200) ? sim_between(sim, 1000, 20000) : sim_between(sim, 50, 800);
    plan->ledger_writer_us = sim_between(sim, 100, 5000);
    plan->janitor_us = sim_between(sim, 20000, 400000);
    plan->interleave = (uint32_t)sim_below(sim, 500);
    plan->sqlite = sim_chance(sim, 150);
    plan->tick_ms = (uint32_t)sim_between(sim, 5, 200);
    plan->batch_max = (uint32_t)sim_between(sim, 1, sim_chance(sim, 300) ? 5 : 300);
    /* Mostly sales are forgotten long after the end of the seed. */
    plan->board_keep_ms = sim_chance(sim, 800) ? 86400000 : sim_between(sim, 500, 10000);
    plan->sizes = (struct gate_sizes){.orders = 8192, .buyers = 4096, .items = 16, .sales = 8};
    if (sim_chance(sim, 150)) { /* what is full is refused */
        plan->sizes.orders = (uint32_t)sim_between(sim, 20, 300);
        plan->sizes.buyers = (uint32_t)sim_between(sim, 10, 200);
    }
    /* Orders that are final leave a small gate. */
    bool narrow = sim_chance(sim, 300);
    if (narrow && sim_chance(sim, 700)) {
        plan->sizes.orders = (uint32_t)sim_between(sim, 40, 400);
    }
    plan->shares = (struct gate_percents){100, 100, 100};
    if (narrow) {
        plan->shares.buyer = (uint32_t)sim_between(sim, 1, 40);
        plan->shares.item = (uint32_t)sim_between(sim, 10, 100);
        plan->shares.sale = (uint32_t)sim_between(sim, 30, 100);
        plan->reads_fail = sim_fault_on(sim, FAULT_LEDGER_DOWN) ? habit(sim, 300) : 0;
    }
    plan->file_bytes = (uint64_t)JOURNAL_SECTOR << sim_between(sim, 3, 6);
    plan->reserve_bytes = (sim->options.seed & 1) != 0 ? 2 * plan->file_bytes : 0;
    plan->buffer_bytes = (uint32_t)sim_between(sim, 2, 5) * JOURNAL_SECTOR;
    draw_habits(sim);
    plan->sales_count = (uint32_t)sim_between(sim, 1, SIM_SALES_MAX);
    for (uint32_t i = 0; i < plan->sales_count; i++) {
        draw_sale(sim, &plan->sales[i], i);
    }
    if (sim->options.users_max != 0 && plan->users > sim->options.users_max) {
        plan->users = sim->options.users_max;
        plan->clients = plan->clients < plan->users + 1 ? plan->clients : plan->users + 1;
    }
    if (sim->options.requests_max != 0 && plan->requests > sim->options.requests_max) {
        plan->length_us = plan->length_us * sim->options.requests_max / plan->requests;
        plan->requests = sim->options.requests_max;
    }
    plan->think_us = plan->length_us / plan->requests * plan->clients;
    if (plan->drift_ppm != 0) {
        sim_fault_happened(sim, FAULT_DRIFT);
    }
    if (sim_fault_on(sim, FAULT_NET_DELAY)) {
        sim_fault_happened(sim, FAULT_NET_DELAY);
    }
}

/* ---- faults at their times ---- */

static void ledger_up(struct sim *sim, uint32_t unused, uint64_t a)
{
    (void)unused;
    (void)a;
    sim->writer.down = sim->reader.down = false;
    sim_disturb(sim, 8000000); /* the ledger writer tries again with growing pauses */
    sim_note(sim, "the ledger is back", 0, 0, 0);
}

static void ledger_well(struct sim *sim, uint32_t unused, uint64_t a)
{
    (void)unused;
    (void)a;
    sim->writer.lose = sim->writer.delay = 0;
    sim_disturb(sim, 8000000);
}

static void disk_space(struct sim *sim, uint32_t unused, uint64_t a)
{
    (void)unused;
    (void)a;
    sim->disk.space = 0;
    sim_disturb(sim, 2000000); /* the janitor makes its files first */
}

static uint64_t disk_used(const struct sim *sim)
{
    uint64_t used = 0;
    for (size_t i = 0; i < sim->disk.model.now.count; i++) {
        size_t size = 0;
        (void)ram_disk_bytes((struct ram_disk *)&sim->disk, sim->disk.model.now.entries[i].name,
                             &size);
        used += size;
    }
    return used;
}

static void strike_ledger(struct sim *sim, enum sim_fault fault)
{
    /* Now and then longer than a few journal files and snapshots. */
    int64_t for_us = sim_between(sim, 10000, sim_chance(sim, 200) ? 20000000 : 3000000);
    if (fault == FAULT_LEDGER_DOWN) {
        sim->writer.down = true;
        sim->reader.down = sim_chance(sim, 500);
        (void)sim_after(sim, for_us, "ledger", ledger_up, 0, 0);
    } else {
        *(fault == FAULT_LEDGER_LOST ? &sim->writer.lose : &sim->writer.delay) =
            fault == FAULT_LEDGER_LOST ? sim->plan.ledger_lost : sim->plan.ledger_slow;
        (void)sim_after(sim, for_us, "ledger", ledger_well, 0, 0);
    }
    sim_disturb(sim, for_us + 8000000);
}

static void strike_clock(struct sim *sim)
{
    static const int64_t widths[] = {1000000, 5000000, 60000000, INT64_C(86400000000)};
    int64_t width = widths[sim_below(sim, 4)];
    sim_fault_happened(sim, FAULT_WALL_JUMP);
    sim_clock_set(sim, sim_chance(sim, 300)
                           ? 0
                           : sim->clock.wall_offset_us + sim_between(sim, -width, width));
}

/* Hours to years, either way, while the server is down. */
static void strike_far_clock(struct sim *sim)
{
    static const int64_t far[] = {7200, 86400, 86400 * 30LL, 86400 * 365LL, 86400 * 3650LL};
    int64_t offset_us = sim_between(sim, 1, 1000) * far[sim_below(sim, 5)] * 1000;
    sim_fault_happened(sim, FAULT_FAR_CLOCK);
    process_kill(sim);
    sim_clock_set(sim, sim_chance(sim, 700) ? offset_us : -offset_us);
    process_start_later(sim, sim_about(sim, 50000));
}

static void strike_process(struct sim *sim, enum sim_fault fault)
{
    switch (fault) {
    case FAULT_KILL:
        sim_fault_happened(sim, fault);
        process_kill(sim);
        process_start_later(sim, sim_about(sim, 50000));
        return;
    case FAULT_POWER:
        sim_fault_happened(sim, fault);
        process_power_cut(sim);
        process_start_later(sim, sim_about(sim, 100000));
        return;
    case FAULT_DIES_STARTING:
        sim_fault_happened(sim, FAULT_POWER);
        process_power_cut(sim);
        sim->disk_dies_at = sim->disk.ops + 1 + sim_below(sim, 60);
        process_start_later(sim, sim_about(sim, 100000));
        return;
    case FAULT_DIES_IN_DISK:
        sim->disk_dies_at = sim->disk.ops + 1 + sim_below(sim, 40);
        return;
    default:
        process_stop(sim);
        return;
    }
}

static void strike(struct sim *sim, uint32_t fault, uint64_t a)
{
    (void)a;
    if (sim->healed) {
        return;
    }
    if (sim->process.state != PROCESS_UP) { /* not yet: another fault is being dealt with */
        (void)sim_after(sim, sim_about(sim, 50000), "a fault", strike, fault, 0);
        return;
    }
    switch (fault) {
    case FAULT_KILL:
    case FAULT_POWER:
    case FAULT_DIES_STARTING:
    case FAULT_DIES_IN_DISK:
    case FAULT_STOP:
        strike_process(sim, fault);
        return;
    case FAULT_DISK_WRITE:
    case FAULT_DISK_SYNC:
    case FAULT_DISK_NAME:
        sim->disk_fail = (int)fault;
        return;
    case FAULT_DISK_FULL:
        sim_fault_happened(sim, FAULT_DISK_FULL);
        sim->disk.space = disk_used(sim) + 1 + sim_below(sim, 16384);
        (void)sim_after(sim, sim_between(sim, 100000, 3000000), "space", disk_space, 0, 0);
        return;
    case FAULT_LEDGER_DOWN:
    case FAULT_LEDGER_LOST:
    case FAULT_LEDGER_SLOW:
        strike_ledger(sim, fault);
        return;
    case FAULT_WALL_JUMP:
        strike_clock(sim);
        return;
    case FAULT_FAR_CLOCK:
        strike_far_clock(sim);
        return;
    case FAULT_PAUSE:
        sim_fault_happened(sim, FAULT_PAUSE);
        sim->process.paused_until_us[sim_below(sim, 5)] =
            sim->now_us + sim_between(sim, 5000, 2000000);
        return;
    default:
        CHECK(false);
    }
}

void plan_faults(struct sim *sim)
{
    static const uint32_t kinds[] = {
        FAULT_KILL,      FAULT_POWER,       FAULT_DIES_STARTING, FAULT_DIES_IN_DISK,
        FAULT_STOP,      FAULT_DISK_WRITE,  FAULT_DISK_SYNC,     FAULT_DISK_NAME,
        FAULT_DISK_FULL, FAULT_LEDGER_DOWN, FAULT_LEDGER_LOST,   FAULT_LEDGER_SLOW,
        FAULT_WALL_JUMP, FAULT_PAUSE,       FAULT_FAR_CLOCK,
    };
    const struct plan *plan = &sim->plan;
    uint32_t on[sizeof(kinds) / sizeof(kinds[0])];
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (sim_fault_on(sim, kinds[i])) {
            on[count++] = kinds[i];
        }
    }
    int64_t shots = sim_between(sim, 3, 12);
    for (int64_t i = 0; count > 0 && i < shots; i++) {
        uint32_t kind = on[sim_below(sim, count)];
        /* The first three surely happen, and one of them starts from disk. */
        if (i < 3) {
            kind = sim_fault_on(sim, FAULT_POWER) ? FAULT_POWER : FAULT_KILL;
        }
        int64_t at = sim_between(sim, plan->length_us / 20, plan->length_us);
        if (sim_fault_on(sim, (enum sim_fault)kind)) {
            (void)sim_after(sim, at, "a fault", strike, kind, 0);
        }
    }
}
