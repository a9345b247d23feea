/* See blocks.h. */
#include "admission/blocks.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/crypt.h"
#include "base/limits.h"

#define SLOTS ((size_t)2 * BLOCKS_MAX) /* a power of two */
#define ROOM (BLOCKS_MAX + BLOCKS_MAX / 2)
#define WITHOUT_END INT64_MAX
#define PREFIXES 129 /* lengths, of IPv6; IPv4 uses the first 33 */
#define PREFIX_WORDS 3

/* What is hashed of a block. */
struct key {
    uint8_t kind;
    uint8_t family; /* of an address */
    uint8_t bits;
    uint8_t len;
    uint8_t bytes[BLOCK_VALUE_MAX];
};
#define KEY_BYTES(key) (offsetof(struct key, bytes) + (key)->len)

struct slot {
    _Atomic uint64_t tag;     /* the key's hash; 0: free */
    _Atomic int64_t until_ms; /* WITHOUT_END */
    /* the writer's own */
    uint32_t reading; /* the last one that had it */
    uint8_t family;   /* of an address, or 0 */
    uint8_t bits;
};

struct blocks_table {
    uint8_t hash_key[CRYPT_SIP_KEY_BYTES];
    /* Odd while the writer changes slots. Readers load what it protects with acquire, the writer stores
     * it with release, so that neither passes the sequence number. */
    _Atomic uint64_t sequence;
    _Atomic uint64_t prefixes[2][PREFIX_WORDS]; /* the lengths in use, as bits: IPv4, IPv6 */
    /* the writer's own */
    uint32_t by_length[2][PREFIXES];
    uint32_t reading;
    bool whole;          /* a reading of all blocks has begun */
    int64_t next_end_ms; /* no block ends before */
    struct slot slots[SLOTS];
};

/* ---- keys ---- */

static struct key key_of_user(uint64_t user)
{
    struct key key = {.kind = BLOCK_USER, .len = sizeof(user)};
    store_le64(key.bytes, user);
    return key;
}

static struct key key_of_network(struct net_network network)
{
    struct key key = {.kind = BLOCK_ADDRESS,
                      .family = network.address.family,
                      .bits = network.bits,
                      .len = sizeof(network.address.bytes)};
    (void)net_network_mask(&network);
    memcpy(key.bytes, network.address.bytes, sizeof(network.address.bytes));
    return key;
}

static struct key key_of_device(struct span device)
{
    struct key key = {.kind = BLOCK_DEVICE, .len = (uint8_t)device.len};
    memcpy(key.bytes, device.at, device.len);
    return key;
}

/* The value was read by block_value_read(). */
static struct key key_of_row(const struct block_row *row)
{
    struct span value = span_of(row->value);
    struct net_network network;
    uint64_t user = 0;
    switch (row->kind) {
    case BLOCK_USER:
        (void)span_parse_u64(value, ID_MAX, &user); /* a damaged row is about nobody, who is 0 */
        return key_of_user(user);
    case BLOCK_ADDRESS:
        return net_network_parse(value, &network) == 0 ? key_of_network(network) : key_of_user(0);
    default:
        return key_of_device(value);
    }
}

static uint64_t tag_of(const struct blocks_table *table, const struct key *key)
{
    uint8_t hash[CRYPT_SIP_BYTES];
    crypt_siphash128(table->hash_key, key, KEY_BYTES(key), hash);
    uint64_t tag = load_le64(hash);
    return tag != 0 ? tag : 1;
}

/* ---- slots ---- */

static size_t next_slot(size_t at)
{
    return (at + 1) & (SLOTS - 1);
}

/* The slot of the tag, or the free one at which its search ends. */
static size_t find_slot(const struct blocks_table *table, uint64_t tag)
{
    size_t at = (size_t)tag & (SLOTS - 1);
    for (;;) {
        uint64_t found = atomic_load_explicit(&table->slots[at].tag, memory_order_acquire);
        if (found == tag || found == 0) {
            return at;
        }
        at = next_slot(at);
    }
}

/* ---- readers ---- */

