/*
 * Orders that are final leave a nearly full gate: durable ones, and those whose watchers have heard.
 * The gate does not decide such an order again. It asks for the ledger's row first, and answers with
 * it, and with what the buyer holds now.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "embedded/embedded_gate.h"
#include "journal_world.h"

#define NOW 1700000000000LL
#define ONCE 11 /* one each */
#define FREE 12 /* no limit */
#define ORDERS 10

static struct ram_disk ram;
static struct gate_box box;
static struct journal *journal;
static struct waker waker;
static struct embedded_gate *engine;
static uint64_t event;

static const struct gate_sizes sizes = {.orders = ORDERS, .buyers = 20, .items = 4, .sales = 2};

static void woken(void *context)
{
    (void)context;
}

static void apply(struct gate_command command)
{
    uint64_t lsn = 0;
    enum refusal refusal = REFUSAL_NONE;
    command.event = ++event;
    command.now_ms = NOW;
    assert_int_equal(embedded_gate_apply(engine, &command, &lsn, &refusal), 0);
}

static void flush(void)
{
    bool wrote;
    assert_int_equal(journal_flush(journal, &wrote), 0);
}

static void open_shop(void)
{
    struct journal_options options = {.file_bytes = 1U << 20, .buffer_bytes = 4 * JOURNAL_SECTOR};
    struct journal_found found;
    gate_box_init_sizes(&box, sizes);
    assert_int_equal(gate_content_open(&ram.disk, options, &box.gate, &journal, &found), 0);
    assert_int_equal(embedded_gate_new(&box.gate, journal, &waker, 1, &engine), 0);
    waker_init(&waker, woken, NULL);
    journal_set_wakers(journal, &waker, 1);
}

static void close_shop(void)
{
    embedded_gate_free(engine);
    journal_free(journal);
    gate_box_done(&box);
}

static int set_up(void **state)
{
    (void)state;
    event = 0;
    ram_disk_init(&ram);
    open_shop();
    apply((struct gate_command){
        .kind = GATE_LOAD_SALE, .sale = 1, .starts_at_ms = NOW - 1000, .ends_at_ms = NOW + 100000});
    apply((struct gate_command){
        .kind = GATE_LOAD_ITEM, .sale = 1, .item = ONCE, .amount = 100, .limit = 1});
    apply((struct gate_command){.kind = GATE_LOAD_ITEM, .sale = 1, .item = FREE, .amount = 100});
    apply((struct gate_command){.kind = GATE_OPEN, .sale = 1, .starts_at_ms = NOW - 1000});
    flush();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_shop();
    ram_disk_done(&ram);
    return 0;
}

static struct order_id fresh(uint32_t number)
{
    return order_id_fresh(FREE, NOW + number, 1);
}

static struct gate_request buy_of(struct order_id id, uint64_t user)
{
    return (struct gate_request){.kind = GATE_REQUEST_BUY,
                                 .id = id,
                                 .user = user,
                                 .item = order_id_item(id),
                                 .qty = 1,
                                 .ticket_expires_ms = NOW + 1000000,
                                 .now_ms = NOW};
}

static void submit(struct gate_request *request)
{
    assert_int_equal(gate_submit(embedded_gate_port(engine), request), GATE_ANSWERED);
}

static void buy(struct order_id id, uint64_t user)
{
    struct gate_request request = buy_of(id, user);
    submit(&request);
    assert_int_equal(request.refusal, REFUSAL_NONE);
    assert_false(request.existed);
}

static void end(struct order_id id, enum gate_kind how)
{
    uint64_t item = order_id_item(id);
    apply((struct gate_command){.kind = GATE_CONFIRM, .id = id, .item = item, .time_ms = NOW + 9});
    apply((struct gate_command){.kind = how, .id = id, .item = item});
}

static struct order_view row_of(struct order_id id, uint64_t user, enum order_state state)
{
    return (struct order_view){
        .id = id, .user = user, .item = order_id_item(id), .qty = 1, .state = (uint8_t)state};
}

static uint64_t evicted(void)
{
    struct embedded_gate_numbers numbers;
    embedded_gate_count(engine, &numbers);
    return numbers.evicted;
}

/* Final and durable: number 0 is bought by user 1 and paid, the others by user 2 and cancelled. */
static void fill(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        buy(fresh(i), i == 0 ? 1 : 2);
        end(fresh(i), i == 0 ? GATE_PAY : GATE_CANCEL);
    }
    flush();
}

static bool in_gate(struct order_id id)
{
    return gate_find_order(&box.gate, id) != GATE_NONE;
}

