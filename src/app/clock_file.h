/*
 * DATA/clock: the last time at which the server is known to have run, so that a start can tell how
 * long it was down although nothing was journalled for weeks. One line, a number of ms. It is a
 * hint: it is not synced, and a file that cannot be read counts as none.
 */
#ifndef SLUICE_APP_CLOCK_FILE_H
#define SLUICE_APP_CLOCK_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* 0: no such file, or no number in it. */
int64_t clock_file_read(const char *data_dir);
/* False: it could not be written; the old one stays. */
bool clock_file_write(const char *data_dir, int64_t now_ms);

#endif
