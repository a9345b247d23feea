/* The gate subscriber: news to every loop, and the numbers of all segments on the stock cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "cluster_world.h"
#include "distributed/gate_subscriber.h"
#include "ram_disk.h"

#define LOOPS 2
#define SEGMENTS 3

static struct cluster_world world;
static struct ram_disk ram;
static struct journal *journal;
static struct spool *spool;
static struct waker wakers[LOOPS];
static struct loop_notices *notices;
static struct stock_cache *stock_cache;
static struct catalog *catalog;
static struct segment_table segment_table;
static struct gate_port *gate;
static struct segments *ear;
static struct gate_subscriber *gate_subscriber;
static uint64_t asked;
static const struct gate_ops *gate_ops;

/* Asks are counted, and time passes while they are under way. */
static enum gate_submitted count_submit(struct gate_port *port, struct gate_request *request)
{
    asked++;
    return gate_ops->submit(port, request);
}

static int64_t pass_and_flush(struct gate_port *port, uint32_t loop)
{
    int64_t next_us = gate_ops->flush(port, loop);
    int64_t now_us = clock_boot_us(&world.clock.port);
    if (next_us != INT64_MAX && next_us > now_us) {
        fake_clock_pass_us(&world.clock, (next_us - now_us + 1) / 2); /* not at once */
    }
    return next_us;
}

static void put_sale_of(uint64_t sale, const uint64_t *items, uint32_t count, uint32_t homes,
                        uint64_t total)
{
    struct sale_row *row = calloc(1, sizeof(*row));
    assert_non_null(row);
    *row = (struct sale_row){.id = sale,
                             .state = homes > 0 ? SALE_OPEN : SALE_DRAFT,
                             .homes = homes,
                             .items_count = count,
                             .items = calloc(count, sizeof(struct item_row))};
    for (uint32_t i = 0; i < count; i++) {
        row->items[i].id = items[i];
        row->items[i].total = total;
    }
    assert_int_equal(catalog_put(catalog, row), 0);
}

static void put_sale(uint64_t sale, const uint64_t *items, uint32_t count, uint32_t homes)
{
    put_sale_of(sale, items, count, homes, 0);
}

static uint32_t changes; /* times that the sales were said to have changed */

static void sales_changed(void *context)
{
    ++*(uint32_t *)context;
}

static void wake_nobody(void *context)
{
    (void)context;
}

static void set_up_world(bool late)
{
    static struct gate_ops counting;
    static const uint64_t items[] = {CLUSTER_ONCE, CLUSTER_FREE};
    struct journal_options options = {.file_bytes = 64ULL * JOURNAL_SECTOR,
                                      .buffer_bytes = 32U * JOURNAL_SECTOR};
    struct journal_found found;
    cluster_init(&world, (struct cluster_options){.segments = SEGMENTS, .late = late});
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        cluster_fill(&world, s, 1, 0);
    }
    ram_disk_init(&ram);
    assert_int_equal(spool_new(100, &spool), 0);
    options.kind = JOURNAL_LIST;
    assert_int_equal(journal_open(&ram.disk, options, spool_content(spool), &journal, &found), 0);
    assert_int_equal(spool_begin(spool, journal), 0);
    memset(&segment_table, 0, sizeof(segment_table));
    gate = sim_segments_front(world.sim, LOOPS + 1);
    gate_ops = gate->ops;
    counting = *gate_ops;
    counting.submit = count_submit;
    counting.flush = pass_and_flush;
    gate->ops = &counting;
    cluster_place(&world, &segment_table, gate);
    for (uint32_t i = 0; i < LOOPS; i++) {
        waker_init(&wakers[i], wake_nobody, NULL);
    }
    assert_int_equal(loop_notices_new(wakers, LOOPS, &notices), 0);
    stock_cache = stock_cache_new();
    catalog = catalog_new();
    put_sale(CLUSTER_SALE, items, 2, SEGMENTS);
    ear = sim_segments_worker(world.sim, 1);
    struct gate_subscriber_parts parts = {.segments = ear,
                                          .gate = gate,
                                          .connection_set = LOOPS,
                                          .notices = notices,
                                          .segment_table = &segment_table,
                                          .stock_cache = stock_cache,
                                          .spool = spool,
                                          .catalog = catalog,
                                          .clock = &world.clock.port,
                                          .sales_changed = sales_changed,
                                          .context = &changes};
    changes = 0;
    assert_int_equal(gate_subscriber_new(&parts, &gate_subscriber), 0);
    asked = 0;
}

static int set_up(void **state)
{
    (void)state;
    set_up_world(false);
    return 0;
}

