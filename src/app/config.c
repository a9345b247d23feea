/*
 * Reads the configuration: defaults, then the file (libconfuse), then the command line.
 *
 * Happy path: the file is read as a whole, comments are blanked, and libconfuse parses it and
 * passes each value to value_taken(), which checks it against the table and stores it.
 *
 * What can go wrong, reported as one line with its place: no such file, bad syntax, an unknown or
 * repeated name, a value that the table does not allow. Then nothing is returned.
 *
 * libconfuse 3.3 counts a line with a comment three times, accepts a section that is never closed,
 * and exits when it gets a folder. So comments are blanked and braces are counted before it sees
 * the text.
 */
#define _GNU_SOURCE /* memmem */
#include "app/config.h"

#include <confuse.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/config_value.h"
#include "base/check.h"
#include "base/err.h"
#include "obs/log.h"

#define FILE_MAX_BYTES (1U << 20)
/* The most that is logged of a value. */
#define CHANGE_SHOWN 200
/* libconfuse's name for what is outside all sections, and its message for an unknown name. */
#define ROOT_NAME "root"
#define LIMIT_NAME "limit"
#define LIMIT_FIELDS_TEXT                                                                          \
    "no such setting; a limit \"NAME\" has key, calls, algorithm, rate, per_s, burst and shared"
#define UNKNOWN_NAME_FORMAT "no such option '%s'"

enum {
#define X(section, name, kind, min, max, standard, unit, when, help) +1
    SETTINGS_COUNT = 0 CONFIG(X)
#undef X
};

/* State for the callbacks of libconfuse, which have no context pointer. */
struct reading {
    const char *file;
    struct config *config;
    bool seen[SETTINGS_COUNT];
    uint32_t limits_seen[LIMIT_RULES_MAX]; /* the fields of each limit, as bits */
    bool failed;                           /* error holds the first error */
    char *error;
    size_t error_cap;
};
static _Thread_local struct reading *reading;

/* "section.name: no such setting; did you mean ...?" */
static void unknown_text(struct span section, struct span name, char *ret_text, size_t cap)
{
    const struct config_setting *nearest = config_nearest(section, name);
    struct out out = out_over(ret_text, cap - 1);
    out_put(&out, section);
    out_lit(&out, ".");
    out_put(&out, name);
    out_lit(&out, ": no such setting");
    if (nearest != NULL) {
        out_format(&out, "; did you mean %s.%s?", nearest->section, nearest->name);
    }
    ret_text[out.len] = '\0';
}

__attribute__((format(printf, 2, 3))) static void fail_at(int line, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (!reading->failed) {
        (void)snprintf(reading->error, reading->error_cap, "%s:%d: %s", reading->file, line, text);
        reading->failed = true;
    }
}

static int value_taken(cfg_t *section, cfg_opt_t *option, const char *value, void *result)
{
    const struct config_setting *setting =
        config_find(span_of(section->name), span_of(option->name));
    CHECK(setting != NULL);
    char problem[256];
    size_t index = (size_t)(setting - config_settings);
    if (reading->seen[index]) {
        fail_at(section->line, "%s.%s: given twice", setting->section, setting->name);
        return -1;
    }
    if (config_set(reading->config, setting, value, problem, sizeof(problem)) != 0) {
        fail_at(section->line, "%s.%s: %s", setting->section, setting->name, problem);
        return -1;
    }
    reading->seen[index] = true;
    *(const char **)result = value;
    return 0;
}

/* ---- sections of rate limits ---- */

/* The limit of a section; NULL: its name is none. */
static struct config_limit *limit_named(cfg_t *section)
{
    char problem[256];
    struct config_limit *limit = config_limits_named(
        &reading->config->limits, span_of(cfg_title(section)), problem, sizeof(problem));
    if (limit == NULL) {
        fail_at(section->line, "%s", problem);
        return NULL;
    }
    limit->line = section->line;
    return limit;
}

