/* See balance.h. */
#include "distributed/balance.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "obs/log.h"

#define LEASE "balance"
#define OPEN_MAX 256             /* open transfers read in one round; more wait for the next */
#define BALANCE_REQUESTS_MAX 256 /* 32 bytes each */
#define MOVES_MAX 1024 /* moves remembered; the oldest is dropped. Only bounds the rate. */
#define CHANGES_PAGE 64
#define IDLE_MS 2000 /* between two rounds while no sale sells and nobody asks for units */

struct balance_request {
    uint64_t item;
    uint64_t units; /* 0: none */
    uint64_t least; /* the smallest quantity that a buyer wants */
    uint32_t segment;
    int64_t at_ms; /* 0: not seen by a round yet */
};

struct move {
    uint64_t item;
    uint32_t to;
    int64_t at_ms;
    uint64_t units;
    uint64_t arrives; /* the destination's total once they are there; UNKNOWN: not known */
};
#define UNKNOWN UINT64_MAX

/* Where the units of one item are. */
struct item_spread {
    uint64_t item;
    uint32_t homes;
    uint64_t known; /* segments that answered */
    uint64_t available[SEGMENTS_MAX];
    uint64_t totals[SEGMENTS_MAX]; /* of each: available, locked and sold */
    uint64_t total;                /* available in all of them */
    uint64_t wanted;               /* by all refill requests together */
    uint64_t served;               /* segments whose request was served in this round */
    const struct regions *regions;
    uint64_t fair[SEGMENTS_MAX]; /* the share that a home keeps; 0 if it is no home */
    uint32_t moves;              /* started in this round */
};

struct balance {
    struct balance_ports ports;
    struct balance_options options;
    pthread_mutex_t lock; /* guards refill_requests */
    struct balance_request refill_requests[BALANCE_REQUESTS_MAX];
    struct balance_request seen[BALANCE_REQUESTS_MAX]; /* this round's copy */
    struct move moves[MOVES_MAX];
    uint32_t moves_next;
    struct transfer_row open[OPEN_MAX];
    uint32_t open_count;
    uint64_t token;
    uint64_t epochs[SEGMENTS_MAX];
    bool outgrown; /* the ledger has segments added since this process started */
    uint32_t sequence;
    struct sale_row **sales; /* the warmed sales that are not over, as of sale_change */
    size_t sales_count;
    uint64_t sale_change;
    int64_t idle_until_ms;
    struct gate_request requests[SEGMENTS_MAX];
};

/* ---- how often ---- */

/* True if units of the item moved there lately: they may be in transit or wait for their buyer. */
static bool moved_lately(const struct balance *balance, uint64_t item, uint32_t to, bool to_any)
{
    int64_t since_ms = blocking_now(&balance->ports.blocking) - balance->options.pause_ms;
    for (uint32_t i = 0; i < MOVES_MAX; i++) {
        const struct move *move = &balance->moves[i];
        if (move->item == item && (to_any || move->to == to) && move->at_ms > since_ms) {
            return true;
        }
    }
    return false;
}

/* Units of the item that moved there lately and that the segment did not show yet. */
static uint64_t in_transit(const struct balance *balance, const struct item_spread *spread,
                           uint32_t to)
{
    int64_t since_ms = blocking_now(&balance->ports.blocking) - balance->options.pause_ms;
    uint64_t units = 0;
    for (uint32_t i = 0; i < MOVES_MAX; i++) {
        const struct move *move = &balance->moves[i];
        bool may_come = move->item == spread->item && move->to == to && move->at_ms > since_ms;
        units += may_come && spread->totals[to] < move->arrives ? move->units : 0;
    }
    return units;
}

static void remember_move(struct balance *balance, const struct transfer_row *row, uint64_t units,
                          uint64_t arrives)
{
    balance->moves[balance->moves_next++ % MOVES_MAX] =
        (struct move){.item = row->item,
                      .to = row->to_segment,
                      .at_ms = blocking_now(&balance->ports.blocking),
                      .units = units,
                      .arrives = arrives};
}

static bool is_open(const struct balance *balance, uint64_t item, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < balance->open_count; i++) {
        const struct transfer_row *row = &balance->open[i];
        if (row->item == item && row->segment == from && row->to_segment == to) {
            return true;
        }
    }
    return false;
}

