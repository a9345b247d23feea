/* See world.h: what stands between a stage and a server. */
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "world.h"

/* Of a server that does not answer. */
#define TIMEOUT_US 500000

/* A part of the way, there or back: others go on meanwhile. */
static void pass(struct world *world)
{
    if (fiber_self() != NULL) {
        (void)fiber_sleep(world_about(world, world->plan.call_us));
    }
}

/* Nothing was there: waits for a part of what it may. */
static void linger(struct world *world, int64_t wait_ms)
{
    if (fiber_self() != NULL && wait_ms > 0) {
        (void)fiber_sleep(world_between(world, wait_ms * 300, wait_ms * 1000));
    }
}

/* ---- clocks ---- */

static int64_t shown_us(const struct world_clock *clock)
{
    int64_t now_us = world_now_us(clock->world);
    return now_us + now_us / 1000000 * clock->ppm;
}

static int64_t wall_ms(struct clock_port *port)
{
    const struct world_clock *clock = (const struct world_clock *)port;
    return WORLD_NOW_MS + (shown_us(clock) + clock->ahead_us) / 1000;
}

static int64_t boot_us(struct clock_port *port)
{
    return 1000000000 + shown_us((const struct world_clock *)port);
}

void world_clock_init(struct world_clock *ret_clock, struct world *world, int64_t ahead_us,
                      int64_t ppm)
{
    static const struct clock_ops ops = {.wall_ms = wall_ms, .boot_us = boot_us};
    *ret_clock = (struct world_clock){{&ops}, world, ahead_us, ppm};
}

/* ---- the ledger ---- */

static bool is_down(const struct world *world)
{
    return world->ledger_down_until_us > world_now_us(world);
}

static void ledger_way(struct world *world)
{
    pass(world);
    if (fiber_self() != NULL && world->ledger_slow_until_us > world_now_us(world)) {
        (void)fiber_sleep(world_between(world, 1000, 300000));
    }
    if (fiber_self() != NULL && is_down(world)) {
        (void)fiber_sleep(world_between(world, 1000, TIMEOUT_US));
    }
}

static void world_write(struct ledger *ledger, struct ledger_batch *batch)
{
    struct world_ledger *own = (struct world_ledger *)ledger;
    struct world *world = own->world;
    struct memory_ledger *memory = &world->ledger;
    ledger_way(world);
    uint64_t commits = memory->commits;
    memory->fail_next = is_down(world) ? ERR_IO : 0;
    if (memory->fail_next == 0 && world_chance(world, world->ledger_lose)) {
        memory->lose_next = ERR_IO;
        world_struck(world, FAULT_LEDGER_LOST, own->process);
    }
    (void)ledger_write(&own->inner.ledger, batch);
    memory->fail_next = memory->lose_next = 0;
    world_note(world, "ledger wrote", batch->count, (uint64_t)batch->error, memory->events_count);
    model_commit(world, batch, memory->commits > commits);
    ledger_way(world);
}

static void world_read(struct ledger *ledger, struct ledger_query *query)
{
    struct world_ledger *own = (struct world_ledger *)ledger;
    struct world *world = own->world;
    ledger_way(world);
    world->ledger.fail_read = is_down(world) ? ERR_IO : 0;
    (void)ledger_read(&own->inner.ledger, query);
    world->ledger.fail_read = 0;
    pass(world);
}

void world_ledger_init(struct world_ledger *ret_ledger, struct world *world, uint32_t process)
{
    static const struct ledger_ops ops = {.write = world_write, .read = world_read};
    *ret_ledger =
        (struct world_ledger){.ledger = {.ops = &ops}, .world = world, .process = process};
    memory_port_init(&ret_ledger->inner, &world->ledger);
}

/* ---- leases ---- */

static int lease_take_way(struct lease_port *port, const char *name, int64_t ttl_ms,
                          uint64_t *ret_token)
{
    struct world_lease *own = (struct world_lease *)port;
    ledger_way(own->world);
    int error =
        is_down(own->world) ? ERR_IO : lease_take(&own->inner.port, name, ttl_ms, ret_token);
    if (error == 0) {
        model_lease(own->world, name, *ret_token);
    }
    pass(own->world);
    return error;
}

