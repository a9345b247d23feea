/*
 * Rules that all ledgers share, whatever stores their rows: how a sale may change, how a payment is
 * answered, which row a decision becomes, and the names used in tables. Pure: a backend reads its
 * rows, calls these functions, and writes the result.
 */
#ifndef SLUICE_PORT_LEDGER_RULES_H
#define SLUICE_PORT_LEDGER_RULES_H

#include "port/ledger.h"

/* A refusal's name in tables (codes are not unique, names are); NULL for REFUSAL_NONE. */
const char *ledger_refusal_name(enum refusal refusal);
/* ERR_CORRUPT: not a name the program knows. */
int ledger_refusal_parse(struct span name, enum refusal *ret_refusal);
int ledger_event_parse(struct span text, enum ledger_event_kind *ret_kind);

/* The cursor after an order in a listing: its time and its id (which contains the item). */
void ledger_cursor_write(const struct order_row *order, char *ret_text, size_t capacity);
/* ERR_INVALID: not what ledger_cursor_write makes. */
int ledger_cursor_read(const char *text, int64_t *ret_created_at_ms, struct order_id *ret_id);

/* The terms of an item and its sale that become part of an order. */
struct order_terms {
    uint64_t sale;
    uint32_t price_cents;
    uint32_t pay_within_s;
    char currency[4];
};
/* The row a decision becomes: LOCKED (reason REFUSAL_NONE), or FAILED with a reason. */
struct order_row ledger_order_of(const struct gate_command *command, uint64_t lsn,
                                 const struct order_terms *terms, int64_t now_ms,
                                 enum refusal reason);
/* True if the payment names the order's currency, or none. */
bool ledger_pay_currency_fits(const struct order_row *order, const struct ledger_op *payment);
/* REFUSAL_NONE: the payment (a PAY op) may pay the order now. */
enum refusal ledger_pay_refusal(const struct order_row *order, const struct ledger_op *payment,
                                int64_t now_ms);
/* True if this CANCEL op of a LOCKED order counts as an unpaid order. bar_unpaid: of its sale. */
bool ledger_cancel_bars(const struct order_row *order, const struct ledger_op *cancel,
                        bool bar_unpaid, int64_t now_ms);
/* The end of the cooling time that a CANCEL or EXPIRE op gives the buyer of its order; 0: none, as for
 * one who is barred. */
int64_t ledger_cooling_until(const struct ledger_op *op, bool barred, int64_t now_ms);
/* Why an order that is neither LOCKED nor CANCELLED cannot be cancelled. */
enum refusal ledger_cancel_refusal(const struct order_row *order);
/* The state that decides a booking. */
struct book_state {
    uint32_t qty;
    uint32_t limit;    /* 0: none */
    int64_t held;      /* by the buyer, of the item */
    int64_t available; /* of the item */
    int64_t room;      /* left in the segment's allotment; equal to available if the gate has one
                        * segment */
};
/* Checks the limit first, then stock, as the gate does. */
enum refusal ledger_book_reason(const struct book_state *state);
struct ledger_event ledger_order_event(enum ledger_event_kind kind, const struct order_row *order);
/* The event of a new row. `available` is the item's, after the booking. */
struct ledger_event ledger_booked_event(const struct order_row *order, int64_t available);

/*
 * Ids that are not given come from counters that never go back. A given id moves its counter past
 * it. Ids from 2^52 on are for operators and do not move the counter, so it cannot be driven to its
 * end.
 */
void ledger_id_pass(uint64_t *next, uint64_t given);
/*
 * The id of the given item at this position: the id it was given, or, in a change, the id that the
 * sale's item at this position has now (unless another item was given that id). So items sent back
 * without ids are changed, not replaced. 0: a new id is needed. have: NULL for a new sale.
 */
uint64_t ledger_item_id(const struct sale_row *have, const struct sale_row *given, uint32_t at);
/* Whether an earlier item of the sale has the same id. */
bool ledger_item_is_double(const struct sale_row *sale, uint32_t at);

/* Which of the members given differ from what the sale has: a subset of `changes` (SALE_HAS_). */
uint32_t ledger_sale_differs(const struct sale_row *have, const struct sale_row *given,
                             uint32_t changes);
/* Copies the members in `differs`, except the items. */
void ledger_sale_take_over(struct sale_row *sale, const struct sale_row *given, uint32_t differs);
/* Why the change is not allowed. `sale` already contains it. */
enum refusal ledger_sale_change_refusal(const struct sale_row *sale, uint32_t differs);

enum ledger_move { LEDGER_MOVE_BAD, LEDGER_MOVE_SAME, LEDGER_MOVE_LOADS, LEDGER_MOVE_PLAIN };
/* The table of a sale's moves, plus the clock: no opening after the end, no pause before the start.
 * LOADS: the gate does not know the sale yet. */
enum ledger_move ledger_sale_move(const struct sale_row *sale, enum sale_state target,
                                  int64_t now_ms);
/* The event of the move to `target`; EVENT_NONE for WARM, which has its own loading events. */
enum ledger_event_kind ledger_sale_move_event(enum sale_state target);
struct ledger_event ledger_sale_warmed(const struct sale_row *sale);
struct ledger_event ledger_item_loaded(const struct sale_row *sale, uint32_t at);
/* The same for one segment, whose gate loads its share. */
struct ledger_event ledger_share_loaded(const struct sale_row *sale, uint32_t at, uint32_t segment);
/* A segment's share of units that are spread evenly; the rest goes to the lowest segments. */
uint64_t ledger_share(uint64_t units, uint32_t segments, uint32_t segment);
/* The same over the homes of a sale that is being warmed, by the weights of its regions if it has
 * any. */
uint64_t ledger_home_share(const struct sale_row *sale, uint64_t units, uint32_t segment);
/* Units on their way from one segment to another. */
#define TRANSFER_STATES(X)                                                                         \
    X(TRANSFER_OPEN, "open") /* noted; they may have left the gate */                              \
    X(TRANSFER_DONE, "done") /* the allotments have changed */                                     \
    X(TRANSFER_VOID, "void") /* its segment began another life: nothing has moved */
enum transfer_state {
#define X(name, text) name,
    TRANSFER_STATES(X)
#undef X
        TRANSFER_STATE_COUNT
};
const char *ledger_transfer_text(enum transfer_state state);
int ledger_transfer_parse(struct span text, enum transfer_state *ret_state);
struct ledger_transfer {
    struct transfer_row row;
    uint64_t moved; /* DONE: what really left */
    enum transfer_state state;
};
/* Whether one of the two segments was rebuilt since the caller saw it. */
bool ledger_transfer_is_stale(const struct ledger_op *op, uint64_t epoch, uint64_t to_epoch);
/* A TRANSFER with a known key. REFUSAL_NONE: it is the same transfer. */
enum refusal ledger_transfer_again(const struct ledger_transfer *have, const struct ledger_op *op);
/* Whether a TRANSFERRED may be applied; row.epoch is set. REFUSAL_NONE: it may, or (repeated) it
 * has been applied. */
enum refusal ledger_transferred(const struct ledger_transfer *have, const struct ledger_op *op,
                                bool *ret_repeated);

/* Whether an order of the sale is LOCKED. */
bool ledger_sale_has_locked(const struct sale_row *sale);

#endif
