/* See crash_model.h. The model is the contract of port/disk.h, kept apart from ram_disk.c. */
#include "crash_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static void *must(void *memory)
{
    CHECK(memory != NULL);
    return memory;
}

static void names_unlink(struct names *names, const char *text)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->entries[i].text, text) == 0) {
            names->entries[i] = names->entries[--names->count];
            return;
        }
    }
}

static void names_link(struct names *names, const char *text, uint32_t inode)
{
    names_unlink(names, text);
    CHECK(names->count < CRASH_FILES);
    struct name *entry = &names->entries[names->count++];
    memcpy(entry->text, text, sizeof(entry->text));
    entry->inode = inode;
}

/* A rename is one step: the new name has the file, whether or not the old one was there. */
void names_apply(struct names *names, const struct tap_op *op)
{
    if (op->kind == TAP_CREATE) {
        names_link(names, op->from, op->inode);
    } else if (op->kind == TAP_REMOVE) {
        names_unlink(names, op->from);
    } else {
        for (size_t i = 0; i < names->count; i++) {
            if (names->entries[i].inode == op->inode &&
                strcmp(names->entries[i].text, op->from) == 0) {
                names_unlink(names, op->from);
                break;
            }
        }
        names_link(names, op->to, op->inode);
    }
}

static void inode_reserve(struct inode *inode, size_t size)
{
    size_t capacity = (size + SECTOR - 1) / SECTOR * SECTOR;
    if (capacity <= inode->capacity) {
        return;
    }
    inode->durable = must(realloc(inode->durable, capacity));
    inode->now = must(realloc(inode->now, capacity));
    memset(inode->durable + inode->capacity, 0, capacity - inode->capacity);
    memset(inode->now + inode->capacity, 0, capacity - inode->capacity);
    inode->capacity = capacity;
}

static void inode_size(struct inode *inode, size_t size)
{
    CHECK(inode->sizes_count < SIZES_MAX);
    inode->size = size;
    inode->sizes[inode->sizes_count++] = size;
}

static void inode_version(struct inode *inode, size_t sector, uint64_t made_at)
{
    struct version *version = must(malloc(sizeof(*version)));
    version->next = inode->versions;
    version->sector = sector;
    version->made_at = made_at;
    memcpy(version->bytes, inode->now + sector * SECTOR, SECTOR);
    inode->versions = version;
}

/* Forgets the versions of one sector, or with SIZE_MAX of all. */
static void inode_settle(struct inode *inode, size_t sector)
{
    for (struct version **at = &inode->versions; *at != NULL;) {
        struct version *version = *at;
        if (sector == SIZE_MAX || version->sector == sector) {
            *at = version->next;
            free(version);
        } else {
            at = &version->next;
        }
    }
}

static void model_write(struct inode *inode, const struct tap_op *op, uint64_t number, bool durable)
{
    size_t end = (size_t)op->at + op->n;
    inode_reserve(inode, end);
    if (end > inode->size) {
        inode_size(inode, end);
    }
    memcpy(inode->now + op->at, op->bytes, op->n);
    for (size_t i = (size_t)op->at / SECTOR; i * SECTOR < end; i++) {
        if (durable) {
            memcpy(inode->durable + i * SECTOR, inode->now + i * SECTOR, SECTOR);
            inode_settle(inode, i);
        } else {
            inode_version(inode, i, number);
        }
    }
}

static void model_sync(struct inode *inode)
{
    if (inode->capacity > 0) {
        memcpy(inode->durable, inode->now, inode->capacity);
    }
    inode->durable_size = inode->size;
    inode->sizes_count = 0;
    inode_settle(inode, SIZE_MAX);
}

static void model_truncate(struct inode *inode, size_t size, uint64_t number)
{
    inode_reserve(inode, size);
    if (size < inode->size) {
        memset(inode->now + size, 0, inode->size - size);
        for (size_t i = size / SECTOR; i * SECTOR < inode->size; i++) {
            inode_version(inode, i, number);
        }
    }
    inode_size(inode, size);
}

void model_apply(struct model *model, const struct tap_op *op, uint64_t number, unsigned lies,
                 bool in_flight)
{
    if (op->kind == TAP_MARK) {
        return;
    }
    if (op->kind == TAP_SYNC_NAMES) {
        for (size_t i = 0; (lies & CRASH_LIE_NAMES) == 0 && i < model->pending_count; i++) {
            names_apply(&model->durable, model->pending[i]);
        }
        model->pending_count = (lies & CRASH_LIE_NAMES) == 0 ? 0 : model->pending_count;
        return;
    }
    CHECK(op->inode < INODES_MAX);
    struct inode *inode = &model->inodes[op->inode];
    switch (op->kind) {
    case TAP_WRITE:
        model_write(inode, op, number,
                    op->durable && !in_flight && (lies & CRASH_LIE_DURABLE) == 0);
        return;
    case TAP_SYNC:
        if ((lies & CRASH_LIE_SYNC) == 0) {
            model_sync(inode);
        }
        return;
    case TAP_TRUNCATE:
        model_truncate(inode, (size_t)op->at, number);
        return;
    default:
        if (op->kind == TAP_CREATE) {
            model->inodes_count = op->inode + 1;
        }
        CHECK(model->pending_count < PENDING_MAX);
        model->pending[model->pending_count++] = op;
        return;
    }
}

struct model *model_new(const struct crash_image *first)
{
    struct model *model = must(calloc(1, sizeof(*model)));
    for (size_t i = 0; first != NULL && i < first->count; i++) {
        struct inode *inode = &model->inodes[model->inodes_count];
        inode_reserve(inode, first->files[i].size);
        if (first->files[i].size > 0) {
            memcpy(inode->now, first->files[i].bytes, first->files[i].size);
        }
        inode->size = first->files[i].size;
        model_sync(inode);
        names_link(&model->durable, first->files[i].name, (uint32_t)model->inodes_count++);
    }
    return model;
}

void model_free(struct model *model)
{
    for (size_t i = 0; i < INODES_MAX; i++) {
        inode_settle(&model->inodes[i], SIZE_MAX);
        free(model->inodes[i].now);
        free(model->inodes[i].durable);
        free(model->inodes[i].hashes);
    }
    free(model);
}
