/*
 * What one pretended server holds of one segment, and the scripts that run on it: the gate's own
 * step function behind the checks of epoch, server and fencing token, an outbox whose entries are
 * held by workers, the transfers that left. One script is one call of server_run(): a pure function
 * of state and script, so that a log of scripts replays to the same state. A failover that forgets
 * the last k writes is such a replay.
 */
#ifndef SLUICE_TEST_SIM_SERVER_H
#define SLUICE_TEST_SIM_SERVER_H

#include "port/segments.h"

#define SERVER_WORKER_NONE 0U

struct server_entry {
    uint64_t number;
    uint64_t epoch;
    struct gate_command command;
    int64_t at_ms;   /* when it came, by the server's clock */
    uint32_t worker; /* who holds it */
    int64_t since_ms;
};

struct server_transfer {
    struct order_id id;
    uint64_t taken;
};

struct server_state {
    uint64_t epoch; /* 0: nothing here */
    uint64_t run;   /* the server that may decide */
    bool open;
    bool broken;   /* somebody said so */
    uint64_t base; /* the event it is filled as of */
    uint64_t fence;
    struct gate gate;
    void *memory;                /* the gate's; NULL: none yet */
    struct segment_step *staged; /* buyers and orders whose item has not come yet */
    size_t staged_count, staged_room, staged_orders;
    struct server_transfer *transfers;
    size_t transfers_count, transfers_room;
    struct server_entry *outbox; /* by number */
    size_t outbox_count, outbox_room;
    uint64_t numbers; /* given to entries */
};

enum server_script_kind { SCRIPT_CALL, SCRIPT_STEP, SCRIPT_TAKE, SCRIPT_DONE };

struct server_script {
    enum server_script_kind kind;
    uint64_t run; /* of the server it runs on */
    uint64_t epoch;
    uint64_t fence;
    uint64_t after;              /* CALL: of an event */
    bool buy;                    /* CALL: a buyer asks: the segment must be open */
    uint64_t outbox_max;         /* CALL: of a buyer; 0: no bound */
    bool floor;                  /* CALL: of a buyer: not below the highest time seen */
    struct gate_command command; /* CALL */
    struct segment_step step;    /* STEP */
    uint32_t worker;             /* TAKE */
    uint64_t number;             /* TAKE: only behind this one; DONE: the entry */
    bool held;                   /* TAKE: those the worker holds already, else new and left ones */
    int64_t now_ms;              /* by the server's clock */
    int64_t claim_ms;            /* TAKE: held so long by another, it is left */
};

struct server_answer {
    enum segment_outcome outcome;
    enum verdict verdict;
    struct gate_effects effects;
    uint64_t taken;
    bool has_order;
    struct order_view order;
    bool wrote;                /* it goes into the log */
    struct server_entry entry; /* TAKE; number 0: none */
};

void server_state_init(struct server_state *ret_state);
void server_state_done(struct server_state *state);
void server_state_copy(const struct server_state *from, struct server_state *ret_to);
void server_run(struct server_state *state, const struct server_script *script,
                struct server_answer *ret_answer);

#endif
