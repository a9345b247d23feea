/*
 * The segments on Redis when things go wrong, beyond what the contract's suite can ask of any
 * implementation: a server that freezes, is full, is a replica, wants a password; connections that
 * are cut; half-finished work in the outbox; a segment that contradicts itself; what older epochs
 * left behind.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "redis_world.h"

#define ITEM 12
#define UNITS 1000
#define TRIES_MAX 3000

static const struct gate_sizes sizes = {.orders = 5000, .buyers = 5000, .items = 4, .sales = 2};

static struct segments *open_worker(struct world *world, const char *worker, uint32_t timeout_ms,
                                    uint32_t claim_ms)
{
    struct segments *segments = NULL;
    struct segments_redis_options options = {.topology = world->direct,
                                             .segments = 1,
                                             .prefix = world->prefix,
                                             .timeout_ms = timeout_ms,
                                             .worker = worker,
                                             .claim_ms = claim_ms,
                                             .clock = &world->clock};
    assert_int_equal(0, segments_redis_open(&options, &segments));
    return segments;
}

static enum segment_outcome fill(struct segments *segments, uint64_t epoch)
{
    const struct segment_step steps[] = {
        {.kind = STEP_BEGIN, .sizes = sizes},
        {.kind = STEP_SALE,
         .sale = 1,
         .state = SALE_OPEN,
         .starts_at_ms = 1000,
         .ends_at_ms = 9000},
        {.kind = STEP_ITEM, .sale = 1, .item = ITEM, .total = UNITS, .available = UNITS},
        {.kind = STEP_OPEN}};
    return segments_rebuild(segments, 0, epoch, 0, steps, 4);
}

static struct world *filled(void)
{
    struct world *world = world_new(60000);
    assert_int_equal(SEGMENT_DONE, fill(world->segments, ++world->epoch));
    gate_place(redis_gate_port(world->gate), 0, world->epoch);
    return world;
}

static struct segment_call event(const struct world *world, enum gate_kind kind, uint64_t number)
{
    return (struct segment_call){
        .epoch = world->epoch,
        .after = number - 1,
        .command = {
            .kind = kind, .event = number, .item = ITEM, .sale = 1, .amount = 1, .now_ms = 2000}};
}

static struct order_id bought(struct world *world, uint64_t user, uint32_t sequence)
{
    struct gate_request request = {.kind = GATE_REQUEST_BUY,
                                   .id = order_id_fresh(ITEM, 2000, sequence * SEGMENTS_MAX),
                                   .user = user,
                                   .item = ITEM,
                                   .qty = 2,
                                   .ticket_expires_ms = 50000,
                                   .now_ms = 2000};
    world_ask(world, &request);
    assert_true(gate_request_done(&request));
    return request.id;
}

static struct item_view view(struct world *world)
{
    struct gate_request request = {.kind = GATE_REQUEST_ITEM, .item = ITEM};
    world_ask(world, &request);
    assert_true(gate_request_done(&request));
    return request.view;
}

static void wait_answer(struct segments *segments)
{
    struct segment_state state;
    int tries = 0;
    do {
        assert_true(tries++ < TRIES_MAX);
        segments_look(segments, 0, &state);
        (void)usleep(5000);
    } while (state.outcome == SEGMENT_NOT_ASKED || state.outcome == SEGMENT_NOT_KNOWN);
}

static pid_t frozen; /* 0: it is not */

static void freeze(struct world *world)
{
    redisReply *info = world_admin(world, "INFO server");
    const char *pid = strstr(info->str, "process_id:");
    assert_non_null(pid);
    frozen = (pid_t)strtol(pid + strlen("process_id:"), NULL, 10);
    freeReplyObject(info);
    assert_true(frozen > 1);
    assert_int_equal(0, kill(frozen, SIGSTOP));
}

static void thaw(void)
{
    assert_int_equal(0, kill(frozen, SIGCONT));
    frozen = 0;
}

