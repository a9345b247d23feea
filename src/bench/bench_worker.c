/*
 * One thread of the load tool. Happy path: connect; with --prefetch, take all tickets; with
 * --hammer, sell the item out; wait for the other workers; measure; end. A turn of the loop starts
 * jobs that are due, sends, waits, reads, writes the tell file, and then acts on the answers.
 *
 * Closed loop: as many jobs are active as there are places on connections. Open loop: jobs arrive
 * by a schedule that does not depend on the server; if a request has to wait for a connection, the
 * wait is part of its latency.
 *
 * What can go wrong: the server cannot be reached for a second (the run fails, unless --keep-going
 * is set), or it stops answering (open requests are given up a while after the end).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/err.h"
#include "bench/bench.h"

#define SECOND_NS 1000000000LL
#define ANSWER_TIMEOUT_NS (30 * SECOND_NS)
#define DRAIN_NS (10 * SECOND_NS)
#define UNREACHABLE_NS SECOND_NS
#define TOKEN_LIFE_S 86400

void bench_fail(struct bench_shared *shared, const char *format, ...)
{
    if (!atomic_exchange(&shared->failed, true)) {
        int error = errno; /* for a %m in the format */
        va_list args;
        va_start(args, format);
        (void)fputs("sluice bench: ", stderr);
        errno = error;
        (void)vfprintf(stderr, format, args);
        (void)fputc('\n', stderr);
        va_end(args);
    }
    atomic_store(&shared->stop, true);
}

/* The share of worker `index` of `count`; shares differ by at most one. */
static uint64_t share_of(uint64_t whole, uint32_t index, uint32_t count)
{
    return whole / count + (index < whole % count ? 1 : 0);
}

/* Connections in addition to the jobs', so that duplicates do not queue behind them. */
static uint32_t extra_connections(const struct bench_options *options, uint32_t connections)
{
    double percent = options->duplicates_percent * 2;
    percent = percent > 100 ? 100 : percent;
    return (uint32_t)(connections * percent / 100 + 0.999);
}

void bench_worker_init(struct bench_shared *shared, uint32_t index)
{
    const struct bench_options *options = &shared->options;
    struct bench_worker *worker = &shared->workers[index];
    worker->shared = shared;
    worker->options = options;
    worker->index = index;
    worker->connections = (uint32_t)share_of(options->connections, index, options->threads);
    worker->user_count = share_of(options->users, index, options->threads);
    worker->job_count = worker->user_count * options->orders_per_user;
    worker->request_limit = share_of(options->requests, index, options->threads);
    if (options->requests > 0 && !options->hammer && worker->request_limit < worker->job_count) {
        worker->job_count = worker->request_limit;
    }
    worker->tell.fd = shared->tell_fd;
    worker->deadline_ns = INT64_MAX;
    worker->token_expires_s = (int64_t)time(NULL) + (int64_t)options->duration_s + TOKEN_LIFE_S;
    worker->tokens = bench_grow(NULL, (worker->user_count + 1) * sizeof(*worker->tokens));
    memset(worker->tokens, 0, (worker->user_count + 1) * sizeof(*worker->tokens));
    struct bench_net_config config = {
        .target = &shared->target,
        .events = &bench_flow_events,
        .context = worker,
        .conn_count = worker->connections + extra_connections(options, worker->connections),
        .depth = options->pipeline,
        .source_first = index * (options->connections / options->threads + 1),
        .source_spread = options->source_spread,
        .timeout_ns = ANSWER_TIMEOUT_NS + (int64_t)options->wait_ms * 1000000,
    };
    if (net_init(&worker->net, &config) != 0) {
        bench_fail(shared, "epoll: %m");
    }
}

static void jobs_free(struct bench_job *job)
{
    while (job != NULL) {
        struct bench_job *next = job->next;
        free(job->ticket);
        free(job->bytes);
        free(job);
        job = next;
    }
}

void bench_worker_done(struct bench_worker *worker)
{
    jobs_free(worker->live);
    jobs_free(worker->free_jobs);
    jobs_free(worker->prepared);
    jobs_free(worker->hot);
    jobs_free(worker->winners);
    for (uint64_t i = 0; i < worker->user_count; i++) {
        free(worker->tokens[i]);
    }
    free(worker->tokens);
    free(worker->ready);
    free(worker->tell.lines);
    request_heap_done(&worker->sleeping);
    answer_table_done(&worker->answer);
    net_done(&worker->net);
}

