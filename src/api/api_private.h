/*
 * The inside of a worker: the struct and its parts, one section each. Handlers that need only what
 * api.h and operation.h declare do not include this.
 */
#ifndef SLUICE_API_API_PRIVATE_H
#define SLUICE_API_API_PRIVATE_H

#include "api/api.h"
#include "api/operation.h"

enum watch_kind { WATCH_NOTHING, WATCH_POLL, WATCH_ORDER, WATCH_ITEM, WATCH_LIVE };

/* Per connection, indexed by its number; touched only by connections that wait or watch. Links are
 * connection + 1, 0 ends a chain. */
struct slot {
    uint32_t generation;
    bool push_waits;         /* a push waits for the order's LSN to be durable */
    uint8_t watch;           /* enum watch_kind */
    uint8_t hold_state;      /* POLL: hold the answer in this state, too */
    bool sold_out_sent;      /* ITEM */
    bool finished;           /* the peer of this exchange will send no more */
    bool looking;            /* POLL, ORDER: the gate is being asked */
    bool look_more;          /* ... and has to be asked again afterwards */
    bool look_due;           /* ORDER: a look is owed, whatever is heard */
    uint8_t beats;           /* ORDER: heartbeats so far */
    uint16_t version_sent;   /* ORDER */
    struct order_view order; /* POLL, ORDER: the newest heard of */
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

/* ---- operations: operation.h ---- */

struct budget {
    uint32_t limit;
    uint32_t used;
};

struct operation_pool {
    struct api_operation *operations;
    uint32_t capacity;          /* the sum of all limits */
    uint32_t fresh;             /* the operations from here on were never used */
    struct api_operation *free; /* linked by next_free */
    struct budget budgets[BUDGET_COUNT];
};

int operations_start(struct api_worker *worker);
void operations_end(struct api_worker *worker);
/* Finishes operations whose answer has come. True if there were any. */
bool operations_collect(struct api_worker *worker);
/* Calls done if the client is still there, and frees the operation. */
void operation_finish(struct api_worker *worker, struct api_operation *operation);
/* True while requests that are part of the worker's memory are in the hands of others: a worker
 * that stops waits for them. */
bool operations_must_return(const struct api_worker *worker);
/* True if a request is at the gate. */
bool operations_at_gate(const struct api_worker *worker);

/* ---- durable waits: durable_waits.c ---- */

struct durable_wait {
    uint64_t lsn;
    struct http_exchange exchange;
    struct api_operation *operation; /* NULL: the watcher of the exchange */
};

struct durable_waits {
    struct durable_wait *ring;
    uint32_t capacity; /* a power of two */
    uint32_t head;
    uint32_t count;
    uint32_t watchers; /* how many of these are watchers */
    uint32_t watchers_max;
};

int durable_waits_start(struct api_worker *worker);
void durable_waits_end(struct api_worker *worker);
bool api_durable(const struct api_worker *worker, uint64_t lsn);
/* The only way to wait for an LSN. Once it is durable, or will never be because the journal has
 * failed, finishes the operation or shows the watcher of the exchange its order. False, only for
 * watchers: no room. */
bool api_after_durable(struct api_worker *worker, uint64_t lsn, struct http_exchange exchange,
                       struct api_operation *operation);
/* The lowest LSN that is waited for; UINT64_MAX: none. */
uint64_t durable_waits_next(const struct api_worker *worker);
/* Ends the waits whose LSN is durable. True if there were any. */
bool answer_durable(struct api_worker *worker);

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
    struct operation_pool operations;
    struct durable_waits durable_waits;
    /* connections that wait or watch */
    struct slot *slots;
    uint32_t connections_count;
    uint32_t *keys; /* buckets of watched orders */
    uint32_t keys_mask;
    uint32_t wheel[WHEEL_SLOTS];
    int64_t wheel_ms; /* everything before this was run */
    uint32_t watchers;
    uint32_t items_first; /* streams of items and of the dashboard */
    uint32_t items_cursor;
    int64_t items_next_ms;
    struct tally_known tally_known[TALLY_KNOWN];
    bool draining;
    struct ready sold_out[1 + READY_PAUSES];
};

struct slot *api_slot(struct api_worker *worker, struct http_exchange exchange);

/* router.c: the handler of struct http_app; context is the worker. */
enum http_outcome router_handle(void *context, struct http_exchange exchange,
                                const struct http_request *request);

/* authentication.c: true if the request carries what a route needs; req->user is then set for
 * NEED_BUYER. False: it was refused. */
bool authenticate(struct api_request *req, enum api_need need);

/* sale_tally.c: for the sale of an item; one that is not known, or has no room, is not counted. */
struct tally_row *api_tally(struct api_worker *worker, uint64_t item);
void api_tally_asked(struct api_worker *worker, uint64_t item, uint64_t user);
void api_tally_refused(struct api_worker *worker, uint64_t item, enum refusal refusal);

/* answer.c: the body of a problem for framing errors; CORS lines for an allowed origin. */
void api_problem(void *context, enum refusal refusal, struct out *body);
#define SOLD_OUT_FOR_GOOD "everything is sold"
#define SOLD_OUT_FOR_NOW "unpaid orders may still return units"
/* At start, and whenever one is needed: a sold-out refusal with available 0. */
void api_ready_make(struct api_worker *worker);
bool api_ready_sold_out(struct api_worker *worker, struct http_exchange exchange, bool later);
void api_cors(const struct api_worker *worker, struct http_exchange exchange, struct out *headers);

#endif
