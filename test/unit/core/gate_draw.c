/* See gate_draw.h. */
#include "gate_draw.h"

#include "gate_model.h"

#define SALES 4
#define ITEMS 9
#define USERS 25

struct prng draw_prng;
bool draw_evicts;
static uint64_t first_id;
static int64_t now_ms;
static struct gate_command unfinished; /* a FORGET that wants to be sent again */

void draw_begin(uint64_t first, int64_t start_ms)
{
    first_id = first;
    now_ms = start_ms;
    unfinished = (struct gate_command){.kind = GATE_KIND_NONE};
}

void draw_told(const struct gate_command *command, enum verdict verdict)
{
    if (command->kind == GATE_FORGET) {
        unfinished = verdict == VERDICT_MORE ? *command : (struct gate_command){0};
    }
}

static uint64_t draw(uint64_t bound)
{
    return prng_below(&draw_prng, bound);
}

static uint64_t draw_id(uint64_t count)
{
    return first_id + draw(count);
}

/* An item that exists, mostly. */
static uint64_t draw_item(void)
{
    if (model.items_count > 0 && draw(20) != 0) {
        return model.items[draw(model.items_count)].id;
    }
    return draw_id(ITEMS);
}

/* An order that exists, mostly, and is not final yet, where a few tries find one. */
static struct order_id draw_order(void)
{
    const struct model_order *order = NULL;
    for (int i = 0; model.orders_count > 0 && i < 4; i++) {
        order = &model.orders[draw(model.orders_count)];
        if (!order_state_final(order->state)) {
            break;
        }
    }
    if (order != NULL && draw(20) != 0) {
        return order->id;
    }
    return order_id_fresh(draw_id(ITEMS), 1, (uint32_t)draw(50));
}

static void draw_reserve(struct gate_command *c)
{
    c->item = draw_item();
    c->user = draw_id(USERS);
    c->qty = draw(8) == 0 ? (uint32_t)(1 + draw(12)) : 1;
    c->ticket_expires_ms = (uint64_t)now_ms + draw(16) * 3;
    const struct model_item *item = item_of(c->item);
    const struct model_buyer *buyer = buyer_of(c->item, c->user);
    bool once = item != NULL && item->limit == 1;
    uint32_t attempt = buyer != NULL ? (uint32_t)buyer->failed_attempts : 0;
    c->absent_lsn = draw(3) != 0 ? 0 : draw(2) == 0 ? UINT64_MAX : 1 + draw(40000);
    switch (draw(40)) {
    case 6:
    case 7: /* an order that was evicted */
        if (model.evicted_count > 0) {
            uint64_t known =
                model.evicted_count < MODEL_EVICTED ? model.evicted_count : MODEL_EVICTED;
            c->id = model.evicted[draw(known)];
            c->item = order_id_item(c->id);
            c->user = order_id_kind(c->id) == ORDER_ONCE ? order_id_user(c->id) : c->user;
            return;
        }
        break;
    case 0: /* the wrong kind of id */
        once = !once;
        break;
    case 1: /* an older or later attempt */
        attempt = (uint32_t)draw(4);
        break;
    case 2: /* another buyer's id */
        c->id = order_id_once(c->item, draw_id(USERS), attempt);
        return;
    case 3: /* another item's */
        c->id = order_id_fresh(draw_id(ITEMS), 1, (uint32_t)draw(50));
        return;
    case 4:
    case 5: /* an order that may exist, by its owner or another */
        c->id = draw_order();
        c->item = order_id_item(c->id);
        if (order_of(c->id) != NULL && draw(3) != 0) {
            c->user = order_of(c->id)->user;
            c->qty = (uint32_t)order_of(c->id)->qty;
        }
        return;
    default:
        break;
    }
    c->id = once ? order_id_once(c->item, c->user, attempt)
                 : order_id_fresh(c->item, now_ms, (uint32_t)draw(1U << 20));
}

static void draw_sale_command(struct gate_command *c)
{
    static const enum gate_kind kinds[] = {GATE_LOAD_SALE, GATE_LOAD_SALE, GATE_LOAD_ITEM,
                                           GATE_LOAD_ITEM, GATE_LOAD_ITEM, GATE_LOAD_ITEM,
                                           GATE_OPEN,      GATE_OPEN,      GATE_OPEN,
                                           GATE_PAUSE,     GATE_RETIME};
    static const uint32_t limits[] = {1, 1, 3, 5, 0};
    c->kind = kinds[draw(sizeof(kinds) / sizeof(kinds[0]))];
    c->sale = draw_id(SALES);
    c->item = c->kind == GATE_LOAD_ITEM ? draw_id(ITEMS) : 0;
    c->amount = c->kind == GATE_LOAD_ITEM ? draw(30) : 0;
    if (c->kind == GATE_LOAD_ITEM && draw(40) == 0) {
        c->amount = STOCK_MAX + draw(2);
    }
    c->limit = c->kind == GATE_LOAD_ITEM ? limits[draw(5)] : 0;
    if (c->kind == GATE_LOAD_SALE || c->kind == GATE_OPEN) {
        c->starts_at_ms = (uint64_t)now_ms + draw(20) - draw(20);
    }
    if (c->kind == GATE_LOAD_SALE || c->kind == GATE_RETIME) {
        c->ends_at_ms = (uint64_t)now_ms + draw(4000) + (draw(10) == 0 ? 0 : 400);
    }
    c->bar_unpaid = c->kind == GATE_LOAD_SALE && draw(2) == 0;
}

