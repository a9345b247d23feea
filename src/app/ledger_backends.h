/*
 * The configured ledger: SQLite in the data folder, or a database on a MariaDB server (ledger.url).
 * One writer and several readers, behind port/ledger.h.
 */
#ifndef SLUICE_APP_LEDGER_BACKENDS_H
#define SLUICE_APP_LEDGER_BACKENDS_H

#include "app/config.h"
#include "port/ledger.h"

struct ledger_backends {
    struct ledger *writer;
    struct ledger *reader;          /* of buyers' lists */
    struct ledger *operator_reader; /* of operators' lists and reports */
    struct ledger *comparer;        /* a second reader, for the reconciler of the embedded engine */
    /* A reader for the event publisher of the embedded engine; NULL: none. */
    struct ledger *event_reader;
    bool on_mariadb;
    struct ledger_health health; /* of all of them */
};

/* The id of the data folder; created if there is none. ERR_IO, ERR_CORRUPT. */
#define LEDGER_BACKENDS_ID 22 /* characters of base64url */
int ledger_backends_folder_id(const struct config *config, char ret_id[LEDGER_BACKENDS_ID + 1]);

/* The file that shows that this data folder has had a ledger. */
void ledger_backends_mark(const struct config *config, char *ret_path, size_t capacity);
/* Opens writer and readers. Errors are logged with advice. Call ledger_backends_close after an
 * error, too. */
/* segments: of the distributed gate, whose ledger has many writers; 0: embedded. */
int ledger_backends_open(struct ledger_backends *ledger_backends, const struct config *config,
                         uint32_t segments);
void ledger_backends_close(struct ledger_backends *ledger_backends);
/* The writer's last error. */
const char *ledger_backends_error(const struct ledger_backends *ledger_backends);

#endif
