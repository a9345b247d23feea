/*
 * The iteration of an event loop, and the worker's life. See api.h.
 *
 * An iteration collects what other threads have finished, answers what became durable, runs the
 * timers, waits for sockets, and serves what arrived. Requests to a gate on another machine leave
 * together at the end of the iteration.
 */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api/api_private.h"
#include "api/request_limits.h"
#include "api/watch.h"
#include "base/check.h"
#include "base/err.h"

#define EVENTS_PER_ITERATION 512

/* ---- connections ---- */

void *api_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

void api_unmap(void *memory, size_t bytes)
{
    if (memory != NULL) {
        (void)munmap(memory, bytes);
    }
}

struct connection_state *api_connection(struct api_worker *worker, struct http_exchange exchange)
{
    CHECK(exchange.connection < worker->connections_count);
    struct connection_state *state = &worker->connections[exchange.connection];
    if (state->generation != exchange.generation) {
        state->generation = exchange.generation;
        state->finished = false;
        state->limit_rule = 0;
        state->origin_len = 0;
    }
    return state;
}

/* The client of a pending exchange will send no more. */
static void finished(void *context, struct http_exchange exchange)
{
    struct api_worker *worker = context;
    /* The exchange may become a long poll when the gate has answered: it is not held then. */
    api_connection(worker, exchange)->finished = true;
    watch_finished(worker, exchange);
}

static void gone(void *context, struct http_exchange exchange)
{
    watch_gone(context, exchange);
}

/* ---- the iteration ---- */

static void adopt_settings(struct api_worker *worker)
{
    struct api_settings *settings = atomic_load(&worker->shared->settings);
    if (settings != worker->settings) {
        watch_settings(worker, settings);
        worker->settings = settings;
        atomic_store(&worker->shared->settings_seen[worker->loop], settings->number);
        token_cache_clear(worker->tokens);
        http_server_retime(worker->server, &settings->http);
    }
}

static bool drain(struct api_worker *worker)
{
    if (!worker->draining) {
        worker->draining = true;
        http_server_drain(worker->server);
    }
    watch_drain(worker);
    http_server_flush(worker->server);
    bool busy = http_server_busy(worker->server) > 0 && !atomic_load(&worker->shared->cut_off);
    return busy || operations_must_return(worker);
}

/* Collects what other threads have finished, then answers what became durable. */
static bool collect_and_answer(struct api_worker *worker)
{
    /* Operations come before notices: a notice may be for an order whose watch begins here. */
    bool any = operations_collect(worker);
    any = watch_notices(worker) || any;
    any = answer_durable(worker) || any;
    if (any) {
        http_server_flush(worker->server);
    }
    return any;
}

static int64_t timers(struct api_worker *worker)
{
    int64_t http_next = INT64_MAX;
    int64_t watch_next = watch_tick(worker);
    http_server_timers(worker->server, worker->now_ms, &http_next);
    http_server_flush(worker->server);
    int64_t next = http_next < watch_next ? http_next : watch_next;
    int64_t sleep_us = next <= worker->now_ms ? 0
                       : next == INT64_MAX    ? INT64_MAX
                                              : (next - worker->now_ms) * 1000;
    int64_t turn_us = held_requests_tick(worker);
    if (turn_us == INT64_MAX) {
        return sleep_us;
    }
    turn_us -= clock_boot_us(worker->shared->time->clock);
    turn_us = turn_us > 0 ? turn_us : 0;
    return turn_us < sleep_us ? turn_us : sleep_us;
}

/* Sends the requests to the gate. Returns how long to sleep at most, so that answers are collected
 * in time. */
static int64_t flush_gate(struct api_worker *worker, int64_t sleep_us)
{
    int64_t until_us = gate_flush(worker->gate, worker->loop);
    if (until_us == INT64_MAX) {
        return sleep_us;
    }
    int64_t gate_us = until_us - clock_boot_us(worker->shared->time->clock);
    gate_us = gate_us > 0 ? gate_us : 0;
    return gate_us < sleep_us ? gate_us : sleep_us;
}

