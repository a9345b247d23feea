/*
 * Opening the queue on RabbitMQ: what is refused, with what words; what is not there yet; and the
 * exchange for events.
 */
#include "rabbit_world.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conformance/queue/queue_suite.h"

#define WITH_BROKER                                                                                \
    (void)state;                                                                                   \
    if (rabbit_missing() != NULL) {                                                                \
        print_message("skipped: %s\n", rabbit_missing());                                          \
        skip();                                                                                    \
    }

static void assert_refused(const struct queue_amqp_options *options, enum queue_amqp_role role,
                           int error, const char *word)
{
    struct queue *queue = NULL;
    assert_int_equal(queue_amqp_open(options, role, &queue), error);
    assert_null(queue);
    if (strstr(queue_amqp_error(NULL), word) == NULL) {
        fail_msg("no word of %s in: %s", word, queue_amqp_error(NULL));
    }
}

/* ---- without a broker ---- */

static void wrong_options_are_refused(void **state)
{
    (void)state;
    char name[300];
    (void)snprintf(name, sizeof(name), "%0201d", 1);
    static const uint32_t shrinking[] = {5, 5};
    static const uint32_t none[] = {0};
    struct queue_amqp_options options = {.url = "amqp://me:hush@127.0.0.1:1/"};
    assert_refused(&(struct queue_amqp_options){.url = NULL}, QUEUE_AMQP_PUBLISHER, ERR_INVALID,
                   "amqp://user");
    assert_refused(&(struct queue_amqp_options){.url = "amqp://me:hush@/"}, QUEUE_AMQP_PUBLISHER,
                   ERR_INVALID, "host");
    assert_null(strstr(queue_amqp_error(NULL), "hush"));
    options.queue = name;
    assert_refused(&options, QUEUE_AMQP_CONSUMER, ERR_INVALID, "200 bytes");
    options.queue = NULL;
    options.exchange = name;
    assert_refused(&options, QUEUE_AMQP_CONSUMER, ERR_INVALID, "200 bytes");
    options.exchange = NULL;
    options.window = 65537;
    assert_refused(&options, QUEUE_AMQP_PUBLISHER, ERR_INVALID, "65536");
    options.window = 0;
    options.events = true;
    assert_refused(&options, QUEUE_AMQP_CONSUMER, ERR_INVALID, "published only");
    options.events = false;
    options.retry_s = shrinking;
    options.retry_count = 2;
    assert_refused(&options, QUEUE_AMQP_CONSUMER, ERR_INVALID, "must grow");
    options.retry_s = none;
    options.retry_count = 1;
    assert_refused(&options, QUEUE_AMQP_CONSUMER, ERR_INVALID, "must grow");
    options.retry_count = 9;
    assert_refused(&options, QUEUE_AMQP_CONSUMER, ERR_INVALID, "1 to 8");
    options.retry_s = NULL;
    options.password_file = "/does/not/exist";
    assert_refused(&options, QUEUE_AMQP_CONSUMER, ERR_IO, "/does/not/exist");
    char error[256] = "";
    assert_int_equal(queue_amqp_check_url("amqp://a@b/", error, sizeof(error)), 0);
    assert_int_equal(queue_amqp_check_url("mysql://a@b/", error, sizeof(error)), ERR_INVALID);
    assert_non_null(strstr(error, "amqp://"));
}

static void a_broker_that_is_away_is_no_error(void **state)
{
    (void)state;
    struct queue_amqp_options options = {.url = "amqp://me@127.0.0.1:1/"};
    struct queue *queue = NULL;
    struct queue_depths depths;
    struct queue_outcome outcome;
    size_t count = 0;
    assert_int_equal(queue_amqp_open(&options, QUEUE_AMQP_PUBLISHER, &queue), 0);
    assert_int_equal(queue_publish(queue, 1, span_of("x")), ERR_AGAIN);
    assert_int_equal(queue_outcomes(queue, &outcome, 1, 10, &count), ERR_AGAIN);
    assert_int_equal(queue_depths(queue, &depths), ERR_AGAIN);
    assert_non_null(strstr(queue_amqp_error(queue), "cannot connect to 127.0.0.1:1"));
    queue_amqp_close(queue);
    /* Nor is a name that nobody knows. */
    options.url = "amqp://me@nobody.invalid/";
    struct queue_message message = {.tag = 1};
    assert_int_equal(queue_amqp_open(&options, QUEUE_AMQP_CONSUMER, &queue), 0);
    assert_int_equal(queue_take(queue, &message, 1, 10, &count), ERR_AGAIN);
    assert_int_equal(queue_parked(queue, &message, 1, false, &count), ERR_AGAIN);
    assert_int_equal(queue_ack(queue, &message), ERR_CLOSED);
    queue_amqp_close(queue);
}

