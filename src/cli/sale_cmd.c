/*
 * `sluice sale`: operations on sales through the admin API of a running server. Happy path:
 * options, one call, a table (or with --json the server's answer). A refusal is printed with its
 * code and detail.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/commands.h"
#include "base/check.h"
#include "base/err.h"
#include "base/limits.h"
#include "cli/client.h"
#include "cli/options.h"
#include "cli/print.h"

#define PROBLEM_MAX 1200

struct sale_options {
    const char *url;
    const char *data;
    const char *file; /* create; empty: not given */
    const char *html; /* report: output file of the page; NULL: no page */
    const char *lang; /* report: en or zh */
    bool json;
    bool help;
    const char *command;
    uint64_t sale; /* 0: not given */
};

enum sale_kind { SALE_DO_CREATE, SALE_DO_LIST, SALE_DO_SHOW, SALE_DO_MOVE, SALE_DO_REPORT };

/* clang-format off */
#define SALE_COMMANDS(X)                                                                           \
    X("create", SALE_DO_CREATE, "--file FILE", "create a sale from a JSON file (- reads stdin)")   \
    X("list", SALE_DO_LIST, "", "all sales")                                                       \
    X("show", SALE_DO_SHOW, "SALE", "one sale with its items")                                     \
    X("warm", SALE_DO_MOVE, "SALE", "load it; tickets in their window; opens at its start")        \
    X("open", SALE_DO_MOVE, "SALE", "open it now, or resume it")                                   \
    X("pause", SALE_DO_MOVE, "SALE", "refuse new orders")                                          \
    X("close", SALE_DO_MOVE, "SALE", "end it for good; locked orders may still be paid")           \
    X("report", SALE_DO_REPORT, "SALE", "what happened in it; --html FILE: as one page with charts")
/* clang-format on */

static const struct {
    const char *name;
    enum sale_kind kind;
    const char *argument;
    const char *help;
} commands[] = {
#define X(name, kind, argument, help) {name, kind, argument, help},
    SALE_COMMANDS(X)
#undef X
};
#define COMMANDS_COUNT (sizeof(commands) / sizeof(commands[0]))

