/* See limits.h. */
#include "admission/limits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/crypt.h"
#include "base/err.h"
#include "base/hash.h"

#define LOCKS 64U
#define TABLE_MAGIC 0x31656c6261746c73ULL /* "sltable1" */
#define KEY_BYTES_MAX (1U + LIMIT_DEVICE_MAX)

/* ---- lists ---- */

const char *call_family_text(enum call_family family)
{
    static const char *const texts[] = {"none",
#define X(name, text, user, item) text,
                                        CALL_FAMILIES(X)
#undef X
    };
    CHECK((unsigned)family < FAMILY_COUNT);
    return texts[family];
}

uint32_t call_families_with_user(void)
{
    return 0
#define X(name, text, user, item) | (uint32_t)(user) << name
        CALL_FAMILIES(X)
#undef X
            ;
}

uint32_t call_families_with_item(void)
{
    return 0
#define X(name, text, user, item) | (uint32_t)(item) << name
        CALL_FAMILIES(X)
#undef X
            ;
}

const char *limit_key_text(enum limit_key key)
{
    static const char *const texts[] = {
#define X(name, text, stage) text,
        LIMIT_KEYS(X)
#undef X
    };
    CHECK((unsigned)key < LIMIT_KEY_COUNT);
    return texts[key];
}

static enum limit_stage stage_of(enum limit_key key)
{
    static const uint8_t stages[] = {
#define X(name, text, stage) stage,
        LIMIT_KEYS(X)
#undef X
    };
    CHECK((unsigned)key < LIMIT_KEY_COUNT);
    return (enum limit_stage)stages[key];
}

/* ---- rules ---- */

static bool by_user(enum limit_key key)
{
    return key == LIMIT_BY_USER || key == LIMIT_BY_USER_ITEM;
}

static bool by_item(enum limit_key key)
{
    return key == LIMIT_BY_ADDRESS_ITEM || key == LIMIT_BY_USER_ITEM;
}

const char *limit_rule_fault(const struct limit_rule *rule)
{
    const struct rate_rule *rate = &rule->rate;
    if (rule->name[0] == '\0') {
        return "the rule has no name";
    }
    if (rate->rate == 0) {
        return "rate is missing: a rule lets through `rate` requests in `per_s` seconds";
    }
    if (rate->algorithm == RATE_TOKEN_BUCKET && rate->burst == 0) {
        return "a token bucket with burst = 0 lets nothing through; leave burst out for `rate`";
    }
    if (by_user(rule->key) && rule->calls != 0 &&
        (rule->calls & ~call_families_with_user()) == rule->calls) {
        return "the rule can never apply: none of its calls has a user";
    }
    if (by_item(rule->key) && rule->calls != 0 &&
        (rule->calls & ~call_families_with_item()) == rule->calls) {
        return "the rule can never apply: none of its calls has an item";
    }
    return NULL;
}

/* ---- tables ---- */

/* At the beginning of a table's memory. The slots follow. */
struct table_head {
    uint64_t magic;
    uint64_t meaning; /* a hash of what the rule counts, and how: other counts are dropped */
    uint8_t hash_key[CRYPT_SIP_KEY_BYTES];
    _Atomic int64_t highest_us; /* of all requests, roughly: threads do not wait for each other */
    uint64_t spare[3];
};
_Static_assert(sizeof(struct table_head) == 64, "slots begin on a cache line");

/* A slot: its key's tag, when it was used last, the cell. Tag 0: free. */
struct slot {
    uint64_t tag;
    int64_t used_us;
    uint64_t cell[];
};

struct table {
    struct table_head *head;
    const struct limit_memory *memory;
    struct limit_rule rule; /* the one it was made for */
    size_t bytes;
    size_t slot_bytes;
    uint32_t sets; /* a power of two; 1 where the rule has few keys */
    uint32_t references;
    pthread_mutex_t locks[LOCKS];
};

