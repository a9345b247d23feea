/*
 * The embedded engine: a buy is decided, journalled and answered with its LSN. With a full or failed
 * journal nothing new is decided, and existing orders are still answered. Loops get notices of the
 * orders they watch.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "embedded/embedded_gate.h"
#include "journal_world.h"

#define NOW 1700000000000LL
#define SALE 1
#define ONCE 11  /* one each */
#define THREE 12 /* three each */
#define FREE 13  /* no limit */
#define LOOPS 3

static struct ram_disk ram;
static struct gate_box box;
static struct journal *journal;
static struct waker wakers[LOOPS];
static struct embedded_gate *engine;
static uint64_t event;
static int wakes[LOOPS];

static const struct gate_sizes sizes = {.orders = 6000, .buyers = 6000, .items = 8, .sales = 4};

static int apply(struct gate_command command, uint64_t *ret_lsn, enum refusal *ret_refusal)
{
    command.event = command.event != 0 ? command.event : ++event;
    command.now_ms = command.now_ms != 0 ? command.now_ms : NOW;
    return embedded_gate_apply(engine, &command, ret_lsn, ret_refusal);
}

static void must_apply(struct gate_command command)
{
    uint64_t lsn = 0;
    enum refusal refusal = REFUSAL_NONE;
    assert_int_equal(apply(command, &lsn, &refusal), 0);
    assert_int_equal(lsn, journal_last_lsn(journal));
}

static void flush(void)
{
    bool wrote;
    assert_int_equal(journal_flush(journal, &wrote), 0);
    assert_int_equal(journal_durable_lsn(journal), journal_last_lsn(journal));
}

static void woken(void *context)
{
    (*(int *)context)++;
}

static void open_shop(uint32_t buffer_bytes)
{
    struct journal_options options = {.file_bytes = 1U << 20, .buffer_bytes = buffer_bytes};
    struct journal_found found;
    gate_box_init_sizes(&box, sizes);
    assert_int_equal(gate_content_open(&ram.disk, options, &box.gate, &journal, &found), 0);
    assert_int_equal(embedded_gate_new(&box.gate, journal, wakers, LOOPS, &engine), 0);
    for (uint32_t i = 0; i < LOOPS; i++) {
        waker_init(&wakers[i], woken, &wakes[i]);
    }
    journal_set_wakers(journal, wakers, LOOPS);
}

static void start_sale(void)
{
    must_apply((struct gate_command){.kind = GATE_LOAD_SALE,
                                     .sale = SALE,
                                     .starts_at_ms = NOW - 1000,
                                     .ends_at_ms = NOW + 100000,
                                     .bar_unpaid = 1});
    static const uint32_t limits[] = {1, 3, 0};
    for (uint64_t i = 0; i < 3; i++) {
        must_apply((struct gate_command){.kind = GATE_LOAD_ITEM,
                                         .sale = SALE,
                                         .item = ONCE + i,
                                         .amount = 5000,
                                         .limit = limits[i]});
    }
    must_apply((struct gate_command){.kind = GATE_OPEN, .sale = SALE, .starts_at_ms = NOW - 1000});
    flush();
}

static int set_up(void **state)
{
    (void)state;
    event = 0;
    memset(wakes, 0, sizeof(wakes));
    ram_disk_init(&ram);
    open_shop(64 * JOURNAL_SECTOR);
    start_sale();
    return 0;
}

static void close_shop(void)
{
    embedded_gate_free(engine);
    journal_free(journal);
    gate_box_done(&box);
}

static int tear_down(void **state)
{
    (void)state;
    close_shop();
    ram_disk_done(&ram);
    return 0;
}

static struct gate_request request(struct gate_request kind)
{
    struct gate_request answered = kind;
    assert_int_equal(gate_submit(embedded_gate_port(engine), &answered), GATE_ANSWERED);
    return answered;
}

static struct gate_request buy_at(struct order_id id, uint64_t user, uint64_t item, uint32_t qty,
                                  int64_t now_ms)
{
    return request((struct gate_request){.kind = GATE_REQUEST_BUY,
                                         .id = id,
                                         .user = user,
                                         .item = item,
                                         .qty = qty,
                                         .ticket_expires_ms = NOW + 1000000,
                                         .now_ms = now_ms});
}

