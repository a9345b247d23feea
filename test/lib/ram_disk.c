/*
 * The forgetting disk. Each inode has its content as a reader sees it and as the medium has it,
 * and a mark for every sector that differs or may differ.
 */
#include "ram_disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"

#define SECTOR 4096U

struct ram_inode {
    struct ram_inode *next;
    uint8_t *now;
    size_t size;
    uint8_t *durable;
    size_t durable_size;
    bool *dirty;
    size_t capacity; /* of all three, in bytes, whole sectors */
};

struct disk_file {
    struct ram_inode *inode;
    bool writable;
};

static struct ram_disk *ram_of(struct disk *disk)
{
    return (struct ram_disk *)disk;
}

static void *must(void *memory)
{
    CHECK(memory != NULL);
    return memory;
}

static struct ram_inode *inode_new(struct ram_disk *ram)
{
    struct ram_inode *inode = must(calloc(1, sizeof(*inode)));
    inode->next = ram->inodes;
    ram->inodes = inode;
    return inode;
}

static void inode_reserve(struct ram_inode *inode, size_t size)
{
    size_t capacity = (size + SECTOR - 1) / SECTOR * SECTOR;
    if (capacity <= inode->capacity) {
        return;
    }
    capacity = capacity < 2 * inode->capacity ? 2 * inode->capacity : capacity;
    size_t old = inode->capacity;
    inode->now = must(realloc(inode->now, capacity));
    inode->durable = must(realloc(inode->durable, capacity));
    inode->dirty = must(realloc(inode->dirty, capacity / SECTOR));
    memset(inode->now + old, 0, capacity - old);
    memset(inode->durable + old, 0, capacity - old);
    memset(inode->dirty + old / SECTOR, 0, (capacity - old) / SECTOR);
    inode->capacity = capacity;
}

static void inode_resize(struct ram_inode *inode, size_t size)
{
    inode_reserve(inode, size);
    if (size < inode->size) {
        memset(inode->now + size, 0, inode->size - size);
        for (size_t i = size / SECTOR; i * SECTOR < inode->size; i++) {
            inode->dirty[i] = true;
        }
    }
    inode->size = size;
}

static void inode_sync(struct ram_inode *inode)
{
    if (inode->capacity > 0) {
        memcpy(inode->durable, inode->now, inode->capacity);
        memset(inode->dirty, 0, inode->capacity / SECTOR);
    }
    inode->durable_size = inode->size;
}

static size_t find(const struct ram_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->entries[i].name, name) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

static void unlink_name(struct ram_names *names, const char *name)
{
    size_t i = find(names, name);
    if (i != SIZE_MAX) {
        names->entries[i] = names->entries[--names->count];
    }
}

static void link_name(struct ram_names *names, const char *name, struct ram_inode *inode)
{
    unlink_name(names, name);
    CHECK(names->count < RAM_NAMES);
    struct ram_name *entry = &names->entries[names->count++];
    (void)snprintf(entry->name, sizeof(entry->name), "%s", name);
    entry->inode = inode;
}

static void copy_names(struct ram_names *to, const struct ram_names *from)
{
    memcpy(to->entries, from->entries, from->count * sizeof(from->entries[0]));
    to->count = from->count;
}

static void apply_change(struct ram_names *names, const struct ram_change *change)
{
    if (change->what == RAM_CREATED) {
        link_name(names, change->from, change->inode);
    } else if (change->what == RAM_REMOVED) {
        unlink_name(names, change->from);
    } else if (change->inode != NULL) { /* a rename is one step: the new name has the file */
        size_t from = find(names, change->from);
        if (from != SIZE_MAX && names->entries[from].inode == change->inode) {
            unlink_name(names, change->from);
        }
        link_name(names, change->to, change->inode);
    }
}