static int set_up_late(void **state)
{
    (void)state;
    set_up_world(true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gate_subscriber_free(gate_subscriber);
    loop_notices_free(notices);
    sim_segments_worker_free(ear);
    sim_segments_front_free(gate);
    stock_cache_free(stock_cache);
    catalog_free(catalog);
    journal_free(journal);
    spool_free(spool);
    ram_disk_done(&ram);
    cluster_done(&world);
    return 0;
}

static void turn(void)
{
    gate_subscriber_iterate(gate_subscriber, 0);
}

/* The first turn: "whatever was said before it listened" is lost, and told so. */
static void begin(void)
{
    struct order_view view;
    bool all = false;
    turn();
    for (uint32_t loop = 0; loop < LOOPS; loop++) {
        assert_int_equal(order_notices_take(loop_notices_port(notices), loop, &view, 1, &all), 0);
        assert_true(all);
    }
    atomic_store(&segment_table.doubts, 0);
}

static void apply(uint32_t segment, struct gate_command command)
{
    struct segment_state state = cluster_look(&world, segment);
    struct segment_call call = {
        .segment = segment, .epoch = state.epoch, .after = state.event, .command = command};
    call.command.event = state.event + 1;
    segments_apply(world.hands, &call, 1);
    assert_int_equal(call.outcome, SEGMENT_DONE);
    assert_int_equal(call.verdict, VERDICT_DONE);
}

static void restock(uint32_t segment, uint64_t units)
{
    apply(segment,
          (struct gate_command){.kind = GATE_RESTOCK, .item = CLUSTER_FREE, .amount = units});
}

static struct stock_cache_item on_stock_cache(uint64_t item)
{
    struct stock_cache_item found;
    assert_true(stock_cache_find(stock_cache, item, &found));
    return found;
}

/* ---- news ---- */

static void an_orders_change_reaches_every_loop_that_watches_it(void **state)
{
    (void)state;
    struct spool_entry entry;
    uint64_t lsn = 0;
    begin();
    struct gate_command buy = cluster_buy(&world, 1, 7);
    struct gate_command other = cluster_buy(&world, 2, 8);
    struct gate_command left = cluster_buy(&world, 2, 9);
    assert_int_equal(spool_accept(spool, &buy, 1, &lsn), 0);
    assert_int_equal(spool_accept(spool, &other, 1, &lsn), 0);
    turn(); /* a buy is no news */
    for (uint32_t loop = 0; loop < LOOPS; loop++) {
        order_notices_watch(loop_notices_port(notices), loop, buy.id);
        order_notices_watch(loop_notices_port(notices), loop, buy.id);
        order_notices_watch(loop_notices_port(notices), loop, left.id);
        order_notices_unwatch(loop_notices_port(notices), loop, left.id);
        order_notices_unwatch(loop_notices_port(notices), loop, buy.id);
    }
    apply(1, (struct gate_command){.kind = GATE_CONFIRM, .id = buy.id, .time_ms = CLUSTER_NOW + 9});
    apply(2,
          (struct gate_command){.kind = GATE_CONFIRM, .id = left.id, .time_ms = CLUSTER_NOW + 9});
    turn();
    for (uint32_t loop = 0; loop < LOOPS; loop++) {
        struct order_view views[4];
        bool all = true;
        assert_int_equal(order_notices_take(loop_notices_port(notices), loop, views, 4, &all), 1);
        assert_false(all);
        assert_true(order_id_equal(views[0].id, buy.id));
        assert_int_equal(views[0].state, ORDER_LOCKED);
        assert_int_equal(views[0].pay_by_ms, CLUSTER_NOW + 9);
        assert_int_equal(order_notices_take(loop_notices_port(notices), loop, views, 4, &all), 0);
    }
    assert_false(spool_find(spool, buy.id, &entry)); /* the ledger has said it first */
    assert_true(spool_find(spool, other.id, &entry));
    /* A notice of an order that still waits lets go of nothing. */
    struct segment_news news = {.kind = NEWS_ORDER, .order = {.id = other.id, .version = 1}};
    segments_tell(world.hands, &news);
    turn();
    assert_true(spool_find(spool, other.id, &entry));
}

static void lost_news_make_everyone_look(void **state)
{
    (void)state;
    begin();
    sim_segments_lose_news(world.sim);
    turn();
    for (uint32_t loop = 0; loop < LOOPS; loop++) {
        struct order_view view;
        bool all = false;
        assert_int_equal(order_notices_take(loop_notices_port(notices), loop, &view, 1, &all), 0);
        assert_true(all);
        assert_int_equal(order_notices_take(loop_notices_port(notices), loop, &view, 1, &all), 0);
        assert_false(all);
    }
    assert_int_equal(atomic_load(&segment_table.doubts),
                     UINT64_MAX); /* epochs may have changed, too */
    assert_true(changes > 0);
}

static void news_of_an_epoch_raise_a_doubt(void **state)
{
    (void)state;
    begin();
    struct segment_news news = {.kind = NEWS_EPOCH, .segment = 2, .epoch = 5};
    segments_tell(world.hands, &news);
    news.segment = 63; /* of a larger gate: not ours */
    segments_tell(world.hands, &news);
    turn();
    assert_int_equal(atomic_load(&segment_table.doubts), 1U << 2);
    assert_int_equal(segment_table_epoch(&segment_table, 2),
                     1); /* a hint: promise resolver looks */
}

static void news_of_a_sale_are_passed_on(void **state)
{
    (void)state;
    begin();
    fake_clock_pass_ms(&world.clock, 100);
    uint32_t before = changes;
    uint64_t looks = asked;
    apply(1, (struct gate_command){.kind = GATE_PAUSE, .sale = CLUSTER_SALE});
    turn(); /* hears of it */
    turn(); /* and looks */
    assert_int_equal(changes, before + 1);
    assert_int_equal(asked, looks + 2ULL * SEGMENTS);
    sim_segments_lose_news(world.sim); /* one of a sale may have been among them */
    turn();
    assert_int_equal(changes, before + 2);
}

/* ---- the stock cache ---- */

static void numbers_are_sums_over_all_segments(void **state)
{
    (void)state;
    begin();
    struct stock_cache_item item = on_stock_cache(CLUSTER_FREE);
    assert_int_equal(item.view.total, SEGMENTS * CLUSTER_UNITS);
    assert_int_equal(item.view.available, SEGMENTS * CLUSTER_UNITS);
    assert_int_equal(item.view.sale, CLUSTER_SALE);
    assert_int_equal(item.view.sale_state, SALE_OPEN);
    assert_int_equal(item.view.starts_at_ms, CLUSTER_NOW);
    assert_int_equal(item.view.ends_at_ms, CLUSTER_NOW + CLUSTER_ENDS_MS);
    assert_int_equal(item.view.limit_per_user, 0);
    assert_int_equal(item.homes, SEGMENTS);
    assert_int_equal(on_stock_cache(CLUSTER_ONCE).view.limit_per_user, 1);
    struct gate_command buy = cluster_buy(&world, 0, 7);
    (void)cluster_buy(&world, 1, 8);
    restock(2, 5);
    apply(0, (struct gate_command){.kind = GATE_CONFIRM, .id = buy.id, .time_ms = CLUSTER_NOW});
    apply(0, (struct gate_command){.kind = GATE_PAY, .id = buy.id});
    fake_clock_pass_ms(&world.clock, 250);
    turn();
    item = on_stock_cache(CLUSTER_FREE);
    assert_int_equal(item.view.total, SEGMENTS * CLUSTER_UNITS + 5);
    assert_int_equal(item.view.available, SEGMENTS * CLUSTER_UNITS + 3);
    assert_int_equal(item.view.locked, 1);
    assert_int_equal(item.view.sold, 1);
    assert_int_equal(item.view.version, 2);
}

static void answers_that_come_later_are_waited_for(void **state)
{
    (void)state;
    assert_true(world.delay_us > 0);
    begin();
    assert_int_equal(asked, 2 * SEGMENTS);
    assert_int_equal(on_stock_cache(CLUSTER_FREE).view.total, SEGMENTS * CLUSTER_UNITS);
    assert_int_equal(on_stock_cache(CLUSTER_ONCE).view.total, SEGMENTS * CLUSTER_UNITS);
}

static void it_looks_several_times_a_second_and_sooner_after_news(void **state)
{
    (void)state;
    begin();
    asked = 0;
    for (int i = 0; i < 1000; i++) {
        fake_clock_pass_ms(&world.clock, 1);
        turn();
    }
    assert_int_equal(asked, 4 * 2 * SEGMENTS);
    turn(); /* a look has just been */
    restock(0, 1);
    turn(); /* hears of it */
    asked = 0;
    for (int i = 0; i < 50 && asked == 0; i++) {
        fake_clock_pass_ms(&world.clock, 1);
        turn();
        assert_true(i < 26);
    }
    assert_int_equal(on_stock_cache(CLUSTER_FREE).view.total, SEGMENTS * CLUSTER_UNITS + 1);
    /* In a rush news never end: it still asks at most so often. */
    asked = 0;
    for (int i = 0; i < 1000; i++) {
        restock(0, 1);
        fake_clock_pass_ms(&world.clock, 1);
        turn();
    }
    assert_in_range(asked, 20 * 2 * SEGMENTS, 41 * 2 * SEGMENTS);
}

/* What the ledger has given to the segments and none of them has. */
static void units_on_their_way_are_not_sold_out(void **state)
{
    (void)state;
    static const uint64_t items[] = {CLUSTER_ONCE, CLUSTER_FREE};
    put_sale_of(CLUSTER_SALE, items, 2, SEGMENTS, SEGMENTS * CLUSTER_UNITS);
    begin();
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        for (uint32_t i = 0; i < CLUSTER_UNITS; i++) {
            (void)cluster_buy(&world, s, 7);
        }
    }
    fake_clock_pass_ms(&world.clock, 250);
    turn();
    assert_true(on_stock_cache(CLUSTER_FREE).sold_out);
    assert_int_equal(on_stock_cache(CLUSTER_FREE).most, 0);
    put_sale_of(CLUSTER_SALE, items, 2, SEGMENTS, SEGMENTS * CLUSTER_UNITS + 3);
    fake_clock_pass_ms(&world.clock, 250);
    turn();
    struct stock_cache_item item = on_stock_cache(CLUSTER_FREE);
    assert_false(item.sold_out);
    assert_int_equal(item.view.available, 3);
    assert_int_equal(item.view.total, SEGMENTS * CLUSTER_UNITS + 3);
    restock(1, 2); /* arrived, and the catalog is older */
    restock(2, 5);
    fake_clock_pass_ms(&world.clock, 250);
    turn();
    item = on_stock_cache(CLUSTER_FREE);
    assert_int_equal(item.view.available, 7);
    assert_int_equal(item.richest, 2);
    assert_int_equal(item.most, 5);
    assert_int_equal(item.next, 1);
    assert_int_equal(item.next_most, 2);
}

