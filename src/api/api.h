/*
 * The API of one event loop. It turns HTTP requests into requests to the gate, writes for the ledger
 * writer and queries for the ledger reader, and their outcomes into answers. Each family of calls is
 * one file of handlers; routes.c is the table of all calls.
 *
 * Happy path: the router finds the route of a request, and its handler gets a struct api_request. The
 * handler either answers with the api_* functions below and returns HTTP_ANSWERED, or submits an
 * operation (operation.h) that answers later, and returns HTTP_PENDING.
 *
 * What can go wrong: the client closes the connection meanwhile. Then nothing is sent; what was
 * decided or committed stays so.
 *
 * Threads: a worker belongs to one thread, which calls everything here. The workers of a process
 * share struct api_shared.
 */
#ifndef SLUICE_API_API_H
#define SLUICE_API_API_H

#include "admission/blocks.h"
#include "admission/limits.h"
#include "api/answer_cache.h"
#include "api/token.h"
#include "base/prng.h"
#include "core/ticket.h"
#include "distributed/cluster_status.h"
#include "embedded/embedded_gate.h"
#include "http/client_address.h"
#include "http/server.h"
#include "ledger/catalog.h"
#include "ledger/ledger_reader.h"
#include "ledger/ledger_writer.h"
#include "ledger/reconciler.h"
#include "obs/latency_window.h"
#include "obs/metrics.h"
#include "obs/tally.h"
#include "port/inside_time.h"

/* Settings that SIGHUP may change. A reload publishes a new struct; an old one is freed when every loop
 * uses a newer one. */
struct api_settings {
    uint64_t number;            /* grows with each reload */
    struct api_settings *older; /* for app, which frees them */
    struct token_keys token_keys;
    struct ticket_keys ticket_keys;
    char admin_token[128];
    uint8_t webhook_key[WEBHOOK_KEY_MAX];
    size_t webhook_key_len;
    int64_t token_leeway_ms;
    int64_t ticket_ttl_ms;
    int64_t ticket_window_ms;
    int64_t webhook_window_s;
    int64_t
        late_cancel_ms; /* before pay_by; a buyer's cancellation then counts as unpaid. 0: never */
    int64_t cooling_ms; /* after a buyer's cancellation, until he may order again; 0: none */

    struct proxies trusted_proxies;
    char cors_origins[1024]; /* separated by spaces or commas; "*" allows any */
    char login_url[URL_MAX_BYTES + 1];
    struct http_options http;
    struct limits *limits;          /* freed with the settings; NULL: there are no rate limits */
    struct limit_calls limit_calls; /* theirs */
};

struct page_cache;

/* What all workers of the process share. app makes it, and it outlives the workers. */
struct api_shared {
    struct gate_port *gate;
    struct order_notices *notices;
    struct journal *journal;
    struct waker *wakers;                /* one for each loop */
    struct embedded_gate *embedded_gate; /* NULL: the distributed engine */
    struct ledger_writer *ledger_writer;
    struct ledger_reader *ledger_reader;     /* of buyers' lists */
    struct ledger_reader *operator_reader;   /* of operators' lists and reports */
    struct ledger_health *ledger_health;     /* what is known of damage; NULL: nobody looks */
    struct reconciler *reconciler;           /* NULL: this process does not reconcile */
    struct page_cache *page_cache;           /* NULL: only static files (pages/static.h) */
    struct cluster_status *cluster_status;   /* NULL: the embedded engine */
    struct parked_messages *parked_messages; /* NULL: the embedded engine */
    struct catalog *catalog;
    const struct blocks *blocks; /* NULL: nobody is blocked */
    struct answer_cache *answer_cache;
    struct inside_time *time;
    struct metrics *metrics;
    struct latency_window *latencies; /* of metrics; NULL: only latencies since the start */
    struct tally_book *tallies;       /* NULL: requests are not counted by sale */
    _Atomic(struct api_settings *) settings;
    _Atomic uint64_t settings_seen[LOOPS_MAX]; /* the number of the settings each loop uses */
    _Atomic bool ready;                        /* buyers can be served */
    _Atomic bool draining;                     /* the server stops */
    _Atomic bool cut_off;                      /* stop waiting for clients: loops end at once */
    _Atomic uint32_t fresh_sequence;           /* for order_id_fresh(); starts at random */
    bool demo;
    bool health_only;           /* a process without the role front serves nothing else */
    bool private_health;        /* only the last loop serves /metrics, /livez and /readyz */
    uint32_t tokens_remembered; /* per loop */
    uint32_t loops;
    int64_t started_at_ms;
};

struct api_worker;

int api_worker_new(struct api_shared *shared, uint32_t loop, struct net *net,
                   struct api_worker **ret_worker);
void api_worker_free(struct api_worker *worker);
/* One iteration of the loop, at most sleep_max_us of it asleep. False: the server stops, and the worker
 * may be freed. */
bool api_worker_iterate(struct api_worker *worker, int64_t sleep_max_us);

/* ---- for handlers ---- */

enum api_need { NEED_NOTHING, NEED_BUYER, NEED_ADMIN, NEED_SIGNATURE };

/* Where a route exists: on every loop except a private one for health, in the demonstration, or where
 * health is served. */
enum route_scope { ROUTE_PUBLIC, ROUTE_DEMO, ROUTE_HEALTH };

/* One request, for its handler. Spans are valid only during the handler. */
struct api_request {
    struct api_worker *worker;
    struct http_exchange exchange;
    const struct http_request *request; /* NULL in a later iteration (operation.h) */
    uint64_t user;                      /* NEED_BUYER */
    struct token_grant token;           /* the same buyer's; not in a later iteration */
    struct span part[2];                /* the {…} parts of the route */
    int64_t now_ms;
    const struct route *route;  /* not in a later iteration */
    struct limit_outcome limit; /* so far */
    bool limited;               /* all rate limits have let the request through */
};

