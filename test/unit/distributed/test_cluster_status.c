/* What a front tells of its segments: nothing of one that never answered, and then what was
 * last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "distributed/cluster_status.h"

static struct segment_state seen;

static void op_look(struct segments *segments, uint32_t segment, struct segment_state *ret_state)
{
    (void)segments;
    (void)segment;
    *ret_state = seen;
}

static void op_read(struct ledger *ledger, struct ledger_query *query)
{
    (void)ledger;
    query->error = ERR_IO;
}

static void a_segment_that_never_answered_is_not_known(void **state)
{
    (void)state;
    static const struct segments_ops segments_ops = {.look = op_look};
    static const struct ledger_ops ledger_ops = {.read = op_read};
    struct segments segments = {&segments_ops};
    struct ledger ledger = {.ops = &ledger_ops};
    static struct segment_table segment_table = {.count = 1};
    static struct cluster_status cluster_status;
    static struct cluster_status_sample sample;
    cluster_status_init(&cluster_status);
    cluster_status.segment_table = &segment_table;
    cluster_status.segments = &segments;
    cluster_status.ledger = &ledger;
    seen = (struct segment_state){.outcome = SEGMENT_NOT_ASKED};
    cluster_status_look(&cluster_status, 1000);
    cluster_status_read(&cluster_status, &sample);
    assert_int_equal(sample.segments_at_ms, 1000);
    assert_true(sample.segments[0].away);
    assert_false(sample.segments[0].known);
    seen = (struct segment_state){.outcome = SEGMENT_DONE, .epoch = 3, .open = true, .outbox = 7};
    cluster_status_look(&cluster_status, 2000);
    seen = (struct segment_state){.outcome = SEGMENT_NOT_KNOWN};
    cluster_status_look(&cluster_status, 3000);
    cluster_status_read(&cluster_status, &sample);
    assert_true(sample.segments[0].away);
    assert_true(sample.segments[0].known);
    assert_int_equal(sample.segments[0].epoch, 3);
    assert_int_equal(sample.segments[0].outbox, 7);
    cluster_status_done(&cluster_status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_that_never_answered_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
