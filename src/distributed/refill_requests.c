/* See refill_requests.h. */
#include "distributed/refill_requests.h"

#include <string.h>

#include "base/check.h"

void refill_requests_init(struct refill_requests *ret_refill_requests)
{
    memset(ret_refill_requests, 0, sizeof(*ret_refill_requests));
    CHECK(pthread_mutex_init(&ret_refill_requests->lock, NULL) == 0);
}

void refill_requests_done(struct refill_requests *refill_requests)
{
    (void)pthread_mutex_destroy(&refill_requests->lock);
}

static void lock(struct refill_requests *refill_requests)
{
    CHECK(pthread_mutex_lock(&refill_requests->lock) == 0);
}

static void unlock(struct refill_requests *refill_requests)
{
    CHECK(pthread_mutex_unlock(&refill_requests->lock) == 0);
}

/* NULL: there is none. */
static struct refill_entry *find(struct refill_requests *refill_requests, uint32_t segment,
                                 uint64_t item)
{
    size_t count = atomic_load(&refill_requests->count);
    for (size_t i = 0; i < count; i++) {
        struct refill_entry *entry = &refill_requests->list[i];
        if (entry->refill.item == item && entry->refill.segment == segment) {
            return entry;
        }
    }
    return NULL;
}

/* ---- buyers ---- */

bool refill_requests_wait(struct refill_requests *refill_requests, uint32_t segment, uint64_t item,
                          uint64_t units)
{
    lock(refill_requests);
    struct refill_entry *entry = find(refill_requests, segment, item);
    size_t count = atomic_load(&refill_requests->count);
    if (entry == NULL && count < REFILL_REQUESTS_MAX) {
        entry = &refill_requests->list[count];
        *entry = (struct refill_entry){.refill = {.item = item, .segment = segment}};
        atomic_store(&refill_requests->count, count + 1);
    }
    if (entry != NULL) {
        struct refill *refill = &entry->refill;
        refill->least = refill->waiting == 0 || units < refill->least ? units : refill->least;
        refill->waiting += units;
        entry->came += units;
    }
    unlock(refill_requests);
    return entry != NULL;
}

static void take_expected(struct refill_entry *entry, uint64_t units)
{
    uint64_t expected = entry->refill.expected;
    entry->refill.expected = expected > units ? expected - units : 0;
}

void refill_requests_leave(struct refill_requests *refill_requests, uint32_t segment, uint64_t item,
                           uint64_t units, bool got)
{
    lock(refill_requests);
    struct refill_entry *entry = find(refill_requests, segment, item);
    CHECK(entry != NULL && entry->refill.waiting >= units);
    entry->refill.waiting -= units;
    if (got) {
        take_expected(entry, units);
    }
    unlock(refill_requests);
}

void refill_requests_got(struct refill_requests *refill_requests, uint32_t segment, uint64_t item,
                         uint64_t units)
{
    if (atomic_load(&refill_requests->count) == 0) {
        return;
    }
    lock(refill_requests);
    struct refill_entry *entry = find(refill_requests, segment, item);
    if (entry != NULL) {
        entry->came += units;
        take_expected(entry, units);
    }
    unlock(refill_requests);
}

/* ---- the segment monitor ---- */

static void advance(struct refill_entry *entry, int64_t now_ms)
{
    if (entry->period_ms == 0) {
        entry->period_ms = now_ms;
    }
    if (now_ms - entry->period_ms >= REFILL_PERIOD_MS) {
        bool follows = now_ms - entry->period_ms < (int64_t)2 * REFILL_PERIOD_MS;
        entry->came_before = follows ? entry->came : 0;
        entry->came = 0;
        entry->period_ms = now_ms;
    }
    if (now_ms >= entry->expected_until_ms) {
        entry->refill.expected = 0;
    }
}

size_t refill_requests_take(struct refill_requests *refill_requests, int64_t now_ms,
                            struct refill *ret_list)
{
    size_t taken = 0;
    if (atomic_load(&refill_requests->count) == 0) {
        return 0;
    }
    lock(refill_requests);
    size_t count = atomic_load(&refill_requests->count);
    for (size_t i = count; i-- > 0;) {
        struct refill_entry *entry = &refill_requests->list[i];
        struct refill *refill = &entry->refill;
        advance(entry, now_ms);
        refill->forecast = entry->came > entry->came_before ? entry->came : entry->came_before;
        if (refill->waiting > 0) {
            ret_list[taken++] = *refill;
        } else if (refill->forecast + refill->expected == 0) {
            *entry = refill_requests->list[--count];
        }
    }
    atomic_store(&refill_requests->count, count);
    unlock(refill_requests);
    return taken;
}

void refill_requests_granted(struct refill_requests *refill_requests, const struct refill *refill,
                             uint64_t units, int64_t now_ms)
{
    lock(refill_requests);
    struct refill_entry *entry = find(refill_requests, refill->segment, refill->item);
    if (entry != NULL) {
        entry->refill.expected += units;
        entry->expected_until_ms = now_ms + REFILL_TRANSIT_MS;
    }
    unlock(refill_requests);
}