static int limit_value_taken(cfg_t *section, cfg_opt_t *option, const char *value, void *result)
{
    char problem[512];
    enum limit_field field = config_limit_field(span_of(option->name));
    struct config_limit *limit = limit_named(section);
    if (limit == NULL) {
        return -1;
    }
    size_t index = (size_t)(limit - reading->config->limits.limits);
    bool again = (reading->limits_seen[index] & 1U << field) != 0;
    if (again && field != LIMIT_FIELD_calls) {
        fail_at(section->line, "limit.%s.%s: given twice", limit->rule.name, option->name);
        return -1;
    }
    reading->limits_seen[index] |= 1U << field;
    int error = again ? config_limit_add_call(limit, value, problem, sizeof(problem))
                      : config_limit_set(limit, field, value, problem, sizeof(problem));
    if (error != 0) {
        fail_at(section->line, "limit.%s.%s: %s", limit->rule.name, option->name, problem);
        return -1;
    }
    *(const char **)result = value;
    return 0;
}

/* The options of a section `limit`; the last one is the end mark. */
static void limit_options_make(cfg_opt_t ret_options[LIMIT_FIELD_COUNT + 1])
{
    const cfg_opt_t options[] = {
#define X(name, kind, help)                                                                        \
    [LIMIT_FIELD_##name] = CFG_STR_CB(#name, NULL, CFGF_NODEFAULT, limit_value_taken),
        LIMIT_FIELDS(X)
#undef X
            [LIMIT_FIELD_COUNT] = CFG_END()};
    const cfg_opt_t calls = CFG_STR_LIST_CB("calls", NULL, CFGF_NODEFAULT, limit_value_taken);
    memcpy(ret_options, options, sizeof(options));
    ret_options[LIMIT_FIELD_calls] = calls;
}

/* A section without any value is seen only here. */
static void limits_seen(cfg_t *parser)
{
    for (unsigned i = 0; i < cfg_size(parser, LIMIT_NAME); i++) {
        (void)limit_named(cfg_getnsec(parser, LIMIT_NAME, i));
    }
}

/* Removes what ships and is not wanted; then no limit may contradict itself. */
static int limits_finish(const char *file, struct config *config, char *ret_error, size_t error_cap)
{
    const char *why = NULL;
    if (!config->admission_defaults || !config->admission_address_limit) {
        config_limits_without_shipped(&config->limits, !config->admission_defaults);
    }
    const struct config_limit *wrong = config_limits_wrong(&config->limits, &why);
    if (wrong == NULL) {
        return 0;
    }
    char place[32] = "";
    if (wrong->line > 0) {
        (void)snprintf(place, sizeof(place), ":%d: ", wrong->line);
    }
    (void)snprintf(ret_error, error_cap, "%s%slimit.%s: %s", wrong->line > 0 ? file : "", place,
                   wrong->rule.name, why);
    return ERR_INVALID;
}

/* Handles a name that libconfuse does not know. At the top level it is a section, or a stray
 * setting. */
static void unknown_told(cfg_t *where, const char *name)
{
    char text[256];
    if (where->name != NULL && strcmp(where->name, LIMIT_NAME) == 0) {
        fail_at(where->line, "limit.%s.%s: " LIMIT_FIELDS_TEXT, cfg_title(where), name);
        return;
    }
    if (where->name != NULL && strcmp(where->name, ROOT_NAME) != 0) {
        unknown_text(span_of(where->name), span_of(name), text, sizeof(text));
        fail_at(where->line, "%s", text);
        return;
    }
    for (size_t i = 0; i < config_settings_count; i++) {
        const struct config_setting *setting = &config_settings[i];
        (void)snprintf(text, sizeof(text), "%s.%s", setting->section, setting->name);
        if (strcmp(name, setting->name) == 0 || strcmp(name, text) == 0) {
            fail_at(where->line, "%s: belongs into its section: %s { %s = ... }", name,
                    setting->section, setting->name);
            return;
        }
    }
    const char *nearest = config_nearest_section(span_of(name));
    fail_at(where->line, "%s: no such section%s%s%s", name,
            nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
            nearest != NULL ? "?" : "");
}

/* The error callback. Keeps libconfuse's message, except for unknown names. */
__attribute__((format(printf, 2, 0))) static void error_told(cfg_t *where, const char *format,
                                                             va_list arguments)
{
    if (strcmp(format, UNKNOWN_NAME_FORMAT) == 0) {
        unknown_told(where, va_arg(arguments, const char *));
        return;
    }
    char text[256];
    (void)vsnprintf(text, sizeof(text), format, arguments);
    fail_at(where->line, "%s", text);
}

/* A `//` or a slash-star begins a comment only where a word could begin: https://x is one word.
 * These characters end a word for libconfuse, quotes included. */
static bool comment_begins(const char *text, size_t at, size_t len)
{
    if (text[at] == '#') {
        return true;
    }
    if (text[at] != '/' || at + 1 == len || (text[at + 1] != '/' && text[at + 1] != '*')) {
        return false;
    }
    return at == 0 || strchr(" \t\r\n{}()=+*;,\"'", text[at - 1]) != NULL;
}

/* The end of the comment at `at`; len + 1: it does not end. */
static size_t comment_end(const char *text, size_t at, size_t len)
{
    bool block = text[at] == '/' && text[at + 1] == '*';
    const char *end =
        block ? memmem(text + at + 2, len - at - 2, "*/", 2) : memchr(text + at, '\n', len - at);
    if (end == NULL) {
        return block ? len + 1 : len;
    }
    return (size_t)(end - text) + (block ? 2 : 0);
}

/* The end of the quoted text at `at`; len + 1: it does not end. */
static size_t quoted_end(const char *text, size_t at, size_t len)
{
    size_t i = at + 1;
    while (i < len && text[i] != text[at]) {
        i += text[i] == '\\' ? 2 : 1;
    }
    return i < len ? i + 1 : len + 1;
}

/* Blanks the comments except their line ends, and checks that everything opened is closed. */
static bool text_prepare(char *text, size_t len)
{
    int line = 1;
    int opened_line = 0;
    int depth = 0;
    for (size_t i = 0; i < len;) {
        size_t next = i + 1;
        bool comment = comment_begins(text, i, len);
        if (comment) {
            next = comment_end(text, i, len);
        } else if (text[i] == '"' || text[i] == '\'') {
            next = quoted_end(text, i, len);
        } else if (text[i] == '$' && i + 1 < len && text[i + 1] == '{') {
            const char *close = memchr(text + i, '}', len - i);
            next = close != NULL ? (size_t)(close - text) + 1 : len + 1;
        } else if (text[i] == '{') {
            opened_line = line;
            depth++;
        } else if (text[i] == '}') {
            depth--;
        }
        if (next > len) {
            fail_at(line, "what begins here is not closed");
            return false;
        }
        for (; i < next; i++) {
            if (text[i] == '\n') {
                line++;
            } else if (comment) {
                text[i] = ' ';
            }
        }
    }
    if (depth > 0) {
        fail_at(opened_line, "this section is not closed: } is missing");
    }
    return depth <= 0;
}

/* Reads the whole file and adds a NUL. The caller frees it. */
static int file_read(const char *path, char **ret_text, size_t *ret_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? ERR_NOTFOUND : ERR_IO;
    }
    struct stat facts;
    char *text = malloc(FILE_MAX_BYTES + 1);
    int error = text == NULL ? ERR_NOMEM : 0;
    size_t len = 0;
    if (error == 0 && (fstat(fd, &facts) != 0 || S_ISDIR(facts.st_mode))) {
        error = ERR_IO;
    }
    while (error == 0 && len <= FILE_MAX_BYTES) {
        ssize_t n = read(fd, text + len, FILE_MAX_BYTES + 1 - len);
        if (n <= 0) {
            error = n < 0 ? ERR_IO : 0;
            break;
        }
        len += (size_t)n;
    }
    (void)close(fd);
    if (error == 0 && (len > FILE_MAX_BYTES || memchr(text, '\0', len) != NULL)) {
        error = ERR_INVALID;
    }
    if (error != 0) {
        free(text);
        return error;
    }
    text[len] = '\0';
    *ret_text = text;
    *ret_len = len;
    return 0;
}

