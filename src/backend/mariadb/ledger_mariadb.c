/*
 * Opening and closing the MariaDB ledger, its schema, and who may write.
 *
 * Open, for the one writer: connect, take the writers' lock, bring the schema up to date, raise the fence number in
 * meta to a new one, which is this instance's from then on. Every write transaction begins by
 * locking that row and comparing: a writer that was replaced can commit nothing more.
 *
 * The lock is the server's (GET_LOCK), held by the connection: it is free when the connection is
 * gone, and not before. So a writer that lost its connection takes the lock again before it reads
 * where things stand: by then its old connection has committed or rolled back for good. A lock
 * that is still held by our own old connection (the network was cut), or by one of the same owner
 * (our machine died), is freed by ending that connection.
 *
 * A shared ledger has no such writer: the lock is taken only while the tables are made or changed,
 * so that nobody does both at once, and given back. meta.segments says which kind a ledger is.
 *
 * What can go wrong: the database is not a ledger, or of a newer program (refused, untouched); a
 * step of the schema fails (its version is not stored: the next start does it again); another
 * server holds the lock.
 */
#include <stdio.h>
#include <stdlib.h>

#include "backend/mariadb/maria.h"
#include "backend/mariadb/schema.h"
#include "base/check.h"
#include "base/err.h"

#define TIMEOUT_DEFAULT_S 10
/* One lock for each database of a server. */
#define LOCK_NAME "concat('sluice.', sha1(database()))"

/* The text of a failed open, whose instance is gone. */
static _Thread_local char open_error[MARIA_ERROR_MAX];

/* ---- the schema ---- */

/* The version; 0 for a database with nothing in it. */
static int read_version(struct maria *s, int64_t *ret_version)
{
    int64_t tables = 0;
    int64_t ours = 0;
    int err = maria_number(s,
                           "SELECT count(*) FROM information_schema.tables"
                           " WHERE table_schema = database()",
                           &tables);
    if (err == 0) {
        err = maria_number(s,
                           "SELECT count(*) FROM information_schema.tables WHERE table_schema ="
                           " database() AND table_name = 'ledger_schema'",
                           &ours);
    }
    if (err != 0) {
        return err;
    }
    if (ours == 0 && tables > 0) {
        return maria_say(s, ERR_INVALID,
                         "the database %s holds other tables and is not a ledger; give the ledger "
                         "a database of its own",
                         s->address.database);
    }
    *ret_version = 0;
    err = ours == 0 ? 0 : maria_number(s, "SELECT version FROM ledger_schema", ret_version);
    return err == ERR_NOTFOUND ? 0 : err;
}

/* {each}: once for the table of orders of each database; then the view of all shows what changed. */
static int run_for_each(struct maria *s, const char *text, const char *mark)
{
    bool split = false;
    int err = maria_split_check(s, &split);
    uint32_t databases = split ? s->address.databases : 1; /* the others are made like the first */
    for (uint32_t i = 0; i < databases && err == 0; i++) {
        char name[SPLIT_NAME_MAX];
        char sql[1024];
        split_name(s->address.database, i, name);
        int length = snprintf(sql, sizeof(sql), "%.*s%s.orders%s", (int)(mark - text), text, name,
                              mark + sizeof("{each}") - 1);
        CHECK(length > 0 && (size_t)length < sizeof(sql));
        err = maria_do(s, sql);
    }
    return err == 0 && databases > 1 ? maria_split_view(s) : err;
}

