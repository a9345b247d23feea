/*
 * Connections by client address: a table of counts with a limit for each address. An IPv6 address
 * counts by its /64, which is what one client has.
 *
 * The table has room for twice the connections, so it is never full. A client cannot choose where
 * its address is: the hash has a random seed.
 *
 * Threads: the loop's own.
 */
#ifndef SLUICE_HTTP_ADDRESSES_H
#define SLUICE_HTTP_ADDRESSES_H

#include "port/net.h"

struct address_counts;

/* Bytes of memory for so many connections. */
size_t address_counts_bytes(uint32_t connections);
/* max: the connections of one address. NULL: no memory. */
struct address_counts *address_counts_new(uint32_t connections, uint32_t max);
void address_counts_free(struct address_counts *counts);
/* Counts one more connection. False: the address has its share, and nothing changes. An unknown
 * address is not counted. */
bool address_counts_add(struct address_counts *counts, struct net_address address);
/* One that was added is closed. */
void address_counts_remove(struct address_counts *counts, struct net_address address);

#endif
