/*
 * What the files of the gate share: where an entry is, and where it belongs. For gate.c and
 * gate_leave.c only.
 */
#ifndef SLUICE_CORE_GATE_PRIVATE_H
#define SLUICE_CORE_GATE_PRIVATE_H

#include "base/check.h"
#include "core/gate.h"

/* The links of the hash tables' chains, and of the pools' free entries. */
static inline struct index_links order_links(const struct gate *gate)
{
    return INDEX_LINKS(gate->orders, next_hash);
}

static inline struct index_links buyer_links(const struct gate *gate)
{
    return INDEX_LINKS(gate->buyers, next_hash);
}

static inline struct index_links item_links(const struct gate *gate)
{
    return INDEX_LINKS(gate->items, next_hash);
}

static inline uint32_t *order_bucket(const struct gate *gate, struct order_id id)
{
    uint64_t h = order_id_hash(id, gate->hash_key);
    return &gate->order_table.buckets[h & gate->order_table.mask];
}

static inline uint32_t *buyer_bucket(const struct gate *gate, uint32_t item_slot, uint64_t user)
{
    uint64_t h = hash_mix(hash_mix(user ^ gate->hash_key) ^ item_slot);
    return &gate->buyer_table.buckets[h & gate->buyer_table.mask];
}

static inline uint32_t *item_bucket(const struct gate *gate, uint64_t item)
{
    return &gate->item_table.buckets[hash_mix(item ^ gate->hash_key) & gate->item_table.mask];
}

static inline struct gate_buyer *find_buyer(const struct gate *gate, const uint32_t *bucket,
                                            uint32_t item_slot, uint64_t user)
{
    uint32_t link = *bucket;
    while (link != 0) {
        struct gate_buyer *buyer = &gate->buyers[link - 1];
        if (buyer->user == user && buyer->item_slot == item_slot) {
            return buyer;
        }
        link = buyer->next_hash;
    }
    return NULL;
}

static inline struct index_links item_order_links(const struct gate *gate)
{
    return INDEX_LINKS(gate->orders, by_item);
}

/* The order is final, or leaves. */
static inline void uncount_live(struct gate *gate, const struct gate_order *order)
{
    struct gate_item *item = &gate->items[order->item_slot];
    struct gate_sale *sale = &gate->sales[item->sale_slot];
    const uint32_t *bucket = buyer_bucket(gate, order->item_slot, order->user);
    struct gate_buyer *buyer = find_buyer(gate, bucket, order->item_slot, order->user);
    CHECK(buyer != NULL && buyer->live > 0 && item->live > 0 && sale->live > 0);
    buyer->live--;
    item->live--;
    sale->live--;
}

static inline enum verdict refuse(struct gate_effects *effects, enum refusal refusal)
{
    CHECK(refusal != REFUSAL_NONE);
    effects->refusal = refusal;
    return VERDICT_REFUSED;
}

/* gate_leave.c */
enum verdict gate_step_evict(struct gate *gate, const struct gate_command *command,
                             struct gate_effects *effects);
enum verdict gate_step_forget(struct gate *gate, const struct gate_command *command,
                              struct gate_effects *effects);

#endif