static struct gate_request buy(uint64_t user, uint32_t qty)
{
    return buy_at(order_id_fresh(THREE, NOW, (uint32_t)user), user, THREE, qty, NOW);
}

static struct order_id bought(uint64_t user)
{
    struct gate_request answer = buy(user, 1);
    assert_int_equal(answer.refusal, REFUSAL_NONE);
    return answer.order.id;
}

static struct gate_request look(struct order_id id, uint32_t loop, bool watch)
{
    return request(
        (struct gate_request){.kind = GATE_REQUEST_ORDER, .id = id, .loop = loop, .watch = watch});
}

static void confirm(struct order_id id)
{
    must_apply((struct gate_command){
        .kind = GATE_CONFIRM, .id = id, .item = order_id_item(id), .time_ms = NOW + 60000});
}

static void fail_journal(void)
{
    ram.dead_at = ram.ops + 1;
    bool wrote;
    (void)bought(999); /* something to write */
    assert_int_equal(journal_flush(journal, &wrote), ERR_IO);
    assert_true(journal_failed(journal));
    ram.dead_at = 0;
}

/* ---- buying ---- */

static void a_buy_is_decided_journalled_and_told_with_its_lsn(void **state)
{
    (void)state;
    uint64_t last = journal_last_lsn(journal);
    struct gate_request answer = buy(7, 2);
    assert_int_equal(answer.refusal, REFUSAL_NONE);
    assert_false(answer.existed);
    assert_true(answer.has_order);
    assert_int_equal(answer.order.state, ORDER_QUEUED);
    assert_int_equal(answer.order.qty, 2);
    assert_int_equal(answer.order.user, 7);
    assert_int_equal(answer.order.created_at_ms, NOW);
    assert_int_equal(answer.held, 2);
    assert_int_equal(answer.lsn, last + 1);
    assert_int_equal(answer.order.lsn, last + 1);
    assert_int_equal(journal_last_lsn(journal), last + 1);
    assert_int_equal(journal_durable_lsn(journal), last); /* no answer is sent yet */
    assert_null(gate_collect(embedded_gate_port(engine), 0));
}

static void the_same_buy_again_takes_nothing_and_journals_nothing(void **state)
{
    (void)state;
    struct gate_request first = buy(7, 2);
    uint64_t last = journal_last_lsn(journal);
    struct gate_request again = buy(7, 2);
    assert_true(again.existed && again.has_order);
    assert_int_equal(again.refusal, REFUSAL_NONE);
    assert_int_equal(again.lsn, first.lsn); /* its answer waits for the same record */
    assert_int_equal(again.held, 2);
    assert_int_equal(journal_last_lsn(journal), last);
    struct gate_request item =
        request((struct gate_request){.kind = GATE_REQUEST_ITEM, .item = THREE});
    assert_int_equal(item.view.available, 4998);
    assert_int_equal(item.view.locked, 2);
}

/* New buys are refused as soon as no further file can be made; what the ledger did is still applied, and
 * what exists is answered. */
static void a_full_disk_decides_nothing_new(void **state)
{
    (void)state;
    struct order_id known = bought(1);
    flush();
    ram.space = 1U << 20; /* the present file, and no other */
    assert_int_equal(journal_prepare_file(journal), ERR_NOSPACE);
    uint64_t last = journal_last_lsn(journal);
    assert_int_equal(buy(2, 1).refusal, REFUSAL_DEGRADED);
    assert_int_equal(journal_last_lsn(journal), last);
    assert_true(buy(1, 1).existed);
    confirm(known);
    flush();
    assert_int_equal(look(known, 0, false).order.state, ORDER_LOCKED);
    ram.space = 0;
    assert_int_equal(journal_prepare_file(journal), 0);
    assert_int_equal(buy(2, 1).refusal, REFUSAL_NONE);
}

