/*
 * A checksum at the end of every page of the ledger's file, as a layer (VFS) between SQLite and the
 * operating system. SQLite itself has none: a flipped bit in a key makes a row vanish in silence.
 *
 * The last 8 bytes of each page, which SQLite leaves alone (reserved bytes), hold the CRC-32C of the
 * rest of the page and of its number, and the complement of that CRC. They are made when a page is
 * written to the file and checked when one is read from it. What SQLite sees there are zeros. So a
 * page that another program has copied from the WAL into the file has zeros: it counts as a page
 * without a checksum, and page_checksums_scan() gives it one.
 *
 * What can go wrong: a page that does not match its checksum cannot be read (SQLITE_IOERR_DATA).
 * Other files (WAL, rollback journal) pass through: the WAL has SQLite's own checksums, which are
 * checked when it is recovered.
 *
 * Threads: as the connection that the file belongs to.
 */
#ifndef SLUICE_BACKEND_SQLITE_PAGE_CHECKSUMS_H
#define SLUICE_BACKEND_SQLITE_PAGE_CHECKSUMS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#define PAGE_CHECKSUMS_PAGE 4096
#define PAGE_CHECKSUMS_RESERVED 8
#define PAGE_CHECKSUMS_VFS "sluice-checksums"

/* Makes the layer known to SQLite, once for the process. SQLITE_OK or its error. */
int page_checksums_register(void);

/* Whether the pages of this connection's file have checksums. */
bool page_checksums_on(sqlite3 *db);
/* The last page that did not match its checksum when this connection read it; 0: none yet. */
uint32_t page_checksums_bad_page(sqlite3 *db);

struct page_checksums_scan {
    bool mend; /* in: give a checksum to pages without one. Only while nobody else has the file */
    uint64_t page;      /* in, out: the next page to look at; 0: from the start */
    uint64_t pages_max; /* in: of this call */
    /* out */
    bool done; /* the last page was looked at */
    uint64_t pages;
    uint64_t without; /* pages without a checksum, that were not given one */
    uint64_t bad;
    uint32_t first_bad;
};
/* Reads pages of the file past SQLite and its cache, and adds to the counts. SQLITE_OK, or what a
 * read or write said. Another connection may be writing: a page is bad only if it is so twice. */
int page_checksums_scan(sqlite3 *db, struct page_checksums_scan *scan);

#endif
