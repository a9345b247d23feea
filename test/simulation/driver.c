/*
 * The program `simulate`: the command line of the simulator.
 *
 * Many seeds: run them in workers, print the figures; the first failing seed (or with --keep-going
 * each of them) is run again alone for its last notes, then shrunk, and the shortest command line
 * that still breaks the promise is printed. A seed that fails among others but not alone depends on
 * something else than its seed, and the output says so.
 * One seed: the same without workers; --trace prints every note as it happens, in this process, for
 * a debugger.
 * --determinism: two programs run the same seeds in opposite orders, over memory filled with other
 * bytes, and every hash is compared.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "driver.h"

static const char usage[] =
    "simulate: histories of the whole server, each drawn from a seed, against its promises\n"
    "\n"
    "  simulate --seeds N [--first S]      runs N seeds from S (1)\n"
    "  simulate --minutes M [--first S]    as many as M minutes allow; with --seeds: at most N\n"
    "  simulate --cpu T [--first S]        until the workers have used T seconds of CPU time;\n"
    "                                      with --seeds: at most N\n"
    "  simulate --seed S                   runs one seed\n"
    "  simulate --determinism N            runs N seeds twice, in other processes and another "
    "order,\n"
    "                                      and compares their hashes\n"
    "\n"
    "  --jobs J         worker processes (as many as cores)\n"
    "  --keep-going     does not stop at the first failing seed\n"
    "  --no-shrink      does not look for the smallest way to break a failing seed\n"
    "  --json           figures and failures as one line of JSON\n"
    "  --trace          with --seed: prints every note as it happens\n"
    "  --hash           with --seed: prints the hash of the run and nothing else\n"
    "  --users N        at most N buyers\n"
    "  --requests N     at most N requests\n"
    "  --faults MASK    only these kinds of faults may happen (a bit for each, lowest first):\n";

/* Exit statuses. */
enum { GOOD = 0, FAILED = 1, MISUSED = 2, INTERRUPTED = 130 };

struct command {
    struct pool_plan plan;
    bool one; /* --seed */
    bool many;
    bool trace;
    bool hash;
    bool json;
    bool no_shrink;
    uint64_t determinism;
    double minutes;
    double cpu_s;
};

static void print_usage(FILE *out)
{
    (void)fputs(usage, out);
    for (int i = 0; i < FAULT_COUNT; i++) {
        (void)fprintf(out, "      0x%06x  %s\n", 1U << i, sim_fault_text((enum sim_fault)i));
    }
    (void)fprintf(out, "\nExit 0: every promise held; 1: not; 2: usage.\n");
}

/* ---- a failing seed ---- */

static const char *promise_text(int promise, char text[32])
{
    if (promise == PROMISE_CRASH) {
        return "crash";
    }
    (void)snprintf(text, 32, "promise %d", promise);
    return text;
}

static void shrink_and_tell(const struct sim_options *options, const struct outcome *broken)
{
    char text[32];
    uint32_t tries = 0;
    FILE *progress = isatty(STDERR_FILENO) ? stderr : NULL;
    struct sim_options smallest = driver_shrink(options, broken, progress, &tries);
    struct outcome outcome;
    driver_try(&smallest, (struct try_asks){.report = true, .count_notes = true}, &outcome);
    if (!outcome.broken || outcome.promise != broken->promise) {
        (void)printf("seed %" PRIu64 ": what was shrunk does not fail again: not deterministic\n",
                     options->seed);
    }
    (void)printf("%s\nseed %" PRIu64 ", the smallest found in %u tries: %s: %s\n", outcome.said,
                 options->seed, tries, promise_text(outcome.promise, text), outcome.what);
    (void)printf("%" PRIu64 " notes, %" PRIu64 " requests, %" PRIu64 " faults, %" PRIu64
                 " restarts; again with:\n  ",
                 outcome.notes, outcome.result.requests, faults_of(&outcome.result),
                 outcome.result.restarts);
    print_replay(stdout, &smallest);
    outcome_done(&outcome);
}

/* Runs it again alone and tells everything about it. */
static void tell_failure(const struct command *command, const struct failure *failure)
{
    char text[32];
    (void)printf("seed %" PRIu64 ": %s: %s\n", failure->seed, promise_text(failure->promise, text),
                 failure->what);
    if (failure->seed == 0 || failure->thin) {
        return;
    }
    struct sim_options options = command->plan.options;
    struct outcome outcome;
    options.seed = failure->seed;
    bool crashed = failure->promise == PROMISE_CRASH;
    driver_try(&options, (struct try_asks){.report = true, .count_notes = crashed}, &outcome);
    if (!outcome.broken || outcome.promise != failure->promise) {
        (void)printf("seed %" PRIu64 ": alone it ends otherwise (%s): it depends on something that "
                     "is not its seed\n",
                     failure->seed, outcome.broken ? outcome.what : "no promise broken");
    } else {
        (void)printf("%s\n  ", outcome.said);
        print_replay(stdout, &options);
        if (!command->no_shrink) {
            shrink_and_tell(&options, &outcome);
        }
    }
    outcome_done(&outcome);
}

/* ---- ways of calling ---- */

