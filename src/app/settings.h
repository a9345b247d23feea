/*
 * From configuration and secrets to what the fronts use; made anew as a whole on SIGHUP. The newest
 * settings are published; older ones stay linked behind them until no loop uses them.
 *
 * Called by the main thread only.
 */
#ifndef SLUICE_APP_SETTINGS_H
#define SLUICE_APP_SETTINGS_H

#include "api/api.h"
#include "app/config.h"
#include "app/secrets.h"
#include "distributed/runtime_limits.h"

/* ERR_NOMEM: everything stays as it was. connections: of each loop, as the file limit allows. */
int settings_publish(struct api_shared *shared, struct api_settings **newest,
                     const struct config *config, const struct secrets *secrets,
                     uint32_t connections);
/* Frees them all; NULL is fine. No loop runs any more. */
void settings_free(struct api_settings *newest);

/* How far the distributed engine gives way; whoever uses the runtime limits sees each new value at once. */
void settings_runtime_limits(struct runtime_limits *runtime_limits, const struct config *config);

#endif
