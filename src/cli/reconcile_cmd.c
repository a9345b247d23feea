/*
 * `sluice reconcile`: asks a running server to compare gate, queue and ledger, and prints every
 * difference. Happy path: options, one call that lasts for two comparisons, a table (or with --json
 * the server's answer).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/commands.h"
#include "cli/client.h"
#include "cli/options.h"
#include "cli/print.h"

#define PROBLEM_MAX 1200
/* Time for two runs with the widest bound, one in progress and our own, and for reading. */
#define SILENCE_S 15000

struct reconcile_command {
    const char *url;
    const char *data;
    bool repair;
    bool json;
    bool help;
};

static const struct print_column columns[] = {
    {"kind", "kind", PRINT_PLAIN},         {"segment", "segment", PRINT_PLAIN},
    {"item", "item_id", PRINT_PLAIN},      {"user", "user_id", PRINT_PLAIN},
    {"order", "order_id", PRINT_PLAIN},    {"found", "found", PRINT_PLAIN},
    {"expected", "expected", PRINT_PLAIN}, {"since", "since_ms", PRINT_TIME},
    {"repaired", "repaired", PRINT_PLAIN},
};

static void help_print(void)
{
    (void)puts("Usage: sluice reconcile [options]\n\n"
               "Compares gate, queue and ledger, twice, and lists every difference that both\n"
               "comparisons show. Takes a little longer than reconcile.bound_s.\n\n"
               "Options:\n"
               "  --url URL    the server (" CLIENT_URL_DEFAULT ")\n"
               "  --data DIR   where its admin.token is (" CLIENT_DATA_DEFAULT ")\n"
               "  --repair     repair what can be repaired\n"
               "  --json       print what the server said\n"
               "  --help       this text\n\n"
               "Exit status: 0 no differences, 1 differences, not sure or failed, 2 usage.");
}

static bool options_read(int argc, char **argv, struct reconcile_command *options)
{
    const struct cli_option known[] = {
        CLI_TEXT("--url", &options->url),       CLI_TEXT("--data", &options->data),
        CLI_FLAG("--repair", &options->repair), CLI_FLAG("--json", &options->json),
        CLI_FLAG("--help", &options->help),
    };
    struct cli_words words;
    if (!cli_options_read(argc, argv, known, sizeof(known) / sizeof(known[0]), &words)) {
        return false;
    }
    if (words.count > 0) {
        (void)fprintf(stderr, "sluice reconcile: unexpected argument: %s\n", words.words[0]);
        return false;
    }
    return true;
}

/* ---- a progress line while the call waits ---- */

struct progress {
    pthread_mutex_t lock;
    pthread_cond_t ends;
    bool ended;
    bool shown;
    pthread_t thread;
};

static void *progress_run(void *context)
{
    struct progress *progress = context;
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    (void)pthread_mutex_lock(&progress->lock);
    for (unsigned seconds = 0; !progress->ended; seconds++) {
        (void)fprintf(stderr, "\rcomparing gate, queue and ledger ... %u s ", seconds);
        until.tv_sec++;
        while (!progress->ended &&
               pthread_cond_timedwait(&progress->ends, &progress->lock, &until) == 0) {
        }
    }
    (void)fputs("\r\033[K", stderr);
    (void)pthread_mutex_unlock(&progress->lock);
    return NULL;
}

static void progress_begin(struct progress *progress)
{
    *progress =
        (struct progress){.lock = PTHREAD_MUTEX_INITIALIZER, .ends = PTHREAD_COND_INITIALIZER};
    progress->shown = isatty(STDERR_FILENO) == 1 &&
                      pthread_create(&progress->thread, NULL, progress_run, progress) == 0;
}

static void progress_end(struct progress *progress)
{
    if (progress->shown) {
        (void)pthread_mutex_lock(&progress->lock);
        progress->ended = true;
        (void)pthread_cond_signal(&progress->ends);
        (void)pthread_mutex_unlock(&progress->lock);
        (void)pthread_join(progress->thread, NULL);
    }
}

/* ---- the call ---- */

static long long number_of(const json_t *answer, const char *key)
{
    return (long long)json_integer_value(json_object_get(answer, key));
}

static void answer_print(const json_t *answer)
{
    const json_t *differences = json_object_get(answer, "differences");
    (void)printf("%lld items, %lld orders, %lld buyers compared; %lld comparisons not sure; "
                 "%lld differences\n",
                 number_of(answer, "items"), number_of(answer, "orders"),
                 number_of(answer, "buyers"), number_of(answer, "unsure"),
                 number_of(answer, "found"));
    if (number_of(answer, "unsure") > 0) {
        (void)printf("Not sure: messages on their way and servers that did not answer were not "
                     "compared. Run "
                     "again.\n");
    }
    if (json_array_size(differences) > 0) {
        (void)fputc('\n', stdout);
        print_table(differences, columns, sizeof(columns) / sizeof(columns[0]));
    }
}

int reconcile_main(int argc, char **argv)
{
    struct reconcile_command options = {.url = CLIENT_URL_DEFAULT, .data = CLIENT_DATA_DEFAULT};
    struct client client;
    struct progress progress;
    char problem[PROBLEM_MAX] = "out of memory";
    json_t *answer = NULL;
    if (!options_read(argc, argv, &options)) {
        return 2;
    }
    if (options.help) {
        help_print();
        return 0;
    }
    int error = client_init(&client, options.url, options.data, problem, sizeof(problem));
    if (error == 0) {
        client.silence_s = SILENCE_S;
        progress_begin(&progress);
        error = client_call(&client, "POST", "/v1/admin/reconcile",
                            span_of(options.repair ? "{\"repair\":true}" : ""), &answer, problem,
                            sizeof(problem));
        progress_end(&progress);
    }
    if (error != 0) {
        (void)fprintf(stderr, "sluice reconcile: %s\n", problem);
        return 1;
    }
    bool clean = number_of(answer, "found") == 0 && number_of(answer, "unsure") == 0;
    if (options.json) {
        print_json(answer);
    } else {
        answer_print(answer);
    }
    json_decref(answer);
    return clean ? 0 : 1;
}
