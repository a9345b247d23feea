/*
 * The gate on Redis against the naive model of the gate (test/unit/core/gate_model): random commands
 * to both; after each the answer must be the same, and every so often the whole segment is read
 * back from Redis into a gate, audited and compared with all the model holds. Ids end at the
 * largest there is, times are of the year 9999: numbers that lose digits on the way would be seen.
 * Scripts are flushed and connections are killed between commands.
 *
 * The seed is printed; SEED=n in the environment runs it again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/check.h"
#include "gate_draw.h"
#include "gate_model.h"
#include "redis_world.h"

#define STEPS 2500 /* on each of the segments below */
#define LOOK_EVERY 40

static const struct {
    struct gate_sizes sizes;
    struct gate_shares shares; /* 0: no such share */
} segments[] = {
    {{.orders = 1, .buyers = 1, .items = 1, .sales = 1}, {0}},
    {{.orders = 60, .buyers = 2, .items = 3, .sales = 2}, {.item_orders = 1}},
    {{.orders = 7, .buyers = 5, .items = 4, .sales = 2}, {.sale_buyers = 1}},
    {{.orders = 120, .buyers = 60, .items = 8, .sales = 4}, {.sale_orders = 2}},
    {{.orders = 200, .buyers = 80, .items = 9, .sales = 4}, {.buyer_orders = 1}},
    {{.orders = 120, .buyers = 60, .items = 8, .sales = 4}, {.item_orders = 1}},
};

/* ---- the segment, read back into a gate ---- */

struct mirror {
    struct gate gate;
    void *memory;
};

static const char *value(const redisReply *hash, const char *field)
{
    for (size_t i = 0; i + 1 < hash->elements; i += 2) {
        if (strcmp(hash->element[i]->str, field) == 0) {
            return hash->element[i + 1]->str;
        }
    }
    fail_msg("no field %s", field);
    return "";
}

/* One of the numbers that the script has packed. */
static int64_t packed(const char *bytes, size_t which)
{
    double number = 0;
    memcpy(&number, bytes + which * sizeof(number), sizeof(number));
    return (int64_t)number;
}

static uint64_t number(const redisReply *hash, const char *field)
{
    return strtoull(value(hash, field), NULL, 10);
}

static void mirror_sale(struct gate *gate, uint64_t id, const redisReply *hash)
{
    struct gate_sale sale = {.id = id,
                             .state = (uint8_t)number(hash, "state"),
                             .starts_at_ms = (int64_t)number(hash, "starts"),
                             .ends_at_ms = (int64_t)number(hash, "ends"),
                             .bar_unpaid = (uint32_t)number(hash, "bar"),
                             .forgetting = (uint8_t)number(hash, "forgetting")};
    CHECK(gate_add_sale(gate, &sale) != GATE_NONE);
}

static void mirror_item(struct gate *gate, uint64_t id, const redisReply *hash)
{
    struct gate_item item = {.id = id,
                             .total = number(hash, "total"),
                             .available = number(hash, "available"),
                             .locked = number(hash, "locked"),
                             .sold = number(hash, "sold"),
                             .version = number(hash, "version"),
                             .sale_slot = gate_find_sale(gate, number(hash, "sale"))};
    CHECK(item.sale_slot != GATE_NONE);
    /* The copy of the sale's window is the sale's window. */
    const struct gate_sale *sale = &gate->sales[item.sale_slot];
    unsigned state = 0;
    unsigned bar = 0;
    long long starts = 0;
    long long ends = 0;
    CHECK(sscanf(value(hash, "rule"), "%u %u %lld %lld %u", &item.limit, &state, &starts, &ends,
                 &bar) == 5);
    CHECK(state == sale->state && bar == sale->bar_unpaid);
    CHECK(starts == sale->starts_at_ms && ends == sale->ends_at_ms);
    (void)gate_add_item(gate, &item);
}

static void mirror_buyers(struct gate *gate, uint64_t item, const redisReply *hash)
{
    for (size_t i = 0; i + 1 < hash->elements; i += 2) {
        struct gate_buyer buyer = {.user = strtoull(hash->element[i]->str, NULL, 10),
                                   .item_slot = gate_find_item(gate, item)};
        long long barred = 0;
        unsigned live = 0;
        CHECK(sscanf(hash->element[i + 1]->str, "%u %u %lld %u", &buyer.held,
                     &buyer.failed_attempts, &barred, &live) == 4);
        buyer.barred = barred == 1;
        buyer.cooling_until_ms = barred == 1 ? 0 : barred;
        (void)gate_add_buyer(gate, &buyer);
    }
}

