/* See reconcile_embedded.h. */
#include "embedded/reconcile_embedded.h"

#include <stdlib.h>

#include "base/err.h"
#include "embedded/compare_orders.h"

#define PAGE 64
#define PAUSE_MS 100

struct reconcile_local {
    struct reconcile_local_parts parts;
    uint64_t passes;
    struct sale_row *sales[PAGE];
    size_t found;
    size_t room;
    struct difference *differences;
    int error; /* no memory for a difference */
    uint64_t items;
    struct ledger_check check; /* where the next piece of it begins */
};

struct moment {
    uint64_t lsn;
    uint64_t event;
};

/* False: some records are not booked yet. */
static bool is_quiet(const struct reconcile_local *local, struct moment *ret_moment)
{
    struct embedded_gate_numbers numbers;
    embedded_gate_count(local->parts.engine, &numbers);
    ret_moment->lsn = numbers.last_lsn;
    ret_moment->event = embedded_gate_applied_event(local->parts.engine);
    return ledger_writer_booked_lsn(local->parts.ledger_writer) >= numbers.last_lsn;
}

static void keep(void *context, struct difference difference)
{
    struct reconcile_local *local = context;
    if (local->found == local->room) {
        size_t room = local->room == 0 ? 64 : 2 * local->room;
        struct difference *more = realloc(local->differences, room * sizeof(*more));
        if (more == NULL) {
            local->error = ERR_NOMEM;
            return;
        }
        local->differences = more;
        local->room = room;
    }
    local->differences[local->found++] = difference;
}

static void found(struct reconcile_local *local, enum difference_kind kind, uint64_t item,
                  uint64_t at_gate, uint64_t expected)
{
    keep(local, (struct difference){.kind = kind,
                                    .segment = DIFFERENCE_NO_SEGMENT,
                                    .item = item,
                                    .found = at_gate,
                                    .expected = expected,
                                    .since_ms = blocking_now(&local->parts.blocking)});
}

static void compare_item(struct reconcile_local *local, const struct item_row *row)
{
    struct gate_request request = {.kind = GATE_REQUEST_ITEM, .item = row->id};
    (void)gate_submit(embedded_gate_port(local->parts.engine), &request);
    struct item_view view = {0};
    if (request.refusal == REFUSAL_NONE) {
        view = request.view;
    }
    uint64_t at_gate = view.locked + view.sold;
    uint64_t alive = row->locked + row->sold;
    local->items++;
    if (row->available + row->locked + row->sold != row->total) {
        found(local, DIFFERENCE_STOCK, row->id, row->available + row->locked + row->sold,
              row->total);
    }
    if (view.total != row->total) {
        found(local, DIFFERENCE_GATE_TOTAL, row->id, view.total, row->total);
    }
    if (at_gate != alive) {
        found(local, at_gate < alive ? DIFFERENCE_GATE_SHORT : DIFFERENCE_GATE_STUCK, row->id,
              at_gate, alive);
    }
}

static int compare_sales(struct reconcile_local *local)
{
    struct ledger_query query = {
        .kind = QUERY_SALES, .segment = SEGMENT_ALL, .sales = local->sales, .limit = PAGE};
    bool more = true;
    while (more) {
        int error = ledger_read(local->parts.ledger, &query);
        if (error != 0) {
            return error == ERR_NOTFOUND ? 0 : error;
        }
        more = query.count == PAGE;
        for (uint32_t i = 0; i < query.count; i++) {
            struct sale_row *sale = query.sales[i];
            bool at_gate = sale->state != SALE_DRAFT && !sale->forgotten;
            for (uint32_t k = 0; at_gate && k < sale->items_count; k++) {
                compare_item(local, &sale->items[k]);
            }
            query.after = sale->id;
            sale_row_free(sale);
        }
    }
    return 0;
}

