/* After the last fault heals, every order resolves within a bound, and no message is left. */
#include <stdlib.h>
#include <string.h>

#include "ledger/cloudevent.h"
#include "world.h"

#define ROWS 16

/* The gate's numbers of a share are the ledger's. */
static bool is_followed(struct world *world, const struct allotment_row *share)
{
    const struct gate *gate = sim_segments_gate(world->segments, share->segment);
    uint32_t slot = gate != NULL ? gate_find_item(gate, share->item) : GATE_NONE;
    if (slot == GATE_NONE) {
        return false;
    }
    const struct gate_item *item = &gate->items[slot];
    return item->locked == share->locked && item->sold == share->sold &&
           item->available == share->amount - share->locked - share->sold;
}

static const char *orders_left(const struct world *world)
{
    for (size_t i = 0; i < world->model.count; i++) {
        const struct model_order *order = &world->model.orders[i];
        if (order->told && !order->booked) {
            return "an order that was promised and has no row";
        }
        if (order->booked && !order_state_final(order->state)) {
            return "an order that is locked and not paid";
        }
    }
    return NULL;
}

static const char *segments_left(struct world *world)
{
    for (uint32_t s = 0; s < world->plan.segments; s++) {
        if (!sim_segments_open(world->segments, s)) {
            return "a segment that is not open";
        }
        if (sim_segments_outbox(world->segments, s) > 0) {
            return "an entry in an outbox";
        }
    }
    for (uint32_t s = 0; s < world->plan.segments; s++) {
        struct allotment_row rows[ROWS];
        struct ledger_query query = {
            .kind = QUERY_ALLOTMENTS, .segment = (int32_t)s, .limit = ROWS, .allotments = rows};
        (void)ledger_read(&world->ledger.ledger, &query);
        const struct gate *gate = sim_segments_gate(world->segments, s);
        if (gate == NULL || gate->applied_event < query.last_event) {
            return "an event that a gate has not heard of";
        }
        for (uint32_t i = 0; i < query.count; i++) {
            if (!is_followed(world, &rows[i])) {
                return "a gate whose numbers are not the ledger's";
            }
        }
    }
    return NULL;
}

/* The id of an announced event: `"id":"NUMBER"`, or NUMBER and a suffix. */
static uint64_t number_of(const struct sim_event *event)
{
    const char *id = strstr(event->body, "\"id\":\"");
    return id != NULL ? strtoull(id + 6, NULL, 10) : 0;
}

/* Every event that concerns the shop was announced, and first copies are in the ledger's order. */
static bool events_are_out(struct world *world)
{
    uint64_t highest = 0;
    const struct sim_event *event;
    for (size_t at = 0; (event = sim_broker_event(world->events, at)) != NULL; at++) {
        uint64_t number = number_of(event);
        for (uint64_t n = highest + 1; n < number; n++) {
            if (cloudevent_count(&world->ledger.events[n - 1]) > 0) {
                world_broken(world, 13, "event %llu was announced before event %llu",
                             (unsigned long long)number, (unsigned long long)n);
            }
        }
        highest = number > highest ? number : highest;
    }
    for (uint64_t n = highest + 1; n <= world->ledger.events_count; n++) {
        if (cloudevent_count(&world->ledger.events[n - 1]) > 0) {
            return false;
        }
    }
    return true;
}

const char *promise_13_left(struct world *world)
{
    const char *left = orders_left(world);
    left = left != NULL ? left : segments_left(world);
    if (left != NULL) {
        return left;
    }
    if (sim_broker_messages(world->broker) > 0) {
        return "a message in the queue";
    }
    struct queue_depths depths = {0};
    (void)queue_depths(world->cashier_parked, &depths);
    if (sim_broker_messages(world->payments) > depths.parked) {
        return "a payment in the queue";
    }
    if (!events_are_out(world)) {
        return "an event that the shop has not heard of";
    }
    struct transfer_row open;
    struct ledger_query query = {
        .kind = QUERY_TRANSFERS, .segment = SEGMENT_ALL, .limit = 1, .transfers = &open};
    (void)ledger_read(&world->ledger.ledger, &query);
    if (query.count > 0) {
        return "a transfer that has not come to its end";
    }
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct spool_numbers numbers = {0};
        if (!world->processes[i].up) {
            return "a process that is not up";
        }
        spool_count(world->processes[i].engine.spool, &numbers);
        if (numbers.entries > 0) {
            return "a promise in a spool";
        }
    }
    return NULL;
}