/* {all}: in a ledger split over several databases, the view of all their orders. */
static int run_statement(struct maria *s, const char *text)
{
    const char *each = strstr(text, "{each}");
    if (each != NULL) {
        return run_for_each(s, text, each);
    }
    int64_t databases = 0;
    const char *mark = strstr(text, "{all}");
    if (mark == NULL) {
        return maria_do(s, text);
    }
    int err = maria_number(s, "SELECT databases_count FROM meta", &databases);
    size_t bytes = 2 * strlen(text) + 1;
    char *sql = malloc(bytes);
    if (err != 0 || sql == NULL) {
        free(sql);
        return err == 0 ? ERR_NOMEM : err == ERR_NOTFOUND ? ERR_CORRUPT : err;
    }
    struct out out = out_over(sql, bytes);
    for (; mark != NULL; mark = strstr(text, "{all}")) {
        out_bytes(&out, text, (size_t)(mark - text));
        out_text(&out, databases > 1 ? "all_orders" : "orders");
        text = mark + sizeof("{all}") - 1;
    }
    out_text(&out, text);
    out_char(&out, '\0');
    CHECK(!out.overflow);
    err = maria_do(s, sql);
    free(sql);
    return err;
}

static int run_step(struct maria *s, const struct maria_step *step, int64_t version)
{
    int err = maria_do(s, "CREATE TABLE IF NOT EXISTS ledger_schema("
                          "id TINYINT NOT NULL PRIMARY KEY CHECK(id = 1),"
                          "version INT NOT NULL) ENGINE=InnoDB");
    for (size_t i = 0; i < step->count && err == 0; i++) {
        err = run_statement(s, step->statements[i]);
    }
    if (err == 0) {
        char mark[96];
        (void)snprintf(mark, sizeof(mark), "REPLACE INTO ledger_schema VALUES(1, %lld)",
                       (long long)version);
        err = maria_do(s, mark);
    }
    return err > 0 ? ERR_CORRUPT : err; /* nothing of the set-up may be refused */
}

static int check_version(struct maria *s)
{
    int64_t newest = (int64_t)s->steps_count;
    int64_t version = 0;
    int err = read_version(s, &version);
    if (err != 0) {
        return err;
    }
    if (s->read_only && version == 0) {
        return maria_say(s, ERR_NOTFOUND, "there is no ledger in %s yet", s->address.database);
    }
    if (version > newest || (s->read_only && version < newest)) {
        return maria_say(s, ERR_VERSION,
                         "the ledger has schema version %lld, this program needs %lld",
                         (long long)version, (long long)newest);
    }
    for (; version < newest && err == 0; version++) {
        err = run_step(s, &s->steps[version], version + 1);
    }
    return err;
}

/* ---- who may write ---- */

static int try_lock(struct maria *s, uint32_t wait_s, bool *ret_got)
{
    char sql[128];
    int64_t got = 0;
    (void)snprintf(sql, sizeof(sql), "SELECT get_lock(" LOCK_NAME ", %u)", wait_s);
    int err = maria_number(s, sql, &got);
    *ret_got = got == 1;
    return err == ERR_NOTFOUND ? maria_say(s, ERR_IO, "the server gives no lock") : err;
}

/*
 * Whose connection holds the lock (0: nobody's), and whether it is a dead end of our own: the
 * connection we had before, or, at the first try, one of the same owner. Whoever writes has put
 * its name and connection into meta.
 */
static int lock_holder(struct maria *s, int64_t *ret_thread, bool *ret_ours)
{
    int64_t same = 0;
    int64_t version = 0;
    *ret_thread = 0;
    *ret_ours = false;
    int err = maria_number(s, "SELECT is_used_lock(" LOCK_NAME ")", ret_thread);
    if (err != 0) {
        return err == ERR_NOTFOUND ? 0 : err;
    }
    if (s->owned) {
        *ret_ours = (unsigned long)*ret_thread == s->thread;
        return 0;
    }
    err = read_version(s, &version);
    if (err == 0 && version > 0 && s->owner[0] != '\0') {
        char sql[256];
        (void)snprintf(sql, sizeof(sql), "SELECT owner = '%s#%lld' FROM meta", s->owner,
                       (long long)*ret_thread);
        err = maria_number(s, sql, &same);
    }
    *ret_ours = same == 1;
    return err == ERR_NOTFOUND ? 0 : err;
}