/* Nothing of the buffer can be written: the ledger's event is not applied now, and nobody waits. */
static void an_event_without_room_is_left_to_the_ledger(void **state)
{
    (void)state;
    bool wrote;
    uint64_t lsn = 0;
    enum refusal refusal = REFUSAL_NONE;
    int error = 0;
    for (uint64_t i = 0; error == 0; i++) { /* until the next file is due, and there is no space */
        must_apply((struct gate_command){.kind = GATE_SKIP, .now_ms = NOW});
        ram.space = 1U << 20;
        error = journal_flush(journal, &wrote);
    }
    assert_int_equal(error, ERR_NOSPACE);
    while (journal_has_room(journal, 1)) {
        must_apply((struct gate_command){.kind = GATE_SKIP, .now_ms = NOW});
    }
    uint64_t applied = embedded_gate_applied_event(engine);
    struct gate_command more = {.kind = GATE_SKIP, .now_ms = NOW, .event = applied + 1};
    assert_int_equal(embedded_gate_apply(engine, &more, &lsn, &refusal), ERR_NOSPACE);
    assert_int_equal(embedded_gate_applied_event(engine), applied);
    ram.space = 0;
    assert_int_equal(journal_flush(journal, &wrote), 0); /* the batch that waited */
    assert_int_equal(journal_flush(journal, &wrote), 0); /* the other buffer */
    assert_int_equal(embedded_gate_apply(engine, &more, &lsn, &refusal), 0);
}

static void a_refusal_is_told_at_once_and_leaves_no_trace(void **state)
{
    (void)state;
    (void)buy(7, 2);
    uint64_t last = journal_last_lsn(journal);
    struct gate_request over = buy_at(order_id_fresh(THREE, NOW, 70), 7, THREE, 2, NOW);
    assert_int_equal(over.refusal, REFUSAL_LIMIT_REACHED);
    assert_int_equal(over.held, 2);
    assert_int_equal(over.limit, 3);
    assert_int_equal(over.lsn, 0);
    assert_false(over.has_order);
    struct gate_request much = buy_at(order_id_fresh(FREE, NOW, 71), 7, FREE, 5001, NOW);
    assert_int_equal(much.refusal, REFUSAL_SOLD_OUT);
    assert_int_equal(much.available, 5000);
    assert_int_equal(journal_last_lsn(journal), last);
}

/* Nothing is decided with a time below one that is in the journal, a restart included. */
static void time_never_goes_below_what_is_journalled(void **state)
{
    (void)state;
    struct gate_request first = buy_at(order_id_fresh(FREE, NOW, 1), 1, FREE, 1, NOW + 5000);
    assert_int_equal(first.order.created_at_ms, NOW + 5000);
    struct gate_request second = buy_at(order_id_fresh(FREE, NOW, 2), 2, FREE, 1, NOW + 10);
    assert_int_equal(second.order.created_at_ms, NOW + 5000);
    flush();
    close_shop();
    open_shop(64 * JOURNAL_SECTOR);
    struct gate_request third = buy_at(order_id_fresh(FREE, NOW, 3), 3, FREE, 1, NOW + 20);
    assert_int_equal(third.order.created_at_ms, NOW + 5000);
    /* A sale that has ended by the journal's time stays ended when the clock is set back. */
    must_apply((struct gate_command){.kind = GATE_SKIP, .now_ms = NOW + 100000});
    struct gate_request late = buy_at(order_id_fresh(FREE, NOW, 4), 4, FREE, 1, NOW + 30);
    assert_int_equal(late.refusal, REFUSAL_ENDED);
}

/* ---- reading ---- */