struct route {
    enum http_method method;
    const char *pattern; /* parts in braces: "/v1/orders/{order}/cancel" */
    enum api_need need;
    enum route_scope scope;
    enum http_outcome (*handle)(struct api_request *req);
    const char *summary;
    enum call_family call; /* what rate limits call it */
};
extern const struct route routes[];
extern const size_t routes_count;

/* What a worker gives its handlers. */
struct api_shared *api_shared(struct api_worker *worker);
struct api_settings *api_settings(struct api_worker *worker);
struct http_server *api_server(struct api_worker *worker);
/* Memory for an answer's body, API_SCRATCH_BYTES. There is one per worker: each call begins anew. */
#define API_SCRATCH_BYTES HTTP_ANSWER_MAX
struct out api_scratch(struct api_worker *worker);

/* A 200 of any length. The body stays valid while hold counts (http/server.h). */
void api_json_held(struct api_worker *worker, struct http_exchange exchange, struct span body,
                   struct http_hold *hold);
/* Answers with JSON. headers: complete lines, "" for none. cache: the Cache-Control; NULL: no-store. */
enum http_outcome api_json(struct api_worker *worker, struct http_exchange exchange, int status,
                           const char *headers, const char *cache, struct span body);

/* A refusal with its details. What does not apply is zero or NULL. */
struct refused {
    enum refusal refusal;
    const char *detail; /* what to do; NULL: the title */
    const char *field;
    bool has_available, has_held, has_limit;
    uint64_t available, held, limit;
    enum retry retry; /* with override_retry */
    bool override_retry;
    int64_t retry_after_ms; /* 0: a default with jitter, if the client should retry */
    const char *headers;    /* complete lines, e.g. Allow */
};
enum http_outcome api_refuse(struct api_worker *worker, struct http_exchange exchange,
                             const struct refused *refused);
/* The common case: a code and a sentence. */
enum http_outcome api_refuse_simply(struct api_worker *worker, struct http_exchange exchange,
                                    enum refusal refusal, const char *detail);
/* 400 that names a field. */
enum http_outcome api_refuse_field(struct api_worker *worker, struct http_exchange exchange,
                                   const char *field, const char *detail);

/* For a write that ended in an error; error is the write's. */
void api_refuse_error(struct api_worker *worker, struct http_exchange exchange, int error);

/* The detail of a 503 for an operator's read. */
#define LEDGER_UNREACHABLE                                                                         \
    "the ledger cannot be read now; selling does not need it. Look again in a moment"
/* 503: the gate could not look up a ticket, an order or an item. Nothing has changed, and it is unknown
 * whether it exists. */
enum http_outcome api_refuse_unreachable(struct api_worker *worker, struct http_exchange exchange,
                                         enum refusal refusal);
/* The sender's address: the peer's, or the one that trusted proxies name. Not in a later iteration. */
struct net_address api_client_address(const struct api_request *req);
/* A parameter of the query string, without percent-decoding; at is NULL if it is absent. */
struct span query_value(struct span query, const char *name);
/* A decimal parameter; `otherwise` if it is absent. 0, ERR_INVALID or ERR_RANGE. */
int query_number(struct span query, const char *name, uint64_t max, uint64_t otherwise,
                 uint64_t *ret_value);
/* A path part that is an id: 0 or ERR_INVALID. */
int part_id(struct span part, uint64_t *ret_id);
/* A path part without its percent-encoding. ERR_INVALID: a wrong escape; ERR_RANGE: longer than cap. */
int part_text(struct span part, char *memory, size_t cap, struct span *ret_text);
/* Checks that the body is application/json; a charset of utf-8 is fine. If optional, it may be empty. */
enum refusal body_is_json(const struct http_request *request, bool optional);

/* ---- JSON ---- */

/* False, and nothing is written: the catalog no longer has the item. */
bool json_order_view(struct out *out, struct catalog *catalog, const struct order_view *view);
/* An order as the ledger has it; its price does not depend on the catalog. With the members of
 * json_order_view(), with its sale, or with everything that operators see. */
enum row_detail { ROW_AS_VIEW, ROW_WITH_SALE, ROW_FOR_ADMIN };
void json_order_row(struct out *out, struct catalog *catalog, const struct order_row *row,
                    enum row_detail detail);
/* An item with its live numbers. The caller holds the catalog's lock if the rows are the catalog's. */
void json_item(struct out *out, const struct sale_row *sale, const struct item_row *item,
               const struct item_view *view, int64_t now_ms);
/* An item or a sale as the ledger has it, for operators. */
void json_item_row(struct out *out, const struct sale_row *sale, const struct item_row *item,
                   int64_t now_ms);
void json_sale(struct out *out, const struct sale_row *sale, int64_t now_ms);
#define ITEM_STATES(X)                                                                             \
    X(ITEM_UPCOMING, "upcoming")                                                                   \
    X(ITEM_OPEN, "open")                                                                           \
    X(ITEM_SOLD_OUT, "sold_out")                                                                   \
    X(ITEM_PAUSED, "paused")                                                                       \
    X(ITEM_ENDED, "ended")
enum item_state {
#define X(name, text) name,
    ITEM_STATES(X)
#undef X
        ITEM_STATE_COUNT
};
enum item_state item_state(const struct item_view *view, int64_t now_ms);
const char *item_state_text(const struct item_view *view, int64_t now_ms);
/* A page of order rows as {"orders":[...],"next":...}. */
void json_order_page(struct out *out, struct api_worker *worker, const struct ledger_query *query,
                     bool for_admin);

#endif
