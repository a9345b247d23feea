/*
 * The gate decides who gets a unit. It is one step function over fixed memory, (state, command) ->
 * (state, verdict), without clock, I/O, allocation or randomness. So a journal of commands replays
 * to the same state, and a simulator, a second gate or a Redis script can be compared with it.
 *
 * State: available, locked and sold of each item; for each buyer of an item who ever got an order,
 * the units held, the number of orders that ended unsold, and whether or until when he gets no new
 * one; each order until its sale is forgotten, or until it is final and was evicted. Refused buyers
 * leave no trace.
 *
 * Evicted: when the pool of orders is nearly full, its owner removes orders that are final
 * (GATE_EVICT). The ledger answers for them. Counters and buyers' records stay, so the gate still
 * knows whether an id may be that of an evicted order (gate_maybe_evicted), and never decides such
 * an id before the ledger has said that it has no such order.
 *
 * Commands come from three sources. GATE_RESERVE comes from a buyer and is decided here first.
 * GATE_EVICT comes from the gate's owner. All other commands follow from what the ledger has committed. They carry the ledger's event number
 * and are applied in that order; applying one twice changes nothing (VERDICT_ALREADY_APPLIED).
 *
 * Not thread-safe: the owner holds a lock around each call.
 */
#ifndef SLUICE_CORE_GATE_H
#define SLUICE_CORE_GATE_H

#include <stddef.h>

#include "base/index_pool.h"
#include "core/types.h"

/*
 * Kind, its name, and the fields its journal record carries, in order. Every record also carries
 * the kind, now_ms and event.
 *   W64 name: 64-bit field, W32 name: 32-bit field, ID: the order id
 */
#define GATE_COMMANDS(X)                                                                           \
    X(GATE_RESERVE, "reserve", ID W64(user) W64(item) W32(qty) W64(ticket_expires_ms))             \
    X(GATE_CONFIRM, "confirm", ID W64(item) W64(time_ms))                                          \
    X(GATE_FAIL_ORDER, "refuse", ID W64(item) W32(reason))                                         \
    X(GATE_PAY, "pay", ID W64(item))                                                               \
    X(GATE_CANCEL, "cancel", ID W64(item))                                                         \
    X(GATE_EXPIRE, "expire", ID W64(item))                                                         \
    X(GATE_RESTOCK, "restock", W64(item) W64(amount))                                              \
    X(GATE_LOAD_SALE, "load_sale", W64(sale) W64(starts_at_ms) W64(ends_at_ms) W32(bar_unpaid))    \
    X(GATE_LOAD_ITEM, "load_item", W64(sale) W64(item) W64(amount) W32(limit))                     \
    X(GATE_OPEN, "open", W64(sale) W64(starts_at_ms))                                              \
    X(GATE_PAUSE, "pause", W64(sale))                                                              \
    X(GATE_CLOSE, "close", W64(sale))                                                              \
    X(GATE_RETIME, "retime", W64(sale) W64(ends_at_ms))                                            \
    X(GATE_FORGET, "forget", W64(sale) W32(qty))                                                   \
    X(GATE_TRANSFER_OUT, "transfer_out", W64(item) W64(amount))                                    \
    X(GATE_TRANSFER_IN, "transfer_in", W64(item) W64(amount))                                      \
    X(GATE_SKIP, "skip", )                                                                         \
    X(GATE_CANCEL_LATE, "cancel_late", ID W64(item))                                               \
    X(GATE_EVICT, "evict", ID)                                                                     \
    X(GATE_SET_TIME, "set_time", )                                                                 \
    X(GATE_CANCEL_COOLING, "cancel_cooling", ID W64(item) W64(time_ms))                            \
    X(GATE_EXPIRE_COOLING, "expire_cooling", ID W64(item) W64(time_ms))

/* Does what W64, W32 and ID mean at this place for every field of the kind; another kind has none. */
#define GATE_FIELDS(of)                                                                            \
    switch (of) {                                                                                  \
        GATE_COMMANDS(GATE_FIELDS_CASE)                                                            \
    case GATE_KIND_NONE:                                                                           \
    case GATE_KIND_COUNT:                                                                          \
        break;                                                                                     \
    }
