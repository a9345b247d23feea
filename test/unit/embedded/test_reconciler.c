/* The reconciler with a comparison of the test's own: answers to calls, and runs by itself. Then the
 * comparison of the gate in the process with its ledger. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "embedded/reconcile_embedded.h"
#include "ledger/reconciler.h"
#include "ledger_writer_world.h"

#define EVERY_MS 60000
#define MANY 3000

static struct ledger_writer_world world;
static struct reconciler *reconciler;
static struct reconcile_local *local;

/* The work. */
static struct difference differences[MANY];
static size_t found_count;
static uint32_t unsure, unanswered;
static int work_error;
static bool ends;
static bool may;
static uint32_t nows, passes, repairs, idles, sleeps;
static bool asks_meanwhile;
static bool moving;
static uint64_t moves;

static struct reconciler_call *request(uint32_t loop, bool repair)
{
    struct reconciler_call *call = calloc(1, sizeof(*call));
    assert_non_null(call);
    call->loop = loop;
    call->repair = repair;
    reconciler_post(reconciler, call);
    return call;
}

static void fill(struct reconcile_result *ret_result)
{
    *ret_result = (struct reconcile_result){.differences = differences,
                                            .count = found_count,
                                            .items = 7,
                                            .passes = nows + passes,
                                            .unsure = unsure,
                                            .unanswered = unanswered};
}

static int work_now(void *context, struct reconcile_result *ret_result)
{
    (void)context;
    nows++;
    if (asks_meanwhile) {
        asks_meanwhile = false;
        (void)request(1, false);
    }
    if (work_error == 0) {
        fill(ret_result);
    }
    return work_error;
}

static int work_pass(void *context, struct reconcile_result *ret_result)
{
    (void)context;
    passes++;
    if (work_error == 0) {
        fill(ret_result);
    }
    return work_error;
}

static size_t work_repair(void *context)
{
    (void)context;
    repairs++;
    differences[0].repaired = true;
    return 1;
}

static bool work_may(void *context)
{
    (void)context;
    return may;
}

static bool work_ending(void *context)
{
    (void)context;
    return ends;
}

static void work_idle(void *context)
{
    (void)context;
    idles++;
    reconciler_wake(reconciler); /* no test waits */
}

/* Time passes for the comparison of the gate: what was bought is booked meanwhile. */
static void sleep_ms(void *context, int64_t ms)
{
    (void)context;
    sleeps++;
    if (moving && moves < 60) {
        struct order_id id = ledger_writer_world_bought(&world, 1000 + ++moves);
        struct ledger_writer_op *op = ledger_writer_op_order(&world, LEDGER_CANCEL, id);
        ledger_writer_world_settle(&world);
        ledger_writer_world_do(&world, op);
        ledger_writer_op_free(op);
        (void)ledger_writer_world_bought(&world, 5000 + moves); /* and one is on its way */
    }
    if (!ends) {
        ledger_writer_world_pass_ms(&world, ms);
    }
}

static int64_t now_ms(void *context)
{
    (void)context;
    return inside_time_ms(&world.time);
}

static int set_up(void **state)
{
    (void)state;
    const struct reconciler_work work = {.now = work_now,
                                         .pass = work_pass,
                                         .repair = work_repair,
                                         .may = work_may,
                                         .ending = work_ending,
                                         .idle = work_idle};
    memset(differences, 0, sizeof(differences));
    found_count = 0;
    unsure = unanswered = 0;
    work_error = 0;
    ends = asks_meanwhile = moving = false;
    moves = 0;
    may = true;
    nows = passes = repairs = idles = sleeps = 0;
    ledger_writer_world_init(&world);
    if (ledger_writer_world_up(&world) != 0) {
        return -1;
    }
    ledger_writer_world_open_sale(&world);
    const struct reconcile_local_parts parts = {.engine = world.engine,
                                                .ledger_writer = world.ledger_writer,
                                                .ledger = &world.ledger.ledger,
                                                .blocking = {NULL, sleep_ms, now_ms},
                                                .bound_ms = 3000};
    if (reconcile_local_new(&parts, &local) != 0) {
        return -1;
    }
    return reconciler_new(work, world.wakers, &world.clock.port, metrics_slot(&world.metrics, 0),
                          LEDGER_WRITER_LOOPS, EVERY_MS, &reconciler);
}

static int tear_down(void **state)
{
    (void)state;
    reconciler_free(reconciler);
    reconcile_local_free(local);
    ledger_writer_world_done(&world);
    return 0;
}

static uint64_t gauge(void)
{
    return metrics_sum(&world.metrics, METRIC_RECONCILE_DIFFERENCES);
}

/* ---- calls ---- */

