/* See watch.h. */
#include "api/watch.h"

#include <stdlib.h>
#include <string.h>

#include "api/live.h"
#include "base/err.h"

#define HEARTBEAT_MS 15000
/* A stream looks its order up with every fourth heartbeat: news are not lost unnoticed, and 100,000
 * streams that look cost the gate more than the sale. */
#define BEATS_A_LOOK 4
#define STREAM_EVERY_MS 1000
/* Streams served in one turn: about half a millisecond of writes. */
#define STREAMS_A_TURN 256
#define NOTICES_A_TURN 512

/* ---- chains ---- */

static uint32_t *key_bucket(struct api_worker *worker, struct order_id key)
{
    uint64_t h = order_id_hash(key, 0);
    return &worker->keys[(h >> 32) & worker->keys_mask];
}

static void key_link(struct api_worker *worker, uint32_t connection)
{
    struct slot *slot = &worker->slots[connection];
    uint32_t *bucket = key_bucket(worker, slot->key);
    slot->key_previous = 0;
    slot->key_next = *bucket;
    if (*bucket != 0) {
        worker->slots[*bucket - 1].key_previous = connection + 1;
    }
    *bucket = connection + 1;
}

static void key_unlink(struct api_worker *worker, uint32_t connection)
{
    struct slot *slot = &worker->slots[connection];
    if (slot->key_previous != 0) {
        worker->slots[slot->key_previous - 1].key_next = slot->key_next;
    } else {
        *key_bucket(worker, slot->key) = slot->key_next;
    }
    if (slot->key_next != 0) {
        worker->slots[slot->key_next - 1].key_previous = slot->key_previous;
    }
}

/* due_ms: when to look at it; further ahead than the wheel reaches, it is linked on from there. */
static void wheel_link(struct api_worker *worker, uint32_t connection, int64_t due_ms)
{
    struct slot *slot = &worker->slots[connection];
    int64_t last = worker->wheel_ms + (int64_t)(WHEEL_SLOTS - 1) * WHEEL_STEP_MS;
    int64_t at = due_ms < worker->wheel_ms ? worker->wheel_ms : due_ms > last ? last : due_ms;
    uint32_t place = (uint32_t)(at / WHEEL_STEP_MS) % WHEEL_SLOTS;
    slot->wake_ms = due_ms;
    slot->wheel_place = place;
    slot->wheel_previous = 0;
    slot->wheel_next = worker->wheel[place];
    if (slot->wheel_next != 0) {
        worker->slots[slot->wheel_next - 1].wheel_previous = connection + 1;
    }
    worker->wheel[place] = connection + 1;
}

static void wheel_unlink(struct api_worker *worker, uint32_t connection)
{
    struct slot *slot = &worker->slots[connection];
    if (slot->wheel_previous != 0) {
        worker->slots[slot->wheel_previous - 1].wheel_next = slot->wheel_next;
    } else {
        worker->wheel[slot->wheel_place] = slot->wheel_next;
    }
    if (slot->wheel_next != 0) {
        worker->slots[slot->wheel_next - 1].wheel_previous = slot->wheel_previous;
    }
}

/* Streams that look at the same thing stand together, so that it is formatted once for all. */
static void list_link(struct api_worker *worker, uint32_t connection)
{
    struct slot *slot = &worker->slots[connection];
    uint32_t after = *key_bucket(worker, slot->key);
    while (after != 0 &&
           (after == connection + 1 || !order_id_equal(worker->slots[after - 1].key, slot->key))) {
        after = worker->slots[after - 1].key_next;
    }
    slot->list_previous = after;
    slot->list_next = after != 0 ? worker->slots[after - 1].list_next : worker->items_first;
    if (after != 0) {
        worker->slots[after - 1].list_next = connection + 1;
    } else {
        worker->items_first = connection + 1;
    }
    if (slot->list_next != 0) {
        worker->slots[slot->list_next - 1].list_previous = connection + 1;
    }
}

