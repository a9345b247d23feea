/*
 * A ledger whose gate has several segments: how stock is spread over them, what their epochs refuse,
 * that no segment sells more than its share, which events each of them gets, and what one of them is
 * rebuilt from. Ledgers of a gate with one segment refuse all of it.
 */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#define ITEM 7

static void read_one(struct fixture *f, struct ledger_query *q)
{
    (void)ledger_read(f->ledger, q);
    assert_int_equal(q->error, 0);
}

static struct sale_row *sale_read(struct fixture *f, uint64_t id)
{
    struct sale_row *sale = NULL;
    struct ledger_query q = {.kind = QUERY_SALES, .sale = id, .limit = 1, .sales = &sale};
    read_one(f, &q);
    assert_int_equal(q.count, 1);
    return sale;
}

static uint64_t event_count(struct fixture *f)
{
    struct ledger_query q = {.kind = QUERY_STATE};
    read_one(f, &q);
    return q.last_event;
}

/* An order of this segment, in this state, in the ledger and not only in the answer. */
static void assert_order(struct fixture *f, struct order_id id, uint32_t segment,
                         enum order_state state)
{
    struct order_row row;
    struct ledger_query q = {.kind = QUERY_ORDER, .id = id, .orders = &row};
    read_one(f, &q);
    assert_int_equal(row.segment, segment);
    assert_int_equal(row.state, state);
}

static bool known(struct fixture *f, struct order_id id)
{
    struct order_row row;
    struct ledger_query q = {.kind = QUERY_KNOWN, .ids = &id, .limit = 1, .orders = &row};
    read_one(f, &q);
    assert_int_equal(q.count, 1);
    return row.state != ORDER_QUEUED;
}

/* ---- shares ---- */

static void test_warming_spreads_the_stock(void **state)
{
    struct fixture *f = *state;
    static const enum sale_state targets[] = {SALE_WARM, SALE_OPEN};
    static const uint64_t totals[] = {10, 2};
    static const int64_t shares[][SEGMENTS] = {{4, 3, 3}, {1, 1, 0}};
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t sale = 1 + i;
        uint64_t item = 10 * sale;
        sale_make(f, sale, item, 2, totals[i], 5, false);
        struct ledger_op op = sale_move(sale, targets[i]);
        write_op(f, T0, &op);
        assert_int_equal(op.refusal, REFUSAL_NONE);
        assert_int_equal(op.sale->homes, SEGMENTS);
        sale_row_free(op.sale);
        assert_int_equal(f->events_count, 1 + 2 * SEGMENTS + (targets[i] == SALE_OPEN));
        assert_int_equal(f->events[0].kind, EVENT_SALE_WARMED);
        assert_int_equal(f->events[0].segment, SEGMENT_ALL);
        for (uint32_t k = 0; k < 2 * SEGMENTS; k++) {
            const struct ledger_event *e = &f->events[1 + k];
            assert_int_equal(e->kind, EVENT_ITEM_LOADED);
            assert_int_equal(e->item, item + k / SEGMENTS);
            assert_int_equal(e->segment, k % SEGMENTS);
            assert_int_equal(e->a, shares[i][k % SEGMENTS]);
            assert_int_equal(e->b, 5);
        }
        if (targets[i] == SALE_OPEN) {
            assert_int_equal(f->events[1 + 2 * SEGMENTS].kind, EVENT_SALE_OPENED);
            assert_int_equal(f->events[1 + 2 * SEGMENTS].segment, SEGMENT_ALL);
        }
        for (uint32_t s = 0; s < SEGMENTS; s++) {
            assert_allotment(f, s, item, shares[i][s], 0, 0);
            assert_allotment(f, s, item + 1, shares[i][s], 0, 0);
        }
    }
    struct ledger_op again = sale_move(1, SALE_WARM);
    write_op(f, T0, &again);
    assert_true(again.repeated);
    assert_int_equal(f->events_count, 0);
    sale_row_free(again.sale);
    struct sale_row *sale = sale_read(f, 1);
    assert_int_equal(sale->homes, SEGMENTS);
    sale_row_free(sale);
}

