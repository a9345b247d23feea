/*
 * The audit of the load tool: clients' answers against the ledger. audit_compare is
 * pure. audit_run reads the ledger through the admin API and repeats until everything agrees or
 * nothing changes any more: bookings may still be in progress when the load ends.
 */
#ifndef SLUICE_BENCH_BENCH_AUDIT_H
#define SLUICE_BENCH_BENCH_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/bench_answers.h"

struct bench_shared;

struct ledger_order {
    uint64_t user;
    uint64_t item;
    int64_t qty;
    enum order_state state;
    uint8_t id_len;
    char id[BENCH_ORDER_ID_MAX];
};

/* Signed, so that a counter below zero can be read and found. */
struct audit_item {
    uint64_t id;
    int64_t total;
    int64_t available;
    int64_t locked;
    int64_t sold;
    int64_t limit_per_user;
};

struct audit_ledger {
    struct ledger_order *orders;
    size_t order_count;
    size_t order_cap;
    struct audit_item *items;
    size_t item_count;
};

struct audit_result {
    uint64_t checked;  /* orders that answers showed */
    uint64_t oversold; /* units in living orders above an item's total */
    uint64_t lost;     /* told of, and not in the ledger */
    uint64_t doubled;  /* an id twice, or a buyer over the limit */
    uint64_t wrong;    /* states that went backwards, counters that do not add up, and the like */
};

bool audit_ok(const struct audit_result *result);

/*
 * Sorts the orders and marks the records. The first findings are written to log, one line each; log
 * may be NULL.
 */
void audit_compare(struct audit_ledger *ledger, const struct answer_table *const *tables,
                   size_t table_count, FILE *log, struct audit_result *ret_result);

/* ERR_IO if the ledger could not be read; the reason is on stderr. */
int audit_run(struct bench_shared *shared, struct audit_result *ret_result);

#endif
