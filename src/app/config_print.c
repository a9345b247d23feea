/*
 * The documented example: every setting with its help, unit, range and default, as a file that the
 * program can read. docs/sluice.example.conf is its output for the defaults.
 */
#include <inttypes.h>
#include <string.h>

#include "app/config.h"
#include "app/config_value.h"
#include "base/check.h"

#define WIDTH 96

/* Prints a text as comment lines that begin with `lead`. */
static void comment_print(FILE *out, const char *lead, const char *text)
{
    size_t column = 0;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column > 0 && column + 1 + word > WIDTH) {
            (void)fputc('\n', out);
            column = 0;
        }
        column += (size_t)fprintf(out, "%s%.*s", column == 0 ? lead : " ", (int)word, text);
        text += word + strspn(text + word, " ");
    }
    (void)fputc('\n', out);
}

static void setting_print(FILE *out, const struct config *config, const struct config *standard,
                          const struct config_setting *setting)
{
    char memory[2 * URL_MAX_BYTES + 2048];
    struct out value = out_over(memory, sizeof(memory));
    config_value_text(standard, setting, &value);
    out_char(&value, '\0');
    CHECK(!value.overflow);

    comment_print(out, "    # ", setting->help);
    char range[512];
    if (setting->kind == CONFIG_NUMBER) {
        (void)snprintf(range, sizeof(range), "%" PRIu64 " to %" PRIu64 " %s", setting->min,
                       setting->max, setting->unit);
    } else {
        (void)snprintf(range, sizeof(range), "%s%s", config_kind_text(setting->kind),
                       setting->min == 0 && setting->kind != CONFIG_FLAG ? ", or empty" : "");
    }
    char facts[sizeof(range) + sizeof(memory) + 64];
    (void)snprintf(facts, sizeof(facts), "%s; default %s%s", range, memory,
                   setting->when == CONFIG_RELOAD ? "; taken over on SIGHUP" : "");
    comment_print(out, "    # ", facts);
    value = out_over(memory, sizeof(memory));
    config_value_text(config, setting, &value);
    out_char(&value, '\0');
    CHECK(!value.overflow);
    (void)fprintf(out, "    %s = %s\n", setting->name, memory);
}

/* ---- rate limits ---- */

#define CALLS_TEXT_MAX 256

static void limit_fields_print(FILE *out)
{
    static const char *const fields[][3] = {
#define X(name, kind, help) {#name, kind, help},
        LIMIT_FIELDS(X)
#undef X
    };
    comment_print(
        out, "# ",
        "Rate limits: any number of sections `limit \"NAME\" { ... }`, up to 32, taken over on "
        "SIGHUP.");
    for (int i = 0; i < LIMIT_FIELD_COUNT; i++) {
        char text[768];
        (void)snprintf(text, sizeof(text), "%s: %s. %s", fields[i][0], fields[i][1], fields[i][2]);
        comment_print(out, "#   ", text);
    }
}

static void limit_print(FILE *out, const struct config_limit *limit)
{
    const struct rate_rule *rate = &limit->rule.rate;
    char text[CALLS_TEXT_MAX];
    struct out calls = out_over(text, sizeof(text) - 1);
    config_limit_calls(limit->rule.calls, "\"", ", ", &calls);
    CHECK(!calls.overflow);
    text[calls.len] = '\0';
    (void)fprintf(out, "\nlimit \"%s\" {\n    key = \"%s\"\n    calls = {%s}\n", limit->rule.name,
                  limit_key_text(limit->rule.key), text);
    (void)fprintf(out, "    algorithm = %s\n    rate = %" PRIu32 "\n    per_s = %" PRIu32 "\n",
                  rate_algorithm_text(rate->algorithm), rate->rate, rate->per_s);
    if (limit->has_burst) {
        (void)fprintf(out, "    burst = %" PRIu32 "\n", rate->burst);
    }
    (void)fprintf(out, "    shared = %s\n}\n", limit->rule.shared ? "true" : "false");
}

void config_print(const struct config *config, FILE *out)
{
    struct config standard;
    config_defaults(&standard);
    comment_print(out, "# ",
                  "Settings of sluice serve. Every setting is optional. The command line "
                  "(--set section.name=value) overrides the file. ${NAME} in a value is replaced "
                  "by that environment variable.");
    const char *section = "";
    for (size_t i = 0; i < config_settings_count; i++) {
        const struct config_setting *setting = &config_settings[i];
        if (strcmp(section, setting->section) != 0) {
            (void)fprintf(out, "%s\n%s {\n", i == 0 ? "" : "}\n", setting->section);
            section = setting->section;
        } else {
            (void)fputc('\n', out);
        }
        setting_print(out, config, &standard, setting);
    }
    (void)fputs("}\n", out);
    (void)fputc('\n', out);
    limit_fields_print(out);
    for (uint32_t i = 0; i < config->limits.count; i++) {
        limit_print(out, &config->limits.limits[i]);
    }
}
