/* What the files of the ledger in memory share: its rows, and the ops on them. */
#ifndef SLUICE_TEST_MEMORY_PRIVATE_H
#define SLUICE_TEST_MEMORY_PRIVATE_H

#include "memory_ledger.h"
#include "port/ledger_rules.h"

struct memory_key {
    enum ledger_kind kind;
    char key[PAYMENT_ID_MAX_BYTES + 1];
    uint8_t fingerprint[16];
    uint64_t item; /* RESTOCK */
    uint64_t amount;
};

/* A segment's share of an item. */
struct memory_share {
    uint64_t item;
    uint32_t segment;
    uint64_t amount, locked, sold;
};

struct memory_lease {
    char name[LEASE_NAME_MAX + 1];
    char holder[64]; /* "": given up */
    uint64_t token;
    int64_t until_ms;
};

/* How far a reader of events has come. */
struct memory_cursor {
    char name[PAYMENT_ID_MAX_BYTES + 1];
    uint64_t number;
};

/* A batch that is being committed. */
struct memory_write {
    struct memory_ledger *ledger;
    const struct ledger_batch *batch;
    int64_t now_ms; /* the batch's, or the database's */
};

void *memory_must(void *memory);
/* Room for one more in an array that grows by doubling, from 16 on. */
void *memory_grown(void *array, size_t count, size_t size);

struct sale_row *memory_sale_copy(const struct sale_row *sale);
struct sale_row *memory_sale(const struct memory_ledger *ledger, uint64_t id);
struct item_row *memory_item(const struct memory_ledger *ledger, uint64_t id,
                             struct sale_row **ret_sale);
struct order_row *memory_find_order(const struct memory_ledger *ledger, struct order_id id);
struct memory_share *memory_share(const struct memory_ledger *ledger, uint64_t item,
                                  uint32_t segment);
const struct memory_key *memory_key(const struct memory_ledger *ledger, const struct ledger_op *op);
void memory_key_add(struct memory_ledger *ledger, const struct ledger_op *op);
void memory_event(struct memory_write *w, struct ledger_event event);
/* For all segments. */
void memory_sale_event(struct memory_write *w, struct ledger_event event);
int memory_order_compare(const struct order_row *a, uint64_t item, struct order_id id);

/* memory_orders.c */
void memory_book(struct memory_write *w, struct ledger_op *op);
void memory_fail(struct memory_write *w, struct ledger_op *op);
void memory_pay(struct memory_write *w, struct ledger_op *op);
void memory_cancel(struct memory_write *w, struct ledger_op *op);
void memory_expire(struct memory_write *w, struct ledger_op *op);

/* memory_sales.c */
void memory_restock(struct memory_write *w, struct ledger_op *op);
void memory_sale_create(struct memory_write *w, struct ledger_op *op);
void memory_sale_change(struct memory_write *w, struct ledger_op *op);
void memory_sale_delete(struct memory_write *w, struct ledger_op *op);
void memory_sale_move(struct memory_write *w, struct ledger_op *op);
void memory_sale_forget(struct memory_write *w, struct ledger_op *op);

/* memory_blocks.c */
void memory_block(struct memory_write *w, struct ledger_op *op);
void memory_unblock(struct memory_write *w, struct ledger_op *op);
void memory_query_blocks(const struct memory_ledger *ledger, struct ledger_query *query);
int memory_query_block(const struct memory_ledger *ledger, struct ledger_query *query);

/* memory_segments.c */
void memory_epoch(struct memory_write *w, struct ledger_op *op);
void memory_transfer(struct memory_write *w, struct ledger_op *op);
void memory_transferred(struct memory_write *w, struct ledger_op *op);
/* The items of a sale that is being warmed, spread over its homes. */
void memory_allot(struct memory_write *w, const struct sale_row *sale);
void memory_allot_more(struct memory_write *w, const struct sale_row *sale, uint64_t item,
                       uint64_t units);
/* Whether a batch's token is still the highest that was given out. */
bool memory_lease_holds(const struct memory_ledger *ledger, const struct ledger_batch *batch);
/* The queries of a ledger with segments. ERR_INVALID: another one. */
int memory_query_segments(const struct memory_ledger *ledger, struct ledger_query *query);

/* memory_report.c: QUERY_REPORT, QUERY_SUMMARY, QUERY_SERIES. */
int memory_query_report(const struct memory_ledger *ledger, struct ledger_query *query);

#endif
