/* Buyers who stood in line while the gate was away come before new buys of their segment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/prng.h"
#include "cluster_world.h"
#include "distributed/gate_proxy.h"
#include "distributed/promise_resolver.h"

#define SEGMENTS 2
#define LINE_MAX 30
#define LINE_MS 60000

static struct cluster_world world;
static struct cluster_process *process;
static struct sim_segments *sim;
static struct segment_monitor *monitor;
static struct promise_resolver *promise_resolver;
static struct gate_proxy *proxy;
static struct stock_cache *stock_cache;
static struct refill_requests refill_requests;
static struct runtime_limits runtime_limits;

static void start(void)
{
    struct segment_monitor_parts monitor_parts = {.segments = &process->stage.port,
                                                  .ledger = &process->reader.ledger,
                                                  .gate = process->gate,
                                                  .booking_channel = &process->booking_channel,
                                                  .segment_table = &process->segment_table,
                                                  .spool = process->spool,
                                                  .stock_cache = stock_cache,
                                                  .refill_requests = &refill_requests,
                                                  .time = &process->time,
                                                  .metrics = metrics_slot(&process->metrics, 1)};
    assert_int_equal(segment_monitor_new(&monitor_parts, &monitor), 0);
    struct promise_resolver_parts parts = {.segment_monitor = monitor,
                                           .booking_channel = &process->booking_channel,
                                           .segment_table = &process->segment_table,
                                           .catalog = process->catalog,
                                           .spool = process->spool,
                                           .time = &process->time,
                                           .metrics = metrics_slot(&process->metrics, 1),
                                           .runtime_limits = &runtime_limits};
    struct gate_proxy_options options = {.loops = CLUSTER_LOOPS,
                                         .requests = 16,
                                         .runtime_limits = &runtime_limits,
                                         .refill_requests = &refill_requests,
                                         .clock = &world.clock.port};
    assert_int_equal(promise_resolver_new(&parts, &promise_resolver), 0);
    assert_int_equal(gate_proxy_new(process->gate, &process->segment_table, process->catalog,
                                    stock_cache, process->spool, options, &proxy),
                     0);
}

static void end(void)
{
    promise_resolver_free(promise_resolver);
    segment_monitor_free(monitor);
    gate_proxy_free(proxy);
}

static void put_on_stock_cache(uint64_t item, uint64_t available)
{
    struct stock_cache_item put = {.view = {.item = item,
                                            .sale = CLUSTER_SALE,
                                            .total = 40,
                                            .available = available,
                                            .locked = 40 - available,
                                            .sale_state = SALE_OPEN,
                                            .starts_at_ms = CLUSTER_NOW,
                                            .ends_at_ms = CLUSTER_NOW + CLUSTER_ENDS_MS},
                                   .homes = SEGMENTS};
    assert_int_equal(stock_cache_put(stock_cache, &put), 0);
}

static void turn(void)
{
    cluster_let(process);
    promise_resolver_iterate(promise_resolver);
    cluster_halt(process);
}

static int set_up(void **state)
{
    (void)state;
    cluster_init(&world, (struct cluster_options){.segments = SEGMENTS, .open = true});
    cluster_up(&world, 0);
    process = &world.processes[0];
    sim = world.sim;
    cluster_open_sale(process);
    stock_cache = stock_cache_new();
    put_on_stock_cache(CLUSTER_ONCE, 40);
    put_on_stock_cache(CLUSTER_FREE, 40);
    refill_requests_init(&refill_requests);
    atomic_store(&runtime_limits.line, LINE_MAX);
    atomic_store(&runtime_limits.line_ms, LINE_MS);
    start();
    turn();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    end();
    stock_cache_free(stock_cache);
    refill_requests_done(&refill_requests);
    cluster_done(&world);
    return 0;
}

static struct gate_request buy_of(struct order_id id, uint64_t user)
{
    struct gate_request request = {.kind = GATE_REQUEST_BUY,
                                   .id = id,
                                   .user = user,
                                   .item = CLUSTER_FREE,
                                   .qty = 1,
                                   .now_ms = clock_wall_ms(&world.clock.port),
                                   .ticket_expires_ms = CLUSTER_NOW + 600000};
    assert_int_equal(gate_submit(gate_proxy_port(proxy), &request), GATE_ANSWERED);
    assert_int_equal(request.ticket_expires_ms,
                     CLUSTER_NOW + 600000); /* the buyer's own, as it was */
    return request;
}

static struct order_id id_of(uint32_t segment)
{
    return cluster_id(&world, CLUSTER_FREE, segment);
}

