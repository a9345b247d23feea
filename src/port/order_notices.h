/*
 * Notices of order changes, for the event loops of this process. A loop watches the orders that its
 * clients wait for. Both engines implement this: embedded/embedded_gate.h, and
 * distributed/loop_notices.h.
 *
 * Each loop calls these for itself. Other threads post the notices and wake the loop.
 */
#ifndef SLUICE_PORT_ORDER_NOTICES_H
#define SLUICE_PORT_ORDER_NOTICES_H

#include "core/gate.h"

struct order_notices;
struct order_notices_ops {
    size_t (*take)(struct order_notices *notices, uint32_t loop, struct order_view *ret_views,
                   size_t max, bool *ret_all);
    void (*watch)(struct order_notices *notices, uint32_t loop, struct order_id id);
    void (*unwatch)(struct order_notices *notices, uint32_t loop, struct order_id id);
};
struct order_notices {
    const struct order_notices_ops *ops;
};

/* Returns up to max changed orders that this loop watches, in their current state. Show each one
 * only once its LSN is durable. The loop goes on watching them. *ret_all: there were too many to
 * list; look up every order you watch. */
static inline size_t order_notices_take(struct order_notices *notices, uint32_t loop,
                                        struct order_view *ret_views, size_t max, bool *ret_all)
{
    return notices->ops->take(notices, loop, ret_views, max, ret_all);
}
/* Starts or stops notices about this order for the loop, once for every watcher. After
 * order_notices_watch the loop must look the order up with gate_request.watch set, since earlier
 * changes are not reported. */
static inline void order_notices_watch(struct order_notices *notices, uint32_t loop,
                                       struct order_id id)
{
    notices->ops->watch(notices, loop, id);
}
static inline void order_notices_unwatch(struct order_notices *notices, uint32_t loop,
                                         struct order_id id)
{
    notices->ops->unwatch(notices, loop, id);
}

#endif
