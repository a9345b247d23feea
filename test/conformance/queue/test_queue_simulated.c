/*
 * The simulated broker: the contract suite, without faults and with every fault the contract allows;
 * and that its faults strike, and are the same for the same seed.
 */
#include "queue_suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "sim_queue.h"

static const uint32_t retry_s[SUITE_RETRIES] = SUITE_RETRY_S;

struct suite_place {
    struct sim_broker *broker;
    int64_t now_ms;
};

static const char *missing(void)
{
    return NULL;
}

static struct suite_place *make_with(uint64_t seed, const struct sim_queue_faults *faults)
{
    struct suite_place *place = calloc(1, sizeof(*place));
    assert_non_null(place);
    place->now_ms = 1000000;
    place->broker = sim_broker_new(seed, retry_s, SUITE_RETRIES);
    sim_broker_time(place->broker, place->now_ms);
    sim_broker_faults(place->broker, faults);
    return place;
}

static struct suite_place *make(void)
{
    return make_with(1, &(struct sim_queue_faults){.outcome_ms = 5});
}

static void discard(struct suite_place *place)
{
    sim_broker_free(place->broker);
    free(place);
}

static struct queue *open_queue(struct suite_place *place, enum suite_role role, uint32_t window,
                                uint32_t prefetch)
{
    return sim_queue_open(place->broker, role == SUITE_PUBLISHER, window, prefetch);
}

static void close_queue(struct suite_place *place, struct queue *queue)
{
    (void)place;
    sim_queue_close(queue);
}

static int64_t now_ms(struct suite_place *place)
{
    return place->now_ms;
}

static void pass(struct suite_place *place, int64_t ms)
{
    place->now_ms += ms;
    sim_broker_time(place->broker, place->now_ms);
}

static void cut(struct suite_place *place)
{
    sim_broker_cut(place->broker);
}

static const struct queue_backend simulated = {
    .name = "the simulated broker",
    .missing = missing,
    .make = make,
    .discard = discard,
    .open = open_queue,
    .close = close_queue,
    .now_ms = now_ms,
    .pass = pass,
    .cut = cut,
};

/* ---- its faults ---- */

#define MESSAGES 400

struct story {
    uint64_t digest;
    uint32_t sent_again;
    uint32_t doubles;
    uint32_t redelivered;
    uint32_t backwards; /* came after a later one, for the first time */
    uint32_t retried;
};

/* A relay and a booker, with cuts and a restart in between, until everything has its end. */
static struct story live(uint64_t seed, const struct sim_queue_faults *faults, bool outages)
{
    struct suite_place *place = make_with(seed, faults);
    struct prng prng = prng_of(seed ^ 0x5eed);
    struct story story = {0};
    uint32_t seen[MESSAGES] = {0};
    uint64_t highest = 0;
    suite_use(&simulated, place);
    struct queue *publisher = open_queue(place, SUITE_PUBLISHER, 32, 0);
    struct queue *consumer = open_queue(place, SUITE_CONSUMER, 0, 16);
    for (uint64_t from = 0; from < MESSAGES; from += 20) {
        story.sent_again += suite_publish(publisher, from, from + 20);
        if (outages && prng_below(&prng, 4) == 0) {
            sim_broker_down(place->broker, place->now_ms + (int64_t)prng_below(&prng, 2) * 3000);
        }
    }
    while (sim_broker_messages(place->broker) > 0) {
        struct queue_message messages[16];
        size_t parked = 0;
        (void)queue_parked(consumer, messages, 16, true, &parked);
        struct queue_depths depths;
        if (queue_depths(consumer, &depths) == 0 && depths.ready == 0) {
            pass(place, 100);
            continue;
        }
        size_t got = suite_take(consumer, messages, 16);
        for (size_t i = 0; i < got; i++) {
            uint64_t number = suite_number(&messages[i]);
            story.backwards += seen[number] == 0 && number < highest;
            highest = number > highest ? number : highest;
            story.doubles += seen[number]++ > 0;
            story.redelivered += messages[i].redelivered;
            uint64_t how = prng_below(&prng, 10);
            int error = how == 0  ? queue_park(consumer, &messages[i])
                        : how < 3 ? queue_retry(consumer, &messages[i])
                                  : queue_ack(consumer, &messages[i]);
            assert_true(error == 0 || error == ERR_CLOSED);
            story.retried += how < 3;
            if (outages && prng_below(&prng, 100) == 0) {
                sim_broker_cut(place->broker);
            }
        }
    }
    for (uint64_t i = 0; i < MESSAGES; i++) {
        if (seen[i] == 0) {
            fail_msg("seed %" PRIu64 ": message %" PRIu64 " never came", seed, i);
        }
    }
    story.digest = sim_broker_digest(place->broker);
    close_queue(place, publisher);
    close_queue(place, consumer);
    discard(place);
    return story;
}

