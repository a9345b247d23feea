/*
 * The configuration: defaults, file, command line, in that order; and every wrong value refused
 * with its place. Given a file and options, when they are loaded, then this is the value or the
 * message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "app/config.h"
#include "app/config_value.h"
#include "base/err.h"

static char path[64];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof(path), "/tmp/sluice-config-XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_bytes(const char *bytes, size_t len)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void write_file(const char *text)
{
    write_bytes(text, strlen(text));
}

static struct config loaded(const char *text)
{
    struct config config;
    char error[CONFIG_ERROR_MAX] = "";
    write_file(text);
    const struct config_options options = {.file = path};
    if (config_load(&options, &config, error, sizeof(error)) != 0) {
        fail_msg("%s", error);
    }
    return config;
}

/* `place` is what comes behind the path: ":LINE: ...", compared as a beginning. */
static void refused(const char *text, const char *place)
{
    struct config config;
    char error[CONFIG_ERROR_MAX] = "";
    char wanted[CONFIG_ERROR_MAX];
    write_file(text);
    const struct config_options options = {.file = path};
    assert_int_not_equal(config_load(&options, &config, error, sizeof(error)), 0);
    (void)snprintf(wanted, sizeof(wanted), "%s%s", path, place);
    if (strncmp(error, wanted, strlen(wanted)) != 0) {
        fail_msg("wanted %s\n   got %s", wanted, error);
    }
}

static int set_one(const char *text, struct config *ret_config, char *ret_error)
{
    struct config_override override = {.option = "--set", .value = text};
    const struct config_options options = {.overrides = &override, .overrides_count = 1};
    return config_load(&options, ret_config, ret_error, CONFIG_ERROR_MAX);
}

static void set_refused(const char *text, const char *wanted)
{
    struct config config;
    char error[CONFIG_ERROR_MAX] = "";
    assert_int_not_equal(set_one(text, &config, error), 0);
    if (strncmp(error, wanted, strlen(wanted)) != 0) {
        fail_msg("wanted %s\n   got %s", wanted, error);
    }
}

static void nothing_given_gives_the_defaults(void **state)
{
    (void)state;
    const struct config_options none = {0};
    struct config config;
    char error[CONFIG_ERROR_MAX];
    assert_int_equal(config_load(&none, &config, error, sizeof(error)), 0);
    assert_string_equal(config.server_listen, "127.0.0.1:8080");
    assert_string_equal(config.server_private_listen, "");
    assert_int_equal(config.server_threads, 0);
    assert_int_equal(config.gate_orders, GATE_ORDERS_DEFAULT);
    assert_string_equal(config.data_dir, "./var");
    assert_int_equal(config.ticket_window_s, 60);
    assert_string_equal(config.log_level, "info");
}

static void every_default_is_a_value_its_own_row_accepts(void **state)
{
    (void)state;
    struct config config;
    char error[CONFIG_ERROR_MAX];
    for (size_t i = 0; i < config_settings_count; i++) {
        const struct config_setting *setting = &config_settings[i];
        char number[32];
        (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)setting->number);
        const char *value = setting->kind == CONFIG_NUMBER ? number
                            : setting->kind == CONFIG_FLAG
                                ? (setting->number != 0 ? "true" : "false")
                                : setting->text;
        assert_int_equal(config_set(&config, setting, value, error, sizeof(error)), 0);
        assert_true(strlen(setting->help) > 10);
        assert_ptr_equal(config_find(span_of(setting->section), span_of(setting->name)), setting);
    }
}

static void the_command_line_wins_over_the_file(void **state)
{
    (void)state;
    write_file("server { threads = 3 \n listen = \"127.0.0.1:1\" }\nticket { ttl_s = 7 }\n");
    struct config_override overrides[] = {
        {.option = "--listen", .key = "server.listen", .value = "[::1]:0"},
        {.option = "--set", .value = "server.threads=5"},
        {.option = "--set", .value = "server.threads=6"},
        {.option = "--set", .value = "page.login_url=/login?a=b"},
    };
    const struct config_options options = {
        .file = path, .overrides = overrides, .overrides_count = 4};
    struct config config;
    char error[CONFIG_ERROR_MAX];
    assert_int_equal(config_load(&options, &config, error, sizeof(error)), 0);
    assert_string_equal(config.server_listen, "[::1]:0");
    assert_int_equal(config.server_threads, 6);
    assert_int_equal(config.ticket_ttl_s, 7);
    assert_string_equal(config.page_login_url, "/login?a=b");
}

