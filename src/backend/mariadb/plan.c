/* See plan.h. */
#include "backend/mariadb/plan.h"

#include <stdlib.h>

#include "base/check.h"

#define ROWS_FIRST 64

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b * 0x9e3779b97f4a7c15ULL)) * 0xff51afd7ed558ccdULL;
    h = (h ^ (h >> 32)) * 0xc4ceb9fe1a85ec53ULL;
    return h ^ (h >> 29);
}

static uint64_t hash_bytes(struct span bytes)
{
    uint64_t h = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < bytes.len; i++) {
        /* The analyzer does not believe that realloc keeps the rows. */
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
        h = (h ^ (uint8_t)bytes.at[i]) * 0x100000001b3ULL;
    }
    return mix(h, bytes.len);
}

/* A key of any table; those of numbers have no text. */
struct key {
    uint64_t a;
    uint64_t b;
    struct span text;
};

static struct key item_key(const struct plan_item *row)
{
    return (struct key){.a = row->row.id};
}
static struct key order_key(const struct plan_order *row)
{
    return (struct key){.a = row->row.id.hi, .b = row->row.id.lo};
}
static struct key holding_key(const struct plan_holding *row)
{
    return (struct key){.a = row->item, .b = row->user};
}
static struct key allotment_key(const struct plan_allotment *row)
{
    return (struct key){.a = row->item, .b = row->segment};
}
static struct key payment_key(const struct plan_payment *row)
{
    struct span text = span_of(row->key);
    return (struct key){.a = hash_bytes(text), .text = text};
}
static bool key_same(struct key x, struct key y)
{
    return x.a == y.a && x.b == y.b && span_equal(x.text, y.text);
}

