/*
 * Queries of a ledger whose gate has several segments: what one segment is rebuilt from, each a
 * range of an index from the place where the last page ended. Orders and buyers are read item by
 * item, so that the sales of past years, which are forgotten, cost nothing.
 *
 * Whatever is told of a segment comes with the number of its last event in the same snapshot.
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
    struct maria_row *row;
    int err = maria_get_values(s, MARIA_SEGMENTS, &row, NULL, 0);
    while (err == 0 && q->count < q->limit) {
        q->segments[q->count++] = (struct segment_row){.segment = (uint32_t)cell_int(row, 0),
                                                       .epoch = (uint64_t)cell_int(row, 1)};
        err = maria_next(s, row);
    }
    if (err == 0) {
        maria_done(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

static int last_event(struct maria *s, struct ledger_query *q)
{
    struct maria_row *row;
    int err = maria_get(s, MARIA_SEGMENT_LAST, &row, v_int(q->segment));
    if (err == 0) {
        q->last_event = (uint64_t)cell_int(row, 0);
        maria_done(row);
    }
    return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
}

int maria_query_allotments(struct maria *s, struct ledger_query *q)
{
    struct maria_row *row;
    int err = last_event(s, q);
    if (err != 0) {
        return err;
    }
    err = maria_get(s, MARIA_ALLOTMENTS, &row, v_int(q->segment), v_int((int64_t)q->after),
                    v_int(q->limit));
    while (err == 0) {
        q->allotments[q->count++] =
            (struct allotment_row){.item = (uint64_t)cell_int(row, 0),
                                   .sale = (uint64_t)cell_int(row, 1),
                                   .segment = (uint32_t)q->segment,
                                   .limit_per_user = (uint32_t)cell_int(row, 2),
                                   .amount = (uint64_t)cell_int(row, 3),
                                   .locked = (uint64_t)cell_int(row, 4),
                                   .sold = (uint64_t)cell_int(row, 5)};
        err = maria_next(s, row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

void maria_transfer_read(const struct maria_row *row, struct transfer_row *ret_transfer)
{
    *ret_transfer = (struct transfer_row){.item = (uint64_t)cell_int(row, 1),
                                          .segment = (uint32_t)cell_int(row, 2),
                                          .to_segment = (uint32_t)cell_int(row, 3),
                                          .amount = (uint64_t)cell_int(row, 4),
                                          .at_ms = cell_int(row, 5),
                                          .epoch = (uint64_t)cell_int(row, 6)};
    cell_text(row, 0, ret_transfer->key, sizeof(ret_transfer->key));
}

int maria_query_transfers(struct maria *s, struct ledger_query *q)
{
    struct maria_row *row;
    int err = maria_get(s, MARIA_TRANSFERS_OPEN, &row, v_int(q->limit));
    while (err == 0) {
        maria_transfer_read(row, &q->transfers[q->count++]);
        err = maria_next(s, row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

/* ---- item by item ---- */

static int take_orders(struct maria *s, struct ledger_query *q, uint64_t item, bool continues)
{
    struct maria_row *row;
    struct id_text after = id_text_of(q->after_id);
    int err =
        maria_get(s, MARIA_SEGMENT_ORDERS, &row, v_int(q->segment), v_int((int64_t)item),
                  v_bytes(after.text, continues ? ORDER_ID_TEXT : 0), v_int(q->limit - q->count));
    while (err == 0) {
        err = maria_order_read(row, &q->orders[q->count]);
        if (err != 0) {
            maria_done(row);
            return err;
        }
        q->count++;
        err = maria_next(s, row);
    }
    return err;
}

static int take_buyers(struct maria *s, struct ledger_query *q, uint64_t item, bool continues)
{
    struct maria_row *row;
    int err = maria_get(s, MARIA_SEGMENT_BUYERS, &row, v_int(q->segment), v_int((int64_t)item),
                        v_int(continues ? (int64_t)q->after : 0), v_int(q->limit - q->count));
    while (err == 0) {
        q->buyers[q->count++] = (struct buyer_row){.item = item,
                                                   .user = (uint64_t)cell_int(row, 0),
                                                   .held = (uint32_t)cell_int(row, 1),
                                                   .ended = (uint32_t)cell_int(row, 2),
                                                   .barred = cell_int(row, 3) != 0};
        err = maria_next(s, row);
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
        struct maria_row *row;
        err = maria_get(s, MARIA_SEGMENT_ITEM, &row, v_int(q->segment), v_int((int64_t)item));
        if (err == 0) {
            item = (uint64_t)cell_int(row, 0);
            maria_done(row);
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

/* A row of MARIA_ORDERS_BY_ID (the whole order), or of MARIA_KNOWN, into its place: from 1 on. */
static int known_read(const struct maria_row *row, bool whole, struct order_row *orders,
                      uint32_t count)
{
    uint64_t n = (uint64_t)cell_int(row, whole ? 16 : 0);
    if (n == 0 || n > count) {
        return ERR_CORRUPT;
    }
    if (whole) {
        return maria_order_read(row, &orders[n - 1]);
    }
    return order_state_parse(cell_span(row, 1), &orders[n - 1].state) == 0 ? 0 : ERR_CORRUPT;
}

/* Ids from `at` on, `count` of them. */
static int known_some(struct maria *s, struct ledger_query *q, char *memory, uint32_t at,
                      uint32_t count)
{
    bool whole = q->kind == QUERY_ORDERS_BY_ID;
    struct out out = out_over(memory, (size_t)IDS_AT_ONCE * ID_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        struct id_text text = id_text_of(q->ids[at + i]);
        out_char(&out, i == 0 ? '[' : ',');
        out_char(&out, '[');
        out_u64(&out, order_id_item(q->ids[at + i]));
        out_lit(&out, ",\"");
        out_bytes(&out, text.text, sizeof(text.text));
        out_lit(&out, "\"]");
        q->orders[at + i] = (struct order_row){.id = q->ids[at + i], .state = ORDER_QUEUED};
    }
    out_char(&out, ']');
    CHECK(!out.overflow);
    struct maria_row *row;
    int err =
        maria_get(s, whole ? MARIA_ORDERS_BY_ID : MARIA_KNOWN, &row, v_bytes(out.at, out.len));
    while (err == 0) {
        err = known_read(row, whole, &q->orders[at], count);
        if (err != 0) {
            maria_done(row);
            return err;
        }
        err = maria_next(s, row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

int maria_query_known(struct maria *s, struct ledger_query *q)
{
    char *memory = malloc((size_t)IDS_AT_ONCE * ID_BYTES);
    int err = memory == NULL ? ERR_NOMEM : 0;
    while (err == 0 && q->count < q->limit) {
        uint32_t some = q->limit - q->count < IDS_AT_ONCE ? q->limit - q->count : IDS_AT_ONCE;
        err = known_some(s, q, memory, q->count, some);
        q->count += some;
    }
    free(memory);
    return err;
}
