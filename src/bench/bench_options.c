/*
 * The command line of `sluice bench`. One list has the options, their help and their numbers for
 * getopt_long. Every value is checked here, so the rest may rely on it. Errors are printed to
 * stderr with the name of the option.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/limits.h"
#include "bench/bench.h"

#define CONNECTIONS_MAX 1000000
#define PIPELINE_MAX 1024
#define JOBS_MAX 1000000000ULL

/* clang-format off */
#define OPTIONS(X)                                                                                 \
    X(OPT_URL, "url", "URL", "the server (http://127.0.0.1:8080)")                                 \
    X(OPT_DATA, "data", "DIR", "its data folder: jwt.key, webhook.key, admin.token (./var)")       \
    X(OPT_ITEM, "item", "N", "item to buy; several: repeat it or give a comma list")               \
    X(OPT_USERS, "users", "N", "how many users (1000)")                                            \
    X(OPT_FIRST_USER, "first-user", "N", "id of the first of them (1)")                            \
    X(OPT_ORDERS_PER_USER, "orders-per-user", "K", "attempts of each user (1)")                    \
    X(OPT_QTY, "qty", "Q", "units asked for in each attempt (1)")                                  \
    X(OPT_CONNECTIONS, "connections", "C", "connections kept open (64)")                           \
    X(OPT_THREADS, "threads", "T", "threads of the load tool itself (1)")                          \
    X(OPT_MODE, "mode", "closed|open", "closed: as fast as answers come; open: by --rate (closed)") \
    X(OPT_RATE, "rate", "R", "attempts that arrive in a second, with --mode open")                 \
    X(OPT_DURATION, "duration", "S", "stop starting attempts after S seconds")                     \
    X(OPT_REQUESTS, "requests", "N", "stop after N attempts (with --get, --hammer: requests)")     \
    X(OPT_RESULT, "result", "none|poll", "wait for each order's result by long poll (poll)")       \
    X(OPT_WAIT_MS, "wait-ms", "MS", "how long one long poll may be held (5000)")                   \
    X(OPT_PAY, "pay", "P", "percent of the locked orders that are paid")                           \
    X(OPT_CANCEL, "cancel", "P", "percent of the others that are cancelled")                       \
    X(OPT_DUPLICATES, "duplicates", "P", "percent of buys sent twice at once, on two connections") \
    X(OPT_DROPS, "drops", "P", "percent of buys whose connection is cut, then tried again")        \
    X(OPT_RETRIES, "retries", "N", "retries of a request after 503, 429 or a lost connection (0)") \
    X(OPT_KEEP_GOING, "keep-going", NULL, "keep retrying while the server is down")                \
    X(OPT_PREFETCH, "prefetch", NULL, "take all tickets first, measure the buys only")             \
    X(OPT_HAMMER, "hammer", NULL, "one ticket per connection, bought again and again; the stock "  \
                                  "is sold out first if there are users enough")                   \
    X(OPT_GET, "get", "PATH", "no orders: GET this path again and again")                          \
    X(OPT_PIPELINE, "pipeline", "D", "requests on their way on one connection (1)")                \
    X(OPT_SOURCE_SPREAD, "source-spread", "N", "connect from N addresses, 127.0.1.1 and on")       \
    X(OPT_SEED, "seed", "S", "seed of all chance (1)")                                             \
    X(OPT_TELL, "tell", "FILE", "append clients' answers: order_id user item qty http status")     \
    X(OPT_NO_AUDIT, "no-audit", NULL, "do not compare with the ledger at the end")                 \
    X(OPT_JSON, "json", NULL, "print the result as JSON")                                          \
    X(OPT_HELP, "help", NULL, "this text")
/* clang-format on */

enum option_id {
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
    (void)puts("Usage: sluice bench --item N [options]\n"
               "       sluice bench --get PATH [options]\n\n"
               "Puts a server under the load of a sale (ticket, buy, result for many users) and\n"
               "compares the clients' answers with the ledger. Exit status: 0 all right,\n"
               "1 the audit found something or the run failed, 2 usage.\n");
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char left[48];
        (void)snprintf(left, sizeof(left), "--%s%s%s", lines[i].name,
                       lines[i].value != NULL ? " " : "",
                       lines[i].value != NULL ? lines[i].value : "");
        (void)printf("  %-24s %s\n", left, lines[i].help);
    }
}

