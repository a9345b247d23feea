/* See booking_channel.h. */
#include "distributed/booking_channel.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crypt.h"
#include "base/err.h"
#include "obs/log.h"

#define WAIT_US 100000

int booking_channel_init(struct booking_channel *ret_booking_channel,
                         struct ledger_writer *ledger_writer, struct segments *segments,
                         struct segment_table *segment_table, uint32_t loops, uint32_t mailbox)
{
    struct ledger_writer_op *ops = calloc(BOOKING_CHANNEL_MAX, sizeof(*ops));
    struct segment_call *calls = calloc(BOOKING_CHANNEL_MAX, sizeof(*calls));
    struct decision *again = calloc(BOOKING_CHANNEL_AGAIN, sizeof(*again));
    if (ops == NULL || calls == NULL || again == NULL) {
        free(ops);
        free(calls);
        free(again);
        return ERR_NOMEM;
    }
    *ret_booking_channel = (struct booking_channel){.ledger_writer = ledger_writer,
                                                    .segments = segments,
                                                    .segment_table = segment_table,
                                                    .mailbox = mailbox,
                                                    .loops = loops,
                                                    .ops = ops,
                                                    .calls = calls,
                                                    .again = again};
    return 0;
}

void booking_channel_done(struct booking_channel *booking_channel)
{
    free(booking_channel->ops);
    free(booking_channel->calls);
    free(booking_channel->again);
    booking_channel->ops = NULL;
    booking_channel->calls = NULL;
    booking_channel->again = NULL;
}

/* Takes back what the ledger writer has finished. */
static void take_back(struct booking_channel *booking_channel)
{
    for (struct ledger_writer_op *op = ledger_writer_collect(
             booking_channel->ledger_writer, booking_channel->loops + booking_channel->mailbox);
         op != NULL; op = (struct ledger_writer_op *)op->post.next) {
        booking_channel->posted--;
    }
}

/* Posts the ops and waits for them. The ledger writer answers every op, also when it cannot
 * write. */
static void post_all(struct booking_channel *booking_channel, size_t count)
{
    CHECK(booking_channel->posted == 0);
    for (size_t i = 0; i < count; i++) {
        booking_channel->ops[i].loop = booking_channel->loops + booking_channel->mailbox;
        booking_channel->posted++;
        ledger_writer_post(booking_channel->ledger_writer, &booking_channel->ops[i]);
    }
    while (booking_channel->posted > 0) {
        take_back(booking_channel);
        if (booking_channel->posted > 0) {
            ledger_writer_wait(booking_channel->ledger_writer, booking_channel->mailbox, WAIT_US);
        }
    }
}

static void prepare(struct ledger_writer_op *op, enum ledger_kind kind,
                    const struct decision *decision)
{
    memset(op, 0, sizeof(*op));
    op->op.kind = kind;
    op->op.command = decision->command;
    op->op.segment = decision->segment;
    op->op.epoch = decision->epoch;
}

static enum booking outcome_of(const struct ledger_writer_op *op)
{
    if (op->error != 0) {
        return BOOKING_LATER;
    }
    if (op->op.refusal == REFUSAL_NONE) {
        return BOOKING_SETTLED;
    }
    if (op->op.refusal == REFUSAL_OVERLOADED) {
        return BOOKING_LATER;
    }
    return BOOKING_POISON;
}

static bool is_marked(const struct decision *decision)
{
    return decision->booking == BOOKING_POISON && decision->reason != REFUSAL_NONE;
}

/* Writes FAILED rows for the marked ones: POISON, with a reason. */
static void fail_marked(struct booking_channel *booking_channel, struct decision *decisions,
                        size_t count)
{
    size_t posted = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_marked(&decisions[i])) {
            prepare(&booking_channel->ops[posted], LEDGER_FAIL, &decisions[i]);
            booking_channel->ops[posted++].op.reason = decisions[i].reason;
        }
    }
    post_all(booking_channel, posted);
    posted = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_marked(&decisions[i])) {
            decisions[i].booking = outcome_of(&booking_channel->ops[posted++]);
        }
    }
}

void booking_channel_fail(struct booking_channel *booking_channel, struct decision *decisions,
                          size_t count)
{
    CHECK(count <= BOOKING_CHANNEL_MAX);
    for (size_t i = 0; i < count; i++) {
        decisions[i].booking = BOOKING_POISON;
    }
    fail_marked(booking_channel, decisions, count);
}

/* True if the call was refused because of the gate's state, not because of the order. */
static bool is_for_now(const struct segment_call *call)
{
    return call->outcome != SEGMENT_DONE ||
           (call->verdict == VERDICT_REFUSED &&
            (call->refusal == REFUSAL_OVERLOADED || call->refusal == REFUSAL_NO_SUCH_ITEM));
}

/* True if the gate lacks the item because the sale was forgotten, long after its end, and not
 * because the gate is being filled. Nobody will ever decide this order again. */
static bool is_of_forgotten_sale(struct booking_channel *booking_channel,
                                 const struct decision *decision, const struct segment_call *call)
{
    return call->outcome == SEGMENT_DONE && call->verdict == VERDICT_REFUSED &&
           call->refusal == REFUSAL_NO_SUCH_ITEM &&
           ledger_writer_forgot(booking_channel->ledger_writer, decision->command.item,
                                decision->command.now_ms);
}

