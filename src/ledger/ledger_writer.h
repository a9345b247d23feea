/*
 * The ledger writer commits to the ledger; in the embedded engine nothing else writes to it. Its
 * transactions carry bookings from the journal, payments, cancellations and operators' calls from
 * the loops, and expiries and sale moves from the deadline scheduler. It then applies the committed
 * events to the gate, in the ledger's order.
 *
 * Happy path of an iteration: gather posted ops, due ops and bookings; write one batch in one
 * transaction; update the catalog first, then the gate; return each loop's ops with the LSN that
 * must be durable before the answer is sent.
 *
 * What can go wrong:
 * - The ledger cannot commit. The loops get an error (it is unknown whether anything changed), and
 *   bookings and expiries are retried with growing pauses. Before the next write the writer reads
 *   the ledger's events from where the gate stands, and so finds a commit whose answer was lost.
 * - The journal of the embedded engine fails. Nothing is written any more, because the gate could
 *   not follow.
 *
 * In the distributed engine several processes write to one ledger, each with its own ledger writer
 * (without options.bookings: shared). Bookings are posted to it like any other op, and its event sink is the segments
 * of the gate. Only the ledger writer that holds the keeper's lease handles deadlines and moves
 * sales, with the lease's token on its batches. It learns from the ledger's events what the others
 * have booked.
 *
 * Threads: one thread iterates. Any loop and any mailbox may call ledger_writer_post.
 */
#ifndef SLUICE_LEDGER_LEDGER_WRITER_H
#define SLUICE_LEDGER_LEDGER_WRITER_H

#include "base/mailbox.h"
#include "base/waker.h"
#include "ledger/booking_source.h"
#include "ledger/catalog.h"
#include "ledger/deadline_scheduler.h"
#include "ledger/event_sink.h"
#include "obs/metrics.h"
#include "port/inside_time.h"
#include "port/ledger.h"

/* One write requested by a loop or a mailbox. The sender provides the memory; the ledger writer
 * owns it between post and collect. */
struct ledger_writer_op {
    struct post post; /* must be first */
    struct ledger_op op;
    uint32_t loop;         /* or a mailbox: loops + 0, 1 ... */
    int64_t held_until_ms; /* used by the ledger writer only */
    /* out */
    int error;    /* 0: see op.refusal; else it is unknown whether it happened */
    uint64_t lsn; /* answer only when this LSN is durable */
    void *owner;
};

struct ledger_writer_options {
    uint32_t batch_max; /* most bookings in one transaction */
    uint32_t tick_ms;   /* check deadlines at most this often */
    int64_t cooling_ms; /* of orders that expire; ledger_writer_cool() changes it */
    /* Orders stay in the gate this long after the sale's end and its last deadline (board.keep_s). */
    int64_t board_keep_ms;
    struct event_sink *event_sink;
    /* Gets the ledger's blocks: at the start, after each change, and in a shared ledger those that
     * others have changed once a second. NULL: nobody wants them. */
    struct block_sink *blocks;
    /* NULL: shared, one of several ledger writers of a ledger; bookings are posted to it. */
    struct booking_source *bookings;
    uint32_t mailboxes; /* threads other than loops that post ops */
    const char *server; /* name of the ledger's server, for the log; NULL: "" */
    /* Returns the server's own text for its last error. NULL: there is none. */
    const char *(*words)(void *context);
    void *words_context;
};

/* The lease of the ledger writer that handles deadlines, one of all that share a ledger. */
#define KEEPER_LEASE "keeper"

struct ledger_writer;

/* wakers: one for each loop. The caller owns all it passes. */
int ledger_writer_new(struct waker *wakers, struct ledger *ledger, struct catalog *catalog,
                      struct inside_time *time, struct metrics_slot *metrics, uint32_t loops,
                      struct ledger_writer_options options, struct ledger_writer **ret_writer);
void ledger_writer_free(struct ledger_writer *writer);

/*
 * Before the first iteration, single-threaded: compares both cursors, applies ledger events that
 * the gate has not seen, loads catalog and deadlines. ERR_AHEAD: the ledger and the journal do not
 * belong together; the ledger has booked records that the journal does not hold, or the gate has
 * applied events that the ledger does not hold. Logs progress and errors.
 */
int ledger_writer_start(struct ledger_writer *writer);
/* One iteration. *ret_sleep_us is how long the thread may sleep; 0: there is more to do now. */
void ledger_writer_iterate(struct ledger_writer *writer, int64_t *ret_sleep_us);
/* The thread's main function: iterates until ledger_writer_stop, and then up to 1,000 times more,
 * to book what is durable. */
void ledger_writer_run(struct ledger_writer *writer);
void ledger_writer_stop(struct ledger_writer *writer);

/* There may be something to do, e.g. durable decisions to book. Any thread. */
void ledger_writer_wake(void *writer);

void ledger_writer_post(struct ledger_writer *writer, struct ledger_writer_op *op);
/* Finished ops of this loop (or mailbox: loops + its number), linked by post.next, oldest first. */
struct ledger_writer_op *ledger_writer_collect(struct ledger_writer *writer, uint32_t loop);

/* A mailbox waits for its ops to finish or for ledger_writer_stop. */
void ledger_writer_wait(struct ledger_writer *writer, uint32_t mailbox, int64_t timeout_us);
/* Orders that expire from now on give their buyers a cooling time (LEDGER_EXPIRE); 0: none. Any
 * thread. */
void ledger_writer_cool(struct ledger_writer *writer, int64_t cooling_ms);
/* Shared: sets the token of the keeper's lease while this process holds it, else 0. Any thread. */
void ledger_writer_keep(struct ledger_writer *writer, uint64_t token);

/* Shared: asks for the sales that other ledger writers have changed to be read from the ledger soon.
 * They are also read once a second. Any thread. */
void ledger_writer_refresh(struct ledger_writer *writer);
/* Shared: another thread of this process has written to the ledger; its events must reach the
 * segments now. Any thread. */
void ledger_writer_hurry(struct ledger_writer *writer);

/* True if the item's sale is gone for good: it is not among the ledger's sales, although these were
 * read after `since_ms`, when the item was sold. Any thread. */
bool ledger_writer_forgot(struct ledger_writer *writer, uint64_t item, int64_t since_ms);

/* Any thread. */
uint64_t ledger_writer_booked_lsn(const struct ledger_writer *writer);
/* Why the last transaction failed; 0: it did not. */
int ledger_writer_error(const struct ledger_writer *writer);
uint64_t ledger_writer_pending_deadlines(const struct ledger_writer *writer);

#endif