static bool say(const char *name, const char *problem)
{
    (void)fprintf(stderr, "sluice bench: --%s: %s\n", name, problem);
    return false;
}

static bool read_u64(const char *name, const char *text, uint64_t min, uint64_t max,
                     uint64_t *ret_value)
{
    uint64_t value = 0;
    if (span_parse_u64(span_of(text), max, &value) != 0 || value < min) {
        char problem[96];
        (void)snprintf(problem, sizeof(problem), "must be a whole number from %llu to %llu",
                       (unsigned long long)min, (unsigned long long)max);
        return say(name, problem);
    }
    *ret_value = value;
    return true;
}

static bool read_u32(const char *name, const char *text, uint32_t min, uint32_t max,
                     uint32_t *ret_value)
{
    uint64_t value = 0;
    if (!read_u64(name, text, min, max, &value)) {
        return false;
    }
    *ret_value = (uint32_t)value;
    return true;
}

static bool read_number(const char *name, const char *text, double max, double *ret_value)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value < 0 || value > max) {
        char problem[96];
        (void)snprintf(problem, sizeof(problem), "must be a number from 0 to %.0f", max);
        return say(name, problem);
    }
    *ret_value = value;
    return true;
}

/* One of two words. */
static bool read_choice(const char *name, const char *text, const char *no, const char *yes,
                        bool *ret_yes)
{
    if (strcmp(text, no) != 0 && strcmp(text, yes) != 0) {
        char problem[96];
        (void)snprintf(problem, sizeof(problem), "must be %s or %s", no, yes);
        return say(name, problem);
    }
    *ret_yes = strcmp(text, yes) == 0;
    return true;
}

static bool read_items(const char *name, const char *text, struct bench_options *options)
{
    for (;;) {
        size_t len = strcspn(text, ",");
        uint64_t item = 0;
        if (span_parse_u64((struct span){text, len}, ID_MAX, &item) != 0 || item == 0) {
            return say(name, "must be an item's id, or several with commas between");
        }
        if (options->item_count == BENCH_ITEMS_MAX) {
            return say(name, "too many items");
        }
        options->items[options->item_count++] = item;
        if (text[len] == '\0') {
            return true;
        }
        text += len + 1;
    }
}

static bool option_apply_numbers(int id, const char *name, const char *value,
                                 struct bench_options *o)
{
    switch (id) {
    case OPT_ITEM:
        return read_items(name, value, o);
    case OPT_USERS:
        return read_u64(name, value, 1, JOBS_MAX, &o->users);
    case OPT_FIRST_USER:
        return read_u64(name, value, 1, ID_MAX - JOBS_MAX, &o->first_user);
    case OPT_ORDERS_PER_USER:
        return read_u64(name, value, 1, JOBS_MAX, &o->orders_per_user);
    case OPT_QTY:
        return read_u32(name, value, 1, (uint32_t)QTY_MAX, &o->qty);
    case OPT_CONNECTIONS:
        return read_u32(name, value, 1, CONNECTIONS_MAX, &o->connections);
    case OPT_THREADS:
        return read_u32(name, value, 1, BENCH_THREADS_MAX, &o->threads);
    case OPT_RATE:
        return read_number(name, value, 1e8, &o->rate);
    case OPT_DURATION:
        return read_number(name, value, 1e6, &o->duration_s);
    case OPT_REQUESTS:
        return read_u64(name, value, 1, UINT64_MAX / 2, &o->requests);
    case OPT_WAIT_MS:
        return read_u32(name, value, 0, WAIT_MAX_MS, &o->wait_ms);
    case OPT_PAY:
        return read_number(name, value, 100, &o->pay_percent);
    case OPT_CANCEL:
        return read_number(name, value, 100, &o->cancel_percent);
    case OPT_DUPLICATES:
        return read_number(name, value, 100, &o->duplicates_percent);
    case OPT_DROPS:
        return read_number(name, value, 100, &o->drops_percent);
    case OPT_RETRIES:
        return read_u32(name, value, 0, 1000000, &o->retries);
    case OPT_PIPELINE:
        return read_u32(name, value, 1, PIPELINE_MAX, &o->pipeline);
    case OPT_SOURCE_SPREAD:
        return read_u32(name, value, 1, 250, &o->source_spread);
    case OPT_SEED:
        return read_u64(name, value, 0, UINT64_MAX, &o->seed);
    default:
        return false;
    }
}

