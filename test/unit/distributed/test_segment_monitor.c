/* The segment monitor: the status of each segment, the epochs that ledger and segments agree on, clocks,
 * numbers and refills. */
#include "segment_monitor_fixture.h"

#include <stdio.h>

#include "obs/log.h"

static int set_up(void **state)
{
    (void)state;
    set_up_monitor();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tear_down_monitor();
    return 0;
}

static void turn(void)
{
    int64_t now_ms = inside_time_ms(&process->time);
    cluster_let(process);
    segment_monitor_check(monitor, now_ms);
    segment_monitor_grant_refills(monitor, now_ms);
    segment_monitor_report(monitor);
    cluster_halt(process);
}

static void pass_and_turn(int64_t ms)
{
    cluster_pass_ms(&world, ms);
    turn();
}

static uint64_t epoch_of(uint32_t segment)
{
    return segment_table_epoch(&process->segment_table, segment);
}

/* What a front's request at the segment meets. */
static struct gate_request request(uint32_t segment)
{
    struct gate_request look = {
        .kind = GATE_REQUEST_ITEM, .item = CLUSTER_FREE, .segment = segment};
    assert_int_equal(gate_submit(process->gate, &look), GATE_ANSWERED);
    return look;
}

static bool answers(uint32_t segment)
{
    struct gate_request look = request(segment);
    return gate_request_done(&look);
}

/* As /metrics shows it; -1: it is left out. */
static int64_t number(enum metric metric)
{
    return (int64_t)metrics_sum(&process->metrics, metric) - 1;
}

/* ---- epochs ---- */

static void it_finds_the_epochs_that_all_agree_on(void **state)
{
    (void)state;
    assert_false(segment_monitor_is_ready(monitor));
    assert_int_equal(request(1).outcome, GATE_OUTCOME_UNKNOWN);
    turn();
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        assert_int_equal(epoch_of(s), 1);
        assert_true(answers(s)); /* asks carry it, too */
    }
    assert_true(segment_monitor_is_ready(monitor));
}

static void it_is_ready_when_every_epoch_is_known(void **state)
{
    (void)state;
    sim_segments_away(sim, 2, true);
    turn();
    assert_int_equal(epoch_of(0), 1);
    assert_int_equal(epoch_of(2), 0);
    assert_false(segment_monitor_is_ready(monitor));
    sim_segments_away(sim, 2, false);
    pass_and_turn(1000);
    assert_true(segment_monitor_is_ready(monitor));
    sim_segments_away(sim, 2, true);
    pass_and_turn(1000);
    assert_true(segment_monitor_is_ready(monitor)); /* once and for all */
}

static void it_is_ready_when_every_segment_is_open(void **state)
{
    (void)state;
    const struct segment_step begin = {.kind = STEP_BEGIN, .sizes = cluster_sizes};
    const struct segment_step open = {.kind = STEP_OPEN};
    uint64_t epoch = cluster_raise_epoch(&world, 1);
    assert_int_equal(segments_rebuild(world.hands, 1, epoch, 1, &begin, 1), SEGMENT_DONE);
    pass_and_turn(1000);
    assert_int_equal(epoch_of(1), epoch);
    assert_false(segment_monitor_is_ready(monitor));
    assert_int_equal(segments_rebuild(world.hands, 1, epoch, 1, &open, 1), SEGMENT_DONE);
    pass_and_turn(10); /* it opens in a moment, so it is looked at again at once */
    assert_true(segment_monitor_is_ready(monitor));
}

