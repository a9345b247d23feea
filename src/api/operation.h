/*
 * Operations: what a loop asks of the gate or of another thread, with the function that continues
 * when the answer is there.
 *
 * Happy path: a handler takes an operation from the worker's pool (api_gate_operation() and its
 * siblings), fills in the request and the context, and returns the outcome of api_submit(). The
 * target owns the request until it has answered. Then `done` is called on this loop: it answers the
 * client or submits another operation. Its outcome is the handler's.
 * - If the target answers at once, as the embedded gate always does, `done` runs inside api_submit()
 *   with the handler's own api_request.
 * - Otherwise `done` runs in a later iteration. Its api_request then has no http_request and no
 *   parts, and the time of that iteration.
 * The operation is freed after `done`.
 *
 * `done` never sees a change that is not durable, so no handler can show one. A gate's answer that is
 * not a refusal waits for the LSN of what it shows. A write comes back when the ledger has committed
 * it, and waits for the LSN of the gate's record of the change.
 *
 * A gate's answer may depend on an order that it has evicted. Then the ledger is asked first, and the
 * gate once more with the ledger's answer; `done` sees only the last answer. If the ledger cannot be
 * asked, it is the refusal UNKNOWN_OUTCOME.
 *
 * What can go wrong:
 * - The budget is used up. There is no operation, and the handler answers OVERLOADED.
 * - The client has gone. `done` is not called. What was decided or committed stays so.
 * - The ledger could not commit a write, or the journal failed, or found no space, before its record
 *   was durable. The client gets api_refuse_error(), and `done` is not called.
 * - The journal failed, or found no space, before a gate's answer was durable. The answer becomes the refusal
 *   UNKNOWN_OUTCOME, without an order, and `error` is set.
 * - Too many answers wait for an LSN. A buy has an UNKNOWN_OUTCOME, other answers become OVERLOADED.
 * - The server stops. operations_must_return() says whether the worker has to wait.
 *
 * Everything runs on the loop's thread.
 */
#ifndef SLUICE_API_OPERATION_H
#define SLUICE_API_OPERATION_H

#include "api/token.h"
#include "distributed/parked_messages.h"
#include "http/server.h"
#include "ledger/ledger_reader.h"
#include "ledger/ledger_writer.h"
#include "ledger/reconciler.h"
#include "port/gate.h"

struct api_request;
struct api_worker;
struct api_operation;
struct report;

typedef enum http_outcome api_done(struct api_request *req, struct api_operation *operation);

/* The part that answers an operation. It selects the member of the operation's request. */
enum api_target {
    TARGET_GATE,
    TARGET_LEDGER_WRITER,
    TARGET_LEDGER_READER,
    TARGET_RECONCILER,
    TARGET_PARKED_MESSAGES,
};

/* Each limits the operations of one worker that are under way: name, limit, whether a worker that
 * stops waits for them. A limit of 0 stands for two operations for each connection: one for its
 * client, and one for a client that has gone.
 * - Writes and queries are divided by client, so that buyers who list their orders do not keep the
 *   shop's payments out.
 * - Calls to the reconciler share runs: more of them would only wait together.
 * - Requests to the reconciler and about parked messages are not part of the worker's memory, and
 *   answers that wait for an LSN are in no other thread's hands. So nothing waits for these. */
#define API_BUDGETS(X)                                                                             \
    X(BUDGET_GATE, 0, true)       /* requests at the gate */                                       \
    X(BUDGET_DURABLE, 0, false)   /* answers that wait for an LSN */                               \
    X(BUDGET_SHOP, 4096, true)    /* payments and cancellations */                                 \
    X(BUDGET_BUYER, 512, true)    /* lists of a buyer's orders */                                  \
    X(BUDGET_EVICTED, 1024, true) /* orders that the gate has evicted */                           \
    X(BUDGET_OPERATOR, 256, true)                                                                  \
    X(BUDGET_RECONCILE, 16, false)                                                                 \
    X(BUDGET_PARKED_MESSAGES, PARKED_MESSAGES_CALLS_MAX, false)
enum api_budget {
#define X(name, limit, wait) name,
    API_BUDGETS(X)
#undef X
        BUDGET_COUNT
};

