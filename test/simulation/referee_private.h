/*
 * The referee's accounts, shared with the checkers (promise_*.c). Only referee*.c write to them,
 * except to the few members marked as a checker's own.
 *
 * Three columns, never mixed: what was asked and told (clients), the truth (committed in the
 * ledger), and what the gate ought to hold: the truth up to the event the gate says it has applied,
 * and the decisions it has made since.
 *
 * "When" is a counter that grows with everything the referee sees, so that two things of the same
 * microsecond still have an order. An answer may be as old as its request: whatever was known when
 * the request was sent binds it, whatever came later may or may not show.
 */
#ifndef SLUICE_REFEREE_PRIVATE_H
#define SLUICE_REFEREE_PRIVATE_H

#include <stddef.h>
#include <string.h>

#include "referee.h"

#define NEVER UINT64_MAX

/* How far an order is: QUEUED, LOCKED, final. */
enum { RANK_QUEUED, RANK_LOCKED, RANK_FINAL, RANKS };
int ref_rank(enum order_state state);

/* ---- tables: found by two numbers, walked in the order of adding ---- */

struct ref_pair {
    uint64_t a, b;
};
struct ref_table {
    uint32_t *slots; /* index of the entry + 1; 0: free */
    uint32_t mask;
    uint32_t count;
    uint32_t capacity;
    void **entries; /* each begins with its struct ref_pair, and stays where it is */
};
void *ref_table_find(const struct ref_table *table, uint64_t a, uint64_t b);
/* A new entry of `size` zeroed bytes; there is none yet. */
void *ref_table_add(struct ref_table *table, uint64_t a, uint64_t b, size_t size);
void ref_table_done(struct ref_table *table);

/* ---- the lowest value since a moment ---- */

/* Values that ended, each lower than all after it: the first that ended at or after a moment is the
 * lowest of all since then. For the highest, give negated values. */
struct ref_low {
    struct {
        uint64_t until;
        int64_t value;
    } * ended;
    uint32_t count;
    uint32_t capacity;
    int64_t now;
    bool known;
};
void ref_low_set(struct ref_low *low, uint64_t when, int64_t value);
int64_t ref_low_since(const struct ref_low *low, uint64_t when);

/* ---- accounts ---- */

/* A sale's window as the gate had it, from one moment (counter) to another; the last one: NEVER. */
struct ref_era {
    enum sale_state state;
    int64_t starts_at_ms;
    int64_t ends_at_ms;
    uint64_t from;
    uint64_t until;
};

struct ref_sale {
    struct ref_pair pair; /* id, 0 */
    /* asked */
    uint32_t moves_asked[SALE_STATE_COUNT];
    uint32_t changes_asked;
    /* truth */
    bool exists;
    bool forgotten;
    uint64_t forgotten_event;
    bool bar_unpaid;
    uint32_t pay_within_s;
    enum sale_state state;
    int64_t starts_at_ms;
    int64_t ends_at_ms;
    uint64_t reached[SALE_STATE_COUNT]; /* how often it came to be so */
    uint64_t unfinished;                /* orders QUEUED in a gate or LOCKED in the ledger */
    /* gate */
    bool loaded;
    bool gone; /* the event that forgets it is applied */
    struct ref_era *eras;
    uint32_t eras_count;
    uint32_t live; /* orders in the gate that are not final */
};

struct ref_item {
    struct ref_pair pair; /* id, 0 */
    struct ref_sale *sale;
    uint32_t price_cents;
    uint32_t limit;
    /* truth */
    uint64_t total;
    uint64_t locked;
    uint64_t sold;
    /* gate */
    bool loaded;
    uint64_t loaded_at; /* when it was first seen there; NEVER */
    uint64_t version;   /* of the gate's item when last looked at */
    uint32_t slot;
    uint32_t evicted; /* orders that are known to have been evicted */
    uint32_t live;    /* orders in the gate that are not final */
    uint64_t gate_total;
    uint64_t gate_locked;
    uint64_t gate_sold;
    uint64_t gate_returned;   /* units that came back, or were added, since the last step */
    struct ref_low available; /* lowest since */
    struct ref_low most;      /* of -available: highest since */
};

