/* See options.h. */
#include "cli/options.h"

#include <getopt.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/check.h"

enum { OPTION_FIRST = 256 }; /* above every character that getopt_long returns */

static bool number_read(const char *command, const struct cli_option *option, const char *text)
{
    uint64_t value = 0;
    if (span_parse_u64(span_of(text), option->max, &value) != 0 || value == 0) {
        (void)fprintf(stderr, "%s: %s: must be a whole number from 1 to %llu\n", command,
                      option->name, (unsigned long long)option->max);
        return false;
    }
    *option->number = value;
    return true;
}

static void setting_add(const struct cli_option *option, const char *value)
{
    struct config_options *settings = option->settings;
    settings->overrides[settings->overrides_count++] =
        (struct config_override){.option = option->name, .key = option->key, .value = value};
}

static bool option_take(const char *command, const struct cli_option *option, const char *argument)
{
    switch (option->kind) {
    case CLI_OPTION_FLAG:
        *option->flag = true;
        return true;
    case CLI_OPTION_TEXT:
        *option->text = argument;
        return true;
    case CLI_OPTION_NUMBER:
        return number_read(command, option, argument);
    case CLI_OPTION_SETTING:
        setting_add(option, argument);
        return true;
    }
    CHECK(!"an option has a kind");
    return false;
}

bool cli_options_read(int argc, char **argv, const struct cli_option *options, size_t count,
                      struct cli_words *ret_words)
{
    struct option known[CLI_OPTIONS_MAX + 1] = {{0}};
    CHECK(count <= CLI_OPTIONS_MAX);
    for (size_t i = 0; i < count; i++) {
        known[i] = (struct option){
            .name = options[i].name + 2, /* without the dashes */
            .has_arg = options[i].kind == CLI_OPTION_FLAG ? no_argument : required_argument,
            .val = OPTION_FIRST + (int)i};
    }
    optind = 0; /* resets getopt */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads */
    for (int id = 0; (id = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (id < OPTION_FIRST || !option_take(argv[0], &options[id - OPTION_FIRST], optarg)) {
            return false;
        }
    }
    *ret_words = (struct cli_words){argv + optind, argc - optind};
    return true;
}

void cli_options_print(const struct cli_option *options, size_t count, int width)
{
    for (size_t i = 0; i < count; i++) {
        char left[64];
        (void)snprintf(left, sizeof(left), "%s %s", options[i].name,
                       options[i].argument != NULL ? options[i].argument : "");
        (void)printf("  %-*s %s\n", width, left, options[i].help);
    }
}
