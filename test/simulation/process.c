/*
 * The server under test: the parts of app/assembly.h on the simulated ports, its threads as events
 * on the heap. Each thread's turn is the real one; what a thread would sleep is time on the heap,
 * and what would wake it brings its event forward. The ledger writer's turns run on a fiber, which
 * sleeps inside a slow write.
 *
 * A kill frees the parts and nothing else: what calls were under way is lost with the process (a
 * worker of the driver lives for a limited number of seeds, so that this does not add up).
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "digest.h"
#include "embedded/gate_content.h"
#include "sim_private.h"

#define LOOP_SLEEP_US 1000000
#define DRAIN_US 5000000
/* Between two looks whether a slow write has its answer. */
#define SLOW_LOOK_US 1000
/* Between two attempts to write a batch that waits for space. */
#define SPACE_PAUSE_US 50000
/* Between two looks at a clock that is doubted. */
#define CLOCK_LOOK_US 500000

enum { PAUSED_LOOPS, PAUSED_JOURNAL, PAUSED_LEDGER_WRITER, PAUSED_LEDGER_READER, PAUSED_JANITOR };

static struct sim *running; /* whose threads sched_yield lets run */

static void run_turn(struct sim *sim, uint32_t loop, uint64_t generation);
static void run_flush(struct sim *sim, uint32_t unused, uint64_t generation);
static void run_ledger_writer(struct sim *sim, uint32_t unused, uint64_t generation);
static void run_ledger_reader(struct sim *sim, uint32_t unused, uint64_t generation);
static void run_janitor(struct sim *sim, uint32_t unused, uint64_t generation);
static void died(struct sim *sim);

/* ---- scheduling ---- */

static int64_t not_paused(struct sim *sim, int thread, int64_t delay_us)
{
    int64_t until = sim->process.paused_until_us[thread];
    return until > sim->now_us + delay_us ? until - sim->now_us : delay_us;
}

void process_turn_soon(struct sim *sim, uint32_t number, int64_t delay_us)
{
    struct sim_loop *loop = &sim->loops[number];
    if (sim->process.state == PROCESS_DOWN || loop->ended) {
        return;
    }
    delay_us = not_paused(sim, PAUSED_LOOPS, delay_us);
    int64_t at = sim->now_us + delay_us;
    if (at < loop->turn_at_us) {
        loop->turn_at_us = at;
        (void)sim_after(sim, delay_us, "turn", run_turn, number, sim->process.generation);
    }
}

static void ledger_writer_soon(struct sim *sim, int64_t delay_us)
{
    struct process *process = &sim->process;
    delay_us = not_paused(sim, PAUSED_LEDGER_WRITER, delay_us);
    if (sim->now_us + delay_us < process->ledger_writer_at_us) {
        process->ledger_writer_at_us = sim->now_us + delay_us;
        (void)sim_after(sim, delay_us, "ledger writer", run_ledger_writer, 0, process->generation);
    }
}

/* Whatever a step left to do for the journal's thread. */
static void flush_soon(struct sim *sim)
{
    struct process *process = &sim->process;
    struct journal *journal = process->parts->journal;
    if (process->flush_event == 0 && !journal_failed(journal) &&
        journal_last_lsn(journal) > journal_durable_lsn(journal)) {
        bool waits = journal_space(journal) == JOURNAL_SPACE_NONE;
        int64_t delay = not_paused(sim, PAUSED_JOURNAL,
                                   sim_about(sim, waits ? SPACE_PAUSE_US : sim->plan.disk_us));
        process->flush_event = sim_after(sim, delay, "flush", run_flush, 0, process->generation);
    }
}

static void step_done(struct sim *sim)
{
    struct process *process = &sim->process;
    sim->result.steps++;
    if (process->nested) {
        return;
    }
    if (process->dead) {
        died(sim);
        return;
    }
    struct referee_view view;
    bool up = process->state != PROCESS_DOWN;
    if (up) {
        process_view(sim, &view);
    }
    bool paused = false;
    for (size_t i = 0; i < 5; i++) {
        paused = paused || process->paused_until_us[i] > sim->now_us;
    }
    bool disturbed = paused || sim->now_us < sim->disturbed_until_us || sim->writer.down ||
                     sim->writer.waiting || (up && view.failed) ||
                     process->state == PROCESS_DRAINING ||
                     (up && journal_space(process->parts->journal) != JOURNAL_SPACE_OK);
    referee_step(sim->referee, up ? &view : NULL, sim_clock_boot_us(sim), disturbed);
}

