/*
 * Homes by region: the orders of a region's buyers are decided at its segments, which are near
 * them.
 *
 * A buyer's region follows from the user id alone, by ranges of ids. A claim in the token or the
 * front in use may differ from one request to the next; the buyer would then have two homes and
 * twice the limit. For the same reason, a sale stores the regions it was warmed with.
 *
 * As text: `NAME FIRST-LAST SEGMENTS [WEIGHT]`, separated by `;`. LAST is optional. SEGMENTS are
 * numbers separated by commas. WEIGHT is the region's part of the stock at warm-up (default: its
 * number of segments). The home of a buyer in no region may be any segment.
 *
 * Pure.
 */
#ifndef SLUICE_PORT_REGIONS_H
#define SLUICE_PORT_REGIONS_H

#include <stdbool.h>
#include <stdint.h>

#define REGIONS_MAX 16
#define REGIONS_TEXT_MAX 500

struct region {
    uint64_t first, last; /* users */
    uint64_t segments;    /* a bit for each */
    uint32_t weight;
};
struct regions {
    uint32_t count; /* 0: none, all segments are alike */
    struct region at[REGIONS_MAX];
};

/* ERR_INVALID: malformed text, overlapping ranges, or a segment that is in two regions or not among
 * the first `segments`. *ret_why (a static text) says which. */
int regions_parse(const char *text, uint32_t segments, struct regions *ret_regions,
                  const char **ret_why);
/* A buyer's home among the first `homes` segments. */
uint32_t regions_home(const struct regions *regions, uint64_t user, uint32_t homes);
/* The segment's part of units that are spread over the homes by weight. The parts add up to
 * units. */
uint64_t regions_share(const struct regions *regions, uint64_t units, uint32_t homes,
                       uint32_t segment);
/* The segments of this segment's region; for a segment in no region, all that are in none. */
uint64_t regions_around(const struct regions *regions, uint32_t segment);

#endif
