/* See errors.h. */
#include "backend/redis/errors.h"

#include "base/url.h"

/* Errors that Redis returns instead of running a script. */
static const struct {
    const char *text;
    bool suspect;
    bool useless;
} before[] = {
    {"NOSCRIPT ", false, false},  {"LOADING ", true, false},     {"READONLY ", true, true},
    {"MASTERDOWN ", true, false}, {"CLUSTERDOWN ", true, false}, {"MOVED ", true, false},
    {"ASK ", false, false},       {"TRYAGAIN ", false, false},   {"NOREPLICAS ", false, false},
    {"OOM ", false, false},       {"MISCONF ", false, false},    {"BUSY ", false, false},
    {"NOAUTH ", false, true},     {"NOPERM ", false, false},     {"CROSSSLOT ", false, false},
};

bool error_begins(struct span text, const char *with)
{
    size_t len = strlen(with);
    return text.len >= len && memcmp(text.at, with, len) == 0;
}

static bool holds(struct span text, const char *what)
{
    size_t len = strlen(what);
    for (size_t i = 0; i + len <= text.len; i++) {
        if (memcmp(text.at + i, what, len) == 0) {
            return true;
        }
    }
    return false;
}

struct redis_error error_read(struct span text)
{
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        if (error_begins(text, before[i].text)) {
            return (struct redis_error){REDIS_NOT_ASKED, before[i].suspect, before[i].useless};
        }
    }
    /* The second: the slot is being moved, and the script met a key that is no longer here. It may
     * have stopped halfway. */
    bool broken = error_begins(text, "BROKEN ") || holds(text, "access a non local key");
    return (struct redis_error){.outcome = broken ? REDIS_BROKEN : REDIS_NOT_KNOWN};
}

/* "MOVED 3999 127.0.0.1:6381", "ASK 3999 ::1:6381", "MOVED 3999 :6381" (the same host). */
bool error_redirect(struct span text, const char *own_host, struct redis_redirect *ret_to)
{
    struct redis_redirect to = {.request = error_begins(text, "ASK ")};
    struct span word;
    uint64_t slot = 0;
    uint64_t port = 0;
    if (!to.request && !error_begins(text, "MOVED ")) {
        return false;
    }
    /* Redis writes IPv6 addresses without brackets: the last colon is the port's. */
    if (!url_cut(&text, ' ', false, &word) || !url_cut(&text, ' ', false, &word) ||
        span_parse_u64(word, UINT16_MAX, &slot) != 0 || !url_cut(&text, ':', true, &word) ||
        span_parse_u64(text, UINT16_MAX, &port) != 0 || port == 0) {
        return false;
    }
    struct span host = word.len > 0 ? word : span_of(own_host);
    if (host.len >= sizeof(to.host)) {
        return false;
    }
    memcpy(to.host, host.at, host.len);
    to.slot = (uint32_t)slot;
    to.port = (uint16_t)port;
    *ret_to = to;
    return true;
}