static void calls_share_a_run_and_are_woken(void **state)
{
    (void)state;
    found_count = 2;
    differences[1].item = 5;
    struct reconciler_call *first = request(0, false);
    struct reconciler_call *second = request(1, false);
    waker_sleepy(&world.wakers[1], UINT64_MAX);
    reconciler_iterate(reconciler);
    assert_int_equal(nows, 1);
    assert_int_equal(atomic_load(&world.wakes[1]), 1);
    assert_ptr_equal(reconciler_collect(reconciler, 0), first);
    assert_ptr_equal(reconciler_collect(reconciler, 1), second);
    assert_int_equal(second->error, 0);
    assert_int_equal(second->result.count, 2);
    assert_int_equal(second->result.items, 7);
    assert_int_equal(second->result.count, 2);
    assert_int_equal(second->differences[1].item, 5);
    assert_int_equal(gauge(), 2);
    assert_int_equal(repairs, 0);
    reconciler_call_free(first);
    reconciler_call_free(second);
}

static void a_call_that_comes_meanwhile_gets_a_run_of_its_own(void **state)
{
    (void)state;
    asks_meanwhile = true;
    struct reconciler_call *first = request(0, false);
    reconciler_iterate(reconciler);
    assert_ptr_equal(reconciler_collect(reconciler, 0), first);
    assert_null(reconciler_collect(reconciler, 1));
    reconciler_iterate(reconciler);
    assert_int_equal(nows, 2);
    struct reconciler_call *second = reconciler_collect(reconciler, 1);
    assert_non_null(second);
    reconciler_call_free(first);
    reconciler_call_free(second);
}

static void one_who_asks_for_it_gets_repairs(void **state)
{
    (void)state;
    found_count = MANY;
    differences[MANY - 1].item = 99;
    (void)request(0, false);
    (void)request(0, true);
    reconciler_iterate(reconciler);
    assert_int_equal(repairs, 1);
    struct reconciler_call *calls = reconciler_collect(reconciler, 0);
    assert_non_null(calls);
    assert_true(calls->differences[0].repaired);
    assert_int_equal(calls->result.count, MANY);
    assert_int_equal(calls->differences[MANY - 1].item, 99); /* all of them */
    struct reconciler_call *second = (struct reconciler_call *)calls->post.next;
    assert_non_null(second);
    reconciler_call_free(calls);
    reconciler_call_free(second);
}

static void errors_are_told_and_repair_nothing(void **state)
{
    (void)state;
    found_count = 1;
    work_error = ERR_IO;
    struct reconciler_call *call = request(0, true);
    reconciler_iterate(reconciler);
    assert_ptr_equal(reconciler_collect(reconciler, 0), call);
    assert_int_equal(call->error, ERR_IO);
    reconciler_call_free(call);
    work_error = 0;
    ends = true; /* waits were cut short: nothing it says counts */
    call = request(0, true);
    reconciler_iterate(reconciler);
    assert_ptr_equal(reconciler_collect(reconciler, 0), call);
    assert_int_equal(call->error, ERR_CLOSED);
    assert_int_equal(repairs, 0);
    assert_int_equal(gauge(), 0);
    reconciler_call_free(call);
}

static void calls_nobody_collects_are_freed_at_the_end(void **state)
{
    (void)state;
    (void)request(0, false);
    reconciler_iterate(reconciler);
    (void)request(1, false); /* never run; LeakSanitizer looks */
}

/* ---- by itself ---- */

static void it_runs_when_it_is_time_and_only_where_it_may(void **state)
{
    (void)state;
    found_count = 3;
    reconciler_iterate(reconciler);
    assert_int_equal(passes, 0);
    assert_int_equal(idles, 1);
    fake_clock_pass_ms(&world.clock, EVERY_MS);
    reconciler_iterate(reconciler);
    assert_int_equal(passes, 1);
    assert_int_equal(gauge(), 3);
    reconciler_iterate(reconciler);
    assert_int_equal(passes, 1);
    fake_clock_pass_ms(&world.clock, EVERY_MS);
    work_error = ERR_IO; /* says nothing new */
    reconciler_iterate(reconciler);
    assert_int_equal(passes, 2);
    assert_int_equal(gauge(), 3);
    may = false; /* another's to tell */
    fake_clock_pass_ms(&world.clock, EVERY_MS);
    reconciler_iterate(reconciler);
    assert_int_equal(passes, 2);
    assert_int_equal(gauge(), 0);
    assert_int_equal(nows + repairs, 0);
}

/* A pass by itself, when it is time. */
static void pass(void)
{
    uint32_t before = passes;
    fake_clock_pass_ms(&world.clock, EVERY_MS);
    reconciler_iterate(reconciler);
    assert_int_equal(passes, before + 1);
}

static uint64_t metric(enum metric which)
{
    return metrics_sum(&world.metrics, which);
}

