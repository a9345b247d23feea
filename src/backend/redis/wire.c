/* See wire.h. The socket does not block; every wait is a poll with what is left of the deadline. */
#include "backend/redis/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/err.h"

/* Pauses between connections: 10, 20, 40 ... 1000 ms. */
#define PAUSE_MIN_MS 10
#define PAUSE_MAX_MS 1000
/* One server that does not answer must not take all the time of a call that asks several. */
#define CONNECT_PART 4

static int64_t now_us(const struct wire *wire)
{
    return clock_boot_us(wire->config->clock);
}

static int left_ms(const struct wire *wire, int64_t deadline_us)
{
    int64_t left = deadline_us - now_us(wire);
    return left <= 0 ? 0 : left > INT64_C(60000000) ? 60000 : (int)((left + 999) / 1000);
}

/* False: not by the deadline. */
static bool wait_for(const struct wire *wire, short events, int64_t deadline_us)
{
    struct pollfd fd = {.fd = wire->context->fd, .events = events};
    for (;;) {
        int n = poll(&fd, 1, left_ms(wire, deadline_us));
        if (n > 0) {
            return true;
        }
        if (n == 0 && now_us(wire) >= deadline_us) {
            return false;
        }
        if (n < 0 && errno != EINTR) {
            return false;
        }
    }
}

/* ---- life ---- */

bool wire_leads_to(const struct wire *wire, const struct topology_node *node)
{
    return wire->node.port == node->port && strcmp(wire->node.host, node->host) == 0;
}

void wire_lead(struct wire *wire, struct wire_config *config, const struct topology_node *node)
{
    wire_close(wire, "");
    wire->config = config;
    wire->node = *node;
    wire->pause_ms = 0;
    wire->next_us = INT64_MIN;
}

void wire_close(struct wire *wire, const char *why)
{
    (void)snprintf(wire->trouble, sizeof(wire->trouble), "%s", why);
    if (wire->context != NULL) {
        redisFree(wire->context);
        wire->context = NULL;
    }
}

/* Closed, and not tried again at once. */
static int fail(struct wire *wire, const char *why)
{
    wire_close(wire, why);
    wire->pause_ms = backoff_grow(wire->pause_ms, PAUSE_MIN_MS, PAUSE_MAX_MS);
    wire->next_us = now_us(wire) + wire->pause_ms * 1000;
    return ERR_IO;
}

/* What hiredis says of its connection; copied, because it goes with the connection. */
static int fail_context(struct wire *wire)
{
    char why[REDIS_TEXT_MAX];
    (void)snprintf(why, sizeof(why), "%s",
                   wire->context->err != 0 ? wire->context->errstr : "the connection ended");
    return fail(wire, why);
}

static int connect_now(struct wire *wire, int64_t deadline_us)
{
    char why[REDIS_TEXT_MAX];
    wire->number = ++wire->config->connections;
    wire->context = handshake_connect(wire->node.host, wire->node.port, why);
    if (wire->context == NULL) {
        return fail(wire, why);
    }
    if (!wait_for(wire, POLLOUT, deadline_us)) {
        return fail(wire, "no connection in time");
    }
    return handshake_connected(wire->context, why) ? 0 : fail(wire, why);
}

/* Steps of the handshake from `from` on, before `end`; all are sent before the first answer. */
static int greet(struct wire *wire, enum handshake_step from, enum handshake_step end,
                 int64_t deadline_us)
{
    struct handshake_login login = {wire->config->username, wire->config->password};
    struct handshake_command command;
    bool sent[HANDSHAKE_END] = {false};
    for (int step = (int)from; step < (int)end; step++) {
        sent[step] =
            handshake_command((enum handshake_step)step, &login, wire->config->scripts, &command);
        if (sent[step] && redisAppendCommandArgv(wire->context, command.count, command.words,
                                                 command.lens) != REDIS_OK) {
            return fail(wire, "out of memory");
        }
    }
    int error = wire_flush(wire, deadline_us);
    for (int step = (int)from; error == 0 && step < (int)end; step++) {
        redisReply *reply = NULL;
        if (!sent[step]) {
            continue;
        }
        error = wire_read(wire, deadline_us, &reply);
        if (error == 0) {
            const char *trouble = handshake_answer((enum handshake_step)step, reply, &wire->server);
            error = trouble == NULL ? 0 : fail(wire, trouble);
        }
        freeReplyObject(reply);
    }
    return error;
}

