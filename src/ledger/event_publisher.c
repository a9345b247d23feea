/*
 * See event_publisher.h. Unconfirmed messages are kept in a ring, in order. Their numbers are never
 * reused, so an outcome that arrives after the publisher went back or lost its lease matches no
 * message. The cursor may move up to the first unconfirmed message.
 */
#include "ledger/event_publisher.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/err.h"
#include "ledger/cloudevent.h"
#include "obs/log.h"

#define READ_MAX 256
#define HEAR_MAX 256
#define LOOK_MS 50  /* between two reads of a ledger that had nothing new */
#define LAG_MS 1000 /* how often the unpublished events are counted */
#define KEEPS_A_LEASE 6
#define SALES_MAX 16
/* At the end it waits for confirms this often, this long. Unconfirmed messages are published again
 * by the next publisher. */
#define GOODBYES 10
#define GOODBYE_MS 50

/* One message. An event that gives no message has one entry, too, which is confirmed at once. */
struct message {
    uint64_t event;
    bool last; /* the last of its event */
    bool confirmed;
};

struct event_publisher {
    struct event_publisher_ports ports;
    struct event_publisher_options options;
    char source[CLOUDEVENT_SOURCE_MAX + 1];
    /* the lease */
    bool holds;
    uint64_t token;
    int64_t lease_due_ms;   /* when to renew it */
    int64_t lease_until_ms; /* by our own clock */
    /* position */
    bool placed;        /* the cursor was read under this lease */
    uint64_t saved;     /* the cursor in the ledger */
    uint64_t confirmed; /* all events up to this one are confirmed */
    uint64_t read;      /* the last event that was read */
    int64_t look_ms;
    int64_t save_due_ms;
    int64_t lag_due_ms;
    struct backoff ledger_backoff;
    struct backoff again; /* after a message was not confirmed */
    /* read and not yet published: from `at` on, and of that event from `part` on */
    struct ledger_event *events;
    struct order_row *orders;
    uint32_t events_count;
    uint32_t at;
    uint32_t part;
    /* published */
    struct message *ring;
    uint64_t first;   /* number of the oldest message in the ring */
    uint64_t next;    /* number of the next message */
    int64_t heard_ms; /* when the exchange last confirmed, or had nothing to do */
    bool away;
    struct sale_row *sales[SALES_MAX]; /* copies never get stale: see sale_of() */
    uint32_t sales_next;
    char body[CLOUDEVENT_MAX];
};

/* ---- the ledger ---- */

static int read_ledger(struct event_publisher *event_publisher, struct ledger_query *query)
{
    if (ledger_read(event_publisher->ports.ledger, query) != 0) {
        static struct log_limit limit;
        log_event_limited(&limit, 10000, LOG_WARN, "events.cannot_read",
                          LOG_ERR("error", query->error));
    }
    return query->error;
}

static int write_cursor(struct event_publisher *event_publisher)
{
    struct ledger_op op = {
        .kind = LEDGER_CURSOR, .key = EVENT_PUBLISHER_LEASE, .amount = event_publisher->confirmed};
    struct ledger_op *ops[] = {&op};
    struct ledger_batch batch = {.ops = ops,
                                 .count = 1,
                                 .now_ms = clock_wall_ms(event_publisher->ports.clock),
                                 .lease = EVENT_PUBLISHER_LEASE,
                                 .token = event_publisher->token};
    int error = ledger_write(event_publisher->ports.ledger, &batch);
    return error != 0 || op.refusal == REFUSAL_NONE ? error : ERR_INVALID;
}