static void three_runs_without_an_answer_are_an_alarm(void **state)
{
    (void)state;
    unsure = 5;
    unanswered = 2;
    pass();
    pass();
    assert_int_equal(metric(METRIC_RECONCILE_UNSURE), 5);
    assert_int_equal(metric(METRIC_RECONCILE_UNANSWERED), 2);
    assert_int_equal(metric(METRIC_RECONCILE_BLIND), 0);
    struct reconciler_call *call = request(0, false); /* what somebody asked for counts, too */
    reconciler_iterate(reconciler);
    assert_ptr_equal(reconciler_collect(reconciler, 0), call);
    reconciler_call_free(call);
    assert_int_equal(metric(METRIC_RECONCILE_BLIND), 1);
    unsure = unanswered = 0;
    pass();
    assert_int_equal(metric(METRIC_RECONCILE_BLIND), 0);
    assert_int_equal(metric(METRIC_RECONCILE_UNSURE), 0);
    unsure = unanswered = 1;
    pass();
    pass();
    assert_int_equal(metric(METRIC_RECONCILE_BLIND), 0); /* it counts from the start again */
}

static void a_rush_is_no_alarm_but_half_an_hour_of_it_is(void **state)
{
    (void)state;
    unsure = 5;
    for (int minute = 0; minute < 30; minute++) {
        pass();
        assert_int_equal(metric(METRIC_RECONCILE_BLIND), 0);
    }
    pass();
    assert_int_equal(metric(METRIC_RECONCILE_BLIND), 1);
    may = false; /* another's to tell */
    fake_clock_pass_ms(&world.clock, EVERY_MS);
    reconciler_iterate(reconciler);
    assert_int_equal(metric(METRIC_RECONCILE_BLIND), 0);
    assert_int_equal(metric(METRIC_RECONCILE_UNSURE), 0);
}

/* ---- the gate in the process ---- */

static struct reconcile_result compare(void)
{
    struct reconcile_result result = {0};
    assert_int_equal(reconcile_local_now(local, &result), 0);
    return result;
}

static void a_sale_leaves_gate_and_ledger_of_one_mind(void **state)
{
    (void)state;
    (void)ledger_writer_world_bought(&world, 1);
    (void)ledger_writer_world_bought(&world, 2);
    struct reconcile_result result = compare(); /* waits until they are booked */
    assert_true(sleeps > 0);
    assert_int_equal(result.count, 0);
    assert_int_equal(result.unsure, 0);
    assert_int_equal(result.items, 3);
    assert_int_equal(result.passes, 1);
}

static void what_moves_all_the_time_is_not_sure(void **state)
{
    (void)state;
    (void)compare();
    ends = true; /* nothing is ever booked */
    (void)ledger_writer_world_bought(&world, 1);
    struct reconcile_result result = compare();
    assert_int_equal(result.count, 0);
    assert_int_equal(result.items, 0);
    assert_int_equal(result.unsure, 3);
}

static void what_differs_is_found(void **state)
{
    (void)state;
    (void)ledger_writer_world_bought(&world, 1);
    (void)compare();
    struct item_row *items = world.ledger.sales[0]->items;
    items[0].total += 4;
    items[0].available += 4;
    items[1].available -= 1;
    items[1].sold += 1;
    items[2].available += 1;
    items[2].locked -= 1;
    world.ledger.sales[0]->items[2].total += 1;
    struct reconcile_result result = compare();
    static const enum difference_kind kinds[] = {
        DIFFERENCE_GATE_TOTAL, DIFFERENCE_GATE_SHORT, DIFFERENCE_STOCK,       DIFFERENCE_GATE_TOTAL,
        DIFFERENCE_GATE_STUCK, DIFFERENCE_SHARE_SOLD, DIFFERENCE_SHARE_LOCKED};
    static const uint64_t of[] = {LEDGER_WRITER_ONCE, LEDGER_WRITER_THREE, LEDGER_WRITER_FREE,
                                  LEDGER_WRITER_FREE, LEDGER_WRITER_FREE,  LEDGER_WRITER_THREE,
                                  LEDGER_WRITER_FREE};
    static const uint64_t numbers[][2] = {{100, 104}, {0, 1}, {100, 101}, {100, 101},
                                          {1, 0},     {1, 0}, {0, 1}};
    assert_int_equal(result.count, 7);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(result.differences[i].kind, kinds[i]);
        assert_int_equal(result.differences[i].item, of[i]);
        assert_int_equal(result.differences[i].found, numbers[i][0]);
        assert_int_equal(result.differences[i].expected, numbers[i][1]);
        assert_int_equal(result.differences[i].segment, DIFFERENCE_NO_SEGMENT);
    }
    items[0].total -= 4;
    items[0].available -= 4;
    items[1].available += 1;
    items[1].sold -= 1;
    items[2].available -= 1;
    items[2].locked += 1;
    items[2].total -= 1;
    assert_int_equal(compare().count, 0);
}

