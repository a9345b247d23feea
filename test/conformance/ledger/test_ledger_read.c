/* Queries: paging, filters, cursors that stay good while orders arrive, events, deadlines, reports.
 */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"

static void run(struct fixture *f, struct ledger_query *q)
{
    q->error = 1;
    (void)ledger_read(f->ledger, q);
}

static void test_state(void **state)
{
    struct fixture *f = *state;
    struct ledger_query q = {.kind = QUERY_STATE, .booked_lsn = 9, .last_event = 9};
    run(f, &q);
    assert_int_equal(q.error, 0);
    assert_int_equal(q.booked_lsn, 0);
    assert_int_equal(q.last_event, 0);
    sale_open(f, 1, 1, 1, 10, 1, false);
    struct ledger_op op = book_once(1, 1, 0);
    op.lsn = f->lsn = 77;
    write_op(f, T0, &op);
    run(f, &q);
    assert_int_equal(q.booked_lsn, 77);
    assert_int_equal(q.last_event, 4);
}

static void test_sales(void **state)
{
    struct fixture *f = *state;
    static const uint64_t ids[] = {3, 5, 8, 9, 1000};
    for (size_t i = 0; i < 5; i++) {
        sale_make(f, ids[i], 100 * (i + 1), (uint32_t)i + 1, 10, 1, false);
    }
    struct sale_row *sales[3];
    struct ledger_query one = {.kind = QUERY_SALES, .sale = 8, .limit = 3, .sales = sales};
    run(f, &one);
    assert_int_equal(one.error, 0);
    assert_int_equal(one.count, 1);
    assert_int_equal(sales[0]->id, 8);
    assert_int_equal(sales[0]->items_count, 3);
    sale_row_free(sales[0]);
    one.sale = 7;
    run(f, &one);
    assert_int_equal(one.error, ERR_NOTFOUND);
    assert_int_equal(one.count, 0);
    size_t seen = 0;
    struct ledger_query page = {.kind = QUERY_SALES, .limit = 2, .sales = sales};
    do {
        run(f, &page);
        assert_int_equal(page.error, 0);
        for (uint32_t i = 0; i < page.count; i++) {
            assert_int_equal(sales[i]->id, ids[seen]);
            assert_int_equal(sales[i]->items_count, ++seen);
            page.after = sales[i]->id;
            sale_row_free(sales[i]);
        }
    } while (page.count > 0);
    assert_int_equal(seen, 5);
}

/* Checks the sales that changed after a number, in order; returns the last change's number. */
static uint64_t changed(struct fixture *f, uint64_t after, const struct sale_change_row *want,
                        size_t count)
{
    struct sale_change_row changes[2];
    struct ledger_query page = {
        .kind = QUERY_SALE_CHANGES, .after = after, .limit = 2, .changes = changes};
    size_t seen = 0;
    do {
        run(f, &page);
        assert_int_equal(page.error, 0);
        for (uint32_t i = 0; i < page.count; i++, seen++) {
            assert_true(seen < count);
            assert_int_equal(changes[i].sale, want[seen].sale);
            assert_int_equal(changes[i].gone, want[seen].gone);
            assert_true(changes[i].number > page.after);
            page.after = changes[i].number;
        }
    } while (page.count > 0);
    assert_int_equal(seen, count);
    return page.after;
}

/* Writes the op; its refusal. */
static enum refusal refusal_of(struct fixture *f, struct ledger_op op)
{
    write_op(f, T0, &op);
    sale_row_free(op.sale);
    return op.refusal;
}

