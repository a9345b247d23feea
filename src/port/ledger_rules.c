/* See ledger_rules.h. */
#include "port/ledger_rules.h"

#include <stdio.h>

#include "base/check.h"
#include "base/err.h"

#define COUNTED_ID_MAX ((1ULL << 52) - 1)

static const char *const refusal_names[] = {
#define X(name, status, code, retry, title) #name,
    REFUSALS(X)
#undef X
};

const char *ledger_refusal_name(enum refusal refusal)
{
    CHECK((unsigned)refusal < REFUSAL_COUNT);
    return refusal == REFUSAL_NONE ? NULL : refusal_names[refusal] + strlen("REFUSAL_");
}

int ledger_refusal_parse(struct span name, enum refusal *ret_refusal)
{
    for (int i = REFUSAL_NONE + 1; i < REFUSAL_COUNT; i++) {
        if (span_is(name, ledger_refusal_name((enum refusal)i))) {
            *ret_refusal = (enum refusal)i;
            return 0;
        }
    }
    return ERR_CORRUPT;
}

int ledger_event_parse(struct span text, enum ledger_event_kind *ret_kind)
{
    for (int i = EVENT_NONE + 1; i < EVENT_KIND_COUNT; i++) {
        if (span_is(text, ledger_event_text((enum ledger_event_kind)i))) {
            *ret_kind = (enum ledger_event_kind)i;
            return 0;
        }
    }
    return ERR_CORRUPT;
}

void ledger_cursor_write(const struct order_row *order, char *ret_text, size_t capacity)
{
    char id[ORDER_ID_TEXT];
    order_id_text(order->id, id);
    (void)snprintf(ret_text, capacity, "%lld-%.*s", (long long)order->created_at_ms, ORDER_ID_TEXT,
                   id);
}

int ledger_cursor_read(const char *text, int64_t *ret_created_at_ms, struct order_id *ret_id)
{
    const char *dash = strchr(text, '-');
    if (dash == NULL) {
        return ERR_INVALID;
    }
    uint64_t created_at_ms;
    if (span_parse_u64((struct span){text, (size_t)(dash - text)}, TIME_MAX_MS, &created_at_ms) !=
            0 ||
        order_id_parse(span_of(dash + 1), ret_id) != 0) {
        return ERR_INVALID;
    }
    *ret_created_at_ms = (int64_t)created_at_ms;
    return 0;
}

/* ---- orders ---- */

struct order_row ledger_order_of(const struct gate_command *command, uint64_t lsn,
                                 const struct order_terms *terms, int64_t now_ms,
                                 enum refusal reason)
{
    struct order_row order = {
        .id = command->id,
        .user = command->user,
        .sale = terms->sale,
        .item = command->item,
        .qty = command->qty,
        .state = order_move_to(reason == REFUSAL_NONE ? MOVE_CONFIRM : MOVE_REFUSE),
        .reason = reason,
        .amount_cents = (int64_t)terms->price_cents * command->qty,
        .created_at_ms = command->now_ms,
        .lsn = lsn,
    };
    if (reason == REFUSAL_NONE) {
        order.locked_at_ms = now_ms;
        order.pay_by_ms = now_ms + (int64_t)terms->pay_within_s * 1000;
    } else {
        order.ended_at_ms = now_ms;
    }
    memcpy(order.currency, terms->currency, sizeof(order.currency));
    return order;
}

bool ledger_pay_currency_fits(const struct order_row *order, const struct ledger_op *payment)
{
    return payment->currency[0] == '\0' || strcmp(payment->currency, order->currency) == 0;
}

enum refusal ledger_pay_refusal(const struct order_row *order, const struct ledger_op *payment,
                                int64_t now_ms)
{
    /* Amount and currency are checked first. They never change, so the same request always gets the
     * same answer. */
    if (payment->amount_cents != order->amount_cents || !ledger_pay_currency_fits(order, payment)) {
        return REFUSAL_WRONG_AMOUNT;
    }
    if (order->state == ORDER_PAID) {
        return REFUSAL_ALREADY_PAID;
    }
    return order->state != ORDER_LOCKED || now_ms >= order->pay_by_ms ? REFUSAL_EXPIRED
                                                                      : REFUSAL_NONE;
}