static int run_many(struct command *command)
{
    struct pool_plan *plan = &command->plan;
    struct pool_result result;
    plan->until_us =
        command->minutes > 0 ? now_us() + (int64_t)(command->minutes * 60e6) : INT64_MAX;
    plan->cpu_us = command->cpu_s > 0 ? (int64_t)(command->cpu_s * 1e6) : INT64_MAX;
    plan->progress = isatty(STDERR_FILENO) && !plan->list_hashes;
    pool_run(plan, &result);
    if (command->json) {
        print_json(stdout, plan, &result);
    } else if (!plan->list_hashes) {
        print_figures(stdout, plan, &result);
        size_t told = plan->keep_going ? result.failures_count : result.failures_count > 0;
        for (size_t i = 0; i < told; i++) {
            tell_failure(command, &result.failures[i]);
        }
        (void)printf("%" PRIu64 " seeds run, %" PRIu64 " failed\n", result.figures.seeds,
                     result.failures_count + result.failures_more);
    }
    bool failed = result.failures_count > 0;
    bool interrupted = result.interrupted;
    bool none = result.figures.seeds == 0;
    pool_done(plan, &result);
    return failed ? FAILED : interrupted ? INTERRUPTED : none ? FAILED : GOOD;
}

/* In this process: what a debugger wants. */
static int run_here(const struct command *command)
{
    struct sim_options options = command->plan.options;
    struct sim_result result = {0};
    options.trace = command->trace;
    sim_run(&options, &result, command->hash ? NULL : stdout);
    if (command->hash) {
        (void)printf("%016" PRIx64 "\n", result.hash);
        return result.broken ? FAILED : GOOD;
    }
    char text[32];
    (void)printf("seed %" PRIu64 ": %s%s%s\n", options.seed,
                 result.broken ? promise_text(result.promise, text) : "every promise held",
                 result.broken ? ": " : "", result.broken ? result.what : "");
    return result.broken ? FAILED : GOOD;
}

static int run_one(struct command *command)
{
    struct pool_plan *plan = &command->plan;
    if (command->trace || command->hash) {
        return run_here(command);
    }
    plan->first = plan->options.seed;
    plan->count = 1;
    plan->jobs = 1;
    return run_many(command);
}

/* ---- determinism ---- */

/* Runs this program again and reads the hashes it lists; malloc'ed, by seed. */
static uint64_t *hashes_of(const struct command *command, bool backwards)
{
    char first[32];
    char count[32];
    char jobs[32];
    int ends[2];
    uint64_t seeds = command->determinism;
    (void)snprintf(first, sizeof(first), "%" PRIu64, command->plan.first);
    (void)snprintf(count, sizeof(count), "%" PRIu64, seeds);
    (void)snprintf(jobs, sizeof(jobs), "%u", command->plan.jobs);
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)execl("/proc/self/exe", "simulate", "--seeds", count, "--first", first, "--jobs",
                    jobs, "--keep-going", backwards ? "--hashes-backwards" : "--hashes", NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    uint64_t *hashes = calloc(seeds, sizeof(*hashes));
    FILE *in = fdopen(ends[0], "r");
    CHECK(hashes != NULL && in != NULL);
    uint64_t seed = 0;
    uint64_t hash = 0;
    while (fscanf(in, "%" SCNu64 " %" SCNx64, &seed, &hash) == 2) {
        if (seed - command->plan.first < seeds) {
            hashes[seed - command->plan.first] = hash;
        }
    }
    (void)fclose(in);
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    return hashes;
}

static int run_determinism(const struct command *command)
{
    uint64_t *once = hashes_of(command, false);
    uint64_t *twice = hashes_of(command, true);
    uint64_t differ = 0;
    for (uint64_t i = 0; i < command->determinism; i++) {
        if (once[i] != twice[i] || once[i] == 0) {
            differ++;
            (void)printf("seed %" PRIu64 ": %016" PRIx64 ", then %016" PRIx64 "%s\n",
                         command->plan.first + i, once[i], twice[i],
                         once[i] == 0 || twice[i] == 0 ? " (it did not end)" : "");
        }
    }
    free(once);
    free(twice);
    (void)printf("%" PRIu64 " seeds run twice, %" PRIu64 " differ\n", command->determinism, differ);
    return differ > 0 ? FAILED : GOOD;
}

/* ---- the command line ---- */

enum {
    OPT_SEEDS = 256,
    OPT_FIRST,
    OPT_MINUTES,
    OPT_CPU,
    OPT_JOBS,
    OPT_SEED,
    OPT_TRACE,
    OPT_HASH,
    OPT_HELP,
    OPT_KEEP_GOING,
    OPT_NO_SHRINK,
    OPT_JSON,
    OPT_USERS,
    OPT_REQUESTS,
    OPT_FAULTS,
    OPT_DETERMINISM,
    OPT_HASHES,
    OPT_HASHES_BACKWARDS,
};

