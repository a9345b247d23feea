/* See tallying.h. */
#define _GNU_SOURCE
#include "app/tallying.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "app/tally_file.h"
#include "base/err.h"
#include "base/mailbox.h"

#define LOOK_US 1000000 /* far below TALLY_SECONDS */
#define SAVE_LOOKS 10

struct tallying {
    struct assembly *parts;
    struct tally_book book;
    struct tally_file file;
    struct mailbox ends; /* only rung */
    _Atomic bool stopping;
    pthread_t thread;
    bool running;
};

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

/* Those that are closed, or that the catalog has no more, make room where it is needed. */
static void mark(struct tallying *tallying)
{
    uint64_t sales[TALLY_SALES];
    size_t count = tally_sales(&tallying->book, sales, TALLY_SALES);
    struct catalog *catalog = tallying->parts->catalog;
    catalog_lock(catalog);
    for (size_t i = 0; i < count; i++) {
        const struct sale_row *sale = catalog_sale(catalog, sales[i]);
        tally_over(&tallying->book, sales[i], sale == NULL || sale->state == SALE_CLOSED);
    }
    catalog_unlock(catalog);
}

static void *run(void *context)
{
    struct tallying *tallying = context;
    unsigned looks = 0;
    (void)pthread_setname_np(pthread_self(), "tally");
    while (!atomic_load(&tallying->stopping)) {
        mark(tallying); /* first: what begins may need room */
        begin(tallying, inside_time_ms(&tallying->parts->time));
        tally_look(&tallying->book, inside_time_ms(&tallying->parts->time));
        if (++looks % SAVE_LOOKS == 0) {
            tally_file_save(&tallying->file, &tallying->book);
        }
        mailbox_wait(&tallying->ends, LOOK_US);
    }
    tally_look(&tallying->book, inside_time_ms(&tallying->parts->time));
    tally_file_save(&tallying->file, &tallying->book);
    return NULL;
}

static int make(struct tallying *tallying, const char *data_dir)
{
    char path[sizeof(tallying->file.path)];
    (void)snprintf(path, sizeof(path), "%s/tallies", data_dir);
    int error = tally_file_open(&tallying->file, path, &tallying->book);
    if (error == 0) {
        tallying->running = pthread_create(&tallying->thread, NULL, run, tallying) == 0;
        error = tallying->running ? 0 : ERR_NOMEM;
    }
    return error;
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
    error = make(tallying, data_dir);
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
