/*
 * What the fuzz targets share. A target is one file fuzz_NAME.c with LLVMFuzzerTestOneInput(), which
 * gets any bytes, does something with them and CHECKs what must be true; the process ends where it
 * is not. libFuzzer drives it (script/fuzz), or replay.c with inputs that are kept (script/test).
 *
 * Bytes become numbers and choices with the functions below. They run out without an error: what
 * is missing reads as zero, so every input means something and short ones stay short. One draw for
 * each expression: an input must mean the same whichever compiler orders their operands.
 */
#ifndef SLUICE_TEST_FUZZ_H
#define SLUICE_TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"

/* libFuzzer's name for it; each target defines it. Always returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t fuzz_byte(struct fuzz_input *in)
{
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->at++;
}

/* Little-endian, n bytes, at most 8. */
static inline uint64_t fuzz_number(struct fuzz_input *in, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++) {
        value |= (uint64_t)fuzz_byte(in) << (8 * i);
    }
    return value;
}

/* In [0, bound), bound at most 256. */
static inline uint32_t fuzz_below(struct fuzz_input *in, uint32_t bound)
{
    return fuzz_byte(in) % bound;
}

/* Up to n bytes as they are. */
static inline struct span fuzz_span(struct fuzz_input *in, size_t n)
{
    n = n < in->left ? n : in->left;
    struct span span = {(const char *)in->at, n};
    in->at += n;
    in->left -= n;
    return span;
}

#endif
