/* The referee refereed, as in test_referee.c: promises 8 to 13. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "referee_history.h"

/* ---- 8 ---- */

static void expired_too_early(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    world_book(&w, id);
    world_pass_ms(&w, 59999);
    world_end(&w, LEDGER_EXPIRE, id, "");
    caught(8);
}

static void paid_too_late(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    world_book(&w, id);
    (void)send_payment(id, "p1", 600);
    world_pass_ms(&w, 60000);
    world_end(&w, LEDGER_PAY, id, "p1");
    caught(8);
}

static void another_term(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    struct ledger_op op = world_book_op(&w, id);
    op.order.pay_by_ms += 1000;
    struct ledger_event event = world_order_event(&w, &op, EVENT_ORDER_LOCKED);
    world_commit(&w, &op, &event, 1, true);
    caught(8);
}

static void never_expired(void **state)
{
    (void)state;
    world_book(&w, world_buy(&w, NO_LIMIT, 1, 2));
    w.disturbed = true;
    for (int i = 0; i < 128; i++) {
        world_pass_ms(&w, 1000);
    }
    fine(); /* overdue, and excused */
    w.disturbed = false;
    for (int i = 0; i < 128; i++) {
        world_pass_ms(&w, 100);
    }
    caught(8);
}

static void paid_after_it_was_refused(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    world_book(&w, id);
    struct sim_request request = send_payment(id, "p1", 600);
    world_pass_ms(&w, 60000);
    struct sim_answer answer = world_refusal(409, "expired", "no");
    world_hear(&w, &request, &answer);
    fine();
    (void)send_payment(id, "p1", 600);
    world_crash(&w);
    w.wall_ms -= 10000; /* the clock was set back, and nothing of that minute was journalled */
    world_start(&w);
    fine();
    world_end(&w, LEDGER_PAY, id, "p1");
    caught(8);
}

static void a_payment_told_done_that_is_not(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    world_book(&w, id);
    struct sim_request first = send_payment(id, "p1", 600);
    struct sim_request second = send_payment(id, "p2", 600);
    world_end(&w, LEDGER_PAY, id, "p1");
    struct sim_answer answer = world_view_of(&w, id);
    world_hear(&w, &first, &answer);
    fine();
    world_hear(&w, &second, &answer);
    caught(8);
}

static void refused_without_a_reason(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    world_book(&w, id);
    struct ledger_op op = world_end_op(&w, LEDGER_CANCEL, id, "");
    op.refusal = REFUSAL_EXPIRED;
    world_commit(&w, &op, NULL, 0, false);
    caught(8);
}

/* ---- 9 ---- */

static void an_order_after_a_refusal(void **state)
{
    (void)state;
    struct order_id id = world_id(&w, UP_TO_5, 1);
    struct sim_request request = world_send(&w, CALL_BUY, 1, id, 1);
    struct sim_answer answer = world_refusal(503, "overloaded", "later");
    world_hear(&w, &request, &answer);
    fine();
    world_decide(&w, id, 1, 1);
    world_step(&w);
    caught(9);
}

static void a_refusal_after_the_order(void **state)
{
    (void)state;
    struct order_id id = world_id(&w, UP_TO_5, 1);
    struct sim_request request = world_send(&w, CALL_BUY, 1, id, 1);
    world_decide(&w, id, 1, 1);
    world_step(&w);
    struct sim_answer answer = world_refusal(503, "degraded", "same-ticket");
    world_hear(&w, &request, &answer); /* says that it does not know */
    fine();
    request = world_send(&w, CALL_BUY, 1, id, 1);
    answer = world_buy_answer(&w, id);
    world_hear(&w, &request, &answer);
    fine();
    id = world_id(&w, UP_TO_5, 2);
    request = world_send(&w, CALL_BUY, 2, id, 1);
    world_decide(&w, id, 2, 1);
    world_step(&w);
    answer = world_refusal(503, "overloaded", "later");
    world_hear(&w, &request, &answer);
    caught(9);
}

static void cancelled_after_a_refusal(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    struct sim_request request = world_send(&w, CALL_CANCEL, 1, id, 0);
    struct sim_answer answer = world_refusal(409, "queued", "later");
    world_hear(&w, &request, &answer);
    world_book(&w, id);
    fine();
    world_end(&w, LEDGER_CANCEL, id, "");
    caught(9);
}

static void paid_and_told_that_it_is_not(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    world_book(&w, id);
    struct sim_request request = send_payment(id, "p1", 600);
    world_end(&w, LEDGER_PAY, id, "p1");
    struct sim_answer answer = world_refusal(503, "degraded", "later");
    world_hear(&w, &request, &answer);
    caught(9);
}

