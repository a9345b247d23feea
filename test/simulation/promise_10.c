/*
 * Promise 10: No order outside the sale's window, whatever the clock does. Inside time = wall clock
 * at start + CLOCK_BOOTTIME, slewed gently, never below the highest time journalled; larger jumps
 * are logged, not followed. (A clock already wrong at start cannot be detected.)
 *
 * Checked when an order appears at the gate: its time lies in a window the sale had since the step
 * before, it was neither paused nor closed all that time, the ticket had not expired. The gate's
 * window is the ledger's (as of the events applied). A sale opens or closes by itself only when its
 * time has come, else only if an operator asked.
 *
 * The clock: a model of our own, from the wall clock read at the start and the boot clock, with two
 * bounds (what was journalled last is known only from what was told and seen). Decisions, batches
 * and /v1/time lie between them, and never run backwards.
 */
#include "referee_private.h"

#define LLU(x) ((unsigned long long)(x))
/* A slew may take back half a millisecond between two readings. */
#define BACK_MS 1

static bool window_open(const struct ref_era *era, int64_t at_ms)
{
    return (era->state == SALE_OPEN || era->state == SALE_WARM) && at_ms >= era->starts_at_ms &&
           at_ms < era->ends_at_ms;
}

void promise_10_decided(struct referee *r, const struct ref_order *order)
{
    const struct ref_sale *sale = order->item->sale;
    int64_t at_ms = order->gate_created_ms;
    bool open = false;
    for (uint32_t i = 0; sale != NULL && i < sale->eras_count; i++) {
        open = open || (sale->eras[i].until >= r->step_at && window_open(&sale->eras[i], at_ms));
    }
    /* Events of this very step are not in the eras yet. */
    open = open || r->applied < r->view.gate->applied_event;
    if (!open) {
        const struct ref_era *era =
            sale != NULL && sale->eras_count > 0 ? &sale->eras[sale->eras_count - 1] : NULL;
        sim_broken(r->sim, 10, "order %s was decided at %lld; its sale is %s from %lld to %lld",
                   ref_name(order->id).text, (long long)at_ms,
                   era != NULL ? sale_state_text(era->state) : "not loaded",
                   era != NULL ? (long long)era->starts_at_ms : 0LL,
                   era != NULL ? (long long)era->ends_at_ms : 0LL);
    } else if (at_ms >= order->ticket_expires_ms) {
        sim_broken(r->sim, 10, "order %s was decided at %lld; its ticket expired at %lld",
                   ref_name(order->id).text, (long long)at_ms, (long long)order->ticket_expires_ms);
    } else if (at_ms < r->gate_ms || at_ms > ref_inside_high(r)) {
        sim_broken(r->sim, 10, "order %s was decided at %lld; it was %lld to %lld by then",
                   ref_name(order->id).text, (long long)at_ms, (long long)r->gate_ms,
                   (long long)ref_inside_high(r));
    }
}

void promise_10_moved(struct referee *r, const struct ref_sale *sale, enum sale_state to,
                      int64_t now_ms)
{
    bool due = (to == SALE_OPEN && now_ms >= sale->starts_at_ms) ||
               (to == SALE_CLOSED && now_ms >= sale->ends_at_ms);
    if (!due && sale->moves_asked[to] == 0) {
        sim_broken(r->sim, 10,
                   "sale %llu (%s, from %lld to %lld) became %s at %lld, and nobody asked",
                   LLU(sale->pair.a), sale_state_text(sale->state), (long long)sale->starts_at_ms,
                   (long long)sale->ends_at_ms, sale_state_text(to), (long long)now_ms);
    }
}

void promise_10_sale(struct referee *r, const struct ref_sale *sale,
                     const struct gate_sale *at_gate)
{
    if (sale->eras_count == 0) {
        return;
    }
    const struct ref_era *era = &sale->eras[sale->eras_count - 1];
    if (at_gate->state != era->state || at_gate->starts_at_ms != era->starts_at_ms ||
        at_gate->ends_at_ms != era->ends_at_ms || (at_gate->bar_unpaid != 0) != sale->bar_unpaid) {
        sim_broken(r->sim, 10,
                   "sale %llu is %s from %lld to %lld at the gate; by the ledger it is %s from "
                   "%lld to %lld",
                   LLU(sale->pair.a), sale_state_text((enum sale_state)at_gate->state),
                   (long long)at_gate->starts_at_ms, (long long)at_gate->ends_at_ms,
                   sale_state_text(era->state), (long long)era->starts_at_ms,
                   (long long)era->ends_at_ms);
    }
}

/* ---- the clock ---- */

const struct clock_bounds referee_clock_bounds = {
    .behind_ms = 60000, .hold_ahead_ms = 3600000, .max_ahead_ms = 90 * 86400000LL};

/* Time may have gone further than the folder knows (before_ms is the most it can be), so this never
 * asks for more than the server could know. */
void promise_10_started(struct referee *r, int64_t wall_ms, int64_t steady_us)
{
    int64_t ahead_ms = wall_ms - r->before_ms;
    if (r->before_ms == 0) {
        return;
    }
    if (ahead_ms > referee_clock_bounds.max_ahead_ms) {
        sim_broken(r->sim, 10, "the server started with a clock %lld ms ahead of all it had seen",
                   (long long)ahead_ms);
    } else if (ahead_ms > referee_clock_bounds.hold_ahead_ms &&
               steady_us < REFEREE_CONFIRM_MS * 1000LL) {
        sim_broken(r->sim, 10,
                   "the server believed a clock %lld ms ahead, which was set %lld us before",
                   (long long)ahead_ms, (long long)steady_us);
    }
}

void promise_10_heard(struct referee *r, const struct sim_request *request,
                      const struct ref_request *rr, const struct sim_answer *answer)
{
    if (request->call != CALL_TIME || answer->status != 200 || !r->up || rr->life != r->life) {
        return;
    }
    if (answer->now_ms < rr->inside_ms || answer->now_ms > ref_inside_high(r)) {
        sim_broken(r->sim, 10, "the time was told as %lld (request %llu); it was %lld to %lld",
                   (long long)answer->now_ms, LLU(request->number), (long long)rr->inside_ms,
                   (long long)ref_inside_high(r));
    }
}

void promise_10_committed(struct referee *r, const struct ledger_batch *batch)
{
    if (batch->now_ms + BACK_MS < r->truth_ms && !r->accepts) {
        sim_broken(r->sim, 10, "a batch was written at %lld, after one at %lld",
                   (long long)batch->now_ms, (long long)r->truth_ms);
    }
    /* How late it may be is known at the end of this step. */
    r->batch_ms = batch->now_ms > r->batch_ms ? batch->now_ms : r->batch_ms;
}

void promise_10_step(struct referee *r)
{
    int64_t high_ms = ref_inside_high(r);
    high_ms = r->highest_ms > high_ms ? r->highest_ms : high_ms; /* a batch of an earlier life */
    if (r->batch_ms > high_ms) {
        sim_broken(r->sim, 10, "a batch was written at %lld; it is %lld at most",
                   (long long)r->batch_ms, (long long)high_ms);
    }
    if (r->view.gate->highest_ms > high_ms) {
        sim_broken(r->sim, 10, "the gate has seen %lld; it is %lld at most",
                   (long long)r->view.gate->highest_ms, (long long)high_ms);
    }
}
