/* A front's gate on other machines: where it asks, what it journals, and what it tells by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "distributed/order_segment.h"
#include "gate_proxy_fixture.h"

static struct gate_request ask_order(struct gate_proxy_front *at, struct order_id id)
{
    return gate_proxy_front_tell(at, (struct gate_request){.kind = GATE_REQUEST_ORDER, .id = id});
}

static void away(bool is_away)
{
    for (uint32_t s = 0; s < world.count; s++) {
        sim_segments_away(world.sim, s, is_away);
    }
}

/* ---- where ---- */

static void a_buy_goes_to_its_segment(void **state)
{
    (void)state;
    uint32_t met[3] = {0};
    for (uint64_t user = 1; user <= 30; user++) {
        uint32_t home = segment_home(user, 3);
        struct order_id once = order_id_once(CLUSTER_ONCE, user, 0);
        assert_int_equal(order_segment_of(once, 3), home);
        struct gate_request request = gate_proxy_front_tell(
            &worker, gate_proxy_front_buy(&worker, CLUSTER_ONCE, once, user, 1));
        assert_int_equal(request.refusal, REFUSAL_NONE);
        assert_int_equal(request.segment, home);
        assert_int_equal(request.epoch, 1);
        met[home]++;
        uint32_t other = (home + 1) % 3; /* his fresh id says another: it counts */
        struct order_id fresh = cluster_id(&world, CLUSTER_FREE, other);
        assert_int_equal(order_segment_of(fresh, 3), other);
        request = buy_free(&worker, fresh, user);
        assert_int_equal(request.refusal, REFUSAL_NONE);
        for (uint32_t s = 0; s < 3; s++) {
            assert_int_equal(cluster_order(&world, s, once) != NULL, s == home);
            assert_int_equal(cluster_order(&world, s, fresh) != NULL, s == other);
        }
        assert_int_equal(ask_order(&worker, fresh).order.user, user);
    }
    assert_true(met[0] > 0 && met[1] > 0 && met[2] > 0);
}

/* It may stand in another front's line, which is served when the gate is back, but not at once. */
static void an_order_may_be_in_anothers_line(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 1);
    struct order_id elsewhere = cluster_id(&world, CLUSTER_FREE, 0);
    assert_int_equal(ask_order(&worker, id).refusal, REFUSAL_NOT_FOUND);
    sim_segments_away(world.sim, 1, true);
    assert_int_equal(ask_order(&worker, id).refusal, REFUSAL_DEGRADED);
    sim_segments_away(world.sim, 1, false);
    assert_int_equal(ask_order(&worker, id).refusal, REFUSAL_DEGRADED);
    assert_int_equal(ask_order(&worker, elsewhere).refusal, REFUSAL_NOT_FOUND);
    fake_clock_pass_ms(&world.clock, SEGMENT_TABLE_SETTLE_MS - 1);
    assert_int_equal(ask_order(&worker, id).refusal, REFUSAL_DEGRADED);
    fake_clock_pass_ms(&world.clock, 1);
    assert_int_equal(ask_order(&worker, id).refusal, REFUSAL_NOT_FOUND);
}

static void a_ticket_is_asked_at_the_buyers_home(void **state)
{
    (void)state;
    uint64_t user = cluster_user(&world, 2, 3);
    struct order_id id = order_id_once(CLUSTER_ONCE, user, 0);
    assert_int_equal(
        gate_proxy_front_tell(&worker, gate_proxy_front_buy(&worker, CLUSTER_ONCE, id, user, 1))
            .refusal,
        REFUSAL_NONE);
    struct gate_request request = gate_proxy_front_tell(
        &worker,
        (struct gate_request){.kind = GATE_REQUEST_TICKET, .user = user, .item = CLUSTER_ONCE});
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_int_equal(request.segment, 2);
    assert_int_equal(request.held, 1);
    assert_true(request.has_order);
    assert_false(request.barred);
    assert_int_equal(request.attempt, 0);
    request = gate_proxy_front_tell(
        &worker, (struct gate_request){.kind = GATE_REQUEST_TICKET, .user = 1, .item = 99});
    assert_int_equal(request.refusal, REFUSAL_NO_SUCH_ITEM);
    assert_int_equal(worker.readings, 1);
}

