/* How fronts ask the simulated segments: port/gate.h. See sim_segments.h. */
#include <stdlib.h>

#include "base/check.h"
#include "sim_segments_private.h"

static int64_t now_us(const struct sim_segments *sim)
{
    return clock_boot_us(sim->options.clock);
}

static void answer_buy(struct gate_request *gate_request, const struct server_answer *answer)
{
    gate_request->held = answer->effects.held;
    gate_request->limit = answer->effects.limit;
    gate_request->available = answer->effects.available;
    gate_request->locked = answer->effects.locked;
    if (answer->verdict == VERDICT_REFUSED) {
        gate_request->refusal = answer->effects.refusal;
        gate_request->bound = answer->effects.bound;
        gate_request->cooling_until_ms = answer->effects.cooling_until_ms;
        return;
    }
    gate_request->existed = answer->verdict == VERDICT_ALREADY_APPLIED;
    gate_request->has_order = true;
    gate_request->order = answer->order;
}

static void answer_item(const struct gate *gate, struct gate_request *gate_request)
{
    uint32_t slot = gate_find_item(gate, gate_request->item);
    if (slot == GATE_NONE) {
        gate_request->refusal = REFUSAL_NO_SUCH_ITEM;
        return;
    }
    gate_view_item(gate, slot, &gate_request->view);
    if (gate_request->kind == GATE_REQUEST_ITEM) {
        return;
    }
    const struct gate_buyer *buyer = gate_find_buyer(gate, slot, gate_request->user);
    if (buyer != NULL) {
        gate_request->held = buyer->held;
        gate_request->attempt = buyer->failed_attempts;
        gate_request->barred = buyer->barred != 0;
        gate_request->cooling_until_ms = buyer->cooling_until_ms;
    }
    if (gate->items[slot].limit == 1 && gate_request->attempt <= ORDER_ATTEMPT_MAX) {
        struct order_id id =
            order_id_once(gate_request->item, gate_request->user, gate_request->attempt);
        gate_request->has_order = gate_find_order(gate, id) != GATE_NONE;
    }
}

static void answer_order(const struct gate *gate, struct gate_request *gate_request)
{
    uint32_t slot = gate_find_order(gate, gate_request->id);
    if (slot == GATE_NONE) {
        gate_request->refusal = REFUSAL_NOT_FOUND;
        return;
    }
    gate_request->has_order = true;
    gate_view_order(gate, slot, &gate_request->order);
}

/* Runs on its server. */
static void run_ask(const struct sim_segments *sim, struct gate_request *gate_request,
                    uint64_t epoch)
{
    const struct server *server = &sim->servers[gate_request->segment];
    const struct server_state *live = &server->live;
    if (server->away) {
        gate_request->outcome = GATE_OUTCOME_UNKNOWN;
        return;
    }
    if (gate_request->kind == GATE_REQUEST_BUY) {
        struct server_script script = {
            .kind = SCRIPT_CALL,
            .epoch = epoch,
            .buy = true,
            .floor = true,
            .outbox_max = sim->options.outbox_max,
            .command = {.kind = GATE_RESERVE,
                        .now_ms = gate_request->now_ms,
                        .id = gate_request->id,
                        .user = gate_request->user,
                        .item = gate_request->item,
                        .qty = gate_request->qty,
                        .ticket_expires_ms = (uint64_t)gate_request->ticket_expires_ms}};
        struct server_answer answer;
        if (!sim_run_script(sim, gate_request->segment, &script, &answer) ||
            answer.outcome != SEGMENT_DONE) {
            gate_request->outcome = GATE_OUTCOME_UNKNOWN;
        } else {
            answer_buy(gate_request, &answer);
            if (sim->options.decided != NULL) {
                sim->options.decided(sim->options.context, gate_request);
            }
        }
    } else if (live->epoch == 0 || live->epoch != epoch || live->run != server->run ||
               !live->open) {
        gate_request->outcome = GATE_OUTCOME_UNKNOWN;
    } else if (gate_request->kind == GATE_REQUEST_ORDER) {
        answer_order(&live->gate, gate_request);
    } else {
        answer_item(&live->gate, gate_request);
    }
    if (sim_answer_lost(sim, gate_request->segment)) {
        gate_request->outcome = GATE_OUTCOME_UNKNOWN;
    }
}

static int64_t later(const struct sim_segments *sim, int64_t from_us, int64_t *last_us)
{
    int64_t at_us = from_us + sim->options.delay_us(sim->options.context);
    *last_us = at_us > *last_us ? at_us : *last_us;
    return *last_us;
}