/* ---- one transfer ---- */

/* The gate knows a transfer by the 128 bits that its key spells. */
static bool transfer_id(const struct transfer_row *row, struct order_id *ret_id)
{
    return order_id_parse(span_of(row->key), ret_id) == 0;
}

/* Takes the units out at their source. False: not now; the row stays as it is. */
static bool take_out(struct balance *balance, const struct transfer_row *row, uint64_t *ret_taken)
{
    struct segment_call call = {.segment = row->segment,
                                .epoch = row->epoch,
                                .command = {.kind = GATE_TRANSFER_OUT,
                                            .now_ms = blocking_now(&balance->ports.blocking),
                                            .item = row->item,
                                            .amount = row->amount}};
    if (!transfer_id(row, &call.command.id)) {
        log_event(LOG_ERROR, "balance.unknown_transfer", LOG_STR("transfer", row->key));
        return false;
    }
    segments_apply(balance->ports.segments, &call, 1);
    if (call.outcome != SEGMENT_DONE) {
        return false;
    }
    /* Refused: the source does not have the item (any more). Nothing left it. */
    *ret_taken = call.verdict == VERDICT_REFUSED ? 0 : call.taken;
    return true;
}

/* Takes the units out and records the result. before: the destination's total without them; UNKNOWN:
 * not known. 0; ERR_AGAIN: later; else the ledger's error. */
static int finish(struct balance *balance, const struct transfer_row *row, uint64_t before,
                  uint64_t *ret_units)
{
    const struct balance_ports *ports = &balance->ports;
    uint64_t taken;
    if (!take_out(balance, row, &taken)) {
        return ERR_AGAIN;
    }
    struct ledger_op op = {.kind = LEDGER_TRANSFERRED,
                           .item = row->item,
                           .segment = row->segment,
                           .to_segment = row->to_segment,
                           .epoch = row->epoch,
                           .amount = taken};
    memcpy(op.key, row->key, sizeof(op.key));
    int error = blocking_write(&ports->blocking, ports->ledger, &op, LEASE, balance->token);
    if (error != 0) {
        return error;
    }
    if (op.refusal ==
        REFUSAL_NO_STOCK) { /* it gave what it does not have: void once it is rebuilt */
        static struct log_limit limit;
        log_event_limited(&limit, 1000, LOG_ERROR, "segment.broken",
                          LOG_U64("segment", row->segment), LOG_U64("epoch", row->epoch),
                          LOG_STR("what", "it gave away units that the ledger knows to be sold; it "
                                          "will be rebuilt"));
        segments_tell(ports->segments, &(struct segment_news){.kind = NEWS_BROKEN,
                                                              .segment = row->segment,
                                                              .epoch = row->epoch});
        return ERR_AGAIN;
    }
    if (op.refusal != REFUSAL_NONE) { /* void: the source is being rebuilt, with these units */
        log_event(LOG_INFO, "balance.void", LOG_STR("transfer", row->key),
                  LOG_U64("item", row->item), LOG_U64("segment", row->segment));
        return 0;
    }
    log_event(taken > 0 ? LOG_INFO : LOG_DEBUG, "balance.moved", LOG_STR("transfer", row->key),
              LOG_U64("item", row->item), LOG_U64("from", row->segment),
              LOG_U64("to", row->to_segment), LOG_U64("units", taken));
    *ret_units += op.repeated ? 0 : taken;
    if (taken > 0) {
        remember_move(balance, row, taken, before == UNKNOWN ? UNKNOWN : before + taken);
    }
    return 0;
}

static int finish_open(struct balance *balance, struct balance_round *round)
{
    struct ledger_query query = {.kind = QUERY_TRANSFERS,
                                 .segment = SEGMENT_ALL,
                                 .transfers = balance->open,
                                 .limit = OPEN_MAX};
    int error = ledger_read(balance->ports.ledger, &query);
    uint32_t left = 0;
    for (uint32_t i = 0; error == 0 && i < query.count; i++) {
        struct transfer_row row = balance->open[i];
        /* From a segment added since this process started: another process finishes it. */
        error = row.segment < balance->options.segments
                    ? finish(balance, &row, UNKNOWN, &round->units)
                    : ERR_AGAIN;
        if (error == ERR_AGAIN) { /* its pair stays taken */
            balance->open[left++] = row;
            error = 0;
        } else if (error == 0) {
            round->finished++;
        }
    }
    balance->open_count = left;
    round->open = left;
    return error;
}

