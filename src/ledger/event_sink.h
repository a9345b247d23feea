/*
 * The event sink receives the events that the ledger writer has committed. It is the gate in this
 * process (gate_event_sink.h) or the segments of a gate on other machines (segment_event_sink.h).
 * Ledger writer's thread only.
 */
#ifndef SLUICE_LEDGER_EVENT_SINK_H
#define SLUICE_LEDGER_EVENT_SINK_H

#include "port/ledger.h"

struct event_sink;
struct event_sink_ops {
    /*
     * Applies the events of one committed batch, in order. 0: they are applied or will be; a sink
     * may apply some of them later, in `turn`, from the ledger. On any error it is unknown which
     * events were applied, and the ledger writer catches up.
     */
    int (*apply)(struct event_sink *event_sink, const struct ledger_event *events, size_t count,
                 int64_t now_ms);
    /* The last applied event. A ledger writer that is the only one reads the ledger from there. */
    uint64_t (*applied)(struct event_sink *event_sink);
    /* Applies some of the events that were left behind. Returns in how many ms to call it again; 0:
     * at once; INT64_MAX: nothing is left. hurry: somebody else has just written to the ledger. */
    int64_t (*turn)(struct event_sink *event_sink, int64_t now_ms, bool hurry);
    /* True if this segment (SEGMENT_ALL: any) lacks, or may lack, events
     * that this ledger writer committed. */
    bool (*is_behind)(struct event_sink *event_sink, int32_t segment);
    /* How many more sales and items fit. */
    void (*room)(struct event_sink *event_sink, uint32_t *ret_sales, uint32_t *ret_items);
    /* True if no order of the sale is left to book. The gate in this process also checks that none
     * is left to pay or expire; a shared ledger checks that itself. */
    bool (*is_idle)(struct event_sink *event_sink, uint64_t sale);
};
struct event_sink {
    const struct event_sink_ops *ops;
};

#endif
