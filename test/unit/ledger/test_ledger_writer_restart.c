/*
 * The ledger writer over a failed journal, through restarts, and through the life of a sale; and all of
 * it at once.
 */
#include <time.h>

#include "ledger_writer_fixture.h"
#include "table_tests.h"

/* ---- the journal fails ---- */

static void after_a_latch_ops_are_turned_away_and_reads_go_on(void **state)
{
    (void)state;
    struct order_id id = locked(1);
    (void)ledger_writer_world_bought(&world, 2);
    world.ram.dead_at = world.ram.ops + 1;
    (void)ledger_writer_world_settle(&world);
    assert_true(journal_failed(world.journal));
    uint64_t batches = world.ledger.batches;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(result_of(ledger_writer_op_order(&world, LEDGER_PAY, id)),
                         ERR_JOURNAL_FAILED);
        ledger_writer_world_pass_ms(&world, LEDGER_WRITER_PAY_MS); /* nor does anything expire */
    }
    assert_int_equal(world.ledger.batches, batches);
    assert_state(id, ORDER_LOCKED);
    assert_free_item(98, 2, 0);
    assert_int_equal(catalog_sale(world.catalog, LEDGER_WRITER_SALE)->state, SALE_OPEN);
    world.ram.dead_at = 0;
}

/* The journal waits for space: nothing is committed that the gate could not follow; then all goes on. */
static void while_the_journal_waits_for_space_nothing_is_written(void **state)
{
    (void)state;
    struct order_id id = locked(1);
    bool wrote;
    world.ram.space = world.journal_options.file_bytes; /* the present file, and no other */
    while (journal_space(world.journal) != JOURNAL_SPACE_NONE) {
        struct gate_command skip = {.kind = GATE_SET_TIME, .now_ms = 1};
        uint64_t lsn;
        assert_int_equal(gate_content_append(world.journal, &skip, &lsn), 0);
        (void)journal_flush(world.journal, &wrote);
    }
    uint64_t batches = world.ledger.batches;
    struct ledger_writer_op *op = ledger_writer_op_order(&world, LEDGER_PAY, id);
    ledger_writer_post(world.ledger_writer, op);
    assert_true(ledger_writer_world_turn(&world) > 0);
    assert_ptr_equal(ledger_writer_collect(world.ledger_writer, 0), op);
    assert_int_equal(op->error, ERR_NOSPACE);
    ledger_writer_op_free(op);
    assert_int_equal(world.ledger.batches, batches);
    world.ram.space = 0;
    (void)ledger_writer_world_settle(&world);
    assert_int_equal(result_of(ledger_writer_op_order(&world, LEDGER_PAY, id)), 0);
    assert_state(id, ORDER_PAID);
}

/* A full disk of the ledger: said until a transaction is committed again. */
static void a_full_ledger_is_said_until_it_commits_again(void **state)
{
    (void)state;
    struct order_id id = locked(1);
    assert_int_equal(ledger_writer_error(world.ledger_writer), 0);
    world.ledger.fail_next = ERR_NOSPACE;
    assert_int_equal(result_of(ledger_writer_op_order(&world, LEDGER_PAY, id)), ERR_NOSPACE);
    assert_int_equal(ledger_writer_error(world.ledger_writer), ERR_NOSPACE);
    ledger_writer_world_pass_ms(&world, 10000);
    assert_int_equal(result_of(ledger_writer_op_order(&world, LEDGER_PAY, id)), 0);
    assert_int_equal(ledger_writer_error(world.ledger_writer), 0);
}

static void break_the_journal(void *context)
{
    (void)context;
    bool wrote;
    (void)ledger_writer_world_bought(&world, 2);
    world.ram.dead_at = world.ram.ops + 1;
    assert_int_equal(journal_flush(world.journal, &wrote), ERR_IO);
}

