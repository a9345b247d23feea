/*
 * The log of log.h. A line is built on the stack and written with one call. Nothing here allocates,
 * locks or fails. The time of a line is the wall clock; no decision uses it.
 */
#include "obs/log.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"

static _Atomic int lowest_level = LOG_INFO;
static _Atomic(log_witness *) shown_to;

static const char *const level_names[] = {
#define X(name, text) [name] = text,
    LOG_LEVELS(X)
#undef X
};

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&lowest_level, (int)level, memory_order_relaxed);
}

void log_set_witness(log_witness *witness)
{
    atomic_store(&shown_to, witness);
}

bool log_enabled(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&lowest_level, memory_order_relaxed);
}

int log_level_parse(const char *text, enum log_level *ret_level)
{
    for (unsigned i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *ret_level = (enum log_level)i;
            return 0;
        }
    }
    return ERR_INVALID;
}

/* Whether the value needs no quotes: one word without special characters. */
static bool is_plain(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '=') {
            return false;
        }
    }
    return text.len > 0;
}

static void put_escaped(struct out *line, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    switch (c) {
    case '"':
    case '\\':
        out_char(line, '\\');
        out_char(line, (char)c);
        break;
    case '\n':
        out_lit(line, "\\n");
        break;
    case '\r':
        out_lit(line, "\\r");
        break;
    case '\t':
        out_lit(line, "\\t");
        break;
    default:
        out_lit(line, "\\x");
        out_char(line, hex[c >> 4]);
        out_char(line, hex[c & 15]);
        break;
    }
}

static void put_string(struct out *line, struct span text)
{
    bool cut = text.len > LOG_VALUE_MAX;
    if (cut) {
        text.len = LOG_VALUE_MAX;
        /* Do not cut a character. */
        while (text.len > 0 && ((unsigned char)text.at[text.len] & 0xc0) == 0x80) {
            text.len--;
        }
    }
    if (is_plain(text) && !cut) {
        out_put(line, text);
        return;
    }
    bool utf8 = span_is_utf8(text);
    out_char(line, '"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c < ' ' || c == 0x7f || c == '"' || c == '\\' || (c > 0x7f && !utf8)) {
            put_escaped(line, c);
        } else {
            out_char(line, (char)c);
        }
    }
    if (cut) {
        out_lit(line, "...");
    }
    out_char(line, '"');
}

static void put_time(struct out *line)
{
    struct timespec now;
    struct tm utc;
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    CHECK(gmtime_r(&now.tv_sec, &utc) != NULL);
    out_format(line, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", utc.tm_year + 1900, utc.tm_mon + 1,
               utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000);
}

static void put_field(struct out *line, const struct log_field *field)
{
    out_char(line, ' ');
    out_text(line, field->key);
    out_char(line, '=');
    switch (field->kind) {
    case LOG_KIND_STR:
        put_string(line, field->str);
        break;
    case LOG_KIND_U64:
        out_u64(line, field->u64);
        break;
    case LOG_KIND_I64:
        out_i64(line, field->i64);
        break;
    }
}

/* Writes the fields. Those that do not fit as a whole are left out, and the line says so. */
static void put_fields(struct out *line, const struct log_field *fields)
{
    for (const struct log_field *field = fields; field->key != NULL; field++) {
        size_t before = line->len;
        put_field(line, field);
        if (line->overflow) {
            line->len = before;
            return;
        }
    }
}

void log_write_limited(enum log_level level, const char *event, const struct log_field *fields,
                       uint64_t suppressed)
{
    /* Room for the end of the line. */
    enum { ENDING = sizeof(" suppressed=18446744073709551615 truncated=true\n") };
    char text[LOG_LINE_MAX];
    struct out line = out_over(text, sizeof(text) - ENDING);
    int errno_before = errno;

    put_time(&line);
    out_char(&line, ' ');
    out_text(&line, level_names[level]);
    out_char(&line, ' ');
    out_text(&line, event);
    put_fields(&line, fields);
    line.cap = sizeof(text);
    if (suppressed > 0) {
        put_field(&line, &LOG_U64("suppressed", suppressed));
    }
    if (line.overflow) {
        out_lit(&line, " truncated=true");
    }
    out_char(&line, '\n');
    while (write(STDERR_FILENO, line.at, line.len) < 0 && errno == EINTR) {
    }
    log_witness *witness = atomic_load(&shown_to);
    if (witness != NULL) {
        witness(event, out_span(&line));
    }
    errno = errno_before;
}

void log_write(enum log_level level, const char *event, const struct log_field *fields)
{
    log_write_limited(level, event, fields, 0);
}

bool log_limit_pass(struct log_limit *limit, int64_t period_ms, uint64_t *ret_suppressed)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    int64_t next_ms = atomic_load_explicit(&limit->next_ms, memory_order_relaxed);
    /* If several threads get here at once, one moves the limit and writes. */
    if (now_ms < next_ms ||
        !atomic_compare_exchange_strong_explicit(&limit->next_ms, &next_ms, now_ms + period_ms,
                                                 memory_order_relaxed, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&limit->suppressed, 1, memory_order_relaxed);
        return false;
    }
    *ret_suppressed = atomic_exchange_explicit(&limit->suppressed, 0, memory_order_relaxed);
    return true;
}
