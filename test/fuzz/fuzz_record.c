/*
 * The codec of journal records, both ways.
 *
 * From bytes: what is read back is written as the very same bytes; and nothing is read that has
 * another length than docs/JOURNAL.md gives for its kind (a table of its own here), that is shorter
 * or longer by a byte, or that has no kind. From a command: what is written is read back as the
 * same command, and fields that its kind does not list are 0.
 */
#include "fuzz.h"

#include "core/record.h"

/* Lengths behind kind, time and event, by hand from docs/JOURNAL.md. */
static const size_t body_bytes[GATE_KIND_COUNT] = {
    [GATE_RESERVE] = 16 + 8 + 8 + 4 + 8,
    [GATE_CONFIRM] = 16 + 8 + 8,
    [GATE_FAIL_ORDER] = 16 + 8 + 4,
    [GATE_PAY] = 16 + 8,
    [GATE_CANCEL] = 16 + 8,
    [GATE_EXPIRE] = 16 + 8,
    [GATE_CANCEL_LATE] = 16 + 8,
    [GATE_RESTOCK] = 8 + 8,
    [GATE_LOAD_SALE] = 8 + 8 + 8 + 4,
    [GATE_LOAD_ITEM] = 8 + 8 + 8 + 4,
    [GATE_OPEN] = 8 + 8,
    [GATE_PAUSE] = 8,
    [GATE_CLOSE] = 8,
    [GATE_RETIME] = 8 + 8,
    [GATE_FORGET] = 8 + 4,
    [GATE_TRANSFER_OUT] = 8 + 8,
    [GATE_TRANSFER_IN] = 8 + 8,
    [GATE_SKIP] = 0,
    [GATE_EVICT] = 16,
    [GATE_SET_TIME] = 0,
    [GATE_CANCEL_COOLING] = 16 + 8 + 8,
    [GATE_EXPIRE_COOLING] = 16 + 8 + 8,
};

static bool same(const struct gate_command *a, const struct gate_command *b)
{
    return a->kind == b->kind && a->now_ms == b->now_ms && a->event == b->event &&
           order_id_equal(a->id, b->id) && a->user == b->user && a->item == b->item &&
           a->sale == b->sale && a->qty == b->qty && a->ticket_expires_ms == b->ticket_expires_ms &&
           a->time_ms == b->time_ms && a->reason == b->reason && a->amount == b->amount &&
           a->starts_at_ms == b->starts_at_ms && a->ends_at_ms == b->ends_at_ms &&
           a->bar_unpaid == b->bar_unpaid && a->limit == b->limit;
}

static void check_bytes(const uint8_t *bytes, size_t size)
{
    struct gate_command command;
    memset(&command, 0xa5, sizeof(command));
    bool known = size > 0 && bytes[0] != GATE_KIND_NONE && bytes[0] < GATE_KIND_COUNT;
    bool whole = known && size == 17 + body_bytes[bytes[0]];
    CHECK((record_decode(bytes, size, &command) == 0) == whole);
    if (!whole) {
        return;
    }
    CHECK(command.kind == bytes[0]);
    CHECK((uint64_t)command.now_ms == load_le64(bytes + 1));
    CHECK(command.event == load_le64(bytes + 9));
    uint8_t again[RECORD_MAX_BYTES + 1];
    CHECK(record_encode(&command, again) == size);
    CHECK(memcmp(again, bytes, size) == 0);
    struct gate_command second;
    CHECK(record_decode(bytes, size - 1, &second) != 0);
    again[size] = 0;
    CHECK(record_decode(again, size + 1, &second) != 0);
}

/* The same command with everything cleared that its kind does not list. */
static struct gate_command listed(const struct gate_command *full)
{
    struct gate_command c = {.kind = full->kind, .now_ms = full->now_ms, .event = full->event};
#define ID c.id = full->id;
#define W64(field) c.field = full->field;
#define W32(field) c.field = full->field;
    GATE_FIELDS(full->kind)
#undef ID
#undef W64
#undef W32
    return c;
}

static void check_command(struct fuzz_input in)
{
    struct gate_command command = {.kind = 1 + fuzz_below(&in, GATE_KIND_COUNT - 1)};
    command.now_ms = (int64_t)fuzz_number(&in, 8);
    command.event = fuzz_number(&in, 8);
    command.id.hi = fuzz_number(&in, 8);
    command.id.lo = fuzz_number(&in, 8);
    uint64_t *const wide[] = {
        &command.user,         &command.item,       &command.sale,    &command.amount,
        &command.starts_at_ms, &command.ends_at_ms, &command.time_ms, &command.ticket_expires_ms};
    uint32_t *const narrow[] = {&command.qty, &command.reason, &command.bar_unpaid, &command.limit};
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++) {
        *wide[i] = fuzz_number(&in, 8);
    }
    for (size_t i = 0; i < sizeof(narrow) / sizeof(narrow[0]); i++) {
        *narrow[i] = (uint32_t)fuzz_number(&in, 4);
    }
    uint8_t bytes[RECORD_MAX_BYTES];
    size_t len = record_encode(&command, bytes);
    CHECK(len == 17 + body_bytes[command.kind] && len <= RECORD_MAX_BYTES);
    struct gate_command back;
    CHECK(record_decode(bytes, len, &back) == 0);
    struct gate_command wanted = listed(&command);
    CHECK(same(&back, &wanted));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    check_bytes(bytes, size);
    check_command((struct fuzz_input){bytes, size});
    return 0;
}
