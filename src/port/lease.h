/*
 * Leases: the right to do a job that only one process may do at a time. A lease has a name, a
 * holder, an end, and a token that grows with every new holder. The ledger issues the token. Writes
 * to the ledger under the lease and the rebuild of a segment carry it. The ledger and the gate refuse
 * a token lower than one they have seen, so a holder that was paused past the end of its lease changes
 * nothing (promise 11). What changes nothing when it is repeated or comes late, by its id or number and its
 * epoch, needs no token: ledger events, and units that a transfer takes (distributed/balance.h).
 *
 * An instance belongs to one thread. Every call may block, up to its timeout.
 */
#ifndef SLUICE_PORT_LEASE_H
#define SLUICE_PORT_LEASE_H

#include <stdint.h>

#define LEASE_NAME_MAX 64

struct lease_port;
struct lease_ops {
    /* Takes the lease for ttl_ms from now, by the clock of the server that keeps it. If the lease
     * is already ours, extends it and keeps the token. ERR_BUSY: another process holds it; ERR_IO:
     * not known, act as if it were not ours. */
    int (*take)(struct lease_port *port, const char *name, int64_t ttl_ms, uint64_t *ret_token);
    /* Gives the lease up, best effort: it ends by itself. */
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
