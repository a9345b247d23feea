/* See queue_amqp.h. */
#include "backend/amqp/queue_amqp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "backend/amqp/session.h"
#include "base/check.h"
#include "base/err.h"

#define NAME_DEFAULT "sluice.orders"
#define CONTENT_TYPE_DEFAULT "application/octet-stream"
#define WINDOW_DEFAULT 1024
#define WINDOW_MAX 65536
#define PREFETCH_DEFAULT 2048
#define PREFETCH_MAX 65535 /* the protocol has 16 bits */
#define CONNECT_TIMEOUT_DEFAULT_MS 5000
#define CONFIRM_TIMEOUT_DEFAULT_MS 30000
#define HEARTBEAT_DEFAULT_S 20
#define PAUSE_MIN_DEFAULT_MS 100
#define PAUSE_MAX_DEFAULT_MS 5000
#define RETRY_MAX_S 86400
/* Output that is collected before it is sent. */
#define GATHER_BYTES 32768
/* If the broker does not read, nothing more is accepted beyond this. */
#define UNSENT_MAX (4U << 20)
#define GOODBYE_MS 1000

static _Thread_local char open_error[BROKER_ERROR_MAX];

static int refuse(const char *what)
{
    (void)snprintf(open_error, sizeof(open_error), "%s", what);
    return ERR_INVALID;
}

/* ---- publisher ---- */

/* Whether something may be published now. */
static bool can_publish(struct session *s)
{
    if (!broker_is_ready(s->broker)) {
        (void)session_turn(s, 0, false);
    }
    return broker_is_ready(s->broker) && !s->unroutable && broker_blocked(s->broker)[0] == '\0' &&
           broker_unsent(s->broker) < UNSENT_MAX &&
           s->window.waiting + s->outcome_count < s->window_max && window_has_room(&s->window);
}

static int publish_with(struct session *s, uint64_t number, const char *key, struct span body)
{
    CHECK(s->layout.publisher);
    if (body.len > (s->layout.events ? QUEUE_AMQP_EVENT_MAX : QUEUE_BODY_MAX)) {
        return ERR_INVALID;
    }
    if (!can_publish(s)) {
        return ERR_AGAIN;
    }
    session_publish(s, CHANNEL_WORK, s->layout.exchange, key, number, 0, "", body);
    if (broker_unsent(s->broker) >= GATHER_BYTES) {
        broker_flush(s->broker);
    }
    return 0;
}

static int amqp_publish(struct queue *queue, uint64_t number, struct span body)
{
    struct session *s = session_of(queue);
    return publish_with(s, number, s->routing_key, body);
}

int queue_amqp_publish_key(struct queue *queue, uint64_t number, const char *routing_key,
                           struct span body)
{
    struct session *s = session_of(queue);
    CHECK(s->layout.events);
    return strlen(routing_key) > UINT8_MAX ? ERR_INVALID
                                           : publish_with(s, number, routing_key, body);
}

static int amqp_outcomes(struct queue *queue, struct queue_outcome *ret_outcomes, size_t max,
                         int64_t wait_ms, size_t *ret_count)
{
    struct session *s = session_of(queue);
    CHECK(s->layout.publisher);
    int64_t until_ms = broker_now_ms() + wait_ms;
    bool woken = session_turn(s, 0, false);
    for (int64_t left_ms = wait_ms; s->outcome_count == 0 && left_ms > 0 && !woken;
         left_ms = until_ms - broker_now_ms()) {
        woken = session_turn(s, left_ms, true);
    }
    size_t count = 0;
    while (count < max && s->outcome_count > 0) {
        ret_outcomes[count++] = s->outcomes[s->outcome_first];
        s->outcome_first = (s->outcome_first + 1) % s->window_max;
        s->outcome_count--;
    }
    if (count == 0) {
        return ERR_AGAIN;
    }
    *ret_count = count;
    return 0;
}

/* ---- consumer ---- */

static int amqp_take(struct queue *queue, struct queue_message *ret_messages, size_t max,
                     int64_t wait_ms, size_t *ret_count)
{
    struct session *s = session_of(queue);
    CHECK(!s->layout.publisher);
    int64_t until_ms = broker_now_ms() + wait_ms;
    s->wants_messages = true;
    session_consume(s);
    bool woken = session_turn(s, 0, false);
    for (int64_t left_ms = wait_ms; (s->taken_count == 0 || max == 0) && left_ms > 0 && !woken;
         left_ms = until_ms - broker_now_ms()) {
        woken = session_turn(s, left_ms, true);
    }
    size_t count = 0;
    while (count < max && s->taken_count > 0) {
        ret_messages[count++] = s->taken[s->taken_first];
        s->taken_first = (s->taken_first + 1) % s->layout.prefetch;
        s->taken_count--;
    }
    if (count == 0) {
        return ERR_AGAIN;
    }
    *ret_count = count;
    return 0;
}

