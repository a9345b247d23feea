/*
 * Handles the frames of a connection: sets up channels and layout, one request after the other;
 * then dispatches confirms, returns, deliveries and answers. See session.h.
 */
#include "backend/amqp/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"

#define DELIVERY_PERSISTENT 2
#define ATTEMPTS_HEADER "attempts"
#define REASON_HEADER "reason"
#define DELIVERIES_HEADER "x-delivery-count" /* set by quorum queues on redeliveries */

/* ---- time ---- */

/* When the oldest unconfirmed message is late; INT64_MAX: none, or the broker blocks publishing. */
static int64_t confirm_due_ms(struct session *s)
{
    int64_t oldest_ms = window_oldest_ms(&s->window);
    if (broker_blocked(s->broker)[0] != '\0') {
        s->blocked_ms = broker_now_ms();
        return INT64_MAX;
    }
    if (oldest_ms == INT64_MAX) {
        return INT64_MAX;
    }
    return (oldest_ms > s->blocked_ms ? oldest_ms : s->blocked_ms) + s->confirm_ms;
}

bool session_turn(struct session *s, int64_t wait_ms, bool wakeable)
{
    int64_t due_ms = confirm_due_ms(s);
    int64_t left_ms = due_ms == INT64_MAX ? INT64_MAX : due_ms - broker_now_ms();
    left_ms = left_ms < 0 ? 0 : left_ms;
    bool woken = broker_turn(s->broker, left_ms < wait_ms ? left_ms : wait_ms, wakeable);
    /* Only after reading: this process may be the one that slept. */
    if (broker_is_ready(s->broker) && broker_now_ms() >= confirm_due_ms(s)) {
        broker_fail(s->broker, ERR_IO,
                    "the broker has not confirmed a message within %" PRId64
                    " ms: what is under way is sent again",
                    s->confirm_ms);
        (void)broker_turn(s->broker, 0, false); /* ends the connection */
    }
    return woken;
}

/* ---- sending ---- */

void session_publish(struct session *s, uint16_t channel, const char *exchange, const char *key,
                     uint64_t number, uint32_t attempts, const char *reason, struct span body)
{
    char id[24];
    amqp_table_entry_t headers[2];
    int header_count = 0;
    amqp_basic_publish_t publish = {.exchange = amqp_cstring_bytes(exchange),
                                    .routing_key = amqp_cstring_bytes(key),
                                    .mandatory = !s->layout.events};
    if (attempts > 0) {
        headers[header_count++] = (amqp_table_entry_t){
            .key = amqp_cstring_bytes(ATTEMPTS_HEADER),
            .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = (int64_t)attempts}};
    }
    if (reason[0] != '\0') {
        headers[header_count++] = (amqp_table_entry_t){
            .key = amqp_cstring_bytes(REASON_HEADER),
            .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(reason)}};
    }
    amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG |
                  AMQP_BASIC_CORRELATION_ID_FLAG |
                  (header_count > 0 ? AMQP_BASIC_HEADERS_FLAG : 0U),
        .delivery_mode = DELIVERY_PERSISTENT,
        .content_type = amqp_cstring_bytes(s->content_type),
        .headers = {header_count, headers}};
    /* A returned message carries its properties, not its tag: so the tag is a property. */
    struct out out = out_over(id, sizeof(id));
    out_u64(&out, window_add(&s->window, number, broker_now_ms()));
    properties.correlation_id = (amqp_bytes_t){out.len, id};
    broker_method(s->broker, channel, AMQP_BASIC_PUBLISH_METHOD, &publish);
    broker_content(s->broker, channel, &properties, body);
}

void session_ack(struct session *s, uint16_t channel, uint64_t tag)
{
    amqp_basic_ack_t ack = {.delivery_tag = tag};
    broker_method(s->broker, channel, AMQP_BASIC_ACK_METHOD, &ack);
}

void session_requeue(struct session *s, uint16_t channel, uint64_t tag, bool multiple)
{
    amqp_basic_nack_t nack = {.delivery_tag = tag, .multiple = multiple, .requeue = 1};
    broker_method(s->broker, channel, AMQP_BASIC_NACK_METHOD, &nack);
}

