/* See gate_model.h. */
#include "gate_model.h"

#include "base/check.h"

struct model model;

void model_clear(struct gate_sizes sizes)
{
    CHECK(sizes.orders <= MODEL_ENTRIES && sizes.buyers <= MODEL_ENTRIES);
    CHECK(sizes.items <= MODEL_ENTRIES && sizes.sales <= MODEL_ENTRIES);
    model = (struct model){.sizes = sizes};
}

struct model_sale *sale_of(uint64_t id)
{
    for (size_t i = 0; i < model.sales_count; i++) {
        if (model.sales[i].id == id) {
            return &model.sales[i];
        }
    }
    return NULL;
}

struct model_item *item_of(uint64_t id)
{
    for (size_t i = 0; i < model.items_count; i++) {
        if (model.items[i].id == id) {
            return &model.items[i];
        }
    }
    return NULL;
}

struct model_buyer *buyer_of(uint64_t item, uint64_t user)
{
    for (size_t i = 0; i < model.buyers_count; i++) {
        if (model.buyers[i].item == item && model.buyers[i].user == user) {
            return &model.buyers[i];
        }
    }
    return NULL;
}

struct model_order *order_of(struct order_id id)
{
    for (size_t i = 0; i < model.orders_count; i++) {
        if (model.orders[i].id.hi == id.hi && model.orders[i].id.lo == id.lo) {
            return &model.orders[i];
        }
    }
    return NULL;
}

static struct answer no(enum refusal refusal, uint64_t held)
{
    return (struct answer){VERDICT_REFUSED, refusal, held, NULL};
}

/* What the window says to a new order at this time; REFUSAL_NONE: come in. */
static enum refusal model_window(const struct model_sale *sale, int64_t now)
{
    if (sale->state == SALE_CLOSED || now >= sale->end) {
        return REFUSAL_ENDED;
    }
    if (sale->state == SALE_PAUSED) {
        return REFUSAL_NOT_OPEN;
    }
    return now < sale->start ? REFUSAL_TOO_EARLY : REFUSAL_NONE;
}

/* One each: the id is the buyer's own, and of his present attempt. Others: a fresh one. */
static bool model_id_fits(const struct gate_command *c, const struct model_item *item,
                          const struct model_buyer *buyer)
{
    bool once = c->id.hi >> 62 == ORDER_ONCE;
    if (item->limit != 1 || !once) {
        return item->limit != 1 && !once;
    }
    return order_id_equal(
        c->id,
        order_id_once(c->item, c->user, buyer != NULL ? (uint32_t)buyer->failed_attempts : 0));
}

/* An order that was evicted must not be decided again. The gate cannot list all of them, so it suspects
 * some ids that never were an order. */
static bool model_suspects(const struct gate_command *c, const struct model_item *item)
{
    if (item->evicted == 0 || (c->absent_lsn != 0 && item->evicted_lsn <= c->absent_lsn)) {
        return false;
    }
    bool once = c->id.hi >> 62 == ORDER_ONCE;
    if (once != (item->limit == 1)) {
        return false;
    }
    if (!once) {
        return order_id_ms(c->id) <= item->evicted_newest;
    }
    const struct model_buyer *buyer = buyer_of(c->item, order_id_user(c->id));
    return buyer != NULL &&
           order_id_attempt(c->id) < buyer->failed_attempts + (buyer->held > 0 || buyer->barred);
}

static bool model_was_evicted(const struct gate_command *c)
{
    for (size_t i = 0; i < model.evicted_count && i < MODEL_EVICTED; i++) {
        if (order_id_equal(model.evicted[i], c->id)) {
            return true;
        }
    }
    return false;
}

static bool model_used_up(size_t used, uint32_t share)
{
    return share != 0 && used >= share;
}

