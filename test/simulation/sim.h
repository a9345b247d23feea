/*
 * The simulator: one thread, virtual time, one seeded generator, one heap of events. It runs the
 * real core, flow and http over simulated ports, draws a workload and faults from the seed, and
 * lets a referee compare all answers with the promises.
 *
 *   driver.c    the command: seeds, workers, shrinking, figures
 *   sim.c       one seed: draws the plan, runs the heap, heals everything, ends
 *   process.c   the server under test: start, turns of its threads, crash, clean stop
 *   clock, disk, net, ledger, gate (sim_*.c)  the simulated ports
 *   crowd*.c    buyers, cheaters, operators and the payment system, as clients on the network
 *   referee.c   what was sent, told and committed, as the checkers know it
 *   promise_*.c the checkers, one file for each promise of the design
 *
 * Whatever happens is noted with sim_note(): the notes are the hash of the run, and the last of
 * them are printed when a promise is broken. Nothing here may depend on addresses, on real time or
 * on the order of anything but the heap.
 */
#ifndef SLUICE_SIM_H
#define SLUICE_SIM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/prng.h"
#include "core/types.h"
#include "port/ledger.h"

/* ---- faults ---- */

#ifdef SIM_DISTRIBUTED
#include "distributed/faults.h"
#else
/* Name, text. Each is drawn on or off by the seed (swarm testing), and counted when it happened. */
#define SIM_FAULTS(X)                                                                              \
    X(FAULT_KILL, "process killed")                                                                \
    X(FAULT_POWER, "power cut")                                                                    \
    X(FAULT_DIES_IN_DISK, "death inside a disk operation")                                         \
    X(FAULT_DIES_STARTING, "death while starting")                                                 \
    X(FAULT_STOP, "stopped and started cleanly")                                                   \
    X(FAULT_DISK_WRITE, "disk write failed")                                                       \
    X(FAULT_DISK_SYNC, "disk sync failed")                                                         \
    X(FAULT_DISK_NAME, "disk open, rename or remove failed")                                       \
    X(FAULT_DISK_FULL, "disk full")                                                                \
    X(FAULT_LEDGER_DOWN, "ledger not available")                                                   \
    X(FAULT_LEDGER_LOST, "ledger committed, answer lost")                                          \
    X(FAULT_LEDGER_SLOW, "ledger slow")                                                            \
    X(FAULT_WALL_JUMP, "wall clock set")                                                           \
    X(FAULT_DRIFT, "clock drifts")                                                                 \
    X(FAULT_NET_CUT, "connection cut")                                                             \
    X(FAULT_NET_DELAY, "network slow")                                                             \
    X(FAULT_NET_SPLIT, "bytes split")                                                              \
    X(FAULT_NET_TWICE, "request sent twice")                                                       \
    X(FAULT_NET_LOST, "answer lost")                                                               \
    X(FAULT_NET_STALL, "reader stalls")                                                            \
    X(FAULT_PAUSE, "a thread stands still")                                                        \
    X(FAULT_GATE_LATE, "gate answers later")                                                       \
    X(FAULT_GATE_LOST, "gate not reached, or its answer lost")                                     \
    X(FAULT_FAR_CLOCK, "start with a far clock")
#endif

enum sim_fault {
#define X(name, text) name,
    SIM_FAULTS(X)
#undef X
        FAULT_COUNT
};
const char *sim_fault_text(enum sim_fault fault);

/* ---- one seed ---- */

struct sim_options {
    uint64_t seed;
    /* For shrinking; all drawn things stay as the seed drew them where these allow it. */
    uint64_t faults_allowed; /* bit for each enum sim_fault; UINT64_MAX: all */
    uint32_t users_max;      /* 0: as drawn */
    uint32_t requests_max;   /* 0: as drawn (at least 2,000) */
    bool trace;              /* print each note as it happens */
};

struct sim_result {
    uint64_t hash;
    bool broken;
    int promise; /* number in the design; 0: the simulator's own expectations (well-formed answers,
                    the server starts, no hang) */
    char what[400];
    /* figures */
    uint64_t requests;  /* sent by clients */
    uint64_t answers;   /* complete ones received */
    uint64_t decisions; /* buys the server answered: orders and refusals */
    uint64_t orders;    /* orders that answers showed */
    uint64_t steps;
    uint64_t restarts; /* from disk */
    uint64_t evictions;
    uint64_t full; /* buys refused because something was full, a share mostly */
    uint64_t virtual_us;
    uint64_t faults[FAULT_COUNT];
    uint64_t states[ORDER_STATE_COUNT]; /* how the orders of the ledger ended */
};

/* Runs one seed to its end or to the first broken promise. Prints nothing but the trace, and the
 * last notes if a promise was broken and `report` is not NULL (a FILE *). */
void sim_run(const struct sim_options *options, struct sim_result *ret_result, void *report);

