/*
 * The queue on RabbitMQ when things go wrong at a real broker: killed, restarted, frozen, out of
 * memory; connections cut with answers on their way; queues deleted under us; messages that are not
 * ours or that kill their takers. Confirmed messages arrive, unconfirmed ones are reported, nothing hangs.
 */
#include "rabbit_world.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/prng.h"
#include "conformance/queue/queue_suite.h"
#include "unit/backend/redis/proxy.h"

#define WITH_BROKER                                                                                \
    (void)state;                                                                                   \
    if (rabbit_missing() != NULL) {                                                                \
        print_message("skipped: %s\n", rabbit_missing());                                          \
        skip();                                                                                    \
    }                                                                                              \
    suite_use(&here, NULL)

/* Time goes by itself. */
static void pass(struct suite_place *place, int64_t ms)
{
    (void)place;
    (void)ms;
    (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}
static const struct queue_backend here = {.name = "RabbitMQ", .pass = pass};

static void rest(void)
{
    pass(NULL, 0);
}

/* What became of messages 0 to count-1. */
#define MESSAGES 3000
struct fates {
    uint32_t confirmed;
    uint32_t unconfirmed;
    bool safe[MESSAGES];
    uint32_t taken[MESSAGES];
};

static void publish_all(struct queue *publisher, uint64_t *next, uint64_t to)
{
    char body[64];
    while (*next < to) {
        int len = snprintf(body, sizeof(body), "message %" PRIu64, *next);
        if (queue_publish(publisher, *next, (struct span){body, (size_t)len}) != 0) {
            return;
        }
        (*next)++;
    }
}

/* One call; how many outcomes. */
static size_t gather(struct queue *publisher, struct fates *fates, int64_t wait_ms)
{
    struct queue_outcome outcomes[256];
    size_t count = 0;
    if (queue_outcomes(publisher, outcomes, 256, wait_ms, &count) != 0) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        bool yes = outcomes[i].kind == QUEUE_CONFIRMED;
        assert_true(outcomes[i].number < MESSAGES && !fates->safe[outcomes[i].number]);
        fates->safe[outcomes[i].number] = yes;
        fates->confirmed += yes;
        fates->unconfirmed += !yes;
    }
    return count;
}

static void gather_until(struct queue *publisher, struct fates *fates, uint32_t told)
{
    struct suite_wait wait = suite_wait_for("outcomes");
    while (fates->confirmed + fates->unconfirmed < told) {
        suite_waits(&wait);
        (void)gather(publisher, fates, 20);
    }
}

static void resend(struct queue *publisher, struct fates *fates, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!fates->safe[i]) {
            (void)suite_publish(publisher, i, i + 1);
        }
    }
}

/* Until each has come; all that come are acked. */
static uint32_t take_each(struct queue *consumer, struct fates *fates, uint64_t count)
{
    uint64_t left = 0;
    uint32_t doubles = 0;
    struct suite_wait wait = suite_wait_for("each message");
    for (uint64_t i = 0; i < count; i++) {
        left += fates->taken[i] == 0;
    }
    while (left > 0) {
        struct queue_message messages[64];
        size_t got = suite_take(consumer, messages, 64);
        suite_waits(&wait);
        for (size_t i = 0; i < got; i++) {
            uint64_t number = suite_number(&messages[i]);
            assert_true(number < count);
            left -= fates->taken[number] == 0;
            doubles += fates->taken[number]++ > 0;
            (void)queue_ack(consumer, &messages[i]);
        }
    }
    return doubles;
}

static bool says(struct queue *queue, const char *word)
{
    return strstr(queue_amqp_error(queue), word) != NULL;
}

/* What comes to the consumer until then, it was given before: on a busy machine it may have been cut
 * off for its silence and have taken the same once more. */
static void wait_until_says(struct queue *consumer, const char *word)
{
    struct suite_wait wait = suite_wait_for(word);
    while (!says(consumer, word)) {
        struct queue_message message;
        size_t count = 0;
        int error = queue_take(consumer, &message, 1, 20, &count);
        assert_true(error == ERR_AGAIN || (error == 0 && message.redelivered));
        suite_waits(&wait);
    }
}

