/*
 * One seed in a process of its own, and the smallest way to break it.
 *
 * Shrinking keeps the seed and narrows what it may do: fewer requests, fewer users, fewer kinds of
 * faults. A try counts when the same promise is broken again (or the process dies again); what it
 * says may differ. Rounds go on until none narrows anything, or TRIES_MAX is reached.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "driver.h"

#define TRIES_MAX 400
#define SAID_BYTES 16384
#define NOTES_BYTES 3000

void hang_guard(bool on)
{
    struct itimerval timer = {.it_value = {.tv_sec = on ? HANG_CPU_S : 0}};
    CHECK(setitimer(ITIMER_PROF, &timer, NULL) == 0);
}

/* True if the process sleeps; its CPU time so far, in ticks. */
static bool asleep(pid_t pid, uint64_t *ret_cpu)
{
    char path[40];
    char text[512];
    char state = 0;
    unsigned long user = 0;
    unsigned long system = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[n] = '\0';
    const char *after_name = strrchr(text, ')'); /* the name may hold anything */
    if (after_name == NULL ||
        sscanf(after_name, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state, &user,
               &system) != 3) {
        return false;
    }
    *ret_cpu = user + system;
    return state == 'S';
}

void sleeper_look(struct sleeper *sleeper, pid_t pid)
{
    uint64_t cpu = 0;
    if (!asleep(pid, &cpu) || cpu != sleeper->cpu || sleeper->since_us == 0) {
        *sleeper = (struct sleeper){now_us(), cpu};
    } else if (now_us() - sleeper->since_us > ASLEEP_S * INT64_C(1000000)) {
        (void)kill(pid, SIGALRM);
    }
}

const char *death_of(int status, char *text, size_t size)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF) {
        (void)snprintf(text, size, "no end after %d s of CPU time", HANG_CPU_S);
        return text;
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        (void)snprintf(text, size, "blocked: asleep for %d s", ASLEEP_S);
        return text;
    }
    if (WIFSIGNALED(status)) {
        (void)snprintf(text, size, "died of signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
        return text;
    }
    if (WEXITSTATUS(status) != 0) {
        (void)snprintf(text, size, "ended with status %d", WEXITSTATUS(status));
        return text;
    }
    return NULL;
}

char *tail_of(int fd, size_t bytes)
{
    char *text = calloc(1, bytes + 1);
    CHECK(text != NULL);
    off_t end = lseek(fd, 0, SEEK_END);
    off_t from = end > (off_t)bytes ? end - (off_t)bytes : 0;
    ssize_t n = pread(fd, text, bytes, from);
    while (n > 0 && text[n - 1] == '\n') {
        n--;
    }
    text[n > 0 ? n : 0] = '\0';
    return text;
}

/* ---- a try ---- */

/* What child and parent share. */
struct mailbox {
    struct sim_result result;
    bool returned;
};