static bool worker_stopped(const struct bench_worker *worker)
{
    return atomic_load_explicit(&worker->shared->stop, memory_order_relaxed);
}

static void reach_check(struct bench_worker *worker, int64_t now_ns)
{
    const struct bench_net *net = &worker->net;
    if (!worker->options->keep_going && net->refused_since_ns != 0 &&
        now_ns - net->refused_since_ns > UNREACHABLE_NS) {
        errno = net->last_errno;
        bench_fail(worker->shared, "cannot connect to %s: %m", worker->options->url);
    }
}

static void worker_connect(struct bench_worker *worker)
{
    worker->phase = PHASE_CONNECT;
    int64_t begin_ns = bench_now_ns();
    int64_t patience_ns = (int64_t)(worker->options->duration_s * 1e9);
    while (worker->net.open_count < worker->connections && !worker_stopped(worker)) {
        int64_t now_ns = bench_now_ns();
        reach_check(worker, now_ns);
        if (patience_ns > 0 && now_ns - begin_ns > patience_ns) {
            break;
        }
        net_open(&worker->net, worker->connections, now_ns);
        net_expire(&worker->net, now_ns);
        net_wait(&worker->net, now_ns + SECOND_NS / 50);
        worker->ready_count = 0; /* nothing was sent yet, so there are no answers */
    }
}

/* From here on nothing new is started. Rates use what was counted until now. */
static void deadline_mark(struct bench_worker *worker, int64_t at_ns)
{
    worker->deadline_seen = true;
    worker->measured_ns = at_ns - worker->start_ns;
    worker->measured_requests = atomic_load_explicit(&worker->stats.requests, memory_order_relaxed);
    worker->measured_orders = atomic_load_explicit(&worker->stats.orders, memory_order_relaxed);
}

/* When arrival `number` of the open loop is due. The schedules of the workers interleave. */
static int64_t arrival_ns(const struct bench_worker *worker, uint64_t number)
{
    double global = (double)number * worker->options->threads + worker->index;
    return worker->start_ns + (int64_t)(global / worker->options->rate * 1e9);
}

/* Starts what is due. False: nothing will be due any more. */
static bool arrivals_start(struct bench_worker *worker, int64_t now_ns, uint64_t *arrived)
{
    if (worker->deadline_seen) {
        return false;
    }
    if (worker->phase == PHASE_MEASURE && worker->options->open_loop) {
        for (; arrival_ns(worker, *arrived) <= now_ns; ++*arrived) {
            if (!bench_flow_start(worker, arrival_ns(worker, *arrived))) {
                return false;
            }
        }
        return true;
    }
    size_t slots = (size_t)worker->connections * worker->options->pipeline;
    size_t taken = worker->phase == PHASE_SETTLE ? worker->hot_count : 0;
    while (worker->live_count + taken < slots) {
        if (!bench_flow_start(worker, now_ns)) {
            return false;
        }
    }
    return worker->phase != PHASE_SETTLE || worker->live_count > 0;
}

