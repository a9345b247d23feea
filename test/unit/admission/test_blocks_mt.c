/*
 * Blocks in memory: who is blocked by what, when a block ends, what a whole reading drops, a full table,
 * random changes beside a plain list, and readers that look while blocks come and go.
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

#include "admission/blocks.h"
#include "base/crypt.h"
#include "base/prng.h"

#define NOW 1800000000000LL

static struct block_row row_of(enum block_kind kind, const char *value, int64_t until_ms)
{
    struct block_row row = {.kind = kind, .until_ms = until_ms, .at_ms = NOW, .number = 1};
    const char *why = block_value_read(kind, span_of(value), row.value);
    if (why != NULL) {
        fail_msg("%s: %s", value, why);
    }
    return row;
}

static bool put(struct blocks *blocks, enum block_kind kind, const char *value, int64_t until_ms,
                int64_t now_ms)
{
    struct block_row row = row_of(kind, value, until_ms);
    return blocks->sink.ops->put(&blocks->sink, &row, now_ms);
}

static uint32_t count(const struct blocks *blocks)
{
    return atomic_load(&blocks->count);
}

static bool has_address(const struct blocks *blocks, const char *text, int64_t now_ms)
{
    struct block_subject subject = {.user = 0};
    assert_int_equal(net_address_parse(span_of(text), &subject.address), 0);
    return blocks_match(blocks, &subject, now_ms);
}

static bool has_user(const struct blocks *blocks, uint64_t user, int64_t now_ms)
{
    return blocks_match(blocks, &(struct block_subject){.user = user}, now_ms);
}

static bool has_device(const struct blocks *blocks, const char *device, int64_t now_ms)
{
    return blocks_match(blocks, &(struct block_subject){.device = span_of(device)}, now_ms);
}

static void each_kind_blocks_its_own(void **state)
{
    (void)state;
    struct blocks *blocks = blocks_new();
    assert_true(blocks_are_none(blocks));
    assert_false(has_user(blocks, 7, NOW));
    assert_true(put(blocks, BLOCK_USER, "7", 0, NOW));
    assert_true(put(blocks, BLOCK_DEVICE, "7", 0, NOW));
    assert_true(put(blocks, BLOCK_DEVICE, "phone", 0, NOW));
    assert_false(blocks_ask_address(blocks));
    assert_true(put(blocks, BLOCK_ADDRESS, "10.0.0.0/8", 0, NOW));
    assert_true(blocks_ask_address(blocks));
    assert_int_equal(count(blocks), 4);
    assert_true(has_user(blocks, 7, NOW));
    assert_false(has_user(blocks, 70, NOW));
    assert_false(has_user(blocks, 0, NOW));
    assert_true(has_device(blocks, "7", NOW));
    assert_true(has_device(blocks, "phone", NOW));
    assert_false(has_device(blocks, "phon", NOW));
    assert_false(has_device(blocks, "", NOW));
    struct block_subject both = {.user = 8, .device = span_of("tablet")};
    assert_false(blocks_match(blocks, &both, NOW));
    assert_int_equal(net_address_parse(span_of("10.1.2.3"), &both.address), 0);
    assert_true(blocks_match(blocks, &both, NOW)); /* one of them is enough */
    blocks_free(blocks);
}

static void any_prefix_blocks(void **state)
{
    (void)state;
    static const struct {
        const char *network, *inside, *outside;
    } cases[] = {
        {"192.0.2.7", "192.0.2.7", "192.0.2.6"},
        {"192.0.2.6/31", "192.0.2.7", "192.0.2.8"},
        {"203.0.113.128/25", "203.0.113.255", "203.0.113.127"},
        {"172.16.0.0/12", "172.31.255.255", "172.32.0.0"},
        {"128.0.0.0/1", "200.0.0.1", "100.0.0.1"},
        {"2001:db8::1", "2001:db8::1", "2001:db8::2"},
        {"2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"},
        {"2001:db8:0:8000::/49", "2001:db8:0:8001::1", "2001:db8:0:7fff::1"},
        {"2001:db8::/65", "2001:db8::7fff:0:0:1", "2001:db8::8000:0:0:1"},
        {"::/0", "fe80::1", "10.0.0.1"},
        {"0.0.0.0/0", "255.255.255.255", "::1"},
    };
    enum { CASES = sizeof(cases) / sizeof(cases[0]) };
    struct blocks *blocks = blocks_new();
    for (int i = 0; i < CASES; i++) {
        assert_true(put(blocks, BLOCK_ADDRESS, cases[i].network, 0, NOW));
        if (!has_address(blocks, cases[i].inside, NOW) ||
            has_address(blocks, cases[i].outside, NOW)) {
            fail_msg("%s", cases[i].network);
        }
        assert_true(put(blocks, BLOCK_ADDRESS, cases[i].network, BLOCK_REMOVED, NOW));
        assert_false(has_address(blocks, cases[i].inside, NOW));
        assert_false(blocks_ask_address(blocks));
    }
    /* Two of one length: the length stays in use until the second is gone. */
    assert_true(put(blocks, BLOCK_ADDRESS, "10.0.0.0/8", 0, NOW));
    assert_true(put(blocks, BLOCK_ADDRESS, "11.0.0.0/8", 0, NOW));
    assert_true(put(blocks, BLOCK_ADDRESS, "10.0.0.0/8", BLOCK_REMOVED, NOW));
    assert_true(has_address(blocks, "11.1.1.1", NOW));
    assert_false(has_address(blocks, "10.1.1.1", NOW));
    blocks_free(blocks);
}