/* What a handler keeps for its `done`. The function in `done` determines the member. */
union api_context {
    struct {
        int64_t started_us;
    } buy;
    struct {
        int64_t due_ms; /* when to answer at the latest; 0: at once */
        enum order_state hold;
    } long_poll;
    struct {
        uint16_t version_sent;
        struct token_grant token;
        uint64_t settings; /* the number of those that the token was checked with */
    } order_stream;
    struct {
        enum refusal refusal; /* why a row could not be looked up at the gate; or REFUSAL_NONE */
    } order_list;
    struct {
        uint32_t row; /* of the parent's orders */
    } order_list_row;
    struct {
        bool gate_unreachable; /* an order that the ledger lacks may still exist */
    } order_lookup;
    struct {
        struct sale_row *sale_in; /* freed by the operation's free_context */
    } sale_write;
    struct {
        bool one; /* one sale was asked for by its id */
    } sale_read;
    struct {
        struct block_row *row; /* freed by the operation's free_context */
    } block;
    struct {
        bool wants_html;
    } item_page;
    struct {
        struct report *report; /* NULL: passed on. Freed by the operation's free_context */
        uint32_t stage;
    } report;
};

struct api_operation {
    enum api_target target;
    enum api_budget budget;
    struct http_exchange exchange;
    uint64_t user; /* the request's buyer; 0: none */
    api_done *done;
    /* ERR_JOURNAL_FAILED: the operation does not wait for its LSN any longer, because the journal has
     * failed or waits for space on the disk; the LSN may become durable in the second case. For a
     * write also the ledger's error. `done` sees this only in answers of the gate. */
    int error;
    uint32_t ledger_asks; /* of a gate's operation: see ask_ledger_first() */
    uint32_t uses;        /* the operation is freed when this drops to 0 */
    /* An operation for `done` to submit. Freed with this one unless `done` took it and set NULL. */
    struct api_operation *prepared;
    /* This operation is a part of another one: api_make_part(). */
    struct api_operation *parent;
    /* Called after `done` and after all parts have finished, if the client is still there. NULL:
     * nothing is called. */
    api_done *parts_done;
    union api_context context;
    void (*free_context)(union api_context *context); /* NULL: nothing to free */
    struct api_operation *next_free;
    union {
        struct gate_request gate;
        struct ledger_writer_op write;
        struct ledger_reader_query read;
        /* Allocated apart, because these threads free what a stopped worker no longer collects. */
        struct reconciler_call *reconcile;
        struct parked_messages_call *parked;
    };
};

/* Each returns NULL if the budget is used up or there is no memory. */
struct api_operation *api_gate_operation(struct api_request *req, enum gate_request_kind kind,
                                         api_done *done);
/* The caller fills in write.op. write.op.sale is freed with the operation. */
struct api_operation *api_write_operation(struct api_request *req, enum api_budget budget,
                                          api_done *done);
/* Allocates `limit` rows of the query's kind; they are freed with the operation. */
struct api_operation *api_read_operation(struct api_request *req, enum ledger_query_kind kind,
                                         uint32_t limit, enum api_budget budget, api_done *done);
struct api_operation *api_reconcile_operation(struct api_request *req, api_done *done);
struct api_operation *api_parked_operation(struct api_request *req, api_done *done);

enum http_outcome api_submit(struct api_request *req, struct api_operation *operation);
/* Frees an operation that was not submitted. */
void api_operation_free(struct api_worker *worker, struct api_operation *operation);

/* Makes an operation that is not yet submitted a part of parent, whose `done` is running. */
void api_make_part(struct api_operation *operation, struct api_operation *parent);

/* True if half of BUDGET_GATE is used: the other half is for requests that a client waits for
 * alone. */
bool api_gate_is_busy(const struct api_worker *worker);
/* An order was looked up at the gate, and the gate could not say whether it exists. */
static inline bool api_gate_unreachable(const struct api_operation *operation)
{
    return operation->gate.refusal != REFUSAL_NONE && operation->gate.refusal != REFUSAL_NOT_FOUND;
}

/* The numbers of an item, at once; false: the gate does not know it. */
bool api_item(struct api_worker *worker, uint64_t item, struct item_view *ret_view);
/* The same for a caller that holds the catalog's lock. A thread that waits to write the catalog keeps
 * new readers out, so a second lock of the same thread would never be granted. */
bool api_item_locked(struct api_worker *worker, uint64_t item, struct item_view *ret_view);

#endif
