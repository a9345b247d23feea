/* See order_consumer.h. */
#include "distributed/order_consumer.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/err.h"
#include "distributed/message.h"
#include "obs/log.h"

#define HELD_MAX BOOKING_CHANNEL_MAX /* they are booked in one batch */
/* The most of them whose segment cannot decide now. */
#define WAITING_MAX 128

struct order_consumer {
    struct queue *queue;
    struct booking_channel *booking_channel;
    struct inside_time *time;
    struct metrics_slot *metrics;
    /* taken and not settled; parallel arrays */
    struct queue_message *messages;
    struct backoff *backoffs; /* of each: one that waits does not delay the others */
    bool *waits;              /* of each: its segment could not decide */
    size_t held;
    struct decision *decisions; /* those that are being booked */
    size_t *at;                 /* their indexes among the held ones */
};

/* Settles a message. One of an earlier connection is redelivered anyway. */
static void let_go(struct order_consumer *order_consumer, const struct queue_message *message,
                   int how)
{
    static struct log_limit limit;
    int error = order_consumer->queue->ops->settle(order_consumer->queue, message, how);
    if (error != 0 && error != ERR_CLOSED) {
        log_event_limited(&limit, 10000, LOG_WARN, "order_consumer.cannot_settle",
                          LOG_ERR("error", error));
    }
}

/* Takes as many messages as there is room for. With no room it keeps the connection alive. */
static void take(struct order_consumer *order_consumer, int64_t wait_ms)
{
    size_t count = 0;
    size_t held = order_consumer->held;
    if (queue_take(order_consumer->queue, order_consumer->messages + held, HELD_MAX - held, wait_ms,
                   &count) != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct queue_message *message = &order_consumer->messages[held + i];
        struct span text = {message->body, message->len};
        struct decision decision;
        if (message_read(text, &decision) != 0) {
            log_event(LOG_ERROR, "order_consumer.cannot_read", LOG_SPAN("message", text),
                      LOG_STR("what", "parked: see `sluice queue list`"));
            let_go(order_consumer, message, QUEUE_PARK);
            continue;
        }
        order_consumer->backoffs[order_consumer->held] = (struct backoff){0};
        order_consumer->waits[order_consumer->held] = false;
        order_consumer->messages[order_consumer->held++] = *message;
    }
}

/* Time until a held message is to be retried. */
static int64_t pause_ms(const struct order_consumer *order_consumer, int64_t wait_ms)
{
    int64_t now_ms = inside_time_ms(order_consumer->time);
    for (size_t i = 0; i < order_consumer->held; i++) {
        int64_t left_ms = order_consumer->backoffs[i].next_ms - now_ms;
        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    }
    return wait_ms > 0 ? wait_ms : 0;
}

/* Collects the messages that are due, each parsed anew, because an earlier attempt
 * may have changed its decision. */
static size_t gather(struct order_consumer *order_consumer)
{
    int64_t now_ms = inside_time_ms(order_consumer->time);
    size_t count = 0;
    for (size_t i = 0; i < order_consumer->held; i++) {
        const struct queue_message *message = &order_consumer->messages[i];
        if (backoff_is_over(&order_consumer->backoffs[i], now_ms) &&
            message_read((struct span){message->body, message->len},
                         &order_consumer->decisions[count]) == 0) {
            order_consumer->at[count++] = i;
        }
    }
    return count;
}

/*
 * Whether a message is held until its retry. While the ledger is away there is nothing better to
 * take. Messages of a segment that is away must not block those of other segments: a few are held
 * for a moment, and the rest go back to the queue for its pauses, as do those that have been there
 * before.
 */
static bool is_held(const struct order_consumer *order_consumer, size_t i, bool gate_away,
                    size_t waiting)
{
    return !gate_away || (order_consumer->messages[i].attempts == 0 && waiting < WAITING_MAX &&
                          order_consumer->backoffs[i].pause_ms < BACKOFF_MOST_MS);
}

static void settle(struct order_consumer *order_consumer, size_t count)
{
    int64_t now_ms = inside_time_ms(order_consumer->time);
    size_t kept = 0;
    size_t next = 0;
    size_t waiting = 0;
    for (size_t i = 0; i < order_consumer->held; i++) {
        bool tried = next < count && order_consumer->at[next] == i;
        bool gate_away =
            tried ? order_consumer->decisions[next].gate_away : order_consumer->waits[i];
        enum booking booking = tried ? order_consumer->decisions[next++].booking : BOOKING_LATER;
        if (booking == BOOKING_LATER &&
            (!tried || is_held(order_consumer, i, gate_away, waiting))) {
            if (tried) {
                backoff_failed(&order_consumer->backoffs[i], now_ms);
            }
            waiting += gate_away;
            order_consumer->messages[kept] = order_consumer->messages[i];
            order_consumer->waits[kept] = gate_away;
            order_consumer->backoffs[kept++] = order_consumer->backoffs[i];
            continue;
        }
        let_go(order_consumer, &order_consumer->messages[i],
               booking == BOOKING_SETTLED  ? QUEUE_ACK
               : booking == BOOKING_POISON ? QUEUE_RETRY
                                           : QUEUE_LATER);
        metrics_add(order_consumer->metrics,
                    booking == BOOKING_SETTLED ? METRIC_ORDER_CONSUMER_BOOKED_TOTAL
                                               : METRIC_ORDER_CONSUMER_RETRIED_TOTAL,
                    1);
    }
    order_consumer->held = kept;
}

void order_consumer_iterate(struct order_consumer *order_consumer, int64_t wait_ms)
{
    take(order_consumer, pause_ms(order_consumer, wait_ms));
    size_t count = gather(order_consumer);
    if (count > 0) {
        booking_channel_run(order_consumer->booking_channel, order_consumer->decisions, count);
        settle(order_consumer, count);
    }
}

int order_consumer_new(struct queue *queue, struct booking_channel *booking_channel,
                       struct inside_time *time, struct metrics_slot *metrics,
                       struct order_consumer **ret_order_consumer)
{
    struct order_consumer *order_consumer = calloc(1, sizeof(*order_consumer));
    if (order_consumer == NULL) {
        return ERR_NOMEM;
    }
    order_consumer->queue = queue;
    order_consumer->booking_channel = booking_channel;
    order_consumer->time = time;
    order_consumer->metrics = metrics;
    order_consumer->messages = calloc(HELD_MAX, sizeof(*order_consumer->messages));
    order_consumer->backoffs = calloc(HELD_MAX, sizeof(*order_consumer->backoffs));
    order_consumer->waits = calloc(HELD_MAX, sizeof(*order_consumer->waits));
    order_consumer->decisions = calloc(HELD_MAX, sizeof(*order_consumer->decisions));
    order_consumer->at = calloc(HELD_MAX, sizeof(*order_consumer->at));
    if (order_consumer->messages == NULL || order_consumer->backoffs == NULL ||
        order_consumer->waits == NULL || order_consumer->decisions == NULL ||
        order_consumer->at == NULL) {
        order_consumer_free(order_consumer);
        return ERR_NOMEM;
    }
    *ret_order_consumer = order_consumer;
    return 0;
}

void order_consumer_free(struct order_consumer *order_consumer)
{
    if (order_consumer == NULL) {
        return;
    }
    free(order_consumer->messages);
    free(order_consumer->backoffs);
    free(order_consumer->waits);
    free(order_consumer->decisions);
    free(order_consumer->at);
    free(order_consumer);
}
