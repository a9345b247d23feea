/* What all ledgers share: the public names of events, and freeing a sale row. */
#include "port/ledger.h"

#include <stdlib.h>

#include "base/check.h"

static const char *const event_texts[] = {"none",
#define X(name, text) text,
                                          LEDGER_EVENTS(X)
#undef X
};

const char *ledger_event_text(enum ledger_event_kind kind)
{
    CHECK((unsigned)kind < EVENT_KIND_COUNT);
    return event_texts[kind];
}

void sale_row_free(struct sale_row *row)
{
    if (row != NULL) {
        free(row->items);
        free(row);
    }
}
