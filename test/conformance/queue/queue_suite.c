/* See queue_suite.h. */
#include "queue_suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"

#define MANY 500
#define WALK_MESSAGES 60
#define WALK_STEPS 400

static const struct queue_backend *backend;
static struct suite_place *place;

/* ---- what tests share ---- */

static struct queue *open_queue(enum suite_role role)
{
    return backend->open(place, role, 0, 0);
}

static void close_queue(struct queue *queue)
{
    backend->close(place, queue);
}

static int compare_u64(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

/* Takes and acks until each of 0 to count-1 has come; how many came more than once. */
static uint32_t take_all(struct queue *consumer, uint64_t count)
{
    bool *seen = calloc(count, sizeof(*seen));
    uint64_t left = count;
    uint32_t doubles = 0;
    assert_non_null(seen);
    while (left > 0) {
        struct queue_message messages[32];
        size_t got = suite_take(consumer, messages, 32);
        for (size_t i = 0; i < got; i++) {
            uint64_t number = suite_number(&messages[i]);
            assert_true(number < count);
            doubles += seen[number];
            left -= !seen[number];
            seen[number] = true;
            (void)queue_ack(consumer, &messages[i]);
        }
    }
    free(seen);
    return doubles;
}

static const struct queue_depths nothing = {0, 0, 0};

/* ---- publishing and taking ---- */

static void what_is_published_is_confirmed_and_taken(void **state)
{
    (void)state;
    struct queue *publisher = open_queue(SUITE_PUBLISHER);
    struct queue *consumer = open_queue(SUITE_CONSUMER);
    assert_int_equal(suite_publish(publisher, 0, MANY), 0);
    assert_int_equal(take_all(consumer, MANY), 0);
    suite_wait_depths(publisher, consumer, nothing);
    close_queue(publisher);
    close_queue(consumer);
}

static void bodies_come_as_they_went(void **state)
{
    (void)state;
    struct queue *publisher = open_queue(SUITE_PUBLISHER);
    struct queue *consumer = open_queue(SUITE_CONSUMER);
    char bytes[QUEUE_BODY_MAX + 1];
    static const size_t lengths[] = {0, 1, QUEUE_BODY_MAX - 1, QUEUE_BODY_MAX};
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (char)(i * 7); /* zeros and 0xCE among them */
    }
    for (size_t i = 0; i < 4; i++) {
        struct queue_outcome outcome;
        size_t got = 0;
        assert_int_equal(queue_publish(publisher, i, (struct span){bytes, lengths[i]}), 0);
        struct suite_wait wait = suite_wait_for("a confirm");
        while (queue_outcomes(publisher, &outcome, 1, SUITE_STEP_MS, &got) != 0) {
            suite_waits(&wait);
            suite_step();
        }
        assert_int_equal(outcome.number, i);
        assert_int_equal(outcome.kind, QUEUE_CONFIRMED);
        struct queue_message message = suite_take_one(consumer);
        assert_int_equal(message.len, lengths[i]);
        assert_memory_equal(message.body, bytes, message.len);
        assert_false(message.redelivered);
        assert_int_equal(message.attempts, 0);
        assert_int_equal(queue_ack(consumer, &message), 0);
    }
    assert_int_equal(queue_publish(publisher, 9, (struct span){bytes, QUEUE_BODY_MAX + 1}),
                     ERR_INVALID);
    suite_wait_depths(publisher, consumer, nothing);
    close_queue(publisher);
    close_queue(consumer);
}

