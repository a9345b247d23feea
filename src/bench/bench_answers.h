/*
 * The clients' answers: one record per order id, and the file of --tell. A table belongs to one
 * worker thread (all orders of a buyer belong to one worker); the audit reads it after that thread
 * has ended. The tell file may be shared: every write(2) appends whole lines.
 */
#ifndef SLUICE_BENCH_BENCH_ANSWERS_H
#define SLUICE_BENCH_BENCH_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "core/types.h"

#define BENCH_ORDER_ID_MAX 64
#define ANSWER_NONE (-1)

struct answer {
    struct answer *next; /* in its bucket */
    uint64_t hash;
    uint64_t user;
    uint64_t item;
    uint32_t qty;
    int8_t state;   /* the furthest enum order_state seen, or ANSWER_NONE */
    bool refused;   /* a request got a refusal that promises that nothing was taken */
    bool unknown;   /* a request ended without a final answer: it may have taken a unit */
    bool in_ledger; /* set by the audit */
    uint8_t id_len;
    char id[];
};

struct answer_table {
    struct answer **buckets;
    size_t bucket_count; /* a power of two, or 0 */
    size_t count;
};

void answer_table_done(struct answer_table *table);
struct answer *answer_find(const struct answer_table *table, struct span id);
/* Finds or adds. ERR_NOMEM; ERR_INVALID for an id longer than BENCH_ORDER_ID_MAX or empty. */
int answer_put(struct answer_table *table, struct span id, struct answer **ret_answer);
/* The record after `answer`; NULL starts. Returns NULL at the end. In any order. */
struct answer *answer_next(const struct answer_table *table, const struct answer *answer);

/* Whether an order seen in state from may later be seen in state to (or be the same). */
bool answer_may_follow(enum order_state from, enum order_state to);

/*
 * A client that knew `known` when it sent its request was answered `state`. Keeps the furthest.
 * False: it went backwards, or contradicts an answer to another client.
 */
bool answer_advance(struct answer *answer, int known, enum order_state state);

/* Lines of --tell, collected while answers are read, and written before anything else is sent. */
struct tell {
    int fd; /* -1: no file */
    char *lines;
    size_t len;
    size_t cap;
};

/* status is the order's state, or a refusal's code. ERR_NOMEM. */
int tell_line(struct tell *tell, struct span order_id, uint64_t user, uint64_t item, uint32_t qty,
              int http_status, struct span status);
/* One write(2) of everything collected. ERR_IO. */
int tell_flush(struct tell *tell);

#endif