static bool is_now(const struct sim *sim, uint64_t generation)
{
    return sim->process.state != PROCESS_DOWN && sim->process.generation == generation &&
           !sim->process.dead;
}

/* ---- threads ---- */

static void stopped(struct sim *sim);

static void take_turn(struct sim *sim, struct sim_loop *loop)
{
    struct waker *waker = &sim->process.parts->wakers[loop->number];
    loop->turn_at_us = INT64_MAX;
    if (loop->slept) {
        waker_awake(waker);
        loop->slept = false;
    }
    bool more = api_worker_iterate(sim->process.parts->workers[loop->number], LOOP_SLEEP_US);
    sim_gate_count(sim);
    if (!more) {
        loop->ended = true;
        sim_note(sim, "a loop has drained", loop->number, 0, 0);
    } else if (loop->slept) {
        waker_sleepy(waker, loop->wants_lsn);
        process_turn_soon(sim, loop->number, loop->sleep_us);
    } else {
        process_turn_soon(sim, loop->number, sim_about(sim, sim->plan.turn_us));
        ledger_writer_soon(sim, sim_about(sim, sim->plan.ledger_writer_us));
        if (sim->process.ledger_reader_event == 0) {
            int64_t delay =
                not_paused(sim, PAUSED_LEDGER_READER, sim_about(sim, sim->plan.ledger_writer_us));
            sim->process.ledger_reader_event = sim_after(
                sim, delay, "ledger reader", run_ledger_reader, 0, sim->process.generation);
        }
    }
    flush_soon(sim);
}

static void run_turn(struct sim *sim, uint32_t number, uint64_t generation)
{
    struct sim_loop *loop = &sim->loops[number];
    if (!is_now(sim, generation) || loop->ended || loop->turn_at_us != sim->now_us) {
        return;
    }
    take_turn(sim, loop);
    step_done(sim);
    if (sim->process.state == PROCESS_DRAINING) {
        bool all = true;
        for (uint32_t i = 0; i < sim->plan.loops; i++) {
            all = all && sim->loops[i].ended;
        }
        if (all) {
            stopped(sim);
        }
    }
}

/* Either a loop sees in its last look that its LSN is durable, or it is woken. */
static void check_woken(struct sim *sim)
{
    uint64_t durable = journal_durable_lsn(sim->process.parts->journal);
    for (uint32_t i = 0; i < sim->plan.loops; i++) {
        const struct sim_loop *loop = &sim->loops[i];
        if (loop->slept && !loop->ended && loop->wants_lsn <= durable &&
            loop->turn_at_us > sim->now_us + 1 &&
            loop->turn_at_us > sim->process.paused_until_us[PAUSED_LOOPS]) {
            sim_broken(sim, 3,
                       "loop %u sleeps although LSN %llu, which an answer waits for, is durable", i,
                       (unsigned long long)loop->wants_lsn);
        }
    }
}

static void flush(struct sim *sim)
{
    struct process *process = &sim->process;
    bool wrote = false;
    bool busy = process->busy;
    process->busy = true;
    int error = journal_flush(process->parts->journal, &wrote);
    process->busy = busy;
    sim_note(sim, "flushed", journal_durable_lsn(process->parts->journal), (uint64_t)-error, 0);
    if (!process->dead && error == 0) {
        check_woken(sim);
    }
}

/* A failed journal heals by a restart, which the operator does. */
static void restart_failed(struct sim *sim, uint32_t unused, uint64_t generation)
{
    (void)unused;
    if (!is_now(sim, generation)) {
        return;
    }
    sim->disk.space = 0;
    switch (sim_below(sim, 3)) {
    case 0:
        sim_fault_happened(sim, FAULT_KILL);
        process_kill(sim);
        break;
    case 1:
        sim_fault_happened(sim, FAULT_POWER);
        process_power_cut(sim);
        break;
    default:
        process_stop(sim);
        return;
    }
    process_start_later(sim, sim_about(sim, 100000));
}

