/*
 * Snapshots: the whole gate as of one LSN, in its own file, so that a start need not replay
 * everything and old segments can be removed.
 *
 * Happy path of taking one: load the last good snapshot into the second gate, replay the closed
 * segments after it, write everything to snapshot.tmp in chunks, sync, rename, sync the names. The
 * live gate is never touched.
 *
 * A chunk is a 32-byte header (magic, version, index, length, lsn, flags, CRC32C over header and
 * payload) and a payload. Chunk 0 announces the counts of what follows. The others carry entries: a
 * tag and the fields listed below, little-endian. All sales come first, then each item with its
 * buyers and its orders in the order of its chains. The last chunk is flagged, and the file ends
 * with it.
 *
 * What can go wrong: a failed write leaves snapshot.tmp, which the next attempt or start removes. A
 * snapshot that does not read back whole is never used (ERR_CORRUPT).
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "core/gate_restore.h"
#include "journal/journal_private.h"

#define CHUNK_HEAD_BYTES 32U
#define CHUNK_MAX_BYTES 65536U /* header and payload; a reader trusts `length` up to this */
#define CHUNK_LAST 1U

static const char chunk_magic[4] = "SLSN";

enum {
    CHUNK_VERSION = 4,
    CHUNK_INDEX = 8,
    CHUNK_LENGTH = 12,
    CHUNK_LSN = 16,
    CHUNK_FLAGS = 24,
    CHUNK_CRC = 28,
};

/* The fields of each kind of entry. Writer and reader are both generated from this one list. */
#define INFO_FIELDS                                                                                \
    W64(lsn)                                                                                       \
    W64(batch) W64(applied_event) W64(highest_ms) W32(sales) W32(items) W32(buyers) W32(orders)
#define SALE_FIELDS                                                                                \
    W64(id) W64(starts_at_ms) W64(ends_at_ms) W32(bar_unpaid) W8(state) W8(forgetting)
#define ITEM_FIELDS W64(id) W64(total) W64(available) W64(locked) W64(sold) W64(version) W32(limit)
#define BUYER_FIELDS W64(user) W32(held) W32(failed_attempts) W32(barred)
#define ORDER_FIELDS                                                                               \
    W64(id.hi)                                                                                     \
    W64(id.lo)                                                                                     \
    W64(user) W64(created_at_ms) W64(pay_by_ms) W64(lsn) W32(qty) W16(version) W8(state) W8(reason)

/* name, struct, its fields */
#define ENTRIES(X)                                                                                 \
    X(info, journal_snapshot_info, INFO_FIELDS)                                                    \
    X(sale, gate_sale, SALE_FIELDS)                                                                \
    X(item, gate_item, ITEM_FIELDS)                                                                \
    X(buyer, gate_buyer, BUYER_FIELDS)                                                             \
    X(order, gate_order, ORDER_FIELDS)

/* An entry's first byte. In an item's entry the sale's id follows, then the fields. */
enum { TAG_SALE = 1, TAG_ITEM, TAG_BUYER, TAG_ORDER };

#define W64(field) +8
#define W32(field) +4
#define W16(field) +2
#define W8(field) +1
enum {
#define X(name, type, fields) name##_bytes = 0 fields,
    ENTRIES(X)
#undef X
};
#undef W64
#undef W32
#undef W16
#undef W8
_Static_assert(8 + item_bytes <= UINT8_MAX && order_bytes <= UINT8_MAX, "bytes_of holds them");

#define W64(field)                                                                                 \
    store_le64(at, (uint64_t)entry->field);                                                        \
    at += 8;
#define W32(field)                                                                                 \
    store_le32(at, (uint32_t)entry->field);                                                        \
    at += 4;
#define W16(field)                                                                                 \
    store_le16(at, entry->field);                                                                  \
    at += 2;
#define W8(field) *at++ = entry->field;
#define X(name, type, fields)                                                                      \
    static uint8_t *name##_put(uint8_t *at, const struct type *entry)                              \
    {                                                                                              \
        fields return at;                                                                          \
    }
ENTRIES(X)
#undef X
#undef W64
#undef W32
#undef W16
#undef W8

