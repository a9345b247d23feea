/*
 * The picture of one segment as the ledger has it, exact as of one event: sales, shares of items,
 * every order, and what follows from the orders for items and buyers.
 *
 * The ledger is read in pieces while others write to it. What makes the picture exact:
 *
 *   Orders. All pages are read after event e0 (the ledger's last before the first page), each row as
 *   it was at some moment before e2 (the last event when all reading was over). An order moves once,
 *   from LOCKED to a final state, with one event; so a row that is LOCKED takes the move of an event
 *   in (e0, e2], and a row that is final has it already. A row that was made behind the page that
 *   should have shown it has an event in (e0, e2], too, and is read then.
 *   Sales and shares. RESTOCK, a transfer's arrival, a load or a sale's move are not known from the
 *   row they changed, and are never applied on top of it: if any of the segment lies behind the
 *   event e1 that was last when these few rows began to be read, they are read again. Buyers do not
 *   cause such events, so this ends.
 *   Nothing else changes the segment while it is rebuilt: its epoch was raised before, so bookings
 *   and departing transfers of the old one are refused, and nothing of the new one exists yet. For
 *   whoever reads without raising the epoch, a departing transfer is the one change without an event
 *   of this segment.
 *
 * So the gate that is filled from it has applied event e2 and nothing behind it, and goes on with
 * the events behind e2.
 */
#ifndef SLUICE_FLOW_SEGMENT_SNAPSHOT_H
#define SLUICE_FLOW_SEGMENT_SNAPSHOT_H

#include "flow/blocking.h"

struct segment_snapshot_sale {
    uint64_t id;
    enum sale_state state;
    bool bar_unpaid;
    int64_t starts_at_ms;
    int64_t ends_at_ms;
};

struct segment_snapshot_item {
    uint64_t item;
    uint64_t sale;
    uint64_t amount; /* the share */
    uint64_t locked; /* from the orders */
    uint64_t sold;
    uint64_t noted_locked; /* as the ledger's own counters say ... */
    uint64_t noted_sold;
    uint32_t limit;
    bool unsure; /* ... which may be those of another moment: an order of it moved meanwhile */
};

struct segment_snapshot_buyer {
    uint64_t item;
    uint64_t user;
    uint32_t held;
    uint32_t failed_attempts;
    bool barred;
};

struct segment_snapshot_order {
    struct order_id id;
    uint64_t user;
    uint64_t item;
    int64_t created_at_ms;
    int64_t pay_by_ms;
    uint32_t qty;
    uint8_t state;
    uint8_t reason;
};

struct segment_snapshot {
    uint32_t segment;
    uint64_t event;
    int64_t highest_ms;
    struct segment_snapshot_sale *sales; /* by id; neither drafts nor forgotten ones */
    struct segment_snapshot_item *items; /* by id */
    struct segment_snapshot_buyer *buyers;
    struct segment_snapshot_order *orders; /* by item and id */
    size_t sales_count, items_count, buyers_count, orders_count;
    size_t orders_room;
};

/* Asked between two pages: a large segment takes longer to read than a lease lasts. */
struct image_cluster_status {
    bool (*goes_on)(void *context); /* false: the reading ends, ERR_CLOSED */
    void *context;
};

/* ERR_AGAIN: sales and shares did not hold still long enough. cluster status: NULL for none. */
int segment_snapshot_read(const struct blocking *blocking, struct ledger *ledger, uint32_t segment,
                          const struct image_cluster_status *cluster_status,
                          struct segment_snapshot *ret_snapshot);
void segment_snapshot_done(struct segment_snapshot *snapshot);
/* NULL: none. */
const struct segment_snapshot_item *segment_snapshot_item(const struct segment_snapshot *snapshot,
                                                          uint64_t item);
const struct segment_snapshot_order *segment_snapshot_order(const struct segment_snapshot *snapshot,
                                                            struct order_id id);

#endif
