/*
 * The exchange for events, as configured (amqp.url, amqp.events): a publisher behind port/queue.h.
 * Only this file and backends.c name RabbitMQ.
 */
#ifndef SLUICE_APP_EXCHANGE_H
#define SLUICE_APP_EXCHANGE_H

#include "app/config.h"
#include "port/queue.h"

/* Whether events are to be published. */
static inline bool exchange_wanted(const struct config *config)
{
    return config->amqp_events[0] != '\0';
}
/* Errors are logged with advice. A broker that is down is not an error: the connection is tried
 * again. */
int exchange_open(const struct config *config, struct queue **ret_queue);
void exchange_close(struct queue *queue); /* NULL is fine */

#endif
