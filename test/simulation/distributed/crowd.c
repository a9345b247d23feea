/* See world.h: buyers, each of which buys one order from ticket to final state; and an operator. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "world.h"

#define PRICE_CENTS 1000
#define PATIENCE_US 4000000
#define FOR_EVER_US 1000000000000

struct buyer {
    struct world *world;
    uint64_t user;
    uint32_t payments;
};

static uint64_t item_of(uint32_t index)
{
    return 11 + index;
}

static uint32_t some_front(struct world *world)
{
    return (uint32_t)world_below(world, PROCESSES);
}

/* ---- buying ---- */

static bool get_ticket(struct buyer *buyer, uint32_t item, struct gate_request *ret_buy)
{
    struct world *world = buyer->world;
    struct gate_request request = {
        .kind = GATE_REQUEST_TICKET, .user = buyer->user, .item = item_of(item)};
    if (!front_request(world, some_front(world), &request, PATIENCE_US) ||
        request.refusal != REFUSAL_NONE) {
        return false;
    }
    struct order_id id =
        world->plan.limits[item] == 1
            ? order_id_once(request.item, buyer->user, request.attempt)
            : order_id_fresh(request.item, WORLD_NOW_MS + world_now_us(world) / 1000,
                             ++world->sequence << ORDER_SEGMENT_BITS | request.segment);
    uint32_t limit = world->plan.limits[item];
    *ret_buy = (struct gate_request){
        .kind = GATE_REQUEST_BUY,
        .id = id,
        .user = buyer->user,
        .item = request.item,
        .qty = limit == 1 ? 1 : 1 + (uint32_t)world_below(world, limit == 0 ? 3 : limit),
        .ticket_expires_ms =
            WORLD_NOW_MS + world_now_us(world) / 1000 + world_between(world, 500, 30000)};
    return true;
}

/* The same ticket for another number: it must be refused. (While a segment is away, two fronts may
 * put one ticket into their lines, and neither can know.) */
static void cheat(struct buyer *buyer, const struct gate_request *buy)
{
    struct world *world = buyer->world;
    struct gate_request other = *buy;
    other.qty++;
    (void)front_request(world, some_front(world), &other, PATIENCE_US);
}

/* Until it is known what became of it, or he has had enough. True: there is an order. */
static bool try_to_buy(struct buyer *buyer, const struct gate_request *ticket)
{
    struct world *world = buyer->world;
    uint32_t tries = 1 + (uint32_t)world_below(world, 12);
    bool have = false;
    for (uint32_t i = 0; i < tries; i++) {
        struct gate_request buy = *ticket;
        bool hasty = (world->plan.faults >> FAULT_PATIENCE & 1) != 0 && world_chance(world, 100);
        bool answered = front_request(world, some_front(world), &buy, hasty ? 500 : PATIENCE_US);
        have = have || (answered && buy.refusal == REFUSAL_NONE && buy.has_order);
        bool again = !answered || refusal_text(buy.refusal)->retry == RETRY_SAME_TICKET ||
                     refusal_text(buy.refusal)->retry == RETRY_LATER;
        if (have ? !world_chance(world, 300) : !again) {
            break;
        }
        (void)fiber_sleep(world_about(world, 300000));
    }
    if (have && (world->plan.faults >> FAULT_AWAY & 1) == 0 && world_chance(world, 100)) {
        cheat(buyer, ticket);
    }
    return have;
}

/* ---- what comes behind ---- */

/* Until it is LOCKED or at its end; false: he gave up waiting. */
static bool follow(struct buyer *buyer, struct order_id id, struct order_view *ret_view)
{
    struct world *world = buyer->world;
    for (int i = 0; i < 60; i++) {
        struct gate_request request = {
            .kind = GATE_REQUEST_ORDER, .id = id, .user = buyer->user, .watch = true};
        if (front_request(world, some_front(world), &request, PATIENCE_US) &&
            request.refusal == REFUSAL_NONE && request.has_order &&
            request.order.state != ORDER_QUEUED) {
            *ret_view = request.order;
            return true;
        }
        (void)fiber_sleep(world_about(world, 400000));
    }
    return false;
}

static void write_about(struct buyer *buyer, enum ledger_kind kind, struct order_id id,
                        uint32_t qty)
{
    struct world *world = buyer->world;
    struct ledger_writer_op op = {.op = {.kind = kind, .id = id, .user = buyer->user}};
    op.op.amount_cents = (int64_t)PRICE_CENTS * qty;
    op.op.late_ms = world->plan.late_cancel_ms;
    op.op.cooling_ms = world->plan.cooling_ms;
    (void)snprintf(op.op.key, sizeof(op.op.key), "pay-%llu-%u", (unsigned long long)buyer->user,
                   ++buyer->payments);
    memcpy(op.op.fingerprint, op.op.key, sizeof(op.op.fingerprint));
    for (int i = 0; i < 4; i++) {
        struct ledger_writer_op again = op;
        if (front_post(world, some_front(world), &again, PATIENCE_US) && again.error == 0 &&
            again.op.refusal != REFUSAL_OVERLOADED) {
            return;
        }
        (void)fiber_sleep(world_about(world, 300000));
    }
}

static void pay_through_the_queue(struct buyer *buyer, struct order_id id, uint32_t qty)
{
    struct world *world = buyer->world;
    char payment[32];
    (void)snprintf(payment, sizeof(payment), "queued-%llu-%u", (unsigned long long)buyer->user,
                   ++buyer->payments);
    for (int i = 0; i < 4 && !cashier_pays(world, id, payment, (int64_t)PRICE_CENTS * qty); i++) {
        (void)fiber_sleep(world_about(world, 300000));
    }
}

