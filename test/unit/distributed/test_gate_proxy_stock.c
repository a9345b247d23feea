/* A front's gate on other machines, when units run out: here, at the buyer's home, everywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "gate_proxy_fixture.h"

static int set_up_one(void **state)
{
    (void)state;
    set_up_world(1, false);
    return 0;
}

/* ---- sold out ---- */

/* All units of a segment are gone. */
static void sell_out(uint32_t segment)
{
    while (cluster_item(&world, segment, CLUSTER_FREE)->available > 0) {
        (void)cluster_buy(&world, segment, 1000);
    }
}

static void the_flood_on_a_sold_out_item_stays_here(void **state)
{
    (void)state;
    struct order_id ids[10];
    sell_out(0);
    gate_proxy_front_stock_cache(&worker, CLUSTER_FREE, 0);
    for (uint64_t i = 0; i < 10; i++) {
        ids[i] = cluster_id(&world, CLUSTER_FREE, 0);
    }
    for (int round = 0; round < 5; round++) {
        for (uint64_t i = 0; i < 10; i++) {
            struct gate_request request = buy_free(&worker, ids[i], 50 + i);
            assert_int_equal(request.refusal, REFUSAL_SOLD_OUT);
            assert_int_equal(request.available, 0);
            assert_int_equal(request.locked, 100);
        }
    }
    assert_int_equal(worker.counting.asked, 10); /* once for each ticket */
    /* Another loop has a memory of its own. */
    struct gate_request request = gate_proxy_front_buy(&worker, CLUSTER_FREE, ids[0], 50, 1);
    request.loop = 1;
    assert_int_equal(gate_proxy_front_tell(&worker, request).refusal, REFUSAL_SOLD_OUT);
    assert_int_equal(worker.counting.asked, 11);
    /* A block goes before that, and costs the gate nothing either: the order is known not to exist. */
    request.if_new = REFUSAL_BLOCKED;
    assert_int_equal(gate_proxy_front_tell(&worker, request).refusal, REFUSAL_BLOCKED);
    assert_int_equal(worker.counting.asked, 11);
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 0);
}

static struct gate_request take_ticket(uint64_t item, uint64_t user)
{
    struct gate_request request = {.kind = GATE_REQUEST_TICKET, .item = item, .user = user};
    return gate_proxy_front_tell(&worker, request);
}

static void so_do_those_who_come_for_tickets(void **state)
{
    (void)state;
    for (uint64_t user = 1; cluster_item(&world, 0, CLUSTER_ONCE)->available > 0; user++) {
        struct order_id id = order_id_once(CLUSTER_ONCE, user, 0);
        assert_int_equal(
            gate_proxy_front_tell(&worker, gate_proxy_front_buy(&worker, CLUSTER_ONCE, id, user, 1))
                .refusal,
            REFUSAL_NONE);
    }
    sell_out(0);
    gate_proxy_front_stock_cache(&worker, CLUSTER_FREE, 0);
    gate_proxy_front_stock_cache(&worker, CLUSTER_ONCE, 0);
    worker.counting.asked = 0;
    for (int round = 0; round < 5; round++) {
        for (uint64_t user = 500; user < 510; user++) {
            struct gate_request request = take_ticket(CLUSTER_FREE, user);
            assert_int_equal(request.refusal, REFUSAL_NONE);
            assert_int_equal(request.view.available, 0);
        }
    }
    assert_int_equal(worker.counting.asked, 0); /* nobody's orders matter there */
    for (int round = 0; round < 5; round++) {
        for (uint64_t user = 500; user < 510; user++) {
            struct gate_request request = take_ticket(CLUSTER_ONCE, user);
            assert_int_equal(request.view.available, 0);
            assert_false(request.has_order);
        }
    }
    assert_int_equal(worker.counting.asked, 10); /* once for each buyer */
    assert_true(take_ticket(CLUSTER_ONCE, 1).has_order);
    assert_true(take_ticket(CLUSTER_ONCE, 1).has_order);
    worker.counting.asked = 0;
    stock_cache_refilled(worker.stock_cache,
                         CLUSTER_ONCE); /* something came back, and may be his by now */
    (void)take_ticket(CLUSTER_ONCE, 500);
    assert_int_equal(worker.counting.asked, 1);
}

