/*
 * The plan and the tables. Loading: the orders, buyers' holdings and payments that the ops of a
 * batch name, each kind in one query. Storing: each kind of row in one statement with the values of
 * all its rows, sorted by key, so that pages are met in their order and locks are taken in one
 * order.
 *
 * What can go wrong when storing: a constraint refuses a row. Then `guard` says what that means for
 * a booking; the caller undoes everything and does it again in smaller pieces.
 */
#include <stdlib.h>

#include "backend/mariadb/maria.h"
#include "base/check.h"
#include "base/err.h"

/* Keys of one query. */
#define KEYS_AT_ONCE 2000
/* ["26 characters",9007199254740991], and ["128 hex digits"], with some room. */
#define KEY_BYTES 160

/* ---- loading ---- */

/* A growing list of keys, as JSON; sent when it is full and at the end. */
struct keys {
    struct maria *maria;
    char *memory;
    struct out out;
    size_t count;
    uint32_t place;
    unsigned which;
    int (*found)(struct maria *s, const struct db_row *row);
};

static int keys_send(struct keys *keys)
{
    if (keys->count == 0) {
        return 0;
    }
    out_char(&keys->out, ']');
    CHECK(!keys->out.overflow);
    struct db_row *row;
    int err = db_get_in(&keys->maria->base, keys->place, keys->which, &row,
                        v_bytes(keys->out.at, keys->out.len));
    while (err == 0) {
        err = keys->found(keys->maria, row);
        if (err != 0) {
            db_done(row);
            return err;
        }
        err = db_next(row);
    }
    keys->out.len = 0;
    keys->count = 0;
    return err == ERR_NOTFOUND ? 0 : err;
}

/* Room for the next key, with what stands before it. */
static int keys_next(struct keys *keys)
{
    int err = keys->count == KEYS_AT_ONCE ? keys_send(keys) : 0;
    out_char(&keys->out, keys->count == 0 ? '[' : ',');
    keys->count++;
    return err;
}

static int order_found(struct maria *s, const struct db_row *row)
{
    struct order_row order;
    int err = db_order_read(row, &order);
    struct plan_order *known = err == 0 ? plan_order(&s->plan, order.id) : NULL;
    if (known == NULL) {
        return err != 0 ? err : ERR_CORRUPT;
    }
    known->row = order;
    known->exists = true;
    return 0;
}

static int holding_found(struct maria *s, const struct db_row *row)
{
    struct plan_holding *known = plan_holding(&s->plan, db_u64(row, 0), db_u64(row, 1));
    if (known == NULL) {
        return ERR_CORRUPT;
    }
    known->held = db_int(row, 2);
    return 0;
}

static int payment_found(struct maria *s, const struct db_row *row)
{
    struct plan_payment *known = plan_payment(&s->plan, db_span(row, 0));
    struct span fingerprint = db_span(row, 1);
    if (known == NULL || fingerprint.len != sizeof(known->fingerprint)) {
        return ERR_CORRUPT;
    }
    memcpy(known->fingerprint, fingerprint.at, sizeof(known->fingerprint));
    known->exists = true;
    return 0;
}

static bool books(const struct ledger_op *op)
{
    return op->kind == LEDGER_BOOK || op->kind == LEDGER_FAIL;
}

/* Only ops that work on the plan come here. */
static bool names_order(const struct ledger_op *op, struct order_id *ret_id)
{
    *ret_id = books(op) ? op->command.id : op->id;
    return !books(op) || op->command.item == order_id_item(op->command.id);
}

/* Those of one database. */
static int load_orders_in(struct keys *keys, struct ledger_op **ops, size_t count, uint32_t place)
{
    struct plan *plan = &keys->maria->plan;
    keys->place = place;
    for (size_t i = 0; i < count; i++) {
        struct order_id id;
        if (!names_order(ops[i], &id) || maria_place(keys->maria, id) != place ||
            plan_order(plan, id) != NULL) {
            continue;
        }
        int err = plan_order_add(plan, id) == NULL ? ERR_NOMEM : keys_next(keys);
        if (err != 0) {
            return err;
        }
        struct id_text text = id_text_of(id);
        out_char(&keys->out, '[');
        out_u64(&keys->out, order_id_item(id));
        out_lit(&keys->out, ",\"");
        out_bytes(&keys->out, text.text, sizeof(text.text));
        out_lit(&keys->out, "\"]");
    }
    return keys_send(keys);
}