static void a_block_ends(void **state)
{
    (void)state;
    struct blocks *blocks = blocks_new();
    assert_true(put(blocks, BLOCK_USER, "7", NOW + 1000, NOW));
    assert_true(put(blocks, BLOCK_USER, "8", 0, NOW));
    assert_true(has_user(blocks, 7, NOW + 999));
    assert_false(has_user(blocks, 7, NOW + 1000)); /* also before it is dropped */
    assert_int_equal(count(blocks), 2);
    blocks->sink.ops->end(&blocks->sink, NOW + 999);
    assert_int_equal(count(blocks), 2);
    blocks->sink.ops->end(&blocks->sink, NOW + 1000);
    assert_int_equal(count(blocks), 1);
    assert_true(has_user(blocks, 8, NOW + 1000));
    /* Read when it has ended: it is not even taken. */
    assert_true(put(blocks, BLOCK_USER, "9", NOW + 5, NOW + 5));
    assert_int_equal(count(blocks), 1);
    /* Changed to a later end, and to an earlier one. */
    assert_true(put(blocks, BLOCK_USER, "8", NOW + 2000, NOW));
    assert_true(put(blocks, BLOCK_USER, "8", NOW + 3000, NOW));
    assert_true(has_user(blocks, 8, NOW + 2999));
    assert_true(put(blocks, BLOCK_USER, "8", NOW + 1500, NOW));
    assert_false(has_user(blocks, 8, NOW + 1500));
    assert_int_equal(count(blocks), 1);
    blocks_free(blocks);
}

static void a_whole_reading_drops_what_it_lacks(void **state)
{
    (void)state;
    struct blocks *blocks = blocks_new();
    struct block_sink *sink = &blocks->sink;
    sink->ops->begin(sink);
    assert_true(put(blocks, BLOCK_USER, "1", 0, NOW));
    assert_true(put(blocks, BLOCK_USER, "2", 0, NOW));
    assert_true(put(blocks, BLOCK_ADDRESS, "10.0.0.0/8", 0, NOW));
    sink->ops->end(sink, NOW);
    sink->ops->end(sink, NOW); /* not after a reading: nothing is dropped */
    assert_int_equal(count(blocks), 3);
    sink->ops->begin(sink);
    assert_true(has_user(blocks, 1, NOW)); /* all stand meanwhile */
    assert_true(put(blocks, BLOCK_USER, "2", 0, NOW));
    assert_true(has_user(blocks, 1, NOW));
    sink->ops->end(sink, NOW);
    assert_false(has_user(blocks, 1, NOW));
    assert_true(has_user(blocks, 2, NOW));
    assert_false(has_address(blocks, "10.0.0.1", NOW));
    assert_int_equal(count(blocks), 1);
    blocks_free(blocks);
}

static void a_full_table_says_so(void **state)
{
    (void)state;
    struct blocks *blocks = blocks_new();
    char user[24];
    uint32_t room = BLOCKS_MAX + BLOCKS_MAX / 2;
    for (uint32_t i = 1; i <= room; i++) {
        (void)snprintf(user, sizeof(user), "%u", i);
        assert_true(put(blocks, BLOCK_USER, user, i % 2 == 0 ? NOW + 1 : 0, NOW));
    }
    assert_false(put(blocks, BLOCK_USER, "9999999", 0, NOW));
    assert_true(put(blocks, BLOCK_USER, "1", NOW + 7, NOW)); /* one that is there changes */
    for (uint32_t i = 1; i <= room; i++) {
        assert_true(has_user(blocks, i, NOW));
    }
    blocks->sink.ops->end(&blocks->sink, NOW + 1);
    assert_int_equal(count(blocks), room / 2);
    for (uint32_t i = 1; i <= room; i++) {
        assert_int_equal(has_user(blocks, i, NOW + 1), i % 2);
    }
    assert_true(put(blocks, BLOCK_USER, "9999999", 0, NOW));
    blocks_free(blocks);
}