/* A unit that came back, and was gone again before anybody looked. */
static void who_won_with_his_ticket_is_not_told_that_all_is_gone(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 0);
    sell_out(0);
    gate_proxy_front_stock_cache(&worker, CLUSTER_FREE, 0);
    assert_int_equal(buy_free(&worker, id, 99).refusal, REFUSAL_SOLD_OUT);
    struct segment_call restock = {
        .epoch = 1,
        .command = {.kind = GATE_RESTOCK, .event = 1, .item = CLUSTER_FREE, .amount = 1}};
    segments_apply(world.hands, &restock, 1);
    struct gate_request other = gate_proxy_front_buy(&worker, CLUSTER_FREE, id, 99, 1);
    other.loop = 1;
    assert_int_equal(gate_proxy_front_tell(&worker, other).refusal, REFUSAL_NONE);
    assert_int_equal(buy_free(&worker, id, 99).refusal, REFUSAL_NONE);
    /* The same at another front: news of units that came back are enough. */
    struct order_id next = cluster_id(&world, CLUSTER_FREE, 0);
    assert_int_equal(buy_free(&worker, next, 98).refusal, REFUSAL_SOLD_OUT);
    worker.counting.asked = 0;
    assert_int_equal(buy_free(&worker, next, 98).refusal, REFUSAL_SOLD_OUT);
    assert_int_equal(worker.counting.asked, 0);
    stock_cache_refilled(worker.stock_cache, CLUSTER_FREE);
    assert_int_equal(buy_free(&worker, next, 98).refusal, REFUSAL_SOLD_OUT);
    assert_int_equal(worker.counting.asked, 1);
}

/* Of a ticket that is over, and of a sale that is, something else is to be said. */
static void what_is_known_is_not_told_out_of_time(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 0);
    sell_out(0);
    gate_proxy_front_stock_cache(&worker, CLUSTER_FREE, 0);
    worker.counting.asked = 0;
    assert_int_equal(buy_free(&worker, id, 99).refusal, REFUSAL_SOLD_OUT);
    fake_clock_pass_ms(&world.clock, 59999);
    assert_int_equal(buy_free(&worker, id, 99).refusal, REFUSAL_SOLD_OUT);
    assert_int_equal(worker.counting.asked, 1);
    fake_clock_pass_ms(&world.clock, 1);
    assert_int_equal(buy_free(&worker, id, 99).refusal, REFUSAL_BAD_TICKET);
    assert_int_equal(worker.counting.asked, 2);
    fake_clock_pass_ms(&world.clock, CLUSTER_ENDS_MS - 60000);
    struct gate_request request = gate_proxy_front_buy(&worker, CLUSTER_FREE, id, 99, 1);
    request.ticket_expires_ms = request.now_ms + 1;
    assert_int_equal(gate_proxy_front_tell(&worker, request).refusal, REFUSAL_ENDED);
}

static void after_a_refill_it_is_asked_again(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 0);
    sell_out(0);
    gate_proxy_front_stock_cache(&worker, CLUSTER_FREE, 0);
    worker.counting.asked = 0;
    assert_int_equal(buy_free(&worker, id, 99).refusal, REFUSAL_SOLD_OUT);
    assert_int_equal(buy_free(&worker, id, 99).refusal, REFUSAL_SOLD_OUT);
    assert_int_equal(worker.counting.asked, 1);
    struct segment_call restock = {
        .epoch = 1,
        .command = {.kind = GATE_RESTOCK, .event = 1, .item = CLUSTER_FREE, .amount = 1}};
    segments_apply(world.hands, &restock, 1);
    assert_int_equal(restock.verdict, VERDICT_DONE);
    assert_int_equal(buy_free(&worker, id, 99).refusal, REFUSAL_SOLD_OUT); /* not heard of yet */
    gate_proxy_front_stock_cache(&worker, CLUSTER_FREE, 1);
    gate_proxy_front_stock_cache(&worker, CLUSTER_FREE,
                                 0); /* and gone, as far as this front knows */
    assert_int_equal(buy_free(&worker, id, 99).refusal, REFUSAL_NONE);
    assert_int_equal(worker.counting.asked, 2);
}

