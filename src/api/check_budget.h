/*
 * The budget of failed Ed25519 checks of one event loop. A check costs about 50 us, so whoever sends
 * forged tokens could otherwise occupy the loop.
 *
 * Only failed checks use the budget. All of them together may cost a fifth of a core. Each address has
 * a count of its own failures, which decays. The larger the used part of the loop's budget, the lower
 * the count with which an address may still have a signature checked. So one address gets an eighth of
 * CHECK_ADDRESS_MAX a second at most, many addresses share the loop's budget evenly, and an address
 * without failures is checked as long as anything is left. (Dynamic thresholds, as switches use them to
 * share their memory among queues.)
 *
 * A token that is turned away unchecked counts, too, but little, and no more than half a failure in all.
 * Otherwise, thousands of attacking addresses would each look like a new client until a signature of
 * theirs was checked, which takes seconds. So they are known after one round, and a new client comes
 * before them. The limit keeps a flood from one address from barring it for longer than its failures do.
 *
 * The counts are in a small table of fixed size, in four rows with different keyed hashes; the lowest
 * of its four counts is an address's. An address is mistaken for others only if all four slots are
 * shared. IPv6 addresses count by /64.
 *
 * Threads: a budget belongs to its loop.
 */
#ifndef SLUICE_API_CHECK_BUDGET_H
#define SLUICE_API_CHECK_BUDGET_H

#include <stdbool.h>

#include "base/crypt.h"
#include "port/net.h"

/* The loop's failed checks: at once, and a second. */
#define CHECK_LOOP_BURST 400
#define CHECK_LOOP_PER_S 4000
/* The count of an address loses an eighth in each of these periods. */
#define CHECK_DECAY_MS 1024
#define CHECK_ADDRESS_MAX 2000
/* A token that is turned away counts a sixteenth of a failure, as long as the count is below a half. */
#define CHECK_TURNED_AWAY 16
#define CHECK_TURNED_AWAY_MAX 2

#define CHECK_ROWS 4
#define CHECK_SLOTS 65536U /* of a row */

struct check_budget {
    uint8_t key[CRYPT_SIP_KEY_BYTES];
    int64_t used;    /* of the loop's budget, in 1/1000 of a check */
    int64_t used_ms; /* when `used` was brought up to date */
    struct check_count {
        uint32_t count; /* in 1/CHECK_UNIT of a check */
        uint32_t at_ms; /* the low bits of the time of the last decay */
    } counts[CHECK_ROWS][CHECK_SLOTS];
};

/* key: random, for the hashes. */
void check_budget_init(struct check_budget *budget, const uint8_t key[CRYPT_SIP_KEY_BYTES]);
/* Whether a signature that this client sent may be checked; no is counted. Times must not go back. */
bool check_budget_allows(struct check_budget *budget, struct net_address client, int64_t now_ms);
/* The check has failed. */
void check_budget_failed(struct check_budget *budget, struct net_address client, int64_t now_ms);

#endif