static void settle(struct buyer *buyer, const struct gate_request *buy)
{
    struct world *world = buyer->world;
    struct order_view view;
    if (world_chance(world, 100) || !follow(buyer, buy->id, &view) || view.state != ORDER_LOCKED) {
        return;
    }
    uint64_t habit = world_below(world, 10);
    if (habit < 2) {
        pay_through_the_queue(buyer, buy->id, buy->qty);
    } else if (habit < 5) {
        write_about(buyer, LEDGER_PAY, buy->id, buy->qty);
    } else if (habit < 7) {
        write_about(buyer, LEDGER_CANCEL, buy->id, buy->qty);
    } else if (habit < 8) { /* about when it ends */
        (void)fiber_sleep(world->plan.pay_within_s * 1000000LL - world_between(world, 0, 500000));
        write_about(buyer, LEDGER_PAY, buy->id, buy->qty);
    } else if (habit < 9) { /* two at once, by and by */
        write_about(buyer, LEDGER_CANCEL, buy->id, buy->qty);
        write_about(buyer, LEDGER_PAY, buy->id, buy->qty);
    }
    (void)follow(buyer, buy->id, &view);
}

static void run_buyer(void *context)
{
    struct buyer *buyer = context;
    struct world *world = buyer->world;
    while (!world->is_open) {
        (void)fiber_sleep(100000);
    }
    (void)fiber_sleep(world_between(world, 0, world->plan.ends_us * 2 / 3));
    for (uint32_t i = 0; i < world->plan.buys && !world->healed; i++) {
        struct gate_request buy;
        if (get_ticket(buyer, (uint32_t)world_below(world, ITEMS), &buy)) {
            if (world_chance(world, 100)) {
                (void)fiber_sleep(world_between(world, 0, 3000000));
            }
            if (try_to_buy(buyer, &buy)) {
                settle(buyer, &buy);
            }
        }
        (void)fiber_sleep(world_about(world, 500000));
    }
    world->clients--;
    free(buyer);
}

/* ---- the operator ---- */

/* Until it is done; its refusal. */
static enum refusal insist(struct world *world, const struct ledger_op *op)
{
    for (;;) {
        struct ledger_writer_op post = {.op = *op};
        if (front_post(world, some_front(world), &post, FOR_EVER_US) && post.error == 0 &&
            post.op.refusal != REFUSAL_OVERLOADED) {
            sale_row_free(post.op.sale);
            return post.op.refusal;
        }
        (void)fiber_sleep(world_about(world, 200000));
    }
}

static void make_sale(struct world *world)
{
    struct item_row items[ITEMS];
    struct sale_row sale = {.id = WORLD_SALE,
                            .state = SALE_DRAFT,
                            .bar_unpaid = world->plan.bar_unpaid,
                            .pay_within_s = world->plan.pay_within_s,
                            .starts_at_ms = WORLD_NOW_MS + 1000,
                            .ends_at_ms = WORLD_NOW_MS + world->plan.ends_us / 1000,
                            .name = "a sale",
                            .currency = "CNY",
                            .items_count = ITEMS,
                            .items = items};
    memset(items, 0, sizeof(items));
    for (uint32_t i = 0; i < ITEMS; i++) {
        items[i].id = item_of(i);
        items[i].price_cents = PRICE_CENTS;
        items[i].limit_per_user = world->plan.limits[i];
        items[i].total = world->plan.totals[i];
    }
    (void)insist(world, &(struct ledger_op){.kind = LEDGER_SALE_CREATE, .sale_in = &sale});
    (void)insist(world, &(struct ledger_op){
                            .kind = LEDGER_SALE_MOVE, .sale_id = WORLD_SALE, .target = SALE_OPEN});
    world->is_open = true;
    world_note(world, "sale is open", 0, 0, 0);
}

static void run_operator(void *context)
{
    struct world *world = context;
    make_sale(world);
    uint32_t calls = (uint32_t)world_below(world, 5);
    for (uint32_t i = 0; i < calls && !world->healed; i++) {
        (void)fiber_sleep(world_between(world, 0, world->plan.ends_us / 4));
        struct ledger_op op = {.kind = LEDGER_RESTOCK,
                               .item = item_of((uint32_t)world_below(world, ITEMS)),
                               .amount = 1 + world_below(world, 12)};
        (void)snprintf(op.key, sizeof(op.key), "restock-%u", i);
        if (world_chance(world, 700)) {
            (void)insist(world, &op);
            continue;
        }
        op = (struct ledger_op){
            .kind = LEDGER_SALE_MOVE, .sale_id = WORLD_SALE, .target = SALE_PAUSED};
        (void)insist(world, &op);
        (void)fiber_sleep(world_between(world, 0, 2000000));
        op.target = SALE_OPEN;
        (void)insist(world, &op);
    }
    if (world_chance(world, 200)) {
        (void)fiber_sleep(world_between(world, 0, world->plan.ends_us / 2));
        (void)insist(world, &(struct ledger_op){.kind = LEDGER_SALE_MOVE,
                                                .sale_id = WORLD_SALE,
                                                .target = SALE_CLOSED});
    }
    world->clients--;
}

void crowd_start(struct world *world)
{
    world->clients = world->plan.users + 1;
    (void)fiber_start(world->fibers, 0, run_operator, world);
    for (uint32_t i = 0; i < world->plan.users; i++) {
        struct buyer *buyer = calloc(1, sizeof(*buyer));
        CHECK(buyer != NULL);
        *buyer = (struct buyer){world, 1000 + i * 7, 0};
        (void)fiber_start(world->fibers, 0, run_buyer, buyer);
    }
}
