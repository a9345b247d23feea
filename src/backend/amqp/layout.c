/* See layout.h. */
#include "backend/amqp/layout.h"

#include <stdio.h>
#include <string.h>

/* RabbitMQ 4 has a default limit of 20 deliveries and drops the message after it. Reading a parked
 * message counts as a delivery. For the other queues, consumers park what was delivered too often;
 * unlike the broker, they make sure that it has arrived. */
#define DELIVERY_LIMIT 1000000

void layout_name(struct layout *t)
{
    (void)snprintf(t->dead, sizeof(t->dead), "%.*s.dead", LAYOUT_NAME_MAX, t->queue);
    if (t->parked[0] == '\0') {
        (void)snprintf(t->parked, sizeof(t->parked), "%.*s.parked", LAYOUT_NAME_MAX, t->queue);
    }
    for (uint32_t i = 0; i < t->retry_count; i++) {
        (void)snprintf(t->retry[i], sizeof(t->retry[i]), "%.*s.retry.%us", LAYOUT_NAME_MAX,
                       t->queue, (unsigned)t->retry_s[i]);
    }
}

/* ---- requests ---- */

static void ask_channel(uint16_t channel, struct layout_step *step)
{
    step->channel = channel;
    step->method = AMQP_CHANNEL_OPEN_METHOD;
    step->answer = AMQP_CHANNEL_OPEN_OK_METHOD;
    step->what = "a channel";
}

static void ask_confirms(uint16_t channel, struct layout_step *step)
{
    step->channel = channel;
    step->method = AMQP_CONFIRM_SELECT_METHOD;
    step->answer = AMQP_CONFIRM_SELECT_OK_METHOD;
    step->what = "confirms";
}

static void ask_prefetch(uint16_t count, struct layout_step *step)
{
    step->channel = CHANNEL_WORK;
    step->method = AMQP_BASIC_QOS_METHOD;
    step->answer = AMQP_BASIC_QOS_OK_METHOD;
    step->what = "the prefetch";
    step->request.qos.prefetch_count = count;
}

static void ask_exchange(const char *name, const char *type, struct layout_step *step)
{
    step->channel = CHANNEL_ASK;
    step->method = AMQP_EXCHANGE_DECLARE_METHOD;
    step->answer = AMQP_EXCHANGE_DECLARE_OK_METHOD;
    step->what = "exchange";
    step->name = name;
    step->request.exchange.exchange = amqp_cstring_bytes(name);
    step->request.exchange.type = amqp_cstring_bytes(type);
    step->request.exchange.durable = 1;
}

static void ask_binding(const char *queue, const char *exchange, struct layout_step *step)
{
    step->channel = CHANNEL_ASK;
    step->method = AMQP_QUEUE_BIND_METHOD;
    step->answer = AMQP_QUEUE_BIND_OK_METHOD;
    step->what = "the binding of queue";
    step->name = queue;
    step->request.bind.queue = amqp_cstring_bytes(queue);
    step->request.bind.exchange = amqp_cstring_bytes(exchange);
    step->request.bind.routing_key = amqp_cstring_bytes(queue);
}

static void add_text(struct layout_step *step, const char *key, const char *text)
{
    amqp_table_t *table = &step->request.queue.arguments;
    step->arguments[table->num_entries++] = (amqp_table_entry_t){
        .key = amqp_cstring_bytes(key),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(text)}};
}

static void add_number(struct layout_step *step, const char *key, int64_t number)
{
    amqp_table_t *table = &step->request.queue.arguments;
    step->arguments[table->num_entries++] =
        (amqp_table_entry_t){.key = amqp_cstring_bytes(key),
                             .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = number}};
}

static void ask_queue(const struct layout *t, const char *name, struct layout_step *step)
{
    step->channel = CHANNEL_ASK;
    step->method = AMQP_QUEUE_DECLARE_METHOD;
    step->answer = AMQP_QUEUE_DECLARE_OK_METHOD;
    step->what = "queue";
    step->name = name;
    step->request.queue.queue = amqp_cstring_bytes(name);
    step->request.queue.durable = 1;
    step->request.queue.arguments.entries = step->arguments;
    add_text(step, "x-queue-type", t->classic ? "classic" : "quorum");
}

static void add_delivery_limit(const struct layout *t, struct layout_step *step)
{
    if (!t->classic) {
        add_number(step, "x-delivery-limit", DELIVERY_LIMIT);
    }
}

static void add_dead_letters(struct layout_step *step, const char *exchange, const char *key)
{
    add_text(step, "x-dead-letter-exchange", exchange);
    add_text(step, "x-dead-letter-routing-key", key);
}

/*
 * The queue keeps dead letters until they have arrived. Used only where it is needed: a node has
 * one supervisor for all such queues. If one is deleted before its leader has settled, that
 * supervisor may end, and with it all such queues of the node until it restarts (rabbitmq-server
 * #16652).
 */
static void add_at_least_once(const struct layout *t, struct layout_step *step)
{
    if (!t->classic) {
        add_text(step, "x-dead-letter-strategy", "at-least-once");
        add_text(step, "x-overflow", "reject-publish"); /* required by the strategy */
    }
}

/* ---- the list ---- */

static bool channel_step(const struct layout *t, uint32_t index, struct layout_step *step)
{
    switch (index) {
    case 0:
        ask_channel(CHANNEL_WORK, step);
        return true;
    case 1:
        ask_channel(CHANNEL_ASK, step);
        return true;
    case 2:
        if (t->publisher) {
            ask_confirms(CHANNEL_WORK, step);
        } else {
            ask_channel(CHANNEL_AGAIN, step);
        }
        return true;
    case 3:
        ask_confirms(CHANNEL_AGAIN, step);
        return true;
    case 4:
        ask_prefetch(t->prefetch, step);
        return true;
    default:
        return false;
    }
}

static bool queue_step(const struct layout *t, uint32_t index, struct layout_step *step)
{
    switch (index) {
    case 0:
        ask_exchange(t->exchange, "direct", step);
        return true;
    case 1:
        ask_exchange(t->dead, "direct", step);
        return true;
    case 2:
        ask_queue(t, t->parked, step);
        add_delivery_limit(t, step);
        return true;
    case 3:
        ask_binding(t->parked, t->dead, step);
        return true;
    case 4:
        ask_queue(t, t->queue, step);
        add_dead_letters(step, t->dead, t->parked);
        add_delivery_limit(t, step);
        return true;
    case 5:
        ask_binding(t->queue, t->exchange, step);
        return true;
    default:
        break;
    }
    index -= 6;
    uint32_t which = index / 2;
    if (which >= t->retry_count) {
        return false;
    }
    if (index % 2 == 0) {
        ask_queue(t, t->retry[which], step);
        add_dead_letters(step, t->exchange, t->queue);
        add_at_least_once(t, step);
        add_number(step, "x-message-ttl", (int64_t)t->retry_s[which] * 1000);
    } else {
        ask_binding(t->retry[which], t->exchange, step);
    }
    return true;
}

bool layout_step(const struct layout *t, uint32_t index, struct layout_step *ret_step)
{
    uint32_t channels = t->publisher ? 3 : 5;
    memset(ret_step, 0, sizeof(*ret_step));
    ret_step->name = "";
    if (index < channels) {
        return channel_step(t, index, ret_step);
    }
    index -= channels;
    if (t->events) {
        ask_exchange(t->exchange, "topic", ret_step);
        return index == 0;
    }
    return queue_step(t, index, ret_step);
}
