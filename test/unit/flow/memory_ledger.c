/* See memory_ledger.h. */
#include "memory_ledger.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"

struct memory_key {
    enum ledger_kind kind;
    char key[PAYMENT_ID_MAX_BYTES + 1];
    struct order_id id; /* PAY */
    uint8_t fingerprint[16];
    uint64_t item; /* RESTOCK */
    uint64_t amount;
};

struct write {
    struct memory_ledger *ledger;
    const struct ledger_batch *batch;
};

static void *must(void *memory)
{
    CHECK(memory != NULL);
    return memory;
}

/* Room for one more in an array that grows by doubling, from 16 on. */
static void *grown(void *array, size_t count, size_t size)
{
    bool full = count == 0 || (count >= 16 && (count & (count - 1)) == 0);
    return full ? must(realloc(array, (count < 16 ? 16 : count * 2) * size)) : array;
}

/* ---- rows ---- */

static struct sale_row *sale_copy(const struct sale_row *sale)
{
    struct sale_row *copy = must(malloc(sizeof(*copy)));
    *copy = *sale;
    copy->items = must(calloc(sale->items_count > 0 ? sale->items_count : 1, sizeof(*copy->items)));
    if (sale->items_count > 0) {
        memcpy(copy->items, sale->items, sale->items_count * sizeof(*copy->items));
    }
    return copy;
}

static struct sale_row *sale_find(const struct memory_ledger *ledger, uint64_t id)
{
    for (size_t i = 0; i < ledger->sales_count; i++) {
        if (ledger->sales[i]->id == id) {
            return ledger->sales[i];
        }
    }
    return NULL;
}

static struct item_row *item_find(const struct memory_ledger *ledger, uint64_t id,
                                  struct sale_row **ret_sale)
{
    for (size_t i = 0; i < ledger->sales_count; i++) {
        for (uint32_t k = 0; k < ledger->sales[i]->items_count; k++) {
            if (ledger->sales[i]->items[k].id == id) {
                *ret_sale = ledger->sales[i];
                return &ledger->sales[i]->items[k];
            }
        }
    }
    return NULL;
}

static struct order_row *order_find(const struct memory_ledger *ledger, struct order_id id)
{
    for (size_t i = 0; i < ledger->orders_count; i++) {
        if (order_id_equal(ledger->orders[i].id, id)) {
            return &ledger->orders[i];
        }
    }
    return NULL;
}

static void event_add(struct memory_ledger *ledger, struct ledger_event event)
{
    ledger->events = grown(ledger->events, ledger->events_count, sizeof(event));
    event.number = ledger->events_count + 1;
    ledger->events[ledger->events_count++] = event;
}

static void order_event(struct write *w, enum ledger_event_kind kind, const struct order_row *order)
{
    event_add(w->ledger, (struct ledger_event){.kind = kind,
                                               .at_ms = w->batch->now_ms,
                                               .sale = order->sale,
                                               .item = order->item,
                                               .user = order->user,
                                               .id = order->id,
                                               .qty = order->qty,
                                               .reason = order->reason,
                                               .a = order->pay_by_ms});
}

/* ---- orders ---- */

static enum refusal book_reason(const struct memory_ledger *ledger, const struct gate_command *c,
                                const struct item_row *item)
{
    uint64_t held = 0;
    for (size_t i = 0; i < ledger->orders_count; i++) {
        const struct order_row *order = &ledger->orders[i];
        if (order->item == c->item && order->user == c->user && order_state_alive(order->state)) {
            held += order->qty;
        }
    }
    if (item->limit_per_user > 0 && held + c->qty > item->limit_per_user) {
        return REFUSAL_LIMIT_REACHED;
    }
    return item->available < c->qty ? REFUSAL_NO_STOCK : REFUSAL_NONE;
}

