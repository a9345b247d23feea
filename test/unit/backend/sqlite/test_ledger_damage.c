/*
 * Damage in the file of the ledger: 200 random bits of a real ledger, one at a time. Each is found by
 * the first to read it: the check at the start, the checks of the timer, or a reader. A reader gets
 * an error or the right answer, never a wrong one. Other tests: another program's copy of the WAL and
 * a ledger from before there were checksums must not look like damage.
 */
#include "conformance/ledger/fixture.h"

#include <inttypes.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/sqlite/page_checksums.h"
#include "backend/sqlite/schema.h"
#include "backend/sqlite/store.h"
#include "base/crypt.h"

#define ITEM 7
#define ITEMS 3
#define BUYERS 120
#define FLIPS 200
#define TOLD (1 << 20)

static uint64_t seed;
static char told[TOLD]; /* all answers of the sound ledger */
static char answers[TOLD];

static uint64_t draw(uint64_t below)
{
    seed += 0x9e3779b97f4a7c15ULL;
    uint64_t x = seed;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return (x ^ (x >> 31)) % below;
}

/* ---- a ledger with something of everything ---- */

static void fill(struct fixture *f)
{
    sale_open(f, 1, ITEM, ITEMS, 1000, 0, true);
    sale_make(f, 2, 100, 2, 50, 1, false);
    for (uint32_t i = 0; i < BUYERS; i++) {
        struct ledger_op op = book_fresh(ITEM + i % ITEMS, 1 + i / 2, 1 + i % 3, i);
        op.lsn = i + 1;
        write_op(f, T0 + i, &op);
        struct order_row order = op.order;
        char payment[16];
        (void)snprintf(payment, sizeof(payment), "p%u", i);
        struct ledger_op next = i % 4 == 1   ? pay(order.id, payment, order.amount_cents)
                                : i % 4 == 2 ? cancel(order.id, order.user)
                                             : expire(order.id);
        if (i % 4 != 0) {
            write_op(f, i % 4 == 3 ? T0 + i + PAY_WITHIN_MS : T0 + i + 1, &next);
        }
    }
    struct ledger_op more = restock(ITEM, 5, "r1");
    write_op(f, T0 + BUYERS, &more);
    sale_row_free(more.sale);
    struct ledger_op cursor = {.kind = LEDGER_CURSOR, .amount = 17, .key = "reader"};
    write_op(f, T0 + BUYERS, &cursor);
}

/* ---- all that can be asked ---- */

struct text {
    char *at;
    size_t length;
};

static void put(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *text, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int length = vsnprintf(text->at + text->length, TOLD - text->length, format, values);
    va_end(values);
    assert_true(length >= 0 && text->length + (size_t)length < TOLD);
    text->length += (size_t)length;
}

static void put_order(struct text *text, const struct order_row *o)
{
    struct id_text id = id_text_of(o->id);
    put(text,
        "%.*s user %" PRIu64 " sale %" PRIu64 " item %" PRIu64 " %u %d %d %" PRId64 " %" PRId64
        " %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 " %s %s\n",
        ORDER_ID_TEXT, id.text, o->user, o->sale, o->item, o->qty, (int)o->state, (int)o->reason,
        o->amount_cents, o->created_at_ms, o->locked_at_ms, o->pay_by_ms, o->ended_at_ms, o->lsn,
        o->currency, o->payment_id);
}

static int ask_orders(struct ledger *ledger, struct ledger_query q, struct text *text)
{
    static struct order_row orders[64];
    q.orders = orders;
    q.limit = 64;
    do {
        int error = ledger_read(ledger, &q);
        if (error != 0 && error != ERR_NOTFOUND) {
            return error;
        }
        for (uint32_t i = 0; error == 0 && i < q.count; i++) {
            put_order(text, &orders[i]);
        }
        memcpy(q.cursor, q.next, sizeof(q.cursor));
    } while (q.next[0] != '\0');
    return 0;
}

static int ask_events(struct ledger *ledger, struct text *text)
{
    static struct ledger_event events[64];
    struct ledger_query q = {
        .kind = QUERY_EVENTS, .segment = SEGMENT_ALL, .events = events, .limit = 64};
    do {
        int error = ledger_read(ledger, &q);
        if (error != 0 && error != ERR_NOTFOUND) {
            return error;
        }
        for (uint32_t i = 0; i < q.count; i++) {
            const struct ledger_event *e = &events[i];
            struct id_text id = id_text_of(e->id);
            put(text,
                "event %" PRIu64 " %d %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                " %.*s %u %d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n",
                e->number, (int)e->kind, e->at_ms, e->sale, e->item, e->user, ORDER_ID_TEXT,
                id.text, e->qty, (int)e->reason, e->a, e->b, e->c, e->d);
            q.after = e->number;
        }
    } while (q.count == q.limit);
    return 0;
}

