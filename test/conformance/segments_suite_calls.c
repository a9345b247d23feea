/* See segments_suite.c. Here: rebuilding, events, decisions made again, transfers. */
#include "segments_suite_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* ---- rebuilding ---- */

void suite_where_there_is_nothing_nothing_happens(void **state)
{
    (void)state;
    struct segment_state seen = suite_look(0);
    assert_int_equal(SEGMENT_STALE, seen.outcome);
    assert_int_equal(0, seen.epoch);
    assert_false(seen.open);
    assert_int_equal(0, seen.outbox);
    assert_int_equal(0, seen.oldest_ms);
    suite.epoch = 5;
    struct segment_call call = suite_event(GATE_SKIP, suite_fresh(12, 1));
    assert_int_equal(SEGMENT_STALE, suite_apply(&call));
    call = suite_again(7, suite_fresh(12, 1), 1, 2000);
    assert_int_equal(SEGMENT_STALE, suite_apply(&call));
    assert_int_equal(SEGMENT_STALE, suite_rebuild_one(0, suite_sale(SALE_OPEN)));
    assert_int_equal(SEGMENT_STALE, suite_rebuild_one(0, (struct segment_step){.kind = STEP_OPEN}));
    suite.ut->place(suite.ut->context, 0, suite.epoch);
    struct gate_request kind = suite_buy(7, suite_fresh(12, 1), 1);
    assert_int_equal(GATE_OUTCOME_UNKNOWN, suite_outcome(&kind));
    assert_int_equal(0, suite_look(0).epoch);
}

void suite_a_closed_segment_is_filled_and_opened(void **state)
{
    (void)state;
    struct order_id paid = order_id_once(11, 7, 0);
    struct order_id locked = suite_fresh(12, 1);
    const struct segment_step steps[] = {
        suite_begin(EVENT),
        suite_sale(SALE_OPEN),
        {.kind = STEP_BUYER, .item = 11, .user = 7, .held = 1},
        {.kind = STEP_BUYER, .item = 12, .user = 7, .held = 3, .failed_attempts = 2, .live = 1},
        {.kind = STEP_BUYER, .item = 12, .user = 8, .barred = true, .failed_attempts = 1},
        {.kind = STEP_BUYER, .item = 12, .user = 10, .cooling_until_ms = 2001},
        {.kind = STEP_BUYER, .item = 12, .user = 11, .cooling_until_ms = 2000},
        {.kind = STEP_ORDER,
         .item = 11,
         .order = {.id = paid,
                   .user = 7,
                   .item = 11,
                   .qty = 1,
                   .state = ORDER_PAID,
                   .version = 3,
                   .created_at_ms = 1500,
                   .pay_by_ms = 5000}},
        {.kind = STEP_ORDER,
         .item = 12,
         .order = {.id = locked,
                   .user = 7,
                   .item = 12,
                   .qty = 3,
                   .state = ORDER_LOCKED,
                   .version = 2,
                   .created_at_ms = 1600,
                   .pay_by_ms = 6000}},
        {.kind = STEP_ITEM,
         .sale = 1,
         .item = 11,
         .total = 10,
         .available = 9,
         .sold = 1,
         .limit = 1,
         .buyers = 1},
        {.kind = STEP_ITEM,
         .sale = 1,
         .item = 12,
         .total = 10,
         .available = 7,
         .locked = 3,
         .buyers = 2,
         .live = 1},
    };
    suite.epoch = 3;
    suite.after = EVENT;
    assert_int_equal(SEGMENT_DONE, suite_rebuild_at(0, 4, steps, sizeof(steps) / sizeof(steps[0])));
    struct segment_state seen = suite_look(0);
    assert_int_equal(SEGMENT_DONE, seen.outcome);
    assert_true(seen.epoch == 3 && !seen.open && seen.event == EVENT && seen.fence == 4);
    suite.ut->place(suite.ut->context, 0, suite.epoch);
    struct gate_request kind = suite_buy(9, suite_fresh(12, 2), 1);
    assert_int_equal(GATE_OUTCOME_UNKNOWN, suite_outcome(&kind));
    kind = (struct gate_request){.kind = GATE_REQUEST_ORDER, .id = locked, .user = 7};
    assert_int_equal(GATE_OUTCOME_UNKNOWN, suite_outcome(&kind));
    for (int i = 0; i < 2; i++) { /* twice is once */
        assert_int_equal(SEGMENT_DONE,
                         suite_rebuild_one(4, (struct segment_step){.kind = STEP_OPEN}));
        assert_true(suite_look(0).open);
    }
    suite_assert_item(11, 9, 0, 1);
    suite_assert_item(12, 7, 3, 0);
    kind = (struct gate_request){.kind = GATE_REQUEST_ORDER, .id = locked, .user = 7};
    assert_int_equal(REFUSAL_NONE, suite_ask(&kind));
    assert_true(kind.order.user == 7 && kind.order.item == 12 && kind.order.qty == 3);
    assert_true(kind.order.state == ORDER_LOCKED && kind.order.version == 2);
    assert_true(kind.order.created_at_ms == 1600 && kind.order.pay_by_ms == 6000);
    kind = suite_buy(7, paid, 1);
    assert_int_equal(REFUSAL_NONE, suite_ask(&kind));
    assert_true(kind.existed && kind.order.state == ORDER_PAID);
    kind = (struct gate_request){.kind = GATE_REQUEST_TICKET, .user = 7, .item = 12};
    assert_int_equal(REFUSAL_NONE, suite_ask(&kind));
    assert_true(kind.held == 3 && kind.attempt == 2);
    kind = suite_buy(8, suite_fresh(12, 3), 1);
    assert_int_equal(REFUSAL_BARRED, suite_ask(&kind));
    assert_int_equal(0, kind.cooling_until_ms);
    kind = suite_buy(10, suite_fresh(12, 4), 1);
    assert_int_equal(REFUSAL_BARRED, suite_ask(&kind));
    assert_int_equal(2001, kind.cooling_until_ms);
    suite_apply_done(suite_event(GATE_EXPIRE, locked)); /* what was filled moves on */
    suite_assert_item(12, 10, 0, 0);
    (void)suite_bought(11, suite_fresh(12, 5), 1); /* his time is over */
}

