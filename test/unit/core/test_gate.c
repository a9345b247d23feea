/*
 * The corners of the gate that histories of a sale seldom meet: sizes, full tables, slots that are
 * used again, numbers at their bounds, commands that are none. Each refusal is also held to its
 * promise that nothing changed, byte by byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/gate.h"

#define SALE 1
#define OTHER 2
#define ONCE 11 /* limit 1 */
#define FEW 12  /* limit 3 */
#define FREE 13 /* no limit */
#define NOW 2000

static struct gate gate;
static struct gate_sizes sizes;
static uint8_t *memory;
static uint64_t event;
static struct gate_effects effects;

static void make_gate(struct gate_sizes wanted)
{
    sizes = wanted;
    event = 0;
    memory = aligned_alloc(64, gate_bytes(sizes));
    assert_non_null(memory);
    memset(memory, 0, gate_bytes(sizes));
    gate_init(&gate, sizes, memory, 3);
}

static int tear_down(void **state)
{
    (void)state;
    free(memory);
    memory = NULL;
    return 0;
}

/* Gives ledger events their number, in order. */
static enum verdict step(struct gate_command command)
{
    command.now_ms = command.now_ms != 0 ? command.now_ms : NOW;
    bool follows = command.kind != GATE_RESERVE && command.kind != GATE_EVICT;
    command.event = follows ? event + 1 : 0;
    enum verdict verdict = gate_step(&gate, &command, &effects);
    if (follows && verdict == VERDICT_DONE) {
        event++;
    }
    assert_true(gate_consistent(&gate));
    return verdict;
}

static void done(struct gate_command command)
{
    assert_int_equal(step(command), VERDICT_DONE);
    assert_int_equal(effects.refusal, REFUSAL_NONE);
}

/* The verdict, and not a byte is different. */
static void unchanged(struct gate_command command, enum verdict verdict, enum refusal refusal)
{
    struct gate before = gate;
    uint8_t *bytes = malloc(gate_bytes(sizes));
    assert_non_null(bytes);
    memcpy(bytes, memory, gate_bytes(sizes));
    assert_int_equal(step(command), verdict);
    assert_int_equal(effects.refusal, refusal);
    assert_memory_equal(&gate, &before, sizeof(gate));
    assert_memory_equal(memory, bytes, gate_bytes(sizes));
    free(bytes);
}

static void refused(struct gate_command command, enum refusal refusal)
{
    unchanged(command, VERDICT_REFUSED, refusal);
}

static struct gate_command load_sale(uint64_t sale)
{
    return (struct gate_command){
        .kind = GATE_LOAD_SALE, .sale = sale, .starts_at_ms = 1000, .ends_at_ms = 9000};
}

static struct gate_command load_item(uint64_t sale, uint64_t item, uint64_t amount, uint32_t limit)
{
    return (struct gate_command){
        .kind = GATE_LOAD_ITEM, .sale = sale, .item = item, .amount = amount, .limit = limit};
}

static struct gate_command of_sale(enum gate_kind kind, uint64_t sale)
{
    return (struct gate_command){
        .kind = kind, .sale = sale, .starts_at_ms = 1000, .ends_at_ms = 9000, .qty = 1000};
}

static struct gate_command of_order(enum gate_kind kind, struct order_id id)
{
    return (struct gate_command){.kind = kind, .id = id, .time_ms = 5000};
}

static struct gate_command buy(struct order_id id, uint64_t user, uint32_t qty)
{
    return (struct gate_command){.kind = GATE_RESERVE,
                                 .id = id,
                                 .user = user,
                                 .item = order_id_item(id),
                                 .qty = qty,
                                 .ticket_expires_ms = 60000};
}

static int set_up(void **state)
{
    (void)state;
    make_gate((struct gate_sizes){.orders = 200, .buyers = 3, .items = 8, .sales = 2});
    done(load_sale(SALE));
    done(load_item(SALE, ONCE, 10, 1));
    done(load_item(SALE, FEW, 10, 3));
    done(load_item(SALE, FREE, 10, 0));
    done(of_sale(GATE_OPEN, SALE));
    return 0;
}

static void the_largest_sizes_can_be_added_up(void **state)
{
    (void)state;
    size_t empty = gate_bytes((struct gate_sizes){0});
    assert_int_equal(empty, 3 * 64 * 4); /* the fewest buckets */
    size_t orders = gate_bytes((struct gate_sizes){.orders = UINT32_MAX});
    size_t entries = ((size_t)UINT32_MAX * sizeof(struct gate_order) + 63) / 64 * 64;
    assert_int_equal(orders - empty, entries + (1ULL << 31) * 4 - 64 * 4ULL);
}

