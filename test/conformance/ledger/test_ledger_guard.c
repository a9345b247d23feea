/*
 * The last guard. First the SQL alone, as an operator's shell would meet it: it refuses oversell,
 * double orders, exceeded limits and illegal moves, whatever a program believes. Then what the
 * ledger makes of such a refusal: one bad order never sinks its neighbours.
 */
#include "fixture.h"

#include <string.h>

#define ITEM 7

static void id_of(struct order_id id, char ret_text[ORDER_ID_TEXT + 1])
{
    order_id_text(id, ret_text);
    ret_text[ORDER_ID_TEXT] = '\0';
}

static void assert_refused(struct fixture *f, const char *sql)
{
    enum sql_outcome code = sql_run(f, "%s", sql);
    if (code != SQL_REFUSED) {
        fail_msg("%d: %s", code, sql);
    }
}

static void test_sql_refuses_oversell(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 1, 0, false);
    assert_refused(f, "UPDATE stock SET available = -1, locked = 2");
    assert_refused(f, "UPDATE stock SET available = 0, locked = 2");
    assert_refused(f, "UPDATE stock SET available = 2, locked = -1");
    assert_refused(f, "UPDATE stock SET available = 2, sold = -1");
    assert_refused(f, "UPDATE stock SET total = 2");
    assert_refused(f, "UPDATE stock SET total = 0, available = 0");
    assert_refused(f, "INSERT INTO stock VALUES(99, 1, 1, 0, 0)"); /* of no item */
}

static void test_sql_refuses_double_orders(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 9, 0, false);
    struct ledger_op op = book_fresh(ITEM, 1, 1, 1);
    write_op(f, T0, &op);
    assert_refused(f, "INSERT INTO orders SELECT * FROM orders");
    assert_refused(f, "INSERT INTO orders(item_id, id, user_id, qty, status, amount_cents, "
                      "created_at_ms, locked_at_ms, pay_by_ms, lsn) SELECT item_id, id, 2, 5, "
                      "status, 1, 1, 1, 1, 1 FROM orders");
    assert_refused(f, "DELETE FROM orders");
    assert_refused(f, "UPDATE orders SET id = '20000000000000000000000000'");
    assert_refused(f, "BEGIN; DELETE FROM stock; DELETE FROM items");
}

static void test_sql_refuses_exceeded_limits(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 9, 3, false);
    struct ledger_op op = book_fresh(ITEM, 1, 3, 1);
    write_op(f, T0, &op);
    assert_refused(f, "UPDATE holdings SET held = held + 1");
    assert_refused(f, "UPDATE holdings SET held = -1");
    assert_refused(f, "INSERT INTO holdings(item_id, user_id, held, limit_per_user, ended, barred) "
                      "VALUES(7, 2, 4, 3, 0, 0)");
    assert_refused(f, "INSERT INTO holdings(item_id, user_id, held, limit_per_user, ended, barred) "
                      "VALUES(7, 1, 1, 3, 0, 0)"); /* a second row */
}

static void test_sql_refuses_misshapen_orders(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 9, 3, false);
#define INSERT                                                                                     \
    "INSERT INTO orders(item_id, id, user_id, qty, status, amount_cents, created_at_ms, lsn, "     \
    "locked_at_ms, pay_by_ms, ended_at_ms, reason, payment_id) VALUES(7, "
#define ID "'20000000000000000000000000', "
    assert_refused(f, INSERT ID "1, 0, 'LOCKED', 1, 1, 1, 1, 2, NULL, NULL, NULL)");
    assert_refused(f, INSERT "'short', 1, 1, 'LOCKED', 1, 1, 1, 1, 2, NULL, NULL, NULL)");
    assert_refused(f, INSERT ID "0, 1, 'LOCKED', 1, 1, 1, 1, 2, NULL, NULL, NULL)");
    assert_refused(f, INSERT ID "1, 1, 'QUEUED', 1, 1, 1, 1, 2, NULL, NULL, NULL)");
    assert_refused(f, INSERT ID "1, 1, 'SHIPPED', 1, 1, 1, 1, 2, NULL, NULL, NULL)");
    assert_refused(f, INSERT ID "1, 1, 'LOCKED', 1, 1, 1, NULL, 2, NULL, NULL, NULL)");
    assert_refused(f, INSERT ID "1, 1, 'LOCKED', 1, 1, 1, 1, NULL, NULL, NULL, NULL)");
    assert_refused(f, INSERT ID "1, 1, 'LOCKED', 1, 1, 1, 1, 2, NULL, NULL, 'p')");
    assert_refused(f, INSERT ID "1, 1, 'PAID', 1, 1, 1, 1, 2, 1, NULL, NULL)");
    assert_refused(f, INSERT ID "1, 1, 'PAID', 1, 1, 1, 1, 2, 2, NULL, 'p')");     /* late */
    assert_refused(f, INSERT ID "1, 1, 'EXPIRED', 1, 1, 1, 1, 2, 1, NULL, NULL)"); /* early */
    assert_refused(f, INSERT ID "1, 1, 'FAILED', 1, 1, 1, NULL, NULL, 1, NULL, NULL)");
    assert_refused(f, "INSERT INTO orders(item_id, id, user_id, qty, status, amount_cents, "
                      "created_at_ms, lsn, locked_at_ms, pay_by_ms) VALUES(99, " ID
                      "1, 1, 'LOCKED', 1, 1, 1, 1, 2)"); /* of no item */
