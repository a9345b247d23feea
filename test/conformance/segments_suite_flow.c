/* See segments_suite.c. Here: the outbox, news, servers that are not what they were. */
#include "segments_suite_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"

/* ---- the outbox ---- */

/* Takes until there are so many, or until nothing comes for a while. */
static size_t take(struct segments *of, uint64_t mask, struct outbox_entry *ret_entries, size_t max)
{
    size_t count = 0;
    int nothing = 0;
    while (count < max && nothing < 5) {
        size_t n = 0;
        int error = segments_take(of, mask, ret_entries + count, max - count, 20, &n);
        assert_true(error == 0 || error == ERR_AGAIN || error == ERR_IO);
        assert_true(error != 0 || (n > 0 && n <= max - count));
        count += error == 0 ? n : 0;
        nothing = error == 0 ? 0 : nothing + 1;
    }
    return count;
}

void suite_the_outbox_has_every_decision_once(void **state)
{
    (void)state;
    struct outbox_entry entries[8];
    suite_rebuild_all(0);
    struct order_id id = order_id_once(11, ID_MAX, 0);
    (void)suite_bought(ID_MAX, id, 1);
    struct gate_request kind = suite_buy(ID_MAX, id, 1);
    assert_int_equal(REFUSAL_NONE, suite_ask(&kind)); /* told again, not decided again */
    kind = suite_buy(8, suite_fresh(12, 1), UNITS + 1);
    assert_int_equal(REFUSAL_SOLD_OUT, suite_ask(&kind));
    struct segment_call call = suite_again(9, suite_fresh(12, 2), 3, 1700);
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    struct segment_state seen = suite_look(0);
    assert_int_equal(2, seen.outbox);
    assert_true(seen.oldest_ms > 0 && seen.oldest_ms <= (uint64_t)seen.server_ms);
    assert_int_equal(2, take(suite.segments, 1, entries, 8));
    size_t one = order_id_equal(entries[0].command.id, id) ? 0 : 1;
    const struct outbox_entry *first = &entries[one];
    const struct outbox_entry *second = &entries[1 - one];
    assert_true(first->segment == 0 && first->epoch == suite.epoch);
    assert_true(first->command.kind == GATE_RESERVE && order_id_equal(first->command.id, id));
    assert_true(first->command.user == ID_MAX && first->command.item == 11);
    assert_true(first->command.qty == 1 && first->command.now_ms == 2000);
    assert_true(order_id_equal(second->command.id, suite_fresh(12, 2)) &&
                second->command.user == 9);
    assert_true(second->command.qty == 3 && second->command.now_ms == 1700);
    assert_int_equal(2, suite_look(0).outbox); /* taken is not done */
    assert_int_equal(0, segments_done(suite.segments, entries, 1));
    assert_int_equal(1, suite_look(0).outbox);
    assert_int_equal(0, segments_done(suite.segments, entries, 2)); /* twice is once */
    seen = suite_look(0);
    assert_true(seen.outbox == 0 && seen.oldest_ms == 0);
}

void suite_what_a_worker_holds_is_its_own_until_it_is_dead(void **state)
{
    (void)state;
    struct outbox_entry entries[8];
    uint64_t users = 0;
    suite_rebuild_all(0);
    struct segments *other = suite.ut->open(suite.ut->context, 2);
    for (uint32_t i = 0; i < 4; i++) {
        (void)suite_bought(100 + i, suite_fresh(12, i), 1);
    }
    int64_t since_ms = suite_look(0).server_ms;
    assert_int_equal(4, take(suite.segments, 1, entries, 4));
    (void)suite_bought(104, suite_fresh(12, 9), 1);
    for (int i = 0; users != 31;
         i++) { /* the new one at once, the others when their time has come */
        size_t count = 0;
        assert_true(i < TRIES_MAX);
        int error = segments_take(other, 1, entries, 8, 0, &count);
        for (size_t k = 0; error == 0 && k < count; k++) {
            uint64_t user = entries[k].command.user - 100;
            assert_true(user < 5 && (users >> user & 1) == 0);
            assert_true(user == 4 || suite_look(0).server_ms - since_ms >= SUITE_CLAIM_MS);
            users |= 1ULL << user;
        }
        if (error == 0) {
            assert_int_equal(0, segments_done(other, entries, count));
        }
        suite.ut->pass_ms(suite.ut->context, SUITE_CLAIM_MS / 10);
    }
    assert_int_equal(0, suite_look(0).outbox);
    suite.ut->close(suite.ut->context, other);
}

