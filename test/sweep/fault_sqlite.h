/*
 * SQLite over a bad machine: its memory and its files fail where fault.h says so. The files are
 * real ones in a folder of the test's; what each would have after a loss of power (its content at
 * its last sync) is kept beside. SQLite's randomness is reset with every fault_sqlite_fresh, so
 * that the same run writes the same bytes.
 */
#ifndef SLUICE_TEST_FAULT_SQLITE_H
#define SLUICE_TEST_FAULT_SQLITE_H

#include <stddef.h>
#include <stdint.h>

#define FAULT_FILES 2 /* the database and its WAL */

/* The ledger's files at one moment. */
struct fault_files {
    struct {
        uint8_t *bytes; /* NULL: there is none */
        size_t size;
    } file[FAULT_FILES];
};

/* Before anything else uses SQLite. `path` is the ledger's. SQLite's lookaside memory is off: it
 * calls malloc for the small things, too. */
void fault_sqlite_init(const char *path);
/* Puts the files there (all durable), with nothing of an earlier run left. */
void fault_sqlite_fresh(const struct fault_files *files);
/* As another process would read them now; as they would be after a loss of power. */
void fault_sqlite_files(struct fault_files *ret_files);
void fault_sqlite_durable(struct fault_files *ret_files);

void fault_files_free(struct fault_files *files);
uint64_t fault_files_hash(const struct fault_files *files);

#endif