/* Answers are lost; the caller that rebuilds sends the steps without an answer again. */
void suite_rebuilding_again_changes_nothing(void **state)
{
    (void)state;
    suite.epoch = 1;
    suite.after = EVENT;
    suite_fill(0, 0, false);
    suite_fill(0, 0, false);
    suite_fill(0, 0, true);
    struct segment_step other = suite_item(11, 1);
    other.available = other.total = 3;
    (void)suite_rebuild_one(0, other); /* to an open one nothing is written */
    suite_assert_item(11, 10, 0, 0);
    (void)suite_bought(7, suite_fresh(12, 1), 2);
    suite_apply_done(suite_event(GATE_PAUSE, suite_fresh(12, 1)));
    suite_fill(0, 0, true); /* it is open, and has moved on */
    suite_assert_item(12, 8, 2, 0);
    assert_int_equal(EVENT + 1, suite_look(0).event);
    struct gate_request kind = suite_buy(8, suite_fresh(12, 2), 1);
    assert_int_equal(REFUSAL_NOT_OPEN, suite_ask(&kind));
}

/* A decision comes again while the rest is still being filled: neither disturbs the other. */
void suite_what_changed_since_it_was_filled_is_left_alone(void **state)
{
    (void)state;
    const struct segment_step first[] = {suite_begin(EVENT), suite_sale(SALE_OPEN),
                                         suite_item(12, 0)};
    suite.epoch = 1;
    suite.after = EVENT;
    assert_int_equal(SEGMENT_DONE, suite_rebuild_at(0, 5, first, 3));
    struct segment_call call = suite_again(7, suite_fresh(12, 1), 2, 2000);
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(VERDICT_DONE, call.verdict);
    call = suite_again(7, suite_fresh(11, 1), 1, 2000); /* not there yet */
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(REFUSAL_NO_SUCH_ITEM, call.refusal);
    assert_int_equal(SEGMENT_DONE, suite_rebuild_one(5, suite_item(11, 1)));
    (void)suite_rebuild_one(5, suite_item(12, 0));
    (void)suite_rebuild_one(5, (struct segment_step){.kind = STEP_BUYER, .item = 12, .user = 7});
    assert_int_equal(SEGMENT_DONE, suite_rebuild_one(5, (struct segment_step){.kind = STEP_OPEN}));
    suite.ut->place(suite.ut->context, 0, suite.epoch);
    suite_assert_item(11, 10, 0, 0);
    suite_assert_item(12, 8, 2, 0);
    struct gate_request kind = suite_buy(7, suite_fresh(12, 1), 2);
    assert_int_equal(REFUSAL_NONE, suite_ask(&kind));
    assert_true(kind.existed && kind.held == 2);
}

