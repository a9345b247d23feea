/*
 * What every ledger decides alike, wherever it keeps its rows: how a sale may change and move, what
 * a payment is told, which row a decision becomes, and the names that stand in its tables. Pure: a
 * backend reads its rows, asks here, and writes what it was told.
 */
#ifndef SLUICE_PORT_LEDGER_RULES_H
#define SLUICE_PORT_LEDGER_RULES_H

#include "port/ledger.h"

/* A refusal's name in tables (codes are not unique, names are); NULL for REFUSAL_NONE. */
const char *ledger_refusal_name(enum refusal refusal);
/* ERR_CORRUPT: not a name the program knows. */
int ledger_refusal_parse(struct span name, enum refusal *ret_refusal);
int ledger_event_parse(struct span text, enum ledger_event_kind *ret_kind);

/* The place after an order in a listing: its time and its id (which carries its item). */
void ledger_cursor_write(const struct order_row *order, char *ret_text, size_t capacity);
/* ERR_INVALID: not what ledger_cursor_write makes. */
int ledger_cursor_read(const char *text, int64_t *ret_created_at_ms, struct order_id *ret_id);

/* What of an item and its sale becomes part of an order. */
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
/* REFUSAL_NONE: a payment of this amount may pay the order now. */
enum refusal ledger_pay_refusal(const struct order_row *order, int64_t amount_cents,
                                int64_t now_ms);
/* Why an order that is neither LOCKED nor CANCELLED cannot be cancelled. */
enum refusal ledger_cancel_refusal(const struct order_row *order);
/* What a booking looks at. */
struct book_state {
    uint32_t qty;
    uint32_t limit;    /* 0: none */
    int64_t held;      /* by the buyer, of the item */
    int64_t available; /* of the item */
    int64_t room;      /* of the segment's allotment; of a gate with one segment: available */
};
/* The limit, then stock, as the gate does. */
enum refusal ledger_book_reason(const struct book_state *state);
struct ledger_event ledger_order_event(enum ledger_event_kind kind, const struct order_row *order);
/* The event of a new row; `available`: of the item, after it. */
struct ledger_event ledger_booked_event(const struct order_row *order, int64_t available);

/*
 * Ids that were not given come from counters that never go back. A given id moves its counter past
 * it; ids from 2^52 on are left to operators and move nothing, so that the counter cannot be
 * driven to its end.
 */
void ledger_id_pass(uint64_t *next, uint64_t given);
/*
 * The id of the given item at this place: the one it was given; or, of a change, the one that the
 * sale's item at this place has now, so that who sends items back without ids changes them instead
 * of making others (unless that id was given to another one). 0: a new one. have: NULL for a new
 * sale.
 */
uint64_t ledger_item_id(const struct sale_row *have, const struct sale_row *given, uint32_t at);
/* Whether the item's id, at this place, stands earlier in the sale, too. */
bool ledger_item_is_double(const struct sale_row *sale, uint32_t at);

/* Which of the members given differ from what the sale has: a subset of `changes` (SALE_HAS_). */
uint32_t ledger_sale_differs(const struct sale_row *have, const struct sale_row *given,
                             uint32_t changes);
/* Takes the members in `differs` over, but for the items. */
void ledger_sale_take_over(struct sale_row *sale, const struct sale_row *given, uint32_t differs);
/* What forbids the change; `sale` has it already. */
enum refusal ledger_sale_change_refusal(const struct sale_row *sale, uint32_t differs);

enum ledger_move { LEDGER_MOVE_BAD, LEDGER_MOVE_SAME, LEDGER_MOVE_LOADS, LEDGER_MOVE_PLAIN };
/* The table of a sale's moves, and the clock: no opening after the end, no pause before the start.
 * LOADS: the gate does not know the sale yet. */
enum ledger_move ledger_sale_move(const struct sale_row *sale, enum sale_state target,
                                  int64_t now_ms);
/* The event that says the move to `target`; EVENT_NONE for WARM, which loading has said. */
enum ledger_event_kind ledger_sale_move_event(enum sale_state target);
struct ledger_event ledger_sale_warmed(const struct sale_row *sale);
struct ledger_event ledger_item_loaded(const struct sale_row *sale, uint32_t at);
/* The same for one segment, whose gate loads its share. */
struct ledger_event ledger_share_loaded(const struct sale_row *sale, uint32_t at, uint32_t segment);
/* A segment's share of units that are spread over so many: evenly, the rest to the lowest. */
uint64_t ledger_share(uint64_t units, uint32_t segments, uint32_t segment);
/* The same over the homes of a sale that is being warmed: by its regions' weights, where it has any. */
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
/* Whether a TRANSFER was thought of in the present lives of both segments. */
bool ledger_transfer_is_stale(const struct ledger_op *op, uint64_t epoch, uint64_t to_epoch);
/* A TRANSFER under a key that there is: REFUSAL_NONE: the same one. */
enum refusal ledger_transfer_again(const struct ledger_transfer *have, const struct ledger_op *op);
/* Whether a TRANSFERRED may be done; row.epoch is there. REFUSAL_NONE: it may, or (repeated) it has
 * been. */
enum refusal ledger_transferred(const struct ledger_transfer *have, const struct ledger_op *op,
                                bool *ret_repeated);

/* An order of it is LOCKED. */
bool ledger_sale_has_locked(const struct sale_row *sale);

#endif
