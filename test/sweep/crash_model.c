/* See crash_model.h. */
#include "crash_model.h"

#include <stdlib.h>

#include "base/check.h"

static struct disk_inode *inode_of(const struct model *model, const struct tap_op *op)
{
    CHECK(op->inode < model->disk.inodes_count);
    return model->disk.inodes[op->inode];
}

void model_apply(struct model *model, const struct tap_op *op, uint64_t number, unsigned lies,
                 bool in_flight)
{
    struct disk_model *disk = &model->disk;
    disk->op = number;
    switch (op->kind) {
    case TAP_CREATE:
        CHECK(op->inode == disk->inodes_count && op->inode < INODES_MAX);
        (void)disk_model_create(disk, op->from);
        return;
    case TAP_WRITE:
        disk_model_write(disk, inode_of(model, op), (size_t)op->at, op->bytes, op->n,
                         op->durable && !in_flight && (lies & CRASH_LIE_DURABLE) == 0);
        return;
    case TAP_SYNC:
        if ((lies & CRASH_LIE_SYNC) == 0) {
            disk_inode_sync(inode_of(model, op));
        }
        return;
    case TAP_TRUNCATE:
        disk_model_truncate(disk, inode_of(model, op), (size_t)op->at);
        return;
    case TAP_RENAME:
        disk_model_rename(disk, op->from, op->to);
        return;
    case TAP_REMOVE:
        disk_model_remove(disk, op->from);
        return;
    case TAP_SYNC_NAMES:
        if ((lies & CRASH_LIE_NAMES) == 0) {
            disk_model_sync_names(disk);
        }
        return;
    case TAP_MARK:
        return;
    }
}

struct model *model_new(const struct crash_image *first)
{
    struct model *model = calloc(1, sizeof(*model));
    CHECK(model != NULL);
    disk_model_init(&model->disk, true);
    for (size_t i = 0; first != NULL && i < first->count; i++) {
        const struct crash_file *file = &first->files[i];
        disk_model_put(&model->disk, file->name, file->bytes, file->size);
    }
    return model;
}

void model_free(struct model *model)
{
    for (size_t i = 0; i < INODES_MAX; i++) {
        free(model->choices[i].hashes);
    }
    disk_model_done(&model->disk);
    free(model);
}
