/*
 * The gate's expected content, step by step: the truth's events up to the one the gate says it has
 * applied, and the decisions that appear in it. New decisions are found at the head of each item's
 * chain, so a step costs as much as it changed; a few orders and buyers are compared in turn after
 * each step, and all of them at starts and at the end.
 *
 * Between two steps several threads may have run, so decisions and events may come together.
 */
#include <stdlib.h>

#include "base/check.h"
#include "referee_private.h"

/* Compared after each step, in turn. */
#define ORDERS_A_STEP 4
#define BUYERS_A_STEP 2

/* ---- orders under way ---- */

void ref_open_add(struct referee *r, struct ref_order *order)
{
    if (order->open_place != 0) {
        return;
    }
    if (r->open_count == r->open_capacity) {
        r->open_capacity = r->open_capacity == 0 ? 64 : r->open_capacity * 2;
        r->open = realloc(r->open, r->open_capacity * sizeof(struct ref_order *));
        CHECK(r->open != NULL);
    }
    r->open[r->open_count++] = order;
    order->open_place = r->open_count;
    if (order->item->sale != NULL) {
        order->item->sale->unfinished++;
    }
}

void ref_open_remove(struct referee *r, struct ref_order *order)
{
    if (order->open_place == 0) {
        return;
    }
    struct ref_order *last = r->open[--r->open_count];
    r->open[order->open_place - 1] = last;
    last->open_place = order->open_place;
    order->open_place = 0;
    if (order->item->sale != NULL) {
        order->item->sale->unfinished--;
    }
}

/* ---- events the gate has applied ---- */

static void era_add(struct referee *r, struct ref_sale *sale, enum sale_state state,
                    int64_t starts_at_ms, int64_t ends_at_ms)
{
    if (sale->eras_count > 0) {
        sale->eras[sale->eras_count - 1].until = r->now;
    }
    sale->eras = realloc(sale->eras, (sale->eras_count + 1) * sizeof(*sale->eras));
    CHECK(sale->eras != NULL);
    sale->eras[sale->eras_count++] = (struct ref_era){.state = state,
                                                      .starts_at_ms = starts_at_ms,
                                                      .ends_at_ms = ends_at_ms,
                                                      .from = r->now,
                                                      .until = NEVER};
}

static void apply_sale(struct referee *r, const struct ledger_event *event)
{
    struct ref_sale *sale = ref_sale(r, event->sale);
    if (event->kind == EVENT_SALE_WARMED) {
        sale->loaded = true;
        era_add(r, sale, SALE_WARM, event->a, event->b);
        return;
    }
    if (!sale->loaded || sale->eras_count == 0) {
        sim_broken(r->sim, 0, "sale %llu has event %llu (%s) before it was warmed",
                   (unsigned long long)event->sale, (unsigned long long)event->number,
                   ledger_event_text(event->kind));
        return;
    }
    struct ref_era era = sale->eras[sale->eras_count - 1];
    switch (event->kind) {
    case EVENT_SALE_OPENED:
        era_add(r, sale, SALE_OPEN, event->a, era.ends_at_ms);
        break;
    case EVENT_SALE_PAUSED:
        era_add(r, sale, SALE_PAUSED, era.starts_at_ms, era.ends_at_ms);
        break;
    case EVENT_SALE_CLOSED:
        era_add(r, sale, SALE_CLOSED, era.starts_at_ms, era.ends_at_ms);
        break;
    case EVENT_SALE_CHANGED:
        era_add(r, sale, era.state, era.starts_at_ms, event->a);
        break;
    default: /* forgotten */
        sale->gone = true;
        break;
    }
}

static void forget_sale(struct referee *r, const struct ref_sale *sale)
{
    for (uint32_t i = 0; i < r->items.count; i++) {
        struct ref_item *item = r->items.entries[i];
        if (item->sale == sale) {
            item->loaded = false;
        }
    }
    for (uint32_t i = 0; i < r->orders.count; i++) {
        struct ref_order *order = r->orders.entries[i];
        if (order->in_gate && order->item->sale == sale) {
            order->in_gate = false;
            r->gate_orders -= !order->evicted;
        }
    }
}

