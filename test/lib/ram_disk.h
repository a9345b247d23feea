/*
 * A disk in memory that forgets: a disk model behind the port, with faults. What was written and not synced is visible, as in a page cache,
 * and lost, kept or garbled sector by sector when the power goes; names likewise. Any operation can
 * be made to fail, and the whole disk to go dead at any operation.
 */
#ifndef SLUICE_TEST_RAM_DISK_H
#define SLUICE_TEST_RAM_DISK_H

#include <pthread.h>

#include "base/prng.h"
#include "disk_model.h"
#include "port/disk.h"

/* What an operation is about to do, for the hook. */
enum ram_op {
    RAM_OP_OPEN,
    RAM_OP_READ,
    RAM_OP_WRITE,
    RAM_OP_WRITE_DURABLE,
    RAM_OP_SYNC,
    RAM_OP_TRUNCATE,
    RAM_OP_NAME,
    RAM_OP_LIST
};

struct ram_disk {
    struct disk disk;
    pthread_mutex_t lock;
    struct disk_model model;
    uint64_t ops;     /* operations so far */
    uint64_t writes;  /* bytes written so far */
    uint64_t fail_at; /* this operation fails (counted from 1) ... */
    int fail_code;    /* ... with this */
    uint64_t dead_at; /* this one and all later ones fail: the machine is gone */
    uint64_t space;   /* bytes the files may have together; 0: any */
    uint64_t open_files;
    bool sync_is_lie; /* syncs do nothing, to see a checker fail */
    /* Called before each operation, without the lock, which it may use to run others or to set the
     * members above; what it returns, the operation says. */
    int (*hook)(void *context, enum ram_op op);
    void *hook_context;
    bool hooked;       /* the present operation fails by the hook's word ... */
    size_t fail_bytes; /* ... and a write after so many bytes: a short write */
};

enum ram_crash { RAM_DROP, RAM_KEEP, RAM_MIX };

void ram_disk_init(struct ram_disk *ret_ram);
void ram_disk_done(struct ram_disk *ram);
/* Clears the faults and the counters. */
void ram_disk_calm(struct ram_disk *ram);
/* The power goes: every file has been closed. MIX chooses for each sector and each name. */
void ram_disk_crash(struct ram_disk *ram, enum ram_crash how, struct prng *prng);
/* Makes a fresh copy of everything, all of it durable. */
void ram_disk_copy(const struct ram_disk *from, struct ram_disk *ret_to);

/* The content of a file, to look at and to damage; NULL where there is none. */
uint8_t *ram_disk_bytes(struct ram_disk *ram, const char *name, size_t *ret_size);
void ram_disk_resize(struct ram_disk *ram, const char *name, size_t size);
/* Replaces or makes a file. */
void ram_disk_put(struct ram_disk *ram, const char *name, const void *bytes, size_t size);
void ram_disk_remove(struct ram_disk *ram, const char *name);

#endif