#undef ID
#undef INSERT
}

/* The trigger and the program's table of moves agree, on every pair of states. */
static void test_sql_moves_are_the_table(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100, 0, false);
    for (int from = ORDER_LOCKED; from < ORDER_STATE_COUNT; from++) {
        for (int to = ORDER_QUEUED; to < ORDER_STATE_COUNT; to++) {
            bool legal = false;
            for (int m = 0; m < ORDER_MOVE_COUNT; m++) {
                legal |= (int)order_move_from((enum order_move)m) == from &&
                         (int)order_move_to((enum order_move)m) == to;
            }
            /* The new row is well shaped: only the move itself can be wrong. */
            enum sql_outcome code = sql_run(
                f,
                "BEGIN;"
                "INSERT INTO orders(item_id, id, user_id, qty, status, amount_cents, "
                "created_at_ms, lsn, locked_at_ms, pay_by_ms, ended_at_ms, reason, payment_id) "
                "VALUES(7, '20000000000000000000000000', 1, 1, '%s', 1, 1, 1, %s, %s, %s, %s, %s);"
                "UPDATE orders SET status = '%s', ended_at_ms = %s, reason = %s, payment_id = %s, "
                "locked_at_ms = %s, pay_by_ms = %s; ROLLBACK",
                order_state_text((enum order_state)from), from == ORDER_FAILED ? "NULL" : "1",
                from == ORDER_FAILED ? "NULL" : "5",
                from == ORDER_LOCKED ? "NULL"
                : from == ORDER_PAID ? "4"
                                     : "6",
                from == ORDER_FAILED ? "'NO_STOCK'" : "NULL", from == ORDER_PAID ? "'p'" : "NULL",
                order_state_text((enum order_state)to),
                to == ORDER_LOCKED ? "NULL"
                : to == ORDER_PAID ? "4"
                                   : "6",
                to == ORDER_FAILED ? "'NO_STOCK'" : "NULL", to == ORDER_PAID ? "'p'" : "NULL",
                to == ORDER_FAILED ? "NULL" : "1", to == ORDER_FAILED ? "NULL" : "5");
            if (code != (legal ? SQL_DONE : SQL_REFUSED)) {
                fail_msg("%s -> %s: %d", order_state_text((enum order_state)from),
                         order_state_text((enum order_state)to), code);
            }
        }
    }
}

static void test_sql_refuses_a_second_payment(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 9, 0, false);
    struct ledger_op op = book_fresh(ITEM, 1, 1, 1);
    struct ledger_op paid = pay(op.command.id, "p1", PRICE);
    struct ledger_op *ops[] = {&op, &paid};
    write_batch(f, T0, ops, 2);
    assert_refused(f, "INSERT INTO payments SELECT 'p2', item_id, order_id, amount_cents, "
                      "fingerprint, at_ms FROM payments");
    assert_refused(f, "INSERT INTO payments SELECT * FROM payments");
    assert_refused(f, "INSERT INTO payments SELECT 'p3', item_id, '20000000000000000000000000', "
                      "amount_cents, fingerprint, at_ms FROM payments");
}

static void test_sql_refuses_illegal_sale_moves(void **state)
{
    struct fixture *f = *state;
    sale_make(f, 1, ITEM, 1, 9, 0, false);
    assert_refused(f, "UPDATE sales SET state = 'closed'");
    assert_refused(f, "UPDATE sales SET state = 'gone'");
    assert_refused(f, "UPDATE sales SET ends_at_ms = starts_at_ms");
    struct ledger_op op = sale_move(1, SALE_OPEN);
    struct ledger_op close = sale_move(1, SALE_CLOSED);
    struct ledger_op *ops[] = {&op, &close};
    write_batch(f, T0, ops, 2);
    sale_row_free(op.sale);
    sale_row_free(close.sale);
    assert_refused(f, "UPDATE sales SET state = 'open'");
    assert_refused(f, "UPDATE sales SET state = 'draft'");
    assert_refused(f, "BEGIN; DELETE FROM stock; DELETE FROM items; DELETE FROM sales");
}

