/*
 * The simulator of the distributed engine: one thread, virtual time, one seeded generator. Several
 * processes, each with the program's own assembly and the whole distributed engine (distributed/engine.h)
 * and the event publisher, on simulated servers:
 *
 *   fiber.c    the stages' threads, as stacks that take turns at drawn times
 *   world.c    one seed: draws the plan, runs the turns, heals everything, ends
 *   ports.c    what stands between a stage and a server: time passes, answers get lost
 *   process.c  one process: start from its disk, its threads, its death
 *   front.c    its loop: asks and posts of clients, told when they are durable
 *   crowd.c    buyers and operators
 *   shop.c     the shop's payment system, and the last comparison of gate and ledger
 *   strike.c   faults
 *   model.c    clients' answers and the ledger's commits; promise_*.c check them
 *
 * A stage may be struck before and after every call of a port: what the other side did is done,
 * whoever asked for it.
 */
#ifndef SLUICE_SIM_WORLD_H
#define SLUICE_SIM_WORLD_H

#include <stdio.h>

#include "app/assembly.h"
#include "base/prng.h"
#include "distributed/engine.h"
#include "fiber.h"
#include "ledger/event_publisher.h"
#include "ledger/ledger_writer.h"
#include "memory_ledger.h"
#include "model.h"
#include "ram_disk.h"
#include "sim.h"
#include "sim_queue.h"
#include "sim_segments.h"

#define LOOPS 1
#define WORLD_NOW_MS 1700000000000LL
#define PROCESSES 2
#define SEGMENTS_MOST 3
#define USERS_MOST 60
#define WORLD_SALE 1
#define ITEMS 3
#define NOTES_KEPT 200

struct world;
struct process;

enum thread_kind {
    THREAD_LOOP,
    THREAD_JOURNAL,
    THREAD_JANITOR,
    THREAD_LEDGER_WRITER,
    THREAD_EVENT_PUBLISHER,
    THREAD_ENGINE, /* the first of the engine's */
    THREAD_COUNT = THREAD_ENGINE + ENGINE_THREADS
};

/* ---- ports (ports.c) ---- */

struct world_clock {
    struct clock_port port;
    struct world *world;
    int64_t ahead_us; /* of the true time */
    int64_t ppm;      /* and faster by this */
};
struct world_ledger {
    struct ledger ledger;
    struct memory_port inner;
    struct world *world;
    uint32_t process;
};
struct world_segments {
    struct segments segments;
    struct segments *inner;
    struct world *world;
};
struct world_queue {
    struct queue queue;
    struct queue *inner;
    struct world *world;
    struct sim_broker *broker;
};
struct world_lease {
    struct lease_port port;
    struct memory_holder inner;
    struct world *world;
};

void world_clock_init(struct world_clock *ret_clock, struct world *world, int64_t ahead_us,
                      int64_t ppm);
void world_ledger_init(struct world_ledger *ret_ledger, struct world *world, uint32_t process);
void world_segments_init(struct world_segments *ret_segments, struct world *world, uint32_t name);
void world_queue_init(struct world_queue *ret_queue, struct world *world, struct sim_broker *broker,
                      bool publisher);
void world_lease_init(struct world_lease *ret_lease, struct world *world, uint32_t process);

/* ---- a process (process.c, front.c) ---- */

/* A client's ask or post, until it is answered and told. */
struct call {
    struct gate_request request;
    struct ledger_writer_op op;
    bool is_post;
    enum { CALL_NEW, CALL_SENT, CALL_ANSWERED, CALL_TOLD } state; /* told once it is durable */
    bool unread;    /* the process had not read of its sale when it was asked */
    bool lost;      /* its process is gone */
    bool abandoned; /* nobody waits: the one that finishes it frees it */
    struct fiber *client;
    struct call *next; /* in its process */
};

/* The program's assembly and the distributed engine, on simulated ports and fibers. */
struct process {
    struct world *world;
    uint32_t index;
    bool up;
    uint64_t lives;
    struct ram_disk ram;
    struct world_clock clock;
    struct assembly parts;
    struct engine engine;
    bool is_open; /* engine and parts have something to free */
    struct gate_port *gate;
    struct world_ledger writer;
    struct world_ledger lists; /* the ledger reader's, which nobody asks here */
    struct world_ledger promises;
    struct world_ledger keeper;
    struct world_ledger reconciler;
    struct world_ledger events;
    struct world_segments segments[ENGINE_THREADS];
    struct world_segments ledger_writer_segments;
    struct world_queue publisher;
    struct world_queue consumer;
    struct world_queue parked;
    struct world_queue payments;
    struct world_queue announcer;
    struct world_lease lease;
    struct world_lease recover_lease;
    struct world_lease events_lease;
    struct event_publisher *event_publisher;
    struct fiber *fibers[THREAD_COUNT];
    struct engine_fiber {
        struct process *process;
        enum engine_thread thread;
    } engine_fibers[ENGINE_THREADS];
    struct fiber *waiting[MAILBOX_COUNT]; /* for the ledger writer */
    struct call *calls;
};