#define GATE_FIELDS_CASE(name, text, fields)                                                       \
    case name:                                                                                     \
        fields break;

enum gate_kind {
    GATE_KIND_NONE,
#define X(name, text, fields) name,
    GATE_COMMANDS(X)
#undef X
        GATE_KIND_COUNT
};
const char *gate_kind_text(enum gate_kind kind);

/*
 * CANCEL_LATE: a cancellation that counts as an unpaid order and bars its buyer; the ledger has
 * decided that. CANCEL_COOLING, EXPIRE_COOLING: the buyer gets no new order of the item before
 * time_ms; the ledger has decided that, too. SKIP: a ledger event that the gate could not apply (it
 * was logged). Only the cursor moves. SET_TIME: an operator has accepted a clock that is behind. The
 * gate's highest time becomes now_ms, and nothing else changes. It follows from no event.
 */

/* One command. Only the fields listed for its kind are used; the others are 0. */
struct gate_command {
    enum gate_kind kind;
    int64_t now_ms; /* inside time when it was decided */
    uint64_t event; /* the ledger's event number; 0 for RESERVE and EVICT */
    struct order_id id;
    uint64_t user;
    uint64_t item;
    uint64_t sale;
    uint32_t qty; /* units; FORGET: the most orders and buyers to free */
    uint64_t ticket_expires_ms;
    uint64_t time_ms; /* CONFIRM: pay_by; *_COOLING: the end of the cooling time */
    uint32_t
        reason; /* FAIL_ORDER: enum refusal; NO_STOCK writes the units off, others return them */
    uint64_t amount; /* units of RESTOCK, LOAD_ITEM, TRANSFER_* */
    uint64_t starts_at_ms;
    uint64_t ends_at_ms;
    uint32_t bar_unpaid;
    uint32_t limit;
    /* Not in the record. It was decided before, and its record is replayed: what only a decision
     * asks is not asked again. */
    bool accepted;
    /* Not in the record. RESERVE: the ledger had no order with this id after this LSN was the
     * journal's last; 0: it was not asked. */
    uint64_t absent_lsn;
};

/* What can be full, and its name for operators. With OVERLOADED, the effects say which it was. */
#define GATE_BOUNDS(X)                                                                             \
    X(GATE_BOUND_NONE, "none")                                                                     \
    X(GATE_BOUND_ORDERS, "gate.orders")                                                            \
    X(GATE_BOUND_BUYERS, "gate.buyers")                                                            \
    X(GATE_BOUND_ITEMS, "gate.items")                                                              \
    X(GATE_BOUND_SALES, "gate.sales")                                                              \
    X(GATE_BOUND_BUYER_SHARE, "gate.buyer_share")                                                  \
    X(GATE_BOUND_ITEM_SHARE, "gate.item_share")                                                    \
    X(GATE_BOUND_SALE_SHARE, "gate.sale_share")                                                    \
    X(GATE_BOUND_SALE_BUYERS, "gate.sale_share of gate.buyers")                                    \
    X(GATE_BOUND_UNITS, "units of a buyer")                                                        \
    X(GATE_BOUND_JOURNAL, "journal buffer")                                                        \
    X(GATE_BOUND_OUTBOX, "redis.outbox")                                                           \
    X(GATE_BOUND_CALLS, "redis.in_flight")

enum gate_bound {
#define X(name, text) name,
    GATE_BOUNDS(X)
#undef X
        GATE_BOUND_COUNT
};
const char *gate_bound_text(enum gate_bound bound);

enum verdict {
    VERDICT_DONE,            /* the state changed: the command goes into the journal */
    VERDICT_ALREADY_APPLIED, /* decided before: nothing changed, the order is in the effects */
    VERDICT_MORE,    /* FORGET: changed, goes into the journal, and there is more: send it again */
    VERDICT_REFUSED, /* nothing changed; the refusal is in the effects */
};

