/* See net_address.h. */
#include "port/net_address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"

int net_address_parse(struct span text, struct net_address *ret_address)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    char copy[INET6_ADDRSTRLEN];
    uint8_t bytes[16] = {0};
    if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.at, '\0', text.len) != NULL) {
        return ERR_INVALID;
    }
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    struct net_address address = {.family = 4};
    if (inet_pton(AF_INET, copy, bytes) == 1) {
        memcpy(address.bytes, bytes, 4);
    } else if (inet_pton(AF_INET6, copy, bytes) != 1) {
        return ERR_INVALID;
    } else if (memcmp(bytes, mapped, sizeof(mapped)) == 0) {
        memcpy(address.bytes, bytes + 12, 4);
    } else {
        address.family = 6;
        memcpy(address.bytes, bytes, 16);
    }
    *ret_address = address;
    return 0;
}

int net_network_parse(struct span text, struct net_network *ret_network)
{
    const char *slash = text.len > 0 ? memchr(text.at, '/', text.len) : NULL;
    struct span ip = {text.at, slash == NULL ? text.len : (size_t)(slash - text.at)};
    struct net_address address;
    if (net_address_parse(ip, &address) != 0) {
        return ERR_INVALID;
    }
    bool written_as_6 = memchr(ip.at, ':', ip.len) != NULL;
    uint64_t written_bits = written_as_6 ? 128 : 32;
    if (slash != NULL && span_parse_u64((struct span){slash + 1, text.len - ip.len - 1},
                                        written_bits, &written_bits) != 0) {
        return ERR_INVALID;
    }
    uint64_t mapped_bits = written_as_6 && address.family == 4 ? 96 : 0;
    if (written_bits < mapped_bits) {
        return ERR_INVALID; /* more than the IPv4 addresses within IPv6 */
    }
    *ret_network =
        (struct net_network){.address = address, .bits = (uint8_t)(written_bits - mapped_bits)};
    return 0;
}

bool net_network_has(const struct net_network *network, const struct net_address *address)
{
    size_t whole = network->bits / 8;
    uint8_t rest = (uint8_t)(0xff00U >> network->bits % 8);
    return network->address.family == address->family &&
           memcmp(network->address.bytes, address->bytes, whole) == 0 &&
           (whole == sizeof(address->bytes) ||
            ((network->address.bytes[whole] ^ address->bytes[whole]) & rest) == 0);
}

bool net_network_mask(struct net_network *network)
{
    uint8_t *bytes = network->address.bytes;
    size_t whole = network->bits / 8;
    bool changed = false;
    for (size_t i = whole; i < sizeof(network->address.bytes); i++) {
        uint8_t keep = i == whole ? (uint8_t)(0xff00U >> network->bits % 8) : 0;
        changed = changed || (bytes[i] & ~keep) != 0;
        bytes[i] &= keep;
    }
    return changed;
}

void net_network_text(const struct net_network *network, char ret_text[NET_NETWORK_TEXT_MAX + 1])
{
    int family = network->address.family == 4 ? AF_INET : AF_INET6;
    char ip[INET6_ADDRSTRLEN];
    CHECK(inet_ntop(family, network->address.bytes, ip, sizeof(ip)) != NULL);
    bool one = network->bits == (family == AF_INET ? 32 : 128);
    int len = one ? snprintf(ret_text, NET_NETWORK_TEXT_MAX + 1, "%s", ip)
                  : snprintf(ret_text, NET_NETWORK_TEXT_MAX + 1, "%s/%u", ip, network->bits);
    CHECK(len > 0 && len <= NET_NETWORK_TEXT_MAX);
}