/* Starts it from its disk, as its own fibers. */
void process_start(struct world *world, uint32_t index);
void process_kill(struct world *world, uint32_t index, enum ram_crash how);
/* The loop: process.c's thread. */
void front_run(void *process);
void front_lost(struct process *process);

/* A client asks; false: no answer came (its process died, or it has waited long enough). */
bool front_request(struct world *world, uint32_t process, struct gate_request *request,
                   int64_t patience_us);
/* The same with a write. op.sale is the caller's to free. */
bool front_post(struct world *world, uint32_t process, struct ledger_writer_op *op,
                int64_t patience_us);

/* ---- the world ---- */

struct plan {
    uint64_t faults;   /* a bit for each kind */
    uint32_t segments; /* in the end; FAULT_ADDED adds those behind the first */
    uint32_t first;
    uint32_t users;
    uint32_t buys; /* of each user, at most */
    uint64_t totals[ITEMS];
    uint32_t limits[ITEMS];
    struct gate_shares shares; /* of a segment's pools; 0: no such share */
    uint32_t pay_within_s;
    bool bar_unpaid;
    int64_t late_cancel_ms; /* 0: no cancellation is late */
    int64_t cooling_ms;     /* 0: nobody waits */
    bool queue;             /* there is one */
    int64_t ends_us;
    int64_t strikes_until_us;
    int64_t strike_every_us;
    int64_t call_us; /* a port's way, on average */
    int64_t promise_resolver_us, keeper_us;
    int64_t claim_ms;
    int64_t stale_ms; /* decisions that lag so much fail; 0: they wait */
    int64_t direct_outbox, direct_rate;
    uint32_t patience; /* the broker's, with messages that are taken and not settled */
    int64_t redrive_ms;
    int64_t reconcile_bound_ms, reconcile_every_ms;
    int64_t ledger_ahead_us;
};

struct world {
    struct sim_options options;
    struct sim_result *result;
    FILE *report;
    struct prng prng;
    struct plan plan;
    struct fibers *fibers;
    struct world_clock clock; /* the true one */
    struct world_clock ledger_clock;
    struct sim_segments *segments;
    struct sim_broker *broker;
    struct sim_broker *payments; /* what the shop's payment system sends */
    struct sim_broker *events;   /* what the shop hears */
    struct world_queue cashier;  /* sends payments */
    struct queue *cashier_parked;
    uint64_t payments_sent;
    struct memory_ledger ledger;
    struct process processes[PROCESSES];
    struct model model;
    /* faults under way */
    bool healed;
    int64_t ledger_down_until_us;
    int64_t ledger_slow_until_us;
    uint32_t ledger_lose; /* of 1,000 commits' answers */
    uint32_t count;       /* segments that a process which starts now knows */
    bool is_open;         /* the sale */
    bool reconciles;      /* the last comparison was asked for ... */
    bool reconciled;      /* ... and is there */
    uint32_t clients;     /* that have not finished */
    uint32_t sequence;
    uint64_t requests;
    struct {
        int64_t at_us;
        const char *what;
        uint64_t a, b, c;
    } notes[NOTES_KEPT];
    uint64_t notes_count;
};

int64_t world_now_us(const struct world *world);
uint64_t world_below(struct world *world, uint64_t bound);
bool world_chance(struct world *world, uint32_t of_thousand);
int64_t world_between(struct world *world, int64_t low, int64_t high);
/* Around so long, now and then much longer. */
int64_t world_about(struct world *world, int64_t mean_us);
void world_note(struct world *world, const char *what, uint64_t a, uint64_t b, uint64_t c);
void world_struck(struct world *world, enum sim_fault fault, uint64_t whom);
void world_broken(struct world *world, int promise, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- who lives in it ---- */

/* Sends a payment through the queue; false: it is not known to have arrived. */
bool cashier_pays(struct world *world, struct order_id id, const char *payment, int64_t cents);
/* Asks for a comparison of gate and ledger, when nothing is left to do: there must be no
 * difference. */
void reconcile_start(struct world *world);

void crowd_start(struct world *world);
void strike_start(struct world *world);
/* Ends every fault. */
void strike_heal(struct world *world);

#endif