/* The table in libconfuse's form: sections, and the options of all sections in one array. */
static void options_make(cfg_opt_t sections[SETTINGS_COUNT + 2],
                         cfg_opt_t options[2 * SETTINGS_COUNT],
                         cfg_opt_t limit_options[LIMIT_FIELD_COUNT + 1])
{
    const cfg_opt_t end = CFG_END();
    size_t count = 0;
    size_t used = 0;
    for (size_t i = 0; i < config_settings_count; i++) {
        const struct config_setting *setting = &config_settings[i];
        if (i == 0 || strcmp(setting->section, config_settings[i - 1].section) != 0) {
            used += i > 0; /* keeps the end mark of the section before */
            const cfg_opt_t section = CFG_SEC(setting->section, options + used, CFGF_NODEFAULT);
            sections[count++] = section;
        }
        const cfg_opt_t option = CFG_STR_CB(setting->name, NULL, CFGF_NODEFAULT, value_taken);
        options[used++] = option;
        options[used] = end;
    }
    const cfg_opt_t limits =
        CFG_SEC(LIMIT_NAME, limit_options, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES);
    limit_options_make(limit_options);
    sections[count++] = limits;
    sections[count] = end;
}

static int text_parse(char *text)
{
    cfg_opt_t sections[SETTINGS_COUNT + 2];
    cfg_opt_t options[2 * SETTINGS_COUNT];
    cfg_opt_t limit_options[LIMIT_FIELD_COUNT + 1];
    options_make(sections, options, limit_options);
    cfg_t *parser = cfg_init(sections, CFGF_NONE);
    if (parser == NULL) {
        (void)snprintf(reading->error, reading->error_cap, "%s", err_text(ERR_NOMEM));
        return ERR_NOMEM;
    }
    (void)cfg_set_error_function(parser, error_told);
    int parsed = cfg_parse_buf(parser, text);
    if (parsed != CFG_SUCCESS) {
        fail_at(parser->line, "not understood");
    }
    if (!reading->failed) {
        limits_seen(parser);
    }
    (void)cfg_free(parser);
    return reading->failed ? ERR_INVALID : 0;
}