static bool stands(const struct blocks_table *table, const struct key *key, int64_t now_ms)
{
    uint64_t tag = tag_of(table, key);
    for (;;) {
        uint64_t before = atomic_load_explicit(&table->sequence, memory_order_acquire);
        const struct slot *slot = &table->slots[find_slot(table, tag)];
        bool found = atomic_load_explicit(&slot->tag, memory_order_acquire) == tag;
        int64_t until_ms = atomic_load_explicit(&slot->until_ms, memory_order_acquire);
        if (before % 2 == 0 &&
            atomic_load_explicit(&table->sequence, memory_order_relaxed) == before) {
            return found && until_ms > now_ms;
        }
    }
}

static bool address_stands(const struct blocks_table *table, const struct net_address *address,
                           int64_t now_ms)
{
    for (unsigned word = 0; word < PREFIX_WORDS; word++) {
        uint64_t lengths = atomic_load_explicit(&table->prefixes[address->family == 6][word],
                                                memory_order_relaxed);
        for (; lengths != 0; lengths &= lengths - 1) {
            unsigned bits = word * 64 + (unsigned)__builtin_ctzll(lengths);
            struct key key = key_of_network((struct net_network){*address, (uint8_t)bits});
            if (stands(table, &key, now_ms)) {
                return true;
            }
        }
    }
    return false;
}

bool blocks_match(const struct blocks *blocks, const struct block_subject *subject, int64_t now_ms)
{
    const struct blocks_table *table = blocks->table;
    if (blocks_are_none(blocks)) {
        return false;
    }
    if (subject->user != 0) {
        struct key key = key_of_user(subject->user);
        if (stands(table, &key, now_ms)) {
            return true;
        }
    }
    if (subject->device.len > 0 && subject->device.len <= BLOCK_VALUE_MAX) {
        struct key key = key_of_device(subject->device);
        if (stands(table, &key, now_ms)) {
            return true;
        }
    }
    return subject->address.family != 0 && address_stands(table, &subject->address, now_ms);
}

/* ---- the writer ---- */

static void begin_change(struct blocks_table *table)
{
    uint64_t sequence = atomic_load_explicit(&table->sequence, memory_order_relaxed);
    atomic_store_explicit(&table->sequence, sequence + 1, memory_order_relaxed);
}

static void end_change(struct blocks_table *table)
{
    uint64_t sequence = atomic_load_explicit(&table->sequence, memory_order_relaxed);
    atomic_store_explicit(&table->sequence, sequence + 1, memory_order_release);
}

/* One more or one less block by an address of this prefix length. */
static void count_prefix(struct blocks *blocks, uint8_t family, uint8_t bits, bool more)
{
    struct blocks_table *table = blocks->table;
    unsigned version = family == 6;
    _Atomic uint64_t *word = &table->prefixes[version][bits / 64];
    uint64_t bit = 1ULL << bits % 64;
    table->by_length[version][bits] += more ? 1U : -1U;
    if (table->by_length[version][bits] > 0) {
        atomic_fetch_or(word, bit);
    } else {
        atomic_fetch_and(word, ~bit);
    }
    atomic_fetch_add(&blocks->addresses, more ? 1U : -1U);
}

static void move_slot(struct slot *to, const struct slot *from)
{
    atomic_store_explicit(&to->until_ms,
                          atomic_load_explicit(&from->until_ms, memory_order_relaxed),
                          memory_order_release);
    atomic_store_explicit(&to->tag, atomic_load_explicit(&from->tag, memory_order_relaxed),
                          memory_order_release);
    to->reading = from->reading;
    to->family = from->family;
    to->bits = from->bits;
}

