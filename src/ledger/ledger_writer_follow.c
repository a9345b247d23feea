/* How the ledger writer reads the ledger: sales into the catalog, deadlines into the deadline
 * scheduler, and, with the keeper's lease, the events that other ledger writers have
 * committed. See ledger_writer.h. */
#include <stdlib.h>

#include "base/err.h"
#include "ledger/event_effects.h"
#include "ledger/ledger_writer_private.h"
#include "obs/log.h"

/* Time between two readings of the sales that changed: after news of a change, and without news,
 * which may be lost. A reading that finds nothing costs one statement. */
#define REFRESH_LEAST_MS 100
#define REFRESH_MOST_MS 1000
/* The clocks of this process and of a front that sold differ by less than this;
 * otherwise they would not sell. */
#define CLOCKS_APART_MS 1000
/* Pages of events read in one iteration. */
#define FOLLOW_PAGES_MAX 64

/* Passes an event on to the deadline scheduler and the catalog. */
void ledger_writer_keep_event(struct ledger_writer *writer, const struct ledger_event *event)
{
    if (event->kind == EVENT_ORDER_LOCKED &&
        deadline_scheduler_add(writer->deadlines, event->sale, event->id, event->a) != 0) {
        writer->deadlines_lost = true; /* read from the ledger again when there is memory */
    }
    if (event->kind == EVENT_SALE_FORGOTTEN) {
        catalog_remove(writer->catalog, event->sale);
        deadline_scheduler_forget(writer->deadlines, event->sale);
    }
}

int ledger_writer_reload_sale(struct ledger_writer *writer, uint64_t sale)
{
    struct sale_row *row = NULL;
    struct ledger_query query = {.kind = QUERY_SALES, .sale = sale, .limit = 1, .sales = &row};
    int error = ledger_read(writer->ledger, &query);
    if (error == ERR_NOTFOUND || (error == 0 && query.count == 0)) {
        catalog_remove(writer->catalog, sale); /* changed and deleted in one batch */
        return 0;
    }
    if (error != 0) {
        return error;
    }
    if (row->forgotten) {
        sale_row_free(row);
        return 0;
    }
    return catalog_put(writer->catalog, row);
}

/* One page of the sales that changed since the last one that the catalog shows. */
static int load_page(struct ledger_writer *writer, struct ledger_query *query, size_t *count)
{
    query->count = 0;
    query->after = writer->sale_change;
    int error = ledger_read(writer->ledger, query);
    for (uint32_t i = 0; error == 0 && i < query->count; i++) {
        const struct sale_change_row *change = &query->changes[i];
        if (change->gone) {
            catalog_remove(writer->catalog, change->sale);
        } else {
            error = ledger_writer_reload_sale(writer, change->sale);
            (*count)++;
        }
        if (error == 0) {
            writer->sale_change = change->number;
        }
    }
    return error;
}

int ledger_writer_load_sales(struct ledger_writer *writer, size_t *ret_count)
{
    struct sale_change_row changes[64];
    struct ledger_query query = {.kind = QUERY_SALE_CHANGES, .limit = 64, .changes = changes};
    int64_t begun_ms = inside_time_ms(writer->time);
    uint64_t reading = catalog_begin_reading(writer->catalog);
    *ret_count = 0;
    do {
        int error = load_page(writer, &query, ret_count);
        if (error != 0) {
            return error;
        }
    } while (query.count == query.limit);
    atomic_store(&writer->sales_as_of_ms, begun_ms);
    catalog_end_reading(writer->catalog, reading);
    return 0;
}

bool ledger_writer_forgot(struct ledger_writer *writer, uint64_t item, int64_t since_ms)
{
    const struct sale_row *sale = NULL;
    int64_t as_of_ms = atomic_load(&writer->sales_as_of_ms); /* before the look */
    catalog_lock(writer->catalog);
    bool known = catalog_item(writer->catalog, item, &sale) != NULL;
    catalog_unlock(writer->catalog);
    return !known && as_of_ms > since_ms + CLOCKS_APART_MS;
}

