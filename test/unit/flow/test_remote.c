/* A front's gate on other machines: where it asks, what it journals, and what it tells by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "remote_front.h"

static struct segments_world world;
static struct remote_front front;

static void set_up_world(uint32_t segments, bool late)
{
    segments_world_init(&world, segments, late);
    for (uint32_t s = 0; s < segments; s++) {
        segments_world_fill(&world, s, 1, 0);
    }
    remote_front_open(&front, &world, 100);
    remote_front_shelf(&front, WIDE_ONCE, 60);
    remote_front_shelf(&front, WIDE_FREE, 60);
}

static int set_up(void **state)
{
    (void)state;
    set_up_world(3, false);
    return 0;
}

static int set_up_late(void **state)
{
    (void)state;
    set_up_world(2, true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remote_front_close(&front);
    segments_world_done(&world);
    return 0;
}

static struct gate_ask buy_free(struct remote_front *at, struct order_id id, uint64_t user)
{
    return remote_front_tell(at, remote_front_buy(at, WIDE_FREE, id, user, 1));
}

static struct gate_ask ask_order(struct remote_front *at, struct order_id id)
{
    return remote_front_tell(at, (struct gate_ask){.question = ASK_ORDER, .id = id});
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
    const struct sale_row sale = {.homes = 3};
    for (uint64_t user = 1; user <= 30; user++) {
        uint32_t home = segment_home(user, 3);
        struct order_id once = order_id_once(WIDE_ONCE, user, 0);
        assert_int_equal(remote_segment(once, &sale), home);
        struct gate_ask ask =
            remote_front_tell(&front, remote_front_buy(&front, WIDE_ONCE, once, user, 1));
        assert_int_equal(ask.refusal, REFUSAL_NONE);
        assert_int_equal(ask.segment, home);
        assert_int_equal(ask.epoch, 1);
        met[home]++;
        uint32_t other = (home + 1) % 3; /* his fresh id says another: it counts */
        struct order_id fresh = segments_world_id(&world, WIDE_FREE, other);
        assert_int_equal(remote_segment(fresh, &sale), other);
        ask = buy_free(&front, fresh, user);
        assert_int_equal(ask.refusal, REFUSAL_NONE);
        for (uint32_t s = 0; s < 3; s++) {
            assert_int_equal(segments_world_order(&world, s, once) != NULL, s == home);
            assert_int_equal(segments_world_order(&world, s, fresh) != NULL, s == other);
        }
        assert_int_equal(ask_order(&front, fresh).order.user, user);
    }
    assert_true(met[0] > 0 && met[1] > 0 && met[2] > 0);
}

/* It may stand in another front's line, which is served when the gate is back, but not at once. */
static void an_order_may_be_in_anothers_line(void **state)
{
    (void)state;
    struct order_id id = segments_world_id(&world, WIDE_FREE, 1);
    struct order_id elsewhere = segments_world_id(&world, WIDE_FREE, 0);
    assert_int_equal(ask_order(&front, id).refusal, REFUSAL_NOT_FOUND);
    sim_segments_away(world.sim, 1, true);
    assert_int_equal(ask_order(&front, id).refusal, REFUSAL_DEGRADED);
    sim_segments_away(world.sim, 1, false);
    assert_int_equal(ask_order(&front, id).refusal, REFUSAL_DEGRADED);
    assert_int_equal(ask_order(&front, elsewhere).refusal, REFUSAL_NOT_FOUND);
    fake_clock_pass_ms(&world.clock, PLACES_SETTLE_MS - 1);
    assert_int_equal(ask_order(&front, id).refusal, REFUSAL_DEGRADED);
    fake_clock_pass_ms(&world.clock, 1);
    assert_int_equal(ask_order(&front, id).refusal, REFUSAL_NOT_FOUND);
}

