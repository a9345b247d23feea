/* See deadline_scheduler.h. */
#include "ledger/deadline_scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"

struct deadline {
    struct order_id id;
    int64_t pay_by_ms;
};

/* A ring that grows by doubling, when an order is booked, on the ledger writer's thread. */
struct fifo {
    uint64_t sale;
    struct deadline *ring;
    size_t capacity; /* a power of two, or 0 */
    size_t head;
    size_t count;
    int64_t last_pay_by_ms; /* latest ever added: the sale is not forgotten before */
    bool unsorted;
};

struct deadline_scheduler {
    int64_t board_keep_ms;
    struct fifo *fifos;
    size_t fifos_count;
    size_t last; /* index of the FIFO found last: nearly always wanted next */
    size_t pending;
};

struct deadline_scheduler *deadline_scheduler_new(int64_t board_keep_ms)
{
    struct deadline_scheduler *scheduler = calloc(1, sizeof(*scheduler));
    if (scheduler != NULL) {
        scheduler->board_keep_ms = board_keep_ms;
    }
    return scheduler;
}

void deadline_scheduler_free(struct deadline_scheduler *scheduler)
{
    if (scheduler == NULL) {
        return;
    }
    for (size_t i = 0; i < scheduler->fifos_count; i++) {
        free(scheduler->fifos[i].ring);
    }
    free(scheduler->fifos);
    free(scheduler);
}

static struct fifo *find_fifo(struct deadline_scheduler *scheduler, uint64_t sale)
{
    if (scheduler->last < scheduler->fifos_count &&
        scheduler->fifos[scheduler->last].sale == sale) {
        return &scheduler->fifos[scheduler->last];
    }
    for (size_t i = 0; i < scheduler->fifos_count; i++) {
        if (scheduler->fifos[i].sale == sale) {
            scheduler->last = i;
            return &scheduler->fifos[i];
        }
    }
    return NULL;
}

static struct fifo *take_fifo(struct deadline_scheduler *scheduler, uint64_t sale)
{
    struct fifo *fifo = find_fifo(scheduler, sale);
    if (fifo != NULL) {
        return fifo;
    }
    struct fifo *fifos = realloc(scheduler->fifos, (scheduler->fifos_count + 1) * sizeof(*fifos));
    if (fifos == NULL) {
        return NULL;
    }
    scheduler->fifos = fifos;
    fifo = &fifos[scheduler->fifos_count++];
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

int deadline_scheduler_add(struct deadline_scheduler *scheduler, uint64_t sale, struct order_id id,
                           int64_t pay_by_ms)
{
    struct fifo *fifo = take_fifo(scheduler, sale);
    if (fifo == NULL || (fifo->count == fifo->capacity && fifo_grow(fifo) != 0)) {
        return ERR_NOMEM;
    }
    fifo->unsorted = fifo->unsorted ||
                     (fifo->count > 0 && fifo_at(fifo, fifo->count - 1)->pay_by_ms > pay_by_ms);
    *fifo_at(fifo, fifo->count++) = (struct deadline){id, pay_by_ms};
    if (pay_by_ms > fifo->last_pay_by_ms) {
        fifo->last_pay_by_ms = pay_by_ms;
    }
    scheduler->pending++;
    return 0;
}

static int deadline_order(const void *a, const void *b)
{
    int64_t x = ((const struct deadline *)a)->pay_by_ms;
    int64_t y = ((const struct deadline *)b)->pay_by_ms;
    return x < y ? -1 : x > y;
}

/* Bookings arrive in the order they fall due. Deadlines loaded from the
 * ledger do not and are sorted once. */
static void fifo_sort(struct fifo *fifo)
{
    if (!fifo->unsorted) {
        return;
    }
    /* Rotate the ring to start at 0. It may wrap around, with entries at both ends of the
     * memory. */
    size_t tail =
        fifo->head + fifo->count > fifo->capacity ? fifo->head + fifo->count - fifo->capacity : 0;
    if (tail > 0 || fifo->head > 0) {
        memmove(&fifo->ring[tail], &fifo->ring[fifo->head],
                (fifo->count - tail) * sizeof(*fifo->ring));
        fifo->head = 0;
    }
    qsort(fifo->ring, fifo->count, sizeof(*fifo->ring), deadline_order);
    fifo->unsorted = false;
}

void deadline_scheduler_forget(struct deadline_scheduler *scheduler, uint64_t sale)
{
    struct fifo *fifo = find_fifo(scheduler, sale);
    if (fifo != NULL) {
        scheduler->pending -= fifo->count;
        free(fifo->ring);
        *fifo = scheduler->fifos[--scheduler->fifos_count];
        scheduler->last = 0;
    }
}

size_t deadline_scheduler_due(struct deadline_scheduler *scheduler, int64_t now_ms,
                              struct ledger_op *ret_ops, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < scheduler->fifos_count; i++) {
        struct fifo *fifo = &scheduler->fifos[i];
        fifo_sort(fifo);
        while (n < max && fifo->count > 0 && fifo_at(fifo, 0)->pay_by_ms <= now_ms) {
            const struct deadline *due = fifo_at(fifo, 0);
            struct ledger_op *op = &ret_ops[n++];
            memset(op, 0, sizeof(*op));
            op->kind = LEDGER_EXPIRE;
            op->id = due->id;
            op->sale_id = fifo->sale;
            op->pay_by_ms = due->pay_by_ms;
            fifo->head = (fifo->head + 1) & (fifo->capacity - 1);
            fifo->count--;
            scheduler->pending--;
        }
    }
    return n;
}

