/*
 * The numbers of /metrics: counters, gauges and histograms, all from the list below.
 *
 * Each thread that counts has its own slot on its own cache lines, and only that thread writes to
 * it. Counting is a load, an add and a store, without a lock or a shared line. Readers sum over the
 * slots. A reader may be a few counts behind.
 *
 * A gauge is a sum, too: each slot holds the share of its thread (this loop's connections). A gauge
 * that only one thread knows is set in that thread's slot. A KNOWN gauge is set by one thread and
 * left out of the text until then (whether Redis is up, in a process without Redis). Histograms
 * take microseconds and are shown in seconds, as Prometheus expects. Values that change with each
 * request are never labels.
 */
#ifndef SLUICE_OBS_METRICS_H
#define SLUICE_OBS_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/hist.h"

/* X(kind, NAME, name shown, help). A new metric is a new line here and nothing else. */
#define METRICS(X)                                                                                 \
    X(COUNTER, HTTP_REQUESTS_TOTAL, "sluice_http_requests_total", "requests answered")             \
    X(COUNTER, HTTP_MALFORMED_TOTAL, "sluice_http_malformed_total",                                \
      "connections closed for malformed framing")                                                  \
    X(COUNTER, HTTP_TIMEOUTS_TOTAL, "sluice_http_timeouts_total",                                  \
      "connections closed because the client was too slow")                                        \
    X(COUNTER, HTTP_EVICTED_TOTAL, "sluice_http_evicted_total",                                    \
      "connections closed because no request buffer was left")                                     \
    X(COUNTER, HTTP_DISPLACED_TOTAL, "sluice_http_displaced_total",                                \
      "idle or incomplete: closed for a new connection")                                           \
    X(COUNTER, HTTP_CROWDED_TOTAL, "sluice_http_crowded_total",                                    \
      "new connections closed: too many of that address")                                          \
    X(COUNTER, HTTP_SLOW_TOTAL, "sluice_http_slow_total",                                          \
      "connections closed because another answer needed what they left unread")                    \
    X(COUNTER, HTTP_UNKEPT_TOTAL, "sluice_http_unkept_total",                                      \
      "large answers refused because nothing could keep them")                                     \
    X(GAUGE, HTTP_CONNECTIONS, "sluice_http_connections", "open connections")                      \
    X(GAUGE, HTTP_WATCHERS, "sluice_http_watchers", "event streams and long polls held open")      \
    X(COUNTER, TOKENS_REMEMBERED_TOTAL, "sluice_tokens_remembered_total",                          \
      "tokens that needed no signature check")                                                     \
    X(COUNTER, TOKENS_VERIFIED_TOTAL, "sluice_tokens_verified_total", "token signatures checked")  \
    X(COUNTER, TOKENS_UNCHECKED_TOTAL, "sluice_tokens_unchecked_total",                            \
      "new tokens refused without a check, because too many forged ones arrived")                  \
    X(COUNTER, TICKETS_TOTAL, "sluice_tickets_total", "tickets handed out")                        \
    X(COUNTER, BUYS_ACCEPTED_TOTAL, "sluice_buys_accepted_total", "new orders that got stock")     \
    X(COUNTER, BUYS_REPEATED_TOTAL, "sluice_buys_repeated_total",                                  \
      "buys answered with an order that existed")                                                  \
    X(COUNTER, ORDERS_LOCKED_TOTAL, "sluice_orders_locked_total", "orders booked in the ledger")   \
    X(COUNTER, ORDERS_PAID_TOTAL, "sluice_orders_paid_total", "orders paid")                       \
    X(COUNTER, ORDERS_EXPIRED_TOTAL, "sluice_orders_expired_total", "orders not paid in time")     \
    X(COUNTER, ORDERS_CANCELLED_TOTAL, "sluice_orders_cancelled_total", "orders cancelled")        \
    X(COUNTER, ORDERS_FAILED_TOTAL, "sluice_orders_failed_total", "orders the ledger refused")     \
    X(COUNTER, GATE_EVICTED_TOTAL, "sluice_gate_evicted_total",                                    \
      "final orders that left the nearly full gate")                                               \
    X(COUNTER, JOURNAL_BATCHES_TOTAL, "sluice_journal_batches_total", "batches made durable")      \
    X(COUNTER, JOURNAL_RECORDS_TOTAL, "sluice_journal_records_total", "records made durable")      \
    X(COUNTER, JOURNAL_SNAPSHOTS_TOTAL, "sluice_journal_snapshots_total", "snapshots written")     \
    X(GAUGE, JOURNAL_FAILED, "sluice_journal_failed",                                              \
      "1 after a failed write or sync: no promises until a restart")                               \
    X(GAUGE, JOURNAL_DISK_FULL, "sluice_journal_disk_full",                                        \
      "1 while buys are refused because the journal's disk is full")                               \
    X(HISTOGRAM, JOURNAL_SYNC, "sluice_journal_sync_seconds", "write and sync of one batch")       \
    X(COUNTER, LEDGER_COMMITS_TOTAL, "sluice_ledger_commits_total", "transactions committed")      \
    X(GAUGE, LEDGER_LAG, "sluice_ledger_lag_records", "durable records not booked yet")            \
    X(HISTOGRAM, LEDGER_COMMIT, "sluice_ledger_commit_seconds", "one transaction of the ledger")   \
    X(GAUGE, LEDGER_DAMAGE, "sluice_ledger_damage",                                                \
      "times that damage was met in the ledger since the start: alert above 0")                    \
    X(COUNTER, RELAY_TAKEN_TOTAL, "sluice_relay_taken_total", "decisions taken from the outboxes") \
    X(COUNTER, RELAY_CONFIRMED_TOTAL, "sluice_relay_confirmed_total",                              \
      "decisions the queue has confirmed")                                                         \
    X(COUNTER, RELAY_UNCONFIRMED_TOTAL, "sluice_relay_unconfirmed_total",                          \
      "decisions to be sent to the queue again")                                                   \
    X(GAUGE, RELAY_UNDER_WAY, "sluice_relay_under_way", "decisions the relay holds")               \
    X(COUNTER, ORDER_CONSUMER_BOOKED_TOTAL, "sluice_order_consumer_booked_total",                  \
      "messages of the queue that were settled")                                                   \
    X(COUNTER, ORDER_CONSUMER_RETRIED_TOTAL, "sluice_order_consumer_retried_total",                \
      "messages given back to the queue")                                                          \
    X(COUNTER, EVENTS_PUBLISHED_TOTAL, "sluice_events_published_total",                            \
      "events the exchange has confirmed")                                                         \
    X(COUNTER, EVENTS_AGAIN_TOTAL, "sluice_events_again_total",                                    \
      "events not confirmed, to be published again")                                               \
    X(GAUGE, EVENTS_LAG, "sluice_events_lag",                                                      \
      "events of the ledger that are not published yet, where this process publishes them")        \
    X(COUNTER, PAYMENT_CONSUMER_PAID_TOTAL, "sluice_payment_consumer_paid_total",                  \
      "payments of the queue that are in the ledger")                                              \
    X(COUNTER, PAYMENT_CONSUMER_LATER_TOTAL, "sluice_payment_consumer_later_total",                \
      "payments of the queue that came too early and wait")                                        \
    X(COUNTER, PAYMENT_CONSUMER_REFUSED_TOTAL, "sluice_payment_consumer_refused_total",            \
      "payments of the queue that were refused for good")                                          \
    X(GAUGE, SPOOL_ENTRIES, "sluice_spool_entries", "promises the ledger has not confirmed yet")   \
    X(GAUGE, SPOOL_UNDECIDED, "sluice_spool_undecided", "buyers in line because the gate is away") \
    X(GAUGE, RECONCILE_DIFFERENCES, "sluice_reconcile_differences",                                \
      "differences between gate, queue and ledger that the last comparison counted")               \
    X(GAUGE, RECONCILE_UNSURE, "sluice_reconcile_unsure",                                          \
      "comparisons that the last run could not make")                                              \
    X(GAUGE, RECONCILE_UNANSWERED, "sluice_reconcile_unanswered",                                  \
      "of these, because the gate or the queue did not answer")                                    \
    X(GAUGE, RECONCILE_BLIND, "sluice_reconcile_blind",                                            \
      "1: three runs in a row got no answer, or none compared everything for half an hour")        \
    X(KNOWN, REDIS_UP, "sluice_redis_up", "1: every segment's server answered the last look")      \
    X(KNOWN, MARIADB_UP, "sluice_mariadb_up", "1: the ledger's server answered the last read")     \
    X(KNOWN, RABBITMQ_UP, "sluice_rabbitmq_up",                                                    \
      "1: all connections of this process to the broker stand")                                    \
    X(KNOWN, SEGMENTS, "sluice_segments", "segments that this process knows")                      \
    X(KNOWN, SEGMENTS_AWAY, "sluice_segments_away", "segments whose server did not answer")        \
    X(KNOWN, SEGMENTS_CLOSED, "sluice_segments_closed",                                            \
      "segments that answered and let nobody in: lost, or being rebuilt")                          \
    X(KNOWN, SEGMENTS_FULL, "sluice_segments_full",                                                \
      "segments whose gate.orders are used up: their buyers are refused")                          \
    X(KNOWN, OUTBOX_ENTRIES, "sluice_outbox_entries",                                              \
      "decisions in the outboxes of all segments, when they answered last")                        \
    X(KNOWN, OUTBOX_OLDEST, "sluice_outbox_oldest_seconds",                                        \
      "how long the oldest decision has been in an outbox")                                        \
    X(KNOWN, QUEUE_READY, "sluice_queue_ready", "messages that wait for a booker")                 \
    X(KNOWN, QUEUE_RETRY, "sluice_queue_retry", "messages that wait for a retry")                  \
    X(KNOWN, QUEUE_PARKED, "sluice_queue_parked", "messages put aside, for people to look at")     \
    X(KNOWN, QUEUE_CONSUMERS, "sluice_queue_consumers", "bookers that take messages of the queue") \
    X(KNOWN, PAYMENTS_CONSUMERS, "sluice_payments_consumers",                                      \
      "bookers that take payments of their queue")                                                 \
    X(KNOWN, KEEPER_UNRENEWED, "sluice_keeper_lease_unrenewed_seconds",                            \
      "how long nobody has renewed the keeper's lease")                                            \
    X(KNOWN, CLUSTER_TROUBLES, "sluice_cluster_troubles",                                          \
      "what is missing in the installation, as this front sees it; the log says what")             \
    X(KNOWN, PAYMENTS_REFUSED, "sluice_payments_refused",                                          \
      "payments of the queue that lie refused at the broker")                                      \
    X(HISTOGRAM, BUY_ANSWER, "sluice_buy_answer_seconds", "from a buy read to its 202 written")    \
    X(HISTOGRAM, BUY_BOOKED, "sluice_buy_booked_seconds", "from a buy accepted to its order booked")

