/* As much of a ledger as an event sink reads: its events. Tests commit them, and break the reading. */
#ifndef SLUICE_TEST_EVENT_LEDGER_H
#define SLUICE_TEST_EVENT_LEDGER_H

#include "port/ledger.h"

#define EVENT_LEDGER_MAX 20000

struct event_ledger {
    struct ledger ledger;
    struct ledger_event events[EVENT_LEDGER_MAX]; /* number n at index n - 1 */
    size_t count;
    int fail;          /* reads say this */
    bool fail_events;  /* the next read of events fails */
    uint32_t segments; /* that have an epoch */
    uint64_t reads;
};

void event_ledger_init(struct event_ledger *ret_ledger);
void event_ledger_commit(struct event_ledger *ledger, struct ledger_event event);
/* The number of the last one that the segment applies; 0: none. */
uint64_t event_ledger_last(const struct event_ledger *ledger, uint32_t segment);

/* Of the item without limit of cluster_world.h, and its sale. */
struct ledger_event event_restock(uint32_t segment, uint64_t units);
struct ledger_event event_of_order(enum ledger_event_kind kind, const struct gate_command *buy);
struct ledger_event event_of_sale(enum ledger_event_kind kind);

#endif