static void sold_out_with_units_left(void **state)
{
    (void)state;
    (void)world_buy(&w, NO_LIMIT, 1, 8);
    refuse_buy(NO_LIMIT, 2, 3, "sold_out");
    fine(); /* two are left */
    refuse_buy(NO_LIMIT, 2, 2, "sold_out");
    caught(9);
}

static void sold_out_for_a_moment(void **state)
{
    (void)state;
    struct order_id all = world_buy(&w, NO_LIMIT, 1, 10);
    world_book(&w, all);
    struct sim_request request = world_send(&w, CALL_BUY, 2, world_id(&w, NO_LIMIT, 2), 1);
    cancel(all, 1);
    struct sim_answer answer = world_refusal(409, "sold_out", "no");
    world_hear(&w, &request, &answer);
    fine(); /* it was, when it was sent */
    refuse_buy(NO_LIMIT, 2, 1, "sold_out");
    caught(9);
}

static void a_limit_that_is_not_reached(void **state)
{
    (void)state;
    (void)world_buy(&w, UP_TO_5, 1, 3);
    refuse_buy(UP_TO_5, 1, 3, "limit_reached");
    refuse_buy(UP_TO_5, 2, 6, "limit_reached");
    fine();
    refuse_buy(UP_TO_5, 1, 2, "limit_reached");
    caught(9);
}

static void barred_without_a_reason(void **state)
{
    (void)state;
    refuse_buy(ONE_EACH, 1, 1, "barred");
    caught(9);
}

/* A cancellation that makes its buyer wait so long; the ledger's row and event may say otherwise. */
static void cancel_cooling(struct order_id id, int64_t cooling_ms, int64_t row_ms, int64_t event_ms)
{
    uint64_t user = order_of(id)->user;
    struct sim_request request = world_send(&w, CALL_CANCEL, user, id, 0);
    struct ledger_op op = world_end_op(&w, LEDGER_CANCEL, id, "");
    op.cooling_ms = cooling_ms;
    op.order.cooling_until_ms = row_ms;
    struct ledger_event event = world_order_event(&w, &op, EVENT_ORDER_CANCELLED);
    event.a = event_ms;
    world_commit(&w, &op, &event, 1, true);
    struct sim_answer answer = world_view_of(&w, id);
    world_hear(&w, &request, &answer);
}

static void refuse_for(uint64_t user, const char *retry)
{
    struct sim_request request = world_send(&w, CALL_BUY, user, world_id(&w, NO_LIMIT, user), 1);
    struct sim_answer answer = world_refusal(409, "barred", retry);
    world_step(&w);
    world_hear(&w, &request, &answer);
}

static void waits_no_longer(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    world_book(&w, id);
    int64_t until_ms = world_now_ms(&w) + 5000;
    cancel_cooling(id, 5000, until_ms, until_ms);
    refuse_for(1, "later");
    world_pass_ms(&w, 4000);
    refuse_for(1, "later");
    world_crash(&w);
    world_start(&w);
    refuse_for(1, "later");
    fine();
    world_pass_ms(&w, 6000);
    (void)world_buy(&w, NO_LIMIT, 1, 1);
    fine();
    refuse_for(1, "later");
    caught(9);
}

static void told_to_wait_for_good(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    world_book(&w, id);
    int64_t until_ms = world_now_ms(&w) + 5000;
    cancel_cooling(id, 5000, until_ms, until_ms);
    refuse_for(1, "no");
    caught(9);
}

static void let_in_while_cooling(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    world_book(&w, id);
    int64_t until_ms = world_now_ms(&w) + 5000;
    cancel_cooling(id, 5000, until_ms, until_ms);
    fine();
    /* The gate has forgotten it, and its bookkeeping is put right again when it has decided. */
    struct gate_buyer *buyer = &w.gate.buyers[0];
    buyer->cooling_until_ms = 0;
    struct order_id next = world_id(&w, NO_LIMIT, 1);
    (void)world_send(&w, CALL_BUY, 1, next, 1);
    world_decide(&w, next, 1, 1);
    buyer->cooling_until_ms = until_ms;
    world_step(&w);
    caught(5);
}

static void let_in_while_barred(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    world_book(&w, id);
    world_pass_ms(&w, 61000);
    world_end(&w, LEDGER_EXPIRE, id, "");
    fine();
    struct gate_buyer *buyer = &w.gate.buyers[0];
    buyer->barred = false;
    struct order_id next = world_id(&w, NO_LIMIT, 1);
    (void)world_send(&w, CALL_BUY, 1, next, 1);
    world_decide(&w, next, 1, 1);
    buyer->barred = true;
    world_step(&w);
    caught(5);
}