/* Committed, but the gate can no longer follow: the loop must not tell that it happened. */
static void a_commit_the_gate_cannot_follow_is_not_told(void **state)
{
    (void)state;
    struct order_id id = locked(1);
    struct ledger_writer_op *op = ledger_writer_op_order(&world, LEDGER_PAY, id);
    world.ledger.meanwhile = break_the_journal;
    ledger_writer_post(world.ledger_writer, op);
    (void)ledger_writer_world_turn(&world);
    assert_ptr_equal(ledger_writer_collect(world.ledger_writer, 0), op);
    assert_int_equal(op->error, ERR_JOURNAL_FAILED);
    ledger_writer_op_free(op);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_PAID), 1);
    assert_state(id, ORDER_LOCKED);
    world.ram.dead_at = 0;
    world.ledger.meanwhile = NULL;
    ledger_writer_world_crash(&world); /* a restart heals */
    assert_int_equal(ledger_writer_world_up(&world), 0);
    (void)ledger_writer_world_settle(&world);
    assert_state(id, ORDER_PAID);
    ledger_writer_world_agree(&world);
}

/* ---- starting ---- */

/* A start on this ledger fails; once the ledger is right again, it succeeds. */
static const struct start_case {
    const char *name;
    int error;
    uint64_t booked_more; /* records of the journal */
    size_t events_less;
    int fail_read;
} start_cases[] = {
    {.name = "a ledger ahead of the journal", ERR_AHEAD, .booked_more = 1},
    {.name = "a ledger older than the gate", ERR_AHEAD, .events_less = 1},
    {.name = "a ledger that cannot be read", ERR_IO, .fail_read = ERR_IO},
};

static void a_start_is_refused(void **state)
{
    const struct start_case *c = *state;
    (void)locked(1);
    ledger_writer_world_pass_ms(&world, 1000);
    ledger_writer_world_down(&world);
    world.ledger.booked_lsn += c->booked_more;
    world.ledger.events_count -= c->events_less;
    world.ledger.fail_read = c->fail_read;
    assert_int_equal(ledger_writer_world_up(&world), c->error);
    ledger_writer_world_down(&world);
    world.ledger.booked_lsn -= c->booked_more;
    world.ledger.events_count += c->events_less;
    world.ledger.fail_read = 0;
    assert_int_equal(ledger_writer_world_up(&world), 0);
}

/* The power goes at the worst time: decided and durable but not booked; committed but not applied.
 */
static void a_restart_books_applies_and_expires_what_was_open(void **state)
{
    (void)state;
    struct order_id paid = locked(1);
    struct order_id unpaid = locked(2);
    assert_int_equal(result_of(ledger_writer_op_order(&world, LEDGER_PAY, paid)), REFUSAL_NONE);
    fake_clock_pass_ms(&world.clock, 100);
    struct order_id queued = ledger_writer_world_bought(&world, 3);
    ledger_writer_world_flush(&world);
    struct order_id committed = locked(4); /* ... and its event's record is not durable: */
    struct ledger_writer_op *op = ledger_writer_op_order(&world, LEDGER_CANCEL, committed);
    ledger_writer_post(world.ledger_writer, op);
    (void)ledger_writer_world_turn(&world);
    assert_ptr_equal(ledger_writer_collect(world.ledger_writer, 0), op);
    ledger_writer_op_free(op);
    struct order_id lost = ledger_writer_world_bought(&world, 5); /* never durable, never told */
    ledger_writer_world_crash(&world);
    assert_int_equal(ledger_writer_world_up(&world), 0);
    assert_int_equal(world.time.clock->ops->wall_ms(world.time.clock), LEDGER_WRITER_NOW + 100);
    assert_state(committed, ORDER_CANCELLED); /* caught up before the first turn */
    struct gate_request request = {.kind = GATE_REQUEST_ORDER, .id = lost};
    (void)gate_submit(embedded_gate_port(world.engine), &request);
    assert_int_equal(request.refusal, REFUSAL_NOT_FOUND);
    assert_int_equal(catalog_sale(world.catalog, LEDGER_WRITER_SALE)->state, SALE_OPEN);
    (void)ledger_writer_world_settle(&world);
    assert_state(paid, ORDER_PAID);
    assert_state(unpaid, ORDER_LOCKED);
    assert_state(queued, ORDER_LOCKED);
    assert_int_equal(ledger_writer_pending_deadlines(world.ledger_writer), 2);
    ledger_writer_world_agree(&world);
    ledger_writer_world_pass_ms(&world, LEDGER_WRITER_PAY_MS - 101);
    assert_state(unpaid, ORDER_LOCKED);
    ledger_writer_world_pass_ms(&world, 1); /* its own deadline, not one counted from the restart */
    assert_state(unpaid, ORDER_EXPIRED);
    assert_state(queued, ORDER_LOCKED);
    ledger_writer_world_pass_ms(&world, 100);
    assert_state(queued, ORDER_EXPIRED);
    assert_free_item(99, 0, 1);
    ledger_writer_world_agree(&world);
}

