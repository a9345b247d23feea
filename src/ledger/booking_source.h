/*
 * Where the ledger writer of the embedded engine reads the gate's decisions: the journal
 * (embedded/booking_reader.h). In the distributed engine bookings are posted, and there is no
 * source. Ledger writer's thread only.
 */
#ifndef SLUICE_LEDGER_BOOKING_SOURCE_H
#define SLUICE_LEDGER_BOOKING_SOURCE_H

#include "port/ledger.h"

struct booking_positions {
    uint64_t booked_lsn;  /* committed in the ledger */
    uint64_t read_lsn;    /* read so far */
    uint64_t durable_lsn; /* durable in the journal; no more can be read */
    uint64_t last_lsn;    /* appended to the journal */
    bool failed;          /* the journal has failed */
    bool waits;           /* the journal waits for space on its disk */
};

struct booking_source;
struct booking_source_ops {
    /* Continues after the ledger's cursor. ERR_NOTFOUND: the journal no longer reaches back to
     * it. */
    int (*start)(struct booking_source *source, uint64_t booked_lsn);
    /* Turns up to max durable decisions into BOOK ops and advances read_lsn. 0 or a journal
     * error. */
    int (*take)(struct booking_source *source, struct ledger_op *ret_ops, size_t max,
                size_t *ret_count);
    /* The batch that booked up to booked_lsn is committed. */
    void (*commit)(struct booking_source *source, uint64_t booked_lsn);
    /* It failed: what is not committed is read again. */
    int (*rewind)(struct booking_source *source);
    struct booking_positions (*positions)(const struct booking_source *source);
};
struct booking_source {
    const struct booking_source_ops *ops;
};

#endif