static void book(struct write *w, struct ledger_op *op)
{
    struct memory_ledger *ledger = w->ledger;
    const struct gate_command *c = &op->command;
    struct sale_row *sale;
    struct item_row *item = item_find(ledger, c->item, &sale);
    const struct order_row *there = order_find(ledger, c->id);
    CHECK(c->kind == GATE_RESERVE && op->lsn > 0);
    if (there != NULL) {
        op->repeated = true;
        op->order = *there;
        return;
    }
    if (item == NULL) {
        op->refusal = REFUSAL_NO_SUCH_ITEM;
        return;
    }
    enum refusal reason = book_reason(ledger, c, item);
    bool locked = reason == REFUSAL_NONE;
    op->order = (struct order_row){.id = c->id,
                                   .user = c->user,
                                   .sale = sale->id,
                                   .item = c->item,
                                   .qty = c->qty,
                                   .state = locked ? ORDER_LOCKED : ORDER_FAILED,
                                   .reason = reason,
                                   .amount_cents = (int64_t)item->price_cents * c->qty,
                                   .created_at_ms = c->now_ms,
                                   .locked_at_ms = locked ? w->batch->now_ms : 0,
                                   .ended_at_ms = locked ? 0 : w->batch->now_ms,
                                   .lsn = op->lsn};
    memcpy(op->order.currency, sale->currency, sizeof(sale->currency));
    if (locked) {
        op->order.pay_by_ms = w->batch->now_ms + (int64_t)sale->pay_within_s * 1000;
        item->available -= c->qty;
        item->locked += c->qty;
    }
    ledger->orders = grown(ledger->orders, ledger->orders_count, sizeof(op->order));
    ledger->orders[ledger->orders_count++] = op->order;
    order_event(w, locked ? EVENT_ORDER_LOCKED : EVENT_ORDER_FAILED, &op->order);
}

/* A LOCKED order becomes final. */
static void order_end(struct write *w, struct order_row *order, enum order_state to,
                      enum ledger_event_kind kind)
{
    struct sale_row *sale;
    struct item_row *item = item_find(w->ledger, order->item, &sale);
    CHECK(order->state == ORDER_LOCKED && item != NULL && item->locked >= order->qty);
    order->state = to;
    order->ended_at_ms = w->batch->now_ms;
    item->locked -= order->qty;
    *(to == ORDER_PAID ? &item->sold : &item->available) += order->qty;
    order_event(w, kind, order);
}

static struct memory_key *key_find(const struct memory_ledger *ledger, const struct ledger_op *op)
{
    for (size_t i = 0; i < ledger->keys_count; i++) {
        struct memory_key *key = &ledger->keys[i];
        if (key->kind == op->kind && key->item == (op->kind == LEDGER_RESTOCK ? op->item : 0) &&
            strcmp(key->key, op->key) == 0) {
            return key;
        }
    }
    return NULL;
}

static void key_add(struct memory_ledger *ledger, const struct ledger_op *op)
{
    struct memory_key key = {.kind = op->kind,
                             .id = op->id,
                             .item = op->kind == LEDGER_RESTOCK ? op->item : 0,
                             .amount = op->amount};
    memcpy(key.key, op->key, sizeof(key.key));
    memcpy(key.fingerprint, op->fingerprint, sizeof(key.fingerprint));
    ledger->keys = grown(ledger->keys, ledger->keys_count, sizeof(key));
    ledger->keys[ledger->keys_count++] = key;
}

