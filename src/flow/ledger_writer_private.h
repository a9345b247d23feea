/* The inside of the ledger writer, shared by ledger_writer.c and ledger_writer_follow.c. Nobody else includes this. */
#ifndef SLUICE_FLOW_LEDGER_WRITER_PRIVATE_H
#define SLUICE_FLOW_LEDGER_WRITER_PRIVATE_H

#include <stdatomic.h>

#include "flow/ledger_writer.h"

/* Rows read at once. */
#define LEDGER_WRITER_PAGE 1024

struct ledger_writer {
    struct embedded_gate *engine;
    struct gate_event_sink own_event_sink;
    struct event_sink *event_sink;
    struct ledger *ledger;
    struct catalog *catalog;
    struct inside_time *time;
    struct metrics_slot *metrics;
    struct ledger_writer_options options;
    struct booking_reader bookings;
    struct deadline_scheduler *deadlines;
    uint32_t loops;
    struct mailbox inbox;
    struct mailbox *outboxes; /* one per loop, and one per mailbox */
    /* posted and not yet in a batch, oldest first */
    struct post *waiting;
    /* the batch: pointers to ops, in the order posted, moves, due, bookings */
    struct ledger_op **ops;
    struct ledger_op *own; /* moves, due and bookings live here */
    struct post *posted;   /* those in the batch */
    struct post *held;     /* shared: committed, answered when their segments have followed */
    size_t own_count;
    struct ledger_batch batch;
    bool in_flight;
    bool lost_track;     /* a batch failed: read the ledger's events before the next one */
    bool must_rewind;    /* the booker has read what was not booked */
    bool deadlines_lost; /* the keeper could not take one: load them again */
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
    int64_t refresh_least_ms;       /* how long after that it is not read again */
    _Atomic int64_t sales_as_of_ms; /* the catalog shows the ledger's sales as of then, or later */
    uint64_t kept_token;            /* deadlines were loaded under it; 0: not the keeper */
    uint64_t followed_event;
    bool kept_last; /* the batch before this one was the keeper's */
    _Atomic uint64_t booked_lsn;
    _Atomic uint64_t pending_deadlines;
    _Atomic bool stopping;
};

/* What the keeper has to know of an event. */
void ledger_writer_keep_event(struct ledger_writer *writer, const struct ledger_event *event);
/* Synchronous read: at start, and after trouble. */
int ledger_writer_read_now(struct ledger_writer *writer, struct ledger_query *query);
int ledger_writer_reload_sale(struct ledger_writer *writer, uint64_t sale);
int ledger_writer_load_sales(struct ledger_writer *writer, size_t *ret_count);
/* The batch's posts (ledger_writer_answer.c). */
void ledger_writer_answer_posted(struct ledger_writer *writer, int error, uint64_t lsn);
/* Shared: what is looked for at the gate is held while its segment is behind. */
void ledger_writer_answer_followed(struct ledger_writer *writer);
void ledger_writer_answer_held(struct ledger_writer *writer, int64_t now_ms);
/* Shared: the same when it was asked for, or long ago. */
int ledger_writer_refresh_sales(struct ledger_writer *writer, int64_t now_ms);
int ledger_writer_reload_deadlines(struct ledger_writer *writer);
/* Shared: takes the keeper's lease up, or lays it down; its holder reads what all ledger writers have
 * committed since the last time. */
int ledger_writer_follow_lease(struct ledger_writer *writer);

#endif
