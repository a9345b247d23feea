/*
 * Who the client behind trusted proxies is. The input is a list of proxies, and header lines as a client
 * may write them.
 *
 * Whatever a client writes, it is its peer where that is not trusted. What a trusted proxy appends
 * behind it decides, in a line of its own or behind a comma, in either header. The result is an
 * address that the text has, or the peer. Header names, and the order of lines of other names, do not
 * matter.
 */
#include "fuzz.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "http/client_address.h"

static const struct net_address proxy = {4, {10, 1, 1, 1}};
static const struct net_address stranger = {4, {192, 0, 2, 1}};

static bool same(struct net_address a, struct net_address b)
{
    return a.family == b.family && memcmp(a.bytes, b.bytes, sizeof(a.bytes)) == 0;
}

/* A header line as the parser lets it through: no control characters but tabs. */
static void put_line(struct out *out, const char *name, struct span value, const char *appended)
{
    out_format(out, "%s:", name);
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i];
        bool control = ((unsigned char)c < 32 && c != '\t') || c == 127;
        out_char(out, control ? ' ' : c);
    }
    out_format(out, "%s\r\n", appended);
}

static struct net_address ask(const struct proxies *proxies, struct net_address peer,
                              const struct out *lines, const char *more)
{
    char text[8192];
    struct out head = out_over(text, sizeof(text));
    out_lit(&head, "POST /v1/x?forwarded:for=8.8.8.8 HTTP/1.1\r\nHost: forwarded\r\n");
    out_put(&head, out_span(lines));
    out_format(&head, "%sX-Forwarded-For-You: 9.9.9.9\r\n\r\n", more);
    CHECK(!head.overflow);
    return client_address(proxies, peer, out_span(&head));
}

/* Whether the text has this address, as it is usually written. */
static bool is_named(const struct out *lines, struct net_address address)
{
    char text[INET6_ADDRSTRLEN];
    struct span all = out_span(lines);
    CHECK(inet_ntop(AF_INET, address.bytes, text, sizeof(text)) != NULL);
    for (size_t i = 0; i + strlen(text) <= all.len; i++) {
        if (memcmp(all.at + i, text, strlen(text)) == 0) {
            return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const struct net_address appended = {4, {8, 8, 8, 8}};
    struct fuzz_input in = {bytes, size};
    struct proxies proxies, drawn;
    char list[64] = "";
    char text[4096];
    struct out lines = out_over(text, sizeof(text));
    CHECK(proxies_parse("10.0.0.0/8", &proxies) == 0);
    struct span any = fuzz_span(&in, fuzz_byte(&in) % sizeof(list));
    memcpy(list, any.at, any.len);
    if (proxies_parse(list, &drawn) == 0) {
        CHECK(drawn.count <= PROXIES_MAX);
        for (uint32_t i = 0; i < drawn.count; i++) {
            CHECK(drawn.networks[i].bits <= (drawn.networks[i].address.family == 6 ? 128 : 32));
        }
    }
    bool forwarded = fuzz_byte(&in) % 2 == 1;
    const char *name = forwarded ? "Forwarded" : "X-Forwarded-For";
    uint32_t count = 1 + fuzz_below(&in, 4);
    for (uint32_t i = 0; i < count; i++) {
        struct span value = fuzz_span(&in, fuzz_number(&in, 2) % 400);
        put_line(&lines, name, value, "");
        if (i + 1 == count) { /* the same with an entry behind it */
            char longer[4096];
            struct out with = out_over(longer, sizeof(longer));
            put_line(&with, name, value, forwarded ? ", for=\"8.8.8.8:80\";by=_x" : ", 8.8.8.8");
            CHECK(same(ask(&proxies, proxy, &with, ""), appended));
        }
    }
    struct net_address client = ask(&proxies, proxy, &lines, "");
    CHECK(client.family == 6 || same(client, proxy) || is_named(&lines, client) ||
          memchr(text, '\\', lines.len) != NULL || memchr(text, ':', lines.len) != NULL);
    CHECK(same(ask(&proxies, stranger, &lines, ""), stranger));
    CHECK(same(ask(&proxies, proxy, &lines, "A: b\r\n"), client));
    CHECK(same(
        ask(&proxies, proxy, &lines,
            forwarded ? "forwarded:For=8.8.8.8;\r\n" : "x-forwarded-for: [::ffff:8.8.8.8]:1\r\n"),
        appended));
    /* Forwarded decides wherever it is. */
    if (!forwarded) {
        CHECK(same(ask(&proxies, proxy, &lines, "FORWARDED: for=8.8.8.8, for=10.2.2.2\r\n"),
                   appended));
    }
    (void)ask(proxies_parse(list, &drawn) == 0 ? &drawn : &proxies, proxy, &lines, "");
    return 0;
}
