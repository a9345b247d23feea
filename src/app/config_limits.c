/* See config_limits.h. */
#include "app/config_limits.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/err.h"

#define BY_ADDRESS "address-and-item"

static const struct {
    const char *name;
    const char *kind;
} fields[] = {
#define X(name, kind, help) {#name, kind},
    LIMIT_FIELDS(X)
#undef X
};

/* ---- what ships ---- */

static const struct limit_rule shipped[] = {
    {.name = "user-and-item",
     .key = LIMIT_BY_USER_ITEM,
     .calls = 1U << FAMILY_TICKET | 1U << FAMILY_BUY,
     .rate = {.algorithm = RATE_TOKEN_BUCKET, .rate = 10, .per_s = 60, .burst = 10}},
    {.name = BY_ADDRESS,
     .key = LIMIT_BY_ADDRESS_ITEM,
     .calls = 1U << FAMILY_TICKET | 1U << FAMILY_BUY,
     .rate = {.algorithm = RATE_SLIDING_WINDOW, .rate = 2, .per_s = 10, .burst = 2}},
    {.name = "everybody",
     .key = LIMIT_BY_NOTHING,
     .rate = {.algorithm = RATE_TOKEN_BUCKET, .rate = 100000, .per_s = 1, .burst = 100000}},
};

void config_limits_shipped(struct config_limits *ret_limits)
{
    memset(ret_limits, 0, sizeof(*ret_limits));
    for (size_t i = 0; i < sizeof(shipped) / sizeof(shipped[0]); i++) {
        struct config_limit *limit = &ret_limits->limits[ret_limits->count++];
        limit->rule = shipped[i];
        limit->has_key = true;
        limit->has_burst = false;
        limit->shipped = true;
    }
}

void config_limits_without_shipped(struct config_limits *limits, bool all)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < limits->count; i++) {
        const struct config_limit *limit = &limits->limits[i];
        if (!limit->shipped || (!all && strcmp(limit->rule.name, BY_ADDRESS) != 0)) {
            limits->limits[kept++] = *limit;
        }
    }
    memset(&limits->limits[kept], 0, (limits->count - kept) * sizeof(limits->limits[0]));
    limits->count = kept;
}

/* ---- names ---- */

/* A name is also that of a file, and stands in a header. */
static bool is_name(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '_';
        if (!fine) {
            return false;
        }
    }
    return name.len >= 1 && name.len <= LIMIT_NAME_MAX;
}

struct config_limit *config_limits_named(struct config_limits *limits, struct span name,
                                         char *ret_error, size_t error_cap)
{
    for (uint32_t i = 0; i < limits->count; i++) {
        if (span_is(name, limits->limits[i].rule.name)) {
            return &limits->limits[i];
        }
    }
    if (!is_name(name)) {
        (void)snprintf(ret_error, error_cap,
                       "a limit's name has 1 to %u letters, digits, - and _, not \"%.*s\"",
                       LIMIT_NAME_MAX, (int)(name.len < 64 ? name.len : 64), name.at);
        return NULL;
    }
    if (limits->count == LIMIT_RULES_MAX) {
        (void)snprintf(ret_error, error_cap, "there are more than %u limits", LIMIT_RULES_MAX);
        return NULL;
    }
    struct config_limit *limit = &limits->limits[limits->count++];
    memcpy(limit->rule.name, name.at, name.len);
    limit->rule.rate.per_s = 1;
    return limit;
}

enum limit_field config_limit_field(struct span name)
{
    int field = 0;
    while (field < LIMIT_FIELD_COUNT && !span_is(name, fields[field].name)) {
        field++;
    }
    return (enum limit_field)field;
}

/* ---- values ---- */

static bool read_number(const char *value, uint32_t min, uint32_t max, uint32_t *ret_number)
{
    uint64_t number = 0;
    if (span_parse_u64(span_of(value), max, &number) != 0 || number < min) {
        return false;
    }
    *ret_number = (uint32_t)number;
    return true;
}

static bool read_key(const char *value, struct limit_rule *rule)
{
    for (int key = 0; key < LIMIT_KEY_COUNT; key++) {
        if (strcmp(value, limit_key_text((enum limit_key)key)) == 0) {
            rule->key = (enum limit_key)key;
            return true;
        }
    }
    return false;
}

static bool read_algorithm(const char *value, struct limit_rule *rule)
{
    for (int algorithm = 0; algorithm < RATE_ALGORITHM_COUNT; algorithm++) {
        if (strcmp(value, rate_algorithm_text((enum rate_algorithm)algorithm)) == 0) {
            rule->rate.algorithm = (enum rate_algorithm)algorithm;
            return true;
        }
    }
    return false;
}