static void test_restocking_spreads_too(void **state)
{
    struct fixture *f = *state;
    sale_make(f, 1, ITEM, 1, 3, 0, false);
    struct ledger_op draft = restock(ITEM, 3, "draft");
    write_op(f, T0, &draft);
    assert_int_equal(f->events_count, 0); /* nobody has a share yet */
    sale_row_free(draft.sale);
    struct ledger_op warm = sale_move(1, SALE_WARM);
    write_op(f, T0, &warm);
    sale_row_free(warm.sale);
    static const struct {
        const char *key;
        uint64_t units;
        int64_t shares[SEGMENTS];
    } rows[] = {{"a", 4, {2, 1, 1}}, {"b", 1, {1, 0, 0}}, {"c", 2, {1, 1, 0}}};
    int64_t amounts[SEGMENTS] = {2, 2, 2};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ledger_op op = restock(ITEM, rows[i].units, rows[i].key);
        write_op(f, T0, &op);
        assert_int_equal(op.refusal, REFUSAL_NONE);
        sale_row_free(op.sale);
        size_t at = 0;
        for (uint32_t s = 0; s < SEGMENTS; s++) {
            amounts[s] += rows[i].shares[s];
            assert_allotment(f, s, ITEM, amounts[s], 0, 0);
            if (rows[i].shares[s] > 0) {
                assert_true(at < f->events_count);
                assert_int_equal(f->events[at].kind, EVENT_ITEM_RESTOCKED);
                assert_int_equal(f->events[at].segment, s);
                assert_int_equal(f->events[at].item, ITEM);
                assert_int_equal(f->events[at++].a, rows[i].shares[s]);
            }
        }
        assert_int_equal(at, f->events_count);
    }
    struct ledger_op again = restock(ITEM, 4, "a");
    write_op(f, T0, &again);
    assert_true(again.repeated);
    assert_int_equal(f->events_count, 0);
    sale_row_free(again.sale);
}

static void assert_regions(const struct regions *a, const struct regions *b)
{
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        assert_int_equal(a->at[i].first, b->at[i].first);
        assert_int_equal(a->at[i].last, b->at[i].last);
        assert_int_equal(a->at[i].segments, b->at[i].segments);
        assert_int_equal(a->at[i].weight, b->at[i].weight);
    }
}

/* A sale keeps the regions it was warmed with, whatever others are configured with later. */
static void test_regions(void **state)
{
    struct fixture *f = *state;
    static const char text[] = "eu 1-999 0,1 4; us 1000- 2 1";
    struct regions want;
    const char *why = "";
    assert_int_equal(regions_parse(text, SEGMENTS, &want, &why), 0);
    f->regions = text;
    fixture_reopen(f);
    sale_make(f, 1, ITEM, 1, 10, 0, false);
    struct sale_row *draft = sale_read(f, 1);
    assert_int_equal(draft->regions.count, 0);
    sale_row_free(draft);
    struct ledger_op warm = sale_move(1, SALE_WARM);
    write_op(f, T0, &warm);
    assert_regions(&warm.sale->regions, &want);
    sale_row_free(warm.sale);
    static const int64_t shares[SEGMENTS] = {4, 4, 2};
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        assert_allotment(f, s, ITEM, shares[s], 0, 0);
        assert_int_equal(f->events[1 + s].a, shares[s]);
    }
    f->regions = "";
    fixture_reopen(f);
    struct ledger_op open = sale_move(1, SALE_OPEN);
    write_op(f, T0, &open);
    assert_regions(&open.sale->regions, &want);
    sale_row_free(open.sale);
    sale_open(f, 2, 20, 1, 10, 0, false);
    struct sale_row *later = sale_read(f, 2);
    assert_int_equal(later->regions.count, 0);
    sale_row_free(later);
    assert_allotment(f, 2, 20, 3, 0, 0);
}

/* ---- a segment added while a sale runs ---- */

static void done_op(struct fixture *f, struct ledger_op op)
{
    write_op(f, T0, &op);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    sale_row_free(op.sale);
}

static struct ledger_op transfer_op(enum ledger_kind kind, uint32_t from, uint32_t to,
                                    uint64_t units)
{
    struct ledger_op op = {.kind = kind,
                           .item = ITEM,
                           .segment = from,
                           .to_segment = to,
                           .amount = units,
                           .epoch = 1,
                           .key = "move"};
    return op;
}

