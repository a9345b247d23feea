/*
 * The booker reads the gate's decisions back from the journal and makes BOOK ops of them. In the
 * embedded engine the journal is the queue: what is durable there is on its way, and what the
 * ledger's cursor has not passed is delivered again. ledger writer's thread only.
 */
#ifndef SLUICE_FLOW_BOOKING_READER_H
#define SLUICE_FLOW_BOOKING_READER_H

#include "flow/journal.h"
#include "port/ledger.h"

struct booking_reader {
    struct journal *journal;
    struct journal_reader *journal_reader;
    uint64_t booked_lsn; /* committed in the ledger */
    uint64_t read_lsn;   /* read so far */
};

/* ERR_NOTFOUND: the journal no longer reaches back to the ledger's cursor. */
int booking_reader_init(struct booking_reader *ret_reader, struct journal *journal,
                        uint64_t booked_lsn);
void booking_reader_done(struct booking_reader *reader);
/* Up to max durable decisions into BOOK ops; read_lsn moves. 0 or a journal error. */
int booking_reader_take(struct booking_reader *reader, struct ledger_op *ret_ops, size_t max,
                        size_t *ret_count);
/* The batch that booked up to read_lsn is committed, or failed: then read it again. */
void booking_reader_commit(struct booking_reader *reader, uint64_t booked_lsn);
int booking_reader_rewind(struct booking_reader *reader);

#endif
