/* See discover.h. */
#include "backend/redis/discover.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

#include "backend/redis/handshake.h"
#include "backend/redis/slot.h"
#include "base/err.h"

/* ---- asking ---- */

void discover_close(struct discover_door *door)
{
    if (door->context != NULL) {
        redisFree(door->context);
        door->context = NULL;
    }
}

static int fail(struct discover_door *door, const char *what, char *ret_why)
{
    (void)snprintf(ret_why, TOPOLOGY_TEXT_MAX, "%.100s:%u: %.100s", door->seed.host,
                   door->seed.port, what);
    discover_close(door);
    return ERR_IO;
}

/* The reply, which the caller frees; NULL: the door is closed. An error reply is an error, too. */
static redisReply *request(struct discover_door *door, int words, const char **text, char *ret_why)
{
    redisReply *reply = redisCommandArgv(door->context, words, text, NULL);
    if (reply == NULL) {
        (void)fail(door, door->context->errstr, ret_why);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        (void)fail(door, reply->str, ret_why);
        freeReplyObject(reply);
        reply = NULL;
    }
    return reply;
}

static int enter(struct discover_door *door, const struct discover_login *login, char *ret_why)
{
    if (door->context != NULL) {
        return 0;
    }
    struct timeval timeout = {.tv_sec = login->timeout_ms / 1000,
                              .tv_usec = (suseconds_t)(login->timeout_ms % 1000) * 1000};
    door->context = redisConnectWithTimeout(door->seed.host, door->seed.port, timeout);
    if (door->context == NULL) {
        return ERR_NOMEM;
    }
    if (door->context->err != 0 || redisSetTimeout(door->context, timeout) != REDIS_OK) {
        return fail(door, door->context->errstr, ret_why);
    }
    struct handshake_login auth = {login->user[0] != '\0' ? login->user : NULL,
                                   login->password[0] != '\0' ? login->password : NULL};
    struct handshake_command command;
    if (!handshake_command(HANDSHAKE_AUTH, &auth, NULL, &command)) {
        return 0;
    }
    redisReply *reply = request(door, command.count, command.words, ret_why);
    if (reply == NULL) {
        return ERR_IO;
    }
    freeReplyObject(reply);
    return 0;
}

int discover_resolve(const char *host, char ret_host[REDIS_HOST_MAX])
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char text[REDIS_HOST_MAX] = "";
    if (getaddrinfo(host, NULL, &hints, &found) != 0) {
        return ERR_NOTFOUND;
    }
    for (struct addrinfo *one = found; one != NULL && text[0] == '\0'; one = one->ai_next) {
        (void)getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof(text), NULL, 0,
                          NI_NUMERICHOST);
    }
    freeaddrinfo(found);
    if (text[0] == '\0') {
        return ERR_NOTFOUND;
    }
    memcpy(ret_host, text, sizeof(text));
    return 0;
}

uint8_t discover_node(struct discover_view *view, const char *host, uint16_t port)
{
    for (uint32_t i = 0; i < view->node_count; i++) {
        if (view->nodes[i].port == port && strcmp(view->nodes[i].host, host) == 0) {
            return (uint8_t)i;
        }
    }
    if (view->node_count == TOPOLOGY_NODES_MAX) {
        return NO_NODE;
    }
    struct topology_node *node = &view->nodes[view->node_count];
    *node = (struct topology_node){.port = port};
    (void)snprintf(node->host, sizeof(node->host), "%s", host);
    return (uint8_t)view->node_count++;
}

static bool is_port(long long number)
{
    return number > 0 && number <= UINT16_MAX;
}

/* ---- Sentinel ---- */

/* The value behind a name in a flat list of names and values. */
static struct span field_of(const redisReply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        if (span_is(reply_text(reply->element[i]), name)) {
            return reply_text(reply->element[i + 1]);
        }
    }
    return (struct span){"", 0};
}

/*
 * Two questions: the address while a failover is under way is in the one, the epoch that tells which
 * of two Sentinels knows more is in the other. Epoch first: an address that is newer than its epoch
 * is only corrected later, never kept against better knowledge.
 */
