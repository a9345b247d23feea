/*
 * Rate limits at the API (admission/limits.h): which request is counted when, what a refused one is
 * told, and requests that a leaky bucket holds until their turn.
 *
 * The router asks the rules by address before it checks the token, the rules by user after it, and at
 * the end those by item and those that count everybody. The item of a buy is in its ticket, so the
 * handlers of tickets and buys ask at the end themselves, once they know the item.
 *
 * A held request is copied, because its bytes are valid only during the handler. When its turn comes,
 * its handler is called again with the copy. What can go wrong: the client closes the connection
 * meanwhile, and nothing happens; or too many requests are held, or one is too long for a copy, and it
 * is refused as if the bucket were full.
 *
 * Threads: the loop's own.
 */
#ifndef SLUICE_API_REQUEST_LIMITS_H
#define SLUICE_API_REQUEST_LIMITS_H

#include "api/api.h"

/* Held requests of one loop: 4096 of 4 KiB take 18 MiB of address space, used as they come. */
#define HELD_MAX 4096U
#define HELD_BYTES 4096U

/* Asks the rules of a stage before the last. False: refused and answered. */
bool request_limits_pass(struct api_request *req, enum limit_stage stage);

enum limits_verdict {
    LIMITS_PASSED,
    LIMITS_REFUSED, /* answered */
    LIMITS_HELD,    /* the handler is called again; it returns HTTP_PENDING */
};
/* Asks all that are left. item: the request's; 0 if its call has none. Passes a request that has
 * been held. */
enum limits_verdict request_limits_end(struct api_request *req, uint64_t item);

/* The headers that tell the strictest rule, for an answer with a status of 2xx. */
void request_limits_headers(struct api_worker *worker, struct http_exchange exchange,
                            struct out *headers);

/* Of one loop. */
size_t held_requests_bytes(void);
/* 0 or ERR_NOMEM. */
int held_requests_start(struct api_worker *worker);
void held_requests_end(struct api_worker *worker);
/* Handles the requests whose turn has come. Returns when the next one's comes (boot time in us);
 * INT64_MAX: none is held. */
int64_t held_requests_tick(struct api_worker *worker);

#endif
