/* Where a ledger is: URLs that are right, URLs that are refused, and passwords in files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/mariadb/address.h"
#include "base/err.h"

static void test_urls(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        struct maria_address expected;
    } rows[] = {
        {"mariadb://shop@db.example/ledger",
         {.user = "shop", .host = "db.example", .port = 3306, .database = "ledger"}},
        {"mariadb://shop:secret@127.0.0.1:3307/ledger",
         {.user = "shop",
          .password = "secret",
          .host = "127.0.0.1",
          .port = 3307,
          .database = "ledger"}},
        {"mariadb://a%40b:p%3a%2F%25@[::1]:3308/l%2dx",
         {.user = "a@b", .password = "p:/%", .host = "::1", .port = 3308, .database = "l-x"}},
        {"mariadb://a:b@c@h/d", /* the last @ ends the login */
         {.user = "a", .password = "b@c", .host = "h", .port = 3306, .database = "d"}},
        {"mariadb://a:@[fe80::1]/d",
         {.user = "a", .host = "fe80::1", .port = 3306, .database = "d"}},
        {"mariadb://shop@localhost/ledger?socket=/run/mysqld/mysqld.sock",
         {.user = "shop",
          .host = "localhost",
          .port = 3306,
          .database = "ledger",
          .socket = "/run/mysqld/mysqld.sock"}},
        {"mariadb://a@h/d?ssl=1",
         {.user = "a", .host = "h", .port = 3306, .database = "d", .tls = true}},
        {"mariadb://a@h/d?ca=/etc/c%26a&ssl=1",
         {.user = "a", .host = "h", .port = 3306, .database = "d", .tls = true, .ca = "/etc/c&a"}},
        {"mariadb://a@h/d?ssl=1&socket=/s&ca=/c",
         {.user = "a",
          .host = "h",
          .port = 3306,
          .database = "d",
          .tls = true,
          .ca = "/c",
          .socket = "/s"}},
        {"mariadb://a@h/d?databases=3",
         {.user = "a", .host = "h", .port = 3306, .database = "d", .databases = 3}},
        {"mariadb://a@h/d?ssl=1&databases=16",
         {.user = "a", .host = "h", .port = 3306, .database = "d", .tls = true, .databases = 16}},
        {"mariadb://a@h/d?databases=1",
         {.user = "a", .host = "h", .port = 3306, .database = "d", .databases = 1}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct maria_address a;
        char error[512] = "";
        if (maria_address_parse(rows[i].url, &a, error, sizeof(error)) != 0) {
            fail_msg("%s: %s", rows[i].url, error);
        }
        assert_string_equal(a.user, rows[i].expected.user);
        assert_string_equal(a.password, rows[i].expected.password);
        assert_string_equal(a.host, rows[i].expected.host);
        assert_string_equal(a.database, rows[i].expected.database);
        assert_string_equal(a.socket, rows[i].expected.socket);
        assert_int_equal(a.port, rows[i].expected.port);
        assert_int_equal(a.tls, rows[i].expected.tls);
        assert_string_equal(a.ca, rows[i].expected.ca);
        uint32_t databases = rows[i].expected.databases;
        assert_int_equal(a.databases, databases == 0 ? 1 : databases);
    }
}

static void test_wrong_urls(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "",
        "mysql://a@h/d",
        "mariadb:/a@h/d",
        "mariadb://h/d",
        "mariadb://a@h",
        "mariadb://a@h/",
        "mariadb://@h/d",
        "mariadb://a@/d",
        "mariadb://a@:3306/d",
        "mariadb://a@h:0/d",
        "mariadb://a@h:65536/d",
        "mariadb://a@h:33o6/d",
        "mariadb://a@h:/d",
        "mariadb://a@[::1/d",
        "mariadb://a@[::1]x/d",
        "mariadb://a:%zz@h/d",
        "mariadb://a:%4@h/d",
        "mariadb://a:%00@h/d",
        "mariadb://a@h/d/e",
        "mariadb://a@h/d?",
        "mariadb://a@h/d?sock=/x",
        "mariadb://a@h/d?socket=",
        "mariadb://a@h/d?socket=relative",
        "mariadb://a@h/d?ssl=0",
        "mariadb://a@h/d?ssl",
        "mariadb://a@h/d?ssl=1&",
        "mariadb://a@h/d?ca=/c",
        "mariadb://a@h/d?ssl=1&ca=",
        "mariadb://a@h/d?ssl=1&ca=c",
        "mariadb://a@h/d?ssl=1,ca=/c",
        "mariadb://a@h/d?databases=",
        "mariadb://a@h/d?databases=0",
        "mariadb://a@h/d?databases=17",
        "mariadb://a@h/d?databases=03",
        "mariadb://a@h/d?databases=3x",
        "mariadb://a@h/d?databases=-1",
        "mariadb://a@h/d?databases=100000000000000003",
        "mariadb://a@h/a123456789b123456789c123456789d123456789e123456789f12345678912?databases=2",
        "mariadb://a@h/a123456789b123456789c123456789d123456789e123456789f123456789g1234567",
    };
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct maria_address a = {.port = 7};
        char error[512] = "";
        if (maria_address_parse(urls[i], &a, error, sizeof(error)) != ERR_INVALID) {
            fail_msg("taken: %s", urls[i]);
        }
        assert_int_equal(a.port, 7); /* written only on success */
        assert_non_null(strstr(error, "mariadb://user"));
    }
}

static void test_an_error_does_not_tell_the_password(void **state)
{
    (void)state;
    struct maria_address a;
    char error[512];
    assert_int_equal(maria_address_parse("mariadb://a:hunter2@h:99999/d", &a, error, sizeof(error)),
                     ERR_INVALID);
    assert_null(strstr(error, "hunter2"));
}

static void test_password_files(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *password; /* NULL: refused */
    } rows[] = {{"secret\n", "secret"},
                {"with space \r\nmore", "with space "},
                {"x", "x"},
                {"", NULL},
                {"\nsecond", NULL}};
    char path[] = "/tmp/sluice-password-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct maria_address a = {.password = "old"};
        char error[512];
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        (void)fputs(rows[i].text, file);
        (void)fclose(file);
        int err = maria_address_password(&a, path, error, sizeof(error));
        assert_int_equal(err, rows[i].password == NULL ? ERR_INVALID : 0);
        assert_string_equal(a.password, rows[i].password == NULL ? "old" : rows[i].password);
    }
    (void)close(fd);
    (void)unlink(path);
    struct maria_address a;
    char error[512];
    assert_int_equal(maria_address_password(&a, path, error, sizeof(error)), ERR_IO);
    assert_non_null(strstr(error, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_wrong_urls),
        cmocka_unit_test(test_an_error_does_not_tell_the_password),
        cmocka_unit_test(test_password_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
