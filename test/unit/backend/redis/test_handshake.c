/* The steps of the handshake and what each answer means; no server is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backend/redis/handshake.h"

#define RUN_ID "0123456789012345678901234567890123456789"
#define MASTER "# Server\r\nrun_id:" RUN_ID "\r\nrole:master\r\n"

static struct handshake_server server;

static const char *answer(enum handshake_step step, int type, const char *text)
{
    char copy[512];
    (void)snprintf(copy, sizeof(copy), "%s", text);
    redisReply reply = {.type = type, .str = copy, .len = strlen(copy)};
    const char *trouble = handshake_answer(step, &reply, &server);
    /* The text of an error is the reply's own. */
    return trouble == copy ? text : trouble;
}

static void assert_words(enum handshake_step step, struct handshake_login login,
                         const char *expected)
{
    struct redis_scripts scripts = {.texts = {[0] = {"return 1", 8}}};
    struct handshake_command command;
    char text[256] = "";
    if (handshake_command(step, &login, &scripts, &command)) {
        for (int i = 0; i < command.count; i++) {
            size_t len = strlen(text);
            (void)snprintf(text + len, sizeof(text) - len, "%s%.*s", i > 0 ? "|" : "",
                           (int)command.lens[i], command.words[i]);
        }
    }
    assert_string_equal(expected, text);
}

static void commands(void **state)
{
    (void)state;
    assert_words(HANDSHAKE_AUTH, (struct handshake_login){NULL, NULL}, "");
    assert_words(HANDSHAKE_AUTH, (struct handshake_login){"anna", NULL}, "");
    assert_words(HANDSHAKE_AUTH, (struct handshake_login){NULL, "a b"}, "AUTH|a b");
    assert_words(HANDSHAKE_AUTH, (struct handshake_login){"anna", "x"}, "AUTH|anna|x");
    assert_words(HANDSHAKE_INFO, (struct handshake_login){NULL, NULL}, "INFO");
    assert_words(HANDSHAKE_LOAD, (struct handshake_login){NULL, NULL}, "SCRIPT|LOAD|return 1");
}

static void a_server_that_may_decide(void **state)
{
    (void)state;
    assert_null(answer(HANDSHAKE_AUTH, REDIS_REPLY_STATUS, "OK"));
    assert_null(answer(HANDSHAKE_INFO, REDIS_REPLY_STRING, MASTER "maxmemory:0\r\n"));
    assert_memory_equal(RUN_ID, server.run_id, REDIS_RUN_ID);
    assert_null(answer(HANDSHAKE_INFO, REDIS_REPLY_STRING,
                       MASTER "maxmemory:9\r\nmaxmemory_policy:noeviction\r\n"));
    assert_null(answer(HANDSHAKE_END - 1, REDIS_REPLY_STRING, RUN_ID));
    assert_memory_equal(RUN_ID, server.sha[SCRIPT_COUNT - 1], REDIS_SHA);
}

static void a_server_that_may_not(void **state)
{
    (void)state;
    assert_string_equal("WRONGPASS no", answer(HANDSHAKE_AUTH, REDIS_REPLY_ERROR, "WRONGPASS no"));
    assert_string_equal("NOAUTH no", answer(HANDSHAKE_INFO, REDIS_REPLY_ERROR, "NOAUTH no"));
    assert_string_equal("the server tells no run id",
                        answer(HANDSHAKE_INFO, REDIS_REPLY_STRING, "role:master\r\n"));
    assert_string_equal("the server is a replica", answer(HANDSHAKE_INFO, REDIS_REPLY_STRING,
                                                          "run_id:" RUN_ID "\r\nrole:slave\r\n"));
    assert_string_equal("the server may evict keys (maxmemory-policy is not noeviction)",
                        answer(HANDSHAKE_INFO, REDIS_REPLY_STRING,
                               MASTER "maxmemory:9\r\nmaxmemory_policy:allkeys-lru\r\n"));
    assert_string_equal("not the answer of a Redis server",
                        answer(HANDSHAKE_LOAD, REDIS_REPLY_STRING, "short"));
    assert_string_equal("not the answer of a Redis server",
                        answer(HANDSHAKE_LOAD, REDIS_REPLY_STATUS, RUN_ID));
}

/* A name counts only at the beginning of a line. */
static void values_of_info(void **state)
{
    (void)state;
    struct span info = span_of("# x\r\nmy_role:a\r\nrole:b\r\nlast:");
    assert_true(span_is(info_value(info, "role:"), "b"));
    assert_true(span_is(info_value(info, "my_role:"), "a"));
    assert_int_equal(0, info_value(info, "last:").len);
    assert_int_equal(0, info_value(info, "none:").len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands),
        cmocka_unit_test(a_server_that_may_decide),
        cmocka_unit_test(a_server_that_may_not),
        cmocka_unit_test(values_of_info),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
