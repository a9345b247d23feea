/* See parking.h. */
#include "flow/parking.h"

#include <stdlib.h>

#include "base/err.h"
#include "flow/redriver.h"
#include "obs/log.h"

static int look(struct queue *queue, struct parking_call *call)
{
    size_t limit = call->limit < PARKING_SHOWN_MAX ? call->limit : PARKING_SHOWN_MAX;
    call->messages = calloc(limit + 1, sizeof(*call->messages));
    int error = call->messages == NULL ? ERR_NOMEM : queue_depths(queue, &call->depths);
    if (error == 0 && limit > 0) { /* the broker counts late, so also where it says that none is */
        error = queue_parked(queue, call->messages, limit, false, &call->count);
    }
    if (error == 0 && call->count > call->depths.parked) {
        call->depths.parked = call->count;
    }
    return error;
}

static int send_round(struct parking *parking, struct queue *queue, struct parking_call *call)
{
    int error = redrive(queue, call->limit == 0 ? PARKING_SENT_MAX : call->limit,
                        &parking->stopping, &call->sent);
    if (call->sent > 0) {
        log_event(LOG_INFO, "queue.redriven",
                  LOG_STR("queue", call->which == PARKING_PAYMENTS ? "payments" : "orders"),
                  LOG_U64("messages", call->sent));
    }
    return error != 0 ? error : queue_depths(queue, &call->depths);
}

static void answer(struct parking *parking, struct parking_call *call)
{
    struct queue *queue = parking->queues[call->which];
    uint32_t loop = call->loop;
    call->error = queue == NULL                     ? ERR_NOTFOUND
                  : atomic_load(&parking->stopping) ? ERR_CLOSED
                  : call->redrive                   ? send_round(parking, queue, call)
                                                    : look(queue, call);
    mailbox_post(&parking->outboxes[loop], &call->post);
    waker_wake(engine_waker(parking->engine, loop));
}

void parking_turn(struct parking *parking)
{
    struct post *post = mailbox_take(&parking->inbox);
    while (post != NULL) {
        struct post *next = post->next;
        answer(parking, (struct parking_call *)post);
        post = next;
    }
}

void parking_wait(struct parking *parking, int64_t wait_ms)
{
    mailbox_wait(&parking->inbox, wait_ms * 1000);
}

void parking_stop(struct parking *parking)
{
    atomic_store(&parking->stopping, true);
    mailbox_ring(&parking->inbox);
}

void parking_post(struct parking *parking, struct parking_call *call)
{
    mailbox_post(&parking->inbox, &call->post);
}

struct parking_call *parking_collect(struct parking *parking, uint32_t loop)
{
    return (struct parking_call *)mailbox_take(&parking->outboxes[loop]);
}

void parking_call_free(struct parking_call *call)
{
    free(call->messages);
    free(call);
}

/* ---- life ---- */

int parking_init(struct parking *parking)
{
    parking->outboxes = calloc(parking->loops, sizeof(*parking->outboxes));
    if (parking->outboxes == NULL) {
        return ERR_NOMEM;
    }
    mailbox_init(&parking->inbox);
    for (uint32_t i = 0; i < parking->loops; i++) {
        mailbox_init(&parking->outboxes[i]);
    }
    return 0;
}

static void drop(struct mailbox *mailbox)
{
    struct post *post = mailbox_take(mailbox);
    while (post != NULL) {
        struct post *next = post->next;
        parking_call_free((struct parking_call *)post);
        post = next;
    }
    mailbox_done(mailbox);
}

void parking_done(struct parking *parking)
{
    if (parking->outboxes == NULL) {
        return;
    }
    drop(&parking->inbox);
    for (uint32_t i = 0; i < parking->loops; i++) {
        drop(&parking->outboxes[i]);
    }
    free(parking->outboxes);
    parking->outboxes = NULL;
}
