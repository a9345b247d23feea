/*
 * The ledger writer books durable decisions, writes posted ops, expires what is due, and applies events
 * to the gate. Through failed batches, lost answers, slow ledgers, a failed journal and restarts,
 * nothing is lost and nothing is done twice.
 */
#include "ledger_writer_fixture.h"

/* ---- booking ---- */

static void a_decision_is_booked_once_it_is_durable(void **state)
{
    (void)state;
    struct order_id id = ledger_writer_world_bought(&world, 7);
    uint64_t batches = world.ledger.batches;
    for (int i = 0; i < 5; i++) {
        (void)ledger_writer_world_turn(&world);
    }
    assert_int_equal(world.ledger.batches, batches);
    assert_null(memory_ledger_order(&world.ledger, id));
    assert_state(id, ORDER_QUEUED);
    fake_clock_pass_ms(&world.clock, 3);
    (void)ledger_writer_world_settle(&world);
    const struct order_row *row = memory_ledger_order(&world.ledger, id);
    assert_non_null(row);
    assert_int_equal(row->created_at_ms, LEDGER_WRITER_NOW);
    assert_int_equal(row->locked_at_ms, LEDGER_WRITER_NOW + 3);
    assert_state(id, ORDER_LOCKED);
    assert_int_equal(ledger_writer_world_order(&world, id).pay_by_ms,
                     LEDGER_WRITER_NOW + 3 + LEDGER_WRITER_PAY_MS);
    assert_int_equal(ledger_writer_booked_lsn(world.ledger_writer), row->lsn);
    assert_int_equal(ledger_writer_pending_deadlines(world.ledger_writer), 1);
    assert_int_equal(metrics_sum(&world.metrics, METRIC_ORDERS_LOCKED_TOTAL), 1);
    ledger_writer_world_agree(&world);
}

static void booking_channel_share_transactions_up_to_the_batch(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 60; user++) {
        (void)ledger_writer_world_bought(&world, user);
    }
    uint64_t commits = world.ledger.commits;
    (void)ledger_writer_world_settle(&world);
    assert_int_equal(world.ledger.commits, commits + 1);
    assert_int_equal(world.ledger.last_count, 60);
    ledger_writer_world_agree(&world);
    ledger_writer_world_down(&world);
    world.options.batch_max = 8;
    assert_int_equal(ledger_writer_world_up(&world), 0);
    for (uint64_t user = 61; user <= 85; user++) {
        (void)ledger_writer_world_bought(&world, user);
    }
    commits = world.ledger.commits;
    (void)ledger_writer_world_settle(&world);
    assert_int_equal(world.ledger.commits, commits + 4);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_LOCKED), 85);
    ledger_writer_world_agree(&world);
}

/* The ledger is the last guard: what it refuses fails at the gate, with its reason. */
static void what_the_ledger_refuses_fails_with_a_reason(void **state)
{
    (void)state;
    struct item_row *row = (struct item_row *)memory_ledger_item(&world.ledger, LEDGER_WRITER_FREE);
    row->total = row->available = 1; /* the gate believes in 100 */
    struct order_id lucky = ledger_writer_world_bought(&world, 1);
    struct order_id late = ledger_writer_world_bought(&world, 2);
    (void)ledger_writer_world_settle(&world);
    assert_state(lucky, ORDER_LOCKED);
    assert_state(late, ORDER_FAILED);
    assert_int_equal(ledger_writer_world_order(&world, late).reason, REFUSAL_NO_STOCK);
    struct item_view view = ledger_writer_world_item(&world, LEDGER_WRITER_FREE);
    assert_int_equal(view.total, 99); /* written off */
    assert_int_equal(view.available, 98);
    assert_int_equal(metrics_sum(&world.metrics, METRIC_ORDERS_FAILED_TOTAL), 1);
    gate_audit(&world.box.gate);
}

