/*
 * The ledger on MariaDB (10.6 or later), behind the interface of port/ledger.h: the same tables and
 * guarantees as the one on SQLite, in a database of its own on the shop's server. docs/LEDGER.md
 * shows the tables.
 *
 * An instance has one connection and belongs to one thread at a time.
 *
 * A ledger is written to by one, or shared (options.segments). The one writer holds a named lock of
 * the server and the newest fence number in `meta`: a second writer is refused, and one that was
 * replaced meanwhile finds its batches refused (ERR_BUSY). Writers of a shared ledger are as many
 * as there are; each batch locks the row of `meta` before it looks at anything, so batches
 * happen one after the other, and events are numbered in the order of the commits.
 *
 * Nothing waits for ever: a server that does not answer within the time given makes the batch or
 * the query fail with ERR_IO. The connection is made again at the next call. The next batch begins
 * when the old connection is gone from the server (one writer), or has let the row of `meta` go
 * (shared), so nothing of a batch whose answer was lost can still be committed behind its back.
 */
#ifndef SLUICE_BACKEND_MARIADB_LEDGER_MARIADB_H
#define SLUICE_BACKEND_MARIADB_LEDGER_MARIADB_H

#include "port/ledger.h"

enum ledger_mariadb_mode { MARIADB_WRITER, MARIADB_READER };

struct ledger_mariadb_options {
    const char *url; /* mariadb://user[:password]@host[:port]/database[?options]: address.c */
    const char *password_file; /* its first line is the password; NULL or "": the URL's */
    const char *owner;   /* who writes: one name for one data folder. A lock held by a connection of
                        * the same name is taken over. NULL or "": none */
    uint32_t timeout_s;  /* 0: 10. For connecting, and for each answer; a batch of a shared ledger
                         * waits as long for others' batches */
    uint32_t segments;   /* of the gate; 0: the only writer of a ledger whose gate has one */
    const char *regions; /* buyers' homes of sales that are warmed from now on; NULL: no regions */
};

/* Whether it is such a URL; ERR_INVALID with the reason in ret_error. */
int ledger_mariadb_check_url(const char *url, char *ret_error, size_t capacity);

/*
 * MARIADB_WRITER makes the tables in an empty database and brings older ones up to date;
 * MARIADB_READER needs both done. ERR_INVALID: a wrong URL, or a database of something else, or a
 * ledger of another kind; ERR_BUSY: another server writes to it; ERR_VERSION: made by a newer
 * program; ERR_NOTFOUND (reader): no tables yet; ERR_IO: no server, no access.
 *
 * A ledger of one writer becomes a shared one, or the other way round, only while every sale is a
 * draft: its orders have no segments. Segments may be added to a shared ledger at any time.
 */
int ledger_mariadb_open(const struct ledger_mariadb_options *options, enum ledger_mariadb_mode mode,
                        struct ledger **ret_ledger);
void ledger_mariadb_close(struct ledger *ledger); /* NULL is fine */
/* Ends the connection until the next call, which makes a new one. Not for the only writer. */
void ledger_mariadb_rest(struct ledger *ledger);

/* What went wrong last, and what to do about it. NULL: in the last failed open on this thread. */
const char *ledger_mariadb_error(const struct ledger *ledger);
/* What about the server endangers the ledger's promises; "": nothing. */
const char *ledger_mariadb_warning(const struct ledger *ledger);

#endif
