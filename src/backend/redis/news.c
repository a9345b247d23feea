/*
 * See segments_redis.h. This file: news, with Redis's publish and subscribe.
 *
 * The scripts publish on the channel PREFIX{TAG}:news of their server. tell may be about a segment
 * whose server is gone, so it publishes on PREFIX:news of any server that accepts it. Each server
 * is subscribed to for its own segments and for PREFIX:news.
 *
 * In a Cluster the scripts publish with SPUBLISH, so a segment's channel is subscribed to with
 * SSUBSCRIBE; and with SUBSCRIBE, too, for the scripts of an older version and for servers that
 * refuse SPUBLISH (lua/news.lua). A server that no longer has the slot ends the subscription
 * (sunsubscribe) or refuses it (MOVED). Then the topology is told, and the segment is subscribed to
 * where it is now. SUNSUBSCRIBE is never sent: the server does that itself.
 *
 * Messages published while a server is not subscribed to are lost. So NEWS_LOST follows whenever
 * all its channels are confirmed, also the first time. A silent connection is pinged.
 */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "backend/redis/notes.h"
#include "backend/redis/segments_private.h"
#include "base/check.h"
#include "base/err.h"

#define SILENCE_MS 5000L
/* Longest sleep of an ear that is not connected, or not subscribed to all its segments. */
#define TEND_MS 20
/* After a refused subscription. */
#define RETRY_MS 100L

/* ---- ears ---- */

/* The segments of a server. */
static uint64_t mask_of(struct segments_redis *s, const struct topology_node *node)
{
    uint64_t mask = 0;
    for (uint32_t i = 0; i < s->options.segments; i++) {
        const struct topology_node *server = segments_server(s, i);
        if (server != NULL && server->port == node->port && strcmp(server->host, node->host) == 0) {
            mask |= 1ULL << i;
        }
    }
    return mask;
}

static bool has_ear(const struct segments_redis *s, const struct topology_node *node)
{
    for (uint32_t i = 0; i < TOPOLOGY_NODES_MAX; i++) {
        if (wire_leads_to(&s->ears[i].wire, node)) {
            return true;
        }
    }
    return false;
}

/* Gives an ear to servers that have none. An ear that no segment needs may be reused. */
static void place_ears(struct segments_redis *s)
{
    for (uint32_t i = 0; i < s->options.segments; i++) {
        const struct topology_node *node = segments_server(s, i);
        for (uint32_t k = 0; node != NULL && k < TOPOLOGY_NODES_MAX && !has_ear(s, node); k++) {
            struct ear *ear = &s->ears[k];
            if (ear->wire.node.host[0] == '\0' || mask_of(s, &ear->wire.node) == 0) {
                wire_lead(&ear->wire, &s->wire_config, node);
            }
        }
    }
}

/* One command for each segment: an error answers one of them. */
static int put_channels(struct segments_redis *s, struct ear *ear, const char *verb, uint64_t mask)
{
    int error = 0;
    for (uint32_t i = 0; error == 0 && i < s->options.segments; i++) {
        char channel[SEGMENTS_KEY_MAX];
        if ((mask >> i & 1) != 0) {
            segments_key(s, i, "news", channel);
            error = wire_format(&ear->wire, "%s %s", verb, channel);
        }
    }
    return error;
}

/* Whether nothing is to be subscribed or unsubscribed. */
static bool is_subscribed(const struct ear *ear, uint64_t mask)
{
    return ear->plain == mask && (mask & ~ear->sharded) == 0;
}

static bool is_answered(const struct ear *ear)
{
    return ear->awaited == 0 && ear->asked == 0;
}

/* All earlier subscriptions are answered: errors name no channel, so answers are matched by their
 * order. */
static int subscribe(struct segments_redis *s, struct ear *ear, uint64_t mask)
{
    uint64_t left = ear->plain & ~mask;
    uint64_t more = mask & ~ear->plain;
    int error = put_channels(s, ear, "UNSUBSCRIBE", left);
    error = error != 0 ? error : put_channels(s, ear, "SUBSCRIBE", more);
    ear->awaited += (uint32_t)(__builtin_popcountll(left) + __builtin_popcountll(more));
    ear->plain = mask;
    if (topology_is_cluster(s->options.topology)) {
        ear->asked = mask & ~ear->sharded;
        error = error != 0 ? error : put_channels(s, ear, "SSUBSCRIBE", ear->asked);
    } else {
        ear->missed = true;
    }
    ear->sharded |= mask;
    return error;
}