static void no_more_than_the_window_is_under_way(void **state)
{
    (void)state;
    struct queue *publisher = backend->open(place, SUITE_PUBLISHER, 5, 0);
    struct queue *consumer = open_queue(SUITE_CONSUMER);
    struct queue_outcome outcomes[8];
    uint64_t sent = 0;
    char memory[64];
    /* Without asking for outcomes, as many as the window holds, whatever the broker says. */
    while (queue_publish(publisher, sent, suite_body(sent, memory, sizeof(memory))) == 0) {
        sent++;
        assert_true(sent <= 5);
    }
    assert_int_equal(sent, 5);
    size_t told = 0;
    struct suite_wait wait = suite_wait_for("five confirms");
    while (told < 5) {
        size_t got = 0;
        if (queue_outcomes(publisher, outcomes, 2, SUITE_STEP_MS, &got) != 0) {
            suite_waits(&wait);
            suite_step();
            continue;
        }
        assert_in_range(got, 1, 2);
        told += got;
    }
    assert_int_equal(queue_outcomes(publisher, outcomes, 8, 0, &told), ERR_AGAIN);
    assert_int_equal(suite_publish(publisher, 5, 30), 0);
    (void)take_all(consumer, 30);
    close_queue(publisher);
    close_queue(consumer);
}

static void no_more_than_the_prefetch_is_out(void **state)
{
    (void)state;
    struct queue *publisher = open_queue(SUITE_PUBLISHER);
    struct queue *consumer = backend->open(place, SUITE_CONSUMER, 0, 4);
    struct queue_message messages[16];
    (void)suite_publish(publisher, 0, 12);
    size_t out = 0;
    while (out < 4) {
        out += suite_take(consumer, messages + out, 16 - out);
        assert_true(out <= 4);
    }
    suite_wait_depths(publisher, NULL, (struct queue_depths){.ready = 8});
    size_t none = 0;
    assert_int_equal(queue_take(consumer, messages + 4, 8, 0, &none), ERR_AGAIN);
    assert_int_equal(queue_ack(consumer, &messages[1]), 0);
    messages[1] = suite_take_one(consumer);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(queue_ack(consumer, &messages[i]), 0);
    }
    for (size_t left = 7; left > 0;) {
        size_t got = suite_take(consumer, messages, 16);
        for (size_t i = 0; i < got; i++) {
            assert_int_equal(queue_ack(consumer, &messages[i]), 0);
        }
        left -= got;
    }
    suite_wait_depths(publisher, consumer, nothing);
    close_queue(publisher);
    close_queue(consumer);
}

static void two_consumers_share(void **state)
{
    (void)state;
    struct queue *publisher = open_queue(SUITE_PUBLISHER);
    struct queue *one = backend->open(place, SUITE_CONSUMER, 0, 10);
    struct queue *two = backend->open(place, SUITE_CONSUMER, 0, 10);
    struct queue *both[2] = {one, two};
    uint64_t numbers[40];
    uint64_t shares[2] = {0, 0};
    size_t count = 0;
    (void)suite_publish(publisher, 0, 40);
    struct suite_wait wait = suite_wait_for("forty messages");
    for (int i = 0; count < 40; i++) {
        struct queue_message messages[5];
        size_t got = 0;
        suite_waits(&wait);
        if (queue_take(both[i % 2], messages, 5, SUITE_STEP_MS, &got) != 0) {
            suite_step();
            continue;
        }
        shares[i % 2] += got;
        for (size_t k = 0; k < got; k++) {
            numbers[count++] = suite_number(&messages[k]);
            assert_int_equal(queue_ack(both[i % 2], &messages[k]), 0);
        }
    }
    qsort(numbers, count, sizeof(numbers[0]), compare_u64);
    for (uint64_t i = 0; i < 40; i++) {
        assert_int_equal(numbers[i], i);
    }
    assert_true(shares[0] > 0 && shares[1] > 0);
    close_queue(publisher);
    close_queue(one);
    close_queue(two);
}

static void messages_wait_for_whoever_comes(void **state)
{
    (void)state;
    struct queue *publisher = open_queue(SUITE_PUBLISHER);
    (void)suite_publish(publisher, 0, 20);
    close_queue(publisher);
    struct queue *consumer = open_queue(SUITE_CONSUMER);
    suite_wait_depths(consumer, NULL, (struct queue_depths){.ready = 20});
    assert_int_equal(take_all(consumer, 20), 0);
    suite_wait_depths(consumer, NULL, nothing);
    close_queue(consumer);
}

