/*
 * `sluice queue`: lists what waits in the queues on RabbitMQ and what is parked, or sends parked
 * messages again. It talks to the configured broker; no server needs to run. Listing moves nothing.
 * Missing queues are declared.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/commands.h"
#include "app/config.h"
#include "backend/amqp/queue_amqp.h"
#include "base/err.h"
#include "cli/options.h"
#include "cli/print.h"
#include "distributed/message.h"

#define LIST_DEFAULT 50
#define LIMIT_MAX 100000
#define REDRIVE_AT_ONCE 256

static const char help[] =
    "Usage: sluice queue list|redrive [options]\n\n"
    "list shows how many messages wait, and those that are parked: put aside after their last\n"
    "retry, or because they cannot be read. redrive sends parked messages round again, from their\n"
    "first attempt; what was booked already is booked once.\n\n"
    "  --config FILE   read amqp.* from this file\n"
    "  --set SECTION.NAME=VALUE\n"
    "                  set one of them; any number of times\n"
    "  --payments      the queue of payments (amqp.payments); parked are those that were refused,\n"
    "                  each with its reason\n"
    "  --limit N       how many parked messages at most (list: 50; redrive: all there are)\n"
    "  --json          print JSON\n"
    "  --help          this text\n\n"
    "Exit status: 0 done, 1 failed, 2 usage.";

struct queue_options {
    bool redrive;
    bool json;
    bool payments;
    bool help;
    uint64_t limit; /* 0: not given */
    struct config_options config;
};

/* ---- options ---- */

static bool options_read(int argc, char **argv, struct queue_options *options)
{
    const struct cli_option known[] = {
        CLI_TEXT("--config", &options->config.file),       CLI_SETTING("--set", &options->config),
        CLI_NUMBER("--limit", LIMIT_MAX, &options->limit), CLI_FLAG("--json", &options->json),
        CLI_FLAG("--payments", &options->payments),        CLI_FLAG("--help", &options->help),
    };
    struct cli_words words;
    if (!cli_options_read(argc, argv, known, sizeof(known) / sizeof(known[0]), &words)) {
        return false;
    }
    const char *what = words.count == 1 ? words.words[0] : "";
    options->redrive = strcmp(what, "redrive") == 0;
    if (!options->help && !options->redrive && strcmp(what, "list") != 0) {
        (void)fputs("sluice queue: say list or redrive; see sluice queue --help\n", stderr);
        return false;
    }
    return true;
}

/* ---- what is shown ---- */

static const struct print_column message_columns[] = {
    {"order", "order_id", PRINT_PLAIN},       {"user", "user_id", PRINT_PLAIN},
    {"item", "item_id", PRINT_PLAIN},         {"qty", "qty", PRINT_PLAIN},
    {"segment", "segment", PRINT_PLAIN},      {"epoch", "epoch", PRINT_PLAIN},
    {"created", "created_at_ms", PRINT_TIME}, {"attempts", "attempts", PRINT_PLAIN},
    {"unreadable", "text", PRINT_PLAIN},
};
#define MESSAGE_COLUMNS (sizeof(message_columns) / sizeof(message_columns[0]))

static const struct print_column payment_columns[] = {
    {"reason", "reason", PRINT_PLAIN},
    {"attempts", "attempts", PRINT_PLAIN},
    {"payment", "text", PRINT_PLAIN},
};
#define PAYMENT_COLUMNS (sizeof(payment_columns) / sizeof(payment_columns[0]))

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* The decision in the message; otherwise its text or its bytes. */
static json_t *message_json(const struct queue_message *message)
{
    struct span body = {message->body, message->len};
    struct decision decision;
    json_t *json = json_object();
    (void)json_object_set_new(json, "attempts", number(message->attempts));
    if (message->reason[0] != '\0') {
        (void)json_object_set_new(json, "reason", json_string(message->reason));
    }
    if (message_read(body, &decision) == 0) {
        char id[ORDER_ID_TEXT];
        const struct gate_command *command = &decision.command;
        order_id_text(command->id, id);
        (void)json_object_set_new(json, "order_id", json_stringn(id, sizeof(id)));
        (void)json_object_set_new(json, "user_id", number(command->user));
        (void)json_object_set_new(json, "item_id", number(command->item));
        (void)json_object_set_new(json, "qty", number(command->qty));
        (void)json_object_set_new(json, "segment", number(decision.segment));
        (void)json_object_set_new(json, "epoch", number(decision.epoch));
        (void)json_object_set_new(json, "created_at_ms", number((uint64_t)command->now_ms));
    } else if (span_is_utf8(body) && memchr(body.at, '\0', body.len) == NULL) {
        (void)json_object_set_new(json, "text", json_stringn(body.at, body.len));
    } else {
        char text[QUEUE_BODY_MAX * 4 / 3 + 4];
        base64url_encode(body.at, body.len, text);
        (void)json_object_set_new(json, "text", json_stringn(text, base64url_len(body.len)));
        (void)json_object_set_new(json, "base64url", json_true());
    }
    return json;
}

static void add_messages(json_t *list, const struct queue_message *messages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(list, message_json(&messages[i]));
    }
}

