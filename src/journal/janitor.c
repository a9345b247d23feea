/* See janitor.h. */
#include "journal/janitor.h"

#include "obs/log.h"

/* Least time between two snapshots, however fast files fill: a replay uses the core that sells. */
#define SNAPSHOT_PAUSE_US 5000000

static void take_snapshot(struct janitor *janitor)
{
    uint64_t lsn = 0;
    int error = janitor->snapshot(janitor->snapshot_context, janitor->journal, &lsn);
    if (error != 0) {
        log_event(LOG_WARN, "snapshot.failed", LOG_ERR("error", error),
                  LOG_STR("what", "the journal goes on and keeps its old files"));
    } else if (lsn > 0) {
        metrics_add(janitor->metrics, METRIC_JOURNAL_SNAPSHOTS_TOTAL, 1);
        log_event(LOG_INFO, "snapshot.taken", LOG_U64("lsn", lsn));
    }
}

void janitor_iterate(struct janitor *janitor)
{
    static struct log_limit limit;
    int error = journal_prepare_file(janitor->journal);
    if (error != 0) {
        log_event_limited(&limit, 60000, LOG_WARN, "journal.cannot_prepare",
                          LOG_ERR("error", error));
    }
    int64_t now_us = clock_boot_us(janitor->clock);
    if (janitor->snapshot != NULL && journal_snapshot_due(janitor->journal) &&
        now_us >= janitor->snapshot_after_us) {
        take_snapshot(janitor);
        janitor->snapshot_after_us = now_us + SNAPSHOT_PAUSE_US;
    }
    uint32_t removed = 0;
    error = journal_trim(janitor->journal, janitor->trim_lsn(janitor->trim_context), &removed);
    if (error == 0 && removed > 0) {
        log_event(LOG_INFO, "journal.trimmed", LOG_U64("files", removed));
    }
}
