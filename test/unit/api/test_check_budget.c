/*
 * The budget of failed signature checks, in virtual time: floods of forged tokens from one address and
 * from many, and honest buyers between them, each from an address of its own with its first token.
 * Counts are exact: the hashes have a fixed key.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/check_budget.h"

#define START_MS 1700000000000LL
#define SECONDS 30
#define FORGED_PER_MS 40

static struct check_budget budget;
static const uint8_t key[CRYPT_SIP_KEY_BYTES] = {1, 2, 3};

static int set_up(void **state)
{
    (void)state;
    check_budget_init(&budget, key);
    return 0;
}

static struct net_address address(uint8_t network, uint32_t number)
{
    return (struct net_address){
        .family = 4,
        .bytes = {network, (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number}};
}

struct flood {
    uint64_t checked;      /* forged tokens whose signature was checked */
    uint64_t most_in_1_s;  /* of them in any second of the flood, counted from its start */
    uint64_t honest;       /* honest tokens */
    uint64_t passed;       /* of them */
    uint64_t passed_later; /* of those after the first second */
    uint64_t again;        /* honest buyers who were refused and came again a second later */
    uint64_t passed_again; /* of them */
};

static struct net_address buyer(int64_t number)
{
    return address(20, (uint32_t)number);
}

/* The buyer of this millisecond, and the one of a second ago if he was refused. */
static void honest_buyers(struct flood *flood, int64_t number, int64_t now_ms)
{
    static bool refused[SECONDS * 1000];
    bool passed = check_budget_allows(&budget, buyer(number), now_ms);
    refused[number] = !passed;
    flood->honest++;
    flood->passed += passed;
    flood->passed_later += passed && number >= 1000;
    if (number >= 1000 && refused[number - 1000]) {
        flood->again++;
        flood->passed_again += check_budget_allows(&budget, buyer(number - 1000), now_ms);
    }
}

/* For `SECONDS`: 40,000 forged tokens a second from so many addresses in turn, and one honest buyer in
 * each millisecond. */
static struct flood run_flood(uint32_t attackers)
{
    struct flood flood = {0};
    uint64_t sent = 0;
    for (int64_t second = 0; second < SECONDS; second++) {
        uint64_t before = flood.checked;
        for (int64_t ms = second * 1000; ms < (second + 1) * 1000; ms++) {
            for (int i = 0; i < FORGED_PER_MS; i++) {
                struct net_address from = address(10, (uint32_t)(sent++ % attackers));
                if (check_budget_allows(&budget, from, START_MS + ms)) {
                    check_budget_failed(&budget, from, START_MS + ms);
                    flood.checked++;
                }
                if (i == FORGED_PER_MS / 2) {
                    honest_buyers(&flood, ms, START_MS + ms);
                }
            }
        }
        uint64_t in_1_s = flood.checked - before;
        flood.most_in_1_s = in_1_s > flood.most_in_1_s ? in_1_s : flood.most_in_1_s;
    }
    return flood;
}

/* One address gets an eighth of CHECK_ADDRESS_MAX a second in the long run. */
static void one_address_is_limited_and_nobody_else_is(void **state)
{
    (void)state;
    struct flood flood = run_flood(1);
    assert_int_equal(flood.checked, 9250); /* of 1,200,000 */
    assert_int_equal(flood.most_in_1_s, 2000);
    assert_int_equal(flood.passed, flood.honest);
    /* Buyers on the attacker's address are limited with it until the flood is forgotten. */
    assert_false(check_budget_allows(&budget, address(10, 0), START_MS + SECONDS * 1000));
    assert_true(check_budget_allows(&budget, address(10, 0), START_MS + SECONDS * 1000 + 1024));
}

static void many_addresses_share_a_fifth_of_a_core(void **state)
{
    (void)state;
    static const struct {
        uint32_t attackers;
        uint64_t checked, passed, passed_later, again, passed_again;
    } floods[] = {
        {100, 120245, 30000, 29000, 0, 0},
        {1000, 120350, 29986, 29000, 14, 14},
        {4000, 120375, 29910, 28999, 90, 89},
    };
    for (size_t i = 0; i < sizeof(floods) / sizeof(floods[0]); i++) {
        (void)set_up(state);
        struct flood flood = run_flood(floods[i].attackers);
        assert_int_equal(flood.checked, floods[i].checked);
        assert_true(flood.most_in_1_s <= CHECK_LOOP_PER_S + CHECK_LOOP_BURST);
        assert_true(flood.passed * 100 >= flood.honest * 99);
        assert_int_equal(flood.passed, floods[i].passed);
        assert_int_equal(flood.passed_later, floods[i].passed_later);
        assert_int_equal(flood.again, floods[i].again);
        assert_int_equal(flood.passed_again, floods[i].passed_again);
    }
}