static void list_unlink(struct api_worker *worker, uint32_t connection)
{
    struct slot *slot = &worker->slots[connection];
    if (worker->items_cursor == connection + 1) {
        worker->items_cursor = slot->list_next;
    }
    if (slot->list_previous != 0) {
        worker->slots[slot->list_previous - 1].list_next = slot->list_next;
    } else {
        worker->items_first = slot->list_next;
    }
    if (slot->list_next != 0) {
        worker->slots[slot->list_next - 1].list_previous = slot->list_previous;
    }
}

/* ---- registering ---- */

static struct slot *watch_add(struct api_worker *worker, struct http_exchange exchange,
                              enum watch_kind kind, struct order_id key, int64_t due_ms)
{
    struct slot *slot = api_slot(worker, exchange);
    slot->watch = (uint8_t)kind;
    slot->key = key;
    slot->item_version = 0;
    slot->sold_out_sent = false;
    slot->looking = false; /* an older look of this connection is of an older exchange */
    slot->look_more = slot->look_due = false;
    slot->beats = 0;
    key_link(worker, exchange.connection);
    wheel_link(worker, exchange.connection, due_ms);
    if (kind == WATCH_ITEM || kind == WATCH_LIVE) {
        if (worker->items_first == 0) { /* the first one: the rounds keep its time */
            worker->items_next_ms = worker->now_ms + STREAM_EVERY_MS;
        }
        slot->due_ms = worker->now_ms;
        list_link(worker, exchange.connection);
    } else {
        embedded_gate_watch(worker->shared->engine, worker->loop, key);
    }
    worker->watchers++;
    metrics_add(worker->metrics, METRIC_HTTP_WATCHERS, 1);
    return slot;
}

static void watch_remove(struct api_worker *worker, uint32_t connection)
{
    struct slot *slot = &worker->slots[connection];
    if (slot->watch == WATCH_ITEM || slot->watch == WATCH_LIVE) {
        list_unlink(worker, connection);
    } else {
        embedded_gate_unwatch(worker->shared->engine, worker->loop, slot->key);
    }
    key_unlink(worker, connection);
    wheel_unlink(worker, connection);
    slot->watch = WATCH_NOTHING;
    worker->watchers--;
    metrics_sub(worker->metrics, METRIC_HTTP_WATCHERS, 1);
}

void watch_gone(struct api_worker *worker, struct http_exchange exchange)
{
    struct slot *slot = &worker->slots[exchange.connection];
    if (slot->watch != WATCH_NOTHING && slot->generation == exchange.generation) {
        watch_remove(worker, exchange.connection);
    }
}

static struct http_exchange exchange_of(const struct api_worker *worker, uint32_t connection)
{
    return (struct http_exchange){connection, worker->slots[connection].generation};
}

/* ---- orders ---- */

static void end_stream(struct api_worker *worker, uint32_t connection)
{
    struct http_exchange exchange = exchange_of(worker, connection);
    watch_remove(worker, connection);
    http_stream_end(worker->server, exchange);
}

/* Later than now: the peer has not taken what it was sent before, or the gate could not say. */
static void look_again(struct api_worker *worker, uint32_t connection)
{
    struct slot *slot = &worker->slots[connection];
    int64_t at_ms = worker->now_ms + STREAM_EVERY_MS;
    slot->look_due = true;
    bool ends_first =
        slot->watch == WATCH_POLL && slot->due_ms > worker->now_ms && slot->due_ms < at_ms;
    wheel_unlink(worker, connection);
    wheel_link(worker, connection, ends_first ? slot->due_ms : at_ms);
}

/* The order has left the board. */
static void tell_gone(struct api_worker *worker, uint32_t connection)
{
    struct http_exchange exchange = exchange_of(worker, connection);
    if (worker->slots[connection].watch == WATCH_ORDER) {
        end_stream(worker, connection);
        return;
    }
    watch_remove(worker, connection);
    (void)api_refuse_simply(worker, exchange, REFUSAL_NOT_FOUND, "see /v1/me/orders");
}

static void tell_poll(struct api_worker *worker, uint32_t connection, const struct order_view *view)
{
    struct http_exchange exchange = exchange_of(worker, connection);
    struct out body = api_scratch(worker);
    if (!json_order_view(&body, worker->shared->catalog, view)) {
        tell_gone(worker, connection);
        return;
    }
    watch_remove(worker, connection);
    (void)api_json(worker, exchange, 200, "", NULL, out_span(&body));
}

