/* See pulsing.h. */
#define _GNU_SOURCE
#include "app/pulsing.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/amqp/queue_amqp.h"
#include "backend/redis/topology.h"
#include "base/err.h"
#include "flow/parking.h"
#include "flow/pulse.h"

/* A lost connection is made again in steps, each when it is asked for. */
#define CONNECT_MS 500

struct pulsing {
    struct assembly *parts;
    struct engines *engines;
    struct pulse pulse;
    struct parking parking;
    _Atomic bool stopping;
    pthread_t thread;
    bool running;
};

static const char *address(void *context, uint32_t segment, char ret_text[PULSE_ADDRESS_MAX])
{
    struct pulsing *pulsing = context;
    char host[REDIS_HOST_MAX];
    uint16_t port = 0;
    uint64_t generation = 0;
    ret_text[0] = '\0';
    if (topology_address(pulsing->engines->topology, segment, host, &port, &generation) == 0) {
        (void)snprintf(ret_text, PULSE_ADDRESS_MAX, "%s:%u", host, port);
    }
    return ret_text;
}

static void connect_queues(struct pulsing *pulsing)
{
    for (unsigned i = 0; i < PARKING_QUEUES; i++) {
        if (pulsing->pulse.queues[i] != NULL) {
            (void)queue_amqp_wait(pulsing->pulse.queues[i], CONNECT_MS);
        }
    }
}

/* For /metrics. What could not be asked keeps its last numbers. */
static void tell_numbers(struct pulsing *pulsing)
{
    struct assembly *parts = pulsing->parts;
    struct metrics_slot *slot = metrics_slot(&parts->metrics, parts->options.loops + SLOT_PULSE);
    const struct pulse_queue *queues = pulsing->pulse.sample.queues; /* this thread writes them */
    const struct pulse_queue *orders = &queues[PARKING_ORDERS];
    const struct pulse_queue *payments = &queues[PARKING_PAYMENTS];
    if (orders->exists) {
        engines_link_seen(pulsing->engines, LINK_PULSE, orders->away || payments->away);
    }
    if (orders->at_ms != 0) {
        metrics_know(slot, METRIC_QUEUE_READY, orders->depths.ready);
        metrics_know(slot, METRIC_QUEUE_RETRY, orders->depths.retry);
        metrics_know(slot, METRIC_QUEUE_PARKED, orders->depths.parked);
    }
    if (payments->at_ms != 0) {
        metrics_know(slot, METRIC_PAYMENTS_REFUSED, payments->depths.parked);
    }
}

static void *run(void *context)
{
    struct pulsing *pulsing = context;
    struct clock_port *clock = pulsing->parts->time.clock;
    int64_t next_ms = 0;
    (void)pthread_setname_np(pthread_self(), "pulse");
    while (!atomic_load(&pulsing->stopping)) {
        parking_turn(&pulsing->parking);
        int64_t now_ms = clock_boot_us(clock) / 1000;
        if (now_ms >= next_ms) {
            connect_queues(pulsing);
            pulse_look(&pulsing->pulse, inside_time_ms(&pulsing->parts->time));
            tell_numbers(pulsing);
            next_ms = now_ms + PULSE_EVERY_MS;
            now_ms = clock_boot_us(clock) / 1000;
        }
        if (now_ms < next_ms) {
            parking_wait(&pulsing->parking, next_ms - now_ms);
        }
    }
    return NULL;
}

static int make(struct pulsing *pulsing, struct places *places)
{
    struct assembly *parts = pulsing->parts;
    struct engines *engines = pulsing->engines;
    struct pulse *pulse = &pulsing->pulse;
    struct parking *parking = &pulsing->parking;
    pulse->places = places;
    pulse->address = address;
    pulse->context = pulsing;
    int error = engines_new_segments(engines, "pulse", &pulse->segments);
    error = error != 0 ? error : engines_new_reader(engines, &pulse->ledger);
    error = error != 0 ? error : engines_new_queue(engines, false, &pulse->queues[PARKING_ORDERS]);
    error = error != 0 ? error : engines_new_payments(engines, &pulse->queues[PARKING_PAYMENTS]);
    if (error != 0) {
        return error; /* told */
    }
    memcpy(parking->queues, pulse->queues, sizeof(parking->queues));
    parking->engine = parts->engine;
    parking->loops = parts->options.loops;
    error = parking_init(parking);
    if (error == 0) {
        pulsing->running = pthread_create(&pulsing->thread, NULL, run, pulsing) == 0;
        error = pulsing->running ? 0 : ERR_NOMEM;
    }
    return error == 0 ? 0 : assembly_fail("cannot start the thread that watches", error, "");
}

int pulsing_start(struct assembly *parts, struct engines *engines, struct places *places,
                  struct pulsing **ret_pulsing)
{
    struct pulsing *pulsing = calloc(1, sizeof(*pulsing));
    if (pulsing == NULL) {
        return assembly_fail("cannot start the thread that watches", ERR_NOMEM, "");
    }
    pulsing->parts = parts;
    pulsing->engines = engines;
    pulse_init(&pulsing->pulse);
    int error = make(pulsing, places);
    if (error != 0) {
        pulsing_free(pulsing);
        return error;
    }
    parts->shared.parking = &pulsing->parking; /* loops begin later */
    parts->shared.pulse = &pulsing->pulse;
    *ret_pulsing = pulsing;
    return 0;
}

void pulsing_stop(struct pulsing *pulsing)
{
    if (pulsing != NULL && pulsing->running) {
        atomic_store(&pulsing->stopping, true);
        parking_stop(&pulsing->parking);
        (void)pthread_join(pulsing->thread, NULL);
        pulsing->running = false;
    }
}

void pulsing_free(struct pulsing *pulsing)
{
    if (pulsing == NULL) {
        return;
    }
    parking_done(&pulsing->parking);
    pulse_done(&pulsing->pulse);
    free(pulsing);
}
