/* See wire.h. The socket does not block; every wait is a poll with what is left of the deadline. */
#include "backend/redis/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

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
    wire->number = ++wire->config->connections;
    wire->context = redisConnectNonBlock(wire->node.host, wire->node.port);
    if (wire->context == NULL) {
        return fail(wire, "out of memory");
    }
    if (wire->context->err != 0) {
        return fail_context(wire);
    }
    int error = 0;
    socklen_t len = sizeof(error);
    if (!wait_for(wire, POLLOUT, deadline_us)) {
        return fail(wire, "no connection in time");
    }
    if (getsockopt(wire->context->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0) {
        char why[REDIS_TEXT_MAX];
        return fail(wire, strerror_r(error, why, sizeof(why)) == 0 ? why : "cannot connect");
    }
    return 0;
}

/* The value of a line "name:value" of INFO; empty: none. */
static struct span info_value(struct span info, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i + len < info.len; i++) {
        if ((i == 0 || info.at[i - 1] == '\n') && memcmp(info.at + i, name, len) == 0) {
            size_t to = i + len;
            while (to < info.len && info.at[to] != '\r' && info.at[to] != '\n') {
                to++;
            }
            return (struct span){info.at + i + len, to - i - len};
        }
    }
    return (struct span){NULL, 0};
}

/* Which server this is, and whether it may decide; the same conditions as link.c has. */
static int read_info(struct wire *wire, struct span info)
{
    struct span run_id = info_value(info, "run_id:");
    if (run_id.len != REDIS_RUN_ID) {
        return fail(wire, "the server tells no run id");
    }
    memcpy(wire->run_id, run_id.at, REDIS_RUN_ID);
    if (!span_is(info_value(info, "role:"), "master")) {
        return fail(wire, "the server is a replica");
    }
    if (!span_is(info_value(info, "maxmemory:"), "0") &&
        !span_is(info_value(info, "maxmemory_policy:"), "noeviction")) {
        return fail(wire, "the server may evict keys (maxmemory-policy is not noeviction)");
    }
    return 0;
}

static int put_greeting(struct wire *wire)
{
    const struct wire_config *config = wire->config;
    int error = 0;
    if (config->password != NULL && config->username != NULL) {
        error = wire_format(wire, "AUTH %s %s", config->username, config->password);
    } else if (config->password != NULL) {
        error = wire_format(wire, "AUTH %s", config->password);
    }
    return error != 0 ? error : wire_format(wire, "INFO");
}

static int greet(struct wire *wire, int64_t deadline_us)
{
    int answers = wire->config->password != NULL ? 2 : 1;
    int error = put_greeting(wire);
    if (error == 0) {
        error = wire_flush(wire, deadline_us);
    }
    while (error == 0 && answers-- > 0) {
        redisReply *reply = NULL;
        error = wire_read(wire, deadline_us, &reply);
        if (error != 0 || reply == NULL) {
            return ERR_IO;
        }
        if (reply->type == REDIS_REPLY_ERROR) {
            error = fail(wire, reply->str);
        } else if (answers == 0) {
            error = read_info(wire, wire_text(reply));
        }
        freeReplyObject(reply);
    }
    return error;
}

int wire_load(struct wire *wire, int64_t deadline_us)
{
    int error = 0;
    for (size_t i = 0; error == 0 && i < SCRIPT_COUNT; i++) {
        struct span text = wire->config->scripts->texts[i];
        error = wire_format(wire, "SCRIPT LOAD %b", text.at, text.len);
    }
    error = error != 0 ? error : wire_flush(wire, deadline_us);
    for (size_t i = 0; error == 0 && i < SCRIPT_COUNT; i++) {
        redisReply *reply = NULL;
        error = wire_read(wire, deadline_us, &reply);
        if (error == 0 && wire_text(reply).len == REDIS_SHA && reply->type == REDIS_REPLY_STRING) {
            memcpy(wire->sha[i], reply->str, REDIS_SHA);
        } else if (error == 0) {
            error =
                fail(wire, reply->type == REDIS_REPLY_ERROR ? reply->str
                                                            : "not the answer of a Redis server");
        }
        freeReplyObject(reply);
    }
    return error;
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
    error = error != 0 ? error : greet(wire, until);
    if (error == 0 && scripts) {
        error = wire_load(wire, until);
    }
    if (error == 0) {
        wire->pause_ms = 0;
        wire->next_us = INT64_MIN;
        wire->trouble[0] = '\0';
    }
    return error;
}

/* ---- commands ---- */

struct redis_words wire_words(char *memory, size_t cap)
{
    struct redis_words words = {.out = out_over(memory, cap)};
    words.out.len = REDIS_WORDS_HEAD;
    return words;
}

struct redis_words wire_script(const struct wire *wire, enum redis_script script, char *memory,
                               size_t cap)
{
    struct redis_words words = wire_words(memory, cap);
    words_put(&words, (struct span){"EVALSHA", 7});
    words_put(&words, (struct span){wire->sha[script], REDIS_SHA});
    return words;
}

int wire_put(struct wire *wire, struct redis_words *words)
{
    char text[REDIS_WORDS_HEAD];
    struct out head = out_over(text, sizeof(text));
    CHECK(!words->out.overflow && wire->context != NULL);
    out_char(&head, '*');
    out_u64(&head, words->count);
    out_lit(&head, "\r\n");
    CHECK(!head.overflow);
    char *from = words->out.at + REDIS_WORDS_HEAD - head.len;
    memcpy(from, text, head.len);
    size_t len = words->out.len - REDIS_WORDS_HEAD + head.len;
    return redisAppendFormattedCommand(wire->context, from, len) == REDIS_OK
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

struct span wire_text(const redisReply *reply)
{
    bool text = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS ||
                reply->type == REDIS_REPLY_ERROR;
    return text && reply->str != NULL ? (struct span){reply->str, reply->len}
                                      : (struct span){"", 0};
}

enum redis_outcome wire_error(struct wire *wire, const redisReply *reply)
{
    struct span text = wire_text(reply);
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