/* Enums from the list: METRIC_* for single numbers, HIST_* for histograms. */
#define METRICS_ONE_COUNTER(x) x,
#define METRICS_ONE_GAUGE(x) x,
#define METRICS_ONE_KNOWN(x) x,
#define METRICS_ONE_HISTOGRAM(x)
#define METRICS_HIST_COUNTER(x)
#define METRICS_HIST_GAUGE(x)
#define METRICS_HIST_KNOWN(x)
#define METRICS_HIST_HISTOGRAM(x) x,
enum metric {
#define X(kind, name, shown, help) METRICS_ONE_##kind(METRIC_##name)
    METRICS(X) METRIC_COUNT
#undef X
};
enum metric_hist {
#define X(kind, name, shown, help) METRICS_HIST_##kind(HIST_##name)
    METRICS(X) HIST_COUNT
#undef X
};

/*
 * The bounded pools, each with its name in sluice_pool_used and sluice_pool_size. A slot holds the
 * share of its thread; a pool without size is not shown. What happens when a pool is full is said
 * where the pool is. obs/pool_watch.h warns before. In the distributed engine each pool of the gate
 * is that of the segment where it is fullest.
 */
#define METRICS_POOLS(X)                                                                           \
    X(GATE_ORDERS, "gate.orders")                                                                  \
    X(GATE_BUYERS, "gate.buyers")                                                                  \
    X(GATE_ITEMS, "gate.items")                                                                    \
    X(GATE_SALES, "gate.sales")                                                                    \
    X(CONNECTIONS, "server.connections")                                                           \
    X(WATCHERS, "watchers")                                                                        \
    X(SMALL_BUFFERS, "buffers.small")                                                              \
    X(LARGE_BUFFERS, "buffers.large")                                                              \
    X(RESERVED_BUFFERS, "buffers.reserved")                                                        \
    X(GATE_REQUESTS, "requests.gate")                                                              \
    X(DURABLE_WAITS, "requests.durable")                                                           \
    X(SHOP_REQUESTS, "requests.shop")                                                              \
    X(BUYER_REQUESTS, "requests.buyer")                                                            \
    X(OPERATOR_REQUESTS, "requests.operator")                                                      \
    X(JOURNAL_BUFFER, "journal.buffer")                                                            \
    X(SPOOL_PROMISES, "spool.promises")                                                            \
    X(BLOCKS, "blocks")