static void tell_stream(struct api_worker *worker, uint32_t connection,
                        const struct order_view *view)
{
    struct slot *slot = &worker->slots[connection];
    /* What was told may have been told by another front, which saw more than this one sees now. */
    if (view->version > slot->version_sent) {
        struct out event = api_scratch(worker);
        out_lit(&event, "event: order\nid: ");
        out_u64(&event, view->version);
        out_lit(&event, "\ndata: ");
        if (!json_order_view(&event, worker->shared->catalog, view)) {
            tell_gone(worker, connection);
            return;
        }
        out_lit(&event, "\n\n");
        if (!http_stream_send(worker->server, exchange_of(worker, connection), out_span(&event))) {
            if (http_alive(worker->server, exchange_of(worker, connection))) {
                look_again(worker, connection);
            }
            return;
        }
        slot->version_sent = view->version;
    }
    if (order_state_final((enum order_state)view->state)) {
        end_stream(worker, connection);
    }
}

/* Shows one watcher of an order the newest state it has heard of, once that is durable. */
static void push(struct api_worker *worker, uint32_t connection)
{
    struct slot *slot = &worker->slots[connection];
    const struct order_view *view = &slot->order;
    if (!api_durable(worker, view->lsn)) {
        if (slot->wait == WAIT_NOTHING) {
            if (api_after_durable(worker, view->lsn, exchange_of(worker, connection), NULL)) {
                slot->wait = WAIT_PUSH;
            } else {
                look_again(worker, connection);
            }
        }
        return;
    }
    if (slot->watch == WATCH_ORDER) {
        tell_stream(worker, connection, view);
    } else if ((view->state != ORDER_QUEUED && view->state != slot->hold_state) ||
               worker->now_ms >= slot->due_ms) {
        tell_poll(worker, connection, view);
    }
}

static bool watches_order(const struct slot *slot)
{
    return slot->watch == WATCH_POLL || slot->watch == WATCH_ORDER;
}

/* A state of the order was seen, in a notice or by a look. Looks may be answered late: what is older
 * than what was seen before is not shown, or the buyer's view would go backwards. */
static void see(struct api_worker *worker, uint32_t connection, const struct order_view *view)
{
    struct slot *slot = &worker->slots[connection];
    if (view->version > slot->order.version) {
        slot->order = *view;
    }
    push(worker, connection);
}

static void look(struct api_worker *worker, uint32_t connection);

static enum http_outcome looked(struct api_request *req, struct api_gate_request *request)
{
    struct api_worker *worker = req->worker;
    uint32_t connection = request->exchange.connection;
    struct slot *slot = &worker->slots[connection];
    if (!watches_order(slot) || slot->generation != request->exchange.generation) {
        return HTTP_ANSWERED; /* told meanwhile */
    }
    bool more = slot->look_more;
    slot->looking = slot->look_more = false;
    if (request->gate.refusal == REFUSAL_NONE) {
        see(worker, connection, &request->gate.order);
    } else if (!api_gate_request_blind(request)) {
        tell_gone(worker, connection);
    } else {
        /* A poll whose time is over is told what was seen last: it was so after it asked. */
        look_again(worker, connection);
        push(worker, connection);
    }
    if (more && watches_order(slot) && slot->generation == request->exchange.generation) {
        look(worker, connection);
    }
    return HTTP_ANSWERED;
}

/* Looks the order up, and hears of it from now on. The answer may come later; one look at a time. */
static void look(struct api_worker *worker, uint32_t connection)
{
    struct slot *slot = &worker->slots[connection];
    struct api_request req = {.worker = worker,
                              .exchange = exchange_of(worker, connection),
                              .user = slot->order.user,
                              .now_ms = worker->now_ms};
    if (slot->looking) {
        slot->look_more = true; /* the one under way may have looked before what there is to see */
        return;
    }
    struct api_gate_request *request = api_gate_request_new(&req, GATE_REQUEST_ORDER, looked);
    if (request == NULL) {
        look_again(worker, connection);
        push(worker, connection);
        return;
    }
    slot->looking = true;
    request->gate.id = slot->key;
    request->gate.watch = true;
    (void)api_gate_request(&req, request);
}

