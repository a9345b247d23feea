/* See late_gate.h. */
#include "late_gate.h"

#include <stdlib.h>

#include "base/check.h"

static struct late_gate *self(struct gate_port *port)
{
    return (struct late_gate *)port;
}

static bool chance(struct late_gate *gate, uint32_t of_thousand)
{
    return of_thousand > 0 && prng_below(&gate->prng, 1000) < of_thousand;
}

/* Now and then ten times as long. */
static int64_t draw_delay(struct late_gate *gate)
{
    int64_t delay = 1 + (int64_t)prng_below(&gate->prng, (uint64_t)gate->delay_us);
    return chance(gate, 20) ? delay * 10 : delay;
}

static struct late_request *place_for(struct late_gate *gate)
{
    for (uint32_t i = 0; i < gate->capacity; i++) {
        if (gate->requests[i].request == NULL) {
            return &gate->requests[i];
        }
    }
    uint32_t before = gate->capacity;
    gate->capacity = before == 0 ? 64 : before * 2;
    gate->requests = realloc(gate->requests, gate->capacity * sizeof(*gate->requests));
    CHECK(gate->requests != NULL);
    for (uint32_t i = before; i < gate->capacity; i++) {
        gate->requests[i].request = NULL;
    }
    return &gate->requests[before];
}

static void decide(struct late_gate *gate, struct late_request *late)
{
    CHECK(gate_submit(gate->inner, late->request) == GATE_ANSWERED);
    late->decided = true;
}

static enum gate_submitted op_submit(struct gate_port *port, struct gate_request *request)
{
    struct late_gate *gate = self(port);
    if (request->kind == GATE_REQUEST_ITEM) {
        return gate_submit(gate->inner, request);
    }
    if (chance(gate, gate->nobody)) {
        gate->made_lost++;
        request->refusal = chance(gate, 500) ? REFUSAL_DEGRADED : REFUSAL_OVERLOADED;
        return GATE_ANSWERED;
    }
    if (!chance(gate, gate->late)) {
        return gate_submit(gate->inner, request);
    }
    struct late_request *late = place_for(gate);
    int64_t due_us = clock_boot_us(gate->clock) + draw_delay(gate);
    if (gate->in_order && due_us < gate->last_due_us) {
        due_us = gate->last_due_us;
    }
    gate->last_due_us = due_us;
    int64_t from_us = clock_boot_us(gate->clock);
    *late = (struct late_request){
        .request = request,
        .lost = chance(gate, gate->lost),
        .decide_us = from_us + (int64_t)prng_below(&gate->prng, (uint64_t)(due_us - from_us) + 1),
        .due_us = due_us,
        .sequence = ++gate->sequence};
    gate->under_way++;
    gate->made_late++;
    if (late->lost && chance(gate, 500)) {
        late->decided = true; /* lost on its way there: it never will be */
    } else if (chance(gate, gate->early)) {
        decide(gate, late);
    }
    return GATE_PENDING;
}

/* Answers it: takes it out. */
static void answer(struct late_gate *gate, struct late_request *late)
{
    if (late->lost) {
        gate->made_lost++;
        late->request->refusal = REFUSAL_UNKNOWN_OUTCOME;
        late->request->has_order = false;
    } else if (!late->decided) {
        decide(gate, late);
    }
    late->request = NULL;
    gate->under_way--;
}

/* The request of this loop to answer next, by time, then by age; NULL: none is due. */
static struct late_request *next_due(struct late_gate *gate, uint32_t loop, int64_t now_us)
{
    struct late_request *first = NULL;
    for (uint32_t i = 0; i < gate->capacity; i++) {
        struct late_request *late = &gate->requests[i];
        if (late->request == NULL || late->request->loop != loop || late->due_us > now_us) {
            continue;
        }
        if (first == NULL || late->due_us < first->due_us ||
            (late->due_us == first->due_us && late->sequence < first->sequence)) {
            first = late;
        }
    }
    return first;
}

static struct gate_request *op_collect(struct gate_port *port, uint32_t loop)
{
    struct late_gate *gate = self(port);
    int64_t now_us = clock_boot_us(gate->clock);
    struct gate_request *answered = NULL;
    struct gate_request **end = &answered;
    for (uint32_t i = 0; i < gate->capacity; i++) {
        struct late_request *late = &gate->requests[i];
        if (late->request != NULL && late->request->loop == loop && !late->decided &&
            late->decide_us <= now_us) {
            decide(gate, late);
        }
    }
    struct late_request *late;
    while ((late = next_due(gate, loop, now_us)) != NULL) {
        struct gate_request *request = late->request;
        answer(gate, late);
        request->next = NULL;
        *end = request;
        end = &request->next;
    }
    return answered;
}

static int64_t op_flush(struct gate_port *port, uint32_t loop)
{
    struct late_gate *gate = self(port);
    int64_t next_us = INT64_MAX;
    for (uint32_t i = 0; i < gate->capacity; i++) {
        const struct late_request *late = &gate->requests[i];
        if (late->request != NULL && late->request->loop == loop) {
            int64_t at_us = late->decided ? late->due_us : late->decide_us;
            next_us = at_us < next_us ? at_us : next_us;
        }
    }
    return next_us;
}

static void op_place(struct gate_port *port, uint32_t segment, uint64_t epoch)
{
    gate_place(self(port)->inner, segment, epoch);
}

void late_gate_init(struct late_gate *ret_gate, struct gate_port *inner, struct clock_port *clock,
                    uint64_t seed)
{
    static const struct gate_ops ops = {op_submit, op_collect, op_flush, op_place};
    *ret_gate = (struct late_gate){
        .port = {&ops}, .inner = inner, .clock = clock, .prng = prng_of(seed), .delay_us = 1000};
}

void late_gate_forget(struct late_gate *gate)
{
    for (uint32_t i = 0; i < gate->capacity; i++) {
        gate->requests[i].request = NULL;
    }
    gate->under_way = 0;
}

void late_gate_done(struct late_gate *gate)
{
    free(gate->requests);
    gate->requests = NULL;
    gate->capacity = 0;
}