static void an_items_numbers_come_from_the_stock_cache(void **state)
{
    (void)state;
    away(true);
    struct gate_request request = gate_proxy_front_tell(
        &worker, (struct gate_request){.kind = GATE_REQUEST_ITEM, .item = CLUSTER_FREE, .loop = 1});
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_int_equal(request.view.available, 60);
    request = gate_proxy_front_tell(&worker,
                                    (struct gate_request){.kind = GATE_REQUEST_ITEM, .item = 99});
    assert_int_equal(request.refusal, REFUSAL_NO_SUCH_ITEM);
    gate_proxy_front_catalog(&worker, 2, 99, false); /* a draft */
    request = gate_proxy_front_tell(&worker,
                                    (struct gate_request){.kind = GATE_REQUEST_ITEM, .item = 99});
    assert_int_equal(request.refusal, REFUSAL_NO_SUCH_ITEM);
    gate_proxy_front_catalog(&worker, 2, 99, true); /* just warmed, and on no stock cache yet */
    request = gate_proxy_front_tell(&worker,
                                    (struct gate_request){.kind = GATE_REQUEST_ITEM, .item = 100});
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_int_equal(request.view.item, 100);
    assert_int_equal(request.view.sale, 2);
    assert_int_equal(request.view.available, 50);
    assert_int_equal(request.view.locked, 15);
    assert_int_equal(request.view.sold, 5);
    assert_int_equal(request.view.sale_state, SALE_OPEN);
    assert_int_equal(worker.counting.asked, 0);
}

/* ---- what is promised is journalled ---- */

static void a_win_is_in_the_spool_before_it_is_told(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 1);
    struct gate_request request = buy_free(&worker, id, 7);
    struct spool_entry entry;
    bool wrote = false;
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_false(request.existed);
    assert_int_equal(request.lsn, 1);
    assert_int_equal(journal_durable_lsn(worker.journal), 0); /* no answer is sent yet */
    assert_true(spool_find(worker.spool, id, &entry));
    assert_int_equal(entry.lsn, 1);
    assert_int_equal(entry.epoch, 1);
    assert_int_equal(entry.command.kind, GATE_RESERVE);
    assert_int_equal(entry.command.user, 7);
    assert_int_equal(entry.command.item, CLUSTER_FREE);
    assert_int_equal(entry.command.qty, 1);
    assert_int_equal(entry.command.now_ms, request.order.created_at_ms);
    assert_int_equal(journal_flush(worker.journal, &wrote), 0);
    assert_int_equal(journal_durable_lsn(worker.journal), 1);
    struct gate_request again = buy_free(&worker, id, 7); /* the same record */
    assert_true(again.existed);
    assert_int_equal(again.lsn, 1);
    assert_int_equal(journal_last_lsn(worker.journal), 1);
}

static void an_answer_that_comes_later_is_journalled_when_it_comes(void **state)
{
    (void)state;
    struct gate_request requests[3];
    for (uint32_t i = 0; i < 3; i++) {
        requests[i] = gate_proxy_front_dirty(gate_proxy_front_buy(
            &worker, CLUSTER_FREE, cluster_id(&world, CLUSTER_FREE, 1), 7 + i, 1));
        requests[i].loop = 1;
        assert_int_equal(gate_submit(worker.port, &requests[i]), GATE_PENDING);
    }
    int64_t now_us = clock_boot_us(&world.clock.port);
    assert_int_equal(gate_flush(worker.port, 1), now_us + 2 * world.delay_us);
    assert_int_equal(gate_flush(worker.port, 0), INT64_MAX);
    assert_null(gate_collect(worker.port, 1));
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 0);
    fake_clock_pass_us(&world.clock, 2 * world.delay_us);
    assert_null(gate_collect(worker.port, 0));
    struct gate_request *request = gate_collect(worker.port, 1);
    for (uint32_t i = 0; i < 3; i++, request = request->next) {
        assert_ptr_equal(request, &requests[i]);
        assert_int_equal(request->refusal, REFUSAL_NONE);
        assert_int_equal(request->lsn, i + 1);
    }
    assert_null(request);
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 3);
}