static void where_they_do_not_agree_nothing_is_decided(void **state)
{
    (void)state;
    turn();
    (void)cluster_raise_epoch(&world, 0); /* recovery has begun */
    pass_and_turn(1000);
    assert_int_equal(epoch_of(0), 0);
    assert_int_equal(request(0).outcome, GATE_OUTCOME_UNKNOWN);
    assert_int_equal(epoch_of(1), 1);
    /* Closed: it takes what is decided again, and no buyers. */
    const struct segment_step begin = {.kind = STEP_BEGIN, .sizes = cluster_sizes};
    assert_int_equal(segments_rebuild(world.hands, 0, 2, 1, &begin, 1), SEGMENT_DONE);
    pass_and_turn(1000);
    assert_int_equal(epoch_of(0), 2);
    assert_int_equal(request(0).outcome, GATE_OUTCOME_UNKNOWN);
    const struct segment_step open = {.kind = STEP_OPEN};
    assert_int_equal(segments_rebuild(world.hands, 0, 2, 1, &open, 1), SEGMENT_DONE);
    pass_and_turn(1000);
    assert_int_equal(epoch_of(0), 2);
    assert_int_equal(request(0).refusal, REFUSAL_NO_SUCH_ITEM); /* it answers for itself */
    /* On another server, or emptied. */
    (void)sim_segments_failover(sim, 1, 0);
    sim_segments_empty(sim, 2);
    pass_and_turn(1000);
    assert_int_equal(epoch_of(1), 0);
    assert_int_equal(epoch_of(2), 0);
}

static void one_that_was_found_wrong_decides_nothing(void **state)
{
    (void)state;
    turn();
    assert_true(answers(1));
    segments_tell(world.hands,
                  &(struct segment_news){.kind = NEWS_BROKEN, .segment = 1, .epoch = 1});
    pass_and_turn(1000);
    assert_int_equal(epoch_of(1), 1); /* its events, and what it decided, are of this one still */
    assert_int_equal(request(1).outcome, GATE_OUTCOME_UNKNOWN);
    assert_true(answers(0));
    assert_int_equal(number(METRIC_SEGMENTS_CLOSED), 1);
}

static bool settled(uint32_t segment)
{
    return segment_table_settled(&process->segment_table, segment,
                                 clock_boot_us(&world.clock.port) / 1000);
}

/* A front that stood still brings back what it has promised once the segment is open again. */
static void a_rebuilt_one_is_settled_some_time_after_it_opens(void **state)
{
    (void)state;
    const struct segment_step begin = {.kind = STEP_BEGIN, .sizes = cluster_sizes};
    const struct segment_step open = {.kind = STEP_OPEN};
    turn();
    pass_and_turn(SEGMENT_TABLE_SETTLE_MS);
    assert_true(settled(0));
    uint64_t epoch = cluster_raise_epoch(&world, 0);
    assert_int_equal(segments_rebuild(world.hands, 0, epoch, 1, &begin, 1), SEGMENT_DONE);
    pass_and_turn(1000);
    assert_false(settled(0));
    pass_and_turn(SEGMENT_TABLE_SETTLE_MS); /* the rebuild takes long */
    assert_int_equal(segments_rebuild(world.hands, 0, epoch, 1, &open, 1), SEGMENT_DONE);
    pass_and_turn(1000);
    assert_int_equal(request(0).refusal, REFUSAL_NO_SUCH_ITEM); /* it answers for itself */
    assert_false(settled(0));
    pass_and_turn(SEGMENT_TABLE_SETTLE_MS);
    assert_true(settled(0));
}

