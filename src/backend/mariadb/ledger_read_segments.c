/*
 * Queries of a ledger whose gate has several segments: what one segment is rebuilt from, each a
 * range of an index from the place where the last page ended. Orders and buyers are read item by
 * item, so that the sales of past years, which are forgotten, cost nothing.
 *
 * Every answer about a segment has the number of the segment's last event in the same snapshot.
 */
#include <stdlib.h>

#include "backend/mariadb/maria.h"
#include "base/check.h"
#include "base/err.h"

/* Ids of one query, and the bytes of one: [9007199254740991,"26 characters"], */
#define IDS_AT_ONCE 2000
#define ID_BYTES 64

int maria_query_segments(struct maria *s, struct ledger_query *q)
{
    struct db_row *row;
    int err = db_get_plain(&s->base, MARIA_SEGMENTS, &row);
    while (err == 0 && q->count < q->limit) {
        q->segments[q->count++] =
            (struct segment_row){.segment = db_u32(row, 0), .epoch = db_u64(row, 1)};
        err = db_next(row);
    }
    if (err == 0) {
        db_done(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

int maria_query_leases(struct maria *s, struct ledger_query *q)
{
    struct db_row *row;
    int err = db_get(&s->base, MARIA_LEASES, &row, v_int(q->limit));
    while (err == 0) {
        struct lease_row *lease = &q->leases[q->count++];
        db_text(row, 0, lease->name, sizeof(lease->name));
        db_text(row, 1, lease->holder, sizeof(lease->holder));
        lease->token = db_u64(row, 2);
        lease->until_ms = db_int(row, 3);
        err = db_next(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

static int last_event(struct maria *s, struct ledger_query *q)
{
    struct db_row *row;
    int err = db_get(&s->base, MARIA_SEGMENT_LAST, &row, v_int(q->segment));
    if (err == 0) {
        q->last_event = db_u64(row, 0);
        db_done(row);
    }
    return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
}

int maria_query_allotments(struct maria *s, struct ledger_query *q)
{
    struct db_row *row;
    int err = last_event(s, q);
    if (err != 0) {
        return err;
    }
    err = db_get(&s->base, MARIA_ALLOTMENTS, &row, v_int(q->segment), v_int((int64_t)q->after),
                 v_int(q->limit));
    while (err == 0) {
        q->allotments[q->count++] = (struct allotment_row){.item = db_u64(row, 0),
                                                           .sale = db_u64(row, 1),
                                                           .segment = (uint32_t)q->segment,
                                                           .limit_per_user = db_u32(row, 2),
                                                           .amount = db_u64(row, 3),
                                                           .locked = db_u64(row, 4),
                                                           .sold = db_u64(row, 5)};
        err = db_next(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

void maria_transfer_read(const struct db_row *row, struct transfer_row *ret_transfer)
{
    *ret_transfer = (struct transfer_row){.item = db_u64(row, 1),
                                          .segment = db_u32(row, 2),
                                          .to_segment = db_u32(row, 3),
                                          .amount = db_u64(row, 4),
                                          .at_ms = db_int(row, 5),
                                          .epoch = db_u64(row, 6)};
    db_text(row, 0, ret_transfer->key, sizeof(ret_transfer->key));
}

int maria_query_transfers(struct maria *s, struct ledger_query *q)
{
    struct db_row *row;
    int err = db_get(&s->base, MARIA_TRANSFERS_OPEN, &row, v_int(q->limit));
    while (err == 0) {
        maria_transfer_read(row, &q->transfers[q->count++]);
        err = db_next(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

/* ---- item by item ---- */

static int take_orders(struct maria *s, struct ledger_query *q, uint64_t item, bool continues)
{
    struct id_text after = id_text_of(q->after_id);
    bool more = false;
    return db_orders(&s->base, MARIA_SEGMENT_ORDERS, MERGE_UP, q, &more, v_int(q->segment),
                     v_int((int64_t)item), v_bytes(after.text, continues ? ORDER_ID_TEXT : 0),
                     v_int(q->limit - q->count));
}

static int take_buyers(struct maria *s, struct ledger_query *q, uint64_t item, bool continues)
{
    struct db_row *row;
    int err = db_get(&s->base, MARIA_SEGMENT_BUYERS, &row, v_int(q->segment), v_int((int64_t)item),
                     v_int(continues ? (int64_t)q->after : 0), v_int(q->limit - q->count));
    while (err == 0) {
        q->buyers[q->count++] = (struct buyer_row){.item = item,
                                                   .user = db_u64(row, 0),
                                                   .held = db_u32(row, 1),
                                                   .failed_attempts = db_u32(row, 2),
                                                   .barred = db_int(row, 3) != 0};
        err = db_next(row);
    }
    return err;
}

static int by_item(struct maria *s, struct ledger_query *q,
                   int (*take)(struct maria *s, struct ledger_query *q, uint64_t item,
                               bool continues))
{
    uint64_t item = q->after_item;
    int err = last_event(s, q);
    while (err == 0 && q->count < q->limit) {
        struct db_row *row;
        err = db_get(&s->base, MARIA_SEGMENT_ITEM, &row, v_int(q->segment), v_int((int64_t)item));
        if (err == 0) {
            item = db_u64(row, 0);
            db_done(row);
            err = take(s, q, item, item == q->after_item);
            err = err == ERR_NOTFOUND ? 0 : err;
            item++;
        }
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

int maria_query_segment_orders(struct maria *s, struct ledger_query *q)
{
    return by_item(s, q, take_orders);
}

int maria_query_segment_buyers(struct maria *s, struct ledger_query *q)
{
    return by_item(s, q, take_buyers);
}

/* ---- which orders there are ---- */

/* Ids of one query, as JSON, and where in the caller's list each of them is. */
struct known {
    struct out out;
    uint32_t count;
    uint32_t at[IDS_AT_ONCE];
    char memory[IDS_AT_ONCE * ID_BYTES];
};

static void known_add(struct known *known, struct order_id id, uint32_t at)
{
    struct id_text text = id_text_of(id);
    out_char(&known->out, known->count == 0 ? '[' : ',');
    out_char(&known->out, '[');
    out_u64(&known->out, order_id_item(id));
    out_lit(&known->out, ",\"");
    out_bytes(&known->out, text.text, sizeof(text.text));
    out_lit(&known->out, "\"]");
    known->at[known->count++] = at;
}

/* A row of MARIA_ORDERS_BY_ID (the whole order), or of MARIA_KNOWN, into its place: from 1 on. */
static int known_read(const struct db_row *row, struct ledger_query *q, const struct known *known)
{
    bool whole = q->kind == QUERY_ORDERS_BY_ID;
    uint64_t n = db_u64(row, whole ? 17 : 0);
    if (n == 0 || n > known->count) {
        return ERR_CORRUPT;
    }
    struct order_row *order = &q->orders[known->at[n - 1]];
    if (whole) {
        return db_order_read(row, order);
    }
    return order_state_parse(db_span(row, 1), &order->state) == 0 ? 0 : ERR_CORRUPT;
}

static int known_ask(struct maria *s, struct ledger_query *q, struct known *known, uint32_t place)
{
    unsigned statement = q->kind == QUERY_ORDERS_BY_ID ? MARIA_ORDERS_BY_ID : MARIA_KNOWN;
    struct db_row *row;
    out_char(&known->out, ']');
    CHECK(!known->out.overflow);
    int err = db_get_in(&s->base, place, statement, &row, v_bytes(known->out.at, known->out.len));
    while (err == 0) {
        err = known_read(row, q, known);
        if (err != 0) {
            db_done(row);
            return err;
        }
        err = db_next(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

/* Those of one database, as many at once as one query takes. */
static int known_in(struct maria *s, struct ledger_query *q, struct known *known, uint32_t place)
{
    int err = 0;
    uint32_t i = 0;
    while (err == 0 && i < q->limit) {
        known->out = out_over(known->memory, sizeof(known->memory));
        known->count = 0;
        for (; i < q->limit && known->count < IDS_AT_ONCE; i++) {
            if (maria_place(s, q->ids[i]) == place) {
                q->orders[i] = (struct order_row){.id = q->ids[i], .state = ORDER_QUEUED};
                known_add(known, q->ids[i], i);
            }
        }
        err = known->count == 0 ? 0 : known_ask(s, q, known, place);
    }
    return err;
}

int maria_query_known(struct maria *s, struct ledger_query *q)
{
    struct known *known = malloc(sizeof(*known));
    int err = known == NULL ? ERR_NOMEM : 0;
    for (uint32_t place = 0; place < s->address.databases && err == 0; place++) {
        err = known_in(s, q, known, place);
    }
    q->count = q->limit;
    free(known);
    return err;
}
