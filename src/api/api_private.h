/*
 * The inside of a worker: the struct and its parts, one section each. Handlers that need only what
 * api.h and operation.h declare do not include this.
 */
#ifndef SLUICE_API_API_PRIVATE_H
#define SLUICE_API_API_PRIVATE_H

#include "api/api.h"
#include "api/operation.h"
#include "base/index_list.h"

/* ---- connections ---- */

/* What is known of a connection's newest exchange. One for each connection, indexed by its number. */
struct connection_state {
    uint32_t generation;     /* of the exchange */
    bool finished;           /* the client will send no more */
    uint8_t limit_rule;      /* the strictest rate limit's number; 0: none */
    uint32_t limit_settings; /* the number of the settings that have the rule */
    uint32_t limit_remaining;
    uint32_t limit_reset_s;
    uint8_t origin_len; /* 0: no Origin, or one that the settings do not allow */
    char origin[95];
};

/* The state of this exchange; it starts anew with each exchange. */
struct connection_state *api_connection(struct api_worker *worker, struct http_exchange exchange);

/* Zeroed memory that takes no space until it is used; NULL: there is none. */
void *api_map(size_t bytes);
void api_unmap(void *memory, size_t bytes);

/* ---- watchers: watch.h ---- */

enum watch_kind {
    WATCH_NOTHING,
    WATCH_POLL,  /* a long poll of an order */
    WATCH_ORDER, /* an event stream of an order */
    WATCH_ITEM,  /* an event stream of an item */
    WATCH_LIVE,  /* the dashboard's event stream */
};

/* WATCH_POLL, WATCH_ORDER */
struct order_watch {
    struct order_view newest; /* the newest state seen, in a notice or at the gate */
    bool push_waits;          /* showing it waits for its LSN to be durable */
    bool looking_up;          /* a request for the order is at the gate */
    bool look_up_again;       /* look the order up once more when that request is answered */
    union {
        struct {
            int64_t due_ms;              /* answer at the latest then */
            enum order_state hold_state; /* do not answer in this state before that */
        } poll;
        struct {
            uint16_t version_sent;
            uint8_t heartbeats;
            bool look_up_due;  /* look the order up at the next heartbeat */
            uint8_t token_key; /* index into the keys of the settings */
            bool begun;        /* an event was sent */
        } stream;
    };
};

/* WATCH_ITEM, WATCH_LIVE: streams that are served once a second */
struct periodic_stream {
    uint64_t shown_sent; /* ITEM: which version and state the last event showed */
    int64_t not_before_ms;
    bool sold_out_sent; /* ITEM */
    struct index_node in_round;
};

/* One for each connection, indexed by its number. */
struct watcher {
    enum watch_kind kind;
    uint32_t generation; /* of the exchange */
    struct order_id key; /* the order, or {item, 0}, or {0, 0} for the dashboard */
    int64_t wake_ms;     /* the timer: a poll's end, a stream's heartbeat, another attempt */
    int64_t ends_ms;     /* when the stream's token expires; INT64_MAX: never */
    struct index_node by_key;
    struct index_node by_timer;
    uint32_t wheel_place;
    union {
        struct order_watch order;
        struct periodic_stream periodic;
    };
};

#define WHEEL_SLOTS 1024
#define WHEEL_STEP_MS 32

