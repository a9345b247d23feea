/*
 * The queue on RabbitMQ, met by a broker that does not keep to the protocol: a small one of the
 * test's own logs clients in, answers what they ask, and at one moment says something it must not.
 * The connection ends with the reason, unfinished messages are reported as unconfirmed, and the next
 * connection, where it behaves, works.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/amqp/queue_amqp.h"
#include "base/bytes.h"
#include "base/err.h"
#include "conformance/queue/queue_suite.h"

#define ID(class, method) ((class) << 16 | (method))
#define START ID(10, 10)
#define START_OK ID(10, 11)
#define TUNE ID(10, 30)
#define OPEN ID(10, 40)
#define CLOSE ID(10, 50)
#define CHANNEL_OPEN ID(20, 10)
#define CHANNEL_CLOSE ID(20, 40)
#define EXCHANGE_DECLARE ID(40, 10)
#define QUEUE_DECLARE ID(50, 10)
#define QUEUE_BIND ID(50, 20)
#define QOS ID(60, 10)
#define CONSUME ID(60, 20)
#define CANCEL ID(60, 30)
#define PUBLISH ID(60, 40)
#define RETURN ID(60, 50)
#define DELIVER ID(60, 60)
#define GET ID(60, 70)
#define ACK ID(60, 80)
#define NACK ID(60, 120)
#define CONFIRM_SELECT ID(85, 10)
#define BLOCKED ID(10, 60)
#define GREETING 1 /* no method: before anything was said */

/* ---- bytes ---- */

static void put(struct out *out, uint64_t value, size_t bytes)
{
    value = htobe64(value);
    out_bytes(out, (const char *)&value + 8 - bytes, bytes);
}

static void put_short(struct out *out, const char *text)
{
    put(out, strlen(text), 1);
    out_text(out, text);
}

static void put_long(struct out *out, const char *text)
{
    put(out, strlen(text), 4);
    out_text(out, text);
}

static void put_frame(struct out *out, uint8_t type, uint16_t channel, const struct out *payload)
{
    put(out, type, 1);
    put(out, channel, 2);
    put(out, payload->len, 4);
    out_put(out, out_span(payload));
    put(out, 0xCE, 1);
}

/* A method whose arguments stand in a format: 1, 2, 4, 8: a number of so many bytes; s, l: texts. */
static void put_method(struct out *out, uint16_t channel, uint32_t id, const char *format, ...)
{
    char memory[1024];
    struct out payload = out_over(memory, sizeof(memory));
    va_list args;
    put(&payload, id, 4);
    va_start(args, format);
    for (const char *f = format; *f != '\0'; f++) {
        if (*f == 's') {
            put_short(&payload, va_arg(args, const char *));
        } else if (*f == 'l') {
            put_long(&payload, va_arg(args, const char *));
        } else {
            put(&payload, va_arg(args, uint64_t), (size_t)(*f - '0'));
        }
    }
    va_end(args);
    put_frame(out, 1, channel, &payload);
}

static void put_content(struct out *out, uint16_t channel, uint16_t class, uint64_t announced,
                        const char *correlation_id, const char *body)
{
    char memory[1024];
    struct out payload = out_over(memory, sizeof(memory));
    put(&payload, class, 2);
    put(&payload, 0, 2);
    put(&payload, announced, 8);
    put(&payload, correlation_id != NULL ? 1 << 10 : 0, 2);
    if (correlation_id != NULL) {
        put_short(&payload, correlation_id);
    }
    put_frame(out, 2, channel, &payload);
    payload.len = 0;
    out_text(&payload, body);
    put_frame(out, 3, channel, &payload);
}

/* ---- the broker ---- */

typedef void strange_words(struct out *out);

struct strange {
    int listener;
    pthread_t thread;
    _Atomic uint32_t when; /* the method it answers strangely, once */
    strange_words *_Atomic words;
    atomic_bool said;
    atomic_int logins;
    atomic_int published;
    atomic_int acked;
};