/* A test that failed must not leave it frozen for others. */
static int thaw_after(void **state)
{
    (void)state;
    if (frozen != 0) {
        thaw();
    }
    return 0;
}

static void a_frozen_server_is_not_known_and_runs_it_once(void **state)
{
    (void)state;
    struct world *world = filled();
    struct segments *segments = open_worker(world, "w", 100, 0);
    struct segment_call calls[50];
    for (uint64_t i = 0; i < 50; i++) {
        calls[i] = event(world, GATE_RESTOCK, i + 1);
    }
    wait_answer(segments);
    freeze(world);
    segments_apply(segments, calls, 50);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(SEGMENT_NOT_KNOWN, calls[i].outcome);
    }
    assert_string_equal("no answer in time", segments_redis_trouble(segments, 0));
    segments_apply(segments, calls, 50); /* the pause between connections, or a frozen greeting */
    for (int i = 0; i < 50; i++) {
        assert_int_equal(SEGMENT_NOT_ASKED, calls[i].outcome);
    }
    struct segment_state seen;
    segments_look(segments, 0, &seen);
    assert_int_equal(SEGMENT_NOT_ASKED, seen.outcome);
    assert_int_equal(SEGMENT_NOT_ASKED, fill(segments, world->epoch + 1));
    thaw();
    wait_answer(segments);
    segments_apply(segments, calls, 50); /* they ran, once */
    for (int i = 0; i < 50; i++) {
        assert_int_equal(SEGMENT_DONE, calls[i].outcome);
        assert_int_equal(VERDICT_ALREADY_APPLIED, calls[i].verdict);
    }
    assert_int_equal(UNITS + 50, view(world).available);
    segments_redis_close(segments);
    world_free(world);
}

static void a_server_that_cannot_write_is_not_asked(void **state)
{
    (void)state;
    struct world *world = filled();
    struct segment_call call = event(world, GATE_RESTOCK, 1);
    world_do(world, "CONFIG SET maxmemory 1");
    segments_apply(world->segments, &call, 1);
    assert_int_equal(SEGMENT_NOT_ASKED, call.outcome);
    assert_int_equal(SEGMENT_NOT_ASKED, fill(world->segments, world->epoch + 1));
    world_do(world, "CONFIG SET maxmemory 0");
    world_do(world, "REPLICAOF 127.0.0.1 1");
    segments_apply(world->segments, &call, 1);
    assert_int_equal(SEGMENT_NOT_ASKED, call.outcome);
    for (int i = 0; strstr(segments_redis_trouble(world->segments, 0), "replica") == NULL; i++) {
        assert_true(i < TRIES_MAX);
        segments_apply(world->segments, &call, 1);
        assert_int_equal(SEGMENT_NOT_ASKED, call.outcome);
        (void)usleep(2000);
    }
    world_do(world, "REPLICAOF NO ONE");
    wait_answer(world->segments);
    segments_apply(world->segments, &call, 1);
    assert_int_equal(SEGMENT_DONE, call.outcome);
    assert_int_equal(VERDICT_DONE, call.verdict);
    world_free(world);
}

static void a_cut_connection_loses_nothing(void **state)
{
    (void)state;
    struct world *world = filled();
    struct segment_call calls[20];
    uint64_t applied = 0;
    for (int round = 0; round < 30; round++) {
        for (uint64_t i = 0; i < 20; i++) {
            calls[i] = event(world, GATE_RESTOCK, applied + i + 1);
        }
        world_do(world, "CLIENT KILL TYPE normal SKIPME yes");
        segments_apply(world->segments, calls, 20);
        for (int i = 0; i < 20; i++) {
            assert_true(calls[i].outcome == SEGMENT_NOT_KNOWN ||
                        calls[i].outcome == SEGMENT_NOT_ASKED);
        }
        wait_answer(world->segments);
        segments_apply(world->segments, calls, 20);
        for (int i = 0; i < 20; i++) {
            assert_int_equal(SEGMENT_DONE, calls[i].outcome);
        }
        applied += 20;
    }
    while (redis_gate_ready(world->gate, 0, 0)) { /* it was cut, too */
        world_turn(world);
        assert_null(gate_collect(redis_gate_port(world->gate), 0));
    }
    world_reconnect(world);
    assert_int_equal(UNITS + applied, view(world).available);
    world_free(world);
}

