/*
 * See segments_redis.h. Here: the outbox, a stream PREFIX{TAG}:out for each segment.
 *
 * An entry that XREADGROUP hands out stands in the group's list of pending entries under this
 * worker's name until it is done: deleted from the stream, then acknowledged. Deleted first: where
 * only half of it runs, an entry is left over that has no text, and is acknowledged when it comes
 * again; the other way round it would stay in the stream, unseen, for ever.
 *
 * What this worker held comes first, when it starts and whenever its connection was lost (answers
 * may have been lost with it); then new entries; now and then those that others hold for too long.
 * A text that is not ours is left where it is: a newer version of the program may know it.
 */
#include "backend/redis/notes.h"
#include "backend/redis/reader.h"
#include "backend/redis/segments_private.h"
#include "base/backoff.h"
#include "base/check.h"
#include "base/err.h"

#define GROUP "relay"
/* An idle outbox is asked again after 1, 2, 4 ... 16 ms. */
#define POLL_MIN_MS 1
#define POLL_MAX_MS 16
/* Rounds of one call: a segment that had more than its share is asked again. */
#define ROUNDS_MAX 4
/* Pending entries looked at in one go, and the share of claim_ms after which it is done again. */
#define PENDING_AT_ONCE 100
#define CLAIM_PART 4
/* Ids in one XDEL or XACK. */
#define IDS_AT_ONCE 200
#define ID_TEXT 48

/* What a call has got so far, and what is asked in this round. */
struct taking {
    struct segments_redis *s;
    struct outbox_entry *entries;
    size_t max;
    size_t count;
    int64_t deadline_us;
    uint32_t asked[SEGMENTS_MAX]; /* segments */
    struct wire *wires[SEGMENTS_MAX];
    size_t shares[SEGMENTS_MAX];
    uint32_t requests;
};

static void stream_text(struct stream_id id, char *ret_text)
{
    struct out out = out_over(ret_text, ID_TEXT);
    out_u64(&out, id.ms);
    out_char(&out, '-');
    out_u64(&out, id.seq);
    out_char(&out, '\0');
    CHECK(!out.overflow);
}

static bool stream_parse(struct span text, struct stream_id *ret_id)
{
    const char *dash = memchr(text.at, '-', text.len);
    if (dash == NULL) {
        return false;
    }
    size_t len = (size_t)(dash - text.at);
    struct span ms = {text.at, len};
    struct span seq = {dash + 1, text.len - len - 1};
    return span_parse_u64(ms, UINT64_MAX, &ret_id->ms) == 0 &&
           span_parse_u64(seq, UINT64_MAX, &ret_id->seq) == 0;
}

/* ---- trouble ---- */

/* Told once, until it has worked again. */
static void connection_set_fails(struct segments_redis *s, uint32_t segment)
{
    s->outbox_trouble |= !s->connection_sets[segment].away;
    s->connection_sets[segment].away = true;
    topology_suspect(s->options.topology, segment);
}

static void connection_set_starts_over(struct outbox_connection_set *connection_set)
{
    connection_set->own = true;
    connection_set->own_to = (struct stream_id){0, 0};
    connection_set->pending = (struct stream_id){0, 0};
}

/* A stream without its group is that of an empty server: new to us, or emptied. */
static void make_group(struct segments_redis *s, uint32_t segment, struct wire *wire,
                       int64_t deadline_us)
{
    char key[SEGMENTS_KEY_MAX];
    redisReply *reply = NULL;
    struct outbox_connection_set *connection_set = &s->connection_sets[segment];
    segments_key(s, segment, "out", key);
    if (wire_format(wire, "XGROUP CREATE %s " GROUP " 0 MKSTREAM", key) != 0 ||
        wire_flush(wire, deadline_us) != 0 || wire_read(wire, deadline_us, &reply) != 0) {
        connection_set_fails(s, segment);
        return;
    }
    bool made = reply->type == REDIS_REPLY_STATUS || error_begins(reply_text(reply), "BUSYGROUP ");
    freeReplyObject(reply);
    if (!made || connection_set->grouped) {
        connection_set_fails(s, segment);
    }
    connection_set->grouped = made;
    connection_set_starts_over(connection_set);
}

static void connection_set_error(struct segments_redis *s, uint32_t segment, struct wire *wire,
                                 const redisReply *reply, int64_t deadline_us)
{
    if (error_begins(reply_text(reply), "NOGROUP ")) {
        make_group(s, segment, wire, deadline_us);
        return;
    }
    (void)wire_error(wire, reply);
    connection_set_fails(s, segment);
}