static void a_file_may_have_comments_quotes_and_variables(void **state)
{
    (void)state;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads */
    assert_int_equal(setenv("SLUICE_TEST_DIR", "/somewhere", 1), 0);
    struct config config = loaded(
        "# one { \" '\n// two {\n/* three {\n */ data { dir = \"${SLUICE_TEST_DIR}/x # y\" }\n"
        "cors { origins = 'https://a.example, http://b.example:81 *' } # four\n"
        "page { login_url = https://shop.example/login }\n"
        "server { threads = 2 // five\n}\nserver { drain_ms = 9 }\n");
    assert_string_equal(config.data_dir, "/somewhere/x # y");
    assert_string_equal(config.cors_origins, "https://a.example, http://b.example:81 *");
    assert_string_equal(config.page_login_url, "https://shop.example/login");
    assert_int_equal(config.server_threads, 2);
    assert_int_equal(config.server_drain_ms, 9);
    (void)loaded("");
    (void)loaded("\n#");
}

static void what_is_wrong_is_told_with_its_line(void **state)
{
    (void)state;
    refused("# a\n# b\nserver {\n  # c\n  threads = 65\n}\n",
            ":5: server.threads: must be a whole number from 0 to 64, not \"65\"");
    refused("server {\n\n threads = x\n}\n", ":3: server.threads: must be a whole number");
    refused("server {\n listen = \"127.0.0.1:1\"// it's here\n threads = x\n}\n",
            ":3: server.threads: must be");
    refused("data { dir = 'a'/* \n */}\nserver *// {", ":3: ");
    refused("server {\n threads = -1\n}\n", ":2: server.threads: must be");
    refused("ticket {\n ttl_s = 1.5\n}\n", ":2: ticket.ttl_s: must be");
    refused("/* a\n b */\nserver {\n thraeds = 1\n}\n",
            ":4: server.thraeds: no such setting; did you mean server.threads?");
    refused("srever {\n threads = 1\n}\n", ":1: srever: no such section; did you mean server?");
    refused("zzzzzzzz { a = 1 }\n", ":1: zzzzzzzz: no such section");
    refused("\nserver.threads = 1\n", ":2: server.threads: belongs into its section");
    refused("\nthreads = 1\n", ":2: threads: belongs into its section: server {");
    refused("server {\n threads = 1\n threads = 1\n}\n", ":3: server.threads: given twice");
    refused("server {\n threads = {1, 2}\n}\n", ":2: ");
    refused("server {\n threads =\n}\n", ":3: ");
    refused("server \"x\" {\n threads = 1\n}\n", ":1: ");
    refused("data {}\n\nserver {\n threads = 1\n", ":3: this section is not closed");
    refused("\ndata { dir = \"x }\n", ":2: what begins here is not closed");
    refused("\n/* data { }\n", ":2: what begins here is not closed");
    refused("server } {", ":1: ");
}

static void what_is_no_text_file_is_refused(void **state)
{
    (void)state;
    struct config config;
    char error[CONFIG_ERROR_MAX];
    struct config_options options = {.file = path};
    write_bytes("data { }\0", 9);
    assert_int_equal(config_load(&options, &config, error, sizeof(error)), ERR_INVALID);
    options.file = "/tmp";
    assert_int_equal(config_load(&options, &config, error, sizeof(error)), ERR_IO);
    options.file = "/tmp/sluice-there-is-no-such-file";
    assert_int_equal(config_load(&options, &config, error, sizeof(error)), ERR_NOTFOUND);
    assert_non_null(strstr(error, "sluice-there-is-no-such-file"));
}

static void wrong_settings_are_refused_by_name(void **state)
{
    (void)state;
    set_refused("server.thraeds=1",
                "--set server.thraeds: no such setting; did you mean server.threads?");
    set_refused("ledger.tick_ms=1", "--set ledger.tick_ms: no such setting; did you mean keeper.");
    set_refused("server.threads=", "--set server.threads: must be a whole number from 0 to 64");
    set_refused("server.threads", "--set server.threads: must be section.name=value");
    set_refused("threads=1", "--set threads=1: must be section.name=value");
    set_refused("=", "--set =: must be");
    set_refused("", "--set : must be");
    set_refused("server.threads=99999999999999999999999", "--set server.threads: must be");
    set_refused("data.dir=", "--set data.dir: must be a path");
    set_refused("data.dir=a\nb", "--set data.dir: must be a path");
    set_refused("data.dir=\xff", "--set data.dir: must be a path");
    set_refused("log.level=loud", "--set log.level: must be debug, info, warn or error");
}

