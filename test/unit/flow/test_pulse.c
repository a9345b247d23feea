/* What a front tells of its segments: nothing of one that never answered, and then what was
 * last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "flow/pulse.h"

static struct segment_state seen;

static void op_look(struct segments *segments, uint32_t segment, struct segment_state *ret_state)
{
    (void)segments;
    (void)segment;
    *ret_state = seen;
}

static enum ledger_submitted op_read(struct ledger *ledger, struct ledger_query *query)
{
    (void)ledger;
    query->error = ERR_IO;
    return LEDGER_DONE;
}

static void a_segment_that_never_answered_is_not_known(void **state)
{
    (void)state;
    static const struct segments_ops segments_ops = {.look = op_look};
    static const struct ledger_ops ledger_ops = {.read = op_read};
    struct segments segments = {&segments_ops};
    struct ledger ledger = {&ledger_ops};
    static struct places places = {.count = 1};
    static struct pulse pulse;
    static struct pulse_sample sample;
    pulse_init(&pulse);
    pulse.places = &places;
    pulse.segments = &segments;
    pulse.ledger = &ledger;
    seen = (struct segment_state){.outcome = SEGMENT_NOT_ASKED};
    pulse_look(&pulse, 1000);
    pulse_read(&pulse, &sample);
    assert_int_equal(sample.segments_at_ms, 1000);
    assert_true(sample.segments[0].away);
    assert_false(sample.segments[0].known);
    seen = (struct segment_state){.outcome = SEGMENT_DONE, .epoch = 3, .open = true, .outbox = 7};
    pulse_look(&pulse, 2000);
    seen = (struct segment_state){.outcome = SEGMENT_NOT_KNOWN};
    pulse_look(&pulse, 3000);
    pulse_read(&pulse, &sample);
    assert_true(sample.segments[0].away);
    assert_true(sample.segments[0].known);
    assert_int_equal(sample.segments[0].epoch, 3);
    assert_int_equal(sample.segments[0].outbox, 7);
    pulse_done(&pulse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_that_never_answered_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