struct watchers {
    struct watcher *watchers;
    uint32_t count;             /* how many are not WATCH_NOTHING */
    struct index_list *buckets; /* watchers by key: a hash table */
    uint32_t buckets_mask;
    struct index_list wheel[WHEEL_SLOTS]; /* watchers by timer */
    int64_t wheel_ms;                     /* timers before this have run */
    struct index_list periodic;           /* streams that are served once a second */
    uint32_t periodic_cursor;             /* the next of them in this round; 0: the round is over */
    int64_t periodic_next_ms;             /* when the next round begins */
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
/* The only way to wait for an LSN. Once it is durable, or the journal has failed or waits for space on
 * the disk, finishes the operation or shows the watcher of the exchange its order. False, only for
 * watchers: no room. */
bool api_after_durable(struct api_worker *worker, uint64_t lsn, struct http_exchange exchange,
                       struct api_operation *operation);
/* The lowest LSN that is waited for; UINT64_MAX: none. */
uint64_t durable_waits_next(const struct api_worker *worker);
/* Ends the waits whose LSN is durable. True if there were any. */
bool answer_durable(struct api_worker *worker);

/* ---- router.c, authentication.c ---- */

/* The handler of struct http_app; context is the worker. */
enum http_outcome router_handle(void *context, struct http_exchange exchange,
                                const struct http_request *request);
/* As struct http_app says: admit. */
bool router_admit(void *context, struct http_exchange exchange, const struct http_request *request,
                  size_t body_len, enum http_class *ret_class);
/* True if the request carries what a route needs; req->user is then set for NEED_BUYER. False: it was
 * refused. */
bool authenticate(struct api_request *req, enum api_need need);

/* ---- answer.c ---- */

/* The body of a problem, for errors that the HTTP server finds; context is the worker. */
void api_problem(void *context, enum refusal refusal, struct out *body);
/* The CORS headers, if the exchange has an allowed origin. */
void api_cors(const struct api_worker *worker, struct http_exchange exchange, struct out *headers);

#define SOLD_OUT_FOR_GOOD "everything is sold"
#define SOLD_OUT_FOR_NOW "unpaid orders may still return units"
/* The most frequent answer, complete: sold out for good, or sold out for now with one of several times
 * to retry. */
#define PREBUILT_PAUSES 16
struct prebuilt_answer {
    uint32_t len;
    char bytes[508];
};
void api_prebuild_sold_out(struct api_worker *worker);
/* Refuses with a prebuilt answer: SOLD_OUT with available 0. later: for now. False: the answer needs
 * CORS headers, and nothing was sent. */
bool api_answer_sold_out(struct api_worker *worker, struct http_exchange exchange, bool later);

/* Refuses with RATE_LIMITED. headers: complete lines. Much cheaper than api_refuse(): whoever is above a
 * limit may ask often. False: the answer needs CORS headers, and nothing was sent. */
bool api_answer_limited(struct api_worker *worker, struct http_exchange exchange,
                        struct span headers, struct span detail, int64_t retry_ms);

/* ---- sale_tally.c ---- */

/* Where the requests for an item are counted: a cache. */
#define TALLY_KNOWN 256
struct tally_known {
    uint64_t item;
    uint64_t sale;
    struct tally_row *row; /* valid while tally_is(row, sale); NULL: there was no room at at_ms */
    int64_t at_ms;
};

/* The row of the item's sale. NULL: the item is unknown or there is no room; nothing is counted. */
struct tally_row *api_tally(struct api_worker *worker, uint64_t item);
void api_tally_request(struct api_worker *worker, uint64_t item, uint64_t user);
void api_tally_refusal(struct api_worker *worker, uint64_t item, enum refusal refusal);

/* True if a request that is handled now may have waited for longer than BUY_AGE_MAX_US in its socket,
 * because this process stood still. */
bool api_input_may_be_old(const struct api_worker *worker);

/* ---- request_limits.h ---- */

struct held_requests;

/* ---- the worker ---- */

struct api_worker {
    struct api_shared *shared;
    struct api_settings *settings; /* those of this iteration */
    uint32_t loop;
    struct net *net;
    struct http_server *server;
    struct metrics_slot *metrics;
    struct gate_port *gate;
    struct journal *journal;
    struct waker *waker;
    struct token_cache *tokens;
    struct prng prng;
    int64_t now_ms;
    int64_t polled_us;      /* boot time: when the network was polled last */
    int64_t stale_until_us; /* until then, what is read may be too old for a buy */
    char *scratch;
    struct operation_pool operations;
    struct durable_waits durable_waits;
    struct watchers watch;
    struct held_requests *held;
    struct connection_state *connections;
    uint32_t connections_count;
    struct tally_known tally_known[TALLY_KNOWN];
    bool draining;
    struct prebuilt_answer sold_out[1 + PREBUILT_PAUSES];
};

#endif