static void change_names(struct ram_disk *ram, enum ram_change_kind what, const char *from,
                         const char *to, struct ram_inode *inode)
{
    CHECK(ram->pending_count < RAM_PENDING);
    struct ram_change *change = &ram->pending[ram->pending_count++];
    *change = (struct ram_change){.what = what, .inode = inode};
    (void)snprintf(change->from, sizeof(change->from), "%s", from);
    (void)snprintf(change->to, sizeof(change->to), "%s", to != NULL ? to : "");
    apply_change(&ram->now, change);
}

/* Takes the lock, counts the operation and says how it must end; *ret_last: the one at which the
 * machine dies. */
static int begin(struct ram_disk *ram, enum ram_op op, bool *ret_last)
{
    int hooked = ram->hook != NULL ? ram->hook(ram->hook_context, op) : 0;
    pthread_mutex_lock(&ram->lock);
    ram->ops++;
    *ret_last = ram->dead_at != 0 && ram->ops == ram->dead_at;
    if (ram->dead_at != 0 && ram->ops >= ram->dead_at) {
        return ERR_IO;
    }
    ram->hooked = hooked != 0;
    if (hooked != 0) {
        ram->fail_at = ram->ops;
        return hooked;
    }
    return ram->fail_at != 0 && ram->ops == ram->fail_at ? ram->fail_code : 0;
}

static int ram_open(struct disk *disk, const char *name, enum disk_open how,
                    struct disk_file **ret_file)
{
    struct ram_disk *ram = ram_of(disk);
    bool last;
    int error = begin(ram, RAM_OP_OPEN, &last);
    size_t i = find(&ram->now, name);
    struct ram_inode *inode = i == SIZE_MAX ? NULL : ram->now.entries[i].inode;
    if (error == 0 && how == DISK_CREATE) {
        if (inode != NULL) {
            error = ERR_EXISTS;
        } else {
            inode = inode_new(ram);
            change_names(ram, RAM_CREATED, name, NULL, inode);
        }
    } else if (error == 0 && inode == NULL) {
        error = ERR_NOTFOUND;
    }
    if (error == 0) {
        struct disk_file *file = must(malloc(sizeof(*file)));
        *file = (struct disk_file){inode, how != DISK_READ};
        ram->open_files++;
        *ret_file = file;
    }
    pthread_mutex_unlock(&ram->lock);
    return error;
}

static void ram_close(struct disk *disk, struct disk_file *file)
{
    struct ram_disk *ram = ram_of(disk);
    pthread_mutex_lock(&ram->lock);
    ram->open_files--;
    pthread_mutex_unlock(&ram->lock);
    free(file);
}

static int ram_read(struct disk *disk, struct disk_file *file, uint64_t at, void *bytes, size_t n,
                    size_t *ret_n)
{
    struct ram_disk *ram = ram_of(disk);
    bool last;
    int error = begin(ram, RAM_OP_READ, &last);
    if (error == 0) {
        size_t size = file->inode->size;
        size_t got = at >= size ? 0 : size - (size_t)at;
        got = got < n ? got : n;
        if (got > 0) {
            memcpy(bytes, file->inode->now + at, got);
        }
        *ret_n = got;
    }
    pthread_mutex_unlock(&ram->lock);
    return error;
}

static uint64_t space_used(const struct ram_disk *ram)
{
    uint64_t used = 0;
    for (size_t i = 0; i < ram->now.count; i++) {
        used += ram->now.entries[i].inode->size;
    }
    return used;
}

static int ram_write(struct disk *disk, struct disk_file *file, uint64_t at, const void *bytes,
                     size_t n, bool durable)
{
    struct ram_disk *ram = ram_of(disk);
    struct ram_inode *inode = file->inode;
    CHECK(file->writable);
    bool last;
    int error = begin(ram, durable ? RAM_OP_WRITE_DURABLE : RAM_OP_WRITE, &last);
    n = ram->hooked && ram->fail_bytes < n ? ram->fail_bytes : n;
    size_t end = (size_t)at + n;
    size_t more = end > inode->size ? end - inode->size : 0;
    if (error == 0 && ram->space != 0 && space_used(ram) + more > ram->space) {
        error = ERR_NOSPACE;
    } else if (error == 0 || ram->fail_at == ram->ops || last) {
        /* A failing write may have done all, some or nothing of it: the sectors are in doubt. */
        if (end > inode->size) {
            inode_resize(inode, end);
        }
        memcpy(inode->now + at, bytes, n);
        for (size_t i = (size_t)at / SECTOR; i * SECTOR < end; i++) {
            inode->dirty[i] = true;
            if (error == 0 && durable && !ram->sync_is_lie) {
                memcpy(inode->durable + i * SECTOR, inode->now + i * SECTOR, SECTOR);
                inode->dirty[i] = false;
            }
        }
        ram->writes += n;
    }
    pthread_mutex_unlock(&ram->lock);
    return error;
}