void suite_a_higher_epoch_begins_anew(void **state)
{
    (void)state;
    suite.epoch = 4;
    suite.after = EVENT;
    suite_fill(0, 0, true);
    (void)suite_bought(7, suite_fresh(12, 1), 2);
    suite.epoch = 3;
    assert_int_equal(SEGMENT_STALE, suite_rebuild_one(0, suite_begin(EVENT)));
    suite.epoch = 4;
    assert_int_equal(SEGMENT_DONE, suite_rebuild_one(0, suite_begin(EVENT))); /* it is there */
    assert_true(suite_look(0).open);
    suite.epoch = 5;
    suite_fill(0, 0, false);
    struct segment_state seen = suite_look(0);
    assert_true(seen.epoch == 5 && !seen.open);
    assert_int_equal(1, seen.outbox); /* what was decided before is still on its way */
    assert_int_equal(SEGMENT_STALE,
                     suite_rebuild_one(0, suite_begin(EVENT + 1))); /* as of another event */
    suite.epoch = 4;
    assert_int_equal(SEGMENT_STALE, suite_rebuild_one(0, (struct segment_step){.kind = STEP_OPEN}));
    struct segment_call call = suite_event(GATE_SKIP, suite_fresh(12, 1));
    assert_int_equal(SEGMENT_STALE, suite_apply(&call));
    suite.epoch = 5;
    assert_int_equal(SEGMENT_DONE, suite_rebuild_one(0, (struct segment_step){.kind = STEP_OPEN}));
    suite_assert_item(12, 10, 0, 0);
    struct gate_request kind = {.kind = GATE_REQUEST_ORDER, .id = suite_fresh(12, 1), .user = 7};
    assert_int_equal(REFUSAL_NOT_FOUND, suite_ask(&kind));
}

void suite_an_order_that_failed_elsewhere_is_noted(void **state)
{
    (void)state;
    suite.epoch = 1;
    suite.after = EVENT;
    suite_fill(0, 0, true);
    struct order_id id = order_id_once(11, 7, 0);
    struct segment_call call = suite_event(GATE_FAIL_ORDER, id);
    call.command.reason = REFUSAL_NO_STOCK;
    assert_int_equal(SEGMENT_DONE, suite_apply(&call)); /* nobody knows whose it was */
    assert_true(call.verdict == VERDICT_REFUSED && call.refusal == REFUSAL_NOT_FOUND);
    call = suite_event(GATE_FAIL_ORDER, id);
    call.command.reason = REFUSAL_NO_STOCK;
    call.command.user = 7;
    call.command.qty = 1;
    suite_apply_done(call);
    suite_assert_item(11, 10, 0, 0);
    struct gate_request kind = {.kind = GATE_REQUEST_ORDER, .id = id, .user = 7};
    assert_int_equal(REFUSAL_NONE, suite_ask(&kind));
    assert_int_equal(ORDER_FAILED, kind.order.state);
    assert_int_equal(REFUSAL_NO_STOCK, kind.order.reason);
    assert_int_equal(7, kind.order.user);
    assert_int_equal(2, kind.order.version);
    /* The old ticket shows it; a new one meets another order. */
    kind = (struct gate_request){.kind = GATE_REQUEST_TICKET, .item = 11, .user = 7};
    assert_int_equal(REFUSAL_NONE, suite_ask(&kind));
    assert_true(kind.attempt == 1 && kind.held == 0);
    kind = suite_buy(7, id, 1);
    assert_int_equal(REFUSAL_NONE, suite_ask(&kind));
    assert_true(kind.existed && kind.order.state == ORDER_FAILED);
    (void)suite_bought(7, order_id_once(11, 7, 1), 1);
}

