/*
 * What a gate of several segments needs: their epochs, and their shares of the stock.
 *
 * An allotment is a row for each segment and item, with what of it is alive in the ledger. What stays
 * true: the allotments of an item add up to its total, and no segment has more alive than it was
 * allotted; a constraint of the table says so, too.
 *
 * An epoch is one life of a segment. Raising it is how recovery begins: what was decided in the
 * life before can be booked no more. A segment that was added after a sale had been warmed is nobody's
 * home in that sale; with its first life it gets a share of nothing of every item, so that restocks
 * and transfers can bring it some.
 *
 * A transfer is noted here before units leave a gate; then it is said how many left, and the shares
 * change, with an event that brings them to the other gate. In between the units count to the
 * segment they leave. If that one begins another life in between, the transfer is void: the new
 * life has the units.
 */
#include <stdlib.h>

#include "backend/mariadb/maria.h"
#include "base/check.h"
#include "base/err.h"

int maria_epoch(struct maria_write *w, uint32_t segment, uint64_t *ret_epoch)
{
    struct db_row *row;
    if (!w->epochs_known) {
        memset(w->epochs, 0, sizeof(w->epochs));
        int err = db_get_plain(&w->maria->base, MARIA_SEGMENTS, &row);
        while (err == 0) {
            uint64_t at = db_u64(row, 0);
            if (at < SEGMENTS_MAX) {
                w->epochs[at] = db_u64(row, 1);
            }
            err = db_next(row);
        }
        if (err != ERR_NOTFOUND) {
            return err;
        }
        w->epochs_known = true;
    }
    CHECK(segment < SEGMENTS_MAX);
    *ret_epoch = w->epochs[segment];
    return 0;
}

int maria_op_epoch(struct maria_write *w, struct ledger_op *op)
{
    uint64_t epoch = 0;
    if (w->segments == 0 || op->segment >= w->segments) {
        op->refusal = w->segments == 0 ? REFUSAL_BAD_STATE : REFUSAL_BAD_REQUEST;
        return 0;
    }
    int err = maria_epoch(w, op->segment, &epoch);
    if (err != 0) {
        return err;
    }
    if (op->epoch != epoch) {
        op->refusal = REFUSAL_STALE_EPOCH;
        op->order.lsn = epoch; /* see answer_epochs() */
        return 0;
    }
    w->epochs_known = false;
    op->order.lsn = epoch + 1;
    err = db_run(&w->maria->base, MARIA_EPOCH_ADD, v_int(op->segment), v_int((int64_t)epoch + 1));
    if (err == 0) {
        err =
            db_run(&w->maria->base, MARIA_ALLOTMENTS_FILL, v_int(op->segment), v_int(op->segment));
    }
    /* What may have left the segment's last life is counted to its new one. */
    return err != 0 ? err
                    : db_run(&w->maria->base, MARIA_TRANSFERS_VOID, v_int(w->base.now_ms),
                             v_int(op->segment));
}

/* Regions that name segments which the ledger does not have are none. */
int maria_fix_homes(struct db_write *write, struct sale_row *sale)
{
    struct maria_write *w = (struct maria_write *)write;
    const char *why = "";
    const char *regions = w->maria->regions;
    sale->homes = w->segments;
    if (w->segments == 0 || regions_parse(regions, w->segments, &sale->regions, &why) != 0) {
        regions = "";
    }
    return db_run(write->db, MARIA_SALE_HOMES, v_int(sale->homes), v_text(regions),
                  v_int((int64_t)sale->id));
}

int maria_allot(struct db_write *write, const struct sale_row *sale)
{
    struct maria_write *w = (struct maria_write *)write;
    enum { VALUES = 3 };
    size_t count = (size_t)sale->items_count * sale->homes;
    struct value *values = calloc(count + 1, VALUES * sizeof(*values));
    int err = values == NULL ? ERR_NOMEM : 0;
    for (size_t n = 0; n < count && err == 0; n++) {
        /* Rows in the order of their key, events item by item. */
        uint32_t item = (uint32_t)(n % sale->items_count);
        uint32_t segment = (uint32_t)(n / sale->items_count);
        const struct value row[VALUES] = {
            v_int(segment), v_int((int64_t)sale->items[item].id),
            v_int((int64_t)ledger_home_share(sale, sale->items[item].total, segment))};
        memcpy(values + n * VALUES, row, sizeof(row));
        err = maria_event(
            w, ledger_share_loaded(sale, (uint32_t)(n / sale->homes), (uint32_t)(n % sale->homes)));
    }
    if (err == 0 && count > 0) {
        err = db_run_rows(&w->maria->base, MARIA_ALLOTMENTS_ADD, values, VALUES, count);
    }
    free(values);
    return err;
}

int maria_allot_more(struct db_write *write, const struct db_item *item, uint64_t units)
{
    struct maria_write *w = (struct maria_write *)write;
    struct plan *plan = &w->maria->plan;
    uint32_t segments = 0;
    uint32_t given = 0;
    int err = 0;
    for (uint32_t i = 0; i < SEGMENTS_MAX; i++) {
        segments += plan_allotment(plan, item->id, i) != NULL;
    }
    for (uint32_t i = 0; given < segments && err == 0; i++) {
        if (plan_allotment(plan, item->id, i) == NULL) {
            continue;
        }
        int64_t share = (int64_t)ledger_share(units, segments, given++);
        if (share == 0) {
            break; /* the lowest have got all */
        }
        err =
            db_run(&w->maria->base, MARIA_ALLOT, v_int(share), v_int(i), v_int((int64_t)item->id));
        if (err == 0) {
            err = maria_event(w, (struct ledger_event){.kind = EVENT_ITEM_RESTOCKED,
                                                       .segment = (int32_t)i,
                                                       .sale = item->terms.sale,
                                                       .item = item->id,
                                                       .a = share});
        }
    }
    return err;
}