static void one_that_is_away_stays_what_it_was(void **state)
{
    (void)state;
    int64_t boot_ms = clock_boot_us(&world.clock.port) / 1000;
    for (uint32_t s = 0; s < SEGMENTS; s++) { /* who has just begun does not know what was before */
        assert_false(segment_table_settled(&process->segment_table, s, boot_ms));
    }
    pass_and_turn(SEGMENT_TABLE_SETTLE_MS);
    sim_segments_away(sim, 0, true);
    sim_segments_lose(sim, 1, 1);
    pass_and_turn(1000);
    assert_int_equal(epoch_of(0), 1);
    assert_int_equal(epoch_of(1), 1);
    /* So it does while the ledger is: a sale goes on. */
    sim_segments_away(sim, 0, false);
    pass_and_turn(1000);
    (void)sim_segments_failover(sim, 2, 0);
    segment_table_doubt(&process->segment_table, 2);
    world.ledger.fail_read = ERR_IO;
    pass_and_turn(100);
    assert_int_equal(epoch_of(2), 1);
    assert_true(answers(0));
    world.ledger.fail_read = 0;
    boot_ms = clock_boot_us(&world.clock.port) / 1000;
    assert_false(segment_table_settled(&process->segment_table, 0,
                                       boot_ms)); /* whether anybody asked or not */
    assert_true(segment_table_settled(&process->segment_table, 2, boot_ms));
    turn(); /* and the doubt was not forgotten */
    assert_int_equal(epoch_of(2), 0);
}

static void a_doubt_is_looked_at_at_once(void **state)
{
    (void)state;
    turn();
    uint64_t looks = process->stage.looks;
    (void)sim_segments_failover(sim, 1, 0);
    pass_and_turn(100); /* nobody has said anything */
    assert_int_equal(process->stage.looks, looks);
    assert_int_equal(epoch_of(1), 1);
    segment_table_doubt(&process->segment_table, 1);
    turn();
    assert_int_equal(process->stage.looks, looks + 1); /* at that one alone */
    assert_int_equal(epoch_of(1), 0);
    pass_and_turn(1000);
    assert_int_equal(process->stage.looks, looks + 1 + SEGMENTS);
}

/* ---- a segment's status ---- */

static uint32_t moves; /* lines of segment.status */
static char last_move[128];

static void witness(const char *event, struct span line)
{
    if (strcmp(event, "segment.status") == 0) {
        char text[LOG_LINE_MAX];
        (void)snprintf(text, sizeof(text), "%.*s", (int)line.len, line.at);
        const char *at = strstr(text, "segment="); /* behind the time */
        assert_non_null(at);
        (void)snprintf(last_move, sizeof(last_move), "%.*s", (int)strcspn(at, "\n"), at);
        moves++;
    }
}

/* Checks the segments, and says which status segment 1 has then. The others stay open. */
static enum segment_status checked(void)
{
    pass_and_turn(1000);
    assert_int_equal(segment_monitor_status(monitor, 0), SEGMENT_OPEN);
    return segment_monitor_status(monitor, 1);
}

static void a_segments_status_is_what_its_last_check_found(void **state)
{
    (void)state;
    const struct segment_step begin = {.kind = STEP_BEGIN, .sizes = cluster_sizes};
    const struct segment_step open = {.kind = STEP_OPEN};
    moves = 0;
    log_set_witness(witness);
    assert_int_equal(segment_monitor_status(monitor, 1), SEGMENT_UNKNOWN);
    assert_int_equal(checked(), SEGMENT_OPEN);
    assert_int_equal(moves, SEGMENTS);
    assert_int_equal(checked(), SEGMENT_OPEN);
    assert_int_equal(moves, SEGMENTS); /* a move is logged, a check is not */
    assert_true(segment_monitor_serves(monitor, 1));
    sim_segments_away(sim, 1, true);
    assert_int_equal(checked(), SEGMENT_AWAY);
    assert_false(segment_monitor_serves(monitor, 1));
    assert_string_equal(last_move, "segment=1 from=open to=away");
    sim_segments_away(sim, 1, false);
    uint64_t epoch = cluster_raise_epoch(&world, 1);
    assert_int_equal(checked(), SEGMENT_LOST);
    assert_string_equal(last_move, "segment=1 from=away to=lost");
    assert_int_equal(segments_rebuild(world.hands, 1, epoch, 1, &begin, 1), SEGMENT_DONE);
    assert_int_equal(checked(), SEGMENT_CLOSED);
    assert_int_equal(segments_rebuild(world.hands, 1, epoch, 1, &open, 1), SEGMENT_DONE);
    assert_int_equal(checked(), SEGMENT_OPEN);
    assert_string_equal(last_move, "segment=1 from=closed to=open");
    assert_int_equal(moves, SEGMENTS + 4);
    log_set_witness(NULL);
}

