/*
 * The canary: a codec with a planted bug. A fuzzer that does not find it finds nothing, so
 * script/test runs it and fails where no crash is reported.
 *
 * The codec writes runs of the same byte as a count and the byte. Its counts are encoded with four
 * bits, and nobody cuts a run that is longer: that is the bug. Behind a word that must come first,
 * so that a fuzzer which is blind to coverage and comparisons does not get there by chance.
 */
#include "fuzz.h"

#define WORD "sluice"
#define INPUT_MAX 256

static size_t pack(const uint8_t *bytes, size_t size, uint8_t *ret_packed)
{
    size_t len = 0;
    for (size_t at = 0; at < size;) {
        size_t run = 1;
        while (at + run < size && bytes[at + run] == bytes[at]) {
            run++;
        }
        ret_packed[len++] = run & 0xf; /* the planted bug: longer runs are not split */
        ret_packed[len++] = bytes[at];
        at += run;
    }
    return len;
}

static size_t unpack(const uint8_t *packed, size_t len, uint8_t *ret_bytes)
{
    size_t size = 0;
    for (size_t at = 0; at + 1 < len; at += 2) {
        memset(ret_bytes + size, packed[at + 1], packed[at]);
        size += packed[at];
    }
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    size_t word = sizeof(WORD) - 1;
    if (size < word || size > INPUT_MAX || memcmp(bytes, WORD, word) != 0) {
        return 0;
    }
    uint8_t packed[2 * INPUT_MAX];
    uint8_t back[INPUT_MAX];
    size_t len = pack(bytes + word, size - word, packed);
    CHECK(unpack(packed, len, back) == size - word);
    CHECK(memcmp(back, bytes + word, size - word) == 0);
    return 0;
}
