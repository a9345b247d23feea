/*
 * Segments of the ledger in memory: epochs, shares, transfers, the queries one segment is rebuilt
 * from; and the leases it keeps.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "memory_private.h"

static void add_share(struct memory_ledger *ledger, struct memory_share share)
{
    ledger->shares = memory_grown(ledger->shares, ledger->shares_count, sizeof(share));
    ledger->shares[ledger->shares_count++] = share;
}

/* ---- epochs ---- */

/* A segment that was added after a sale had been warmed: a share of nothing. */
static void fill_shares(struct memory_ledger *ledger, uint32_t segment)
{
    for (size_t i = 0; i < ledger->sales_count; i++) {
        const struct sale_row *sale = ledger->sales[i];
        bool added = sale->homes > 0 && sale->homes <= segment && !sale->forgotten;
        for (uint32_t k = 0; added && k < sale->items_count; k++) {
            if (memory_share(ledger, sale->items[k].id, segment) == NULL) {
                add_share(ledger,
                          (struct memory_share){.item = sale->items[k].id, .segment = segment});
            }
        }
    }
}

/* op.order.lsn keeps the answer until the batch is answered: the question stays for another try. */
void memory_epoch(struct memory_write *w, struct ledger_op *op)
{
    struct memory_ledger *ledger = w->ledger;
    if (ledger->segments == 0 || op->segment >= ledger->segments) {
        op->refusal = ledger->segments == 0 ? REFUSAL_BAD_STATE : REFUSAL_BAD_REQUEST;
        return;
    }
    uint64_t *epoch = &ledger->epochs[op->segment];
    if (op->epoch != *epoch) {
        op->refusal = REFUSAL_STALE_EPOCH;
        op->order.lsn = *epoch;
        return;
    }
    op->order.lsn = ++*epoch;
    fill_shares(ledger, op->segment);
    for (size_t i = 0; i < ledger->transfers_count; i++) {
        struct ledger_transfer *transfer = &ledger->transfers[i];
        if (transfer->row.segment == op->segment && transfer->state == TRANSFER_OPEN) {
            transfer->state = TRANSFER_VOID;
        }
    }
}

/* ---- shares ---- */

void memory_allot(struct memory_write *w, const struct sale_row *sale)
{
    struct memory_ledger *ledger = w->ledger;
    for (uint32_t i = 0; i < sale->items_count; i++) {
        for (uint32_t s = 0; s < sale->homes; s++) {
            struct memory_share share = {.item = sale->items[i].id,
                                         .segment = s,
                                         .amount =
                                             ledger_home_share(sale, sale->items[i].total, s)};
            add_share(ledger, share);
            memory_event(w, ledger_share_loaded(sale, i, s));
        }
    }
}

void memory_allot_more(struct memory_write *w, const struct sale_row *sale, uint64_t item,
                       uint64_t units)
{
    uint32_t segments = 0;
    uint32_t given = 0;
    for (uint32_t s = 0; s < SEGMENTS_MAX; s++) {
        segments += memory_share(w->ledger, item, s) != NULL;
    }
    CHECK(segments >= sale->homes);
    for (uint32_t s = 0; given < segments; s++) {
        struct memory_share *share = memory_share(w->ledger, item, s);
        if (share == NULL) {
            continue;
        }
        uint64_t more = ledger_share(units, segments, given++);
        share->amount += more;
        if (more > 0) {
            memory_event(w, (struct ledger_event){.kind = EVENT_ITEM_RESTOCKED,
                                                  .segment = (int32_t)s,
                                                  .sale = sale->id,
                                                  .item = item,
                                                  .a = (int64_t)more});
        }
    }
}

/* ---- transfers ---- */

static struct ledger_transfer *transfer_find(const struct memory_ledger *ledger, const char *key)
{
    for (size_t i = 0; i < ledger->transfers_count; i++) {
        if (strcmp(ledger->transfers[i].row.key, key) == 0) {
            return &ledger->transfers[i];
        }
    }
    return NULL;
}

static enum refusal transfer_refusal(const struct memory_ledger *ledger, const struct ledger_op *op)
{
    struct sale_row *sale;
    if (memory_item(ledger, op->item, &sale) == NULL) {
        return REFUSAL_NO_SUCH_ITEM;
    }
    if (sale->state == SALE_CLOSED) {
        return REFUSAL_BAD_STATE;
    }
    bool wanted = op->segment != op->to_segment && op->amount > 0 && op->amount <= STOCK_MAX &&
                  op->key[0] != '\0' && memory_share(ledger, op->item, op->segment) != NULL &&
                  memory_share(ledger, op->item, op->to_segment) != NULL;
    if (!wanted) {
        return REFUSAL_BAD_REQUEST;
    }
    return ledger_transfer_is_stale(op, ledger->epochs[op->segment], ledger->epochs[op->to_segment])
               ? REFUSAL_STALE_EPOCH
               : REFUSAL_NONE;
}

