/* The audit: clients' answers against a ledger, one test for each kind of disagreement. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/err.h"
#include "bench/bench_audit.h"

static struct answer_table told;
static struct ledger_order orders[16];
static struct audit_item item;
static struct audit_ledger ledger;

static int setup(void **state)
{
    (void)state;
    told = (struct answer_table){0};
    item = (struct audit_item){.id = 7, .total = 3, .available = 3, .limit_per_user = 1};
    ledger = (struct audit_ledger){.orders = orders, .items = &item, .item_count = 1};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    answer_table_done(&told);
    return 0;
}

static struct answer *was_told(const char *id, uint64_t user, int order_state)
{
    struct answer *record = NULL;
    assert_int_equal(answer_put(&told, span_of(id), &record), 0);
    record->user = user;
    record->item = 7;
    record->qty = 1;
    record->state = (int8_t)order_state;
    return record;
}

static void has_order(const char *id, uint64_t user, enum order_state order_state)
{
    struct ledger_order *order = &orders[ledger.order_count++];
    *order = (struct ledger_order){.user = user, .item = 7, .qty = 1, .state = order_state};
    order->id_len = (uint8_t)strlen(id);
    memcpy(order->id, id, order->id_len);
    if (order_state_alive(order_state)) {
        item.available--;
        *(order_state == ORDER_PAID ? &item.sold : &item.locked) += 1;
    }
}

static struct audit_result audited(void)
{
    struct audit_result result;
    const struct answer_table *tables[] = {&told};
    audit_compare(&ledger, tables, 1, NULL, &result);
    return result;
}

static void what_agrees_is_ok(void **state)
{
    (void)state;
    was_told("a", 1, ORDER_QUEUED);
    was_told("b", 2, ORDER_LOCKED);
    was_told("c", 3, ORDER_CANCELLED);
    has_order("c", 3, ORDER_CANCELLED);
    has_order("b", 2, ORDER_PAID);
    has_order("a", 1, ORDER_LOCKED);
    has_order("x", 99, ORDER_LOCKED); /* of somebody else */
    struct audit_result result = audited();
    assert_true(audit_ok(&result));
    assert_int_equal(result.checked, 3);
}

static void a_told_order_that_is_missing_is_lost(void **state)
{
    (void)state;
    was_told("a", 1, ORDER_QUEUED);
    was_told("b", 2, ORDER_LOCKED);
    has_order("b", 2, ORDER_LOCKED);
    assert_int_equal(audited().lost, 1);
    has_order("a", 1, ORDER_LOCKED);
    assert_int_equal(audited().lost, 0);
}

static void more_units_than_stock_are_oversold(void **state)
{
    (void)state;
    has_order("a", 1, ORDER_LOCKED);
    has_order("b", 2, ORDER_PAID);
    has_order("c", 3, ORDER_LOCKED);
    assert_int_equal(audited().oversold, 0);
    has_order("d", 4, ORDER_EXPIRED);
    assert_int_equal(audited().oversold, 0);
    has_order("e", 5, ORDER_LOCKED);
    struct audit_result result = audited();
    assert_int_equal(result.oversold, 1);
    assert_int_equal(result.wrong, 1); /* and available is below zero */
}

static void a_buyer_over_the_limit_is_doubled(void **state)
{
    (void)state;
    has_order("a", 1, ORDER_LOCKED);
    has_order("b", 1, ORDER_CANCELLED);
    assert_int_equal(audited().doubled, 0);
    has_order("c", 1, ORDER_PAID);
    assert_int_equal(audited().doubled, 1);
    item.limit_per_user = 2;
    assert_int_equal(audited().doubled, 0);
    item.limit_per_user = 0;
    assert_int_equal(audited().doubled, 0);
}

static void an_id_twice_is_doubled(void **state)
{
    (void)state;
    has_order("b", 1, ORDER_LOCKED);
    has_order("a", 2, ORDER_FAILED);
    has_order("b", 3, ORDER_FAILED);
    assert_int_equal(audited().doubled, 1);
}

static void a_state_that_went_backwards_is_wrong(void **state)
{
    (void)state;
    was_told("a", 1, ORDER_PAID);
    has_order("a", 1, ORDER_LOCKED);
    assert_int_equal(audited().wrong, 1);
    was_told("a", 1, ORDER_LOCKED);
    assert_int_equal(audited().wrong, 0);
}

static void another_buyer_is_wrong(void **state)
{
    (void)state;
    was_told("a", 1, ORDER_LOCKED);
    has_order("a", 2, ORDER_LOCKED);
    assert_int_equal(audited().wrong, 1);
}

static void a_refused_order_in_the_ledger_is_wrong_unless_the_outcome_is_unknown(void **state)
{
    (void)state;
    struct answer *record = was_told("a", 1, ANSWER_NONE);
    record->refused = true;
    has_order("a", 1, ORDER_LOCKED);
    struct audit_result result = audited();
    assert_int_equal(result.wrong, 1);
    assert_int_equal(result.checked, 0);
    record->unknown = true;
    assert_int_equal(audited().wrong, 0);
}

