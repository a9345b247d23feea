/* See gate_proxy.h. */
#include "distributed/gate_proxy.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "distributed/order_segment.h"
#include "distributed/refused_tickets.h"
#include "obs/log.h"

/* How long a request waits for a reading of the sales, and how many requests of a loop may wait at
 * once. Clients that make up ids must not use up the loop's requests. */
#define READING_US 2000000
#define READING_MAX 256U

struct gate_proxy {
    struct gate_port port;
    struct gate_port *gate;
    struct segment_table *segment_table;
    struct catalog *catalog;
    struct stock_cache *stock_cache;
    struct spool *spool;
    struct gate_proxy_options options;
    struct refused_tickets refused;
    struct proxy_request_pool pools[LOOPS_MAX];
};

static struct proxy_request_pool *pool_of(struct gate_proxy *proxy,
                                          const struct proxy_request *record)
{
    return &proxy->pools[record->request->loop];
}

static void move(struct gate_proxy *proxy, struct proxy_request *record,
                 enum proxy_request_state to)
{
    proxy_request_move(pool_of(proxy, record), record, to);
}

static void reserve_of(const struct gate_request *request, int64_t now_ms,
                       struct gate_command *ret_command)
{
    *ret_command = (struct gate_command){.kind = GATE_RESERVE,
                                         .now_ms = now_ms,
                                         .id = request->id,
                                         .user = request->user,
                                         .item = request->item,
                                         .qty = request->qty,
                                         .ticket_expires_ms = (uint64_t)request->ticket_expires_ms};
}

/* ---- local knowledge ---- */

/* Finds the item of a warmed sale as the ledger has it. False: there is none. */
static bool find_item_locked(struct gate_proxy *proxy, uint64_t item,
                             struct stock_cache_item *ret_item)
{
    const struct sale_row *sale = NULL;
    const struct item_row *row = catalog_item(proxy->catalog, item, &sale);
    bool found = row != NULL && sale->homes > 0;
    if (found) {
        *ret_item = (struct stock_cache_item){.view = {.item = item,
                                                       .sale = sale->id,
                                                       .total = row->total,
                                                       .available = row->available,
                                                       .locked = row->locked,
                                                       .sold = row->sold,
                                                       .limit_per_user = row->limit_per_user,
                                                       .sale_state = (uint8_t)sale->state,
                                                       .starts_at_ms = sale->starts_at_ms,
                                                       .ends_at_ms = sale->ends_at_ms},
                                              .homes = sale->homes};
    }
    return found;
}

static bool find_item(struct gate_proxy *proxy, uint64_t item, struct stock_cache_item *ret_item)
{
    catalog_lock(proxy->catalog);
    bool found = find_item_locked(proxy, item, ret_item);
    catalog_unlock(proxy->catalog);
    return found;
}

/* ---- in line ---- */

/* Shows an order that waits in line as its buyer sees it. */
static void show_in_line(const struct spool_entry *entry, struct gate_request *request)
{
    const struct gate_command *command = &entry->command;
    request->refusal = REFUSAL_NONE;
    request->has_order = true;
    request->order =
        (struct order_view){.id = command->id,
                            .user = command->user,
                            .item = command->item,
                            .qty = command->qty,
                            .state = ORDER_QUEUED,
                            .reason = entry->epoch == 0 ? REFUSAL_UNDECIDED : REFUSAL_NONE,
                            .version = 1,
                            .created_at_ms = command->now_ms,
                            .lsn = entry->lsn};
    request->held = command->qty;
    request->lsn = entry->lsn;
}

/*
 * Answers from this front's own promises without the gate: only for a buyer who waits in line here.
 * A decided order may have been booked since, and another front, or this one before a restart, may
 * have said so. is_unknown: the gate has just said that it does not know the order; then a decided
 * one is answered, too.
 */
