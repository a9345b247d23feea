/* See link.h. hiredis has the socket, the buffers and the protocol; what is in flight, and when to
 * give up, is here. */
#include "backend/redis/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/err.h"
#include "base/prng.h"

/* A call's words: five keys of a prefix, a tag and two ids, and fifteen numbers. */
#define WORDS_BYTES 2048
/* A call whose script Redis keeps forgetting. */
#define TRIES_MAX 4

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_GREETING, LINK_READY };

/* What the link itself asks: the steps of the handshake, and WAIT. One op for each. */
enum { OWN_WAIT = HANDSHAKE_END, OWN_COUNT };

struct redis_link {
    struct link_config config;
    redisContext *context; /* NULL: down */
    enum link_state state;
    struct redis_op *first; /* in flight, in the order of their answers */
    struct redis_op **last;
    uint32_t in_flight;
    struct redis_op *held; /* answered, until the WAIT under way is, oldest first */
    struct redis_op **held_end;
    bool waiting;     /* a WAIT is under way */
    bool ending;      /* link_free */
    bool unsent;      /* the output buffer has something */
    bool wants_out;   /* epoll tells when it can be written */
    int64_t next_us;  /* DOWN: when to try; CONNECTING, GREETING: when to give up */
    int64_t now_us;   /* of the event being handled */
    int64_t pause_ms; /* before the last try to connect; 0: it led to a ready link */
    struct prng prng;
    bool loading[SCRIPT_COUNT];
    struct handshake_server server;
    struct redis_op own[OWN_COUNT];
    char trouble[REDIS_TEXT_MAX];
    struct link_numbers numbers;
};

/* ---- words ---- */

struct redis_words words_over(char *memory, size_t cap)
{
    struct redis_words words = {.out = out_over(memory, cap)};
    words.out.len = REDIS_WORDS_HEAD;
    return words;
}

void words_put(struct redis_words *words, struct span word)
{
    out_char(&words->out, '$');
    out_u64(&words->out, word.len);
    out_lit(&words->out, "\r\n");
    out_put(&words->out, word);
    out_lit(&words->out, "\r\n");
    words->count++;
}

void words_u64(struct redis_words *words, uint64_t value)
{
    char text[24];
    struct out out = out_over(text, sizeof(text));
    out_u64(&out, value);
    words_put(words, out_span(&out));
}

void words_i64(struct redis_words *words, int64_t value)
{
    char text[24];
    struct out out = out_over(text, sizeof(text));
    out_i64(&out, value);
    words_put(words, out_span(&out));
}

struct span words_end(struct redis_words *words)
{
    char text[REDIS_WORDS_HEAD];
    struct out head = out_over(text, sizeof(text));
    CHECK(!words->out.overflow);
    out_char(&head, '*');
    out_u64(&head, words->count);
    out_lit(&head, "\r\n");
    CHECK(!head.overflow);
    char *from = words->out.at + REDIS_WORDS_HEAD - head.len;
    memcpy(from, text, head.len);
    return (struct span){from, words->out.len - REDIS_WORDS_HEAD + head.len};
}

/* ---- life of a connection ---- */

static void watch(struct redis_link *link, int operation, bool out)
{
    struct epoll_event event = {.events = EPOLLIN | (out ? EPOLLOUT : 0U), .data.ptr = link};
    CHECK(epoll_ctl(link->config.epoll, operation, link->context->fd, &event) == 0);
    link->wants_out = out;
}

static struct redis_op *pop(struct redis_link *link)
{
    struct redis_op *op = link->first;
    link->first = op->next;
    if (link->first == NULL) {
        link->last = &link->first;
    }
    link->in_flight--;
    op->next = NULL;
    return op;
}

static bool is_own(const struct redis_link *link, const struct redis_op *op)
{
    return op >= link->own && op < link->own + OWN_COUNT;
}

static void tell(struct redis_link *link, struct redis_op *op, enum redis_outcome outcome)
{
    link->config.owner.done(link->config.owner.context, op, outcome, (struct span){NULL, 0});
}

static void suspect(struct redis_link *link)
{
    if (link->config.router.context != NULL && !link->ending) {
        link->config.router.suspect(link->config.router.context, link);
    }
}

