/*
 * The disk port on a folder of a real file system, and the lock of a data folder.
 *
 * Happy path: folder_make, folder_lock, disk_posix_open; pass `&posix.disk` to the journal;
 * disk_posix_close after the journal is freed. Any thread may call.
 *
 * Errors: ERR_NOSPACE for a full disk or quota, ERR_NOTFOUND and ERR_EXISTS for names, ERR_NOMEM,
 * ERR_IO for the rest.
 */
#ifndef SLUICE_BACKEND_POSIX_DISK_POSIX_H
#define SLUICE_BACKEND_POSIX_DISK_POSIX_H

#include <stdatomic.h>

#include "port/disk.h"

struct disk_posix {
    struct disk disk;
    int folder;
    atomic_bool plain_sync; /* the file system refused RWF_DSYNC: write, then fdatasync */
};

/* The folder must exist (ERR_NOTFOUND). */
int disk_posix_open(const char *folder, struct disk_posix *ret);
/* All files must be closed. */
void disk_posix_close(struct disk_posix *posix);

/* Creates the folder with mode 0700 and makes its name durable; 0 if it exists. Parents must
 * exist. */
int folder_make(const char *folder);
/* Locks the folder for this process until ret_fd is closed or the process ends. ERR_BUSY: another
 * process holds the lock. */
int folder_lock(const char *folder, int *ret_fd);

#endif