/* Saves the cursor for the next publisher. */
static void save(struct event_publisher *event_publisher, int64_t now_ms)
{
    if (event_publisher->confirmed == event_publisher->saved ||
        now_ms < event_publisher->save_due_ms ||
        !backoff_is_over(&event_publisher->ledger_backoff, now_ms)) {
        return;
    }
    uint64_t number = event_publisher->confirmed;
    int error = event_publisher->ports.lease == NULL
                    ? event_publisher->ports.save(event_publisher->ports.context, number)
                    : write_cursor(event_publisher);
    if (error != 0) {
        static struct log_limit limit;
        log_event_limited(&limit, 10000, LOG_WARN, "events.cannot_save", LOG_ERR("error", error),
                          LOG_U64("number", number));
        backoff_failed(&event_publisher->ledger_backoff, now_ms);
        event_publisher->lease_due_ms = now_ms; /* whether it is still ours */
        return;
    }
    backoff_worked(&event_publisher->ledger_backoff);
    event_publisher->saved = number;
    event_publisher->save_due_ms = now_ms + event_publisher->options.save_ms;
}

/* Published fields of a sale and its items are fixed when it is warmed, so a copy never gets stale.
 * NULL: not available now. */
static const struct sale_row *sale_of(struct event_publisher *event_publisher, uint64_t id)
{
    for (uint32_t i = 0; i < SALES_MAX; i++) {
        if (event_publisher->sales[i] != NULL && event_publisher->sales[i]->id == id) {
            return event_publisher->sales[i];
        }
    }
    struct sale_row *sale = NULL;
    struct ledger_query query = {.kind = QUERY_SALES, .sale = id, .limit = 1, .sales = &sale};
    if (read_ledger(event_publisher, &query) != 0 || query.count == 0) {
        return NULL;
    }
    uint32_t at = event_publisher->sales_next++ % SALES_MAX;
    sale_row_free(event_publisher->sales[at]);
    event_publisher->sales[at] = sale;
    return sale;
}

/* ---- the position ---- */

/* Continues after the last confirmed event. Outcomes of published messages no longer count. */
static void go_back(struct event_publisher *event_publisher)
{
    event_publisher->first = event_publisher->next;
    event_publisher->read = event_publisher->confirmed;
    event_publisher->events_count = event_publisher->at = event_publisher->part = 0;
    event_publisher->look_ms = 0;
}

static void lose_place(struct event_publisher *event_publisher)
{
    event_publisher->holds = false;
    event_publisher->placed = false;
    go_back(event_publisher);
    metrics_set(event_publisher->ports.metrics, METRIC_EVENTS_LAG, 0);
}

static void find_place(struct event_publisher *event_publisher, int64_t now_ms)
{
    struct ledger_query query = {.kind = QUERY_CURSOR, .cursor = EVENT_PUBLISHER_LEASE};
    if (!backoff_is_over(&event_publisher->ledger_backoff, now_ms)) {
        return;
    }
    if (read_ledger(event_publisher, &query) != 0) {
        backoff_failed(&event_publisher->ledger_backoff, now_ms);
        return;
    }
    backoff_worked(&event_publisher->ledger_backoff);
    event_publisher->saved = event_publisher->confirmed = query.last_event;
    event_publisher->placed = true;
    event_publisher->heard_ms = now_ms;
    go_back(event_publisher);
    log_event(LOG_INFO, "events.begin", LOG_U64("after", event_publisher->confirmed),
              LOG_U64("token", event_publisher->token));
}

/* ---- the lease ---- */

static bool keep_lease(struct event_publisher *event_publisher, int64_t now_ms)
{
    if (event_publisher->ports.lease == NULL) {
        return true;
    }
    if (now_ms < event_publisher->lease_due_ms) {
        return event_publisher->holds;
    }
    uint64_t token = 0;
    int error = lease_take(event_publisher->ports.lease, EVENT_PUBLISHER_LEASE,
                           event_publisher->options.lease_ms, &token);
    event_publisher->lease_due_ms = now_ms + event_publisher->options.lease_ms / KEEPS_A_LEASE;
    if (error == 0 && event_publisher->holds && token == event_publisher->token) {
        event_publisher->lease_until_ms = now_ms + event_publisher->options.lease_ms;
        return true;
    }
    /* It is unknown whether the lease is still ours. Another process may publish, too, but only
     * until our lease ends by our own clock. */
    if (error == ERR_IO && event_publisher->holds && now_ms < event_publisher->lease_until_ms) {
        return true;
    }
    if (event_publisher->holds) {
        log_event(LOG_WARN, "events.lease_lost", LOG_ERR("error", error),
                  LOG_U64("token", event_publisher->token));
    }
    lose_place(event_publisher);
    event_publisher->holds = error == 0;
    event_publisher->token = token;
    event_publisher->lease_until_ms = now_ms + event_publisher->options.lease_ms;
    return event_publisher->holds;
}

