/*
 * The booking reader reads the gate's decisions back from the journal and turns them into BOOK ops.
 * In the embedded engine the journal is the queue: every durable decision will be booked, and
 * decisions that the ledger's cursor has not passed are read again. It is the ledger writer's
 * booking source.
 */
#ifndef SLUICE_EMBEDDED_BOOKING_READER_H
#define SLUICE_EMBEDDED_BOOKING_READER_H

#include "journal/journal.h"
#include "ledger/booking_source.h"

struct booking_reader {
    struct booking_source source; /* must be first */
    struct journal *journal;
    struct journal_reader *journal_reader; /* NULL: not started */
    uint64_t booked_lsn;                   /* committed in the ledger */
    uint64_t read_lsn;                     /* read so far */
};

void booking_reader_init(struct booking_reader *ret_reader, struct journal *journal);
void booking_reader_done(struct booking_reader *reader);

#endif
