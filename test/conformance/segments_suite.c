/*
 * See segments_suite.h. A test begins with empty servers and one worker; most of them begin by
 * rebuilding segment 0 with one sale (1, from 1000 to 9000) and two items of ten units: 11, one each,
 * and 12 without a limit. Times are small, so that they are nowhere near a real clock.
 */
#include "segments_suite_private.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TICKET_EXPIRES_MS 50000

struct suite suite;

static const struct gate_sizes sizes = {.orders = 100, .buyers = 100, .items = 8, .sales = 4};

/* ---- steps, calls, asks ---- */

struct segment_step suite_begin(uint64_t event)
{
    return (struct segment_step){.kind = STEP_BEGIN, .event = event, .sizes = sizes};
}

struct segment_step suite_sale(enum sale_state state)
{
    return (struct segment_step){
        .kind = STEP_SALE, .sale = 1, .starts_at_ms = 1000, .ends_at_ms = 9000, .state = state};
}

struct segment_step suite_item(uint64_t id, uint32_t limit)
{
    return (struct segment_step){.kind = STEP_ITEM,
                                 .sale = 1,
                                 .item = id,
                                 .total = UNITS,
                                 .available = UNITS,
                                 .limit = limit};
}

enum segment_outcome suite_rebuild_at(uint32_t segment, uint64_t fence,
                                      const struct segment_step *steps, size_t count)
{
    return segments_rebuild(suite.segments, segment, suite.epoch, fence, steps, count);
}

enum segment_outcome suite_rebuild_one(uint64_t fence, struct segment_step step)
{
    return suite_rebuild_at(0, fence, &step, 1);
}

void suite_fill(uint32_t segment, uint64_t fence, bool open)
{
    const struct segment_step steps[] = {suite_begin(EVENT),
                                         suite_sale(SALE_OPEN),
                                         suite_item(11, 1),
                                         suite_item(12, 0),
                                         {.kind = STEP_OPEN}};
    assert_int_equal(SEGMENT_DONE, suite_rebuild_at(segment, fence, steps, open ? 5 : 4));
    suite.ut->place(suite.ut->context, segment, suite.epoch);
}

/* All segments under a higher epoch. */
void suite_rebuild_all(uint64_t fence)
{
    suite.epoch++;
    suite.after = EVENT;
    for (uint32_t i = 0; i < SUITE_SEGMENTS; i++) {
        suite_fill(i, fence, true);
    }
}

struct segment_call suite_event(enum gate_kind kind, struct order_id id)
{
    return (struct segment_call){.epoch = suite.epoch,
                                 .after = suite.after,
                                 .command = {.kind = kind,
                                             .event = suite.after + 1,
                                             .now_ms = 2500,
                                             .id = id,
                                             .item = order_id_item(id),
                                             .sale = 1,
                                             .qty = 50,
                                             .time_ms = 7000,
                                             .amount = 1,
                                             .starts_at_ms = 1000,
                                             .ends_at_ms = 9000}};
}

enum segment_outcome suite_apply(struct segment_call *call)
{
    segments_apply(suite.segments, call, 1);
    if (call->outcome == SEGMENT_DONE && call->verdict == VERDICT_DONE &&
        call->command.kind != GATE_RESERVE && call->command.event > suite.after) {
        suite.after = call->command.event;
    }
    return call->outcome;
}

void suite_apply_done(struct segment_call call)
{
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(VERDICT_DONE, call.verdict);
}

/* Fresh ids name their segment; the sequence makes them differ. */
struct order_id suite_fresh(uint64_t of_item, uint32_t sequence)
{
    return order_id_fresh(of_item, 2000, sequence * SEGMENTS_MAX);
}

struct gate_request suite_buy(uint64_t user, struct order_id id, uint32_t qty)
{
    return (struct gate_request){.kind = GATE_REQUEST_BUY,
                                 .id = id,
                                 .user = user,
                                 .item = order_id_item(id),
                                 .qty = qty,
                                 .ticket_expires_ms = TICKET_EXPIRES_MS,
                                 .now_ms = 2000};
}

enum refusal suite_ask(struct gate_request *kind)
{
    suite.ut->request(suite.ut->context, kind);
    assert_int_equal(GATE_OUTCOME_ANSWERED, kind->outcome);
    return kind->refusal;
}

enum gate_outcome suite_outcome(struct gate_request *kind)
{
    suite.ut->request(suite.ut->context, kind);
    return kind->outcome;
}

struct order_id suite_bought(uint64_t user, struct order_id id, uint32_t qty)
{
    struct gate_request kind = suite_buy(user, id, qty);
    assert_int_equal(REFUSAL_NONE, suite_ask(&kind));
    assert_false(kind.existed);
    return id;
}

/* The same decision again. */
struct segment_call suite_again(uint64_t user, struct order_id id, uint32_t qty, int64_t now_ms)
{
    return (struct segment_call){.epoch = suite.epoch,
                                 .command = {.kind = GATE_RESERVE,
                                             .now_ms = now_ms,
                                             .id = id,
                                             .user = user,
                                             .item = order_id_item(id),
                                             .qty = qty,
                                             .ticket_expires_ms = TICKET_EXPIRES_MS}};
}

void suite_assert_item(uint64_t id, uint64_t available, uint64_t locked, uint64_t sold)
{
    struct gate_request kind = {.kind = GATE_REQUEST_ITEM, .item = id};
    assert_int_equal(REFUSAL_NONE, suite_ask(&kind));
    assert_int_equal(available, kind.view.available);
    assert_int_equal(locked, kind.view.locked);
    assert_int_equal(sold, kind.view.sold);
    assert_int_equal(available + locked + sold, kind.view.total);
}

struct segment_state suite_look(uint32_t segment)
{
    struct segment_state state;
    segments_look(suite.segments, segment, &state);
    return state;
}

/* ---- the whole ---- */

static int set_up(void **state)
{
    (void)state;
    suite.epoch = 0;
    suite.after = 0;
    suite.ut->reset(suite.ut->context);
    suite.segments = suite.ut->open(suite.ut->context, 1);
    return suite.segments == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    suite.ut->close(suite.ut->context, suite.segments);
    return 0;
}

#define X(name) cmocka_unit_test_setup_teardown(suite_##name, set_up, tear_down),

int segments_suite_run(const struct segments_under_test *under_test)
{
    const struct CMUnitTest tests[] = {SUITE_TESTS(X)};
    suite.ut = under_test;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
