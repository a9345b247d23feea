/* See redriver.h. */
#include "flow/redriver.h"

#include <stdlib.h>

#include "base/err.h"
#include "obs/log.h"

#define AT_ONCE 64
/* Of one round; the rest waits for the next. */
#define ROUND_MAX 100000

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

/* A piece of what lies there. 0, and a count of 0: that was all. */
static int send_piece(struct redriver *redriver, size_t *ret_count)
{
    struct queue_message *messages = calloc(AT_ONCE, sizeof(*messages));
    int error = messages == NULL
                    ? ERR_NOMEM
                    : queue_parked(redriver->queue, messages, AT_ONCE, true, ret_count);
    free(messages);
    return error;
}

uint64_t redriver_turn(struct redriver *redriver, bool may)
{
    struct queue_depths depths = {0};
    uint64_t sent = 0;
    if (redriver->queue == NULL || redriver->every_ms == 0 ||
        now_ms(redriver) < redriver->next_ms) {
        return 0;
    }
    if (!may) {
        redriver->next_ms = now_ms(redriver) + redriver->every_ms;
        return 0;
    }
    /* At most as many as lie there now, so that what comes back at once is not sent for ever. The
     * broker counts late: one piece is tried where it counts none. */
    int error = queue_depths(redriver->queue, &depths);
    uint64_t most = depths.parked < ROUND_MAX ? depths.parked : ROUND_MAX;
    size_t count = 1;
    for (uint64_t tried = 0; error == 0 && count > 0 && (tried == 0 || tried < most);
         tried += count) {
        count = 0;
        error = send_piece(redriver, &count);
        sent += count;
    }
    if (error == 0) {
        redriver->next_ms = now_ms(redriver) + redriver->every_ms;
    }
    if (sent > 0) {
        log_event(LOG_INFO, "queue.redriven", LOG_STR("queue", "orders"), LOG_U64("messages", sent),
                  LOG_STR("what", "what had been put aside is tried again by itself"));
    }
    return sent;
}
