/* See compare_orders.h. */
#include "embedded/compare_orders.h"

#include <stdlib.h>

#include "base/err.h"

#define STEP 64
#define PAUSE_MS 20
#define LOOKS 3 /* moves of an order in the ledger, and one */

struct suspicion {
    struct order_id id;
    uint64_t item;
};

struct suspicions {
    struct suspicion *all;
    size_t count;
    size_t room;
};

static int suspect(struct compare_orders *compare, struct suspicions *suspicions,
                   struct order_id id, uint64_t item)
{
    if (suspicions->count == COMPARE_SUSPICIONS_MAX) {
        compare->unsure++;
        return 0;
    }
    if (suspicions->count == suspicions->room) {
        size_t room = suspicions->room == 0 ? 64 : 2 * suspicions->room;
        struct suspicion *more = realloc(suspicions->all, room * sizeof(*more));
        if (more == NULL) {
            return ERR_NOMEM;
        }
        suspicions->all = more;
        suspicions->room = room;
    }
    suspicions->all[suspicions->count++] = (struct suspicion){id, item};
    return 0;
}

static void tell(struct compare_orders *compare, enum difference_kind kind, uint64_t item,
                 uint64_t user, struct order_id id, uint64_t at_gate, uint64_t expected)
{
    compare->found(compare->context,
                   (struct difference){.kind = kind,
                                       .segment = DIFFERENCE_NO_SEGMENT,
                                       .item = item,
                                       .user = user,
                                       .id = id,
                                       .found = at_gate,
                                       .expected = expected,
                                       .since_ms = blocking_now(&compare->parts->blocking)});
}

/* ---- one order ---- */

/* QUEUED stands for "no row" in the ledger's answers; such an order of the gate waits to be booked.
 */
static bool is_same(const struct order_view *view, const struct order_row *row, uint64_t booked_lsn)
{
    if (row->state == ORDER_QUEUED) {
        return view->state == ORDER_QUEUED && view->lsn > booked_lsn;
    }
    return view->user == row->user && view->item == row->item && view->qty == row->qty &&
           view->state == row->state;
}

static void tell_order(struct compare_orders *compare, const struct order_view *view,
                       const struct order_row *row)
{
    if (row->state == ORDER_QUEUED) {
        tell(compare, DIFFERENCE_ORDER, view->item, view->user, view->id, view->state,
             ORDER_STATE_COUNT);
        return;
    }
    if (view->user != row->user) {
        tell(compare, DIFFERENCE_ORDER_USER, view->item, view->user, view->id, view->user,
             row->user);
    }
    if (view->item != row->item) {
        tell(compare, DIFFERENCE_ORDER_ITEM, view->item, view->user, view->id, view->item,
             row->item);
    }
    if (view->qty != row->qty) {
        tell(compare, DIFFERENCE_ORDER_QTY, view->item, view->user, view->id, view->qty, row->qty);
    }
    if (view->state != row->state) {
        tell(compare, DIFFERENCE_ORDER, view->item, view->user, view->id, view->state, row->state);
    }
}

/* ---- the gate's orders in the ledger ---- */

/* Looks orders up one by one, so that a damaged row hides no other. */
static int look_up_each(struct compare_orders *compare, const struct order_view *views,
                        size_t count, struct order_row *rows, bool *is_damaged)
{
    for (size_t i = 0; i < count; i++) {
        struct ledger_query query = {.kind = QUERY_ORDERS_BY_ID,
                                     .segment = SEGMENT_ALL,
                                     .ids = &views[i].id,
                                     .orders = &rows[i],
                                     .limit = 1};
        int error = ledger_read(compare->parts->ledger, &query);
        is_damaged[i] = error == ERR_CORRUPT;
        if (is_damaged[i]) {
            tell(compare, DIFFERENCE_DAMAGE, views[i].item, views[i].user, views[i].id, 0, 0);
        } else if (error != 0) {
            return error;
        }
    }
    return 0;
}