static void a_repeated_buy_is_journalled_where_it_is_answered(void **state)
{
    (void)state;
    struct gate_proxy_front other;
    struct spool_entry entry;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 0);
    gate_proxy_front_open(&other, &world, 100);
    gate_proxy_front_stock_cache(&other, CLUSTER_FREE, 60);
    fake_clock_pass_ms(&world.clock, 5);
    struct gate_request first = buy_free(&worker, id, 7);
    fake_clock_pass_ms(&world.clock, 700);
    struct gate_request request = buy_free(&other, id, 7);
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_true(request.existed);
    assert_int_equal(request.lsn, 1);
    assert_true(spool_find(other.spool, id, &entry));
    assert_int_equal(entry.epoch, 1);
    /* As it was decided, not as it was asked again. */
    assert_int_equal(entry.command.now_ms, first.order.created_at_ms);
    /* One that the ledger knows needs no journal. */
    struct segment_call booked = {
        .epoch = 1,
        .command = {.kind = GATE_CONFIRM, .event = 1, .id = id, .time_ms = CLUSTER_NOW + 90000}};
    segments_apply(world.hands, &booked, 1);
    assert_int_equal(booked.verdict, VERDICT_DONE);
    spool_resolve(other.spool, id);
    request = buy_free(&other, id, 7);
    assert_true(request.existed);
    assert_int_equal(request.order.state, ORDER_LOCKED);
    assert_int_equal(request.lsn, 0);
    assert_int_equal(gate_proxy_front_numbers(&other).entries, 0);
    gate_proxy_front_close(&other);
}

static void a_refusal_leaves_no_trace(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 0);
    assert_int_equal(buy_free(&worker, id, 7).refusal, REFUSAL_NONE);
    assert_int_equal(buy_free(&worker, id, 8).refusal, REFUSAL_BAD_TICKET);
    assert_int_equal(
        gate_proxy_front_tell(&worker, gate_proxy_front_buy(&worker, CLUSTER_FREE, id, 7, 2))
            .refusal,
        REFUSAL_DIFFERENT_REQUEST);
    struct gate_request late =
        gate_proxy_front_buy(&worker, CLUSTER_FREE, cluster_id(&world, CLUSTER_FREE, 0), 7, 1);
    late.now_ms = late.ticket_expires_ms;
    assert_int_equal(gate_proxy_front_tell(&worker, late).refusal, REFUSAL_BAD_TICKET);
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 1);
    assert_int_equal(journal_last_lsn(worker.journal), 1);
    assert_int_equal(atomic_load(&worker.segment_table.doubts), 0);
}

/* The gate said yes and this front cannot write it down: the same ticket tells, elsewhere or later. */
static void a_win_that_cannot_be_journalled_is_not_told(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 0);
    struct gate_request request =
        gate_proxy_front_dirty(gate_proxy_front_buy(&worker, CLUSTER_FREE, id, 7, 1));
    assert_int_equal(gate_submit(worker.port, &request), GATE_PENDING);
    struct gate_command other = {
        .kind = GATE_RESERVE, .id = {1, 1}, .user = 1, .item = 1, .qty = 1};
    uint64_t lsn = 0;
    bool wrote = false;
    assert_int_equal(spool_accept(worker.spool, &other, 1, &lsn), 0);
    worker.ram.dead_at = worker.ram.ops + 1;
    assert_int_not_equal(journal_flush(worker.journal, &wrote), 0);
    fake_clock_pass_us(&world.clock, 2 * world.delay_us);
    assert_ptr_equal(gate_collect(worker.port, 0), &request);
    assert_int_equal(request.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_non_null(cluster_order(&world, 0, id));
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 1); /* the other's */
    /* From here on nothing is asked: nothing could be promised. */
    worker.counting.asked = 0;
    request = buy_free(&worker, cluster_id(&world, CLUSTER_FREE, 0), 8);
    assert_int_equal(request.refusal, REFUSAL_DEGRADED);
    assert_int_equal(worker.counting.asked, 0);
}

static struct gate_request buy_blocked(struct order_id id, uint64_t user, uint32_t qty)
{
    struct gate_request request = gate_proxy_front_buy(&worker, CLUSTER_FREE, id, user, qty);
    request.if_new = REFUSAL_BLOCKED;
    return gate_proxy_front_tell(&worker, request);
}

/* A buyer whose new orders are refused: the gate says whether there is one. */
static void a_new_order_is_refused_and_an_old_one_is_answered(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 0);
    struct order_id other = cluster_id(&world, CLUSTER_FREE, 0);
    assert_int_equal(buy_free(&worker, id, 7).refusal, REFUSAL_NONE);
    struct gate_request request = buy_blocked(id, 7, 1);
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_true(request.existed && request.has_order);
    assert_int_equal(request.held, 1);
    assert_int_equal(request.lsn, 1);
    assert_int_equal(buy_blocked(id, 7, 2).refusal, REFUSAL_DIFFERENT_REQUEST);
    request = buy_blocked(other, 7, 1);
    assert_int_equal(request.refusal, REFUSAL_BLOCKED);
    assert_false(request.has_order || request.existed);
    assert_null(cluster_order(&world, 0, other));
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 1);
    /* The same ticket buys when the block is gone. */
    assert_int_equal(buy_free(&worker, other, 7).refusal, REFUSAL_NONE);
}

