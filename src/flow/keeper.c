/* See keeper.h. */
#include "flow/keeper.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"

struct deadline {
    struct order_id id;
    int64_t pay_by_ms;
};

/* A ring that grows by doubling; growing happens when orders are booked, on the office's thread. */
struct fifo {
    uint64_t sale;
    struct deadline *ring;
    size_t capacity; /* a power of two, or 0 */
    size_t head;
    size_t count;
    int64_t last_pay_by_ms; /* of the newest ever added: the sale stays on the board until then */
};

struct keeper {
    int64_t board_keep_ms;
    struct fifo *fifos;
    size_t fifos_count;
    size_t pending;
};

struct keeper *keeper_new(int64_t board_keep_ms)
{
    struct keeper *keeper = calloc(1, sizeof(*keeper));
    if (keeper != NULL) {
        keeper->board_keep_ms = board_keep_ms;
    }
    return keeper;
}

void keeper_free(struct keeper *keeper)
{
    if (keeper == NULL) {
        return;
    }
    for (size_t i = 0; i < keeper->fifos_count; i++) {
        free(keeper->fifos[i].ring);
    }
    free(keeper->fifos);
    free(keeper);
}

static struct fifo *find_fifo(const struct keeper *keeper, uint64_t sale)
{
    for (size_t i = 0; i < keeper->fifos_count; i++) {
        if (keeper->fifos[i].sale == sale) {
            return &keeper->fifos[i];
        }
    }
    return NULL;
}

static struct fifo *take_fifo(struct keeper *keeper, uint64_t sale)
{
    struct fifo *fifo = find_fifo(keeper, sale);
    if (fifo != NULL) {
        return fifo;
    }
    struct fifo *fifos = realloc(keeper->fifos, (keeper->fifos_count + 1) * sizeof(*fifos));
    if (fifos == NULL) {
        return NULL;
    }
    keeper->fifos = fifos;
    fifo = &fifos[keeper->fifos_count++];
    *fifo = (struct fifo){.sale = sale};
    return fifo;
}

static struct deadline *fifo_at(const struct fifo *fifo, size_t i)
{
    return &fifo->ring[(fifo->head + i) & (fifo->capacity - 1)];
}

static int fifo_grow(struct fifo *fifo)
{
    size_t capacity = fifo->capacity == 0 ? 64 : fifo->capacity * 2;
    struct deadline *ring = malloc(capacity * sizeof(*ring));
    if (ring == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < fifo->count; i++) {
        ring[i] = *fifo_at(fifo, i);
    }
    free(fifo->ring);
    fifo->ring = ring;
    fifo->capacity = capacity;
    fifo->head = 0;
    return 0;
}

int keeper_add(struct keeper *keeper, uint64_t sale, struct order_id id, int64_t pay_by_ms)
{
    struct fifo *fifo = take_fifo(keeper, sale);
    if (fifo == NULL || (fifo->count == fifo->capacity && fifo_grow(fifo) != 0)) {
        return ERR_NOMEM;
    }
    /* Booked later is due no earlier; should the clock of a loaded ledger say otherwise, the order
     * is moved to its place. */
    size_t at = fifo->count++;
    while (at > 0 && fifo_at(fifo, at - 1)->pay_by_ms > pay_by_ms) {
        *fifo_at(fifo, at) = *fifo_at(fifo, at - 1);
        at--;
    }
    *fifo_at(fifo, at) = (struct deadline){id, pay_by_ms};
    if (pay_by_ms > fifo->last_pay_by_ms) {
        fifo->last_pay_by_ms = pay_by_ms;
    }
    keeper->pending++;
    return 0;
}

