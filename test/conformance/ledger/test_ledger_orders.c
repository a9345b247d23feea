/*
 * The ops on orders: what each does, what it refuses, that doing it twice changes nothing, and that
 * pay, cancel and expire have one winner. Every test ends with the audit of fixture.c.
 */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

#define ITEM 7

/* One booked order of user 1 for an item of one each. */
static struct order_id booked(struct fixture *f)
{
    struct ledger_op op = book_once(ITEM, 1, 0);
    write_op(f, T0 + 10, &op);
    assert_int_equal(op.order.state, ORDER_LOCKED);
    return op.order.id;
}

static void assert_event(struct fixture *f, size_t at, enum ledger_event_kind kind,
                         struct order_id id)
{
    assert_true(at < f->events_count);
    assert_int_equal(f->events[at].kind, kind);
    assert_true(order_id_equal(f->events[at].id, id));
    assert_int_equal(f->events[at].sale, 1);
    assert_int_equal(f->events[at].item, ITEM);
    assert_int_equal(f->events[at].user, 1);
    assert_int_equal(f->events[at].qty, 1);
}

static void test_book_locks(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 10, 1, false);
    struct ledger_op op = book_once(ITEM, 1, 0);
    op.lsn = 4711;
    f->lsn = 4711;
    write_op(f, T0 + 10, &op);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    assert_false(op.repeated);
    assert_int_equal(op.order.state, ORDER_LOCKED);
    assert_int_equal(op.order.sale, 1);
    assert_int_equal(op.order.amount_cents, PRICE);
    assert_int_equal(op.order.created_at_ms, T0 + 5);
    assert_int_equal(op.order.locked_at_ms, T0 + 10);
    assert_int_equal(op.order.pay_by_ms, T0 + 10 + PAY_WITHIN_MS);
    assert_string_equal(op.order.currency, "CNY");
    assert_int_equal(f->events_count, 1);
    assert_event(f, 0, EVENT_ORDER_LOCKED, op.order.id);
    assert_int_equal(f->events[0].a, op.order.pay_by_ms);
    assert_int_equal(f->events[0].at_ms, T0 + 10);
    assert_stock(f, ITEM, 9, 1, 0);
    assert_holding(f, ITEM, 1, 1, 0, 0);
    /* The stored row is the answered one. */
    struct order_row stored[1];
    struct ledger_query q = {.kind = QUERY_ORDER, .id = op.order.id, .orders = stored};
    (void)ledger_read(f->ledger, &q);
    assert_int_equal(q.error, 0);
    assert_order_equal(&stored[0], &op.order);
    assert_int_equal(sql_number(f, "SELECT booked_lsn FROM meta"), 4711);
}

static void test_book_again_moves_nothing(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 10, 1, false);
    (void)booked(f);
    /* Later, twice in one batch, and even with another user's name on it. */
    struct ledger_op again = book_once(ITEM, 1, 0);
    struct ledger_op other = book_once(ITEM, 1, 0);
    other.command.user = 2;
    struct ledger_op *ops[] = {&again, &other};
    write_batch(f, T0 + 99, ops, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_true(ops[i]->repeated);
        assert_int_equal(ops[i]->refusal, REFUSAL_NONE);
        assert_int_equal(ops[i]->order.user, 1);
        assert_int_equal(ops[i]->order.locked_at_ms, T0 + 10);
    }
    assert_int_equal(f->events_count, 0);
    assert_stock(f, ITEM, 9, 1, 0);
}

static void test_book_twice_in_one_batch(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 10, 1, false);
    struct ledger_op first = book_once(ITEM, 1, 0);
    struct ledger_op second = book_once(ITEM, 1, 0);
    struct ledger_op *ops[] = {&first, &second};
    write_batch(f, T0, ops, 2);
    assert_false(first.repeated);
    assert_true(second.repeated);
    assert_int_equal(second.order.state, ORDER_LOCKED);
    assert_int_equal(f->events_count, 1);
    assert_stock(f, ITEM, 9, 1, 0);
}

