/*
 * The truth: the effects of each committed batch, computed from its ops by the contract of
 * port/ledger.h, and compared with the ledger's answers and events. A batch whose answer was lost is sent
 * again: then all its ops are repetitions and change nothing.
 */
#include <stdlib.h>

#include "base/check.h"
#include "referee_private.h"

struct commit {
    struct referee *r;
    const struct ledger_batch *batch;
    size_t next; /* event */
};

/* The next event of the batch, which has to be of this kind. */
static const struct ledger_event *take_event(struct commit *c, enum ledger_event_kind kind)
{
    if (c->next >= c->batch->events_count) {
        sim_broken(c->r->sim, 0, "the ledger wrote no event %s", ledger_event_text(kind));
        return NULL;
    }
    const struct ledger_event *event = &c->batch->events[c->next++];
    if (event->kind != kind) {
        sim_broken(c->r->sim, 0, "event %llu is %s instead of %s",
                   (unsigned long long)event->number, ledger_event_text(event->kind),
                   ledger_event_text(kind));
        return NULL;
    }
    return event;
}

static const struct ledger_event *take_order_event(struct commit *c, enum ledger_event_kind kind,
                                                   const struct ref_order *order)
{
    const struct ledger_event *event = take_event(c, kind);
    if (event == NULL) {
        return NULL;
    }
    if (!order_id_equal(event->id, order->id) || event->user != order->user ||
        event->item != order->item->pair.a || event->qty != order->qty ||
        event->sale != order->item->sale->pair.a) {
        sim_broken(c->r->sim, 0, "event %llu (%s) is of order %s, not of order %s as it was",
                   (unsigned long long)event->number, ledger_event_text(kind),
                   ref_name(event->id).text, ref_name(order->id).text);
        return NULL;
    }
    return event;
}

/* ---- orders ---- */

static void booked(struct commit *c, struct ref_order *order, const struct ledger_op *op)
{
    struct referee *r = c->r;
    struct ref_item *item = order->item;
    const struct order_row *row = &op->order;
    struct ref_buyer *buyer = ref_buyer(r, op->command.user, item->pair.a);
    order->in_truth = true;
    order->state = row->state;
    order->reason = row->reason;
    order->user = op->command.user;
    order->qty = op->command.qty;
    order->amount_cents = (int64_t)item->price_cents * op->command.qty;
    order->created_at_ms = op->command.now_ms;
    order->pay_by_ms = row->pay_by_ms;
    if (row->state != ORDER_LOCKED && row->state != ORDER_FAILED) {
        sim_broken(r->sim, 7, "order %s was booked as %s", ref_name(order->id).text,
                   order_state_text(row->state));
        return;
    }
    if (buyer->told >= order->told_units) {
        buyer->told -= order->told_units;
    }
    order->told_units = 0;
    const struct ledger_event *event = take_order_event(
        c, row->state == ORDER_LOCKED ? EVENT_ORDER_LOCKED : EVENT_ORDER_FAILED, order);
    if (event == NULL) {
        return;
    }
    order->locked_event = event->number;
    order->truth_at[ref_rank(row->state)] = r->now;
    if (row->state == ORDER_FAILED) {
        order->ended_event = event->number;
        ref_open_remove(r, order);
        promise_03_failed(r, order);
        return;
    }
    ref_open_add(r, order);
    r->not_final++;
    item->locked += order->qty;
    buyer->alive += order->qty;
    promise_04_booked(r, order, op);
    promise_08_booked(r, order, c->batch->now_ms);
    promise_02_committed(r, item);
    promise_05_buyer(r, buyer);
}

static void book(struct commit *c, const struct ledger_op *op)
{
    struct referee *r = c->r;
    struct ref_order *order = ref_find_order(r, op->command.id);
    if (order == NULL || op->refusal != REFUSAL_NONE) {
        sim_broken(r->sim, 4, "order %s of user %llu was booked with LSN %llu (%s): %s",
                   ref_name(op->command.id).text, (unsigned long long)op->command.user,
                   (unsigned long long)op->lsn, refusal_text(op->refusal)->code,
                   order == NULL ? "nobody asked for it" : "refused without a row");
        return;
    }
    if (order->in_truth) {
        promise_06_booked_again(r, order, op);
    } else if (op->repeated) {
        sim_broken(r->sim, 0, "the ledger says order %s was booked before",
                   ref_name(order->id).text);
    } else {
        booked(c, order, op);
    }
}

