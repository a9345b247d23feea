/* See tally.h. */
#include "obs/tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

int tally_book_init(struct tally_book *book, uint32_t loops)
{
    CHECK(loops <= LOOPS_MAX);
    *book = (struct tally_book){.loops = loops};
    CHECK(pthread_mutex_init(&book->lock, NULL) == 0);
    book->base = calloc(TALLY_SALES, sizeof(*book->base));
    bool made = book->base != NULL;
    for (uint32_t i = 0; i < loops && made; i++) {
        book->rows[i] = calloc(TALLY_SALES, sizeof(*book->rows[i]));
        made = book->rows[i] != NULL;
    }
    if (!made) {
        tally_book_done(book);
        return ERR_NOMEM;
    }
    return 0;
}

void tally_book_done(struct tally_book *book)
{
    for (uint32_t i = 0; i < book->loops; i++) {
        free(book->rows[i]);
    }
    free(book->base);
    (void)pthread_mutex_destroy(&book->lock);
    *book = (struct tally_book){.loops = 0};
}

size_t tally_book_bytes(uint32_t loops)
{
    return TALLY_SALES * (sizeof(struct tally_base) + loops * sizeof(struct tally_row));
}

/* ---- places; the book is locked ---- */

/* With make: if there is no room, takes the place of the oldest sale that is over. A place is never
 * emptied, only replaced, so a search may stop at the first unused one. */
static struct tally_base *base_of(struct tally_book *book, uint64_t sale, bool make)
{
    struct tally_base *oldest = NULL;
    for (unsigned i = 0; i < TALLY_SALES; i++) {
        struct tally_base *base = &book->base[(sale + i) % TALLY_SALES];
        if (base->sum.sale == sale) {
            return base;
        }
        if (base->sum.sale == 0) {
            base->sum.sale = make ? sale : 0;
            return make ? base : NULL;
        }
        if (base->over && (oldest == NULL || base->sum.since_ms < oldest->sum.since_ms)) {
            oldest = base;
        }
    }
    if (!make || oldest == NULL) {
        return NULL;
    }
    memset(oldest, 0, sizeof(*oldest));
    oldest->sum.sale = sale;
    return oldest;
}

static struct tally_base *begin(struct tally_book *book, uint64_t sale, int64_t now_ms)
{
    struct tally_base *base = base_of(book, sale, true);
    if (base != NULL && base->sum.since_ms == 0) {
        base->sum.since_ms = now_ms;
    }
    return base;
}

/* A row that was never used, or whose sale has left the book. There always is one: the book holds
 * this sale and at most TALLY_SALES - 1 others. */
static struct tally_row *free_row(struct tally_book *book, uint32_t loop, uint64_t sale)
{
    for (unsigned i = 0; i < TALLY_SALES; i++) {
        struct tally_row *row = &book->rows[loop][(sale + i) % TALLY_SALES];
        uint64_t known = atomic_load_explicit(&row->sale, memory_order_relaxed);
        if (known == 0 || base_of(book, known, false) == NULL) {
            return row;
        }
    }
    CHECK(false);
    return NULL;
}

static struct tally_row *find(const struct tally_book *book, uint32_t loop, uint64_t sale)
{
    struct tally_row *rows = book->rows[loop];
    for (unsigned i = 0; i < TALLY_SALES; i++) {
        struct tally_row *row = &rows[(sale + i) % TALLY_SALES];
        uint64_t known = atomic_load_explicit(&row->sale, memory_order_relaxed);
        if (known == sale || known == 0) {
            return known == sale ? row : NULL;
        }
    }
    return NULL;
}

struct tally_row *tally_row(struct tally_book *book, uint32_t loop, uint64_t sale, int64_t now_ms)
{
    struct tally_row *row =
        find(book, loop, sale); /* without the lock: only this loop assigns its rows */
    if (row != NULL) {
        return row;
    }
    CHECK(pthread_mutex_lock(&book->lock) == 0);
    if (begin(book, sale, now_ms) != NULL) {
        row = free_row(book, loop, sale);
        memset(row, 0, sizeof(*row));
        atomic_store_explicit(&row->sale, sale, memory_order_relaxed);
    }
    CHECK(pthread_mutex_unlock(&book->lock) == 0);
    return row;
}

/* ---- reading ---- */

static void add_row(struct tally_sum *sum, const struct tally_row *row)
{
    for (unsigned i = 0; i < TALLY_COUNT; i++) {
        sum->counts[i] += atomic_load_explicit(&row->counts[i], memory_order_relaxed);
    }
    for (unsigned i = 0; i < METRICS_REFUSALS_MAX; i++) {
        sum->refused[i] += atomic_load_explicit(&row->refused[i], memory_order_relaxed);
    }
    for (unsigned i = 0; i < TALLY_REGISTERS; i++) {
        uint8_t seen = atomic_load_explicit(&row->seen[i], memory_order_relaxed);
        sum->seen[i] = seen > sum->seen[i] ? seen : sum->seen[i];
    }
    hist_merge(&sum->answered, &row->answered);
}