static bool hammer_goes_on(const struct bench_worker *worker)
{
    return !worker->deadline_seen &&
           (worker->options->requests == 0 ||
            atomic_load_explicit(&worker->stats.requests, memory_order_relaxed) <
                worker->request_limit);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void answers_act(struct bench_worker *worker)
{
    if (tell_flush(&worker->tell) != 0) {
        bench_fail(worker->shared, "%s: %m", worker->options->tell);
        return;
    }
    bench_flow_advance(worker, bench_now_ns());
}

/* One phase, until its jobs are done or its time is over. */
static void worker_loop(struct bench_worker *worker, bool hammering)
{
    uint64_t arrived = 0;
    int64_t drain_ns = DRAIN_NS + (int64_t)worker->options->wait_ms * 1000000;
    int64_t drain_until_ns = INT64_MAX;
    int64_t second_ns = bench_now_ns() + SECOND_NS;
    for (;;) {
        int64_t now_ns = bench_now_ns();
        if (!worker->deadline_seen && (now_ns >= worker->deadline_ns || worker_stopped(worker))) {
            deadline_mark(worker, earlier(now_ns, worker->deadline_ns));
            drain_until_ns = now_ns + drain_ns;
        }
        bool more = hammering ? hammer_goes_on(worker) : arrivals_start(worker, now_ns, &arrived);
        struct bench_request due;
        while (request_heap_pop(&worker->sleeping, now_ns, &due)) {
            net_submit(&worker->net, &due);
        }
        net_pump(&worker->net, now_ns);
        if ((!more && (worker->live_count == 0 || hammering)) || now_ns >= drain_until_ns ||
            atomic_load_explicit(&worker->shared->failed, memory_order_relaxed)) {
            break;
        }
        int64_t until_ns = earlier(second_ns, request_heap_next_ns(&worker->sleeping));
        until_ns = earlier(until_ns, worker->deadline_seen ? drain_until_ns : worker->deadline_ns);
        if (more && worker->phase == PHASE_MEASURE && worker->options->open_loop) {
            until_ns = earlier(until_ns, arrival_ns(worker, arrived));
        }
        if (worker->net.waiting.count > 0 && worker->net.refused_since_ns != 0) {
            until_ns = earlier(until_ns, worker->net.refused_until_ns);
        }
        net_wait(&worker->net, worker->ready_count > 0 ? now_ns : until_ns);
        answers_act(worker);
        if (now_ns >= second_ns) {
            second_ns = now_ns + SECOND_NS;
            reach_check(worker, now_ns);
            net_expire(&worker->net, now_ns);
        }
    }
}

static void stats_reset(struct bench_stats *stats)
{
    atomic_store_explicit(&stats->requests, 0, memory_order_relaxed);
    atomic_store_explicit(&stats->orders, 0, memory_order_relaxed);
    atomic_store_explicit(&stats->errors, 0, memory_order_relaxed);
    stats->retries = 0;
    stats->duplicates = 0;
    stats->drops = 0;
    stats->refused_count = 0;
    for (int step = 0; step < STEP_COUNT; step++) {
        hist_clear(&stats->latency[step]);
    }
}

static void tickets_take(struct bench_worker *worker)
{
    worker->phase = PHASE_TICKETS;
    worker_loop(worker, false);
    const struct bench_code *code = &worker->stats.refused[0];
    if (worker->tickets == 0 && worker->job_count > 0 && !worker_stopped(worker)) {
        bench_fail(worker->shared, "no tickets: %s",
                   worker->stats.refused_count > 0 ? code->text : "no answers");
    } else if (worker->tickets < worker->job_count && worker->stats.refused_count > 0) {
        (void)fprintf(stderr, "sluice bench: %llu of %llu tickets were refused (%s)\n",
                      (unsigned long long)(worker->job_count - worker->tickets),
                      (unsigned long long)worker->job_count, code->text);
    }
}

/* All workers meet. Between two barriers the first one sets the common start. */
static void start_together(struct bench_worker *worker)
{
    struct bench_shared *shared = worker->shared;
    (void)pthread_barrier_wait(&shared->barrier);
    if (worker->index == 0) {
        shared->start_ns = bench_now_ns();
        atomic_store(&shared->measuring, true);
    }
    (void)pthread_barrier_wait(&shared->barrier);
    worker->start_ns = shared->start_ns;
    worker->last_answer_ns = shared->start_ns;
    if (worker->options->duration_s > 0) {
        worker->deadline_ns = shared->start_ns + (int64_t)(worker->options->duration_s * 1e9);
    }
}

void *bench_worker_run(void *argument)
{
    struct bench_worker *worker = argument;
    const struct bench_options *options = worker->options;
    bool hammering = options->hammer || options->get_path != NULL;
    worker_connect(worker);
    if (options->prefetch || options->hammer) {
        tickets_take(worker);
    }
    (void)pthread_barrier_wait(&worker->shared->barrier);
    if (options->hammer) {
        worker->phase = PHASE_SETTLE;
        worker_loop(worker, false);
    }
    worker->phase = PHASE_MEASURE;
    worker->deadline_seen = false;
    stats_reset(&worker->stats);
    start_together(worker);
    if (hammering) {
        bench_flow_hammer(worker);
    }
    worker_loop(worker, hammering);
    if (!worker->deadline_seen) {
        deadline_mark(worker, worker->last_answer_ns);
    }
    bench_flow_abandon(worker);
    atomic_fetch_sub(&worker->shared->running, 1);
    return NULL;
}
