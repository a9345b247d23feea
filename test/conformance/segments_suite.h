/*
 * The contract of port/segments.h, as tests. Any implementation, real or simulated, that can be put
 * behind struct segments_under_test must pass them unchanged. Fronts are there, too: what a segment
 * decides is seen through port/gate.h.
 */
#ifndef SLUICE_TEST_SEGMENTS_SUITE_H
#define SLUICE_TEST_SEGMENTS_SUITE_H

#include "port/gate.h"
#include "port/segments.h"

#define SUITE_SEGMENTS 3
/* Entries that a worker holds for so long go to another. */
#define SUITE_CLAIM_MS 300
#define SUITE_OUTBOX_MAX 50

enum suite_restart {
    RESTART_KEEPS,   /* with all its data, and another server all the same */
    RESTART_FORGETS, /* with its data as of the last mark() */
    RESTART_EMPTY,   /* without any; the servers need not be others then */
};

struct segments_under_test {
    void *context;
    /* SUITE_SEGMENTS segments, empty, on servers that answer; nothing of an earlier test. */
    void (*reset)(void *context);
    /* A worker's instance, with the bounds above. The names are small and not 0. */
    struct segments *(*open)(void *context, uint32_t worker);
    void (*close)(void *context, struct segments *segments);
    /* A front: asks, and waits for the answer. */
    void (*request)(void *context, struct gate_request *request);
    void (*place)(void *context, uint32_t segment, uint64_t epoch);
    void (*mark)(void *context);
    /* All servers; returns when they answer again. Connections may have been lost. NULL: cannot be
     * done here, and those tests are skipped. */
    void (*restart)(void *context, enum suite_restart how);
    void (*pass_ms)(void *context, int64_t ms);
};

/* Runs them all under cmocka: how many failed. */
int segments_suite_run(const struct segments_under_test *under_test);

#endif
