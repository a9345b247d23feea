/* The audit: clients' answers against a ledger, a row for each kind of disagreement. */
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
#include "table_tests.h"

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

/* Answers and orders of an item with a stock of three, one for each buyer; what the audit counts. */
static const struct audit_case {
    const char *name;
    struct {
        const char *id;
        uint64_t user;
        int state;
        bool refused, unknown;
    } told[3];
    struct {
        const char *id;
        uint64_t user;
        enum order_state state;
    } orders[5];
    struct audit_item change; /* added to the item's numbers */
    struct audit_result wanted;
} audit_cases[] = {
    {.name = "answers and ledger agree",
     .told = {{"a", 1, ORDER_QUEUED}, {"b", 2, ORDER_LOCKED}, {"c", 3, ORDER_CANCELLED}},
     .orders = {{"c", 3, ORDER_CANCELLED},
                {"b", 2, ORDER_PAID},
                {"a", 1, ORDER_LOCKED},
                {"x", 99, ORDER_LOCKED}}, /* of another buyer */
     .wanted = {.checked = 3}},
    {.name = "an order in an answer is missing",
     .told = {{"a", 1, ORDER_QUEUED}, {"b", 2, ORDER_LOCKED}},
     .orders = {{"b", 2, ORDER_LOCKED}},
     .wanted = {.checked = 2, .lost = 1}},
    {.name = "and is not missing",
     .told = {{"a", 1, ORDER_QUEUED}, {"b", 2, ORDER_LOCKED}},
     .orders = {{"b", 2, ORDER_LOCKED}, {"a", 1, ORDER_LOCKED}},
     .wanted = {.checked = 2}},
    {.name = "all units are sold",
     .orders = {{"a", 1, ORDER_LOCKED}, {"b", 2, ORDER_PAID}, {"c", 3, ORDER_LOCKED}}},
    {.name = "an expired order holds no unit",
     .orders = {{"a", 1, ORDER_LOCKED},
                {"b", 2, ORDER_PAID},
                {"c", 3, ORDER_LOCKED},
                {"d", 4, ORDER_EXPIRED}}},
    {.name = "more units than the stock",
     .orders = {{"a", 1, ORDER_LOCKED},
                {"b", 2, ORDER_PAID},
                {"c", 3, ORDER_LOCKED},
                {"d", 4, ORDER_EXPIRED},
                {"e", 5, ORDER_LOCKED}},
     .wanted = {.oversold = 1, .wrong = 1}}, /* wrong: available is below zero */
    {.name = "a cancelled order does not count against the limit",
     .orders = {{"a", 1, ORDER_LOCKED}, {"b", 1, ORDER_CANCELLED}}},
    {.name = "a buyer over the limit",
     .orders = {{"a", 1, ORDER_LOCKED}, {"b", 1, ORDER_CANCELLED}, {"c", 1, ORDER_PAID}},
     .wanted = {.doubled = 1}},
    {.name = "the same with a limit of two",
     .orders = {{"a", 1, ORDER_LOCKED}, {"b", 1, ORDER_CANCELLED}, {"c", 1, ORDER_PAID}},
     .change = {.limit_per_user = 1}},
    {.name = "the same without a limit",
     .orders = {{"a", 1, ORDER_LOCKED}, {"b", 1, ORDER_CANCELLED}, {"c", 1, ORDER_PAID}},
     .change = {.limit_per_user = -1}},
    {.name = "an id twice",
     .orders = {{"b", 1, ORDER_LOCKED}, {"a", 2, ORDER_FAILED}, {"b", 3, ORDER_FAILED}},
     .wanted = {.doubled = 1}},
    {.name = "a state that went backwards",
     .told = {{"a", 1, ORDER_PAID}},
     .orders = {{"a", 1, ORDER_LOCKED}},
     .wanted = {.checked = 1, .wrong = 1}},
    {.name = "a state that stayed",
     .told = {{"a", 1, ORDER_LOCKED}},
     .orders = {{"a", 1, ORDER_LOCKED}},
     .wanted = {.checked = 1}},
    {.name = "an order of another buyer",
     .told = {{"a", 1, ORDER_LOCKED}},
     .orders = {{"a", 2, ORDER_LOCKED}},
     .wanted = {.checked = 1, .wrong = 1}},
    {.name = "a refused order that exists",
     .told = {{"a", 1, ANSWER_NONE, .refused = true}},
     .orders = {{"a", 1, ORDER_LOCKED}},
     .wanted = {.wrong = 1}},
    {.name = "an order of unknown outcome that exists",
     .told = {{"a", 1, ANSWER_NONE, .refused = true, .unknown = true}},
     .orders = {{"a", 1, ORDER_LOCKED}}},
    {.name = "counters that agree with the order", .orders = {{"a", 1, ORDER_LOCKED}}},
    {.name = "a unit in no counter",
     .orders = {{"a", 1, ORDER_LOCKED}},
     .change = {.available = -1},
     .wanted = {.wrong = 1}},
    {.name = "a locked unit without an order",
     .orders = {{"a", 1, ORDER_LOCKED}},
     .change = {.available = -1, .locked = 1},
     .wanted = {.wrong = 1}},
    {.name = "a locked unit counted as sold",
     .orders = {{"a", 1, ORDER_LOCKED}},
     .change = {.locked = -1, .sold = 1},
     .wanted = {.wrong = 1}},
};

static void a_case_of_the_audit(void **state)
{
    const struct audit_case *c = *state;
    for (size_t i = 0; i < TABLE_ROWS(c->told) && c->told[i].id != NULL; i++) {
        struct answer *record = was_told(c->told[i].id, c->told[i].user, c->told[i].state);
        record->refused = c->told[i].refused;
        record->unknown = c->told[i].unknown;
    }
    for (size_t i = 0; i < TABLE_ROWS(c->orders) && c->orders[i].id != NULL; i++) {
        has_order(c->orders[i].id, c->orders[i].user, c->orders[i].state);
    }
    item.available += c->change.available;
    item.locked += c->change.locked;
    item.sold += c->change.sold;
    item.limit_per_user += c->change.limit_per_user;
    struct audit_result result;
    const struct answer_table *tables[] = {&told};
    audit_compare(&ledger, tables, 1, NULL, &result);
    assert_int_equal(result.checked, c->wanted.checked);
    assert_int_equal(result.oversold, c->wanted.oversold);
    assert_int_equal(result.lost, c->wanted.lost);
    assert_int_equal(result.doubled, c->wanted.doubled);
    assert_int_equal(result.wrong, c->wanted.wrong);
    assert_int_equal(audit_ok(&result), audit_ok(&c->wanted));
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
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(findings_are_written_down),
        cmocka_unit_test(states_follow_the_table_of_moves),
        TEST(an_answer_may_be_late_but_not_older_than_what_its_client_knew),
        TEST(the_table_finds_what_was_put),
        cmocka_unit_test(lines_reach_the_file_when_flushed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + TABLE_RUN(audit_cases, a_case_of_the_audit, setup, teardown);
}
