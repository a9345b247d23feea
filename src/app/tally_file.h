/*
 * DATA/tallies: the counts of each sale (obs/tally.h) as a file: a head, then a struct tally_sum
 * for each sale as in memory. Only the program that wrote the file has to read it. The head has
 * what both must agree on: the size of a row, and a checksum of the refusals' names, since refusals
 * are counted by index.
 *
 * The file is written under another name and renamed, so a complete file always exists. If it
 * cannot be read, is damaged, or is from a program with other refusals, it is renamed to
 * PATH.unreadable, which is logged, and the counts start again. If it cannot be renamed, it is left
 * alone and nothing is written.
 */
#ifndef SLUICE_APP_TALLY_FILE_H
#define SLUICE_APP_TALLY_FILE_H

#include "obs/tally.h"

struct tally_file_head {
    char magic[8];
    uint32_t row_bytes;
    uint32_t refusals; /* CRC-32C of their names, in order */
    uint32_t count;
    uint32_t crc; /* of the rows */
};

struct tally_file {
    char path[1024];
    bool left_alone;
    struct tally_file_head saved; /* of the present content of the file */
};

/* Reads the file into the book. ERR_NOMEM: nothing was changed. Other errors are logged. */
int tally_file_open(struct tally_file *file, const char *path, struct tally_book *book);
/* Writes the book if it differs from the file. Logs errors. */
void tally_file_save(struct tally_file *file, struct tally_book *book);

#endif