/* Lets another process try, which may reach the exchange. */
static void give_up_lease(struct event_publisher *event_publisher, int64_t now_ms)
{
    save(event_publisher, now_ms);
    lease_drop(event_publisher->ports.lease, EVENT_PUBLISHER_LEASE);
    lose_place(event_publisher);
    event_publisher->lease_due_ms = now_ms + event_publisher->options.away_ms;
}

/* ---- reading ---- */

static bool is_public(const struct ledger_event *event)
{
    return cloudevent_count(event) > 0;
}

/* Reads the orders of the events that will be published. */
static int read_orders(struct event_publisher *event_publisher)
{
    struct order_id ids[READ_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < event_publisher->events_count; i++) {
        ids[count] = event_publisher->events[i].id;
        count += is_public(&event_publisher->events[i]);
    }
    struct ledger_query query = {
        .kind = QUERY_ORDERS_BY_ID, .ids = ids, .limit = count, .orders = event_publisher->orders};
    int error = count > 0 ? read_ledger(event_publisher, &query) : 0;
    if (error != 0) {
        return error;
    }
    for (uint32_t i = event_publisher->events_count; i > 0;
         i--) { /* each to the place of its event */
        if (is_public(&event_publisher->events[i - 1])) {
            event_publisher->orders[i - 1] = event_publisher->orders[--count];
            if (event_publisher->orders[i - 1].state == ORDER_QUEUED) {
                return ERR_CORRUPT; /* an event of an order that is not there */
            }
        }
    }
    return 0;
}

static void read_on(struct event_publisher *event_publisher, int64_t now_ms)
{
    if (event_publisher->at < event_publisher->events_count || now_ms < event_publisher->look_ms) {
        return;
    }
    struct ledger_query query = {.kind = QUERY_EVENTS,
                                 .segment = SEGMENT_ALL,
                                 .after = event_publisher->read,
                                 .limit = READ_MAX,
                                 .events = event_publisher->events};
    event_publisher->events_count = event_publisher->at = event_publisher->part = 0;
    int error = read_ledger(event_publisher, &query);
    if (error == 0) {
        event_publisher->events_count = query.count;
        error = read_orders(event_publisher);
    }
    if (error != 0) {
        static struct log_limit limit;
        log_event_limited(&limit, 10000, LOG_ERROR, "events.held_up", LOG_ERR("error", error),
                          LOG_U64("after", event_publisher->read));
        event_publisher->events_count = 0;
        event_publisher->look_ms = now_ms + BACKOFF_MOST_MS;
        return;
    }
    event_publisher->look_ms = query.count < READ_MAX ? now_ms + LOOK_MS : now_ms;
    if (query.count > 0) {
        event_publisher->read = event_publisher->events[query.count - 1].number;
    }
}

static void count_lag(struct event_publisher *event_publisher, int64_t now_ms)
{
    struct ledger_query query = {.kind = QUERY_STATE};
    if (now_ms < event_publisher->lag_due_ms) {
        return;
    }
    event_publisher->lag_due_ms = now_ms + LAG_MS;
    if (read_ledger(event_publisher, &query) == 0) {
        uint64_t last = query.last_event;
        metrics_set(event_publisher->ports.metrics, METRIC_EVENTS_LAG,
                    last > event_publisher->confirmed ? last - event_publisher->confirmed : 0);
    }
}

/* ---- publishing ---- */

static struct message *message_at(struct event_publisher *event_publisher, uint64_t number)
{
    return &event_publisher->ring[number % event_publisher->options.window];
}

static bool has_room(const struct event_publisher *event_publisher)
{
    return event_publisher->next - event_publisher->first < event_publisher->options.window;
}