/* ---- a home that has too little ---- */

static struct gate_request *collect_after_ms(int64_t ms)
{
    fake_clock_pass_ms(&world.clock, ms);
    (void)gate_flush(worker.port, 0);
    return gate_collect(worker.port, 0);
}

static void refill(uint32_t segment, uint64_t units)
{
    struct segment_state now = cluster_look(&world, segment);
    struct segment_call call = {.segment = segment,
                                .epoch = now.epoch,
                                .after = now.event,
                                .command = {.kind = GATE_TRANSFER_IN,
                                            .event = now.event + 1,
                                            .item = CLUSTER_FREE,
                                            .amount = units}};
    segments_apply(world.hands, &call, 1);
    assert_int_equal(call.verdict, VERDICT_DONE);
}

static void a_buy_waits_for_units_that_other_segments_have(void **state)
{
    (void)state;
    struct refill refill_requests[REFILL_REQUESTS_MAX];
    struct gate_request requests[2];
    sell_out(0);
    for (uint32_t i = 0; i < 2; i++) {
        struct order_id id = cluster_id(&world, CLUSTER_FREE, 0);
        requests[i] =
            gate_proxy_front_dirty(gate_proxy_front_buy(&worker, CLUSTER_FREE, id, 7 + i, 1 + i));
        assert_int_equal(gate_submit(worker.port, &requests[i]), GATE_PENDING);
    }
    assert_int_equal(refill_requests_take(&worker.refill_requests, 1000, refill_requests), 1);
    assert_int_equal(refill_requests[0].segment, 0);
    assert_int_equal(refill_requests[0].item, CLUSTER_FREE);
    assert_int_equal(refill_requests[0].waiting, 1 + 2);
    assert_int_equal(refill_requests[0].least, 1);
    int64_t next_us = gate_flush(worker.port, 0) - clock_boot_us(&world.clock.port);
    assert_in_range(next_us, 1, 100000); /* the loop wakes for it */
    assert_int_equal(gate_flush(worker.port, 1), INT64_MAX);
    worker.counting.asked = 0;
    assert_null(collect_after_ms(1)); /* not yet its time */
    assert_int_equal(worker.counting.asked, 0);
    assert_null(collect_after_ms(100));
    assert_int_equal(worker.counting.asked, 2);
    /* They want it still, and are counted once. */
    assert_int_equal(refill_requests_take(&worker.refill_requests, 1000, refill_requests), 1);
    assert_int_equal(refill_requests[0].waiting, 3);
    refill(0, 1);
    struct gate_request *got = collect_after_ms(100);
    assert_ptr_equal(got, &requests[0]);
    assert_null(got->next);
    assert_int_equal(got->refusal, REFUSAL_NONE);
    assert_int_equal(got->lsn, 1); /* journalled like any other */
    assert_int_equal(refill_requests_take(&worker.refill_requests, 1000, refill_requests), 1);
    assert_int_equal(refill_requests[0].waiting, 2);
    refill(0, 2);
    got = collect_after_ms(100);
    assert_ptr_equal(got, &requests[1]);
    assert_int_equal(got->refusal, REFUSAL_NONE);
    assert_null(collect_after_ms(100));
    assert_int_equal(gate_flush(worker.port, 0), INT64_MAX);
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 2);
    assert_int_equal(refill_requests_take(&worker.refill_requests, 1000, refill_requests), 0);
}

static void it_does_not_wait_for_ever(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 0);
    struct gate_request request =
        gate_proxy_front_dirty(gate_proxy_front_buy(&worker, CLUSTER_FREE, id, 7, 1));
    sell_out(0);
    for (int round = 0; round < 2; round++) { /* the same ticket asks anew */
        int64_t since_ms = clock_wall_ms(&world.clock.port);
        assert_int_equal(gate_submit(worker.port, &request), GATE_PENDING);
        while (collect_after_ms(10) == NULL) {
        }
        int64_t waited_ms = clock_wall_ms(&world.clock.port) - since_ms;
        assert_in_range(waited_ms, API_REFILL_MS, API_REFILL_MS + 100);
        assert_int_equal(request.refusal, REFUSAL_UNKNOWN_OUTCOME);
    }
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 0);
    /* While it waits, the others run dry, too. */
    assert_int_equal(gate_submit(worker.port, &request), GATE_PENDING);
    gate_proxy_front_stock_cache(&worker, CLUSTER_FREE, 0);
    assert_ptr_equal(collect_after_ms(100), &request);
    assert_int_equal(request.refusal, REFUSAL_SOLD_OUT);
}

