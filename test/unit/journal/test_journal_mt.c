/*
 * The journal's threads together: appenders that share a gate lock, the journal thread, a reader
 * that follows, and the background thread that prepares, snapshots and trims.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/err.h"
#include "journal/journal_private.h"
#include "journal_world.h"

#define APPENDERS 3
#define RECORDS 4000 /* in all */

static struct shop {
    struct ram_disk ram;
    struct gate_box box;
    struct journal *journal;
    pthread_mutex_t gate_lock;
    uint64_t appended; /* under gate_lock */
    atomic_uint_fast64_t booked;
    atomic_uint_fast64_t moved;
    atomic_bool over;
} shop;

static const struct gate_sizes sizes = {.orders = 5000, .buyers = 5000, .items = 4, .sales = 2};

static void must_apply(const struct gate_command *command)
{
    struct gate_effects effects;
    uint64_t lsn;
    CHECK(gate_step(&shop.box.gate, command, &effects) == VERDICT_DONE);
    CHECK(gate_content_append(shop.journal, command, &lsn) == 0);
    CHECK(lsn == ++shop.appended);
}

static void *append(void *context)
{
    uint64_t user = (uint64_t)(uintptr_t)context * 1000000;
    for (;;) {
        pthread_mutex_lock(&shop.gate_lock);
        bool enough = shop.appended >= RECORDS;
        if (!enough && journal_has_room(shop.journal, 1)) {
            user++;
            struct gate_command command = {.kind = GATE_RESERVE,
                                           .now_ms = 2000 + (int64_t)shop.appended,
                                           .ticket_expires_ms = 1000000,
                                           .user = user,
                                           .item = 5,
                                           .qty = 1,
                                           .id = order_id_once(5, user, 0)};
            must_apply(&command);
        }
        uint64_t last = shop.appended;
        pthread_mutex_unlock(&shop.gate_lock);
        if (enough) {
            return NULL;
        }
        if (user % 7 == 0) { /* now and then wait for what was decided */
            while (journal_durable_lsn(shop.journal) < last) {
                sched_yield();
            }
        }
    }
}

static void *flush(void *context)
{
    (void)context;
    bool wrote = true;
    while (journal_wait(shop.journal)) {
        CHECK(journal_flush(shop.journal, &wrote) == 0);
    }
    CHECK(journal_flush(shop.journal, &wrote) == 0);
    return NULL;
}

static void *book(void *context)
{
    (void)context;
    struct journal_reader *reader;
    CHECK(journal_reader_new(shop.journal, 0, &reader) == 0);
    uint64_t want = 1;
    for (;;) {
        bool over = atomic_load(&shop.over);
        uint64_t lsn;
        struct gate_command command;
        int error = gate_content_next(reader, &lsn, &command);
        if (error == ERR_AGAIN) {
            if (over) {
                break;
            }
            sched_yield();
            continue;
        }
        CHECK(error == 0 && lsn == want++ && lsn <= journal_durable_lsn(shop.journal));
        atomic_store(&shop.booked, lsn);
    }
    journal_reader_free(reader);
    return NULL;
}

static void *tidy(void *context)
{
    (void)context;
    while (!atomic_load(&shop.over)) {
        CHECK(journal_prepare_file(shop.journal) == 0);
        if (journal_snapshot_due(shop.journal)) {
            struct gate_box second;
            gate_box_init_sizes(&second, sizes);
            uint64_t lsn;
            uint32_t removed;
            CHECK(gate_content_snapshot(shop.journal, &second.gate, &lsn) == 0);
            gate_box_done(&second);
            CHECK(journal_trim(shop.journal, atomic_load(&shop.booked), &removed) == 0);
        }
        sched_yield();
    }
    return NULL;
}

static void on_moved(void *context)
{
    atomic_fetch_add((atomic_uint_fast64_t *)context, 1);
}

static void open_shop(void)
{
    struct journal_options options = {.file_bytes = 16 * JOURNAL_SECTOR,
                                      .buffer_bytes = 4 * JOURNAL_SECTOR};
    struct journal_found found;
    gate_box_init_sizes(&shop.box, sizes);
    assert_int_equal(
        gate_content_open(&shop.ram.disk, options, &shop.box.gate, &shop.journal, &found), 0);
    assert_int_equal(found.last_lsn, shop.appended);
}

static void all_threads_together(void **state)
{
    (void)state;
    ram_disk_init(&shop.ram);
    pthread_mutex_init(&shop.gate_lock, NULL);
    open_shop();
    journal_listen(shop.journal, on_moved, &shop.moved);
    const struct gate_command start[] = {
        {.kind = GATE_LOAD_SALE, .sale = 1, .starts_at_ms = 1, .ends_at_ms = 100000, .event = 1},
        {.kind = GATE_LOAD_ITEM, .sale = 1, .item = 5, .amount = 100000, .limit = 1, .event = 2},
        {.kind = GATE_OPEN, .sale = 1, .starts_at_ms = 1, .event = 3},
    };
    for (size_t i = 0; i < sizeof(start) / sizeof(start[0]); i++) {
        must_apply(&start[i]);
    }
    pthread_t appenders[APPENDERS];
    pthread_t flusher;
    pthread_t booker;
    pthread_t tidier;
    assert_int_equal(pthread_create(&flusher, NULL, flush, NULL), 0);
    assert_int_equal(pthread_create(&booker, NULL, book, NULL), 0);
    assert_int_equal(pthread_create(&tidier, NULL, tidy, NULL), 0);
    for (uintptr_t i = 0; i < APPENDERS; i++) {
        assert_int_equal(pthread_create(&appenders[i], NULL, append, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < APPENDERS; i++) {
        pthread_join(appenders[i], NULL);
    }
    journal_stop(shop.journal);
    pthread_join(flusher, NULL);
    atomic_store(&shop.over, true);
    pthread_join(booker, NULL);
    pthread_join(tidier, NULL);
    assert_int_equal(journal_durable_lsn(shop.journal), shop.appended);
    assert_int_equal(atomic_load(&shop.booked), shop.appended);
    assert_true(atomic_load(&shop.moved) > 0);
    uint32_t orders = shop.box.gate.order_pool.used;
    journal_free(shop.journal);
    gate_box_done(&shop.box);
    struct prng prng = prng_of(1);
    ram_disk_crash(&shop.ram, RAM_DROP, &prng);
    open_shop();
    assert_int_equal(shop.box.gate.order_pool.used, orders);
    gate_audit(&shop.box.gate);
    journal_free(shop.journal);
    gate_box_done(&shop.box);
    pthread_mutex_destroy(&shop.gate_lock);
    ram_disk_done(&shop.ram);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_threads_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
