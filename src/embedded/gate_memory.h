/*
 * Memory for a gate: reserved, zeroed address space. Pages that are never used cost nothing.
 */
#ifndef SLUICE_EMBEDDED_GATE_MEMORY_H
#define SLUICE_EMBEDDED_GATE_MEMORY_H

#include "core/gate.h"

void *gate_memory_map(struct gate_sizes sizes);                /* NULL: no memory */
void gate_memory_unmap(void *memory, struct gate_sizes sizes); /* NULL is fine */

#endif