static void mirror_orders(struct gate *gate, uint64_t item, const redisReply *hash)
{
    for (size_t i = 0; i + 1 < hash->elements; i += 2) {
        struct gate_order order = {.item_slot = gate_find_item(gate, item)};
        unsigned state = 0;
        unsigned reason = 0;
        unsigned version = 0;
        long long created = 0;
        long long pay_by = 0;
        unsigned long long user = 0;
        struct span id = {hash->element[i]->str, hash->element[i]->len};
        CHECK(order_id_parse(id, &order.id) == 0);
        CHECK(sscanf(hash->element[i + 1]->str, "%llu %u %u %u %u %lld %lld", &user, &order.qty,
                     &state, &reason, &version, &created, &pay_by) == 7);
        order.user = user;
        order.state = (uint8_t)state;
        order.reason = (uint8_t)reason;
        order.version = (uint8_t)version;
        order.created_at_ms = created;
        order.pay_by_ms = pay_by;
        (void)gate_add_order(gate, &order);
    }
}

/* All keys of one kind ('s', 'i', 'b', 'o'): in this order each finds what it belongs to. */
static void mirror_kind(struct world *world, struct gate *gate, const redisReply *keys, char kind)
{
    char begin[80];
    int len = snprintf(begin, sizeof(begin), "%s{0}:%llu:%c:", world->prefix,
                       (unsigned long long)world->epoch, kind);
    for (size_t i = 0; i < keys->elements; i++) {
        const char *key = keys->element[i]->str;
        if (strncmp(key, begin, (size_t)len) != 0) {
            continue;
        }
        redisReply *hash = world_admin(world, "HGETALL %s", key);
        uint64_t id = strtoull(key + len, NULL, 10);
        if (kind == 's') {
            mirror_sale(gate, id, hash);
        } else if (kind == 'i') {
            mirror_item(gate, id, hash);
        } else if (kind == 'b') {
            mirror_buyers(gate, id, hash);
        } else {
            mirror_orders(gate, id, hash);
        }
        freeReplyObject(hash);
    }
}

/* What the scripts have left of shares against the live orders and buyers that the gate counts. While a
 * sale is being forgotten, its shares stand still. */
static void compare_counts(struct world *world, const struct gate *gate, const redisReply *meta)
{
    struct gate_shares shares;
    CHECK(sscanf(value(meta, "shares"), "%u %u %u %u", &shares.buyer_orders, &shares.item_orders,
                 &shares.sale_orders, &shares.sale_buyers) == 4);
    for (uint32_t i = 0; i < gate->sizes.sales; i++) {
        const struct gate_sale *sale = &gate->sales[i];
        char field[24];
        if (sale->used && !sale->forgetting) {
            (void)snprintf(field, sizeof(field), "%llu", (unsigned long long)sale->id);
            const char *left = value(meta, field);
            CHECK(shares.sale_orders - packed(left, 0) == sale->live);
            CHECK(shares.sale_buyers - packed(left, 1) == sale->buyers);
            CHECK(packed(left, 2) == shares.buyer_orders);
        }
    }
    for (uint32_t i = 0; i < gate->item_pool.fresh; i++) {
        const struct gate_item *item = &gate->items[i];
        if (item->used && !gate->sales[item->sale_slot].forgetting) {
            redisReply *left =
                world_admin(world, "HGET %s{0}:%llu:i:%llu share", world->prefix,
                            (unsigned long long)world->epoch, (unsigned long long)item->id);
            CHECK(shares.item_orders - packed(left->str, 0) == item->live);
            freeReplyObject(left);
        }
    }
    for (uint32_t i = 0; i < gate->buyer_pool.fresh; i++) {
        const struct gate_buyer *buyer = &gate->buyers[i];
        const struct gate_item *item = &gate->items[buyer->item_slot];
        if (buyer->user != 0 && !gate->sales[item->sale_slot].forgetting) {
            redisReply *text = world_admin(
                world, "HGET %s{0}:%llu:b:%llu:%llu %llu", world->prefix,
                (unsigned long long)world->epoch, (unsigned long long)item->id,
                (unsigned long long)(buyer->user % REDIS_BUCKETS), (unsigned long long)buyer->user);
            CHECK(strtoull(strrchr(text->str, ' '), NULL, 10) == buyer->live);
            freeReplyObject(text);
        }
    }
}