/* Records that are no decisions move the cursor too, but not with a transaction each. */
static void the_cursor_follows_the_journal_slowly(void **state)
{
    (void)state;
    struct order_id id = locked(7);
    assert_int_equal(result_of(ledger_writer_op_order(&world, LEDGER_PAY, id)), REFUSAL_NONE);
    uint64_t commits = world.ledger.commits;
    for (int i = 0; i < 5; i++) {
        ledger_writer_world_pass_ms(&world, 100);
    }
    assert_int_equal(world.ledger.commits, commits);
    ledger_writer_world_pass_ms(&world, 1000);
    assert_int_equal(world.ledger.commits, commits + 1);
    assert_int_equal(world.ledger.booked_lsn, journal_last_lsn(world.journal));
    assert_int_equal(ledger_writer_booked_lsn(world.ledger_writer),
                     journal_last_lsn(world.journal));
    for (int i = 0; i < 5; i++) {
        ledger_writer_world_pass_ms(&world, 2000); /* and then there is nothing to write */
    }
    assert_int_equal(world.ledger.commits, commits + 1);
}

/* ---- what loops ask for ---- */

static void an_op_comes_back_to_its_loop_with_the_lsn_to_wait_for(void **state)
{
    (void)state;
    struct order_id id = locked(7);
    struct ledger_writer_op *op = ledger_writer_op_order(&world, LEDGER_PAY, id);
    op->loop = 1;
    waker_sleepy(&world.wakers[0], UINT64_MAX);
    waker_sleepy(&world.wakers[1], UINT64_MAX);
    ledger_writer_post(world.ledger_writer, op);
    assert_null(ledger_writer_collect(world.ledger_writer, 1));
    (void)ledger_writer_world_turn(&world);
    assert_null(ledger_writer_collect(world.ledger_writer, 0));
    assert_ptr_equal(ledger_writer_collect(world.ledger_writer, 1), op);
    assert_null(ledger_writer_collect(world.ledger_writer, 1));
    assert_int_equal(op->error, 0);
    assert_int_equal(op->op.refusal, REFUSAL_NONE);
    assert_int_equal(op->op.order.state, ORDER_PAID);
    assert_int_equal(op->lsn, ledger_writer_world_order(&world, id).lsn);
    assert_true(op->lsn > journal_durable_lsn(world.journal)); /* told only when it is durable */
    assert_int_equal(world.wakes[0], 0);
    assert_int_equal(world.wakes[1], 1);
    ledger_writer_op_free(op);
    (void)ledger_writer_world_settle(&world);
    ledger_writer_world_agree(&world);
}

static void many_ops_are_answered_each_once_and_in_order(void **state)
{
    (void)state;
    enum { MANY = 1300 }; /* more than one batch takes of them */
    static struct ledger_writer_op *ops[MANY];
    struct order_id id = locked(7);
    for (int i = 0; i < MANY; i++) {
        ops[i] = ledger_writer_op_order(&world, LEDGER_CANCEL, id);
        ledger_writer_post(world.ledger_writer, ops[i]);
    }
    (void)ledger_writer_world_settle(&world);
    const struct post *post = &ledger_writer_collect(world.ledger_writer, 0)->post;
    for (int i = 0; i < MANY; i++) {
        assert_ptr_equal(post, ops[i]);
        assert_int_equal(ops[i]->error, 0);
        assert_int_equal(ops[i]->op.refusal, REFUSAL_NONE);
        assert_int_equal(ops[i]->op.repeated, i > 0);
        post = post->next;
    }
    assert_null(post);
    for (int i = 0; i < MANY; i++) {
        ledger_writer_op_free(ops[i]);
    }
    assert_free_item(100, 0, 0);
    ledger_writer_world_agree(&world);
}

/* ---- one winner ---- */