void watch_push(struct api_worker *worker, struct http_exchange exchange)
{
    struct slot *slot = &worker->slots[exchange.connection];
    if (watches_order(slot) && slot->generation == exchange.generation) {
        push(worker, exchange.connection);
    }
}

void watch_lost(struct api_worker *worker, struct http_exchange exchange)
{
    struct slot *slot = &worker->slots[exchange.connection];
    if (slot->generation != exchange.generation) {
        return;
    }
    if (slot->watch == WATCH_ORDER) {
        end_stream(worker, exchange.connection);
    } else if (slot->watch == WATCH_POLL) {
        watch_remove(worker, exchange.connection);
        (void)api_refuse_simply(worker, exchange, REFUSAL_UNKNOWN_OUTCOME,
                                "the journal's disk failed while this order was being written");
    }
}

void watch_finished(struct api_worker *worker, struct http_exchange exchange)
{
    struct slot *slot = api_slot(worker, exchange);
    slot->finished = true; /* for a poll that is not watched yet: the gate is still being asked */
    if (slot->watch == WATCH_POLL) {
        slot->due_ms = worker->now_ms;
        look(worker, exchange.connection);
    }
}

bool watch_full(const struct api_worker *worker)
{
    return worker->watchers >= worker->slots_count - worker->slots_count / 4;
}

enum http_outcome watch_poll(struct api_worker *worker, struct http_exchange exchange,
                             const struct order_view *view, enum order_state hold_state,
                             int64_t due_ms)
{
    struct slot *slot = watch_add(worker, exchange, WATCH_POLL, view->id, due_ms);
    slot->hold_state = (uint8_t)hold_state;
    slot->due_ms = due_ms;
    slot->order = *view;
    look(worker, exchange.connection);
    return slot->watch == WATCH_POLL ? HTTP_PENDING : HTTP_ANSWERED;
}

static bool begin_stream(struct api_worker *worker, struct http_exchange exchange)
{
    char text[512];
    struct out headers = out_over(text, sizeof(text) - 1);
    /* The second for nginx, which would keep events back until it has a buffer full of them. */
    out_lit(&headers, "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n");
    api_cors(worker, exchange, &headers);
    text[headers.len] = '\0';
    return http_stream_begin(worker->server, exchange, text);
}

void watch_order(struct api_worker *worker, struct http_exchange exchange,
                 const struct order_view *view, uint16_t version_sent)
{
    if (!begin_stream(worker, exchange)) {
        return;
    }
    struct slot *slot =
        watch_add(worker, exchange, WATCH_ORDER, view->id, worker->now_ms + HEARTBEAT_MS);
    slot->version_sent = version_sent;
    slot->order = *view;
    push(worker, exchange.connection);
    if (slot->watch == WATCH_ORDER) {
        look(worker, exchange.connection);
    }
}

/* Shows a changed order to everyone who watches it here. */
static void see_all(struct api_worker *worker, const struct order_view *view)
{
    uint32_t link = *key_bucket(worker, view->id);
    while (link != 0) {
        struct slot *slot = &worker->slots[link - 1];
        uint32_t next = slot->key_next;
        if (watches_order(slot) && order_id_equal(slot->key, view->id)) {
            see(worker, link - 1, view);
        }
        link = next;
    }
}

bool watch_notices(struct api_worker *worker)
{
    struct order_view views[NOTICES_A_TURN];
    bool all = false;
    size_t n =
        embedded_gate_notices(worker->shared->engine, worker->loop, views, NOTICES_A_TURN, &all);
    for (size_t i = 0; i < n; i++) {
        see_all(worker, &views[i]);
    }
    for (uint32_t i = 0; all && i < worker->slots_count; i++) {
        if (watches_order(&worker->slots[i])) {
            look(worker, i);
        }
    }
    return n > 0 || all;
}

/* ---- items and the dashboard ---- */

