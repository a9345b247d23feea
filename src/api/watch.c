/* See watch.h. */
#include "api/watch.h"

#include <stdlib.h>
#include <string.h>

#include "api/live.h"
#include "api/request_limits.h"
#include "base/check.h"
#include "base/err.h"

#define HEARTBEAT_MS 15000
/* A stream looks its order up with every fourth heartbeat, in case a notice was lost. More often would
 * be too much: with 100,000 streams it would cost the gate more than the sale does. */
#define HEARTBEATS_PER_LOOK_UP 4
#define PERIOD_MS 1000
/* When a client of an order's stream should connect again. Drawn for each stream, so that the clients of
 * a server that stops do not come back together. */
#define RETRY_MIN_MS 1000
#define RETRY_SPREAD_MS 2000
/* About half a millisecond of writes. */
#define STREAMS_PER_ITERATION 256
#define NOTICES_PER_ITERATION 512

static struct watcher *watcher_at(const struct api_worker *worker, uint32_t connection)
{
    return &worker->watch.watchers[connection];
}

static struct http_exchange exchange_of(const struct api_worker *worker, uint32_t connection)
{
    return (struct http_exchange){connection, watcher_at(worker, connection)->generation};
}

static bool watches_order(const struct watcher *watcher)
{
    return watcher->kind == WATCH_POLL || watcher->kind == WATCH_ORDER;
}

static bool watches_exchange(const struct watcher *watcher, struct http_exchange exchange)
{
    return watcher->kind != WATCH_NOTHING && watcher->generation == exchange.generation;
}

/* ---- lists ---- */

static struct index_list *key_bucket(struct api_worker *worker, struct order_id key)
{
    uint64_t h = order_id_hash(key, 0);
    return &worker->watch.buckets[(h >> 32) & worker->watch.buckets_mask];
}

static void key_link(struct api_worker *worker, uint32_t connection)
{
    index_list_insert(key_bucket(worker, watcher_at(worker, connection)->key),
                      INDEX_LINKS(worker->watch.watchers, by_key), connection, 0);
}

static void key_unlink(struct api_worker *worker, uint32_t connection)
{
    index_list_remove(key_bucket(worker, watcher_at(worker, connection)->key),
                      INDEX_LINKS(worker->watch.watchers, by_key), connection);
}

/* Sets the timer, at the latest for the end of the watcher's token. A time beyond the wheel's reach is put at its end, and linked again from there. */
static void wheel_link(struct api_worker *worker, uint32_t connection, int64_t due_ms)
{
    struct watchers *watch = &worker->watch;
    struct watcher *watcher = watcher_at(worker, connection);
    int64_t last = watch->wheel_ms + (int64_t)(WHEEL_SLOTS - 1) * WHEEL_STEP_MS;
    due_ms = due_ms < watcher->ends_ms ? due_ms : watcher->ends_ms;
    int64_t at = due_ms < watch->wheel_ms ? watch->wheel_ms : due_ms > last ? last : due_ms;
    watcher->wake_ms = due_ms;
    watcher->wheel_place = (uint32_t)(at / WHEEL_STEP_MS) % WHEEL_SLOTS;
    index_list_insert(&watch->wheel[watcher->wheel_place], INDEX_LINKS(watch->watchers, by_timer),
                      connection, 0);
}

static void wheel_unlink(struct api_worker *worker, uint32_t connection)
{
    struct watchers *watch = &worker->watch;
    index_list_remove(&watch->wheel[watcher_at(worker, connection)->wheel_place],
                      INDEX_LINKS(watch->watchers, by_timer), connection);
}

static void set_timer(struct api_worker *worker, uint32_t connection, int64_t due_ms)
{
    wheel_unlink(worker, connection);
    wheel_link(worker, connection, due_ms);
}

static bool is_neighbour(const struct watcher *watcher, const struct watcher *other)
{
    return other != watcher && !watches_order(other) && order_id_equal(other->key, watcher->key);
}

/* Streams with the same key are neighbours in the round, so that the event is formatted once for all
 * of them. */
