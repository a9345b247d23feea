/* See addresses.h. Open addressing; a removed entry is filled with those behind it. */
#include "http/addresses.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crypt.h"
#include "base/hash.h"

struct address_count {
    uint64_t key;   /* the address, or the first half of it */
    uint32_t count; /* 0: the entry is free */
    uint8_t family;
};

struct address_counts {
    uint64_t seed;
    uint32_t max;
    uint32_t mask;
    struct address_count entries[];
};

static size_t places_for(uint32_t connections)
{
    size_t places = 16;
    while (places < (size_t)connections * 2) {
        places *= 2;
    }
    return places;
}

size_t address_counts_bytes(uint32_t connections)
{
    return sizeof(struct address_counts) + places_for(connections) * sizeof(struct address_count);
}

struct address_counts *address_counts_new(uint32_t connections, uint32_t max)
{
    struct address_counts *counts = calloc(1, address_counts_bytes(connections));
    if (counts != NULL) {
        counts->max = max;
        counts->mask = (uint32_t)places_for(connections) - 1;
        crypt_random(&counts->seed, sizeof(counts->seed));
    }
    return counts;
}

void address_counts_free(struct address_counts *counts)
{
    free(counts);
}

static uint64_t key_of(struct net_address address)
{
    uint64_t key = 0;
    memcpy(&key, address.bytes, address.family == 6 ? 8 : 4);
    return key;
}

static uint32_t place_of(const struct address_counts *counts, uint64_t key, uint8_t family)
{
    return (uint32_t)hash_mix(hash_mix(key ^ counts->seed) + family) & counts->mask;
}

/* The entry of the address, or the free one where it belongs. */
static struct address_count *find(struct address_counts *counts, struct net_address address)
{
    uint64_t key = key_of(address);
    uint32_t at = place_of(counts, key, address.family);
    while (counts->entries[at].count != 0 &&
           (counts->entries[at].key != key || counts->entries[at].family != address.family)) {
        at = (at + 1) & counts->mask;
    }
    counts->entries[at].key = key;
    counts->entries[at].family = address.family;
    return &counts->entries[at];
}

bool address_counts_add(struct address_counts *counts, struct net_address address)
{
    if (address.family == 0) {
        return true;
    }
    struct address_count *entry = find(counts, address);
    if (entry->count >= counts->max) {
        return false;
    }
    entry->count++;
    return true;
}

/* Moves entries that were put behind this one, because it was in their place, into the gap. */
static void fill_gap(struct address_counts *counts, uint32_t gap)
{
    for (uint32_t at = (gap + 1) & counts->mask; counts->entries[at].count != 0;
         at = (at + 1) & counts->mask) {
        const struct address_count *entry = &counts->entries[at];
        uint32_t home = place_of(counts, entry->key, entry->family);
        if (((at - home) & counts->mask) >= ((at - gap) & counts->mask)) {
            counts->entries[gap] = *entry;
            counts->entries[at].count = 0;
            gap = at;
        }
    }
}

void address_counts_remove(struct address_counts *counts, struct net_address address)
{
    if (address.family == 0) {
        return;
    }
    struct address_count *entry = find(counts, address);
    CHECK(entry->count > 0);
    entry->count--;
    if (entry->count == 0) {
        fill_gap(counts, (uint32_t)(entry - counts->entries));
    }
}