static void test_an_added_segment_gets_shares_of_nothing(void **state)
{
    struct fixture *f = *state;
    enum { ADDED = SEGMENTS };
    sale_open(f, 1, ITEM, 2, 9, 0, false);
    sale_make(f, 2, 20, 1, 5, 0, false);
    sale_open(f, 3, 30, 1, 5, 0, false);
    done_op(f, sale_move(3, SALE_CLOSED));
    done_op(f, sale_op(LEDGER_SALE_FORGET, 3));
    struct ledger *old = f->ledger;
    f->segments = SEGMENTS + 1;
    assert_int_equal(fixture_backend->open(f, true, &f->ledger), 0);
    done_op(f, restock(ITEM, 3, "before")); /* it has no life yet: nothing for it */
    struct ledger_op early = transfer_op(LEDGER_TRANSFER, 0, ADDED, 1);
    write_op(f, T0, &early);
    assert_int_equal(early.refusal, REFUSAL_BAD_REQUEST);
    uint64_t events = event_count(f);
    done_op(f, raise_epoch(ADDED, 0));
    assert_int_equal(event_count(f), events); /* its gate is filled from the rows */
    for (uint64_t item = ITEM; item < ITEM + 2; item++) {
        assert_allotment(f, ADDED, item, 0, 0, 0);
    }
    struct allotment_row rows[8];
    struct ledger_query q = {
        .kind = QUERY_ALLOTMENTS, .segment = ADDED, .limit = 8, .allotments = rows};
    read_one(f, &q);
    assert_int_equal(q.count, 2); /* neither drafts nor what is forgotten */
    struct sale_row *sale = sale_read(f, 1);
    assert_int_equal(sale->homes, SEGMENTS);
    sale_row_free(sale);
    /* Restocks reach it, also those of a writer that began before it was there. */
    struct ledger *new = f->ledger;
    f->ledger = old;
    done_op(f, restock(ITEM, 6, "after")); /* 2, 2, 1, 1 */
    f->ledger = new;
    assert_allotment(f, 0, ITEM, 6, 0, 0);
    assert_allotment(f, 2, ITEM, 5, 0, 0);
    assert_allotment(f, ADDED, ITEM, 1, 0, 0);
    done_op(f, transfer_op(LEDGER_TRANSFER, 0, ADDED, 2));
    done_op(f, transfer_op(LEDGER_TRANSFERRED, 0, ADDED, 2));
    assert_allotment(f, ADDED, ITEM, 3, 0, 0);
    /* Another life changes nothing about what it has. */
    done_op(f, raise_epoch(ADDED, 1));
    assert_allotment(f, ADDED, ITEM, 3, 0, 0);
    /* Of a sale that is warmed now it is a home. */
    done_op(f, sale_move(2, SALE_WARM));
    assert_allotment(f, ADDED, 20, 1, 0, 0);
    fixture_backend->close(old);
}

/* ---- epochs ---- */

static void test_epochs(void **state)
{
    struct fixture *f = *state;
    struct segment_row rows[8];
    struct ledger_query q = {.kind = QUERY_SEGMENTS, .limit = 8, .segments = rows};
    static const struct {
        uint32_t segment;
        uint64_t given;
        enum refusal refusal;
        uint64_t answer;
    } steps[] = {
        {1, 1, REFUSAL_NONE, 2},
        {1, 1, REFUSAL_STALE_EPOCH, 2},
        {1, 3, REFUSAL_STALE_EPOCH, 2},
        {1, 0, REFUSAL_STALE_EPOCH, 2},
        {1, 2, REFUSAL_NONE, 3},
        {2, 1, REFUSAL_NONE, 2},
        {SEGMENTS, 0, REFUSAL_BAD_REQUEST, 0},
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct ledger_op op = raise_epoch(steps[i].segment, steps[i].given);
        write_op(f, T0, &op);
        assert_int_equal(op.refusal, steps[i].refusal);
        assert_int_equal(op.epoch, steps[i].answer);
        assert_int_equal(f->events_count, 0);
    }
    read_one(f, &q);
    assert_int_equal(q.count, SEGMENTS);
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        assert_int_equal(rows[i].segment, i);
        assert_int_equal(rows[i].epoch, i == 0 ? 1 : i == 1 ? 3 : 2);
    }
    /* Both in one batch: each sees what the one before it did. */
    struct ledger_op a = raise_epoch(0, 1);
    struct ledger_op b = raise_epoch(0, 2);
    struct ledger_op c = raise_epoch(0, 1);
    write_batch(f, T0, (struct ledger_op *[]){&a, &b, &c}, 3);
    assert_int_equal(a.epoch, 2);
    assert_int_equal(b.epoch, 3);
    assert_int_equal(c.refusal, REFUSAL_STALE_EPOCH);
    assert_int_equal(c.epoch, 3);
}

