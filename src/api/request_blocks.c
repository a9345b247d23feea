/* See request_blocks.h. */
#include "api/request_blocks.h"

#include "admission/layers.h"
#include "api/api_private.h"

bool request_is_blocked(struct api_request *req)
{
    struct api_worker *worker = req->worker;
    const struct blocks *blocks = worker->shared->blocks;
    if (blocks == NULL || blocks_are_none(blocks)) {
        return false;
    }
    struct block_subject subject = {.user = req->user, .device = req->request->sluice_device};
    if (blocks_ask_address(blocks)) {
        subject.address = api_client_address(req);
    }
    bool blocked = blocks_match(blocks, &subject, req->now_ms);
    if (!blocked) {
        metrics_layer(worker->metrics, LAYER_BLOCK, METRICS_PASSED);
    }
    return blocked;
}

bool request_blocks_pass(struct api_request *req, uint64_t item)
{
    struct api_worker *worker = req->worker;
    if (!request_is_blocked(req)) {
        return true;
    }
    metrics_layer(worker->metrics, LAYER_BLOCK, METRICS_TURNED_AWAY);
    api_tally_refusal(worker, item, REFUSAL_BLOCKED);
    (void)api_refuse_simply(worker, req->exchange, REFUSAL_BLOCKED, BLOCKED_DETAIL);
    return false;
}

void request_blocks_count(struct api_worker *worker, const struct gate_request *request)
{
    if (request->if_new == REFUSAL_BLOCKED) {
        metrics_layer(worker->metrics, LAYER_BLOCK,
                      request->refusal == REFUSAL_BLOCKED ? METRICS_TURNED_AWAY : METRICS_PASSED);
    }
}