struct ref_buyer {
    struct ref_pair pair; /* user, item */
    struct ref_item *item;
    struct ref_order *orders; /* asked for by this user, newest first */
    uint64_t alive;           /* truth: units in LOCKED and PAID orders */
    uint64_t told;            /* units told of whose orders are not in the truth yet */
    uint64_t held;            /* gate */
    uint32_t live;            /* orders there that are not final */
    uint32_t failed_attempts;
    bool barred;
    int64_t cooling_until_ms; /* 0 if barred */
};

#define ASKS_MAX 4
struct ref_ask {
    uint64_t user;
    uint32_t qty;
};

struct ref_order {
    struct ref_pair pair; /* id.hi, id.lo */
    struct order_id id;
    struct ref_item *item;
    struct ref_buyer *buyer; /* of the first request */
    struct ref_order *next_of_buyer;
    bool before_set_back; /* asked for before the time was set back: its times may be later ones */
    /* asked */
    struct ref_ask requests[ASKS_MAX];
    uint32_t asks_count;
    bool asked_otherwise; /* more than fit */
    uint32_t buys_sent;
    uint32_t buys_refused; /* heard, and not 503 same-ticket */
    uint64_t buys_refused_at;
    uint32_t cancels_sent;
    uint32_t cancels_refused;
    int64_t ticket_expires_ms; /* the latest */
    /* told */
    uint64_t told_at[RANKS]; /* NEVER: not yet */
    uint32_t told_units;     /* counted in buyer->told */
    int64_t told_created_ms; /* 0: not said yet */
    uint64_t stream_id[RANKS];
    /* truth */
    bool in_truth;
    enum order_state state;
    enum refusal reason;
    uint64_t user;
    uint32_t qty;
    int64_t amount_cents;
    int64_t created_at_ms;
    int64_t pay_by_ms;
    int64_t cooling_until_ms; /* that its end gave its buyer */
    uint64_t locked_event;    /* its event's number */
    uint64_t ended_event;     /* 0: not yet */
    uint64_t truth_at[RANKS];
    uint64_t paid_by; /* ref_text_hash of the payment_id */
    /* gate */
    bool in_gate; /* the gate knows it: it holds it, or has evicted it */
    bool evicted;
    bool seen; /* in the gate of an earlier life, as below */
    uint64_t gate_user;
    uint32_t gate_qty;
    int64_t gate_created_ms;
    uint64_t gate_lsn;      /* of the decision */
    int64_t gate_seen_ms;   /* inside time */
    uint64_t gate_ended_at; /* when it ended there */
    uint32_t open_place;    /* in referee->open, + 1 */
};

/* What one key (payment_id, request_id) stands for, and each body sent under it. */
struct ref_key {
    struct ref_pair pair;
    bool done; /* truth */
    uint64_t body;
};
struct ref_body {
    struct ref_pair pair;
    uint32_t sent;
    uint32_t refused;
    uint64_t told_done_at;    /* NEVER */
    uint64_t told_expired_at; /* NEVER */
};

/* A request, by its number. */
struct ref_request {
    uint64_t sent_at;
    uint32_t life; /* of the server */
    bool waits;
    bool streamed;
    uint8_t rank;       /* of the last event */
    uint64_t stream_id; /* of the last event */
    uint64_t total;     /* numbers at sending, or of the last event */
    uint64_t sold;
    int64_t inside_ms; /* the lowest it can have been then */
};

