/*
 * Micro-benchmark of the journal on a real disk. Usage: bench_journal [FOLDER] [SECONDS]
 *
 * Prints: the cost of journal_append alone; batches and records a second of group commit, with as
 * many records in a batch as come while the one before is written, and the time of one flush; the
 * cost of reading records back, and of replaying them at a start.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "backend/posix/disk_posix.h"
#include "base/check.h"
#include "base/err.h"
#include "embedded/gate_content.h"
#include "journal/journal.h"

#define ITEM 5
#define FLUSHES_MAX 1000000

static struct disk_posix posix;
static struct journal *journal;
static struct gate gate;
static const struct gate_sizes sizes = {
    .orders = 20000000, .buyers = 20000000, .items = 4, .sales = 4};
static const struct journal_options options = {
    .file_bytes = (uint64_t)JOURNAL_FILE_DEFAULT_MIB << 20, .buffer_bytes = JOURNAL_BUFFER_BYTES};
static atomic_bool over;
static uint32_t flush_us[FLUSHES_MAX];
static uint64_t flushes;

static uint64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static void free_gate(void)
{
    (void)munmap(gate.orders, gate_bytes(sizes)); /* its memory begins with the orders */
}

static void open_journal(void)
{
    void *memory = mmap(NULL, gate_bytes(sizes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    gate_init(&gate, sizes, memory, 1);
    struct journal_found found;
    uint64_t start = now_ns();
    int error = gate_content_open(&posix.disk, options, &gate, &journal, &found);
    if (error != 0) {
        (void)fprintf(stderr, "%s at %s: %s\n", err_text(error), found.where, found.why);
        exit(1);
    }
    double ns = (double)(now_ns() - start);
    if (found.replayed > 0) {
        (void)printf("replay      %9.0f ns/record  (%llu records, open took %.3f s)\n",
                     ns / (double)found.replayed, (unsigned long long)found.replayed, ns / 1e9);
    }
}

static struct gate_command reserve(uint64_t user)
{
    return (struct gate_command){.kind = GATE_RESERVE,
                                 .now_ms = 1000 + (int64_t)(user >> 10),
                                 .ticket_expires_ms = 1U << 30,
                                 .user = user,
                                 .item = ITEM,
                                 .qty = 1,
                                 .id = order_id_once(ITEM, user, 0)};
}

static void start_sale(void)
{
    const struct gate_command commands[] = {
        {.kind = GATE_LOAD_SALE, .sale = 1, .starts_at_ms = 1, .ends_at_ms = 1U << 30, .event = 1},
        {.kind = GATE_LOAD_ITEM,
         .sale = 1,
         .item = ITEM,
         .amount = 1U << 30,
         .limit = 1,
         .event = 2},
        {.kind = GATE_OPEN, .sale = 1, .starts_at_ms = 1, .event = 3},
    };
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        struct gate_effects effects;
        uint64_t lsn;
        CHECK(gate_step(&gate, &commands[i], &effects) == VERDICT_DONE);
        CHECK(gate_content_append(journal, &commands[i], &lsn) == 0);
    }
}

/* The whole open buffer, no disk: what the append costs under the caller's lock. */
static void bench_append(void)
{
    uint64_t n = 0;
    uint64_t ns = 0;
    for (int i = 0; i < 20; i++) {
        struct gate_command command = reserve(1);
        uint64_t lsn;
        uint64_t start = now_ns();
        while (journal_has_room(journal, 1)) {
            CHECK(gate_content_append(journal, &command, &lsn) == 0);
            n++;
        }
        ns += now_ns() - start;
        bool wrote;
        CHECK(journal_flush(journal, &wrote) == 0);
    }
    (void)printf("append      %9.1f ns/record  (one thread, has_room and append)\n",
                 (double)ns / (double)n);
}

static void *flush_thread(void *context)
{
    (void)context;
    bool wrote;
    while (journal_wait(journal)) {
        uint64_t start = now_ns();
        CHECK(journal_flush(journal, &wrote) == 0);
        if (flushes < FLUSHES_MAX) {
            flush_us[flushes] = (uint32_t)((now_ns() - start) / 1000);
        }
        flushes++;
    }
    CHECK(journal_flush(journal, &wrote) == 0);
    return NULL;
}

static void *prepare_thread(void *context)
{
    (void)context;
    while (!atomic_load(&over)) {
        CHECK(journal_prepare_file(journal) == 0);
        (void)usleep(1000);
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* in_flight: how many records are decided before the appender waits for all of them to be durable;
 * 1 is a single buyer at a time. */
static uint64_t bench_commit(uint64_t first_user, uint64_t in_flight, double seconds)
{
    pthread_t flusher;
    pthread_t preparer;
    flushes = 0;
    atomic_store(&over, false);
    CHECK(pthread_create(&flusher, NULL, flush_thread, NULL) == 0);
    CHECK(pthread_create(&preparer, NULL, prepare_thread, NULL) == 0);
    uint64_t user = first_user;
    uint64_t start = now_ns();
    uint64_t until = start + (uint64_t)(seconds * 1e9);
    uint64_t lsn = journal_last_lsn(journal);
    while (now_ns() < until && user < sizes.orders - in_flight) {
        for (uint64_t i = 0; i < in_flight; i++) {
            struct gate_command command = reserve(++user);
            struct gate_effects effects;
            CHECK(gate_step(&gate, &command, &effects) == VERDICT_DONE);
            while (!journal_has_room(journal, 1)) {
                (void)usleep(50);
            }
            CHECK(gate_content_append(journal, &command, &lsn) == 0);
        }
        while (journal_durable_lsn(journal) < lsn) {
            (void)sched_yield();
        }
    }
    double s = (double)(now_ns() - start) / 1e9;
    journal_stop(journal);
    atomic_store(&over, true);
    CHECK(pthread_join(flusher, NULL) == 0);
    CHECK(pthread_join(preparer, NULL) == 0);
    uint64_t n = flushes < FLUSHES_MAX ? flushes : FLUSHES_MAX;
    qsort(flush_us, n, sizeof(flush_us[0]), compare);
    (void)printf(
        "commit %6llu %7.0f batches/s %9.0f records/s  flush p50 %u us p99 %u us max %u us\n",
        (unsigned long long)in_flight, (double)flushes / s, (double)(user - first_user) / s,
        flush_us[n / 2], flush_us[n * 99 / 100], flush_us[n - 1]);
    return user;
}

static void bench_read(void)
{
    struct journal_reader *reader;
    CHECK(journal_reader_new(journal, 0, &reader) == 0);
    uint64_t n = 0;
    uint64_t start = now_ns();
    uint64_t lsn;
    struct gate_command command;
    while (gate_content_next(reader, &lsn, &command) == 0) {
        n++;
    }
    (void)printf("read back   %9.1f ns/record  (%llu records)\n",
                 (double)(now_ns() - start) / (double)n, (unsigned long long)n);
    journal_reader_free(reader);
}

static void remove_each(void *context, const char *name, uint64_t size)
{
    (void)context;
    (void)size;
    (void)disk_remove(&posix.disk, name);
}

static void reopen(void)
{
    journal_free(journal);
    free_gate();
    open_journal();
}

int main(int argc, char **argv)
{
    const char *parent = argc > 1 ? argv[1] : "/tmp";
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 3;
    char folder[4096];
    (void)snprintf(folder, sizeof(folder), "%s/bench_journal.XXXXXX", parent);
    CHECK(mkdtemp(folder) != NULL);
    CHECK(disk_posix_open(folder, &posix) == 0);
    open_journal();
    bench_append();
    journal_free(journal);
    CHECK(disk_list(&posix.disk, remove_each, NULL) == 0); /* those records follow from nothing */
    free_gate();
    open_journal();
    start_sale();
    uint64_t user = 0;
    static const uint64_t in_flight[] = {1, 16, 64, 256, 1024, 8192};
    for (size_t i = 0; i < sizeof(in_flight) / sizeof(in_flight[0]); i++) {
        user = bench_commit(user, in_flight[i], seconds);
        reopen(); /* a stopped journal is not started again */
    }
    bench_read();
    journal_free(journal);
    free_gate();
    CHECK(disk_list(&posix.disk, remove_each, NULL) == 0);
    disk_posix_close(&posix);
    (void)rmdir(folder);
    return 0;
}
