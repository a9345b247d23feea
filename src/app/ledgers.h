/*
 * The ledger that the configuration chooses: SQLite in the data folder, or a database of a MariaDB
 * server (ledger.url). A writer and readers of it, behind port/ledger.h.
 */
#ifndef SLUICE_APP_LEDGERS_H
#define SLUICE_APP_LEDGERS_H

#include "app/config.h"
#include "port/ledger.h"

struct ledgers {
    struct ledger *writer;
    struct ledger *reader;
    struct ledger *comparer; /* a second reader, for the reconciler of the embedded engine */
    struct ledger *teller;   /* another, for the herald of the embedded engine; NULL: it has none */
    bool on_mariadb;
};

/* The data folder's name for itself, made where there is none. ERR_IO, ERR_CORRUPT. */
#define LEDGERS_ID 22 /* characters of base64url */
int ledgers_folder_id(const struct config *config, char ret_id[LEDGERS_ID + 1]);

/* The file whose presence tells that this data folder has had a ledger before. */
void ledgers_mark(const struct config *config, char *ret_path, size_t capacity);
/* Opens both; what is wrong is logged, with what to do. ledgers_close after an error, too. */
/* segments: of the distributed engine's gate, whose ledger has many writers; 0: the embedded one. */
int ledgers_open(struct ledgers *ledgers, const struct config *config, uint32_t segments);
void ledgers_close(struct ledgers *ledgers);
/* What went wrong last with the writer. */
const char *ledgers_error(const struct ledgers *ledgers);

#endif