/* Compares everything once. *ret_sure: nothing moved from start to end. */
static int look(struct reconcile_local *local, bool *ret_sure)
{
    struct moment before;
    struct moment after;
    struct ledger_query state = {.kind = QUERY_STATE, .segment = SEGMENT_ALL};
    local->found = 0;
    local->items = 0;
    local->error = 0;
    bool quiet = is_quiet(local, &before);
    int error = compare_sales(local);
    error = error != 0 ? error : local->error;
    error = error != 0 ? error : ledger_read(local->parts.ledger, &state);
    if (error != 0) {
        return error;
    }
    *ret_sure = quiet && is_quiet(local, &after) && after.lsn == before.lsn &&
                after.event == before.event && state.last_event == after.event;
    return 0;
}

static void keep_damage(struct reconcile_local *local, const struct ledger_check *check)
{
    for (uint32_t i = 0; i < check->damage_count; i++) {
        const struct ledger_damage *damage = &check->damage[i];
        keep(local, (struct difference){.kind = DIFFERENCE_DAMAGE,
                                        .segment = DIFFERENCE_NO_SEGMENT,
                                        .item = damage->item,
                                        .user = damage->user,
                                        .id = damage->id,
                                        .found = damage->page,
                                        .since_ms = blocking_now(&local->parts.blocking)});
    }
}

/* One pass over the ledger's file, piece by piece. */
static int look_for_damage(struct reconcile_local *local)
{
    struct ledger_check check = {0};
    do {
        int error = ledger_check(local->parts.ledger, &check);
        if (error != 0 && error != ERR_CORRUPT) {
            return error;
        }
        keep_damage(local, &check);
        if (reconcile_local_ending(&local->parts)) {
            return ERR_CLOSED;
        }
    } while (!check.done);
    return 0;
}

/* The items' numbers at a quiet moment. */
static int compare_items(struct reconcile_local *local, bool *ret_sure)
{
    int64_t left_ms = local->parts.bound_ms;
    int error = look(local, ret_sure);
    for (; error == 0 && !*ret_sure && left_ms > 0; left_ms -= PAUSE_MS) {
        blocking_sleep(&local->parts.blocking, PAUSE_MS);
        error = look(local, ret_sure);
    }
    if (error == ERR_CORRUPT) { /* then nothing can be said of the items */
        local->found = 0;
        found(local, DIFFERENCE_DAMAGE, 0, 0, 0);
        error = local->error;
    }
    return error;
}

int reconcile_local_now(struct reconcile_local *local, struct reconcile_result *ret_result)
{
    bool sure = false;
    local->error = 0;
    int error = compare_items(local, &sure);
    bool damaged =
        error == 0 && local->found > 0 && !sure && local->differences[0].kind == DIFFERENCE_DAMAGE;
    size_t seen = local->found;
    if (error == 0 && !sure && !damaged) {
        local->found = 0; /* they moved */
    }
    struct compare_orders orders = {.parts = &local->parts, .found = keep, .context = local};
    error = error != 0 ? error : compare_orders(&orders);
    if (error == ERR_CORRUPT) { /* what it met is noted below */
        error = 0;
        damaged = true;
    }
    error = error != 0 ? error : look_for_damage(local);
    error = error != 0 ? error : local->error;
    if (error != 0) {
        return error;
    }
    if (damaged && local->found == 0) {
        found(local, DIFFERENCE_DAMAGE, 0, 0, 0);
    }
    local->passes++;
    *ret_result = (struct reconcile_result){.differences = local->differences,
                                            .count = local->found,
                                            .seen = local->found > seen ? local->found : seen,
                                            .items = sure ? local->items : 0,
                                            .orders = orders.orders,
                                            .unsure = (sure ? 0 : (uint32_t)local->items) +
                                                      (uint32_t)orders.unsure,
                                            .passes = local->passes};
    return 0;
}

void reconcile_local_check_next(struct reconcile_local *local)
{
    (void)ledger_check(local->parts.ledger, &local->check); /* damage is noted by it */
}

int reconcile_local_new(const struct reconcile_local_parts *parts,
                        struct reconcile_local **ret_local)
{
    struct reconcile_local *local = calloc(1, sizeof(*local));
    if (local == NULL) {
        return ERR_NOMEM;
    }
    local->parts = *parts;
    *ret_local = local;
    return 0;
}

void reconcile_local_free(struct reconcile_local *local)
{
    if (local != NULL) {
        free(local->differences);
    }
    free(local);
}