static bool tell_own(struct gate_proxy *proxy, struct gate_request *request, bool is_unknown)
{
    struct spool_entry entry;
    if (!spool_find(proxy->spool, request->id, &entry)) {
        return false;
    }
    if (request->kind == GATE_REQUEST_BUY && entry.command.user != request->user) {
        request->refusal = REFUSAL_BAD_TICKET;
    } else if (request->kind == GATE_REQUEST_BUY && entry.command.qty != request->qty) {
        request->refusal = REFUSAL_DIFFERENT_REQUEST;
    } else if (entry.epoch != 0 && !is_unknown) {
        request->refusal =
            request->kind == GATE_REQUEST_BUY ? REFUSAL_UNKNOWN_OUTCOME : REFUSAL_DEGRADED;
    } else {
        show_in_line(&entry, request);
        request->existed = true;
    }
    return true;
}

/* What the clock and the ledger's view of the sale say about a buy, before stock is checked. */
static enum refusal window_refusal(const struct item_view *view, const struct gate_request *request)
{
    if (request->now_ms >= request->ticket_expires_ms) {
        return REFUSAL_BAD_TICKET;
    }
    if (view->sale_state == SALE_CLOSED || request->now_ms >= view->ends_at_ms) {
        return REFUSAL_ENDED;
    }
    if (view->sale_state != SALE_WARM && view->sale_state != SALE_OPEN) {
        return REFUSAL_NOT_OPEN;
    }
    return request->now_ms < view->starts_at_ms ? REFUSAL_TOO_EARLY : REFUSAL_NONE;
}

/* Whether a buy may wait in line, for a gate that is away or, with gate_is_there, behind others. It
 * may if nothing known here speaks against it. */
static enum refusal may_stand_in_line(struct gate_proxy *proxy, struct gate_request *request,
                                      bool gate_is_there)
{
    struct stock_cache_item item;
    struct stock_cache_item known;
    struct spool_numbers numbers;
    spool_count(proxy->spool, &numbers);
    if (numbers.undecided >= atomic_load(&proxy->options.runtime_limits->line) ||
        !spool_has_room(proxy->spool) || !find_item(proxy, request->item, &known)) {
        return REFUSAL_DEGRADED;
    }
    if (!stock_cache_find(proxy->stock_cache, request->item,
                          &item)) { /* nobody has looked since it was warmed */
        item = known;
        item.sold_out = known.view.available == 0;
    }
    /* Take the sale from the ledger: the stock cache does not change while the gate is away. */
    const struct item_view *view = &known.view;
    enum refusal refusal = window_refusal(view, request);
    if (refusal != REFUSAL_NONE) {
        return refusal;
    }
    if (item.sold_out && gate_is_there) {
        request->available = 0;
        request->locked = item.view.locked;
        return REFUSAL_SOLD_OUT;
    }
    if (item.sold_out) {
        return REFUSAL_DEGRADED; /* units may have come back since; the gate would know */
    }
    return view->limit_per_user != 0 && request->qty > view->limit_per_user ? REFUSAL_LIMIT_REACHED
                                                                            : REFUSAL_NONE;
}

static void stand_in_line(struct gate_proxy *proxy, struct gate_request *request,
                          bool gate_is_there)
{
    struct gate_command command;
    uint64_t lsn = 0;
    struct spool_entry entry;
    if (tell_own(proxy, request, gate_is_there)) {
        return;
    }
    if (spool_is_known(proxy->spool, request->id)) {
        request->refusal =
            REFUSAL_UNKNOWN_OUTCOME; /* its buyer has seen more than a place in line */
        return;
    }
    if (request->if_new != REFUSAL_NONE) {
        /* Without the gate nobody knows that the order is new. */
        request->refusal = gate_is_there ? request->if_new : REFUSAL_DEGRADED;
        return;
    }
    request->refusal = may_stand_in_line(proxy, request, gate_is_there);
    if (request->refusal != REFUSAL_NONE) {
        return;
    }
    reserve_of(request, request->now_ms, &command);
    if (spool_stand_in_line(proxy->spool, &command, request->segment, &lsn) != 0 ||
        !spool_find(proxy->spool, request->id, &entry)) {
        request->refusal = REFUSAL_DEGRADED;
        return;
    }
    show_in_line(&entry, request);
}