static void pay(struct write *w, struct ledger_op *op)
{
    struct order_row *order = order_find(w->ledger, op->id);
    const struct memory_key *known = key_find(w->ledger, op);
    if (known != NULL) {
        if (!order_id_equal(known->id, op->id) ||
            memcmp(known->fingerprint, op->fingerprint, sizeof(op->fingerprint)) != 0) {
            op->refusal = REFUSAL_DIFFERENT_REQUEST;
            return;
        }
        op->repeated = true;
        op->order = *order;
        return;
    }
    if (order == NULL) {
        op->refusal = REFUSAL_NOT_FOUND;
        return;
    }
    if (order->state == ORDER_PAID) {
        op->refusal = REFUSAL_ALREADY_PAID;
    } else if (order->state != ORDER_LOCKED || w->batch->now_ms >= order->pay_by_ms) {
        op->refusal = REFUSAL_EXPIRED;
    } else if (op->amount_cents != order->amount_cents) {
        op->refusal = REFUSAL_WRONG_AMOUNT;
    } else {
        order_end(w, order, ORDER_PAID, EVENT_ORDER_PAID);
        key_add(w->ledger, op);
    }
    op->order = *order;
}

static void cancel(struct write *w, struct ledger_op *op)
{
    struct order_row *order = order_find(w->ledger, op->id);
    if (order == NULL || (op->user != 0 && op->user != order->user)) {
        op->refusal = REFUSAL_NOT_FOUND;
        return;
    }
    if (order->state == ORDER_LOCKED) {
        order_end(w, order, ORDER_CANCELLED, EVENT_ORDER_CANCELLED);
    } else if (order->state == ORDER_CANCELLED) {
        op->repeated = true;
    } else {
        op->refusal = order->state == ORDER_PAID ? REFUSAL_ALREADY_PAID : REFUSAL_EXPIRED;
    }
    op->order = *order;
}

static void expire(struct write *w, struct ledger_op *op)
{
    struct order_row *order = order_find(w->ledger, op->id);
    if (order != NULL && order->state == ORDER_LOCKED && order->pay_by_ms <= w->batch->now_ms) {
        order_end(w, order, ORDER_EXPIRED, EVENT_ORDER_EXPIRED);
        op->order = *order;
        return;
    }
    op->refusal = REFUSAL_BAD_STATE;
    op->repeated = order != NULL && order->state == ORDER_EXPIRED;
}

static void restock(struct write *w, struct ledger_op *op)
{
    struct sale_row *sale;
    struct item_row *item = item_find(w->ledger, op->item, &sale);
    const struct memory_key *known = key_find(w->ledger, op);
    if (item == NULL) {
        op->refusal = REFUSAL_NO_SUCH_ITEM;
        return;
    }
    if (known != NULL && known->amount != op->amount) {
        op->refusal = REFUSAL_DIFFERENT_REQUEST;
        return;
    }
    if (known == NULL && sale->state == SALE_CLOSED) {
        op->refusal = REFUSAL_BAD_STATE;
        return;
    }
    op->repeated = known != NULL;
    if (known == NULL) {
        item->total += op->amount;
        item->available += op->amount;
        key_add(w->ledger, op);
        if (sale->state != SALE_DRAFT) {
            event_add(w->ledger, (struct ledger_event){.kind = EVENT_ITEM_RESTOCKED,
                                                       .at_ms = w->batch->now_ms,
                                                       .sale = sale->id,
                                                       .item = op->item,
                                                       .a = (int64_t)op->amount});
        }
    }
    op->sale = sale_copy(sale);
}

/* ---- sales ---- */

static void sale_event(struct write *w, enum ledger_event_kind kind, const struct sale_row *sale,
                       int64_t a)
{
    event_add(w->ledger, (struct ledger_event){.kind = kind,
                                               .at_ms = w->batch->now_ms,
                                               .sale = sale->id,
                                               .a = a,
                                               .b = sale->ends_at_ms,
                                               .c = sale->bar_unpaid});
}

static void sale_create(struct write *w, struct ledger_op *op)
{
    struct memory_ledger *ledger = w->ledger;
    if (sale_find(ledger, op->sale_in->id) != NULL) {
        op->refusal = REFUSAL_EXISTS;
        return;
    }
    struct sale_row *sale = sale_copy(op->sale_in);
    CHECK(sale->id != 0 && sale->state == SALE_DRAFT); /* tests give their ids */
    for (uint32_t i = 0; i < sale->items_count; i++) {
        sale->items[i].sale = sale->id;
        sale->items[i].available = sale->items[i].total;
    }
    ledger->sales = grown(ledger->sales, ledger->sales_count, sizeof(*ledger->sales));
    ledger->sales[ledger->sales_count++] = sale;
    op->sale = sale_copy(sale);
}

