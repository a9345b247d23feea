/*
 * `sluice block`: lists, sets and removes blocks of users, addresses and devices through the admin API of
 * a running server, or imports a list of them. A refusal is printed with its code and detail.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/commands.h"
#include "base/err.h"
#include "base/limits.h"
#include "cli/client.h"
#include "cli/options.h"
#include "cli/print.h"
#include "port/block.h"

#define PROBLEM_MAX 1200
#define PATH_MAX_BYTES 512
#define BODY_MAX 1024
#define LINE_MAX_BYTES 512
#define PAGE 500
#define PROGRESS_EVERY 500 /* lines of an import */

static const char help[] =
    "Usage: sluice block list [user|ip|device] [options]\n"
    "       sluice block add user|ip|device VALUE REASON [--until MS] [options]\n"
    "       sluice block remove user|ip|device VALUE [options]\n"
    "       sluice block import FILE [--until MS] [options]\n\n"
    "A blocked user, address or device gets no ticket and no new order; an order that exists is\n"
    "still answered, paid and cancelled. An address may be a prefix: 10.0.0.0/8, 2001:db8::/32.\n\n"
    "import reads one block a line: KIND VALUE REASON; the reason is the rest of the line. Empty\n"
    "lines and lines that begin with # are left out; - is the standard input. A line with an "
    "error\n"
    "is named, and the others are imported all the same. It may be run again.\n\n"
    "  --until MS       when the block ends, in milliseconds since the epoch (never)\n"
    "  --url URL        the server (" CLIENT_URL_DEFAULT ")\n"
    "  --data DIR       where its admin.token is (" CLIENT_DATA_DEFAULT ")\n"
    "  --json           print JSON\n"
    "  --help           this text\n\n"
    "Exit status: 0 done, 1 refused or failed, 2 usage.";

enum action { ACTION_NONE, ACTION_LIST, ACTION_ADD, ACTION_REMOVE, ACTION_IMPORT };

struct block_options {
    const char *url;
    const char *data;
    uint64_t until_ms; /* 0: not given */
    bool json;
    bool help;
    enum action action;
    enum block_kind kind;
    const char *value; /* or the file to import */
    const char *reason;
};

static const struct print_column columns[] = {
    {"kind", "kind", PRINT_PLAIN},     {"value", "value", PRINT_PLAIN},
    {"until", "until_ms", PRINT_TIME}, {"since", "at_ms", PRINT_TIME},
    {"reason", "reason", PRINT_PLAIN},
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- options ---- */

static bool usage(const char *problem)
{
    (void)fprintf(stderr, "sluice block: %s; see sluice block --help\n", problem);
    return false;
}

static bool kind_read(const char *word, struct block_options *options)
{
    return block_kind_parse(span_of(word), &options->kind) == 0 ||
           usage("the kind is user, ip or device");
}

/* The words behind the options. */
static bool words_read(const struct cli_words *words, struct block_options *options)
{
    static const struct {
        const char *name;
        int least, most;
        const char *needs;
    } actions[] = {
        [ACTION_LIST] = {"list", 1, 2, "list takes a kind at most"},
        [ACTION_ADD] = {"add", 4, 4, "add needs a kind, a value and a reason"},
        [ACTION_REMOVE] = {"remove", 3, 3, "remove needs a kind and a value"},
        [ACTION_IMPORT] = {"import", 2, 2, "import needs a file"},
    };
    for (unsigned i = ACTION_LIST; words->count > 0 && i < COUNT(actions); i++) {
        if (strcmp(words->words[0], actions[i].name) == 0) {
            options->action = (enum action)i;
        }
    }
    enum action action = options->action;
    if (action == ACTION_NONE) {
        return usage("say list, add, remove or import");
    }
    if (words->count < actions[action].least || words->count > actions[action].most) {
        return usage(actions[action].needs);
    }
    if (options->until_ms != 0 && action != ACTION_ADD && action != ACTION_IMPORT) {
        return usage("--until is for add and import");
    }
    if (action == ACTION_IMPORT) {
        options->value = words->words[1];
        return true;
    }
    options->value = words->count > 2 ? words->words[2] : NULL;
    options->reason = words->count > 3 ? words->words[3] : NULL;
    return words->count == 1 || kind_read(words->words[1], options);
}

static bool options_read(int argc, char **argv, struct block_options *options)
{
    const struct cli_option known[] = {
        CLI_NUMBER("--until", (uint64_t)TIME_MAX_MS, &options->until_ms),
        CLI_TEXT("--url", &options->url),
        CLI_TEXT("--data", &options->data),
        CLI_FLAG("--json", &options->json),
        CLI_FLAG("--help", &options->help),
    };
    struct cli_words words;
    return cli_options_read(argc, argv, known, COUNT(known), &words) &&
           (options->help || words_read(&words, options));
}

/* ---- calls ---- */

/* The path of a block, its value percent-encoded. False: the value is too long for any. */
static bool path_make(enum block_kind kind, const char *value, char *ret_path, size_t cap)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~:";
    struct out path = out_over(ret_path, cap);
    out_lit(&path, "/v1/admin/blocks/");
    out_text(&path, block_kind_text(kind));
    out_char(&path, '/');
    for (; *value != '\0'; value++) {
        if (strchr(plain, *value) != NULL) {
            out_char(&path, *value);
        } else {
            out_format(&path, "%%%02X", (unsigned)(unsigned char)*value);
        }
    }
    out_char(&path, '\0');
    return !path.overflow;
}

