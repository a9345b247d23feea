/*
 * The comparison. Happy path: every order that an answer showed is in the ledger with the same
 * buyer, item and quantity, in a state that may follow the one in the answer; live orders stay
 * within stock and limits; an item's counters add up and agree with its orders.
 *
 * A request without a final answer proves nothing either way. Orders of other clients count for
 * stock and limits and are not compared.
 */
#include "bench/bench_audit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define FINDINGS_SHOWN 10

struct findings {
    FILE *log;
    unsigned shown;
};

static void finding(struct findings *findings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void finding(struct findings *findings, const char *format, ...)
{
    if (findings->log == NULL || findings->shown++ >= FINDINGS_SHOWN) {
        return;
    }
    va_list args;
    va_start(args, format);
    (void)fputs("audit: ", findings->log);
    (void)vfprintf(findings->log, format, args);
    (void)fputc('\n', findings->log);
    va_end(args);
}

bool audit_ok(const struct audit_result *result)
{
    return result->oversold == 0 && result->lost == 0 && result->doubled == 0 && result->wrong == 0;
}

static int by_id(const void *a, const void *b)
{
    const struct ledger_order *x = a;
    const struct ledger_order *y = b;
    size_t len = x->id_len < y->id_len ? x->id_len : y->id_len;
    int order = memcmp(x->id, y->id, len);
    return order != 0 ? order : (int)x->id_len - (int)y->id_len;
}

static int by_buyer(const void *a, const void *b)
{
    const struct ledger_order *x = a;
    const struct ledger_order *y = b;
    if (x->item != y->item) {
        return x->item < y->item ? -1 : 1;
    }
    return x->user == y->user ? 0 : x->user < y->user ? -1 : 1;
}

static void ids_compare(const struct audit_ledger *ledger, struct findings *findings,
                        struct audit_result *result)
{
    for (size_t i = 1; i < ledger->order_count; i++) {
        const struct ledger_order *order = &ledger->orders[i];
        if (by_id(order - 1, order) == 0) {
            result->doubled++;
            finding(findings, "doubled: order %.*s is in the ledger twice", order->id_len,
                    order->id);
        }
    }
}

static void order_compare(struct answer *answer, const struct ledger_order *order,
                          struct findings *findings, struct audit_result *result)
{
    answer->in_ledger = true;
    if (answer->state == ANSWER_NONE) {
        if (answer->refused && !answer->unknown) {
            result->wrong++;
            finding(findings, "wrong: order %.*s was refused, yet it is in the ledger (%s)",
                    order->id_len, order->id, order_state_text(order->state));
        }
        return;
    }
    if (answer->user != order->user || answer->item != order->item ||
        (int64_t)answer->qty != order->qty) {
        result->wrong++;
        finding(findings, "wrong: order %.*s has another buyer, item or quantity", order->id_len,
                order->id);
    } else if (!answer_may_follow((enum order_state)answer->state, order->state)) {
        result->wrong++;
        finding(findings, "wrong: order %.*s was told %s and is %s", order->id_len, order->id,
                order_state_text((enum order_state)answer->state), order_state_text(order->state));
    }
}

static void answers_compare(const struct audit_ledger *ledger,
                            const struct answer_table *const *tables, size_t table_count,
                            struct findings *findings, struct audit_result *result)
{
    for (size_t t = 0; t < table_count; t++) {
        for (struct answer *answer = NULL; (answer = answer_next(tables[t], answer)) != NULL;) {
            answer->in_ledger = false;
        }
    }
    for (size_t i = 0; i < ledger->order_count; i++) {
        const struct ledger_order *order = &ledger->orders[i];
        struct span id = {order->id, order->id_len};
        for (size_t t = 0; t < table_count; t++) {
            struct answer *answer = answer_find(tables[t], id);
            if (answer != NULL) {
                order_compare(answer, order, findings, result);
            }
        }
    }
    for (size_t t = 0; t < table_count; t++) {
        for (struct answer *answer = NULL; (answer = answer_next(tables[t], answer)) != NULL;) {
            if (answer->state == ANSWER_NONE) {
                continue;
            }
            result->checked++;
            if (!answer->in_ledger) {
                result->lost++;
                finding(findings, "lost: order %.*s was told %s and is not in the ledger",
                        answer->id_len, answer->id,
                        order_state_text((enum order_state)answer->state));
            }
        }
    }
}

static void item_compare(const struct audit_ledger *ledger, const struct audit_item *item,
                         struct findings *findings, struct audit_result *result)
{
    int64_t alive = 0;
    int64_t paid = 0;
    for (size_t i = 0; i < ledger->order_count; i++) {
        const struct ledger_order *order = &ledger->orders[i];
        if (order->item == item->id && order_state_alive(order->state)) {
            alive += order->qty;
            paid += order->state == ORDER_PAID ? order->qty : 0;
        }
    }
    if (alive > item->total) {
        result->oversold += (uint64_t)(alive - item->total);
        finding(findings, "oversold: item %" PRIu64 " has %" PRId64 " units in orders of %" PRId64,
                item->id, alive, item->total);
    }
    if (item->available < 0 || item->locked < 0 || item->sold < 0 ||
        item->available + item->locked + item->sold != item->total ||
        item->locked + item->sold != alive || item->sold != paid) {
        result->wrong++;
        finding(findings,
                "wrong: item %" PRIu64 " says total %" PRId64 " available %" PRId64
                " locked %" PRId64 " sold %" PRId64 "; its orders hold %" PRId64 ", paid %" PRId64,
                item->id, item->total, item->available, item->locked, item->sold, alive, paid);
    }
}

/* The orders are sorted by buyer, so those of one buyer are adjacent. */
static void limit_compare(const struct audit_ledger *ledger, const struct audit_item *item,
                          struct findings *findings, struct audit_result *result)
{
    int64_t held = 0;
    for (size_t i = 0; i < ledger->order_count; i++) {
        const struct ledger_order *order = &ledger->orders[i];
        if (order->item != item->id) {
            continue;
        }
        held += order_state_alive(order->state) ? order->qty : 0;
        if (i + 1 < ledger->order_count && by_buyer(order, order + 1) == 0) {
            continue;
        }
        if (held > item->limit_per_user) {
            result->doubled++;
            finding(findings,
                    "doubled: user %" PRIu64 " holds %" PRId64 " of item %" PRIu64
                    ", the limit is %" PRId64,
                    order->user, held, item->id, item->limit_per_user);
        }
        held = 0;
    }
}

void audit_compare(struct audit_ledger *ledger, const struct answer_table *const *tables,
                   size_t table_count, FILE *log, struct audit_result *ret_result)
{
    struct findings findings = {.log = log};
    struct audit_result result = {0};
    if (ledger->order_count > 0) {
        qsort(ledger->orders, ledger->order_count, sizeof(*ledger->orders), by_id);
    }
    ids_compare(ledger, &findings, &result);
    answers_compare(ledger, tables, table_count, &findings, &result);
    if (ledger->order_count > 0) {
        qsort(ledger->orders, ledger->order_count, sizeof(*ledger->orders), by_buyer);
    }
    for (size_t i = 0; i < ledger->item_count; i++) {
        item_compare(ledger, &ledger->items[i], &findings, &result);
        if (ledger->items[i].limit_per_user > 0) {
            limit_compare(ledger, &ledger->items[i], &findings, &result);
        }
    }
    if (findings.shown > FINDINGS_SHOWN) {
        (void)fprintf(log, "audit: and %u more\n", findings.shown - FINDINGS_SHOWN);
    }
    *ret_result = result;
}
