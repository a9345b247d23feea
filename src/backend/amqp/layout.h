/*
 * The exchanges and queues at the broker, as a list of requests that are sent one after the other
 * on each new connection. Declaring something that exists changes nothing, unless it has other
 * arguments; then the broker refuses.
 *
 *   exchange E (direct) --key Q--> queue Q --dead letters--> exchange Q.dead --> queue Q.parked
 *                       --key Q.retry.5s--> queue Q.retry.5s --after 5 s--> exchange E, key Q
 *
 * The broker itself moves only what waits in a retry queue: at least once, if it is a quorum queue.
 * We park messages ourselves; the dead letters of Q are a last resort.
 *
 * docs/RABBITMQ.md gives the reasons.
 */
#ifndef SLUICE_BACKEND_AMQP_LAYOUT_H
#define SLUICE_BACKEND_AMQP_LAYOUT_H

#include <amqp.h>
#include <amqp_framing.h>
#include <stdbool.h>
#include <stdint.h>

#define LAYOUT_NAME_MAX 200
#define LAYOUT_RETRIES_MAX 8
#define LAYOUT_ARGUMENTS_MAX 8
#define LAYOUT_NAME_ROOM (LAYOUT_NAME_MAX + 24)
/* A message that was delivered this often without being settled is parked: it may kill its
 * consumers. */
#define LAYOUT_DELIVERIES_MAX 20

enum layout_channel {
    CHANNEL_WORK = 1, /* publisher: messages; consumer: deliveries and their acks */
    CHANNEL_ASK,      /* requests, parked messages */
    CHANNEL_AGAIN     /* consumer: what it publishes again, with confirms */
};

struct layout {
    bool publisher;
    bool events; /* a topic exchange without a queue */
    bool classic;
    uint16_t prefetch;
    uint32_t retry_count;
    uint32_t retry_s[LAYOUT_RETRIES_MAX];
    char exchange[LAYOUT_NAME_ROOM];
    char queue[LAYOUT_NAME_ROOM];
    char dead[LAYOUT_NAME_ROOM];
    char parked[LAYOUT_NAME_ROOM];
    char retry[LAYOUT_RETRIES_MAX][LAYOUT_NAME_ROOM];
};

struct layout_step {
    uint16_t channel;
    amqp_method_number_t method;
    amqp_method_number_t answer;
    const char *what; /* kind of the object: "queue", "exchange" ... */
    const char *name;
    union {
        amqp_channel_open_t channel_open;
        amqp_confirm_select_t confirm_select;
        amqp_basic_qos_t qos;
        amqp_exchange_declare_t exchange;
        amqp_queue_declare_t queue;
        amqp_queue_bind_t bind;
    } request;
    amqp_table_entry_t arguments[LAYOUT_ARGUMENTS_MAX];
};

/* Derives the other names from exchange, queue and retry_s. The parking queue's may be given. */
void layout_name(struct layout *layout);
/* Request number `index`; false: no more. It points into layout and into itself. */
bool layout_step(const struct layout *layout, uint32_t index, struct layout_step *ret_step);

#endif