static void test_sale_changes(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(changed(f, 0, NULL, 0), 0);
    for (uint64_t id = 1; id <= 3; id++) {
        sale_make(f, id, 100 * id, 1, 10, 1, false);
    }
    uint64_t last =
        changed(f, 0, (struct sale_change_row[]){{.sale = 1}, {.sale = 2}, {.sale = 3}}, 3);
    assert_int_equal(changed(f, last, NULL, 0), last);
    /* A draft has no events. It changes all the same. */
    struct sale_row named = {.name = "another name"};
    struct ledger_op rename = {
        .kind = LEDGER_SALE_CHANGE, .sale_id = 2, .sale_in = &named, .changes = SALE_HAS_NAME};
    assert_int_equal(refusal_of(f, rename), REFUSAL_NONE);
    last = changed(f, last, (struct sale_change_row[]){{.sale = 2}}, 1);
    /* Repeated and refused ops change nothing. */
    assert_int_equal(refusal_of(f, rename), REFUSAL_NONE);
    assert_int_equal(refusal_of(f, sale_move(2, SALE_PAUSED)), REFUSAL_BAD_STATE);
    assert_int_equal(changed(f, last, NULL, 0), last);
    assert_int_equal(refusal_of(f, restock(300, 5, "more")), REFUSAL_NONE);
    last = changed(f, last, (struct sale_change_row[]){{.sale = 3}}, 1);
    static const enum sale_state moves[] = {SALE_WARM, SALE_OPEN, SALE_PAUSED, SALE_CLOSED};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(refusal_of(f, sale_move(1, moves[i])), REFUSAL_NONE);
        last = changed(f, last, (struct sale_change_row[]){{.sale = 1}}, 1);
    }
    /* A sale that is forgotten or deleted is listed once, as gone. */
    assert_int_equal(refusal_of(f, sale_op(LEDGER_SALE_FORGET, 1)), REFUSAL_NONE);
    last = changed(f, last, (struct sale_change_row[]){{.sale = 1, .gone = true}}, 1);
    assert_int_equal(refusal_of(f, sale_op(LEDGER_SALE_DELETE, 3)), REFUSAL_NONE);
    last = changed(f, last, (struct sale_change_row[]){{.sale = 3, .gone = true}}, 1);
    (void)changed(f, 0,
                  (struct sale_change_row[]){
                      {.sale = 2}, {.sale = 1, .gone = true}, {.sale = 3, .gone = true}},
                  3);
    /* The id of a deleted draft may be given again. */
    sale_make(f, 3, 300, 1, 10, 1, false);
    (void)changed(f, last, (struct sale_change_row[]){{.sale = 3}}, 1);
}

#define MANY 120
static struct order_row all[MANY];

/* The two orders of listings: one user's by time, all others by the table's key. */
static int by_key(const void *left, const void *right)
{
    const struct order_row *a = left;
    const struct order_row *b = right;
    if (a->item != b->item) {
        return a->item > b->item ? -1 : 1;
    }
    if (a->id.hi != b->id.hi) {
        return a->id.hi > b->id.hi ? -1 : 1;
    }
    return a->id.lo > b->id.lo ? -1 : a->id.lo < b->id.lo;
}

static int newest_first(const void *left, const void *right)
{
    const struct order_row *a = left;
    const struct order_row *b = right;
    if (a->created_at_ms != b->created_at_ms) {
        return a->created_at_ms > b->created_at_ms ? -1 : 1;
    }
    return by_key(left, right);
}

/* Two sales of two items, 120 orders of 9 users, few distinct times, some cancelled or paid. */
static void many_orders(struct fixture *f)
{
    struct prng prng = prng_of(5);
    sale_open(f, 1, 11, 2, 1000, 0, false);
    sale_open(f, 2, 21, 2, 1000, 0, false);
    static const uint64_t items[] = {11, 12, 21, 22};
    for (uint32_t i = 0; i < MANY; i++) {
        struct ledger_op op =
            book_fresh(items[prng_below(&prng, 4)], 1 + prng_below(&prng, 9), 1, i);
        op.command.now_ms = T0 + (int64_t)prng_below(&prng, 20);
        write_op(f, T0 + 100, &op);
        all[i] = op.order;
        char key[16];
        (void)snprintf(key, sizeof(key), "p%u", i);
        struct ledger_op end = i % 3 == 0 ? cancel(op.order.id, 0) : pay(op.order.id, key, PRICE);
        if (i % 3 != 2) {
            write_op(f, T0 + 101, &end);
            all[i] = end.order;
        }
    }
    qsort(all, MANY, sizeof(all[0]), by_key);
}

