/*
 * See world.h: the loop of a process, as src/api runs it, without HTTP. It takes clients' calls from a
 * list and sends an answer after its LSN is durable.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "world.h"

#define NOTICES 64
/* There and back between a client and its front. */
#define NET_US 300

/* ---- telling ---- */

/* The answer reaches the client. If the client has given up, the call is freed. */
static void tell(struct call *call)
{
    call->state = CALL_TOLD;
    fiber_wake(call->client, 0);
}

/* As src/http: nothing undurable is seen; a failed journal will never tell. */
static bool may_tell(struct process *process, struct call *call)
{
    uint64_t lsn = call->is_post ? call->op.lsn : call->request.lsn;
    if (lsn <= journal_durable_lsn(process->parts.journal)) {
        return true;
    }
    if (journal_failed(process->parts.journal)) {
        call->request.refusal = REFUSAL_UNKNOWN_OUTCOME;
        call->request.has_order = false;
        return true;
    }
    return false;
}

static void tell_durable(struct process *process)
{
    struct call **link = &process->calls;
    while (*link != NULL) {
        struct call *call = *link;
        if (call->state != CALL_ANSWERED || !may_tell(process, call)) {
            link = &call->next;
            continue;
        }
        *link = call->next;
        if (call->abandoned) {
            sale_row_free(call->op.op.sale);
            free(call);
        } else {
            tell(call);
        }
    }
}

/* ---- a turn ---- */

static void collect(struct process *process)
{
    for (struct gate_request *request = gate_collect(gate_proxy_port(process->engine.proxy), 0);
         request != NULL;) {
        struct gate_request *next = request->next;
        ((struct call *)request->owner)->state = CALL_ANSWERED;
        request = next;
    }
    for (struct ledger_writer_op *op = ledger_writer_collect(process->parts.ledger_writer, 0);
         op != NULL;) {
        struct ledger_writer_op *next = (struct ledger_writer_op *)op->post.next;
        ((struct call *)op->owner)->state = CALL_ANSWERED;
        op = next;
    }
}

/* Whether the process knows the sale: it may have been warmed while it could not read the ledger. */
static bool has_read_of(const struct process *process, uint64_t item)
{
    const struct sale_row *sale = NULL;
    catalog_lock(process->parts.catalog);
    bool known = catalog_item(process->parts.catalog, item, &sale) != NULL && sale->homes > 0;
    catalog_unlock(process->parts.catalog);
    return known;
}

static void submit_new(struct process *process)
{
    for (struct call *call = process->calls; call != NULL; call = call->next) {
        if (call->state != CALL_NEW) {
            continue;
        }
        call->state = CALL_SENT;
        if (call->is_post) {
            call->op.owner = call;
            ledger_writer_post(process->parts.ledger_writer, &call->op);
            fiber_wake(process->fibers[THREAD_LEDGER_WRITER], 10);
            continue;
        }
        call->request.owner = call;
        order_notices_watch(loop_notices_port(process->parts.loop_notices), 0,
                            call->request.id); /* for good */
        call->unread = !has_read_of(process, order_id_item(call->request.id));
        call->request.now_ms = inside_time_ms(&process->parts.time);
        if (gate_submit(gate_proxy_port(process->engine.proxy), &call->request) == GATE_ANSWERED) {
            call->state = CALL_ANSWERED;
        }
    }
}

static void push_notices(struct process *process)
{
    struct order_view views[NOTICES];
    bool all = false;
    size_t count =
        order_notices_take(loop_notices_port(process->parts.loop_notices), 0, views, NOTICES, &all);
    for (size_t i = 0; i < count; i++) {
        model_pushed(process->world, process->index, &views[i]);
    }
}

void front_run(void *context)
{
    struct process *process = context;
    for (;;) {
        collect(process);
        tell_durable(process);
        submit_new(process);
        tell_durable(process);
        push_notices(process);
        (void)gate_flush(gate_proxy_port(process->engine.proxy), 0);
        int64_t wait_us = process->calls != NULL ? 1000 : 50000;
        (void)fiber_sleep(world_between(process->world, wait_us / 4, wait_us));
    }
}

void front_lost(struct process *process)
{
    while (process->calls != NULL) {
        struct call *call = process->calls;
        process->calls = call->next;
        if (call->abandoned) {
            free(call);
        } else {
            call->lost = true;
            fiber_wake(call->client, 1000);
        }
    }
}

/* ---- clients ---- */

/* Sends it and waits. NULL: no answer; else the caller frees it. */
static struct call *send_call(struct world *world, uint32_t index, struct call *call,
                              int64_t patience_us)
{
    struct process *process = &world->processes[index];
    world->requests++;
    (void)fiber_sleep(world_about(world, NET_US));
    if (!process->up || !segment_monitor_is_ready(process->engine.segment_monitor)) {
        free(call);
        return NULL;
    }
    if (call->is_post) {
        model_writes(world, &call->op.op);
    } else if (call->request.kind == GATE_REQUEST_BUY) {
        model_asked(world, &call->request);
    }
    call->client = fiber_self();
    struct call **end = &process->calls;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = call;
    fiber_wake(process->fibers[THREAD_LOOP], 50);
    int64_t until_us = world_now_us(world) + patience_us;
    while (!call->lost && world_now_us(world) < until_us) {
        (void)fiber_sleep(until_us - world_now_us(world));
        if (call->state == CALL_TOLD) {
            (void)fiber_sleep(world_about(world, NET_US));
            return call;
        }
    }
    if (call->lost) {
        free(call);
    } else {
        call->abandoned = true;
        call->client = NULL;
        world_struck(world, FAULT_PATIENCE, index);
    }
    return NULL;
}

bool front_request(struct world *world, uint32_t process, struct gate_request *request,
                   int64_t patience_us)
{
    struct call *call = calloc(1, sizeof(*call));
    CHECK(call != NULL);
    struct model_before before = model_before(world, process, request);
    int64_t sent_us = world_now_us(world);
    call->request = *request;
    call = send_call(world, process, call, patience_us);
    if (call == NULL) {
        return false;
    }
    bool unread = call->unread;
    *request = call->request;
    free(call);
    static const char *const texts[] = {"buy told", "ticket told", "order told", "item told"};
    world_note(world, texts[request->kind], process * 100 + request->refusal,
               request->has_order ? request->order.state : 99, request->id.lo);
    if (!unread || request->refusal != REFUSAL_NOT_FOUND) {
        line_told(world, process, request, sent_us);
        model_told(world, process, request, &before);
    } /* KNOWN: else it had not read of the sale yet, and says that there is no such order */
    return true;
}

bool front_post(struct world *world, uint32_t process, struct ledger_writer_op *op,
                int64_t patience_us)
{
    struct call *call = calloc(1, sizeof(*call));
    CHECK(call != NULL);
    call->op = *op;
    call->is_post = true;
    call = send_call(world, process, call, patience_us);
    if (call == NULL) {
        return false;
    }
    *op = call->op;
    free(call);
    world_note(world, "wrote", op->op.kind, (uint64_t)op->error, op->op.refusal);
    if (op->error == 0) {
        model_wrote(world, process, &op->op);
    }
    return true;
}
