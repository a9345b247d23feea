/* See payment_consumer.h. */
#include "distributed/payment_consumer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/err.h"
#include "distributed/order_segment.h"
#include "ledger/payment.h"
#include "obs/log.h"

#define HELD_MAX 256
#define WAIT_US 100000
/* An order that neither gate nor ledger has may be one that both are about to learn
 * of: the gate was replaced, or the catalog was read before the sale existed. After
 * this many attempts there is none. */
#define LOOKS 2
/* In an iteration: a lost connection to the gate is made again within its longest pause
 * (backends.c) and a handshake. */
#define AWAY_MS 3000

struct held {
    struct queue_message message;
    struct backoff backoff; /* one that waits does not delay the others */
    struct ledger_writer_op op;
    bool tried;
};

struct payment_consumer {
    struct payment_consumer_parts parts;
    struct held *held; /* taken and not settled: HELD_MAX */
    size_t count;
    size_t posted;   /* ops now owned by the ledger writer */
    int64_t away_ms; /* how much longer this iteration may wait for lost connections to the gate */
};

/* ---- settling ---- */

/* Settles a message. One of an earlier connection is redelivered anyway. */
static void let_go(struct payment_consumer *payment_consumer, const struct queue_message *message,
                   int how)
{
    static struct log_limit limit;
    int error =
        payment_consumer->parts.queue->ops->settle(payment_consumer->parts.queue, message, how);
    if (error != 0 && error != ERR_CLOSED) {
        log_event_limited(&limit, 10000, LOG_WARN, "payment_consumer.cannot_settle",
                          LOG_ERR("error", error));
    }
}

static void refuse(struct payment_consumer *payment_consumer, struct queue_message *message,
                   enum refusal refusal, const char *detail)
{
    const char *code = refusal_text(refusal)->code;
    (void)snprintf(message->reason, sizeof(message->reason), "%s", code);
    log_event(LOG_WARN, "payment_consumer.refused", LOG_STR("code", code),
              LOG_SPAN("payment", ((struct span){message->body, message->len})),
              LOG_STR("detail", detail));
    let_go(payment_consumer, message, QUEUE_PARK);
    metrics_add(payment_consumer->parts.metrics, METRIC_PAYMENT_CONSUMER_REFUSED_TOTAL, 1);
}

/* ---- taking ---- */

static int64_t pause_ms(const struct payment_consumer *payment_consumer, int64_t wait_ms)
{
    int64_t now_ms = inside_time_ms(payment_consumer->parts.time);
    for (size_t i = 0; i < payment_consumer->count; i++) {
        int64_t left_ms = payment_consumer->held[i].backoff.next_ms - now_ms;
        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    }
    return wait_ms > 0 ? wait_ms : 0;
}

/* Takes as many messages as there is room for. With no room it keeps the connection alive. */
static void take(struct payment_consumer *payment_consumer, int64_t wait_ms)
{
    struct queue_message messages[16];
    size_t room = HELD_MAX - payment_consumer->count;
    size_t max = room < 16 ? room : 16;
    size_t got = 0;
    while (queue_take(payment_consumer->parts.queue, messages, max, wait_ms, &got) == 0) {
        for (size_t i = 0; i < got; i++) {
            struct held *held = &payment_consumer->held[payment_consumer->count];
            struct payment_fault fault;
            struct span body = {messages[i].body, messages[i].len};
            memset(held, 0, sizeof(*held));
            held->message = messages[i];
            if (payment_read(body, &held->op.op, &fault) != 0) {
                refuse(payment_consumer, &held->message, REFUSAL_BAD_REQUEST, fault.detail);
            } else {
                payment_consumer->count++;
            }
        }
        room = HELD_MAX - payment_consumer->count;
        max = room < 16 ? room : 16;
        wait_ms = 0; /* what else is there already */
        if (max == 0) {
            break;
        }
    }
}

/* ---- the ledger writer ---- */

static void take_back(struct payment_consumer *payment_consumer)
{
    const struct payment_consumer_parts *parts = &payment_consumer->parts;
    for (struct ledger_writer_op *op =
             ledger_writer_collect(parts->ledger_writer, parts->loops + parts->mailbox);
         op != NULL; op = (struct ledger_writer_op *)op->post.next) {
        payment_consumer->posted--;
    }
}

/* Posts the payments that are due and waits for them. The ledger writer answers every
 * op, also when it cannot write. */
