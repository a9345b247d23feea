/*
 * A chained hash table of order ids, and the tell file. Records never move, so a job may keep a
 * pointer. What can go wrong: no memory, or a tell file that cannot be written. Both end the run,
 * because an incomplete audit proves nothing.
 */
#include "bench/bench_answers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

/* FNV-1a. The ids come from the server under test, not from an attacker. */
static uint64_t id_hash(struct span id)
{
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < id.len; i++) {
        hash = (hash ^ (uint8_t)id.at[i]) * 0x100000001b3ULL;
    }
    return hash ^ hash >> 32;
}

void answer_table_done(struct answer_table *table)
{
    for (size_t i = 0; i < table->bucket_count; i++) {
        struct answer *answer = table->buckets[i];
        while (answer != NULL) {
            struct answer *next = answer->next;
            free(answer);
            answer = next;
        }
    }
    free(table->buckets);
    *table = (struct answer_table){0};
}

static struct answer *bucket_find(const struct answer_table *table, struct span id, uint64_t hash)
{
    if (table->bucket_count == 0) {
        return NULL;
    }
    struct answer *answer = table->buckets[hash & (table->bucket_count - 1)];
    while (answer != NULL &&
           (answer->hash != hash || !span_equal((struct span){answer->id, answer->id_len}, id))) {
        answer = answer->next;
    }
    return answer;
}

struct answer *answer_find(const struct answer_table *table, struct span id)
{
    return bucket_find(table, id, id_hash(id));
}

static int table_grow(struct answer_table *table)
{
    size_t count = table->bucket_count == 0 ? 1024 : table->bucket_count * 2;
    struct answer **buckets = calloc(count, sizeof(*buckets));
    if (buckets == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < table->bucket_count; i++) {
        struct answer *answer = table->buckets[i];
        while (answer != NULL) {
            struct answer *next = answer->next;
            struct answer **bucket = &buckets[answer->hash & (count - 1)];
            answer->next = *bucket;
            *bucket = answer;
            answer = next;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = count;
    return 0;
}

int answer_put(struct answer_table *table, struct span id, struct answer **ret_answer)
{
    uint64_t hash = id_hash(id);
    struct answer *answer = bucket_find(table, id, hash);
    if (answer != NULL) {
        *ret_answer = answer;
        return 0;
    }
    if (id.len == 0 || id.len > BENCH_ORDER_ID_MAX) {
        return ERR_INVALID;
    }
    if (table->count >= table->bucket_count && table_grow(table) != 0) {
        return ERR_NOMEM;
    }
    answer = calloc(1, sizeof(*answer) + id.len);
    if (answer == NULL) {
        return ERR_NOMEM;
    }
    answer->hash = hash;
    answer->state = ANSWER_NONE;
    answer->id_len = (uint8_t)id.len;
    memcpy(answer->id, id.at, id.len);
    struct answer **bucket = &table->buckets[hash & (table->bucket_count - 1)];
    answer->next = *bucket;
    *bucket = answer;
    table->count++;
    *ret_answer = answer;
    return 0;
}

struct answer *answer_next(const struct answer_table *table, const struct answer *answer)
{
    if (answer != NULL && answer->next != NULL) {
        return answer->next;
    }
    size_t bucket = answer == NULL ? 0 : (answer->hash & (table->bucket_count - 1)) + 1;
    for (; bucket < table->bucket_count; bucket++) {
        if (table->buckets[bucket] != NULL) {
            return table->buckets[bucket];
        }
    }
    return NULL;
}

bool answer_may_follow(enum order_state from, enum order_state to)
{
    if (from == to) {
        return true;
    }
    /* A client may miss states: follow the table of moves. */
    for (int move = 0; move < ORDER_MOVE_COUNT; move++) {
        if (order_move_from((enum order_move)move) == from &&
            answer_may_follow(order_move_to((enum order_move)move), to)) {
            return true;
        }
    }
    return false;
}

bool answer_advance(struct answer *answer, int known, enum order_state state)
{
    bool right = known == ANSWER_NONE || answer_may_follow((enum order_state)known, state);
    if (answer->state == ANSWER_NONE || answer_may_follow((enum order_state)answer->state, state)) {
        answer->state = (int8_t)state;
    } else if (!answer_may_follow(state, (enum order_state)answer->state)) {
        right = false;
    }
    return right;
}

int tell_line(struct tell *tell, struct span order_id, uint64_t user, uint64_t item, uint32_t qty,
              int http_status, struct span status)
{
    if (tell->fd < 0) {
        return 0;
    }
    size_t most = order_id.len + status.len + 96;
    if (tell->cap - tell->len < most) {
        size_t cap = tell->cap * 2 + 65536 + most;
        char *lines = realloc(tell->lines, cap);
        if (lines == NULL) {
            return ERR_NOMEM;
        }
        tell->lines = lines;
        tell->cap = cap;
    }
    struct out out = out_over(tell->lines + tell->len, tell->cap - tell->len);
    out_put(&out, order_id);
    out_char(&out, ' ');
    out_u64(&out, user);
    out_char(&out, ' ');
    out_u64(&out, item);
    out_char(&out, ' ');
    out_u64(&out, qty);
    out_char(&out, ' ');
    out_i64(&out, http_status);
    out_char(&out, ' ');
    out_put(&out, status);
    out_char(&out, '\n');
    tell->len += out.len;
    return 0;
}

int tell_flush(struct tell *tell)
{
    if (tell->len == 0) {
        return 0;
    }
    ssize_t n = write(tell->fd, tell->lines, tell->len);
    if (n != (ssize_t)tell->len) {
        return ERR_IO;
    }
    tell->len = 0;
    return 0;
}
