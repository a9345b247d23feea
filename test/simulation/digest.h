/* A number for everything a gate holds, whatever the order it came in. */
#ifndef SLUICE_SIM_DIGEST_H
#define SLUICE_SIM_DIGEST_H

#include "core/gate.h"

uint64_t gate_digest(const struct gate *gate);

#endif