/* Who is not barred waits for as long as the op says, from its batch's time on. */
static void give_cooling(struct commit *c, struct ref_order *order, const struct ledger_op *op,
                         bool barred)
{
    bool cools = !barred && op->cooling_ms > 0;
    order->cooling_until_ms = cools ? c->batch->now_ms + op->cooling_ms : 0;
    if (op->order.cooling_until_ms != order->cooling_until_ms) {
        sim_broken(c->r->sim, 5,
                   "order %s makes its buyer wait until %lld, and the ledger says %lld",
                   ref_name(order->id).text, (long long)order->cooling_until_ms,
                   (long long)op->order.cooling_until_ms);
    }
}

/* A LOCKED order becomes final. */
static void ended(struct commit *c, struct ref_order *order, enum order_state to,
                  enum ledger_event_kind kind)
{
    struct referee *r = c->r;
    struct ref_item *item = order->item;
    promise_07_moved(r, order, to);
    promise_08_ended(r, order, to, c->batch->now_ms);
    const struct ledger_event *event = take_order_event(c, kind, order);
    if (event == NULL || sim_is_broken(r->sim)) {
        return;
    }
    if (to != ORDER_PAID && event->a != order->cooling_until_ms) {
        sim_broken(r->sim, 5, "order %s makes its buyer wait until %lld; event %llu says %lld",
                   ref_name(order->id).text, (long long)order->cooling_until_ms,
                   (unsigned long long)event->number, (long long)event->a);
        return;
    }
    order->state = to;
    order->ended_event = event->number;
    order->truth_at[RANK_FINAL] = r->now;
    ref_open_remove(r, order);
    r->not_final--;
    item->locked -= order->qty;
    if (to == ORDER_PAID) {
        item->sold += order->qty;
    } else {
        ref_buyer(r, order->user, item->pair.a)->alive -= order->qty;
    }
    promise_02_committed(r, item);
}

static void pay(struct commit *c, const struct ledger_op *op)
{
    struct referee *r = c->r;
    struct ref_order *order = ref_find_order(r, op->id);
    struct ref_key *key = ref_key(r, LEDGER_PAY, op->key, 0);
    uint64_t hash =
        ref_body_hash(LEDGER_PAY, op->key, op->id.hi, op->id.lo, (uint64_t)op->amount_cents);
    if (op->refusal != REFUSAL_NONE) {
        promise_08_refused(r, order, op, key->done, c->batch->now_ms);
        return;
    }
    if (key->done || op->repeated) {
        promise_06_key(r, key, op, hash);
        return;
    }
    if (order == NULL || !order->in_truth) {
        sim_broken(r->sim, 7, "order %s was paid before it was booked", ref_name(op->id).text);
        return;
    }
    const struct ref_body *body = ref_body(r, hash);
    promise_09_caused(r, "paid", op->id, body->sent, body->refused);
    promise_08_paid(r, order, body);
    if (op->amount_cents != order->amount_cents) {
        sim_broken(r->sim, 9, "order %s of %lld was paid with %lld", ref_name(op->id).text,
                   (long long)order->amount_cents, (long long)op->amount_cents);
    }
    key->done = true;
    key->body = hash;
    order->paid_by = ref_text_hash(op->key);
    ended(c, order, ORDER_PAID, EVENT_ORDER_PAID);
}

static void cancel(struct commit *c, const struct ledger_op *op)
{
    struct referee *r = c->r;
    struct ref_order *order = ref_find_order(r, op->id);
    if (op->refusal != REFUSAL_NONE) {
        promise_08_refused(r, order, op, false, c->batch->now_ms);
        return;
    }
    if (order == NULL || !order->in_truth || (op->user != 0 && op->user != order->user)) {
        sim_broken(r->sim, 9, "user %llu cancelled order %s, which is not his",
                   (unsigned long long)op->user, ref_name(op->id).text);
        return;
    }
    if (op->repeated) {
        if (order->state != ORDER_CANCELLED) {
            sim_broken(r->sim, 7, "order %s is %s, and was said to be cancelled before",
                       ref_name(op->id).text, order_state_text(order->state));
        }
        return;
    }
    promise_09_caused(r, "cancelled", op->id, order->cancels_sent, order->cancels_refused);
    bool late = op->late_ms > 0 && order->item->sale->bar_unpaid &&
                c->batch->now_ms >= order->pay_by_ms - op->late_ms;
    order->reason = late ? REFUSAL_BARRED : REFUSAL_NONE;
    if (op->order.reason != order->reason) {
        sim_broken(r->sim, 5, "order %s was cancelled %s, and the ledger says %s",
                   ref_name(op->id).text, late ? "late" : "in time", late ? "in time" : "late");
        return;
    }
    give_cooling(c, order, op, late);
    ended(c, order, ORDER_CANCELLED, EVENT_ORDER_CANCELLED);
}