static void an_id_must_be_the_buyers_and_the_items(void **state)
{
    (void)state;
    refused(buy(order_id_once(FEW, 7, 0), 7, 1), REFUSAL_BAD_TICKET);
    refused(buy(order_id_fresh(ONCE, NOW, 1), 7, 1), REFUSAL_BAD_TICKET);
    refused(buy(order_id_once(ONCE, 8, 0), 7, 1), REFUSAL_BAD_TICKET);
    refused(buy(order_id_once(ONCE, 7, 1), 7, 1), REFUSAL_BAD_TICKET);
    struct gate_command command = buy(order_id_once(ONCE, 7, 0), 7, 1);
    command.item = FEW;
    refused(command, REFUSAL_NO_SUCH_ITEM);
    done(buy(order_id_once(ONCE, 7, 0), 7, 1));
}

static void a_sale_opened_for_later_is_too_early(void **state)
{
    (void)state;
    struct gate_command open = of_sale(GATE_OPEN, SALE);
    open.starts_at_ms = NOW + 1;
    done(open);
    refused(buy(order_id_once(ONCE, 7, 0), 7, 1), REFUSAL_TOO_EARLY);
    struct gate_command command = buy(order_id_once(ONCE, 7, 0), 7, 1);
    command.now_ms = NOW + 1;
    done(command);
}

static void orders_that_end_unsold_are_counted_and_then_enough(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < BUYER_FAILED_ATTEMPTS_MAX; i++) {
        struct order_id id = order_id_once(ONCE, 7, i);
        done(buy(id, 7, 1));
        done(of_order(GATE_CONFIRM, id));
        done(of_order(GATE_CANCEL, id));
    }
    refused(buy(order_id_once(ONCE, 7, BUYER_FAILED_ATTEMPTS_MAX), 7, 1), REFUSAL_LIMIT_REACHED);
    done(buy(order_id_once(ONCE, 8, 0), 8, 1));
}

static void full_tables_refuse_only_what_needs_them(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= sizes.buyers; user++) {
        done(buy(order_id_fresh(FREE, NOW, (uint32_t)user), user, 1));
    }
    refused(buy(order_id_fresh(FREE, NOW, 100), 100, 1), REFUSAL_OVERLOADED);
    done(buy(order_id_fresh(FREE, NOW, 101), 1, 1)); /* known: needs no room among the buyers */
    done(load_sale(OTHER));
    refused(load_sale(3), REFUSAL_OVERLOADED);
    for (uint64_t item = 20; gate.item_pool.used < sizes.items; item++) {
        done(load_item(OTHER, item, 1, 1));
    }
    refused(load_item(OTHER, 99, 1, 1), REFUSAL_OVERLOADED);
}

static void full_of_orders(void **state)
{
    (void)state;
    make_gate((struct gate_sizes){.orders = 1, .buyers = 2, .items = 1, .sales = 1});
    done(load_sale(SALE));
    done(load_item(SALE, ONCE, 10, 1));
    done(of_sale(GATE_OPEN, SALE));
    done(buy(order_id_once(ONCE, 1, 0), 1, 1));
    refused(buy(order_id_once(ONCE, 2, 0), 2, 1), REFUSAL_OVERLOADED);
}

/* ---- shares ---- */

static void full(struct gate_command command, enum gate_bound bound)
{
    refused(command, REFUSAL_OVERLOADED);
    assert_int_equal(effects.bound, bound);
}

/* 1,000 orders and 8 buyers: two sales with an item each, the first one without a limit. */
static void make_shared_gate(struct gate_percents percents)
{
    make_gate((struct gate_sizes){.orders = 1000, .buyers = 8, .items = 4, .sales = 2});
    done(load_sale(SALE));
    done(load_item(SALE, FREE, 100000, 0));
    done(load_item(SALE, FEW, 100000, 0));
    done(of_sale(GATE_OPEN, SALE));
    done(load_sale(OTHER));
    done(load_item(OTHER, ONCE, 100, 1));
    done(of_sale(GATE_OPEN, OTHER));
    gate_limit(&gate, percents);
}

static uint32_t sequence;

static void buy_many(uint64_t item, uint64_t user, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        done(buy(order_id_fresh(item, NOW, ++sequence), user, 1));
    }
}

static struct gate_command one_more(uint64_t item, uint64_t user)
{
    return buy(order_id_fresh(item, NOW, 1U << 20), user, 1);
}

