/*
 * Rate limits in the configuration: sections `limit "NAME" { ... }`, and --set limit.NAME.field=value.
 * admission/limits.h says what the rules do.
 *
 * Rules ship with the program (admission.defaults). A section with the name of one of them changes it.
 */
#ifndef SLUICE_APP_CONFIG_LIMITS_H
#define SLUICE_APP_CONFIG_LIMITS_H

#include "admission/limits.h"

/* X(field, what it must be, help) */
#define LIMIT_FIELDS(X)                                                                            \
    X(key, "address, user, device, address+item, user+item, call or all",                          \
      "What is counted. An IPv6 address counts by its /64, a device by the header Sluice-Device.") \
    X(calls,                                                                                       \
      "some of time, sales, challenge, ticket, buy, orders, place, registration, pay, events and " \
      "admin",                                                                                     \
      "The calls that are counted together. Empty: all.")                                          \
    X(algorithm, "token_bucket, leaky_bucket or sliding_window",                                   \
      "token_bucket: `burst` at once, and `rate` more in `per_s` seconds. leaky_bucket: one "      \
      "request every per_s/rate seconds; up to `burst` wait for their turn. sliding_window: "      \
      "never more than `rate` in any `per_s` seconds.")                                            \
    X(rate, "a whole number from 1 to 1000000", "Requests in `per_s` seconds.")                    \
    X(per_s, "a whole number from 1 to 2678400", "Seconds.")                                       \
    X(burst, "a whole number from 0 to 1000000",                                                   \
      "Requests at once, or that wait. Default: `rate`.")                                          \
    X(shared, "true or false",                                                                     \
      "true: counted over all fronts together. Until fronts share counts, each counts for "        \
      "itself, and the server says so in its log.")

enum limit_field {
#define X(name, kind, help) LIMIT_FIELD_##name,
    LIMIT_FIELDS(X)
#undef X
        LIMIT_FIELD_COUNT
};

struct config_limit {
    struct limit_rule rule;
    bool has_key;
    bool has_burst;
    bool shipped;
    int line; /* of the file; 0: not from the file */
};

/* Plain memory that can be copied and compared. */
struct config_limits {
    uint32_t count;
    struct config_limit limits[LIMIT_RULES_MAX];
};

/* The rules that ship. address_rule: the one by address, too. */
void config_limits_shipped(struct config_limits *ret_limits);
/* Removes what ships, unless the operator has changed it: all of it, or only the rule by address. */
void config_limits_without_shipped(struct config_limits *limits, bool all);

/* The limit of this name, which is made if there is none. NULL: the name is none, or there are too
 * many; ret_error says which. */
struct config_limit *config_limits_named(struct config_limits *limits, struct span name,
                                         char *ret_error, size_t error_cap);
/* LIMIT_FIELD_COUNT: there is none of that name. */
enum limit_field config_limit_field(struct span name);
/* 0, or ERR_INVALID with what the value must be. Calls are separated by commas or spaces. */
int config_limit_set(struct config_limit *limit, enum limit_field field, const char *value,
                     char *ret_error, size_t error_cap);
/* One more call, for a list in the file. */
int config_limit_add_call(struct config_limit *limit, const char *value, char *ret_error,
                          size_t error_cap);

/* The first limit that contradicts itself or can never apply, and why. NULL: none. */
const struct config_limit *config_limits_wrong(const struct config_limits *limits,
                                               const char **ret_why);
/* ret_rules: room for LIMIT_RULES_MAX. Returns how many. */
uint32_t config_limits_rules(const struct config_limits *limits, struct limit_rule *ret_rules);

/* One line: key=user+item calls=ticket,buy ... */
void config_limit_text(const struct config_limit *limit, struct out *out);
/* The names of the calls: "ticket", "buy" */
void config_limit_calls(uint32_t calls, const char *quote, const char *between, struct out *out);

#endif
