/*
 * The engine's threads together. First the gate alone: several loops buy the same items, each order
 * more than once, while one thread journals and one applies what a ledger would say. Then the whole
 * way of an order, with the ledger writer on its own thread. Afterwards every counter is exact, and the
 * disk holds the same.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/err.h"
#include "journal/journal_private.h"
#include "ledger_writer_world.h"

#define BUYERS 4
#define USERS 1500
#define STOCK 700 /* of each item: fewer than users */

static struct shop {
    struct ram_disk ram;
    struct gate_box box;
    struct journal *journal;
    struct waker wakers[BUYERS];
    struct embedded_gate *engine;
    uint64_t event; /* the applier's */
    uint64_t moved[ORDER_STATE_COUNT];
    atomic_uint_fast64_t won; /* orders told as new */
    atomic_uint_fast64_t overloaded;
    atomic_bool over;
} shop;

static const struct gate_sizes sizes = {.orders = 8000, .buyers = 8000, .items = 4, .sales = 2};
static const struct journal_options options = {.file_bytes = 64 * JOURNAL_SECTOR,
                                               .buffer_bytes = 2 * JOURNAL_SECTOR};

static void *journal_thread(void *context)
{
    struct journal *journal = context;
    bool wrote;
    while (journal_wait(journal)) {
        CHECK(journal_flush(journal, &wrote) == 0);
    }
    CHECK(journal_flush(journal, &wrote) == 0);
    return NULL;
}

/* ---- the gate alone ---- */

static void apply(struct gate_command command)
{
    uint64_t lsn = 0;
    enum refusal refusal = REFUSAL_NONE;
    command.event = ++shop.event;
    command.now_ms = 2000;
    CHECK(embedded_gate_apply(shop.engine, &command, &lsn, &refusal) == 0 && lsn > 0);
}

static void start_sale(void)
{
    apply((struct gate_command){
        .kind = GATE_LOAD_SALE, .sale = 1, .starts_at_ms = 1, .ends_at_ms = 1000000});
    apply((struct gate_command){
        .kind = GATE_LOAD_ITEM, .sale = 1, .item = 5, .amount = STOCK, .limit = 1});
    apply((struct gate_command){
        .kind = GATE_LOAD_ITEM, .sale = 1, .item = 6, .amount = STOCK, .limit = 3});
    apply((struct gate_command){.kind = GATE_OPEN, .sale = 1, .starts_at_ms = 1});
}

/* Asks until there is room; the same order may be asked for by another loop at the same time. */
static struct gate_request buy(uint32_t loop, struct order_id id, uint64_t user, uint64_t item)
{
    struct gate_request request = {.kind = GATE_REQUEST_BUY,
                                   .loop = loop,
                                   .id = id,
                                   .user = user,
                                   .item = item,
                                   .qty = item == 5 ? 1 : 1 + (uint32_t)(user % 3),
                                   .ticket_expires_ms = 1000000,
                                   .now_ms = 2000};
    for (;;) {
        CHECK(gate_submit(embedded_gate_port(shop.engine), &request) == GATE_ANSWERED);
        if (request.refusal != REFUSAL_OVERLOADED) {
            return request;
        }
        atomic_fetch_add(&shop.overloaded, 1);
        sched_yield();
    }
}

static void buy_and_look(uint32_t loop, struct order_id id, uint64_t user, uint64_t item)
{
    struct gate_request bought = buy(loop, id, user, item);
    if (bought.refusal != REFUSAL_NONE) {
        CHECK(bought.refusal == REFUSAL_SOLD_OUT);
        return;
    }
    CHECK(bought.has_order && order_id_equal(bought.order.id, id));
    if (!bought.existed) {
        atomic_fetch_add(&shop.won, 1);
    }
    struct gate_request again = buy(loop, id, user, item);
    CHECK(again.refusal == REFUSAL_NONE && again.existed);
    struct gate_request look = {.kind = GATE_REQUEST_ORDER, .loop = loop, .id = id, .watch = true};
    CHECK(gate_submit(embedded_gate_port(shop.engine), &look) == GATE_ANSWERED);
    CHECK(look.has_order && look.order.version >= bought.order.version);
    struct order_view views[16];
    bool all;
    size_t n = order_notices_take(embedded_gate_notices(shop.engine), loop, views, 16, &all);
    for (size_t i = 0; i < n; i++) {
        CHECK(views[i].version >= 1 && views[i].lsn > 0);
    }
    struct gate_request item_ask = {.kind = GATE_REQUEST_ITEM, .item = item};
    CHECK(gate_submit(embedded_gate_port(shop.engine), &item_ask) == GATE_ANSWERED);
    const struct item_view *view = &item_ask.view;
    CHECK(view->available + view->locked + view->sold == STOCK && view->total == STOCK);
}

