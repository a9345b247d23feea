/*
 * What buyers asked of each sale, counted by the process that was asked: requests, refusals by reason,
 * how many different buyers, how long a 202 took. The ledger knows who got something; this is all
 * that anybody knows of who did not.
 *
 * Each loop has rows of its own and is the only one that writes to them: counting is a load, an add and
 * a store, no lock. Who reads sums over the loops. Different buyers are estimated (a register for each
 * of 4096 classes of ids, as HyperLogLog does): exact to a few for small numbers, within about 3 % for
 * large ones; a buyer who asks at several processes is counted by each.
 *
 * What was counted before is the book's base: app/tallying.c keeps it in a file across restarts.
 */
#ifndef SLUICE_OBS_TALLY_H
#define SLUICE_OBS_TALLY_H

#include <pthread.h>

#include "obs/metrics.h"

/* Sales that one process counts; those beyond it are not counted, and their reports say so. */
#define TALLY_SALES 256
#define TALLY_REGISTERS 4096
#define TALLY_LOOPS 64

enum tally_count { TALLY_ASKED, TALLY_TICKETS, TALLY_ACCEPTED, TALLY_REPEATED, TALLY_COUNT };

/* One sale at one loop. All zero: free. */
struct tally_row {
    _Atomic uint64_t sale;
    _Atomic int64_t since_ms;
    _Atomic uint64_t counts[TALLY_COUNT];
    _Atomic uint64_t refused[METRICS_REFUSALS_MAX];
    _Atomic uint8_t seen[TALLY_REGISTERS];
    struct hist answered; /* microseconds from a buy read to its 202 written */
};

/* One sale over all loops, and what was counted before. */
struct tally_sum {
    uint64_t sale;
    int64_t since_ms; /* 0: nothing was counted */
    uint64_t counts[TALLY_COUNT];
    uint64_t refused[METRICS_REFUSALS_MAX];
    uint64_t peak_per_s; /* most requests within a second, as looked at once a second */
    int64_t peak_at_ms;
    uint8_t seen[TALLY_REGISTERS];
    struct hist answered;
};

struct tally_book {
    uint32_t loops;
    struct tally_row *rows[TALLY_LOOPS]; /* TALLY_SALES of each loop */
    pthread_mutex_t lock;                /* of base */
    struct tally_sum *base;              /* TALLY_SALES; counts from before, and peaks */
};

/* ERR_NOMEM. */
int tally_book_init(struct tally_book *book, uint32_t loops);
void tally_book_done(struct tally_book *book);

/* The loop's own row of a sale; NULL: there is no room for another. */
struct tally_row *tally_row(struct tally_book *book, uint32_t loop, uint64_t sale, int64_t now_ms);

/* The rest of this block: the row's loop only. */
static inline void tally_add(struct tally_row *row, enum tally_count which)
{
    metrics_bump(&row->counts[which], 1);
}
static inline void tally_refuse(struct tally_row *row, unsigned refusal)
{
    CHECK(refusal < METRICS_REFUSALS_MAX);
    metrics_bump(&row->refused[refusal], 1);
}
static inline void tally_see(struct tally_row *row, uint64_t user)
{
    uint64_t mixed = user + 0x9e3779b97f4a7c15ULL;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebULL;
    mixed ^= mixed >> 31;
    _Atomic uint8_t *seen = &row->seen[mixed % TALLY_REGISTERS];
    uint8_t rank = (uint8_t)(1 + __builtin_ctzll(mixed >> 12 | 1ULL << 51));
    if (atomic_load_explicit(seen, memory_order_relaxed) < rank) {
        atomic_store_explicit(seen, rank, memory_order_relaxed);
    }
}

/* Any thread. */
void tally_read(struct tally_book *book, uint64_t sale, struct tally_sum *ret_sum);
uint64_t tally_buyers(const struct tally_sum *sum);
/* Sales that anything was counted of, up to max. */
size_t tally_sales(struct tally_book *book, uint64_t *ret_sales, size_t max);
/* For whoever keeps the book: what was counted before this process began; and a peak. False: no room. */
/* Counting of the sale begins now, if it has not; whether anybody asks or not. */
void tally_begin(struct tally_book *book, uint64_t sale, int64_t now_ms);
/* How many requests there were; cheaper than all of it. */
uint64_t tally_asked(struct tally_book *book, uint64_t sale);
bool tally_restore(struct tally_book *book, const struct tally_sum *sum);
void tally_peak(struct tally_book *book, uint64_t sale, uint64_t per_s, int64_t at_ms);

#endif