/* Longer than a busy broker may be silent. */
#define HEARTBEAT_S 6

/* ---- the broker is killed ---- */

static int rounds(int many)
{
    return getenv("SLUICE_LONG") != NULL ? many : 1; /* NOLINT(concurrency-mt-unsafe) */
}

static void a_killed_broker_loses_nothing_that_it_confirmed(void **state)
{
    WITH_BROKER;
    for (int round = 0; round < rounds(10); round++) {
        struct rabbit_place *place = rabbit_place_new();
        place->options.classic = round % 2 == 1;
        struct queue *publisher = rabbit_open(place, QUEUE_AMQP_PUBLISHER);
        struct fates *fates = calloc(1, sizeof(*fates));
        uint64_t next = 0;
        assert_non_null(fates);
        /* Some are confirmed, the rest of the window is somewhere between here and the disk. */
        struct suite_wait wait = suite_wait_for("confirms");
        while (fates->confirmed < MESSAGES / 2) {
            publish_all(publisher, &next, MESSAGES);
            (void)gather(publisher, fates, 20);
            suite_waits(&wait);
        }
        /* It stops in the middle, with some that it has not read. */
        rabbit_do("freeze");
        while (gather(publisher, fates, 0) > 0) {
        }
        publish_all(publisher, &next, MESSAGES);
        assert_true(next > fates->confirmed);
        (void)gather(publisher, fates, 0);
        rabbit_do("kill");
        gather_until(publisher, fates, (uint32_t)next);
        assert_true(fates->unconfirmed > 0); /* it struck */
        assert_int_equal(queue_publish(publisher, 0, span_of("x")), ERR_AGAIN);
        rabbit_do("start");
        publish_all(publisher, &next, MESSAGES);
        resend(publisher, fates, next);
        struct queue *consumer = rabbit_open(place, QUEUE_AMQP_CONSUMER);
        uint32_t doubles = take_each(consumer, fates, next);
        print_message("of %" PRIu64 " sent, %u confirmed, %u not, %u came twice\n", next,
                      fates->confirmed, fates->unconfirmed, doubles);
        suite_wait_depths(publisher, consumer, (struct queue_depths){0});
        queue_amqp_close(publisher);
        queue_amqp_close(consumer);
        rabbit_place_free(place);
        free(fates);
    }
}

static void a_killed_broker_gives_back_what_was_taken(void **state)
{
    WITH_BROKER;
    static const uint32_t pauses_s[] = {10, 11}; /* so long that they can be seen waiting */
    struct rabbit_place *place = rabbit_place_new();
    place->options.retry_s = pauses_s;
    struct queue *publisher = rabbit_open(place, QUEUE_AMQP_PUBLISHER);
    struct queue *consumer = rabbit_open(place, QUEUE_AMQP_CONSUMER);
    struct fates *fates = calloc(1, sizeof(*fates));
    struct queue_message messages[100];
    size_t count = 0;
    assert_non_null(fates);
    (void)suite_publish(publisher, 0, 100);
    while (count < 100) {
        count += suite_take(consumer, messages + count, 100 - count);
    }
    /* A fifth each: acked, waiting for its retry, parked, settled as it dies, and untouched. */
    for (size_t i = 0; i < 60; i++) {
        int error = i % 3 == 0   ? queue_ack(consumer, &messages[i])
                    : i % 3 == 1 ? queue_retry(consumer, &messages[i])
                                 : queue_park(consumer, &messages[i]);
        assert_int_equal(error, 0);
        fates->taken[suite_number(&messages[i])] = i % 3 == 0;
    }
    suite_wait_depths(publisher, consumer,
                      (struct queue_depths){.retry = 20, .parked = 20}); /* all of it is there */
    for (size_t i = 60; i < 80; i++) {
        int error =
            i % 2 == 0 ? queue_retry(consumer, &messages[i]) : queue_park(consumer, &messages[i]);
        assert_int_equal(error, 0);
    }
    rabbit_do("kill");
    size_t none = 0;
    assert_int_equal(queue_take(consumer, messages, 1, 20, &none), ERR_AGAIN);
    rabbit_do("start");
    struct suite_wait wait = suite_wait_for("the parked messages");
    for (size_t sent = 0; sent < 20;
         sent += none) { /* those of the last moment may lie there, too */
        none = 0;
        (void)queue_parked(consumer, messages, 100, true, &none);
        suite_waits(&wait);
        rest();
    }
    (void)take_each(consumer, fates, 100);
    queue_amqp_close(publisher);
    queue_amqp_close(consumer);
    rabbit_place_free(place);
    free(fates);
}