void tally_read(struct tally_book *book, uint64_t sale, struct tally_sum *ret_sum)
{
    memset(ret_sum, 0, sizeof(*ret_sum));
    ret_sum->sale = sale;
    CHECK(pthread_mutex_lock(&book->lock) == 0);
    const struct tally_base *base = base_of(book, sale, false);
    if (base != NULL) {
        memcpy(ret_sum, &base->sum, sizeof(*ret_sum));
    }
    for (uint32_t i = 0; base != NULL && i < book->loops; i++) {
        const struct tally_row *row = find(book, i, sale);
        if (row != NULL) {
            add_row(ret_sum, row);
        }
    }
    CHECK(pthread_mutex_unlock(&book->lock) == 0);
}

/* Natural logarithm of a number from 1 on, precise enough for this use. */
static double logarithm(double x)
{
    double twos = 0;
    while (x >= 2) {
        x /= 2;
        twos++;
    }
    double y = (x - 1) / (x + 1);
    double square = y * y;
    double sum = 0;
    double power = y;
    for (int k = 1; k < 20; k += 2) {
        sum += power / k;
        power *= square;
    }
    return twos * 0.69314718055994531 + 2 * sum;
}

uint64_t tally_buyers(const struct tally_sum *sum)
{
    double m = TALLY_REGISTERS;
    double shares = 0;
    unsigned empty = 0;
    for (unsigned i = 0; i < TALLY_REGISTERS; i++) {
        shares += 1.0 / (double)(1ULL << (sum->seen[i] < 63 ? sum->seen[i] : 63));
        empty += sum->seen[i] == 0;
    }
    double estimate = 0.7213 / (1 + 1.079 / m) * m * m / shares;
    if (estimate <= 2.5 * m && empty > 0) {
        estimate = m * logarithm(m / empty); /* small numbers: count the empty classes */
    }
    return (uint64_t)(estimate + 0.5);
}

size_t tally_sales(struct tally_book *book, uint64_t *ret_sales, size_t max)
{
    size_t count = 0;
    CHECK(pthread_mutex_lock(&book->lock) == 0);
    for (unsigned i = 0; i < TALLY_SALES && count < max; i++) {
        if (book->base[i].sum.sale != 0) {
            ret_sales[count++] = book->base[i].sum.sale;
        }
    }
    CHECK(pthread_mutex_unlock(&book->lock) == 0);
    return count;
}

/* ---- keeping ---- */

void tally_begin(struct tally_book *book, uint64_t sale, int64_t now_ms)
{
    CHECK(pthread_mutex_lock(&book->lock) == 0);
    (void)begin(book, sale, now_ms);
    CHECK(pthread_mutex_unlock(&book->lock) == 0);
}

void tally_over(struct tally_book *book, uint64_t sale, bool over)
{
    CHECK(pthread_mutex_lock(&book->lock) == 0);
    struct tally_base *base = base_of(book, sale, false);
    if (base != NULL) {
        base->over = over;
    }
    CHECK(pthread_mutex_unlock(&book->lock) == 0);
}

bool tally_restore(struct tally_book *book, const struct tally_sum *sum)
{
    CHECK(pthread_mutex_lock(&book->lock) == 0);
    struct tally_base *base = sum->sale != 0 ? base_of(book, sum->sale, true) : NULL;
    if (base != NULL) {
        memcpy(&base->sum, sum, sizeof(base->sum));
    }
    CHECK(pthread_mutex_unlock(&book->lock) == 0);
    return base != NULL;
}

/* The book is locked. The current second is included: its count can only grow. */
static void look_at(struct tally_book *book, struct tally_base *base, uint64_t now_s)
{
    uint64_t asked[TALLY_SECONDS] = {0};
    for (uint32_t loop = 0; loop < book->loops; loop++) {
        const struct tally_row *row = find(book, loop, base->sum.sale);
        for (unsigned i = 0; row != NULL && i < TALLY_SECONDS; i++) {
            uint64_t place = atomic_load_explicit(&row->seconds[i], memory_order_relaxed);
            uint64_t ago = now_s - (place >> 32);
            asked[i] += ago < TALLY_SECONDS ? (uint32_t)place : 0;
        }
    }
    for (unsigned i = 0; i < TALLY_SECONDS; i++) {
        if (asked[i] > base->sum.peak_per_s) {
            uint64_t ago = (now_s - i) % TALLY_SECONDS;
            base->sum.peak_per_s = asked[i];
            base->sum.peak_at_ms = (int64_t)(now_s - ago) * 1000;
        }
    }
}

void tally_look(struct tally_book *book, int64_t now_ms)
{
    for (unsigned i = 0; i < TALLY_SALES; i++) {
        CHECK(pthread_mutex_lock(&book->lock) == 0); /* for each sale: a loop then waits for one at
                                                      * most */
        if (book->base[i].sum.sale != 0) {
            look_at(book, &book->base[i], (uint64_t)(now_ms / 1000));
        }
        CHECK(pthread_mutex_unlock(&book->lock) == 0);
    }
}
