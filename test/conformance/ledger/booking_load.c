/* See booking_load.h. */
#include "booking_load.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int booking_load_try(struct fixture *f, uint32_t first, uint32_t count)
{
    struct ledger_op *ops = calloc(count, sizeof(*ops));
    struct ledger_op **list = calloc(count, sizeof(*list));
    assert_non_null(ops);
    assert_non_null(list);
    for (uint32_t i = 0; i < count; i++) {
        ops[i] = book_fresh(LOAD_ITEM, 1 + (first + i) * 7919ULL % 100003, 1, first + i);
        list[i] = &ops[i];
    }
    struct ledger_batch batch = {
        .ops = list, .count = count, .now_ms = T0, .booked_lsn = first + count};
    (void)ledger_write(f->ledger, &batch);
    if (batch.error == 0) {
        size_t repeated = 0;
        for (uint32_t i = 0; i < count; i++) {
            repeated += ops[i].repeated;
        }
        assert_int_equal(batch.events_count + repeated, count);
        assert_int_equal(ops[count - 1].order.state, ORDER_LOCKED);
    } else {
        assert_int_equal(batch.events_count, 0);
        assert_int_equal(ops[0].order.user, 0);
    }
    free(ops);
    free(list);
    return batch.error;
}

/* Batches of ten bookings; each committed batch number goes down the pipe. Never returns. */
static void write_until_killed(struct fixture *f, int pipe_fd)
{
    struct ledger *ledger;
    struct ledger_query q = {.kind = QUERY_STATE};
    if (fixture_backend->open(f, true, &ledger) != 0) {
        _exit(1);
    }
    (void)ledger_read(ledger, &q);
    for (uint64_t n = q.booked_lsn + 1;; n++) {
        struct ledger_op ops[10];
        struct ledger_op *list[10];
        for (uint32_t i = 0; i < 10; i++) {
            ops[i] = book_fresh(LOAD_ITEM, 1 + (n * 7919 + i) % 1000, 1, (uint32_t)(n * 10 + i));
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

void booking_load_killed(struct fixture *f, int rounds, int least, int more)
{
    sale_open(f, 1, LOAD_ITEM, 1, 100000000, 0, false);
    uint64_t told = 0;
    for (int round = 0; round < rounds; round++) {
        int ends[2];
        fixture_backend->close(f->ledger); /* no connection crosses a fork */
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)close(ends[0]);
            write_until_killed(f, ends[1]);
        }
        (void)close(ends[1]);
        for (int i = 0; i < least + more * round; i++) {
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
        /* A database server may still execute the dead process's last statement: its lock is waited for. */
        assert_int_equal(fixture_backend->open(f, true, &f->ledger), 0);
        struct ledger_query q = {.kind = QUERY_STATE};
        (void)ledger_read(f->ledger, &q);
        assert_true(q.booked_lsn >= told); /* what was committed is there; perhaps one more */
        assert_true(q.booked_lsn <= told + 1);
        assert_int_equal(sql_number(f, "SELECT count(*) FROM orders"), 10 * q.booked_lsn);
        assert_int_equal(q.last_event, 3 + 10 * q.booked_lsn);
        assert_audit(f);
    }
}
