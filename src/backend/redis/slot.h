/*
 * Hash tags and hash slots. Redis Cluster spreads keys over its masters by CRC16 of what stands in
 * braces; all keys of a segment have its tag there, so they are together, on one master.
 *
 * A tag is the segment's number and some letters. The letters are chosen such that the first n
 * segments are on n different masters for every n up to 17, where the slots are dealt out as
 * redis-cli does it (n runs of equal length): "0", "1", "2" alone would leave one of three masters
 * without a segment. (More than 17 is impossible, whatever the letters: Steinhaus's problem.)
 */
#ifndef SLUICE_BACKEND_REDIS_SLOT_H
#define SLUICE_BACKEND_REDIS_SLOT_H

#include "base/bytes.h"

#define REDIS_SLOTS 16384U

/* What stands in the braces of the keys of a segment below SEGMENTS_MAX. */
const char *slot_tag(uint32_t segment);
/* Where keys with this tag are. */
uint32_t slot_of(struct span tag);

#endif