/* Lets go of the answers that waited for replicas. */
static void release(struct redis_link *link, bool enough)
{
    struct redis_op *op = link->held;
    link->held = NULL;
    link->held_end = &link->held;
    while (op != NULL) {
        struct redis_op *next = op->next;
        redisReply *reply = op->held;
        op->next = NULL;
        op->held = NULL;
        if (enough) {
            link->config.owner.done(link->config.owner.context, op, REDIS_ANSWERED,
                                    (struct span){reply->str, reply->len});
        } else {
            tell(link, op, REDIS_NOT_KNOWN);
        }
        freeReplyObject(reply);
        op = next;
    }
}

/* Ends the connection, if there is one, and sets the time of the next. */
static void lose(struct redis_link *link, const char *why)
{
    (void)snprintf(link->trouble, sizeof(link->trouble), "%s", why);
    link->numbers.losses += link->state == LINK_READY;
    link->state = LINK_DOWN;
    if (link->context != NULL) {
        redisFree(link->context); /* closes the socket, so epoll forgets it too */
        link->context = NULL;
    }
    link->unsent = false;
    link->pause_ms =
        backoff_grow(link->pause_ms, link->config.retry_min_ms, link->config.retry_max_ms);
    link->next_us = link->now_us + backoff_jitter(link->pause_ms * 1000, &link->prng);
    link->waiting = false;
    release(link, false);
    while (link->first != NULL) {
        struct redis_op *op = pop(link);
        if (!is_own(link, op)) {
            tell(link, op, REDIS_NOT_KNOWN);
        }
    }
    suspect(link);
}

/* Into the output buffer, and behind the others in flight. False: the link was lost. */
static bool append(struct redis_link *link, struct redis_op *op, struct span command)
{
    if (redisAppendFormattedCommand(link->context, command.at, command.len) != REDIS_OK) {
        lose(link, "out of memory");
        return false;
    }
    op->next = NULL;
    op->since_us = link->now_us;
    *link->last = op;
    link->last = &op->next;
    link->in_flight++;
    link->unsent = true;
    return true;
}

static bool ask_own(struct redis_link *link, int what, const struct handshake_command *words)
{
    char *command = NULL;
    int len =
        redisFormatCommandArgv(&command, words->count, (const char **)words->words, words->lens);
    if (len < 0) {
        lose(link, "out of memory");
        return false;
    }
    bool done = append(link, &link->own[what], (struct span){command, (size_t)len});
    redisFreeCommand(command);
    return done;
}

/* True also if the step is not needed. */
static bool ask_step(struct redis_link *link, enum handshake_step step)
{
    struct handshake_login login = {link->config.username, link->config.password};
    struct handshake_command command;
    if (!handshake_command(step, &login, link->config.scripts, &command)) {
        return true;
    }
    if (step >= HANDSHAKE_LOAD) {
        link->loading[step - HANDSHAKE_LOAD] = true;
    }
    return ask_own(link, (int)step, &command);
}

static void greet(struct redis_link *link)
{
    bool done = true;
    link->state = LINK_GREETING;
    memset(link->loading, 0, sizeof(link->loading));
    for (int step = 0; done && step < HANDSHAKE_END; step++) {
        done = ask_step(link, (enum handshake_step)step);
    }
    if (done) {
        link_flush(link);
    }
}

static void start(struct redis_link *link)
{
    char why[REDIS_TEXT_MAX];
    link->numbers.connects++;
    link->context = handshake_connect(link->config.host, link->config.port, why);
    if (link->context == NULL) {
        lose(link, why);
        return;
    }
    link->state = LINK_CONNECTING;
    link->next_us = link->now_us + (int64_t)link->config.connect_timeout_ms * 1000;
    watch(link, EPOLL_CTL_ADD, true);
}

static void connected(struct redis_link *link)
{
    char why[REDIS_TEXT_MAX];
    if (handshake_connected(link->context, why)) {
        greet(link);
    } else {
        lose(link, why);
    }
}

/* ---- answers ---- */

static void wait_answer(struct redis_link *link, const redisReply *reply)
{
    bool enough = reply->type == REDIS_REPLY_INTEGER &&
                  reply->integer >= (long long)link->config.wait_replicas;
    link->numbers.waits_short += !enough;
    link->waiting = false;
    release(link, enough);
}

static void own_answer(struct redis_link *link, const struct redis_op *op, const redisReply *reply)
{
    int what = (int)(op - link->own);
    if (what == OWN_WAIT) {
        wait_answer(link, reply);
        return;
    }
    const char *trouble = handshake_answer((enum handshake_step)what, reply, &link->server);
    if (trouble != NULL) {
        lose(link, trouble);
        return;
    }
    if (what >= HANDSHAKE_LOAD) {
        link->loading[what - HANDSHAKE_LOAD] = false;
    }
    if (link->state == LINK_GREETING && what == HANDSHAKE_END - 1) {
        link->state = LINK_READY;
        link->pause_ms = 0;
    }
}

