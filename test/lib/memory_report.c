/* Reports of the ledger in memory: each is a full count of its orders. What the ledgers on SQL databases
 * keep as sums has to come out the same. */
#include <string.h>

#include "base/err.h"
#include "memory_private.h"
#include "port/ledger_report.h"

/* ---- items ---- */

/* Orders of a sale, or of one item, that were made in the same second as `order`. */
static uint64_t in_second(const struct memory_ledger *ledger, const struct order_row *order,
                          bool of_item)
{
    uint64_t count = 0;
    for (size_t i = 0; i < ledger->orders_count; i++) {
        const struct order_row *other = &ledger->orders[i];
        bool meant = of_item ? other->item == order->item : other->sale == order->sale;
        count += meant && other->created_at_ms / 1000 == order->created_at_ms / 1000 ? 1 : 0;
    }
    return count;
}

/* What the buyer of this order has of the sale, or of one item, in orders up to this one. */
struct buyer_count {
    bool first; /* no order before it is theirs */
    bool holds;
    bool pays;
};

static struct buyer_count buyer_of(const struct memory_ledger *ledger, size_t at, bool of_item)
{
    const struct order_row *order = &ledger->orders[at];
    struct buyer_count buyer = {.first = true};
    for (size_t i = 0; i < ledger->orders_count; i++) {
        const struct order_row *other = &ledger->orders[i];
        bool meant = of_item ? other->item == order->item : other->sale == order->sale;
        if (meant && other->user == order->user) {
            buyer.first = buyer.first && i >= at;
            buyer.holds = buyer.holds || order_state_alive(other->state);
            buyer.pays = buyer.pays || other->state == ORDER_PAID;
        }
    }
    return buyer;
}

static void count_item(const struct memory_ledger *ledger, struct report_row *row)
{
    for (size_t i = 0; i < ledger->orders_count; i++) {
        const struct order_row *order = &ledger->orders[i];
        if (order->item != row->item) {
            continue;
        }
        struct buyer_count buyer = buyer_of(ledger, i, true);
        uint64_t peak = in_second(ledger, order, true);
        int64_t at_ms = order->created_at_ms;
        row->orders[order->state]++;
        row->units[order->state] += order->qty;
        row->paid_cents += order->state == ORDER_PAID ? order->amount_cents : 0;
        row->first_order_ms =
            row->first_order_ms == 0 || at_ms < row->first_order_ms ? at_ms : row->first_order_ms;
        row->last_order_ms = at_ms > row->last_order_ms ? at_ms : row->last_order_ms;
        row->buyers += buyer.first && buyer.holds ? 1 : 0;
        row->peak_orders_per_s = peak > row->peak_orders_per_s ? peak : row->peak_orders_per_s;
    }
}

static void read_report(const struct memory_ledger *ledger, const struct sale_row *sale,
                        struct ledger_query *query)
{
    for (uint32_t i = 0; i < sale->items_count && query->count < query->limit; i++) {
        struct report_row *row = &query->report[query->count++];
        *row = (struct report_row){.item = sale->items[i].id};
        count_item(ledger, row);
    }
}

/* ---- the whole ---- */

static void count_lengths(const struct memory_ledger *ledger, struct sale_summary *summary,
                          uint64_t sale)
{
    struct booking_lengths lengths = {.all = summary->booked};
    uint64_t next = 0;
    while (lengths.seen < lengths.all) { /* the shortest that is not below `next` */
        uint64_t shortest = UINT64_MAX;
        uint64_t count = 0;
        for (size_t i = 0; i < ledger->orders_count; i++) {
            const struct order_row *order = &ledger->orders[i];
            uint64_t ms = booking_length(order->created_at_ms, order->locked_at_ms);
            if (order->sale == sale && order->locked_at_ms != 0 && ms >= next && ms <= shortest) {
                count = ms < shortest ? 1 : count + 1;
                shortest = ms;
            }
        }
        summary_add_length(summary, &lengths, shortest, count);
        next = shortest + 1;
    }
}

