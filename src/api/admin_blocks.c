/*
 * Operators: who may not order (port/block.h). The ledger reader reads, the ledger writer writes. When a
 * change is answered it is at work in this process, and within a second in all others.
 */
#include <stdlib.h>
#include <string.h>

#include "api/form.h"
#include "api/handlers.h"
#include "api/operation.h"
#include "base/err.h"

/* ---- the block that a path names ---- */

/* False: refused. Only kind and value are set. */
static bool block_of_path(struct api_request *req, struct block_row *ret_block)
{
    char memory[3 * BLOCK_VALUE_MAX];
    struct span text;
    *ret_block = (struct block_row){.kind = BLOCK_NONE};
    if (block_kind_parse(req->part[0], &ret_block->kind) != 0) {
        (void)api_refuse_simply(req->worker, req->exchange, REFUSAL_NOT_FOUND,
                                "no such kind of block; there are user, ip and device");
        return false;
    }
    const char *why = "the value has a wrong percent-encoding";
    int error = part_text(req->part[1], memory, sizeof(memory), &text);
    if (error == 0) {
        why = block_value_read(ret_block->kind, text, ret_block->value);
    } else if (error == ERR_RANGE) {
        why = "the value is too long";
    }
    if (why != NULL) {
        (void)api_refuse_field(req->worker, req->exchange, block_kind_text(ret_block->kind), why);
        return false;
    }
    return true;
}

/* ---- the operation's copy of a block ---- */

static void free_block(union api_context *context)
{
    free(context->block.row);
}

static struct block_row *keep_block(struct api_operation *operation, const struct block_row *block)
{
    struct block_row *kept = malloc(sizeof(*kept));
    if (kept != NULL) {
        *kept = *block;
        operation->context.block.row = kept;
        operation->free_context = free_block;
    }
    return kept;
}

/* ---- answers ---- */

static void put_block(struct out *out, const struct block_row *block)
{
    out_lit(out, "{\"kind\":\"");
    out_text(out, block_kind_text(block->kind));
    out_lit(out, "\",\"value\":");
    out_json_string(out, span_of(block->value));
    out_lit(out, ",\"reason\":");
    out_json_string(out, span_of(block->reason));
    out_lit(out, ",\"until_ms\":");
    if (block->until_ms == 0) {
        out_lit(out, "null");
    } else {
        out_i64(out, block->until_ms);
    }
    out_lit(out, ",\"at_ms\":");
    out_i64(out, block->at_ms);
    out_char(out, '}');
}

static enum http_outcome answer_block(struct api_request *req, const struct block_row *block)
{
    struct out body = api_scratch(req->worker);
    put_block(&body, block);
    return api_json(req->worker, req->exchange, 200, "", NULL, out_span(&body));
}

static enum http_outcome overloaded(struct api_request *req)
{
    return api_refuse_simply(req->worker, req->exchange, REFUSAL_OVERLOADED, NULL);
}

static enum http_outcome not_blocked(struct api_request *req)
{
    return api_refuse_simply(req->worker, req->exchange, REFUSAL_NOT_FOUND,
                             "there is no such block");
}

/* ---- reading ---- */

static enum http_outcome block_read(struct api_request *req, struct api_operation *operation)
{
    const struct ledger_query *q = &operation->read.query;
    if (q->error != 0 && q->error != ERR_NOTFOUND) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_DEGRADED, LEDGER_UNREACHABLE);
    }
    bool stands = q->count > 0 &&
                  !block_has_ended(&q->blocks[0], inside_time_ms(api_shared(req->worker)->time));
    return stands ? answer_block(req, &q->blocks[0]) : not_blocked(req);
}

enum http_outcome handle_block_read(struct api_request *req)
{
    struct block_row block;
    if (!block_of_path(req, &block)) {
        return HTTP_ANSWERED;
    }
    struct api_operation *operation =
        api_read_operation(req, QUERY_BLOCK, 1, BUDGET_OPERATOR, block_read);
    if (operation == NULL) {
        return overloaded(req);
    }
    struct block_row *kept = keep_block(operation, &block);
    if (kept == NULL) {
        api_operation_free(req->worker, operation);
        return overloaded(req);
    }
    operation->read.query.block.kind = kept->kind;
    operation->read.query.block.value = kept->value;
    return api_submit(req, operation);
}

static enum http_outcome blocks_read(struct api_request *req, struct api_operation *operation)
{
    const struct ledger_query *q = &operation->read.query;
    if (q->error != 0) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_DEGRADED, LEDGER_UNREACHABLE);
    }
    struct out body = api_scratch(req->worker);
    out_lit(&body, "{\"blocks\":[");
    for (uint32_t i = 0; i < q->count; i++) {
        if (i > 0) {
            out_char(&body, ',');
        }
        put_block(&body, &q->blocks[i]);
    }
    out_lit(&body, "],\"next\":");
    if (q->count < q->limit) {
        out_lit(&body, "null}");
    } else {
        out_u64(&body, q->blocks[q->count - 1].number);
        out_char(&body, '}');
    }
    return api_json(req->worker, req->exchange, 200, "", NULL, out_span(&body));
}