static void test_another_life_books_nothing(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 9, 1, false);
    struct ledger_op first = book_at(1, ITEM, 5, 0);
    write_op(f, T0, &first);
    assert_int_equal(first.order.state, ORDER_LOCKED);
    struct ledger_op raise = raise_epoch(1, 1);
    write_op(f, T0, &raise);
    uint64_t events = event_count(f);
    static const uint64_t epochs[] = {0, 1, 3};
    for (size_t i = 0; i < sizeof(epochs) / sizeof(epochs[0]); i++) {
        struct ledger_op op = book_at(1, ITEM, 6, 0);
        op.epoch = epochs[i];
        write_op(f, T0, &op);
        assert_int_equal(op.refusal, REFUSAL_STALE_EPOCH);
        assert_int_equal(f->events_count, 0);
        assert_false(known(f, op.command.id));
    }
    /* An order that has a row is reported to any caller; ops beside a stale one are booked. */
    struct ledger_op again = book_at(1, ITEM, 5, 0);
    struct ledger_op stale = book_at(1, ITEM, 6, 0);
    struct ledger_op other = book_at(2, ITEM, 7, 0);
    struct ledger_op fresh = book_at(1, ITEM, 8, 0);
    fresh.epoch = 2;
    write_batch(f, T0, (struct ledger_op *[]){&again, &stale, &other, &fresh}, 4);
    assert_true(again.repeated);
    assert_int_equal(again.order.state, ORDER_LOCKED);
    assert_int_equal(stale.refusal, REFUSAL_STALE_EPOCH);
    assert_int_equal(other.order.state, ORDER_LOCKED);
    assert_int_equal(fresh.order.state, ORDER_LOCKED);
    assert_int_equal(event_count(f), events + 2);
    /* Within one batch, too. */
    struct ledger_op before = book_at(2, ITEM, 9, 0);
    struct ledger_op up = raise_epoch(2, 1);
    struct ledger_op after = book_at(2, ITEM, 10, 0);
    write_batch(f, T0, (struct ledger_op *[]){&before, &up, &after}, 3);
    assert_int_equal(before.order.state, ORDER_LOCKED);
    assert_int_equal(after.refusal, REFUSAL_STALE_EPOCH);
    /* A segment that there is not. */
    struct ledger_op nowhere = book_at(SEGMENTS, ITEM, 11, 0);
    write_op(f, T0, &nowhere);
    assert_int_equal(nowhere.refusal, REFUSAL_BAD_REQUEST);
    assert_false(known(f, nowhere.command.id));
}

/* ---- no segment sells more than its share ---- */

static void test_the_share_is_the_limit(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 6, 1, false); /* 2 each */
    struct ledger_op ops[4];
    struct ledger_op *list[4];
    for (uint32_t i = 0; i < 4; i++) {
        ops[i] = book_at(1, ITEM, 1 + i, 0);
        list[i] = &ops[i];
    }
    write_batch(f, T0, list, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(ops[i].refusal, REFUSAL_NONE);
        assert_int_equal(ops[i].order.state, i < 2 ? ORDER_LOCKED : ORDER_FAILED);
        assert_int_equal(ops[i].order.reason, i < 2 ? REFUSAL_NONE : REFUSAL_NO_STOCK);
        assert_int_equal(ops[i].order.segment, 1);
        assert_int_equal(f->events[i].segment, 1);
    }
    assert_allotment(f, 1, ITEM, 2, 2, 0); /* a write-off takes nothing from what there was */
    struct ledger_op other = book_at(2, ITEM, 9, 0);
    write_op(f, T0, &other);
    assert_int_equal(other.order.state, ORDER_LOCKED);
    /* A unit that comes back can be booked again. */
    struct ledger_op free = cancel(ops[0].command.id, 0);
    struct ledger_op next = book_at(1, ITEM, 20, 0);
    write_batch(f, T0, (struct ledger_op *[]){&free, &next}, 2);
    assert_int_equal(next.order.state, ORDER_LOCKED);
    assert_allotment(f, 1, ITEM, 2, 2, 0);
    struct sale_row *sale = sale_read(f, 1);
    assert_int_equal(sale->items[0].total, 6);
    assert_int_equal(sale->items[0].available, 3);
    sale_row_free(sale);
}

