/*
 * A RabbitMQ for tests: where it is, and how it is hurt. SLUICE_TEST_RABBITMQ is its URL,
 * SLUICE_TEST_RABBITMQ_CONTROL the socket of test/integration/rabbitlib.py that starts, kills and
 * freezes it; test/run.py names both. The broker is started when the first test asks.
 */
#ifndef SLUICE_TEST_RABBIT_WORLD_H
#define SLUICE_TEST_RABBIT_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/amqp/address.h"
#include "backend/amqp/queue_amqp.h"
#include "base/err.h"

/* Why there is none; NULL: there is one. */
const char *rabbit_missing(void);
/* start, kill, stop, freeze, thaw, or "ctl ..." for rabbitmqctl. Start waits until the broker
 * answers; a running one stays. */
void rabbit_do(const char *word);
struct amqp_address rabbit_address(void);

/* Names of its own for a test, and options with short pauses. */
struct rabbit_place {
    char url[512];
    char name[64];
    struct queue_amqp_options options;
};
/* The broker runs then. */
struct rabbit_place *rabbit_place_new(void);
/* Its queues, if they are there, have leaders and move their messages: one went through each. Nobody
 * takes from them meanwhile. A quorum queue that is deleted before it has settled in may stop others
 * like it (rabbitmq-server #16652). */
void rabbit_settle_in(const struct rabbit_place *place);
/* Its queues stay at the broker. */
void rabbit_place_free(struct rabbit_place *place);
/* The test fails, and says why, where it cannot be opened. */
struct queue *rabbit_open(const struct rabbit_place *place, enum queue_amqp_role role);
/* Ends the connections of this process to the broker, as a network would; how many. */
int rabbit_cut(const struct rabbit_place *place);

/* Besides the backend, with plain librabbitmq: what somebody else does at the broker. A cut
 * connection is made again; the test fails where the broker says no, or nothing for a minute. */
void rabbit_delete_queue(const char *name);
void rabbit_publish(const char *exchange, const char *key, struct span body);
void rabbit_declare_classic(const char *queue);
/* The body of the message at its head, which is acked; its length. */
size_t rabbit_get(const char *queue, char *ret_body, size_t cap, char *ret_key, size_t key_cap);
void rabbit_bind_topic(const char *queue, const char *exchange, const char *pattern);

#endif
