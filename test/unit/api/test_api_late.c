/*
 * A worker whose gate answers late: every call gets the answer it would have got at once; a client that
 * has gone gets none and loses nothing; nothing is shown that is older than what was shown.
 */
#include "late_gate_fixture.h"

#include "base/err.h"

/* ---- the same answers ---- */

/* What differs from run to run and is not the gate's: jitter. */
static void without_jitter(const char *heard, FILE *out)
{
    const char *at = heard;
    while (*at != '\0') {
        static const char *const marks[] = {"Retry-After: ", "\"retry_after_ms\":", "\nretry: "};
        size_t skip = 0;
        for (size_t i = 0; i < 3; i++) {
            skip = strncmp(at, marks[i], strlen(marks[i])) == 0 ? strlen(marks[i]) : skip;
        }
        (void)fprintf(out, "%.*s", skip > 0 ? (int)skip : 1, at);
        at += skip > 0 ? skip : 1;
        at += skip > 0 ? strspn(at, "0123456789") : 0;
    }
}

static void say(FILE *out, const char *method, const char *path, uint64_t user, const char *body)
{
    without_jitter(api_world_call(&world, method, path, user, body), out);
}

static void say_payment(FILE *out, struct order_id id, const char *key, int64_t cents)
{
    uint32_t connection = api_world_connect(&world);
    api_world_send_payment(&world, connection, id, key, cents);
    api_world_answer(&world);
    without_jitter(api_world_heard(&world, connection), out);
    memory_net_reset(world.net, connection);
    api_world_settle(&world);
}

