/*
 * A log-linear histogram of whole numbers (microseconds, sizes). Every power of two is divided into
 * 32 equal buckets, so a quantile is at most 1/32 too high at any magnitude. The memory is fixed.
 * Values from 2^40 up (12 days in microseconds) share the last bucket.
 *
 * One thread adds. Any thread may read at the same time; it sees each bucket as it was at some
 * moment. The counters are relaxed atomics, loaded and stored without a lock: an add costs as much
 * as plain memory, and two threads must not add to the same histogram.
 */
#ifndef SLUICE_BASE_HIST_H
#define SLUICE_BASE_HIST_H

#include <stdatomic.h>
#include <stdint.h>

#define HIST_SUB_BITS 5
#define HIST_SUBS (1U << HIST_SUB_BITS)
#define HIST_MAX_BITS 40
/* Values below 32 have a bucket each; each of the 35 powers of two above has 32: 1152, 9 KiB. */
#define HIST_BUCKETS (HIST_SUBS + (HIST_MAX_BITS - HIST_SUB_BITS) * HIST_SUBS)

/* All zero is an empty histogram. */
struct hist {
    _Atomic uint64_t counts[HIST_BUCKETS];
    _Atomic uint64_t sum;
    _Atomic uint64_t max;
};

void hist_clear(struct hist *hist);
void hist_add(struct hist *hist, uint64_t value);
/* Adds the contents of `from`, whose thread may be adding, to `into`, which the caller owns. */
void hist_merge(struct hist *into, const struct hist *from);

/* Subtracts `before`, an earlier state of the same histogram, from `now`. What is left was added in
 * between. Its maximum is the upper edge of the highest bucket left, or the largest value ever seen
 * if that is lower. */
void hist_subtract(struct hist *now, const struct hist *before);

uint64_t hist_count(const struct hist *hist);
uint64_t hist_sum(const struct hist *hist);
uint64_t hist_max(const struct hist *hist);
/* How many values were below 2^bits. Exact, because powers of two are edges of buckets. */
uint64_t hist_count_below(const struct hist *hist, unsigned bits);
/* The value that a share q (0 to 1) of all values do not exceed: the upper edge of its bucket, or
 * the largest value seen if that is lower. 0 if the histogram is empty. */
uint64_t hist_quantile(const struct hist *hist, double q);

#endif
