/*
 * See memory_ledger.h. Here: rows, a batch, the queries of any ledger, the port. The ops are in
 * memory_orders.c, memory_sales.c, memory_blocks.c and memory_segments.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "memory_private.h"

void *memory_must(void *memory)
{
    CHECK(memory != NULL);
    return memory;
}

void *memory_grown(void *array, size_t count, size_t size)
{
    bool full = count == 0 || (count >= 16 && (count & (count - 1)) == 0);
    return full ? memory_must(realloc(array, (count < 16 ? 16 : count * 2) * size)) : array;
}

/* ---- rows ---- */

struct sale_row *memory_sale_copy(const struct sale_row *sale)
{
    struct sale_row *copy = memory_must(malloc(sizeof(*copy)));
    *copy = *sale;
    copy->items =
        memory_must(calloc(sale->items_count > 0 ? sale->items_count : 1, sizeof(*copy->items)));
    if (sale->items_count > 0) {
        memcpy(copy->items, sale->items, sale->items_count * sizeof(*copy->items));
    }
    return copy;
}

struct sale_row *memory_sale(const struct memory_ledger *ledger, uint64_t id)
{
    for (size_t i = 0; i < ledger->sales_count; i++) {
        if (ledger->sales[i]->id == id) {
            return ledger->sales[i];
        }
    }
    return NULL;
}