/* ---- requests that are too old ---- */

/* True: this process stood still, and the client of the buy has probably given up. It is not decided
 * any more. Its order may exist all the same: it may have been asked for before. */
static bool is_too_old(struct gate_proxy *proxy, const struct proxy_request *record)
{
    struct gate_request *request = record->request;
    if (request->kind != GATE_REQUEST_BUY ||
        clock_boot_us(proxy->options.clock) - record->since_us <= BUY_AGE_MAX_US) {
        return false;
    }
    request->refusal = REFUSAL_UNKNOWN_OUTCOME;
    return true;
}

/* Others wait in line at this segment, or a new order would be refused. The gate is asked all the
 * same whether the order exists, with an expired ticket: an existing order is answered in any case,
 * and nothing is taken. */
static void look_first(struct proxy_request *record)
{
    record->ticket_expires_ms = record->request->ticket_expires_ms;
    record->request->ticket_expires_ms = 0;
}

/* True: there is no such order, and the buy joined the line or was refused. */
static bool looked(struct gate_proxy *proxy, struct proxy_request *record)
{
    struct gate_request *request = record->request;
    request->ticket_expires_ms = record->ticket_expires_ms;
    if (request->refusal != REFUSAL_BAD_TICKET) {
        return false;
    }
    if (!is_too_old(proxy, record)) {
        stand_in_line(proxy, request, true);
    }
    return true;
}

/* ---- retries ---- */

#define ASK_AGAIN_US 20000

/* to: READING or REFILLING. */
static void wait_here(struct gate_proxy *proxy, struct proxy_request *record,
                      enum proxy_request_state to, int64_t now_us)
{
    struct proxy_request_pool *pool = pool_of(proxy, record);
    move(proxy, record, to);
    record->again_us = now_us + ASK_AGAIN_US;
    record->next = pool->waiting;
    pool->waiting = record;
}

/* No sale in the catalog has the item. True: the request waits for the next reading of the sales,
 * which may bring it. It does not ask for that reading: an id that somebody made up costs none. */
static bool waits_for_reading(struct gate_proxy *proxy, struct proxy_request *record)
{
    struct gate_request *request = record->request;
    int64_t now_us = clock_boot_us(proxy->options.clock);
    bool is_new = record->state == PROXY_REQUEST_NEW;
    if (is_new) {
        record->reading = catalog_next_reading(proxy->catalog);
        record->give_up_us = now_us + READING_US;
    }
    if (catalog_last_reading(proxy->catalog) >= record->reading) {
        request->refusal =
            request->kind == GATE_REQUEST_ORDER ? REFUSAL_NOT_FOUND : REFUSAL_NO_SUCH_ITEM;
        return false;
    }
    if (now_us >= record->give_up_us ||
        (is_new && pool_of(proxy, record)->reading >= READING_MAX)) {
        request->refusal = REFUSAL_DEGRADED;
        return false;
    }
    wait_here(proxy, record, PROXY_REQUEST_READING, now_us);
    return true;
}

/* True if units may be outside the buyer's home: there are other segments, or a segment that was
 * added since this process started has units that no segment known here has. */
static bool may_be_elsewhere(const struct gate_proxy *proxy, const struct stock_cache_item *item)
{
    return proxy->segment_table->count > 1 || item->view.available > item->most;
}

/* The home has too few units. True: other segments have, or may have,
 * enough, and the request waits. */