/* The process stood still meanwhile, and whoever waited has probably gone. */
static void a_buy_that_waited_too_long_is_not_asked_again(void **state)
{
    (void)state;
    struct gate_request requests[2];
    sell_out(0);
    requests[0] =
        gate_proxy_front_buy(&worker, CLUSTER_FREE, cluster_id(&world, CLUSTER_FREE, 0), 7, 1);
    requests[1] = gate_proxy_front_buy(
        &worker, 999, order_id_fresh(999, clock_wall_ms(&world.clock.port), 1), 8, 1);
    requests[1].item = 999; /* no sale has it yet */
    assert_int_equal(gate_submit(worker.port, &requests[0]), GATE_PENDING);
    assert_int_equal(gate_submit(worker.port, &requests[1]), GATE_PENDING);
    refill(0, 1); /* it would get it */
    worker.counting.asked = 0;
    fake_clock_pass_ms(&world.clock, 20000);
    struct gate_request *got = gate_collect(worker.port, 0);
    assert_non_null(got);
    assert_non_null(got->next);
    assert_null(got->next->next);
    assert_int_equal(requests[0].refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_int_equal(requests[1].refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_int_equal(worker.counting.asked, 0);
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 0);
    assert_int_equal(cluster_item(&world, 0, CLUSTER_FREE)->available, 1);
    /* The same ticket, asked anew, is decided. */
    assert_int_equal(gate_submit(worker.port, &requests[0]), GATE_ANSWERED);
    assert_int_equal(requests[0].refusal, REFUSAL_NONE);
}

/* While the gate was away, another front may have taken the buyer into its line. */
static void sold_out_is_not_told_just_after_the_gate_was_away(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 0);
    sell_out(0);
    gate_proxy_front_stock_cache(&worker, CLUSTER_FREE, 0);
    assert_int_equal(buy_free(&worker, id, 50).refusal, REFUSAL_SOLD_OUT);
    segment_table_away(&worker.segment_table, 0, clock_boot_us(&world.clock.port) / 1000);
    for (int round = 0; round < 2; round++) { /* from memory, and from the gate */
        assert_int_equal(buy_free(&worker, id, 50).refusal, REFUSAL_UNKNOWN_OUTCOME);
        stock_cache_refilled(worker.stock_cache, CLUSTER_FREE);
    }
    fake_clock_pass_ms(&world.clock, SEGMENT_TABLE_SETTLE_MS - 1);
    assert_int_equal(buy_free(&worker, id, 50).refusal, REFUSAL_UNKNOWN_OUTCOME);
    fake_clock_pass_ms(&world.clock, 1);
    assert_int_equal(buy_free(&worker, id, 50).refusal, REFUSAL_SOLD_OUT);
}

static void sold_out_is_said_when_all_together_have_too_little(void **state)
{
    (void)state;
    sell_out(0);
    gate_proxy_front_stock_cache(&worker, CLUSTER_FREE, 2);
    struct gate_request request =
        gate_proxy_front_buy(&worker, CLUSTER_FREE, cluster_id(&world, CLUSTER_FREE, 0), 7, 3);
    request = gate_proxy_front_tell(&worker, request);
    assert_int_equal(request.refusal, REFUSAL_SOLD_OUT);
    assert_int_equal(request.available, 2);
    assert_int_equal(request.locked, 98);
    request.qty = 2;
    assert_int_equal(gate_submit(worker.port, &request), GATE_PENDING);
    gate_proxy_front_stock_cache(&worker, CLUSTER_FREE, 0);
    assert_ptr_equal(collect_after_ms(100), &request);
}

