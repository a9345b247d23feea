/*
 * The embedded engine: the gate, its lock and its journal, behind port/gate.
 *
 * Happy path of a buy, on the loop that read it: take the lock, run gate_step, append the command
 * to the journal's open buffer (so log order is decision order), note the LSN, unlock. No syscall,
 * allocation or formatting inside. The answer is told when the LSN is durable.
 * The ledger writer applies what the ledger committed through embedded_gate_apply(), the same way.
 *
 * What can go wrong: a failed journal. Then nothing is decided any more; orders that are durable
 * are still answered.
 *
 * With a gate on other machines (embedded_gate_new_remote) the engine is only what the loops of this
 * process share: the port, the journal, the wakers, and the news that the gate subscriber brings.
 */
#ifndef SLUICE_FLOW_EMBEDDED_GATE_H
#define SLUICE_FLOW_EMBEDDED_GATE_H

#include "flow/journal.h"
#include "flow/waker.h"
#include "port/gate.h"

struct embedded_gate;

/* gate and journal stay the caller's and outlive the engine. */
int embedded_gate_new(struct gate *gate, struct journal *journal, uint32_t loops,
                      struct embedded_gate **ret_engine);
/* port: what the loops ask instead; it stays the caller's. */
int embedded_gate_new_remote(struct gate_port *port, struct journal *journal, uint32_t loops,
                             struct embedded_gate **ret_engine);
void embedded_gate_free(struct embedded_gate *engine);
struct gate_port *embedded_gate_port(struct embedded_gate *engine);
struct journal *embedded_gate_journal(struct embedded_gate *engine);

/* Before threads start: how to wake each loop, and the ledger writer. */
struct waker *embedded_gate_waker(struct embedded_gate *engine, uint32_t loop);
void embedded_gate_on_durable(struct embedded_gate *engine, void (*ledger_writer)(void *context),
                              void *context);

/*
 * Ledger writer only: applies one committed ledger event. 0 and its lsn; applied before: 0 and lsn 0;
 * ERR_JOURNAL_FAILED; ERR_AGAIN: applied in part, send it again; ERR_INVALID when the gate refuses it (the
 * caller logs and skips the event).
 * Waits while the journal's buffer is full.
 */
int embedded_gate_apply(struct embedded_gate *engine, const struct gate_command *command,
                        uint64_t *ret_lsn, enum refusal *ret_refusal);
uint64_t embedded_gate_applied_event(struct embedded_gate *engine);

/* How many more sales and items the gate has room for. */
void embedded_gate_room(struct embedded_gate *engine, uint32_t *ret_sales, uint32_t *ret_items);
/* No unit of the sale is locked: nothing of it is still to be booked, paid or expired. */
bool embedded_gate_sale_idle(struct embedded_gate *engine, uint64_t sale);

/* Orders that changed and were watched by this loop: up to max of them, as they are now (each is
 * shown only once its lsn is durable). The loop goes on watching them. *ret_all: there were too many
 * to list, look at everything you watch. */
size_t embedded_gate_notices(struct embedded_gate *engine, uint32_t loop,
                             struct order_view *ret_views, size_t max, bool *ret_all);

/* Of a remote gate, whose news are of all orders: the loop wants to hear of this one from now on, and
 * has to look it up afterwards, for what was before it is not told; and: not any more. Called as often
 * as it is watched, by the loop. */
void embedded_gate_watch(struct embedded_gate *engine, uint32_t loop, struct order_id id);
void embedded_gate_unwatch(struct embedded_gate *engine, uint32_t loop, struct order_id id);
/* Of a remote gate: this order has changed; or: some may have, unheard. Every loop that watches it is
 * told, or every loop. */
void embedded_gate_tell(struct embedded_gate *engine, const struct order_view *view);
void embedded_gate_tell_all(struct embedded_gate *engine);

/* Numbers for metrics, live feed and logs. */
struct embedded_gate_numbers {
    uint32_t orders;
    uint32_t buyers;
    uint32_t items;
    uint64_t durable_lsn;
    uint64_t last_lsn;
};
void embedded_gate_count(struct embedded_gate *engine, struct embedded_gate_numbers *ret_numbers);

#endif
