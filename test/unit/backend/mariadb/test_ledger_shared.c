/*
 * A ledger that many write to: which kinds of ledger may be opened how, and what becomes of a writer
 * that is cut off, or that falls silent in the middle of its batch.
 */
#include "conformance/ledger/on_mariadb.h"

#include <stdio.h>
#include <string.h>

#include "backend/mariadb/maria.h"
#include "backend/mariadb/schema.h"

#define ITEM 7

static int open_with(struct fixture *f, uint32_t segments, struct ledger **ret_ledger)
{
    char url[512];
    mariadb_url(f, url, sizeof(url));
    struct ledger_mariadb_options options = {
        .url = url, .owner = "another", .timeout_s = 4, .segments = segments};
    return ledger_mariadb_open(&options, MARIADB_WRITER, ret_ledger);
}

static int write_empty(struct ledger *ledger)
{
    struct ledger_batch batch = {.now_ms = T0};
    (void)ledger_write(ledger, &batch);
    return batch.error;
}

static int64_t segments_of(struct fixture *f)
{
    return sql_number(f, "SELECT segments FROM meta");
}

/* Those that a segment is read by. */
static int64_t indexes_of(struct fixture *f)
{
    return sql_number(f, "SELECT count(DISTINCT index_name) FROM information_schema.statistics"
                         " WHERE table_schema = database() AND index_name LIKE '%%_by_segment'");
}

static void test_writers_are_welcome(void **state)
{
    struct fixture *f = *state;
    struct ledger *others[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(open_with(f, SEGMENTS, &others[i]), 0);
    }
    sale_open(f, 1, ITEM, 1, 10, 0, false);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(write_empty(others[i]), 0);
        ledger_mariadb_close(others[i]);
    }
    assert_int_equal(write_empty(f->ledger), 0);
    assert_int_equal(segments_of(f), SEGMENTS);
    /* Nobody holds the lock of those who write alone. */
    assert_int_equal(sql_number(f, "SELECT is_free_lock(concat('sluice.', sha1(database())))"), 1);
    struct ledger *none = NULL;
    assert_int_equal(open_with(f, 65, &none), ERR_INVALID);
    assert_null(none);
}

/* While every sale is a draft, a ledger may become one of another kind. A writer of the old kind then
 * gets an error, and changes nothing more. */
static void test_the_kind_may_change_before_the_first_sale(void **state)
{
    struct fixture *f = *state;
    struct ledger *shared = f->ledger;
    struct ledger *alone = NULL;
    sale_make(f, 1, ITEM, 1, 10, 0, false);
    assert_int_equal(open_with(f, 0, &alone), 0);
    assert_int_equal(segments_of(f), 0);
    assert_int_equal(indexes_of(f), 0);
    assert_int_equal(write_empty(shared), ERR_BUSY);
    assert_non_null(strstr(ledger_mariadb_error(shared), "writes alone"));
    assert_int_equal(write_empty(alone), 0);
    /* The one writer is there: nobody opens it shared. */
    struct ledger *none = NULL;
    assert_int_equal(on_mariadb.open(f, true, &none), ERR_BUSY);
    assert_null(none);
    ledger_mariadb_close(alone);
    ledger_mariadb_close(f->ledger);
    assert_int_equal(open_with(f, 2, &f->ledger), 0);
    assert_int_equal(segments_of(f), 2);
    assert_int_equal(indexes_of(f), 3);
    assert_int_equal(write_empty(f->ledger), 0);
    /* More, or fewer, as long as it is a draft. */
    assert_int_equal(open_with(f, 5, &alone), 0);
    assert_int_equal(segments_of(f), 5);
    ledger_mariadb_close(alone);
    assert_int_equal(open_with(f, 4, &alone), 0);
    assert_int_equal(segments_of(f), 4);
    ledger_mariadb_close(alone);
    assert_int_equal(write_empty(f->ledger), 0);
}

/* A writer that was away while its ledger became shared. */
static void test_the_one_writer_comes_back_too_late(void **state)
{
    struct fixture *f = *state;
    struct ledger *alone = f->ledger;
    assert_int_equal(sql_run(f, "KILL CONNECTION %lu", maria_of(alone)->thread), SQL_DONE);
    assert_int_equal(open_with(f, SEGMENTS, &f->ledger), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(write_empty(alone), ERR_BUSY);
        assert_non_null(strstr(ledger_mariadb_error(alone), "taken this ledger over"));
    }
    ledger_mariadb_close(alone);
    assert_int_equal(write_empty(f->ledger), 0);
}