static void show(const struct queue_options *options, const char *queue,
                 const struct queue_depths *depths, json_t *messages)
{
    size_t shown = json_array_size(messages);
    if (options->json) {
        json_t *json = json_object();
        (void)json_object_set_new(json, "queue", json_string(queue));
        (void)json_object_set_new(json, "ready", number(depths->ready));
        (void)json_object_set_new(json, "retry", number(depths->retry));
        (void)json_object_set_new(json, "parked", number(depths->parked));
        if (options->redrive) {
            (void)json_object_set_new(json, "sent", number(shown));
        }
        (void)json_object_set(json, "messages", messages);
        print_json(json);
        json_decref(json);
        return;
    }
    if (options->redrive) {
        (void)printf("%zu sent round again\n", shown);
    }
    (void)printf("%s: %" PRIu64 " ready, %" PRIu64 " waiting for a retry, %" PRIu64 " parked\n",
                 queue, depths->ready, depths->retry, depths->parked);
    if (shown > 0) {
        (void)putchar('\n');
        print_table(messages, options->payments ? payment_columns : message_columns,
                    options->payments ? PAYMENT_COLUMNS : MESSAGE_COLUMNS);
    }
}

/* ---- the broker ---- */

static int list_parked(struct queue *queue, uint64_t limit, json_t *messages)
{
    struct queue_message *room = calloc(limit, sizeof(*room));
    size_t count = 0;
    int error = room == NULL ? ERR_NOMEM : queue_parked(queue, room, limit, false, &count);
    if (error == 0) {
        add_messages(messages, room, count);
    }
    free(room);
    return error;
}

/* Sends at most as many as there were at the start: messages parked again meanwhile wait for the
 * next run. */
static int redrive_parked(struct queue *queue, uint64_t limit, json_t *messages)
{
    struct queue_message *room = calloc(REDRIVE_AT_ONCE, sizeof(*room));
    int error = room == NULL ? ERR_NOMEM : 0;
    while (error == 0 && limit > 0) {
        size_t count = 0;
        error = queue_parked(queue, room, limit < REDRIVE_AT_ONCE ? limit : REDRIVE_AT_ONCE, true,
                             &count);
        if (error != 0 || count == 0) {
            break;
        }
        add_messages(messages, room, count);
        limit -= count;
    }
    free(room);
    return error;
}

static int talk(const struct queue_options *options, const char *name, struct queue *queue)
{
    struct queue_depths depths = {0};
    json_t *messages = json_array();
    int error = queue_depths(queue, &depths);
    if (error == 0 && options->redrive) {
        bool all = options->limit == 0 || options->limit > depths.parked;
        error = redrive_parked(queue, all ? depths.parked : options->limit, messages);
        error = error != 0 ? error : queue_depths(queue, &depths);
    } else if (error == 0) {
        error = list_parked(queue, options->limit == 0 ? LIST_DEFAULT : options->limit, messages);
        /* The broker's counts lag; use at least what was listed. */
        uint64_t seen = json_array_size(messages);
        depths.parked = seen > depths.parked ? seen : depths.parked;
    }
    size_t done = json_array_size(messages);
    if (error == 0) {
        show(options, name, &depths, messages);
    } else if (options->redrive && done > 0) {
        (void)fprintf(stderr, "sluice queue: %zu were sent round again before it failed\n", done);
    }
    json_decref(messages);
    return error;
}

static int run(const struct queue_options *options)
{
    struct config config;
    char problem[CONFIG_ERROR_MAX] = "";
    struct queue *queue = NULL;
    if (config_load(&options->config, &config, problem, sizeof(problem)) != 0) {
        (void)fprintf(stderr, "sluice queue: %s\n", problem);
        return 1;
    }
    if (config.amqp_url[0] == '\0') {
        (void)fputs("sluice queue: no queue is configured: amqp.url is empty\n", stderr);
        return 1;
    }
    const char *name = options->payments ? config.amqp_payments : config.amqp_queue;
    char refused[sizeof(config.amqp_payments) + sizeof(".refused")] = "";
    if (name[0] == '\0') {
        (void)fputs("sluice queue: no payments come from a queue: amqp.payments is empty\n",
                    stderr);
        return 1;
    }
    if (options->payments) {
        (void)snprintf(refused, sizeof(refused), "%s.refused", name);
    }
    struct queue_amqp_options wanted = {.url = config.amqp_url,
                                        .password_file = config.amqp_password_file,
                                        .exchange = name,
                                        .queue = name,
                                        .parked = refused,
                                        .classic = config.amqp_quorum == 0};
    int error = queue_amqp_open(&wanted, QUEUE_AMQP_CONSUMER, &queue);
    error = error != 0 ? error : talk(options, name, queue);
    if (error != 0) {
        const char *text = queue_amqp_error(queue);
        (void)fprintf(stderr, "sluice queue: %s\n", text[0] != '\0' ? text : err_text(error));
    }
    queue_amqp_close(queue);
    return error == 0 && fflush(stdout) == 0 ? 0 : 1;
}

int queue_main(int argc, char **argv)
{
    struct queue_options options = {
        .config.overrides = calloc((size_t)argc + 1, sizeof(*options.config.overrides))};
    if (options.config.overrides == NULL) {
        (void)fprintf(stderr, "sluice queue: %s\n", err_text(ERR_NOMEM));
        return 1;
    }
    int status = 2;
    if (options_read(argc, argv, &options)) {
        status = 0;
        if (options.help) {
            (void)puts(help);
        } else {
            status = run(&options);
        }
    }
    config_options_done(&options.config);
    return status;
}