static void test_book_over_the_limit_fails(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100, 5, false);
    struct ledger_op three = book_fresh(ITEM, 1, 3, 1);
    struct ledger_op third = book_fresh(ITEM, 1, 3, 2);
    struct ledger_op two = book_fresh(ITEM, 1, 2, 3);
    struct ledger_op other = book_fresh(ITEM, 2, 5, 4);
    struct ledger_op *ops[] = {&three, &third, &two, &other};
    write_batch(f, T0, ops, 4);
    assert_int_equal(three.order.state, ORDER_LOCKED);
    assert_int_equal(third.order.state, ORDER_FAILED);
    assert_int_equal(third.order.reason, REFUSAL_LIMIT_REACHED);
    assert_int_equal(third.refusal, REFUSAL_NONE);
    assert_int_equal(third.order.ended_at_ms, T0);
    assert_int_equal(third.order.pay_by_ms, 0);
    assert_int_equal(two.order.state, ORDER_LOCKED);
    assert_int_equal(other.order.state, ORDER_LOCKED);
    assert_int_equal(f->events_count, 4);
    assert_int_equal(f->events[1].kind, EVENT_ORDER_FAILED);
    assert_int_equal(f->events[1].reason, REFUSAL_LIMIT_REACHED);
    assert_stock(f, ITEM, 90, 10, 0);
    assert_holding(f, ITEM, 1, 5, 1, 0);
    /* A failed row answers like any other. */
    struct ledger_op again = book_fresh(ITEM, 1, 3, 2);
    write_op(f, T0 + 1, &again);
    assert_true(again.repeated);
    assert_int_equal(again.order.state, ORDER_FAILED);
    assert_int_equal(again.order.reason, REFUSAL_LIMIT_REACHED);
}

static void test_book_without_stock_fails(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 2, 0, false);
    struct ledger_op ops[4];
    struct ledger_op *list[4];
    for (uint32_t i = 0; i < 4; i++) {
        ops[i] = book_fresh(ITEM, 1 + i, i == 1 ? 2 : 1, i);
        list[i] = &ops[i];
    }
    write_batch(f, T0, list, 4);
    assert_int_equal(ops[0].order.state, ORDER_LOCKED);
    assert_int_equal(ops[1].order.state, ORDER_FAILED); /* two of the one that is left */
    assert_int_equal(ops[1].order.reason, REFUSAL_NO_STOCK);
    assert_int_equal(ops[2].order.state, ORDER_LOCKED);
    assert_int_equal(ops[3].order.reason, REFUSAL_NO_STOCK);
    assert_stock(f, ITEM, 0, 2, 0);
    assert_holding(f, ITEM, 2, 0, 1, 0);
}

static void test_book_into_a_closed_sale_is_honoured(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 2, 1, false);
    struct ledger_op close = sale_move(1, SALE_CLOSED);
    write_op(f, T0, &close);
    sale_row_free(close.sale);
    (void)booked(f);
    assert_stock(f, ITEM, 1, 1, 0);
}

static void test_book_of_an_unknown_item(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 2, 1, false);
    struct ledger_op unknown = book_once(99, 1, 0);
    struct ledger_op crossed = book_once(ITEM, 1, 0);
    crossed.command.item = 99;
    struct ledger_op empty = book_fresh(ITEM, 3, 0, 1);
    struct ledger_op good = book_once(ITEM, 2, 0);
    struct ledger_op *ops[] = {&unknown, &crossed, &empty, &good};
    write_batch(f, T0, ops, 4);
    assert_int_equal(unknown.refusal, REFUSAL_NO_SUCH_ITEM);
    assert_int_equal(crossed.refusal, REFUSAL_BAD_REQUEST);
    assert_int_equal(empty.refusal, REFUSAL_BAD_REQUEST);
    assert_int_equal(good.order.state, ORDER_LOCKED);
    assert_int_equal(f->events_count, 1);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 1);
}

static void test_pay(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 2, 1, false);
    struct order_id id = booked(f);
    struct ledger_op op = pay(id, "p1", PRICE);
    write_op(f, T0 + 20, &op);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    assert_false(op.repeated);
    assert_int_equal(op.order.state, ORDER_PAID);
    assert_string_equal(op.order.payment_id, "p1");
    assert_int_equal(op.order.ended_at_ms, T0 + 20);
    assert_event(f, 0, EVENT_ORDER_PAID, id);
    assert_stock(f, ITEM, 1, 0, 1);
    assert_holding(f, ITEM, 1, 1, 0, 0);

    /* The same again: the same answer, whenever it comes. */
    struct ledger_op again = pay(id, "p1", PRICE);
    write_op(f, T0 + 2 * PAY_WITHIN_MS, &again);
    assert_true(again.repeated);
    assert_int_equal(again.refusal, REFUSAL_NONE);
    assert_order_equal(&again.order, &op.order);
    assert_int_equal(f->events_count, 0);

    /* The same key for another body; another key for the same order. */
    struct ledger_op different = pay(id, "p1", PRICE + 1);
    struct ledger_op second = pay(id, "p2", PRICE);
    struct ledger_op *ops[] = {&different, &second};
    write_batch(f, T0 + 30, ops, 2);
    assert_int_equal(different.refusal, REFUSAL_DIFFERENT_REQUEST);
    assert_int_equal(second.refusal, REFUSAL_ALREADY_PAID);
    assert_int_equal(second.order.state, ORDER_PAID);
    assert_stock(f, ITEM, 1, 0, 1);
}