/* Name and end only, which is what may change at any time. */
static void sale_change(struct write *w, struct ledger_op *op)
{
    struct sale_row *sale = sale_find(w->ledger, op->sale_id);
    if (sale == NULL) {
        op->refusal = REFUSAL_NOT_FOUND;
        return;
    }
    if ((op->changes & SALE_HAS_ENDS) != 0 && sale->state == SALE_CLOSED) {
        op->refusal = REFUSAL_BAD_STATE;
        return;
    }
    if ((op->changes & SALE_HAS_NAME) != 0) {
        memcpy(sale->name, op->sale_in->name, sizeof(sale->name));
    }
    if ((op->changes & SALE_HAS_ENDS) != 0) {
        sale->ends_at_ms = op->sale_in->ends_at_ms;
    }
    if (sale->state != SALE_DRAFT) {
        sale_event(w, EVENT_SALE_CHANGED, sale, sale->ends_at_ms);
    }
    op->sale = sale_copy(sale);
}

static void sale_delete(struct write *w, struct ledger_op *op)
{
    struct memory_ledger *ledger = w->ledger;
    for (size_t i = 0; i < ledger->sales_count; i++) {
        if (ledger->sales[i]->id != op->sale_id) {
            continue;
        }
        if (ledger->sales[i]->state != SALE_DRAFT) {
            op->refusal = REFUSAL_BAD_STATE;
            return;
        }
        sale_row_free(ledger->sales[i]);
        ledger->sales[i] = ledger->sales[--ledger->sales_count];
        return;
    }
    op->refusal = REFUSAL_NOT_FOUND;
}

static void sale_warm(struct write *w, struct sale_row *sale)
{
    sale->state = SALE_WARM;
    sale_event(w, EVENT_SALE_WARMED, sale, sale->starts_at_ms);
    for (uint32_t i = 0; i < sale->items_count; i++) {
        const struct item_row *item = &sale->items[i];
        event_add(w->ledger, (struct ledger_event){.kind = EVENT_ITEM_LOADED,
                                                   .at_ms = w->batch->now_ms,
                                                   .sale = sale->id,
                                                   .item = item->id,
                                                   .a = (int64_t)item->total,
                                                   .b = item->limit_per_user});
    }
}

static void sale_move(struct write *w, struct ledger_op *op)
{
    struct sale_row *sale = sale_find(w->ledger, op->sale_id);
    if (sale == NULL) {
        op->refusal = REFUSAL_NOT_FOUND;
        return;
    }
    bool legal = op->target == SALE_WARM   ? sale->state == SALE_DRAFT
                 : op->target == SALE_OPEN ? sale->state != SALE_CLOSED
                 : op->target == SALE_PAUSED
                     ? sale->state == SALE_OPEN ||
                           (sale->state == SALE_WARM && sale->starts_at_ms <= w->batch->now_ms)
                     : sale->state != SALE_DRAFT;
    if (sale->state == op->target) {
        op->repeated = true;
    } else if (!legal) {
        op->refusal = REFUSAL_BAD_STATE;
        return;
    } else {
        if (sale->state == SALE_DRAFT) {
            sale_warm(w, sale);
        }
        if (op->target == SALE_OPEN && sale->starts_at_ms > w->batch->now_ms) {
            sale->starts_at_ms = w->batch->now_ms;
        }
        sale->state = op->target;
        if (op->target != SALE_WARM) {
            sale_event(w,
                       op->target == SALE_OPEN     ? EVENT_SALE_OPENED
                       : op->target == SALE_PAUSED ? EVENT_SALE_PAUSED
                                                   : EVENT_SALE_CLOSED,
                       sale, sale->starts_at_ms);
        }
    }
    op->sale = sale_copy(sale);
}

