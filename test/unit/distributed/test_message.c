/* A decision as one line of text: what is written is read back, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/prng.h"
#include "distributed/message.h"

static struct decision decision_of(uint64_t item, uint64_t user, uint32_t qty, int64_t now_ms)
{
    return (struct decision){.segment = 3,
                             .epoch = 7,
                             .command = {.kind = GATE_RESERVE,
                                         .now_ms = now_ms,
                                         .id = order_id_fresh(item, now_ms, 3),
                                         .user = user,
                                         .item = item,
                                         .qty = qty}};
}

static void assert_same(const struct decision *a, const struct decision *b)
{
    assert_int_equal(a->segment, b->segment);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->command.kind, GATE_RESERVE);
    assert_true(order_id_equal(a->command.id, b->command.id));
    assert_int_equal(a->command.user, b->command.user);
    assert_int_equal(a->command.item, b->command.item);
    assert_int_equal(a->command.qty, b->command.qty);
    assert_int_equal(a->command.now_ms, b->command.now_ms);
    assert_int_equal(a->command.event, 0);
}

static void a_line_an_operator_can_read(void **state)
{
    (void)state;
    struct decision decision = decision_of(11, 42, 2, 1700000000000LL);
    char text[MESSAGE_MAX];
    char id[ORDER_ID_TEXT + 1] = {0};
    char want[MESSAGE_MAX];
    struct span span = message_write(text, &decision);
    order_id_text(decision.command.id, id);
    (void)snprintf(want, sizeof(want), "1 3 7 %s 42 11 2 1700000000000", id);
    assert_int_equal(span.len, strlen(want));
    assert_memory_equal(span.at, want, span.len);
    assert_true(span.at == text);
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    struct prng prng = prng_of(11);
    struct decision largest = decision_of(ID_MAX, ID_MAX, (uint32_t)QTY_MAX, 4000000000000LL);
    largest.segment = SEGMENTS_MAX - 1;
    largest.epoch = ID_MAX;
    largest.command.now_ms = TIME_MAX_MS;
    for (int i = 0; i < 2000; i++) {
        char text[MESSAGE_MAX];
        struct decision read;
        uint64_t item = 1 + prng_below(&prng, ID_MAX);
        struct decision decision =
            decision_of(item, 1 + prng_below(&prng, ID_MAX), 1 + (uint32_t)prng_below(&prng, 100),
                        (int64_t)prng_below(&prng, 4000000000000ULL));
        decision.segment = (uint32_t)prng_below(&prng, SEGMENTS_MAX);
        decision.epoch = 1 + prng_below(&prng, 1000);
        if (i % 2 == 1) {
            decision.command.id = order_id_once(item, decision.command.user, 5);
        }
        decision = i == 0 ? largest : decision;
        struct span span = message_write(text, &decision);
        assert_true(span.len > 0 && span.len < MESSAGE_MAX);
        assert_int_equal(message_read(span, &read), 0);
        assert_same(&read, &decision);
    }
}

/* The line with one of its eight words replaced; NULL: left out. */
static struct span with_word(char *text, int at, const char *word)
{
    struct decision decision = decision_of(11, 42, 2, 1700000000000LL);
    char line[MESSAGE_MAX];
    char *rest = NULL;
    size_t len = 0;
    struct span span = message_write(line, &decision);
    line[span.len] = '\0';
    int i = 0;
    for (const char *next = strtok_r(line, " ", &rest); next != NULL;
         next = strtok_r(NULL, " ", &rest), i++) {
        next = i == at ? word : next;
        if (next != NULL) {
            len +=
                (size_t)snprintf(text + len, MESSAGE_MAX - len, "%s%s", len > 0 ? " " : "", next);
        }
    }
    return (struct span){text, len};
}

static void anything_else_is_not_one_of_ours(void **state)
{
    (void)state;
    static const struct {
        int at;
        const char *word;
    } bad[] = {
        {0, "2"},
        {0, "0"},
        {0, "x"},
        {1, "64"},
        {1, "-1"},
        {2, "0"},                /* an epoch is one from the first on */
        {2, "9007199254740992"}, /* above ID_MAX */
        {3, "0000000000000000000000000"},
        {3, "01"},
        {4, "0"}, /* nobody */
        {4, "9007199254740992"},
        {4, ""},
        {5, "12"}, /* another item than the id's */
        {5, "0"},
        {6, "0"}, /* nothing */
        {6, "2147483648"},
        {6, "two"},
        {7, "253402300800000"}, /* after the last day */
        {7, "18446744073709551616"},
        {7, ""},
    };
    char text[MESSAGE_MAX];
    struct decision read = {.segment = 99};
    assert_int_equal(message_read(with_word(text, -1, NULL), &read), 0);
    read.segment = 99;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct span span = with_word(text, bad[i].at, bad[i].word);
        assert_int_equal(message_read(span, &read), ERR_INVALID);
    }
    for (int at = 0; at < 8; at++) {
        assert_int_equal(message_read(with_word(text, at, NULL), &read), ERR_INVALID);
    }
    struct span span = with_word(text, -1, NULL);
    for (size_t len = 0; len < span.len - 12; len++) { /* the last word cut is a word still */
        assert_int_equal(message_read((struct span){text, len}, &read), ERR_INVALID);
    }
    span = with_word(text, 7, "1700000000000 9");
    assert_int_equal(message_read(span, &read), ERR_INVALID);
    span = with_word(text, 7, "1700000000000 ");
    assert_int_equal(message_read(span, &read), ERR_INVALID);
    assert_int_equal(message_read((struct span){text, 0}, &read), ERR_INVALID);
    assert_int_equal(read.segment, 99); /* untouched */
}

/* An id that is a function of the buyer names him; another buyer's is not ours. */
static void an_id_of_another_buyer_is_not_ours(void **state)
{
    (void)state;
    struct decision decision = decision_of(11, 42, 1, 1700000000000LL);
    struct decision read;
    char text[MESSAGE_MAX];
    decision.command.id = order_id_once(11, 42, 0);
    assert_int_equal(message_read(message_write(text, &decision), &read), 0);
    decision.command.id = order_id_once(11, 43, 0);
    assert_int_equal(message_read(message_write(text, &decision), &read), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_an_operator_can_read),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(anything_else_is_not_one_of_ours),
        cmocka_unit_test(an_id_of_another_buyer_is_not_ours),
    };
    return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
