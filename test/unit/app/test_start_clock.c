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
#include "table_tests.h"

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

/* One question. Before it, time passes and the wall clock jumps. */
struct step {
    int wanted;
    int64_t pass_ms;
    int64_t jump_ms;
    bool synchronised; /* the wall clock, by NTP */
};

/* A start asks until the answer is another one than ERR_AGAIN. */
static const struct clock_case {
    const char *name;
    int64_t ahead_ms; /* of the folder's last time: the wall clock */
    struct step steps[4];
    int64_t known_ms;     /* the last time in the clock file; 0: none */
    int64_t ledger_ms;    /* the ledger's last time; 0: an empty ledger */
    bool new_folder;      /* without a journal */
    bool foreign_ledger;  /* on a database server with its own clock */
    bool without_bounds;  /* nothing is too far */
    bool without_confirm; /* nothing is waited for */
} clock_cases[] = {
    {.name = "a minute behind", -60 * SECOND, {{.wanted = 0}}},
    {.name = "at the last time", 0, {{.wanted = 0}}},
    {.name = "an hour ahead", HOUR, {{.wanted = 0}}},
    {.name = "a new folder, years behind", -1600000000000LL, {{.wanted = 0}}, .new_folder = true},
    {.name = "over a minute behind",
     -60 * SECOND - 1,
     {{.wanted = ERR_CLOCK, .synchronised = true}}},
    {.name = "forty years behind", -40 * 365 * DAY, {{.wanted = ERR_CLOCK, .synchronised = true}}},
    {.name = "over 90 days ahead", 90 * DAY + 1, {{.wanted = ERR_CLOCK, .synchronised = true}}},
    {.name = "ten years ahead", 3650 * DAY, {{.wanted = ERR_CLOCK, .synchronised = true}}},
    {.name = "ten years ahead, without bounds",
     3650 * DAY,
     {{.wanted = 0}},
     .without_bounds = true},
    /* The latest of all known times counts. */
    {.name = "the server ran until now and sold nothing",
     100 * DAY,
     {{.wanted = 0}},
     .known_ms = LAST_MS + 100 * DAY},
    {.name = "the ledger is as late", 100 * DAY, {{.wanted = 0}}, .ledger_ms = LAST_MS + 100 * DAY},
    {.name = "the ledger is a day later", 0, {{.wanted = ERR_CLOCK}}, .ledger_ms = LAST_MS + DAY},
    /* A doubted clock is confirmed by NTP or by time. */
    {.name = "NTP confirms it",
     2 * HOUR,
     {{.wanted = ERR_AGAIN},
      {.wanted = ERR_AGAIN, .pass_ms = 30 * SECOND},
      {.wanted = 0, .synchronised = true}}},
    {.name = "it runs on for a minute",
     2 * HOUR,
     {{.wanted = ERR_AGAIN},
      {.wanted = ERR_AGAIN, .pass_ms = 60 * SECOND - 1},
      {.wanted = 0, .pass_ms = 1}}},
    {.name = "no time to wait is set", 2 * HOUR, {{.wanted = 0}}, .without_confirm = true},
    {.name = "a jump ahead begins the wait anew",
     2 * HOUR,
     {{.wanted = ERR_AGAIN},
      {.wanted = ERR_AGAIN, .pass_ms = 59 * SECOND, .jump_ms = 3 * SECOND},
      {.wanted = ERR_AGAIN, .pass_ms = 59 * SECOND},
      {.wanted = 0, .pass_ms = SECOND}}},
    {.name = "a jump back begins the wait anew",
     2 * HOUR,
     {{.wanted = ERR_AGAIN},
      {.wanted = ERR_AGAIN, .pass_ms = 59 * SECOND, .jump_ms = -3 * SECOND},
      {.wanted = ERR_AGAIN, .pass_ms = 59 * SECOND},
      {.wanted = 0, .pass_ms = SECOND}}},
    {.name = "it is set right meanwhile",
     2 * HOUR,
     {{.wanted = ERR_AGAIN}, {.wanted = 0, .jump_ms = 5 * SECOND - 2 * HOUR}}},
    {.name = "it is set wrong meanwhile",
     2 * HOUR,
     {{.wanted = ERR_AGAIN}, {.wanted = ERR_CLOCK, .jump_ms = -DAY - 2 * HOUR}}},
    /* The database's clock may be the wrong one: it delays a start and never refuses one. */
    {.name = "a foreign ledger, ten years behind",
     0,
     {{.wanted = ERR_AGAIN}, {.wanted = 0, .pass_ms = 60 * SECOND}},
     .ledger_ms = LAST_MS - 3650 * DAY,
     .foreign_ledger = true},
    {.name = "a foreign ledger, a day behind",
     0,
     {{.wanted = ERR_AGAIN}, {.wanted = 0, .pass_ms = 60 * SECOND}},
     .ledger_ms = LAST_MS - DAY,
     .foreign_ledger = true},
    {.name = "a foreign ledger, a day ahead",
     0,
     {{.wanted = ERR_AGAIN}, {.wanted = 0, .pass_ms = 60 * SECOND}},
     .ledger_ms = LAST_MS + DAY,
     .foreign_ledger = true},
    {.name = "a foreign ledger, ten years ahead",
     0,
     {{.wanted = ERR_AGAIN}, {.wanted = 0, .pass_ms = 60 * SECOND}},
     .ledger_ms = LAST_MS + 3650 * DAY,
     .foreign_ledger = true},
    {.name = "a foreign ledger, empty", 0, {{.wanted = 0}}, .foreign_ledger = true},
};

static void a_start_asks(void **state)
{
    const struct clock_case *c = *state;
    starts(c->ahead_ms);
    check.options.known_ms = c->known_ms;
    times.ledger_ms = c->ledger_ms;
    times.ledger_is_ours = !c->foreign_ledger;
    if (c->new_folder) {
        times.journal_ms = 0;
    }
    if (c->without_bounds) {
        check.options.bounds = (struct clock_bounds){0};
    }
    if (c->without_confirm) {
        check.options.confirm_ms = 0;
    }
    const struct step *step = c->steps;
    for (;; step++) {
        fake_clock_pass_ms(&clock, step->pass_ms);
        if (step->jump_ms != 0) {
            fake_clock_set_wall_us(&clock, atomic_load(&clock.wall_us) + step->jump_ms * 1000);
        }
        synchronised = step->synchronised;
        assert_int_equal(start_clock_check(&check, &clock.port, &times), step->wanted);
        if (step->wanted != ERR_AGAIN) {
            break;
        }
    }
    if (step->wanted == ERR_CLOCK) { /* unless the operator accepts it */
        check.options.accept = true;
        assert_int_equal(start_clock_check(&check, &clock.port, &times), 0);
    }
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
        cmocka_unit_test(an_accepted_clock_that_is_behind_sets_the_time_back),
        cmocka_unit_test(the_file_keeps_the_last_time),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + TABLE_RUN(clock_cases, a_start_asks, NULL, NULL);
}