static int look_up(struct compare_orders *compare, const struct order_view *views, size_t count,
                   struct order_row *rows, bool *is_damaged)
{
    struct order_id ids[STEP];
    for (size_t i = 0; i < count; i++) {
        ids[i] = views[i].id;
        is_damaged[i] = false;
    }
    struct ledger_query query = {.kind = QUERY_ORDERS_BY_ID,
                                 .segment = SEGMENT_ALL,
                                 .ids = ids,
                                 .orders = rows,
                                 .limit = (uint32_t)count};
    int error = ledger_read(compare->parts->ledger, &query);
    return error == ERR_CORRUPT ? look_up_each(compare, views, count, rows, is_damaged) : error;
}

static int compare_gate(struct compare_orders *compare, struct suspicions *suspicions)
{
    struct order_view views[STEP];
    struct order_row rows[STEP];
    bool is_damaged[STEP];
    int error = 0;
    for (uint32_t slot = 0; slot != GATE_NONE && error == 0;) {
        if (reconcile_local_ending(compare->parts)) {
            return ERR_CLOSED;
        }
        /* Before the orders: what the gate shows later may be booked further. */
        uint64_t booked_lsn = ledger_writer_booked_lsn(compare->parts->ledger_writer);
        size_t count = embedded_gate_orders(compare->parts->engine, &slot, views, STEP);
        error = count == 0 ? 0 : look_up(compare, views, count, rows, is_damaged);
        for (size_t i = 0; i < count && error == 0; i++) {
            compare->orders++;
            if (!is_damaged[i] && !is_same(&views[i], &rows[i], booked_lsn)) {
                error = suspect(compare, suspicions, views[i].id, views[i].item);
            }
        }
    }
    return error;
}

/* ---- the ledger's rows at the gate ---- */

/* What the rows of an item add up to. */
struct sums {
    uint64_t locked;
    uint64_t sold;
};

static int compare_rows(struct compare_orders *compare, uint64_t item,
                        struct suspicions *suspicions, struct sums *ret_sums)
{
    struct order_row rows[STEP];
    struct order_view view;
    struct ledger_query query = {.kind = QUERY_ORDERS,
                                 .segment = SEGMENT_ALL,
                                 .item = item,
                                 .state = -1,
                                 .orders = rows,
                                 .limit = STEP};
    *ret_sums = (struct sums){0};
    int error = 0;
    do {
        if (reconcile_local_ending(compare->parts)) {
            return ERR_CLOSED;
        }
        error = ledger_read(compare->parts->ledger, &query);
        for (uint32_t i = 0; error == 0 && i < query.count; i++) {
            ret_sums->locked += rows[i].state == ORDER_LOCKED ? rows[i].qty : 0;
            ret_sums->sold += rows[i].state == ORDER_PAID ? rows[i].qty : 0;
            if (!embedded_gate_order(compare->parts->engine, rows[i].id, &view) &&
                !embedded_gate_may_lack(compare->parts->engine, item, rows[i].id, rows[i].state)) {
                error = suspect(compare, suspicions, rows[i].id, item);
            }
        }
        memcpy(query.cursor, query.next, sizeof(query.cursor));
    } while (error == 0 && query.next[0] != '\0');
    if (error == ERR_CORRUPT) {
        tell(compare, DIFFERENCE_DAMAGE, item, 0, (struct order_id){0}, 0, 0);
    }
    return error;
}

static int last_event(struct compare_orders *compare, uint64_t *ret_event)
{
    struct ledger_query state = {.kind = QUERY_STATE, .segment = SEGMENT_ALL};
    int error = ledger_read(compare->parts->ledger, &state);
    *ret_event = state.last_event;
    return error;
}

/* The rows of an item; and their sums with the item's stock, if nothing moved meanwhile. */
static int compare_item(struct compare_orders *compare, const struct item_row *item,
                        struct suspicions *suspicions, uint64_t event_before)
{
    struct sums sums;
    uint64_t event = 0;
    int error = compare_rows(compare, item->id, suspicions, &sums);
    if (error != 0) {
        return error == ERR_CORRUPT ? 0 : error;
    }
    error = last_event(compare, &event);
    if (error != 0 || event != event_before) {
        return error;
    }
    if (sums.locked != item->locked) {
        tell(compare, DIFFERENCE_SHARE_LOCKED, item->id, 0, (struct order_id){0}, item->locked,
             sums.locked);
    }
    if (sums.sold != item->sold) {
        tell(compare, DIFFERENCE_SHARE_SOLD, item->id, 0, (struct order_id){0}, item->sold,
             sums.sold);
    }
    return 0;
}

