/*
 * The basic types of the program: ids, order states and their moves, sale states, refusals. Each is
 * one list; enums, texts, metrics and documents are generated from it.
 */
#ifndef SLUICE_CORE_TYPES_H
#define SLUICE_CORE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"

/*
 * An order id is 128 bits, shown as 26 characters of Crockford base32 in an order that sorts like
 * the bits:  kind:2 | item:53 | rest:73.
 * ORDER_ONCE  (limit_per_user 1): rest = user:53 | attempt:20, a function of the buyer.
 * ORDER_FRESH (other items):      rest = time in ms:42 | sequence:31, so ids of an item are
 *                                 ordered by time. The sequence's low six bits are the segment of
 *                                 the gate that knows the order (0 where the gate has one).
 * Carrying the item lets the ledger find an order in its clustered range without another index.
 */
struct order_id {
    uint64_t hi;
    uint64_t lo;
};

enum order_kind { ORDER_ONCE = 1, ORDER_FRESH = 2 };

#define ORDER_ID_TEXT 26
#define ORDER_ATTEMPT_MAX ((1U << 20) - 1)

struct order_id order_id_once(uint64_t item, uint64_t user, uint32_t attempt);
struct order_id order_id_fresh(uint64_t item, int64_t now_ms, uint32_t sequence);
enum order_kind order_id_kind(struct order_id id);
uint64_t order_id_item(struct order_id id);
uint32_t order_id_attempt(struct order_id id); /* ORDER_ONCE only */
uint64_t order_id_user(struct order_id id);    /* ORDER_ONCE only */
uint32_t order_id_segment(struct order_id id); /* ORDER_FRESH only */
int64_t order_id_ms(struct order_id id);       /* ORDER_FRESH only: when its ticket was signed */
#define ORDER_SEGMENT_BITS 6
/* Writes ORDER_ID_TEXT characters, no terminator. */
void order_id_text(struct order_id id, char *ret_text);
/* Exactly what order_id_text writes; anything else is ERR_INVALID. */
int order_id_parse(struct span text, struct order_id *ret_id);
static inline bool order_id_equal(struct order_id a, struct order_id b)
{
    return a.hi == b.hi && a.lo == b.lo;
}
/* For every table of orders in memory; any of its bits will do. key: 0, or a secret that keeps
 * others from choosing ids of one bucket. */
static inline uint64_t order_id_hash(struct order_id id, uint64_t key)
{
    return hash_mix(hash_mix(id.hi ^ key) ^ id.lo);
}

#define ORDER_STATES(X)                                                                            \
    X(ORDER_QUEUED, "QUEUED")                                                                      \
    X(ORDER_LOCKED, "LOCKED")                                                                      \
    X(ORDER_PAID, "PAID")                                                                          \
    X(ORDER_EXPIRED, "EXPIRED")                                                                    \
    X(ORDER_CANCELLED, "CANCELLED")                                                                \
    X(ORDER_FAILED, "FAILED")

enum order_state {
#define X(name, text) name,
    ORDER_STATES(X)
#undef X
        ORDER_STATE_COUNT
};

/* The moves of an order, the only table of them. A move that is not listed is illegal. */
#define ORDER_MOVES(X)                                                                             \
    X(MOVE_CONFIRM, "confirm", ORDER_QUEUED, ORDER_LOCKED)                                         \
    X(MOVE_REFUSE, "refuse", ORDER_QUEUED, ORDER_FAILED)                                           \
    X(MOVE_PAY, "pay", ORDER_LOCKED, ORDER_PAID)                                                   \
    X(MOVE_EXPIRE, "expire", ORDER_LOCKED, ORDER_EXPIRED)                                          \
    X(MOVE_CANCEL, "cancel", ORDER_LOCKED, ORDER_CANCELLED)

enum order_move {
#define X(name, text, from, to) name,
    ORDER_MOVES(X)
#undef X
        ORDER_MOVE_COUNT
};