/* However long it takes: it is not dead. */
void suite_what_a_worker_holds_does_not_come_again(void **state)
{
    (void)state;
    struct outbox_entry entries[8];
    suite_rebuild_all(0);
    (void)suite_bought(100, suite_fresh(12, 1), 1);
    assert_int_equal(1, take(suite.segments, 1, entries, 1));
    suite.ut->pass_ms(suite.ut->context, 2 * SUITE_CLAIM_MS);
    assert_int_equal(0, take(suite.segments, 1, entries, 8));
    (void)suite_bought(101, suite_fresh(12, 2), 1);
    assert_int_equal(1, take(suite.segments, 1, entries, 1));
    assert_int_equal(101, entries[0].command.user);
}

void suite_what_a_worker_held_comes_first_when_it_starts_again(void **state)
{
    (void)state;
    struct outbox_entry entries[8];
    suite_rebuild_all(0);
    struct segments *worker = suite.ut->open(suite.ut->context, 2);
    for (uint32_t i = 0; i < 3; i++) {
        (void)suite_bought(100 + i, suite_fresh(12, i), 1);
    }
    assert_int_equal(3, take(worker, 1, entries, 3));
    assert_int_equal(0, segments_done(worker, entries, 1));
    uint64_t done = entries[0].command.user;
    suite.ut->close(suite.ut->context, worker); /* between confirm and done */
    (void)suite_bought(103, suite_fresh(12, 3), 1);
    worker = suite.ut->open(suite.ut->context, 2);
    assert_int_equal(3, take(worker, 1, entries, 8));
    for (size_t i = 0; i < 3; i++) {
        assert_int_not_equal(done, entries[i].command.user);
    }
    assert_true(entries[0].command.user < 103 && entries[1].command.user < 103);
    assert_int_equal(103, entries[2].command.user);
    assert_int_equal(0, segments_done(worker, entries, 3));
    assert_int_equal(0, suite_look(0).outbox);
    suite.ut->close(suite.ut->context, worker);
}

void suite_every_segment_of_the_mask_has_its_turn(void **state)
{
    (void)state;
    struct outbox_entry entries[64];
    uint32_t of[SUITE_SEGMENTS] = {0};
    suite_rebuild_all(0);
    for (uint32_t i = 0; i < 10; i++) {
        for (uint32_t segment = 0; segment < SUITE_SEGMENTS; segment++) {
            struct gate_request kind =
                suite_buy(100 + i, order_id_fresh(12, 2000, i * SEGMENTS_MAX + segment), 1);
            kind.segment = segment;
            assert_int_equal(REFUSAL_NONE, suite_ask(&kind));
        }
    }
    size_t count = 0;
    assert_int_equal(0, segments_take(suite.segments, 7, entries, 9, 1000, &count));
    assert_in_range(count, 3, 9);
    for (size_t i = 0; i < count; i++) {
        of[entries[i].segment]++;
    }
    for (uint32_t segment = 0; segment < SUITE_SEGMENTS; segment++) {
        assert_in_range(of[segment], 1, 5);
    }
    assert_int_equal(0, segments_done(suite.segments, entries, count));
    size_t rest = take(suite.segments, 5, entries, 64);
    assert_int_equal(20 - of[0] - of[2], rest);
    for (size_t i = 0; i < rest; i++) {
        assert_int_not_equal(1, entries[i].segment);
    }
    assert_int_equal(0, segments_done(suite.segments, entries, rest));
    assert_int_equal(10 - of[1], suite_look(1).outbox);
    assert_int_equal(10 - of[1], take(suite.segments, 2, entries, 64));
    assert_int_equal(0, segments_done(suite.segments, entries, 10 - of[1]));
    assert_int_equal(0, suite_look(1).outbox);
}

