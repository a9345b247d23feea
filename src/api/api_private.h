/*
 * The inside of a worker, shared by api_worker.c, gate_requests.c, watch.c, buyer.c and orders.c.
 * Handlers of other families see api.h only.
 */
#ifndef SLUICE_API_API_PRIVATE_H
#define SLUICE_API_API_PRIVATE_H

#include "api/api.h"

/* Why a connection's answer waits for an LSN. */
enum wait_kind { WAIT_NOTHING, WAIT_BUY, WAIT_VIEW, WAIT_PUSH };

enum watch_kind { WATCH_NOTHING, WATCH_POLL, WATCH_ORDER, WATCH_ITEM, WATCH_LIVE };

/* Per connection, indexed by its number; touched only by connections that wait or watch. Links are
 * connection + 1, 0 ends a chain. */
struct slot {
    uint32_t generation;
    uint8_t wait;            /* enum wait_kind */
    uint8_t watch;           /* enum watch_kind */
    uint8_t hold_state;      /* POLL: hold the answer in this state, too */
    bool sold_out_sent;      /* ITEM */
    bool finished;           /* the peer of this exchange will send no more */
    bool looking;            /* POLL, ORDER: the gate is being asked */
    bool look_more;          /* ... and has to be asked again afterwards */
    bool look_due;           /* ORDER: a look is owed, whatever is heard */
    uint8_t beats;           /* ORDER: heartbeats so far */
    uint32_t held;           /* BUY */
    uint16_t version_sent;   /* ORDER */
    bool existed;            /* BUY */
    int64_t started_us;      /* BUY */
    struct order_view order; /* what waits to be told; POLL, ORDER: the newest heard of */
    /* watching */
    struct order_id key; /* the order, or {item, 0}, or {0, 0} for the dashboard */
    uint64_t item_version;
    int64_t due_ms;  /* POLL: when to answer anyway; ITEM, LIVE: not told again before */
    int64_t wake_ms; /* when the wheel looks at it: a poll's end, a stream's heartbeat */
    uint32_t key_next, key_previous;
    uint32_t wheel_next, wheel_previous, wheel_place;
    uint32_t list_next, list_previous;
    uint8_t origin_len; /* of an allowed Origin; 0: none */
    char origin[95];
};

struct waiting {
    uint64_t lsn;
    struct http_exchange exchange;
    struct api_write *call; /* NULL: the connection's slot says what */
};

/* The answer nearly everyone gets, ready made: nothing left for good, or, with this many different
 * pauses, nothing left at the moment. */
#define READY_PAUSES 16
struct ready {
    uint32_t len;
    char bytes[508];
};

/* Where the requests for an item are counted; a few that were met last. */
#define TALLY_KNOWN 256
struct tally_known {
    uint64_t item;
    uint64_t sale;
    struct tally_row *row; /* the sale's, while tally_is; NULL: there was no room then */
    int64_t at_ms;
};

#define WHEEL_SLOTS 1024
#define WHEEL_STEP_MS 32

struct api_worker {
    struct api_shared *shared;
    struct api_settings *settings; /* the ones of this turn */
    uint32_t loop;
    struct net *net;
    struct http_server *server;
    struct metrics_slot *metrics;
    struct gate_port *gate;
    struct journal *journal;
    struct waker *waker;
    struct token_memory *tokens;
    struct prng prng;
    int64_t now_ms;
    char *scratch;
    /* what waits for durable_lsn, in order: a ring */
    struct waiting *waits;
    uint32_t waits_capacity; /* a power of two */
    uint32_t waits_head;
    uint32_t waits_count;
    struct post *held_writes; /* committed, and no room to wait for durable_lsn; oldest first */
    /* connections that wait or watch */
    struct slot *slots;
    uint32_t slots_count;
    uint32_t *keys; /* buckets of watched orders */
    uint32_t keys_mask;
    uint32_t wheel[WHEEL_SLOTS];
    int64_t wheel_ms; /* everything before this was run */
    uint32_t watchers;
    uint32_t items_first; /* streams of items and of the dashboard */
    uint32_t items_cursor;
    int64_t items_next_ms;
    uint32_t calls[BUDGET_COUNT]; /* ledger writer ops and queries under way */
    uint32_t reconciles;          /* calls to the reconciler; the end does not wait for them */
    uint32_t parked_calls;        /* calls about the queue; the same */
    /* asks of the gate under way; a pool */
    struct api_gate_request *requests;
    uint32_t requests_capacity;
    uint32_t requests_fresh; /* those before it were used, and are under way or free */
    uint32_t requests_used;
    struct api_gate_request *requests_free;
    struct tally_known tally_known[TALLY_KNOWN];
    bool draining;
    struct ready sold_out[1 + READY_PAUSES];
};

/* Waits until lsn is durable, then answers what the slot or the call says. False: no room. */
bool api_after_durable(struct api_worker *worker, uint64_t lsn, struct http_exchange exchange,
                       struct api_write *call);
struct slot *api_slot(struct api_worker *worker, struct http_exchange exchange);
bool api_durable(const struct api_worker *worker, uint64_t lsn);

/* router.c: the handler of struct http_app; context is the worker. */
enum http_outcome router_handle(void *context, struct http_exchange exchange,
                                const struct http_request *request);

/* authentication.c: true if the request carries what a route needs; req->user is then set for
 * NEED_BUYER. False: it was refused. */
bool authenticate(struct api_request *req, enum api_need need);

/* gate_requests.c: the pool, and what the gate has answered since; true if there was anything. */
int gate_requests_start(struct api_worker *worker);
void gate_requests_done(struct api_worker *worker);
bool gate_requests_collect(struct api_worker *worker);

/* sale_tally.c: for the sale of an item; one that is not known, or has no room, is not counted. */
struct tally_row *api_tally(struct api_worker *worker, uint64_t item);
void api_tally_asked(struct api_worker *worker, uint64_t item, uint64_t user);
void api_tally_refused(struct api_worker *worker, uint64_t item, enum refusal refusal);

/* admin_reconcile.c: what the reconciler has answered since; true if there was anything. */
bool reconciles_collect(struct api_worker *worker);
/* admin_queue.c: the same of calls about the queue. */
bool parked_calls_collect(struct api_worker *worker);

/* answer.c: the body of a problem for framing errors; CORS lines for an allowed origin. */
void api_problem(void *context, enum refusal refusal, struct out *body);
#define SOLD_OUT_FOR_GOOD "everything is sold"
#define SOLD_OUT_FOR_NOW "unpaid orders may still return units"
/* At start, and whenever one is needed: a sold-out refusal with available 0. */
void api_ready_make(struct api_worker *worker);
bool api_ready_sold_out(struct api_worker *worker, struct http_exchange exchange, bool later);
void api_cors(const struct api_worker *worker, struct http_exchange exchange, struct out *headers);

/* buyer.c, orders.c: answers whose LSN is durable now (or never will be: failed). */
void buy_answer(struct api_worker *worker, struct http_exchange exchange, struct slot *slot,
                bool lost);
void view_answer(struct api_worker *worker, struct http_exchange exchange, struct slot *slot,
                 bool lost);

#endif
