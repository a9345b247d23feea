/* Blocks of the ledger in memory: LEDGER_BLOCK, LEDGER_UNBLOCK, QUERY_BLOCKS, QUERY_BLOCK. */
#include <string.h>

#include "base/err.h"
#include "memory_private.h"

static struct block_row *find(const struct memory_ledger *ledger, enum block_kind kind,
                              const char *value)
{
    for (size_t i = 0; i < ledger->blocks_count; i++) {
        if (ledger->blocks[i].kind == kind && strcmp(ledger->blocks[i].value, value) == 0) {
            return &ledger->blocks[i];
        }
    }
    return NULL;
}

static void change(struct memory_write *w, struct block_row *row, struct block_row *answer)
{
    uint64_t highest = 0;
    for (size_t i = 0; i < w->ledger->blocks_count; i++) {
        uint64_t number = w->ledger->blocks[i].number;
        highest = number > highest ? number : highest;
    }
    row->number = highest + 1;
    row->at_ms = w->now_ms;
    answer->number = row->number;
    answer->at_ms = row->at_ms;
}

static size_t standing(const struct memory_write *w)
{
    size_t count = 0;
    for (size_t i = 0; i < w->ledger->blocks_count; i++) {
        count += !block_has_ended(&w->ledger->blocks[i], w->now_ms);
    }
    return count;
}

void memory_block(struct memory_write *w, struct ledger_op *op)
{
    struct memory_ledger *ledger = w->ledger;
    if (op->block->kind == BLOCK_NONE || op->block->value[0] == '\0') {
        op->refusal = REFUSAL_BAD_REQUEST;
        return;
    }
    struct block_row *row = find(ledger, op->block->kind, op->block->value);
    bool stands = row != NULL && !block_has_ended(row, w->now_ms);
    if (stands && row->until_ms == op->block->until_ms &&
        strcmp(row->reason, op->block->reason) == 0) {
        op->repeated = true;
        op->block->number = row->number;
        op->block->at_ms = row->at_ms;
        return;
    }
    if (!stands && standing(w) >= BLOCKS_MAX) {
        op->refusal = REFUSAL_BAD_STATE;
        return;
    }
    if (row == NULL) {
        ledger->blocks = memory_grown(ledger->blocks, ledger->blocks_count, sizeof(*row));
        row = &ledger->blocks[ledger->blocks_count++];
        row->number = 0;
    }
    uint64_t number = row->number;
    *row = *op->block;
    row->number = number;
    change(w, row, op->block);
}

void memory_unblock(struct memory_write *w, struct ledger_op *op)
{
    struct block_row *row = find(w->ledger, op->block->kind, op->block->value);
    if (row == NULL) {
        op->refusal = REFUSAL_NOT_FOUND;
        return;
    }
    op->repeated = block_has_ended(row, w->now_ms);
    if (op->repeated) {
        op->block->number = row->number;
        op->block->at_ms = row->at_ms;
        return;
    }
    row->until_ms = BLOCK_REMOVED;
    change(w, row, op->block);
}

void memory_query_blocks(const struct memory_ledger *ledger, struct ledger_query *query)
{
    uint64_t after = query->after;
    while (query->count < query->limit) {
        const struct block_row *next = NULL; /* the lowest number above `after` */
        for (size_t i = 0; i < ledger->blocks_count; i++) {
            const struct block_row *row = &ledger->blocks[i];
            bool wanted = query->block.kind == BLOCK_NONE || query->block.kind == row->kind;
            wanted = wanted && (query->now_ms == 0 || !block_has_ended(row, query->now_ms));
            if (wanted && row->number > after && (next == NULL || row->number < next->number)) {
                next = row;
            }
        }
        if (next == NULL) {
            return;
        }
        query->blocks[query->count++] = *next;
        after = next->number;
    }
}

int memory_query_block(const struct memory_ledger *ledger, struct ledger_query *query)
{
    const struct block_row *row = find(ledger, query->block.kind, query->block.value);
    if (row == NULL) {
        return ERR_NOTFOUND;
    }
    query->blocks[query->count++] = *row;
    return 0;
}
