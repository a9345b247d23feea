/* See model.h: the books. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "world.h"

#define TABLE (MODEL_ORDERS * 2)

void model_init(struct model *ret_model)
{
    memset(ret_model, 0, sizeof(*ret_model));
    ret_model->orders = calloc(MODEL_ORDERS, sizeof(*ret_model->orders));
    ret_model->table = calloc(TABLE, sizeof(*ret_model->table));
    CHECK(ret_model->orders != NULL && ret_model->table != NULL);
}

void model_done(struct model *model)
{
    free(model->orders);
    free(model->table);
}

/* ---- rows ---- */

static uint32_t *place_of(struct model *model, struct order_id id)
{
    uint64_t hash = (id.hi ^ id.lo * 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
    for (size_t at = (hash >> 32) % TABLE;; at = (at + 1) % TABLE) {
        uint32_t row = model->table[at];
        if (row == 0 || order_id_equal(model->orders[row - 1].id, id)) {
            return &model->table[at];
        }
    }
}

struct model_order *model_find(struct model *model, struct order_id id)
{
    uint32_t row = *place_of(model, id);
    return row == 0 ? NULL : &model->orders[row - 1];
}

struct model_order *model_order(struct model *model, struct order_id id)
{
    uint32_t *place = place_of(model, id);
    if (*place == 0) {
        CHECK(model->count < MODEL_ORDERS);
        model->orders[model->count] = (struct model_order){.id = id, .item = order_id_item(id)};
        *place = (uint32_t)++model->count;
    }
    return &model->orders[*place - 1];
}

struct model_item *model_item(struct model *model, uint64_t item)
{
    for (size_t i = 0; i < model->items_count; i++) {
        if (model->items[i].id == item) {
            return &model->items[i];
        }
    }
    CHECK(model->items_count < MODEL_ITEMS);
    model->items[model->items_count] = (struct model_item){.id = item};
    return &model->items[model->items_count++];
}

int model_rank(enum order_state state)
{
    return state == ORDER_QUEUED ? 0 : state == ORDER_LOCKED ? 1 : 2;
}

/* ---- clients ---- */

static uint32_t home_of(const struct world *world, uint64_t user)
{
    const struct sale_row *sale = world->ledger.sales[0];
    return regions_home(&sale->regions, user, sale->homes);
}

static uint32_t segment_of(const struct world *world, const struct gate_request *buy)
{
    return order_id_kind(buy->id) == ORDER_ONCE ? home_of(world, buy->user)
                                                : order_id_segment(buy->id);
}

void model_asked(struct world *world, const struct gate_request *buy)
{
    struct model_order *order = model_order(&world->model, buy->id);
    order->buys.sent++;
    if (order->asked) {
        return;
    }
    order->asked = true;
    order->user = buy->user;
    order->qty = buy->qty;
    order->segment = segment_of(world, buy);
    order->forgot = world->model.forgot[order->segment];
}

/* His buyer asks for it after this: no front may tell less then. */
static void has_seen(struct model_order *order, uint32_t process, enum order_state state)
{
    int rank = model_rank(state);
    order->shown = rank > model_rank(order->shown) ? state : order->shown;
    order->shown_by[process] = rank > order->shown_by[process] ? rank : order->shown_by[process];
}

struct model_wait model_wait_at(const struct world *world, uint64_t item, uint64_t user,
                                uint64_t event)
{
    struct model_wait wait = {.barred = false};
    for (size_t i = 0; i < world->model.count; i++) {
        const struct model_order *order = &world->model.orders[i];
        if (!order->booked || order->item != item || order->user != user || order->event > event) {
            continue;
        }
        wait.barred = wait.barred || (order->state == ORDER_EXPIRED && world->plan.bar_unpaid) ||
                      (order->state == ORDER_CANCELLED && order->reason == REFUSAL_BARRED);
        wait.until_ms =
            order->cooling_until_ms > wait.until_ms ? order->cooling_until_ms : wait.until_ms;
    }
    wait.until_ms = wait.barred ? 0 : wait.until_ms;
    return wait;
}

struct model_before model_before(struct world *world, uint32_t process,
                                 const struct gate_request *request)
{
    struct model_before before = {.shown = ORDER_QUEUED};
    const struct model_order *order = model_find(&world->model, request->id);
    if (order != NULL) {
        const struct gate *gate = sim_segments_gate(world->segments, order->segment);
        before = (struct model_before){.shown = order->shown,
                                       .shown_by = order->shown_by[process],
                                       .waits = promise_07_waits(world, order, process),
                                       .applied = gate != NULL ? gate->applied_event : 0};
    }
    if (request->kind == GATE_REQUEST_BUY) {
        uint32_t segment = segment_of(world, request);
        const struct gate *gate = sim_segments_gate(world->segments, segment);
        before.epoch = sim_segments_epoch(world->segments, segment);
        before.wait = model_wait_at(world, request->item, request->user,
                                    gate != NULL ? gate->applied_event : 0);
    }
    return before;
}

void model_told(struct world *world, uint32_t process, const struct gate_request *request,
                const struct model_before *before)
{
    struct model *model = &world->model;
    world->result->answers++;
    world->result->decisions += request->kind == GATE_REQUEST_BUY;
    world->result->full += request->bound != GATE_BOUND_NONE;
    if (request->kind != GATE_REQUEST_BUY && request->kind != GATE_REQUEST_ORDER) {
        return;
    }
    struct model_order *order = model_order(model, request->id);
    if (request->kind == GATE_REQUEST_ORDER && request->refusal == REFUSAL_NOT_FOUND &&
        order->told) {
        promise_07_missing(world, order, process, before->applied);
    }
    if (request->kind == GATE_REQUEST_BUY && request->refusal == REFUSAL_SOLD_OUT &&
        before->waits) {
        promise_07_sold_out(world, order, process);
    }
    if (request->kind == GATE_REQUEST_BUY) {
        promise_05_told(world, request, before);
        promise_09_told(world, order, &order->buys, request->refusal);
    }
    if (request->refusal != REFUSAL_NONE || !request->has_order) {
        return;
    }
    promise_06_told(world, order, request);
    order->told = true;
    order->undecided = order->undecided || request->order.reason == REFUSAL_UNDECIDED;
    if (request->kind == GATE_REQUEST_BUY && request->order.state == ORDER_QUEUED &&
        request->lsn == 0) {
        world_broken(world, 3, "told of a buy that is in no journal of its front");
    }
    promise_03_told(world, order, &request->order);
    /* KNOWN: a front's line knows nothing of what another front has shown meanwhile. */
    enum order_state state = (enum order_state)request->order.state;
    if (request->order.lsn == 0 || model_rank(state) < before->shown_by) {
        promise_07_told(world, order, before->shown, state);
    }
    has_seen(order, process, state);
}

void model_pushed(struct world *world, uint32_t process, const struct order_view *view)
{
    struct model_order *order = model_find(&world->model, view->id);
    if (order == NULL || !order->told || view->version <= order->heard[process]) {
        return; /* nobody watches it, or he has heard of it: the front leaves it out */
    }
    order->heard[process] = view->version;
    promise_03_told(world, order, view);
    has_seen(order, process, (enum order_state)view->state);
}

/* NULL: not about an order. */
static struct model_requests *requests_of(struct model_order *order, enum ledger_kind kind)
{
    return kind == LEDGER_PAY ? &order->pays : kind == LEDGER_CANCEL ? &order->cancels : NULL;
}

void model_writes(struct world *world, const struct ledger_op *op)
{
    struct model_order *order = model_find(&world->model, op->id);
    struct model_requests *requests = order == NULL ? NULL : requests_of(order, op->kind);
    if (requests != NULL) {
        requests->sent++;
    }
}

void model_wrote(struct world *world, uint32_t process, const struct ledger_op *op)
{
    struct model_order *order = model_find(&world->model, op->id);
    struct model_requests *requests = order == NULL ? NULL : requests_of(order, op->kind);
    if (requests != NULL) {
        promise_09_told(world, order, requests, op->refusal);
    }
    if (op->refusal != REFUSAL_NONE) {
        return;
    }
    if (op->kind == LEDGER_PAY && (order == NULL || order->state != ORDER_PAID)) {
        world_broken(world, 3, "a payment was taken of an order that is not paid");
    }
    if (op->kind == LEDGER_CANCEL && (order == NULL || order->state != ORDER_CANCELLED)) {
        world_broken(world, 3, "an order was said to be cancelled that is not");
    }
    if (order != NULL && op->kind == LEDGER_CANCEL) { /* who pays is the shop */
        has_seen(order, process, ORDER_CANCELLED);
    }
}

/* ---- the ledger ---- */

static enum order_state state_of(enum ledger_event_kind kind)
{
    switch (kind) {
    case EVENT_ORDER_LOCKED:
        return ORDER_LOCKED;
    case EVENT_ORDER_PAID:
        return ORDER_PAID;
    case EVENT_ORDER_EXPIRED:
        return ORDER_EXPIRED;
    case EVENT_ORDER_CANCELLED:
        return ORDER_CANCELLED;
    case EVENT_ORDER_FAILED:
        return ORDER_FAILED;
    default:
        return ORDER_STATE_COUNT;
    }
}

static void order_event(struct world *world, const struct ledger_event *event, enum order_state to)
{
    struct model *model = &world->model;
    struct model_order *order = model_order(model, event->id);
    struct model_item *item = model_item(model, event->item);
    promise_07_event(world, order, to);
    bool was_locked = order->booked && order->state == ORDER_LOCKED;
    item->locked += to == ORDER_LOCKED ? event->qty : was_locked ? -(int64_t)event->qty : 0;
    item->sold += to == ORDER_PAID ? event->qty : 0;
    if (was_locked && to != ORDER_PAID) {
        order->returned++;
    }
    if (to == ORDER_LOCKED) {
        order->pay_by_ms = event->a;
        if (order->asked && (order->user != event->user || order->qty != event->qty)) {
            world_broken(world, 6, "an order was booked otherwise than it was asked for");
        }
    }
    order->booked = true;
    order->state = to;
    order->reason = event->reason;
    order->cooling_until_ms = to == ORDER_EXPIRED || to == ORDER_CANCELLED ? event->a : 0;
    order->event = event->number;
    promise_02_event(world, event);
    promise_03_event(world, order);
    promise_04_event(world, order);
    promise_05_event(world, order);
    promise_08_event(world, order, event);
    promise_09_look(world, order);
    promise_10_event(world, event);
}

void model_commit(struct world *world, const struct ledger_batch *batch, bool committed)
{
    struct model *model = &world->model;
    promise_11_commit(world, batch, committed);
    for (; model->events < world->ledger.events_count; model->events++) {
        const struct ledger_event *event = &world->ledger.events[model->events];
        enum order_state to = state_of(event->kind);
        if (to != ORDER_STATE_COUNT) {
            order_event(world, event, to);
        } else if (event->kind == EVENT_ITEM_LOADED || event->kind == EVENT_ITEM_RESTOCKED) {
            model_item(model, event->item)->total += event->a;
        } else if (event->kind == EVENT_SALE_OPENED && event->a < model->starts_ms) {
            model->starts_ms = event->a; /* an operator was earlier than its start */
        }
    }
}

/* ---- leases and segments ---- */

void model_lease(struct world *world, const char *name, uint64_t token)
{
    struct model *model = &world->model;
    for (size_t i = 0; i < model->leases_count; i++) {
        if (strcmp(model->leases[i].name, name) == 0) {
            if (token > model->leases[i].token) {
                model->leases[i].token = token;
            }
            return;
        }
    }
    CHECK(model->leases_count < MODEL_LEASES);
    struct model_lease *lease = &model->leases[model->leases_count++];
    (void)snprintf(lease->name, sizeof(lease->name), "%s", name);
    lease->token = token;
}

void model_rebuilt(struct world *world, uint32_t segment, uint64_t epoch, uint64_t fence,
                   enum segment_outcome outcome)
{
    struct model *model = &world->model;
    /* A segment that contradicts itself goes on deciding until somebody notices. What it decided
     * meanwhile and is not in the ledger is forgotten when it is rebuilt. */
    if (model->broken_epoch[segment] != 0 && epoch > model->rebuilt_epoch[segment]) {
        model_forgets(world, segment);
    }
    if (epoch > model->rebuilt_epoch[segment]) {
        model->rebuilt_epoch[segment] = epoch;
    }
    if (outcome == SEGMENT_DONE) {
        promise_11_rebuilt(world, segment, fence);
    }
}

void model_forgets(struct world *world, uint32_t segment)
{
    world->model.forgot[segment]++;
}

/* ---- looks ---- */

void model_look(struct world *world)
{
    promise_01_look(world);
    promise_09_shares(world);
}

bool model_is_settled(struct world *world)
{
    return promise_13_left(world) == NULL;
}

void model_end(struct world *world)
{
    promise_01_end(world);
    promise_03_end(world);
    promise_04_end(world);
    promise_05_end(world);
    promise_08_end(world);
}
