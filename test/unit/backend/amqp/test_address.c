/* The broker's URL: what is taken apart, and what is refused, without telling the password. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/amqp/address.h"
#include "base/err.h"

static void parts_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *user;
        const char *password;
        const char *host;
        uint16_t port;
        const char *vhost;
    } rows[] = {
        {"amqp://me@box", "me", "", "box", 5672, "/"},
        {"amqp://me@box/", "me", "", "box", 5672, "/"},
        {"amqp://me:secret@box:1/shop", "me", "secret", "box", 1, "shop"},
        {"amqp://me:a:b@c@box:65535/%2f", "me", "a:b@c", "box", 65535, "/"},
        {"amqp://m%20e:%c3%a9%2F@10.0.0.1/a%2Fb", "m e", "\xc3\xa9/", "10.0.0.1", 5672, "a/b"},
        {"amqp://me@[::1]:80/x", "me", "", "::1", 80, "x"},
        {"amqp://me@[fe80::1]/x", "me", "", "fe80::1", 5672, "x"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct amqp_address address;
        char error[256] = "";
        if (amqp_address_parse(rows[i].text, &address, error, sizeof(error)) != 0) {
            fail_msg("%s: %s", rows[i].text, error);
        }
        assert_string_equal(address.user, rows[i].user);
        assert_string_equal(address.password, rows[i].password);
        assert_string_equal(address.host, rows[i].host);
        assert_int_equal(address.port, rows[i].port);
        assert_string_equal(address.vhost, rows[i].vhost);
    }
}

static void what_is_wrong_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "amqp",
        "amqp:/me@box/",
        "http://me:hush@box/",
        "amqps://me:hush@box/",
        "amqp://box/x",
        "amqp://@box/x",
        "amqp://:hush@box/x",
        "amqp://me:hush@/x",
        "amqp://me:hush@:80/x",
        "amqp://me:hush@box:/x",
        "amqp://me:hush@box:0/x",
        "amqp://me:hush@box:65536/x",
        "amqp://me:hush@[::1/x",
        "amqp://me:hush@[::1]80/x",
        "amqp://me:hush%0@box/x",
        "amqp://me:hush%00@box/x",
        "amqp://me:hush%zz@box/x",
        "amqp://me:hush@box/a/b",
        "amqp://me:hush@box/a?b",
        "amqp://me:hush@box/%",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct amqp_address address = {.user = "untouched"};
        char error[256] = "";
        assert_int_equal(amqp_address_parse(texts[i], &address, error, sizeof(error)), ERR_INVALID);
        assert_non_null(strstr(error, "amqp://user[:password]@host[:port]/vhost: "));
        assert_null(strstr(error, "hush"));
        assert_string_equal(address.user, "untouched");
    }
}

static void the_password_may_come_from_a_file(void **state)
{
    (void)state;
    struct amqp_address address = {.password = "old"};
    char error[256] = "";
    char path[] = "/tmp/sluice-amqp-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(amqp_address_password(&address, path, error, sizeof(error)), ERR_INVALID);
    assert_non_null(strstr(error, path));
    assert_string_equal(address.password, "old");
    assert_int_equal(write(fd, "new one\r\nmore\n", 14), 14);
    assert_int_equal(amqp_address_password(&address, path, error, sizeof(error)), 0);
    assert_string_equal(address.password, "new one");
    (void)close(fd);
    (void)unlink(path);
    assert_int_equal(amqp_address_password(&address, path, error, sizeof(error)), ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_told_apart),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(the_password_may_come_from_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