/* Every call that uses the gate, in good and bad cases. Returns all answers as one text. */
static char *whole_story(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    struct order_id unknown = order_id_once(LEDGER_WRITER_ONCE, 77, 0);
    struct order_id mine = api_world_buy(&world, 1, LEDGER_WRITER_ONCE);
    struct order_id other = api_world_buy(&world, 2, LEDGER_WRITER_THREE);
    struct order_id third = api_world_buy(&world, 1, LEDGER_WRITER_FREE);
    say(out, "POST", "/v1/items/11/ticket", 1, NULL);
    say(out, "POST", "/v1/items/99/ticket", 1, NULL);
    say(out, "GET", api_world_path(mine, ""), 1, NULL);
    say(out, "GET", api_world_path(mine, ""), 2, NULL);
    say(out, "GET", api_world_path(unknown, ""), 1, NULL);
    say(out, "GET", api_world_path(mine, "?wait_ms=10"), 1, NULL); /* LOCKED: at once */
    say(out, "GET", api_world_path(mine, "/events"), 1, NULL);
    say(out, "GET", api_world_path(other, "/events"), 1, NULL);
    say(out, "POST", api_world_path(other, "/cancel"), 1, NULL);
    say(out, "POST", api_world_path(other, "/cancel"), 2, NULL);
    say(out, "POST", api_world_path(other, "/cancel"), 2, NULL);
    say_payment(out, mine, "p-1", LEDGER_WRITER_CENTS);
    say_payment(out, mine, "p-1", LEDGER_WRITER_CENTS);
    say_payment(out, unknown, "p-2", LEDGER_WRITER_CENTS);
    say(out, "POST", api_world_path(third, "/pay"), 1, NULL);
    say(out, "POST", api_world_path(third, "/pay"), 2, NULL);
    say(out, "GET", api_world_path(mine, "/events"), 1, NULL); /* PAID: one event, and it ends */
    say(out, "GET", "/v1/me/orders", 1, NULL);
    char path[128];
    (void)snprintf(path, sizeof(path), "/v1/admin%s", api_world_path(mine, "") + 3);
    say(out, "GET", path, 0, NULL);
    (void)snprintf(path, sizeof(path), "/v1/admin%s", api_world_path(unknown, "") + 3);
    say(out, "GET", path, 0, NULL);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void late_answers_are_those_that_would_have_been_given_at_once(void **state)
{
    (void)state;
    const char *given = getenv("SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    char *at_once = whole_story();
    expect_text(at_once, "\"status\":\"PAID\"");
    expect_text(at_once, "\"status\":\"CANCELLED\"");
    assert_int_equal(count_of(at_once, "404 Not Found"), 8);
    for (uint64_t i = 0; i < 20; i++) {
        struct prng prng = prng_of(seed + i);
        api_world_down(&world);
        api_world_up(&world, seed + i);
        world.gate.late = i == 0 ? 1000 : 100 + (uint32_t)prng_below(&prng, 900);
        world.gate.early = (uint32_t)prng_below(&prng, 1001);
        world.gate.in_order = prng_below(&prng, 2) == 0;
        char *later = whole_story();
        assert_string_equal(later, at_once);
        assert_true(world.gate.made_late > 0);
        free(later);
    }
    free(at_once);
}

/* ---- clients that have gone ---- */

static void a_buy_whose_connection_has_gone_is_decided_all_the_same(void **state)
{
    (void)state;
    struct order_id id;
    struct order_id watched = queued_order(2);
    be_late(false);
    uint32_t gone = send_buy(1, &id);
    api_world_flush(&world);
    assert_int_equal(under_way(BUDGET_GATE), 1);
    memory_net_reset(world.net, gone);
    api_world_flush(&world);
    /* Another one gets the same number, and waits for something else. */
    be_prompt();
    uint32_t next = watch(watched, 2, "?wait_ms=20000");
    assert_int_equal(next, gone);
    assert_int_equal(world.worker->watch.count, 1);
    api_world_pass(&world);
    assert_int_equal(under_way(BUDGET_GATE), 0);
    assert_int_equal(world.worker->watch.count, 1);
    assert_string_equal(api_world_heard(&world, next), "");
    assert_int_equal(ledger_writer_world_order(&world.ledger_writer, id).state, ORDER_QUEUED);
    api_world_settle(&world);
    const char *heard = api_world_heard(&world, next);
    expect_status(heard, 200); /* one answer, and it is his */
    assert_int_equal(count_of(heard, "HTTP/1.1"), 1);
    expect_text(heard, "\"status\":\"LOCKED\"");
    assert_int_equal(ledger_writer_world_order(&world.ledger_writer, id).state, ORDER_LOCKED);
}

static void nothing_is_answered_before_it_is_durable(void **state)
{
    (void)state;
    struct order_id id;
    be_late(true);
    uint32_t buyer = send_buy(1, &id);
    (void)api_world_iterate(&world);
    fake_clock_pass_us(&world.gate_clock, world.gate.delay_us * 10);
    (void)api_world_iterate(&world);
    (void)api_world_iterate(&world);
    assert_int_equal(under_way(BUDGET_GATE), 0); /* answered, but not durable */
    assert_string_equal(api_world_heard(&world, buyer), "");
    be_prompt();
    uint32_t reader = api_world_connect(&world);
    api_world_send(&world, reader, "GET", api_world_path(id, ""), 1, NULL);
    (void)api_world_iterate(&world);
    (void)api_world_iterate(&world);
    assert_string_equal(api_world_heard(&world, reader), "");
    ledger_writer_world_flush(&world.ledger_writer);
    (void)api_world_iterate(&world);
    expect_status(api_world_heard(&world, buyer), 202);
    expect_status(api_world_heard(&world, reader), 200);
}

/* What the gate answered to a handler of this test, and how often. */
static struct {
    int calls;
    int error;
    struct gate_request answer;
} seen;

static enum http_outcome see(struct api_request *req, struct api_operation *operation)
{
    (void)req;
    seen.calls++;
    seen.error = operation->error;
    seen.answer = operation->gate;
    return HTTP_PENDING;
}

/* Looks an order up that is not durable, for a client that a long poll keeps there. */
static struct order_id look_at_a_new_order(void)
{
    uint32_t poll = watch(queued_order(2), 2, "?wait_ms=20000");
    struct api_request req = {.worker = world.worker,
                              .exchange = {poll, world.worker->watch.watchers[poll].generation},
                              .user = 1,
                              .now_ms = world.worker->now_ms};
    memset(&seen, 0, sizeof(seen));
    struct order_id id = ledger_writer_world_bought(&world.ledger_writer, 1);
    struct api_operation *operation = api_gate_operation(&req, GATE_REQUEST_ORDER, see);
    assert_non_null(operation);
    operation->gate.id = id;
    assert_int_equal(api_submit(&req, operation), HTTP_PENDING);
    (void)api_world_iterate(&world);
    (void)api_world_iterate(&world);
    assert_int_equal(seen.calls, 0);
    return id;
}

/* No handler can forget to wait: it is not called before. */
static void a_handler_sees_an_order_only_when_it_is_durable(void **state)
{
    (void)state;
    struct order_id id = look_at_a_new_order();
    api_world_flush(&world);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(seen.error, 0);
    assert_int_equal(seen.answer.refusal, REFUSAL_NONE);
    assert_true(order_id_equal(seen.answer.order.id, id));
}

static void a_handler_never_sees_an_order_that_the_journal_lost(void **state)
{
    (void)state;
    (void)look_at_a_new_order();
    bool wrote;
    world.ledger_writer.ram.dead_at = world.ledger_writer.ram.ops + 1;
    assert_int_not_equal(journal_flush(world.ledger_writer.journal, &wrote), 0);
    (void)api_world_iterate(&world);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(seen.error, ERR_JOURNAL_FAILED);
    assert_int_equal(seen.answer.refusal, REFUSAL_UNKNOWN_OUTCOME);
    assert_false(seen.answer.has_order);
    assert_true(order_id_equal(seen.answer.order.id, (struct order_id){0, 0}));
    assert_int_equal(seen.answer.order.user, 0);
}

/* Every call that can show an order. */
static void no_call_shows_an_order_before_it_is_durable(void **state)
{
    (void)state;
    struct order_id id;
    char admin[128];
    uint32_t calls[6];
    calls[0] = send_buy(1, &id);
    (void)api_world_iterate(&world);
    calls[1] = send_buy(1, &id); /* the same ticket */
    static const char *const ways[] = {"", "?wait_ms=1", "/events"};
    for (size_t i = 0; i < 3; i++) {
        calls[2 + i] = api_world_connect(&world);
        api_world_send(&world, calls[2 + i], "GET", api_world_path(id, ways[i]), 1, NULL);
    }
    calls[5] = api_world_connect(&world);
    (void)snprintf(admin, sizeof(admin), "/v1/admin%s", api_world_path(id, "") + 3);
    api_world_send(&world, calls[5], "GET", admin, 0, NULL);
    for (int i = 0; i < 4; i++) {
        (void)api_world_iterate(&world);
    }
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(api_world_heard(&world, calls[i]), "");
    }
    ledger_writer_world_flush(&world.ledger_writer);
    (void)api_world_iterate(&world);
    fake_clock_pass_ms(&world.ledger_writer.clock, 2 * WHEEL_STEP_MS);
    api_world_flush(&world);
    for (size_t i = 0; i < 6; i++) {
        expect_text(api_world_heard(&world, calls[i]), "\"status\":\"QUEUED\"");
    }
}

/* Watchers that wait for an LSN, those that have gone among them, cannot fill the ring of waits. */
static void a_committed_write_has_room_to_wait_whatever_watchers_do(void **state)
{
    (void)state;
    struct order_id id = api_world_buy(&world, 1, LEDGER_WRITER_FREE);
    api_world_settle(&world);
    struct http_exchange gone = {.connection = API_CONNECTIONS - 1, .generation = 1};
    uint64_t next_lsn = journal_durable_lsn(world.worker->journal) + 1;
    for (int i = 0; i < API_CONNECTIONS * 2; i++) {
        assert_true(api_after_durable(world.worker, next_lsn, gone, NULL));
    }
    assert_false(api_after_durable(world.worker, next_lsn, gone, NULL));
    uint32_t shop = api_world_connect(&world);
    api_world_send_payment(&world, shop, id, "p-1", LEDGER_WRITER_CENTS);
    for (int i = 0; i < 4; i++) { /* committed and applied to the gate, but not flushed */
        (void)api_world_iterate(&world);
        (void)ledger_writer_world_turn(&world.ledger_writer);
        (void)api_world_iterate(&world);
    }
    assert_int_equal(ledger_writer_world_order(&world.ledger_writer, id).state, ORDER_PAID);
    assert_int_equal(world.worker->durable_waits.count, API_CONNECTIONS * 2 + 1);
    assert_string_equal(api_world_heard(&world, shop), "");
    ledger_writer_world_flush(&world.ledger_writer);
    (void)api_world_iterate(&world);
    const char *heard = api_world_heard(&world, shop);
    expect_status(heard, 200);
    expect_text(heard, "\"status\":\"PAID\"");
    assert_int_equal(world.worker->durable_waits.count, 0);
    assert_true(api_after_durable(world.worker, next_lsn, gone, NULL)); /* there is room again */
    (void)api_world_iterate(&world);
}

/* Buys of clients that have gone wait for the journal, too. */
static void a_buy_with_too_many_answers_waiting_has_an_unknown_outcome(void **state)
{
    (void)state;
    struct order_id id;
    for (uint64_t i = 0; i < API_CONNECTIONS * 2; i++) {
        uint32_t connection = send_buy(1 + i, &id);
        (void)api_world_iterate(&world);
        memory_net_reset(world.net, connection);
        (void)api_world_iterate(&world);
    }
    assert_int_equal(under_way(BUDGET_DURABLE), API_CONNECTIONS * 2);
    assert_int_equal(under_way(BUDGET_GATE), 0);
    uint32_t buyer = send_buy(100, &id);
    (void)api_world_iterate(&world);
    const char *heard = api_world_heard(&world, buyer);
    expect_status(heard, 503);
    expect_text(heard, "\"retry\":\"same-ticket\"");
    api_world_flush(&world);
    assert_int_equal(under_way(BUDGET_DURABLE), 0);
    buyer = send_buy(100, &id);
    api_world_flush(&world);
    expect_status(api_world_heard(&world, buyer), 202); /* the same order: it was decided */
    assert_int_equal(ledger_writer_world_order(&world.ledger_writer, id).state, ORDER_QUEUED);
}

static void when_all_requests_are_under_way_more_are_refused(void **state)
{
    (void)state;
    struct order_id id;
    be_late(false);
    for (uint64_t i = 0; i < API_CONNECTIONS * 2; i++) { /* each client goes, its request stays */
        uint32_t connection = send_buy(1 + i, &id);
        api_world_flush(&world);
        memory_net_reset(world.net, connection);
        api_world_flush(&world);
    }
    assert_int_equal(under_way(BUDGET_GATE), API_CONNECTIONS * 2);
    uint32_t buyer = send_buy(100, &id);
    uint32_t reader = api_world_connect(&world);
    api_world_send(&world, reader, "GET", api_world_path(id, ""), 100, NULL);
    uint32_t taker = api_world_connect(&world);
    api_world_send(&world, taker, "POST", "/v1/items/13/ticket", 100, NULL);
    uint32_t payer = api_world_connect(&world);
    api_world_send_payment(&world, payer, id, "p", LEDGER_WRITER_CENTS);
    api_world_flush(&world);
    uint32_t refused[] = {buyer, reader, taker, payer};
    for (size_t i = 0; i < 4; i++) {
        const char *heard = api_world_heard(&world, refused[i]);
        expect_status(heard, 503);
        expect_text(heard, "\"code\":\"overloaded\"");
        expect_text(heard, "\"retry\":\"later\"");
    }
    api_world_answer(&world);
    assert_int_equal(under_way(BUDGET_GATE), 0);
    assert_int_equal(ledger_writer_world_item(&world.ledger_writer, LEDGER_WRITER_FREE).locked,
                     API_CONNECTIONS * 2);
    expect_status(api_world_call(&world, "POST", "/v1/items/13/ticket", 100, NULL), 201);
}

static void a_worker_that_drains_waits_for_its_requests(void **state)
{
    (void)state;
    struct order_id id;
    be_late(false);
    uint32_t buyer = send_buy(1, &id);
    uint32_t gone = send_buy(2, &id);
    api_world_flush(&world);
    memory_net_reset(world.net, gone);
    atomic_store(&world.shared.draining, true);
    atomic_store(&world.shared.cut_off, true); /* even so: the memory is the gate's meanwhile */
    for (int i = 0; i < 5; i++) {
        assert_true(api_world_iterate(&world));
    }
    fake_clock_pass_us(&world.gate_clock, world.gate.delay_us * 10);
    bool more = true;
    for (int i = 0; i < 5 && more; i++) {
        more = api_world_iterate(&world);
        ledger_writer_world_flush(&world.ledger_writer);
    }
    assert_false(more);
    (void)api_world_iterate(&world);
    expect_status(api_world_heard(&world, buyer), 202);
}

static void the_loop_sleeps_no_longer_than_the_gate_says(void **state)
{
    (void)state;
    struct order_id id;
    world.gate.clock = &world.ledger_writer.clock.port; /* the one the worker sleeps by */
    world.gate.in_order = true;
    (void)api_world_iterate(&world);
    int64_t idle_us = memory_net_timeout_us(world.net);
    assert_true(idle_us > 100000);
    be_late(true);
    world.gate.delay_us = 700;
    (void)send_buy(1, &id);
    (void)api_world_iterate(&world); /* reads it and submits it */
    int64_t due_us = gate_flush(&world.gate.port, 0) - clock_boot_us(world.gate.clock);
    assert_true(due_us > 0 && due_us <= 7000);
    (void)api_world_iterate(&world);
    assert_int_equal(memory_net_timeout_us(world.net), due_us);
    fake_clock_pass_us(&world.ledger_writer.clock, due_us - 1);
    (void)api_world_iterate(&world);
    assert_int_equal(memory_net_timeout_us(world.net), 1);
    assert_int_equal(under_way(BUDGET_GATE), 1);
    fake_clock_pass_us(&world.ledger_writer.clock, 1);
    (void)api_world_iterate(&world);
    assert_int_equal(under_way(BUDGET_GATE), 0);
    be_prompt();
    api_world_settle(&world);
    assert_true(memory_net_timeout_us(world.net) > 100000);
}

/* ---- a gate that is behind the ledger ---- */

/* A sale of one item, as the ledger has it; the gate does not have it yet. */
static void put_in_catalog(uint64_t sale, uint64_t item, enum sale_state sale_state)
{
    struct sale_row *row = calloc(1, sizeof(*row));
    assert_non_null(row);
    *row = (struct sale_row){.id = sale,
                             .state = sale_state,
                             .starts_at_ms = LEDGER_WRITER_NOW,
                             .ends_at_ms = LEDGER_WRITER_NOW + 1000000,
                             .items_count = 1,
                             .items = calloc(1, sizeof(struct item_row))};
    assert_non_null(row->items);
    row->items[0] = (struct item_row){.id = item, .sale = sale, .total = 5, .available = 5};
    assert_int_equal(catalog_put(world.ledger_writer.catalog, row), 0);
}

/* The operator who opened it got a 200, so its first buyers must not read that it is not open. */
static void a_sale_that_the_gate_does_not_have_yet_is_retried(void **state)
{
    (void)state;
    put_in_catalog(801, 811, SALE_OPEN);
    put_in_catalog(802, 812, SALE_WARM);
    put_in_catalog(803, 813, SALE_DRAFT);
    put_in_catalog(804, 814, SALE_CLOSED);
    const char *heard = api_world_call(&world, "POST", "/v1/items/811/ticket", 1, NULL);
    expect_status(heard, 503);
    expect_text(heard, "\"retry\":\"later\"");
    expect_status(api_world_call(&world, "POST", "/v1/items/812/ticket", 1, NULL), 503);
    heard = api_world_call(&world, "POST", "/v1/items/813/ticket", 1, NULL);
    expect_status(heard, 409);
    expect_text(heard, "not_open");
    heard = api_world_call(&world, "POST", "/v1/items/814/ticket", 1, NULL);
    expect_status(heard, 409);
    expect_text(heard, "ended");
    expect_status(api_world_call(&world, "POST", "/v1/items/899/ticket", 1, NULL), 404);
}

/* ---- a gate that cannot be reached ---- */

static void expect_unreachable(const char *heard)
{
    expect_status(heard, 503);
    expect_text(heard, "\"retry\":\"later\"");
    expect_text(heard, "Retry-After: ");
}

static void an_order_that_could_not_be_looked_up_is_not_a_404(void **state)
{
    (void)state;
    struct order_id mine = api_world_buy(&world, 1, LEDGER_WRITER_FREE);
    struct order_id never = order_id_once(LEDGER_WRITER_ONCE, 1, 0);
    struct order_id ids[] = {mine, never};
    for (int lost = 0; lost < 2; lost++) {
        world.gate.nobody = lost ? 0 : 1000;
        world.gate.late = world.gate.lost = lost ? 1000 : 0;
        for (size_t i = 0; i < 2; i++) {
            char path[128];
            expect_unreachable(api_world_call(&world, "GET", api_world_path(ids[i], ""), 1, NULL));
            expect_unreachable(
                api_world_call(&world, "GET", api_world_path(ids[i], "/events"), 1, NULL));
            expect_unreachable(
                api_world_call(&world, "POST", api_world_path(ids[i], "/cancel"), 1, NULL));
            expect_unreachable(
                api_world_call(&world, "POST", api_world_path(ids[i], "/pay"), 1, NULL));
            (void)snprintf(path, sizeof(path), "/v1/admin%s", api_world_path(ids[i], "") + 3);
            const char *heard = api_world_call(&world, "GET", path, 0, NULL);
            if (i == 0) {
                expect_status(heard, 200); /* the ledger has it */
            } else {
                expect_unreachable(heard);
            }
        }
        expect_unreachable(api_world_call(&world, "GET", "/v1/me/orders", 1, NULL));
        expect_unreachable(api_world_call(&world, "POST", "/v1/items/13/ticket", 1, NULL));
    }
}

static void payments_do_not_need_the_gate(void **state)
{
    (void)state;
    struct order_id booked = api_world_buy(&world, 1, LEDGER_WRITER_FREE);
    world.gate.nobody = 1000;
    uint32_t connection = api_world_connect(&world);
    api_world_send_payment(&world, connection, booked, "p-1", LEDGER_WRITER_CENTS);
    api_world_settle(&world);
    expect_status(api_world_heard(&world, connection), 200);
    /* One that the ledger does not have: it may be on its way there. */
    struct order_id unknown = order_id_once(LEDGER_WRITER_ONCE, 5, 0);
    api_world_send_payment(&world, connection, unknown, "p-2", LEDGER_WRITER_CENTS);
    api_world_settle(&world);
    expect_unreachable(api_world_heard(&world, connection));
    world.gate.nobody = 0;
    api_world_send_payment(&world, connection, unknown, "p-2", LEDGER_WRITER_CENTS);
    api_world_settle(&world);
    expect_status(api_world_heard(&world, connection), 404);
}

static void a_buy_says_what_is_known_of_its_outcome(void **state)
{
    (void)state;
    struct order_id id;
    world.gate.nobody = 1000;
    uint32_t refused = send_buy(1, &id);
    api_world_settle(&world);
    const char *heard = api_world_heard(&world, refused);
    expect_status(heard, 503);
    expect_text(heard, "\"retry\":\"later\""); /* nothing was asked */
    world.gate.nobody = 0;
    world.gate.late = world.gate.lost = 1000;
    uint32_t lost = send_buy(2, &id);
    api_world_answer(&world);
    heard = api_world_heard(&world, lost);
    expect_status(heard, 503);
    expect_text(heard, "\"retry\":\"same-ticket\"");
    be_prompt();
    uint32_t again = send_buy(2, &id);
    api_world_settle(&world);
    int status = api_world_status(api_world_heard(&world, again));
    assert_true(status == 200 || status == 202); /* decided then, or now */
}

static void a_poll_that_ends_while_the_gate_is_unreachable_gets_the_state_seen_last(void **state)
{
    (void)state;
    struct order_id id = queued_order(1);
    uint32_t poll = watch(id, 1, "?wait_ms=5000");
    assert_string_equal(api_world_heard(&world, poll), "");
    world.gate.nobody = 1000;
    fake_clock_pass_ms(&world.ledger_writer.clock, 5000 + WHEEL_STEP_MS);
    api_world_flush(&world);
    const char *heard = api_world_heard(&world, poll);
    expect_status(heard, 200);
    expect_text(heard, "\"status\":\"QUEUED\"");
}

static void a_stream_outlives_an_unreachable_gate(void **state)
{
    (void)state;
    struct order_id id = queued_order(1);
    uint32_t stream = watch(id, 1, "/events");
    expect_text(api_world_heard(&world, stream), "\"status\":\"QUEUED\"");
    world.gate.nobody = 1000;
    for (int i = 0; i < 40; i++) {
        fake_clock_pass_ms(&world.ledger_writer.clock, 1000);
        api_world_flush(&world);
    }
    expect_no_text(api_world_heard(&world, stream), "data:"); /* heartbeats alone */
    assert_false(memory_net_closed(world.net, stream));
    world.gate.nobody = 0;
    api_world_settle(&world);
    expect_text(api_world_heard(&world, stream), "\"status\":\"LOCKED\"");
}

static void a_quiet_stream_looks_its_order_up_from_time_to_time(void **state)
{
    (void)state;
    struct order_id id = queued_order(1);
    uint32_t stream = watch(id, 1, "/events");
    expect_text(api_world_heard(&world, stream), "\"status\":\"QUEUED\"");
    world.gate.late = 1000; /* so that requests are counted */
    uint64_t asked = world.gate.made_late;
    for (int beat = 1; beat <= 8; beat++) {
        fake_clock_pass_ms(&world.ledger_writer.clock, 15000 + WHEEL_STEP_MS);
        api_world_flush(&world);
        api_world_pass(&world); /* a lookup is answered */
        expect_text(api_world_heard(&world, stream), ":\n\n");
        assert_int_equal(world.gate.made_late - asked, beat / 4);
    }
}

/* ---- what requests and answers carry ---- */

/* Passes on to the engine, and notes or changes what goes through. */
static struct {
    struct gate_port port;
    uint64_t users[16]; /* of ORDER requests */
    size_t users_count;
    enum refusal reason; /* of orders that are QUEUED */
} spy;

static enum gate_submitted spy_submit(struct gate_port *port, struct gate_request *request)
{
    (void)port;
    if (request->kind == GATE_REQUEST_ORDER && spy.users_count < 16) {
        spy.users[spy.users_count++] = request->user;
    }
    enum gate_submitted said = gate_submit(embedded_gate_port(world.ledger_writer.engine), request);
    if (request->has_order && request->order.state == ORDER_QUEUED) {
        request->order.reason = (uint8_t)spy.reason;
    }
    return said;
}

static struct gate_request *spy_collect(struct gate_port *port, uint32_t loop)
{
    (void)port;
    (void)loop;
    return NULL;
}

static int64_t spy_flush(struct gate_port *port, uint32_t loop)
{
    (void)port;
    (void)loop;
    return INT64_MAX;
}

static void spy_in(enum refusal reason)
{
    static const struct gate_ops ops = {spy_submit, spy_collect, spy_flush, NULL};
    memset(&spy, 0, sizeof(spy));
    spy.port.ops = &ops;
    spy.reason = reason;
    world.gate.inner = &spy.port;
}

static void requests_for_orders_name_the_buyer(void **state)
{
    (void)state;
    struct order_id id = api_world_buy(&world, 7, LEDGER_WRITER_FREE);
    spy_in(REFUSAL_NONE);
    (void)api_world_call(&world, "GET", api_world_path(id, ""), 7, NULL);
    (void)api_world_call(&world, "POST", api_world_path(id, "/cancel"), 8, NULL);
    (void)api_world_call(&world, "GET", "/v1/me/orders", 7, NULL);
    uint32_t stream = watch(id, 7, "/events"); /* twice: it begins to watch */
    uint32_t shop = api_world_connect(&world);
    api_world_send_payment(&world, shop, id, "p", LEDGER_WRITER_CENTS);
    (void)api_world_iterate(&world);
    static const uint64_t users[] = {7, 8, 7, 7, 7, 0};
    assert_int_equal(spy.users_count, 6);
    assert_memory_equal(spy.users, users, sizeof(users));
    api_world_settle(&world);
    expect_text(api_world_heard(&world, stream), "\"status\":\"PAID\"");
}

static void a_spooled_order_is_shown_as_undecided(void **state)
{
    (void)state;
    struct order_id id;
    char path[128];
    spy_in(REFUSAL_UNDECIDED);
    uint32_t buyer = send_buy(1, &id);
    api_world_flush(&world);
    const char *heard = api_world_heard(&world, buyer);
    expect_status(heard, 202);
    expect_text(heard, "\"status\":\"QUEUED\",\"reason\":\"undecided\",\"held\":1}");
    api_world_send(&world, buyer, "GET", api_world_path(id, ""), 1, NULL);
    api_world_flush(&world);
    expect_text(api_world_heard(&world, buyer), "\"status\":\"QUEUED\",\"reason\":\"undecided\"");
    (void)snprintf(path, sizeof(path), "/v1/admin%s", api_world_path(id, "") + 3);
    api_world_send(&world, buyer, "GET", path, 0, NULL);
    api_world_flush(&world);
    expect_text(api_world_heard(&world, buyer), "\"status\":\"QUEUED\",\"reason\":\"undecided\"");
    api_world_settle(&world); /* decided and booked: nothing of it is left */
    api_world_send(&world, buyer, "GET", api_world_path(id, ""), 1, NULL);
    api_world_settle(&world);
    expect_text(api_world_heard(&world, buyer), "\"status\":\"LOCKED\",\"reason\":null");
}

static void a_list_shows_the_state_at_the_gate(void **state)
{
    (void)state;
    struct order_id id = queued_order(1);
    api_world_settle(&world);
    be_late(true);
    /* The ledger is ahead: it has this order as PAID, the gate has it as LOCKED. */
    for (size_t i = 0; i < world.ledger_writer.ledger.orders_count; i++) {
        world.ledger_writer.ledger.orders[i].state = ORDER_PAID;
    }
    const char *heard = api_world_call(&world, "GET", "/v1/me/orders", 1, NULL);
    expect_status(heard, 200);
    expect_text(heard, "\"status\":\"LOCKED\"");
    expect_no_text(heard, "PAID");
    /* A client that has gone gets no answer, and its list is freed. */
    uint32_t gone = api_world_connect(&world);
    api_world_send(&world, gone, "GET", "/v1/me/orders", 1, NULL);
    api_world_settle(&world);
    assert_int_equal(world.gate.under_way, 1);
    assert_int_equal(under_way(BUDGET_BUYER), 1);
    memory_net_reset(world.net, gone);
    api_world_answer(&world);
    assert_int_equal(under_way(BUDGET_BUYER), 0);
    assert_int_equal(ledger_writer_world_order(&world.ledger_writer, id).state, ORDER_LOCKED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(late_answers_are_those_that_would_have_been_given_at_once),
        TEST(a_buy_whose_connection_has_gone_is_decided_all_the_same),
        TEST(nothing_is_answered_before_it_is_durable),
        TEST(a_handler_sees_an_order_only_when_it_is_durable),
        TEST(a_handler_never_sees_an_order_that_the_journal_lost),
        TEST(no_call_shows_an_order_before_it_is_durable),
        TEST(when_all_requests_are_under_way_more_are_refused),
        TEST(a_committed_write_has_room_to_wait_whatever_watchers_do),
        TEST(a_buy_with_too_many_answers_waiting_has_an_unknown_outcome),
        TEST(a_worker_that_drains_waits_for_its_requests),
        TEST(the_loop_sleeps_no_longer_than_the_gate_says),
        TEST(a_sale_that_the_gate_does_not_have_yet_is_retried),
        TEST(an_order_that_could_not_be_looked_up_is_not_a_404),
        TEST(payments_do_not_need_the_gate),
        TEST(a_buy_says_what_is_known_of_its_outcome),
        TEST(a_poll_that_ends_while_the_gate_is_unreachable_gets_the_state_seen_last),
        TEST(a_stream_outlives_an_unreachable_gate),
        TEST(a_quiet_stream_looks_its_order_up_from_time_to_time),
        TEST(requests_for_orders_name_the_buyer),
        TEST(a_spooled_order_is_shown_as_undecided),
        TEST(a_list_shows_the_state_at_the_gate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