static void counters_must_add_up_and_agree_with_the_orders(void **state)
{
    (void)state;
    has_order("a", 1, ORDER_LOCKED);
    assert_int_equal(audited().wrong, 0);
    item.available--; /* a unit that is nowhere */
    assert_int_equal(audited().wrong, 1);
    item.locked++; /* it is locked, by no order */
    assert_int_equal(audited().wrong, 1);
    item.available++;
    item.locked -= 2;
    item.sold++; /* counted as sold, not paid */
    assert_int_equal(audited().wrong, 1);
}

static void findings_are_written_down(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *log = open_memstream(&text, &len);
    assert_non_null(log);
    was_told("a", 1, ORDER_QUEUED);
    struct audit_result result;
    const struct answer_table *tables[] = {&told};
    audit_compare(&ledger, tables, 1, log, &result);
    assert_int_equal(fclose(log), 0);
    assert_string_equal(text, "audit: lost: order a was told QUEUED and is not in the ledger\n");
    free(text);
}

/* --- clients' answers ------------------------------------------------------------------------ */

static void states_follow_the_table_of_moves(void **state)
{
    (void)state;
    assert_true(answer_may_follow(ORDER_QUEUED, ORDER_PAID)); /* LOCKED was not looked at */
    assert_true(answer_may_follow(ORDER_QUEUED, ORDER_FAILED));
    assert_true(answer_may_follow(ORDER_LOCKED, ORDER_LOCKED));
    assert_false(answer_may_follow(ORDER_LOCKED, ORDER_QUEUED));
    assert_false(answer_may_follow(ORDER_LOCKED, ORDER_FAILED));
    assert_false(answer_may_follow(ORDER_PAID, ORDER_CANCELLED));
}

static void an_answer_may_be_late_but_not_older_than_what_its_client_knew(void **state)
{
    (void)state;
    struct answer *record = was_told("a", 1, ANSWER_NONE);
    assert_true(answer_advance(record, ANSWER_NONE, ORDER_LOCKED));
    /* Sent before LOCKED was known, answered after: two connections, no order between them. */
    assert_true(answer_advance(record, ANSWER_NONE, ORDER_QUEUED));
    assert_int_equal(record->state, ORDER_LOCKED);
    assert_false(answer_advance(record, ORDER_LOCKED, ORDER_QUEUED));
    assert_true(answer_advance(record, ORDER_LOCKED, ORDER_PAID));
    assert_false(answer_advance(record, ORDER_LOCKED, ORDER_CANCELLED)); /* two winners */
    assert_int_equal(record->state, ORDER_PAID);
}

static void the_table_finds_what_was_put(void **state)
{
    (void)state;
    char id[24];
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(id, sizeof(id), "order-%d", i);
        was_told(id, (uint64_t)i, ORDER_QUEUED);
    }
    assert_int_equal(told.count, 5000);
    assert_int_equal(was_told("order-17", 17, ORDER_LOCKED)->user, 17);
    assert_int_equal(told.count, 5000);
    assert_null(answer_find(&told, span_of("order-5000")));
    assert_int_equal(answer_find(&told, span_of("order-4999"))->user, 4999);
    size_t seen = 0;
    for (struct answer *record = NULL; (record = answer_next(&told, record)) != NULL;) {
        seen++;
    }
    assert_int_equal(seen, 5000);
    struct answer *none = NULL;
    assert_int_equal(answer_put(&told, span_of(""), &none), ERR_INVALID);
}

static void lines_reach_the_file_when_flushed(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct tell tell = {.fd = ends[1]};
    assert_int_equal(tell_line(&tell, span_of("o1"), 5, 7, 2, 202, span_of("QUEUED")), 0);
    assert_int_equal(tell_line(&tell, span_of("o2"), 6, 7, 2, 409, span_of("sold_out")), 0);
    assert_int_equal(tell_flush(&tell), 0);
    char text[128] = "";
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    assert_string_equal(text, "o1 5 7 2 202 QUEUED\no2 6 7 2 409 sold_out\n");
    assert_int_equal(tell.len, 0);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
    free(tell.lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_agrees_is_ok, setup, teardown),
        cmocka_unit_test_setup_teardown(a_told_order_that_is_missing_is_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(more_units_than_stock_are_oversold, setup, teardown),
        cmocka_unit_test_setup_teardown(a_buyer_over_the_limit_is_doubled, setup, teardown),
        cmocka_unit_test_setup_teardown(an_id_twice_is_doubled, setup, teardown),
        cmocka_unit_test_setup_teardown(a_state_that_went_backwards_is_wrong, setup, teardown),
        cmocka_unit_test_setup_teardown(another_buyer_is_wrong, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_refused_order_in_the_ledger_is_wrong_unless_the_outcome_is_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(counters_must_add_up_and_agree_with_the_orders, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(findings_are_written_down, setup, teardown),
        cmocka_unit_test(states_follow_the_table_of_moves),
        cmocka_unit_test_setup_teardown(
            an_answer_may_be_late_but_not_older_than_what_its_client_knew, setup, teardown),
        cmocka_unit_test_setup_teardown(the_table_finds_what_was_put, setup, teardown),
        cmocka_unit_test(lines_reach_the_file_when_flushed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
