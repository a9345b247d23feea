/* Addresses and networks as texts: what operators write into settings and calls. Any thread. */
#ifndef SLUICE_PORT_NET_ADDRESS_H
#define SLUICE_PORT_NET_ADDRESS_H

#include "base/bytes.h"
#include "port/net.h"

/* The longest text of a network, "xxxx:…:xxxx/128". */
#define NET_NETWORK_TEXT_MAX 43

/* All addresses that begin with the same `bits`. */
struct net_network {
    struct net_address address;
    uint8_t bits; /* 32 or 128: one address */
};

/* IPv4 within IPv6 becomes IPv4, as the network reports a peer. 0 or ERR_INVALID. */
int net_address_parse(struct span text, struct net_address *ret_address);
/* "10.0.0.0/8", "fd00::/8", or an address. Bits behind the prefix may be set. 0 or ERR_INVALID. */
int net_network_parse(struct span text, struct net_network *ret_network);
bool net_network_has(const struct net_network *network, const struct net_address *address);
/* Clears the bits behind the prefix. False: there were none. */
bool net_network_mask(struct net_network *network);
/* The one way to write the network; a single address without its prefix length. */
void net_network_text(const struct net_network *network, char ret_text[NET_NETWORK_TEXT_MAX + 1]);

#endif