static void an_idle_queue_outlives_a_restart(void **state)
{
    WITH_BROKER;
    struct rabbit_place *place = rabbit_place_new();
    struct queue *publisher = rabbit_open(place, QUEUE_AMQP_PUBLISHER);
    struct queue *consumer = rabbit_open(place, QUEUE_AMQP_CONSUMER);
    struct queue_message message;
    size_t count = 0;
    assert_int_equal(queue_take(consumer, &message, 1, 0, &count), ERR_AGAIN);
    rabbit_do("stop");
    assert_int_equal(queue_take(consumer, &message, 1, 50, &count), ERR_AGAIN);
    assert_int_equal(queue_publish(publisher, 1, span_of("x")), 0); /* it has not heard of it yet */
    rabbit_do("start");
    struct queue_outcome outcome;
    struct suite_wait wait = suite_wait_for("the outcome");
    while (queue_outcomes(publisher, &outcome, 1, 100, &count) != 0) {
        suite_waits(&wait);
        rest();
    }
    assert_int_equal(outcome.kind, QUEUE_UNCONFIRMED);
    (void)suite_publish(publisher, 5, 6);
    message = suite_take_one(consumer);
    assert_int_equal(suite_number(&message), 5);
    assert_int_equal(queue_ack(consumer, &message), 0);
    queue_amqp_close(publisher);
    queue_amqp_close(consumer);
    rabbit_place_free(place);
}

/* ---- the broker is there and does not answer ---- */

static void a_frozen_broker_is_noticed(void **state)
{
    WITH_BROKER;
    struct rabbit_place *place = rabbit_place_new();
    place->options.heartbeat_s = HEARTBEAT_S;
    struct queue *publisher = rabbit_open(place, QUEUE_AMQP_PUBLISHER);
    struct queue *consumer = rabbit_open(place, QUEUE_AMQP_CONSUMER);
    struct fates *fates = calloc(1, sizeof(*fates));
    struct queue_depths depths;
    struct queue_message message;
    uint64_t next = 0;
    size_t count = 0;
    assert_non_null(fates);
    (void)suite_publish(publisher, 0, 1);
    fates->safe[0] = true;
    fates->confirmed = 1;
    next = 1;
    struct queue_message taken = suite_take_one(consumer);
    rabbit_do("freeze");
    publish_all(publisher, &next, 500);
    assert_int_equal(next, 500);
    gather_until(publisher, fates, 500);
    assert_true(fates->unconfirmed >= 1);
    assert_true(says(publisher, "has said nothing for"));
    wait_until_says(consumer, "has said nothing for");
    assert_int_equal(queue_ack(consumer, &taken), ERR_CLOSED);
    assert_int_equal(queue_depths(consumer, &depths), ERR_AGAIN);
    assert_int_equal(queue_parked(consumer, &message, 1, false, &count), ERR_AGAIN);
    rabbit_do("thaw");
    resend(publisher, fates, 500);
    (void)take_each(consumer, fates, 500);
    assert_true(fates->taken[0] >= 1); /* once more: its ack never left */
    queue_amqp_close(publisher);
    queue_amqp_close(consumer);
    rabbit_place_free(place);
    free(fates);
}

