/* See segments_redis.h. This file: creation, connections, apply and look. */
#include "backend/redis/segments_redis.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "backend/redis/segments_private.h"
#include "base/check.h"
#include "base/err.h"

/* Calls sent before the first answer is read: some 200 KB per server. */
#define CALLS_AT_ONCE 512
/* Attempts with a script that Redis does not have. */
#define TRIES_MAX 4
#define CLAIM_MS_DEFAULT 10000

/* ---- connections ---- */

const struct topology_node *segments_server(struct segments_redis *s, uint32_t segment)
{
    CHECK(segment < s->options.segments);
    uint64_t generation = topology_generation(s->options.topology);
    if (generation != s->generation) {
        for (uint32_t i = 0; i < s->options.segments; i++) {
            struct topology_node *node = &s->servers[i];
            uint64_t of = 0;
            if (topology_address(s->options.topology, i, node->host, &node->port, &of) != 0) {
                *node = (struct topology_node){.port = 0};
            }
        }
        s->generation = generation;
    }
    return s->servers[segment].host[0] != '\0' ? &s->servers[segment] : NULL;
}

static bool server_used(struct segments_redis *s, const struct wire *wire)
{
    for (uint32_t i = 0; i < s->options.segments; i++) {
        if (wire_leads_to(wire, &s->servers[i])) {
            return true;
        }
    }
    return false;
}

/* Servers come and go. A connection to a server without segments is reused for another. */
static struct wire *wire_of(struct segments_redis *s, uint32_t segment)
{
    const struct topology_node *node = segments_server(s, segment);
    struct wire *idle = NULL;
    if (node == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < TOPOLOGY_NODES_MAX; i++) {
        struct wire *wire = &s->wires[i];
        if (wire_leads_to(wire, node)) {
            return wire;
        }
        if (idle == NULL && (wire->node.host[0] == '\0' || !server_used(s, wire))) {
            idle = wire;
        }
    }
    CHECK(idle != NULL); /* there are as many wires as segments can have servers */
    wire_lead(idle, &s->wire_config, node);
    return idle;
}
_Static_assert(TOPOLOGY_NODES_MAX >= SEGMENTS_MAX, "a wire for each segment");

struct wire *segments_ready(struct segments_redis *s, uint32_t segment, int64_t deadline_us)
{
    struct wire *wire = wire_of(s, segment);
    if (wire == NULL || wire_ready(wire, true, deadline_us) != 0) {
        topology_suspect(s->options.topology, segment);
        return NULL;
    }
    return wire;
}

void segments_key(const struct segments_redis *s, uint32_t segment, const char *name, char *ret_key)
{
    struct out out = out_over(ret_key, SEGMENTS_KEY_MAX);
    codec_name(&out, &(struct codec_place){.prefix = s->options.prefix, .segment = segment}, name);
    out_char(&out, '\0');
    CHECK(!out.overflow);
}

struct codec_place segments_place(const struct segments_redis *s, const struct wire *wire,
                                  uint32_t segment, uint64_t epoch)
{
    return (struct codec_place){.prefix = s->options.prefix,
                                .segment = segment,
                                .epoch = epoch,
                                .run_id = wire_run_id(wire)};
}

bool segments_wait(struct segments_redis *s, int64_t until_us)
{
    struct pollfd fd = {.fd = s->wake_fd, .events = POLLIN};
    for (;;) {
        int64_t left_us = until_us - segments_now_us(s);
        int wait_ms = left_us <= 0 ? 0 : left_us > 60000000 ? 60000 : (int)((left_us + 999) / 1000);
        int n = poll(&fd, 1, wait_ms);
        if (n > 0) {
            uint64_t wakes = 0;
            (void)!read(s->wake_fd, &wakes, sizeof(wakes));
            return true;
        }
        if (n == 0 && wait_ms == 0) {
            return false;
        }
    }
}

static void wake(struct segments *segments)
{
    uint64_t one = 1;
    (void)!write(segments_of(segments)->wake_fd, &one, sizeof(one));
}

/* ---- one call ---- */

enum segment_outcome segments_outcome(enum redis_outcome outcome)
{
    static const enum segment_outcome outcomes[] = {
        [REDIS_ANSWERED] = SEGMENT_DONE,       [REDIS_NOT_ASKED] = SEGMENT_NOT_ASKED,
        [REDIS_NOT_KNOWN] = SEGMENT_NOT_KNOWN, [REDIS_STALE] = SEGMENT_STALE,
        [REDIS_FENCED] = SEGMENT_FENCED,       [REDIS_GAP] = SEGMENT_GAP,
        [REDIS_BROKEN] = SEGMENT_BROKEN,
    };
    return outcomes[outcome];
}

