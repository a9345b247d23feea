/*
 * The reconciler's thread in the embedded engine. distributed.h has the one of the distributed
 * engine.
 */
#ifndef SLUICE_APP_RECONCILER_THREAD_H
#define SLUICE_APP_RECONCILER_THREAD_H

#include "app/assembly.h"

struct reconciler_thread;

/* After assembly_join, before the loops run. ledger: a reader for this thread only. Errors are
 * logged. */
int reconciler_thread_start(struct assembly *parts, struct ledger *ledger, int64_t bound_ms,
                            struct reconciler_thread **ret_reconciler_thread);
/* After the loops have ended. NULL is fine, here and below. */
void reconciler_thread_stop(struct reconciler_thread *reconciler_thread);
void reconciler_thread_free(struct reconciler_thread *reconciler_thread);

#endif
