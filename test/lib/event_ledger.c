/* See event_ledger.h. */
#include "event_ledger.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "cluster_world.h"

static void read_events(struct ledger *port, struct ledger_query *query)
{
    struct event_ledger *ledger = (struct event_ledger *)port;
    ledger->reads++;
    query->error = ledger->fail;
    query->count = 0;
    if (query->kind == QUERY_STATE) {
        query->last_event = ledger->count;
        return;
    }
    if (query->kind == QUERY_SEGMENTS) {
        while (query->count < ledger->segments) {
            query->segments[query->count] = (struct segment_row){query->count, 1};
            query->count++;
        }
        return;
    }
    CHECK(query->kind == QUERY_EVENTS);
    if (ledger->fail_events) {
        ledger->fail_events = false;
        query->error = ERR_IO;
        return;
    }
    for (size_t i = query->after; i < ledger->count && query->count < query->limit; i++) {
        const struct ledger_event *event = &ledger->events[i];
        if (event->segment == SEGMENT_ALL || event->segment == query->segment) {
            query->events[query->count++] = *event;
        }
    }
}

static const struct ledger_ops ops = {.read = read_events};

void event_ledger_init(struct event_ledger *ret_ledger)
{
    memset(ret_ledger, 0, sizeof(*ret_ledger));
    ret_ledger->ledger.ops = &ops;
}

void event_ledger_commit(struct event_ledger *ledger, struct ledger_event event)
{
    CHECK(ledger->count < EVENT_LEDGER_MAX);
    event.number = ledger->count + 1;
    ledger->events[ledger->count++] = event;
}

uint64_t event_ledger_last(const struct event_ledger *ledger, uint32_t segment)
{
    for (size_t i = ledger->count; i > 0; i--) {
        int32_t of = ledger->events[i - 1].segment;
        if (of == SEGMENT_ALL || of == (int32_t)segment) {
            return i;
        }
    }
    return 0;
}

struct ledger_event event_restock(uint32_t segment, uint64_t units)
{
    return (struct ledger_event){.kind = EVENT_ITEM_RESTOCKED,
                                 .segment = (int32_t)segment,
                                 .item = CLUSTER_FREE,
                                 .a = (int64_t)units};
}

struct ledger_event event_of_order(enum ledger_event_kind kind, const struct gate_command *buy)
{
    return (struct ledger_event){.kind = kind,
                                 .segment = (int32_t)order_id_segment(buy->id),
                                 .sale = CLUSTER_SALE,
                                 .item = buy->item,
                                 .user = buy->user,
                                 .id = buy->id,
                                 .qty = buy->qty,
                                 .reason = kind == EVENT_ORDER_FAILED ? REFUSAL_LIMIT_REACHED
                                                                      : REFUSAL_NONE,
                                 .a = kind == EVENT_ORDER_LOCKED ? CLUSTER_NOW + 60000 : 0};
}

struct ledger_event event_of_sale(enum ledger_event_kind kind)
{
    return (struct ledger_event){.kind = kind,
                                 .segment = SEGMENT_ALL,
                                 .sale = CLUSTER_SALE,
                                 .a = CLUSTER_NOW,
                                 .b = CLUSTER_NOW + CLUSTER_ENDS_MS};
}