static uint32_t call_of(struct span name)
{
    for (int family = FAMILY_NONE + 1; family < FAMILY_COUNT; family++) {
        if (span_is(name, call_family_text((enum call_family)family))) {
            return 1U << family;
        }
    }
    return 0;
}

/* A list, or one name. */
static bool read_calls(const char *value, uint32_t *ret_calls)
{
    uint32_t calls = 0;
    while (*value != '\0') {
        size_t len = strcspn(value, " ,");
        uint32_t call = call_of((struct span){value, len});
        if (len > 0 && call == 0) {
            return false;
        }
        calls |= call;
        value += len + strspn(value + len, " ,");
    }
    *ret_calls = calls;
    return true;
}

static bool read_flag(const char *value, bool *ret_flag)
{
    *ret_flag = strcmp(value, "true") == 0;
    return *ret_flag || strcmp(value, "false") == 0;
}

static bool read_field(struct config_limit *limit, enum limit_field field, const char *value)
{
    struct rate_rule *rate = &limit->rule.rate;
    switch (field) {
    case LIMIT_FIELD_key:
        limit->has_key = read_key(value, &limit->rule);
        return limit->has_key;
    case LIMIT_FIELD_calls:
        return read_calls(value, &limit->rule.calls);
    case LIMIT_FIELD_algorithm:
        return read_algorithm(value, &limit->rule);
    case LIMIT_FIELD_rate:
        return read_number(value, 1, RATE_MAX, &rate->rate);
    case LIMIT_FIELD_per_s:
        return read_number(value, 1, RATE_PER_S_MAX, &rate->per_s);
    case LIMIT_FIELD_burst:
        limit->has_burst = read_number(value, 0, RATE_MAX, &rate->burst);
        return limit->has_burst;
    case LIMIT_FIELD_shared:
        return read_flag(value, &limit->rule.shared);
    case LIMIT_FIELD_COUNT:
        break;
    }
    return false;
}

int config_limit_set(struct config_limit *limit, enum limit_field field, const char *value,
                     char *ret_error, size_t error_cap)
{
    CHECK((unsigned)field < LIMIT_FIELD_COUNT);
    struct config_limit changed = *limit;
    if (!read_field(&changed, field, value)) {
        (void)snprintf(ret_error, error_cap, "must be %s, not \"%.64s\"", fields[field].kind,
                       value);
        return ERR_INVALID;
    }
    changed.shipped = false;
    if (!changed.has_burst) {
        changed.rule.rate.burst = changed.rule.rate.rate;
    }
    *limit = changed;
    return 0;
}

int config_limit_add_call(struct config_limit *limit, const char *value, char *ret_error,
                          size_t error_cap)
{
    uint32_t before = limit->rule.calls;
    int error = config_limit_set(limit, LIMIT_FIELD_calls, value, ret_error, error_cap);
    if (error == 0) {
        limit->rule.calls |= before;
    }
    return error;
}

/* ---- the whole ---- */

const struct config_limit *config_limits_wrong(const struct config_limits *limits,
                                               const char **ret_why)
{
    for (uint32_t i = 0; i < limits->count; i++) {
        const struct config_limit *limit = &limits->limits[i];
        *ret_why = limit->has_key ? limit_rule_fault(&limit->rule)
                                  : "key is missing: what does the rule count by?";
        if (*ret_why != NULL) {
            return limit;
        }
    }
    return NULL;
}

uint32_t config_limits_rules(const struct config_limits *limits, struct limit_rule *ret_rules)
{
    for (uint32_t i = 0; i < limits->count; i++) {
        ret_rules[i] = limits->limits[i].rule;
    }
    return limits->count;
}

/* ---- text ---- */

void config_limit_calls(uint32_t calls, const char *quote, const char *between, struct out *out)
{
    const char *before = "";
    for (int family = FAMILY_NONE + 1; family < FAMILY_COUNT; family++) {
        if ((calls & 1U << family) != 0) {
            out_format(out, "%s%s%s%s", before, quote, call_family_text((enum call_family)family),
                       quote);
            before = between;
        }
    }
}

void config_limit_text(const struct config_limit *limit, struct out *out)
{
    const struct rate_rule *rate = &limit->rule.rate;
    out_format(out, "key=%s calls=", limit_key_text(limit->rule.key));
    config_limit_calls(limit->rule.calls, "", ",", out);
    out_format(out, " algorithm=%s rate=%" PRIu32 " per_s=%" PRIu32 " burst=%" PRIu32 " shared=%s",
               rate_algorithm_text(rate->algorithm), rate->rate, rate->per_s, rate->burst,
               limit->rule.shared ? "true" : "false");
}
