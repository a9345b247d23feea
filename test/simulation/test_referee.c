/*
 * The referee refereed: for promises 1 to 7 histories that keep them and must pass, and histories
 * that break one and must be caught, under that promise's number. A checker that cannot fail here
 * would not be worth its place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "referee_history.h"

/* ---- a history that keeps everything ---- */

/* A warming that is said to have happened before. */
static void warm_again(void)
{
    struct ledger_op op = {
        .kind = LEDGER_SALE_MOVE, .sale_id = SALE, .target = SALE_WARM, .repeated = true};
    world_commit(&w, &op, NULL, 0, true);
}

static void a_whole_sale_passes(void **state)
{
    (void)state;
    struct order_id paid = world_buy(&w, NO_LIMIT, 1, 2);
    struct order_id cancelled = world_buy(&w, ONE_EACH, 2, 1);
    look(paid, 1);
    world_book(&w, paid);
    world_book(&w, cancelled);
    look(paid, 1);
    pay(paid, "p1");
    cancel(cancelled, 2);
    struct order_id again = world_buy(&w, ONE_EACH, 2, 1);
    assert_int_equal(order_id_attempt(again), 1);
    world_book(&w, again);
    struct order_id unpaid = world_buy(&w, UP_TO_5, 3, 2);
    world_book(&w, unpaid);
    restock(NO_LIMIT, 5, "r1", false);
    restock(NO_LIMIT, 5, "r1", true);
    struct sim_request request = world_send(&w, CALL_ITEM, 0, paid, 0);
    struct sim_answer numbers = world_numbers(&w, NO_LIMIT);
    world_hear(&w, &request, &numbers);
    world_crash(&w);
    world_start(&w);
    look(paid, 1);
    move_sale(SALE_PAUSED, EVENT_SALE_PAUSED);
    refuse_buy(NO_LIMIT, 4, 1, "not_open");
    warm_again();
    move_sale(SALE_OPEN, EVENT_SALE_OPENED);
    warm_again();
    world_pass_ms(&w, 61000);
    world_end(&w, LEDGER_EXPIRE, again, "");
    world_end(&w, LEDGER_EXPIRE, unpaid, "");
    refuse_buy(UP_TO_5, 3, 1, "barred");
    fine();
    end();
    fine();
    struct sim_result result = {0};
    referee_count(w.referee, &result);
    assert_int_equal(result.states[ORDER_PAID], 1);
    assert_int_equal(result.states[ORDER_EXPIRED], 2);
    assert_int_equal(result.states[ORDER_CANCELLED], 1);
    assert_int_equal(result.orders, 4);
    assert_int_equal(referee_unfinished(w.referee), 0);
}

static void a_lost_answer_is_committed_again(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    struct ledger_op op = world_book_op(&w, id);
    struct ledger_event event = world_order_event(&w, &op, EVENT_ORDER_LOCKED);
    world_commit(&w, &op, &event, 1, false); /* committed, and nobody heard */
    look(id, 1);                             /* still QUEUED on the board */
    op.repeated = true;
    world_commit(&w, &op, NULL, 0, false);
    struct gate_effects effects;
    struct gate_command command = {.kind = GATE_CONFIRM,
                                   .now_ms = world_now_ms(&w),
                                   .event = event.number,
                                   .id = id,
                                   .item = NO_LIMIT,
                                   .time_ms = (uint64_t)op.order.pay_by_ms};
    assert_int_equal(gate_step(&w.gate, &command, &effects), VERDICT_DONE);
    world_step(&w);
    look(id, 1);
    fine();
}

static void an_undurable_order_may_be_lost_and_decided_again(void **state)
{
    (void)state;
    struct order_id id = world_id(&w, ONE_EACH, 1);
    struct sim_request request = world_send(&w, CALL_BUY, 1, id, 1);
    w.hold = true;
    world_decide(&w, id, 1, 1);
    world_step(&w);
    world_crash(&w);
    referee_unheard(w.referee, &request);
    world_start(&w);
    fine();
    assert_true(order_id_equal(world_buy(&w, ONE_EACH, 1, 1), id));
    fine();
}

/* ---- 1 ---- */

static void a_unit_out_of_nowhere(void **state)
{
    (void)state;
    item(NO_LIMIT)->available++;
    world_step(&w);
    caught(1);
}

