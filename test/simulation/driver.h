/*
 * What the parts of the program `simulate` share.
 *
 *   driver.c          the command line, and what each way of calling does
 *   driver_pool.c     many seeds in worker processes
 *   driver_shrink.c   one seed in a process of its own, and the smallest way to break it
 *   driver_figures.c  sums over seeds, as a table and as JSON
 *
 * Every seed runs in a forked process, so that one which crashes or hangs is a failing seed like any
 * other and never ends the run.
 */
#ifndef SLUICE_SIM_DRIVER_H
#define SLUICE_SIM_DRIVER_H

#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>

#include "sim.h"

/* What a seed must have been through, unless options narrow it. */
#ifdef SIM_DISTRIBUTED
#define ENGINE_OPTION " --engine distributed"
#define REQUESTS_LEAST 3
#define FAULTS_LEAST 1
#define RESTARTS_LEAST 1
#else
#define ENGINE_OPTION ""
#define REQUESTS_LEAST 2000
#define FAULTS_LEAST 3
#define RESTARTS_LEAST 1
#endif

/* A seed takes milliseconds; one that has used so much CPU time of its own hangs. CPU time, not
 * wall time, so that a busy machine decides nothing. And a seed never sleeps: a process found asleep
 * at every look for so long, without any CPU time used meanwhile, is blocked for good. */
#define HANG_CPU_S 60
#define ASLEEP_S 60

#define SEEDS_MAX (1U << 24)
#define JOBS_MAX 256
#define FAILURES_MAX 256

/* In place of a promise's number: the process died. */
#define PROMISE_CRASH (-1)

/* ---- figures ---- */

struct figures {
    uint64_t seeds;
    uint64_t requests;
    uint64_t answers;
    uint64_t decisions;
    uint64_t orders;
    uint64_t steps;
    uint64_t restarts;
    uint64_t evictions;
    uint64_t full;
    uint64_t virtual_us;
    uint64_t hash; /* of all seeds, in any order */
    uint64_t faults[FAULT_COUNT];
    uint64_t states[ORDER_STATE_COUNT];
};

/* One seed's own, for the distribution. done 0: it has not run to its end. */
struct seed_figures {
    uint32_t done;
    uint32_t requests;
    uint32_t faults;
    uint32_t restarts;
};

uint64_t faults_of(const struct sim_result *result);
void figures_add(struct figures *figures, uint64_t seed, const struct sim_result *result);
void figures_sum(struct figures *figures, const struct figures *more);

struct failure {
    uint64_t seed; /* 0: a worker died between seeds */
    int promise;
    bool thin; /* nothing is broken, but the seed was through too little */
    char what[400];
};

/* ---- one seed in a process of its own ---- */

struct outcome {
    bool broken;
    int promise;
    char what[400];
    struct sim_result result; /* all zeros where it crashed */
    uint64_t notes;           /* with count_notes */
    char *said;               /* notes of the report, or what a crash left on stderr; free it */
};

/* report: ask for the last notes; count_notes: how many there were in all (slow), and the last of
 * them should the process die. */
struct try_asks {
    bool report;
    bool count_notes;
};
void driver_try(const struct sim_options *options, struct try_asks requests,
                struct outcome *ret_out);
void outcome_done(struct outcome *outcome);

/* The smallest options found under which the seed still breaks the same promise. */
struct sim_options driver_shrink(const struct sim_options *options, const struct outcome *broken,
                                 FILE *progress, uint32_t *ret_tries);
/* `simulate --seed ...`: what replays it. */
void print_replay(FILE *out, const struct sim_options *options);

/* What a process that ended with this wait status died of, or NULL. */
const char *death_of(int status, char *text, size_t size);
/* A file without a name, appended to. */
int scratch_file(void);
/* The end of a file that a process wrote into; malloc'ed. */
char *tail_of(int fd, size_t bytes);
/* Ends this process when it has used HANG_CPU_S more; false: no more. */
void hang_guard(bool on);

/* What is known of a child between two looks at it; zeros at first. */
struct sleeper {
    int64_t since_us;
    uint64_t cpu;
};
/* Looks at a child; one that has been asleep for ASLEEP_S is ended (with SIGALRM). */
void sleeper_look(struct sleeper *sleeper, pid_t pid);

/* ---- many seeds ---- */

struct pool_plan {
    uint64_t first;
    uint64_t count;   /* seeds; at most SEEDS_MAX */
    int64_t until_us; /* of now_us(); no seed is begun after it. INT64_MAX: none */
    int64_t cpu_us;   /* CPU time of all workers; no seed is begun after it. INT64_MAX: no limit */
    uint32_t jobs;
    bool keep_going;
    bool backwards;
    bool list_hashes;
    bool progress;
    struct sim_options options; /* all but the seed */
};

struct pool_result {
    struct figures figures;
    struct seed_figures *seeds;            /* plan.count of them, mapped: touch those begun */
    uint64_t begun;                        /* how many of them, from the first */
    struct failure failures[FAILURES_MAX]; /* by seed, ascending */
    size_t failures_count;
    uint64_t failures_more; /* not kept */
    bool interrupted;
    int64_t took_us;
    int64_t cpu_us; /* user and system time of all workers */
};

void pool_run(const struct pool_plan *plan, struct pool_result *ret_result);
void pool_done(const struct pool_plan *plan, struct pool_result *result);

int64_t now_us(void);
bool options_narrow(const struct sim_options *options);
/* False, and what is missing, where a seed was through too little. */
bool result_full(const struct sim_result *result, char *text, size_t size);

void print_figures(FILE *out, const struct pool_plan *plan, const struct pool_result *result);
void print_json(FILE *out, const struct pool_plan *plan, const struct pool_result *result);

#endif