/* Every loop serves every user: each order is asked for BUYERS times and more. */
static void *buyer_thread(void *context)
{
    uint32_t loop = (uint32_t)(uintptr_t)context;
    for (uint64_t i = 0; i < USERS; i++) {
        uint64_t user = 1 + (i + loop * 7) % USERS;
        buy_and_look(loop, order_id_once(5, user, 0), user, 5);
        buy_and_look(loop, order_id_fresh(6, 2000, (uint32_t)user), user, 6);
    }
    return NULL;
}

/* What a ledger would say to each decision: locked, and then a third each unpaid, paid, cancelled. */
static void *event_thread(void *context)
{
    (void)context;
    struct journal_reader *reader;
    CHECK(journal_reader_new(shop.journal, 0, &reader) == 0);
    for (;;) {
        /* Before the look: what becomes durable behind it is still to be read. */
        bool over = atomic_load(&shop.over) &&
                    journal_durable_lsn(shop.journal) == journal_last_lsn(shop.journal);
        uint64_t lsn;
        struct gate_command command;
        int error = gate_content_next(reader, &lsn, &command);
        if (error == ERR_AGAIN) {
            if (over) {
                break;
            }
            sched_yield();
            continue;
        }
        CHECK(error == 0);
        if (command.kind != GATE_RESERVE) {
            continue;
        }
        struct gate_command move = {.id = command.id, .item = command.item, .kind = GATE_CONFIRM};
        apply(move);
        uint64_t fate = lsn % 3;
        if (fate > 0) {
            move.kind = fate == 1 ? GATE_PAY : GATE_CANCEL;
            apply(move);
        }
        shop.moved[fate == 0 ? ORDER_LOCKED : fate == 1 ? ORDER_PAID : ORDER_CANCELLED]++;
    }
    journal_reader_free(reader);
    return NULL;
}

static void open_shop(void)
{
    struct journal_found found;
    gate_box_init_sizes(&shop.box, sizes);
    assert_int_equal(
        gate_content_open(&shop.ram.disk, options, &shop.box.gate, &shop.journal, &found), 0);
    assert_int_equal(
        embedded_gate_new(&shop.box.gate, shop.journal, shop.wakers, BUYERS, &shop.engine), 0);
}

static void assert_exact(void)
{
    uint64_t states[ORDER_STATE_COUNT] = {0};
    const struct gate *gate = &shop.box.gate;
    gate_audit(gate);
    for (uint32_t i = 0; i < gate->order_pool.fresh; i++) {
        states[gate->orders[i].state]++;
    }
    assert_int_equal(gate->order_pool.used, gate->order_pool.fresh);
    assert_int_equal(gate->order_pool.used, atomic_load(&shop.won));
    for (int i = 0; i < ORDER_STATE_COUNT; i++) {
        assert_int_equal(states[i], shop.moved[i]);
    }
    for (uint32_t i = 0; i < gate->item_pool.fresh; i++) {
        const struct gate_item *item = &gate->items[i];
        assert_int_equal(item->available + item->locked + item->sold, STOCK);
        assert_true(item->sold > 0 && item->locked > 0);
    }
    assert_int_equal(gate->applied_event, shop.event);
}