static uint64_t previous_sale(const struct memory_ledger *ledger, const struct sale_row *sale)
{
    const struct sale_row *previous = NULL;
    for (size_t i = 0; i < ledger->sales_count; i++) {
        const struct sale_row *other = ledger->sales[i];
        bool before = other->starts_at_ms < sale->starts_at_ms ||
                      (other->starts_at_ms == sale->starts_at_ms && other->id < sale->id);
        bool later = previous == NULL || other->starts_at_ms > previous->starts_at_ms ||
                     (other->starts_at_ms == previous->starts_at_ms && other->id > previous->id);
        if (other->state != SALE_DRAFT && before && later) {
            previous = other;
        }
    }
    return previous != NULL ? previous->id : 0;
}

static void read_summary(const struct memory_ledger *ledger, const struct sale_row *sale,
                         struct ledger_query *query)
{
    struct sale_summary *summary = &query->summary;
    memset(summary, 0, sizeof(*summary));
    for (size_t i = 0; i < ledger->orders_count; i++) {
        const struct order_row *order = &ledger->orders[i];
        if (order->sale != sale->id) {
            continue;
        }
        struct buyer_count buyer = buyer_of(ledger, i, false);
        uint64_t peak = in_second(ledger, order, false);
        int64_t second_ms = order->created_at_ms - order->created_at_ms % 1000;
        summary->participants += buyer.first ? 1 : 0;
        summary->winners += buyer.first && buyer.holds ? 1 : 0;
        summary->payers += buyer.first && buyer.pays ? 1 : 0;
        summary->booked += order->locked_at_ms != 0 ? 1 : 0;
        if (peak > summary->peak_orders_per_s ||
            (peak == summary->peak_orders_per_s && second_ms < summary->peak_at_ms)) {
            summary->peak_orders_per_s = peak;
            summary->peak_at_ms = second_ms;
        }
    }
    count_lengths(ledger, summary, sale->id);
    summary->previous = previous_sale(ledger, sale);
}

/* ---- over time ---- */

static struct series_row *step_of(const struct ledger_query *query, int64_t at_ms)
{
    int64_t width_ms = series_width(query->step_ms);
    int64_t since_ms = at_ms - at_ms % width_ms - query->from_ms;
    return series_step(query, since_ms < 0 ? 0 : (uint64_t)(since_ms / query->step_ms));
}

static void read_series(const struct memory_ledger *ledger, const struct sale_row *sale,
                        struct ledger_query *query)
{
    memset(query->series, 0, query->limit * sizeof(*query->series));
    for (size_t i = 0; i < ledger->orders_count; i++) {
        const struct order_row *order = &ledger->orders[i];
        bool failed = order->state == ORDER_FAILED;
        if (order->sale != sale->id) {
            continue;
        }
        struct series_row *made = step_of(query, order->created_at_ms);
        if (made != NULL) {
            made->orders++;
            made->taken += failed ? 0 : order->qty;
        }
        struct series_row *ended =
            order->ended_at_ms != 0 && !failed ? step_of(query, order->ended_at_ms) : NULL;
        if (ended != NULL) {
            ended->paid += order->state == ORDER_PAID ? order->qty : 0;
            ended->returned += order->state != ORDER_PAID ? order->qty : 0;
        }
    }
    query->count = query->limit;
}

int memory_query_report(const struct memory_ledger *ledger, struct ledger_query *query)
{
    static const struct sale_row none = {.id = 0};
    const struct sale_row *sale = memory_sale(ledger, query->sale);
    bool series = query->kind == QUERY_SERIES;
    if (series && (query->limit == 0 || series_width(query->step_ms) == 0)) {
        return ERR_INVALID;
    }
    if (sale == NULL && !series) {
        return ERR_NOTFOUND;
    }
    if (series) {
        read_series(ledger, sale != NULL ? sale : &none, query);
    } else if (query->kind == QUERY_REPORT) {
        read_report(ledger, sale, query);
    } else {
        read_summary(ledger, sale, query);
    }
    return 0;
}