static void a_cooling_time_that_the_row_does_not_have(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    world_book(&w, id);
    cancel_cooling(id, 5000, 0, world_now_ms(&w) + 5000);
    caught(5);
}

static void a_cooling_time_that_the_event_does_not_have(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    world_book(&w, id);
    cancel_cooling(id, 5000, world_now_ms(&w) + 5000, 0);
    caught(5);
    assert_non_null(strstr(world_what, "; event ")); /* before the gate was misled */
}

static void a_cooling_time_that_the_gate_forgets(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    world_book(&w, id);
    int64_t until_ms = world_now_ms(&w) + 5000;
    cancel_cooling(id, 5000, until_ms, until_ms);
    w.gate.buyers[0].cooling_until_ms = 0;
    world_crash(&w);
    world_start(&w);
    caught(5);
}

static void ended_while_it_is_open(void **state)
{
    (void)state;
    refuse_buy(ONE_EACH, 1, 1, "ended");
    caught(9);
}

static void not_open_while_it_is_open(void **state)
{
    (void)state;
    refuse_buy(ONE_EACH, 1, 1, "not_open");
    caught(9);
}

static void a_good_ticket_called_bad(void **state)
{
    (void)state;
    refuse_buy(ONE_EACH, 1, 1, "bad_ticket");
    caught(9);
}

/* ---- 10 ---- */

static void sold_while_paused(void **state)
{
    (void)state;
    struct order_id id = world_id(&w, NO_LIMIT, 1);
    (void)world_send(&w, CALL_BUY, 1, id, 1);
    move_sale(SALE_PAUSED, EVENT_SALE_PAUSED);
    fine();
    w.gate.sales[0].state = SALE_OPEN;
    world_decide(&w, id, 1, 1);
    world_step(&w);
    caught(10);
}

static void sold_after_the_end(void **state)
{
    (void)state;
    struct order_id id = world_id(&w, NO_LIMIT, 1);
    (void)world_send(&w, CALL_BUY, 1, id, 1);
    world_decide(&w, id, 1, 1);
    order_of(id)->created_at_ms = w.row.ends_at_ms;
    world_step(&w);
    caught(10);
}

static void sold_with_an_old_ticket(void **state)
{
    (void)state;
    struct order_id id = world_id(&w, NO_LIMIT, 1);
    struct sim_request request = {.call = CALL_BUY,
                                  .user = 1,
                                  .item = NO_LIMIT,
                                  .order = id,
                                  .qty = 1,
                                  .ticket_expires_ms = world_now_ms(&w)};
    world_send_this(&w, &request);
    world_decide(&w, id, 1, 1);
    world_step(&w);
    caught(10);
}

static void a_gate_with_another_window(void **state)
{
    (void)state;
    w.gate.sales[0].ends_at_ms += 1000;
    world_step(&w);
    caught(10);
}

static void closed_by_nobody(void **state)
{
    (void)state;
    struct ledger_op op = {.kind = LEDGER_SALE_MOVE, .sale_id = SALE, .target = SALE_CLOSED};
    struct ledger_event event = {.kind = EVENT_SALE_CLOSED, .sale = SALE};
    world_commit(&w, &op, &event, 1, true);
    caught(10);
}

static void a_clock_that_follows_a_jump(void **state)
{
    (void)state;
    struct sim_request request = world_send(&w, CALL_TIME, 0, (struct order_id){0, 0}, 0);
    world_pass_ms(&w, 10);
    struct sim_answer answer = {.status = 200, .now_ms = world_now_ms(&w)};
    world_hear(&w, &request, &answer);
    fine();
    request = world_send(&w, CALL_TIME, 0, (struct order_id){0, 0}, 0);
    answer.now_ms += 10000;
    world_hear(&w, &request, &answer);
    caught(10);
}

static void a_clock_that_goes_back(void **state)
{
    (void)state;
    world_pass_ms(&w, 1000);
    world_book(&w, world_buy(&w, NO_LIMIT, 1, 1));
    fine();
    w.boot_us -= 500000;
    restock(NO_LIMIT, 1, "r1", false);
    caught(10);
}

/* ---- 12 ---- */

static void a_durable_order_is_lost(void **state)
{
    (void)state;
    struct order_id id = world_id(&w, NO_LIMIT, 1);
    struct sim_request request = world_send(&w, CALL_BUY, 1, id, 1);
    uint64_t before = w.lsn;
    world_decide(&w, id, 1, 1);
    world_step(&w); /* durable, and no answer was sent */
    w.hold = true;
    w.durable = before;
    world_crash(&w);
    referee_unheard(w.referee, &request);
    world_start(&w);
    caught(12);
}

