/*
 * See operation.h. The pool is mapped memory: operations that were never used take no memory, and
 * the one used last is used next, so it is still in the cache. With the embedded engine, a request
 * to the gate allocates nothing and copies nothing.
 *
 * What stays true: an operation is freed exactly once, after its request came back and its last part
 * finished, whether or not its client is still there.
 */
#include "api/operation.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_private.h"
#include "base/check.h"
#include "base/err.h"

/* A call to a thread that the worker does not wait for when it stops. The thread frees the call if
 * nobody collects it, and never uses the operation. */
struct detached_call {
    union { /* must be first: freed as one of these */
        struct post post;
        struct reconciler_call reconcile;
        struct parked_messages_call parked;
    };
    struct api_operation *operation;
};

static const struct {
    uint32_t limit; /* 0: REQUESTS_PER_CONNECTION */
    bool wait;
} budgets[BUDGET_COUNT] = {
#define X(name, limit, wait) {limit, wait},
    API_BUDGETS(X)
#undef X
};

/* ---- the pool ---- */

int operations_start(struct api_worker *worker)
{
    struct operation_pool *pool = &worker->operations;
    for (int i = 0; i < BUDGET_COUNT; i++) {
        uint32_t limit = budgets[i].limit;
        limit = limit != 0 ? limit : worker->connections_count * REQUESTS_PER_CONNECTION;
        pool->budgets[i].limit = limit;
        pool->capacity += limit;
    }
    pool->operations = api_map((size_t)pool->capacity * sizeof(*pool->operations));
    return pool->operations != NULL ? 0 : ERR_NOMEM;
}

void operations_end(struct api_worker *worker)
{
    struct operation_pool *pool = &worker->operations;
    api_unmap(pool->operations, (size_t)pool->capacity * sizeof(*pool->operations));
}

bool operations_must_return(const struct api_worker *worker)
{
    for (int i = 0; i < BUDGET_COUNT; i++) {
        if (budgets[i].wait && worker->operations.budgets[i].used > 0) {
            return true;
        }
    }
    return false;
}

/* The request is the caller's to fill in: only what is before it is cleared. */
static struct api_operation *operation_new(struct api_request *req, enum api_target target,
                                           enum api_budget budget, api_done *done)
{
    struct operation_pool *pool = &req->worker->operations;
    if (pool->budgets[budget].used == pool->budgets[budget].limit) {
        return NULL;
    }
    struct api_operation *operation = pool->free;
    if (operation != NULL) {
        pool->free = operation->next_free;
    } else {
        CHECK(pool->fresh < pool->capacity);
        operation = &pool->operations[pool->fresh++];
    }
    pool->budgets[budget].used++;
    memset(operation, 0, offsetof(struct api_operation, gate));
    operation->target = target;
    operation->budget = budget;
    operation->exchange = req->exchange;
    operation->user = req->user;
    operation->done = done;
    operation->uses = 1;
    return operation;
}

static void free_rows(struct ledger_query *query)
{
    for (uint32_t i = 0; query->sales != NULL && i < query->count; i++) {
        sale_row_free(query->sales[i]);
    }
    free(query->sales);
    free(query->blocks);
    free(query->events);
    free(query->report);
    free(query->series);
    free(query->orders);
}

static void free_request(struct api_operation *operation)
{
    switch (operation->target) {
    case TARGET_GATE:
        break;
    case TARGET_LEDGER_WRITER:
        sale_row_free(operation->write.op.sale);
        break;
    case TARGET_LEDGER_READER:
        free_rows(&operation->read.query);
        break;
    case TARGET_RECONCILER:
        reconciler_call_free(operation->reconcile);
        break;
    case TARGET_PARKED_MESSAGES:
        parked_messages_call_free(operation->parked);
        break;
    }
}

/* Back to the pool, without its request. */
static void give_back(struct api_worker *worker, struct api_operation *operation)
{
    struct operation_pool *pool = &worker->operations;
    pool->budgets[operation->budget].used--;
    operation->next_free = pool->free;
    pool->free = operation;
}

void api_operation_free(struct api_worker *worker, struct api_operation *operation)
{
    if (operation->prepared != NULL) {
        api_operation_free(worker, operation->prepared);
    }
    if (operation->free_context != NULL) {
        operation->free_context(&operation->context);
    }
    free_request(operation);
    give_back(worker, operation);
}

/* ---- making ---- */

struct api_operation *api_gate_operation(struct api_request *req, enum gate_request_kind kind,
                                         api_done *done)
{
    struct api_operation *operation = operation_new(req, TARGET_GATE, BUDGET_GATE, done);
    if (operation != NULL) {
        operation->gate =
            (struct gate_request){.kind = kind, .loop = req->worker->loop, .user = req->user};
    }
    return operation;
}

