/*
 * The segment monitor watches the segments of the gate for a process of the distributed engine. It
 * knows each segment's status, it decides under which epoch this process may ask a segment, and it
 * compares this machine's clock with the segments'. It also asks for transfers when a buyer's home
 * lacks units that other segments have.
 *
 * Happy path: once a second it reads the epochs from the ledger and checks every segment; a segment
 * that some thread doubts (segment_table.h) is checked at once. All are OPEN. Requests to a segment
 * carry its epoch (gate_place()).
 *
 *   status   found by a check                               fronts ask it          its line
 *   UNKNOWN  it was never checked                           no                     waits
 *   OPEN     ledger and segment agree on the epoch, and     under this epoch       is served
 *            it lets fronts in
 *   CLOSED   they agree, but it lets nobody in: it is       no; promises are       waits
 *            being filled, or was found broken              decided again there
 *   LOST     they do not agree: another server, emptied,    no                     waits
 *            or about to be rebuilt
 *   AWAY     it did not answer                              as before              waits
 *
 * Any status may follow any other, except UNKNOWN. Every move is logged as segment.status; a new
 * epoch also as segment.epoch, and a lost one as segment.lost.
 *
 * What can go wrong: the ledger cannot be read. Then epochs, and with them which segments fronts
 * ask, stay as they are, and doubts are kept. A check shows only whether a segment answers and
 * lets fronts in: AWAY, OPEN or CLOSED. A line is served again once its segment is seen open under
 * the epoch that is known here.
 *
 * One thread, the promise resolver's. segment_monitor_is_ready(): any thread.
 */
#ifndef SLUICE_DISTRIBUTED_SEGMENT_MONITOR_H
#define SLUICE_DISTRIBUTED_SEGMENT_MONITOR_H

#include "distributed/booking_channel.h"
#include "distributed/refill_requests.h"
#include "distributed/segment_table.h"
#include "distributed/spool.h"
#include "distributed/stock_cache.h"
#include "port/gate.h"
#include "port/inside_time.h"

enum segment_status {
    SEGMENT_UNKNOWN,
    SEGMENT_OPEN,
    SEGMENT_CLOSED,
    SEGMENT_LOST,
    SEGMENT_AWAY,
    SEGMENT_STATUSES
};

struct segment_monitor_parts {
    struct segments *segments;               /* of this thread */
    struct ledger *ledger;                   /* of this thread, for reading */
    struct gate_port *gate;                  /* its requests carry the epochs */
    struct booking_channel *booking_channel; /* of this thread, for transfers */
    struct segment_table *segment_table;
    struct spool *spool;
    struct stock_cache *stock_cache;
    struct refill_requests *refill_requests;
    struct inside_time *time;
    struct metrics_slot *metrics;
    /* Passes a refill request to the balancer if it runs in this process. If this is NULL or
     * returns false, it does not, and transfers are noted in the ledger, without a lease
     * (booking_channel_transfer()). */
    bool (*refill)(void *context, const struct refill *refill);
    void *context;
};

struct segment_monitor;

/* The caller owns the parts. ERR_NOMEM. */
int segment_monitor_new(const struct segment_monitor_parts *parts,
                        struct segment_monitor **ret_monitor);
void segment_monitor_free(struct segment_monitor *monitor);

/* promise_resolver_iterate() calls these three. */
/* Checks the segments that are due. */
void segment_monitor_check(struct segment_monitor *monitor, int64_t now_ms);
/* Has units sent to the homes that lack them. */
void segment_monitor_grant_refills(struct segment_monitor *monitor, int64_t now_ms);
/* Writes the metrics, and notes whether buyers can be served. */
void segment_monitor_report(struct segment_monitor *monitor);

/* Reads the ledger and notes whether it answered. Returns query->error. */
int segment_monitor_read(struct segment_monitor *monitor, struct ledger_query *query);
/* True if the segment was open when it was last asked anything. */
bool segment_monitor_serves(const struct segment_monitor *monitor, uint32_t segment);
/* The segment could not be asked. It does not serve until a check finds it open again. */
void segment_monitor_stop_serving(struct segment_monitor *monitor, uint32_t segment);

/* What the last check found. */
enum segment_status segment_monitor_status(const struct segment_monitor *monitor, uint32_t segment);
/* True if the last read of the ledger failed. */
bool segment_monitor_ledger_away(const struct segment_monitor *monitor);
/* True once every segment has been seen open: buyers can be served. It stays true. */
bool segment_monitor_is_ready(const struct segment_monitor *monitor);

#endif
