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
    CHECK(ledger_write(ledger->inner, batch) == LEDGER_DONE);
    CHECK(batch->error == 0);
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

static enum ledger_submitted op_write(struct ledger *port, struct ledger_batch *batch)
{
    struct sim_ledger *ledger = self(port);
    struct sim *sim = ledger->sim;
    CHECK(ledger->pending == NULL);
    if (sim->process.dead || ledger->down) {
        sim_note(sim, "ledger refuses a batch", batch->count, 0, 0);
        if (ledger->down) {
            sim_fault_happened(sim, FAULT_LEDGER_DOWN);
        }
        fail(batch);
        return LEDGER_DONE;
    }
    if (sim_chance(sim, ledger->lose)) {
        commit(ledger, batch);
        sim_fault_happened(sim, FAULT_LEDGER_LOST);
        fail(batch);
        return LEDGER_DONE;
    }
    if (sim_chance(sim, ledger->delay)) {
        sim_fault_happened(sim, FAULT_LEDGER_SLOW);
        ledger->pending = batch;
        ledger->due_us = sim->now_us + sim_about(sim, 20000);
        ledger->pending_done = sim_chance(sim, 500);
        if (ledger->pending_done) {
            commit(ledger, batch);
        }
        return LEDGER_PENDING;
    }
    commit(ledger, batch);
    return LEDGER_DONE;
}

static struct ledger_batch *op_collect_batch(struct ledger *port)
{
    struct sim_ledger *ledger = self(port);
    struct sim *sim = ledger->sim;
    if (ledger->pending == NULL || sim->now_us < ledger->due_us) {
        return NULL;
    }
    struct ledger_batch *batch = ledger->pending;
    ledger->pending = NULL;
    if (!ledger->pending_done && (ledger->down || sim->process.dead)) {
        fail(batch);
    } else if (!ledger->pending_done) {
        commit(ledger, batch);
    } else if (ledger->down || sim_chance(sim, ledger->lose)) {
        fail(batch); /* it was committed, and the answer lost on its long way */
        sim_fault_happened(sim, FAULT_LEDGER_LOST);
    }
    return batch;
}

static enum ledger_submitted op_read(struct ledger *port, struct ledger_query *query)
{
    struct sim_ledger *ledger = self(port);
    if (ledger->down || sim_chance(ledger->sim, ledger->lose / 8)) {
        sim_fault_happened(ledger->sim, FAULT_LEDGER_DOWN);
        query->count = 0;
        query->error = ERR_IO;
        return LEDGER_DONE;
    }
    enum ledger_submitted done = ledger_read(ledger->inner, query);
    CHECK(done == LEDGER_DONE);
    return done;
}

static struct ledger_query *op_collect_query(struct ledger *port)
{
    (void)port;
    return NULL;
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
    static const struct ledger_ops ops = {op_write, op_read, op_collect_batch, op_collect_query};
    memory_ledger_init(&sim->memory);
    struct ledger *inner = &sim->memory.ledger;
    if (sim->plan.sqlite) {
        char path[SQLITE_PATH_MAX];
        sim_ledger_clean(getpid());
        CHECK(ledger_sqlite_open(sqlite_path(getpid(), "", path), READ_WRITE, &sim->sqlite) == 0);
        inner = sim->sqlite;
    }
    sim->writer = (struct sim_ledger){.port = {&ops}, .sim = sim, .inner = inner};
    sim->reader = sim->writer;
}

void sim_ledger_forget(struct sim *sim)
{
    sim->writer.pending = NULL;
}

void sim_ledger_done(struct sim *sim)
{
    ledger_sqlite_close(sim->sqlite);
    if (sim->plan.sqlite) {
        sim_ledger_clean(getpid());
    }
    memory_ledger_done(&sim->memory);
}