/* A buy that joins the line. */
static struct order_id joins(uint32_t segment, uint64_t user)
{
    struct order_id id = id_of(segment);
    struct gate_request request = buy_of(id, user);
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_false(request.existed);
    assert_int_equal(request.order.state, ORDER_QUEUED);
    assert_int_equal(request.order.reason, REFUSAL_UNDECIDED);
    assert_true(request.lsn > 0);
    assert_null(cluster_order(&world, segment, id));
    return id;
}

/* And won. */
static bool is_decided(uint32_t segment, struct order_id id)
{
    const struct gate_order *order = cluster_order(&world, segment, id);
    return order != NULL && order->state == ORDER_QUEUED;
}

static uint32_t undecided(void)
{
    struct spool_numbers n;
    spool_count(process->spool, &n);
    return n.undecided;
}

/* ---- behind those who came before ---- */

static void a_new_buy_joins_the_line_though_the_gate_is_back(void **state)
{
    (void)state;
    sim_segments_away(sim, 1, true);
    struct order_id first = joins(1, 1);
    sim_segments_away(sim, 1, false);
    struct order_id second = joins(1, 2);
    /* Nobody stands before the other segment. */
    struct order_id other = id_of(0);
    assert_int_equal(buy_of(other, 3).order.reason, REFUSAL_NONE);
    assert_true(is_decided(0, other));
    turn(); /* the away answer has raised a doubt: it is looked at, and serves */
    assert_true(is_decided(1, first));
    assert_true(is_decided(1, second));
    assert_int_equal(undecided(), 0);
    assert_int_equal(spool_before(process->spool, 1), 0);
    struct order_id third = id_of(1);
    assert_int_equal(buy_of(third, 4).order.reason, REFUSAL_NONE);
    assert_true(is_decided(1, third));
}

static void the_first_in_line_win_the_last_units(void **state)
{
    (void)state;
    struct order_id ids[LINE_MAX];
    sim_segments_away(sim, 1, true);
    for (uint32_t i = 0; i < LINE_MAX; i++) {
        if (i == CLUSTER_UNITS / 2) {
            sim_segments_away(sim, 1, false); /* back, and nobody has looked yet */
        }
        ids[i] = joins(1, 1 + i);
    }
    assert_int_equal(buy_of(id_of(1), 99).refusal, REFUSAL_DEGRADED); /* the line is full */
    turn();
    for (uint32_t i = 0; i < LINE_MAX; i++) {
        assert_int_equal(is_decided(1, ids[i]), i < CLUSTER_UNITS);
        if (i >= CLUSTER_UNITS) {
            assert_int_equal(cluster_row(&world, ids[i])->reason, REFUSAL_SOLD_OUT);
        }
    }
    assert_int_equal(spool_before(process->spool, 1), 0);
}

static void an_order_that_there_is_is_told_before_the_line(void **state)
{
    (void)state;
    struct order_id queued = id_of(1);
    assert_int_equal(buy_of(queued, 1).order.state, ORDER_QUEUED);
    struct decision elsewhere = cluster_decide(&world, 1, 2); /* another front's */
    cluster_let(process);
    booking_channel_run(&process->booking_channel, &elsewhere, 1);
    cluster_halt(process);
    assert_int_equal(elsewhere.booking, BOOKING_SETTLED);
    sim_segments_away(sim, 1, true);
    struct order_id in_line = joins(1, 3);
    sim_segments_away(sim, 1, false);
    struct gate_request again = buy_of(queued, 1);
    assert_true(again.existed);
    assert_int_equal(again.order.reason, REFUSAL_NONE);
    assert_int_equal(again.held, 1);
    again = buy_of(elsewhere.command.id, 2);
    assert_true(again.existed);
    assert_int_equal(again.order.state, ORDER_LOCKED);
    again = buy_of(in_line, 3);
    assert_true(again.existed);
    assert_int_equal(again.order.reason, REFUSAL_UNDECIDED);
    struct gate_request other = {.kind = GATE_REQUEST_BUY,
                                 .id = in_line,
                                 .user = 3,
                                 .item = CLUSTER_FREE,
                                 .qty = 2,
                                 .now_ms = CLUSTER_NOW,
                                 .ticket_expires_ms = CLUSTER_NOW + 600000};
    assert_int_equal(gate_submit(gate_proxy_port(proxy), &other), GATE_ANSWERED);
    assert_int_equal(other.refusal, REFUSAL_DIFFERENT_REQUEST);
    other.id = queued;
    other.user = 1;
    assert_int_equal(gate_submit(gate_proxy_port(proxy), &other), GATE_ANSWERED);
    assert_int_equal(other.refusal, REFUSAL_DIFFERENT_REQUEST);
    assert_int_equal(undecided(), 1);
}

