/*
 * See lease_mariadb.h.
 *
 * Taking is one statement, so there is no moment in which a frozen taker holds the row; looking who
 * has it is another. Rows are never deleted: a token that was given out is never given again.
 *
 * What can go wrong: no answer. Then nobody knows, and the caller acts as if the lease were not
 * his. If it was taken all the same, it ends by itself, or is kept by the next call.
 */
#include "backend/mariadb/lease_mariadb.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/mariadb/maria.h"
#include "base/check.h"
#include "base/err.h"

struct lease_maria {
    struct lease_port base; /* first: a struct lease_port * is a struct lease_maria * */
    struct ledger *ledger;
    char holder[LEASE_HOLDER_MAX + 1];
};

static struct lease_maria *lease_of(struct lease_port *port)
{
    return (struct lease_maria *)port;
}

struct maria *maria_of_lease(struct lease_port *port)
{
    return maria_of(lease_of(port)->ledger);
}

/* One try. Positive: refused or again, of no more use than an error. */
static int take_once(struct lease_maria *lease, const char *name, int64_t ttl_ms,
                     uint64_t *ret_token)
{
    struct maria *s = maria_of(lease->ledger);
    struct value holder = v_key(lease->holder);
    struct db_row *row;
    int err = maria_ready(s);
    if (err == 0) {
        err = db_run(&s->base, MARIA_LEASE_TAKE, v_key(name), holder, v_int(ttl_ms), holder, holder,
                     holder, v_int(ttl_ms));
    }
    if (err == 0) {
        err = db_get(&s->base, MARIA_LEASE, &row, holder, v_key(name));
    }
    if (err != 0) {
        return ERR_IO;
    }
    bool ours = db_int(row, 0) != 0;
    uint64_t token = db_u64(row, 1);
    db_done(row);
    if (!ours) {
        return ERR_BUSY;
    }
    *ret_token = token;
    return 0;
}

static int lease_op_take(struct lease_port *port, const char *name, int64_t ttl_ms,
                         uint64_t *ret_token)
{
    struct lease_maria *lease = lease_of(port);
    struct maria *s = maria_of(lease->ledger);
    CHECK(name[0] != '\0' && strlen(name) <= LEASE_NAME_MAX && ttl_ms > 0);
    double from = maria_seconds();
    bool was_connected = s->db != NULL && !s->lost;
    int err = take_once(lease, name, ttl_ms, ret_token);
    /* The connection may have ended while nobody used it: a new one knows. A server that gave no
     * answer was waited for once already. */
    if (err == ERR_IO && s->lost && was_connected && maria_seconds() - from < 1.0) {
        err = take_once(lease, name, ttl_ms, ret_token);
    }
    return err;
}

static void lease_op_drop(struct lease_port *port, const char *name)
{
    struct lease_maria *lease = lease_of(port);
    struct maria *s = maria_of(lease->ledger);
    if (maria_ready(s) == 0) {
        (void)db_run(&s->base, MARIA_LEASE_DROP, v_key(name), v_key(lease->holder));
    }
}

static const struct lease_ops lease_maria_ops = {.take = lease_op_take, .drop = lease_op_drop};

int lease_mariadb_open(const struct ledger_mariadb_options *options, const char *holder,
                       struct lease_port **ret_port)
{
    size_t length = strlen(holder);
    CHECK(length > 0 && length <= LEASE_HOLDER_MAX);
    struct lease_maria *lease = calloc(1, sizeof(*lease));
    if (lease == NULL) {
        return ERR_NOMEM;
    }
    lease->base.ops = &lease_maria_ops;
    memcpy(lease->holder, holder, length + 1);
    /* As a reader: it waits for no writers' lock. */
    int err = ledger_mariadb_open(options, MARIADB_READER, &lease->ledger);
    if (err != 0) {
        free(lease);
        return err;
    }
    *ret_port = &lease->base;
    return 0;
}

void lease_mariadb_close(struct lease_port *port)
{
    if (port != NULL) {
        ledger_mariadb_close(lease_of(port)->ledger);
        free(port);
    }
}

const char *lease_mariadb_error(const struct lease_port *port)
{
    return ledger_mariadb_error(((const struct lease_maria *)port)->ledger);
}