void suite_a_lower_token_changes_nothing(void **state)
{
    (void)state;
    static const enum gate_kind kinds[] = {GATE_CONFIRM,     GATE_RESTOCK, GATE_PAUSE,
                                           GATE_FORGET,      GATE_SKIP,    GATE_RESERVE,
                                           GATE_TRANSFER_OUT};
    suite.epoch = 1;
    suite.after = EVENT;
    suite_fill(0, 8, true);
    struct order_id id = suite_bought(7, suite_fresh(12, 1), 1);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct segment_call call = suite_event(kinds[i], id);
        call.fence = 7;
        call.command.event = kinds[i] == GATE_TRANSFER_OUT ? 0 : call.command.event;
        assert_int_equal(SEGMENT_FENCED, suite_apply(&call));
    }
    suite.epoch = 2;
    assert_int_equal(SEGMENT_FENCED, suite_rebuild_one(7, suite_begin(EVENT)));
    assert_int_equal(SEGMENT_FENCED, suite_rebuild_one(0, suite_begin(EVENT)));
    assert_true(suite_look(0).epoch == 1 && suite_look(0).fence == 8);
    suite.epoch = 1;
    suite_apply_done(suite_event(GATE_CONFIRM, id)); /* without a token: of an open segment, yes */
    assert_int_equal(8, suite_look(0).fence);
    struct segment_call call = suite_event(GATE_SKIP, id);
    call.fence = 9;
    suite_apply_done(call);
    assert_int_equal(9, suite_look(0).fence);
    call = suite_event(GATE_SKIP, id);
    call.fence = 8;
    assert_int_equal(SEGMENT_FENCED, suite_apply(&call));
}

void suite_events_wait_until_it_is_rebuilt(void **state)
{
    (void)state;
    suite.epoch = 1;
    suite.after = EVENT;
    suite_fill(0, 8, false);
    struct segment_call call = suite_event(GATE_RESTOCK, suite_fresh(12, 1));
    assert_int_equal(SEGMENT_STALE, suite_apply(&call));
    call.fence = 7;
    assert_int_equal(SEGMENT_FENCED, suite_apply(&call));
    call.fence = 8; /* the caller that rebuilds it may */
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(VERDICT_DONE, call.verdict);
    call = suite_event(GATE_PAUSE, suite_fresh(12, 1));
    call.fence = 8;
    suite_apply_done(call);
    (void)suite_rebuild_one(8, suite_sale(SALE_OPEN)); /* what is older is not written over it */
    assert_int_equal(SEGMENT_FENCED,
                     suite_rebuild_one(7, (struct segment_step){.kind = STEP_OPEN}));
    assert_false(suite_look(0).open);
    assert_int_equal(SEGMENT_DONE, suite_rebuild_one(8, (struct segment_step){.kind = STEP_OPEN}));
    suite_apply_done(suite_event(GATE_RESTOCK, suite_fresh(12, 1)));
    suite_apply_done(suite_event(GATE_RETIME, suite_fresh(12, 1)));
    suite_assert_item(12, 12, 0, 0);
    struct gate_request kind = suite_buy(7, suite_fresh(12, 1), 1);
    assert_int_equal(REFUSAL_NOT_OPEN, suite_ask(&kind));
}

/* ---- events ---- */

void suite_events_are_applied_once_and_in_their_order(void **state)
{
    (void)state;
    static const enum gate_kind kinds[] = {GATE_CONFIRM, GATE_RESTOCK, GATE_PAUSE, GATE_FORGET,
                                           GATE_SKIP};
    suite_rebuild_all(0);
    struct order_id id = suite_bought(7, suite_fresh(12, 1), 1);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct segment_call call = suite_event(kinds[i], id);
        call.command.event = EVENT + 9;
        call.after = EVENT + 8;
        assert_int_equal(SEGMENT_GAP, suite_apply(&call));
        call.command.event = EVENT;
        call.after = EVENT - 1;
        assert_int_equal(SEGMENT_DONE, suite_apply(&call));
        assert_int_equal(VERDICT_ALREADY_APPLIED, call.verdict);
    }
    assert_int_equal(EVENT, suite_look(0).event);
    struct segment_call call = suite_event(GATE_RESTOCK, id);
    call.command.event = EVENT + 9; /* numbers of other segments lie between */
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(VERDICT_DONE, call.verdict);
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(VERDICT_ALREADY_APPLIED, call.verdict);
    suite_assert_item(12, 10, 1, 0);
    call = suite_event(GATE_CONFIRM, id);
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_true(call.has_order && call.order.state == ORDER_LOCKED && call.order.pay_by_ms == 7000);
    assert_true(order_id_equal(call.order.id, id) && call.order.user == 7);
}