/* Drops confirmed messages from the front of the ring and advances `confirmed`. */
static void settle(struct event_publisher *event_publisher)
{
    while (event_publisher->first < event_publisher->next &&
           message_at(event_publisher, event_publisher->first)->confirmed) {
        const struct message *message = message_at(event_publisher, event_publisher->first++);
        event_publisher->confirmed = message->last ? message->event : event_publisher->confirmed;
    }
}

/* Publishes the next message of the current event. False: not now. */
static bool announce_one(struct event_publisher *event_publisher)
{
    const struct ledger_event *event = &event_publisher->events[event_publisher->at];
    uint32_t count = cloudevent_count(event);
    struct message message = {.event = event->number, .last = event_publisher->part + 1 >= count};
    if (count == 0) {
        message.confirmed = true;
    } else {
        const struct sale_row *sale = sale_of(event_publisher, event->sale);
        if (sale == NULL) {
            return false;
        }
        struct span body = cloudevent_write(event_publisher->body, event_publisher->source, event,
                                            event_publisher->part,
                                            &event_publisher->orders[event_publisher->at], sale);
        int error = queue_announce(event_publisher->ports.queue, event_publisher->next,
                                   cloudevent_type(event, event_publisher->part), body);
        CHECK(error == 0 || error == ERR_AGAIN); /* its size has a bound */
        if (error != 0) {
            return false;
        }
    }
    *message_at(event_publisher, event_publisher->next++) = message;
    event_publisher->part++;
    if (message.last) {
        event_publisher->at++;
        event_publisher->part = 0;
    }
    return true;
}

/* True: there is more to do, and no reason to wait. */
static bool announce(struct event_publisher *event_publisher, int64_t now_ms)
{
    if (!backoff_is_over(&event_publisher->again, now_ms)) {
        return false;
    }
    while (event_publisher->at < event_publisher->events_count) {
        if (!has_room(event_publisher) || !announce_one(event_publisher)) {
            settle(event_publisher);
            return false;
        }
    }
    settle(event_publisher);
    return now_ms >= event_publisher->look_ms;
}

/* ---- confirms ---- */

static void heard(struct event_publisher *event_publisher, const struct queue_outcome *outcome,
                  int64_t now_ms)
{
    bool confirmed = outcome->kind == QUEUE_CONFIRMED;
    metrics_add(event_publisher->ports.metrics,
                confirmed ? METRIC_EVENTS_PUBLISHED_TOTAL : METRIC_EVENTS_AGAIN_TOTAL, 1);
    if (outcome->number < event_publisher->first || outcome->number >= event_publisher->next) {
        return; /* from before it went back */
    }
    if (!confirmed) {
        backoff_failed(&event_publisher->again, now_ms);
        go_back(event_publisher);
        return;
    }
    message_at(event_publisher, outcome->number)->confirmed = true;
    uint64_t before = event_publisher->first;
    settle(event_publisher);
    if (event_publisher->first > before) {
        backoff_worked(&event_publisher->again);
        event_publisher->heard_ms = now_ms;
        if (event_publisher->away) {
            log_event(LOG_INFO, "events.exchange_back",
                      LOG_U64("after", event_publisher->confirmed));
            event_publisher->away = false;
        }
    }
}

static void hear(struct event_publisher *event_publisher, int64_t now_ms, int64_t wait_ms)
{
    struct queue_outcome outcomes[HEAR_MAX];
    size_t count = 0;
    if (queue_outcomes(event_publisher->ports.queue, outcomes, HEAR_MAX, wait_ms, &count) != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        heard(event_publisher, &outcomes[i], now_ms);
    }
}

