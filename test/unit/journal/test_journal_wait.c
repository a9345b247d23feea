/*
 * Waiting for work: a record, a stop and a latch each end the sleep of the journal thread, and it
 * does not begin where one of them came first. One of the two threads here always sleeps, so
 * nothing runs at the same time (test_journal_mt.c does that), and script/coverage counts it.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/err.h"
#include "journal/journal_private.h"
#include "journal_fixture.h"

static pthread_t sleeper;

static void *wait_for_work(void *context)
{
    *(bool *)context = journal_wait(world.journal);
    return NULL;
}

/* Returns once the thread sleeps. */
static void fall_asleep(bool *ret_go_on)
{
    assert_int_equal(pthread_create(&sleeper, NULL, wait_for_work, ret_go_on), 0);
    for (bool asleep = false; !asleep; sched_yield()) {
        pthread_mutex_lock(&world.journal->lock);
        asleep = world.journal->waiting;
        pthread_mutex_unlock(&world.journal->lock);
    }
}

static uint64_t append_one(void)
{
    struct gate_command skip = {.kind = GATE_SKIP, .event = ++world.event, .now_ms = 1};
    uint64_t lsn = 0;
    assert_int_equal(gate_content_append(world.journal, &skip, &lsn), 0);
    return lsn;
}

static void a_record_wakes_it_once(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 3; i++) {
        bool go_on = false;
        bool wrote = false;
        fall_asleep(&go_on);
        assert_int_equal(append_one(), i);
        assert_int_equal(pthread_join(sleeper, NULL), 0);
        assert_true(go_on);
        assert_false(world.journal->waiting);
        assert_true(journal_wait(world.journal)); /* what is there to be flushed is not slept on */
        assert_int_equal(journal_flush(world.journal, &wrote), 0);
        assert_true(wrote);
        assert_int_equal(journal_durable_lsn(world.journal), i);
    }
}

static void a_stop_wakes_it_and_nothing_sleeps_after(void **state)
{
    (void)state;
    bool go_on = true;
    fall_asleep(&go_on);
    journal_stop(world.journal);
    assert_int_equal(pthread_join(sleeper, NULL), 0);
    assert_false(go_on);
    assert_false(journal_wait(world.journal));
    append_one(); /* is there all the same, and has to be flushed */
    assert_false(journal_wait(world.journal));
    bool wrote = false;
    assert_int_equal(journal_flush(world.journal, &wrote), 0);
    assert_true(wrote);
}

static void a_latched_journal_is_not_waited_for(void **state)
{
    (void)state;
    append_one();
    world.ram.fail_at = world.ram.ops + 1;
    world.ram.fail_code = ERR_IO;
    bool wrote = false;
    assert_int_equal(journal_flush(world.journal, &wrote), ERR_IO);
    assert_true(journal_failed(world.journal));
    assert_false(journal_wait(world.journal));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_empty, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_record_wakes_it_once),
        TEST(a_stop_wakes_it_and_nothing_sleeps_after),
        TEST(a_latched_journal_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