static void texts_must_look_like_what_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *set;
        bool good;
    } cases[] = {
        {"server.listen=0.0.0.0:80", true},
        {"server.listen=[::]:65535", true},
        {"server.listen=", false},
        {"server.listen=127.0.0.1", false},
        {"server.listen=127.0.0.1:", false},
        {"server.listen=127.0.0.1:65536", false},
        {"server.listen=999.0.0.1:80", false},
        {"server.listen=::1:80", false},
        {"server.listen=[127.0.0.1]:80", false},
        {"server.listen=localhost:80", false},
        {"server.private_listen=", true},
        {"server.private_listen=nonsense", false},
        {"server.trusted_proxies=127.0.0.1, 10.0.0.0/8 fd00::/8", true},
        {"server.trusted_proxies=", true},
        {"server.trusted_proxies=proxy.example", false},
        {"server.trusted_proxies=10.0.0.0/33", false},
        {"cors.origins=*", true},
        {"cors.origins=https://a.example:8443,http://b", true},
        {"cors.origins=https://a.example/", false},
        {"cors.origins=a.example", false},
        {"cors.origins=https://", false},
        {"cors.origins=https://*.example", false},
        {"page.login_url=", true},
        {"page.login_url=/login", true},
        {"page.login_url=https://a.example/l", true},
        {"page.login_url=https://", false},
        {"page.login_url=javascript:alert(1)", false},
        {"page.login_url=login", false},
        {"page.login_url=/a\"b", false},
        {"ledger.url=", true},
        {"ledger.url=mariadb://shop:a%20b@db.example:3307/ledger", true},
        {"ledger.url=mariadb://shop@localhost/ledger?socket=/run/s.sock", true},
        {"ledger.url=mysql://shop@db.example/ledger", false},
        {"ledger.url=mariadb://db.example/ledger", false},
        {"ledger.url=mariadb://shop@db.example", false},
        {"ledger.url=mariadb://shop@db.example/led\nger", false},
        {"amqp.url=", true},
        {"amqp.url=amqp://shop:a%20b@mq.example:5673/%2fshop", true},
        {"amqp.url=amqp://shop@mq.example", true},
        {"amqp.url=amqps://shop@mq.example/", false},
        {"amqp.url=amqp://mq.example/", false},
        {"amqp.queue=shop.orders-2", true},
        {"amqp.queue=shop orders", false},
        {"redis.url=", true},
        {"redis.url=redis://r.example", true},
        {"redis.url=sentinel://a:1,b:2/shop", true},
        {"redis.url=cluster://me:secret@a:1,[::1]:2", true},
        {"redis.url=rediss://r.example", false},
        {"redis.url=sentinel://a:1,b:2", false},
        {"redis.url=redis://a,b", false},
        {"redis.prefix=shop-1.sale:a_b", true},
        {"redis.prefix=", false},
        {"redis.prefix=a{b}", false},
        {"redis.prefix=a b", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config config;
        char error[CONFIG_ERROR_MAX] = "";
        int result = set_one(cases[i].set, &config, error);
        /* That it is not enough alone is said only of what is right. */
        bool good = result == 0 || strstr(error, "redis.url needs ledger.url") != NULL;
        if (good != cases[i].good) {
            fail_msg("%s gave %d: %s", cases[i].set, result, error);
        }
    }
    char longest[16 + URL_MAX_BYTES + 2] = "page.login_url=/";
    memset(longest + 16, 'x', URL_MAX_BYTES);
    set_refused(longest, "--set page.login_url: must have 512 bytes at most");
    longest[15 + URL_MAX_BYTES] = '\0';
    struct config config;
    char error[CONFIG_ERROR_MAX];
    assert_int_equal(set_one(longest, &config, error), 0);
    assert_int_equal(strlen(config.page_login_url), URL_MAX_BYTES);
}

