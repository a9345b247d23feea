/*
 * The herald's part of `sluice serve`: its thread, and the way its cursor takes into the ledger. In
 * the distributed engine it has a lease and writes the cursor itself; in the embedded one it is
 * alone, and the office, which alone writes to the ledger, does it for desk 0.
 */
#ifndef SLUICE_APP_HERALDING_H
#define SLUICE_APP_HERALDING_H

#include "app/assembly.h"
#include "app/config.h"
#include "port/lease.h"

struct heralding;

/* The thread's own: ledger (with a lease a writer, else a reader) and lease, or NULL. seen is told
 * a few times a second how the connection to the broker is; NULL: this is the only one, and its
 * metric is written here. Errors are logged. */
int heralding_start(struct assembly *parts, const struct config *config, struct ledger *ledger,
                    struct lease_port *lease, void (*seen)(void *context, bool away),
                    void *seen_context, struct heralding **ret_heralding);
/* While the office still answers. NULL is fine, here and below. */
void heralding_stop(struct heralding *heralding);
void heralding_free(struct heralding *heralding);

#endif