static void run_flush(struct sim *sim, uint32_t unused, uint64_t generation)
{
    (void)unused;
    struct process *process = &sim->process;
    if (!is_now(sim, generation)) {
        return;
    }
    process->flush_event = 0;
    flush(sim);
    if (!process->dead) {
        if (process_latched(sim) && !process->was_latched) {
            process->was_latched = true;
            sim_note(sim, "the journal has failed", 0, 0, 0);
            (void)sim_after(sim, sim_about(sim, 400000), "restart after the failure",
                            restart_failed, 0, generation);
        }
        flush_soon(sim);
        ledger_writer_soon(sim, sim_about(sim, sim->plan.ledger_writer_us));
    }
    step_done(sim);
}

static void writer_iterate(void *context)
{
    struct process *process = context;
    process->ledger_writer_sleep_us = 0;
    ledger_writer_iterate(process->parts->ledger_writer, &process->ledger_writer_sleep_us);
    process->ledger_writer = NULL;
}

static void writer_finish(void *context)
{
    struct process *process = context;
    ledger_writer_run(process->parts->ledger_writer);
    process->ledger_writer = NULL;
}

/* Runs the ledger writer's fiber until it has come to its end, or to a slow write. False: such a
 * write goes on. */
static bool writer_step(struct sim *sim, void (*run)(void *context))
{
    struct process *process = &sim->process;
    if (process->ledger_writer == NULL) {
        process->ledger_writer = fiber_start(sim->fibers, 0, run, process);
    } else if (sim->now_us < sim->writer.due_us) {
        return false;
    } else {
        fiber_wake(process->ledger_writer, 0);
    }
    process->ledger_writer_inside = true;
    CHECK(fibers_step(sim->fibers));
    process->ledger_writer_inside = false;
    return process->ledger_writer == NULL;
}

/* The process has ended: nobody waits for the answer any more. */
static void writer_give_up(struct sim *sim)
{
    fibers_kill(sim->fibers, 0);
    sim->process.ledger_writer = NULL;
    sim->writer.waiting = false;
}

static void take_ledger_writer_iterate(struct sim *sim)
{
    struct process *process = &sim->process;
    bool was_waiting = sim->writer.waiting;
    process->ledger_writer_at_us = INT64_MAX;
    bool done = writer_step(sim, writer_iterate);
    int64_t sleep_us = done ? process->ledger_writer_sleep_us : was_waiting ? SLOW_LOOK_US : 0;
    if (!process->dead) {
        flush_soon(sim);
        ledger_writer_soon(sim,
                           sleep_us > 0 ? sleep_us : sim_about(sim, sim->plan.ledger_writer_us));
    }
}

static void run_ledger_writer(struct sim *sim, uint32_t unused, uint64_t generation)
{
    (void)unused;
    if (!is_now(sim, generation) || sim->process.ledger_writer_at_us != sim->now_us) {
        return;
    }
    take_ledger_writer_iterate(sim);
    step_done(sim);
}

static void run_ledger_reader(struct sim *sim, uint32_t unused, uint64_t generation)
{
    (void)unused;
    if (is_now(sim, generation)) {
        sim->process.ledger_reader_event = 0;
        ledger_reader_iterate(sim->process.parts->ledger_reader);
        ledger_reader_iterate(sim->process.parts->operator_reader);
    }
}

static void run_janitor(struct sim *sim, uint32_t unused, uint64_t generation)
{
    (void)unused;
    struct process *process = &sim->process;
    if (!is_now(sim, generation)) {
        return;
    }
    process->busy = true;
    janitor_iterate(&process->parts->janitor);
    process->busy = false;
    if (!process->dead) {
        int64_t delay = not_paused(sim, PAUSED_JANITOR, sim_about(sim, sim->plan.janitor_us));
        (void)sim_after(sim, delay, "janitor", run_janitor, 0, generation);
        flush_soon(sim);
    }
    step_done(sim);
}