static bool waits_for_refill(struct gate_proxy *proxy, struct proxy_request *record)
{
    struct gate_request *request = record->request;
    struct stock_cache_item item = {0};
    int64_t now_us = clock_boot_us(proxy->options.clock);
    bool known = stock_cache_find(proxy->stock_cache, request->item, &item);
    if (!may_be_elsewhere(proxy, &item)) {
        return false;
    }
    bool sold_out = known && item.view.available == 0; /* everywhere: that goes before the limit */
    if (!sold_out && request->limit != 0 &&
        (uint64_t)request->held + request->qty > request->limit) {
        request->refusal = REFUSAL_LIMIT_REACHED; /* no unit is moved for who may not have it */
        return false;
    }
    if (known) {
        request->locked = item.view.locked > request->locked ? item.view.locked : request->locked;
    }
    if (known && item.view.available < request->qty) {
        request->available =
            item.view.available > request->available ? item.view.available : request->available;
        return false;
    }
    if (record->give_up_us == 0) {
        record->give_up_us = now_us + proxy->options.refill_ms * 1000;
    }
    if (now_us >= record->give_up_us) {
        request->refusal = REFUSAL_UNKNOWN_OUTCOME;
        return false;
    }
    if (record->refill_units == 0 &&
        refill_requests_wait(proxy->options.refill_requests, request->segment, request->item,
                             request->qty)) {
        record->refill_units = request->qty;
    }
    wait_here(proxy, record, PROXY_REQUEST_REFILLING, now_us);
    return true;
}

/* A ticket is given as long as any segment has a unit. */
static void show_all_segments(struct gate_proxy *proxy, struct gate_request *request)
{
    struct stock_cache_item item = {0};
    if (request->view.available > 0) {
        return;
    }
    bool known = stock_cache_find(proxy->stock_cache, request->item, &item);
    if (may_be_elsewhere(proxy, &item) && (known || find_item(proxy, request->item, &item))) {
        request->view.available = item.view.available;
        request->view.locked =
            item.view.locked > request->view.locked ? item.view.locked : request->view.locked;
    }
}

/* ---- the gate's answers ---- */

/* Journals a win, or an order that waits for its booking, before its 202. */
static void keep(struct gate_proxy *proxy, struct gate_request *request)
{
    struct gate_command command;
    reserve_of(request, request->order.created_at_ms, &command);
    if (request->order.state != ORDER_QUEUED) {
        return;
    }
    if (spool_accept(proxy->spool, &command, request->epoch, &request->lsn) != 0) {
        request->refusal = REFUSAL_UNKNOWN_OUTCOME;
    }
}

/* False: the gate does not know the order, but its buyer may wait
 * undecided in another front's line. */
static bool is_certain(struct gate_proxy *proxy, const struct gate_request *request)
{
    return request->refusal != REFUSAL_NOT_FOUND ||
           segment_table_settled(proxy->segment_table, request->segment,
                                 clock_boot_us(proxy->options.clock) / 1000);
}

/* A refusal of a buy that the gate, or this front, gives to an order it does not know. While the
 * segment was away, another front may have accepted the order into its line. For a while after that
 * its buyer is told that the outcome is not known, not that there is no order. */
static void doubt_refusal(struct gate_proxy *proxy, struct gate_request *request)
{
    /* More than the limit in one order is accepted nowhere. */
    bool of_unknown_order =
        request->refusal == REFUSAL_SOLD_OUT || request->refusal == REFUSAL_BARRED ||
        (request->refusal == request->if_new && request->if_new != REFUSAL_NONE) ||
        (request->refusal == REFUSAL_LIMIT_REACHED && request->qty <= request->limit);
    if (request->kind == GATE_REQUEST_BUY && of_unknown_order &&
        request->segment < proxy->segment_table->count &&
        !segment_table_settled(proxy->segment_table, request->segment,
                               clock_boot_us(proxy->options.clock) / 1000)) {
        request->refusal = REFUSAL_UNKNOWN_OUTCOME;
    }
}

