/* See teller.h. */
#include "flow/teller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/err.h"
#include "flow/payment.h"
#include "flow/remote.h"
#include "obs/log.h"

#define HELD_MAX 256
#define WAIT_US 100000
/* An order that neither gate nor ledger has may be one that both are about to learn of: a gate that
 * was replaced, a catalog that was read before the sale. After so many looks there is none. */
#define LOOKS 2

struct held {
    struct queue_message message;
    struct backoff backoff; /* one that has to wait holds up no other */
    struct office_op op;
    bool tried;
};

struct teller {
    struct teller_parts parts;
    struct held *held; /* taken and not settled: HELD_MAX */
    size_t count;
    size_t posted; /* ops that are the office's now */
};

/* ---- settling ---- */

/* A message of an earlier connection comes again by itself. */
static void let_go(struct teller *teller, const struct queue_message *message, int how)
{
    static struct log_limit limit;
    int error = teller->parts.queue->ops->settle(teller->parts.queue, message, how);
    if (error != 0 && error != ERR_CLOSED) {
        log_event_limited(&limit, 10000, LOG_WARN, "teller.cannot_settle", LOG_ERR("error", error));
    }
}

static void refuse(struct teller *teller, struct queue_message *message, enum refusal refusal,
                   const char *detail)
{
    const char *code = refusal_text(refusal)->code;
    (void)snprintf(message->reason, sizeof(message->reason), "%s", code);
    log_event(LOG_WARN, "teller.refused", LOG_STR("code", code),
              LOG_SPAN("payment", ((struct span){message->body, message->len})),
              LOG_STR("detail", detail));
    let_go(teller, message, QUEUE_PARK);
    metrics_add(teller->parts.metrics, METRIC_TELLER_REFUSED_TOTAL, 1);
}

/* ---- taking ---- */

static int64_t pause_ms(const struct teller *teller, int64_t wait_ms)
{
    int64_t now_ms = inside_time_ms(teller->parts.time);
    for (size_t i = 0; i < teller->count; i++) {
        int64_t left_ms = teller->held[i].backoff.next_ms - now_ms;
        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    }
    return wait_ms > 0 ? wait_ms : 0;
}

/* As many as there is room for; with none it keeps the connection alive. */
static void take(struct teller *teller, int64_t wait_ms)
{
    struct queue_message messages[16];
    size_t room = HELD_MAX - teller->count;
    size_t max = room < 16 ? room : 16;
    size_t got = 0;
    while (queue_take(teller->parts.queue, messages, max, wait_ms, &got) == 0) {
        for (size_t i = 0; i < got; i++) {
            struct held *held = &teller->held[teller->count];
            struct payment_fault fault;
            struct span body = {messages[i].body, messages[i].len};
            memset(held, 0, sizeof(*held));
            held->message = messages[i];
            if (payment_read(body, &held->op.op, &fault) != 0) {
                refuse(teller, &held->message, REFUSAL_BAD_REQUEST, fault.detail);
            } else {
                teller->count++;
            }
        }
        room = HELD_MAX - teller->count;
        max = room < 16 ? room : 16;
        wait_ms = 0; /* what else is there already */
        if (max == 0) {
            break;
        }
    }
}

/* ---- the office ---- */

static void take_back(struct teller *teller)
{
    const struct teller_parts *parts = &teller->parts;
    for (struct office_op *op = office_collect(parts->office, parts->loops + parts->desk);
         op != NULL; op = (struct office_op *)op->post.next) {
        teller->posted--;
    }
}

/* Those whose time has come. The office answers everything, also that it cannot. */
static void post_due(struct teller *teller)
{
    const struct teller_parts *parts = &teller->parts;
    int64_t now_ms = inside_time_ms(parts->time);
    CHECK(teller->posted == 0);
    for (size_t i = 0; i < teller->count; i++) {
        struct held *held = &teller->held[i];
        held->tried = backoff_is_over(&held->backoff, now_ms);
        if (held->tried) {
            struct payment_fault fault;
            memset(&held->op, 0, sizeof(held->op)); /* of a round before */
            CHECK(payment_read((struct span){held->message.body, held->message.len}, &held->op.op,
                               &fault) == 0);
            held->op.loop = parts->loops + parts->desk;
            teller->posted++;
            office_post(parts->office, &held->op);
        }
    }
    while (teller->posted > 0) {
        take_back(teller);
        if (teller->posted > 0) {
            office_wait(parts->office, parts->desk, WAIT_US);
        }
    }
}

