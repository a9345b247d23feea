/*
 * What happens to a writer: its connection is killed (idle, or in the middle of a batch), it is
 * killed itself, a foreign transaction holds what it needs, the server breaks a deadlock. Every
 * batch is either there, once, or not; the next one goes on.
 */
#include "conformance/ledger/on_mariadb.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/mariadb/maria.h"

#define ITEM 7

/* Tries a batch of `count` bookings from `first` on; the batch's error. */
static int try_booking(struct fixture *f, uint32_t first, uint32_t count)
{
    struct ledger_op *ops = calloc(count, sizeof(*ops));
    struct ledger_op **list = calloc(count, sizeof(*list));
    assert_non_null(ops);
    assert_non_null(list);
    for (uint32_t i = 0; i < count; i++) {
        ops[i] = book_fresh(ITEM, 1 + (first + i) * 7919ULL % 100003, 1, first + i);
        list[i] = &ops[i];
    }
    struct ledger_batch batch = {
        .ops = list, .count = count, .now_ms = T0, .booked_lsn = first + count};
    (void)ledger_write(f->ledger, &batch);
    if (batch.error == 0) {
        assert_int_equal(ops[count - 1].order.state, ORDER_LOCKED);
    } else {
        assert_int_equal(batch.events_count, 0);
        assert_int_equal(ops[0].order.user, 0);
    }
    free(ops);
    free(list);
    return batch.error;
}

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
    assert_int_equal(try_booking(f, 0, 10), 0);
    kill_connection(f);
    struct ledger_query q = {.kind = QUERY_STATE};
    (void)ledger_read(f->ledger, &q);
    assert_int_equal(q.error, 0);
    assert_int_equal(q.last_event, 13);
    assert_int_equal(try_booking(f, 10, 10), 0);
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
    assert_int_equal(try_booking(f, 0, 10), 0);
    void *held = on_mariadb.hold(f, "UPDATE stock SET available = available");
    struct cutter c = {f, mariadb_shell(f->database), maria_of(f->ledger)->thread};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cut, &c), 0);
    int err = try_booking(f, 10, 10);
    assert_int_equal(pthread_join(thread, NULL), 0);
    mysql_close(c.shell);
    assert_true(err == ERR_IO || err == ERR_BUSY); /* BUSY: the row's wait ended first */
    on_mariadb.let_go(held);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 10);
    assert_int_equal(try_booking(f, 10, 10), 0);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 20);
    assert_int_equal(sql_number(f, "SELECT max(number) FROM events"), 23);
}

/* An operator's shell that keeps a transaction open. */
static void test_a_foreign_lock(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100, 0, false);
    void *held = on_mariadb.hold(f, "UPDATE stock SET available = 99, locked = 1");
    assert_int_equal(try_booking(f, 0, 1), ERR_BUSY);
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
    assert_int_equal(try_booking(f, 0, 1), 0);
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
    assert_int_equal(try_booking(f, 0, 1), 0);
    assert_int_equal(sql_number(f, "SELECT n FROM tries"), 3);
    /* One that comes back again and again is the batch's error. */
    assert_int_equal(sql_run(f, "UPDATE tries SET n = -100"), SQL_DONE);
    assert_int_equal(try_booking(f, 1, 1), ERR_BUSY);
    assert_int_equal(sql_number(f, "SELECT n FROM tries"), -96);
    assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 1);
    assert_int_equal(sql_run(f, "DROP TRIGGER deadlock"), SQL_DONE);
    assert_int_equal(try_booking(f, 1, 1), 0);
}

/* Batches of ten bookings; each committed batch number goes down the pipe. Never returns. */
static void writer_until_killed(struct fixture *f, int pipe_fd)
{
    struct ledger *ledger;
    struct ledger_query q = {.kind = QUERY_STATE};
    if (on_mariadb.open(f, true, &ledger) != 0) {
        _exit(1);
    }
    (void)ledger_read(ledger, &q);
    for (uint64_t n = q.booked_lsn + 1;; n++) {
        struct ledger_op ops[10];
        struct ledger_op *list[10];
        for (uint32_t i = 0; i < 10; i++) {
            ops[i] = book_fresh(ITEM, 1 + (n * 7919 + i) % 1000, 1, (uint32_t)(n * 10 + i));
            ops[i].lsn = n;
            list[i] = &ops[i];
        }
        struct ledger_batch batch = {
            .ops = list, .count = 10, .now_ms = T0 + (int64_t)n, .booked_lsn = n};
        (void)ledger_write(ledger, &batch);
        if (batch.error != 0 || write(pipe_fd, &n, sizeof(n)) != sizeof(n)) {
            _exit(1);
        }
    }
}

static void test_killed_while_committing(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100000000, 0, false);
    uint64_t told = 0;
    for (int round = 0; round < 8; round++) {
        int ends[2];
        ledger_mariadb_close(f->ledger); /* no connection crosses a fork */
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)close(ends[0]);
            writer_until_killed(f, ends[1]);
        }
        (void)close(ends[1]);
        for (int i = 0; i < 2 + 2 * round; i++) {
            assert_int_equal(read(ends[0], &told, sizeof(told)), sizeof(told));
        }
        (void)usleep((useconds_t)(137 * round)); /* anywhere in a transaction */
        assert_int_equal(kill(child, SIGKILL), 0);
        while (read(ends[0], &told, sizeof(told)) == sizeof(told)) {
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        (void)close(ends[0]);
        /* The lock is the dead one's until the server has put its last words into effect. */
        assert_int_equal(on_mariadb.open(f, true, &f->ledger), 0);
        struct ledger_query q = {.kind = QUERY_STATE};
        (void)ledger_read(f->ledger, &q);
        assert_true(q.booked_lsn >= told); /* what was committed is there; perhaps one more */
        assert_true(q.booked_lsn <= told + 1);
        assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 10 * q.booked_lsn);
        assert_int_equal(q.last_event, 3 + 10 * q.booked_lsn);
        assert_audit(f);
    }
}

/* More rows than go into one packet, half of them seen before. */
static void test_a_large_batch_again(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 100000, 0, false);
    assert_int_equal(try_booking(f, 0, 4500), 0);
    assert_int_equal(try_booking(f, 2000, 4500), 0);
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
