/* See tally_thread.h. */
#include "app/tally_thread.h"

#include <stdio.h>
#include <stdlib.h>

#include "app/clock_file.h"
#include "app/tally_file.h"
#include "app/worker.h"
#include "base/err.h"
#include "base/mailbox.h"
#include "obs/pool_watch.h"

#define LOOK_US 1000000 /* well below TALLY_SECONDS */
#define SAVE_LOOKS 10
#define CLOCK_LOOKS 60

struct tally_thread {
    struct assembly *parts;
    const char *data_dir;
    struct tally_book book;
    struct tally_file file;
    struct mailbox ends; /* used only to ring */
    unsigned looks;
    struct pool_watch pools;
    struct worker worker;
};

/* Starts counting sales before buyers can use them. */
static void begin(struct tally_thread *tally_thread, int64_t now_ms)
{
    struct catalog *catalog = tally_thread->parts->catalog;
    size_t count = 0;
    catalog_lock(catalog);
    struct sale_row *const *sales = catalog_sales(catalog, &count);
    for (size_t i = 0; i < count; i++) {
        if (sales[i]->state != SALE_DRAFT && sales[i]->state != SALE_CLOSED) {
            tally_begin(&tally_thread->book, sales[i]->id, now_ms);
        }
    }
    catalog_unlock(catalog);
}

/* Marks sales that are closed or no longer in the catalog: they may be dropped. */
static void mark(struct tally_thread *tally_thread)
{
    uint64_t sales[TALLY_SALES];
    size_t count = tally_sales(&tally_thread->book, sales, TALLY_SALES);
    struct catalog *catalog = tally_thread->parts->catalog;
    catalog_lock(catalog);
    for (size_t i = 0; i < count; i++) {
        const struct sale_row *sale = catalog_sale(catalog, sales[i]);
        tally_over(&tally_thread->book, sales[i], sale == NULL || sale->state == SALE_CLOSED);
    }
    catalog_unlock(catalog);
}

/* It is only a hint, so a failure is not worth a line in the log. */
static void save_clock(struct tally_thread *tally_thread)
{
    (void)clock_file_write(tally_thread->data_dir, inside_time_ms(&tally_thread->parts->time));
}

static bool iterate(void *context)
{
    struct tally_thread *tally_thread = context;
    mark(tally_thread); /* first: new sales may need room */
    begin(tally_thread, inside_time_ms(&tally_thread->parts->time));
    tally_look(&tally_thread->book, inside_time_ms(&tally_thread->parts->time));
    assembly_count_pools(tally_thread->parts);
    pool_watch_look(&tally_thread->pools, &tally_thread->parts->metrics);
    if (++tally_thread->looks % SAVE_LOOKS == 0) {
        tally_file_save(&tally_thread->file, &tally_thread->book);
    }
    if (tally_thread->looks % CLOCK_LOOKS == 0) {
        save_clock(tally_thread);
    }
    mailbox_wait(&tally_thread->ends, LOOK_US);
    return true;
}

static void wake(void *context)
{
    mailbox_ring(&((struct tally_thread *)context)->ends);
}

static void end(void *context)
{
    struct tally_thread *tally_thread = context;
    tally_look(&tally_thread->book, inside_time_ms(&tally_thread->parts->time));
    tally_file_save(&tally_thread->file, &tally_thread->book);
    save_clock(tally_thread);
}

static int make(struct tally_thread *tally_thread, const char *data_dir)
{
    char path[sizeof(tally_thread->file.path)];
    tally_thread->data_dir = data_dir;
    (void)snprintf(path, sizeof(path), "%s/tallies", data_dir);
    int error = tally_file_open(&tally_thread->file, path, &tally_thread->book);
    /* Before anybody is served. If the time was set back, the file is from the wrong clock, and the
     * next start would be refused once more. */
    save_clock(tally_thread);
    tally_thread->worker = (struct worker){
        .name = "tally", .iterate = iterate, .wake = wake, .end = end, .context = tally_thread};
    return error != 0 ? error : worker_start(&tally_thread->worker);
}

int tally_thread_start(struct assembly *parts, const char *data_dir,
                       struct tally_thread **ret_tally_thread)
{
    struct tally_thread *tally_thread = calloc(1, sizeof(*tally_thread));
    int error = tally_thread == NULL ? ERR_NOMEM
                                     : tally_book_init(&tally_thread->book, parts->options.loops);
    if (error != 0) {
        free(tally_thread);
        return assembly_fail("cannot count what is asked of sales", error, "");
    }
    mailbox_init(&tally_thread->ends);
    tally_thread->parts = parts;
    error = make(tally_thread, data_dir);
    if (error != 0) {
        tally_thread_free(tally_thread);
        return assembly_fail("cannot count what is asked of sales", error, "");
    }
    parts->shared.tallies = &tally_thread->book; /* the loops start later */
    *ret_tally_thread = tally_thread;
    return 0;
}

void tally_thread_stop(struct tally_thread *tally_thread)
{
    if (tally_thread != NULL) {
        worker_stop(&tally_thread->worker);
    }
}

void tally_thread_free(struct tally_thread *tally_thread)
{
    if (tally_thread == NULL) {
        return;
    }
    tally_book_done(&tally_thread->book);
    mailbox_done(&tally_thread->ends);
    free(tally_thread);
}
