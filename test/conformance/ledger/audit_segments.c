/*
 * The audit of a ledger with segments, by what it answers: shares add up to the stock, what is alive
 * in a segment is what its orders say and no more than its share, buyers hold what their orders say,
 * and each segment reads its own events and those for all, in order.
 */
#include "fixture.h"

#include <stdlib.h>

#define ROWS 10000 /* more than a test makes */

struct audit {
    struct order_row *orders;
    struct buyer_row *buyers;
    struct allotment_row *allotments;
    struct ledger_event *events;
    struct ledger_event *own;
};

static void request(struct fixture *f, struct ledger_query *q)
{
    (void)ledger_read(f->ledger, q);
    assert_int_equal(q->error, 0);
    assert_true(q->count < ROWS);
}

/* Units of the segment's orders of an item in a state; user 0: any. */
static uint64_t units(const struct audit *a, uint32_t count, uint64_t item, uint64_t user,
                      enum order_state state)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct order_row *o = &a->orders[i];
        bool mine = o->item == item && (user == 0 || o->user == user) && o->state == state;
        sum += mine ? o->qty : 0;
    }
    return sum;
}

static void audit_segment(struct fixture *f, struct audit *a, uint32_t segment,
                          struct ledger_query *all)
{
    int32_t s = (int32_t)segment;
    struct ledger_query orders = {
        .kind = QUERY_SEGMENT_ORDERS, .segment = s, .limit = ROWS, .orders = a->orders};
    struct ledger_query buyers = {
        .kind = QUERY_SEGMENT_BUYERS, .segment = s, .limit = ROWS, .buyers = a->buyers};
    struct ledger_query own = {.kind = QUERY_EVENTS, .segment = s, .limit = ROWS, .events = a->own};
    struct ledger_query shares = {
        .kind = QUERY_ALLOTMENTS, .segment = s, .limit = ROWS, .allotments = a->allotments};
    request(f, &orders);
    request(f, &buyers);
    request(f, &own);
    request(f, &shares);
    for (uint32_t i = 0; i < shares.count; i++) {
        const struct allotment_row *share = &a->allotments[i];
        uint64_t locked = units(a, orders.count, share->item, 0, ORDER_LOCKED);
        uint64_t sold = units(a, orders.count, share->item, 0, ORDER_PAID);
        assert_int_equal(share->locked, locked);
        assert_int_equal(share->sold, sold);
        assert_true(locked + sold <= share->amount);
    }
    for (uint32_t i = 0; i < buyers.count; i++) {
        const struct buyer_row *b = &a->buyers[i];
        assert_true(b->held >= units(a, orders.count, b->item, b->user, ORDER_LOCKED) +
                                   units(a, orders.count, b->item, b->user, ORDER_PAID));
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        if (a->events[i].segment == SEGMENT_ALL || a->events[i].segment == s) {
            assert_true(at < own.count);
            assert_event_equal(&a->own[at++], &a->events[i]);
        }
    }
    assert_int_equal(at, own.count);
    uint64_t last = at == 0 ? 0 : a->own[at - 1].number;
    assert_int_equal(orders.last_event, last);
    assert_int_equal(buyers.last_event, last);
    assert_int_equal(shares.last_event, last);
}

/* An item's shares and what is alive of them, over all segments. */
static void audit_item(struct fixture *f, struct audit *a, const struct item_row *item)
{
    uint64_t amount = 0;
    uint64_t locked = 0;
    uint64_t sold = 0;
    for (uint32_t s = 0; s < f->segments; s++) {
        struct ledger_query q = {.kind = QUERY_ALLOTMENTS,
                                 .segment = (int32_t)s,
                                 .after = item->id - 1,
                                 .limit = 1,
                                 .allotments = a->allotments};
        request(f, &q);
        if (q.count == 1 && a->allotments[0].item == item->id) {
            amount += a->allotments[0].amount;
            locked += a->allotments[0].locked;
            sold += a->allotments[0].sold;
        }
    }
    assert_int_equal(amount, item->total);
    assert_int_equal(locked, item->locked);
    assert_int_equal(sold, item->sold);
}

void assert_audit_segments(struct fixture *f)
{
    struct sale_row *sales[64];
    struct audit a = {.orders = calloc(ROWS, sizeof(*a.orders)),
                      .buyers = calloc(ROWS, sizeof(*a.buyers)),
                      .allotments = calloc(ROWS, sizeof(*a.allotments)),
                      .events = calloc(ROWS, sizeof(*a.events)),
                      .own = calloc(ROWS, sizeof(*a.own))};
    struct ledger_query all = {
        .kind = QUERY_EVENTS, .segment = SEGMENT_ALL, .limit = ROWS, .events = a.events};
    request(f, &all);
    for (uint32_t i = 0; i < all.count; i++) {
        assert_int_equal(a.events[i].number, i + 1);
        assert_true(a.events[i].segment >= SEGMENT_ALL &&
                    a.events[i].segment < (int32_t)f->segments);
    }
    for (uint32_t s = 0; s < f->segments; s++) {
        audit_segment(f, &a, s, &all);
    }
    struct ledger_query q = {.kind = QUERY_SALES, .limit = 64, .sales = sales};
    request(f, &q);
    for (uint32_t i = 0; i < q.count; i++) {
        assert_int_equal(sales[i]->homes > 0, sales[i]->state != SALE_DRAFT);
        for (uint32_t k = 0; k < sales[i]->items_count && sales[i]->homes > 0; k++) {
            if (!sales[i]->forgotten) {
                audit_item(f, &a, &sales[i]->items[k]);
            }
        }
        sale_row_free(sales[i]);
    }
    free(a.orders);
    free(a.buyers);
    free(a.allotments);
    free(a.events);
    free(a.own);
}

void assert_allotment(struct fixture *f, uint32_t segment, uint64_t item, int64_t amount,
                      int64_t locked, int64_t sold)
{
    struct allotment_row row;
    struct ledger_query q = {.kind = QUERY_ALLOTMENTS,
                             .segment = (int32_t)segment,
                             .after = item - 1,
                             .limit = 1,
                             .allotments = &row};
    request(f, &q);
    assert_int_equal(q.count, 1);
    assert_int_equal(row.item, item);
    assert_int_equal(row.segment, segment);
    assert_int_equal(row.amount, amount);
    assert_int_equal(row.locked, locked);
    assert_int_equal(row.sold, sold);
}