static void expire(struct commit *c, const struct ledger_op *op)
{
    struct ref_order *order = ref_find_order(c->r, op->id);
    if (op->refusal != REFUSAL_NONE) {
        promise_08_refused(c->r, order, op, false, c->batch->now_ms);
    } else if (order == NULL || !order->in_truth) {
        sim_broken(c->r->sim, 7, "order %s expired before it was booked", ref_name(op->id).text);
    } else {
        give_cooling(c, order, op, order->item->sale->bar_unpaid);
        ended(c, order, ORDER_EXPIRED, EVENT_ORDER_EXPIRED);
    }
}

/* ---- stock and sales ---- */

static void restock(struct commit *c, const struct ledger_op *op)
{
    struct referee *r = c->r;
    struct ref_item *item = ref_item(r, op->item);
    struct ref_key *key = ref_key(r, LEDGER_RESTOCK, op->key, op->item);
    uint64_t hash = ref_body_hash(LEDGER_RESTOCK, op->key, op->item, op->amount, 0);
    if (op->refusal != REFUSAL_NONE) {
        return;
    }
    if (key->done || op->repeated) {
        promise_06_key(r, key, op, hash);
        return;
    }
    if (item->sale == NULL || !item->sale->exists || item->sale->state == SALE_CLOSED) {
        sim_broken(r->sim, 9, "item %llu was restocked, though its sale does not allow it",
                   (unsigned long long)op->item);
        return;
    }
    const struct ref_body *body = ref_body(r, hash);
    promise_09_caused(r, "restocked", (struct order_id){op->item, op->amount}, body->sent,
                      body->refused);
    key->done = true;
    key->body = hash;
    item->total += op->amount;
    if (item->sale->state != SALE_DRAFT) {
        const struct ledger_event *event = take_event(c, EVENT_ITEM_RESTOCKED);
        if (event != NULL && (event->item != op->item || event->a != (int64_t)op->amount)) {
            sim_broken(r->sim, 1, "item %llu was restocked by %llu; the event says item %llu, %lld",
                       (unsigned long long)op->item, (unsigned long long)op->amount,
                       (unsigned long long)event->item, (long long)event->a);
        }
    }
}

static void take_row(struct referee *r, struct ref_sale *sale, const struct sale_row *row)
{
    sale->exists = true;
    sale->state = SALE_DRAFT;
    sale->bar_unpaid = row->bar_unpaid;
    sale->pay_within_s = row->pay_within_s;
    sale->starts_at_ms = row->starts_at_ms;
    sale->ends_at_ms = row->ends_at_ms;
    for (uint32_t i = 0; i < row->items_count; i++) {
        struct ref_item *item = ref_item(r, row->items[i].id);
        item->sale = sale;
        item->price_cents = row->items[i].price_cents;
        item->limit = row->items[i].limit_per_user;
        item->total = row->items[i].total;
    }
}

static void create(struct commit *c, const struct ledger_op *op)
{
    if (op->refusal != REFUSAL_NONE || op->repeated) {
        return;
    }
    const struct sale_row *row = op->sale != NULL ? op->sale : op->sale_in;
    struct ref_sale *sale = ref_sale(c->r, row->id);
    if (sale->exists) {
        sim_broken(c->r->sim, 6, "sale %llu was created twice", (unsigned long long)row->id);
        return;
    }
    take_row(c->r, sale, row);
    sale->reached[SALE_DRAFT]++;
}