/* The table as rows: move -> {from, to}. */
extern const uint8_t order_moves[ORDER_MOVE_COUNT][2];
static inline enum order_state order_move_from(enum order_move move)
{
    CHECK((unsigned)move < ORDER_MOVE_COUNT);
    return (enum order_state)order_moves[move][0];
}
static inline enum order_state order_move_to(enum order_move move)
{
    CHECK((unsigned)move < ORDER_MOVE_COUNT);
    return (enum order_state)order_moves[move][1];
}
const char *order_state_text(enum order_state state);
int order_state_parse(struct span text, enum order_state *ret_state);
static inline bool order_state_final(enum order_state s)
{
    return s != ORDER_QUEUED && s != ORDER_LOCKED;
}
/* Whether the order holds units: QUEUED, LOCKED, PAID. */
static inline bool order_state_alive(enum order_state s)
{
    return s == ORDER_QUEUED || s == ORDER_LOCKED || s == ORDER_PAID;
}

#define SALE_STATES(X)                                                                             \
    X(SALE_DRAFT, "draft")                                                                         \
    X(SALE_WARM, "warm")                                                                           \
    X(SALE_OPEN, "open")                                                                           \
    X(SALE_PAUSED, "paused")                                                                       \
    X(SALE_CLOSED, "closed")

enum sale_state {
#define X(name, text) name,
    SALE_STATES(X)
#undef X
        SALE_STATE_COUNT
};
const char *sale_state_text(enum sale_state state);
int sale_state_parse(struct span text, enum sale_state *ret_state);

enum retry { RETRY_NO, RETRY_LATER, RETRY_SAME_TICKET, RETRY_NEW_TICKET };
const char *retry_text(enum retry retry);

/* Name, HTTP status, code, what the client does next, title. REFUSAL_NONE is 0. Append only: the
 * numbers are stored in journals, snapshots and on Redis. CONTRIBUTING.md lists what else names
 * them. */
