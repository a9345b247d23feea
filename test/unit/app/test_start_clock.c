/* Whether a start believes the wall clock: about right, held until confirmed, refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "app/clock_file.h"
#include "app/start_clock.h"
#include "base/err.h"
#include "fake_clock.h"
#include "obs/log.h"

#define LAST_MS 1700000000000LL
#define SECOND 1000LL
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)

static struct fake_clock clock;
static struct start_clock check;
static struct start_clock_times times;
static bool synchronised;

static int64_t wall_ms(struct clock_port *port)
{
    return atomic_load(&((struct fake_clock *)port)->wall_us) / 1000;
}

static int64_t boot_us(struct clock_port *port)
{
    return atomic_load(&((struct fake_clock *)port)->boot_us);
}

static bool confirmed(struct clock_port *port)
{
    (void)port;
    return synchronised;
}

/* The folder's last time is LAST_MS; the wall clock is this far from it. */
static void starts(int64_t ahead_ms)
{
    static const struct clock_ops ops = {wall_ms, boot_us, confirmed};
    fake_clock_init(&clock, LAST_MS + ahead_ms);
    clock.port.ops = &ops;
    synchronised = false;
    times = (struct start_clock_times){.journal_ms = LAST_MS, .ledger_is_ours = true};
    check = (struct start_clock){
        .options = {.bounds = {60 * SECOND, HOUR, 90 * DAY}, .confirm_ms = 60 * SECOND}};
}

static int ask(void)
{
    return start_clock_check(&check, &clock.port, &times);
}

static void a_clock_near_the_last_time_is_believed(void **state)
{
    (void)state;
    static const int64_t near[] = {-60 * SECOND, 0, HOUR};
    for (size_t i = 0; i < 3; i++) {
        starts(near[i]);
        assert_int_equal(ask(), 0);
    }
}

static void a_new_folder_knows_no_time(void **state)
{
    (void)state;
    starts(-1600000000000LL);
    times.journal_ms = 0;
    assert_int_equal(ask(), 0);
}

static void a_clock_far_away_is_refused(void **state)
{
    (void)state;
    static const int64_t far[] = {-60 * SECOND - 1, -40 * 365 * DAY, 90 * DAY + 1, 3650 * DAY};
    for (size_t i = 0; i < 4; i++) {
        starts(far[i]);
        synchronised = true;
        assert_int_equal(ask(), ERR_CLOCK);
        check.options.accept = true;
        assert_int_equal(ask(), 0);
    }
}

static void the_latest_of_all_known_times_counts(void **state)
{
    (void)state;
    starts(100 * DAY);
    check.options.known_ms = LAST_MS + 100 * DAY; /* it ran all the time, and nothing was sold */
    assert_int_equal(ask(), 0);
    starts(100 * DAY);
    times.ledger_ms = LAST_MS + 100 * DAY;
    assert_int_equal(ask(), 0);
    starts(0);
    times.ledger_ms = LAST_MS + DAY;
    assert_int_equal(ask(), ERR_CLOCK);
}

static void a_doubted_clock_waits_for_ntp(void **state)
{
    (void)state;
    starts(2 * HOUR);
    assert_int_equal(ask(), ERR_AGAIN);
    fake_clock_pass_ms(&clock, 30 * SECOND);
    assert_int_equal(ask(), ERR_AGAIN);
    synchronised = true;
    assert_int_equal(ask(), 0);
}

static void a_doubted_clock_that_runs_on_is_believed_in_the_end(void **state)
{
    (void)state;
    starts(2 * HOUR);
    assert_int_equal(ask(), ERR_AGAIN);
    fake_clock_pass_ms(&clock, 60 * SECOND - 1);
    assert_int_equal(ask(), ERR_AGAIN);
    fake_clock_pass_ms(&clock, 1);
    assert_int_equal(ask(), 0);
    starts(2 * HOUR);
    check.options.confirm_ms = 0;
    assert_int_equal(ask(), 0);
}

static void a_jump_begins_the_wait_anew(void **state)
{
    (void)state;
    static const int64_t jumps_ms[] = {3 * SECOND, -3 * SECOND};
    for (size_t i = 0; i < 2; i++) {
        starts(2 * HOUR);
        assert_int_equal(ask(), ERR_AGAIN);
        fake_clock_pass_ms(&clock, 59 * SECOND);
        fake_clock_set_wall_us(&clock, atomic_load(&clock.wall_us) + jumps_ms[i] * 1000);
        assert_int_equal(ask(), ERR_AGAIN);
        fake_clock_pass_ms(&clock, 59 * SECOND);
        assert_int_equal(ask(), ERR_AGAIN);
        fake_clock_pass_ms(&clock, SECOND);
        assert_int_equal(ask(), 0);
    }
}