/* More addresses than the loop can check once a second: those whose tokens were turned away are known
 * all the same, and new clients come before them. */
static void more_addresses_than_checks_come_after_new_clients(void **state)
{
    (void)state;
    struct flood flood = run_flood(20000);
    assert_true(flood.checked <= (uint64_t)SECONDS * CHECK_LOOP_PER_S + CHECK_LOOP_BURST);
    assert_int_equal(flood.passed, 29419); /* 98.1 % */
    assert_int_equal(flood.passed_later, 28914);
}

/* Tokens that are turned away count for half a failure in all, however many they are. */
static void what_is_turned_away_is_forgotten_soon(void **state)
{
    (void)state;
    struct net_address client = address(10, 1);
    for (uint32_t i = 0; i < CHECK_LOOP_BURST; i++) { /* others use up the budget */
        check_budget_failed(&budget, address(30, i), START_MS);
    }
    for (uint32_t i = 0; i < 100000; i++) {
        assert_false(check_budget_allows(&budget, client, START_MS));
    }
    assert_false(check_budget_allows(&budget, client, START_MS + 1));
    assert_true(check_budget_allows(&budget, address(20, 1), START_MS + 1));
    assert_true(check_budget_allows(&budget, client, START_MS + 2)); /* 8 checks of 400 are free */
}

/* How many failures of this client are checked at this time. */
static uint32_t failures(struct net_address client, int64_t now_ms)
{
    uint32_t n = 0;
    while (check_budget_allows(&budget, client, now_ms)) {
        check_budget_failed(&budget, client, now_ms);
        assert_true(n++ < CHECK_LOOP_BURST);
    }
    return n;
}

static void failures_are_forgotten_with_time(void **state)
{
    (void)state;
    struct net_address client = address(10, 1);
    assert_int_equal(failures(client, START_MS), 257);
    assert_int_equal(failures(client, START_MS), 0);
    /* A second later the loop has its whole budget again. The address has lost only an eighth of its
     * count, so it gets less. */
    assert_int_equal(failures(client, START_MS + 1024), 213);
    assert_int_equal(failures(client, START_MS + 1024 + 64 * CHECK_DECAY_MS), 257);
    assert_int_equal(failures(client, START_MS + ((int64_t)1 << 33)), 257); /* 99 days later */
}

static void the_loop_never_gives_more_than_its_burst_at_once(void **state)
{
    (void)state;
    uint32_t all = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        all += failures(address(10, i), START_MS);
    }
    assert_int_equal(all, CHECK_LOOP_BURST);
    assert_false(check_budget_allows(&budget, address(20, 1), START_MS));
    assert_true(check_budget_allows(&budget, address(20, 1), START_MS + 1));
}

static void an_ipv6_network_is_one_client(void **state)
{
    (void)state;
    struct net_address one = {.family = 6, .bytes = {0x20, 1, 0x0d, 0xb8, 0, 0, 0, 1, 1}};
    struct net_address same = one;
    struct net_address other = one;
    memset(same.bytes + 8, 0xee, 8);
    other.bytes[7] = 2;
    (void)failures(one, START_MS);
    assert_false(check_budget_allows(&budget, same, START_MS));
    assert_true(check_budget_allows(&budget, other, START_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_address_is_limited_and_nobody_else_is, set_up),
        cmocka_unit_test_setup(many_addresses_share_a_fifth_of_a_core, set_up),
        cmocka_unit_test_setup(more_addresses_than_checks_come_after_new_clients, set_up),
        cmocka_unit_test_setup(what_is_turned_away_is_forgotten_soon, set_up),
        cmocka_unit_test_setup(failures_are_forgotten_with_time, set_up),
        cmocka_unit_test_setup(the_loop_never_gives_more_than_its_burst_at_once, set_up),
        cmocka_unit_test_setup(an_ipv6_network_is_one_client, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