/* More than sockets hold: publish says not now, instead of waiting for a broker that does not read. */
static void a_broker_that_does_not_read_stops_nobody(void **state)
{
    WITH_BROKER;
    struct rabbit_place *place = rabbit_place_new();
    queue_amqp_close(rabbit_open(place, QUEUE_AMQP_PUBLISHER));
    char exchange[96];
    (void)snprintf(exchange, sizeof(exchange), "%s.events", place->name);
    struct rabbit_place events = *place;
    events.options.exchange = exchange;
    events.options.events = true;
    events.options.heartbeat_s = HEARTBEAT_S;
    struct queue *publisher = rabbit_open(&events, QUEUE_AMQP_PUBLISHER);
    char *body = calloc(1, QUEUE_AMQP_EVENT_MAX);
    struct queue_outcome outcomes[64];
    uint64_t sent = 0;
    assert_non_null(body);
    rabbit_do("freeze");
    while (queue_publish(publisher, sent, (struct span){body, QUEUE_AMQP_EVENT_MAX}) == 0) {
        sent++;
        assert_true(sent < 1024); /* the window is not what stops it */
    }
    assert_true(sent > 0);
    struct suite_wait wait = suite_wait_for("outcomes");
    for (uint64_t told = 0; told < sent;) {
        size_t count = 0;
        suite_waits(&wait);
        if (queue_outcomes(publisher, outcomes, 64, 20, &count) != 0) {
            continue;
        }
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(outcomes[i].kind, QUEUE_UNCONFIRMED);
        }
        told += count;
    }
    queue_amqp_close(publisher); /* neither does closing */
    rabbit_do("thaw");
    rabbit_place_free(place);
    free(body);
}

/* False: the connection was lost meanwhile, with what was not confirmed. */
static bool waits_for_memory(void)
{
    struct rabbit_place *place = rabbit_place_new();
    struct queue *publisher = rabbit_open(place, QUEUE_AMQP_PUBLISHER);
    struct queue *consumer = rabbit_open(place, QUEUE_AMQP_CONSUMER);
    struct fates *fates = calloc(1, sizeof(*fates));
    uint64_t next = 0;
    assert_non_null(fates);
    rabbit_do("ctl set_vm_memory_high_watermark absolute 1");
    struct suite_wait wait = suite_wait_for("the broker to say that it takes no messages");
    while (!says(publisher, "takes no messages for now")) {
        suite_waits(&wait);
        publish_all(publisher, &next, next < 100 ? next + 1 : next);
        (void)gather(publisher, fates, 20);
    }
    assert_int_equal(queue_publish(publisher, 999, span_of("x")), ERR_AGAIN);
    rabbit_do("ctl set_vm_memory_high_watermark absolute 1GB");
    gather_until(publisher, fates, (uint32_t)next);
    bool all = fates->unconfirmed == 0; /* late, but safe */
    if (all) {
        (void)take_each(consumer, fates, next);
    }
    queue_amqp_close(publisher);
    queue_amqp_close(consumer);
    rabbit_place_free(place);
    free(fates);
    return all;
}

/* A busy machine may take so long to run the broker's command that heartbeats are missed. */
static void a_broker_without_memory_is_waited_for(void **state)
{
    WITH_BROKER;
    bool waited = false;
    for (int i = 0; i < 3 && !waited; i++) {
        waited = waits_for_memory();
    }
    assert_true(waited);
}

/* ---- the network ---- */

struct road {
    struct proxy proxy;
    struct amqp_address to;
    pthread_t thread;
    pthread_mutex_t lock;
    atomic_bool stop;
};