static void test_pay_in_another_currency_is_refused(void **state)
{
    struct fixture *f = *state;
    static const char *const others[] = {"USD", "cny", "-"};
    sale_open(f, 1, ITEM, 1, 2, 1, false);
    struct order_id id = booked(f);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct ledger_op other = pay(id, "p1", PRICE);
        (void)snprintf(other.currency, sizeof(other.currency), "%s", others[i]);
        write_op(f, T0 + 20, &other);
        assert_int_equal(other.refusal, REFUSAL_WRONG_AMOUNT);
        assert_int_equal(f->events_count, 0);
    }
    struct ledger_op good = pay(id, "p1", PRICE);
    memcpy(good.currency, "CNY", 4);
    write_op(f, T0 + 21, &good);
    assert_int_equal(good.refusal, REFUSAL_NONE);
    assert_false(good.repeated);
    /* The payment that paid, told again: with its currency or without one it is the same. */
    struct ledger_op again = pay(id, "p1", PRICE);
    write_op(f, T0 + 22, &again);
    assert_true(again.refusal == REFUSAL_NONE && again.repeated);
    struct ledger_op other = pay(id, "p1", PRICE);
    memcpy(other.currency, "USD", 4);
    write_op(f, T0 + 23, &other);
    assert_int_equal(other.refusal, REFUSAL_DIFFERENT_REQUEST);
    assert_stock(f, ITEM, 1, 0, 1);
}

static void test_pay_refusals_leave_no_trace(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 2, 1, false);
    struct order_id id = booked(f);
    struct ledger_op wrong = pay(id, "wrong", PRICE - 1);
    write_op(f, T0 + 20, &wrong);
    assert_int_equal(wrong.refusal, REFUSAL_WRONG_AMOUNT);
    assert_int_equal(f->events_count, 0);
    /* The same words, the same refusal; with the right ones the id is still free. */
    struct ledger_op wrong_again = pay(id, "wrong", PRICE - 1);
    write_op(f, T0 + 21, &wrong_again);
    assert_int_equal(wrong_again.refusal, REFUSAL_WRONG_AMOUNT);
    struct ledger_op good = pay(id, "wrong", PRICE);
    write_op(f, T0 + 22, &good);
    assert_int_equal(good.refusal, REFUSAL_NONE);
    assert_false(good.repeated);
}

static void test_pay_of_an_unknown_order_is_not_final(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 2, 1, false);
    struct order_id id = order_id_once(ITEM, 1, 0);
    struct ledger_op early = pay(id, "p1", PRICE);
    write_op(f, T0, &early);
    assert_int_equal(early.refusal, REFUSAL_NOT_FOUND);
    (void)booked(f);
    struct ledger_op later = pay(id, "p1", PRICE);
    write_op(f, T0 + 20, &later);
    assert_int_equal(later.refusal, REFUSAL_NONE);
    assert_false(later.repeated);
}