static const struct print_column sale_columns[] = {
    {"id", "id", PRINT_PLAIN},
    {"state", "state", PRINT_PLAIN},
    {"starts", "starts_at_ms", PRINT_TIME},
    {"ends", "ends_at_ms", PRINT_TIME},
    {"items", "items", PRINT_COUNT},
    {"name", "name", PRINT_PLAIN},
};
static const struct print_column sale_members[] = {
    {"id", "id", PRINT_PLAIN},
    {"name", "name", PRINT_PLAIN},
    {"state", "state", PRINT_PLAIN},
    {"starts", "starts_at_ms", PRINT_TIME},
    {"ends", "ends_at_ms", PRINT_TIME},
    {"currency", "currency", PRINT_PLAIN},
    {"seconds to pay", "pay_within_s", PRINT_PLAIN},
    {"pay url", "pay_url", PRINT_PLAIN},
    {"bars unpaid", "bar_unpaid", PRINT_PLAIN},
};
static const struct print_column item_columns[] = {
    {"item", "id", PRINT_PLAIN},
    {"price", "price_cents", PRINT_MONEY},
    {"limit", "limit_per_user", PRINT_PLAIN},
    {"total", "total", PRINT_PLAIN},
    {"available", "available", PRINT_PLAIN},
    {"locked", "locked", PRINT_PLAIN},
    {"sold", "sold", PRINT_PLAIN},
    {"sku", "sku", PRINT_PLAIN},
    {"name", "name", PRINT_PLAIN},
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static size_t command_find(const char *name)
{
    size_t i = 0;
    while (i < COMMANDS_COUNT && strcmp(name, commands[i].name) != 0) {
        i++;
    }
    return i;
}

static void help_print(const char *name)
{
    size_t one = name != NULL ? command_find(name) : COMMANDS_COUNT;
    if (one < COMMANDS_COUNT) {
        (void)printf("Usage: sluice sale %s %s [options]\n\n%s\n", name, commands[one].argument,
                     commands[one].help);
        if (commands[one].kind == SALE_DO_REPORT) {
            (void)puts(
                "\nOrders, units, buyers and money are the ledger's; requests, refusals and\n"
                "times to answer are what the asked server counted of this sale.\n\n"
                "  --html FILE  write it as one HTML page with its pictures in it (- is stdout)\n"
                "  --lang LANG  of that page: en (default) or zh");
        }
        if (commands[one].kind == SALE_DO_CREATE) {
            (void)puts("\nThe file holds what POST /v1/admin/sales takes:\n"
                       "  {\"name\": \"Monday 8 pm\", \"starts_at_ms\": 1893499200000,\n"
                       "   \"ends_at_ms\": 1893502800000, \"pay_within_s\": 900,\n"
                       "   \"items\": [{\"name\": \"Kettle\", \"price_cents\": 9900,\n"
                       "              \"total\": 1000, \"limit_per_user\": 1}]}\n"
                       "Optional: id, currency, pay_url, bar_unpaid; of an item: id, sku,\n"
                       "image_url, was_cents. The new sale is a draft.");
        }
    } else {
        (void)puts("Usage: sluice sale COMMAND [options]\n");
        for (size_t i = 0; i < COMMANDS_COUNT; i++) {
            (void)printf("  %-7s %-12s %s\n", commands[i].name, commands[i].argument,
                         commands[i].help);
        }
    }
    (void)puts("\nOptions:\n"
               "  --url URL    the server (" CLIENT_URL_DEFAULT ")\n"
               "  --data DIR   where its admin.token is (" CLIENT_DATA_DEFAULT ")\n"
               "  --json       print what the server said\n"
               "  --help       this text\n\n"
               "Exit status: 0 done, 1 refused or failed, 2 usage.");
}

static bool usage(const char *problem)
{
    (void)fprintf(stderr, "sluice sale: %s; see sluice sale --help\n", problem);
    return false;
}

/* The arguments: COMMAND, and SALE if the command needs one. */
static bool words_read(int count, char **words, struct sale_options *options)
{
    options->command = count > 0 ? words[0] : NULL;
    if (options->help) {
        return true;
    }
    size_t command = options->command != NULL ? command_find(options->command) : COMMANDS_COUNT;
    if (command == COMMANDS_COUNT) {
        return usage(options->command != NULL ? "no such command" : "a command is needed");
    }
    bool wants_sale = strcmp(commands[command].argument, "SALE") == 0;
    if (count != (wants_sale ? 2 : 1)) {
        return usage(wants_sale ? "the id of one sale is needed" : "unexpected argument");
    }
    if (wants_sale &&
        (span_parse_u64(span_of(words[1]), ID_MAX, &options->sale) != 0 || options->sale == 0)) {
        return usage("the id of a sale is a positive number");
    }
    if ((commands[command].kind == SALE_DO_CREATE) != (options->file[0] != '\0')) {
        return usage(options->file[0] != '\0' ? "--file is for create" : "create needs --file");
    }
    if (options->html != NULL && commands[command].kind != SALE_DO_REPORT) {
        return usage("--html is for report");
    }
    if (options->html != NULL && options->json) {
        return usage("--html and --json exclude each other");
    }
    CHECK(options->lang != NULL);
    if (strcmp(options->lang, "en") != 0 && strcmp(options->lang, "zh") != 0) {
        return usage("--lang is en or zh");
    }
    return true;
}

static bool options_read(int argc, char **argv, struct sale_options *options)
{
    const struct cli_option known[] = {
        CLI_TEXT("--url", &options->url),   CLI_TEXT("--data", &options->data),
        CLI_TEXT("--file", &options->file), CLI_TEXT("--html", &options->html),
        CLI_TEXT("--lang", &options->lang), CLI_FLAG("--json", &options->json),
        CLI_FLAG("--help", &options->help),
    };
    struct cli_words words;
    return cli_options_read(argc, argv, known, COUNT(known), &words) &&
           words_read(words.count, words.words, options);
}

/* Reads a JSON file as bytes. jansson parses it once, so a syntax error is reported with its
 * line. */
static int file_read(const char *path, char **ret_text, char *ret_problem, size_t cap)
{
    json_error_t wrong;
    bool is_stdin = strcmp(path, "-") == 0;
    json_t *json = is_stdin ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &wrong)
                            : json_load_file(path, JSON_REJECT_DUPLICATES, &wrong);
    if (json == NULL && wrong.line > 0) {
        (void)snprintf(ret_problem, cap, "%s:%d: %s", is_stdin ? "stdin" : path, wrong.line,
                       wrong.text);
    } else if (json == NULL) {
        (void)snprintf(ret_problem, cap, "%s", wrong.text); /* names the file */
    }
    *ret_text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return *ret_text != NULL ? 0 : ERR_INVALID;
}

static void sale_print(const json_t *sale)
{
    print_members(sale, sale_members, COUNT(sale_members));
    (void)fputc('\n', stdout);
    print_table(json_object_get(sale, "items"), item_columns, COUNT(item_columns));
}

/* Prints the totals. The course over time and the server-wide numbers are only in --json and the
 * page. */
static void report_print(json_t *report)
{
    (void)json_object_del(report, "course");
    (void)json_object_del(report, "server");
    print_lines(report);
}

