/*
 * Warns when a bounded pool fills up: one line in the log when it reaches 50, 80 and 95 %, and one
 * when it has fallen well below again. A pool that swings around a level is logged once.
 *
 * One thread calls it, about once a second.
 */
#ifndef SLUICE_OBS_POOL_WATCH_H
#define SLUICE_OBS_POOL_WATCH_H

#include "obs/metrics.h"

struct pool_watch {
    uint8_t reached[POOL_COUNT]; /* the highest level reached: an index, 0 is below all */
};

/* Into a zeroed struct. */
void pool_watch_look(struct pool_watch *watch, const struct metrics *metrics);

#endif