void memory_transfer(struct memory_write *w, struct ledger_op *op)
{
    struct memory_ledger *ledger = w->ledger;
    if (ledger->segments == 0) {
        op->refusal = REFUSAL_BAD_STATE;
        return;
    }
    const struct ledger_transfer *have = transfer_find(ledger, op->key);
    op->refusal = have != NULL ? ledger_transfer_again(have, op) : transfer_refusal(ledger, op);
    op->repeated = have != NULL && op->refusal == REFUSAL_NONE;
    if (have != NULL || op->refusal != REFUSAL_NONE) {
        return;
    }
    struct ledger_transfer transfer = {.row = {.item = op->item,
                                               .segment = op->segment,
                                               .to_segment = op->to_segment,
                                               .amount = op->amount,
                                               .at_ms = w->now_ms},
                                       .state = TRANSFER_OPEN};
    memcpy(transfer.row.key, op->key, sizeof(transfer.row.key));
    ledger->transfers = memory_grown(ledger->transfers, ledger->transfers_count, sizeof(transfer));
    ledger->transfers[ledger->transfers_count++] = transfer;
}

static void move_share(struct memory_write *w, struct ledger_op *op, struct ledger_transfer *have)
{
    struct sale_row *sale;
    struct memory_share *from = memory_share(w->ledger, have->row.item, have->row.segment);
    struct memory_share *to = memory_share(w->ledger, have->row.item, have->row.to_segment);
    CHECK(from != NULL && to != NULL && memory_item(w->ledger, have->row.item, &sale) != NULL);
    if (from->amount - from->locked - from->sold < op->amount) {
        op->refusal = REFUSAL_NO_STOCK;
        return;
    }
    have->state = TRANSFER_DONE;
    have->moved = op->amount;
    from->amount -= op->amount;
    to->amount += op->amount;
    if (op->amount > 0) {
        memory_event(w, (struct ledger_event){.kind = EVENT_ITEM_TRANSFERRED,
                                              .segment = (int32_t)have->row.to_segment,
                                              .sale = sale->id,
                                              .item = have->row.item,
                                              .a = (int64_t)op->amount});
    }
}

void memory_transferred(struct memory_write *w, struct ledger_op *op)
{
    struct ledger_transfer *have = transfer_find(w->ledger, op->key);
    if (w->ledger->segments == 0 || have == NULL) {
        op->refusal = w->ledger->segments == 0 ? REFUSAL_BAD_STATE : REFUSAL_NOT_FOUND;
        return;
    }
    have->row.epoch = w->ledger->epochs[have->row.segment];
    op->refusal = ledger_transferred(have, op, &op->repeated);
    if (op->refusal == REFUSAL_NONE && !op->repeated) {
        move_share(w, op, have);
    }
}

/* ---- queries ---- */

static bool shown(const struct memory_ledger *ledger, uint64_t item)
{
    struct sale_row *sale;
    return memory_item(ledger, item, &sale) != NULL && !sale->forgotten;
}

static void query_shares(const struct memory_ledger *ledger, struct ledger_query *q)
{
    uint64_t after = q->after;
    while (q->count < q->limit) {
        const struct memory_share *next = NULL;
        for (size_t i = 0; i < ledger->shares_count; i++) {
            const struct memory_share *share = &ledger->shares[i];
            if (share->segment == (uint32_t)q->segment && share->item > after &&
                shown(ledger, share->item) && (next == NULL || share->item < next->item)) {
                next = share;
            }
        }
        if (next == NULL) {
            return;
        }
        struct sale_row *sale;
        const struct item_row *item = memory_item(ledger, next->item, &sale);
        q->allotments[q->count++] = (struct allotment_row){.item = next->item,
                                                           .sale = sale->id,
                                                           .segment = next->segment,
                                                           .limit_per_user = item->limit_per_user,
                                                           .amount = next->amount,
                                                           .locked = next->locked,
                                                           .sold = next->sold};
        after = next->item;
    }
}

static int by_place(const void *left, const void *right)
{
    const struct order_row *a = *(const struct order_row *const *)left;
    const struct order_row *b = *(const struct order_row *const *)right;
    return memory_order_compare(a, b->item, b->id);
}

/* Orders of the segment, of items that are on the board, by item and id. The caller frees the
 * list. */
