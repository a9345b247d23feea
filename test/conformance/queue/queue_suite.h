/*
 * The contract suite of the queue: the same tests run on every queue there is. A queue under test is
 * a struct queue_backend; each test has a place of its own there, with names nobody else uses.
 *
 * Time passes by itself on a real queue; tests move that of a simulated one. Tests wait for what
 * must happen, in small steps; a guard turns a hang into a failure.
 */
#ifndef SLUICE_TEST_QUEUE_SUITE_H
#define SLUICE_TEST_QUEUE_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "port/queue.h"

/* The pauses before retries that every place has. */
#define SUITE_RETRIES 2
#define SUITE_RETRY_S                                                                              \
    {                                                                                              \
        1, 2                                                                                       \
    }

enum suite_role { SUITE_PUBLISHER, SUITE_CONSUMER };

struct suite_place;
struct queue_backend {
    const char *name;
    const char *(*missing)(void); /* why it cannot be tested here; NULL: it can */
    struct suite_place *(*make)(void);
    void (*discard)(struct suite_place *place);
    /* 0: the default. */
    struct queue *(*open)(struct suite_place *place, enum suite_role role, uint32_t window,
                          uint32_t prefetch);
    void (*close)(struct suite_place *place, struct queue *queue);
    int64_t (*now_ms)(struct suite_place *place);
    /* So much time goes by, where it does not by itself. */
    void (*pass)(struct suite_place *place, int64_t ms);
    /* Every connection ends; they are made again at once, or as soon as they are used. */
    void (*cut)(struct suite_place *place);
};

/* Runs the suite; where the backend is missing its tests are skipped, and say so. */
int suite_run(const struct queue_backend *backend);

/* ---- queue_steps.c: for other tests, too ---- */

#define SUITE_STEP_MS 20
void suite_use(const struct queue_backend *backend, struct suite_place *place);
/* A wait that is not told to end: the test fails after a minute and a half of it, and says what it
 * waited for. Called each time round. */
struct suite_wait {
    const char *what;
    int64_t until_ms;
};
struct suite_wait suite_wait_for(const char *what);
void suite_waits(const struct suite_wait *wait);
/* Lets SUITE_STEP_MS pass, or time go by. */
void suite_step(void);
struct span suite_body(uint64_t number, char *memory, size_t cap);
void suite_publish_one(struct queue *publisher, uint64_t number);
/* Publishes numbers from to to-1, each with its number as body, until all are confirmed, as a relay
 * does; how often it had to send one again. */
uint32_t suite_publish(struct queue *publisher, uint64_t from, uint64_t to);
/* At least one, at most max; the test fails where none comes. */
size_t suite_take(struct queue *consumer, struct queue_message *ret_messages, size_t max);
struct queue_message suite_take_one(struct queue *consumer);
/* The number that is its body. */
uint64_t suite_number(const struct queue_message *message);
/* Until the queue says so; consumer is called meanwhile, too, so that what it settled gets done. */
void suite_wait_depths(struct queue *queue, struct queue *consumer, struct queue_depths expected);

#endif
