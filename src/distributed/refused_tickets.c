/* See refused_tickets.h. */
#include "distributed/refused_tickets.h"

#include <stdlib.h>

#include "base/err.h"

/* For each loop: 1.5 MiB. A power of two. */
#define REFUSED_MAX 65536U

/* A ticket that was refused while its item was sold out, or a buyer without an order of the item,
 * and the item's refill count at that time. */
struct refused {
    struct order_id id;
    uint64_t refills;
};

int refused_tickets_init(struct refused_tickets *ret_refused_tickets, uint32_t loops,
                         struct stock_cache *stock_cache)
{
    ret_refused_tickets->stock_cache = stock_cache;
    ret_refused_tickets->list =
        calloc((size_t)loops * REFUSED_MAX, sizeof(*ret_refused_tickets->list));
    return ret_refused_tickets->list == NULL ? ERR_NOMEM : 0;
}

void refused_tickets_done(struct refused_tickets *refused_tickets)
{
    free(refused_tickets->list);
}

/* A buyer who asks for a ticket is remembered under an id that no ticket has. */
static struct order_id memory_id(const struct gate_request *request)
{
    return request->kind == GATE_REQUEST_TICKET
               ? order_id_once(request->item, request->user, BUYER_FAILED_ATTEMPTS_MAX + 1)
               : request->id;
}

static struct refused *place_of(const struct refused_tickets *refused_tickets,
                                const struct gate_request *request)
{
    uint64_t h = order_id_hash(memory_id(request), 0);
    return &refused_tickets
                ->list[(size_t)request->loop * REFUSED_MAX + ((h >> 32) & (REFUSED_MAX - 1))];
}

void refused_tickets_add(struct refused_tickets *refused_tickets,
                         const struct gate_request *request)
{
    struct stock_cache_item item;
    if (stock_cache_find(refused_tickets->stock_cache, request->item, &item) && item.sold_out) {
        *place_of(refused_tickets, request) = (struct refused){memory_id(request), item.refills};
    }
}

bool refused_tickets_find(const struct refused_tickets *refused_tickets,
                          const struct gate_request *request, struct stock_cache_item *ret_item)
{
    const struct refused *refused = place_of(refused_tickets, request);
    return order_id_equal(refused->id, memory_id(request)) &&
           stock_cache_find(refused_tickets->stock_cache, request->item, ret_item) &&
           ret_item->sold_out && refused->refills == ret_item->refills;
}
