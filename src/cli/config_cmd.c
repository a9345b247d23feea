/*
 * The configuration options of `sluice serve`, and `sluice check-config`. Errors in options are
 * printed to stderr. Values are checked when the configuration is loaded.
 */
#include <stdlib.h>
#include <string.h>

#include "app/commands.h"
#include "app/config.h"
#include "cli/options.h"
#include "cli/print.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void help_print(const struct cli_option *known, size_t count)
{
    (void)puts(
        "Usage: sluice serve [options]\n\n"
        "Runs the server in the foreground. SIGTERM ends it after what is under way, SIGHUP\n"
        "reads the configuration and the secrets again.\n");
    cli_options_print(known, count, 26);
    (void)puts("\nExit status: 0 ended as asked, 1 could not start or had to stop, 2 usage.");
}

#define SETTING(option, value, setting, text)                                                      \
    {                                                                                              \
        .name = (option), .argument = (value), .help = (text), .kind = CLI_OPTION_SETTING,         \
        .settings = options, .key = (setting)                                                      \
    }
#define FLAG(option, to, text)                                                                     \
    {                                                                                              \
        .name = (option), .help = (text), .kind = CLI_OPTION_FLAG, .flag = (to)                    \
    }

static enum config_parsed options_read(int argc, char **argv, struct config_options *options,
                                       bool *ret_print)
{
    bool help = false;
    /* clang-format off */
    const struct cli_option known[] = {
        {.name = "--config", .argument = "FILE", .help = "read settings from this file",
         .kind = CLI_OPTION_TEXT, .text = &options->file},
        SETTING("--set", "SECTION.NAME=VALUE", NULL, "set one of them; any number of times"),
        SETTING("--listen", "ADDRESS:PORT", "server.listen",
                "the same as --set server.listen=ADDRESS:PORT"),
        SETTING("--data", "DIR", "data.dir", "the same as --set data.dir=DIR"),
        SETTING("--roles", "ROLE,...", "server.roles", "the same as --set server.roles=ROLE,..."),
        FLAG("--demo", &options->demo,
             "demonstration: login page, pay button, two sales if there are none"),
        FLAG("--accept-clock", &options->accept_clock,
             "start although the clock is far from the last known time"),
        FLAG("--print-config", ret_print, "print all settings, documented, and exit"),
        FLAG("--help", &help, "this text"),
    };
    /* clang-format on */
    struct cli_words words;
    if (!cli_options_read(argc, argv, known, COUNT(known), &words)) {
        return CONFIG_USAGE;
    }
    if (help) {
        help_print(known, COUNT(known));
        return CONFIG_SHOWN;
    }
    if (words.count > 0) {
        (void)fprintf(stderr, "%s: unexpected argument: %s\n", argv[0], words.words[0]);
        return CONFIG_USAGE;
    }
    return CONFIG_RUN;
}

enum config_parsed config_unloaded(const struct config_options *options)
{
    return options->file != NULL ? CONFIG_FAILED : CONFIG_USAGE;
}

enum config_parsed config_options_parse(int argc, char **argv, struct config_options *ret_options)
{
    struct config_options options = {
        .overrides = calloc((size_t)argc + 1, sizeof(*options.overrides)),
    };
    bool print = false;
    if (options.overrides == NULL) {
        (void)fprintf(stderr, "%s: out of memory\n", argv[0]);
        return CONFIG_USAGE;
    }
    char error[CONFIG_ERROR_MAX];
    enum config_parsed parsed = options_read(argc, argv, &options, &print);
    if (parsed == CONFIG_RUN && config_check_overrides(&options, error, sizeof(error)) != 0) {
        (void)fprintf(stderr, "%s: %s\n", argv[0], error);
        parsed = CONFIG_USAGE;
    }
    if (parsed == CONFIG_RUN && print) {
        struct config config;
        if (config_load(&options, &config, error, sizeof(error)) == 0) {
            config_print(&config, stdout);
            parsed = CONFIG_SHOWN;
        } else {
            (void)fprintf(stderr, "%s: %s\n", argv[0], error);
            parsed = config_unloaded(&options);
        }
    }
    if (parsed == CONFIG_RUN) {
        *ret_options = options;
    } else {
        config_options_done(&options);
    }
    return parsed;
}

void config_options_done(struct config_options *options)
{
    free(options->overrides);
    *options = (struct config_options){0};
}

/* problem: NULL if there is none. */
static void verdict_print(const char *problem, bool as_json)
{
    if (as_json) {
        json_t *verdict = json_pack("{s:b}", "ok", problem == NULL);
        json_t *text = problem == NULL ? NULL : json_string(problem);
        if (problem != NULL && text == NULL) { /* it quotes a file that is not UTF-8 */
            text = json_string("something that is not UTF-8; run it without --json to see it");
        }
        (void)(text != NULL && json_object_set_new(verdict, "error", text));
        print_json(verdict);
        json_decref(verdict);
    } else if (problem == NULL) {
        (void)puts("ok");
    } else {
        (void)fprintf(stderr, "%s\n", problem);
    }
}

int check_config_main(int argc, char **argv)
{
    bool as_json = false;
    bool help = false;
    const struct cli_option known[] = {CLI_FLAG("--json", &as_json), CLI_FLAG("--help", &help)};
    struct cli_words words;
    if (!cli_options_read(argc, argv, known, COUNT(known), &words)) {
        return 2;
    }
    if (help) {
        (void)puts("Usage: sluice check-config FILE [--json]\n\n"
                   "Reads a configuration file as `sluice serve --config FILE` would, and says ok\n"
                   "or what is wrong, with its line; --json: as JSON on standard output.\n"
                   "Exit status: 0 ok, 1 not ok, 2 usage.");
        return 0;
    }
    if (words.count != 1) {
        (void)fprintf(stderr, "%s: one file is needed, see %s --help\n", argv[0], argv[0]);
        return 2;
    }
    struct config config;
    char error[CONFIG_ERROR_MAX];
    const struct config_options options = {.file = words.words[0]};
    bool good = config_load(&options, &config, error, sizeof(error)) == 0;
    verdict_print(good ? NULL : error, as_json);
    return good ? 0 : 1;
}