static void who_is_blocked_does_not_stand_in_line(void **state)
{
    (void)state;
    struct order_id waiting = cluster_id(&world, CLUSTER_FREE, 1);
    struct order_id other = cluster_id(&world, CLUSTER_FREE, 1);
    away(true);
    assert_int_equal(buy_free(&worker, waiting, 7).refusal, REFUSAL_NONE);
    assert_int_equal(buy_blocked(other, 7, 1).refusal, REFUSAL_DEGRADED); /* it may exist */
    struct gate_request request = buy_blocked(waiting, 7, 1);
    assert_int_equal(request.refusal, REFUSAL_NONE); /* his place in line is an order */
    assert_true(request.existed);
    assert_int_equal(gate_proxy_front_numbers(&worker).undecided, 1);
    away(false);
    /* Another front may have put it in its line while the gate was away. */
    assert_int_equal(buy_blocked(other, 7, 1).refusal, REFUSAL_UNKNOWN_OUTCOME);
    fake_clock_pass_ms(&world.clock, SEGMENT_TABLE_SETTLE_MS);
    assert_int_equal(buy_blocked(other, 7, 1).refusal, REFUSAL_BLOCKED);
    request = buy_blocked(waiting, 7, 1);
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_int_equal(request.order.reason, REFUSAL_UNDECIDED);
    assert_int_equal(gate_proxy_front_numbers(&worker).undecided, 1);
}

/* ---- in line ---- */

static void buyers_stand_in_line_while_the_gate_is_away(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 1);
    struct spool_entry entry;
    away(true);
    fake_clock_pass_ms(&world.clock, 5);
    struct gate_request request = buy_free(&worker, id, 7);
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_false(request.existed);
    assert_true(request.has_order);
    assert_int_equal(request.order.state, ORDER_QUEUED);
    assert_int_equal(request.order.reason, REFUSAL_UNDECIDED);
    assert_int_equal(request.order.created_at_ms, CLUSTER_NOW + 5);
    assert_int_equal(request.order.version, 1);
    assert_int_equal(request.order.qty, 1);
    assert_int_equal(request.held, 1);
    assert_int_equal(request.lsn, 1); /* durable before the 202, too */
    assert_true(spool_find(worker.spool, id, &entry));
    assert_int_equal(entry.epoch, 0);
    assert_int_equal(gate_proxy_front_numbers(&worker).undecided, 1);
    assert_int_not_equal(atomic_load(&worker.segment_table.doubts) & 1U << 1, 0);
    /* Asked again: the same place in line. */
    fake_clock_pass_ms(&world.clock, 5);
    request = buy_free(&worker, id, 7);
    assert_true(request.existed);
    assert_int_equal(request.order.created_at_ms, CLUSTER_NOW + 5);
    assert_int_equal(request.lsn, 1);
    assert_int_equal(buy_free(&worker, id, 8).refusal, REFUSAL_BAD_TICKET);
    assert_int_equal(
        gate_proxy_front_tell(&worker, gate_proxy_front_buy(&worker, CLUSTER_FREE, id, 7, 2))
            .refusal,
        REFUSAL_DIFFERENT_REQUEST);
    request = ask_order(&worker, id);
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_int_equal(request.order.reason, REFUSAL_UNDECIDED);
    assert_int_equal(request.lsn, 1);
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 1);
    /* Decided since, by promise resolver; the gate is away again. It may have been booked, and another front may
     * have told so. */
    spool_decided(worker.spool, id, 1);
    assert_int_equal(ask_order(&worker, id).refusal, REFUSAL_DEGRADED);
    request = buy_free(&worker, id, 7);
    assert_int_equal(request.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_false(request.has_order || request.existed);
    assert_int_equal(ask_order(&worker, cluster_id(&world, CLUSTER_FREE, 1)).refusal,
                     REFUSAL_DEGRADED);
}

