/*
 * A gate of several segments in memory: each is a struct gate (core/gate.h) on a pretended server of
 * its own, with outbox, epoch, run id and fencing token. The same servers are asked by fronts
 * through port/gate.h and by the threads behind them through port/segments.h. No threads, no clock
 * of its own, no randomness but the caller's: the same calls give the same answers.
 *
 * Asks are answered at once, or after a time the caller draws; what is under way runs when
 * sim_segments_run() or a collect finds its time has come, whether or not its front still lives.
 * Waits of take and news end at once where there is nothing.
 *
 * Faults strike when they are called: a server that is away, answers that are lost after the call
 * ran, a failover that forgets the last writes and is another server, a restart with nothing, a
 * segment that contradicts itself, news that is lost.
 */
#ifndef SLUICE_TEST_SIM_SEGMENTS_H
#define SLUICE_TEST_SIM_SEGMENTS_H

#include "port/clock.h"
#include "port/gate.h"
#include "port/segments.h"

struct sim_segments;

struct sim_segments_options {
    uint32_t segments;
    struct clock_port *clock;
    int64_t claim_ms;    /* an entry held so long by one worker goes to another */
    uint32_t forget_max; /* a failover forgets at most so many writes */
    uint64_t outbox_max; /* entries of a segment; buys past it are OVERLOADED. 0: no bound */
    void *context;
    int64_t (*delay_us)(void *context); /* one way of an ask; NULL: answered at once */
    /* A buyer's ask has just run, and was answered, whether or not the answer arrives. NULL: nobody
     * wants to know. */
    void (*decided)(void *context, const struct gate_request *buy);
};

struct sim_segments *sim_segments_new(struct sim_segments_options options);
/* After its workers and fronts. */
void sim_segments_free(struct sim_segments *sim);

/* One thread's instance; the name says whose entries it holds (not 0). */
struct segments *sim_segments_worker(struct sim_segments *sim, uint32_t name);
void sim_segments_worker_free(struct segments *worker);
struct gate_port *sim_segments_front(struct sim_segments *sim, uint32_t loops);
/* Its process is gone: what is under way still runs, and nobody is told. */
void sim_segments_front_free(struct gate_port *front);

/* Runs what has arrived by now. */
void sim_segments_run(struct sim_segments *sim);
/* When the next of what is under way runs or is answered, on boot_us; INT64_MAX: nothing is. */
int64_t sim_segments_next_us(const struct sim_segments *sim);

/* ---- faults ---- */

void sim_segments_away(struct sim_segments *sim, uint32_t segment, bool away);
/* The answers of the next `count` calls are lost after they ran. */
void sim_segments_lose(struct sim_segments *sim, uint32_t segment, uint32_t count);
/* Another server takes over, without the last writes. How many were forgotten. */
uint32_t sim_segments_failover(struct sim_segments *sim, uint32_t segment, uint32_t forget);
/* Restarted without its data. */
void sim_segments_empty(struct sim_segments *sim, uint32_t segment);
/* The item's units no longer stand for its orders. False: no such item. */
bool sim_segments_break(struct sim_segments *sim, uint32_t segment, uint64_t item);
/* Whatever waits to be read as news is lost. */
void sim_segments_lose_news(struct sim_segments *sim);

/* ---- what is there ---- */

uint64_t sim_segments_epoch(const struct sim_segments *sim, uint32_t segment);
/* It decides for fronts: open, and on the server it was made for. */
bool sim_segments_open(const struct sim_segments *sim, uint32_t segment);
/* NULL: nothing there. */
const struct gate *sim_segments_gate(const struct sim_segments *sim, uint32_t segment);
uint64_t sim_segments_outbox(const struct sim_segments *sim, uint32_t segment);
/* Scripts that wrote, since the beginning. */
uint64_t sim_segments_writes(const struct sim_segments *sim, uint32_t segment);

#endif
