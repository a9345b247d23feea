/* The gate in this process as the ledger writer's event sink. An event that the gate refuses is
 * logged and skipped; otherwise no later event could be applied. */
#ifndef SLUICE_EMBEDDED_GATE_EVENT_SINK_H
#define SLUICE_EMBEDDED_GATE_EVENT_SINK_H

#include "embedded/embedded_gate.h"
#include "ledger/event_sink.h"

struct gate_event_sink {
    struct event_sink event_sink; /* must be first */
    struct embedded_gate *engine;
};
void gate_event_sink_init(struct gate_event_sink *ret_event_sink, struct embedded_gate *engine);

#endif