/* What is full for one more order. */
static enum gate_bound model_bound(const struct model_item *item, const struct model_buyer *buyer)
{
    size_t of_buyer = 0;
    size_t of_item = 0;
    size_t of_sale = 0;
    size_t buyers = 0;
    for (size_t i = 0; i < model.orders_count; i++) {
        const struct model_order *order = &model.orders[i];
        if (order->state == ORDER_QUEUED || order->state == ORDER_LOCKED) {
            of_sale += item_of(order->item)->sale == item->sale;
            of_item += order->item == item->id;
            of_buyer += order->item == item->id && buyer != NULL && order->user == buyer->user;
        }
    }
    for (size_t i = 0; i < model.buyers_count; i++) {
        buyers += item_of(model.buyers[i].item)->sale == item->sale;
    }
    return model.orders_count == model.sizes.orders                    ? GATE_BOUND_ORDERS
           : buyer == NULL && model.buyers_count == model.sizes.buyers ? GATE_BOUND_BUYERS
           : model_used_up(of_buyer, model.shares.buyer_orders)        ? GATE_BOUND_BUYER_SHARE
           : model_used_up(of_item, model.shares.item_orders)          ? GATE_BOUND_ITEM_SHARE
           : model_used_up(of_sale, model.shares.sale_orders)          ? GATE_BOUND_SALE_SHARE
           : buyer == NULL && model_used_up(buyers, model.shares.sale_buyers)
               ? GATE_BOUND_SALE_BUYERS
               : GATE_BOUND_NONE;
}

/* The refusal of a new order, in the order of the public contract. */
static enum refusal model_reserve_refusal(const struct gate_command *c,
                                          const struct model_item *item,
                                          const struct model_buyer *buyer)
{
    uint64_t held = buyer != NULL ? buyer->held : 0;
    enum refusal window = model_window(sale_of(item->sale), c->now_ms);
    if ((uint64_t)c->now_ms >= c->ticket_expires_ms || !model_id_fits(c, item, buyer)) {
        return REFUSAL_BAD_TICKET;
    }
    if (window != REFUSAL_NONE) {
        return window;
    }
    if (item->available == 0) {
        return REFUSAL_SOLD_OUT;
    }
    if (buyer != NULL && (buyer->barred || c->now_ms < buyer->cooling)) {
        return REFUSAL_BARRED;
    }
    bool too_often = buyer != NULL && buyer->failed_attempts >= BUYER_FAILED_ATTEMPTS_MAX;
    if (too_often || (item->limit != 0 && held + c->qty > item->limit)) {
        return REFUSAL_LIMIT_REACHED;
    }
    if (c->qty > item->available) {
        return REFUSAL_SOLD_OUT;
    }
    return model_bound(item, buyer) != GATE_BOUND_NONE ? REFUSAL_OVERLOADED : REFUSAL_NONE;
}

static struct answer model_reserve(const struct gate_command *c)
{
    model.bound = GATE_BOUND_NONE;
    struct model_item *item = item_of(c->item);
    if (item == NULL || order_id_item(c->id) != c->item) {
        return no(REFUSAL_NO_SUCH_ITEM, 0);
    }
    struct model_buyer *buyer = buyer_of(c->item, c->user);
    uint64_t held = buyer != NULL ? buyer->held : 0;
    const struct model_order *there = order_of(c->id);
    if (there != NULL) {
        return there->user != c->user ? no(REFUSAL_BAD_TICKET, held)
               : there->qty != c->qty
                   ? no(REFUSAL_DIFFERENT_REQUEST, held)
                   : (struct answer){VERDICT_ALREADY_APPLIED, REFUSAL_NONE, held, there};
    }
    /* A buyer who never had an order of the item needs no question. A ticket names its buyer, so nobody
     * else comes with the id of his order. */
    bool suspects = buyer != NULL && model_suspects(c, item);
    /* A closed sale may have lost the buyer's record: it is being forgotten. It decides nothing. */
    CHECK(suspects || buyer == NULL || c->absent_lsn != 0 ||
          sale_of(item->sale)->state == SALE_CLOSED || !model_was_evicted(c));
    if (suspects) {
        return no(REFUSAL_UNKNOWN_OUTCOME, held);
    }
    enum refusal refusal = model_reserve_refusal(c, item, buyer);
    if (refusal != REFUSAL_NONE) {
        model.bound = refusal == REFUSAL_OVERLOADED ? model_bound(item, buyer) : GATE_BOUND_NONE;
        return no(refusal, held);
    }
    if (buyer == NULL) {
        buyer = &model.buyers[model.buyers_count++];
        *buyer = (struct model_buyer){.item = c->item, .user = c->user};
    }
    buyer->held += c->qty;
    item->available -= c->qty;
    item->locked += c->qty;
    item->version++;
    struct model_order *order = &model.orders[model.orders_count++];
    *order = (struct model_order){.id = c->id,
                                  .user = c->user,
                                  .item = c->item,
                                  .qty = c->qty,
                                  .state = ORDER_QUEUED,
                                  .version = 1,
                                  .created = c->now_ms};
    return (struct answer){VERDICT_DONE, REFUSAL_NONE, buyer->held, order};
}

