/* See digest.h. Slots, chains and hash keys may differ between two gates; the contents may not. */
#include "digest.h"

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
    return hash ^ hash >> 29;
}

static uint64_t order_hash(const struct gate *gate, const struct gate_order *order)
{
    uint64_t hash = mix(mix(1, order->id.hi), order->id.lo);
    hash = mix(mix(hash, order->user), gate->items[order->item_slot].id);
    hash = mix(mix(hash, (uint64_t)order->created_at_ms), (uint64_t)order->pay_by_ms);
    return mix(mix(hash, order->qty), order->version << 16 | order->state << 8 | order->reason);
}

static uint64_t item_hash(const struct gate *gate, const struct gate_item *item)
{
    uint64_t hash = mix(mix(2, item->id), gate->sales[item->sale_slot].id);
    hash = mix(mix(mix(hash, item->total), item->available), item->locked);
    return mix(mix(hash, item->sold), item->limit);
}

static uint64_t sale_hash(const struct gate_sale *sale)
{
    uint64_t hash = mix(mix(3, sale->id), (uint64_t)sale->starts_at_ms);
    hash = mix(mix(hash, (uint64_t)sale->ends_at_ms), sale->bar_unpaid);
    return mix(hash, (uint64_t)sale->state << 8 | sale->forgetting);
}

uint64_t gate_digest(const struct gate *gate)
{
    uint64_t sum = mix(gate->applied_event, (uint64_t)gate->highest_ms);
    for (uint32_t i = 0; i < gate->order_pool.fresh; i++) {
        sum += gate->orders[i].id.hi != 0 ? order_hash(gate, &gate->orders[i]) : 0;
    }
    for (uint32_t i = 0; i < gate->item_pool.fresh; i++) {
        const struct gate_item *item = &gate->items[i];
        if (item->used == 0) {
            continue;
        }
        sum += item_hash(gate, item);
        sum += mix(mix(mix(mix(5, item->evicted), item->evicted_sold), item->evicted_lsn),
                   (uint64_t)item->evicted_end);
        for (uint32_t link = item->buyers; link != 0;) {
            const struct gate_buyer *buyer = &gate->buyers[link - 1];
            uint64_t hash = mix(mix(4, buyer->user), item->id);
            hash = mix(mix(mix(hash, buyer->held), buyer->failed_attempts), buyer->barred);
            sum += mix(hash, (uint64_t)buyer->cooling_until_ms);
            link = buyer->next_item;
        }
    }
    for (uint32_t i = 0; i < gate->sizes.sales; i++) {
        sum += gate->sales[i].used != 0 ? sale_hash(&gate->sales[i]) : 0;
    }
    return sum;
}
