/*
 * The configuration options of `sluice serve`, and `sluice check-config`. Errors in options are
 * printed to stderr. Values are checked when the configuration is loaded.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "app/commands.h"
#include "app/config.h"
#include "cli/print.h"

/* clang-format off */
#define OPTIONS(X)                                                                                 \
    X(OPT_CONFIG, "config", "FILE", "read settings from this file")                                \
    X(OPT_SET, "set", "SECTION.NAME=VALUE", "set one of them; any number of times")                \
    X(OPT_LISTEN, "listen", "ADDRESS:PORT", "the same as --set server.listen=ADDRESS:PORT")        \
    X(OPT_DATA, "data", "DIR", "the same as --set data.dir=DIR")                                   \
    X(OPT_ROLES, "roles", "ROLE,...", "the same as --set server.roles=ROLE,...")                   \
    X(OPT_DEMO, "demo", NULL, "demonstration: login page, pay button, two sales if there are none") \
    X(OPT_ACCEPT_CLOCK, "accept-clock", NULL,                                                      \
      "start although the clock is far from the last known time")                                  \
    X(OPT_PRINT_CONFIG, "print-config", NULL, "print all settings, documented, and exit")          \
    X(OPT_HELP, "help", NULL, "this text")
/* clang-format on */

enum {
    OPT_FIRST = 256, /* above every character that getopt_long returns */
#define X(id, name, value, help) id,
    OPTIONS(X)
#undef X
};

static const struct option long_options[] = {
#define X(id, name, value, help)                                                                   \
    {name, (value) != NULL ? required_argument : no_argument, NULL, id},
    OPTIONS(X)
#undef X
        {NULL, 0, NULL, 0},
};

static void help_print(void)
{
    static const struct {
        const char *name;
        const char *value;
        const char *help;
    } lines[] = {
#define X(id, name, value, help) {name, value, help},
        OPTIONS(X)
#undef X
    };
    (void)puts(
        "Usage: sluice serve [options]\n\n"
        "Runs the server in the foreground. SIGTERM ends it after what is under way, SIGHUP\n"
        "reads the configuration and the secrets again.\n");
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char left[40];
        (void)snprintf(left, sizeof(left), "--%s %s", lines[i].name,
                       lines[i].value != NULL ? lines[i].value : "");
        (void)printf("  %-26s %s\n", left, lines[i].help);
    }
    (void)puts("\nExit status: 0 ended as asked, 1 could not start or had to stop, 2 usage.");
}

static void override_add(struct config_options *options, const char *option, const char *key,
                         const char *value)
{
    options->overrides[options->overrides_count++] =
        (struct config_override){.option = option, .key = key, .value = value};
}

static enum config_parsed options_read(int argc, char **argv, struct config_options *options,
                                       bool *ret_print)
{
    optind = 0; /* resets getopt */
    for (;;) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): no thread has been started yet */
        int id = getopt_long(argc, argv, "", long_options, NULL);
        switch (id) {
        case -1:
            if (optind < argc) {
                (void)fprintf(stderr, "%s: unexpected argument: %s\n", argv[0], argv[optind]);
                return CONFIG_USAGE;
            }
            return CONFIG_RUN;
        case OPT_CONFIG:
            options->file = optarg;
            break;
        case OPT_SET:
            override_add(options, "--set", NULL, optarg);
            break;
        case OPT_LISTEN:
            override_add(options, "--listen", "server.listen", optarg);
            break;
        case OPT_DATA:
            override_add(options, "--data", "data.dir", optarg);
            break;
        case OPT_ROLES:
            override_add(options, "--roles", "server.roles", optarg);
            break;
        case OPT_DEMO:
            options->demo = true;
            break;
        case OPT_ACCEPT_CLOCK:
            options->accept_clock = true;
            break;
        case OPT_PRINT_CONFIG:
            *ret_print = true;
            break;
        case OPT_HELP:
            help_print();
            return CONFIG_SHOWN;
        default:
            return CONFIG_USAGE;
        }
    }
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
            text = json_string("something that is not UTF-8; without --json it is told");
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
    static const struct option known[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool as_json = false;
    optind = 0; /* resets getopt */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads */
    for (int id = 0; (id = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (id == 'h') {
            (void)puts(
                "Usage: sluice check-config FILE [--json]\n\n"
                "Reads a configuration file as `sluice serve --config FILE` would, and says ok\n"
                "or what is wrong, with its line; --json: as JSON on standard output.\n"
                "Exit status: 0 ok, 1 not ok, 2 usage.");
            return 0;
        }
        if (id != 'j') {
            return 2;
        }
        as_json = true;
    }
    if (optind != argc - 1) {
        (void)fprintf(stderr, "%s: one file is needed, see %s --help\n", argv[0], argv[0]);
        return 2;
    }
    struct config config;
    char error[CONFIG_ERROR_MAX];
    const struct config_options options = {.file = argv[optind]};
    bool good = config_load(&options, &config, error, sizeof(error)) == 0;
    verdict_print(good ? NULL : error, as_json);
    return good ? 0 : 1;
}