void session_consume(struct session *s)
{
    if (!s->wants_messages || s->consuming || !broker_is_ready(s->broker)) {
        return;
    }
    amqp_basic_consume_t consume = {.queue = amqp_cstring_bytes(s->layout.queue)};
    broker_method(s->broker, CHANNEL_WORK, AMQP_BASIC_CONSUME_METHOD, &consume);
    s->consuming = true;
}

void session_ask(struct session *s, amqp_method_number_t method, void *decoded)
{
    broker_method(s->broker, CHANNEL_ASK, method, decoded);
    s->answers_due++;
}

int session_answers(struct session *s)
{
    uint64_t session = broker_session(s->broker);
    int64_t until_ms = broker_now_ms() + s->answer_ms;
    while (broker_is_ready(s->broker) && broker_session(s->broker) == session) {
        if (s->answers_due == 0) {
            return 0;
        }
        int64_t left_ms = until_ms - broker_now_ms();
        if (left_ms <= 0) {
            broker_fail(s->broker, ERR_IO, "the broker did not answer within %" PRId64 " ms",
                        s->answer_ms);
            left_ms = 0;
        }
        (void)session_turn(s, left_ms, false);
    }
    return ERR_AGAIN;
}

/* ---- setting up ---- */

static void set_up(struct session *s)
{
    struct layout_step step;
    if (layout_step(&s->layout, s->step, &step)) {
        broker_method(s->broker, step.channel, step.method, &step.request);
        return;
    }
    broker_ready(s->broker);
    session_consume(s);
}

static void opened(void *context)
{
    struct session *s = context;
    s->step = 0;
    s->consuming = false;
    s->unroutable = false;
    s->answers_due = 0;
    memset(s->incoming, 0, sizeof(s->incoming));
    set_up(s);
}

static void refused(struct session *s, const amqp_channel_close_t *why)
{
    struct layout_step step;
    int words = (int)(why->reply_text.len < 300 ? why->reply_text.len : 300);
    const char *text = why->reply_text.bytes;
    (void)layout_step(&s->layout, s->step, &step);
    if (why->reply_code == AMQP_PRECONDITION_FAILED) {
        broker_fail(s->broker, ERR_EXISTS,
                    "%s %s exists with other arguments, made by an earlier version or somebody "
                    "else: let it run empty and delete it (it is declared anew), or choose another "
                    "name or kind of queue; the broker says: %.*s",
                    step.what, step.name, words, text);
    } else if (why->reply_code == AMQP_ACCESS_REFUSED) {
        broker_fail(s->broker, ERR_INVALID, "the broker refuses %s %s to our user: %.*s", step.what,
                    step.name, words, text);
    } else {
        broker_fail(s->broker, ERR_IO, "the broker refuses %s %s: %.*s", step.what, step.name,
                    words, text);
    }
}

static void set_up_answer(struct session *s, const amqp_frame_t *frame)
{
    struct layout_step step;
    (void)layout_step(&s->layout, s->step, &step);
    if (frame->payload.method.id == AMQP_CHANNEL_CLOSE_METHOD) {
        refused(s, frame->payload.method.decoded);
    } else if (frame->payload.method.id == step.answer && frame->channel == step.channel) {
        s->step++;
        set_up(s);
    } else {
        broker_fail(s->broker, ERR_IO, "the broker answered another question than %s %s", step.what,
                    step.name);
    }
}

/* ---- outcomes ---- */

static void publisher_settled(void *context, uint64_t number, bool confirmed)
{
    struct session *s = context;
    CHECK(s->outcome_count < s->window_max);
    uint32_t at = (s->outcome_first + s->outcome_count++) % s->window_max;
    s->outcomes[at] = (struct queue_outcome){
        .number = number, .kind = confirmed ? QUEUE_CONFIRMED : QUEUE_UNCONFIRMED};
}