static int ram_sync(struct disk *disk, struct disk_file *file)
{
    struct ram_disk *ram = ram_of(disk);
    bool last;
    int error = begin(ram, RAM_OP_SYNC, &last);
    if (error == 0 && !ram->sync_is_lie) {
        inode_sync(file->inode);
    }
    pthread_mutex_unlock(&ram->lock);
    return error;
}

static int ram_truncate(struct disk *disk, struct disk_file *file, uint64_t size)
{
    struct ram_disk *ram = ram_of(disk);
    bool last;
    int error = begin(ram, RAM_OP_TRUNCATE, &last);
    if (error == 0) {
        inode_resize(file->inode, (size_t)size);
    }
    pthread_mutex_unlock(&ram->lock);
    return error;
}

static int change_name(struct disk *disk, enum ram_change_kind kind, const char *from,
                       const char *to)
{
    struct ram_disk *ram = ram_of(disk);
    bool last;
    int error = begin(ram, RAM_OP_NAME, &last);
    if (error == 0 || last) {
        size_t i = find(&ram->now, from);
        if (i == SIZE_MAX) {
            error = error == 0 ? ERR_NOTFOUND : error;
        } else {
            change_names(ram, kind, from, to, ram->now.entries[i].inode);
        }
    }
    pthread_mutex_unlock(&ram->lock);
    return error;
}

static int ram_rename(struct disk *disk, const char *from, const char *to)
{
    return change_name(disk, RAM_RENAMED, from, to);
}

static int ram_remove(struct disk *disk, const char *name)
{
    return change_name(disk, RAM_REMOVED, name, NULL);
}

static int ram_sync_names(struct disk *disk)
{
    struct ram_disk *ram = ram_of(disk);
    bool last;
    int error = begin(ram, RAM_OP_NAME, &last);
    if (error == 0 && !ram->sync_is_lie) {
        copy_names(&ram->durable, &ram->now);
        ram->pending_count = 0;
    }
    pthread_mutex_unlock(&ram->lock);
    return error;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct ram_name *)a)->name, ((const struct ram_name *)b)->name);
}

static int ram_list(struct disk *disk, void (*each)(void *context, const char *name, uint64_t size),
                    void *context)
{
    struct ram_disk *ram = ram_of(disk);
    bool last;
    int error = begin(ram, RAM_OP_LIST, &last);
    struct ram_names names;
    copy_names(&names, &ram->now);
    pthread_mutex_unlock(&ram->lock);
    if (error != 0) {
        return error;
    }
    qsort(names.entries, names.count, sizeof(names.entries[0]), compare);
    for (size_t i = 0; i < names.count; i++) {
        each(context, names.entries[i].name, names.entries[i].inode->size);
    }
    return 0;
}

static const struct disk_ops ram_ops = {
    .open = ram_open,
    .close = ram_close,
    .read = ram_read,
    .write = ram_write,
    .sync = ram_sync,
    .truncate = ram_truncate,
    .rename = ram_rename,
    .remove = ram_remove,
    .sync_names = ram_sync_names,
    .list = ram_list,
};

void ram_disk_init(struct ram_disk *ret_ram)
{
    memset(ret_ram, 0, sizeof(*ret_ram));
    ret_ram->disk.ops = &ram_ops;
    pthread_mutex_init(&ret_ram->lock, NULL);
}