static void what_fell_due_while_it_was_down_expires_at_once(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 30; user++) {
        (void)locked(user);
    }
    ledger_writer_world_crash(&world);
    fake_clock_pass_ms(&world.clock, 10 * LEDGER_WRITER_PAY_MS);
    assert_int_equal(ledger_writer_world_up(&world), 0);
    assert_int_equal(ledger_writer_pending_deadlines(world.ledger_writer), 30);
    (void)ledger_writer_world_settle(&world);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_EXPIRED), 30);
    assert_free_item(100, 0, 0);
    ledger_writer_world_agree(&world);
}

/* More events and unpaid orders than one page of the ledger: they are read in several. */
static void many_events_and_deadlines_are_caught_up_with(void **state)
{
    (void)state;
    enum { MANY = 1500 };
    struct ledger_writer_op *restock = ledger_writer_op_new(&world, LEDGER_RESTOCK, 0);
    restock->op.item = LEDGER_WRITER_FREE;
    restock->op.amount = MANY;
    assert_int_equal(result_of(restock), REFUSAL_NONE);
    for (uint64_t user = 1; user <= MANY; user++) {
        (void)ledger_writer_world_bought(&world, user);
        if (user % 100 == 0) {
            ledger_writer_world_flush(&world);
        }
    }
    while (memory_ledger_orders(&world.ledger, ORDER_LOCKED) < MANY) {
        (void)ledger_writer_world_turn(
            &world); /* committed; what the gate learns is never flushed */
        if (!journal_has_room(world.journal, 300)) {
            ledger_writer_world_crash(&world);
            assert_int_equal(ledger_writer_world_up(&world), 0);
        }
    }
    ledger_writer_world_crash(&world);
    assert_int_equal(ledger_writer_world_up(&world), 0);
    assert_int_equal(ledger_writer_pending_deadlines(world.ledger_writer), MANY);
    (void)ledger_writer_world_settle(&world);
    ledger_writer_world_agree(&world);
    ledger_writer_world_pass_ms(&world, LEDGER_WRITER_PAY_MS);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_EXPIRED), MANY);
    ledger_writer_world_agree(&world);
}

/* ---- sales ---- */

/* A draft of so many items, from id * 10 on; what the ledger writer said. */
static int create_draft(uint64_t id, uint32_t items_count)
{
    struct item_row items[8];
    struct sale_row sale = {.id = id,
                            .state = SALE_DRAFT,
                            .pay_within_s = 20,
                            .starts_at_ms = LEDGER_WRITER_NOW + 5000,
                            .ends_at_ms = LEDGER_WRITER_NOW + 9000,
                            .name = "draft",
                            .items_count = items_count,
                            .items = items};
    memset(items, 0, sizeof(items));
    for (uint32_t i = 0; i < items_count; i++) {
        items[i].id = id * 10 + i;
        items[i].total = 5;
        items[i].price_cents = LEDGER_WRITER_CENTS;
    }
    struct ledger_writer_op *op = ledger_writer_op_new(&world, LEDGER_SALE_CREATE, 0);
    op->op.sale_in = &sale;
    return result_of(op);
}