/* The copy is safe: ack the original. */
static void again_settled(void *context, uint64_t number, bool confirmed)
{
    struct session *s = context;
    if ((number & IS_PARKED) != 0) {
        size_t index = number & ~IS_PARKED;
        s->sent_round[index] = confirmed;
        if (confirmed) {
            session_ack(s, CHANNEL_ASK, s->parked[index].tag);
        } else {
            session_requeue(s, CHANNEL_ASK, s->parked[index].tag, false);
        }
    } else if (confirmed) {
        session_ack(s, CHANNEL_WORK, number);
    } else {
        /* A new connection declares what may be missing, gives the message back, and makes a
         * pause. */
        broker_fail(s->broker, ERR_IO, "the broker did not take a message for its retry");
    }
}

/* The connection is lost: originals come again by themselves. */
static void again_lost(void *context, uint64_t number, bool confirmed)
{
    (void)context;
    (void)number;
    (void)confirmed;
}

static void lost(void *context)
{
    struct session *s = context;
    window_lose(&s->window, s->layout.publisher ? publisher_settled : again_lost, s);
    s->consuming = false;
    s->taken_count = 0;
    s->answers_due = 0;
}

/* The target of an unroutable message is missing. A new connection declares it again; the other
 * outstanding messages are settled first. */
static void mend(struct session *s)
{
    if (s->unroutable && s->window.waiting == 0) {
        broker_fail(
            s->broker, ERR_IO,
            "the broker returned a message: nothing is bound to exchange %s with its key any "
            "more; it is declared again",
            s->layout.exchange);
    }
}

static void settled(struct session *s, uint64_t tag, bool multiple, bool confirmed)
{
    window_settled *tell = s->layout.publisher ? publisher_settled : again_settled;
    if (!window_settle(&s->window, tag, multiple, confirmed, tell, s)) {
        broker_fail(s->broker, ERR_IO,
                    "the broker settled message %" PRIu64 ", which is not under way", tag);
    }
    if (!confirmed) {
        broker_note(s->broker, "the broker could not take a message (nack)");
    }
    mend(s);
}

/* ---- incoming messages ---- */

/* NULL: no such header. */
static const amqp_field_value_t *header_of(const amqp_basic_properties_t *properties,
                                           const char *name)
{
    if ((properties->_flags & AMQP_BASIC_HEADERS_FLAG) == 0) {
        return NULL;
    }
    for (int i = 0; i < properties->headers.num_entries; i++) {
        const amqp_table_entry_t *entry = &properties->headers.entries[i];
        if (span_is((struct span){entry->key.bytes, entry->key.len}, name)) {
            return &entry->value;
        }
    }
    return NULL;
}