static void pay_and_cancel_have_one_winner(void **state)
{
    (void)state;
    static const enum ledger_kind kinds[] = {LEDGER_PAY, LEDGER_CANCEL};
    for (uint64_t first = 0; first < 2; first++) {
        struct order_id id = locked(1 + first);
        struct ledger_writer_op *winner = ledger_writer_op_order(&world, kinds[first], id);
        struct ledger_writer_op *loser = ledger_writer_op_order(&world, kinds[1 - first], id);
        ledger_writer_post(world.ledger_writer, winner); /* both in one transaction */
        ledger_writer_post(world.ledger_writer, loser);
        (void)ledger_writer_world_settle(&world);
        assert_ptr_equal(ledger_writer_collect(world.ledger_writer, 0), winner);
        assert_int_equal(winner->op.refusal, REFUSAL_NONE);
        assert_int_equal(loser->op.refusal, first == 0 ? REFUSAL_ALREADY_PAID : REFUSAL_EXPIRED);
        assert_state(id, first == 0 ? ORDER_PAID : ORDER_CANCELLED);
        ledger_writer_op_free(winner);
        ledger_writer_op_free(loser);
    }
    assert_free_item(99, 0, 1);
    ledger_writer_world_agree(&world);
}

static void an_order_expires_at_its_deadline_and_never_before(void **state)
{
    (void)state;
    struct order_id in_time = locked(1);
    struct order_id too_late = locked(2);
    ledger_writer_world_pass_ms(&world, LEDGER_WRITER_PAY_MS - 1);
    assert_state(in_time, ORDER_LOCKED);
    assert_state(too_late, ORDER_LOCKED);
    assert_int_equal(result_of(ledger_writer_op_order(&world, LEDGER_PAY, in_time)), REFUSAL_NONE);
    ledger_writer_world_pass_ms(&world, 1);
    assert_state(in_time, ORDER_PAID);
    assert_state(too_late, ORDER_EXPIRED);
    assert_free_item(99, 0, 1);
    assert_int_equal(ledger_writer_pending_deadlines(world.ledger_writer), 0);
    ledger_writer_world_pass_ms(&world, LEDGER_WRITER_PAY_MS); /* its unit comes back once */
    assert_free_item(99, 0, 1);
    assert_int_equal(world.ledger.ops[LEDGER_EXPIRE], 2); /* the paid one was asked for in vain */
    ledger_writer_world_agree(&world);
}

static void a_late_payment_revives_nothing(void **state)
{
    (void)state;
    struct order_id id = locked(1);
    /* It stands before the expiry in the same batch, and is late all the same. */
    fake_clock_pass_ms(&world.clock, LEDGER_WRITER_PAY_MS);
    struct ledger_writer_op *late = ledger_writer_op_order(&world, LEDGER_PAY, id);
    assert_int_equal(result_of(late), REFUSAL_EXPIRED);
    assert_state(id, ORDER_EXPIRED);
    assert_int_equal(result_of(ledger_writer_op_order(&world, LEDGER_PAY, id)), REFUSAL_EXPIRED);
    assert_int_equal(result_of(ledger_writer_op_order(&world, LEDGER_CANCEL, id)), REFUSAL_EXPIRED);
    assert_state(id, ORDER_EXPIRED);
    assert_free_item(100, 0, 0);
    ledger_writer_world_agree(&world);
}

static void deadlines_are_looked_at_once_a_tick(void **state)
{
    (void)state;
    ledger_writer_world_down(&world);
    world.options.tick_ms = 50;
    assert_int_equal(ledger_writer_world_up(&world), 0);
    struct order_id id = locked(1);
    int64_t slept_us = 0;
    for (;;) {
        int64_t sleep_us = ledger_writer_world_settle(&world);
        if (ledger_writer_world_order(&world, id).state != ORDER_LOCKED) {
            break;
        }
        assert_true(sleep_us >= 50000 && sleep_us <= 1000000);
        fake_clock_pass_us(&world.clock, sleep_us);
        slept_us += sleep_us;
    }
    /* Sleeping as long as the ledger writer says, the order goes within a tick of its deadline. */
    assert_true(slept_us >= LEDGER_WRITER_PAY_MS * 1000LL &&
                slept_us <= (LEDGER_WRITER_PAY_MS + 100) * 1000LL);
}

/* ---- the ledger fails ---- */

