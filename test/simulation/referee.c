/*
 * The referee records requests, answers, commits and steps, and calls the checkers, one file for each
 * promise of the design. Promise 11 is about leases, and this engine has none.
 *
 * The referee assumes no order of concurrent steps. An answer must agree with what was known when its
 * request was sent; see referee_private.h.
 */
#include "referee.h"

#include <stdlib.h>

#include "base/check.h"
#include "referee_private.h"

struct referee *referee_new(struct sim *sim)
{
    struct referee *r = calloc(1, sizeof(*r));
    CHECK(r != NULL);
    r->sim = sim;
    return r;
}

void referee_free(struct referee *r)
{
    if (r == NULL) {
        return;
    }
    for (uint32_t i = 0; i < r->sales.count; i++) {
        free(((struct ref_sale *)r->sales.entries[i])->eras);
    }
    for (uint32_t i = 0; i < r->items.count; i++) {
        free(((struct ref_item *)r->items.entries[i])->available.ended);
        free(((struct ref_item *)r->items.entries[i])->most.ended);
    }
    ref_table_done(&r->sales);
    ref_table_done(&r->items);
    ref_table_done(&r->buyers);
    ref_table_done(&r->orders);
    ref_table_done(&r->keys);
    ref_table_done(&r->bodies);
    free(r->requests);
    free(r->open);
    free(r->events);
    free(r);
}

/* ---- sent ---- */

static struct ref_order *order_new(struct referee *r, const struct sim_request *request)
{
    struct order_id id = request->order;
    struct ref_order *order = ref_table_add(&r->orders, id.hi, id.lo, sizeof(*order));
    order->id = id;
    order->item = ref_item(r, order_id_item(id));
    order->buyer = ref_buyer(r, request->user, order->item->pair.a);
    order->next_of_buyer = order->buyer->orders;
    order->buyer->orders = order;
    order->gate_ended_at = NEVER;
    for (int i = 0; i < RANKS; i++) {
        order->told_at[i] = NEVER;
        order->truth_at[i] = NEVER;
    }
    return order;
}

static void sent_buy(struct referee *r, const struct sim_request *request)
{
    struct ref_order *order = ref_find_order(r, request->order);
    if (order == NULL) {
        order = order_new(r, request);
    }
    order->buys_sent++;
    if (request->ticket_expires_ms > order->ticket_expires_ms) {
        order->ticket_expires_ms = request->ticket_expires_ms;
    }
    if (ref_was_asked(order, request->user, order->item->pair.a, request->qty)) {
        return;
    }
    if (order->asks_count == ASKS_MAX) {
        order->asked_otherwise = true;
        return;
    }
    order->requests[order->asks_count++] = (struct ref_ask){request->user, request->qty};
}

static uint64_t pay_hash(const struct sim_request *request)
{
    return ref_body_hash(LEDGER_PAY, request->key, request->order.hi, request->order.lo,
                         (uint64_t)request->amount_cents);
}

static uint64_t restock_hash(const struct sim_request *request)
{
    return ref_body_hash(LEDGER_RESTOCK, request->key, request->item, request->amount, 0);
}

void referee_sent(struct referee *r, const struct sim_request *request)
{
    struct ref_request *rr = ref_request(r, request->number);
    const struct ref_item *item = ref_table_find(&r->items, request->item, 0);
    r->now++;
    r->waiting++;
    *rr = (struct ref_request){.sent_at = r->now,
                               .life = r->life,
                               .waits = true,
                               .total = item != NULL ? item->gate_total : 0,
                               .sold = item != NULL ? item->gate_sold : 0,
                               .inside_ms = r->life > 0 ? ref_inside_low(r) : 0};
    struct ref_order *order;
    switch (request->call) {
    case CALL_BUY:
        sent_buy(r, request);
        break;
    case CALL_CANCEL:
        order = ref_find_order(r, request->order);
        if (order != NULL) {
            order->cancels_sent++;
        }
        break;
    case CALL_PAY:
        ref_body(r, pay_hash(request))->sent++;
        break;
    case CALL_RESTOCK:
        ref_body(r, restock_hash(request))->sent++;
        break;
    case CALL_SALE_MOVE:
        ref_sale(r, request->sale)->moves_asked[request->target]++;
        break;
    case CALL_SALE_CHANGE:
        ref_sale(r, request->sale)->changes_asked++;
        break;
    default:
        break;
    }
}

/* ---- told ---- */