static void a_buyer_has_a_share(void **state)
{
    (void)state;
    make_shared_gate((struct gate_percents){.buyer = 25, .item = 100, .sale = 100});
    buy_many(FREE, 1, 250);
    full(one_more(FREE, 1), GATE_BOUND_BUYER_SHARE);
    done(one_more(FREE, 2)); /* other buyers still buy, */
    done(one_more(FEW, 1));  /* and so does this one, another item */
    unchanged(buy(order_id_fresh(FREE, NOW, sequence), 1, 1), VERDICT_ALREADY_APPLIED,
              REFUSAL_NONE); /* an existing order is answered */
    free(memory);
    /* Never below a tenth of a small gate. */
    make_shared_gate((struct gate_percents){.buyer = 1, .item = 100, .sale = 100});
    buy_many(FREE, 1, 100);
    full(one_more(FREE, 1), GATE_BOUND_BUYER_SHARE);
    /* What is final does not count. */
    struct order_id id = order_id_fresh(FREE, NOW, sequence);
    done(of_order(GATE_CONFIRM, id));
    full(one_more(FREE, 1), GATE_BOUND_BUYER_SHARE);
    done(of_order(GATE_PAY, id));
    done(one_more(FREE, 1));
    free(memory);
    make_gate((struct gate_sizes){.orders = 100000, .buyers = 8, .items = 4, .sales = 2});
    gate_limit(&gate, (struct gate_percents){.buyer = 0, .item = 0, .sale = 100});
    assert_int_equal(gate.shares.buyer_orders, GATE_BUYER_SHARE_LEAST);
    assert_int_equal(gate.shares.item_orders, 1);
    assert_int_equal(gate.shares.sale_orders, UINT32_MAX);
}

static void an_item_and_a_sale_have_a_share(void **state)
{
    (void)state;
    make_shared_gate((struct gate_percents){.buyer = 100, .item = 50, .sale = 75});
    buy_many(FREE, 1, 500);
    full(one_more(FREE, 2), GATE_BOUND_ITEM_SHARE);
    buy_many(FEW, 1, 250);
    full(one_more(FEW, 1), GATE_BOUND_SALE_SHARE);
    done(buy(order_id_once(ONCE, 1, 0), 1, 1)); /* the other sale goes on */
    /* Forgetting gives the room back. */
    done(of_sale(GATE_CLOSE, SALE));
    struct gate_command forget = of_sale(GATE_FORGET, SALE);
    forget.qty = 5000;
    done(forget);
    assert_int_equal(gate.order_pool.used, 1);
}

static void the_buyers_of_a_sale_have_a_share(void **state)
{
    (void)state;
    make_shared_gate((struct gate_percents){.buyer = 100, .item = 100, .sale = 75});
    for (uint64_t user = 1; user <= 6; user++) {
        buy_many(FREE, user, 1);
    }
    full(one_more(FREE, 7), GATE_BOUND_SALE_BUYERS);
    done(one_more(FREE, 6)); /* he has a record */
    done(buy(order_id_once(ONCE, 7, 0), 7, 1));
}

/* A record was decided under other shares. */
static void a_record_is_replayed_whatever_the_shares(void **state)
{
    (void)state;
    make_shared_gate((struct gate_percents){.buyer = 100, .item = 1, .sale = 1});
    buy_many(FREE, 1, 10);
    full(one_more(FREE, 2), GATE_BOUND_ITEM_SHARE);
    struct gate_command command = one_more(FREE, 2);
    command.accepted = true;
    done(command);
}

static void what_is_full_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(gate_bound_text(GATE_BOUND_NONE), "none");
    assert_string_equal(gate_bound_text(GATE_BOUND_ITEM_SHARE), "gate.item_share");
    assert_string_equal(gate_bound_text(GATE_BOUND_JOURNAL), "journal buffer");
    done(load_sale(OTHER));
    full(load_sale(99), GATE_BOUND_SALES);
}

/* ---- evicting ---- */

static struct gate_command evict(struct order_id id)
{
    return (struct gate_command){.kind = GATE_EVICT, .id = id};
}

/* The order's units went through all of this, and it is final. */
static void ended(struct order_id id, uint64_t user, enum gate_kind how)
{
    done(buy(id, user, 1));
    gate.orders[effects.slot].lsn = event + 1;
    done(of_order(GATE_CONFIRM, id));
    done(of_order(how, id));
}

static void ask(struct gate_command command)
{
    refused(command, REFUSAL_UNKNOWN_OUTCOME);
    assert_true(effects.ask_ledger);
}

