/* See exchange.h. */
#include "app/exchange.h"

#include "app/assembly.h"
#include "backend/amqp/queue_amqp.h"
#include "base/err.h"
#include "ledger/cloudevent.h"

int exchange_open(const struct config *config, struct queue **ret_queue)
{
    struct queue_amqp_options options = {.url = config->amqp_url,
                                         .password_file = config->amqp_password_file,
                                         .exchange = config->amqp_events,
                                         .events = true,
                                         .routing_key = "",
                                         .content_type = CLOUDEVENT_CONTENT_TYPE,
                                         .window = (uint32_t)config->amqp_window};
    if (config->amqp_url[0] == '\0') {
        return assembly_fail("amqp.events needs amqp.url, the broker whose exchange it is",
                             ERR_INVALID, "");
    }
    int error = queue_amqp_open(&options, QUEUE_AMQP_PUBLISHER, ret_queue);
    return error == 0 ? 0 : assembly_fail("cannot use amqp.events", error, queue_amqp_error(NULL));
}

void exchange_close(struct queue *queue)
{
    queue_amqp_close(queue);
}