/* An order's unit leaves its buyer, or is sold. */
static void apply_end(struct referee *r, struct ref_order *order, enum ledger_event_kind kind)
{
    struct ref_buyer *buyer = ref_buyer(r, order->user, order->item->pair.a);
    order->item->gate_locked -= order->qty;
    buyer->live--;
    order->item->live--;
    order->item->sale->live--;
    order->gate_ended_at = r->now;
    if (kind == EVENT_ORDER_PAID) {
        order->item->gate_sold += order->qty;
        return;
    }
    order->item->gate_returned += order->qty;
    buyer->held -= order->qty;
    bool late = kind == EVENT_ORDER_CANCELLED && order->reason == REFUSAL_BARRED;
    if (late || (kind == EVENT_ORDER_EXPIRED && order->item->sale->bar_unpaid)) {
        buyer->barred = true;
        buyer->cooling_until_ms = 0;
    } else {
        buyer->failed_attempts++;
    }
    if (!buyer->barred && order->cooling_until_ms > buyer->cooling_until_ms) {
        buyer->cooling_until_ms = order->cooling_until_ms;
    }
}

static void compare_order(struct referee *r, struct ref_order *order);

static void apply_event(struct referee *r, const struct ledger_event *event)
{
    struct ref_order *order;
    struct ref_item *item;
    switch (event->kind) {
    case EVENT_ORDER_LOCKED:
    case EVENT_ORDER_FAILED:
    case EVENT_ORDER_PAID:
    case EVENT_ORDER_EXPIRED:
    case EVENT_ORDER_CANCELLED:
        order = ref_find_order(r, event->id);
        if (order != NULL && !order->in_gate && ref_sale(r, event->sale)->forgotten &&
            ref_sale(r, event->sale)->forgotten_event <= r->view.gate->applied_event) {
            return; /* off the board since */
        }
        if (order == NULL || !order->in_gate) {
            sim_broken(r->sim, 12, "event %llu (%s) of order %s was applied, but it is not there",
                       (unsigned long long)event->number, ledger_event_text(event->kind),
                       ref_name(event->id).text);
            return;
        }
        if (event->kind != EVENT_ORDER_LOCKED) {
            apply_end(r, order, event->kind);
        }
        break;
    case EVENT_ITEM_RESTOCKED:
        item = ref_item(r, event->item);
        item->gate_total += (uint64_t)event->a;
        item->gate_returned += (uint64_t)event->a;
        break;
    case EVENT_ITEM_LOADED:
        item = ref_item(r, event->item);
        item->loaded = true;
        item->loaded_at = item->loaded_at == NEVER ? r->now : item->loaded_at;
        item->gate_total = (uint64_t)event->a;
        break;
    default:
        apply_sale(r, event);
        if (event->kind == EVENT_SALE_FORGOTTEN) {
            forget_sale(r, ref_sale(r, event->sale));
        }
        break;
    }
}

static void apply_events(struct referee *r)
{
    uint64_t to = r->view.gate->applied_event;
    if (to > r->events_count) {
        sim_broken(r->sim, 12, "the gate has applied event %llu, the ledger has committed %llu",
                   (unsigned long long)to, (unsigned long long)r->events_count);
        return;
    }
    if (to < r->applied) {
        sim_broken(r->sim, 12, "the gate had applied event %llu and now %llu",
                   (unsigned long long)r->applied, (unsigned long long)to);
        return;
    }
    uint64_t from = r->applied;
    while (r->applied < to && !sim_is_broken(r->sim)) {
        apply_event(r, &r->events[r->applied]);
        r->applied++;
    }
    for (uint64_t i = from; i < to && !sim_is_broken(r->sim); i++) {
        struct ref_order *order =
            r->events[i].id.hi != 0 ? ref_find_order(r, r->events[i].id) : NULL;
        if (order != NULL) {
            compare_order(r, order);
        }
    }
}

/* ---- decisions ---- */