static struct answer model_move(const struct gate_command *c, enum order_state from,
                                enum order_state to)
{
    struct model_order *order = order_of(c->id);
    if (order == NULL) {
        return no(REFUSAL_NOT_FOUND, 0);
    }
    if (order->state == to) {
        return (struct answer){VERDICT_ALREADY_APPLIED, REFUSAL_NONE, 0, order};
    }
    if (order->state != from) {
        return no(REFUSAL_BAD_STATE, 0);
    }
    struct model_item *item = item_of(order->item);
    order->state = to;
    order->version++;
    item->version++;
    if (to == ORDER_LOCKED) {
        order->pay_by = (int64_t)c->time_ms;
        return (struct answer){VERDICT_DONE, REFUSAL_NONE, 0, order};
    }
    item->locked -= order->qty;
    if (to == ORDER_PAID) {
        item->sold += order->qty;
        return (struct answer){VERDICT_DONE, REFUSAL_NONE, 0, order};
    }
    if (to == ORDER_FAILED) {
        order->reason = (enum refusal)c->reason;
    } else if (c->kind == GATE_CANCEL_LATE) {
        order->reason = REFUSAL_BARRED;
    }
    if (to == ORDER_FAILED && order->reason == REFUSAL_NO_STOCK) {
        item->total -= order->qty;
    } else {
        item->available += order->qty;
    }
    struct model_buyer *buyer = buyer_of(order->item, order->user);
    buyer->held -= order->qty;
    if (c->kind == GATE_CANCEL_LATE || (to == ORDER_EXPIRED && sale_of(item->sale)->bars)) {
        buyer->barred = true;
    } else {
        buyer->failed_attempts++;
    }
    bool cools = c->kind == GATE_CANCEL_COOLING || c->kind == GATE_EXPIRE_COOLING;
    if (cools && (int64_t)c->time_ms > buyer->cooling) {
        buyer->cooling = (int64_t)c->time_ms;
    }
    buyer->cooling = buyer->barred ? 0 : buyer->cooling;
    return (struct answer){VERDICT_DONE, REFUSAL_NONE, 0, order};
}

static struct answer model_stock(const struct gate_command *c)
{
    struct model_item *item = item_of(c->item);
    if (item == NULL) {
        return no(REFUSAL_NO_SUCH_ITEM, 0);
    }
    if (c->kind == GATE_TRANSFER_OUT) {
        if (c->amount > item->available) {
            return no(REFUSAL_SOLD_OUT, 0);
        }
        item->available -= c->amount;
        item->total -= c->amount;
    } else {
        if (c->amount > STOCK_MAX - item->total) {
            return no(REFUSAL_BAD_REQUEST, 0);
        }
        item->available += c->amount;
        item->total += c->amount;
    }
    item->version++;
    return (struct answer){VERDICT_DONE, REFUSAL_NONE, 0, NULL};
}