static int load_orders(struct keys *keys, struct ledger_op **ops, size_t count)
{
    int err = 0;
    for (uint32_t i = 0; i < keys->maria->address.databases && err == 0; i++) {
        err = load_orders_in(keys, ops, count, i);
    }
    return err;
}

/* Of those who book: the others' deltas need no look. */
static int load_holdings(struct keys *keys, struct ledger_op **ops, size_t count)
{
    struct plan *plan = &keys->maria->plan;
    for (size_t i = 0; i < count; i++) {
        const struct gate_command *command = &ops[i]->command;
        if (!books(ops[i]) || command->item > ID_MAX || command->user > ID_MAX ||
            plan_holding(plan, command->item, command->user) != NULL) {
            continue;
        }
        int err = plan_holding_add(plan, command->item, command->user) == NULL ? ERR_NOMEM
                                                                               : keys_next(keys);
        if (err != 0) {
            return err;
        }
        out_char(&keys->out, '[');
        out_u64(&keys->out, command->item);
        out_char(&keys->out, ',');
        out_u64(&keys->out, command->user);
        out_char(&keys->out, ']');
    }
    return keys_send(keys);
}

static int load_payments(struct keys *keys, struct ledger_op **ops, size_t count)
{
    struct plan *plan = &keys->maria->plan;
    for (size_t i = 0; i < count; i++) {
        struct span key = span_of(ops[i]->key);
        if (ops[i]->kind != LEDGER_PAY || plan_payment(plan, key) != NULL) {
            continue;
        }
        int err = plan_payment_add(plan, key) == NULL ? ERR_NOMEM : keys_next(keys);
        if (err != 0) {
            return err;
        }
        out_char(&keys->out, '"');
        for (size_t k = 0; k < key.len; k++) {
            static const char digits[] = "0123456789abcdef";
            out_char(&keys->out, digits[(uint8_t)key.at[k] >> 4]);
            out_char(&keys->out, digits[(uint8_t)key.at[k] & 15]);
        }
        out_char(&keys->out, '"');
    }
    return keys_send(keys);
}

int maria_plan_load(struct maria_write *w, struct ledger_op **ops, size_t count)
{
    static const struct {
        unsigned which;
        int (*found)(struct maria *s, const struct db_row *row);
        int (*load)(struct keys *keys, struct ledger_op **ops, size_t count);
    } kinds[] = {
        {MARIA_ORDERS_FIND, order_found, load_orders},
        {MARIA_HOLDINGS_FIND, holding_found, load_holdings},
        {MARIA_PAYMENTS_FIND, payment_found, load_payments},
    };
    size_t most = count < KEYS_AT_ONCE ? count : KEYS_AT_ONCE;
    char *memory = malloc(most * KEY_BYTES + KEY_BYTES);
    int err = memory == NULL ? ERR_NOMEM : 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && err == 0; i++) {
        struct keys keys = {.maria = w->maria,
                            .out = out_over(memory, most * KEY_BYTES + KEY_BYTES),
                            .which = kinds[i].which,
                            .found = kinds[i].found};
        err = kinds[i].load(&keys, ops, count);
    }
    free(memory);
    return err;
}

int maria_plan_expect_new(struct maria_write *w, struct ledger_op **ops, size_t count)
{
    struct order_id id;
    for (size_t i = 0; i < count; i++) {
        if (names_order(ops[i], &id) && plan_order_add(&w->maria->plan, id) == NULL) {
            return ERR_NOMEM;
        }
    }
    return 0;
}