static void sale_forget(struct write *w, struct ledger_op *op)
{
    struct sale_row *sale = sale_find(w->ledger, op->sale_id);
    bool busy = sale == NULL || sale->state != SALE_CLOSED || sale->forgotten;
    for (size_t i = 0; !busy && i < w->ledger->orders_count; i++) {
        const struct order_row *order = &w->ledger->orders[i];
        busy = order->sale == op->sale_id && !order_state_final(order->state);
    }
    if (busy) {
        op->refusal = REFUSAL_BAD_STATE;
        return;
    }
    sale->forgotten = true;
    sale_event(w, EVENT_SALE_FORGOTTEN, sale, 0);
    op->sale = sale_copy(sale);
}

/* ---- a batch ---- */

static void (*const runs[])(struct write *w, struct ledger_op *op) = {
    [LEDGER_BOOK] = book,
    [LEDGER_PAY] = pay,
    [LEDGER_CANCEL] = cancel,
    [LEDGER_EXPIRE] = expire,
    [LEDGER_RESTOCK] = restock,
    [LEDGER_SALE_CREATE] = sale_create,
    [LEDGER_SALE_CHANGE] = sale_change,
    [LEDGER_SALE_DELETE] = sale_delete,
    [LEDGER_SALE_MOVE] = sale_move,
    [LEDGER_SALE_FORGET] = sale_forget,
};

static void clear_answer(struct ledger_op *op)
{
    op->refusal = REFUSAL_NONE;
    op->repeated = false;
    op->order = (struct order_row){0};
    op->sale = NULL;
}

static void commit(struct memory_ledger *ledger, struct ledger_batch *batch)
{
    struct write w = {ledger, batch};
    size_t first = ledger->events_count;
    for (size_t i = 0; i < batch->count; i++) {
        struct ledger_op *op = batch->ops[i];
        runs[op->kind](&w, op);
        ledger->ops[op->kind]++;
        ledger->repeated += op->repeated;
    }
    if (batch->booked_lsn > ledger->booked_lsn) { /* a lost answer had it further on: never back */
        ledger->booked_lsn = batch->booked_lsn;
    }
    ledger->commits++;
    size_t count = ledger->events_count - first;
    if (count > 0) {
        ledger->batch_events = must(malloc(count * sizeof(*ledger->batch_events)));
        memcpy(ledger->batch_events, ledger->events + first, count * sizeof(*ledger->events));
    }
    batch->events = ledger->batch_events;
    batch->events_count = count;
}

static void run_batch(struct memory_ledger *ledger, struct ledger_batch *batch)
{
    int fail = ledger->fail_next;
    int lose = ledger->lose_next;
    ledger->fail_next = 0;
    ledger->lose_next = 0;
    ledger->batches++;
    ledger->last_count = batch->count;
    free(ledger->batch_events);
    ledger->batch_events = NULL;
    for (size_t i = 0; i < batch->count; i++) {
        clear_answer(batch->ops[i]);
    }
    batch->events = NULL;
    batch->events_count = 0;
    if (fail == 0) {
        commit(ledger, batch);
    }
    batch->error = fail != 0 ? fail : lose;
    if (batch->error == 0) {
        return;
    }
    for (size_t i = 0; i < batch->count; i++) {
        sale_row_free(batch->ops[i]->sale);
        clear_answer(batch->ops[i]);
    }
    batch->events = NULL;
    batch->events_count = 0;
}

/* ---- queries ---- */

