/* The referee's tables and small helpers. Everything is walked in the order of adding, so that
 * nothing depends on addresses or on the hash. */
#include <stdlib.h>

#include "base/check.h"
#include "referee_private.h"

static void *must(void *memory)
{
    CHECK(memory != NULL);
    return memory;
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

/* ---- tables ---- */

static uint32_t *place(const struct ref_table *table, uint64_t a, uint64_t b)
{
    uint32_t at = (uint32_t)mix(mix(a) + b) & table->mask;
    while (table->slots[at] != 0) {
        const struct ref_pair *pair = table->entries[table->slots[at] - 1];
        if (pair->a == a && pair->b == b) {
            break;
        }
        at = (at + 1) & table->mask;
    }
    return &table->slots[at];
}

void *ref_table_find(const struct ref_table *table, uint64_t a, uint64_t b)
{
    if (table->count == 0) {
        return NULL;
    }
    uint32_t slot = *place(table, a, b);
    return slot == 0 ? NULL : table->entries[slot - 1];
}

static void grow(struct ref_table *table)
{
    uint32_t slots = table->slots == NULL ? 64 : (table->mask + 1) * 2;
    free(table->slots);
    table->slots = must(calloc(slots, sizeof(*table->slots)));
    table->mask = slots - 1;
    table->capacity = slots / 2;
    table->entries = must(realloc(table->entries, table->capacity * sizeof(*table->entries)));
    for (uint32_t i = 0; i < table->count; i++) {
        const struct ref_pair *pair = table->entries[i];
        *place(table, pair->a, pair->b) = i + 1;
    }
}

void *ref_table_add(struct ref_table *table, uint64_t a, uint64_t b, size_t size)
{
    if (table->count == table->capacity) {
        grow(table);
    }
    uint32_t *slot = place(table, a, b);
    CHECK(*slot == 0);
    struct ref_pair *entry = must(calloc(1, size));
    *entry = (struct ref_pair){a, b};
    table->entries[table->count++] = entry;
    *slot = table->count;
    return entry;
}

void ref_table_done(struct ref_table *table)
{
    for (uint32_t i = 0; i < table->count; i++) {
        free(table->entries[i]);
    }
    free(table->entries);
    free(table->slots);
}

/* ---- the lowest value since a moment ---- */

void ref_low_set(struct ref_low *low, uint64_t when, int64_t value)
{
    if (!low->known) {
        low->known = true;
        low->now = value;
        return;
    }
    if (low->now == value) {
        return;
    }
    while (low->count > 0 && low->ended[low->count - 1].value >= low->now) {
        low->count--;
    }
    if (low->count == low->capacity) {
        low->capacity = low->capacity == 0 ? 16 : low->capacity * 2;
        low->ended = must(realloc(low->ended, low->capacity * sizeof(*low->ended)));
    }
    low->ended[low->count].until = when;
    low->ended[low->count++].value = low->now;
    low->now = value;
}

int64_t ref_low_since(const struct ref_low *low, uint64_t when)
{
    uint32_t from = 0;
    uint32_t to = low->count; /* the first that ended at or after `when` is in [from, to] */
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (low->ended[middle].until >= when) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    return from < low->count && low->ended[from].value < low->now ? low->ended[from].value
                                                                  : low->now;
}

/* ---- finding and making ---- */

struct ref_order *ref_find_order(const struct referee *r, struct order_id id)
{
    return ref_table_find(&r->orders, id.hi, id.lo);
}

struct ref_sale *ref_sale(struct referee *r, uint64_t id)
{
    struct ref_sale *sale = ref_table_find(&r->sales, id, 0);
    return sale != NULL ? sale : ref_table_add(&r->sales, id, 0, sizeof(*sale));
}

struct ref_item *ref_item(struct referee *r, uint64_t id)
{
    struct ref_item *item = ref_table_find(&r->items, id, 0);
    if (item == NULL) {
        item = ref_table_add(&r->items, id, 0, sizeof(*item));
        item->loaded_at = NEVER;
        item->slot = GATE_NONE;
    }
    return item;
}

struct ref_buyer *ref_buyer(struct referee *r, uint64_t user, uint64_t item)
{
    struct ref_buyer *buyer = ref_table_find(&r->buyers, user, item);
    if (buyer == NULL) {
        buyer = ref_table_add(&r->buyers, user, item, sizeof(*buyer));
        buyer->item = ref_item(r, item);
    }
    return buyer;
}

struct ref_request *ref_request(struct referee *r, uint64_t number)
{
    while (number >= r->requests_capacity) {
        uint64_t more = r->requests_capacity == 0 ? 1024 : r->requests_capacity;
        r->requests =
            must(realloc(r->requests, (r->requests_capacity + more) * sizeof(*r->requests)));
        memset(r->requests + r->requests_capacity, 0, more * sizeof(*r->requests));
        r->requests_capacity += more;
    }
    return &r->requests[number];
}

uint64_t ref_text_hash(const char *text)
{
    uint64_t h = 0xcbf29ce484222325ULL;
    for (; *text != '\0'; text++) {
        h = (h ^ (unsigned char)*text) * 0x100000001b3ULL;
    }
    return mix(h);
}

struct ref_key *ref_key(struct referee *r, enum ledger_kind kind, const char *key, uint64_t item)
{
    uint64_t hash = ref_text_hash(key);
    uint64_t of = (uint64_t)kind << 56 ^ item;
    struct ref_key *found = ref_table_find(&r->keys, hash, of);
    return found != NULL ? found : ref_table_add(&r->keys, hash, of, sizeof(*found));
}

uint64_t ref_body_hash(enum ledger_kind kind, const char *key, uint64_t a, uint64_t b, uint64_t c)
{
    return mix(mix(mix(mix(ref_text_hash(key) + (uint64_t)kind) + a) + b) + c);
}

struct ref_body *ref_body(struct referee *r, uint64_t hash)
{
    struct ref_body *body = ref_table_find(&r->bodies, hash, 0);
    if (body == NULL) {
        body = ref_table_add(&r->bodies, hash, 0, sizeof(*body));
        body->told_done_at = NEVER;
        body->told_expired_at = NEVER;
    }
    return body;
}

/* ---- what is known ---- */

struct ref_name ref_name(struct order_id id)
{
    struct ref_name name;
    order_id_text(id, name.text);
    name.text[ORDER_ID_TEXT] = '\0';
    return name;
}

int ref_rank(enum order_state state)
{
    return state == ORDER_QUEUED ? RANK_QUEUED : state == ORDER_LOCKED ? RANK_LOCKED : RANK_FINAL;
}

bool ref_was_asked(const struct ref_order *order, uint64_t user, uint64_t item, uint32_t qty)
{
    if (item != order->item->pair.a) {
        return false;
    }
    for (uint32_t i = 0; i < order->asks_count; i++) {
        if (order->requests[i].user == user && order->requests[i].qty == qty) {
            return true;
        }
    }
    return order->asked_otherwise;
}

bool ref_forgotten(const struct ref_order *order)
{
    return order->item->sale != NULL && order->item->sale->forgotten;
}

enum order_state ref_state_at(const struct ref_order *order, uint64_t event)
{
    if (!order->in_truth || event < order->locked_event) {
        return ORDER_QUEUED;
    }
    if (order->state == ORDER_LOCKED || order->state == ORDER_FAILED) {
        return order->state;
    }
    return event < order->ended_event ? ORDER_LOCKED : order->state;
}

static int rank_at(const uint64_t *at, uint64_t when)
{
    int rank = -1;
    for (int i = 0; i < RANKS; i++) {
        rank = at[i] <= when ? i : rank;
    }
    return rank;
}

int ref_told_rank(const struct ref_order *order, uint64_t when)
{
    return rank_at(order->told_at, when);
}

int ref_truth_rank(const struct ref_order *order, uint64_t when)
{
    return rank_at(order->truth_at, when);
}

uint32_t ref_qty(const struct ref_order *order)
{
    return order->in_truth ? order->qty : order->in_gate ? order->gate_qty : 0;
}

bool ref_outcome_unknown(const struct sim_answer *answer)
{
    return answer->status == 503 && strcmp(answer->retry, "same-ticket") == 0;
}

/* ---- inside time ---- */

/* The slew moves it by at most half a millisecond a second; two readings and a rounding besides. */
static int64_t tolerance_ms(const struct referee *r)
{
    return 2 + (r->boot_us - r->boot_start_us) * 6 / 10 / 1000000;
}

int64_t ref_inside_low(const struct referee *r)
{
    return r->start_low_ms + (r->boot_us - r->boot_start_us) / 1000 - tolerance_ms(r);
}

int64_t ref_inside_high(const struct referee *r)
{
    return r->start_high_ms + (r->boot_us - r->boot_start_us) / 1000 + tolerance_ms(r);
}
