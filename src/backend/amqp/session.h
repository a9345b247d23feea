/*
 * Shared by the files of the queue on RabbitMQ: the instance, its handling of frames (session.c),
 * and requests to the broker.
 */
#ifndef SLUICE_BACKEND_AMQP_SESSION_H
#define SLUICE_BACKEND_AMQP_SESSION_H

#include "backend/amqp/broker.h"
#include "backend/amqp/layout.h"
#include "backend/amqp/queue_amqp.h"
#include "backend/amqp/window.h"

#define NAME_ROOM 256
/* Parked messages that are read or sent at once. */
#define PARKED_AT_ONCE 256
/* Marks the index of a parked message among the numbers of republished messages, which are tags. */
#define IS_PARKED (1ULL << 63)

/* A message whose frames are arriving: a delivery, a parked one, or a returned one. */
struct incoming {
    amqp_method_number_t method; /* 0: none */
    uint64_t left;               /* bytes of the body still to come */
    uint64_t returned;           /* its tag, if it is a returned one */
    uint32_t deliveries;         /* earlier deliveries, if the queue counts them */
    bool too_long;
    struct queue_message message;
};

struct session {
    struct queue queue; /* first: what the port sees */
    struct broker *broker;
    struct layout layout;
    char name[NAME_ROOM];
    char routing_key[NAME_ROOM];
    char content_type[NAME_ROOM];
    int64_t answer_ms;  /* timeout of an answer */
    int64_t confirm_ms; /* timeout of a confirm */
    int64_t blocked_ms; /* when the broker was last known to block publishing */

    uint32_t step; /* OPENED: the request that is being answered */
    bool consuming;
    bool wants_messages; /* take was called: consume on every new connection */
    struct incoming incoming[CHANNEL_AGAIN + 1];

    struct window window; /* publisher: messages; consumer: republished ones */
    uint32_t window_max;
    bool unroutable; /* a message was returned: nothing new is sent until everything is declared
                      * again */
    struct queue_outcome *outcomes; /* publisher: window_max of them, a ring */
    uint32_t outcome_first;
    uint32_t outcome_count;

    struct queue_message *taken; /* consumer: prefetch of them, a ring */
    uint32_t taken_first;
    uint32_t taken_count;

    /* One request at a time, on CHANNEL_ASK. */
    uint32_t answers_due;
    uint64_t depth;               /* the last answer's message count */
    uint64_t consumers;           /* of the queue that was declared last */
    struct queue_message *parked; /* the caller's array, and what has arrived */
    size_t parked_max;
    size_t parked_count;
    bool parked_end;                 /* there are no more */
    bool too_long[PARKED_AT_ONCE];   /* redrive: too long to be ours */
    bool sent_round[PARKED_AT_ONCE]; /* redrive: confirmed */
};

static inline struct session *session_of(struct queue *queue)
{
    return (struct session *)(void *)queue;
}

struct broker_owner session_owner(struct session *session);
/* broker_turn, and ends a connection on which a message was not confirmed in time. */
bool session_turn(struct session *session, int64_t wait_ms, bool wakeable);
/* Starts consuming, if connected and not consuming yet. */
void session_consume(struct session *session);
/* Publishes on a channel with confirms; the window has room. attempts 0, reason "": no header. */
void session_publish(struct session *session, uint16_t channel, const char *exchange,
                     const char *key, uint64_t number, uint32_t attempts, const char *reason,
                     struct span body);
void session_ack(struct session *session, uint16_t channel, uint64_t tag);
void session_requeue(struct session *session, uint16_t channel, uint64_t tag, bool multiple);
/* Sends a request on CHANNEL_ASK. */
void session_ask(struct session *session, amqp_method_number_t method, void *decoded);
/* Waits for the answers to all requests. ERR_AGAIN: the connection is lost. */
int session_answers(struct session *session);

/* queue_parked.c */
int parked_depths(struct queue *queue, struct queue_depths *ret_depths);
int parked_look(struct queue *queue, struct queue_message *ret_messages, size_t max, bool redrive,
                size_t *ret_count);

#endif