static void a_ticket_shows_the_buyers_record(void **state)
{
    (void)state;
    struct gate_request kind = {.kind = GATE_REQUEST_TICKET, .user = 5, .item = ONCE};
    struct gate_request before = request(kind);
    assert_int_equal(before.refusal, REFUSAL_NONE);
    assert_true(before.held == 0 && before.attempt == 0 && !before.barred && !before.has_order);
    assert_int_equal(before.view.available, 5000);
    assert_int_equal(before.view.sale, SALE);
    struct order_id id = order_id_once(ONCE, 5, 0);
    assert_int_equal(buy_at(id, 5, ONCE, 1, NOW).refusal, REFUSAL_NONE);
    struct gate_request bought_one = request(kind);
    assert_true(bought_one.held == 1 && bought_one.attempt == 0 && bought_one.has_order);
    confirm(id);
    must_apply((struct gate_command){.kind = GATE_CANCEL, .id = id, .item = ONCE});
    struct gate_request cancelled = request(kind);
    assert_true(cancelled.held == 0 && cancelled.attempt == 1 && !cancelled.has_order);
    id = order_id_once(ONCE, 5, 1);
    assert_int_equal(buy_at(id, 5, ONCE, 1, NOW).refusal, REFUSAL_NONE);
    confirm(id);
    must_apply((struct gate_command){.kind = GATE_EXPIRE, .id = id, .item = ONCE});
    struct gate_request expired = request(kind);
    assert_true(expired.barred && expired.attempt == 1 && expired.has_order);
    kind.item = 99;
    assert_int_equal(request(kind).refusal, REFUSAL_NO_SUCH_ITEM);
}

/* His ticket is for a new order, and the journal brings the time back. */
static void a_cooling_time_is_told_and_kept(void **state)
{
    (void)state;
    struct gate_request ticket = {.kind = GATE_REQUEST_TICKET, .user = 5, .item = ONCE};
    struct order_id id = order_id_once(ONCE, 5, 0);
    struct order_id next = order_id_once(ONCE, 5, 1);
    assert_int_equal(buy_at(id, 5, ONCE, 1, NOW).refusal, REFUSAL_NONE);
    confirm(id);
    must_apply((struct gate_command){
        .kind = GATE_CANCEL_COOLING, .id = id, .item = ONCE, .time_ms = (uint64_t)(NOW + 5000)});
    for (int again = 0; again < 2; again++) {
        struct gate_request shown = request(ticket);
        assert_true(shown.cooling_until_ms == NOW + 5000 && !shown.barred && !shown.has_order);
        assert_int_equal(shown.attempt, 1);
        struct gate_request early = buy_at(next, 5, ONCE, 1, NOW + 4999);
        assert_int_equal(early.refusal, REFUSAL_BARRED);
        assert_int_equal(early.cooling_until_ms, NOW + 5000);
        assert_true(buy_at(id, 5, ONCE, 1, NOW + 4999).existed);
        flush();
        close_shop();
        open_shop(64 * JOURNAL_SECTOR);
    }
    struct gate_request bought_one = buy_at(next, 5, ONCE, 1, NOW + 5000);
    assert_int_equal(bought_one.refusal, REFUSAL_NONE);
    assert_int_equal(bought_one.cooling_until_ms, 0);
}

static void unknown_orders_and_items_are_not_found(void **state)
{
    (void)state;
    struct gate_request order = look(order_id_fresh(THREE, 1, 1), 0, true);
    assert_int_equal(order.refusal, REFUSAL_NOT_FOUND);
    assert_false(order.has_order);
    struct gate_request item =
        request((struct gate_request){.kind = GATE_REQUEST_ITEM, .item = 99});
    assert_int_equal(item.refusal, REFUSAL_NO_SUCH_ITEM);
}

/* An ask that is used again shows nothing of its last answer. */
static void an_ask_may_be_used_again(void **state)
{
    (void)state;
    struct gate_request one = buy(7, 2);
    one.kind = GATE_REQUEST_ORDER;
    one.id = order_id_fresh(THREE, 1, 1);
    (void)gate_submit(embedded_gate_port(engine), &one);
    assert_int_equal(one.refusal, REFUSAL_NOT_FOUND);
    assert_true(!one.has_order && !one.existed && one.held == 0 && one.lsn == 0);
}

static void the_numbers_are_counted(void **state)
{
    (void)state;
    (void)bought(1);
    (void)bought(2);
    struct embedded_gate_numbers numbers;
    embedded_gate_count(engine, &numbers);
    assert_int_equal(numbers.orders, 2);
    assert_int_equal(numbers.buyers, 2);
    assert_int_equal(numbers.items, 3);
    assert_int_equal(numbers.last_lsn, 7);
    assert_int_equal(numbers.durable_lsn, 5);
}

/* ---- what the ledger committed ---- */

