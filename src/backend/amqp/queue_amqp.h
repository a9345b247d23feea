/*
 * The queue on RabbitMQ (3.10 or later), behind port/queue.h. It declares what it needs at the
 * broker by itself; docs/RABBITMQ.md shows it.
 *
 * publish gathers messages and outcomes sends them: whoever publishes asks for outcomes, too. What
 * the broker did not confirm is UNCONFIRMED: nacked, returned as unroutable, or under way when the
 * connection ended. A broker that keeps the connection and does not confirm (a queue of it has lost
 * its leader) loses the connection after confirm_timeout_ms, so that nothing waits for ever.
 *
 * retry and park publish the message to where it waits, and ack the original when the broker has
 * confirmed the copy: nothing is lost in between, a message may come twice. They do not wait for
 * it; the next calls see to it. A message that others put there and that is too long to be ours, or
 * that was taken 20 times and never settled (quorum queues count), is parked by itself.
 *
 * Nothing waits longer than it was told; depths and parked wait for the broker's answers, at most
 * connect_timeout_ms without one. An instance that nobody calls cannot keep its heartbeat: call it
 * at least every half of heartbeat_s, or its connection may be lost (and made again).
 */
#ifndef SLUICE_BACKEND_AMQP_QUEUE_AMQP_H
#define SLUICE_BACKEND_AMQP_QUEUE_AMQP_H

#include "port/queue.h"

enum queue_amqp_role { QUEUE_AMQP_PUBLISHER, QUEUE_AMQP_CONSUMER };

struct queue_amqp_options {
    const char *url;           /* amqp://user[:password]@host[:port]/vhost; no vhost: / */
    const char *password_file; /* its first line is the password; NULL or "": the URL's */
    const char *exchange;      /* NULL or "": sluice.orders */
    const char *queue;         /* NULL or "": sluice.orders; the other queues' names begin so */
    const char *parked;        /* the parking queue; NULL or "": queue, then .parked */
    bool classic;              /* queues on one node of the cluster, not quorum queues */
    /* Publisher only: `exchange` is a topic exchange for whoever binds to it, and there is no queue.
     * What nobody has bound to is confirmed and gone. */
    bool events;
    const char *routing_key;  /* events: of messages published without their own */
    const char *content_type; /* NULL or "": application/octet-stream */
    uint32_t window;          /* unconfirmed messages at most; 0: 1024 */
    uint32_t prefetch;        /* messages taken and not settled at most; 0: 2048 */
    const uint32_t *retry_s;  /* pauses before the first, second ... retry; NULL: 1, 5, 30, 120 */
    size_t retry_count;       /* 1 to 8 */
    uint32_t connect_timeout_ms; /* until ready to work; 0: 5000 */
    uint32_t confirm_timeout_ms; /* a message not confirmed for so long ends the connection, unless
                                    the broker said that it takes none for now; 0: 30000 */
    uint32_t heartbeat_s;        /* a broker silent for so long is gone; at least 2; 0: 20 */
    uint32_t pause_min_ms;       /* before the first try to connect again; 0: 100 */
    uint32_t pause_max_ms;       /* before later ones, which doubles; 0: 5000 */
};

/* The longest body of an event. */
#define QUEUE_AMQP_EVENT_MAX QUEUE_EVENT_MAX

/* Whether it is such a URL; ERR_INVALID with the reason in ret_error. */
int queue_amqp_check_url(const char *url, char *ret_error, size_t capacity);

/*
 * Tries to connect, for at most connect_timeout_ms. A broker that is away is no error: the instance
 * goes on trying. ERR_INVALID: wrong options, or the broker refuses the login; ERR_EXISTS: something
 * of that name exists there with other arguments; ERR_IO: the password file; ERR_NOMEM.
 */
int queue_amqp_open(const struct queue_amqp_options *options, enum queue_amqp_role role,
                    struct queue **ret_queue);
/* Sends what is left to send, for at most a second. NULL is fine. */
void queue_amqp_close(struct queue *queue);

/* 0: connected; ERR_AGAIN: not within wait_ms. */
int queue_amqp_wait(struct queue *queue, int64_t wait_ms);
/* Publisher of events: queue_announce, with a routing key of at most 255 bytes. */
int queue_amqp_publish_key(struct queue *queue, uint64_t number, const char *routing_key,
                           struct span body);

/* What went wrong last, and what to do about it. NULL: in the last failed open on this thread. */
const char *queue_amqp_error(const struct queue *queue);

#endif
