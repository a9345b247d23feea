/*
 * The plan of a batch: the rows its ops look at, as they will be when it is committed, and which of
 * them have to be written. Memory only; ledger_plan.c fills it from the tables and writes it back.
 *
 * Ops run on the plan in their order, so each sees what those before it did, and the tables see
 * each row once: one insert or update per order, per holding and per item.
 */
#ifndef SLUICE_BACKEND_MARIADB_PLAN_H
#define SLUICE_BACKEND_MARIADB_PLAN_H

#include "backend/sql/db.h"

/* Places in an array, found by hash: open addressing, a power of two, at most half full. */
struct plan_index {
    uint32_t *slots; /* place + 1; 0: empty */
    size_t capacity;
};

struct plan_item {
    struct db_item row;
};

/* A segment's share of an item. */
struct plan_allotment {
    uint64_t item;
    uint32_t segment;
    int64_t room; /* what may still be booked; with the moves */
    int64_t move_locked;
    int64_t move_sold;
};

struct plan_order {
    struct order_row row;
    bool exists; /* in the table or in this batch */
    bool fresh;  /* to be inserted */
    bool moved;  /* to be updated */
};

struct plan_holding {
    uint64_t item;
    uint64_t user;
    int64_t held; /* with the moves; only right where a booking was announced */
    int64_t move_held;
    int64_t move_ended;
    uint32_t limit_per_user;
    uint32_t segment; /* the buyer's home */
    bool barred;
    bool touched;
};

struct plan_payment {
    char key[PAYMENT_ID_MAX_BYTES + 1];
    uint8_t fingerprint[16];
    struct order_id id;
    int64_t amount_cents;
    bool exists;
    bool fresh;
};

/* X(name): plan_name rows in an array `names`, found through an index. */
#define PLAN_TABLES(X)                                                                             \
    X(item)                                                                                        \
    X(order)                                                                                       \
    X(allotment)                                                                                   \
    X(holding)                                                                                     \
    X(payment)

struct plan {
#define X(name)                                                                                    \
    struct {                                                                                       \
        struct plan_##name *rows;                                                                  \
        size_t count;                                                                              \
        size_t capacity;                                                                           \
        struct plan_index index;                                                                   \
    } name##s;
    PLAN_TABLES(X)
#undef X
};

void plan_clear(struct plan *plan);
void plan_free(struct plan *plan);

/* NULL: not in the plan. A pointer is good until something is added to its table. */
struct plan_item *plan_item(struct plan *plan, uint64_t id);
struct plan_order *plan_order(struct plan *plan, struct order_id id);
struct plan_holding *plan_holding(struct plan *plan, uint64_t item, uint64_t user);
struct plan_payment *plan_payment(struct plan *plan, struct span key);
struct plan_allotment *plan_allotment(struct plan *plan, uint64_t item, uint32_t segment);

/* The row of that key, added if need be (all else zero); NULL: out of memory. */
struct plan_item *plan_item_add(struct plan *plan, uint64_t id);
struct plan_order *plan_order_add(struct plan *plan, struct order_id id);
struct plan_holding *plan_holding_add(struct plan *plan, uint64_t item, uint64_t user);
struct plan_payment *plan_payment_add(struct plan *plan, struct span key);
struct plan_allotment *plan_allotment_add(struct plan *plan, uint64_t item, uint32_t segment);

void plan_allotment_move(struct plan_allotment *allotment, int64_t locked, int64_t sold);
void plan_hold(struct plan_holding *holding, int64_t held, int64_t ended, bool barred);

#endif