struct stranger {
    int listener;
    uint16_t port;
    const char *says; /* NULL: nothing */
};

/* Answers every connection with its words, and goes on listening. */
static void *speak(void *context)
{
    struct stranger *stranger = context;
    int fd;
    int held[64];
    size_t count = 0;
    while ((fd = accept(stranger->listener, NULL, NULL)) >= 0) {
        if (stranger->says != NULL) {
            (void)send(fd, stranger->says, strlen(stranger->says), MSG_NOSIGNAL);
        }
        if (count < 64) {
            held[count++] = fd;
        }
    }
    while (count > 0) {
        (void)close(held[--count]);
    }
    return NULL;
}

static void meet(const char *says, uint32_t timeout_ms, const char *expected)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    struct stranger stranger = {.says = says};
    struct queue *queue = NULL;
    pthread_t thread;
    char url[64];
    stranger.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(stranger.listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(stranger.listener, 8), 0);
    assert_int_equal(getsockname(stranger.listener, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(url, sizeof(url), "amqp://me@127.0.0.1:%u/", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&thread, NULL, speak, &stranger), 0);
    struct queue_amqp_options options = {.url = url, .connect_timeout_ms = timeout_ms};
    assert_int_equal(queue_amqp_open(&options, QUEUE_AMQP_PUBLISHER, &queue), 0);
    struct suite_wait wait = suite_wait_for(expected);
    while (strstr(queue_amqp_error(queue), expected) == NULL) {
        assert_int_equal(queue_amqp_wait(queue, 10), ERR_AGAIN);
        suite_waits(&wait);
    }
    assert_int_equal(queue_publish(queue, 1, span_of("x")), ERR_AGAIN);
    queue_amqp_close(queue);
    (void)shutdown(stranger.listener, SHUT_RDWR);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(stranger.listener);
}

static void strangers_are_no_brokers(void **state)
{
    (void)state;
    meet("HTTP/1.1 400 Bad Request\r\n\r\n", 60000, "no AMQP broker");
    meet(NULL, 50, "did not answer within 50 ms");
}

/* ---- with one ---- */

static void a_wrong_login_is_told(void **state)
{
    WITH_BROKER
    struct rabbit_place *place = rabbit_place_new();
    struct amqp_address right = rabbit_address();
    char url[512];
    char path[] = "/tmp/sluice-amqp-XXXXXX";
    struct queue_amqp_options options = place->options;
    options.url = url;
    (void)snprintf(url, sizeof(url), "amqp://%s:hush@%s:%u/", right.user, right.host, right.port);
    assert_refused(&options, QUEUE_AMQP_PUBLISHER, ERR_INVALID, "refused user sluice");
    assert_null(strstr(queue_amqp_error(NULL), "hush"));
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_true(dprintf(fd, "%s\n", right.password) > 0);
    (void)close(fd);
    options.password_file = path;
    struct queue *queue = NULL;
    assert_int_equal(queue_amqp_open(&options, QUEUE_AMQP_PUBLISHER, &queue), 0);
    queue_amqp_close(queue);
    (void)snprintf(url, sizeof(url), "amqp://%s@%s:%u/nowhere", right.user, right.host, right.port);
    assert_refused(&options, QUEUE_AMQP_CONSUMER, ERR_INVALID, "virtual host nowhere");
    (void)unlink(path);
    rabbit_place_free(place);
}

static void a_queue_of_another_kind_is_told(void **state)
{
    WITH_BROKER
    struct rabbit_place *place = rabbit_place_new();
    rabbit_declare_classic(place->name);
    assert_refused(&place->options, QUEUE_AMQP_PUBLISHER, ERR_EXISTS, place->name);
    assert_non_null(strstr(queue_amqp_error(NULL), "exists with other arguments"));
    assert_non_null(strstr(queue_amqp_error(NULL), "made by an earlier version"));
    assert_non_null(strstr(queue_amqp_error(NULL), "delete it"));
    assert_refused(&place->options, QUEUE_AMQP_CONSUMER, ERR_EXISTS, place->name);
    rabbit_delete_queue(place->name);
    queue_amqp_close(rabbit_open(place, QUEUE_AMQP_PUBLISHER));
    place->options.classic = true;
    assert_refused(&place->options, QUEUE_AMQP_CONSUMER, ERR_EXISTS, "x-queue-type");
    rabbit_place_free(place);
}

