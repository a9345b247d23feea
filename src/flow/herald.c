/*
 * See herald.h. Messages under way stand in a ring, in order, each under a number that is never used
 * again: an outcome that comes after the herald went back, or lost its lease, finds no message. The
 * cursor may move up to the first message that is not confirmed.
 */
#include "flow/herald.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/err.h"
#include "flow/cloudevent.h"
#include "obs/log.h"

#define READ_MAX 256
#define HEAR_MAX 256
#define LOOK_MS 50  /* between looks at a ledger that had nothing new */
#define LAG_MS 1000 /* how often it is counted what is still to be announced */
#define KEEPS_A_LEASE 6
#define SALES_MAX 16
/* At the end confirms are waited for, so often and so long: what has none is announced again. */
#define GOODBYES 10
#define GOODBYE_MS 50

/* One message, or an event that is none: that one is confirmed by itself. */
struct message {
    uint64_t event;
    bool last; /* of its event */
    bool confirmed;
};

struct herald {
    struct herald_ports ports;
    struct herald_options options;
    char source[CLOUDEVENT_SOURCE_MAX + 1];
    /* the lease */
    bool holds;
    uint64_t token;
    int64_t lease_due_ms;   /* when it is to be kept */
    int64_t lease_until_ms; /* by our own clock */
    /* where it stands */
    bool placed;        /* the cursor was read since the lease was taken */
    uint64_t saved;     /* the cursor in the ledger */
    uint64_t confirmed; /* all events up to here */
    uint64_t read;      /* the last event that was read */
    int64_t look_ms;
    int64_t save_due_ms;
    int64_t lag_due_ms;
    struct backoff ledger_backoff;
    struct backoff again; /* after something was not confirmed */
    /* read and not yet announced: from `at` on, in its event from `part` on */
    struct ledger_event *events;
    struct order_row *orders;
    uint32_t events_count;
    uint32_t at;
    uint32_t part;
    /* under way */
    struct message *ring;
    uint64_t first;   /* number of the oldest in the ring */
    uint64_t next;    /* number of the next message */
    int64_t heard_ms; /* when the exchange was last seen to work, or had nothing to do */
    bool away;
    struct sale_row *sales[SALES_MAX]; /* what of them is told never changes: see sale_of() */
    uint32_t sales_next;
    char body[CLOUDEVENT_MAX];
};

/* ---- the ledger ---- */

static int read_ledger(struct herald *herald, struct ledger_query *query)
{
    struct ledger *ledger = herald->ports.ledger;
    if (ledger_read(ledger, query) == LEDGER_PENDING) {
        while (ledger->ops->collect_query(ledger) != query) {
        }
    }
    if (query->error != 0) {
        static struct log_limit limit;
        log_event_limited(&limit, 10000, LOG_WARN, "events.cannot_read",
                          LOG_ERR("error", query->error));
    }
    return query->error;
}

static int write_cursor(struct herald *herald)
{
    struct ledger *ledger = herald->ports.ledger;
    struct ledger_op op = {.kind = LEDGER_CURSOR, .key = HERALD_LEASE, .amount = herald->confirmed};
    struct ledger_op *ops[] = {&op};
    struct ledger_batch batch = {.ops = ops,
                                 .count = 1,
                                 .now_ms = clock_wall_ms(herald->ports.clock),
                                 .lease = HERALD_LEASE,
                                 .token = herald->token};
    if (ledger_write(ledger, &batch) == LEDGER_PENDING) {
        while (ledger->ops->collect_batch(ledger) != &batch) {
        }
    }
    return batch.error != 0 || op.refusal == REFUSAL_NONE ? batch.error : ERR_INVALID;
}

/* How far all is confirmed becomes known to whoever comes next. */
static void save(struct herald *herald, int64_t now_ms)
{
    if (herald->confirmed == herald->saved || now_ms < herald->save_due_ms ||
        !backoff_is_over(&herald->ledger_backoff, now_ms)) {
        return;
    }
    uint64_t number = herald->confirmed;
    int error = herald->ports.lease == NULL ? herald->ports.save(herald->ports.context, number)
                                            : write_cursor(herald);
    if (error != 0) {
        static struct log_limit limit;
        log_event_limited(&limit, 10000, LOG_WARN, "events.cannot_save", LOG_ERR("error", error),
                          LOG_U64("number", number));
        backoff_failed(&herald->ledger_backoff, now_ms);
        herald->lease_due_ms = now_ms; /* whether it is still ours */
        return;
    }
    backoff_worked(&herald->ledger_backoff);
    herald->saved = number;
    herald->save_due_ms = now_ms + herald->options.save_ms;
}