static void a_ticket_is_asked_at_the_buyers_home(void **state)
{
    (void)state;
    uint64_t user = segments_world_user(&world, 2, 3);
    struct order_id id = order_id_once(WIDE_ONCE, user, 0);
    assert_int_equal(
        remote_front_tell(&front, remote_front_buy(&front, WIDE_ONCE, id, user, 1)).refusal,
        REFUSAL_NONE);
    struct gate_ask ask = remote_front_tell(
        &front, (struct gate_ask){.question = ASK_TICKET, .user = user, .item = WIDE_ONCE});
    assert_int_equal(ask.refusal, REFUSAL_NONE);
    assert_int_equal(ask.segment, 2);
    assert_int_equal(ask.held, 1);
    assert_true(ask.has_order);
    assert_false(ask.barred);
    assert_int_equal(ask.attempt, 0);
    ask =
        remote_front_tell(&front, (struct gate_ask){.question = ASK_TICKET, .user = 1, .item = 99});
    assert_int_equal(ask.refusal, REFUSAL_NO_SUCH_ITEM);
    assert_int_equal(front.readings, 1);
}

static void an_items_numbers_come_from_the_shelf(void **state)
{
    (void)state;
    away(true);
    struct gate_ask ask = remote_front_tell(
        &front, (struct gate_ask){.question = ASK_ITEM, .item = WIDE_FREE, .loop = 1});
    assert_int_equal(ask.refusal, REFUSAL_NONE);
    assert_int_equal(ask.view.available, 60);
    ask = remote_front_tell(&front, (struct gate_ask){.question = ASK_ITEM, .item = 99});
    assert_int_equal(ask.refusal, REFUSAL_NO_SUCH_ITEM);
    remote_front_catalog(&front, 2, 99, false); /* a draft */
    ask = remote_front_tell(&front, (struct gate_ask){.question = ASK_ITEM, .item = 99});
    assert_int_equal(ask.refusal, REFUSAL_NO_SUCH_ITEM);
    remote_front_catalog(&front, 2, 99, true); /* just warmed, and on no shelf yet */
    ask = remote_front_tell(&front, (struct gate_ask){.question = ASK_ITEM, .item = 100});
    assert_int_equal(ask.refusal, REFUSAL_NONE);
    assert_int_equal(ask.view.item, 100);
    assert_int_equal(ask.view.sale, 2);
    assert_int_equal(ask.view.available, 50);
    assert_int_equal(ask.view.locked, 15);
    assert_int_equal(ask.view.sold, 5);
    assert_int_equal(ask.view.sale_state, SALE_OPEN);
    assert_int_equal(front.counting.asked, 0);
}

/* ---- what is promised is journalled ---- */

static void a_win_is_in_the_spool_before_it_is_told(void **state)
{
    (void)state;
    struct order_id id = segments_world_id(&world, WIDE_FREE, 1);
    struct gate_ask ask = buy_free(&front, id, 7);
    struct spool_entry entry;
    bool wrote = false;
    assert_int_equal(ask.refusal, REFUSAL_NONE);
    assert_false(ask.existed);
    assert_int_equal(ask.lsn, 1);
    assert_int_equal(journal_durable_lsn(front.journal), 0); /* nobody is told yet */
    assert_true(spool_find(front.spool, id, &entry));
    assert_int_equal(entry.lsn, 1);
    assert_int_equal(entry.epoch, 1);
    assert_int_equal(entry.command.kind, GATE_RESERVE);
    assert_int_equal(entry.command.user, 7);
    assert_int_equal(entry.command.item, WIDE_FREE);
    assert_int_equal(entry.command.qty, 1);
    assert_int_equal(entry.command.now_ms, ask.order.created_at_ms);
    assert_int_equal(journal_flush(front.journal, &wrote), 0);
    assert_int_equal(journal_durable_lsn(front.journal), 1);
    struct gate_ask again = buy_free(&front, id, 7); /* the same record */
    assert_true(again.existed);
    assert_int_equal(again.lsn, 1);
    assert_int_equal(journal_last_lsn(front.journal), 1);
}

