/* What all ledgers share: the public names of events, freeing a sale row, what is known of damage. */
#include "port/ledger.h"

#include <stdio.h>
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

/* ---- damage ---- */

enum { SAID_NOTHING, SAYING, SAID };

void ledger_health_note(struct ledger_health *health, const char *what)
{
    int nothing = SAID_NOTHING;
    if (atomic_compare_exchange_strong(&health->said, &nothing, SAYING)) {
        (void)snprintf(health->what, sizeof(health->what), "%s", what);
        atomic_store(&health->said, SAID);
    }
    atomic_fetch_add(&health->damaged, 1);
}

const char *ledger_health_what(struct ledger_health *health)
{
    return atomic_load(&health->said) == SAID ? health->what : NULL;
}

void ledger_note_damage(struct ledger *l, const char *what)
{
    if (what == NULL && l->ops->error != NULL) {
        what = l->ops->error(l);
    }
    if (l->health != NULL) {
        ledger_health_note(l->health, what == NULL || what[0] == '\0' ? "a damaged row" : what);
    }
}

int ledger_check(struct ledger *l, struct ledger_check *check)
{
    check->pages = check->rows = check->damaged = 0;
    check->damage_count = 0;
    check->what[0] = '\0';
    check->done = true;
    check->error = 0;
    if (l->ops->check != NULL) {
        l->ops->check(l, check);
    }
    if (check->error == ERR_CORRUPT) {
        ledger_note_damage(l, check->what);
    }
    return check->error;
}