static _Noreturn void child(struct sim_options options, struct try_asks requests,
                            struct mailbox *mailbox, int said, int traced)
{
    FILE *report = requests.report ? fdopen(said, "a") : NULL;
    struct sim_result result = {0};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(said, STDERR_FILENO);
    (void)dup2(traced, STDOUT_FILENO);
    (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* the last note before a crash counts, too */
    options.trace = requests.count_notes;
    hang_guard(true);
    sim_run(&options, &result, report);
    hang_guard(false);
    (void)fflush(NULL);
    mailbox->result = result;
    mailbox->returned = true;
    _exit(0);
}

static uint64_t count_lines(int fd)
{
    char chunk[65536];
    uint64_t lines = 0;
    ssize_t n;
    for (off_t at = 0; (n = pread(fd, chunk, sizeof(chunk), at)) > 0; at += n) {
        for (ssize_t i = 0; i < n; i++) {
            lines += chunk[i] == '\n';
        }
    }
    return lines;
}

int scratch_file(void)
{
    int fd = memfd_create("simulate", MFD_CLOEXEC);
    CHECK(fd >= 0 && fcntl(fd, F_SETFL, O_APPEND) == 0);
    return fd;
}

/* What a dead process left: its last notes, then its last words. */
static char *last_words(int traced, int said)
{
    char *notes = tail_of(traced, NOTES_BYTES);
    char *words = tail_of(said, SAID_BYTES);
    char *both = NULL;
    CHECK(asprintf(&both, "%s%s%s", notes, notes[0] != '\0' ? "\n" : "", words) >= 0);
    free(notes);
    free(words);
    return both;
}

static void wait_for(pid_t pid, int *ret_status)
{
    struct sleeper sleeper = {0};
    struct timespec pause = {.tv_nsec = 500000};
    pid_t done;
    while ((done = waitpid(pid, ret_status, WNOHANG)) == 0) {
        sleeper_look(&sleeper, pid);
        (void)nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec < 100000000 ? pause.tv_nsec * 5 / 4 : pause.tv_nsec;
    }
    CHECK(done == pid);
}

void driver_try(const struct sim_options *options, struct try_asks requests,
                struct outcome *ret_out)
{
    struct mailbox *mailbox =
        mmap(NULL, sizeof(*mailbox), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(mailbox != MAP_FAILED);
    int said = scratch_file();
    int traced = scratch_file();
    int status = 0;
    (void)fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        child(*options, requests, mailbox, said, traced);
    }
    wait_for(pid, &status);
    sim_ledger_clean(pid);
    char text[160];
    const char *death = death_of(status, text, sizeof(text));
    *ret_out = (struct outcome){.broken = true};
    if (death != NULL || !mailbox->returned) {
        ret_out->said = last_words(traced, said);
        ret_out->promise = PROMISE_CRASH;
        (void)snprintf(ret_out->what, sizeof(ret_out->what), "%s",
                       death != NULL ? death : "ended before the seed did");
    } else {
        ret_out->said = tail_of(said, SAID_BYTES);
        ret_out->result = mailbox->result;
        ret_out->broken = mailbox->result.broken;
        ret_out->promise = mailbox->result.promise;
        memcpy(ret_out->what, mailbox->result.what, sizeof(ret_out->what));
    }
    ret_out->notes = requests.count_notes ? count_lines(traced) : 0;
    (void)close(said);
    (void)close(traced);
    (void)munmap(mailbox, sizeof(*mailbox));
}

void outcome_done(struct outcome *outcome)
{
    free(outcome->said);
    outcome->said = NULL;
}

/* ---- shrinking ---- */

struct shrink {
    int promise;
    uint32_t tries;
    FILE *progress;
    struct sim_options best;
    struct sim_result result; /* of best; all zeros where it crashed */
};

/* Takes these options over if they break the same promise. */
static bool attempt(struct shrink *shrink, struct sim_options options)
{
    if (shrink->tries >= TRIES_MAX) {
        return false;
    }
    shrink->tries++;
    if (shrink->progress != NULL) {
        (void)fprintf(shrink->progress, "\r\x1b[Kshrinking: %u tries", shrink->tries);
    }
    struct outcome outcome;
    driver_try(&options, (struct try_asks){.report = false}, &outcome);
    bool same = outcome.broken && outcome.promise == shrink->promise;
    if (same) {
        shrink->best = options;
        shrink->result = outcome.result;
    }
    outcome_done(&outcome);
    return same;
}

/* A half again and again, then the steps between the smallest that did and the largest that did
 * not. from: an upper bound of what the number is without a limit. */
static bool shrink_number(struct shrink *shrink, size_t offset, uint32_t from)
{
    struct sim_options options = shrink->best;
    uint32_t *number = (uint32_t *)(void *)((char *)&options + offset);
    uint32_t good = *number != 0 && *number < from ? *number : from;
    uint32_t bad = 0;
    bool any = false;
    while (good > bad + 1) {
        uint32_t middle = bad == 0 ? good / 2 : bad + (good - bad) / 2;
        if (bad != 0 && good - bad <= good / 16) {
            break; /* near enough */
        }
        *number = middle;
        if (attempt(shrink, options)) {
            good = middle;
            any = true;
        } else {
            bad = middle;
        }
    }
    return any;
}

/* First without any fault, then without each that happened. */
static bool shrink_faults(struct shrink *shrink)
{
    struct sim_options options = shrink->best;
    bool any = false;
    if (options.faults_allowed != 0) {
        options.faults_allowed = 0;
        if (attempt(shrink, options)) {
            return true;
        }
    }
    for (int i = 0; i < FAULT_COUNT; i++) {
        bool happened = shrink->promise == PROMISE_CRASH || shrink->result.faults[i] > 0;
        if ((shrink->best.faults_allowed >> i & 1) == 0 || !happened) {
            continue;
        }
        options = shrink->best;
        options.faults_allowed &= ~(1ULL << i);
        any = attempt(shrink, options) || any;
    }
    return any;
}

/* Kinds that did not happen need not be allowed either: then the mask says what did. */
static void drop_idle_faults(struct shrink *shrink)
{
    struct sim_options options = shrink->best;
    options.faults_allowed = 0;
    for (int i = 0; i < FAULT_COUNT; i++) {
        if (shrink->result.faults[i] > 0) {
            options.faults_allowed |= 1ULL << i;
        }
    }
    if (options.faults_allowed != shrink->best.faults_allowed) {
        (void)attempt(shrink, options);
    }
}

struct sim_options driver_shrink(const struct sim_options *options, const struct outcome *broken,
                                 FILE *progress, uint32_t *ret_tries)
{
    struct shrink shrink = {.promise = broken->promise,
                            .progress = progress,
                            .best = *options,
                            .result = broken->result};
    bool any = true;
    while (any && shrink.tries < TRIES_MAX) {
        uint32_t requests =
            shrink.result.requests > 0 ? (uint32_t)shrink.result.requests + 1 : 16384;
        any = shrink_number(&shrink, offsetof(struct sim_options, requests_max), requests);
        any = shrink_number(&shrink, offsetof(struct sim_options, users_max), 1024) || any;
        any = shrink_faults(&shrink) || any;
    }
    if (shrink.promise != PROMISE_CRASH) {
        drop_idle_faults(&shrink);
    }
    if (progress != NULL) {
        (void)fprintf(progress, "\r\x1b[K");
    }
    *ret_tries = shrink.tries;
    return shrink.best;
}

void print_replay(FILE *out, const struct sim_options *options)
{
    (void)fprintf(out, "script/simulate" ENGINE_OPTION " --seed %" PRIu64, options->seed);
    if (options->users_max != 0) {
        (void)fprintf(out, " --users %u", options->users_max);
    }
    if (options->requests_max != 0) {
        (void)fprintf(out, " --requests %u", options->requests_max);
    }
    if (options->faults_allowed != UINT64_MAX) {
        (void)fprintf(out, " --faults 0x%" PRIx64,
                      options->faults_allowed & ((UINT64_C(1) << FAULT_COUNT) - 1));
    }
    (void)fputc('\n', out);
}