/* Connects the ear and subscribes to the present channels of its server. */
static void tend(struct segments_redis *s, struct ear *ear)
{
    int64_t deadline_us = segments_deadline_us(s);
    int64_t now = segments_now_us(s);
    uint64_t mask = mask_of(s, &ear->wire.node);
    if (mask == 0) {
        wire_close(&ear->wire, "");
        return;
    }
    if (wire_ready(&ear->wire, false, deadline_us) != 0) {
        topology_suspect(s->options.topology, (uint32_t)__builtin_ctzll(mask));
        return;
    }
    int error = 0;
    if (ear->connection != ear->wire.number) {
        ear->connection = ear->wire.number;
        ear->plain = 0;
        ear->sharded = 0;
        ear->missed = true;
        ear->pinged = false;
        ear->retry_us = now;
        ear->heard_us = now;
        error = wire_format(&ear->wire, "SUBSCRIBE %s:news", s->options.prefix);
        ear->awaited = 1;
        ear->asked = 0;
        error = error != 0 ? error : subscribe(s, ear, mask);
    } else if (!is_subscribed(ear, mask) && is_answered(ear) && now >= ear->retry_us) {
        error = subscribe(s, ear, mask);
    }
    if (error == 0 && !ear->pinged && now - ear->heard_us > SILENCE_MS * 1000) {
        error = wire_format(&ear->wire, "PING");
        ear->pinged = true;
        ear->pinged_us = now;
    }
    if (error == 0) {
        (void)wire_flush(&ear->wire, deadline_us);
    }
}

/* ---- received messages ---- */

/* PREFIX:news or PREFIX{TAG}:news; a tag begins with the segment's number. */
static bool channel_segment(const struct segments_redis *s, struct span channel,
                            uint32_t *ret_segment)
{
    char name[SEGMENTS_KEY_MAX];
    size_t len = strlen(s->options.prefix);
    uint64_t segment = 0;
    if (channel.len < len || memcmp(channel.at, s->options.prefix, len) != 0) {
        return false;
    }
    struct span rest = {channel.at + len, channel.len - len};
    *ret_segment = 0;
    if (span_is(rest, ":news")) {
        return true;
    }
    size_t digits = 1;
    while (digits < rest.len && rest.at[digits] >= '0' && rest.at[digits] <= '9') {
        digits++;
    }
    if (digits > rest.len || span_parse_u64((struct span){rest.at + 1, digits - 1},
                                            s->options.segments - 1, &segment) != 0) {
        return false;
    }
    *ret_segment = (uint32_t)segment;
    segments_key(s, *ret_segment, "news", name);
    return span_is(channel, name);
}

/*
 * An error answers the oldest subscription that is not answered. A refused SUBSCRIBE ends the
 * connection. A refused SSUBSCRIBE: the segment is on another server, or cannot be served now; or
 * this server never accepts it, and the segment's SUBSCRIBE is all there is.
 */
static void refused(struct segments_redis *s, struct ear *ear, const redisReply *reply)
{
    uint64_t bit = ear->asked & (~ear->asked + 1); /* the lowest */
    bool later = wire_error(&ear->wire, reply) == REDIS_NOT_ASKED && !wire_says(reply, "NOPERM ");
    if (ear->awaited > 0 || bit == 0) {
        wire_close(&ear->wire, "the server refuses to be heard");
        return;
    }
    ear->asked &= ~bit;
    if (later) {
        ear->sharded &= ~bit;
        ear->retry_us = segments_now_us(s) + RETRY_MS * 1000;
        if (!wire_says(reply, "MOVED ")) { /* wire_error has told the topology where to */
            topology_suspect(s->options.topology, (uint32_t)__builtin_ctzll(bit));
        }
    } else {
        ear->missed = true;
    }
}

static void confirmed(struct segments_redis *s, struct ear *ear, struct span what,
                      struct span channel)
{
    uint32_t segment = 0;
    if ((span_is(what, "subscribe") || span_is(what, "unsubscribe")) && ear->awaited > 0) {
        ear->awaited--;
    } else if (span_is(what, "ssubscribe") && ear->asked != 0) {
        ear->asked &= ear->asked - 1;
        ear->missed = true;
    } else if (span_is(what, "sunsubscribe") && channel_segment(s, channel, &segment)) {
        ear->sharded &= ~(1ULL << segment); /* the slot has left this server */
        topology_suspect(s->options.topology, segment);
    }
}

/* True: *ret_news was filled. */
static bool heard(struct segments_redis *s, struct ear *ear, const redisReply *reply,
                  struct segment_news *ret_news)
{
    uint32_t segment = 0;
    if (reply->type == REDIS_REPLY_ERROR) {
        refused(s, ear, reply);
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements >= 2) {
        struct span what = reply_text(reply->element[0]);
        struct span channel = reply_text(reply->element[1]);
        if ((span_is(what, "message") || span_is(what, "smessage")) && reply->elements == 3) {
            return channel_segment(s, channel, &segment) &&
                   note_news(reply_text(reply->element[2]), segment, ret_news) == 0;
        }
        confirmed(s, ear, what, channel);
    }
    if (ear->wire.context != NULL && is_answered(ear) && ear->missed) {
        ear->missed = false;
        *ret_news = (struct segment_news){.kind = NEWS_LOST};
        return true;
    }
    return false;
}

