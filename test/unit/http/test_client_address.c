/* The address of the client behind trusted proxies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>

#include <cmocka.h>

#include "base/err.h"
#include "http/client_address.h"
#include "table_tests.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PROXIES "127.0.0.1, 10.0.0.0/8 2001:db8:ff00::/40"

static struct net_address ip(const char *text)
{
    struct net_address address = {.family = strchr(text, ':') != NULL ? 6 : 4};
    assert_int_equal(inet_pton(address.family == 6 ? AF_INET6 : AF_INET, text, address.bytes), 1);
    return address;
}

/* The client of a request with these header lines; it stays valid until the next call. */
static const char *client(const char *proxies, const char *peer, const char *lines)
{
    static char text[INET6_ADDRSTRLEN];
    char head[2048];
    struct proxies list;
    assert_int_equal(proxies_parse(proxies, &list), 0);
    int len = snprintf(head, sizeof(head),
                       "GET /x HTTP/1.1\r\nHost: shop\r\n%sX-Other: 9.9.9.9\r\n\r\n", lines);
    assert_true(len > 0 && (size_t)len < sizeof(head));
    struct net_address address = client_address(&list, ip(peer), (struct span){head, (size_t)len});
    assert_non_null(
        inet_ntop(address.family == 6 ? AF_INET6 : AF_INET, address.bytes, text, sizeof(text)));
    return text;
}

static const char *behind(const char *lines)
{
    return client(PROXIES, "127.0.0.1", lines);
}

#define XFF "X-Forwarded-For: "
#define FORWARDED "Forwarded: "