static void without_faults_nothing_comes_twice_or_backwards(void **state)
{
    (void)state;
    struct story story = live(1, &(struct sim_queue_faults){0}, false);
    assert_int_equal(story.sent_again, 0);
    assert_int_equal(story.doubles, story.retried);
    assert_int_equal(story.redelivered, 0);
    assert_int_equal(story.backwards, 0);
}

static void each_fault_strikes(void **state)
{
    (void)state;
    struct story story = live(2, &(struct sim_queue_faults){.duplicate = 100}, false);
    assert_true(story.doubles > story.retried);
    story = live(3, &(struct sim_queue_faults){.reorder = 100}, false);
    assert_true(story.backwards > 0);
    story = live(4, &(struct sim_queue_faults){.lose_message = 100}, false);
    assert_true(story.sent_again > 0);
    assert_int_equal(story.doubles, story.retried);
    story = live(5, &(struct sim_queue_faults){.lose_confirm = 100}, false);
    assert_true(story.sent_again > 0 && story.doubles > story.retried);
    story = live(6, &(struct sim_queue_faults){.lose_settle = 50}, false);
    assert_true(story.redelivered > 0);
    story = live(7, &(struct sim_queue_faults){.outcome_ms = 50}, true);
    assert_true(story.redelivered > 0);
}

static void no_message_is_lost_for_any_seed(void **state)
{
    (void)state;
    const char *given = getenv("SLUICE_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    const struct sim_queue_faults all = {.duplicate = 50,
                                         .reorder = 50,
                                         .lose_message = 50,
                                         .lose_confirm = 50,
                                         .lose_settle = 30,
                                         .outcome_ms = 40};
    uint64_t first = given != NULL ? strtoull(given, NULL, 10) : 100;
    for (uint64_t seed = first; seed < first + 50; seed++) {
        (void)live(seed, &all, true);
    }
}

static void the_same_seed_is_the_same_story(void **state)
{
    (void)state;
    const struct sim_queue_faults all = {
        .duplicate = 50, .reorder = 50, .lose_confirm = 50, .lose_settle = 30, .outcome_ms = 40};
    assert_int_equal(live(42, &all, true).digest, live(42, &all, true).digest);
    assert_true(live(42, &all, true).digest != live(43, &all, true).digest);
}

static void a_broker_that_is_down_takes_and_gives_nothing(void **state)
{
    (void)state;
    struct suite_place *place = make();
    suite_use(&simulated, place);
    struct queue *publisher = open_queue(place, SUITE_PUBLISHER, 0, 0);
    struct queue *consumer = open_queue(place, SUITE_CONSUMER, 0, 0);
    struct queue_depths depths;
    size_t count = 0;
    (void)suite_publish(publisher, 0, 10);
    struct queue_message message = suite_take_one(consumer);
    sim_broker_down(place->broker, place->now_ms + 5000);
    assert_int_equal(queue_publish(publisher, 11, span_of("x")), ERR_AGAIN);
    assert_int_equal(queue_depths(publisher, &depths), ERR_AGAIN);
    assert_int_equal(queue_ack(consumer, &message), ERR_CLOSED);
    assert_int_equal(queue_take(consumer, &message, 1, 1000, &count), ERR_AGAIN);
    assert_int_equal(queue_parked(consumer, &message, 1, false, &count), ERR_AGAIN);
    pass(place, 5000);
    suite_wait_depths(publisher, NULL, (struct queue_depths){.ready = 10});
    close_queue(place, publisher);
    close_queue(place, consumer);
    discard(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_faults_nothing_comes_twice_or_backwards),
        cmocka_unit_test(each_fault_strikes),
        cmocka_unit_test(no_message_is_lost_for_any_seed),
        cmocka_unit_test(the_same_seed_is_the_same_story),
        cmocka_unit_test(a_broker_that_is_down_takes_and_gives_nothing),
    };
    int failed = suite_run(&simulated);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
