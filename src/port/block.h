/*
 * A block: a user, an address (or all with the same prefix) or a device that may not order. The
 * ledger keeps blocks (port/ledger.h), admission/blocks.h has those of now in memory.
 *
 * A value is stored in one form only (block_value_read), so each block has one row.
 */
#ifndef SLUICE_PORT_BLOCK_H
#define SLUICE_PORT_BLOCK_H

#include "base/bytes.h"
#include "port/net_address.h"

/* Name in calls and in the ledger. Append only. */
#define BLOCK_KINDS(X)                                                                             \
    X(BLOCK_USER, "user")                                                                          \
    X(BLOCK_ADDRESS, "ip")                                                                         \
    X(BLOCK_DEVICE, "device")

enum block_kind {
    BLOCK_NONE,
#define X(name, text) name,
    BLOCK_KINDS(X)
#undef X
        BLOCK_KIND_COUNT
};
const char *block_kind_text(enum block_kind kind);
/* 0 or ERR_INVALID. */
int block_kind_parse(struct span text, enum block_kind *ret_kind);

/* Blocks that have not ended. With twice the slots, their table takes 3 MiB. */
#define BLOCKS_MAX 65536U
#define BLOCK_VALUE_MAX 64 /* a device's name; the texts of users and networks are shorter */
#define BLOCK_REASON_MAX 200
/* until_ms of a block that was removed. */
#define BLOCK_REMOVED 1

struct block_row {
    enum block_kind kind;
    char value[BLOCK_VALUE_MAX + 1];
    char reason[BLOCK_REASON_MAX + 1];
    int64_t until_ms; /* 0: without end */
    int64_t at_ms;    /* of the last change */
    uint64_t number;  /* of the last change of this block; grows with every change of any */
};
static inline bool block_has_ended(const struct block_row *row, int64_t now_ms)
{
    return row->until_ms != 0 && row->until_ms <= now_ms;
}

/* A value as somebody wrote it, in the form that is stored. NULL, or what is wrong with it, in
 * words. */
const char *block_value_read(enum block_kind kind, struct span text,
                             char ret_value[BLOCK_VALUE_MAX + 1]);

/* Where the ledger's blocks go. One thread. */
struct block_sink;
struct block_sink_ops {
    /* All blocks follow; those that do not are no more. */
    void (*begin)(struct block_sink *sink);
    /* A block that changed. False: there is no room. */
    bool (*put)(struct block_sink *sink, const struct block_row *row, int64_t now_ms);
    /* The reading is through. Also called without one, to drop what has ended. */
    void (*end)(struct block_sink *sink, int64_t now_ms);
};
struct block_sink {
    const struct block_sink_ops *ops;
};

#endif