/* Publishes a copy to where it waits; again_settled acks the original. */
static int send_again(struct session *s, const struct queue_message *message, int how)
{
    const struct layout *t = &s->layout;
    struct span body = {message->body, message->len};
    bool last = message->attempts >= t->retry_count;
    uint32_t pause = last ? t->retry_count - 1 : message->attempts;
    if (!window_has_room(&s->window)) {
        return ERR_IO; /* it was settled twice: no more than prefetch are unsettled */
    }
    if (how == QUEUE_PARK || (how == QUEUE_RETRY && last)) {
        session_publish(s, CHANNEL_AGAIN, t->dead, t->parked, message->tag, message->attempts,
                        how == QUEUE_PARK ? message->reason : "", body);
    } else {
        session_publish(s, CHANNEL_AGAIN, t->exchange, t->retry[pause], message->tag, pause + 1, "",
                        body);
    }
    return 0;
}

static int amqp_settle(struct queue *queue, const struct queue_message *message, int how)
{
    struct session *s = session_of(queue);
    CHECK(!s->layout.publisher && message->len <= QUEUE_BODY_MAX);
    int error = 0;
    if (!broker_is_ready(s->broker) || message->session != broker_session(s->broker)) {
        return ERR_CLOSED;
    }
    if (how == QUEUE_ACK) {
        session_ack(s, CHANNEL_WORK, message->tag);
    } else {
        error = send_again(s, message, how);
    }
    if (broker_unsent(s->broker) >= GATHER_BYTES) {
        broker_flush(s->broker);
    }
    return error;
}

static void amqp_wake(struct queue *queue)
{
    broker_wake(session_of(queue)->broker);
}

/* ---- opening ---- */

static const struct queue_ops ops = {
    .publish = amqp_publish,
    .outcomes = amqp_outcomes,
    .take = amqp_take,
    .settle = amqp_settle,
    .depths = parked_depths,
    .parked = parked_look,
    .wake = amqp_wake,
    .announce = queue_amqp_publish_key,
};

static uint32_t or_default(uint32_t value, uint32_t standard)
{
    return value == 0 ? standard : value;
}

/* Copies a name; false: longer than max. */
static bool copy_name(const char *name, const char *standard, size_t max, char *ret_name)
{
    const char *text = name == NULL || name[0] == '\0' ? standard : name;
    size_t length = strlen(text);
    if (length > max) {
        return false;
    }
    memcpy(ret_name, text, length + 1);
    return true;
}

int queue_amqp_check_url(const char *url, char *ret_error, size_t capacity)
{
    struct amqp_address address;
    return amqp_address_parse(url, &address, ret_error, capacity);
}

static int read_retries(const struct queue_amqp_options *o, struct layout *t)
{
    static const uint32_t standard[] = {1, 5, 30, 120};
    bool given = o->retry_s != NULL;
    size_t count = given ? o->retry_count : sizeof(standard) / sizeof(standard[0]);
    const uint32_t *list = given ? o->retry_s : standard;
    if (count == 0 || count > LAYOUT_RETRIES_MAX) {
        return refuse("there must be 1 to 8 pauses before retries");
    }
    for (size_t i = 0; i < count; i++) {
        if (list[i] == 0 || list[i] > RETRY_MAX_S || (i > 0 && list[i] <= list[i - 1])) {
            return refuse("the pauses before retries must grow, from 1 to 86400 seconds");
        }
        t->retry_s[i] = list[i];
    }
    t->retry_count = (uint32_t)count;
    return 0;
}

static int read_options(const struct queue_amqp_options *o, enum queue_amqp_role role,
                        struct session *s)
{
    struct layout *t = &s->layout;
    uint32_t prefetch = or_default(o->prefetch, PREFETCH_DEFAULT);
    s->window_max = or_default(o->window, WINDOW_DEFAULT);
    if (s->window_max > WINDOW_MAX || prefetch > PREFETCH_MAX) {
        return refuse("window is at most 65536, prefetch 65535");
    }
    t->publisher = role == QUEUE_AMQP_PUBLISHER;
    t->events = o->events;
    t->classic = o->classic;
    t->prefetch = (uint16_t)prefetch;
    if (t->events && !t->publisher) {
        return refuse("events are published only");
    }
    if (!copy_name(o->exchange, NAME_DEFAULT, LAYOUT_NAME_MAX, t->exchange) ||
        !copy_name(o->queue, NAME_DEFAULT, LAYOUT_NAME_MAX, t->queue)) {
        return refuse("the names of exchange and queue have at most 200 bytes");
    }
    if (!copy_name(o->content_type, CONTENT_TYPE_DEFAULT, NAME_ROOM - 1, s->content_type) ||
        !copy_name(o->events ? o->routing_key : t->queue, "", NAME_ROOM - 1, s->routing_key)) {
        return refuse("routing key and content type have at most 255 bytes");
    }
    s->answer_ms = or_default(o->connect_timeout_ms, CONNECT_TIMEOUT_DEFAULT_MS);
    s->confirm_ms = or_default(o->confirm_timeout_ms, CONFIRM_TIMEOUT_DEFAULT_MS);
    if (o->parked != NULL && o->parked[0] != '\0' &&
        !copy_name(o->parked, "", LAYOUT_NAME_MAX, t->parked)) {
        return refuse("the name of the parking queue has at most 200 bytes");
    }
    int error = read_retries(o, t);
    layout_name(t);
    return error;
}

