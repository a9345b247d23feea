/*
 * The keeper owns time: which unpaid orders are due, and which sales are to open, close or leave
 * the board. It decides nothing itself; it hands the ledger writer ops, and the ledger decides. Used by
 * the ledger writer's thread only.
 *
 * Deadlines are a FIFO per sale: all orders of a sale have the same time to pay, so they fall due
 * in the order they were booked, and a million pending ones cost nothing per tick.
 */
#ifndef SLUICE_FLOW_DEADLINE_SCHEDULER_H
#define SLUICE_FLOW_DEADLINE_SCHEDULER_H

#include "flow/catalog.h"

struct deadline_scheduler;

struct deadline_scheduler *deadline_scheduler_new(int64_t board_keep_ms); /* NULL: no memory */
void deadline_scheduler_free(struct deadline_scheduler *scheduler);

/* A LOCKED order and its deadline. ERR_NOMEM. */
int deadline_scheduler_add(struct deadline_scheduler *scheduler, uint64_t sale, struct order_id id,
                           int64_t pay_by_ms);
/*
 * Up to max orders due at now_ms, into EXPIRE ops. They leave the FIFO; if the batch fails, the
 * ledger writer gives them back with deadline_scheduler_return, oldest last.
 */
size_t deadline_scheduler_due(struct deadline_scheduler *scheduler, int64_t now_ms,
                              struct ledger_op *ret_ops, size_t max);
void deadline_scheduler_return(struct deadline_scheduler *scheduler, uint64_t sale,
                               struct order_id id, int64_t pay_by_ms);
/* Moves that are due for sales: SALE_MOVE OPEN or CLOSED, SALE_FORGET. */
size_t deadline_scheduler_moves(struct deadline_scheduler *scheduler, struct catalog *catalog,
                                int64_t now_ms, struct ledger_op *ret_ops, size_t max);
/* The sale is off the board: nothing of it is kept. */
void deadline_scheduler_forget(struct deadline_scheduler *scheduler, uint64_t sale);
/* When there is something to do next; INT64_MAX: nothing known. */
int64_t deadline_scheduler_next_ms(struct deadline_scheduler *scheduler, struct catalog *catalog);
size_t deadline_scheduler_pending(const struct deadline_scheduler *scheduler);

#endif
