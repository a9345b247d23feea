/*
 * Logs when a server (Redis, MariaDB, RabbitMQ) goes away and when it is back, once each, with the
 * server's own error text. Backends do not log; each thread reports the servers it uses, a few
 * times a second.
 *
 * Invariant: one line for each change. A flapping server is logged at most once in
 * OUTAGES_APART_MS; that line has its present state.
 */
#ifndef SLUICE_APP_OUTAGES_H
#define SLUICE_APP_OUTAGES_H

#include <stdbool.h>
#include <stdint.h>

#define OUTAGES_LOOK_MS 200
#define OUTAGES_APART_MS 5000

/* One server as one thread sees it. Zeroed: it is up. */
struct outage {
    bool away; /* as last logged */
    bool told; /* whether anything was logged yet */
    int64_t told_ms;
    int64_t look_ms;
};

/* Whether to check the server again now. */
bool outage_is_due(struct outage *outage, int64_t boot_ms);
/* Reports a check. server: "redis", "mariadb", "rabbitmq"; part: which of them, or the caller's
 * name. */
void outage_seen(struct outage *outage, const char *server, const char *part, bool away,
                 const char *words, int64_t boot_ms);

#endif