/* Converts to the field's own type. The writer took the value from that type. */
#define W64(field)                                                                                 \
    entry.field = (__typeof__(entry.field))load_le64(at);                                          \
    at += 8;
#define W32(field)                                                                                 \
    entry.field = load_le32(at);                                                                   \
    at += 4;
#define W16(field)                                                                                 \
    entry.field = load_le16(at);                                                                   \
    at += 2;
#define W8(field) entry.field = *at++;
#define X(name, type, fields)                                                                      \
    static struct type name##_take(const uint8_t *at)                                              \
    {                                                                                              \
        struct type entry = {0};                                                                   \
        fields(void) at;                                                                           \
        return entry;                                                                              \
    }
ENTRIES(X)
#undef X
#undef W64
#undef W32
#undef W16
#undef W8

/* ---- writing ---- */

struct writer {
    struct disk *disk;
    struct disk_file *file;
    uint64_t lsn;
    uint64_t at; /* in the file */
    uint32_t index;
    uint32_t fill; /* of the chunk, its header included */
    int error;     /* the first error; nothing is written after it */
    uint8_t *chunk;
};

static uint32_t chunk_crc(const uint8_t *chunk, uint32_t length)
{
    static const uint8_t zero[4];
    uint32_t crc = crc32c(0, chunk, CHUNK_CRC);
    crc = crc32c(crc, zero, sizeof(zero));
    return crc32c(crc, chunk + CHUNK_HEAD_BYTES, length);
}

static void end_chunk(struct writer *writer, uint32_t flags)
{
    uint8_t *chunk = writer->chunk;
    memcpy(chunk, chunk_magic, sizeof(chunk_magic));
    store_le32(chunk + CHUNK_VERSION, JOURNAL_VERSION);
    store_le32(chunk + CHUNK_INDEX, writer->index++);
    store_le32(chunk + CHUNK_LENGTH, writer->fill - CHUNK_HEAD_BYTES);
    store_le64(chunk + CHUNK_LSN, writer->lsn);
    store_le32(chunk + CHUNK_FLAGS, flags);
    store_le32(chunk + CHUNK_CRC, chunk_crc(chunk, writer->fill - CHUNK_HEAD_BYTES));
    if (writer->error == 0) {
        writer->error =
            disk_write(writer->disk, writer->file, writer->at, chunk, writer->fill, false);
    }
    writer->at += writer->fill;
    writer->fill = CHUNK_HEAD_BYTES;
}

/* Makes room for one entry of n bytes after its tag. */
static uint8_t *begin_entry(struct writer *writer, uint8_t tag, size_t n)
{
    if (writer->fill + 1 + n > CHUNK_MAX_BYTES) {
        end_chunk(writer, 0);
    }
    uint8_t *at = writer->chunk + writer->fill;
    writer->fill += 1 + (uint32_t)n;
    *at = tag;
    return at + 1;
}

static void write_item(struct writer *writer, const struct gate *gate, const struct gate_item *item)
{
    uint8_t *at = begin_entry(writer, TAG_ITEM, 8 + item_bytes);
    store_le64(at, gate->sales[item->sale_slot].id);
    (void)item_put(at + 8, item);
    for (uint32_t link = item->buyers; link != 0; link = gate->buyers[link - 1].next_item) {
        (void)buyer_put(begin_entry(writer, TAG_BUYER, buyer_bytes), &gate->buyers[link - 1]);
    }
    for (uint32_t link = item->orders; link != 0; link = gate->orders[link - 1].next_item) {
        (void)order_put(begin_entry(writer, TAG_ORDER, order_bytes), &gate->orders[link - 1]);
    }
}