static void change(struct commit *c, const struct ledger_op *op)
{
    struct ref_sale *sale = ref_sale(c->r, op->sale_id);
    if (op->refusal != REFUSAL_NONE) {
        return;
    }
    if (sale->state == SALE_DRAFT) {
        take_row(c->r, sale, op->sale != NULL ? op->sale : op->sale_in);
        return;
    }
    if (op->repeated && op->sale_in->ends_at_ms == sale->ends_at_ms) {
        return; /* it ends then already: nothing to tell */
    }
    if ((op->changes & SALE_HAS_ENDS) != 0) {
        if (sale->changes_asked == 0) {
            sim_broken(c->r->sim, 9, "the end of sale %llu was changed, and nobody asked",
                       (unsigned long long)op->sale_id);
        }
        sale->ends_at_ms = op->sale_in->ends_at_ms;
    }
    const struct ledger_event *event = take_event(c, EVENT_SALE_CHANGED);
    if (event != NULL && (event->sale != op->sale_id || event->a != sale->ends_at_ms)) {
        sim_broken(c->r->sim, 10, "sale %llu ends at %lld; event %llu says %lld",
                   (unsigned long long)op->sale_id, (long long)sale->ends_at_ms,
                   (unsigned long long)event->number, (long long)event->a);
    }
}

static void warmed(struct commit *c, struct ref_sale *sale)
{
    struct referee *r = c->r;
    const struct ledger_event *event = take_event(c, EVENT_SALE_WARMED);
    if (event != NULL && (event->sale != sale->pair.a || event->b != sale->ends_at_ms ||
                          (event->c != 0) != sale->bar_unpaid)) {
        sim_broken(r->sim, 10, "sale %llu was warmed with another window: ends %lld, not %lld",
                   (unsigned long long)sale->pair.a, (long long)event->b,
                   (long long)sale->ends_at_ms);
    }
    sale->reached[SALE_WARM]++;
    uint32_t items = 0;
    for (uint32_t i = 0; i < r->items.count; i++) {
        items += ((struct ref_item *)r->items.entries[i])->sale == sale;
    }
    for (; items > 0 && !sim_is_broken(r->sim); items--) {
        event = take_event(c, EVENT_ITEM_LOADED);
        if (event == NULL) {
            return;
        }
        const struct ref_item *item = ref_item(r, event->item);
        if (item->sale != sale || event->a != (int64_t)item->total || event->b != item->limit) {
            sim_broken(r->sim, 1, "item %llu was loaded with %lld units and limit %lld, not %llu",
                       (unsigned long long)event->item, (long long)event->a, (long long)event->b,
                       (unsigned long long)item->total);
        }
    }
}

/* begun: its start has passed, so a warm sale sells, whether or not the keeper has opened it. */
static bool move_legal(enum sale_state from, enum sale_state to, bool begun)
{
    switch (to) {
    case SALE_WARM:
        return from == SALE_DRAFT;
    case SALE_OPEN:
        return from == SALE_DRAFT || from == SALE_WARM || from == SALE_PAUSED;
    case SALE_PAUSED:
        return from == SALE_OPEN || (from == SALE_WARM && begun);
    case SALE_CLOSED:
        return from == SALE_WARM || from == SALE_OPEN || from == SALE_PAUSED;
    default:
        return false;
    }
}

/* The sale is where the move leads, or, of a warm one, has come further by itself. */
static bool move_made(enum sale_state from, enum sale_state to)
{
    return from == to || (to == SALE_WARM && (from == SALE_OPEN || from == SALE_PAUSED));
}

static void move(struct commit *c, const struct ledger_op *op)
{
    struct referee *r = c->r;
    struct ref_sale *sale = ref_sale(r, op->sale_id);
    int64_t now_ms = c->batch->now_ms;
    if (op->refusal != REFUSAL_NONE || (op->repeated && move_made(sale->state, op->target))) {
        return;
    }
    if (!sale->exists || !move_legal(sale->state, op->target, sale->starts_at_ms <= now_ms)) {
        sim_broken(r->sim, 7, "sale %llu went from %s to %s", (unsigned long long)op->sale_id,
                   sale_state_text(sale->state), sale_state_text(op->target));
        return;
    }
    promise_10_moved(r, sale, op->target, now_ms);
    if (sale->state == SALE_DRAFT) {
        warmed(c, sale);
    }
    if (op->target == SALE_OPEN && sale->starts_at_ms > now_ms) {
        sale->starts_at_ms = now_ms;
    }
    sale->state = op->target;
    if (op->target == SALE_WARM) {
        return;
    }
    sale->reached[op->target]++;
    const struct ledger_event *event =
        take_event(c, op->target == SALE_OPEN     ? EVENT_SALE_OPENED
                      : op->target == SALE_PAUSED ? EVENT_SALE_PAUSED
                                                  : EVENT_SALE_CLOSED);
    if (event != NULL && (event->sale != op->sale_id ||
                          (op->target == SALE_OPEN && event->a != sale->starts_at_ms))) {
        sim_broken(r->sim, 10, "sale %llu starts at %lld; event %llu says %lld",
                   (unsigned long long)op->sale_id, (long long)sale->starts_at_ms,
                   (unsigned long long)event->number, (long long)event->a);
    }
}