static void a_ticket_that_is_over_joins_no_line(void **state)
{
    (void)state;
    sim_segments_away(sim, 1, true);
    (void)joins(1, 1);
    sim_segments_away(sim, 1, false);
    struct gate_request late = {.kind = GATE_REQUEST_BUY,
                                .id = id_of(1),
                                .user = 2,
                                .item = CLUSTER_FREE,
                                .qty = 1,
                                .now_ms = CLUSTER_NOW + 1000,
                                .ticket_expires_ms = CLUSTER_NOW + 1000};
    assert_int_equal(gate_submit(gate_proxy_port(proxy), &late), GATE_ANSWERED);
    assert_int_equal(late.refusal, REFUSAL_BAD_TICKET);
    put_on_stock_cache(CLUSTER_FREE, 0);
    struct gate_request none = buy_of(id_of(1), 3);
    assert_int_equal(none.refusal, REFUSAL_UNKNOWN_OUTCOME); /* another front may have it in line */
    fake_clock_pass_ms(&world.clock, SEGMENT_TABLE_SETTLE_MS);
    none = buy_of(id_of(1), 3);
    assert_int_equal(none.refusal, REFUSAL_SOLD_OUT); /* said by a gate that is there */
    assert_int_equal(none.available, 0);
    assert_int_equal(none.locked, 40);
    sim_segments_away(sim, 1, true);
    assert_int_equal(buy_of(id_of(1), 4).refusal, REFUSAL_DEGRADED);
    assert_int_equal(undecided(), 1);
}

/* ---- serving it ---- */

static void a_gate_that_goes_away_again_keeps_the_line(void **state)
{
    (void)state;
    sim_segments_away(sim, 1, true);
    struct order_id first = joins(1, 1);
    turn();
    assert_int_equal(spool_before(process->spool, 1), 1);
    sim_segments_away(sim, 1, false);
    cluster_pass_ms(&world, 1000);
    turn();
    assert_int_equal(spool_before(process->spool, 1), 0);
    sim_segments_away(sim, 1, true);
    struct order_id second = joins(1, 2);
    sim_segments_away(sim, 1, false);
    atomic_store(&process->segment_table.doubts, 0); /* seen to serve a moment ago */
    sim_segments_lose(sim, 1, 1);
    turn();
    assert_true(is_decided(1, second)); /* which nobody knows here */
    assert_int_equal(spool_before(process->spool, 1), 1);
    struct order_id third = joins(1, 3);
    turn();
    assert_int_equal(spool_before(process->spool, 1), 0);
    assert_true(is_decided(1, first) && is_decided(1, third));
    assert_int_equal(cluster_item(&world, 1, CLUSTER_FREE)->locked, 3);
}

static void while_a_segment_is_being_rebuilt_its_line_waits(void **state)
{
    (void)state;
    const struct segment_step begin = {.kind = STEP_BEGIN, .sizes = cluster_sizes};
    sim_segments_away(sim, 1, true);
    struct order_id first = joins(1, 1);
    sim_segments_away(sim, 1, false);
    uint64_t epoch = cluster_raise_epoch(&world, 1);
    assert_int_equal(segments_rebuild(world.hands, 1, epoch, 1, &begin, 1), SEGMENT_DONE);
    cluster_pass_ms(&world, 1000);
    turn(); /* winners may come back now; those in line have not won */
    assert_int_equal(spool_before(process->spool, 1), 1);
    assert_int_equal(buy_of(id_of(1), 2).refusal, REFUSAL_UNKNOWN_OUTCOME);
    cluster_rebuild(&world, 1);
    cluster_pass_ms(&world, 1000);
    turn();
    assert_true(is_decided(1, first));
    assert_int_equal(spool_before(process->spool, 1), 0);
}

/* Without the ledger no order can be failed; an order that can be won is won. */
static void the_line_moves_on_while_the_ledger_is_away(void **state)
{
    (void)state;
    struct order_id ids[CLUSTER_UNITS + 3];
    sim_segments_away(sim, 1, true);
    for (uint32_t i = 0; i < CLUSTER_UNITS + 3; i++) {
        ids[i] = joins(1, 1 + i);
    }
    struct gate_request once = {.kind = GATE_REQUEST_BUY,
                                .user = cluster_user(&world, 1, 0),
                                .item = CLUSTER_ONCE,
                                .qty = 1,
                                .now_ms = CLUSTER_NOW,
                                .ticket_expires_ms = CLUSTER_NOW + 600000};
    once.id = order_id_once(CLUSTER_ONCE, once.user, 0);
    assert_int_equal(gate_submit(gate_proxy_port(proxy), &once), GATE_ANSWERED);
    assert_int_equal(once.order.reason, REFUSAL_UNDECIDED);
    sim_segments_away(sim, 1, false);
    atomic_store(&process->segment_table.doubts, 0); /* seen to serve a moment ago */
    world.ledger.fail_read = ERR_IO;
    world.ledger.fail_next = ERR_IO;
    turn();
    assert_int_equal(spool_before(process->spool, 1), 0);
    assert_int_equal(undecided(), 3);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_FAILED), 0);
    for (uint32_t i = 0; i < CLUSTER_UNITS; i++) {
        assert_true(is_decided(1, ids[i]));
    }
    assert_true(is_decided(1, once.id));
    world.ledger.fail_read = 0;
    world.ledger.fail_next = 0;
    for (int i = 0; i < 3; i++) {
        cluster_pass_ms(&world, 5000);
        turn();
    }
    assert_int_equal(undecided(), 0);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_FAILED), 3);
}

