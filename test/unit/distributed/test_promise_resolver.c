/* The promise resolver: epochs that ledger and segments agree on, and what becomes of a front's promises. */
#include "promise_resolver_fixture.h"

/* As /metrics shows it; -1: it is left out. */
static int64_t number(enum metric metric)
{
    return (int64_t)metrics_sum(&process->metrics, metric) - 1;
}

/* ---- epochs ---- */

static void it_finds_the_epochs_that_all_agree_on(void **state)
{
    (void)state;
    assert_false(promise_resolver_is_ready(promise_resolver));
    assert_int_equal(request(1), REFUSAL_UNKNOWN_OUTCOME);
    turn();
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        assert_int_equal(epoch_of(s), 1);
        assert_int_equal(request(s), REFUSAL_NONE); /* asks carry it, too */
    }
    assert_true(promise_resolver_is_ready(promise_resolver));
}

static void it_is_ready_when_every_epoch_is_known(void **state)
{
    (void)state;
    sim_segments_away(sim, 2, true);
    turn();
    assert_int_equal(epoch_of(0), 1);
    assert_int_equal(epoch_of(2), 0);
    assert_false(promise_resolver_is_ready(promise_resolver));
    sim_segments_away(sim, 2, false);
    pass_and_turn(1000);
    assert_true(promise_resolver_is_ready(promise_resolver));
    sim_segments_away(sim, 2, true);
    pass_and_turn(1000);
    assert_true(promise_resolver_is_ready(promise_resolver)); /* once and for all */
}

static void it_is_ready_when_every_segment_is_open(void **state)
{
    (void)state;
    const struct segment_step begin = {.kind = STEP_BEGIN, .sizes = segments_world_sizes};
    const struct segment_step open = {.kind = STEP_OPEN};
    uint64_t epoch = wide_raise_epoch(&world, 1);
    assert_int_equal(segments_rebuild(world.segments.hands, 1, epoch, 1, &begin, 1), SEGMENT_DONE);
    pass_and_turn(1000);
    assert_int_equal(epoch_of(1), epoch);
    assert_false(promise_resolver_is_ready(promise_resolver));
    assert_int_equal(segments_rebuild(world.segments.hands, 1, epoch, 1, &open, 1), SEGMENT_DONE);
    pass_and_turn(10); /* it opens in a moment, so it is looked at again at once */
    assert_true(promise_resolver_is_ready(promise_resolver));
}

static void where_they_do_not_agree_nothing_is_decided(void **state)
{
    (void)state;
    turn();
    (void)wide_raise_epoch(&world, 0); /* recovery has begun */
    pass_and_turn(1000);
    assert_int_equal(epoch_of(0), 0);
    assert_int_equal(request(0), REFUSAL_UNKNOWN_OUTCOME);
    assert_int_equal(epoch_of(1), 1);
    /* Closed: it takes what is decided again, and no buyers. */
    const struct segment_step begin = {.kind = STEP_BEGIN, .sizes = segments_world_sizes};
    assert_int_equal(segments_rebuild(world.segments.hands, 0, 2, 1, &begin, 1), SEGMENT_DONE);
    pass_and_turn(1000);
    assert_int_equal(epoch_of(0), 2);
    assert_int_equal(request(0), REFUSAL_UNKNOWN_OUTCOME);
    const struct segment_step open = {.kind = STEP_OPEN};
    assert_int_equal(segments_rebuild(world.segments.hands, 0, 2, 1, &open, 1), SEGMENT_DONE);
    pass_and_turn(1000);
    assert_int_equal(epoch_of(0), 2);
    assert_int_equal(request(0), REFUSAL_NO_SUCH_ITEM); /* it answers for itself */
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
    assert_int_equal(request(1), REFUSAL_NONE);
    segments_tell(world.segments.hands,
                  &(struct segment_news){.kind = NEWS_BROKEN, .segment = 1, .epoch = 1});
    pass_and_turn(1000);
    assert_int_equal(epoch_of(1), 1); /* its events, and what it decided, are of this one still */
    assert_int_equal(request(1), REFUSAL_UNKNOWN_OUTCOME);
    assert_int_equal(request(0), REFUSAL_NONE);
    assert_int_equal(number(METRIC_SEGMENTS_CLOSED), 1);
}

