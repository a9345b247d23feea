/* The picture of a segment is exact as of its event, whatever is written while it is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/err.h"
#include "cluster_model.h"
#include "distributed/segment_snapshot.h"

#define SEGMENTS 2
#define SEGMENT 1
#define USERS 40

struct reader {
    struct cluster_world world;
    struct prng prng;
    uint32_t often; /* of 100: how much is written before each read */
    uint64_t user;
};

/* A decision is booked, or fails; the gate is not asked. */
static void book_any(struct reader *reader, enum ledger_kind kind)
{
    uint64_t item = CLUSTER_THREE + prng_below(&reader->prng, 2);
    uint32_t segment = (uint32_t)prng_below(&reader->prng, SEGMENTS);
    /* Ids before and behind the page that is being read. */
    int64_t at_ms = CLUSTER_NOW + (int64_t)prng_below(&reader->prng, 1000);
    struct ledger_op op = {
        .kind = kind,
        .segment = segment,
        .epoch = 1,
        .lsn = 1,
        .reason = REFUSAL_DEGRADED,
        .command = {.kind = GATE_RESERVE,
                    .now_ms = at_ms,
                    .id = order_id_fresh(item, at_ms, (uint32_t)++reader->user << 6),
                    .user = 1 + prng_below(&reader->prng, USERS),
                    .item = item,
                    .qty = 1}};
    (void)cluster_run(&reader->world, &op);
}

/* The order that was made last moves on already. */
static void pay_newest(struct reader *reader)
{
    const struct memory_ledger *ledger = &reader->world.ledger;
    for (size_t i = ledger->events_count; i > 0; i--) {
        if (ledger->events[i - 1].kind == EVENT_ORDER_LOCKED) {
            struct ledger_op op = {
                .kind = LEDGER_PAY,
                .id = ledger->events[i - 1].id,
                .amount_cents =
                    memory_ledger_order(ledger, ledger->events[i - 1].id)->amount_cents};
            order_id_text(op.id, op.key);
            (void)cluster_run(&reader->world, &op);
            return;
        }
    }
}

/* Late or not, where the sale bars; else with a cooling time, mostly. */
static void cancel_any(struct reader *reader)
{
    const struct memory_ledger *ledger = &reader->world.ledger;
    const struct order_row *row = &ledger->orders[prng_below(&reader->prng, ledger->orders_count)];
    struct ledger_op op = {.kind = LEDGER_CANCEL,
                           .id = row->id,
                           .late_ms = (int64_t)prng_below(&reader->prng, 2) * 10000000,
                           .cooling_ms = (int64_t)prng_below(&reader->prng, 5) * 1000};
    (void)cluster_run(&reader->world, &op);
}

static void others_write(struct model_process *process)
{
    struct reader *reader = process->context;
    while (prng_below(&reader->prng, 100) < reader->often) {
        switch (prng_below(&reader->prng, 6)) {
        case 5:
            cancel_any(reader);
            break;
        case 0:
            book_any(reader, LEDGER_BOOK);
            break;
        case 1:
            book_any(reader, LEDGER_FAIL);
            break;
        case 2:
            pay_newest(reader);
            break;
        default:
            model_stir(&reader->world);
            break;
        }
    }
}

/* The state of an order as of an event; ORDER_QUEUED: it had no row. */
static enum order_state state_at(const struct memory_ledger *ledger, struct order_id id,
                                 uint64_t event)
{
    enum order_state state = ORDER_QUEUED;
    for (uint64_t i = 0; i < event; i++) {
        if (!order_id_equal(ledger->events[i].id, id)) {
            continue;
        }
        switch (ledger->events[i].kind) {
        case EVENT_ORDER_LOCKED:
            state = ORDER_LOCKED;
            break;
        case EVENT_ORDER_FAILED:
            state = ORDER_FAILED;
            break;
        case EVENT_ORDER_PAID:
            state = ORDER_PAID;
            break;
        default:
            state = ORDER_CANCELLED;
            break;
        }
    }
    return state;
}