static void after_a_failed_batch_everything_is_tried_again(void **state)
{
    (void)state;
    struct order_id old = locked(1);
    struct order_id new = ledger_writer_world_bought(&world, 2);
    struct ledger_writer_op *op = ledger_writer_op_order(&world, LEDGER_PAY, old);
    ledger_writer_post(world.ledger_writer, op);
    world.ledger.fail_next = ERR_IO;
    int64_t sleep_us = ledger_writer_world_settle(&world);
    assert_ptr_equal(ledger_writer_collect(world.ledger_writer, 0),
                     op); /* told, and not tried again */
    assert_int_equal(op->error, ERR_IO);
    assert_int_equal(op->lsn, 0);
    ledger_writer_op_free(op);
    assert_state(old, ORDER_LOCKED);
    assert_state(new, ORDER_QUEUED);
    assert_int_equal(sleep_us, 50000);
    uint64_t batches = world.ledger.batches;
    fake_clock_pass_us(&world.clock, sleep_us - 1);
    (void)ledger_writer_world_settle(&world);
    assert_int_equal(world.ledger.batches, batches); /* it waits its time */
    fake_clock_pass_us(&world.clock, 1);
    (void)ledger_writer_world_settle(&world);
    assert_state(new, ORDER_LOCKED);
    assert_int_equal(world.ledger.repeated, 0);
    assert_int_equal(result_of(ledger_writer_op_order(&world, LEDGER_PAY, old)), REFUSAL_NONE);
    ledger_writer_world_agree(&world);
}

static void while_it_waits_new_ops_are_turned_away_and_decisions_are_not(void **state)
{
    (void)state;
    struct order_id first = ledger_writer_world_bought(&world, 1);
    world.ledger.fail_next = ERR_NOSPACE;
    (void)ledger_writer_world_settle(&world);
    assert_int_equal(result_of(ledger_writer_op_order(&world, LEDGER_CANCEL, first)), ERR_IO);
    struct order_id second = ledger_writer_world_bought(&world, 2); /* selling goes on */
    ledger_writer_world_pass_ms(&world, 10);
    assert_state(second, ORDER_QUEUED);
    ledger_writer_world_pass_ms(&world, 40);
    assert_state(first, ORDER_LOCKED);
    assert_state(second, ORDER_LOCKED);
    ledger_writer_world_agree(&world);
}

static void the_pauses_grow_up_to_a_bound_and_end_with_success(void **state)
{
    (void)state;
    struct order_id id = ledger_writer_world_bought(&world, 1);
    int64_t want_us = 50000;
    for (int i = 0; i < 12; i++) {
        world.ledger.fail_next = ERR_IO;
        uint64_t batches = world.ledger.batches;
        int64_t sleep_us = ledger_writer_world_settle(&world);
        assert_int_equal(world.ledger.batches, batches + 1);
        assert_int_equal(sleep_us, want_us);
        fake_clock_pass_us(&world.clock, sleep_us);
        want_us = want_us * 2 > 5000000 ? 5000000 : want_us * 2;
    }
    (void)ledger_writer_world_settle(&world);
    assert_state(id, ORDER_LOCKED);
    (void)ledger_writer_world_bought(&world, 2);
    world.ledger.fail_next = ERR_IO;
    assert_int_equal(ledger_writer_world_settle(&world), 50000); /* from the beginning */
    fake_clock_pass_us(&world.clock, 50000);
    (void)ledger_writer_world_settle(&world);
    assert_int_equal(world.ledger.repeated, 0);
    ledger_writer_world_agree(&world);
}

static void expiries_of_a_failed_batch_are_done_later_and_once(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 20; user++) {
        (void)locked(user);
        fake_clock_pass_ms(&world.clock, 1);
    }
    for (int i = 0; i < 3; i++) {
        world.ledger.fail_next = ERR_IO;
        ledger_writer_world_pass_ms(&world, LEDGER_WRITER_PAY_MS / 2);
    }
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_LOCKED), 20);
    assert_int_equal(ledger_writer_pending_deadlines(world.ledger_writer), 20);
    ledger_writer_world_pass_ms(&world, 10000);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_EXPIRED), 20);
    assert_int_equal(world.ledger.ops[LEDGER_EXPIRE], 20);
    assert_free_item(100, 0, 0);
    ledger_writer_world_agree(&world);
}

