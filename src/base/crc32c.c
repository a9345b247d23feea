/*
 * CRC-32C with the CPU's instruction if it has one, otherwise by table. Debian has no small
 * maintained C library for it.
 */
#include "base/crc32c.h"

#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78U /* reflected Castagnoli */

static uint32_t by_table(uint32_t crc, const uint8_t *p, size_t n)
{
    static const uint32_t nibble[16] = {
#define ROW(i) (((((i) >> 1) ^ (POLYNOMIAL & (0U - ((i)&1U))))))
#define ROW4(i) ROW(ROW(ROW(ROW((uint32_t)(i)))))
        ROW4(0), ROW4(1), ROW4(2),  ROW4(3),  ROW4(4),  ROW4(5),  ROW4(6),  ROW4(7),
        ROW4(8), ROW4(9), ROW4(10), ROW4(11), ROW4(12), ROW4(13), ROW4(14), ROW4(15),
#undef ROW4
#undef ROW
    };
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *p,
                                                                 size_t n)
{
    uint64_t wide = crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; n > 0; n--, p++) {
        crc = __builtin_ia32_crc32qi(crc, *p);
    }
    return crc;
}

static bool has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2");
}
#else
static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t n)
{
    return by_table(crc, p, n);
}

static bool has_instruction(void)
{
    return false;
}
#endif

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
    crc = ~crc;
    crc = has_instruction() ? by_instruction(crc, bytes, n) : by_table(crc, bytes, n);
    return ~crc;
}