enum metrics_pool {
#define X(name, text) POOL_##name,
    METRICS_POOLS(X)
#undef X
        POOL_COUNT
};
const char *metrics_pool_text(enum metrics_pool pool);

struct metrics_level {
    uint64_t used;
    uint64_t size; /* 0: there is no such pool */
};

/* Refusals are counted by number (the index of a refusal) and shown with the label code. */
#define METRICS_REFUSALS_MAX 64

/* Refusals for want of room are counted by number, too (the index of a bound), and shown with the
 * label bound. */
#define METRICS_BOUNDS_MAX 16

/* The layers of admission are counted by number, and shown with the labels layer and outcome. */
#define METRICS_LAYERS_MAX 16
enum metrics_outcome { METRICS_PASSED, METRICS_TURNED_AWAY, METRICS_OUTCOMES };

/* The numbers of one thread. All zero at the start. */
struct metrics_slot {
    _Alignas(64) _Atomic uint64_t values[METRIC_COUNT];
    _Atomic uint64_t refused[METRICS_REFUSALS_MAX];
    _Atomic uint64_t full[METRICS_BOUNDS_MAX];
    _Atomic uint64_t layers[METRICS_LAYERS_MAX][METRICS_OUTCOMES];
    _Atomic uint64_t pool_used[POOL_COUNT];
    _Atomic uint64_t pool_size[POOL_COUNT];
    struct hist hists[HIST_COUNT];
};

