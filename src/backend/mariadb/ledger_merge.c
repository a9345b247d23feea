/*
 * Orders of all databases as one list: each database gives its own in the wanted order, and the
 * next one is the first of those at their heads.
 *
 * What can go wrong: a row that this program never wrote (ERR_CORRUPT), a lost connection. Then all
 * that was open is closed.
 */
#include "backend/mariadb/maria.h"
#include "base/check.h"
#include "base/err.h"

/* The row that a database is at. */
static int read_head(struct maria_merge *merge, uint32_t place)
{
    int err = maria_order_read(merge->rows[place], &merge->heads[place]);
    if (err != 0) {
        maria_merge_close(merge);
    }
    return err;
}

int maria_merge_values(struct maria *s, enum maria_statement which, enum maria_order order,
                       struct maria_merge *ret_merge, const struct value *values, size_t count)
{
    ret_merge->maria = s;
    ret_merge->order = order;
    for (uint32_t i = 0; i < s->address.databases; i++) {
        ret_merge->rows[i] = NULL;
    }
    for (uint32_t i = 0; i < s->address.databases; i++) {
        struct maria_row *row;
        int err = maria_get_values(s, MARIA_IN(i, which), &row, values, count);
        if (err == 0) {
            ret_merge->rows[i] = row;
            err = read_head(ret_merge, i);
        }
        if (err != 0 && err != ERR_NOTFOUND) {
            maria_merge_close(ret_merge);
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

static bool comes_before(enum maria_order order, const struct order_row *a,
                         const struct order_row *b)
{
    if (order == MERGE_UP) {
        return compare_ids(a, b) < 0;
    }
    if (order == MERGE_NEWEST && a->created_at_ms != b->created_at_ms) {
        return a->created_at_ms > b->created_at_ms;
    }
    return compare_ids(a, b) > 0;
}

/* Where the next one is; SPLIT_MAX: nowhere. */
static uint32_t first(const struct maria_merge *merge)
{
    uint32_t best = SPLIT_MAX;
    for (uint32_t i = 0; i < merge->maria->address.databases; i++) {
        if (merge->rows[i] != NULL &&
            (best == SPLIT_MAX ||
             comes_before(merge->order, &merge->heads[i], &merge->heads[best]))) {
            best = i;
        }
    }
    return best;
}

bool maria_merge_more(const struct maria_merge *merge)
{
    return first(merge) != SPLIT_MAX;
}

int maria_merge_take(struct maria_merge *merge, struct order_row *ret_order)
{
    uint32_t at = first(merge);
    CHECK(at != SPLIT_MAX);
    *ret_order = merge->heads[at];
    int err = maria_next(merge->maria, merge->rows[at]);
    if (err == 0) {
        return read_head(merge, at);
    }
    merge->rows[at] = NULL; /* and done with */
    if (err != ERR_NOTFOUND) {
        maria_merge_close(merge);
        return err;
    }
    return 0;
}

void maria_merge_close(struct maria_merge *merge)
{
    for (uint32_t i = 0; i < merge->maria->address.databases; i++) {
        if (merge->rows[i] != NULL) {
            maria_done(merge->rows[i]);
            merge->rows[i] = NULL;
        }
    }
}