static void draw_stock(struct gate_command *c)
{
    static const enum gate_kind kinds[] = {GATE_RESTOCK, GATE_TRANSFER_OUT, GATE_TRANSFER_IN};
    static const uint64_t amounts[] = {0, 1, 2, 7, STOCK_MAX, STOCK_MAX + 1, UINT64_MAX};
    c->kind = kinds[draw(3)];
    c->item = draw_item();
    c->amount = amounts[draw(draw(8) == 0 ? 7 : 4)];
}

/* A move the order's state allows, mostly. */
static void draw_move(struct gate_command *c)
{
    static const enum gate_kind queued[] = {GATE_CONFIRM, GATE_CONFIRM, GATE_CONFIRM,
                                            GATE_FAIL_ORDER};
    static const enum gate_kind locked[] = {GATE_PAY,         GATE_CANCEL,
                                            GATE_CANCEL_LATE, GATE_CANCEL_COOLING,
                                            GATE_EXPIRE,      GATE_EXPIRE_COOLING};
    static const enum refusal reasons[] = {REFUSAL_LIMIT_REACHED, REFUSAL_NO_STOCK};
    c->id = draw_order();
    c->item = order_id_item(c->id);
    const struct model_order *order = order_of(c->id);
    bool is_queued = order != NULL && order->state == ORDER_QUEUED;
    c->kind = (draw(8) == 0 ? !is_queued : is_queued) ? queued[draw(4)] : locked[draw(6)];
    bool cools = c->kind == GATE_CANCEL_COOLING || c->kind == GATE_EXPIRE_COOLING;
    c->time_ms = c->kind == GATE_CONFIRM ? (uint64_t)now_ms + 100
                 : cools                 ? (uint64_t)now_ms + draw(300)
                                         : 0;
    c->reason = c->kind == GATE_FAIL_ORDER ? reasons[draw(2)] : 0;
}

/* An order that is final, mostly; the older the sooner. */
static void draw_evict(struct gate_command *c)
{
    c->kind = GATE_EVICT;
    c->id = draw_order();
    for (size_t i = 0; i < model.orders_count && draw(10) != 0; i++) {
        if (order_state_final(model.orders[i].state) && draw(3) == 0) {
            c->id = model.orders[i].id;
            return;
        }
    }
}

/* Sales come to an end, and the sooner the fuller the gate is: none stands full for ever. */
static void draw_end(struct gate_command *c)
{
    bool full = model.orders_count == model.sizes.orders;
    c->sale = draw_id(SALES);
    const struct model_sale *sale = sale_of(c->sale);
    bool ended = sale != NULL && (sale->state == SALE_CLOSED || now_ms >= sale->end);
    if (sale != NULL && sale->state != SALE_CLOSED && (full || ended || draw(8) == 0)) {
        c->kind = GATE_CLOSE;
        return;
    }
    c->kind = GATE_FORGET;
    c->qty = (uint32_t)draw(draw(2) == 0 ? 4 : 300);
}

struct gate_command draw_command(void)
{
    struct gate_command c = {.kind = GATE_RESERVE};
    now_ms += (int64_t)draw(3);
    c.now_ms = draw(30) == 0 ? now_ms - (int64_t)draw(50) : now_ms;
    uint64_t luck = draw(1000);
    if (unfinished.kind == GATE_FORGET && luck < 700) {
        return unfinished;
    }
    if (luck < 430) {
        draw_reserve(&c);
        return c;
    }
    if (luck < 450 && draw_evicts) {
        draw_evict(&c);
        return c;
    }
    if (luck < 850) {
        draw_move(&c);
    } else if (luck < 890) {
        draw_stock(&c);
    } else if (luck < 960) {
        draw_sale_command(&c);
    } else if (luck < 996) {
        draw_end(&c);
    } else {
        c.kind = luck < 998 ? GATE_SKIP : GATE_KIND_NONE;
    }
    /* The next event, mostly; also one that was applied before, and one further on. */
    uint64_t number = draw(20);
    c.event = number == 0 ? model.event - (model.event > 0 ? draw(model.event) : 0)
                          : model.event + 1 + (number == 1 ? draw(3) : 0);
    return c;
}
