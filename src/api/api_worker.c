/*
 * The loop's turn and answers that wait. See api.h.
 *
 * What stays true: nothing is told before its LSN is durable (api_after_durable is the only way to wait
 * for it); an op, query or ask under way is freed exactly once, whether or not its connection lives; a
 * failed journal turns every waiting answer into "outcome not known, same ticket".
 */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api/api_private.h"
#include "api/watch.h"
#include "base/check.h"
#include "base/err.h"

/* Ledger writer ops and queries of one loop under way, about 1 KiB each, by whose they are: buyers who list
 * their orders must not keep the shop's payments out. */
static const uint32_t budgets[BUDGET_COUNT] = {
    [BUDGET_SHOP] = 4096, [BUDGET_OPERATOR] = 256, [BUDGET_BUYER] = 512};
#define CALLS_MAX (4096 + 256 + 512)
#define EVENTS_A_TURN 512

/* ---- waiting for durable_lsn ---- */

bool api_durable(const struct api_worker *worker, uint64_t lsn)
{
    return lsn <= journal_durable_lsn(worker->journal);
}

struct slot *api_slot(struct api_worker *worker, struct http_exchange exchange)
{
    CHECK(exchange.connection < worker->slots_count);
    struct slot *slot = &worker->slots[exchange.connection];
    if (slot->generation != exchange.generation) {
        CHECK(slot->watch == WATCH_NOTHING);
        slot->generation = exchange.generation;
        slot->wait = WAIT_NOTHING;
        slot->finished = false;
    }
    return slot;
}

bool api_after_durable(struct api_worker *worker, uint64_t lsn, struct http_exchange exchange,
                       struct api_write *call)
{
    if (worker->waits_count == worker->waits_capacity) {
        return false;
    }
    uint32_t mask = worker->waits_capacity - 1;
    /* In order: an older LSN behind a newer one just waits with it. */
    if (worker->waits_count > 0) {
        uint64_t last = worker->waits[(worker->waits_head + worker->waits_count - 1) & mask].lsn;
        lsn = lsn < last ? last : lsn;
    }
    worker->waits[(worker->waits_head + worker->waits_count) & mask] =
        (struct waiting){lsn, exchange, call};
    worker->waits_count++;
    return true;
}

static void call_finish(struct api_worker *worker, struct api_write *call)
{
    if (http_alive(worker->server, call->exchange)) {
        if (call->write.error != 0) {
            api_refuse_error(worker, call->exchange, call->write.error);
        } else {
            call->done(worker, call);
        }
    }
    api_write_free(worker, call);
}

static void answer_waiting(struct api_worker *worker, const struct waiting *waiting, bool lost)
{
    if (waiting->call != NULL) {
        if (lost) {
            waiting->call->write.error = ERR_JOURNAL_FAILED;
        }
        call_finish(worker, waiting->call);
        return;
    }
    struct slot *slot = &worker->slots[waiting->exchange.connection];
    if (slot->generation != waiting->exchange.generation ||
        !http_alive(worker->server, waiting->exchange)) {
        return;
    }
    enum wait_kind kind = (enum wait_kind)slot->wait;
    slot->wait = WAIT_NOTHING;
    switch (kind) {
    case WAIT_BUY:
        buy_answer(worker, waiting->exchange, slot, lost);
        break;
    case WAIT_VIEW:
        view_answer(worker, waiting->exchange, slot, lost);
        break;
    case WAIT_PUSH:
        if (lost) {
            watch_lost(worker, waiting->exchange);
        } else {
            watch_push(worker, waiting->exchange);
        }
        break;
    case WAIT_NOTHING:
        break;
    }
}

static bool answer_durable(struct api_worker *worker)
{
    bool lost = journal_failed(worker->journal);
    uint64_t durable = journal_durable_lsn(worker->journal);
    uint32_t count = worker->waits_count; /* what is added meanwhile waits for its own turn */
    uint32_t done = 0;
    for (; done < count; done++) {
        struct waiting waiting = worker->waits[worker->waits_head];
        bool is_durable = waiting.lsn <= durable;
        if (!is_durable && !lost) {
            break;
        }
        worker->waits_head = (worker->waits_head + 1) & (worker->waits_capacity - 1);
        worker->waits_count--;
        answer_waiting(worker, &waiting, !is_durable);
    }
    return done > 0;
}

/* ---- calls ---- */

struct api_write *api_write_new(struct api_request *req,
                                void (*done)(struct api_worker *worker, struct api_write *call),
                                enum api_budget budget)
{
    struct api_worker *worker = req->worker;
    bool room = worker->calls[budget] < budgets[budget];
    struct api_write *call = room ? calloc(1, sizeof(*call)) : NULL;
    if (call != NULL) {
        worker->calls[budget]++;
        call->budget = budget;
        call->exchange = req->exchange;
        call->done = done;
        call->write.loop = worker->loop;
    }
    return call;
}

