/*
 * Upkeep of one front over three simulated segments: what test_upkeep.c and test_upkeep_line.c begin
 * with.
 */
#ifndef TEST_UPKEEP_DESK_H
#define TEST_UPKEEP_DESK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/prng.h"
#include "flow/upkeep.h"
#include "wide_world.h"

#define SEGMENTS 3
#define LINE_MS 60000

static struct wide_world world;
static struct wide_process *process;
static struct sim_segments *sim;
static struct upkeep *upkeep;
static struct shelf *shelf;
static struct wishes wishes;
static struct dials dials;
static bool balances_here;
static uint32_t refills;

static inline bool refill(void *context, const struct wish *wish)
{
    (void)context;
    (void)wish;
    refills += balances_here;
    return balances_here;
}

static inline void start(void)
{
    struct upkeep_parts parts = {.segments = &process->stage.port,
                                 .ledger = &process->reader.ledger,
                                 .gate = process->gate,
                                 .bookings = &process->bookings,
                                 .places = &process->places,
                                 .catalog = process->catalog,
                                 .spool = process->spool,
                                 .shelf = shelf,
                                 .wishes = &wishes,
                                 .time = &process->time,
                                 .metrics = metrics_slot(&process->metrics, 1),
                                 .dials = &dials,
                                 .refill = refill};
    assert_int_equal(upkeep_new(&parts, &upkeep), 0);
}

/* A new process on the same disk: it knows nothing yet. */
static inline void forget_places(void)
{
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        atomic_store(&process->places.epochs[s], 0);
        gate_place(process->gate, s, 0);
    }
}

static inline void restart(void)
{
    bool wrote;
    struct prng prng = prng_of(1);
    assert_int_equal(journal_flush(process->journal, &wrote), 0);
    upkeep_free(upkeep);
    wide_down(&world, 0);
    ram_disk_crash(&process->ram, RAM_DROP, &prng);
    wide_up(&world, 0);
    forget_places();
    start();
}

static inline int set_up(void **state)
{
    (void)state;
    wide_world_init(&world, SEGMENTS);
    wide_up(&world, 0);
    process = &world.processes[0];
    sim = world.segments.sim;
    wide_open_sale(process);
    forget_places();
    shelf = shelf_new();
    wishes_init(&wishes);
    atomic_store(&dials.line_ms, LINE_MS);
    atomic_store(&dials.stale_ms, 0);
    balances_here = false;
    refills = 0;
    start();
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    upkeep_free(upkeep);
    shelf_free(shelf);
    wishes_done(&wishes);
    wide_world_done(&world);
    return 0;
}

static inline void turn(void)
{
    wide_let(process);
    upkeep_turn(upkeep);
    wide_halt(process);
}

static inline void pass_and_turn(int64_t ms)
{
    wide_pass_ms(&world, ms);
    turn();
}

static inline uint64_t epoch_of(uint32_t segment)
{
    return places_epoch(&process->places, segment);
}

/* What a front's ask at the segment meets. */
static inline enum refusal ask(uint32_t segment)
{
    struct gate_ask look = {.question = ASK_ITEM, .item = WIDE_FREE, .segment = segment};
    assert_int_equal(gate_submit(process->gate, &look), GATE_ANSWERED);
    return look.refusal;
}

static inline struct spool_numbers numbers(void)
{
    struct spool_numbers n;
    spool_count(process->spool, &n);
    return n;
}

static inline void accept(const struct gate_command *command, uint64_t epoch)
{
    uint64_t lsn = 0;
    assert_int_equal(spool_accept(process->spool, command, epoch, &lsn), 0);
}

/* A promise that was made here: decided by the segment, in its outbox, and in the spool. */
static inline struct decision promise(uint32_t segment, uint64_t user)
{
    struct decision decision = wide_decide(&world, segment, user);
    accept(&decision.command, decision.epoch);
    return decision;
}

/* A buyer who stands in line. */
static inline struct gate_command stand_in_line(uint32_t segment, uint64_t user)
{
    struct gate_command command = {.kind = GATE_RESERVE,
                                   .now_ms = inside_time_ms(&process->time),
                                   .id = segments_world_id(&world.segments, WIDE_FREE, segment),
                                   .user = user,
                                   .item = WIDE_FREE,
                                   .qty = 1};
    accept(&command, 0);
    return command;
}

static inline bool is_promised(struct order_id id, uint64_t *ret_epoch)
{
    struct spool_entry entry;
    bool found = spool_find(process->spool, id, &entry);
    *ret_epoch = found ? entry.epoch : 0;
    return found;
}

static inline void book(struct decision *decision)
{
    wide_let(process);
    bookings_run(&process->bookings, decision, 1);
    wide_halt(process);
    assert_int_equal(decision->booking, BOOKING_SETTLED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
