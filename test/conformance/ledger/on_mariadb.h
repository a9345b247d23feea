/* What tests of the MariaDB ledger itself need besides the suite's fixture. */
#ifndef SLUICE_TEST_ON_MARIADB_H
#define SLUICE_TEST_ON_MARIADB_H

#include <mysql.h>

#include "backend/mariadb/ledger_mariadb.h"
#include "fixture.h"

/* The test's database as a URL, and how its ledger is opened. */
void mariadb_url(const struct fixture *f, char *ret_url, size_t capacity);
struct ledger_mariadb_options mariadb_options(const char *url);
/* A connection as the tests' user; database NULL: none. The caller closes it. */
MYSQL *mariadb_shell(const char *database);

#endif
