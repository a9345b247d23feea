/*
 * The ledger: the source of truth about sales, orders, stock and payments, and the last guard
 * against oversell. There are two kinds of call, both on structs that the caller owns:
 *
 *   write: a batch of ops in one transaction, by the only writer. Each op gets its own outcome. If
 *          the batch gets an error, nothing is known to be committed. Every op is idempotent, so a
 *          batch whose answer was lost is sent again.
 *   read:  one query, answered from a committed state. It never blocks the writer.
 *
 * What is damaged is an error (ERR_CORRUPT), never an absence; ledger_check() looks for damage.
 *
 * Both run on the caller's thread and return when the answer is there. Every change of orders, stock
 * or sales is also an event row, committed with the change and numbered without gaps in commit order.
 * The gate applies events in that order.
 */
#ifndef SLUICE_PORT_LEDGER_H
#define SLUICE_PORT_LEDGER_H

#include <stdatomic.h>

#include "base/err.h"
#include "core/gate.h"
#include "core/types.h"
#include "port/block.h"
#include "port/regions.h"

/* Events: name, public type, what a, b, c, d mean. qty, item, sale, user, id as named. */
#define LEDGER_EVENTS(X)                                                                           \
    X(EVENT_ORDER_LOCKED, "order.locked") /* a: pay_by_ms, b: 1: it took the item's last unit */   \
    X(EVENT_ORDER_FAILED, "order.failed") /* reason */                                             \
    X(EVENT_ORDER_PAID, "order.paid")                                                              \
    X(EVENT_ORDER_EXPIRED, "order.expired")     /* a: end of the buyer's cooling time; 0: none */  \
    X(EVENT_ORDER_CANCELLED, "order.cancelled") /* the same; or reason BARRED: late, barred */     \
    X(EVENT_ITEM_RESTOCKED, "item.restocked")   /* a: units */                                     \
    X(EVENT_SALE_WARMED, "sale.warmed")         /* a: starts, b: ends, c: bar_unpaid */            \
    X(EVENT_ITEM_LOADED, "item.loaded")         /* a: total, b: limit; follow sale.warmed */       \
    X(EVENT_SALE_OPENED, "sale.opened")         /* a: starts (moved to now where it lay ahead) */  \
    X(EVENT_SALE_PAUSED, "sale.paused")                                                            \
    X(EVENT_SALE_CLOSED, "sale.closed")                                                            \
    X(EVENT_SALE_CHANGED, "sale.changed")         /* a: ends; name may have changed too */         \
    X(EVENT_SALE_FORGOTTEN, "sale.forgotten")     /* it leaves the gate; orders stay here */       \
    X(EVENT_ITEM_TRANSFERRED, "item.transferred") /* a: units that come to this segment */

enum ledger_event_kind {
    EVENT_NONE,
#define X(name, text) name,
    LEDGER_EVENTS(X)
#undef X
        EVENT_KIND_COUNT
};
const char *ledger_event_text(enum ledger_event_kind kind);

struct ledger_event {
    uint64_t number; /* 1, 2, 3 ... without gaps */
    enum ledger_event_kind kind;
    int64_t at_ms;
    int32_t segment; /* the gate that applies it; SEGMENT_ALL: every one */
    uint64_t sale;
    uint64_t item;
    uint64_t user;
    struct order_id id;
    uint32_t qty;
    enum refusal reason;
    int64_t a, b, c, d;
};
#define SEGMENT_ALL (-1)

struct order_row {
    struct order_id id;
    uint64_t user;
    uint64_t sale;
    uint64_t item;
    uint32_t qty;
    enum order_state state;
    enum refusal reason;
    int64_t amount_cents;
    int64_t created_at_ms;
    int64_t locked_at_ms; /* 0: never */
    int64_t pay_by_ms;
    int64_t ended_at_ms;      /* when it became final; 0: not yet */
    int64_t cooling_until_ms; /* its buyer gets no new order of the item before; 0: may at once */
    uint64_t lsn;             /* of its decision in the journal */
    uint32_t segment;         /* the segment that decided it */
    char currency[4];
    char payment_id[PAYMENT_ID_MAX_BYTES + 1]; /* empty: none */
};