struct referee {
    struct sim *sim;
    uint64_t now; /* the counter */
    struct ref_table sales, items, buyers, orders, keys, bodies;
    struct ref_request *requests;
    uint64_t requests_capacity;
    uint64_t waiting;        /* requests without an answer */
    struct ref_order **open; /* alive and not PAID: in a gate or LOCKED in the truth */
    uint32_t open_count;
    uint32_t open_capacity;
    /* truth */
    struct ledger_event *events;
    uint64_t events_count;
    uint64_t events_capacity;
    uint64_t booked_lsn;
    uint64_t not_final; /* orders LOCKED */
    int64_t truth_ms;   /* latest time of any event */
    int64_t batch_ms;   /* latest time of any batch since the last step */
    /* the server */
    bool up;
    uint32_t life;
    struct referee_view view; /* as of the last step */
    uint64_t applied;         /* events the accounts of the gate have */
    uint64_t durable_lsn;     /* highest seen in this life, and the one before while starting */
    uint64_t gate_orders;
    uint64_t evictions;
    uint64_t full;
    uint64_t steps;
    uint64_t step_at;    /* the counter at the last one */
    int64_t step_us;     /* true time then */
    uint32_t next_order; /* looked at in turn */
    uint32_t next_buyer;
    /* inside time */
    int64_t boot_us;
    int64_t boot_start_us;
    int64_t start_low_ms;
    int64_t start_high_ms;
    bool accepts; /* a start may set the time back */
    bool was_set_back;
    int64_t before_ms;   /* highest_ms at the last start; 0: it was the first */
    int64_t highest_ms;  /* of any gate and batch, and of the life before */
    int64_t gate_ms;     /* highest_ms of the gate at the last step */
    int64_t promised_ms; /* latest time that is durable for certain: told or in the truth */
    int64_t calm_ms;     /* inside time since which nothing disturbs */
};

/* ---- helpers ---- */

struct ref_name {
    char text[ORDER_ID_TEXT + 1];
};
struct ref_name ref_name(struct order_id id);

struct ref_order *ref_find_order(const struct referee *r, struct order_id id);
struct ref_item *ref_item(struct referee *r, uint64_t id);                    /* made if need be */
struct ref_sale *ref_sale(struct referee *r, uint64_t id);                    /* made if need be */
struct ref_buyer *ref_buyer(struct referee *r, uint64_t user, uint64_t item); /* made if need be */
struct ref_request *ref_request(struct referee *r, uint64_t number);
uint64_t ref_text_hash(const char *text);
struct ref_key *ref_key(struct referee *r, enum ledger_kind kind, const char *key, uint64_t item);
uint64_t ref_body_hash(enum ledger_kind kind, const char *key, uint64_t a, uint64_t b, uint64_t c);
struct ref_body *ref_body(struct referee *r, uint64_t hash);

/* Somebody sent a BUY for this order with these. */
bool ref_was_asked(const struct ref_order *order, uint64_t user, uint64_t item, uint32_t qty);
/* Its sale is off the board, or may be. */
bool ref_forgotten(const struct ref_order *order);
/* The state the gate ought to show with the events up to this one. */
enum order_state ref_state_at(const struct ref_order *order, uint64_t event);
/* How far somebody knew the order to be at that moment; -1: not told of. */
int ref_told_rank(const struct ref_order *order, uint64_t when);
int ref_truth_rank(const struct ref_order *order, uint64_t when);
/* The order's numbers as they are known best. */
uint32_t ref_qty(const struct ref_order *order);
/* 503 same-ticket: not a refusal of the kind that changes nothing. */
bool ref_outcome_unknown(const struct sim_answer *answer);
static inline bool ref_code(const struct sim_answer *answer, const char *code)
{
    return strcmp(answer->code, code) == 0;
}
/* Inside time at the last step, at least and at most. */
int64_t ref_inside_low(const struct referee *r);
int64_t ref_inside_high(const struct referee *r);

/* ---- parts of the referee ---- */

/* referee_truth.c: a batch. */
void ref_truth_committed(struct referee *r, const struct ledger_batch *batch);

/* referee_gate.c: follows the gate from step to step. */
void ref_gate_started(struct referee *r);
void ref_gate_step(struct referee *r);
void ref_gate_compare_all(struct referee *r);
void ref_open_add(struct referee *r, struct ref_order *order);
void ref_open_remove(struct referee *r, struct ref_order *order);

/* ---- the checkers: each hook is called by the referee where its name says ---- */

/* 1: stock */
void promise_01_step(struct referee *r, struct ref_item *item, const struct gate_item *at_gate);
void promise_01_numbers(struct referee *r, const struct sim_request *request,
                        struct ref_request *rr, const struct sim_answer *numbers);
/* 2: alive orders and the total; after each change of the truth */
void promise_02_committed(struct referee *r, const struct ref_item *item);
/* 3: what an answer shows is durable */
void promise_03_told(struct referee *r, const struct sim_request *request,
                     const struct ref_request *rr, const struct ref_order *order,
                     const struct sim_told *told);