static int make_room(struct session *s)
{
    bool publisher = s->layout.publisher;
    uint32_t window = publisher ? s->window_max : (uint32_t)s->layout.prefetch + PARKED_AT_ONCE;
    int error = window_init(&s->window, window);
    if (publisher) {
        s->outcomes = calloc(s->window_max, sizeof(*s->outcomes));
    } else {
        s->taken = calloc(s->layout.prefetch, sizeof(*s->taken));
    }
    bool whole = publisher ? s->outcomes != NULL : s->taken != NULL;
    return error != 0 || !whole ? ERR_NOMEM : 0;
}

static int make_broker(struct session *s, const struct queue_amqp_options *o)
{
    struct broker_config config = {
        .name = s->name,
        .connect_timeout_ms = or_default(o->connect_timeout_ms, CONNECT_TIMEOUT_DEFAULT_MS),
        .silence_ms = or_default(o->heartbeat_s, HEARTBEAT_DEFAULT_S) * 1000,
        .pause_min_ms = or_default(o->pause_min_ms, PAUSE_MIN_DEFAULT_MS),
        .pause_max_ms = or_default(o->pause_max_ms, PAUSE_MAX_DEFAULT_MS),
    };
    int error = amqp_address_parse(o->url == NULL ? "" : o->url, &config.address, open_error,
                                   sizeof(open_error));
    if (error == 0 && o->password_file != NULL && o->password_file[0] != '\0') {
        error = amqp_address_password(&config.address, o->password_file, open_error,
                                      sizeof(open_error));
    }
    if (error != 0) {
        return error;
    }
    if (getrandom(&config.seed, sizeof(config.seed), GRND_NONBLOCK) < 0) {
        config.seed = (uint64_t)getpid(); /* it only has to differ between processes */
    }
    const char *role = s->layout.events ? "events" : s->layout.publisher ? "relay" : "booker";
    (void)snprintf(s->name, sizeof(s->name), "sluice %s %ld", role, (long)getpid());
    return broker_open(&config, session_owner(s), &s->broker);
}

/* Reports at once what only an operator can change. Other errors may pass. */
static int first_connection(struct session *s)
{
    const char *text = "";
    int64_t until_ms = broker_now_ms() + s->answer_ms;
    for (int64_t left_ms = s->answer_ms;
         left_ms > 0 && !broker_is_ready(s->broker) && !broker_is_away(s->broker);
         left_ms = until_ms - broker_now_ms()) {
        (void)session_turn(s, left_ms, false);
    }
    int error = broker_error(s->broker, &text);
    if (broker_is_ready(s->broker) || error == ERR_IO || error == 0) {
        return 0;
    }
    (void)snprintf(open_error, sizeof(open_error), "%s", text);
    return error;
}

int queue_amqp_open(const struct queue_amqp_options *options, enum queue_amqp_role role,
                    struct queue **ret_queue)
{
    struct session *s = calloc(1, sizeof(*s));
    (void)snprintf(open_error, sizeof(open_error), "%s", err_text(ERR_NOMEM));
    if (s == NULL) {
        return ERR_NOMEM;
    }
    s->queue.ops = &ops;
    int error = read_options(options, role, s);
    error = error != 0 ? error : make_room(s);
    error = error != 0 ? error : make_broker(s, options);
    error = error != 0 ? error : first_connection(s);
    if (error != 0) {
        queue_amqp_close(&s->queue);
        return error;
    }
    *ret_queue = &s->queue;
    return 0;
}

int queue_amqp_wait(struct queue *queue, int64_t wait_ms)
{
    struct session *s = session_of(queue);
    int64_t until_ms = broker_now_ms() + wait_ms;
    (void)session_turn(s, 0, false);
    for (int64_t left_ms = wait_ms; !broker_is_ready(s->broker) && left_ms > 0;
         left_ms = until_ms - broker_now_ms()) {
        (void)session_turn(s, left_ms, false);
    }
    return broker_is_ready(s->broker) ? 0 : ERR_AGAIN;
}

void queue_amqp_close(struct queue *queue)
{
    if (queue == NULL) {
        return;
    }
    struct session *s = session_of(queue);
    if (s->broker != NULL) {
        int64_t until_ms = broker_now_ms() + GOODBYE_MS;
        for (int64_t left_ms = GOODBYE_MS;
             left_ms > 0 && broker_is_ready(s->broker) && s->window.waiting > 0;
             left_ms = until_ms - broker_now_ms()) {
            (void)session_turn(s, left_ms, false);
        }
        broker_close(s->broker, GOODBYE_MS);
    }
    window_free(&s->window);
    free(s->outcomes);
    free(s->taken);
    free(s);
}

const char *queue_amqp_error(const struct queue *queue)
{
    const char *text = "";
    if (queue == NULL) {
        return open_error;
    }
    (void)broker_error(((const struct session *)(const void *)queue)->broker, &text);
    return text;
}