static void a_refusal_does_not_show_a_password(void **state)
{
    (void)state;
    static const struct {
        const char *set;
        const char *begins;
    } cases[] = {
        {"ledger.url=mariadb://shop:hunter2@db:x/l", "--set ledger.url: "},
        {"amqp.url=amqp://shop:hunter2@mq:x/l", "--set amqp.url: "},
        {"redis.url=redis://shop:hunter2@db:x", "--set redis.url: "},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config config;
        char error[CONFIG_ERROR_MAX] = "";
        int result = set_one(cases[i].set, &config, error);
        if (result == 0 || strncmp(error, cases[i].begins, strlen(cases[i].begins)) != 0 ||
            strstr(error, "port") == NULL || strstr(error, "hunter2") != NULL) {
            fail_msg("%s gave %d: %s", cases[i].set, result, error);
        }
    }
}

static void roles_have_what_they_need(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says; /* NULL: it is right */
    } cases[] = {
        {"server { roles = \"booker\" }\n", "needs redis.url"},
        {"server { roles = \"keeper,relay,front\" }\n", "needs redis.url"},
        {"server { roles = \"keeper,relay,front,booker\" }\n", NULL},
        {"redis { url = \"redis://a\" }\n", "needs ledger.url"},
        {"redis { url = \"redis://a\" }\nledger { url = \"mariadb://u@b/l\" }\n", NULL},
        {"redis { url = \"redis://a\" }\nledger { url = \"mariadb://u@b/l\" }\n"
         "server { roles = \"booker\" }\n",
         "needs amqp.url"},
        {"redis { url = \"redis://a\" }\nledger { url = \"mariadb://u@b/l\" }\n"
         "server { roles = \"booker\" }\namqp { url = \"amqp://u@c\" }\n",
         NULL},
        {"redis { url = \"redis://a\" }\nledger { url = \"mariadb://u@b/l\" }\n"
         "server { roles = \"relay\" }\n",
         NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config config;
        char error[CONFIG_ERROR_MAX] = "";
        const struct config_options options = {.file = path};
        write_file(cases[i].text);
        int result = config_load(&options, &config, error, sizeof(error));
        assert_int_equal(result, cases[i].says == NULL ? 0 : ERR_INVALID);
        assert_true(cases[i].says == NULL || strstr(error, cases[i].says) != NULL);
    }
}

static void a_booking_may_take_longer_than_a_place_in_line(void **state)
{
    (void)state;
    struct config fresh = {.relay_stale_s = 7};
    char ignored[256];
    char error[CONFIG_ERROR_MAX] = "";
    const struct config_options options = {.file = path};
    struct config running = loaded("spool { line_s = 30 }\nrelay { stale_s = 31 }\n");
    assert_int_equal(running.relay_stale_s, 31);
    /* Nobody stands in line, or nothing is ever too late. */
    (void)loaded("spool { line = 0\n line_s = 30 }\nrelay { stale_s = 1 }\n");
    (void)loaded("spool { line_s = 30 }\nrelay { stale_s = 0 }\n");

    write_file("spool { line_s = 30 }\nrelay { stale_s = 30 }\n");
    assert_int_equal(config_load(&options, &fresh, error, sizeof(error)), ERR_INVALID);
    assert_non_null(strstr(error, "relay.stale_s (30) must be longer than spool.line_s (30)"));
    error[0] = '\0';
    assert_int_equal(
        config_reload(&options, &running, &fresh, ignored, sizeof(ignored), error, sizeof(error)),
        ERR_INVALID);
    assert_non_null(strstr(error, "relay.stale_s (30)"));
    assert_int_equal(fresh.relay_stale_s, 7);
}

static void what_is_printed_is_read_back_as_the_same(void **state)
{
    (void)state;
    struct config config;
    char error[CONFIG_ERROR_MAX];
    assert_int_equal(set_one("data.dir=a \"b\\ ${HOME} # '", &config, error), 0);
    config.gate_orders = GATE_ORDERS_MAX;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    config_print(&config, file);
    assert_int_equal(fclose(file), 0);
    struct config again;
    const struct config_options options = {.file = path};
    assert_int_equal(config_load(&options, &again, error, sizeof(error)), 0);
    for (size_t i = 0; i < config_settings_count; i++) {
        assert_true(config_same(&config, &again, &config_settings[i]));
    }
}

