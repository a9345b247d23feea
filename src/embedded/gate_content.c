/*
 * See gate_content.h.
 *
 * A snapshot of the gate: the head announces the counts of what follows. An entry is a tag and the
 * fields listed below, little-endian. All sales come first, then each item with what was evicted of
 * it, its buyers (each with his cooling time) and its orders, newest first.
 */
#include "embedded/gate_content.h"

#include "base/bytes.h"
#include "base/err.h"
#include "core/gate_restore.h"
#include "core/record.h"

_Static_assert(RECORD_MAX_BYTES <= JOURNAL_RECORD_MAX_BYTES, "every command fits a record");

struct gate_content {
    struct journal_content content; /* must be first */
    struct gate *gate;
};

/* ---- records ---- */

int gate_content_append(struct journal *journal, const struct gate_command *command,
                        uint64_t *ret_lsn)
{
    uint8_t record[RECORD_MAX_BYTES];
    size_t length = record_encode(command, record);
    return journal_append(journal, record, length, command->now_ms, ret_lsn);
}

int gate_content_next(struct journal_reader *reader, uint64_t *ret_lsn,
                      struct gate_command *ret_command)
{
    struct journal_record record;
    int error = journal_reader_next(reader, &record);
    if (error != 0) {
        return error;
    }
    *ret_lsn = record.lsn;
    return record_decode(record.bytes, record.length, ret_command) == 0 ? 0 : ERR_CORRUPT;
}

int gate_content_replay(struct gate *gate, uint64_t lsn, const struct gate_command *command)
{
    struct gate_effects effects;
    struct gate_command accepted = *command;
    accepted.accepted = true;
    enum verdict verdict = gate_step(gate, &accepted, &effects);
    if (verdict == VERDICT_REFUSED && effects.refusal == REFUSAL_OVERLOADED) {
        return ERR_FULL;
    }
    if (verdict != VERDICT_DONE && verdict != VERDICT_MORE) {
        return ERR_CORRUPT;
    }
    if (effects.slot != GATE_NONE) {
        gate->orders[effects.slot].lsn = lsn;
    }
    return 0;
}

static int apply(struct journal_content *content, uint64_t lsn, const uint8_t *record,
                 size_t length)
{
    struct gate_command command;
    if (record_decode(record, length, &command) != 0) {
        return ERR_INVALID;
    }
    return gate_content_replay(((struct gate_content *)content)->gate, lsn, &command);
}

/* ---- the entries of a snapshot ---- */

struct head {
    uint64_t applied_event;
    int64_t highest_ms;
    uint32_t sales;
    uint32_t items;
    uint32_t buyers;
    uint32_t orders;
};

/* The fields of each kind of entry. Writer and reader are both generated from this one list. */
#define HEAD_FIELDS W64(applied_event) W64(highest_ms) W32(sales) W32(items) W32(buyers) W32(orders)
#define SALE_FIELDS                                                                                \
    W64(id) W64(starts_at_ms) W64(ends_at_ms) W32(bar_unpaid) W8(state) W8(forgetting)
#define ITEM_FIELDS W64(id) W64(total) W64(available) W64(locked) W64(sold) W64(version) W32(limit)
#define BUYER_FIELDS W64(user) W32(held) W32(failed_attempts) W32(barred)
#define ORDER_FIELDS                                                                               \
    W64(id.hi)                                                                                     \
    W64(id.lo)                                                                                     \
    W64(user) W64(created_at_ms) W64(pay_by_ms) W64(lsn) W32(qty) W16(version) W8(state) W8(reason)
/* Of an item of which orders were evicted. It has no such entry otherwise. */
#define EVICTED_FIELDS W64(evicted_sold) W64(evicted_end) W64(evicted_lsn) W32(evicted)
/* Of the buyer before it, if he was given a cooling time. He has no such entry otherwise. */
#define COOLING_FIELDS W64(cooling_until_ms)

/* name, struct, its fields */
#define ENTRIES(X)                                                                                 \
    X(head, head, HEAD_FIELDS)                                                                     \
    X(sale, gate_sale, SALE_FIELDS)                                                                \
    X(item, gate_item, ITEM_FIELDS)                                                                \
    X(evicted, gate_item, EVICTED_FIELDS)                                                          \
    X(buyer, gate_buyer, BUYER_FIELDS)                                                             \
    X(cooling, gate_buyer, COOLING_FIELDS)                                                         \
    X(order, gate_order, ORDER_FIELDS)

/* An entry's first byte. In an item's entry the sale's id follows, then the fields. */
enum { TAG_SALE = 1, TAG_ITEM, TAG_BUYER, TAG_ORDER, TAG_EVICTED, TAG_COOLING };

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
    entry.field = (__typeof__(entry.field))load_le16(at);                                          \
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

static uint8_t *begin_entry(struct journal_snapshot_writer *writer, uint8_t tag, size_t n)
{
    uint8_t *at = journal_snapshot_entry(writer, 1 + n);
    *at = tag;
    return at + 1;
}