void deadline_scheduler_return(struct deadline_scheduler *scheduler, uint64_t sale,
                               struct order_id id, int64_t pay_by_ms)
{
    struct fifo *fifo = find_fifo(scheduler, sale);
    CHECK(fifo != NULL && fifo->count < fifo->capacity); /* it has just left its place */
    fifo->head = (fifo->head + fifo->capacity - 1) & (fifo->capacity - 1);
    fifo->count++;
    scheduler->pending++;
    *fifo_at(fifo, 0) = (struct deadline){id, pay_by_ms};
}

/* Returns when the sale's next move is due, and which one; INT64_MAX: none. */
static int64_t next_move(struct deadline_scheduler *scheduler, const struct sale_row *sale,
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
        const struct fifo *fifo = find_fifo(scheduler, sale->id);
        /* Orders booked late, after the end, are in the FIFO with their own deadlines. */
        int64_t last = sale->ends_at_ms + (int64_t)sale->pay_within_s * 1000;
        last = fifo != NULL && fifo->last_pay_by_ms > last ? fifo->last_pay_by_ms : last;
        ret_op->kind = LEDGER_SALE_FORGET;
        return last + scheduler->board_keep_ms;
    }
    default:
        return INT64_MAX;
    }
}

size_t deadline_scheduler_moves(struct deadline_scheduler *scheduler, struct catalog *catalog,
                                int64_t now_ms, struct ledger_op *ret_ops, size_t max)
{
    size_t n = 0;
    size_t count = 0;
    catalog_lock(catalog);
    struct sale_row *const *sales = catalog_sales(catalog, &count);
    for (size_t i = 0; i < count && n < max; i++) {
        struct ledger_op op = {0};
        if (next_move(scheduler, sales[i], &op) > now_ms) {
            continue;
        }
        /* A sale past its end is closed at once, open or not. */
        if (op.kind == LEDGER_SALE_MOVE && now_ms >= sales[i]->ends_at_ms) {
            op.target = SALE_CLOSED;
        }
        ret_ops[n++] = op;
    }
    catalog_unlock(catalog);
    return n;
}

int64_t deadline_scheduler_next_ms(struct deadline_scheduler *scheduler, struct catalog *catalog)
{
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < scheduler->fifos_count; i++) {
        struct fifo *fifo = &scheduler->fifos[i];
        fifo_sort(fifo);
        if (fifo->count > 0 && fifo_at(fifo, 0)->pay_by_ms < next) {
            next = fifo_at(fifo, 0)->pay_by_ms;
        }
    }
    size_t count = 0;
    catalog_lock(catalog);
    struct sale_row *const *sales = catalog_sales(catalog, &count);
    for (size_t i = 0; i < count; i++) {
        struct ledger_op op = {0};
        int64_t at = next_move(scheduler, sales[i], &op);
        if (at < next) {
            next = at;
        }
    }
    catalog_unlock(catalog);
    return next;
}

size_t deadline_scheduler_pending(const struct deadline_scheduler *scheduler)
{
    return scheduler->pending;
}
