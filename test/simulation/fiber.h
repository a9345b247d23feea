/*
 * Threads that are none: each runs on a stack of its own until it sleeps, and the world's heap says
 * who goes on, and when. So code that waits (for the ledger writer, for a lease, for a recovery's replays)
 * is simulated as it is, and everything happens in an order that the seed drew.
 */
#ifndef SLUICE_SIM_FIBER_H
#define SLUICE_SIM_FIBER_H

#include <stdbool.h>
#include <stdint.h>

struct fiber;
struct fibers;

struct fibers *fibers_new(void);
/* Those that have not ended are given up where they stand. */
void fibers_free(struct fibers *fibers);

/* group: whom it dies and stands still with; 0: nobody. It runs first at the present time. */
struct fiber *fiber_start(struct fibers *fibers, uint32_t group, void (*run)(void *context),
                          void *context);
/* All of the group but the one that calls are given up where they stand. */
void fibers_kill(struct fibers *fibers, uint32_t group);
/* Nothing of the group goes on before this time. */
void fibers_hold(struct fibers *fibers, uint32_t group, int64_t until_us);

int64_t fibers_now_us(const struct fibers *fibers);
/* Runs the next one; false: there is none. */
bool fibers_step(struct fibers *fibers);

/* The one that runs; NULL: none does. */
struct fiber *fiber_self(void);
/* Of the one that runs. True: somebody woke it. */
bool fiber_sleep(int64_t us);
/* Ends a sleep after `in_us`, if it would not end before. NULL is fine. */
void fiber_wake(struct fiber *fiber, int64_t in_us);

#define GROUPS_MAX 8

#endif