/* Pages through the answer and compares it with a filter over the array. */
static void assert_listing(struct fixture *f, struct ledger_query q)
{
    struct order_row page[7];
    q.kind = QUERY_ORDERS;
    q.orders = page;
    qsort(all, MANY, sizeof(all[0]), q.user != 0 ? newest_first : by_key);
    size_t at = 0;
    do {
        run(f, &q);
        assert_int_equal(q.error, 0);
        assert_true(q.count <= q.limit);
        for (uint32_t i = 0; i < q.count; i++, at++) {
            while (at < MANY && ((q.sale != 0 && all[at].sale != q.sale) ||
                                 (q.item != 0 && all[at].item != q.item) ||
                                 (q.user != 0 && all[at].user != q.user) ||
                                 (q.state >= 0 && (int)all[at].state != q.state))) {
                at++;
            }
            assert_true(at < MANY);
            assert_order_equal(&page[i], &all[at]);
        }
        assert_true(q.next[0] == '\0' || q.count == q.limit);
        memcpy(q.cursor, q.next, sizeof(q.cursor));
    } while (q.next[0] != '\0');
    for (; at < MANY; at++) {
        assert_true((q.sale != 0 && all[at].sale != q.sale) ||
                    (q.item != 0 && all[at].item != q.item) ||
                    (q.user != 0 && all[at].user != q.user) ||
                    (q.state >= 0 && (int)all[at].state != q.state));
    }
}

static void test_orders_by_every_filter(void **state)
{
    struct fixture *f = *state;
    many_orders(f);
    static const uint64_t sales[] = {0, 1, 99};
    static const uint64_t items[] = {0, 12, 21};
    static const uint64_t users[] = {0, 4, 99};
    static const int states[] = {-1, ORDER_PAID, ORDER_LOCKED};
    for (int i = 0; i < 81; i++) {
        for (uint32_t limit = 1; limit <= 7; limit += 3) {
            assert_listing(f, (struct ledger_query){.sale = sales[i % 3],
                                                    .item = items[i / 3 % 3],
                                                    .user = users[i / 9 % 3],
                                                    .state = states[i / 27],
                                                    .limit = limit});
        }
    }
}

static void test_a_cursor_stays_good(void **state)
{
    struct fixture *f = *state;
    many_orders(f);
    struct order_row page[7];
    struct ledger_query q = {.kind = QUERY_ORDERS, .state = -1, .limit = 7, .orders = page};
    size_t at = 0;
    uint32_t sequence = 1000;
    do {
        run(f, &q);
        assert_int_equal(q.error, 0);
        for (uint32_t i = 0; i < q.count; i++) {
            assert_true(order_id_equal(page[i].id, all[at++].id));
        }
        memcpy(q.cursor, q.next, sizeof(q.cursor));
        struct ledger_op op = book_fresh(22, 1, 1, sequence++); /* above all the others */
        op.command.now_ms = T0 + 50;
        write_op(f, T0 + 200, &op);
    } while (q.next[0] != '\0');
    assert_int_equal(at, MANY);
}

static void test_bad_cursors(void **state)
{
    struct fixture *f = *state;
    static const char *const cursors[] = {"x",
                                          "-",
                                          "17",
                                          "17-",
                                          "17-2000000000000000000000000",
                                          "-1-20000000000000000000000000",
                                          "017-20000000000000000000000000",
                                          "17-20000000000000000000000000x",
                                          "99999999999999999999-20000000000000000000000000",
                                          "17-2000000000000000000000000u"};
    for (size_t i = 0; i < sizeof(cursors) / sizeof(cursors[0]); i++) {
        struct order_row page[1];
        struct ledger_query q = {.kind = QUERY_ORDERS, .state = -1, .limit = 1, .orders = page};
        (void)snprintf(q.cursor, sizeof(q.cursor), "%s", cursors[i]);
        run(f, &q);
        assert_int_equal(q.error, ERR_INVALID);
    }
}

