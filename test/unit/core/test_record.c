/* Journal records: every kind comes back as it was, and nothing but whole records is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/prng.h"
#include "core/record.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Sizes by hand, from the list of fields in gate.h: a head of 17, then the body. */
static const struct {
    enum gate_kind kind;
    size_t bytes;
} sizes[] = {
    {GATE_RESERVE, 17 + 16 + 8 + 8 + 4 + 8},
    {GATE_CONFIRM, 17 + 16 + 8 + 8},
    {GATE_FAIL_ORDER, 17 + 16 + 8 + 4},
    {GATE_PAY, 17 + 16 + 8},
    {GATE_CANCEL, 17 + 16 + 8},
    {GATE_EXPIRE, 17 + 16 + 8},
    {GATE_RESTOCK, 17 + 8 + 8},
    {GATE_LOAD_SALE, 17 + 8 + 8 + 8 + 4},
    {GATE_LOAD_ITEM, 17 + 8 + 8 + 8 + 4},
    {GATE_OPEN, 17 + 8 + 8},
    {GATE_PAUSE, 17 + 8},
    {GATE_CLOSE, 17 + 8},
    {GATE_RETIME, 17 + 8 + 8},
    {GATE_FORGET, 17 + 8 + 4},
    {GATE_TRANSFER_OUT, 17 + 8 + 8},
    {GATE_TRANSFER_IN, 17 + 8 + 8},
    {GATE_SKIP, 17},
    {GATE_CANCEL_LATE, 17 + 16 + 8},
    {GATE_EVICT, 33},
    {GATE_SET_TIME, 17},
    {GATE_CANCEL_COOLING, 17 + 16 + 8 + 8},
    {GATE_EXPIRE_COOLING, 17 + 16 + 8 + 8},
};

/* All bits set now and then: fields must not run into each other. */
static uint64_t draw(struct prng *prng)
{
    return prng_below(prng, 4) == 0 ? UINT64_MAX : prng_next(prng);
}

/* A command with the fields of its kind filled and all others 0. */
static struct gate_command command_of(enum gate_kind kind, struct prng *prng)
{
    struct gate_command command = {
        .kind = kind, .now_ms = (int64_t)draw(prng), .event = draw(prng)};
#define ID command.id = (struct order_id){draw(prng), draw(prng)};
#define W64(field) command.field = draw(prng);
#define W32(field) command.field = (uint32_t)draw(prng);
    switch (kind) {
#define X(name, text, fields)                                                                      \
    case name:                                                                                     \
        fields break;
        GATE_COMMANDS(X)
#undef X
    default:
        fail();
    }
#undef ID
#undef W64
#undef W32
    return command;
}

static void assert_same(const struct gate_command *a, const struct gate_command *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->now_ms, b->now_ms);
    assert_int_equal(a->event, b->event);
    assert_true(order_id_equal(a->id, b->id));
    assert_int_equal(a->user, b->user);
    assert_int_equal(a->item, b->item);
    assert_int_equal(a->sale, b->sale);
    assert_int_equal(a->qty, b->qty);
    assert_int_equal(a->ticket_expires_ms, b->ticket_expires_ms);
    assert_int_equal(a->time_ms, b->time_ms);
    assert_int_equal(a->reason, b->reason);
    assert_int_equal(a->amount, b->amount);
    assert_int_equal(a->starts_at_ms, b->starts_at_ms);
    assert_int_equal(a->ends_at_ms, b->ends_at_ms);
    assert_int_equal(a->bar_unpaid, b->bar_unpaid);
    assert_int_equal(a->limit, b->limit);
}

/* Decodes from memory of exactly this length, so that a read past its end is seen. */
static int decode(const uint8_t *bytes, size_t len, struct gate_command *ret_command)
{
    uint8_t *exact = malloc(len > 0 ? len : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, len);
    int error = record_decode(exact, len, ret_command);
    free(exact);
    return error;
}