struct item_row {
    uint64_t id;
    uint64_t sale;
    uint32_t price_cents;
    uint32_t was_cents; /* 0: none */
    uint32_t limit_per_user;
    uint64_t total; /* stock as the ledger holds it */
    uint64_t available;
    uint64_t locked;
    uint64_t sold;
    char name[NAME_MAX_BYTES + 1];
    char sku[SKU_MAX_BYTES + 1];       /* empty: none */
    char image_url[URL_MAX_BYTES + 1]; /* empty: none */
};

struct sale_row {
    uint64_t id;
    enum sale_state state;
    bool forgotten;
    bool bar_unpaid;
    uint32_t pay_within_s;
    uint32_t homes;         /* segments that were homes when the sale was warmed; 0: not warmed */
    struct regions regions; /* as they were when it was warmed */
    int64_t starts_at_ms;
    int64_t ends_at_ms;
    int64_t created_at_ms;
    char name[NAME_MAX_BYTES + 1];
    char currency[4];
    char pay_url[URL_MAX_BYTES + 1]; /* template; empty: none */
    uint32_t items_count;
    struct item_row *items; /* in the order given; malloc'ed, owned by the row: sale_row_free */
};
void sale_row_free(struct sale_row *row); /* frees items and the row; NULL is fine */

/*
 * Write ops. In: as listed; out: refusal (REFUSAL_NONE: done), order or sale, repeated.
 *
 *   BOOK         command (a RESERVE), lsn -> order (LOCKED or FAILED). An id that has a row changes
 *                nothing and returns that row (repeated). Over the limit: a FAILED row with reason
 *                LIMIT_REACHED. No stock: a FAILED row with reason NO_STOCK (the gate was wrong and
 *                writes the units off).
 *   PAY          id, key (payment_id), amount_cents, currency (empty: not given), fingerprint
 *                -> order. NOT_FOUND, WRONG_AMOUNT (or another currency), ALREADY_PAID, EXPIRED
 *                (also from pay_by_ms on). The payment_id that paid, with the same fingerprint:
 *                the same answer (repeated); with another one, or with another currency than the
 *                order's: DIFFERENT_REQUEST.
 *   CANCEL       id, user (0: any), late_ms, cooling_ms -> order; CANCELLED already: repeated.
 *                NOT_FOUND, ALREADY_PAID, EXPIRED. From late_ms (0: never) before pay_by_ms on, a
 *                cancellation counts as an unpaid order: where the sale bars unpaid buyers, the buyer
 *                is barred and the order gets the reason BARRED. A buyer who is not barred gets no new
 *                order of the item for cooling_ms (0: he may at once): the order and its event say
 *                until when.
 *   EXPIRE       id, cooling_ms (as of CANCEL) -> order; only if LOCKED and pay_by_ms <= now_ms, else BAD_STATE with the order
 *                as it is (still LOCKED if its time has not come by the database's clock).
 *   RESTOCK      item, amount, key (request_id) -> sale; the same key and amount: repeated; another
 *                amount: DIFFERENT_REQUEST. NO_SUCH_ITEM; BAD_STATE when closed.
 *   SALE_CREATE  sale_in (id 0: the ledger assigns one) -> sale. EXISTS.
 *   SALE_CHANGE  sale_id, sale_in, changes -> sale. A draft: anything; items are replaced, and
 *                those without an id keep the id at their position. Later: name and end only; any
 *                other member that differs is BAD_STATE, and so is the end of a closed sale.
 *                NOT_FOUND.
 *   SALE_DELETE  sale_id; only a draft, else BAD_STATE. NOT_FOUND.
 *   SALE_MOVE    sale_id, target (WARM, OPEN, PAUSED, CLOSED) -> sale; repeating a move: repeated,
 *                and so is WARM of a sale that is OPEN or PAUSED. BAD_STATE, NOT_FOUND.
 *   SALE_FORGET  sale_id; only CLOSED and without LOCKED orders, else BAD_STATE. The caller makes
 *                sure that no decision of the sale is still to be booked.
 *   CURSOR       key (a reader's name), amount (an event's number) -> stores how far that reader of
 *                events has come. It never goes back: a number that is not higher changes nothing
 *                (repeated). No event. BAD_REQUEST without a name.
 *   BLOCK        block (kind, value, reason, until_ms) -> number, at_ms: blocks, or changes the
 *                reason and the end. The same reason and end: repeated. BAD_STATE if it is a new
 *                one and BLOCKS_MAX have not ended; BAD_REQUEST without a value. No event.
 *   UNBLOCK      block (kind, value) -> ends it. Removed before: repeated. NOT_FOUND. No event.
 *
 * In a ledger of several segments (other ledgers answer BAD_STATE):
 *   BOOK         also segment and epoch: if the epoch is not the segment's, STALE_EPOCH and no row
 *                (an id that has a row is answered as above).
 *   FAIL         command (a RESERVE), segment, reason -> order: a FAILED row for a decision that
 *                will not be booked (too old, poison, refused when it was decided again), in any
 *                epoch. An id that has a row: repeated.
 *   RESTOCK      evenly over all segments that have a share of the item, the rest to the lowest.
 *   EPOCH        segment, epoch (the present one; 0: it has none yet) -> raises the epoch by one
 *                and voids the segment's transfers that have not left it. If the present epoch is
 *                another: STALE_EPOCH, with the present one in op.epoch. For items whose sale was
 *                warmed before the segment existed, its share is 0: it is no buyer's home there,
 *                but may hold stock.
 *   TRANSFER     item, segment, to_segment, amount, key (its id); epoch and to_epoch: the epochs of
 *                the two segments as the caller saw them (0: any) -> stores the intent, moves
 *                nothing. The same key again: repeated, or DIFFERENT_REQUEST for another transfer.
 *                NO_SUCH_ITEM; BAD_REQUEST if one of the segments has no share of the item;
 *                BAD_STATE when closed; STALE_EPOCH if one of the segments was rebuilt since.
 *   TRANSFERRED  key, segment, epoch, amount (what really left) -> changes the allotments, and an
 *                event brings the units to to_segment (0 units: no event). The same again:
 *                repeated; with another amount: DIFFERENT_REQUEST. Void, or of an older epoch:
 *                STALE_EPOCH. NOT_FOUND; BAD_REQUEST: more than was stored; NO_STOCK: more than the
 *                ledger knows to be free there (the gate was wrong: its segment needs recovery).
 * In such a ledger PAY and EXPIRE compare with the database's own time, in the same statement. All
 * rows get that time; batch.now_ms is ignored.
 */
