/* See regions.h. */
#include "port/regions.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "core/types.h"
#include "port/segments.h"

#define WEIGHT_MAX 1000000
/* Divisible by every number of segments up to 16, so that shares of a region are exact. */
#define WEIGHT_UNIT 720720U

/* ---- as text ---- */

static uint32_t count_bits(uint64_t bits)
{
    return (uint32_t)__builtin_popcountll(bits);
}

/* The text before the separator. *rest is what follows it. */
static struct span cut(struct span *rest, char at)
{
    struct span piece = {rest->at, 0};
    while (piece.len < rest->len && rest->at[piece.len] != at) {
        piece.len++;
    }
    size_t used = piece.len < rest->len ? piece.len + 1 : piece.len;
    *rest = (struct span){rest->at + used, rest->len - used};
    return piece;
}

/* The next word between spaces; empty: there is none. */
static struct span word(struct span *rest)
{
    struct span next = {rest->at, 0};
    while (rest->len > 0 && next.len == 0) {
        next = cut(rest, ' ');
    }
    return next;
}

static const char *parse_users(struct span text, struct region *region)
{
    struct span last = text;
    struct span first = cut(&last, '-');
    region->last = ID_MAX;
    if (first.len == text.len || span_parse_u64(first, ID_MAX, &region->first) != 0 ||
        (last.len > 0 && span_parse_u64(last, ID_MAX, &region->last) != 0) ||
        region->first > region->last) {
        return "users are FIRST-LAST, numbers";
    }
    return NULL;
}

static const char *parse_segments(struct span text, uint32_t segments, struct region *region)
{
    if (text.len == 0) {
        return "a region needs segments";
    }
    while (text.len > 0) {
        uint64_t segment;
        if (span_parse_u64(cut(&text, ','), SEGMENTS_MAX - 1, &segment) != 0) {
            return "segments are numbers with commas between";
        }
        if (segment >= segments) {
            return "there is no such segment";
        }
        region->segments |= 1ULL << segment;
    }
    region->weight = count_bits(region->segments);
    return NULL;
}

static const char *parse_region(struct span text, uint32_t segments, struct region *region)
{
    uint64_t weight = 0;
    if (word(&text).len == 0) {
        return "a region is NAME FIRST-LAST SEGMENTS [WEIGHT]";
    }
    const char *why = parse_users(word(&text), region);
    why = why != NULL ? why : parse_segments(word(&text), segments, region);
    struct span given = word(&text);
    if (why == NULL && given.len > 0) {
        if (span_parse_u64(given, WEIGHT_MAX, &weight) != 0 || weight == 0) {
            return "a weight is 1 to 1000000";
        }
        region->weight = (uint32_t)weight;
    }
    return why == NULL && word(&text).len > 0 ? "there is something behind a region" : why;
}

static const char *check_apart(const struct regions *regions, const struct region *region)
{
    for (uint32_t i = 0; i < regions->count; i++) {
        const struct region *other = &regions->at[i];
        if (region->first <= other->last && other->first <= region->last) {
            return "a user would be in two regions";
        }
        if ((region->segments & other->segments) != 0) {
            return "a segment would be in two regions";
        }
    }
    return NULL;
}

int regions_parse(const char *text, uint32_t segments, struct regions *ret_regions,
                  const char **ret_why)
{
    struct regions regions = {.count = 0};
    struct span rest = span_of(text);
    const char *why = rest.len > REGIONS_TEXT_MAX ? "it is too long" : NULL;
    while (why == NULL && rest.len > 0) {
        struct region region = {.weight = 0};
        if (regions.count == REGIONS_MAX) {
            why = "there are too many regions";
            break;
        }
        why = parse_region(cut(&rest, ';'), segments, &region);
        why = why != NULL ? why : check_apart(&regions, &region);
        regions.at[regions.count++] = region;
    }
    if (why != NULL) {
        *ret_why = why;
        return ERR_INVALID;
    }
    *ret_regions = regions;
    return 0;
}

/* ---- homes ---- */

static const struct region *region_of(const struct regions *regions, uint64_t user)
{
    for (uint32_t i = 0; i < regions->count; i++) {
        if (user >= regions->at[i].first && user <= regions->at[i].last) {
            return &regions->at[i];
        }
    }
    return NULL;
}

static uint64_t first_bits(uint32_t count)
{
    return count >= 64 ? UINT64_MAX : (1ULL << count) - 1;
}

uint32_t regions_home(const struct regions *regions, uint64_t user, uint32_t homes)
{
    const struct region *region = region_of(regions, user);
    uint64_t among = region == NULL ? 0 : region->segments & first_bits(homes);
    if (among == 0) {
        return segment_home(user, homes);
    }
    uint32_t nth = segment_home(user, count_bits(among));
    uint32_t segment = 0;
    for (uint32_t left = nth + 1; left > 0; segment++) {
        left -= (uint32_t)(among >> segment & 1);
    }
    return segment - 1;
}

uint64_t regions_around(const struct regions *regions, uint32_t segment)
{
    uint64_t none = UINT64_MAX;
    for (uint32_t i = 0; i < regions->count; i++) {
        uint64_t segments = regions->at[i].segments;
        if ((segments >> segment & 1) != 0) {
            return segments;
        }
        none &= ~segments;
    }
    return none;
}

/* ---- shares ---- */

static uint64_t weight_of(const struct regions *regions, uint32_t homes, uint32_t segment)
{
    for (uint32_t i = 0; i < regions->count; i++) {
        const struct region *region = &regions->at[i];
        if ((region->segments >> segment & 1) != 0) {
            uint32_t among = count_bits(region->segments & first_bits(homes));
            return (uint64_t)region->weight * WEIGHT_UNIT / among;
        }
    }
    return WEIGHT_UNIT;
}

/* Of units <= 2^53 and weights below 2^46: the product needs more than 64 bits. */
static uint64_t part(uint64_t units, uint64_t weight, uint64_t all)
{
    return (uint64_t)((unsigned __int128)units * weight / all);
}

uint64_t regions_share(const struct regions *regions, uint64_t units, uint32_t homes,
                       uint32_t segment)
{
    uint64_t all = 0;
    uint64_t before = 0;
    for (uint32_t i = 0; i < homes; i++) {
        before = i == segment ? all : before;
        all += weight_of(regions, homes, i);
    }
    CHECK(segment < homes && all > 0);
    /* Each part begins where the one before it ends, so rounding loses nothing. */
    return part(units, before + weight_of(regions, homes, segment), all) - part(units, before, all);
}