/* The status is then only shown: epochs stay, and no segment is opened or closed. */
static void without_the_ledger_only_the_status_moves(void **state)
{
    (void)state;
    turn();
    world.ledger.fail_read = ERR_IO;
    sim_segments_away(sim, 1, true);
    assert_int_equal(checked(), SEGMENT_AWAY);
    sim_segments_away(sim, 1, false);
    (void)cluster_raise_epoch(&world, 1);
    assert_int_equal(checked(), SEGMENT_OPEN); /* that it is lost cannot be seen */
    assert_int_equal(epoch_of(1), 1);
    assert_true(answers(1));
    world.ledger.fail_read = 0;
    assert_int_equal(checked(), SEGMENT_LOST);
    assert_int_equal(epoch_of(1), 0);
}

/* The line of a segment that could not be asked waits for the next check. */
static void one_that_could_not_be_asked_serves_after_its_next_check(void **state)
{
    (void)state;
    turn();
    segment_monitor_stop_serving(monitor, 1);
    assert_false(segment_monitor_serves(monitor, 1));
    assert_true(segment_monitor_serves(monitor, 0));
    assert_int_equal(segment_monitor_status(monitor, 1), SEGMENT_OPEN);
    turn(); /* it is doubted, so that is now */
    assert_true(segment_monitor_serves(monitor, 1));
}

/* ---- numbers for operators ---- */

/* What is in an outbox that nobody has ever seen is not nothing. */
static void who_watches_is_told_nothing_of_what_was_never_seen(void **state)
{
    (void)state;
    sim_segments_away(sim, 1, true);
    turn();
    assert_int_equal(number(METRIC_SEGMENTS_AWAY), 1);
    assert_int_equal(number(METRIC_OUTBOX_ENTRIES), -1);
    assert_int_equal(number(METRIC_OUTBOX_OLDEST), -1);
    sim_segments_away(sim, 1, false);
    pass_and_turn(3000);
    assert_int_equal(number(METRIC_OUTBOX_ENTRIES), 0);
}

static void who_watches_sees_which_server_is_away(void **state)
{
    (void)state;
    assert_int_equal(number(METRIC_REDIS_UP), -1);
    assert_int_equal(number(METRIC_MARIADB_UP), -1);
    turn();
    assert_int_equal(number(METRIC_REDIS_UP), 1);
    assert_int_equal(number(METRIC_MARIADB_UP), 1);
    assert_int_equal(number(METRIC_SEGMENTS), SEGMENTS);
    assert_int_equal(number(METRIC_SEGMENTS_AWAY), 0);
    assert_int_equal(number(METRIC_SEGMENTS_CLOSED), 0);
    assert_int_equal(number(METRIC_OUTBOX_ENTRIES), 0);
    (void)cluster_decide(&world, 0, 7); /* nobody carries it on */
    sim_segments_away(sim, 1, true);
    sim_segments_empty(sim, 2);
    pass_and_turn(3000);
    assert_int_equal(number(METRIC_REDIS_UP), 0);
    assert_int_equal(number(METRIC_SEGMENTS_AWAY), 1);
    assert_int_equal(number(METRIC_SEGMENTS_CLOSED), 1);
    assert_int_equal(number(METRIC_OUTBOX_ENTRIES), 1);
    assert_int_equal(number(METRIC_OUTBOX_OLDEST), 3);
    /* It is seen without the ledger, too, and the other way round. */
    world.ledger.fail_read = ERR_IO;
    sim_segments_away(sim, 1, false);
    pass_and_turn(1000);
    assert_int_equal(number(METRIC_MARIADB_UP), 0);
    assert_int_equal(number(METRIC_REDIS_UP), 1);
    sim_segments_away(sim, 0, true);
    pass_and_turn(1000);
    assert_int_equal(number(METRIC_REDIS_UP), 0);
    assert_int_equal(number(METRIC_OUTBOX_ENTRIES), 1); /* as it was seen last */
    world.ledger.fail_read = 0;
    pass_and_turn(1000);
    assert_int_equal(number(METRIC_MARIADB_UP), 1);
    assert_int_equal(number(METRIC_REDIS_UP), 0);
}