static void a_nearly_full_gate_lets_final_orders_go(void **state)
{
    (void)state;
    fill(8);
    assert_true(INT64_MAX == embedded_gate_evict(engine, NOW));
    assert_int_equal(evicted(), 0); /* 80 % */
    buy(fresh(8), 3);
    assert_true(INT64_MAX == embedded_gate_evict(engine, NOW));
    assert_int_equal(evicted(), 2); /* 90 %: until it is below 80 % */
    assert_false(in_gate(fresh(0)) || in_gate(fresh(1)));
    assert_true(in_gate(fresh(2)));
    flush();
    struct gate_box before = box;
    embedded_gate_free(engine);
    journal_free(journal);
    open_shop(); /* the evictions are in the journal */
    assert_true(gate_same(&box.gate, &before.gate));
    gate_box_done(&before);
}

static void what_is_not_durable_or_not_final_stays(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        buy(fresh(i), 1);
    }
    for (uint32_t i = 5; i < 10; i++) {
        buy(fresh(i), 2);
        end(fresh(i), GATE_CANCEL);
    }
    assert_true(INT64_MAX == embedded_gate_evict(engine, NOW));
    assert_int_equal(evicted(), 0);
    flush();
    assert_true(INT64_MAX == embedded_gate_evict(engine, NOW + 1));
    assert_int_equal(evicted(), 0); /* it has looked a moment ago */
    assert_true(INT64_MAX == embedded_gate_evict(engine, NOW + 1000));
    assert_int_equal(evicted(), 3);
}

static void a_watched_order_stays_until_its_watcher_has_heard(void **state)
{
    (void)state;
    fill(8);
    buy(order_id_once(ONCE, 9, 0), 9);
    struct gate_request watch = {
        .kind = GATE_REQUEST_ORDER, .id = order_id_once(ONCE, 9, 0), .watch = true};
    submit(&watch);
    end(order_id_once(ONCE, 9, 0), GATE_CANCEL);
    flush();
    /* ONCE is swept first: its order would be the first to go. */
    assert_true(INT64_MAX == embedded_gate_evict(engine, NOW));
    assert_int_equal(evicted(), 2);
    assert_true(in_gate(order_id_once(ONCE, 9, 0)));
    struct order_view view;
    bool all = false;
    assert_int_equal(order_notices_take(embedded_gate_notices(engine), 0, &view, 1, &all), 1);
    assert_int_equal(view.state, ORDER_CANCELLED);
    buy(fresh(8), 3);
    buy(fresh(9), 3);
    assert_true(INT64_MAX == embedded_gate_evict(engine, NOW + 1000));
    assert_false(in_gate(order_id_once(ONCE, 9, 0)));
}

/* Numbers 0 (paid, of user 1) and 1 (cancelled, of user 2) have left. */
static void evict_two(void)
{
    fill(9);
    assert_true(INT64_MAX == embedded_gate_evict(engine, NOW));
    assert_int_equal(evicted(), 2);
    flush();
}

