/* See memory_bounds.h. */
#include "app/memory_bounds.h"

#include "admission/blocks.h"
#include "api/request_limits.h"
#include "distributed/cluster_status.h"
#include "distributed/parked_messages.h"
#include "obs/incident_log.h"
#include "obs/log.h"
#include "obs/tally.h"

/* Tallies, incident log, cluster status, parked messages on display. */
static size_t watching_bytes(uint32_t loops)
{
    size_t messages = PARKED_MESSAGES_BATCH +
                      (size_t)loops * PARKED_MESSAGES_CALLS_MAX * PARKED_MESSAGES_SHOWN_MAX;
    return tally_book_bytes(loops) + INCIDENT_LOG_MAX * sizeof(struct incident_log_entry) +
           sizeof(struct cluster_status) + messages * sizeof(struct queue_message);
}

void memory_bounds_log(const struct config *config, struct gate_sizes sizes,
                       const struct http_options *http, uint32_t loops, uint32_t connections)
{
    size_t gate = gate_bytes(sizes);
    size_t journal = 2UL * JOURNAL_BUFFER_BYTES;
    size_t fronts = (http_server_bytes(http) + API_SCRATCH_BYTES) * loops;
    size_t pages = (size_t)config->pages_memory_mib << 20;
    size_t watching = watching_bytes(loops);
    size_t admission = config->limits.count * (size_t)LIMIT_TABLE_BYTES +
                       loops * held_requests_bytes() + blocks_bytes();
    size_t total = 2 * gate + journal + fronts + pages + watching + admission;
    log_event(LOG_INFO, "memory.bounds", LOG_U64("gate_mib", gate >> 20),
              LOG_U64("snapshot_gate_mib", gate >> 20), LOG_U64("journal_mib", journal >> 20),
              LOG_U64("fronts_mib", fronts >> 20), LOG_U64("pages_mib", pages >> 20),
              LOG_U64("watching_mib", watching >> 20), LOG_U64("admission_mib", admission >> 20),
              LOG_U64("total_mib", total >> 20), LOG_U64("orders", sizes.orders),
              LOG_U64("buyers", sizes.buyers), LOG_U64("items", sizes.items),
              LOG_U64("connections", (uint64_t)connections * loops));
}