/* What is told of a sale and its items is fixed when it is warmed, so a copy never gets old. NULL:
 * not to be had now. */
static const struct sale_row *sale_of(struct herald *herald, uint64_t id)
{
    for (uint32_t i = 0; i < SALES_MAX; i++) {
        if (herald->sales[i] != NULL && herald->sales[i]->id == id) {
            return herald->sales[i];
        }
    }
    struct sale_row *sale = NULL;
    struct ledger_query query = {.kind = QUERY_SALES, .sale = id, .limit = 1, .sales = &sale};
    if (read_ledger(herald, &query) != 0 || query.count == 0) {
        return NULL;
    }
    uint32_t at = herald->sales_next++ % SALES_MAX;
    sale_row_free(herald->sales[at]);
    herald->sales[at] = sale;
    return sale;
}

/* ---- the place ---- */

/* Goes on behind what is confirmed; of what is under way nothing counts any more. */
static void go_back(struct herald *herald)
{
    herald->first = herald->next;
    herald->read = herald->confirmed;
    herald->events_count = herald->at = herald->part = 0;
    herald->look_ms = 0;
}

static void lose_place(struct herald *herald)
{
    herald->holds = false;
    herald->placed = false;
    go_back(herald);
    metrics_set(herald->ports.metrics, METRIC_EVENTS_LAG, 0);
}

static void find_place(struct herald *herald, int64_t now_ms)
{
    struct ledger_query query = {.kind = QUERY_CURSOR, .cursor = HERALD_LEASE};
    if (!backoff_is_over(&herald->ledger_backoff, now_ms)) {
        return;
    }
    if (read_ledger(herald, &query) != 0) {
        backoff_failed(&herald->ledger_backoff, now_ms);
        return;
    }
    backoff_worked(&herald->ledger_backoff);
    herald->saved = herald->confirmed = query.last_event;
    herald->placed = true;
    herald->heard_ms = now_ms;
    go_back(herald);
    log_event(LOG_INFO, "events.begin", LOG_U64("after", herald->confirmed),
              LOG_U64("token", herald->token));
}

/* ---- the lease ---- */

static bool keep_lease(struct herald *herald, int64_t now_ms)
{
    if (herald->ports.lease == NULL) {
        return true;
    }
    if (now_ms < herald->lease_due_ms) {
        return herald->holds;
    }
    uint64_t token = 0;
    int error = lease_take(herald->ports.lease, HERALD_LEASE, herald->options.lease_ms, &token);
    herald->lease_due_ms = now_ms + herald->options.lease_ms / KEEPS_A_LEASE;
    if (error == 0 && herald->holds && token == herald->token) {
        herald->lease_until_ms = now_ms + herald->options.lease_ms;
        return true;
    }
    /* Nobody knows: what is announced may be announced by another, too, but only for so long. */
    if (error == ERR_IO && herald->holds && now_ms < herald->lease_until_ms) {
        return true;
    }
    if (herald->holds) {
        log_event(LOG_WARN, "events.lease_lost", LOG_ERR("error", error),
                  LOG_U64("token", herald->token));
    }
    lose_place(herald);
    herald->holds = error == 0;
    herald->token = token;
    herald->lease_until_ms = now_ms + herald->options.lease_ms;
    return herald->holds;
}

/* Another process may reach the exchange. */
static void give_up_lease(struct herald *herald, int64_t now_ms)
{
    save(herald, now_ms);
    lease_drop(herald->ports.lease, HERALD_LEASE);
    lose_place(herald);
    herald->lease_due_ms = now_ms + herald->options.away_ms;
}

/* ---- reading ---- */

static bool is_public(const struct ledger_event *event)
{
    return cloudevent_count(event) > 0;
}

/* The orders of those that were read, for all that are announced. */
static int read_orders(struct herald *herald)
{
    struct order_id ids[READ_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < herald->events_count; i++) {
        ids[count] = herald->events[i].id;
        count += is_public(&herald->events[i]);
    }
    struct ledger_query query = {
        .kind = QUERY_ORDERS_BY_ID, .ids = ids, .limit = count, .orders = herald->orders};
    int error = count > 0 ? read_ledger(herald, &query) : 0;
    if (error != 0) {
        return error;
    }
    for (uint32_t i = herald->events_count; i > 0; i--) { /* each to the place of its event */
        if (is_public(&herald->events[i - 1])) {
            herald->orders[i - 1] = herald->orders[--count];
            if (herald->orders[i - 1].state == ORDER_QUEUED) {
                return ERR_CORRUPT; /* an event of an order that is not there */
            }
        }
    }
    return 0;
}

