/*
 * Looking for damage on MariaDB: CHECK TABLE on every table of the ledger, on demand. InnoDB has
 * checksums of its own pages, which it verifies when it reads one from disk; so there are no pieces
 * for a timer here.
 *
 * CHECK TABLE of a large table takes longer than any other statement, so the connection is made
 * again with another timeout, and once more at the end.
 */
#include <stdio.h>
#include <string.h>

#include "backend/mariadb/maria.h"
#include "backend/mariadb/split.h"
#include "base/err.h"

#define CHECK_TIMEOUT_S 3600
#define TABLES_MAX 64

/* Quoted, with its database. */
struct table_name {
    char text[SPLIT_NAME_MAX + 80];
};

static void add_damage(struct ledger_check *check, const char *table, const char *said)
{
    if (check->damaged++ == 0) {
        (void)snprintf(check->what, sizeof(check->what), "%.80s: %.160s", table, said);
    }
}

/* Rows of CHECK TABLE: table, op, kind of message, message. Notes and warnings are not damage. */
static int check_table(struct maria *s, struct ledger_check *check, const char *table)
{
    char sql[SPLIT_NAME_MAX + 100];
    (void)snprintf(sql, sizeof(sql), "CHECK TABLE %.*s", (int)(sizeof(sql) - 20), table);
    int err = maria_do(s, sql);
    MYSQL_RES *rows = err == 0 ? mysql_store_result(s->db) : NULL;
    if (rows == NULL) {
        return err != 0 ? err : maria_say(s, ERR_IO, "CHECK TABLE %s: no answer", table);
    }
    MYSQL_ROW row;
    while ((row = mysql_fetch_row(rows)) != NULL) {
        bool is_status = row[2] != NULL && strcmp(row[2], "status") == 0;
        bool is_error = row[2] != NULL && strcasecmp(row[2], "error") == 0;
        if (row[3] != NULL && (is_error || (is_status && strcmp(row[3], "OK") != 0))) {
            add_damage(check, table, row[3]);
        }
    }
    mysql_free_result(rows);
    check->rows++;
    return 0;
}

/* The names of the tables, quoted, of all databases of the ledger. */
static int tables_of(struct maria *s, struct table_name *ret_names, size_t *ret_count)
{
    *ret_count = 0;
    for (uint32_t place = 0; place < s->address.databases; place++) {
        char name[SPLIT_NAME_MAX];
        char sql[SPLIT_NAME_MAX + 80];
        split_name(s->address.database, place, name);
        (void)snprintf(sql, sizeof(sql), "SHOW FULL TABLES FROM %s WHERE Table_type = 'BASE TABLE'",
                       name);
        int err = maria_do(s, sql);
        MYSQL_RES *rows = err == 0 ? mysql_store_result(s->db) : NULL;
        if (rows == NULL) {
            return err != 0 ? err : maria_say(s, ERR_IO, "no list of tables");
        }
        MYSQL_ROW row;
        while ((row = mysql_fetch_row(rows)) != NULL && *ret_count < TABLES_MAX) {
            (void)snprintf(ret_names[(*ret_count)++].text, sizeof(ret_names[0].text), "%s.`%.64s`",
                           name, row[0] == NULL ? "" : row[0]);
        }
        mysql_free_result(rows);
    }
    return *ret_count > 0 ? 0 : maria_say(s, ERR_IO, "no list of tables");
}

static int check_all(struct maria *s, struct ledger_check *check)
{
    struct table_name names[TABLES_MAX];
    size_t count = 0;
    int err = maria_ready(s);
    err = err != 0 ? err : tables_of(s, names, &count);
    for (size_t i = 0; i < count && err == 0; i++) {
        if (check->stop != NULL && check->stop(check->context)) {
            return ERR_CLOSED;
        }
        err = check_table(s, check, names[i].text);
    }
    return err > 0 ? ERR_BUSY : err;
}

void maria_check(struct ledger *ledger, struct ledger_check *check)
{
    struct maria *s = maria_of(ledger);
    uint32_t timeout_s = s->timeout_s;
    check->done = true;
    if (!check->whole) {
        return;
    }
    maria_disconnect(s);
    s->timeout_s = CHECK_TIMEOUT_S;
    int err = check_all(s, check);
    maria_disconnect(s);
    s->timeout_s = timeout_s;
    check->error = err != 0 ? err : check->damaged > 0 ? ERR_CORRUPT : 0;
}