/* ---- connections that end ---- */

static void what_was_not_settled_comes_again(void **state)
{
    (void)state;
    struct queue *publisher = open_queue(SUITE_PUBLISHER);
    struct queue *consumer = open_queue(SUITE_CONSUMER);
    struct queue_message messages[10];
    size_t count = 0;
    (void)suite_publish(publisher, 0, 10);
    while (count < 10) {
        count += suite_take(consumer, messages + count, 10 - count);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(queue_ack(consumer, &messages[i]), 0);
    }
    struct queue_depths depths;
    assert_int_equal(queue_depths(consumer, &depths), 0); /* the acks have arrived */
    backend->cut(place);
    bool again[10] = {false};
    for (size_t left = 6; left > 0;) {
        struct queue_message message = suite_take_one(consumer);
        uint64_t number = suite_number(&message);
        assert_true(message.redelivered);
        assert_true(message.session != messages[0].session);
        assert_true(number < 10 && !again[number]);
        again[number] = true;
        left--;
        assert_int_equal(queue_ack(consumer, &message), 0);
    }
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(again[suite_number(&messages[i])], i >= 4);
        /* Their connection is gone: nothing can be said of them any more, and nothing is. */
        assert_int_equal(queue_ack(consumer, &messages[i]), ERR_CLOSED);
        assert_int_equal(queue_retry(consumer, &messages[i]), ERR_CLOSED);
        assert_int_equal(queue_park(consumer, &messages[i]), ERR_CLOSED);
    }
    suite_wait_depths(publisher, consumer, nothing);
    close_queue(publisher);
    close_queue(consumer);
}

static void a_closed_consumer_gives_back_what_it_had(void **state)
{
    (void)state;
    struct queue *publisher = open_queue(SUITE_PUBLISHER);
    struct queue *consumer = open_queue(SUITE_CONSUMER);
    (void)suite_publish(publisher, 0, 5);
    struct queue_message message = suite_take_one(consumer);
    uint64_t acked = suite_number(&message);
    assert_int_equal(queue_ack(consumer, &message), 0);
    (void)suite_take_one(consumer);
    close_queue(consumer);
    suite_wait_depths(publisher, NULL, (struct queue_depths){.ready = 4});
    consumer = open_queue(SUITE_CONSUMER);
    for (int i = 0; i < 4; i++) {
        message = suite_take_one(consumer);
        assert_true(suite_number(&message) != acked);
        assert_int_equal(queue_ack(consumer, &message), 0);
    }
    suite_wait_depths(publisher, consumer, nothing);
    close_queue(publisher);
    close_queue(consumer);
}

static void outcomes_are_told_once_whatever_happens(void **state)
{
    (void)state;
    struct queue *publisher = open_queue(SUITE_PUBLISHER);
    struct queue *consumer = open_queue(SUITE_CONSUMER);
    for (uint64_t round = 0; round < 5; round++) {
        uint8_t told[50] = {0};
        bool confirmed[50] = {false};
        uint64_t base = round * 50;
        for (uint64_t i = 0; i < 50; i++) {
            suite_publish_one(publisher, base + i);
        }
        backend->cut(place);
        struct suite_wait wait = suite_wait_for("fifty outcomes");
        for (size_t count = 0; count < 50;) {
            struct queue_outcome outcomes[50];
            size_t got = 0;
            suite_waits(&wait);
            if (queue_outcomes(publisher, outcomes, 50, SUITE_STEP_MS, &got) != 0) {
                suite_step();
                continue;
            }
            for (size_t i = 0; i < got; i++) {
                assert_in_range(outcomes[i].number, base, base + 49);
                told[outcomes[i].number - base]++;
                confirmed[outcomes[i].number - base] = outcomes[i].kind == QUEUE_CONFIRMED;
            }
            count += got;
        }
        for (uint64_t i = 0; i < 50; i++) {
            assert_int_equal(told[i], 1);
            if (!confirmed[i]) {
                (void)suite_publish(publisher, base + i, base + i + 1);
            }
        }
    }
    (void)take_all(consumer, 250); /* each, as often as it may be */
    close_queue(publisher);
    close_queue(consumer);
}

