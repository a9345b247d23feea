/* Who the client behind trusted proxies is. */
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

static void an_untrusted_peer_is_the_client_whatever_it_says(void **state)
{
    (void)state;
    assert_string_equal(client(PROXIES, "192.0.2.9", "X-Forwarded-For: 1.2.3.4\r\n"), "192.0.2.9");
    assert_string_equal(client("", "127.0.0.1", "Forwarded: for=1.2.3.4\r\n"), "127.0.0.1");
    assert_string_equal(client(PROXIES, "2001:db8::1", "X-Forwarded-For: 1.2.3.4\r\n"),
                        "2001:db8::1");
}

static void the_nearest_untrusted_address_counts(void **state)
{
    (void)state;
    assert_string_equal(behind(""), "127.0.0.1");
    assert_string_equal(behind("X-Forwarded-For: 1.2.3.4\r\n"), "1.2.3.4");
    assert_string_equal(behind("x-forwarded-for:1.2.3.4, 5.6.7.8\r\n"), "5.6.7.8");
    assert_string_equal(behind("X-Forwarded-For: 1.2.3.4, 10.1.1.1,\t10.2.2.2 \r\n"), "1.2.3.4");
    assert_string_equal(behind("X-Forwarded-For: 10.3.3.3, 10.1.1.1\r\n"), "10.3.3.3");
    assert_string_equal(behind("X-Forwarded-For: 1.2.3.4, 2001:db8:ff11::7\r\n"), "1.2.3.4");
    assert_string_equal(behind("X-Forwarded-For: 1.2.3.4, 2001:db8:fe11::7\r\n"),
                        "2001:db8:fe11::7");
    assert_string_equal(behind("Forwarded: for=1.2.3.4;proto=https, for=10.1.1.1;by=_x\r\n"),
                        "1.2.3.4");
}

static void several_lines_are_one_list_in_order(void **state)
{
    (void)state;
    assert_string_equal(behind("X-Forwarded-For: 1.2.3.4\r\nA: b\r\nX-Forwarded-For: 5.6.7.8\r\n"),
                        "5.6.7.8");
    assert_string_equal(behind("X-Forwarded-For: 1.1.1.1, 2.2.2.2\r\n"
                               "x-forwarded-for: 10.1.1.1\r\nX-FORWARDED-FOR:\r\n"),
                        "2.2.2.2");
    assert_string_equal(behind("Forwarded: for=1.1.1.1\r\nForwarded: for=10.1.1.1\r\n"), "1.1.1.1");
    char lines[98 * 24 + 64] = "";
    for (int i = 0; i < 60; i++) {
        strcat(lines, "X-Forwarded-For: 10.1.1.1\r\n");
    }
    char many[sizeof(lines) + 64];
    (void)snprintf(many, sizeof(many), "X-Forwarded-For: 7.7.7.7\r\n%s", lines);
    assert_string_equal(behind(many), "7.7.7.7");
}

/* What proxies that do not know Forwarded pass on would otherwise be a client's to choose; deploy/
 * removes it. */
static void forwarded_comes_before_x_forwarded_for(void **state)
{
    (void)state;
    assert_string_equal(behind("X-Forwarded-For: 1.2.3.4\r\nForwarded: for=5.6.7.8\r\n"),
                        "5.6.7.8");
    assert_string_equal(behind("X-Forwarded-For: 1.2.3.4\r\nForwarded: for=_hidden\r\n"),
                        "127.0.0.1");
    assert_string_equal(behind("X-Forwarded-For: 1.2.3.4\r\nForwarded:\r\n"), "127.0.0.1");
}

static void entries_are_written_in_several_ways(void **state)
{
    (void)state;
    static const char *const ways[][2] = {
        {"X-Forwarded-For: 1.2.3.4:5678", "1.2.3.4"},
        {"X-Forwarded-For: [2001:db8::7]:80", "2001:db8::7"},
        {"X-Forwarded-For: [2001:db8::7]", "2001:db8::7"},
        {"X-Forwarded-For: 2001:DB8::7", "2001:db8::7"},
        {"X-Forwarded-For: ::ffff:1.2.3.4", "1.2.3.4"},
        {"X-Forwarded-For: 1.1.1.1, ::ffff:10.1.1.1", "1.1.1.1"},
        {"X-Forwarded-For: , 1.2.3.4 ,, ,", "1.2.3.4"},
        {"Forwarded: For=\"[2001:db8::7]:_port\"", "2001:db8::7"},
        {"Forwarded: proto=http; by=10.1.1.1 ;for=1.2.3.4", "127.0.0.1"}, /* a blank in a token */
        {"Forwarded: proto=http; for=\"1.2.3.4:80\";host=\"a,b;c\"", "1.2.3.4"},
        {"Forwarded: for=\"1.2.\\3.4\"", "1.2.3.4"},
        {"Forwarded: for=1.1.1.1;x=\"\\\", for=2.2.2.2\"", "1.1.1.1"},
        {"Forwarded: for=1.2.3.4;", "1.2.3.4"},
    };
    for (size_t i = 0; i < COUNT(ways); i++) {
        char line[256];
        (void)snprintf(line, sizeof(line), "%s\r\n", ways[i][0]);
        if (strcmp(behind(line), ways[i][1]) != 0) {
            fail_msg("%s: %s", ways[i][0], behind(line));
        }
    }
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
        cmocka_unit_test(an_untrusted_peer_is_the_client_whatever_it_says),
        cmocka_unit_test(the_nearest_untrusted_address_counts),
        cmocka_unit_test(several_lines_are_one_list_in_order),
        cmocka_unit_test(forwarded_comes_before_x_forwarded_for),
        cmocka_unit_test(entries_are_written_in_several_ways),
        cmocka_unit_test(a_malformed_entry_ends_the_walk_at_the_last_trusted_hop),
        cmocka_unit_test(networks_are_read_strictly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