void process_interleave(struct sim *sim)
{
    struct process *process = &sim->process;
    if (!process->busy || process->nested || process->state != PROCESS_UP || process->dead ||
        !sim_chance(sim, sim->plan.interleave)) {
        return;
    }
    process->nested = true;
    struct sim_loop *loop = &sim->loops[sim_below(sim, sim->plan.loops)];
    if (sim_chance(sim, 700)) {
        sim_note(sim, "meanwhile a turn", loop->number, 0, 0);
        take_turn(sim, loop);
    } else if (!process->ledger_writer_inside && journal_has_room(process->parts->journal, 1500)) {
        sim_note(sim, "meanwhile the ledger writer", 0, 0, 0);
        take_ledger_writer_iterate(sim);
    }
    process->nested = false;
}

/* The ledger writer lets the journal's thread run when the journal's buffer is full. */
int sched_yield(void)
{
    if (running == NULL) { /* a sanitizer's, at the end of the program */
        return 0;
    }
    CHECK(running->process.parts != NULL);
    sim_note(running, "the ledger writer waits for the journal", 0, 0, 0);
    flush(running);
    return 0;
}

bool process_latched(const struct sim *sim)
{
    return sim->process.state != PROCESS_DOWN && journal_failed(sim->process.parts->journal);
}

void process_view(struct sim *sim, struct referee_view *ret_view)
{
    const struct assembly *parts = sim->process.parts;
    *ret_view = (struct referee_view){.gate = &parts->gate,
                                      .last_lsn = journal_last_lsn(parts->journal),
                                      .durable_lsn = journal_durable_lsn(parts->journal),
                                      .failed = journal_failed(parts->journal)};
}

/* ---- start ---- */

static void wake_loop(void *context)
{
    net_wake(context);
}

/* Promise 12: recovering from the same disk gives the same, however often. */
static void recover_twice(struct sim *sim, struct ram_disk *copy, uint64_t expected)
{
    const struct assembly_options *options = &sim->process.parts->options;
    for (int i = 0; i < 2; i++) {
        struct gate gate;
        struct journal *journal = NULL;
        struct journal_found found;
        void *memory = calloc(1, gate_bytes(options->sizes));
        CHECK(memory != NULL);
        gate_init(&gate, options->sizes, memory, 7 + (uint64_t)i);
        int error = gate_content_open(&copy->disk, options->journal, &gate, &journal, &found);
        if (error != 0) {
            sim_broken(sim, 12, "recovery %d of the same disk fails with %d: %s %s", i, error,
                       found.where, found.why);
        } else if (gate_digest(&gate) != expected) {
            sim_broken(sim, 12, "recovery %d of the same disk gives another gate", i);
        }
        journal_free(journal);
        free(memory);
    }
}

static int open_parts(struct sim *sim)
{
    struct assembly *parts = sim->process.parts;
    const struct plan *plan = &sim->plan;
    struct assembly_options options = {.sizes = plan->sizes,
                                       .shares = plan->shares,
                                       .journal = {.file_bytes = plan->file_bytes,
                                                   .buffer_bytes = plan->buffer_bytes,
                                                   .reserve_bytes = plan->reserve_bytes},
                                       .clock = {.bounds = referee_clock_bounds,
                                                 .confirm_ms = REFEREE_CONFIRM_MS,
                                                 .accept = sim->process.accept_clock},
                                       .ledger_writer = {.batch_max = plan->batch_max,
                                                         .cooling_ms = plan->cooling_ms,
                                                         .tick_ms = plan->tick_ms,
                                                         .board_keep_ms = plan->board_keep_ms},
                                       .loops = plan->loops};
    struct ram_disk *copy = NULL;
    if (sim_chance(sim, 300) && sim->disk_dies_at == 0 && sim->disk_fail < 0 &&
        sim->disk.space == 0) {
        copy = calloc(1, sizeof(*copy));
        CHECK(copy != NULL);
        ram_disk_copy(&sim->disk, copy);
    }
    parts->start_clock = sim->process.start_clock;
    int error = assembly_open(parts, &options, &sim->disk.disk, &sim->clock.port);
    if (copy != NULL && error == 0 && !sim->process.dead) {
        recover_twice(sim, copy, gate_digest(&parts->gate));
    }
    if (copy != NULL) {
        ram_disk_done(copy);
        free(copy);
    }
    if (error == 0) {
        error = assembly_join(parts, &sim->writer.port, &sim->reader.port, &sim->reader.port);
        sim->process.start_clock =
            error == ERR_AGAIN ? parts->start_clock : (struct start_clock){0};
    }
    return error == 0 ? assembly_catch_up(parts) : error;
}

