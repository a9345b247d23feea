/* CRC-32C (Castagnoli), as stored in the journal. Start with 0; pass the result back in to
 * continue. */
#ifndef SLUICE_BASE_CRC32C_H
#define SLUICE_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

#endif