/* A buy above the limit gets LIMIT_REACHED while any segment has units, and SOLD_OUT after that. */
static void sold_out_goes_before_the_limit(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CLUSTER_UNITS; i++) {
        uint64_t user = cluster_user(&world, 0, 1 + i);
        struct gate_request buy = gate_proxy_front_buy(
            &worker, CLUSTER_ONCE, order_id_once(CLUSTER_ONCE, user, 0), user, 1);
        assert_int_equal(gate_proxy_front_tell(&worker, buy).refusal, REFUSAL_NONE);
    }
    uint64_t late = cluster_user(&world, 0, 1 + CLUSTER_UNITS);
    struct gate_request request =
        gate_proxy_front_buy(&worker, CLUSTER_ONCE, order_id_once(CLUSTER_ONCE, late, 0), late, 2);
    assert_int_equal(gate_proxy_front_tell(&worker, request).refusal, REFUSAL_LIMIT_REACHED);
    gate_proxy_front_stock_cache(&worker, CLUSTER_ONCE, 0);
    request = gate_proxy_front_tell(&worker, request);
    assert_int_equal(request.refusal, REFUSAL_SOLD_OUT);
    assert_int_equal(request.available, 0);
    assert_int_equal(request.locked, 100);
}

/* An item that nobody has looked at yet: others may have it. */
static void what_is_on_no_stock_cache_may_be_somewhere(void **state)
{
    (void)state;
    uint64_t user = cluster_user(&world, 0, 1);
    struct gate_request ticket = {.kind = GATE_REQUEST_TICKET, .user = user, .item = CLUSTER_FREE};
    sell_out(0);
    stock_cache_sweep(worker.stock_cache, 77);
    assert_int_equal(gate_proxy_front_tell(&worker, ticket).view.available, 50); /* the ledger's */
    struct gate_request request =
        gate_proxy_front_buy(&worker, CLUSTER_FREE, cluster_id(&world, CLUSTER_FREE, 0), 7, 1);
    assert_int_equal(gate_submit(worker.port, &request), GATE_PENDING);
    refill(0, 1);
    assert_ptr_equal(collect_after_ms(100), &request);
    assert_int_equal(request.refusal, REFUSAL_NONE);
}

/* Warmed a moment before the gate went away: its buyers may stand in line all the same. */
static void what_is_on_no_stock_cache_yet_has_a_line(void **state)
{
    (void)state;
    uint64_t user = cluster_user(&world, 0, 1);
    struct order_id id = order_id_once(CLUSTER_ONCE, user, 0);
    stock_cache_sweep(worker.stock_cache, 77);
    sim_segments_away(world.sim, 0, true);
    struct gate_request request =
        gate_proxy_front_tell(&worker, gate_proxy_front_buy(&worker, CLUSTER_ONCE, id, user, 1));
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_int_equal(request.order.reason, REFUSAL_UNDECIDED);
}

/* The same over a gate whose answers come later. */
static void a_late_answer_waits_as_well(void **state)
{
    (void)state;
    struct gate_request requests[2];
    worker.counting.asked = 0;
    for (uint32_t i = 0; i < CLUSTER_UNITS + 2; i++) { /* all but the last two get one */
        static struct gate_request others[CLUSTER_UNITS];
        struct gate_request *request =
            i < CLUSTER_UNITS ? &others[i] : &requests[i - CLUSTER_UNITS];
        *request =
            gate_proxy_front_buy(&worker, CLUSTER_FREE, cluster_id(&world, CLUSTER_FREE, 0), 7, 1);
        assert_int_equal(gate_submit(worker.port, request), GATE_PENDING);
    }
    uint32_t answered = 0;
    for (const struct gate_request *request = collect_after_ms(3); request != NULL;
         request = request->next) {
        assert_int_equal(request->refusal, REFUSAL_NONE);
        answered++;
    }
    assert_int_equal(answered, CLUSTER_UNITS);
    assert_null(collect_after_ms(30)); /* asked again ... */
    assert_int_equal(worker.counting.asked, CLUSTER_UNITS + 4);
    assert_null(collect_after_ms(3)); /* ... too early */
    refill(0, 1);
    assert_null(collect_after_ms(30));
    assert_non_null(collect_after_ms(3));
    gate_proxy_front_stock_cache(&worker, CLUSTER_FREE, 0);
    assert_null(collect_after_ms(30));
    struct gate_request *last = collect_after_ms(3);
    assert_non_null(last);
    assert_int_equal(last->refusal, REFUSAL_SOLD_OUT);
    assert_int_equal(gate_flush(worker.port, 0), INT64_MAX);
}