static void a_host_may_have_a_name(void **state)
{
    WITH_BROKER
    struct rabbit_place *place = rabbit_place_new();
    struct amqp_address right = rabbit_address();
    (void)snprintf(place->url, sizeof(place->url), "amqp://%s:pass%%3aword%%2f1@localhost:%u/%%2f",
                   right.user, right.port);
    queue_amqp_close(rabbit_open(place, QUEUE_AMQP_PUBLISHER));
    rabbit_place_free(place);
}

static void confirm(struct queue *queue, uint64_t number)
{
    struct queue_outcome outcome;
    size_t count = 0;
    assert_int_equal(queue_outcomes(queue, &outcome, 1, 60000, &count), 0);
    assert_int_equal(outcome.number, number);
    assert_int_equal(outcome.kind, QUEUE_CONFIRMED);
}

static void events_go_to_whoever_has_bound(void **state)
{
    WITH_BROKER
    struct rabbit_place *place = rabbit_place_new();
    char exchange[96];
    char listener[96];
    char key[300];
    char *body = malloc(QUEUE_AMQP_EVENT_MAX + 1);
    char *got = malloc(QUEUE_AMQP_EVENT_MAX + 1);
    struct queue_depths depths;
    assert_true(body != NULL && got != NULL);
    memset(body, 'e', QUEUE_AMQP_EVENT_MAX + 1);
    (void)snprintf(exchange, sizeof(exchange), "%s.events", place->name);
    (void)snprintf(listener, sizeof(listener), "%s.listener", place->name);
    struct rabbit_place events = *place;
    events.options.events = true;
    events.options.exchange = exchange;
    events.options.routing_key = "sluice.other";
    events.options.content_type = "application/cloudevents+json";
    struct queue *queue = rabbit_open(&events, QUEUE_AMQP_PUBLISHER);
    /* Nobody listens: that is fine. */
    assert_int_equal(queue_publish(queue, 1, span_of("{}")), 0);
    confirm(queue, 1);
    rabbit_bind_topic(listener, exchange, "sluice.order.#");
    assert_int_equal(queue_publish(queue, 2, span_of("{}")), 0); /* not for him */
    confirm(queue, 2);
    assert_int_equal(queue_amqp_publish_key(queue, 3, "sluice.order.paid", span_of("{\"a\":1}")),
                     0);
    confirm(queue, 3);
    assert_int_equal(queue_amqp_publish_key(queue, 4, "sluice.order.expired",
                                            (struct span){body, QUEUE_AMQP_EVENT_MAX}),
                     0);
    confirm(queue, 4);
    assert_int_equal(rabbit_get(listener, got, QUEUE_AMQP_EVENT_MAX, key, sizeof(key)), 7);
    assert_memory_equal(got, "{\"a\":1}", 7);
    assert_string_equal(key, "sluice.order.paid");
    assert_int_equal(rabbit_get(listener, got, QUEUE_AMQP_EVENT_MAX, key, sizeof(key)),
                     QUEUE_AMQP_EVENT_MAX);
    assert_memory_equal(got, body, QUEUE_AMQP_EVENT_MAX);
    assert_int_equal(queue_publish(queue, 5, (struct span){body, QUEUE_AMQP_EVENT_MAX + 1}),
                     ERR_INVALID);
    memset(key, 'k', 256);
    key[256] = '\0';
    assert_int_equal(queue_amqp_publish_key(queue, 5, key, span_of("{}")), ERR_INVALID);
    assert_int_equal(queue_depths(queue, &depths), ERR_INVALID);
    queue_amqp_close(queue);
    rabbit_delete_queue(listener);
    rabbit_place_free(place);
    free(body);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(a_broker_that_is_away_is_no_error),
        cmocka_unit_test(strangers_are_no_brokers),
        cmocka_unit_test(a_wrong_login_is_told),
        cmocka_unit_test(a_queue_of_another_kind_is_told),
        cmocka_unit_test(a_host_may_have_a_name),
        cmocka_unit_test(events_go_to_whoever_has_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
