/*
 * Requests to the broker besides the flow of messages: the depths of queues, and parked messages.
 *
 * Listing parked messages takes them without an ack and gives them back. A redrive publishes each
 * to the queue again, with no attempts counted, and acks the parked one when the broker has
 * confirmed the new one.
 */
#include "backend/amqp/session.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"

/* ERR_AGAIN: no connection. */
static int ask_depth(struct session *s, const char *queue, uint64_t *ret_depth)
{
    amqp_queue_declare_t request = {.queue = amqp_cstring_bytes(queue), .passive = 1, .durable = 1};
    session_ask(s, AMQP_QUEUE_DECLARE_METHOD, &request);
    int error = session_answers(s);
    if (error == 0) {
        *ret_depth = s->depth;
    }
    return error;
}

int parked_depths(struct queue *queue, struct queue_depths *ret_depths)
{
    struct session *s = session_of(queue);
    const struct layout *t = &s->layout;
    struct queue_depths depths = {0};
    if (t->events) {
        return ERR_INVALID; /* it belongs to somebody else */
    }
    (void)session_turn(s, 0, false);
    if (!broker_is_ready(s->broker)) {
        return ERR_AGAIN;
    }
    int error = ask_depth(s, t->queue, &depths.ready);
    depths.consumers = s->consumers;
    for (uint32_t i = 0; error == 0 && i < t->retry_count; i++) {
        uint64_t depth = 0;
        error = ask_depth(s, t->retry[i], &depth);
        depths.retry += depth;
    }
    error = error != 0 ? error : ask_depth(s, t->parked, &depths.parked);
    if (error == 0) {
        *ret_depths = depths;
    }
    return error;
}

/* Takes up to max parked messages into the caller's array, without acks. */
static int get_parked(struct session *s, size_t max)
{
    amqp_basic_get_t get = {.queue = amqp_cstring_bytes(s->layout.parked)};
    s->parked_end = false;
    while (s->parked_count < max && !s->parked_end) {
        size_t some = max - s->parked_count;
        some = some < PARKED_AT_ONCE ? some : PARKED_AT_ONCE;
        s->parked_max = s->parked_count + some;
        for (size_t i = 0; i < some; i++) {
            session_ask(s, AMQP_BASIC_GET_METHOD, &get);
        }
        int error = session_answers(s);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

static int peek(struct session *s, struct queue_message *ret_messages, size_t max,
                size_t *ret_count)
{
    uint64_t depth;
    s->parked = ret_messages;
    s->parked_count = 0;
    int error = get_parked(s, max);
    if (error == 0 && s->parked_count > 0) {
        session_requeue(s, CHANNEL_ASK, s->parked[s->parked_count - 1].tag, true);
        error = ask_depth(s, s->layout.parked, &depth); /* answered when they are back */
    }
    if (error == 0) {
        *ret_count = s->parked_count;
    }
    return error;
}

/* Waits until everything that was published again is settled. */
static int all_settled(struct session *s)
{
    uint64_t session = broker_session(s->broker);
    int64_t until_ms = broker_now_ms() + s->answer_ms;
    while (broker_is_ready(s->broker) && broker_session(s->broker) == session) {
        if (s->window.waiting == 0) {
            return 0;
        }
        int64_t left_ms = until_ms - broker_now_ms();
        if (left_ms <= 0) {
            broker_fail(s->broker, ERR_IO, "the broker did not confirm a message in time");
        }
        (void)session_turn(s, left_ms < 0 ? 0 : left_ms, false);
    }
    return ERR_AGAIN;
}

/* One batch. ret_count: messages sent. A message that is too long to be ours, or was not confirmed,
 * stays parked. */
static int send_batch(struct session *s, struct queue_message *ret_messages, size_t max,
                      size_t *ret_count)
{
    uint64_t depth;
    s->parked = ret_messages;
    s->parked_count = 0;
    int error = get_parked(s, max);
    if (error != 0) {
        return error;
    }
    for (size_t i = 0; i < s->parked_count; i++) {
        const struct queue_message *message = &s->parked[i];
        s->sent_round[i] = false;
        if (s->too_long[i]) {
            session_requeue(s, CHANNEL_ASK, message->tag, false);
            continue;
        }
        session_publish(s, CHANNEL_AGAIN, s->layout.exchange, s->layout.queue, i | IS_PARKED, 0, "",
                        (struct span){message->body, message->len});
    }
    error = all_settled(s);
    error = error != 0 ? error : ask_depth(s, s->layout.parked, &depth); /* then the acks have
                                                                          * arrived */
    size_t sent = 0;
    for (size_t i = 0; i < s->parked_count; i++) {
        if (s->sent_round[i]) {
            ret_messages[sent++] = ret_messages[i];
        }
    }
    *ret_count = sent;
    return error;
}

static int redrive_parked(struct session *s, struct queue_message *ret_messages, size_t max,
                          size_t *ret_count)
{
    size_t count = 0;
    int error = 0;
    do {
        size_t sent = 0;
        size_t some = max - count < PARKED_AT_ONCE ? max - count : PARKED_AT_ONCE;
        error = send_batch(s, ret_messages + count, some, &sent);
        count += sent;
        if (sent == 0) {
            break; /* none left, or none that can be sent */
        }
    } while (error == 0 && count < max && !s->parked_end);
    if (error == 0 || count > 0) {
        *ret_count = count;
        return 0; /* a message missing from the result is still parked, or comes twice */
    }
    return error;
}

int parked_look(struct queue *queue, struct queue_message *ret_messages, size_t max, bool redrive,
                size_t *ret_count)
{
    struct session *s = session_of(queue);
    CHECK(!s->layout.publisher);
    (void)session_turn(s, 0, false);
    if (!broker_is_ready(s->broker)) {
        return ERR_AGAIN;
    }
    return redrive ? redrive_parked(s, ret_messages, max, ret_count)
                   : peek(s, ret_messages, max, ret_count);
}