static void read_sales(const struct memory_ledger *ledger, struct ledger_query *query)
{
    for (;;) {
        const struct sale_row *next = NULL; /* the lowest id above `after` */
        for (size_t i = 0; i < ledger->sales_count; i++) {
            const struct sale_row *sale = ledger->sales[i];
            bool wanted = query->sale != 0 ? sale->id == query->sale && query->count == 0
                                           : sale->id > query->after;
            if (wanted && (next == NULL || sale->id < next->id)) {
                next = sale;
            }
        }
        if (next == NULL || query->count == query->limit) {
            return;
        }
        query->sales[query->count++] = sale_copy(next);
        query->after = next->id;
    }
}

static bool after(const struct order_row *order, uint64_t item, struct order_id id)
{
    return order->item != item     ? order->item > item
           : order->id.hi != id.hi ? order->id.hi > id.hi
                                   : order->id.lo > id.lo;
}

static void read_locked(const struct memory_ledger *ledger, struct ledger_query *query)
{
    uint64_t item = query->after_item;
    struct order_id id = query->after_id;
    while (query->count < query->limit) {
        const struct order_row *next = NULL;
        for (size_t i = 0; i < ledger->orders_count; i++) {
            const struct order_row *order = &ledger->orders[i];
            if (order->state == ORDER_LOCKED && after(order, item, id) &&
                (next == NULL || after(next, order->item, order->id))) {
                next = order;
            }
        }
        if (next == NULL) {
            return;
        }
        query->orders[query->count++] = *next;
        item = next->item;
        id = next->id;
    }
}

static void run_query(const struct memory_ledger *ledger, struct ledger_query *query)
{
    const struct order_row *order;
    query->error = ledger->fail_read;
    query->count = 0;
    if (query->error != 0) {
        return;
    }
    switch (query->kind) {
    case QUERY_STATE:
        query->booked_lsn = ledger->booked_lsn;
        query->last_event = ledger->events_count;
        query->highest_ms = 0;
        for (size_t i = 0; i < ledger->events_count; i++) {
            int64_t at_ms = ledger->events[i].at_ms;
            query->highest_ms = at_ms > query->highest_ms ? at_ms : query->highest_ms;
        }
        return;
    case QUERY_SALES:
        read_sales(ledger, query);
        return;
    case QUERY_EVENTS:
        while (query->count < query->limit && query->after + query->count < ledger->events_count) {
            query->events[query->count] = ledger->events[query->after + query->count];
            query->count++;
        }
        return;
    case QUERY_LOCKED:
        read_locked(ledger, query);
        return;
    case QUERY_ORDER:
        order = order_find(ledger, query->id);
        if (order == NULL) {
            query->error = ERR_NOTFOUND;
            return;
        }
        query->orders[query->count++] = *order;
        return;
    default:
        query->error = ERR_INVALID;
        return;
    }
}

/* ---- the port ---- */

static struct memory_ledger *lock_ledger(struct ledger *ledger)
{
    struct memory_ledger *memory = (struct memory_ledger *)ledger;
    CHECK(pthread_mutex_lock(&memory->lock) == 0);
    return memory;
}

static void unlock_ledger(struct memory_ledger *memory)
{
    CHECK(pthread_mutex_unlock(&memory->lock) == 0);
}

static enum ledger_submitted memory_write(struct ledger *ledger, struct ledger_batch *batch)
{
    struct memory_ledger *memory = lock_ledger(ledger);
    bool slow = memory->slow_polls > 0;
    CHECK(memory->pending == NULL);
    if (slow) {
        memory->pending = batch;
        memory->polls = memory->slow_polls;
    } else {
        run_batch(memory, batch);
    }
    unlock_ledger(memory);
    return slow ? LEDGER_PENDING : LEDGER_DONE;
}

static enum ledger_submitted memory_read(struct ledger *ledger, struct ledger_query *query)
{
    struct memory_ledger *memory = lock_ledger(ledger);
    bool slow = memory->slow_polls > 0;
    CHECK(memory->pending_query == NULL);
    if (slow) {
        memory->pending_query = query;
        memory->polls = memory->slow_polls;
    } else {
        run_query(memory, query);
    }
    unlock_ledger(memory);
    return slow ? LEDGER_PENDING : LEDGER_DONE;
}

