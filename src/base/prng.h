/*
 * A small seeded generator (splitmix64) for jitter, load and tests. Never for secrets: use
 * crypt_random.
 */
#ifndef SLUICE_BASE_PRNG_H
#define SLUICE_BASE_PRNG_H

#include <stdint.h>

#include "base/hash.h"

struct prng {
    uint64_t state;
};

static inline struct prng prng_of(uint64_t seed)
{
    return (struct prng){seed};
}

static inline uint64_t prng_next(struct prng *prng)
{
    return hash_mix(prng->state += 0x9e3779b97f4a7c15ULL);
}

/* Uniform in [0, bound), bound > 0. The bias of the multiplication is below 2^-32 for our
 * bounds. */
static inline uint64_t prng_below(struct prng *prng, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)prng_next(prng) * bound) >> 64);
}

#endif