static int take_lock(struct maria *s)
{
    /* Shorter than the wait for an answer, or waiting would look like a dead server. */
    uint32_t wait_s = s->timeout_s > 2 ? s->timeout_s / 2 : 1;
    bool got = false;
    int err = try_lock(s, wait_s > 5 ? 5 : wait_s, &got);
    if (err != 0 || got) {
        return err;
    }
    int64_t thread = 0;
    bool ours = false;
    err = lock_holder(s, &thread, &ours);
    if (err == 0 && ours) {
        char sql[64];
        (void)snprintf(sql, sizeof(sql), "KILL CONNECTION %lld", (long long)thread);
        (void)maria_do(s, sql); /* it may have ended meanwhile */
        err = s->lost ? ERR_IO : try_lock(s, wait_s, &got);
    }
    if (err != 0 || got) {
        return err;
    }
    return maria_say(s, ERR_BUSY,
                     "another server writes to this ledger (connection %lld of %s); stop it, or "
                     "give this one a database of its own",
                     (long long)thread, s->address.host);
}

/* Whether somebody has taken over since: then nothing of ours may be written, ever again. */
static int check_fence(struct maria *s)
{
    int64_t fence = 0;
    int err = s->fenced ? 0 : maria_number(s, "SELECT fence FROM meta", &fence);
    if (err == 0 && (s->fenced || (uint64_t)fence != s->fence)) {
        s->fenced = true;
        return maria_say(s, ERR_BUSY, "another server has taken this ledger over; stop this one");
    }
    return err;
}

/* The first time a fence number of our own; then where the events stand. */
static int take_over(struct maria *s)
{
    char sql[256];
    int64_t fence = 0;
    int64_t last_event = 0;
    (void)snprintf(sql, sizeof(sql),
                   "UPDATE meta SET fence = fence + %d, owner = concat('%s#', connection_id())"
                   " WHERE id = 1",
                   s->owned ? 0 : 1, s->owner);
    int err = maria_do(s, sql);
    if (err == 0 && !s->owned) {
        err = maria_number(s, "SELECT fence FROM meta", &fence);
        s->fence = (uint64_t)fence;
        s->owned = err == 0;
    }
    if (err == 0) {
        err = maria_number(s, "SELECT ifnull(max(number), 0) FROM events", &last_event);
        s->base.last_event = (uint64_t)last_event;
    }
    return err == ERR_NOTFOUND ? maria_say(s, ERR_CORRUPT, "meta has no row") : err;
}

/* ---- alone or shared ---- */

/* No row depends on the ledger's kind. */
int maria_only_drafts(struct maria *s, bool *ret_only)
{
    int64_t sales = 0;
    int err = maria_number(s, "SELECT count(*) FROM sales WHERE state <> 'draft'", &sales);
    *ret_only = sales == 0;
    return err;
}

static int kind_refused(struct maria *s, uint32_t has)
{
    if (s->segments == 0) {
        return maria_say(s, ERR_INVALID,
                         "the ledger in %s is of a gate with %u segments and cannot be written by "
                         "one server alone: it has sales that are no drafts",
                         s->address.database, has);
    }
    if (has == 0) {
        return maria_say(s, ERR_INVALID,
                         "the ledger in %s is one server's alone and cannot get %u segments: it "
                         "has sales that are no drafts; give the new engine a database of its own",
                         s->address.database, s->segments);
    }
    return maria_say(s, ERR_INVALID,
                     "the ledger in %s has %u segments, more than the %u asked for: segments can "
                     "be added, not taken away, unless every sale is a draft",
                     s->address.database, has, s->segments);
}

static int run_all(struct maria *s, const char *const *statements, size_t count)
{
    int err = 0;
    for (size_t i = 0; i < count && err == 0; i++) {
        err = maria_do(s, statements[i]);
    }
    return err;
}

