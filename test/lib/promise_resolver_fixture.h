/*
 * The promise resolver of one front over three simulated segments: what test_promise_resolver.c and test_promise_resolver_line.c begin
 * with.
 */
#ifndef PROMISE_RESOLVER_FIXTURE_H
#define PROMISE_RESOLVER_FIXTURE_H

#include "base/prng.h"
#include "distributed/promise_resolver.h"
#include "segment_monitor_fixture.h"

#define LINE_MS 60000

static struct promise_resolver *promise_resolver;
static struct runtime_limits runtime_limits;

static inline void start(void)
{
    struct promise_resolver_parts parts = {.segment_monitor = monitor,
                                           .booking_channel = &process->booking_channel,
                                           .segment_table = &process->segment_table,
                                           .catalog = process->catalog,
                                           .spool = process->spool,
                                           .time = &process->time,
                                           .metrics = metrics_slot(&process->metrics, 1),
                                           .runtime_limits = &runtime_limits};
    assert_int_equal(promise_resolver_new(&parts, &promise_resolver), 0);
}

static inline void restart(void)
{
    bool wrote;
    struct prng prng = prng_of(1);
    assert_int_equal(journal_flush(process->journal, &wrote), 0);
    promise_resolver_free(promise_resolver);
    segment_monitor_free(monitor);
    cluster_down(&world, 0);
    ram_disk_crash(&process->ram, RAM_DROP, &prng);
    cluster_up(&world, 0);
    forget_segment_table();
    start_monitor();
    start();
}

static inline int set_up(void **state)
{
    (void)state;
    set_up_monitor();
    atomic_store(&runtime_limits.line_ms, LINE_MS);
    atomic_store(&runtime_limits.stale_ms, 0);
    start();
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    promise_resolver_free(promise_resolver);
    tear_down_monitor();
    return 0;
}

static inline void turn(void)
{
    cluster_let(process);
    promise_resolver_iterate(promise_resolver);
    cluster_halt(process);
}

static inline void pass_and_turn(int64_t ms)
{
    cluster_pass_ms(&world, ms);
    turn();
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
    struct decision decision = cluster_decide(&world, segment, user);
    accept(&decision.command, decision.epoch);
    return decision;
}

/* A buyer who stands in line. */
static inline struct gate_command stand_in_line(uint32_t segment, uint64_t user)
{
    struct gate_command command = {.kind = GATE_RESERVE,
                                   .now_ms = inside_time_ms(&process->time),
                                   .id = cluster_id(&world, CLUSTER_FREE, segment),
                                   .user = user,
                                   .item = CLUSTER_FREE,
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
    cluster_let(process);
    booking_channel_run(&process->booking_channel, decision, 1);
    cluster_halt(process);
    assert_int_equal(decision->booking, BOOKING_SETTLED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
