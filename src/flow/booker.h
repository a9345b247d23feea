/*
 * The booker reads the gate's decisions back from the journal and makes BOOK ops of them. In the
 * embedded engine the journal is the queue: what is durable there is on its way, and what the
 * ledger's cursor has not passed is delivered again. Office's thread only.
 */
#ifndef SLUICE_FLOW_BOOKER_H
#define SLUICE_FLOW_BOOKER_H

#include "flow/journal.h"
#include "port/ledger.h"

struct booker {
    struct journal *journal;
    struct journal_reader *reader;
    uint64_t booked_lsn; /* committed in the ledger */
    uint64_t read_lsn;   /* read so far */
};

/* ERR_NOTFOUND: the journal no longer reaches back to the ledger's cursor. */
int booker_init(struct booker *ret_booker, struct journal *journal, uint64_t booked_lsn);
void booker_done(struct booker *booker);
/* Up to max durable decisions into BOOK ops; read_lsn moves. 0 or a journal error. */
int booker_take(struct booker *booker, struct ledger_op *ret_ops, size_t max, size_t *ret_count);
/* The batch that booked up to read_lsn is committed, or failed: then read it again. */
void booker_commit(struct booker *booker, uint64_t booked_lsn);
int booker_rewind(struct booker *booker);

#endif