void ram_disk_done(struct ram_disk *ram)
{
    CHECK(ram->open_files == 0);
    while (ram->inodes != NULL) {
        struct ram_inode *inode = ram->inodes;
        ram->inodes = inode->next;
        free(inode->now);
        free(inode->durable);
        free(inode->dirty);
        free(inode);
    }
    pthread_mutex_destroy(&ram->lock);
}

void ram_disk_calm(struct ram_disk *ram)
{
    ram->ops = 0;
    ram->fail_at = 0;
    ram->dead_at = 0;
    ram->space = 0;
}

static void crash_inode(struct ram_inode *inode, enum ram_crash how, struct prng *prng)
{
    for (size_t i = 0; i < inode->capacity / SECTOR; i++) {
        uint8_t *durable = inode->durable + i * SECTOR;
        uint64_t luck = how == RAM_MIX ? prng_below(prng, 3) : how == RAM_KEEP;
        if (!inode->dirty[i] || luck == 0) {
            continue;
        }
        memcpy(durable, inode->now + i * SECTOR, SECTOR);
        if (luck == 2) {
            for (size_t k = prng_below(prng, SECTOR); k < SECTOR; k++) {
                durable[k] = (uint8_t)prng_next(prng);
            }
        }
    }
    if (how == RAM_KEEP || (how == RAM_MIX && prng_below(prng, 2) == 0)) {
        inode->durable_size = inode->size;
    }
    if (inode->capacity > 0) {
        memset(inode->durable + inode->durable_size, 0, inode->capacity - inode->durable_size);
        memcpy(inode->now, inode->durable, inode->capacity);
        memset(inode->dirty, 0, inode->capacity / SECTOR);
    }
    inode->size = inode->durable_size;
}

void ram_disk_crash(struct ram_disk *ram, enum ram_crash how, struct prng *prng)
{
    CHECK(ram->open_files == 0);
    for (size_t i = 0; i < ram->pending_count; i++) {
        if (how == RAM_KEEP || (how == RAM_MIX && prng_below(prng, 2) == 0)) {
            apply_change(&ram->durable, &ram->pending[i]);
        }
    }
    ram->pending_count = 0;
    copy_names(&ram->now, &ram->durable);
    for (struct ram_inode *inode = ram->inodes; inode != NULL; inode = inode->next) {
        crash_inode(inode, how, prng);
    }
    ram_disk_calm(ram);
}

void ram_disk_copy(const struct ram_disk *from, struct ram_disk *ret_to)
{
    ram_disk_init(ret_to);
    for (size_t i = 0; i < from->now.count; i++) {
        const struct ram_name *entry = &from->now.entries[i];
        ram_disk_put(ret_to, entry->name, entry->inode->now, entry->inode->size);
    }
}

static struct ram_inode *inode_of(struct ram_disk *ram, const char *name)
{
    size_t i = find(&ram->now, name);
    return i == SIZE_MAX ? NULL : ram->now.entries[i].inode;
}

uint8_t *ram_disk_bytes(struct ram_disk *ram, const char *name, size_t *ret_size)
{
    struct ram_inode *inode = inode_of(ram, name);
    if (inode == NULL) {
        return NULL;
    }
    *ret_size = inode->size;
    return inode->now;
}

void ram_disk_resize(struct ram_disk *ram, const char *name, size_t size)
{
    struct ram_inode *inode = inode_of(ram, name);
    inode_resize(inode, size);
    inode_sync(inode);
}

void ram_disk_put(struct ram_disk *ram, const char *name, const void *bytes, size_t size)
{
    struct ram_inode *inode = inode_new(ram);
    inode_resize(inode, size);
    if (size > 0) {
        memcpy(inode->now, bytes, size);
    }
    inode_sync(inode);
    link_name(&ram->now, name, inode);
    link_name(&ram->durable, name, inode);
}

void ram_disk_remove(struct ram_disk *ram, const char *name)
{
    unlink_name(&ram->now, name);
    unlink_name(&ram->durable, name);
}
