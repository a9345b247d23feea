/*
 * A refusal changed nothing, except 503 same-ticket, which says that the outcome is not known yet.
 *
 * Checked by cause: a unit taken, a payment and a cancellation each need a request that was not
 * refused: it was accepted, or its outcome is unknown to the client. It makes no difference whether
 * the refusals arrive before or after.
 *
 * And nobody is refused for a share that is not used up, or sold to above it. The orders that are not
 * final are counted here one by one, at the moment a segment decides. Orders that were accepted
 * before a segment was rebuilt may be above a share.
 */
#include "world.h"

static bool is_without_cause(const struct model_requests *requests)
{
    return requests->sent <= requests->refused;
}

void promise_09_look(struct world *world, const struct model_order *order)
{
    const char *what = NULL;
    if (order->booked && order->state != ORDER_FAILED && is_without_cause(&order->buys)) {
        what = "taken";
    } else if (order->state == ORDER_PAID && is_without_cause(&order->pays)) {
        what = "paid";
    } else if (order->state == ORDER_CANCELLED && is_without_cause(&order->cancels)) {
        what = "cancelled";
    }
    if (what != NULL) {
        world_broken(world, 9, "order %016llx%016llx was %s, though every request was refused",
                     (unsigned long long)order->id.hi, (unsigned long long)order->id.lo, what);
    }
}

void promise_09_told(struct world *world, const struct model_order *order,
                     struct model_requests *requests, enum refusal refusal)
{
    if (refusal != REFUSAL_NONE && refusal_text(refusal)->retry != RETRY_SAME_TICKET) {
        requests->refused++;
        promise_09_look(world, order);
    }
}

/* ---- shares ---- */

struct used {
    struct gate_shares now;
    uint32_t orders; /* of the buyer, of the item, also final ones */
    bool known;      /* the buyer has a record of the item */
};

/* What the orders and buyers at a segment take of the shares that a buy asks for. */
static struct used count_used(const struct gate *gate, const struct gate_request *buy)
{
    struct used used = {.known = false};
    uint32_t item_slot = gate_find_item(gate, buy->item);
    uint32_t sale_slot = gate->items[item_slot].sale_slot;
    for (uint32_t i = 0; i < gate->order_pool.fresh; i++) {
        const struct gate_order *order = &gate->orders[i];
        bool of_item = order->item_slot == item_slot;
        used.orders += order->id.hi != 0 && of_item && order->user == buy->user;
        if (order->id.hi == 0 || order_state_final((enum order_state)order->state)) {
            continue;
        }
        used.now.sale_orders += gate->items[order->item_slot].sale_slot == sale_slot;
        used.now.item_orders += of_item;
        used.now.buyer_orders += of_item && order->user == buy->user;
    }
    for (uint32_t i = 0; i < gate->buyer_pool.fresh; i++) {
        const struct gate_buyer *buyer = &gate->buyers[i];
        if (buyer->user != 0 && gate->items[buyer->item_slot].sale_slot == sale_slot) {
            used.now.sale_buyers++;
            used.known |= buyer->item_slot == item_slot && buyer->user == buy->user;
        }
    }
    return used;
}

static bool is_above(uint32_t used, uint32_t share)
{
    return share != 0 && used > share;
}

void promise_09_decided(struct world *world, const struct gate_request *buy)
{
    const struct gate *gate = sim_segments_gate(world->segments, buy->segment);
    const struct gate_shares *shares = &world->plan.shares;
    bool accepted = buy->refusal == REFUSAL_NONE && !buy->existed;
    if (!accepted && buy->bound == GATE_BOUND_NONE) {
        return;
    }
    struct used used = count_used(gate, buy);
    bool above = is_above(used.now.buyer_orders, shares->buyer_orders) ||
                 is_above(used.now.item_orders, shares->item_orders) ||
                 is_above(used.now.sale_orders, shares->sale_orders) ||
                 (used.orders == 1 && is_above(used.now.sale_buyers, shares->sale_buyers));
    if (accepted && above) {
        world_broken(world, 9,
                     "segment %u sold above a share: user %llu has %u live orders of item %llu, "
                     "which has %u, its sale %u and %u buyers",
                     buy->segment, (unsigned long long)buy->user, used.now.buyer_orders,
                     (unsigned long long)buy->item, used.now.item_orders, used.now.sale_orders,
                     used.now.sale_buyers);
    }
    bool full =
        buy->bound == GATE_BOUND_BUYER_SHARE
            ? used.now.buyer_orders >= shares->buyer_orders && shares->buyer_orders != 0
        : buy->bound == GATE_BOUND_ITEM_SHARE
            ? used.now.item_orders >= shares->item_orders && shares->item_orders != 0
        : buy->bound == GATE_BOUND_SALE_SHARE
            ? used.now.sale_orders >= shares->sale_orders && shares->sale_orders != 0
        : buy->bound == GATE_BOUND_SALE_BUYERS
            ? used.now.sale_buyers >= shares->sale_buyers && shares->sale_buyers != 0 && !used.known
            : true;
    if (!accepted && !full) {
        world_broken(world, 9, "segment %u refused user %llu for %s, which is not used up",
                     buy->segment, (unsigned long long)buy->user, gate_bound_text(buy->bound));
    }
}

/* What every segment that is open counts is what there is, also after it was rebuilt. */
void promise_09_shares(struct world *world)
{
    for (uint32_t s = 0; s < world->plan.segments; s++) {
        const struct gate *gate = sim_segments_gate(world->segments, s);
        if (gate == NULL || !sim_segments_open(world->segments, s)) {
            continue;
        }
        for (uint32_t i = 0; i < gate->item_pool.fresh; i++) {
            struct gate_request none = {.item = gate->items[i].id};
            if (!gate->items[i].used) {
                continue;
            }
            struct used used = count_used(gate, &none);
            const struct gate_sale *sale = &gate->sales[gate->items[i].sale_slot];
            if (used.now.item_orders != gate->items[i].live || used.now.sale_orders != sale->live ||
                used.now.sale_buyers != sale->buyers) {
                world_broken(world, 9,
                             "segment %u: item %llu has %u live orders, its sale %u and %u buyers, "
                             "it counts %u, %u, %u",
                             s, (unsigned long long)gate->items[i].id, used.now.item_orders,
                             used.now.sale_orders, used.now.sale_buyers, gate->items[i].live,
                             sale->live, sale->buyers);
            }
        }
    }
}
