/* See journal_thread.h. */
#include "app/journal_thread.h"

#include <time.h>

#include "base/err.h"
#include "obs/log.h"

/* Between two attempts to write a batch that waits for space. */
#define SPACE_PAUSE_NS 200000000

static void failed(struct journal_thread *thread, struct metrics_slot *metrics, int error,
                   uint64_t durable_lsn)
{
    log_event(LOG_ERROR, "journal.failed", LOG_ERR("error", error),
              LOG_STR("why", journal_failed_why(thread->parts->journal)),
              LOG_U64("durable_lsn", durable_lsn),
              LOG_STR("what", "no new orders; orders that are durable are still shown"),
              LOG_STR("do", "put the disk or the data folder right, then restart"));
    metrics_set(metrics, METRIC_JOURNAL_FAILED, 1);
}

/* A batch waits for space, or no longer does. */
static void waits_for_space(struct journal_thread *thread, bool waits)
{
    if (waits && !thread->waits) {
        log_event(LOG_ERROR, "journal.waits_for_space",
                  LOG_STR("what", "decisions wait in memory; who asked is told that the outcome is "
                                  "not known yet"),
                  LOG_STR("do", "free disk space; no restart is needed"));
    } else if (!waits && thread->waits) {
        log_event(LOG_INFO, "journal.found_space");
    }
    thread->waits = waits;
}

static bool flush(void *context)
{
    struct journal_thread *thread = context;
    struct assembly *parts = thread->parts;
    struct journal *journal = parts->journal;
    struct metrics_slot *metrics =
        metrics_slot(&parts->metrics, parts->options.loops + SLOT_JOURNAL);
    bool more = journal_wait(journal);
    uint64_t before = journal_durable_lsn(journal);
    bool wrote = false;
    int64_t from_us = clock_boot_us(parts->time.clock);
    int error = journal_flush(journal, &wrote);
    if (error != 0 && journal_failed(journal)) {
        failed(thread, metrics, error, before);
        return false;
    }
    waits_for_space(thread, error != 0);
    if (error != 0 && more) {
        (void)nanosleep(&(struct timespec){.tv_nsec = SPACE_PAUSE_NS}, NULL);
    }
    if (wrote) {
        int64_t took_us = clock_boot_us(parts->time.clock) - from_us;
        metrics_observe_us(metrics, HIST_JOURNAL_SYNC, (uint64_t)took_us);
        metrics_add(metrics, METRIC_JOURNAL_BATCHES_TOTAL, 1);
        metrics_add(metrics, METRIC_JOURNAL_RECORDS_TOTAL, journal_durable_lsn(journal) - before);
    }
    return more;
}

/* It ends by journal_stop alone: what is appended must still be flushed. */
static void end(void *context)
{
    struct journal_thread *thread = context;
    if (!journal_failed(thread->parts->journal)) {
        (void)flush(thread);
    }
}

static void stop(void *context)
{
    journal_stop(((struct journal_thread *)context)->parts->journal);
}

int journal_thread_start(struct journal_thread *thread, struct assembly *parts)
{
    thread->parts = parts;
    thread->worker = (struct worker){
        .name = "journal", .iterate = flush, .wake = stop, .end = end, .context = thread};
    int error = worker_start(&thread->worker);
    return error == 0 ? 0 : assembly_fail("cannot start a thread", error, "journal");
}

void journal_thread_stop(struct journal_thread *thread)
{
    worker_stop(&thread->worker);
}