/* ---- a new transfer ---- */

static int begin(struct balance *balance, struct item_spread *spread, uint32_t from, uint32_t to,
                 uint64_t units, struct balance_round *round)
{
    const struct balance_ports *ports = &balance->ports;
    int64_t now_ms = blocking_now(&ports->blocking);
    /* A paused holder and its successor may use the same time and
     * sequence. The token tells them apart. */
    uint32_t sequence = (uint32_t)(balance->token << 12 ^ ++balance->sequence) & 0x7fffffffU;
    struct order_id id = order_id_fresh(spread->item, now_ms, sequence);
    struct transfer_row row = {.item = spread->item,
                               .segment = from,
                               .to_segment = to,
                               .amount = units,
                               .epoch = balance->epochs[from],
                               .at_ms = now_ms};
    order_id_text(id, row.key);
    struct ledger_op op = {.kind = LEDGER_TRANSFER,
                           .item = row.item,
                           .segment = from,
                           .to_segment = to,
                           .epoch = balance->epochs[from],
                           .to_epoch = balance->epochs[to],
                           .amount = units};
    memcpy(op.key, row.key, sizeof(op.key));
    int error = blocking_write(&ports->blocking, ports->ledger, &op, LEASE, balance->token);
    if (error != 0 || op.refusal != REFUSAL_NONE) {
        spread->known &= ~(1ULL << from); /* what was seen of it is not so: not in this round */
        return error;
    }
    spread->moves++;
    spread->available[from] -= units;
    uint64_t before = spread->totals[to] + in_transit(balance, spread, to);
    error = finish(balance, &row, before, &round->units);
    if (error != ERR_AGAIN) {
        round->moved += error == 0;
        return error;
    }
    spread->available[to] += units;
    round->open++;
    if (balance->open_count < OPEN_MAX) {
        balance->open[balance->open_count++] = row;
    }
    return 0;
}

/* The segment of the set `among` with the most units above what it keeps; SEGMENTS_MAX: none. */
static uint32_t richest(const struct balance *balance, const struct item_spread *spread,
                        uint32_t to, bool keeps_fair, uint64_t among)
{
    uint32_t best = SEGMENTS_MAX;
    uint64_t best_spare = 0;
    for (uint32_t i = 0; i < balance->options.segments; i++) {
        uint64_t keep = keeps_fair ? spread->fair[i] : 0;
        uint64_t has = spread->available[i];
        bool may = i != to && ((spread->known & among & ~spread->served) >> i & 1) != 0 &&
                   has > keep && !is_open(balance, spread->item, i, to) &&
                   !moved_lately(balance, spread->item, i, false);
        if (may && has - keep > best_spare) {
            best = i;
            best_spare = has - keep;
        }
    }
    return best;
}

/* Moves up to `units` to a segment, from its own region first. keeps_fair: the
 * sources keep their fair share. */
static int gather(struct balance *balance, struct item_spread *spread, uint32_t to, uint64_t units,
                  bool keeps_fair, struct balance_round *round)
{
    int error = 0;
    uint64_t near = regions_around(spread->regions, to);
    while (error == 0 && units > 0 && spread->moves < balance->options.moves_max) {
        uint32_t from = richest(balance, spread, to, keeps_fair, near);
        if (from == SEGMENTS_MAX) {
            from = richest(balance, spread, to, keeps_fair, ~near);
        }
        if (from == SEGMENTS_MAX) {
            break;
        }
        uint64_t spare = spread->available[from] - (keeps_fair ? spread->fair[from] : 0);
        uint64_t part = units < spare ? units : spare;
        error = begin(balance, spread, from, to, part, round);
        units -= part;
    }
    return error;
}

/* ---- refill requests ---- */

