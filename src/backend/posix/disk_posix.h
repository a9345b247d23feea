/*
 * The disk port on a folder of a real file system, and the ownership of a data folder.
 *
 * Happy path: folder_make, folder_lock, disk_posix_open, hand `&posix.disk` to the journal,
 * disk_posix_close when the journal is freed. Calls may come from any thread.
 *
 * What can go wrong is an error code: ERR_NOSPACE for a full disk or quota, ERR_NOTFOUND and
 * ERR_EXISTS for names, ERR_NOMEM, ERR_IO for the rest.
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
/* Every file has been closed before. */
void disk_posix_close(struct disk_posix *posix);

/* Makes the folder, mode 0700, and its name durable; 0 where it exists. Parents must exist. */
int folder_make(const char *folder);
/* Takes the folder for this process until ret_fd is closed or the process ends. ERR_BUSY: another
 * process has it. */
int folder_lock(const char *folder, int *ret_fd);

#endif