static void mirror_load(struct mirror *mirror, struct world *world, struct gate_sizes sizes)
{
    struct gate *gate = &mirror->gate;
    memset(mirror->memory, 0, gate_bytes(sizes));
    gate_init(gate, sizes, mirror->memory, 7);
    redisReply *keys =
        world_admin(world, "KEYS %s{0}:%llu:*", world->prefix, (unsigned long long)world->epoch);
    for (const char *kind = "sibo"; *kind != '\0'; kind++) {
        mirror_kind(world, gate, keys, *kind);
    }
    freeReplyObject(keys);
    redisReply *meta = world_admin(world, "HGETALL %s{0}:meta", world->prefix);
    gate->applied_event = number(meta, "event");
    gate->highest_ms = (int64_t)number(meta, "high");
    CHECK(packed(value(meta, "room"), 0) == sizes.orders - gate->order_pool.used);
    CHECK(packed(value(meta, "room"), 1) == sizes.buyers - gate->buyer_pool.used);
    CHECK(number(meta, "items_left") == sizes.items - gate->item_pool.used);
    CHECK(number(meta, "sales_left") == sizes.sales - gate->sales_used);
    compare_counts(world, gate, meta);
    freeReplyObject(meta);
    gate_audit(gate);
}

/* ---- the run ---- */

static uint32_t bounds_met[GATE_BOUND_COUNT];

static void compare_order(const struct model_order *order, const struct order_view *view)
{
    CHECK(order_id_equal(view->id, order->id));
    CHECK(view->user == order->user && view->item == order->item && view->qty == order->qty);
    CHECK(view->state == order->state && view->reason == order->reason);
    CHECK(view->version == order->version);
    CHECK(view->created_at_ms == order->created && view->pay_by_ms == order->pay_by);
}

static void compare_answer(const struct gate_command *c, const struct answer *want,
                           const struct world_answer *got)
{
    if (got->verdict != want->verdict || got->refusal != want->refusal) {
        fail_msg("%s: verdict %d refusal %s, not %d %s", gate_kind_text(c->kind), (int)got->verdict,
                 refusal_text(got->refusal)->code, (int)want->verdict,
                 refusal_text(want->refusal)->code);
    }
    CHECK(c->kind != GATE_RESERVE || got->bound == model.bound);
    CHECK(got->held == want->held);
    const struct model_buyer *buyer = buyer_of(c->item, c->user);
    CHECK(got->cooling_until_ms == (want->refusal == REFUSAL_BARRED ? buyer->cooling : 0));
    CHECK(got->has_order == (want->order != NULL));
    if (want->order != NULL) {
        compare_order(want->order, &got->order);
    }
    const struct model_item *item = item_of(c->item);
    if (c->kind == GATE_RESERVE && item != NULL && want->refusal != REFUSAL_NO_SUCH_ITEM) {
        CHECK(got->available == item->available && got->locked == item->locked);
        CHECK(got->limit == item->limit);
    }
}

/* What the port says of a buyer and an item that the model knows. */
static void compare_views(struct world *world)
{
    if (model.buyers_count > 0) {
        const struct model_buyer *buyer = &model.buyers[prng_below(&draw_prng, model.buyers_count)];
        const struct model_item *item = item_of(buyer->item);
        struct gate_request request = {
            .kind = GATE_REQUEST_TICKET, .user = buyer->user, .item = buyer->item};
        world_ask(world, &request);
        CHECK(gate_request_done(&request) && request.held == buyer->held);
        CHECK(request.attempt == buyer->failed_attempts && request.barred == buyer->barred);
        CHECK(request.cooling_until_ms == buyer->cooling);
        CHECK(request.view.item == item->id && request.view.sale == item->sale);
        CHECK(request.view.available == item->available && request.view.total == item->total);
        CHECK(request.view.version == item->version);
        bool has =
            item->limit == 1 && order_of(order_id_once(buyer->item, buyer->user,
                                                       (uint32_t)buyer->failed_attempts)) != NULL;
        CHECK(request.has_order == has);
    }
    if (model.orders_count > 0) {
        const struct model_order *order = &model.orders[prng_below(&draw_prng, model.orders_count)];
        struct gate_request request = {.kind = GATE_REQUEST_ORDER, .id = order->id};
        world_ask(world, &request);
        CHECK(gate_request_done(&request) && request.has_order);
        compare_order(order, &request.order);
    }
}