static void write_gate(struct writer *writer, const struct gate *gate, uint64_t batch)
{
    struct journal_snapshot_info info = {
        .lsn = writer->lsn,
        .batch = batch,
        .applied_event = gate->applied_event,
        .highest_ms = gate->highest_ms,
        .sales = gate->sales_used,
        .items = gate->item_pool.used,
        .buyers = gate->buyer_pool.used,
        .orders = gate->order_pool.used,
    };
    (void)info_put(writer->chunk + writer->fill, &info);
    writer->fill += info_bytes;
    end_chunk(writer, 0);
    for (uint32_t i = 0; i < gate->sizes.sales; i++) {
        if (gate->sales[i].used) {
            (void)sale_put(begin_entry(writer, TAG_SALE, sale_bytes), &gate->sales[i]);
        }
    }
    for (uint32_t i = 0; i < gate->item_pool.fresh; i++) {
        if (gate->items[i].used) {
            write_item(writer, gate, &gate->items[i]);
        }
    }
    end_chunk(writer, CHUNK_LAST);
}

static int write_file(struct writer *writer, const struct gate *gate, uint64_t batch)
{
    struct disk *disk = writer->disk;
    int error = disk_remove(disk, JOURNAL_SNAPSHOT_TMP_NAME); /* what an earlier failure left */
    if (error != 0 && error != ERR_NOTFOUND) {
        return error;
    }
    error = disk_open(disk, JOURNAL_SNAPSHOT_TMP_NAME, DISK_CREATE, &writer->file);
    if (error != 0) {
        return error;
    }
    write_gate(writer, gate, batch);
    error = writer->error != 0 ? writer->error : disk_sync(disk, writer->file);
    disk_close(disk, writer->file);
    if (error == 0) {
        char name[JOURNAL_NAME_BYTES];
        journal_name(writer->lsn, JOURNAL_SNAPSHOT_SUFFIX, name);
        error = disk_rename(disk, JOURNAL_SNAPSHOT_TMP_NAME, name);
    }
    if (error != 0) {
        (void)disk_remove(disk, JOURNAL_SNAPSHOT_TMP_NAME); /* gives the space back, if it can */
        return error;
    }
    return disk_sync_names(disk);
}

static int write_snapshot(struct disk *disk, const struct gate *gate, uint64_t lsn, uint64_t batch,
                          uint64_t *ret_bytes)
{
    struct writer writer = {.disk = disk, .lsn = lsn, .fill = CHUNK_HEAD_BYTES};
    writer.chunk = malloc(CHUNK_MAX_BYTES);
    if (writer.chunk == NULL) {
        return ERR_NOMEM;
    }
    int error = write_file(&writer, gate, batch);
    free(writer.chunk);
    if (error == 0) {
        *ret_bytes = writer.at;
    }
    return error;
}

/* ---- reading ---- */

struct loader {
    struct journal_window window;
    const struct journal_snapshot_file *file;
    struct gate_restore restore; /* restore.gate NULL: check only */
    uint64_t at;
    uint32_t index;
    struct journal_snapshot_info info;
    struct journal_snapshot_info seen; /* the counts found */
};

/* Loads and checks the chunk at loader->at and returns its payload. */
static int next_chunk(struct loader *loader, const uint8_t **ret_payload, uint32_t *ret_length,
                      bool *ret_last)
{
    struct journal_window *window = &loader->window;
    const uint8_t *bytes;
    if (window->limit - loader->at < CHUNK_HEAD_BYTES) {
        return ERR_CORRUPT;
    }
    int error = journal_window_load(window, loader->at, CHUNK_HEAD_BYTES, &bytes);
    if (error != 0) {
        return error;
    }
    uint32_t length = load_le32(bytes + CHUNK_LENGTH);
    if (memcmp(bytes, chunk_magic, sizeof(chunk_magic)) != 0 ||
        length > CHUNK_MAX_BYTES - CHUNK_HEAD_BYTES ||
        length > window->limit - loader->at - CHUNK_HEAD_BYTES) {
        return ERR_CORRUPT;
    }
    error = journal_window_load(window, loader->at, CHUNK_HEAD_BYTES + (size_t)length, &bytes);
    if (error != 0) {
        return error;
    }
    if (load_le32(bytes + CHUNK_CRC) != chunk_crc(bytes, length)) {
        return ERR_CORRUPT;
    }
    if (load_le32(bytes + CHUNK_VERSION) != JOURNAL_VERSION) {
        return ERR_VERSION;
    }
    bool last = load_le32(bytes + CHUNK_FLAGS) == CHUNK_LAST;
    if (load_le32(bytes + CHUNK_INDEX) != loader->index ||
        load_le64(bytes + CHUNK_LSN) != loader->file->lsn ||
        last != (loader->at + CHUNK_HEAD_BYTES + length == window->limit)) {
        return ERR_CORRUPT;
    }
    *ret_payload = bytes + CHUNK_HEAD_BYTES;
    *ret_length = length;
    *ret_last = last;
    return 0;
}

