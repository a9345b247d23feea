/* See handshake.h. */
#include "backend/redis/handshake.h"

#include <stdio.h>
#include <sys/socket.h>

#include "base/check.h"

redisContext *handshake_connect(const char *host, uint16_t port, char ret_why[REDIS_TEXT_MAX])
{
    redisContext *context = redisConnectNonBlock(host, port);
    if (context == NULL) {
        (void)snprintf(ret_why, REDIS_TEXT_MAX, "out of memory");
    } else if (context->err != 0) {
        (void)snprintf(ret_why, REDIS_TEXT_MAX, "%s", context->errstr);
        redisFree(context);
        context = NULL;
    }
    return context;
}

bool handshake_connected(const redisContext *context, char ret_why[REDIS_TEXT_MAX])
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(context->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0) {
        return true;
    }
    if (strerror_r(error, ret_why, REDIS_TEXT_MAX) != 0) {
        (void)snprintf(ret_why, REDIS_TEXT_MAX, "cannot connect");
    }
    return false;
}

static void put_word(struct handshake_command *command, struct span word)
{
    command->words[command->count] = word.at;
    command->lens[command->count++] = word.len;
}

bool handshake_command(enum handshake_step step, const struct handshake_login *login,
                       const struct redis_scripts *scripts, struct handshake_command *ret_command)
{
    *ret_command = (struct handshake_command){0};
    if (step == HANDSHAKE_AUTH) {
        if (login->password == NULL) {
            return false;
        }
        put_word(ret_command, span_of("AUTH"));
        if (login->username != NULL) {
            put_word(ret_command, span_of(login->username));
        }
        put_word(ret_command, span_of(login->password));
    } else if (step == HANDSHAKE_INFO) {
        put_word(ret_command, span_of("INFO"));
    } else {
        CHECK(step < HANDSHAKE_END);
        put_word(ret_command, span_of("SCRIPT"));
        put_word(ret_command, span_of("LOAD"));
        put_word(ret_command, scripts->texts[step - HANDSHAKE_LOAD]);
    }
    return true;
}

struct span reply_text(const redisReply *reply)
{
    bool text = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS ||
                reply->type == REDIS_REPLY_ERROR;
    return text && reply->str != NULL ? (struct span){reply->str, reply->len}
                                      : (struct span){"", 0};
}

struct span info_value(struct span info, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i + len < info.len; i++) {
        if ((i == 0 || info.at[i - 1] == '\n') && memcmp(info.at + i, name, len) == 0) {
            size_t from = i + len;
            size_t to = from;
            while (to < info.len && info.at[to] != '\r' && info.at[to] != '\n') {
                to++;
            }
            return (struct span){info.at + from, to - from};
        }
    }
    return (struct span){NULL, 0};
}

/* NULL: this server may decide. */
static const char *read_info(struct span info, struct handshake_server *server)
{
    struct span run_id = info_value(info, "run_id:");
    if (run_id.len != REDIS_RUN_ID) {
        return "the server tells no run id";
    }
    memcpy(server->run_id, run_id.at, REDIS_RUN_ID);
    if (!span_is(info_value(info, "role:"), "master")) {
        return "the server is a replica";
    }
    if (!span_is(info_value(info, "maxmemory:"), "0") &&
        !span_is(info_value(info, "maxmemory_policy:"), "noeviction")) {
        return "the server may evict keys (maxmemory-policy is not noeviction)";
    }
    return NULL;
}

const char *handshake_answer(enum handshake_step step, const redisReply *reply,
                             struct handshake_server *server)
{
    struct span text = reply_text(reply);
    if (reply->type == REDIS_REPLY_ERROR) {
        return reply->str;
    }
    if (step == HANDSHAKE_INFO) {
        return read_info(text, server);
    }
    if (step >= HANDSHAKE_LOAD) {
        if (reply->type != REDIS_REPLY_STRING || text.len != REDIS_SHA) {
            return "not the answer of a Redis server";
        }
        memcpy(server->sha[step - HANDSHAKE_LOAD], text.at, REDIS_SHA);
    }
    return NULL;
}