struct gate_effects {
    enum refusal refusal;
    enum gate_bound bound;    /* with OVERLOADED */
    bool ask_ledger;          /* with UNKNOWN_OUTCOME: the order may have been evicted */
    uint32_t slot;            /* of the order, or GATE_NONE */
    uint32_t item_slot;       /* of the changed item, or GATE_NONE */
    uint32_t held;            /* units the buyer holds after the step */
    uint32_t limit;           /* with LIMIT_REACHED */
    int64_t cooling_until_ms; /* with BARRED; 0: barred for good */
    uint64_t available;       /* of the item after the step; with SOLD_OUT: units left */
    uint64_t locked;
};

#define GATE_NONE UINT32_MAX

struct gate_sizes {
    uint32_t orders;
    uint32_t buyers;
    uint32_t items;
    uint32_t sales;
};

/*
 * The most orders that are not final yet (QUEUED, LOCKED) of one buyer of an item, one item and one
 * sale, and the most buyers of one sale. So nobody can fill a pool that all sales use: orders that
 * are final leave when room is needed. UINT32_MAX: no share.
 */
struct gate_shares {
    uint32_t buyer_orders;
    uint32_t item_orders;
    uint32_t sale_orders;
    uint32_t sale_buyers;
};
/* The same in percent of the pools. 100: no share. */
struct gate_percents {
    uint32_t buyer;
    uint32_t item;
    uint32_t sale;
};

/*
 * The pools are arrays; a slot is an index. Links between entries (next_*, orders, buyers, buckets,
 * free) are slot + 1, and 0 ends a chain. So zeroed memory is an empty gate, and unused capacity
 * takes no memory. The orders and the buyers of an item are linked, newest first.
 */
struct gate_order {
    struct order_id id;
    uint64_t user;
    int64_t created_at_ms;
    int64_t pay_by_ms;
    uint64_t lsn;   /* of the last change; set by the owner after it appended the command to the
                     * journal */
    uint64_t watch; /* set by the owner: the loops that watch this order */
    uint32_t qty;
    uint32_t item_slot;
    uint32_t next_hash; /* chain of the table, or of the free list */
    struct index_node by_item;
    uint8_t version;
    uint8_t state;
    uint8_t reason;
    uint8_t notices; /* set by the owner: loops that have not yet taken the notice of a change */
};
_Static_assert(sizeof(struct gate_order) == 80, "limits.h counts with it");

struct gate_buyer {
    uint64_t user;
    int64_t cooling_until_ms; /* no new order before this time. 0: none, or barred for good */
    uint32_t item_slot;
    uint32_t held;
    uint32_t failed_attempts; /* orders that ended unsold: the attempt number in the next ORDER_ONCE
                          * id */
    uint32_t live : 31;       /* his orders that are not final */
    bool barred : 1;
    uint32_t next_hash;
    uint32_t next_item;
};
_Static_assert(sizeof(struct gate_buyer) == 40, "limits.h counts with it");

struct gate_item {
    uint64_t id;
    uint64_t total;
    uint64_t available;
    uint64_t locked;
    uint64_t sold;
    uint64_t version;
    uint32_t sale_slot;
    uint32_t limit;
    struct index_list orders;
    uint32_t buyers;  /* head of the chain of its buyers */
    uint32_t live;    /* orders that are not final */
    uint32_t evicted; /* orders */
    uint32_t next_hash;
    uint64_t evicted_sold; /* units of evicted orders that are PAID */
    int64_t evicted_end;   /* an ORDER_FRESH id with this time or a later one was never evicted */
    uint64_t evicted_lsn;  /* highest LSN of an evicted order */
    uint32_t used;
};

struct gate_sale {
    uint64_t id;
    int64_t starts_at_ms;
    int64_t ends_at_ms;
    uint32_t bar_unpaid;
    uint32_t used;
    uint32_t items; /* loaded and not yet forgotten */
    uint32_t live;  /* orders of its items that are not final */
    uint32_t buyers;
    uint8_t state;      /* enum sale_state */
    uint8_t forgetting; /* being forgotten, in steps */
    uint8_t spare[2];
};

/* Finds the entries of a pool by a hash: heads of chains. */
struct gate_table {
    uint32_t *buckets;
    uint32_t mask; /* buckets - 1 */
};