static int file_load(const char *path, struct config *config, char *ret_error, size_t error_cap)
{
    struct reading mine = {
        .file = path, .config = config, .error = ret_error, .error_cap = error_cap};
    char *text = NULL;
    size_t len = 0;
    int error = file_read(path, &text, &len);
    if (error != 0) {
        (void)snprintf(ret_error, error_cap, "%s: %s", path,
                       error == ERR_INVALID ? "this is no text, or too long" : err_text(error));
        return error;
    }
    reading = &mine;
    error = text_prepare(text, len) ? text_parse(text) : ERR_INVALID;
    reading = NULL;
    free(text);
    return error;
}

/* Splits "section.name" or "section.name=value" at the dot. False: no dot. */
static bool key_split(const char *key, size_t len, struct span *ret_section, struct span *ret_name)
{
    const char *dot = memchr(key, '.', len);
    if (dot == NULL) {
        return false;
    }
    *ret_section = (struct span){key, (size_t)(dot - key)};
    *ret_name = (struct span){dot + 1, len - (size_t)(dot - key) - 1};
    return true;
}

/* name: "NAME.field". */
static int limit_override(const struct config_override *override, struct span name,
                          const char *value, struct config *config, char *ret_error,
                          size_t error_cap)
{
    char problem[512];
    size_t dot = name.len;
    while (dot > 0 && name.at[dot - 1] != '.') {
        dot--;
    }
    struct span field_name = {name.at + dot, name.len - dot};
    enum limit_field field = dot > 0 ? config_limit_field(field_name) : LIMIT_FIELD_COUNT;
    if (field == LIMIT_FIELD_COUNT) {
        (void)snprintf(ret_error, error_cap, "%s limit.%.*s: " LIMIT_FIELDS_TEXT, override->option,
                       (int)(name.len < 80 ? name.len : 80), name.at);
        return ERR_NOTFOUND;
    }
    struct config_limit *limit = config_limits_named(
        &config->limits, (struct span){name.at, dot - 1}, problem, sizeof(problem));
    if (limit == NULL || config_limit_set(limit, field, value, problem, sizeof(problem)) != 0) {
        (void)snprintf(ret_error, error_cap, "%s limit.%.*s: %s", override->option,
                       (int)(name.len < 80 ? name.len : 80), name.at, problem);
        return ERR_INVALID;
    }
    return 0;
}

