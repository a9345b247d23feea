/*
 * Leases in the ledger's own database, behind the interface of port/lease.h: a row for each name,
 * by the database's clock. It also is where tokens come from, and where the ledger looks whether a
 * batch's token is still the highest.
 */
#ifndef SLUICE_BACKEND_MARIADB_LEASE_MARIADB_H
#define SLUICE_BACKEND_MARIADB_LEASE_MARIADB_H

#include "backend/mariadb/ledger_mariadb.h"
#include "port/lease.h"

#define LEASE_HOLDER_MAX 128

/*
 * For one holder, whose name is nobody else's (two processes are two holders, and a restarted one
 * is another). The ledger's tables must be there. Errors as of ledger_mariadb_open for a reader;
 * ledger_mariadb_error(NULL) has the words.
 */
int lease_mariadb_open(const struct ledger_mariadb_options *options, const char *holder,
                       struct lease_port **ret_port);
void lease_mariadb_close(struct lease_port *port); /* NULL is fine; leases end by themselves */
/* What went wrong last. */
const char *lease_mariadb_error(const struct lease_port *port);

#endif