static void who_was_shown_as_booked_does_not_stand_in_line_again(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 1);
    assert_int_equal(buy_free(&worker, id, 7).order.state, ORDER_QUEUED);
    struct segment_call confirm = {.segment = 1,
                                   .epoch = 1,
                                   .command = {.kind = GATE_CONFIRM,
                                               .now_ms = CLUSTER_NOW,
                                               .event = 1,
                                               .id = id,
                                               .item = CLUSTER_FREE,
                                               .time_ms = CLUSTER_NOW + 60000}};
    segments_apply(world.hands, &confirm, 1);
    assert_int_equal(confirm.outcome, SEGMENT_DONE);
    assert_int_equal(ask_order(&worker, id).order.state, ORDER_LOCKED);
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 0);
    away(true);
    assert_int_equal(ask_order(&worker, id).refusal, REFUSAL_DEGRADED);
    struct gate_request again = buy_free(&worker, id, 7);
    assert_int_equal(again.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_false(again.has_order);
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 0);
    away(false);
    assert_int_equal(buy_free(&worker, id, 7).order.state, ORDER_LOCKED);
}

static void the_line_has_an_end(void **state)
{
    (void)state;
    away(true);
    for (uint64_t user = 1; user <= API_LINE_MAX; user++) {
        struct order_id id = cluster_id(&world, CLUSTER_FREE, 0);
        assert_int_equal(buy_free(&worker, id, user).refusal, REFUSAL_NONE);
    }
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 0);
    assert_int_equal(buy_free(&worker, id, 9).refusal, REFUSAL_DEGRADED);
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, API_LINE_MAX);
    away(false); /* those who stand in line come first, at their segment */
    assert_int_equal(buy_free(&worker, id, 9).refusal, REFUSAL_DEGRADED);
    assert_null(cluster_order(&world, 0, id));
    id = cluster_id(&world, CLUSTER_FREE, 1);
    assert_int_equal(buy_free(&worker, id, 9).refusal, REFUSAL_NONE);
    assert_non_null(cluster_order(&world, 1, id));
    assert_int_equal(gate_proxy_front_numbers(&worker).undecided, API_LINE_MAX);
}

/* A buy, in line or not, for the item as the stock cache shows it. */
static enum refusal in_line(const struct item_view *view, int64_t now_ms)
{
    struct gate_request request =
        gate_proxy_front_buy(&worker, CLUSTER_FREE, cluster_id(&world, CLUSTER_FREE, 0), 7, 2);
    struct stock_cache_item put = {.view = *view, .homes = world.count, .mark = 1};
    assert_int_equal(stock_cache_put(worker.stock_cache, &put), 0);
    struct sale_row *sale = calloc(1, sizeof(*sale));
    struct item_row *item = calloc(1, sizeof(*item));
    assert_true(sale != NULL && item != NULL);
    *item = (struct item_row){.id = CLUSTER_FREE, .limit_per_user = view->limit_per_user};
    *sale = (struct sale_row){.id = CLUSTER_SALE,
                              .state = (enum sale_state)view->sale_state,
                              .homes = world.count,
                              .starts_at_ms = view->starts_at_ms,
                              .ends_at_ms = view->ends_at_ms,
                              .items_count = 1,
                              .items = item};
    assert_int_equal(catalog_put(worker.catalog, sale), 0);
    request.now_ms = now_ms;
    return gate_proxy_front_tell(&worker, request).refusal;
}

static void only_who_may_buy_stands_in_line(void **state)
{
    (void)state;
    const struct item_view good = {.item = CLUSTER_FREE,
                                   .sale = CLUSTER_SALE,
                                   .total = 9,
                                   .available = 9,
                                   .sale_state = SALE_OPEN,
                                   .starts_at_ms = CLUSTER_NOW + 100,
                                   .ends_at_ms = CLUSTER_NOW + 10000};
    struct item_view view = good;
    away(true);
    assert_int_equal(in_line(&view, CLUSTER_NOW + 99), REFUSAL_TOO_EARLY);
    assert_int_equal(in_line(&view, CLUSTER_NOW + 10000), REFUSAL_ENDED);
    assert_int_equal(in_line(&view, CLUSTER_NOW + 60000), REFUSAL_BAD_TICKET); /* it has expired */
    view.sale_state = SALE_PAUSED;
    assert_int_equal(in_line(&view, CLUSTER_NOW + 100), REFUSAL_NOT_OPEN);
    view.sale_state = SALE_CLOSED;
    assert_int_equal(in_line(&view, CLUSTER_NOW + 100), REFUSAL_ENDED);
    view = good;
    view.available = 0;
    view.locked = 9;
    assert_int_equal(in_line(&view, CLUSTER_NOW + 100), REFUSAL_DEGRADED);
    view = good;
    view.limit_per_user = 1;
    assert_int_equal(in_line(&view, CLUSTER_NOW + 100), REFUSAL_LIMIT_REACHED);
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 0);
    view.limit_per_user = 2;
    assert_int_equal(in_line(&view, CLUSTER_NOW + 100), REFUSAL_NONE);
    view.sale_state = SALE_WARM; /* past its start: open, though nobody has written it down */
    assert_int_equal(in_line(&view, CLUSTER_NOW + 100), REFUSAL_NONE);
    assert_int_equal(gate_proxy_front_numbers(&worker).undecided, 2);
}