void balance_ask(struct balance *balance, uint32_t segment, uint64_t item, uint64_t units,
                 uint64_t least)
{
    struct balance_request *place = NULL;
    CHECK(segment < SEGMENTS_MAX);
    CHECK(pthread_mutex_lock(&balance->lock) == 0);
    for (uint32_t i = 0; i < BALANCE_REQUESTS_MAX; i++) {
        struct balance_request *refill = &balance->refill_requests[i];
        if (refill->units != 0 && refill->item == item && refill->segment == segment) {
            place = refill;
            break;
        }
        place = place == NULL && refill->units == 0 ? refill : place;
    }
    if (place != NULL) {
        *place = (struct balance_request){
            .item = item, .segment = segment, .units = units, .least = least};
    }
    CHECK(pthread_mutex_unlock(&balance->lock) == 0);
}

/* Copies the refill requests for this round and forgets those that are too old. */
static void see_refill_requests(struct balance *balance)
{
    int64_t now_ms = blocking_now(&balance->ports.blocking);
    CHECK(pthread_mutex_lock(&balance->lock) == 0);
    for (uint32_t i = 0; i < BALANCE_REQUESTS_MAX; i++) {
        struct balance_request *refill = &balance->refill_requests[i];
        if (refill->units != 0 && refill->at_ms == 0) {
            refill->at_ms = now_ms;
        } else if (refill->units != 0 && now_ms - refill->at_ms > balance->options.refill_ms) {
            *refill = (struct balance_request){0};
        }
        balance->seen[i] = *refill;
    }
    CHECK(pthread_mutex_unlock(&balance->lock) == 0);
}

static void forget_refill(struct balance *balance, uint32_t at)
{
    const struct balance_request *seen = &balance->seen[at];
    CHECK(pthread_mutex_lock(&balance->lock) == 0);
    struct balance_request *refill = &balance->refill_requests[at];
    if (refill->item == seen->item && refill->segment == seen->segment &&
        refill->units == seen->units) {
        *refill = (struct balance_request){0};
    }
    CHECK(pthread_mutex_unlock(&balance->lock) == 0);
}

static int serve_refill(struct balance *balance, struct item_spread *spread, uint32_t at,
                        struct balance_round *round)
{
    const struct balance_request *refill = &balance->seen[at];
    uint32_t to = refill->segment;
    uint64_t has = spread->available[to];
    if (to >= balance->options.segments || (spread->known >> to & 1) == 0) {
        return 0;
    }
    if (has >= refill->units || spread->total < refill->least) {
        forget_refill(balance, at); /* it is there, or there are not so many anywhere */
        return 0;
    }
    if (spread->total < spread->homes && moved_lately(balance, spread->item, to, true)) {
        return 0; /* the last units do not wander from one who asks to the next */
    }
    uint64_t units = refill->units;
    if (spread->wanted > spread->total) {
        units = (uint64_t)((double)units / (double)spread->wanted * (double)spread->total);
        units = units < refill->least ? refill->least : units;
    }
    has += in_transit(balance, spread, to);
    if (has >= units) {
        return 0; /* they are on their way */
    }
    uint64_t above = 0; /* what others have above the fair share */
    for (uint32_t i = 0; i < balance->options.segments; i++) {
        uint64_t keep = spread->fair[i];
        above += i != to && spread->available[i] > keep ? spread->available[i] - keep : 0;
    }
    uint64_t lacks = units - has;
    spread->served |= 1ULL << to;
    return gather(balance, spread, to, lacks, above >= lacks, round);
}

/* ---- an item ---- */

static void look_at(struct balance *balance, struct item_spread *spread)
{
    uint32_t segments = balance->options.segments;
    for (uint32_t i = 0; i < segments; i++) {
        balance->requests[i] = (struct gate_request){.kind = GATE_REQUEST_ITEM,
                                                     .loop = balance->options.loop,
                                                     .item = spread->item,
                                                     .segment = i};
    }
    int64_t away_ms = 0; /* a round follows soon, and one server that is away holds up no other */
    blocking_gate_requests(&balance->ports.blocking, balance->ports.gate, balance->requests,
                           segments, &away_ms);
    for (uint32_t i = 0; i < segments; i++) {
        const struct gate_request *request = &balance->requests[i];
        if (gate_request_done(request)) {
            spread->known |= 1ULL << i;
            spread->available[i] = request->view.available;
            spread->totals[i] = request->view.total;
            spread->total += request->view.available;
        } else if (gate_request_refused(request, REFUSAL_NO_SUCH_ITEM)) {
            spread->known |= 1ULL << i; /* added later: it has none, and may be given some */
        }
    }
    for (uint32_t i = 0; i < spread->homes; i++) {
        spread->fair[i] = spread->regions->count == 0
                              ? spread->total / spread->homes
                              : regions_share(spread->regions, spread->total, spread->homes, i);
    }
}

