/* See tallying.h. */
#define _GNU_SOURCE
#include "app/tallying.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "base/mailbox.h"
#include "base/version.h"
#include "obs/log.h"
#include "obs/tally.h"

#define LOOK_US 1000000
#define SAVE_LOOKS 10
/* The newest that are taken over from an earlier run: there must be room for new ones. */
#define RESTORED_MAX 128

/* Refusals are counted by their place in a list that another version may have in another order. */
struct head {
    char magic[8];
    char version[24];
    uint32_t row_bytes;
    uint32_t count;
    uint32_t crc; /* of the rows */
};

struct tallying {
    struct assembly *parts;
    struct tally_book book;
    char path[1024];
    struct mailbox ends; /* only rung */
    _Atomic bool stopping;
    pthread_t thread;
    bool running;
    uint64_t saved; /* requests in the file */
    size_t sales_count;
    uint64_t sales[TALLY_SALES];
    uint64_t asked[TALLY_SALES]; /* at the last look, in the same order */
};

static struct head head_of(const struct tally_sum *rows, uint32_t count)
{
    struct head head = {.magic = "sltally", .row_bytes = sizeof(*rows), .count = count};
    (void)snprintf(head.version, sizeof(head.version), "%s", SLUICE_VERSION);
    head.crc = crc32c(0, rows, count * sizeof(*rows));
    return head;
}

/* ---- the file ---- */

static void complain(const struct tallying *tallying)
{
    static struct log_limit limit;
    log_event_limited(&limit, 600000, LOG_WARN, "tallies.not_saved",
                      LOG_STR("file", tallying->path), LOG_STR("error", strerrordesc_np(errno)),
                      LOG_STR("what", "after a restart reports of sales count from there"));
}

static void save(struct tallying *tallying)
{
    char next[1040];
    uint64_t sales[TALLY_SALES];
    size_t count = tally_sales(&tallying->book, sales, TALLY_SALES);
    struct tally_sum *rows = calloc(count + 1, sizeof(*rows));
    uint64_t asked = 0;
    if (rows == NULL) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        tally_read(&tallying->book, sales[i], &rows[i]);
        asked += rows[i].counts[TALLY_ASKED];
    }
    struct head head = head_of(rows, (uint32_t)count);
    (void)snprintf(next, sizeof(next), "%s.new", tallying->path);
    FILE *file = asked != tallying->saved ? fopen(next, "we") : NULL;
    if (file != NULL) {
        bool written = fwrite(&head, sizeof(head), 1, file) == 1 &&
                       fwrite(rows, sizeof(*rows), count, file) == count;
        written = fclose(file) == 0 && written && rename(next, tallying->path) == 0;
        tallying->saved = written ? asked : tallying->saved;
        if (!written) {
            complain(tallying);
        }
    } else if (asked != tallying->saved) {
        complain(tallying);
    }
    free(rows);
}

/* 0: restored or there was none. */
static int restore(struct tallying *tallying)
{
    struct head head;
    FILE *file = fopen(tallying->path, "re");
    if (file == NULL) {
        return 0;
    }
    int error = fread(&head, sizeof(head), 1, file) == 1 && head.count <= TALLY_SALES &&
                        head.row_bytes == sizeof(struct tally_sum)
                    ? 0
                    : ERR_CORRUPT;
    struct tally_sum *rows = error == 0 ? calloc(head.count + 1U, sizeof(*rows)) : NULL;
    if (rows == NULL || fread(rows, sizeof(*rows), head.count, file) != head.count) {
        error = ERR_CORRUPT;
    } else {
        struct head wanted = head_of(rows, head.count);
        error = memcmp(&wanted, &head, sizeof(head)) == 0 ? 0 : ERR_CORRUPT;
    }
    for (uint32_t i = 0; error == 0 && i < head.count; i++) {
        uint32_t newer = 0;
        for (uint32_t k = 0; k < head.count; k++) {
            newer += rows[k].since_ms > rows[i].since_ms;
        }
        if (newer < RESTORED_MAX) {
            (void)tally_restore(&tallying->book, &rows[i]);
        }
    }
    free(rows);
    (void)fclose(file);
    return error;
}

/* ---- the thread ---- */