/* Detects that nothing was confirmed for long although something was published. */
static void look_at_exchange(struct event_publisher *event_publisher, int64_t now_ms)
{
    if (event_publisher->first == event_publisher->next &&
        event_publisher->at == event_publisher->events_count) {
        event_publisher->heard_ms = now_ms;
    }
    if (now_ms - event_publisher->heard_ms <= event_publisher->options.away_ms) {
        return;
    }
    if (!event_publisher->away) {
        log_event(LOG_WARN, "events.exchange_away", LOG_U64("after", event_publisher->confirmed),
                  LOG_STR("what", "nothing is confirmed; tried again, nothing is lost"));
        event_publisher->away = true;
    }
    if (event_publisher->ports.lease != NULL) {
        give_up_lease(event_publisher, now_ms);
    }
}

/* ---- an iteration ---- */

/* Time until the ledger may have more events. If the exchange is the bottleneck: wait_ms. */
static int64_t pause_ms(const struct event_publisher *event_publisher, int64_t now_ms,
                        int64_t wait_ms)
{
    int64_t look_ms = event_publisher->look_ms > now_ms ? event_publisher->look_ms - now_ms : 0;
    return event_publisher->at == event_publisher->events_count && look_ms < wait_ms ? look_ms
                                                                                     : wait_ms;
}

void event_publisher_iterate(struct event_publisher *event_publisher, int64_t wait_ms)
{
    int64_t now_ms = clock_boot_us(event_publisher->ports.clock) / 1000;
    if (keep_lease(event_publisher, now_ms) && !event_publisher->placed) {
        find_place(event_publisher, now_ms);
    }
    if (!event_publisher->placed) {
        hear(event_publisher, now_ms, wait_ms); /* keeps the connection */
        return;
    }
    read_on(event_publisher, now_ms);
    bool more = announce(event_publisher, now_ms);
    hear(event_publisher, now_ms, more ? 0 : pause_ms(event_publisher, now_ms, wait_ms));
    save(event_publisher, now_ms);
    count_lag(event_publisher, now_ms);
    look_at_exchange(event_publisher, now_ms);
}

void event_publisher_finish(struct event_publisher *event_publisher)
{
    int64_t now_ms = clock_boot_us(event_publisher->ports.clock) / 1000;
    event_publisher->save_due_ms = now_ms;
    if (event_publisher->placed) {
        for (int i = 0; i < GOODBYES && event_publisher->first < event_publisher->next; i++) {
            hear(event_publisher, now_ms, GOODBYE_MS);
        }
        save(event_publisher, now_ms);
    }
    if (event_publisher->ports.lease != NULL && event_publisher->holds) {
        lease_drop(event_publisher->ports.lease, EVENT_PUBLISHER_LEASE);
    }
    lose_place(event_publisher);
}

/* ---- life ---- */

int event_publisher_new(struct event_publisher_ports ports, struct event_publisher_options options,
                        struct event_publisher **ret_event_publisher)
{
    size_t length = strlen(options.source);
    if (length == 0 || length > CLOUDEVENT_SOURCE_MAX) {
        return ERR_INVALID;
    }
    CHECK(options.window > 0 && (ports.lease == NULL) == (ports.save != NULL));
    struct event_publisher *event_publisher = calloc(1, sizeof(*event_publisher));
    if (event_publisher == NULL) {
        return ERR_NOMEM;
    }
    event_publisher->ports = ports;
    event_publisher->options = options;
    memcpy(event_publisher->source, options.source, length + 1);
    event_publisher->events = calloc(READ_MAX, sizeof(*event_publisher->events));
    event_publisher->orders = calloc(READ_MAX, sizeof(*event_publisher->orders));
    event_publisher->ring = calloc(options.window, sizeof(*event_publisher->ring));
    if (event_publisher->events == NULL || event_publisher->orders == NULL ||
        event_publisher->ring == NULL) {
        event_publisher_free(event_publisher);
        return ERR_NOMEM;
    }
    *ret_event_publisher = event_publisher;
    return 0;
}

void event_publisher_free(struct event_publisher *event_publisher)
{
    if (event_publisher == NULL) {
        return;
    }
    for (uint32_t i = 0; i < SALES_MAX; i++) {
        sale_row_free(event_publisher->sales[i]);
    }
    free(event_publisher->events);
    free(event_publisher->orders);
    free(event_publisher->ring);
    free(event_publisher);
}
