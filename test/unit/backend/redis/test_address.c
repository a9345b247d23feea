/* Where Redis is: URLs that are right, URLs that are refused; tags and slots of segments; and what
 * errors say, of the call and of where to go instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backend/redis/address.h"
#include "backend/redis/errors.h"
#include "backend/redis/slot.h"
#include "base/err.h"
#include "port/segments.h"

static void urls_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        struct redis_address expected;
    } rows[] = {
        {"redis://r.example",
         {.kind = REDIS_SINGLE, .seed_count = 1, .seeds = {{"r.example", 6379}}}},
        {"redis://127.0.0.1:7000/",
         {.kind = REDIS_SINGLE, .seed_count = 1, .seeds = {{"127.0.0.1", 7000}}}},
        {"redis://shop:p%40ss@[::1]:7000",
         {.kind = REDIS_SINGLE,
          .user = "shop",
          .password = "p@ss",
          .seed_count = 1,
          .seeds = {{"::1", 7000}}}},
        {"redis://:a:b@c@h", /* no user; the last @ ends the login */
         {.kind = REDIS_SINGLE, .password = "a:b@c", .seed_count = 1, .seeds = {{"h", 6379}}}},
        {"sentinel://a,b:1,[::2]:3/my%2fshop",
         {.kind = REDIS_SENTINEL,
          .master = "my/shop",
          .seed_count = 3,
          .seeds = {{"a", 26379}, {"b", 1}, {"::2", 3}}}},
        {"cluster://u@a:1,b",
         {.kind = REDIS_CLUSTER, .user = "u", .seed_count = 2, .seeds = {{"a", 1}, {"b", 6379}}}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_address a;
        char error[512] = "";
        if (redis_address_parse(rows[i].url, &a, error, sizeof(error)) != 0) {
            fail_msg("%s: %s", rows[i].url, error);
        }
        assert_int_equal(rows[i].expected.kind, a.kind);
        assert_string_equal(rows[i].expected.user, a.user);
        assert_string_equal(rows[i].expected.password, a.password);
        assert_string_equal(rows[i].expected.master, a.master);
        assert_int_equal(rows[i].expected.seed_count, a.seed_count);
        for (uint32_t k = 0; k < a.seed_count; k++) {
            assert_string_equal(rows[i].expected.seeds[k].host, a.seeds[k].host);
            assert_int_equal(rows[i].expected.seeds[k].port, a.seeds[k].port);
        }
    }
}

static void wrong_urls_are_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "",
        "redis:/h",
        "rediss://h",
        "http://h",
        "redis://",
        "redis://h:0",
        "redis://h:65536",
        "redis://h:",
        "redis://h,i",
        "redis://h/1",
        "redis://@h",
        "redis://u:%zz@h",
        "redis://:%zz@h",
        "redis://[::1",
        "sentinel://a:1",
        "sentinel://a:1/",
        "sentinel:///shop",
        "sentinel://a:1,/shop",
        "cluster://a:1,,b:2",
        "cluster://a:1/x",
        "cluster://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
    };
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct redis_address a = {.seed_count = 77};
        char error[512] = "";
        if (redis_address_parse(urls[i], &a, error, sizeof(error)) != ERR_INVALID) {
            fail_msg("%s was taken", urls[i]);
        }
        assert_non_null(strstr(error, "Redis's URL is not "));
        assert_int_equal(77, a.seed_count);
    }
    struct redis_address a;
    char error[512] = "";
    assert_int_equal(ERR_INVALID, redis_address_parse("redis://u:hunter2@h:x", &a, error, 512));
    assert_null(strstr(error, "hunter2"));
}

/* As the manual of Redis Cluster has it, and `CLUSTER KEYSLOT`. */
static void slots_are_those_of_redis(void **state)
{
    (void)state;
    assert_int_equal(0x31c3, slot_of(span_of("123456789")));
    assert_int_equal(12182, slot_of(span_of("foo")));
    assert_int_equal(5061, slot_of(span_of("bar")));
    assert_int_equal(0, slot_of(span_of("")));
    assert_int_equal(13907, slot_of(span_of("0")));
}

/* Which of `masters` has the slot, where redis-cli has dealt them out. */
static uint32_t master_of(uint32_t slot, uint32_t masters)
{
    double each = (double)REDIS_SLOTS / masters;
    for (uint32_t i = 0; i < masters - 1; i++) {
        if (slot < (uint32_t)(each * (i + 1) + 0.5)) {
            return i;
        }
    }
    return masters - 1;
}