/* The answer to a client if the gate did not answer. */
static const enum refusal refusal_of[] = {
    [GATE_OUTCOME_ANSWERED] = REFUSAL_NONE,
    [GATE_OUTCOME_AWAY] = REFUSAL_DEGRADED,
    [GATE_OUTCOME_FULL] = REFUSAL_OVERLOADED,
    [GATE_OUTCOME_UNKNOWN] = REFUSAL_UNKNOWN_OUTCOME,
};

/* Takes the transport's outcome from a request, notes what it says about the segment, and turns it
 * into a refusal. */
static enum gate_outcome take_outcome(struct gate_proxy *proxy, struct gate_request *request)
{
    enum gate_outcome outcome = request->outcome;
    if (outcome == GATE_OUTCOME_UNKNOWN) {
        segment_table_doubt(proxy->segment_table, request->segment);
    }
    if (outcome == GATE_OUTCOME_UNKNOWN || outcome == GATE_OUTCOME_AWAY) {
        segment_table_away(proxy->segment_table, request->segment,
                           clock_boot_us(proxy->options.clock) / 1000);
    }
    if (outcome != GATE_OUTCOME_ANSWERED) {
        request->bound = outcome == GATE_OUTCOME_FULL ? GATE_BOUND_CALLS : GATE_BOUND_NONE;
        request->refusal = refusal_of[outcome];
        request->outcome = GATE_OUTCOME_ANSWERED; /* by the proxy */
    }
    return outcome;
}

/* False: it is not answered yet, and waits. */
static bool buy_answered(struct gate_proxy *proxy, struct proxy_request *record,
                         enum gate_outcome outcome)
{
    struct gate_request *request = record->request;
    if (request->refusal == REFUSAL_NONE) {
        if (record->refill_units == 0 && !request->existed) {
            refill_requests_got(proxy->options.refill_requests, request->segment, request->item,
                                request->qty);
        }
        keep(proxy, request);
    } else if (outcome == GATE_OUTCOME_AWAY) {
        segment_table_doubt(proxy->segment_table, request->segment);
        if (!is_too_old(proxy, record)) {
            stand_in_line(proxy, request, false);
        }
    } else if (request->refusal == REFUSAL_SOLD_OUT && waits_for_refill(proxy, record)) {
        return false;
    } else if (request->refusal == REFUSAL_SOLD_OUT && request->available == 0) {
        refused_tickets_add(&proxy->refused, request);
    }
    return true;
}

static void order_answered(struct gate_proxy *proxy, struct gate_request *request,
                           enum gate_outcome outcome)
{
    struct spool_entry entry;
    bool unknown = outcome != GATE_OUTCOME_ANSWERED;
    bool forgotten = request->refusal == REFUSAL_NOT_FOUND;
    /* Promised by this front. The gate's last known decision may have been booked since, and
     * another front may have reported that. Then the promise is not shown. */
    if ((unknown || forgotten) && spool_find(proxy->spool, request->id, &entry) &&
        (forgotten || entry.epoch == 0)) {
        show_in_line(&entry, request);
    } else if (outcome == GATE_OUTCOME_UNKNOWN || !is_certain(proxy, request)) {
        request->refusal = REFUSAL_DEGRADED;
    }
}

static void ticket_answered(struct gate_proxy *proxy, struct gate_request *request)
{
    if (request->refusal != REFUSAL_NONE) {
        return;
    }
    show_all_segments(proxy, request);
    if (request->view.available == 0 && !request->has_order) {
        refused_tickets_add(&proxy->refused, request);
    }
}

/* The gate has answered, or will not. False: the request is not answered yet, and waits. */
static bool answered(struct gate_proxy *proxy, struct proxy_request *record)
{
    struct gate_request *request = record->request;
    enum gate_outcome outcome = take_outcome(proxy, request);
    if (record->state == PROXY_REQUEST_LOOKING && looked(proxy, record)) {
        return true;
    }
    if (request->kind != GATE_REQUEST_TICKET && request->refusal == REFUSAL_NONE &&
        request->has_order && request->order.state != ORDER_QUEUED) {
        /* The ledger knew it first. From now on this front reports no earlier state. */
        spool_resolve(proxy->spool, request->order.id);
    }
    switch (request->kind) {
    case GATE_REQUEST_BUY:
        return buy_answered(proxy, record, outcome);
    case GATE_REQUEST_ORDER:
        order_answered(proxy, request, outcome);
        break;
    case GATE_REQUEST_TICKET:
        ticket_answered(proxy, request);
        break;
    case GATE_REQUEST_ITEM:
        break;
    }
    return true;
}