/* Frees a slot. Those behind it move up if their search would end at the gap. */
static void drop(struct blocks *blocks, size_t at)
{
    static const struct slot nothing;
    struct blocks_table *table = blocks->table;
    struct slot *slots = table->slots;
    if (slots[at].family != 0) {
        count_prefix(blocks, slots[at].family, slots[at].bits, false);
    }
    begin_change(table);
    size_t gap = at;
    for (size_t i = next_slot(at);; i = next_slot(i)) {
        uint64_t tag = atomic_load_explicit(&slots[i].tag, memory_order_relaxed);
        if (tag == 0) {
            break;
        }
        size_t home = (size_t)tag & (SLOTS - 1);
        if (((i - home) & (SLOTS - 1)) >= ((i - gap) & (SLOTS - 1))) {
            move_slot(&slots[gap], &slots[i]);
            gap = i;
        }
    }
    move_slot(&slots[gap], &nothing);
    end_change(table);
    atomic_fetch_sub(&blocks->count, 1);
}

static void begin(struct block_sink *sink)
{
    struct blocks_table *table = ((struct blocks *)sink)->table;
    table->reading++;
    table->whole = true;
}

static bool put(struct block_sink *sink, const struct block_row *row, int64_t now_ms)
{
    struct blocks *blocks = (struct blocks *)sink;
    struct blocks_table *table = blocks->table;
    struct key key = key_of_row(row);
    uint64_t tag = tag_of(table, &key);
    size_t at = find_slot(table, tag);
    struct slot *slot = &table->slots[at];
    bool known = atomic_load_explicit(&slot->tag, memory_order_relaxed) == tag;
    if (block_has_ended(row, now_ms)) {
        if (known) {
            drop(blocks, at);
        }
        return true;
    }
    if (!known && atomic_load_explicit(&blocks->count, memory_order_relaxed) >= ROOM) {
        return false;
    }
    int64_t until_ms = row->until_ms != 0 ? row->until_ms : WITHOUT_END;
    table->next_end_ms = until_ms < table->next_end_ms ? until_ms : table->next_end_ms;
    begin_change(table);
    atomic_store_explicit(&slot->until_ms, until_ms, memory_order_release);
    atomic_store_explicit(&slot->tag, tag, memory_order_release);
    end_change(table);
    slot->reading = table->reading;
    if (!known) {
        slot->family = key.family;
        slot->bits = key.bits;
        if (key.family != 0) {
            count_prefix(blocks, key.family, key.bits, true);
        }
        atomic_fetch_add(&blocks->count, 1);
    }
    return true;
}

/* Drops blocks that have ended, and after a whole reading those that it did not have. */
static void end(struct block_sink *sink, int64_t now_ms)
{
    struct blocks *blocks = (struct blocks *)sink;
    struct blocks_table *table = blocks->table;
    if (!table->whole && now_ms < table->next_end_ms) {
        return;
    }
    int64_t next_end_ms = WITHOUT_END;
    for (size_t at = 0; at < SLOTS;) {
        const struct slot *slot = &table->slots[at];
        int64_t until_ms = atomic_load_explicit(&slot->until_ms, memory_order_relaxed);
        if (atomic_load_explicit(&slot->tag, memory_order_relaxed) == 0) {
            at++;
        } else if (until_ms <= now_ms || (table->whole && slot->reading != table->reading)) {
            drop(blocks, at); /* another one may be here now */
        } else {
            next_end_ms = until_ms < next_end_ms ? until_ms : next_end_ms;
            at++;
        }
    }
    table->next_end_ms = next_end_ms;
    table->whole = false;
}

/* ---- life ---- */

struct blocks *blocks_new(void)
{
    static const struct block_sink_ops ops = {begin, put, end};
    struct blocks *blocks = calloc(1, sizeof(*blocks));
    struct blocks_table *table = calloc(1, sizeof(*table));
    if (blocks == NULL || table == NULL) {
        free(blocks);
        free(table);
        return NULL;
    }
    crypt_random(table->hash_key, sizeof(table->hash_key));
    table->next_end_ms = WITHOUT_END;
    blocks->sink.ops = &ops;
    blocks->table = table;
    return blocks;
}

void blocks_free(struct blocks *blocks)
{
    if (blocks != NULL) {
        free(blocks->table);
        free(blocks);
    }
}

size_t blocks_bytes(void)
{
    return sizeof(struct blocks) + sizeof(struct blocks_table);
}