/* ---- the gate ---- */

/* The ledger has no such order. True: the gate has, or cannot say. */
static bool is_on_its_way(struct teller *teller, struct order_id id)
{
    const struct teller_parts *parts = &teller->parts;
    const struct sale_row *sale = NULL;
    struct gate_ask ask = {.question = ASK_ORDER, .loop = parts->lane, .id = id};
    catalog_lock(parts->catalog);
    bool known = catalog_item(parts->catalog, order_id_item(id), &sale) != NULL && sale->homes > 0;
    uint32_t homes = known ? sale->homes : 0;
    uint32_t segment = known ? remote_segment(id, sale) : 0;
    catalog_unlock(parts->catalog);
    if (!known) {
        return false;
    }
    if (segment >= parts->places->count) {
        return segment < homes; /* added since this process began; else made up */
    }
    ask.segment = segment;
    ask.epoch = places_epoch(parts->places, segment);
    await_asks(&parts->await, parts->gate, &ask, 1);
    return ask.refusal != REFUSAL_NOT_FOUND;
}

/* ---- a round ---- */

/* What becomes of a payment that was tried; false: it is held, and tried again. */
static bool settle(struct teller *teller, struct held *held)
{
    enum refusal refusal = held->op.op.refusal;
    if (held->op.error != 0 || refusal == REFUSAL_OVERLOADED) {
        return false; /* nothing is known to have changed; if it has, the ledger knows the payment */
    }
    if (refusal == REFUSAL_NONE) {
        let_go(teller, &held->message, QUEUE_ACK);
        metrics_add(teller->parts.metrics, METRIC_TELLER_PAID_TOTAL, 1);
        return true;
    }
    bool later = refusal_text(refusal)->retry != RETRY_NO;
    if (refusal == REFUSAL_NOT_FOUND) {
        later = payment_names_order(&held->op.op) &&
                (is_on_its_way(teller, held->op.op.id) || held->message.attempts < LOOKS);
    }
    if (later) {
        let_go(teller, &held->message, QUEUE_LATER);
        metrics_add(teller->parts.metrics, METRIC_TELLER_LATER_TOTAL, 1);
        return true;
    }
    refuse(teller, &held->message, refusal,
           refusal == REFUSAL_EXPIRED ? "the order ended before this payment; refund it"
                                      : refusal_text(refusal)->title);
    return true;
}

void teller_turn(struct teller *teller, int64_t wait_ms)
{
    size_t kept = 0;
    take(teller, pause_ms(teller, wait_ms));
    post_due(teller);
    int64_t now_ms = inside_time_ms(teller->parts.time);
    for (size_t i = 0; i < teller->count; i++) {
        struct held *held = &teller->held[i];
        if (held->tried && settle(teller, held)) {
            continue;
        }
        if (held->tried) {
            backoff_failed(&held->backoff, now_ms);
        }
        if (kept != i) {
            teller->held[kept] = *held;
        }
        kept++;
    }
    teller->count = kept;
}

int teller_new(const struct teller_parts *parts, struct teller **ret_teller)
{
    struct teller *teller = calloc(1, sizeof(*teller));
    struct held *held = calloc(HELD_MAX, sizeof(*held));
    if (teller == NULL || held == NULL) {
        free(teller);
        free(held);
        return ERR_NOMEM;
    }
    teller->parts = *parts;
    teller->held = held;
    *ret_teller = teller;
    return 0;
}

void teller_free(struct teller *teller)
{
    if (teller == NULL) {
        return;
    }
    free(teller->held);
    free(teller);
}