static int override_apply(const struct config_override *override, struct config *config,
                          char *ret_error, size_t error_cap)
{
    const char *key = override->key != NULL ? override->key : override->value;
    const char *value = override->value;
    size_t key_len = strcspn(key, "=");
    struct span section;
    struct span name;
    if (override->key == NULL) {
        if (value[key_len] == '\0' || !key_split(key, key_len, &section, &name)) {
            (void)snprintf(ret_error, error_cap, "%s %.64s: must be section.name=value",
                           override->option, value);
            return ERR_INVALID;
        }
        value += key_len + 1;
    } else {
        CHECK(key_split(key, key_len, &section, &name));
    }
    if (span_is(section, LIMIT_NAME)) {
        return limit_override(override, name, value, config, ret_error, error_cap);
    }
    char problem[256];
    const struct config_setting *setting = config_find(section, name);
    if (setting == NULL) {
        unknown_text(section, name, problem, sizeof(problem));
        (void)snprintf(ret_error, error_cap, "%s %s", override->option, problem);
        return ERR_NOTFOUND;
    }
    int error = config_set(config, setting, value, problem, sizeof(problem));
    if (error != 0 && override->key == NULL) {
        (void)snprintf(ret_error, error_cap, "%s %s.%s: %s", override->option, setting->section,
                       setting->name, problem);
    } else if (error != 0) {
        (void)snprintf(ret_error, error_cap, "%s: %s", override->option, problem);
    }
    return error;
}

/* Checks that the roles have the servers they need. A missing line must not turn a booker into a
 * second shop, or let it start and do nothing. */
static const char *missing_for_roles(const struct config *config)
{
    const uint32_t all = ROLE_FRONT | ROLE_RELAY | ROLE_BOOKER | ROLE_KEEPER;
    uint32_t roles = config_roles(config->server_roles);
    if (config->redis_url[0] == '\0') {
        return roles == all ? NULL
                            : "server.roles is for the distributed engine, which needs redis.url; "
                              "without it one process does everything";
    }
    if (config->ledger_url[0] == '\0') {
        return "redis.url needs ledger.url, a MariaDB that all processes share";
    }
    return roles == ROLE_BOOKER && config->amqp_url[0] == '\0'
               ? "server.roles = booker needs amqp.url: without a queue relays book, and a booker "
                 "has nothing to do"
               : NULL;
}

/* Checks values that are valid alone but not together. Both ages count from the buyer's request: if
 * a buyer could wait in line longer than a booking may take, a unit would be won and lost again. */
static int check_together(const struct config *config, char *ret_error, size_t error_cap)
{
    const char *missing = missing_for_roles(config);
    if (missing != NULL) {
        (void)snprintf(ret_error, error_cap, "%s", missing);
        return ERR_INVALID;
    }
    bool stale_in_line = config->relay_stale_s > 0 && config->spool_line > 0 &&
                         config->relay_stale_s <= config->spool_line_s;
    if (!stale_in_line) {
        return 0;
    }
    (void)snprintf(
        ret_error, error_cap,
        "relay.stale_s (%" PRId64 ") must be longer than spool.line_s (%" PRId64
        "), or 0: who came from the line later would win only to fail. With spool.line = 0 "
        "nobody stands in line",
        config->relay_stale_s, config->spool_line_s);
    return ERR_INVALID;
}

static int overrides_apply(const struct config_options *options, struct config *config,
                           char *ret_error, size_t error_cap)
{
    int error = 0;
    for (size_t i = 0; error == 0 && i < options->overrides_count; i++) {
        error = override_apply(&options->overrides[i], config, ret_error, error_cap);
    }
    return error;
}

int config_check_overrides(const struct config_options *options, char *ret_error, size_t error_cap)
{
    struct config config;
    config_defaults(&config);
    return overrides_apply(options, &config, ret_error, error_cap);
}