static void reload_takes_over_what_may_change_and_names_the_rest(void **state)
{
    (void)state;
    struct config running = loaded("ticket { ttl_s = 10 }\nserver { threads = 1 }\n");
    struct config fresh;
    char ignored[256];
    char error[CONFIG_ERROR_MAX];
    const struct config_options options = {.file = path};
    write_file("ticket { ttl_s = 20 }\nserver { threads = 2 }\ngate { items = 5 }\n");
    assert_int_equal(
        config_reload(&options, &running, &fresh, ignored, sizeof(ignored), error, sizeof(error)),
        0);
    assert_int_equal(fresh.ticket_ttl_s, 20);
    assert_int_equal(fresh.server_threads, 1);
    assert_int_equal(fresh.gate_items, GATE_ITEMS_DEFAULT);
    assert_string_equal(ignored, "server.threads, gate.items");

    write_file("ticket { ttl_s = 0 }\n");
    assert_int_equal(
        config_reload(&options, &running, &fresh, ignored, sizeof(ignored), error, sizeof(error)),
        ERR_INVALID);
    assert_int_equal(fresh.ticket_ttl_s, 20);
}

static void a_pipe_is_read_at_the_start_and_not_again(void **state)
{
    (void)state;
    struct config running;
    struct config fresh = {.ticket_ttl_s = 20};
    char ignored[256];
    char error[CONFIG_ERROR_MAX];
    char name[32];
    int ends[2];
    static const char text[] = "ticket { ttl_s = 10 }\n";
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], text, sizeof(text) - 1), sizeof(text) - 1);
    assert_int_equal(close(ends[1]), 0);
    (void)snprintf(name, sizeof(name), "/dev/fd/%d", ends[0]);
    const struct config_options options = {.file = name};
    assert_int_equal(config_load(&options, &running, error, sizeof(error)), 0);
    assert_int_equal(running.ticket_ttl_s, 10);
    assert_int_equal(
        config_reload(&options, &running, &fresh, ignored, sizeof(ignored), error, sizeof(error)),
        ERR_INVALID);
    assert_non_null(strstr(error, "no file that can be read again"));
    assert_int_equal(fresh.ticket_ttl_s, 20);
    assert_int_equal(close(ends[0]), 0);
}

/* ---- rate limits ---- */

static const struct config_limit *limit_of(const struct config *config, const char *name)
{
    for (uint32_t i = 0; i < config->limits.count; i++) {
        if (strcmp(config->limits.limits[i].rule.name, name) == 0) {
            return &config->limits.limits[i];
        }
    }
    return NULL;
}

static void limits_are_named_sections(void **state)
{
    (void)state;
    struct config config =
        loaded("limit \"a\" {\n key = \"user+item\"\n calls = {\"ticket\", \"buy\"}\n rate = 10 "
               "per_s = 60 "
               "burst = 5\n shared = true }\nlimit \"b\" { key = all\n rate = 7\n algorithm = "
               "sliding_window\n}\n");
    const struct config_limit *a = limit_of(&config, "a");
    assert_non_null(a);
    assert_int_equal(a->rule.key, LIMIT_BY_USER_ITEM);
    assert_int_equal(a->rule.calls, 1U << FAMILY_TICKET | 1U << FAMILY_BUY);
    assert_int_equal(a->rule.rate.rate, 10);
    assert_int_equal(a->rule.rate.per_s, 60);
    assert_int_equal(a->rule.rate.burst, 5);
    assert_true(a->rule.shared);
    const struct config_limit *b = limit_of(&config, "b");
    assert_non_null(b);
    assert_int_equal(b->rule.calls, 0);
    assert_int_equal(b->rule.rate.per_s, 1);
    assert_int_equal(b->rule.rate.burst, 7);
    assert_int_equal(b->rule.rate.algorithm, RATE_SLIDING_WINDOW);
}

static void wrong_limits_are_refused_with_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *place;
    } cases[] = {
        {"limit \"a\" {\n key = user\n}\n", ":3: limit.a: rate is missing"},
        {"limit \"a\" {\n rate = 5\n}\n", ":3: limit.a: key is missing"},
        {"limit \"a\" {\n}\n", ":2: limit.a: key is missing"},
        {"limit \"a\" {\n key = users\n}\n", ":2: limit.a.key: must be address, user"},
        {"limit \"a\" {\n rate = 0\n}\n", ":2: limit.a.rate: must be a whole number from 1"},
        {"limit \"a\" {\n rate = 1\n rate = 2\n}\n", ":3: limit.a.rate: given twice"},
        {"limit \"a\" {\n calls = {buy, sell}\n}\n", ":2: limit.a.calls: must be some of time"},
        {"limit \"a\" {\n speed = 3\n}\n", ":2: limit.a.speed: no such setting; a limit"},
        {"limit \"a b\" {\n rate = 3\n}\n", ":2: a limit's name has"},
        {"limit \"a\" {\n key = user\n rate = 3\n burst = 0\n}\n",
         ":5: limit.a: a token bucket with"},
        {"limit \"a\" {\n key = user\n rate = 3\n calls = {time}\n}\n",
         ":5: limit.a: the rule can never"},
        {"limit \"a\" {\n key = \"user+item\"\n rate = 3\n calls = {orders}\n}\n",
         ":5: limit.a: the rule can never"},
        {"limit \"a\" { key = all\n rate = 3 }\nlimit \"a\" { key = all\n rate = 3 }\n", ":3: "},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refused(cases[i].text, cases[i].place);
    }
}

