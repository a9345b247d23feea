/*
 * The ledger that the configuration chooses: SQLite in the data folder, or a database of a MariaDB
 * server (ledger.url). A writer and readers of it, behind port/ledger.h.
 */
#ifndef SLUICE_APP_LEDGER_BACKENDS_H
#define SLUICE_APP_LEDGER_BACKENDS_H

#include "app/config.h"
#include "port/ledger.h"

struct ledger_backends {
    struct ledger *writer;
    struct ledger *reader;
    struct ledger *comparer; /* a second reader, for the reconciler of the embedded engine */
    /* Another reader, for the event publisher of the embedded engine; NULL: it has none. */
    struct ledger *event_reader;
    bool on_mariadb;
};

/* The data folder's name for itself, made where there is none. ERR_IO, ERR_CORRUPT. */
#define LEDGER_BACKENDS_ID 22 /* characters of base64url */
int ledger_backends_folder_id(const struct config *config, char ret_id[LEDGER_BACKENDS_ID + 1]);

/* The file whose presence tells that this data folder has had a ledger before. */
void ledger_backends_mark(const struct config *config, char *ret_path, size_t capacity);
/* Opens both; what is wrong is logged, with what to do. ledger_backends_close after an error, too. */
/* segments: of the distributed engine's gate, whose ledger has many writers; 0: the embedded one. */
int ledger_backends_open(struct ledger_backends *ledger_backends, const struct config *config,
                         uint32_t segments);
void ledger_backends_close(struct ledger_backends *ledger_backends);
/* What went wrong last with the writer. */
const char *ledger_backends_error(const struct ledger_backends *ledger_backends);

#endif
