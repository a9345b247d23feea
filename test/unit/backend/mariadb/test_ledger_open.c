/*
 * Opening: new databases, versions, foreign databases, migrations; and who may write: a second
 * server, a takeover, a lock that a dead machine left behind.
 */
#include "conformance/ledger/on_mariadb.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/mariadb/maria.h"
#include "backend/mariadb/schema.h"

#define ITEM 7

static int open_as(struct fixture *f, const char *owner, enum ledger_mariadb_mode mode,
                   struct ledger **ret_ledger)
{
    char url[512];
    mariadb_url(f, url, sizeof(url));
    struct ledger_mariadb_options options = {.url = url, .owner = owner, .timeout_s = 3};
    return ledger_mariadb_open(&options, mode, ret_ledger);
}

static void test_a_new_database(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(sql_number(f, "SELECT version FROM ledger_schema"), MARIA_STEPS_COUNT);
    /* Whatever the server's defaults are, the session's are these. */
    int64_t value = 0;
    struct maria *s = maria_of(f->ledger);
    assert_int_equal(maria_number(s, "SELECT @@tx_isolation = 'READ-COMMITTED'", &value), 0);
    assert_int_equal(value, 1);
    assert_int_equal(
        maria_number(s, "SELECT @@check_constraint_checks AND @@foreign_key_checks", &value), 0);
    assert_int_equal(value, 1);
    assert_int_equal(maria_number(s, "SELECT @@sql_mode LIKE '%STRICT_ALL_TABLES%'", &value), 0);
    assert_int_equal(value, 1);
    assert_int_equal(maria_number(s,
                                  "SELECT count(*) FROM information_schema.tables WHERE"
                                  " table_schema = database() AND engine <> 'InnoDB'",
                                  &value),
                     0);
    assert_int_equal(value, 0);
}

static void test_a_server_that_forgets_is_told(void **state)
{
    struct fixture *f = *state;
    struct maria *s = maria_of(f->ledger);
    int64_t flush = 0;
    int64_t binlog = 0;
    assert_int_equal(maria_number(s, "SELECT @@innodb_flush_log_at_trx_commit", &flush), 0);
    assert_int_equal(maria_number(s, "SELECT if(@@log_bin, @@sync_binlog, 1)", &binlog), 0);
    const char *warning = ledger_mariadb_warning(f->ledger);
    assert_int_equal(warning[0] != '\0', flush != 1 || binlog != 1);
    if (flush != 1) {
        assert_non_null(strstr(warning, "innodb_flush_log_at_trx_commit"));
    }
}

static void test_reading_needs_a_ledger(void **state)
{
    struct fixture *f = *state;
    struct fixture empty = {.lsn = 0};
    struct ledger *reader = NULL;
    on_mariadb.make(&empty);
    assert_int_equal(on_mariadb.open(&empty, false, &reader), ERR_NOTFOUND);
    assert_non_null(strstr(ledger_mariadb_error(NULL), "no ledger"));
    assert_null(reader);
    assert_int_equal(sql_number(&empty, "SELECT count(*) FROM information_schema.tables WHERE"
                                        " table_schema = database()"),
                     0);
    on_mariadb.discard(&empty);
    (void)snprintf(empty.database, sizeof(empty.database), "sluice_test_none");
    assert_int_equal(on_mariadb.open(&empty, true, &reader), ERR_IO);
    assert_non_null(strstr(ledger_mariadb_error(NULL), "CREATE DATABASE"));
    struct ledger_mariadb_options wrong = {.url = "mariadb://nobody:hunter2@127.0.0.1:1/x"};
    assert_int_equal(ledger_mariadb_open(&wrong, MARIADB_WRITER, &reader), ERR_IO);
    assert_non_null(strstr(ledger_mariadb_error(NULL), "is the server running"));
    assert_null(strstr(ledger_mariadb_error(NULL), "hunter2"));
    assert_null(reader);
    (void)f;
}

static void test_a_newer_version_is_refused(void **state)
{
    struct fixture *f = *state;
    struct ledger *other = NULL;
    ledger_mariadb_close(f->ledger);
    assert_int_equal(sql_run(f, "UPDATE ledger_schema SET version = 99"), SQL_DONE);
    assert_int_equal(on_mariadb.open(f, true, &other), ERR_VERSION);
    assert_non_null(strstr(ledger_mariadb_error(NULL), "version 99"));
    assert_int_equal(on_mariadb.open(f, false, &other), ERR_VERSION);
    assert_null(other);
    assert_int_equal(sql_number(f, "SELECT version FROM ledger_schema"), 99); /* untouched */
    assert_int_equal(sql_run(f, "UPDATE ledger_schema SET version = %d", (int)MARIA_STEPS_COUNT),
                     SQL_DONE);
    assert_int_equal(on_mariadb.open(f, true, &f->ledger), 0);
}

