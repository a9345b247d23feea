/*
 * The ledger reader answers queries about the ledger. It is one thread with its own read-only
 * connection, so lists and reports never wait for the writer and never block a loop.
 */
#ifndef SLUICE_LEDGER_LEDGER_READER_H
#define SLUICE_LEDGER_LEDGER_READER_H

#include "base/mailbox.h"
#include "base/waker.h"
#include "port/ledger.h"

/* One query of a loop. The ledger reader owns it between post and collect. */
struct ledger_reader_query {
    struct post post; /* must be first */
    struct ledger_query query;
    uint32_t loop;
    void *owner;
};

struct ledger_reader;

int ledger_reader_new(struct waker *wakers, struct ledger *ledger, uint32_t loops,
                      struct ledger_reader **ret_reader);
void ledger_reader_free(struct ledger_reader *reader);
/* Answers every query that was posted. */
void ledger_reader_iterate(struct ledger_reader *reader);
/* The thread's main function: iterates until ledger_reader_stop. */
void ledger_reader_run(struct ledger_reader *reader);
void ledger_reader_stop(struct ledger_reader *reader);
void ledger_reader_post(struct ledger_reader *reader, struct ledger_reader_query *query);
struct ledger_reader_query *ledger_reader_collect(struct ledger_reader *reader, uint32_t loop);

#endif
