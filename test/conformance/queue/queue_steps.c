/* See queue_suite.h: what its tests, and others, do with a queue and wait for. */
#include "queue_suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Longer than anything takes on a machine that others use, too. */
#define HANG_MS 90000

static const struct queue_backend *backend;
static struct suite_place *place;

void suite_use(const struct queue_backend *the_backend, struct suite_place *the_place)
{
    backend = the_backend;
    place = the_place;
}

/* ---- waits ---- */

static int64_t wall_ms(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct suite_wait suite_wait_for(const char *what)
{
    return (struct suite_wait){.what = what, .until_ms = wall_ms() + HANG_MS};
}

void suite_waits(const struct suite_wait *wait)
{
    if (wall_ms() > wait->until_ms) {
        fail_msg("waited %d s in vain for %s", HANG_MS / 1000, wait->what);
    }
}

void suite_step(void)
{
    backend->pass(place, SUITE_STEP_MS);
}

/* ---- messages ---- */

struct span suite_body(uint64_t number, char *memory, size_t cap)
{
    int len = snprintf(memory, cap, "message %" PRIu64, number);
    return (struct span){memory, (size_t)len};
}

uint64_t suite_number(const struct queue_message *message)
{
    char text[QUEUE_BODY_MAX + 1];
    uint64_t number = 0;
    memcpy(text, message->body, message->len);
    text[message->len] = '\0';
    if (sscanf(text, "message %" SCNu64, &number) != 1) {
        fail_msg("not a body of ours: %s", text);
    }
    return number;
}

void suite_publish_one(struct queue *publisher, uint64_t number)
{
    char memory[64];
    struct suite_wait wait = suite_wait_for("room to publish");
    while (queue_publish(publisher, number, suite_body(number, memory, sizeof(memory))) != 0) {
        suite_waits(&wait);
        suite_step();
    }
}

uint32_t suite_publish(struct queue *publisher, uint64_t from, uint64_t to)
{
    uint64_t count = to - from;
    bool *safe = calloc(count, sizeof(*safe));
    uint64_t left = count;
    uint32_t again = 0;
    uint64_t next = from;
    struct suite_wait wait = suite_wait_for("confirms");
    assert_non_null(safe);
    while (left > 0) {
        char memory[64];
        struct queue_outcome outcomes[64];
        size_t got = 0;
        while (next < to &&
               queue_publish(publisher, next, suite_body(next, memory, sizeof(memory))) == 0) {
            next++;
        }
        if (queue_outcomes(publisher, outcomes, 64, SUITE_STEP_MS, &got) != 0) {
            suite_waits(&wait);
            suite_step();
            continue;
        }
        for (size_t i = 0; i < got; i++) {
            uint64_t at = outcomes[i].number - from;
            assert_true(at < count && !safe[at]);
            if (outcomes[i].kind == QUEUE_CONFIRMED) {
                safe[at] = true;
                left--;
            } else {
                again++;
                suite_publish_one(publisher, outcomes[i].number);
            }
        }
    }
    free(safe);
    return again;
}

size_t suite_take(struct queue *consumer, struct queue_message *ret_messages, size_t max)
{
    struct suite_wait wait = suite_wait_for("a message");
    for (;;) {
        size_t count = 0;
        int error = queue_take(consumer, ret_messages, max, SUITE_STEP_MS, &count);
        if (error == 0) {
            assert_in_range(count, 1, max);
            return count;
        }
        assert_int_equal(error, ERR_AGAIN);
        suite_waits(&wait);
        suite_step();
    }
}

struct queue_message suite_take_one(struct queue *consumer)
{
    struct queue_message message;
    assert_int_equal(suite_take(consumer, &message, 1), 1);
    return message;
}

void suite_wait_depths(struct queue *queue, struct queue *consumer, struct queue_depths expected)
{
    struct queue_depths depths = {0};
    char what[160] = "any depths";
    struct suite_wait wait = suite_wait_for(what);
    for (;;) {
        struct queue_depths consumers;
        if (consumer != NULL) {
            (void)queue_depths(consumer, &consumers);
        }
        if (queue_depths(queue, &depths) == 0) {
            if (depths.ready == expected.ready && depths.retry == expected.retry &&
                depths.parked == expected.parked) {
                return;
            }
            (void)snprintf(what, sizeof(what),
                           "%" PRIu64 "/%" PRIu64 "/%" PRIu64 " ready, retry, parked; there are "
                           "%" PRIu64 "/%" PRIu64 "/%" PRIu64,
                           expected.ready, expected.retry, expected.parked, depths.ready,
                           depths.retry, depths.parked);
        }
        suite_waits(&wait);
        suite_step();
    }
}
