/*
 * Whether a start may believe the wall clock. A server that starts with a clock far ahead would let
 * unpaid orders expire and sales close, and its data folder would stay ahead for ever. So nothing is
 * written before the clock has been judged against the last time that the data folder knows.
 *
 * - About right: the server starts.
 * - Ahead by hours or weeks: either the server was down that long, or the clock is wrong. The start
 *   waits for a confirmation: the kernel's clock is synchronised, or the clock has run for
 *   confirm_ms without a jump. A jump begins the wait anew, and the clock is judged anew.
 * - Further ahead, or behind by more than a minute: the start is refused, with both times and what
 *   to do. An operator who knows better starts it with `accept`.
 *
 * The ledger's last time counts like the journal's in the embedded engine, where this program wrote
 * it. In the distributed engine it is the database's clock, which may be wrong itself: a difference
 * makes the start wait, and never refuses it.
 */
#ifndef SLUICE_APP_START_CLOCK_H
#define SLUICE_APP_START_CLOCK_H

#include "port/inside_time.h"

struct start_clock_options {
    struct clock_bounds bounds; /* all 0: every clock is believed */
    int64_t confirm_ms;         /* 0: a doubted clock is believed at once */
    bool accept;
    int64_t
        known_ms; /* the last time at which the server is known to have run (app/clock_file.h) */
};

/* Zeroed, then options set. */
struct start_clock {
    struct start_clock_options options;
    bool waiting;
    int64_t since_us;  /* boot time since which the clock has not jumped */
    int64_t offset_us; /* wall clock minus boot clock then */
};

struct start_clock_times {
    int64_t journal_ms; /* highest time in the journal; 0: none */
    int64_t ledger_ms;  /* time of the last event in the ledger; 0: none */
    bool ledger_is_ours;
};

/* 0: start. ERR_AGAIN: wait, then ask again, about once a second. ERR_CLOCK: refused. Logs. */
int start_clock_check(struct start_clock *check, struct clock_port *clock,
                      const struct start_clock_times *times);

/* After start_clock_check returned 0: the clock was accepted although it is behind what journal or
 * ledger hold, so their time must be set back. */
bool start_clock_is_behind(const struct start_clock *check, struct clock_port *clock,
                           const struct start_clock_times *times);

#endif