static int ask_sales(struct ledger *ledger, struct text *text)
{
    struct sale_row *sales[8];
    struct ledger_query q = {
        .kind = QUERY_SALES, .segment = SEGMENT_ALL, .sales = sales, .limit = 8};
    int error = ledger_read(ledger, &q);
    for (uint32_t i = 0; error == 0 && i < q.count; i++) {
        put(text, "sale %" PRIu64 " %s %d %d %d %u %" PRId64 " %" PRId64 " %s %s\n", sales[i]->id,
            sales[i]->name, (int)sales[i]->state, sales[i]->forgotten, sales[i]->bar_unpaid,
            (unsigned)sales[i]->pay_within_s, (int64_t)sales[i]->starts_at_ms,
            (int64_t)sales[i]->ends_at_ms, sales[i]->currency, sales[i]->pay_url);
        for (uint32_t k = 0; k < sales[i]->items_count; k++) {
            const struct item_row *item = &sales[i]->items[k];
            put(text,
                "item %" PRIu64 " %s %s %" PRId64 " %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                "\n",
                item->id, item->name, item->sku, (int64_t)item->price_cents, item->limit_per_user,
                item->total, item->available, item->locked, item->sold);
        }
        sale_row_free(sales[i]);
    }
    return error == ERR_NOTFOUND ? 0 : error;
}

/* 0 and everything as text, or the first error. */
static int ask_all(struct ledger *ledger, char *ret_text)
{
    struct text text = {ret_text, 0};
    struct ledger_query state = {.kind = QUERY_STATE};
    struct ledger_query cursor = {.kind = QUERY_CURSOR, .cursor = "reader"};
    struct ledger_query all = {.kind = QUERY_ORDERS, .segment = SEGMENT_ALL, .state = -1};
    ret_text[0] = '\0';
    int error = ledger_read(ledger, &state);
    put(&text, "state %" PRIu64 " %" PRIu64 " %" PRId64 "\n", state.booked_lsn, state.last_event,
        state.highest_ms);
    error = error != 0 ? error : ledger_read(ledger, &cursor);
    put(&text, "cursor %" PRIu64 "\n", cursor.last_event);
    error = error != 0 ? error : ask_sales(ledger, &text);
    error = error != 0 ? error : ask_events(ledger, &text);
    error = error != 0 ? error : ask_orders(ledger, all, &text);
    for (uint64_t user = 1; error == 0 && user <= BUYERS / 2; user++) {
        all.user = user;
        error = ask_orders(ledger, all, &text);
    }
    return error;
}

/* ---- bytes of the file ---- */

static uint8_t *file_bytes(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *ret_size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*ret_size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *ret_size, file), *ret_size);
    (void)fclose(file);
    return bytes;
}

