/*
 * The ledger as the server reaches it: a ledger in memory (in some seeds SQLite, on a file in memory) behind a line that
 * goes down, loses answers of what was committed, and is slow. What was committed outlives the
 * server, and the referee sees it as it is committed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/sqlite/ledger_sqlite.h"
#include "base/check.h"
#include "base/err.h"
#include "sim_private.h"

static struct sim_ledger *self(struct ledger *ledger)
{
    return (struct sim_ledger *)ledger;
}

static void commit(struct sim_ledger *ledger, struct ledger_batch *batch)
{
    CHECK(ledger_write(ledger->inner, batch) == 0);
    sim_note(ledger->sim, "ledger commits", batch->count, batch->events_count, batch->booked_lsn);
    referee_committed(ledger->sim->referee, batch);
}

/* As if nothing was heard from the ledger. */
static void fail(struct ledger_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct ledger_op *op = batch->ops[i];
        sale_row_free(op->sale);
        op->sale = NULL;
        op->refusal = REFUSAL_NONE;
        op->repeated = false;
        op->order = (struct order_row){.lsn = 0};
    }
    batch->events = NULL;
    batch->events_count = 0;
    batch->error = ERR_IO;
}

/* The batch is committed before the wait or after it. The ledger writer's fiber waits; process.c
 * lets it go on when the time has come. */
static void write_slowly(struct sim_ledger *ledger, struct ledger_batch *batch)
{
    struct sim *sim = ledger->sim;
    ledger->due_us = sim->now_us + sim_about(sim, 20000);
    bool early = sim_chance(sim, 500);
    if (early) {
        commit(ledger, batch);
    }
    ledger->waiting = true;
    (void)fiber_sleep(INT64_MAX);
    ledger->waiting = false;
    if (!early && (ledger->down || sim->process.dead)) {
        fail(batch);
    } else if (!early) {
        commit(ledger, batch);
    } else if (ledger->down || sim_chance(sim, ledger->lose)) {
        fail(batch); /* it was committed, and the answer lost on its long way */
        sim_fault_happened(sim, FAULT_LEDGER_LOST);
    }
}

static void op_write(struct ledger *port, struct ledger_batch *batch)
{
    struct sim_ledger *ledger = self(port);
    struct sim *sim = ledger->sim;
    CHECK(!ledger->waiting);
    if (sim->process.dead || ledger->down) {
        sim_note(sim, "ledger refuses a batch", batch->count, 0, 0);
        if (ledger->down) {
            sim_fault_happened(sim, FAULT_LEDGER_DOWN);
        }
        fail(batch);
        return;
    }
    if (sim_chance(sim, ledger->lose)) {
        commit(ledger, batch);
        sim_fault_happened(sim, FAULT_LEDGER_LOST);
        fail(batch);
        return;
    }
    if (fiber_self() != NULL && sim_chance(sim, ledger->delay)) { /* not at a start */
        sim_fault_happened(sim, FAULT_LEDGER_SLOW);
        write_slowly(ledger, batch);
        return;
    }
    commit(ledger, batch);
}

static void op_read(struct ledger *port, struct ledger_query *query)
{
    struct sim_ledger *ledger = self(port);
    const struct sim *sim = ledger->sim;
    bool fails = ledger == &sim->reader && !sim->healed && sim->plan.reads_fail > 0 &&
                 sim_chance(ledger->sim, sim->plan.reads_fail);
    if (fails || ledger->down || sim_chance(ledger->sim, ledger->lose / 8)) {
        sim_fault_happened(ledger->sim, FAULT_LEDGER_DOWN);
        query->count = 0;
        query->error = ERR_IO;
        return;
    }
    (void)ledger_read(ledger->inner, query);
}

#define SQLITE_PATH_MAX 64

static const char *sqlite_path(pid_t pid, const char *ending, char *ret_path)
{
    (void)snprintf(ret_path, SQLITE_PATH_MAX, "%s/sluice-sim-%ld.db%s",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)pid, ending);
    return ret_path;
}

void sim_ledger_clean(pid_t pid)
{
    char path[SQLITE_PATH_MAX];
    (void)unlink(sqlite_path(pid, "", path));
    (void)unlink(sqlite_path(pid, "-wal", path));
    (void)unlink(sqlite_path(pid, "-shm", path));
}

void sim_ledger_init(struct sim *sim)
{
    static const struct ledger_ops ops = {.write = op_write, .read = op_read};
    memory_ledger_init(&sim->memory);
    struct ledger *inner = &sim->memory.ledger;
    if (sim->plan.sqlite) {
        char path[SQLITE_PATH_MAX];
        sim_ledger_clean(getpid());
        CHECK(ledger_sqlite_open(sqlite_path(getpid(), "", path), READ_WRITE, &sim->sqlite) == 0);
        inner = sim->sqlite;
    }
    sim->writer = (struct sim_ledger){.port = {.ops = &ops}, .sim = sim, .inner = inner};
    sim->reader = sim->writer;
}

void sim_ledger_done(struct sim *sim)
{
    ledger_sqlite_close(sim->sqlite);
    if (sim->plan.sqlite) {
        sim_ledger_clean(getpid());
    }
    memory_ledger_done(&sim->memory);
}