static const struct order_row **orders_sorted(const struct memory_ledger *ledger, int32_t segment,
                                              size_t *ret_count)
{
    const struct order_row **list =
        memory_must(calloc(ledger->orders_count + 1, sizeof(struct order_row *)));
    size_t count = 0;
    for (size_t i = 0; i < ledger->orders_count; i++) {
        const struct order_row *order = &ledger->orders[i];
        if (order->segment == (uint32_t)segment && shown(ledger, order->item) &&
            memory_share(ledger, order->item, order->segment) != NULL) {
            list[count++] = order;
        }
    }
    qsort(list, count, sizeof(*list), by_place);
    *ret_count = count;
    return list;
}

static void query_orders(const struct memory_ledger *ledger, struct ledger_query *q)
{
    size_t count;
    const struct order_row **list = orders_sorted(ledger, q->segment, &count);
    for (size_t i = 0; i < count && q->count < q->limit; i++) {
        if (memory_order_compare(list[i], q->after_item, q->after_id) > 0) {
            q->orders[q->count++] = *list[i];
        }
    }
    free(list);
}

struct buyer_found {
    struct buyer_row row;
    uint32_t segment; /* of his first order */
};

static int by_buyer(const void *left, const void *right)
{
    const struct buyer_row *a = &((const struct buyer_found *)left)->row;
    const struct buyer_row *b = &((const struct buyer_found *)right)->row;
    if (a->item != b->item) {
        return a->item < b->item ? -1 : 1;
    }
    return a->user < b->user ? -1 : a->user > b->user;
}

static void count_order(const struct memory_ledger *ledger, const struct order_row *order,
                        struct buyer_row *buyer)
{
    struct sale_row *sale;
    CHECK(memory_item(ledger, order->item, &sale) != NULL);
    bool late = order->state == ORDER_CANCELLED && order->reason == REFUSAL_BARRED;
    bool barred = late || (order->state == ORDER_EXPIRED && sale->bar_unpaid);
    buyer->held += order_state_alive(order->state) ? order->qty : 0;
    buyer->failed_attempts += !order_state_alive(order->state) && !barred ? 1 : 0;
    buyer->barred = buyer->barred || barred;
}

/* From the orders, in the order they were made: a buyer is at home where his first one was. */
static void query_buyers(const struct memory_ledger *ledger, struct ledger_query *q)
{
    struct buyer_found *found = memory_must(calloc(ledger->orders_count + 1, sizeof(*found)));
    size_t count = 0;
    for (size_t i = 0; i < ledger->orders_count; i++) {
        const struct order_row *order = &ledger->orders[i];
        size_t at = 0;
        if (!shown(ledger, order->item)) {
            continue;
        }
        while (at < count &&
               (found[at].row.item != order->item || found[at].row.user != order->user)) {
            at++;
        }
        if (at == count) {
            found[count++] = (struct buyer_found){.row = {.item = order->item, .user = order->user},
                                                  .segment = order->segment};
        }
        count_order(ledger, order, &found[at].row);
    }
    qsort(found, count, sizeof(*found), by_buyer);
    for (size_t i = 0; i < count && q->count < q->limit; i++) {
        const struct buyer_row *row = &found[i].row;
        bool behind =
            row->item > q->after_item || (row->item == q->after_item && row->user > q->after);
        if (found[i].segment == (uint32_t)q->segment && behind &&
            memory_share(ledger, row->item, found[i].segment) != NULL) {
            q->buyers[q->count++] = *row;
        }
    }
    free(found);
}

static int by_age(const void *left, const void *right)
{
    const struct transfer_row *a = left;
    const struct transfer_row *b = right;
    if (a->at_ms != b->at_ms) {
        return a->at_ms < b->at_ms ? -1 : 1;
    }
    return strcmp(a->key, b->key);
}

static void query_transfers(const struct memory_ledger *ledger, struct ledger_query *q)
{
    struct transfer_row *open = memory_must(calloc(ledger->transfers_count + 1, sizeof(*open)));
    size_t count = 0;
    for (size_t i = 0; i < ledger->transfers_count; i++) {
        if (ledger->transfers[i].state == TRANSFER_OPEN) {
            open[count] = ledger->transfers[i].row;
            open[count].epoch = ledger->epochs[open[count].segment];
            count++;
        }
    }
    qsort(open, count, sizeof(*open), by_age);
    while (q->count < q->limit && q->count < count) {
        q->transfers[q->count] = open[q->count];
        q->count++;
    }
    free(open);
}

static uint64_t segment_last(const struct memory_ledger *ledger, int32_t segment)
{
    size_t at = ledger->events_count;
    while (at > 0 && ledger->events[at - 1].segment != segment &&
           ledger->events[at - 1].segment != SEGMENT_ALL) {
        at--;
    }
    return at;
}

