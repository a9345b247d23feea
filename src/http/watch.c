/* See watch.h. */
#include "http/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "http/live.h"

#define HEARTBEAT_MS 15000
/* A stream looks its order up with every fourth heartbeat: news are not lost unnoticed, and 100,000
 * streams that look cost the gate more than the sale. */
#define BEATS_A_LOOK 4
#define STREAM_EVERY_MS 1000
/* Streams served in one turn: about half a millisecond of writes. */
#define STREAMS_A_TURN 256
#define NOTICES_A_TURN 512

/* ---- chains ---- */

static uint32_t *key_bucket(struct front *front, struct order_id key)
{
    uint64_t h = (key.hi ^ key.lo * 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
    return &front->keys[(h >> 32) & front->keys_mask];
}

static void key_link(struct front *front, uint32_t connection)
{
    struct slot *slot = &front->slots[connection];
    uint32_t *bucket = key_bucket(front, slot->key);
    slot->key_previous = 0;
    slot->key_next = *bucket;
    if (*bucket != 0) {
        front->slots[*bucket - 1].key_previous = connection + 1;
    }
    *bucket = connection + 1;
}

static void key_unlink(struct front *front, uint32_t connection)
{
    struct slot *slot = &front->slots[connection];
    if (slot->key_previous != 0) {
        front->slots[slot->key_previous - 1].key_next = slot->key_next;
    } else {
        *key_bucket(front, slot->key) = slot->key_next;
    }
    if (slot->key_next != 0) {
        front->slots[slot->key_next - 1].key_previous = slot->key_previous;
    }
}

/* due_ms: when to look at it; further ahead than the wheel reaches, it is linked on from there. */
static void wheel_link(struct front *front, uint32_t connection, int64_t due_ms)
{
    struct slot *slot = &front->slots[connection];
    int64_t last = front->wheel_ms + (int64_t)(WHEEL_PLACES - 1) * WHEEL_STEP_MS;
    int64_t at = due_ms < front->wheel_ms ? front->wheel_ms : due_ms > last ? last : due_ms;
    uint32_t place = (uint32_t)(at / WHEEL_STEP_MS) % WHEEL_PLACES;
    slot->wake_ms = due_ms;
    slot->wheel_place = place;
    slot->wheel_previous = 0;
    slot->wheel_next = front->wheel[place];
    if (slot->wheel_next != 0) {
        front->slots[slot->wheel_next - 1].wheel_previous = connection + 1;
    }
    front->wheel[place] = connection + 1;
}

static void wheel_unlink(struct front *front, uint32_t connection)
{
    struct slot *slot = &front->slots[connection];
    if (slot->wheel_previous != 0) {
        front->slots[slot->wheel_previous - 1].wheel_next = slot->wheel_next;
    } else {
        front->wheel[slot->wheel_place] = slot->wheel_next;
    }
    if (slot->wheel_next != 0) {
        front->slots[slot->wheel_next - 1].wheel_previous = slot->wheel_previous;
    }
}

/* Streams that look at the same thing stand together, so that it is formatted once for all. */
static void list_link(struct front *front, uint32_t connection)
{
    struct slot *slot = &front->slots[connection];
    uint32_t after = *key_bucket(front, slot->key);
    while (after != 0 &&
           (after == connection + 1 || !order_id_equal(front->slots[after - 1].key, slot->key))) {
        after = front->slots[after - 1].key_next;
    }
    slot->list_previous = after;
    slot->list_next = after != 0 ? front->slots[after - 1].list_next : front->items_first;
    if (after != 0) {
        front->slots[after - 1].list_next = connection + 1;
    } else {
        front->items_first = connection + 1;
    }
    if (slot->list_next != 0) {
        front->slots[slot->list_next - 1].list_previous = connection + 1;
    }
}

static void list_unlink(struct front *front, uint32_t connection)
{
    struct slot *slot = &front->slots[connection];
    if (front->items_cursor == connection + 1) {
        front->items_cursor = slot->list_next;
    }
    if (slot->list_previous != 0) {
        front->slots[slot->list_previous - 1].list_next = slot->list_next;
    } else {
        front->items_first = slot->list_next;
    }
    if (slot->list_next != 0) {
        front->slots[slot->list_next - 1].list_previous = slot->list_previous;
    }
}

/* ---- registering ---- */

static struct slot *watch_add(struct front *front, struct http_exchange exchange,
                              enum watch_kind kind, struct order_id key, int64_t due_ms)
{
    struct slot *slot = front_slot(front, exchange);
    slot->watch = (uint8_t)kind;
    slot->key = key;
    slot->item_version = 0;
    slot->sold_out_told = false;
    slot->looking = false; /* an older look of this connection is of an older exchange */
    slot->look_more = slot->look_due = false;
    slot->beats = 0;
    key_link(front, exchange.connection);
    wheel_link(front, exchange.connection, due_ms);
    if (kind == WATCH_ITEM || kind == WATCH_LIVE) {
        if (front->items_first == 0) { /* the first one: the rounds keep its time */
            front->items_next_ms = front->now_ms + STREAM_EVERY_MS;
        }
        slot->due_ms = front->now_ms;
        list_link(front, exchange.connection);
    } else {
        engine_watch(front->shared->engine, front->loop, key);
    }
    front->watchers++;
    metrics_add(front->metrics, METRIC_HTTP_WATCHERS, 1);
    http_tag(front->server, exchange, 1);
    return slot;
}

static void watch_remove(struct front *front, uint32_t connection)
{
    struct slot *slot = &front->slots[connection];
    if (slot->watch == WATCH_ITEM || slot->watch == WATCH_LIVE) {
        list_unlink(front, connection);
    } else {
        engine_unwatch(front->shared->engine, front->loop, slot->key);
    }
    key_unlink(front, connection);
    wheel_unlink(front, connection);
    slot->watch = WATCH_NOTHING;
    front->watchers--;
    metrics_sub(front->metrics, METRIC_HTTP_WATCHERS, 1);
}

void watch_gone(struct front *front, struct http_exchange exchange)
{
    struct slot *slot = &front->slots[exchange.connection];
    if (slot->watch != WATCH_NOTHING && slot->generation == exchange.generation) {
        watch_remove(front, exchange.connection);
    }
}

static struct http_exchange exchange_of(const struct front *front, uint32_t connection)
{
    return (struct http_exchange){connection, front->slots[connection].generation};
}

/* ---- orders ---- */

static void end_stream(struct front *front, uint32_t connection)
{
    struct http_exchange exchange = exchange_of(front, connection);
    watch_remove(front, connection);
    http_stream_end(front->server, exchange);
}

/* Later than now: the peer has not taken what it was sent before, or the gate could not say. */
static void look_again(struct front *front, uint32_t connection)
{
    struct slot *slot = &front->slots[connection];
    int64_t at_ms = front->now_ms + STREAM_EVERY_MS;
    slot->look_due = true;
    bool ends_first =
        slot->watch == WATCH_POLL && slot->due_ms > front->now_ms && slot->due_ms < at_ms;
    wheel_unlink(front, connection);
    wheel_link(front, connection, ends_first ? slot->due_ms : at_ms);
}

/* The order has left the board. */
static void tell_gone(struct front *front, uint32_t connection)
{
    struct http_exchange exchange = exchange_of(front, connection);
    if (front->slots[connection].watch == WATCH_ORDER) {
        end_stream(front, connection);
        return;
    }
    watch_remove(front, connection);
    (void)front_refuse_simply(front, exchange, REFUSAL_NOT_FOUND, "see /v1/me/orders");
}

static void tell_poll(struct front *front, uint32_t connection, const struct order_view *view)
{
    struct http_exchange exchange = exchange_of(front, connection);
    struct out body = front_scratch(front);
    if (!json_order_view(&body, front->shared->catalog, view)) {
        tell_gone(front, connection);
        return;
    }
    watch_remove(front, connection);
    (void)front_json(front, exchange, 200, "", NULL, out_span(&body));
}

static void tell_stream(struct front *front, uint32_t connection, const struct order_view *view)
{
    struct slot *slot = &front->slots[connection];
    /* What was told may have been told by another front, which saw more than this one sees now. */
    if (view->version > slot->version_told) {
        struct out event = front_scratch(front);
        out_lit(&event, "event: order\nid: ");
        out_u64(&event, view->version);
        out_lit(&event, "\ndata: ");
        if (!json_order_view(&event, front->shared->catalog, view)) {
            tell_gone(front, connection);
            return;
        }
        out_lit(&event, "\n\n");
        if (!http_stream_send(front->server, exchange_of(front, connection), out_span(&event))) {
            if (http_alive(front->server, exchange_of(front, connection))) {
                look_again(front, connection);
            }
            return;
        }
        slot->version_told = view->version;
    }
    if (order_state_final((enum order_state)view->state)) {
        end_stream(front, connection);
    }
}

/* Shows one watcher of an order the newest state it has heard of, once that is durable. */
static void push(struct front *front, uint32_t connection)
{
    struct slot *slot = &front->slots[connection];
    const struct order_view *view = &slot->order;
    if (!front_durable(front, view->lsn)) {
        if (slot->wait == WAIT_NOTHING) {
            if (front_after(front, view->lsn, exchange_of(front, connection), NULL)) {
                slot->wait = WAIT_PUSH;
            } else {
                look_again(front, connection);
            }
        }
        return;
    }
    if (slot->watch == WATCH_ORDER) {
        tell_stream(front, connection, view);
    } else if ((view->state != ORDER_QUEUED && view->state != slot->hold_state) ||
               front->now_ms >= slot->due_ms) {
        tell_poll(front, connection, view);
    }
}

static bool watches_order(const struct slot *slot)
{
    return slot->watch == WATCH_POLL || slot->watch == WATCH_ORDER;
}

/* A state of the order was seen, in a notice or by a look. Looks may be answered late: what is older
 * than what was seen before is not shown, or the buyer's view would go backwards. */
static void see(struct front *front, uint32_t connection, const struct order_view *view)
{
    struct slot *slot = &front->slots[connection];
    if (view->version > slot->order.version) {
        slot->order = *view;
    }
    push(front, connection);
}

static void look(struct front *front, uint32_t connection);

static enum http_outcome looked(struct asking *asking, struct front_ask *ask)
{
    struct front *front = asking->front;
    uint32_t connection = ask->exchange.connection;
    struct slot *slot = &front->slots[connection];
    if (!watches_order(slot) || slot->generation != ask->exchange.generation) {
        return HTTP_ANSWERED; /* told meanwhile */
    }
    bool more = slot->look_more;
    slot->looking = slot->look_more = false;
    if (ask->gate.refusal == REFUSAL_NONE) {
        see(front, connection, &ask->gate.order);
    } else if (!front_ask_blind(ask)) {
        tell_gone(front, connection);
    } else {
        /* A poll whose time is over is told what was seen last: it was so after it asked. */
        look_again(front, connection);
        push(front, connection);
    }
    if (more && watches_order(slot) && slot->generation == ask->exchange.generation) {
        look(front, connection);
    }
    return HTTP_ANSWERED;
}

/* Looks the order up, and hears of it from now on. The answer may come later; one look at a time. */
static void look(struct front *front, uint32_t connection)
{
    struct slot *slot = &front->slots[connection];
    struct asking asking = {.front = front,
                            .exchange = exchange_of(front, connection),
                            .user = slot->order.user,
                            .now_ms = front->now_ms};
    if (slot->looking) {
        slot->look_more = true; /* the one under way may have looked before what there is to see */
        return;
    }
    struct front_ask *ask = front_ask_new(&asking, ASK_ORDER, looked);
    if (ask == NULL) {
        look_again(front, connection);
        push(front, connection);
        return;
    }
    slot->looking = true;
    ask->gate.id = slot->key;
    ask->gate.watch = true;
    (void)front_ask(&asking, ask);
}

void watch_push(struct front *front, struct http_exchange exchange)
{
    struct slot *slot = &front->slots[exchange.connection];
    if (watches_order(slot) && slot->generation == exchange.generation) {
        push(front, exchange.connection);
    }
}

void watch_lost(struct front *front, struct http_exchange exchange)
{
    struct slot *slot = &front->slots[exchange.connection];
    if (slot->generation != exchange.generation) {
        return;
    }
    if (slot->watch == WATCH_ORDER) {
        end_stream(front, exchange.connection);
    } else if (slot->watch == WATCH_POLL) {
        watch_remove(front, exchange.connection);
        (void)front_refuse_simply(front, exchange, REFUSAL_UNKNOWN_OUTCOME,
                                  "the journal's disk failed while this order was being written");
    }
}

void watch_finished(struct front *front, struct http_exchange exchange)
{
    struct slot *slot = front_slot(front, exchange);
    slot->finished = true; /* for a poll that is not watched yet: the gate is still being asked */
    if (slot->watch == WATCH_POLL) {
        slot->due_ms = front->now_ms;
        look(front, exchange.connection);
    }
}

bool watch_full(const struct front *front)
{
    return front->watchers >= front->slots_count - front->slots_count / 4;
}

enum http_outcome watch_poll(struct front *front, struct http_exchange exchange,
                             const struct order_view *view, enum order_state hold_state,
                             int64_t due_ms)
{
    struct slot *slot = watch_add(front, exchange, WATCH_POLL, view->id, due_ms);
    slot->hold_state = (uint8_t)hold_state;
    slot->due_ms = due_ms;
    slot->order = *view;
    look(front, exchange.connection);
    return slot->watch == WATCH_POLL ? HTTP_PENDING : HTTP_ANSWERED;
}

static bool begin_stream(struct front *front, struct http_exchange exchange)
{
    char text[512];
    struct out headers = out_over(text, sizeof(text) - 1);
    /* The second for nginx, which would keep events back until it has a buffer full of them. */
    out_lit(&headers, "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n");
    front_cors(front, exchange, &headers);
    text[headers.len] = '\0';
    return http_stream_begin(front->server, exchange, text);
}

void watch_order(struct front *front, struct http_exchange exchange, const struct order_view *view,
                 uint16_t version_told)
{
    if (!begin_stream(front, exchange)) {
        return;
    }
    struct slot *slot =
        watch_add(front, exchange, WATCH_ORDER, view->id, front->now_ms + HEARTBEAT_MS);
    slot->version_told = version_told;
    slot->order = *view;
    push(front, exchange.connection);
    if (slot->watch == WATCH_ORDER) {
        look(front, exchange.connection);
    }
}

/* Shows a changed order to everyone who watches it here. */
static void see_all(struct front *front, const struct order_view *view)
{
    uint32_t link = *key_bucket(front, view->id);
    while (link != 0) {
        struct slot *slot = &front->slots[link - 1];
        uint32_t next = slot->key_next;
        if (watches_order(slot) && order_id_equal(slot->key, view->id)) {
            see(front, link - 1, view);
        }
        link = next;
    }
}

bool watch_notices(struct front *front)
{
    struct order_view views[NOTICES_A_TURN];
    bool all = false;
    size_t n = engine_notices(front->shared->engine, front->loop, views, NOTICES_A_TURN, &all);
    for (size_t i = 0; i < n; i++) {
        see_all(front, &views[i]);
    }
    for (uint32_t i = 0; all && i < front->slots_count; i++) {
        if (watches_order(&front->slots[i])) {
            look(front, i);
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

static void make_item_news(struct front *front, struct news *news)
{
    bool known = front_item(front, news->key.hi, &news->view);
    const struct sale_row *sale = NULL;
    struct catalog *catalog = front->shared->catalog;
    catalog_lock(catalog);
    const struct item_row *item = catalog_item(catalog, news->key.hi, &sale);
    news->gone = !known || item == NULL;
    if (!news->gone) {
        out_lit(&news->event, "event: item\ndata: ");
        json_item(&news->event, sale, item, &news->view, front->now_ms);
        out_lit(&news->event, "\n\n");
    }
    catalog_unlock(catalog);
}

static void make_news(struct front *front, struct order_id key, struct news *news)
{
    *news = (struct news){.key = key, .made = true, .event = front_scratch(front)};
    if (key.hi == 0) {
        out_lit(&news->event, "event: live\ndata: ");
        live_json(front, &news->event);
        out_lit(&news->event, "\n\n");
    } else {
        make_item_news(front, news);
    }
}

/* An event of its own, which a slow peer may not take together with the other one: then the next
 * round tries again, whether or not anything has changed. */
static void send_sold_out(struct front *front, uint32_t connection, bool sold_out)
{
    struct slot *slot = &front->slots[connection];
    if (!sold_out || slot->sold_out_told) {
        slot->sold_out_told = sold_out;
        return;
    }
    char text[96];
    struct out event = out_over(text, sizeof(text));
    out_lit(&event, "event: item.sold_out\ndata: {\"item_id\":");
    out_u64(&event, slot->key.hi);
    out_lit(&event, "}\n\n");
    slot->sold_out_told =
        http_stream_send(front->server, exchange_of(front, connection), out_span(&event));
}

static void send_news(struct front *front, uint32_t connection, struct news *news)
{
    struct slot *slot = &front->slots[connection];
    if (news->gone) {
        end_stream(front, connection);
        return;
    }
    /* The state may change with time alone, so compare what is shown, not only the version. */
    uint64_t shown =
        news->view.version * ITEM_STATE_COUNT + (uint64_t)item_state(&news->view, front->now_ms);
    if (slot->watch == WATCH_LIVE || slot->item_version != shown) {
        if (front->now_ms < slot->due_ms ||
            !http_stream_send(front->server, exchange_of(front, connection),
                              out_span(&news->event))) {
            return; /* the next round tries again */
        }
        slot->item_version = shown;
        slot->due_ms = front->now_ms + STREAM_EVERY_MS;
    }
    if (slot->watch == WATCH_ITEM) {
        send_sold_out(front, connection, news->view.available == 0);
    }
}

/* Sends to some of the streams; true when this round is done. */
static bool serve_streams(struct front *front)
{
    struct news news = {.made = false};
    for (int i = 0; i < STREAMS_A_TURN && front->items_cursor != 0; i++) {
        uint32_t connection = front->items_cursor - 1;
        struct slot *slot = &front->slots[connection];
        front->items_cursor = slot->list_next;
        if (!news.made || !order_id_equal(news.key, slot->key)) {
            make_news(front, slot->key, &news);
        }
        send_news(front, connection, &news);
    }
    return front->items_cursor == 0;
}

/* The present state, at once, to this one alone: the others may have been told a moment ago. */
static void begin_news(struct front *front, struct http_exchange exchange, enum watch_kind kind,
                       struct order_id key)
{
    struct news news;
    if (begin_stream(front, exchange)) {
        (void)watch_add(front, exchange, kind, key, front->now_ms + HEARTBEAT_MS);
        make_news(front, key, &news);
        send_news(front, exchange.connection, &news);
    }
}

void watch_item(struct front *front, struct http_exchange exchange, uint64_t item)
{
    begin_news(front, exchange, WATCH_ITEM, (struct order_id){item, 0});
}

void watch_live(struct front *front, struct http_exchange exchange)
{
    begin_news(front, exchange, WATCH_LIVE, (struct order_id){0, 0});
}

/* ---- time ---- */

static void fire(struct front *front, uint32_t connection)
{
    struct slot *slot = &front->slots[connection];
    if (slot->watch == WATCH_POLL) {
        look(front, connection); /* past its time: answered with whatever there is */
        if (slot->watch == WATCH_POLL) {
            look_again(front, connection);
        }
        return;
    }
    /* A stream the peer does not drain: try its newest state again; else a heartbeat. */
    if (!http_stream_ready(front->server, exchange_of(front, connection))) {
        look_again(front, connection);
        return;
    }
    if (slot->watch == WATCH_ORDER) {
        /* Of who stands in line there are no news before he is decided. */
        bool due = slot->look_due || ++slot->beats % BEATS_A_LOOK == 0 ||
                   slot->order.reason == REFUSAL_UNDECIDED;
        slot->look_due = false;
        push(front, connection); /* what the peer did not take before, however long a look takes */
        if (slot->watch == WATCH_ORDER && due) {
            look(front, connection);
        }
        if (slot->watch != WATCH_ORDER) {
            return;
        }
    }
    (void)http_stream_send(front->server, exchange_of(front, connection),
                           (struct span){":\n\n", 3});
    wheel_unlink(front, connection);
    wheel_link(front, connection, front->now_ms + HEARTBEAT_MS);
}

static void run_wheel(struct front *front)
{
    while (front->wheel_ms + WHEEL_STEP_MS <= front->now_ms) {
        uint32_t place = (uint32_t)(front->wheel_ms / WHEEL_STEP_MS) % WHEEL_PLACES;
        front->wheel_ms += WHEEL_STEP_MS;
        uint32_t link = front->wheel[place];
        while (link != 0) {
            struct slot *slot = &front->slots[link - 1];
            uint32_t next = slot->wheel_next;
            if (slot->wake_ms > front->now_ms) {
                wheel_unlink(front, link - 1);
                wheel_link(front, link - 1, slot->wake_ms);
            } else {
                fire(front, link - 1);
            }
            link = next;
        }
    }
}

int64_t watch_tick(struct front *front)
{
    if (front->watchers == 0) {
        front->wheel_ms = front->now_ms / WHEEL_STEP_MS * WHEEL_STEP_MS;
        return INT64_MAX;
    }
    run_wheel(front);
    int64_t next = front->wheel_ms + WHEEL_STEP_MS;
    if (front->items_first != 0) {
        if (front->now_ms >= front->items_next_ms && front->items_cursor == 0) {
            front->items_cursor = front->items_first;
            front->items_next_ms = front->now_ms + STREAM_EVERY_MS;
        }
        if (front->items_cursor != 0) {
            if (!serve_streams(front)) {
                return front->now_ms;
            }
            /* From its end: whom this round came to last has a second, too, before the next one. */
            front->items_next_ms = front->now_ms + STREAM_EVERY_MS;
        }
        next = front->items_next_ms < next ? front->items_next_ms : next;
    }
    return next;
}

void watch_drain(struct front *front)
{
    for (uint32_t i = 0; front->watchers > 0 && i < front->slots_count; i++) {
        struct slot *slot = &front->slots[i];
        if (slot->watch == WATCH_POLL) {
            slot->due_ms = front->now_ms;
            look(front, i);
        } else if (slot->watch != WATCH_NOTHING) {
            end_stream(front, i);
        }
    }
}

int watch_start(struct front *front)
{
    uint32_t buckets = 64;
    while (buckets < front->slots_count) {
        buckets *= 2;
    }
    front->keys = calloc(buckets, sizeof(*front->keys));
    front->keys_mask = buckets - 1;
    return front->keys == NULL ? ERR_NOMEM : 0;
}

void watch_done(struct front *front)
{
    free(front->keys);
}