static void an_event_is_applied_once(void **state)
{
    (void)state;
    struct order_id id = bought(7);
    uint64_t lsn = 0;
    enum refusal refusal = REFUSAL_NONE;
    const struct gate_command command = {
        .kind = GATE_CONFIRM, .id = id, .item = THREE, .time_ms = NOW + 60000, .event = event + 1};
    assert_int_equal(apply(command, &lsn, &refusal), 0);
    assert_int_equal(lsn, journal_last_lsn(journal));
    assert_int_equal(embedded_gate_applied_event(engine), event + 1);
    struct gate_request seen = look(id, 0, false);
    assert_int_equal(seen.order.state, ORDER_LOCKED);
    assert_int_equal(seen.order.pay_by_ms, NOW + 60000);
    assert_int_equal(seen.lsn, lsn); /* shown only once its last change is durable */
    assert_int_equal(apply(command, &lsn, &refusal), 0);
    assert_int_equal(lsn, 0);
    assert_int_equal(journal_last_lsn(journal), seen.lsn);
}

static void an_event_that_cannot_be_is_refused_with_its_reason(void **state)
{
    (void)state;
    uint64_t last = journal_last_lsn(journal);
    uint64_t lsn = 4711;
    enum refusal refusal = REFUSAL_NONE;
    struct gate_command command = {.kind = GATE_PAY, .id = order_id_fresh(THREE, 1, 1)};
    assert_int_equal(apply(command, &lsn, &refusal), ERR_INVALID);
    assert_int_equal(refusal, REFUSAL_NOT_FOUND);
    assert_int_equal(lsn, 0);
    command = (struct gate_command){.kind = GATE_PAY, .id = bought(7)};
    assert_int_equal(apply(command, &lsn, &refusal), ERR_INVALID);
    assert_int_equal(refusal, REFUSAL_BAD_STATE);
    assert_int_equal(journal_last_lsn(journal), last + 1); /* the buy */
}

static void a_sale_is_forgotten_piece_by_piece(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 3; user++) {
        (void)bought(user);
    }
    must_apply((struct gate_command){.kind = GATE_CLOSE, .sale = SALE});
    uint64_t lsn = 0;
    enum refusal refusal = REFUSAL_NONE;
    const struct gate_command forget = {
        .kind = GATE_FORGET, .sale = SALE, .qty = 2, .event = event + 1};
    assert_int_equal(apply(forget, &lsn, &refusal), ERR_AGAIN);
    assert_int_equal(lsn, journal_last_lsn(journal));
    assert_int_equal(apply(forget, &lsn, &refusal), ERR_AGAIN);
    assert_int_equal(apply(forget, &lsn, &refusal), 0);
    struct embedded_gate_numbers numbers;
    embedded_gate_count(engine, &numbers);
    assert_true(numbers.orders == 0 && numbers.buyers == 0 && numbers.items == 0);
    assert_int_equal(embedded_gate_applied_event(engine), forget.event);
}

/* ---- watching ---- */

static size_t notices(uint32_t loop, struct order_view *views, size_t max, bool want_all)
{
    bool all = !want_all;
    size_t n = order_notices_take(embedded_gate_notices(engine), loop, views, max, &all);
    assert_int_equal(all, want_all);
    return n;
}

static void a_watcher_hears_of_each_change_exactly_once(void **state)
{
    (void)state;
    struct order_view views[8];
    struct order_id watched = bought(1);
    struct order_id other = bought(2);
    (void)look(watched, 1, true);
    (void)look(watched, 1, true); /* watching twice is watching */
    (void)look(other, 2, false);  /* looking is not watching */
    assert_int_equal(notices(1, views, 8, false), 0);
    confirm(watched);
    confirm(other);
    assert_int_equal(notices(0, views, 8, false), 0);
    assert_int_equal(notices(2, views, 8, false), 0);
    assert_int_equal(notices(1, views, 8, false), 1);
    assert_true(order_id_equal(views[0].id, watched));
    assert_int_equal(notices(1, views, 8, false), 0);
    must_apply((struct gate_command){.kind = GATE_PAY, .id = watched, .item = THREE});
    assert_int_equal(notices(1, views, 8, false), 1); /* it goes on watching */
    assert_int_equal(views[0].state, ORDER_PAID);
    assert_int_equal(notices(1, views, 8, false), 0);
}

