/* See address.h. */
#include "backend/redis/address.h"

#include <stdio.h>

#include "base/err.h"
#include "base/url.h"

static const struct {
    const char *scheme;
    enum redis_kind kind;
    uint16_t port;
} schemes[] = {
    {"redis://", REDIS_SINGLE, 6379},
    {"sentinel://", REDIS_SENTINEL, 26379},
    {"cluster://", REDIS_CLUSTER, 6379},
};

static const char *parse_login(struct span login, struct redis_address *address)
{
    if (login.len > 0 && login.at[0] == ':') {
        struct span password = {login.at + 1, login.len - 1};
        return url_decode(password, address->password, sizeof(address->password))
                   ? NULL
                   : "the password is malformed (special characters are written %XX)";
    }
    return url_login(login, address->user, sizeof(address->user), address->password,
                     sizeof(address->password));
}

static const char *parse_seeds(struct span rest, uint16_t port, struct redis_address *address)
{
    for (bool more = true; more;) {
        struct span one;
        more = url_cut(&rest, ',', false, &one);
        if (address->seed_count == REDIS_SEEDS_MAX) {
            return "too many hosts";
        }
        struct redis_seed *seed = &address->seeds[address->seed_count++];
        const char *wrong =
            url_host(more ? one : rest, port, seed->host, sizeof(seed->host), &seed->port);
        if (wrong != NULL) {
            return wrong;
        }
    }
    return NULL;
}

/* Returns what is wrong, or NULL. */
static const char *parse(const char *url, struct redis_address *address)
{
    size_t i = 0;
    while (i < sizeof(schemes) / sizeof(schemes[0]) &&
           strncmp(url, schemes[i].scheme, strlen(schemes[i].scheme)) != 0) {
        i++;
    }
    if (i == sizeof(schemes) / sizeof(schemes[0])) {
        return "it must begin with redis://, sentinel:// or cluster://";
    }
    address->kind = schemes[i].kind;
    struct span rest = span_of(url + strlen(schemes[i].scheme));
    struct span login;
    struct span hosts;
    if (url_cut(&rest, '@', true, &login)) {
        const char *wrong = parse_login(login, address);
        if (wrong != NULL) {
            return wrong;
        }
    }
    bool named = url_cut(&rest, '/', false, &hosts);
    if (address->kind == REDIS_SENTINEL) {
        if (!named || rest.len == 0 ||
            !url_decode(rest, address->master, sizeof(address->master))) {
            return "the name of the master is missing: sentinel://.../name";
        }
    } else if (named && rest.len > 0) {
        return "there is nothing behind the hosts (every segment is in database 0)";
    }
    const char *wrong = parse_seeds(named ? hosts : rest, schemes[i].port, address);
    if (wrong == NULL && address->kind == REDIS_SINGLE && address->seed_count > 1) {
        return "one server is one host; several are sentinel:// or cluster://";
    }
    return wrong;
}

int redis_address_parse(const char *url, struct redis_address *ret_address, char *ret_error,
                        size_t capacity)
{
    struct redis_address address = {.seed_count = 0};
    const char *wrong = parse(url, &address);
    if (wrong != NULL) {
        (void)snprintf(ret_error, capacity,
                       "Redis's URL is not redis://[user[:password]@]host[:port], "
                       "sentinel://...host:port,.../master or cluster://...host:port,...: %s",
                       wrong);
        return ERR_INVALID;
    }
    *ret_address = address;
    return 0;
}