/* Forgotten scripts are loaded, and everything is in its order. */
static void forgotten_scripts_are_loaded_again(void **state)
{
    (void)state;
    struct world *world = filled();
    struct segment_call calls[3];
    struct segment_state seen;
    struct order_id id = bought(world, 7, 1);
    for (uint64_t round = 0; round < 5; round++) {
        calls[0] = event(world, GATE_RESTOCK, round * 3 + 1);
        calls[1] = event(world, round % 2 == 0 ? GATE_PAUSE : GATE_OPEN, round * 3 + 2);
        calls[2] = event(world, round == 0 ? GATE_CONFIRM : GATE_SKIP, round * 3 + 3);
        calls[2].command.id = id;
        world_do(world, "SCRIPT FLUSH");
        segments_apply(world->segments, calls, 3);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(SEGMENT_DONE, calls[i].outcome);
            assert_int_equal(VERDICT_DONE, calls[i].verdict);
        }
        world_do(world, "SCRIPT FLUSH");
        segments_look(world->segments, 0, &seen);
        assert_int_equal(SEGMENT_DONE, seen.outcome);
        assert_int_equal(round * 3 + 3, seen.event);
    }
    /* The second's script is there, the first's is not: it comes too early, and is sent again. */
    struct redis_scripts *scripts = NULL;
    assert_int_equal(0, scripts_new(false, &scripts));
    world_do(world, "SCRIPT FLUSH");
    redisReply *loaded =
        redisCommand(world->admin, "SCRIPT LOAD %b", scripts->texts[SCRIPT_SALE].at,
                     scripts->texts[SCRIPT_SALE].len);
    assert_non_null(loaded);
    freeReplyObject(loaded);
    scripts_free(scripts);
    calls[0] = event(world, GATE_RESTOCK, 16);
    calls[1] = event(world, GATE_SKIP, 17);
    segments_apply(world->segments, calls, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(SEGMENT_DONE, calls[i].outcome);
        assert_int_equal(VERDICT_DONE, calls[i].verdict);
    }
    world_do(world, "SCRIPT FLUSH");
    assert_int_equal(SEGMENT_DONE, fill(world->segments, world->epoch + 1));
    world_free(world);
}

static void a_segment_that_contradicts_itself_changes_nothing(void **state)
{
    (void)state;
    struct world *world = filled();
    struct order_id id = bought(world, 7, 1);
    struct segment_call calls[2] = {event(world, GATE_FAIL_ORDER, 1), event(world, GATE_SKIP, 2)};
    char key[128];
    calls[0].command.id = id;
    calls[0].command.reason = REFUSAL_LIMIT_REACHED;
    (void)snprintf(key, sizeof(key), "%s{0}:%llu:b:%d:7", world->prefix,
                   (unsigned long long)world->epoch, ITEM);
    world_do(world, "HDEL %s 7", key);
    segments_apply(world->segments, calls, 2);
    assert_int_equal(SEGMENT_BROKEN, calls[0].outcome);
    assert_int_equal(SEGMENT_GAP, calls[1].outcome);
    world_do(world, "HSET %s 7 %s", key, "2 0 0 1");
    segments_apply(world->segments, calls, 2); /* it had changed nothing */
    assert_int_equal(SEGMENT_DONE, calls[0].outcome);
    assert_int_equal(VERDICT_DONE, calls[0].verdict);
    assert_int_equal(ORDER_FAILED, calls[0].order.state);
    assert_int_equal(SEGMENT_DONE, calls[1].outcome);
    struct item_view seen = view(world);
    assert_true(seen.available == UNITS && seen.locked == 0);
    world_free(world);
}