/* What a request through these proxies says, and whose it is. */
static const struct address_case {
    const char *name;
    const char *lines;
    const char *client;
    const char *peer;    /* NULL: the proxy on this machine */
    const char *proxies; /* NULL: PROXIES */
} address_cases[] = {
    {.name = "an untrusted peer is the client", XFF "1.2.3.4\r\n", "192.0.2.9", "192.0.2.9"},
    {.name = "an untrusted IPv6 peer is the client",
     XFF "1.2.3.4\r\n",
     "2001:db8::1",
     "2001:db8::1"},
    {.name = "without proxies nobody is trusted",
     FORWARDED "for=1.2.3.4\r\n",
     "127.0.0.1",
     NULL,
     ""},
    /* The nearest untrusted address counts. */
    {.name = "a proxy's own request", "", "127.0.0.1"},
    {.name = "one address", XFF "1.2.3.4\r\n", "1.2.3.4"},
    {.name = "two addresses", "x-forwarded-for:1.2.3.4, 5.6.7.8\r\n", "5.6.7.8"},
    {.name = "trusted ones behind it", XFF "1.2.3.4, 10.1.1.1,\t10.2.2.2 \r\n", "1.2.3.4"},
    {.name = "trusted ones only", XFF "10.3.3.3, 10.1.1.1\r\n", "10.3.3.3"},
    {.name = "a trusted IPv6 proxy", XFF "1.2.3.4, 2001:db8:ff11::7\r\n", "1.2.3.4"},
    {.name = "an untrusted IPv6 proxy", XFF "1.2.3.4, 2001:db8:fe11::7\r\n", "2001:db8:fe11::7"},
    {.name = "Forwarded", FORWARDED "for=1.2.3.4;proto=https, for=10.1.1.1;by=_x\r\n", "1.2.3.4"},
    /* Several lines are one list, in order. */
    {.name = "two lines", XFF "1.2.3.4\r\nA: b\r\n" XFF "5.6.7.8\r\n", "5.6.7.8"},
    {.name = "three lines, an empty one last",
     XFF "1.1.1.1, 2.2.2.2\r\nx-forwarded-for: 10.1.1.1\r\nX-FORWARDED-FOR:\r\n",
     "2.2.2.2"},
    {.name = "two lines of Forwarded",
     FORWARDED "for=1.1.1.1\r\n" FORWARDED "for=10.1.1.1\r\n",
     "1.1.1.1"},
    /* Forwarded comes first. A client could choose it where proxies pass it on unknown; deploy/
     * removes it. */
    {.name = "both headers", XFF "1.2.3.4\r\n" FORWARDED "for=5.6.7.8\r\n", "5.6.7.8"},
    {.name = "a hidden client", XFF "1.2.3.4\r\n" FORWARDED "for=_hidden\r\n", "127.0.0.1"},
    {.name = "an empty Forwarded", XFF "1.2.3.4\r\n" FORWARDED "\r\n", "127.0.0.1"},
    /* An entry is written in several ways. */
    {.name = "a port", XFF "1.2.3.4:5678\r\n", "1.2.3.4"},
    {.name = "an IPv6 address and a port", XFF "[2001:db8::7]:80\r\n", "2001:db8::7"},
    {.name = "an IPv6 address in brackets", XFF "[2001:db8::7]\r\n", "2001:db8::7"},
    {.name = "an IPv6 address in capitals", XFF "2001:DB8::7\r\n", "2001:db8::7"},
    {.name = "an IPv4 address in IPv6", XFF "::ffff:1.2.3.4\r\n", "1.2.3.4"},
    {.name = "a trusted one in IPv6", XFF "1.1.1.1, ::ffff:10.1.1.1\r\n", "1.1.1.1"},
    {.name = "empty entries", XFF ", 1.2.3.4 ,, ,\r\n", "1.2.3.4"},
    {.name = "a quoted address and port",
     FORWARDED "For=\"[2001:db8::7]:_port\"\r\n",
     "2001:db8::7"},
    {.name = "a blank in a token",
     FORWARDED "proto=http; by=10.1.1.1 ;for=1.2.3.4\r\n",
     "127.0.0.1"},
    {.name = "separators in quotes",
     FORWARDED "proto=http; for=\"1.2.3.4:80\";host=\"a,b;c\"\r\n",
     "1.2.3.4"},
    {.name = "an escape in quotes", FORWARDED "for=\"1.2.\\3.4\"\r\n", "1.2.3.4"},
    {.name = "an escaped quote", FORWARDED "for=1.1.1.1;x=\"\\\", for=2.2.2.2\"\r\n", "1.1.1.1"},
    {.name = "a semicolon at the end", FORWARDED "for=1.2.3.4;\r\n", "1.2.3.4"},
};

static void the_client_behind_proxies(void **state)
{
    const struct address_case *c = *state;
    assert_string_equal(client(c->proxies != NULL ? c->proxies : PROXIES,
                               c->peer != NULL ? c->peer : "127.0.0.1", c->lines),
                        c->client);
}

static void many_lines_are_one_list(void **state)
{
    (void)state;
    char lines[98 * 24 + 64] = XFF "7.7.7.7\r\n";
    for (int i = 0; i < 60; i++) {
        strcat(lines, XFF "10.1.1.1\r\n");
    }
    assert_string_equal(behind(lines), "7.7.7.7");
}