static void read_on(struct herald *herald, int64_t now_ms)
{
    if (herald->at < herald->events_count || now_ms < herald->look_ms) {
        return;
    }
    struct ledger_query query = {.kind = QUERY_EVENTS,
                                 .segment = SEGMENT_ALL,
                                 .after = herald->read,
                                 .limit = READ_MAX,
                                 .events = herald->events};
    herald->events_count = herald->at = herald->part = 0;
    int error = read_ledger(herald, &query);
    if (error == 0) {
        herald->events_count = query.count;
        error = read_orders(herald);
    }
    if (error != 0) {
        static struct log_limit limit;
        log_event_limited(&limit, 10000, LOG_ERROR, "events.held_up", LOG_ERR("error", error),
                          LOG_U64("after", herald->read));
        herald->events_count = 0;
        herald->look_ms = now_ms + BACKOFF_MOST_MS;
        return;
    }
    herald->look_ms = query.count < READ_MAX ? now_ms + LOOK_MS : now_ms;
    if (query.count > 0) {
        herald->read = herald->events[query.count - 1].number;
    }
}

static void count_lag(struct herald *herald, int64_t now_ms)
{
    struct ledger_query query = {.kind = QUERY_STATE};
    if (now_ms < herald->lag_due_ms) {
        return;
    }
    herald->lag_due_ms = now_ms + LAG_MS;
    if (read_ledger(herald, &query) == 0) {
        uint64_t last = query.last_event;
        metrics_set(herald->ports.metrics, METRIC_EVENTS_LAG,
                    last > herald->confirmed ? last - herald->confirmed : 0);
    }
}

/* ---- announcing ---- */

static struct message *message_at(struct herald *herald, uint64_t number)
{
    return &herald->ring[number % herald->options.window];
}

static bool has_room(const struct herald *herald)
{
    return herald->next - herald->first < herald->options.window;
}

/* Moves what is known to be confirmed over the ring's oldest. */
static void settle(struct herald *herald)
{
    while (herald->first < herald->next && message_at(herald, herald->first)->confirmed) {
        const struct message *message = message_at(herald, herald->first++);
        herald->confirmed = message->last ? message->event : herald->confirmed;
    }
}

/* The next message of the event at hand. False: not now. */
static bool announce_one(struct herald *herald)
{
    const struct ledger_event *event = &herald->events[herald->at];
    uint32_t count = cloudevent_count(event);
    struct message message = {.event = event->number, .last = herald->part + 1 >= count};
    if (count == 0) {
        message.confirmed = true;
    } else {
        const struct sale_row *sale = sale_of(herald, event->sale);
        if (sale == NULL) {
            return false;
        }
        struct span body = cloudevent_write(herald->body, herald->source, event, herald->part,
                                            &herald->orders[herald->at], sale);
        int error = queue_announce(herald->ports.queue, herald->next,
                                   cloudevent_type(event, herald->part), body);
        CHECK(error == 0 || error == ERR_AGAIN); /* its size has a bound */
        if (error != 0) {
            return false;
        }
    }
    *message_at(herald, herald->next++) = message;
    herald->part++;
    if (message.last) {
        herald->at++;
        herald->part = 0;
    }
    return true;
}

/* True: there is more, and no reason to wait. */
static bool announce(struct herald *herald, int64_t now_ms)
{
    if (!backoff_is_over(&herald->again, now_ms)) {
        return false;
    }
    while (herald->at < herald->events_count) {
        if (!has_room(herald) || !announce_one(herald)) {
            settle(herald);
            return false;
        }
    }
    settle(herald);
    return now_ms >= herald->look_ms;
}

/* ---- hearing ---- */

static void heard(struct herald *herald, const struct queue_outcome *outcome, int64_t now_ms)
{
    bool confirmed = outcome->kind == QUEUE_CONFIRMED;
    metrics_add(herald->ports.metrics,
                confirmed ? METRIC_EVENTS_PUBLISHED_TOTAL : METRIC_EVENTS_AGAIN_TOTAL, 1);
    if (outcome->number < herald->first || outcome->number >= herald->next) {
        return; /* from before it went back */
    }
    if (!confirmed) {
        backoff_failed(&herald->again, now_ms);
        go_back(herald);
        return;
    }
    message_at(herald, outcome->number)->confirmed = true;
    uint64_t before = herald->first;
    settle(herald);
    if (herald->first > before) {
        backoff_worked(&herald->again);
        herald->heard_ms = now_ms;
        if (herald->away) {
            log_event(LOG_INFO, "events.exchange_back", LOG_U64("after", herald->confirmed));
            herald->away = false;
        }
    }
}

