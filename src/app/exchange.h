/*
 * The exchange that events go out to, as the configuration names it (amqp.url, amqp.events): a
 * publisher behind port/queue.h. With backends.c the only place that names RabbitMQ.
 */
#ifndef SLUICE_APP_EXCHANGE_H
#define SLUICE_APP_EXCHANGE_H

#include "app/config.h"
#include "port/queue.h"

/* Events are to go out. */
static inline bool exchange_wanted(const struct config *config)
{
    return config->amqp_events[0] != '\0';
}
/* What is wrong is logged, with what to do. A broker that is away is not wrong: it is tried
 * again. */
int exchange_open(const struct config *config, struct queue **ret_queue);
void exchange_close(struct queue *queue); /* NULL is fine */

#endif
