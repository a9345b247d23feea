/*
 * What an accepted step of the gate promises for the entries it touched, checked right after the
 * step. Each check looks at a fixed number of entries, so all of them are on in release;
 * gate_audit() walks the whole gate.
 *
 * The expected numbers follow from the command and from numbers read before the step. A check that
 * fails is a bug of the gate and ends the process before the command reaches the journal: nothing
 * was promised yet.
 *
 * For gate.c and gate_audit.c only.
 */
#ifndef SLUICE_CORE_GATE_CHECK_H
#define SLUICE_CORE_GATE_CHECK_H

#include "base/check.h"
#include "core/gate.h"

/* Promise 1 for one item: available + locked + sold == total, and no number is below zero. */
static inline bool gate_item_adds_up(const struct gate_item *item)
{
    return item->sold <= item->total && item->locked <= item->total - item->sold &&
           item->available == item->total - item->sold - item->locked;
}

static inline bool gate_buyer_in_limit(const struct gate_buyer *buyer, const struct gate_item *item)
{
    return item->limit == 0 || buyer->held <= item->limit;
}

/* RESERVE: the order is queued, its units went from available to locked, and its buyer holds them. */
static inline void gate_check_reserved(const struct gate_order *order,
                                       const struct gate_buyer *buyer, const struct gate_item *item,
                                       uint32_t held_before, uint64_t locked_before)
{
    CHECK(order->state == ORDER_QUEUED && order->user == buyer->user);
    CHECK(buyer->held == held_before + order->qty && gate_buyer_in_limit(buyer, item));
    CHECK(item->locked == locked_before + order->qty);
    CHECK(gate_item_adds_up(item));
}

/* A move: the order's units left `locked` if its state is final, and are in `sold` if it is paid. */
static inline void gate_check_moved(const struct gate_order *order, const struct gate_item *item,
                                    uint64_t locked_before, uint64_t sold_before)
{
    enum order_state state = (enum order_state)order->state;
    CHECK(item->locked + (order_state_final(state) ? order->qty : 0) == locked_before);
    CHECK(item->sold - (state == ORDER_PAID ? order->qty : 0) == sold_before);
    CHECK(gate_item_adds_up(item));
}

/* RESTOCK, TRANSFER_*: units came or left, and all of them are free ones. */
static inline void gate_check_stock(const struct gate_item *item, const struct gate_item *before,
                                    const struct gate_command *command)
{
    bool out = command->kind == GATE_TRANSFER_OUT;
    CHECK((out ? before->total - item->total : item->total - before->total) == command->amount);
    CHECK(out || item->total <= STOCK_MAX);
    CHECK(item->locked == before->locked && item->sold == before->sold);
    CHECK(gate_item_adds_up(item));
}

#endif