static void save_item(struct journal_snapshot_writer *writer, const struct gate *gate,
                      const struct gate_item *item)
{
    uint8_t *at = begin_entry(writer, TAG_ITEM, 8 + item_bytes);
    store_le64(at, gate->sales[item->sale_slot].id);
    (void)item_put(at + 8, item);
    if (item->evicted > 0) {
        (void)evicted_put(begin_entry(writer, TAG_EVICTED, evicted_bytes), item);
    }
    for (uint32_t link = item->buyers; link != 0; link = gate->buyers[link - 1].next_item) {
        const struct gate_buyer *buyer = &gate->buyers[link - 1];
        (void)buyer_put(begin_entry(writer, TAG_BUYER, buyer_bytes), buyer);
        if (buyer->cooling_until_ms != 0) {
            (void)cooling_put(begin_entry(writer, TAG_COOLING, cooling_bytes), buyer);
        }
    }
    for (uint32_t link = item->orders.first; link != 0;
         link = gate->orders[link - 1].by_item.next) {
        (void)order_put(begin_entry(writer, TAG_ORDER, order_bytes), &gate->orders[link - 1]);
    }
}

static void save(struct journal_content *content, struct journal_snapshot_writer *writer)
{
    const struct gate *gate = ((struct gate_content *)content)->gate;
    struct head head = {
        .applied_event = gate->applied_event,
        .highest_ms = gate->highest_ms,
        .sales = gate->sales_used,
        .items = gate->item_pool.used,
        .buyers = gate->buyer_pool.used,
        .orders = gate->order_pool.used,
    };
    (void)head_put(journal_snapshot_entry(writer, head_bytes), &head);
    journal_snapshot_end_head(writer);
    for (uint32_t i = 0; i < gate->sizes.sales; i++) {
        if (gate->sales[i].used) {
            (void)sale_put(begin_entry(writer, TAG_SALE, sale_bytes), &gate->sales[i]);
        }
    }
    for (uint32_t i = 0; i < gate->item_pool.fresh; i++) {
        if (gate->items[i].used) {
            save_item(writer, gate, &gate->items[i]);
        }
    }
}

/* ---- reading ---- */

struct loader {
    struct gate_restore restore; /* restore.gate NULL: check only */
    struct head head;
    struct head seen; /* the counts found */
};

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
    if (tag == TAG_COOLING) {
        struct gate_buyer cooling = cooling_take(at);
        return load ? gate_restore_cooling(restore, cooling.cooling_until_ms) : 0;
    }
    if (tag == TAG_EVICTED) {
        struct gate_item evicted = evicted_take(at);
        return load ? gate_restore_evicted(restore, &evicted) : 0;
    }
    struct gate_order order = order_take(at);
    loader->seen.orders++;
    return load ? gate_restore_order(restore, &order) : 0;
}

static int take_entries(struct loader *loader, const uint8_t *at, uint32_t length)
{
    static const uint8_t bytes_of[] = {
        [TAG_SALE] = sale_bytes,   [TAG_ITEM] = 8 + item_bytes,   [TAG_BUYER] = buyer_bytes,
        [TAG_ORDER] = order_bytes, [TAG_EVICTED] = evicted_bytes, [TAG_COOLING] = cooling_bytes,
    };
    while (length > 0) {
        uint8_t tag = *at;
        if (tag < TAG_SALE || tag > TAG_COOLING || length < 1U + bytes_of[tag]) {
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

static int read_chunks(struct loader *loader, struct journal_snapshot_reader *reader)
{
    const uint8_t *payload;
    uint32_t length;
    int error = journal_snapshot_next(reader, &payload, &length);
    if (error == 0 && length != head_bytes) {
        error = ERR_CORRUPT;
    }
    if (error != 0) {
        return error;
    }
    loader->head = head_take(payload);
    while ((error = journal_snapshot_next(reader, &payload, &length)) == 0) {
        error = take_entries(loader, payload, length);
        if (error != 0) {
            return error;
        }
    }
    if (error != ERR_AGAIN) {
        return error;
    }
    const struct head *head = &loader->head;
    const struct head *seen = &loader->seen;
    return head->sales == seen->sales && head->items == seen->items &&
                   head->buyers == seen->buyers && head->orders == seen->orders
               ? 0
               : ERR_CORRUPT;
}

int gate_content_check(struct journal_content *content, struct journal_snapshot_reader *reader,
                       int64_t *ret_highest_ms)
{
    (void)content;
    struct loader loader = {0};
    int error = read_chunks(&loader, reader);
    *ret_highest_ms = loader.head.highest_ms;
    return error;
}

static int load(struct journal_content *content, struct journal_snapshot_reader *reader)
{
    struct loader loader = {0};
    gate_restore_start(&loader.restore, ((struct gate_content *)content)->gate);
    int error = read_chunks(&loader, reader);
    return error != 0 ? error
                      : gate_restore_finish(&loader.restore, loader.head.applied_event,
                                            loader.head.highest_ms);
}

static bool is_record(const uint8_t *record, size_t length)
{
    struct gate_command command;
    return record_decode(record, length, &command) == 0;
}

static const struct journal_content_ops ops = {apply, is_record, save, gate_content_check, load};

int gate_content_open(struct disk *disk, struct journal_options options, struct gate *gate,
                      struct journal **ret_journal, struct journal_found *ret_found)
{
    struct gate_content content = {{&ops}, gate};
    options.kind = JOURNAL_HISTORY;
    return journal_open(disk, options, &content.content, ret_journal, ret_found);
}

int gate_content_snapshot(struct journal *journal, struct gate *second, uint64_t *ret_lsn)
{
    struct gate_content content = {{&ops}, second};
    return journal_snapshot(journal, &content.content, ret_lsn);
}
