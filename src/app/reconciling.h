/*
 * The reconciler's thread of a server whose gate is in its own process. (The distributed engine has
 * its own: distributed.h.)
 */
#ifndef SLUICE_APP_RECONCILING_H
#define SLUICE_APP_RECONCILING_H

#include "app/assembly.h"

struct reconciling;

/* After assembly_join, before the loops run. ledger: a reader for this thread alone. Errors are
 * logged. */
int reconciling_start(struct assembly *parts, struct ledger *ledger, int64_t bound_ms,
                      struct reconciling **ret_reconciling);
/* After the loops have ended. NULL is fine, here and below. */
void reconciling_stop(struct reconciling *reconciling);
void reconciling_free(struct reconciling *reconciling);

#endif