/* A row without its sale is no row of a ledger. */
static void an_item_without_its_sale_cannot_be_filled(void **state)
{
    (void)state;
    struct world *world = world_new(60000);
    const struct segment_step steps[] = {{.kind = STEP_BEGIN, .sizes = sizes},
                                         {.kind = STEP_ITEM, .sale = 1, .item = ITEM}};
    assert_int_equal(SEGMENT_BROKEN, world_rebuild(world, 1, 0, steps, 2));
    world_free(world);
}

/* More than there is room for is filled all the same, and nothing is taken besides. */
static void what_was_sold_is_filled_whatever_the_room(void **state)
{
    (void)state;
    struct world *world = world_new(60000);
    struct segment_step steps[6] = {
        {.kind = STEP_BEGIN, .sizes = {.orders = 1, .buyers = 1, .items = 1, .sales = 1}},
        {.kind = STEP_SALE,
         .sale = 1,
         .state = SALE_OPEN,
         .starts_at_ms = 1000,
         .ends_at_ms = 9000},
    };
    for (uint32_t i = 0; i < 2; i++) {
        struct order_id id = order_id_fresh(ITEM, 2000, i * SEGMENTS_MAX);
        steps[2 + i] = (struct segment_step){
            .kind = STEP_ORDER,
            .item = ITEM,
            .order = {
                .id = id, .user = 7, .item = ITEM, .qty = 1, .state = ORDER_LOCKED, .version = 2}};
    }
    steps[4] = (struct segment_step){
        .kind = STEP_ITEM, .sale = 1, .item = ITEM, .total = 10, .available = 8, .locked = 2};
    steps[5] = (struct segment_step){.kind = STEP_OPEN};
    assert_int_equal(SEGMENT_DONE, world_rebuild(world, ++world->epoch, 0, steps, 6));
    gate_place(redis_gate_port(world->gate), 0, world->epoch);
    assert_int_equal(8, view(world).available);
    struct gate_request request = {.kind = GATE_REQUEST_BUY,
                                   .id = order_id_fresh(ITEM, 2000, 99 * SEGMENTS_MAX),
                                   .user = 8,
                                   .item = ITEM,
                                   .qty = 1,
                                   .ticket_expires_ms = 50000,
                                   .now_ms = 2000};
    world_ask(world, &request);
    assert_int_equal(REFUSAL_OVERLOADED, request.refusal);
    world_free(world);
}

static void an_items_version_grows_over_epochs(void **state)
{
    (void)state;
    struct world *world = filled();
    (void)bought(world, 7, 1);
    uint64_t before = view(world).version;
    assert_int_equal(SEGMENT_DONE, fill(world->segments, ++world->epoch));
    gate_place(redis_gate_port(world->gate), 0, world->epoch);
    assert_true(view(world).version > before);
    world_free(world);
}

/* ---- the outbox ---- */

static size_t take(struct segments *segments, struct outbox_entry *ret_entries, size_t max)
{
    size_t count = 0;
    for (int nothing = 0; count < max && nothing < 3;) {
        size_t n = 0;
        int error = segments_take(segments, 1, ret_entries + count, max - count, 20, &n);
        count += error == 0 ? n : 0;
        nothing = error == 0 ? 0 : nothing + 1;
    }
    return count;
}

static int64_t entries_left(struct world *world)
{
    redisReply *reply = world_admin(world, "XLEN %s{0}:out", world->prefix);
    int64_t count = reply->integer;
    freeReplyObject(reply);
    return count;
}

static int64_t entries_pending(struct world *world)
{
    redisReply *reply = world_admin(world, "XPENDING %s{0}:out relay", world->prefix);
    assert_int_equal(REDIS_REPLY_ARRAY, reply->type);
    int64_t count = reply->element[0]->integer;
    freeReplyObject(reply);
    return count;
}

