/*
 * Values of settings: defaults, checks and texts. Happy path: config_find, then config_set with the
 * operator's text. If the text is wrong, it is refused with what it must be, and the configuration
 * does not change.
 */
#include "app/config_value.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "app/hook.h"
#include "backend/amqp/queue_amqp.h"
#include "backend/mariadb/ledger_mariadb.h"
#include "backend/redis/topology.h"
#include "base/check.h"
#include "base/err.h"
#include "http/client_address.h"
#include "obs/log.h"
#include "port/regions.h"
#include "port/segments.h"

#define DEFAULT_NUMBER(value) .number = (value)
#define DEFAULT_PATH(value) .text = (value)
#define DEFAULT_ADDRESS DEFAULT_PATH
#define DEFAULT_PROXIES DEFAULT_PATH
#define DEFAULT_ORIGINS DEFAULT_PATH
#define DEFAULT_URL DEFAULT_PATH
#define DEFAULT_DATABASE DEFAULT_PATH
#define DEFAULT_ROLES DEFAULT_PATH
#define DEFAULT_REDIS DEFAULT_PATH
#define DEFAULT_BROKER DEFAULT_PATH
#define DEFAULT_ORIGIN DEFAULT_PATH
#define DEFAULT_HOOK DEFAULT_PATH
#define DEFAULT_NAME DEFAULT_PATH
#define DEFAULT_REGIONS DEFAULT_PATH
#define DEFAULT_LEVEL DEFAULT_PATH
#define DEFAULT_FLAG DEFAULT_NUMBER

const struct config_setting config_settings[] = {
#define X(section_, name_, kind_, min_, max_, standard_, unit_, when_, help_)                      \
    {.section = #section_,                                                                         \
     .name = #name_,                                                                               \
     .kind = CONFIG_##kind_,                                                                       \
     .min = (min_),                                                                                \
     .max = (max_),                                                                                \
     .offset = offsetof(struct config, section_##_##name_),                                        \
     DEFAULT_##kind_(standard_),                                                                   \
     .unit = unit_,                                                                                \
     .when = CONFIG_##when_,                                                                       \
     .help = help_},
    CONFIG(X)
#undef X
};
const size_t config_settings_count = sizeof(config_settings) / sizeof(config_settings[0]);

static const char *const kind_text[] = {
#define X(name, text) text,
    CONFIG_KINDS(X)
#undef X
};

const char *config_kind_text(enum config_kind kind)
{
    return kind_text[kind];
}

const struct config_setting *config_find(struct span section, struct span name)
{
    for (size_t i = 0; i < config_settings_count; i++) {
        const struct config_setting *setting = &config_settings[i];
        if (span_is(section, setting->section) && span_is(name, setting->name)) {
            return setting;
        }
    }
    return NULL;
}

#define NAME_LOOKED_AT 40
#define LETTERS_APART 4

/* Levenshtein distance. */
static size_t edit_distance(struct span a, struct span b)
{
    size_t row[NAME_LOOKED_AT + 1];
    if (a.len > NAME_LOOKED_AT || b.len > NAME_LOOKED_AT) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= b.len; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t replaced = diagonal + (a.at[i - 1] != b.at[j - 1]);
            size_t shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < shorter ? replaced : shorter;
        }
    }
    return row[b.len];
}

/* From this distance on, it is another word. */
static size_t too_far(struct span name)
{
    return name.len < LETTERS_APART ? name.len : LETTERS_APART;
}

const struct config_setting *config_nearest(struct span section, struct span name)
{
    const struct config_setting *nearest = NULL;
    size_t least = too_far(name);
    for (size_t i = 0; i < config_settings_count; i++) {
        const struct config_setting *setting = &config_settings[i];
        size_t by_section = edit_distance(section, span_of(setting->section));
        size_t by_name = edit_distance(name, span_of(setting->name));
        /* The right name in the wrong section is a likely mistake, however different the sections
         * are. */
        size_t distance = by_name == 0 && by_section > 2 ? 2 : by_section + by_name;
        if (by_section != SIZE_MAX && by_name != SIZE_MAX && distance < least) {
            nearest = setting;
            least = distance;
        }
    }
    return nearest;
}

const char *config_nearest_section(struct span section)
{
    const char *nearest = NULL;
    size_t least = too_far(section);
    for (size_t i = 0; i < config_settings_count; i++) {
        size_t distance = edit_distance(section, span_of(config_settings[i].section));
        if (distance < least) {
            nearest = config_settings[i].section;
            least = distance;
        }
    }
    return nearest;
}