/* ---- requests ---- */

/* True: it is answered. False: it waits. So with the others below. */
static bool ask_item(struct gate_proxy *proxy, struct proxy_request *record)
{
    struct gate_request *request = record->request;
    struct stock_cache_item item;
    /* Just warmed and not refreshed yet: use the ledger's numbers. */
    if (stock_cache_find(proxy->stock_cache, request->item, &item) ||
        (request->catalog_locked ? find_item_locked(proxy, request->item, &item)
                                 : find_item(proxy, request->item, &item))) {
        request->view = item.view;
        return true;
    }
    request->refusal = REFUSAL_NO_SUCH_ITEM;
    return !request->may_wait || !waits_for_reading(proxy, record);
}

/* Finds the segment to ask and the number of the sale's homes. False: no sale here has the item. */
static bool find_home(struct gate_proxy *proxy, struct gate_request *request, uint32_t *ret_homes)
{
    struct order_segment at;
    uint64_t item =
        request->kind == GATE_REQUEST_ORDER ? order_id_item(request->id) : request->item;
    bool found = request->kind == GATE_REQUEST_TICKET
                     ? order_segment_home(proxy->catalog, item, request->user, &at)
                     : order_segment_find(proxy->catalog, item, request->id, &at);
    if (found) {
        request->segment = at.segment;
        *ret_homes = at.homes;
    }
    return found;
}

/* True: send it to request->segment. */
static bool find_segment(struct gate_proxy *proxy, struct gate_request *request, uint32_t homes)
{
    if (request->segment >= proxy->segment_table->count) {
        /* A made-up id, or a segment that was added since this process started. */
        request->refusal = request->segment < homes              ? REFUSAL_DEGRADED
                           : request->kind == GATE_REQUEST_ORDER ? REFUSAL_NOT_FOUND
                                                                 : REFUSAL_NO_SUCH_ITEM;
        return false;
    }
    request->epoch = segment_table_epoch(proxy->segment_table, request->segment);
    return true;
}

/* True if a remembered "sold out" still holds. Conditions that rank before it may have
 * changed: the ticket's expiry and the sale's times. Another loop may also have won with this
 * ticket. Then the gate is asked. */
static bool is_still_refused(struct gate_proxy *proxy, const struct gate_request *request,
                             struct stock_cache_item *ret_item)
{
    struct stock_cache_item known;
    struct spool_entry entry;
    return refused_tickets_find(&proxy->refused, request, ret_item) &&
           find_item(proxy, request->item, &known) &&
           window_refusal(&known.view, request) == REFUSAL_NONE &&
           !spool_find(proxy->spool, request->id, &entry) &&
           !spool_is_known(proxy->spool, request->id);
}

/* A ticket for a sold-out item is refused here, unless its buyer may have an order to show, which
 * is possible if the limit is one. The gate is asked once for a buyer who has none. */
static bool ticket_is_answered(struct gate_proxy *proxy, struct gate_request *request)
{
    struct stock_cache_item item;
    bool sold_out = stock_cache_find(proxy->stock_cache, request->item, &item) && item.sold_out;
    if (!sold_out ||
        (item.view.limit_per_user == 1 && !refused_tickets_find(&proxy->refused, request, &item))) {
        return false;
    }
    request->view = item.view;
    request->limit = item.view.limit_per_user;
    return true;
}