static void a_unit_too_few_that_adds_up(void **state)
{
    (void)state;
    item(NO_LIMIT)->available--;
    item(NO_LIMIT)->total--;
    world_step(&w);
    caught(1);
}

static void locked_units_without_an_order(void **state)
{
    (void)state;
    item(NO_LIMIT)->available--;
    item(NO_LIMIT)->locked++;
    world_step(&w);
    caught(1);
}

static void numbers_that_do_not_add_up(void **state)
{
    (void)state;
    struct sim_request request = world_send(&w, CALL_ITEM, 0, world_id(&w, NO_LIMIT, 1), 0);
    struct sim_answer numbers = world_numbers(&w, NO_LIMIT);
    numbers.available--;
    world_hear(&w, &request, &numbers);
    caught(1);
}

static void numbers_that_never_were(void **state)
{
    (void)state;
    struct sim_request request = world_send(&w, CALL_ITEM, 0, world_id(&w, NO_LIMIT, 1), 0);
    struct sim_answer numbers = world_numbers(&w, NO_LIMIT);
    numbers.available--;
    numbers.locked++;
    world_hear(&w, &request, &numbers);
    caught(1);
}

static void numbers_from_before_the_request(void **state)
{
    (void)state;
    struct sim_request early = world_send(&w, CALL_ITEM, 0, world_id(&w, NO_LIMIT, 1), 0);
    struct sim_answer old = world_numbers(&w, NO_LIMIT);
    (void)world_buy(&w, NO_LIMIT, 1, 2);
    world_hear(&w, &early, &old); /* it was so while this one was under way */
    fine();
    struct sim_request late = world_send(&w, CALL_ITEM_EVENTS, 0, world_id(&w, NO_LIMIT, 1), 0);
    referee_item_streamed(w.referee, &late, &old);
    caught(1);
}

/* ---- 2 ---- */

static void more_orders_than_units(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 3; user++) {
        world_book(&w, world_buy(&w, ONE_EACH, user, 1));
    }
    fine();
    item(ONE_EACH)->available++; /* the gate is wrong, and the ledger does not mind */
    item(ONE_EACH)->total++;     /* it adds up: the step itself sees nothing */
    struct order_id id = world_id(&w, ONE_EACH, 4);
    (void)world_send(&w, CALL_BUY, 4, id, 1);
    world_decide(&w, id, 4, 1);
    struct ledger_op op = world_book_op(&w, id);
    struct ledger_event event = world_order_event(&w, &op, EVENT_ORDER_LOCKED);
    world_commit(&w, &op, &event, 1, true);
    caught(2);
}

/* ---- 3 ---- */

static void a_202_before_it_is_durable(void **state)
{
    (void)state;
    world_step(&w);
    w.hold = true;
    (void)world_buy(&w, NO_LIMIT, 1, 1);
    caught(3);
}

static void locked_before_its_record_is_durable(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    world_step(&w);
    w.hold = true;
    world_book(&w, id);
    struct sim_request request = world_send(&w, CALL_ORDER, 1, id, 0);
    struct sim_answer answer = world_view_of(&w, id);
    assert_int_equal(answer.order.state, ORDER_LOCKED);
    world_hear(&w, &request, &answer);
    caught(3);
}

static void locked_before_it_is_committed(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    struct sim_request request = world_send(&w, CALL_ORDER, 1, id, 0);
    struct sim_answer answer = world_view_of(&w, id);
    answer.order.state = ORDER_LOCKED;
    world_hear(&w, &request, &answer);
    caught(3);
}

static void paid_while_it_is_cancelled(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    world_book(&w, id);
    cancel(id, 1);
    struct sim_request request = world_send(&w, CALL_ORDER, 1, id, 0);
    struct sim_answer answer = world_view_of(&w, id);
    answer.order.state = ORDER_PAID;
    world_hear(&w, &request, &answer);
    caught(3);
}

static void a_told_order_is_lost(void **state)
{
    (void)state;
    world_step(&w);
    uint64_t durable = w.durable;
    (void)world_buy(&w, NO_LIMIT, 1, 1);
    fine();
    w.hold = true;
    w.durable = durable; /* it was not, after all */
    world_crash(&w);
    world_start(&w);
    caught(3);
}