static struct order_row *row_of(struct order_id id)
{
    return (struct order_row *)memory_ledger_order(&world.ledger, id);
}

static void found_one(enum difference_kind kind, struct order_id id, uint64_t at_gate,
                      uint64_t expected)
{
    struct reconcile_result result = compare();
    assert_int_equal(result.count, 1);
    assert_int_equal(result.differences[0].kind, kind);
    assert_true(order_id_equal(result.differences[0].id, id));
    assert_int_equal(result.differences[0].found, at_gate);
    assert_int_equal(result.differences[0].expected, expected);
    assert_int_equal(result.unsure, 0);
}

static void each_order_is_compared(void **state)
{
    (void)state;
    struct order_id ids[5];
    for (uint64_t i = 0; i < 5; i++) {
        ids[i] = ledger_writer_world_bought(&world, i + 1);
    }
    struct reconcile_result result = compare();
    assert_int_equal(result.count, 0);
    assert_int_equal(result.orders, 5);
    struct order_row *row = row_of(ids[2]);
    row->user += 7;
    found_one(DIFFERENCE_ORDER_USER, ids[2], row->user - 7, row->user);
    row->user -= 7;
    row->state = ORDER_CANCELLED;
    result = compare(); /* the item's sum differs, too */
    assert_int_equal(result.count, 2);
    assert_int_equal(result.differences[0].kind, DIFFERENCE_SHARE_LOCKED);
    assert_int_equal(result.differences[0].found, 5);
    assert_int_equal(result.differences[0].expected, 4);
    assert_int_equal(result.differences[1].kind, DIFFERENCE_ORDER);
    assert_int_equal(result.differences[1].found, ORDER_LOCKED);
    assert_int_equal(result.differences[1].expected, ORDER_CANCELLED);
    row->state = ORDER_LOCKED;
    assert_int_equal(compare().count, 0);
}

/* Each way: the gate has it and the ledger not, and the other way round. */
static void an_order_that_vanished_is_found(void **state)
{
    (void)state;
    (void)ledger_writer_world_bought(&world, 1);
    struct order_id lost = ledger_writer_world_bought(&world, 2);
    (void)compare();
    struct order_row *row = row_of(lost);
    struct order_row kept = *row;
    row->id.lo ^= 1; /* a flipped bit in a key: one order vanishes, another appears */
    struct reconcile_result result = compare();
    assert_int_equal(result.count, 2);
    assert_int_equal(result.differences[0].kind, DIFFERENCE_ORDER);
    assert_true(order_id_equal(result.differences[0].id, lost));
    assert_int_equal(result.differences[0].found, ORDER_LOCKED);
    assert_int_equal(result.differences[0].expected, ORDER_STATE_COUNT);
    assert_int_equal(result.differences[0].user, 2);
    assert_true(order_id_equal(result.differences[1].id, row->id));
    assert_int_equal(result.differences[1].found, ORDER_STATE_COUNT);
    assert_int_equal(result.differences[1].expected, ORDER_LOCKED);
    *row = kept;
    assert_int_equal(compare().count, 0);
}

/* Buyers buy and pay in every pause of the comparison. */
static void orders_that_move_are_no_difference(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 20; user++) {
        (void)ledger_writer_world_bought(&world, user);
    }
    moving = true;
    (void)ledger_writer_world_bought(&world, 21);
    struct reconcile_result result = compare();
    assert_int_equal(result.count, 0);
    assert_true(result.orders >= 21);
    assert_true(moves > 0);
}

static void a_ledger_that_cannot_be_read_is_an_error(void **state)
{
    (void)state;
    struct reconcile_result result = {.items = 99};
    world.ledger.fail_read = ERR_IO;
    assert_int_equal(reconcile_local_now(local, &result), ERR_IO);
    assert_int_equal(result.items, 99);
    world.ledger.fail_read = 0;
    assert_int_equal(compare().items, 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(calls_share_a_run_and_are_woken),
        TEST(a_call_that_comes_meanwhile_gets_a_run_of_its_own),
        TEST(one_who_asks_for_it_gets_repairs),
        TEST(errors_are_told_and_repair_nothing),
        TEST(calls_nobody_collects_are_freed_at_the_end),
        TEST(it_runs_when_it_is_time_and_only_where_it_may),
        TEST(three_runs_without_an_answer_are_an_alarm),
        TEST(a_rush_is_no_alarm_but_half_an_hour_of_it_is),
        TEST(a_sale_leaves_gate_and_ledger_of_one_mind),
        TEST(what_moves_all_the_time_is_not_sure),
        TEST(what_differs_is_found),
        TEST(each_order_is_compared),
        TEST(an_order_that_vanished_is_found),
        TEST(orders_that_move_are_no_difference),
        TEST(a_ledger_that_cannot_be_read_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