struct item_row *memory_item(const struct memory_ledger *ledger, uint64_t id,
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

struct order_row *memory_find_order(const struct memory_ledger *ledger, struct order_id id)
{
    for (size_t i = 0; i < ledger->orders_count; i++) {
        if (order_id_equal(ledger->orders[i].id, id)) {
            return &ledger->orders[i];
        }
    }
    return NULL;
}

struct memory_share *memory_share(const struct memory_ledger *ledger, uint64_t item,
                                  uint32_t segment)
{
    for (size_t i = 0; i < ledger->shares_count; i++) {
        if (ledger->shares[i].item == item && ledger->shares[i].segment == segment) {
            return &ledger->shares[i];
        }
    }
    return NULL;
}

static bool key_is(const struct memory_key *key, const struct ledger_op *op)
{
    return key->kind == op->kind && key->item == (op->kind == LEDGER_RESTOCK ? op->item : 0) &&
           strcmp(key->key, op->key) == 0;
}

const struct memory_key *memory_key(const struct memory_ledger *ledger, const struct ledger_op *op)
{
    for (size_t i = 0; i < ledger->keys_count; i++) {
        if (key_is(&ledger->keys[i], op)) {
            return &ledger->keys[i];
        }
    }
    return NULL;
}

void memory_key_add(struct memory_ledger *ledger, const struct ledger_op *op)
{
    struct memory_key key = {
        .kind = op->kind, .item = op->kind == LEDGER_RESTOCK ? op->item : 0, .amount = op->amount};
    memcpy(key.key, op->key, sizeof(key.key));
    memcpy(key.fingerprint, op->fingerprint, sizeof(key.fingerprint));
    ledger->keys = memory_grown(ledger->keys, ledger->keys_count, sizeof(key));
    ledger->keys[ledger->keys_count++] = key;
}

static void event_add(struct memory_ledger *ledger, struct ledger_event event)
{
    ledger->events = memory_grown(ledger->events, ledger->events_count, sizeof(event));
    event.number = ledger->events_count + 1;
    ledger->events[ledger->events_count++] = event;
}

void memory_event(struct memory_write *w, struct ledger_event event)
{
    event.at_ms = w->now_ms;
    event.segment = w->ledger->segments > 0 ? event.segment : SEGMENT_ALL;
    event_add(w->ledger, event);
}

void memory_sale_event(struct memory_write *w, struct ledger_event event)
{
    event.segment = SEGMENT_ALL;
    memory_event(w, event);
}

int memory_order_compare(const struct order_row *a, uint64_t item, struct order_id id)
{
    if (a->item != item) {
        return a->item < item ? -1 : 1;
    }
    if (a->id.hi != id.hi) {
        return a->id.hi < id.hi ? -1 : 1;
    }
    return a->id.lo < id.lo ? -1 : a->id.lo > id.lo;
}

/* NULL: that reader has not begun. */
static struct memory_cursor *cursor_find(const struct memory_ledger *ledger, const char *name)
{
    for (size_t i = 0; i < ledger->cursors_count; i++) {
        if (strcmp(ledger->cursors[i].name, name) == 0) {
            return &ledger->cursors[i];
        }
    }
    return NULL;
}

static void move_cursor(struct memory_write *w, struct ledger_op *op)
{
    struct memory_ledger *ledger = w->ledger;
    struct memory_cursor *cursor = cursor_find(ledger, op->key);
    if (op->key[0] == '\0') {
        op->refusal = REFUSAL_BAD_REQUEST;
        return;
    }
    op->repeated = op->amount <= (cursor != NULL ? cursor->number : 0);
    if (op->repeated) {
        return;
    }
    if (cursor == NULL) {
        ledger->cursors = memory_grown(ledger->cursors, ledger->cursors_count, sizeof(*cursor));
        cursor = &ledger->cursors[ledger->cursors_count++];
        memcpy(cursor->name, op->key, sizeof(cursor->name));
    }
    cursor->number = op->amount;
}

/* ---- a batch ---- */

static void (*const runs[])(struct memory_write *w, struct ledger_op *op) = {
    [LEDGER_BOOK] = memory_book,
    [LEDGER_PAY] = memory_pay,
    [LEDGER_CANCEL] = memory_cancel,
    [LEDGER_EXPIRE] = memory_expire,
    [LEDGER_RESTOCK] = memory_restock,
    [LEDGER_SALE_CREATE] = memory_sale_create,
    [LEDGER_SALE_CHANGE] = memory_sale_change,
    [LEDGER_SALE_DELETE] = memory_sale_delete,
    [LEDGER_SALE_MOVE] = memory_sale_move,
    [LEDGER_SALE_FORGET] = memory_sale_forget,
    [LEDGER_CURSOR] = move_cursor,
    [LEDGER_BLOCK] = memory_block,
    [LEDGER_UNBLOCK] = memory_unblock,
    [LEDGER_FAIL] = memory_fail,
    [LEDGER_EPOCH] = memory_epoch,
    [LEDGER_TRANSFER] = memory_transfer,
    [LEDGER_TRANSFERRED] = memory_transferred,
};
_Static_assert(sizeof(runs) / sizeof(runs[0]) == LEDGER_KIND_COUNT, "an op without a row");

/* The op has changed op->sale, or deleted it. */
static void number_change(struct memory_ledger *ledger, const struct ledger_op *op)
{
    size_t at = 0;
    while (at < ledger->changes_count && ledger->changes[at].sale != op->sale->id) {
        at++;
    }
    if (at == ledger->changes_count) {
        ledger->changes =
            memory_grown(ledger->changes, ledger->changes_count, sizeof(*ledger->changes));
        ledger->changes[ledger->changes_count++] = (struct sale_change_row){.sale = op->sale->id};
    }
    ledger->changes[at].number = ++ledger->last_change;
}

static void clear_answer(struct ledger_op *op)
{
    op->refusal = REFUSAL_NONE;
    op->repeated = false;
    op->order = (struct order_row){0};
    op->sale = NULL;
}

static void commit(struct memory_port *port, struct ledger_batch *batch)
{
    struct memory_ledger *ledger = port->to;
    bool by_clock = ledger->segments > 0 && ledger->clock != NULL;
    struct memory_write w = {ledger, batch,
                             by_clock ? ledger->clock(ledger->clock_context) : batch->now_ms};
    size_t first = ledger->events_count;
    for (size_t i = 0; i < batch->count; i++) {
        struct ledger_op *op = batch->ops[i];
        runs[op->kind](&w, op);
        if (op->sale != NULL && op->refusal == REFUSAL_NONE && !op->repeated) {
            number_change(ledger, op);
        }
        ledger->ops[op->kind]++;
        ledger->repeated += op->repeated;
    }
    if (batch->booked_lsn > ledger->booked_lsn) { /* a lost answer had it further on: never back */
        ledger->booked_lsn = batch->booked_lsn;
    }
    ledger->commits++;
    size_t count = ledger->events_count - first;
    if (count > 0) {
        port->batch_events = memory_must(malloc(count * sizeof(*port->batch_events)));
        memcpy(port->batch_events, ledger->events + first, count * sizeof(*ledger->events));
    }
    batch->events = port->batch_events;
    batch->events_count = count;
}

/* EPOCH has one field for question and answer: it is written when the batch is answered. */
static void answer_epochs(struct ledger_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct ledger_op *op = batch->ops[i];
        bool answered = op->refusal == REFUSAL_NONE || op->refusal == REFUSAL_STALE_EPOCH;
        if (op->kind == LEDGER_EPOCH && answered) {
            op->epoch = op->order.lsn;
            op->order.lsn = 0;
        }
    }
}

