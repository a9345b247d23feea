/* See settings.h. */
#include "app/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/err.h"

/* The wall clock: the program's own time is not known before the journal is open. */
static int64_t wall_us(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static struct api_settings *settings_new(const struct config *config, const struct secrets *secrets,
                                         uint32_t connections)
{
    struct api_settings *settings = calloc(1, sizeof(*settings));
    if (settings == NULL) {
        return NULL;
    }
    settings->token_keys = secrets->token_keys;
    settings->ticket_keys = secrets->ticket_keys;
    memcpy(settings->webhook_key, secrets->webhook_key, sizeof(settings->webhook_key));
    settings->webhook_key_len = secrets->webhook_key_len;
    (void)snprintf(settings->admin_token, sizeof(settings->admin_token), "%s",
                   secrets->admin_token);
    settings->token_leeway_ms = config->auth_leeway_s * 1000;
    settings->ticket_ttl_ms = config->ticket_ttl_s * 1000;
    settings->ticket_window_ms = config->ticket_window_s * 1000;
    settings->late_cancel_ms = config->order_late_cancel_s * 1000;
    settings->cooling_ms = config->order_cooling_s * 1000;
    settings->webhook_window_s = config->webhook_window_s;
    CHECK(proxies_parse(config->server_trusted_proxies, &settings->trusted_proxies) == 0);
    (void)snprintf(settings->cors_origins, sizeof(settings->cors_origins), "%s",
                   config->cors_origins);
    (void)snprintf(settings->login_url, sizeof(settings->login_url), "%s", config->page_login_url);
    settings->http = (struct http_options){
        .connections_max = connections,
        .address_max =
            (uint32_t)(((uint64_t)connections * (uint64_t)config->server_address_share + 99) / 100),
        .small_buffers = (uint32_t)config->http_small_buffers,
        .large_buffers = (uint32_t)config->http_large_buffers,
        .reserved_buffers = (uint32_t)config->http_reserved_buffers,
        .unsent_max = (size_t)config->http_unsent_mib << 20,
        .header_timeout_ms = config->http_header_timeout_ms,
        .idle_timeout_ms = config->http_idle_timeout_ms,
        .write_timeout_ms = config->http_write_timeout_ms,
    };
    return settings;
}

/* Frees the settings that no loop uses any more. */
static void free_old(const struct api_shared *shared, struct api_settings *newest)
{
    uint64_t oldest = newest->number;
    for (uint32_t i = 0; i < shared->loops; i++) {
        uint64_t seen = atomic_load(&shared->settings_seen[i]);
        oldest = seen < oldest ? seen : oldest;
    }
    struct api_settings *kept = newest;
    while (kept->older != NULL && kept->older->number >= oldest) {
        kept = kept->older;
    }
    settings_free(kept->older);
    kept->older = NULL;
}

int settings_publish(struct api_shared *shared, struct api_settings **newest,
                     const struct config *config, const struct secrets *secrets,
                     const struct limit_memory *limit_memory, uint32_t connections)
{
    struct api_settings *settings = settings_new(config, secrets, connections);
    if (settings == NULL) {
        return ERR_NOMEM;
    }
    struct limit_rule rules[LIMIT_RULES_MAX];
    uint32_t count = config_limits_rules(&config->limits, rules);
    int error = limits_new(rules, count, *newest != NULL ? (*newest)->limits : NULL, limit_memory,
                           wall_us(), &settings->limits);
    if (error != 0) {
        free(settings);
        return error;
    }
    settings->limit_calls = limits_calls(settings->limits);
    settings->older = *newest;
    settings->number = *newest != NULL ? (*newest)->number + 1 : 0;
    *newest = settings;
    atomic_store(&shared->settings, settings);
    free_old(shared, settings);
    return 0;
}

void settings_free(struct api_settings *newest)
{
    while (newest != NULL) {
        struct api_settings *older = newest->older;
        limits_free(newest->limits);
        free(newest);
        newest = older;
    }
}

void settings_runtime_limits(struct runtime_limits *runtime_limits, const struct config *config)
{
    atomic_store(&runtime_limits->line, config->spool_line);
    atomic_store(&runtime_limits->line_ms, config->spool_line_s * 1000);
    atomic_store(&runtime_limits->stale_ms, config->relay_stale_s * 1000);
    atomic_store(&runtime_limits->direct_after_ms, config->relay_direct_after_s * 1000);
    atomic_store(&runtime_limits->direct_outbox, config->relay_direct_outbox);
    atomic_store(&runtime_limits->direct_rate, config->relay_direct_rate);
}
