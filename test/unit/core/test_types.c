/* The words of the program: order ids and their text, the moves of an order, states, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/prng.h"
#include "core/types.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

static struct span text_of(struct order_id id, char text[ORDER_ID_TEXT])
{
    order_id_text(id, text);
    return (struct span){text, ORDER_ID_TEXT};
}

static void assert_round_trip(struct order_id id)
{
    char text[ORDER_ID_TEXT];
    struct order_id back = {0, 0};
    assert_int_equal(order_id_parse(text_of(id, text), &back), 0);
    assert_true(order_id_equal(id, back));
    for (size_t i = 0; i < sizeof(text); i++) {
        assert_non_null(memchr(alphabet, text[i], sizeof(alphabet) - 1));
    }
}

/* ---- order ids ---- */

static void a_once_id_carries_item_user_and_attempt(void **state)
{
    (void)state;
    static const uint64_t ids[] = {1,          2,          255,   1ULL << 31, (1ULL << 44) - 1,
                                   1ULL << 44, ID_MAX - 1, ID_MAX};
    static const uint32_t attempts[] = {0, 1, 77, ORDER_ATTEMPT_MAX - 1, ORDER_ATTEMPT_MAX};
    for (size_t i = 0; i < COUNT(ids); i++) {
        for (size_t u = 0; u < COUNT(ids); u++) {
            for (size_t a = 0; a < COUNT(attempts); a++) {
                struct order_id id = order_id_once(ids[i], ids[u], attempts[a]);
                assert_int_equal(order_id_kind(id), ORDER_ONCE);
                assert_int_equal(order_id_item(id), ids[i]);
                assert_int_equal(order_id_user(id), ids[u]);
                assert_int_equal(order_id_attempt(id), attempts[a]);
                assert_round_trip(id);
            }
        }
    }
}

static void a_once_id_is_the_same_for_the_same_buyer_and_no_other(void **state)
{
    (void)state;
    struct order_id id = order_id_once(7, 8, 9);
    assert_true(order_id_equal(id, order_id_once(7, 8, 9)));
    assert_false(order_id_equal(id, order_id_once(8, 8, 9)));
    assert_false(order_id_equal(id, order_id_once(7, 9, 9)));
    assert_false(order_id_equal(id, order_id_once(7, 8, 10)));
    assert_false(order_id_equal(id, order_id_fresh(7, 8, 9)));
}

static void a_fresh_id_carries_its_item(void **state)
{
    (void)state;
    static const int64_t times[] = {0, 1, 1700000000000LL, (1LL << 42) - 1};
    static const uint32_t sequences[] = {0, 1, 0x7fffffffU};
    static const uint64_t items[] = {1, 1000, ID_MAX};
    for (size_t i = 0; i < COUNT(items); i++) {
        for (size_t t = 0; t < COUNT(times); t++) {
            for (size_t s = 0; s < COUNT(sequences); s++) {
                struct order_id id = order_id_fresh(items[i], times[t], sequences[s]);
                assert_int_equal(order_id_kind(id), ORDER_FRESH);
                assert_int_equal(order_id_item(id), items[i]);
                assert_round_trip(id);
            }
        }
    }
}

/* Later in time is later in the text, whatever the sequence; at one time the sequence decides. */
static void fresh_ids_of_an_item_sort_by_time(void **state)
{
    (void)state;
    static const int64_t steps_ms[] = {0, 1, 1, 0, 59, 1000, 1LL << 20, 0, 1LL << 33, 1};
    struct prng prng = prng_of(11);
    int64_t now_ms = 1700000000000LL;
    uint32_t sequence = 5;
    char before[ORDER_ID_TEXT];
    order_id_text(order_id_fresh(42, now_ms, sequence), before);
    for (int i = 0; i < 2000; i++) {
        int64_t step = steps_ms[prng_below(&prng, i < 100 ? COUNT(steps_ms) : 6)];
        now_ms += step;
        sequence = step == 0 ? sequence + 1 : (uint32_t)prng_below(&prng, 1U << 30);
        char text[ORDER_ID_TEXT];
        order_id_text(order_id_fresh(42, now_ms, sequence), text);
        assert_true(memcmp(before, text, sizeof(text)) < 0);
        memcpy(before, text, sizeof(text));
    }
}

