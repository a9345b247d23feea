/*
 * `sluice token`: prints the operator's token, or makes a buyer's token with the first key of
 * jwt.key, as the shop's login would.
 */
#include <stdio.h>
#include <time.h>

#include "app/commands.h"
#include "app/secrets.h"
#include "base/err.h"
#include "base/limits.h"
#include "cli/options.h"
#include "cli/print.h"

#define TTL_DEFAULT_S 86400
#define TTL_MAX_S 315360000 /* ten years */

struct token_options {
    const char *data;
    bool admin;
    bool json;
    bool help;
    uint64_t user; /* 0: not given */
    uint64_t ttl_s;
};

static const char help[] =
    "Usage: sluice token --user N [--ttl SECONDS] [--data DIR] [--json]\n"
    "       sluice token --admin [--data DIR] [--json]\n\n"
    "Prints a buyer's token (a JWT, HS256, signed with the first key of DIR/jwt.key), or the\n"
    "operator's token.\n\n"
    "  --user N        the buyer's id\n"
    "  --ttl SECONDS   how long the token is good for (86400)\n"
    "  --admin         the operator's token instead\n"
    "  --data DIR      the server's data folder (./var)\n"
    "  --json          as JSON, a buyer's with its user_id and expires_at_ms\n"
    "  --help          this text\n\n"
    "Exit status: 0 printed, 1 failed, 2 usage.";

static bool options_read(int argc, char **argv, struct token_options *options)
{
    const struct cli_option known[] = {
        CLI_NUMBER("--user", ID_MAX, &options->user),
        CLI_NUMBER("--ttl", TTL_MAX_S, &options->ttl_s),
        CLI_FLAG("--admin", &options->admin),
        CLI_TEXT("--data", &options->data),
        CLI_FLAG("--json", &options->json),
        CLI_FLAG("--help", &options->help),
    };
    struct cli_words words;
    if (!cli_options_read(argc, argv, known, sizeof(known) / sizeof(known[0]), &words)) {
        return false;
    }
    if (!options->help && (words.count > 0 || options->admin == (options->user != 0))) {
        (void)fputs("sluice token: give --user N or --admin; see sluice token --help\n", stderr);
        return false;
    }
    return true;
}

static void token_print(const struct token_options *options, const char *token, int64_t expires_s)
{
    if (!options->json) {
        (void)puts(token);
        return;
    }
    json_t *json = json_pack("{s:s}", "token", token);
    if (!options->admin) {
        (void)json_object_set_new(json, "user_id", json_integer((json_int_t)options->user));
        (void)json_object_set_new(json, "expires_at_ms", json_integer(expires_s * 1000));
    }
    print_json(json);
    json_decref(json);
}

int token_main(int argc, char **argv)
{
    struct token_options options = {.data = "./var", .ttl_s = TTL_DEFAULT_S};
    if (!options_read(argc, argv, &options)) {
        return 2;
    }
    if (options.help) {
        (void)puts(help);
        return 0;
    }
    char problem[SECRETS_ERROR_MAX];
    if (options.admin) {
        char token[ADMIN_TOKEN_MAX + 1];
        if (secrets_admin_token(options.data, token, problem, sizeof(problem)) != 0) {
            (void)fprintf(stderr, "sluice token: %s\n", problem);
            return 1;
        }
        token_print(&options, token, 0);
        return 0;
    }
    struct secrets secrets;
    if (crypt_start() != 0) {
        (void)fputs("sluice token: the system gives no randomness\n", stderr);
        return 1;
    }
    if (secrets_load(options.data, false, &secrets, problem, sizeof(problem)) != 0) {
        (void)fprintf(stderr, "sluice token: %s\n", problem);
        return 1;
    }
    char token[TOKEN_MAX_BYTES + 1];
    int64_t expires_s = (int64_t)time(NULL) + (int64_t)options.ttl_s;
    size_t len = token_sign(&secrets.token_keys.keys[0], options.user, expires_s, token);
    token[len] = '\0';
    token_print(&options, token, expires_s);
    return 0;
}
