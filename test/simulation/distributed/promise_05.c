/* No buyer over the limit, over all segments and after any recovery; nor one who is barred, or has to
 * wait. */
#include "world.h"

void promise_05_event(struct world *world, const struct model_order *order)
{
    uint64_t held = 0;
    uint32_t limit = world->plan.limits[(order->item - 11) % ITEMS];
    for (size_t i = 0; order->state == ORDER_LOCKED && limit > 0 && i < world->model.count; i++) {
        const struct model_order *other = &world->model.orders[i];
        bool alive = other->booked && order_state_alive(other->state);
        held += alive && other->item == order->item && other->user == order->user ? other->qty : 0;
    }
    if (held > limit) {
        world_broken(world, 5, "buyer %llu holds %llu of item %llu, the limit is %u",
                     (unsigned long long)order->user, (unsigned long long)held,
                     (unsigned long long)order->item, limit);
    }
}

/* What the gate knew when the buy was sent binds it. In line, nobody knows. */
void promise_05_told(struct world *world, const struct gate_request *buy,
                     const struct model_before *before)
{
    if (buy->refusal == REFUSAL_BARRED) {
        struct model_wait now = model_wait_at(world, buy->item, buy->user, UINT64_MAX);
        bool waits = buy->cooling_until_ms > buy->now_ms && now.until_ms >= buy->cooling_until_ms;
        if (!now.barred && !waits) {
            world_broken(world, 9, "buyer %llu was told at %lld to wait until %lld; it is %lld",
                         (unsigned long long)buy->user, (long long)buy->now_ms,
                         (long long)buy->cooling_until_ms, (long long)now.until_ms);
        }
        return;
    }
    bool decided = buy->refusal == REFUSAL_NONE && buy->has_order && !buy->existed &&
                   buy->order.state == ORDER_QUEUED && buy->order.reason == REFUSAL_NONE;
    if (decided && (before->wait.barred || buy->order.created_at_ms < before->wait.until_ms) &&
        world->model.broken_epoch[buy->segment] != before->epoch) {
        world_broken(world, 5, "buyer %llu got an order of item %llu at %lld; %s %lld",
                     (unsigned long long)buy->user, (unsigned long long)buy->item,
                     (long long)buy->order.created_at_ms,
                     before->wait.barred ? "he is barred;" : "he has to wait until",
                     (long long)before->wait.until_ms);
    }
}

/* What a gate will judge the next buy by. */
static void look_at(struct world *world, uint32_t segment, const struct gate *gate,
                    const struct gate_buyer *buyer)
{
    uint64_t item = gate->items[buyer->item_slot].id;
    uint64_t held = 0;
    for (size_t i = 0; i < world->model.count; i++) {
        const struct model_order *order = &world->model.orders[i];
        bool alive = order->booked && order_state_alive(order->state);
        held += alive && order->item == item && order->user == buyer->user ? order->qty : 0;
    }
    if (held != buyer->held) {
        world_broken(world, 5, "segment %u says that buyer %llu holds %u of item %llu: %llu",
                     segment, (unsigned long long)buyer->user, buyer->held,
                     (unsigned long long)item, (unsigned long long)held);
    }
    struct model_wait wait = model_wait_at(world, item, buyer->user, gate->applied_event);
    if (wait.barred != (buyer->barred != 0) || wait.until_ms != buyer->cooling_until_ms) {
        world_broken(world, 5, "segment %u lets buyer %llu wait until %lld for item %llu: %lld",
                     segment, (unsigned long long)buyer->user, (long long)buyer->cooling_until_ms,
                     (unsigned long long)item, (long long)wait.until_ms);
    }
}

void promise_05_end(struct world *world)
{
    for (uint32_t s = 0; s < world->plan.segments; s++) {
        const struct gate *gate = sim_segments_gate(world->segments, s);
        for (uint32_t slot = 0; gate != NULL && slot < gate->item_pool.fresh; slot++) {
            for (uint32_t link = gate->items[slot].buyers; gate->items[slot].used && link != 0;
                 link = gate->buyers[link - 1].next_item) {
                look_at(world, s, gate, &gate->buyers[link - 1]);
            }
        }
    }
    for (size_t i = 0; i < world->model.count; i++) {
        const struct model_order *order = &world->model.orders[i];
        const struct gate *gate = sim_segments_gate(world->segments, order->segment);
        uint32_t slot = gate != NULL ? gate_find_item(gate, order->item) : GATE_NONE;
        if (order->booked && order_state_alive(order->state) && slot != GATE_NONE &&
            gate_find_buyer(gate, slot, order->user) == NULL) {
            world_broken(world, 5, "segment %u does not know that buyer %llu holds anything",
                         order->segment, (unsigned long long)order->user);
        }
    }
}
