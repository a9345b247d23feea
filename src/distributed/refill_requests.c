/* See refill_requests.h. */
#include "distributed/refill_requests.h"

#include <string.h>

#include "base/check.h"

void refill_requests_init(struct refill_requests *ret_refill_requests)
{
    ret_refill_requests->count = 0;
    CHECK(pthread_mutex_init(&ret_refill_requests->lock, NULL) == 0);
}

void refill_requests_done(struct refill_requests *refill_requests)
{
    (void)pthread_mutex_destroy(&refill_requests->lock);
}

void refill_requests_add(struct refill_requests *refill_requests, uint32_t segment, uint64_t item,
                         uint64_t units)
{
    size_t at = 0;
    CHECK(pthread_mutex_lock(&refill_requests->lock) == 0);
    while (at < refill_requests->count && (refill_requests->list[at].item != item ||
                                           refill_requests->list[at].segment != segment)) {
        at++;
    }
    if (at < refill_requests->count) {
        struct refill *refill = &refill_requests->list[at];
        refill->units = units > refill->units ? units : refill->units;
    } else if (at < REFILL_REQUESTS_MAX) {
        refill_requests->list[refill_requests->count++] =
            (struct refill){.item = item, .segment = segment, .units = units};
    }
    CHECK(pthread_mutex_unlock(&refill_requests->lock) == 0);
}

size_t refill_requests_take(struct refill_requests *refill_requests, struct refill *ret_list)
{
    CHECK(pthread_mutex_lock(&refill_requests->lock) == 0);
    size_t count = refill_requests->count;
    memcpy(ret_list, refill_requests->list, count * sizeof(*ret_list));
    refill_requests->count = 0;
    CHECK(pthread_mutex_unlock(&refill_requests->lock) == 0);
    return count;
}