static void an_emptied_server_is_told_once(void **state)
{
    (void)state;
    struct world *world = filled();
    struct outbox_entry entry;
    size_t count = 0;
    assert_int_equal(ERR_AGAIN, segments_take(world->segments, 1, &entry, 1, 5, &count));
    assert_int_equal(ERR_AGAIN, segments_take(world->segments, 1, &entry, 1, 5, &count));
    world_do(world, "FLUSHALL");
    assert_int_equal(ERR_IO, segments_take(world->segments, 1, &entry, 1, 5, &count));
    assert_int_equal(ERR_AGAIN, segments_take(world->segments, 1, &entry, 1, 5, &count));
    assert_int_equal(ERR_AGAIN, segments_take(world->segments, 1, &entry, 1, 5, &count));
    assert_int_equal(SEGMENT_DONE, fill(world->segments, ++world->epoch));
    gate_place(redis_gate_port(world->gate), 0, world->epoch);
    (void)bought(world, 7, 1);
    assert_int_equal(0, segments_take(world->segments, 1, &entry, 1, 1000, &count));
    assert_int_equal(world->epoch, entry.epoch);
    world_free(world);
}

/* A lost connection: told once; what was held comes again, for its answer may have been lost. */
static void after_a_cut_what_was_held_comes_again(void **state)
{
    (void)state;
    struct world *world = filled();
    struct outbox_entry entries[8];
    size_t count = 0;
    for (uint32_t i = 0; i < 3; i++) {
        (void)bought(world, 7, i);
    }
    assert_int_equal(3, take(world->segments, entries, 3));
    world_do(world, "CLIENT KILL TYPE normal SKIPME yes");
    int told = 0;
    int error = ERR_AGAIN;
    for (int i = 0; i < TRIES_MAX && error != 0; i++) {
        error = segments_take(world->segments, 1, entries, 8, 5, &count);
        told += error == ERR_IO;
    }
    assert_int_equal(1, told);
    assert_int_equal(3, count);
    assert_int_equal(0, segments_done(world->segments, entries, 3));
    assert_int_equal(0, entries_left(world));
    assert_int_equal(0, entries_pending(world));
    world_reconnect(world);
    world_free(world);
}

/* Killed between the two halves of done: the entry is gone, and is not left pending for ever. */
static void what_is_deleted_and_not_acknowledged_is_cleared_away(void **state)
{
    (void)state;
    struct world *world = filled();
    struct outbox_entry entries[8];
    (void)bought(world, 7, 1);
    (void)bought(world, 8, 2);
    struct segments *first = open_worker(world, "w", 10000, 0);
    assert_int_equal(2, take(first, entries, 2));
    segments_redis_close(first);
    world_do(world, "XDEL %s{0}:out %llu-%llu", world->prefix,
             (unsigned long long)entries[0].mark[0], (unsigned long long)entries[0].mark[1]);
    struct segments *again = open_worker(world, "w", 10000, 0);
    assert_int_equal(1, take(again, entries, 8));
    assert_int_equal(8, entries[0].command.user);
    assert_int_equal(1, entries_pending(world));
    assert_int_equal(0, segments_done(again, entries, 1));
    assert_int_equal(0, entries_pending(world));
    segments_redis_close(again);
    world_free(world);
}

/* More than one page of them, some of them this worker's own. */
static void entries_of_the_dead_are_found_behind_ones_own(void **state)
{
    (void)state;
    enum { EACH = 150 };
    struct world *world = filled();
    static struct outbox_entry entries[4 * EACH];
    struct segments *dead = open_worker(world, "dead", 10000, 600000);
    struct segments *live = open_worker(world, "live", 10000, 200);
    for (uint32_t i = 0; i < EACH; i++) {
        (void)bought(world, 7, i);
    }
    assert_int_equal(EACH, take(live, entries, EACH));
    for (uint32_t i = 0; i < EACH; i++) {
        (void)bought(world, 8, EACH + i);
    }
    assert_int_equal(EACH, take(dead, entries + EACH, EACH));
    segments_redis_close(dead);
    (void)usleep(300000);
    size_t count = 0;
    for (int i = 0; count < EACH; i++) { /* a look every quarter of claim_ms */
        assert_true(i < TRIES_MAX);
        count += take(live, entries + EACH + count, 2 * EACH - count);
    }
    assert_int_equal(EACH, count);
    for (size_t i = EACH; i < 2 * EACH; i++) {
        assert_int_equal(8, entries[i].command.user);
    }
    assert_int_equal(0, segments_done(live, entries, 2 * EACH));
    assert_int_equal(0, entries_pending(world));
    assert_int_equal(0, entries_left(world));
    segments_redis_close(live);
    world_free(world);
}