/* Removes the files that a process which died in a seed has left. */
void sim_ledger_clean(pid_t pid);

/* ---- inside a seed ---- */

struct sim;

/* True virtual time since the start of the seed, in µs. Only grows. Clocks of the server differ. */
int64_t sim_now_us(const struct sim *sim);
/* Everything that is drawn is drawn here. */
uint64_t sim_below(struct sim *sim, uint64_t bound);             /* 0 .. bound - 1 */
bool sim_chance(struct sim *sim, uint32_t of_thousand);          /* true in so many of 1,000 */
int64_t sim_between(struct sim *sim, int64_t low, int64_t high); /* both included */

/* Adds to the hash and to the last notes. what: a literal. */
void sim_note(struct sim *sim, const char *what, uint64_t a, uint64_t b, uint64_t c);
void sim_fault_happened(struct sim *sim, enum sim_fault fault);

/* A promise is broken: the first one counts, and the run ends after this step. */
void sim_broken(struct sim *sim, int promise, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool sim_is_broken(const struct sim *sim);

/* ---- what clients send and hear: seen by the referee ---- */

#define SIM_CALLS(X)                                                                               \
    X(CALL_TIME)         /* GET /v1/time */                                                        \
    X(CALL_ITEM)         /* GET /v1/items/{item} */                                                \
    X(CALL_ITEM_EVENTS)  /* SSE */                                                                 \
    X(CALL_TICKET)       /* POST /v1/items/{item}/ticket */                                        \
    X(CALL_BUY)          /* POST /v1/buy/{ticket} */                                               \
    X(CALL_ORDER)        /* GET /v1/orders/{order}, plain or long poll */                          \
    X(CALL_ORDER_EVENTS) /* SSE */                                                                 \
    X(CALL_CANCEL)       /* POST /v1/orders/{order}/cancel */                                      \
    X(CALL_PAY)          /* POST /v1/payments, signed */                                           \
    X(CALL_MY_ORDERS)    /* GET /v1/me/orders */                                                   \
    X(CALL_SALE_CREATE)                                                                            \
    X(CALL_SALE_MOVE)                                                                              \
    X(CALL_SALE_CHANGE) /* PUT: the end */                                                         \
    X(CALL_RESTOCK)                                                                                \
    X(CALL_CHEAT) /* must be refused with 4xx: forged, another's, malformed */

enum sim_call {
#define X(name) name,
    SIM_CALLS(X)
#undef X
        CALL_COUNT
};
const char *sim_call_text(enum sim_call call);

/* One request on one connection. Lives until it was heard or unheard. A client that asks again
 * makes a new request with the same order, key and so on. */
struct sim_request {
    uint64_t number; /* 1, 2, 3 ... in the order sent */
    int64_t sent_us; /* true time at which its first byte left the client */
    enum sim_call call;
    uint64_t user; /* who asks; 0: nobody, an operator or the payment system */
    uint64_t sale;
    uint64_t item;
    struct order_id order;     /* BUY: the ticket's; ORDER, CANCEL, PAY: the one asked for */
    uint32_t qty;              /* BUY */
    int64_t ticket_expires_ms; /* BUY: as the ticket call said, in the server's time */
    int64_t wait_ms;           /* ORDER: long poll; 0: plain */
    enum sale_state target;    /* SALE_MOVE */
    int64_t ends_at_ms;        /* SALE_CHANGE */
    uint64_t amount;           /* RESTOCK */
    int64_t amount_cents;      /* PAY */
    char key[40];              /* PAY: payment_id, RESTOCK: request_id */
    struct sale_row *sale_row; /* SALE_CREATE: what was asked for, ids given; the client's */
};

/* An order as an answer shows it. */
struct sim_told {
    struct order_id id;
    uint64_t item; /* 0: not said */
    uint32_t qty;  /* 0: not said */
    enum order_state state;
    bool has_reason;
    char reason[24];       /* a refusal code */
    int64_t pay_by_ms;     /* 0: not said or null */
    int64_t created_at_ms; /* 0: not said */
    int64_t amount_cents;  /* -1: not said */
};

/* A complete answer (well-formed HTTP and JSON: the client has checked that). */
struct sim_answer {
    int status;
    char code[24];  /* of a refusal; "" otherwise */
    char retry[16]; /* of a refusal: no, later, same-ticket, new-ticket */
    bool has_order;
    struct sim_told order;
    bool has_held;
    uint64_t held;
    bool has_numbers; /* available .. total; a refusal has available alone */
    uint64_t available, locked, sold, total;
    bool has_available;
    int64_t now_ms;                /* TIME */
    struct order_id ticket_order;  /* TICKET: the order id in the answer */
    int64_t expires_at_ms;         /* TICKET */
    enum sale_state sale_state;    /* SALE_*: of the sale in the answer */
    const struct sim_told *orders; /* MY_ORDERS: the page, newest first */
    size_t orders_count;
};

#endif
