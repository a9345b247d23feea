/* See loop_notices.h. */
#include "distributed/loop_notices.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "base/limits.h"

/* Changed orders that a loop may leave untaken before it has to look up all it watches: 72 bytes
 * each. */
#define NOTICES_MAX 4096
/* With 20,000 watchers (as many as a process has files) three of four unwatched orders still cause
 * no notice. 4 bytes each. */
#define WATCHED_BUCKETS 65536U

struct loop {
    pthread_mutex_t lock;
    size_t count;
    bool all;
    struct order_view *views;  /* NOTICES_MAX, as received */
    _Atomic uint32_t *watched; /* WATCHED_BUCKETS */
};

struct loop_notices {
    struct order_notices port; /* must be first */
    struct waker *wakers;
    uint32_t loops_count;
    struct loop loops[];
};

static void lock(struct loop *loop)
{
    CHECK(pthread_mutex_lock(&loop->lock) == 0);
}

static void unlock(struct loop *loop)
{
    CHECK(pthread_mutex_unlock(&loop->lock) == 0);
}

static uint32_t watched_bucket(struct order_id id)
{
    uint64_t h = order_id_hash(id, 0);
    return (uint32_t)(h >> 32) % WATCHED_BUCKETS;
}

static size_t take(struct order_notices *port, uint32_t index, struct order_view *ret_views,
                   size_t max, bool *ret_all)
{
    struct loop *loop = &((struct loop_notices *)port)->loops[index];
    lock(loop);
    size_t n = loop->count < max ? loop->count : max;
    for (size_t i = 0; i < n; i++) {
        ret_views[i] = loop->views[--loop->count];
    }
    *ret_all = loop->all;
    loop->all = false;
    unlock(loop);
    return n;
}

static void watch(struct order_notices *port, uint32_t index, struct order_id id)
{
    struct loop *loop = &((struct loop_notices *)port)->loops[index];
    (void)atomic_fetch_add(&loop->watched[watched_bucket(id)], 1);
}

static void unwatch(struct order_notices *port, uint32_t index, struct order_id id)
{
    struct loop *loop = &((struct loop_notices *)port)->loops[index];
    CHECK(atomic_fetch_sub(&loop->watched[watched_bucket(id)], 1) > 0);
}

static const struct order_notices_ops ops = {take, watch, unwatch};

void loop_notices_post(struct loop_notices *notices, const struct order_view *view)
{
    uint32_t bucket = watched_bucket(view->id);
    for (uint32_t i = 0; i < notices->loops_count; i++) {
        struct loop *loop = &notices->loops[i];
        if (atomic_load(&loop->watched[bucket]) == 0) {
            continue; /* whoever watches it from now on looks it up, and sees this */
        }
        lock(loop);
        if (loop->count < NOTICES_MAX) {
            loop->views[loop->count++] = *view;
        } else {
            loop->all = true;
        }
        unlock(loop);
        waker_wake(&notices->wakers[i]);
    }
}

void loop_notices_post_all(struct loop_notices *notices)
{
    for (uint32_t i = 0; i < notices->loops_count; i++) {
        lock(&notices->loops[i]);
        notices->loops[i].all = true;
        unlock(&notices->loops[i]);
        waker_wake(&notices->wakers[i]);
    }
}

int loop_notices_new(struct waker *wakers, uint32_t loops, struct loop_notices **ret_notices)
{
    CHECK(loops >= 1 && loops <= LOOPS_MAX);
    struct loop_notices *notices = calloc(1, sizeof(*notices) + loops * sizeof(notices->loops[0]));
    if (notices == NULL) {
        return ERR_NOMEM;
    }
    notices->port.ops = &ops;
    notices->wakers = wakers;
    notices->loops_count = loops;
    for (uint32_t i = 0; i < loops; i++) {
        struct loop *loop = &notices->loops[i];
        CHECK(pthread_mutex_init(&loop->lock, NULL) == 0);
        loop->views = calloc(NOTICES_MAX, sizeof(*loop->views));
        loop->watched = calloc(WATCHED_BUCKETS, sizeof(*loop->watched));
        if (loop->views == NULL || loop->watched == NULL) {
            notices->loops_count = i + 1;
            loop_notices_free(notices);
            return ERR_NOMEM;
        }
    }
    *ret_notices = notices;
    return 0;
}

void loop_notices_free(struct loop_notices *notices)
{
    if (notices == NULL) {
        return;
    }
    for (uint32_t i = 0; i < notices->loops_count; i++) {
        (void)pthread_mutex_destroy(&notices->loops[i].lock);
        free(notices->loops[i].views);
        free(notices->loops[i].watched);
    }
    free(notices);
}

struct order_notices *loop_notices_port(struct loop_notices *notices)
{
    return &notices->port;
}