/* 0, or an error of client_call() with its text. */
static int block_add(const struct client *client, enum block_kind kind, const char *value,
                     const char *reason, uint64_t until_ms, json_t **ret_block, char *ret_problem)
{
    char path[PATH_MAX_BYTES];
    char memory[BODY_MAX];
    struct out body = out_over(memory, sizeof(memory));
    out_lit(&body, "{\"reason\":");
    out_json_string(&body, span_of(reason));
    if (until_ms != 0) {
        out_lit(&body, ",\"until_ms\":");
        out_u64(&body, until_ms);
    }
    out_char(&body, '}');
    if (value[0] == '\0' || body.overflow || !span_is_utf8(span_of(reason)) ||
        !path_make(kind, value, path, sizeof(path))) {
        (void)snprintf(ret_problem, PROBLEM_MAX, "the value or the reason is too long, or no text");
        return ERR_INVALID;
    }
    return client_call(client, "PUT", path, out_span(&body), ret_block, ret_problem, PROBLEM_MAX);
}

static int run_add(const struct block_options *options, const struct client *client, char *problem)
{
    json_t *block = NULL;
    int error = block_add(client, options->kind, options->value, options->reason, options->until_ms,
                          &block, problem);
    if (error == 0 && options->json) {
        print_json(block);
    } else if (error == 0) {
        print_members(block, columns, COUNT(columns));
    }
    json_decref(block);
    return error;
}

static int run_remove(const struct block_options *options, const struct client *client,
                      char *problem)
{
    char path[PATH_MAX_BYTES];
    json_t *answer = NULL;
    if (options->value[0] == '\0' ||
        !path_make(options->kind, options->value, path, sizeof(path))) {
        (void)snprintf(problem, PROBLEM_MAX, "the value is empty or too long");
        return ERR_INVALID;
    }
    int error = client_call(client, "DELETE", path, span_of(""), &answer, problem, PROBLEM_MAX);
    json_decref(answer);
    if (error == 0 && options->json) {
        (void)puts("{\"removed\":true}");
    }
    return error;
}

/* Page by page. */
static int run_list(const struct block_options *options, const struct client *client, char *problem)
{
    json_t *blocks = json_array();
    json_int_t after = 0;
    int error = 0;
    bool more = true;
    while (error == 0 && more) {
        char path[PATH_MAX_BYTES];
        json_t *page = NULL;
        bool all = options->kind == BLOCK_NONE;
        (void)snprintf(path, sizeof(path), "/v1/admin/blocks?limit=%d&after=%" PRId64 "%s%s", PAGE,
                       (int64_t)after,
                       all ? "" : "&kind=", all ? "" : block_kind_text(options->kind));
        error = client_call(client, "GET", path, span_of(""), &page, problem, PROBLEM_MAX);
        if (error == 0) {
            (void)json_array_extend(blocks, json_object_get(page, "blocks"));
            json_t *next = json_object_get(page, "next");
            more = json_is_integer(next) && json_integer_value(next) > after;
            after = json_integer_value(next);
        }
        json_decref(page);
    }
    if (error == 0 && options->json) {
        json_t *answer = json_object();
        (void)json_object_set(answer, "blocks", blocks);
        print_json(answer);
        json_decref(answer);
    } else if (error == 0) {
        print_table(blocks, columns, COUNT(columns));
    }
    json_decref(blocks);
    return error;
}

/* ---- import ---- */

struct import {
    const struct block_options *options;
    const struct client *client;
    uint64_t line;
    uint64_t done;
    uint64_t wrong;
    int error; /* the server is not there: the import ends */
};