static bool option_apply(int id, const char *name, const char *value, struct bench_options *o)
{
    switch (id) {
    case OPT_URL:
        o->url = value;
        return true;
    case OPT_DATA:
        o->data = value;
        return true;
    case OPT_GET:
        o->get_path = value;
        return value[0] == '/' && strlen(value) < 1024 ? true : say(name, "must begin with /");
    case OPT_TELL:
        o->tell = value;
        return true;
    case OPT_MODE:
        return read_choice(name, value, "closed", "open", &o->open_loop);
    case OPT_RESULT:
        return read_choice(name, value, "none", "poll", &o->poll_result);
    case OPT_KEEP_GOING:
        o->keep_going = true;
        return true;
    case OPT_PREFETCH:
        o->prefetch = true;
        return true;
    case OPT_HAMMER:
        o->hammer = true;
        return true;
    case OPT_NO_AUDIT:
        o->audit = false;
        return true;
    case OPT_JSON:
        o->json = true;
        return true;
    default:
        return option_apply_numbers(id, name, value, o);
    }
}

/* Checks that options go together. */
static bool options_agree(struct bench_options *o)
{
    bool endless = o->hammer || o->get_path != NULL;
    if (o->get_path == NULL && o->item_count == 0) {
        return say("item", "is needed (or --get)");
    }
    if (o->get_path != NULL && (o->hammer || o->prefetch || o->item_count > 0)) {
        return say("get", "buys nothing: leave out --item, --prefetch and --hammer");
    }
    if (o->hammer && o->prefetch) {
        return say("hammer", "takes its tickets first by itself: leave out --prefetch");
    }
    if (o->open_loop != (o->rate > 0)) {
        return say("rate", "belongs to --mode open, and is needed there");
    }
    if (endless && o->open_loop) {
        return say("mode", "open does not go with --hammer or --get");
    }
    if (endless && o->duration_s == 0 && o->requests == 0) {
        o->duration_s = 10;
    }
    if (o->threads > o->connections) {
        return say("threads", "more threads than connections");
    }
    if (o->hammer && o->users < o->connections) {
        return say("users", "a hammer needs one user for each connection at least");
    }
    if (o->users * o->orders_per_user > JOBS_MAX) {
        return say("orders-per-user", "too many attempts in all");
    }
    if (!o->poll_result && (o->pay_percent > 0 || o->cancel_percent > 0)) {
        return say("result", "paying and cancelling need poll");
    }
    if (endless) {
        o->poll_result = false;
    }
    if (o->pipeline > 1 && (o->poll_result || o->duplicates_percent > 0 || o->drops_percent > 0)) {
        return say("pipeline", "does not go with --result poll, --duplicates or --drops");
    }
    return true;
}

enum bench_parsed bench_options_parse(int argc, char **argv, struct bench_options *ret_options)
{
    struct bench_options options = {
        .url = "http://127.0.0.1:8080",
        .data = "./var",
        .users = 1000,
        .first_user = 1,
        .orders_per_user = 1,
        .connections = 64,
        .threads = 1,
        .pipeline = 1,
        .qty = 1,
        .wait_ms = 5000,
        .poll_result = true,
        .audit = true,
        .seed = 1,
    };
    optind = 0; /* getopt was used before: reset it */
    for (;;) {
        int index = 0;
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): no thread has been started yet */
        int id = getopt_long(argc, argv, "", long_options, &index);
        if (id == -1) {
            break;
        }
        if (id == OPT_HELP) {
            help_print();
            return BENCH_HELP_SHOWN;
        }
        if (id == '?' || !option_apply(id, long_options[index].name, optarg, &options)) {
            return BENCH_USAGE;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "sluice bench: unexpected argument: %s\n", argv[optind]);
        return BENCH_USAGE;
    }
    if (!options_agree(&options)) {
        return BENCH_USAGE;
    }
    *ret_options = options;
    return BENCH_RUN;
}