static struct answer model_load(const struct gate_command *c)
{
    struct model_sale *sale = sale_of(c->sale);
    if (c->kind == GATE_LOAD_SALE) {
        if (sale != NULL) {
            return (struct answer){VERDICT_ALREADY_APPLIED, REFUSAL_NONE, 0, NULL};
        }
        if (model.sales_count == model.sizes.sales) {
            return no(REFUSAL_OVERLOADED, 0);
        }
        model.sales[model.sales_count++] = (struct model_sale){.id = c->sale,
                                                               .start = (int64_t)c->starts_at_ms,
                                                               .end = (int64_t)c->ends_at_ms,
                                                               .bars = c->bar_unpaid != 0,
                                                               .state = SALE_WARM};
        return (struct answer){VERDICT_DONE, REFUSAL_NONE, 0, NULL};
    }
    if (sale == NULL) {
        return no(REFUSAL_NOT_FOUND, 0);
    }
    if (item_of(c->item) != NULL) {
        return (struct answer){VERDICT_ALREADY_APPLIED, REFUSAL_NONE, 0, NULL};
    }
    if (c->amount > STOCK_MAX) {
        return no(REFUSAL_BAD_REQUEST, 0);
    }
    if (model.items_count == model.sizes.items) {
        return no(REFUSAL_OVERLOADED, 0);
    }
    for (size_t i = 0; i < MODEL_EVICTED; i++) { /* an item of that id may have been forgotten */
        if (order_id_item(model.evicted[i]) == c->item) {
            model.evicted[i] = (struct order_id){0, 0};
        }
    }
    model.items[model.items_count++] = (struct model_item){.id = c->item,
                                                           .sale = c->sale,
                                                           .total = c->amount,
                                                           .available = c->amount,
                                                           .limit = c->limit,
                                                           .evicted_newest = -1,
                                                           .version = 1};
    return (struct answer){VERDICT_DONE, REFUSAL_NONE, 0, NULL};
}

static struct answer model_sale_command(const struct gate_command *c)
{
    struct model_sale *sale = sale_of(c->sale);
    if (sale == NULL) {
        return no(REFUSAL_NOT_FOUND, 0);
    }
    /* Closed is for good; when it ended may still be told. */
    if (sale->state == SALE_CLOSED && c->kind != GATE_CLOSE && c->kind != GATE_RETIME) {
        return no(REFUSAL_BAD_STATE, 0);
    }
    if (c->kind == GATE_OPEN) {
        sale->state = SALE_OPEN;
        sale->start = (int64_t)c->starts_at_ms;
    } else if (c->kind == GATE_PAUSE) {
        sale->state = SALE_PAUSED;
    } else if (c->kind == GATE_CLOSE) {
        sale->state = SALE_CLOSED;
    } else {
        sale->end = (int64_t)c->ends_at_ms;
    }
    for (size_t i = 0; i < model.items_count; i++) {
        model.items[i].version += model.items[i].sale == c->sale;
    }
    return (struct answer){VERDICT_DONE, REFUSAL_NONE, 0, NULL};
}

static struct answer model_evict(const struct gate_command *c)
{
    struct model_order *order = order_of(c->id);
    if (order == NULL) {
        return (struct answer){VERDICT_ALREADY_APPLIED, REFUSAL_NONE, 0, NULL};
    }
    if (order->state == ORDER_QUEUED || order->state == ORDER_LOCKED) {
        return no(REFUSAL_BAD_STATE, 0);
    }
    struct model_item *item = item_of(order->item);
    item->evicted++;
    item->evicted_sold += order->state == ORDER_PAID ? order->qty : 0;
    item->evicted_lsn = order->lsn > item->evicted_lsn ? order->lsn : item->evicted_lsn;
    if (order->id.hi >> 62 == ORDER_FRESH && order_id_ms(order->id) > item->evicted_newest) {
        item->evicted_newest = order_id_ms(order->id);
    }
    model.evicted[model.evicted_count++ % MODEL_EVICTED] = order->id;
    size_t at = (size_t)(order - model.orders);
    for (model.orders_count--; at < model.orders_count; at++) {
        model.orders[at] = model.orders[at + 1];
    }
    return (struct answer){VERDICT_DONE, REFUSAL_NONE, 0, NULL};
}

static uint64_t sale_of_item(uint64_t item)
{
    return item_of(item)->sale;
}

static size_t entries_of(uint64_t sale)
{
    size_t n = 0;
    for (size_t i = 0; i < model.orders_count; i++) {
        n += sale_of_item(model.orders[i].item) == sale;
    }
    for (size_t i = 0; i < model.buyers_count; i++) {
        n += sale_of_item(model.buyers[i].item) == sale;
    }
    return n;
}