static void round_link(struct api_worker *worker, uint32_t connection)
{
    struct watchers *watch = &worker->watch;
    const struct watcher *watcher = watcher_at(worker, connection);
    uint32_t after = key_bucket(worker, watcher->key)->first;
    while (after != 0 && !is_neighbour(watcher, watcher_at(worker, after - 1))) {
        after = watcher_at(worker, after - 1)->by_key.next;
    }
    index_list_insert(&watch->periodic, INDEX_LINKS(watch->watchers, periodic.in_round), connection,
                      after);
}

static void round_unlink(struct api_worker *worker, uint32_t connection)
{
    struct watchers *watch = &worker->watch;
    if (watch->periodic_cursor == connection + 1) {
        watch->periodic_cursor = watcher_at(worker, connection)->periodic.in_round.next;
    }
    index_list_remove(&watch->periodic, INDEX_LINKS(watch->watchers, periodic.in_round),
                      connection);
}

/* ---- adding and removing ---- */

static struct watcher *watch_add(struct api_worker *worker, struct http_exchange exchange,
                                 enum watch_kind kind, struct order_id key, int64_t due_ms,
                                 int64_t ends_ms)
{
    CHECK(exchange.connection < worker->connections_count);
    struct watcher *watcher = watcher_at(worker, exchange.connection);
    CHECK(watcher->kind == WATCH_NOTHING);
    *watcher = (struct watcher){
        .kind = kind, .generation = exchange.generation, .key = key, .ends_ms = ends_ms};
    key_link(worker, exchange.connection);
    wheel_link(worker, exchange.connection, due_ms);
    if (watches_order(watcher)) {
        order_notices_watch(worker->shared->notices, worker->loop, key);
    } else {
        if (worker->watch.periodic.first == 0) { /* the first stream: the rounds begin with it */
            worker->watch.periodic_next_ms = worker->now_ms + PERIOD_MS;
        }
        watcher->periodic.not_before_ms = worker->now_ms;
        round_link(worker, exchange.connection);
    }
    worker->watch.count++;
    metrics_add(worker->metrics, METRIC_HTTP_WATCHERS, 1);
    return watcher;
}

static void watch_remove(struct api_worker *worker, uint32_t connection)
{
    struct watcher *watcher = watcher_at(worker, connection);
    if (watches_order(watcher)) {
        order_notices_unwatch(worker->shared->notices, worker->loop, watcher->key);
    } else {
        round_unlink(worker, connection);
    }
    key_unlink(worker, connection);
    wheel_unlink(worker, connection);
    watcher->kind = WATCH_NOTHING;
    worker->watch.count--;
    metrics_sub(worker->metrics, METRIC_HTTP_WATCHERS, 1);
}

void watch_gone(struct api_worker *worker, struct http_exchange exchange)
{
    if (watches_exchange(watcher_at(worker, exchange.connection), exchange)) {
        watch_remove(worker, exchange.connection);
    }
}

bool watch_full(const struct api_worker *worker)
{
    return worker->watch.count >= worker->connections_count - worker->connections_count / 4;
}

static bool begin_stream(struct api_worker *worker, struct http_exchange exchange)
{
    char text[512];
    struct out headers = out_over(text, sizeof(text) - 1);
    /* X-Accel-Buffering: otherwise nginx holds events back until it has a buffer full of them. */
    out_lit(&headers, "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n");
    request_limits_headers(worker, exchange, &headers);
    api_cors(worker, exchange, &headers);
    text[headers.len] = '\0';
    return http_stream_begin(worker->server, exchange, text);
}

static void end_stream(struct api_worker *worker, uint32_t connection)
{
    struct http_exchange exchange = exchange_of(worker, connection);
    watch_remove(worker, connection);
    http_stream_end(worker->server, exchange);
}

/* ---- orders: showing ---- */

/* Tries again a second later: the client has not read what it was sent before, or the order could not
 * be looked up. */
static void try_later(struct api_worker *worker, uint32_t connection)
{
    struct watcher *watcher = watcher_at(worker, connection);
    int64_t at_ms = worker->now_ms + PERIOD_MS;
    if (watcher->kind == WATCH_POLL) {
        int64_t due_ms = watcher->order.poll.due_ms;
        at_ms = due_ms > worker->now_ms && due_ms < at_ms ? due_ms : at_ms;
    } else if (watcher->kind == WATCH_ORDER) {
        watcher->order.stream.look_up_due = true;
    }
    set_timer(worker, connection, at_ms);
}

