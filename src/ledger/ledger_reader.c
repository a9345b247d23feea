/* See ledger_reader.h. */
#include "ledger/ledger_reader.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/err.h"

struct ledger_reader {
    struct waker *wakers;
    struct ledger *ledger;
    uint32_t loops;
    struct mailbox inbox;
    struct mailbox *outboxes;
    _Atomic bool stopping;
};

int ledger_reader_new(struct waker *wakers, struct ledger *ledger, uint32_t loops,
                      struct ledger_reader **ret_reader)
{
    struct ledger_reader *reader = calloc(1, sizeof(*reader));
    struct mailbox *outboxes = calloc(loops, sizeof(*outboxes));
    if (reader == NULL || outboxes == NULL) {
        free(reader);
        free(outboxes);
        return ERR_NOMEM;
    }
    reader->wakers = wakers;
    reader->ledger = ledger;
    reader->loops = loops;
    reader->outboxes = outboxes;
    mailbox_init(&reader->inbox);
    for (uint32_t i = 0; i < loops; i++) {
        mailbox_init(&outboxes[i]);
    }
    *ret_reader = reader;
    return 0;
}

void ledger_reader_free(struct ledger_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    mailbox_done(&reader->inbox);
    for (uint32_t i = 0; i < reader->loops; i++) {
        mailbox_done(&reader->outboxes[i]);
    }
    free(reader->outboxes);
    free(reader);
}

static void answer(struct ledger_reader *reader, struct ledger_reader_query *query)
{
    (void)ledger_read(reader->ledger, &query->query); /* the error is the asker's */
    uint32_t loop = query->loop;
    mailbox_post(&reader->outboxes[loop], &query->post);
    waker_wake(&reader->wakers[loop]);
}

void ledger_reader_iterate(struct ledger_reader *reader)
{
    struct post *post = mailbox_take(&reader->inbox);
    while (post != NULL) {
        struct post *next = post->next;
        answer(reader, (struct ledger_reader_query *)post);
        post = next;
    }
}

void ledger_reader_run(struct ledger_reader *reader)
{
    while (!atomic_load(&reader->stopping)) {
        ledger_reader_iterate(reader);
        mailbox_wait(&reader->inbox, 1000000);
    }
}

void ledger_reader_stop(struct ledger_reader *reader)
{
    atomic_store(&reader->stopping, true);
    mailbox_ring(&reader->inbox);
}

void ledger_reader_post(struct ledger_reader *reader, struct ledger_reader_query *query)
{
    mailbox_post(&reader->inbox, &query->post);
}

struct ledger_reader_query *ledger_reader_collect(struct ledger_reader *reader, uint32_t loop)
{
    return (struct ledger_reader_query *)mailbox_take(&reader->outboxes[loop]);
}