static void lease_drop_way(struct lease_port *port, const char *name)
{
    struct world_lease *own = (struct world_lease *)port;
    ledger_way(own->world);
    if (!is_down(own->world)) {
        lease_drop(&own->inner.port, name);
    }
}

void world_lease_init(struct world_lease *ret_lease, struct world *world, uint32_t process)
{
    static const struct lease_ops ops = {lease_take_way, lease_drop_way};
    char name[48];
    (void)snprintf(name, sizeof(name), "p%u-%llu", process,
                   (unsigned long long)world->processes[process].lives);
    *ret_lease = (struct world_lease){.port = {&ops}, .world = world};
    memory_holder_init(&ret_lease->inner, &world->ledger, name);
}

/* ---- segments ---- */

/* The stages make few calls, so now and then it is one of theirs whose answer is lost. */
static void lose_one(struct world *world, uint32_t segment)
{
    if ((world->plan.faults >> FAULT_GATE_LOST & 1) != 0 && !world->healed &&
        world_chance(world, 30)) {
        world_struck(world, FAULT_GATE_LOST, segment);
        sim_segments_lose(world->segments, segment, 1);
    }
}

static void apply_way(struct segments *segments, struct segment_call *calls, size_t count)
{
    struct world_segments *own = (struct world_segments *)segments;
    pass(own->world);
    if (count > 0) {
        lose_one(own->world, calls[0].segment);
    }
    segments_apply(own->inner, calls, count);
    for (size_t i = 0; i < count; i++) {
        line_asked_for(own->world, &calls[i]);
    }
    if (count > 0) {
        world_note(own->world, "segment call", calls[0].segment, calls[0].command.kind,
                   calls[0].outcome);
    }
    pass(own->world);
}

static void look_way(struct segments *segments, uint32_t segment, struct segment_state *ret_state)
{
    struct world_segments *own = (struct world_segments *)segments;
    pass(own->world);
    segments_look(own->inner, segment, ret_state);
    pass(own->world);
}

static enum segment_outcome rebuild_way(struct segments *segments, uint32_t segment, uint64_t epoch,
                                        uint64_t fence, const struct segment_step *steps,
                                        size_t count)
{
    struct world_segments *own = (struct world_segments *)segments;
    pass(own->world);
    lose_one(own->world, segment);
    enum segment_outcome outcome =
        segments_rebuild(own->inner, segment, epoch, fence, steps, count);
    world_note(own->world, "segment rebuilt", segment, epoch, outcome);
    model_rebuilt(own->world, segment, epoch, fence, outcome);
    pass(own->world);
    return outcome;
}

static int take_way(struct segments *segments, uint64_t mask, struct outbox_entry *ret_entries,
                    size_t max, int64_t wait_ms, size_t *ret_count)
{
    struct world_segments *own = (struct world_segments *)segments;
    pass(own->world);
    int error = segments_take(own->inner, mask, ret_entries, max, 0, ret_count);
    if (error != 0 && wait_ms > 0) {
        linger(own->world, wait_ms);
        error = segments_take(own->inner, mask, ret_entries, max, 0, ret_count);
    }
    pass(own->world);
    return error;
}

static int done_way(struct segments *segments, const struct outbox_entry *entries, size_t count)
{
    struct world_segments *own = (struct world_segments *)segments;
    pass(own->world);
    if (count > 0) {
        lose_one(own->world, entries[0].segment);
    }
    int error = segments_done(own->inner, entries, count);
    pass(own->world);
    return error;
}

static int news_way(struct segments *segments, struct segment_news *ret_news, size_t max,
                    int64_t wait_ms, size_t *ret_count)
{
    struct world_segments *own = (struct world_segments *)segments;
    int error = segments_news(own->inner, ret_news, max, 0, ret_count);
    if (error != 0) {
        linger(own->world, wait_ms);
        error = segments_news(own->inner, ret_news, max, 0, ret_count);
    }
    return error;
}

