/*
 * Promise 12: Replaying the journal gives the acknowledged state; twice is the same as once. A torn
 * tail is cut; damage in the middle refuses to start, and says where. Journal is trimmed only below
 * what the ledger has booked.
 *
 * Checked at each start: every order that an answer showed, every order of the ledger and every
 * decision that was durable before is there, with the same user, quantity and time, at least in the
 * furthest state shown. Nothing else is there, except decisions since the last step before the crash.
 * The journal reaches as far as the ledger has booked, the gate no further than the
 * ledger's events. (That a second replay is the same is the simulator's own check, process.c.)
 */
#include "referee_private.h"

#define LLU(x) ((unsigned long long)(x))

void promise_12_step(struct referee *r)
{
    if (r->booked_lsn > r->view.durable_lsn) {
        sim_broken(r->sim, 12, "the ledger has booked up to LSN %llu; durable is %llu",
                   LLU(r->booked_lsn), LLU(r->view.durable_lsn));
    }
}

void promise_12_found(struct referee *r, const struct ref_order *order,
                      const struct gate_order *at_gate)
{
    uint64_t user = order->in_truth ? order->user : order->gate_user;
    uint32_t qty = order->in_truth ? order->qty : order->gate_qty;
    int64_t created_ms = order->in_truth ? order->created_at_ms : order->gate_created_ms;
    if (!order->in_truth && !order->seen) {
        /* Decided in the last, unseen step of a server that died? Then not before that step. */
        if (at_gate->created_at_ms < r->gate_ms) {
            sim_broken(r->sim, 12, "order %s of %lld is there after a restart, and was not before",
                       ref_name(order->id).text, (long long)at_gate->created_at_ms);
        }
        return;
    }
    if (at_gate->user != user || at_gate->qty != qty || at_gate->created_at_ms != created_ms) {
        sim_broken(r->sim, 12,
                   "order %s was of user %llu, qty %u, created %lld; after a restart of user %llu, "
                   "qty %u, created %lld",
                   ref_name(order->id).text, LLU(user), qty, (long long)created_ms,
                   LLU(at_gate->user), at_gate->qty, (long long)at_gate->created_at_ms);
    }
}

static void check_order(struct referee *r, const struct ref_order *order)
{
    int told = ref_told_rank(order, r->now);
    const char *lost = NULL;
    if (ref_forgotten(order)) {
        return;
    }
    if (!order->in_gate) {
        lost = told >= 0                                          ? "was told to somebody"
               : order->in_truth                                  ? "is in the ledger"
               : order->seen && order->gate_lsn <= r->durable_lsn ? "was durable"
                                                                  : NULL;
    } else if (told > ref_rank(ref_state_at(order, r->applied))) {
        lost = "was told to be further";
    }
    if (lost != NULL) {
        sim_broken(r->sim, told >= 0 ? 3 : 12,
                   "order %s %s (LSN %llu, durable was %llu); after a restart it is %s",
                   ref_name(order->id).text, lost, LLU(order->gate_lsn), LLU(r->durable_lsn),
                   order->in_gate ? order_state_text(ref_state_at(order, r->applied)) : "lost");
    }
}

void promise_12_started(struct referee *r)
{
    if (r->view.last_lsn < r->booked_lsn) {
        sim_broken(r->sim, 12, "started with LSN %llu; the ledger has booked up to %llu",
                   LLU(r->view.last_lsn), LLU(r->booked_lsn));
        return;
    }
    for (uint32_t i = 0; i < r->orders.count && !sim_is_broken(r->sim); i++) {
        check_order(r, r->orders.entries[i]);
    }
}
