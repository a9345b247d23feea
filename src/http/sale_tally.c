/*
 * What is counted for the sale that a request is about (obs/tally.h). Which sale an item belongs to
 * never changes once buyers can ask for it, so each loop remembers the rows of the items it met. A
 * row may have been given to a newer sale since; and that there was no room is believed for a
 * second.
 */
#include "http/front_private.h"

#define NO_ROOM_MS 1000

struct tally_row *front_tally(struct front *front, uint64_t item)
{
    struct tally_known *known = &front->tally_known[item % TALLY_KNOWN];
    if (known->item == item && (known->row != NULL ? tally_is(known->row, known->sale)
                                                   : front->now_ms - known->at_ms < NO_ROOM_MS)) {
        return known->row;
    }
    struct tally_book *book = front->shared->tallies;
    if (book == NULL) {
        return NULL;
    }
    const struct sale_row *sale = NULL;
    struct catalog *catalog = front->shared->catalog;
    catalog_lock(catalog);
    /* Places are few, and of one that is over nothing is asked any more that its report would show;
     * it must not take the place of another, either. */
    bool found = catalog_item(catalog, item, &sale) != NULL && sale->state != SALE_DRAFT &&
                 sale->state != SALE_CLOSED;
    uint64_t id = found ? sale->id : 0;
    catalog_unlock(catalog);
    struct tally_row *row = found ? tally_row(book, front->loop, id, front->now_ms) : NULL;
    if (found) {
        *known = (struct tally_known){item, id, row, front->now_ms};
    }
    return row;
}

void front_tally_asked(struct front *front, uint64_t item, uint64_t user)
{
    struct tally_row *row = front_tally(front, item);
    if (row != NULL) {
        tally_ask(row, user, front->now_ms);
    }
}

void front_tally_refused(struct front *front, uint64_t item, enum refusal refusal)
{
    struct tally_row *row = front_tally(front, item);
    if (row != NULL) {
        tally_refuse(row, (unsigned)refusal);
    }
}
