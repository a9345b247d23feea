/*
 * A desk that has decisions booked: whoever carries them (the porter from the queue, the relay
 * straight from the outbox) brings a few, and gets back what became of each. One desk, one thread.
 *
 * A decision of the present epoch is booked by the office. One of an older epoch is decided again at
 * the gate, never booked directly: if the gate takes it, its new outbox entry carries it on; if not,
 * it gets its FAILED row; so does one whose sale was forgotten meanwhile. An order that has a row
 * already is settled, whatever else.
 * One that is older than dials say is not booked any more: it gets a FAILED row in the place of its
 * booking (the first row wins, so none that comes again revives it), and the ledger's event returns
 * its unit to the gate. Without the ledger nothing is released.
 *
 * What can go wrong: ledger or gate cannot be reached: LATER, nothing was settled.
 */
#ifndef SLUICE_FLOW_BOOKINGS_H
#define SLUICE_FLOW_BOOKINGS_H

#include "flow/dials.h"
#include "flow/office.h"
#include "flow/places.h"

enum booking {
    BOOKING_SETTLED, /* it has a row, or a newer entry in the outbox */
    BOOKING_LATER,   /* not now: bring it again */
    BOOKING_POISON,  /* the ledger takes neither the order nor its failure */
};

struct decision {
    uint32_t segment;
    uint64_t epoch;
    struct gate_command command; /* the RESERVE */
    enum refusal reason;         /* bookings_fail: why */
    enum booking booking;        /* out */
    bool gate_away;              /* out: LATER, because its segment cannot decide now */
};

/* What a booker prefetches by default: one transaction, whose fixed price they share. */
#define BOOKINGS_MAX 2048
/* Of them, those that are decided again together: a gate answers so many in the time of one call. */
#define BOOKINGS_AGAIN 256

struct bookings {
    struct office *office;
    struct segments *segments; /* this thread's */
    struct places *places;
    uint32_t desk;
    uint32_t loops;
    struct office_op *ops; /* BOOKINGS_MAX */
    struct segment_call *calls;
    struct decision *again; /* BOOKINGS_AGAIN */
    uint32_t posted;        /* ops that are the office's now */
    /* The owner's to set: how old a decision may be. NULL: as old as it is. */
    const struct dials *dials;
    struct inside_time *time;
};

int bookings_init(struct bookings *ret_bookings, struct office *office, struct segments *segments,
                  struct places *places, uint32_t loops, uint32_t desk);
void bookings_done(struct bookings *bookings);

/* At most BOOKINGS_MAX. Waits for the office. */
void bookings_run(struct bookings *bookings, struct decision *decisions, size_t count);
/* Decides again at the gate whatever their epoch; those it refuses get their FAILED rows. */
void bookings_again(struct bookings *bookings, struct decision *decisions, size_t count);
/* FAILED rows, each with its reason. */
void bookings_fail(struct bookings *bookings, struct decision *decisions, size_t count);

/* Notes a transfer in the ledger; whoever balances brings it to its end. Best effort. */
void bookings_transfer(struct bookings *bookings, uint64_t item, uint32_t from, uint32_t to,
                       uint64_t units);

#endif