static void failed_in_the_ledger(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    struct ledger_op op = world_book_op(&w, id);
    struct ledger_event event = world_order_event(&w, &op, EVENT_ORDER_FAILED);
    op.order.state = ORDER_FAILED;
    op.order.reason = event.reason = REFUSAL_NO_STOCK;
    world_commit(&w, &op, &event, 1, true);
    caught(3);
}

static void a_sale_told_open_that_is_not(void **state)
{
    (void)state;
    struct sim_request request = {.call = CALL_SALE_MOVE, .sale = SALE, .target = SALE_CLOSED};
    world_send_this(&w, &request);
    world_hear(&w, &request, &(struct sim_answer){.status = 200});
    caught(3);
}

/* ---- 4 ---- */

static void an_order_nobody_asked_for(void **state)
{
    (void)state;
    world_decide(&w, world_id(&w, NO_LIMIT, 1), 1, 1);
    world_step(&w);
    caught(4);
}

static void an_order_of_another_size(void **state)
{
    (void)state;
    struct order_id id = world_id(&w, NO_LIMIT, 1);
    (void)world_send(&w, CALL_BUY, 1, id, 1);
    world_decide(&w, id, 1, 2);
    world_step(&w);
    caught(4);
}

static void booked_for_somebody_else(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    struct ledger_op op = world_book_op(&w, id);
    op.command.user = op.order.user = 2;
    struct ledger_event event = world_order_event(&w, &op, EVENT_ORDER_LOCKED);
    world_commit(&w, &op, &event, 1, false);
    caught(4);
}

static void shown_to_somebody_else(void **state)
{
    (void)state;
    look(world_buy(&w, NO_LIMIT, 1, 1), 2);
    caught(4);
}

static void listed_before_it_is_booked(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    struct sim_request request = world_send(&w, CALL_MY_ORDERS, 1, id, 0);
    struct sim_answer view = world_view_of(&w, id);
    struct sim_answer page = {.status = 200, .orders = &view.order, .orders_count = 1};
    world_hear(&w, &request, &page);
    caught(4);
}

static void a_list_that_leaves_one_out(void **state)
{
    (void)state;
    struct order_id first = world_buy(&w, NO_LIMIT, 1, 1);
    world_pass_ms(&w, 1);
    struct order_id second = world_buy(&w, NO_LIMIT, 1, 1);
    world_book(&w, first);
    world_book(&w, second);
    struct sim_request request = world_send(&w, CALL_MY_ORDERS, 1, first, 0);
    struct sim_told both[] = {world_view_of(&w, second).order, world_view_of(&w, first).order};
    struct sim_answer page = {.status = 200, .orders = both, .orders_count = 2};
    world_hear(&w, &request, &page);
    fine();
    request = world_send(&w, CALL_MY_ORDERS, 1, first, 0);
    page.orders_count = 1;
    world_hear(&w, &request, &page);
    caught(4);
}

static void a_list_the_wrong_way_round(void **state)
{
    (void)state;
    struct order_id first = world_buy(&w, NO_LIMIT, 1, 1);
    world_pass_ms(&w, 1);
    struct order_id second = world_buy(&w, NO_LIMIT, 1, 1);
    world_book(&w, first);
    world_book(&w, second);
    struct sim_request request = world_send(&w, CALL_MY_ORDERS, 1, first, 0);
    struct sim_told both[] = {world_view_of(&w, first).order, world_view_of(&w, second).order};
    struct sim_answer page = {.status = 200, .orders = both, .orders_count = 2};
    world_hear(&w, &request, &page);
    caught(4);
}

static void a_decision_without_an_order(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 1);
    world_book(&w, id);
    cancel(id, 1);
    fine();
    /* Off the board, though its sale is not forgotten; found by counting. */
    w.gate.order_pool.used--;
    end();
    caught(4);
}

/* ---- 5 ---- */

static void over_the_limit_in_the_ledger(void **state)
{
    (void)state;
    world_book(&w, world_buy(&w, UP_TO_5, 1, 5));
    fine();
    item(UP_TO_5)->limit = 0; /* the gate forgets it */
    struct order_id id = world_id(&w, UP_TO_5, 1);
    (void)world_send(&w, CALL_BUY, 1, id, 1);
    world_decide(&w, id, 1, 1);
    world_book(&w, id);
    caught(5);
}