struct api_operation *api_write_operation(struct api_request *req, enum api_budget budget,
                                          api_done *done)
{
    struct api_operation *operation = operation_new(req, TARGET_LEDGER_WRITER, budget, done);
    if (operation != NULL) {
        operation->write = (struct ledger_writer_op){.loop = req->worker->loop};
    }
    return operation;
}

static size_t row_size(enum ledger_query_kind kind)
{
    switch (kind) {
    case QUERY_SALES:
        return sizeof(struct sale_row *);
    case QUERY_BLOCKS:
    case QUERY_BLOCK:
        return sizeof(struct block_row);
    case QUERY_EVENTS:
        return sizeof(struct ledger_event);
    case QUERY_REPORT:
        return sizeof(struct report_row);
    case QUERY_SERIES:
        return sizeof(struct series_row);
    default:
        return sizeof(struct order_row);
    }
}

struct api_operation *api_read_operation(struct api_request *req, enum ledger_query_kind kind,
                                         uint32_t limit, enum api_budget budget, api_done *done)
{
    struct api_operation *operation = operation_new(req, TARGET_LEDGER_READER, budget, done);
    if (operation == NULL) {
        return NULL;
    }
    void *rows = calloc(limit > 0 ? limit : 1, row_size(kind));
    if (rows == NULL) {
        give_back(req->worker, operation);
        return NULL;
    }
    operation->read = (struct ledger_reader_query){.loop = req->worker->loop};
    struct ledger_query *query = &operation->read.query;
    query->kind = kind;
    query->limit = limit;
    query->state = -1;
    query->segment = SEGMENT_ALL;
    switch (kind) {
    case QUERY_SALES:
        query->sales = rows;
        break;
    case QUERY_BLOCKS:
    case QUERY_BLOCK:
        query->blocks = rows;
        break;
    case QUERY_EVENTS:
        query->events = rows;
        break;
    case QUERY_REPORT:
        query->report = rows;
        break;
    case QUERY_SERIES:
        query->series = rows;
        break;
    default:
        query->orders = rows;
        break;
    }
    return operation;
}

static struct detached_call *detached_call_new(struct api_request *req, enum api_target target,
                                               enum api_budget budget, api_done *done)
{
    struct detached_call *call = calloc(1, sizeof(*call));
    struct api_operation *operation =
        call != NULL ? operation_new(req, target, budget, done) : NULL;
    if (operation == NULL) {
        free(call);
        return NULL;
    }
    call->operation = operation;
    return call;
}

struct api_operation *api_reconcile_operation(struct api_request *req, api_done *done)
{
    struct detached_call *call = detached_call_new(req, TARGET_RECONCILER, BUDGET_RECONCILE, done);
    if (call == NULL) {
        return NULL;
    }
    call->reconcile.loop = req->worker->loop;
    call->operation->reconcile = &call->reconcile;
    return call->operation;
}

struct api_operation *api_parked_operation(struct api_request *req, api_done *done)
{
    struct detached_call *call =
        detached_call_new(req, TARGET_PARKED_MESSAGES, BUDGET_PARKED_MESSAGES, done);
    if (call == NULL) {
        return NULL;
    }
    call->parked.loop = req->worker->loop;
    call->operation->parked = &call->parked;
    return call->operation;
}

void api_make_part(struct api_operation *operation, struct api_operation *parent)
{
    operation->parent = parent;
    parent->uses++;
}

/* ---- finishing ---- */

static struct api_request later_request(struct api_worker *worker,
                                        const struct api_operation *operation)
{
    return (struct api_request){.worker = worker,
                                .exchange = operation->exchange,
                                .user = operation->user,
                                .now_ms = worker->now_ms};
}

static void release(struct api_worker *worker, struct api_operation *operation)
{
    if (--operation->uses > 0) {
        return;
    }
    struct api_operation *parent = operation->parent;
    if (operation->parts_done != NULL && http_alive(worker->server, operation->exchange)) {
        struct api_request req = later_request(worker, operation);
        (void)operation->parts_done(&req, operation);
    }
    api_operation_free(worker, operation);
    if (parent != NULL) {
        release(worker, parent);
    }
}

/* The answer cannot be shown: it becomes a refusal, and what it says of the order is erased. */
static void withdraw_answer(struct gate_request *request, enum refusal refusal)
{
    request->refusal = refusal;
    request->has_order = false;
    request->order = (struct order_view){0};
}

/* Every answer of the gate passes here before `done` sees it. True: it shows what is not durable yet,
 * and the operation waits for that. */