static struct metrics_level level(enum metrics_pool pool)
{
    return metrics_level(&process->metrics, pool);
}

/* The segment that is fullest is told, and how many have no room at all. */
static void who_watches_sees_the_fullest_segment(void **state)
{
    (void)state;
    turn();
    assert_int_equal(level(POOL_GATE_ORDERS).size, cluster_sizes.orders);
    assert_int_equal(level(POOL_GATE_ORDERS).used, 0);
    assert_int_equal(level(POOL_GATE_ITEMS).size, cluster_sizes.items);
    assert_int_equal(number(METRIC_SEGMENTS_FULL), 0);
    (void)cluster_decide(&world, 0, 7);
    (void)cluster_decide(&world, 1, 7);
    (void)cluster_decide(&world, 1, 8);
    pass_and_turn(1000);
    assert_int_equal(level(POOL_GATE_ORDERS).used, 2);
    assert_int_equal(level(POOL_GATE_BUYERS).used, 2);
    assert_int_equal(level(POOL_GATE_SALES).used, 1);
    /* One that is small is full first. */
    const struct segment_step steps[] = {
        {.kind = STEP_BEGIN, .sizes = {.orders = 1, .buyers = 9, .items = 2, .sales = 1}},
        {.kind = STEP_SALE,
         .sale = CLUSTER_SALE,
         .starts_at_ms = CLUSTER_NOW,
         .ends_at_ms = CLUSTER_NOW + CLUSTER_ENDS_MS,
         .state = SALE_OPEN},
        {.kind = STEP_ITEM, .sale = CLUSTER_SALE, .item = CLUSTER_FREE, .total = 5, .available = 5},
        {.kind = STEP_OPEN}};
    uint64_t epoch = cluster_raise_epoch(&world, 2);
    assert_int_equal(segments_rebuild(world.hands, 2, epoch, 9, steps, 4), SEGMENT_DONE);
    pass_and_turn(1000);
    assert_int_equal(number(METRIC_SEGMENTS_FULL), 0);
    (void)cluster_decide(&world, 2, 7);
    pass_and_turn(1000);
    assert_int_equal(number(METRIC_SEGMENTS_FULL), 1);
    assert_int_equal(level(POOL_GATE_ORDERS).used, 1);
    assert_int_equal(level(POOL_GATE_ORDERS).size, 1);
    assert_int_equal(level(POOL_GATE_SALES).size, 1);
}

/* ---- the clock ---- */

static bool clock_is_off(void)
{
    return atomic_load(&process->segment_table.clock_is_off);
}

static void with_another_time_than_the_gates_nothing_is_sold(void **state)
{
    (void)state;
    turn();
    assert_false(clock_is_off());
    process->stage.ahead_ms[0] = 100;
    process->stage.ahead_ms[1] = -100;
    pass_and_turn(1000);
    assert_false(clock_is_off());
    process->stage.ahead_ms[0] = 101;
    pass_and_turn(1000);
    assert_true(clock_is_off());
    process->stage.ahead_ms[0] = 0;
    pass_and_turn(1000);
    assert_false(clock_is_off());
    process->stage.ahead_ms[0] = -101;
    pass_and_turn(1000);
    assert_true(clock_is_off()); /* though the others agree with us */
    segment_table_doubt(&process->segment_table, 2);
    turn();
    assert_true(clock_is_off());
    sim_segments_away(sim, 0, true); /* nobody says that it is right again */
    pass_and_turn(1000);
    assert_true(clock_is_off());
    sim_segments_away(sim, 0, false);
    process->stage.ahead_ms[0] = 0;
    pass_and_turn(1000);
    assert_false(clock_is_off());
}

