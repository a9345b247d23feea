/*
 * One POST of JSON to somebody else's HTTP server, from a thread that may wait: bounded in time,
 * and ended early when the server stops. Plain http: what it leads to speaks for the shop to its
 * CDN, in that CDN's own language, and is where TLS begins.
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

/* 0: answered with a 2xx. ERR_IO with one line of text in ret_problem: not reached, refused, silent
 * for too long, or *stopping has become true, which looking a name up does not see. */
int hook_post(const struct hook *hook, struct span json, const _Atomic bool *stopping,
              char *ret_problem, size_t problem_cap);
/* The same at one of these addresses, the first that answers; for as long as this. */
struct addrinfo;
int hook_post_at(const struct hook *hook, const struct addrinfo *addresses, int64_t within_ms,
                 struct span json, const _Atomic bool *stopping, char *ret_problem,
                 size_t problem_cap);

#endif
