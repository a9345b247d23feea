/*
 * Faults and operators' actions, for the report of a sale. Log lines with the event names listed in
 * incident_log.c are kept: the last INCIDENT_LOG_MAX in memory, and all in a file that the next
 * start reads (DATA/chronicle.log, in the format of the log). Lines below log.level are not kept.
 *
 * What can go wrong: if the file cannot be written, the lines are kept in memory only. Any thread.
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

/* Keeps log lines from now on. Call it once per process. ERR_IO: the file cannot be written. */
int incident_log_open(const char *path);
void incident_log_close(void);
/* Entries between from_ms and to_ms, oldest first, at most the last max; returns how many. Entries
 * about a sale (with a field sale=N) are included only if it is this sale. */
size_t incident_log_list(int64_t from_ms, int64_t to_ms, uint64_t sale,
                         struct incident_log_entry *ret_entries, size_t max);
/* Time of the oldest entry in memory; 0: none. */
int64_t incident_log_since_ms(void);

#endif
