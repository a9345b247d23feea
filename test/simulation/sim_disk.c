/*
 * The server's disk: the RAM disk that forgets (test/lib/ram_disk.c), whose operations fail
 * when a fault says so, die with the machine, and let other threads run meanwhile.
 */
#include "base/err.h"
#include "sim_private.h"

/* Which operations a fault waits for. */
static bool meets(int fault, enum ram_op op)
{
    switch (fault) {
    case FAULT_DISK_WRITE:
        return op == RAM_OP_WRITE;
    case FAULT_DISK_SYNC:
        return op == RAM_OP_SYNC || op == RAM_OP_WRITE_DURABLE;
    case FAULT_DISK_NAME:
        return op == RAM_OP_OPEN || op == RAM_OP_NAME;
    default:
        return false;
    }
}

static int hook(void *context, enum ram_op op)
{
    struct sim *sim = context;
    if (sim->disk_dies_at != 0 && sim->disk.ops + 1 >= sim->disk_dies_at) {
        sim->disk.dead_at = sim->disk.ops + 1;
        sim->disk_dies_at = 0;
        sim->process.dead = true;
        sim_fault_happened(sim, sim->process.state == PROCESS_UP && sim->process.starting
                                    ? FAULT_DIES_STARTING
                                    : FAULT_DIES_IN_DISK);
        sim_note(sim, "the machine dies in a disk operation", op, sim->disk.ops, 0);
        return 0;
    }
    if (sim->disk_fail >= 0 && meets(sim->disk_fail, op)) {
        sim_fault_happened(sim, (enum sim_fault)sim->disk_fail);
        sim_note(sim, "a disk operation fails", op, sim->disk.ops, 0);
        sim->disk_fail = -1;
        sim->disk.fail_bytes = 1 + (size_t)sim_below(sim, 16384);
        return ERR_IO;
    }
    if (op == RAM_OP_WRITE || op == RAM_OP_WRITE_DURABLE || op == RAM_OP_SYNC) {
        process_interleave(sim);
    }
    return 0;
}

void sim_disk_calm(struct sim *sim)
{
    sim->disk_fail = -1;
    sim->disk_dies_at = 0;
    sim->disk.space = 0;
}

void sim_disk_init(struct sim *sim)
{
    ram_disk_init(&sim->disk);
    sim->disk.hook = hook;
    sim->disk.hook_context = sim;
    sim_disk_calm(sim);
}