static void an_order_comes_back_changed(void **state)
{
    (void)state;
    world_pass_ms(&w, 10);
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    world_crash(&w);
    order_of(id)->created_at_ms--;
    world_start(&w);
    caught(12);
}

static void an_order_that_was_never_there(void **state)
{
    (void)state;
    struct order_id id = world_id(&w, NO_LIMIT, 1);
    (void)world_send(&w, CALL_BUY, 1, id, 1);
    world_pass_ms(&w, 10);
    world_book(&w, world_buy(&w, NO_LIMIT, 2, 1));
    world_crash(&w);
    world_decide(&w, id, 1, 1);
    order_of(id)->created_at_ms = BEGIN_MS + 1001;
    world_start(&w);
    caught(12);
}

static void a_journal_behind_the_ledger(void **state)
{
    (void)state;
    world_book(&w, world_buy(&w, NO_LIMIT, 1, 1));
    world_crash(&w);
    w.lsn = 1;
    world_start(&w);
    caught(12);
}

static void a_gate_ahead_of_the_ledger(void **state)
{
    (void)state;
    w.gate.applied_event++;
    world_step(&w);
    caught(12);
}

/* ---- 13 ---- */

static void an_order_left_queued(void **state)
{
    (void)state;
    (void)world_buy(&w, NO_LIMIT, 1, 1);
    fine();
    end();
    caught(13);
}

static void an_order_queued_for_too_long(void **state)
{
    (void)state;
    (void)world_buy(&w, NO_LIMIT, 1, 1);
    for (int i = 0; i < 64; i++) {
        world_pass_ms(&w, 100);
    }
    fine();
    for (int i = 0; i < 128; i++) {
        world_pass_ms(&w, 100);
    }
    caught(13);
}

static void an_event_never_applied(void **state)
{
    (void)state;
    struct ledger_op op = {.kind = LEDGER_RESTOCK, .item = NO_LIMIT, .amount = 1, .key = "r1"};
    struct sim_request request = {.call = CALL_RESTOCK, .item = NO_LIMIT, .amount = 1, .key = "r1"};
    struct ledger_event event = {
        .kind = EVENT_ITEM_RESTOCKED, .sale = SALE, .item = NO_LIMIT, .a = 1};
    world_send_this(&w, &request);
    world_commit(&w, &op, &event, 1, false);
    world_hear(&w, &request, &(struct sim_answer){.status = 200});
    fine();
    end();
    caught(13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HISTORY(expired_too_early),
        HISTORY(paid_too_late),
        HISTORY(another_term),
        HISTORY(never_expired),
        HISTORY(paid_after_it_was_refused),
        HISTORY(a_payment_told_done_that_is_not),
        HISTORY(refused_without_a_reason),
        HISTORY(an_order_after_a_refusal),
        HISTORY(a_refusal_after_the_order),
        HISTORY(cancelled_after_a_refusal),
        HISTORY(paid_and_told_that_it_is_not),
        HISTORY(sold_out_with_units_left),
        HISTORY(sold_out_for_a_moment),
        HISTORY(a_limit_that_is_not_reached),
        HISTORY(barred_without_a_reason),
        HISTORY(waits_no_longer),
        HISTORY(told_to_wait_for_good),
        HISTORY(let_in_while_cooling),
        HISTORY(let_in_while_barred),
        HISTORY(a_cooling_time_that_the_row_does_not_have),
        HISTORY(a_cooling_time_that_the_event_does_not_have),
        HISTORY(a_cooling_time_that_the_gate_forgets),
        HISTORY(ended_while_it_is_open),
        HISTORY(not_open_while_it_is_open),
        HISTORY(a_good_ticket_called_bad),
        HISTORY(sold_while_paused),
        HISTORY(sold_after_the_end),
        HISTORY(sold_with_an_old_ticket),
        HISTORY(a_gate_with_another_window),
        HISTORY(closed_by_nobody),
        HISTORY(a_clock_that_follows_a_jump),
        HISTORY(a_clock_that_goes_back),
        HISTORY(a_durable_order_is_lost),
        HISTORY(an_order_comes_back_changed),
        HISTORY(an_order_that_was_never_there),
        HISTORY(a_journal_behind_the_ledger),
        HISTORY(a_gate_ahead_of_the_ledger),
        HISTORY(an_order_left_queued),
        HISTORY(an_order_queued_for_too_long),
        HISTORY(an_event_never_applied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