int config_load(const struct config_options *options, struct config *ret_config, char *ret_error,
                size_t error_cap)
{
    struct config config;
    config_defaults(&config);
    config.admission_defaults = !options->demo;
    int error = 0;
    if (options->file != NULL) {
        error = file_load(options->file, &config, ret_error, error_cap);
    }
    if (error == 0) {
        error = overrides_apply(options, &config, ret_error, error_cap);
    }
    if (error == 0) {
        error = check_together(&config, ret_error, error_cap);
    }
    if (error == 0) {
        error = limits_finish(options->file, &config, ret_error, error_cap);
    }
    if (error == 0) {
        *ret_config = config;
    }
    return error;
}

int config_reload(const struct config_options *options, const struct config *running,
                  struct config *ret_config, char *ret_ignored, size_t ignored_cap, char *ret_error,
                  size_t error_cap)
{
    struct config fresh;
    struct stat facts;
    /* A pipe can be read only once: a second read would block until somebody writes, or return
     * nothing and reset every setting. */
    if (options->file != NULL && stat(options->file, &facts) == 0 && !S_ISREG(facts.st_mode)) {
        (void)snprintf(ret_error, error_cap, "%s: no file that can be read again", options->file);
        return ERR_INVALID;
    }
    int error = config_load(options, &fresh, ret_error, error_cap);
    if (error != 0) {
        return error;
    }
    struct out ignored = out_over(ret_ignored, ignored_cap - 1);
    for (size_t i = 0; i < config_settings_count; i++) {
        const struct config_setting *setting = &config_settings[i];
        if (setting->when == CONFIG_RESTART && !config_same(&fresh, running, setting)) {
            out_format(&ignored, "%s%s.%s", ignored.len > 0 ? ", " : "", setting->section,
                       setting->name);
            config_copy(&fresh, running, setting);
        }
    }
    ret_ignored[ignored.len] = '\0';
    *ret_config = fresh;
    return 0;
}

static void limit_text(const struct config_limits *limits, const char *name,
                       char ret_text[CHANGE_SHOWN])
{
    struct out out = out_over(ret_text, CHANGE_SHOWN - 1);
    for (uint32_t i = 0; i < limits->count; i++) {
        if (strcmp(limits->limits[i].rule.name, name) == 0) {
            config_limit_text(&limits->limits[i], &out);
        }
    }
    ret_text[out.len] = '\0';
}

/* Logs each limit of `named` that is not the same in both. only_new: those that `from` lacks. */
static void limits_log(const struct config_limits *named, const struct config_limits *from,
                       const struct config_limits *to, bool only_new)
{
    for (uint32_t i = 0; i < named->count; i++) {
        char name[LIMIT_NAME_MAX + 8];
        char texts[2][CHANGE_SHOWN];
        limit_text(from, named->limits[i].rule.name, texts[0]);
        limit_text(to, named->limits[i].rule.name, texts[1]);
        if (strcmp(texts[0], texts[1]) == 0 || (only_new && texts[0][0] != '\0')) {
            continue;
        }
        (void)snprintf(name, sizeof(name), "limit.%s", named->limits[i].rule.name);
        log_event(LOG_INFO, "config.changed", LOG_STR("setting", name), LOG_STR("from", texts[0]),
                  LOG_STR("to", texts[1]));
    }
}

static void limits_log_changes(const struct config_limits *from, const struct config_limits *to)
{
    limits_log(from, from, to, false);
    limits_log(to, from, to, true);
}

void config_log_changes(const struct config *from, const struct config *to)
{
    for (size_t i = 0; i < config_settings_count; i++) {
        const struct config_setting *setting = &config_settings[i];
        char name[64];
        char texts[2][CHANGE_SHOWN];
        if (config_same(from, to, setting)) {
            continue;
        }
        (void)snprintf(name, sizeof(name), "%s.%s", setting->section, setting->name);
        for (int k = 0; k < 2; k++) {
            struct out out = out_over(texts[k], CHANGE_SHOWN - 1);
            config_value_text(k == 0 ? from : to, setting, &out);
            texts[k][out.len] = '\0';
        }
        log_event(LOG_INFO, "config.changed", LOG_STR("setting", name), LOG_STR("from", texts[0]),
                  LOG_STR("to", texts[1]));
    }
    limits_log_changes(&from->limits, &to->limits);
}
