/*
 * The address of the client behind proxies of the shop.
 *
 * A request's client is its peer. If the peer is a trusted proxy, the client is the nearest address of
 * the header Forwarded (RFC 7239) that is no trusted proxy; X-Forwarded-For counts only where
 * Forwarded is missing. Several lines of a header are one list, in order. The list is read from its end,
 * because proxies append to it and a client can write only its beginning.
 *
 * What can go wrong: an entry is malformed, or names no address ("unknown", "_hidden"). The walk ends
 * there, and the client is the last trusted hop. So a client can only hide behind the proxy that it
 * used, never behind another client.
 *
 * Threads: any.
 */
#ifndef SLUICE_HTTP_CLIENT_ADDRESS_H
#define SLUICE_HTTP_CLIENT_ADDRESS_H

#include "base/bytes.h"
#include "port/net_address.h"

#define PROXIES_MAX 64U

/* Addresses and networks of trusted proxies. All zero: none. */
struct proxies {
    uint32_t count;
    struct net_network networks[PROXIES_MAX];
};

/* Reads "127.0.0.1, 10.0.0.0/8 fd00::/8": separated by commas or spaces, may be empty. 0, or
 * ERR_INVALID; ret_proxies is then undefined. */
int proxies_parse(const char *text, struct proxies *ret_proxies);

/* head: the request line and the header lines of a request that the parser has accepted
 * (struct http_request). */
struct net_address client_address(const struct proxies *proxies, struct net_address peer,
                                  struct span head);

#endif
