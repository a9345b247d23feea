/*
 * The ledger writer: the one place that writes to the ledger. Bookings from the journal, payments,
 * cancellations and operators' calls from the loops, expiries and sale moves from the keeper share
 * its transactions; whatever the ledger committed it then applies to the gate, in the ledger's
 * order.
 *
 * Happy path of a turn: take what loops posted, what is due and what is to be booked; one batch,
 * one transaction; catalog first, then the gate; then each loop gets its ops back with the LSN that
 * has to be durable before anyone is told.
 *
 * What can go wrong: the ledger cannot commit. Then loops are told so (nothing is known to have
 * changed), bookings and expiries are tried again with growing pauses, and before the next write
 * the events of the ledger are read from where the gate stands: a commit whose answer was lost is
 * found there. A failed journal: no more writes at all, the gate could not follow.
 *
 * In the distributed engine there are several ledger writers, in several processes, that write to one
 * ledger (options.shared). Bookings are posted to them like anything else; their sink is the segments
 * of the gate; and of all of them only the one that holds the keeper's lease keeps deadlines and
 * moves sales, with the lease's token on its batches. It learns what the others have booked from
 * the ledger's events.
 *
 * One thread runs the turn. ledger_writer_post may be called by any loop, and by any mailbox.
 */
#ifndef SLUICE_FLOW_LEDGER_WRITER_H
#define SLUICE_FLOW_LEDGER_WRITER_H

#include "base/mailbox.h"
#include "flow/booking_reader.h"
#include "flow/catalog.h"
#include "flow/deadline_scheduler.h"
#include "flow/embedded_gate.h"
#include "flow/gate_event_sink.h"
#include "flow/inside_time.h"
#include "obs/metrics.h"
#include "port/ledger.h"

/* One write asked for by a loop. The sender owns it; it is the ledger writer's between post and collect.
 */
struct ledger_writer_op {
    struct post post; /* first */
    struct ledger_op op;
    uint32_t loop;         /* or mailbox: loops + 0, 1 ... */
    int64_t held_until_ms; /* the ledger writer's own */
    /* out */
    int error;    /* 0: see op.refusal; else not known to have happened */
    uint64_t lsn; /* tell nobody before this is durable */
    void *owner;
};

struct ledger_writer_options {
    uint32_t batch_max;            /* bookings in one transaction */
    uint32_t tick_ms;              /* how often deadlines are looked at, at most */
    int64_t board_keep_ms;         /* orders stay on the board this long after end and deadline */
    struct event_sink *event_sink; /* NULL: the engine's own gate */
    bool shared;        /* one of several ledger writers of one ledger; needs a sink of its own */
    uint32_t mailboxes; /* other threads that post, beside the loops */
    const char *server; /* the ledger's, for the log; NULL: "" */
    const char *(*words)(
        void *context); /* its own, of what went wrong last; NULL: none are known */
    void *words_context;
};

/* The lease of the one ledger writer that keeps deadlines, of all that share a ledger. */
#define KEEPER_LEASE "keeper"

struct ledger_writer;

int ledger_writer_new(struct embedded_gate *engine, struct ledger *ledger, struct catalog *catalog,
                      struct inside_time *time, struct metrics_slot *metrics, uint32_t loops,
                      struct ledger_writer_options options, struct ledger_writer **ret_writer);
void ledger_writer_free(struct ledger_writer *writer);

/*
 * Before the first turn, single-threaded: compares both cursors, applies ledger events the gate has
 * not seen, loads catalog and deadlines. ERR_AHEAD: the ledger has booked what the journal does not
 * hold. Progress and errors are logged.
 */
int ledger_writer_start(struct ledger_writer *writer);
/* One round. How long it may sleep in *ret_sleep_us; 0: there is more to do now. */
void ledger_writer_iterate(struct ledger_writer *writer, int64_t *ret_sleep_us);
/* The thread: turns until ledger_writer_stop; then one last round books what is durable. */
void ledger_writer_run(struct ledger_writer *writer);
void ledger_writer_stop(struct ledger_writer *writer);

void ledger_writer_post(struct ledger_writer *writer, struct ledger_writer_op *op);
/* Finished ops of this loop, linked by post.next, oldest first. */
struct ledger_writer_op *ledger_writer_collect(struct ledger_writer *writer, uint32_t loop);

/* A mailbox's wait for what it posted, or for ledger_writer_stop. */
void ledger_writer_wait(struct ledger_writer *writer, uint32_t mailbox, int64_t timeout_us);
/* Shared: the token of the keeper's lease while this process holds it, else 0. Any thread. */
void ledger_writer_keep(struct ledger_writer *writer, uint64_t token);

/* Shared: the sales are to be read from the ledger again: other ledger writers change them, too. They are
 * read now and then in any case. Any thread. */
void ledger_writer_refresh(struct ledger_writer *writer);
/* Shared: somebody else in this process has written to the ledger; its events are to reach the
 * segments now. Any thread. */
void ledger_writer_hurry(struct ledger_writer *writer);

/* Whether the item's sale is gone for good: it is not among the ledger's sales, although these were
 * read after `since_ms`, when it was sold from. Any thread. */
bool ledger_writer_forgot(struct ledger_writer *writer, uint64_t item, int64_t since_ms);

/* Any thread. */
uint64_t ledger_writer_booked_lsn(const struct ledger_writer *writer);
uint64_t ledger_writer_pending_deadlines(const struct ledger_writer *writer);

#endif