static void only_a_final_order_is_evicted(void **state)
{
    (void)state;
    struct order_id id = order_id_fresh(FREE, NOW, 1);
    unchanged(evict(id), VERDICT_ALREADY_APPLIED, REFUSAL_NONE);
    done(buy(id, 7, 2));
    refused(evict(id), REFUSAL_BAD_STATE);
    done(of_order(GATE_CONFIRM, id));
    refused(evict(id), REFUSAL_BAD_STATE);
    done(of_order(GATE_PAY, id));
    struct item_view before;
    struct item_view after;
    uint32_t item = gate_find_item(&gate, FREE);
    gate_view_item(&gate, item, &before);
    uint64_t applied = gate.applied_event;
    done(evict(id));
    gate_view_item(&gate, item, &after);
    assert_true(after.total == before.total && after.available == before.available &&
                after.locked == before.locked && after.sold == before.sold &&
                after.version == before.version);
    assert_int_equal(gate.applied_event, applied);
    assert_int_equal(gate.order_pool.used, 0);
    assert_int_equal(gate_find_buyer(&gate, item, 7)->held, 2);
    unchanged(evict(id), VERDICT_ALREADY_APPLIED, REFUSAL_NONE);
}

static void an_evicted_fresh_order_is_not_decided_again(void **state)
{
    (void)state;
    struct order_id id = order_id_fresh(FREE, NOW, 5);
    struct order_id older = order_id_fresh(FREE, NOW - 1, 5);
    struct order_id newer = order_id_fresh(FREE, NOW + 1, 0);
    ended(id, 7, GATE_CANCEL);
    ended(older, 7, GATE_CANCEL);
    assert_false(gate_maybe_evicted(&gate, gate_find_item(&gate, FREE), id));
    done(evict(id));
    uint64_t lsn = gate.items[gate_find_item(&gate, FREE)].evicted_lsn;
    assert_true(lsn > 0);
    done(evict(older)); /* the mark stays where the newest one put it */
    ask(buy(id, 7, 1));
    done(buy(order_id_fresh(FREE, NOW, 6), 8, 1)); /* he never had an order here */
    ask(buy(older, 7, 1));
    struct gate_command late = buy(id, 7, 1);
    late.ticket_expires_ms = 1; /* an expired ticket, too */
    ask(late);
    done(buy(newer, 7, 1)); /* no order of that time was evicted */
    struct gate_command asked = buy(order_id_fresh(FREE, NOW, 4), 7, 1);
    ask(asked);
    asked.absent_lsn = lsn - 1; /* before the last eviction */
    ask(asked);
    asked.absent_lsn = gate.items[gate_find_item(&gate, FREE)].evicted_lsn;
    done(asked);
    /* Another item lost nothing, and an id of the other kind is of no order. */
    assert_false(
        gate_maybe_evicted(&gate, gate_find_item(&gate, FEW), order_id_fresh(FEW, NOW - 1, 1)));
    assert_false(gate_maybe_evicted(&gate, gate_find_item(&gate, FREE), order_id_once(FREE, 7, 0)));
}

static void an_evicted_order_of_an_attempt_is_not_decided_again(void **state)
{
    (void)state;
    uint32_t item = gate_find_item(&gate, ONCE);
    struct order_id first = order_id_once(ONCE, 7, 0);
    struct order_id second = order_id_once(ONCE, 7, 1);
    ended(first, 7, GATE_CANCEL);
    done(evict(first));
    ask(buy(first, 7, 1));
    done(buy(second, 7, 1)); /* the next attempt is a new order */
    done(of_order(GATE_CONFIRM, second));
    done(of_order(GATE_PAY, second));
    done(evict(second));
    ask(buy(second, 7, 1));
    refused(buy(order_id_once(ONCE, 7, 2), 7, 1), REFUSAL_BAD_TICKET); /* not his turn yet */
    assert_false(gate_maybe_evicted(&gate, item, order_id_once(ONCE, 8, 0)));
    assert_false(gate_maybe_evicted(&gate, item, order_id_fresh(ONCE, 1, 1)));
    /* A record is of an order that was decided. */
    struct gate_command record = buy(order_id_once(ONCE, 8, 0), 8, 1);
    record.accepted = true;
    done(record);
}

