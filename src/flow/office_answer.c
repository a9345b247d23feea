/* The office's answers to what was posted. In a shared office what somebody will look for at the gate is
 * answered when the gate shows it, or after a moment. See office.h. */
#include "base/err.h"
#include "flow/office_private.h"

#define HELD_MS 1000

static void answer(struct office *office, struct post *post, int error, uint64_t lsn)
{
    bool told[LOOPS_MAX] = {false};
    while (post != NULL) {
        struct post *next = post->next;
        struct office_op *op = (struct office_op *)post;
        op->error = error;
        op->lsn = lsn;
        if (op->loop < office->loops) {
            told[op->loop] = true;
        }
        mailbox_post(&office->outboxes[op->loop], post);
        post = next;
    }
    for (uint32_t i = 0; i < office->loops; i++) {
        if (told[i]) {
            waker_wake(engine_waker(office->engine, i));
        }
    }
}

void office_answer_posted(struct office *office, int error, uint64_t lsn)
{
    struct post *post = office->posted;
    office->posted = NULL;
    answer(office, post, error, lsn);
}

/* An operator who opened a sale expects it to be open; a buyer who was told that his order is cancelled
 * must not find it unpaid the next moment. Nobody looks for a booking. */
static bool is_looked_for(const struct ledger_op *op)
{
    return op->refusal == REFUSAL_NONE &&
           (op->kind == LEDGER_SALE_MOVE || op->kind == LEDGER_SALE_CHANGE ||
            op->kind == LEDGER_RESTOCK || op->kind == LEDGER_PAY || op->kind == LEDGER_CANCEL);
}

static bool waits(struct office *office, const struct ledger_op *op)
{
    bool of_order = op->kind == LEDGER_PAY || op->kind == LEDGER_CANCEL;
    return is_looked_for(op) &&
           office->sink->ops->is_behind(office->sink,
                                        of_order ? (int32_t)op->order.segment : SEGMENT_ALL);
}

static void push(struct post *post, struct post ***last)
{
    post->next = NULL;
    **last = post;
    *last = &post->next;
}

void office_answer_followed(struct office *office)
{
    bool looked_for = false;
    bool repeated = false;
    for (const struct post *post = office->posted; post != NULL; post = post->next) {
        const struct ledger_op *op = &((const struct office_op *)post)->op;
        looked_for = looked_for || is_looked_for(op);
        repeated = repeated || (is_looked_for(op) && op->repeated);
    }
    if (looked_for) { /* what was done before, by whomever, is looked for in the ledger */
        (void)office->sink->ops->turn(office->sink, office->batch.now_ms, repeated);
    }
    struct post *now = NULL;
    struct post **now_last = &now;
    struct post **held_last = &office->held;
    while (*held_last != NULL) {
        held_last = &(*held_last)->next;
    }
    for (struct post *post = office->posted, *next; post != NULL; post = next) {
        struct office_op *op = (struct office_op *)post;
        next = post->next;
        op->held_until_ms = office->batch.now_ms + HELD_MS;
        push(post, waits(office, &op->op) ? &held_last : &now_last);
    }
    office->posted = NULL;
    answer(office, now, 0, 0);
}

void office_answer_held(struct office *office, int64_t now_ms)
{
    struct post *lists[3] = {NULL}; /* held on; answered; and those whose buyers would be misled */
    struct post **lasts[3] = {&lists[0], &lists[1], &lists[2]};
    for (struct post *post = office->held, *next; post != NULL; post = next) {
        struct office_op *op = (struct office_op *)post;
        bool still = waits(office, &op->op);
        next = post->next;
        push(post, &lasts[!still                         ? 1
                          : now_ms < op->held_until_ms   ? 0
                          : op->op.kind == LEDGER_CANCEL ? 2
                                                         : 1]);
    }
    office->held = lists[0];
    answer(office, lists[1], 0, 0);
    /* It is done, but whoever asks next would see the order unpaid: asked again, it tells. */
    answer(office, lists[2], ERR_UNKNOWN, 0);
}
