/*
 * What is known from outside: the ledger's commits, seen as they happen, and whatever clients were
 * told. The judges (promise_*.c) compare them with the promises; none of them asks the code under
 * test.
 */
#ifndef SLUICE_SIM_MODEL_H
#define SLUICE_SIM_MODEL_H

#include "port/gate.h"
#include "port/lease.h"
#include "port/ledger.h"
#include "port/segments.h"

#define MODEL_ORDERS 8192
#define MODEL_LEASES 80
#define MODEL_ITEMS 4

struct world;

/* What clients sent, and what of it was refused for good: it changed nothing. */
struct model_requests {
    uint32_t sent;
    uint32_t refused;
};

/* An order id from a buy, from an answer, or from the ledger. */
struct model_order {
    struct order_id id;
    uint64_t user;
    uint64_t item;
    uint32_t qty;
    uint32_t segment;
    bool asked; /* a client has sent this buy */
    struct model_requests buys, pays, cancels;
    bool told;              /* an answer showed it */
    bool undecided;         /* an answer showed it as undecided */
    int64_t in_line_us[8];  /* when first, by each process; 0: never */
    bool asked_for;         /* a segment was asked for it since, or has decided it */
    uint64_t forgot;        /* how often its segment had forgotten something at its first ask */
    enum order_state shown; /* the furthest state shown */
    int shown_by[8];        /* the furthest rank that each process has told, in its present life */
    uint16_t heard[8];      /* the last version each process has pushed, in its present life */
    /* the ledger's */
    bool booked;
    enum order_state state;
    enum refusal reason;
    int64_t pay_by_ms;
    int64_t cooling_until_ms; /* its end makes its buyer wait */
    uint64_t event;           /* the last about it */
    uint32_t returned;        /* how often its units came back */
};

/* What a buyer's orders of an item say about new ones. */
struct model_wait {
    bool barred;      /* for good */
    int64_t until_ms; /* else; 0: he need not wait */
};

struct model_lease {
    char name[LEASE_NAME_MAX + 1];
    uint64_t token; /* the highest given out */
};

/* What the ledger's events make of an item. */
struct model_item {
    uint64_t id;
    uint32_t limit;
    int64_t total, locked, sold;
};

struct model {
    struct model_order *orders;
    size_t count;
    uint32_t *table; /* by id */
    uint64_t events; /* of the ledger, seen so far */
    struct model_item items[MODEL_ITEMS];
    size_t items_count;
    int64_t starts_ms, ends_ms;
    uint64_t forgot[SEGMENTS_MAX];        /* how often a segment has forgotten something */
    uint64_t broken_epoch[SEGMENTS_MAX];  /* the segment contradicts itself in this life */
    uint64_t rebuilt_epoch[SEGMENTS_MAX]; /* the highest that a rebuild was asked for */
    struct model_lease leases[MODEL_LEASES];
    size_t leases_count;
    uint64_t fences[SEGMENTS_MAX]; /* the highest token it was rebuilt under */
    int64_t healed_us;
};

void model_init(struct model *ret_model);
void model_done(struct model *model);
struct model_order *model_find(struct model *model, struct order_id id);  /* NULL: not known */
struct model_order *model_order(struct model *model, struct order_id id); /* made if need be */
struct model_item *model_item(struct model *model, uint64_t item);
/* As of an event of the ledger. */
struct model_wait model_wait_at(const struct world *world, uint64_t item, uint64_t user,
                                uint64_t event);
/* How far an order has come. */
int model_rank(enum order_state state);

/* ---- what happens, as ports and fronts see it; judged at once ---- */