static void a_silent_segment_keeps_the_old_numbers(void **state)
{
    (void)state;
    begin();
    (void)cluster_buy(&world, 0, 7);
    sim_segments_away(world.sim, 1, true);
    fake_clock_pass_ms(&world.clock, 4000);
    turn();
    assert_int_equal(on_stock_cache(CLUSTER_FREE).view.available, SEGMENTS * CLUSTER_UNITS);
    assert_int_equal(on_stock_cache(CLUSTER_FREE).view.version, 1);
    fake_clock_pass_ms(&world.clock, 1000);
    turn();
    (void)on_stock_cache(CLUSTER_ONCE); /* they stay where they are */
    sim_segments_away(world.sim, 1, false);
    fake_clock_pass_ms(&world.clock, 250);
    turn();
    assert_int_equal(on_stock_cache(CLUSTER_FREE).view.available, SEGMENTS * CLUSTER_UNITS - 1);
}

/* A segment that was added since the sale was warmed may be away, or not know the item yet: what the
 * ledger gave it is available. */
static void a_silent_segment_that_is_nobodys_home(void **state)
{
    (void)state;
    static const uint64_t items[] = {CLUSTER_ONCE, CLUSTER_FREE};
    put_sale_of(CLUSTER_SALE, items, 2, SEGMENTS - 1, SEGMENTS * CLUSTER_UNITS);
    begin();
    assert_int_equal(on_stock_cache(CLUSTER_FREE).view.available, SEGMENTS * CLUSTER_UNITS);
    for (uint32_t s = 0; s < SEGMENTS - 1; s++) {
        for (uint32_t i = 0; i < CLUSTER_UNITS; i++) {
            (void)cluster_buy(&world, s, 7);
        }
    }
    sim_segments_away(world.sim, SEGMENTS - 1, true);
    fake_clock_pass_ms(&world.clock, 6000);
    turn();
    struct stock_cache_item item = on_stock_cache(CLUSTER_FREE);
    assert_int_equal(item.view.available, CLUSTER_UNITS);
    assert_int_equal(item.view.total, SEGMENTS * CLUSTER_UNITS);
    assert_int_equal(item.view.locked, (SEGMENTS - 1) * CLUSTER_UNITS);
    assert_false(item.sold_out);
    assert_int_equal(item.most, 0);
    sim_segments_away(world.sim, SEGMENTS - 1, false);
    cluster_bare(&world, SEGMENTS - 1, 2); /* it knows no item */
    cluster_place(&world, &segment_table, gate);
    put_sale_of(CLUSTER_SALE, items, 2, SEGMENTS - 1, (SEGMENTS - 1) * CLUSTER_UNITS);
    fake_clock_pass_ms(&world.clock, 250);
    turn();
    assert_true(on_stock_cache(CLUSTER_FREE).sold_out);
}

