/*
 * A booking channel has decisions booked in the ledger, through one mailbox of the ledger writer.
 * The order consumer (from the queue) and the relay (directly from the outbox) hand it a batch of
 * decisions and get the outcome of each. One channel uses one mailbox and belongs to one thread.
 *
 * Happy path: the ledger writer books a decision of the current epoch.
 *
 * A decision of an older epoch is never booked directly. It is decided again at the gate. If the
 * gate accepts it, a new outbox entry carries it on. If the gate refuses it, or its sale was
 * forgotten in the meantime, it gets a FAILED row. An order that already has a row is settled in
 * any case.
 *
 * A decision older than runtime_limits.stale_ms is not booked. It gets a FAILED row instead, and
 * the ledger's event returns its unit to the gate. The first row wins, so a redelivery cannot
 * revive it. Nothing is released while the ledger cannot be written.
 *
 * What can go wrong: the ledger or the gate cannot be reached. The outcome is LATER, and nothing
 * was settled.
 */
#ifndef SLUICE_DISTRIBUTED_BOOKING_CHANNEL_H
#define SLUICE_DISTRIBUTED_BOOKING_CHANNEL_H

#include "distributed/runtime_limits.h"
#include "distributed/segment_table.h"
#include "ledger/ledger_writer.h"

enum booking {
    BOOKING_SETTLED, /* it has a row, or a newer entry in the outbox */
    BOOKING_LATER,   /* not now: hand it in again */
    BOOKING_POISON,  /* the ledger accepts neither the order nor its failure */
};

struct decision {
    uint32_t segment;
    uint64_t epoch;
    struct gate_command command; /* the RESERVE */
    enum refusal reason;         /* in for booking_channel_fail: why */
    enum booking booking;        /* out */
    bool gate_away;              /* out, with LATER: the segment cannot decide now */
};

/* The default prefetch of a booker. They share the fixed cost of one transaction. */
#define BOOKING_CHANNEL_MAX 2048
/* Decisions that are decided again in one call: a gate answers this many in about the time of
 * one. */
#define BOOKING_CHANNEL_AGAIN 256

struct booking_channel {
    struct ledger_writer *ledger_writer;
    struct segments *segments; /* of this thread */
    struct segment_table *segment_table;
    uint32_t mailbox;
    uint32_t loops;
    struct ledger_writer_op *ops; /* BOOKING_CHANNEL_MAX */
    struct segment_call *calls;
    struct decision *again; /* BOOKING_CHANNEL_AGAIN */
    uint32_t posted;        /* ops now owned by the ledger writer */
    /* Set by the owner: the maximum age of a decision. NULL: no maximum. */
    const struct runtime_limits *runtime_limits;
    struct inside_time *time;
};

int booking_channel_init(struct booking_channel *ret_booking_channel,
                         struct ledger_writer *ledger_writer, struct segments *segments,
                         struct segment_table *segment_table, uint32_t loops, uint32_t mailbox);
void booking_channel_done(struct booking_channel *booking_channel);

/* At most BOOKING_CHANNEL_MAX decisions. Waits for the ledger writer. */
void booking_channel_run(struct booking_channel *booking_channel, struct decision *decisions,
                         size_t count);
/* Decides them again at the gate, whatever their epoch. Those that
 * the gate refuses get FAILED rows. */
void booking_channel_again(struct booking_channel *booking_channel, struct decision *decisions,
                           size_t count);
/* Writes FAILED rows, each with its reason. */
void booking_channel_fail(struct booking_channel *booking_channel, struct decision *decisions,
                          size_t count);

/* Notes a transfer in the ledger, without a lease: a note moves nothing. The process that balances
 * finishes it (distributed/balance.h). Best effort. */
void booking_channel_transfer(struct booking_channel *booking_channel, uint64_t item, uint32_t from,
                              uint32_t to, uint64_t units);

#endif