static void over_the_limit_in_what_is_told(void **state)
{
    (void)state;
    (void)world_buy(&w, UP_TO_5, 1, 4);
    fine();
    item(UP_TO_5)->limit = 0;
    struct order_id id = world_id(&w, UP_TO_5, 1);
    struct sim_request request = world_send(&w, CALL_BUY, 1, id, 2);
    world_decide(&w, id, 1, 2);
    world_step(&w);
    struct sim_answer answer = world_buy_answer(&w, id);
    answer.held = 5;
    world_hear(&w, &request, &answer);
    caught(5);
}

static void a_buyer_who_holds_too_little(void **state)
{
    (void)state;
    (void)world_buy(&w, UP_TO_5, 1, 2);
    w.gate.buyers[0].held = 1;
    world_step(&w);
    caught(5);
}

/* ---- 6 ---- */

static void the_same_ticket_twice(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    struct sim_request same = world_send(&w, CALL_BUY, 1, id, 2);
    struct sim_answer answer = world_buy_answer(&w, id);
    world_hear(&w, &same, &answer);
    struct sim_request other = world_send(&w, CALL_BUY, 1, id, 3);
    answer = world_refusal(422, "different_request", "no");
    world_hear(&w, &other, &answer);
    fine();
    struct sim_request again = world_send(&w, CALL_BUY, 1, id, 2);
    answer = world_refusal(409, "sold_out", "no");
    world_hear(&w, &again, &answer);
    caught(6);
}

static void another_amount(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    struct sim_request request = world_send(&w, CALL_ORDER, 1, id, 0);
    struct sim_answer answer = world_view_of(&w, id);
    answer.order.amount_cents = 0;
    world_hear(&w, &request, &answer);
    caught(6);
}

static void another_deadline(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    world_book(&w, id);
    struct sim_request request = world_send(&w, CALL_ORDER, 1, id, 0);
    struct sim_answer answer = world_view_of(&w, id);
    answer.order.pay_by_ms++;
    world_hear(&w, &request, &answer);
    caught(6);
}

static void another_order_than_asked_for(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    struct order_id other = world_buy(&w, NO_LIMIT, 1, 2);
    struct sim_request request = world_send(&w, CALL_ORDER, 1, id, 0);
    struct sim_answer answer = world_view_of(&w, other);
    world_hear(&w, &request, &answer);
    caught(6);
}

static void booked_again_with_another_outcome(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    world_book(&w, id);
    struct ledger_op op = world_book_op(&w, id);
    op.repeated = true;
    op.order.state = ORDER_PAID;
    world_commit(&w, &op, NULL, 0, false);
    caught(6);
}

static void decided_again_after_it_was_booked(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, ONE_EACH, 1, 1);
    world_book(&w, id);
    struct ledger_op op = world_book_op(&w, id);
    op.repeated = true;
    op.command.now_ms++;
    world_commit(&w, &op, NULL, 0, false);
    caught(6);
}

static void restocked_twice(void **state)
{
    (void)state;
    restock(NO_LIMIT, 5, "r1", false);
    fine();
    restock(NO_LIMIT, 5, "r1", false);
    caught(6);
}

static void a_payment_forgotten(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    world_book(&w, id);
    pay(id, "p1");
    fine();
    struct sim_request request = send_payment(id, "p1", 600);
    struct sim_answer answer = world_refusal(409, "already_paid", "no");
    world_hear(&w, &request, &answer);
    caught(6);
}

/* ---- 7 ---- */

static void a_final_order_moves(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    world_book(&w, id);
    cancel(id, 1);
    fine();
    (void)send_payment(id, "p1", 600);
    world_end(&w, LEDGER_PAY, id, "p1");
    caught(7);
}

static void warmed_again_after_its_close(void **state)
{
    (void)state;
    move_sale(SALE_CLOSED, EVENT_SALE_CLOSED);
    fine();
    warm_again();
    caught(7);
}