static bool hold_until_durable(struct api_worker *worker, struct api_operation *operation)
{
    struct gate_request *request = &operation->gate;
    if (request->refusal != REFUSAL_NONE || api_durable(worker, request->lsn)) {
        return false;
    }
    struct operation_pool *pool = &worker->operations;
    CHECK(operation->budget == BUDGET_GATE);
    if (pool->budgets[BUDGET_DURABLE].used == pool->budgets[BUDGET_DURABLE].limit) {
        withdraw_answer(request, request->kind == GATE_REQUEST_BUY ? REFUSAL_UNKNOWN_OUTCOME
                                                                   : REFUSAL_OVERLOADED);
        return false;
    }
    pool->budgets[BUDGET_GATE].used--;
    pool->budgets[BUDGET_DURABLE].used++;
    operation->budget = BUDGET_DURABLE;
    CHECK(api_after_durable(worker, request->lsn, operation->exchange, operation));
    return true;
}

/* ---- orders that were evicted from the gate ---- */

/* How often the ledger is asked for one request. Again only if an order was evicted meanwhile that
 * might be this one. */
#define LEDGER_ASKS_MAX 3

static uint16_t version_of(enum order_state state)
{
    /* FAILED comes after QUEUED, the other final states after LOCKED. */
    return order_state_final(state) && state != ORDER_FAILED ? ORDER_VERSION_MAX
                                                             : ORDER_VERSION_MAX - 1;
}

static struct order_view view_of(const struct order_row *row)
{
    return (struct order_view){.id = row->id,
                               .user = row->user,
                               .item = row->item,
                               .qty = row->qty,
                               .state = (uint8_t)row->state,
                               .reason = (uint8_t)row->reason,
                               .version = version_of(row->state),
                               .created_at_ms = row->created_at_ms,
                               .pay_by_ms = row->pay_by_ms};
}

/* The gate gets the ledger's answer. If there is none, the request stays refused. */
static enum http_outcome ledger_told(struct api_request *req, struct api_operation *read)
{
    struct api_operation *operation = read->parent;
    const struct ledger_query *query = &read->read.query;
    bool has = query->error == 0 && query->count > 0;
    if (!has && query->error != 0 && query->error != ERR_NOTFOUND) {
        return operation->done(req, operation);
    }
    operation->gate.ledger = has ? GATE_LEDGER_HAS : GATE_LEDGER_LACKS;
    if (has) {
        operation->gate.ledger_order = view_of(&query->orders[0]);
    }
    operation->uses++; /* api_submit takes one, and this operation's part another */
    return api_submit(req, operation);
}

/* True: the gate has to know from the ledger whether the order exists, and the ledger was asked. The
 * query takes over the operation's use: they are freed together. */
static bool ask_ledger_first(struct api_worker *worker, struct api_operation *operation)
{
    if (operation->target != TARGET_GATE || !operation->gate.ask_ledger ||
        operation->ledger_asks == LEDGER_ASKS_MAX) {
        return false;
    }
    struct api_request req = later_request(worker, operation);
    struct api_operation *read =
        api_read_operation(&req, QUERY_ORDER, 1, BUDGET_EVICTED, ledger_told);
    if (read == NULL) {
        return false;
    }
    operation->ledger_asks++;
    read->read.query.id = operation->gate.id;
    read->parent = operation;
    ledger_reader_post(worker->shared->ledger_reader, &read->read);
    return true;
}

void operation_finish(struct api_worker *worker, struct api_operation *operation)
{
    if (operation->target == TARGET_GATE && operation->error != 0) {
        withdraw_answer(&operation->gate, REFUSAL_UNKNOWN_OUTCOME);
    }
    if (http_alive(worker->server, operation->exchange)) {
        struct api_request req = later_request(worker, operation);
        if (operation->target == TARGET_LEDGER_WRITER && operation->error != 0) {
            api_refuse_error(worker, operation->exchange, operation->error);
        } else {
            (void)operation->done(&req, operation);
        }
    }
    release(worker, operation);
}

/* Operators' lists and reports have a thread of their own, so that no buyer waits behind one. */
static struct ledger_reader *reader_of(const struct api_shared *shared,
                                       const struct api_operation *operation)
{
    return operation->budget == BUDGET_OPERATOR ? shared->operator_reader : shared->ledger_reader;
}

enum http_outcome api_submit(struct api_request *req, struct api_operation *operation)
{
    struct api_worker *worker = req->worker;
    struct api_shared *shared = worker->shared;
    switch (operation->target) {
    case TARGET_GATE:
        if (gate_submit(worker->gate, &operation->gate) == GATE_ANSWERED &&
            !ask_ledger_first(worker, operation) && !hold_until_durable(worker, operation)) {
            enum http_outcome outcome = operation->done(req, operation);
            release(worker, operation);
            return outcome;
        }
        break;
    case TARGET_LEDGER_WRITER:
        ledger_writer_post(shared->ledger_writer, &operation->write);
        break;
    case TARGET_LEDGER_READER:
        ledger_reader_post(reader_of(shared, operation), &operation->read);
        break;
    case TARGET_RECONCILER:
        reconciler_post(shared->reconciler, operation->reconcile);
        break;
    case TARGET_PARKED_MESSAGES:
        parked_messages_post(shared->parked_messages, operation->parked);
        break;
    }
    return HTTP_PENDING;
}

