/*
 * Promise 1: available + locked + sold + in transit = total (plus journalled restocks, minus
 * journalled write-offs), every number >= 0, on every segment.
 *
 * Checked after every step for each item at the gate: the numbers add up, and each is what the
 * events the gate has applied and the decisions it has made come to. In every answer the numbers add
 * up, too: total and sold lie between their values at the time of the request and now (they only
 * grow), available lies between its least and its greatest value since then.
 * This engine has one segment and nothing in transit; nothing is ever written off.
 */
#include "referee_private.h"

#define LLU(x) ((unsigned long long)(x))

void promise_01_step(struct referee *r, struct ref_item *item, const struct gate_item *at_gate)
{
    if (at_gate->available + at_gate->locked + at_gate->sold != at_gate->total ||
        at_gate->available > at_gate->total || at_gate->locked > at_gate->total) {
        sim_broken(r->sim, 1, "item %llu: available %llu + locked %llu + sold %llu is not %llu",
                   LLU(item->pair.a), LLU(at_gate->available), LLU(at_gate->locked),
                   LLU(at_gate->sold), LLU(at_gate->total));
    } else if (at_gate->total != item->gate_total || at_gate->locked != item->gate_locked ||
               at_gate->sold != item->gate_sold) {
        sim_broken(r->sim, 1,
                   "item %llu at the gate: total %llu, locked %llu, sold %llu; orders and restocks "
                   "up to event %llu come to %llu, %llu, %llu",
                   LLU(item->pair.a), LLU(at_gate->total), LLU(at_gate->locked), LLU(at_gate->sold),
                   LLU(r->applied), LLU(item->gate_total), LLU(item->gate_locked),
                   LLU(item->gate_sold));
    }
}

static void check_range(struct referee *r, const struct sim_request *request, const char *what,
                        uint64_t value, uint64_t least, uint64_t most)
{
    if (value < least || value > most) {
        sim_broken(r->sim, 1,
                   "item %llu was shown with %s %llu (request %llu); it was %llu to %llu meanwhile",
                   LLU(request->item), what, LLU(value), LLU(request->number), LLU(least),
                   LLU(most));
    }
}

void promise_01_numbers(struct referee *r, const struct sim_request *request,
                        struct ref_request *rr, const struct sim_answer *numbers)
{
    if (!numbers->has_numbers) {
        return;
    }
    if (numbers->available + numbers->locked + numbers->sold != numbers->total) {
        sim_broken(r->sim, 1, "item %llu was shown with %llu + %llu + %llu of %llu (request %llu)",
                   LLU(request->item), LLU(numbers->available), LLU(numbers->locked),
                   LLU(numbers->sold), LLU(numbers->total), LLU(request->number));
        return;
    }
    bool board = request->call == CALL_ITEM || request->call == CALL_ITEM_EVENTS;
    const struct ref_item *item = ref_table_find(&r->items, request->item, 0);
    if (!board || !r->up || rr->life != r->life || item == NULL || !item->available.known) {
        return; /* the ledger's numbers, or those of a server that is gone */
    }
    check_range(r, request, "total", numbers->total, rr->total, item->gate_total);
    check_range(r, request, "sold", numbers->sold, rr->sold, item->gate_sold);
    check_range(r, request, "available", numbers->available,
                (uint64_t)ref_low_since(&item->available, rr->sent_at),
                (uint64_t)-ref_low_since(&item->most, rr->sent_at));
    rr->total = numbers->total;
    rr->sold = numbers->sold;
}
