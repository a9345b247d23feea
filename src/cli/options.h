/*
 * Reads the options of a command from a table of them. Each option names the variable that takes its
 * value. The tables are on the stack of their command. Errors are printed to stderr, after argv[0],
 * which main() sets to "sluice COMMAND".
 */
#ifndef SLUICE_CLI_OPTIONS_H
#define SLUICE_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/config.h"

#define CLI_OPTIONS_MAX 16

enum cli_option_kind {
    CLI_OPTION_FLAG,    /* has no argument: *flag becomes true */
    CLI_OPTION_TEXT,    /* *text becomes the argument, which stays in argv */
    CLI_OPTION_NUMBER,  /* *number becomes the argument, a whole number from 1 to max */
    CLI_OPTION_SETTING, /* each occurrence adds an override to *settings, which has room for argc */
};

struct cli_option {
    const char *name;     /* with its dashes: "--url" */
    const char *argument; /* its name in the help; NULL: none */
    const char *help;     /* for cli_options_print */
    enum cli_option_kind kind;
    union {
        bool *flag;
        const char **text;
        uint64_t *number;
        struct config_options *settings;
    };
    uint64_t max;    /* of a number */
    const char *key; /* of a setting; NULL: the argument is SECTION.NAME=VALUE */
};

#define CLI_FLAG(option, to)                                                                       \
    {                                                                                              \
        .name = (option), .kind = CLI_OPTION_FLAG, .flag = (to)                                    \
    }
#define CLI_TEXT(option, to)                                                                       \
    {                                                                                              \
        .name = (option), .kind = CLI_OPTION_TEXT, .text = (to)                                    \
    }
#define CLI_NUMBER(option, limit, to)                                                              \
    {                                                                                              \
        .name = (option), .kind = CLI_OPTION_NUMBER, .number = (to), .max = (limit)                \
    }
#define CLI_SETTING(option, to)                                                                    \
    {                                                                                              \
        .name = (option), .kind = CLI_OPTION_SETTING, .settings = (to)                             \
    }

/* The arguments that are no options, in their order. */
struct cli_words {
    char **words;
    int count;
};

/* False: an option is unknown or its argument is missing or wrong, and the problem is printed. */
bool cli_options_read(int argc, char **argv, const struct cli_option *options, size_t count,
                      struct cli_words *ret_words);

/* One line of help for each option: the option in `width` columns, then its text. */
void cli_options_print(const struct cli_option *options, size_t count, int width);

#endif