/* The gate and the catalog no longer have the order. */
static void end_order(struct api_worker *worker, uint32_t connection)
{
    struct http_exchange exchange = exchange_of(worker, connection);
    if (watcher_at(worker, connection)->kind == WATCH_ORDER) {
        end_stream(worker, connection);
        return;
    }
    watch_remove(worker, connection);
    (void)api_refuse_simply(worker, exchange, REFUSAL_NOT_FOUND, "see /v1/me/orders");
}

static void answer_poll(struct api_worker *worker, uint32_t connection,
                        const struct order_view *view)
{
    struct http_exchange exchange = exchange_of(worker, connection);
    struct out body = api_scratch(worker);
    if (!json_order_view(&body, worker->shared->catalog, view)) {
        end_order(worker, connection);
        return;
    }
    watch_remove(worker, connection);
    (void)api_json(worker, exchange, 200, "", NULL, out_span(&body));
}

static void send_order_event(struct api_worker *worker, uint32_t connection,
                             const struct order_view *view)
{
    struct watcher *watcher = watcher_at(worker, connection);
    /* Another front may have sent a newer version than this one sees now (Last-Event-ID). */
    if (view->version > watcher->order.stream.version_sent) {
        struct http_exchange exchange = exchange_of(worker, connection);
        struct out event = api_scratch(worker);
        out_lit(&event, "event: order\nid: ");
        out_u64(&event, view->version);
        out_lit(&event, "\ndata: ");
        if (!json_order_view(&event, worker->shared->catalog, view)) {
            end_order(worker, connection);
            return;
        }
        if (!watcher->order.stream.begun) {
            out_lit(&event, "\nretry: ");
            out_u64(&event, RETRY_MIN_MS + prng_below(&worker->prng, RETRY_SPREAD_MS));
        }
        out_lit(&event, "\n\n");
        if (!http_stream_send(worker->server, exchange, out_span(&event))) {
            if (http_alive(worker->server, exchange)) {
                try_later(worker, connection);
            }
            return;
        }
        watcher->order.stream.version_sent = view->version;
        watcher->order.stream.begun = true;
    }
    if (order_state_final((enum order_state)view->state)) {
        end_stream(worker, connection);
    }
}

static bool poll_is_over(const struct api_worker *worker, const struct watcher *watcher)
{
    enum order_state state = (enum order_state)watcher->order.newest.state;
    return (state != ORDER_QUEUED && state != watcher->order.poll.hold_state) ||
           worker->now_ms >= watcher->order.poll.due_ms;
}

/* Shows one watcher of an order the newest state it has seen, once that is durable. */
static void push(struct api_worker *worker, uint32_t connection)
{
    struct watcher *watcher = watcher_at(worker, connection);
    const struct order_view *view = &watcher->order.newest;
    if (!api_durable(worker, view->lsn)) {
        if (!watcher->order.push_waits) {
            watcher->order.push_waits =
                api_after_durable(worker, view->lsn, exchange_of(worker, connection), NULL);
            if (!watcher->order.push_waits) {
                try_later(worker, connection);
            }
        }
        return;
    }
    if (watcher->kind == WATCH_ORDER) {
        send_order_event(worker, connection, view);
    } else if (poll_is_over(worker, watcher)) {
        answer_poll(worker, connection, view);
    }
}

/* A state of the order was seen, in a notice or at the gate. The gate may have answered late: a state
 * that is older than one seen before is not shown, or the buyer's view would go backwards. */
static void observe(struct api_worker *worker, uint32_t connection, const struct order_view *view)
{
    struct watcher *watcher = watcher_at(worker, connection);
    if (view->version > watcher->order.newest.version) {
        watcher->order.newest = *view;
    }
    push(worker, connection);
}