#define MANY 1500

/* In by 2, out by 2, from nothing: out of order, an "out" would find nothing. */
void suite_many_events_go_in_one_call(void **state)
{
    (void)state;
    static struct segment_call calls[MANY];
    suite_rebuild_all(0);
    struct segment_call call = suite_event(GATE_TRANSFER_OUT, suite_fresh(12, 1));
    call.command.amount = UNITS;
    suite_apply_done(call);
    uint64_t last[SUITE_SEGMENTS] = {suite.after, EVENT, EVENT};
    for (uint32_t i = 0, in = 0; i < MANY; i++) {
        uint32_t segment = i % 7 == 3 ? 1 : 0;
        in = segment == 0 ? !in : in;
        calls[i] = suite_event(segment == 1 ? GATE_RESTOCK
                               : in         ? GATE_TRANSFER_IN
                                            : GATE_TRANSFER_OUT,
                               suite_fresh(12, 1));
        calls[i].segment = segment;
        calls[i].after = last[segment];
        calls[i].command.event = last[segment] = suite.after + 1 + i;
        calls[i].command.amount = 2;
    }
    segments_apply(suite.segments, calls, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(SEGMENT_DONE, calls[i].outcome);
        assert_int_equal(VERDICT_DONE, calls[i].verdict);
    }
    assert_int_equal(last[0], suite_look(0).event);
    assert_int_equal(last[1], suite_look(1).event);
    segments_apply(suite.segments, calls, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(VERDICT_ALREADY_APPLIED, calls[i].verdict);
    }
}

void suite_behind_a_refused_event_the_others_wait(void **state)
{
    (void)state;
    struct segment_call calls[6];
    suite_rebuild_all(0);
    for (uint32_t i = 0; i < 6; i++) {
        calls[i] = suite_event(GATE_RESTOCK, suite_fresh(12, 1));
        calls[i].segment = i == 5 ? 1 : 0;
        calls[i].command.event = EVENT + 1 + i;
        calls[i].after = i == 5 ? EVENT : EVENT + i;
    }
    calls[2].command.item = 99;
    segments_apply(suite.segments, calls, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(i == 3 || i == 4 ? SEGMENT_GAP : SEGMENT_DONE, calls[i].outcome);
    }
    assert_true(calls[2].verdict == VERDICT_REFUSED && calls[2].refusal == REFUSAL_NO_SUCH_ITEM);
    assert_int_equal(EVENT + 2, suite_look(0).event);
    calls[2].command.kind = GATE_SKIP;
    segments_apply(suite.segments, calls + 2, 3);
    for (uint32_t i = 2; i < 5; i++) {
        assert_int_equal(SEGMENT_DONE, calls[i].outcome);
        assert_int_equal(VERDICT_DONE, calls[i].verdict);
    }
    suite_assert_item(12, 14, 0, 0);
}

/* Orders make the buckets of an item uneven; every one of them goes. */
void suite_a_sale_is_forgotten_bit_by_bit(void **state)
{
    (void)state;
    suite_rebuild_all(0);
    for (uint32_t i = 0; i < 5; i++) {
        (void)suite_bought(100 + i, suite_fresh(12, i), 1);
    }
    suite_apply_done(suite_event(GATE_CLOSE, suite_fresh(12, 1)));
    struct segment_call calls[2] = {suite_event(GATE_FORGET, suite_fresh(12, 1)),
                                    suite_event(GATE_SKIP, suite_fresh(12, 1))};
    calls[0].command.qty = 3;
    calls[1].command.event++;
    calls[1].after = calls[0].command.event;
    int more = 0;
    do {
        assert_true(more++ < TRIES_MAX);
        segments_apply(suite.segments, calls, 2);
        assert_int_equal(SEGMENT_DONE, calls[0].outcome);
        assert_int_equal(calls[0].verdict == VERDICT_MORE ? SEGMENT_GAP : SEGMENT_DONE,
                         calls[1].outcome);
    } while (calls[0].verdict == VERDICT_MORE);
    assert_true(more > 2);
    struct gate_request kind = {.kind = GATE_REQUEST_ITEM, .item = 12};
    assert_int_equal(REFUSAL_NO_SUCH_ITEM, suite_ask(&kind));
}