static void a_full_spool_promises_nothing_and_tells_what_it_holds(void **state)
{
    (void)state;
    struct order_id first = cluster_id(&world, CLUSTER_FREE, 0);
    struct order_id waiting = cluster_id(&world, CLUSTER_FREE, 1);
    struct order_id left = cluster_id(&world, CLUSTER_FREE, 2);
    assert_int_equal(buy_free(&worker, first, 7).refusal, REFUSAL_NONE);
    away(true);
    assert_int_equal(buy_free(&worker, waiting, 9).refusal, REFUSAL_NONE);
    away(false);
    struct gate_command command = {.kind = GATE_RESERVE, .user = 1, .item = 1, .qty = 1};
    for (uint64_t i = 1; spool_has_room(worker.spool); i++) {
        uint64_t lsn = 0;
        command.id = (struct order_id){5, i};
        assert_int_equal(spool_accept(worker.spool, &command, 1, &lsn), 0);
    }
    worker.counting.asked = 0;
    struct gate_request request = buy_free(&worker, waiting, 9);
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_true(request.existed);
    assert_int_equal(request.order.reason, REFUSAL_UNDECIDED);
    assert_int_equal(request.lsn, 2);
    request = buy_free(&worker, first, 7); /* it may be booked by now: only the gate could tell */
    assert_int_equal(request.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_false(request.has_order || request.existed);
    assert_int_equal(buy_free(&worker, left, 8).refusal, REFUSAL_DEGRADED);
    assert_int_equal(worker.counting.asked, 0);
    away(true);
    assert_int_equal(buy_free(&worker, left, 8).refusal, REFUSAL_DEGRADED);
}

/* ---- what cannot be known ---- */

/* Another front may have warmed its sale a moment ago. */
static void an_item_that_is_not_here_is_looked_for_once_more(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, 99, 0);
    assert_int_equal(
        gate_proxy_front_tell(&worker, gate_proxy_front_buy(&worker, 99, id, 7, 1)).refusal,
        REFUSAL_NO_SUCH_ITEM);
    assert_int_equal(ask_order(&worker, id).refusal, REFUSAL_NOT_FOUND);
    assert_int_equal(worker.readings, 2);
    worker.ledger_away = true;
    struct gate_request requests[] = {
        gate_proxy_front_buy(&worker, 99, id, 7, 1),
        {.kind = GATE_REQUEST_ORDER, .id = id},
        {.kind = GATE_REQUEST_TICKET, .user = 7, .item = 99},
    };
    uint64_t old = catalog_begin_reading(worker.catalog); /* it began before they asked */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gate_submit(worker.port, &requests[i]), GATE_PENDING);
    }
    catalog_end_reading(worker.catalog, old);
    fake_clock_pass_ms(&world.clock, 100);
    assert_null(gate_collect(worker.port, 0));
    assert_true(gate_flush(worker.port, 0) <= clock_boot_us(&world.clock.port) + 20000);
    uint64_t reading = catalog_begin_reading(worker.catalog);
    gate_proxy_front_catalog(&worker, 2, 99, true);
    catalog_end_reading(worker.catalog, reading);
    assert_int_equal(worker.counting.asked, 0);
    fake_clock_pass_ms(&world.clock, 20);
    size_t back = 0;
    for (struct gate_request *request = gate_collect(worker.port, 0); request != NULL;
         request = request->next) {
        assert_int_equal(request->refusal, request->kind == GATE_REQUEST_ORDER
                                               ? REFUSAL_NOT_FOUND
                                               : REFUSAL_NO_SUCH_ITEM);
        back++;
    }
    assert_int_equal(back, 3);
    assert_int_equal(worker.counting.asked,
                     3); /* the gate has said so: it does not know the sale */
}