static void the_text_sorts_like_the_bits(void **state)
{
    (void)state;
    struct prng prng = prng_of(3);
    for (int i = 0; i < 20000; i++) {
        struct order_id a = {prng_next(&prng), prng_next(&prng)};
        struct order_id b = {prng_below(&prng, 2) ? a.hi : prng_next(&prng), prng_next(&prng)};
        char x[ORDER_ID_TEXT];
        char y[ORDER_ID_TEXT];
        order_id_text(a, x);
        order_id_text(b, y);
        int bits = a.hi != b.hi ? (a.hi < b.hi ? -1 : 1) : a.lo < b.lo ? -1 : a.lo > b.lo;
        int text = memcmp(x, y, sizeof(x));
        assert_true((bits < 0) == (text < 0) && (bits > 0) == (text > 0));
    }
}

/* The layout is kept for ever: the ledger holds these texts. */
static void known_ids_keep_their_text(void **state)
{
    (void)state;
    static const struct {
        struct order_id id;
        const char *text;
    } rows[] = {
        {{0x4000000000000200, 0x0000000000100000}, "20000000000800000000010000"},
        {{0x4000000eb79a2a00, 0x0003ade68b100003}, "200000XDWT580000XDWT5H0003"},
        {{0x8000000eb79a2ac5, 0xe7f2b40000000005}, "400000XDWT5B2YFWNM00000005"},
    };
    assert_true(order_id_equal(order_id_once(1, 1, 0), rows[0].id));
    assert_true(order_id_equal(order_id_once(123456789, 987654321, 3), rows[1].id));
    assert_true(order_id_equal(order_id_fresh(123456789, 1700000000000, 5), rows[2].id));
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[ORDER_ID_TEXT];
        order_id_text(rows[i].id, text);
        assert_memory_equal(text, rows[i].text, sizeof(text));
    }
}

static void assert_no_id(const char *text, size_t len)
{
    struct order_id id = {77, 88};
    assert_int_equal(order_id_parse((struct span){text, len}, &id), ERR_INVALID);
    assert_true(id.hi == 77 && id.lo == 88);
}

static void only_what_was_written_is_read(void **state)
{
    (void)state;
    char good[64];
    struct order_id id;
    memset(good, '0', sizeof(good));
    order_id_text(order_id_once(123456789, 987654321, 3), good);
    for (size_t len = 0; len <= sizeof(good); len++) {
        if (len != ORDER_ID_TEXT) {
            assert_no_id(good, len);
        }
    }
    for (size_t at = 0; at < ORDER_ID_TEXT; at++) {
        for (int c = 0; c < 256; c++) {
            char text[ORDER_ID_TEXT];
            memcpy(text, good, sizeof(text));
            text[at] = (char)c;
            /* The first character holds the kind's two bits and one of the item: 2 to 5. */
            bool legal =
                c != 0 && strchr(alphabet, c) != NULL && (at > 0 || (c >= '2' && c <= '5'));
            if (!legal) {
                assert_no_id(text, sizeof(text));
                continue;
            }
            char again[ORDER_ID_TEXT];
            assert_int_equal(order_id_parse((struct span){text, sizeof(text)}, &id), 0);
            assert_memory_equal(text_of(id, again).at, text, sizeof(text));
        }
    }
    assert_no_id(NULL, 0);
}

/* ---- the moves ---- */

static void exactly_the_legal_moves_exist(void **state)
{
    (void)state;
    static const enum order_state legal[][2] = {
        {ORDER_QUEUED, ORDER_LOCKED},  {ORDER_QUEUED, ORDER_FAILED},    {ORDER_LOCKED, ORDER_PAID},
        {ORDER_LOCKED, ORDER_EXPIRED}, {ORDER_LOCKED, ORDER_CANCELLED},
    };
    for (int from = 0; from < ORDER_STATE_COUNT; from++) {
        for (int to = 0; to < ORDER_STATE_COUNT; to++) {
            int moves = 0;
            for (int move = 0; move < ORDER_MOVE_COUNT; move++) {
                moves += order_move_from((enum order_move)move) == (enum order_state)from &&
                         order_move_to((enum order_move)move) == (enum order_state)to;
            }
            int want = 0;
            for (size_t i = 0; i < COUNT(legal); i++) {
                want +=
                    legal[i][0] == (enum order_state)from && legal[i][1] == (enum order_state)to;
            }
            assert_int_equal(moves, want);
        }
    }
    assert_int_equal(order_move_to(MOVE_CONFIRM), ORDER_LOCKED);
    assert_int_equal(order_move_to(MOVE_REFUSE), ORDER_FAILED);
    assert_int_equal(order_move_to(MOVE_PAY), ORDER_PAID);
    assert_int_equal(order_move_to(MOVE_EXPIRE), ORDER_EXPIRED);
    assert_int_equal(order_move_to(MOVE_CANCEL), ORDER_CANCELLED);
}