static void test_the_kind_stays_once_a_sale_is_warm(void **state)
{
    struct fixture *f = *state;
    struct ledger *other = NULL;
    sale_open(f, 1, ITEM, 1, 10, 0, false);
    assert_int_equal(open_with(f, 0, &other), ERR_INVALID);
    assert_non_null(strstr(ledger_mariadb_error(NULL), "3 segments"));
    assert_int_equal(open_with(f, 2, &other), ERR_INVALID);
    assert_non_null(strstr(ledger_mariadb_error(NULL), "can be added"));
    assert_null(other);
    assert_int_equal(write_empty(f->ledger), 0);
    /* A segment that is added, and a writer that has not heard of it. */
    assert_int_equal(open_with(f, 4, &other), 0);
    assert_int_equal(segments_of(f), 4);
    assert_int_equal(write_empty(f->ledger), 0);
    assert_int_equal(sql_run(f, "KILL CONNECTION %lu", maria_of(f->ledger)->thread), SQL_DONE);
    assert_int_equal(write_empty(f->ledger), 0);
    assert_int_equal(segments_of(f), 4);
    ledger_mariadb_close(other);
}

static void test_a_ledger_of_one_stays_so(void **state)
{
    struct fixture *f = *state;
    struct ledger *other = NULL;
    sale_open(f, 1, ITEM, 1, 10, 0, false);
    ledger_mariadb_close(f->ledger);
    assert_int_equal(open_with(f, SEGMENTS, &other), ERR_INVALID);
    assert_non_null(strstr(ledger_mariadb_error(NULL), "one server's alone"));
    assert_int_equal(indexes_of(f), 0);
    assert_null(other);
    assert_int_equal(on_mariadb.open(f, true, &f->ledger), 0);
    assert_int_equal(write_empty(f->ledger), 0);
    /* A query for one segment's events returns all events: there is one gate. */
    struct ledger_event events[8];
    struct ledger_query q = {.kind = QUERY_EVENTS, .segment = 0, .limit = 8, .events = events};
    (void)ledger_read(f->ledger, &q);
    assert_int_equal(q.error, 0);
    assert_int_equal(q.count, 3);
    assert_int_equal(events[2].segment, SEGMENT_ALL);
}

/* A database from before there were segments. */
static void test_an_older_ledger_learns_of_segments(void **state)
{
    struct fixture *f = *state;
    struct fixture old = {.lsn = 0};
    char url[512];
    on_mariadb.make(&old);
    for (size_t i = 0; i < maria_steps[0].count; i++) {
        assert_int_equal(mysql_query(old.shell, maria_steps[0].statements[i]), 0);
    }
    assert_int_equal(sql_run(&old,
                             "CREATE TABLE ledger_schema(id TINYINT NOT NULL PRIMARY KEY,"
                             " version INT NOT NULL); INSERT INTO ledger_schema VALUES(1, 1)"),
                     SQL_DONE);
    assert_int_equal(sql_run(&old, "INSERT INTO sales VALUES(1, 's', 'open', 0, 0, 60, 1, 2, 1,"
                                   " 'EUR', NULL); INSERT INTO items VALUES(7, 1, 0, 'i', NULL,"
                                   " NULL, 5, NULL, 0); INSERT INTO stock VALUES(7, 9, 8, 1, 0);"
                                   "INSERT INTO orders VALUES(7, '0123456789012345678901234A', 1,"
                                   " 1, 'LOCKED', NULL, 5, 1, 1, 60001, NULL, 1, NULL);"
                                   "INSERT INTO holdings VALUES(7, 1, 1, 0, 0, 0);"
                                   "INSERT INTO events VALUES(1, 'sale.changed', 1, 1, NULL, NULL,"
                                   " NULL, NULL, NULL, 2, NULL, NULL, NULL)"),
                     SQL_DONE);
    mariadb_url(&old, url, sizeof(url));
    struct ledger_mariadb_options options = mariadb_options(url);
    options.segments = 2;
    assert_int_equal(ledger_mariadb_open(&options, MARIADB_WRITER, &old.ledger), ERR_INVALID);
    options.segments = 0;
    assert_int_equal(ledger_mariadb_open(&options, MARIADB_WRITER, &old.ledger), 0);
    assert_int_equal(sql_number(&old, "SELECT version FROM ledger_schema"), MARIA_STEPS_COUNT);
    assert_int_equal(sql_number(&old, "SELECT segments FROM meta"), 0);
    assert_audit(&old);
    ledger_mariadb_close(old.ledger);
    on_mariadb.discard(&old);
    (void)f;
}

