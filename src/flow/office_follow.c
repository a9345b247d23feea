/* The office's reading of the ledger: sales into the catalog, deadlines to the keeper, and, with the
 * keeper's lease, what other offices have committed. See office.h. */
#include <stdlib.h>

#include "base/err.h"
#include "flow/apply.h"
#include "flow/office_private.h"
#include "obs/log.h"

/* Sales are read again not more often, a longer reading more seldom, and not less. */
#define REFRESH_LEAST_MS 200
#define REFRESH_LEAST_MAX_MS 800
#define REFRESH_SHARE 4
#define REFRESH_MOST_MS 5000
/* Clocks of this process and of whoever sold may differ by so much: more, and they do not sell. */
#define CLOCKS_APART_MS 1000
/* Pages of events in one turn. */
#define FOLLOW_PAGES_MAX 64

/* What the keeper has to know of an event. */
void office_keep_event(struct office *office, const struct ledger_event *event)
{
    if (event->kind == EVENT_ORDER_LOCKED &&
        keeper_add(office->keeper, event->sale, event->id, event->a) != 0) {
        office->deadlines_lost = true; /* read from the ledger again when there is memory */
    }
    if (event->kind == EVENT_SALE_FORGOTTEN) {
        catalog_remove(office->catalog, event->sale);
        keeper_forget(office->keeper, event->sale);
    }
}

/* Synchronous read: at start, and after trouble. */
int office_read_now(struct office *office, struct ledger_query *query)
{
    if (ledger_read(office->ledger, query) == LEDGER_PENDING) {
        while (office->ledger->ops->collect_query(office->ledger) != query) {
        }
    }
    return query->error;
}

int office_reload_sale(struct office *office, uint64_t sale)
{
    struct sale_row *row = NULL;
    struct ledger_query query = {.kind = QUERY_SALES, .sale = sale, .limit = 1, .sales = &row};
    int error = office_read_now(office, &query);
    if (error == ERR_NOTFOUND || (error == 0 && query.count == 0)) {
        catalog_remove(office->catalog, sale); /* changed and deleted in one batch */
        return 0;
    }
    if (error != 0) {
        return error;
    }
    if (row->forgotten) {
        sale_row_free(row);
        return 0;
    }
    return catalog_put(office->catalog, row);
}

int office_load_sales(struct office *office, size_t *ret_count)
{
    struct sale_row *rows[64];
    struct ledger_query query = {.kind = QUERY_SALES, .limit = 64, .sales = rows};
    int64_t begun_ms = inside_time_ms(office->time);
    uint64_t reading = catalog_begin_reading(office->catalog);
    size_t count = 0;
    do {
        query.count = 0;
        int error = office_read_now(office, &query);
        for (uint32_t i = 0; i < query.count; i++) {
            query.after = rows[i]->id;
            if (rows[i]->forgotten) {
                catalog_remove(office->catalog, rows[i]->id); /* by another office, perhaps */
            }
            if (error != 0 || rows[i]->forgotten) {
                sale_row_free(rows[i]);
                continue;
            }
            error = catalog_put(office->catalog, rows[i]);
            count++;
        }
        if (error != 0) {
            return error;
        }
    } while (query.count == query.limit);
    atomic_store(&office->sales_as_of_ms, begun_ms);
    catalog_end_reading(office->catalog, reading);
    *ret_count = count;
    return 0;
}

bool office_forgot(struct office *office, uint64_t item, int64_t since_ms)
{
    const struct sale_row *sale = NULL;
    int64_t as_of_ms = atomic_load(&office->sales_as_of_ms); /* before the look */
    catalog_lock(office->catalog);
    bool known = catalog_item(office->catalog, item, &sale) != NULL;
    catalog_unlock(office->catalog);
    return !known && as_of_ms > since_ms + CLOCKS_APART_MS;
}

