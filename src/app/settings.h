/* From configuration and secrets to what the fronts use; rebuilt whole on SIGHUP. */
#ifndef SLUICE_APP_SETTINGS_H
#define SLUICE_APP_SETTINGS_H

#include "app/config.h"
#include "app/secrets.h"
#include "http/front.h"

/* NULL: no memory. The caller frees it. connections: of each loop, as the file limit allows. */
struct front_settings *settings_new(const struct config *config, const struct secrets *secrets,
                                    uint32_t connections);

#endif
