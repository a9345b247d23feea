/*
 * A ledger in memory, for tests of whoever uses one, and for the simulator: it keeps the contract of
 * port/ledger.h, and can be told to fail, to commit and lose the answer, or to let something happen
 * while a batch is under way. Every op is idempotent. A lock around each call lets a writer and a
 * reader share it.
 *
 * With segments it is a ledger of a gate that has several: any number of ports write to it, each with
 * answers of its own, and it keeps leases. The contract suite runs on it then (test/conformance).
 *
 * Left out: QUERY_ORDERS, except for all orders of one item (ERR_INVALID).
 */
#ifndef SLUICE_TEST_MEMORY_LEDGER_H
#define SLUICE_TEST_MEMORY_LEDGER_H

#include <pthread.h>

#include "port/lease.h"
#include "port/ledger.h"
#include "port/segments.h"

struct memory_key; /* a payment_id or a request_id, and what was asked under it */
struct memory_share;
struct memory_cursor;
struct memory_lease;
struct ledger_transfer;
struct memory_ledger;

/* A way to it. */
struct memory_port {
    struct ledger ledger;
    struct memory_ledger *to;
    struct ledger_event *batch_events; /* handed out with the last batch */
};

struct memory_ledger {
    union {
        struct ledger ledger;
        struct memory_port port; /* its own; more by memory_port_init */
    };
    pthread_mutex_t lock;
    struct sale_row **sales;
    size_t sales_count;
    struct order_row *orders;
    size_t orders_count;
    struct ledger_event *events; /* number n at index n - 1 */
    size_t events_count;
    struct memory_key *keys;
    size_t keys_count;
    struct memory_cursor *cursors;
    size_t cursors_count;
    struct sale_change_row *changes; /* one for each sale, deleted ones too */
    size_t changes_count;
    uint64_t last_change;
    struct block_row *blocks; /* ended ones too, for ever */
    size_t blocks_count;
    uint64_t sales_read; /* rows of sales that queries returned */
    uint64_t booked_lsn;
    uint64_t next_sale, next_item;

    uint32_t segments;      /* 0: one gate */
    struct regions regions; /* that sales are warmed with */
    uint64_t epochs[SEGMENTS_MAX];
    struct memory_share *shares;
    size_t shares_count;
    struct ledger_transfer *transfers;
    size_t transfers_count;
    struct memory_lease *leases;
    size_t leases_count;
    /* The database's clock, in milliseconds; only with segments. NULL: the batches' own times. */
    int64_t (*clock)(void *context);
    void *clock_context;

    /* what is to go wrong */
    int fail_next; /* the next batch is not committed and says this */
    int lose_next; /* the next batch is committed and says this all the same */
    int fail_read; /* all reads say this until it is 0 again */
    /* What other threads do between the call of a write and its commit. NULL: nothing. */
    void (*meanwhile)(void *context);
    void *meanwhile_context;

    /* what was seen, committed or not */
    uint64_t batches;                /* asked for */
    uint64_t commits;                /* committed */
    uint64_t ops[LEDGER_KIND_COUNT]; /* in committed batches */
    uint64_t repeated;               /* of them, those that had been done before */
    size_t last_count;               /* ops of the last batch */
};

void memory_ledger_init(struct memory_ledger *ret_ledger);
void memory_ledger_init_shared(struct memory_ledger *ret_ledger, uint32_t segments);
void memory_ledger_done(struct memory_ledger *ledger);
/* All that is committed, in a ledger of its own where nothing goes wrong. */
void memory_ledger_copy(const struct memory_ledger *from, struct memory_ledger *ret_to);

/* One more way to the ledger, which outlives it. */
void memory_port_init(struct memory_port *ret_port, struct memory_ledger *ledger);
void memory_port_done(struct memory_port *port);

/* One holder's way to the leases the ledger keeps; needs its clock. */
struct memory_holder {
    struct lease_port port;
    struct memory_ledger *ledger;
    char name[64];
};
void memory_holder_init(struct memory_holder *ret_holder, struct memory_ledger *ledger,
                        const char *name);

/* What it holds; NULL: no such order. For tests while nobody writes. */
const struct order_row *memory_ledger_order(const struct memory_ledger *ledger, struct order_id id);
uint64_t memory_ledger_orders(const struct memory_ledger *ledger, enum order_state state);
uint64_t memory_ledger_events(const struct memory_ledger *ledger, enum ledger_event_kind kind);
const struct item_row *memory_ledger_item(const struct memory_ledger *ledger, uint64_t item);
/* Something happened in the ledger that nobody asked for here; numbered as the next event. */
void memory_ledger_event(struct memory_ledger *ledger, struct ledger_event event);

#endif
