/* CRC-32C (Castagnoli), as the journal stores it. Start with 0; feed the result back to go on. */
#ifndef SLUICE_BASE_CRC32C_H
#define SLUICE_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

#endif
