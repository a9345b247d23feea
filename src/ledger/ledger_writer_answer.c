/* The ledger writer's answers to posted ops. A shared ledger writer holds the answer to an op
 * whose result somebody will look up at the gate, until the gate shows it or a bounded time
 * has passed. See ledger_writer.h. */
#include "base/err.h"
#include "ledger/ledger_writer_private.h"

#define HELD_MS 1000

static void answer(struct ledger_writer *writer, struct post *post, int error, uint64_t lsn)
{
    bool told[LOOPS_MAX] = {false};
    while (post != NULL) {
        struct post *next = post->next;
        struct ledger_writer_op *op = (struct ledger_writer_op *)post;
        op->error = error;
        op->lsn = lsn;
        if (op->loop < writer->loops) {
            told[op->loop] = true;
        }
        mailbox_post(&writer->outboxes[op->loop], post);
        post = next;
    }
    for (uint32_t i = 0; i < writer->loops; i++) {
        if (told[i]) {
            waker_wake(&writer->wakers[i]);
        }
    }
}

void ledger_writer_answer_posted(struct ledger_writer *writer, int error, uint64_t lsn)
{
    struct post *post = writer->posted;
    writer->posted = NULL;
    answer(writer, post, error, lsn);
}

/* An operator who opened a sale expects to see it open. A buyer who was told that his order is
 * cancelled must not find it unpaid a moment later. Nobody looks a booking up. */
static bool is_looked_for(const struct ledger_op *op)
{
    return op->refusal == REFUSAL_NONE &&
           (op->kind == LEDGER_SALE_MOVE || op->kind == LEDGER_SALE_CHANGE ||
            op->kind == LEDGER_RESTOCK || op->kind == LEDGER_PAY || op->kind == LEDGER_CANCEL);
}

static bool waits(struct ledger_writer *writer, const struct ledger_op *op)
{
    bool of_order = op->kind == LEDGER_PAY || op->kind == LEDGER_CANCEL;
    return is_looked_for(op) &&
           writer->event_sink->ops->is_behind(writer->event_sink,
                                              of_order ? (int32_t)op->order.segment : SEGMENT_ALL);
}

static void push(struct post *post, struct post ***last)
{
    post->next = NULL;
    **last = post;
    *last = &post->next;
}

void ledger_writer_answer_followed(struct ledger_writer *writer)
{
    bool looked_for = false;
    bool repeated = false;
    for (const struct post *post = writer->posted; post != NULL; post = post->next) {
        const struct ledger_op *op = &((const struct ledger_writer_op *)post)->op;
        looked_for = looked_for || is_looked_for(op);
        repeated = repeated || (is_looked_for(op) && op->repeated);
    }
    if (looked_for) { /* what was done before, by whomever, is looked for in the ledger */
        (void)writer->event_sink->ops->turn(writer->event_sink, writer->batch.now_ms, repeated);
    }
    struct post *now = NULL;
    struct post **now_last = &now;
    struct post **held_last = &writer->held;
    while (*held_last != NULL) {
        held_last = &(*held_last)->next;
    }
    for (struct post *post = writer->posted, *next; post != NULL; post = next) {
        struct ledger_writer_op *op = (struct ledger_writer_op *)post;
        next = post->next;
        op->held_until_ms = writer->batch.now_ms + HELD_MS;
        push(post, waits(writer, &op->op) ? &held_last : &now_last);
    }
    writer->posted = NULL;
    answer(writer, now, 0, 0);
}

void ledger_writer_answer_held(struct ledger_writer *writer, int64_t now_ms)
{
    struct post *lists[3] = {NULL}; /* held on; answered; and those whose buyers would be misled */
    struct post **lasts[3] = {&lists[0], &lists[1], &lists[2]};
    for (struct post *post = writer->held, *next; post != NULL; post = next) {
        struct ledger_writer_op *op = (struct ledger_writer_op *)post;
        bool still = waits(writer, &op->op);
        next = post->next;
        push(post, &lasts[!still                         ? 1
                          : now_ms < op->held_until_ms   ? 0
                          : op->op.kind == LEDGER_CANCEL ? 2
                                                         : 1]);
    }
    writer->held = lists[0];
    answer(writer, lists[1], 0, 0);
    /* It is committed, but the next look at the gate would show the order unpaid. A repeated
     * request tells the outcome. */
    answer(writer, lists[2], ERR_UNKNOWN, 0);
}