/* An order is in the gate that was not there before. */
static void decided(struct referee *r, const struct gate_order *at_gate, struct ref_item *item,
                    bool starting)
{
    struct ref_order *order = ref_find_order(r, at_gate->id);
    if (order == NULL || order->item != item) {
        sim_broken(r->sim, 4, "the gate holds order %s of user %llu for item %llu: nobody asked",
                   ref_name(at_gate->id).text, (unsigned long long)at_gate->user,
                   (unsigned long long)item->pair.a);
        return;
    }
    struct ref_buyer *buyer = ref_buyer(r, at_gate->user, item->pair.a);
    if (starting) {
        promise_12_found(r, order, at_gate);
    }
    bool known = order->seen || order->in_truth;
    order->in_gate = true;
    order->evicted = false;
    order->gate_user = at_gate->user;
    order->gate_qty = at_gate->qty;
    order->gate_created_ms = at_gate->created_at_ms;
    order->gate_lsn = at_gate->state == ORDER_QUEUED ? at_gate->lsn : 0;
    order->gate_seen_ms = ref_inside_high(r);
    order->gate_ended_at = NEVER;
    r->gate_orders++;
    item->gate_locked += at_gate->qty;
    buyer->held += at_gate->qty;
    buyer->live++;
    item->live++;
    item->sale->live++;
    if (!order_state_final(order->in_truth ? order->state : ORDER_QUEUED)) {
        ref_open_add(r, order);
    }
    promise_04_decided(r, order);
    if (!starting) {
        promise_05_decided(r, order, buyer);
    }
    if (starting && known) {
        return;
    }
    if (order->in_truth) {
        sim_broken(r->sim, 6, "order %s was decided again: the ledger has it since event %llu",
                   ref_name(order->id).text, (unsigned long long)order->locked_event);
        return;
    }
    promise_09_decided(r, order);
    promise_10_decided(r, order);
}

static void find_decisions(struct referee *r, struct ref_item *item,
                           const struct gate_item *at_gate, bool starting)
{
    const struct gate *gate = r->view.gate;
    for (uint32_t link = at_gate->orders.first; link != 0;
         link = gate->orders[link - 1].by_item.next) {
        const struct gate_order *order = &gate->orders[link - 1];
        const struct ref_order *known = ref_find_order(r, order->id);
        if (known != NULL && known->in_gate && !known->evicted) {
            break; /* so are all older ones */
        }
        decided(r, order, item, starting);
        if (sim_is_broken(r->sim)) {
            return;
        }
    }
}

/* ---- comparing ---- */

static uint32_t evicted_at_gate(const struct referee *r, const struct ref_item *item)
{
    uint32_t slot = gate_find_item(r->view.gate, item->pair.a);
    return slot != GATE_NONE ? r->view.gate->items[slot].evicted : 0;
}

/* An order has left the gate. Only one that is final may, and the item counts it. */
static bool found_evicted(struct referee *r, struct ref_order *order)
{
    struct ref_item *item = order->item;
    if (!order_state_final(ref_state_at(order, r->applied)) ||
        item->evicted >= evicted_at_gate(r, item)) {
        return false;
    }
    order->evicted = true;
    item->evicted++;
    r->gate_orders--;
    r->evictions++;
    return true;
}

static void compare_order(struct referee *r, struct ref_order *order)
{
    const struct gate *gate = r->view.gate;
    if (!order->in_gate) {
        return;
    }
    uint32_t slot = gate_find_order(gate, order->id);
    if (order->evicted) {
        if (slot != GATE_NONE) {
            sim_broken(r->sim, 6, "order %s was evicted, and is in the gate again",
                       ref_name(order->id).text);
        }
        return;
    }
    if (slot == GATE_NONE) {
        if (!ref_forgotten(order) && !found_evicted(r, order)) {
            sim_broken(r->sim, 12, "order %s was in the gate and is gone",
                       ref_name(order->id).text);
        }
        return;
    }
    const struct gate_order *at_gate = &gate->orders[slot];
    enum order_state state = ref_state_at(order, r->applied);
    if (at_gate->state != state) {
        sim_broken(r->sim, 7, "order %s is %s in the gate; with %llu events it has to be %s",
                   ref_name(order->id).text, order_state_text((enum order_state)at_gate->state),
                   (unsigned long long)r->applied, order_state_text(state));
    } else if (at_gate->user != order->gate_user || at_gate->qty != order->gate_qty ||
               at_gate->created_at_ms != order->gate_created_ms ||
               gate->items[at_gate->item_slot].id != order->item->pair.a) {
        sim_broken(r->sim, 6, "order %s has changed in the gate: user %llu, qty %u, created %lld",
                   ref_name(order->id).text, (unsigned long long)at_gate->user, at_gate->qty,
                   (long long)at_gate->created_at_ms);
    } else if (state != ORDER_QUEUED && at_gate->pay_by_ms != order->pay_by_ms) {
        sim_broken(r->sim, 8, "order %s is to be paid by %lld in the gate, by %lld in the ledger",
                   ref_name(order->id).text, (long long)at_gate->pay_by_ms,
                   (long long)order->pay_by_ms);
    }
}