/* Of a gate with one segment there is nobody to wait for. */
static void one_segment_waits_for_nobody(void **state)
{
    (void)state;
    sell_out(0);
    struct gate_request request =
        gate_proxy_front_buy(&worker, CLUSTER_FREE, cluster_id(&world, CLUSTER_FREE, 0), 7, 1);
    assert_int_equal(gate_proxy_front_tell(&worker, request).refusal, REFUSAL_SOLD_OUT);
}

/* A segment was added since this process began: what the ledger gave out and the only segment it knows
 * does not have is there. */
static void one_segment_waits_for_one_that_was_added(void **state)
{
    (void)state;
    struct stock_cache_item item;
    sell_out(0);
    assert_true(stock_cache_find(worker.stock_cache, CLUSTER_FREE, &item));
    item.most = 0;
    item.view.available = 5;
    assert_int_equal(stock_cache_put(worker.stock_cache, &item), 0);
    struct gate_request ticket = {.kind = GATE_REQUEST_TICKET, .user = 7, .item = CLUSTER_FREE};
    assert_int_equal(gate_proxy_front_tell(&worker, ticket).view.available, 5);
    struct gate_request request =
        gate_proxy_front_buy(&worker, CLUSTER_FREE, cluster_id(&world, CLUSTER_FREE, 0), 7, 1);
    assert_int_equal(gate_submit(worker.port, &request), GATE_PENDING);
    refill(0, 1);
    assert_ptr_equal(collect_after_ms(100), &request);
    assert_int_equal(request.refusal, REFUSAL_NONE);
}

static void a_ticket_is_given_while_any_segment_has_a_unit(void **state)
{
    (void)state;
    uint64_t user = cluster_user(&world, 0, 1);
    struct gate_request request = {.kind = GATE_REQUEST_TICKET, .user = user, .item = CLUSTER_FREE};
    assert_int_equal(gate_proxy_front_tell(&worker, request).view.available, CLUSTER_UNITS);
    sell_out(0);
    assert_int_equal(gate_proxy_front_tell(&worker, request).view.available, 60);
    assert_int_equal(gate_proxy_front_tell(&worker, request).view.locked, 40);
    gate_proxy_front_stock_cache(&worker, CLUSTER_FREE, 0);
    assert_int_equal(gate_proxy_front_tell(&worker, request).view.available, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_flood_on_a_sold_out_item_stays_here),
        cmocka_unit_test_setup_teardown(so_do_those_who_come_for_tickets, set_up_one, tear_down),
        TEST(who_won_with_his_ticket_is_not_told_that_all_is_gone),
        TEST(what_is_known_is_not_told_out_of_time),
        TEST(after_a_refill_it_is_asked_again),
        TEST(a_buy_waits_for_units_that_other_segments_have),
        TEST(it_does_not_wait_for_ever),
        TEST(a_buy_that_waited_too_long_is_not_asked_again),
        TEST(sold_out_is_not_told_just_after_the_gate_was_away),
        TEST(sold_out_is_said_when_all_together_have_too_little),
        cmocka_unit_test_setup_teardown(one_segment_waits_for_nobody, set_up_one, tear_down),
        cmocka_unit_test_setup_teardown(one_segment_waits_for_one_that_was_added, set_up_one,
                                        tear_down),
        TEST(sold_out_goes_before_the_limit),
        TEST(what_is_on_no_stock_cache_may_be_somewhere),
        TEST(what_is_on_no_stock_cache_yet_has_a_line),
        cmocka_unit_test_setup_teardown(a_late_answer_waits_as_well, set_up_late, tear_down),
        TEST(a_ticket_is_given_while_any_segment_has_a_unit),
    };
    return cmocka_run_group_tests_name("remote, stock", tests, NULL, NULL);
}
