/*
 * `sluice bench`: the load tool. Happy path: options, keys from the server's data folder, one
 * thread per --threads that makes the load, a live line meanwhile, then the audit and the report.
 *
 * What can go wrong: usage (exit 2); keys that cannot be read, a server that cannot be reached, an
 * audit that finds anything (exit 1). SIGINT ends the load early; what was measured is audited and
 * reported.
 */
#include "bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "app/commands.h"
#include "base/err.h"
#include "bench/bench_audit.h"
#include "bench/bench_report.h"

const char *const bench_step_text[STEP_COUNT] = {
#define X(name, text) [name] = text,
    BENCH_STEPS(X)
#undef X
};

int64_t bench_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void *bench_grow(void *old, size_t size)
{
    void *memory = realloc(old, size);
    if (memory == NULL) {
        (void)fputs("sluice bench: out of memory\n", stderr);
        _Exit(1);
    }
    return memory;
}

/* Set by the signal handler. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* Every connection needs a descriptor. Raises the limit as far as the system allows. */
static bool files_suffice(const struct bench_options *options)
{
    double factor = options->duplicates_percent > 50 ? 2 : 1 + options->duplicates_percent / 50;
    rlim_t needed = (rlim_t)(options->connections * factor) + 2 * (rlim_t)options->threads + 32;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return true;
    }
    if (limit.rlim_cur < needed) {
        limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur < needed) {
        (void)fprintf(stderr,
                      "sluice bench: %u connections need %llu open files, the limit is %llu; "
                      "start several of them with --first-user and --source-spread\n",
                      options->connections, (unsigned long long)needed,
                      (unsigned long long)limit.rlim_cur);
        return false;
    }
    return true;
}

static int shared_prepare(struct bench_shared *shared)
{
    const struct bench_options *options = &shared->options;
    int error = bench_target_parse(options->url, &shared->target);
    if (error != 0) {
        (void)fprintf(stderr, "sluice bench: --url %s: %s\n", options->url, err_text(error));
        return error;
    }
    if (options->get_path == NULL) {
        char path[4096];
        error = bench_keys_load(options->data, &shared->keys, path, sizeof(path));
        if (error != 0) {
            if (error != ERR_IO) {
                errno = EINVAL; /* it exists, but is not a key */
            }
            (void)fprintf(stderr, "sluice bench: %s: %m (is --data the server's folder?)\n", path);
            return error;
        }
    }
    if (!files_suffice(options)) {
        return ERR_FULL;
    }
    shared->tell_fd = -1;
    if (options->tell != NULL) {
        shared->tell_fd = open(options->tell, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (shared->tell_fd < 0) {
            (void)fprintf(stderr, "sluice bench: %s: %m\n", options->tell);
            return ERR_IO;
        }
    }
    return 0;
}

static void live_line(const struct bench_shared *shared, uint64_t *last_requests,
                      uint64_t *last_orders)
{
    uint64_t requests = 0;
    uint64_t orders = 0;
    uint64_t errors = 0;
    for (uint32_t i = 0; i < shared->options.threads; i++) {
        const struct bench_stats *stats = &shared->workers[i].stats;
        requests += atomic_load_explicit(&stats->requests, memory_order_relaxed);
        orders += atomic_load_explicit(&stats->orders, memory_order_relaxed);
        errors += atomic_load_explicit(&stats->errors, memory_order_relaxed);
    }
    /* The counters restart with the measurement: a step back is not a rate. */
    uint64_t new_requests = requests >= *last_requests ? requests - *last_requests : requests;
    uint64_t new_orders = orders >= *last_orders ? orders - *last_orders : orders;
    (void)fprintf(stderr,
                  "\r\033[K%s %" PRIu64 " requests/s  %" PRIu64 " orders/s  %" PRIu64
                  " requests  %" PRIu64 " orders  %" PRIu64 " errors",
                  atomic_load(&shared->measuring) ? "running  " : "preparing", new_requests,
                  new_orders, requests, orders, errors);
    *last_requests = requests;
    *last_orders = orders;
}

/* The main thread while the workers run: only the live line and the interrupt. */
static void workers_watch(struct bench_shared *shared)
{
    bool live = isatty(STDERR_FILENO) == 1;
    uint64_t requests = 0;
    uint64_t orders = 0;
    int64_t next_ns = bench_now_ns() + 1000000000;
    while (atomic_load(&shared->running) > 0) {
        struct timespec pause = {.tv_nsec = 10000000};
        (void)nanosleep(&pause, NULL);
        if (interrupted != 0) {
            atomic_store(&shared->stop, true);
        }
        if (live && bench_now_ns() >= next_ns) {
            live_line(shared, &requests, &orders);
            next_ns += 1000000000;
        }
    }
    if (live) {
        (void)fputs("\r\033[K", stderr);
    }
}

/* False: threads could not be created. */
static bool workers_run(struct bench_shared *shared)
{
    uint32_t count = shared->options.threads;
    shared->workers = bench_grow(NULL, count * sizeof(*shared->workers));
    memset(shared->workers, 0, count * sizeof(*shared->workers));
    if (pthread_barrier_init(&shared->barrier, NULL, count) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        bench_worker_init(shared, i);
    }
    atomic_store(&shared->running, count);
    for (uint32_t i = 0; i < count; i++) {
        struct bench_worker *worker = &shared->workers[i];
        if (pthread_create(&worker->thread, NULL, bench_worker_run, worker) != 0) {
            /* The threads that run wait for this one at the barrier, so the program must end. */
            (void)fputs("sluice bench: cannot start a thread\n", stderr);
            _Exit(1);
        }
    }
    workers_watch(shared);
    for (uint32_t i = 0; i < count; i++) {
        (void)pthread_join(shared->workers[i].thread, NULL);
    }
    return true;
}

/* Reports, also after a failed run: what was measured until then is valid. Returns the exit
 * status. */
static int result_tell(struct bench_shared *shared)
{
    const struct bench_options *options = &shared->options;
    struct bench_report *report = bench_grow(NULL, sizeof(*report));
    bench_report_gather(shared, report);
    bool well = !atomic_load(&shared->failed);
    if (well && options->audit && options->get_path == NULL) {
        if (isatty(STDERR_FILENO) == 1) {
            (void)fputs("comparing with the ledger\r", stderr);
        }
        report->audited = audit_run(shared, &report->audit) == 0;
        report->audit.wrong += report->backwards;
        well = report->audited && audit_ok(&report->audit);
    }
    if (!options->json) {
        bench_report_print(report);
    } else if (bench_report_print_json(report) != 0) {
        well = false;
    }
    free(report);
    return well ? 0 : 1;
}

int bench_main(int argc, char **argv)
{
    static struct bench_shared shared;
    switch (bench_options_parse(argc, argv, &shared.options)) {
    case BENCH_HELP_SHOWN:
        return 0;
    case BENCH_USAGE:
        (void)fputs("Try: sluice bench --help\n", stderr);
        return 2;
    case BENCH_RUN:
        break;
    }
    if (crypt_start() != 0 || shared_prepare(&shared) != 0) {
        return 1;
    }
    struct sigaction action = {.sa_handler = on_interrupt};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    if (!workers_run(&shared)) {
        return 1;
    }
    int status = result_tell(&shared);
    for (uint32_t i = 0; i < shared.options.threads; i++) {
        bench_worker_done(&shared.workers[i]);
    }
    free(shared.workers);
    (void)pthread_barrier_destroy(&shared.barrier);
    if (shared.tell_fd >= 0) {
        (void)close(shared.tell_fd);
    }
    return status;
}