static void *drive(void *context)
{
    struct road *road = context;
    while (!atomic_load(&road->stop)) {
        (void)pthread_mutex_lock(&road->lock);
        proxy_pump(&road->proxy, road->to.host, road->to.port);
        (void)pthread_mutex_unlock(&road->lock);
        (void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return NULL;
}

static struct road *road_new(struct rabbit_place *place)
{
    struct road *road = calloc(1, sizeof(*road));
    assert_non_null(road);
    road->to = rabbit_address();
    proxy_open(&road->proxy);
    (void)pthread_mutex_init(&road->lock, NULL);
    assert_int_equal(pthread_create(&road->thread, NULL, drive, road), 0);
    (void)snprintf(place->url, sizeof(place->url), "amqp://%s:pass%%3aword%%2f1@127.0.0.1:%u/",
                   road->to.user, road->proxy.port);
    return road;
}

static void road_free(struct road *road)
{
    atomic_store(&road->stop, true);
    assert_int_equal(pthread_join(road->thread, NULL), 0);
    proxy_close(&road->proxy);
    free(road);
}

static void road_mode(struct road *road, enum proxy_mode mode)
{
    (void)pthread_mutex_lock(&road->lock);
    road->proxy.mode = mode;
    (void)pthread_mutex_unlock(&road->lock);
}

static uint64_t road_dropped(struct road *road)
{
    (void)pthread_mutex_lock(&road->lock);
    uint64_t dropped = road->proxy.dropped;
    (void)pthread_mutex_unlock(&road->lock);
    return dropped;
}

static void road_cut(struct road *road)
{
    (void)pthread_mutex_lock(&road->lock);
    proxy_cut(&road->proxy);
    road->proxy.mode = PROXY_PASS;
    (void)pthread_mutex_unlock(&road->lock);
}

static void lost_confirms_are_told_as_such(void **state)
{
    WITH_BROKER;
    struct rabbit_place *place = rabbit_place_new();
    struct queue *consumer = rabbit_open(place, QUEUE_AMQP_CONSUMER);
    struct road *road = road_new(place);
    struct queue *publisher = rabbit_open(place, QUEUE_AMQP_PUBLISHER);
    struct fates *fates = calloc(1, sizeof(*fates));
    uint64_t next = 0;
    assert_non_null(fates);
    road_mode(road, PROXY_DROP_ANSWERS);
    publish_all(publisher, &next, 200);
    struct suite_wait wait = suite_wait_for("a confirm to be lost");
    while (road_dropped(road) == 0) {
        suite_waits(&wait);
        assert_int_equal(gather(publisher, fates, 5), 0);
    }
    suite_wait_depths(consumer, NULL, (struct queue_depths){.ready = 200});
    road_cut(road);
    gather_until(publisher, fates, 200);
    assert_int_equal(fates->unconfirmed, 200); /* they are there, and nobody told us */
    resend(publisher, fates, 200);
    suite_wait_depths(consumer, NULL, (struct queue_depths){.ready = 400});
    queue_amqp_close(publisher);
    road_free(road);
    (void)take_each(consumer, fates, 200);
    queue_amqp_close(consumer);
    rabbit_place_free(place);
    free(fates);
}

static void cuts_anywhere_lose_nothing(void **state)
{
    WITH_BROKER;
    const char *given = getenv("SLUICE_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    struct prng prng = prng_of(seed);
    print_message("SLUICE_SEED=%" PRIu64 "\n", seed);
    struct rabbit_place *place = rabbit_place_new();
    struct queue *publisher = rabbit_open(place, QUEUE_AMQP_PUBLISHER);
    struct road *road = road_new(place); /* the consumer's */
    struct queue *consumer = rabbit_open(place, QUEUE_AMQP_CONSUMER);
    struct fates *fates = calloc(1, sizeof(*fates));
    uint64_t left = 300;
    uint32_t closed = 0;
    struct suite_wait wait = suite_wait_for("each message");
    assert_non_null(fates);
    (void)suite_publish(publisher, 0, 300);
    while (left > 0) {
        struct queue_message messages[16];
        size_t got = 0;
        suite_waits(&wait);
        (void)queue_take(consumer, messages, 16, 10, &got);
        road_mode(road, prng_below(&prng, 4) == 0 ? PROXY_DRIP : PROXY_PASS);
        for (size_t i = 0; i < got; i++) {
            uint64_t number = suite_number(&messages[i]);
            uint64_t how = prng_below(&prng, 10);
            int error = how == 0   ? queue_retry(consumer, &messages[i])
                        : how == 1 ? queue_park(consumer, &messages[i])
                                   : queue_ack(consumer, &messages[i]);
            assert_true(error == 0 || error == ERR_CLOSED);
            closed += error == ERR_CLOSED;
            if (how > 1 && error == 0) {
                left -= fates->taken[number] == 0;
                fates->taken[number]++;
            }
        }
        if (prng_below(&prng, 8) == 0) {
            road_cut(road);
        }
        (void)queue_parked(consumer, messages, 16, true, &got);
    }
    print_message("%u settled too late\n", closed);
    road_cut(road);
    queue_amqp_close(consumer);
    road_free(road);
    queue_amqp_close(publisher);
    rabbit_place_free(place);
    free(fates);
}

static void a_silent_network_is_noticed(void **state)
{
    WITH_BROKER;
    struct rabbit_place *place = rabbit_place_new();
    struct road *road = road_new(place);
    place->options.heartbeat_s = HEARTBEAT_S;
    struct queue *consumer = rabbit_open(place, QUEUE_AMQP_CONSUMER);
    struct queue_message message;
    size_t count = 0;
    /* While it is quiet but whole, heartbeats keep it: no new connection in several of them. */
    time_t until = time(NULL) + (time_t)HEARTBEAT_S * 3;
    while (time(NULL) < until) {
        assert_int_equal(queue_take(consumer, &message, 1, 1000, &count), ERR_AGAIN);
        assert_string_equal(queue_amqp_error(consumer), "");
    }
    road_mode(road, PROXY_HOLD);
    wait_until_says(consumer, "has said nothing for");
    road_cut(road);
    assert_int_equal(queue_amqp_wait(consumer, 60000), 0);
    queue_amqp_close(consumer);
    road_free(road);
    rabbit_place_free(place);
}

static void full_hands_keep_their_connection(void **state)
{
    WITH_BROKER;
    struct rabbit_place *place = rabbit_place_new();
    place->options.heartbeat_s = HEARTBEAT_S;
    struct queue *publisher = rabbit_open(place, QUEUE_AMQP_PUBLISHER);
    struct queue *consumer = rabbit_open(place, QUEUE_AMQP_CONSUMER);
    (void)suite_publish(publisher, 1, 2);
    struct queue_message message = suite_take_one(consumer);
    struct queue_message none;
    size_t count = 0;
    time_t until =
        time(NULL) + (time_t)HEARTBEAT_S * 2; /* longer than a broker waits for a silent client */
    while (time(NULL) < until) {
        assert_int_equal(queue_take(consumer, &none, 0, 500, &count), ERR_AGAIN);
    }
    assert_int_equal(queue_ack(consumer, &message), 0);
    queue_amqp_close(publisher);
    queue_amqp_close(consumer);
    rabbit_place_free(place);
}

/* ---- what others do ---- */

static void a_deleted_queue_is_made_again(void **state)
{
    WITH_BROKER;
    struct rabbit_place *place = rabbit_place_new();
    struct queue *publisher = rabbit_open(place, QUEUE_AMQP_PUBLISHER);
    struct queue *consumer = rabbit_open(place, QUEUE_AMQP_CONSUMER);
    struct fates *fates = calloc(1, sizeof(*fates));
    uint64_t next = 0;
    assert_non_null(fates);
    rabbit_settle_in(place);
    rabbit_delete_queue(place->name);
    publish_all(publisher, &next, 10);
    gather_until(publisher, fates, 10);
    assert_int_equal(fates->unconfirmed, 10); /* returned */
    resend(publisher, fates, 10);
    assert_true(says(publisher, "declared again"));
    /* Under its consumer. */
    (void)take_each(consumer, fates, 10);
    suite_wait_depths(publisher, consumer, (struct queue_depths){0});
    struct queue_message message;
    rabbit_delete_queue(place->name);
    wait_until_says(consumer, "ended our use");
    assert_int_equal(queue_amqp_wait(consumer, 60000), 0);
    (void)suite_publish(publisher, 20, 21);
    message = suite_take_one(consumer);
    assert_int_equal(suite_number(&message), 20);
    /* Under a message that wants to go there. */
    char retry[128];
    (void)snprintf(retry, sizeof(retry), "%s.retry.1s", place->name);
    rabbit_delete_queue(retry);
    assert_int_equal(queue_retry(consumer, &message), 0);
    message = suite_take_one(consumer);
    assert_int_equal(suite_number(&message), 20);
    assert_true(message.redelivered);
    assert_int_equal(message.attempts, 0);
    assert_true(says(consumer, "did not take a message for its retry"));
    assert_int_equal(queue_retry(consumer, &message), 0);
    message = suite_take_one(consumer);
    assert_int_equal(message.attempts, 1);
    assert_int_equal(queue_ack(consumer, &message), 0);
    queue_amqp_close(publisher);
    queue_amqp_close(consumer);
    rabbit_place_free(place);
    free(fates);
}

static void a_message_too_long_to_be_ours_is_parked(void **state)
{
    WITH_BROKER;
    struct rabbit_place *place = rabbit_place_new();
    struct queue *consumer = rabbit_open(place, QUEUE_AMQP_CONSUMER);
    struct queue_message messages[4];
    size_t count = 0;
    char *body = malloc(200000);
    assert_non_null(body);
    memset(body, 'z', 200000);
    rabbit_publish(place->name, place->name, (struct span){body, 200000}); /* in two frames */
    rabbit_publish(place->name, place->name, span_of("message 3"));
    messages[0] = suite_take_one(consumer);
    assert_int_equal(suite_number(&messages[0]), 3);
    assert_int_equal(queue_park(consumer, &messages[0]), 0);
    suite_wait_depths(consumer, NULL, (struct queue_depths){.parked = 2});
    assert_true(says(consumer, "longer than any of ours"));
    assert_int_equal(queue_parked(consumer, messages, 4, false, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(messages[0].len + messages[1].len, QUEUE_BODY_MAX + 9);
    /* It stays where it is; the others go round. */
    assert_int_equal(queue_parked(consumer, messages, 4, true, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(suite_number(&messages[0]), 3);
    messages[0] = suite_take_one(consumer);
    assert_int_equal(suite_number(&messages[0]), 3);
    assert_int_equal(queue_ack(consumer, &messages[0]), 0);
    suite_wait_depths(consumer, NULL, (struct queue_depths){.parked = 1});
    queue_amqp_close(consumer);
    rabbit_place_free(place);
    free(body);
}

static void a_message_that_kills_its_takers_is_parked(void **state)
{
    WITH_BROKER;
    struct rabbit_place *place = rabbit_place_new();
    struct queue *publisher = rabbit_open(place, QUEUE_AMQP_PUBLISHER);
    struct queue *consumer = rabbit_open(place, QUEUE_AMQP_CONSUMER);
    struct queue_message message;
    struct queue_depths depths = {0};
    int deaths = 0;
    size_t count = 0;
    (void)suite_publish(publisher, 1, 2);
    struct suite_wait wait = suite_wait_for("the message to be parked");
    while (queue_depths(publisher, &depths) != 0 || depths.parked == 0) {
        suite_waits(&wait);
        if (queue_take(consumer, &message, 1, 20, &count) == 0) {
            deaths++;
            assert_true(deaths < 100);
            assert_true(rabbit_cut(place) > 0);
        }
    }
    assert_in_range(deaths, 10, 30);
    assert_int_equal(queue_parked(consumer, &message, 1, true, &count), 0);
    assert_int_equal(count, 1);
    message = suite_take_one(consumer);
    assert_int_equal(suite_number(&message), 1);
    assert_int_equal(queue_ack(consumer, &message), 0);
    queue_amqp_close(publisher);
    queue_amqp_close(consumer);
    rabbit_place_free(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_broker_loses_nothing_that_it_confirmed),
        cmocka_unit_test(a_killed_broker_gives_back_what_was_taken),
        cmocka_unit_test(an_idle_queue_outlives_a_restart),
        cmocka_unit_test(a_frozen_broker_is_noticed),
        cmocka_unit_test(a_broker_that_does_not_read_stops_nobody),
        cmocka_unit_test(a_broker_without_memory_is_waited_for),
        cmocka_unit_test(lost_confirms_are_told_as_such),
        cmocka_unit_test(cuts_anywhere_lose_nothing),
        cmocka_unit_test(a_silent_network_is_noticed),
        cmocka_unit_test(full_hands_keep_their_connection),
        cmocka_unit_test(a_deleted_queue_is_made_again),
        cmocka_unit_test(a_message_too_long_to_be_ours_is_parked),
        cmocka_unit_test(a_message_that_kills_its_takers_is_parked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