/* ---- the ledger's clock ---- */

/* A sale that begins in a minute by the server's clock, and the answer to a buy now. */
static enum refusal asked_before_the_start(int64_t server_ms, int64_t ledger_ms, bool by_event)
{
    struct segment_step begin = suite_begin(EVENT);
    struct segment_step sale = suite_sale(SALE_WARM);
    begin.highest_ms = by_event ? server_ms : ledger_ms;
    sale.starts_at_ms = server_ms + 60000;
    sale.ends_at_ms = server_ms + 120000;
    const struct segment_step steps[] = {begin, sale, suite_item(12, 0), {.kind = STEP_OPEN}};
    suite.epoch++;
    suite.after = EVENT;
    assert_int_equal(SEGMENT_DONE, suite_rebuild_at(0, 0, steps, 4));
    suite.ut->place(suite.ut->context, 0, suite.epoch);
    if (by_event) {
        struct segment_call call = suite_event(GATE_SKIP, suite_fresh(12, 1));
        call.command.now_ms = ledger_ms;
        suite_apply_done(call);
    }
    struct gate_request kind = suite_buy(7, suite_fresh(12, 1), 1);
    kind.now_ms = server_ms;
    kind.ticket_expires_ms = server_ms + 100000;
    return suite_ask(&kind);
}

void suite_the_ledger_backends_clock_opens_no_sale(void **state)
{
    (void)state;
    int64_t server_ms = suite_look(0).server_ms;
    for (int by_event = 0; by_event <= 1; by_event++) {
        assert_int_equal(REFUSAL_TOO_EARLY,
                         asked_before_the_start(server_ms, server_ms + 90000, by_event != 0));
    }
}

/* ---- decisions made again ---- */

void suite_a_decision_again_is_made_with_its_own_time(void **state)
{
    (void)state;
    suite_rebuild_all(0);
    (void)suite_bought(7, suite_fresh(12, 1), 1); /* at 2000: the highest time so far */
    struct segment_call call = suite_again(8, suite_fresh(12, 2), 2, 1500);
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(VERDICT_DONE, call.verdict);
    assert_true(call.has_order && call.order.created_at_ms == 1500);
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(VERDICT_ALREADY_APPLIED, call.verdict);
    suite_assert_item(12, 7, 3, 0);
    call = suite_again(9, suite_fresh(12, 3), 1, 8999);
    call.command.ticket_expires_ms = 3000; /* it had not expired when the order was accepted */
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(VERDICT_DONE, call.verdict);
    call = suite_again(9, suite_fresh(12, 4), 1, 9000);
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(REFUSAL_ENDED, call.refusal);
    call = suite_again(9, suite_fresh(12, 4), 1, 999);
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(REFUSAL_TOO_EARLY, call.refusal);
    suite_assert_item(12, 6, 4, 0);
}

void suite_a_decision_again_meets_a_sale_that_was_paused_or_closed_since(void **state)
{
    (void)state;
    suite_rebuild_all(0);
    suite_apply_done(suite_event(GATE_PAUSE, suite_fresh(12, 1)));
    struct gate_request kind = suite_buy(7, suite_fresh(12, 1), 1);
    assert_int_equal(REFUSAL_NOT_OPEN, suite_ask(&kind));
    struct segment_call call = suite_again(7, suite_fresh(12, 1), 1, 2000);
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(VERDICT_DONE, call.verdict);
    suite_apply_done(suite_event(GATE_CLOSE, suite_fresh(12, 1)));
    call = suite_again(8, order_id_once(11, 8, 0), 1, 2000);
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(VERDICT_DONE, call.verdict);
    suite_assert_item(11, 9, 1, 0);
    suite_assert_item(12, 9, 1, 0);
}