/* Whether it is done follows from the number of entries; model_forgotten() takes them away. */
static struct answer model_forget(const struct gate_command *c)
{
    const struct model_sale *sale = sale_of(c->sale);
    if (sale == NULL) {
        return (struct answer){VERDICT_ALREADY_APPLIED, REFUSAL_NONE, 0, NULL};
    }
    if (sale->state != SALE_CLOSED || c->qty == 0) {
        return no(REFUSAL_BAD_STATE, 0);
    }
    return (struct answer){entries_of(c->sale) <= c->qty ? VERDICT_DONE : VERDICT_MORE,
                           REFUSAL_NONE, 0, NULL};
}

void model_forgotten(const struct gate *gate, const struct gate_command *c, bool all)
{
    size_t before = entries_of(c->sale);
    size_t kept = 0;
    for (size_t i = 0; i < model.orders_count; i++) {
        const struct model_order *order = &model.orders[i];
        bool gone = sale_of_item(order->item) == c->sale &&
                    (all || gate_find_order(gate, order->id) == GATE_NONE);
        if (!gone) {
            model.orders[kept++] = *order;
        }
    }
    model.orders_count = kept;
    kept = 0;
    for (size_t i = 0; i < model.buyers_count; i++) {
        const struct model_buyer *buyer = &model.buyers[i];
        uint32_t slot = gate_find_item(gate, buyer->item);
        bool gone = sale_of_item(buyer->item) == c->sale &&
                    (all || slot == GATE_NONE || gate_find_buyer(gate, slot, buyer->user) == NULL);
        if (!gone) {
            model.buyers[kept++] = *buyer;
        }
    }
    model.buyers_count = kept;
    CHECK(before - entries_of(c->sale) == (all ? before : c->qty));
    kept = 0;
    for (size_t i = 0; i < model.items_count; i++) {
        const struct model_item *item = &model.items[i];
        if (item->sale != c->sale || (!all && gate_find_item(gate, item->id) != GATE_NONE)) {
            model.items[kept++] = *item;
        }
    }
    model.items_count = kept;
    if (all) {
        struct model_sale *sale = sale_of(c->sale);
        *sale = model.sales[--model.sales_count];
    }
}

static struct answer model_dispatch(const struct gate_command *c)
{
    switch (c->kind) {
    case GATE_RESERVE:
        return model_reserve(c);
    case GATE_CONFIRM:
        return model_move(c, ORDER_QUEUED, ORDER_LOCKED);
    case GATE_FAIL_ORDER:
        return model_move(c, ORDER_QUEUED, ORDER_FAILED);
    case GATE_PAY:
        return model_move(c, ORDER_LOCKED, ORDER_PAID);
    case GATE_CANCEL:
    case GATE_CANCEL_LATE:
    case GATE_CANCEL_COOLING:
        return model_move(c, ORDER_LOCKED, ORDER_CANCELLED);
    case GATE_EXPIRE:
    case GATE_EXPIRE_COOLING:
        return model_move(c, ORDER_LOCKED, ORDER_EXPIRED);
    case GATE_RESTOCK:
    case GATE_TRANSFER_OUT:
    case GATE_TRANSFER_IN:
        return model_stock(c);
    case GATE_LOAD_SALE:
    case GATE_LOAD_ITEM:
        return model_load(c);
    case GATE_OPEN:
    case GATE_PAUSE:
    case GATE_CLOSE:
    case GATE_RETIME:
        return model_sale_command(c);
    case GATE_FORGET:
        return model_forget(c);
    case GATE_EVICT:
        return model_evict(c);
    case GATE_SKIP:
        return (struct answer){VERDICT_DONE, REFUSAL_NONE, 0, NULL};
    default:
        return no(REFUSAL_BAD_REQUEST, 0);
    }
}

struct answer model_step(const struct gate_command *c)
{
    if (c->kind == GATE_SET_TIME) {
        model.highest = c->now_ms;
        return (struct answer){VERDICT_DONE, REFUSAL_NONE, 0, NULL};
    }
    bool follows = c->kind != GATE_RESERVE && c->kind != GATE_EVICT;
    if (follows && c->event <= model.event) {
        return (struct answer){VERDICT_ALREADY_APPLIED, REFUSAL_NONE, 0, NULL};
    }
    struct answer answer = model_dispatch(c);
    bool changed = answer.verdict == VERDICT_DONE || answer.verdict == VERDICT_MORE;
    if (changed && c->now_ms > model.highest) {
        model.highest = c->now_ms;
    }
    if (follows && answer.verdict == VERDICT_DONE) {
        model.event = c->event;
    }
    return answer;
}

