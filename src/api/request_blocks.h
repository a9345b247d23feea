/*
 * Blocks at the API (admission/blocks.h). A ticket is refused here. A buy goes to the gate all the same,
 * which answers an order that exists and refuses a new one (gate_request.if_new).
 *
 * While nobody is blocked, requests do not reach this layer and are not counted.
 *
 * Threads: the loop's own.
 */
#ifndef SLUICE_API_REQUEST_BLOCKS_H
#define SLUICE_API_REQUEST_BLOCKS_H

#include "api/api.h"

#define BLOCKED_DETAIL                                                                             \
    "no new orders are taken from this user, address or device; orders that exist are still "      \
    "answered"

/* Whether the user, address or device is blocked. A request that is not is counted as passed. */
bool request_is_blocked(struct api_request *req);
/* For a ticket. False: refused and answered. */
bool request_blocks_pass(struct api_request *req, uint64_t item);
/* Counts a blocked buy, when the gate has answered it. */
void request_blocks_count(struct api_worker *worker, const struct gate_request *request);

#endif
