/*
 * The log: one structured line on standard error for each event that matters to an operator; none
 * for single requests.
 *
 *     2026-11-15T23:29:24.123Z warn journal.torn_tail_cut file=j-000012 bytes=4096
 *
 * The name of an event is `module.what_happened`, fixed, in lower case. Variable parts are fields.
 * A value that is not one plain word is quoted, and control characters are escaped, so input from a
 * client cannot leave its line. Any thread may log. Each line is one write(2), so lines of several
 * threads do not mix. A line that cannot be written is lost: logging never stops the work.
 *
 * app, journal, ledger, embedded and distributed log, once for each failure. base, core and backend
 * return errors instead.
 */
#ifndef SLUICE_OBS_LOG_H
#define SLUICE_OBS_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define LOG_LEVELS(X)                                                                              \
    X(LOG_DEBUG, "debug")                                                                          \
    X(LOG_INFO, "info")                                                                            \
    X(LOG_WARN, "warn")                                                                            \
    X(LOG_ERROR, "error")

enum log_level {
#define X(name, text) name,
    LOG_LEVELS(X)
#undef X
};

enum log_kind { LOG_KIND_STR, LOG_KIND_U64, LOG_KIND_I64 };

struct log_field {
    const char *key; /* NULL ends the list */
    enum log_kind kind;
    union {
        struct span str;
        uint64_t u64;
        int64_t i64;
    };
};

#define LOG_SPAN(name, value)                                                                      \
    ((struct log_field){.key = (name), .kind = LOG_KIND_STR, .str = (value)})
#define LOG_STR(name, value) LOG_SPAN(name, span_of(value))
#define LOG_ERR(name, code) LOG_STR(name, err_text(code))
#define LOG_U64(name, value)                                                                       \
    ((struct log_field){.key = (name), .kind = LOG_KIND_U64, .u64 = (value)})
#define LOG_I64(name, value)                                                                       \
    ((struct log_field){.key = (name), .kind = LOG_KIND_I64, .i64 = (value)})

/* The longest line: what a pipe takes at once. Fields that do not fit are left out, and the line
 * says so. A single value is cut at LOG_VALUE_MAX bytes. */
#define LOG_LINE_MAX 4096
#define LOG_VALUE_MAX 1024

/* Events below this level are not written. LOG_INFO until set. */
void log_set_level(enum log_level level);
bool log_enabled(enum log_level level);
/* "debug", "info", "warn" or "error"; else ERR_INVALID. */
int log_level_parse(const char *text, enum log_level *ret_level);

/* A function that gets each line that was written, on the thread that wrote it; NULL: none. */
typedef void log_witness(const char *event, struct span line);
void log_set_witness(log_witness *witness);

/* log_event(LOG_WARN, "journal.torn_tail_cut", LOG_STR("file", name), LOG_U64("bytes", n)) */
#define log_event(level, event, ...)                                                               \
    do {                                                                                           \
        if (log_enabled(level)) {                                                                  \
            log_write((level), (event), LOG_LIST(__VA_ARGS__));                                    \
        }                                                                                          \
    } while (0)

/*
 * For events that can come in floods: at most one line per period_ms. The next line says how many
 * were dropped (suppressed=N). The caller owns the limit, zeroed, usually a static next to the
 * call: `static struct log_limit limit;`
 */
struct log_limit {
    _Atomic int64_t next_ms;
    _Atomic uint64_t suppressed;
};
#define log_event_limited(limit, period_ms, level, event, ...)                                     \
    do {                                                                                           \
        uint64_t log_suppressed = 0;                                                               \
        if (log_enabled(level) && log_limit_pass((limit), (period_ms), &log_suppressed)) {         \
            log_write_limited((level), (event), LOG_LIST(__VA_ARGS__), log_suppressed);            \
        }                                                                                          \
    } while (0)

/* Used by the macros. */
#define LOG_LIST(...)                                                                              \
    ((const struct log_field[]){__VA_ARGS__ __VA_OPT__(, )(struct log_field){.key = NULL}})
void log_write(enum log_level level, const char *event, const struct log_field *fields);
void log_write_limited(enum log_level level, const char *event, const struct log_field *fields,
                       uint64_t suppressed);
bool log_limit_pass(struct log_limit *limit, int64_t period_ms, uint64_t *ret_suppressed);

#endif