/* Rows of a rebuild are the longest. */
#define EVAL_MAX (64 * 1024)

/* The answer; NULL: none, with the reason in *ret_outcome. */
static redisReply *eval_once(struct segments_redis *s, struct wire *wire, uint32_t segment,
                             struct redis_words *words, int64_t deadline_us,
                             enum segment_outcome *ret_outcome)
{
    redisReply *reply = NULL;
    if (wire_put(wire, words) != 0) {
        *ret_outcome = SEGMENT_NOT_ASKED;
        return NULL;
    }
    if (wire_flush(wire, deadline_us) != 0 || wire_read(wire, deadline_us, &reply) != 0) {
        topology_suspect(s->options.topology, segment);
        *ret_outcome = SEGMENT_NOT_KNOWN;
        return NULL;
    }
    return reply;
}

enum segment_outcome segments_eval(struct segments_redis *s, uint32_t segment, uint64_t epoch,
                                   enum redis_script script, segments_put *put, const void *what,
                                   struct wire **ret_wire, redisReply **ret_reply)
{
    char memory[EVAL_MAX];
    int64_t deadline_us = segments_deadline_us(s);
    enum segment_outcome outcome = SEGMENT_NOT_ASKED;
    for (int tries = 0; tries <= TRIES_MAX; tries++) {
        struct wire *wire = segments_ready(s, segment, deadline_us);
        if (wire == NULL) {
            return SEGMENT_NOT_ASKED;
        }
        struct codec_place place = segments_place(s, wire, segment, epoch);
        struct redis_words words = wire_script(wire, script, memory, sizeof(memory));
        put(&words, &place, what);
        redisReply *reply = eval_once(s, wire, segment, &words, deadline_us, &outcome);
        if (reply == NULL) {
            return outcome;
        }
        if (reply->type == REDIS_REPLY_STRING) {
            *ret_reply = reply;
            *ret_wire = wire;
            return SEGMENT_DONE;
        }
        /* The script is missing, or the segment has moved: nothing ran, and a new attempt may
         * help. */
        bool forgotten = wire_says(reply, "NOSCRIPT ");
        bool moved = wire_says(reply, "MOVED ");
        outcome = reply->type == REDIS_REPLY_ERROR ? segments_outcome(wire_error(wire, reply))
                                                   : SEGMENT_NOT_KNOWN;
        freeReplyObject(reply);
        if (!moved && (!forgotten || wire_load(wire, deadline_us) != 0)) {
            break;
        }
    }
    return outcome;
}

static void put_state(struct redis_words *words, const struct codec_place *place, const void *what)
{
    (void)what;
    codec_state(words, place);
}

void segments_state(struct segments_redis *s, uint32_t segment, struct segment_state *ret_state)
{
    struct wire *wire = NULL;
    redisReply *reply = NULL;
    enum segment_outcome outcome =
        segments_eval(s, segment, 0, SCRIPT_STATE, put_state, NULL, &wire, &reply);
    if (outcome != SEGMENT_DONE) {
        *ret_state = (struct segment_state){
            .outcome = outcome == SEGMENT_NOT_ASKED ? outcome : SEGMENT_NOT_KNOWN};
        return;
    }
    codec_read_state(reply_text(reply), wire_run_id(wire), ret_state);
    freeReplyObject(reply);
}

static void look(struct segments *segments, uint32_t segment, struct segment_state *ret_state)
{
    struct segments_redis *s = segments_of(segments);
    segments_state(s, segment, ret_state);
    if (s->sweeps[segment].wanted && ret_state->outcome == SEGMENT_DONE && ret_state->open) {
        uint64_t unlinked = 0;
        (void)segments_redis_sweep(segments, segment, &unlinked);
    }
}

/* ---- apply ---- */

/* A call in progress. */
struct sent {
    struct wire *wire;
    uint64_t connection; /* the wire's connection when it was sent; answers on another are not
                          * ours */
    bool waits;          /* to be sent, first or again */
    bool asked;          /* an answer is due */
    bool forgotten;      /* Redis does not have the script: nothing ran */
    bool moved;          /* the server no longer has the segment: nothing ran */
};

