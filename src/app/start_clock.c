/* See start_clock.h. */
#include "app/start_clock.h"

#include <time.h>

#include "base/err.h"
#include "obs/log.h"

#define TIME_TEXT 32

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static const char *time_text(int64_t ms, char *ret_text)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts = {0};
    (void)gmtime_r(&seconds, &parts);
    ret_text[0] = '\0';
    (void)strftime(ret_text, TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return ret_text;
}

static enum clock_verdict judge(const struct start_clock *check, int64_t wall_ms,
                                const struct start_clock_times *times, int64_t *ret_known_ms)
{
    const struct clock_bounds *bounds = &check->options.bounds;
    int64_t known_ms = later(times->journal_ms, check->options.known_ms);
    known_ms = times->ledger_is_ours ? later(known_ms, times->ledger_ms) : known_ms;
    *ret_known_ms = known_ms;
    enum clock_verdict verdict = clock_judge(bounds, wall_ms, known_ms);
    if (verdict == CLOCK_GOOD && !times->ledger_is_ours &&
        clock_judge(bounds, wall_ms, times->ledger_ms) != CLOCK_GOOD) {
        *ret_known_ms = times->ledger_ms;
        verdict = CLOCK_DOUBTED;
    }
    return verdict;
}

static int refuse(enum clock_verdict verdict, const char *wall, const char *known)
{
    log_event(
        LOG_ERROR, "start.clock_refused", LOG_STR("wall_clock", wall),
        LOG_STR("last_known_time", known),
        LOG_STR("what", verdict == CLOCK_BEHIND
                            ? "the wall clock is behind the last time in the data folder"
                            : "the wall clock is far ahead of the last time in the data folder: "
                              "orders would expire and sales close by it"),
        LOG_STR("do", "set the machine's clock, then start again; if the clock is right, start "
                      "once with --accept-clock (docs/CONFIGURATION.md#the-clock)"));
    return ERR_CLOCK;
}

/* The clock is doubted: 0 if something confirms it. */
static int wait_for_confirmation(struct start_clock *check, struct clock_port *clock,
                                 int64_t wall_ms, const char *wall, const char *known)
{
    int64_t boot_us = clock_boot_us(clock);
    int64_t offset_us = wall_ms * 1000 - boot_us;
    if (clock_confirmed(clock) || check->options.confirm_ms == 0) {
        log_event(LOG_INFO, "clock.confirmed", LOG_STR("wall_clock", wall),
                  LOG_STR("last_known_time", known),
                  LOG_STR("by", check->options.confirm_ms == 0 ? "clock.confirm_s is 0"
                                                               : "the kernel's NTP state"));
        return 0;
    }
    int64_t jump_us = offset_us - check->offset_us;
    if (!check->waiting || jump_us > SLEW_JUMP_US || jump_us < -SLEW_JUMP_US) {
        log_event(LOG_WARN, "clock.doubted", LOG_STR("wall_clock", wall),
                  LOG_STR("last_known_time", known), LOG_I64("wait_ms", check->options.confirm_ms),
                  LOG_STR("what", "the start waits until NTP confirms the clock, or until it has "
                                  "run this long without a jump"));
        check->waiting = true;
        check->since_us = boot_us;
        check->offset_us = offset_us;
    }
    if (boot_us - check->since_us < check->options.confirm_ms * 1000) {
        return ERR_AGAIN;
    }
    log_event(LOG_WARN, "clock.confirmed", LOG_STR("wall_clock", wall),
              LOG_STR("last_known_time", known), LOG_STR("by", "waiting; it did not jump"));
    return 0;
}

int start_clock_check(struct start_clock *check, struct clock_port *clock,
                      const struct start_clock_times *times)
{
    char wall[TIME_TEXT];
    char known[TIME_TEXT];
    int64_t known_ms = 0;
    int64_t wall_ms = clock_wall_ms(clock);
    enum clock_verdict verdict = judge(check, wall_ms, times, &known_ms);
    (void)time_text(wall_ms, wall);
    (void)time_text(known_ms, known);
    if (verdict == CLOCK_GOOD) {
        return 0;
    }
    if (check->options.accept) {
        log_event(LOG_WARN, "clock.accepted", LOG_STR("wall_clock", wall),
                  LOG_STR("last_known_time", known), LOG_STR("by", "--accept-clock"));
        return 0;
    }
    return verdict == CLOCK_DOUBTED ? wait_for_confirmation(check, clock, wall_ms, wall, known)
                                    : refuse(verdict, wall, known);
}

bool start_clock_is_behind(const struct start_clock *check, struct clock_port *clock,
                           const struct start_clock_times *times)
{
    int64_t held_ms =
        times->ledger_is_ours ? later(times->journal_ms, times->ledger_ms) : times->journal_ms;
    return check->options.accept &&
           clock_judge(&check->options.bounds, clock_wall_ms(clock), held_ms) == CLOCK_BEHIND;
}
