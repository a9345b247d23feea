/* See event_publisher_thread.h. */
#include "app/event_publisher_thread.h"

#include <stdlib.h>
#include <string.h>

#include "app/exchange.h"
#include "app/outages.h"
#include "app/worker.h"
#include "backend/amqp/queue_amqp.h"
#include "base/err.h"
#include "ledger/event_publisher.h"

#define TURN_MS 100
#define LEASE_MS 6000
#define AWAY_MS 10000
/* In a shared ledger all writers wait for each other, so the cursor is saved rarely. */
#define SAVE_MS 200
#define MAILBOX 0
#define WAIT_US 100000

struct event_publisher_thread {
    struct assembly *parts;
    struct queue *queue;
    struct event_publisher *event_publisher;
    struct ledger_writer_op cursor;
    void (*seen)(void *context, bool away);
    void *seen_context;
    struct outage link;
    struct worker worker;
};

/* The ledger writer answers every post, also when it fails. */
static int save(void *context, uint64_t number)
{
    struct event_publisher_thread *event_publisher_thread = context;
    struct ledger_writer *ledger_writer = event_publisher_thread->parts->ledger_writer;
    uint32_t place = event_publisher_thread->parts->options.loops + MAILBOX;
    event_publisher_thread->cursor = (struct ledger_writer_op){
        .op = {.kind = LEDGER_CURSOR, .key = EVENT_PUBLISHER_LEASE, .amount = number},
        .loop = place};
    ledger_writer_post(ledger_writer, &event_publisher_thread->cursor);
    while (ledger_writer_collect(ledger_writer, place) == NULL) {
        ledger_writer_wait(ledger_writer, MAILBOX, WAIT_US);
    }
    if (event_publisher_thread->cursor.error != 0) {
        return event_publisher_thread->cursor.error;
    }
    return event_publisher_thread->cursor.op.refusal == REFUSAL_NONE ? 0 : ERR_INVALID;
}

/* For the metric. The event publisher itself logs that events wait. */
static void look_at_link(struct event_publisher_thread *event_publisher_thread)
{
    struct assembly *parts = event_publisher_thread->parts;
    if (!outage_is_due(&event_publisher_thread->link, clock_boot_us(parts->time.clock) / 1000)) {
        return;
    }
    bool away = queue_amqp_wait(event_publisher_thread->queue, 0) != 0;
    if (event_publisher_thread->seen != NULL) {
        event_publisher_thread->seen(event_publisher_thread->seen_context, away);
    } else {
        metrics_know(metrics_slot(&parts->metrics, parts->options.loops + SLOT_EVENT_PUBLISHER),
                     METRIC_RABBITMQ_UP, !away);
    }
}

static bool iterate(void *context)
{
    struct event_publisher_thread *event_publisher_thread = context;
    event_publisher_iterate(event_publisher_thread->event_publisher, TURN_MS);
    look_at_link(event_publisher_thread);
    return true;
}

static void wake(void *context)
{
    queue_wake(((struct event_publisher_thread *)context)->queue);
}

static void end(void *context)
{
    event_publisher_finish(((struct event_publisher_thread *)context)->event_publisher);
}

static int make(struct event_publisher_thread *event_publisher_thread, const struct config *config,
                struct ledger *ledger, struct lease_port *lease)
{
    struct assembly *parts = event_publisher_thread->parts;
    int error = exchange_open(config, &event_publisher_thread->queue);
    if (error != 0) {
        return error;
    }
    struct event_publisher_ports ports = {
        .queue = event_publisher_thread->queue,
        .ledger = ledger,
        .lease = lease,
        .save = lease == NULL ? save : NULL,
        .context = event_publisher_thread,
        .clock = parts->time.clock,
        .metrics = metrics_slot(&parts->metrics, parts->options.loops + SLOT_EVENT_PUBLISHER)};
    struct event_publisher_options options = {.source = config->amqp_events_source,
                                              .window = (uint32_t)config->amqp_window,
                                              .lease_ms = LEASE_MS,
                                              .away_ms = AWAY_MS,
                                              .save_ms = SAVE_MS};
    error = event_publisher_new(ports, options, &event_publisher_thread->event_publisher);
    if (error == 0) {
        event_publisher_thread->worker = (struct worker){.name = "publisher",
                                                         .iterate = iterate,
                                                         .wake = wake,
                                                         .end = end,
                                                         .context = event_publisher_thread};
        error = worker_start(&event_publisher_thread->worker);
    }
    return error == 0 ? 0 : assembly_fail("cannot start the event publisher", error, "");
}

int event_publisher_thread_start(struct assembly *parts, const struct config *config,
                                 struct ledger *ledger, struct lease_port *lease,
                                 void (*seen)(void *context, bool away), void *seen_context,
                                 struct event_publisher_thread **ret_event_publisher_thread)
{
    struct event_publisher_thread *event_publisher_thread =
        calloc(1, sizeof(*event_publisher_thread));
    if (event_publisher_thread == NULL) {
        return assembly_fail("cannot start the event publisher", ERR_NOMEM, "");
    }
    event_publisher_thread->parts = parts;
    event_publisher_thread->seen = seen;
    event_publisher_thread->seen_context = seen_context;
    int error = make(event_publisher_thread, config, ledger, lease);
    if (error != 0) {
        event_publisher_thread_free(event_publisher_thread);
        return error;
    }
    *ret_event_publisher_thread = event_publisher_thread;
    return 0;
}

void event_publisher_thread_stop(struct event_publisher_thread *event_publisher_thread)
{
    if (event_publisher_thread != NULL) {
        worker_stop(&event_publisher_thread->worker);
    }
}

void event_publisher_thread_free(struct event_publisher_thread *event_publisher_thread)
{
    if (event_publisher_thread == NULL) {
        return;
    }
    event_publisher_free(event_publisher_thread->event_publisher);
    exchange_close(event_publisher_thread->queue);
    free(event_publisher_thread);
}