void api_write_free(struct api_worker *worker, struct api_write *call)
{
    sale_row_free(call->sale_in);
    sale_row_free(call->write.op.sale);
    worker->calls[call->budget]--;
    free(call);
}

enum http_outcome api_write_post(struct api_worker *worker, struct api_write *call)
{
    ledger_writer_post(worker->shared->ledger_writer, &call->write);
    return HTTP_PENDING;
}

static size_t row_size(enum ledger_query_kind kind)
{
    switch (kind) {
    case QUERY_SALES:
        return sizeof(struct sale_row *);
    case QUERY_EVENTS:
        return sizeof(struct ledger_event);
    case QUERY_REPORT:
        return sizeof(struct report_row);
    case QUERY_SERIES:
        return sizeof(struct series_row);
    default:
        return sizeof(struct order_row);
    }
}

struct api_query *api_query_new(struct api_request *req, enum ledger_query_kind kind,
                                uint32_t limit,
                                void (*done)(struct api_worker *worker, struct api_query *query),
                                enum api_budget budget)
{
    struct api_worker *worker = req->worker;
    bool room = worker->calls[budget] < budgets[budget];
    struct api_query *query = room ? calloc(1, sizeof(*query)) : NULL;
    void *rows = query != NULL ? calloc(limit > 0 ? limit : 1, row_size(kind)) : NULL;
    if (rows == NULL) {
        free(query);
        return NULL;
    }
    worker->calls[budget]++;
    query->budget = budget;
    struct ledger_query *q = &query->ledger_reader.query;
    q->kind = kind;
    q->limit = limit;
    q->state = -1;
    q->segment = SEGMENT_ALL;
    q->sales = kind == QUERY_SALES ? rows : NULL;
    q->events = kind == QUERY_EVENTS ? rows : NULL;
    q->report = kind == QUERY_REPORT ? rows : NULL;
    q->series = kind == QUERY_SERIES ? rows : NULL;
    bool other = q->sales != NULL || q->events != NULL || q->report != NULL || q->series != NULL;
    q->orders = other ? NULL : rows;
    query->exchange = req->exchange;
    query->done = done;
    query->uses = 1;
    query->ledger_reader.loop = worker->loop;
    return query;
}

void api_query_keep(struct api_query *query)
{
    query->uses++;
}

void api_query_release(struct api_worker *worker, struct api_query *query)
{
    struct ledger_query *q = &query->ledger_reader.query;
    if (--query->uses > 0) {
        return;
    }
    for (uint32_t i = 0; q->sales != NULL && i < q->count; i++) {
        sale_row_free(q->sales[i]);
    }
    free(q->sales);
    free(q->events);
    free(q->report);
    free(q->series);
    free(q->orders);
    if (query->own != NULL) {
        query->own_free(query->own);
    }
    worker->calls[query->budget]--;
    free(query);
}

enum http_outcome api_query_post(struct api_worker *worker, struct api_query *query)
{
    ledger_reader_post(worker->shared->ledger_reader, &query->ledger_reader);
    return HTTP_PENDING;
}

/* What the ledger has committed, oldest first. Where there is no room to wait for durability (answers
 * whose connection has gone wait, too), writes are held until there is: an answer whose LSN is not
 * durable is never sent. */
static bool collect_writes(struct api_worker *worker)
{
    struct post **last = &worker->held_writes;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = (struct post *)ledger_writer_collect(worker->shared->ledger_writer, worker->loop);
    bool any = false;
    while (worker->held_writes != NULL) {
        struct api_write *call = (struct api_write *)worker->held_writes;
        struct post *next = worker->held_writes->next;
        bool waits = call->write.error == 0 && !api_durable(worker, call->write.lsn);
        if (waits && !api_after_durable(worker, call->write.lsn, call->exchange, call)) {
            break;
        }
        worker->held_writes = next;
        if (!waits) {
            call_finish(worker, call);
        }
        any = true;
    }
    return any;
}

/* Everything other threads have finished for this loop. True if there was anything. */
static bool collect(struct api_worker *worker)
{
    bool any = collect_writes(worker);
    struct ledger_reader_query *queries =
        ledger_reader_collect(worker->shared->ledger_reader, worker->loop);
    any = any || queries != NULL;
    while (queries != NULL) {
        struct api_query *query = (struct api_query *)queries;
        queries = (struct ledger_reader_query *)queries->post.next;
        if (http_alive(worker->server, query->exchange)) {
            query->done(worker, query);
        }
        api_query_release(worker, query);
    }
    /* Before the notices: an order that begins to be watched here may be among them. */
    any = gate_requests_collect(worker) || any;
    any = reconciles_collect(worker) || any;
    any = parked_calls_collect(worker) || any;
    return watch_notices(worker) || any;
}