/* ---- collecting ---- */

static struct api_operation *of_request(void *request, size_t offset)
{
    return (struct api_operation *)((char *)request - offset);
}

/* The request came back. What it shows may have to become durable first; of a write, that is the
 * gate's record. */
static void request_returned(struct api_worker *worker, struct api_operation *operation)
{
    if (operation->target == TARGET_GATE &&
        (ask_ledger_first(worker, operation) || hold_until_durable(worker, operation))) {
        return;
    }
    if (operation->target == TARGET_LEDGER_WRITER) {
        operation->error = operation->write.error;
        if (operation->error == 0 && !api_durable(worker, operation->write.lsn)) {
            CHECK(api_after_durable(worker, operation->write.lsn, operation->exchange, operation));
            return;
        }
    }
    operation_finish(worker, operation);
}

static bool collect_reads(struct api_worker *worker, struct ledger_reader *reader)
{
    struct ledger_reader_query *reads = ledger_reader_collect(reader, worker->loop);
    bool any = reads != NULL;
    while (reads != NULL) {
        struct ledger_reader_query *read = reads;
        reads = (struct ledger_reader_query *)read->post.next;
        request_returned(worker, of_request(read, offsetof(struct api_operation, read)));
    }
    return any;
}

static bool collect_ledger(struct api_worker *worker)
{
    struct ledger_writer_op *writes =
        ledger_writer_collect(worker->shared->ledger_writer, worker->loop);
    bool any = writes != NULL;
    while (writes != NULL) {
        struct ledger_writer_op *write = writes;
        writes = (struct ledger_writer_op *)write->post.next;
        request_returned(worker, of_request(write, offsetof(struct api_operation, write)));
    }
    any = collect_reads(worker, worker->shared->ledger_reader) || any;
    return collect_reads(worker, worker->shared->operator_reader) || any;
}

static bool collect_gate(struct api_worker *worker)
{
    bool any = false;
    struct gate_request *requests;
    while ((requests = gate_collect(worker->gate, worker->loop)) != NULL) {
        any = true;
        while (requests != NULL) {
            struct gate_request *request = requests;
            requests = request->next;
            request_returned(worker, of_request(request, offsetof(struct api_operation, gate)));
        }
    }
    return any;
}

static bool detached_returned(struct api_worker *worker, struct post *posts)
{
    bool any = posts != NULL;
    while (posts != NULL) {
        struct detached_call *call = (struct detached_call *)posts;
        posts = posts->next;
        request_returned(worker, call->operation);
    }
    return any;
}

static bool collect_detached(struct api_worker *worker)
{
    const struct budget *used = worker->operations.budgets;
    struct api_shared *shared = worker->shared;
    bool any = false;
    if (used[BUDGET_RECONCILE].used > 0) {
        any = detached_returned(
            worker, (struct post *)reconciler_collect(shared->reconciler, worker->loop));
    }
    if (used[BUDGET_PARKED_MESSAGES].used > 0) {
        any = detached_returned(worker, (struct post *)parked_messages_collect(
                                            shared->parked_messages, worker->loop)) ||
              any;
    }
    return any;
}

bool operations_collect(struct api_worker *worker)
{
    bool any = collect_ledger(worker);
    any = collect_gate(worker) || any;
    return collect_detached(worker) || any;
}

/* ---- the gate ---- */

bool operations_at_gate(const struct api_worker *worker)
{
    return worker->operations.budgets[BUDGET_GATE].used > 0;
}

bool api_gate_is_busy(const struct api_worker *worker)
{
    const struct budget *gate = &worker->operations.budgets[BUDGET_GATE];
    return gate->used >= gate->limit / 2;
}

static bool look_up_item(struct api_worker *worker, uint64_t item, bool catalog_locked,
                         struct item_view *ret_view)
{
    struct gate_request request = {.kind = GATE_REQUEST_ITEM,
                                   .loop = worker->loop,
                                   .item = item,
                                   .catalog_locked = catalog_locked};
    CHECK(gate_submit(worker->gate, &request) == GATE_ANSWERED);
    if (request.refusal != REFUSAL_NONE) {
        return false;
    }
    *ret_view = request.view;
    return true;
}

bool api_item(struct api_worker *worker, uint64_t item, struct item_view *ret_view)
{
    return look_up_item(worker, item, false, ret_view);
}

bool api_item_locked(struct api_worker *worker, uint64_t item, struct item_view *ret_view)
{
    return look_up_item(worker, item, true, ret_view);
}