void suite_past_the_bound_of_the_outbox_nothing_is_decided(void **state)
{
    (void)state;
    struct outbox_entry entries[SUITE_OUTBOX_MAX + 8];
    suite_rebuild_all(0);
    struct segment_call call = suite_event(GATE_RESTOCK, suite_fresh(12, 1));
    call.command.amount = 1000;
    suite_apply_done(call);
    for (uint32_t i = 0; i < SUITE_OUTBOX_MAX; i++) {
        (void)suite_bought(100, suite_fresh(12, i), 1);
    }
    struct gate_request kind = suite_buy(100, suite_fresh(12, 500), 1);
    assert_int_equal(REFUSAL_OVERLOADED, suite_ask(&kind));
    kind = suite_buy(100, suite_fresh(12, 0), 1); /* it gets the same answer */
    assert_int_equal(REFUSAL_NONE, suite_ask(&kind));
    call = suite_again(100, suite_fresh(12, 501), 1, 2000); /* this was promised before */
    assert_int_equal(SEGMENT_DONE, suite_apply(&call));
    assert_int_equal(VERDICT_DONE, call.verdict);
    suite_assert_item(12, 1010 - SUITE_OUTBOX_MAX - 1, SUITE_OUTBOX_MAX + 1, 0);
    assert_int_equal(SUITE_OUTBOX_MAX + 1, take(suite.segments, 1, entries, SUITE_OUTBOX_MAX + 8));
    assert_int_equal(0, segments_done(suite.segments, entries, 2));
    (void)suite_bought(100, suite_fresh(12, 500), 1);
}

/* ---- news ---- */

static struct segment_news heard[512];
static size_t heard_count;

/* Listens until news of this kind has come, and what came with it. */
static const struct segment_news *hear(enum news_kind kind)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        for (size_t k = 0; k < heard_count; k++) {
            if (heard[k].kind == kind) {
                return &heard[k];
            }
        }
        size_t n = 0;
        assert_true(heard_count < 512);
        int error = segments_news(suite.segments, heard + heard_count, 512 - heard_count, 20, &n);
        assert_true(error == 0 || error == ERR_AGAIN);
        heard_count += error == 0 ? n : 0;
    }
    fail_msg("never heard news of kind %d", (int)kind);
    return NULL;
}

/* Nothing that is said from now on is missed. */
static void begin_to_hear(void)
{
    size_t n = 0;
    suite_rebuild_all(0);
    heard_count = 0;
    (void)hear(NEWS_LOST);
    while (segments_news(suite.segments, heard, 512, 50, &n) == 0) {
    }
    heard_count = 0;
}