static void step(struct world *world, struct mirror *mirror, struct gate_sizes sizes,
                 uint32_t *refused)
{
    struct gate_command c = draw_command();
    struct world_answer got;
    if (c.kind == GATE_TRANSFER_OUT && c.event == 0) {
        return; /* no event at a segment: another command */
    }
    if (c.kind == GATE_RESERVE && c.now_ms < model.highest) {
        c.now_ms = model.highest; /* the time the gate on Redis decides with */
    }
    struct answer want = model_step(&c);
    enum verdict verdict = world_step(world, &c, &got);
    compare_answer(&c, &want, &got);
    bool changed = verdict == VERDICT_DONE || verdict == VERDICT_MORE;
    if (c.kind == GATE_FORGET && changed) {
        mirror_load(mirror, world, sizes);
        model_forgotten(&mirror->gate, &c, verdict == VERDICT_DONE);
        model_compare(&mirror->gate);
    }
    draw_told(&c, verdict);
    refused[got.refusal]++;
    bounds_met[got.bound]++;
}

static void harm(struct world *world)
{
    switch (prng_below(&draw_prng, 200)) {
    case 0:
        world_do(world, "SCRIPT FLUSH");
        break;
    case 1:
        world_do(world, "CLIENT KILL TYPE normal SKIPME yes");
        while (redis_gate_ready(world->gate, 0, 0)) {
            world_turn(world);
            assert_null(gate_collect(redis_gate_port(world->gate), 0));
        }
        world_reconnect(world);
        break;
    default:
        break;
    }
}

static void the_gate_does_what_the_model_does(void **state)
{
    (void)state;
    uint32_t refused[REFUSAL_COUNT] = {0};
    struct world *world = world_new(10000);
    for (size_t i = 0; i < sizeof(segments) / sizeof(segments[0]); i++) {
        struct mirror mirror = {.memory = NULL};
        struct gate_sizes sizes = segments[i].sizes;
        assert_int_equal(0, posix_memalign(&mirror.memory, 64, gate_bytes(sizes)));
        world_claim_shares(world, sizes, segments[i].shares);
        model_clear(sizes);
        model.shares = segments[i].shares;
        /* Times as wide as real ones, and past: ahead of its own clock a server believes nobody. */
        draw_begin(ID_MAX - 30, 1600000000000);
        for (int k = 0; k < STEPS; k++) {
            step(world, &mirror, sizes, refused);
            harm(world);
            if (k % LOOK_EVERY == 0) {
                mirror_load(&mirror, world, sizes);
                model_compare(&mirror.gate);
                compare_views(world);
            }
        }
        mirror_load(&mirror, world, sizes);
        model_compare(&mirror.gate);
        free(mirror.memory);
    }
    struct redis_gate_numbers numbers;
    redis_gate_count(world->gate, 0, &numbers);
    print_message("%llu calls, %llu scripts loaded again, %llu connections lost\n",
                  (unsigned long long)numbers.links.calls,
                  (unsigned long long)numbers.links.reloads,
                  (unsigned long long)numbers.links.losses);
    /* A run that never met one of these would prove little. */
    static const enum refusal met[] = {
        REFUSAL_NO_SUCH_ITEM, REFUSAL_BAD_TICKET, REFUSAL_ENDED,         REFUSAL_TOO_EARLY,
        REFUSAL_NOT_OPEN,     REFUSAL_SOLD_OUT,   REFUSAL_LIMIT_REACHED, REFUSAL_OVERLOADED,
        REFUSAL_NOT_FOUND,    REFUSAL_BAD_STATE,  REFUSAL_BAD_REQUEST,   REFUSAL_BARRED};
    for (size_t i = 0; i < sizeof(met) / sizeof(met[0]); i++) {
        if (refused[met[i]] == 0) {
            fail_msg("never refused: %s", refusal_text(met[i])->code);
        }
    }
    for (int i = GATE_BOUND_BUYER_SHARE; i <= GATE_BOUND_SALE_BUYERS; i++) {
        if (bounds_met[i] == 0) {
            fail_msg("never refused: %s", gate_bound_text((enum gate_bound)i));
        }
    }
    assert_true(refused[REFUSAL_NONE] > 3000);
    assert_true(numbers.links.reloads > 0 && numbers.links.losses > 0);
    world_free(world);
}

int main(void)
{
    const char *given = getenv("SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    (void)printf("SEED=%llu\n", (unsigned long long)seed);
    (void)fflush(stdout); /* before a CHECK may end the process */
    draw_prng = prng_of(seed);
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_gate_does_what_the_model_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