/* Segments have more than the catalog knows of: somebody restocked, and perhaps a segment, too, that
 * this process does not ask. */
static void a_restock_makes_it_read_the_sales(void **state)
{
    (void)state;
    static const uint64_t items[] = {CLUSTER_ONCE, CLUSTER_FREE};
    put_sale_of(CLUSTER_SALE, items, 2, SEGMENTS, SEGMENTS * CLUSTER_UNITS);
    begin();
    uint32_t before = changes;
    restock(1, 2);
    fake_clock_pass_ms(&world.clock, 250);
    turn();
    assert_int_equal(changes, before + 1);
    put_sale_of(CLUSTER_SALE, items, 2, SEGMENTS, SEGMENTS * CLUSTER_UNITS + 3);
    fake_clock_pass_ms(&world.clock, 250);
    turn();
    assert_int_equal(changes, before + 1);
    assert_int_equal(on_stock_cache(CLUSTER_FREE).view.total, SEGMENTS * CLUSTER_UNITS + 3);
}

static void an_item_that_no_segment_has_yet_is_not_shown(void **state)
{
    (void)state;
    static const uint64_t items[] = {21};
    struct stock_cache_item found;
    put_sale(2, items, 1, SEGMENTS); /* warmed in the ledger, on its way to the segments */
    begin();
    assert_false(stock_cache_find(stock_cache, 21, &found));
    (void)on_stock_cache(CLUSTER_FREE);
}

