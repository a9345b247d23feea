/* See gate_memory.h. */
#define _GNU_SOURCE
#include "embedded/gate_memory.h"

#include <sys/mman.h>

void *gate_memory_map(struct gate_sizes sizes)
{
    void *memory = mmap(NULL, gate_bytes(sizes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void gate_memory_unmap(void *memory, struct gate_sizes sizes)
{
    if (memory != NULL) {
        (void)munmap(memory, gate_bytes(sizes));
    }
}