/* What each op answers to an order in each state. */
static const struct answer_case {
    const char *name;
    enum order_state state; /* of the order before */
    enum { PAY, PAY_OTHER_KEY, PAY_LESS, CANCEL, CANCEL_BY_OPERATOR, CANCEL_OF_OTHERS, EXPIRE } op;
    int64_t after_ms; /* the deadline */
    enum refusal refusal;
    bool repeated;
    enum order_state then;
} answer_cases[] = {
    {"LOCKED, paid in the last moment", ORDER_LOCKED, PAY, -1, REFUSAL_NONE, false, ORDER_PAID},
    {"LOCKED, paid at the deadline", ORDER_LOCKED, PAY, 0, REFUSAL_EXPIRED, false, ORDER_LOCKED},
    {"LOCKED, paid too little", ORDER_LOCKED, PAY_LESS, -1, REFUSAL_WRONG_AMOUNT, false,
     ORDER_LOCKED},
    {"LOCKED, cancelled", ORDER_LOCKED, CANCEL, -1, REFUSAL_NONE, false, ORDER_CANCELLED},
    {"LOCKED, cancelled by an operator", ORDER_LOCKED, CANCEL_BY_OPERATOR, -1, REFUSAL_NONE, false,
     ORDER_CANCELLED},
    {"LOCKED, cancelled by another buyer", ORDER_LOCKED, CANCEL_OF_OTHERS, -1, REFUSAL_NOT_FOUND,
     false, ORDER_LOCKED},
    {"LOCKED, expired too early", ORDER_LOCKED, EXPIRE, -1, REFUSAL_BAD_STATE, false, ORDER_LOCKED},
    {"LOCKED, expired at the deadline", ORDER_LOCKED, EXPIRE, 0, REFUSAL_NONE, false,
     ORDER_EXPIRED},
    {"PAID, paid again", ORDER_PAID, PAY, -1, REFUSAL_NONE, true, ORDER_PAID},
    {"PAID, paid again after the deadline", ORDER_PAID, PAY, 1, REFUSAL_NONE, true, ORDER_PAID},
    {"PAID, paid with another key", ORDER_PAID, PAY_OTHER_KEY, -1, REFUSAL_ALREADY_PAID, false,
     ORDER_PAID},
    {"PAID, paid less with the same key", ORDER_PAID, PAY_LESS, -1, REFUSAL_DIFFERENT_REQUEST,
     false, ORDER_PAID},
    {"PAID, cancelled", ORDER_PAID, CANCEL, -1, REFUSAL_ALREADY_PAID, false, ORDER_PAID},
    {"PAID, expired", ORDER_PAID, EXPIRE, 0, REFUSAL_BAD_STATE, false, ORDER_PAID},
    {"CANCELLED, paid", ORDER_CANCELLED, PAY, -1, REFUSAL_EXPIRED, false, ORDER_CANCELLED},
    {"CANCELLED, cancelled again", ORDER_CANCELLED, CANCEL, -1, REFUSAL_NONE, true,
     ORDER_CANCELLED},
    {"CANCELLED, cancelled again by an operator", ORDER_CANCELLED, CANCEL_BY_OPERATOR, -1,
     REFUSAL_NONE, true, ORDER_CANCELLED},
    {"CANCELLED, expired", ORDER_CANCELLED, EXPIRE, 0, REFUSAL_BAD_STATE, false, ORDER_CANCELLED},
    {"EXPIRED, paid", ORDER_EXPIRED, PAY, 1, REFUSAL_EXPIRED, false, ORDER_EXPIRED},
    {"EXPIRED, cancelled", ORDER_EXPIRED, CANCEL, 1, REFUSAL_EXPIRED, false, ORDER_EXPIRED},
    {"EXPIRED, expired again", ORDER_EXPIRED, EXPIRE, 1, REFUSAL_BAD_STATE, true, ORDER_EXPIRED},
    {"FAILED, paid", ORDER_FAILED, PAY, -1, REFUSAL_EXPIRED, false, ORDER_FAILED},
    {"FAILED, cancelled", ORDER_FAILED, CANCEL, -1, REFUSAL_EXPIRED, false, ORDER_FAILED},
    {"FAILED, expired", ORDER_FAILED, EXPIRE, 0, REFUSAL_BAD_STATE, false, ORDER_FAILED},
};

/* An order in this state, of a buyer with a limit of one; its deadline would be T0 + 10 + the time. */
static struct order_id order_in(struct fixture *f, enum order_state state, uint64_t user,
                                const char *key)
{
    struct ledger_op ops[2] = {book_once(ITEM, user, 0)};
    write_op(f, T0 + 10, &ops[0]);
    struct order_id id = ops[0].command.id;
    ops[1] = state == ORDER_PAID        ? pay(id, key, PRICE)
             : state == ORDER_CANCELLED ? cancel(id, user)
             : state == ORDER_EXPIRED   ? expire(id)
                                        : book_once(ITEM, user, 1); /* over the limit */
    if (state != ORDER_LOCKED) {
        write_op(f, T0 + 10 + (state == ORDER_EXPIRED ? PAY_WITHIN_MS : 1), &ops[1]);
        assert_int_equal(ops[1].order.state, state);
        id = ops[1].order.id;
    }
    return id;
}

static void test_answers_by_state(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100, 1, false);
    for (uint64_t i = 0; i < sizeof(answer_cases) / sizeof(answer_cases[0]); i++) {
        const struct answer_case *c = &answer_cases[i];
        uint64_t user = 1 + i;
        char key[16];
        (void)snprintf(key, sizeof(key), "key-%d", (int)i);
        struct order_id id = order_in(f, c->state, user, key);
        struct ledger_op op = c->op == PAY                  ? pay(id, key, PRICE)
                              : c->op == PAY_OTHER_KEY      ? pay(id, "other", PRICE)
                              : c->op == PAY_LESS           ? pay(id, key, PRICE - 1)
                              : c->op == CANCEL             ? cancel(id, user)
                              : c->op == CANCEL_BY_OPERATOR ? cancel(id, 0)
                              : c->op == CANCEL_OF_OTHERS   ? cancel(id, user + 1)
                                                            : expire(id);
        write_op(f, T0 + 10 + PAY_WITHIN_MS + c->after_ms, &op);
        struct order_row stored;
        struct ledger_query q = {.kind = QUERY_ORDER, .id = id, .orders = &stored};
        (void)ledger_read(f->ledger, &q);
        size_t events = c->refusal == REFUSAL_NONE && !c->repeated;
        bool shown = c->refusal != REFUSAL_NOT_FOUND && c->refusal != REFUSAL_DIFFERENT_REQUEST;
        if (op.refusal != c->refusal || op.repeated != c->repeated || q.error != 0 ||
            stored.state != c->then || f->events_count != events ||
            (shown ? op.order.state != c->then : op.order.user != 0)) {
            fail_msg("%s: refusal %d, repeated %d, state %d, answered as %d, %d events", c->name,
                     op.refusal, op.repeated, stored.state, op.order.state, (int)f->events_count);
        }
    }
}