static void hear(struct herald *herald, int64_t now_ms, int64_t wait_ms)
{
    struct queue_outcome outcomes[HEAR_MAX];
    size_t count = 0;
    if (queue_outcomes(herald->ports.queue, outcomes, HEAR_MAX, wait_ms, &count) != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        heard(herald, &outcomes[i], now_ms);
    }
}

/* Nothing was confirmed for long, though there was something to confirm. */
static void look_at_exchange(struct herald *herald, int64_t now_ms)
{
    if (herald->first == herald->next && herald->at == herald->events_count) {
        herald->heard_ms = now_ms;
    }
    if (now_ms - herald->heard_ms <= herald->options.away_ms) {
        return;
    }
    if (!herald->away) {
        log_event(LOG_WARN, "events.exchange_away", LOG_U64("after", herald->confirmed),
                  LOG_STR("what", "nothing is confirmed; tried again, nothing is lost"));
        herald->away = true;
    }
    if (herald->ports.lease != NULL) {
        give_up_lease(herald, now_ms);
    }
}

/* ---- the turn ---- */

/* Until the ledger may have more; or, where there is more than the exchange takes, until it does. */
static int64_t pause_ms(const struct herald *herald, int64_t now_ms, int64_t wait_ms)
{
    int64_t look_ms = herald->look_ms > now_ms ? herald->look_ms - now_ms : 0;
    return herald->at == herald->events_count && look_ms < wait_ms ? look_ms : wait_ms;
}

void herald_turn(struct herald *herald, int64_t wait_ms)
{
    int64_t now_ms = clock_boot_us(herald->ports.clock) / 1000;
    if (keep_lease(herald, now_ms) && !herald->placed) {
        find_place(herald, now_ms);
    }
    if (!herald->placed) {
        hear(herald, now_ms, wait_ms); /* keeps the connection */
        return;
    }
    read_on(herald, now_ms);
    bool more = announce(herald, now_ms);
    hear(herald, now_ms, more ? 0 : pause_ms(herald, now_ms, wait_ms));
    save(herald, now_ms);
    count_lag(herald, now_ms);
    look_at_exchange(herald, now_ms);
}

void herald_finish(struct herald *herald)
{
    int64_t now_ms = clock_boot_us(herald->ports.clock) / 1000;
    herald->save_due_ms = now_ms;
    if (herald->placed) {
        for (int i = 0; i < GOODBYES && herald->first < herald->next; i++) {
            hear(herald, now_ms, GOODBYE_MS);
        }
        save(herald, now_ms);
    }
    if (herald->ports.lease != NULL && herald->holds) {
        lease_drop(herald->ports.lease, HERALD_LEASE);
    }
    lose_place(herald);
}

/* ---- life ---- */

int herald_new(struct herald_ports ports, struct herald_options options, struct herald **ret_herald)
{
    size_t length = strlen(options.source);
    if (length == 0 || length > CLOUDEVENT_SOURCE_MAX) {
        return ERR_INVALID;
    }
    CHECK(options.window > 0 && (ports.lease == NULL) == (ports.save != NULL));
    struct herald *herald = calloc(1, sizeof(*herald));
    if (herald == NULL) {
        return ERR_NOMEM;
    }
    herald->ports = ports;
    herald->options = options;
    memcpy(herald->source, options.source, length + 1);
    herald->events = calloc(READ_MAX, sizeof(*herald->events));
    herald->orders = calloc(READ_MAX, sizeof(*herald->orders));
    herald->ring = calloc(options.window, sizeof(*herald->ring));
    if (herald->events == NULL || herald->orders == NULL || herald->ring == NULL) {
        herald_free(herald);
        return ERR_NOMEM;
    }
    *ret_herald = herald;
    return 0;
}

void herald_free(struct herald *herald)
{
    if (herald == NULL) {
        return;
    }
    for (uint32_t i = 0; i < SALES_MAX; i++) {
        sale_row_free(herald->sales[i]);
    }
    free(herald->events);
    free(herald->orders);
    free(herald->ring);
    free(herald);
}