static void nothing_leaves_a_final_state_and_only_the_living_hold_units(void **state)
{
    (void)state;
    static const struct {
        enum order_state state;
        bool final;
        bool alive;
    } rows[] = {
        {ORDER_QUEUED, false, true},  {ORDER_LOCKED, false, true},    {ORDER_PAID, true, true},
        {ORDER_EXPIRED, true, false}, {ORDER_CANCELLED, true, false}, {ORDER_FAILED, true, false},
    };
    assert_int_equal(COUNT(rows), ORDER_STATE_COUNT);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(order_state_final(rows[i].state), rows[i].final);
        assert_int_equal(order_state_alive(rows[i].state), rows[i].alive);
        for (int move = 0; move < ORDER_MOVE_COUNT; move++) {
            assert_false(rows[i].final && order_move_from((enum order_move)move) == rows[i].state);
        }
    }
}

/* ---- words ---- */

static void states_are_read_as_they_are_written(void **state)
{
    (void)state;
    static const char *const order_words[] = {"QUEUED",  "LOCKED",    "PAID",
                                              "EXPIRED", "CANCELLED", "FAILED"};
    static const char *const sale_words[] = {"draft", "warm", "open", "paused", "closed"};
    static const char *const wrong[] = {"", "queued", "QUEUED ", "QUEUE", "OPEN", "drafts", "PAI"};
    assert_int_equal(COUNT(order_words), ORDER_STATE_COUNT);
    assert_int_equal(COUNT(sale_words), SALE_STATE_COUNT);
    for (int i = 0; i < ORDER_STATE_COUNT; i++) {
        enum order_state back = ORDER_STATE_COUNT;
        assert_string_equal(order_state_text((enum order_state)i), order_words[i]);
        assert_int_equal(order_state_parse(span_of(order_words[i]), &back), 0);
        assert_int_equal(back, i);
    }
    for (int i = 0; i < SALE_STATE_COUNT; i++) {
        enum sale_state back = SALE_STATE_COUNT;
        assert_string_equal(sale_state_text((enum sale_state)i), sale_words[i]);
        assert_int_equal(sale_state_parse(span_of(sale_words[i]), &back), 0);
        assert_int_equal(back, i);
    }
    for (size_t i = 0; i < COUNT(wrong); i++) {
        enum order_state order = ORDER_PAID;
        enum sale_state sale = SALE_WARM;
        assert_int_equal(order_state_parse(span_of(wrong[i]), &order), ERR_INVALID);
        assert_int_equal(sale_state_parse(span_of(wrong[i]), &sale), ERR_INVALID);
        assert_true(order == ORDER_PAID && sale == SALE_WARM);
    }
}

static void every_refusal_says_what_and_what_next(void **state)
{
    (void)state;
    for (int i = 0; i < REFUSAL_COUNT; i++) {
        const struct refusal_text *text = refusal_text((enum refusal)i);
        assert_true(i == REFUSAL_NONE ? text->status == 200
                                      : text->status >= 400 && text->status <= 599);
        assert_true(text->code[0] != '\0' && text->title[0] != '\0');
        assert_int_equal(strspn(text->code, "abcdefghijklmnopqrstuvwxyz_"), strlen(text->code));
        /* A status that asks the client to come back has a retry. */
        if (text->status == 503 || text->status == 429 || text->status == 425) {
            assert_int_not_equal(text->retry, RETRY_NO);
        }
    }
    assert_string_equal(retry_text(RETRY_NO), "no");
    assert_string_equal(retry_text(RETRY_LATER), "later");
    assert_string_equal(retry_text(RETRY_SAME_TICKET), "same-ticket");
    assert_string_equal(retry_text(RETRY_NEW_TICKET), "new-ticket");
}

