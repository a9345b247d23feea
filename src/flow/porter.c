/* See porter.h. */
#include "flow/porter.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/err.h"
#include "flow/message.h"
#include "obs/log.h"

#define HELD_MAX BOOKINGS_MAX /* they are booked together */
/* Of them, those whose segment cannot decide now. */
#define WAITING_MAX 128

struct porter {
    struct queue *queue;
    struct bookings *bookings;
    struct inside_time *time;
    struct metrics_slot *metrics;
    /* taken and not settled, in step */
    struct queue_message *messages;
    struct backoff *backoffs; /* of each: one that has to wait holds up no other */
    bool *waits;              /* of each: its segment could not decide */
    size_t held;
    struct decision *decisions; /* those that are being booked */
    size_t *at;                 /* which of the held ones they are */
};

/* A message is settled, one way or another; one of an earlier connection comes again by itself. */
static void let_go(struct porter *porter, const struct queue_message *message, int how)
{
    static struct log_limit limit;
    int error = porter->queue->ops->settle(porter->queue, message, how);
    if (error != 0 && error != ERR_CLOSED) {
        log_event_limited(&limit, 10000, LOG_WARN, "porter.cannot_settle", LOG_ERR("error", error));
    }
}

/* As many as there is room for; with none it keeps the connection alive. */
static void take(struct porter *porter, int64_t wait_ms)
{
    size_t count = 0;
    size_t held = porter->held;
    if (queue_take(porter->queue, porter->messages + held, HELD_MAX - held, wait_ms, &count) != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct queue_message *message = &porter->messages[held + i];
        struct span text = {message->body, message->len};
        struct decision decision;
        if (message_read(text, &decision) != 0) {
            log_event(LOG_ERROR, "porter.cannot_read", LOG_SPAN("message", text),
                      LOG_STR("what", "parked: see `sluice queue list`"));
            let_go(porter, message, QUEUE_PARK);
            continue;
        }
        porter->backoffs[porter->held] = (struct backoff){0};
        porter->waits[porter->held] = false;
        porter->messages[porter->held++] = *message;
    }
}

/* How long until one of those it holds is to be tried. */
static int64_t pause_ms(const struct porter *porter, int64_t wait_ms)
{
    int64_t now_ms = inside_time_ms(porter->time);
    for (size_t i = 0; i < porter->held; i++) {
        int64_t left_ms = porter->backoffs[i].next_ms - now_ms;
        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    }
    return wait_ms > 0 ? wait_ms : 0;
}

/* Those whose time has come, each as its message says: a round before may have changed it. */
static size_t gather(struct porter *porter)
{
    int64_t now_ms = inside_time_ms(porter->time);
    size_t count = 0;
    for (size_t i = 0; i < porter->held; i++) {
        const struct queue_message *message = &porter->messages[i];
        if (backoff_is_over(&porter->backoffs[i], now_ms) &&
            message_read((struct span){message->body, message->len}, &porter->decisions[count]) ==
                0) {
            porter->at[count++] = i;
        }
    }
    return count;
}

/* Whether it is held until it is tried again. While the ledger is away there is nothing better to
 * take instead. Messages of a segment that is away must not keep out those of the others: a few are
 * held for a moment, the rest go back to the queue for its pauses, and so do those that have been
 * there already. */
static bool is_held(const struct porter *porter, size_t i, bool gate_away, size_t waiting)
{
    return !gate_away || (porter->messages[i].attempts == 0 && waiting < WAITING_MAX &&
                          porter->backoffs[i].pause_ms < BACKOFF_MOST_MS);
}

static void settle(struct porter *porter, size_t count)
{
    int64_t now_ms = inside_time_ms(porter->time);
    size_t kept = 0;
    size_t next = 0;
    size_t waiting = 0;
    for (size_t i = 0; i < porter->held; i++) {
        bool tried = next < count && porter->at[next] == i;
        bool gate_away = tried ? porter->decisions[next].gate_away : porter->waits[i];
        enum booking booking = tried ? porter->decisions[next++].booking : BOOKING_LATER;
        if (booking == BOOKING_LATER && (!tried || is_held(porter, i, gate_away, waiting))) {
            if (tried) {
                backoff_failed(&porter->backoffs[i], now_ms);
            }
            waiting += gate_away;
            porter->messages[kept] = porter->messages[i];
            porter->waits[kept] = gate_away;
            porter->backoffs[kept++] = porter->backoffs[i];
            continue;
        }
        let_go(porter, &porter->messages[i],
               booking == BOOKING_SETTLED  ? QUEUE_ACK
               : booking == BOOKING_POISON ? QUEUE_RETRY
                                           : QUEUE_LATER);
        metrics_add(porter->metrics,
                    booking == BOOKING_SETTLED ? METRIC_PORTER_BOOKED_TOTAL
                                               : METRIC_PORTER_RETRIED_TOTAL,
                    1);
    }
    porter->held = kept;
}

void porter_turn(struct porter *porter, int64_t wait_ms)
{
    take(porter, pause_ms(porter, wait_ms));
    size_t count = gather(porter);
    if (count > 0) {
        bookings_run(porter->bookings, porter->decisions, count);
        settle(porter, count);
    }
}

int porter_new(struct queue *queue, struct bookings *bookings, struct inside_time *time,
               struct metrics_slot *metrics, struct porter **ret_porter)
{
    struct porter *porter = calloc(1, sizeof(*porter));
    if (porter == NULL) {
        return ERR_NOMEM;
    }
    porter->queue = queue;
    porter->bookings = bookings;
    porter->time = time;
    porter->metrics = metrics;
    porter->messages = calloc(HELD_MAX, sizeof(*porter->messages));
    porter->backoffs = calloc(HELD_MAX, sizeof(*porter->backoffs));
    porter->waits = calloc(HELD_MAX, sizeof(*porter->waits));
    porter->decisions = calloc(HELD_MAX, sizeof(*porter->decisions));
    porter->at = calloc(HELD_MAX, sizeof(*porter->at));
    if (porter->messages == NULL || porter->backoffs == NULL || porter->waits == NULL ||
        porter->decisions == NULL || porter->at == NULL) {
        porter_free(porter);
        return ERR_NOMEM;
    }
    *ret_porter = porter;
    return 0;
}

void porter_free(struct porter *porter)
{
    if (porter == NULL) {
        return;
    }
    free(porter->messages);
    free(porter->backoffs);
    free(porter->waits);
    free(porter->decisions);
    free(porter->at);
    free(porter);
}