/* ---- transfers ---- */

/* ERR_NOTFOUND: there is none. */
static int transfer_read(struct maria_write *w, const char *key,
                         struct ledger_transfer *ret_transfer)
{
    struct db_row *row;
    struct ledger_transfer transfer = {.state = TRANSFER_OPEN};
    int err = db_get(&w->maria->base, MARIA_TRANSFER, &row, v_nonempty_key(key));
    if (err != 0) {
        return err;
    }
    maria_transfer_read(row, &transfer.row);
    transfer.moved = db_u64(row, 7);
    err = ledger_transfer_parse(db_span(row, 8), &transfer.state);
    db_done(row);
    *ret_transfer = transfer;
    return err;
}

/* Both segments have a share of the item, however small: their gates know it. */
static bool is_wanted(struct maria_write *w, const struct ledger_op *op)
{
    struct plan *plan = &w->maria->plan;
    return op->segment != op->to_segment && op->amount > 0 && op->amount <= STOCK_MAX &&
           op->key[0] != '\0' && plan_allotment(plan, op->item, op->segment) != NULL &&
           plan_allotment(plan, op->item, op->to_segment) != NULL;
}

int maria_op_transfer(struct maria_write *w, struct ledger_op *op)
{
    struct ledger_transfer have;
    struct db_item *item;
    if (w->segments == 0) {
        op->refusal = REFUSAL_BAD_STATE;
        return 0;
    }
    int err = transfer_read(w, op->key, &have);
    if (err == 0) {
        op->refusal = ledger_transfer_again(&have, op);
        op->repeated = op->refusal == REFUSAL_NONE;
    }
    if (err != ERR_NOTFOUND) {
        return err;
    }
    err = maria_plan_item(w, op->item, &item);
    if (err != 0) {
        op->refusal = err == ERR_NOTFOUND ? REFUSAL_NO_SUCH_ITEM : REFUSAL_NONE;
        return err == ERR_NOTFOUND ? 0 : err;
    }
    if (item->sale_state == SALE_CLOSED || !is_wanted(w, op)) {
        op->refusal = item->sale_state == SALE_CLOSED ? REFUSAL_BAD_STATE : REFUSAL_BAD_REQUEST;
        return 0;
    }
    uint64_t epoch = 0;
    uint64_t to_epoch = 0;
    err = maria_epoch(w, op->segment, &epoch);
    err = err != 0 ? err : maria_epoch(w, op->to_segment, &to_epoch);
    if (err != 0 || ledger_transfer_is_stale(op, epoch, to_epoch)) {
        op->refusal = err == 0 ? REFUSAL_STALE_EPOCH : REFUSAL_NONE;
        return err;
    }
    return db_run(&w->maria->base, MARIA_TRANSFER_ADD, v_nonempty_key(op->key),
                  v_int((int64_t)op->item), v_int(op->segment), v_int(op->to_segment),
                  v_int((int64_t)op->amount), v_int(w->base.now_ms));
}

/* The shares change, if the ledger can spare the units where they leave: more alive than is left
 * there is a gate that was wrong, and its segment needs recovery. */
static int move_share(struct maria_write *w, struct ledger_op *op, const struct transfer_row *have)
{
    struct db_item *item;
    int64_t amount = (int64_t)op->amount;
    int err = maria_plan_item(w, have->item, &item);
    const struct plan_allotment *from =
        err != 0 ? NULL : plan_allotment(&w->maria->plan, have->item, have->segment);
    if (from == NULL) {
        return err == 0 || err == ERR_NOTFOUND ? ERR_CORRUPT : err;
    }
    if (from->room < amount) {
        op->refusal = REFUSAL_NO_STOCK;
        return 0;
    }
    err = db_run(&w->maria->base, MARIA_TRANSFER_DONE, v_int(amount), v_int(w->base.now_ms),
                 v_nonempty_key(op->key));
    if (err != 0 || amount == 0) {
        return err;
    }
    err = db_run(&w->maria->base, MARIA_ALLOT, v_int(-amount), v_int(have->segment),
                 v_int((int64_t)have->item));
    if (err == 0) {
        err = db_run(&w->maria->base, MARIA_ALLOT, v_int(amount), v_int(have->to_segment),
                     v_int((int64_t)have->item));
    }
    return err != 0 ? err
                    : maria_event(w, (struct ledger_event){.kind = EVENT_ITEM_TRANSFERRED,
                                                           .segment = (int32_t)have->to_segment,
                                                           .sale = item->terms.sale,
                                                           .item = have->item,
                                                           .a = amount});
}

int maria_op_transferred(struct maria_write *w, struct ledger_op *op)
{
    struct ledger_transfer have;
    if (w->segments == 0) {
        op->refusal = REFUSAL_BAD_STATE;
        return 0;
    }
    int err = transfer_read(w, op->key, &have);
    if (err == ERR_NOTFOUND) {
        op->refusal = REFUSAL_NOT_FOUND;
        return 0;
    }
    if (err != 0) {
        return err;
    }
    op->refusal = ledger_transferred(&have, op, &op->repeated);
    return op->refusal != REFUSAL_NONE || op->repeated ? 0 : move_share(w, op, &have.row);
}
