/* See cluster_status_thread.h. */
#include "app/cluster_status_thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/worker.h"
#include "backend/amqp/queue_amqp.h"
#include "backend/redis/topology.h"
#include "base/err.h"
#include "distributed/cluster_status.h"
#include "distributed/parked_messages.h"

/* A lost connection is made again in steps, one at each call. */
#define CONNECT_MS 500

struct cluster_status_thread {
    struct assembly *parts;
    struct backends *backends;
    struct cluster_status cluster_status;
    struct parked_messages parked_messages;
    int64_t look_at_ms; /* when everything is checked next */
    struct worker worker;
};

static const char *address(void *context, uint32_t segment,
                           char ret_text[CLUSTER_STATUS_ADDRESS_MAX])
{
    struct cluster_status_thread *cluster_status_thread = context;
    char host[REDIS_HOST_MAX];
    uint16_t port = 0;
    uint64_t generation = 0;
    ret_text[0] = '\0';
    if (topology_address(cluster_status_thread->backends->topology, segment, host, &port,
                         &generation) == 0) {
        (void)snprintf(ret_text, CLUSTER_STATUS_ADDRESS_MAX, "%s:%u", host, port);
    }
    return ret_text;
}

static void connect_queues(struct cluster_status_thread *cluster_status_thread)
{
    for (unsigned i = 0; i < PARKED_MESSAGES_QUEUES; i++) {
        if (cluster_status_thread->cluster_status.queues[i] != NULL) {
            (void)queue_amqp_wait(cluster_status_thread->cluster_status.queues[i], CONNECT_MS);
        }
    }
}

/* For /metrics. If a server did not answer, its last numbers stay. */
static void tell_numbers(struct cluster_status_thread *cluster_status_thread)
{
    struct assembly *parts = cluster_status_thread->parts;
    struct metrics_slot *slot =
        metrics_slot(&parts->metrics, parts->options.loops + SLOT_CLUSTER_STATUS);
    const struct cluster_status_sample *sample =
        &cluster_status_thread->cluster_status.sample; /* only this thread writes it */
    const struct cluster_status_queue *queues = sample->queues;
    const struct cluster_status_queue *orders = &queues[PARKED_MESSAGES_ORDERS];
    const struct cluster_status_queue *payments = &queues[PARKED_MESSAGES_PAYMENTS];
    if (orders->exists) {
        backends_link_seen(cluster_status_thread->backends, LINK_CLUSTER_STATUS,
                           orders->away || payments->away);
    }
    if (orders->at_ms != 0) {
        metrics_know(slot, METRIC_QUEUE_READY, orders->depths.ready);
        metrics_know(slot, METRIC_QUEUE_RETRY, orders->depths.retry);
        metrics_know(slot, METRIC_QUEUE_PARKED, orders->depths.parked);
        metrics_know(slot, METRIC_QUEUE_CONSUMERS, orders->depths.consumers);
    }
    if (payments->at_ms != 0) {
        metrics_know(slot, METRIC_PAYMENTS_REFUSED, payments->depths.parked);
        metrics_know(slot, METRIC_PAYMENTS_CONSUMERS, payments->depths.consumers);
    }
    uint64_t troubles = 0;
    for (int i = 0; i < TROUBLE_COUNT; i++) {
        troubles += sample->troubles[i].is_on;
    }
    metrics_know(slot, METRIC_CLUSTER_TROUBLES, troubles);
    if (sample->leases_at_ms != 0) {
        metrics_know(slot, METRIC_KEEPER_UNRENEWED, (uint64_t)sample->unrenewed_ms / 1000);
    }
}

