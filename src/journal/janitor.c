/* See janitor.h. */
#include "journal/janitor.h"

#include "base/err.h"
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

/* Logs when the disk becomes full and when there is space again. */
static void look_at_space(struct janitor *janitor)
{
    bool full = journal_space(janitor->journal) != JOURNAL_SPACE_OK;
    metrics_set(janitor->metrics, METRIC_JOURNAL_DISK_FULL, full ? 1 : 0);
    if (full && !janitor->was_full) {
        log_event(LOG_ERROR, "journal.disk_full",
                  LOG_STR("what", "new buys are refused; what was promised is finished from a "
                                  "reserve, as far as it goes"),
                  LOG_STR("do", "free disk space; buys go on by themselves, without a restart"));
    } else if (!full && janitor->was_full) {
        log_event(LOG_INFO, "journal.disk_has_space", LOG_STR("what", "buys go on"));
    }
    janitor->was_full = full;
}

void janitor_iterate(struct janitor *janitor)
{
    static struct log_limit limit;
    int error = journal_prepare_file(janitor->journal);
    look_at_space(janitor);
    if (error != 0 && error != ERR_NOSPACE) {
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