/* ---- later, and aside ---- */

/* It is seen waiting for its retry, unless looking took as long as its pause, as it may on a busy
 * machine. */
static void see_it_wait(struct queue *publisher, struct queue *consumer, int64_t until_ms)
{
    struct queue_depths depths = {0};
    while (depths.retry == 0) {
        bool seen = queue_depths(consumer, &depths) == 0 && queue_depths(publisher, &depths) == 0;
        if (backend->now_ms(place) >= until_ms) {
            return;
        }
        if (seen && depths.retry == 0) {
            suite_step();
        }
    }
    assert_int_equal(depths.retry, 1);
    assert_int_equal(depths.ready + depths.parked, 0);
}

static void a_retry_comes_back_after_its_pause(void **state)
{
    (void)state;
    static const uint32_t pauses_s[] = SUITE_RETRY_S;
    struct queue *publisher = open_queue(SUITE_PUBLISHER);
    struct queue *consumer = open_queue(SUITE_CONSUMER);
    (void)suite_publish(publisher, 7, 8);
    for (uint32_t i = 0; i <= SUITE_RETRIES; i++) {
        struct queue_message message = suite_take_one(consumer);
        assert_int_equal(suite_number(&message), 7);
        assert_int_equal(message.attempts, i);
        int64_t before_ms = backend->now_ms(place);
        bool last = i == SUITE_RETRIES;
        /* Later attempts get the last pause again, and never the parking queue. */
        assert_int_equal(
            last || i == 0 ? queue_later(consumer, &message) : queue_retry(consumer, &message), 0);
        see_it_wait(publisher, consumer, before_ms + pauses_s[last ? i - 1 : i] * 1000LL);
        message = suite_take_one(consumer);
        assert_true(backend->now_ms(place) - before_ms >= pauses_s[last ? i - 1 : i] * 1000LL);
        assert_int_equal(message.attempts, last ? i : i + 1);
        if (!last) {
            /* What was taken and not settled keeps its count. */
            backend->cut(place);
        } else {
            assert_int_equal(queue_retry(consumer, &message), 0);
        }
    }
    /* After the last pause there is only the parking queue. */
    suite_wait_depths(publisher, consumer, (struct queue_depths){.parked = 1});
    close_queue(publisher);
    close_queue(consumer);
}

/* The last pause again and again; and when it is put aside at last, it says why. */
static void what_comes_later_is_not_parked_by_itself(void **state)
{
    (void)state;
    static const uint32_t pauses_s[] = SUITE_RETRY_S;
    struct queue *publisher = open_queue(SUITE_PUBLISHER);
    struct queue *consumer = open_queue(SUITE_CONSUMER);
    struct queue_message parked;
    size_t count = 0;
    (void)suite_publish(publisher, 7, 8);
    struct queue_message message = suite_take_one(consumer);
    for (uint32_t i = 0; i <= SUITE_RETRIES; i++) {
        int64_t pause_ms = pauses_s[i < SUITE_RETRIES ? i : SUITE_RETRIES - 1] * 1000LL;
        int64_t before_ms = backend->now_ms(place);
        assert_int_equal(message.attempts, i);
        assert_int_equal(queue_later(consumer, &message), 0);
        message = suite_take_one(consumer);
        assert_int_equal(suite_number(&message), 7);
        assert_true(backend->now_ms(place) - before_ms >= pause_ms);
    }
    assert_string_equal(message.reason, "");
    strcpy(message.reason, "wrong_amount");
    assert_int_equal(queue_park(consumer, &message), 0);
    suite_wait_depths(publisher, consumer, (struct queue_depths){.parked = 1});
    assert_int_equal(queue_parked(consumer, &parked, 1, false, &count), 0);
    assert_int_equal(count, 1);
    assert_string_equal(parked.reason, "wrong_amount");
    assert_int_equal(queue_parked(consumer, &parked, 1, true, &count), 0);
    message = suite_take_one(consumer);
    assert_string_equal(message.reason, "");
    assert_int_equal(message.attempts, 0);
    assert_int_equal(queue_ack(consumer, &message), 0);
    close_queue(publisher);
    close_queue(consumer);
}