/* A gate that went away and came back while the ledger was away does not keep the line waiting. */
static void a_gate_that_is_back_before_the_ledger_is_serves_the_line(void **state)
{
    (void)state;
    world.ledger.fail_read = ERR_IO;
    sim_segments_away(sim, 1, true);
    struct order_id first = joins(1, 1);
    for (int i = 0; i < 2; i++) {
        cluster_pass_ms(&world, 1000);
        turn();
        assert_int_equal(spool_before(process->spool, 1), 1);
    }
    sim_segments_away(sim, 1, false);
    struct order_id second = joins(1, 2);
    turn();
    assert_true(is_decided(1, first) && is_decided(1, second));
    assert_int_equal(spool_before(process->spool, 1), 0);
    assert_int_equal(buy_of(id_of(1), 3).order.reason, REFUSAL_NONE);
    /* One that was taken over by another server decides nothing before the ledger has said so. */
    sim_segments_away(sim, 1, true);
    struct order_id third = joins(1, 4);
    turn();
    sim_segments_away(sim, 1, false);
    (void)sim_segments_failover(sim, 1, 0);
    turn();
    assert_false(is_decided(1, third));
    assert_int_equal(spool_before(process->spool, 1), 1);
}

static void after_a_restart_the_line_stands_as_it_stood(void **state)
{
    (void)state;
    struct prng prng = prng_of(1);
    bool wrote = false;
    struct order_id ids[6];
    sim_segments_away(sim, 1, true);
    for (uint32_t i = 0; i < 3; i++) {
        ids[i] = joins(1, 1 + i);
    }
    assert_int_equal(journal_flush(process->journal, &wrote), 0);
    end();
    cluster_down(&world, 0);
    ram_disk_crash(&process->ram, RAM_DROP, &prng);
    cluster_up(&world, 0);
    start();
    sim_segments_away(sim, 1, false);
    /* Where they stood is not known yet: they stand before everyone. */
    assert_int_equal(spool_before(process->spool, 0), 3);
    assert_int_equal(spool_before(process->spool, 1), 3);
    for (uint32_t i = 3; i < 6; i++) {
        ids[i] = joins(1, 1 + i);
    }
    struct order_id other = joins(0, 9);
    for (uint32_t i = 0; i < CLUSTER_UNITS - 4; i++) {
        (void)cluster_decide(&world, 1, 100 + i); /* four units are left */
    }
    turn();
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(is_decided(1, ids[i]), i < 4);
    }
    assert_true(is_decided(0, other));
    assert_int_equal(spool_before(process->spool, 0) + spool_before(process->spool, 1), 0);
}

static void who_is_given_up_leaves_the_line(void **state)
{
    (void)state;
    sim_segments_away(sim, 1, true);
    struct order_id first = joins(1, 1);
    cluster_pass_ms(&world, LINE_MS + 1000);
    struct order_id second = joins(1, 2);
    turn();
    assert_int_equal(cluster_row(&world, first)->reason, REFUSAL_DEGRADED);
    assert_int_equal(spool_before(process->spool, 1), 1);
    sim_segments_away(sim, 1, false);
    cluster_pass_ms(&world, 1000);
    turn();
    assert_false(is_decided(1, first));
    assert_true(is_decided(1, second));
    assert_int_equal(spool_before(process->spool, 1), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_buy_joins_the_line_though_the_gate_is_back),
        TEST(the_first_in_line_win_the_last_units),
        TEST(an_order_that_there_is_is_told_before_the_line),
        TEST(a_ticket_that_is_over_joins_no_line),
        TEST(a_gate_that_goes_away_again_keeps_the_line),
        TEST(while_a_segment_is_being_rebuilt_its_line_waits),
        TEST(the_line_moves_on_while_the_ledger_is_away),
        TEST(a_gate_that_is_back_before_the_ledger_is_serves_the_line),
        TEST(after_a_restart_the_line_stands_as_it_stood),
        TEST(who_is_given_up_leaves_the_line),
    };
    return cmocka_run_group_tests_name("line", tests, NULL, NULL);
}