static void an_evicted_order_that_barred_its_buyer_is_told(void **state)
{
    (void)state;
    make_gate((struct gate_sizes){.orders = 9, .buyers = 3, .items = 1, .sales = 1});
    struct gate_command sale = load_sale(SALE);
    sale.bar_unpaid = 1;
    done(sale);
    done(load_item(SALE, ONCE, 10, 1));
    done(of_sale(GATE_OPEN, SALE));
    struct order_id id = order_id_once(ONCE, 7, 0);
    ended(id, 7, GATE_EXPIRE);
    done(evict(id));
    ask(buy(id, 7, 1));
    struct order_id live = order_id_once(ONCE, 8, 0);
    done(buy(live, 8, 1));
    unchanged(buy(live, 8, 1), VERDICT_ALREADY_APPLIED, REFUSAL_NONE);
}

/* The orders that a sweep finds, in order; evicts them if told to. */
static uint32_t swept(struct gate_sweep *sweep, uint32_t looks, bool evicts)
{
    uint32_t found = 0;
    while (looks > 0 && sweep->active) {
        uint32_t slot = gate_sweep_next(&gate, sweep, &looks);
        if (slot == GATE_NONE) {
            break;
        }
        found++;
        if (evicts) {
            done(evict(gate.orders[slot].id));
        }
    }
    return found;
}

static void a_sweep_finds_final_orders_when_the_gate_is_nearly_full(void **state)
{
    (void)state;
    make_gate((struct gate_sizes){.orders = 10, .buyers = 9, .items = 3, .sales = 1});
    done(load_sale(SALE));
    done(load_item(SALE, FREE, 100, 0));
    done(load_item(SALE, FEW, 100, 3));
    done(load_item(SALE, ONCE, 100, 1));
    done(of_sale(GATE_OPEN, SALE));
    struct gate_sweep sweep = {0};
    for (uint32_t i = 0; i < 4; i++) {
        assert_false(gate_sweep_wanted(&gate, &sweep));
        ended(order_id_fresh(FREE, NOW, i), 1, GATE_CANCEL);
        done(buy(order_id_fresh(FREE, NOW, 10 + i), 1, 1));
    }
    assert_false(gate_sweep_wanted(&gate, &sweep)); /* 8 of 10 */
    ended(order_id_once(ONCE, 5, 0), 5, GATE_PAY);
    assert_true(gate_sweep_wanted(&gate, &sweep)); /* 9 */
    /* The oldest first; live ones are passed by. */
    uint32_t looks = 1;
    uint32_t slot = gate_sweep_next(&gate, &sweep, &looks);
    assert_int_equal(looks, 0);
    assert_true(order_id_equal(gate.orders[slot].id, order_id_fresh(FREE, NOW, 0)));
    assert_int_equal(gate_sweep_next(&gate, &sweep, &looks), GATE_NONE);
    assert_true(sweep.active);
    done(evict(order_id_fresh(FREE, NOW, 0)));
    assert_true(gate_sweep_wanted(&gate, &sweep)); /* 8: on, until it is below 80 % */
    assert_int_equal(swept(&sweep, 1, true), 0);   /* a live one */
    assert_int_equal(swept(&sweep, 2, true), 1);
    assert_false(gate_sweep_wanted(&gate, &sweep)); /* 7 */
    /* From the start to the end of all items: two cancelled ones and the paid one. */
    sweep = (struct gate_sweep){.active = true};
    assert_int_equal(swept(&sweep, 100, true), 3);
    assert_false(sweep.active);
    assert_int_equal(gate.order_pool.used, 4);
}

/* It may stand still for long: its item may be another one by then. */
static void a_sweep_survives_what_is_forgotten_meanwhile(void **state)
{
    (void)state;
    make_gate((struct gate_sizes){.orders = 4, .buyers = 9, .items = 2, .sales = 2});
    done(load_sale(SALE));
    done(load_item(SALE, FREE, 100, 0));
    done(of_sale(GATE_OPEN, SALE));
    for (uint32_t i = 0; i < 3; i++) {
        ended(order_id_fresh(FREE, NOW, i), 1, GATE_CANCEL);
    }
    struct gate_sweep sweep = {.active = true};
    assert_int_equal(swept(&sweep, 1, false), 1);
    struct gate_sweep before = sweep;
    done(of_sale(GATE_CLOSE, SALE));
    done(of_sale(GATE_FORGET, SALE));
    assert_int_equal(swept(&sweep, 10, true), 0); /* the item is gone */
    assert_false(sweep.active);
    done(load_sale(OTHER));
    done(load_item(OTHER, FEW, 100, 3));
    done(of_sale(GATE_OPEN, OTHER));
    ended(order_id_fresh(FEW, NOW, 1), 1, GATE_CANCEL);
    ended(order_id_fresh(FEW, NOW, 2), 1, GATE_CANCEL);
    sweep = before; /* in the slot of another item now */
    assert_int_equal(swept(&sweep, 10, true), 2);
    ended(order_id_fresh(FEW, NOW + 1, 3), 1, GATE_CANCEL);
    /* Slots of orders that were never used since, and of another item's. */
    sweep = (struct gate_sweep){.active = true, .link = 4, .item_id_low = FEW};
    assert_int_equal(swept(&sweep, 10, false), 1);
    done(load_item(OTHER, ONCE, 100, 1));
    ended(order_id_once(ONCE, 5, 0), 5, GATE_CANCEL);
    sweep = (struct gate_sweep){.active = true,
                                .link = gate_find_order(&gate, order_id_once(ONCE, 5, 0)) + 1,
                                .item_id_low = FEW};
    assert_int_equal(swept(&sweep, 10, false), 2);
}

