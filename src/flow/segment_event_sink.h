/*
 * The segments of a gate on other machines as the ledger writer's sink: every committed event is applied to
 * the segments it concerns, in the ledger's order, each right behind the one before it.
 *
 * Several ledger writers write to one ledger, and each applies what it committed. An ledger writer whose batch
 * follows directly on what it knows sends it straight on; otherwise it asks the segment how far it
 * is and reads from there in the ledger. So whatever one ledger writer leaves behind, another brings, once
 * the segment has stood still between two looks; what is brought twice changes nothing.
 *
 * What can go wrong: a segment that does not answer is left behind and tried again, with growing
 * pauses; one that is stale or broken is reported, and left to recovery, which rebuilds it from the
 * ledger. Neither holds up the others, or the ledger writer.
 *
 * The ledger writer's thread only.
 */
#ifndef SLUICE_FLOW_SEGMENT_EVENT_SINK_H
#define SLUICE_FLOW_SEGMENT_EVENT_SINK_H

#include "flow/catalog.h"
#include "flow/event_sink.h"
#include "flow/segment_table.h"
#include "port/segments.h"

struct segment_event_sink;

/* All stay the caller's. ledger: of the ledger writer's thread. ERR_NOMEM. */
int segment_event_sink_new(struct segments *segments, struct segment_table *segment_table,
                           struct ledger *ledger, struct catalog *catalog, struct gate_sizes sizes,
                           struct segment_event_sink **ret_segment_event_sink);
void segment_event_sink_free(struct segment_event_sink *segment_event_sink);
struct event_sink *segment_event_sink_event_sink(struct segment_event_sink *segment_event_sink);

#endif