static int make_indexes(struct maria *s)
{
    static const char *const statements[] = {
#define X(name, table, columns) "CREATE INDEX IF NOT EXISTS " #name " ON " table columns,
        SEGMENT_INDEXES(X)
#undef X
    };
    int err = run_all(s, statements, sizeof(statements) / sizeof(statements[0]));
    return err != 0 ? err : maria_split_indexes(s, true);
}

static int drop_indexes(struct maria *s)
{
    static const char *const statements[] = {
#define X(name, table, columns) "DROP INDEX IF EXISTS " #name " ON " table,
        SEGMENT_INDEXES(X)
#undef X
    };
    int err = run_all(s, statements, sizeof(statements) / sizeof(statements[0]));
    return err != 0 ? err : maria_split_indexes(s, false);
}

/* Whether the ledger may become what was asked for; how many segments it has now. */
static int check_kind(struct maria *s, const char *sql, uint32_t *ret_has)
{
    int64_t has = 0;
    int err = maria_number(s, sql, &has);
    *ret_has = (uint32_t)has;
    bool grows = has > 0 && *ret_has < s->segments;
    bool free = grows || *ret_has == s->segments;
    if (err == 0 && !free) {
        err = maria_only_drafts(s, &free);
    }
    return err == 0 && !free ? kind_refused(s, *ret_has) : err;
}

/* The kind of ledger that was asked for, if it can be. A writer of the other kind that is still
 * there finds its batches refused from now on. */
static int settle_kind(struct maria *s)
{
    char sql[128];
    uint32_t has = 0;
    int err = check_kind(s, "SELECT segments FROM meta WHERE id = 1 FOR UPDATE", &has);
    if (err == 0) {
        err = maria_split_note(s);
    }
    if (err != 0 || has == s->segments) {
        return err;
    }
    bool grows = has > 0 && has < s->segments;
    (void)snprintf(sql, sizeof(sql), "UPDATE meta SET segments = %u, fence = fence + %d",
                   s->segments, grows ? 0 : 1);
    return maria_do(s, sql);
}

static int settle(struct maria *s)
{
    if (s->settled) {
        return 0;
    }
    int err = maria_do(s, "START TRANSACTION");
    if (err == 0) {
        err = settle_kind(s);
    }
    if (err == 0) {
        err = maria_do(s, "COMMIT");
    }
    if (err != 0) {
        maria_rollback(s);
    }
    s->settled = err == 0;
    return err == ERR_NOTFOUND ? maria_say(s, ERR_CORRUPT, "meta has no row") : err;
}

/* Whether nothing about the tables has to change for a writer of a shared ledger. */
static int is_settled(struct maria *s, bool *ret_settled)
{
    int64_t version = 0;
    int64_t has = 0;
    bool split = false;
    int err = read_version(s, &version);
    *ret_settled = false;
    if (err == 0 && version >= (int64_t)s->steps_count) {
        err = check_version(s); /* it may be newer */
        if (err == 0 && !s->settled) {
            err = maria_split_check(s, &split);
            err = err != 0 ? err : maria_number(s, "SELECT segments FROM meta", &has);
        }
        *ret_settled = err == 0 && (s->settled || (split && (uint32_t)has == s->segments));
    }
    return err == ERR_NOTFOUND ? maria_say(s, ERR_CORRUPT, "meta has no row") : err;
}

/* The databases that were asked for, if the ledger has none yet. */
static int split(struct maria *s)
{
    bool noted = false;
    int err = maria_split_check(s, &noted);
    return err != 0 || noted ? err : maria_split_make(s);
}

static int ready_shared(struct maria *s)
{
    bool settled = false;
    uint32_t has = 0;
    int err = is_settled(s, &settled);
    if (err != 0 || settled) {
        s->settled = s->settled || settled;
        return err;
    }
    err = take_lock(s);
    if (err == 0) {
        err = check_version(s);
        err = err != 0 ? err : check_kind(s, "SELECT segments FROM meta", &has);
        err = err != 0 ? err : split(s);
        err = err != 0 ? err : make_indexes(s);
        err = err != 0 ? err : settle(s);
        if (!s->lost) {
            int given = maria_do(s, "DO release_lock(" LOCK_NAME ")");
            err = err != 0 ? err : given;
        }
    }
    return err;
}

