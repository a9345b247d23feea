/* From a ledger event to the gate's command and the counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ledger/event_effects.h"
#include "obs/log.h"

/* Distinct numbers in every field, to see where each one goes. */
static struct ledger_event event_of(enum ledger_event_kind kind)
{
    return (struct ledger_event){.number = 100,
                                 .kind = kind,
                                 .at_ms = 101,
                                 .sale = 102,
                                 .item = 103,
                                 .user = 104,
                                 .id = {105, 106},
                                 .qty = 107,
                                 .reason = REFUSAL_NO_STOCK,
                                 .a = 108,
                                 .b = 109,
                                 .c = 110,
                                 .d = 111};
}

/* For each event: the command, and those of its fields that carry a, b and c. */
static const struct {
    enum ledger_event_kind event;
    enum gate_kind command;
    uint64_t time_ms, amount, starts_at_ms, ends_at_ms;
    uint32_t bar_unpaid, limit;
    bool changes_catalog;
    int metric; /* -1: none */
} rows[] = {
    {EVENT_ORDER_LOCKED, GATE_CONFIRM, 108, 0, 0, 0, 0, 0, false, METRIC_ORDERS_LOCKED_TOTAL},
    {EVENT_ORDER_FAILED, GATE_FAIL_ORDER, 0, 0, 0, 0, 0, 0, false, METRIC_ORDERS_FAILED_TOTAL},
    {EVENT_ORDER_PAID, GATE_PAY, 0, 0, 0, 0, 0, 0, false, METRIC_ORDERS_PAID_TOTAL},
    {EVENT_ORDER_EXPIRED, GATE_EXPIRE_COOLING, 108, 0, 0, 0, 0, 0, false,
     METRIC_ORDERS_EXPIRED_TOTAL},
    {EVENT_ORDER_CANCELLED, GATE_CANCEL_COOLING, 108, 0, 0, 0, 0, 0, false,
     METRIC_ORDERS_CANCELLED_TOTAL},
    {EVENT_ITEM_RESTOCKED, GATE_RESTOCK, 0, 108, 0, 0, 0, 0, false, -1},
    {EVENT_SALE_WARMED, GATE_LOAD_SALE, 0, 0, 108, 109, 1, 0, true, -1},
    {EVENT_ITEM_LOADED, GATE_LOAD_ITEM, 0, 108, 0, 0, 0, 109, false, -1},
    {EVENT_SALE_OPENED, GATE_OPEN, 0, 0, 108, 0, 0, 0, true, -1},
    {EVENT_SALE_PAUSED, GATE_PAUSE, 0, 0, 0, 0, 0, 0, true, -1},
    {EVENT_SALE_CLOSED, GATE_CLOSE, 0, 0, 0, 0, 0, 0, true, -1},
    {EVENT_SALE_CHANGED, GATE_RETIME, 0, 0, 0, 108, 0, 0, true, -1},
    {EVENT_SALE_FORGOTTEN, GATE_FORGET, 0, 0, 0, 0, 0, 0, false, -1},
    {EVENT_ITEM_TRANSFERRED, GATE_TRANSFER_IN, 0, 108, 0, 0, 0, 0, false, -1},
    {EVENT_NONE, GATE_SKIP, 0, 0, 0, 0, 0, 0, false, -1},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void every_event_becomes_its_command(void **state)
{
    (void)state;
    assert_int_equal(ROWS, EVENT_KIND_COUNT);
    for (size_t i = 0; i < ROWS; i++) {
        struct ledger_event event = event_of(rows[i].event);
        struct gate_command command;
        event_effects_command(&event, 999, &command);
        assert_int_equal(command.kind, rows[i].command);
        assert_int_equal(command.now_ms, 999);
        assert_int_equal(command.event, 100);
        assert_int_equal(command.sale, 102);
        assert_int_equal(command.item, 103);
        assert_true(command.id.hi == 105 && command.id.lo == 106);
        assert_int_equal(command.time_ms, rows[i].time_ms);
        assert_int_equal(command.amount, rows[i].amount);
        assert_int_equal(command.starts_at_ms, rows[i].starts_at_ms);
        assert_int_equal(command.ends_at_ms, rows[i].ends_at_ms);
        assert_int_equal(command.bar_unpaid, rows[i].bar_unpaid);
        assert_int_equal(command.limit, rows[i].limit);
        assert_int_equal(event_effects_catalog(rows[i].event), rows[i].changes_catalog);
    }
}

static void the_reason_of_a_failure_and_the_bar_go_along(void **state)
{
    (void)state;
    struct gate_command command;
    struct ledger_event failed = event_of(EVENT_ORDER_FAILED);
    event_effects_command(&failed, 1, &command);
    assert_int_equal(command.reason, REFUSAL_NO_STOCK);
    struct ledger_event warmed = event_of(EVENT_SALE_WARMED);
    warmed.c = 0;
    event_effects_command(&warmed, 1, &command);
    assert_int_equal(command.bar_unpaid, 0);
    struct ledger_event cancelled = event_of(EVENT_ORDER_CANCELLED);
    cancelled.reason = REFUSAL_BARRED;
    event_effects_command(&cancelled, 1, &command);
    assert_int_equal(command.kind, GATE_CANCEL_LATE);
    /* Without a cooling time. */
    cancelled.reason = REFUSAL_NONE;
    cancelled.a = 0;
    event_effects_command(&cancelled, 1, &command);
    assert_int_equal(command.kind, GATE_CANCEL);
    struct ledger_event expired = event_of(EVENT_ORDER_EXPIRED);
    expired.a = 0;
    event_effects_command(&expired, 1, &command);
    assert_int_equal(command.kind, GATE_EXPIRE);
}

/* A step of forgetting is a piece: neither nothing nor everything under one lock. */
static void a_sale_is_forgotten_in_pieces(void **state)
{
    (void)state;
    struct gate_command command;
    struct ledger_event event = event_of(EVENT_SALE_FORGOTTEN);
    event.qty = 0;
    event_effects_command(&event, 1, &command);
    assert_true(command.qty >= 1 && command.qty <= 65536);
}

static void each_change_of_an_order_is_counted_once(void **state)
{
    (void)state;
    struct metrics metrics;
    assert_int_equal(metrics_init(&metrics, 1), 0);
    for (size_t i = 0; i < ROWS; i++) {
        struct ledger_event event = event_of(rows[i].event);
        uint64_t before[METRIC_COUNT];
        for (int m = 0; m < METRIC_COUNT; m++) {
            before[m] = metrics_sum(&metrics, (enum metric)m);
        }
        event_effects_count(metrics_slot(&metrics, 0), &event);
        for (int m = 0; m < METRIC_COUNT; m++) {
            assert_int_equal(metrics_sum(&metrics, (enum metric)m) - before[m],
                             m == rows[i].metric);
        }
    }
    metrics_done(&metrics);
}

/* Whatever an event holds can be logged. */
static void every_event_can_be_logged(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct ledger_event event = event_of(rows[i].event);
        event_effects_log(&event);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_becomes_its_command),
        cmocka_unit_test(the_reason_of_a_failure_and_the_bar_go_along),
        cmocka_unit_test(a_sale_is_forgotten_in_pieces),
        cmocka_unit_test(each_change_of_an_order_is_counted_once),
        cmocka_unit_test(every_event_can_be_logged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
