/*
 * The segments of a gate on other machines as the office's sink: every committed event is applied to
 * the segments it concerns, in the ledger's order, each right behind the one before it.
 *
 * Several offices write to one ledger, and each applies what it committed. An office whose batch
 * follows directly on what it knows sends it straight on; otherwise it asks the segment how far it
 * is and reads from there in the ledger. So whatever one office leaves behind, another brings, once
 * the segment has stood still between two looks; what is brought twice changes nothing.
 *
 * What can go wrong: a segment that does not answer is left behind and tried again, with growing
 * pauses; one that is stale or broken is reported, and left to recovery, which rebuilds it from the
 * ledger. Neither holds up the others, or the office.
 *
 * The office's thread only.
 */
#ifndef SLUICE_FLOW_APPLIER_H
#define SLUICE_FLOW_APPLIER_H

#include "flow/catalog.h"
#include "flow/places.h"
#include "flow/sink.h"
#include "port/segments.h"

struct applier;

/* All stay the caller's. ledger: of the office's thread. ERR_NOMEM. */
int applier_new(struct segments *segments, struct places *places, struct ledger *ledger,
                struct catalog *catalog, struct gate_sizes sizes, struct applier **ret_applier);
void applier_free(struct applier *applier);
struct sink *applier_sink(struct applier *applier);

#endif