/* A header with a count; 0: missing. */
static uint32_t count_of(const amqp_basic_properties_t *properties, const char *name)
{
    const amqp_field_value_t *value = header_of(properties, name);
    int64_t n = value == NULL                        ? 0
                : value->kind == AMQP_FIELD_KIND_I64 ? value->value.i64
                : value->kind == AMQP_FIELD_KIND_I32 ? value->value.i32
                                                     : 0;
    return n < 0 ? 0 : n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static void reason_of(const amqp_basic_properties_t *properties,
                      char ret_reason[QUEUE_REASON_MAX + 1])
{
    const amqp_field_value_t *value = header_of(properties, REASON_HEADER);
    if (value != NULL && value->kind == AMQP_FIELD_KIND_UTF8) {
        (void)snprintf(ret_reason, QUEUE_REASON_MAX + 1, "%.*s", (int)value->value.bytes.len,
                       (const char *)value->value.bytes.bytes);
    }
}

/* Parks a message that was delivered too often; no consumer sees it. The original is acked when the
 * broker has confirmed the copy. */
static void put_aside(struct session *s, const struct incoming *in)
{
    if (!window_has_room(&s->window)) {
        broker_fail(s->broker, ERR_IO, "too many messages wait to be sent again");
        return;
    }
    session_publish(s, CHANNEL_AGAIN, s->layout.dead, s->layout.parked, in->message.tag,
                    in->message.attempts, "taken_too_often",
                    (struct span){in->message.body, in->message.len});
    broker_note(s->broker,
                "a message in queue %s was taken %" PRIu32
                " times and never settled; it has been parked",
                s->layout.queue, in->deliveries);
}

static void delivered(struct session *s, const struct incoming *in)
{
    if (in->too_long) {
        amqp_basic_reject_t reject = {.delivery_tag = in->message.tag};
        broker_method(s->broker, CHANNEL_WORK, AMQP_BASIC_REJECT_METHOD, &reject);
        broker_note(s->broker,
                    "a message in queue %s is longer than any of ours; it has been parked",
                    s->layout.queue);
    } else if (s->taken_count == s->layout.prefetch) {
        broker_fail(s->broker, ERR_IO, "the broker sends more messages than it was asked for");
    } else if (in->deliveries >= LAYOUT_DELIVERIES_MAX) {
        put_aside(s, in);
    } else {
        uint32_t at = (s->taken_first + s->taken_count++) % s->layout.prefetch;
        s->taken[at] = in->message;
    }
}

static void message_complete(struct session *s, uint16_t channel)
{
    struct incoming *in = &s->incoming[channel];
    amqp_method_number_t method = in->method;
    in->method = 0;
    if (method == AMQP_BASIC_DELIVER_METHOD) {
        delivered(s, in);
    } else if (method == AMQP_BASIC_GET_OK_METHOD) {
        if (s->parked_count == s->parked_max || s->answers_due == 0) {
            broker_fail(s->broker, ERR_IO, "the broker sends more messages than it was asked for");
            return;
        }
        s->answers_due--;
        s->too_long[s->parked_count % PARKED_AT_ONCE] = in->too_long;
        s->parked[s->parked_count++] = in->message;
    } else if (window_returned(&s->window, in->returned)) {
        s->unroutable = true;
    } else {
        broker_fail(s->broker, ERR_IO, "the broker returned a message that is not under way");
    }
}

static void content_begins(struct session *s, uint16_t channel, const amqp_frame_t *frame)
{
    struct incoming *in = &s->incoming[channel];
    const amqp_basic_properties_t *properties = frame->payload.properties.decoded;
    uint64_t size = frame->payload.properties.body_size;
    if (frame->payload.properties.class_id != AMQP_BASIC_CLASS) {
        broker_fail(s->broker, ERR_IO, "the broker sent a message of an unknown class");
        return;
    }
    in->left = size;
    in->too_long = size > QUEUE_BODY_MAX;
    in->message.attempts = count_of(properties, ATTEMPTS_HEADER);
    in->deliveries = count_of(properties, DELIVERIES_HEADER);
    reason_of(properties, in->message.reason);
    if ((properties->_flags & AMQP_BASIC_CORRELATION_ID_FLAG) != 0) {
        struct span id = {properties->correlation_id.bytes, properties->correlation_id.len};
        (void)span_parse_u64(id, UINT64_MAX, &in->returned);
    }
    if (size == 0) {
        message_complete(s, channel);
    }
}

static void content_goes_on(struct session *s, uint16_t channel, amqp_bytes_t bytes)
{
    struct incoming *in = &s->incoming[channel];
    size_t room = sizeof(in->message.body) - in->message.len;
    size_t kept = bytes.len < room ? bytes.len : room;
    if (bytes.len > in->left) {
        broker_fail(s->broker, ERR_IO, "the broker sent more of a message than it announced");
        return;
    }
    memcpy(in->message.body + in->message.len, bytes.bytes, kept);
    in->message.len += (uint32_t)kept;
    in->left -= bytes.len;
    if (in->left == 0) {
        message_complete(s, channel);
    }
}

static void message_begins(struct session *s, uint16_t channel, amqp_method_number_t method,
                           uint64_t tag, bool redelivered)
{
    struct incoming *in = &s->incoming[channel];
    in->method = method;
    in->left = 0;
    in->returned = 0;
    in->deliveries = 0;
    in->message.tag = tag;
    in->message.session = broker_session(s->broker);
    in->message.redelivered = redelivered;
    in->message.attempts = 0;
    in->message.reason[0] = '\0';
    in->message.len = 0;
}

/* ---- frames ---- */

static void channel_closed(struct session *s, const amqp_channel_close_t *why)
{
    int words = (int)(why->reply_text.len < 300 ? why->reply_text.len : 300);
    broker_fail(s->broker, ERR_IO, "the broker closed a channel: %.*s", words,
                (const char *)why->reply_text.bytes);
}

/* False: another method. */
static bool answer(struct session *s, uint16_t channel, const amqp_method_t *method)
{
    if (channel != CHANNEL_ASK || s->answers_due == 0) {
        return false;
    }
    if (method->id == AMQP_QUEUE_DECLARE_OK_METHOD) {
        s->depth = ((const amqp_queue_declare_ok_t *)method->decoded)->message_count;
        s->consumers = ((const amqp_queue_declare_ok_t *)method->decoded)->consumer_count;
        s->answers_due--;
    } else if (method->id == AMQP_BASIC_GET_OK_METHOD) {
        const amqp_basic_get_ok_t *got = method->decoded;
        message_begins(s, channel, method->id, got->delivery_tag, got->redelivered != 0);
    } else if (method->id == AMQP_BASIC_GET_EMPTY_METHOD) {
        s->answers_due--;
        s->parked_end = true;
    } else {
        return false;
    }
    return true;
}

static void take_method(struct session *s, uint16_t channel, const amqp_method_t *method)
{
    if (answer(s, channel, method)) {
        return;
    }
    switch (method->id) {
    case AMQP_BASIC_ACK_METHOD: {
        const amqp_basic_ack_t *ack = method->decoded;
        settled(s, ack->delivery_tag, ack->multiple != 0, true);
        break;
    }
    case AMQP_BASIC_NACK_METHOD: {
        const amqp_basic_nack_t *nack = method->decoded;
        settled(s, nack->delivery_tag, nack->multiple != 0, false);
        break;
    }
    case AMQP_BASIC_RETURN_METHOD:
        message_begins(s, channel, method->id, 0, false);
        break;
    case AMQP_BASIC_DELIVER_METHOD: {
        const amqp_basic_deliver_t *deliver = method->decoded;
        if (!s->consuming || channel != CHANNEL_WORK) {
            broker_fail(s->broker, ERR_IO, "the broker delivers what nobody asked for");
            break;
        }
        message_begins(s, channel, method->id, deliver->delivery_tag, deliver->redelivered != 0);
        break;
    }
    case AMQP_BASIC_CONSUME_OK_METHOD:
        break;
    case AMQP_BASIC_CANCEL_METHOD: /* the queue was deleted, or lost its leader */
        broker_fail(s->broker, ERR_IO, "the broker ended our use of queue %s", s->layout.queue);
        break;
    case AMQP_CHANNEL_CLOSE_METHOD:
        channel_closed(s, method->decoded);
        break;
    default:
        broker_fail(s->broker, ERR_IO, "the broker said what nobody asked: %s",
                    amqp_method_name(method->id));
    }
}

static void take_frame(void *context, const amqp_frame_t *frame)
{
    struct session *s = context;
    bool method = frame->frame_type == AMQP_FRAME_METHOD;
    if (frame->channel > CHANNEL_AGAIN) {
        broker_fail(s->broker, ERR_IO, "the broker speaks on a channel that is not open");
    } else if (!broker_is_ready(s->broker)) {
        if (method) {
            set_up_answer(s, frame);
        }
    } else if (method) {
        take_method(s, frame->channel, &frame->payload.method);
    } else if (s->incoming[frame->channel].method == 0) {
        broker_fail(s->broker, ERR_IO, "the broker sent a message without its beginning");
    } else if (frame->frame_type == AMQP_FRAME_HEADER) {
        content_begins(s, frame->channel, frame);
    } else if (frame->frame_type == AMQP_FRAME_BODY) {
        content_goes_on(s, frame->channel, frame->payload.body_fragment);
    }
}

struct broker_owner session_owner(struct session *s)
{
    return (struct broker_owner){.context = s, .opened = opened, .frame = take_frame, .lost = lost};
}
