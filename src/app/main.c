/*
 * sluice: finds the command in the table and runs it. Commands set up what they need themselves.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "app/commands.h"
#include "base/version.h"

#define TITLE_MAX 64

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
#define X(name, function, help) {name, function, help},
    COMMANDS(X)
#undef X
};
#define COMMANDS_COUNT (sizeof(commands) / sizeof(commands[0]))

static void help_print(FILE *out)
{
    (void)fputs(
        "Usage: sluice COMMAND [options]\n\n"
        "A flash-sale engine: sells a fixed number of things, and gets every count right.\n\n",
        out);
    for (size_t i = 0; i < COMMANDS_COUNT; i++) {
        (void)fprintf(out, "  %-14s %s\n", commands[i].name, commands[i].help);
    }
    (void)fputs("\nsluice COMMAND --help tells more. Exit status: 0 done, 1 refused or failed, "
                "2 usage.\n",
                out);
}

int version_main(int argc, char **argv)
{
    bool help = false;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        help = help || strcmp(argv[i], "--help") == 0;
        json = json || strcmp(argv[i], "--json") == 0;
        if (strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "--json") != 0) {
            (void)fprintf(stderr, "%s: unexpected argument: %s\n", argv[0], argv[i]);
            return 2;
        }
    }
    (void)puts(help   ? "Usage: sluice version [--json]\n\nPrints the version of the program."
               : json ? "{\"version\": \"" SLUICE_VERSION "\"}"
                      : "sluice " SLUICE_VERSION);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help_print(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0) {
        return version_main(1, argv);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        help_print(stdout);
        return 0;
    }
    for (size_t i = 0; i < COMMANDS_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            /* getopt starts its messages with argv[0]. */
            static char title[TITLE_MAX];
            (void)snprintf(title, sizeof(title), "sluice %s", commands[i].name);
            argv[1] = title;
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    (void)fprintf(stderr, "sluice: no such command: %s; see sluice --help\n", argv[1]);
    return 2;
}