/* What became of a decision that the gate was asked to make again. */
static void again_outcome(struct booking_channel *booking_channel, struct decision *decision,
                          const struct segment_call *call)
{
    if (call->outcome == SEGMENT_STALE || call->outcome == SEGMENT_BROKEN) {
        segment_table_doubt(booking_channel->segment_table, decision->segment);
    }
    if (is_of_forgotten_sale(booking_channel, decision, call)) {
        decision->reason = REFUSAL_ENDED;
        decision->booking = BOOKING_POISON;
        return;
    }
    if (is_for_now(call)) {
        decision->booking = BOOKING_LATER;
        decision->gate_away = true;
        return;
    }
    if (call->verdict != VERDICT_REFUSED) {
        decision->booking = BOOKING_SETTLED; /* taken, or known: it is in the outbox, or booked */
        return;
    }
    /* Not NO_STOCK: if the gate accepted it after all, the unit goes back. */
    decision->reason = call->refusal;
    decision->booking = BOOKING_POISON;
}

void booking_channel_again(struct booking_channel *booking_channel, struct decision *decisions,
                           size_t count)
{
    size_t asked = 0;
    CHECK(count <= BOOKING_CHANNEL_MAX);
    for (size_t i = 0; i < count; i++) {
        decisions[i].booking = BOOKING_POISON;
        decisions[i].reason = REFUSAL_NONE;
        decisions[i].gate_away = false;
        if (decisions[i].segment <
            booking_channel->segment_table->count) { /* else it is nobody's to decide */
            booking_channel->calls[asked++] = (struct segment_call){
                .segment = decisions[i].segment,
                .epoch = segment_table_epoch(booking_channel->segment_table, decisions[i].segment),
                .command = decisions[i].command};
        }
    }
    segments_apply(booking_channel->segments, booking_channel->calls, asked);
    asked = 0;
    for (size_t i = 0; i < count; i++) {
        if (decisions[i].segment < booking_channel->segment_table->count) {
            again_outcome(booking_channel, &decisions[i], &booking_channel->calls[asked++]);
        }
    }
    fail_marked(booking_channel, decisions, count);
}

/* Turns BOOK ops of decisions that have waited too long into FAIL ops. */
static void fail_stale(struct booking_channel *booking_channel, size_t count)
{
    static struct log_limit limit;
    uint64_t stale = 0;
    int64_t now_ms =
        booking_channel->runtime_limits != NULL ? inside_time_ms(booking_channel->time) : 0;
    for (size_t i = 0; booking_channel->runtime_limits != NULL && i < count; i++) {
        struct ledger_op *op = &booking_channel->ops[i].op;
        if (runtime_limits_is_stale(booking_channel->runtime_limits, op->command.now_ms, now_ms)) {
            op->kind = LEDGER_FAIL;
            op->reason = REFUSAL_OVERLOADED;
            stale++;
        }
    }
    if (stale > 0) {
        log_event_limited(&limit, 10000, LOG_WARN, "booking_channel.stale",
                          LOG_U64("decisions", stale),
                          LOG_STR("what", "older than relay.stale_s: failed, their units go back"));
    }
}

/* Decides those without an epoch again, many in one call. After a segment was rebuilt that may be
 * all of its messages, and a round trip and a transaction for each would delay the caller. */
static void again_marked(struct booking_channel *booking_channel, struct decision *decisions,
                         size_t count)
{
    size_t at[BOOKING_CHANNEL_AGAIN];
    size_t marked = 0;
    for (size_t i = 0; i < count; i++) {
        if (decisions[i].epoch == 0) {
            booking_channel->again[marked] = decisions[i];
            at[marked++] = i;
        }
        if (marked == BOOKING_CHANNEL_AGAIN || (i + 1 == count && marked > 0)) {
            booking_channel_again(booking_channel, booking_channel->again, marked);
            for (size_t k = 0; k < marked; k++) {
                decisions[at[k]] = booking_channel->again[k];
            }
            marked = 0;
        }
    }
}

void booking_channel_run(struct booking_channel *booking_channel, struct decision *decisions,
                         size_t count)
{
    CHECK(count <= BOOKING_CHANNEL_MAX);
    for (size_t i = 0; i < count; i++) {
        prepare(&booking_channel->ops[i], LEDGER_BOOK, &decisions[i]);
    }
    fail_stale(booking_channel, count);
    post_all(booking_channel, count);
    for (size_t i = 0; i < count; i++) {
        decisions[i].booking = outcome_of(&booking_channel->ops[i]);
        if (booking_channel->ops[i].error == 0 &&
            booking_channel->ops[i].op.refusal == REFUSAL_STALE_EPOCH) {
            decisions[i].booking = BOOKING_LATER;
            /* Mark it for the second step, which reuses the ops. */
            decisions[i].epoch = 0;
        }
    }
    again_marked(booking_channel, decisions, count);
}

void booking_channel_transfer(struct booking_channel *booking_channel, uint64_t item, uint32_t from,
                              uint32_t to, uint64_t units)
{
    struct ledger_op *op = &booking_channel->ops[0].op;
    struct order_id id;
    uint64_t epoch = segment_table_epoch(booking_channel->segment_table, from);
    uint64_t to_epoch = segment_table_epoch(booking_channel->segment_table, to);
    if (epoch == 0 || to_epoch == 0) {
        return; /* one of them is being rebuilt: what it has nobody knows */
    }
    crypt_random(&id, sizeof(id));
    memset(&booking_channel->ops[0], 0, sizeof(booking_channel->ops[0]));
    op->kind = LEDGER_TRANSFER;
    op->item = item;
    op->segment = from;
    op->to_segment = to;
    op->epoch = epoch;
    op->to_epoch = to_epoch;
    op->amount = units;
    id.hi = (uint64_t)ORDER_FRESH << 62 | (id.hi & ((1ULL << 62) - 1)); /* a text that parses */
    order_id_text(id, op->key);
    post_all(booking_channel, 1);
}
