/*
 * The distributed engine behind its loops, without servers: a clock that stands still, simulated
 * segments, a ledger in memory that several processes write to, and up to two processes. A process has
 * the parts that its stages share: journal, spool, catalog, segment table, ledger writer and event
 * sink. Tests make the stages themselves. cluster_model.h adds a small front, relay and booker.
 *
 * A stage that books waits for the ledger writer, which runs on its own thread. Here that thread works
 * only between cluster_let and cluster_halt, and in between the test calls nothing but the stage.
 * Everything else happens on the test's own thread, in its order.
 */
#ifndef SLUICE_TEST_CLUSTER_WORLD_H
#define SLUICE_TEST_CLUSTER_WORLD_H

#include "base/prng.h"
#include "distributed/booking_channel.h"
#include "distributed/segment_event_sink.h"
#include "distributed/segment_table.h"
#include "distributed/spool.h"
#include "fake_clock.h"
#include "ledger/ledger_writer.h"
#include "memory_ledger.h"
#include "ram_disk.h"
#include "sim_segments.h"

#define CLUSTER_NOW 1700000000000LL
#define CLUSTER_SALE 1
#define CLUSTER_ONCE 11  /* one each */
#define CLUSTER_THREE 12 /* three each; cluster_model.h only */
#define CLUSTER_FREE 13  /* no limit */
#define CLUSTER_UNITS 20 /* of each item on each segment */
#define CLUSTER_ENDS_MS 3600000
#define CLUSTER_CENTS 1000
#define CLUSTER_PAY_MS 60000
#define CLUSTER_KEEP_MS 86400000
#define CLUSTER_PROCESSES 2
#define CLUSTER_LOOPS 2
#define CLUSTER_MAILBOXES 2

extern const struct gate_sizes cluster_sizes;

/* Segments that may be used while the ledger writer works. */
struct cluster_segments {
    struct segments port;
    struct segments *inner;
    pthread_mutex_t *lock;
    uint64_t applies; /* how often, */
    uint64_t calls;   /* and with how many */
    uint64_t looks;
    int64_t ahead_ms[SEGMENTS_MAX]; /* their servers' clocks */
};

struct cluster_process {
    struct cluster_world *world;
    bool is_up;
    struct ram_disk ram;
    struct journal *journal;
    struct spool *spool;
    struct catalog *catalog;
    struct segment_table segment_table;
    struct waker wakers[CLUSTER_LOOPS];
    struct inside_time time;
    struct metrics metrics;
    struct gate_port *gate; /* its front; CLUSTER_LOOPS + 1 connection sets */
    struct memory_port writer;
    struct memory_port reader;
    struct segments *ledger_writer_segments;
    struct cluster_segments stage; /* for the stage under test */
    struct segment_event_sink *segment_event_sink;
    struct ledger_writer *ledger_writer;
    struct booking_channel booking_channel; /* mailbox 0 */
    pthread_t thread;
    bool is_working;
    _Atomic bool stopping;
};

/* A decision of a segment: in the small front's journal, or in a message to the booker. */
struct model_decision {
    uint32_t segment;
    uint64_t epoch;
    struct gate_command command;
    bool told; /* the buyer has the answer */
};

/* State of the small front, relay and booker of cluster_model.h. */
struct cluster_model {
    struct gate_port *worker;
    uint32_t homes;                /* of its sale */
    uint64_t epochs[SEGMENTS_MAX]; /* as the front knows them */
    bool owes[SEGMENTS_MAX];       /* the journal is not completely replayed there */
    struct model_decision *journal;
    size_t journal_count;
    struct model_decision *messages;
    size_t messages_count;
    bool still; /* nothing else happens while a process sleeps */
};

struct cluster_world {
    struct fake_clock clock;
    struct sim_segments *sim;
    struct segments *hands; /* the test's own */
    struct memory_ledger ledger;
    uint32_t count;    /* segments */
    int64_t delay_us;  /* one way of a request, with option `late` */
    uint32_t sequence; /* of order ids */
    int64_t database_ahead_ms;
    struct prng prng;
    pthread_mutex_t lock; /* the test holds it, except between cluster_let and cluster_halt */
    struct cluster_process processes[CLUSTER_PROCESSES];
    struct cluster_model model;
};