static void many_loops_buy_and_every_counter_is_exact(void **state)
{
    (void)state;
    pthread_t buyers[BUYERS];
    pthread_t journal;
    pthread_t event_sink_thread;
    memset(&shop, 0, sizeof(shop));
    ram_disk_init(&shop.ram);
    open_shop();
    start_sale();
    assert_int_equal(pthread_create(&journal, NULL, journal_thread, shop.journal), 0);
    assert_int_equal(pthread_create(&event_sink_thread, NULL, event_thread, NULL), 0);
    for (uintptr_t i = 0; i < BUYERS; i++) {
        assert_int_equal(pthread_create(&buyers[i], NULL, buyer_thread, (void *)i), 0);
    }
    for (int i = 0; i < BUYERS; i++) {
        pthread_join(buyers[i], NULL);
    }
    atomic_store(&shop.over, true);
    pthread_join(event_sink_thread, NULL);
    journal_stop(shop.journal);
    pthread_join(journal, NULL);
    assert_int_equal(journal_durable_lsn(shop.journal), journal_last_lsn(shop.journal));
    assert_exact();

    struct gate_box before = shop.box;
    embedded_gate_free(shop.engine);
    journal_free(shop.journal);
    struct prng prng = prng_of(1);
    ram_disk_crash(&shop.ram, RAM_DROP, &prng);
    open_shop();
    assert_true(gate_same(&before.gate, &shop.box.gate));
    assert_exact();
    gate_box_done(&before);
    embedded_gate_free(shop.engine);
    journal_free(shop.journal);
    gate_box_done(&shop.box);
    ram_disk_done(&shop.ram);
}

/* ---- decided and journalled as one ---- */

static struct {
    struct order_id id;
    uint8_t version;  /* of the order, once it has changed */
    atomic_bool held; /* nothing can be appended */
    atomic_uint looks;
    atomic_bool early; /* the change was seen meanwhile */
    atomic_bool over;
} change;

static void *change_thread(void *context)
{
    (void)context;
    if (change.version == 1) {
        (void)buy(0, change.id, 7, 5);
    } else {
        apply((struct gate_command){.kind = GATE_CONFIRM, .id = change.id, .time_ms = 9000});
    }
    return NULL;
}

static void *look_thread(void *context)
{
    (void)context;
    while (!atomic_load(&change.over)) {
        struct gate_request look = {.kind = GATE_REQUEST_ORDER, .loop = 1, .id = change.id};
        CHECK(gate_submit(embedded_gate_port(shop.engine), &look) == GATE_ANSWERED);
        bool changed = look.has_order && look.order.version == change.version;
        if (changed && atomic_load(&change.held)) {
            atomic_store(&change.early, true);
        }
        (void)atomic_fetch_add(&change.looks, 1);
    }
    return NULL;
}

/* Until the looks stand still: they wait for the engine, which waits for the journal. */
static void wait_for_the_engine(void)
{
    uint32_t looks = atomic_load(&change.looks);
    for (int still = 0; still < 2000 && !atomic_load(&change.early); still++) {
        uint32_t now = atomic_load(&change.looks);
        still = now == looks ? still : 0;
        looks = now;
        (void)sched_yield();
    }
}

/* While a change is not in the journal, nobody sees it. What is decided next would stand before it
 * there, and a replay would decide in that order. */
static void a_change_is_seen_once_it_is_journalled(void **state)
{
    (void)state;
    memset(&shop, 0, sizeof(shop));
    ram_disk_init(&shop.ram);
    open_shop();
    start_sale();
    change.id = order_id_once(5, 7, 0);
    for (uint8_t version = 1; version <= 2; version++) {
        pthread_t changes;
        pthread_t looks;
        change.version = version;
        atomic_store(&change.over, false);
        atomic_store(&change.held, true);
        assert_int_equal(pthread_mutex_lock(&shop.journal->lock), 0);
        assert_int_equal(pthread_create(&looks, NULL, look_thread, NULL), 0);
        assert_int_equal(pthread_create(&changes, NULL, change_thread, NULL), 0);
        wait_for_the_engine();
        atomic_store(&change.held, false);
        assert_int_equal(pthread_mutex_unlock(&shop.journal->lock), 0);
        assert_int_equal(pthread_join(changes, NULL), 0);
        atomic_store(&change.over, true);
        assert_int_equal(pthread_join(looks, NULL), 0);
        assert_false(atomic_load(&change.early));
    }
    embedded_gate_free(shop.engine);
    journal_free(shop.journal);
    gate_box_done(&shop.box);
    ram_disk_done(&shop.ram);
}

/* ---- the whole way of an order ---- */

#define ORDERS_PER_LOOP 40

static struct ledger_writer_world world;

static void *ledger_writer_thread(void *context)
{
    ledger_writer_run(context);
    return NULL;
}