static void a_text_of_another_version_is_left_alone(void **state)
{
    (void)state;
    static const char *const texts[] = {"2 1 x", "1 1 NOTANID 7 12 1 2000",
                                        "1 1 20000000R0000003T000000000 7 12 1", ""};
    struct world *world = filled();
    struct outbox_entry entries[8];
    for (size_t i = 0; i < 4; i++) {
        world_do(world, "XADD %s{0}:out * reserve %s", world->prefix, texts[i]);
    }
    world_do(world, "XADD %s{0}:out * other %s", world->prefix, "1");
    (void)bought(world, 7, 1);
    assert_int_equal(1, take(world->segments, entries, 8));
    assert_int_equal(7, entries[0].command.user);
    assert_int_equal(0, segments_done(world->segments, entries, 1));
    assert_int_equal(5, entries_left(world));
    world_free(world);
}

/* ---- older epochs ---- */

static int64_t keys(struct world *world, const char *pattern)
{
    redisReply *reply = world_admin(world, "KEYS %s", pattern);
    int64_t count = (int64_t)reply->elements;
    freeReplyObject(reply);
    return count;
}

static void keys_of_older_epochs_are_swept(void **state)
{
    (void)state;
    struct world *world = filled();
    char all[96];
    char now[96];
    uint64_t unlinked = 0;
    for (uint32_t i = 0; i < 40; i++) {
        (void)bought(world, 100 + i, i * 16);
    }
    world_do(world, "SET %s{0}:note 1", world->prefix);
    world_do(world, "SET %s{0}:7 1", world->prefix); /* not an epoch's */
    world_do(world, "SET %s{1ro}:1:i:12 1", world->prefix);
    world_do(world, "SET x%s{0}:1:i:12 1", world->prefix);
    assert_int_equal(SEGMENT_DONE, fill(world->segments, world->epoch += 10));
    gate_place(redis_gate_port(world->gate), 0, world->epoch);
    (void)bought(world, 7, 1);
    (void)snprintf(all, sizeof(all), "*%s{*", world->prefix);
    (void)snprintf(now, sizeof(now), "%s{0}:%llu:*", world->prefix,
                   (unsigned long long)world->epoch);
    int64_t kept = keys(world, now);
    assert_true(kept >= 5);
    int error = ERR_AGAIN;
    uint64_t sum = 0;
    for (int i = 0; error == ERR_AGAIN; i++) {
        assert_true(i < TRIES_MAX);
        error = segments_redis_sweep(world->segments, 0, &unlinked);
        sum += unlinked;
    }
    assert_int_equal(0, error);
    assert_true(sum >= 5);
    assert_int_equal(kept, keys(world, now));
    assert_int_equal(kept + 4 + 2, keys(world, all)); /* meta and outbox, and what is not ours */
    assert_int_equal(UNITS - 2, view(world).available);
    world_do(world, "DEL x%s{0}:1:i:12", world->prefix);
    world_free(world);
}

/* Each look after opening sweeps a part. */
static void looking_goes_on_sweeping(void **state)
{
    (void)state;
    struct world *world = filled();
    char old[96];
    struct segment_state seen;
    for (uint32_t i = 0; i < 2000; i++) {
        world_do(world, "SET %s{0}:1:k:%u 1", world->prefix, i);
    }
    (void)snprintf(old, sizeof(old), "%s{0}:1:*", world->prefix);
    assert_int_equal(SEGMENT_DONE, fill(world->segments, ++world->epoch));
    for (int i = 0; keys(world, old) > 0; i++) {
        assert_true(i < TRIES_MAX);
        segments_look(world->segments, 0, &seen);
        assert_int_equal(SEGMENT_DONE, seen.outcome);
    }
    world_free(world);
}