static void test_expire(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 2, 1, false);
    struct order_id id = booked(f);
    struct ledger_op op = expire(id);
    write_op(f, T0 + 10 + PAY_WITHIN_MS, &op);
    assert_event(f, 0, EVENT_ORDER_EXPIRED, id);
    assert_holding(f, ITEM, 1, 0, 1, 0);
    struct ledger_op again = expire(id);
    struct ledger_op unknown = expire(order_id_once(ITEM, 55, 0));
    struct ledger_op paid = pay(id, "p1", PRICE);
    struct ledger_op cancelled = cancel(id, 1);
    struct ledger_op *ops[] = {&again, &unknown, &paid, &cancelled};
    write_batch(f, T0 + 11 + PAY_WITHIN_MS, ops, 4);
    assert_int_equal(again.refusal, REFUSAL_BAD_STATE);
    assert_true(again.repeated);
    assert_int_equal(unknown.refusal, REFUSAL_BAD_STATE);
    assert_false(unknown.repeated);
    assert_int_equal(paid.refusal, REFUSAL_EXPIRED);
    assert_int_equal(cancelled.refusal, REFUSAL_EXPIRED);
    assert_int_equal(f->events_count, 0);
    assert_stock(f, ITEM, 2, 0, 0);
    /* The next attempt is another order. */
    struct ledger_op next = book_once(ITEM, 1, 1);
    write_op(f, T0 + 12 + PAY_WITHIN_MS, &next);
    assert_int_equal(next.order.state, ORDER_LOCKED);
    assert_holding(f, ITEM, 1, 1, 1, 0);
}

static void test_expire_bars_where_the_sale_says_so(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 2, 1, true);
    struct order_id id = booked(f);
    struct ledger_op op = expire(id);
    write_op(f, T0 + 10 + PAY_WITHIN_MS, &op);
    assert_holding(f, ITEM, 1, 0, 0, 1);
    /* Booking does not look: the gate decided. A cancel in such a sale still counts. */
    struct ledger_op other = book_once(ITEM, 2, 0);
    write_op(f, T0 + 20, &other);
    struct ledger_op gone = cancel(other.order.id, 2);
    write_op(f, T0 + 21, &gone);
    assert_holding(f, ITEM, 2, 0, 1, 0);
}

static void test_cancel(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 2, 1, false);
    struct order_id id = booked(f);
    struct ledger_op foreign = cancel(id, 2);
    struct ledger_op unknown = cancel(order_id_once(ITEM, 9, 0), 9);
    struct ledger_op *refused[] = {&foreign, &unknown};
    write_batch(f, T0 + 20, refused, 2);
    assert_int_equal(foreign.refusal, REFUSAL_NOT_FOUND);
    assert_int_equal(foreign.order.user, 0);
    assert_int_equal(unknown.refusal, REFUSAL_NOT_FOUND);
    struct ledger_op op = cancel(id, 1);
    write_op(f, T0 + 21, &op);
    assert_int_equal(op.order.state, ORDER_CANCELLED);
    assert_event(f, 0, EVENT_ORDER_CANCELLED, id);
    struct ledger_op again = cancel(id, 0);
    write_op(f, T0 + 22, &again);
    assert_true(again.repeated);
    assert_int_equal(again.order.ended_at_ms, T0 + 21);
    assert_int_equal(f->events_count, 0);
    assert_stock(f, ITEM, 2, 0, 0);
    assert_holding(f, ITEM, 1, 0, 1, 0);
}

/* Longer than the time to pay, so that every cancellation is late. */
#define ALWAYS_LATE (3 * (int64_t)PAY_WITHIN_MS)

static void test_a_late_cancel_counts_as_unpaid_where_the_sale_bars(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 10, 1, true);
    struct order_id id = booked(f);
    struct ledger_op op = cancel(id, 1);
    op.late_ms = ALWAYS_LATE;
    write_op(f, T0 + 20, &op);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    assert_int_equal(op.order.state, ORDER_CANCELLED);
    assert_int_equal(op.order.reason, REFUSAL_BARRED);
    assert_event(f, 0, EVENT_ORDER_CANCELLED, id);
    assert_int_equal(f->events[0].reason, REFUSAL_BARRED);
    assert_stock(f, ITEM, 10, 0, 0);
    assert_holding(f, ITEM, 1, 0, 0, 1);
    struct order_row stored[1];
    struct ledger_query q = {.kind = QUERY_ORDER, .id = id, .orders = stored};
    (void)ledger_read(f->ledger, &q);
    assert_int_equal(q.error, 0);
    assert_order_equal(&stored[0], &op.order);
    /* Again, by whomever and however late: as it was. */
    struct ledger_op again = cancel(id, 0);
    write_op(f, T0 + 30, &again);
    assert_true(again.repeated);
    assert_int_equal(again.order.reason, REFUSAL_BARRED);
    assert_holding(f, ITEM, 1, 0, 0, 1);
}