/* Answers a buy without the gate, if that is possible. */
static bool buy_is_answered(struct gate_proxy *proxy, struct gate_request *request)
{
    struct stock_cache_item item;
    if (is_still_refused(proxy, request, &item)) {
        request->refusal = request->if_new != REFUSAL_NONE ? request->if_new : REFUSAL_SOLD_OUT;
        request->available = 0;
        request->locked = item.view.locked;
        return true;
    }
    if (!spool_has_room(proxy->spool) || atomic_load(&proxy->segment_table->clock_is_off)) {
        if (!tell_own(proxy, request, false)) {
            request->refusal = REFUSAL_DEGRADED;
        }
        return true;
    }
    return false;
}

/* Sends it to the gate. to: ASKED or LOOKING. */
static bool ask(struct gate_proxy *proxy, struct proxy_request *record, enum proxy_request_state to)
{
    move(proxy, record, to);
    return gate_submit(proxy->gate, record->request) == GATE_ANSWERED && answered(proxy, record);
}

/* Starts a request, for the first time or after a reading of the sales. */
static bool begin(struct gate_proxy *proxy, struct proxy_request *record)
{
    struct gate_request *request = record->request;
    uint32_t homes = 0;
    if (request->kind == GATE_REQUEST_ITEM) {
        return ask_item(proxy, record);
    }
    bool found = find_home(proxy, request, &homes);
    if (!found || !find_segment(proxy, request, homes)) {
        /* It waits in line here, whatever the catalog says. */
        if (request->kind != GATE_REQUEST_TICKET && tell_own(proxy, request, false)) {
            return true;
        }
        return found || !waits_for_reading(proxy, record);
    }
    if ((request->kind == GATE_REQUEST_BUY && buy_is_answered(proxy, request)) ||
        (request->kind == GATE_REQUEST_TICKET && ticket_is_answered(proxy, request))) {
        return true;
    }
    record->give_up_us = 0;
    if (request->kind == GATE_REQUEST_BUY &&
        (request->if_new != REFUSAL_NONE || spool_before(proxy->spool, request->segment) > 0)) {
        look_first(record);
        return ask(proxy, record, PROXY_REQUEST_LOOKING);
    }
    return ask(proxy, record, PROXY_REQUEST_ASKED);
}

/* One line a second for each bound. */
static void log_full(const struct gate_request *request)
{
    static struct log_limit limits[GATE_BOUND_COUNT];
    log_event_limited(&limits[request->bound], 1000, LOG_WARN, "gate.full",
                      LOG_STR("bound", gate_bound_text(request->bound)),
                      LOG_U64("segment", request->segment), LOG_U64("item", request->item),
                      LOG_U64("user", request->user));
}

static void finish(struct gate_proxy *proxy, struct proxy_request *record)
{
    const struct gate_request *request = record->request;
    if (request->refusal == REFUSAL_OVERLOADED && request->bound != GATE_BOUND_NONE) {
        log_full(request);
    }
    if (record->refill_units > 0) {
        refill_requests_leave(proxy->options.refill_requests, request->segment, request->item,
                              record->refill_units, request->refusal == REFUSAL_NONE);
    }
    doubt_refusal(proxy, record->request);
    move(proxy, record, PROXY_REQUEST_ANSWERED);
    proxy_request_return(pool_of(proxy, record), record);
}

static enum gate_submitted submit(struct gate_port *port, struct gate_request *request)
{
    struct gate_proxy *proxy = (struct gate_proxy *)port;
    struct proxy_request *record = proxy_request_take(&proxy->pools[request->loop], request);
    if (request->kind == GATE_REQUEST_BUY) {
        record->since_us = clock_boot_us(proxy->options.clock);
    }
    if (!begin(proxy, record)) {
        return GATE_PENDING;
    }
    finish(proxy, record);
    return GATE_ANSWERED;
}

