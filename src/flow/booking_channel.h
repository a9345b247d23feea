/*
 * A mailbox that has decisions booked: whoever carries them (the order consumer from the queue, the relay
 * straight from the outbox) brings a few, and gets back what became of each. One mailbox, one thread.
 *
 * A decision of the present epoch is booked by the ledger writer. One of an older epoch is decided again at
 * the gate, never booked directly: if the gate takes it, its new outbox entry carries it on; if not,
 * it gets its FAILED row; so does one whose sale was forgotten meanwhile. An order that has a row
 * already is settled, whatever else.
 * One that is older than runtime limits say is not booked any more: it gets a FAILED row in the place of its
 * booking (the first row wins, so none that comes again revives it), and the ledger's event returns
 * its unit to the gate. Without the ledger nothing is released.
 *
 * What can go wrong: ledger or gate cannot be reached: LATER, nothing was settled.
 */
#ifndef SLUICE_FLOW_BOOKING_CHANNEL_H
#define SLUICE_FLOW_BOOKING_CHANNEL_H

#include "flow/ledger_writer.h"
#include "flow/runtime_limits.h"
#include "flow/segment_table.h"

enum booking {
    BOOKING_SETTLED, /* it has a row, or a newer entry in the outbox */
    BOOKING_LATER,   /* not now: bring it again */
    BOOKING_POISON,  /* the ledger takes neither the order nor its failure */
};

struct decision {
    uint32_t segment;
    uint64_t epoch;
    struct gate_command command; /* the RESERVE */
    enum refusal reason;         /* booking_channel_fail: why */
    enum booking booking;        /* out */
    bool gate_away;              /* out: LATER, because its segment cannot decide now */
};

/* What a booker prefetches by default: one transaction, whose fixed price they share. */
#define BOOKING_CHANNEL_MAX 2048
/* Of them, those that are decided again together: a gate answers so many in the time of one call. */
#define BOOKING_CHANNEL_AGAIN 256

struct booking_channel {
    struct ledger_writer *ledger_writer;
    struct segments *segments; /* this thread's */
    struct segment_table *segment_table;
    uint32_t mailbox;
    uint32_t loops;
    struct ledger_writer_op *ops; /* BOOKING_CHANNEL_MAX */
    struct segment_call *calls;
    struct decision *again; /* BOOKING_CHANNEL_AGAIN */
    uint32_t posted;        /* ops that are the ledger writer's now */
    /* The owner's to set: how old a decision may be. NULL: as old as it is. */
    const struct runtime_limits *runtime_limits;
    struct inside_time *time;
};

int booking_channel_init(struct booking_channel *ret_booking_channel,
                         struct ledger_writer *ledger_writer, struct segments *segments,
                         struct segment_table *segment_table, uint32_t loops, uint32_t mailbox);
void booking_channel_done(struct booking_channel *booking_channel);

/* At most BOOKING_CHANNEL_MAX. Waits for the ledger writer. */
void booking_channel_run(struct booking_channel *booking_channel, struct decision *decisions,
                         size_t count);
/* Decides again at the gate whatever their epoch; those it refuses get their FAILED rows. */
void booking_channel_again(struct booking_channel *booking_channel, struct decision *decisions,
                           size_t count);
/* FAILED rows, each with its reason. */
void booking_channel_fail(struct booking_channel *booking_channel, struct decision *decisions,
                          size_t count);

/* Notes a transfer in the ledger; whoever balances brings it to its end. Best effort. */
void booking_channel_transfer(struct booking_channel *booking_channel, uint64_t item, uint32_t from,
                              uint32_t to, uint64_t units);

#endif