size_t keeper_due(struct keeper *keeper, int64_t now_ms, struct ledger_op *ret_ops, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < keeper->fifos_count; i++) {
        struct fifo *fifo = &keeper->fifos[i];
        while (n < max && fifo->count > 0 && fifo_at(fifo, 0)->pay_by_ms <= now_ms) {
            const struct deadline *due = fifo_at(fifo, 0);
            struct ledger_op *op = &ret_ops[n++];
            memset(op, 0, sizeof(*op));
            op->kind = LEDGER_EXPIRE;
            op->id = due->id;
            op->sale_id = fifo->sale;
            op->amount_cents = due->pay_by_ms; /* only carried, for keeper_return */
            fifo->head = (fifo->head + 1) & (fifo->capacity - 1);
            fifo->count--;
            keeper->pending--;
        }
    }
    return n;
}

void keeper_return(struct keeper *keeper, uint64_t sale, struct order_id id, int64_t pay_by_ms)
{
    struct fifo *fifo = find_fifo(keeper, sale);
    CHECK(fifo != NULL && fifo->count < fifo->capacity); /* it has just left its place */
    fifo->head = (fifo->head + fifo->capacity - 1) & (fifo->capacity - 1);
    fifo->count++;
    keeper->pending++;
    *fifo_at(fifo, 0) = (struct deadline){id, pay_by_ms};
}

/* When the sale wants its next move, and which; INT64_MAX: none. */
static int64_t next_move(const struct keeper *keeper, const struct sale_row *sale,
                         struct ledger_op *ret_op)
{
    ret_op->kind = LEDGER_SALE_MOVE;
    ret_op->sale_id = sale->id;
    switch (sale->state) {
    case SALE_WARM:
        if (sale->ends_at_ms > sale->starts_at_ms) {
            ret_op->target = SALE_OPEN;
            return sale->starts_at_ms;
        }
        ret_op->target = SALE_CLOSED;
        return sale->ends_at_ms;
    case SALE_OPEN:
    case SALE_PAUSED:
        ret_op->target = SALE_CLOSED;
        return sale->ends_at_ms;
    case SALE_CLOSED: {
        const struct fifo *fifo = find_fifo(keeper, sale->id);
        int64_t last = fifo != NULL ? fifo->last_pay_by_ms : 0;
        ret_op->kind = LEDGER_SALE_FORGET;
        return (last > sale->ends_at_ms ? last : sale->ends_at_ms) + keeper->board_keep_ms;
    }
    default:
        return INT64_MAX;
    }
}

size_t keeper_moves(struct keeper *keeper, struct catalog *catalog, int64_t now_ms,
                    struct ledger_op *ret_ops, size_t max)
{
    size_t n = 0;
    size_t count = 0;
    catalog_lock(catalog);
    struct sale_row *const *sales = catalog_sales(catalog, &count);
    for (size_t i = 0; i < count && n < max; i++) {
        struct ledger_op op = {0};
        if (next_move(keeper, sales[i], &op) > now_ms) {
            continue;
        }
        /* Past its end it is closed at once, open or not. */
        if (op.kind == LEDGER_SALE_MOVE && now_ms >= sales[i]->ends_at_ms) {
            op.target = SALE_CLOSED;
        }
        ret_ops[n++] = op;
    }
    catalog_unlock(catalog);
    return n;
}

int64_t keeper_next_ms(struct keeper *keeper, struct catalog *catalog)
{
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < keeper->fifos_count; i++) {
        const struct fifo *fifo = &keeper->fifos[i];
        if (fifo->count > 0 && fifo_at(fifo, 0)->pay_by_ms < next) {
            next = fifo_at(fifo, 0)->pay_by_ms;
        }
    }
    size_t count = 0;
    catalog_lock(catalog);
    struct sale_row *const *sales = catalog_sales(catalog, &count);
    for (size_t i = 0; i < count; i++) {
        struct ledger_op op = {0};
        int64_t at = next_move(keeper, sales[i], &op);
        if (at < next) {
            next = at;
        }
    }
    catalog_unlock(catalog);
    return next;
}

size_t keeper_pending(const struct keeper *keeper)
{
    return keeper->pending;
}
