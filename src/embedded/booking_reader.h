/*
 * The booking reader reads the gate's decisions back from the journal and turns them into BOOK ops.
 * In the embedded engine the journal is the queue: every durable decision will be booked, and
 * decisions that the ledger's cursor has not passed are read again. Ledger writer's thread only.
 */
#ifndef SLUICE_EMBEDDED_BOOKING_READER_H
#define SLUICE_EMBEDDED_BOOKING_READER_H

#include "journal/journal.h"
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
/* Turns up to max durable decisions into BOOK ops and advances read_lsn. 0 or a journal error. */
int booking_reader_take(struct booking_reader *reader, struct ledger_op *ret_ops, size_t max,
                        size_t *ret_count);
/* Commit: the batch that booked up to booked_lsn is committed. Rewind: it failed, so read it
 * again. */
void booking_reader_commit(struct booking_reader *reader, uint64_t booked_lsn);
int booking_reader_rewind(struct booking_reader *reader);

#endif
