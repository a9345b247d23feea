/*
 * What happens to a writer: its connection is killed (idle, or in the middle of a batch), it is
 * killed itself, a foreign transaction holds what it needs, the server breaks a deadlock. Every
 * batch is either there, once, or not; the next one goes on.
 */
#include "conformance/ledger/booking_load.h"
#include "conformance/ledger/on_mariadb.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/mariadb/maria.h"

#define ITEM LOAD_ITEM

static void kill_connection(struct fixture *f)
{
    assert_int_equal(sql_run(f, "KILL CONNECTION %lu", maria_of(f->ledger)->thread), SQL_DONE);
}

/* Nothing was under way: the next batch and the next query know nothing of it. */
static void test_an_idle_connection_that_ends(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 1000, 0, false);
    kill_connection(f);
    assert_int_equal(booking_load_try(f, 0, 10), 0);
    kill_connection(f);
    struct ledger_query q = {.kind = QUERY_STATE};
    (void)ledger_read(f->ledger, &q);
    assert_int_equal(q.error, 0);
    assert_int_equal(q.last_event, 13);
    assert_int_equal(booking_load_try(f, 10, 10), 0);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 20);
}

struct cutter {
    struct fixture *fixture;
    MYSQL *shell;
    unsigned long thread;
};

/* Waits until the batch hangs on a row, then ends its connection. */
static void *cut(void *argument)
{
    struct cutter *c = argument;
    char sql[160];
    (void)snprintf(sql, sizeof(sql),
                   "SELECT count(*) FROM information_schema.processlist WHERE id = %lu"
                   " AND info LIKE 'UPDATE stock%%'",
                   c->thread);
    bool waits = false;
    while (!waits) {
        if (mysql_query(c->shell, sql) != 0) {
            break;
        }
        MYSQL_RES *result = mysql_store_result(c->shell);
        MYSQL_ROW row = mysql_fetch_row(result);
        waits = row != NULL && row[0][0] == '1';
        mysql_free_result(result);
        (void)usleep(10000);
    }
    (void)snprintf(sql, sizeof(sql), "KILL CONNECTION %lu", c->thread);
    (void)mysql_query(c->shell, sql);
    return NULL;
}

static void test_a_connection_that_ends_in_a_batch(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 1000, 0, false);
    assert_int_equal(booking_load_try(f, 0, 10), 0);
    void *held = on_mariadb.hold(f, "UPDATE stock SET available = available");
    struct cutter c = {f, mariadb_shell(f->database), maria_of(f->ledger)->thread};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cut, &c), 0);
    int err = booking_load_try(f, 10, 10);
    assert_int_equal(pthread_join(thread, NULL), 0);
    mysql_close(c.shell);
    assert_true(err == ERR_IO || err == ERR_BUSY); /* BUSY: the row's wait ended first */
    on_mariadb.let_go(held);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 10);
    assert_int_equal(booking_load_try(f, 10, 10), 0);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 20);
    assert_int_equal(sql_number(f, "SELECT max(number) FROM events"), 23);
}

/* An operator's shell that keeps a transaction open. */
static void test_a_foreign_lock(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100, 0, false);
    void *held = on_mariadb.hold(f, "UPDATE stock SET available = 99, locked = 1");
    assert_int_equal(booking_load_try(f, 0, 1), ERR_BUSY);
    assert_non_null(strstr(ledger_mariadb_error(f->ledger), "Lock wait timeout"));
    /* Reading goes on, and sees what is committed. */
    struct sale_row *sale;
    struct ledger_query q = {.kind = QUERY_SALES, .sale = 1, .limit = 1, .sales = &sale};
    (void)ledger_read(f->ledger, &q);
    assert_int_equal(q.error, 0);
    assert_int_equal(sale->items[0].available, 100);
    sale_row_free(sale);
    on_mariadb.let_go(held);
    assert_int_equal(sql_run(f, "UPDATE stock SET available = 100, locked = 0"), SQL_DONE);
    assert_int_equal(booking_load_try(f, 0, 1), 0);
}

/* A trigger that says what the server says when it breaks a deadlock; it counts in a table that
 * knows no rollback. */
static void test_a_deadlock_is_tried_again(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100, 0, false);
    assert_int_equal(sql_run(f, "CREATE TABLE tries(n INT) ENGINE=Aria TRANSACTIONAL=0;"
                                "INSERT INTO tries VALUES(0)"),
                     SQL_DONE);
    MYSQL *shell = f->shell;
    assert_int_equal(
        mysql_query(shell, "CREATE TRIGGER deadlock BEFORE INSERT ON orders FOR EACH ROW BEGIN"
                           " UPDATE tries SET n = n + 1; IF (SELECT n FROM tries) <= 2 THEN"
                           " SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END IF; END"),
        0);
    assert_int_equal(booking_load_try(f, 0, 1), 0);
    assert_int_equal(sql_number(f, "SELECT n FROM tries"), 3);
    /* One that comes back again and again is the batch's error. */
    assert_int_equal(sql_run(f, "UPDATE tries SET n = -100"), SQL_DONE);
    assert_int_equal(booking_load_try(f, 1, 1), ERR_BUSY);
    assert_int_equal(sql_number(f, "SELECT n FROM tries"), -96);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 1);
    assert_int_equal(sql_run(f, "DROP TRIGGER deadlock"), SQL_DONE);
    assert_int_equal(booking_load_try(f, 1, 1), 0);
}

static void test_killed_while_committing(void **state)
{
    booking_load_killed(*state, 8, 2, 2);
}

/* More rows than go into one packet, half of them seen before. */
static void test_a_large_batch_again(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100000, 0, false);
    assert_int_equal(booking_load_try(f, 0, 4500), 0);
    assert_int_equal(booking_load_try(f, 2000, 4500), 0);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 6500);
    assert_int_equal(sql_number(f, "SELECT locked FROM stock"), 6500);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_an_idle_connection_that_ends),
        TEST(test_a_connection_that_ends_in_a_batch),
        TEST(test_a_foreign_lock),
        TEST(test_a_deadlock_is_tried_again),
        TEST(test_killed_while_committing),
        TEST(test_a_large_batch_again),
    };
    return LEDGER_RUN_ON(on_mariadb, tests);
}