struct metrics {
    struct metrics_slot *slots;
    unsigned count;
};

/* Memory for this many threads (about 40 KiB each); ERR_NOMEM. */
int metrics_init(struct metrics *metrics, unsigned slots);
void metrics_done(struct metrics *metrics);

/* The slot of a thread. The code that starts the threads assigns the indexes. */
static inline struct metrics_slot *metrics_slot(const struct metrics *metrics, unsigned index)
{
    CHECK(index < metrics->count);
    return &metrics->slots[index];
}

/* In the rest of this block: only the thread that owns the slot. */
static inline void metrics_bump(_Atomic uint64_t *value, uint64_t n)
{
    uint64_t before = atomic_load_explicit(value, memory_order_relaxed);
    atomic_store_explicit(value, before + n, memory_order_relaxed);
}
static inline void metrics_add(struct metrics_slot *slot, enum metric metric, uint64_t n)
{
    metrics_bump(&slot->values[metric], n);
}
static inline void metrics_sub(struct metrics_slot *slot, enum metric gauge, uint64_t n)
{
    metrics_bump(&slot->values[gauge], 0 - n);
}
static inline void metrics_set(struct metrics_slot *slot, enum metric gauge, uint64_t value)
{
    atomic_store_explicit(&slot->values[gauge], value, memory_order_relaxed);
}
/* Sets a KNOWN gauge. Stored plus one; 0 means not known. */
static inline void metrics_know(struct metrics_slot *slot, enum metric known, uint64_t value)
{
    metrics_set(slot, known, value + 1);
}
static inline void metrics_refuse(struct metrics_slot *slot, unsigned refusal)
{
    CHECK(refusal < METRICS_REFUSALS_MAX);
    metrics_bump(&slot->refused[refusal], 1);
}
static inline void metrics_full(struct metrics_slot *slot, unsigned bound)
{
    CHECK(bound < METRICS_BOUNDS_MAX);
    metrics_bump(&slot->full[bound], 1);
}
static inline void metrics_layer(struct metrics_slot *slot, unsigned layer,
                                 enum metrics_outcome outcome)
{
    CHECK(layer < METRICS_LAYERS_MAX);
    metrics_bump(&slot->layers[layer][outcome], 1);
}
static inline void metrics_pool(struct metrics_slot *slot, enum metrics_pool pool, uint64_t used,
                                uint64_t size)
{
    atomic_store_explicit(&slot->pool_used[pool], used, memory_order_relaxed);
    atomic_store_explicit(&slot->pool_size[pool], size, memory_order_relaxed);
}
static inline void metrics_observe_us(struct metrics_slot *slot, enum metric_hist hist, uint64_t us)
{
    hist_add(&slot->hists[hist], us);
}

