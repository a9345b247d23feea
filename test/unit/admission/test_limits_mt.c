/*
 * Rules and their tables: which requests a rule counts, when, and together with which; what a reload
 * and a restart keep; and that threads together never pass more than a rule allows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#include "admission/limits.h"
#include "base/crypt.h"

#define SECOND_US 1000000LL
#define NOON_US (1800000000LL * SECOND_US)

/* ---- memory that outlives the limits, as files do ---- */

static struct {
    char name[LIMIT_NAME_MAX + 1];
    void *memory;
    size_t bytes;
    bool open;
} kept[LIMIT_RULES_MAX];

static void *memory_open(void *context, const char *name, size_t bytes)
{
    (void)context;
    for (size_t i = 0; i < LIMIT_RULES_MAX; i++) {
        if (kept[i].name[0] == '\0') {
            (void)snprintf(kept[i].name, sizeof(kept[i].name), "%s", name);
        }
        if (strcmp(kept[i].name, name) == 0) {
            if (kept[i].bytes != bytes) {
                free(kept[i].memory);
                kept[i].memory = calloc(1, bytes);
                kept[i].bytes = bytes;
            }
            kept[i].open = true;
            return kept[i].memory;
        }
    }
    return NULL;
}

static void memory_close(void *context, void *memory, size_t bytes)
{
    (void)context;
    for (size_t i = 0; i < LIMIT_RULES_MAX; i++) {
        if (kept[i].memory == memory) {
            assert_int_equal(kept[i].bytes, bytes);
            kept[i].open = false;
        }
    }
}

static const struct limit_memory memory = {.open = memory_open, .close = memory_close};

static int clean(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMIT_RULES_MAX; i++) {
        assert_false(kept[i].open); /* everything that was opened was closed */
        free(kept[i].memory);
    }
    memset(kept, 0, sizeof(kept));
    return 0;
}

/* ---- rules and requests ---- */

static struct limit_rule rule_of(const char *name, enum limit_key key, uint32_t calls,
                                 uint32_t rate)
{
    struct limit_rule rule = {
        .key = key,
        .calls = calls,
        .rate = {RATE_TOKEN_BUCKET, .rate = rate, .per_s = 60, .burst = rate}};
    (void)snprintf(rule.name, sizeof(rule.name), "%s", name);
    return rule;
}

static struct limits *limits_of(const struct limit_rule *rules, uint32_t count,
                                const struct limits *before, int64_t now_us)
{
    struct limits *limits = NULL;
    assert_int_equal(limits_new(rules, count, before, &memory, now_us, &limits), 0);
    return limits;
}

static struct limit_request buy(uint64_t user, uint64_t item, uint8_t host)
{
    return (struct limit_request){.call = FAMILY_BUY,
                                  .address = {.family = 4, .bytes = {10, 0, 0, host}},
                                  .user = user,
                                  .item = item,
                                  .now_us = NOON_US};
}

/* All stages, as the API asks them. */
static bool pass(struct limits *limits, const struct limit_request *request)
{
    struct limit_outcome outcome = {0};
    return limits_take(limits, LIMIT_AT_ADDRESS, request, &outcome) &&
           limits_take(limits, LIMIT_AT_USER, request, &outcome) &&
           limits_take(limits, LIMIT_AT_ITEM, request, &outcome) &&
           limits_take(limits, LIMIT_AT_END, request, &outcome);
}

