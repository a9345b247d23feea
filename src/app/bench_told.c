/*
 * A chained hash table of order ids, and the tell file. Records never move, so that a job may keep
 * a pointer. What can go wrong: no memory, or a tell file that cannot be written; both end the run,
 * because an audit with holes in it proves nothing.
 */
#include "app/bench_told.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

/* FNV-1a: ids come from the server under test, not from an attacker. */
static uint64_t id_hash(struct span id)
{
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < id.len; i++) {
        hash = (hash ^ (uint8_t)id.at[i]) * 0x100000001b3ULL;
    }
    return hash ^ hash >> 32;
}

void told_table_done(struct told_table *table)
{
    for (size_t i = 0; i < table->bucket_count; i++) {
        struct told *told = table->buckets[i];
        while (told != NULL) {
            struct told *next = told->next;
            free(told);
            told = next;
        }
    }
    free(table->buckets);
    *table = (struct told_table){0};
}

static struct told *bucket_find(const struct told_table *table, struct span id, uint64_t hash)
{
    if (table->bucket_count == 0) {
        return NULL;
    }
    struct told *told = table->buckets[hash & (table->bucket_count - 1)];
    while (told != NULL &&
           (told->hash != hash || !span_equal((struct span){told->id, told->id_len}, id))) {
        told = told->next;
    }
    return told;
}

struct told *told_find(const struct told_table *table, struct span id)
{
    return bucket_find(table, id, id_hash(id));
}

static int table_grow(struct told_table *table)
{
    size_t count = table->bucket_count == 0 ? 1024 : table->bucket_count * 2;
    struct told **buckets = calloc(count, sizeof(*buckets));
    if (buckets == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < table->bucket_count; i++) {
        struct told *told = table->buckets[i];
        while (told != NULL) {
            struct told *next = told->next;
            struct told **bucket = &buckets[told->hash & (count - 1)];
            told->next = *bucket;
            *bucket = told;
            told = next;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = count;
    return 0;
}

int told_put(struct told_table *table, struct span id, struct told **ret_told)
{
    uint64_t hash = id_hash(id);
    struct told *told = bucket_find(table, id, hash);
    if (told != NULL) {
        *ret_told = told;
        return 0;
    }
    if (id.len == 0 || id.len > BENCH_ORDER_ID_MAX) {
        return ERR_INVALID;
    }
    if (table->count >= table->bucket_count && table_grow(table) != 0) {
        return ERR_NOMEM;
    }
    told = calloc(1, sizeof(*told) + id.len);
    if (told == NULL) {
        return ERR_NOMEM;
    }
    told->hash = hash;
    told->state = TOLD_NOTHING;
    told->id_len = (uint8_t)id.len;
    memcpy(told->id, id.at, id.len);
    struct told **bucket = &table->buckets[hash & (table->bucket_count - 1)];
    told->next = *bucket;
    *bucket = told;
    table->count++;
    *ret_told = told;
    return 0;
}

struct told *told_next(const struct told_table *table, const struct told *told)
{
    if (told != NULL && told->next != NULL) {
        return told->next;
    }
    size_t bucket = told == NULL ? 0 : (told->hash & (table->bucket_count - 1)) + 1;
    for (; bucket < table->bucket_count; bucket++) {
        if (table->buckets[bucket] != NULL) {
            return table->buckets[bucket];
        }
    }
    return NULL;
}

bool told_may_follow(enum order_state from, enum order_state to)
{
    if (from == to) {
        return true;
    }
    /* States may be skipped by a client that was not looking: follow the table of moves. */
    for (int move = 0; move < ORDER_MOVE_COUNT; move++) {
        if (order_move_from((enum order_move)move) == from &&
            told_may_follow(order_move_to((enum order_move)move), to)) {
            return true;
        }
    }
    return false;
}

bool told_advance(struct told *told, int known, enum order_state state)
{
    bool right = known == TOLD_NOTHING || told_may_follow((enum order_state)known, state);
    if (told->state == TOLD_NOTHING || told_may_follow((enum order_state)told->state, state)) {
        told->state = (int8_t)state;
    } else if (!told_may_follow(state, (enum order_state)told->state)) {
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