static void test_a_cancel_in_time_bars_nobody(void **state)
{
    struct fixture *f = *state;
    static const struct {
        bool bar;
        int64_t late_ms, at_ms;
        bool barred;
    } cases[] = {
        {true, 0, T0 + 10 + PAY_WITHIN_MS - 1, false}, /* off */
        {false, ALWAYS_LATE, T0 + 20, false},          /* the sale bars nobody */
        {true, 5000, T0 + 10 + PAY_WITHIN_MS - 5001, false},
        {true, 5000, T0 + 10 + PAY_WITHIN_MS - 5000, true},
        {true, 5000, T0 + 10 + PAY_WITHIN_MS + 7, true}, /* not expired yet */
    };
    for (uint64_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool own_clock = cases[i].late_ms == 5000;
        if (own_clock && f->segments > 0) {
            continue; /* a shared ledger goes by its server's clock */
        }
        sale_open(f, 1 + i, ITEM + i, 1, 10, 1, cases[i].bar);
        struct ledger_op book = book_once(ITEM + i, 1, 0);
        write_op(f, T0 + 10, &book);
        struct ledger_op op = cancel(book.order.id, 1);
        op.late_ms = cases[i].late_ms;
        write_op(f, cases[i].at_ms, &op);
        assert_int_equal(op.order.state, ORDER_CANCELLED);
        assert_int_equal(op.order.reason, cases[i].barred ? REFUSAL_BARRED : REFUSAL_NONE);
        assert_holding(f, ITEM + i, 1, 0, cases[i].barred ? 0 : 1, cases[i].barred);
    }
}

/* What the ledger decided is in the answer, the event and the row, and stays as it was. */
static void assert_cooling(struct fixture *f, struct ledger_op *op, int64_t until_ms)
{
    struct order_row stored[1];
    struct ledger_query q = {.kind = QUERY_ORDER, .id = op->id, .orders = stored};
    assert_int_equal(op->refusal, REFUSAL_NONE);
    if (f->segments > 0 && until_ms != 0) { /* a shared ledger goes by its server's clock */
        until_ms = op->order.ended_at_ms + op->cooling_ms;
    }
    assert_int_equal(op->order.cooling_until_ms, until_ms);
    assert_int_equal(f->events_count, 1);
    assert_int_equal(f->events[0].a, until_ms);
    (void)ledger_read(f->ledger, &q);
    assert_int_equal(q.error, 0);
    assert_order_equal(&stored[0], &op->order);
}

static void test_a_cancel_or_an_expiry_makes_its_buyer_wait(void **state)
{
    struct fixture *f = *state;
    static const struct {
        bool bar;
        int64_t late_ms, cooling_ms, until_ms;
    } cases[] = {
        {false, 0, 60000, T0 + 20 + 60000},
        {false, ALWAYS_LATE, 1, T0 + 20 + 1},
        {true, 0, 60000, T0 + 20 + 60000},
        {true, ALWAYS_LATE, 60000, 0}, /* barred for good */
        {false, 0, 0, 0},
    };
    for (uint64_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sale_open(f, 1 + i, ITEM + i, 1, 10, 1, cases[i].bar);
        struct ledger_op book = book_once(ITEM + i, 1, 0);
        write_op(f, T0 + 10, &book);
        assert_int_equal(book.order.cooling_until_ms, 0);
        struct ledger_op op = cancel(book.order.id, 1);
        op.late_ms = cases[i].late_ms;
        op.cooling_ms = cases[i].cooling_ms;
        write_op(f, T0 + 20, &op);
        assert_cooling(f, &op, cases[i].until_ms);
        /* Again, under another setting: as it was. */
        int64_t until_ms = op.order.cooling_until_ms;
        struct ledger_op again = cancel(book.order.id, 1);
        again.cooling_ms = 1000000;
        write_op(f, T0 + 30, &again);
        assert_true(again.repeated);
        assert_int_equal(again.order.cooling_until_ms, until_ms);
    }
    if (f->segments > 0) {
        return; /* its orders expire by its server's clock */
    }
    for (uint64_t i = 0; i < 2; i++) {
        sale_open(f, 21 + i, ITEM + 20 + i, 1, 10, 1, i == 1);
        struct ledger_op book = book_once(ITEM + 20 + i, 1, 0);
        write_op(f, T0 + 10, &book);
        struct ledger_op op = expire(book.order.id);
        op.cooling_ms = 60000;
        write_op(f, T0 + 10 + PAY_WITHIN_MS, &op);
        assert_cooling(f, &op, i == 1 ? 0 : T0 + 10 + PAY_WITHIN_MS + 60000);
    }
}