static void test_one_order(void **state)
{
    struct fixture *f = *state;
    many_orders(f);
    struct order_row found[1];
    struct ledger_query q = {.kind = QUERY_ORDER, .id = all[17].id, .orders = found};
    run(f, &q);
    assert_int_equal(q.error, 0);
    assert_int_equal(q.count, 1);
    assert_order_equal(&found[0], &all[17]);
    q.id = order_id_once(11, 12345, 0);
    run(f, &q);
    assert_int_equal(q.error, ERR_NOTFOUND);
    assert_int_equal(q.count, 0);
}

static void test_events(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, 11, 1, 1, 0, false);
    struct ledger_op good = book_fresh(11, 5, 1, 1);
    struct ledger_op bad = book_fresh(11, 6, 1, 2);
    struct ledger_op paid = pay(good.command.id, "p", PRICE);
    struct ledger_op *ops[] = {&good, &bad, &paid};
    write_batch(f, T0 + 9, ops, 3);
    struct ledger_event written[3];
    memcpy(written, f->events, sizeof(written));
    struct ledger_event events[4];
    struct ledger_query q = {.kind = QUERY_EVENTS, .limit = 4, .events = events};
    run(f, &q);
    assert_int_equal(q.count, 4);
    assert_int_equal(events[0].number, 1);
    assert_int_equal(events[0].kind, EVENT_SALE_WARMED);
    assert_event_equal(&events[3], &written[0]);
    q.after = 4;
    run(f, &q);
    assert_int_equal(q.error, 0);
    assert_int_equal(q.count, 2); /* as they were answered, to the last field */
    assert_event_equal(&events[0], &written[1]);
    assert_event_equal(&events[1], &written[2]);
    assert_int_equal(events[0].reason, REFUSAL_NO_STOCK);
    q.after = 6;
    run(f, &q);
    assert_int_equal(q.error, 0);
    assert_int_equal(q.count, 0);
}

static void test_locked(void **state)
{
    struct fixture *f = *state;
    many_orders(f);
    size_t expected = 0;
    for (size_t i = 0; i < MANY; i++) {
        expected += all[i].state == ORDER_LOCKED ? 1 : 0;
    }
    for (uint32_t limit = 1; limit <= 7; limit++) {
        struct order_row page[7];
        struct ledger_query q = {.kind = QUERY_LOCKED, .limit = limit, .orders = page};
        size_t seen = 0;
        do {
            run(f, &q);
            assert_int_equal(q.error, 0);
            for (uint32_t i = 0; i < q.count; i++, seen++) {
                assert_int_equal(page[i].state, ORDER_LOCKED);
                bool later = page[i].item > q.after_item ||
                             (page[i].item == q.after_item &&
                              (page[i].id.hi > q.after_id.hi ||
                               (page[i].id.hi == q.after_id.hi && page[i].id.lo > q.after_id.lo)));
                assert_true(later);
                q.after_item = page[i].item;
                q.after_id = page[i].id;
            }
        } while (q.count > 0);
        assert_int_equal(seen, expected);
    }
}