static void each_key_counts_by_itself(void **state)
{
    (void)state;
    static const struct {
        enum limit_key key;
        bool user, item, host; /* whether another one has a count of its own */
    } cases[] = {
        {LIMIT_BY_USER, true, false, false},     {LIMIT_BY_ADDRESS, false, false, true},
        {LIMIT_BY_USER_ITEM, true, true, false}, {LIMIT_BY_ADDRESS_ITEM, false, true, true},
        {LIMIT_BY_NOTHING, false, false, false}, {LIMIT_BY_CALL, false, false, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct limit_rule rule = rule_of(limit_key_text(cases[i].key), cases[i].key, 0, 1);
        struct limits *limits = limits_of(&rule, 1, NULL, NOON_US);
        struct limit_request requests[] = {buy(1, 1, 1), buy(2, 1, 1), buy(1, 2, 1), buy(1, 1, 2)};
        assert_true(pass(limits, &requests[0]));
        assert_false(pass(limits, &requests[0]));
        assert_int_equal(pass(limits, &requests[1]), cases[i].user);
        assert_int_equal(pass(limits, &requests[2]), cases[i].item);
        assert_int_equal(pass(limits, &requests[3]), cases[i].host);
        limits_free(limits);
    }
}

static void only_its_calls_count_and_call_counts_each_family(void **state)
{
    (void)state;
    const struct limit_rule rules[] = {rule_of("some", LIMIT_BY_USER, 1U << FAMILY_TICKET, 1),
                                       rule_of("family", LIMIT_BY_CALL, 0, 3)};
    struct limits *limits = limits_of(rules, 2, NULL, NOON_US);
    struct limit_request request = buy(1, 1, 1);
    for (int i = 0; i < 3; i++) {
        assert_true(pass(limits, &request));
    }
    assert_false(pass(limits, &request)); /* the family's */
    request.call = FAMILY_TICKET;
    assert_true(pass(limits, &request));
    assert_false(pass(limits, &request)); /* the user's */
    request.call = FAMILY_TIME;
    assert_true(pass(limits, &request));
    request.call = FAMILY_NONE;
    for (int i = 0; i < 9; i++) {
        assert_true(pass(limits, &request));
    }
    limits_free(limits);
}

static void a_refusal_takes_nothing_from_the_rules_before_it(void **state)
{
    (void)state;
    const struct limit_rule rules[] = {rule_of("wide", LIMIT_BY_USER_ITEM, 0, 5),
                                       rule_of("narrow", LIMIT_BY_ADDRESS_ITEM, 0, 1),
                                       rule_of("all", LIMIT_BY_NOTHING, 0, 3)};
    struct limits *limits = limits_of(rules, 3, NULL, NOON_US);
    struct limit_request request = buy(1, 1, 1);
    assert_true(pass(limits, &request));
    for (int i = 0; i < 20; i++) {
        assert_false(pass(limits, &request)); /* narrow */
    }
    for (uint8_t host = 2; host <= 3; host++) {
        request = buy(1, 1, host); /* `wide` has 4 left, `all` 2 */
        assert_true(pass(limits, &request));
    }
    request = buy(1, 1, 4);
    assert_false(pass(limits, &request)); /* all */
    limits_free(limits);
}

static void the_strictest_rule_is_told(void **state)
{
    (void)state;
    const struct limit_rule rules[] = {rule_of("nine", LIMIT_BY_USER, 0, 9),
                                       rule_of("four", LIMIT_BY_USER, 0, 4)};
    struct limits *limits = limits_of(rules, 2, NULL, NOON_US);
    struct limit_request request = buy(1, 1, 1);
    struct limit_outcome outcome = {0};
    assert_true(limits_take(limits, LIMIT_AT_USER, &request, &outcome));
    assert_string_equal(limits_rule(limits, outcome.rule)->name, "four");
    assert_int_equal(outcome.rate.remaining, 3);
    limits_free(limits);
}

static void an_ipv6_client_is_its_64(void **state)
{
    (void)state;
    struct limit_rule rule = rule_of("address", LIMIT_BY_ADDRESS, 0, 1);
    struct limits *limits = limits_of(&rule, 1, NULL, NOON_US);
    struct limit_request request = buy(1, 1, 1);
    request.address = (struct net_address){.family = 6, .bytes = {0x20, 1, [15] = 1}};
    assert_true(pass(limits, &request));
    request.address.bytes[15] = 2;
    assert_false(pass(limits, &request));
    request.address.bytes[7] = 1;
    assert_true(pass(limits, &request));
    request.address.family = 0; /* unknown: not counted */
    assert_true(pass(limits, &request));
    assert_true(pass(limits, &request));
    limits_free(limits);
}

static void a_reload_keeps_the_counts_of_rules_that_stay(void **state)
{
    (void)state;
    struct limit_rule rules[] = {rule_of("a", LIMIT_BY_USER, 0, 2),
                                 rule_of("b", LIMIT_BY_USER, 0, 9)};
    struct limits *old = limits_of(rules, 2, NULL, NOON_US);
    struct limit_request request = buy(1, 1, 1);
    assert_true(pass(old, &request));
    rules[1].rate.rate = 8;
    struct limits *new = limits_of(rules, 2, old, NOON_US);
    assert_true(pass(new, &request));
    assert_false(pass(old, &request)); /* both count in one table */
    limits_free(old);
    assert_false(pass(new, &request));
    limits_free(new);
}

static void a_restart_keeps_the_counts(void **state)
{
    (void)state;
    struct limit_rule rule = rule_of("day", LIMIT_BY_USER, 0, 2);
    struct limits *limits = limits_of(&rule, 1, NULL, NOON_US);
    struct limit_request request = buy(1, 1, 1);
    assert_true(pass(limits, &request));
    assert_true(pass(limits, &request));
    limits_free(limits);
    limits = limits_of(&rule, 1, NULL, NOON_US + 1);
    assert_false(pass(limits, &request));
    limits_free(limits);
    rule.rate.rate = rule.rate.burst = 3; /* other counts than these are needed */
    limits = limits_of(&rule, 1, NULL, NOON_US + 1);
    assert_true(pass(limits, &request));
    limits_free(limits);
    /* Counts from another time than now: the clock was wrong, and has been set back. */
    limits = limits_of(&rule, 1, NULL, NOON_US - 3600 * SECOND_US);
    for (int i = 0; i < 3; i++) {
        assert_true(pass(limits, &request));
    }
    limits_free(limits);
}

/* More keys than a table has room for: old ones give way, and a key that goes on is not forgotten. */
static void tables_are_bounded(void **state)
{
    (void)state;
    struct limit_rule rule = rule_of("many", LIMIT_BY_USER, 0, 1000);
    rule.rate.per_s = RATE_PER_S_MAX; /* it gains nothing in the time of this test */
    struct limits *limits = limits_of(&rule, 1, NULL, NOON_US);
    struct limit_request busy = buy(1, 1, 1);
    uint32_t passed = 0;
    for (uint64_t user = 2; user < 1000000; user++) {
        struct limit_request request = buy(user, 1, 1);
        request.now_us += (int64_t)user;
        assert_true(pass(limits, &request));
        if (user % 900 == 0) {
            busy.now_us = request.now_us;
            passed += pass(limits, &busy);
        }
    }
    assert_int_equal(passed, 1000);
    assert_true(kept[0].bytes <= LIMIT_TABLE_BYTES + 64);
    limits_free(limits);
}

static void rules_that_can_never_apply_are_named(void **state)
{
    (void)state;
    struct limit_rule rule = rule_of("x", LIMIT_BY_USER, 1U << FAMILY_TIME | 1U << FAMILY_SALES, 1);
    assert_non_null(limit_rule_fault(&rule));
    rule = rule_of("x", LIMIT_BY_USER_ITEM, 1U << FAMILY_ORDERS, 1);
    assert_non_null(limit_rule_fault(&rule));
    rule = rule_of("x", LIMIT_BY_USER, 0, 0);
    assert_non_null(limit_rule_fault(&rule));
    rule = rule_of("x", LIMIT_BY_USER, 1U << FAMILY_TIME | 1U << FAMILY_BUY, 1);
    assert_null(limit_rule_fault(&rule));
    rule.rate.burst = 0;
    assert_non_null(limit_rule_fault(&rule));
}

/* ---- threads ---- */

#define THREADS 8
#define EACH 2000

struct crowd {
    struct limits *limits;
    uint32_t passed;
};

static void *rush(void *argument)
{
    struct crowd *crowd = argument;
    for (uint64_t i = 0; i < EACH; i++) {
        struct limit_request request = buy(1, 1 + i % 4, 1);
        crowd->passed += pass(crowd->limits, &request);
    }
    return NULL;
}

static void threads_together_pass_what_the_rule_allows(void **state)
{
    (void)state;
    struct limit_rule rules[] = {rule_of("user", LIMIT_BY_USER_ITEM, 0, 50),
                                 rule_of("all", LIMIT_BY_NOTHING, 0, 180)};
    rules[0].rate.algorithm = RATE_SLIDING_WINDOW;
    struct limits *limits = limits_of(rules, 2, NULL, NOON_US);
    struct crowd crowds[THREADS];
    pthread_t threads[THREADS];
    uint32_t passed = 0;
    for (int i = 0; i < THREADS; i++) {
        crowds[i] = (struct crowd){.limits = limits};
        assert_int_equal(pthread_create(&threads[i], NULL, rush, &crowds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        passed += crowds[i].passed;
    }
    assert_int_equal(passed, 180); /* of 4 items at 50 each */
    limits_free(limits);
}

int main(void)
{
    if (crypt_start() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(each_key_counts_by_itself, clean),
        cmocka_unit_test_teardown(only_its_calls_count_and_call_counts_each_family, clean),
        cmocka_unit_test_teardown(a_refusal_takes_nothing_from_the_rules_before_it, clean),
        cmocka_unit_test_teardown(the_strictest_rule_is_told, clean),
        cmocka_unit_test_teardown(an_ipv6_client_is_its_64, clean),
        cmocka_unit_test_teardown(a_reload_keeps_the_counts_of_rules_that_stay, clean),
        cmocka_unit_test_teardown(a_restart_keeps_the_counts, clean),
        cmocka_unit_test_teardown(tables_are_bounded, clean),
        cmocka_unit_test(rules_that_can_never_apply_are_named),
        cmocka_unit_test_teardown(threads_together_pass_what_the_rule_allows, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
