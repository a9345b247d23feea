/*
 * The thread of a front of the distributed engine that looks at servers for operators: how
 * segments, queue and leases are, once a second (flow/pulse.h), and what is parked, when asked
 * (flow/parking.h). It has connections of its own, and whatever it waits for nobody else does.
 */
#ifndef SLUICE_APP_PULSING_H
#define SLUICE_APP_PULSING_H

#include "app/engines.h"

struct pulsing;

/* Errors are logged. */
int pulsing_start(struct assembly *parts, struct engines *engines, struct places *places,
                  struct pulsing **ret_pulsing);
/* NULL is fine, here and below. */
void pulsing_stop(struct pulsing *pulsing);
void pulsing_free(struct pulsing *pulsing);

#endif