struct limits {
    uint32_t count;
    struct limit_calls calls;
    struct limit_rule rules[LIMIT_RULES_MAX];
    struct table *tables[LIMIT_RULES_MAX];
};

/* Whether counts of one rule are right for the other. */
static bool same_counts(const struct limit_rule *a, const struct limit_rule *b)
{
    return strcmp(a->name, b->name) == 0 && a->key == b->key && a->calls == b->calls &&
           a->rate.algorithm == b->rate.algorithm && a->rate.rate == b->rate.rate &&
           a->rate.per_s == b->rate.per_s && a->rate.burst == b->rate.burst;
}

static uint64_t meaning_of(const struct limit_rule *rule)
{
    uint64_t hash = hash_mix(rule->key + 1);
    hash = hash_mix(hash ^ rule->calls);
    hash = hash_mix(hash ^ rule->rate.algorithm);
    hash = hash_mix(hash ^ rule->rate.rate);
    hash = hash_mix(hash ^ rule->rate.per_s);
    return hash_mix(hash ^ rule->rate.burst);
}

static bool has_few_keys(enum limit_key key)
{
    return key == LIMIT_BY_CALL || key == LIMIT_BY_NOTHING;
}

static uint32_t sets_of(const struct limit_rule *rule, size_t slot_bytes)
{
    uint32_t sets = 1;
    if (has_few_keys(rule->key)) {
        return 2; /* 16 slots for the families of calls */
    }
    while ((size_t)sets * 2 * LIMIT_WAYS * slot_bytes <= LIMIT_TABLE_BYTES) {
        sets *= 2;
    }
    return sets;
}

static struct slot *slot_at(const struct table *table, uint32_t set, uint32_t way)
{
    char *slots = (char *)(table->head + 1);
    return (struct slot *)(void *)(slots + ((size_t)set * LIMIT_WAYS + way) * table->slot_bytes);
}

/* Counts that are another rule's, or from a time that is still to come, are dropped. A little ahead is
 * right: the program's time never goes back, and its clock may have. */
#define AHEAD_MAX_US (120 * 1000000LL)
static void table_begin(struct table *table, int64_t now_us)
{
    struct table_head *head = table->head;
    uint64_t meaning = meaning_of(&table->rule);
    if (head->magic == TABLE_MAGIC && head->meaning == meaning &&
        atomic_load(&head->highest_us) <= now_us + AHEAD_MAX_US) {
        return;
    }
    memset((void *)head, 0, table->bytes);
    head->magic = TABLE_MAGIC;
    head->meaning = meaning;
    crypt_random(head->hash_key, sizeof(head->hash_key));
}

static struct table *table_new(const struct limit_rule *rule, const struct limit_memory *memory,
                               int64_t now_us)
{
    struct table *table = calloc(1, sizeof(*table));
    if (table == NULL) {
        return NULL;
    }
    table->rule = *rule;
    table->memory = memory;
    table->references = 1;
    table->slot_bytes = sizeof(struct slot) + rate_cell_bytes(&rule->rate);
    table->sets = sets_of(rule, table->slot_bytes);
    table->bytes = sizeof(struct table_head) + (size_t)table->sets * LIMIT_WAYS * table->slot_bytes;
    table->head = memory->open(memory->context, rule->name, table->bytes);
    if (table->head == NULL) {
        free(table);
        return NULL;
    }
    table_begin(table, now_us);
    for (uint32_t i = 0; i < LOCKS; i++) {
        CHECK(pthread_mutex_init(&table->locks[i], NULL) == 0);
    }
    return table;
}

static void table_release(struct table *table)
{
    if (table == NULL || --table->references > 0) {
        return;
    }
    for (uint32_t i = 0; i < LOCKS; i++) {
        CHECK(pthread_mutex_destroy(&table->locks[i]) == 0);
    }
    table->memory->close(table->memory->context, table->head, table->bytes);
    free(table);
}

/* ---- life ---- */