static int take_entry(struct loader *loader, uint8_t tag, const uint8_t *at)
{
    struct gate_restore *restore = &loader->restore;
    bool load = restore->gate != NULL;
    if (tag == TAG_SALE) {
        struct gate_sale sale = sale_take(at);
        loader->seen.sales++;
        return load ? gate_restore_sale(restore, &sale) : 0;
    }
    if (tag == TAG_ITEM) {
        struct gate_item item = item_take(at + 8);
        loader->seen.items++;
        return load ? gate_restore_item(restore, &item, load_le64(at)) : 0;
    }
    if (tag == TAG_BUYER) {
        struct gate_buyer buyer = buyer_take(at);
        loader->seen.buyers++;
        return load ? gate_restore_buyer(restore, &buyer) : 0;
    }
    struct gate_order order = order_take(at);
    loader->seen.orders++;
    return load ? gate_restore_order(restore, &order) : 0;
}

static int take_entries(struct loader *loader, const uint8_t *at, uint32_t length)
{
    static const uint8_t bytes_of[] = {
        [TAG_SALE] = sale_bytes,
        [TAG_ITEM] = 8 + item_bytes,
        [TAG_BUYER] = buyer_bytes,
        [TAG_ORDER] = order_bytes,
    };
    while (length > 0) {
        uint8_t tag = *at;
        if (tag < TAG_SALE || tag > TAG_ORDER || length < 1U + bytes_of[tag]) {
            return ERR_CORRUPT;
        }
        int error = take_entry(loader, tag, at + 1);
        if (error != 0) {
            return error;
        }
        at += 1U + bytes_of[tag];
        length -= 1U + bytes_of[tag];
    }
    return 0;
}

static int take_info(struct loader *loader, const uint8_t *payload, uint32_t length)
{
    if (length != info_bytes) {
        return ERR_CORRUPT;
    }
    loader->info = info_take(payload);
    return loader->info.lsn == 0 || loader->info.lsn != loader->file->lsn ? ERR_CORRUPT : 0;
}

static int load_chunks(struct loader *loader)
{
    bool last;
    do {
        const uint8_t *payload;
        uint32_t length;
        int error = next_chunk(loader, &payload, &length, &last);
        if (error == 0) {
            error = loader->index == 0 ? take_info(loader, payload, length)
                                       : take_entries(loader, payload, length);
        }
        if (error != 0) {
            return error;
        }
        loader->at += CHUNK_HEAD_BYTES + length;
        loader->index++;
    } while (!last);
    const struct journal_snapshot_info *info = &loader->info;
    const struct journal_snapshot_info *seen = &loader->seen;
    return info->sales == seen->sales && info->items == seen->items &&
                   info->buyers == seen->buyers && info->orders == seen->orders
               ? 0
               : ERR_CORRUPT;
}

int journal_snapshot_load(struct disk *disk, const struct journal_snapshot_file *file,
                          struct gate *gate, struct journal_snapshot_info *ret_info,
                          uint64_t *ret_bad_at)
{
    struct loader loader = {.window = {.disk = disk}, .file = file};
    if (gate != NULL) {
        gate_restore_start(&loader.restore, gate);
    }
    char name[JOURNAL_NAME_BYTES];
    journal_name(file->lsn, JOURNAL_SNAPSHOT_SUFFIX, name);
    struct disk_file *handle;
    int error = disk_open(disk, name, DISK_READ, &handle);
    if (error != 0) {
        return error;
    }
    journal_window_show(&loader.window, handle, file->bytes);
    error = load_chunks(&loader);
    journal_window_done(&loader.window);
    disk_close(disk, handle);
    if (error != 0) {
        *ret_bad_at = loader.at;
        return error;
    }
    if (gate != NULL) {
        error =
            gate_restore_finish(&loader.restore, loader.info.applied_event, loader.info.highest_ms);
        if (error != 0) {
            *ret_bad_at = 0; /* every byte is as it was written; what they say does not add up */
            return error;
        }
    }
    *ret_info = loader.info;
    return 0;
}