int wire_load(struct wire *wire, int64_t deadline_us)
{
    return greet(wire, HANDSHAKE_LOAD, HANDSHAKE_END, deadline_us);
}

int wire_ready(struct wire *wire, bool scripts, int64_t deadline_us)
{
    int64_t now = now_us(wire);
    if (wire->context != NULL) {
        return 0;
    }
    if (wire->node.host[0] == '\0' || now < wire->next_us || now >= deadline_us) {
        return ERR_IO;
    }
    int64_t until = now + (deadline_us - now + CONNECT_PART - 1) / CONNECT_PART;
    int error = connect_now(wire, until);
    if (error == 0) {
        error = greet(wire, HANDSHAKE_AUTH, scripts ? HANDSHAKE_END : HANDSHAKE_LOAD, until);
    }
    if (error == 0) {
        wire->pause_ms = 0;
        wire->next_us = INT64_MIN;
        wire->trouble[0] = '\0';
    }
    return error;
}

/* ---- commands ---- */

struct redis_words wire_script(const struct wire *wire, enum redis_script script, char *memory,
                               size_t cap)
{
    struct redis_words words = words_over(memory, cap);
    words_put(&words, (struct span){"EVALSHA", 7});
    words_put(&words, (struct span){wire->server.sha[script], REDIS_SHA});
    return words;
}

int wire_put(struct wire *wire, struct redis_words *words)
{
    CHECK(wire->context != NULL);
    struct span command = words_end(words);
    return redisAppendFormattedCommand(wire->context, command.at, command.len) == REDIS_OK
               ? 0
               : fail(wire, "out of memory");
}

int wire_format(struct wire *wire, const char *format, ...)
{
    va_list words;
    CHECK(wire->context != NULL);
    va_start(words, format);
    int status = redisvAppendCommand(wire->context, format, words);
    va_end(words);
    return status == REDIS_OK ? 0 : fail(wire, "out of memory");
}

int wire_flush(struct wire *wire, int64_t deadline_us)
{
    int done = 0;
    if (wire->context == NULL) {
        return ERR_IO;
    }
    while (redisBufferWrite(wire->context, &done) == REDIS_OK) {
        if (done != 0) {
            return 0;
        }
        if (!wait_for(wire, POLLOUT, deadline_us)) {
            return fail(wire, "no answer in time");
        }
    }
    return fail_context(wire);
}

/* ---- answers ---- */

static int next_reply(struct wire *wire, redisReply **ret_reply)
{
    void *reply = NULL;
    if (redisGetReplyFromReader(wire->context, &reply) != REDIS_OK) {
        return fail(wire, "not the answer of a Redis server");
    }
    *ret_reply = reply;
    return reply != NULL ? 0 : ERR_AGAIN;
}

int wire_take(struct wire *wire, redisReply **ret_reply)
{
    if (wire->context == NULL) {
        return ERR_IO;
    }
    int error = next_reply(wire, ret_reply);
    if (error != ERR_AGAIN) {
        return error;
    }
    return redisBufferRead(wire->context) == REDIS_OK ? next_reply(wire, ret_reply)
                                                      : fail_context(wire);
}

int wire_read(struct wire *wire, int64_t deadline_us, redisReply **ret_reply)
{
    for (;;) {
        int error = wire_take(wire, ret_reply);
        if (error != ERR_AGAIN) {
            return error;
        }
        if (!wait_for(wire, POLLIN, deadline_us)) {
            return fail(wire, "no answer in time");
        }
    }
}

enum redis_outcome wire_error(struct wire *wire, const redisReply *reply)
{
    struct span text = reply_text(reply);
    struct redis_error error = error_read(text);
    struct redis_redirect to;
    if (error_redirect(text, wire->node.host, &to) && !to.request) {
        topology_moved(wire->config->topology, to.slot, to.host, to.port);
    }
    if (error.useless) {
        (void)fail(wire, "the server does not take writes any more");
    } else {
        (void)snprintf(wire->trouble, sizeof(wire->trouble), "%.*s", (int)text.len, text.at);
    }
    return error.outcome;
}
