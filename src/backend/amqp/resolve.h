/*
 * Resolves a host. A numeric address is ready at once. A name is resolved by glibc's own thread,
 * because a name server that does not answer must not block ours.
 */
#ifndef SLUICE_BACKEND_AMQP_RESOLVE_H
#define SLUICE_BACKEND_AMQP_RESOLVE_H

#include <netdb.h>
#include <stdint.h>

struct resolve;

/* ERR_NOMEM. */
int resolve_start(const char *host, uint16_t port, struct resolve **ret_resolve);
/* 0: found, valid until resolve_end; ERR_AGAIN: not yet; ERR_NOTFOUND with the reason. */
int resolve_look(struct resolve *resolve, const struct addrinfo **ret_list,
                 const char **ret_reason);
/* Gives up, or frees the answer. NULL is fine. */
void resolve_end(struct resolve *resolve);

#endif
