/*
 * Promise 2: Orders alive in the ledger never exceed the total.
 *
 * Checked after every change of an item's orders in the truth, with sums computed here: units in LOCKED
 * and PAID orders against the total with the restocks committed so far.
 */
#include "referee_private.h"

void promise_02_committed(struct referee *r, const struct ref_item *item)
{
    if (item->locked > item->total || item->sold > item->total ||
        item->locked + item->sold > item->total) {
        sim_broken(r->sim, 2, "item %llu is oversold: %llu locked and %llu sold of %llu",
                   (unsigned long long)item->pair.a, (unsigned long long)item->locked,
                   (unsigned long long)item->sold, (unsigned long long)item->total);
    }
}