static void run_batch(struct memory_port *port, struct ledger_batch *batch)
{
    struct memory_ledger *ledger = port->to;
    int fail = ledger->fail_next;
    int lose = ledger->lose_next;
    ledger->fail_next = 0;
    ledger->lose_next = 0;
    ledger->batches++;
    ledger->last_count = batch->count;
    free(port->batch_events);
    port->batch_events = NULL;
    for (size_t i = 0; i < batch->count; i++) {
        clear_answer(batch->ops[i]);
    }
    batch->events = NULL;
    batch->events_count = 0;
    fail = fail == 0 && !memory_lease_holds(ledger, batch) ? ERR_BUSY : fail;
    if (fail == 0) {
        commit(port, batch);
    }
    batch->error = fail != 0 ? fail : lose;
    if (batch->error == 0) {
        answer_epochs(batch);
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
        query->sales[query->count++] = memory_sale_copy(next);
        query->after = next->id;
    }
}

static void read_sale_changes(const struct memory_ledger *ledger, struct ledger_query *query)
{
    uint64_t after = query->after;
    while (query->count < query->limit) {
        const struct sale_change_row *next = NULL; /* the lowest number above `after` */
        for (size_t i = 0; i < ledger->changes_count; i++) {
            const struct sale_change_row *change = &ledger->changes[i];
            if (change->number > after && (next == NULL || change->number < next->number)) {
                next = change;
            }
        }
        if (next == NULL) {
            return;
        }
        const struct sale_row *sale = memory_sale(ledger, next->sale);
        struct sale_change_row *row = &query->changes[query->count++];
        *row = *next;
        row->gone = sale == NULL || sale->forgotten;
        after = next->number;
    }
}