static void test_a_payment_makes_nobody_wait(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 10, 1, false);
    struct ledger_op op = pay(booked(f), "p", PRICE);
    op.cooling_ms = 60000;
    write_op(f, T0 + 20, &op);
    assert_cooling(f, &op, 0);
}

static void test_cancel_of_a_paid_or_failed_order(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 1, 1, false);
    struct order_id id = booked(f);
    struct ledger_op paid = pay(id, "p1", PRICE);
    struct ledger_op failed = book_once(ITEM, 2, 0);
    struct ledger_op cancel_paid = cancel(id, 1);
    struct ledger_op cancel_failed = cancel(order_id_once(ITEM, 2, 0), 2);
    struct ledger_op pay_failed = pay(order_id_once(ITEM, 2, 0), "p2", PRICE);
    struct ledger_op *ops[] = {&paid, &failed, &cancel_paid, &cancel_failed, &pay_failed};
    write_batch(f, T0 + 20, ops, 5);
    assert_int_equal(failed.order.reason, REFUSAL_NO_STOCK);
    assert_int_equal(cancel_paid.refusal, REFUSAL_ALREADY_PAID);
    assert_int_equal(cancel_failed.refusal, REFUSAL_EXPIRED);
    assert_int_equal(pay_failed.refusal, REFUSAL_EXPIRED);
    assert_stock(f, ITEM, 0, 0, 1);
}

/* Pay, cancel and expire in one batch, in every order: the first possible one wins, the others are
 * refused. */
static void test_one_winner(void **state)
{
    struct fixture *f = *state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    sale_open(f, 1, ITEM, 1, 100, 1, false);
    for (uint64_t i = 0; i < 12; i++) {
        uint64_t user = 1 + i;
        bool late = i >= 6; /* then the payment may not win, the expiry may */
        struct ledger_op b = book_once(ITEM, user, 0);
        write_op(f, T0 + 10, &b);
        char key[] = "pay-a";
        key[4] = (char)('a' + i);
        struct ledger_op moves[3] = {pay(b.order.id, key, PRICE), cancel(b.order.id, user),
                                     expire(b.order.id)};
        struct ledger_op *ops[3];
        for (int k = 0; k < 3; k++) {
            ops[k] = &moves[orders[i % 6][k]];
        }
        write_batch(f, b.order.pay_by_ms - (late ? 0 : 1), ops, 3);
        int winners = 0;
        for (int k = 0; k < 3; k++) {
            winners += moves[k].refusal == REFUSAL_NONE ? 1 : 0;
        }
        assert_int_equal(winners, 1);
        assert_int_equal(f->events_count, 1);
        assert_int_equal(moves[late ? 0 : 2].refusal != REFUSAL_NONE, 1);
    }
}

static void test_restock(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 2, 10, 1, false);
    struct ledger_op op = restock(ITEM, 5, "r1");
    write_op(f, T0 + 1, &op);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    assert_int_equal(op.sale->items[0].total, 15);
    assert_int_equal(op.sale->items[0].available, 15);
    assert_int_equal(f->events_count, 1);
    assert_int_equal(f->events[0].kind, EVENT_ITEM_RESTOCKED);
    assert_int_equal(f->events[0].a, 5);
    assert_int_equal(f->events[0].item, ITEM);
    sale_row_free(op.sale);

    struct ledger_op again = restock(ITEM, 5, "r1");
    struct ledger_op different = restock(ITEM, 6, "r1");
    struct ledger_op elsewhere = restock(ITEM + 1, 6, "r1"); /* keys are per item */
    struct ledger_op unknown = restock(99, 6, "r1");
    struct ledger_op none = restock(ITEM, 0, "r2");
    struct ledger_op huge = restock(ITEM, STOCK_MAX - 14, "r3");
    struct ledger_op *ops[] = {&again, &different, &elsewhere, &unknown, &none, &huge};
    write_batch(f, T0 + 2, ops, 6);
    assert_true(again.repeated);
    assert_int_equal(again.sale->items[0].total, 15);
    assert_int_equal(different.refusal, REFUSAL_DIFFERENT_REQUEST);
    assert_null(different.sale);
    assert_int_equal(elsewhere.refusal, REFUSAL_NONE);
    assert_int_equal(unknown.refusal, REFUSAL_NO_SUCH_ITEM);
    assert_int_equal(none.refusal, REFUSAL_BAD_REQUEST);
    assert_int_equal(huge.refusal, REFUSAL_BAD_REQUEST);
    assert_int_equal(f->events_count, 1);
    sale_row_free(again.sale);
    sale_row_free(elsewhere.sale);
    assert_stock(f, ITEM, 15, 0, 0);
    assert_stock(f, ITEM + 1, 16, 0, 0);
}

