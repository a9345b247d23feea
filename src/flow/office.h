/*
 * The office: the one place that writes to the ledger. Bookings from the journal, payments,
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
 * found there. A latched journal: no more writes at all, the gate could not follow.
 *
 * In the distributed engine there are several offices, in several processes, that write to one
 * ledger (options.shared). Bookings are posted to them like anything else; their sink is the segments
 * of the gate; and of all of them only the one that holds the keeper's lease keeps deadlines and
 * moves sales, with the lease's token on its batches. It learns what the others have booked from
 * the ledger's events.
 *
 * One thread runs the turn. office_post may be called by any loop, and by any desk.
 */
#ifndef SLUICE_FLOW_OFFICE_H
#define SLUICE_FLOW_OFFICE_H

#include "base/mailbox.h"
#include "flow/booker.h"
#include "flow/catalog.h"
#include "flow/engine.h"
#include "flow/inside_time.h"
#include "flow/keeper.h"
#include "flow/sink_engine.h"
#include "obs/metrics.h"
#include "port/ledger.h"

/* One write asked for by a loop. The sender owns it; it is the office's between post and collect.
 */
struct office_op {
    struct post post; /* first */
    struct ledger_op op;
    uint32_t loop;         /* or desk: loops + 0, 1 ... */
    int64_t held_until_ms; /* the office's own */
    /* out */
    int error;    /* 0: see op.refusal; else not known to have happened */
    uint64_t lsn; /* tell nobody before this is durable */
    void *owner;
};

struct office_options {
    uint32_t batch_max;    /* bookings in one transaction */
    uint32_t tick_ms;      /* how often deadlines are looked at, at most */
    int64_t board_keep_ms; /* orders stay on the board this long after end and deadline */
    struct sink *sink;     /* NULL: the engine's own gate */
    bool shared;           /* one of several offices of one ledger; needs a sink of its own */
    uint32_t desks;        /* other threads that post, beside the loops */
    const char *server;    /* the ledger's, for the log; NULL: "" */
    const char *(*words)(
        void *context); /* its own, of what went wrong last; NULL: none are known */
    void *words_context;
};

/* The lease of the one office that keeps deadlines, of all that share a ledger. */
#define OFFICE_LEASE "keeper"

struct office;

int office_new(struct engine *engine, struct ledger *ledger, struct catalog *catalog,
               struct inside_time *time, struct metrics_slot *metrics, uint32_t loops,
               struct office_options options, struct office **ret_office);
void office_free(struct office *office);

/*
 * Before the first turn, single-threaded: compares both cursors, applies ledger events the gate has
 * not seen, loads catalog and deadlines. ERR_AHEAD: the ledger has booked what the journal does not
 * hold. Progress and errors are logged.
 */
int office_start(struct office *office);
/* One round. How long it may sleep in *ret_sleep_us; 0: there is more to do now. */
void office_turn(struct office *office, int64_t *ret_sleep_us);
/* The thread: turns until office_stop; then one last round books what is durable. */
void office_run(struct office *office);
void office_stop(struct office *office);

void office_post(struct office *office, struct office_op *op);
/* Finished ops of this loop, linked by post.next, oldest first. */
struct office_op *office_collect(struct office *office, uint32_t loop);

/* A desk's wait for what it posted, or for office_stop. */
void office_wait(struct office *office, uint32_t desk, int64_t timeout_us);
/* Shared: the token of the keeper's lease while this process holds it, else 0. Any thread. */
void office_keep(struct office *office, uint64_t token);

/* Shared: the sales are to be read from the ledger again: other offices change them, too. They are
 * read now and then in any case. Any thread. */
void office_refresh(struct office *office);
/* Shared: somebody else in this process has written to the ledger; its events are to reach the
 * segments now. Any thread. */
void office_hurry(struct office *office);

/* Whether the item's sale is gone for good: it is not among the ledger's sales, although these were
 * read after `since_ms`, when it was sold from. Any thread. */
bool office_forgot(struct office *office, uint64_t item, int64_t since_ms);

/* Any thread. */
uint64_t office_booked_lsn(const struct office *office);
uint64_t office_pending_deadlines(const struct office *office);

#endif