static void a_view_goes_backwards(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    struct sim_request early = world_send(&w, CALL_ORDER, 1, id, 0);
    struct sim_answer queued = world_view_of(&w, id);
    world_book(&w, id);
    look(id, 1);
    world_hear(&w, &early, &queued); /* was under way before: late, not wrong */
    fine();
    struct sim_request late = world_send(&w, CALL_ORDER, 1, id, 0);
    world_hear(&w, &late, &queued);
    caught(7);
}

static void a_stream_goes_backwards(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    struct sim_request stream = world_send(&w, CALL_ORDER_EVENTS, 1, id, 0);
    struct sim_answer queued = world_view_of(&w, id);
    referee_streamed(w.referee, &stream, 1, &queued.order);
    world_book(&w, id);
    struct sim_answer locked = world_view_of(&w, id);
    referee_streamed(w.referee, &stream, 2, &locked.order);
    fine();
    referee_streamed(w.referee, &stream, 3, &queued.order);
    caught(7);
}

static void stream_ids_that_do_not_grow(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    struct sim_request first = world_send(&w, CALL_ORDER_EVENTS, 1, id, 0);
    struct sim_answer view = world_view_of(&w, id);
    referee_streamed(w.referee, &first, 2, &view.order);
    world_book(&w, id);
    struct sim_request second = world_send(&w, CALL_ORDER_EVENTS, 1, id, 0);
    view = world_view_of(&w, id);
    referee_streamed(w.referee, &second, 2, &view.order);
    caught(7);
}

static void a_told_order_is_not_found(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    struct sim_answer answer = world_refusal(404, "not_found", "no");
    struct sim_request other = world_send(&w, CALL_ORDER, 2, id, 0);
    world_hear(&w, &other, &answer); /* not his */
    fine();
    struct sim_request request = world_send(&w, CALL_ORDER, 1, id, 0);
    world_hear(&w, &request, &answer);
    caught(7);
}

static void the_gate_is_behind_itself(void **state)
{
    (void)state;
    struct order_id id = world_buy(&w, NO_LIMIT, 1, 2);
    world_book(&w, id);
    order_of(id)->state = ORDER_QUEUED;
    world_step(&w);
    caught(7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HISTORY(a_whole_sale_passes),
        HISTORY(a_lost_answer_is_committed_again),
        HISTORY(an_undurable_order_may_be_lost_and_decided_again),
        HISTORY(a_unit_out_of_nowhere),
        HISTORY(a_unit_too_few_that_adds_up),
        HISTORY(locked_units_without_an_order),
        HISTORY(numbers_that_do_not_add_up),
        HISTORY(numbers_that_never_were),
        HISTORY(numbers_from_before_the_request),
        HISTORY(more_orders_than_units),
        HISTORY(a_202_before_it_is_durable),
        HISTORY(locked_before_its_record_is_durable),
        HISTORY(locked_before_it_is_committed),
        HISTORY(paid_while_it_is_cancelled),
        HISTORY(a_told_order_is_lost),
        HISTORY(failed_in_the_ledger),
        HISTORY(a_sale_told_open_that_is_not),
        HISTORY(an_order_nobody_asked_for),
        HISTORY(an_order_of_another_size),
        HISTORY(booked_for_somebody_else),
        HISTORY(shown_to_somebody_else),
        HISTORY(listed_before_it_is_booked),
        HISTORY(a_list_that_leaves_one_out),
        HISTORY(a_list_the_wrong_way_round),
        HISTORY(a_decision_without_an_order),
        HISTORY(over_the_limit_in_the_ledger),
        HISTORY(over_the_limit_in_what_is_told),
        HISTORY(a_buyer_who_holds_too_little),
        HISTORY(the_same_ticket_twice),
        HISTORY(another_amount),
        HISTORY(another_deadline),
        HISTORY(another_order_than_asked_for),
        HISTORY(booked_again_with_another_outcome),
        HISTORY(decided_again_after_it_was_booked),
        HISTORY(restocked_twice),
        HISTORY(a_payment_forgotten),
        HISTORY(a_final_order_moves),
        HISTORY(warmed_again_after_its_close),
        HISTORY(a_view_goes_backwards),
        HISTORY(a_stream_goes_backwards),
        HISTORY(stream_ids_that_do_not_grow),
        HISTORY(a_told_order_is_not_found),
        HISTORY(the_gate_is_behind_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