static void a_buyer_holds_no_more_than_can_be_counted(void **state)
{
    (void)state;
    done((struct gate_command){.kind = GATE_RESTOCK, .item = FREE, .amount = 1ULL << 34});
    done(buy(order_id_fresh(FREE, NOW, 1), 7, UINT32_MAX - 1));
    refused(buy(order_id_fresh(FREE, NOW, 2), 7, 2), REFUSAL_OVERLOADED);
    done(buy(order_id_fresh(FREE, NOW, 3), 7, 1));
    assert_int_equal(effects.held, UINT32_MAX);
    refused(buy(order_id_fresh(FREE, NOW, 4), 7, 1), REFUSAL_OVERLOADED);
    done(buy(order_id_fresh(FREE, NOW, 5), 8, 1));
}

static void stock_has_a_bound(void **state)
{
    (void)state;
    struct gate_command restock = {.kind = GATE_RESTOCK, .item = FREE, .amount = STOCK_MAX + 1};
    refused(restock, REFUSAL_BAD_REQUEST);
    restock.amount = UINT64_MAX - 5; /* would wrap around */
    refused(restock, REFUSAL_BAD_REQUEST);
    restock.amount = STOCK_MAX - 9;
    refused(restock, REFUSAL_BAD_REQUEST);
    restock.amount = STOCK_MAX - 10;
    done(restock);
    assert_int_equal(effects.available, STOCK_MAX);
    restock.item = 99;
    refused(restock, REFUSAL_NO_SUCH_ITEM);
    struct gate_command load = {
        .kind = GATE_LOAD_ITEM, .sale = SALE, .item = 98, .amount = STOCK_MAX + 1};
    refused(load, REFUSAL_BAD_REQUEST);
    load.amount = STOCK_MAX;
    done(load);
    assert_int_equal(effects.available, STOCK_MAX);
}

static void loading_again_changes_nothing(void **state)
{
    (void)state;
    unchanged(load_sale(SALE), VERDICT_ALREADY_APPLIED, REFUSAL_NONE);
    unchanged(load_item(SALE, ONCE, 99, 9), VERDICT_ALREADY_APPLIED, REFUSAL_NONE);
    refused(load_item(OTHER, 99, 1, 1), REFUSAL_NOT_FOUND);
}

static void closed_is_for_good(void **state)
{
    (void)state;
    refused(of_sale(GATE_OPEN, OTHER), REFUSAL_NOT_FOUND);
    done(of_sale(GATE_PAUSE, SALE));
    done(of_sale(GATE_OPEN, SALE));
    done(of_sale(GATE_CLOSE, SALE));
    refused(of_sale(GATE_OPEN, SALE), REFUSAL_BAD_STATE);
    refused(of_sale(GATE_PAUSE, SALE), REFUSAL_BAD_STATE);
    done(of_sale(GATE_CLOSE, SALE));
    struct gate_command retime = of_sale(GATE_RETIME, SALE);
    retime.ends_at_ms = 99000;
    done(retime);
    const struct gate_sale *sale = &gate.sales[gate_find_sale(&gate, SALE)];
    assert_int_equal(sale->ends_at_ms, 99000);
    assert_int_equal(sale->state, SALE_CLOSED);
    refused(buy(order_id_once(ONCE, 7, 0), 7, 1), REFUSAL_ENDED);
}