/* Everything else is decided as ever. */
void suite_a_decision_again_is_still_a_decision(void **state)
{
    (void)state;
    const struct {
        uint64_t user;
        struct order_id id;
        uint32_t qty;
        enum refusal refusal;
    } rows[] = {
        {7, suite_fresh(12, 1), UNITS + 1, REFUSAL_SOLD_OUT},
        {7, order_id_once(11, 7, 0), 2, REFUSAL_LIMIT_REACHED},
        {7, order_id_once(11, 7, 1), 1, REFUSAL_BAD_TICKET},
        {7, order_id_once(11, 8, 0), 1, REFUSAL_BAD_TICKET},
        {7, suite_fresh(11, 1), 1, REFUSAL_BAD_TICKET},
        {7, suite_fresh(99, 1), 1, REFUSAL_NO_SUCH_ITEM},
        {9, suite_fresh(12, 5), 1, REFUSAL_BAD_TICKET},
        {8, suite_fresh(12, 5), 1, REFUSAL_DIFFERENT_REQUEST},
    };
    suite_rebuild_all(0);
    (void)suite_bought(8, suite_fresh(12, 5), 2);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct segment_call call = suite_again(rows[i].user, rows[i].id, rows[i].qty, 2000);
        assert_int_equal(SEGMENT_DONE, suite_apply(&call));
        assert_int_equal(VERDICT_REFUSED, call.verdict);
        assert_int_equal(rows[i].refusal, call.refusal);
    }
    struct segment_call call = suite_again(7, suite_fresh(12, 1), 1, 2000);
    call.command.item = 11; /* an id of another item */
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(REFUSAL_NO_SUCH_ITEM, call.refusal);
    assert_int_equal(1, suite_look(0).outbox);
    suite_assert_item(11, 10, 0, 0);
}

/* ---- transfers ---- */

/* It was made before the cooling time began, or its buyer was let in while nobody could say. */
void suite_a_decision_again_is_not_asked_for_a_cooling_time(void **state)
{
    (void)state;
    suite_rebuild_all(0);
    struct order_id id = suite_bought(7, suite_fresh(12, 1), 1);
    suite_apply_done(suite_event(GATE_CONFIRM, id));
    suite_apply_done(suite_event(GATE_CANCEL_COOLING, id)); /* until 7000 */
    struct segment_call call = suite_again(7, suite_fresh(12, 2), 1, 1900);
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(VERDICT_DONE, call.verdict);
    suite_assert_item(12, UNITS - 1, 1, 0);
    /* It goes on for everything new. */
    struct gate_request kind = suite_buy(7, suite_fresh(12, 3), 1);
    assert_int_equal(REFUSAL_BARRED, suite_ask(&kind));
    assert_int_equal(7000, kind.cooling_until_ms);
    kind = (struct gate_request){.kind = GATE_REQUEST_TICKET, .user = 7, .item = 12};
    assert_int_equal(REFUSAL_NONE, suite_ask(&kind));
    assert_true(kind.cooling_until_ms == 7000 && !kind.barred && kind.held == 1);
}

void suite_a_transfer_takes_what_there_is_once(void **state)
{
    (void)state;
    const struct {
        uint32_t transfer;
        uint64_t amount;
        uint64_t taken;
        enum verdict verdict;
    } rows[] = {
        {1, 4, 4, VERDICT_DONE},
        {1, 4, 4, VERDICT_ALREADY_APPLIED},
        {1, 1, 4, VERDICT_ALREADY_APPLIED},
        {2, 9, 6, VERDICT_DONE},
        {3, 5, 0, VERDICT_DONE},
        {3, 5, 0, VERDICT_ALREADY_APPLIED},
        {2, 9, 6, VERDICT_ALREADY_APPLIED},
    };
    suite_rebuild_all(0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct segment_call call =
            suite_event(GATE_TRANSFER_OUT, suite_fresh(12, rows[i].transfer));
        call.command.event = 0;
        call.command.amount = rows[i].amount;
        assert_int_equal(SEGMENT_DONE, suite_apply(&call));
        assert_int_equal(rows[i].verdict, call.verdict);
        assert_int_equal(rows[i].taken, call.taken);
    }
    suite_assert_item(12, 0, 0, 0);
    assert_int_equal(EVENT, suite_look(0).event); /* it is no event */
    struct segment_call call = suite_event(GATE_TRANSFER_IN, suite_fresh(12, 1));
    call.command.amount = 3;
    suite_apply_done(call);
    call = suite_event(GATE_TRANSFER_OUT, suite_fresh(12, 3)); /* 3 took nothing, and that counts */
    call.command.event = 0;
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(0, call.taken);
    call =
        suite_event(GATE_TRANSFER_OUT, suite_fresh(12, 9)); /* as an event it is all or nothing */
    call.command.amount = 4;
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(REFUSAL_SOLD_OUT, call.refusal);
    call.command.event = 0;
    call.command.item = 99;
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(REFUSAL_NO_SUCH_ITEM, call.refusal);
    suite_assert_item(12, 3, 0, 0);
}