static bool append_call(struct redis_link *link, struct redis_op *op)
{
    static const char req[] = "*1\r\n$6\r\nASKING\r\n";
    if (op->req && redisAppendFormattedCommand(link->context, req, sizeof(req) - 1) != REDIS_OK) {
        lose(link, "out of memory");
        return false;
    }
    op->preceded = op->req;
    char memory[WORDS_BYTES];
    struct redis_words words = words_over(memory, sizeof(memory));
    words_put(&words, (struct span){"EVALSHA", 7});
    words_put(&words, (struct span){link->server.sha[op->script], REDIS_SHA});
    link->config.owner.encode(link->config.owner.context, link, op, &words);
    return append(link, op, words_end(&words));
}

/* Redis forgot the script, so nothing ran: load it, and ask again behind that. */
static void again(struct redis_link *link, struct redis_op *op)
{
    bool load = !link->loading[op->script];
    if (op->tries++ == TRIES_MAX) {
        tell(link, op, REDIS_NOT_ASKED);
        return;
    }
    link->numbers.reloads += load;
    if ((load && !ask_step(link, HANDSHAKE_LOAD + op->script)) || !append_call(link, op)) {
        tell(link, op, REDIS_NOT_ASKED);
    }
}

static bool redirected(struct redis_link *link, struct redis_op *op, struct span text)
{
    const struct link_router *router = &link->config.router;
    struct redis_redirect to;
    if (!error_redirect(text, link->config.host, &to)) {
        return false;
    }
    link->numbers.redirects++;
    return router->context != NULL && router->redirect(router->context, link, op, &to);
}

static void error_answer(struct redis_link *link, struct redis_op *op, struct span text)
{
    struct redis_error error = error_read(text);
    (void)snprintf(link->trouble, sizeof(link->trouble), "%.*s", (int)text.len, text.at);
    tell(link, op, error.outcome);
    if (error.useless) {
        lose(link, "the server does not take writes any more");
    } else if (error.suspect) {
        suspect(link);
    }
}

/* True: the reply is kept, until replicas have it. */
static bool hold(struct redis_link *link, struct redis_op *op, redisReply *reply)
{
    const struct link_owner *owner = &link->config.owner;
    if (link->config.wait_replicas == 0 || owner->promises == NULL ||
        !owner->promises(owner->context, op, reply_text(reply))) {
        return false;
    }
    op->held = reply;
    *link->held_end = op;
    link->held_end = &op->next;
    return true;
}

static void ask_wait(struct redis_link *link)
{
    char replicas[16];
    char timeout[16];
    (void)snprintf(replicas, sizeof(replicas), "%u", link->config.wait_replicas);
    (void)snprintf(timeout, sizeof(timeout), "%u", link->config.wait_timeout_ms);
    link->numbers.waits++;
    struct handshake_command command = {
        3, {"WAIT", replicas, timeout}, {4, strlen(replicas), strlen(timeout)}};
    link->waiting = ask_own(link, OWN_WAIT, &command);
}

/* True: the reply is kept. */
static bool call_answer(struct redis_link *link, struct redis_op *op, redisReply *reply)
{
    struct span text = reply_text(reply);
    if (reply->type == REDIS_REPLY_STRING) {
        if (hold(link, op, reply)) {
            return true;
        }
        link->config.owner.done(link->config.owner.context, op, REDIS_ANSWERED, text);
    } else if (error_begins(text, "NOSCRIPT ")) {
        again(link, op);
    } else if (!redirected(link, op, text)) {
        error_answer(link, op, text);
    }
    return false;
}

/* The answer to the first in flight. True: the reply is kept. */
static bool take_answer(struct redis_link *link, redisReply *reply)
{
    if (link->first->preceded) { /* of ASKING: whatever it says, the call's own answer tells */
        link->first->preceded = false;
        return false;
    }
    struct redis_op *op = pop(link);
    if (is_own(link, op)) {
        own_answer(link, op, reply);
        return false;
    }
    return call_answer(link, op, reply);
}