static void tell_way(struct segments *segments, const struct segment_news *news)
{
    struct world_segments *own = (struct world_segments *)segments;
    pass(own->world);
    segments_tell(own->inner, news);
}

static void wake_way(struct segments *segments)
{
    (void)segments;
}

void world_segments_init(struct world_segments *ret_segments, struct world *world, uint32_t name)
{
    static const struct segments_ops ops = {apply_way, look_way, rebuild_way, take_way,
                                            done_way,  news_way, tell_way,    wake_way};
    *ret_segments = (struct world_segments){
        .segments = {&ops}, .inner = sim_segments_worker(world->segments, name), .world = world};
}

/* ---- the queue ---- */

static struct queue *inner_of(struct queue *queue, struct world **ret_world)
{
    struct world_queue *own = (struct world_queue *)queue;
    *ret_world = own->world;
    sim_broker_time(own->broker, clock_wall_ms(&own->world->clock.port));
    return own->inner;
}

static int publish_way(struct queue *queue, uint64_t number, struct span body)
{
    struct world *world;
    int error = queue_publish(inner_of(queue, &world), number, body);
    world_note(world, "published", number, (uint64_t)error, body.len);
    return error;
}

static int announce_way(struct queue *queue, uint64_t number, const char *key, struct span body)
{
    struct world *world;
    int error = queue_announce(inner_of(queue, &world), number, key, body);
    world_note(world, "announced", number, (uint64_t)error, body.len);
    return error;
}

static int outcomes_way(struct queue *queue, struct queue_outcome *ret_outcomes, size_t max,
                        int64_t wait_ms, size_t *ret_count)
{
    struct world *world;
    pass(((struct world_queue *)queue)->world);
    int error = queue_outcomes(inner_of(queue, &world), ret_outcomes, max, 0, ret_count);
    if (error != 0 && wait_ms > 0) {
        linger(world, wait_ms);
        error = queue_outcomes(inner_of(queue, &world), ret_outcomes, max, 0, ret_count);
    }
    return error;
}

static int queue_take_way(struct queue *queue, struct queue_message *ret_messages, size_t max,
                          int64_t wait_ms, size_t *ret_count)
{
    struct world *world;
    pass(((struct world_queue *)queue)->world);
    int error = queue_take(inner_of(queue, &world), ret_messages, max, 0, ret_count);
    if (error != 0 && wait_ms > 0) {
        linger(world, wait_ms);
        error = queue_take(inner_of(queue, &world), ret_messages, max, 0, ret_count);
    }
    return error;
}

static int settle_way(struct queue *queue, const struct queue_message *message, int how)
{
    struct world *world;
    pass(((struct world_queue *)queue)->world);
    struct queue *inner = inner_of(queue, &world);
    int error = inner->ops->settle(inner, message, how);
    world_note(world, "settled", message->tag, (uint64_t)how, (uint64_t)error);
    return error;
}

static int depths_way(struct queue *queue, struct queue_depths *ret_depths)
{
    struct world *world;
    return queue_depths(inner_of(queue, &world), ret_depths);
}

static int parked_way(struct queue *queue, struct queue_message *ret_messages, size_t max,
                      bool redrive, size_t *ret_count)
{
    struct world *world;
    return queue_parked(inner_of(queue, &world), ret_messages, max, redrive, ret_count);
}

static void queue_wake_way(struct queue *queue)
{
    (void)queue;
}

void world_queue_init(struct world_queue *ret_queue, struct world *world, struct sim_broker *broker,
                      bool publisher)
{
    static const struct queue_ops ops = {publish_way, outcomes_way, queue_take_way, settle_way,
                                         depths_way,  parked_way,   queue_wake_way, announce_way};
    *ret_queue = (struct world_queue){.queue = {&ops},
                                      .inner = sim_queue_open(broker, publisher, 0, 0),
                                      .world = world,
                                      .broker = broker};
}
