/*
 * DATA/limits: a file for each rate limit's table, mapped into memory. The kernel keeps what was
 * written to the mapping when the process ends, however it ends, so limits count on after a restart.
 * After a power cut the counts may be older; nothing else depends on them.
 *
 * The whole file is allocated before it is mapped, because a mapped page that the disk has no room for
 * ends the process. If it cannot be allocated, the table is in memory only, which is logged.
 *
 * Called by the main thread only.
 */
#ifndef SLUICE_APP_LIMIT_FILES_H
#define SLUICE_APP_LIMIT_FILES_H

#include "app/config.h"

struct limit_files {
    char folder[1024];
    struct limit_memory memory; /* for limits_new(); valid as long as this struct */
};

/* Makes the folder if it is missing. 0 or ERR_IO. */
int limit_files_open(struct limit_files *ret_files, const char *data_dir);

/* Logs which limits are not what the configuration says: fronts do not share counts, so each counts a
 * shared rule for itself. */
void limits_warn(const struct config *config);

#endif
