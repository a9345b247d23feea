/*
 * Who waits for news: long polls and event streams of orders, streams of items and of the
 * dashboard. Watchers have no queue: each is shown the newest state, and skips what it missed.
 *
 * An order that changes leaves a notice, with its newest state, for the loops that watch it;
 * watch_notices() then pushes that to each watcher. Notices say nothing of what was before them, so
 * whoever begins to watch looks the order up once more, and so does a poll at its end and a stream
 * now and then. A look may be answered many turns later (or not at all): what it shows may be older
 * than a notice that came meanwhile, and then it is not shown. Items and the dashboard are looked at once a second, formatted
 * once for all who watch the same, and sent to a bounded number a turn.
 */
#ifndef SLUICE_API_WATCH_H
#define SLUICE_API_WATCH_H

#include "api/api_private.h"

int watch_start(struct api_worker *worker);
void watch_done(struct api_worker *worker);

/* Holds a long poll's answer while the order is in hold_state, at most until due_ms. Answered at
 * once where the order has moved on since the caller looked. */
enum http_outcome watch_poll(struct api_worker *worker, struct http_exchange exchange,
                             const struct order_view *view, enum order_state hold_state,
                             int64_t due_ms);
/* Starts a stream; version_sent: what Last-Event-ID named. */
void watch_order(struct api_worker *worker, struct http_exchange exchange,
                 const struct order_view *view, uint16_t version_sent);
void watch_item(struct api_worker *worker, struct http_exchange exchange, uint64_t item);
void watch_live(struct api_worker *worker, struct http_exchange exchange);
void watch_gone(struct api_worker *worker, struct http_exchange exchange);

/* Collects the engine's notices and pushes; true if there were any. */
bool watch_notices(struct api_worker *worker);
/* The LSN that a watcher waited for is durable; or, if lost, the journal has failed and it never will
 * be. */
void watch_durable(struct api_worker *worker, struct http_exchange exchange, bool lost);
/* The peer has said all it will say: a long poll is answered with what there is. */
void watch_finished(struct api_worker *worker, struct http_exchange exchange);
/* A quarter of the connections is kept for requests that end by themselves. */
bool watch_full(const struct api_worker *worker);
/* Timers and streams. When to come back at the latest; worker->now_ms for "at once". */
int64_t watch_tick(struct api_worker *worker);
/* Draining: long polls are answered, streams end. */
void watch_drain(struct api_worker *worker);

#endif