static void a_commit_whose_answer_was_lost_is_found_and_applied_once(void **state)
{
    (void)state;
    struct order_id old = locked(1);
    struct order_id going = locked(2);
    struct order_id new = ledger_writer_world_bought(&world, 3);
    struct ledger_writer_op *op = ledger_writer_op_order(&world, LEDGER_PAY, old);
    struct ledger_writer_op *other = ledger_writer_op_order(&world, LEDGER_CANCEL, going);
    ledger_writer_post(world.ledger_writer, op);
    ledger_writer_post(world.ledger_writer, other);
    world.ledger.lose_next = ERR_UNKNOWN;
    (void)ledger_writer_world_settle(&world);
    assert_ptr_equal(ledger_writer_collect(world.ledger_writer, 0), op);
    assert_int_equal(op->error, ERR_UNKNOWN);
    assert_int_equal(other->error, ERR_UNKNOWN);
    assert_state(old, ORDER_LOCKED); /* the gate does not know yet */
    assert_state(new, ORDER_QUEUED);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_PAID), 1);
    size_t events = world.ledger.events_count;
    ledger_writer_world_pass_ms(&world, 50);
    assert_state(old, ORDER_PAID);
    assert_state(going, ORDER_CANCELLED);
    assert_state(new, ORDER_LOCKED);
    assert_int_equal(world.ledger.events_count, events); /* booked again, to no effect */
    assert_int_equal(world.ledger.repeated, 1);
    assert_int_equal(metrics_sum(&world.metrics, METRIC_ORDERS_LOCKED_TOTAL), 3);
    assert_int_equal(metrics_sum(&world.metrics, METRIC_ORDERS_PAID_TOTAL), 1);
    ledger_writer_world_agree(&world);
    /* Asked again under the same payment id, the loop learns how it ended. */
    strcpy(other->op.key, op->op.key);
    ledger_writer_op_free(op);
    other->op.kind = LEDGER_PAY;
    other->op.id = old;
    ledger_writer_world_do(&world, other);
    assert_true(other->error == 0 && other->op.refusal == REFUSAL_NONE && other->op.repeated);
    ledger_writer_op_free(other);
    /* Its deadline is known, once. */
    ledger_writer_world_pass_ms(&world, LEDGER_WRITER_PAY_MS);
    assert_state(new, ORDER_EXPIRED);
    assert_free_item(99, 0, 1);
    assert_int_equal(ledger_writer_pending_deadlines(world.ledger_writer), 0);
    ledger_writer_world_agree(&world);
}

static void a_lost_answer_of_expiries_returns_each_unit_once(void **state)
{
    (void)state;
    for (uint64_t user = 1; user <= 5; user++) {
        (void)locked(user);
    }
    world.ledger.lose_next = ERR_IO;
    ledger_writer_world_pass_ms(&world, LEDGER_WRITER_PAY_MS);
    assert_int_equal(memory_ledger_orders(&world.ledger, ORDER_EXPIRED), 5);
    assert_free_item(95, 5, 0);
    ledger_writer_world_pass_ms(&world, 50);
    assert_free_item(100, 0, 0);
    ledger_writer_world_pass_ms(&world, 10000);
    assert_free_item(100, 0, 0);
    ledger_writer_world_agree(&world);
}

static void a_lost_answer_about_a_sale_reaches_the_catalog(void **state)
{
    (void)state;
    struct ledger_writer_op *op =
        ledger_writer_op_sale(&world, LEDGER_SALE_MOVE, LEDGER_WRITER_SALE, SALE_PAUSED);
    world.ledger.lose_next = ERR_UNKNOWN;
    assert_int_equal(result_of(op), ERR_UNKNOWN);
    assert_int_equal(catalog_sale(world.catalog, LEDGER_WRITER_SALE)->state, SALE_OPEN);
    ledger_writer_world_pass_ms(&world, 50);
    assert_int_equal(catalog_sale(world.catalog, LEDGER_WRITER_SALE)->state, SALE_PAUSED);
    assert_int_equal(ledger_writer_world_buy(&world, 1, LEDGER_WRITER_FREE, 1).refusal,
                     REFUSAL_NOT_OPEN);
    ledger_writer_world_agree(&world);
}