static void test_restock_of_a_closed_or_draft_sale(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 10, 1, false);
    sale_make(f, 2, 20, 1, 10, 1, false);
    struct ledger_op before = restock(ITEM, 5, "r1");
    struct ledger_op close = sale_move(1, SALE_CLOSED);
    struct ledger_op repeated = restock(ITEM, 5, "r1");
    struct ledger_op late = restock(ITEM, 5, "r2");
    struct ledger_op draft = restock(20, 5, "r1");
    struct ledger_op *ops[] = {&before, &close, &repeated, &late, &draft};
    write_batch(f, T0 + 2, ops, 5);
    assert_true(repeated.repeated);
    assert_int_equal(late.refusal, REFUSAL_BAD_STATE);
    /* A draft is no event: the gate loads the total when it is warmed. */
    assert_int_equal(draft.refusal, REFUSAL_NONE);
    assert_int_equal(f->events_count, 2);
    assert_stock(f, 20, 15, 0, 0);
    sale_row_free(before.sale);
    sale_row_free(close.sale);
    sale_row_free(repeated.sale);
    sale_row_free(draft.sale);
}

/* Stock kept back for one update per item is seen by whatever comes later in the batch. */
static void test_a_batch_of_everything(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 2, 1, false);
    struct ledger_op a = book_once(ITEM, 1, 0);
    struct ledger_op b = book_once(ITEM, 2, 0);
    struct ledger_op paid = pay(order_id_once(ITEM, 1, 0), "p1", PRICE);
    struct ledger_op gone = cancel(order_id_once(ITEM, 2, 0), 2);
    struct ledger_op c = book_once(ITEM, 3, 0);
    struct ledger_op more = restock(ITEM, 1, "r1");
    struct ledger_op d = book_once(ITEM, 4, 0);
    struct ledger_op *ops[] = {&a, &b, &paid, &gone, &c, &more, &d};
    write_batch(f, T0 + 10, ops, 7);
    assert_int_equal(more.sale->items[0].available, 1);
    assert_int_equal(more.sale->items[0].locked, 1);
    assert_int_equal(more.sale->items[0].sold, 1);
    sale_row_free(more.sale);
    assert_int_equal(f->events_count, 7);
    assert_stock(f, ITEM, 0, 2, 1);
    /* The whole batch again, as after a lost answer. */
    write_batch(f, T0 + 10, ops, 7);
    for (size_t i = 0; i < 7; i++) {
        assert_true(ops[i]->repeated);
        assert_int_equal(ops[i]->refusal, REFUSAL_NONE);
    }
    sale_row_free(more.sale);
    assert_int_equal(f->events_count, 0);
    assert_stock(f, ITEM, 0, 2, 1);
}

static void test_cursor_never_goes_back(void **state)
{
    struct fixture *f = *state;
    static const uint64_t given[] = {100, 40, 101, 0};
    static const int64_t kept[] = {100, 100, 101, 101};
    for (size_t i = 0; i < 4; i++) {
        struct ledger_batch batch = {.now_ms = T0, .booked_lsn = given[i]};
        (void)ledger_write(f->ledger, &batch);
        assert_int_equal(batch.error, 0);
        assert_int_equal(sql_number(f, "SELECT booked_lsn FROM meta"), kept[i]);
    }
}

static void test_event_numbers_go_on_after_reopening(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 10, 1, false); /* warmed, loaded, opened */
    fixture_reopen(f);
    (void)booked(f);
    assert_int_equal(f->events[0].number, 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_book_locks),
        TEST(test_book_again_moves_nothing),
        TEST(test_book_twice_in_one_batch),
        TEST(test_book_over_the_limit_fails),
        TEST(test_book_without_stock_fails),
        TEST(test_book_into_a_closed_sale_is_honoured),
        TEST(test_book_of_an_unknown_item),
        TEST(test_pay),
        TEST(test_pay_in_another_currency_is_refused),
        TEST(test_pay_refusals_leave_no_trace),
        TEST(test_pay_of_an_unknown_order_is_not_final),
        TEST(test_answers_by_state),
        TEST(test_expire),
        TEST(test_expire_bars_where_the_sale_says_so),
        TEST(test_cancel),
        TEST(test_a_late_cancel_counts_as_unpaid_where_the_sale_bars),
        TEST(test_a_cancel_or_an_expiry_makes_its_buyer_wait),
        TEST(test_a_payment_makes_nobody_wait),
        TEST(test_a_cancel_in_time_bars_nobody),
        TEST(test_cancel_of_a_paid_or_failed_order),
        TEST(test_one_winner),
        TEST(test_restock),
        TEST(test_restock_of_a_closed_or_draft_sale),
        TEST(test_a_batch_of_everything),
        TEST(test_cursor_never_goes_back),
        TEST(test_event_numbers_go_on_after_reopening),
    };
    return LEDGER_SUITE_RUN(tests);
}