void suite_fronts_hear_what_happens(void **state)
{
    (void)state;
    begin_to_hear();
    struct order_id id = suite_bought(7, suite_fresh(12, 1), 2);
    suite_apply_done(suite_event(GATE_CONFIRM, id));
    const struct segment_news *news = hear(NEWS_ORDER);
    assert_true(order_id_equal(news->order.id, id) && news->order.user == 7);
    assert_true(news->order.item == 12 && news->order.qty == 2);
    assert_true(news->order.state == ORDER_LOCKED && news->order.version == 2);
    assert_true(news->order.created_at_ms == 2000 && news->order.pay_by_ms == 7000);
    heard_count = 0;
    suite_apply_done(suite_event(GATE_CANCEL, id)); /* units come back */
    assert_int_equal(ORDER_CANCELLED, hear(NEWS_ORDER)->order.state);
    assert_int_equal(12, hear(NEWS_ITEM)->item);
    heard_count = 0;
    suite_apply_done(suite_event(GATE_RESTOCK, order_id_once(11, 7, 0)));
    assert_int_equal(11, hear(NEWS_ITEM)->item);
    heard_count = 0;
    suite_apply_done(suite_event(GATE_PAUSE, id));
    assert_int_equal(1, hear(NEWS_SALE)->sale);
    heard_count = 0;
    struct segment_call load = suite_event(GATE_LOAD_SALE, id);
    load.command.sale = 2;
    suite_apply_done(load);
    assert_int_equal(2, hear(NEWS_SALE)->sale);
    heard_count = 0;
    load = suite_event(GATE_LOAD_ITEM, suite_fresh(22, 1));
    load.command.sale = 2;
    load.command.amount = STOCK_MAX + 1;
    assert_int_equal(SEGMENT_DONE, suite_apply(&load));
    assert_int_equal(VERDICT_REFUSED, load.verdict);
    load = suite_event(GATE_LOAD_ITEM, suite_fresh(21, 1));
    load.command.sale = 2;
    suite_apply_done(load);
    assert_int_equal(21, hear(NEWS_ITEM)->item);
    heard_count = 0;
    suite.epoch++;
    suite_fill(2, 0, true);
    news = hear(NEWS_EPOCH);
    assert_true(news->segment == 2 && news->epoch == suite.epoch);
}

void suite_a_broken_one_is_seen_until_it_is_made_anew(void **state)
{
    (void)state;
    struct segments *other = suite.ut->open(suite.ut->context, 2);
    suite_rebuild_all(0);
    struct segment_news news = {.kind = NEWS_BROKEN, .segment = 1, .epoch = suite.epoch + 1};
    segments_tell(other, &news); /* of another epoch */
    assert_false(suite_look(1).broken);
    news.epoch = suite.epoch;
    segments_tell(other, &news);
    segments_tell(other, &news);
    assert_true(suite_look(1).broken && suite_look(1).open);
    assert_false(suite_look(0).broken);
    suite_rebuild_all(0);
    assert_false(suite_look(1).broken);
    suite.ut->close(suite.ut->context, other);
}

void suite_everyone_hears_what_is_told(void **state)
{
    (void)state;
    begin_to_hear();
    struct segments *other = suite.ut->open(suite.ut->context, 2);
    segments_tell(other, &(struct segment_news){.kind = NEWS_EPOCH, .segment = 1, .epoch = 0});
    const struct segment_news *news = hear(NEWS_EPOCH);
    assert_true(news->segment == 1 && news->epoch == 0);
    segments_tell(other, &(struct segment_news){.kind = NEWS_ITEM, .item = ID_MAX});
    assert_true(hear(NEWS_ITEM)->item == ID_MAX);
    segments_tell(other, &(struct segment_news){.kind = NEWS_SALE, .sale = 77});
    assert_int_equal(77, hear(NEWS_SALE)->sale);
    struct order_view order = {.id = suite_fresh(12, 1),
                               .user = 3,
                               .item = 12,
                               .qty = 1,
                               .state = ORDER_FAILED,
                               .reason = REFUSAL_NO_STOCK,
                               .version = 2,
                               .created_at_ms = 2000};
    segments_tell(other, &(struct segment_news){.kind = NEWS_ORDER, .order = order});
    news = hear(NEWS_ORDER);
    assert_true(order_id_equal(news->order.id, order.id) && news->order.user == 3);
    assert_true(news->order.state == ORDER_FAILED && news->order.reason == REFUSAL_NO_STOCK);
    suite.ut->close(suite.ut->context, other);
}

void suite_a_wait_is_ended_by_a_wake(void **state)
{
    (void)state;
    struct outbox_entry entry;
    size_t count = 0;
    suite_rebuild_all(0);
    assert_int_equal(0, take(suite.segments, 7, &entry, 1));
    segments_wake(suite.segments); /* the wait that comes next; a minute would be seen */
    assert_int_equal(ERR_AGAIN, segments_take(suite.segments, 7, &entry, 1, 600000, &count));
    begin_to_hear();
    segments_wake(suite.segments);
    assert_int_equal(ERR_AGAIN, segments_news(suite.segments, heard, 512, 600000, &count));
}