static void an_answer_that_comes_later_is_journalled_when_it_comes(void **state)
{
    (void)state;
    struct gate_ask asks[3];
    for (uint32_t i = 0; i < 3; i++) {
        asks[i] = remote_front_dirty(
            remote_front_buy(&front, WIDE_FREE, segments_world_id(&world, WIDE_FREE, 1), 7 + i, 1));
        asks[i].loop = 1;
        assert_int_equal(gate_submit(front.port, &asks[i]), GATE_ASKED);
    }
    int64_t now_us = clock_boot_us(&world.clock.port);
    assert_int_equal(gate_flush(front.port, 1), now_us + 2 * world.delay_us);
    assert_int_equal(gate_flush(front.port, 0), INT64_MAX);
    assert_null(gate_collect(front.port, 1));
    assert_int_equal(remote_front_numbers(&front).entries, 0);
    fake_clock_pass_us(&world.clock, 2 * world.delay_us);
    assert_null(gate_collect(front.port, 0));
    struct gate_ask *ask = gate_collect(front.port, 1);
    for (uint32_t i = 0; i < 3; i++, ask = ask->next) {
        assert_ptr_equal(ask, &asks[i]);
        assert_int_equal(ask->refusal, REFUSAL_NONE);
        assert_int_equal(ask->lsn, i + 1);
    }
    assert_null(ask);
    assert_int_equal(remote_front_numbers(&front).entries, 3);
}

static void a_repeated_buy_is_journalled_where_it_is_answered(void **state)
{
    (void)state;
    struct remote_front other;
    struct spool_entry entry;
    struct order_id id = segments_world_id(&world, WIDE_FREE, 0);
    remote_front_open(&other, &world, 100);
    remote_front_shelf(&other, WIDE_FREE, 60);
    fake_clock_pass_ms(&world.clock, 5);
    struct gate_ask first = buy_free(&front, id, 7);
    fake_clock_pass_ms(&world.clock, 700);
    struct gate_ask ask = buy_free(&other, id, 7);
    assert_int_equal(ask.refusal, REFUSAL_NONE);
    assert_true(ask.existed);
    assert_int_equal(ask.lsn, 1);
    assert_true(spool_find(other.spool, id, &entry));
    assert_int_equal(entry.epoch, 1);
    /* As it was decided, not as it was asked again. */
    assert_int_equal(entry.command.now_ms, first.order.created_at_ms);
    /* One that the ledger knows needs no journal. */
    struct segment_call booked = {
        .epoch = 1,
        .command = {.kind = GATE_CONFIRM, .event = 1, .id = id, .time_ms = WIDE_NOW + 90000}};
    segments_apply(world.hands, &booked, 1);
    assert_int_equal(booked.verdict, VERDICT_DONE);
    spool_resolve(other.spool, id);
    ask = buy_free(&other, id, 7);
    assert_true(ask.existed);
    assert_int_equal(ask.order.state, ORDER_LOCKED);
    assert_int_equal(ask.lsn, 0);
    assert_int_equal(remote_front_numbers(&other).entries, 0);
    remote_front_close(&other);
}

static void a_refusal_leaves_no_trace(void **state)
{
    (void)state;
    struct order_id id = segments_world_id(&world, WIDE_FREE, 0);
    assert_int_equal(buy_free(&front, id, 7).refusal, REFUSAL_NONE);
    assert_int_equal(buy_free(&front, id, 8).refusal, REFUSAL_BAD_TICKET);
    assert_int_equal(
        remote_front_tell(&front, remote_front_buy(&front, WIDE_FREE, id, 7, 2)).refusal,
        REFUSAL_DIFFERENT_REQUEST);
    struct gate_ask late =
        remote_front_buy(&front, WIDE_FREE, segments_world_id(&world, WIDE_FREE, 0), 7, 1);
    late.now_ms = late.ticket_expires_ms;
    assert_int_equal(remote_front_tell(&front, late).refusal, REFUSAL_BAD_TICKET);
    assert_int_equal(remote_front_numbers(&front).entries, 1);
    assert_int_equal(journal_last_lsn(front.journal), 1);
    assert_int_equal(atomic_load(&front.places.doubts), 0);
}