static void a_change_of_one_sale_shows_on_its_items_alone(void **state)
{
    (void)state;
    done(load_sale(OTHER));
    done(load_item(OTHER, 20, 5, 1));
    struct item_view mine;
    struct item_view others;
    gate_view_item(&gate, gate_find_item(&gate, ONCE), &mine);
    gate_view_item(&gate, gate_find_item(&gate, 20), &others);
    uint64_t before = mine.version;
    uint64_t others_before = others.version;
    done(of_sale(GATE_PAUSE, SALE));
    gate_view_item(&gate, gate_find_item(&gate, ONCE), &mine);
    gate_view_item(&gate, gate_find_item(&gate, 20), &others);
    assert_int_equal(mine.version, before + 1);
    assert_int_equal(mine.sale_state, SALE_PAUSED);
    assert_int_equal(others.version, others_before);
    assert_int_equal(others.sale_state, SALE_WARM);
    done(of_sale(GATE_CLOSE, SALE));
    done(of_sale(GATE_FORGET, SALE));
    done(of_sale(GATE_PAUSE, OTHER)); /* walks over the slots that are free now */
    gate_view_item(&gate, gate_find_item(&gate, 20), &others);
    assert_int_equal(others.version, others_before + 1);
}

static void an_order_is_told_as_it_is(void **state)
{
    (void)state;
    struct order_id id = order_id_once(ONCE, 7, 0);
    done(buy(id, 7, 1));
    struct order_view view;
    gate_view_order(&gate, effects.slot, &view);
    assert_true(order_id_equal(view.id, id));
    assert_int_equal(view.user, 7);
    assert_int_equal(view.item, ONCE);
    assert_int_equal(view.qty, 1);
    assert_int_equal(view.state, ORDER_QUEUED);
    assert_int_equal(view.version, 1);
    assert_int_equal(view.created_at_ms, NOW);
    assert_int_equal(view.pay_by_ms, 0);
    struct gate_command refuse = of_order(GATE_FAIL_ORDER, id);
    refuse.reason = REFUSAL_LIMIT_REACHED;
    done(refuse);
    gate_view_order(&gate, effects.slot, &view);
    assert_int_equal(view.state, ORDER_FAILED);
    assert_int_equal(view.reason, REFUSAL_LIMIT_REACHED);
    assert_int_equal(view.version, 2);
}

static void an_event_that_is_skipped_moves_the_cursor_alone(void **state)
{
    (void)state;
    struct gate before = gate;
    done((struct gate_command){.kind = GATE_SKIP});
    assert_int_equal(gate.applied_event, before.applied_event + 1);
    gate.applied_event--;
    assert_memory_equal(&gate, &before, sizeof(gate));
}

static void time_is_set_back_by_a_command_alone(void **state)
{
    (void)state;
    struct gate before = gate;
    struct gate_command command = {.kind = GATE_SET_TIME, .now_ms = gate.highest_ms - 1000};
    assert_true(before.highest_ms > 1000);
    assert_int_equal(gate_step(&gate, &command, &effects), VERDICT_DONE);
    assert_int_equal(gate.highest_ms, before.highest_ms - 1000);
    gate.highest_ms = before.highest_ms;
    assert_memory_equal(&gate, &before, sizeof(gate));
}

static void only_a_closed_sale_is_forgotten(void **state)
{
    (void)state;
    unchanged(of_sale(GATE_FORGET, OTHER), VERDICT_ALREADY_APPLIED, REFUSAL_NONE);
    refused(of_sale(GATE_FORGET, SALE), REFUSAL_BAD_STATE);
    done(of_sale(GATE_CLOSE, SALE));
    struct gate_command none = of_sale(GATE_FORGET, SALE);
    none.qty = 0;
    refused(none, REFUSAL_BAD_STATE);
    done(of_sale(GATE_FORGET, SALE));
    assert_int_equal(gate.sales_used, 0);
    assert_int_equal(gate.item_pool.used, 0);
}

static void what_was_forgotten_makes_room(void **state)
{
    (void)state;
    make_gate((struct gate_sizes){.orders = 1, .buyers = 1, .items = 1, .sales = 1});
    for (uint64_t round = 1; round <= 3; round++) {
        uint64_t item = 10 + round;
        done(load_sale(round));
        done(load_item(round, item, 10, 1));
        done(of_sale(GATE_OPEN, round));
        struct order_id id = order_id_once(item, round, 0);
        done(buy(id, round, 1));
        done(of_order(GATE_CONFIRM, id));
        done(of_order(GATE_PAY, id));
        done(of_sale(GATE_CLOSE, round));
        done(of_sale(GATE_FORGET, round));
        assert_int_equal(gate_find_order(&gate, id), GATE_NONE);
        assert_int_equal(gate_find_item(&gate, item), GATE_NONE);
        assert_int_equal(gate.order_pool.used + gate.buyer_pool.used + gate.item_pool.used, 0);
    }
    assert_int_equal(gate.order_pool.fresh, 1);
    assert_int_equal(gate.buyer_pool.fresh, 1);
    assert_int_equal(gate.item_pool.fresh, 1);
}

