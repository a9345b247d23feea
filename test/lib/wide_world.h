/*
 * The distributed engine behind its loops, without servers: simulated segments, a ledger in memory
 * that several processes write to, and of each process the parts that its stages share: journal,
 * spool, catalog, segment table, ledger writer and event sink. Stages are made by the tests.
 *
 * Stages that have something booked wait for the ledger writer, which is a thread's. Here that thread
 * works only while the test lets it: between wide_let and wide_halt, inside which the test calls
 * nothing but the stage. Everything else happens in the test's own thread, in its order.
 */
#ifndef SLUICE_TEST_WIDE_WORLD_H
#define SLUICE_TEST_WIDE_WORLD_H

#include "distributed/booking_channel.h"
#include "distributed/segment_event_sink.h"
#include "distributed/spool.h"
#include "ledger/ledger_writer.h"
#include "memory_ledger.h"
#include "ram_disk.h"
#include "segments_world.h"

#define WIDE_PROCESSES 2
#define WIDE_LOOPS 2
#define WIDE_MAILBOXES 2
#define WIDE_CENTS 1000
#define WIDE_PAY_MS 60000
#define WIDE_KEEP_MS 86400000

/* Segments that may be used while the ledger writer works. */
struct wide_segments {
    struct segments port;
    struct segments *inner;
    pthread_mutex_t *lock;
    uint64_t applies; /* how often, */
    uint64_t calls;   /* and with how many */
    uint64_t looks;
    int64_t ahead_ms[SEGMENTS_MAX]; /* their servers' clocks */
};

struct wide_process {
    struct wide_world *world;
    bool is_up;
    struct ram_disk ram;
    struct journal *journal;
    struct spool *spool;
    struct catalog *catalog;
    struct segment_table segment_table;
    struct waker wakers[WIDE_LOOPS];
    struct inside_time time;
    struct metrics metrics;
    struct gate_port *gate; /* its front; WIDE_LOOPS + 1 connection sets */
    struct memory_port writer;
    struct memory_port reader;
    struct segments *ledger_writer_segments;
    struct wide_segments stage; /* for the stage under test */
    struct segment_event_sink *segment_event_sink;
    struct ledger_writer *ledger_writer;
    struct booking_channel booking_channel; /* mailbox 0 */
    pthread_t thread;
    bool is_working;
    _Atomic bool stopping;
};

struct wide_world {
    struct segments_world segments;
    struct memory_ledger ledger;
    pthread_mutex_t lock; /* the test holds it, but between wide_let and wide_halt */
    int64_t database_ahead_ms;
    struct wide_process processes[WIDE_PROCESSES];
};

/* Segments are empty and open, of epoch 1 there and in the ledger. No process is up. */
void wide_world_init(struct wide_world *ret_world, uint32_t segments);
void wide_world_done(struct wide_world *world);

/* Its disk keeps what a process that went down had synced. */
void wide_up(struct wide_world *world, uint32_t process);
void wide_down(struct wide_world *world, uint32_t process);

/* One turn; turns until nothing is left to do at this time. */
int64_t wide_turn(struct wide_process *process);
void wide_settle(struct wide_process *process);
void wide_pass_ms(struct wide_world *world, int64_t ms);

/* The ledger writer's thread of this process works until wide_halt. */
void wide_let(struct wide_process *process);
void wide_halt(struct wide_process *process);

/* Posts it as a loop does and settles; it must come back, answered. */
void wide_do(struct wide_process *process, struct ledger_writer_op *op);
/* A sale with two items, WIDE_UNITS of each on every segment: created and opened here. */
void wide_open_sale(struct wide_process *process);
/* Closed, and off the board: the gate forgets it, and this process hears of it a second later. */
void wide_forget_sale(struct wide_process *process);
struct ledger_writer_op wide_sale_op(enum ledger_kind kind, enum sale_state target);

/* The segment begins a new life in the ledger: its new epoch. */
uint64_t wide_raise_epoch(struct wide_world *world, uint32_t segment);
/* The same, and the segment is made anew, with the sale and without any order. The processes know. */
void wide_rebuild(struct wide_world *world, uint32_t segment);
/* All processes know what is so. */
void wide_place_all(struct wide_world *world);

/* A decision of the segment, in its outbox. */
struct decision wide_decide(struct wide_world *world, uint32_t segment, uint64_t user);
const struct order_row *wide_row(const struct wide_world *world, struct order_id id);

#endif