static bool index_grow(struct plan_index *index)
{
    size_t capacity = index->capacity == 0 ? (size_t)2 * ROWS_FIRST : 2 * index->capacity;
    uint32_t *slots = calloc(capacity, sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    free(index->slots);
    *index = (struct plan_index){slots, capacity};
    return true;
}

static void index_clear(struct plan_index *index)
{
    if (index->capacity > 0) {
        memset(index->slots, 0, index->capacity * sizeof(*index->slots));
    }
}

/* For each table: the slot of a key (its own, or the empty one where it belongs), finding, adding. */
#define X(name)                                                                                    \
    static uint32_t *name##_slot(const struct plan *plan, struct key key)                          \
    {                                                                                              \
        const struct plan_index *index = &plan->name##s.index;                                     \
        size_t mask = index->capacity - 1;                                                         \
        size_t at = mix(key.a, key.b) & mask;                                                      \
        while (index->slots[at] != 0 &&                                                            \
               !key_same(name##_key(&plan->name##s.rows[index->slots[at] - 1]), key)) {            \
            at = (at + 1) & mask;                                                                  \
        }                                                                                          \
        return &index->slots[at];                                                                  \
    }                                                                                              \
    static struct plan_##name *name##_find(struct plan *plan, struct key key)                      \
    {                                                                                              \
        if (plan->name##s.count == 0) {                                                            \
            return NULL;                                                                           \
        }                                                                                          \
        uint32_t place = *name##_slot(plan, key);                                                  \
        return place == 0 ? NULL : &plan->name##s.rows[place - 1];                                 \
    }                                                                                              \
    static bool name##_grow(struct plan *plan)                                                     \
    {                                                                                              \
        size_t capacity = plan->name##s.capacity == 0 ? ROWS_FIRST : 2 * plan->name##s.capacity;   \
        struct plan_##name *rows = realloc(plan->name##s.rows, capacity * sizeof(*rows));          \
        if (rows == NULL) {                                                                        \
            return false;                                                                          \
        }                                                                                          \
        plan->name##s.rows = rows;                                                                 \
        if (!index_grow(&plan->name##s.index)) {                                                   \
            return false;                                                                          \
        }                                                                                          \
        plan->name##s.capacity = capacity;                                                         \
        for (size_t i = 0; i < plan->name##s.count; i++) {                                         \
            *name##_slot(plan, name##_key(&rows[i])) = (uint32_t)i + 1;                            \
        }                                                                                          \
        return true;                                                                               \
    }                                                                                              \
    /* The place for one more row; its key has to be written before the index knows it. */         \
    static struct plan_##name *name##_new(struct plan *plan)                                       \
    {                                                                                              \
        if (plan->name##s.count == plan->name##s.capacity && !name##_grow(plan)) {                 \
            return NULL;                                                                           \
        }                                                                                          \
        CHECK(plan->name##s.rows != NULL);                                                         \
        struct plan_##name *row = &plan->name##s.rows[plan->name##s.count];                        \
        memset(row, 0, sizeof(*row));                                                              \
        return row;                                                                                \
    }                                                                                              \
    static struct plan_##name *name##_enter(struct plan *plan, struct plan_##name *row)            \
    {                                                                                              \
        *name##_slot(plan, name##_key(row)) = (uint32_t)++plan->name##s.count;                     \
        return row;                                                                                \
    }
PLAN_TABLES(X)
#undef X

struct plan_item *plan_item(struct plan *plan, uint64_t id)
{
    return item_find(plan, (struct key){.a = id});
}

struct plan_order *plan_order(struct plan *plan, struct order_id id)
{
    return order_find(plan, (struct key){.a = id.hi, .b = id.lo});
}

struct plan_holding *plan_holding(struct plan *plan, uint64_t item, uint64_t user)
{
    return holding_find(plan, (struct key){.a = item, .b = user});
}

struct plan_payment *plan_payment(struct plan *plan, struct span key)
{
    return payment_find(plan, (struct key){.a = hash_bytes(key), .text = key});
}

struct plan_allotment *plan_allotment(struct plan *plan, uint64_t item, uint32_t segment)
{
    return allotment_find(plan, (struct key){.a = item, .b = segment});
}

struct plan_item *plan_item_add(struct plan *plan, uint64_t id)
{
    struct plan_item *row = plan_item(plan, id);
    if (row == NULL && (row = item_new(plan)) != NULL) {
        row->row.id = id;
        row = item_enter(plan, row);
    }
    return row;
}

struct plan_order *plan_order_add(struct plan *plan, struct order_id id)
{
    struct plan_order *row = plan_order(plan, id);
    if (row == NULL && (row = order_new(plan)) != NULL) {
        row->row.id = id;
        row = order_enter(plan, row);
    }
    return row;
}

struct plan_holding *plan_holding_add(struct plan *plan, uint64_t item, uint64_t user)
{
    struct plan_holding *row = plan_holding(plan, item, user);
    if (row == NULL && (row = holding_new(plan)) != NULL) {
        row->item = item;
        row->user = user;
        row = holding_enter(plan, row);
    }
    return row;
}

struct plan_allotment *plan_allotment_add(struct plan *plan, uint64_t item, uint32_t segment)
{
    struct plan_allotment *row = plan_allotment(plan, item, segment);
    if (row == NULL && (row = allotment_new(plan)) != NULL) {
        row->item = item;
        row->segment = segment;
        row = allotment_enter(plan, row);
    }
    return row;
}

struct plan_payment *plan_payment_add(struct plan *plan, struct span key)
{
    CHECK(key.len <= PAYMENT_ID_MAX_BYTES);
    struct plan_payment *row = plan_payment(plan, key);
    if (row == NULL && (row = payment_new(plan)) != NULL) {
        memcpy(row->key, key.at, key.len);
        row = payment_enter(plan, row);
    }
    return row;
}

void plan_clear(struct plan *plan)
{
#define X(name)                                                                                    \
    if (plan->name##s.count > 0) {                                                                 \
        plan->name##s.count = 0;                                                                   \
        index_clear(&plan->name##s.index);                                                         \
    }
    PLAN_TABLES(X)
#undef X
}

void plan_free(struct plan *plan)
{
#define X(name)                                                                                    \
    free(plan->name##s.rows);                                                                      \
    free(plan->name##s.index.slots);
    PLAN_TABLES(X)
#undef X
}

void plan_allotment_move(struct plan_allotment *allotment, int64_t locked, int64_t sold)
{
    allotment->room -= locked + sold;
    allotment->move_locked += locked;
    allotment->move_sold += sold;
}

void plan_hold(struct plan_holding *holding, int64_t held, int64_t ended, bool barred)
{
    holding->held += held;
    holding->move_held += held;
    holding->move_ended += ended;
    holding->barred = holding->barred || barred;
    holding->touched = true;
}
