/*
 * Many seeds in worker processes.
 *
 * Happy path: fork the workers; each takes the next number from a counter in shared memory, runs
 * that seed, adds the results to its own sums, and ends when there are no more. The parent
 * waits, replaces workers that have run their share, and adds the sums up.
 *
 * What can go wrong: a seed breaks a promise, and the worker notes it; a worker dies, is ended by its
 * hang guard or is found asleep, and the parent notes the seed it was at and puts a new worker in
 * its place. After a failure no more seeds are begun, unless told to keep going. Those begun earlier
 * are run to their end, so the lowest failing seed is the same however many workers there are.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "driver.h"

struct slot {
    pid_t pid; /* the parent's; 0: none */
    struct sleeper sleeper;
    int stderr_fd; /* what the worker says goes here, emptied with each seed */
    _Atomic bool busy;
    _Atomic uint64_t seed;
    _Atomic int64_t cpu_us; /* how much of this worker's CPU time the board has */
    struct figures figures;
};

/* In memory that parent and workers share. */
struct board {
    _Atomic uint64_t next; /* index of the next seed to run */
    _Atomic bool stop;
    _Atomic int64_t cpu_us; /* of all workers; a live one adds its own after each seed */
    _Atomic uint64_t failures;
    struct failure kept[FAILURES_MAX];
    struct slot slots[JOBS_MAX];
};

int64_t now_us(void)
{
    struct timespec at;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &at) == 0);
    return (int64_t)at.tv_sec * 1000000 + at.tv_nsec / 1000;
}

bool options_narrow(const struct sim_options *options)
{
    return options->faults_allowed != UINT64_MAX || options->users_max != 0 ||
           options->requests_max != 0;
}

static void *share(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static void note_failure(struct board *board, const struct pool_plan *plan, struct failure failure)
{
    uint64_t i = atomic_fetch_add(&board->failures, 1);
    if (i < FAILURES_MAX) {
        board->kept[i] = failure;
    }
    if (!plan->keep_going) {
        atomic_store(&board->stop, true);
    }
}

static bool seeds_left(const struct pool_plan *plan, struct board *board)
{
    return !atomic_load(&board->stop) && now_us() < plan->until_us &&
           atomic_load(&board->cpu_us) < plan->cpu_us && atomic_load(&board->next) < plan->count;
}

/* cpu_us: all that the slot's worker has used. */
static void count_cpu(struct board *board, struct slot *slot, int64_t cpu_us)
{
    int64_t counted_us = atomic_exchange(&slot->cpu_us, cpu_us);
    atomic_fetch_add(&board->cpu_us, cpu_us - counted_us);
}

/* ---- a worker ---- */

/* Then a fresh one takes its place: a simulated server that is killed frees nothing. */
#define WORKER_SEEDS 500

static int64_t own_cpu_us(void)
{
    struct timespec used;
    CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0);
    return (int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000;
}

static void run_seed(const struct pool_plan *plan, struct board *board, struct slot *slot,
                     struct seed_figures *own, uint64_t seed)
{
    struct sim_options options = plan->options;
    struct sim_result result = {0};
    options.seed = seed;
    CHECK(ftruncate(slot->stderr_fd, 0) == 0);
    hang_guard(true);
    sim_run(&options, &result, NULL);
    hang_guard(false);
    figures_add(&slot->figures, seed, &result);
    *own = (struct seed_figures){1, (uint32_t)result.requests, (uint32_t)faults_of(&result),
                                 (uint32_t)result.restarts};
    struct failure failure = {.seed = seed, .promise = result.promise};
    if (result.broken) {
        (void)snprintf(failure.what, sizeof(failure.what), "%s", result.what);
        note_failure(board, plan, failure);
    } else if (!options_narrow(&plan->options) &&
               !result_full(&result, failure.what, sizeof(failure.what))) {
        failure.promise = 0;
        failure.thin = true;
        note_failure(board, plan, failure);
    }
    if (plan->list_hashes) {
        (void)dprintf(STDOUT_FILENO, "%" PRIu64 " %016" PRIx64 "\n", seed, result.hash);
    }
}

static _Noreturn void work(const struct pool_plan *plan, struct board *board, struct slot *slot,
                           struct seed_figures *seeds)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGINT, SIG_IGN); /* the parent ends us, and knows why */
    (void)dup2(slot->stderr_fd, STDERR_FILENO);
    for (int n = 0; n < WORKER_SEEDS && seeds_left(plan, board); n++) {
        uint64_t i = atomic_fetch_add(&board->next, 1);
        if (i >= plan->count) {
            break;
        }
        uint64_t seed = plan->first + (plan->backwards ? plan->count - 1 - i : i);
        atomic_store(&slot->seed, seed);
        atomic_store(&slot->busy, true);
        run_seed(plan, board, slot, &seeds[seed - plan->first], seed);
        atomic_store(&slot->busy, false);
        count_cpu(board, slot, own_cpu_us());
    }
    exit(0);
}