/* ---- refill requests ---- */

static void put_on_stock_cache(uint32_t richest, uint64_t most)
{
    struct stock_cache_item item = {
        .view = {.item = CLUSTER_FREE, .available = most}, .richest = richest, .most = most};
    assert_int_equal(stock_cache_put(stock_cache, &item), 0);
}

static size_t transfers(struct transfer_row *ret_rows)
{
    struct ledger_query query = {
        .kind = QUERY_TRANSFERS, .segment = SEGMENT_ALL, .limit = 8, .transfers = ret_rows};
    assert_int_equal(ledger_read(&world.ledger.ledger, &query), 0);
    assert_int_equal(query.error, 0);
    return query.count;
}

/* A buyer waits for so many units. */
static void wait_for(uint32_t segment, uint64_t units)
{
    assert_true(refill_requests_wait(&refill_requests, segment, CLUSTER_FREE, units));
}

static void leave(uint32_t segment, uint64_t units, bool got)
{
    refill_requests_leave(&refill_requests, segment, CLUSTER_FREE, units, got);
}

static void a_wish_is_noted_in_the_ledger(void **state)
{
    (void)state;
    struct transfer_row rows[8];
    turn();
    wait_for(0, 3);
    turn(); /* the item is on no stock cache */
    put_on_stock_cache(0, 9);
    turn(); /* nobody has more than it has itself */
    put_on_stock_cache(2, 0);
    turn(); /* nobody has any */
    assert_int_equal(transfers(rows), 0);
    put_on_stock_cache(2, 4);
    turn();
    assert_int_equal(transfers(rows), 1);
    assert_int_equal(rows[0].item, CLUSTER_FREE);
    assert_int_equal(rows[0].segment, 2);
    assert_int_equal(rows[0].to_segment, 0);
    assert_int_equal(rows[0].amount, 3);
    turn(); /* they are on their way */
    assert_int_equal(transfers(rows), 1);
    put_on_stock_cache(2, 2);
    wait_for(1, 1);
    pass_and_turn(150);
    assert_int_equal(transfers(rows), 3);
    assert_int_equal(rows[1].amount + rows[2].amount, 2 + 1); /* no more than there is */
    struct order_id id;
    assert_int_equal(order_id_parse((struct span){rows[0].key, strlen(rows[0].key)}, &id), 0);
    leave(0, 3, true);
    leave(1, 1, false);
}

/* All that wait get their units at once, and as many more as will probably be wanted. */
static void what_waits_is_granted_together_and_at_once(void **state)
{
    (void)state;
    struct transfer_row rows[8];
    turn();
    put_on_stock_cache(2, 1000);
    for (int i = 0; i < 40; i++) {
        wait_for(0, 1);
    }
    turn();
    assert_int_equal(transfers(rows), 1);
    assert_int_equal(rows[0].amount, 40 + 40); /* forecast: as many again */
    for (int i = 0; i < 40; i++) {             /* they have come; who comes now buys at once */
        leave(0, 1, true);
        refill_requests_got(&refill_requests, 0, CLUSTER_FREE, 1);
    }
    turn();
    assert_int_equal(transfers(rows), 1);
    wait_for(0, 1); /* no pause, however little time has passed */
    turn();
    assert_int_equal(transfers(rows), 2);
    assert_int_equal(rows[0].amount + rows[1].amount, 80 + 1 + 40 + 40 + 1);
    leave(0, 1, false);
    pass_and_turn(2 * REFILL_PERIOD_MS);
    assert_int_equal(transfers(rows), 2); /* nobody waits */
    assert_int_equal(atomic_load(&refill_requests.count), 0);
}