static void test_foreign_databases_are_refused(void **state)
{
    struct fixture foreign = {.lsn = 0};
    struct ledger *ledger = NULL;
    (void)state;
    on_mariadb.make(&foreign);
    assert_int_equal(sql_run(&foreign, "CREATE TABLE customers(x INT)"), SQL_DONE);
    assert_int_equal(on_mariadb.open(&foreign, true, &ledger), ERR_INVALID);
    assert_non_null(strstr(ledger_mariadb_error(NULL), "not a ledger"));
    assert_int_equal(sql_number(&foreign, "SELECT count(*) FROM information_schema.tables WHERE"
                                          " table_schema = database()"),
                     1);
    on_mariadb.discard(&foreign);
}

static int open_steps(struct fixture *f, const struct maria_step *steps, size_t count)
{
    char url[512];
    mariadb_url(f, url, sizeof(url));
    struct ledger_mariadb_options options = mariadb_options(url);
    return maria_open(&options, MARIADB_WRITER, steps, count, &f->ledger);
}

static void test_migrations_run_in_order(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 5, 1, false);
    ledger_mariadb_close(f->ledger);
    static const char *const second[] = {"CREATE TABLE IF NOT EXISTS trail(n INT PRIMARY KEY)",
                                         "INSERT IGNORE INTO trail VALUES(2)"};
    static const char *const third[] = {"INSERT IGNORE INTO trail SELECT max(n) * 10 FROM trail"};
    static const char *const bad[] = {"ALTER TABLE trail ADD COLUMN IF NOT EXISTS m INT",
                                      "INSERT INTO nowhere VALUES(1)"};
    static const char *const good[] = {"ALTER TABLE trail ADD COLUMN IF NOT EXISTS m INT",
                                       "UPDATE trail SET m = n + 1"};
    struct maria_step steps[MARIA_STEPS_COUNT + 3];
    memcpy(steps, maria_steps, sizeof(maria_steps));
    struct maria_step *more = &steps[MARIA_STEPS_COUNT];
    more[0] = (struct maria_step){second, 2};
    more[1] = (struct maria_step){third, 1};
    more[2] = (struct maria_step){bad, 2};
    /* The last step is cut short: its version is not stored, those before it stay. */
    assert_int_equal(open_steps(f, steps, MARIA_STEPS_COUNT + 3), ERR_IO);
    assert_non_null(strstr(ledger_mariadb_error(NULL), "nowhere"));
    assert_int_equal(sql_number(f, "SELECT version FROM ledger_schema"), MARIA_STEPS_COUNT + 2);
    assert_int_equal(sql_number(f, "SELECT max(n) FROM trail"), 20);
    /* It is done again from its first statement on; and then there is nothing left to do. */
    more[2] = (struct maria_step){good, 2};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(open_steps(f, steps, MARIA_STEPS_COUNT + 3), 0);
        assert_int_equal(sql_number(f, "SELECT version FROM ledger_schema"), MARIA_STEPS_COUNT + 3);
        assert_int_equal(sql_number(f, "SELECT max(m) FROM trail"), 21);
        ledger_mariadb_close(f->ledger);
    }
    assert_int_equal(open_steps(f, steps, MARIA_STEPS_COUNT + 3), 0);
    struct ledger_op op = book_once(ITEM, 1, 0);
    write_op(f, T0, &op);
    assert_int_equal(op.order.state, ORDER_LOCKED);
}

