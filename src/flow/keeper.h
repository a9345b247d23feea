/*
 * The keeper owns time: which unpaid orders are due, and which sales are to open, close or leave
 * the board. It decides nothing itself; it hands the office ops, and the ledger decides. Used by
 * the office's thread only.
 *
 * Deadlines are a FIFO per sale: all orders of a sale have the same time to pay, so they fall due
 * in the order they were booked, and a million pending ones cost nothing per tick.
 */
#ifndef SLUICE_FLOW_KEEPER_H
#define SLUICE_FLOW_KEEPER_H

#include "flow/catalog.h"

struct keeper;

struct keeper *keeper_new(int64_t board_keep_ms); /* NULL: no memory */
void keeper_free(struct keeper *keeper);

/* A LOCKED order and its deadline. ERR_NOMEM. */
int keeper_add(struct keeper *keeper, uint64_t sale, struct order_id id, int64_t pay_by_ms);
/*
 * Up to max orders due at now_ms, into EXPIRE ops. They leave the FIFO; if the batch fails, the
 * office gives them back with keeper_return, oldest last.
 */
size_t keeper_due(struct keeper *keeper, int64_t now_ms, struct ledger_op *ret_ops, size_t max);
void keeper_return(struct keeper *keeper, uint64_t sale, struct order_id id, int64_t pay_by_ms);
/* Moves that are due for sales: SALE_MOVE OPEN or CLOSED, SALE_FORGET. */
size_t keeper_moves(struct keeper *keeper, struct catalog *catalog, int64_t now_ms,
                    struct ledger_op *ret_ops, size_t max);
/* The sale is off the board: nothing of it is kept. */
void keeper_forget(struct keeper *keeper, uint64_t sale);
/* When there is something to do next; INT64_MAX: nothing known. */
int64_t keeper_next_ms(struct keeper *keeper, struct catalog *catalog);
size_t keeper_pending(const struct keeper *keeper);

#endif