static bool is_event(const struct segment_call *call)
{
    return call->command.kind != GATE_RESERVE &&
           (call->command.kind != GATE_TRANSFER_OUT || call->command.event != 0);
}

/* A RESERVE whose id belongs to another item is refused here, as the gate does. */
static bool refused_here(struct segment_call *call)
{
    if (call->command.kind != GATE_RESERVE ||
        order_id_item(call->command.id) == call->command.item) {
        return false;
    }
    call->outcome = SEGMENT_DONE;
    call->verdict = VERDICT_REFUSED;
    call->refusal = REFUSAL_NO_SUCH_ITEM;
    return true;
}

static void put_call(struct segments_redis *s, struct segment_call *call, struct sent *sent,
                     int64_t deadline_us)
{
    char memory[CODEC_CALL_MAX];
    *sent = (struct sent){.wire = segments_ready(s, call->segment, deadline_us)};
    call->outcome = SEGMENT_NOT_ASKED;
    if (sent->wire == NULL) {
        return;
    }
    struct codec_place place = segments_place(s, sent->wire, call->segment, call->epoch);
    struct redis_words words =
        wire_script(sent->wire, codec_script(call->command.kind), memory, sizeof(memory));
    codec_call(&words, &place, call);
    if (wire_put(sent->wire, &words) == 0) {
        sent->connection = sent->wire->number;
        sent->asked = true;
        call->outcome = SEGMENT_NOT_KNOWN;
    }
}

static void read_answer(struct segment_call *call, struct span text)
{
    struct codec_answer answer = {0};
    call->outcome = segments_outcome(codec_read(text, &answer));
    if (call->outcome != SEGMENT_DONE) {
        return;
    }
    call->verdict = answer.verdict;
    call->refusal = answer.effects.refusal;
    call->taken = answer.taken;
    call->has_order = answer.has_order;
    call->order = answer.order;
    call->order.id = call->command.id;
    call->order.item = order_id_item(call->command.id);
}

static void read_call(struct segments_redis *s, struct segment_call *call, struct sent *sent,
                      int64_t deadline_us)
{
    redisReply *reply = NULL;
    if (sent->wire->context == NULL || sent->wire->number != sent->connection ||
        wire_read(sent->wire, deadline_us, &reply) != 0) {
        topology_suspect(s->options.topology, call->segment);
        return;
    }
    sent->forgotten = wire_says(reply, "NOSCRIPT ");
    sent->moved = wire_says(reply, "MOVED ");
    if (reply->type == REDIS_REPLY_STRING) {
        read_answer(call, reply_text(reply));
    } else if (reply->type == REDIS_REPLY_ERROR) {
        call->outcome = segments_outcome(wire_error(sent->wire, reply));
    }
    freeReplyObject(reply);
}