/* It reads all orders of a ledger of years. Other answers are waited for as long as was asked for. */
static void test_a_step_may_take_longer_than_an_answer(void **state)
{
    struct fixture *f = *state;
    char url[512];
    static const char *const slow[] = {"DO sleep(3)"};
    struct maria_step steps[MARIA_STEPS_COUNT + 1];
    memcpy(steps, maria_steps, sizeof(maria_steps));
    steps[MARIA_STEPS_COUNT] = (struct maria_step){slow, 1};
    ledger_mariadb_close(f->ledger);
    mariadb_url(f, url, sizeof(url));
    struct ledger_mariadb_options options = mariadb_options(url);
    options.timeout_s = 2;
    assert_int_equal(maria_open(&options, MARIADB_WRITER, steps, MARIA_STEPS_COUNT + 1, &f->ledger),
                     0);
    assert_int_equal(sql_number(f, "SELECT version FROM ledger_schema"), MARIA_STEPS_COUNT + 1);
    assert_int_not_equal(maria_do(maria_of(f->ledger), slow[0]), 0);
}

static int write_empty(struct ledger *ledger)
{
    struct ledger_batch batch = {.now_ms = T0};
    (void)ledger_write(ledger, &batch);
    return batch.error;
}

static void test_a_second_writer_is_refused(void **state)
{
    struct fixture *f = *state;
    struct ledger *second = NULL;
    assert_int_equal(open_as(f, "another", MARIADB_WRITER, &second), ERR_BUSY);
    assert_non_null(strstr(ledger_mariadb_error(NULL), "another server writes"));
    assert_int_equal(open_as(f, "", MARIADB_WRITER, &second), ERR_BUSY);
    assert_null(second);
    assert_int_equal(write_empty(f->ledger), 0); /* the first one noticed nothing */
    /* Readers are welcome. */
    assert_int_equal(open_as(f, "another", MARIADB_READER, &second), 0);
    ledger_mariadb_close(second);
}

/* The same data folder on a restarted machine: the lock's holder is dead, whatever the server
 * believes. Should it not be dead, it can do no more harm. */
static void test_the_same_owner_takes_over(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 5, 1, false);
    struct ledger *old = f->ledger;
    assert_int_equal(open_as(f, "test", MARIADB_WRITER, &f->ledger), 0);
    struct ledger_op op = book_once(ITEM, 1, 0);
    write_op(f, T0, &op);
    assert_int_equal(op.order.state, ORDER_LOCKED);
    for (int i = 0; i < 3; i++) {
        struct ledger_op late = book_once(ITEM, 2, 0);
        struct ledger_op *ops[] = {&late};
        struct ledger_batch batch = {.ops = ops, .count = 1, .now_ms = T0};
        (void)ledger_write(old, &batch);
        assert_int_equal(batch.error, ERR_BUSY);
        assert_non_null(strstr(ledger_mariadb_error(old), "taken this ledger over"));
        assert_int_equal(write_empty(f->ledger), 0); /* and the new one keeps its lock */
    }
    ledger_mariadb_close(old);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 1);
}

/* A fence number that rose while the old writer kept its connection. */
static void test_a_stale_writer_is_fenced(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 5, 1, false);
    assert_int_equal(sql_run(f, "UPDATE meta SET fence = fence + 1"), SQL_DONE);
    struct ledger_op late = book_once(ITEM, 2, 0);
    struct ledger_op *ops[] = {&late};
    struct ledger_batch batch = {.ops = ops, .count = 1, .now_ms = T0, .booked_lsn = 9};
    (void)ledger_write(f->ledger, &batch);
    assert_int_equal(batch.error, ERR_BUSY);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 0);
    assert_int_equal(sql_number(f, "SELECT booked_lsn FROM meta"), 0);
}

/* Somebody listens and says nothing: an error, not a wait for ever. */
static void test_a_silent_server(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    char url[64];
    (void)snprintf(url, sizeof(url), "mariadb://a@127.0.0.1:%u/d", ntohs(address.sin_port));
    struct ledger_mariadb_options options = {.url = url, .timeout_s = 1};
    struct ledger *ledger = NULL;
    assert_int_equal(ledger_mariadb_open(&options, MARIADB_WRITER, &ledger), ERR_IO);
    assert_null(ledger);
    (void)close(fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_new_database),
        TEST(test_a_server_that_forgets_is_told),
        TEST(test_reading_needs_a_ledger),
        TEST(test_a_newer_version_is_refused),
        TEST(test_foreign_databases_are_refused),
        TEST(test_migrations_run_in_order),
        TEST(test_a_step_may_take_longer_than_an_answer),
        TEST(test_a_second_writer_is_refused),
        TEST(test_the_same_owner_takes_over),
        TEST(test_a_stale_writer_is_fenced),
        TEST(test_a_silent_server),
    };
    return LEDGER_RUN_ON(on_mariadb, tests);
}