static void one_that_is_away_stays_what_it_was(void **state)
{
    (void)state;
    int64_t boot_ms = clock_boot_us(&world.segments.clock.port) / 1000;
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
    assert_int_equal(request(0), REFUSAL_NONE);
    world.ledger.fail_read = 0;
    boot_ms = clock_boot_us(&world.segments.clock.port) / 1000;
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

/* ---- numbers for whoever watches ---- */

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
    (void)wide_decide(&world, 0, 7); /* nobody carries it on */
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

/* ---- promises ---- */

static void a_promise_is_let_go_when_the_ledger_knows_it(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    struct decision booked = promise(0, 7);
    struct decision waiting = promise(1, 8);
    uint64_t calls = process->stage.calls;
    pass_and_turn(2000);
    assert_int_equal(numbers().entries, 2); /* on their way, as they were promised */
    book(&booked);
    world.ledger.fail_read = ERR_IO;
    pass_and_turn(2000);
    assert_int_equal(numbers().entries, 2); /* nobody can say */
    world.ledger.fail_read = 0;
    pass_and_turn(2000);
    assert_false(is_promised(booked.command.id, &epoch));
    assert_true(is_promised(waiting.command.id, &epoch));
    assert_int_equal(epoch, 1);
    assert_int_equal(process->stage.calls, calls); /* and nobody asked the gate */
    assert_int_equal(metrics_sum(&process->metrics, METRIC_SPOOL_ENTRIES), 1);
    assert_int_equal(metrics_sum(&process->metrics, METRIC_SPOOL_UNDECIDED), 0);
    struct decision copy = waiting;
    wide_let(process);
    copy.reason = REFUSAL_DEGRADED;
    booking_channel_fail(&process->booking_channel, &copy, 1); /* failed is known, too */
    wide_halt(process);
    pass_and_turn(2000);
    assert_int_equal(numbers().entries, 0);
}

static void what_a_rebuilt_segment_lacks_is_decided_again(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    struct decision promised[2] = {promise(1, 7), promise(1, 8)};
    struct decision other = promise(0, 9);
    wide_rebuild(&world, 1); /* without them */
    forget_segment_table();
    uint64_t outbox = sim_segments_outbox(sim, 1);
    pass_and_turn(2000);
    for (int i = 0; i < 2; i++) {
        const struct gate_order *order =
            segments_world_order(&world.segments, 1, promised[i].command.id);
        assert_non_null(order);
        assert_int_equal(order->user, 7 + i);
        assert_int_equal(order->created_at_ms, promised[i].command.now_ms);
        assert_true(is_promised(promised[i].command.id, &epoch));
        assert_int_equal(epoch, 2);
    }
    assert_int_equal(sim_segments_outbox(sim, 1), outbox + 2);
    assert_true(is_promised(other.command.id, &epoch));
    assert_int_equal(epoch, 1);
    pass_and_turn(2000); /* once */
    assert_int_equal(sim_segments_outbox(sim, 1), outbox + 2);
}

/* However long ago he won, and though the sale has ended since. */
static void a_winner_is_no_buyer_in_line(void **state)
{
    (void)state;
    turn();
    struct decision early = promise(1, 7);
    wide_pass_ms(&world, WIDE_ENDS_MS - 1000);
    struct decision late = promise(1, 8);
    wide_rebuild(&world, 1);
    pass_and_turn(2000);
    assert_null(wide_row(&world, early.command.id));
    assert_null(wide_row(&world, late.command.id));
    assert_non_null(segments_world_order(&world.segments, 1, early.command.id));
    assert_non_null(segments_world_order(&world.segments, 1, late.command.id));
}

static void while_it_is_being_filled_winners_come_back(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    struct decision promised = promise(1, 7);
    (void)wide_raise_epoch(&world, 1);
    sim_segments_empty(sim, 1);
    pass_and_turn(2000);
    assert_true(is_promised(promised.command.id, &epoch));
    assert_int_equal(epoch, 1); /* nobody to ask yet */
    const struct segment_step steps[] = {
        {.kind = STEP_BEGIN, .sizes = segments_world_sizes},
        {.kind = STEP_SALE,
         .sale = WIDE_SALE,
         .starts_at_ms = WIDE_NOW,
         .ends_at_ms = WIDE_NOW + WIDE_ENDS_MS,
         .state = SALE_OPEN},
        {.kind = STEP_ITEM, .sale = WIDE_SALE, .item = WIDE_FREE, .total = 5, .available = 5}};
    assert_int_equal(segments_rebuild(world.segments.hands, 1, 2, 1, steps, 3), SEGMENT_DONE);
    segment_table_doubt(&process->segment_table, 1);
    pass_and_turn(2000);
    assert_false(sim_segments_open(sim, 1));
    assert_non_null(segments_world_order(&world.segments, 1, promised.command.id));
    assert_true(is_promised(promised.command.id, &epoch));
    assert_int_equal(epoch, 2);
}

static void one_that_cannot_be_kept_gets_its_row(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    struct decision promised = promise(1, 7);
    wide_rebuild(&world, 1);
    for (uint32_t i = 0; i < WIDE_UNITS; i++) { /* another front's winners were faster */
        (void)wide_decide(&world, 1, 100 + i);
    }
    pass_and_turn(2000);
    const struct order_row *row = wide_row(&world, promised.command.id);
    assert_int_equal(row->state, ORDER_FAILED);
    assert_int_equal(row->reason, REFUSAL_SOLD_OUT);
    pass_and_turn(2000);
    assert_false(is_promised(promised.command.id, &epoch));
}

/* Nobody can decide it again: it must end all the same, or it stands in the journal for ever. */
static void one_of_a_sale_that_was_forgotten_gets_its_row(void **state)
{
    (void)state;
    uint64_t epoch = 0;
    turn();
    struct gate_command once = {.kind = GATE_RESERVE,
                                .now_ms = inside_time_ms(&process->time),
                                .id = order_id_once(WIDE_ONCE, 9, 0),
                                .user = 9,
                                .item = WIDE_ONCE,
                                .qty = 1};
    struct gate_command ids[] = {promise(1, 7).command, stand_in_line(2, 8), once};
    accept(&once, 1);
    wide_rebuild(&world, 1);
    sim_segments_away(sim, 2, true);
    wide_forget_sale(process);
    turn(); /* the sales were read before it was sold from */
    assert_int_equal(world.ledger.orders_count, 0);
    wide_pass_ms(&world, 6000);
    wide_settle(process);
    pass_and_turn(2000);
    for (int i = 0; i < 3; i++) {
        const struct order_row *row = wide_row(&world, ids[i].id);
        assert_non_null(row);
        assert_int_equal(row->state, ORDER_FAILED);
        assert_int_equal(row->reason, REFUSAL_ENDED);
    }
    pass_and_turn(2000);
    for (int i = 0; i < 3; i++) {
        assert_false(is_promised(ids[i].id, &epoch));
    }
}

static void many_promises_are_kept_page_by_page(void **state)
{
    (void)state;
    enum { MANY = 700 };
    turn();
    for (uint64_t user = 1; user <= MANY; user++) {
        struct gate_command command = {.kind = GATE_RESERVE,
                                       .now_ms = WIDE_NOW,
                                       .id = order_id_once(WIDE_ONCE, user, 0),
                                       .user = user,
                                       .item = WIDE_ONCE,
                                       .qty = 1};
        accept(&command, 0);
    }
    pass_and_turn(2000);
    assert_int_equal(numbers().undecided, 0);
    uint64_t locked = 0;
    for (uint32_t s = 0; s < SEGMENTS; s++) { /* at their buyers' homes */
        locked += segments_world_item(&world.segments, s, WIDE_ONCE)->locked;
    }
    assert_int_equal(locked, SEGMENTS * WIDE_UNITS);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_FAILED),
                     MANY - SEGMENTS * WIDE_UNITS);
    pass_and_turn(2000);
    assert_int_equal(numbers().entries, SEGMENTS * WIDE_UNITS);
}

