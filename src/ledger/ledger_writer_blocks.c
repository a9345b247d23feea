/* How the ledger's blocks reach this process: those that changed are read into the sink that the owner
 * of the ledger writer gave. See ledger_writer.h. */
#include "ledger/ledger_writer_private.h"
#include "obs/log.h"

/* One page of the blocks that changed since the last one that the sink has. */
static int load_blocks_page(struct ledger_writer *writer, struct ledger_query *query)
{
    struct block_sink *sink = writer->options.blocks;
    int64_t now_ms = inside_time_ms(writer->time);
    query->count = 0;
    query->after = writer->block_change;
    int error = ledger_read(writer->ledger, query);
    for (uint32_t i = 0; error == 0 && i < query->count; i++) {
        const struct block_row *row = &query->blocks[i];
        if (!sink->ops->put(sink, row, now_ms)) {
            static struct log_limit limit;
            log_event_limited(&limit, 10000, LOG_ERROR, "block.no_room",
                              LOG_STR("kind", block_kind_text(row->kind)),
                              LOG_STR("value", row->value),
                              LOG_STR("do", "remove blocks that are no longer needed"));
        }
        writer->block_change = row->number;
    }
    return error;
}

int ledger_writer_load_blocks(struct ledger_writer *writer)
{
    struct block_sink *sink = writer->options.blocks;
    struct block_row rows[32];
    struct ledger_query query = {.kind = QUERY_BLOCKS, .limit = 32, .blocks = rows};
    int64_t begun_ms = inside_time_ms(writer->time);
    if (sink == NULL) {
        return 0;
    }
    if (writer->blocks_as_of_ms == 0 || begun_ms > writer->blocks_as_of_ms + BLOCK_KEEP_MS / 2) {
        writer->blocks_as_of_ms = 0; /* until it is through */
        writer->block_change = 0;
        sink->ops->begin(sink);
    }
    do {
        int error = load_blocks_page(writer, &query);
        if (error != 0) {
            return error;
        }
    } while (query.count == query.limit);
    sink->ops->end(sink, begun_ms);
    writer->blocks_as_of_ms = begun_ms;
    return 0;
}

/* More lines in that time are an import, which must not push faults out of the incident log. */
#define BLOCK_LINES 8
#define BLOCK_LINES_MS 5000

static void log_block(const struct ledger_op *op)
{
    static struct log_limit limits[BLOCK_LINES];
    static unsigned next;
    struct log_limit *limit = &limits[next++ % BLOCK_LINES];
    const struct block_row *block = op->block;
    const char *kind = block_kind_text(block->kind);
    if (op->kind == LEDGER_BLOCK) {
        log_event_limited(limit, BLOCK_LINES_MS, LOG_INFO, "block.set", LOG_STR("kind", kind),
                          LOG_STR("value", block->value), LOG_I64("until_ms", block->until_ms),
                          LOG_STR("reason", block->reason));
    } else {
        log_event_limited(limit, BLOCK_LINES_MS, LOG_INFO, "block.removed", LOG_STR("kind", kind),
                          LOG_STR("value", block->value));
    }
}

/* Who asked for a block finds it at work when the answer comes. */
int ledger_writer_follow_blocks(struct ledger_writer *writer)
{
    bool any = false;
    for (size_t i = 0; i < writer->batch.count; i++) {
        const struct ledger_op *op = writer->ops[i];
        bool done = op->refusal == REFUSAL_NONE && !op->repeated;
        if ((op->kind == LEDGER_BLOCK || op->kind == LEDGER_UNBLOCK) && done) {
            log_block(op);
            any = true;
        }
    }
    return any ? ledger_writer_load_blocks(writer) : 0;
}

void ledger_writer_sweep_blocks(struct ledger_writer *writer)
{
    struct block_sink *sink = writer->options.blocks;
    if (sink != NULL && writer->blocks_as_of_ms != 0) {
        sink->ops->end(sink, inside_time_ms(writer->time));
    }
}