static void a_draft_is_in_the_catalog_and_not_at_the_gate(void **state)
{
    (void)state;
    assert_int_equal(create_draft(5, 1), REFUSAL_NONE);
    assert_string_equal(catalog_sale(world.catalog, 5)->name, "draft");
    assert_int_equal(gate_find_item(&world.box.gate, 50), GATE_NONE);
    ledger_writer_world_pass_ms(&world, 20000); /* no keeper moves a draft */
    assert_int_equal(catalog_sale(world.catalog, 5)->state, SALE_DRAFT);
    assert_int_equal(result_of(ledger_writer_op_sale(&world, LEDGER_SALE_DELETE, 5, SALE_DRAFT)),
                     REFUSAL_NONE);
    assert_null(catalog_sale(world.catalog, 5));
}

/* Drafts have no events: the catalog is read anew when an answer was lost. */
static void a_draft_whose_answer_was_lost_is_found(void **state)
{
    (void)state;
    world.ledger.lose_next = ERR_UNKNOWN;
    assert_int_equal(create_draft(5, 1), ERR_UNKNOWN);
    assert_null(catalog_sale(world.catalog, 5));
    ledger_writer_world_pass_ms(&world, 50);
    assert_non_null(catalog_sale(world.catalog, 5));
}

/* The gate has room for 8 items, 3 are there. What does not fit is refused before the ledger says
 * yes; a batch of moves shares the room. */
static void a_sale_the_gate_has_no_room_for_is_refused(void **state)
{
    (void)state;
    for (uint64_t id = 5; id <= 7; id++) {
        assert_int_equal(create_draft(id, id == 7 ? 6 : 3), REFUSAL_NONE);
    }
    assert_int_equal(result_of(ledger_writer_op_sale(&world, LEDGER_SALE_MOVE, 7, SALE_WARM)),
                     REFUSAL_OVERLOADED);
    assert_int_equal(catalog_sale(world.catalog, 7)->state, SALE_DRAFT);
    struct ledger_writer_op *first = ledger_writer_op_sale(&world, LEDGER_SALE_MOVE, 5, SALE_WARM);
    struct ledger_writer_op *second = ledger_writer_op_sale(&world, LEDGER_SALE_MOVE, 6, SALE_OPEN);
    ledger_writer_post(world.ledger_writer, first);
    ledger_writer_post(world.ledger_writer, second);
    (void)ledger_writer_world_settle(&world);
    while (ledger_writer_collect(world.ledger_writer, 0) != NULL) {
    }
    assert_true(first->error == 0 && first->op.refusal == REFUSAL_NONE);
    assert_true(second->error == 0 && second->op.refusal == REFUSAL_OVERLOADED);
    ledger_writer_op_free(first);
    ledger_writer_op_free(second);
    assert_int_equal(catalog_sale(world.catalog, 5)->state, SALE_WARM);
    assert_int_equal(catalog_sale(world.catalog, 6)->state, SALE_DRAFT);
    assert_int_equal(embedded_gate_applied_event(world.engine), world.ledger.events_count);
}

/* The ledger was away for days. What was promised before is booked, and paid or not, and only then
 * is the sale forgotten. */
static void a_sale_is_not_forgotten_before_its_decisions_are_booked(void **state)
{
    (void)state;
    struct order_id id = ledger_writer_world_bought(&world, 1);
    for (int i = 0; i < 5; i++) {
        world.ledger.fail_next = ERR_IO;
        ledger_writer_world_pass_ms(&world, LEDGER_WRITER_KEEP_MS);
    }
    assert_state(id, ORDER_QUEUED);
    ledger_writer_world_pass_ms(&world, 10000);
    assert_state(id, ORDER_LOCKED);
    assert_int_equal(result_of(ledger_writer_op_order(&world, LEDGER_PAY, id)), REFUSAL_NONE);
    int64_t pay_by_ms = ledger_writer_world_order(&world, id).pay_by_ms;
    ledger_writer_world_pass_ms(&world, pay_by_ms + LEDGER_WRITER_KEEP_MS - 1 -
                                            inside_time_ms(&world.time));
    assert_state(id, ORDER_PAID);
    ledger_writer_world_pass_ms(&world, 1);
    assert_int_equal(gate_find_order(&world.box.gate, id), GATE_NONE);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_PAID), 1);
}