/* What the streams of one key are sent in this round: formatted when the first of them is met. */
struct news {
    struct order_id key;
    bool made;
    bool gone;
    struct item_view view;
    struct out event;
};

static void make_item_news(struct api_worker *worker, struct news *news)
{
    bool known = api_item(worker, news->key.hi, &news->view);
    const struct sale_row *sale = NULL;
    struct catalog *catalog = worker->shared->catalog;
    catalog_lock(catalog);
    const struct item_row *item = catalog_item(catalog, news->key.hi, &sale);
    news->gone = !known || item == NULL;
    if (!news->gone) {
        out_lit(&news->event, "event: item\ndata: ");
        json_item(&news->event, sale, item, &news->view, worker->now_ms);
        out_lit(&news->event, "\n\n");
    }
    catalog_unlock(catalog);
}

static void make_news(struct api_worker *worker, struct order_id key, struct news *news)
{
    *news = (struct news){.key = key, .made = true, .event = api_scratch(worker)};
    if (key.hi == 0) {
        out_lit(&news->event, "event: live\ndata: ");
        live_json(worker, &news->event);
        out_lit(&news->event, "\n\n");
    } else {
        make_item_news(worker, news);
    }
}

/* An event of its own, which a slow peer may not take together with the other one: then the next
 * round tries again, whether or not anything has changed. */
static void send_sold_out(struct api_worker *worker, uint32_t connection, bool sold_out)
{
    struct slot *slot = &worker->slots[connection];
    if (!sold_out || slot->sold_out_sent) {
        slot->sold_out_sent = sold_out;
        return;
    }
    char text[96];
    struct out event = out_over(text, sizeof(text));
    out_lit(&event, "event: item.sold_out\ndata: {\"item_id\":");
    out_u64(&event, slot->key.hi);
    out_lit(&event, "}\n\n");
    slot->sold_out_sent =
        http_stream_send(worker->server, exchange_of(worker, connection), out_span(&event));
}

static void send_news(struct api_worker *worker, uint32_t connection, struct news *news)
{
    struct slot *slot = &worker->slots[connection];
    if (news->gone) {
        end_stream(worker, connection);
        return;
    }
    /* The state may change with time alone, so compare what is shown, not only the version. */
    uint64_t shown =
        news->view.version * ITEM_STATE_COUNT + (uint64_t)item_state(&news->view, worker->now_ms);
    if (slot->watch == WATCH_LIVE || slot->item_version != shown) {
        if (worker->now_ms < slot->due_ms ||
            !http_stream_send(worker->server, exchange_of(worker, connection),
                              out_span(&news->event))) {
            return; /* the next round tries again */
        }
        slot->item_version = shown;
        slot->due_ms = worker->now_ms + STREAM_EVERY_MS;
    }
    if (slot->watch == WATCH_ITEM) {
        send_sold_out(worker, connection, news->view.available == 0);
    }
}

/* Sends to some of the streams; true when this round is done. */
static bool serve_streams(struct api_worker *worker)
{
    struct news news = {.made = false};
    for (int i = 0; i < STREAMS_A_TURN && worker->items_cursor != 0; i++) {
        uint32_t connection = worker->items_cursor - 1;
        struct slot *slot = &worker->slots[connection];
        worker->items_cursor = slot->list_next;
        if (!news.made || !order_id_equal(news.key, slot->key)) {
            make_news(worker, slot->key, &news);
        }
        send_news(worker, connection, &news);
    }
    return worker->items_cursor == 0;
}

/* The present state, at once, to this one alone: the others may have been told a moment ago. */
static void begin_news(struct api_worker *worker, struct http_exchange exchange,
                       enum watch_kind kind, struct order_id key)
{
    struct news news;
    if (begin_stream(worker, exchange)) {
        (void)watch_add(worker, exchange, kind, key, worker->now_ms + HEARTBEAT_MS);
        make_news(worker, key, &news);
        send_news(worker, exchange.connection, &news);
    }
}

void watch_item(struct api_worker *worker, struct http_exchange exchange, uint64_t item)
{
    begin_news(worker, exchange, WATCH_ITEM, (struct order_id){item, 0});
}

