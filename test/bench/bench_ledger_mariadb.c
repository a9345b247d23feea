/*
 * How many orders a second the MariaDB ledger books: by one writer, by one, two and four writers of
 * a shared ledger, by one of a shared ledger with its orders in four databases, and beside them the
 * plain way, one transaction per order (insert the order, add
 * to the buyer's holding, take one from the stock) on several connections, with the tables,
 * constraints and commits of a shared ledger, but without its events and allotments. All in turns, several rounds, in one run: only the ratios mean anything.
 * Buyers come scattered, as in a real sale.
 *
 *   bench_ledger_mariadb mariadb://user@host:port/ [batch 500] [connections 8] [seconds 3] [rounds 3]
 *
 * The user may make and drop databases that begin with sluice_.
 */
#include <mysql.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/mariadb/address.h"
#include "backend/mariadb/ledger_mariadb.h"
#include "base/check.h"

#define NOW_MS 1700000000000LL
#define USERS (1ULL << 27)
#define ITEM 1
#define CONNECTIONS_MAX 64
#define ROUNDS_MAX 32
#define SEGMENTS 4
#define WRITERS_MAX 4
#define DATABASES 4

/* The ledgers. Each has a database of its own; the last one's is for the plain way. */
enum kind { KIND_ALONE, KIND_SHARED, KIND_SPLIT, KIND_PLAIN, KIND_COUNT };

static struct {
    const char *server;
    char databases[KIND_COUNT][64];
    uint32_t batch;
    uint32_t connections;
    double seconds;
    uint32_t rounds;
} options;

/* Every order of a run, of either way, has its own number. */
static atomic_uint next_order = 1;