/* What is forecast leaves the source half; what waits may take all, of two sources. */
static void a_forecast_empties_no_source(void **state)
{
    (void)state;
    struct transfer_row rows[8];
    struct stock_cache_item item = {.view = {.item = CLUSTER_FREE, .available = 30},
                                    .richest = 1,
                                    .most = 20,
                                    .next = 2,
                                    .next_most = 10};
    assert_int_equal(stock_cache_put(stock_cache, &item), 0);
    turn();
    wait_for(0, 25);
    turn();
    assert_int_equal(transfers(rows), 2);
    uint32_t first = rows[0].segment == 1 ? 0 : 1; /* they are read in the order of their keys */
    assert_int_equal(rows[first].segment, 1);
    assert_int_equal(rows[first].amount, 20);
    assert_int_equal(rows[1 - first].segment, 2);
    assert_int_equal(rows[1 - first].amount, 5 + (10 - 5) / 2);
    leave(0, 25, true);
}

/* A buyer wants three; his home has two, more than anyone, and another has the third. */
static void the_richest_home_gets_what_it_lacks_in_its_turn(void **state)
{
    (void)state;
    struct transfer_row rows[8];
    struct stock_cache_item item = {.view = {.item = CLUSTER_FREE, .available = 4},
                                    .richest = 0,
                                    .most = 2,
                                    .next = 1,
                                    .next_most = 2};
    assert_int_equal(stock_cache_put(stock_cache, &item), 0);
    turn();
    int64_t into_ms = inside_time_ms(&process->time) % 1000;
    pass_and_turn(1000 - into_ms + 600);
    wait_for(0, 3);
    turn(); /* the others' turn: they may want the same */
    assert_int_equal(transfers(rows), 0);
    leave(0, 3, false);
    pass_and_turn(500);
    wait_for(0, 2);
    turn(); /* so many it has */
    assert_int_equal(transfers(rows), 0);
    leave(0, 2, true);
    wait_for(0, 3);
    turn();
    assert_int_equal(transfers(rows), 1);
    assert_int_equal(rows[0].segment, 1);
    assert_int_equal(rows[0].to_segment, 0);
    assert_int_equal(rows[0].amount, 1);
    leave(0, 3, true);
}

static void a_wish_is_handed_to_whoever_balances_here(void **state)
{
    (void)state;
    struct transfer_row rows[8];
    turn();
    put_on_stock_cache(2, 9);
    balances_here = true;
    wait_for(0, 3);
    wait_for(1, 3);
    turn();
    assert_int_equal(refills, 2);
    assert_int_equal(transfers(rows), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_finds_the_epochs_that_all_agree_on),
        TEST(it_is_ready_when_every_epoch_is_known),
        TEST(it_is_ready_when_every_segment_is_open),
        TEST(where_they_do_not_agree_nothing_is_decided),
        TEST(one_that_was_found_wrong_decides_nothing),
        TEST(a_rebuilt_one_is_settled_some_time_after_it_opens),
        TEST(one_that_is_away_stays_what_it_was),
        TEST(a_doubt_is_looked_at_at_once),
        TEST(a_segments_status_is_what_its_last_check_found),
        TEST(without_the_ledger_only_the_status_moves),
        TEST(one_that_could_not_be_asked_serves_after_its_next_check),
        TEST(who_watches_sees_which_server_is_away),
        TEST(who_watches_sees_the_fullest_segment),
        TEST(who_watches_is_told_nothing_of_what_was_never_seen),
        TEST(with_another_time_than_the_gates_nothing_is_sold),
        TEST(a_wish_is_noted_in_the_ledger),
        TEST(what_waits_is_granted_together_and_at_once),
        TEST(a_forecast_empties_no_source),
        TEST(the_richest_home_gets_what_it_lacks_in_its_turn),
        TEST(a_wish_is_handed_to_whoever_balances_here),
    };
    return cmocka_run_group_tests_name("segment monitor", tests, NULL, NULL);
}
