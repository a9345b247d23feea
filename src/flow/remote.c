/* See remote.h. */
#include "flow/remote.h"

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

struct remote {
    struct gate_port port;
    struct gate_port *gate;
    struct places *places;
    struct catalog *catalog;
    struct shelf *shelf;
    struct spool *spool;
    struct remote_options options;
    struct refused *refused;             /* REFUSED_MAX for each loop */
    struct gate_ask *waiting[LOOPS_MAX]; /* for a refill or a reading, to be asked again */
    uint32_t readers[LOOPS_MAX];         /* of these, for a reading */
};

uint32_t remote_segment(struct order_id id, const struct sale_row *sale)
{
    return order_id_kind(id) == ORDER_ONCE
               ? regions_home(&sale->regions, order_id_user(id), sale->homes)
               : order_id_segment(id);
}

/* Of a buyer who asks for a ticket: an id that no ticket has. */
static struct order_id memory_id(const struct gate_ask *ask)
{
    return ask->question == ASK_TICKET ? order_id_once(ask->item, ask->user, BUYER_ENDED_MAX + 1)
                                       : ask->id;
}

static struct refused *refused_of(struct remote *remote, const struct gate_ask *ask)
{
    struct order_id id = memory_id(ask);
    uint64_t h = (id.hi ^ id.lo * 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
    return &remote->refused[(size_t)ask->loop * REFUSED_MAX + ((h >> 32) & (REFUSED_MAX - 1))];
}

static void remember(struct remote *remote, const struct gate_ask *ask)
{
    struct shelf_item item;
    if (shelf_find(remote->shelf, ask->item, &item) && item.sold_out) {
        *refused_of(remote, ask) = (struct refused){memory_id(ask), item.refills};
    }
}

/* It met "sold out" here, and nothing has come back since. */
static bool is_remembered(struct remote *remote, const struct gate_ask *ask,
                          struct shelf_item *ret_item)
{
    const struct refused *refused = refused_of(remote, ask);
    return order_id_equal(refused->id, memory_id(ask)) &&
           shelf_find(remote->shelf, ask->item, ret_item) && ret_item->sold_out &&
           refused->refills == ret_item->refills;
}

static void reserve_of(const struct gate_ask *ask, int64_t now_ms, struct gate_command *ret_command)
{
    *ret_command = (struct gate_command){.kind = GATE_RESERVE,
                                         .now_ms = now_ms,
                                         .id = ask->id,
                                         .user = ask->user,
                                         .item = ask->item,
                                         .qty = ask->qty,
                                         .ticket_expires_ms = (uint64_t)ask->ticket_expires_ms};
}

/* ---- what is known here ---- */

/* A warmed sale's item as the ledger has it; false: there is none. */
static bool find_item(struct remote *remote, uint64_t item, struct shelf_item *ret_item)
{
    const struct sale_row *sale = NULL;
    catalog_lock(remote->catalog);
    const struct item_row *row = catalog_item(remote->catalog, item, &sale);
    bool found = row != NULL && sale->homes > 0;
    if (found) {
        *ret_item = (struct shelf_item){.view = {.item = item,
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
    catalog_unlock(remote->catalog);
    return found;
}

/* ---- in line ---- */

/* An order that stands in line, as its buyer sees it. */
static void show_in_line(const struct spool_entry *entry, struct gate_ask *ask)
{
    const struct gate_command *command = &entry->command;
    ask->refusal = REFUSAL_NONE;
    ask->has_order = true;
    ask->order = (struct order_view){.id = command->id,
                                     .user = command->user,
                                     .item = command->item,
                                     .qty = command->qty,
                                     .state = ORDER_QUEUED,
                                     .reason = entry->epoch == 0 ? REFUSAL_UNDECIDED : REFUSAL_NONE,
                                     .version = 1,
                                     .created_at_ms = command->now_ms,
                                     .lsn = entry->lsn};
    ask->held = command->qty;
    ask->lsn = entry->lsn;
}

/* What this front has promised itself it can tell without the gate: of who stands in line here. What
 * was decided may have been booked since, and told by another front or before a restart of this one;
 * unless the gate has just said that it knows no such order (is_unknown). */
static bool tell_own(struct remote *remote, struct gate_ask *ask, bool is_unknown)
{
    struct spool_entry entry;
    if (!spool_find(remote->spool, ask->id, &entry)) {
        return false;
    }
    if (ask->question == ASK_BUY && entry.command.user != ask->user) {
        ask->refusal = REFUSAL_BAD_TICKET;
    } else if (ask->question == ASK_BUY && entry.command.qty != ask->qty) {
        ask->refusal = REFUSAL_DIFFERENT_REQUEST;
    } else if (entry.epoch != 0 && !is_unknown) {
        ask->refusal = ask->question == ASK_BUY ? REFUSAL_UNKNOWN_OUTCOME : REFUSAL_DEGRADED;
    } else {
        show_in_line(&entry, ask);
        ask->existed = true;
    }
    return true;
}

/* What the clock, and the sale as the ledger has it, say of a buy, before stock is looked at. */
static enum refusal window_refusal(const struct item_view *view, const struct gate_ask *ask)
{
    if (ask->now_ms >= ask->ticket_expires_ms) {
        return REFUSAL_BAD_TICKET;
    }
    if (view->sale_state == SALE_CLOSED || ask->now_ms >= view->ends_at_ms) {
        return REFUSAL_ENDED;
    }
    if (view->sale_state != SALE_WARM && view->sale_state != SALE_OPEN) {
        return REFUSAL_NOT_OPEN;
    }
    return ask->now_ms < view->starts_at_ms ? REFUSAL_TOO_EARLY : REFUSAL_NONE;
}

/* Whether a buy may wait for a gate that is away, or behind others (gate_is_there): everything that
 * can be known here says yes. */
static enum refusal may_stand_in_line(struct remote *remote, struct gate_ask *ask,
                                      bool gate_is_there)
{
    struct shelf_item item;
    struct shelf_item known;
    struct spool_numbers numbers;
    spool_count(remote->spool, &numbers);
    if (numbers.undecided >= atomic_load(&remote->options.dials->line) ||
        !spool_has_room(remote->spool) || !find_item(remote, ask->item, &known)) {
        return REFUSAL_DEGRADED;
    }
    if (!shelf_find(remote->shelf, ask->item, &item)) { /* nobody has looked since it was warmed */
        item = known;
        item.sold_out = known.view.available == 0;
    }
    /* The ledger's word on the sale: the shelf stands still while the gate is away. */
    const struct item_view *view = &known.view;
    enum refusal refusal = window_refusal(view, ask);
    if (refusal != REFUSAL_NONE) {
        return refusal;
    }
    if (item.sold_out && gate_is_there) {
        ask->available = 0;
        ask->locked = item.view.locked;
        return REFUSAL_SOLD_OUT;
    }
    if (item.sold_out) {
        return REFUSAL_DEGRADED; /* units may have come back since; the gate would know */
    }
    return view->limit_per_user != 0 && ask->qty > view->limit_per_user ? REFUSAL_LIMIT_REACHED
                                                                        : REFUSAL_NONE;
}

static void stand_in_line(struct remote *remote, struct gate_ask *ask, bool gate_is_there)
{
    struct gate_command command;
    uint64_t lsn = 0;
    struct spool_entry entry;
    if (tell_own(remote, ask, gate_is_there)) {
        return;
    }
    if (spool_is_known(remote->spool, ask->id)) {
        ask->refusal = REFUSAL_UNKNOWN_OUTCOME; /* its buyer has seen more than a place in line */
        return;
    }
    ask->refusal = may_stand_in_line(remote, ask, gate_is_there);
    if (ask->refusal != REFUSAL_NONE) {
        return;
    }
    reserve_of(ask, ask->now_ms, &command);
    if (spool_stand_in_line(remote->spool, &command, ask->segment, &lsn) != 0 ||
        !spool_find(remote->spool, ask->id, &entry)) {
        ask->refusal = REFUSAL_DEGRADED;
        return;
    }
    show_in_line(&entry, ask);
}

/* Others stand before this segment's gate. Whether there is such an order is asked all the same,
 * with a ticket that is over: an order is answered whatever else, and nothing is taken. */
static void look_first(struct gate_ask *ask)
{
    ask->looks_first = true;
    ask->expires_ms = ask->ticket_expires_ms;
    ask->ticket_expires_ms = 0;
}

/* True: there is no such order, and the buy has joined the line, or was refused. */
static bool looked(struct remote *remote, struct gate_ask *ask)
{
    ask->looks_first = false;
    ask->ticket_expires_ms = ask->expires_ms;
    if (ask->refusal != REFUSAL_BAD_TICKET) {
        return false;
    }
    stand_in_line(remote, ask, true);
    return true;
}

/* ---- asked again ---- */

#define ASK_AGAIN_US 20000

static void wait_here(struct remote *remote, struct gate_ask *ask, int64_t now_us)
{
    ask->again_us = now_us + ASK_AGAIN_US;
    ask->next = remote->waiting[ask->loop];
    remote->waiting[ask->loop] = ask;
}

/* No sale in the catalog has the item. True: it waits for a reading that may bring it. */
static bool waits_for_reading(struct remote *remote, struct gate_ask *ask)
{
    int64_t now_us = clock_boot_us(remote->options.clock);
    if (ask->reading == 0) {
        ask->reading = catalog_next_reading(remote->catalog);
        ask->give_up_us = now_us + READING_US;
        remote->options.read_sales(remote->options.context);
    }
    if (catalog_last_reading(remote->catalog) >= ask->reading) {
        ask->refusal = ask->question == ASK_ORDER ? REFUSAL_NOT_FOUND : REFUSAL_NO_SUCH_ITEM;
        return false;
    }
    if (now_us >= ask->give_up_us || remote->readers[ask->loop] >= READING_MAX) {
        ask->refusal = REFUSAL_DEGRADED;
        return false;
    }
    remote->readers[ask->loop]++;
    wait_here(remote, ask, now_us);
    return true;
}

/* Units may be elsewhere than at the buyer's home: there are other segments, or, of one that was added
 * since this process began, units that no segment it asks has. */
static bool may_be_elsewhere(const struct remote *remote, const struct shelf_item *item)
{
    return remote->places->count > 1 || item->view.available > item->most;
}

/* The home has too little. True: other segments have, or may have, enough; the ask waits. */
static bool waits_for_refill(struct remote *remote, struct gate_ask *ask)
{
    struct shelf_item item = {0};
    int64_t now_us = clock_boot_us(remote->options.clock);
    bool known = shelf_find(remote->shelf, ask->item, &item);
    if (!may_be_elsewhere(remote, &item)) {
        return false;
    }
    bool sold_out = known && item.view.available == 0; /* everywhere: that goes before the limit */
    if (!sold_out && ask->limit != 0 && (uint64_t)ask->held + ask->qty > ask->limit) {
        ask->refusal = REFUSAL_LIMIT_REACHED; /* no unit is moved for who may not have it */
        return false;
    }
    if (known) {
        ask->locked = item.view.locked > ask->locked ? item.view.locked : ask->locked;
    }
    if (known && item.view.available < ask->qty) {
        ask->available =
            item.view.available > ask->available ? item.view.available : ask->available;
        return false;
    }
    if (ask->give_up_us == 0) {
        ask->give_up_us = now_us + remote->options.refill_ms * 1000;
    }
    if (now_us >= ask->give_up_us) {
        ask->refusal = REFUSAL_UNKNOWN_OUTCOME;
        return false;
    }
    wishes_add(remote->options.wishes, ask->segment, ask->item, ask->qty);
    wait_here(remote, ask, now_us);
    return true;
}

/* A ticket is given as long as any segment has a unit. */
static void show_all_segments(struct remote *remote, struct gate_ask *ask)
{
    struct shelf_item item = {0};
    if (ask->view.available > 0) {
        return;
    }
    bool known = shelf_find(remote->shelf, ask->item, &item);
    if (may_be_elsewhere(remote, &item) && (known || find_item(remote, ask->item, &item))) {
        ask->view.available = item.view.available;
        ask->view.locked =
            item.view.locked > ask->view.locked ? item.view.locked : ask->view.locked;
    }
}

/* ---- answers of the gate ---- */

/* A win, or an order that waits for its booking: in this front's journal before its 202. */
static void keep(struct remote *remote, struct gate_ask *ask)
{
    struct gate_command command;
    reserve_of(ask, ask->order.created_at_ms, &command);
    if (ask->order.state != ORDER_QUEUED) {
        return;
    }
    if (spool_accept(remote->spool, &command, ask->epoch, &ask->lsn) != 0) {
        ask->refusal = REFUSAL_UNKNOWN_OUTCOME;
    }
}

/* False: the gate does not know the order, and that may be because its buyer stands in another front's
 * line, not decided yet. */
static bool is_certain(struct remote *remote, const struct gate_ask *ask)
{
    return ask->refusal != REFUSAL_NOT_FOUND ||
           places_settled(remote->places, ask->segment,
                          clock_boot_us(remote->options.clock) / 1000);
}

/* False: it is not answered after all, and waits. */
static bool answered(struct remote *remote, struct gate_ask *ask)
{
    if (ask->looks_first && looked(remote, ask)) {
        return true;
    }
    if (ask->refusal == REFUSAL_UNKNOWN_OUTCOME) {
        places_doubt(remote->places, ask->segment);
    }
    if (ask->refusal == REFUSAL_UNKNOWN_OUTCOME || ask->refusal == REFUSAL_DEGRADED) {
        places_away(remote->places, ask->segment, clock_boot_us(remote->options.clock) / 1000);
    }
    if (ask->question != ASK_TICKET && ask->refusal == REFUSAL_NONE && ask->has_order &&
        ask->order.state != ORDER_QUEUED) {
        /* The ledger said so first; from here on nobody is told less here. */
        spool_resolve(remote->spool, ask->order.id);
    }
    switch (ask->question) {
    case ASK_BUY:
        if (ask->refusal == REFUSAL_NONE) {
            keep(remote, ask);
        } else if (ask->refusal == REFUSAL_DEGRADED) {
            places_doubt(remote->places, ask->segment);
            stand_in_line(remote, ask, false);
        } else if (ask->refusal == REFUSAL_SOLD_OUT && waits_for_refill(remote, ask)) {
            return false;
        } else if (ask->refusal == REFUSAL_SOLD_OUT && ask->available == 0) {
            remember(remote, ask);
        }
        break;
    case ASK_ORDER: {
        struct spool_entry entry;
        bool unknown = ask->refusal == REFUSAL_DEGRADED || ask->refusal == REFUSAL_OVERLOADED ||
                       ask->refusal == REFUSAL_UNKNOWN_OUTCOME;
        bool forgotten = ask->refusal == REFUSAL_NOT_FOUND;
        /* Promised here. What the gate had decided when it could be asked last may have been booked
         * since, and another front may have told so: then nothing is told. */
        if ((unknown || forgotten) && spool_find(remote->spool, ask->id, &entry) &&
            (forgotten || entry.epoch == 0)) {
            show_in_line(&entry, ask);
        } else if (ask->refusal == REFUSAL_UNKNOWN_OUTCOME || !is_certain(remote, ask)) {
            ask->refusal = REFUSAL_DEGRADED;
        }
        break;
    }
    case ASK_TICKET:
        if (ask->refusal == REFUSAL_NONE) {
            show_all_segments(remote, ask);
        }
        if (ask->refusal == REFUSAL_NONE && ask->view.available == 0 && !ask->has_order) {
            remember(remote, ask);
        }
        break;
    case ASK_ITEM:
        break;
    }
    return true;
}

/* ---- asks ---- */

static enum gate_submitted ask_item(struct remote *remote, struct gate_ask *ask)
{
    struct shelf_item item;
    /* Just warmed, and not looked at yet: as the ledger has it. */
    if (shelf_find(remote->shelf, ask->item, &item) || find_item(remote, ask->item, &item)) {
        ask->view = item.view;
        return GATE_ANSWERED;
    }
    ask->refusal = REFUSAL_NO_SUCH_ITEM;
    return ask->may_wait && waits_for_reading(remote, ask) ? GATE_ASKED : GATE_ANSWERED;
}

/* The segment to be asked, and how many its sale has as homes. False: no sale here has the item. */
static bool find_home(struct remote *remote, struct gate_ask *ask, uint32_t *ret_homes)
{
    const struct sale_row *sale = NULL;
    uint64_t id = ask->question == ASK_ORDER ? order_id_item(ask->id) : ask->item;
    catalog_lock(remote->catalog);
    bool found = catalog_item(remote->catalog, id, &sale) != NULL && sale->homes > 0;
    if (found) {
        ask->segment = ask->question == ASK_TICKET
                           ? regions_home(&sale->regions, ask->user, sale->homes)
                           : remote_segment(ask->id, sale);
        *ret_homes = sale->homes;
    }
    catalog_unlock(remote->catalog);
    return found;
}

/* True: it is to be asked, at ask->segment. */
static bool find_segment(struct remote *remote, struct gate_ask *ask, uint32_t homes)
{
    if (ask->segment >= remote->places->count) {
        /* Of an id that somebody made up; or of a segment that was added since this process began. */
        ask->refusal = ask->segment < homes         ? REFUSAL_DEGRADED
                       : ask->question == ASK_ORDER ? REFUSAL_NOT_FOUND
                                                    : REFUSAL_NO_SUCH_ITEM;
        return false;
    }
    ask->epoch = places_epoch(remote->places, ask->segment);
    return true;
}

/* What goes before "sold out" may have changed: the ticket's time and the sale's; and another loop may
 * have won with it. Then the gate is asked. */
static bool is_still_refused(struct remote *remote, const struct gate_ask *ask,
                             struct shelf_item *ret_item)
{
    struct shelf_item known;
    struct spool_entry entry;
    return is_remembered(remote, ask, ret_item) && find_item(remote, ask->item, &known) &&
           window_refusal(&known.view, ask) == REFUSAL_NONE &&
           !spool_find(remote->spool, ask->id, &entry) && !spool_is_known(remote->spool, ask->id);
}

/* A ticket for what is sold out: refused, unless its buyer has an order to be shown, as he may where
 * one is all he can have. Who has none is asked for once. */
static bool ticket_is_answered(struct remote *remote, struct gate_ask *ask)
{
    struct shelf_item item;
    bool sold_out = shelf_find(remote->shelf, ask->item, &item) && item.sold_out;
    if (!sold_out || (item.view.limit_per_user == 1 && !is_remembered(remote, ask, &item))) {
        return false;
    }
    ask->view = item.view;
    ask->limit = item.view.limit_per_user;
    return true;
}

/* A buy that can be answered without the gate. */
static bool buy_is_answered(struct remote *remote, struct gate_ask *ask)
{
    struct shelf_item item;
    if (is_still_refused(remote, ask, &item)) {
        ask->refusal = REFUSAL_SOLD_OUT;
        ask->available = 0;
        ask->locked = item.view.locked;
        return true;
    }
    if (!spool_has_room(remote->spool) || atomic_load(&remote->places->clock_is_off)) {
        if (!tell_own(remote, ask, false)) {
            ask->refusal = REFUSAL_DEGRADED;
        }
        return true;
    }
    return false;
}

/* From the beginning, for the first time or after a reading of the sales. */
static enum gate_submitted begin(struct remote *remote, struct gate_ask *ask)
{
    uint32_t homes = 0;
    if (ask->question == ASK_ITEM) {
        return ask_item(remote, ask);
    }
    bool found = find_home(remote, ask, &homes);
    if (!found || !find_segment(remote, ask, homes)) {
        /* In line here, whatever is in the catalog. */
        if (ask->question != ASK_TICKET && tell_own(remote, ask, false)) {
            return GATE_ANSWERED;
        }
        return !found && waits_for_reading(remote, ask) ? GATE_ASKED : GATE_ANSWERED;
    }
    ask->reading = 0;
    if ((ask->question == ASK_BUY && buy_is_answered(remote, ask)) ||
        (ask->question == ASK_TICKET && ticket_is_answered(remote, ask))) {
        return GATE_ANSWERED;
    }
    ask->give_up_us = 0;
    ask->looks_first = false;
    if (ask->question == ASK_BUY && spool_before(remote->spool, ask->segment) > 0) {
        look_first(ask);
    }
    if (gate_submit(remote->gate, ask) == GATE_ASKED || !answered(remote, ask)) {
        return GATE_ASKED;
    }
    return GATE_ANSWERED;
}

static enum gate_submitted submit(struct gate_port *port, struct gate_ask *ask)
{
    struct remote *remote = (struct remote *)port;
    ask->refusal = REFUSAL_NONE;
    ask->existed = false;
    ask->has_order = false;
    ask->held = 0;
    ask->attempt = 0;
    ask->barred = false;
    ask->lsn = 0;
    ask->reading = 0;
    return begin(remote, ask);
}

static bool is_answered_again(struct remote *remote, struct gate_ask *ask)
{
    ask->refusal = REFUSAL_NONE;
    if (ask->reading != 0) {
        remote->readers[ask->loop]--;
        return begin(remote, ask) == GATE_ANSWERED;
    }
    return gate_submit(remote->gate, ask) == GATE_ANSWERED && answered(remote, ask);
}

/* Asks those again whose time has come; the ones that were answered at once are put before `first`. */
static struct gate_ask *ask_again(struct remote *remote, uint32_t loop, struct gate_ask *first)
{
    struct gate_ask *waiting = remote->waiting[loop];
    int64_t now_us = waiting != NULL ? clock_boot_us(remote->options.clock) : 0;
    remote->waiting[loop] = NULL;
    while (waiting != NULL) {
        struct gate_ask *ask = waiting;
        waiting = ask->next;
        if (ask->again_us > now_us) {
            ask->next = remote->waiting[loop];
            remote->waiting[loop] = ask;
        } else if (is_answered_again(remote, ask)) {
            ask->next = first;
            first = ask;
        }
    }
    return first;
}

static struct gate_ask *collect(struct gate_port *port, uint32_t loop)
{
    struct remote *remote = (struct remote *)port;
    struct gate_ask *first = NULL;
    struct gate_ask **last = &first;
    struct gate_ask *ask = gate_collect(remote->gate, loop);
    while (ask != NULL) {
        struct gate_ask *next = ask->next;
        if (answered(remote, ask)) {
            *last = ask;
            last = &ask->next;
        }
        ask = next;
    }
    *last = NULL;
    return ask_again(remote, loop, first);
}

static int64_t flush(struct gate_port *port, uint32_t loop)
{
    struct remote *remote = (struct remote *)port;
    int64_t next_us = gate_flush(remote->gate, loop);
    for (const struct gate_ask *ask = remote->waiting[loop]; ask != NULL; ask = ask->next) {
        next_us = ask->again_us < next_us ? ask->again_us : next_us;
    }
    return next_us;
}

static void place(struct gate_port *port, uint32_t segment, uint64_t epoch)
{
    gate_place(((struct remote *)port)->gate, segment, epoch);
}

static const struct gate_ops ops = {submit, collect, flush, place};

/* ---- life ---- */

int remote_new(struct gate_port *gate, struct places *places, struct catalog *catalog,
               struct shelf *shelf, struct spool *spool, struct remote_options options,
               struct remote **ret_remote)
{
    struct remote *remote = calloc(1, sizeof(*remote));
    struct refused *refused = calloc((size_t)options.loops * REFUSED_MAX, sizeof(*refused));
    if (remote == NULL || refused == NULL) {
        free(remote);
        free(refused);
        return ERR_NOMEM;
    }
    remote->port.ops = &ops;
    remote->gate = gate;
    remote->places = places;
    remote->catalog = catalog;
    remote->shelf = shelf;
    remote->spool = spool;
    remote->options = options;
    remote->refused = refused;
    *ret_remote = remote;
    return 0;
}

void remote_free(struct remote *remote)
{
    if (remote == NULL) {
        return;
    }
    free(remote->refused);
    free(remote);
}

struct gate_port *remote_port(struct remote *remote)
{
    return &remote->port;
}