static void compare_buyer(struct referee *r, const struct ref_buyer *buyer)
{
    const struct gate *gate = r->view.gate;
    const struct ref_item *item = buyer->item;
    if (!item->loaded || item->sale->forgotten) {
        return;
    }
    uint32_t slot = gate_find_item(gate, item->pair.a);
    const struct gate_buyer *at_gate =
        slot == GATE_NONE ? NULL : gate_find_buyer(gate, slot, buyer->pair.a);
    uint64_t held = at_gate != NULL ? at_gate->held : 0;
    uint32_t failed_attempts = at_gate != NULL ? at_gate->failed_attempts : 0;
    bool barred = at_gate != NULL && at_gate->barred != 0;
    int64_t cooling_until_ms = at_gate != NULL ? at_gate->cooling_until_ms : 0;
    if (cooling_until_ms != buyer->cooling_until_ms) {
        sim_broken(r->sim, 5,
                   "user %llu waits until %lld for item %llu in the gate; his orders say %lld",
                   (unsigned long long)buyer->pair.a, (long long)cooling_until_ms,
                   (unsigned long long)item->pair.a, (long long)buyer->cooling_until_ms);
        return;
    }
    if (held != buyer->held || failed_attempts != buyer->failed_attempts ||
        barred != buyer->barred) {
        sim_broken(
            r->sim, 5,
            "user %llu holds %llu of item %llu in the gate (%u ended, barred %d); his orders "
            "say %llu (%u ended, barred %d)",
            (unsigned long long)buyer->pair.a, (unsigned long long)held,
            (unsigned long long)item->pair.a, failed_attempts, barred,
            (unsigned long long)buyer->held, buyer->failed_attempts, buyer->barred);
    }
}

/* Nobody has more orders that are not final than his share. */
static void compare_shares(struct referee *r, const struct ref_buyer *buyer)
{
    const struct gate_shares *shares = &r->view.gate->shares;
    const struct ref_item *item = buyer->item;
    if (!item->loaded || item->sale->forgotten) {
        return;
    }
    if (buyer->live > shares->buyer_orders || item->live > shares->item_orders ||
        item->sale->live > shares->sale_orders) {
        sim_broken(r->sim, 9,
                   "user %llu has %u live orders of item %llu, which has %u, its sale %u",
                   (unsigned long long)buyer->pair.a, buyer->live, (unsigned long long)item->pair.a,
                   item->live, item->sale->live);
    }
}

static const struct gate_item *item_at_gate(struct referee *r, struct ref_item *item)
{
    const struct gate *gate = r->view.gate;
    CHECK(gate->items != NULL);
    if (item->slot >= gate->item_pool.fresh || !gate->items[item->slot].used ||
        gate->items[item->slot].id != item->pair.a) {
        item->slot = gate_find_item(gate, item->pair.a);
    }
    return item->slot == GATE_NONE ? NULL : &gate->items[item->slot];
}

static void note_available(struct referee *r, struct ref_item *item,
                           const struct gate_item *at_gate)
{
    /* Units may have come back after others were taken, all since the last step. */
    int64_t now = (int64_t)at_gate->available;
    int64_t back = (int64_t)item->gate_returned;
    if (back > 0) {
        ref_low_set(&item->available, r->now, now > back ? now - back : 0);
        ref_low_set(&item->most, r->now, item->most.now - back);
        item->gate_returned = 0;
    }
    ref_low_set(&item->available, r->now, now);
    ref_low_set(&item->most, r->now, -now);
}

