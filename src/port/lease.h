/*
 * Leases: who may do what only one may do. A lease has a name, a holder, an end, and a token that
 * grows with every new holder. The token comes from the ledger whatever keeps the lease, and goes
 * with every write made under it: the ledger and the gate refuse a lower one than they have seen,
 * so that a holder who was paused past his lease's end changes nothing (promise 11).
 *
 * An instance belongs to one thread. Every call may wait, no longer than its timeout.
 */
#ifndef SLUICE_PORT_LEASE_H
#define SLUICE_PORT_LEASE_H

#include <stdint.h>

#define LEASE_NAME_MAX 64

struct lease_port;
struct lease_ops {
    /* Takes the lease, or keeps it if it is ours (then the token stays): for ttl_ms from now, by the
     * clock of whoever keeps it. 0; ERR_BUSY: somebody else's; ERR_IO: not known, act as if not ours. */
    int (*take)(struct lease_port *port, const char *name, int64_t ttl_ms, uint64_t *ret_token);
    /* Gives it up; best effort, it ends by itself. */
    void (*drop)(struct lease_port *port, const char *name);
};
struct lease_port {
    const struct lease_ops *ops;
};
static inline int lease_take(struct lease_port *p, const char *name, int64_t ttl_ms,
                             uint64_t *ret_token)
{
    return p->ops->take(p, name, ttl_ms, ret_token);
}
static inline void lease_drop(struct lease_port *p, const char *name)
{
    p->ops->drop(p, name);
}

#endif