/* The events cannot be read: nothing is written before they are. */
static void nothing_is_written_before_the_lost_events_are_known(void **state)
{
    (void)state;
    struct order_id id = ledger_writer_world_bought(&world, 1);
    world.ledger.lose_next = ERR_UNKNOWN;
    (void)ledger_writer_world_settle(&world);
    world.ledger.fail_read = ERR_IO;
    uint64_t batches = world.ledger.batches;
    for (int i = 0; i < 10; i++) {
        ledger_writer_world_pass_ms(&world, 500);
        assert_int_equal(result_of(ledger_writer_op_order(&world, LEDGER_CANCEL, id)), ERR_IO);
    }
    assert_int_equal(world.ledger.batches, batches);
    assert_state(id, ORDER_QUEUED);
    world.ledger.fail_read = 0;
    ledger_writer_world_pass_ms(&world, 500);
    assert_state(id, ORDER_LOCKED);
    ledger_writer_world_agree(&world);
}

/* The commit is known, but the gate could not follow: the events are read again. */
static void a_catalog_that_cannot_be_read_is_caught_up_with(void **state)
{
    (void)state;
    struct ledger_writer_op *op =
        ledger_writer_op_sale(&world, LEDGER_SALE_MOVE, LEDGER_WRITER_SALE, SALE_PAUSED);
    ledger_writer_post(world.ledger_writer, op);
    world.ledger.fail_read = ERR_IO;
    (void)ledger_writer_world_turn(&world);
    assert_ptr_equal(ledger_writer_collect(world.ledger_writer, 0), op);
    assert_int_equal(op->error, ERR_IO);
    ledger_writer_op_free(op);
    assert_int_equal(ledger_writer_world_item(&world, LEDGER_WRITER_FREE).sale_state, SALE_OPEN);
    world.ledger.fail_read = 0;
    ledger_writer_world_pass_ms(&world, 1000);
    assert_int_equal(ledger_writer_world_item(&world, LEDGER_WRITER_FREE).sale_state, SALE_PAUSED);
    assert_int_equal(catalog_sale(world.catalog, LEDGER_WRITER_SALE)->state, SALE_PAUSED);
    ledger_writer_world_agree(&world);
}

/* An event the gate cannot apply is passed over, or nothing after it would ever happen. */
static void an_impossible_event_is_skipped(void **state)
{
    (void)state;
    struct order_id id = ledger_writer_world_bought(&world, 1);
    memory_ledger_event(&world.ledger,
                        (struct ledger_event){.kind = EVENT_ORDER_PAID,
                                              .sale = LEDGER_WRITER_SALE,
                                              .item = LEDGER_WRITER_FREE,
                                              .id = order_id_fresh(LEDGER_WRITER_FREE, 1, 1),
                                              .qty = 1});
    world.ledger.fail_next = ERR_IO; /* has it look for lost events */
    (void)ledger_writer_world_settle(&world);
    ledger_writer_world_pass_ms(&world, 50);
    assert_state(id, ORDER_LOCKED);
    assert_int_equal(embedded_gate_applied_event(world.engine), world.ledger.events_count);
    ledger_writer_world_crash(&world);
    assert_int_equal(ledger_writer_world_up(&world), 0);
    assert_int_equal(embedded_gate_applied_event(world.engine), world.ledger.events_count);
}

/* ---- while a batch is under way ---- */

static struct ledger_writer_op *late;

static void post_late(void *context)
{
    (void)context;
    ledger_writer_post(world.ledger_writer, late);
    assert_null(ledger_writer_collect(world.ledger_writer, 0));
    assert_state(late->op.id, ORDER_LOCKED);
    world.ledger.meanwhile = NULL;
}