static struct table *table_of(const struct limits *before, const struct limit_rule *rule)
{
    for (uint32_t i = 0; before != NULL && i < before->count; i++) {
        if (same_counts(&before->rules[i], rule)) {
            before->tables[i]->references++;
            return before->tables[i];
        }
    }
    return NULL;
}

static void note_calls(struct limit_calls *calls, const struct limit_rule *rule)
{
    enum limit_stage stage = stage_of(rule->key);
    uint32_t bits = rule->calls != 0 ? rule->calls : ~(1U << FAMILY_NONE);
    calls->any[stage] |= bits;
    if (rule->key == LIMIT_BY_ADDRESS || rule->key == LIMIT_BY_ADDRESS_ITEM) {
        calls->by_address[stage] |= bits;
    }
}

int limits_new(const struct limit_rule *rules, uint32_t count, const struct limits *before,
               const struct limit_memory *memory, int64_t now_us, struct limits **ret_limits)
{
    CHECK(count <= LIMIT_RULES_MAX);
    struct limits *limits = calloc(1, sizeof(*limits));
    if (limits == NULL) {
        return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        CHECK(limit_rule_fault(&rules[i]) == NULL);
        limits->rules[i] = rules[i];
        limits->tables[i] = table_of(before, &rules[i]);
        if (limits->tables[i] == NULL) {
            limits->tables[i] = table_new(&rules[i], memory, now_us);
        }
        if (limits->tables[i] == NULL) {
            limits_free(limits);
            return ERR_NOMEM;
        }
        limits->count++;
        note_calls(&limits->calls, &rules[i]);
    }
    *ret_limits = limits;
    return 0;
}

void limits_free(struct limits *limits)
{
    if (limits == NULL) {
        return;
    }
    for (uint32_t i = 0; i < limits->count; i++) {
        table_release(limits->tables[i]);
    }
    free(limits);
}

const struct limit_rule *limits_rule(const struct limits *limits, uint32_t number)
{
    CHECK(number >= 1 && number <= limits->count);
    return &limits->rules[number - 1];
}

struct limit_calls limits_calls(const struct limits *limits)
{
    return limits->calls;
}

/* ---- requests ---- */

static size_t put_address(uint8_t *to, const struct net_address *address)
{
    size_t len = address->family == 4 ? 4 : 8; /* an IPv6 client has a /64 */
    to[0] = address->family;
    memcpy(to + 1, address->bytes, len);
    return 1 + len;
}

/* The bytes that the rule counts by. 0: the request has none, and the rule does not apply. */
static size_t key_bytes(const struct limit_rule *rule, const struct limit_request *request,
                        uint8_t ret_key[KEY_BYTES_MAX])
{
    size_t len = 0;
    switch (rule->key) {
    case LIMIT_BY_ADDRESS:
    case LIMIT_BY_ADDRESS_ITEM:
        len = request->address.family != 0 ? put_address(ret_key, &request->address) : 0;
        break;
    case LIMIT_BY_USER:
    case LIMIT_BY_USER_ITEM:
        store_le64(ret_key, request->user);
        len = request->user != 0 ? sizeof(uint64_t) : 0;
        break;
    case LIMIT_BY_DEVICE:
        len = request->device.len <= LIMIT_DEVICE_MAX ? request->device.len : LIMIT_DEVICE_MAX;
        if (len > 0) {
            memcpy(ret_key, request->device.at, len);
        }
        break;
    case LIMIT_BY_CALL:
    case LIMIT_BY_NOTHING:
        ret_key[0] = rule->key == LIMIT_BY_CALL ? (uint8_t)request->call : 0;
        return 1;
    case LIMIT_KEY_COUNT:
        break;
    }
    if (!by_item(rule->key) || len == 0) {
        return len;
    }
    if (request->item == 0) {
        return 0;
    }
    store_le64(ret_key + len, request->item);
    return len + sizeof(uint64_t);
}

