/* Internals of the ledger writer, shared by ledger_writer.c, ledger_writer_answer.c,
 * ledger_writer_blocks.c and ledger_writer_follow.c. No other file includes this. */
#ifndef SLUICE_LEDGER_LEDGER_WRITER_PRIVATE_H
#define SLUICE_LEDGER_LEDGER_WRITER_PRIVATE_H

#include <stdatomic.h>

#include "ledger/ledger_writer.h"

/* Rows per read. */
#define LEDGER_WRITER_PAGE 1024

struct ledger_writer {
    struct waker *wakers; /* one per loop */
    struct event_sink *event_sink;
    struct ledger *ledger;
    struct catalog *catalog;
    struct inside_time *time;
    struct metrics_slot *metrics;
    struct ledger_writer_options options;
    struct deadline_scheduler *deadlines;
    uint32_t loops;
    struct mailbox inbox;
    struct mailbox *outboxes; /* one per loop, then one per mailbox */
    /* posted, not yet in a batch; oldest first */
    struct post *waiting;
    /* the batch: pointers to ops, in the order posted, moves, due, bookings */
    struct ledger_op **ops;
    struct ledger_op *own; /* storage for moves, due and bookings */
    struct post *posted;   /* the posted ops in the batch */
    struct post *held;     /* shared: committed ops, answered when their segments have caught up */
    size_t own_count;
    struct ledger_batch batch;
    bool lost_track;     /* a batch failed: read the ledger's events before the next one */
    bool must_rewind;    /* the booking reader has read records that were not booked */
    bool deadlines_lost; /* a deadline could not be added: load them all again */
    bool stopped_for_failure;
    int64_t backoff_us;
    int64_t retry_at_us;
    int64_t cursor_at_us;
    int64_t slew_at_us;
    int64_t tick_at_ms;
    /* shared: the keeper's lease, and how far its holder has read the ledger's events */
    _Atomic uint64_t keeper_token;
    _Atomic bool hurry;
    _Atomic bool refresh;
    int64_t refreshed_ms;
    uint64_t sale_change;           /* the catalog shows the ledger's sales up to this change */
    uint64_t block_change;          /* the sink has the ledger's blocks up to this change */
    int64_t blocks_as_of_ms;        /* when they were read last; 0: never */
    _Atomic int64_t sales_as_of_ms; /* the catalog shows the sales as of this time, or later */
    uint64_t kept_token;            /* deadlines were loaded under this token; 0: not the keeper */
    uint64_t followed_event;
    bool kept_last;             /* the previous batch was the keeper's */
    _Atomic int64_t cooling_ms; /* of orders that expire */
    _Atomic uint64_t booked_lsn;
    _Atomic uint64_t pending_deadlines;
    _Atomic int ledger_error;
    _Atomic bool stopping;
};

/* One of several ledger writers of a ledger. */
static inline bool ledger_writer_is_shared(const struct ledger_writer *writer)
{
    return writer->options.bookings == NULL;
}
/* Passes an event on to the deadline scheduler and the catalog. */
void ledger_writer_keep_event(struct ledger_writer *writer, const struct ledger_event *event);
int ledger_writer_reload_sale(struct ledger_writer *writer, uint64_t sale);
/* Reads the sales that have changed since the last call into the catalog; the first call reads all.
 * *ret_count: how many were read. */
int ledger_writer_load_sales(struct ledger_writer *writer, size_t *ret_count);
/* Reads the blocks that have changed since the last call into the sink; all of them at the first call,
 * and if the last one is so long ago that the ledger may have dropped what has ended since. */
int ledger_writer_load_blocks(struct ledger_writer *writer);
/* After a batch: reads them if it has changed any, and logs what the operator did. */
int ledger_writer_follow_blocks(struct ledger_writer *writer);
/* Drops those that have ended. */
void ledger_writer_sweep_blocks(struct ledger_writer *writer);
/* Answers the posted ops of the batch (ledger_writer_answer.c). */
void ledger_writer_answer_posted(struct ledger_writer *writer, int error, uint64_t lsn);
/* Shared: answers the ops of the batch, or the held ops. An op whose result somebody will look up
 * at the gate is held while its segment is behind, for a bounded time. */
void ledger_writer_answer_followed(struct ledger_writer *writer);
void ledger_writer_answer_held(struct ledger_writer *writer, int64_t now_ms);
/* Shared: loads the sales if that was requested, or if the last reading is long ago. */
int ledger_writer_refresh_sales(struct ledger_writer *writer, int64_t now_ms);
int ledger_writer_reload_deadlines(struct ledger_writer *writer);
/* Shared: takes over the keeper's lease, or gives it up. Its holder reads the events that all
 * ledger writers have committed since the last call. */
int ledger_writer_follow_lease(struct ledger_writer *writer);

#endif
