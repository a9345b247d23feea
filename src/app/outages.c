/* See outages.h. */
#include "app/outages.h"

#include "obs/log.h"

bool outage_is_due(struct outage *outage, int64_t boot_ms)
{
    if (boot_ms < outage->look_ms) {
        return false;
    }
    outage->look_ms = boot_ms + OUTAGES_LOOK_MS;
    return true;
}

void outage_seen(struct outage *outage, const char *server, const char *part, bool away,
                 const char *words, int64_t boot_ms)
{
    if (away == outage->away || (outage->told && boot_ms - outage->told_ms < OUTAGES_APART_MS)) {
        return;
    }
    outage->away = away;
    outage->told = true;
    outage->told_ms = boot_ms;
    if (away) {
        log_event(LOG_WARN, "server.away", LOG_STR("server", server), LOG_STR("for", part),
                  LOG_STR("words", words));
    } else {
        log_event(LOG_INFO, "server.back", LOG_STR("server", server), LOG_STR("for", part));
    }
}