static void forget(struct commit *c, const struct ledger_op *op)
{
    struct ref_sale *sale = ref_sale(c->r, op->sale_id);
    if (op->refusal != REFUSAL_NONE) {
        return;
    }
    if (sale->state != SALE_CLOSED || sale->forgotten || sale->unfinished > 0) {
        sim_broken(c->r->sim, 4, "sale %llu (%s) was forgotten with %llu orders under way",
                   (unsigned long long)op->sale_id, sale_state_text(sale->state),
                   (unsigned long long)sale->unfinished);
        return;
    }
    const struct ledger_event *event = take_event(c, EVENT_SALE_FORGOTTEN);
    sale->forgotten = true;
    sale->forgotten_event = event != NULL ? event->number : 0;
}

/* ---- a batch ---- */

static void run_op(struct commit *c, const struct ledger_op *op)
{
    switch (op->kind) {
    case LEDGER_BOOK:
        book(c, op);
        break;
    case LEDGER_PAY:
        pay(c, op);
        break;
    case LEDGER_CANCEL:
        cancel(c, op);
        break;
    case LEDGER_EXPIRE:
        expire(c, op);
        break;
    case LEDGER_RESTOCK:
        restock(c, op);
        break;
    case LEDGER_SALE_CREATE:
        create(c, op);
        break;
    case LEDGER_SALE_CHANGE:
        change(c, op);
        break;
    case LEDGER_SALE_DELETE:
        if (op->refusal == REFUSAL_NONE) {
            ref_sale(c->r, op->sale_id)->exists = false;
        }
        break;
    case LEDGER_SALE_MOVE:
        move(c, op);
        break;
    case LEDGER_SALE_FORGET:
        forget(c, op);
        break;
    case LEDGER_CURSOR: /* moves nothing of a sale */
    case LEDGER_BLOCK:
    case LEDGER_UNBLOCK:
    case LEDGER_FAIL: /* of the distributed engine */
    case LEDGER_EPOCH:
    case LEDGER_TRANSFER:
    case LEDGER_TRANSFERRED:
    case LEDGER_KIND_COUNT:
        break;
    }
}

static void keep_events(struct referee *r, const struct ledger_batch *batch)
{
    for (size_t i = 0; i < batch->events_count; i++) {
        const struct ledger_event *event = &batch->events[i];
        if (event->number != r->events_count + 1) {
            sim_broken(r->sim, 0, "the ledger's event %llu follows %llu",
                       (unsigned long long)event->number, (unsigned long long)r->events_count);
            return;
        }
        if (r->events_count == r->events_capacity) {
            r->events_capacity = r->events_capacity == 0 ? 1024 : r->events_capacity * 2;
            r->events = realloc(r->events, r->events_capacity * sizeof(*r->events));
            CHECK(r->events != NULL);
        }
        r->events[r->events_count++] = *event;
        r->truth_ms = event->at_ms > r->truth_ms ? event->at_ms : r->truth_ms;
    }
}

void ref_truth_committed(struct referee *r, const struct ledger_batch *batch)
{
    struct commit c = {.r = r, .batch = batch};
    promise_10_committed(r, batch);
    keep_events(r, batch);
    for (size_t i = 0; i < batch->count && !sim_is_broken(r->sim); i++) {
        run_op(&c, batch->ops[i]);
    }
    if (c.next != batch->events_count && !sim_is_broken(r->sim)) {
        sim_broken(r->sim, 0, "the ledger wrote %zu events where its ops explain %zu",
                   batch->events_count, c.next);
    }
    if (batch->booked_lsn > r->booked_lsn) {
        r->booked_lsn = batch->booked_lsn;
    }
}
