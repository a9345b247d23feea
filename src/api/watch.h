/*
 * Watchers: long polls and event streams of orders, and event streams of items and of the dashboard.
 * A watcher has no queue. It is shown the newest state, and skips the states that it missed.
 *
 * Orders: an order that changes leaves a notice with its newest state for the loops that watch it,
 * and watch_notices() shows that state to each watcher once it is durable. A notice says nothing
 * about earlier changes. So a watcher that begins looks the order up at the gate, a poll looks it up
 * again when its time is over, and a stream does so from time to time. The gate may answer many
 * iterations later, or not at all. An answer that is older than a notice that came meanwhile is not
 * shown.
 *
 * Items and the dashboard: their numbers are read once a second, formatted once for all watchers of
 * the same item, and sent to a bounded number of watchers in each iteration.
 *
 * A stream ends with its token: when the token expires, or its key or the admin token is removed by a
 * reload. Its client comes back and is asked for a valid one.
 *
 * What can go wrong: the client reads too slowly (it is skipped until it has read what it was sent),
 * the gate cannot be reached (the order is looked up again a second later), the journal fails (polls
 * get UNKNOWN_OUTCOME, streams end).
 */
#ifndef SLUICE_API_WATCH_H
#define SLUICE_API_WATCH_H

#include "api/api_private.h"

int watch_start(struct api_worker *worker);
void watch_end(struct api_worker *worker);

/* Begins a long poll. The answer is held while the order is QUEUED or in hold_state, at most until
 * due_ms. HTTP_ANSWERED: the order has changed since the caller looked it up. */
enum http_outcome watch_poll(struct api_worker *worker, struct http_exchange exchange,
                             const struct order_view *view, enum order_state hold_state,
                             int64_t due_ms);
/* Begins a stream for the holder of the token. version_sent is the version in the request's
 * Last-Event-ID; 0: none. */
void watch_order(struct api_worker *worker, struct http_exchange exchange,
                 const struct token_grant *token, const struct order_view *view,
                 uint16_t version_sent);
void watch_item(struct api_worker *worker, struct http_exchange exchange, uint64_t item);
void watch_live(struct api_worker *worker, struct http_exchange exchange);
/* The connection of the exchange has closed. */
void watch_gone(struct api_worker *worker, struct http_exchange exchange);
/* The client will send no more: a long poll is answered with the order's present state. */
void watch_finished(struct api_worker *worker, struct http_exchange exchange);

/* Collects the notices and shows the changed orders. True if there were any. */
bool watch_notices(struct api_worker *worker);
/* The LSN that a watcher waited for is durable; or, if lost, the journal has failed and it never will
 * be. */
void watch_durable(struct api_worker *worker, struct http_exchange exchange, bool lost);
/* True if no more watchers are accepted: a quarter of the connections is kept for other requests. */
bool watch_full(const struct api_worker *worker);
/* Runs the timers and serves the streams of items and of the dashboard. Returns when to call again at
 * the latest; worker->now_ms: at once. */
int64_t watch_tick(struct api_worker *worker);
/* The worker takes over newer settings: ends the streams whose token is no longer valid. */
void watch_settings(struct api_worker *worker, const struct api_settings *newer);
/* The server stops: answers long polls and ends streams. */
void watch_drain(struct api_worker *worker);

#endif
