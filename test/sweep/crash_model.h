/*
 * The disk of crash_disk.h between two operations: a disk model with its history, to which the
 * recorded operations are done one after the other, and the choices that are open at a point.
 */
#ifndef SLUICE_TEST_CRASH_MODEL_H
#define SLUICE_TEST_CRASH_MODEL_H

#include "crash_disk.h"
#include "disk_model.h"

#define INODES_MAX 128

/* Of a sector's content; 128 bits, so that equal means equal. */
struct hash {
    uint64_t a;
    uint64_t b;
};

/* Of an inode at one point. */
struct open_choices {
    struct hash *hashes; /* of the durable sectors */
    size_t dims_from;
    size_t dims_to;
};

struct model {
    struct disk_model disk;
    struct open_choices choices[INODES_MAX];
};

struct model *model_new(const struct crash_image *first);
void model_free(struct model *model);
/* in_flight: the power goes while the operation is being done; only durable writes differ. */
void model_apply(struct model *model, const struct tap_op *op, uint64_t number, unsigned lies,
                 bool in_flight);

#endif
