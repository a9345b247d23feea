/*
 * The deadline scheduler knows for the ledger writer, in both engines, which unpaid orders are due and
 * which sales have to open, close or be forgotten (leave the gate). It decides nothing. It gives ops to
 * the ledger writer, and the ledger decides. Ledger writer's thread only.
 *
 * Deadlines are kept in one FIFO per sale. All orders of a sale have the same time to pay, so they
 * fall due in booking order, and a million pending orders cost nothing per tick.
 */
#ifndef SLUICE_LEDGER_DEADLINE_SCHEDULER_H
#define SLUICE_LEDGER_DEADLINE_SCHEDULER_H

#include "ledger/catalog.h"

struct deadline_scheduler;

struct deadline_scheduler *deadline_scheduler_new(int64_t board_keep_ms); /* NULL: no memory */
void deadline_scheduler_free(struct deadline_scheduler *scheduler);

/* Adds a LOCKED order and its deadline. ERR_NOMEM. */
int deadline_scheduler_add(struct deadline_scheduler *scheduler, uint64_t sale, struct order_id id,
                           int64_t pay_by_ms);
/*
 * Turns up to max orders due at now_ms into EXPIRE ops and removes them from their FIFOs. If the
 * batch fails, the ledger writer puts them back with deadline_scheduler_return, oldest last.
 */
size_t deadline_scheduler_due(struct deadline_scheduler *scheduler, int64_t now_ms,
                              struct ledger_op *ret_ops, size_t max);
void deadline_scheduler_return(struct deadline_scheduler *scheduler, uint64_t sale,
                               struct order_id id, int64_t pay_by_ms);
/* Sale moves that are due: SALE_MOVE to OPEN or CLOSED, SALE_FORGET. */
size_t deadline_scheduler_moves(struct deadline_scheduler *scheduler, struct catalog *catalog,
                                int64_t now_ms, struct ledger_op *ret_ops, size_t max);
/* The sale was forgotten: drops everything kept about it. */
void deadline_scheduler_forget(struct deadline_scheduler *scheduler, uint64_t sale);
/* When the next deadline or move is due; INT64_MAX: none known. */
int64_t deadline_scheduler_next_ms(struct deadline_scheduler *scheduler, struct catalog *catalog);
size_t deadline_scheduler_pending(const struct deadline_scheduler *scheduler);

#endif