/* Random changes of few users, so that searches run into each other. */
static void random_changes_are_those_of_a_list(void **state)
{
    enum { USERS = 3000, STEPS = 40000 };
    (void)state;
    static int64_t until[USERS];               /* 0: not blocked */
    const char *given = getenv("SLUICE_SEED"); /* NOLINT(concurrency-mt-unsafe): nobody sets it */
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 20260731;
    struct prng prng = prng_of(seed);
    struct blocks *blocks = blocks_new();
    int64_t now_ms = NOW;
    for (int step = 0; step < STEPS; step++) {
        uint32_t user = (uint32_t)prng_below(&prng, USERS);
        uint32_t what = (uint32_t)prng_below(&prng, 8);
        char text[24];
        (void)snprintf(text, sizeof(text), "%u", user + 1);
        until[user] = what < 2   ? 0
                      : what < 4 ? INT64_MAX
                                 : now_ms + (int64_t)prng_below(&prng, 5000);
        assert_true(put(blocks, BLOCK_USER, text,
                        what < 2   ? BLOCK_REMOVED
                        : what < 4 ? 0
                                   : until[user],
                        now_ms));
        now_ms += (int64_t)prng_below(&prng, 3);
        if (step % 500 == 0) {
            blocks->sink.ops->end(&blocks->sink, now_ms);
            uint32_t standing = 0;
            for (uint32_t i = 0; i < USERS; i++) {
                standing += until[i] > now_ms;
                if (has_user(blocks, i + 1, now_ms) != (until[i] > now_ms)) {
                    fail_msg("seed %llu, step %d, user %u", (unsigned long long)seed, step, i + 1);
                }
            }
            assert_int_equal(count(blocks), standing);
        }
    }
    blocks_free(blocks);
}

/* ---- threads ---- */

/* Users 1 to STANDING are blocked all the time, GUESTS more come and go: so many that searches run into each
 * other, and slots move while readers look. */
#define STANDING 50000
#define GUESTS 20000
#define LOOKS_LEAST 200000

struct race {
    struct blocks *blocks;
    _Atomic bool over;
    _Atomic bool wrong;
    _Atomic uint64_t looks;
};

static void *look(void *context)
{
    struct race *race = context;
    for (uint64_t looks = 0; !atomic_load(&race->over); looks++) {
        uint64_t user = looks * 7919 % STANDING + 1;
        struct block_subject stranger = {.user = 1000000 + looks};
        (void)net_address_parse(span_of("11.0.0.1"), &stranger.address);
        if (!has_user(race->blocks, user, NOW) || !has_address(race->blocks, "10.0.0.1", NOW) ||
            blocks_match(race->blocks, &stranger, NOW)) {
            atomic_store(&race->wrong, true);
        }
        atomic_fetch_add(&race->looks, 1);
    }
    return NULL;
}

static void readers_miss_nothing_while_others_come_and_go(void **state)
{
    (void)state;
    struct race race = {.blocks = blocks_new()};
    pthread_t readers[2];
    char user[24];
    assert_true(put(race.blocks, BLOCK_ADDRESS, "10.0.0.0/8", 0, NOW));
    for (uint32_t i = 1; i <= STANDING; i++) {
        (void)snprintf(user, sizeof(user), "%u", i);
        assert_true(put(race.blocks, BLOCK_USER, user, 0, NOW));
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&readers[i], NULL, look, &race), 0);
    }
    for (uint32_t round = 0; round < 10 || atomic_load(&race.looks) < LOOKS_LEAST; round++) {
        for (uint32_t i = 1; i <= GUESTS; i++) {
            (void)snprintf(user, sizeof(user), "%u", STANDING + i);
            assert_true(
                put(race.blocks, BLOCK_USER, user, round % 2 == 0 ? 0 : BLOCK_REMOVED, NOW));
        }
        (void)snprintf(user, sizeof(user), "10.0.%u.0/24", round % 256);
        assert_true(put(race.blocks, BLOCK_ADDRESS, user, round % 2 == 0 ? NOW + 1 : 0, NOW));
        race.blocks->sink.ops->end(&race.blocks->sink, NOW + 1);
    }
    atomic_store(&race.over, true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    }
    assert_false(atomic_load(&race.wrong));
    blocks_free(race.blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_blocks_its_own),
        cmocka_unit_test(any_prefix_blocks),
        cmocka_unit_test(a_block_ends),
        cmocka_unit_test(a_whole_reading_drops_what_it_lacks),
        cmocka_unit_test(a_full_table_says_so),
        cmocka_unit_test(random_changes_are_those_of_a_list),
        cmocka_unit_test(readers_miss_nothing_while_others_come_and_go),
    };
    assert_int_equal(crypt_start(), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
