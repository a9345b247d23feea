/*
 * Encoder and decoder of journal records. Both are generated from the field lists of GATE_COMMANDS,
 * so they cannot disagree. Pure.
 */
#include "core/record.h"

#include "base/check.h"
#include "base/err.h"

#define RECORD_HEAD_BYTES 17 /* kind, now_ms, event */

static uint8_t *put32(uint8_t *at, uint32_t v)
{
    store_le32(at, v);
    return at + 4;
}

static uint8_t *put64(uint8_t *at, uint64_t v)
{
    store_le64(at, v);
    return at + 8;
}

size_t record_encode(const struct gate_command *command, uint8_t *ret_bytes)
{
    /* A record without a kind would be damage to every reader of the journal. */
    CHECK(command->kind > GATE_KIND_NONE && command->kind < GATE_KIND_COUNT);
    uint8_t *at = ret_bytes;
    *at++ = (uint8_t)command->kind;
    at = put64(at, (uint64_t)command->now_ms);
    at = put64(at, command->event);
#define ID                                                                                         \
    at = put64(at, command->id.hi);                                                                \
    at = put64(at, command->id.lo);
#define W64(field) at = put64(at, command->field);
#define W32(field) at = put32(at, command->field);
    GATE_FIELDS(command->kind)
#undef ID
#undef W64
#undef W32
    return (size_t)(at - ret_bytes);
}

/* Body length by kind: the sizes of its fields. */
static size_t body_bytes(enum gate_kind kind)
{
    size_t n = 0;
#define ID n += 16;
#define W64(field) n += 8;
#define W32(field) n += 4;
    GATE_FIELDS(kind)
#undef ID
#undef W64
#undef W32
    return n;
}

static uint32_t take32(const uint8_t **at)
{
    uint32_t v = load_le32(*at);
    *at += 4;
    return v;
}

static uint64_t take64(const uint8_t **at)
{
    uint64_t v = load_le64(*at);
    *at += 8;
    return v;
}

int record_decode(const uint8_t *bytes, size_t len, struct gate_command *ret_command)
{
    if (len < RECORD_HEAD_BYTES || bytes[0] == GATE_KIND_NONE || bytes[0] >= GATE_KIND_COUNT) {
        return ERR_INVALID;
    }
    enum gate_kind kind = (enum gate_kind)bytes[0];
    if (len != RECORD_HEAD_BYTES + body_bytes(kind)) {
        return ERR_INVALID;
    }
    const uint8_t *at = bytes + 1;
    struct gate_command command = {.kind = kind};
    command.now_ms = (int64_t)take64(&at);
    command.event = take64(&at);
#define ID                                                                                         \
    command.id.hi = take64(&at);                                                                   \
    command.id.lo = take64(&at);
#define W64(field) command.field = take64(&at);
#define W32(field) command.field = take32(&at);
    GATE_FIELDS(kind)
#undef ID
#undef W64
#undef W32
    *ret_command = command;
    return 0;
}
