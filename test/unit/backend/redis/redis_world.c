/* See redis_world.h. */
#include "redis_world.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Not a verdict: what has not come after so many turns never will. */
#define TURNS_MAX 3000

static int64_t boot_us(struct clock_port *clock)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 + ((struct world *)clock)->moved_us;
}

static int64_t wall_ms(struct clock_port *clock)
{
    return boot_us(clock) / 1000;
}

static const struct clock_ops clock_ops = {.wall_ms = wall_ms, .boot_us = boot_us};

void world_admin_again(struct world *world)
{
    if (world->admin != NULL) {
        redisFree(world->admin);
    }
    for (int i = 0; i < TURNS_MAX; i++) {
        world->admin = redisConnect(world->host, world->port);
        assert_non_null(world->admin);
        if (world->admin->err == 0) {
            return;
        }
        redisFree(world->admin);
        world->admin = NULL;
        (void)usleep(10000);
    }
    fail_msg("no server at %s:%u", world->host, world->port);
}

struct redis_topology *world_topology(const char *host, uint16_t port)
{
    char url[128];
    char error[512] = "";
    struct redis_topology *topology = NULL;
    (void)snprintf(url, sizeof(url), "redis://%s:%u", host, port);
    if (topology_open(&(struct topology_options){.url = url}, &topology, error, sizeof(error)) !=
        0) {
        fail_msg("%s: %s", url, error);
    }
    return topology;
}

struct world *world_behind(struct proxy *proxy, uint32_t call_timeout_ms)
{
    static unsigned worlds;
    const char *address = getenv("SLUICE_TEST_REDIS");
    if (address == NULL || address[0] == '\0') {
        print_message("no SLUICE_TEST_REDIS: skipped\n");
        skip();
    }
    (void)signal(SIGPIPE, SIG_IGN);
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    world->clock.ops = &clock_ops;
    assert_int_equal(2, sscanf(address, "%63[^:]:%hu", world->host, &world->port));
    (void)snprintf(world->prefix, sizeof(world->prefix), "test%d-%u", (int)getpid(), worlds++);
    world->proxy = proxy;
    world->direct = world_topology(world->host, world->port);
    world->topology = proxy != NULL ? world_topology("127.0.0.1", proxy->port) : world->direct;
    struct redis_gate_config config = {
        .topology = world->topology,
        .segments = 1,
        .loops = 1,
        .prefix = world->prefix,
        .connect_timeout_ms = 5000,
        .call_timeout_ms = call_timeout_ms,
        .retry_min_ms = 1,
        .retry_max_ms = 50,
        .in_flight_max = 1000,
        .seed = 1,
        .clock = &world->clock,
    };
    assert_int_equal(0, redis_gate_new(&config, &world->gate));
    struct segments_redis_options options = {
        .topology = world->direct,
        .segments = 1,
        .prefix = world->prefix,
        .timeout_ms = 60000,
        .worker = "world",
        .clock = &world->clock,
    };
    assert_int_equal(0, segments_redis_open(&options, &world->segments));
    world_admin_again(world);
    world_reconnect(world);
    return world;
}

struct world *world_new(uint32_t call_timeout_ms)
{
    return world_behind(NULL, call_timeout_ms);
}

void world_free(struct world *world)
{
    redisReply *keys = world_admin(world, "KEYS %s{*", world->prefix);
    for (size_t i = 0; i < keys->elements; i++) {
        world_do(world, "UNLINK %s", keys->element[i]->str);
    }
    freeReplyObject(keys);
    redisFree(world->admin);
    redis_gate_free(world->gate);
    segments_redis_close(world->segments);
    if (world->topology != world->direct) {
        topology_close(world->topology);
    }
    topology_close(world->direct);
    free(world);
}

void world_turn(struct world *world)
{
    struct pollfd fd = {.fd = redis_gate_fd(world->gate, 0), .events = POLLIN};
    int64_t left_us = gate_flush(redis_gate_port(world->gate), 0) - boot_us(&world->clock);
    int wait_ms = left_us <= 0 ? 0 : left_us > 20000 ? 20 : (int)(left_us / 1000) + 1;
    if (world->proxy != NULL) {
        proxy_pump(world->proxy, world->host, world->port);
        wait_ms = wait_ms > 1 ? 1 : wait_ms;
    }
    (void)poll(&fd, 1, wait_ms);
}

struct gate_request *world_next_ask(struct world *world)
{
    for (int i = 0; world->answered == NULL; i++) {
        assert_true(i < TURNS_MAX);
        world->answered = gate_collect(redis_gate_port(world->gate), 0);
        if (world->answered == NULL) {
            world_turn(world);
        }
    }
    struct gate_request *request = world->answered;
    world->answered = request->next;
    return request;
}

void world_reconnect(struct world *world)
{
    for (int i = 0; !redis_gate_ready(world->gate, 0, 0); i++) {
        if (i == TURNS_MAX) {
            fail_msg("not connected: %s", redis_gate_trouble(world->gate, 0, 0));
        }
        assert_null(gate_collect(redis_gate_port(world->gate), 0));
        world_turn(world);
    }
    struct segment_state state = {.outcome = SEGMENT_NOT_ASKED};
    for (int i = 0; state.outcome == SEGMENT_NOT_ASKED || state.outcome == SEGMENT_NOT_KNOWN; i++) {
        if (i == TURNS_MAX) {
            fail_msg("no answer: %s", segments_redis_trouble(world->segments, 0));
        }
        segments_look(world->segments, 0, &state);
        (void)usleep(i == 0 ? 0 : 5000);
    }
}

