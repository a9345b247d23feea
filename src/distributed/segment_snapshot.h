/*
 * A snapshot of one segment as the ledger has it, exact as of one event: sales, shares of items,
 * every order, and the numbers of items and buyers that follow from the orders.
 *
 * The ledger is read in pages while others write to it. The snapshot is still exact, for these
 * reasons:
 * - Orders. All pages are read after event e0 (the ledger's last event before the first page). Each
 *   row is read in its state at some moment before e2 (the last event when all reading was over).
 *   An order moves once, from LOCKED to a final state, with one event. So a LOCKED row takes the
 *   move of an event in (e0, e2], and a final row has it already. A row that was inserted behind
 *   the page that should have shown it has an event in (e0, e2], too, and is read then.
 * - Sales and shares. A RESTOCK, a transfer's arrival, a load or a sale's move cannot be recognized
 *   in the row it changed, so it is never applied on top of a row. Let e1 be the last event before
 *   these few rows were read. If the segment has such an event after e1, they are all read again.
 *   Buyers do not cause such events, so this ends.
 * - Nothing else changes the segment during a rebuild. Its epoch was raised before, so bookings and
 *   departing transfers of the old epoch are refused, and nothing of the new epoch exists yet. For
 *   a reader that does not raise the epoch, a departing transfer is the one change without an event
 *   of this segment.
 * So a gate that is filled from the snapshot has applied event e2 and nothing after it, and
 * continues with the events after e2.
 */
#ifndef SLUICE_DISTRIBUTED_SEGMENT_SNAPSHOT_H
#define SLUICE_DISTRIBUTED_SEGMENT_SNAPSHOT_H

#include "port/ledger.h"

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
    uint64_t amount; /* the segment's share */
    uint64_t locked; /* computed from the orders */
    uint64_t sold;
    uint64_t noted_locked; /* the ledger's own counters */
    uint64_t noted_sold;
    uint32_t limit;
    uint32_t buyers; /* computed from the orders */
    uint32_t live;   /* orders that are not final */
    bool unsure;     /* an order moved meanwhile: the counters may be of another moment */
};

struct segment_snapshot_buyer {
    uint64_t item;
    uint64_t user;
    uint32_t held;
    uint32_t failed_attempts;
    uint32_t live; /* orders that are not final */
    bool barred;
    int64_t cooling_until_ms; /* 0 if barred */
};

struct segment_snapshot_order {
    struct order_id id;
    uint64_t user;
    uint64_t item;
    int64_t created_at_ms;
    int64_t pay_by_ms;
    int64_t cooling_until_ms;
    uint32_t qty;
    uint8_t state;
    uint8_t reason;
};

struct segment_snapshot {
    uint32_t segment;
    uint64_t event;
    int64_t highest_ms;
    struct segment_snapshot_sale *sales; /* by id; without drafts and forgotten sales */
    struct segment_snapshot_item *items; /* by id */
    struct segment_snapshot_buyer *buyers;
    struct segment_snapshot_order *orders; /* by item and id */
    size_t sales_count, items_count, buyers_count, orders_count;
    size_t orders_room;
};

/* Called between two pages, because reading a large segment takes longer than a lease lasts. */
struct segment_snapshot_heartbeat {
    bool (*goes_on)(void *context); /* false: the reading stops with ERR_CLOSED */
    void *context;
};

/* ERR_AGAIN: sales and shares kept changing. heartbeat: NULL for none. */
int segment_snapshot_read(struct ledger *ledger, uint32_t segment,
                          const struct segment_snapshot_heartbeat *heartbeat,
                          struct segment_snapshot *ret_snapshot);
void segment_snapshot_done(struct segment_snapshot *snapshot);
/* NULL: not found. */
const struct segment_snapshot_item *segment_snapshot_item(const struct segment_snapshot *snapshot,
                                                          uint64_t item);
const struct segment_snapshot_order *segment_snapshot_order(const struct segment_snapshot *snapshot,
                                                            struct order_id id);

#endif