/* What its cancellation has done to its buyer, if that was before the event. */
static struct ledger_event cancelled_at(const struct memory_ledger *ledger, struct order_id id,
                                        uint64_t event)
{
    for (uint64_t i = 0; i < event; i++) {
        if (ledger->events[i].kind == EVENT_ORDER_CANCELLED &&
            order_id_equal(ledger->events[i].id, id)) {
            return ledger->events[i];
        }
    }
    return (struct ledger_event){0};
}

static void check_orders(const struct memory_ledger *ledger,
                         const struct segment_snapshot *snapshot)
{
    size_t expected = 0;
    for (size_t i = 0; i < ledger->orders_count; i++) {
        const struct order_row *row = &ledger->orders[i];
        enum order_state state = state_at(ledger, row->id, snapshot->event);
        const struct segment_snapshot_order *order = segment_snapshot_order(snapshot, row->id);
        bool belongs = row->segment == SEGMENT && state != ORDER_QUEUED;
        expected += belongs;
        CHECK((order != NULL) == belongs);
        CHECK(order == NULL ||
              (order->state == state && order->user == row->user &&
               order->created_at_ms == row->created_at_ms && order->pay_by_ms == row->pay_by_ms));
        struct ledger_event cancelled = cancelled_at(ledger, row->id, snapshot->event);
        CHECK(order == NULL || order->cooling_until_ms == cancelled.a);
        CHECK(order == NULL || state != ORDER_CANCELLED || order->reason == cancelled.reason);
    }
    CHECK(snapshot->orders_count == expected);
}

static void check_items(const struct memory_ledger *ledger, const struct segment_snapshot *snapshot)
{
    for (uint64_t id = CLUSTER_ONCE; id <= CLUSTER_FREE; id++) {
        const struct segment_snapshot_item *item = segment_snapshot_item(snapshot, id);
        uint64_t amount = 0;
        uint64_t locked = 0;
        uint64_t sold = 0;
        for (uint64_t i = 0; i < snapshot->event; i++) {
            const struct ledger_event *event = &ledger->events[i];
            if (event->item == id && event->segment == SEGMENT &&
                (event->kind == EVENT_ITEM_LOADED || event->kind == EVENT_ITEM_RESTOCKED)) {
                amount += (uint64_t)event->a;
            }
        }
        for (size_t i = 0; i < snapshot->orders_count; i++) {
            const struct segment_snapshot_order *order = &snapshot->orders[i];
            locked += order->item == id && order->state == ORDER_LOCKED ? order->qty : 0;
            sold += order->item == id && order->state == ORDER_PAID ? order->qty : 0;
        }
        CHECK(item != NULL && item->amount == amount);
        CHECK(item->locked == locked && item->sold == sold);
        CHECK(item->unsure || (item->noted_locked == locked && item->noted_sold == sold));
    }
}

/* Barred if an order of his says so, else until the latest time that one says. */
static void check_wait(const struct segment_snapshot *snapshot,
                       const struct segment_snapshot_buyer *buyer)
{
    bool barred = false;
    int64_t until_ms = 0;
    for (size_t i = 0; i < snapshot->orders_count; i++) {
        const struct segment_snapshot_order *order = &snapshot->orders[i];
        if (order->item == buyer->item && order->user == buyer->user) {
            barred = barred || (order->state == ORDER_CANCELLED && order->reason == REFUSAL_BARRED);
            until_ms = order->cooling_until_ms > until_ms ? order->cooling_until_ms : until_ms;
        }
    }
    CHECK(buyer->barred == barred && buyer->cooling_until_ms == (barred ? 0 : until_ms));
}