/* The limit holds over all segments, whatever a gate believed. */
static void test_a_buyer_has_one_limit(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 9, 2, false);
    for (uint32_t i = 0; i < 3; i++) {
        struct ledger_op op = book_fresh(ITEM, 5, 1, 64 + i);
        op.segment = i;
        op.epoch = 1;
        write_op(f, T0, &op);
        assert_int_equal(op.order.state, i < 2 ? ORDER_LOCKED : ORDER_FAILED);
        assert_int_equal(op.order.reason, i < 2 ? REFUSAL_NONE : REFUSAL_LIMIT_REACHED);
    }
}

static void test_an_orders_events_go_to_its_segment(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 30, 1, false);
    struct ledger_op ops[3];
    for (uint32_t i = 0; i < 3; i++) {
        ops[i] = book_at(2, ITEM, 1 + i, 0);
        write_op(f, T0, &ops[i]);
        assert_int_equal(f->events[0].segment, 2);
    }
    assert_allotment(f, 2, ITEM, 10, 3, 0);
    struct ledger_op paid = pay(ops[0].command.id, "p1", PRICE);
    write_op(f, T0, &paid);
    assert_int_equal(paid.order.segment, 2);
    assert_int_equal(f->events[0].kind, EVENT_ORDER_PAID);
    assert_int_equal(f->events[0].segment, 2);
    assert_allotment(f, 2, ITEM, 10, 2, 1);
    struct ledger_op away = cancel(ops[1].command.id, 0);
    write_op(f, T0, &away);
    assert_int_equal(f->events[0].segment, 2);
    assert_allotment(f, 2, ITEM, 10, 1, 1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_order(f, ops[i].command.id, 2,
                     i == 0   ? ORDER_PAID
                     : i == 1 ? ORDER_CANCELLED
                              : ORDER_LOCKED);
    }
    struct ledger_op closed = sale_move(1, SALE_CLOSED);
    write_op(f, T0, &closed);
    assert_int_equal(f->events[0].segment, SEGMENT_ALL);
    sale_row_free(closed.sale);
}

/* ---- decisions that will not be booked ---- */

static struct ledger_op fail_at(uint32_t segment, uint64_t item, uint64_t user, enum refusal reason)
{
    struct ledger_op op = book_at(segment, item, user, 0);
    op.kind = LEDGER_FAIL;
    op.epoch = 0; /* nobody looks at it */
    op.reason = reason;
    return op;
}

static void test_failing_a_decision(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 6, 1, false);
    struct ledger_op op = fail_at(1, ITEM, 5, REFUSAL_DEGRADED);
    write_op(f, T0, &op);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    assert_false(op.repeated);
    assert_int_equal(op.order.state, ORDER_FAILED);
    assert_int_equal(op.order.reason, REFUSAL_DEGRADED);
    assert_int_equal(f->events_count, 1);
    assert_int_equal(f->events[0].kind, EVENT_ORDER_FAILED);
    assert_int_equal(f->events[0].reason, REFUSAL_DEGRADED);
    assert_int_equal(f->events[0].segment, 1);
    assert_order(f, op.command.id, 1, ORDER_FAILED);
    assert_allotment(f, 1, ITEM, 2, 0, 0);
    /* Nothing revives it: not the message that comes after all, not failing it for another reason. */
    struct ledger_op late = book_at(1, ITEM, 5, 0);
    struct ledger_op again = fail_at(1, ITEM, 5, REFUSAL_NO_STOCK);
    write_batch(f, T0, (struct ledger_op *[]){&late, &again}, 2);
    assert_true(late.repeated && again.repeated);
    assert_int_equal(late.order.state, ORDER_FAILED);
    assert_int_equal(again.order.reason, REFUSAL_DEGRADED);
    assert_int_equal(f->events_count, 0);
    /* What was booked stays booked. */
    struct ledger_op booked = book_at(2, ITEM, 6, 0);
    struct ledger_op too_late = fail_at(2, ITEM, 6, REFUSAL_DEGRADED);
    write_batch(f, T0, (struct ledger_op *[]){&booked, &too_late}, 2);
    assert_true(too_late.repeated);
    assert_int_equal(too_late.order.state, ORDER_LOCKED);
    struct ledger_op nothing = fail_at(1, 999, 5, REFUSAL_DEGRADED);
    struct ledger_op nowhere = fail_at(SEGMENTS, ITEM, 7, REFUSAL_DEGRADED);
    struct ledger_op no_reason = fail_at(1, ITEM, 7, REFUSAL_NONE);
    write_batch(f, T0, (struct ledger_op *[]){&nothing, &nowhere, &no_reason}, 3);
    assert_int_equal(nothing.refusal, REFUSAL_NO_SUCH_ITEM);
    assert_int_equal(nowhere.refusal, REFUSAL_BAD_REQUEST);
    assert_int_equal(no_reason.refusal, REFUSAL_BAD_REQUEST);
    assert_false(known(f, no_reason.command.id));
}

