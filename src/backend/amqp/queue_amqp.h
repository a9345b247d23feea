/*
 * port/queue.h on RabbitMQ (3.10 or later). It declares its queues and exchanges itself;
 * docs/RABBITMQ.md shows them.
 *
 * publish collects messages, and outcomes sends them: a publisher calls both. A message is
 * UNCONFIRMED if it was nacked, returned as unroutable, or outstanding when the connection ended.
 * If a broker keeps the connection but does not confirm (a queue has lost its leader), the
 * connection is closed after confirm_timeout_ms, so that nothing waits forever.
 *
 * retry and park publish a copy to where it waits, and ack the original when the broker has
 * confirmed the copy. Nothing is lost in between; a message may come twice. They do not wait; later
 * calls complete it. A foreign message that is too long, or a message that was delivered 20 times
 * and never settled (quorum queues count), is parked automatically.
 *
 * No call blocks longer than its wait_ms; depths and parked wait for the broker's answers, at most
 * connect_timeout_ms each. An instance that is not called cannot keep its heartbeat: call it at
 * least every half of heartbeat_s, or its connection may be lost (and made again).
 */
#ifndef SLUICE_BACKEND_AMQP_QUEUE_AMQP_H
#define SLUICE_BACKEND_AMQP_QUEUE_AMQP_H

#include "port/queue.h"

enum queue_amqp_role { QUEUE_AMQP_PUBLISHER, QUEUE_AMQP_CONSUMER };

struct queue_amqp_options {
    const char *url;           /* amqp://user[:password]@host[:port]/vhost; no vhost: / */
    const char *password_file; /* its first line is the password; NULL or "": the URL's */
    const char *exchange;      /* NULL or "": sluice.orders */
    const char *queue;         /* NULL or "": sluice.orders; prefix of the other queues' names */
    const char *parked;        /* the parking queue; NULL or "": queue, then .parked */
    bool classic;              /* classic queues on one node of the cluster, not quorum queues */
    /* Publisher only: `exchange` is a topic exchange for any subscriber, and there is no queue. A
     * message without a subscriber is confirmed and dropped. */
    bool events;
    const char *routing_key;  /* events: for messages published without a key */
    const char *content_type; /* NULL or "": application/octet-stream */
    uint32_t window;          /* most unconfirmed messages; 0: 1024 */
    uint32_t prefetch;        /* most messages taken and not settled; 0: 2048 */
    const uint32_t *retry_s;  /* pauses before the first, second ... retry; NULL: 1, 5, 30, 120 */
    size_t retry_count;       /* 1 to 8 */
    uint32_t connect_timeout_ms; /* until it is ready; 0: 5000 */
    uint32_t confirm_timeout_ms; /* a message not confirmed for this long ends the connection,
                                  * unless the broker blocks publishing; 0: 30000 */
    uint32_t heartbeat_s;        /* a broker silent for this long counts as dead; at least 2; 0:
                                  * 20 */
    uint32_t pause_min_ms;       /* before the first new attempt to connect; 0: 100 */
    uint32_t pause_max_ms;       /* limit of the later pauses, which double; 0: 5000 */
};

/* The longest body of an event. */
#define QUEUE_AMQP_EVENT_MAX QUEUE_EVENT_MAX

/* Checks the URL; ERR_INVALID with the reason in ret_error. */
int queue_amqp_check_url(const char *url, char *ret_error, size_t capacity);

/*
 * Tries to connect, for at most connect_timeout_ms. A broker that is down is no error: the instance
 * keeps trying. ERR_INVALID: wrong options, or the broker refuses the login; ERR_EXISTS: something
 * of that name exists there with other arguments; ERR_IO: the password file; ERR_NOMEM.
 */
int queue_amqp_open(const struct queue_amqp_options *options, enum queue_amqp_role role,
                    struct queue **ret_queue);
/* Sends what is left, for at most a second. NULL is fine. */
void queue_amqp_close(struct queue *queue);

/* 0: connected; ERR_AGAIN: not within wait_ms. */
int queue_amqp_wait(struct queue *queue, int64_t wait_ms);
/* Publisher of events: queue_announce, with a routing key of at most 255 bytes. */
int queue_amqp_publish_key(struct queue *queue, uint64_t number, const char *routing_key,
                           struct span body);

/* The last error and what to do about it. NULL: of the last failed open on this thread. */
const char *queue_amqp_error(const struct queue *queue);

#endif