static void every_kind_comes_back(void **state)
{
    (void)state;
    struct prng prng = prng_of(1);
    assert_int_equal(COUNT(sizes), GATE_KIND_COUNT - 1);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        for (int n = 0; n < 100; n++) {
            struct gate_command command = command_of(sizes[i].kind, &prng);
            uint8_t bytes[RECORD_MAX_BYTES];
            struct gate_command back;
            assert_int_equal(record_encode(&command, bytes), sizes[i].bytes);
            assert_int_equal(decode(bytes, sizes[i].bytes, &back), 0);
            assert_same(&command, &back);
        }
    }
}

static void fields_of_other_kinds_are_left_behind(void **state)
{
    (void)state;
    struct gate_command command;
    memset(&command, 0xff, sizeof(command));
    command.kind = GATE_PAUSE;
    uint8_t bytes[RECORD_MAX_BYTES];
    struct gate_command back;
    assert_int_equal(decode(bytes, record_encode(&command, bytes), &back), 0);
    const struct gate_command want = {
        .kind = GATE_PAUSE, .now_ms = -1, .event = UINT64_MAX, .sale = UINT64_MAX};
    assert_same(&back, &want);
}

static void any_other_length_is_refused(void **state)
{
    (void)state;
    struct prng prng = prng_of(2);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        uint8_t bytes[RECORD_MAX_BYTES + 64];
        struct gate_command command = command_of(sizes[i].kind, &prng);
        memset(bytes, 0x5a, sizeof(bytes));
        (void)record_encode(&command, bytes);
        for (size_t len = 0; len <= sizeof(bytes); len++) {
            struct gate_command back = {.kind = GATE_SKIP, .user = 4711};
            if (len != sizes[i].bytes) {
                assert_int_equal(decode(bytes, len, &back), ERR_INVALID);
                assert_int_equal(back.user, 4711); /* not written */
            }
        }
    }
}

static void unknown_kinds_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[RECORD_MAX_BYTES] = {0};
    for (int kind = 0; kind < 256; kind++) {
        if (kind > GATE_KIND_NONE && kind < GATE_KIND_COUNT) {
            continue;
        }
        bytes[0] = (uint8_t)kind;
        for (size_t len = 0; len <= sizeof(bytes); len++) {
            struct gate_command back;
            assert_int_equal(decode(bytes, len, &back), ERR_INVALID);
        }
    }
}

/* Journals on disks are read by later versions: bytes and numbers of the kinds stay. */
static void the_bytes_on_disk_stay_what_they_are(void **state)
{
    (void)state;
    static const uint8_t want[] = {
        1,                                              /* kind */
        0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* now_ms */
        0,    0,    0,    0,    0,    0,    0,    0,    /* event */
        0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* id.hi */
        0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, /* id.lo */
        0x07, 0,    0,    0,    0,    0,    0,    0,    /* user */
        0x0b, 0,    0,    0,    0,    0,    0,    0,    /* item */
        0x02, 0,    0,    0,                            /* qty */
        0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, /* ticket_expires_ms */
    };
    const struct gate_command command = {.kind = GATE_RESERVE,
                                         .now_ms = 0x0102030405060708,
                                         .id = {0x1112131415161718, 0x2122232425262728},
                                         .user = 7,
                                         .item = 11,
                                         .qty = 2,
                                         .ticket_expires_ms = 0x3132333435363738};
    uint8_t bytes[RECORD_MAX_BYTES];
    assert_int_equal(record_encode(&command, bytes), sizeof(want));
    assert_memory_equal(bytes, want, sizeof(want));
    for (size_t i = 0; i < COUNT(sizes); i++) {
        assert_int_equal(sizes[i].kind, i + 1);
    }
    assert_string_equal(gate_kind_text(GATE_RESERVE), "reserve");
    assert_string_equal(gate_kind_text(GATE_SKIP), "skip");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back),
        cmocka_unit_test(fields_of_other_kinds_are_left_behind),
        cmocka_unit_test(any_other_length_is_refused),
        cmocka_unit_test(unknown_kinds_are_refused),
        cmocka_unit_test(the_bytes_on_disk_stay_what_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