int office_refresh_sales(struct office *office, int64_t now_ms)
{
    bool asked =
        atomic_load(&office->refresh) && now_ms >= office->refreshed_ms + office->refresh_least_ms;
    size_t count = 0;
    if (!asked && now_ms < office->refreshed_ms + REFRESH_MOST_MS) {
        return 0;
    }
    atomic_store(&office->refresh,
                 false); /* before the reading: what changes meanwhile asks again */
    office->refreshed_ms = now_ms;
    int error = office_load_sales(office, &count);
    /* Whoever asks for what there is not makes it read: that must not become its main work. */
    int64_t least_ms = (inside_time_ms(office->time) - now_ms) * REFRESH_SHARE;
    office->refresh_least_ms = least_ms < REFRESH_LEAST_MS       ? REFRESH_LEAST_MS
                               : least_ms > REFRESH_LEAST_MAX_MS ? REFRESH_LEAST_MAX_MS
                                                                 : least_ms;
    return error;
}

static int load_deadlines(struct office *office)
{
    struct order_row *rows = malloc(OFFICE_PAGE * sizeof(*rows));
    if (rows == NULL) {
        return ERR_NOMEM;
    }
    struct ledger_query query = {.kind = QUERY_LOCKED, .limit = OFFICE_PAGE, .orders = rows};
    int error;
    do {
        query.count = 0;
        error = office_read_now(office, &query);
        for (uint32_t i = 0; error == 0 && i < query.count; i++) {
            error = keeper_add(office->keeper, rows[i].sale, rows[i].id, rows[i].pay_by_ms);
            query.after_item = rows[i].item;
            query.after_id = rows[i].id;
        }
    } while (error == 0 && query.count == query.limit);
    free(rows);
    return error;
}

int office_reload_deadlines(struct office *office)
{
    struct keeper *keeper = keeper_new(office->options.board_keep_ms);
    if (keeper == NULL) {
        return ERR_NOMEM;
    }
    keeper_free(office->keeper);
    office->keeper = keeper;
    return load_deadlines(office);
}

/* A page of what all offices have committed since the last time: the holder of the keeper's lease
 * has to know it. */
static int follow_page(struct office *office, struct ledger_event *events, bool *ret_more)
{
    struct ledger_query query = {.kind = QUERY_EVENTS,
                                 .segment = SEGMENT_ALL,
                                 .after = office->followed_event,
                                 .limit = OFFICE_PAGE,
                                 .events = events};
    int error = office_read_now(office, &query);
    for (uint32_t i = 0; error == 0 && i < query.count; i++) {
        if (apply_changes_catalog(events[i].kind)) {
            error = office_reload_sale(office, events[i].sale);
        }
        if (error == 0) {
            office_keep_event(office, &events[i]);
            office->followed_event = events[i].number;
        }
    }
    *ret_more = error == 0 && query.count == OFFICE_PAGE;
    return error;
}

/* An office with little to do has few turns: it must not fall behind those that book. */
static int follow(struct office *office)
{
    struct ledger_event *events = malloc(OFFICE_PAGE * sizeof(*events));
    if (events == NULL) {
        return ERR_NOMEM;
    }
    int error = 0;
    bool more = true;
    for (int page = 0; more && page < FOLLOW_PAGES_MAX; page++) {
        error = follow_page(office, events, &more);
    }
    atomic_store(&office->pending_deadlines, keeper_pending(office->keeper));
    free(events);
    return error;
}

/* Takes the keeper's lease up, or lays it down. */
int office_follow_lease(struct office *office)
{
    uint64_t token = atomic_load(&office->keeper_token);
    if (token == office->kept_token) {
        return token == 0 ? 0 : follow(office);
    }
    office->kept_token = 0;
    if (token == 0) {
        log_event(LOG_INFO, "keeper.laid_down");
        return 0;
    }
    struct ledger_query state = {.kind = QUERY_STATE};
    size_t sales = 0;
    int error = office_read_now(office, &state);
    error = error != 0 ? error : office_load_sales(office, &sales);
    error = error != 0 ? error : office_reload_deadlines(office);
    if (error == 0) {
        office->followed_event = state.last_event;
        office->kept_token = token;
        log_event(LOG_INFO, "keeper.taken_up", LOG_U64("token", token),
                  LOG_U64("unpaid_orders", keeper_pending(office->keeper)));
    }
    return error;
}
