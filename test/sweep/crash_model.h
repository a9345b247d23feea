/*
 * The disk of crash_disk.h between two operations: what is durable, and everything that has been
 * written since and may or may not be there after a loss of power.
 */
#ifndef SLUICE_TEST_CRASH_MODEL_H
#define SLUICE_TEST_CRASH_MODEL_H

#include "crash_disk.h"

#define SECTOR 4096U
#define INODES_MAX 128
#define PENDING_MAX 256
#define SIZES_MAX 64

/* Of a sector's content; 128 bits, so that equal means equal. */
struct hash {
    uint64_t a;
    uint64_t b;
};

struct version {
    struct version *next; /* older */
    size_t sector;
    uint64_t made_at; /* number of the operation */
    uint8_t bytes[SECTOR];
};

struct inode {
    uint8_t *durable;
    uint8_t *now;
    size_t capacity;
    size_t durable_size;
    size_t size;
    struct version *versions; /* since the last sync, newest first */
    size_t sizes[SIZES_MAX];  /* since the last sync, oldest first */
    size_t sizes_count;
    struct hash *hashes; /* of the durable sectors; made for each point */
    size_t dims_from;    /* its choices */
    size_t dims_to;
};

struct name {
    char text[40];
    uint32_t inode;
};

struct names {
    struct name entries[CRASH_FILES];
    size_t count;
};

struct model {
    struct inode inodes[INODES_MAX];
    size_t inodes_count;
    struct names durable;
    const struct tap_op *pending[PENDING_MAX]; /* changes of names */
    size_t pending_count;
};

struct model *model_new(const struct crash_image *first);
void model_free(struct model *model);
/* in_flight: the power goes while the operation is being done; only durable writes differ. */
void model_apply(struct model *model, const struct tap_op *op, uint64_t number, unsigned lies,
                 bool in_flight);
/* A change of names, done to a list of them. */
void names_apply(struct names *names, const struct tap_op *op);

#endif