static void compare_stock(struct referee *r)
{
    for (uint32_t i = 0; i < r->items.count && !sim_is_broken(r->sim); i++) {
        struct ref_item *item = r->items.entries[i];
        if (!item->loaded || item->sale == NULL) {
            continue;
        }
        const struct gate_item *at_gate = item_at_gate(r, item);
        if (at_gate == NULL) {
            if (!item->sale->forgotten) {
                sim_broken(r->sim, 1, "item %llu is loaded, but not in the gate",
                           (unsigned long long)item->pair.a);
            }
            continue;
        }
        promise_01_step(r, item, at_gate);
        note_available(r, item, at_gate);
    }
}

static void compare_sales(struct referee *r)
{
    const struct gate *gate = r->view.gate;
    for (uint32_t i = 0; i < r->sales.count && !sim_is_broken(r->sim); i++) {
        const struct ref_sale *sale = r->sales.entries[i];
        if (!sale->loaded || sale->gone) {
            continue;
        }
        uint32_t slot = gate_find_sale(gate, sale->pair.a);
        if (slot != GATE_NONE) {
            promise_10_sale(r, sale, &gate->sales[slot]);
        } else if (!sale->forgotten) {
            sim_broken(r->sim, 12, "sale %llu is loaded, but not in the gate",
                       (unsigned long long)sale->pair.a);
        }
    }
}

void ref_gate_compare_all(struct referee *r)
{
    for (uint32_t i = 0; i < r->orders.count && !sim_is_broken(r->sim); i++) {
        compare_order(r, r->orders.entries[i]);
    }
    for (uint32_t i = 0; i < r->buyers.count && !sim_is_broken(r->sim); i++) {
        compare_buyer(r, r->buyers.entries[i]);
        compare_shares(r, r->buyers.entries[i]);
    }
    for (uint32_t i = 0; i < r->items.count && !sim_is_broken(r->sim); i++) {
        const struct ref_item *item = r->items.entries[i];
        if (item->loaded && !item->sale->forgotten && item->evicted != evicted_at_gate(r, item)) {
            sim_broken(r->sim, 12, "%u orders of item %llu were evicted, the gate counts %u",
                       item->evicted, (unsigned long long)item->pair.a, evicted_at_gate(r, item));
        }
    }
    uint32_t used = r->view.gate->order_pool.used;
    bool forgetting = false;
    for (uint32_t i = 0; i < r->sales.count; i++) {
        const struct ref_sale *sale = r->sales.entries[i];
        forgetting = forgetting || (sale->forgotten && !sale->gone);
    }
    if (used != r->gate_orders && !forgetting) {
        sim_broken(r->sim, 4, "the gate holds %u orders, %llu were decided", used,
                   (unsigned long long)r->gate_orders);
    }
}

static void compare_some(struct referee *r)
{
    for (int i = 0; i < ORDERS_A_STEP && r->orders.count > 0; i++) {
        r->next_order = (r->next_order + 1) % r->orders.count;
        compare_order(r, r->orders.entries[r->next_order]);
    }
    for (int i = 0; i < BUYERS_A_STEP && r->buyers.count > 0; i++) {
        r->next_buyer = (r->next_buyer + 1) % r->buyers.count;
        compare_buyer(r, r->buyers.entries[r->next_buyer]);
        compare_shares(r, r->buyers.entries[r->next_buyer]);
    }
}

/* ---- steps and starts ---- */

void ref_gate_step(struct referee *r)
{
    for (uint32_t i = 0; i < r->items.count && !sim_is_broken(r->sim); i++) {
        struct ref_item *item = r->items.entries[i];
        if (item->sale == NULL || item->sale->forgotten) {
            continue;
        }
        const struct gate_item *at_gate = item_at_gate(r, item);
        if (at_gate != NULL && at_gate->version != item->version) {
            item->version = at_gate->version;
            find_decisions(r, item, at_gate, false);
        }
    }
    if (!sim_is_broken(r->sim)) {
        apply_events(r);
    }
    if (!sim_is_broken(r->sim)) {
        compare_stock(r);
        compare_sales(r);
        compare_some(r);
    }
}