/* ---- stuck ---- */

/* Its message lies in a queue that nobody reads: the front that promised it ends the waiting. */
static void a_decision_that_nobody_books_fails_in_the_end(void **state)
{
    (void)state;
    turn();
    struct decision stuck = promise(1, 7);
    pass_and_turn(60000);
    assert_null(wide_row(&world, stuck.command.id)); /* by default it waits */
    atomic_store(&runtime_limits.stale_ms, 90000);   /* turned while it runs */
    pass_and_turn(29000);
    assert_null(wide_row(&world, stuck.command.id));
    world.ledger.fail_next = ERR_IO; /* nothing is released without the ledger */
    pass_and_turn(3000);
    assert_null(wide_row(&world, stuck.command.id));
    assert_int_equal(segments_world_item(&world.segments, 1, WIDE_FREE)->locked, 1);
    for (int i = 0; i < 5; i++) {
        pass_and_turn(1500);
    }
    const struct order_row *row = wide_row(&world, stuck.command.id);
    assert_int_equal(row->state, ORDER_FAILED);
    assert_int_equal(row->reason, REFUSAL_OVERLOADED);
    wide_settle(process);
    const struct gate_item *item = segments_world_item(&world.segments, 1, WIDE_FREE);
    assert_int_equal(item->locked, 0); /* and the unit is for sale again */
    assert_int_equal(item->available, WIDE_UNITS);
    assert_int_equal(numbers().entries, 0);
    /* The queue is read after all: it stays as it is. */
    book(&stuck);
    wide_settle(process);
    assert_int_equal(wide_row(&world, stuck.command.id)->state, ORDER_FAILED);
    assert_int_equal(segments_world_item(&world.segments, 1, WIDE_FREE)->available, WIDE_UNITS);
}