/* ---- the parent ---- */

static void start_worker(const struct pool_plan *plan, struct board *board, struct slot *slot,
                         struct seed_figures *seeds, const sigset_t *mask)
{
    (void)fflush(NULL); /* or the child writes it again */
    atomic_store(&slot->busy, false);
    atomic_store(&slot->cpu_us, 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(sigprocmask(SIG_SETMASK, mask, NULL) == 0);
        work(plan, board, slot, seeds);
    }
    slot->pid = pid;
    slot->sleeper = (struct sleeper){0};
}

static int64_t cpu_us_of(const struct rusage *usage)
{
    return (int64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 +
           usage->ru_utime.tv_usec + usage->ru_stime.tv_usec;
}

static void bury(const struct pool_plan *plan, struct board *board, struct slot *slot, int status)
{
    char text[160];
    const char *death = death_of(status, text, sizeof(text));
    sim_ledger_clean(slot->pid);
    slot->pid = 0;
    if (death == NULL) {
        return;
    }
    struct failure failure = {.promise = PROMISE_CRASH};
    failure.seed = atomic_load(&slot->busy) ? atomic_load(&slot->seed) : 0;
    char *said = tail_of(slot->stderr_fd, 200);
    (void)snprintf(failure.what, sizeof(failure.what), "%s%s%s", death, said[0] != '\0' ? ": " : "",
                   said);
    free(said);
    note_failure(board, plan, failure);
}

static void show_progress(const struct pool_plan *plan, const struct board *board, int64_t from_us)
{
    uint64_t seeds = 0;
    uint64_t decisions = 0;
    for (uint32_t i = 0; i < plan->jobs; i++) {
        seeds += board->slots[i].figures.seeds;
        decisions += board->slots[i].figures.decisions;
    }
    double took_s = (double)(now_us() - from_us) / 1e6;
    char of[32] = "";
    if (plan->until_us == INT64_MAX && plan->cpu_us == INT64_MAX) {
        (void)snprintf(of, sizeof(of), "/%" PRIu64, plan->count);
    }
    (void)fprintf(stderr,
                  "\r\x1b[K%" PRIu64 "%s seeds, %.0f s, %.1f seeds/s, %.0f decisions/s, %" PRIu64
                  " failed",
                  seeds, of, took_s, (double)seeds / (took_s + 1e-9),
                  (double)decisions / (took_s + 1e-9), atomic_load(&board->failures));
}

static void look_at_sleepers(const struct pool_plan *plan, struct board *board)
{
    for (uint32_t i = 0; i < plan->jobs; i++) {
        if (board->slots[i].pid != 0) {
            sleeper_look(&board->slots[i].sleeper, board->slots[i].pid);
        }
    }
}

/* Until all workers have ended. True: interrupted. */
static bool oversee(const struct pool_plan *plan, struct board *board, struct seed_figures *seeds,
                    const sigset_t *mask, const sigset_t *signals)
{
    int64_t from_us = now_us();
    bool interrupted = false;
    uint32_t running = plan->jobs;
    while (running > 0) {
        int status = 0;
        struct rusage usage;
        pid_t pid = wait4(-1, &status, WNOHANG, &usage);
        for (uint32_t i = 0; pid > 0 && i < plan->jobs; i++) {
            struct slot *slot = &board->slots[i];
            if (slot->pid != pid) {
                continue;
            }
            count_cpu(board, slot, cpu_us_of(&usage));
            if (interrupted) { /* it died of us */
                sim_ledger_clean(pid);
            } else {
                bury(plan, board, slot, status);
            }
            if (!interrupted && seeds_left(plan, board)) {
                start_worker(plan, board, slot, seeds, mask);
            } else {
                slot->pid = 0;
                running--;
            }
        }
        if (pid > 0) {
            continue;
        }
        int signal = sigtimedwait(signals, NULL, &(struct timespec){.tv_nsec = 200000000});
        if (signal == SIGINT || signal == SIGTERM) {
            interrupted = true;
            for (uint32_t i = 0; i < plan->jobs; i++) {
                if (board->slots[i].pid != 0) {
                    (void)kill(board->slots[i].pid, SIGKILL);
                }
            }
        }
        look_at_sleepers(plan, board);
        if (plan->progress) {
            show_progress(plan, board, from_us);
        }
    }
    if (plan->progress) {
        (void)fprintf(stderr, "\r\x1b[K");
    }
    return interrupted;
}

static int failure_order(const void *a, const void *b)
{
    uint64_t x = ((const struct failure *)a)->seed;
    uint64_t y = ((const struct failure *)b)->seed;
    return x < y ? -1 : x > y;
}

static void gather(const struct pool_plan *plan, struct board *board, struct pool_result *result)
{
    for (uint32_t i = 0; i < plan->jobs; i++) {
        figures_sum(&result->figures, &board->slots[i].figures);
        (void)close(board->slots[i].stderr_fd);
    }
    uint64_t next = atomic_load(&board->next);
    result->begun = next < plan->count ? next : plan->count;
    result->cpu_us = atomic_load(&board->cpu_us);
    uint64_t failures = atomic_load(&board->failures);
    result->failures_count = failures < FAILURES_MAX ? (size_t)failures : FAILURES_MAX;
    result->failures_more = failures - result->failures_count;
    memcpy(result->failures, board->kept, result->failures_count * sizeof(board->kept[0]));
    qsort(result->failures, result->failures_count, sizeof(result->failures[0]), failure_order);
}

void pool_run(const struct pool_plan *plan, struct pool_result *ret_result)
{
    sigset_t signals;
    sigset_t mask;
    CHECK(plan->jobs >= 1 && plan->jobs <= JOBS_MAX && plan->count <= SEEDS_MAX);
    *ret_result =
        (struct pool_result){.seeds = share((plan->count + 1) * sizeof(struct seed_figures))};
    struct board *board = share(sizeof(*board));
    int64_t from_us = now_us();
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGCHLD);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    CHECK(sigprocmask(SIG_BLOCK, &signals, &mask) == 0);
    for (uint32_t i = 0; i < plan->jobs; i++) {
        board->slots[i].stderr_fd = scratch_file();
        start_worker(plan, board, &board->slots[i], ret_result->seeds, &mask);
    }
    ret_result->interrupted = oversee(plan, board, ret_result->seeds, &mask, &signals);
    CHECK(sigprocmask(SIG_SETMASK, &mask, NULL) == 0);
    ret_result->took_us = now_us() - from_us;
    gather(plan, board, ret_result);
    (void)munmap(board, sizeof(*board));
}

void pool_done(const struct pool_plan *plan, struct pool_result *result)
{
    (void)munmap(result->seeds, (plan->count + 1) * sizeof(struct seed_figures));
    result->seeds = NULL;
}
