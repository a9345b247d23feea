/*
 * Hash tags and hash slots. Redis Cluster spreads keys over its masters by the CRC16 of the text in
 * braces. All keys of a segment have its tag there, so they are on one master.
 *
 * A tag is the segment's number and some letters. The letters are chosen so that the first n
 * segments are on n different masters for every n up to 17, if the slots are divided as redis-cli
 * does it (n ranges of equal length). "0", "1", "2" alone would leave one of three masters without
 * a segment. (More than 17 is impossible with any letters: Steinhaus's problem.)
 */
#ifndef SLUICE_BACKEND_REDIS_SLOT_H
#define SLUICE_BACKEND_REDIS_SLOT_H

#include "base/bytes.h"

#define REDIS_SLOTS 16384U

/* The tag of a segment below SEGMENTS_MAX. */
const char *slot_tag(uint32_t segment);
/* The slot of keys with this tag. */
uint32_t slot_of(struct span tag);

#endif