/* ---- the last guard ---- */

static void test_sql_itself_guards_the_shares(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 9, 1, false);
    static const char *const refused[] = {
        "UPDATE allotments SET locked = amount + 1 WHERE segment = 1",
        "UPDATE allotments SET sold = 2, locked = 2 WHERE segment = 1",
        "UPDATE allotments SET locked = -1 WHERE segment = 1",
        "UPDATE allotments SET amount = -1 WHERE segment = 1",
        "INSERT INTO allotments VALUES(64, 7, 1, 0, 0)",
        "INSERT INTO allotments VALUES(1, 7, 1, 0, 0)",
        "INSERT INTO allotments VALUES(3, 999, 1, 0, 0)",
        "INSERT INTO segments VALUES(1, 7)",
        "UPDATE segments SET epoch = 0",
        "UPDATE meta SET segments = 65",
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        assert_int_equal(sql_run(f, "%s", refused[i]), SQL_REFUSED);
    }
    struct ledger_op op = book_at(1, ITEM, 1, 0);
    write_op(f, T0, &op);
    assert_int_equal(sql_run(f, "UPDATE orders SET segment = 2, status = 'CANCELLED',"
                                " ended_at_ms = 5"),
                     SQL_REFUSED);
}

/* What the row of the share refuses is that booking's outcome, not its neighbours'. */
static void test_a_share_that_refuses(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 9 };
    sale_open(f, 1, ITEM, 1, 30, 1, false);
    assert_int_equal(mysql_query(f->shell,
                                 "CREATE TRIGGER short BEFORE UPDATE ON allotments FOR EACH ROW"
                                 " IF NEW.segment = 1 AND NEW.locked > 1 THEN"
                                 " SIGNAL SQLSTATE '45000'; END IF"),
                     0);
    struct ledger_op ops[COUNT];
    struct ledger_op *list[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        ops[i] = book_at(i % SEGMENTS, ITEM, 1 + i, 0);
        list[i] = &ops[i];
    }
    write_batch(f, T0, list, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        bool booked = i % SEGMENTS != 1 || i == 1;
        assert_int_equal(ops[i].order.state, booked ? ORDER_LOCKED : ORDER_FAILED);
        assert_int_equal(ops[i].order.reason, booked ? REFUSAL_NONE : REFUSAL_NO_STOCK);
        assert_int_equal(f->events[i].segment, i % SEGMENTS);
    }
    assert_int_equal(sql_run(f, "DROP TRIGGER short"), SQL_DONE);
}

/* A refusal undoes what came before it in the try: the epochs are then as they were, too. */
static void test_an_epoch_beside_a_refusal(void **state)
{
    struct fixture *f = *state;
    sale_open(f, 1, ITEM, 1, 30, 1, false);
    assert_int_equal(mysql_query(f->shell, "CREATE TRIGGER never BEFORE INSERT ON orders FOR EACH"
                                           " ROW IF NEW.user_id = 13 THEN"
                                           " SIGNAL SQLSTATE '45000'; END IF"),
                     0);
    struct ledger_op raise = raise_epoch(1, 1);
    struct ledger_op bad = book_at(2, ITEM, 13, 0);
    struct ledger_op stale = book_at(1, ITEM, 2, 0);
    struct ledger_op again = raise_epoch(1, 2);
    write_batch(f, T0, (struct ledger_op *[]){&raise, &bad, &stale, &again}, 4);
    assert_int_equal(raise.epoch, 2);
    assert_int_equal(bad.refusal, REFUSAL_BAD_REQUEST);
    assert_int_equal(stale.refusal, REFUSAL_STALE_EPOCH);
    assert_int_equal(again.epoch, 3);
    assert_int_equal(sql_number(f, "SELECT epoch FROM segments WHERE segment = 1"), 3);
    assert_int_equal(sql_run(f, "DROP TRIGGER never"), SQL_DONE);
}

