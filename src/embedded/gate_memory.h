/*
 * Memory for a gate: reserved, zeroed address space. Pages that are never used cost nothing.
 */
#ifndef SLUICE_EMBEDDED_GATE_MEMORY_H
#define SLUICE_EMBEDDED_GATE_MEMORY_H

#include "core/gate.h"
#include "journal/journal.h"

void *gate_memory_map(struct gate_sizes sizes);                /* NULL: no memory */
void gate_memory_unmap(void *memory, struct gate_sizes sizes); /* NULL is fine */

/* Takes a snapshot of the journal with a second gate that is mapped for the call. For the janitor;
 * context: a struct gate_memory_snapshots. */
struct gate_memory_snapshots {
    struct gate_sizes sizes;
    uint64_t hash_key;
};
int gate_memory_snapshot(void *context, struct journal *journal, uint64_t *ret_lsn);

#endif
