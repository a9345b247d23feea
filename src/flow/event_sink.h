/*
 * Where the ledger writer brings what the ledger has committed: the gate in this process (gate_event_sink), or
 * the segments of a gate on other machines (segment_event_sink.h). One thread, the ledger writer's.
 */
#ifndef SLUICE_FLOW_EVENT_SINK_H
#define SLUICE_FLOW_EVENT_SINK_H

#include "port/ledger.h"

struct event_sink;
struct event_sink_ops {
    /*
     * Applies events of one committed batch, in order. 0: they are applied, or will be: a sink may
     * bring a part of them later, from the ledger, in its turns. Any error: what was applied is not
     * known here; the ledger writer catches up.
     */
    int (*apply)(struct event_sink *event_sink, const struct ledger_event *events, size_t count,
                 int64_t now_ms);
    /* The last event that has been applied; an ledger writer that alone writes reads on from it. */
    uint64_t (*applied)(struct event_sink *event_sink);
    /* A part of what is left behind. In how many ms it is worth to be called again; 0: at once;
     * INT64_MAX: nothing is left. hurry: somebody has just written to the ledger beside the ledger writer. */
    int64_t (*turn)(struct event_sink *event_sink, int64_t now_ms, bool hurry);
    /* Whether this segment (SEGMENT_ALL: any) lacks something that this ledger writer has committed, or may. */
    bool (*is_behind)(struct event_sink *event_sink, int32_t segment);
    /* How many more sales and items there is room for. */
    void (*room)(struct event_sink *event_sink, uint32_t *ret_sales, uint32_t *ret_items);
    /* No unit of the sale is locked: nothing of it is still to be booked, paid or expired. */
    bool (*is_idle)(struct event_sink *event_sink, uint64_t sale);
};
struct event_sink {
    const struct event_sink_ops *ops;
};

#endif