static int balance_item(struct balance *balance, uint64_t item, uint32_t homes,
                        const struct regions *regions, struct balance_round *round)
{
    struct item_spread spread = {.item = item, .homes = homes, .regions = regions};
    int error = 0;
    look_at(balance, &spread);
    for (uint32_t i = 0; i < BALANCE_REQUESTS_MAX; i++) {
        spread.wanted += balance->seen[i].item == item ? balance->seen[i].units : 0;
    }
    for (uint32_t i = 0; error == 0 && i < BALANCE_REQUESTS_MAX; i++) {
        if (balance->seen[i].units != 0 && balance->seen[i].item == item) {
            error = serve_refill(balance, &spread, i, round);
        }
    }
    /* Where buyers wait, homes that only gave are not filled again: they would give once more. */
    uint64_t asked = spread.served != 0 ? spread.served : UINT64_MAX;
    for (uint32_t i = 0; error == 0 && i < homes; i++) {
        uint64_t fair = spread.fair[i];
        uint64_t has = spread.available[i] + in_transit(balance, &spread, i);
        if (((spread.known & asked) >> i & 1) != 0 && has * 4 < fair) {
            error = gather(balance, &spread, i, fair - has, true, round);
        }
    }
    return error;
}

/* ---- a round ---- */

static int place_epochs(struct balance *balance)
{
    struct segment_row rows[SEGMENTS_MAX];
    struct ledger_query query = {
        .kind = QUERY_SEGMENTS, .segment = SEGMENT_ALL, .segments = rows, .limit = SEGMENTS_MAX};
    int error = ledger_read(balance->ports.ledger, &query);
    balance->outgrown = false;
    for (uint32_t i = 0; error == 0 && i < query.count; i++) {
        balance->outgrown = balance->outgrown || rows[i].segment >= balance->options.segments;
        if (rows[i].segment < balance->options.segments) {
            balance->epochs[rows[i].segment] = rows[i].epoch;
            gate_place(balance->ports.gate, rows[i].segment, rows[i].epoch);
        }
    }
    return error;
}

static bool is_selling(const struct sale_row *sale, int64_t now_ms)
{
    return sale->starts_at_ms <= now_ms && now_ms < sale->ends_at_ms;
}

static int balance_sale(struct balance *balance, const struct sale_row *sale,
                        struct balance_round *round)
{
    int error = 0;
    uint32_t homes =
        sale->homes < balance->options.segments ? sale->homes : balance->options.segments;
    for (uint32_t i = 0; error == 0 && i < sale->items_count; i++) {
        error = balance_item(balance, sale->items[i].id, homes, &sale->regions, round);
        uint64_t token;
        if (error == 0 && round->moved + round->open > 0) {
            error = lease_take(balance->ports.lease, LEASE, balance->options.lease_ms, &token);
            error = error == 0 && token != balance->token ? ERR_BUSY : error;
        }
    }
    return error;
}

static void drop_sale(struct balance *balance, uint64_t id)
{
    for (size_t i = 0; i < balance->sales_count; i++) {
        if (balance->sales[i]->id == id) {
            sale_row_free(balance->sales[i]);
            balance->sales[i] = balance->sales[--balance->sales_count];
            return;
        }
    }
}

/* Replaces the sale by its row in the ledger. Drafts, paused and closed sales are not kept: a sale
 * that opens later has changed again. */