/* ---- servers ---- */

static void restart(enum suite_restart how)
{
    struct segment_state seen;
    int tries = 0;
    if (suite.ut->restart == NULL) {
        skip();
    }
    suite.ut->restart(suite.ut->context, how);
    do { /* connections that were lost are made again */
        assert_true(tries++ < TRIES_MAX);
        segments_look(suite.segments, 0, &seen);
        suite.ut->pass_ms(suite.ut->context, 5);
    } while (seen.outcome == SEGMENT_NOT_ASKED || seen.outcome == SEGMENT_NOT_KNOWN);
}

static void assert_stale(uint64_t seen_epoch)
{
    struct segment_state seen = suite_look(0);
    assert_int_equal(SEGMENT_STALE, seen.outcome);
    assert_int_equal(seen_epoch, seen.epoch);
    struct segment_call call = suite_event(GATE_SKIP, suite_fresh(12, 1));
    assert_int_equal(SEGMENT_STALE, suite_apply(&call));
    call = suite_again(70, suite_fresh(12, 70), 1, 2000);
    assert_int_equal(SEGMENT_STALE, suite_apply(&call));
    assert_int_equal(SEGMENT_STALE, suite_rebuild_one(9, (struct segment_step){.kind = STEP_OPEN}));
    struct gate_request kind = suite_buy(70, suite_fresh(12, 70), 1);
    assert_int_equal(GATE_OUTCOME_UNKNOWN, suite_outcome(&kind));
}

/* It is rebuilt under a higher epoch, and the outbox goes on. */
static void assert_comes_back(size_t expected)
{
    struct outbox_entry entries[8];
    suite_rebuild_all(9);
    suite_assert_item(12, 10, 0, 0);
    (void)suite_bought(71, suite_fresh(12, 71), 1);
    assert_int_equal(expected + 1, suite_look(0).outbox);
    size_t count = take(suite.segments, 1, entries, 8);
    assert_int_equal(expected + 1, count);
    assert_int_equal(71, entries[count - 1].command.user);
    assert_int_equal(0, segments_done(suite.segments, entries, count));
    assert_int_equal(0, suite_look(0).outbox);
}

void suite_another_server_with_all_the_data_is_another_server(void **state)
{
    (void)state;
    suite_rebuild_all(0);
    (void)suite_bought(7, suite_fresh(12, 1), 1);
    restart(RESTART_KEEPS);
    assert_stale(suite.epoch);
    assert_int_equal(1, suite_look(0).outbox);
    assert_comes_back(1);
}

void suite_a_server_that_forgot_decides_nothing(void **state)
{
    (void)state;
    suite_rebuild_all(0);
    (void)suite_bought(7, suite_fresh(12, 1), 1);
    suite.ut->mark(suite.ut->context);
    (void)suite_bought(8, suite_fresh(12, 2), 1);
    suite_apply_done(suite_event(GATE_RESTOCK, suite_fresh(12, 1)));
    restart(RESTART_FORGETS);
    suite.after = EVENT; /* as the ledger does not know */
    assert_stale(suite.epoch);
    assert_int_equal(1, suite_look(0).outbox);
    assert_comes_back(1);
}

void suite_an_emptied_server_decides_nothing(void **state)
{
    (void)state;
    struct outbox_entry entries[4];
    suite_rebuild_all(0);
    (void)suite_bought(7, suite_fresh(12, 1), 1);
    assert_int_equal(1, take(suite.segments, 1, entries, 4));
    restart(RESTART_EMPTY);
    assert_stale(0);
    (void)segments_done(suite.segments, entries, 1); /* of an entry that is gone */
    assert_comes_back(0);
}