struct gate {
    struct gate_sizes sizes;
    struct gate_order *orders;
    struct gate_buyer *buyers;
    struct gate_item *items;
    struct gate_sale *sales;
    struct index_pool order_pool;
    struct index_pool buyer_pool;
    struct index_pool item_pool;
    struct gate_table order_table;
    struct gate_table buyer_table;
    struct gate_table item_table;
    uint32_t sales_used;
    uint64_t applied_event; /* highest ledger event applied */
    int64_t highest_ms;     /* highest now_ms of any command applied since the last SET_TIME */
    uint64_t hash_key;      /* mixed into the choice of buckets; never changes a verdict */
    struct gate_shares shares;
};

/* Bytes that gate_init needs for these sizes. Printed at start. */
size_t gate_bytes(struct gate_sizes sizes);
/* memory: zeroed, gate_bytes(sizes) long, 64-byte aligned, owned by the caller, outlives the gate.
 */
void gate_init(struct gate *ret_gate, struct gate_sizes sizes, void *memory, uint64_t hash_key);

/* Every share is at least one entry. A buyer's is at least GATE_BUYER_SHARE_LEAST orders, or a tenth
 * of a small gate. */
struct gate_shares gate_shares_of(struct gate_sizes sizes, struct gate_percents percents);
/* From now on new orders are refused above these shares. gate_init sets none. */
void gate_limit(struct gate *gate, struct gate_percents percents);

/* Whether an order that is not in the gate may have been evicted. If not, it never existed. */
bool gate_maybe_evicted(const struct gate *gate, uint32_t item_slot, struct order_id id);

/* Where the search for final orders is. Zeroed: at the start. */
struct gate_sweep {
    uint32_t item;        /* slot */
    uint32_t link;        /* the next order to look at; 0: the item's oldest */
    uint32_t item_id_low; /* of the item in the slot, to notice that it is another one by now */
    bool active;
};
/* Whether orders should be evicted now: from GATE_EVICT_FROM percent of the pool on, until it is below
 * GATE_EVICT_TO, or nothing more was found. */
bool gate_sweep_wanted(const struct gate *gate, struct gate_sweep *sweep);
/* The next final order, item by item, each one's oldest first. GATE_NONE: not among the next *looks
 * orders, or all have been looked at (then the sweep is no longer active). The caller may evict the
 * order before it calls again. */
uint32_t gate_sweep_next(const struct gate *gate, struct gate_sweep *sweep, uint32_t *looks);
#define GATE_EVICT_FROM 90U
#define GATE_EVICT_TO 80U

enum verdict gate_step(struct gate *gate, const struct gate_command *command,
                       struct gate_effects *ret_effects);

/* Look-ups; they change nothing. Slots are GATE_NONE where there is nothing. */
uint32_t gate_find_order(const struct gate *gate, struct order_id id);
uint32_t gate_find_item(const struct gate *gate, uint64_t item);
uint32_t gate_find_sale(const struct gate *gate, uint64_t sale);
const struct gate_buyer *gate_find_buyer(const struct gate *gate, uint32_t item_slot,
                                         uint64_t user);
void gate_view_order(const struct gate *gate, uint32_t slot, struct order_view *ret_view);
void gate_view_item(const struct gate *gate, uint32_t item_slot, struct item_view *ret_view);

/* The sale's state as buyers see it at now_ms: a warmed sale is open after its start and closed
 * after its end, even if no event says so yet. */
enum sale_state gate_sale_state_at(const struct gate_sale *sale, int64_t now_ms);

/*
 * Direct insertion, for loading a snapshot. Links and counts of orders are made here; counters of
 * units are set by the caller. The orders of an item come newest first, and after their buyers.
 * The caller has checked that there is room (only gate_add_sale returns GATE_NONE) and that ids are
 * new.
 */
uint32_t gate_add_order(struct gate *gate, const struct gate_order *order);
uint32_t gate_add_buyer(struct gate *gate, const struct gate_buyer *buyer);
uint32_t gate_add_item(struct gate *gate, const struct gate_item *item);
uint32_t gate_add_sale(struct gate *gate, const struct gate_sale *sale);

/* Promise 1, and every counter compared with the orders and buyers it counts. Walks the whole
 * gate. */
bool gate_consistent(const struct gate *gate);
/* The same as a CHECK. */
void gate_audit(const struct gate *gate);

#endif