static void where_the_sales_cannot_be_read_nobody_says_there_is_none(void **state)
{
    (void)state;
    static struct gate_request requests[1000];
    size_t waiting = 0;
    worker.ledger_away = true;
    for (size_t i = 0; i < 1000; i++) { /* who makes ids up gets so far and no farther */
        requests[i] =
            (struct gate_request){.kind = GATE_REQUEST_TICKET, .user = 7, .item = 1000 + i};
        if (gate_submit(worker.port, &requests[i]) == GATE_PENDING) {
            waiting++;
        } else {
            assert_int_equal(requests[i].refusal, REFUSAL_DEGRADED);
        }
    }
    assert_true(waiting > 0 && waiting < 1000);
    struct gate_request known = {.kind = GATE_REQUEST_TICKET, .user = 7, .item = CLUSTER_ONCE};
    assert_int_equal(gate_proxy_front_tell(&worker, known).refusal, REFUSAL_NONE);
    for (int i = 0; i < 100 && waiting > 0; i++) {
        fake_clock_pass_ms(&world.clock, 50);
        for (struct gate_request *request = gate_collect(worker.port, 0); request != NULL;
             request = request->next) {
            assert_int_equal(request->refusal, REFUSAL_DEGRADED);
            waiting--;
        }
    }
    assert_int_equal(waiting, 0);
    worker.ledger_away = false; /* all places are free again */
    assert_int_equal(gate_proxy_front_tell(&worker, requests[0]).refusal, REFUSAL_NO_SUCH_ITEM);
}

/* A front that has just started may have read no sale, and has its journal's promises: of those that were
 * decided, some were booked and told as such long ago. */
static void who_stands_in_line_here_is_told_whatever_the_catalog_has(void **state)
{
    (void)state;
    struct order_id ids[] = {cluster_id(&world, 99, 0), cluster_id(&world, 99, 0)};
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        struct gate_command command = {.kind = GATE_RESERVE,
                                       .now_ms = CLUSTER_NOW,
                                       .id = ids[epoch],
                                       .user = 7,
                                       .item = 99,
                                       .qty = 1};
        uint64_t lsn = 0;
        assert_int_equal(spool_accept(worker.spool, &command, epoch, &lsn), 0);
    }
    for (int away = 0; away < 2; away++) {
        worker.ledger_away = away;
        assert_int_equal(ask_order(&worker, ids[0]).refusal, REFUSAL_NONE);
        assert_int_equal(ask_order(&worker, ids[0]).order.state, ORDER_QUEUED);
        struct gate_request request =
            gate_proxy_front_tell(&worker, gate_proxy_front_buy(&worker, 99, ids[0], 7, 1));
        assert_int_equal(request.refusal, REFUSAL_NONE);
        assert_true(request.existed);
        assert_int_equal(ask_order(&worker, ids[1]).refusal, REFUSAL_DEGRADED);
        request = gate_proxy_front_tell(&worker, gate_proxy_front_buy(&worker, 99, ids[1], 7, 1));
        assert_int_equal(request.refusal, REFUSAL_UNKNOWN_OUTCOME);
        assert_false(request.has_order || request.existed);
        for (int i = 0; i < 2; i++) {
            request =
                gate_proxy_front_tell(&worker, gate_proxy_front_buy(&worker, 99, ids[i], 8, 1));
            assert_int_equal(request.refusal, REFUSAL_BAD_TICKET);
        }
    }
}

/* Anybody may ask for an order by any id. */
static void an_id_of_no_segment_is_nobodys(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, SEGMENTS_MAX - 1);
    assert_int_equal(ask_order(&worker, id).refusal, REFUSAL_NOT_FOUND);
    assert_int_equal(buy_free(&worker, id, 7).refusal, REFUSAL_NO_SUCH_ITEM);
    assert_int_equal(worker.counting.asked, 0);
}

