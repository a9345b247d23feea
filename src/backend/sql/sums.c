/*
 * The sums that reports are read from, kept as orders move. What a batch did to orders is added up in
 * memory, and written in its transaction, each sum once. The tables:
 *
 *   order_sums       orders, units and money of an item, by state
 *   sale_course      what happened in each step of time, for steps of several widths (SERIES_WIDTHS):
 *                    of a sale (item_id 0), and of an item for the width of a second
 *   booking_lengths  how many bookings of a sale took so long
 *   holdings.paid    paid orders of a buyer for an item
 *
 * What went wrong with an op left no trace in it, so the ops as they are answered say what was done.
 * A sum is never a reason to refuse an order: no constraint stands on them, and tests count them again
 * from the orders.
 */
#include <stdlib.h>

#include "backend/sql/db.h"
#include "base/check.h"
#include "base/err.h"
#include "port/ledger_report.h"

enum sum_kind { SUM_STATE, SUM_COURSE, SUM_LENGTH, SUM_PAID, SUM_COUNT };

#define SUM_KEYS 4
#define SUM_ADDS 5

struct sum {
    enum sum_kind kind;
    int64_t key[SUM_KEYS];
    int64_t add[SUM_ADDS];
};

/* The last two of a state's are not added: the earliest and the latest time. */
static const struct {
    unsigned statement;
    uint8_t keys, adds;
} kinds[SUM_COUNT] = {[SUM_STATE] = {SQL_SUM_STATE, 2, 5},
                      [SUM_COURSE] = {SQL_SUM_COURSE, 4, 4},
                      [SUM_LENGTH] = {SQL_SUM_LENGTH, 2, 1},
                      [SUM_PAID] = {SQL_SUM_PAID, 2, 1}};

struct sums {
    struct sum *rows;
    size_t count;
    size_t capacity;
    int error;
};

static bool same_key(const struct sum *a, const struct sum *b)
{
    return a->kind == b->kind && memcmp(a->key, b->key, sizeof(a->key)) == 0;
}

static void merge(struct sum *into, const struct sum *from)
{
    size_t added = into->kind == SUM_STATE ? 3 : SUM_ADDS;
    for (size_t i = 0; i < added; i++) {
        into->add[i] += from->add[i];
    }
    if (into->kind == SUM_STATE) {
        into->add[3] = from->add[3] < into->add[3] ? from->add[3] : into->add[3];
        into->add[4] = from->add[4] > into->add[4] ? from->add[4] : into->add[4];
    }
}

/* An order adds at most this many sums, and the next order mostly the same ones. */
#define SUMS_OF_ORDER 16

static void sums_add(struct sums *sums, struct sum sum)
{
    size_t back = sums->count < SUMS_OF_ORDER ? sums->count : SUMS_OF_ORDER;
    for (size_t i = sums->count; i > sums->count - back; i--) {
        if (same_key(&sums->rows[i - 1], &sum)) {
            merge(&sums->rows[i - 1], &sum);
            return;
        }
    }
    if (sums->count == sums->capacity) {
        size_t capacity = sums->capacity == 0 ? 64 : 2 * sums->capacity;
        struct sum *rows = realloc(sums->rows, capacity * sizeof(*rows));
        if (rows == NULL) {
            sums->error = ERR_NOMEM;
            return;
        }
        sums->rows = rows;
        sums->capacity = capacity;
    }
    sums->rows[sums->count++] = sum;
}

/* ---- what orders add ---- */

static void add_state(struct sums *sums, const struct order_row *order, enum order_state state,
                      int64_t sign)
{
    sums_add(sums,
             (struct sum){.kind = SUM_STATE,
                          .key = {(int64_t)order->item, (int64_t)state},
                          .add = {sign, sign * (int64_t)order->qty, sign * order->amount_cents,
                                  order->created_at_ms, order->created_at_ms}});
}

static void add_course(struct sums *sums, const struct order_row *order, int64_t at_ms,
                       struct series_row happened)
{
    for (size_t i = 0; i < SERIES_WIDTHS_COUNT; i++) {
        int64_t width_ms = series_widths_ms[i];
        struct sum sum = {.kind = SUM_COURSE,
                          .key = {(int64_t)order->sale, 0, width_ms, at_ms - at_ms % width_ms},
                          .add = {(int64_t)happened.orders, (int64_t)happened.taken,
                                  (int64_t)happened.paid, (int64_t)happened.returned}};
        sums_add(sums, sum);
        if (width_ms == SERIES_SECOND_MS && happened.orders > 0) {
            sum.key[1] = (int64_t)order->item;
            sums_add(sums, sum);
        }
    }
}