static void park(struct queue *publisher, struct queue *consumer, uint64_t count)
{
    (void)suite_publish(publisher, 0, count);
    for (uint64_t i = 0; i < count; i++) {
        struct queue_message message = suite_take_one(consumer);
        assert_int_equal(queue_park(consumer, &message), 0);
    }
    suite_wait_depths(publisher, consumer, (struct queue_depths){.parked = count});
}

static void parked_messages_can_be_seen(void **state)
{
    (void)state;
    struct queue *publisher = open_queue(SUITE_PUBLISHER);
    struct queue *consumer = open_queue(SUITE_CONSUMER);
    struct queue_message messages[40];
    size_t count = 99;
    assert_int_equal(queue_parked(consumer, messages, 40, false, &count), 0);
    assert_int_equal(count, 0);
    park(publisher, consumer, 30);
    for (int twice = 0; twice < 2; twice++) {
        uint64_t numbers[30];
        assert_int_equal(queue_parked(consumer, messages, 40, false, &count), 0);
        assert_int_equal(count, 30);
        for (size_t i = 0; i < count; i++) {
            numbers[i] = suite_number(&messages[i]);
        }
        qsort(numbers, count, sizeof(numbers[0]), compare_u64);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(numbers[i], i);
        }
    }
    assert_int_equal(queue_parked(consumer, messages, 3, false, &count), 0);
    assert_int_equal(count, 3);
    suite_wait_depths(publisher, consumer, (struct queue_depths){.parked = 30});
    close_queue(publisher);
    close_queue(consumer);
}

static void parked_messages_can_be_sent_round_again(void **state)
{
    (void)state;
    struct queue *publisher = open_queue(SUITE_PUBLISHER);
    struct queue *consumer = open_queue(SUITE_CONSUMER);
    struct queue *mailbox =
        open_queue(SUITE_CONSUMER); /* an operator's: never takes, so nothing is its */
    struct queue_message messages[40];
    size_t count = 0;
    park(publisher, consumer, 20);
    assert_int_equal(queue_parked(mailbox, messages, 5, true, &count), 0);
    assert_int_equal(count, 5);
    bool sent[20] = {false};
    for (size_t i = 0; i < count; i++) {
        sent[suite_number(&messages[i])] = true;
    }
    for (int i = 0; i < 5; i++) {
        struct queue_message message = suite_take_one(consumer);
        assert_true(sent[suite_number(&message)]);
        assert_int_equal(message.attempts, 0);
        sent[suite_number(&message)] = false;
        assert_int_equal(queue_ack(consumer, &message), 0);
    }
    suite_wait_depths(publisher, consumer, (struct queue_depths){.parked = 15});
    assert_int_equal(queue_parked(mailbox, messages, 40, true, &count), 0);
    assert_int_equal(count, 15);
    for (int i = 0; i < 15; i++) {
        struct queue_message message = suite_take_one(consumer);
        assert_int_equal(queue_ack(consumer, &message), 0);
    }
    suite_wait_depths(publisher, consumer, nothing);
    assert_int_equal(queue_parked(mailbox, messages, 40, true, &count), 0);
    assert_int_equal(count, 0);
    close_queue(publisher);
    close_queue(consumer);
    close_queue(mailbox);
}

/* ---- waits ---- */