/* The wire of a segment, ready; NULL: not now. */
static struct wire *connection_set_wire(struct segments_redis *s, uint32_t segment,
                                        int64_t deadline_us)
{
    struct wire *wire = segments_ready(s, segment, deadline_us);
    struct outbox_connection_set *connection_set = &s->connection_sets[segment];
    if (wire == NULL) {
        connection_set_fails(s, segment);
        return NULL;
    }
    if (connection_set->connection != wire->number) {
        if (connection_set->connection != 0) {
            s->outbox_trouble |= !connection_set->away;
        }
        connection_set->connection = wire->number;
        connection_set_starts_over(connection_set);
    }
    return wire;
}

/* ---- entries ---- */

/* [[id, [field, text]], ...] into the result; how many rows there were. */
static size_t take_rows(struct taking *taking, uint32_t segment, struct wire *wire,
                        const redisReply *rows, struct stream_id *ret_last)
{
    char key[SEGMENTS_KEY_MAX];
    segments_key(taking->s, segment, "out", key);
    for (size_t i = 0; i < rows->elements; i++) {
        const redisReply *row = rows->element[i];
        struct stream_id id;
        if (row->type != REDIS_REPLY_ARRAY || row->elements != 2 ||
            !stream_parse(reply_text(row->element[0]), &id)) {
            continue;
        }
        *ret_last = id;
        const redisReply *fields = row->element[1];
        if (fields->type != REDIS_REPLY_ARRAY) { /* deleted, not acknowledged */
            struct span text = reply_text(row->element[0]);
            redisReply *acked = NULL;
            if (wire_format(wire, "XACK %s " GROUP " %b", key, text.at, text.len) != 0 ||
                wire_flush(wire, taking->deadline_us) != 0 ||
                wire_read(wire, taking->deadline_us, &acked) != 0) {
                return rows->elements;
            }
            freeReplyObject(acked);
            continue;
        }
        struct outbox_entry entry;
        if (fields->elements == 2 && span_is(reply_text(fields->element[0]), "reserve") &&
            note_entry(reply_text(fields->element[1]), &entry) == 0 &&
            taking->count < taking->max) {
            entry.segment = segment;
            entry.mark[0] = id.ms;
            entry.mark[1] = id.seq;
            taking->entries[taking->count++] = entry;
        }
    }
    return rows->elements;
}

/* Entries that others have held for too long become ours. */
static void claim(struct taking *taking, uint32_t segment, struct wire *wire, redisReply *pending)
{
    struct segments_redis *s = taking->s;
    char key[SEGMENTS_KEY_MAX];
    char claim_ms[24];
    char memory[(PENDING_AT_ONCE + 5) * (ID_TEXT + 8) + SEGMENTS_KEY_MAX + REDIS_WORKER_MAX];
    struct redis_words words = words_over(memory, sizeof(memory));
    struct out out = out_over(claim_ms, sizeof(claim_ms));
    size_t ids = 0;
    segments_key(s, segment, "out", key);
    out_u64(&out, s->options.claim_ms);
    const char *const head[] = {"XCLAIM", key, GROUP, s->options.worker};
    for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++) {
        words_put(&words, span_of(head[i]));
    }
    words_put(&words, out_span(&out));
    for (size_t i = 0; i < pending->elements && taking->count + ids < taking->max; i++) {
        const redisReply *row = pending->element[i];
        if (row->type == REDIS_REPLY_ARRAY && row->elements >= 2 &&
            stream_parse(reply_text(row->element[0]), &s->connection_sets[segment].pending) &&
            !span_is(reply_text(row->element[1]), s->options.worker)) {
            words_put(&words, reply_text(row->element[0]));
            ids++;
        }
    }
    if (pending->elements < PENDING_AT_ONCE) {
        s->connection_sets[segment].pending = (struct stream_id){0, 0};
    } else {
        s->connection_sets[segment].claim_us = segments_now_us(s);
    }
    redisReply *reply = NULL;
    if (ids == 0) {
        return;
    }
    if (wire_put(wire, &words) != 0 || wire_flush(wire, taking->deadline_us) != 0 ||
        wire_read(wire, taking->deadline_us, &reply) != 0) {
        connection_set_fails(s, segment);
        return;
    }
    struct stream_id last;
    if (reply->type == REDIS_REPLY_ARRAY) {
        (void)take_rows(taking, segment, wire, reply, &last);
    } else {
        connection_set_error(s, segment, wire, reply, taking->deadline_us);
    }
    freeReplyObject(reply);
}