#define MANY 150 /* on 64 buckets of items, 256 of orders and buyers: chains of several */

/* Two sales whose entries share the chains of the tables: forgetting one leaves the other. */
static void forgetting_unlinks_from_the_middle_of_chains(void **state)
{
    (void)state;
    make_gate((struct gate_sizes){.orders = 2 * MANY, .buyers = 2 * MANY, .items = 60, .sales = 2});
    done(load_sale(SALE));
    done(load_sale(OTHER));
    for (uint64_t item = 0; item < 60; item++) {
        done(load_item(item % 2 == 0 ? SALE : OTHER, 100 + item, 100, 0));
    }
    for (uint32_t i = 0; i < 2 * MANY; i++) {
        done(buy(order_id_fresh(100 + i % 60, NOW, i), 1 + i, 1));
    }
    done(of_sale(GATE_CLOSE, SALE));
    struct gate_command forget = of_sale(GATE_FORGET, SALE);
    forget.qty = 7;
    int pieces = 1;
    for (; step(forget) == VERDICT_MORE; pieces++) {
        assert_true(pieces < 100);
    }
    assert_true(pieces > MANY / 7);
    assert_int_equal(gate.order_pool.used, MANY);
    assert_int_equal(gate.buyer_pool.used, MANY);
    assert_int_equal(gate.item_pool.used, 30);
    for (uint32_t i = 0; i < 2 * MANY; i++) {
        bool stays = i % 2 == 1;
        uint64_t item = 100 + i % 60;
        uint32_t slot = gate_find_order(&gate, order_id_fresh(item, NOW, i));
        assert_true((slot != GATE_NONE) == stays);
        assert_true((gate_find_item(&gate, item) != GATE_NONE) == stays);
        if (stays) {
            assert_non_null(gate_find_buyer(&gate, gate_find_item(&gate, item), 1 + i));
        }
    }
}

static void a_command_that_is_none_is_refused(void **state)
{
    (void)state;
    refused((struct gate_command){.kind = GATE_KIND_NONE}, REFUSAL_BAD_REQUEST);
    refused((struct gate_command){.kind = GATE_KIND_COUNT}, REFUSAL_BAD_REQUEST);
    refused((struct gate_command){.kind = (enum gate_kind)77}, REFUSAL_BAD_REQUEST);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define BARE(name) cmocka_unit_test_teardown(name, tear_down)
    const struct CMUnitTest tests[] = {
        BARE(the_largest_sizes_can_be_added_up),
        TEST(an_id_must_be_the_buyers_and_the_items),
        TEST(a_sale_opened_for_later_is_too_early),
        TEST(orders_that_end_unsold_are_counted_and_then_enough),
        TEST(full_tables_refuse_only_what_needs_them),
        BARE(full_of_orders),
        BARE(a_buyer_has_a_share),
        BARE(an_item_and_a_sale_have_a_share),
        BARE(the_buyers_of_a_sale_have_a_share),
        BARE(a_record_is_replayed_whatever_the_shares),
        TEST(what_is_full_has_a_name),
        TEST(only_a_final_order_is_evicted),
        TEST(an_evicted_fresh_order_is_not_decided_again),
        TEST(an_evicted_order_of_an_attempt_is_not_decided_again),
        BARE(an_evicted_order_that_barred_its_buyer_is_told),
        BARE(a_sweep_finds_final_orders_when_the_gate_is_nearly_full),
        BARE(a_sweep_survives_what_is_forgotten_meanwhile),
        TEST(a_buyer_holds_no_more_than_can_be_counted),
        TEST(stock_has_a_bound),
        TEST(loading_again_changes_nothing),
        TEST(closed_is_for_good),
        TEST(a_change_of_one_sale_shows_on_its_items_alone),
        TEST(an_order_is_told_as_it_is),
        TEST(an_event_that_is_skipped_moves_the_cursor_alone),
        TEST(time_is_set_back_by_a_command_alone),
        TEST(only_a_closed_sale_is_forgotten),
        BARE(what_was_forgotten_makes_room),
        BARE(forgetting_unlinks_from_the_middle_of_chains),
        TEST(a_command_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