void model_asked(struct world *world, const struct gate_request *buy);
/* A client was answered by this process; shown: what he had been told of the order when he asked. */
/* What was known of an order when it was asked for: what happens meanwhile is nobody's fault. */
struct model_before {
    enum order_state shown;
    int shown_by;     /* its rank, by the process that is asked */
    bool waits;       /* perhaps in another front's line, as the process that is asked knows */
    uint64_t applied; /* the last event its segment's gate had */
    uint64_t epoch;   /* of a buy: of that gate */
    struct model_wait wait;
};
struct model_before model_before(struct world *world, uint32_t process,
                                 const struct gate_request *request);
void model_told(struct world *world, uint32_t process, const struct gate_request *request,
                const struct model_before *before);
/* A process pushed it to its watchers. */
void model_pushed(struct world *world, uint32_t process, const struct order_view *view);
/* A client's write has reached a process; the client got the result. */
void model_writes(struct world *world, const struct ledger_op *op);
void model_wrote(struct world *world, uint32_t process, const struct ledger_op *op);
/* A batch has come to the ledger; whether it was committed the ledger's events tell. */
void model_commit(struct world *world, const struct ledger_batch *batch, bool committed);
void model_lease(struct world *world, const char *name, uint64_t token);
void model_rebuilt(struct world *world, uint32_t segment, uint64_t epoch, uint64_t fence,
                   enum segment_outcome outcome);
/* A segment forgets something now. */
void model_forgets(struct world *world, uint32_t segment);
/* Now and then. */
void model_look(struct world *world);
/* Nothing is left to be done: judged once more, when faults have ended. False: not yet. */
bool model_is_settled(struct world *world);
void model_end(struct world *world);

/* ---- the judges ---- */

void promise_01_look(struct world *world);
void promise_01_end(struct world *world);
void promise_02_event(struct world *world, const struct ledger_event *event);
void promise_03_told(struct world *world, const struct model_order *order,
                     const struct order_view *view);
void promise_03_event(struct world *world, const struct model_order *order);
void promise_03_end(struct world *world);
void promise_04_event(struct world *world, const struct model_order *order);
void promise_04_end(struct world *world);
void promise_05_event(struct world *world, const struct model_order *order);
/* A buy was answered. */
void promise_05_told(struct world *world, const struct gate_request *buy,
                     const struct model_before *before);
void promise_05_end(struct world *world);
void promise_06_told(struct world *world, const struct model_order *order,
                     const struct gate_request *request);
void promise_07_told(struct world *world, const struct model_order *order, enum order_state shown,
                     enum order_state now);
void promise_07_missing(struct world *world, const struct model_order *order, uint32_t process,
                        uint64_t applied);
/* Whether a front that is asked now for a promised order, which may wait in another front's line,
 * knows that the segment was away, and will still know it when it answers. */
bool promise_07_waits(const struct world *world, const struct model_order *order, uint32_t process);
void promise_07_sold_out(struct world *world, const struct model_order *order, uint32_t process);
void promise_07_event(struct world *world, const struct model_order *order, enum order_state to);
void promise_08_event(struct world *world, const struct model_order *order,
                      const struct ledger_event *event);
void promise_08_end(struct world *world);
/* The order has changed; a request about it was answered. */
void promise_09_look(struct world *world, const struct model_order *order);
void promise_09_told(struct world *world, const struct model_order *order,
                     struct model_requests *requests, enum refusal refusal);
/* A segment has just decided a buy. */
void promise_09_decided(struct world *world, const struct gate_request *buy);
void promise_09_shares(struct world *world);
void promise_10_event(struct world *world, const struct ledger_event *event);
void promise_11_commit(struct world *world, const struct ledger_batch *batch, bool committed);
void promise_11_rebuilt(struct world *world, uint32_t segment, uint64_t fence);
/* Of undecided orders: a stage has called a segment; a buy that was sent at that time was answered. */
void line_asked_for(struct world *world, const struct segment_call *call);
void line_told(struct world *world, uint32_t process, const struct gate_request *buy,
               int64_t sent_us);
/* What is still to be done; NULL: nothing. */
const char *promise_13_left(struct world *world);

#endif