/* Decided and not durable yet, so the ledger cannot know of it: the gate does. */
static void a_sale_with_a_decision_on_its_way_is_not_forgotten(void **state)
{
    (void)state;
    struct order_id id = ledger_writer_world_bought(&world, 1);
    static const int64_t waits_ms[] = {LEDGER_WRITER_ENDS_MS,
                                       LEDGER_WRITER_PAY_MS + LEDGER_WRITER_KEEP_MS, 1000};
    for (size_t i = 0; i < 3; i++) {
        fake_clock_pass_ms(&world.clock, waits_ms[i]);
        for (int turn = 0; turn < 5; turn++) {
            (void)ledger_writer_world_turn(&world); /* and nothing is flushed */
        }
    }
    assert_int_equal(memory_ledger_events(&world.ledger, EVENT_SALE_CLOSED), 1);
    assert_int_equal(memory_ledger_events(&world.ledger, EVENT_SALE_FORGOTTEN), 0);
    (void)ledger_writer_world_settle(&world);
    assert_state(id, ORDER_LOCKED);
    ledger_writer_world_pass_ms(&world, LEDGER_WRITER_PAY_MS);
    assert_state(id, ORDER_EXPIRED);
    ledger_writer_world_agree(&world);
    ledger_writer_world_pass_ms(&world, LEDGER_WRITER_KEEP_MS);
    assert_int_equal(memory_ledger_events(&world.ledger, EVENT_SALE_FORGOTTEN), 1);
    assert_int_equal(gate_find_order(&world.box.gate, id), GATE_NONE);
}

static void a_warm_sale_opens_closes_and_is_forgotten_by_itself(void **state)
{
    (void)state;
    assert_int_equal(create_draft(5, 1), REFUSAL_NONE);
    assert_int_equal(result_of(ledger_writer_op_sale(&world, LEDGER_SALE_MOVE, 5, SALE_WARM)), 0);
    ledger_writer_world_pass_ms(&world, 4999);
    assert_int_equal(ledger_writer_world_item(&world, 50).sale_state, SALE_WARM);
    assert_int_equal(ledger_writer_world_buy(&world, 1, 50, 1).refusal, REFUSAL_TOO_EARLY);
    ledger_writer_world_pass_ms(&world, 1);
    assert_int_equal(ledger_writer_world_item(&world, 50).sale_state, SALE_OPEN);
    assert_int_equal(catalog_sale(world.catalog, 5)->state, SALE_OPEN);
    struct order_id id = ledger_writer_world_buy(&world, 1, 50, 1).order.id;
    (void)ledger_writer_world_settle(&world);
    ledger_writer_world_pass_ms(&world, 4000);
    assert_int_equal(ledger_writer_world_item(&world, 50).sale_state, SALE_CLOSED);
    assert_int_equal(result_of(ledger_writer_op_order(&world, LEDGER_PAY, id)), REFUSAL_NONE);
    /* The board keeps it a day after the end and the time to pay: 9 s and 20 s. */
    int64_t now_ms = inside_time_ms(&world.time);
    ledger_writer_world_pass_ms(&world,
                                LEDGER_WRITER_NOW + 29000 + LEDGER_WRITER_KEEP_MS - 1 - now_ms);
    assert_state(id, ORDER_PAID);
    ledger_writer_world_pass_ms(&world, 1);
    assert_int_equal(gate_find_order(&world.box.gate, id), GATE_NONE);
    assert_int_equal(gate_find_item(&world.box.gate, 50), GATE_NONE);
    assert_null(catalog_sale(world.catalog, 5));
    assert_non_null(memory_ledger_order(&world.ledger, id)); /* the ledger keeps it for ever */
    ledger_writer_world_crash(&world);
    assert_int_equal(ledger_writer_world_up(&world), 0);
    assert_null(catalog_sale(world.catalog, 5));
    assert_int_equal(gate_find_item(&world.box.gate, 50), GATE_NONE);
}