static int64_t *number_at(struct config *config, const struct config_setting *setting)
{
    CHECK(setting->kind == CONFIG_NUMBER);
    return (int64_t *)(void *)((char *)config + setting->offset);
}

static bool *flag_at(struct config *config, const struct config_setting *setting)
{
    CHECK(setting->kind == CONFIG_FLAG);
    return (bool *)(void *)((char *)config + setting->offset);
}

static char *text_at(struct config *config, const struct config_setting *setting)
{
    CHECK(setting->kind != CONFIG_NUMBER && setting->kind != CONFIG_FLAG);
    return (char *)config + setting->offset;
}

void config_defaults(struct config *ret_config)
{
    memset(ret_config, 0, sizeof(*ret_config));
    for (size_t i = 0; i < config_settings_count; i++) {
        const struct config_setting *setting = &config_settings[i];
        if (setting->kind == CONFIG_NUMBER) {
            *number_at(ret_config, setting) = (int64_t)setting->number;
        } else if (setting->kind == CONFIG_FLAG) {
            *flag_at(ret_config, setting) = setting->number != 0;
        } else {
            CHECK(strlen(setting->text) <= setting->max);
            memcpy(text_at(ret_config, setting), setting->text, strlen(setting->text) + 1);
        }
    }
    config_limits_shipped(&ret_config->limits);
}

/* 127.0.0.1:8080 or [::1]:8080. */
static bool is_address(const char *text)
{
    const char *colon = strrchr(text, ':');
    uint64_t port = 0;
    if (colon == NULL || span_parse_u64(span_of(colon + 1), 65535, &port) != 0) {
        return false;
    }
    char host[64];
    unsigned char bytes[16];
    size_t len = (size_t)(colon - text);
    bool v6 = len >= 2 && text[0] == '[' && text[len - 1] == ']';
    if (v6) {
        text++;
        len -= 2;
    }
    if (len >= sizeof(host)) {
        return false;
    }
    memcpy(host, text, len);
    host[len] = '\0';
    return inet_pton(v6 ? AF_INET6 : AF_INET, host, bytes) == 1;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_url(const char *text)
{
    return (begins(text, "https://") && text[8] != '\0') ||
           (begins(text, "http://") && text[7] != '\0') || text[0] == '/';
}

/* What a browser sends as Origin: scheme and authority, and no path, not even "/". */
static bool is_origin(struct span origin)
{
    char text[256];
    if (span_is(origin, "*")) {
        return true;
    }
    if (origin.len >= sizeof(text)) {
        return false;
    }
    memcpy(text, origin.at, origin.len);
    text[origin.len] = '\0';
    const char *authority = begins(text, "https://")  ? text + 8
                            : begins(text, "http://") ? text + 7
                                                      : NULL;
    return authority != NULL && authority[0] != '\0' && strpbrk(authority, "/?#\\@*") == NULL;
}

static bool are_origins(const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, " ,");
        if (len > 0 && !is_origin((struct span){text, len})) {
            return false;
        }
        text += len + strspn(text + len, " ,");
    }
    return true;
}

uint32_t config_roles(const char *text)
{
    static const char *const names[] = {"front", "relay", "booker", "keeper"};
    uint32_t roles = 0;
    while (*text != '\0') {
        size_t len = strcspn(text, " ,");
        uint32_t role = 0;
        for (uint32_t i = 0; i < 4; i++) {
            role |= span_is((struct span){text, len}, names[i]) ? 1U << i : 0;
        }
        if (len > 0 && role == 0) {
            return 0;
        }
        roles |= role;
        text += len + strspn(text + len, " ,");
    }
    return roles;
}