static void an_outcome_that_is_not_known_raises_a_doubt(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 2);
    sim_segments_lose(world.sim, 2, 1);
    struct gate_request request = buy_free(&worker, id, 7);
    assert_int_equal(request.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_int_equal(atomic_load(&worker.segment_table.doubts), 1U << 2);
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 0); /* nothing was promised */
    assert_non_null(cluster_order(&world, 2, id));
    request = buy_free(&worker, id, 7); /* the same ticket tells */
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_true(request.existed);
    assert_int_equal(gate_proxy_front_numbers(&worker).entries, 1);
    /* A segment that was made anew since: nothing is decided under the old epoch. */
    atomic_store(&worker.segment_table.doubts, 0);
    cluster_fill(&world, 2, 2, 0);
    struct order_id other = cluster_id(&world, CLUSTER_FREE, 2);
    assert_int_equal(buy_free(&worker, other, 8).refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_int_equal(atomic_load(&worker.segment_table.doubts), 1U << 2);
    assert_int_equal(ask_order(&worker, other).refusal, REFUSAL_DEGRADED); /* never "not found" */
    assert_int_equal(ask_order(&worker, id).refusal,
                     REFUSAL_DEGRADED); /* it may be booked by now */
    cluster_place(&world, &worker.segment_table, worker.port);
    request =
        ask_order(&worker, id); /* not found there, so not booked; and not yet decided again */
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_int_equal(request.order.state, ORDER_QUEUED);
    assert_int_equal(ask_order(&worker, other).refusal,
                     REFUSAL_DEGRADED); /* nor by others, perhaps */
    fake_clock_pass_ms(&world.clock, SEGMENT_TABLE_SETTLE_MS);
    assert_int_equal(ask_order(&worker, other).refusal, REFUSAL_NOT_FOUND);
    request = buy_free(&worker, other, 8);
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_int_equal(request.epoch, 2);
    struct spool_entry entry;
    assert_true(spool_find(worker.spool, other, &entry));
    assert_int_equal(entry.epoch, 2);
}

static void with_a_clock_that_is_off_nothing_is_sold(void **state)
{
    (void)state;
    struct order_id id = cluster_id(&world, CLUSTER_FREE, 0);
    struct order_id other = cluster_id(&world, CLUSTER_FREE, 0);
    assert_int_equal(buy_free(&worker, id, 7).refusal, REFUSAL_NONE);
    atomic_store(&worker.segment_table.clock_is_off, true);
    worker.counting.asked = 0;
    assert_int_equal(buy_free(&worker, other, 8).refusal, REFUSAL_DEGRADED);
    assert_int_equal(worker.counting.asked, 0);
    struct gate_request request = buy_free(&worker, id, 7); /* it may be booked by now */
    assert_int_equal(request.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_false(request.has_order || request.existed);
    assert_int_equal(ask_order(&worker, id).refusal, REFUSAL_NONE);
    away(true); /* nor is anyone put in line */
    assert_int_equal(buy_free(&worker, other, 8).refusal, REFUSAL_DEGRADED);
    away(false);
    atomic_store(&worker.segment_table.clock_is_off, false);
    assert_int_equal(buy_free(&worker, other, 8).refusal, REFUSAL_NONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_LATE(name) cmocka_unit_test_setup_teardown(name, set_up_late, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_buy_goes_to_its_segment),
        TEST(an_order_may_be_in_anothers_line),
        TEST(a_ticket_is_asked_at_the_buyers_home),
        TEST(an_items_numbers_come_from_the_stock_cache),
        TEST(a_win_is_in_the_spool_before_it_is_told),
        TEST_LATE(an_answer_that_comes_later_is_journalled_when_it_comes),
        TEST(a_repeated_buy_is_journalled_where_it_is_answered),
        TEST(a_refusal_leaves_no_trace),
        TEST(a_new_order_is_refused_and_an_old_one_is_answered),
        TEST(who_is_blocked_does_not_stand_in_line),
        TEST_LATE(a_win_that_cannot_be_journalled_is_not_told),
        TEST(buyers_stand_in_line_while_the_gate_is_away),
        TEST(who_was_shown_as_booked_does_not_stand_in_line_again),
        TEST(the_line_has_an_end),
        TEST(only_who_may_buy_stands_in_line),
        TEST(a_full_spool_promises_nothing_and_tells_what_it_holds),
        TEST(an_item_that_is_not_here_is_looked_for_once_more),
        TEST(where_the_sales_cannot_be_read_nobody_says_there_is_none),
        TEST(who_stands_in_line_here_is_told_whatever_the_catalog_has),
        TEST(an_id_of_no_segment_is_nobodys),
        TEST(an_outcome_that_is_not_known_raises_a_doubt),
        TEST(with_a_clock_that_is_off_nothing_is_sold),
    };
    return cmocka_run_group_tests_name("remote", tests, NULL, NULL);
}