static size_t listen_to(struct segments_redis *s, struct ear *ear, struct segment_news *ret_news,
                        size_t max)
{
    size_t count = 0;
    redisReply *reply = NULL;
    while (count < max && ear->wire.context != NULL && wire_take(&ear->wire, &reply) == 0) {
        ear->heard_us = segments_now_us(s);
        ear->pinged = false;
        count += heard(s, ear, reply, &ret_news[count]);
        freeReplyObject(reply);
    }
    if (ear->pinged &&
        segments_now_us(s) - ear->pinged_us > (int64_t)s->options.timeout_ms * 1000) {
        wire_close(&ear->wire, "no answer in time");
    }
    return count;
}

/* Waits for a message or the time; true: woken. */
static bool wait_for_news(struct segments_redis *s, int64_t until_us)
{
    struct pollfd fds[TOPOLOGY_NODES_MAX + 1];
    nfds_t count = 0;
    int64_t left_us = until_us - segments_now_us(s);
    int64_t wait_ms = left_us <= 0 ? 0 : (left_us + 999) / 1000;
    for (uint32_t i = 0; i < TOPOLOGY_NODES_MAX; i++) {
        const struct wire *wire = &s->ears[i].wire;
        bool tended = wire->node.host[0] == '\0';
        if (wire->context != NULL) {
            fds[count++] = (struct pollfd){.fd = wire->context->fd, .events = POLLIN};
            tended = is_subscribed(&s->ears[i], mask_of(s, &wire->node));
        }
        if (!tended && wait_ms > TEND_MS) {
            wait_ms = TEND_MS;
        }
    }
    if (wait_ms > SILENCE_MS / 2) {
        wait_ms = SILENCE_MS / 2;
    }
    fds[count] = (struct pollfd){.fd = s->wake_fd, .events = POLLIN};
    if (poll(fds, count + 1, (int)wait_ms) > 0 && fds[count].revents != 0) {
        uint64_t wakes = 0;
        (void)!read(s->wake_fd, &wakes, sizeof(wakes));
        return true;
    }
    return false;
}

int segments_news_take(struct segments *segments, struct segment_news *ret_news, size_t max,
                       int64_t wait_ms, size_t *ret_count)
{
    struct segments_redis *s = segments_of(segments);
    int64_t until_us = segments_now_us(s) + wait_ms * 1000;
    bool woken = false;
    for (;;) {
        size_t count = 0;
        place_ears(s);
        for (uint32_t i = 0; i < TOPOLOGY_NODES_MAX; i++) {
            if (s->ears[i].wire.node.host[0] != '\0') {
                tend(s, &s->ears[i]);
                count += listen_to(s, &s->ears[i], ret_news + count, max - count);
            }
        }
        if (count > 0) {
            *ret_count = count;
            return 0;
        }
        if (woken || segments_now_us(s) >= until_us) {
            return ERR_AGAIN;
        }
        woken = wait_for_news(s, until_us);
    }
}

/* ---- publishing ---- */

static bool publish(struct segments_redis *s, uint32_t segment, struct span text)
{
    int64_t deadline_us = segments_deadline_us(s);
    struct wire *wire = segments_ready(s, segment, deadline_us);
    redisReply *reply = NULL;
    if (wire == NULL ||
        wire_format(wire, "PUBLISH %s:news %b", s->options.prefix, text.at, text.len) != 0 ||
        wire_flush(wire, deadline_us) != 0 || wire_read(wire, deadline_us, &reply) != 0) {
        return false;
    }
    bool done = reply->type == REDIS_REPLY_INTEGER;
    freeReplyObject(reply);
    return done;
}

static void put_broken(struct redis_words *words, const struct codec_place *place, const void *what)
{
    (void)what;
    codec_broken(words, place);
}

static void tell_broken(struct segments_redis *s, const struct segment_news *news)
{
    struct wire *wire = NULL;
    redisReply *reply = NULL;
    if (segments_eval(s, news->segment, news->epoch, SCRIPT_BROKEN, put_broken, NULL, &wire,
                      &reply) == SEGMENT_DONE) {
        freeReplyObject(reply);
    }
}

/* At the segment's own server, or at any other that accepts it. */
void segments_news_tell(struct segments *segments, const struct segment_news *news)
{
    struct segments_redis *s = segments_of(segments);
    if (news->kind == NEWS_BROKEN) {
        tell_broken(s, news);
        return;
    }
    char text[NOTE_MAX];
    struct out out = out_over(text, sizeof(text));
    note_tell(&out, news);
    CHECK(!out.overflow);
    uint32_t first = news->segment < s->options.segments ? news->segment : 0;
    for (uint32_t i = 0; i < s->options.segments; i++) {
        if (publish(s, (first + i) % s->options.segments, out_span(&out))) {
            return;
        }
    }
}