static bool is_name(const char *text)
{
    return text[strspn(
               text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:")] == '\0';
}

static bool text_is_right(const struct config_setting *setting, const char *value)
{
    size_t len = strlen(value);
    if (len < setting->min || !span_is_utf8(span_of(value))) {
        return false;
    }
    for (const char *c = value; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            return false;
        }
    }
    enum log_level level;
    struct regions regions;
    struct proxies proxies;
    const char *why = "";
    switch (setting->kind) {
    case CONFIG_ADDRESS:
        return len == 0 || is_address(value);
    case CONFIG_PROXIES:
        return proxies_parse(value, &proxies) == 0;
    case CONFIG_ORIGINS:
        return are_origins(value);
    case CONFIG_ORIGIN:
        return len == 0 || (value[0] != '*' && is_origin(span_of(value)));
    case CONFIG_HOOK:
        return len == 0 || hook_parse(value, NULL) == 0;
    case CONFIG_URL:
        return len == 0 || (is_url(value) && strpbrk(value, " \"<>\\") == NULL);
    case CONFIG_DATABASE:
        return len == 0 || ledger_mariadb_check_url(value, NULL, 0) == 0;
    case CONFIG_ROLES:
        return config_roles(value) != 0;
    case CONFIG_REDIS:
        return len == 0 || topology_check_url(value, NULL, 0) == 0;
    case CONFIG_NAME:
        return len == 0 || is_name(value);
    case CONFIG_REGIONS:
        return regions_parse(value, SEGMENTS_MAX, &regions, &why) == 0;
    case CONFIG_BROKER:
        return len == 0 || queue_amqp_check_url(value, NULL, 0) == 0;
    case CONFIG_LEVEL:
        return log_level_parse(value, &level) == 0;
    case CONFIG_FLAG:
        return strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    case CONFIG_PATH:
    case CONFIG_NUMBER:
        break;
    }
    return true;
}

int config_set(struct config *config, const struct config_setting *setting, const char *value,
               char *ret_error, size_t error_cap)
{
    if (setting->kind == CONFIG_NUMBER) {
        uint64_t number = 0;
        if (span_parse_u64(span_of(value), setting->max, &number) != 0 || number < setting->min) {
            (void)snprintf(ret_error, error_cap,
                           "must be a whole number from %" PRIu64 " to %" PRIu64 ", not \"%.64s\"",
                           setting->min, setting->max, value);
            return ERR_INVALID;
        }
        *number_at(config, setting) = (int64_t)number;
        return 0;
    }
    if (setting->kind == CONFIG_FLAG && text_is_right(setting, value)) {
        *flag_at(config, setting) = value[0] == 't';
        return 0;
    }
    if (setting->kind != CONFIG_FLAG && strlen(value) > setting->max) {
        (void)snprintf(ret_error, error_cap, "must have %" PRIu64 " bytes at most", setting->max);
        return ERR_INVALID;
    }
    bool secret = setting->kind == CONFIG_DATABASE || setting->kind == CONFIG_REDIS ||
                  setting->kind == CONFIG_BROKER;
    if (secret && !text_is_right(setting, value)) {
        /* Do not print the value: it may contain a password. */
        (void)snprintf(ret_error, error_cap, "must be %s", config_kind_text(setting->kind));
        if (setting->kind == CONFIG_DATABASE) {
            (void)ledger_mariadb_check_url(value, ret_error, error_cap);
        } else if (setting->kind == CONFIG_REDIS) {
            (void)topology_check_url(value, ret_error, error_cap);
        } else {
            (void)queue_amqp_check_url(value, ret_error, error_cap);
        }
        return ERR_INVALID;
    }
    if (!text_is_right(setting, value)) {
        (void)snprintf(
            ret_error, error_cap, "must be %s%s, not \"%.64s\"", config_kind_text(setting->kind),
            setting->min == 0 && setting->kind != CONFIG_FLAG ? ", or empty" : "", value);
        return ERR_INVALID;
    }
    memcpy(text_at(config, setting), value, strlen(value) + 1);
    return 0;
}

/* Of a value that is no text. 0: it is one. */
static size_t bytes_of(enum config_kind kind)
{
    return kind == CONFIG_NUMBER ? sizeof(int64_t) : kind == CONFIG_FLAG ? sizeof(bool) : 0;
}

bool config_same(const struct config *a, const struct config *b,
                 const struct config_setting *setting)
{
    const char *left = (const char *)a + setting->offset;
    const char *right = (const char *)b + setting->offset;
    size_t bytes = bytes_of(setting->kind);
    return bytes > 0 ? memcmp(left, right, bytes) == 0 : strcmp(left, right) == 0;
}

void config_copy(struct config *to, const struct config *from, const struct config_setting *setting)
{
    size_t bytes = bytes_of(setting->kind);
    size_t size = bytes > 0 ? bytes : setting->max + 1;
    memmove((char *)to + setting->offset, (const char *)from + setting->offset, size);
}

void config_value_text(const struct config *config, const struct config_setting *setting,
                       struct out *out)
{
    const char *member = (const char *)config + setting->offset;
    if (setting->kind == CONFIG_NUMBER) {
        int64_t number = 0;
        memcpy(&number, member, sizeof(number));
        out_i64(out, number);
        return;
    }
    if (setting->kind == CONFIG_FLAG) {
        out_text(out, member[0] != 0 ? "true" : "false");
        return;
    }
    /* In quotes, libconfuse interprets backslashes and ${...}: escape them. */
    out_char(out, '"');
    for (const char *c = member; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\' || *c == '$') {
            out_char(out, '\\');
        }
        out_char(out, *c);
    }
    out_char(out, '"');
}
