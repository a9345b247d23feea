/*
 * The parts of a keeper on a process of cluster_model.h: one rebuilds segments, one balances them. All
 * their tests use these limits.
 */
#ifndef KEEPER_FIXTURE_H
#define KEEPER_FIXTURE_H

#include "base/check.h"
#include "cluster_model.h"
#include "distributed/balance.h"
#include "distributed/recover.h"

#define PAUSE_MS 1000 /* between two refills of a segment */
#define DRAIN_MS 100  /* for outboxes, before a segment is rebuilt */

static inline struct balance *balance_of(struct model_process *process, uint32_t segments)
{
    struct balance *balance = NULL;
    struct balance_ports ports = {.segments = &process->segments.port,
                                  .gate = &process->gate.port,
                                  .ledger = &process->ledger.port,
                                  .lease = &process->lease.port,
                                  .blocking = process->blocking};
    struct balance_options options = {.segments = segments,
                                      .moves_max = 8,
                                      .lease_ms = MODEL_LEASE_MS,
                                      .pause_ms = PAUSE_MS,
                                      .refill_ms = 10000};
    CHECK(balance_new(ports, options, &balance) == 0);
    return balance;
}

static inline struct recover *recover_of(struct model_process *process, uint32_t segments,
                                         int64_t drain_ms)
{
    struct recover *recover = NULL;
    struct recover_ports ports = {.segments = &process->segments.port,
                                  .ledger = &process->ledger.port,
                                  .lease = &process->lease.port,
                                  .blocking = process->blocking};
    struct recover_options options = {
        .segments = segments,
        .sizes = {.orders = 1000, .buyers = 1000, .items = 10, .sales = 4},
        .lease_ms = MODEL_LEASE_MS,
        .poll_ms = 100,
        .drain_ms = drain_ms,
        .replay_ms = 500};
    CHECK(recover_new(ports, options, &recover) == 0);
    return recover;
}

/* Rounds until every segment is whole, and the world settles. */
static inline void recover_until_whole(struct cluster_world *world, struct recover *recover)
{
    struct recover_round round;
    do {
        CHECK(recover_round(recover, &round) == 0);
        fake_clock_pass_ms(&world->clock, MODEL_LEASE_MS + 1);
    } while (round.whole < world->count);
    model_settle(world);
}

#endif
