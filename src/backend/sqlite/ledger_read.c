/*
 * Reading: the transaction around a query of backend/sql, and the one that is SQLite's own.
 *
 * Each query runs in a read transaction of its own, so whatever statements it takes see one
 * committed state; in WAL mode that costs the writer nothing.
 */
#include "backend/sqlite/store.h"
#include "base/err.h"

static int query_orders_by_id(struct store *s, struct ledger_query *q)
{
    for (; q->count < q->limit; q->count++) {
        struct order_row *order = &q->orders[q->count];
        int err = db_order_load(&s->base, q->ids[q->count], order);
        if (err == ERR_NOTFOUND) {
            *order = (struct order_row){.id = q->ids[q->count], .state = ORDER_QUEUED};
        } else if (err != 0) {
            return err;
        }
    }
    return 0;
}

void store_read(struct ledger *ledger, struct ledger_query *q)
{
    struct store *s = store_of(ledger);
    q->count = 0;
    q->next[0] = '\0';
    int err = store_do(s, SQL_BEGIN_READ);
    if (err == 0) {
        err = q->kind == QUERY_ORDERS_BY_ID ? query_orders_by_id(s, q) : db_query(&s->base, q);
    }
    store_rollback(s); /* ends it, or what an earlier one left open; nothing was written */
    if (err != 0) {
        q->count = 0;
    }
    q->error = err;
}