static int ready_alone(struct maria *s)
{
    int err = s->owned ? check_fence(s) : 0;
    if (err == 0) {
        err = take_lock(s);
    }
    if (err == 0 && s->owned) {
        err = check_fence(s); /* while we waited for the lock */
    }
    if (err == 0) {
        err = check_version(s);
    }
    if (err == 0 && !s->settled) {
        err = split(s);
        err = err != 0 ? err : settle(s);
        err = err != 0 ? err : drop_indexes(s); /* of the kind it was before */
    }
    return err != 0 ? err : take_over(s);
}

static int ready_reader(struct maria *s)
{
    bool noted = false;
    int err = check_version(s);
    err = err != 0 ? err : maria_split_check(s, &noted);
    return err != 0 || noted ? err
                             : maria_say(s, ERR_NOTFOUND, "the ledger in %s is not made yet",
                                         s->address.database);
}

/* What would break the promise that a commit survives a crash. */
static int look_for_warnings(struct maria *s)
{
    int64_t flush = 1;
    int64_t binlog = 1;
    s->warning[0] = '\0';
    int err = maria_number(s, "SELECT @@innodb_flush_log_at_trx_commit", &flush);
    if (err == 0) {
        err = maria_number(s, "SELECT if(@@log_bin, @@sync_binlog, 1)", &binlog);
    }
    if (err == 0 && flush != 1) {
        (void)snprintf(s->warning, sizeof(s->warning),
                       "innodb_flush_log_at_trx_commit is %lld, not 1: a crash of the database "
                       "server can lose committed orders",
                       (long long)flush);
    } else if (err == 0 && binlog != 1) {
        (void)snprintf(s->warning, sizeof(s->warning),
                       "sync_binlog is %lld, not 1: after a crash a replica can miss orders",
                       (long long)binlog);
    }
    return err;
}

/* A step of the schema may read all orders, which takes longer than any other statement. How long an
 * answer is waited for is settled when a connection is made, so this one gets a patient one. */
#define STEP_TIMEOUT_S 86400

static int connect_for_steps(struct maria *s, bool *ret_patient)
{
    int64_t version = 0;
    int err = maria_connect(s);
    *ret_patient = false;
    if (err == 0 && !s->read_only) {
        err = read_version(s, &version);
    }
    if (err != 0 || version == 0 || version >= (int64_t)s->steps_count) {
        return err;
    }
    uint32_t timeout_s = s->timeout_s;
    maria_disconnect(s);
    s->timeout_s = STEP_TIMEOUT_S;
    err = maria_connect(s);
    s->timeout_s = timeout_s;
    *ret_patient = true;
    return err;
}

static int connect_and_settle(struct maria *s, bool *ret_patient)
{
    int err = connect_for_steps(s, ret_patient);
    if (err == 0) {
        err = s->read_only ? ready_reader(s) : s->segments == 0 ? ready_alone(s) : ready_shared(s);
    }
    if (err == 0) {
        err = look_for_warnings(s);
    }
    if (err != 0) {
        s->lost = true; /* half set up is not set up */
        return err > 0 ? ERR_BUSY : err;
    }
    s->thread = mysql_thread_id(s->db);
    return 0;
}

int maria_ready(struct maria *s)
{
    bool patient = false;
    if (s->db != NULL && !s->lost) {
        return 0;
    }
    int err = connect_and_settle(s, &patient);
    if (err == 0 && patient) { /* the steps are done: from here on as always */
        maria_disconnect(s);
        err = connect_and_settle(s, &patient);
    }
    return err;
}

/* ---- life ---- */

static const struct ledger_ops maria_ops = {
    .write = maria_write,
    .read = maria_read,
    .check = maria_check,
    .error = ledger_mariadb_error,
};

