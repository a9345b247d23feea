/* Texts and tables generated from the lists in types.h, and the layout of the order id. Pure. */
#include "core/types.h"

#include "base/check.h"
#include "base/err.h"

static const char crockford[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

struct order_id order_id_once(uint64_t item, uint64_t user, uint32_t attempt)
{
    CHECK(item <= ID_MAX && user <= ID_MAX && attempt <= ORDER_ATTEMPT_MAX);
    /* hi: kind:2 item:53 user's top 9; lo: user's low 44, attempt:20 */
    return (struct order_id){(uint64_t)ORDER_ONCE << 62 | item << 9 | user >> 44,
                             user << 20 | attempt};
}

struct order_id order_id_fresh(uint64_t item, int64_t now_ms, uint32_t sequence)
{
    CHECK(item <= ID_MAX && now_ms >= 0);
    uint64_t time = (uint64_t)now_ms & ((1ULL << 42) - 1);
    /* hi: kind:2 item:53 time's top 9; lo: time's low 33, sequence:31 */
    return (struct order_id){(uint64_t)ORDER_FRESH << 62 | item << 9 | time >> 33,
                             time << 31 | (sequence & 0x7fffffffU)};
}

enum order_kind order_id_kind(struct order_id id)
{
    return (enum order_kind)(id.hi >> 62);
}

uint64_t order_id_item(struct order_id id)
{
    return id.hi >> 9 & ID_MAX;
}

uint32_t order_id_segment(struct order_id id)
{
    return (uint32_t)(id.lo & ((1U << ORDER_SEGMENT_BITS) - 1));
}

uint32_t order_id_attempt(struct order_id id)
{
    return (uint32_t)(id.lo & ORDER_ATTEMPT_MAX);
}

uint64_t order_id_user(struct order_id id)
{
    return (id.hi & 0x1ff) << 44 | id.lo >> 20;
}

int64_t order_id_ms(struct order_id id)
{
    return (int64_t)((id.hi & 0x1ff) << 33 | id.lo >> 31);
}

void order_id_text(struct order_id id, char *ret_text)
{
    for (int i = ORDER_ID_TEXT - 1; i >= 0; i--) {
        ret_text[i] = crockford[id.lo & 31];
        id.lo = id.lo >> 5 | id.hi << 59;
        id.hi >>= 5;
    }
}

static int crockford_value(char c)
{
    for (int v = 0; v < 32; v++) {
        if (crockford[v] == c) {
            return v;
        }
    }
    return -1;
}

int order_id_parse(struct span text, struct order_id *ret_id)
{
    if (text.len != ORDER_ID_TEXT || crockford_value(text.at[0]) > 7) {
        return ERR_INVALID;
    }
    struct order_id id = {0, 0};
    for (size_t i = 0; i < text.len; i++) {
        int v = crockford_value(text.at[i]);
        if (v < 0) {
            return ERR_INVALID;
        }
        id.hi = id.hi << 5 | id.lo >> 59;
        id.lo = id.lo << 5 | (uint64_t)v;
    }
    enum order_kind kind = order_id_kind(id);
    if (kind != ORDER_ONCE && kind != ORDER_FRESH) {
        return ERR_INVALID;
    }
    *ret_id = id;
    return 0;
}

const uint8_t order_moves[ORDER_MOVE_COUNT][2] = {
#define X(name, text, from, to) {from, to},
    ORDER_MOVES(X)
#undef X
};

static const char *const order_state_texts[] = {
#define X(name, text) text,
    ORDER_STATES(X)
#undef X
};
static const char *const sale_state_texts[] = {
#define X(name, text) text,
    SALE_STATES(X)
#undef X
};

/* Index of text in a list of words, or ERR_INVALID. */
static int word_index(struct span text, const char *const *words, int count)
{
    for (int i = 0; i < count; i++) {
        if (span_is(text, words[i])) {
            return i;
        }
    }
    return ERR_INVALID;
}

const char *order_state_text(enum order_state state)
{
    CHECK((unsigned)state < ORDER_STATE_COUNT);
    return order_state_texts[state];
}

int order_state_parse(struct span text, enum order_state *ret_state)
{
    int index = word_index(text, order_state_texts, ORDER_STATE_COUNT);
    if (index < 0) {
        return index;
    }
    *ret_state = (enum order_state)index;
    return 0;
}

const char *sale_state_text(enum sale_state state)
{
    CHECK((unsigned)state < SALE_STATE_COUNT);
    return sale_state_texts[state];
}

int sale_state_parse(struct span text, enum sale_state *ret_state)
{
    int index = word_index(text, sale_state_texts, SALE_STATE_COUNT);
    if (index < 0) {
        return index;
    }
    *ret_state = (enum sale_state)index;
    return 0;
}

const char *retry_text(enum retry retry)
{
    switch (retry) {
    case RETRY_LATER:
        return "later";
    case RETRY_SAME_TICKET:
        return "same-ticket";
    case RETRY_NEW_TICKET:
        return "new-ticket";
    case RETRY_NO:
        break;
    }
    return "no";
}

static const struct refusal_text refusal_texts[] = {
#define X(name, status, code, retry, title) {status, code, retry, title},
    REFUSALS(X)
#undef X
};

const struct refusal_text *refusal_text(enum refusal refusal)
{
    CHECK((unsigned)refusal < REFUSAL_COUNT);
    return &refusal_texts[refusal];
}