static void one_that_was_booked_in_time_is_left_alone(void **state)
{
    (void)state;
    turn();
    struct decision booked = promise(1, 7);
    book(&booked);
    atomic_store(&runtime_limits.stale_ms, 1000);
    pass_and_turn(5000);
    assert_int_equal(wide_row(&world, booked.command.id)->state, ORDER_LOCKED);
    assert_int_equal(numbers().entries, 0);
}

/* ---- refill requests ---- */

static void put_on_stock_cache(uint32_t richest, uint64_t most)
{
    struct stock_cache_item item = {
        .view = {.item = WIDE_FREE, .available = most}, .richest = richest, .most = most};
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

static void a_wish_is_noted_in_the_ledger(void **state)
{
    (void)state;
    struct transfer_row rows[8];
    turn();
    refill_requests_add(&refill_requests, 0, WIDE_FREE, 3);
    turn(); /* the item is on no stock cache */
    put_on_stock_cache(0, 9);
    refill_requests_add(&refill_requests, 0, WIDE_FREE, 3);
    turn(); /* nobody has more than it has itself */
    put_on_stock_cache(2, 0);
    refill_requests_add(&refill_requests, 0, WIDE_FREE, 3);
    turn(); /* nobody has any */
    assert_int_equal(transfers(rows), 0);
    put_on_stock_cache(2, 9);
    refill_requests_add(&refill_requests, 0, WIDE_FREE, 3);
    turn();
    assert_int_equal(transfers(rows), 1);
    assert_int_equal(rows[0].item, WIDE_FREE);
    assert_int_equal(rows[0].segment, 2);
    assert_int_equal(rows[0].to_segment, 0);
    assert_int_equal(rows[0].amount, 3);
    refill_requests_add(&refill_requests, 0, WIDE_FREE, 3);
    turn(); /* they are on their way */
    assert_int_equal(transfers(rows), 1);
    put_on_stock_cache(2, 2);
    refill_requests_add(&refill_requests, 0, WIDE_FREE, 3);
    refill_requests_add(&refill_requests, 1, WIDE_FREE, 1);
    pass_and_turn(150);
    assert_int_equal(transfers(rows), 3);
    assert_int_equal(rows[1].amount + rows[2].amount, 2 + 1); /* no more than there is */
    struct order_id id;
    assert_int_equal(order_id_parse((struct span){rows[0].key, strlen(rows[0].key)}, &id), 0);
}

/* A buyer wants three; his home has two, more than anyone, and another has the third. */
static void the_richest_home_gets_what_it_lacks_in_its_turn(void **state)
{
    (void)state;
    struct transfer_row rows[8];
    struct stock_cache_item item = {.view = {.item = WIDE_FREE, .available = 4},
                                    .richest = 0,
                                    .most = 2,
                                    .next = 1,
                                    .next_most = 2};
    assert_int_equal(stock_cache_put(stock_cache, &item), 0);
    turn();
    int64_t into_ms = inside_time_ms(&process->time) % 1000;
    pass_and_turn(1000 - into_ms + 600);
    refill_requests_add(&refill_requests, 0, WIDE_FREE, 3);
    turn(); /* the others' turn: they may want the same */
    assert_int_equal(transfers(rows), 0);
    pass_and_turn(500);
    refill_requests_add(&refill_requests, 0, WIDE_FREE, 2);
    turn(); /* so many it has */
    assert_int_equal(transfers(rows), 0);
    refill_requests_add(&refill_requests, 0, WIDE_FREE, 3);
    turn();
    assert_int_equal(transfers(rows), 1);
    assert_int_equal(rows[0].segment, 1);
    assert_int_equal(rows[0].to_segment, 0);
    assert_int_equal(rows[0].amount, 1);
}

static void a_wish_is_handed_to_whoever_balances_here(void **state)
{
    (void)state;
    struct transfer_row rows[8];
    turn();
    put_on_stock_cache(2, 9);
    balances_here = true;
    refill_requests_add(&refill_requests, 0, WIDE_FREE, 3);
    refill_requests_add(&refill_requests, 1, WIDE_FREE, 3);
    turn();
    assert_int_equal(refills, 2);
    assert_int_equal(transfers(rows), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_finds_the_epochs_that_all_agree_on),
        TEST(it_is_ready_when_every_epoch_is_known),
        TEST(it_is_ready_when_every_segment_is_open),
        TEST(where_they_do_not_agree_nothing_is_decided),
        TEST(one_that_was_found_wrong_decides_nothing),
        TEST(one_that_is_away_stays_what_it_was),
        TEST(a_doubt_is_looked_at_at_once),
        TEST(who_watches_sees_which_server_is_away),
        TEST(who_watches_is_told_nothing_of_what_was_never_seen),
        TEST(with_another_time_than_the_gates_nothing_is_sold),
        TEST(a_promise_is_let_go_when_the_ledger_knows_it),
        TEST(what_a_rebuilt_segment_lacks_is_decided_again),
        TEST(a_winner_is_no_buyer_in_line),
        TEST(while_it_is_being_filled_winners_come_back),
        TEST(one_that_cannot_be_kept_gets_its_row),
        TEST(one_of_a_sale_that_was_forgotten_gets_its_row),
        TEST(many_promises_are_kept_page_by_page),
        TEST(a_decision_that_nobody_books_fails_in_the_end),
        TEST(one_that_was_booked_in_time_is_left_alone),
        TEST(a_wish_is_noted_in_the_ledger),
        TEST(the_richest_home_gets_what_it_lacks_in_its_turn),
        TEST(a_wish_is_handed_to_whoever_balances_here),
    };
    return cmocka_run_group_tests_name("promise resolver", tests, NULL, NULL);
}