static int compare_ledger(struct compare_orders *compare, struct suspicions *suspicions)
{
    struct sale_row *sale = NULL;
    struct ledger_query query = {
        .kind = QUERY_SALES, .segment = SEGMENT_ALL, .sales = &sale, .limit = 1};
    for (;;) {
        uint64_t event = 0;
        int error = last_event(compare, &event);
        error = error != 0 ? error : ledger_read(compare->parts->ledger, &query);
        if (error != 0 || query.count == 0) {
            return error == ERR_NOTFOUND ? 0 : error;
        }
        bool at_gate = sale->state != SALE_DRAFT && !sale->forgotten;
        for (uint32_t i = 0; at_gate && error == 0 && i < sale->items_count; i++) {
            error = compare_item(compare, &sale->items[i], suspicions, event);
        }
        query.after = sale->id;
        sale_row_free(sale);
        if (error != 0) {
            return error;
        }
    }
}

/* ---- again ---- */

/* Waits until everything that is on its way now has arrived. False: not within the bound. */
static bool let_arrive(struct compare_orders *compare, int *ret_error)
{
    const struct reconcile_local_parts *parts = compare->parts;
    struct embedded_gate_numbers numbers;
    uint64_t event = 0;
    embedded_gate_count(parts->engine, &numbers);
    *ret_error = last_event(compare, &event);
    for (int64_t left_ms = parts->bound_ms; *ret_error == 0 && left_ms > 0; left_ms -= PAUSE_MS) {
        if (ledger_writer_booked_lsn(parts->ledger_writer) >= numbers.last_lsn &&
            embedded_gate_applied_event(parts->engine) >= event) {
            return true;
        }
        blocking_sleep(&parts->blocking, PAUSE_MS);
    }
    return false;
}

/* True: it still differs. */
static int look_again(struct compare_orders *compare, const struct suspicion *suspicion, bool last,
                      bool *ret_differs)
{
    struct order_view view = {.id = suspicion->id, .item = suspicion->item};
    struct order_row row;
    bool is_damaged = false;
    uint64_t booked_lsn = ledger_writer_booked_lsn(compare->parts->ledger_writer);
    bool at_gate = embedded_gate_order(compare->parts->engine, suspicion->id, &view);
    int error = look_up(compare, &view, 1, &row, &is_damaged);
    *ret_differs = false;
    if (error != 0 || is_damaged) {
        return error;
    }
    if (at_gate) {
        *ret_differs = !is_same(&view, &row, booked_lsn);
        if (*ret_differs && last) {
            tell_order(compare, &view, &row);
        }
        return 0;
    }
    /* A sale that is forgotten takes its orders from the gate, and so does an eviction. */
    *ret_differs =
        row.state != ORDER_QUEUED &&
        !embedded_gate_may_lack(compare->parts->engine, suspicion->item, suspicion->id, row.state);
    if (*ret_differs && last) {
        tell(compare, DIFFERENCE_ORDER, suspicion->item, row.user, suspicion->id, ORDER_STATE_COUNT,
             row.state);
    }
    return 0;
}

static int look_at_suspicions(struct compare_orders *compare, struct suspicions *suspicions)
{
    for (int look = 2; look <= LOOKS && suspicions->count > 0; look++) {
        int error = 0;
        if (!let_arrive(compare, &error)) {
            compare->unsure += suspicions->count;
            return error;
        }
        size_t kept = 0;
        for (size_t i = 0; i < suspicions->count && error == 0; i++) {
            bool differs = false;
            error = look_again(compare, &suspicions->all[i], look == LOOKS, &differs);
            if (differs) {
                suspicions->all[kept++] = suspicions->all[i];
            }
        }
        if (error != 0) {
            return error;
        }
        suspicions->count = kept;
    }
    return 0;
}

int compare_orders(struct compare_orders *compare)
{
    struct suspicions suspicions = {0};
    compare->orders = compare->unsure = 0;
    int error = compare_gate(compare, &suspicions);
    error = error != 0 ? error : compare_ledger(compare, &suspicions);
    error = error != 0 ? error : look_at_suspicions(compare, &suspicions);
    free(suspicions.all);
    return error;
}
