/*
 * The connection: made with bounded waits, its session set up so that nothing depends on the
 * server's defaults, and how statements are run on it.
 *
 * What can go wrong: no server, no access, no answer in time, a connection killed. Then `lost` is
 * set: nothing more is sent on it, and the next call makes another one. Statements are prepared
 * anew on each connection.
 */
#include <errmsg.h>
#include <mysqld_error.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "backend/mariadb/maria.h"
#include "base/check.h"
#include "base/err.h"

/* Values of so many rows go in one packet: some hundred KiB, far below any max_allowed_packet. */
#define ROWS_AT_ONCE 2000
/* Longer than any text this program stores. */
#define CELL_TEXT_MAX 2304
#define SERVER_VERSION_MIN 100600

static const char *const statement_texts[] = {
#define X(name, sql) sql,
    SQL_STATEMENTS(X) MARIA_STATEMENTS(X)
#undef X
};

/* Not in the client's headers; a CHECK constraint says it. */
#define CONSTRAINT_FAILED 4025

int maria_say(struct maria *s, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(s->error, sizeof(s->error), format, arguments);
    va_end(arguments);
    return code;
}

double maria_seconds(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int error_code(unsigned number)
{
    switch (number) {
    case CONSTRAINT_FAILED:
    case ER_DUP_ENTRY:
    case ER_NO_REFERENCED_ROW:
    case ER_NO_REFERENCED_ROW_2:
    case ER_ROW_IS_REFERENCED:
    case ER_ROW_IS_REFERENCED_2:
    case ER_SIGNAL_EXCEPTION:
    case ER_BAD_NULL_ERROR:
    case ER_DATA_TOO_LONG:
    case ER_WARN_DATA_OUT_OF_RANGE:
    case ER_DATA_OUT_OF_RANGE:
    case ER_TRUNCATED_WRONG_VALUE:
    case ER_TRUNCATED_WRONG_VALUE_FOR_FIELD:
        return MARIA_REFUSED;
    case ER_LOCK_DEADLOCK:
        return MARIA_AGAIN;
    case ER_LOCK_WAIT_TIMEOUT:
        return ERR_BUSY;
    case ER_DISK_FULL:
    case ER_RECORD_FILE_FULL:
        return ERR_NOSPACE;
    case ER_OUTOFMEMORY:
    case ER_OUT_OF_RESOURCES:
    case CR_OUT_OF_MEMORY:
        return ERR_NOMEM;
    case ER_CRASHED_ON_USAGE:
    case ER_NOT_KEYFILE:
        return ERR_CORRUPT;
    default:
        return ERR_IO;
    }
}

/* Whether the connection can still be used after this error. */
static bool error_loses(unsigned number)
{
    return (number >= CR_MIN_ERROR && number <= CR_MAX_ERROR) || number == ER_SERVER_SHUTDOWN ||
           number == ER_CONNECTION_KILLED || number == ER_NEW_ABORTING_CONNECTION ||
           number == ER_ABORTING_CONNECTION || number == ER_NET_READ_INTERRUPTED ||
           number == ER_NET_READ_ERROR || number == ER_NET_PACKETS_OUT_OF_ORDER;
}

/* What an operator can do about it; "" where the server's words say enough. */
static const char *error_advice(unsigned number)
{
    switch (number) {
    case CR_CONNECTION_ERROR:
    case CR_CONN_HOST_ERROR:
    case CR_UNKNOWN_HOST:
        return "; is the server running, and is ledger.url right?";
    case ER_ACCESS_DENIED_ERROR:
        return "; check the user in ledger.url and its password";
    case ER_BAD_DB_ERROR:
        return "; make the database first: CREATE DATABASE, and GRANT ALL ON it to the user";
    case ER_DBACCESS_DENIED_ERROR:
    case ER_TABLEACCESS_DENIED_ERROR:
        return "; GRANT ALL ON the database to the user";
    case ER_BINLOG_CREATE_ROUTINE_NEED_SUPER:
        return "; the schema has triggers: SET GLOBAL log_bin_trust_function_creators = 1";
    case ER_OPTION_PREVENTS_STATEMENT:
        return "; the ledger needs the server that may be written to";
    case CR_SSL_CONNECTION_ERROR:
        return "; does the server offer TLS, and does ca= name who signed its certificate?";
    case CR_SERVER_LOST:
        return " (no answer in time, or the connection was cut)";
    default:
        return "";
    }
}

/* Keeps the words of what just failed and gives it our code. */
static int failed(struct maria *s, unsigned number, const char *words, const char *what)
{
    int code = error_code(number);
    if (number == ER_LOCK_WAIT_TIMEOUT && s->segments > 0) {
        code = MARIA_AGAIN; /* the other writers' turn is taking long */
    }
    s->lost = s->lost || error_loses(number);
    s->denied = number == ER_DBACCESS_DENIED_ERROR;
    return maria_say(s, code, "%.160s: %.240s (%u)%s", what, words, number, error_advice(number));
}

static int db_failed(struct maria *s, const char *what)
{
    return failed(s, mysql_errno(s->db), mysql_error(s->db), what);
}

static int statement_failed(struct maria *s, const struct maria_row *row)
{
    return failed(s, mysql_stmt_errno(row->handle), mysql_stmt_error(row->handle), row->sql);
}

/* ---- the connection ---- */

static void row_close(struct maria_row *row)
{
    if (row->handle != NULL) {
        (void)mysql_stmt_close(row->handle);
    }
    for (unsigned i = 0; row->cells != NULL && i < row->columns; i++) {
        free(row->cells[i].text);
    }
    free(row->cells);
    free(row->binds);
    free(row->sql);
    *row = (struct maria_row){.handle = NULL};
}

void maria_disconnect(struct maria *s)
{
    for (unsigned i = 0; s->statements != NULL && i < MARIA_IN(s->address.databases, 0); i++) {
        row_close(&s->statements[i]);
    }
    if (s->db != NULL) {
        mysql_close(s->db);
    }
    s->db = NULL;
    s->lost = false;
}

/* The session is ours: the server's defaults decide nothing. READ COMMITTED: the writer reads the
 * newest rows and locks only what it changes; queries ask for one state by themselves. Times are
 * read in UTC, where no hour comes twice. The server ends the session of a writer of a shared ledger
 * that falls silent in the middle of a batch (frozen, or cut off), because all others wait for it. */
static unsigned silence_s(const struct maria *s)
{
    return s->timeout_s > 2 ? s->timeout_s / 2 : 1; /* less than the others wait */
}

static int set_up_session(struct maria *s)
{
    char sql[640];
    (void)snprintf(sql, sizeof(sql),
                   "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,"
                   "NO_ZERO_DATE,NO_ZERO_IN_DATE,NO_ENGINE_SUBSTITUTION', autocommit = 1,"
                   " check_constraint_checks = 1, foreign_key_checks = 1, unique_checks = 1,"
                   " tx_isolation = '%s', completion_type = 0, innodb_lock_wait_timeout = %d,"
                   " lock_wait_timeout = %d, sql_select_limit = DEFAULT, time_zone = '+00:00',"
                   " idle_transaction_timeout = %u",
                   s->read_only ? "REPEATABLE-READ" : "READ-COMMITTED", MARIA_LOCK_WAIT_S,
                   MARIA_LOCK_WAIT_S, s->segments > 0 ? silence_s(s) : 0);
    return maria_do(s, sql);
}

/* Encrypted, and with the server that is meant, or not at all. */
static void want_tls(struct maria *s)
{
    const my_bool yes = 1;
    if (s->address.ca[0] != '\0') {
        (void)mysql_options(s->db, MYSQL_OPT_SSL_CA, s->address.ca);
    }
    (void)mysql_options(s->db, MYSQL_OPT_SSL_ENFORCE, &yes);
    (void)mysql_options(s->db, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes);
}

int maria_connect(struct maria *s)
{
    if (s->db != NULL && !s->lost) {
        return 0;
    }
    maria_disconnect(s);
    s->db = mysql_init(NULL);
    if (s->db == NULL) {
        return maria_say(s, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    }
    unsigned timeout_s = s->timeout_s;
    const struct maria_address *a = &s->address;
    bool by_socket = a->socket[0] != '\0';
    unsigned protocol = by_socket ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
    (void)mysql_options(s->db, MYSQL_OPT_CONNECT_TIMEOUT, &timeout_s);
    (void)mysql_options(s->db, MYSQL_OPT_READ_TIMEOUT, &timeout_s);
    (void)mysql_options(s->db, MYSQL_OPT_WRITE_TIMEOUT, &timeout_s);
    (void)mysql_options(s->db, MYSQL_OPT_PROTOCOL, &protocol);
    (void)mysql_options(s->db, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    (void)mysql_optionsv(s->db, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "sluice");
    if (a->tls) {
        want_tls(s);
    }
    if (mysql_real_connect(s->db, by_socket ? NULL : a->host, a->user, a->password, a->database,
                           a->port, by_socket ? a->socket : NULL, 0) == NULL) {
        int err = db_failed(s, "connect");
        s->lost = true;
        return err;
    }
    if (!mariadb_connection(s->db) || mysql_get_server_version(s->db) < SERVER_VERSION_MIN) {
        s->lost = true;
        return maria_say(s, ERR_VERSION, "the server is %s; the ledger needs MariaDB 10.6 or later",
                         mysql_get_server_info(s->db));
    }
    return set_up_session(s);
}

/* ---- statements ---- */

int maria_do(struct maria *s, const char *sql)
{
    if (mysql_real_query(s->db, sql, strlen(sql)) != 0) {
        return db_failed(s, sql);
    }
    return 0;
}

int maria_number(struct maria *s, const char *sql, int64_t *ret_number)
{
    int err = maria_do(s, sql);
    if (err != 0) {
        return err;
    }
    MYSQL_RES *result = mysql_store_result(s->db);
    if (result == NULL) {
        return db_failed(s, sql);
    }
    MYSQL_ROW row = mysql_fetch_row(result);
    err = row == NULL || row[0] == NULL ? ERR_NOTFOUND : 0;
    if (err == 0) {
        *ret_number = strtoll(row[0], NULL, 10);
    }
    mysql_free_result(result);
    return err;
}

void maria_rollback(struct maria *s)
{
    char words[sizeof(s->error)];
    memcpy(words, s->error, sizeof(words)); /* of the cause, not of what the rollback says */
    if (s->db != NULL && !s->lost && maria_do(s, "ROLLBACK") != 0) {
        s->lost = true; /* whatever it is in, it is not in a state we know */
    }
    memcpy(s->error, words, sizeof(words));
}

/* A place for each column of the result: numbers as numbers, all else as text. */
static int bind_result(struct maria *s, struct maria_row *row)
{
    MYSQL_RES *fields = mysql_stmt_result_metadata(row->handle);
    if (fields == NULL) {
        return 0; /* a statement without rows */
    }
    row->columns = mysql_num_fields(fields);
    row->cells = calloc(row->columns, sizeof(*row->cells));
    row->binds = calloc(row->columns, sizeof(*row->binds));
    int err = row->cells == NULL || row->binds == NULL ? ERR_NOMEM : 0;
    for (unsigned i = 0; err == 0 && i < row->columns; i++) {
        struct maria_cell *cell = &row->cells[i];
        MYSQL_BIND *bind = &row->binds[i];
        bind->is_null = &cell->null;
        bind->length = &cell->length;
        if (IS_NUM(mysql_fetch_field_direct(fields, i)->type)) {
            bind->buffer_type = MYSQL_TYPE_LONGLONG;
            bind->buffer = &cell->number;
            continue;
        }
        cell->text = malloc(CELL_TEXT_MAX);
        err = cell->text == NULL ? ERR_NOMEM : 0;
        bind->buffer_type = MYSQL_TYPE_STRING;
        bind->buffer = cell->text;
        bind->buffer_length = CELL_TEXT_MAX;
    }
    mysql_free_result(fields);
    if (err != 0) {
        return maria_say(s, err, "%s", err_text(err));
    }
    return mysql_stmt_bind_result(row->handle, row->binds) != 0 ? statement_failed(s, row) : 0;
}

/* What a word in braces stands for. */
static void sql_table(const struct maria *s, struct span word, uint32_t place, struct out *out)
{
    CHECK(span_is(word, "orders"));
    if (place > 0) {
        char name[SPLIT_NAME_MAX];
        split_name(s->address.database, place, name);
        out_text(out, name);
        out_char(out, '.');
    }
    out_text(out, "orders");
}

char *maria_sql(const struct maria *s, unsigned which)
{
    const char *text = statement_texts[which % MARIA_STATEMENT_COUNT];
    size_t bytes = strlen(text) + SPLIT_NAME_MAX + 1; /* a table is named once */
    char *sql = malloc(bytes);
    if (sql == NULL) {
        return NULL;
    }
    struct out out = out_over(sql, bytes);
    const char *open = strchr(text, '{');
    if (open != NULL) {
        struct span word = {open + 1, strcspn(open + 1, "}")};
        out_bytes(&out, text, (size_t)(open - text));
        sql_table(s, word, which / MARIA_STATEMENT_COUNT, &out);
        text = word.at + word.len + 1;
    }
    out_text(&out, text);
    out_char(&out, '\0');
    CHECK(!out.overflow);
    return sql;
}

static int prepared(struct maria *s, unsigned which, struct maria_row **ret_row)
{
    struct maria_row *row = &s->statements[which];
    *ret_row = row;
    if (row->handle != NULL) {
        return 0;
    }
    row->base.db = &s->base;
    row->sql = maria_sql(s, which);
    row->handle = row->sql == NULL ? NULL : mysql_stmt_init(s->db);
    if (row->handle == NULL) {
        row_close(row);
        return maria_say(s, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    }
    int err = mysql_stmt_prepare(row->handle, row->sql, strlen(row->sql)) != 0
                  ? statement_failed(s, row)
                  : bind_result(s, row);
    if (err != 0) {
        row_close(row);
    }
    return err;
}

static void *scratch_of(struct maria *s, size_t bytes)
{
    if (bytes > s->scratch_bytes) {
        void *scratch = realloc(s->scratch, bytes);
        if (scratch == NULL) {
            return NULL;
        }
        s->scratch = scratch;
        s->scratch_bytes = bytes;
    }
    return s->scratch;
}

#define PARAMETERS_MAX 16

/* What the values of one column are sent as: the first that is not NULL decides. */
static enum enum_field_types column_type(const struct value *values, size_t count, size_t rows)
{
    for (size_t r = 0; r < rows; r++) {
        switch (values[r * count].type) {
        case VALUE_NUMBER:
            return MYSQL_TYPE_LONGLONG;
        case VALUE_TEXT:
            return MYSQL_TYPE_STRING;
        case VALUE_BLOB:
        case VALUE_KEY:
            return MYSQL_TYPE_BLOB;
        case VALUE_NULL:
            break;
        }
    }
    return MYSQL_TYPE_LONGLONG;
}

/* One column of an array execution: values (numbers, or pointers to bytes), lengths, NULLs. */
static void bind_column(const struct value *values, size_t count, size_t rows, char *memory,
                        MYSQL_BIND *ret_bind)
{
    int64_t *numbers = (int64_t *)(void *)memory;
    const void **texts = (const void **)(void *)memory;
    unsigned long *lengths = (unsigned long *)(void *)(memory + rows * sizeof(int64_t));
    char *nulls = memory + rows * (sizeof(int64_t) + sizeof(unsigned long));
    enum enum_field_types type = column_type(values, count, rows);
    for (size_t r = 0; r < rows; r++) {
        const struct value *v = &values[r * count];
        lengths[r] = v->length;
        nulls[r] = v->type == VALUE_NULL ? STMT_INDICATOR_NULL : STMT_INDICATOR_NONE;
        if (type == MYSQL_TYPE_LONGLONG) {
            numbers[r] = v->number;
        } else {
            texts[r] = v->bytes;
        }
    }
    *ret_bind = (MYSQL_BIND){
        .buffer_type = type, .buffer = memory, .length = lengths, .u.indicator = nulls};
}

static int bind_rows(struct maria *s, struct maria_row *row, const struct value *values,
                     size_t count, size_t rows)
{
    MYSQL_BIND binds[PARAMETERS_MAX];
    size_t bytes = rows * (sizeof(int64_t) + sizeof(unsigned long) + sizeof(int64_t));
    char *memory = scratch_of(s, count * bytes);
    if (memory == NULL) {
        return maria_say(s, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    }
    for (size_t i = 0; i < count; i++) {
        bind_column(values + i, count, rows, memory + i * bytes, &binds[i]);
    }
    unsigned size = (unsigned)rows;
    (void)mysql_stmt_attr_set(row->handle, STMT_ATTR_ARRAY_SIZE, &size);
    return mysql_stmt_bind_param(row->handle, binds) != 0 ? statement_failed(s, row) : 0;
}

/* One row: the values are sent from where they are. */
static int bind_values(struct maria *s, struct maria_row *row, const struct value *values,
                       size_t count)
{
    MYSQL_BIND binds[PARAMETERS_MAX];
    unsigned size = 0;
    for (size_t i = 0; i < count; i++) {
        const struct value *v = &values[i];
        bool number = v->type == VALUE_NUMBER;
        binds[i] = (MYSQL_BIND){
            .buffer_type = v->type == VALUE_NULL   ? MYSQL_TYPE_NULL
                           : number                ? MYSQL_TYPE_LONGLONG
                           : v->type == VALUE_TEXT ? MYSQL_TYPE_STRING
                                                   : MYSQL_TYPE_BLOB,
            .buffer = number ? (void *)(uintptr_t)&v->number : (void *)(uintptr_t)v->bytes,
            .buffer_length = v->length,
            .length = (unsigned long *)(uintptr_t)&v->length,
        };
    }
    (void)mysql_stmt_attr_set(row->handle, STMT_ATTR_ARRAY_SIZE, &size);
    return mysql_stmt_bind_param(row->handle, binds) != 0 ? statement_failed(s, row) : 0;
}

static int execute(struct maria *s, unsigned which, const struct value *values, size_t count,
                   size_t rows, struct maria_row **ret_row)
{
    struct maria_row *row;
    int err = prepared(s, which, &row);
    if (err != 0) {
        return err;
    }
    CHECK(count <= PARAMETERS_MAX && mysql_stmt_param_count(row->handle) == count);
    if (count > 0) {
        err =
            rows > 1 ? bind_rows(s, row, values, count, rows) : bind_values(s, row, values, count);
    }
    if (err == 0 && mysql_stmt_execute(row->handle) != 0) {
        err = statement_failed(s, row);
    }
    *ret_row = row;
    return err;
}

static struct maria_row *maria_row_of(struct db_row *row)
{
    return (struct maria_row *)row;
}

static void row_done(struct db_row *row)
{
    (void)mysql_stmt_free_result(maria_row_of(row)->handle);
}

static int row_next(struct db_row *row)
{
    int code = mysql_stmt_fetch(maria_row_of(row)->handle);
    if (code == 0 || code == MYSQL_DATA_TRUNCATED) {
        return 0;
    }
    int err = code == MYSQL_NO_DATA ? ERR_NOTFOUND
                                    : statement_failed((struct maria *)row->db, maria_row_of(row));
    row_done(row);
    return err;
}

static int maria_get(struct db *db, uint32_t place, unsigned which, struct db_row **ret_row,
                     const struct value *values, size_t count)
{
    struct maria *s = (struct maria *)db;
    struct maria_row *row = NULL;
    int err = execute(s, MARIA_IN(place, which), values, count, 1, &row);
    if (err == 0 && mysql_stmt_store_result(row->handle) != 0) {
        err = statement_failed(s, row);
    }
    if (err == 0) {
        err = row_next(&row->base);
    }
    if (err == 0) {
        *ret_row = &row->base;
    }
    return err;
}

int maria_run_rows(struct maria *s, unsigned which, const struct value *values, size_t count,
                   size_t rows, uint64_t *ret_changed)
{
    uint64_t changed = 0;
    for (size_t at = 0; at < rows; at += ROWS_AT_ONCE) {
        size_t some = rows - at < ROWS_AT_ONCE ? rows - at : ROWS_AT_ONCE;
        struct maria_row *row = NULL;
        int err = execute(s, which, values + at * count, count, some, &row);
        if (err != 0) {
            return err;
        }
        CHECK(row->columns == 0); /* these statements give no rows */
        changed += mysql_stmt_affected_rows(row->handle);
    }
    if (ret_changed != NULL) {
        *ret_changed = changed;
    }
    return 0;
}

static int maria_run(struct db *db, unsigned which, const struct value *values, size_t count,
                     size_t rows)
{
    return maria_run_rows((struct maria *)db, which, values, count, rows, NULL);
}

/* ---- columns ---- */

static const struct maria_cell *cell_of(const struct db_row *row, unsigned column)
{
    return &((const struct maria_row *)row)->cells[column];
}

static int64_t row_number(const struct db_row *row, unsigned column)
{
    const struct maria_cell *cell = cell_of(row, column);
    return cell->null ? 0 : cell->number;
}

static struct span row_span(const struct db_row *row, unsigned column)
{
    const struct maria_cell *cell = cell_of(row, column);
    if (cell->null) {
        return (struct span){NULL, 0};
    }
    return (struct span){cell->text, cell->length < CELL_TEXT_MAX ? cell->length : CELL_TEXT_MAX};
}

static uint32_t row_place(const struct db *db, struct order_id id)
{
    return maria_place((const struct maria *)db, id);
}

const struct db_ops maria_db_ops = {.get = maria_get,
                                    .run = maria_run,
                                    .next = row_next,
                                    .done = row_done,
                                    .number = row_number,
                                    .span = row_span,
                                    .place = row_place};