static void test_one_bad_order_among_many(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 2, 1000, 1, false);
    enum { COUNT = 300 };
    static struct ledger_op ops[COUNT];
    struct ledger_op *list[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        ops[i] = book_once(ITEM + i % 2, 1 + i, 0);
        list[i] = &ops[i];
    }
    ops[100] = book_once(ITEM, 1, 1); /* user 1 has one: over the limit */
    ops[200] = book_once(ITEM, 3, 0); /* seen before */
    write_batch(f, T0, list, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(ops[i].refusal, REFUSAL_NONE);
        assert_int_equal(ops[i].order.state, i == 100 ? ORDER_FAILED : ORDER_LOCKED);
        assert_int_equal(ops[i].repeated, i == 200);
    }
    assert_int_equal(ops[100].order.reason, REFUSAL_LIMIT_REACHED);
    assert_int_equal(f->events_count, COUNT - 1);
    for (size_t i = 0; i < f->events_count; i++) {
        assert_int_equal(f->events[i].number,
                         5 + i); /* four of the sale; the first try left none */
    }
    assert_stock(f, ITEM, 852, 148, 0);
}

/* Rows that disagree with each other, as after a hand edit: the constraint decides, alone. */
static void test_what_only_the_constraint_knows(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 2, 10, 5, false);
    struct ledger_op op = book_fresh(ITEM, 1, 1, 1);
    write_op(f, T0, &op);
    assert_int_equal(sql_run(f, "UPDATE holdings SET limit_per_user = 1"), SQL_DONE);
    struct ledger_op bad = book_fresh(ITEM, 1, 1, 2);
    struct ledger_op good = book_fresh(ITEM, 2, 1, 3);
    struct ledger_op other = book_fresh(ITEM + 1, 1, 5, 4);
    struct ledger_op *ops[] = {&bad, &good, &other};
    write_batch(f, T0, ops, 3);
    assert_int_equal(bad.order.state, ORDER_FAILED);
    assert_int_equal(bad.order.reason, REFUSAL_LIMIT_REACHED);
    assert_int_equal(good.order.state, ORDER_LOCKED);
    assert_int_equal(other.order.state, ORDER_LOCKED);
    assert_stock(f, ITEM, 8, 2, 0);
}

/* An op other than a booking that a constraint refuses: BAD_STATE, nothing changed. */
static void test_a_refused_move(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 10, 5, false);
    struct ledger_op a = book_fresh(ITEM, 1, 2, 1);
    struct ledger_op b = book_fresh(ITEM, 2, 2, 2);
    struct ledger_op *booked[] = {&a, &b};
    write_batch(f, T0, booked, 2);
    assert_int_equal(sql_run(f, "UPDATE holdings SET held = 0 WHERE user_id = 1"), SQL_DONE);
    struct ledger_op bad = cancel(a.order.id, 1);
    struct ledger_op good = cancel(b.order.id, 2);
    struct ledger_op *ops[] = {&bad, &good};
    write_batch(f, T0 + 1, ops, 2);
    assert_int_equal(bad.refusal, REFUSAL_BAD_STATE);
    assert_int_equal(good.refusal, REFUSAL_NONE);
    assert_int_equal(f->events_count, 1);
    assert_stock(f, ITEM, 8, 2, 0);
    char id[ORDER_ID_TEXT + 1];
    id_of(a.order.id, id);
    assert_int_equal(
        sql_number(f, "SELECT count(*) FROM orders WHERE id = '%s' AND status = 'LOCKED'", id), 1);
    assert_int_equal(sql_run(f, "UPDATE holdings SET held = 2 WHERE user_id = 1"), SQL_DONE);
}

/* Refused only when its stock is written, after its event: that is taken back, too. */
static void test_a_refusal_takes_its_event_back(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 2, 10, 5, false);
    struct ledger_op a = book_fresh(ITEM, 1, 2, 1);
    struct ledger_op b = book_fresh(ITEM + 1, 2, 2, 2);
    struct ledger_op *booked[] = {&a, &b};
    write_batch(f, T0, booked, 2);
    assert_int_equal(
        sql_run(f, "UPDATE stock SET available = 9, locked = 1 WHERE item_id = %d", ITEM),
        SQL_DONE);
    struct ledger_op bad = cancel(a.order.id, 1);
    struct ledger_op good = cancel(b.order.id, 2);
    struct ledger_op *ops[] = {&bad, &good};
    write_batch(f, T0 + 1, ops, 2);
    assert_int_equal(bad.refusal, REFUSAL_BAD_STATE);
    assert_int_equal(good.refusal, REFUSAL_NONE);
    assert_int_equal(f->events_count, 1);
    assert_int_equal(f->events[0].item, ITEM + 1);
    assert_int_equal(
        sql_run(f, "UPDATE stock SET available = 8, locked = 2 WHERE item_id = %d", ITEM),
        SQL_DONE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_sql_refuses_oversell),           TEST(test_sql_refuses_double_orders),
        TEST(test_sql_refuses_exceeded_limits),    TEST(test_sql_refuses_misshapen_orders),
        TEST(test_sql_moves_are_the_table),        TEST(test_sql_refuses_a_second_payment),
        TEST(test_sql_refuses_illegal_sale_moves), TEST(test_one_bad_order_among_many),
        TEST(test_what_only_the_constraint_knows), TEST(test_a_refused_move),
        TEST(test_a_refusal_takes_its_event_back),
    };
    return LEDGER_SUITE_RUN(tests);
}