/* The public contract's table of codes; a client has these written down. */
static void refusals_keep_the_public_codes(void **state)
{
    (void)state;
    static const struct {
        enum refusal refusal;
        int status;
        const char *code;
        enum retry retry;
    } rows[] = {
        {REFUSAL_BAD_REQUEST, 400, "bad_request", RETRY_NO},
        {REFUSAL_TOO_LARGE, 413, "too_large", RETRY_NO},
        {REFUSAL_BAD_MEDIA_TYPE, 415, "bad_media_type", RETRY_NO},
        {REFUSAL_UNAUTHENTICATED, 401, "unauthenticated", RETRY_NO},
        {REFUSAL_BAD_SIGNATURE, 401, "bad_signature", RETRY_NO},
        {REFUSAL_FORBIDDEN, 403, "forbidden", RETRY_NO},
        {REFUSAL_BAD_TICKET, 403, "bad_ticket", RETRY_NEW_TICKET},
        {REFUSAL_NOT_FOUND, 404, "not_found", RETRY_NO},
        {REFUSAL_NO_SUCH_ITEM, 404, "no_such_item", RETRY_NO},
        {REFUSAL_METHOD_NOT_ALLOWED, 405, "method_not_allowed", RETRY_NO},
        {REFUSAL_SOLD_OUT, 409, "sold_out", RETRY_NO},
        {REFUSAL_LIMIT_REACHED, 409, "limit_reached", RETRY_NO},
        {REFUSAL_BARRED, 409, "barred", RETRY_NO},
        {REFUSAL_NOT_OPEN, 409, "not_open", RETRY_LATER},
        {REFUSAL_ENDED, 409, "ended", RETRY_NO},
        {REFUSAL_EXPIRED, 409, "expired", RETRY_NO},
        {REFUSAL_ALREADY_PAID, 409, "already_paid", RETRY_NO},
        {REFUSAL_QUEUED, 409, "queued", RETRY_LATER},
        {REFUSAL_EXISTS, 409, "exists", RETRY_NO},
        {REFUSAL_BAD_STATE, 409, "bad_state", RETRY_NO},
        {REFUSAL_DIFFERENT_REQUEST, 422, "different_request", RETRY_NO},
        {REFUSAL_WRONG_AMOUNT, 422, "wrong_amount", RETRY_NO},
        {REFUSAL_TOO_EARLY, 425, "too_early", RETRY_LATER},
        {REFUSAL_RATE_LIMITED, 429, "rate_limited", RETRY_LATER},
        {REFUSAL_OVERLOADED, 503, "overloaded", RETRY_LATER},
        {REFUSAL_DEGRADED, 503, "degraded", RETRY_LATER},
        {REFUSAL_UNKNOWN_OUTCOME, 503, "degraded", RETRY_SAME_TICKET},
        {REFUSAL_DRAINING, 503, "draining", RETRY_LATER},
        {REFUSAL_NO_STOCK, 409, "sold_out", RETRY_NO},
        {REFUSAL_BLOCKED, 403, "blocked", RETRY_NO},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct refusal_text *text = refusal_text(rows[i].refusal);
        assert_int_equal(text->status, rows[i].status);
        assert_string_equal(text->code, rows[i].code);
        assert_int_equal(text->retry, rows[i].retry);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_once_id_carries_item_user_and_attempt),
        cmocka_unit_test(a_once_id_is_the_same_for_the_same_buyer_and_no_other),
        cmocka_unit_test(a_fresh_id_carries_its_item),
        cmocka_unit_test(fresh_ids_of_an_item_sort_by_time),
        cmocka_unit_test(the_text_sorts_like_the_bits),
        cmocka_unit_test(known_ids_keep_their_text),
        cmocka_unit_test(only_what_was_written_is_read),
        cmocka_unit_test(exactly_the_legal_moves_exist),
        cmocka_unit_test(nothing_leaves_a_final_state_and_only_the_living_hold_units),
        cmocka_unit_test(states_are_read_as_they_are_written),
        cmocka_unit_test(every_refusal_says_what_and_what_next),
        cmocka_unit_test(refusals_keep_the_public_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
