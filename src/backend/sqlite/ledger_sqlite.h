/*
 * The ledger on SQLite: one file (DATA/ledger.db, in WAL mode, every commit synced), behind the
 * interface of port/ledger.h. docs/LEDGER.md shows the tables.
 *
 * An instance belongs to one thread at a time. The writer has a READ_WRITE instance, a reader its
 * own READ_ONLY one on the same file; reading never makes the writer wait, except for the bounded
 * pause in which an overlong WAL is cut (ledger_write.c).
 *
 * Every page of the file has a checksum (page_checksums.h), unless those of an older ledger could
 * not be written. What is damaged cannot be read:
 * ERR_CORRUPT. No other program should write to the file: its pages would have wrong checksums.
 *
 * A batch that fails (full disk, I/O error, a foreign lock) is rolled back and the instance goes
 * on: the same batch may be sent again.
 */
#ifndef SLUICE_BACKEND_SQLITE_LEDGER_SQLITE_H
#define SLUICE_BACKEND_SQLITE_LEDGER_SQLITE_H

#include "port/ledger.h"

enum ledger_sqlite_mode { READ_WRITE, READ_ONLY };

/*
 * READ_WRITE makes the file where there is none and brings an older schema up to date. READ_ONLY
 * needs both done. ERR_VERSION: a newer program made it (or, READ_ONLY, an older one); ERR_INVALID:
 * not a ledger; ERR_NOTFOUND, ERR_BUSY, ERR_NOSPACE, ERR_CORRUPT, ERR_NOMEM, ERR_IO.
 */
int ledger_sqlite_open(const char *path, enum ledger_sqlite_mode mode, struct ledger **ret_ledger);
void ledger_sqlite_close(struct ledger *ledger); /* NULL is fine */

/*
 * Before a server uses the ledger, and while nobody else has it: folds the WAL into the file, looks
 * at the checksums of the first pages_max pages, and runs quick_check on a ledger that is not large.
 * 0; ERR_CORRUPT, with what was found in *check; ERR_IO ... The rest is for ledger_check().
 */
int ledger_sqlite_check_start(struct ledger *ledger, uint64_t pages_max,
                              struct ledger_check *check);

/* Why the pages have no checksums: those of an older ledger could not be written. NULL: they have. */
const char *ledger_sqlite_unchecked(const struct ledger *ledger);

/* What went wrong last, in words. NULL: in the last failed open on this thread. */
const char *ledger_sqlite_error(const struct ledger *ledger);

#endif