void world_ask(struct world *world, struct gate_request *request)
{
    if (gate_submit(redis_gate_port(world->gate), request) == GATE_PENDING) {
        assert_ptr_equal(request, world_next_ask(world));
    }
}

enum segment_outcome world_rebuild(struct world *world, uint64_t epoch, uint64_t fence,
                                   const struct segment_step *steps, size_t count)
{
    return segments_rebuild(world->segments, 0, epoch, fence, steps, count);
}

void world_claim(struct world *world, struct gate_sizes sizes)
{
    world_claim_shares(world, sizes, (struct gate_shares){0});
}

void world_claim_shares(struct world *world, struct gate_sizes sizes, struct gate_shares shares)
{
    struct segment_step steps[] = {{.kind = STEP_BEGIN, .sizes = sizes, .shares = shares},
                                   {.kind = STEP_OPEN}};
    assert_int_equal(SEGMENT_DONE, world_rebuild(world, ++world->epoch, 0, steps, 2));
    world->event = 0;
    gate_place(redis_gate_port(world->gate), 0, world->epoch);
}

struct segment_call world_event(const struct world *world, const struct gate_command *command)
{
    return (struct segment_call){.epoch = world->epoch, .after = world->event, .command = *command};
}

void world_apply(struct world *world, struct segment_call *call)
{
    segments_apply(world->segments, call, 1);
    if (call->outcome == SEGMENT_DONE && call->verdict == VERDICT_DONE &&
        call->command.kind != GATE_RESERVE && call->command.event != 0) {
        world->event = call->command.event;
    }
}

static void step_buy(struct world *world, const struct gate_command *command,
                     struct world_answer *ret_answer)
{
    struct gate_request request = {
        .kind = GATE_REQUEST_BUY,
        .id = command->id,
        .user = command->user,
        .item = command->item,
        .qty = command->qty,
        .ticket_expires_ms = (int64_t)command->ticket_expires_ms,
        .now_ms = command->now_ms,
    };
    world_ask(world, &request);
    if (request.outcome != GATE_OUTCOME_ANSWERED) {
        fail_msg("reserve: not answered: %s", redis_gate_trouble(world->gate, 0, 0));
    }
    *ret_answer = (struct world_answer){
        .verdict = request.refusal != REFUSAL_NONE ? VERDICT_REFUSED
                   : request.existed               ? VERDICT_ALREADY_APPLIED
                                                   : VERDICT_DONE,
        .refusal = request.refusal,
        .bound = request.bound,
        .held = request.held,
        .limit = request.limit,
        .available = request.available,
        .locked = request.locked,
        .cooling_until_ms = request.cooling_until_ms,
        .has_order = request.has_order,
        .order = request.order,
    };
}

enum verdict world_step(struct world *world, const struct gate_command *command,
                        struct world_answer *ret_answer)
{
    if (command->kind == GATE_RESERVE) {
        step_buy(world, command, ret_answer);
        return ret_answer->verdict;
    }
    struct segment_call call = world_event(world, command);
    world_apply(world, &call);
    if (call.outcome != SEGMENT_DONE) {
        fail_msg("%s: outcome %d: %s", gate_kind_text(command->kind), (int)call.outcome,
                 segments_redis_trouble(world->segments, 0));
    }
    *ret_answer = (struct world_answer){.verdict = call.verdict,
                                        .refusal = call.refusal,
                                        .has_order = call.has_order,
                                        .order = call.order};
    return call.verdict;
}

static redisReply *admin(struct world *world, const char *format, va_list words)
{
    redisReply *reply = redisvCommand(world->admin, format, words);
    if (reply == NULL) {
        fail_msg("%s: %s", format, world->admin->errstr);
    }
    return reply;
}

redisReply *world_admin(struct world *world, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    redisReply *reply = admin(world, format, words);
    va_end(words);
    return reply;
}

void world_do(struct world *world, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    redisReply *reply = admin(world, format, words);
    va_end(words);
    if (reply->type == REDIS_REPLY_ERROR) {
        fail_msg("%s: %s", format, reply->str);
    }
    freeReplyObject(reply);
}

void world_restart(struct world *world)
{
    redisReply *gone = redisCommand(world->admin, "DEBUG RESTART");
    if (gone != NULL) {
        fail_msg("DEBUG RESTART: %s", gone->str);
    }
    world_admin_again(world);
}

void world_other_run(struct world *world)
{
    char place[80];
    redisReply *now = world_admin(world, "HGET %s{0}:meta place", world->prefix);
    assert_int_equal(REDIS_REPLY_STRING, now->type);
    (void)snprintf(place, sizeof(place), "%llu %040d %d", strtoull(now->str, NULL, 10), 1,
                   REDIS_LAYOUT);
    freeReplyObject(now);
    world_do(world, "HSET %s{0}:meta place %s", world->prefix, place);
}
