/*
 * Answers that are the same for everyone and cost much to make: the list of sales, plain and
 * compressed, and the text of /metrics. They are made for a request, kept, and sent from memory by
 * reference. So a flood of such requests costs little more than the sending.
 *
 * Happy path: a handler takes the present edition with answer_cache_sales(), sends it with
 * content_answer(), and releases it. If the edition is too old, the loop makes the next one first.
 *
 * An edition of the sales is of one range of time (from_ms, to_ms). It is good until the catalog
 * changes or a sale starts or ends, and for a second at most, because stock changes all the time. A
 * next edition that says the same as the one before is the same edition. Ranges that keep the same
 * sales share an edition.
 *
 * What can go wrong: there is no memory, or all places for ranges are taken (ERR_FULL: ask again in a
 * second). A loop never waits for another one that makes an edition, unless there is none younger than
 * ANSWER_CACHE_LATE_MS.
 *
 * Threads: any loop. An edition never changes, and is freed with its last reference, so a loop may
 * still send an edition that another loop has replaced.
 */
#ifndef SLUICE_API_ANSWER_CACHE_H
#define SLUICE_API_ANSWER_CACHE_H

#include "http/content.h"
#include "ledger/catalog.h"
#include "obs/metrics.h"

/* The longest time between two editions that differ only in stock. */
#define ANSWER_CACHE_AGE_MS 1000
/* While another loop makes the next edition, one of this age is still sent. */
#define ANSWER_CACHE_LATE_MS 2000

struct answer {
    struct http_hold hold; /* first */
    struct content content;
    char bytes[];
};

struct answer_cache;

struct answer_cache *answer_cache_new(void); /* NULL: no memory */
void answer_cache_free(struct answer_cache *cache);

/* Writes the sales that end after from_ms and start before to_ms. Called without a lock of the cache
 * that others wait for. */
typedef void answer_cache_write(void *context, int64_t from_ms, int64_t to_ms, struct out *out);

/* *ret_answer is referenced for the caller: http_hold_release(). ERR_NOMEM, ERR_FULL. */
int answer_cache_sales(struct answer_cache *cache, struct catalog *catalog, int64_t now_ms,
                       int64_t from_ms, int64_t to_ms, answer_cache_write *write, void *context,
                       struct answer **ret_answer);

/* Writes the text of /metrics. */
typedef void answer_metrics_render(const struct metrics *metrics, struct out *body);
/* The text of /metrics. The first requests of a second get a fresh one each, the others the newest of
 * that second. */
int answer_cache_metrics(struct answer_cache *cache, const struct metrics *metrics,
                         answer_metrics_render *render, int64_t now_ms, struct answer **ret_answer);

#endif
