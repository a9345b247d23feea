/* The gate in this process as the office's sink. What the gate refuses is logged and skipped, or
 * nothing would ever move on. */
#ifndef SLUICE_FLOW_SINK_ENGINE_H
#define SLUICE_FLOW_SINK_ENGINE_H

#include "flow/engine.h"
#include "flow/sink.h"

struct sink_engine {
    struct sink sink; /* first */
    struct engine *engine;
};
void sink_engine_init(struct sink_engine *ret_sink, struct engine *engine);

#endif
