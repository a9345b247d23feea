/* See disk_model.h. */
#include "disk_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static void *must(void *memory)
{
    CHECK(memory != NULL);
    return memory;
}

/* ---- names ---- */

static size_t position(const struct disk_names *names, const char *name)
{
    size_t i = 0;
    while (i < names->count && strcmp(names->entries[i].name, name) != 0) {
        i++;
    }
    return i;
}

uint32_t disk_names_find(const struct disk_names *names, const char *name)
{
    size_t i = position(names, name);
    return i < names->count ? names->entries[i].inode : DISK_NO_INODE;
}

void disk_names_unlink(struct disk_names *names, const char *name)
{
    size_t i = position(names, name);
    if (i < names->count) {
        names->entries[i] = names->entries[--names->count];
    }
}

void disk_names_link(struct disk_names *names, const char *name, uint32_t inode)
{
    disk_names_unlink(names, name);
    CHECK(names->count < DISK_NAMES_MAX);
    struct disk_name *entry = &names->entries[names->count++];
    (void)snprintf(entry->name, sizeof(entry->name), "%s", name);
    entry->inode = inode;
}

/* A rename is one step: the new name has the file, whether or not the old one was there. */
void disk_names_apply(struct disk_names *names, const struct disk_change *change)
{
    switch (change->kind) {
    case DISK_CREATED:
        disk_names_link(names, change->from, change->inode);
        return;
    case DISK_REMOVED:
        disk_names_unlink(names, change->from);
        return;
    case DISK_RENAMED:
        if (disk_names_find(names, change->from) == change->inode) {
            disk_names_unlink(names, change->from);
        }
        disk_names_link(names, change->to, change->inode);
        return;
    }
}

void disk_names_copy(struct disk_names *ret_to, const struct disk_names *from)
{
    memcpy(ret_to->entries, from->entries, from->count * sizeof(from->entries[0]));
    ret_to->count = from->count;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct disk_name *)a)->name, ((const struct disk_name *)b)->name);
}

void disk_names_sort(struct disk_names *names)
{
    qsort(names->entries, names->count, sizeof(names->entries[0]), by_name);
}

static void change_names(struct disk_model *model, enum disk_change_kind kind, uint32_t inode,
                         const char *from, const char *to)
{
    CHECK(inode != DISK_NO_INODE && model->pending_count < DISK_CHANGES_MAX);
    struct disk_change *change = &model->pending[model->pending_count++];
    *change = (struct disk_change){.kind = kind, .inode = inode};
    (void)snprintf(change->from, sizeof(change->from), "%s", from);
    (void)snprintf(change->to, sizeof(change->to), "%s", to);
    disk_names_apply(&model->now, change);
}

void disk_model_rename(struct disk_model *model, const char *from, const char *to)
{
    change_names(model, DISK_RENAMED, disk_names_find(&model->now, from), from, to);
}

void disk_model_remove(struct disk_model *model, const char *name)
{
    change_names(model, DISK_REMOVED, disk_names_find(&model->now, name), name, "");
}

void disk_model_sync_names(struct disk_model *model)
{
    disk_names_copy(&model->durable, &model->now);
    model->pending_count = 0;
}

/* ---- files ---- */

static uint32_t inode_new(struct disk_model *model)
{
    size_t room = (model->inodes_count + 1) * sizeof(struct disk_inode *);
    model->inodes = must(realloc(model->inodes, room));
    model->inodes[model->inodes_count] = must(calloc(1, sizeof(struct disk_inode)));
    return model->inodes_count++;
}

static void inode_reserve(struct disk_inode *inode, size_t size)
{
    size_t capacity = (size + DISK_SECTOR - 1) / DISK_SECTOR * DISK_SECTOR;
    size_t old = inode->capacity;
    if (capacity <= old) {
        return;
    }
    capacity = capacity < 2 * old ? 2 * old : capacity;
    inode->now = must(realloc(inode->now, capacity));
    inode->durable = must(realloc(inode->durable, capacity));
    inode->dirty = must(realloc(inode->dirty, capacity / DISK_SECTOR));
    memset(inode->now + old, 0, capacity - old);
    memset(inode->durable + old, 0, capacity - old);
    memset(inode->dirty + old / DISK_SECTOR, 0, (capacity - old) / DISK_SECTOR);
    inode->capacity = capacity;
}

