/*
 * Turns configuration and secrets into the settings of the fronts; built again as a whole on
 * SIGHUP. The newest settings are published. Older ones stay linked behind them until no loop uses
 * them.
 *
 * Called by the main thread only.
 */
#ifndef SLUICE_APP_SETTINGS_H
#define SLUICE_APP_SETTINGS_H

#include "api/api.h"
#include "app/config.h"
#include "app/secrets.h"
#include "distributed/runtime_limits.h"

/* ERR_NOMEM: nothing changed. connections: for each loop, as the file limit allows.
 * limit_memory: for the tables of rate limits; it outlives the settings. */
int settings_publish(struct api_shared *shared, struct api_settings **newest,
                     const struct config *config, const struct secrets *secrets,
                     const struct limit_memory *limit_memory, uint32_t connections);
/* Frees all of them; NULL is fine. No loop runs any more. */
void settings_free(struct api_settings *newest);

/* Limits of the distributed engine that may change at run time. New values take effect at once. */
void settings_runtime_limits(struct runtime_limits *runtime_limits, const struct config *config);

#endif