static void every_master_has_a_segment(void **state)
{
    (void)state;
    for (uint32_t masters = 1; masters <= SEGMENTS_MAX; masters++) {
        uint32_t segments[SEGMENTS_MAX] = {0};
        uint32_t most = 0;
        for (uint32_t i = 0; i < masters; i++) {
            uint32_t *count = &segments[master_of(slot_of(span_of(slot_tag(i))), masters)];
            ++*count;
            most = *count > most ? *count : most;
        }
        assert_in_range(most, 1, masters <= 17 ? 1 : 2);
    }
}

static void a_tag_names_its_segment(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SEGMENTS_MAX; i++) {
        char number[8];
        const char *tag = slot_tag(i);
        int len = snprintf(number, sizeof(number), "%u", i);
        assert_int_equal(0, strncmp(tag, number, (size_t)len));
        for (const char *c = tag + len; *c != '\0'; c++) {
            assert_in_range(*c, 'a', 'z');
        }
    }
    assert_string_equal("0", slot_tag(0));
}

static void errors_say_whether_anything_ran(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct redis_error expected;
    } rows[] = {
        {"LOADING Redis is loading the dataset in memory", {REDIS_NOT_ASKED, true, false}},
        {"READONLY You can't write against a read only replica.", {REDIS_NOT_ASKED, true, true}},
        {"MASTERDOWN Link with MASTER is down", {REDIS_NOT_ASKED, true, false}},
        {"CLUSTERDOWN Hash slot not served", {REDIS_NOT_ASKED, true, false}},
        {"MOVED 3999 127.0.0.1:6381", {REDIS_NOT_ASKED, true, false}},
        {"ASK 3999 127.0.0.1:6381", {REDIS_NOT_ASKED, false, false}},
        {"TRYAGAIN Multiple keys request during rehashing", {REDIS_NOT_ASKED, false, false}},
        {"NOAUTH Authentication required.", {REDIS_NOT_ASKED, false, true}},
        {"BROKEN order X has no units to move", {REDIS_BROKEN, false, false}},
        {"ERR Error running script: Script attempted to access a non local key in a cluster node",
         {REDIS_BROKEN, false, false}},
        {"ERR something else", {REDIS_NOT_KNOWN, false, false}},
        {"", {REDIS_NOT_KNOWN, false, false}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_error found = error_read(span_of(rows[i].text));
        if (found.outcome != rows[i].expected.outcome ||
            found.suspect != rows[i].expected.suspect ||
            found.useless != rows[i].expected.useless) {
            fail_msg("%s: %d %d %d", rows[i].text, (int)found.outcome, found.suspect,
                     found.useless);
        }
    }
}

static void redirections_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct redis_redirect expected;
    } rows[] = {
        {"MOVED 3999 127.0.0.1:6381", {.slot = 3999, .host = "127.0.0.1", .port = 6381}},
        {"ASK 0 ::1:65535", {.request = true, .slot = 0, .host = "::1", .port = 65535}},
        {"MOVED 16383 r.example:1", {.slot = 16383, .host = "r.example", .port = 1}},
        {"MOVED 1 :7000", {.slot = 1, .host = "own", .port = 7000}},
    };
    static const char *const wrong[] = {"MOVED",
                                        "MOVED 1",
                                        "MOVED 1 ",
                                        "MOVED 1 a",
                                        "MOVED 1 a:",
                                        "MOVED 1 a:0",
                                        "MOVED 1 a:65536",
                                        "MOVED x a:1",
                                        "MOVED  a:1",
                                        "TRYAGAIN 1 a:1",
                                        ""};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_redirect to;
        assert_true(error_redirect(span_of(rows[i].text), "own", &to));
        assert_int_equal(rows[i].expected.request, to.request);
        assert_int_equal(rows[i].expected.slot, to.slot);
        assert_string_equal(rows[i].expected.host, to.host);
        assert_int_equal(rows[i].expected.port, to.port);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct redis_redirect to;
        assert_false(error_redirect(span_of(wrong[i]), "own", &to));
    }
    char longest[400] = "MOVED 1 ";
    struct redis_redirect to;
    memset(longest + 8, 'a', 300);
    memcpy(longest + 308, ":1", 3);
    assert_false(error_redirect(span_of(longest), "own", &to));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_read),
        cmocka_unit_test(wrong_urls_are_refused),
        cmocka_unit_test(slots_are_those_of_redis),
        cmocka_unit_test(every_master_has_a_segment),
        cmocka_unit_test(a_tag_names_its_segment),
        cmocka_unit_test(errors_say_whether_anything_ran),
        cmocka_unit_test(redirections_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
