/* See settings.h. */
#include "app/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct front_settings *settings_new(const struct config *config, const struct secrets *secrets,
                                    uint32_t connections)
{
    struct front_settings *settings = calloc(1, sizeof(*settings));
    if (settings == NULL) {
        return NULL;
    }
    settings->token_keys = secrets->token_keys;
    settings->ticket_keys = secrets->ticket_keys;
    memcpy(settings->webhook_key, secrets->webhook_key, sizeof(settings->webhook_key));
    (void)snprintf(settings->admin_token, sizeof(settings->admin_token), "%s",
                   secrets->admin_token);
    settings->token_leeway_ms = config->auth_leeway_s * 1000;
    settings->ticket_ttl_ms = config->ticket_ttl_s * 1000;
    settings->ticket_window_ms = config->ticket_window_s * 1000;
    settings->webhook_window_s = config->webhook_window_s;
    (void)snprintf(settings->cors_origins, sizeof(settings->cors_origins), "%s",
                   config->cors_origins);
    (void)snprintf(settings->login_url, sizeof(settings->login_url), "%s", config->page_login_url);
    settings->http = (struct http_options){
        .connections_max = connections,
        .small_buffers = (uint32_t)config->http_small_buffers,
        .large_buffers = (uint32_t)config->http_large_buffers,
        .header_timeout_ms = config->http_header_timeout_ms,
        .idle_timeout_ms = config->http_idle_timeout_ms,
        .write_timeout_ms = config->http_write_timeout_ms,
    };
    return settings;
}