static void what_left_the_board_is_swept(void **state)
{
    (void)state;
    static const uint64_t drafts[] = {21};
    struct stock_cache_item found;
    put_sale(2, drafts, 1, 0); /* a draft has no homes */
    begin();
    assert_int_equal(asked, 2 * SEGMENTS);
    assert_false(stock_cache_find(stock_cache, 21, &found));
    static const uint64_t one[] = {CLUSTER_FREE};
    put_sale(CLUSTER_SALE, one, 1, SEGMENTS);
    fake_clock_pass_ms(&world.clock, 250);
    turn();
    assert_false(stock_cache_find(stock_cache, CLUSTER_ONCE, &found));
    (void)on_stock_cache(CLUSTER_FREE);
    catalog_remove(catalog, CLUSTER_SALE);
    fake_clock_pass_ms(&world.clock, 250);
    turn();
    assert_false(stock_cache_find(stock_cache, CLUSTER_FREE, &found));
}

/* More items than are asked for at one time, in sales of different sizes. */
static void many_items_are_asked_for_in_pieces(void **state)
{
    (void)state;
    enum { SALES = 9, ITEMS = 97 };
    uint64_t items[ITEMS];
    for (uint64_t sale = 2; sale < 2 + SALES; sale++) {
        for (uint64_t i = 0; i < ITEMS; i++) {
            items[i] = sale * 1000 + i;
        }
        put_sale(sale, items, sale % 3 == 0 ? 1 : ITEMS, 1 + (uint32_t)sale % SEGMENTS);
    }
    begin();
    uint64_t want = 2 + 6 * ITEMS + 3;
    assert_int_equal(asked, want * SEGMENTS);
    asked = 0;
    for (int i = 0; i < 10; i++) { /* each of them once in a look, whatever the piece's end */
        fake_clock_pass_ms(&world.clock, 250);
        turn();
    }
    assert_int_equal(asked, 10 * want * SEGMENTS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_orders_change_reaches_every_loop_that_watches_it),
        TEST(lost_news_make_everyone_look),
        TEST(news_of_an_epoch_raise_a_doubt),
        TEST(news_of_a_sale_are_passed_on),
        TEST(numbers_are_sums_over_all_segments),
        cmocka_unit_test_setup_teardown(answers_that_come_later_are_waited_for, set_up_late,
                                        tear_down),
        TEST(it_looks_several_times_a_second_and_sooner_after_news),
        TEST(units_on_their_way_are_not_sold_out),
        TEST(a_silent_segment_keeps_the_old_numbers),
        TEST(a_silent_segment_that_is_nobodys_home),
        TEST(a_restock_makes_it_read_the_sales),
        TEST(an_item_that_no_segment_has_yet_is_not_shown),
        TEST(what_left_the_board_is_swept),
        TEST(many_items_are_asked_for_in_pieces),
    };
    return cmocka_run_group_tests_name("gate subscriber", tests, NULL, NULL);
}
