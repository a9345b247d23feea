/*
 * Counts of buyers' requests for each sale, by the process that answered them: requests, refusals
 * by reason, distinct buyers, time to the 202. The ledger knows the buyers who got an order; only
 * these counts know the others.
 *
 * Each loop has its own rows and is the only writer: counting is a load, an add and a store,
 * without a lock. Readers sum over the loops. Distinct buyers are estimated with HyperLogLog (4096
 * registers): nearly exact for small numbers, within about 3 % for large ones. A buyer who uses
 * several processes is counted by each.
 *
 * Requests per second are exact. A loop counts them by the second of the clock, for the last
 * TALLY_SECONDS. tally_look() reads those again and again, so a late look finds the same as a
 * punctual one.
 *
 * The book's base is the list of counted sales, with the counts from before this process started.
 * app/tally_thread.c keeps it in a file. It has room for TALLY_SALES. When it is full, the oldest
 * sale that is over is dropped for a new one; if none is over, the new one is not counted. A loop's
 * row whose sale has left the base is free. The book's lock covers: a loop takes a row, a sale
 * leaves the base, somebody reads. It is held for copies and sums only.
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

/* One sale over all loops, with the earlier counts. */
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
    bool over; /* may be dropped for another */
    struct tally_sum sum;
};

struct tally_book {
    uint32_t loops;
    struct tally_row *rows[LOOPS_MAX]; /* TALLY_SALES for each loop */
    pthread_mutex_t lock;              /* guards base, and the assignment of rows to sales */
    struct tally_base *base;           /* TALLY_SALES; earlier counts, and peaks */
};

/* ERR_NOMEM. */
int tally_book_init(struct tally_book *book, uint32_t loops);
void tally_book_done(struct tally_book *book);
/* The most memory a book of this many loops takes; used as sales come. */
size_t tally_book_bytes(uint32_t loops);

/*
 * The loop's row of a sale that is not over; NULL: no room. A row from an earlier call may belong
 * to another sale by now; tally_is tells. This and the rest of the block: only the row's loop.
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

/* Any thread. For a sale that is not in the book, everything but the id is zero. */
void tally_read(struct tally_book *book, uint64_t sale, struct tally_sum *ret_sum);
uint64_t tally_buyers(const struct tally_sum *sum);
/* The sales in the book, up to max. */
size_t tally_sales(struct tally_book *book, uint64_t *ret_sales, size_t max);

/* For the thread that keeps the book. */
/* Starts counting the sale now, even without requests, unless it is counted already. */
void tally_begin(struct tally_book *book, uint64_t sale, int64_t now_ms);
/* Whether the sale may be dropped for another. */
void tally_over(struct tally_book *book, uint64_t sale, bool over);
/* Updates the busiest second of each sale. Call it at least once in TALLY_SECONDS. */
void tally_look(struct tally_book *book, int64_t now_ms);
/* Adds the counts from before this process started. False: no room. */
bool tally_restore(struct tally_book *book, const struct tally_sum *sum);

#endif
