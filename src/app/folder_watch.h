/*
 * Notices when the data folder is removed or replaced under the running server: by rm -rf, by a
 * rename, by another mount over it. What is written then goes into files that no restart will find,
 * so the server must promise nothing more.
 *
 * A thread looks four times a second whether the names still lead to what was open at the start: the
 * folder, its journal folder, the ledger's files, and the journal's current file. The first
 * difference fails the journal.
 */
#ifndef SLUICE_APP_FOLDER_WATCH_H
#define SLUICE_APP_FOLDER_WATCH_H

#include "journal/journal.h"

struct folder_watch;

/* Notes what is there now. has_ledger: the ledger is a file in this folder. Logs its error. */
int folder_watch_start(const char *data_dir, struct journal *journal, bool has_ledger,
                       struct folder_watch **ret_watch);
/* Also frees it. NULL is fine. */
void folder_watch_stop(struct folder_watch *watch);

/* ---- for tests ---- */

struct folder_watch *folder_watch_new(const char *data_dir, struct journal *journal,
                                      bool has_ledger); /* NULL: no memory */
void folder_watch_free(struct folder_watch *watch);
/* One look: the path that is no longer what it was; NULL: all is well. */
const char *folder_watch_look(struct folder_watch *watch);

#endif
