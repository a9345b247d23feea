/*
 * The embedded engine: the gate, its lock and its journal, behind port/gate.
 *
 * Happy path of a buy, on the loop that read it: take the lock, run gate_step, append the command
 * to the journal's open buffer (so log order is decision order), note the LSN, unlock. There is no
 * I/O, allocation or formatting under the lock; the append wakes the journal thread if that sleeps
 * (once per sleep, not once per record). The answer is sent once the LSN is durable. The
 * ledger writer applies committed ledger events the same way, through embedded_gate_apply().
 *
 * What can go wrong: the journal fails. Then nothing new is decided. Durable orders are still
 * answered.
 */
#ifndef SLUICE_EMBEDDED_EMBEDDED_GATE_H
#define SLUICE_EMBEDDED_EMBEDDED_GATE_H

#include "base/waker.h"
#include "journal/journal.h"
#include "port/gate.h"
#include "port/order_notices.h"

struct embedded_gate;

/* The caller owns gate, journal and wakers, one for each loop. They must outlive the engine. */
int embedded_gate_new(struct gate *gate, struct journal *journal, struct waker *wakers,
                      uint32_t loops, struct embedded_gate **ret_engine);
void embedded_gate_free(struct embedded_gate *engine);
struct gate_port *embedded_gate_port(struct embedded_gate *engine);
struct order_notices *embedded_gate_notices(struct embedded_gate *engine);

/*
 * Ledger writer only: applies one committed ledger event. Returns 0 and its LSN; 0 and LSN 0 if it
 * was applied before; ERR_JOURNAL_FAILED; ERR_AGAIN if it was applied in part and must be sent
 * again; ERR_INVALID if the gate refuses it (the caller logs and skips the event). While the journal's
 * buffer is full, waits for the journal thread; ERR_NOSPACE if that waits for space on the disk:
 * nothing was applied, and the caller sends the event again later.
 */
int embedded_gate_apply(struct embedded_gate *engine, const struct gate_command *command,
                        uint64_t *ret_lsn, enum refusal *ret_refusal);
uint64_t embedded_gate_applied_event(struct embedded_gate *engine);

/* How many more sales and items fit into the gate. */
void embedded_gate_room(struct embedded_gate *engine, uint32_t *ret_sales, uint32_t *ret_items);
/* True if no unit of the sale is locked: no order of it is left to book, pay or expire. */
bool embedded_gate_sale_idle(struct embedded_gate *engine, uint64_t sale);

/*
 * For a comparison with the ledger: the next orders from *slot on, at most max. Looks at a bounded
 * number of slots under the lock, so it may return none; done when *slot is GATE_NONE. An order that
 * comes meanwhile may be left out.
 */
size_t embedded_gate_orders(struct embedded_gate *engine, uint32_t *slot,
                            struct order_view *ret_views, size_t max);
/* False: the gate has no such order. */
bool embedded_gate_order(struct embedded_gate *engine, struct order_id id,
                         struct order_view *ret_view);
/* Whether the gate may lack an order that the ledger has in this state: the gate does not have the
 * item, or the order is final and may have been evicted. */
bool embedded_gate_may_lack(struct embedded_gate *engine, uint64_t item, struct order_id id,
                            enum order_state state);
/* Ledger writer only: if the gate is nearly full of orders, evicts some that are final, durable and
 * delivered to those who watch them. Returns in how many ms to call it again; INT64_MAX: no
 * hurry. */
int64_t embedded_gate_evict(struct embedded_gate *engine, int64_t now_ms);

/* Numbers for metrics, live feed and logs. */
struct embedded_gate_numbers {
    uint32_t orders;
    uint32_t buyers;
    uint32_t items;
    uint32_t sales;
    uint64_t evicted; /* orders, since the start */
    struct gate_sizes sizes;
    uint64_t durable_lsn;
    uint64_t last_lsn;
};
void embedded_gate_count(struct embedded_gate *engine, struct embedded_gate_numbers *ret_numbers);

#endif