static bool iterate(void *context)
{
    struct cluster_status_thread *cluster_status_thread = context;
    struct clock_port *clock = cluster_status_thread->parts->time.clock;
    parked_messages_iterate(&cluster_status_thread->parked_messages);
    int64_t now_ms = clock_boot_us(clock) / 1000;
    if (now_ms >= cluster_status_thread->look_at_ms) {
        connect_queues(cluster_status_thread);
        cluster_status_look(&cluster_status_thread->cluster_status,
                            inside_time_ms(&cluster_status_thread->parts->time));
        tell_numbers(cluster_status_thread);
        cluster_status_thread->look_at_ms = now_ms + CLUSTER_STATUS_EVERY_MS;
        now_ms = clock_boot_us(clock) / 1000;
    }
    if (now_ms < cluster_status_thread->look_at_ms) {
        parked_messages_wait(&cluster_status_thread->parked_messages,
                             cluster_status_thread->look_at_ms - now_ms);
    }
    return true;
}

static void wake(void *context)
{
    parked_messages_stop(&((struct cluster_status_thread *)context)->parked_messages);
}

static int make(struct cluster_status_thread *cluster_status_thread,
                struct segment_table *segment_table)
{
    struct assembly *parts = cluster_status_thread->parts;
    struct backends *backends = cluster_status_thread->backends;
    struct cluster_status *cluster_status = &cluster_status_thread->cluster_status;
    struct parked_messages *parked_messages = &cluster_status_thread->parked_messages;
    cluster_status->segment_table = segment_table;
    cluster_status->address = address;
    cluster_status->context = cluster_status_thread;
    int error = backends_new_segments(backends, "cluster status", &cluster_status->segments);
    error = error != 0 ? error : backends_shared_reader(backends, &cluster_status->ledger);
    error = error != 0 ? error
                       : backends_new_queue(backends, false,
                                            &cluster_status->queues[PARKED_MESSAGES_ORDERS]);
    error = error != 0 ? error
                       : backends_new_payments(backends,
                                               &cluster_status->queues[PARKED_MESSAGES_PAYMENTS]);
    if (error != 0) {
        return error; /* already logged */
    }
    memcpy(parked_messages->queues, cluster_status->queues, sizeof(parked_messages->queues));
    parked_messages->wakers = parts->wakers;
    parked_messages->loops = parts->options.loops;
    error = parked_messages_init(parked_messages);
    if (error == 0) {
        cluster_status_thread->worker = (struct worker){
            .name = "status", .iterate = iterate, .wake = wake, .context = cluster_status_thread};
        error = worker_start(&cluster_status_thread->worker);
    }
    return error == 0 ? 0 : assembly_fail("cannot start the thread that watches", error, "");
}

int cluster_status_thread_start(struct assembly *parts, struct backends *backends,
                                struct segment_table *segment_table,
                                struct cluster_status_thread **ret_cluster_status_thread)
{
    struct cluster_status_thread *cluster_status_thread = calloc(1, sizeof(*cluster_status_thread));
    if (cluster_status_thread == NULL) {
        return assembly_fail("cannot start the thread that watches", ERR_NOMEM, "");
    }
    cluster_status_thread->parts = parts;
    cluster_status_thread->backends = backends;
    cluster_status_init(&cluster_status_thread->cluster_status);
    int error = make(cluster_status_thread, segment_table);
    if (error != 0) {
        cluster_status_thread_free(cluster_status_thread);
        return error;
    }
    parts->shared.parked_messages = &cluster_status_thread->parked_messages; /* the loops start
                                                                              * later */
    parts->shared.cluster_status = &cluster_status_thread->cluster_status;
    *ret_cluster_status_thread = cluster_status_thread;
    return 0;
}

void cluster_status_thread_stop(struct cluster_status_thread *cluster_status_thread)
{
    if (cluster_status_thread != NULL) {
        worker_stop(&cluster_status_thread->worker);
    }
}

void cluster_status_thread_free(struct cluster_status_thread *cluster_status_thread)
{
    if (cluster_status_thread == NULL) {
        return;
    }
    parked_messages_done(&cluster_status_thread->parked_messages);
    cluster_status_done(&cluster_status_thread->cluster_status);
    free(cluster_status_thread);
}