static void count_connections(struct api_worker *worker)
{
    struct http_counts counts = http_server_counts(worker->server);
    metrics_set(worker->metrics, METRIC_HTTP_CONNECTIONS, http_server_connections(worker->server));
    metrics_set(worker->metrics, METRIC_HTTP_MALFORMED_TOTAL, counts.malformed);
    metrics_set(worker->metrics, METRIC_HTTP_TIMEOUTS_TOTAL, counts.timeouts);
    metrics_set(worker->metrics, METRIC_HTTP_EVICTED_TOTAL, counts.evicted);
    metrics_set(worker->metrics, METRIC_HTTP_DISPLACED_TOTAL, counts.displaced);
    metrics_set(worker->metrics, METRIC_HTTP_CROWDED_TOTAL, counts.crowded);
    metrics_set(worker->metrics, METRIC_HTTP_SLOW_TOTAL, counts.slow);
    metrics_set(worker->metrics, METRIC_HTTP_UNKEPT_TOTAL, counts.unkept);
}

static void count_pools(struct api_worker *worker)
{
    static const struct {
        enum metrics_pool pool;
        enum api_budget budget;
    } budgets[] = {{POOL_GATE_REQUESTS, BUDGET_GATE},
                   {POOL_DURABLE_WAITS, BUDGET_DURABLE},
                   {POOL_SHOP_REQUESTS, BUDGET_SHOP},
                   {POOL_BUYER_REQUESTS, BUDGET_BUYER},
                   {POOL_OPERATOR_REQUESTS, BUDGET_OPERATOR}};
    struct metrics_slot *metrics = worker->metrics;
    const struct http_options *http = &worker->settings->http;
    struct http_borrowed borrowed = http_server_borrowed(worker->server);
    uint32_t connections = worker->connections_count;
    metrics_pool(metrics, POOL_CONNECTIONS, http_server_connections(worker->server), connections);
    metrics_pool(metrics, POOL_WATCHERS, worker->watch.count, connections - connections / 4);
    metrics_pool(metrics, POOL_SMALL_BUFFERS, borrowed.small, http->small_buffers);
    metrics_pool(metrics, POOL_LARGE_BUFFERS, borrowed.large, http->large_buffers);
    metrics_pool(metrics, POOL_RESERVED_BUFFERS, borrowed.reserved,
                 (uint64_t)http->reserved_buffers * (HTTP_CLASSES - 1));
    for (size_t i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++) {
        const struct budget *budget = &worker->operations.budgets[budgets[i].budget];
        metrics_pool(metrics, budgets[i].pool, budget->used, budget->limit);
    }
}

/*
 * Nobody knows when bytes arrived in a socket. They came after the poll before the one that reports
 * them, so the time between two polls bounds their age. A loop sleeps for a second at most: after a
 * longer time the process stood still. What arrived meanwhile takes several polls, until one finds
 * nothing. at_once: this poll did not wait (one that did may have been interrupted).
 */
static void note_poll(struct api_worker *worker, size_t events, bool at_once)
{
    int64_t now_us = clock_boot_us(worker->shared->time->clock);
    if (now_us - worker->polled_us > BUY_AGE_MAX_US) {
        worker->stale_until_us = now_us + BUY_STALE_US;
    } else if (events == 0 && at_once) {
        worker->stale_until_us = 0;
    }
    worker->polled_us = now_us;
}

bool api_input_may_be_old(const struct api_worker *worker)
{
    int64_t now_us = clock_boot_us(worker->shared->time->clock);
    return now_us < worker->stale_until_us || now_us - worker->polled_us > BUY_AGE_MAX_US;
}

