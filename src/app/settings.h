/*
 * From configuration and secrets to what the fronts use; made anew as a whole on SIGHUP. The newest
 * settings are published; older ones stay linked behind them until no loop uses them.
 *
 * Called by the main thread only.
 */
#ifndef SLUICE_APP_SETTINGS_H
#define SLUICE_APP_SETTINGS_H

#include "app/config.h"
#include "app/secrets.h"
#include "flow/dials.h"
#include "http/front.h"

/* ERR_NOMEM: everything stays as it was. connections: of each loop, as the file limit allows. */
int settings_publish(struct front_shared *shared, struct front_settings **newest,
                     const struct config *config, const struct secrets *secrets,
                     uint32_t connections);
/* Frees them all; NULL is fine. No loop runs any more. */
void settings_free(struct front_settings *newest);

/* How far the distributed engine gives way; whoever uses the dials sees each new value at once. */
void settings_dials(struct dials *dials, const struct config *config);

#endif