#define LEDGER_OPS(X)                                                                              \
    X(LEDGER_BOOK, "book")                                                                         \
    X(LEDGER_PAY, "pay")                                                                           \
    X(LEDGER_CANCEL, "cancel")                                                                     \
    X(LEDGER_EXPIRE, "expire")                                                                     \
    X(LEDGER_RESTOCK, "restock")                                                                   \
    X(LEDGER_SALE_CREATE, "sale_create")                                                           \
    X(LEDGER_SALE_CHANGE, "sale_change")                                                           \
    X(LEDGER_SALE_DELETE, "sale_delete")                                                           \
    X(LEDGER_SALE_MOVE, "sale_move")                                                               \
    X(LEDGER_SALE_FORGET, "sale_forget")                                                           \
    X(LEDGER_CURSOR, "cursor")                                                                     \
    X(LEDGER_BLOCK, "block")                                                                       \
    X(LEDGER_UNBLOCK, "unblock")                                                                   \
    X(LEDGER_FAIL, "fail")                                                                         \
    X(LEDGER_EPOCH, "epoch")                                                                       \
    X(LEDGER_TRANSFER, "transfer")                                                                 \
    X(LEDGER_TRANSFERRED, "transferred")

enum ledger_kind {
#define X(name, text) name,
    LEDGER_OPS(X)
#undef X
        LEDGER_KIND_COUNT
};

/* SALE_CHANGE: the members of sale_in that were given. */
enum {
    SALE_HAS_NAME = 1,
    SALE_HAS_STARTS = 2,
    SALE_HAS_ENDS = 4,
    SALE_HAS_PAY_WITHIN = 8,
    SALE_HAS_CURRENCY = 16,
    SALE_HAS_PAY_URL = 32,
    SALE_HAS_BAR = 64,
    SALE_HAS_ITEMS = 128,
};