/* ---- news ---- */

static struct segment_news next_news(struct segments *segments)
{
    struct segment_news news;
    size_t count = 0;
    for (int i = 0; i < TRIES_MAX; i++) {
        if (segments_news(segments, &news, 1, 20, &count) == 0) {
            assert_int_equal(1, count);
            return news;
        }
    }
    fail_msg("no news");
    return news;
}

static void who_was_cut_off_hears_that_news_was_lost(void **state)
{
    (void)state;
    struct world *world = filled();
    assert_int_equal(NEWS_LOST, next_news(world->segments).kind);
    for (int i = 0; i < 3; i++) {
        world_do(world, "CLIENT KILL TYPE pubsub");
        assert_int_equal(NEWS_LOST, next_news(world->segments).kind);
        world_do(world, "PUBLISH %s{0}:news %s", world->prefix, "i 12");
        struct segment_news news = next_news(world->segments);
        assert_true(news.kind == NEWS_ITEM && news.item == 12 && news.segment == 0);
    }
    world_free(world);
}

static void what_is_no_news_is_not_heard(void **state)
{
    (void)state;
    static const char *const texts[] = {"",    "x 1",    "i",       "i x",  "i 12 13",
                                        "o 1", "e 1 64", "e 1 1 1", "s -1", "l 1"};
    struct world *world = filled();
    assert_int_equal(NEWS_LOST, next_news(world->segments).kind);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        world_do(world, "PUBLISH %s{0}:news %s", world->prefix, texts[i]);
        world_do(world, "PUBLISH %s:news %s", world->prefix, texts[i]);
    }
    world_do(world, "PUBLISH %s:news %s", world->prefix, "s 77");
    struct segment_news news = next_news(world->segments);
    assert_true(news.kind == NEWS_SALE && news.sale == 77);
    world_free(world);
}

static void news_that_may_not_be_published_stop_no_event(void **state)
{
    (void)state;
    struct world *world = filled();
    struct segment_call call = event(world, GATE_RESTOCK, 1);
    assert_int_equal(NEWS_LOST, next_news(world->segments).kind);
    world_do(world, "ACL SETUSER default -publish");
    segments_apply(world->segments, &call, 1);
    world_do(world, "ACL SETUSER default +@all");
    assert_int_equal(SEGMENT_DONE, call.outcome);
    assert_int_equal(VERDICT_DONE, call.verdict);
    assert_int_equal(UNITS + 1, view(world).available);
    world_free(world);
}

/* A connection that is silent because nobody is there any more. */
static void a_silent_server_is_asked_for_a_sign_of_life(void **state)
{
    (void)state;
    struct world *world = filled();
    struct segment_news news;
    size_t count = 0;
    struct segments *segments = open_worker(world, "w", 100, 0);
    assert_int_equal(NEWS_LOST, next_news(segments).kind);
    world->moved_us += 6000000;
    for (bool asked = false; !asked;) { /* it answers: nothing is lost */
        assert_int_equal(ERR_AGAIN, segments_news(segments, &news, 1, 20, &count));
        redisReply *list = world_admin(world, "CLIENT LIST TYPE pubsub");
        asked = strstr(list->str, "cmd=ping") != NULL;
        freeReplyObject(list);
    }
    assert_int_equal(ERR_AGAIN, segments_news(segments, &news, 1, 20, &count));
    world->moved_us += 2000000;
    assert_int_equal(ERR_AGAIN, segments_news(segments, &news, 1, 20, &count));
    freeze(world);
    world->moved_us += 6000000;
    assert_int_equal(ERR_AGAIN, segments_news(segments, &news, 1, 20, &count));
    world->moved_us += 2000000;
    assert_int_equal(ERR_AGAIN, segments_news(segments, &news, 1, 20, &count));
    thaw();
    assert_int_equal(NEWS_LOST, next_news(segments).kind);
    segments_redis_close(segments);
    world_free(world);
}