static void take_answers(struct redis_link *link)
{
    void *taken = NULL;
    while (link->context != NULL && redisGetReplyFromReader(link->context, &taken) == REDIS_OK &&
           taken != NULL) {
        if (link->first == NULL) {
            freeReplyObject(taken);
            lose(link, "an answer nobody asked for");
            return;
        }
        if (!take_answer(link, taken)) {
            freeReplyObject(taken);
        }
        taken = NULL;
    }
    if (link->context != NULL && link->context->err != 0) {
        lose(link, "not the answer of a Redis server");
    }
    if (link->context != NULL && link->held != NULL && !link->waiting) {
        ask_wait(link);
    }
}

/* ---- for the owner ---- */

void link_event(struct redis_link *link, uint32_t events, int64_t now_us)
{
    link->now_us = now_us;
    if (link->context == NULL) {
        return;
    }
    if (link->state == LINK_CONNECTING) {
        connected(link);
        return;
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        int status = redisBufferRead(link->context);
        if (status == REDIS_OK) {
            take_answers(link);
        } else {
            char why[REDIS_TEXT_MAX];
            (void)snprintf(why, sizeof(why), "%s", link->context->errstr);
            lose(link, why);
        }
    }
    if (link->context != NULL) {
        link_flush(link);
    }
}

void link_flush(struct redis_link *link)
{
    if (link->context == NULL || link->state == LINK_CONNECTING ||
        (!link->unsent && !link->wants_out)) {
        return;
    }
    int done = 0;
    link->numbers.writes++;
    if (redisBufferWrite(link->context, &done) != REDIS_OK) {
        char why[REDIS_TEXT_MAX];
        (void)snprintf(why, sizeof(why), "%s", link->context->errstr);
        lose(link, why);
        return;
    }
    link->unsent = done == 0;
    if (link->unsent != link->wants_out) {
        watch(link, EPOLL_CTL_MOD, link->unsent);
    }
}

int link_send_again(struct redis_link *link, struct redis_op *op, bool req, int64_t now_us)
{
    link->now_us = now_us;
    if (link->state != LINK_READY) {
        return ERR_CLOSED;
    }
    if (link->in_flight >= link->config.in_flight_max) {
        return ERR_FULL;
    }
    link->numbers.calls++;
    op->req = req;
    return append_call(link, op) ? 0 : ERR_CLOSED;
}

int link_send(struct redis_link *link, struct redis_op *op, int64_t now_us)
{
    op->tries = 0;
    op->hops = 0;
    return link_send_again(link, op, false, now_us);
}

int64_t link_next_us(const struct redis_link *link)
{
    if (link->state != LINK_READY) {
        return link->next_us;
    }
    if (link->first == NULL) {
        return INT64_MAX;
    }
    /* Whatever stands behind a WAIT waits, too. */
    uint64_t timeout_ms = link->config.call_timeout_ms;
    if (link->config.wait_replicas > 0) {
        timeout_ms += link->config.wait_timeout_ms;
    }
    return link->first->since_us + (int64_t)timeout_ms * 1000;
}

void link_tick(struct redis_link *link, int64_t now_us)
{
    link->now_us = now_us;
    if (now_us < link_next_us(link)) {
        return;
    }
    if (link->state == LINK_DOWN) {
        start(link);
    } else {
        lose(link, link->state == LINK_READY ? "no answer in time" : "no connection in time");
    }
}

bool link_idle(const struct redis_link *link)
{
    return link->first == NULL && link->held == NULL;
}

bool link_ready(const struct redis_link *link)
{
    return link->state == LINK_READY;
}

struct span link_run_id(const struct redis_link *link)
{
    return (struct span){link->server.run_id, REDIS_RUN_ID};
}

const char *link_trouble(const struct redis_link *link)
{
    return link->trouble;
}

void link_count(const struct redis_link *link, struct link_numbers *ret_numbers)
{
    *ret_numbers = link->numbers;
}

int link_new(const struct link_config *config, struct redis_link **ret_link)
{
    uint8_t address[16];
    if (inet_pton(AF_INET, config->host, address) != 1 &&
        inet_pton(AF_INET6, config->host, address) != 1) {
        return ERR_INVALID;
    }
    struct redis_link *link = calloc(1, sizeof(*link));
    if (link == NULL) {
        return ERR_NOMEM;
    }
    link->config = *config;
    link->last = &link->first;
    link->held_end = &link->held;
    link->prng = prng_of(config->seed);
    *ret_link = link;
    return 0;
}

void link_free(struct redis_link *link)
{
    if (link == NULL) {
        return;
    }
    link->ending = true;
    lose(link, "closed");
    free(link);
}
