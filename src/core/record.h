/*
 * A gate command as bytes, the way the journal and snapshots carry it: kind (1 byte), now_ms (8),
 * event (8), then the fields its kind lists in GATE_COMMANDS, little-endian. Round trip is exact.
 */
#ifndef SLUICE_CORE_RECORD_H
#define SLUICE_CORE_RECORD_H

#include "core/gate.h"

#define RECORD_MAX_BYTES 96

/* Returns the length written, at most RECORD_MAX_BYTES. */
size_t record_encode(const struct gate_command *command, uint8_t *ret_bytes);
/* ERR_INVALID: unknown kind or not exactly one command. */
int record_decode(const uint8_t *bytes, size_t len, struct gate_command *ret_command);

#endif
