/*
 * Counts requests by the sale of their item (obs/tally.h). Each loop caches the row of an item's sale,
 * because an item never moves to another sale once buyers can request it. A cached row is checked: it
 * may have been given to a newer sale. That there was no room is cached for a second.
 */
#include "api/api_private.h"

#define NO_ROOM_MS 1000

struct tally_row *api_tally(struct api_worker *worker, uint64_t item)
{
    struct tally_known *known = &worker->tally_known[item % TALLY_KNOWN];
    if (known->item == item && (known->row != NULL ? tally_is(known->row, known->sale)
                                                   : worker->now_ms - known->at_ms < NO_ROOM_MS)) {
        return known->row;
    }
    struct tally_book *book = worker->shared->tallies;
    if (book == NULL) {
        return NULL;
    }
    const struct sale_row *sale = NULL;
    struct catalog *catalog = worker->shared->catalog;
    catalog_lock(catalog);
    /* There are few rows. A closed sale gets none: its report would not show later requests, and it
     * must not take the row of another sale. */
    bool found = catalog_item(catalog, item, &sale) != NULL && sale->state != SALE_DRAFT &&
                 sale->state != SALE_CLOSED;
    uint64_t id = found ? sale->id : 0;
    catalog_unlock(catalog);
    struct tally_row *row = found ? tally_row(book, worker->loop, id, worker->now_ms) : NULL;
    if (found) {
        *known = (struct tally_known){item, id, row, worker->now_ms};
    }
    return row;
}

void api_tally_request(struct api_worker *worker, uint64_t item, uint64_t user)
{
    struct tally_row *row = api_tally(worker, item);
    if (row != NULL) {
        tally_ask(row, user, worker->now_ms);
    }
}

void api_tally_refusal(struct api_worker *worker, uint64_t item, enum refusal refusal)
{
    struct tally_row *row = api_tally(worker, item);
    if (row != NULL) {
        tally_refuse(row, (unsigned)refusal);
    }
}
