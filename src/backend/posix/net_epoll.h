/*
 * The network of port/net.h on epoll and TCP sockets.
 *
 * A process opens one listener for all its loops, and then one net for each loop. Every loop has
 * its own socket on the same port (SO_REUSEPORT), and the kernel spreads connections over them.
 * With that option a second server could join silently, so the address is first bound without it: a
 * port in use is ERR_BUSY.
 */
#ifndef SLUICE_BACKEND_POSIX_NET_EPOLL_H
#define SLUICE_BACKEND_POSIX_NET_EPOLL_H

#include "port/net.h"

struct net_listener;

/*
 * Opens sockets for this many loops on "1.2.3.4:80" or "[::1]:80"; port 0: the system chooses.
 * Connections queue from now on. ERR_INVALID: not an address. ERR_BUSY: in use. ERR_NOTFOUND: not
 * an address of this machine. ERR_IO: anything else (no permission, no descriptors), with errno
 * set.
 */
int net_epoll_listen(const char *address_port, uint32_t loops, struct net_listener **ret_listener);
uint16_t net_listener_port(const struct net_listener *listener);
/* Sockets not taken by a net_epoll_new are closed. NULL is fine. */
void net_listener_free(struct net_listener *listener);

/* The net of one loop. Takes over the listener's socket of that number and accepts. Memory is used
 * only as connections come. ERR_NOMEM, ERR_IO. */
int net_epoll_new(struct net_listener *listener, uint32_t loop, uint32_t connections_max,
                  struct net **ret_net);
/* Connections get descriptors below this number only; the others stay free for files. As long as one
 * would not, accepting pauses, for 0.1 s each time. */
void net_epoll_files(struct net *net, int files);
/* net_poll also ends its wait while this descriptor is readable. It is not reported; the caller
 * owns it. ERR_IO. */
int net_epoll_also(struct net *net, int fd);
/* Closes all connections. NULL is fine. */
void net_epoll_free(struct net *net);

#endif