/* Forgets what the gate of the last life held: all of it is read again. */
static void forget_gate(struct referee *r)
{
    for (uint32_t i = 0; i < r->orders.count; i++) {
        struct ref_order *order = r->orders.entries[i];
        order->seen = order->in_gate;
        order->in_gate = order->evicted = false;
        if (!order->in_truth) {
            ref_open_remove(r, order);
        }
    }
    for (uint32_t i = 0; i < r->buyers.count; i++) {
        struct ref_buyer *buyer = r->buyers.entries[i];
        buyer->held = 0;
        buyer->live = 0;
        buyer->failed_attempts = 0;
        buyer->barred = false;
        buyer->cooling_until_ms = 0;
    }
    for (uint32_t i = 0; i < r->items.count; i++) {
        struct ref_item *item = r->items.entries[i];
        item->loaded = false;
        item->slot = GATE_NONE;
        item->evicted = item->live = 0;
        item->gate_total = item->gate_locked = item->gate_sold = item->gate_returned = 0;
    }
    for (uint32_t i = 0; i < r->sales.count; i++) {
        struct ref_sale *sale = r->sales.entries[i];
        sale->loaded = false;
        sale->gone = false;
        sale->eras_count = 0;
        sale->live = 0;
    }
    r->gate_orders = 0;
    r->applied = 0;
}

/* Only the present counts from here on: no answer of an earlier life will be heard. */
static void forget_past(struct referee *r)
{
    for (uint32_t i = 0; i < r->sales.count; i++) {
        struct ref_sale *sale = r->sales.entries[i];
        if (sale->eras_count > 0) {
            sale->eras[0] = sale->eras[sale->eras_count - 1];
            sale->eras[0].from = r->now;
            sale->eras_count = 1;
        }
    }
    for (uint32_t i = 0; i < r->items.count; i++) {
        ((struct ref_item *)r->items.entries[i])->gate_returned = 0;
    }
}

/* What was in the gate, and is not after the restart, was never decided as far as anyone can know. */
static void forget_undurable(struct referee *r)
{
    for (uint32_t i = 0; i < r->orders.count; i++) {
        struct ref_order *order = r->orders.entries[i];
        order->seen = order->seen && order->in_gate;
    }
}

/* After a start: an order of the ledger that is final by the gate's events, and is not in the gate,
 * was evicted. The item's own count is compared with theirs. */
static void find_evicted(struct referee *r)
{
    uint64_t applied = r->view.gate->applied_event;
    for (uint32_t i = 0; i < r->orders.count; i++) {
        struct ref_order *order = r->orders.entries[i];
        if (order->in_gate || !order->in_truth || order->ended_event == 0 ||
            order->ended_event > applied || evicted_at_gate(r, order->item) == 0) {
            continue;
        }
        struct ref_buyer *buyer = ref_buyer(r, order->user, order->item->pair.a);
        order->in_gate = order->evicted = true;
        order->gate_user = order->user;
        order->gate_qty = order->qty;
        order->gate_created_ms = order->created_at_ms;
        order->gate_lsn = 0;
        order->item->evicted++;
        order->item->gate_locked += order->qty;
        order->item->live++;
        order->item->sale->live++;
        buyer->held += order->qty;
        buyer->live++;
    }
}

void ref_gate_started(struct referee *r)
{
    const struct gate *gate = r->view.gate;
    forget_gate(r);
    /* Items of sales that are forgotten have no orders to find; all others keep theirs. */
    for (uint32_t i = 0; i < gate->item_pool.fresh && !sim_is_broken(r->sim); i++) {
        const struct gate_item *at_gate = &gate->items[i];
        if (!at_gate->used) {
            continue;
        }
        struct ref_item *item = ref_item(r, at_gate->id);
        item->version = at_gate->version;
        find_decisions(r, item, at_gate, true);
    }
    find_evicted(r);
    if (!sim_is_broken(r->sim)) {
        apply_events(r);
    }
    forget_past(r);
    if (!sim_is_broken(r->sim)) {
        promise_12_started(r);
    }
    if (!sim_is_broken(r->sim)) {
        compare_stock(r);
        compare_sales(r);
        ref_gate_compare_all(r);
    }
    forget_undurable(r);
}