static void answer_print(enum sale_kind kind, json_t *answer, bool as_json)
{
    if (as_json) {
        print_json(answer);
    } else if (kind == SALE_DO_LIST) {
        print_table(json_object_get(answer, "sales"), sale_columns, COUNT(sale_columns));
    } else if (kind == SALE_DO_REPORT) {
        report_print(answer);
    } else {
        sale_print(answer);
    }
}

/* Writes the page to a file or to standard output. */
static int page_write(const struct sale_options *options, const struct client *client,
                      const char *report, char *ret_problem, size_t cap)
{
    char path[128];
    struct client_file page = {.memory = NULL};
    (void)snprintf(path, sizeof(path), "%s?format=html&lang=%s", report, options->lang);
    int error = client_fetch(client, path, "", &page, ret_problem, cap);
    if (error == 0 && page.status != 200) {
        (void)snprintf(ret_problem, cap, "%s",
                       page.status == 404 ? "no such sale" : "the server gave no report");
        error = ERR_INVALID;
    }
    if (error != 0) {
        free(page.memory);
        return error;
    }
    bool to_stdout = strcmp(options->html, "-") == 0;
    FILE *file = to_stdout ? stdout : fopen(options->html, "we");
    bool written = file != NULL && fwrite(page.body.at, 1, page.body.len, file) == page.body.len &&
                   fflush(file) == 0;
    if (file != NULL && !to_stdout) {
        written = fclose(file) == 0 && written;
    }
    free(page.memory);
    if (!written) {
        (void)snprintf(ret_problem, cap, "cannot write %s", options->html);
        return ERR_IO;
    }
    return 0;
}

/* Reads all sales, page by page, into one answer. */
static int list_call(const struct client *client, json_t **ret_answer, char *ret_problem,
                     size_t cap)
{
    char path[96] = "/v1/admin/sales";
    json_t *all = NULL;
    for (json_int_t after = 0;;) {
        json_t *page = NULL;
        int error = client_call(client, "GET", path, span_of(""), &page, ret_problem, cap);
        if (error != 0) {
            json_decref(all);
            return error;
        }
        if (all == NULL) {
            all = json_incref(page);
        } else {
            (void)json_array_extend(json_object_get(all, "sales"), json_object_get(page, "sales"));
            (void)json_object_set(all, "next", json_object_get(page, "next"));
        }
        json_decref(page);
        json_int_t next = json_integer_value(json_object_get(all, "next"));
        if (next <= after) { /* 0: that was the last page */
            *ret_answer = all;
            return 0;
        }
        after = next;
        (void)snprintf(path, sizeof(path), "/v1/admin/sales?after=%lld", (long long)after);
    }
}

static int sale_call(const struct sale_options *options, char *ret_problem, size_t cap)
{
    struct client client;
    enum sale_kind kind = commands[command_find(options->command)].kind;
    char path[96] = "/v1/admin/sales";
    char *body = NULL;
    int error = 0;
    if (kind == SALE_DO_CREATE) {
        error = file_read(options->file, &body, ret_problem, cap);
    } else if (kind != SALE_DO_LIST) {
        bool tail = kind == SALE_DO_MOVE || kind == SALE_DO_REPORT;
        (void)snprintf(path, sizeof(path), "/v1/admin/sales/%llu%s%s",
                       (unsigned long long)options->sale, tail ? "/" : "",
                       tail ? options->command : "");
    }
    if (error == 0) {
        error = client_init(&client, options->url, options->data, ret_problem, cap);
    }
    json_t *answer = NULL;
    if (error == 0 && options->html != NULL) {
        return page_write(options, &client, path, ret_problem, cap);
    }
    if (error == 0 && kind == SALE_DO_LIST) {
        error = list_call(&client, &answer, ret_problem, cap);
    } else if (error == 0) {
        const char *method = kind == SALE_DO_CREATE || kind == SALE_DO_MOVE ? "POST" : "GET";
        error = client_call(&client, method, path, span_of(body != NULL ? body : ""), &answer,
                            ret_problem, cap);
    }
    if (error == 0) {
        answer_print(kind, answer, options->json);
    }
    json_decref(answer);
    free(body);
    return error;
}

int sale_main(int argc, char **argv)
{
    struct sale_options options = {
        .url = CLIENT_URL_DEFAULT, .data = CLIENT_DATA_DEFAULT, .file = "", .lang = "en"};
    char problem[PROBLEM_MAX] = "out of memory";
    if (!options_read(argc, argv, &options)) {
        return 2;
    }
    if (options.help) {
        help_print(options.command);
        return 0;
    }
    if (sale_call(&options, problem, sizeof(problem)) != 0) {
        (void)fprintf(stderr, "sluice sale %s: %s\n", options.command, problem);
        return 1;
    }
    return 0;
}