static bool is_answered_again(struct gate_proxy *proxy, struct proxy_request *record)
{
    record->request->refusal = REFUSAL_NONE;
    record->request->bound = GATE_BOUND_NONE;
    if (is_too_old(proxy, record)) {
        move(proxy, record, PROXY_REQUEST_ASKED); /* only as a state: nobody is asked */
        return true;
    }
    return record->state == PROXY_REQUEST_READING ? begin(proxy, record)
                                                  : ask(proxy, record, PROXY_REQUEST_ASKED);
}

/* Retries the requests that are due. Those that are answered at once are put in front of
 * `first`. */
static struct gate_request *ask_again(struct gate_proxy *proxy, uint32_t loop,
                                      struct gate_request *first)
{
    struct proxy_request_pool *pool = &proxy->pools[loop];
    struct proxy_request *waiting = pool->waiting;
    int64_t now_us = waiting != NULL ? clock_boot_us(proxy->options.clock) : 0;
    pool->waiting = NULL;
    while (waiting != NULL) {
        struct proxy_request *record = waiting;
        struct gate_request *request = record->request;
        waiting = record->next;
        if (record->again_us > now_us) {
            record->next = pool->waiting;
            pool->waiting = record;
        } else if (is_answered_again(proxy, record)) {
            finish(proxy, record);
            request->next = first;
            first = request;
        }
    }
    return first;
}

static struct gate_request *collect(struct gate_port *port, uint32_t loop)
{
    struct gate_proxy *proxy = (struct gate_proxy *)port;
    struct gate_request *first = NULL;
    struct gate_request **last = &first;
    struct gate_request *request = gate_collect(proxy->gate, loop);
    while (request != NULL) {
        struct gate_request *next = request->next;
        struct proxy_request *record = request->record;
        if (answered(proxy, record)) {
            finish(proxy, record);
            *last = request;
            last = &request->next;
        }
        request = next;
    }
    *last = NULL;
    return ask_again(proxy, loop, first);
}

static int64_t flush(struct gate_port *port, uint32_t loop)
{
    struct gate_proxy *proxy = (struct gate_proxy *)port;
    int64_t next_us = gate_flush(proxy->gate, loop);
    for (const struct proxy_request *record = proxy->pools[loop].waiting; record != NULL;
         record = record->next) {
        next_us = record->again_us < next_us ? record->again_us : next_us;
    }
    return next_us;
}

static void place(struct gate_port *port, uint32_t segment, uint64_t epoch)
{
    gate_place(((struct gate_proxy *)port)->gate, segment, epoch);
}

static const struct gate_ops ops = {submit, collect, flush, place};

/* ---- life ---- */

int gate_proxy_new(struct gate_port *gate, struct segment_table *segment_table,
                   struct catalog *catalog, struct stock_cache *stock_cache, struct spool *spool,
                   struct gate_proxy_options options, struct gate_proxy **ret_remote)
{
    struct gate_proxy *proxy = calloc(1, sizeof(*proxy));
    if (proxy == NULL) {
        return ERR_NOMEM;
    }
    int error = refused_tickets_init(&proxy->refused, options.loops, stock_cache);
    for (uint32_t i = 0; error == 0 && i < options.loops; i++) {
        error = proxy_request_pool_init(&proxy->pools[i], options.requests);
    }
    if (error != 0) {
        gate_proxy_free(proxy);
        return error;
    }
    proxy->port.ops = &ops;
    proxy->gate = gate;
    proxy->segment_table = segment_table;
    proxy->catalog = catalog;
    proxy->stock_cache = stock_cache;
    proxy->spool = spool;
    proxy->options = options;
    *ret_remote = proxy;
    return 0;
}

void gate_proxy_free(struct gate_proxy *proxy)
{
    if (proxy == NULL) {
        return;
    }
    for (uint32_t i = 0; i < LOOPS_MAX; i++) {
        proxy_request_pool_done(&proxy->pools[i]);
    }
    refused_tickets_done(&proxy->refused);
    free(proxy);
}

struct gate_port *gate_proxy_port(struct gate_proxy *proxy)
{
    return &proxy->port;
}