void watch_durable(struct api_worker *worker, struct http_exchange exchange, bool lost)
{
    struct watcher *watcher = watcher_at(worker, exchange.connection);
    if (!watches_exchange(watcher, exchange) || !watches_order(watcher)) {
        return;
    }
    watcher->order.push_waits = false;
    if (!lost) {
        push(worker, exchange.connection);
    } else if (watcher->kind == WATCH_ORDER) {
        end_stream(worker, exchange.connection);
    } else {
        watch_remove(worker, exchange.connection);
        (void)api_refuse_simply(worker, exchange, REFUSAL_UNKNOWN_OUTCOME,
                                "the journal's disk failed while this order was being written");
    }
}

/* ---- orders: looking up ---- */

static void look_up(struct api_worker *worker, uint32_t connection);

static enum http_outcome looked_up(struct api_request *req, struct api_operation *operation)
{
    struct api_worker *worker = req->worker;
    struct http_exchange exchange = operation->exchange;
    struct watcher *watcher = watcher_at(worker, exchange.connection);
    if (!watches_exchange(watcher, exchange)) {
        return HTTP_ANSWERED; /* a notice came first and ended the watch */
    }
    if (operation->error != 0) {
        watch_durable(worker, exchange, true);
        return HTTP_ANSWERED;
    }
    bool again = watcher->order.look_up_again;
    watcher->order.looking_up = watcher->order.look_up_again = false;
    if (operation->gate.refusal == REFUSAL_NONE) {
        observe(worker, exchange.connection, &operation->gate.order);
    } else if (!api_gate_unreachable(operation)) {
        end_order(worker, exchange.connection);
    } else {
        /* A poll whose time is over gets the state seen last: it was current after the client
         * asked. */
        try_later(worker, exchange.connection);
        push(worker, exchange.connection);
    }
    if (again && watches_exchange(watcher, exchange)) {
        look_up(worker, exchange.connection);
    }
    return HTTP_ANSWERED;
}

/* Looks the order up at the gate, and has its changes noticed from now on. One request at a time; its
 * answer may come in a later iteration. */
static void look_up(struct api_worker *worker, uint32_t connection)
{
    struct watcher *watcher = watcher_at(worker, connection);
    struct api_request req = {.worker = worker,
                              .exchange = exchange_of(worker, connection),
                              .user = watcher->order.newest.user,
                              .now_ms = worker->now_ms};
    if (watcher->order.looking_up) {
        watcher->order.look_up_again = true; /* the gate may have answered before the change */
        return;
    }
    struct api_operation *operation = api_gate_operation(&req, GATE_REQUEST_ORDER, looked_up);
    if (operation == NULL) {
        try_later(worker, connection);
        push(worker, connection);
        return;
    }
    watcher->order.looking_up = true;
    operation->gate.id = watcher->key;
    operation->gate.watch = true;
    (void)api_submit(&req, operation);
}

/* ---- orders: watching ---- */

/* Answers the poll as soon as its order has been looked up. */
static void end_poll(struct api_worker *worker, uint32_t connection)
{
    watcher_at(worker, connection)->order.poll.due_ms = worker->now_ms;
    look_up(worker, connection);
}

void watch_finished(struct api_worker *worker, struct http_exchange exchange)
{
    struct watcher *watcher = watcher_at(worker, exchange.connection);
    if (watches_exchange(watcher, exchange) && watcher->kind == WATCH_POLL) {
        end_poll(worker, exchange.connection);
    }
}

enum http_outcome watch_poll(struct api_worker *worker, struct http_exchange exchange,
                             const struct order_view *view, enum order_state hold_state,
                             int64_t due_ms)
{
    struct watcher *watcher = watch_add(worker, exchange, WATCH_POLL, view->id, due_ms, INT64_MAX);
    watcher->order.newest = *view;
    watcher->order.poll.hold_state = hold_state;
    watcher->order.poll.due_ms = due_ms;
    look_up(worker, exchange.connection);
    return watcher->kind == WATCH_POLL ? HTTP_PENDING : HTTP_ANSWERED;
}

void watch_order(struct api_worker *worker, struct http_exchange exchange,
                 const struct token_grant *token, const struct order_view *view,
                 uint16_t version_sent)
{
    if (!begin_stream(worker, exchange)) {
        return;
    }
    struct watcher *watcher = watch_add(worker, exchange, WATCH_ORDER, view->id,
                                        worker->now_ms + HEARTBEAT_MS, token->expires_ms);
    watcher->order.newest = *view;
    watcher->order.stream.token_key = token->key;
    watcher->order.stream.version_sent = version_sent;
    push(worker, exchange.connection);
    if (watcher->kind == WATCH_ORDER) {
        look_up(worker, exchange.connection);
    }
}

