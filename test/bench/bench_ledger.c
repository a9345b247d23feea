/*
 * What booking and expiring an order cost in the SQLite ledger: CPU microseconds (user and system,
 * checkpoints included) and orders per second of wall time, for several batch sizes, each on a
 * fresh file. Buyers come scattered over a hundred million, none twice, which is the worst case
 * for an item of one per buyer: every order lands in another place of three trees.
 *
 *   bench_ledger [orders per size, default 200000] [folder, default a new one under /tmp]
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "backend/sqlite/ledger_sqlite.h"
#include "base/check.h"

#define BATCH_MAX 20000
#define USERS (1ULL << 27)
#define NOW_MS 1700000000000LL

static struct ledger_op *ops[BATCH_MAX];

static double cpu_us(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return 1e6 * (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static double wall_us(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static void submit(struct ledger *ledger, struct ledger_batch *batch)
{
    (void)ledger_write(ledger, batch);
    if (batch->error != 0) {
        (void)fprintf(stderr, "bench_ledger: %s\n", ledger_sqlite_error(ledger));
        _exit(1);
    }
}

/* A warmed sale with one item of `limit` each. */
static void make_sale(struct ledger *ledger, uint32_t limit)
{
    struct item_row item = {.id = 1, .price_cents = 9900, .limit_per_user = limit, .name = "item"};
    item.total = STOCK_MAX;
    struct sale_row sale = {.id = 1,
                            .pay_within_s = 600,
                            .starts_at_ms = NOW_MS,
                            .ends_at_ms = NOW_MS + 3600000,
                            .name = "sale",
                            .currency = "CNY",
                            .items_count = 1,
                            .items = &item};
    ops[0]->kind = LEDGER_SALE_CREATE;
    ops[0]->sale_in = &sale;
    ops[1]->kind = LEDGER_SALE_MOVE;
    ops[1]->sale_id = 1;
    ops[1]->target = SALE_OPEN;
    submit(ledger, &(struct ledger_batch){.ops = ops, .count = 2, .now_ms = NOW_MS});
    sale_row_free(ops[0]->sale);
    sale_row_free(ops[1]->sale);
}

static void fill(struct ledger_op *op, uint32_t limit, uint32_t n)
{
    uint64_t user = 1 + n * 87654321ULL % USERS; /* odd: a permutation */
    int64_t now_ms = NOW_MS + n / 50;
    struct order_id id = limit == 1 ? order_id_once(1, user, 0) : order_id_fresh(1, now_ms, n);
    op->kind = LEDGER_BOOK;
    op->lsn = n;
    op->command = (struct gate_command){
        .kind = GATE_RESERVE, .now_ms = now_ms, .id = id, .user = user, .item = 1, .qty = 1};
}

/* The n-th order again, now to be expired. */
static void fill_expiry(struct ledger_op *op, uint32_t limit, uint32_t n)
{
    fill(op, limit, n);
    op->kind = LEDGER_EXPIRE;
    op->id = op->command.id;
}

/* All orders once, in batches; prints what one costs. */
static void pass(struct ledger *ledger, const char *what, uint32_t batch_size, uint32_t limit,
                 uint32_t total, int64_t now_ms)
{
    double cpu = 0;
    double wall = 0;
    uint32_t n = 0;
    while (n < total) {
        for (uint32_t i = 0; i < batch_size; i++) {
            n++;
            if (what[0] == 'b') {
                fill(ops[i], limit, n);
            } else {
                fill_expiry(ops[i], limit, n);
            }
        }
        double cpu_before = cpu_us();
        double wall_before = wall_us();
        submit(ledger,
               &(struct ledger_batch){
                   .ops = ops, .count = batch_size, .now_ms = now_ms + n / 50, .booked_lsn = n});
        cpu += cpu_us() - cpu_before;
        wall += wall_us() - wall_before;
        for (uint32_t i = 0; i < batch_size; i++) {
            CHECK(ops[i]->refusal == REFUSAL_NONE && !ops[i]->repeated);
        }
    }
    printf("limit %u  batch %5u  %-6s  %6.2f us of CPU an order  %8.0f orders/s\n", limit,
           batch_size, what, cpu / n, 1e6 * n / wall);
}

static void run(const char *folder, uint32_t batch_size, uint32_t limit, uint32_t total)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/ledger-%u-%u.db", folder, limit, batch_size);
    struct ledger *ledger;
    if (ledger_sqlite_open(path, READ_WRITE, &ledger) != 0) {
        (void)fprintf(stderr, "bench_ledger: %s: %s\n", path, ledger_sqlite_error(NULL));
        _exit(1);
    }
    make_sale(ledger, limit);
    pass(ledger, "book", batch_size, limit, total, NOW_MS);
    pass(ledger, "expire", batch_size, limit, total, NOW_MS + 3600000);
    ledger_sqlite_close(ledger);
    (void)unlink(path);
}

int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {100, 500, 2000, BATCH_MAX};
    char own[] = "/tmp/bench-ledger-XXXXXX";
    uint32_t total = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 200000;
    const char *folder = argc > 2 ? argv[2] : mkdtemp(own);
    CHECK(folder != NULL);
    for (size_t i = 0; i < BATCH_MAX; i++) {
        ops[i] = calloc(1, sizeof(*ops[i]));
        CHECK(ops[i] != NULL);
    }
    for (uint32_t limit = 1; limit <= 2; limit++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            run(folder, sizes[i], limit, total);
        }
    }
    for (size_t i = 0; i < BATCH_MAX; i++) {
        free(ops[i]);
    }
    if (argc <= 2) {
        (void)rmdir(folder);
    }
    return 0;
}
