/*
 * A simulated broker behind port/queue.h: in memory, deterministic from its seed, on the time it is
 * given. It passes the contract suite of the queue (test/conformance/queue) like the real one, and
 * it fails in the ways the contract allows, when told to.
 *
 * Nothing waits: wait_ms is ignored, and a call that finds nothing says ERR_AGAIN. Messages are
 * persistent: a restart keeps them.
 */
#ifndef SLUICE_TEST_SIM_QUEUE_H
#define SLUICE_TEST_SIM_QUEUE_H

#include "port/queue.h"

/* Each a chance in 1000, drawn for each message it could befall; all 0: no faults. */
struct sim_queue_faults {
    uint32_t duplicate;    /* a published or retried message is there twice */
    uint32_t reorder;      /* a published message does not go to the end */
    uint32_t lose_message; /* a published message is not taken, and that is told (a nack) */
    uint32_t lose_confirm; /* a published message is taken, its confirm is lost */
    uint32_t lose_settle;  /* a settlement is lost, and its connection with it */
    uint32_t outcome_ms;   /* no chance: an outcome takes up to so long */
};

struct sim_broker;

/* retry_s: pauses before the first, second ... retry, up to 8. Aborts without memory. */
struct sim_broker *sim_broker_new(uint64_t seed, const uint32_t *retry_s, size_t retry_count);
/* Its queues are closed before. */
void sim_broker_free(struct sim_broker *broker);
/* Time only goes forward. */
void sim_broker_time(struct sim_broker *broker, int64_t now_ms);
void sim_broker_faults(struct sim_broker *broker, const struct sim_queue_faults *faults);
/* Every connection ends: what is under way is unconfirmed (there or not), what is taken and not
 * settled goes back. They are there again at once. */
void sim_broker_cut(struct sim_broker *broker);
/* Every connection ends, and none can be made before until_ms: a restart, or a broker away. */
void sim_broker_down(struct sim_broker *broker, int64_t until_ms);
/* How often a message may be taken and not settled before it is put aside; 20, unless told. */
void sim_broker_patience(struct sim_broker *broker, uint32_t deliveries);
/* Messages that exist, wherever. */
uint64_t sim_broker_messages(const struct sim_broker *broker);
/* What was announced, in the order it arrived: the at-th of them; NULL: there are no more. An event
 * that was nacked, or that was on its way when the connection ended, is not there; of several on
 * their way, those sent last are lost first. */
struct sim_event {
    uint64_t id;
    char key[64];
    char *body;
    size_t len;
};
const struct sim_event *sim_broker_event(const struct sim_broker *broker, size_t at);
/* A number that is the same for the same history. */
uint64_t sim_broker_digest(const struct sim_broker *broker);

/* 0: as the real one's default. */
struct queue *sim_queue_open(struct sim_broker *broker, bool publisher, uint32_t window,
                             uint32_t prefetch);
void sim_queue_close(struct queue *queue); /* NULL is fine */

#endif