void promise_03_heard(struct referee *r, const struct sim_request *request,
                      const struct sim_answer *answer);
void promise_03_failed(struct referee *r, const struct ref_order *order);
/* 4: no order without a decision, no decision without an order */
void promise_04_decided(struct referee *r, const struct ref_order *order);
void promise_04_booked(struct referee *r, const struct ref_order *order,
                       const struct ledger_op *op);
void promise_04_told(struct referee *r, const struct sim_request *request,
                     const struct ref_order *order, const struct sim_told *told);
void promise_04_listed(struct referee *r, const struct sim_request *request,
                       const struct ref_request *rr, const struct sim_answer *answer);
void promise_04_end(struct referee *r);
/* 5: limits */
void promise_05_buyer(struct referee *r, const struct ref_buyer *buyer);
/* A new order, of a buyer whose account has the events that the gate had applied before. */
void promise_05_decided(struct referee *r, const struct ref_order *order,
                        const struct ref_buyer *buyer);
void promise_05_heard(struct referee *r, const struct sim_request *request,
                      const struct sim_answer *answer);
/* 6: the same id is the same order */
void promise_06_told(struct referee *r, const struct ref_order *order, const struct sim_told *told);
void promise_06_heard(struct referee *r, const struct sim_request *request,
                      const struct ref_request *rr, const struct sim_answer *answer);
void promise_06_booked_again(struct referee *r, const struct ref_order *order,
                             const struct ledger_op *op);
void promise_06_key(struct referee *r, const struct ref_key *key, const struct ledger_op *op,
                    uint64_t body);
/* 7: legal moves, views that never go back */
void promise_07_moved(struct referee *r, const struct ref_order *order, enum order_state to);
void promise_07_told(struct referee *r, const struct sim_request *request, struct ref_request *rr,
                     const struct ref_order *order, const struct sim_told *told);
void promise_07_streamed(struct referee *r, const struct sim_request *request,
                         struct ref_request *rr, struct ref_order *order, uint64_t id,
                         const struct sim_told *told);
void promise_07_heard(struct referee *r, const struct sim_request *request,
                      const struct ref_request *rr, const struct sim_answer *answer);
/* 8: deadlines */
void promise_08_booked(struct referee *r, const struct ref_order *order, int64_t now_ms);
void promise_08_ended(struct referee *r, const struct ref_order *order, enum order_state to,
                      int64_t now_ms);
void promise_08_paid(struct referee *r, const struct ref_order *order, const struct ref_body *body);
void promise_08_refused(struct referee *r, const struct ref_order *order,
                        const struct ledger_op *op, bool key_done, int64_t now_ms);
void promise_08_heard(struct referee *r, const struct sim_request *request,
                      const struct sim_answer *answer);
void promise_08_step(struct referee *r);
/* 9: refusals */
void promise_09_decided(struct referee *r, const struct ref_order *order);
void promise_09_heard(struct referee *r, const struct sim_request *request,
                      const struct ref_request *rr, const struct sim_answer *answer);
void promise_09_caused(struct referee *r, const char *what, struct order_id id, uint32_t sent,
                       uint32_t refused);
/* 10: window and clock */
void promise_10_started(struct referee *r, int64_t wall_ms, int64_t steady_us);
void promise_10_decided(struct referee *r, const struct ref_order *order);
void promise_10_moved(struct referee *r, const struct ref_sale *sale, enum sale_state to,
                      int64_t now_ms);
void promise_10_heard(struct referee *r, const struct sim_request *request,
                      const struct ref_request *rr, const struct sim_answer *answer);
void promise_10_committed(struct referee *r, const struct ledger_batch *batch);
void promise_10_step(struct referee *r);
void promise_10_sale(struct referee *r, const struct ref_sale *sale,
                     const struct gate_sale *at_gate);
/* 12: recovery */
void promise_12_step(struct referee *r);
void promise_12_started(struct referee *r);
void promise_12_found(struct referee *r, const struct ref_order *order,
                      const struct gate_order *at_gate);
/* 13: everything comes to an end */
uint32_t promise_13_late(const struct referee *r);
void promise_13_step(struct referee *r);
void promise_13_end(struct referee *r);

#endif