struct ledger_op {
    enum ledger_kind kind;
    /* in */
    struct gate_command command; /* BOOK, FAIL */
    uint64_t lsn;                /* BOOK */
    uint32_t segment;            /* BOOK, FAIL, EPOCH, TRANSFER* */
    uint32_t to_segment;         /* TRANSFER */
    uint64_t epoch;              /* BOOK, EPOCH, TRANSFER*; out: of EPOCH */
    uint64_t to_epoch;           /* TRANSFER */
    enum refusal reason;         /* FAIL */
    struct order_id id;
    uint64_t user;
    uint64_t item;
    uint64_t sale_id;
    uint64_t amount;    /* RESTOCK, TRANSFER*, CURSOR */
    int64_t late_ms;    /* CANCEL */
    int64_t cooling_ms; /* CANCEL, EXPIRE */
    int64_t amount_cents;
    char currency[4]; /* PAY; empty: not given */
    uint8_t fingerprint[16];
    char key[PAYMENT_ID_MAX_BYTES + 1]; /* payment_id, request_id or a reader's name */
    struct sale_row *sale_in;           /* the caller's */
    struct block_row *block;            /* BLOCK, UNBLOCK: the caller's; out: number, at_ms */
    uint32_t changes;
    enum sale_state target;
    /* out */
    enum refusal refusal;
    bool repeated;
    struct order_row order;
    struct sale_row
        *sale; /* for sale ops and RESTOCK, if done: the caller frees it with sale_row_free */
    /* for the caller */
    int64_t pay_by_ms; /* EXPIRE: its deadline, in case it must be scheduled again */
};

struct ledger_batch {
    /* in */
    struct ledger_op **ops;
    size_t count;
    int64_t now_ms;
    uint64_t booked_lsn; /* the cursor after this batch; stored in the same transaction */
    const char *lease;   /* NULL: none. The batch is written under this lease ... */
    uint64_t token;      /* ... and refused whole (ERR_BUSY) if a higher token was given out */
    /* out */
    int error;                   /* 0: committed. Otherwise nothing is known to be committed */
    struct ledger_event *events; /* of this batch, in order; valid until the next write */
    size_t events_count;
};

/* Queries. `after` and `limit` page; rows are written into the caller's arrays. */
enum ledger_query_kind {
    QUERY_STATE, /* booked_lsn, last_event */
    QUERY_SALES, /* sale != 0: only that one; else all in id order, after = last id; into sales[] */
    QUERY_SALE_CHANGES, /* number > after, in order: which sales changed; into changes[] */
    QUERY_ORDERS,  /* filters sale, item, user, state (-1: any); after cursor; into orders[]. One
                    * user's orders: newest first; others: by item and id, descending */
    QUERY_ORDER,   /* id -> orders[0] */
    QUERY_EVENTS,  /* number > after, in order; segment >= 0: only those its gate applies; into
                   * events[] */
    QUERY_LOCKED,  /* LOCKED orders by (item, id), after_id/after_item = the last one; into orders[]
                   */
    QUERY_REPORT,  /* sale -> report[] one row per item */
    QUERY_CURSOR,  /* cursor: a reader's name -> last_event: how far it has come; 0: not begun */
    QUERY_SUMMARY, /* sale -> summary: its buyers, its busiest second, how long booking took */
    QUERY_SERIES,  /* sale, from_ms, step_ms -> series[limit], one row per step from from_ms on;
                    * earlier changes count in the first row; later ones in the last row if
                    * and_later is set, else not at all. A change counts at the beginning of its
                    * 10 ms, second, minute or hour: the longest that divides step_ms. If none
                    * does: ERR_INVALID */
    QUERY_BLOCKS,  /* number > after, in order; block.kind: BLOCK_NONE for all; now_ms: those that
                   * have not ended then; 0: those that have ended, too, as long as they are kept;
                   * into blocks[] */
    QUERY_BLOCK,   /* block.kind, block.value -> blocks[0], also if it has ended */
    QUERY_ORDERS_BY_ID, /* ids[limit] -> orders[i]; ORDER_QUEUED where there is no row */
    /* In a ledger of several segments. Forgotten sales are not included. */
    QUERY_SEGMENTS,       /* all that have an epoch; into segments[] */
    QUERY_ALLOTMENTS,     /* of the segment, by item, after = the last item; into allotments[] */
    QUERY_SEGMENT_ORDERS, /* of the segment, by (item, id), after_item/after_id; into orders[] */
    QUERY_SEGMENT_BUYERS, /* of the segment, by (item, user), after_item/after = the last; into
                           * buyers[] */
    QUERY_KNOWN,          /* ids[limit] -> orders[i].state; ORDER_QUEUED where there is no row */
    QUERY_TRANSFERS,      /* open ones, oldest first; into transfers[] */
    QUERY_LEASES,         /* all leases held now, by name; into leases[] */
};