static bool read_all(int fd, void *memory, size_t bytes)
{
    char *at = memory;
    while (bytes > 0) {
        ssize_t n = recv(fd, at, bytes, 0);
        if (n <= 0) {
            return false;
        }
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* What a broker answers. */
static void answer(struct out *out, uint16_t channel, uint32_t id, uint64_t published)
{
    switch (id) {
    case START_OK:
        put_method(out, 0, TUNE, "242", (uint64_t)2047, (uint64_t)131072, (uint64_t)60);
        break;
    case OPEN:
        put_method(out, 0, OPEN + 1, "s", "");
        break;
    case CLOSE:
        put_method(out, 0, CLOSE + 1, "");
        break;
    case CHANNEL_OPEN:
        put_method(out, channel, id + 1, "l", "");
        break;
    case QUEUE_DECLARE:
        put_method(out, channel, id + 1, "s44", "some", (uint64_t)0, (uint64_t)0);
        break;
    case CONSUME:
        put_method(out, channel, id + 1, "s", "tag");
        break;
    case EXCHANGE_DECLARE:
    case QUEUE_BIND:
    case QOS:
    case CONFIRM_SELECT:
        put_method(out, channel, id + 1, "");
        break;
    case GET:
        put_method(out, channel, ID(60, 72), "s", "");
        break;
    case PUBLISH:
        put_method(out, channel, ACK, "81", published, (uint64_t)0);
        break;
    default:
        break;
    }
}

static bool strikes(struct strange *strange, uint32_t id)
{
    return id == strange->when && !atomic_exchange(&strange->said, true);
}

static void serve(struct strange *strange, int fd)
{
    char memory[8192];
    char in[140000];
    uint64_t published = 0;
    if (!read_all(fd, in, 8)) {
        return;
    }
    atomic_fetch_add(&strange->logins, 1);
    struct out out = out_over(memory, sizeof(memory));
    if (strikes(strange, GREETING)) {
        strange->words(&out);
    } else {
        put_method(&out, 0, START, "114ll", (uint64_t)0, (uint64_t)9, (uint64_t)0, "PLAIN",
                   "en_US");
    }
    for (;;) {
        uint32_t size;
        uint16_t channel;
        uint32_t id = 0;
        if (out.len > 0 && send(fd, out.at, out.len, MSG_NOSIGNAL) < 0) {
            return;
        }
        out.len = 0;
        if (!read_all(fd, in, 7)) {
            return;
        }
        memcpy(&channel, in + 1, 2);
        memcpy(&size, in + 3, 4);
        channel = be16toh(channel);
        size = be32toh(size);
        if (size + 1 > sizeof(in) - 7 || !read_all(fd, in + 7, size + 1)) {
            return;
        }
        if (in[0] == 1) {
            memcpy(&id, in + 7, 4);
            id = be32toh(id);
        }
        published += id == PUBLISH;
        atomic_fetch_add(&strange->published, id == PUBLISH);
        atomic_fetch_add(&strange->acked, id == ACK);
        if (strikes(strange, id)) {
            strange->words(&out);
        } else {
            answer(&out, channel, id, published);
        }
    }
}

static void *run(void *context)
{
    struct strange *strange = context;
    int fd;
    while ((fd = accept(strange->listener, NULL, NULL)) >= 0) {
        serve(strange, fd);
        (void)close(fd);
    }
    return NULL;
}

/* ---- what it says ---- */

static void an_ack_of_nothing(struct out *out)
{
    put_method(out, 1, ACK, "81", (uint64_t)99, (uint64_t)0);
}
static void an_ack_of_all_up_to_nothing(struct out *out)
{
    put_method(out, 1, ACK, "81", (uint64_t)99, (uint64_t)1);
}
static void a_nack(struct out *out)
{
    put_method(out, 1, NACK, "81", (uint64_t)1, (uint64_t)0);
}
static void a_stranger_comes_back(struct out *out)
{
    put_method(out, 1, RETURN, "2sss", (uint64_t)312, "NO_ROUTE", "e", "k");
    put_content(out, 1, 60, 1, "77", "x");
}
static void a_nameless_one_comes_back(struct out *out)
{
    put_method(out, 1, RETURN, "2sss", (uint64_t)312, "NO_ROUTE", "e", "k");
    put_content(out, 1, 60, 1, NULL, "x");
}
static void another_channel(struct out *out)
{
    put_method(out, 9, ACK, "81", (uint64_t)1, (uint64_t)0);
}
static void content_of_nothing(struct out *out)
{
    put_content(out, 1, 60, 1, NULL, "x");
}
static void a_delivery(struct out *out)
{
    put_method(out, 1, DELIVER, "s81ss", "tag", (uint64_t)1, (uint64_t)0, "e", "k");
    put_content(out, 1, 60, 1, NULL, "x");
}
static void a_got_message(struct out *out)
{
    put_method(out, 2, ID(60, 71), "81ss4", (uint64_t)1, (uint64_t)0, "e", "k", (uint64_t)0);
}
static void a_question(struct out *out)
{
    put_method(out, 1, ID(20, 20), "1", (uint64_t)1);
}
static void the_channel_is_closed(struct out *out)
{
    put_method(out, 1, CHANNEL_CLOSE, "2s22", (uint64_t)406, "no more of it", (uint64_t)0,
               (uint64_t)0);
}
static void the_connection_is_closed(struct out *out)
{
    put_method(out, 0, CLOSE, "2s22", (uint64_t)320, "shutting down", (uint64_t)0, (uint64_t)0);
}
static void the_start_again(struct out *out)
{
    put_method(out, 0, START, "114ll", (uint64_t)0, (uint64_t)9, (uint64_t)0, "PLAIN", "en_US");
}
static void a_frame_without_end(struct out *out)
{
    put_method(out, 1, ACK, "81", (uint64_t)1, (uint64_t)0);
    out->at[out->len - 1] = 0;
}
static void a_frame_too_long(struct out *out)
{
    put(out, 1, 1);
    put(out, 1, 2);
    put(out, 1 << 24, 4);
    put(out, 0, 4);
}
static void too_many(struct out *out)
{
    for (uint64_t i = 1; i <= 3; i++) {
        put_method(out, 1, DELIVER, "s81ss", "tag", i, (uint64_t)0, "e", "k");
        put_content(out, 1, 60, 1, NULL, "x");
    }
}
static void more_than_announced(struct out *out)
{
    put_method(out, 1, DELIVER, "s81ss", "tag", (uint64_t)1, (uint64_t)0, "e", "k");
    put_content(out, 1, 60, 1, NULL, "xx");
}
static void another_class(struct out *out)
{
    put_method(out, 1, DELIVER, "s81ss", "tag", (uint64_t)1, (uint64_t)0, "e", "k");
    put_content(out, 1, 50, 1, NULL, "x");
}
static void the_end_of_consuming(struct out *out)
{
    put_method(out, 1, CANCEL, "s1", "tag", (uint64_t)1);
}
static void another_answer(struct out *out)
{
    put_method(out, 2, QUEUE_BIND + 1, "");
}
static void not_that_queue(struct out *out)
{
    put_method(out, 2, CHANNEL_CLOSE, "2s22", (uint64_t)404, "no such thing", (uint64_t)0,
               (uint64_t)0);
}
static void not_for_you(struct out *out)
{
    put_method(out, 2, CHANNEL_CLOSE, "2s22", (uint64_t)403, "ACCESS_REFUSED", (uint64_t)0,
               (uint64_t)0);
}
static void another_version(struct out *out)
{
    out_bytes(out, "AMQP\0\1\0\0", 8);
}
static void no_passwords(struct out *out)
{
    put_method(out, 0, START, "114ll", (uint64_t)0, (uint64_t)9, (uint64_t)0, "EXTERNAL", "en_US");
}
static void no_more_than_two_channels(struct out *out)
{
    put_method(out, 0, TUNE, "242", (uint64_t)2, (uint64_t)131072, (uint64_t)60);
}
static void small_frames(struct out *out)
{
    put_method(out, 0, TUNE, "242", (uint64_t)0, (uint64_t)4096, (uint64_t)0);
}

static void nothing(struct out *out)
{
    (void)out;
}
static void not_now(struct out *out)
{
    put_method(out, 0, BLOCKED, "s", "low on memory");
}
static void a_delivery_that_killed_its_takers(struct out *out)
{
    static const char name[] = "x-delivery-count";
    char memory[1024];
    struct out payload = out_over(memory, sizeof(memory));
    put_method(out, 1, DELIVER, "s81ss", "tag", (uint64_t)1, (uint64_t)1, "e", "k");
    put(&payload, 60, 2);
    put(&payload, 0, 2);
    put(&payload, 5, 8);
    put(&payload, 1 << 13, 2); /* headers: a table with one number of 64 bits */
    put(&payload, 1 + sizeof(name) - 1 + 1 + 8, 4);
    put_short(&payload, name);
    out_text(&payload, "l");
    put(&payload, 20, 8);
    put_frame(out, 2, 1, &payload);
    payload.len = 0;
    out_text(&payload, "hello");
    put_frame(out, 3, 1, &payload);
}

/* ---- meeting it ---- */

static struct strange *strange_new(uint32_t when, strange_words *words, char url[64])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    struct strange *strange = calloc(1, sizeof(*strange));
    assert_non_null(strange);
    strange->when = when;
    strange->words = words;
    strange->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(strange->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(strange->listener, 8), 0);
    assert_int_equal(getsockname(strange->listener, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(url, 64, "amqp://me:hush@127.0.0.1:%u/", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&strange->thread, NULL, run, strange), 0);
    return strange;
}

static void strange_free(struct strange *strange)
{
    assert_true(atomic_load(&strange->said)); /* its moment came */
    (void)shutdown(strange->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(strange->thread, NULL), 0);
    (void)close(strange->listener);
    free(strange);
}

static struct queue_amqp_options options_for(const char *url)
{
    return (struct queue_amqp_options){
        .url = url, .prefetch = 2, .pause_min_ms = 1, .pause_max_ms = 10};
}

static void assert_says(struct queue *queue, const char *word)
{
    if (strstr(queue_amqp_error(queue), word) == NULL) {
        fail_msg("no word of \"%s\" in: %s", word, queue_amqp_error(queue));
    }
}

static enum queue_outcome_kind publish_and_hear(struct queue *queue)
{
    struct queue_outcome outcome;
    size_t count = 0;
    while (queue_publish(queue, 5, span_of("hello")) != 0) {
        assert_int_equal(queue_amqp_wait(queue, 60000), 0);
    }
    struct suite_wait wait = suite_wait_for("an outcome");
    while (queue_outcomes(queue, &outcome, 1, 1000, &count) != 0) {
        suite_waits(&wait);
    }
    assert_int_equal(outcome.number, 5);
    return outcome.kind;
}

static void to_a_publisher(strange_words *words, const char *says)
{
    char url[64];
    struct strange *strange = strange_new(PUBLISH, words, url);
    struct queue_amqp_options options = options_for(url);
    struct queue *queue = NULL;
    assert_int_equal(queue_amqp_open(&options, QUEUE_AMQP_PUBLISHER, &queue), 0);
    assert_int_equal(publish_and_hear(queue), QUEUE_UNCONFIRMED);
    assert_says(queue, says);
    assert_int_equal(publish_and_hear(queue), QUEUE_CONFIRMED);
    queue_amqp_close(queue);
    strange_free(strange);
}

static void to_a_consumer(strange_words *words, const char *says)
{
    char url[64];
    struct strange *strange = strange_new(CONSUME, words, url);
    struct queue_amqp_options options = options_for(url);
    struct queue *queue = NULL;
    struct queue_message messages[4];
    size_t count = 0;
    assert_int_equal(queue_amqp_open(&options, QUEUE_AMQP_CONSUMER, &queue), 0);
    struct suite_wait wait = suite_wait_for(says);
    while (strstr(queue_amqp_error(queue), says) == NULL) {
        suite_waits(&wait);
        assert_int_equal(queue_take(queue, messages, 4, 10, &count), ERR_AGAIN);
    }
    struct queue_depths depths;
    assert_int_equal(queue_amqp_wait(queue, 60000), 0);
    assert_int_equal(queue_depths(queue, &depths), 0);
    assert_int_equal(queue_parked(queue, messages, 4, false, &count), 0);
    assert_int_equal(count, 0);
    queue_amqp_close(queue);
    strange_free(strange);
}

/* error 0: the open goes on, and the next connection is a good one. */
static void at_the_start(uint32_t when, strange_words *words, int error, const char *says)
{
    char url[64];
    struct strange *strange = strange_new(when, words, url);
    struct queue_amqp_options options = options_for(url);
    struct queue *queue = NULL;
    assert_int_equal(queue_amqp_open(&options, QUEUE_AMQP_CONSUMER, &queue), error);
    assert_says(queue, says);
    if (error == 0) {
        assert_int_equal(queue_amqp_wait(queue, 60000), 0);
        queue_amqp_close(queue);
    } else {
        assert_null(strstr(queue_amqp_error(NULL), "hush"));
    }
    strange_free(strange);
}

static void nonsense_ends_a_publishers_connection(void **state)
{
    (void)state;
    to_a_publisher(a_nack, "could not take a message");
    to_a_publisher(an_ack_of_nothing, "settled message 99");
    to_a_publisher(an_ack_of_all_up_to_nothing, "settled message 99");
    to_a_publisher(a_stranger_comes_back, "returned a message that is not under way");
    to_a_publisher(a_nameless_one_comes_back, "returned a message that is not under way");
    to_a_publisher(another_channel, "channel that is not open");
    to_a_publisher(content_of_nothing, "without its beginning");
    to_a_publisher(a_delivery, "delivers what nobody asked for");
    to_a_publisher(a_got_message, "said what nobody asked");
    to_a_publisher(a_question, "said what nobody asked");
    to_a_publisher(the_channel_is_closed, "closed a channel: no more of it");
    to_a_publisher(the_connection_is_closed, "closed the connection: shutting down");
    to_a_publisher(the_start_again, "does not keep to AMQP");
    to_a_publisher(a_frame_without_end, "no AMQP broker");
    to_a_publisher(a_frame_too_long, "no AMQP broker");
}

static void nonsense_ends_a_consumers_connection(void **state)
{
    (void)state;
    to_a_consumer(too_many, "more messages than it was asked for");
    to_a_consumer(more_than_announced, "more of a message than it announced");
    to_a_consumer(another_class, "unknown class");
    to_a_consumer(the_end_of_consuming, "ended our use of queue");
    to_a_consumer(an_ack_of_nothing, "settled message 99");
}

static void nonsense_ends_a_setting_up(void **state)
{
    (void)state;
    at_the_start(QUEUE_DECLARE, another_answer, 0, "answered another question than queue");
    at_the_start(QUEUE_DECLARE, not_that_queue, 0, "refuses queue sluice.orders.parked");
    at_the_start(QUEUE_DECLARE, not_for_you, ERR_INVALID, "to our user: ACCESS_REFUSED");
    at_the_start(GREETING, another_version, ERR_INVALID, "another version of AMQP");
    at_the_start(GREETING, no_passwords, ERR_INVALID, "does not let us log in");
    at_the_start(GREETING, the_connection_is_closed, 0, "shutting down");
}

static void what_a_broker_offers_is_enough(void **state)
{
    (void)state;
    static strange_words *const offers[] = {no_more_than_two_channels, small_frames};
    for (size_t i = 0; i < 2; i++) {
        char url[64];
        char *body = calloc(1, QUEUE_AMQP_EVENT_MAX);
        struct strange *strange = strange_new(START_OK, offers[i], url);
        struct queue_amqp_options options = options_for(url);
        struct queue *queue = NULL;
        struct queue_outcome outcome;
        size_t count = 0;
        assert_non_null(body);
        options.events = true;
        assert_int_equal(queue_amqp_open(&options, QUEUE_AMQP_PUBLISHER, &queue), 0);
        assert_int_equal(queue_publish(queue, 1, (struct span){body, QUEUE_AMQP_EVENT_MAX}), 0);
        assert_int_equal(queue_outcomes(queue, &outcome, 1, 60000, &count), 0);
        assert_int_equal(outcome.kind, QUEUE_CONFIRMED);
        assert_int_equal(atomic_load(&strange->logins), 1);
        queue_amqp_close(queue);
        strange_free(strange);
        free(body);
    }
}

/* Its connection is as lively as ever, and the message stays where it is. */
static void a_confirm_that_never_comes_ends_the_connection(void **state)
{
    (void)state;
    char url[64];
    struct strange *strange = strange_new(PUBLISH, nothing, url);
    struct queue_amqp_options options = options_for(url);
    struct queue *queue = NULL;
    struct queue_outcome outcome;
    struct suite_wait wait = suite_wait_for("the outcomes");
    uint32_t confirmed = 0;
    options.confirm_timeout_ms = 300;
    assert_int_equal(queue_amqp_open(&options, QUEUE_AMQP_PUBLISHER, &queue), 0);
    assert_int_equal(queue_publish(queue, 1, span_of("hello")), 0);
    /* Those behind it are confirmed, and do not make it young again. */
    for (uint64_t number = 2;; number++) {
        size_t count = 0;
        (void)queue_publish(queue, number, span_of("hello"));
        while (queue_outcomes(queue, &outcome, 1, 10, &count) == 0 &&
               outcome.kind == QUEUE_CONFIRMED) {
            confirmed++;
        }
        if (count == 1 && outcome.kind == QUEUE_UNCONFIRMED) {
            break;
        }
        suite_waits(&wait);
    }
    assert_int_equal(outcome.number, 1);
    assert_true(confirmed > 0);
    assert_says(queue, "has not confirmed a message within 300 ms");
    assert_int_equal(atomic_load(&strange->logins), 1);
    queue_amqp_close(queue);
    strange_free(strange);
}

/* The same for the copy of a message that is to come later: the message comes again. */
static void a_retry_that_is_not_confirmed_ends_the_connection(void **state)
{
    (void)state;
    char url[64];
    struct strange *strange = strange_new(CONSUME, a_delivery, url);
    struct queue_amqp_options options = options_for(url);
    struct queue *queue = NULL;
    struct queue_message message;
    size_t count = 0;
    options.confirm_timeout_ms = 300;
    assert_int_equal(queue_amqp_open(&options, QUEUE_AMQP_CONSUMER, &queue), 0);
    struct suite_wait wait = suite_wait_for("a message");
    while (queue_take(queue, &message, 1, 10, &count) != 0) {
        suite_waits(&wait);
    }
    atomic_store(&strange->words, nothing);
    atomic_store(&strange->when, PUBLISH);
    atomic_store(&strange->said, false);
    assert_int_equal(queue_retry(queue, &message), 0);
    wait = suite_wait_for("the end of the connection");
    while (strstr(queue_amqp_error(queue), "has not confirmed a message within 300 ms") == NULL) {
        assert_int_equal(queue_take(queue, &message, 1, 10, &count), ERR_AGAIN);
        suite_waits(&wait);
    }
    assert_int_equal(queue_ack(queue, &message), ERR_CLOSED);
    assert_int_equal(queue_amqp_wait(queue, 60000), 0);
    queue_amqp_close(queue);
    strange_free(strange);
}

/* A broker that has said so takes its time. */
static void a_blocked_broker_may_confirm_late(void **state)
{
    (void)state;
    char url[64];
    struct strange *strange = strange_new(PUBLISH, not_now, url);
    struct queue_amqp_options options = options_for(url);
    struct queue *queue = NULL;
    struct queue_outcome outcome;
    size_t count = 0;
    options.confirm_timeout_ms = 100;
    assert_int_equal(queue_amqp_open(&options, QUEUE_AMQP_PUBLISHER, &queue), 0);
    assert_int_equal(queue_publish(queue, 1, span_of("hello")), 0);
    struct suite_wait wait = suite_wait_for("the broker to be blocked");
    while (strstr(queue_amqp_error(queue), "takes no messages for now") == NULL) {
        assert_int_equal(queue_outcomes(queue, &outcome, 1, 1, &count), ERR_AGAIN);
        suite_waits(&wait);
    }
    for (int i = 0; i < 20; i++) { /* at least five times as long */
        assert_int_equal(queue_outcomes(queue, &outcome, 1, 25, &count), ERR_AGAIN);
    }
    assert_int_equal(atomic_load(&strange->logins), 1);
    assert_says(queue, "takes no messages for now");
    queue_amqp_close(queue);
    strange_free(strange);
}

/* What came so often is put aside unseen, and its original goes when the copy is safe. */
static void what_kills_its_takers_is_put_aside(void **state)
{
    (void)state;
    char url[64];
    struct strange *strange = strange_new(CONSUME, a_delivery_that_killed_its_takers, url);
    struct queue_amqp_options options = options_for(url);
    struct queue *queue = NULL;
    struct queue_message message;
    size_t count = 0;
    assert_int_equal(queue_amqp_open(&options, QUEUE_AMQP_CONSUMER, &queue), 0);
    struct suite_wait wait = suite_wait_for("the original to be acked");
    while (atomic_load(&strange->acked) == 0) {
        assert_int_equal(queue_take(queue, &message, 1, 10, &count), ERR_AGAIN);
        suite_waits(&wait);
    }
    assert_says(queue, "was taken 20 times and never settled");
    assert_int_equal(atomic_load(&strange->published), 1);
    queue_amqp_close(queue);
    strange_free(strange);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nonsense_ends_a_publishers_connection),
        cmocka_unit_test(nonsense_ends_a_consumers_connection),
        cmocka_unit_test(nonsense_ends_a_setting_up),
        cmocka_unit_test(what_a_broker_offers_is_enough),
        cmocka_unit_test(a_confirm_that_never_comes_ends_the_connection),
        cmocka_unit_test(a_retry_that_is_not_confirmed_ends_the_connection),
        cmocka_unit_test(a_blocked_broker_may_confirm_late),
        cmocka_unit_test(what_kills_its_takers_is_put_aside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