static void the_command_line_sets_limits(void **state)
{
    (void)state;
    struct config_override overrides[] = {
        {.option = "--set", .value = "limit.mine.key=user"},
        {.option = "--set", .value = "limit.mine.rate=3"},
        {.option = "--set", .value = "limit.mine.calls=ticket,buy"},
        {.option = "--set", .value = "limit.user-and-item.rate=20"},
    };
    const struct config_options options = {.overrides = overrides, .overrides_count = 4};
    struct config config;
    char error[CONFIG_ERROR_MAX];
    assert_int_equal(config_load(&options, &config, error, sizeof(error)), 0);
    assert_int_equal(limit_of(&config, "mine")->rule.calls, 1U << FAMILY_TICKET | 1U << FAMILY_BUY);
    assert_int_equal(limit_of(&config, "user-and-item")->rule.rate.rate, 20);
    assert_int_equal(limit_of(&config, "user-and-item")->rule.rate.burst, 20);
    assert_int_equal(set_one("limit.mine.speed=3", &config, error), ERR_NOTFOUND);
    assert_int_equal(set_one("limit.mine=3", &config, error), ERR_NOTFOUND);
    assert_int_equal(set_one("limit.mine.rate=many", &config, error), ERR_INVALID);
}

static void limits_ship_outside_the_demonstration(void **state)
{
    (void)state;
    static const struct {
        bool demo;
        const char *set;
        bool user, address; /* which rules there are */
    } cases[] = {
        {false, NULL, true, false},
        {false, "admission.defaults=false", false, false},
        {false, "admission.address_limit=true", true, true},
        {true, NULL, false, false},
        {true, "admission.defaults=true", true, false},
        {true, "limit.user-and-item.rate=5", true, false},
        {false, "limit.address-and-item.rate=5", true, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config_override override = {.option = "--set", .value = cases[i].set};
        const struct config_options options = {
            .demo = cases[i].demo, .overrides = &override, .overrides_count = cases[i].set != NULL};
        struct config config;
        char error[CONFIG_ERROR_MAX];
        assert_int_equal(config_load(&options, &config, error, sizeof(error)), 0);
        assert_int_equal(limit_of(&config, "user-and-item") != NULL, cases[i].user);
        assert_int_equal(limit_of(&config, "address-and-item") != NULL, cases[i].address);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_given_gives_the_defaults),
        cmocka_unit_test(every_default_is_a_value_its_own_row_accepts),
        cmocka_unit_test(the_command_line_wins_over_the_file),
        cmocka_unit_test(a_file_may_have_comments_quotes_and_variables),
        cmocka_unit_test(what_is_wrong_is_told_with_its_line),
        cmocka_unit_test(what_is_no_text_file_is_refused),
        cmocka_unit_test(wrong_settings_are_refused_by_name),
        cmocka_unit_test(texts_must_look_like_what_they_are),
        cmocka_unit_test(a_refusal_does_not_show_a_password),
        cmocka_unit_test(roles_have_what_they_need),
        cmocka_unit_test(a_booking_may_take_longer_than_a_place_in_line),
        cmocka_unit_test(what_is_printed_is_read_back_as_the_same),
        cmocka_unit_test(reload_takes_over_what_may_change_and_names_the_rest),
        cmocka_unit_test(limits_are_named_sections),
        cmocka_unit_test(wrong_limits_are_refused_with_their_line),
        cmocka_unit_test(the_command_line_sets_limits),
        cmocka_unit_test(limits_ship_outside_the_demonstration),
        cmocka_unit_test(a_pipe_is_read_at_the_start_and_not_again),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