/* Shows a changed order to everyone who watches it on this loop. */
static void observe_all(struct api_worker *worker, const struct order_view *view)
{
    uint32_t link = key_bucket(worker, view->id)->first;
    while (link != 0) {
        struct watcher *watcher = watcher_at(worker, link - 1);
        uint32_t next = watcher->by_key.next;
        if (watches_order(watcher) && order_id_equal(watcher->key, view->id)) {
            observe(worker, link - 1, view);
        }
        link = next;
    }
}

bool watch_notices(struct api_worker *worker)
{
    struct order_view views[NOTICES_PER_ITERATION];
    bool all = false; /* notices were dropped: look up every order */
    size_t n = order_notices_take(worker->shared->notices, worker->loop, views,
                                  NOTICES_PER_ITERATION, &all);
    for (size_t i = 0; i < n; i++) {
        observe_all(worker, &views[i]);
    }
    for (uint32_t i = 0; all && i < worker->connections_count; i++) {
        if (watches_order(watcher_at(worker, i))) {
            look_up(worker, i);
        }
    }
    return n > 0 || all;
}

/* ---- items and the dashboard ---- */

/* The event for the streams of one key in this round. It is formatted for the first of them. */
struct periodic_event {
    struct order_id key;
    bool made;
    bool gone; /* the gate or the catalog no longer has the item */
    struct item_view view;
    struct out text;
};

static void make_item_event(struct api_worker *worker, struct periodic_event *event)
{
    bool known = api_item(worker, event->key.hi, &event->view);
    const struct sale_row *sale = NULL;
    struct catalog *catalog = worker->shared->catalog;
    catalog_lock(catalog);
    const struct item_row *item = catalog_item(catalog, event->key.hi, &sale);
    event->gone = !known || item == NULL;
    if (!event->gone) {
        out_lit(&event->text, "event: item\ndata: ");
        json_item(&event->text, sale, item, &event->view, worker->now_ms);
        out_lit(&event->text, "\n\n");
    }
    catalog_unlock(catalog);
}

static void make_event(struct api_worker *worker, struct order_id key, struct periodic_event *event)
{
    *event = (struct periodic_event){.key = key, .made = true, .text = api_scratch(worker)};
    if (key.hi == 0) {
        out_lit(&event->text, "event: live\ndata: ");
        live_json(worker, &event->text);
        out_lit(&event->text, "\n\n");
    } else {
        make_item_event(worker, event);
    }
}

/* This is an event of its own. If the client has not yet read the event before it, the next round
 * tries again, whether or not anything has changed. */
static void send_sold_out(struct api_worker *worker, uint32_t connection, bool sold_out)
{
    struct watcher *watcher = watcher_at(worker, connection);
    if (!sold_out || watcher->periodic.sold_out_sent) {
        watcher->periodic.sold_out_sent = sold_out;
        return;
    }
    char text[96];
    struct out event = out_over(text, sizeof(text));
    out_lit(&event, "event: item.sold_out\ndata: {\"item_id\":");
    out_u64(&event, watcher->key.hi);
    out_lit(&event, "}\n\n");
    watcher->periodic.sold_out_sent =
        http_stream_send(worker->server, exchange_of(worker, connection), out_span(&event));
}

static void send_event(struct api_worker *worker, uint32_t connection,
                       const struct periodic_event *event)
{
    struct watcher *watcher = watcher_at(worker, connection);
    struct periodic_stream *stream = &watcher->periodic;
    if (event->gone) {
        end_stream(worker, connection);
        return;
    }
    /* An item's state may change with time alone, so the version alone does not tell. */
    uint64_t shown =
        event->view.version * ITEM_STATE_COUNT + (uint64_t)item_state(&event->view, worker->now_ms);
    if (watcher->kind == WATCH_LIVE || stream->shown_sent != shown) {
        if (worker->now_ms < stream->not_before_ms ||
            !http_stream_send(worker->server, exchange_of(worker, connection),
                              out_span(&event->text))) {
            return; /* the next round tries again */
        }
        stream->shown_sent = shown;
        stream->not_before_ms = worker->now_ms + PERIOD_MS;
    }
    if (watcher->kind == WATCH_ITEM) {
        send_sold_out(worker, connection, event->view.available == 0);
    }
}