static void add_made(struct sums *sums, const struct order_row *order)
{
    bool locked = order->state == ORDER_LOCKED;
    add_state(sums, order, order->state, 1);
    add_course(sums, order, order->created_at_ms,
               (struct series_row){.orders = 1, .taken = locked ? order->qty : 0});
    if (locked) {
        uint64_t ms = booking_length(order->created_at_ms, order->locked_at_ms);
        sums_add(sums, (struct sum){.kind = SUM_LENGTH,
                                    .key = {(int64_t)order->sale, (int64_t)ms},
                                    .add = {1}});
    }
}

static void add_ended(struct sums *sums, const struct order_row *order)
{
    bool paid = order->state == ORDER_PAID;
    add_state(sums, order, ORDER_LOCKED, -1);
    add_state(sums, order, order->state, 1);
    add_course(
        sums, order, order->ended_at_ms,
        (struct series_row){.paid = paid ? order->qty : 0, .returned = paid ? 0 : order->qty});
    if (paid) {
        sums_add(sums, (struct sum){.kind = SUM_PAID,
                                    .key = {(int64_t)order->item, (int64_t)order->user},
                                    .add = {1}});
    }
}

static void add_op(struct sums *sums, const struct ledger_op *op)
{
    if (op->refusal != REFUSAL_NONE || op->repeated) {
        return;
    }
    switch (op->kind) {
    case LEDGER_BOOK:
    case LEDGER_FAIL:
        add_made(sums, &op->order);
        break;
    case LEDGER_PAY:
    case LEDGER_CANCEL:
    case LEDGER_EXPIRE:
        add_ended(sums, &op->order);
        break;
    default:
        break;
    }
}

/* ---- writing them ---- */

static int by_key(const void *left, const void *right)
{
    const struct sum *a = left;
    const struct sum *b = right;
    if (a->kind != b->kind) {
        return a->kind < b->kind ? -1 : 1;
    }
    for (size_t i = 0; i < SUM_KEYS; i++) {
        if (a->key[i] != b->key[i]) {
            return a->key[i] < b->key[i] ? -1 : 1;
        }
    }
    return 0;
}

/* Sorted, and each sum once. */
static void sums_join(struct sums *sums)
{
    size_t kept = 0;
    qsort(sums->rows, sums->count, sizeof(*sums->rows), by_key);
    for (size_t i = 0; i < sums->count; i++) {
        if (kept > 0 && same_key(&sums->rows[kept - 1], &sums->rows[i])) {
            merge(&sums->rows[kept - 1], &sums->rows[i]);
        } else {
            sums->rows[kept++] = sums->rows[i];
        }
    }
    sums->count = kept;
}

/* The values of one row, in the order of its statement. SUM_PAID changes a row that is there: its key
 * comes last. */
static void put_row(const struct sum *sum, struct value *values)
{
    size_t keys = kinds[sum->kind].keys;
    size_t adds = kinds[sum->kind].adds;
    size_t first_key = sum->kind == SUM_PAID ? adds : 0;
    size_t first_add = sum->kind == SUM_PAID ? 0 : keys;
    for (size_t i = 0; i < keys; i++) {
        values[first_key + i] = v_int(sum->key[i]);
    }
    for (size_t i = 0; i < adds; i++) {
        values[first_add + i] = v_int(sum->add[i]);
    }
    if (sum->kind == SUM_STATE) {
        values[1] = v_text(order_state_text((enum order_state)sum->key[1]));
    }
}

/* Sums of one kind, from `rows` on. */
static int write_kind(struct db *db, const struct sum *rows, size_t count)
{
    size_t columns = kinds[rows->kind].keys + kinds[rows->kind].adds;
    CHECK(count > 0 && columns > 0);
    struct value *values = calloc(count * columns, sizeof(*values));
    if (values == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        put_row(&rows[i], values + i * columns);
    }
    int err = db_run_rows(db, kinds[rows->kind].statement, values, columns, count);
    free(values);
    return err;
}

int db_sums_write(struct db *db, struct ledger_op *const *ops, size_t count)
{
    struct sums sums = {.rows = NULL};
    for (size_t i = 0; i < count; i++) {
        add_op(&sums, ops[i]);
    }
    int err = sums.error;
    if (err == 0 && sums.count > 0) {
        sums_join(&sums);
    }
    for (size_t at = 0, end = 0; at < sums.count && err == 0; at = end) {
        while (end < sums.count && sums.rows[end].kind == sums.rows[at].kind) {
            end++;
        }
        err = write_kind(db, sums.rows + at, end - at);
    }
    free(sums.rows);
    return err;
}
