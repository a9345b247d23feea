/*
 * A network in memory, for tests: port/net.h without sockets, with the peer's side in the test's
 * hands. Level-triggered like the real one. Fails the process where the server breaks the port's
 * rules (uses a closed connection, watches for what is not there).
 */
#ifndef SLUICE_TEST_MEMORY_NET_H
#define SLUICE_TEST_MEMORY_NET_H

#include "base/bytes.h"
#include "port/net.h"

struct memory_net_counts {
    uint32_t reads;
    uint32_t writes;
    uint32_t watches;
};

struct net *memory_net_new(uint32_t connections_max);
void memory_net_free(struct net *net);

/* The peer's side. A connection number is valid until the server has closed it. */
uint32_t memory_net_connect(struct net *net);
void memory_net_send(struct net *net, uint32_t connection, struct span bytes);
void memory_net_fin(struct net *net, uint32_t connection);   /* the peer sends no more */
void memory_net_reset(struct net *net, uint32_t connection); /* the peer is gone */
/* How many more bytes the socket takes; it takes all at first. */
void memory_net_window(struct net *net, uint32_t connection, size_t bytes);
/* All the server wrote and the test has not taken yet; valid until the next call. Also after the
 * server closed the connection, until its number is used again. */
struct span memory_net_take(struct net *net, uint32_t connection);
bool memory_net_finished(struct net *net, uint32_t connection); /* the server's side is closed */
bool memory_net_closed(struct net *net, uint32_t connection);
bool memory_net_accepting(struct net *net);
size_t memory_net_unread(struct net *net, uint32_t connection);
struct memory_net_counts memory_net_counts(struct net *net);
/* The timeout of the last poll. */
int64_t memory_net_timeout_us(struct net *net);

#endif
