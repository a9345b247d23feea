/* See gate_proxy.h. */
#include "flow/gate_proxy.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"

/* Tickets, and buyers who have none, that a loop remembers to have met "sold out": 1.5 MiB. A power of
 * two. */
#define REFUSED_MAX 65536U

/* How long an ask waits for a reading of the sales, and how many of a loop wait at once: who makes
 * ids up must not use up the loop's asks. */
#define READING_US 2000000
#define READING_MAX 256U

/* A ticket that was refused while its item was sold out, or a buyer who has no order of it, and how
 * often it had been refilled. */
struct refused {
    struct order_id id;
    uint64_t refills;
};

struct gate_proxy {
    struct gate_port port;
    struct gate_port *gate;
    struct segment_table *segment_table;
    struct catalog *catalog;
    struct stock_cache *stock_cache;
    struct spool *spool;
    struct gate_proxy_options options;
    struct refused *refused;                 /* REFUSED_MAX for each loop */
    struct gate_request *waiting[LOOPS_MAX]; /* for a refill or a reading, to be asked again */
    uint32_t readers[LOOPS_MAX];             /* of these, for a reading */
};

uint32_t gate_proxy_segment(struct order_id id, const struct sale_row *sale)
{
    return order_id_kind(id) == ORDER_ONCE
               ? regions_home(&sale->regions, order_id_user(id), sale->homes)
               : order_id_segment(id);
}

/* Of a buyer who asks for a ticket: an id that no ticket has. */
static struct order_id memory_id(const struct gate_request *request)
{
    return request->kind == GATE_REQUEST_TICKET
               ? order_id_once(request->item, request->user, BUYER_FAILED_ATTEMPTS_MAX + 1)
               : request->id;
}