static void a_repeated_buy_is_answered_with_the_ledgers_row(void **state)
{
    (void)state;
    evict_two();
    struct gate_request again = buy_of(fresh(0), 1);
    submit(&again);
    assert_int_equal(again.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_true(again.ask_ledger && !again.has_order);
    buy(fresh(20), 1); /* meanwhile he buys one more */
    again.ledger = GATE_LEDGER_HAS;
    again.ledger_order = row_of(fresh(0), 1, ORDER_LOCKED); /* read before it was final */
    submit(&again);
    assert_true(again.ask_ledger && !again.has_order);
    again.ledger_order = row_of(fresh(0), 1, ORDER_PAID);
    submit(&again);
    assert_int_equal(again.refusal, REFUSAL_NONE);
    assert_true(again.existed && again.has_order && again.order.state == ORDER_PAID);
    assert_int_equal(again.held, 2); /* as of now */
    again.qty = 2;
    submit(&again);
    assert_int_equal(again.refusal, REFUSAL_DIFFERENT_REQUEST);
    again.user = 2;
    submit(&again);
    assert_int_equal(again.refusal, REFUSAL_BAD_TICKET);
    assert_false(again.has_order || again.ask_ledger);
}

static void what_the_ledger_lacks_is_decided_unless_more_has_left_since(void **state)
{
    (void)state;
    evict_two();
    struct gate_request late = buy_of(order_id_fresh(FREE, NOW, 2), 5); /* an old, unused ticket */
    buy(fresh(19), 5); /* without an order he would not be asked about */
    submit(&late);
    assert_true(late.ask_ledger);
    /* Before the ledger's answer is here, another order is decided, ends and leaves. */
    buy(fresh(20), 6);
    end(fresh(20), GATE_CANCEL);
    flush();
    struct gate_effects effects;
    assert_int_equal(
        gate_step(&box.gate, &(struct gate_command){.kind = GATE_EVICT, .id = fresh(20)}, &effects),
        VERDICT_DONE);
    late.ledger = GATE_LEDGER_LACKS;
    submit(&late);
    assert_true(late.ask_ledger); /* it might have been that one */
    submit(&late);
    assert_int_equal(late.refusal, REFUSAL_NONE);
    assert_true(late.has_order && !late.existed);
}

/* A buyer whose new orders are refused: the evicted order is answered all the same. */
static void a_refused_buyer_has_his_evicted_order(void **state)
{
    (void)state;
    evict_two();
    struct gate_request again = buy_of(fresh(0), 1);
    again.if_new = REFUSAL_BLOCKED;
    submit(&again);
    assert_int_equal(again.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_true(again.ask_ledger);
    again.ledger = GATE_LEDGER_HAS;
    again.ledger_order = row_of(fresh(0), 1, ORDER_PAID);
    submit(&again);
    assert_int_equal(again.refusal, REFUSAL_NONE);
    assert_true(again.existed && again.order.state == ORDER_PAID);
    struct gate_request late = buy_of(order_id_fresh(FREE, NOW, 2), 1);
    late.if_new = REFUSAL_BLOCKED;
    submit(&late);
    assert_true(late.ask_ledger);
    late.ledger = GATE_LEDGER_LACKS;
    submit(&late);
    assert_int_equal(late.refusal, REFUSAL_BLOCKED);
    struct gate_request stranger = buy_of(order_id_fresh(FREE, NOW, 2), 77);
    stranger.if_new = REFUSAL_BLOCKED;
    submit(&stranger); /* he never had an order: the ledger is not asked */
    assert_int_equal(stranger.refusal, REFUSAL_BLOCKED);
    assert_false(stranger.ask_ledger);
}

static void an_order_is_shown_from_the_ledger_or_not_there(void **state)
{
    (void)state;
    evict_two();
    struct gate_request look = {.kind = GATE_REQUEST_ORDER, .id = fresh(1)};
    submit(&look);
    assert_int_equal(look.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_true(look.ask_ledger);
    look.ledger = GATE_LEDGER_HAS;
    look.ledger_order = row_of(fresh(1), 2, ORDER_CANCELLED);
    submit(&look);
    assert_true(look.refusal == REFUSAL_NONE && look.has_order);
    assert_int_equal(look.order.user, 2);
    look.id = order_id_fresh(FREE, NOW, 77); /* never was */
    look.ledger = GATE_LEDGER_NOT_ASKED;
    submit(&look);
    assert_true(look.ask_ledger);
    look.ledger = GATE_LEDGER_LACKS;
    submit(&look);
    assert_int_equal(look.refusal, REFUSAL_NOT_FOUND);
    look.id = order_id_fresh(99, NOW, 1); /* of no item */
    submit(&look);
    assert_int_equal(look.refusal, REFUSAL_NOT_FOUND);
}

static void a_ticket_knows_that_an_evicted_order_is_there(void **state)
{
    (void)state;
    buy(order_id_once(ONCE, 9, 0), 9);
    end(order_id_once(ONCE, 9, 0), GATE_PAY);
    fill(8);
    assert_true(INT64_MAX == embedded_gate_evict(engine, NOW));
    assert_false(in_gate(order_id_once(ONCE, 9, 0)));
    struct gate_request ticket = {.kind = GATE_REQUEST_TICKET, .user = 9, .item = ONCE};
    submit(&ticket);
    assert_true(ticket.has_order && ticket.held == 1 && ticket.attempt == 0);
    ticket.user = 10;
    submit(&ticket);
    assert_false(ticket.has_order);
}

static void without_a_journal_an_evicted_order_is_told_all_the_same(void **state)
{
    (void)state;
    evict_two();
    ram.dead_at = ram.ops + 1;
    buy(fresh(20), 1);
    bool wrote;
    (void)journal_flush(journal, &wrote);
    assert_true(journal_failed(journal));
    struct gate_request again = buy_of(fresh(0), 1);
    submit(&again);
    assert_true(again.ask_ledger);
    again.ledger = GATE_LEDGER_HAS;
    again.ledger_order = row_of(fresh(0), 1, ORDER_PAID);
    submit(&again);
    assert_true(again.existed && again.order.state == ORDER_PAID);
    struct gate_request late = buy_of(fresh(40), 1);
    submit(&late);
    assert_int_equal(late.refusal, REFUSAL_DEGRADED);
    assert_true(INT64_MAX ==
                embedded_gate_evict(engine, NOW + 5000)); /* there is no room in the journal */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_nearly_full_gate_lets_final_orders_go),
        TEST(what_is_not_durable_or_not_final_stays),
        TEST(a_watched_order_stays_until_its_watcher_has_heard),
        TEST(a_repeated_buy_is_answered_with_the_ledgers_row),
        TEST(what_the_ledger_lacks_is_decided_unless_more_has_left_since),
        TEST(a_refused_buyer_has_his_evicted_order),
        TEST(an_order_is_shown_from_the_ledger_or_not_there),
        TEST(a_ticket_knows_that_an_evicted_order_is_there),
        TEST(without_a_journal_an_evicted_order_is_told_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
