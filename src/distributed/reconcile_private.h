/* Shared by the files of reconciliation: reconcile.c (passes, what counts, repairs),
 * reconcile_ledger.c and reconcile_gate.c (the comparisons). */
#ifndef SLUICE_DISTRIBUTED_RECONCILE_PRIVATE_H
#define SLUICE_DISTRIBUTED_RECONCILE_PRIVATE_H

#include "distributed/reconcile.h"
#include "distributed/segment_snapshot.h"

#define RECONCILE_PAGE 256

#define UNSURE_ALL (UINT32_MAX - 1) /* all segments, and no segment */

/* Comparisons that were not made: matching differences of these kinds
 * stay as earlier passes left them. */
struct unsure {
    uint64_t kinds; /* a bit for each kind */
    uint32_t segment;
    uint64_t item; /* 0: all */
};

/* An item in the ledger: its stock, and the sums over its shares. */
struct stock {
    uint64_t item;
    uint64_t total, available, locked, sold;
    uint64_t shares, shares_locked, shares_sold;
    bool moved; /* an event changed it while it was read */
};

struct share {
    uint64_t item;
    uint32_t segment;
};

struct difference_list {
    struct difference *at;
    size_t count, room;
};

struct reconcile {
    struct reconcile_ports ports;
    struct reconcile_options options;
    uint64_t passes;
    /* this pass */
    int error; /* the first error; nothing is compared after it */
    uint64_t epochs[SEGMENTS_MAX];
    int64_t away_ms; /* how much longer it may wait for lost connections to the gate */
    bool flowing;    /* the queue holds messages, or its depth is unknown */
    /* Of listing the parked messages. Done once in a pass, because a broker returns them late. */
    int parked_error;
    struct queue_message *parked; /* RECONCILE_PAGE entries, allocated when first needed */
    size_t parked_count;
    struct stock *stocks; /* sorted by item */
    size_t stocks_count, stocks_room;
    struct share *shares; /* sorted by segment and item */
    size_t shares_count, shares_room;
    struct difference_list found;
    struct unsure *unsures;
    size_t unsures_count, unsures_room;
    struct reconcile_result result;
    /* kept from pass to pass */
    struct difference_list pending;
    struct difference_list counting;
    union {
        struct ledger_event events[RECONCILE_PAGE];
        struct buyer_row buyers[RECONCILE_PAGE];
        struct allotment_row allotments[RECONCILE_PAGE];
        struct transfer_row transfers[RECONCILE_PAGE];
        struct sale_row *sales[RECONCILE_PAGE];
        struct decision decisions[RECONCILE_PAGE];
    } page;
    struct gate_request requests[SEGMENTS_MAX];
};

#define KIND(kind) (1ULL << (kind))

/* Makes room for one more entry. NULL: no memory, and the pass has failed. */
void *reconcile_grow(struct reconcile *reconcile, void **array, size_t count, size_t *room,
                     size_t size);
void reconcile_found(struct reconcile *reconcile, struct difference difference);
void reconcile_unsure(struct reconcile *reconcile, uint64_t kinds, uint32_t segment, uint64_t item);
/* The same, because the gate or the queue did not answer. */
void reconcile_unanswered(struct reconcile *reconcile, uint64_t kinds, uint32_t segment,
                          uint64_t item);
/* True: the pass has failed, or it fails now (ERR_CLOSED) because nobody wants its result any
 * more. */
bool reconcile_ends(struct reconcile *reconcile);
/* False: the pass has failed. */
bool reconcile_read(struct reconcile *reconcile, struct ledger_query *query);
bool reconcile_last_event(struct reconcile *reconcile, uint64_t *ret_event);
struct stock *reconcile_stock(const struct reconcile *reconcile, uint64_t item);

/* Asks the gate the first `count` of reconcile->requests. */
void reconcile_ask(struct reconcile *reconcile, size_t count);

void reconcile_ledger(struct reconcile *reconcile);
/* Compares the segment's shares and buyers with its orders. */
void reconcile_orders(struct reconcile *reconcile, const struct segment_snapshot *snapshot);
void reconcile_segment(struct reconcile *reconcile, uint32_t segment);

#endif