/* The next word of a line; "" at its end. *at moves behind it. */
static char *next_word(char **at)
{
    char *word = *at + strspn(*at, " \t");
    char *end = word + strcspn(word, " \t");
    *at = end;
    if (*end != '\0') {
        *end = '\0';
        (*at)++;
    }
    return word;
}

static void line_wrong(struct import *import, const char *why)
{
    import->wrong++;
    (void)fprintf(stderr, "sluice block: line %" PRIu64 ": %s\n", import->line, why);
}

static void import_line(struct import *import, char *text)
{
    char problem[PROBLEM_MAX] = "";
    char value[BLOCK_VALUE_MAX + 1];
    enum block_kind kind;
    json_t *block = NULL;
    const char *kind_word = next_word(&text);
    if (kind_word[0] == '\0' || kind_word[0] == '#') {
        return;
    }
    const char *value_word = next_word(&text);
    char *reason = text + strspn(text, " \t");
    if (block_kind_parse(span_of(kind_word), &kind) != 0) {
        line_wrong(import, "the kind is user, ip or device");
        return;
    }
    const char *why = block_value_read(kind, span_of(value_word), value);
    if (why != NULL || reason[0] == '\0') {
        line_wrong(import, why != NULL ? why : "the reason is missing");
        return;
    }
    int error =
        block_add(import->client, kind, value, reason, import->options->until_ms, &block, problem);
    json_decref(block);
    if (error != 0) {
        line_wrong(import, problem);
        import->error = error == ERR_IO ? error : 0;
        return;
    }
    import->done++;
}

static void import_file(struct import *import, FILE *file)
{
    char text[LINE_MAX_BYTES];
    bool terminal = isatty(STDERR_FILENO) != 0;
    while (import->error == 0 && fgets(text, sizeof(text), file) != NULL) {
        size_t len = strlen(text);
        import->line++;
        if (len == sizeof(text) - 1 && text[len - 1] != '\n') {
            int c;
            while ((c = fgetc(file)) != EOF && c != '\n') {
            }
            line_wrong(import, "the line is too long");
            continue;
        }
        text[strcspn(text, "\r\n")] = '\0';
        import_line(import, text);
        if (terminal && import->line % PROGRESS_EVERY == 0) {
            (void)fprintf(stderr, "\r%" PRIu64 " lines", import->line);
        }
    }
    if (terminal && import->line >= PROGRESS_EVERY) {
        (void)fputc('\n', stderr);
    }
}

static int run_import(const struct block_options *options, const struct client *client,
                      char *problem)
{
    struct import import = {.options = options, .client = client};
    bool standard = strcmp(options->value, "-") == 0;
    FILE *file = standard ? stdin : fopen(options->value, "re");
    if (file == NULL) {
        (void)snprintf(problem, PROBLEM_MAX, "cannot read %s", options->value);
        return ERR_IO;
    }
    import_file(&import, file);
    bool unread = ferror(file) != 0;
    if (!standard) {
        (void)fclose(file);
    }
    if (options->json) {
        (void)printf("{\"imported\":%" PRIu64 ",\"wrong\":%" PRIu64 "}\n", import.done,
                     import.wrong);
    } else {
        (void)printf("%" PRIu64 " imported\n", import.done);
    }
    if (unread || import.error != 0 || import.wrong > 0) {
        (void)snprintf(problem, PROBLEM_MAX,
                       unread ? "%s cannot be read to its end" : "lines of %s were not imported",
                       options->value);
        return ERR_INVALID;
    }
    return 0;
}

/* ---- the command ---- */

int block_main(int argc, char **argv)
{
    static int (*const runs[])(const struct block_options *options, const struct client *client,
                               char *problem) = {
        [ACTION_LIST] = run_list,
        [ACTION_ADD] = run_add,
        [ACTION_REMOVE] = run_remove,
        [ACTION_IMPORT] = run_import,
    };
    struct block_options options = {.url = CLIENT_URL_DEFAULT, .data = CLIENT_DATA_DEFAULT};
    struct client client;
    char problem[PROBLEM_MAX] = "";
    if (!options_read(argc, argv, &options)) {
        return 2;
    }
    if (options.help) {
        (void)puts(help);
        return 0;
    }
    int error = client_init(&client, options.url, options.data, problem, sizeof(problem));
    if (error == 0) {
        error = runs[options.action](&options, &client, problem);
    }
    if (error != 0) {
        (void)fprintf(stderr, "sluice block: %s\n", problem);
    }
    return error == 0 && fflush(stdout) == 0 ? 0 : 1;
}
