/*
 * Says in the log when a server of others goes away and when it is back, once each, in the server's
 * own words: backends do not log, and what they know stays with them unless somebody asks. Each
 * thread asks about the servers it uses, a few times a second.
 *
 * What stays true: one line for each change, and a server that flaps is told of at most once in
 * OUTAGES_APART_MS; the line then tells how it is, not how it was.
 */
#ifndef SLUICE_APP_OUTAGES_H
#define SLUICE_APP_OUTAGES_H

#include <stdbool.h>
#include <stdint.h>

#define OUTAGES_LOOK_MS 200
#define OUTAGES_APART_MS 5000

/* One server as one thread sees it. Zeroed: it is there. */
struct outage {
    bool away; /* as was told */
    bool told; /* anything, ever */
    int64_t told_ms;
    int64_t look_ms;
};

/* Whether it is time to look at it again. */
bool outage_is_due(struct outage *outage, int64_t boot_ms);
/* It was looked at. server: "redis", "mariadb", "rabbitmq"; part: which of them, or who asks. */
void outage_seen(struct outage *outage, const char *server, const char *part, bool away,
                 const char *words, int64_t boot_ms);

#endif
