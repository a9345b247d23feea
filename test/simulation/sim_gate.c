/*
 * The gate as the fronts reach it: in some seeds it answers a part of the asks later than production
 * does, in order or not, or cannot be reached and loses answers, as a gate on another machine would
 * (test/unit/api/late_gate.c). Everything about it is drawn from a stream of its own, so that seeds
 * without it have the histories they had before there was one.
 */
#include "sim_private.h"

void sim_gate_init(struct sim *sim)
{
    struct late_gate *gate = &sim->gate;
    late_gate_init(gate, NULL, &sim->clock.port, sim->options.seed * 0x9e3779b97f4a7c15ULL + 2);
    static const uint32_t parts[] = {50, 300, 700, 1000};
    static const int64_t delays_us[] = {50, 500, 5000, 50000};
    gate->late = parts[prng_below(&gate->prng, 4)];
    gate->early = parts[prng_below(&gate->prng, 4)];
    gate->delay_us = delays_us[prng_below(&gate->prng, 4)];
    gate->in_order = prng_below(&gate->prng, 2) == 0;
    gate->lost = 1 + (uint32_t)prng_below(&gate->prng, 60);
    gate->nobody = (uint32_t)prng_below(&gate->prng, 30);
    if (!sim_fault_on(sim, FAULT_GATE_LATE)) {
        gate->late = 50; /* what is lost is late */
        gate->lost = gate->lost * 4;
    } else {
        sim_fault_happened(sim, FAULT_GATE_LATE);
    }
    if (!sim_fault_on(sim, FAULT_GATE_LOST)) {
        gate->lost = gate->nobody = 0;
    }
}

void sim_gate_start(struct sim *sim)
{
    if (sim_fault_on(sim, FAULT_GATE_LATE) || sim_fault_on(sim, FAULT_GATE_LOST)) {
        sim->gate.inner = embedded_gate_port(sim->process.parts->embedded_gate);
        sim->gate.last_due_us = 0; /* the boot clock may have begun anew */
        sim->process.parts->shared.gate = &sim->gate.port;
    }
}

void sim_gate_count(struct sim *sim)
{
    for (; sim->gate_lost < sim->gate.made_lost; sim->gate_lost++) {
        sim_fault_happened(sim, FAULT_GATE_LOST);
    }
}

void sim_gate_forget(struct sim *sim)
{
    late_gate_forget(&sim->gate);
}

void sim_gate_done(struct sim *sim)
{
    late_gate_done(&sim->gate);
}
