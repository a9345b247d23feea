/* See clerk.h. */
#include "flow/clerk.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/err.h"

struct clerk {
    struct engine *engine;
    struct ledger *reader;
    uint32_t loops;
    struct mailbox inbox;
    struct mailbox *outboxes;
    _Atomic bool stopping;
};

int clerk_new(struct engine *engine, struct ledger *reader, uint32_t loops,
              struct clerk **ret_clerk)
{
    struct clerk *clerk = calloc(1, sizeof(*clerk));
    struct mailbox *outboxes = calloc(loops, sizeof(*outboxes));
    if (clerk == NULL || outboxes == NULL) {
        free(clerk);
        free(outboxes);
        return ERR_NOMEM;
    }
    clerk->engine = engine;
    clerk->reader = reader;
    clerk->loops = loops;
    clerk->outboxes = outboxes;
    mailbox_init(&clerk->inbox);
    for (uint32_t i = 0; i < loops; i++) {
        mailbox_init(&outboxes[i]);
    }
    *ret_clerk = clerk;
    return 0;
}

void clerk_free(struct clerk *clerk)
{
    if (clerk == NULL) {
        return;
    }
    mailbox_done(&clerk->inbox);
    for (uint32_t i = 0; i < clerk->loops; i++) {
        mailbox_done(&clerk->outboxes[i]);
    }
    free(clerk->outboxes);
    free(clerk);
}

static void answer(struct clerk *clerk, struct clerk_query *query)
{
    if (ledger_read(clerk->reader, &query->query) == LEDGER_PENDING) {
        while (clerk->reader->ops->collect_query(clerk->reader) != &query->query) {
        }
    }
    uint32_t loop = query->loop;
    mailbox_post(&clerk->outboxes[loop], &query->post);
    waker_wake(engine_waker(clerk->engine, loop));
}

void clerk_turn(struct clerk *clerk)
{
    struct post *post = mailbox_take(&clerk->inbox);
    while (post != NULL) {
        struct post *next = post->next;
        answer(clerk, (struct clerk_query *)post);
        post = next;
    }
}

void clerk_run(struct clerk *clerk)
{
    while (!atomic_load(&clerk->stopping)) {
        clerk_turn(clerk);
        mailbox_wait(&clerk->inbox, 1000000);
    }
}

void clerk_stop(struct clerk *clerk)
{
    atomic_store(&clerk->stopping, true);
    mailbox_ring(&clerk->inbox);
}

void clerk_post(struct clerk *clerk, struct clerk_query *query)
{
    mailbox_post(&clerk->inbox, &query->post);
}

struct clerk_query *clerk_collect(struct clerk *clerk, uint32_t loop)
{
    return (struct clerk_query *)mailbox_take(&clerk->outboxes[loop]);
}
