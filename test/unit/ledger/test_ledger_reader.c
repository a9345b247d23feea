/* The ledger reader: questions about the ledger are answered by its thread, each to the loop that asked. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "ledger/ledger_reader.h"
#include "ledger_writer_world.h"

static struct ledger_writer_world world;
static struct ledger_reader *ledger_reader;
static pthread_t thread;

static void *run(void *context)
{
    ledger_reader_run(context);
    return NULL;
}

static int set_up(void **state)
{
    (void)state;
    ledger_writer_world_init(&world);
    if (ledger_writer_world_up(&world) != 0) {
        return -1;
    }
    ledger_writer_world_open_sale(&world);
    if (ledger_reader_new(world.wakers, &world.ledger.ledger, LEDGER_WRITER_LOOPS,
                          &ledger_reader) != 0) {
        return -1;
    }
    return pthread_create(&thread, NULL, run, ledger_reader);
}

static int tear_down(void **state)
{
    (void)state;
    ledger_reader_stop(ledger_reader); /* also when it has nothing to do */
    (void)pthread_join(thread, NULL);
    ledger_reader_free(ledger_reader);
    ledger_writer_world_done(&world);
    return 0;
}

static struct ledger_reader_query *wait_for_answer(uint32_t loop)
{
    struct ledger_reader_query *query;
    while ((query = ledger_reader_collect(ledger_reader, loop)) == NULL) {
        sched_yield();
    }
    return query;
}

static void an_answer_comes_back_to_the_loop_that_asked(void **state)
{
    (void)state;
    struct sale_row *sale = NULL;
    struct ledger_reader_query query = {
        .loop = 1,
        .owner = &world,
        .query = {.kind = QUERY_SALES, .sale = LEDGER_WRITER_SALE, .limit = 1, .sales = &sale}};
    waker_sleepy(&world.wakers[0], UINT64_MAX);
    waker_sleepy(&world.wakers[1], UINT64_MAX);
    ledger_reader_post(ledger_reader, &query);
    struct ledger_reader_query *answer = wait_for_answer(1);
    assert_ptr_equal(answer, &query);
    assert_null(answer->post.next);
    assert_ptr_equal(answer->owner, &world);
    assert_int_equal(answer->query.error, 0);
    assert_int_equal(answer->query.count, 1);
    assert_string_equal(sale->name, "a sale");
    sale_row_free(sale);
    assert_null(ledger_reader_collect(ledger_reader, 0));
    while (atomic_load(&world.wakes[1]) == 0) { /* the post comes first, then the wake */
        sched_yield();
    }
    assert_int_equal(atomic_load(&world.wakes[0]), 0);
}

static void questions_are_answered_in_order_and_once(void **state)
{
    (void)state;
    enum { MANY = 500 };
    static struct ledger_reader_query queries[MANY];
    static struct ledger_event events[MANY][4];
    memset(queries, 0, sizeof(queries));
    for (uint64_t i = 0; i < MANY; i++) {
        queries[i].loop = (uint32_t)(i % LEDGER_WRITER_LOOPS);
        queries[i].query = (struct ledger_query){
            .kind = QUERY_EVENTS, .after = i % 3, .limit = 4, .events = events[i]};
        ledger_reader_post(ledger_reader, &queries[i]);
    }
    for (uint32_t loop = 0; loop < LEDGER_WRITER_LOOPS; loop++) {
        uint64_t next = loop;
        while (next < MANY) {
            const struct post *post = &wait_for_answer(loop)->post;
            for (; post != NULL; post = post->next) {
                const struct ledger_reader_query *query = (const struct ledger_reader_query *)post;
                assert_ptr_equal(query, &queries[next]);
                assert_int_equal(query->query.error, 0);
                assert_int_equal(query->query.events[0].number, next % 3 + 1);
                next += LEDGER_WRITER_LOOPS;
            }
        }
        assert_null(ledger_reader_collect(ledger_reader, loop));
    }
}

static void errors_are_the_askers(void **state)
{
    (void)state;
    struct order_row row;
    struct ledger_reader_query unknown = {
        .query = {.kind = QUERY_ORDER, .id = {1, 2}, .orders = &row}};
    ledger_reader_post(ledger_reader, &unknown);
    assert_ptr_equal(wait_for_answer(0), &unknown);
    assert_int_equal(unknown.query.error, ERR_NOTFOUND);
    world.ledger.fail_read = ERR_IO;
    struct ledger_reader_query failing = {.query = {.kind = QUERY_STATE}};
    ledger_reader_post(ledger_reader, &failing);
    assert_ptr_equal(wait_for_answer(0), &failing);
    assert_int_equal(failing.query.error, ERR_IO);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_answer_comes_back_to_the_loop_that_asked),
        TEST(questions_are_answered_in_order_and_once),
        TEST(errors_are_the_askers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
