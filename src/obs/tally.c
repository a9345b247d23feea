/* See tally.h. */
#include "obs/tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

int tally_book_init(struct tally_book *book, uint32_t loops)
{
    CHECK(loops <= TALLY_LOOPS);
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

struct tally_row *tally_row(struct tally_book *book, uint32_t loop, uint64_t sale, int64_t now_ms)
{
    struct tally_row *rows = book->rows[loop];
    for (unsigned i = 0; i < TALLY_SALES; i++) {
        struct tally_row *row = &rows[(sale + i) % TALLY_SALES];
        uint64_t known = atomic_load_explicit(&row->sale, memory_order_relaxed);
        if (known == 0) {
            atomic_store_explicit(&row->since_ms, now_ms, memory_order_relaxed);
            atomic_store_explicit(&row->sale, sale, memory_order_release);
            return row;
        }
        if (known == sale) {
            return row;
        }
    }
    return NULL;
}

/* ---- reading ---- */

static const struct tally_row *find(const struct tally_book *book, uint32_t loop, uint64_t sale)
{
    const struct tally_row *rows = book->rows[loop];
    for (unsigned i = 0; i < TALLY_SALES; i++) {
        const struct tally_row *row = &rows[(sale + i) % TALLY_SALES];
        uint64_t known = atomic_load_explicit(&row->sale, memory_order_acquire);
        if (known == sale || known == 0) {
            return known == sale ? row : NULL;
        }
    }
    return NULL;
}

static void add_row(struct tally_sum *sum, const struct tally_row *row)
{
    int64_t since_ms = atomic_load_explicit(&row->since_ms, memory_order_relaxed);
    sum->since_ms = sum->since_ms == 0 || since_ms < sum->since_ms ? since_ms : sum->since_ms;
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

/* The book is locked. */
static struct tally_sum *base_of(struct tally_book *book, uint64_t sale, bool make)
{
    for (unsigned i = 0; i < TALLY_SALES; i++) {
        struct tally_sum *base = &book->base[(sale + i) % TALLY_SALES];
        if (base->sale == 0 && make) {
            base->sale = sale;
        }
        if (base->sale == sale || base->sale == 0) {
            return base->sale == sale ? base : NULL;
        }
    }
    return NULL;
}

void tally_read(struct tally_book *book, uint64_t sale, struct tally_sum *ret_sum)
{
    memset(ret_sum, 0, sizeof(*ret_sum));
    CHECK(pthread_mutex_lock(&book->lock) == 0);
    const struct tally_sum *base = base_of(book, sale, false);
    if (base != NULL) {
        memcpy(ret_sum, base, sizeof(*ret_sum));
    }
    CHECK(pthread_mutex_unlock(&book->lock) == 0);
    ret_sum->sale = sale;
    for (uint32_t i = 0; i < book->loops; i++) {
        const struct tally_row *row = find(book, i, sale);
        if (row != NULL) {
            add_row(ret_sum, row);
        }
    }
}

/* The natural logarithm of a number from 1 on, exact to what is needed here. */
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
        estimate = m * logarithm(m / empty); /* few: how many classes are empty tells more */
    }
    return (uint64_t)(estimate + 0.5);
}

size_t tally_sales(struct tally_book *book, uint64_t *ret_sales, size_t max)
{
    size_t count = 0;
    CHECK(pthread_mutex_lock(&book->lock) == 0);
    for (unsigned i = 0; i < TALLY_SALES && count < max; i++) {
        if (book->base[i].sale != 0) {
            ret_sales[count++] = book->base[i].sale;
        }
    }
    CHECK(pthread_mutex_unlock(&book->lock) == 0);
    for (uint32_t loop = 0; loop < book->loops; loop++) {
        for (unsigned i = 0; i < TALLY_SALES; i++) {
            uint64_t sale = atomic_load_explicit(&book->rows[loop][i].sale, memory_order_acquire);
            bool known = sale == 0;
            for (size_t k = 0; k < count && !known; k++) {
                known = ret_sales[k] == sale;
            }
            if (!known && count < max) {
                ret_sales[count++] = sale;
            }
        }
    }
    return count;
}

/* ---- keeping ---- */

bool tally_restore(struct tally_book *book, const struct tally_sum *sum)
{
    CHECK(pthread_mutex_lock(&book->lock) == 0);
    struct tally_sum *base = sum->sale != 0 ? base_of(book, sum->sale, true) : NULL;
    if (base != NULL) {
        memcpy(base, sum, sizeof(*base));
    }
    CHECK(pthread_mutex_unlock(&book->lock) == 0);
    return base != NULL;
}

void tally_peak(struct tally_book *book, uint64_t sale, uint64_t per_s, int64_t at_ms)
{
    CHECK(pthread_mutex_lock(&book->lock) == 0);
    struct tally_sum *base = base_of(book, sale, true);
    if (base != NULL && per_s > base->peak_per_s) {
        base->peak_per_s = per_s;
        base->peak_at_ms = at_ms;
    }
    CHECK(pthread_mutex_unlock(&book->lock) == 0);
}

void tally_begin(struct tally_book *book, uint64_t sale, int64_t now_ms)
{
    CHECK(pthread_mutex_lock(&book->lock) == 0);
    struct tally_sum *base = base_of(book, sale, true);
    if (base != NULL && base->since_ms == 0) {
        base->since_ms = now_ms;
    }
    CHECK(pthread_mutex_unlock(&book->lock) == 0);
}

uint64_t tally_asked(struct tally_book *book, uint64_t sale)
{
    CHECK(pthread_mutex_lock(&book->lock) == 0);
    const struct tally_sum *base = base_of(book, sale, false);
    uint64_t asked = base != NULL ? base->counts[TALLY_ASKED] : 0;
    CHECK(pthread_mutex_unlock(&book->lock) == 0);
    for (uint32_t i = 0; i < book->loops; i++) {
        const struct tally_row *row = find(book, i, sale);
        asked +=
            row != NULL ? atomic_load_explicit(&row->counts[TALLY_ASKED], memory_order_relaxed) : 0;
    }
    return asked;
}
