/*
 * The address of Redis, from its URL:
 *   redis://[user[:password]@]host[:port]                                one server
 *   sentinel://[user[:password]@]host[:port],host[:port],.../master      Sentinels; master's name
 *   cluster://[user[:password]@]host[:port],host[:port],...              some nodes of a cluster
 * User and password are those of the servers with the data. Without a user, the password is the
 * default user's (`:password@`). User, password and names may contain %XX. An IPv6 host is in
 * brackets.
 */
#ifndef SLUICE_BACKEND_REDIS_ADDRESS_H
#define SLUICE_BACKEND_REDIS_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#define REDIS_SEEDS_MAX 16

enum redis_kind { REDIS_SINGLE, REDIS_SENTINEL, REDIS_CLUSTER };

struct redis_seed {
    char host[256]; /* a name or a numeric address */
    uint16_t port;
};

struct redis_address {
    enum redis_kind kind;
    char user[128];     /* empty: the default user */
    char password[256]; /* empty: none */
    char master[128];   /* SENTINEL: its name there */
    struct redis_seed seeds[REDIS_SEEDS_MAX];
    uint32_t seed_count;
};

/* ERR_INVALID with the reason, which never shows the password. */
int redis_address_parse(const char *url, struct redis_address *ret_address, char *ret_error,
                        size_t capacity);

#endif
