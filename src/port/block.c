/* See block.h. */
#include "port/block.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/limits.h"

static const char *const texts[BLOCK_KIND_COUNT] = {"none",
#define X(name, text) text,
                                                    BLOCK_KINDS(X)
#undef X
};

const char *block_kind_text(enum block_kind kind)
{
    CHECK((unsigned)kind < BLOCK_KIND_COUNT);
    return texts[kind];
}

int block_kind_parse(struct span text, enum block_kind *ret_kind)
{
    for (unsigned kind = BLOCK_NONE + 1; kind < BLOCK_KIND_COUNT; kind++) {
        if (span_is(text, texts[kind])) {
            *ret_kind = (enum block_kind)kind;
            return 0;
        }
    }
    return ERR_INVALID;
}

static const char *read_user(struct span text, char *ret_value)
{
    uint64_t user = 0;
    if (span_parse_u64(text, ID_MAX, &user) != 0 || user == 0) {
        return "a user is a whole number from 1 to 9007199254740991";
    }
    memcpy(ret_value, text.at, text.len);
    ret_value[text.len] = '\0';
    return NULL;
}

static const char *read_network(struct span text, char *ret_value)
{
    struct net_network network;
    if (net_network_parse(text, &network) != 0) {
        return "must be an address or a prefix, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32";
    }
    if (net_network_mask(&network)) {
        return "the address has bits behind its prefix; write 10.0.0.0/8, not 10.1.2.3/8";
    }
    _Static_assert(NET_NETWORK_TEXT_MAX <= BLOCK_VALUE_MAX, "a network fits");
    net_network_text(&network, ret_value);
    return NULL;
}

/* As a header can carry it: no control characters, no blanks around it. */
static const char *read_device(struct span text, char *ret_value)
{
    bool good = text.len >= 1 && text.len <= BLOCK_VALUE_MAX && span_is_utf8(text);
    for (size_t i = 0; good && i < text.len; i++) {
        good = (unsigned char)text.at[i] >= ' ' && text.at[i] != 0x7f;
    }
    if (!good || text.at[0] == ' ' || text.at[text.len - 1] == ' ') {
        return "a device is 1 to 64 characters, as in the header Sluice-Device";
    }
    memcpy(ret_value, text.at, text.len);
    ret_value[text.len] = '\0';
    return NULL;
}

const char *block_value_read(enum block_kind kind, struct span text,
                             char ret_value[BLOCK_VALUE_MAX + 1])
{
    switch (kind) {
    case BLOCK_USER:
        return read_user(text, ret_value);
    case BLOCK_ADDRESS:
        return read_network(text, ret_value);
    case BLOCK_DEVICE:
        return read_device(text, ret_value);
    default:
        return "no such kind";
    }
}
