/*
 * The shop of ledger_writer_world.h with a tap on its disk and on its ledger: product calls meet the
 * faults of fault.h, and a run can be recorded for crash_disk.h, with every state the ledger had.
 */
#ifndef SLUICE_TEST_SWEEP_SHOP_H
#define SLUICE_TEST_SWEEP_SHOP_H

#include "ledger_writer_world.h"
#include "tap_disk.h"

#define SHOP_LEDGER_BACKENDS 256

struct shop_ledger {
    struct ledger ledger; /* first */
    struct shop *shop;
};

struct shop {
    struct ledger_writer_world world;
    struct tap_disk tap; /* on world.ram, unless it was set to another disk */
    struct shop_ledger ledger;
    /* recording */
    bool keep_ledger_backends;
    struct memory_ledger
        *ledger_backends[SHOP_LEDGER_BACKENDS]; /* after each commit; the first is empty */
    size_t ledger_backends_count;
    uint64_t promised;
};

void shop_init(struct shop *ret_shop);
void shop_done(struct shop *shop);
/* Opens everything, with faults; the first error, and then nothing is open. */
int shop_up(struct shop *shop);
void shop_down(struct shop *shop);
/* From an empty disk and an empty ledger on. */
void shop_record(struct shop *shop);
/* Flushes the journal, with faults; what is durable then is promised. */
int shop_flush(struct shop *shop);

#endif
