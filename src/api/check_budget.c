/* See check_budget.h. */
#include "api/check_budget.h"

#include <string.h>

#include "base/bytes.h"

#define CHECK_UNIT 1024U
#define PERMILLE 1000
/* After so many periods nothing is left of any count. */
#define DECAYS_MAX 256U

void check_budget_init(struct check_budget *budget, const uint8_t key[CRYPT_SIP_KEY_BYTES])
{
    memset(budget, 0, sizeof(*budget));
    memcpy(budget->key, key, sizeof(budget->key));
}

/* What is left of the loop's budget, in 1/1000 of a check. */
static int64_t left_of_loop(struct check_budget *budget, int64_t now_ms)
{
    int64_t regained = (now_ms - budget->used_ms) * CHECK_LOOP_PER_S;
    budget->used = regained < budget->used ? budget->used - regained : 0;
    budget->used_ms = now_ms;
    return (int64_t)CHECK_LOOP_BURST * PERMILLE - budget->used;
}

static void decay(struct check_count *count, int64_t now_ms)
{
    uint32_t periods = ((uint32_t)now_ms - count->at_ms) / CHECK_DECAY_MS;
    if (count->count == 0 || periods > DECAYS_MAX) {
        *count = (struct check_count){0, (uint32_t)now_ms};
        return;
    }
    for (uint32_t i = 0; i < periods; i++) {
        count->count -= (count->count + 7) / 8;
    }
    count->at_ms += periods * CHECK_DECAY_MS;
}

/* The counts of a client, brought up to date. Returns the lowest. */
static uint32_t counts_of(struct check_budget *budget, struct net_address client, int64_t now_ms,
                          struct check_count *ret_counts[CHECK_ROWS])
{
    uint8_t tag[CRYPT_SIP_BYTES];
    uint32_t lowest = UINT32_MAX;
    /* A client with IPv6 may use all addresses of a /64. */
    size_t len = client.family == 6 ? 8 : sizeof(client.bytes);
    crypt_siphash128(budget->key, client.bytes, len, tag);
    for (uint32_t row = 0; row < CHECK_ROWS; row++) {
        struct check_count *count =
            &budget->counts[row][load_le32(tag + (size_t)4 * row) % CHECK_SLOTS];
        decay(count, now_ms);
        lowest = count->count < lowest ? count->count : lowest;
        ret_counts[row] = count;
    }
    return lowest;
}

static void raise_counts(struct check_count *const counts[CHECK_ROWS], uint32_t raised)
{
    for (uint32_t row = 0; row < CHECK_ROWS; row++) {
        counts[row]->count = counts[row]->count < raised ? raised : counts[row]->count;
    }
}

bool check_budget_allows(struct check_budget *budget, struct net_address client, int64_t now_ms)
{
    struct check_count *counts[CHECK_ROWS];
    int64_t left = left_of_loop(budget, now_ms) / PERMILLE;
    left = left > 0 ? left : 0;
    /* The square makes room for many addresses: with a quarter of the budget left, the threshold is a
     * sixteenth. */
    uint64_t threshold = (uint64_t)CHECK_ADDRESS_MAX * CHECK_UNIT * (uint64_t)(left * left) /
                         ((uint64_t)CHECK_LOOP_BURST * CHECK_LOOP_BURST);
    uint32_t count = counts_of(budget, client, now_ms, counts);
    if (count < threshold) {
        return true;
    }
    if (count < CHECK_UNIT / CHECK_TURNED_AWAY_MAX) {
        raise_counts(counts, count + CHECK_UNIT / CHECK_TURNED_AWAY);
    }
    return false;
}

void check_budget_failed(struct check_budget *budget, struct net_address client, int64_t now_ms)
{
    struct check_count *counts[CHECK_ROWS];
    (void)left_of_loop(budget, now_ms);
    budget->used += PERMILLE;
    raise_counts(counts, counts_of(budget, client, now_ms, counts) + CHECK_UNIT);
}
