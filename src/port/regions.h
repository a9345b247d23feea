/*
 * Homes by region: buyers of a region are decided at its segments, which are near them.
 *
 * A buyer's region follows from his id alone, by ranges of ids: a claim of his token or the front he
 * came through may differ from one request to the next, and then he would have two homes and twice
 * his limit. For the same reason a sale keeps the regions it was warmed with, in its row.
 *
 * As text: `NAME FIRST-LAST SEGMENTS [WEIGHT]`, several of them with `;` between. LAST may be left out;
 * SEGMENTS are numbers with commas; WEIGHT is the region's part of the stock at warm-up (as many as it
 * has segments where it is not given). Whoever is in no region has any of the segments as home.
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
    uint32_t count; /* 0: none, all segments are one */
    struct region at[REGIONS_MAX];
};

/* ERR_INVALID: not such a text; ranges overlap; a segment is in two regions or is not among the first
 * `segments`. *ret_why (a text that stays) says which. */
int regions_parse(const char *text, uint32_t segments, struct regions *ret_regions,
                  const char **ret_why);
/* A buyer's home among the first `homes` segments. */
uint32_t regions_home(const struct regions *regions, uint64_t user, uint32_t homes);
/* The segment's part of units that are spread over the homes by weight; the parts add up. */
uint64_t regions_share(const struct regions *regions, uint64_t units, uint32_t homes,
                       uint32_t segment);
/* The segments of the region that this one is in; those that are in none together. */
uint64_t regions_around(const struct regions *regions, uint32_t segment);

#endif
