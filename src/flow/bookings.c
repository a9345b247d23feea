/* See bookings.h. */
#include "flow/bookings.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crypt.h"
#include "base/err.h"
#include "obs/log.h"

#define WAIT_US 100000

int bookings_init(struct bookings *ret_bookings, struct office *office, struct segments *segments,
                  struct places *places, uint32_t loops, uint32_t desk)
{
    struct office_op *ops = calloc(BOOKINGS_MAX, sizeof(*ops));
    struct segment_call *calls = calloc(BOOKINGS_MAX, sizeof(*calls));
    struct decision *again = calloc(BOOKINGS_AGAIN, sizeof(*again));
    if (ops == NULL || calls == NULL || again == NULL) {
        free(ops);
        free(calls);
        free(again);
        return ERR_NOMEM;
    }
    *ret_bookings = (struct bookings){.office = office,
                                      .segments = segments,
                                      .places = places,
                                      .desk = desk,
                                      .loops = loops,
                                      .ops = ops,
                                      .calls = calls,
                                      .again = again};
    return 0;
}

void bookings_done(struct bookings *bookings)
{
    free(bookings->ops);
    free(bookings->calls);
    free(bookings->again);
    bookings->ops = NULL;
    bookings->calls = NULL;
    bookings->again = NULL;
}

/* Takes back what the office has finished. */
static void take_back(struct bookings *bookings)
{
    for (struct office_op *op = office_collect(bookings->office, bookings->loops + bookings->desk);
         op != NULL; op = (struct office_op *)op->post.next) {
        bookings->posted--;
    }
}

/* Posts the ops and waits for them. The office answers everything, also that it cannot. */
static void post_all(struct bookings *bookings, size_t count)
{
    CHECK(bookings->posted == 0);
    for (size_t i = 0; i < count; i++) {
        bookings->ops[i].loop = bookings->loops + bookings->desk;
        bookings->posted++;
        office_post(bookings->office, &bookings->ops[i]);
    }
    while (bookings->posted > 0) {
        take_back(bookings);
        if (bookings->posted > 0) {
            office_wait(bookings->office, bookings->desk, WAIT_US);
        }
    }
}

static void prepare(struct office_op *op, enum ledger_kind kind, const struct decision *decision)
{
    memset(op, 0, sizeof(*op));
    op->op.kind = kind;
    op->op.command = decision->command;
    op->op.segment = decision->segment;
    op->op.epoch = decision->epoch;
}

static enum booking outcome_of(const struct office_op *op)
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

/* FAILED rows for those that are marked: POISON, with a reason. */
static void fail_marked(struct bookings *bookings, struct decision *decisions, size_t count)
{
    size_t posted = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_marked(&decisions[i])) {
            prepare(&bookings->ops[posted], LEDGER_FAIL, &decisions[i]);
            bookings->ops[posted++].op.reason = decisions[i].reason;
        }
    }
    post_all(bookings, posted);
    posted = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_marked(&decisions[i])) {
            decisions[i].booking = outcome_of(&bookings->ops[posted++]);
        }
    }
}

void bookings_fail(struct bookings *bookings, struct decision *decisions, size_t count)
{
    CHECK(count <= BOOKINGS_MAX);
    for (size_t i = 0; i < count; i++) {
        decisions[i].booking = BOOKING_POISON;
    }
    fail_marked(bookings, decisions, count);
}

/* A refusal that is not about the order but about the gate's own state. */
static bool is_for_now(const struct segment_call *call)
{
    return call->outcome != SEGMENT_DONE ||
           (call->verdict == VERDICT_REFUSED &&
            (call->refusal == REFUSAL_OVERLOADED || call->refusal == REFUSAL_NO_SUCH_ITEM));
}

/* An item that the gate has not got: it is being filled, or the sale was forgotten, long after its
 * end. Nobody will ever decide it again. */
static bool is_of_forgotten_sale(struct bookings *bookings, const struct decision *decision,
                                 const struct segment_call *call)
{
    return call->outcome == SEGMENT_DONE && call->verdict == VERDICT_REFUSED &&
           call->refusal == REFUSAL_NO_SUCH_ITEM &&
           office_forgot(bookings->office, decision->command.item, decision->command.now_ms);
}