static int start_parts(struct sim *sim)
{
    struct process *process = &sim->process;
    process->parts = calloc(1, sizeof(*process->parts));
    process->settings = calloc(1, sizeof(*process->settings));
    CHECK(process->parts != NULL && process->settings != NULL);
    struct api_shared *shared = &process->parts->shared;
    *process->settings = sim->settings;
    atomic_store(&shared->settings, process->settings);
    shared->tokens_remembered = 32;
    int error = open_parts(sim);
    if (error == 0) {
        sim_gate_start(sim);
    }
    for (uint32_t i = 0; error == 0 && i < sim->plan.loops; i++) {
        error =
            assembly_worker(process->parts, i, &sim->loops[i].net, wake_loop, &sim->loops[i].net);
    }
    if (error == 0) {
        assembly_ready(process->parts);
    }
    return error;
}

static uint64_t excuses(const struct sim *sim)
{
    const uint64_t *faults = sim->result.faults;
    return faults[FAULT_DISK_WRITE] + faults[FAULT_DISK_SYNC] + faults[FAULT_DISK_NAME] +
           faults[FAULT_LEDGER_DOWN] + faults[FAULT_LEDGER_LOST] + (uint64_t)(sim->disk.space != 0);
}

static void start_event(struct sim *sim, uint32_t unused, uint64_t generation)
{
    (void)unused;
    if (sim->process.state == PROCESS_DOWN && sim->process.generation == generation) {
        process_start(sim);
    }
}

void process_start_later(struct sim *sim, int64_t delay_us)
{
    (void)sim_after(sim, delay_us, "start", start_event, 0, sim->process.generation);
}

/* The operator sets the clock right. If it was right already, the data folder is ahead of it. */
static void mend_clock(struct sim *sim)
{
    sim->process.accept_clock = sim->clock.wall_offset_us == 0;
    sim_clock_set(sim, 0);
}

static void not_started(struct sim *sim, int error, bool excused)
{
    struct process *process = &sim->process;
    sim_note(sim, "no start", (uint64_t)-error, process->dead, excused);
    if (process->dead || error != ERR_AGAIN) {
        process->start_clock =
            (struct start_clock){0}; /* what it has waited ends with the process */
    }
    if (process->dead) {
        died(sim);
        return;
    }
    process_free(sim);
    wires_break(sim);
    if (error == ERR_AGAIN) { /* the clock is doubted: asked again */
        process_start_later(sim, CLOCK_LOOK_US);
        return;
    }
    if (error == ERR_CLOCK) {
        mend_clock(sim);
        process_start_later(sim, sim_about(sim, 200000));
        return;
    }
    if (!excused) {
        sim_broken(sim, 12, "the server does not start: error %d", error);
        return;
    }
    sim->disk.space = 0;
    process_start_later(sim, sim_about(sim, 200000));
}

void process_start(struct sim *sim)
{
    struct process *process = &sim->process;
    int64_t wall_ms = sim_clock_wall_ms(sim);
    int64_t boot_us = sim_clock_boot_us(sim);
    uint64_t before = excuses(sim);
    bool full = sim->disk.space != 0;
    running = sim;
    process->state = PROCESS_UP;
    process->generation++;
    process->flush_event = process->ledger_reader_event = 0;
    process->ledger_writer_at_us = INT64_MAX;
    process->was_latched = false;
    memset(process->paused_until_us, 0, sizeof(process->paused_until_us));
    for (uint32_t i = 0; i < sim->plan.loops; i++) {
        struct sim_loop *loop = &sim->loops[i];
        loop->turn_at_us = INT64_MAX;
        loop->ended = loop->slept = false;
        loop->accepting = true;
    }
    process->starting = true;
    referee_accepts(sim->referee, process->accept_clock);
    int error = start_parts(sim);
    referee_accepts(sim->referee, false);
    process->starting = false;
    if (error != 0 || process->dead) {
        not_started(sim, error, full || excuses(sim) != before || sim->writer.down);
        return;
    }
    process->starts++;
    sim->result.restarts += process->starts > 1;
    sim_note(sim, "started", process->starts, process->parts->found.last_lsn,
             process->parts->found.replayed);
    struct referee_view view;
    process_view(sim, &view);
    if (process->accept_clock && view.gate->highest_ms <= wall_ms) {
        sim_note(sim, "the time was set back", (uint64_t)wall_ms, 0, 0);
        referee_set_back(sim->referee, wall_ms);
    }
    referee_started(sim->referee, &view, wall_ms, boot_us);
    referee_clock(sim->referee, wall_ms, sim->now_us - sim->clock.set_at_us, process->accept_clock);
    process->accept_clock = false;
    for (uint32_t i = 0; i < sim->plan.loops; i++) {
        process_turn_soon(sim, i, sim_about(sim, sim->plan.turn_us));
    }
    (void)sim_after(sim, sim_about(sim, sim->plan.janitor_us), "janitor", run_janitor, 0,
                    process->generation);
    flush_soon(sim);
    ledger_writer_soon(sim, sim_about(sim, sim->plan.ledger_writer_us));
}

