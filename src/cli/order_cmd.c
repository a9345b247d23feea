/*
 * `sluice order`: shows one order with its history, or a list of orders, through the admin API of a
 * running server. A refusal is printed with its code and detail.
 */
#include <stdio.h>
#include <string.h>

#include "app/commands.h"
#include "base/err.h"
#include "base/limits.h"
#include "cli/client.h"
#include "cli/options.h"
#include "cli/print.h"

#define PROBLEM_MAX 1200
#define WORD_MAX 80

/* Filters of the list. Each is an option and a query parameter of the same name. */
/* clang-format off */
#define FILTERS(X)                                                                                 \
    X(sale, "N", "only orders of this sale")                                                       \
    X(item, "N", "only orders of this item")                                                       \
    X(user, "N", "only orders of this buyer")                                                      \
    X(status, "STATUS", "QUEUED, LOCKED, PAID, EXPIRED, CANCELLED or FAILED")                      \
    X(limit, "N", "how many at most (50, up to 1000)")                                             \
    X(after, "CURSOR", "go on where an earlier list ended")
/* clang-format on */

enum {
#define X(name, value, help) FILTER_##name,
    FILTERS(X)
#undef X
        FILTER_COUNT
};

static const struct {
    const char *name;
    const char *value;
    const char *help;
} filters[] = {
#define X(name, value, help) {#name, value, help},
    FILTERS(X)
#undef X
};

struct order_options {
    const char *url;
    const char *data;
    const char *filter[FILTER_COUNT]; /* NULL: not given */
    bool json;
    bool help;
    const char *order; /* NULL: a list */
};

static const struct print_column list_columns[] = {
    {"order", "order_id", PRINT_PLAIN},
    {"status", "status", PRINT_PLAIN},
    {"user", "user_id", PRINT_PLAIN},
    {"item", "item_id", PRINT_PLAIN},
    {"qty", "qty", PRINT_PLAIN},
    {"amount", "amount_cents", PRINT_MONEY},
    {"created", "created_at_ms", PRINT_TIME},
    {"reason", "reason", PRINT_PLAIN},
};
static const struct print_column order_members[] = {
    {"order", "order_id", PRINT_PLAIN},
    {"status", "status", PRINT_PLAIN},
    {"reason", "reason", PRINT_PLAIN},
    {"user", "user_id", PRINT_PLAIN},
    {"sale", "sale_id", PRINT_PLAIN},
    {"item", "item_id", PRINT_PLAIN},
    {"qty", "qty", PRINT_PLAIN},
    {"amount", "amount_cents", PRINT_MONEY},
    {"currency", "currency", PRINT_PLAIN},
    {"payment", "payment_id", PRINT_PLAIN},
    {"created", "created_at_ms", PRINT_TIME},
    {"pay by", "pay_by_ms", PRINT_TIME},
};
static const struct print_column history_columns[] = {
    {"at", "at_ms", PRINT_TIME},
    {"status", "status", PRINT_PLAIN},
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void help_print(void)
{
    (void)puts("Usage: sluice order ORDER [options]\n"
               "       sluice order list [options]\n\n"
               "Shows one order with its history, or lists orders: with --user newest\n"
               "first, otherwise by item and order id, downwards.\n\n"
               "Options of the list:");
    for (size_t i = 0; i < FILTER_COUNT; i++) {
        char left[32];
        (void)snprintf(left, sizeof(left), "--%s %s", filters[i].name, filters[i].value);
        (void)printf("  %-16s %s\n", left, filters[i].help);
    }
    (void)puts("\nOptions of both:\n"
               "  --url URL        the server (" CLIENT_URL_DEFAULT ")\n"
               "  --data DIR       where its admin.token is (" CLIENT_DATA_DEFAULT ")\n"
               "  --json           print what the server said\n"
               "  --help           this text\n\n"
               "Exit status: 0 done, 1 refused or failed, 2 usage.");
}

static bool usage(const char *problem)
{
    (void)fprintf(stderr, "sluice order: %s; see sluice order --help\n", problem);
    return false;
}

/* Whether the text needs no escaping in a path or query: ids, numbers, states, cursors. */
static bool is_word(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= WORD_MAX &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~") ==
               len;
}

static bool options_agree(int words, char **word, struct order_options *options)
{
    if (options->help) {
        return true;
    }
    if (words != 1 || !is_word(word[0])) {
        return usage(words == 1 ? "that is not the id of an order"
                                : "the id of one order is needed, or list");
    }
    bool is_list = strcmp(word[0], "list") == 0;
    options->order = is_list ? NULL : word[0];
    for (size_t i = 0; i < FILTER_COUNT; i++) {
        if (options->filter[i] != NULL && (!is_list || !is_word(options->filter[i]))) {
            char problem[96];
            (void)snprintf(problem, sizeof(problem), "--%s %s", filters[i].name,
                           is_list ? "has a wrong value" : "is for the list");
            return usage(problem);
        }
    }
    return true;
}

static bool options_read(int argc, char **argv, struct order_options *options)
{
    const struct cli_option known[] = {
#define X(name, value, help) CLI_TEXT("--" #name, &options->filter[FILTER_##name]),
        FILTERS(X)
#undef X
            CLI_TEXT("--url", &options->url),
        CLI_TEXT("--data", &options->data),
        CLI_FLAG("--json", &options->json),
        CLI_FLAG("--help", &options->help),
    };
    struct cli_words words;
    return cli_options_read(argc, argv, known, COUNT(known), &words) &&
           options_agree(words.count, words.words, options);
}

static void path_make(const struct order_options *options, struct out *path)
{
    out_lit(path, "/v1/admin/orders");
    if (options->order != NULL) {
        out_format(path, "/%s", options->order);
    }
    char separator = '?';
    for (size_t i = 0; i < FILTER_COUNT; i++) {
        if (options->filter[i] != NULL) {
            out_format(path, "%c%s=%s", separator, filters[i].name, options->filter[i]);
            separator = '&';
        }
    }
    out_char(path, '\0');
}

static void answer_print(const struct order_options *options, const json_t *answer)
{
    if (options->json) {
        print_json(answer);
        return;
    }
    if (options->order != NULL) {
        print_members(answer, order_members, COUNT(order_members));
        (void)fputc('\n', stdout);
        print_table(json_object_get(answer, "history"), history_columns, COUNT(history_columns));
        return;
    }
    print_table(json_object_get(answer, "orders"), list_columns, COUNT(list_columns));
    const char *next = json_string_value(json_object_get(answer, "next"));
    if (next != NULL) {
        (void)fprintf(stderr, "there are more: --after %s\n", next);
    }
}

int order_main(int argc, char **argv)
{
    struct order_options options = {.url = CLIENT_URL_DEFAULT, .data = CLIENT_DATA_DEFAULT};
    if (!options_read(argc, argv, &options)) {
        return 2;
    }
    if (options.help) {
        help_print();
        return 0;
    }
    struct client client;
    char problem[PROBLEM_MAX];
    char memory[1024];
    struct out path = out_over(memory, sizeof(memory));
    path_make(&options, &path);
    json_t *answer = NULL;
    int error = client_init(&client, options.url, options.data, problem, sizeof(problem));
    if (error == 0) {
        error = client_call(&client, "GET", memory, span_of(""), &answer, problem, sizeof(problem));
    }
    if (error != 0) {
        (void)fprintf(stderr, "sluice order: %s\n", problem);
        return 1;
    }
    answer_print(&options, answer);
    json_decref(answer);
    return 0;
}