/* The last change of a sale: it was created, changed, restocked, moved, forgotten or deleted. The
 * number grows with every change of any sale, in commit order; a sale has one row. */
struct sale_change_row {
    uint64_t number;
    uint64_t sale;
    bool gone; /* forgotten or deleted */
};

/* A block that has ended is kept for this long, so that every process learns of its end. A process
 * that has not read for half of it reads all blocks. */
#define BLOCK_KEEP_MS 3600000LL

struct segment_row {
    uint32_t segment;
    uint64_t epoch;
};

/* A segment's share of an item: share at warm-up + restocks + transfers in - transfers out. A
 * write-off changes nothing here: the ledger never had the unit. */
struct allotment_row {
    uint64_t item;
    uint64_t sale;
    uint32_t segment;
    uint32_t limit_per_user;
    uint64_t amount;
    uint64_t locked; /* in LOCKED orders of the segment */
    uint64_t sold;   /* in PAID ones */
};

struct buyer_row {
    uint64_t item;
    uint64_t user;
    uint32_t held; /* units in LOCKED and PAID orders */
    uint32_t failed_attempts;
    bool barred;
};

/* A transfer that is open. */
struct transfer_row {
    char key[PAYMENT_ID_MAX_BYTES + 1];
    uint64_t item;
    uint32_t segment; /* the units leave this one */
    uint32_t to_segment;
    uint64_t amount; /* upper bound */
    uint64_t epoch;  /* present epoch of the source segment; raising it voids the transfer */
    int64_t at_ms;
};

/* A lease (port/lease.h). */
struct lease_row {
    char name[65];
    char holder[129];
    uint64_t token;
    int64_t until_ms;
};

/* Totals of a sale. A buyer of several items or orders counts once. */
struct sale_summary {
    uint64_t participants; /* buyers with any order, FAILED ones too */
    uint64_t winners;      /* buyers with an order LOCKED or PAID */
    uint64_t payers;       /* buyers with one PAID */
    uint64_t peak_orders_per_s;
    int64_t peak_at_ms;     /* the whole second with most orders; 0: there are none */
    uint64_t booked;        /* orders that have been LOCKED */
    uint64_t booked_p50_ms; /* from the decision to the booking */
    uint64_t booked_p99_ms;
    uint64_t booked_max_ms;
    uint64_t previous; /* the sale (not a draft) that started last before this one; 0: none */
};

/* What happened to the units of a sale within one step of time. */
struct series_row {
    uint64_t orders;   /* created, FAILED ones too */
    uint64_t taken;    /* units of orders that got stock, at the time of creation */
    uint64_t paid;     /* units, at the time of payment */
    uint64_t returned; /* units of orders that expired or were cancelled, at the time they ended */
};

struct report_row {
    uint64_t item;
    uint64_t orders[ORDER_STATE_COUNT];
    uint64_t units[ORDER_STATE_COUNT];
    int64_t first_order_ms;
    int64_t last_order_ms;
    uint64_t buyers;
    uint64_t peak_orders_per_s; /* most orders created within one whole second */
    int64_t paid_cents;
};