void watch_live(struct api_worker *worker, struct http_exchange exchange)
{
    begin_news(worker, exchange, WATCH_LIVE, (struct order_id){0, 0});
}

/* ---- time ---- */

static void fire(struct api_worker *worker, uint32_t connection)
{
    struct slot *slot = &worker->slots[connection];
    if (slot->watch == WATCH_POLL) {
        look(worker, connection); /* past its time: answered with whatever there is */
        if (slot->watch == WATCH_POLL) {
            look_again(worker, connection);
        }
        return;
    }
    /* A stream the peer does not drain: try its newest state again; else a heartbeat. */
    if (!http_stream_ready(worker->server, exchange_of(worker, connection))) {
        look_again(worker, connection);
        return;
    }
    if (slot->watch == WATCH_ORDER) {
        /* Of who stands in line there are no news before he is decided. */
        bool due = slot->look_due || ++slot->beats % BEATS_A_LOOK == 0 ||
                   slot->order.reason == REFUSAL_UNDECIDED;
        slot->look_due = false;
        push(worker, connection); /* what the peer did not take before, however long a look takes */
        if (slot->watch == WATCH_ORDER && due) {
            look(worker, connection);
        }
        if (slot->watch != WATCH_ORDER) {
            return;
        }
    }
    (void)http_stream_send(worker->server, exchange_of(worker, connection),
                           (struct span){":\n\n", 3});
    wheel_unlink(worker, connection);
    wheel_link(worker, connection, worker->now_ms + HEARTBEAT_MS);
}

static void run_wheel(struct api_worker *worker)
{
    while (worker->wheel_ms + WHEEL_STEP_MS <= worker->now_ms) {
        uint32_t place = (uint32_t)(worker->wheel_ms / WHEEL_STEP_MS) % WHEEL_SLOTS;
        worker->wheel_ms += WHEEL_STEP_MS;
        uint32_t link = worker->wheel[place];
        while (link != 0) {
            struct slot *slot = &worker->slots[link - 1];
            uint32_t next = slot->wheel_next;
            if (slot->wake_ms > worker->now_ms) {
                wheel_unlink(worker, link - 1);
                wheel_link(worker, link - 1, slot->wake_ms);
            } else {
                fire(worker, link - 1);
            }
            link = next;
        }
    }
}

int64_t watch_tick(struct api_worker *worker)
{
    if (worker->watchers == 0) {
        worker->wheel_ms = worker->now_ms / WHEEL_STEP_MS * WHEEL_STEP_MS;
        return INT64_MAX;
    }
    run_wheel(worker);
    int64_t next = worker->wheel_ms + WHEEL_STEP_MS;
    if (worker->items_first != 0) {
        if (worker->now_ms >= worker->items_next_ms && worker->items_cursor == 0) {
            worker->items_cursor = worker->items_first;
            worker->items_next_ms = worker->now_ms + STREAM_EVERY_MS;
        }
        if (worker->items_cursor != 0) {
            if (!serve_streams(worker)) {
                return worker->now_ms;
            }
            /* From its end: whom this round came to last has a second, too, before the next one. */
            worker->items_next_ms = worker->now_ms + STREAM_EVERY_MS;
        }
        next = worker->items_next_ms < next ? worker->items_next_ms : next;
    }
    return next;
}

void watch_drain(struct api_worker *worker)
{
    for (uint32_t i = 0; worker->watchers > 0 && i < worker->slots_count; i++) {
        struct slot *slot = &worker->slots[i];
        if (slot->watch == WATCH_POLL) {
            slot->due_ms = worker->now_ms;
            look(worker, i);
        } else if (slot->watch != WATCH_NOTHING) {
            end_stream(worker, i);
        }
    }
}

int watch_start(struct api_worker *worker)
{
    uint32_t buckets = 64;
    while (buckets < worker->slots_count) {
        buckets *= 2;
    }
    worker->keys = calloc(buckets, sizeof(*worker->keys));
    worker->keys_mask = buckets - 1;
    return worker->keys == NULL ? ERR_NOMEM : 0;
}

void watch_done(struct api_worker *worker)
{
    free(worker->keys);
}
