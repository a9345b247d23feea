/*
 * Orders of all places as one list: each place gives its own in the wanted order, and the next one
 * is the first of those at their heads.
 *
 * What can go wrong: a row that this program never wrote (ERR_CORRUPT), a lost connection. Then all
 * that was open is closed.
 */
#include "backend/sql/db.h"
#include "base/check.h"
#include "base/err.h"

struct merge {
    uint32_t places;
    enum db_order order;
    struct db_row *rows[DB_PLACES_MAX];    /* NULL: through */
    struct order_row heads[DB_PLACES_MAX]; /* the present row of each */
};

static void merge_close(struct merge *merge)
{
    for (uint32_t i = 0; i < merge->places; i++) {
        if (merge->rows[i] != NULL) {
            db_done(merge->rows[i]);
            merge->rows[i] = NULL;
        }
    }
}

static int merge_open(struct merge *merge, struct db *db, unsigned which,
                      const struct value *values, size_t count)
{
    for (uint32_t i = 0; i < merge->places; i++) {
        struct db_row *row;
        int err = db_get_values(db, i, which, &row, values, count);
        if (err == 0) {
            merge->rows[i] = row;
            err = db_order_read(row, &merge->heads[i]);
        }
        if (err != 0 && err != ERR_NOTFOUND) {
            return err;
        }
    }
    return 0;
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Upwards, by item and id. */
static int compare_ids(const struct order_row *a, const struct order_row *b)
{
    int order = compare(a->item, b->item);
    order = order != 0 ? order : compare(a->id.hi, b->id.hi);
    return order != 0 ? order : compare(a->id.lo, b->id.lo);
}

static bool comes_before(enum db_order order, const struct order_row *a, const struct order_row *b)
{
    if (order == MERGE_UP) {
        return compare_ids(a, b) < 0;
    }
    if (order == MERGE_NEWEST && a->created_at_ms != b->created_at_ms) {
        return a->created_at_ms > b->created_at_ms;
    }
    return compare_ids(a, b) > 0;
}

/* The place of the next one; DB_PLACES_MAX: there is none. */
static uint32_t merge_first(const struct merge *merge)
{
    uint32_t best = DB_PLACES_MAX;
    for (uint32_t i = 0; i < merge->places; i++) {
        if (merge->rows[i] != NULL &&
            (best == DB_PLACES_MAX ||
             comes_before(merge->order, &merge->heads[i], &merge->heads[best]))) {
            best = i;
        }
    }
    return best;
}

static int merge_take(struct merge *merge, uint32_t place, struct order_row *ret_order)
{
    *ret_order = merge->heads[place];
    int err = db_next(merge->rows[place]);
    if (err == 0) {
        return db_order_read(merge->rows[place], &merge->heads[place]);
    }
    merge->rows[place] = NULL; /* and done with */
    return err == ERR_NOTFOUND ? 0 : err;
}

int db_orders_values(struct db *db, unsigned which, enum db_order order, struct ledger_query *q,
                     bool *ret_more, const struct value *values, size_t count)
{
    struct merge merge = {.places = db->places, .order = order};
    CHECK(merge.places <= DB_PLACES_MAX);
    int err = merge_open(&merge, db, which, values, count);
    uint32_t place = err != 0 ? DB_PLACES_MAX : merge_first(&merge);
    while (err == 0 && q->count < q->limit && place != DB_PLACES_MAX) {
        err = merge_take(&merge, place, &q->orders[q->count]);
        if (err == 0) {
            q->count++;
            place = merge_first(&merge);
        }
    }
    if (err == 0) {
        *ret_more = place != DB_PLACES_MAX;
    }
    merge_close(&merge);
    return err;
}