static void test_report(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, 11, 2, 100, 5, false);
    static const int64_t created_ms[] = {T0 + 999, T0 + 1000, T0 + 1500, T0 + 1999, T0 + 2000};
    for (uint32_t i = 0; i < 5; i++) {
        struct ledger_op op = book_fresh(11, 1 + i / 2, 2, i);
        op.command.now_ms = created_ms[i];
        write_op(f, T0 + 3000, &op);
    }
    struct ledger_op failed = book_fresh(11, 1, 2, 9); /* a third pair is over the limit */
    failed.command.now_ms = T0 + 2001;
    struct ledger_op paid = pay(order_id_fresh(11, T0 + 5, 0), "p1", 2LL * PRICE);
    struct ledger_op gone = cancel(order_id_fresh(11, T0 + 5, 4), 0);
    struct ledger_op *ops[] = {&failed, &paid, &gone};
    write_batch(f, T0 + 3001, ops, 3);
    struct report_row rows[2];
    struct ledger_query q = {.kind = QUERY_REPORT, .sale = 1, .limit = 2, .report = rows};
    run(f, &q);
    assert_int_equal(q.error, 0);
    assert_int_equal(q.count, 2);
    assert_int_equal(rows[0].item, 11);
    assert_int_equal(rows[0].orders[ORDER_LOCKED], 3);
    assert_int_equal(rows[0].units[ORDER_LOCKED], 6);
    assert_int_equal(rows[0].orders[ORDER_PAID], 1);
    assert_int_equal(rows[0].orders[ORDER_CANCELLED], 1);
    assert_int_equal(rows[0].orders[ORDER_FAILED], 1);
    assert_int_equal(rows[0].paid_cents, 2LL * PRICE);
    assert_int_equal(rows[0].first_order_ms, T0 + 999);
    assert_int_equal(rows[0].last_order_ms, T0 + 2001);
    assert_int_equal(rows[0].buyers, 2); /* users 1 and 2; user 3 cancelled */
    assert_int_equal(rows[0].peak_orders_per_s, 3);
    assert_int_equal(rows[1].item, 12);
    assert_int_equal(rows[1].orders[ORDER_LOCKED], 0);
    assert_int_equal(rows[1].peak_orders_per_s, 0);
    q.limit = 1;
    run(f, &q);
    assert_int_equal(q.count, 1);
    q.sale = 2;
    run(f, &q);
    assert_int_equal(q.error, ERR_NOTFOUND);
}

/* Two items: a buyer of both counts once, and steps of time hold what happened in them. */
static void test_summary_and_series(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, 11, 2, 100, 5, false);
    static const struct {
        uint64_t item, user;
        int64_t created_ms;
    } made[] = {{11, 1, T0 + 100},  {11, 2, T0 + 200},  {12, 1, T0 + 1100},
                {12, 3, T0 + 1200}, {11, 4, T0 + 1300}, {11, 3, T0 + 9000}};
    for (uint32_t i = 0; i < 6; i++) {
        struct ledger_op op = book_fresh(made[i].item, made[i].user, 2, i);
        op.command.now_ms = made[i].created_ms;
        write_op(f, made[i].created_ms + 10 * (i + 1), &op);
    }
    struct ledger_op paid = pay(order_id_fresh(11, T0 + 5, 0), "p1", 2LL * PRICE);
    write_op(f, T0 + 2500, &paid);
    struct ledger_op gone = cancel(order_id_fresh(11, T0 + 5, 1), 0);
    write_op(f, T0 + 3500, &gone);
    struct ledger_query q = {.kind = QUERY_SUMMARY, .sale = 1};
    run(f, &q);
    assert_int_equal(q.error, 0);
    assert_int_equal(q.summary.participants, 4);
    assert_int_equal(q.summary.winners, 3); /* 2 cancelled */
    assert_int_equal(q.summary.payers, 1);
    assert_int_equal(q.summary.peak_orders_per_s, 3);
    assert_int_equal(q.summary.peak_at_ms, T0 + 1000);
    assert_int_equal(q.summary.booked, 6);
    assert_int_equal(q.summary.booked_p50_ms, 30);
    assert_int_equal(q.summary.booked_p99_ms, 60);
    assert_int_equal(q.summary.booked_max_ms, 60);
    assert_int_equal(q.summary.previous, 0);
    struct series_row rows[4];
    q = (struct ledger_query){.kind = QUERY_SERIES,
                              .sale = 1,
                              .from_ms = T0,
                              .step_ms = 1000,
                              .and_later = true,
                              .limit = 4,
                              .series = rows};
    run(f, &q);
    assert_int_equal(q.error, 0);
    assert_int_equal(q.count, 4);
    assert_int_equal(rows[0].orders, 2);
    assert_int_equal(rows[0].taken, 4);
    assert_int_equal(rows[1].orders, 3);
    assert_int_equal(rows[2].orders, 0);
    assert_int_equal(rows[3].orders, 1); /* the last one holds what came later */
    assert_int_equal(rows[3].taken, 2);
    assert_int_equal(rows[2].paid, 2);
    assert_int_equal(rows[3].returned, 2);
    q.limit = 3;
    run(f, &q);
    assert_int_equal(q.count, 3);
    assert_int_equal(rows[2].orders, 1); /* together with what lies in it */
    assert_int_equal(rows[2].paid, 2);
    assert_int_equal(rows[2].returned, 2);
    q.and_later = false;
    run(f, &q);
    assert_int_equal(q.error, 0);
    assert_int_equal(rows[0].orders, 2);
    assert_int_equal(rows[1].orders, 3);
    assert_int_equal(rows[2].orders, 0);
    assert_int_equal(rows[2].taken, 0);
    assert_int_equal(rows[2].paid, 2);
    assert_int_equal(rows[2].returned, 0);
    q.step_ms = 0;
    run(f, &q);
    assert_int_equal(q.error, ERR_INVALID);
    q = (struct ledger_query){.kind = QUERY_SUMMARY, .sale = 2};
    run(f, &q);
    assert_int_equal(q.error, ERR_NOTFOUND);
}