static void a_wake_ends_a_wait(void **state)
{
    (void)state;
    struct queue *publisher = open_queue(SUITE_PUBLISHER);
    struct queue *consumer = open_queue(SUITE_CONSUMER);
    struct queue_message message;
    struct queue_outcome outcome;
    size_t count = 0;
    /* Woken before they wait, both return at once; a lost wake would hang for an hour. */
    queue_wake(publisher);
    queue_wake(consumer);
    assert_int_equal(queue_outcomes(publisher, &outcome, 1, 3600000, &count), ERR_AGAIN);
    assert_int_equal(queue_take(consumer, &message, 1, 3600000, &count), ERR_AGAIN);
    /* And it has not broken anything. */
    (void)suite_publish(publisher, 0, 3);
    (void)take_all(consumer, 3);
    close_queue(publisher);
    close_queue(consumer);
}

static void asking_for_none_takes_none(void **state)
{
    (void)state;
    struct queue *publisher = open_queue(SUITE_PUBLISHER);
    struct queue *consumer = open_queue(SUITE_CONSUMER);
    struct queue_message message;
    size_t count = 0;
    (void)suite_publish(publisher, 0, 2);
    message = suite_take_one(consumer);
    assert_int_equal(queue_take(consumer, &message, 0, SUITE_STEP_MS, &count), ERR_AGAIN);
    assert_int_equal(queue_ack(consumer, &message), 0);
    message = suite_take_one(consumer);
    assert_int_equal(suite_number(&message), 1);
    assert_int_equal(queue_ack(consumer, &message), 0);
    close_queue(publisher);
    close_queue(consumer);
}

/* ---- anything ---- */

struct walk {
    struct queue *publisher;
    struct queue *consumer;
    struct prng prng;
    struct queue_message held[64];
    size_t held_count;
    uint64_t next;
    bool confirmed[WALK_MESSAGES];
    bool done[WALK_MESSAGES]; /* acked, and the queue took it */
};

static void walk_outcomes(struct walk *w)
{
    struct queue_outcome outcomes[16];
    size_t got = 0;
    if (queue_outcomes(w->publisher, outcomes, 16, 0, &got) != 0) {
        return;
    }
    for (size_t i = 0; i < got; i++) {
        if (outcomes[i].kind == QUEUE_CONFIRMED) {
            w->confirmed[outcomes[i].number] = true;
        } else {
            suite_publish_one(w->publisher, outcomes[i].number);
        }
    }
}

static void walk_settle(struct walk *w)
{
    if (w->held_count == 0) {
        return;
    }
    size_t at = prng_below(&w->prng, w->held_count);
    struct queue_message message = w->held[at];
    w->held[at] = w->held[--w->held_count];
    uint64_t how = prng_below(&w->prng, 10);
    if (how == 0) {
        (void)queue_park(w->consumer, &message);
    } else if (how < 3) {
        (void)queue_retry(w->consumer, &message);
    } else if (queue_ack(w->consumer, &message) == 0) {
        w->done[suite_number(&message)] = true;
    }
}

static void walk_step(struct walk *w)
{
    char memory[64];
    size_t got = 0;
    switch (prng_below(&w->prng, 12)) {
    case 0:
    case 1:
    case 2:
        if (w->next < WALK_MESSAGES &&
            queue_publish(w->publisher, w->next, suite_body(w->next, memory, sizeof(memory))) ==
                0) {
            w->next++;
        }
        break;
    case 3:
    case 4:
        walk_outcomes(w);
        break;
    case 5:
    case 6:
        if (queue_take(w->consumer, w->held + w->held_count, 64 - w->held_count, 0, &got) == 0) {
            w->held_count += got;
        }
        break;
    case 7:
    case 8:
    case 9:
        walk_settle(w);
        break;
    case 10: {
        struct queue_message parked[4];
        (void)queue_parked(w->consumer, parked, 4, prng_below(&w->prng, 2) == 0, &got);
        break;
    }
    default:
        if (prng_below(&w->prng, 8) == 0) {
            backend->cut(place);
        }
        backend->pass(place, (int64_t)prng_below(&w->prng, 200));
    }
}