/* Pieces of a forgetting that were journalled when the power went are not done again. */
static void a_forgetting_goes_on_after_a_restart(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 90; user++) {
        (void)ledger_writer_world_bought(&world, user);
    }
    (void)ledger_writer_world_settle(&world);
    ledger_writer_world_pass_ms(&world, LEDGER_WRITER_ENDS_MS);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_EXPIRED), 90);
    fake_clock_pass_ms(&world.clock, LEDGER_WRITER_PAY_MS + LEDGER_WRITER_KEEP_MS);
    for (int i = 0; i < 10; i++) {
        (void)ledger_writer_world_turn(&world);
    }
    assert_int_equal(memory_ledger_events(&world.ledger, EVENT_SALE_FORGOTTEN), 1);
    ledger_writer_world_crash(&world); /* committed, and its record is lost */
    assert_int_equal(ledger_writer_world_up(&world), 0);
    assert_int_equal(world.box.gate.order_pool.used, 0);
    assert_int_equal(world.box.gate.sales_used, 0);
    assert_null(catalog_sale(world.catalog, LEDGER_WRITER_SALE));
    ledger_writer_world_flush(&world);
    ledger_writer_world_crash(&world);
    assert_int_equal(ledger_writer_world_up(&world), 0);
    assert_int_equal(world.found.last_lsn, journal_last_lsn(world.journal));
    assert_int_equal(embedded_gate_applied_event(world.engine), world.ledger.events_count);
}

static void restock_and_a_later_end_reach_the_gate(void **state)
{
    (void)state;
    struct ledger_writer_op *restock = ledger_writer_op_new(&world, LEDGER_RESTOCK, 0);
    restock->op.item = LEDGER_WRITER_FREE;
    restock->op.amount = 25;
    assert_int_equal(result_of(restock), REFUSAL_NONE);
    assert_free_item(125, 0, 0);
    struct sale_row change = {.id = LEDGER_WRITER_SALE,
                              .ends_at_ms = LEDGER_WRITER_NOW + 2 * LEDGER_WRITER_ENDS_MS};
    struct ledger_writer_op *retime = ledger_writer_op_new(&world, LEDGER_SALE_CHANGE, 0);
    retime->op.sale_id = LEDGER_WRITER_SALE;
    retime->op.sale_in = &change;
    retime->op.changes = SALE_HAS_ENDS;
    assert_int_equal(result_of(retime), REFUSAL_NONE);
    assert_int_equal(ledger_writer_world_item(&world, LEDGER_WRITER_FREE).ends_at_ms,
                     change.ends_at_ms);
    ledger_writer_world_pass_ms(&world, LEDGER_WRITER_ENDS_MS);
    assert_int_equal(ledger_writer_world_item(&world, LEDGER_WRITER_FREE).sale_state, SALE_OPEN);
    ledger_writer_world_agree(&world);
}

/* ---- everything at once ---- */

enum { PROMISES = 4096 };
static struct {
    struct order_id id;
    uint64_t lsn;
    bool told; /* its record was durable: the buyer got his 202 */
} promises[PROMISES];
static size_t promises_count;

/* Marks the buyers whose records are durable. A crash before that breaks no promise. */
static void tell_buyers(void)
{
    uint64_t durable = journal_durable_lsn(world.journal);
    for (size_t i = 0; i < promises_count; i++) {
        promises[i].told |= promises[i].lsn <= durable;
    }
}

static void crash_and_restart(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < promises_count; i++) {
        if (promises[i].told) {
            promises[kept++] = promises[i];
        }
    }
    promises_count = kept;
    ledger_writer_world_crash(&world);
    assert_int_equal(ledger_writer_world_up(&world), 0);
}

static void buy_something(struct prng *prng, uint64_t user)
{
    struct gate_request request =
        ledger_writer_world_buy(&world, user, LEDGER_WRITER_ONCE + prng_below(prng, 3), 1);
    if (request.refusal == REFUSAL_NONE) {
        assert_true(promises_count < PROMISES);
        promises[promises_count].id = request.order.id;
        promises[promises_count].lsn = request.lsn;
        promises[promises_count++].told = false;
    }
}

/* A buyer who comes while a batch is under way. */
static void buy_meanwhile(void *context)
{
    static uint64_t user = 1000000;
    buy_something(context, user++);
    world.ledger.meanwhile = NULL;
}