/* ---- the events of a segment, and its snapshot ---- */

#define PAGE 3

static void test_events_of_a_segment_in_pages(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 60, 1, false);
    for (uint32_t i = 0; i < 24; i++) {
        struct ledger_op op = book_at(i % SEGMENTS, ITEM, 1 + i, 0);
        write_op(f, T0, &op);
    }
    struct ledger_op pause = sale_move(1, SALE_PAUSED);
    write_op(f, T0, &pause);
    sale_row_free(pause.sale);
    for (int32_t s = 0; s < SEGMENTS; s++) {
        struct ledger_event page[PAGE];
        struct ledger_event whole[64];
        struct ledger_query all = {
            .kind = QUERY_EVENTS, .segment = s, .limit = 64, .events = whole};
        read_one(f, &all);
        assert_int_equal(all.count, 12); /* warmed, loaded, opened, paused; 8 orders */
        struct ledger_query q = {.kind = QUERY_EVENTS, .segment = s, .limit = PAGE, .events = page};
        uint32_t seen = 0;
        do {
            read_one(f, &q);
            for (uint32_t i = 0; i < q.count; i++) {
                assert_event_equal(&page[i], &whole[seen++]);
            }
            q.after = q.count > 0 ? page[q.count - 1].number : q.after;
        } while (q.count == PAGE);
        assert_int_equal(seen, all.count);
    }
}

static void test_a_segment_in_pages(void **state)
{
    struct fixture *f = *state;
    enum { ORDERS = 40 };
    sale_open(f, 1, 20, 3, 300, 0, true);
    sale_open(f, 2, 10, 1, 300, 0, false);
    for (uint32_t i = 0; i < ORDERS; i++) {
        struct ledger_op op = book_fresh(i % 4 == 0 ? 10 : 20 + i % 3, 1 + i / 2, 2, i * 64);
        op.segment = i % 2;
        op.epoch = 1;
        write_op(f, T0, &op);
        assert_int_equal(op.order.state, ORDER_LOCKED);
    }
    for (int32_t s = 0; s < 2; s++) {
        struct order_row page[PAGE];
        struct ledger_query q = {
            .kind = QUERY_SEGMENT_ORDERS, .segment = s, .limit = PAGE, .orders = page};
        struct order_row last = {.item = 0};
        uint32_t seen = 0;
        do {
            read_one(f, &q);
            for (uint32_t i = 0; i < q.count; i++, seen++) {
                assert_int_equal(page[i].segment, s);
                assert_true(page[i].item > last.item ||
                            (page[i].item == last.item &&
                             (page[i].id.hi > last.id.hi ||
                              (page[i].id.hi == last.id.hi && page[i].id.lo > last.id.lo))));
                last = page[i];
            }
            q.after_item = last.item;
            q.after_id = last.id;
        } while (q.count == PAGE);
        assert_int_equal(seen, ORDERS / 2);
    }
    /* A buyer is at home in one segment, and read there. */
    uint32_t buyers = 0;
    for (int32_t s = 0; s < 2; s++) {
        struct buyer_row page[PAGE];
        struct ledger_query q = {
            .kind = QUERY_SEGMENT_BUYERS, .segment = s, .limit = PAGE, .buyers = page};
        struct buyer_row last = {.item = 0};
        do {
            read_one(f, &q);
            for (uint32_t i = 0; i < q.count; i++, buyers++) {
                assert_true(page[i].item > last.item ||
                            (page[i].item == last.item && page[i].user > last.user));
                assert_true(page[i].held > 0 && !page[i].barred);
                last = page[i];
            }
            q.after_item = last.item;
            q.after = last.user;
        } while (q.count == PAGE);
    }
    assert_true(buyers > ORDERS / 2 && buyers <= ORDERS);
}