static void a_notice_shows_the_order_as_it_is_when_it_is_taken(void **state)
{
    (void)state;
    struct order_view views[8];
    struct order_id id = bought(1);
    (void)look(id, 0, true);
    confirm(id);
    must_apply((struct gate_command){.kind = GATE_PAY, .id = id, .item = THREE});
    assert_int_equal(notices(0, views, 8, false), 1); /* two changes, told as one */
    struct gate_request now = look(id, 0, false);
    assert_int_equal(views[0].state, ORDER_PAID);
    assert_int_equal(views[0].version, now.order.version);
    assert_int_equal(views[0].lsn, now.lsn);
    assert_int_equal(views[0].user, now.order.user);
    assert_true(views[0].lsn > journal_durable_lsn(journal)); /* to be waited for */
    flush();
    assert_true(views[0].lsn <= journal_durable_lsn(journal));
}

static void every_loop_that_watches_hears_of_it(void **state)
{
    (void)state;
    struct order_view views[8];
    struct order_id id = bought(1);
    for (uint32_t loop = 0; loop < LOOPS; loop++) {
        (void)look(id, loop, true);
    }
    confirm(id);
    for (uint32_t loop = 0; loop < LOOPS; loop++) {
        assert_int_equal(notices(loop, views, 8, false), 1);
        assert_true(order_id_equal(views[0].id, id));
    }
}

static void what_changed_nothing_is_not_news(void **state)
{
    (void)state;
    struct order_view views[8];
    struct order_id id = bought(1);
    (void)look(id, 0, true);
    uint64_t lsn;
    enum refusal refusal;
    const struct gate_command pay = {.kind = GATE_PAY, .id = id, .item = THREE};
    assert_int_equal(apply(pay, &lsn, &refusal), ERR_INVALID); /* not LOCKED yet */
    assert_int_equal(buy(1, 1).existed, true);
    assert_int_equal(notices(0, views, 8, false), 0);
    confirm(id);
    assert_int_equal(notices(0, views, 8, false), 1);
}

static void a_sleeping_loop_is_woken_and_no_other(void **state)
{
    (void)state;
    struct order_id a = bought(1);
    struct order_id b = bought(2);
    (void)look(a, 0, true);
    (void)look(b, 0, true);
    (void)look(b, 1, true);
    waker_sleepy(&wakers[0], UINT64_MAX);
    confirm(a);
    confirm(b);
    assert_int_equal(wakes[0], 1); /* awake after the first */
    assert_int_equal(wakes[1], 0); /* was not asleep */
    assert_int_equal(wakes[2], 0);
}

static void durable_wakes_only_who_waits_for_that_lsn(void **state)
{
    (void)state;
    struct gate_request answer = buy(1, 1);
    waker_sleepy(&wakers[0], answer.lsn);
    waker_sleepy(&wakers[1], answer.lsn + 1);
    waker_sleepy(&wakers[2], UINT64_MAX);
    flush();
    assert_int_equal(wakes[0], 1);
    assert_int_equal(wakes[1], 0);
    assert_int_equal(wakes[2], 0);
}

static void too_much_news_says_look_at_everything(void **state)
{
    (void)state;
    enum { MANY = 4096 + 10 };
    static struct order_view views[MANY];
    for (uint64_t i = 0; i < MANY; i++) {
        struct order_id id = order_id_fresh(FREE, NOW, (uint32_t)i);
        assert_int_equal(buy_at(id, 1, FREE, 1, NOW).refusal, REFUSAL_NONE);
        (void)look(id, 0, true);
        if (i % 500 == 0) {
            flush();
        }
    }
    for (uint64_t i = 0; i < MANY; i++) {
        confirm(order_id_fresh(FREE, NOW, (uint32_t)i));
        if (i % 500 == 0) {
            flush();
        }
    }
    size_t told = notices(0, views, 1000, true);
    assert_int_equal(told, 1000);
    size_t more;
    while ((more = notices(0, views + told, MANY - told, false)) > 0) {
        told += more;
    }
    assert_int_equal(told, 4096);
    static bool seen[MANY];
    memset(seen, 0, sizeof(seen));
    for (size_t i = 0; i < told; i++) { /* each at most once */
        uint64_t n = views[i].id.lo & 0x7fffffff;
        assert_false(seen[n]);
        seen[n] = true;
    }
    (void)look(order_id_fresh(FREE, NOW, 5), 0, true);
    must_apply(
        (struct gate_command){.kind = GATE_PAY, .id = order_id_fresh(FREE, NOW, 5), .item = FREE});
    assert_int_equal(notices(0, views, MANY, false), 1); /* and it goes on as before */
}