bool ledger_cancel_bars(const struct order_row *order, const struct ledger_op *cancel,
                        bool bar_unpaid, int64_t now_ms)
{
    return bar_unpaid && cancel->late_ms > 0 && now_ms >= order->pay_by_ms - cancel->late_ms;
}

int64_t ledger_cooling_until(const struct ledger_op *op, bool barred, int64_t now_ms)
{
    return !barred && op->cooling_ms > 0 ? now_ms + op->cooling_ms : 0;
}

enum refusal ledger_cancel_refusal(const struct order_row *order)
{
    return order->state == ORDER_PAID ? REFUSAL_ALREADY_PAID : REFUSAL_EXPIRED;
}

enum refusal ledger_book_reason(const struct book_state *state)
{
    int64_t qty = state->qty;
    if (state->limit != 0 && state->held + qty > (int64_t)state->limit) {
        return REFUSAL_LIMIT_REACHED;
    }
    return state->available < qty || state->room < qty ? REFUSAL_NO_STOCK : REFUSAL_NONE;
}

struct ledger_event ledger_order_event(enum ledger_event_kind kind, const struct order_row *order)
{
    return (struct ledger_event){
        .kind = kind,
        .segment = (int32_t)order->segment,
        .sale = order->sale,
        .item = order->item,
        .user = order->user,
        .id = order->id,
        .qty = order->qty,
        .reason = order->reason,
        .a = kind == EVENT_ORDER_LOCKED ? order->pay_by_ms : order->cooling_until_ms,
    };
}

struct ledger_event ledger_booked_event(const struct order_row *order, int64_t available)
{
    bool alive = order->state == ORDER_LOCKED;
    struct ledger_event event =
        ledger_order_event(alive ? EVENT_ORDER_LOCKED : EVENT_ORDER_FAILED, order);
    event.b = alive && available == 0;
    return event;
}

/* ---- sales ---- */

void ledger_id_pass(uint64_t *next, uint64_t given)
{
    if (given >= *next && given <= COUNTED_ID_MAX) {
        *next = given + 1;
    }
}

uint64_t ledger_item_id(const struct sale_row *have, const struct sale_row *given, uint32_t at)
{
    if (given->items[at].id != 0) {
        return given->items[at].id;
    }
    uint64_t id = have != NULL && at < have->items_count ? have->items[at].id : 0;
    for (uint32_t i = 0; i < given->items_count; i++) {
        if (given->items[i].id == id) {
            return 0;
        }
    }
    return id;
}

bool ledger_item_is_double(const struct sale_row *sale, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++) {
        if (sale->items[i].id == sale->items[at].id) {
            return true;
        }
    }
    return false;
}

static bool item_same(const struct item_row *have, const struct item_row *given)
{
    return (given->id == 0 || given->id == have->id) && given->price_cents == have->price_cents &&
           given->was_cents == have->was_cents && given->limit_per_user == have->limit_per_user &&
           given->total == have->total && strcmp(given->name, have->name) == 0 &&
           strcmp(given->sku, have->sku) == 0 && strcmp(given->image_url, have->image_url) == 0;
}

static bool items_same(const struct sale_row *have, const struct sale_row *given)
{
    if (have->items_count != given->items_count) {
        return false;
    }
    for (uint32_t i = 0; i < have->items_count; i++) {
        if (!item_same(&have->items[i], &given->items[i])) {
            return false;
        }
    }
    return true;
}

uint32_t ledger_sale_differs(const struct sale_row *have, const struct sale_row *given,
                             uint32_t changes)
{
    const struct {
        uint32_t member;
        bool same;
    } members[] = {
        {SALE_HAS_NAME, strcmp(have->name, given->name) == 0},
        {SALE_HAS_STARTS, have->starts_at_ms == given->starts_at_ms},
        {SALE_HAS_ENDS, have->ends_at_ms == given->ends_at_ms},
        {SALE_HAS_PAY_WITHIN, have->pay_within_s == given->pay_within_s},
        {SALE_HAS_CURRENCY, strcmp(have->currency, given->currency) == 0},
        {SALE_HAS_PAY_URL, strcmp(have->pay_url, given->pay_url) == 0},
        {SALE_HAS_BAR, have->bar_unpaid == given->bar_unpaid},
        {SALE_HAS_ITEMS, (changes & SALE_HAS_ITEMS) == 0 || items_same(have, given)},
    };
    uint32_t differs = 0;
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        if (!members[i].same) {
            differs |= members[i].member;
        }
    }
    return differs & changes;
}