static void read_locked(const struct memory_ledger *ledger, struct ledger_query *query)
{
    uint64_t item = query->after_item;
    struct order_id id = query->after_id;
    while (query->count < query->limit) {
        const struct order_row *next = NULL;
        for (size_t i = 0; i < ledger->orders_count; i++) {
            const struct order_row *order = &ledger->orders[i];
            if (order->state == ORDER_LOCKED && memory_order_compare(order, item, id) > 0 &&
                (next == NULL || memory_order_compare(next, order->item, order->id) > 0)) {
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

/* One item's orders, by id downwards. The cursor is the last id. */
static int read_item_orders(const struct memory_ledger *ledger, struct ledger_query *query)
{
    struct order_id id = {UINT64_MAX, UINT64_MAX};
    query->next[0] = '\0';
    if (query->item == 0 || query->user != 0 || query->sale != 0 || query->state >= 0 ||
        (query->cursor[0] != '\0' && order_id_parse(span_of(query->cursor), &id) != 0)) {
        return ERR_INVALID;
    }
    for (;;) {
        const struct order_row *next = NULL;
        for (size_t i = 0; i < ledger->orders_count; i++) {
            const struct order_row *order = &ledger->orders[i];
            if (order->item == query->item && memory_order_compare(order, query->item, id) < 0 &&
                (next == NULL || memory_order_compare(next, order->item, order->id) < 0)) {
                next = order;
            }
        }
        if (next == NULL) {
            return 0;
        }
        if (query->count == query->limit) {
            char text[ORDER_ID_TEXT];
            order_id_text(id, text);
            memcpy(query->next, text, sizeof(text));
            query->next[sizeof(text)] = '\0';
            return 0;
        }
        query->orders[query->count++] = *next;
        id = next->id;
    }
}

/* With a segment: only those that its gate applies. */
static void read_events(const struct memory_ledger *ledger, struct ledger_query *query)
{
    for (uint64_t n = query->after; n < ledger->events_count && query->count < query->limit; n++) {
        const struct ledger_event *event = &ledger->events[n];
        if (query->segment < 0 || event->segment == SEGMENT_ALL ||
            event->segment == query->segment) {
            query->events[query->count++] = *event;
        }
    }
}

static void read_by_id(const struct memory_ledger *ledger, struct ledger_query *query)
{
    for (; query->count < query->limit; query->count++) {
        const struct order_row *order = memory_find_order(ledger, query->ids[query->count]);
        struct order_row none = {.id = query->ids[query->count], .state = ORDER_QUEUED};
        query->orders[query->count] = order != NULL ? *order : none;
    }
}

static void run_query(const struct memory_ledger *ledger, struct ledger_query *query)
{
    const struct order_row *order;
    const struct memory_cursor *cursor;
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
    case QUERY_SALE_CHANGES:
        read_sale_changes(ledger, query);
        return;
    case QUERY_BLOCKS:
        memory_query_blocks(ledger, query);
        return;
    case QUERY_BLOCK:
        query->error = memory_query_block(ledger, query);
        return;
    case QUERY_EVENTS:
        read_events(ledger, query);
        return;
    case QUERY_LOCKED:
        read_locked(ledger, query);
        return;
    case QUERY_ORDERS:
        query->error = read_item_orders(ledger, query);
        return;
    case QUERY_CURSOR:
        cursor = cursor_find(ledger, query->cursor);
        query->last_event = cursor != NULL ? cursor->number : 0;
        return;
    case QUERY_ORDERS_BY_ID:
        read_by_id(ledger, query);
        return;
    case QUERY_ORDER:
        order = memory_find_order(ledger, query->id);
        if (order == NULL) {
            query->error = ERR_NOTFOUND;
            return;
        }
        query->orders[query->count++] = *order;
        return;
    case QUERY_REPORT:
    case QUERY_SUMMARY:
    case QUERY_SERIES:
        query->error = memory_query_report(ledger, query);
        return;
    default:
        query->error = memory_query_segments(ledger, query);
        return;
    }
}

/* ---- the port ---- */

static struct memory_port *lock_port(struct ledger *ledger)
{
    struct memory_port *port = (struct memory_port *)ledger;
    CHECK(pthread_mutex_lock(&port->to->lock) == 0);
    return port;
}

static void unlock_port(struct memory_port *port)
{
    CHECK(pthread_mutex_unlock(&port->to->lock) == 0);
}

static void memory_write(struct ledger *ledger, struct ledger_batch *batch)
{
    const struct memory_ledger *to = ((struct memory_port *)ledger)->to;
    if (to->meanwhile != NULL) {
        to->meanwhile(to->meanwhile_context);
    }
    struct memory_port *port = lock_port(ledger);
    run_batch(port, batch);
    unlock_port(port);
}

static void memory_read(struct ledger *ledger, struct ledger_query *query)
{
    struct memory_port *port = lock_port(ledger);
    run_query(port->to, query);
    port->to->sales_read += query->kind == QUERY_SALES ? query->count : 0;
    unlock_port(port);
}

void memory_port_init(struct memory_port *ret_port, struct memory_ledger *ledger)
{
    static const struct ledger_ops ops = {.write = memory_write, .read = memory_read};
    *ret_port = (struct memory_port){.ledger = {.ops = &ops}, .to = ledger};
}

void memory_port_done(struct memory_port *port)
{
    free(port->batch_events);
}

void memory_ledger_init_shared(struct memory_ledger *ret_ledger, uint32_t segments)
{
    CHECK(segments <= SEGMENTS_MAX);
    memset(ret_ledger, 0, sizeof(*ret_ledger));
    ret_ledger->segments = segments;
    ret_ledger->next_sale = ret_ledger->next_item = 1;
    memory_port_init(&ret_ledger->port, ret_ledger);
    CHECK(pthread_mutex_init(&ret_ledger->lock, NULL) == 0);
}

void memory_ledger_init(struct memory_ledger *ret_ledger)
{
    memory_ledger_init_shared(ret_ledger, 0);
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
    free(ledger->cursors);
    free(ledger->changes);
    free(ledger->blocks);
    free(ledger->shares);
    free(ledger->transfers);
    free(ledger->leases);
    memory_port_done(&ledger->port);
    (void)pthread_mutex_destroy(&ledger->lock);
}

static void *copied(const void *array, size_t count, size_t size)
{
    void *copy = NULL;
    for (size_t i = 0; i < count; i++) { /* as it would have grown */
        copy = memory_grown(copy, i, size);
    }
    if (count > 0) {
        memcpy(copy, array, count * size);
    }
    return copy;
}

void memory_ledger_copy(const struct memory_ledger *from, struct memory_ledger *ret_to)
{
    memory_ledger_init_shared(ret_to, from->segments);
    ret_to->regions = from->regions;
#define COPY(array)                                                                                \
    ret_to->array = copied(from->array, from->array##_count, sizeof(*from->array));                \
    ret_to->array##_count = from->array##_count
    COPY(sales);
    COPY(orders);
    COPY(events);
    COPY(keys);
    COPY(cursors);
    COPY(changes);
    COPY(blocks);
    COPY(shares);
    COPY(transfers);
    COPY(leases);
#undef COPY
    for (size_t i = 0; i < from->sales_count; i++) {
        ret_to->sales[i] = memory_sale_copy(from->sales[i]);
    }
    memcpy(ret_to->epochs, from->epochs, sizeof(ret_to->epochs));
    ret_to->booked_lsn = from->booked_lsn;
    ret_to->next_sale = from->next_sale;
    ret_to->next_item = from->next_item;
    ret_to->clock = from->clock;
    ret_to->clock_context = from->clock_context;
}

/* ---- for tests ---- */

const struct order_row *memory_ledger_order(const struct memory_ledger *ledger, struct order_id id)
{
    return memory_find_order(ledger, id);
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
    return memory_item(ledger, item, &sale);
}

void memory_ledger_event(struct memory_ledger *ledger, struct ledger_event event)
{
    event_add(ledger, event);
}
