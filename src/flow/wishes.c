/* See wishes.h. */
#include "flow/wishes.h"

#include <string.h>

#include "base/check.h"

void wishes_init(struct wishes *ret_wishes)
{
    ret_wishes->count = 0;
    CHECK(pthread_mutex_init(&ret_wishes->lock, NULL) == 0);
}

void wishes_done(struct wishes *wishes)
{
    (void)pthread_mutex_destroy(&wishes->lock);
}

void wishes_add(struct wishes *wishes, uint32_t segment, uint64_t item, uint64_t units)
{
    size_t at = 0;
    CHECK(pthread_mutex_lock(&wishes->lock) == 0);
    while (at < wishes->count &&
           (wishes->list[at].item != item || wishes->list[at].segment != segment)) {
        at++;
    }
    if (at < wishes->count) {
        struct wish *wish = &wishes->list[at];
        wish->units = units > wish->units ? units : wish->units;
    } else if (at < WISHES_MAX) {
        wishes->list[wishes->count++] =
            (struct wish){.item = item, .segment = segment, .units = units};
    }
    CHECK(pthread_mutex_unlock(&wishes->lock) == 0);
}

size_t wishes_take(struct wishes *wishes, struct wish *ret_list)
{
    CHECK(pthread_mutex_lock(&wishes->lock) == 0);
    size_t count = wishes->count;
    memcpy(ret_list, wishes->list, count * sizeof(*ret_list));
    wishes->count = 0;
    CHECK(pthread_mutex_unlock(&wishes->lock) == 0);
    return count;
}