static void check_buyers(const struct segment_snapshot *snapshot)
{
    uint64_t held = 0;
    uint64_t ended = 0;
    uint64_t alive = 0;
    uint64_t over = 0;
    for (size_t i = 0; i < snapshot->buyers_count; i++) {
        held += snapshot->buyers[i].held;
        ended += snapshot->buyers[i].failed_attempts;
        check_wait(snapshot, &snapshot->buyers[i]);
        CHECK(i == 0 || snapshot->buyers[i - 1].item < snapshot->buyers[i].item ||
              snapshot->buyers[i - 1].user < snapshot->buyers[i].user);
    }
    for (size_t i = 0; i < snapshot->orders_count; i++) {
        bool lives = order_state_alive((enum order_state)snapshot->orders[i].state);
        alive += lives ? snapshot->orders[i].qty : 0;
        over += !lives && (snapshot->orders[i].state != ORDER_CANCELLED ||
                           snapshot->orders[i].reason != REFUSAL_BARRED);
    }
    CHECK(held == alive && ended == over);
}

static void check_sale(const struct memory_ledger *ledger, const struct segment_snapshot *snapshot)
{
    enum sale_state state = SALE_DRAFT;
    for (uint64_t i = 0; i < snapshot->event; i++) {
        enum ledger_event_kind kind = ledger->events[i].kind;
        state = kind == EVENT_SALE_OPENED   ? SALE_OPEN
                : kind == EVENT_SALE_PAUSED ? SALE_PAUSED
                                            : state;
    }
    CHECK(snapshot->sales_count == 1 && snapshot->sales[0].state == state);
}

static void test_pictures_are_exact(void **state)
{
    (void)state;
    uint64_t first = 1;
    uint64_t last = 400;
    model_seeds(&first, &last);
    uint64_t moved = 0;
    for (uint64_t seed = first; seed <= last; seed++) {
        model_seed(seed);
        struct reader reader = {.prng = prng_of(seed)};
        struct model_process process;
        struct segment_snapshot snapshot;
        model_init(&reader.world, (struct cluster_options){.segments = SEGMENTS, .seed = seed});
        reader.world.ledger.epochs[0] = reader.world.ledger.epochs[1] = 1;
        reader.world.ledger.sales[0]->bar_unpaid = seed % 2 == 0;
        for (uint64_t i = 0; i < 10 + seed; i++) { /* up to several pages */
            book_any(&reader, i % 7 == 0 ? LEDGER_FAIL : LEDGER_BOOK);
            if (i % 6 == 5) {
                cancel_any(&reader);
            }
            book_any(&reader, LEDGER_FAIL);
            book_any(&reader, LEDGER_FAIL);
        }
        reader.often = (uint32_t)(seed % 5) * 18;
        model_process_init(&process, &reader.world, 2);
        process.meanwhile = others_write;
        process.context = &reader;
        uint64_t before = reader.world.ledger.events_count;
        assert_int_equal(0, segment_snapshot_read(&process.ledger.port, SEGMENT, NULL, &snapshot));
        moved += reader.world.ledger.events_count - before;
        others_write(&process); /* and behind it */
        check_orders(&reader.world.ledger, &snapshot);
        check_items(&reader.world.ledger, &snapshot);
        check_buyers(&snapshot);
        check_sale(&reader.world.ledger, &snapshot);
        segment_snapshot_done(&snapshot);
        model_process_done(&process);
        model_done(&reader.world);
    }
    model_seed(0);
    assert_true(first == last || moved > 1000);
}

static void test_every_read_may_fail(void **state)
{
    (void)state;
    struct cluster_world world;
    struct model_process process;
    struct segment_snapshot snapshot;
    model_init(&world, (struct cluster_options){.segments = SEGMENTS, .seed = 1});
    model_process_init(&process, &world, 2);
    uint64_t reads = 1;
    for (;; reads++) {
        process.calls = 0;
        process.dies_at = reads;
        int error = segment_snapshot_read(&process.ledger.port, SEGMENT, NULL, &snapshot);
        if (error == 0) {
            break;
        }
        assert_int_equal(ERR_IO, error);
        assert_null(snapshot.items);
    }
    assert_in_range(reads, 6, 20);
    segment_snapshot_done(&snapshot);
    model_process_done(&process);
    model_done(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_pictures_are_exact, model_print_seed),
        cmocka_unit_test(test_every_read_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