/* Whatever is done to it: what was confirmed comes, until it is acked. */
static void no_walk_loses_a_message(void **state)
{
    (void)state;
    const char *given = getenv("SLUICE_SEED"); /* NOLINT(concurrency-mt-unsafe) */
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)backend->now_ms(place);
    struct walk *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    print_message("SLUICE_SEED=%" PRIu64 "\n", seed);
    w->prng = prng_of(seed);
    w->publisher = backend->open(place, SUITE_PUBLISHER, 16, 0);
    w->consumer = backend->open(place, SUITE_CONSUMER, 0, 64);
    for (int i = 0; i < WALK_STEPS; i++) {
        walk_step(w);
    }
    /* Everything published to the end, and then everything taken to the end. */
    struct suite_wait wait = suite_wait_for("all confirms");
    for (;;) {
        bool all = true;
        for (uint64_t i = 0; i < w->next; i++) {
            all = all && w->confirmed[i];
        }
        if (all) {
            break;
        }
        suite_waits(&wait);
        walk_outcomes(w);
        suite_step();
    }
    while (w->held_count > 0) {
        struct queue_message *message = &w->held[--w->held_count];
        if (queue_ack(w->consumer, message) == 0) {
            w->done[suite_number(message)] = true;
        }
    }
    wait = suite_wait_for("the queues to run empty");
    for (int quiet = 0; quiet < 2;) {
        struct queue_message messages[64];
        struct queue_depths depths;
        size_t got = 0;
        suite_waits(&wait);
        (void)queue_parked(w->consumer, messages, 64, true, &got);
        if (queue_take(w->consumer, messages, 64, SUITE_STEP_MS, &got) == 0) {
            for (size_t i = 0; i < got; i++) {
                if (queue_ack(w->consumer, &messages[i]) == 0) {
                    w->done[suite_number(&messages[i])] = true;
                }
            }
            quiet = 0;
            continue;
        }
        suite_step();
        bool empty = queue_depths(w->consumer, &depths) == 0 && depths.ready == 0 &&
                     depths.retry == 0 && depths.parked == 0;
        quiet = empty ? quiet + 1 : 0;
    }
    for (uint64_t i = 0; i < w->next; i++) {
        if (!w->done[i]) {
            fail_msg("message %" PRIu64 " was confirmed and never came to its end", i);
        }
    }
    close_queue(w->publisher);
    close_queue(w->consumer);
    free(w);
}

/* ---- running ---- */

static int set_up(void **state)
{
    (void)state;
    if (backend->missing() == NULL) {
        place = backend->make();
        suite_use(backend, place);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (backend->missing() == NULL) {
        backend->discard(place);
    }
    return 0;
}

static void skipped(void **state)
{
    (void)state;
    print_message("skipped: %s\n", backend->missing());
    skip();
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int suite_run(const struct queue_backend *the_backend)
{
    struct CMUnitTest tests[] = {
        TEST(what_is_published_is_confirmed_and_taken),
        TEST(bodies_come_as_they_went),
        TEST(no_more_than_the_window_is_under_way),
        TEST(no_more_than_the_prefetch_is_out),
        TEST(two_consumers_share),
        TEST(messages_wait_for_whoever_comes),
        TEST(what_was_not_settled_comes_again),
        TEST(a_closed_consumer_gives_back_what_it_had),
        TEST(outcomes_are_told_once_whatever_happens),
        TEST(a_retry_comes_back_after_its_pause),
        TEST(what_comes_later_is_not_parked_by_itself),
        TEST(parked_messages_can_be_seen),
        TEST(parked_messages_can_be_sent_round_again),
        TEST(a_wake_ends_a_wait),
        TEST(asking_for_none_takes_none),
        TEST(no_walk_loses_a_message),
    };
    backend = the_backend;
    print_message("the queue on %s\n", backend->name);
    for (size_t i = 0; backend->missing() != NULL && i < sizeof(tests) / sizeof(tests[0]); i++) {
        tests[i].test_func = skipped;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