static enum gate_submitted submit(struct gate_port *port, struct gate_request *gate_request)
{
    struct sim_front *front = (struct sim_front *)port;
    struct sim_segments *sim = front->sim;
    CHECK(gate_request->segment < sim->options.segments && gate_request->loop < front->loops);
    uint64_t epoch = front->epochs[gate_request->segment];
    gate_request->next = NULL;
    if (epoch == 0) {
        gate_request->outcome = GATE_OUTCOME_UNKNOWN;
        return GATE_ANSWERED;
    }
    if (sim->servers[gate_request->segment].away) {
        gate_request->outcome = GATE_OUTCOME_AWAY;
        return GATE_ANSWERED;
    }
    if (sim->options.delay_us == NULL) {
        run_ask(sim, gate_request, epoch);
        return GATE_ANSWERED;
    }
    struct request *request = calloc(1, sizeof(*request));
    CHECK(request != NULL);
    *request = (struct request){
        .front = front, .gate_request = gate_request, .copy = *gate_request, .epoch = epoch};
    request->runs_us = later(sim, now_us(sim), &front->runs_us[gate_request->loop]);
    request->answers_us = later(sim, request->runs_us, &front->answers_us[gate_request->loop]);
    struct request **end = &sim->requests;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = request;
    return GATE_PENDING;
}

void sim_segments_run(struct sim_segments *sim)
{
    int64_t now = now_us(sim);
    for (;;) { /* earliest first; of one time, in the order they were sent */
        struct request *first = NULL;
        for (struct request *request = sim->requests; request != NULL; request = request->next) {
            if (!request->ran && request->runs_us <= now &&
                (first == NULL || request->runs_us < first->runs_us)) {
                first = request;
            }
        }
        if (first == NULL) {
            break;
        }
        run_ask(sim, &first->copy, first->epoch);
        first->ran = true;
    }
    struct request **link = &sim->requests;
    while (*link != NULL) { /* nobody waits for these */
        struct request *request = *link;
        if (request->ran && request->front == NULL) {
            *link = request->next;
            free(request);
        } else {
            link = &request->next;
        }
    }
}

static struct gate_request *collect(struct gate_port *port, uint32_t loop)
{
    struct sim_front *front = (struct sim_front *)port;
    struct sim_segments *sim = front->sim;
    struct gate_request *gate_requests = NULL;
    struct gate_request **end = &gate_requests;
    sim_segments_run(sim);
    struct request **link = &sim->requests;
    while (*link != NULL) {
        struct request *request = *link;
        if (request->front != front || request->copy.loop != loop || !request->ran ||
            request->answers_us > now_us(sim)) {
            link = &request->next;
            continue;
        }
        struct gate_request *gate_request = request->gate_request;
        void *owner = gate_request->owner;
        *gate_request = request->copy;
        gate_request->owner = owner;
        gate_request->next = NULL;
        *end = gate_request;
        end = &gate_request->next;
        *link = request->next;
        free(request);
    }
    return gate_requests;
}

static int64_t flush(struct gate_port *port, uint32_t loop)
{
    const struct sim_front *front = (const struct sim_front *)port;
    int64_t next = INT64_MAX;
    for (const struct request *r = front->sim->requests; r != NULL; r = r->next) {
        if (r->front == front && r->copy.loop == loop && r->answers_us < next) {
            next = r->answers_us;
        }
    }
    return next;
}

static void place(struct gate_port *port, uint32_t segment, uint64_t epoch)
{
    struct sim_front *front = (struct sim_front *)port;
    CHECK(segment < front->sim->options.segments);
    front->epochs[segment] = epoch;
}

static const struct gate_ops api_ops = {submit, collect, flush, place};

struct gate_port *sim_segments_front(struct sim_segments *sim, uint32_t loops)
{
    struct sim_front *front = calloc(1, sizeof(*front));
    CHECK(front != NULL && loops >= 1 && loops <= LOOPS_MAX);
    front->port.ops = &api_ops;
    front->sim = sim;
    front->loops = loops;
    return &front->port;
}

void sim_segments_front_free(struct gate_port *port)
{
    struct sim_front *front = (struct sim_front *)port;
    if (front == NULL) {
        return;
    }
    for (struct request *r = front->sim->requests; r != NULL; r = r->next) {
        r->front = r->front == front ? NULL : r->front;
    }
    free(front);
}

int64_t sim_segments_next_us(const struct sim_segments *sim)
{
    int64_t next = INT64_MAX;
    for (const struct request *r = sim->requests; r != NULL; r = r->next) {
        int64_t at_us = r->ran ? r->answers_us : r->runs_us;
        next = at_us < next ? at_us : next;
    }
    return next;
}

void sim_free_requests(struct sim_segments *sim)
{
    while (sim->requests != NULL) {
        struct request *next = sim->requests->next;
        free(sim->requests);
        sim->requests = next;
    }
}