/* ---- shares ---- */

static void assert_full(uint64_t user, struct order_id id, enum gate_bound bound)
{
    struct gate_request kind = suite_buy(user, id, 1);
    assert_int_equal(REFUSAL_OVERLOADED, suite_ask(&kind));
    assert_int_equal(bound, kind.bound);
}

/* What the ledger knows counts, and is in nobody's share any more when it ends. */
void suite_a_rebuilt_segment_keeps_its_shares(void **state)
{
    (void)state;
    struct order_id locked = suite_fresh(12, 1);
    struct segment_step steps[] = {
        suite_begin(EVENT),
        suite_sale(SALE_OPEN),
        {.kind = STEP_BUYER, .item = 12, .user = 7, .held = 3, .live = 1},
        {.kind = STEP_ORDER,
         .item = 12,
         .order = {.id = locked,
                   .user = 7,
                   .item = 12,
                   .qty = 3,
                   .state = ORDER_LOCKED,
                   .version = 2,
                   .created_at_ms = 1600,
                   .pay_by_ms = 6000}},
        suite_item(11, 1),
        suite_item(12, 0),
        {.kind = STEP_OPEN}};
    steps[0].shares = (struct gate_shares){
        .buyer_orders = 2, .item_orders = 3, .sale_orders = 4, .sale_buyers = 3};
    steps[5].available = UNITS - 3;
    steps[5].locked = 3;
    steps[5].buyers = 1;
    steps[5].live = 1;
    suite.epoch = 3;
    suite.after = EVENT;
    assert_int_equal(SEGMENT_DONE, suite_rebuild_at(0, 4, steps, sizeof(steps) / sizeof(steps[0])));
    suite.ut->place(suite.ut->context, 0, suite.epoch);
    (void)suite_bought(7, suite_fresh(12, 2), 1);
    assert_full(7, suite_fresh(12, 3), GATE_BOUND_BUYER_SHARE);
    (void)suite_bought(8, suite_fresh(12, 4), 1);
    assert_full(9, suite_fresh(12, 5), GATE_BOUND_ITEM_SHARE);
    (void)suite_bought(9, order_id_once(11, 9, 0), 1);
    assert_full(10, order_id_once(11, 10, 0), GATE_BOUND_SALE_SHARE);
    suite_apply_done(suite_event(GATE_EXPIRE, locked));
    assert_full(10, order_id_once(11, 10, 0), GATE_BOUND_SALE_BUYERS);
    (void)suite_bought(7, suite_fresh(12, 3), 1);
}

void suite_who_failed_elsewhere_is_one_of_the_sales_buyers(void **state)
{
    (void)state;
    struct segment_step steps[] = {
        suite_begin(EVENT), suite_sale(SALE_OPEN), suite_item(11, 1), {.kind = STEP_OPEN}};
    steps[0].shares.sale_buyers = 1;
    suite.epoch = 1;
    suite.after = EVENT;
    assert_int_equal(SEGMENT_DONE, suite_rebuild_at(0, 0, steps, sizeof(steps) / sizeof(steps[0])));
    suite.ut->place(suite.ut->context, 0, suite.epoch);
    struct segment_call call = suite_event(GATE_FAIL_ORDER, order_id_once(11, 7, 0));
    call.command.reason = REFUSAL_NO_STOCK;
    call.command.user = 7;
    call.command.qty = 1;
    suite_apply_done(call);
    assert_full(8, order_id_once(11, 8, 0), GATE_BOUND_SALE_BUYERS);
    (void)suite_bought(7, order_id_once(11, 7, 1), 1);
}