/* Where an order is shown: an answer, an event of a stream, a row of a list. */
static struct ref_order *tell(struct referee *r, const struct sim_request *request,
                              struct ref_request *rr, const struct sim_told *told)
{
    struct ref_order *order = ref_find_order(r, told->id);
    promise_04_told(r, request, order, told);
    if (order == NULL || sim_is_broken(r->sim)) {
        return NULL;
    }
    promise_03_told(r, request, rr, order, told);
    promise_06_told(r, order, told);
    promise_07_told(r, request, rr, order, told);
    if (sim_is_broken(r->sim)) {
        return NULL;
    }
    bool first = ref_told_rank(order, r->now) < 0;
    for (int i = 0; i <= ref_rank(told->state); i++) {
        order->told_at[i] = order->told_at[i] == NEVER ? r->now : order->told_at[i];
    }
    if (told->created_at_ms != 0) {
        order->told_created_ms = told->created_at_ms;
    }
    if (first && !order->in_truth && order->in_gate) {
        struct ref_buyer *buyer = ref_buyer(r, order->gate_user, order->item->pair.a);
        order->told_units = order->gate_qty;
        buyer->told += order->gate_qty;
        promise_05_buyer(r, buyer);
    }
    int64_t created_ms = order->in_gate ? order->gate_created_ms : order->created_at_ms;
    if (!order->before_set_back && created_ms > r->promised_ms) {
        r->promised_ms = created_ms;
    }
    return order;
}

/* ---- heard ---- */

static void heard_refusal(struct referee *r, const struct sim_request *request,
                          const struct sim_answer *answer)
{
    struct ref_order *order = ref_find_order(r, request->order);
    if (answer->status < 400 || ref_outcome_unknown(answer)) {
        return;
    }
    switch (request->call) {
    case CALL_BUY:
        r->full += ref_code(answer, "overloaded");
        order->buys_refused++;
        order->buys_refused_at = r->now;
        break;
    case CALL_CANCEL:
        if (order != NULL && order->cancels_refused < order->cancels_sent) {
            order->cancels_refused++;
        }
        break;
    case CALL_PAY: {
        struct ref_body *body = ref_body(r, pay_hash(request));
        body->refused++;
        if (ref_code(answer, "expired") && body->told_expired_at == NEVER) {
            body->told_expired_at = r->now;
        }
        break;
    }
    case CALL_RESTOCK:
        ref_body(r, restock_hash(request))->refused++;
        break;
    default:
        break;
    }
}

static void heard_done(struct referee *r, const struct sim_request *request,
                       const struct sim_answer *answer)
{
    if (answer->status != 200 && answer->status != 201) {
        return;
    }
    struct ref_body *body = NULL;
    if (request->call == CALL_PAY) {
        body = ref_body(r, pay_hash(request));
    } else if (request->call == CALL_RESTOCK) {
        body = ref_body(r, restock_hash(request));
    }
    if (body != NULL && body->told_done_at == NEVER) {
        body->told_done_at = r->now;
    }
}

/* The request is over; what it was sent under. */
static struct ref_request *over(struct referee *r, const struct sim_request *request)
{
    struct ref_request *rr = ref_request(r, request->number);
    r->now++;
    if (rr->waits) {
        rr->waits = false;
        r->waiting--;
    }
    return rr;
}

void referee_heard(struct referee *r, const struct sim_request *request,
                   const struct sim_answer *answer)
{
    struct ref_request *rr = over(r, request);
    if (sim_is_broken(r->sim)) {
        return;
    }
    if (request->call == CALL_CHEAT && answer->status < 400) {
        sim_broken(r->sim, 0, "request %llu of a cheater was answered with %d",
                   (unsigned long long)request->number, answer->status);
        return;
    }
    /* Before anything is written down: the checkers compare with what was known until now. */
    promise_06_heard(r, request, rr, answer);
    if (answer->has_order) {
        (void)tell(r, request, rr, &answer->order);
    }
    for (size_t i = 0; i < answer->orders_count && !sim_is_broken(r->sim); i++) {
        (void)tell(r, request, rr, &answer->orders[i]);
    }
    if (sim_is_broken(r->sim)) {
        return;
    }
    heard_refusal(r, request, answer);
    heard_done(r, request, answer);
    promise_01_numbers(r, request, rr, answer);
    promise_03_heard(r, request, answer);
    promise_04_listed(r, request, rr, answer);
    promise_05_heard(r, request, answer);
    promise_07_heard(r, request, rr, answer);
    promise_08_heard(r, request, answer);
    promise_09_heard(r, request, rr, answer);
    promise_10_heard(r, request, rr, answer);
}

void referee_unheard(struct referee *r, const struct sim_request *request)
{
    (void)over(r, request);
}

void referee_streamed(struct referee *r, const struct sim_request *request, uint64_t id,
                      const struct sim_told *told)
{
    struct ref_request *rr = ref_request(r, request->number);
    r->now++;
    if (sim_is_broken(r->sim)) {
        return;
    }
    struct ref_order *order = tell(r, request, rr, told);
    if (order != NULL) {
        promise_07_streamed(r, request, rr, order, id, told);
    }
}

