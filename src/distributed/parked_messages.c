/* See parked_messages.h. */
#include "distributed/parked_messages.h"

#include <stdlib.h>

#include "base/err.h"
#include "distributed/redriver.h"
#include "obs/log.h"

static int look(struct queue *queue, struct parked_messages_call *call)
{
    size_t limit =
        call->limit < PARKED_MESSAGES_SHOWN_MAX ? call->limit : PARKED_MESSAGES_SHOWN_MAX;
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

static int send_round(struct parked_messages *parked_messages, struct queue *queue,
                      struct parked_messages_call *call)
{
    int error = redrive(queue, call->limit == 0 ? PARKED_MESSAGES_SENT_MAX : call->limit,
                        &parked_messages->stopping, &call->sent);
    if (call->sent > 0) {
        log_event(LOG_INFO, "queue.redriven",
                  LOG_STR("queue", call->which == PARKED_MESSAGES_PAYMENTS ? "payments" : "orders"),
                  LOG_U64("messages", call->sent));
    }
    return error != 0 ? error : queue_depths(queue, &call->depths);
}

static void answer(struct parked_messages *parked_messages, struct parked_messages_call *call)
{
    struct queue *queue = parked_messages->queues[call->which];
    uint32_t loop = call->loop;
    call->error = queue == NULL                             ? ERR_NOTFOUND
                  : atomic_load(&parked_messages->stopping) ? ERR_CLOSED
                  : call->redrive ? send_round(parked_messages, queue, call)
                                  : look(queue, call);
    mailbox_post(&parked_messages->outboxes[loop], &call->post);
    waker_wake(&parked_messages->wakers[loop]);
}

void parked_messages_iterate(struct parked_messages *parked_messages)
{
    struct post *post = mailbox_take(&parked_messages->inbox);
    while (post != NULL) {
        struct post *next = post->next;
        answer(parked_messages, (struct parked_messages_call *)post);
        post = next;
    }
}

void parked_messages_wait(struct parked_messages *parked_messages, int64_t wait_ms)
{
    mailbox_wait(&parked_messages->inbox, wait_ms * 1000);
}

void parked_messages_stop(struct parked_messages *parked_messages)
{
    atomic_store(&parked_messages->stopping, true);
    mailbox_ring(&parked_messages->inbox);
}

void parked_messages_post(struct parked_messages *parked_messages,
                          struct parked_messages_call *call)
{
    mailbox_post(&parked_messages->inbox, &call->post);
}

struct parked_messages_call *parked_messages_collect(struct parked_messages *parked_messages,
                                                     uint32_t loop)
{
    return (struct parked_messages_call *)mailbox_take(&parked_messages->outboxes[loop]);
}

void parked_messages_call_free(struct parked_messages_call *call)
{
    free(call->messages);
    free(call);
}

/* ---- life ---- */

int parked_messages_init(struct parked_messages *parked_messages)
{
    parked_messages->outboxes = calloc(parked_messages->loops, sizeof(*parked_messages->outboxes));
    if (parked_messages->outboxes == NULL) {
        return ERR_NOMEM;
    }
    mailbox_init(&parked_messages->inbox);
    for (uint32_t i = 0; i < parked_messages->loops; i++) {
        mailbox_init(&parked_messages->outboxes[i]);
    }
    return 0;
}

static void drop(struct mailbox *mailbox)
{
    struct post *post = mailbox_take(mailbox);
    while (post != NULL) {
        struct post *next = post->next;
        parked_messages_call_free((struct parked_messages_call *)post);
        post = next;
    }
    mailbox_done(mailbox);
}

void parked_messages_done(struct parked_messages *parked_messages)
{
    if (parked_messages->outboxes == NULL) {
        return;
    }
    drop(&parked_messages->inbox);
    for (uint32_t i = 0; i < parked_messages->loops; i++) {
        drop(&parked_messages->outboxes[i]);
    }
    free(parked_messages->outboxes);
    parked_messages->outboxes = NULL;
}