/* ---- when the journal cannot take more ---- */

/* Asks under a journal that takes nothing: what exists is answered, the rest is refused with why.
 */
static void assert_only_the_old_is_answered(struct order_id known, enum refusal why)
{
    uint64_t last = journal_last_lsn(journal);
    struct gate_request item =
        request((struct gate_request){.kind = GATE_REQUEST_ITEM, .item = THREE});
    struct gate_request again = buy_at(known, 7, THREE, 2, NOW);
    assert_int_equal(again.refusal, REFUSAL_NONE);
    assert_true(again.existed && again.has_order);
    assert_true(order_id_equal(again.order.id, known));
    assert_int_equal(again.held, 2); /* and so is the count of units */
    assert_true(again.lsn <= journal_durable_lsn(journal));
    assert_int_equal(buy_at(known, 7, THREE, 1, NOW).refusal, REFUSAL_DIFFERENT_REQUEST);
    assert_int_equal(buy_at(known, 8, THREE, 2, NOW).refusal, REFUSAL_BAD_TICKET);
    struct gate_request new = buy(8, 1);
    assert_int_equal(new.refusal, why);
    assert_false(new.has_order);
    assert_int_equal(look(new.id, 0, false).refusal, REFUSAL_NOT_FOUND);
    assert_int_equal(look(known, 0, false).refusal, REFUSAL_NONE);
    struct gate_request after =
        request((struct gate_request){.kind = GATE_REQUEST_ITEM, .item = THREE});
    assert_int_equal(after.view.available, item.view.available);
    assert_int_equal(after.view.version, item.view.version);
    assert_int_equal(journal_last_lsn(journal), last);
}

static void a_full_buffer_is_overloaded_until_it_is_written(void **state)
{
    (void)state;
    struct order_id known = buy(7, 2).order.id;
    flush();
    uint32_t n = 100;
    while (journal_has_room(journal, 1)) {
        assert_int_equal(buy_at(order_id_fresh(FREE, NOW, n++), 1, FREE, 1, NOW).refusal, 0);
    }
    assert_only_the_old_is_answered(known, REFUSAL_OVERLOADED);
    flush();
    assert_int_equal(buy(8, 1).refusal, REFUSAL_NONE);
}

static void a_latched_journal_decides_nothing_more(void **state)
{
    (void)state;
    struct order_id known = buy(7, 2).order.id;
    flush();
    fail_journal();
    assert_only_the_old_is_answered(known, REFUSAL_DEGRADED);
    /* Decided, never durable: a repeated request waits for an LSN that is never reached. */
    struct gate_request lost = buy(999, 1);
    assert_true(lost.existed && lost.lsn > journal_durable_lsn(journal));
    uint64_t lsn = 4711;
    enum refusal refusal;
    const struct gate_command command = {.kind = GATE_CONFIRM, .id = known, .item = THREE};
    uint64_t applied = embedded_gate_applied_event(engine);
    assert_int_equal(apply(command, &lsn, &refusal), ERR_JOURNAL_FAILED);
    assert_int_equal(embedded_gate_applied_event(engine), applied);
    assert_int_equal(look(known, 0, false).order.state, ORDER_QUEUED);
}

/* ---- when a new order is not wanted ---- */

