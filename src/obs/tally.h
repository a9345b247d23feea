/*
 * What buyers asked of each sale, counted by the process that was asked: requests, refusals by
 * reason, how many different buyers, how long a 202 took. The ledger knows who got something; this
 * is all that anybody knows of who did not.
 *
 * Each loop has rows of its own and is the only one that writes to them: counting is a load, an add
 * and a store, no lock. Who reads sums over the loops. Different buyers are estimated (a register
 * for each of 4096 classes of ids, as HyperLogLog does): exact to a few for small numbers, within
 * about 3 % for large ones; a buyer who asks at several processes is counted by each.
 *
 * Requests within a second are exact: a loop counts them by the second of the clock, for the last
 * TALLY_SECONDS, and whoever keeps the book looks through those (tally_look), again and again, so
 * that a late look finds what a punctual one would have found.
 *
 * The book's base is the list of the sales that are counted, with what was counted of each before
 * this process began: app/tally_thread.c keeps it in a file across restarts. It has room for
 * TALLY_SALES. Where it is full, the oldest sale that is over makes room for a new one, and nothing
 * more is known of it; where none is over, the new one is not counted. A loop's row whose sale is
 * not in the base any more is free for another. That a loop takes a row, that a sale leaves the
 * base and that somebody reads are kept apart by the book's lock; it is held for copies and sums
 * only.
 */
#ifndef SLUICE_OBS_TALLY_H
#define SLUICE_OBS_TALLY_H

#include <pthread.h>

#include "base/hash.h"
#include "base/limits.h"
#include "obs/metrics.h"

enum tally_count { TALLY_ASKED, TALLY_TICKETS, TALLY_ACCEPTED, TALLY_REPEATED, TALLY_COUNT };

/* One sale at one loop. All zero: never used. */
struct tally_row {
    _Atomic uint64_t sale;
    _Atomic uint64_t counts[TALLY_COUNT];
    _Atomic uint64_t refused[METRICS_REFUSALS_MAX];
    _Atomic uint64_t seconds[TALLY_SECONDS]; /* the second above, its requests in the low 32 bits */
    _Atomic uint8_t seen[TALLY_REGISTERS];
    struct hist answered; /* microseconds from a buy read to its 202 written */
};

/* One sale over all loops, and what was counted before. */
struct tally_sum {
    uint64_t sale;
    int64_t since_ms; /* 0: nothing was counted */
    uint64_t counts[TALLY_COUNT];
    uint64_t refused[METRICS_REFUSALS_MAX];
    uint64_t peak_per_s; /* most requests within a second of the clock */
    int64_t peak_at_ms;  /* which began then */
    uint8_t seen[TALLY_REGISTERS];
    struct hist answered;
};

struct tally_base {
    bool over; /* may make room */
    struct tally_sum sum;
};

struct tally_book {
    uint32_t loops;
    struct tally_row *rows[LOOPS_MAX]; /* TALLY_SALES of each loop */
    pthread_mutex_t lock;              /* of base, and of whose a row is */
    struct tally_base *base;           /* TALLY_SALES; counts from before, and peaks */
};

/* ERR_NOMEM. */
int tally_book_init(struct tally_book *book, uint32_t loops);
void tally_book_done(struct tally_book *book);
/* What a book of so many loops takes at most; touched as sales come. */
size_t tally_book_bytes(uint32_t loops);

/*
 * The loop's own row of a sale that is not over; NULL: there is no room for another. A row that was
 * had before may be another sale's since: tally_is says whether it still is this one's. This, and
 * the rest of this block: the row's loop only.
 */
struct tally_row *tally_row(struct tally_book *book, uint32_t loop, uint64_t sale, int64_t now_ms);
static inline bool tally_is(const struct tally_row *row, uint64_t sale)
{
    return atomic_load_explicit(&row->sale, memory_order_relaxed) == sale;
}
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
    uint64_t mixed = hash_mix(user + 0x9e3779b97f4a7c15ULL);
    _Atomic uint8_t *seen = &row->seen[mixed % TALLY_REGISTERS];
    uint8_t rank = (uint8_t)(1 + __builtin_ctzll(mixed >> 12 | 1ULL << 51));
    if (atomic_load_explicit(seen, memory_order_relaxed) < rank) {
        atomic_store_explicit(seen, rank, memory_order_relaxed);
    }
}
/* A request of a buyer. */
static inline void tally_ask(struct tally_row *row, uint64_t user, int64_t now_ms)
{
    uint64_t second = (uint32_t)(now_ms / 1000);
    _Atomic uint64_t *place = &row->seconds[second % TALLY_SECONDS];
    uint64_t before = atomic_load_explicit(place, memory_order_relaxed);
    atomic_store_explicit(place, before >> 32 == second ? before + 1 : second << 32 | 1,
                          memory_order_relaxed);
    tally_add(row, TALLY_ASKED);
    tally_see(row, user);
}

/* Any thread. A sale that is not in the book: all zero but its id. */
void tally_read(struct tally_book *book, uint64_t sale, struct tally_sum *ret_sum);
uint64_t tally_buyers(const struct tally_sum *sum);
/* The sales in the book, up to max. */
size_t tally_sales(struct tally_book *book, uint64_t *ret_sales, size_t max);

/* For whoever keeps the book. */
/* Counting of the sale begins now, if it has not; whether anybody asks or not. */
void tally_begin(struct tally_book *book, uint64_t sale, int64_t now_ms);
/* Whether the sale may make room for another. */
void tally_over(struct tally_book *book, uint64_t sale, bool over);
/* Notes the busiest second of each sale; at least once in TALLY_SECONDS. */
void tally_look(struct tally_book *book, int64_t now_ms);
/* What was counted before this process began. False: no room. */
bool tally_restore(struct tally_book *book, const struct tally_sum *sum);

#endif