/* Sums over all slots. Any thread. */
uint64_t metrics_sum(const struct metrics *metrics, enum metric metric);
uint64_t metrics_refused(const struct metrics *metrics, unsigned refusal);
struct metrics_level metrics_level(const struct metrics *metrics, enum metrics_pool pool);
/* How full a pool is, in percent, rounded down: 100 only if it is full. */
static inline unsigned metrics_percent(struct metrics_level level)
{
    return level.size == 0 ? 0 : (unsigned)(level.used * 100 / level.size);
}
/* A pool as full as this is nearly full: /readyz and the console say so. */
#define METRICS_NEARLY_FULL 80U
void metrics_hist(const struct metrics *metrics, enum metric_hist hist, struct hist *ret_hist);

/* The text of refusal, or bound, number i; NULL at the end of the list. */
typedef const char *metrics_refusal_name(unsigned refusal);

/* Appends everything in Prometheus's text format. METRICS_TEXT_MAX bytes are always enough. */
#define METRICS_TEXT_MAX 32768
void metrics_render(const struct metrics *metrics, metrics_refusal_name *name, struct out *out);
/* Appends sluice_pool_used and sluice_pool_size. */
void metrics_render_pools(const struct metrics *metrics, struct out *out);
/* Appends what was full how often. Number 0 is no bound. */
void metrics_render_bounds(const struct metrics *metrics, metrics_refusal_name *name,
                           struct out *out);
/* Appends sluice_admission_total: what each layer let through and turned away. */
void metrics_render_layers(const struct metrics *metrics, metrics_refusal_name *name,
                           struct out *out);
uint64_t metrics_layer_sum(const struct metrics *metrics, unsigned layer,
                           enum metrics_outcome outcome);

#endif