void ledger_sale_take_over(struct sale_row *sale, const struct sale_row *given, uint32_t differs)
{
    if (differs & SALE_HAS_NAME) {
        memcpy(sale->name, given->name, sizeof(sale->name));
    }
    if (differs & SALE_HAS_STARTS) {
        sale->starts_at_ms = given->starts_at_ms;
    }
    if (differs & SALE_HAS_ENDS) {
        sale->ends_at_ms = given->ends_at_ms;
    }
    if (differs & SALE_HAS_PAY_WITHIN) {
        sale->pay_within_s = given->pay_within_s;
    }
    if (differs & SALE_HAS_CURRENCY) {
        memcpy(sale->currency, given->currency, sizeof(sale->currency));
    }
    if (differs & SALE_HAS_PAY_URL) {
        memcpy(sale->pay_url, given->pay_url, sizeof(sale->pay_url));
    }
    if (differs & SALE_HAS_BAR) {
        sale->bar_unpaid = given->bar_unpaid;
    }
}

enum refusal ledger_sale_change_refusal(const struct sale_row *sale, uint32_t differs)
{
    if (sale->state != SALE_DRAFT) {
        bool too_much = (differs & ~(uint32_t)(SALE_HAS_NAME | SALE_HAS_ENDS)) != 0;
        bool too_late = (differs & SALE_HAS_ENDS) != 0 && sale->state == SALE_CLOSED;
        if (too_much || too_late) {
            return REFUSAL_BAD_STATE;
        }
    }
    return sale->ends_at_ms <= sale->starts_at_ms ? REFUSAL_BAD_REQUEST : REFUSAL_NONE;
}

/* The moves of a sale, from (row) to (column). WARM of an open or paused sale is a repetition: a
 * warmed sale opens by itself. */
static const enum ledger_move sale_moves[SALE_STATE_COUNT][SALE_STATE_COUNT] = {
    [SALE_DRAFT] = {[SALE_WARM] = LEDGER_MOVE_LOADS, [SALE_OPEN] = LEDGER_MOVE_LOADS},
    [SALE_WARM] = {[SALE_WARM] = LEDGER_MOVE_SAME,
                   [SALE_OPEN] = LEDGER_MOVE_PLAIN,
                   [SALE_PAUSED] = LEDGER_MOVE_PLAIN,
                   [SALE_CLOSED] = LEDGER_MOVE_PLAIN},
    [SALE_OPEN] = {[SALE_WARM] = LEDGER_MOVE_SAME,
                   [SALE_OPEN] = LEDGER_MOVE_SAME,
                   [SALE_PAUSED] = LEDGER_MOVE_PLAIN,
                   [SALE_CLOSED] = LEDGER_MOVE_PLAIN},
    [SALE_PAUSED] = {[SALE_WARM] = LEDGER_MOVE_SAME,
                     [SALE_OPEN] = LEDGER_MOVE_PLAIN,
                     [SALE_PAUSED] = LEDGER_MOVE_SAME,
                     [SALE_CLOSED] = LEDGER_MOVE_PLAIN},
    [SALE_CLOSED] = {[SALE_CLOSED] = LEDGER_MOVE_SAME},
};

enum ledger_move ledger_sale_move(const struct sale_row *sale, enum sale_state target,
                                  int64_t now_ms)
{
    enum ledger_move kind = sale_moves[sale->state][target];
    bool moves = kind == LEDGER_MOVE_LOADS || kind == LEDGER_MOVE_PLAIN;
    if (moves && target == SALE_OPEN && sale->ends_at_ms <= now_ms) {
        return LEDGER_MOVE_BAD;
    }
    if (moves && target == SALE_PAUSED && sale->starts_at_ms > now_ms) {
        return LEDGER_MOVE_BAD;
    }
    return kind;
}

