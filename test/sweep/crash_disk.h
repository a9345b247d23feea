/*
 * Crash enumeration: from the record of a run (tap_disk.h), every disk that a loss of power could
 * have left, at every operation.
 *
 * The power goes after each operation, and during each durable write. What was not synced by then
 * is in doubt, each piece for itself: a sector of 4 KiB has what was durable, any version written
 * since, a torn mix of old and new (either end first), or garbage from somewhere on; a file has its
 * durable size or any later one; a change of names (create, rename, remove) has happened or not.
 * Where the product of all these choices is within the bound, every one is built; else all that
 * differ from "nothing kept" or from "all kept" in up to two choices, and a seeded sample.
 *
 * Each disk is recovered by the test's own function, once for all points that lead to the same
 * disk; what it finds must reach as far as what had been promised at the point.
 */
#ifndef SLUICE_TEST_CRASH_DISK_H
#define SLUICE_TEST_CRASH_DISK_H

#include "ram_disk.h"
#include "tap_disk.h"

#define CRASH_FILES 32
#define CRASH_FAILED_MAX 10000 /* then it is known to be bad */

struct crash_file {
    char name[40];
    uint8_t *bytes;
    size_t size;
};

struct crash_image {
    struct crash_file files[CRASH_FILES];
    size_t count;
};

/* Which of the disk's promises are kept, to see the checkers fail where one is not. */
enum crash_lie { CRASH_LIE_SYNC = 1, CRASH_LIE_DURABLE = 2, CRASH_LIE_NAMES = 4 };

struct crash_memo;

struct crash_run {
    /* in */
    const struct tap_op *ops;
    size_t ops_count;
    const struct crash_image *first; /* before the first operation; NULL: empty */
    uint64_t bound;                  /* choices at one point that are all taken */
    uint64_t sample;                 /* else so many drawn ones */
    uint64_t seed;
    unsigned lies;
    bool until_loss;   /* stops when something promised was lost */
    uint64_t promised; /* before the first mark */
    uint64_t state;
    /*
     * Recovers and checks one disk, which is its own to change. 0 and how far it reaches in
     * *ret_lsn; else what is wrong is in why. `state` is that of the last mark.
     */
    int (*recover)(void *context, struct ram_disk *disk, const struct crash_image *image,
                   uint64_t state, uint64_t *ret_lsn, char *why, size_t why_size);
    void *context;
    struct crash_memo *memo;
    /* out: added to */
    uint64_t points;
    uint64_t complete; /* points with every choice taken */
    uint64_t sampled;  /* points with a sample */
    uint64_t disks;    /* built */
    uint64_t distinct; /* of them, recovered: the others had been before */
    uint64_t failed;   /* checks that failed, losses among them */
    uint64_t lost;     /* recovered well, but less than was promised */
    char first_failed[400];
    char first_lost[400];
};

struct crash_memo *crash_memo_new(void);
void crash_memo_free(struct crash_memo *memo);

void crash_enumerate(struct crash_run *run);
/* One line with the counts. */
void crash_report(const char *what, const struct crash_run *run);

#endif
