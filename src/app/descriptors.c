/* See descriptors.h. */
#include "app/descriptors.h"

#include <limits.h>

#include "base/err.h"

/*
 * Files and sockets that do not depend on the number of loops: standard streams 3, folder lock 1,
 * incident log 2 while it is rewritten, claims of the addresses 2, journal 8 (folder, current and
 * next file, booking reader, a snapshot read and one written, a folder that is listed), secrets,
 * settings, tallies and name resolution 6, the purge hook 1; the ledger 24 (six connections to
 * SQLite with 3 files each and 6 temporary ones; MariaDB needs fewer). That is 47.
 */
#define FIXED 64U
/* Sockets, epoll and event descriptor. */
#define EACH_LOOP 3U
/* RabbitMQ: a connection and an event descriptor for each of relay, booker, payments, events,
 * status and parked messages. Sentinels: the rest. */
#define DISTRIBUTED 24U
/* Sets of connections to Redis besides those of the loops: four of the gate and one for each thread
 * (distributed/engine.h). */
#define REDIS_SETS 12U
/* Servers of Redis: a Cluster may have more than the URL names. */
#define REDIS_SERVERS_MIN 8U
/* Of FIXED: descriptors that connections do not get even if the need was computed too low. */
#define SPARE 16

static uint64_t redis_servers(const struct config *config)
{
    uint64_t servers = 1;
    for (const char *at = config->redis_url; *at != '\0'; at++) {
        servers += *at == ',';
    }
    servers =
        servers > (uint64_t)config->redis_segments ? servers : (uint64_t)config->redis_segments;
    return servers > REDIS_SERVERS_MIN ? servers : REDIS_SERVERS_MIN;
}

uint64_t descriptors_needed(const struct config *config, uint32_t loops)
{
    uint64_t needed = FIXED + (uint64_t)EACH_LOOP * loops;
    if (config->redis_url[0] != '\0') {
        /* Each set of connections has an event descriptor. */
        needed += DISTRIBUTED + (loops + REDIS_SETS) * (redis_servers(config) + 1);
    }
    return needed;
}

int descriptors_divide(const struct config *config, uint32_t loops, uint64_t limit,
                       struct descriptors *ret_descriptors, char *ret_error, size_t error_cap)
{
    uint64_t needed = descriptors_needed(config, loops);
    uint64_t least = needed + (uint64_t)DESCRIPTORS_CONNECTIONS_MIN * loops;
    if (limit < least) {
        (void)snprintf(
            ret_error, error_cap,
            "the limit on open files (ulimit -n, LimitNOFILE of systemd) is %llu, and this "
            "configuration needs %llu: %llu for files and the server's own sockets, and %u "
            "connections for each of %u event loops; raise the limit, or lower "
            "server.threads",
            (unsigned long long)limit, (unsigned long long)least, (unsigned long long)needed,
            DESCRIPTORS_CONNECTIONS_MIN, loops);
        return ERR_RANGE;
    }
    uint64_t room = (limit - needed) / loops;
    uint64_t wanted = (uint64_t)config->server_connections;
    *ret_descriptors =
        (struct descriptors){.connections = (uint32_t)(room < wanted ? room : wanted),
                             .files = limit > INT_MAX ? INT_MAX : (int)limit - SPARE};
    return 0;
}
