/*
 * One POST of JSON to another HTTP server, from a thread that may block. It is limited in time and
 * ends early when the server stops. Plain http: the receiver is a proxy of the shop, which speaks
 * the CDN's API and TLS.
 */
#ifndef SLUICE_APP_HOOK_H
#define SLUICE_APP_HOOK_H

#include <stdatomic.h>

#include "base/bytes.h"

struct hook {
    char host[256];
    char port[8];
    bool v6; /* the host is an IPv6 address */
    char path[640];
    char token[256]; /* sent as Authorization: Bearer; empty: none */
};

/* http://HOST[:PORT][/PATH]. ERR_INVALID. ret_hook may be NULL. */
int hook_parse(const char *url, struct hook *ret_hook);

#define HOOK_WITHIN_MS 10000

/* 0: answered with 2xx. ERR_IO with one line in ret_problem: not reached, refused, timed out, or
 * *stopping became true (not checked during the name lookup). */
int hook_post(const struct hook *hook, struct span json, const _Atomic bool *stopping,
              char *ret_problem, size_t problem_cap);
/* The same for a list of addresses, at the first that answers, within this time. */
struct addrinfo;
int hook_post_at(const struct hook *hook, const struct addrinfo *addresses, int64_t within_ms,
                 struct span json, const _Atomic bool *stopping, char *ret_problem,
                 size_t problem_cap);

#endif