int memory_query_segments(const struct memory_ledger *ledger, struct ledger_query *q)
{
    switch (q->kind) {
    case QUERY_SEGMENTS:
        for (uint32_t s = 0; s < SEGMENTS_MAX && q->count < q->limit; s++) {
            if (ledger->epochs[s] > 0) {
                q->segments[q->count++] =
                    (struct segment_row){.segment = s, .epoch = ledger->epochs[s]};
            }
        }
        return 0;
    case QUERY_KNOWN:
        while (q->count < q->limit) {
            const struct order_row *order = memory_find_order(ledger, q->ids[q->count]);
            q->orders[q->count] = (struct order_row){
                .id = q->ids[q->count], .state = order != NULL ? order->state : ORDER_QUEUED};
            q->count++;
        }
        return 0;
    case QUERY_TRANSFERS:
        query_transfers(ledger, q);
        return 0;
    case QUERY_ALLOTMENTS:
    case QUERY_SEGMENT_ORDERS:
    case QUERY_SEGMENT_BUYERS:
        q->last_event = segment_last(ledger, q->segment);
        (q->kind == QUERY_ALLOTMENTS       ? query_shares
         : q->kind == QUERY_SEGMENT_ORDERS ? query_orders
                                           : query_buyers)(ledger, q);
        return 0;
    default:
        return ERR_INVALID;
    }
}

/* ---- leases ---- */

static struct memory_lease *lease_find(const struct memory_ledger *ledger, const char *name)
{
    for (size_t i = 0; i < ledger->leases_count; i++) {
        if (strcmp(ledger->leases[i].name, name) == 0) {
            return &ledger->leases[i];
        }
    }
    return NULL;
}

bool memory_lease_holds(const struct memory_ledger *ledger, const struct ledger_batch *batch)
{
    const struct memory_lease *lease =
        batch->lease == NULL ? NULL : lease_find(ledger, batch->lease);
    return lease == NULL || lease->token <= batch->token;
}

static int take_locked(struct memory_holder *holder, const char *name, int64_t ttl_ms,
                       uint64_t *ret_token)
{
    struct memory_ledger *ledger = holder->ledger;
    int64_t now_ms = ledger->clock(ledger->clock_context);
    struct memory_lease *lease = lease_find(ledger, name);
    if (lease == NULL) {
        ledger->leases =
            memory_grown(ledger->leases, ledger->leases_count, sizeof(*ledger->leases));
        lease = &ledger->leases[ledger->leases_count++];
        *lease = (struct memory_lease){.token = 0};
        (void)snprintf(lease->name, sizeof(lease->name), "%s", name);
    }
    bool ours = strcmp(lease->holder, holder->name) == 0;
    if (!ours && lease->until_ms > now_ms) {
        return ERR_BUSY;
    }
    lease->token += ours ? 0 : 1; /* late, but nobody else had it: kept */
    lease->until_ms = now_ms + ttl_ms;
    memcpy(lease->holder, holder->name, sizeof(lease->holder));
    *ret_token = lease->token;
    return 0;
}

static int holder_take(struct lease_port *port, const char *name, int64_t ttl_ms,
                       uint64_t *ret_token)
{
    struct memory_holder *holder = (struct memory_holder *)port;
    CHECK(name[0] != '\0' && strlen(name) <= LEASE_NAME_MAX && ttl_ms > 0);
    CHECK(pthread_mutex_lock(&holder->ledger->lock) == 0);
    int err = take_locked(holder, name, ttl_ms, ret_token);
    CHECK(pthread_mutex_unlock(&holder->ledger->lock) == 0);
    return err;
}

static void holder_drop(struct lease_port *port, const char *name)
{
    struct memory_holder *holder = (struct memory_holder *)port;
    CHECK(pthread_mutex_lock(&holder->ledger->lock) == 0);
    struct memory_lease *lease = lease_find(holder->ledger, name);
    if (lease != NULL && strcmp(lease->holder, holder->name) == 0) {
        lease->holder[0] = '\0';
        lease->until_ms = 0;
    }
    CHECK(pthread_mutex_unlock(&holder->ledger->lock) == 0);
}

void memory_holder_init(struct memory_holder *ret_holder, struct memory_ledger *ledger,
                        const char *name)
{
    static const struct lease_ops ops = {.take = holder_take, .drop = holder_drop};
    CHECK(name[0] != '\0' && strlen(name) < sizeof(ret_holder->name) && ledger->clock != NULL);
    *ret_holder = (struct memory_holder){.port = {&ops}, .ledger = ledger};
    (void)snprintf(ret_holder->name, sizeof(ret_holder->name), "%s", name);
}