/* The owner stands in SQL as it is: letters, digits and a few marks. */
static int set_owner(struct maria *s, const char *owner)
{
    size_t length = strlen(owner);
    if (length >= sizeof(s->owner) ||
        strspn(owner, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:@") !=
            length) {
        return maria_say(s, ERR_INVALID, "the owner's name is not plain");
    }
    memcpy(s->owner, owner, length + 1);
    return 0;
}

static int open_with(struct maria *s, const struct ledger_mariadb_options *options)
{
    int err = maria_address_parse(options->url, &s->address, s->error, sizeof(s->error));
    if (err == 0 && options->password_file != NULL && options->password_file[0] != '\0') {
        err =
            maria_address_password(&s->address, options->password_file, s->error, sizeof(s->error));
    }
    if (err == 0) {
        err = set_owner(s, options->owner == NULL ? "" : options->owner);
    }
    if (err == 0 && options->segments > SEGMENTS_MAX) {
        err = maria_say(s, ERR_INVALID, "a gate has at most %d segments", SEGMENTS_MAX);
    }
    if (err == 0) {
        s->base.places = s->address.databases;
        s->statements = calloc(MARIA_IN(s->address.databases, 0), sizeof(*s->statements));
        err = s->statements == NULL ? maria_say(s, ERR_NOMEM, "%s", err_text(ERR_NOMEM)) : 0;
    }
    s->segments = s->read_only ? 0 : options->segments;
    (void)snprintf(s->regions, sizeof(s->regions), "%s",
                   options->regions == NULL ? "" : options->regions);
    s->timeout_s = options->timeout_s == 0 ? TIMEOUT_DEFAULT_S : options->timeout_s;
    return err != 0 ? err : maria_ready(s);
}

int maria_open(const struct ledger_mariadb_options *options, enum ledger_mariadb_mode mode,
               const struct maria_step *steps, size_t steps_count, struct ledger **ret_ledger)
{
    struct maria *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        (void)snprintf(open_error, sizeof(open_error), "%s", err_text(ERR_NOMEM));
        return ERR_NOMEM;
    }
    s->base = (struct db){.ledger = {.ops = &maria_ops}, .ops = &maria_db_ops};
    s->read_only = mode == MARIADB_READER;
    s->steps = steps;
    s->steps_count = steps_count;
    int err = open_with(s, options);
    if (err != 0) {
        memcpy(open_error, s->error, sizeof(open_error));
        ledger_mariadb_close(&s->base.ledger);
        return err;
    }
    *ret_ledger = &s->base.ledger;
    return 0;
}

int ledger_mariadb_open(const struct ledger_mariadb_options *options, enum ledger_mariadb_mode mode,
                        struct ledger **ret_ledger)
{
    return maria_open(options, mode, maria_steps, MARIA_STEPS_COUNT, ret_ledger);
}

void ledger_mariadb_close(struct ledger *ledger)
{
    if (ledger == NULL) {
        return;
    }
    struct maria *s = maria_of(ledger);
    maria_disconnect(s);
    plan_free(&s->plan);
    free(s->base.events);
    free(s->scratch);
    free(s->statements);
    memset(&s->address, 0, sizeof(s->address));
    free(s);
}

void ledger_mariadb_rest(struct ledger *ledger)
{
    struct maria *s = maria_of(ledger);
    CHECK(s->read_only || s->segments > 0);
    maria_disconnect(s);
}

const char *ledger_mariadb_error(const struct ledger *ledger)
{
    return ledger == NULL ? open_error : ((const struct maria *)ledger)->error;
}

const char *ledger_mariadb_warning(const struct ledger *ledger)
{
    return ((const struct maria *)ledger)->warning;
}

int ledger_mariadb_check_url(const char *url, char *ret_error, size_t capacity)
{
    struct maria_address address;
    return maria_address_parse(url, &address, ret_error, capacity);
}