struct ledger_query {
    enum ledger_query_kind kind;
    uint64_t sale;
    uint64_t item;
    uint64_t user;
    int state;
    struct order_id id;
    int32_t segment; /* set by the caller: SEGMENT_ALL or one */
    const struct order_id *ids;
    uint64_t after_item;
    struct order_id after_id;
    uint64_t after;
    int64_t from_ms; /* QUERY_SERIES */
    int64_t step_ms;
    bool and_later;
    struct {
        enum block_kind kind;
        const char *value;
    } block;
    int64_t now_ms;  /* QUERY_BLOCKS */
    char cursor[80]; /* QUERY_ORDERS: in, as given by the caller (opaque text); empty: from the
                        start. QUERY_CURSOR: a reader's name */
    uint32_t limit;
    /* out: error 0, ERR_NOTFOUND, ERR_INVALID (cursor), ERR_IO */
    int error;
    uint32_t count;
    char next[80]; /* QUERY_ORDERS: empty when there is no more */
    uint64_t booked_lsn;
    uint64_t last_event; /* QUERY_STATE, QUERY_CURSOR. QUERY_ALLOTMENTS, QUERY_SEGMENT_ORDERS and
                     * _BUYERS: the last event for the segment's gate in the same committed state */
    int64_t highest_ms;  /* QUERY_STATE: the latest time of any event */
    struct sale_row **sales; /* each freed by the caller with sale_row_free */
    struct sale_change_row *changes;
    struct block_row *blocks;
    struct order_row *orders;
    struct ledger_event *events;
    struct report_row *report;
    struct segment_row *segments;
    struct allotment_row *allotments;
    struct buyer_row *buyers;
    struct transfer_row *transfers;
    struct lease_row *leases;
    struct sale_summary summary;
    struct series_row *series;
};

/* Something that is not as it was written. What is not known is 0. */
struct ledger_damage {
    uint64_t page; /* of the file, from 1 on */
    uint64_t item; /* an order that one of table and index has, and the other has not */
    uint64_t user;
    struct order_id id;
};
#define LEDGER_DAMAGE_MAX 16 /* told by one check; all are counted */

/*
 * A search for damage, in pieces: each call looks at the next piece (milliseconds), until `done`.
 * Then the next call begins anew. Or `whole`: all that the database can say about itself, in one
 * call, which reads everything.
 */
struct ledger_check {
    bool whole;
    bool (*stop)(void *context); /* NULL, or true: give a whole check up (ERR_CLOSED) */
    void *context;
    /* Where the next piece begins. Zeros: at the start. */
    uint32_t part;
    uint64_t at_page;
    struct ledger_damage at_order;
    int64_t at_ms;
    /* out, of this call. error: 0, ERR_CORRUPT if there is damage, ERR_IO, ERR_CLOSED ... */
    int error;
    bool done;
    uint64_t pages; /* looked at */
    uint64_t rows;
    uint64_t damaged; /* findings */
    struct ledger_damage damage[LEDGER_DAMAGE_MAX];
    uint32_t damage_count;
    char what[256]; /* the first finding, in words */
};

/* What this process knows of damage in its ledger. Any thread. Damage stays known until a restart. */
struct ledger_health {
    _Atomic uint64_t damaged; /* times that damage was met, by a check, a read or a write */
    _Atomic int said;
    char what[200];
};
void ledger_health_note(struct ledger_health *health, const char *what);
/* The first damage in words; NULL: none is known. */
const char *ledger_health_what(struct ledger_health *health);

struct ledger;
struct ledger_ops {
    void (*write)(struct ledger *ledger, struct ledger_batch *batch);
    void (*read)(struct ledger *ledger, struct ledger_query *query);
    void (*check)(struct ledger *ledger, struct ledger_check *check); /* NULL: it cannot */
    const char *(*error)(const struct ledger *ledger); /* the last one, in words. NULL: no words */
};
struct ledger {
    const struct ledger_ops *ops;
    struct ledger_health *health; /* NULL: nobody wants to know */
};
/* Notes damage that a call on this ledger has met. */
void ledger_note_damage(struct ledger *l, const char *what);
/* Writes the batch; its error. */
static inline int ledger_write(struct ledger *l, struct ledger_batch *batch)
{
    l->ops->write(l, batch);
    if (batch->error == ERR_CORRUPT) {
        ledger_note_damage(l, NULL);
    }
    return batch->error;
}
/* Answers the query; its error. */
static inline int ledger_read(struct ledger *l, struct ledger_query *query)
{
    l->ops->read(l, query);
    if (query->error == ERR_CORRUPT) {
        ledger_note_damage(l, NULL);
    }
    return query->error;
}
/* Looks for damage; its error. */
int ledger_check(struct ledger *l, struct ledger_check *check);

#endif