/* ---- in the background of a running journal ---- */

/* The last record and batch of the closed segments; LSN 0 if none lies past the snapshots. */
static void find_target(struct journal *journal, uint64_t *ret_lsn, uint64_t *ret_batch)
{
    pthread_mutex_lock(&journal->catalog_lock);
    const struct journal_catalog *catalog = &journal->catalog;
    const struct journal_segment *open = &catalog->segments[catalog->segment_count - 1];
    size_t newest = journal_catalog_snapshot(catalog, SIZE_MAX);
    uint64_t newest_lsn = newest == SIZE_MAX ? 0 : catalog->snapshots[newest].lsn;
    bool due = open->first_lsn - 1 > newest_lsn;
    *ret_lsn = due ? open->first_lsn - 1 : 0;
    *ret_batch = due ? open->first_batch - 1 : 0;
    pthread_mutex_unlock(&journal->catalog_lock);
}

bool journal_snapshot_due(const struct journal *journal)
{
    uint64_t lsn;
    uint64_t batch;
    find_target((struct journal *)(uintptr_t)journal, &lsn, &batch); /* a lock is no change */
    return lsn != 0;
}

/* Loads the newest good snapshot into the gate; LSN 0 if there is none. Only this thread changes
 * the catalogue's snapshots, so it may read them without the lock. */
static int load_newest(struct journal *journal, struct gate *gate, uint64_t *ret_lsn)
{
    struct journal_catalog *catalog = &journal->catalog;
    size_t i;
    while ((i = journal_catalog_snapshot(catalog, SIZE_MAX)) != SIZE_MAX) {
        const struct journal_snapshot_file *file = &catalog->snapshots[i];
        struct journal_snapshot_info info;
        uint64_t bad_at;
        int error = journal_snapshot_load(journal->disk, file, NULL, &info, &bad_at);
        if (error == 0) {
            *ret_lsn = info.lsn;
            return journal_snapshot_load(journal->disk, file, gate, &info, &bad_at);
        }
        if (error != ERR_CORRUPT) {
            return error;
        }
        pthread_mutex_lock(&journal->catalog_lock);
        catalog->snapshots[i].bad = true;
        pthread_mutex_unlock(&journal->catalog_lock);
    }
    *ret_lsn = 0;
    return 0;
}

static int replay_until(struct journal *journal, struct gate *gate, uint64_t lsn, uint64_t target)
{
    struct journal_reader *reader = NULL;
    int error = journal_reader_new(journal, lsn, &reader);
    while (error == 0 && lsn < target) {
        struct gate_command command;
        int64_t batch_ms;
        error = journal_reader_next(reader, &lsn, &batch_ms, &command);
        if (error == 0) {
            error = journal_replay(gate, lsn, &command);
        }
    }
    journal_reader_free(reader);
    return error;
}

int journal_snapshot(struct journal *journal, struct gate *second, uint64_t *ret_snapshot_lsn)
{
    uint64_t target;
    uint64_t batch;
    find_target(journal, &target, &batch);
    if (target == 0) {
        *ret_snapshot_lsn = 0;
        return 0;
    }
    uint64_t lsn = 0;
    int error = load_newest(journal, second, &lsn);
    if (error == 0) {
        error = replay_until(journal, second, lsn, target);
    }
    struct journal_snapshot_file file = {.lsn = target};
    if (error == 0) {
        error = write_snapshot(journal->disk, second, target, batch, &file.bytes);
    }
    if (error != 0) {
        return error;
    }
    pthread_mutex_lock(&journal->catalog_lock);
    error = journal_catalog_add_snapshot(&journal->catalog, file);
    pthread_mutex_unlock(&journal->catalog_lock);
    if (error == 0) {
        *ret_snapshot_lsn = target;
    }
    return error;
}
