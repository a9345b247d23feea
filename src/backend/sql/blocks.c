/*
 * Blocks: who may not order. Each has one row, with the number of its last change. A removed block stays
 * as one that has ended, for BLOCK_KEEP_MS, so that every process reads of it. Rows are dropped only where
 * a row with a higher number follows in the same transaction, so numbers grow for ever.
 */
#include "backend/sql/db.h"
#include "base/err.h"

static int block_read(const struct db_row *row, struct block_row *ret_block)
{
    struct block_row block = {
        .until_ms = db_int(row, 3), .at_ms = db_int(row, 4), .number = db_u64(row, 5)};
    if (block_kind_parse(db_span(row, 0), &block.kind) != 0) {
        return ERR_CORRUPT;
    }
    db_text(row, 1, block.value, sizeof(block.value));
    db_text(row, 2, block.reason, sizeof(block.reason));
    *ret_block = block;
    return 0;
}

/* ERR_NOTFOUND: there is no row. */
static int block_load(struct db *db, enum block_kind kind, const char *value,
                      struct block_row *ret_block)
{
    struct db_row *row;
    int err = db_get(db, SQL_BLOCK, &row, v_text(block_kind_text(kind)), v_key(value));
    if (err == 0) {
        err = block_read(row, ret_block);
        db_done(row);
    }
    return err;
}

/* ---- queries ---- */

int db_query_blocks(struct db *db, struct ledger_query *q)
{
    struct db_row *row = NULL;
    struct value kind = v_text(q->block.kind == BLOCK_NONE ? NULL : block_kind_text(q->block.kind));
    int err = db_get(db, SQL_BLOCKS, &row, v_int((int64_t)q->after), kind, kind, v_int(q->now_ms),
                     v_int(q->now_ms), v_int(q->limit));
    while (err == 0) {
        err = block_read(row, &q->blocks[q->count]);
        if (err != 0) {
            db_done(row);
            return err;
        }
        q->count++;
        err = db_next(row);
    }
    return err == ERR_NOTFOUND ? 0 : err;
}

int db_query_block(struct db *db, struct ledger_query *q)
{
    int err = block_load(db, q->block.kind, q->block.value, &q->blocks[0]);
    q->count = err == 0 ? 1 : 0;
    return err;
}

/* ---- ops ---- */

struct blocks_state {
    uint64_t number; /* the highest */
    uint64_t count;  /* that have not ended */
};

static int blocks_state(struct db_write *w, struct blocks_state *ret_state)
{
    struct db_row *row;
    int err = db_get(w->db, SQL_BLOCKS_STATE, &row, v_int(w->now_ms));
    if (err == 0) {
        *ret_state = (struct blocks_state){.number = db_u64(row, 0), .count = db_u64(row, 1)};
        db_done(row);
    }
    return err == ERR_NOTFOUND ? ERR_CORRUPT : err;
}

/* Writes the row with the next number, and drops those that everybody knows to have ended. */
static int block_write(struct db_write *w, struct block_row *block, uint64_t highest)
{
    int64_t keep_ms = w->now_ms - BLOCK_KEEP_MS;
    int err = db_run(w->db, SQL_BLOCKS_DROP, v_int(keep_ms), v_int(keep_ms));
    if (err == 0) {
        err = db_run(w->db, SQL_BLOCK_SET, v_text(block_kind_text(block->kind)),
                     v_key(block->value), v_text(block->reason), v_nonzero(block->until_ms),
                     v_int(w->now_ms), v_int((int64_t)highest + 1));
    }
    if (err == 0) {
        block->at_ms = w->now_ms;
        block->number = highest + 1;
    }
    return err;
}

int db_op_block(struct db_write *w, struct ledger_op *op)
{
    struct block_row *block = op->block;
    struct block_row now;
    struct blocks_state state;
    if (block->kind == BLOCK_NONE || block->value[0] == '\0') {
        op->refusal = REFUSAL_BAD_REQUEST;
        return 0;
    }
    int err = block_load(w->db, block->kind, block->value, &now);
    bool stands = err == 0 && !block_has_ended(&now, w->now_ms);
    if (stands && strcmp(now.reason, block->reason) == 0 && now.until_ms == block->until_ms) {
        op->repeated = true;
        block->at_ms = now.at_ms;
        block->number = now.number;
        return 0;
    }
    err = err == 0 || err == ERR_NOTFOUND ? blocks_state(w, &state) : err;
    if (err != 0) {
        return err;
    }
    if (!stands && state.count >= BLOCKS_MAX) {
        op->refusal = REFUSAL_BAD_STATE;
        return 0;
    }
    return block_write(w, block, state.number);
}

int db_op_unblock(struct db_write *w, struct ledger_op *op)
{
    struct block_row now;
    struct blocks_state state;
    int err = block_load(w->db, op->block->kind, op->block->value, &now);
    if (err == ERR_NOTFOUND) {
        op->refusal = REFUSAL_NOT_FOUND;
        return 0;
    }
    if (err == 0 && block_has_ended(&now, w->now_ms)) {
        op->repeated = true;
        op->block->at_ms = now.at_ms;
        op->block->number = now.number;
        return 0;
    }
    err = err == 0 ? blocks_state(w, &state) : err;
    if (err != 0) {
        return err;
    }
    now.until_ms = BLOCK_REMOVED;
    err = block_write(w, &now, state.number);
    op->block->at_ms = now.at_ms;
    op->block->number = now.number;
    return err;
}
