/* See segments_redis.h. Here: rebuilding a segment, and what older epochs left behind. */
#include <stdlib.h>

#include "backend/redis/reader.h"
#include "backend/redis/segments_private.h"
#include "base/check.h"
#include "base/err.h"

/* Rows of one script call: about a third of a millisecond of the server's time. */
#define ROWS_AT_ONCE 100
/* What one call of sweep does at most: so many steps of SCAN, each looking at so many keys. */
#define SWEEP_STEPS 8
#define SWEEP_KEYS 100

struct claim {
    const struct segment_step *step;
    uint64_t fence;
    uint64_t outbox_max;
};

struct rows {
    const struct segment_step *steps;
    size_t count;
    uint64_t fence;
};

static void put_claim(struct redis_words *words, const struct codec_place *place, const void *what)
{
    const struct claim *claim = what;
    codec_claim(words, place, claim->fence, claim->step, claim->outbox_max);
}

static void put_rows(struct redis_words *words, const struct codec_place *place, const void *what)
{
    const struct rows *rows = what;
    codec_restore(words, place, rows->fence);
    for (size_t i = 0; i < rows->count; i++) {
        codec_row(words, &rows->steps[i]);
    }
}

static enum segment_outcome run(struct segments_redis *s, uint32_t segment, uint64_t epoch,
                                enum redis_script script, segments_put *put, const void *what)
{
    struct codec_answer answer;
    struct wire *wire = NULL;
    redisReply *reply = NULL;
    enum segment_outcome outcome =
        segments_eval(s, segment, epoch, script, put, what, &wire, &reply);
    if (outcome == SEGMENT_DONE) {
        outcome = segments_outcome(codec_read(reply_text(reply), &answer));
        freeReplyObject(reply);
    }
    return outcome;
}

enum segment_outcome segments_rebuild_steps(struct segments *segments, uint32_t segment,
                                            uint64_t epoch, uint64_t fence,
                                            const struct segment_step *steps, size_t count)
{
    struct segments_redis *s = segments_of(segments);
    enum segment_outcome outcome = SEGMENT_DONE;
    for (size_t i = 0; i < count && outcome == SEGMENT_DONE;) {
        if (steps[i].kind == STEP_BEGIN) {
            struct claim claim = {&steps[i], fence, s->options.outbox_max};
            outcome = run(s, segment, epoch, SCRIPT_CLAIM, put_claim, &claim);
            i++;
            continue;
        }
        struct rows rows = {.steps = &steps[i], .fence = fence};
        while (i < count && rows.count < ROWS_AT_ONCE && steps[i].kind != STEP_BEGIN) {
            CHECK(steps[i].kind != STEP_OPEN || i == count - 1); /* nothing is filled behind it */
            rows.count++;
            i++;
        }
        outcome = run(s, segment, epoch, SCRIPT_RESTORE, put_rows, &rows);
    }
    if (outcome == SEGMENT_DONE && count > 0 && steps[count - 1].kind == STEP_OPEN) {
        s->sweeps[segment] = (struct sweep){.wanted = true};
    }
    return outcome;
}

/* ---- what older epochs left ---- */

/* The pattern of all keys of a segment; the prefix may have characters that mean something there. */
static struct span put_pattern(struct out *out, const char *key)
{
    for (const char *c = key; *c != '\0'; c++) {
        if (strchr("*?[]\\", *c) != NULL) {
            out_char(out, '\\');
        }
        out_char(out, *c);
    }
    out_char(out, '*');
    CHECK(!out->overflow);
    return out_span(out);
}

/* PREFIX{TAG}:7:...: of an epoch before `epoch`. */
static bool is_old(struct span key, size_t prefix, uint64_t epoch)
{
    uint64_t of = 0;
    size_t end = prefix;
    while (end < key.len && key.at[end] != ':') {
        end++;
    }
    struct span number = {key.at + prefix, end - prefix};
    return end < key.len && span_parse_u64(number, UINT64_MAX, &of) == 0 && of < epoch;
}

/* One step of SCAN; -1: failed, else how many were unlinked. */
static int sweep_step(struct segments_redis *s, uint32_t segment, uint64_t epoch)
{
    char key[SEGMENTS_KEY_MAX];
    char pattern[2 * SEGMENTS_KEY_MAX];
    struct out out = out_over(pattern, sizeof(pattern));
    struct sweep *sweep = &s->sweeps[segment];
    int64_t deadline_us = segments_deadline_us(s);
    struct wire *wire = segments_ready(s, segment, deadline_us);
    redisReply *reply = NULL;
    int unlinked = 0;
    segments_key(s, segment, "", key);
    struct span match = put_pattern(&out, key);
    if (wire == NULL ||
        wire_format(wire, "SCAN %llu MATCH %b COUNT %d", (unsigned long long)sweep->cursor,
                    match.at, match.len, SWEEP_KEYS) != 0 ||
        wire_flush(wire, deadline_us) != 0 || wire_read(wire, deadline_us, &reply) != 0) {
        return -1;
    }
    bool good = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                span_parse_u64(reply_text(reply->element[0]), UINT64_MAX, &sweep->cursor) == 0;
    for (size_t i = 0; good && i < reply->element[1]->elements; i++) {
        struct span found = reply_text(reply->element[1]->element[i]);
        if (is_old(found, strlen(key), epoch)) {
            good = wire_format(wire, "UNLINK %b", found.at, found.len) == 0;
            unlinked += good;
        }
    }
    freeReplyObject(reply);
    good = good && wire_flush(wire, deadline_us) == 0;
    for (int i = 0; good && i < unlinked; i++) {
        good = wire_read(wire, deadline_us, &reply) == 0;
        freeReplyObject(good ? reply : NULL);
    }
    return good ? unlinked : -1;
}

int segments_redis_sweep(struct segments *segments, uint32_t segment, uint64_t *ret_unlinked)
{
    struct segments_redis *s = segments_of(segments);
    struct sweep *sweep = &s->sweeps[segment];
    struct segment_state state;
    uint64_t unlinked = 0;
    segments_state(s, segment, &state);
    if (state.outcome != SEGMENT_DONE) {
        return ERR_IO;
    }
    sweep->wanted = true;
    for (int i = 0; i < SWEEP_STEPS && sweep->wanted; i++) {
        int n = sweep_step(s, segment, state.epoch);
        if (n < 0) {
            return ERR_IO;
        }
        unlinked += (uint64_t)n;
        sweep->wanted = sweep->cursor != 0;
    }
    *ret_unlinked = unlinked;
    return sweep->wanted ? ERR_AGAIN : 0;
}
