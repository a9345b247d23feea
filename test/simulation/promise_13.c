/*
 * Promise 13: After the last fault heals, every QUEUED order resolves within a bound.
 *
 * Checked at the end, after the bound: no order is QUEUED or LOCKED any more, the gate has applied
 * every event, its numbers are those of the ledger, item by item and buyer by buyer, and sales have
 * opened and closed in time. And on the way: while nothing disturbs the server, a durable order does not stay QUEUED for long.
 */
#include "referee_private.h"

#define LLU(x) ((unsigned long long)(x))
#define SOON_MS 3000
#define LATE_MS 60000 /* no sale here gives a buyer so long to pay */
#define HEAL_MS 8000  /* the ledger writer's longest pause between two tries is 5 s */

void promise_13_step(struct referee *r)
{
    int64_t now_ms = ref_inside_low(r);
    for (uint32_t i = 0; i < r->open_count && !sim_is_broken(r->sim); i++) {
        const struct ref_order *order = r->open[i];
        if (!order->in_truth && order->in_gate && order->gate_lsn <= r->view.durable_lsn &&
            now_ms > order->gate_seen_ms + SOON_MS && now_ms > r->calm_ms + HEAL_MS) {
            sim_broken(r->sim, 13,
                       "order %s (LSN %llu) is QUEUED since %lld at %lld; undisturbed since %lld",
                       ref_name(order->id).text, LLU(order->gate_lsn),
                       (long long)order->gate_seen_ms, (long long)now_ms, (long long)r->calm_ms);
        }
    }
}

/* Orders that a wrong clock has booked, before the time was set back: they have been told a deadline
 * that is far away, and keep it. */
uint32_t promise_13_late(const struct referee *r)
{
    uint32_t late = 0;
    for (uint32_t i = 0; i < r->open_count && r->was_set_back; i++) {
        const struct ref_order *order = r->open[i];
        late += order->in_truth && order->state == ORDER_LOCKED &&
                order->pay_by_ms > ref_inside_high(r) + LATE_MS;
    }
    return late;
}

/* The keeper has kept up: what should have opened or closed by its time has. */
static bool sales_are_on_time(struct referee *r)
{
    int64_t now_ms = ref_inside_low(r) - SOON_MS;
    for (uint32_t i = 0; i < r->sales.count; i++) {
        const struct ref_sale *sale = r->sales.entries[i];
        bool over = now_ms > sale->ends_at_ms && sale->state != SALE_CLOSED;
        bool begun = now_ms > sale->starts_at_ms && sale->state == SALE_WARM;
        if (sale->exists && sale->state != SALE_DRAFT && (over || begun)) {
            sim_broken(r->sim, 13, "sale %llu (%lld to %lld) is still %s at the end, at %lld",
                       LLU(sale->pair.a), (long long)sale->starts_at_ms,
                       (long long)sale->ends_at_ms, sale_state_text(sale->state),
                       (long long)now_ms);
            return false;
        }
    }
    return true;
}

void promise_13_end(struct referee *r)
{
    if (!sales_are_on_time(r)) {
        return;
    }
    if (r->open_count > promise_13_late(r)) {
        const struct ref_order *order = r->open[0];
        sim_broken(r->sim, 13, "%u orders are not final at the end; order %s is %s", r->open_count,
                   ref_name(order->id).text,
                   order_state_text(order->in_truth ? order->state : ORDER_QUEUED));
        return;
    }
    if (r->view.gate->applied_event != r->events_count) {
        sim_broken(r->sim, 13, "the gate has applied event %llu of %llu at the end",
                   LLU(r->view.gate->applied_event), LLU(r->events_count));
        return;
    }
    for (uint32_t i = 0; i < r->items.count; i++) {
        const struct ref_item *item = r->items.entries[i];
        if (item->loaded && (item->gate_total != item->total || item->gate_locked != item->locked ||
                             item->gate_sold != item->sold)) {
            sim_broken(r->sim, 13,
                       "item %llu ends with %llu locked, %llu sold of %llu at the gate, %llu, %llu "
                       "of %llu in the ledger",
                       LLU(item->pair.a), LLU(item->gate_locked), LLU(item->gate_sold),
                       LLU(item->gate_total), LLU(item->locked), LLU(item->sold), LLU(item->total));
            return;
        }
    }
    for (uint32_t i = 0; i < r->buyers.count; i++) {
        const struct ref_buyer *buyer = r->buyers.entries[i];
        if (buyer->item->loaded && buyer->held != buyer->alive) {
            sim_broken(r->sim, 13,
                       "user %llu ends with %llu of item %llu at the gate, %llu in the "
                       "ledger",
                       LLU(buyer->pair.a), LLU(buyer->held), LLU(buyer->item->pair.a),
                       LLU(buyer->alive));
            return;
        }
    }
}