static void file_put(const char *path, const uint8_t *bytes, size_t size)
{
    static const char *const others[] = {"-wal", "-shm"};
    for (size_t i = 0; i < 2; i++) {
        char other[128];
        (void)snprintf(other, sizeof(other), "%s%s", path, others[i]);
        (void)unlink(other);
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* ---- who meets it ---- */

enum met { AT_OPEN, BY_START, BY_TIMER, BY_READ, HARMLESS, SILENT, METS };
static const char *const met_names[] = {"open",   "check at start",    "checks of the timer",
                                        "a read", "nobody (harmless)", "SILENT"};

/* Runs the pieces of one pass. True: one found damage. */
static bool pieces_find(struct ledger *ledger)
{
    struct ledger_check check = {0};
    bool found = false;
    do {
        int error = ledger_check(ledger, &check);
        assert_true(error == 0 || error == ERR_CORRUPT);
        assert_true(error == 0 || (check.damaged > 0 && check.what[0] != '\0'));
        found = found || error == ERR_CORRUPT;
    } while (!check.done);
    return found;
}

/* first: who looks before the readers do. */
static enum met who_meets(struct fixture *f, enum met first)
{
    struct ledger *ledger = NULL;
    struct ledger_check check = {0};
    struct ledger_health health = {0};
    enum met met = HARMLESS;
    if (ledger_sqlite_open(f->path, READ_WRITE, &ledger) != 0) {
        return AT_OPEN;
    }
    ledger->health = &health;
    if (first == BY_START) {
        int error = ledger_sqlite_check_start(ledger, UINT64_MAX / 2, &check);
        assert_true(error == 0 || error == ERR_CORRUPT);
        met = error != 0 ? BY_START : met;
    } else if (first == BY_TIMER && pieces_find(ledger)) {
        met = BY_TIMER;
    }
    if (met == HARMLESS) {
        int error = ask_all(ledger, answers);
        assert_true(error == 0 || error == ERR_CORRUPT);
        met = error != 0 ? BY_READ : strcmp(answers, told) == 0 ? HARMLESS : SILENT;
    }
    if (met == SILENT) {
        print_message("  told:\n%.400s\n  now:\n%.400s\n", told, answers);
    }
    /* The process knows, no matter which of them found it. */
    assert_int_equal(ledger_health_what(&health) != NULL, met != HARMLESS && met != SILENT);
    ledger_sqlite_close(ledger);
    return met;
}

static void flip_bits(struct fixture *f, enum met first)
{
    size_t size = 0;
    unsigned counts[METS] = {0};
    ledger_sqlite_close(f->ledger);
    uint8_t *bytes = file_bytes(f->path, &size);
    for (int i = 0; i < FLIPS; i++) {
        size_t at = draw(size);
        uint8_t bit = (uint8_t)(1U << draw(8));
        bytes[at] ^= bit;
        file_put(f->path, bytes, size);
        enum met met = who_meets(f, first);
        counts[met]++;
        if (met == SILENT) {
            print_message("byte %zu (page %zu), bit 0x%02x\n", at, at / 4096 + 1, bit);
        }
        bytes[at] ^= bit;
    }
    for (int i = 0; i < METS; i++) {
        print_message("%3u of %d flips in %zu bytes: %s\n", counts[i], FLIPS, size, met_names[i]);
    }
    file_put(f->path, bytes, size);
    free(bytes);
    assert_int_equal(ledger_sqlite_open(f->path, READ_WRITE, &f->ledger), 0);
    assert_int_equal(counts[SILENT], 0);
    if (first != BY_READ) {
        assert_int_equal(counts[HARMLESS], 0); /* checksums cover unused bytes, too */
    }
}

static int set_up(void **state)
{
    if (fixture_setup(state) != 0) {
        return -1;
    }
    struct fixture *f = *state;
    fill(f);
    return ask_all(f->ledger, told);
}

static void test_the_start_meets_every_flip(void **state)
{
    flip_bits(*state, BY_START);
}

static void test_the_timer_meets_every_flip(void **state)
{
    flip_bits(*state, BY_TIMER);
}

static void test_readers_get_errors_not_absences(void **state)
{
    flip_bits(*state, BY_READ);
}

static void test_a_sound_ledger_has_no_damage(void **state)
{
    struct fixture *f = *state;
    struct ledger_check start = {0};
    struct ledger_check whole = {.whole = true};
    assert_false(pieces_find(f->ledger));
    assert_int_equal(ledger_sqlite_check_start(f->ledger, 3, &start), 0);
    assert_int_equal(start.pages, 3);
    assert_false(start.done); /* of a large ledger only the beginning */
    assert_int_equal(ledger_sqlite_check_start(f->ledger, 100000, &start), 0);
    assert_true(start.done && start.pages > 10);
    assert_int_equal(ledger_check(f->ledger, &whole), 0);
    assert_true(whole.pages > 10);
    assert_false(pieces_find(f->ledger));
}

/* ---- indexes ---- */

static void past_the_ledger(struct fixture *f, const char *sql)
{
    sqlite3 *db;
    char *error = NULL;
    assert_int_equal(page_checksums_register(), SQLITE_OK);
    assert_int_equal(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READWRITE, PAGE_CHECKSUMS_VFS),
                     SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK) {
        fail_msg("%s", error);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* A bug of SQLite, or a program that wrote to the file: the checksums are right. The index of
 * another table, with the same rows except for one lie, takes the index's place. */
static void find_lie(struct fixture *f, const char *lie)
{
    static const char swap[] =
        "PRAGMA writable_schema = ON;"
        "UPDATE sqlite_master SET rootpage = (SELECT sum(rootpage) FROM sqlite_master WHERE name"
        " IN ('orders_by_user', 'copy_by_user')) - rootpage"
        " WHERE name IN ('orders_by_user', 'copy_by_user')";
    ledger_sqlite_close(f->ledger);
    past_the_ledger(f, "CREATE TABLE orders_copy(item_id, id, user_id, created_at_ms,"
                       " PRIMARY KEY(item_id, id)) WITHOUT ROWID;"
                       "INSERT INTO orders_copy"
                       " SELECT item_id, id, user_id, created_at_ms FROM orders");
    past_the_ledger(f, lie);
    past_the_ledger(f, "CREATE INDEX copy_by_user"
                       " ON orders_copy(user_id, created_at_ms, item_id, id)");
    past_the_ledger(f, swap);
    assert_int_equal(ledger_sqlite_open(f->path, READ_WRITE, &f->ledger), 0);
    struct ledger_check check = {0};
    uint64_t user = 0;
    do {
        (void)ledger_check(f->ledger, &check);
        user = check.damage_count > 0 && user == 0 ? check.damage[0].user : user;
    } while (!check.done);
    assert_int_not_equal(user, 0); /* it names an order */
    struct ledger_check whole = {.whole = true};
    assert_int_equal(ledger_check(f->ledger, &whole), ERR_CORRUPT);
    ledger_sqlite_close(f->ledger);
    past_the_ledger(f, swap);
    past_the_ledger(f, "DROP TABLE orders_copy");
    assert_int_equal(ledger_sqlite_open(f->path, READ_WRITE, &f->ledger), 0);
    assert_false(pieces_find(f->ledger));
}

static void test_an_order_that_the_index_lacks(void **state)
{
    find_lie(*state, "DELETE FROM orders_copy WHERE user_id = 5");
}

static void test_an_order_that_only_the_index_has(void **state)
{
    find_lie(*state, "INSERT INTO orders_copy SELECT item_id, id || 'x', user_id + 700,"
                     " created_at_ms FROM orders_copy WHERE user_id = 5");
}

/* ---- what is not damage ---- */

/* A server is killed; an operator's shell opens the ledger, and copies the WAL into the file. */
static void test_another_program_folds_the_wal(void **state)
{
    struct fixture *f = *state;
    ledger_sqlite_close(f->ledger);
    pid_t child = fork();
    if (child == 0) {
        struct ledger *ledger = NULL;
        struct ledger_op op = book_fresh(ITEM, 999, 1, 5000);
        struct ledger_op *ops[] = {&op};
        struct ledger_batch batch = {.ops = ops, .count = 1, .now_ms = T0 + 500};
        bool done = ledger_sqlite_open(f->path, READ_WRITE, &ledger) == 0 &&
                    ledger_write(ledger, &batch) == 0;
        _exit(done ? 0 : 1); /* the WAL stays */
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "SELECT count(*) FROM orders", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(ledger_sqlite_open(f->path, READ_WRITE, &f->ledger), 0);
    assert_int_equal(ask_all(f->ledger, answers), 0);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders WHERE user_id = 999"), 1);
    struct ledger_check start = {0};
    struct page_checksums_scan scan = {.pages_max = 100000};
    assert_int_equal(page_checksums_scan(store_of(f->ledger)->db, &scan), SQLITE_OK);
    assert_true(scan.without > 0 && scan.bad == 0);
    assert_int_equal(ledger_sqlite_check_start(f->ledger, 100000, &start), 0);
    scan = (struct page_checksums_scan){.pages_max = 100000};
    assert_int_equal(page_checksums_scan(store_of(f->ledger)->db, &scan), SQLITE_OK);
    assert_true(scan.without == 0 && scan.bad == 0 && scan.done);
}

/* The backup of docs/LEDGER.md, taken while a server writes, and put in the ledger's place. */
static void test_a_copy_by_another_program(void **state)
{
    struct fixture *f = *state;
    sqlite3 *db;
    char sql[256];
    char copy[128];
    (void)snprintf(copy, sizeof(copy), "%s-copy", f->path);
    (void)snprintf(sql, sizeof(sql), "VACUUM INTO '%s'", copy);
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    ledger_sqlite_close(f->ledger);
    assert_int_equal(rename(copy, f->path), 0);
    assert_int_equal(ledger_sqlite_open(f->path, READ_WRITE, &f->ledger), 0);
    struct ledger_check start = {0};
    assert_int_equal(ledger_sqlite_check_start(f->ledger, 100000, &start), 0);
    struct page_checksums_scan scan = {.pages_max = 100000};
    assert_int_equal(page_checksums_scan(store_of(f->ledger)->db, &scan), SQLITE_OK);
    assert_true(scan.done && scan.pages > 10 && scan.without == 0 && scan.bad == 0);
    assert_int_equal(ask_all(f->ledger, answers), 0);
    assert_string_equal(answers, told);
}

/* As the program made it before. Returns its size. */
static size_t make_older(struct fixture *f)
{
    ledger_sqlite_close(f->ledger);
    sqlite3 *db;
    char sql[400];
    char old[128];
    (void)snprintf(old, sizeof(old), "%s-old", f->path);
    assert_int_equal(rename(f->path, old), 0);
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    for (size_t i = 0; i < SCHEMA_STEPS_COUNT; i++) {
        assert_int_equal(sqlite3_exec(db, schema_steps[i].sql, NULL, NULL, NULL), SQLITE_OK);
    }
    (void)snprintf(sql, sizeof(sql),
                   "PRAGMA application_id = %d; PRAGMA user_version = %d; DELETE FROM meta;"
                   "ATTACH '%s' AS old",
                   SCHEMA_APPLICATION_ID, (int)SCHEMA_STEPS_COUNT, old);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    static const char *const tables[] = {
        "meta",         "sales",      "items",       "stock",           "orders",
        "holdings",     "payments",   "restocks",    "events",          "cursors",
        "sale_changes", "order_sums", "sale_course", "booking_lengths", "blocks"};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        (void)snprintf(sql, sizeof(sql), "INSERT INTO main.%s SELECT * FROM old.%s", tables[i],
                       tables[i]);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(unlink(old), 0);
    size_t size = 0;
    uint8_t *bytes = file_bytes(f->path, &size);
    assert_int_equal(bytes[20], 0);
    free(bytes);
    return size;
}

static void test_an_older_ledger_gets_checksums(void **state)
{
    struct fixture *f = *state;
    (void)make_older(f);
    assert_int_equal(ledger_sqlite_open(f->path, READ_WRITE, &f->ledger), 0);
    assert_int_equal(ask_all(f->ledger, answers), 0);
    assert_string_equal(answers, told);
    assert_true(page_checksums_on(store_of(f->ledger)->db));
    struct page_checksums_scan scan = {.pages_max = 100000};
    assert_int_equal(page_checksums_scan(store_of(f->ledger)->db, &scan), SQLITE_OK);
    assert_true(scan.done && scan.pages > 10 && scan.without == 0 && scan.bad == 0);
}

/* There is no room to write it anew: it is used as it is, and the next start does it. */
static void test_an_older_ledger_without_room_is_used_as_it_is(void **state)
{
    struct fixture *f = *state;
    struct rlimit all;
    size_t size = make_older(f);
    assert_true(size / 2 > 32768); /* the index of the WAL has room */
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    struct rlimit half = {.rlim_cur = size / 2, .rlim_max = all.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &half), 0);
    int error = ledger_sqlite_open(f->path, READ_WRITE, &f->ledger);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_int_equal(error, 0);
    assert_false(page_checksums_on(store_of(f->ledger)->db));
    assert_true(ledger_sqlite_unchecked(f->ledger)[0] != '\0');
    struct ledger_check check = {0};
    assert_int_equal(ledger_sqlite_check_start(f->ledger, 1000, &check), 0);
    assert_int_equal(ask_all(f->ledger, answers), 0);
    assert_string_equal(answers, told);
    struct ledger_op op = book_fresh(ITEM, 9999, 1, 9999);
    op.lsn = BUYERS + 1;
    write_op(f, T0 + BUYERS, &op);
    assert_int_equal(op.refusal, REFUSAL_NONE);
    ledger_sqlite_close(f->ledger);
    assert_int_equal(ledger_sqlite_open(f->path, READ_WRITE, &f->ledger), 0);
    assert_true(page_checksums_on(store_of(f->ledger)->db));
    assert_null(ledger_sqlite_unchecked(f->ledger));
}

int main(void)
{
    const char *given = getenv("SLUICE_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    if (crypt_start() != 0) {
        return 1;
    }
    crypt_random(&seed, sizeof(seed));
    seed = given != NULL ? strtoull(given, NULL, 0) : seed >> 1;
    print_message("SLUICE_SEED=%" PRIu64 "\n", seed);
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_start_meets_every_flip),
        TEST(test_the_timer_meets_every_flip),
        TEST(test_readers_get_errors_not_absences),
        TEST(test_a_sound_ledger_has_no_damage),
        TEST(test_an_order_that_the_index_lacks),
        TEST(test_an_order_that_only_the_index_has),
        TEST(test_another_program_folds_the_wal),
        TEST(test_a_copy_by_another_program),
        TEST(test_an_older_ledger_gets_checksums),
        TEST(test_an_older_ledger_without_room_is_used_as_it_is),
    };
    return LEDGER_RUN_ON(on_sqlite, tests);
}
