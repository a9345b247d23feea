/*
 * Random commands for a gate that stands beside the model: mostly such as make sense in the model's
 * present state, sometimes none that do.
 */
#ifndef SLUICE_TEST_GATE_DRAW_H
#define SLUICE_TEST_GATE_DRAW_H

#include "base/prng.h"
#include "core/gate.h"

extern struct prng draw_prng;
/* Whether GATE_EVICT is among the commands. Not every gate knows it. */
extern bool draw_evicts;

/* After model_clear. Ids of sales, items and users are small numbers from first_id on; time starts
 * at start_ms and grows. */
void draw_begin(uint64_t first_id, int64_t start_ms);
struct gate_command draw_command(void);
/* What became of a command. */
void draw_told(const struct gate_command *command, enum verdict verdict);

#endif
