/*
 * Reading: the transaction around a query of backend/sql, and the queries that are MariaDB's own.
 *
 * Each query sees one committed state, whatever statements it takes; nobody waits for it. One
 * statement is a snapshot by itself: the queries that idle processes repeat are such, and cost the
 * server nothing more. The others run in a read transaction of their own. A query whose connection had ended is asked once
 * more on a new one.
 */
#include "backend/mariadb/maria.h"
#include "base/check.h"
#include "base/err.h"

/* In a ledger of one writer all events are for the one gate. */
static int is_by_segment(struct maria *s, const struct ledger_query *q, bool *ret_by_segment)
{
    int64_t segments = 0;
    int err = q->segment < 0 || s->shared
                  ? 0
                  : maria_number(s, "SELECT segments FROM meta WHERE id = 1", &segments);
    s->shared = s->shared || segments > 0; /* and stays so while it has events */
    *ret_by_segment = q->segment >= 0 && s->shared;
    return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
}

static int query_events(struct maria *s, struct ledger_query *q)
{
    struct db_row *row = NULL;
    bool by_segment = false;
    int err = is_by_segment(s, q, &by_segment);
    if (err != 0 || !by_segment) {
        return err != 0 ? err : db_query(&s->base, q);
    }
    struct value after = v_int((int64_t)q->after);
    struct value limit = v_int(q->limit);
    err = db_get(&s->base, MARIA_SEGMENT_EVENTS, &row, v_int(q->segment), after, limit, after,
                 limit, limit);
    return db_events_take(row, err, q);
}

/* NULL: as all ledgers answer it. */
static int (*const query_table[])(struct maria *s, struct ledger_query *q) = {
    [QUERY_EVENTS] = query_events,
    [QUERY_ORDERS_BY_ID] = maria_query_known,
    [QUERY_SEGMENTS] = maria_query_segments,
    [QUERY_ALLOTMENTS] = maria_query_allotments,
    [QUERY_SEGMENT_ORDERS] = maria_query_segment_orders,
    [QUERY_SEGMENT_BUYERS] = maria_query_segment_buyers,
    [QUERY_KNOWN] = maria_query_known,
    [QUERY_TRANSFERS] = maria_query_transfers,
    [QUERY_LEASES] = maria_query_leases,
};

/* Whether the query is one statement. (Who asks for a segment's events may first ask whether there
 * are segments: that does not change.) */
static bool is_one_statement(const struct ledger_query *query)
{
    switch (query->kind) {
    case QUERY_STATE:
    case QUERY_SALE_CHANGES:
    case QUERY_BLOCKS:
    case QUERY_BLOCK:
    case QUERY_EVENTS:
    case QUERY_CURSOR:
    case QUERY_SEGMENTS:
    case QUERY_TRANSFERS:
    case QUERY_LEASES:
        return true;
    default:
        return false;
    }
}

static int run_query(struct maria *s, struct ledger_query *query)
{
    int (*own)(struct maria * s, struct ledger_query * q) = query_table[query->kind];
    return own != NULL ? own(s, query) : db_query(&s->base, query);
}

/* One try: a snapshot, the query's statements, the end. */
static int read_once(struct maria *s, struct ledger_query *query)
{
    bool alone = is_one_statement(query);
    query->count = 0;
    query->next[0] = '\0';
    int err = maria_ready(s);
    if (err == 0 && !alone && !s->read_only) {
        err = maria_do(s, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    }
    if (err == 0 && !alone) {
        err = maria_do(s, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
    }
    if (err == 0) {
        err = run_query(s, query);
        if (!alone) {
            maria_rollback(s); /* ends it; nothing was written */
        }
    }
    if (err != 0) {
        query->count = 0;
    }
    return err > 0 ? ERR_BUSY : err;
}

void maria_read(struct ledger *ledger, struct ledger_query *query)
{
    struct maria *s = maria_of(ledger);
    CHECK((size_t)query->kind < sizeof(query_table) / sizeof(query_table[0]));
    bool was_connected = s->db != NULL && !s->lost;
    query->error = read_once(s, query);
    /* The connection may have ended while nobody used it: a new one knows. A server that gave no
     * answer was waited for once already. */
    if (query->error == ERR_IO && s->lost && was_connected && maria_ready(s) == 0) {
        query->error = read_once(s, query);
    }
}