static void again(struct bookings *bookings, struct decision *decision,
                  const struct segment_call *call)
{
    if (call->outcome == SEGMENT_STALE || call->outcome == SEGMENT_BROKEN) {
        places_doubt(bookings->places, decision->segment);
    }
    if (is_of_forgotten_sale(bookings, decision, call)) {
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
    /* Not NO_STOCK: should the gate have taken it meanwhile after all, the unit goes back. */
    decision->reason = call->refusal;
    decision->booking = BOOKING_POISON;
}

void bookings_again(struct bookings *bookings, struct decision *decisions, size_t count)
{
    size_t asked = 0;
    CHECK(count <= BOOKINGS_MAX);
    for (size_t i = 0; i < count; i++) {
        decisions[i].booking = BOOKING_POISON;
        decisions[i].reason = REFUSAL_NONE;
        decisions[i].gate_away = false;
        if (decisions[i].segment < bookings->places->count) { /* else it is nobody's to decide */
            bookings->calls[asked++] =
                (struct segment_call){.segment = decisions[i].segment,
                                      .epoch = places_epoch(bookings->places, decisions[i].segment),
                                      .command = decisions[i].command};
        }
    }
    segments_apply(bookings->segments, bookings->calls, asked);
    asked = 0;
    for (size_t i = 0; i < count; i++) {
        if (decisions[i].segment < bookings->places->count) {
            again(bookings, &decisions[i], &bookings->calls[asked++]);
        }
    }
    fail_marked(bookings, decisions, count);
}

/* Those that have waited too long are not to be booked but to fail. */
static void fail_stale(struct bookings *bookings, size_t count)
{
    static struct log_limit limit;
    uint64_t stale = 0;
    int64_t now_ms = bookings->dials != NULL ? inside_time_ms(bookings->time) : 0;
    for (size_t i = 0; bookings->dials != NULL && i < count; i++) {
        struct ledger_op *op = &bookings->ops[i].op;
        if (dials_is_stale(bookings->dials, op->command.now_ms, now_ms)) {
            op->kind = LEDGER_FAIL;
            op->reason = REFUSAL_OVERLOADED;
            stale++;
        }
    }
    if (stale > 0) {
        log_event_limited(&limit, 10000, LOG_WARN, "bookings.stale", LOG_U64("decisions", stale),
                          LOG_STR("what", "older than relay.stale_s: failed, their units go back"));
    }
}

/* Those without an epoch, many together: after a segment was rebuilt it may be all that its queue
 * holds, and whoever carries them must not be kept for a round trip and a transaction each. */
static void again_marked(struct bookings *bookings, struct decision *decisions, size_t count)
{
    size_t at[BOOKINGS_AGAIN];
    size_t marked = 0;
    for (size_t i = 0; i < count; i++) {
        if (decisions[i].epoch == 0) {
            bookings->again[marked] = decisions[i];
            at[marked++] = i;
        }
        if (marked == BOOKINGS_AGAIN || (i + 1 == count && marked > 0)) {
            bookings_again(bookings, bookings->again, marked);
            for (size_t k = 0; k < marked; k++) {
                decisions[at[k]] = bookings->again[k];
            }
            marked = 0;
        }
    }
}

void bookings_run(struct bookings *bookings, struct decision *decisions, size_t count)
{
    CHECK(count <= BOOKINGS_MAX);
    for (size_t i = 0; i < count; i++) {
        prepare(&bookings->ops[i], LEDGER_BOOK, &decisions[i]);
    }
    fail_stale(bookings, count);
    post_all(bookings, count);
    for (size_t i = 0; i < count; i++) {
        decisions[i].booking = outcome_of(&bookings->ops[i]);
        if (bookings->ops[i].error == 0 && bookings->ops[i].op.refusal == REFUSAL_STALE_EPOCH) {
            decisions[i].booking = BOOKING_LATER;
            /* Marked for the second round: the ops are used again in it. */
            decisions[i].epoch = 0;
        }
    }
    again_marked(bookings, decisions, count);
}

void bookings_transfer(struct bookings *bookings, uint64_t item, uint32_t from, uint32_t to,
                       uint64_t units)
{
    struct ledger_op *op = &bookings->ops[0].op;
    struct order_id id;
    uint64_t epoch = places_epoch(bookings->places, from);
    uint64_t to_epoch = places_epoch(bookings->places, to);
    if (epoch == 0 || to_epoch == 0) {
        return; /* one of them is being rebuilt: what it has nobody knows */
    }
    crypt_random(&id, sizeof(id));
    memset(&bookings->ops[0], 0, sizeof(bookings->ops[0]));
    op->kind = LEDGER_TRANSFER;
    op->item = item;
    op->segment = from;
    op->to_segment = to;
    op->epoch = epoch;
    op->to_epoch = to_epoch;
    op->amount = units;
    id.hi = (uint64_t)ORDER_FRESH << 62 | (id.hi & ((1ULL << 62) - 1)); /* a text that parses */
    order_id_text(id, op->key);
    post_all(bookings, 1);
}