/* Forgets the versions of one sector, or with SIZE_MAX of all. */
static void forget_versions(struct disk_inode *inode, size_t sector)
{
    for (struct disk_version **at = &inode->versions; *at != NULL;) {
        struct disk_version *version = *at;
        if (sector == SIZE_MAX || version->sector == sector) {
            *at = version->next;
            free(version);
        } else {
            at = &version->next;
        }
    }
}

static void sector_changed(const struct disk_model *model, struct disk_inode *inode, size_t sector)
{
    inode->dirty[sector] = true;
    if (model->history) {
        struct disk_version *version = must(malloc(sizeof(*version)));
        version->next = inode->versions;
        version->sector = sector;
        version->made_at = model->op;
        memcpy(version->bytes, inode->now + sector * DISK_SECTOR, DISK_SECTOR);
        inode->versions = version;
    }
}

static void sector_durable(struct disk_inode *inode, size_t sector)
{
    size_t at = sector * DISK_SECTOR;
    memcpy(inode->durable + at, inode->now + at, DISK_SECTOR);
    inode->dirty[sector] = false;
    forget_versions(inode, sector);
}

static void size_changed(const struct disk_model *model, struct disk_inode *inode, size_t size)
{
    inode->size = size;
    if (model->history) {
        CHECK(inode->sizes_count < DISK_SIZES_MAX);
        inode->sizes[inode->sizes_count++] = size;
    }
}

void disk_model_write(struct disk_model *model, struct disk_inode *inode, size_t at,
                      const void *bytes, size_t n, bool durable)
{
    size_t end = at + n;
    inode_reserve(inode, end);
    if (end > inode->size) {
        size_changed(model, inode, end);
    }
    if (n > 0) {
        memcpy(inode->now + at, bytes, n);
    }
    for (size_t i = at / DISK_SECTOR; i * DISK_SECTOR < end; i++) {
        if (durable) {
            sector_durable(inode, i);
        } else {
            sector_changed(model, inode, i);
        }
    }
}

void disk_model_truncate(struct disk_model *model, struct disk_inode *inode, size_t size)
{
    inode_reserve(inode, size);
    if (size < inode->size) {
        memset(inode->now + size, 0, inode->size - size);
        for (size_t i = size / DISK_SECTOR; i * DISK_SECTOR < inode->size; i++) {
            sector_changed(model, inode, i);
        }
    }
    size_changed(model, inode, size);
}

void disk_inode_sync(struct disk_inode *inode)
{
    if (inode->capacity > 0) {
        memcpy(inode->durable, inode->now, inode->capacity);
        memset(inode->dirty, 0, inode->capacity / DISK_SECTOR);
    }
    inode->durable_size = inode->size;
    inode->sizes_count = 0;
    forget_versions(inode, SIZE_MAX);
}

/* ---- the whole ---- */

void disk_model_init(struct disk_model *ret_model, bool history)
{
    memset(ret_model, 0, sizeof(*ret_model));
    ret_model->history = history;
}

void disk_model_done(struct disk_model *model)
{
    for (uint32_t i = 0; i < model->inodes_count; i++) {
        struct disk_inode *inode = model->inodes[i];
        forget_versions(inode, SIZE_MAX);
        free(inode->now);
        free(inode->durable);
        free(inode->dirty);
        free(inode);
    }
    free(model->inodes);
}

struct disk_inode *disk_model_find(const struct disk_model *model, const char *name)
{
    uint32_t inode = disk_names_find(&model->now, name);
    return inode != DISK_NO_INODE ? model->inodes[inode] : NULL;
}

struct disk_inode *disk_model_create(struct disk_model *model, const char *name)
{
    uint32_t number = inode_new(model);
    change_names(model, DISK_CREATED, number, name, "");
    return model->inodes[number];
}

void disk_model_put(struct disk_model *model, const char *name, const void *bytes, size_t size)
{
    uint32_t number = inode_new(model);
    disk_model_write(model, model->inodes[number], 0, bytes, size, false);
    disk_inode_sync(model->inodes[number]);
    disk_names_link(&model->now, name, number);
    disk_names_link(&model->durable, name, number);
}
