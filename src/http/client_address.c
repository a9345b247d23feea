/* See client_address.h. */
#include "http/client_address.h"

#include <string.h>

#include "base/err.h"
#include "http/parser.h"

/* ---- networks ---- */

int proxies_parse(const char *text, struct proxies *ret_proxies)
{
    ret_proxies->count = 0;
    for (text += strspn(text, " ,"); *text != '\0'; text += strspn(text, " ,")) {
        struct span entry = {text, strcspn(text, " ,")};
        if (ret_proxies->count == PROXIES_MAX ||
            net_network_parse(entry, &ret_proxies->networks[ret_proxies->count]) != 0) {
            return ERR_INVALID;
        }
        ret_proxies->count++;
        text += entry.len;
    }
    return 0;
}

static bool is_trusted(const struct proxies *proxies, const struct net_address *address)
{
    for (uint32_t i = 0; i < proxies->count; i++) {
        if (net_network_has(&proxies->networks[i], address)) {
            return true;
        }
    }
    return false;
}

/* ---- entries ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct span trim(struct span text)
{
    while (text.len > 0 && is_blank(text.at[0])) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && is_blank(text.at[text.len - 1])) {
        text.len--;
    }
    return text;
}

/* A port, which may be empty, is ":" and one to five digits or an obfuscated name of RFC 7239. */
static bool is_port(struct span text)
{
    static const char digits[] = "0123456789";
    static const char name[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._-";
    if (text.len == 0) {
        return true;
    }
    bool hidden = text.len > 2 && text.at[1] == '_';
    size_t from = hidden ? 2 : 1;
    if (text.at[0] != ':' || text.len == from || (!hidden && text.len > 6)) {
        return false;
    }
    for (size_t i = from; i < text.len; i++) {
        if (text.at[i] == '\0' || strchr(hidden ? name : digits, text.at[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* 192.0.2.1, 192.0.2.1:80, [2001:db8::1], [2001:db8::1]:80, or 2001:db8::1. */
static int parse_node(struct span node, struct net_address *ret_address)
{
    if (node.len > 0 && node.at[0] == '[') {
        const char *close = memchr(node.at, ']', node.len);
        size_t inside = close == NULL ? 0 : (size_t)(close - node.at) - 1;
        struct span ip = {node.at + 1, inside};
        if (close == NULL || memchr(ip.at, ':', ip.len) == NULL ||
            !is_port((struct span){close + 1, node.len - inside - 2})) {
            return ERR_INVALID;
        }
        return net_address_parse(ip, ret_address);
    }
    const char *colon = node.len > 0 ? memchr(node.at, ':', node.len) : NULL;
    size_t before = colon == NULL ? node.len : (size_t)(colon - node.at);
    bool has_port =
        colon != NULL && memchr(colon + 1, ':', node.len - before - 1) == NULL; /* not IPv6 */
    if (!has_port) {
        return net_address_parse(node, ret_address);
    }
    return is_port((struct span){colon, node.len - before})
               ? net_address_parse((struct span){node.at, before}, ret_address)
               : ERR_INVALID;
}

/* The length of the value at the start of text, up to ';': a token or a quoted string, which is
 * written to ret_value without its quotes. SIZE_MAX: malformed. */
static size_t forwarded_value(struct span text, char *ret_value, size_t cap, size_t *ret_len)
{
    size_t at = 0;
    size_t len = 0;
    bool quoted = text.len > 0 && text.at[0] == '"';
    for (at = quoted; at < text.len && text.at[at] != (quoted ? '"' : ';'); at++) {
        if (quoted && text.at[at] == '\\' && ++at == text.len) {
            return SIZE_MAX;
        }
        if (!quoted && (text.at[at] == '"' || is_blank(text.at[at]))) {
            return SIZE_MAX;
        }
        if (len < cap) {
            ret_value[len] = text.at[at];
        }
        len++;
    }
    if (quoted && (at == text.len || (++at < text.len && text.at[at] != ';'))) {
        return SIZE_MAX; /* not closed, or something behind it */
    }
    *ret_len = len;
    return at;
}

/* One element of Forwarded: "for=192.0.2.1;proto=https;by=_proxy". */
static int parse_forwarded(struct span element, struct net_address *ret_address)
{
    char node[64];
    size_t node_len = 0;
    bool found = false;
    while (element.len > 0) {
        const char *equals = memchr(element.at, '=', element.len);
        if (equals == NULL) {
            return ERR_INVALID;
        }
        char value[sizeof(node)];
        size_t value_len = 0;
        size_t name_len = (size_t)(equals - element.at);
        struct span name = trim((struct span){element.at, name_len}); /* "for=a; by=b" */
        struct span rest = {equals + 1, element.len - name_len - 1};
        size_t taken = forwarded_value(rest, value, sizeof(value), &value_len);
        if (taken == SIZE_MAX) {
            return ERR_INVALID;
        }
        if (span_equal_nocase(name, span_of("for"))) {
            if (found || value_len > sizeof(node)) {
                return ERR_INVALID;
            }
            memcpy(node, value, value_len);
            node_len = value_len;
            found = true;
        }
        taken += taken < rest.len; /* the ';' */
        element = (struct span){rest.at + taken, rest.len - taken};
    }
    return found ? parse_node((struct span){node, node_len}, ret_address) : ERR_INVALID;
}

/* ---- the list ---- */

/* Where the last entry of a line begins: behind the last comma outside of quotes. It is searched from
 * the end, so that a quote which a client left open does not hide what a proxy has appended. */
static size_t last_entry(struct span line, bool quotes)
{
    bool inside = false;
    for (size_t at = line.len; at > 0; at--) {
        char c = line.at[at - 1];
        if (quotes && c == '"') {
            size_t escapes = 0;
            while (inside && escapes < at - 1 && line.at[at - 2 - escapes] == '\\') {
                escapes++;
            }
            inside = escapes % 2 == 0 ? !inside : inside;
        } else if (c == ',' && !inside) {
            return at;
        }
    }
    return 0;
}

/* The values of all header lines of this name, in order. */
static size_t find_lines(struct span head, struct span name,
                         struct span ret_lines[HTTP_HEADER_LINES_MAX])
{
    size_t count = 0;
    const char *end = head.at + head.len;
    const char *at = head.len > 0 ? memchr(head.at, '\n', head.len) : NULL; /* the request line */
    while (at != NULL && ++at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t len = line_end == NULL ? (size_t)(end - at) : (size_t)(line_end - at);
        if (len > name.len && at[name.len] == ':' && count < HTTP_HEADER_LINES_MAX &&
            span_equal_nocase((struct span){at, name.len}, name)) {
            size_t cr = at[len - 1] == '\r';
            ret_lines[count++] = trim((struct span){at + name.len + 1, len - name.len - 1 - cr});
        }
        at = line_end;
    }
    return count;
}

struct net_address client_address(const struct proxies *proxies, struct net_address peer,
                                  struct span head)
{
    struct span lines[HTTP_HEADER_LINES_MAX];
    if (proxies->count == 0 || !is_trusted(proxies, &peer)) {
        return peer;
    }
    size_t count = find_lines(head, span_of("forwarded"), lines);
    bool forwarded = count > 0;
    if (!forwarded) {
        count = find_lines(head, span_of("x-forwarded-for"), lines);
    }
    struct net_address client = peer;
    for (size_t i = count; i-- > 0;) {
        struct span line = lines[i];
        while (line.len > 0) {
            size_t from = last_entry(line, forwarded);
            struct span entry = trim((struct span){line.at + from, line.len - from});
            line.len = from > 0 ? from - 1 : 0;
            if (entry.len == 0) {
                continue; /* a list may have empty entries */
            }
            if ((forwarded ? parse_forwarded : parse_node)(entry, &client) != 0 ||
                !is_trusted(proxies, &client)) {
                return client;
            }
        }
    }
    return client;
}
