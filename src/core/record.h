/*
 * A gate command as bytes, as stored in the journal: kind (1 byte), now_ms (8), event (8), then the
 * fields listed for its kind in GATE_COMMANDS, little-endian. Decoding gives back exactly what was
 * encoded.
 */
#ifndef SLUICE_CORE_RECORD_H
#define SLUICE_CORE_RECORD_H

#include "core/gate.h"

#define RECORD_MAX_BYTES 96

/* Returns the length written, at most RECORD_MAX_BYTES. */
size_t record_encode(const struct gate_command *command, uint8_t *ret_bytes);
/* ERR_INVALID: unknown kind, or not exactly one command. */
int record_decode(const uint8_t *bytes, size_t len, struct gate_command *ret_command);

#endif
