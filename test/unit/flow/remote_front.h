/*
 * One front on simulated segments: remote, its spool on a disk in memory, shelf and catalog, with a
 * port in between that counts what the gate is asked.
 */
#ifndef SLUICE_TEST_REMOTE_FRONT_H
#define SLUICE_TEST_REMOTE_FRONT_H

#include "flow/remote.h"
#include "ram_disk.h"
#include "segments_world.h"

#define FRONT_LOOPS 2
#define FRONT_LINE_MAX 5
#define FRONT_REFILL_MS 1500

/* Between remote and the simulated gate. */
struct remote_counting {
    struct gate_port port;
    struct gate_port *gate;
    uint64_t asked;
    uint64_t places;
};

struct remote_front {
    struct segments_world *segments;
    struct ram_disk ram;
    struct journal *journal;
    struct spool *spool;
    struct shelf *shelf;
    struct catalog *catalog;
    struct places places;
    struct wishes wishes;
    struct dials dials;
    struct remote_counting counting;
    struct remote *remote;
    struct gate_port *port;
    bool ledger_away;  /* the sales are not read though they should be */
    uint32_t readings; /* asked for */
};

/* With the sale in its catalog, and nothing on its shelf. */
void remote_front_open(struct remote_front *ret_front, struct segments_world *segments,
                       uint32_t promises);
void remote_front_close(struct remote_front *front);

/* The sale as upkeep has read it from the ledger; `warmed`: it has homes. */
void remote_front_catalog(struct remote_front *front, uint64_t sale, uint64_t first_item,
                          bool warmed);
/* The item as a follower would put it on the shelf. */
void remote_front_shelf(struct remote_front *front, uint64_t item, uint64_t available);

struct gate_ask remote_front_buy(const struct remote_front *front, uint64_t item,
                                 struct order_id id, uint64_t user, uint32_t qty);
/* Dirty outs: whoever asks again with the same struct gets clean answers. */
struct gate_ask remote_front_dirty(struct gate_ask ask);
/* Asked, and answered at once. */
struct gate_ask remote_front_tell(struct remote_front *front, struct gate_ask ask);
struct spool_numbers remote_front_numbers(struct remote_front *front);

#endif
