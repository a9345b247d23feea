/*
 * The memory that the program's limits allow, by part. It is reserved address space, used as needed.
 */
#ifndef SLUICE_APP_MEMORY_BOUNDS_H
#define SLUICE_APP_MEMORY_BOUNDS_H

#include "app/config.h"
#include "core/gate.h"
#include "http/server.h"

/* Logs it. loops: event loops; connections: of each. */
void memory_bounds_log(const struct config *config, struct gate_sizes sizes,
                       const struct http_options *http, uint32_t loops, uint32_t connections);

#endif