static struct ledger_batch *memory_collect_batch(struct ledger *ledger)
{
    struct memory_ledger *memory = lock_ledger(ledger);
    struct ledger_batch *batch = NULL;
    if (memory->pending != NULL && --memory->polls == 0) {
        batch = memory->pending;
        memory->pending = NULL;
        run_batch(memory, batch);
    }
    unlock_ledger(memory);
    return batch;
}

static struct ledger_query *memory_collect_query(struct ledger *ledger)
{
    struct memory_ledger *memory = lock_ledger(ledger);
    struct ledger_query *query = NULL;
    if (memory->pending_query != NULL && --memory->polls == 0) {
        query = memory->pending_query;
        memory->pending_query = NULL;
        run_query(memory, query);
    }
    unlock_ledger(memory);
    return query;
}

static const struct ledger_ops memory_ops = {memory_write, memory_read, memory_collect_batch,
                                             memory_collect_query};

void memory_ledger_init(struct memory_ledger *ret_ledger)
{
    *ret_ledger = (struct memory_ledger){.ledger = {&memory_ops}};
    CHECK(pthread_mutex_init(&ret_ledger->lock, NULL) == 0);
}

void memory_ledger_done(struct memory_ledger *ledger)
{
    for (size_t i = 0; i < ledger->sales_count; i++) {
        sale_row_free(ledger->sales[i]);
    }
    free(ledger->sales);
    free(ledger->orders);
    free(ledger->events);
    free(ledger->keys);
    free(ledger->batch_events);
    (void)pthread_mutex_destroy(&ledger->lock);
}

static void *copied(const void *array, size_t count, size_t size)
{
    void *copy = NULL;
    for (size_t i = 0; i < count; i++) { /* as `grown` would have grown it */
        copy = grown(copy, i, size);
    }
    if (count > 0) {
        memcpy(copy, array, count * size);
    }
    return copy;
}

void memory_ledger_copy(const struct memory_ledger *from, struct memory_ledger *ret_to)
{
    memory_ledger_init(ret_to);
    ret_to->sales = copied(from->sales, from->sales_count, sizeof(*from->sales));
    ret_to->sales_count = from->sales_count;
    for (size_t i = 0; i < from->sales_count; i++) {
        ret_to->sales[i] = sale_copy(from->sales[i]);
    }
    ret_to->orders = copied(from->orders, from->orders_count, sizeof(*from->orders));
    ret_to->orders_count = from->orders_count;
    ret_to->events = copied(from->events, from->events_count, sizeof(*from->events));
    ret_to->events_count = from->events_count;
    ret_to->keys = copied(from->keys, from->keys_count, sizeof(*from->keys));
    ret_to->keys_count = from->keys_count;
    ret_to->booked_lsn = from->booked_lsn;
}

/* ---- for tests ---- */

const struct order_row *memory_ledger_order(const struct memory_ledger *ledger, struct order_id id)
{
    return order_find(ledger, id);
}

uint64_t memory_ledger_orders(const struct memory_ledger *ledger, enum order_state state)
{
    uint64_t n = 0;
    for (size_t i = 0; i < ledger->orders_count; i++) {
        n += ledger->orders[i].state == state;
    }
    return n;
}

uint64_t memory_ledger_events(const struct memory_ledger *ledger, enum ledger_event_kind kind)
{
    uint64_t n = 0;
    for (size_t i = 0; i < ledger->events_count; i++) {
        n += ledger->events[i].kind == kind;
    }
    return n;
}

const struct item_row *memory_ledger_item(const struct memory_ledger *ledger, uint64_t item)
{
    struct sale_row *sale;
    return item_find(ledger, item, &sale);
}

void memory_ledger_event(struct memory_ledger *ledger, struct ledger_event event)
{
    event_add(ledger, event);
}