bool api_worker_iterate(struct api_worker *worker, int64_t sleep_max_us)
{
    struct net_event events[EVENTS_PER_ITERATION];
    adopt_settings(worker);
    worker->now_ms = inside_time_ms(worker->shared->time);
    (void)collect_and_answer(worker);
    int64_t sleep_us = timers(worker);
    sleep_us = sleep_us < sleep_max_us ? sleep_us : sleep_max_us;
    size_t n = net_poll(worker->net, events, EVENTS_PER_ITERATION, 0);
    note_poll(worker, n, true);
    if (n == 0 && sleep_us > 0) {
        waker_sleepy(worker->waker, durable_waits_next(worker));
        /* Collect once more: a thread that finishes something from here on wakes this loop. */
        if (!collect_and_answer(worker)) {
            n = net_poll(worker->net, events, EVENTS_PER_ITERATION, flush_gate(worker, sleep_us));
            note_poll(worker, n, false);
        }
        waker_awake(worker->waker);
        worker->now_ms = inside_time_ms(worker->shared->time);
    }
    /* The requests that arrived may have been sent after new settings were published. */
    adopt_settings(worker);
    http_server_events(worker->server, events, n, worker->now_ms);
    if (operations_at_gate(worker)) {
        (void)gate_flush(worker->gate, worker->loop);
    }
    count_connections(worker);
    count_pools(worker);
    if (atomic_load_explicit(&worker->shared->draining, memory_order_relaxed)) {
        return drain(worker);
    }
    return true;
}

/* ---- life ---- */

static int api_worker_start(struct api_worker *worker)
{
    const struct http_app app = {.context = worker,
                                 .handle = router_handle,
                                 .admit = router_admit,
                                 .problem = api_problem,
                                 .finished = finished,
                                 .gone = gone};
    worker->connections = api_map((size_t)worker->connections_count * sizeof(*worker->connections));
    worker->scratch = malloc(API_SCRATCH_BYTES);
    worker->tokens = token_cache_new(worker->shared->tokens_remembered);
    if (worker->connections == NULL || worker->scratch == NULL || worker->tokens == NULL) {
        return ERR_NOMEM;
    }
    api_prebuild_sold_out(worker);
    int error = watch_start(worker);
    error = error != 0 ? error : operations_start(worker);
    error = error != 0 ? error : durable_waits_start(worker);
    error = error != 0 ? error : held_requests_start(worker);
    return error != 0
               ? error
               : http_server_new(worker->net, &worker->settings->http, &app, &worker->server);
}

int api_worker_new(struct api_shared *shared, uint32_t loop, struct net *net,
                   struct api_worker **ret_worker)
{
    struct api_worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return ERR_NOMEM;
    }
    worker->shared = shared;
    worker->settings = atomic_load(&shared->settings);
    worker->loop = loop;
    worker->net = net;
    worker->metrics = metrics_slot(shared->metrics, loop);
    worker->gate = shared->gate;
    worker->journal = shared->journal;
    worker->waker = &shared->wakers[loop];
    worker->connections_count = worker->settings->http.connections_max;
    worker->now_ms = inside_time_ms(shared->time);
    worker->polled_us = clock_boot_us(shared->time->clock);
    crypt_random(&worker->prng.state, sizeof(worker->prng.state));
    int error = api_worker_start(worker);
    if (error != 0) {
        api_worker_free(worker);
        return error;
    }
    *ret_worker = worker;
    return 0;
}

void api_worker_free(struct api_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    if (worker->server != NULL) {
        http_server_free(worker->server);
    }
    watch_end(worker);
    operations_end(worker);
    durable_waits_end(worker);
    held_requests_end(worker);
    token_cache_free(worker->tokens);
    free(worker->scratch);
    api_unmap(worker->connections,
              (size_t)worker->connections_count * sizeof(*worker->connections));
    free(worker);
}

/* ---- for handlers ---- */

struct api_shared *api_shared(struct api_worker *worker)
{
    return worker->shared;
}

struct api_settings *api_settings(struct api_worker *worker)
{
    return worker->settings;
}

struct http_server *api_server(struct api_worker *worker)
{
    return worker->server;
}

struct out api_scratch(struct api_worker *worker)
{
    return out_over(worker->scratch, API_SCRATCH_BYTES);
}