/* ---- end ---- */

void process_free(struct sim *sim)
{
    struct process *process = &sim->process;
    if (process->parts != NULL) {
        assembly_free(process->parts);
        free(process->parts);
        free(process->settings);
        process->parts = NULL;
        process->settings = NULL;
    }
    process->state = PROCESS_DOWN;
    process->generation++;
    process->dead = process->busy = process->nested = process->ledger_writer_inside = false;
    running = NULL;
    writer_give_up(sim);
    sim_gate_forget(sim);
}

void process_kill(struct sim *sim)
{
    referee_ended(sim->referee);
    process_free(sim);
    sim->process.start_clock = (struct start_clock){0};
    wires_break(sim);
}

static void forget_unsynced(struct sim *sim)
{
    static const enum ram_crash hows[] = {RAM_DROP, RAM_MIX, RAM_MIX, RAM_KEEP};
    ram_disk_crash(&sim->disk, hows[sim_below(sim, 4)], &sim->prng);
    sim_disk_calm(sim);
    sim_clock_reboot(sim);
    sim->process.start_clock = (struct start_clock){0};
}

void process_power_cut(struct sim *sim)
{
    process_kill(sim);
    forget_unsynced(sim);
}

/* The machine, or the process alone, died in the middle of the step that has just returned. */
static void died(struct sim *sim)
{
    bool machine = sim_chance(sim, 600);
    sim_note(sim, machine ? "the machine is dead" : "the process is dead", 0, 0, 0);
    if (machine) {
        process_power_cut(sim);
    } else {
        process_kill(sim);
        sim->disk.dead_at = 0;
    }
    process_start_later(sim, sim_about(sim, 100000));
}

static void cut_off(struct sim *sim, uint32_t unused, uint64_t generation)
{
    (void)unused;
    if (is_now(sim, generation) && sim->process.state == PROCESS_DRAINING) {
        atomic_store(&sim->process.parts->shared.cut_off, true);
        for (uint32_t i = 0; i < sim->plan.loops; i++) {
            process_turn_soon(sim, i, 1);
        }
    }
}

void process_stop(struct sim *sim)
{
    sim_fault_happened(sim, FAULT_STOP);
    sim->process.state = PROCESS_DRAINING;
    atomic_store(&sim->process.parts->shared.draining, true);
    for (uint32_t i = 0; i < sim->plan.loops; i++) {
        process_turn_soon(sim, i, sim_about(sim, sim->plan.turn_us));
    }
    (void)sim_after(sim, DRAIN_US, "cut off", cut_off, 0, sim->process.generation);
}

/* All loops have drained: the rest of what serve.c does on SIGTERM. */
static void stopped(struct sim *sim)
{
    struct process *process = &sim->process;
    bool wrote = false;
    ledger_writer_stop(process->parts->ledger_writer);
    if (process->ledger_writer == NULL || writer_step(sim, writer_iterate)) {
        (void)writer_step(sim, writer_finish); /* a slow write is lost with the process */
    }
    journal_stop(process->parts->journal);
    (void)journal_wait(process->parts->journal);
    (void)journal_flush(process->parts->journal, &wrote);
    sim_note(sim, "stopped", journal_durable_lsn(process->parts->journal), 0, 0);
    if (process->dead) {
        died(sim);
        return;
    }
    process_kill(sim);
    process_start_later(sim, sim_about(sim, 100000));
}
