/*
 * Promise 7: Only legal moves; a buyer's view never goes backwards, on poll, long poll, SSE or
 * reconnect. 404 is said only by a front that could look.
 *
 * Moves are checked in the truth, against a second table, and at the gate after each step
 * (referee_gate.c). An answer shows at least the furthest state that any answer had shown when its
 * request was sent: QUEUED, LOCKED, final. The ledger decides which final state it is (promise_03.c).
 * Events of one stream go forwards, and event ids grow with the order's states across all streams. 404,
 * or `queued` for an order that was shown in a later state, is a step backwards.
 */
#include "referee_private.h"

#define LLU(x) ((unsigned long long)(x))

void promise_07_moved(struct referee *r, const struct ref_order *order, enum order_state to)
{
    static const bool legal[ORDER_STATE_COUNT][ORDER_STATE_COUNT] = {
        [ORDER_QUEUED] = {[ORDER_LOCKED] = true, [ORDER_FAILED] = true},
        [ORDER_LOCKED] = {[ORDER_PAID] = true, [ORDER_EXPIRED] = true, [ORDER_CANCELLED] = true},
    };
    if (!legal[order->state][to]) {
        sim_broken(r->sim, 7, "order %s went from %s to %s in the ledger", ref_name(order->id).text,
                   order_state_text(order->state), order_state_text(to));
    }
}

void promise_07_told(struct referee *r, const struct sim_request *request, struct ref_request *rr,
                     const struct ref_order *order, const struct sim_told *told)
{
    static const char *const ranks[] = {"QUEUED", "LOCKED", "final"};
    int known = ref_told_rank(order, rr->sent_at);
    if (ref_rank(told->state) < known) {
        sim_broken(r->sim, 7, "order %s was told as %s (request %llu, %s); it was known to be %s",
                   ref_name(order->id).text, order_state_text(told->state), LLU(request->number),
                   sim_call_text(request->call), ranks[known]);
    }
}

void promise_07_streamed(struct referee *r, const struct sim_request *request,
                         struct ref_request *rr, struct ref_order *order, uint64_t id,
                         const struct sim_told *told)
{
    int rank = ref_rank(told->state);
    if (rr->streamed && (id <= rr->stream_id || rank <= rr->rank)) {
        sim_broken(r->sim, 7, "the stream of order %s (request %llu) went from id %llu to %llu, %s",
                   ref_name(order->id).text, LLU(request->number), LLU(rr->stream_id), LLU(id),
                   order_state_text(told->state));
        return;
    }
    rr->streamed = true;
    rr->stream_id = id;
    rr->rank = (uint8_t)rank;
    for (int i = 0; i < RANKS; i++) {
        uint64_t other = order->stream_id[i];
        bool fits = other == 0 || (i < rank ? other < id : i == rank ? other == id : other > id);
        if (!fits) {
            sim_broken(r->sim, 7, "order %s has stream id %llu as %s; another state had id %llu",
                       ref_name(order->id).text, LLU(id), order_state_text(told->state),
                       LLU(other));
            return;
        }
    }
    order->stream_id[rank] = id;
}

void promise_07_heard(struct referee *r, const struct sim_request *request,
                      const struct ref_request *rr, const struct sim_answer *answer)
{
    bool board = request->call == CALL_ORDER || request->call == CALL_ORDER_EVENTS ||
                 request->call == CALL_CANCEL;
    const struct ref_order *order = ref_find_order(r, request->order);
    if ((!board && request->call != CALL_PAY) || order == NULL) {
        return;
    }
    int told = ref_told_rank(order, rr->sent_at);
    int truth = ref_truth_rank(order, rr->sent_at);
    bool his = request->call == CALL_PAY || request->user == order->buyer->pair.a;
    bool gone = board && ref_forgotten(order);
    if (answer->status == 404 && his && !gone && (told >= 0 || truth >= 0)) {
        sim_broken(r->sim, 7, "order %s was known, and request %llu (%s) was answered 404",
                   ref_name(order->id).text, LLU(request->number), sim_call_text(request->call));
    } else if (ref_code(answer, "queued") && told >= RANK_LOCKED) {
        sim_broken(r->sim, 7, "order %s was told as LOCKED, and request %llu (%s): queued",
                   ref_name(order->id).text, LLU(request->number), sim_call_text(request->call));
    }
}