/* ---- options ---- */

static void a_password_is_asked_for_and_given(void **state)
{
    (void)state;
    struct world *world = filled();
    char url[128];
    char error[512];
    struct redis_topology *topology = NULL;
    struct redis_topology *open_topology = world->direct;
    (void)snprintf(url, sizeof(url), "redis://:secret@%s:%u", world->host, world->port);
    assert_int_equal(
        0, topology_open(&(struct topology_options){.url = url}, &topology, error, sizeof(error)));
    world_do(world, "CONFIG SET requirepass secret");
    world_do(world, "AUTH secret");
    world->direct = topology;
    struct segments *segments = open_worker(world, "w", 10000, 0);
    world->direct = open_topology;
    struct segments *without = open_worker(world, "w", 10000, 0);
    struct segment_state seen;
    segments_look(segments, 0, &seen);
    assert_int_equal(SEGMENT_DONE, seen.outcome);
    segments_look(without, 0, &seen);
    assert_int_equal(SEGMENT_NOT_ASKED, seen.outcome);
    assert_non_null(strstr(segments_redis_trouble(without, 0), "NOAUTH"));
    world_do(world, "CONFIG SET requirepass %s", "");
    wait_answer(without);
    segments_redis_close(segments);
    segments_redis_close(without);
    topology_close(topology);
    world_free(world);
}

static void what_cannot_be_configured_is_refused(void **state)
{
    (void)state;
    struct world *world = world_new(60000);
    const struct segments_redis_options good = {.topology = world->direct,
                                                .segments = 1,
                                                .prefix = "p",
                                                .timeout_ms = 100,
                                                .worker = "w",
                                                .clock = &world->clock};
    struct segments_redis_options bad[6] = {good, good, good, good, good, good};
    struct segments *segments = NULL;
    bad[0].segments = 0;
    bad[1].segments = SEGMENTS_MAX + 1;
    bad[2].prefix = "a{b}";
    bad[3].worker = "";
    bad[4].worker = NULL;
    bad[5].timeout_ms = 0;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(ERR_INVALID, segments_redis_open(&bad[i], &segments));
    }
    assert_int_equal(0, segments_redis_open(&good, &segments));
    segments_redis_close(segments);
    segments_redis_close(NULL);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_frozen_server_is_not_known_and_runs_it_once, thaw_after),
        cmocka_unit_test(a_server_that_cannot_write_is_not_asked),
        cmocka_unit_test(a_cut_connection_loses_nothing),
        cmocka_unit_test(forgotten_scripts_are_loaded_again),
        cmocka_unit_test(a_segment_that_contradicts_itself_changes_nothing),
        cmocka_unit_test(an_item_without_its_sale_cannot_be_filled),
        cmocka_unit_test(what_was_sold_is_filled_whatever_the_room),
        cmocka_unit_test(an_items_version_grows_over_epochs),
        cmocka_unit_test(an_emptied_server_is_told_once),
        cmocka_unit_test(after_a_cut_what_was_held_comes_again),
        cmocka_unit_test(what_is_deleted_and_not_acknowledged_is_cleared_away),
        cmocka_unit_test(entries_of_the_dead_are_found_behind_ones_own),
        cmocka_unit_test(a_text_of_another_version_is_left_alone),
        cmocka_unit_test(keys_of_older_epochs_are_swept),
        cmocka_unit_test(looking_goes_on_sweeping),
        cmocka_unit_test(who_was_cut_off_hears_that_news_was_lost),
        cmocka_unit_test(what_is_no_news_is_not_heard),
        cmocka_unit_test(news_that_may_not_be_published_stop_no_event),
        cmocka_unit_test_teardown(a_silent_server_is_asked_for_a_sign_of_life, thaw_after),
        cmocka_unit_test(a_password_is_asked_for_and_given),
        cmocka_unit_test(what_cannot_be_configured_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