int discover_sentinel(struct discover_door *door, const struct discover_login *login,
                      const char *master, struct discover_view *ret_view,
                      char ret_why[TOPOLOGY_TEXT_MAX])
{
    const char *about[] = {"SENTINEL", "MASTER", master};
    const char *where[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", master};
    struct discover_view view = {.sound = true};
    char host[REDIS_HOST_MAX];
    uint64_t port = 0;
    int error = enter(door, login, ret_why);
    if (error != 0) {
        return error;
    }
    redisReply *reply = request(door, 3, about, ret_why);
    if (reply == NULL) {
        return ERR_IO;
    }
    bool told = span_parse_u64(field_of(reply, "config-epoch"), UINT64_MAX, &view.epoch) == 0;
    freeReplyObject(reply);
    reply = told ? request(door, 3, where, ret_why) : NULL;
    if (reply == NULL) {
        return told ? ERR_IO : fail(door, "not the answer of a Sentinel", ret_why);
    }
    told = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           span_parse_u64(reply_text(reply->element[1]), UINT16_MAX, &port) == 0 && port > 0 &&
           discover_resolve(reply_text(reply->element[0]).at, host) == 0;
    freeReplyObject(reply);
    if (!told) {
        return fail(door, "the Sentinel names no master that can be found", ret_why);
    }
    (void)discover_node(&view, host, (uint16_t)port);
    memset(view.owner, 0, sizeof(view.owner));
    *ret_view = view;
    return 0;
}

/* ---- Cluster ---- */

static bool is_run(const redisReply *run)
{
    return run->type == REDIS_REPLY_ARRAY && run->elements >= 3 &&
           run->element[0]->type == REDIS_REPLY_INTEGER &&
           run->element[1]->type == REDIS_REPLY_INTEGER &&
           run->element[2]->type == REDIS_REPLY_ARRAY && run->element[2]->elements >= 2 &&
           run->element[2]->element[1]->type == REDIS_REPLY_INTEGER &&
           is_port(run->element[2]->element[1]->integer);
}

/* The segments whose slots are in the run, as bits. */
static uint64_t run_segments(const redisReply *run)
{
    uint64_t segments = 0;
    for (uint32_t i = 0; i < SEGMENTS_MAX; i++) {
        uint32_t slot = slot_of(span_of(slot_tag(i)));
        if (slot >= run->element[0]->integer && slot <= run->element[1]->integer) {
            segments |= 1ULL << i;
        }
    }
    return segments;
}

/* Puts the master of one run of slots into the view. */
static void take_run(struct discover_view *view, const struct discover_door *door,
                     const redisReply *run, uint64_t segments)
{
    /* No host: the one that was asked, by the name it was asked by. */
    struct span named = reply_text(run->element[2]->element[0]);
    const char *host = named.len == 0 || span_is(named, "?") ? door->seed.host : named.at;
    char numeric[REDIS_HOST_MAX];
    if (discover_resolve(host, numeric) != 0) {
        return; /* nobody can reach it: its slots are nobody's */
    }
    uint8_t node = discover_node(view, numeric, (uint16_t)run->element[2]->element[1]->integer);
    for (uint32_t i = 0; i < SEGMENTS_MAX; i++) {
        view->owner[i] = (segments >> i & 1) != 0 ? node : view->owner[i];
    }
}

/* Those of segments first: for them there is always room. False: this is no cluster's answer. */
static bool take_slots(struct discover_view *view, const struct discover_door *door,
                       const redisReply *slots)
{
    if (slots->type != REDIS_REPLY_ARRAY || slots->elements == 0) {
        return false;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < slots->elements; i++) {
            if (!is_run(slots->element[i])) {
                return false;
            }
            uint64_t segments = run_segments(slots->element[i]);
            if ((segments != 0) == (pass == 0)) {
                take_run(view, door, slots->element[i], segments);
            }
        }
    }
    return true;
}

int discover_cluster(struct discover_door *door, const struct discover_login *login,
                     struct discover_view *ret_view, char ret_why[TOPOLOGY_TEXT_MAX])
{
    const char *info[] = {"CLUSTER", "INFO"};
    const char *slots[] = {"CLUSTER", "SLOTS"};
    struct discover_view view = {.epoch = 0};
    memset(view.owner, NO_NODE, sizeof(view.owner));
    int error = enter(door, login, ret_why);
    if (error != 0) {
        return error;
    }
    redisReply *reply = request(door, 2, info, ret_why);
    if (reply == NULL) {
        return ERR_IO;
    }
    (void)span_parse_u64(info_value(reply_text(reply), "cluster_current_epoch:"), UINT64_MAX,
                         &view.epoch);
    view.sound = strstr(reply_text(reply).at, "cluster_state:ok") != NULL;
    freeReplyObject(reply);
    reply = request(door, 2, slots, ret_why);
    if (reply == NULL) {
        return ERR_IO;
    }
    bool told = take_slots(&view, door, reply);
    freeReplyObject(reply);
    if (!told) {
        return fail(door, "the node knows of no slots", ret_why);
    }
    *ret_view = view;
    return 0;
}