static double now_s(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void give_up(const char *what)
{
    (void)fprintf(stderr, "bench_ledger_mariadb: %s\n", what);
    _exit(1);
}

static MYSQL *shell(const char *database)
{
    char url[512];
    char error[512];
    struct maria_address a;
    (void)snprintf(url, sizeof(url), "%sx", options.server);
    if (maria_address_parse(url, &a, error, sizeof(error)) != 0) {
        give_up(error);
    }
    MYSQL *db = mysql_init(NULL);
    CHECK(db != NULL);
    if (mysql_real_connect(db, a.host, a.user, a.password, database, a.port, NULL, 0) == NULL) {
        give_up(mysql_error(db));
    }
    return db;
}

static void must(MYSQL *db, const char *sql)
{
    if (mysql_query(db, sql) != 0) {
        (void)fprintf(stderr, "%s\n", sql);
        give_up(mysql_error(db));
    }
}

static uint64_t user_of(uint32_t n)
{
    return 1 + n * 87654321ULL % USERS; /* odd: a permutation */
}

/* ---- the ledger ---- */

static void submit(struct ledger *ledger, struct ledger_op **ops, size_t count, uint64_t lsn)
{
    struct ledger_batch batch = {.ops = ops, .count = count, .now_ms = NOW_MS, .booked_lsn = lsn};
    (void)ledger_write(ledger, &batch);
    if (batch.error != 0) {
        give_up(ledger_mariadb_error(ledger));
    }
}

static struct ledger *open_ledger(enum kind kind)
{
    char url[512];
    struct ledger *ledger;
    (void)snprintf(url, sizeof(url), "%s%s?databases=%d", options.server, options.databases[kind],
                   kind == KIND_SPLIT ? DATABASES : 1);
    struct ledger_mariadb_options open = {
        .url = url, .owner = "bench", .segments = kind == KIND_ALONE ? 0 : SEGMENTS};
    if (ledger_mariadb_open(&open, MARIADB_WRITER, &ledger) != 0) {
        give_up(ledger_mariadb_error(NULL));
    }
    return ledger;
}

static void make_sale(struct ledger *ledger, bool shared)
{
    struct item_row item = {.id = ITEM, .price_cents = 9900, .limit_per_user = 1, .name = "item"};
    item.total = STOCK_MAX;
    struct sale_row sale = {.id = 1,
                            .pay_within_s = 600,
                            .starts_at_ms = NOW_MS,
                            .ends_at_ms = NOW_MS + 1000000000000LL, /* by the server's clock, too */
                            .name = "sale",
                            .currency = "CNY",
                            .items_count = 1,
                            .items = &item};
    struct ledger_op create = {.kind = LEDGER_SALE_CREATE, .sale_in = &sale};
    struct ledger_op open = {.kind = LEDGER_SALE_MOVE, .sale_id = 1, .target = SALE_OPEN};
    submit(ledger, (struct ledger_op *[]){&create, &open}, 2, 0);
    sale_row_free(create.sale);
    sale_row_free(open.sale);
    for (uint32_t i = 0; i < SEGMENTS && shared; i++) {
        struct ledger_op epoch = {.kind = LEDGER_EPOCH, .segment = i};
        submit(ledger, (struct ledger_op *[]){&epoch}, 1, 0);
    }
}

struct writer {
    struct ledger *ledger;
    struct ledger_op *ops;
    struct ledger_op **list;
    double end;
    uint64_t booked;
};

static struct writer writer_open(enum kind kind)
{
    struct writer w = {.ledger = open_ledger(kind)};
    w.ops = calloc(options.batch, sizeof(*w.ops));
    w.list = calloc(options.batch, sizeof(struct ledger_op *));
    CHECK(w.ops != NULL && w.list != NULL);
    for (uint32_t i = 0; i < options.batch; i++) {
        w.list[i] = &w.ops[i];
    }
    return w;
}

static void writer_close(struct writer *w)
{
    ledger_mariadb_close(w->ledger);
    free(w->ops);
    free(w->list);
}

static void *write_batches(void *argument)
{
    struct writer *w = argument;
    w->booked = 0;
    while (now_s() < w->end) {
        for (uint32_t i = 0; i < options.batch; i++) {
            uint32_t n = atomic_fetch_add(&next_order, 1);
            w->ops[i] = (struct ledger_op){.kind = LEDGER_BOOK,
                                           .lsn = n,
                                           .segment = (uint32_t)(user_of(n) % SEGMENTS),
                                           .epoch = 1,
                                           .command = {.kind = GATE_RESERVE,
                                                       .now_ms = NOW_MS,
                                                       .id = order_id_once(ITEM, user_of(n), 0),
                                                       .user = user_of(n),
                                                       .item = ITEM,
                                                       .qty = 1}};
        }
        submit(w->ledger, w->list, options.batch, atomic_load(&next_order));
        for (uint32_t i = 0; i < options.batch; i++) {
            CHECK(w->ops[i].order.state == ORDER_LOCKED && !w->ops[i].repeated);
        }
        w->booked += options.batch;
    }
    return NULL;
}

/* Orders a second in batches, by so many writers. */
static double run_batches(struct writer *writers, uint32_t count)
{
    pthread_t threads[WRITERS_MAX];
    double from = now_s();
    uint64_t booked = 0;
    for (uint32_t i = 0; i < count; i++) {
        writers[i].end = from + options.seconds;
        CHECK(pthread_create(&threads[i], NULL, write_batches, &writers[i]) == 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        booked += writers[i].booked;
    }
    return (double)booked / (now_s() - from);
}

/* ---- the plain way ---- */

static MYSQL_STMT *prepare(MYSQL *db, const char *sql)
{
    MYSQL_STMT *statement = mysql_stmt_init(db);
    CHECK(statement != NULL);
    if (mysql_stmt_prepare(statement, sql, strlen(sql)) != 0) {
        give_up(mysql_stmt_error(statement));
    }
    return statement;
}

static void execute(MYSQL_STMT *statement, MYSQL_BIND *binds)
{
    if ((binds != NULL && mysql_stmt_bind_param(statement, binds) != 0) ||
        mysql_stmt_execute(statement) != 0) {
        give_up(mysql_stmt_error(statement));
    }
}

static void *one_by_one(void *argument)
{
    double end = *(const double *)argument;
    MYSQL *db = shell(options.databases[KIND_PLAIN]);
    int64_t user = 0;
    int64_t segment = 0;
    char id[ORDER_ID_TEXT];
    unsigned long id_length = sizeof(id);
    MYSQL_BIND order[] = {
        {.buffer_type = MYSQL_TYPE_STRING,
         .buffer = id,
         .buffer_length = sizeof(id),
         .length = &id_length},
        {.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &user},
        {.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &segment},
    };
    MYSQL_STMT *add =
        prepare(db, "INSERT INTO orders(item_id, id, user_id, qty, status,"
                    " amount_cents, created_at_ms, locked_at_ms, pay_by_ms, lsn, segment)"
                    " VALUES(1, ?, ?, 1, 'LOCKED', 9900, 1, 1, 2, 1, ?)");
    MYSQL_STMT *hold = prepare(db, "INSERT INTO holdings(item_id, user_id, held, limit_per_user, "
                                   "ended, barred, segment) VALUES(1, ?, 1, 1, 0, 0, ?)"
                                   " ON DUPLICATE KEY UPDATE held = held + 1");
    MYSQL_STMT *take = prepare(db, "UPDATE stock SET available = available - 1,"
                                   " locked = locked + 1 WHERE item_id = 1 AND available > 0");
    uint64_t booked = 0;
    while (now_s() < end) {
        uint32_t n = atomic_fetch_add(&next_order, 1);
        user = (int64_t)user_of(n);
        segment = user % SEGMENTS;
        order_id_text(order_id_once(ITEM, (uint64_t)user, 0), id);
        must(db, "START TRANSACTION");
        execute(add, order);
        execute(hold, &order[1]);
        execute(take, NULL); /* the row everybody wants, last and shortest */
        must(db, "COMMIT");
        booked++;
    }
    (void)mysql_stmt_close(add);
    (void)mysql_stmt_close(hold);
    (void)mysql_stmt_close(take);
    mysql_close(db);
    return (void *)(uintptr_t)booked; /* NOLINT(performance-no-int-to-ptr) */
}

static double run_one_by_one(void)
{
    pthread_t threads[CONNECTIONS_MAX];
    double from = now_s();
    double end = from + options.seconds;
    uint64_t booked = 0;
    for (uint32_t i = 0; i < options.connections; i++) {
        CHECK(pthread_create(&threads[i], NULL, one_by_one, &end) == 0);
    }
    for (uint32_t i = 0; i < options.connections; i++) {
        void *count;
        CHECK(pthread_join(threads[i], &count) == 0);
        booked += (uintptr_t)count;
    }
    return (double)booked / (now_s() - from);
}

/* ---- all of them ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Each way's rates, and its median beside the plain way's. */
enum way { WAY_ALONE, WAY_SHARED_1, WAY_SHARED_2, WAY_SHARED_4, WAY_SPLIT, WAY_PLAIN, WAY_COUNT };

static void print_rates(double rates[WAY_COUNT][ROUNDS_MAX])
{
    static const char *const texts[WAY_COUNT] = {
        "one writer",           "shared, one writer",     "shared, two writers",
        "shared, four writers", "shared, four databases", "one transaction each"};
    for (int i = 0; i < WAY_COUNT; i++) {
        qsort(rates[i], options.rounds, sizeof(double), by_size);
    }
    printf("batches of %u; %u connections for one transaction each\n", options.batch,
           options.connections);
    for (int i = 0; i < WAY_COUNT; i++) {
        double median = rates[i][options.rounds / 2];
        printf("%-24s %8.0f orders/s  (%.0f to %.0f)  %5.1f times\n", texts[i], median, rates[i][0],
               rates[i][options.rounds - 1], median / rates[WAY_PLAIN][options.rounds / 2]);
    }
}

static void run(void)
{
    double rates[WAY_COUNT][ROUNDS_MAX];
    struct writer alone = writer_open(KIND_ALONE);
    struct writer split = writer_open(KIND_SPLIT);
    struct ledger *plain = open_ledger(KIND_PLAIN);
    struct writer shared[WRITERS_MAX];
    for (uint32_t i = 0; i < WRITERS_MAX; i++) {
        shared[i] = writer_open(KIND_SHARED);
    }
    make_sale(alone.ledger, false);
    make_sale(shared[0].ledger, true);
    make_sale(split.ledger, true);
    make_sale(plain, true);
    for (uint32_t i = 0; i < options.rounds; i++) {
        rates[WAY_ALONE][i] = run_batches(&alone, 1);
        rates[WAY_SHARED_1][i] = run_batches(shared, 1);
        rates[WAY_SHARED_2][i] = run_batches(shared, 2);
        rates[WAY_SHARED_4][i] = run_batches(shared, 4);
        rates[WAY_SPLIT][i] = run_batches(&split, 1);
        rates[WAY_PLAIN][i] = run_one_by_one();
    }
    print_rates(rates);
    writer_close(&alone);
    writer_close(&split);
    ledger_mariadb_close(plain);
    for (uint32_t i = 0; i < WRITERS_MAX; i++) {
        writer_close(&shared[i]);
    }
}

static uint32_t number(int argc, char **argv, int at, uint32_t standard, uint32_t max)
{
    uint32_t value = argc > at ? (uint32_t)strtoul(argv[at], NULL, 10) : standard;
    return value == 0 ? 1 : value > max ? max : value;
}

/* The first of several last: the others' orders refer to its items. */
static void drop_databases(MYSQL *db)
{
    char sql[128];
    for (int i = 1; i < DATABASES; i++) {
        (void)snprintf(sql, sizeof(sql), "DROP DATABASE %s_%d", options.databases[KIND_SPLIT], i);
        must(db, sql);
    }
    for (int i = 0; i < KIND_COUNT; i++) {
        (void)snprintf(sql, sizeof(sql), "DROP DATABASE %s", options.databases[i]);
        must(db, sql);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fprintf(stderr, "usage: bench_ledger_mariadb mariadb://user@host:port/ [batch] "
                              "[connections] [seconds] [rounds]\n");
        return 2;
    }
    static const char *const names[KIND_COUNT] = {"alone", "shared", "split", "plain"};
    options.server = argv[1];
    options.batch = number(argc, argv, 2, 500, 100000);
    options.connections = number(argc, argv, 3, 8, CONNECTIONS_MAX);
    options.seconds = number(argc, argv, 4, 3, 3600);
    options.rounds = number(argc, argv, 5, 3, ROUNDS_MAX);
    MYSQL *db = shell(NULL);
    for (int i = 0; i < KIND_COUNT; i++) {
        char sql[128];
        (void)snprintf(options.databases[i], sizeof(options.databases[i]), "sluice_bench_%ld_%s",
                       (long)getpid(), names[i]);
        (void)snprintf(sql, sizeof(sql), "CREATE DATABASE %s", options.databases[i]);
        must(db, sql);
    }
    run();
    drop_databases(db);
    mysql_close(db);
    return 0;
}
