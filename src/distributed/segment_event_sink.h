/*
 * The segments of a remote gate as the ledger writer's event sink. Every committed event is applied
 * to the segments it concerns, in the ledger's order, each directly after the one before it.
 *
 * Several ledger writers write to one ledger, and each applies what it committed. If a batch
 * follows directly on the last event the sink knows to be applied, the sink sends it at once.
 * Otherwise it asks the segment for its cursor and reads the events after it from the ledger. So
 * another ledger writer applies what one leaves behind, once the segment has not moved between two
 * checks. Applying an event twice changes nothing.
 *
 * What can go wrong: a segment does not answer. It is left behind and retried with growing pauses.
 * A segment that is stale or broken is reported and left to recovery, which rebuilds it from the
 * ledger. Neither delays the other segments or the ledger writer.
 *
 * Ledger writer's thread only.
 */
#ifndef SLUICE_DISTRIBUTED_SEGMENT_EVENT_SINK_H
#define SLUICE_DISTRIBUTED_SEGMENT_EVENT_SINK_H

#include "distributed/segment_table.h"
#include "ledger/catalog.h"
#include "ledger/event_sink.h"
#include "port/segments.h"

struct segment_event_sink;

/* The caller owns all of them. ledger: of the ledger writer's thread. ERR_NOMEM. */
int segment_event_sink_new(struct segments *segments, struct segment_table *segment_table,
                           struct ledger *ledger, struct catalog *catalog, struct gate_sizes sizes,
                           struct segment_event_sink **ret_segment_event_sink);
void segment_event_sink_free(struct segment_event_sink *segment_event_sink);
struct event_sink *segment_event_sink_event_sink(struct segment_event_sink *segment_event_sink);

#endif