/* The gate said yes and this front cannot write it down: the same ticket tells, elsewhere or later. */
static void a_win_that_cannot_be_journalled_is_not_told(void **state)
{
    (void)state;
    struct order_id id = segments_world_id(&world, WIDE_FREE, 0);
    struct gate_ask ask = remote_front_dirty(remote_front_buy(&front, WIDE_FREE, id, 7, 1));
    assert_int_equal(gate_submit(front.port, &ask), GATE_ASKED);
    struct gate_command other = {
        .kind = GATE_RESERVE, .id = {1, 1}, .user = 1, .item = 1, .qty = 1};
    uint64_t lsn = 0;
    bool wrote = false;
    assert_int_equal(spool_accept(front.spool, &other, 1, &lsn), 0);
    front.ram.dead_at = front.ram.ops + 1;
    assert_int_not_equal(journal_flush(front.journal, &wrote), 0);
    fake_clock_pass_us(&world.clock, 2 * world.delay_us);
    assert_ptr_equal(gate_collect(front.port, 0), &ask);
    assert_int_equal(ask.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_non_null(segments_world_order(&world, 0, id));
    assert_int_equal(remote_front_numbers(&front).entries, 1); /* the other's */
    /* From here on nothing is asked: nothing could be promised. */
    front.counting.asked = 0;
    ask = buy_free(&front, segments_world_id(&world, WIDE_FREE, 0), 8);
    assert_int_equal(ask.refusal, REFUSAL_DEGRADED);
    assert_int_equal(front.counting.asked, 0);
}

/* ---- in line ---- */

static void buyers_stand_in_line_while_the_gate_is_away(void **state)
{
    (void)state;
    struct order_id id = segments_world_id(&world, WIDE_FREE, 1);
    struct spool_entry entry;
    away(true);
    fake_clock_pass_ms(&world.clock, 5);
    struct gate_ask ask = buy_free(&front, id, 7);
    assert_int_equal(ask.refusal, REFUSAL_NONE);
    assert_false(ask.existed);
    assert_true(ask.has_order);
    assert_int_equal(ask.order.state, ORDER_QUEUED);
    assert_int_equal(ask.order.reason, REFUSAL_UNDECIDED);
    assert_int_equal(ask.order.created_at_ms, WIDE_NOW + 5);
    assert_int_equal(ask.order.version, 1);
    assert_int_equal(ask.order.qty, 1);
    assert_int_equal(ask.held, 1);
    assert_int_equal(ask.lsn, 1); /* durable before the 202, too */
    assert_true(spool_find(front.spool, id, &entry));
    assert_int_equal(entry.epoch, 0);
    assert_int_equal(remote_front_numbers(&front).undecided, 1);
    assert_int_not_equal(atomic_load(&front.places.doubts) & 1U << 1, 0);
    /* Asked again: the same place in line. */
    fake_clock_pass_ms(&world.clock, 5);
    ask = buy_free(&front, id, 7);
    assert_true(ask.existed);
    assert_int_equal(ask.order.created_at_ms, WIDE_NOW + 5);
    assert_int_equal(ask.lsn, 1);
    assert_int_equal(buy_free(&front, id, 8).refusal, REFUSAL_BAD_TICKET);
    assert_int_equal(
        remote_front_tell(&front, remote_front_buy(&front, WIDE_FREE, id, 7, 2)).refusal,
        REFUSAL_DIFFERENT_REQUEST);
    ask = ask_order(&front, id);
    assert_int_equal(ask.refusal, REFUSAL_NONE);
    assert_int_equal(ask.order.reason, REFUSAL_UNDECIDED);
    assert_int_equal(ask.lsn, 1);
    assert_int_equal(remote_front_numbers(&front).entries, 1);
    /* Decided since, by upkeep; the gate is away again. It may have been booked, and another front may
     * have told so. */
    spool_decided(front.spool, id, 1);
    assert_int_equal(ask_order(&front, id).refusal, REFUSAL_DEGRADED);
    ask = buy_free(&front, id, 7);
    assert_int_equal(ask.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_false(ask.has_order || ask.existed);
    assert_int_equal(ask_order(&front, segments_world_id(&world, WIDE_FREE, 1)).refusal,
                     REFUSAL_DEGRADED);
}

static void who_was_shown_as_booked_does_not_stand_in_line_again(void **state)
{
    (void)state;
    struct order_id id = segments_world_id(&world, WIDE_FREE, 1);
    assert_int_equal(buy_free(&front, id, 7).order.state, ORDER_QUEUED);
    struct segment_call confirm = {.segment = 1,
                                   .epoch = 1,
                                   .command = {.kind = GATE_CONFIRM,
                                               .now_ms = WIDE_NOW,
                                               .event = 1,
                                               .id = id,
                                               .item = WIDE_FREE,
                                               .time_ms = WIDE_NOW + 60000}};
    segments_apply(world.hands, &confirm, 1);
    assert_int_equal(confirm.outcome, SEGMENT_DONE);
    assert_int_equal(ask_order(&front, id).order.state, ORDER_LOCKED);
    assert_int_equal(remote_front_numbers(&front).entries, 0);
    away(true);
    assert_int_equal(ask_order(&front, id).refusal, REFUSAL_DEGRADED);
    struct gate_ask again = buy_free(&front, id, 7);
    assert_int_equal(again.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_false(again.has_order);
    assert_int_equal(remote_front_numbers(&front).entries, 0);
    away(false);
    assert_int_equal(buy_free(&front, id, 7).order.state, ORDER_LOCKED);
}

static void the_line_has_an_end(void **state)
{
    (void)state;
    away(true);
    for (uint64_t user = 1; user <= FRONT_LINE_MAX; user++) {
        struct order_id id = segments_world_id(&world, WIDE_FREE, 0);
        assert_int_equal(buy_free(&front, id, user).refusal, REFUSAL_NONE);
    }
    struct order_id id = segments_world_id(&world, WIDE_FREE, 0);
    assert_int_equal(buy_free(&front, id, 9).refusal, REFUSAL_DEGRADED);
    assert_int_equal(remote_front_numbers(&front).entries, FRONT_LINE_MAX);
    away(false); /* those who stand in line come first, at their segment */
    assert_int_equal(buy_free(&front, id, 9).refusal, REFUSAL_DEGRADED);
    assert_null(segments_world_order(&world, 0, id));
    id = segments_world_id(&world, WIDE_FREE, 1);
    assert_int_equal(buy_free(&front, id, 9).refusal, REFUSAL_NONE);
    assert_non_null(segments_world_order(&world, 1, id));
    assert_int_equal(remote_front_numbers(&front).undecided, FRONT_LINE_MAX);
}

/* A buy, in line or not, for the item as the shelf shows it. */
static enum refusal in_line(const struct item_view *view, int64_t now_ms)
{
    struct gate_ask ask =
        remote_front_buy(&front, WIDE_FREE, segments_world_id(&world, WIDE_FREE, 0), 7, 2);
    struct shelf_item put = {.view = *view, .homes = world.count, .mark = 1};
    assert_int_equal(shelf_put(front.shelf, &put), 0);
    struct sale_row *sale = calloc(1, sizeof(*sale));
    struct item_row *item = calloc(1, sizeof(*item));
    assert_true(sale != NULL && item != NULL);
    *item = (struct item_row){.id = WIDE_FREE, .limit_per_user = view->limit_per_user};
    *sale = (struct sale_row){.id = WIDE_SALE,
                              .state = (enum sale_state)view->sale_state,
                              .homes = world.count,
                              .starts_at_ms = view->starts_at_ms,
                              .ends_at_ms = view->ends_at_ms,
                              .items_count = 1,
                              .items = item};
    assert_int_equal(catalog_put(front.catalog, sale), 0);
    ask.now_ms = now_ms;
    return remote_front_tell(&front, ask).refusal;
}

static void only_who_may_buy_stands_in_line(void **state)
{
    (void)state;
    const struct item_view good = {.item = WIDE_FREE,
                                   .sale = WIDE_SALE,
                                   .total = 9,
                                   .available = 9,
                                   .sale_state = SALE_OPEN,
                                   .starts_at_ms = WIDE_NOW + 100,
                                   .ends_at_ms = WIDE_NOW + 10000};
    struct item_view view = good;
    away(true);
    assert_int_equal(in_line(&view, WIDE_NOW + 99), REFUSAL_TOO_EARLY);
    assert_int_equal(in_line(&view, WIDE_NOW + 10000), REFUSAL_ENDED);
    assert_int_equal(in_line(&view, WIDE_NOW + 60000), REFUSAL_BAD_TICKET); /* it has expired */
    view.sale_state = SALE_PAUSED;
    assert_int_equal(in_line(&view, WIDE_NOW + 100), REFUSAL_NOT_OPEN);
    view.sale_state = SALE_CLOSED;
    assert_int_equal(in_line(&view, WIDE_NOW + 100), REFUSAL_ENDED);
    view = good;
    view.available = 0;
    view.locked = 9;
    assert_int_equal(in_line(&view, WIDE_NOW + 100), REFUSAL_DEGRADED);
    view = good;
    view.limit_per_user = 1;
    assert_int_equal(in_line(&view, WIDE_NOW + 100), REFUSAL_LIMIT_REACHED);
    assert_int_equal(remote_front_numbers(&front).entries, 0);
    view.limit_per_user = 2;
    assert_int_equal(in_line(&view, WIDE_NOW + 100), REFUSAL_NONE);
    view.sale_state = SALE_WARM; /* past its start: open, though nobody has written it down */
    assert_int_equal(in_line(&view, WIDE_NOW + 100), REFUSAL_NONE);
    assert_int_equal(remote_front_numbers(&front).undecided, 2);
}

static void a_full_spool_promises_nothing_and_tells_what_it_holds(void **state)
{
    (void)state;
    struct order_id first = segments_world_id(&world, WIDE_FREE, 0);
    struct order_id waiting = segments_world_id(&world, WIDE_FREE, 1);
    struct order_id left = segments_world_id(&world, WIDE_FREE, 2);
    assert_int_equal(buy_free(&front, first, 7).refusal, REFUSAL_NONE);
    away(true);
    assert_int_equal(buy_free(&front, waiting, 9).refusal, REFUSAL_NONE);
    away(false);
    struct gate_command command = {.kind = GATE_RESERVE, .user = 1, .item = 1, .qty = 1};
    for (uint64_t i = 1; spool_has_room(front.spool); i++) {
        uint64_t lsn = 0;
        command.id = (struct order_id){5, i};
        assert_int_equal(spool_accept(front.spool, &command, 1, &lsn), 0);
    }
    front.counting.asked = 0;
    struct gate_ask ask = buy_free(&front, waiting, 9);
    assert_int_equal(ask.refusal, REFUSAL_NONE);
    assert_true(ask.existed);
    assert_int_equal(ask.order.reason, REFUSAL_UNDECIDED);
    assert_int_equal(ask.lsn, 2);
    ask = buy_free(&front, first, 7); /* it may be booked by now: only the gate could tell */
    assert_int_equal(ask.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_false(ask.has_order || ask.existed);
    assert_int_equal(buy_free(&front, left, 8).refusal, REFUSAL_DEGRADED);
    assert_int_equal(front.counting.asked, 0);
    away(true);
    assert_int_equal(buy_free(&front, left, 8).refusal, REFUSAL_DEGRADED);
}

/* ---- what cannot be known ---- */

/* Another front may have warmed its sale a moment ago. */
static void an_item_that_is_not_here_is_looked_for_once_more(void **state)
{
    (void)state;
    struct order_id id = segments_world_id(&world, 99, 0);
    assert_int_equal(remote_front_tell(&front, remote_front_buy(&front, 99, id, 7, 1)).refusal,
                     REFUSAL_NO_SUCH_ITEM);
    assert_int_equal(ask_order(&front, id).refusal, REFUSAL_NOT_FOUND);
    assert_int_equal(front.readings, 2);
    front.ledger_away = true;
    struct gate_ask asks[] = {
        remote_front_buy(&front, 99, id, 7, 1),
        {.question = ASK_ORDER, .id = id},
        {.question = ASK_TICKET, .user = 7, .item = 99},
    };
    uint64_t old = catalog_begin_reading(front.catalog); /* it began before they asked */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gate_submit(front.port, &asks[i]), GATE_ASKED);
    }
    catalog_end_reading(front.catalog, old);
    fake_clock_pass_ms(&world.clock, 100);
    assert_null(gate_collect(front.port, 0));
    assert_true(gate_flush(front.port, 0) <= clock_boot_us(&world.clock.port) + 20000);
    uint64_t reading = catalog_begin_reading(front.catalog);
    remote_front_catalog(&front, 2, 99, true);
    catalog_end_reading(front.catalog, reading);
    assert_int_equal(front.counting.asked, 0);
    fake_clock_pass_ms(&world.clock, 20);
    size_t back = 0;
    for (struct gate_ask *ask = gate_collect(front.port, 0); ask != NULL; ask = ask->next) {
        assert_int_equal(ask->refusal,
                         ask->question == ASK_ORDER ? REFUSAL_NOT_FOUND : REFUSAL_NO_SUCH_ITEM);
        back++;
    }
    assert_int_equal(back, 3);
    assert_int_equal(front.counting.asked, 3); /* the gate has said so: it does not know the sale */
}

static void where_the_sales_cannot_be_read_nobody_says_there_is_none(void **state)
{
    (void)state;
    static struct gate_ask asks[1000];
    size_t waiting = 0;
    front.ledger_away = true;
    for (size_t i = 0; i < 1000; i++) { /* who makes ids up gets so far and no farther */
        asks[i] = (struct gate_ask){.question = ASK_TICKET, .user = 7, .item = 1000 + i};
        if (gate_submit(front.port, &asks[i]) == GATE_ASKED) {
            waiting++;
        } else {
            assert_int_equal(asks[i].refusal, REFUSAL_DEGRADED);
        }
    }
    assert_true(waiting > 0 && waiting < 1000);
    struct gate_ask known = {.question = ASK_TICKET, .user = 7, .item = WIDE_ONCE};
    assert_int_equal(remote_front_tell(&front, known).refusal, REFUSAL_NONE);
    for (int i = 0; i < 100 && waiting > 0; i++) {
        fake_clock_pass_ms(&world.clock, 50);
        for (struct gate_ask *ask = gate_collect(front.port, 0); ask != NULL; ask = ask->next) {
            assert_int_equal(ask->refusal, REFUSAL_DEGRADED);
            waiting--;
        }
    }
    assert_int_equal(waiting, 0);
    front.ledger_away = false; /* all places are free again */
    assert_int_equal(remote_front_tell(&front, asks[0]).refusal, REFUSAL_NO_SUCH_ITEM);
}

/* A front that has just started may have read no sale, and has its journal's promises: of those that were
 * decided, some were booked and told as such long ago. */
static void who_stands_in_line_here_is_told_whatever_the_catalog_has(void **state)
{
    (void)state;
    struct order_id ids[] = {segments_world_id(&world, 99, 0), segments_world_id(&world, 99, 0)};
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        struct gate_command command = {.kind = GATE_RESERVE,
                                       .now_ms = WIDE_NOW,
                                       .id = ids[epoch],
                                       .user = 7,
                                       .item = 99,
                                       .qty = 1};
        uint64_t lsn = 0;
        assert_int_equal(spool_accept(front.spool, &command, epoch, &lsn), 0);
    }
    for (int away = 0; away < 2; away++) {
        front.ledger_away = away;
        assert_int_equal(ask_order(&front, ids[0]).refusal, REFUSAL_NONE);
        assert_int_equal(ask_order(&front, ids[0]).order.state, ORDER_QUEUED);
        struct gate_ask ask = remote_front_tell(&front, remote_front_buy(&front, 99, ids[0], 7, 1));
        assert_int_equal(ask.refusal, REFUSAL_NONE);
        assert_true(ask.existed);
        assert_int_equal(ask_order(&front, ids[1]).refusal, REFUSAL_DEGRADED);
        ask = remote_front_tell(&front, remote_front_buy(&front, 99, ids[1], 7, 1));
        assert_int_equal(ask.refusal, REFUSAL_UNKNOWN_OUTCOME);
        assert_false(ask.has_order || ask.existed);
        for (int i = 0; i < 2; i++) {
            ask = remote_front_tell(&front, remote_front_buy(&front, 99, ids[i], 8, 1));
            assert_int_equal(ask.refusal, REFUSAL_BAD_TICKET);
        }
    }
}

/* Anybody may ask for an order by any id. */
static void an_id_of_no_segment_is_nobodys(void **state)
{
    (void)state;
    struct order_id id = segments_world_id(&world, WIDE_FREE, SEGMENTS_MAX - 1);
    assert_int_equal(ask_order(&front, id).refusal, REFUSAL_NOT_FOUND);
    assert_int_equal(buy_free(&front, id, 7).refusal, REFUSAL_NO_SUCH_ITEM);
    assert_int_equal(front.counting.asked, 0);
}

static void an_outcome_that_is_not_known_raises_a_doubt(void **state)
{
    (void)state;
    struct order_id id = segments_world_id(&world, WIDE_FREE, 2);
    sim_segments_lose(world.sim, 2, 1);
    struct gate_ask ask = buy_free(&front, id, 7);
    assert_int_equal(ask.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_int_equal(atomic_load(&front.places.doubts), 1U << 2);
    assert_int_equal(remote_front_numbers(&front).entries, 0); /* nothing was promised */
    assert_non_null(segments_world_order(&world, 2, id));
    ask = buy_free(&front, id, 7); /* the same ticket tells */
    assert_int_equal(ask.refusal, REFUSAL_NONE);
    assert_true(ask.existed);
    assert_int_equal(remote_front_numbers(&front).entries, 1);
    /* A segment that was made anew since: nothing is decided under the old epoch. */
    atomic_store(&front.places.doubts, 0);
    segments_world_fill(&world, 2, 2, 0);
    struct order_id other = segments_world_id(&world, WIDE_FREE, 2);
    assert_int_equal(buy_free(&front, other, 8).refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_int_equal(atomic_load(&front.places.doubts), 1U << 2);
    assert_int_equal(ask_order(&front, other).refusal, REFUSAL_DEGRADED); /* never "not found" */
    assert_int_equal(ask_order(&front, id).refusal, REFUSAL_DEGRADED); /* it may be booked by now */
    segments_world_place(&world, &front.places, front.port);
    ask = ask_order(&front, id); /* not found there, so not booked; and not yet decided again */
    assert_int_equal(ask.refusal, REFUSAL_NONE);
    assert_int_equal(ask.order.state, ORDER_QUEUED);
    assert_int_equal(ask_order(&front, other).refusal,
                     REFUSAL_DEGRADED); /* nor by others, perhaps */
    fake_clock_pass_ms(&world.clock, PLACES_SETTLE_MS);
    assert_int_equal(ask_order(&front, other).refusal, REFUSAL_NOT_FOUND);
    ask = buy_free(&front, other, 8);
    assert_int_equal(ask.refusal, REFUSAL_NONE);
    assert_int_equal(ask.epoch, 2);
    struct spool_entry entry;
    assert_true(spool_find(front.spool, other, &entry));
    assert_int_equal(entry.epoch, 2);
}

static void with_a_clock_that_is_off_nothing_is_sold(void **state)
{
    (void)state;
    struct order_id id = segments_world_id(&world, WIDE_FREE, 0);
    struct order_id other = segments_world_id(&world, WIDE_FREE, 0);
    assert_int_equal(buy_free(&front, id, 7).refusal, REFUSAL_NONE);
    atomic_store(&front.places.clock_is_off, true);
    front.counting.asked = 0;
    assert_int_equal(buy_free(&front, other, 8).refusal, REFUSAL_DEGRADED);
    assert_int_equal(front.counting.asked, 0);
    struct gate_ask ask = buy_free(&front, id, 7); /* it may be booked by now */
    assert_int_equal(ask.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_false(ask.has_order || ask.existed);
    assert_int_equal(ask_order(&front, id).refusal, REFUSAL_NONE);
    away(true); /* nor is anyone put in line */
    assert_int_equal(buy_free(&front, other, 8).refusal, REFUSAL_DEGRADED);
    away(false);
    atomic_store(&front.places.clock_is_off, false);
    assert_int_equal(buy_free(&front, other, 8).refusal, REFUSAL_NONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_LATE(name) cmocka_unit_test_setup_teardown(name, set_up_late, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_buy_goes_to_its_segment),
        TEST(an_order_may_be_in_anothers_line),
        TEST(a_ticket_is_asked_at_the_buyers_home),
        TEST(an_items_numbers_come_from_the_shelf),
        TEST(a_win_is_in_the_spool_before_it_is_told),
        TEST_LATE(an_answer_that_comes_later_is_journalled_when_it_comes),
        TEST(a_repeated_buy_is_journalled_where_it_is_answered),
        TEST(a_refusal_leaves_no_trace),
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