void referee_item_streamed(struct referee *r, const struct sim_request *request,
                           const struct sim_answer *numbers)
{
    struct ref_request *rr = ref_request(r, request->number);
    r->now++;
    if (!sim_is_broken(r->sim)) {
        promise_01_numbers(r, request, rr, numbers);
    }
}

/* ---- the ledger ---- */

void referee_committed(struct referee *r, const struct ledger_batch *batch)
{
    r->now++;
    if (!sim_is_broken(r->sim)) {
        ref_truth_committed(r, batch);
    }
}

/* ---- the server ---- */

void referee_started(struct referee *r, const struct referee_view *view, int64_t wall_ms,
                     int64_t boot_us)
{
    int64_t known_ms = r->promised_ms > r->truth_ms ? r->promised_ms : r->truth_ms;
    r->now++;
    r->life++;
    r->up = true;
    r->view = *view;
    r->boot_us = boot_us;
    r->boot_start_us = boot_us;
    r->start_low_ms = wall_ms > known_ms ? wall_ms : known_ms;
    r->before_ms = r->highest_ms;
    r->start_high_ms = wall_ms > r->highest_ms ? wall_ms : r->highest_ms;
    r->calm_ms = ref_inside_high(r);
    if (!sim_is_broken(r->sim)) {
        ref_gate_started(r);
    }
    r->gate_ms = view->gate->highest_ms;
    r->highest_ms = r->gate_ms > r->highest_ms ? r->gate_ms : r->highest_ms;
    r->durable_lsn = view->durable_lsn;
    r->step_at = r->now;
    r->step_us = sim_now_us(r->sim);
}

void referee_accepts(struct referee *r, bool accepts)
{
    r->accepts = accepts;
}

void referee_set_back(struct referee *r, int64_t wall_ms)
{
    r->was_set_back = true;
    for (uint32_t i = 0; i < r->orders.count; i++) {
        ((struct ref_order *)r->orders.entries[i])->before_set_back = true;
    }
    r->highest_ms = r->truth_ms = r->promised_ms = r->batch_ms = r->gate_ms = wall_ms;
}

void referee_clock(struct referee *r, int64_t wall_ms, int64_t steady_us, bool accepted)
{
    if (!sim_is_broken(r->sim) && !accepted) {
        promise_10_started(r, wall_ms, steady_us);
    }
}

void referee_ended(struct referee *r)
{
    r->now++;
    r->up = false;
    if (r->life > 0) {
        /* Time has gone on since the last step that was seen. */
        int64_t high_ms = ref_inside_high(r) + (sim_now_us(r->sim) - r->step_us) / 990 + 1;
        r->highest_ms = high_ms > r->highest_ms ? high_ms : r->highest_ms;
    }
}

void referee_step(struct referee *r, const struct referee_view *view, int64_t boot_us,
                  bool disturbed)
{
    r->now++;
    r->steps++;
    if (sim_is_broken(r->sim) || view == NULL || r->life == 0) {
        return;
    }
    r->view = *view;
    r->boot_us = boot_us;
    r->durable_lsn = view->durable_lsn;
    if (disturbed || view->failed) {
        r->calm_ms = ref_inside_high(r);
    }
    ref_gate_step(r);
    promise_10_step(r);
    promise_12_step(r);
    r->gate_ms = view->gate->highest_ms;
    r->highest_ms = r->gate_ms > r->highest_ms ? r->gate_ms : r->highest_ms;
    r->step_at = r->now;
    r->step_us = sim_now_us(r->sim);
    if (r->steps % 64 == 0) {
        promise_08_step(r);
        promise_13_step(r);
    }
}

void referee_end(struct referee *r, const struct referee_view *view)
{
    r->now++;
    if (sim_is_broken(r->sim)) {
        return;
    }
    r->view = *view;
    ref_gate_step(r);
    if (!sim_is_broken(r->sim)) {
        ref_gate_compare_all(r);
    }
    if (!sim_is_broken(r->sim)) {
        promise_13_end(r);
    }
    if (!sim_is_broken(r->sim)) {
        promise_04_end(r);
    }
}

uint64_t referee_unfinished(const struct referee *r)
{
    return r->waiting + r->open_count - promise_13_late(r);
}

void referee_count(const struct referee *r, struct sim_result *result)
{
    result->evictions = r->evictions;
    result->full = r->full;
    for (uint32_t i = 0; i < r->orders.count; i++) {
        const struct ref_order *order = r->orders.entries[i];
        result->orders += ref_told_rank(order, r->now) >= 0;
        if (order->in_truth) {
            result->states[order->state]++;
        }
    }
}