static const struct option long_options[] = {
    {"seeds", required_argument, NULL, OPT_SEEDS},
    {"first", required_argument, NULL, OPT_FIRST},
    {"minutes", required_argument, NULL, OPT_MINUTES},
    {"cpu", required_argument, NULL, OPT_CPU},
    {"jobs", required_argument, NULL, OPT_JOBS},
    {"seed", required_argument, NULL, OPT_SEED},
    {"trace", no_argument, NULL, OPT_TRACE},
    {"hash", no_argument, NULL, OPT_HASH},
    {"help", no_argument, NULL, OPT_HELP},
    {"keep-going", no_argument, NULL, OPT_KEEP_GOING},
    {"no-shrink", no_argument, NULL, OPT_NO_SHRINK},
    {"json", no_argument, NULL, OPT_JSON},
    {"users", required_argument, NULL, OPT_USERS},
    {"requests", required_argument, NULL, OPT_REQUESTS},
    {"faults", required_argument, NULL, OPT_FAULTS},
    {"determinism", required_argument, NULL, OPT_DETERMINISM},
    /* for --determinism's own use: hashes alone, one line for each seed */
    {"hashes", no_argument, NULL, OPT_HASHES},
    {"hashes-backwards", no_argument, NULL, OPT_HASHES_BACKWARDS},
    {NULL, 0, NULL, 0},
};

static bool parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret_number)
{
    char *end = NULL;
    errno = 0;
    uint64_t number = strtoull(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-' || number < min ||
        number > max) {
        (void)fprintf(stderr, "simulate: %s is not a number from %" PRIu64 " to %" PRIu64 "\n",
                      text, min, max);
        return false;
    }
    *ret_number = number;
    return true;
}

static bool parse_duration(const char *text, const char *unit, double *ret_duration)
{
    char *end = NULL;
    double duration = strtod(text, &end);
    if (end == text || *end != '\0' || !(duration > 0 && duration < 1e6)) {
        (void)fprintf(stderr, "simulate: %s is not a number of %s\n", text, unit);
        return false;
    }
    *ret_duration = duration;
    return true;
}

static bool take_flag(int option, struct command *command)
{
    switch (option) {
    case OPT_TRACE:
        command->trace = true;
        return true;
    case OPT_HASH:
        command->hash = true;
        return true;
    case OPT_KEEP_GOING:
        command->plan.keep_going = true;
        return true;
    case OPT_NO_SHRINK:
        command->no_shrink = true;
        return true;
    case OPT_JSON:
        command->json = true;
        return true;
    case OPT_HASHES_BACKWARDS:
        command->plan.backwards = true;
        /* A read of uninitialized memory gives other bytes than in the other program. */
        (void)mallopt(M_PERTURB, 0x5a);
        command->plan.list_hashes = true;
        return true;
    case OPT_HASHES:
        command->plan.list_hashes = true;
        return true;
    default:
        return false;
    }
}

static bool take_option(int option, const char *text, struct command *command)
{
    struct sim_options *sim = &command->plan.options;
    uint64_t number = 0;
    switch (option) {
    case OPT_SEEDS:
        command->many = true;
        return parse_number(text, 1, SEEDS_MAX, &command->plan.count);
    case OPT_FIRST:
        return parse_number(text, 1, UINT64_MAX - SEEDS_MAX, &command->plan.first);
    case OPT_MINUTES:
        command->many = true;
        return parse_duration(text, "minutes", &command->minutes);
    case OPT_CPU:
        command->many = true;
        return parse_duration(text, "seconds", &command->cpu_s);
    case OPT_JOBS:
        if (!parse_number(text, 1, JOBS_MAX, &number)) {
            return false;
        }
        command->plan.jobs = (uint32_t)number;
        return true;
    case OPT_SEED:
        command->one = true;
        return parse_number(text, 1, UINT64_MAX - SEEDS_MAX, &sim->seed);
    case OPT_USERS:
    case OPT_REQUESTS:
        if (!parse_number(text, 1, UINT32_MAX, &number)) {
            return false;
        }
        *(option == OPT_USERS ? &sim->users_max : &sim->requests_max) = (uint32_t)number;
        return true;
    case OPT_FAULTS:
        return parse_number(text, 0, UINT64_MAX, &sim->faults_allowed);
    case OPT_DETERMINISM:
        return parse_number(text, 1, SEEDS_MAX, &command->determinism);
    default:
        return take_flag(option, command);
    }
}

int main(int argc, char **argv)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct command command = {.plan = {.first = 1,
                                       .count = SEEDS_MAX,
                                       .jobs = cores < 1          ? 1
                                               : cores > JOBS_MAX ? JOBS_MAX
                                                                  : (uint32_t)cores,
                                       .options = {.faults_allowed = UINT64_MAX}}};
    int option;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == OPT_HELP || option == 'h') {
            print_usage(stdout);
            return GOOD;
        }
        if (option == '?' || !take_option(option, optarg, &command)) {
            return MISUSED;
        }
    }
    int ways = command.one + command.many + (command.determinism > 0);
    if (optind != argc || ways != 1 || ((command.trace || command.hash) && !command.one)) {
        print_usage(stderr);
        return MISUSED;
    }
    return command.determinism > 0 ? run_determinism(&command)
           : command.one           ? run_one(&command)
                                   : run_many(&command);
}