/* By start, then by id; a draft is no sale yet. */
static void test_the_previous_sale(void **state)
{
    struct fixture *f = *state;
    for (uint64_t sale = 1; sale <= 3; sale++) {
        sale_open(f, sale, 10 * sale, 1, 5, 1, false);
    }
    struct ledger_query q = {.kind = QUERY_SUMMARY, .sale = 3};
    run(f, &q);
    assert_int_equal(q.error, 0);
    assert_int_equal(q.summary.previous, 2);
    assert_int_equal(q.summary.participants, 0);
    assert_int_equal(q.summary.peak_at_ms, 0);
    q.sale = 1;
    run(f, &q);
    assert_int_equal(q.summary.previous, 0);
}

static void test_a_row_of_somebody_else(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, 11, 1, 10, 1, false);
    assert_int_equal(sql_run(f, "INSERT INTO events(number, kind, at_ms) VALUES(4, 'x', 1)"),
                     SQL_DONE);
    struct ledger_event events[9];
    struct ledger_query q = {.kind = QUERY_EVENTS, .limit = 9, .events = events};
    run(f, &q);
    assert_int_equal(q.error, ERR_CORRUPT);
    assert_int_equal(q.count, 0);
    /* Numbers are the writer's alone: it stops rather than leave a gap or a double. */
    struct ledger_op op = book_once(11, 1, 0);
    struct ledger_op *ops[] = {&op};
    struct ledger_batch batch = {.ops = ops, .count = 1, .now_ms = T0};
    (void)ledger_write(f->ledger, &batch);
    assert_int_equal(batch.error, ERR_CORRUPT);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_state),
        TEST(test_sales),
        TEST(test_sale_changes),
        TEST(test_orders_by_every_filter),
        TEST(test_a_cursor_stays_good),
        TEST(test_bad_cursors),
        TEST(test_one_order),
        TEST(test_events),
        TEST(test_locked),
        TEST(test_report),
        TEST(test_summary_and_series),
        TEST(test_the_previous_sale),
        TEST(test_a_row_of_somebody_else),
    };
    return LEDGER_SUITE_RUN(tests);
}