static void a_new_order_is_refused_and_an_old_one_is_answered(void **state)
{
    (void)state;
    struct gate_request first = buy(7, 2);
    assert_int_equal(first.refusal, REFUSAL_NONE);
    uint64_t last = journal_last_lsn(journal);
    struct gate_request blocked = {.kind = GATE_REQUEST_BUY,
                                   .id = first.order.id,
                                   .user = 7,
                                   .item = THREE,
                                   .qty = 2,
                                   .ticket_expires_ms = NOW - 1, /* nor does this matter */
                                   .now_ms = NOW + 50000000,
                                   .if_new = REFUSAL_BLOCKED};
    struct gate_request again = request(blocked);
    assert_int_equal(again.refusal, REFUSAL_NONE);
    assert_true(again.existed && again.has_order);
    assert_int_equal(again.held, 2);
    assert_int_equal(again.lsn, first.lsn); /* it waits until the order is durable */
    blocked.qty = 1;
    assert_int_equal(request(blocked).refusal, REFUSAL_DIFFERENT_REQUEST);
    blocked.now_ms = NOW;
    blocked.ticket_expires_ms = NOW + 1000000;
    blocked.id = order_id_fresh(THREE, NOW, 4711);
    struct gate_request refused = request(blocked);
    assert_int_equal(refused.refusal, REFUSAL_BLOCKED);
    assert_false(refused.has_order || refused.existed || refused.ask_ledger);
    blocked.user = 8; /* who has no record here */
    assert_int_equal(request(blocked).refusal, REFUSAL_BLOCKED);
    blocked.item = 4711;
    assert_int_equal(request(blocked).refusal, REFUSAL_BLOCKED);
    assert_int_equal(journal_last_lsn(journal), last);
    fail_journal();
    last = journal_last_lsn(journal);
    blocked.item = THREE;
    assert_int_equal(request(blocked).refusal, REFUSAL_BLOCKED); /* nothing is to be decided */
    assert_int_equal(journal_last_lsn(journal), last);
}

/* Answers that wait will never be durable: everyone has to look. */
static void a_latch_wakes_every_sleeping_loop_that_waits(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LOOPS; i++) {
        waker_sleepy(&wakers[i], 1000 + i);
    }
    fail_journal();
    assert_int_equal(wakes[0], 1);
    assert_int_equal(wakes[1], 1);
    assert_int_equal(wakes[2], 1);
}

static int durable_calls;
static void on_durable(void *context)
{
    assert_ptr_equal(context, &durable_calls);
    durable_calls++;
}

static void the_listener_hears_of_every_batch_and_of_the_failure(void **state)
{
    (void)state;
    durable_calls = 0;
    journal_listen(journal, on_durable, &durable_calls);
    (void)bought(1);
    flush();
    assert_int_equal(durable_calls, 1);
    fail_journal();
    assert_int_equal(durable_calls, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_buy_is_decided_journalled_and_told_with_its_lsn),
        TEST(the_same_buy_again_takes_nothing_and_journals_nothing),
        TEST(a_full_disk_decides_nothing_new),
        TEST(an_event_without_room_is_left_to_the_ledger),
        TEST(a_refusal_is_told_at_once_and_leaves_no_trace),
        TEST(time_never_goes_below_what_is_journalled),
        TEST(a_ticket_shows_the_buyers_record),
        TEST(a_cooling_time_is_told_and_kept),
        TEST(unknown_orders_and_items_are_not_found),
        TEST(an_ask_may_be_used_again),
        TEST(the_numbers_are_counted),
        TEST(an_event_is_applied_once),
        TEST(an_event_that_cannot_be_is_refused_with_its_reason),
        TEST(a_sale_is_forgotten_piece_by_piece),
        TEST(a_watcher_hears_of_each_change_exactly_once),
        TEST(a_notice_shows_the_order_as_it_is_when_it_is_taken),
        TEST(every_loop_that_watches_hears_of_it),
        TEST(what_changed_nothing_is_not_news),
        TEST(a_sleeping_loop_is_woken_and_no_other),
        TEST(durable_wakes_only_who_waits_for_that_lsn),
        TEST(too_much_news_says_look_at_everything),
        TEST(a_full_buffer_is_overloaded_until_it_is_written),
        TEST(a_latched_journal_decides_nothing_more),
        TEST(a_new_order_is_refused_and_an_old_one_is_answered),
        TEST(a_latch_wakes_every_sleeping_loop_that_waits),
        TEST(the_listener_hears_of_every_batch_and_of_the_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