/* All segments' shares of an item. */
static int allotments_read(struct maria *s, uint64_t item)
{
    struct db_row *row;
    int err = db_get(&s->base, MARIA_ITEM_ALLOTMENTS, &row, v_int((int64_t)item));
    while (err == 0) {
        struct plan_allotment *allotment = plan_allotment_add(&s->plan, item, db_u32(row, 0));
        if (allotment == NULL) {
            db_done(row);
            return ERR_NOMEM;
        }
        allotment->room = db_int(row, 1);
        err = db_next(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

/* ERR_NOTFOUND: no such item. */
int maria_plan_item(struct maria_write *w, uint64_t id, struct db_item **ret_item)
{
    struct plan *plan = &w->maria->plan;
    struct plan_item *item = plan_item(plan, id);
    if (item == NULL) {
        struct db_item read;
        int err = db_item_load(w->base.db, id, &read);
        if (err == 0 && w->segments > 0) {
            err = allotments_read(w->maria, id);
        }
        if (err != 0) {
            return err;
        }
        item = plan_item_add(plan, id);
        if (item == NULL) {
            return ERR_NOMEM;
        }
        item->row = read;
    }
    *ret_item = &item->row;
    return 0;
}

/* ---- storing ---- */

#define COLUMNS_MAX 14

/* Values of many rows on their way to one statement. */
struct rows {
    struct value *values;
    struct id_text *ids; /* one a row: texts of ids need a place until they are sent */
    size_t columns;
    size_t count;
};

static int rows_init(struct rows *rows, size_t columns, size_t most)
{
    CHECK(columns <= COLUMNS_MAX);
    *rows = (struct rows){.columns = columns};
    rows->values = calloc(most * columns + 1, sizeof(*rows->values));
    rows->ids = calloc(most + 1, sizeof(*rows->ids));
    return rows->values == NULL || rows->ids == NULL ? ERR_NOMEM : 0;
}

static void rows_add(struct rows *rows, const struct value *values, size_t count)
{
    CHECK(count == rows->columns);
    memcpy(rows->values + rows->count * count, values, count * sizeof(*values));
    rows->count++;
}
#define rows_put(rows, ...) rows_add((rows), DB_VALUES(__VA_ARGS__))

/* The place for the next row's id text. */
static struct value rows_id(struct rows *rows, struct order_id id)
{
    struct id_text *text = &rows->ids[rows->count];
    *text = id_text_of(id);
    return v_id(text);
}

static int rows_run(struct maria *s, struct rows *rows, unsigned which, uint64_t *ret_changed)
{
    if (ret_changed != NULL) {
        *ret_changed = 0;
    }
    int err = rows->count == 0
                  ? 0
                  : maria_run_rows(s, which, rows->values, rows->columns, rows->count, ret_changed);
    return err;
}

static void rows_done(struct rows *rows)
{
    free(rows->values);
    free(rows->ids);
}

static int by_order_id(const void *left, const void *right)
{
    const struct order_id a = (*(const struct plan_order *const *)left)->row.id;
    const struct order_id b = (*(const struct plan_order *const *)right)->row.id;
    uint64_t item_a = order_id_item(a);
    uint64_t item_b = order_id_item(b);
    if (item_a != item_b) {
        return item_a < item_b ? -1 : 1;
    }
    if (a.hi != b.hi) {
        return a.hi < b.hi ? -1 : 1;
    }
    return a.lo < b.lo ? -1 : a.lo > b.lo;
}

static int by_holder(const void *left, const void *right)
{
    const struct plan_holding *a = *(const struct plan_holding *const *)left;
    const struct plan_holding *b = *(const struct plan_holding *const *)right;
    if (a->item != b->item) {
        return a->item < b->item ? -1 : 1;
    }
    return a->user < b->user ? -1 : a->user > b->user;
}

static int by_allotment(const void *left, const void *right)
{
    const struct plan_allotment *a = *(const struct plan_allotment *const *)left;
    const struct plan_allotment *b = *(const struct plan_allotment *const *)right;
    if (a->segment != b->segment) {
        return a->segment < b->segment ? -1 : 1;
    }
    return a->item < b->item ? -1 : a->item > b->item;
}

static int by_item(const void *left, const void *right)
{
    const struct plan_item *a = *(const struct plan_item *const *)left;
    const struct plan_item *b = *(const struct plan_item *const *)right;
    return a->row.id < b->row.id ? -1 : a->row.id > b->row.id;
}

/* Pointers to all rows of a table of the plan, sorted. NULL: out of memory. */
static void *sorted(void *rows, size_t count, size_t size, int (*order)(const void *, const void *))
{
    void **list = calloc(count + 1, sizeof(*list));
    if (list != NULL) {
        for (size_t i = 0; i < count; i++) {
            list[i] = (char *)rows + i * size;
        }
        qsort(list, count, sizeof(*list), order);
    }
    return list;
}
#define SORTED(table, order) sorted((table).rows, (table).count, sizeof((table).rows[0]), (order))

/* A ledger of one writer has no segments in its rows. */
static struct value v_segment(const struct maria *s, int64_t segment)
{
    return s->segments == 0 || segment == SEGMENT_ALL ? v_text(NULL) : v_int(segment);
}

static void put_order(const struct maria *s, struct rows *rows, const struct order_row *o)
{
    rows_put(rows, v_int((int64_t)o->item), rows_id(rows, o->id), v_int((int64_t)o->user),
             v_int(o->qty), v_text(order_state_text(o->state)),
             v_text(ledger_refusal_name(o->reason)), v_int(o->amount_cents),
             v_int(o->created_at_ms), v_nonzero(o->locked_at_ms), v_nonzero(o->pay_by_ms),
             v_nonzero(o->ended_at_ms), v_int((int64_t)o->lsn), v_nonempty_key(o->payment_id),
             v_segment(s, o->segment));
}

/* In a shared ledger the statement compares with the database's time, too. */
static int run_moves(struct maria *s, struct rows *moved, uint32_t place)
{
    bool timed = s->segments > 0;
    uint64_t changed = 0;
    unsigned which = timed ? MARIA_ORDERS_MOVE_TIMED : MARIA_ORDERS_MOVE;
    int err = rows_run(s, moved, MARIA_IN(place, which), &changed);
    if (err == 0 && changed != moved->count) {
        (void)maria_say(s, ERR_BUSY, "somebody else has moved an order meanwhile");
        err = timed ? MARIA_AGAIN : ERR_BUSY; /* a deadline was met on the way */
    }
    return err;
}

static void put_move(struct rows *rows, const struct order_row *o)
{
    struct value status = v_text(order_state_text(o->state));
    const struct value row[] = {status,
                                v_int(o->ended_at_ms),
                                v_nonempty_key(o->payment_id),
                                v_text(ledger_refusal_name(o->reason)),
                                v_nonzero(o->cooling_until_ms),
                                v_int((int64_t)o->item),
                                rows_id(rows, o->id),
                                status};
    rows_add(rows, row, rows->columns);
}

/* Those of one database. */
static int store_orders_in(struct maria *s, struct plan_order *const *list, size_t count,
                           uint32_t place, struct rows *fresh, struct rows *moved)
{
    fresh->count = moved->count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct order_row *o = &list[i]->row;
        if ((!list[i]->fresh && !list[i]->moved) || maria_place(s, o->id) != place) {
            continue;
        }
        if (list[i]->fresh) {
            put_order(s, fresh, o);
        } else {
            put_move(moved, o);
        }
    }
    int err = rows_run(s, fresh, MARIA_IN(place, MARIA_ORDERS_ADD), NULL);
    return err != 0 ? err : run_moves(s, moved, place);
}

static int store_orders(struct maria *s)
{
    size_t count = s->plan.orders.count;
    struct plan_order **list = SORTED(s->plan.orders, by_order_id);
    struct rows fresh;
    struct rows moved = {.values = NULL};
    int err = rows_init(&fresh, 14, count);
    if (err == 0) {
        err = rows_init(&moved, s->segments > 0 ? 8 : 7, count);
    }
    err = list == NULL ? ERR_NOMEM : err;
    for (uint32_t i = 0; i < s->address.databases && err == 0; i++) {
        err = store_orders_in(s, list, count, i, &fresh, &moved);
    }
    rows_done(&fresh);
    rows_done(&moved);
    free(list);
    return err;
}

/* Holdings that grow or stay are inserted or added to. Holdings that shrink have a row already. */
static int store_holdings(struct maria *s)
{
    size_t count = s->plan.holdings.count;
    struct plan_holding **list = SORTED(s->plan.holdings, by_holder);
    struct rows more;
    struct rows less = {.values = NULL};
    int err = rows_init(&more, 7, count);
    if (err == 0) {
        err = rows_init(&less, 5, count);
    }
    err = list == NULL ? ERR_NOMEM : err;
    for (size_t i = 0; i < count && err == 0; i++) {
        const struct plan_holding *h = list[i];
        if (h->touched && h->move_held >= 0) {
            rows_put(&more, v_int((int64_t)h->item), v_int((int64_t)h->user), v_int(h->move_held),
                     v_int(h->limit_per_user), v_int(h->move_ended), v_int(h->barred),
                     v_segment(s, h->segment));
        } else if (h->touched) {
            rows_put(&less, v_int(h->move_held), v_int(h->move_ended), v_int(h->barred),
                     v_int((int64_t)h->item), v_int((int64_t)h->user));
        }
    }
    if (err == 0) {
        err = rows_run(s, &more, MARIA_HOLD, NULL);
    }
    if (err == 0) {
        err = rows_run(s, &less, MARIA_RELEASE, NULL);
    }
    rows_done(&more);
    rows_done(&less);
    free(list);
    return err;
}

/* One update per item, however many orders. */
static int store_stock(struct maria *s)
{
    size_t count = s->plan.items.count;
    struct plan_item **list = SORTED(s->plan.items, by_item);
    struct rows rows;
    int err = rows_init(&rows, 4, count);
    err = list == NULL ? ERR_NOMEM : err;
    for (size_t i = 0; i < count && err == 0; i++) {
        const struct db_item *item = &list[i]->row;
        if (item->move_available != 0 || item->move_locked != 0 || item->move_sold != 0) {
            rows_put(&rows, v_int(item->move_available), v_int(item->move_locked),
                     v_int(item->move_sold), v_int((int64_t)item->id));
        }
    }
    if (err == 0) {
        err = rows_run(s, &rows, MARIA_STOCK_MOVE, NULL);
    }
    rows_done(&rows);
    free(list);
    return err;
}

/* One update per segment and item. */
static int store_allotments(struct maria *s)
{
    size_t count = s->plan.allotments.count;
    struct plan_allotment **list = SORTED(s->plan.allotments, by_allotment);
    struct rows rows;
    uint64_t changed = 0;
    int err = rows_init(&rows, 4, count);
    err = list == NULL ? ERR_NOMEM : err;
    for (size_t i = 0; i < count && err == 0; i++) {
        const struct plan_allotment *a = list[i];
        if (a->move_locked != 0 || a->move_sold != 0) {
            rows_put(&rows, v_int(a->move_locked), v_int(a->move_sold), v_int(a->segment),
                     v_int((int64_t)a->item));
        }
    }
    if (err == 0) {
        err = rows_run(s, &rows, MARIA_ALLOTMENTS_MOVE, &changed);
    }
    if (err == 0 && changed != rows.count) {
        err = maria_say(s, ERR_CORRUPT, "an allotment is gone");
    }
    rows_done(&rows);
    free(list);
    return err;
}

static int store_payments(struct maria *s, int64_t now_ms)
{
    struct rows rows;
    int err = rows_init(&rows, 6, s->plan.payments.count);
    for (size_t i = 0; i < s->plan.payments.count && err == 0; i++) {
        const struct plan_payment *p = &s->plan.payments.rows[i];
        if (p->fresh) {
            rows_put(&rows, v_nonempty_key(p->key), v_int((int64_t)order_id_item(p->id)),
                     rows_id(&rows, p->id), v_int(p->amount_cents),
                     v_blob(p->fingerprint, sizeof(p->fingerprint)), v_int(now_ms));
        }
    }
    if (err == 0) {
        err = rows_run(s, &rows, MARIA_PAYMENTS_ADD, NULL);
    }
    rows_done(&rows);
    return err;
}

int maria_events_store(struct maria_write *w)
{
    struct maria *s = w->maria;
    struct rows rows;
    int err = rows_init(&rows, 14, s->base.events_count - s->events_stored);
    for (size_t i = s->events_stored; i < s->base.events_count && err == 0; i++) {
        const struct ledger_event *e = &s->base.events[i];
        rows_put(&rows, v_int((int64_t)e->number), v_text(ledger_event_text(e->kind)),
                 v_int(e->at_ms), v_nonzero((int64_t)e->sale), v_nonzero((int64_t)e->item),
                 v_nonzero((int64_t)e->user), e->id.hi != 0 ? rows_id(&rows, e->id) : v_text(NULL),
                 v_nonzero(e->qty), v_text(ledger_refusal_name(e->reason)), v_nonzero(e->a),
                 v_nonzero(e->b), v_nonzero(e->c), v_nonzero(e->d), v_segment(s, e->segment));
    }
    if (err == 0) {
        err = rows_run(s, &rows, MARIA_EVENTS_ADD, NULL);
    }
    rows_done(&rows);
    if (err == 0) {
        s->events_stored = s->base.events_count;
    }
    return err == MARIA_REFUSED ? ERR_CORRUPT : err; /* somebody else wrote events */
}

int maria_plan_store(struct maria_write *w)
{
    struct maria *s = w->maria;
    w->guard = REFUSAL_NONE; /* a row that cannot be stored at all */
    int err = store_orders(s);
    if (err == 0) {
        w->guard = REFUSAL_LIMIT_REACHED;
        err = store_holdings(s);
    }
    if (err == 0) {
        w->guard = REFUSAL_NO_STOCK;
        err = store_stock(s);
    }
    if (err == 0) {
        err = store_allotments(s);
    }
    if (err == 0) {
        w->guard = REFUSAL_NONE;
        err = store_payments(s, w->base.now_ms);
    }
    plan_clear(&s->plan);
    return err;
}