/* The slot of a key in its set; a new key takes the one that was not used for longest. */
static struct slot *slot_of(const struct table *table, uint32_t set, uint64_t tag)
{
    struct slot *oldest = slot_at(table, set, 0);
    for (uint32_t way = 0; way < LIMIT_WAYS; way++) {
        struct slot *slot = slot_at(table, set, way);
        if (slot->tag == tag) {
            return slot;
        }
        if (oldest->tag != 0 && (slot->tag == 0 || slot->used_us < oldest->used_us)) {
            oldest = slot;
        }
    }
    memset(oldest, 0, table->slot_bytes);
    oldest->tag = tag;
    return oldest;
}

/* Where a request's count is, for limits_take to give it back. */
struct taken {
    struct table *table;
    uint64_t tag;
    uint32_t set;
};

static bool take(struct table *table, const struct limit_rule *rule,
                 const struct limit_request *request, const uint8_t *key, size_t len,
                 struct taken *ret_taken, struct rate_outcome *ret_rate)
{
    uint8_t hash[CRYPT_SIP_BYTES];
    crypt_siphash128(table->head->hash_key, key, len, hash);
    uint64_t tag = load_le64(hash) | 1; /* never 0 */
    uint32_t set = load_le32(hash + 8) & (table->sets - 1);
    pthread_mutex_t *lock = &table->locks[set % LOCKS];
    CHECK(pthread_mutex_lock(lock) == 0);
    struct slot *slot = slot_of(table, set, tag);
    rate_take(&rule->rate, slot->cell, request->now_us, ret_rate);
    slot->used_us = request->now_us;
    CHECK(pthread_mutex_unlock(lock) == 0);
    if (request->now_us > atomic_load_explicit(&table->head->highest_us, memory_order_relaxed)) {
        atomic_store_explicit(&table->head->highest_us, request->now_us, memory_order_relaxed);
    }
    *ret_taken = (struct taken){table, tag, set};
    return ret_rate->passed;
}

static void give_back(const struct taken *taken)
{
    struct table *table = taken->table;
    pthread_mutex_t *lock = &table->locks[taken->set % LOCKS];
    CHECK(pthread_mutex_lock(lock) == 0);
    rate_return(&table->rule.rate, slot_of(table, taken->set, taken->tag)->cell);
    CHECK(pthread_mutex_unlock(lock) == 0);
}

/* Keeps the rule that leaves least. */
static void note(struct limit_outcome *outcome, uint32_t rule, const struct rate_outcome *rate)
{
    bool stricter =
        outcome->rule == 0 || rate->remaining < outcome->rate.remaining ||
        (rate->remaining == outcome->rate.remaining && rate->reset_us > outcome->rate.reset_us);
    if (stricter) {
        outcome->rule = rule;
        outcome->rate = *rate;
    }
    outcome->hold_us = rate->hold_us > outcome->hold_us ? rate->hold_us : outcome->hold_us;
}

bool limits_take(struct limits *limits, enum limit_stage stage, const struct limit_request *request,
                 struct limit_outcome *outcome)
{
    struct taken taken[LIMIT_RULES_MAX];
    uint32_t count = 0;
    if ((limits->calls.any[stage] & 1U << request->call) == 0) {
        return true;
    }
    for (uint32_t i = 0; i < limits->count; i++) {
        const struct limit_rule *rule = &limits->rules[i];
        uint8_t key[KEY_BYTES_MAX];
        struct rate_outcome rate;
        if (stage_of(rule->key) != stage ||
            (rule->calls != 0 && (rule->calls & 1U << request->call) == 0)) {
            continue;
        }
        size_t len = key_bytes(rule, request, key);
        if (len == 0) {
            continue;
        }
        if (!take(limits->tables[i], rule, request, key, len, &taken[count], &rate)) {
            while (count > 0) {
                give_back(&taken[--count]);
            }
            *outcome = (struct limit_outcome){.rule = i + 1, .rate = rate};
            return false;
        }
        count++;
        note(outcome, i + 1, &rate);
    }
    return true;
}
