/*
 * Mixes the bits of a number, so that any of them can choose a bucket: the last step of splitmix64.
 * For tables in memory; never for secrets (base/crypt.h), and never stored.
 */
#ifndef SLUICE_BASE_HASH_H
#define SLUICE_BASE_HASH_H

#include <stdint.h>

static inline uint64_t hash_mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

#endif