/* Sales that buyers may ask for are counted from before they can. */
static void begin(struct tallying *tallying, int64_t now_ms)
{
    struct catalog *catalog = tallying->parts->catalog;
    size_t count = 0;
    catalog_lock(catalog);
    struct sale_row *const *sales = catalog_sales(catalog, &count);
    for (size_t i = 0; i < count; i++) {
        if (sales[i]->state != SALE_DRAFT && sales[i]->state != SALE_CLOSED) {
            tally_begin(&tallying->book, sales[i]->id, now_ms);
        }
    }
    catalog_unlock(catalog);
}

/* How many more were asked within this second. */
static void look(struct tallying *tallying, int64_t now_ms)
{
    uint64_t sales[TALLY_SALES];
    size_t count = tally_sales(&tallying->book, sales, TALLY_SALES);
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < tallying->sales_count && tallying->sales[at] != sales[i]) {
            at++;
        }
        uint64_t asked = tally_asked(&tallying->book, sales[i]);
        bool known = at < tallying->sales_count;
        if (asked > (known ? tallying->asked[at] : 0)) {
            uint64_t before = known ? tallying->asked[at] : 0;
            tally_peak(&tallying->book, sales[i], asked - before, now_ms);
        }
        if (!known && at < TALLY_SALES) {
            tallying->sales[tallying->sales_count++] = sales[i];
        }
        if (at < TALLY_SALES) {
            tallying->asked[at] = asked;
        }
    }
}

static void *run(void *context)
{
    struct tallying *tallying = context;
    unsigned looks = 0;
    (void)pthread_setname_np(pthread_self(), "tally");
    while (!atomic_load(&tallying->stopping)) {
        begin(tallying, inside_time_ms(&tallying->parts->time));
        look(tallying, inside_time_ms(&tallying->parts->time));
        if (++looks % SAVE_LOOKS == 0) {
            save(tallying);
        }
        mailbox_wait(&tallying->ends, LOOK_US);
    }
    save(tallying);
    return NULL;
}

static int make(struct tallying *tallying)
{
    int error = restore(tallying);
    if (error != 0) {
        log_event(LOG_WARN, "tallies.begun_anew", LOG_STR("file", tallying->path),
                  LOG_STR("what", "of another version or damaged; reports of earlier sales lack "
                                  "what was refused"));
    }
    /* What was there before is no peak of this second. */
    tallying->sales_count = tally_sales(&tallying->book, tallying->sales, TALLY_SALES);
    for (size_t i = 0; i < tallying->sales_count; i++) {
        tallying->asked[i] = tally_asked(&tallying->book, tallying->sales[i]);
        tallying->saved += tallying->asked[i];
    }
    tallying->running = pthread_create(&tallying->thread, NULL, run, tallying) == 0;
    return tallying->running ? 0 : ERR_NOMEM;
}

int tallying_start(struct assembly *parts, const char *data_dir, struct tallying **ret_tallying)
{
    struct tallying *tallying = calloc(1, sizeof(*tallying));
    int error =
        tallying == NULL ? ERR_NOMEM : tally_book_init(&tallying->book, parts->options.loops);
    if (error != 0) {
        free(tallying);
        return assembly_fail("cannot count what is asked of sales", error, "");
    }
    mailbox_init(&tallying->ends);
    tallying->parts = parts;
    (void)snprintf(tallying->path, sizeof(tallying->path), "%s/tallies", data_dir);
    error = make(tallying);
    if (error != 0) {
        tallying_free(tallying);
        return assembly_fail("cannot count what is asked of sales", error, "");
    }
    parts->shared.tallies = &tallying->book; /* loops begin later */
    *ret_tallying = tallying;
    return 0;
}

void tallying_stop(struct tallying *tallying)
{
    if (tallying != NULL && tallying->running) {
        atomic_store(&tallying->stopping, true);
        mailbox_ring(&tallying->ends);
        (void)pthread_join(tallying->thread, NULL);
        tallying->running = false;
    }
}

void tallying_free(struct tallying *tallying)
{
    if (tallying == NULL) {
        return;
    }
    tally_book_done(&tallying->book);
    mailbox_done(&tallying->ends);
    free(tallying);
}