/* A page holds at most 500: with their reasons they fit into an answer. */
#define BLOCKS_PAGE_MAX 500

enum http_outcome handle_block_list(struct api_request *req)
{
    struct span parameters = req->request->query;
    struct span named = query_value(parameters, "kind");
    enum block_kind kind = BLOCK_NONE;
    uint64_t after = 0;
    uint64_t limit = 0;
    if (named.at != NULL && block_kind_parse(named, &kind) != 0) {
        return api_refuse_field(req->worker, req->exchange, "kind",
                                "kind must be user, ip or device");
    }
    if (query_number(parameters, "after", (uint64_t)INT64_MAX, 0, &after) != 0) {
        return api_refuse_field(req->worker, req->exchange, "after",
                                "after must be the number that the page before gave as next");
    }
    if (query_number(parameters, "limit", BLOCKS_PAGE_MAX, 100, &limit) != 0 || limit == 0) {
        return api_refuse_field(req->worker, req->exchange, "limit",
                                "limit must be a whole number from 1 to 500");
    }
    struct api_operation *operation =
        api_read_operation(req, QUERY_BLOCKS, (uint32_t)limit, BUDGET_OPERATOR, blocks_read);
    if (operation == NULL) {
        return overloaded(req);
    }
    operation->read.query.after = after;
    operation->read.query.block.kind = kind;
    operation->read.query.now_ms = inside_time_ms(api_shared(req->worker)->time);
    return api_submit(req, operation);
}

/* ---- writing ---- */

static enum http_outcome block_written(struct api_request *req, struct api_operation *operation)
{
    const struct ledger_op *op = &operation->write.op;
    if (op->kind == LEDGER_UNBLOCK && (op->refusal == REFUSAL_NOT_FOUND || op->repeated)) {
        return not_blocked(req);
    }
    if (op->refusal == REFUSAL_BAD_STATE) {
        return api_refuse_simply(req->worker, req->exchange, REFUSAL_BAD_STATE,
                                 "there are 65536 blocks, and no more fit; remove some, or block a "
                                 "prefix in place of many addresses");
    }
    if (op->refusal != REFUSAL_NONE) {
        return api_refuse_simply(req->worker, req->exchange, op->refusal, NULL);
    }
    return op->kind == LEDGER_UNBLOCK
               ? api_json(req->worker, req->exchange, 204, "", NULL, (struct span){NULL, 0})
               : answer_block(req, op->block);
}

static enum http_outcome write_block(struct api_request *req, enum ledger_kind kind,
                                     const struct block_row *block)
{
    struct api_operation *operation = api_write_operation(req, BUDGET_OPERATOR, block_written);
    if (operation == NULL) {
        return overloaded(req);
    }
    struct block_row *kept = keep_block(operation, block);
    if (kept == NULL) {
        api_operation_free(req->worker, operation);
        return overloaded(req);
    }
    operation->write.op.kind = kind;
    operation->write.op.block = kept;
    return api_submit(req, operation);
}

enum http_outcome handle_block_set(struct api_request *req)
{
    static const char *const names[] = {"reason", "until_ms", NULL};
    struct form form = {.wrong = false};
    struct block_row block;
    enum refusal media = body_is_json(req->request, false);
    if (!block_of_path(req, &block)) {
        return HTTP_ANSWERED;
    }
    if (media != REFUSAL_NONE) {
        return api_refuse_simply(req->worker, req->exchange, media, NULL);
    }
    json_t *root = form_body(&form, req->request->body);
    if (root != NULL) {
        form_only(&form, "", root, names);
        (void)form_text(&form, "", root, "reason", true, 1, BLOCK_REASON_MAX, block.reason);
        if (form_number(&form, "", root, "until_ms", false, 1, TIME_MAX_MS, &block.until_ms) &&
            block.until_ms <= inside_time_ms(api_shared(req->worker)->time)) {
            form_error(&form, "", "until_ms", "must be in the future, or left out for no end");
        }
        json_decref(root);
    }
    return form.wrong ? form_refuse(req, &form) : write_block(req, LEDGER_BLOCK, &block);
}

enum http_outcome handle_block_remove(struct api_request *req)
{
    struct block_row block;
    return block_of_path(req, &block) ? write_block(req, LEDGER_UNBLOCK, &block) : HTTP_ANSWERED;
}
