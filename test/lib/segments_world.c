/* See segments_world.h. */
#include "segments_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

const struct gate_sizes segments_world_sizes = {
    .orders = 8000, .buyers = 8000, .items = 8, .sales = 4};

static int64_t delay(void *context)
{
    return ((struct segments_world *)context)->delay_us;
}

void segments_world_init(struct segments_world *ret_world, uint32_t count, bool late)
{
    memset(ret_world, 0, sizeof(*ret_world));
    fake_clock_init(&ret_world->clock, WIDE_NOW);
    ret_world->count = count;
    ret_world->delay_us = 1000;
    ret_world->sim =
        sim_segments_new((struct sim_segments_options){.segments = count,
                                                       .clock = &ret_world->clock.port,
                                                       .claim_ms = 1000,
                                                       .forget_max = 50,
                                                       .context = ret_world,
                                                       .delay_us = late ? delay : NULL});
    ret_world->hands = sim_segments_worker(ret_world->sim, 4711);
}

void segments_world_done(struct segments_world *world)
{
    sim_segments_worker_free(world->hands);
    sim_segments_free(world->sim);
}

uint64_t segments_world_seed(void)
{
    const char *given = getenv("SLUICE_SEED");
    return given != NULL ? strtoull(given, NULL, 10) : 1;
}

static struct segment_step item_step(uint64_t item, uint32_t limit)
{
    return (struct segment_step){.kind = STEP_ITEM,
                                 .sale = WIDE_SALE,
                                 .item = item,
                                 .total = WIDE_UNITS,
                                 .available = WIDE_UNITS,
                                 .limit = limit};
}

void segments_world_fill(struct segments_world *world, uint32_t segment, uint64_t epoch,
                         uint64_t event)
{
    const struct segment_step steps[] = {
        {.kind = STEP_BEGIN, .sizes = segments_world_sizes, .event = event},
        {.kind = STEP_SALE,
         .sale = WIDE_SALE,
         .starts_at_ms = WIDE_NOW,
         .ends_at_ms = WIDE_NOW + WIDE_ENDS_MS,
         .state = SALE_OPEN},
        item_step(WIDE_ONCE, 1),
        item_step(WIDE_FREE, 0),
        {.kind = STEP_OPEN}};
    CHECK(segments_rebuild(world->hands, segment, epoch, 1, steps, 5) == SEGMENT_DONE);
}

void segments_world_bare(struct segments_world *world, uint32_t segment, uint64_t epoch)
{
    const struct segment_step steps[] = {{.kind = STEP_BEGIN, .sizes = segments_world_sizes},
                                         {.kind = STEP_OPEN}};
    CHECK(segments_rebuild(world->hands, segment, epoch, 1, steps, 2) == SEGMENT_DONE);
}

struct segment_state segments_world_look(struct segments_world *world, uint32_t segment)
{
    struct segment_state state;
    segments_look(world->hands, segment, &state);
    return state;
}

void segments_world_segment_table(struct segments_world *world,
                                  struct segment_table *ret_segment_table)
{
    ret_segment_table->count = world->count;
    for (uint32_t s = 0; s < world->count; s++) {
        atomic_store(&ret_segment_table->segments[s].epoch, sim_segments_epoch(world->sim, s));
    }
}

void segments_world_place(struct segments_world *world, struct segment_table *segment_table,
                          struct gate_port *worker)
{
    segments_world_segment_table(world, segment_table);
    for (uint32_t s = 0; s < world->count; s++) {
        gate_place(worker, s, sim_segments_epoch(world->sim, s));
    }
}

struct order_id segments_world_id(struct segments_world *world, uint64_t item, uint32_t segment)
{
    return order_id_fresh(item, WIDE_NOW, ++world->sequence << ORDER_SEGMENT_BITS | segment);
}

uint64_t segments_world_user(const struct segments_world *world, uint32_t segment, uint32_t nth)
{
    uint64_t user = 0;
    for (uint32_t found = 0; found <= nth;) {
        found += segment_home(++user, world->count) == segment;
    }
    return user;
}

struct gate_command segments_world_buy(struct segments_world *world, uint32_t segment,
                                       uint64_t user)
{
    struct gate_port *worker = sim_segments_front(world->sim, 1);
    struct gate_request request = {.kind = GATE_REQUEST_BUY,
                                   .segment = segment,
                                   .id = segments_world_id(world, WIDE_FREE, segment),
                                   .user = user,
                                   .item = WIDE_FREE,
                                   .qty = 1,
                                   .now_ms = clock_wall_ms(&world->clock.port),
                                   .ticket_expires_ms = WIDE_NOW + WIDE_ENDS_MS};
    gate_place(worker, segment, sim_segments_epoch(world->sim, segment));
    CHECK(gate_submit(worker, &request) == GATE_ANSWERED && gate_request_done(&request));
    sim_segments_front_free(worker);
    return (struct gate_command){.kind = GATE_RESERVE,
                                 .now_ms = request.order.created_at_ms,
                                 .id = request.id,
                                 .user = user,
                                 .item = WIDE_FREE,
                                 .qty = 1};
}

const struct gate_order *segments_world_order(const struct segments_world *world, uint32_t segment,
                                              struct order_id id)
{
    const struct gate *gate = sim_segments_gate(world->sim, segment);
    uint32_t slot = gate != NULL ? gate_find_order(gate, id) : GATE_NONE;
    return slot != GATE_NONE ? &gate->orders[slot] : NULL;
}

const struct gate_item *segments_world_item(const struct segments_world *world, uint32_t segment,
                                            uint64_t item)
{
    const struct gate *gate = sim_segments_gate(world->sim, segment);
    uint32_t slot = gate != NULL ? gate_find_item(gate, item) : GATE_NONE;
    return slot != GATE_NONE ? &gate->items[slot] : NULL;
}