#define REFUSALS(X)                                                                                \
    X(REFUSAL_NONE, 200, "none", RETRY_NO, "Not refused")                                          \
    X(REFUSAL_BAD_REQUEST, 400, "bad_request", RETRY_NO, "The request is not valid")               \
    X(REFUSAL_TOO_LARGE, 413, "too_large", RETRY_NO, "The request is too large")                   \
    X(REFUSAL_BAD_MEDIA_TYPE, 415, "bad_media_type", RETRY_NO,                                     \
      "The body must be application/json")                                                         \
    X(REFUSAL_UNAUTHENTICATED, 401, "unauthenticated", RETRY_NO, "A valid token is needed")        \
    X(REFUSAL_BAD_SIGNATURE, 401, "bad_signature", RETRY_NO, "The signature is not valid")         \
    X(REFUSAL_FORBIDDEN, 403, "forbidden", RETRY_NO, "This token may not do that")                 \
    X(REFUSAL_BAD_TICKET, 403, "bad_ticket", RETRY_NEW_TICKET, "The ticket is not valid")          \
    X(REFUSAL_NOT_FOUND, 404, "not_found", RETRY_NO, "Not found")                                  \
    X(REFUSAL_NO_SUCH_ITEM, 404, "no_such_item", RETRY_NO, "No such item")                         \
    X(REFUSAL_METHOD_NOT_ALLOWED, 405, "method_not_allowed", RETRY_NO, "Method not allowed")       \
    X(REFUSAL_SOLD_OUT, 409, "sold_out", RETRY_NO, "Sold out")                                     \
    X(REFUSAL_LIMIT_REACHED, 409, "limit_reached", RETRY_NO, "The limit per buyer is reached")     \
    X(REFUSAL_BARRED, 409, "barred", RETRY_NO, "An earlier order of this buyer was not paid")      \
    X(REFUSAL_NOT_OPEN, 409, "not_open", RETRY_LATER, "The sale is not open")                      \
    X(REFUSAL_ENDED, 409, "ended", RETRY_NO, "The sale has ended")                                 \
    X(REFUSAL_EXPIRED, 409, "expired", RETRY_NO, "The order has ended unpaid")                     \
    X(REFUSAL_ALREADY_PAID, 409, "already_paid", RETRY_NO, "The order is paid already")            \
    X(REFUSAL_QUEUED, 409, "queued", RETRY_LATER, "The order is still being booked")               \
    X(REFUSAL_EXISTS, 409, "exists", RETRY_NO, "The id is in use")                                 \
    X(REFUSAL_BAD_STATE, 409, "bad_state", RETRY_NO, "Not possible in this state")                 \
    X(REFUSAL_DIFFERENT_REQUEST, 422, "different_request", RETRY_NO,                               \
      "The same key was used for another request")                                                 \
    X(REFUSAL_WRONG_AMOUNT, 422, "wrong_amount", RETRY_NO, "The amount is not the order's")        \
    X(REFUSAL_TOO_EARLY, 425, "too_early", RETRY_LATER, "Too early")                               \
    X(REFUSAL_RATE_LIMITED, 429, "rate_limited", RETRY_LATER, "Too many requests")                 \
    X(REFUSAL_TIMEOUT, 408, "timeout", RETRY_LATER, "The request did not arrive in time")          \
    X(REFUSAL_URI_TOO_LONG, 414, "too_large", RETRY_NO, "The request target is too long")          \
    X(REFUSAL_HEADERS_TOO_LARGE, 431, "too_large", RETRY_NO, "The headers are too large")          \
    X(REFUSAL_NOT_IMPLEMENTED, 501, "bad_request", RETRY_NO,                                       \
      "The method or coding is not supported")                                                     \
    X(REFUSAL_BAD_VERSION, 505, "bad_request", RETRY_NO, "The HTTP version is not supported")      \
    X(REFUSAL_EXPECTATION, 417, "bad_request", RETRY_NO, "The expectation cannot be met")          \
    X(REFUSAL_OVERLOADED, 503, "overloaded", RETRY_LATER, "Too busy")                              \
    X(REFUSAL_DEGRADED, 503, "degraded", RETRY_LATER, "Not available at the moment")               \
    X(REFUSAL_UNKNOWN_OUTCOME, 503, "degraded", RETRY_SAME_TICKET, "The outcome is not known yet") \
    X(REFUSAL_DRAINING, 503, "draining", RETRY_LATER, "The server is going away")                  \
    X(REFUSAL_NO_STOCK, 409, "sold_out", RETRY_NO, "The ledger had no unit left")                  \
    X(REFUSAL_UNDECIDED, 409, "undecided", RETRY_SAME_TICKET, "In line, not yet decided")          \
    X(REFUSAL_STALE_EPOCH, 503, "degraded", RETRY_SAME_TICKET, "Decided by a gate that is gone")   \
    X(REFUSAL_BLOCKED, 403, "blocked", RETRY_NO, "Blocked by the operator")

enum refusal {
#define X(name, status, code, retry, title) name,
    REFUSALS(X)
#undef X
        REFUSAL_COUNT
};
struct refusal_text {
    int status;
    const char *code;
    enum retry retry;
    const char *title;
};
const struct refusal_text *refusal_text(enum refusal refusal);

/* QUEUED is version 1, and an order moves at most twice: to LOCKED, and to a final state. */
#define ORDER_VERSION_MAX 3

/* What buyers see of an order. The gate's record contains all of it. */
struct order_view {
    struct order_id id;
    uint64_t user;
    uint64_t item;
    uint32_t qty;
    uint8_t state;    /* enum order_state */
    uint8_t reason;   /* enum refusal */
    uint16_t version; /* grows with each change, up to ORDER_VERSION_MAX; the SSE id */
    int64_t created_at_ms;
    int64_t pay_by_ms; /* 0 until LOCKED */
    uint64_t lsn;      /* of the last change; shown only once it is durable */
};

/* The numbers of an item. available + locked + sold == total, always. */
struct item_view {
    uint64_t item;
    uint64_t sale;
    uint64_t total;
    uint64_t available;
    uint64_t locked;
    uint64_t sold;
    uint32_t limit_per_user;
    uint8_t sale_state; /* enum sale_state */
    int64_t starts_at_ms;
    int64_t ends_at_ms;
    uint64_t version; /* grows with each change */
};

#endif