/* ---- comparison, with CHECKs, so that the output names the difference ---- */

static void compare_order(const struct gate *gate, const struct model_order *order)
{
    uint32_t slot = gate_find_order(gate, order->id);
    CHECK(slot != GATE_NONE);
    struct order_view view;
    gate_view_order(gate, slot, &view);
    CHECK(order_id_equal(view.id, order->id));
    CHECK(view.user == order->user && view.item == order->item && view.qty == order->qty);
    CHECK(view.state == order->state && view.reason == order->reason);
    CHECK(view.version == order->version);
    CHECK(view.created_at_ms == order->created && view.pay_by_ms == order->pay_by);
}

static void compare_item(const struct gate *gate, const struct model_item *item)
{
    uint32_t slot = gate_find_item(gate, item->id);
    CHECK(slot != GATE_NONE);
    struct item_view view;
    gate_view_item(gate, slot, &view);
    const struct model_sale *sale = sale_of(item->sale);
    CHECK(view.item == item->id && view.sale == item->sale);
    CHECK(view.total == item->total && view.available == item->available);
    CHECK(view.locked == item->locked && view.sold == item->sold);
    CHECK(view.limit_per_user == item->limit && view.version == item->version);
    CHECK(gate->items[slot].evicted == item->evicted);
    CHECK(gate->items[slot].evicted_sold == item->evicted_sold);
    CHECK(gate->items[slot].evicted_lsn == item->evicted_lsn);
    CHECK(gate->items[slot].evicted_end == item->evicted_newest + 1);
    CHECK(view.sale_state == sale->state);
    CHECK(view.starts_at_ms == sale->start && view.ends_at_ms == sale->end);
    CHECK(view.available + view.locked + view.sold == view.total);
}

void model_compare(const struct gate *gate)
{
    CHECK(gate->sales_used == model.sales_count && gate->item_pool.used == model.items_count);
    CHECK(gate->buyer_pool.used == model.buyers_count);
    CHECK(gate->order_pool.used == model.orders_count);
    CHECK(gate->applied_event == model.event && gate->highest_ms == model.highest);
    for (size_t i = 0; i < model.sales_count; i++) {
        CHECK(gate_find_sale(gate, model.sales[i].id) != GATE_NONE);
    }
    for (size_t i = 0; i < model.items_count; i++) {
        compare_item(gate, &model.items[i]);
    }
    for (size_t i = 0; i < model.buyers_count; i++) {
        const struct model_buyer *buyer = &model.buyers[i];
        const struct gate_buyer *found =
            gate_find_buyer(gate, gate_find_item(gate, buyer->item), buyer->user);
        CHECK(found != NULL && found->held == buyer->held &&
              found->failed_attempts == buyer->failed_attempts);
        CHECK((found->barred != 0) == buyer->barred);
        CHECK(found->cooling_until_ms == buyer->cooling);
    }
    for (size_t i = 0; i < model.orders_count; i++) {
        compare_order(gate, &model.orders[i]);
    }
}

void model_compare_effects(const struct gate *gate, const struct gate_command *c,
                           const struct answer *want, enum verdict verdict,
                           const struct gate_effects *effects)
{
    CHECK(verdict == want->verdict);
    CHECK(effects->refusal == want->refusal);
    CHECK(c->kind != GATE_RESERVE || effects->bound == model.bound);
    CHECK(effects->held == want->held);
    if (want->order != NULL) {
        CHECK(effects->slot == gate_find_order(gate, want->order->id));
    } else if (c->kind == GATE_RESERVE) {
        CHECK(effects->slot == GATE_NONE);
    }
    const struct model_item *item = item_of(c->item);
    if (c->kind == GATE_RESERVE && item != NULL && want->refusal != REFUSAL_NO_SUCH_ITEM) {
        CHECK(effects->available == item->available && effects->locked == item->locked);
        CHECK(effects->limit == item->limit);
    }
    const struct model_buyer *buyer = buyer_of(c->item, c->user);
    CHECK(effects->cooling_until_ms == (want->refusal == REFUSAL_BARRED ? buyer->cooling : 0));
}