static void what_comes_during_a_write_waits_for_the_next(void **state)
{
    (void)state;
    struct order_id id = locked(1);
    struct ledger_writer_op *pay = ledger_writer_op_order(&world, LEDGER_PAY, id);
    late = ledger_writer_op_order(&world, LEDGER_CANCEL, id);
    world.ledger.meanwhile = post_late;
    uint64_t batches = world.ledger.batches;
    ledger_writer_post(world.ledger_writer, pay);
    (void)ledger_writer_world_turn(&world);
    assert_int_equal(world.ledger.batches, batches + 1);
    assert_ptr_equal(ledger_writer_collect(world.ledger_writer, 0), pay);
    assert_int_equal(pay->error, 0);
    assert_null(pay->post.next);
    assert_state(id, ORDER_PAID);
    (void)ledger_writer_world_settle(&world);
    assert_ptr_equal(ledger_writer_collect(world.ledger_writer, 0), late);
    assert_int_equal(late->op.refusal, REFUSAL_ALREADY_PAID);
    ledger_writer_op_free(pay);
    ledger_writer_op_free(late);
    ledger_writer_world_agree(&world);
}

/* The keeper and an operator in one transaction, at the very moment of the end. */
static void an_end_that_is_moved_as_it_comes_does_not_come(void **state)
{
    (void)state;
    struct sale_row change = {.id = LEDGER_WRITER_SALE,
                              .ends_at_ms = LEDGER_WRITER_NOW + 2 * LEDGER_WRITER_ENDS_MS};
    struct ledger_writer_op *retime = ledger_writer_op_new(&world, LEDGER_SALE_CHANGE, 0);
    retime->op.sale_id = LEDGER_WRITER_SALE;
    retime->op.sale_in = &change;
    retime->op.changes = SALE_HAS_ENDS;
    fake_clock_pass_ms(&world.clock, LEDGER_WRITER_ENDS_MS);
    ledger_writer_world_do(&world, retime);
    assert_int_equal(retime->error, 0);
    assert_int_equal(retime->op.refusal, REFUSAL_NONE);
    ledger_writer_op_free(retime);
    assert_int_equal(world.ledger.sales[0]->state, SALE_OPEN);
    assert_int_equal(ledger_writer_world_item(&world, LEDGER_WRITER_FREE).sale_state, SALE_OPEN);
    ledger_writer_world_pass_ms(&world, LEDGER_WRITER_ENDS_MS);
    assert_int_equal(world.ledger.sales[0]->state, SALE_CLOSED);
    ledger_writer_world_agree(&world);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_decision_is_booked_once_it_is_durable),
        TEST(booking_channel_share_transactions_up_to_the_batch),
        TEST(what_the_ledger_refuses_fails_with_a_reason),
        TEST(the_cursor_follows_the_journal_slowly),
        TEST(an_op_comes_back_to_its_loop_with_the_lsn_to_wait_for),
        TEST(many_ops_are_answered_each_once_and_in_order),
        TEST(pay_and_cancel_have_one_winner),
        TEST(an_order_expires_at_its_deadline_and_never_before),
        TEST(a_late_payment_revives_nothing),
        TEST(deadlines_are_looked_at_once_a_tick),
        TEST(after_a_failed_batch_everything_is_tried_again),
        TEST(while_it_waits_new_ops_are_turned_away_and_decisions_are_not),
        TEST(the_pauses_grow_up_to_a_bound_and_end_with_success),
        TEST(expiries_of_a_failed_batch_are_done_later_and_once),
        TEST(a_commit_whose_answer_was_lost_is_found_and_applied_once),
        TEST(a_lost_answer_of_expiries_returns_each_unit_once),
        TEST(a_lost_answer_about_a_sale_reaches_the_catalog),
        TEST(nothing_is_written_before_the_lost_events_are_known),
        TEST(a_catalog_that_cannot_be_read_is_caught_up_with),
        TEST(an_impossible_event_is_skipped),
        TEST(what_comes_during_a_write_waits_for_the_next),
        TEST(an_end_that_is_moved_as_it_comes_does_not_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
