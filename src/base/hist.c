/*
 * The histogram of hist.h. The bucket of a value follows from the position of its highest bit and
 * the five bits after it. Nothing here can fail. Invariant: the sum of all buckets is the number of
 * adds.
 */
#include "base/hist.h"

#include "base/check.h"

static uint64_t load(const _Atomic uint64_t *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

static void store(_Atomic uint64_t *at, uint64_t value)
{
    atomic_store_explicit(at, value, memory_order_relaxed);
}

static unsigned bucket_of(uint64_t value)
{
    if (value < HIST_SUBS) {
        return (unsigned)value;
    }
    unsigned high = 63U - (unsigned)__builtin_clzll(value);
    if (high >= HIST_MAX_BITS) {
        return HIST_BUCKETS - 1;
    }
    unsigned shift = high - HIST_SUB_BITS;
    return shift * HIST_SUBS + (unsigned)(value >> shift);
}

/* The largest value that falls into a bucket. */
static uint64_t bucket_top(unsigned bucket)
{
    if (bucket < HIST_SUBS) {
        return bucket;
    }
    unsigned shift = bucket / HIST_SUBS - 1;
    uint64_t lead = bucket - shift * HIST_SUBS;
    return ((lead + 1) << shift) - 1;
}

void hist_clear(struct hist *hist)
{
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        store(&hist->counts[i], 0);
    }
    store(&hist->sum, 0);
    store(&hist->max, 0);
}

void hist_add(struct hist *hist, uint64_t value)
{
    _Atomic uint64_t *count = &hist->counts[bucket_of(value)];
    store(count, load(count) + 1);
    store(&hist->sum, load(&hist->sum) + value);
    if (value > load(&hist->max)) {
        store(&hist->max, value);
    }
}

void hist_merge(struct hist *into, const struct hist *from)
{
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        store(&into->counts[i], load(&into->counts[i]) + load(&from->counts[i]));
    }
    store(&into->sum, load(&into->sum) + load(&from->sum));
    if (load(&from->max) > load(&into->max)) {
        store(&into->max, load(&from->max));
    }
}

void hist_subtract(struct hist *now, const struct hist *before)
{
    uint64_t top = 0;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        uint64_t left = load(&now->counts[i]) - load(&before->counts[i]);
        store(&now->counts[i], left);
        /* The last bucket has no upper edge. */
        top = left == 0 ? top : i < HIST_BUCKETS - 1 ? bucket_top(i) : load(&now->max);
    }
    store(&now->sum, load(&now->sum) - load(&before->sum));
    store(&now->max, top < load(&now->max) ? top : load(&now->max));
}

static uint64_t count_first(const struct hist *hist, unsigned buckets)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < buckets; i++) {
        count += load(&hist->counts[i]);
    }
    return count;
}

uint64_t hist_count(const struct hist *hist)
{
    return count_first(hist, HIST_BUCKETS);
}

uint64_t hist_sum(const struct hist *hist)
{
    return load(&hist->sum);
}

uint64_t hist_max(const struct hist *hist)
{
    return load(&hist->max);
}

uint64_t hist_count_below(const struct hist *hist, unsigned bits)
{
    CHECK(bits < HIST_MAX_BITS);
    return count_first(hist, bucket_of(1ULL << bits));
}

uint64_t hist_quantile(const struct hist *hist, double q)
{
    CHECK(q >= 0.0 && q <= 1.0);
    uint64_t count = hist_count(hist);
    uint64_t max = hist_max(hist);
    /* The rank of the value, from 1, rounded up: the median of two values is the lower one. */
    double exact = q * (double)count;
    uint64_t rank = (uint64_t)exact;
    rank += (double)rank < exact || rank == 0 ? 1 : 0;
    uint64_t seen = 0;
    for (unsigned i = 0; i < HIST_BUCKETS - 1; i++) {
        seen += load(&hist->counts[i]);
        if (seen >= rank) {
            return bucket_top(i) < max ? bucket_top(i) : max;
        }
    }
    return max;
}