static struct refused *refused_of(struct gate_proxy *proxy, const struct gate_request *request)
{
    struct order_id id = memory_id(request);
    uint64_t h = (id.hi ^ id.lo * 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
    return &proxy->refused[(size_t)request->loop * REFUSED_MAX + ((h >> 32) & (REFUSED_MAX - 1))];
}

static void remember(struct gate_proxy *proxy, const struct gate_request *request)
{
    struct stock_cache_item item;
    if (stock_cache_find(proxy->stock_cache, request->item, &item) && item.sold_out) {
        *refused_of(proxy, request) = (struct refused){memory_id(request), item.refills};
    }
}

/* It met "sold out" here, and nothing has come back since. */
static bool is_remembered(struct gate_proxy *proxy, const struct gate_request *request,
                          struct stock_cache_item *ret_item)
{
    const struct refused *refused = refused_of(proxy, request);
    return order_id_equal(refused->id, memory_id(request)) &&
           stock_cache_find(proxy->stock_cache, request->item, ret_item) && ret_item->sold_out &&
           refused->refills == ret_item->refills;
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

/* ---- what is known here ---- */

/* A warmed sale's item as the ledger has it; false: there is none. */
static bool find_item(struct gate_proxy *proxy, uint64_t item, struct stock_cache_item *ret_item)
{
    const struct sale_row *sale = NULL;
    catalog_lock(proxy->catalog);
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
    catalog_unlock(proxy->catalog);
    return found;
}

/* ---- in line ---- */

/* An order that stands in line, as its buyer sees it. */
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

/* What this front has promised itself it can tell without the gate: of who stands in line here. What
 * was decided may have been booked since, and told by another front or before a restart of this one;
 * unless the gate has just said that it knows no such order (is_unknown). */
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

/* What the clock, and the sale as the ledger has it, say of a buy, before stock is looked at. */
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

/* Whether a buy may wait for a gate that is away, or behind others (gate_is_there): everything that
 * can be known here says yes. */
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
    /* The ledger's word on the sale: the stock cache stands still while the gate is away. */
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

/* Others stand before this segment's gate. Whether there is such an order is asked all the same,
 * with a ticket that is over: an order is answered whatever else, and nothing is taken. */
static void look_first(struct gate_request *request)
{
    request->looks_first = true;
    request->expires_ms = request->ticket_expires_ms;
    request->ticket_expires_ms = 0;
}

/* True: there is no such order, and the buy has joined the line, or was refused. */
static bool looked(struct gate_proxy *proxy, struct gate_request *request)
{
    request->looks_first = false;
    request->ticket_expires_ms = request->expires_ms;
    if (request->refusal != REFUSAL_BAD_TICKET) {
        return false;
    }
    stand_in_line(proxy, request, true);
    return true;
}

/* ---- asked again ---- */

#define ASK_AGAIN_US 20000

static void wait_here(struct gate_proxy *proxy, struct gate_request *request, int64_t now_us)
{
    request->again_us = now_us + ASK_AGAIN_US;
    request->next = proxy->waiting[request->loop];
    proxy->waiting[request->loop] = request;
}

/* No sale in the catalog has the item. True: it waits for a reading that may bring it. */
static bool waits_for_reading(struct gate_proxy *proxy, struct gate_request *request)
{
    int64_t now_us = clock_boot_us(proxy->options.clock);
    if (request->reading == 0) {
        request->reading = catalog_next_reading(proxy->catalog);
        request->give_up_us = now_us + READING_US;
        proxy->options.read_sales(proxy->options.context);
    }
    if (catalog_last_reading(proxy->catalog) >= request->reading) {
        request->refusal =
            request->kind == GATE_REQUEST_ORDER ? REFUSAL_NOT_FOUND : REFUSAL_NO_SUCH_ITEM;
        return false;
    }
    if (now_us >= request->give_up_us || proxy->readers[request->loop] >= READING_MAX) {
        request->refusal = REFUSAL_DEGRADED;
        return false;
    }
    proxy->readers[request->loop]++;
    wait_here(proxy, request, now_us);
    return true;
}

/* Units may be elsewhere than at the buyer's home: there are other segments, or, of one that was added
 * since this process began, units that no segment it asks has. */
static bool may_be_elsewhere(const struct gate_proxy *proxy, const struct stock_cache_item *item)
{
    return proxy->segment_table->count > 1 || item->view.available > item->most;
}

/* The home has too little. True: other segments have, or may have, enough; the ask waits. */
static bool waits_for_refill(struct gate_proxy *proxy, struct gate_request *request)
{
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
    if (request->give_up_us == 0) {
        request->give_up_us = now_us + proxy->options.refill_ms * 1000;
    }
    if (now_us >= request->give_up_us) {
        request->refusal = REFUSAL_UNKNOWN_OUTCOME;
        return false;
    }
    refill_requests_add(proxy->options.refill_requests, request->segment, request->item,
                        request->qty);
    wait_here(proxy, request, now_us);
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

/* ---- answers of the gate ---- */

/* A win, or an order that waits for its booking: in this front's journal before its 202. */
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

/* False: the gate does not know the order, and that may be because its buyer stands in another front's
 * line, not decided yet. */
static bool is_certain(struct gate_proxy *proxy, const struct gate_request *request)
{
    return request->refusal != REFUSAL_NOT_FOUND ||
           segment_table_settled(proxy->segment_table, request->segment,
                                 clock_boot_us(proxy->options.clock) / 1000);
}

/* False: it is not answered after all, and waits. */
static bool answered(struct gate_proxy *proxy, struct gate_request *request)
{
    if (request->looks_first && looked(proxy, request)) {
        return true;
    }
    if (request->refusal == REFUSAL_UNKNOWN_OUTCOME) {
        segment_table_doubt(proxy->segment_table, request->segment);
    }
    if (request->refusal == REFUSAL_UNKNOWN_OUTCOME || request->refusal == REFUSAL_DEGRADED) {
        segment_table_away(proxy->segment_table, request->segment,
                           clock_boot_us(proxy->options.clock) / 1000);
    }
    if (request->kind != GATE_REQUEST_TICKET && request->refusal == REFUSAL_NONE &&
        request->has_order && request->order.state != ORDER_QUEUED) {
        /* The ledger said so first; from here on nobody is told less here. */
        spool_resolve(proxy->spool, request->order.id);
    }
    switch (request->kind) {
    case GATE_REQUEST_BUY:
        if (request->refusal == REFUSAL_NONE) {
            keep(proxy, request);
        } else if (request->refusal == REFUSAL_DEGRADED) {
            segment_table_doubt(proxy->segment_table, request->segment);
            stand_in_line(proxy, request, false);
        } else if (request->refusal == REFUSAL_SOLD_OUT && waits_for_refill(proxy, request)) {
            return false;
        } else if (request->refusal == REFUSAL_SOLD_OUT && request->available == 0) {
            remember(proxy, request);
        }
        break;
    case GATE_REQUEST_ORDER: {
        struct spool_entry entry;
        bool unknown = request->refusal == REFUSAL_DEGRADED ||
                       request->refusal == REFUSAL_OVERLOADED ||
                       request->refusal == REFUSAL_UNKNOWN_OUTCOME;
        bool forgotten = request->refusal == REFUSAL_NOT_FOUND;
        /* Promised here. What the gate had decided when it could be asked last may have been booked
         * since, and another front may have told so: then nothing is told. */
        if ((unknown || forgotten) && spool_find(proxy->spool, request->id, &entry) &&
            (forgotten || entry.epoch == 0)) {
            show_in_line(&entry, request);
        } else if (request->refusal == REFUSAL_UNKNOWN_OUTCOME || !is_certain(proxy, request)) {
            request->refusal = REFUSAL_DEGRADED;
        }
        break;
    }
    case GATE_REQUEST_TICKET:
        if (request->refusal == REFUSAL_NONE) {
            show_all_segments(proxy, request);
        }
        if (request->refusal == REFUSAL_NONE && request->view.available == 0 &&
            !request->has_order) {
            remember(proxy, request);
        }
        break;
    case GATE_REQUEST_ITEM:
        break;
    }
    return true;
}

/* ---- asks ---- */

static enum gate_submitted ask_item(struct gate_proxy *proxy, struct gate_request *request)
{
    struct stock_cache_item item;
    /* Just warmed, and not looked at yet: as the ledger has it. */
    if (stock_cache_find(proxy->stock_cache, request->item, &item) ||
        find_item(proxy, request->item, &item)) {
        request->view = item.view;
        return GATE_ANSWERED;
    }
    request->refusal = REFUSAL_NO_SUCH_ITEM;
    return request->may_wait && waits_for_reading(proxy, request) ? GATE_PENDING : GATE_ANSWERED;
}

/* The segment to be asked, and how many its sale has as homes. False: no sale here has the item. */
static bool find_home(struct gate_proxy *proxy, struct gate_request *request, uint32_t *ret_homes)
{
    const struct sale_row *sale = NULL;
    uint64_t id = request->kind == GATE_REQUEST_ORDER ? order_id_item(request->id) : request->item;
    catalog_lock(proxy->catalog);
    bool found = catalog_item(proxy->catalog, id, &sale) != NULL && sale->homes > 0;
    if (found) {
        request->segment = request->kind == GATE_REQUEST_TICKET
                               ? regions_home(&sale->regions, request->user, sale->homes)
                               : gate_proxy_segment(request->id, sale);
        *ret_homes = sale->homes;
    }
    catalog_unlock(proxy->catalog);
    return found;
}

/* True: it is to be asked, at ask->segment. */
static bool find_segment(struct gate_proxy *proxy, struct gate_request *request, uint32_t homes)
{
    if (request->segment >= proxy->segment_table->count) {
        /* Of an id that somebody made up; or of a segment that was added since this process began. */
        request->refusal = request->segment < homes              ? REFUSAL_DEGRADED
                           : request->kind == GATE_REQUEST_ORDER ? REFUSAL_NOT_FOUND
                                                                 : REFUSAL_NO_SUCH_ITEM;
        return false;
    }
    request->epoch = segment_table_epoch(proxy->segment_table, request->segment);
    return true;
}

/* What goes before "sold out" may have changed: the ticket's time and the sale's; and another loop may
 * have won with it. Then the gate is asked. */
static bool is_still_refused(struct gate_proxy *proxy, const struct gate_request *request,
                             struct stock_cache_item *ret_item)
{
    struct stock_cache_item known;
    struct spool_entry entry;
    return is_remembered(proxy, request, ret_item) && find_item(proxy, request->item, &known) &&
           window_refusal(&known.view, request) == REFUSAL_NONE &&
           !spool_find(proxy->spool, request->id, &entry) &&
           !spool_is_known(proxy->spool, request->id);
}

/* A ticket for what is sold out: refused, unless its buyer has an order to be shown, as he may where
 * one is all he can have. Who has none is asked for once. */
static bool ticket_is_answered(struct gate_proxy *proxy, struct gate_request *request)
{
    struct stock_cache_item item;
    bool sold_out = stock_cache_find(proxy->stock_cache, request->item, &item) && item.sold_out;
    if (!sold_out || (item.view.limit_per_user == 1 && !is_remembered(proxy, request, &item))) {
        return false;
    }
    request->view = item.view;
    request->limit = item.view.limit_per_user;
    return true;
}

/* A buy that can be answered without the gate. */
static bool buy_is_answered(struct gate_proxy *proxy, struct gate_request *request)
{
    struct stock_cache_item item;
    if (is_still_refused(proxy, request, &item)) {
        request->refusal = REFUSAL_SOLD_OUT;
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

/* From the beginning, for the first time or after a reading of the sales. */
static enum gate_submitted begin(struct gate_proxy *proxy, struct gate_request *request)
{
    uint32_t homes = 0;
    if (request->kind == GATE_REQUEST_ITEM) {
        return ask_item(proxy, request);
    }
    bool found = find_home(proxy, request, &homes);
    if (!found || !find_segment(proxy, request, homes)) {
        /* In line here, whatever is in the catalog. */
        if (request->kind != GATE_REQUEST_TICKET && tell_own(proxy, request, false)) {
            return GATE_ANSWERED;
        }
        return !found && waits_for_reading(proxy, request) ? GATE_PENDING : GATE_ANSWERED;
    }
    request->reading = 0;
    if ((request->kind == GATE_REQUEST_BUY && buy_is_answered(proxy, request)) ||
        (request->kind == GATE_REQUEST_TICKET && ticket_is_answered(proxy, request))) {
        return GATE_ANSWERED;
    }
    request->give_up_us = 0;
    request->looks_first = false;
    if (request->kind == GATE_REQUEST_BUY && spool_before(proxy->spool, request->segment) > 0) {
        look_first(request);
    }
    if (gate_submit(proxy->gate, request) == GATE_PENDING || !answered(proxy, request)) {
        return GATE_PENDING;
    }
    return GATE_ANSWERED;
}

static enum gate_submitted submit(struct gate_port *port, struct gate_request *request)
{
    struct gate_proxy *proxy = (struct gate_proxy *)port;
    request->refusal = REFUSAL_NONE;
    request->existed = false;
    request->has_order = false;
    request->held = 0;
    request->attempt = 0;
    request->barred = false;
    request->lsn = 0;
    request->reading = 0;
    return begin(proxy, request);
}

static bool is_answered_again(struct gate_proxy *proxy, struct gate_request *request)
{
    request->refusal = REFUSAL_NONE;
    if (request->reading != 0) {
        proxy->readers[request->loop]--;
        return begin(proxy, request) == GATE_ANSWERED;
    }
    return gate_submit(proxy->gate, request) == GATE_ANSWERED && answered(proxy, request);
}

/* Asks those again whose time has come; the ones that were answered at once are put before `first`. */
static struct gate_request *ask_again(struct gate_proxy *proxy, uint32_t loop,
                                      struct gate_request *first)
{
    struct gate_request *waiting = proxy->waiting[loop];
    int64_t now_us = waiting != NULL ? clock_boot_us(proxy->options.clock) : 0;
    proxy->waiting[loop] = NULL;
    while (waiting != NULL) {
        struct gate_request *request = waiting;
        waiting = request->next;
        if (request->again_us > now_us) {
            request->next = proxy->waiting[loop];
            proxy->waiting[loop] = request;
        } else if (is_answered_again(proxy, request)) {
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
        if (answered(proxy, request)) {
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
    for (const struct gate_request *request = proxy->waiting[loop]; request != NULL;
         request = request->next) {
        next_us = request->again_us < next_us ? request->again_us : next_us;
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
    struct refused *refused = calloc((size_t)options.loops * REFUSED_MAX, sizeof(*refused));
    if (proxy == NULL || refused == NULL) {
        free(proxy);
        free(refused);
        return ERR_NOMEM;
    }
    proxy->port.ops = &ops;
    proxy->gate = gate;
    proxy->segment_table = segment_table;
    proxy->catalog = catalog;
    proxy->stock_cache = stock_cache;
    proxy->spool = spool;
    proxy->options = options;
    proxy->refused = refused;
    *ret_remote = proxy;
    return 0;
}

void gate_proxy_free(struct gate_proxy *proxy)
{
    if (proxy == NULL) {
        return;
    }
    free(proxy->refused);
    free(proxy);
}

struct gate_port *gate_proxy_port(struct gate_proxy *proxy)
{
    return &proxy->port;
}
