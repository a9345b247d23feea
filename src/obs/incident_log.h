/*
 * What an operator wants to know of a sale afterwards besides its numbers: faults, and what was
 * switched while it ran. Lines of the log with the names listed in incident_log.c are kept, the last
 * INCIDENT_LOG_MAX of them, in memory and in a file that the next start reads: DATA/chronicle.log, the
 * lines as the log has them. What the log does not write (log.level) is not kept.
 *
 * What can go wrong: the file cannot be written: it is kept in memory alone. Any thread.
 */
#ifndef SLUICE_OBS_INCIDENT_LOG_H
#define SLUICE_OBS_INCIDENT_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "obs/log.h"

struct incident_log_entry {
    int64_t at_ms;
    char level[8];
    char event[40];
    char text[208]; /* the fields: key=value ... */
};

/* From now on the log's lines are kept. Once for each process. ERR_IO: the file cannot be
 * written. */
int incident_log_open(const char *path);
void incident_log_close(void);
/* Those of the time from..to, oldest first, the last max of them; how many. Those about one sale
 * (sale=N among their fields) only if it is this one. */
size_t incident_log_list(int64_t from_ms, int64_t to_ms, uint64_t sale,
                         struct incident_log_entry *ret_entries, size_t max);
/* When the oldest line that is kept was written; 0: there is none. */
int64_t incident_log_since_ms(void);

#endif
