/* See ram_disk.h. Of the disks that a loss of power may leave (disk_model.h), it draws one. */
#include "ram_disk.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"

struct disk_file {
    struct disk_inode *inode;
    bool writable;
};

static struct ram_disk *ram_of(struct disk *disk)
{
    return (struct ram_disk *)disk;
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
    struct disk_inode *inode = disk_model_find(&ram->model, name);
    if (error == 0 && how == DISK_CREATE) {
        if (inode != NULL) {
            error = ERR_EXISTS;
        } else {
            inode = disk_model_create(&ram->model, name);
        }
    } else if (error == 0 && inode == NULL) {
        error = ERR_NOTFOUND;
    }
    if (error == 0) {
        struct disk_file *file = malloc(sizeof(*file));
        CHECK(file != NULL);
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
    for (size_t i = 0; i < ram->model.now.count; i++) {
        used += ram->model.inodes[ram->model.now.entries[i].inode]->size;
    }
    return used;
}

static int ram_write(struct disk *disk, struct disk_file *file, uint64_t at, const void *bytes,
                     size_t n, bool durable)
{
    struct ram_disk *ram = ram_of(disk);
    struct disk_inode *inode = file->inode;
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
        disk_model_write(&ram->model, inode, (size_t)at, bytes, n,
                         error == 0 && durable && !ram->sync_is_lie);
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
        disk_inode_sync(file->inode);
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
        disk_model_truncate(&ram->model, file->inode, (size_t)size);
    }
    pthread_mutex_unlock(&ram->lock);
    return error;
}

/* to: NULL, and the name is removed. */
static int change_name(struct disk *disk, const char *from, const char *to)
{
    struct ram_disk *ram = ram_of(disk);
    bool last;
    int error = begin(ram, RAM_OP_NAME, &last);
    if (error == 0 || last) {
        if (disk_model_find(&ram->model, from) == NULL) {
            error = error == 0 ? ERR_NOTFOUND : error;
        } else if (to != NULL) {
            disk_model_rename(&ram->model, from, to);
        } else {
            disk_model_remove(&ram->model, from);
        }
    }
    pthread_mutex_unlock(&ram->lock);
    return error;
}

static int ram_rename(struct disk *disk, const char *from, const char *to)
{
    return change_name(disk, from, to);
}

static int ram_remove(struct disk *disk, const char *name)
{
    return change_name(disk, name, NULL);
}

static int ram_sync_names(struct disk *disk)
{
    struct ram_disk *ram = ram_of(disk);
    bool last;
    int error = begin(ram, RAM_OP_NAME, &last);
    if (error == 0 && !ram->sync_is_lie) {
        disk_model_sync_names(&ram->model);
    }
    pthread_mutex_unlock(&ram->lock);
    return error;
}

static int ram_list(struct disk *disk, void (*each)(void *context, const char *name, uint64_t size),
                    void *context)
{
    struct ram_disk *ram = ram_of(disk);
    bool last;
    int error = begin(ram, RAM_OP_LIST, &last);
    struct disk_names names;
    uint64_t sizes[DISK_NAMES_MAX];
    disk_names_copy(&names, &ram->model.now);
    disk_names_sort(&names);
    for (size_t i = 0; i < names.count; i++) {
        sizes[i] = ram->model.inodes[names.entries[i].inode]->size;
    }
    pthread_mutex_unlock(&ram->lock);
    for (size_t i = 0; error == 0 && i < names.count; i++) {
        each(context, names.entries[i].name, sizes[i]);
    }
    return error;
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
    disk_model_init(&ret_ram->model, false);
    pthread_mutex_init(&ret_ram->lock, NULL);
}

void ram_disk_done(struct ram_disk *ram)
{
    CHECK(ram->open_files == 0);
    disk_model_done(&ram->model);
    pthread_mutex_destroy(&ram->lock);
}

void ram_disk_calm(struct ram_disk *ram)
{
    ram->ops = 0;
    ram->fail_at = 0;
    ram->dead_at = 0;
    ram->space = 0;
}

static void crash_inode(struct disk_inode *inode, enum ram_crash how, struct prng *prng)
{
    for (size_t i = 0; i < inode->capacity / DISK_SECTOR; i++) {
        uint8_t *durable = inode->durable + i * DISK_SECTOR;
        uint64_t luck = how == RAM_MIX ? prng_below(prng, 3) : how == RAM_KEEP;
        if (!inode->dirty[i] || luck == 0) {
            continue;
        }
        memcpy(durable, inode->now + i * DISK_SECTOR, DISK_SECTOR);
        if (luck == 2) {
            for (size_t k = prng_below(prng, DISK_SECTOR); k < DISK_SECTOR; k++) {
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
        memset(inode->dirty, 0, inode->capacity / DISK_SECTOR);
    }
    inode->size = inode->durable_size;
}

void ram_disk_crash(struct ram_disk *ram, enum ram_crash how, struct prng *prng)
{
    struct disk_model *model = &ram->model;
    CHECK(ram->open_files == 0);
    for (size_t i = 0; i < model->pending_count; i++) {
        if (how == RAM_KEEP || (how == RAM_MIX && prng_below(prng, 2) == 0)) {
            disk_names_apply(&model->durable, &model->pending[i]);
        }
    }
    model->pending_count = 0;
    disk_names_copy(&model->now, &model->durable);
    for (uint32_t i = model->inodes_count; i-- > 0;) {
        crash_inode(model->inodes[i], how, prng);
    }
    ram_disk_calm(ram);
}

void ram_disk_copy(const struct ram_disk *from, struct ram_disk *ret_to)
{
    ram_disk_init(ret_to);
    for (size_t i = 0; i < from->model.now.count; i++) {
        const struct disk_name *entry = &from->model.now.entries[i];
        const struct disk_inode *inode = from->model.inodes[entry->inode];
        ram_disk_put(ret_to, entry->name, inode->now, inode->size);
    }
}

uint8_t *ram_disk_bytes(struct ram_disk *ram, const char *name, size_t *ret_size)
{
    struct disk_inode *inode = disk_model_find(&ram->model, name);
    if (inode == NULL) {
        return NULL;
    }
    *ret_size = inode->size;
    return inode->now;
}

void ram_disk_resize(struct ram_disk *ram, const char *name, size_t size)
{
    struct disk_inode *inode = disk_model_find(&ram->model, name);
    disk_model_truncate(&ram->model, inode, size);
    disk_inode_sync(inode);
}

void ram_disk_put(struct ram_disk *ram, const char *name, const void *bytes, size_t size)
{
    disk_model_put(&ram->model, name, bytes, size);
}

void ram_disk_remove(struct ram_disk *ram, const char *name)
{
    disk_names_unlink(&ram->model.now, name);
    disk_names_unlink(&ram->model.durable, name);
}
