/*
 * DATA/tallies: the book of what was counted of each sale (obs/tally.h), as a file. A head, then a
 * struct tally_sum for each sale, as they are in memory: only the program that wrote it has to read
 * it. What a program needs to have in common with that one is in the head: the size of a row, and
 * the refusals' names, because they are counted by their place in their list.
 *
 * The file is written beside the old one and renamed, so that there is always a whole one. What can
 * go wrong: it cannot be read, is damaged, or is of a program with other refusals. Then it is
 * renamed to PATH.unreadable, which says so in the log, and the book is begun anew; where it cannot
 * be renamed, it is left alone and nothing is written.
 */
#ifndef SLUICE_APP_TALLY_FILE_H
#define SLUICE_APP_TALLY_FILE_H

#include "obs/tally.h"

struct tally_file_head {
    char magic[8];
    uint32_t row_bytes;
    uint32_t refusals; /* CRC-32C of their names in their order */
    uint32_t count;
    uint32_t crc; /* of the rows */
};

struct tally_file {
    char path[1024];
    bool left_alone;
    struct tally_file_head saved; /* of what the file has now */
};

/* Reads what the file has into the book. ERR_NOMEM: nothing was changed. All else is logged. */
int tally_file_open(struct tally_file *file, const char *path, struct tally_book *book);
/* Writes the book, if it says anything else than the file. Logs where it cannot. */
void tally_file_save(struct tally_file *file, struct tally_book *book);

#endif