struct cluster_options {
    uint32_t segments;
    uint32_t servers;    /* for segments that a test adds later; 0: as many as segments */
    bool late;           /* requests are answered after delay_us there and back */
    bool open;           /* every segment is empty and open, of epoch 1 there and in the ledger */
    const char *regions; /* homes by region (port/regions.h); NULL: none */
    uint64_t seed;       /* of `prng` */
};

/* No process is up. */
void cluster_init(struct cluster_world *ret_world, struct cluster_options options);
void cluster_done(struct cluster_world *world);
/* Runs one op in the ledger; its refusal. */
enum refusal cluster_run(struct cluster_world *world, struct ledger_op *op);

/* ---- segments ---- */

/* Where a random test begins: SLUICE_SEED, or 1. */
uint64_t cluster_seed(void);

/* Made anew, filled and open; `event` is the one applied last. */
void cluster_fill(struct cluster_world *world, uint32_t segment, uint64_t epoch, uint64_t event);
/* Empty and open, at the ledger's beginning. */
void cluster_bare(struct cluster_world *world, uint32_t segment, uint64_t epoch);
struct segment_state cluster_look(struct cluster_world *world, uint32_t segment);

/* What a process knows of them now. */
void cluster_segment_table(struct cluster_world *world, struct segment_table *ret_segment_table);
/* The same, and the front's asks carry the epochs. */
void cluster_place(struct cluster_world *world, struct segment_table *segment_table,
                   struct gate_port *worker);

/* A fresh id of the segment; each call another. */
struct order_id cluster_id(struct cluster_world *world, uint64_t item, uint32_t segment);
/* A buyer whose home among all of them is this one: the nth. */
uint64_t cluster_user(const struct cluster_world *world, uint32_t segment, uint32_t nth);
/* A buy of one unit, decided by the segment for a front. */
struct gate_command cluster_buy(struct cluster_world *world, uint32_t segment, uint64_t user);
/* NULL: it has no such order. */
const struct gate_order *cluster_order(const struct cluster_world *world, uint32_t segment,
                                       struct order_id id);
const struct gate_item *cluster_item(const struct cluster_world *world, uint32_t segment,
                                     uint64_t item);

/* ---- processes ---- */

/* Its disk keeps what a process that went down had synced. */
void cluster_up(struct cluster_world *world, uint32_t process);
void cluster_down(struct cluster_world *world, uint32_t process);

/* One turn; turns until nothing is left to do at this time. */
int64_t cluster_turn(struct cluster_process *process);
void cluster_settle(struct cluster_process *process);
void cluster_pass_ms(struct cluster_world *world, int64_t ms);

/* The ledger writer's thread of this process works until cluster_halt. */
void cluster_let(struct cluster_process *process);
void cluster_halt(struct cluster_process *process);

/* Posts it as a loop does and settles; it must come back, answered. */
void cluster_do(struct cluster_process *process, struct ledger_writer_op *op);
/* A sale with two items, CLUSTER_UNITS of each on every segment: created and opened here. */
void cluster_open_sale(struct cluster_process *process);
/* Closed, and off the board: the gate forgets it, and this process hears of it a second later. */
void cluster_forget_sale(struct cluster_process *process);
struct ledger_writer_op cluster_sale_op(enum ledger_kind kind, enum sale_state target);

/* The segment begins a new life in the ledger: its new epoch. */
uint64_t cluster_raise_epoch(struct cluster_world *world, uint32_t segment);
/* The same, and the segment is made anew, with the sale and without any order. The processes know. */
void cluster_rebuild(struct cluster_world *world, uint32_t segment);
/* All processes know what is so. */
void cluster_place_all(struct cluster_world *world);

/* A decision of the segment, in its outbox. */
struct decision cluster_decide(struct cluster_world *world, uint32_t segment, uint64_t user);
const struct order_row *cluster_row(const struct cluster_world *world, struct order_id id);

#endif