/* Sends to some of the streams. True when this round is over. */
static bool serve_streams(struct api_worker *worker)
{
    struct watchers *watch = &worker->watch;
    struct periodic_event event = {.made = false};
    for (int i = 0; i < STREAMS_PER_ITERATION && watch->periodic_cursor != 0; i++) {
        uint32_t connection = watch->periodic_cursor - 1;
        struct watcher *watcher = watcher_at(worker, connection);
        watch->periodic_cursor = watcher->periodic.in_round.next;
        if (!event.made || !order_id_equal(event.key, watcher->key)) {
            make_event(worker, watcher->key, &event);
        }
        send_event(worker, connection, &event);
    }
    return watch->periodic_cursor == 0;
}

/* A new stream gets the present state at once, outside of the rounds. */
static void begin_periodic(struct api_worker *worker, struct http_exchange exchange,
                           enum watch_kind kind, struct order_id key)
{
    struct periodic_event event;
    if (begin_stream(worker, exchange)) {
        (void)watch_add(worker, exchange, kind, key, worker->now_ms + HEARTBEAT_MS, INT64_MAX);
        make_event(worker, key, &event);
        send_event(worker, exchange.connection, &event);
    }
}

void watch_item(struct api_worker *worker, struct http_exchange exchange, uint64_t item)
{
    begin_periodic(worker, exchange, WATCH_ITEM, (struct order_id){item, 0});
}

void watch_live(struct api_worker *worker, struct http_exchange exchange)
{
    begin_periodic(worker, exchange, WATCH_LIVE, (struct order_id){0, 0});
}

/* ---- time ---- */

/* The heartbeat of an order's stream: sends what the client did not read before, and looks the order
 * up if that is due. */
static void order_heartbeat(struct api_worker *worker, uint32_t connection)
{
    struct watcher *watcher = watcher_at(worker, connection);
    /* There is no notice for an undecided order until it is decided. */
    bool due = watcher->order.stream.look_up_due ||
               ++watcher->order.stream.heartbeats % HEARTBEATS_PER_LOOK_UP == 0 ||
               watcher->order.newest.reason == REFUSAL_UNDECIDED;
    watcher->order.stream.look_up_due = false;
    push(worker, connection);
    if (watcher->kind == WATCH_ORDER && due) {
        look_up(worker, connection);
    }
}

static void timer_fired(struct api_worker *worker, uint32_t connection)
{
    struct watcher *watcher = watcher_at(worker, connection);
    struct http_exchange exchange = exchange_of(worker, connection);
    if (watcher->kind == WATCH_POLL) {
        look_up(worker, connection);
        if (watcher->kind == WATCH_POLL) {
            try_later(worker, connection);
        }
        return;
    }
    if (worker->now_ms >= watcher->ends_ms) {
        end_stream(worker, connection);
        return;
    }
    if (!http_stream_ready(worker->server, exchange)) {
        try_later(worker, connection);
        return;
    }
    if (watcher->kind == WATCH_ORDER) {
        order_heartbeat(worker, connection);
        if (watcher->kind != WATCH_ORDER) {
            return;
        }
    }
    (void)http_stream_send(worker->server, exchange, (struct span){":\n\n", 3});
    set_timer(worker, connection, worker->now_ms + HEARTBEAT_MS);
}

static void run_wheel(struct api_worker *worker)
{
    struct watchers *watch = &worker->watch;
    while (watch->wheel_ms + WHEEL_STEP_MS <= worker->now_ms) {
        uint32_t place = (uint32_t)(watch->wheel_ms / WHEEL_STEP_MS) % WHEEL_SLOTS;
        watch->wheel_ms += WHEEL_STEP_MS;
        uint32_t link = watch->wheel[place].first;
        while (link != 0) {
            struct watcher *watcher = watcher_at(worker, link - 1);
            uint32_t next = watcher->by_timer.next;
            if (watcher->wake_ms > worker->now_ms) {
                set_timer(worker, link - 1, watcher->wake_ms);
            } else {
                timer_fired(worker, link - 1);
            }
            link = next;
        }
    }
}