enum ledger_event_kind ledger_sale_move_event(enum sale_state target)
{
    static const enum ledger_event_kind kinds[SALE_STATE_COUNT] = {
        [SALE_OPEN] = EVENT_SALE_OPENED,
        [SALE_PAUSED] = EVENT_SALE_PAUSED,
        [SALE_CLOSED] = EVENT_SALE_CLOSED,
    };
    return kinds[target];
}

struct ledger_event ledger_sale_warmed(const struct sale_row *sale)
{
    return (struct ledger_event){.kind = EVENT_SALE_WARMED,
                                 .sale = sale->id,
                                 .a = sale->starts_at_ms,
                                 .b = sale->ends_at_ms,
                                 .c = sale->bar_unpaid};
}

struct ledger_event ledger_item_loaded(const struct sale_row *sale, uint32_t at)
{
    return (struct ledger_event){.kind = EVENT_ITEM_LOADED,
                                 .sale = sale->id,
                                 .item = sale->items[at].id,
                                 .a = (int64_t)sale->items[at].total,
                                 .b = sale->items[at].limit_per_user};
}

uint64_t ledger_share(uint64_t units, uint32_t segments, uint32_t segment)
{
    CHECK(segment < segments);
    return units / segments + (segment < units % segments ? 1 : 0);
}

uint64_t ledger_home_share(const struct sale_row *sale, uint64_t units, uint32_t segment)
{
    return sale->regions.count == 0 ? ledger_share(units, sale->homes, segment)
                                    : regions_share(&sale->regions, units, sale->homes, segment);
}

struct ledger_event ledger_share_loaded(const struct sale_row *sale, uint32_t at, uint32_t segment)
{
    struct ledger_event event = ledger_item_loaded(sale, at);
    event.segment = (int32_t)segment;
    event.a = (int64_t)ledger_home_share(sale, sale->items[at].total, segment);
    return event;
}

static const char *const transfer_texts[] = {
#define X(name, text) text,
    TRANSFER_STATES(X)
#undef X
};

const char *ledger_transfer_text(enum transfer_state state)
{
    CHECK((unsigned)state < TRANSFER_STATE_COUNT);
    return transfer_texts[state];
}

int ledger_transfer_parse(struct span text, enum transfer_state *ret_state)
{
    for (int i = 0; i < TRANSFER_STATE_COUNT; i++) {
        if (span_is(text, transfer_texts[i])) {
            *ret_state = (enum transfer_state)i;
            return 0;
        }
    }
    return ERR_CORRUPT;
}

bool ledger_transfer_is_stale(const struct ledger_op *op, uint64_t epoch, uint64_t to_epoch)
{
    return (op->epoch != 0 && op->epoch != epoch) ||
           (op->to_epoch != 0 && op->to_epoch != to_epoch);
}

enum refusal ledger_transfer_again(const struct ledger_transfer *have, const struct ledger_op *op)
{
    const struct transfer_row *row = &have->row;
    bool same = row->item == op->item && row->segment == op->segment &&
                row->to_segment == op->to_segment && row->amount == op->amount;
    return same ? REFUSAL_NONE : REFUSAL_DIFFERENT_REQUEST;
}

enum refusal ledger_transferred(const struct ledger_transfer *have, const struct ledger_op *op,
                                bool *ret_repeated)
{
    *ret_repeated = false;
    if (have->row.segment != op->segment) {
        return REFUSAL_DIFFERENT_REQUEST;
    }
    if (have->state == TRANSFER_DONE) {
        *ret_repeated = have->moved == op->amount;
        return *ret_repeated ? REFUSAL_NONE : REFUSAL_DIFFERENT_REQUEST;
    }
    if (have->state == TRANSFER_VOID || op->epoch != have->row.epoch) {
        return REFUSAL_STALE_EPOCH;
    }
    return op->amount > have->row.amount ? REFUSAL_BAD_REQUEST : REFUSAL_NONE;
}

/* stock.locked counts the units of LOCKED orders. Only the caller knows about QUEUED ones. */
bool ledger_sale_has_locked(const struct sale_row *sale)
{
    for (uint32_t i = 0; i < sale->items_count; i++) {
        if (sale->items[i].locked > 0) {
            return true;
        }
    }
    return false;
}