static void something_happens(struct prng *prng, uint64_t user)
{
    uint64_t luck = prng_below(prng, 100);
    if (luck < 45) {
        buy_something(prng, user);
    } else if (luck < 70 && world.ledger.orders_count > 0) {
        uint64_t n = prng_below(prng, world.ledger.orders_count);
        enum ledger_kind kind = luck < 60 ? LEDGER_PAY : LEDGER_CANCEL;
        (void)result_of(ledger_writer_op_order(&world, kind, world.ledger.orders[n].id));
    } else if (luck < 74) {
        world.ledger.fail_next = ERR_IO;
    } else if (luck < 78) {
        world.ledger.lose_next = ERR_UNKNOWN;
    } else if (luck < 82) {
        world.ledger.meanwhile = buy_meanwhile;
        world.ledger.meanwhile_context = prng;
    } else if (luck < 84) { /* the disk dies somewhere in what follows */
        world.ram.dead_at = world.ram.ops + 1 + prng_below(prng, 8);
    } else if (luck < 88 || journal_failed(world.journal)) {
        crash_and_restart();
    } else {
        ledger_writer_world_pass_ms(&world, (int64_t)prng_below(prng, 9000));
    }
}

/* Buys, payments, cancels, restarts and every kind of trouble, drawn; in the end all is exact. */
static void whatever_happens_nothing_is_lost_or_doubled(void **state)
{
    (void)state;
    const char *given = getenv("SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    struct prng prng = prng_of(seed);
    promises_count = 0;
    struct ledger_writer_op *restock = ledger_writer_op_new(&world, LEDGER_RESTOCK, 0);
    restock->op.item = LEDGER_WRITER_FREE;
    restock->op.amount = 1000;
    assert_int_equal(result_of(restock), REFUSAL_NONE);
    for (uint64_t i = 1; i <= 800; i++) {
        something_happens(&prng, i);
        tell_buyers();
    }
    world.ledger.fail_next = 0;
    world.ledger.lose_next = 0;
    world.ledger.meanwhile = NULL;
    crash_and_restart(); /* on a disk that works */
    ledger_writer_world_pass_ms(&world, 20000);
    ledger_writer_world_agree(&world);
    for (size_t i = 0; i < promises_count; i++) {
        assert_non_null(memory_ledger_order(&world.ledger, promises[i].id));
    }
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_FAILED), 0);
    ledger_writer_world_pass_ms(&world, LEDGER_WRITER_PAY_MS);
    ledger_writer_world_agree(&world);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_LOCKED), 0);
    assert_true(promises_count > 20);
    assert_true(memory_ledger_orders(&world.ledger, ORDER_PAID) > 0);
    assert_true(memory_ledger_orders(&world.ledger, ORDER_EXPIRED) > 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(after_a_latch_ops_are_turned_away_and_reads_go_on),
        TEST(while_the_journal_waits_for_space_nothing_is_written),
        TEST(a_full_ledger_is_said_until_it_commits_again),
        TEST(a_commit_the_gate_cannot_follow_is_not_told),
        TEST(a_restart_books_applies_and_expires_what_was_open),
        TEST(what_fell_due_while_it_was_down_expires_at_once),
        TEST(many_events_and_deadlines_are_caught_up_with),
        TEST(a_draft_is_in_the_catalog_and_not_at_the_gate),
        TEST(a_draft_whose_answer_was_lost_is_found),
        TEST(a_sale_the_gate_has_no_room_for_is_refused),
        TEST(a_warm_sale_opens_closes_and_is_forgotten_by_itself),
        TEST(a_sale_is_not_forgotten_before_its_decisions_are_booked),
        TEST(a_sale_with_a_decision_on_its_way_is_not_forgotten),
        TEST(a_forgetting_goes_on_after_a_restart),
        TEST(restock_and_a_later_end_reach_the_gate),
        TEST(whatever_happens_nothing_is_lost_or_doubled),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + TABLE_RUN(start_cases, a_start_is_refused, set_up, tear_down);
}