static void post_due(struct payment_consumer *payment_consumer)
{
    const struct payment_consumer_parts *parts = &payment_consumer->parts;
    int64_t now_ms = inside_time_ms(parts->time);
    CHECK(payment_consumer->posted == 0);
    for (size_t i = 0; i < payment_consumer->count; i++) {
        struct held *held = &payment_consumer->held[i];
        held->tried = backoff_is_over(&held->backoff, now_ms);
        if (held->tried) {
            struct payment_fault fault;
            memset(&held->op, 0, sizeof(held->op)); /* of a round before */
            CHECK(payment_read((struct span){held->message.body, held->message.len}, &held->op.op,
                               &fault) == 0);
            held->op.loop = parts->loops + parts->mailbox;
            payment_consumer->posted++;
            ledger_writer_post(parts->ledger_writer, &held->op);
        }
    }
    while (payment_consumer->posted > 0) {
        take_back(payment_consumer);
        if (payment_consumer->posted > 0) {
            ledger_writer_wait(parts->ledger_writer, parts->mailbox, WAIT_US);
        }
    }
}

/* ---- the gate ---- */

/* The ledger has no such order. True: the gate has it, or cannot tell. */
static bool is_on_its_way(struct payment_consumer *payment_consumer, struct order_id id)
{
    const struct payment_consumer_parts *parts = &payment_consumer->parts;
    struct order_segment at;
    struct gate_request request = {
        .kind = GATE_REQUEST_ORDER, .loop = parts->connection_set, .id = id};
    if (!order_segment_find(parts->catalog, order_id_item(id), id, &at)) {
        return false;
    }
    if (at.segment >= parts->segment_table->count) {
        return at.segment < at.homes; /* added since this process began; else made up */
    }
    request.segment = at.segment;
    request.epoch = segment_table_epoch(parts->segment_table, at.segment);
    blocking_gate_requests(&parts->blocking, parts->gate, &request, 1, &payment_consumer->away_ms);
    return !gate_request_refused(&request, REFUSAL_NOT_FOUND);
}

/* ---- an iteration ---- */

/* Settles a payment after an attempt. False: it is held and retried. */
static bool settle(struct payment_consumer *payment_consumer, struct held *held)
{
    enum refusal refusal = held->op.op.refusal;
    if (held->op.error != 0 || refusal == REFUSAL_OVERLOADED) {
        return false; /* it may have been paid after all; then the ledger knows the payment */
    }
    if (refusal == REFUSAL_NONE) {
        let_go(payment_consumer, &held->message, QUEUE_ACK);
        metrics_add(payment_consumer->parts.metrics, METRIC_PAYMENT_CONSUMER_PAID_TOTAL, 1);
        return true;
    }
    bool later = refusal_text(refusal)->retry != RETRY_NO;
    if (refusal == REFUSAL_NOT_FOUND) {
        later = payment_names_order(&held->op.op) &&
                (is_on_its_way(payment_consumer, held->op.op.id) || held->message.attempts < LOOKS);
    }
    if (later) {
        let_go(payment_consumer, &held->message, QUEUE_LATER);
        metrics_add(payment_consumer->parts.metrics, METRIC_PAYMENT_CONSUMER_LATER_TOTAL, 1);
        return true;
    }
    refuse(payment_consumer, &held->message, refusal,
           refusal == REFUSAL_EXPIRED ? "the order ended before this payment; refund it"
                                      : refusal_text(refusal)->title);
    return true;
}

void payment_consumer_iterate(struct payment_consumer *payment_consumer, int64_t wait_ms)
{
    size_t kept = 0;
    payment_consumer->away_ms = AWAY_MS;
    take(payment_consumer, pause_ms(payment_consumer, wait_ms));
    post_due(payment_consumer);
    int64_t now_ms = inside_time_ms(payment_consumer->parts.time);
    for (size_t i = 0; i < payment_consumer->count; i++) {
        struct held *held = &payment_consumer->held[i];
        if (held->tried && settle(payment_consumer, held)) {
            continue;
        }
        if (held->tried) {
            backoff_failed(&held->backoff, now_ms);
        }
        if (kept != i) {
            payment_consumer->held[kept] = *held;
        }
        kept++;
    }
    payment_consumer->count = kept;
}

int payment_consumer_new(const struct payment_consumer_parts *parts,
                         struct payment_consumer **ret_payment_consumer)
{
    struct payment_consumer *payment_consumer = calloc(1, sizeof(*payment_consumer));
    struct held *held = calloc(HELD_MAX, sizeof(*held));
    if (payment_consumer == NULL || held == NULL) {
        free(payment_consumer);
        free(held);
        return ERR_NOMEM;
    }
    payment_consumer->parts = *parts;
    payment_consumer->held = held;
    *ret_payment_consumer = payment_consumer;
    return 0;
}

void payment_consumer_free(struct payment_consumer *payment_consumer)
{
    if (payment_consumer == NULL) {
        return;
    }
    free(payment_consumer->held);
    free(payment_consumer);
}