int ledger_writer_refresh_sales(struct ledger_writer *writer, int64_t now_ms)
{
    int64_t pause_ms = atomic_load(&writer->refresh) ? REFRESH_LEAST_MS : REFRESH_MOST_MS;
    size_t count = 0;
    if (now_ms < writer->refreshed_ms + pause_ms) {
        return 0;
    }
    atomic_store(&writer->refresh,
                 false); /* before the reading: what changes meanwhile asks again */
    writer->refreshed_ms = now_ms;
    int error = ledger_writer_load_sales(writer, &count);
    return error != 0 ? error : ledger_writer_load_blocks(writer);
}

static int load_deadlines(struct ledger_writer *writer)
{
    struct order_row *rows = malloc(LEDGER_WRITER_PAGE * sizeof(*rows));
    if (rows == NULL) {
        return ERR_NOMEM;
    }
    struct ledger_query query = {.kind = QUERY_LOCKED, .limit = LEDGER_WRITER_PAGE, .orders = rows};
    int error;
    do {
        query.count = 0;
        error = ledger_read(writer->ledger, &query);
        for (uint32_t i = 0; error == 0 && i < query.count; i++) {
            error = deadline_scheduler_add(writer->deadlines, rows[i].sale, rows[i].id,
                                           rows[i].pay_by_ms);
            query.after_item = rows[i].item;
            query.after_id = rows[i].id;
        }
    } while (error == 0 && query.count == query.limit);
    free(rows);
    return error;
}

int ledger_writer_reload_deadlines(struct ledger_writer *writer)
{
    struct deadline_scheduler *deadlines = deadline_scheduler_new(writer->options.board_keep_ms);
    if (deadlines == NULL) {
        return ERR_NOMEM;
    }
    deadline_scheduler_free(writer->deadlines);
    writer->deadlines = deadlines;
    return load_deadlines(writer);
}

/* Reads one page of the events that all ledger writers have committed since the last call, for the
 * holder of the keeper's lease. */
static int follow_page(struct ledger_writer *writer, struct ledger_event *events, bool *ret_more)
{
    struct ledger_query query = {.kind = QUERY_EVENTS,
                                 .segment = SEGMENT_ALL,
                                 .after = writer->followed_event,
                                 .limit = LEDGER_WRITER_PAGE,
                                 .events = events};
    int error = ledger_read(writer->ledger, &query);
    for (uint32_t i = 0; error == 0 && i < query.count; i++) {
        if (event_effects_catalog(events[i].kind)) {
            error = ledger_writer_reload_sale(writer, events[i].sale);
        }
        if (error == 0) {
            ledger_writer_keep_event(writer, &events[i]);
            writer->followed_event = events[i].number;
        }
    }
    *ret_more = error == 0 && query.count == LEDGER_WRITER_PAGE;
    return error;
}

/* An idle ledger writer iterates rarely, but must not fall behind those that book. */
static int follow(struct ledger_writer *writer)
{
    struct ledger_event *events = malloc(LEDGER_WRITER_PAGE * sizeof(*events));
    if (events == NULL) {
        return ERR_NOMEM;
    }
    int error = 0;
    bool more = true;
    for (int page = 0; more && page < FOLLOW_PAGES_MAX; page++) {
        error = follow_page(writer, events, &more);
    }
    atomic_store(&writer->pending_deadlines, deadline_scheduler_pending(writer->deadlines));
    free(events);
    return error;
}

/* Takes over the keeper's lease, or gives it up. */
int ledger_writer_follow_lease(struct ledger_writer *writer)
{
    uint64_t token = atomic_load(&writer->keeper_token);
    if (token == writer->kept_token) {
        return token == 0 ? 0 : follow(writer);
    }
    writer->kept_token = 0;
    if (token == 0) {
        log_event(LOG_INFO, "keeper.laid_down");
        return 0;
    }
    struct ledger_query state = {.kind = QUERY_STATE};
    size_t sales = 0;
    int error = ledger_read(writer->ledger, &state);
    error = error != 0 ? error : ledger_writer_load_sales(writer, &sales);
    error = error != 0 ? error : ledger_writer_reload_deadlines(writer);
    if (error == 0) {
        writer->followed_event = state.last_event;
        writer->kept_token = token;
        log_event(LOG_INFO, "keeper.taken_up", LOG_U64("token", token),
                  LOG_U64("unpaid_orders", deadline_scheduler_pending(writer->deadlines)));
    }
    return error;
}