static void claim_due(struct taking *taking, uint32_t segment)
{
    struct segments_redis *s = taking->s;
    struct outbox_connection_set *connection_set = &s->connection_sets[segment];
    struct wire *wire = connection_set_wire(s, segment, taking->deadline_us);
    char key[SEGMENTS_KEY_MAX];
    char from[ID_TEXT + 1] = "(";
    redisReply *reply = NULL;
    connection_set->claim_us =
        segments_now_us(s) + (int64_t)s->options.claim_ms * 1000 / CLAIM_PART;
    if (wire == NULL || !connection_set->grouped) {
        return;
    }
    segments_key(s, segment, "out", key);
    stream_text(connection_set->pending, from + 1);
    if (wire_format(wire, "XPENDING %s " GROUP " IDLE %u %s + %d", key, s->options.claim_ms, from,
                    PENDING_AT_ONCE) != 0 ||
        wire_flush(wire, taking->deadline_us) != 0 ||
        wire_read(wire, taking->deadline_us, &reply) != 0) {
        connection_set_fails(s, segment);
        return;
    }
    if (reply->type == REDIS_REPLY_ARRAY) {
        claim(taking, segment, wire, reply);
    } else {
        connection_set_error(s, segment, wire, reply, taking->deadline_us);
    }
    freeReplyObject(reply);
}

/* ---- a round ---- */

/* Asks each segment of the list for its share of the room. */
static void request(struct taking *taking, const uint32_t *segments, uint32_t count)
{
    struct segments_redis *s = taking->s;
    size_t room = taking->max - taking->count;
    taking->requests = 0;
    for (uint32_t i = 0; i < count && room > 0; i++) {
        uint32_t segment = segments[i];
        struct wire *wire = connection_set_wire(s, segment, taking->deadline_us);
        size_t share = room / (count - i);
        char key[SEGMENTS_KEY_MAX];
        char from[ID_TEXT] = ">";
        if (wire == NULL) {
            continue;
        }
        share = share > 0 ? share : 1;
        segments_key(s, segment, "out", key);
        if (s->connection_sets[segment].own) {
            stream_text(s->connection_sets[segment].own_to, from);
        }
        if (wire_format(wire, "XREADGROUP GROUP " GROUP " %s COUNT %llu STREAMS %s %s",
                        s->options.worker, (unsigned long long)share, key, from) != 0) {
            connection_set_fails(s, segment);
            continue;
        }
        room -= share;
        taking->asked[taking->requests] = segment;
        taking->wires[taking->requests] = wire;
        taking->shares[taking->requests++] = share;
    }
    for (uint32_t i = 0; i < taking->requests; i++) {
        (void)wire_flush(taking->wires[i], taking->deadline_us);
    }
}

/* True: it may have more. */
static bool read_rows(struct taking *taking, uint32_t segment, struct wire *wire,
                      const redisReply *reply, size_t share)
{
    struct outbox_connection_set *connection_set = &taking->s->connection_sets[segment];
    size_t rows = 0;
    connection_set->grouped = true;
    connection_set->away = false;
    /* [[key, rows]], or nil: none */
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 &&
        reply->element[0]->type == REDIS_REPLY_ARRAY && reply->element[0]->elements == 2) {
        struct stream_id last = connection_set->own_to;
        rows = take_rows(taking, segment, wire, reply->element[0]->element[1], &last);
        connection_set->own_to = last;
    }
    if (connection_set->own && rows < share) {
        connection_set->own = false;
        return true; /* the new ones */
    }
    return rows == share;
}

/*
 * Reads what was asked; keeps in segments those that may have more. Answers stand in the pipeline of
 * their wire, so all of them are read before anything else is asked there.
 */
static uint32_t collect(struct taking *taking, uint32_t *segments)
{
    struct segments_redis *s = taking->s;
    redisReply *replies[SEGMENTS_MAX];
    uint32_t more = 0;
    for (uint32_t i = 0; i < taking->requests; i++) {
        struct wire *wire = taking->wires[i];
        replies[i] = NULL;
        if (s->connection_sets[taking->asked[i]].connection != wire->number ||
            wire_read(wire, taking->deadline_us, &replies[i]) != 0) {
            connection_set_fails(s, taking->asked[i]);
        }
    }
    for (uint32_t i = 0; i < taking->requests; i++) {
        uint32_t segment = taking->asked[i];
        struct wire *wire = taking->wires[i];
        if (replies[i] == NULL) {
            continue;
        }
        if (replies[i]->type == REDIS_REPLY_ERROR) {
            connection_set_error(s, segment, wire, replies[i], taking->deadline_us);
        } else if (read_rows(taking, segment, wire, replies[i], taking->shares[i])) {
            segments[more++] = segment;
        }
        freeReplyObject(replies[i]);
    }
    return more;
}

/* Those of the mask, beginning with another one each time. */
static uint32_t in_turn(struct segments_redis *s, uint64_t mask, uint32_t *ret_segments)
{
    uint32_t count = 0;
    CHECK(s->options.segments > 0);
    for (uint32_t i = 0; i < s->options.segments; i++) {
        uint32_t segment = (s->turn + i) % s->options.segments;
        if ((mask >> segment & 1) != 0) {
            ret_segments[count++] = segment;
        }
    }
    s->turn = (s->turn + 1) % s->options.segments;
    return count;
}