static void round_trip(struct segments_redis *s, struct segment_call *calls, struct sent *sent,
                       size_t count, int64_t deadline_us)
{
    for (size_t i = 0; i < count; i++) {
        if (sent[i].waits) {
            put_call(s, &calls[i], &sent[i], deadline_us);
        }
    }
    for (uint32_t i = 0; i < TOPOLOGY_NODES_MAX; i++) {
        if (s->wires[i].context != NULL) {
            (void)wire_flush(&s->wires[i], deadline_us);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (sent[i].asked) {
            read_call(s, &calls[i], &sent[i], deadline_us);
            sent[i].asked = false;
        }
    }
}

/* Loads the scripts, once for each connection that lacks them. False: that connection cannot be
 * used. */
static bool load_again(const struct segments_redis *s, struct sent *sent, uint64_t *loaded,
                       int64_t deadline_us)
{
    uint64_t bit = 1ULL << (sent->wire - s->wires);
    if (sent->wire->context == NULL || sent->wire->number != sent->connection ||
        ((*loaded & bit) == 0 && wire_load(sent->wire, deadline_us) != 0)) {
        return false;
    }
    *loaded |= bit;
    return true;
}

/*
 * Marks calls to be sent again: those whose script was missing or whose segment has moved, and
 * later events that found a gap because of it, all in order. True: there are some.
 */
static bool again(const struct segments_redis *s, struct segment_call *calls, struct sent *sent,
                  size_t count, int64_t deadline_us)
{
    uint64_t behind = 0;
    uint64_t loaded = 0;
    bool some = false;
    for (size_t i = 0; i < count; i++) {
        bool event = is_event(&calls[i]);
        uint64_t bit = 1ULL << calls[i].segment;
        if (sent[i].forgotten || sent[i].moved) {
            sent[i].waits = sent[i].moved || load_again(s, &sent[i], &loaded, deadline_us);
            sent[i].forgotten = false;
            sent[i].moved = false;
            behind |= event && sent[i].waits ? bit : 0;
        } else if (event && (behind & bit) != 0 && calls[i].outcome == SEGMENT_GAP) {
            sent[i].waits = true;
        }
        some |= sent[i].waits;
    }
    return some;
}
_Static_assert(TOPOLOGY_NODES_MAX <= 64, "a bit for each wire");

/* blocked: segments in which a call failed; their later events must wait. */
static void apply_some(struct segments_redis *s, struct segment_call *calls, size_t count,
                       uint64_t *blocked, int64_t deadline_us)
{
    struct sent sent[CALLS_AT_ONCE];
    for (size_t i = 0; i < count; i++) {
        struct segment_call *call = &calls[i];
        sent[i] = (struct sent){.waits = false};
        call->refusal = REFUSAL_NONE;
        call->taken = 0;
        call->has_order = false;
        if (is_event(call) && (*blocked & 1ULL << call->segment) != 0) {
            call->outcome = SEGMENT_GAP;
        } else {
            sent[i].waits = !refused_here(call);
        }
    }
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        round_trip(s, calls, sent, count, deadline_us);
        if (!again(s, calls, sent, count, deadline_us)) {
            break;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (calls[i].outcome != SEGMENT_DONE) {
            *blocked |= 1ULL << calls[i].segment;
        }
    }
}

static void apply(struct segments *segments, struct segment_call *calls, size_t count)
{
    struct segments_redis *s = segments_of(segments);
    int64_t deadline_us = segments_deadline_us(s);
    uint64_t blocked = 0;
    for (size_t i = 0; i < count; i += CALLS_AT_ONCE) {
        size_t some = count - i < CALLS_AT_ONCE ? count - i : CALLS_AT_ONCE;
        apply_some(s, calls + i, some, &blocked, deadline_us);
    }
}

/* ---- life ---- */

static const struct segments_ops segments_ops = {
    apply,
    look,
    segments_rebuild_steps,
    segments_outbox_take,
    segments_outbox_done,
    segments_news_take,
    segments_news_tell,
    wake,
};

static bool valid(const struct segments_redis_options *options)
{
    return options->segments > 0 && options->segments <= SEGMENTS_MAX && options->timeout_ms > 0 &&
           strlen(options->prefix) <= REDIS_PREFIX_MAX && strpbrk(options->prefix, "{}") == NULL &&
           options->worker != NULL && options->worker[0] != '\0' &&
           strlen(options->worker) <= REDIS_WORKER_MAX;
}

int segments_redis_open(const struct segments_redis_options *options,
                        struct segments **ret_segments)
{
    if (!valid(options)) {
        return ERR_INVALID;
    }
    struct segments_redis *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return ERR_NOMEM;
    }
    s->port.ops = &segments_ops;
    s->options = *options;
    s->options.claim_ms = options->claim_ms != 0 ? options->claim_ms : CLAIM_MS_DEFAULT;
    s->generation = UINT64_MAX; /* none was read */
    s->wire_config = (struct wire_config){.username = topology_user(options->topology),
                                          .password = topology_password(options->topology),
                                          .clock = options->clock,
                                          .topology = options->topology};
    for (uint32_t i = 0; i < SEGMENTS_MAX; i++) {
        s->connection_sets[i].own = true;
    }
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = s->wake_fd < 0
                    ? ERR_IO
                    : scripts_new(topology_is_cluster(options->topology), &s->wire_config.scripts);
    if (error != 0) {
        segments_redis_close(&s->port);
        return error;
    }
    *ret_segments = &s->port;
    return 0;
}

void segments_redis_close(struct segments *segments)
{
    if (segments == NULL) {
        return;
    }
    struct segments_redis *s = segments_of(segments);
    for (uint32_t i = 0; i < TOPOLOGY_NODES_MAX; i++) {
        wire_close(&s->wires[i], "");
        wire_close(&s->ears[i].wire, "");
    }
    if (s->wake_fd >= 0) {
        (void)close(s->wake_fd);
    }
    scripts_free(s->wire_config.scripts);
    free(s);
}

const char *segments_redis_trouble(struct segments *segments, uint32_t segment)
{
    const struct wire *wire = wire_of(segments_of(segments), segment);
    return wire != NULL ? wire->trouble : "nobody says where the segment is";
}
