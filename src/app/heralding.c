/* See heralding.h. */
#define _GNU_SOURCE
#include "app/heralding.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "app/exchange.h"
#include "app/outages.h"
#include "backend/amqp/queue_amqp.h"
#include "base/err.h"
#include "flow/herald.h"

#define TURN_MS 100
#define LEASE_MS 6000
#define AWAY_MS 10000
/* In a shared ledger every write waits for the others': few are enough. */
#define SAVE_MS 200
#define DESK 0
#define WAIT_US 100000

struct heralding {
    struct assembly *parts;
    struct queue *queue;
    struct herald *herald;
    struct office_op cursor;
    void (*seen)(void *context, bool away);
    void *seen_context;
    _Atomic bool stopping;
    pthread_t thread;
    bool running;
};

/* The office answers everything, also that it cannot. */
static int save(void *context, uint64_t number)
{
    struct heralding *heralding = context;
    struct office *office = heralding->parts->office;
    uint32_t place = heralding->parts->options.loops + DESK;
    heralding->cursor = (struct office_op){
        .op = {.kind = LEDGER_CURSOR, .key = HERALD_LEASE, .amount = number}, .loop = place};
    office_post(office, &heralding->cursor);
    while (office_collect(office, place) == NULL) {
        office_wait(office, DESK, WAIT_US);
    }
    if (heralding->cursor.error != 0) {
        return heralding->cursor.error;
    }
    return heralding->cursor.op.refusal == REFUSAL_NONE ? 0 : ERR_INVALID;
}

/* For the metric; that events wait is said by the herald itself. */
static void look_at_link(struct heralding *heralding, struct outage *outage)
{
    struct assembly *parts = heralding->parts;
    if (!outage_is_due(outage, clock_boot_us(parts->time.clock) / 1000)) {
        return;
    }
    bool away = queue_amqp_wait(heralding->queue, 0) != 0;
    if (heralding->seen != NULL) {
        heralding->seen(heralding->seen_context, away);
    } else {
        metrics_know(metrics_slot(&parts->metrics, parts->options.loops + SLOT_HERALD),
                     METRIC_RABBITMQ_UP, !away);
    }
}

static void *run(void *context)
{
    struct heralding *heralding = context;
    struct outage link = {0};
    (void)pthread_setname_np(pthread_self(), "herald");
    while (!atomic_load(&heralding->stopping)) {
        herald_turn(heralding->herald, TURN_MS);
        look_at_link(heralding, &link);
    }
    herald_finish(heralding->herald);
    return NULL;
}

static int make(struct heralding *heralding, const struct config *config, struct ledger *ledger,
                struct lease_port *lease)
{
    struct assembly *parts = heralding->parts;
    int error = exchange_open(config, &heralding->queue);
    if (error != 0) {
        return error;
    }
    struct herald_ports ports = {
        .queue = heralding->queue,
        .ledger = ledger,
        .lease = lease,
        .save = lease == NULL ? save : NULL,
        .context = heralding,
        .clock = parts->time.clock,
        .metrics = metrics_slot(&parts->metrics, parts->options.loops + SLOT_HERALD)};
    struct herald_options options = {.source = config->amqp_events_source,
                                     .window = (uint32_t)config->amqp_window,
                                     .lease_ms = LEASE_MS,
                                     .away_ms = AWAY_MS,
                                     .save_ms = SAVE_MS};
    error = herald_new(ports, options, &heralding->herald);
    if (error == 0) {
        heralding->running = pthread_create(&heralding->thread, NULL, run, heralding) == 0;
        error = heralding->running ? 0 : ERR_NOMEM;
    }
    return error == 0 ? 0 : assembly_fail("cannot start the herald", error, "");
}

int heralding_start(struct assembly *parts, const struct config *config, struct ledger *ledger,
                    struct lease_port *lease, void (*seen)(void *context, bool away),
                    void *seen_context, struct heralding **ret_heralding)
{
    struct heralding *heralding = calloc(1, sizeof(*heralding));
    if (heralding == NULL) {
        return assembly_fail("cannot start the herald", ERR_NOMEM, "");
    }
    heralding->parts = parts;
    heralding->seen = seen;
    heralding->seen_context = seen_context;
    int error = make(heralding, config, ledger, lease);
    if (error != 0) {
        heralding_free(heralding);
        return error;
    }
    *ret_heralding = heralding;
    return 0;
}

void heralding_stop(struct heralding *heralding)
{
    if (heralding != NULL && heralding->running) {
        atomic_store(&heralding->stopping, true);
        queue_wake(heralding->queue);
        (void)pthread_join(heralding->thread, NULL);
        heralding->running = false;
    }
}

void heralding_free(struct heralding *heralding)
{
    if (heralding == NULL) {
        return;
    }
    herald_free(heralding->herald);
    exchange_close(heralding->queue);
    free(heralding);
}
