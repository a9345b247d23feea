/*
 * A gate that answers later, around one that answers at once: port/gate.h as an engine on another
 * machine has it. A seed draws which requests are late, how late, and when they are decided. Answers
 * may overtake each other or get lost (UNKNOWN_OUTCOME, decided or not), or the gate may be
 * unreachable (DEGRADED, OVERLOADED). GATE_REQUEST_ITEM is answered at once.
 *
 * Time is the clock's boot_us. Everything happens inside collect of the loop that submitted; flush
 * says when to collect again. One thread.
 */
#ifndef SLUICE_TEST_LATE_GATE_H
#define SLUICE_TEST_LATE_GATE_H

#include "base/prng.h"
#include "port/clock.h"
#include "port/gate.h"

struct late_request {
    struct gate_request *request; /* NULL: this place is free */
    bool decided;
    bool lost;
    int64_t decide_us;
    int64_t due_us;
    uint64_t sequence;
};

struct late_gate {
    struct gate_port port; /* first */
    struct gate_port *inner;
    struct clock_port *clock;
    struct prng prng;
    /* of 1,000 requests; may be set at any time */
    uint32_t late;
    uint32_t early;   /* of the late ones: decided when submitted; the rest on their way */
    uint32_t lost;    /* of the late ones: the answer says UNKNOWN_OUTCOME */
    uint32_t nobody;  /* refused at once: DEGRADED or OVERLOADED */
    int64_t delay_us; /* at most this, mostly */
    bool in_order;
    /* seen */
    uint64_t made_late;
    uint64_t made_lost; /* lost, or refused */
    uint32_t under_way;
    uint64_t sequence;
    int64_t last_due_us;
    struct late_request *requests;
    uint32_t capacity;
};

void late_gate_init(struct late_gate *ret_gate, struct gate_port *inner, struct clock_port *clock,
                    uint64_t seed);
/* The process whose requests are under way has gone: none of them is answered any more. */
void late_gate_forget(struct late_gate *gate);
void late_gate_done(struct late_gate *gate);

#endif