static void finished(void *context, struct http_exchange exchange)
{
    watch_finished(context, exchange);
}

static void gone(void *context, struct http_exchange exchange)
{
    watch_gone(context, exchange);
}

/* ---- the turn ---- */

static void settings_follow(struct api_worker *worker)
{
    struct api_settings *settings = atomic_load(&worker->shared->settings);
    if (settings != worker->settings) {
        worker->settings = settings;
        atomic_store(&worker->shared->settings_seen[worker->loop], settings->number);
        token_memory_clear(worker->tokens);
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
    /* Ops and asks under way come back to this loop's memory, so they are waited for in any case. */
    bool busy = http_server_busy(worker->server) > 0 && !atomic_load(&worker->shared->cut_off);
    busy = busy || worker->requests_used > 0;
    for (int i = 0; i < BUDGET_COUNT; i++) {
        busy = busy || worker->calls[i] > 0;
    }
    return busy;
}

/* What other threads brought: collect, then answer what became durable. */
static bool collect_and_answer(struct api_worker *worker)
{
    bool any = collect(worker);
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
    return next <= worker->now_ms ? 0
           : next == INT64_MAX    ? INT64_MAX
                                  : (next - worker->now_ms) * 1000;
}

/* Sends what was asked of the gate. How long to sleep at most, so that its answers are collected. */
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
}

bool api_worker_iterate(struct api_worker *worker, int64_t sleep_max_us)
{
    struct net_event events[EVENTS_A_TURN];
    settings_follow(worker);
    worker->now_ms = inside_time_ms(worker->shared->time);
    (void)collect_and_answer(worker);
    int64_t sleep_us = timers(worker);
    sleep_us = sleep_us < sleep_max_us ? sleep_us : sleep_max_us;
    size_t n = net_poll(worker->net, events, EVENTS_A_TURN, 0);
    if (n == 0 && sleep_us > 0) {
        uint64_t wants =
            worker->waits_count > 0 ? worker->waits[worker->waits_head].lsn : UINT64_MAX;
        waker_sleepy(worker->waker, wants);
        /* One more look: whoever finishes something from here on sees that we sleep. */
        if (!collect_and_answer(worker)) {
            n = net_poll(worker->net, events, EVENTS_A_TURN, flush_gate(worker, sleep_us));
        }
        waker_awake(worker->waker);
        worker->now_ms = inside_time_ms(worker->shared->time);
    }
    settings_follow(worker); /* what came in was sent after they were published, perhaps */
    http_server_events(worker->server, events, n, worker->now_ms);
    if (worker->requests_used >
        0) { /* all that this turn asked, together; they do not wait for the next */
        (void)gate_flush(worker->gate, worker->loop);
    }
    count_connections(worker);
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
                                 .problem = api_problem,
                                 .finished = finished,
                                 .gone = gone};
    size_t bytes = (size_t)worker->slots_count * sizeof(*worker->slots);
    /* Mapped, not allocated: connections that never wait never touch theirs. */
    void *slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slots == MAP_FAILED) {
        return ERR_NOMEM;
    }
    worker->slots = slots;
    worker->waits_capacity = 64;
    while (worker->waits_capacity < worker->slots_count * 2 + CALLS_MAX) {
        worker->waits_capacity *= 2;
    }
    worker->waits = calloc(worker->waits_capacity, sizeof(*worker->waits));
    worker->scratch = malloc(API_SCRATCH_BYTES);
    worker->tokens = token_memory_new(worker->shared->tokens_remembered);
    if (worker->waits == NULL || worker->scratch == NULL || worker->tokens == NULL) {
        return ERR_NOMEM;
    }
    api_ready_make(worker);
    int error = watch_start(worker);
    error = error != 0 ? error : gate_requests_start(worker);
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
    worker->gate = shared->gate != NULL ? shared->gate : embedded_gate_port(shared->engine);
    worker->journal = embedded_gate_journal(shared->engine);
    worker->waker = embedded_gate_waker(shared->engine, loop);
    worker->slots_count = worker->settings->http.connections_max;
    worker->now_ms = inside_time_ms(shared->time);
    worker->wheel_ms = worker->now_ms / WHEEL_STEP_MS * WHEEL_STEP_MS;
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
    watch_done(worker);
    gate_requests_done(worker);
    token_memory_free(worker->tokens);
    free(worker->scratch);
    free(worker->waits);
    if (worker->slots != NULL) {
        (void)munmap(worker->slots, (size_t)worker->slots_count * sizeof(*worker->slots));
    }
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

uint32_t api_loop(const struct api_worker *worker)
{
    return worker->loop;
}

struct out api_scratch(struct api_worker *worker)
{
    return out_over(worker->scratch, API_SCRATCH_BYTES);
}
