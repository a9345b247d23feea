/*
 * Durable waits: answers that wait until an LSN is durable. No answer shows a change that is not
 * durable, and api_after_durable() is the only way to wait for it.
 *
 * The waits are a ring in the order of their LSNs. The ring has a place for every operation that may
 * wait: an answer of the gate needs room in BUDGET_DURABLE first (hold_until_durable() refuses the rest),
 * and others are within the budget that they were taken from. Watchers have a limit: a watcher that finds
 * no room looks its order up later.
 *
 * A failed journal, and one that waits for space, ends every wait: the answer then says that the
 * outcome is unknown.
 */
#include <stdlib.h>

#include "api/api_private.h"
#include "api/watch.h"
#include "base/check.h"
#include "base/err.h"

int durable_waits_start(struct api_worker *worker)
{
    struct durable_waits *waits = &worker->durable_waits;
    /* One for each watcher, and one for each that has gone since. */
    waits->watchers_max = worker->connections_count * 2;
    /* Operations that are still at the gate do not wait yet. */
    const struct operation_pool *pool = &worker->operations;
    uint32_t needed = waits->watchers_max + pool->capacity - pool->budgets[BUDGET_GATE].limit;
    waits->capacity = 64;
    while (waits->capacity < needed) {
        waits->capacity *= 2;
    }
    waits->ring = calloc(waits->capacity, sizeof(*waits->ring));
    return waits->ring != NULL ? 0 : ERR_NOMEM;
}

void durable_waits_end(struct api_worker *worker)
{
    free(worker->durable_waits.ring);
}

bool api_durable(const struct api_worker *worker, uint64_t lsn)
{
    return lsn <= journal_durable_lsn(worker->journal);
}

bool api_after_durable(struct api_worker *worker, uint64_t lsn, struct http_exchange exchange,
                       struct api_operation *operation)
{
    struct durable_waits *waits = &worker->durable_waits;
    uint32_t mask = waits->capacity - 1;
    if (operation == NULL) {
        if (waits->watchers == waits->watchers_max) {
            return false;
        }
        waits->watchers++;
    }
    CHECK(waits->count < waits->capacity);
    /* The ring stays in order: a lower LSN behind a higher one waits for the higher one. */
    if (waits->count > 0) {
        uint64_t last = waits->ring[(waits->head + waits->count - 1) & mask].lsn;
        lsn = lsn < last ? last : lsn;
    }
    waits->ring[(waits->head + waits->count) & mask] =
        (struct durable_wait){lsn, exchange, operation};
    waits->count++;
    return true;
}

uint64_t durable_waits_next(const struct api_worker *worker)
{
    const struct durable_waits *waits = &worker->durable_waits;
    return waits->count > 0 ? waits->ring[waits->head].lsn : UINT64_MAX;
}

static void end_wait(struct api_worker *worker, const struct durable_wait *wait, bool lost)
{
    if (wait->operation == NULL) {
        worker->durable_waits.watchers--;
        watch_durable(worker, wait->exchange, lost);
        return;
    }
    if (lost) {
        wait->operation->error = ERR_JOURNAL_FAILED;
    }
    operation_finish(worker, wait->operation);
}

bool answer_durable(struct api_worker *worker)
{
    struct durable_waits *waits = &worker->durable_waits;
    bool failed =
        journal_failed(worker->journal) || journal_space(worker->journal) == JOURNAL_SPACE_NONE;
    uint64_t durable = journal_durable_lsn(worker->journal);
    uint32_t count = waits->count; /* waits that are added meanwhile are for the next iteration */
    uint32_t done = 0;
    for (; done < count; done++) {
        struct durable_wait wait = waits->ring[waits->head];
        bool is_durable = wait.lsn <= durable;
        if (!is_durable && !failed) {
            break;
        }
        waits->head = (waits->head + 1) & (waits->capacity - 1);
        waits->count--;
        end_wait(worker, &wait, !is_durable);
    }
    return done > 0;
}
