/*
 * A world small enough to lie in, for the referee's own tests: a real gate, a ledger that commits
 * whatever it is told, and clients that hear whatever they are told. Every helper tells the referee
 * the truth; a test changes what it wants to be caught at.
 *
 * One sale (7, open from BEGIN_MS to BEGIN_MS + 1 h, 60 s to pay, unpaid are barred) with item 100
 * (limit 1, 3 units, 500 each), item 101 (no limit, 10 units, 300 each) and item 102 (limit 5, 8
 * units, 200 each).
 */
#ifndef SLUICE_REFEREE_WORLD_H
#define SLUICE_REFEREE_WORLD_H

#include "referee.h"

#define BEGIN_MS 1800000000000LL
#define SALE 7
#define ONE_EACH 100
#define NO_LIMIT 101
#define UP_TO_5 102

struct world {
    struct referee *referee;
    struct gate gate;
    void *memory;
    uint64_t lsn;
    uint64_t durable; /* follows lsn unless held */
    bool hold;        /* durable stays where it is */
    bool failed;
    bool disturbed;
    int64_t boot_us;
    int64_t wall_ms; /* at the start of this life, with boot_us 0 */
    uint64_t events;
    uint64_t requests;
    uint32_t sequence; /* of fresh ids */
    struct sale_row row;
    struct item_row items[3];
};

/* The promise that sim_broken was called with; -1: none. */
extern int world_broken;
extern char world_what[400];

/* Created, warmed, opened and seen. */
void world_open(struct world *w);
void world_close(struct world *w);
int64_t world_now_ms(const struct world *w);
void world_pass_ms(struct world *w, int64_t ms); /* and a step */
void world_step(struct world *w);
/* The server dies and loses what was not durable; then it starts with what is in w->gate. */
void world_crash(struct world *w);
void world_start(struct world *w);
struct referee_view world_view(struct world *w);

/* ---- clients ---- */

struct sim_request world_send(struct world *w, enum sim_call call, uint64_t user,
                              struct order_id order, uint32_t qty);
void world_send_this(struct world *w, struct sim_request *request);
void world_hear(struct world *w, const struct sim_request *request,
                const struct sim_answer *answer);
/* An answer that shows the order as it is in the gate. */
struct sim_answer world_view_of(struct world *w, struct order_id order);
struct sim_answer world_buy_answer(struct world *w, struct order_id order);
struct sim_answer world_refusal(int status, const char *code, const char *retry);
struct sim_answer world_numbers(struct world *w, uint64_t item);
struct order_id world_id(struct world *w, uint64_t item, uint64_t user);

/* ---- the server ---- */

/* The gate decides; CHECKs that it accepts. */
void world_decide(struct world *w, struct order_id order, uint64_t user, uint32_t qty);
/* What a whole buy does: sent, decided, heard. */
struct order_id world_buy(struct world *w, uint64_t item, uint64_t user, uint32_t qty);

/* ---- the ledger ---- */

/* Committed with these events (numbers are given here), and applied to the gate unless !apply. */
void world_commit(struct world *w, struct ledger_op *op, struct ledger_event *events, size_t count,
                  bool apply);
/* The op and event of a booking, of a move to a final state. */
struct ledger_op world_book_op(struct world *w, struct order_id order);
struct ledger_event world_order_event(struct world *w, const struct ledger_op *op,
                                      enum ledger_event_kind kind);
void world_book(struct world *w, struct order_id order);
struct ledger_op world_end_op(struct world *w, enum ledger_kind kind, struct order_id order,
                              const char *key);
void world_end(struct world *w, enum ledger_kind kind, struct order_id order, const char *key);

#endif