/* A client writes the beginning of the list. Nothing there changes what proxies have appended. */
static void a_malformed_entry_ends_the_walk_at_the_last_trusted_hop(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "unknown",
        "_hidden",
        "1.2.3",
        "1.2.3.4.5",
        "01.2.3.4",
        "1.2.3.4:",
        "1.2.3.4:123456",
        "1.2.3.4:a",
        "[1.2.3.4]",
        "[2001:db8::1",
        "2001:db8::1]",
        "[2001:db8::1]x",
        "2001:db8:::1",
        "\"1.2.3.4\"",
        "1.2.3.4/8",
        "localhost",
        "1.2.3.4 5.6.7.8",
        "[]",
        ":80",
        "[::1]:",
        "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc",
    };
    static const char *const wrong_forwarded[] = {
        "1.2.3.4",
        "for",
        "for=",
        "by=1.2.3.4",
        "for=\"1.2.3.4",
        "for=1.2.3.4\"",
        "for=\"1.2.3.4\"x",
        "for=1.2.3.4;for=5.6.7.8",
        "for=1.2.3.4;host",
        "for =x;;",
        "for=\"1.2.3.4\\",
        "for=unknown",
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        char line[256];
        (void)snprintf(line, sizeof(line), "X-Forwarded-For: 7.7.7.7, %s, 10.1.1.1\r\n", wrong[i]);
        if (strcmp(behind(line), "10.1.1.1") != 0) {
            fail_msg("%s: %s", line, behind(line));
        }
        (void)snprintf(line, sizeof(line), "X-Forwarded-For: %s, 8.8.8.8\r\n", wrong[i]);
        assert_string_equal(behind(line), "8.8.8.8");
    }
    for (size_t i = 0; i < COUNT(wrong_forwarded); i++) {
        char line[256];
        (void)snprintf(line, sizeof(line), "Forwarded: for=7.7.7.7\r\nForwarded: %s\r\n",
                       wrong_forwarded[i]);
        if (strcmp(behind(line), "127.0.0.1") != 0) {
            fail_msg("%s: %s", line, behind(line));
        }
        (void)snprintf(line, sizeof(line), "Forwarded: %s\r\nForwarded: for=8.8.8.8;by=_p\r\n",
                       wrong_forwarded[i]);
        assert_string_equal(behind(line), "8.8.8.8");
        (void)snprintf(line, sizeof(line), "Forwarded: %s, for=8.8.8.8;x=\"a,b\"\r\n",
                       wrong_forwarded[i]);
        assert_string_equal(behind(line), "8.8.8.8");
    }
}

static void networks_are_read_strictly(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "x",  "10.0.0.0/33",  "10.0.0/8",   "10.0.0.0/", "::1/129",      "10.0.0.0/-1",
        "/8", "10.0.0.0/8/8", "127.0.0.1;", "[::1]",     "10.0.0.0/08x", "::ffff:10.0.0.0/95"};
    struct proxies list;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        if (proxies_parse(wrong[i], &list) != ERR_INVALID) {
            fail_msg("taken: %s", wrong[i]);
        }
    }
    assert_int_equal(proxies_parse(" , ", &list), 0);
    assert_int_equal(list.count, 0);
    const char *line = "X-Forwarded-For: 9.1.1.1\r\n";
    assert_string_equal(client("10.255.0.0/15", "10.254.1.1", line), "9.1.1.1");
    assert_string_equal(client("10.254.0.0/15", "10.253.1.1", line), "10.253.1.1");
    assert_string_equal(client("10.0.0.1/32", "10.0.0.1", line), "9.1.1.1");
    assert_string_equal(client("10.0.0.1/32", "10.0.0.0", line), "10.0.0.0");
    assert_string_equal(client("0.0.0.0/0", "10.0.0.0", line), "9.1.1.1");
    assert_string_equal(client("0.0.0.0/0", "::1", line), "::1");
    assert_string_equal(client("::1/128", "::1", line), "9.1.1.1");
    assert_string_equal(client("::ffff:10.0.0.0/104", "10.9.9.9", line), "9.1.1.1");
    char many[PROXIES_MAX * 8 + 16] = "";
    for (uint32_t i = 0; i < PROXIES_MAX; i++) {
        strcat(many, "1.1.1.1,");
    }
    assert_int_equal(proxies_parse(many, &list), 0);
    strcat(many, "1.1.1.1");
    assert_int_equal(proxies_parse(many, &list), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_lines_are_one_list),
        cmocka_unit_test(a_malformed_entry_ends_the_walk_at_the_last_trusted_hop),
        cmocka_unit_test(networks_are_read_strictly),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + TABLE_RUN(address_cases, the_client_behind_proxies, NULL, NULL);
}
