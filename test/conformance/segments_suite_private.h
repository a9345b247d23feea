/* What the files of the suite of port/segments.h share. See segments_suite.c. */
#ifndef SLUICE_TEST_SEGMENTS_SUITE_PRIVATE_H
#define SLUICE_TEST_SEGMENTS_SUITE_PRIVATE_H

#include "segments_suite.h"

#define SUITE_TESTS(X)                                                                             \
    X(where_there_is_nothing_nothing_happens)                                                      \
    X(a_closed_segment_is_filled_and_opened)                                                       \
    X(rebuilding_again_changes_nothing)                                                            \
    X(what_changed_since_it_was_filled_is_left_alone)                                              \
    X(a_higher_epoch_begins_anew)                                                                  \
    X(a_lower_token_changes_nothing)                                                               \
    X(events_wait_until_it_is_rebuilt)                                                             \
    X(events_are_applied_once_and_in_their_order)                                                  \
    X(many_events_go_in_one_call)                                                                  \
    X(behind_a_refused_event_the_others_wait)                                                      \
    X(an_order_that_failed_elsewhere_is_noted)                                                     \
    X(a_sale_is_forgotten_bit_by_bit)                                                              \
    X(the_ledger_backends_clock_opens_no_sale)                                                     \
    X(a_decision_again_is_made_with_its_own_time)                                                  \
    X(a_decision_again_meets_a_sale_that_was_paused_or_closed_since)                               \
    X(a_decision_again_is_still_a_decision)                                                        \
    X(a_rebuilt_segment_keeps_its_shares)                                                          \
    X(who_failed_elsewhere_is_one_of_the_sales_buyers)                                             \
    X(a_decision_again_is_not_asked_for_a_cooling_time)                                            \
    X(a_transfer_takes_what_there_is_once)                                                         \
    X(the_outbox_has_every_decision_once)                                                          \
    X(what_a_worker_holds_is_its_own_until_it_is_dead)                                             \
    X(what_a_worker_holds_does_not_come_again)                                                     \
    X(what_a_worker_held_comes_first_when_it_starts_again)                                         \
    X(every_segment_of_the_mask_has_its_turn)                                                      \
    X(past_the_bound_of_the_outbox_nothing_is_decided)                                             \
    X(fronts_hear_what_happens)                                                                    \
    X(a_broken_one_is_seen_until_it_is_made_anew)                                                  \
    X(everyone_hears_what_is_told)                                                                 \
    X(a_wait_is_ended_by_a_wake)                                                                   \
    X(another_server_with_all_the_data_is_another_server)                                          \
    X(a_server_that_forgot_decides_nothing)                                                        \
    X(an_emptied_server_decides_nothing)

#define X(name) void suite_##name(void **state);
SUITE_TESTS(X)
#undef X

#define EVENT 20 /* what a rebuilt segment has applied */
#define UNITS 10
/* Not a verdict: what has not come after so many tries never will. */
#define TRIES_MAX 2000

struct suite {
    const struct segments_under_test *ut;
    struct segments *segments; /* of worker 1 */
    uint64_t after;            /* the last event of segment 0 */
    uint64_t epoch;
};
extern struct suite suite;

struct segment_step suite_begin(uint64_t event);
struct segment_step suite_sale(enum sale_state state);
struct segment_step suite_item(uint64_t id, uint32_t limit);
enum segment_outcome suite_rebuild_at(uint32_t segment, uint64_t fence,
                                      const struct segment_step *steps, size_t count);
enum segment_outcome suite_rebuild_one(uint64_t fence, struct segment_step step);
void suite_fill(uint32_t segment, uint64_t fence, bool open);
void suite_rebuild_all(uint64_t fence);
struct segment_call suite_event(enum gate_kind kind, struct order_id id);
enum segment_outcome suite_apply(struct segment_call *call);
void suite_apply_done(struct segment_call call);
struct order_id suite_fresh(uint64_t of_item, uint32_t sequence);
struct gate_request suite_buy(uint64_t user, struct order_id id, uint32_t qty);
enum refusal suite_ask(struct gate_request *kind); /* the gate must answer */
enum gate_outcome suite_outcome(struct gate_request *kind);
struct order_id suite_bought(uint64_t user, struct order_id id, uint32_t qty);
struct segment_call suite_again(uint64_t user, struct order_id id, uint32_t qty, int64_t now_ms);
void suite_assert_item(uint64_t id, uint64_t available, uint64_t locked, uint64_t sold);
struct segment_state suite_look(uint32_t segment);

#endif
