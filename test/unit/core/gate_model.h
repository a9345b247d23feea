/*
 * A naive model of the gate: plain arrays, searched from end to end, written from what gate.h and
 * the public contract say, sharing nothing with gate.c. There is one of it.
 */
#ifndef SLUICE_TEST_GATE_MODEL_H
#define SLUICE_TEST_GATE_MODEL_H

#include "core/gate.h"

#define MODEL_ENTRIES 256 /* of each array: above any size the model is given */

#define MODEL_EVICTED 64

struct model_sale {
    uint64_t id;
    int64_t start;
    int64_t end;
    bool bars;
    enum sale_state state;
};

struct model_item {
    uint64_t id;
    uint64_t sale;
    uint64_t total, available, locked, sold;
    uint64_t limit;
    uint64_t version;
    uint64_t evicted; /* orders */
    uint64_t evicted_sold;
    int64_t evicted_newest; /* the latest time in an ORDER_FRESH id of one; -1: none */
    uint64_t evicted_lsn;
};

struct model_buyer {
    uint64_t item;
    uint64_t user;
    uint64_t held;
    uint64_t failed_attempts;
    bool barred;
    int64_t cooling; /* no new order before; 0: none, or barred */
};

struct model_order {
    struct order_id id;
    uint64_t user;
    uint64_t item;
    uint64_t qty;
    enum order_state state;
    enum refusal reason;
    uint64_t version;
    int64_t created;
    int64_t pay_by;
    uint64_t lsn; /* of its last change, where the test counts them */
};

struct model {
    struct gate_sizes sizes;
    struct gate_shares shares; /* set after model_clear; 0: no such share */
    struct model_sale sales[MODEL_ENTRIES];
    struct model_item items[MODEL_ENTRIES];
    struct model_buyer buyers[MODEL_ENTRIES];
    struct model_order orders[MODEL_ENTRIES];
    size_t sales_count, items_count, buyers_count, orders_count;
    uint64_t event;
    int64_t highest;
    enum gate_bound bound; /* of the last RESERVE: with OVERLOADED, what was full */
    struct order_id evicted[MODEL_EVICTED]; /* the last ones */
    size_t evicted_count;
};

struct answer {
    enum verdict verdict;
    enum refusal refusal;
    uint64_t held;
    const struct model_order *order; /* NULL: none */
};

extern struct model model;

void model_clear(struct gate_sizes sizes);
struct model_sale *sale_of(uint64_t id);
struct model_item *item_of(uint64_t id);
struct model_buyer *buyer_of(uint64_t item, uint64_t user);
struct model_order *order_of(struct order_id id);

struct answer model_step(const struct gate_command *c);
/* After a FORGET that did something: which entries went first is the gate's own business, so the
 * model asks it, and CHECKs how many there were. */
void model_forgotten(const struct gate *gate, const struct gate_command *c, bool all);

/* The gate holds what the model holds: every counter, order and buyer. It uses CHECK, which prints the
 * place of a difference. */
void model_compare(const struct gate *gate);
/* What the gate said of a command is what the model said; after model_step, before
 * model_forgotten. */
void model_compare_effects(const struct gate *gate, const struct gate_command *c,
                           const struct answer *want, enum verdict verdict,
                           const struct gate_effects *effects);

#endif