static void a_clock_that_is_set_right_while_the_start_waits_is_believed(void **state)
{
    (void)state;
    starts(2 * HOUR);
    assert_int_equal(ask(), ERR_AGAIN);
    fake_clock_set_wall_us(&clock, (LAST_MS + 5 * SECOND) * 1000);
    assert_int_equal(ask(), 0);
    starts(2 * HOUR);
    assert_int_equal(ask(), ERR_AGAIN);
    fake_clock_set_wall_us(&clock, (LAST_MS - DAY) * 1000);
    assert_int_equal(ask(), ERR_CLOCK);
}

/* The database's clock may be the wrong one: it never refuses a start, either way. */
static void a_ledger_of_others_makes_the_start_wait_and_no_more(void **state)
{
    (void)state;
    static const int64_t far[] = {-3650 * DAY, -DAY, DAY, 3650 * DAY};
    for (size_t i = 0; i < 4; i++) {
        starts(0);
        times.ledger_is_ours = false;
        times.ledger_ms = LAST_MS + far[i];
        assert_int_equal(ask(), ERR_AGAIN);
        fake_clock_pass_ms(&clock, 60 * SECOND);
        assert_int_equal(ask(), 0);
    }
    starts(0);
    times.ledger_is_ours = false;
    assert_int_equal(ask(), 0); /* an empty ledger */
}

static void without_bounds_every_clock_is_believed(void **state)
{
    (void)state;
    starts(3650 * DAY);
    check.options.bounds = (struct clock_bounds){0};
    assert_int_equal(ask(), 0);
}

static void an_accepted_clock_that_is_behind_sets_the_time_back(void **state)
{
    (void)state;
    starts(-DAY);
    assert_false(start_clock_is_behind(&check, &clock.port, &times)); /* not accepted */
    check.options.accept = true;
    assert_true(start_clock_is_behind(&check, &clock.port, &times));
    times.journal_ms = 0;
    times.ledger_ms = LAST_MS;
    assert_true(start_clock_is_behind(&check, &clock.port, &times));
    times.ledger_is_ours = false; /* another machine's clock */
    assert_false(start_clock_is_behind(&check, &clock.port, &times));
    starts(DAY);
    check.options.accept = true;
    assert_false(start_clock_is_behind(&check, &clock.port, &times));
}

static void put(const char *folder, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/clock", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void the_file_keeps_the_last_time(void **state)
{
    (void)state;
    char folder[] = "/tmp/sluice_clock_XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_int_equal(clock_file_read(folder), 0);
    assert_true(clock_file_write(folder, LAST_MS));
    assert_int_equal(clock_file_read(folder), LAST_MS);
    assert_true(clock_file_write(folder, LAST_MS - 1));
    assert_int_equal(clock_file_read(folder), LAST_MS - 1);
    static const char *const bad[] = {"", "x\n", "12", "12\n\n", "-5\n", "1700000000000000000\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put(folder, bad[i]);
        assert_int_equal(clock_file_read(folder), 0);
    }
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/clock", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_false(clock_file_write(folder, LAST_MS));
}

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_near_the_last_time_is_believed),
        cmocka_unit_test(a_new_folder_knows_no_time),
        cmocka_unit_test(a_clock_far_away_is_refused),
        cmocka_unit_test(the_latest_of_all_known_times_counts),
        cmocka_unit_test(a_doubted_clock_waits_for_ntp),
        cmocka_unit_test(a_doubted_clock_that_runs_on_is_believed_in_the_end),
        cmocka_unit_test(a_jump_begins_the_wait_anew),
        cmocka_unit_test(a_clock_that_is_set_right_while_the_start_waits_is_believed),
        cmocka_unit_test(a_ledger_of_others_makes_the_start_wait_and_no_more),
        cmocka_unit_test(without_bounds_every_clock_is_believed),
        cmocka_unit_test(an_accepted_clock_that_is_behind_sets_the_time_back),
        cmocka_unit_test(the_file_keeps_the_last_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