static void test_what_a_buyer_has_behind_him(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 30, 0, false);
    struct ledger_op ops[4];
    for (uint32_t i = 0; i < 4; i++) {
        ops[i] = book_fresh(ITEM, 5, 1 + i, i);
        ops[i].segment = 1;
        ops[i].epoch = 1;
        write_op(f, T0, &ops[i]);
    }
    struct ledger_op away = cancel(ops[0].command.id, 0);
    struct ledger_op paid = pay(ops[1].command.id, "p", (int64_t)2 * PRICE);
    struct ledger_op failed = fail_at(1, ITEM, 5, REFUSAL_DEGRADED);
    write_batch(f, T0, (struct ledger_op *[]){&away, &paid, &failed}, 3);
    struct buyer_row row;
    struct ledger_query q = {
        .kind = QUERY_SEGMENT_BUYERS, .segment = 1, .limit = 1, .buyers = &row};
    read_one(f, &q);
    assert_int_equal(q.count, 1);
    assert_int_equal(row.item, ITEM);
    assert_int_equal(row.user, 5);
    assert_int_equal(row.held, 2 + 3 + 4);
    assert_int_equal(row.failed_attempts, 2);
    assert_false(row.barred);
}

static void test_forgotten_sales_are_left_out(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, 10, 1, 9, 1, false);
    sale_open(f, 2, 20, 1, 9, 1, false);
    struct ledger_op old = book_at(1, 10, 5, 0);
    struct ledger_op away = cancel(old.command.id, 0);
    struct ledger_op close = sale_move(1, SALE_CLOSED);
    struct ledger_op forget = sale_op(LEDGER_SALE_FORGET, 1);
    struct ledger_op mine = book_at(1, 20, 5, 0);
    write_batch(f, T0, (struct ledger_op *[]){&old, &away, &close, &forget, &mine}, 5);
    assert_int_equal(forget.refusal, REFUSAL_NONE);
    sale_row_free(close.sale);
    sale_row_free(forget.sale);
    struct order_row orders[4];
    struct buyer_row buyers[4];
    struct allotment_row allotments[4];
    struct ledger_query q = {
        .kind = QUERY_SEGMENT_ORDERS, .segment = 1, .limit = 4, .orders = orders};
    read_one(f, &q);
    assert_int_equal(q.count, 1);
    assert_int_equal(orders[0].item, 20);
    q = (struct ledger_query){
        .kind = QUERY_SEGMENT_BUYERS, .segment = 1, .limit = 4, .buyers = buyers};
    read_one(f, &q);
    assert_int_equal(q.count, 1);
    assert_int_equal(buyers[0].item, 20);
    q = (struct ledger_query){
        .kind = QUERY_ALLOTMENTS, .segment = 1, .limit = 4, .allotments = allotments};
    read_one(f, &q);
    assert_int_equal(q.count, 1);
    assert_int_equal(allotments[0].item, 20);
    assert_int_equal(allotments[0].sale, 2);
    assert_int_equal(allotments[0].limit_per_user, 1);
    assert_int_equal(allotments[0].locked, 1);
    assert_true(known(f, old.command.id)); /* for ever */
}

static void test_which_orders_are_known(void **state)
{
    struct fixture *f = *state;
    enum { IDS = 4500, EVERY = 9 };
    sale_open(f, 1, ITEM, 1, IDS, 0, false);
    struct order_id *ids = calloc(IDS, sizeof(*ids));
    struct order_row *rows = calloc(IDS, sizeof(*rows));
    struct ledger_op *ops = calloc(IDS / EVERY, sizeof(*ops));
    struct ledger_op **list = calloc(IDS / EVERY, sizeof(*list));
    for (uint32_t i = 0; i < IDS; i++) {
        struct ledger_op op = book_fresh(ITEM, 1 + i, 1, i);
        op.segment = i % SEGMENTS;
        op.epoch = 1;
        ids[i] = op.command.id;
        if (i % EVERY == 0) {
            ops[i / EVERY] = op;
            list[i / EVERY] = &ops[i / EVERY];
        }
    }
    write_batch(f, T0, list, IDS / EVERY);
    struct ledger_op away = cancel(ids[EVERY], 0);
    write_op(f, T0, &away);
    struct ledger_query q = {.kind = QUERY_KNOWN, .ids = ids, .limit = IDS, .orders = rows};
    read_one(f, &q);
    assert_int_equal(q.count, IDS);
    for (uint32_t i = 0; i < IDS; i++) {
        assert_int_equal(rows[i].state, i % EVERY != 0 ? ORDER_QUEUED
                                        : i == EVERY   ? ORDER_CANCELLED
                                                       : ORDER_LOCKED);
    }
    free(ids);
    free(rows);
    free(ops);
    free(list);
}

/* ---- the ledger's own clock ---- */

