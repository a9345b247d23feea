/* See redriver.h. */
#include "distributed/redriver.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/limits.h"
#include "obs/log.h"

static int64_t now_ms(const struct redriver *redriver)
{
    return clock_boot_us(redriver->clock) / 1000;
}

void redriver_init(struct redriver *ret_redriver, struct queue *queue, struct clock_port *clock,
                   int64_t every_ms)
{
    *ret_redriver = (struct redriver){.queue = queue, .clock = clock, .every_ms = every_ms};
    ret_redriver->next_ms = now_ms(ret_redriver) + every_ms;
}

int redrive(struct queue *queue, uint64_t most, const _Atomic bool *stopping, uint64_t *ret_sent)
{
    struct queue_depths depths = {0};
    struct queue_message *room = calloc(PARKED_MESSAGES_BATCH, sizeof(*room));
    int error = room == NULL ? ERR_NOMEM : queue_depths(queue, &depths);
    uint64_t left = depths.parked > PARKED_MESSAGES_BATCH ? depths.parked : PARKED_MESSAGES_BATCH;
    left = left < most ? left : most;
    *ret_sent = 0;
    while (error == 0 && left > 0) {
        size_t count = 0;
        error = stopping != NULL && atomic_load(stopping)
                    ? ERR_CLOSED
                    : queue_parked(queue, room,
                                   left < PARKED_MESSAGES_BATCH ? left : PARKED_MESSAGES_BATCH,
                                   true, &count);
        *ret_sent += count;
        left = count == 0 ? 0 : left - count;
    }
    free(room);
    return error;
}

uint64_t redriver_iterate(struct redriver *redriver, bool may)
{
    uint64_t sent = 0;
    if (redriver->queue == NULL || redriver->every_ms == 0 ||
        now_ms(redriver) < redriver->next_ms) {
        return 0;
    }
    int error =
        may ? redrive(redriver->queue, PARKED_MESSAGES_SENT_MAX, redriver->stopping, &sent) : 0;
    if (error == 0) {
        redriver->next_ms = now_ms(redriver) + redriver->every_ms;
    }
    if (sent > 0) {
        log_event(LOG_INFO, "queue.redriven", LOG_STR("queue", "orders"), LOG_U64("messages", sent),
                  LOG_STR("what", "what had been put aside is tried again by itself"));
    }
    return sent;
}