/* A batch that failed is sent again as it was: what was asked has not become the answer. */
static void test_a_failed_batch_asks_the_same_again(void **state)
{
    struct fixture *f = *state;
    void *held = on_mariadb.hold(f, "UPDATE segments SET epoch = epoch");
    ledger_mariadb_close(f->ledger);
    assert_int_equal(open_with(f, SEGMENTS, &f->ledger), 0);
    struct ledger_op op = raise_epoch(1, 1);
    struct ledger_op *ops[] = {&op};
    struct ledger_batch batch = {.ops = ops, .count = 1, .now_ms = T0};
    (void)ledger_write(f->ledger, &batch);
    assert_int_equal(batch.error, ERR_BUSY);
    assert_int_equal(op.epoch, 1);
    on_mariadb.let_go(held);
    (void)ledger_write(f->ledger, &batch);
    assert_int_equal(batch.error, 0);
    assert_int_equal(op.epoch, 2);
}

/* ---- writers in trouble ---- */

/* As a frozen process would: it has locked what everybody needs, and says nothing more. The server
 * throws it out, and the others go on within their patience. */
static void test_a_silent_writer_is_thrown_out(void **state)
{
    struct fixture *f = *state;
    struct ledger *silent = NULL;
    assert_int_equal(open_with(f, SEGMENTS, &silent), 0);
    struct maria *s = maria_of(silent);
    assert_int_equal(maria_do(s, "START TRANSACTION"), 0);
    int64_t fence = 0;
    assert_int_equal(maria_number(s, "SELECT fence FROM meta WHERE id = 1 FOR UPDATE", &fence), 0);
    assert_int_equal(write_empty(f->ledger), 0);
    /* It thaws: what it still wanted to say is not heard, the next batch is as any other. */
    assert_int_not_equal(maria_do(s, "UPDATE meta SET booked_lsn = 99"), 0);
    assert_int_equal(write_empty(silent), 0);
    assert_int_equal(sql_number(f, "SELECT booked_lsn FROM meta"), 0);
    ledger_mariadb_close(silent);
}

/* A lock that stays for good is an error in the end, and waited for again with the next batch. */
static void test_a_foreign_lock_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct ledger *other = NULL;
    assert_int_equal(open_with(f, SEGMENTS, &other), 0);
    void *held = on_mariadb.hold(f, "UPDATE meta SET fence = fence + 1");
    assert_int_equal(write_empty(other), ERR_BUSY);
    assert_non_null(strstr(ledger_mariadb_error(other), "Lock wait timeout"));
    on_mariadb.let_go(held);
    assert_int_equal(write_empty(other), 0);
    ledger_mariadb_close(other);
}

static void test_a_killed_connection(void **state)
{
    struct fixture *f = *state;
    struct ledger *other = NULL;
    assert_int_equal(open_with(f, SEGMENTS, &other), 0);
    sale_open(f, 1, ITEM, 1, 10, 0, false);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sql_run(f, "KILL CONNECTION %lu", maria_of(f->ledger)->thread), SQL_DONE);
        struct ledger_op op = restock(ITEM, 2, i == 0 ? "a" : i == 1 ? "b" : "c");
        write_op(f, T0, &op);
        sale_row_free(op.sale);
        assert_int_equal(write_empty(other), 0);
        assert_int_equal(maria_of(other)->base.last_event, maria_of(f->ledger)->base.last_event);
    }
    ledger_mariadb_close(other);
}

int main(void)
{
#define ALONE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
#define SHARED(name) cmocka_unit_test_setup_teardown(name, fixture_setup_shared, fixture_teardown)
    const struct CMUnitTest tests[] = {
        SHARED(test_writers_are_welcome),
        SHARED(test_the_kind_may_change_before_the_first_sale),
        ALONE(test_the_one_writer_comes_back_too_late),
        SHARED(test_the_kind_stays_once_a_sale_is_warm),
        ALONE(test_a_ledger_of_one_stays_so),
        ALONE(test_an_older_ledger_learns_of_segments),
        SHARED(test_sql_itself_guards_the_shares),
        SHARED(test_a_share_that_refuses),
        SHARED(test_an_epoch_beside_a_refusal),
        SHARED(test_a_failed_batch_asks_the_same_again),
        SHARED(test_a_silent_writer_is_thrown_out),
        SHARED(test_a_foreign_lock_is_waited_for),
        SHARED(test_a_killed_connection),
    };
    return LEDGER_RUN_ON(on_mariadb, tests);
}