static int read_sale(struct balance *balance, uint64_t id)
{
    struct sale_row *sale = NULL;
    struct ledger_query query = {
        .kind = QUERY_SALES, .segment = SEGMENT_ALL, .sale = id, .limit = 1, .sales = &sale};
    int error = ledger_read(balance->ports.ledger, &query);
    if (error != 0 && error != ERR_NOTFOUND) {
        return error;
    }
    drop_sale(balance, id);
    bool wanted =
        sale != NULL && (sale->state == SALE_OPEN || sale->state == SALE_WARM) && sale->homes > 0;
    if (!wanted) {
        sale_row_free(sale);
        return 0;
    }
    struct sale_row **sales =
        realloc(balance->sales, (balance->sales_count + 1) * sizeof(struct sale_row *));
    if (sales == NULL) {
        sale_row_free(sale);
        return ERR_NOMEM;
    }
    balance->sales = sales;
    sales[balance->sales_count++] = sale;
    return 0;
}

/* Reads the sales that have changed since the last round. */
static int read_changes(struct balance *balance)
{
    struct sale_change_row changes[CHANGES_PAGE];
    struct ledger_query query = {.kind = QUERY_SALE_CHANGES,
                                 .segment = SEGMENT_ALL,
                                 .changes = changes,
                                 .limit = CHANGES_PAGE};
    do {
        query.after = balance->sale_change;
        int error = ledger_read(balance->ports.ledger, &query);
        for (uint32_t i = 0; error == 0 && i < query.count; i++) {
            if (changes[i].gone) {
                drop_sale(balance, changes[i].sale);
            } else {
                error = read_sale(balance, changes[i].sale);
            }
            balance->sale_change = error == 0 ? changes[i].number : balance->sale_change;
        }
        if (error != 0) {
            return error;
        }
    } while (query.count == CHANGES_PAGE);
    return 0;
}

static int balance_sales(struct balance *balance, struct balance_round *round)
{
    int error = read_changes(balance);
    for (size_t i = 0; error == 0 && i < balance->sales_count; i++) {
        if (is_selling(balance->sales[i], blocking_now(&balance->ports.blocking))) {
            round->selling++;
            error = balance_sale(balance, balance->sales[i], round);
        }
    }
    return error;
}

static bool is_asked(struct balance *balance)
{
    bool asked = false;
    CHECK(pthread_mutex_lock(&balance->lock) == 0);
    for (uint32_t i = 0; i < BALANCE_REQUESTS_MAX && !asked; i++) {
        asked = balance->refill_requests[i].units != 0;
    }
    CHECK(pthread_mutex_unlock(&balance->lock) == 0);
    return asked;
}

int balance_round(struct balance *balance, struct balance_round *ret_round)
{
    int64_t now_ms = blocking_now(&balance->ports.blocking);
    *ret_round = (struct balance_round){0};
    if (now_ms < balance->idle_until_ms && !is_asked(balance)) {
        return 0;
    }
    balance->idle_until_ms = 0;
    int error = lease_take(balance->ports.lease, LEASE, balance->options.lease_ms, &balance->token);
    if (error != 0) {
        return error;
    }
    error = place_epochs(balance);
    error = error != 0 ? error : finish_open(balance, ret_round);
    if (error == 0) {
        see_refill_requests(balance);
        error = balance_sales(balance, ret_round);
    }
    if (balance->outgrown) {
        lease_drop(balance->ports.lease, LEASE);
    } else if (error == 0 && ret_round->selling + ret_round->open + ret_round->finished == 0) {
        balance->idle_until_ms = now_ms + IDLE_MS;
    }
    return error;
}

void balance_end(struct balance *balance)
{
    lease_drop(balance->ports.lease, LEASE);
}

/* ---- life ---- */

int balance_new(struct balance_ports ports, struct balance_options options,
                struct balance **ret_balance)
{
    CHECK(options.segments >= 1 && options.segments <= SEGMENTS_MAX && options.moves_max > 0);
    struct balance *balance = calloc(1, sizeof(*balance));
    if (balance == NULL) {
        return ERR_NOMEM;
    }
    CHECK(pthread_mutex_init(&balance->lock, NULL) == 0);
    balance->ports = ports;
    balance->options = options;
    *ret_balance = balance;
    return 0;
}

void balance_free(struct balance *balance)
{
    if (balance != NULL) {
        (void)pthread_mutex_destroy(&balance->lock);
        for (size_t i = 0; i < balance->sales_count; i++) {
            sale_row_free(balance->sales[i]);
        }
        free(balance->sales);
        free(balance);
    }
}