/* Posts it and waits for it, as a loop would, by turns. */
static void do_op(uint32_t loop, struct ledger_writer_op *op)
{
    op->loop = loop;
    ledger_writer_post(world.ledger_writer, op);
    while (ledger_writer_collect(world.ledger_writer, loop) != op) {
        sched_yield();
    }
    while (journal_durable_lsn(world.journal) < op->lsn) {
        sched_yield();
    }
}

static struct order_view wait_for_booking(uint32_t loop, struct order_id id)
{
    for (;;) {
        struct gate_request look = {
            .kind = GATE_REQUEST_ORDER, .loop = loop, .id = id, .watch = true};
        CHECK(gate_submit(embedded_gate_port(world.engine), &look) == GATE_ANSWERED &&
              look.has_order);
        if (look.order.state != ORDER_QUEUED && look.lsn <= journal_durable_lsn(world.journal)) {
            return look.order;
        }
        sched_yield();
    }
}

static void *loop_thread(void *context)
{
    uint32_t loop = (uint32_t)(uintptr_t)context;
    for (uint64_t i = 0; i < ORDERS_PER_LOOP; i++) {
        uint64_t user = 1 + i * LEDGER_WRITER_LOOPS + loop;
        struct gate_request bought = ledger_writer_world_buy(&world, user, LEDGER_WRITER_FREE, 1);
        CHECK(bought.refusal == REFUSAL_NONE && !bought.existed);
        CHECK(wait_for_booking(loop, bought.order.id).state == ORDER_LOCKED);
        struct ledger_writer_op op = {.op = {.kind = i % 2 == 0 ? LEDGER_PAY : LEDGER_CANCEL,
                                             .id = bought.order.id,
                                             .amount_cents = LEDGER_WRITER_CENTS}};
        op.op.key[0] = (char)('A' + loop);
        op.op.key[1] = (char)('0' + i);
        do_op(loop, &op);
        CHECK(op.error == 0 && op.op.refusal == REFUSAL_NONE);
        CHECK(wait_for_booking(loop, bought.order.id).state ==
              (i % 2 == 0 ? ORDER_PAID : ORDER_CANCELLED));
    }
    return NULL;
}

static void orders_go_all_the_way_with_the_ledger_writer_on_its_thread(void **state)
{
    (void)state;
    pthread_t loops[LEDGER_WRITER_LOOPS];
    pthread_t journal;
    pthread_t ledger_writer;
    ledger_writer_world_init(&world);
    assert_int_equal(ledger_writer_world_up(&world), 0);
    ledger_writer_world_open_sale(&world);
    assert_int_equal(pthread_create(&journal, NULL, journal_thread, world.journal), 0);
    assert_int_equal(
        pthread_create(&ledger_writer, NULL, ledger_writer_thread, world.ledger_writer), 0);
    for (uintptr_t i = 0; i < LEDGER_WRITER_LOOPS; i++) {
        assert_int_equal(pthread_create(&loops[i], NULL, loop_thread, (void *)i), 0);
    }
    for (int i = 0; i < LEDGER_WRITER_LOOPS; i++) {
        pthread_join(loops[i], NULL);
    }
    /* One more that is durable when the ledger writer is told to stop: it books it before it goes. */
    struct gate_request last = ledger_writer_world_buy(&world, 1000, LEDGER_WRITER_FREE, 1);
    while (journal_durable_lsn(world.journal) < last.lsn) {
        sched_yield();
    }
    ledger_writer_stop(world.ledger_writer);
    pthread_join(ledger_writer, NULL);
    journal_stop(world.journal);
    pthread_join(journal, NULL);
    assert_non_null(memory_ledger_order(&world.ledger, last.order.id));
    (void)ledger_writer_world_settle(&world);
    ledger_writer_world_agree(&world);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_PAID),
                     LEDGER_WRITER_LOOPS * ORDERS_PER_LOOP / 2);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_CANCELLED),
                     LEDGER_WRITER_LOOPS * ORDERS_PER_LOOP / 2);
    ledger_writer_world_done(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_loops_buy_and_every_counter_is_exact),
        cmocka_unit_test(a_change_is_seen_once_it_is_journalled),
        cmocka_unit_test(orders_go_all_the_way_with_the_ledger_writer_on_its_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
