/* See gate_memory.h. */
#define _GNU_SOURCE
#include "embedded/gate_memory.h"

#include <sys/mman.h>

#include "embedded/gate_content.h"
#include "obs/log.h"

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

int gate_memory_snapshot(void *context, struct journal *journal, uint64_t *ret_lsn)
{
    const struct gate_memory_snapshots *snapshots = context;
    void *memory = gate_memory_map(snapshots->sizes);
    if (memory == NULL) {
        log_event(LOG_WARN, "snapshot.no_memory", LOG_U64("bytes", gate_bytes(snapshots->sizes)));
        *ret_lsn = 0;
        return 0;
    }
    struct gate second;
    gate_init(&second, snapshots->sizes, memory, snapshots->hash_key);
    int error = gate_content_snapshot(journal, &second, ret_lsn);
    gate_memory_unmap(memory, snapshots->sizes);
    return error;
}