int64_t watch_tick(struct api_worker *worker)
{
    struct watchers *watch = &worker->watch;
    if (watch->count == 0) {
        watch->wheel_ms = worker->now_ms / WHEEL_STEP_MS * WHEEL_STEP_MS;
        return INT64_MAX;
    }
    run_wheel(worker);
    int64_t next = watch->wheel_ms + WHEEL_STEP_MS;
    if (watch->periodic.first != 0) {
        if (worker->now_ms >= watch->periodic_next_ms && watch->periodic_cursor == 0) {
            watch->periodic_cursor = watch->periodic.first;
            watch->periodic_next_ms = worker->now_ms + PERIOD_MS;
        }
        if (watch->periodic_cursor != 0) {
            if (!serve_streams(worker)) {
                return worker->now_ms;
            }
            /* Counted from the end of the round: its last streams have a full period, too. */
            watch->periodic_next_ms = worker->now_ms + PERIOD_MS;
        }
        next = watch->periodic_next_ms < next ? watch->periodic_next_ms : next;
    }
    return next;
}

/* ---- life ---- */

/* The same key among the newer ones: its index, or TOKEN_KEYS_MAX. */
static uint32_t key_in(const struct token_keys *newer, const struct token_key *key)
{
    uint32_t i = 0;
    while (i < newer->count && (newer->keys[i].algorithm != key->algorithm ||
                                strcmp(newer->keys[i].kid, key->kid) != 0 ||
                                memcmp(newer->keys[i].key, key->key, sizeof(key->key)) != 0)) {
        i++;
    }
    return i < newer->count ? i : TOKEN_KEYS_MAX;
}

void watch_settings(struct api_worker *worker, const struct api_settings *newer)
{
    const struct api_settings *older = worker->settings;
    bool same_admin = strcmp(older->admin_token, newer->admin_token) == 0;
    uint32_t keys[TOKEN_KEYS_MAX]; /* older index -> newer */
    for (uint32_t i = 0; i < older->token_keys.count; i++) {
        keys[i] = key_in(&newer->token_keys, &older->token_keys.keys[i]);
    }
    for (uint32_t i = 0; worker->watch.count > 0 && i < worker->connections_count; i++) {
        struct watcher *watcher = watcher_at(worker, i);
        uint8_t *key = &watcher->order.stream.token_key;
        if (watcher->kind == WATCH_LIVE && !same_admin) {
            end_stream(worker, i);
        } else if (watcher->kind == WATCH_ORDER && keys[*key] == TOKEN_KEYS_MAX) {
            end_stream(worker, i);
        } else if (watcher->kind == WATCH_ORDER) {
            *key = (uint8_t)keys[*key];
        }
    }
}

void watch_drain(struct api_worker *worker)
{
    for (uint32_t i = 0; worker->watch.count > 0 && i < worker->connections_count; i++) {
        enum watch_kind kind = watcher_at(worker, i)->kind;
        if (kind == WATCH_POLL) {
            end_poll(worker, i);
        } else if (kind != WATCH_NOTHING) {
            end_stream(worker, i);
        }
    }
}

int watch_start(struct api_worker *worker)
{
    struct watchers *watch = &worker->watch;
    uint32_t buckets = 64;
    while (buckets < worker->connections_count) {
        buckets *= 2;
    }
    watch->wheel_ms = worker->now_ms / WHEEL_STEP_MS * WHEEL_STEP_MS;
    watch->buckets = calloc(buckets, sizeof(*watch->buckets));
    watch->buckets_mask = buckets - 1;
    watch->watchers = api_map((size_t)worker->connections_count * sizeof(*watch->watchers));
    return watch->buckets != NULL && watch->watchers != NULL ? 0 : ERR_NOMEM;
}

void watch_end(struct api_worker *worker)
{
    struct watchers *watch = &worker->watch;
    free(watch->buckets);
    api_unmap(watch->watchers, (size_t)worker->connections_count * sizeof(*watch->watchers));
}