static void take_now(struct taking *taking, uint64_t mask)
{
    uint32_t segments[SEGMENTS_MAX];
    uint32_t count = in_turn(taking->s, mask, segments);
    int64_t now = segments_now_us(taking->s);
    taking->deadline_us = segments_deadline_us(taking->s);
    for (uint32_t i = 0; i < count && taking->count < taking->max; i++) {
        if (now >= taking->s->connection_sets[segments[i]].claim_us) {
            claim_due(taking, segments[i]);
        }
    }
    for (int i = 0; i < ROUNDS_MAX && count > 0 && taking->count < taking->max; i++) {
        request(taking, segments, count);
        count = collect(taking, segments);
    }
}

int segments_outbox_take(struct segments *segments, uint64_t mask, struct outbox_entry *ret_entries,
                         size_t max, int64_t wait_ms, size_t *ret_count)
{
    struct segments_redis *s = segments_of(segments);
    struct taking taking = {.s = s, .entries = ret_entries, .max = max};
    int64_t until_us = segments_now_us(s) + wait_ms * 1000;
    int64_t pause_ms = POLL_MIN_MS;
    for (;;) {
        take_now(&taking, mask);
        if (taking.count > 0) {
            *ret_count = taking.count;
            return 0;
        }
        if (s->outbox_trouble) {
            s->outbox_trouble = false;
            return ERR_IO;
        }
        int64_t now = segments_now_us(s);
        int64_t next = now + pause_ms * 1000;
        if (now >= until_us || segments_wait(s, next < until_us ? next : until_us)) {
            return ERR_AGAIN;
        }
        pause_ms = backoff_grow(pause_ms, POLL_MIN_MS, POLL_MAX_MS);
    }
}

/* ---- done ---- */

/* XDEL and XACK of some entries of one segment, from index on. How many; -1: failed. */
static int put_done(struct segments_redis *s, struct wire *wire, const struct outbox_entry *entries,
                    size_t count, uint32_t segment, size_t *index)
{
    char memory[2][(IDS_AT_ONCE + 5) * (ID_TEXT + 8) + SEGMENTS_KEY_MAX];
    struct redis_words del = words_over(memory[0], sizeof(memory[0]));
    struct redis_words ack = words_over(memory[1], sizeof(memory[1]));
    char key[SEGMENTS_KEY_MAX];
    char id[ID_TEXT];
    int ids = 0;
    segments_key(s, segment, "out", key);
    words_put(&del, span_of("XDEL"));
    words_put(&del, span_of(key));
    words_put(&ack, span_of("XACK"));
    words_put(&ack, span_of(key));
    words_put(&ack, span_of(GROUP));
    for (; *index < count && ids < IDS_AT_ONCE; (*index)++) {
        if (entries[*index].segment == segment) {
            stream_text((struct stream_id){entries[*index].mark[0], entries[*index].mark[1]}, id);
            words_put(&del, span_of(id));
            words_put(&ack, span_of(id));
            ids++;
        }
    }
    return ids == 0 || (wire_put(wire, &del) == 0 && wire_put(wire, &ack) == 0) ? ids : -1;
}

/* All of one segment. */
static int done_of(struct segments_redis *s, const struct outbox_entry *entries, size_t count,
                   uint32_t segment)
{
    int64_t deadline_us = segments_deadline_us(s);
    struct wire *wire = segments_ready(s, segment, deadline_us);
    int error = wire != NULL ? 0 : ERR_IO;
    for (size_t index = 0; error == 0 && index < count;) {
        int ids = put_done(s, wire, entries, count, segment, &index);
        error = ids < 0 ? ERR_IO : ids > 0 ? wire_flush(wire, deadline_us) : 0;
        for (int i = 0; error == 0 && ids > 0 && i < 2; i++) {
            redisReply *reply = NULL;
            error = wire_read(wire, deadline_us, &reply);
            if (error == 0 && reply->type == REDIS_REPLY_ERROR) {
                (void)wire_error(wire, reply);
                wire_close(wire, wire->trouble); /* what else it answers is nobody's */
                error = ERR_IO;
            }
            freeReplyObject(reply);
        }
    }
    return error;
}

int segments_outbox_done(struct segments *segments, const struct outbox_entry *entries,
                         size_t count)
{
    struct segments_redis *s = segments_of(segments);
    uint64_t mask = 0;
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        mask |= 1ULL << entries[i].segment;
    }
    for (uint32_t segment = 0; segment < s->options.segments; segment++) {
        if ((mask >> segment & 1) != 0 && done_of(s, entries, count, segment) != 0) {
            result = ERR_IO;
        }
    }
    return result;
}
