/*
 * What each loop of a front remembers of buyers who met "sold out": tickets, and buyers without an
 * order of the item. As long as no unit of the item has come back, they are refused again without
 * asking the gate. A newer one may take the place of an older one; then the gate is asked once more.
 *
 * Threads: each loop uses its own part.
 */
#ifndef SLUICE_DISTRIBUTED_REFUSED_TICKETS_H
#define SLUICE_DISTRIBUTED_REFUSED_TICKETS_H

#include "distributed/stock_cache.h"
#include "port/gate.h"

struct refused;

struct refused_tickets {
    struct refused *list; /* of all loops */
    struct stock_cache *stock_cache;
};

/* The caller owns the stock cache. ERR_NOMEM. */
int refused_tickets_init(struct refused_tickets *ret_refused_tickets, uint32_t loops,
                         struct stock_cache *stock_cache);
void refused_tickets_done(struct refused_tickets *refused_tickets);

/* The request, a BUY or a TICKET, has met "sold out". */
void refused_tickets_add(struct refused_tickets *refused_tickets,
                         const struct gate_request *request);
/* True if it met "sold out" here and no unit has come back since. */
bool refused_tickets_find(const struct refused_tickets *refused_tickets,
                          const struct gate_request *request, struct stock_cache_item *ret_item);

#endif