/* The writers' clocks are wrong, and nobody minds. */
static void test_deadlines_go_by_the_ledger_backends_clock(void **state)
{
    struct fixture *f = *state;
    static const int64_t wrong[] = {0, T0 - 99999999, T0 + 99999999};
    sale_open(f, 1, ITEM, 1, 90, 1, false);
    for (uint32_t i = 0; i < 3; i++) {
        int64_t now_ms = T0 + (int64_t)i * 10 * PAY_WITHIN_MS;
        char key[2] = {(char)('a' + i), '\0'};
        struct ledger_op ops[2];
        fixture_backend->set_time(f->ledger, now_ms);
        for (uint32_t k = 0; k < 2; k++) {
            ops[k] = book_at(1, ITEM, 10 * i + k + 1, 0);
            write_op(f, wrong[i], &ops[k]);
            assert_int_equal(ops[k].order.locked_at_ms, now_ms);
            assert_int_equal(ops[k].order.pay_by_ms, now_ms + PAY_WITHIN_MS);
            assert_int_equal(f->events[0].at_ms, now_ms);
        }
        fixture_backend->set_time(f->ledger, now_ms + PAY_WITHIN_MS - 1);
        struct ledger_op early = expire(ops[0].command.id);
        struct ledger_op in_time = pay(ops[1].command.id, key, PRICE);
        write_batch(f, wrong[i], (struct ledger_op *[]){&early, &in_time}, 2);
        assert_int_equal(early.refusal, REFUSAL_BAD_STATE);
        assert_false(early.repeated);
        assert_int_equal(in_time.refusal, REFUSAL_NONE);
        assert_int_equal(in_time.order.state, ORDER_PAID);
        assert_int_equal(in_time.order.ended_at_ms, now_ms + PAY_WITHIN_MS - 1);
        fixture_backend->set_time(f->ledger, now_ms + PAY_WITHIN_MS);
        struct ledger_op late = pay(ops[0].command.id, "late", PRICE);
        struct ledger_op due = expire(ops[0].command.id);
        struct ledger_op paid = expire(ops[1].command.id);
        write_batch(f, wrong[i], (struct ledger_op *[]){&late, &due, &paid}, 3);
        assert_int_equal(late.refusal, REFUSAL_EXPIRED);
        assert_int_equal(due.refusal, REFUSAL_NONE);
        assert_int_equal(due.order.state, ORDER_EXPIRED);
        assert_int_equal(due.order.ended_at_ms, now_ms + PAY_WITHIN_MS);
        assert_int_equal(paid.refusal, REFUSAL_BAD_STATE);
    }
}

/* ---- a gate with one segment ---- */

static void test_others_refuse_it(void **state)
{
    struct fixture *f = *state;
    static const enum ledger_kind kinds[] = {LEDGER_FAIL, LEDGER_EPOCH, LEDGER_TRANSFER,
                                             LEDGER_TRANSFERRED};
    sale_open(f, 1, ITEM, 1, 9, 1, false);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct ledger_op op = fail_at(0, ITEM, 5, REFUSAL_DEGRADED);
        op.kind = kinds[i];
        op.item = ITEM;
        op.to_segment = 1;
        op.amount = 1;
        op.key[0] = 'k';
        write_op(f, T0, &op);
        assert_int_equal(op.refusal, REFUSAL_BAD_STATE);
        assert_int_equal(f->events_count, 0);
    }
    struct ledger_op op = book_at(2, ITEM, 5, 0);
    write_op(f, T0, &op);
    assert_int_equal(op.order.state, ORDER_LOCKED);
}

int main(void)
{
#define ALONE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup_shared, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_warming_spreads_the_stock),
        TEST(test_restocking_spreads_too),
        TEST(test_regions),
        TEST(test_an_added_segment_gets_shares_of_nothing),
        TEST(test_epochs),
        TEST(test_another_life_books_nothing),
        TEST(test_the_share_is_the_limit),
        TEST(test_a_buyer_has_one_limit),
        TEST(test_an_orders_events_go_to_its_segment),
        TEST(test_failing_a_decision),
        TEST(test_events_of_a_segment_in_pages),
        TEST(test_a_segment_in_pages),
        TEST(test_what_a_buyer_has_behind_him),
        TEST(test_forgotten_sales_are_left_out),
        TEST(test_which_orders_are_known),
        TEST(test_deadlines_go_by_the_ledger_backends_clock),
    };
    const struct CMUnitTest others[] = {ALONE(test_others_refuse_it)};
    int failures = LEDGER_SUITE_RUN(others);
    return failures + LEDGER_SHARED_RUN(tests);
}
