/* How fronts ask the simulated segments: port/gate.h. See sim_segments.h. */
#include <stdlib.h>

#include "base/check.h"
#include "sim_segments_private.h"

static int64_t now_us(const struct sim_segments *sim)
{
    return clock_boot_us(sim->options.clock);
}

static void answer_buy(struct gate_ask *ask, const struct server_answer *answer)
{
    ask->held = answer->effects.held;
    ask->limit = answer->effects.limit;
    ask->available = answer->effects.available;
    ask->locked = answer->effects.locked;
    if (answer->verdict == VERDICT_REFUSED) {
        ask->refusal = answer->effects.refusal;
        return;
    }
    ask->existed = answer->verdict == VERDICT_SAME;
    ask->has_order = true;
    ask->order = answer->order;
}

static void answer_item(const struct gate *gate, struct gate_ask *ask)
{
    uint32_t slot = gate_find_item(gate, ask->item);
    if (slot == GATE_NONE) {
        ask->refusal = REFUSAL_NO_SUCH_ITEM;
        return;
    }
    gate_view_item(gate, slot, &ask->view);
    if (ask->question == ASK_ITEM) {
        return;
    }
    const struct gate_buyer *buyer = gate_find_buyer(gate, slot, ask->user);
    if (buyer != NULL) {
        ask->held = buyer->held;
        ask->attempt = buyer->ended;
        ask->barred = buyer->barred != 0;
    }
    if (gate->items[slot].limit == 1 && ask->attempt <= ORDER_ATTEMPT_MAX) {
        struct order_id id = order_id_once(ask->item, ask->user, ask->attempt);
        ask->has_order = gate_find_order(gate, id) != GATE_NONE;
    }
}

static void answer_order(const struct gate *gate, struct gate_ask *ask)
{
    uint32_t slot = gate_find_order(gate, ask->id);
    if (slot == GATE_NONE) {
        ask->refusal = REFUSAL_NOT_FOUND;
        return;
    }
    ask->has_order = true;
    gate_view_order(gate, slot, &ask->order);
}

/* Runs on its server. */
static void run_ask(const struct sim_segments *sim, struct gate_ask *ask, uint64_t epoch)
{
    const struct server *server = &sim->servers[ask->segment];
    const struct server_state *live = &server->live;
    if (server->away) {
        ask->refusal = REFUSAL_UNKNOWN_OUTCOME;
        return;
    }
    if (ask->question == ASK_BUY) {
        struct server_script script = {
            .kind = SCRIPT_CALL,
            .epoch = epoch,
            .buy = true,
            .floor = true,
            .outbox_max = sim->options.outbox_max,
            .command = {.kind = GATE_RESERVE,
                        .now_ms = ask->now_ms,
                        .id = ask->id,
                        .user = ask->user,
                        .item = ask->item,
                        .qty = ask->qty,
                        .ticket_expires_ms = (uint64_t)ask->ticket_expires_ms}};
        struct server_answer answer;
        if (!sim_run_script(sim, ask->segment, &script, &answer) ||
            answer.outcome != SEGMENT_DONE) {
            ask->refusal = REFUSAL_UNKNOWN_OUTCOME;
        } else {
            answer_buy(ask, &answer);
        }
    } else if (live->epoch == 0 || live->epoch != epoch || live->run != server->run ||
               !live->open) {
        ask->refusal = REFUSAL_UNKNOWN_OUTCOME;
    } else if (ask->question == ASK_ORDER) {
        answer_order(&live->gate, ask);
    } else {
        answer_item(&live->gate, ask);
    }
    if (sim_answer_lost(sim, ask->segment)) {
        ask->refusal = REFUSAL_UNKNOWN_OUTCOME;
    }
}

static int64_t later(const struct sim_segments *sim, int64_t from_us, int64_t *last_us)
{
    int64_t at_us = from_us + sim->options.delay_us(sim->options.context);
    *last_us = at_us > *last_us ? at_us : *last_us;
    return *last_us;
}

static enum gate_submitted submit(struct gate_port *port, struct gate_ask *ask)
{
    struct front *front = (struct front *)port;
    struct sim_segments *sim = front->sim;
    CHECK(ask->segment < sim->options.segments && ask->loop < front->loops);
    uint64_t epoch = front->epochs[ask->segment];
    ask->next = NULL;
    if (epoch == 0) {
        ask->refusal = REFUSAL_UNKNOWN_OUTCOME;
        return GATE_ANSWERED;
    }
    if (sim->servers[ask->segment].away) {
        ask->refusal = REFUSAL_DEGRADED;
        return GATE_ANSWERED;
    }
    if (sim->options.delay_us == NULL) {
        run_ask(sim, ask, epoch);
        return GATE_ANSWERED;
    }
    struct request *request = calloc(1, sizeof(*request));
    CHECK(request != NULL);
    *request = (struct request){.front = front, .ask = ask, .copy = *ask, .epoch = epoch};
    request->runs_us = later(sim, now_us(sim), &front->runs_us[ask->loop]);
    request->answers_us = later(sim, request->runs_us, &front->answers_us[ask->loop]);
    struct request **end = &sim->requests;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = request;
    return GATE_ASKED;
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

static struct gate_ask *collect(struct gate_port *port, uint32_t loop)
{
    struct front *front = (struct front *)port;
    struct sim_segments *sim = front->sim;
    struct gate_ask *asks = NULL;
    struct gate_ask **end = &asks;
    sim_segments_run(sim);
    struct request **link = &sim->requests;
    while (*link != NULL) {
        struct request *request = *link;
        if (request->front != front || request->copy.loop != loop || !request->ran ||
            request->answers_us > now_us(sim)) {
            link = &request->next;
            continue;
        }
        struct gate_ask *ask = request->ask;
        void *owner = ask->owner;
        *ask = request->copy;
        ask->owner = owner;
        ask->next = NULL;
        *end = ask;
        end = &ask->next;
        *link = request->next;
        free(request);
    }
    return asks;
}

static int64_t flush(struct gate_port *port, uint32_t loop)
{
    const struct front *front = (const struct front *)port;
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
    struct front *front = (struct front *)port;
    CHECK(segment < front->sim->options.segments);
    front->epochs[segment] = epoch;
}

static const struct gate_ops front_ops = {submit, collect, flush, place};

struct gate_port *sim_segments_front(struct sim_segments *sim, uint32_t loops)
{
    struct front *front = calloc(1, sizeof(*front));
    CHECK(front != NULL && loops >= 1 && loops <= LOOPS_MAX);
    front->port.ops = &front_ops;
    front->sim = sim;
    front->loops = loops;
    return &front->port;
}

void sim_segments_front_free(struct gate_port *port)
{
    struct front *front = (struct front *)port;
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
