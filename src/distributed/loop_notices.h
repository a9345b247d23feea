/*
 * Notices of order changes for the loops of this process, from the news that the gate publishes.
 *
 * The news cover all orders. A loop counts the orders that it watches in a table of hash buckets, so
 * that an order nobody watches here costs one look at each loop's table.
 *
 * Threads: any thread posts. Each loop takes its own notices through port/order_notices.h.
 */
#ifndef SLUICE_DISTRIBUTED_LOOP_NOTICES_H
#define SLUICE_DISTRIBUTED_LOOP_NOTICES_H

#include "base/waker.h"
#include "port/order_notices.h"

struct loop_notices;

/* The caller owns the wakers, one for each loop. ERR_NOMEM. */
int loop_notices_new(struct waker *wakers, uint32_t loops, struct loop_notices **ret_notices);
void loop_notices_free(struct loop_notices *notices);
struct order_notices *loop_notices_port(struct loop_notices *notices);

/* Notifies every loop that watches this order that it changed. */
void loop_notices_post(struct loop_notices *notices, const struct order_view *view);
/* Notifies all loops that they may have missed changes. */
void loop_notices_post_all(struct loop_notices *notices);

#endif
