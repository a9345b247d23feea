/*
 * Rate limits of requests: the rules of the configuration (`limit "NAME" { ... }`), each with a table
 * of the keys it has seen. core/rate_limit.h has the arithmetic.
 *
 * A request meets the rules in four stages, as soon as what they count by is known: its address and
 * device, its user, its item, and last the rules that count everybody. So a request that a buyer's own
 * rule refuses takes nothing from what all buyers share. A rule that refuses gives back what the rules
 * before it in the same stage have taken.
 *
 * Tables have a fixed size. A key is in one set of LIMIT_WAYS slots, chosen by a keyed hash; a new key
 * takes the slot that was not used for longest. The table of a rule lives as long as any struct limits
 * uses it: a reload that leaves a rule as it is keeps its counts. The owner of the memory may keep it
 * over restarts (struct limit_memory).
 *
 * Threads: limits_take may be called by any thread. limits_new and limits_free by one.
 */
#ifndef SLUICE_ADMISSION_LIMITS_H
#define SLUICE_ADMISSION_LIMITS_H

#include "base/bytes.h"
#include "core/rate_limit.h"
#include "port/net.h"

/* The families of calls that rules name. A call without a family is never limited. user, item: whether
 * its requests have one. */
#define CALL_FAMILIES(X)                                                                           \
    X(FAMILY_TIME, "time", false, false)                                                           \
    X(FAMILY_SALES, "sales", false, false)                                                         \
    X(FAMILY_CHALLENGE, "challenge", true, true)                                                   \
    X(FAMILY_TICKET, "ticket", true, true)                                                         \
    X(FAMILY_BUY, "buy", true, true)                                                               \
    X(FAMILY_ORDERS, "orders", true, false)                                                        \
    X(FAMILY_PLACE, "place", true, false)                                                          \
    X(FAMILY_REGISTRATION, "registration", true, false)                                            \
    X(FAMILY_PAY, "pay", false, false)                                                             \
    X(FAMILY_EVENTS, "events", false, false)                                                       \
    X(FAMILY_ADMIN, "admin", false, false)

enum call_family {
    FAMILY_NONE,
#define X(name, text, user, item) name,
    CALL_FAMILIES(X)
#undef X
        FAMILY_COUNT
};
const char *call_family_text(enum call_family family);
/* The families that may have a user (item) as bits, 1 << family. */
uint32_t call_families_with_user(void);
uint32_t call_families_with_item(void);

/* When a rule is asked. */
enum limit_stage { LIMIT_AT_ADDRESS, LIMIT_AT_USER, LIMIT_AT_ITEM, LIMIT_AT_END, LIMIT_STAGES };

/* What a rule counts by; its text, and its stage. */
#define LIMIT_KEYS(X)                                                                              \
    X(LIMIT_BY_ADDRESS, "address", LIMIT_AT_ADDRESS)                                               \
    X(LIMIT_BY_USER, "user", LIMIT_AT_USER)                                                        \
    X(LIMIT_BY_DEVICE, "device", LIMIT_AT_ADDRESS)                                                 \
    X(LIMIT_BY_ADDRESS_ITEM, "address+item", LIMIT_AT_ITEM)                                        \
    X(LIMIT_BY_USER_ITEM, "user+item", LIMIT_AT_ITEM)                                              \
    X(LIMIT_BY_CALL, "call", LIMIT_AT_END)                                                         \
    X(LIMIT_BY_NOTHING, "all", LIMIT_AT_END)

enum limit_key {
#define X(name, text, stage) name,
    LIMIT_KEYS(X)
#undef X
        LIMIT_KEY_COUNT
};
const char *limit_key_text(enum limit_key key);

#define LIMIT_RULES_MAX 32U
#define LIMIT_NAME_MAX 32U
#define LIMIT_DEVICE_MAX 64U
/* Memory for the keys of one rule. 131,072 keys of a bucket, 7,281 of a window of 64 requests. All
 * rules together take at most 128 MiB, and only what is used. */
#define LIMIT_TABLE_BYTES (4U << 20)
#define LIMIT_WAYS 8U

struct limit_rule {
    char name[LIMIT_NAME_MAX + 1];
    enum limit_key key;
    uint32_t calls; /* bits, 1 << enum call_family; 0: all */
    struct rate_rule rate;
    bool shared; /* counted over all fronts */
};

/* What is wrong with a rule: contradictory, or it could never refuse or never be asked. NULL:
 * nothing. */
const char *limit_rule_fault(const struct limit_rule *rule);

/* Memory for a table, which outlives the process if its owner wants that. */
struct limit_memory {
    void *context;
    /* bytes of memory for the rule of this name, aligned to 64: zeroed, or what it held when it was
     * closed, or when the process ended. NULL: there is none. */
    void *(*open)(void *context, const char *name, size_t bytes);
    void (*close)(void *context, void *memory, size_t bytes);
};

/* One request. What is not known yet is 0. The device is "" if the client names none. */
struct limit_request {
    enum call_family call;
    struct net_address address; /* IPv6 counts by /64; family 0 is not counted */
    struct span device;
    uint64_t user;
    uint64_t item;
    int64_t now_us;
};

/* The strictest rule so far. Zeroed before the first stage. */
struct limit_outcome {
    uint32_t rule;            /* its number, for limits_rule(); 0: no rule applied */
    struct rate_outcome rate; /* the rule's */
    int64_t hold_us;          /* the longest any rule holds the request */
};

struct limits;

/* before: the limits in use until now, or NULL; a rule that is in both keeps its table. now_us: a table
 * that is ahead of it begins anew. 0 or ERR_NOMEM. */
int limits_new(const struct limit_rule *rules, uint32_t count, const struct limits *before,
               const struct limit_memory *memory, int64_t now_us, struct limits **ret_limits);
void limits_free(struct limits *limits);
/* Rules have the numbers from 1 on. */
const struct limit_rule *limits_rule(const struct limits *limits, uint32_t number);
/* The calls that rules of each stage may apply to, as bits; and those of rules by address among them. A
 * caller need not ask about others. Copied, because it is looked at for each request. */
struct limit_calls {
    uint32_t any[LIMIT_STAGES];
    uint32_t by_address[LIMIT_STAGES];
};
struct limit_calls limits_calls(const struct limits *limits);

/* Asks the rules of one stage. False: refused, and the outcome has the rule. */
bool limits_take(struct limits *limits, enum limit_stage stage, const struct limit_request *request,
                 struct limit_outcome *outcome);

#endif
