/* See window.h. */
#include "backend/amqp/window.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"

int window_init(struct window *window, uint32_t capacity)
{
    *window = (struct window){.capacity = capacity, .first = 1, .next = 1};
    window->entries = calloc(capacity, sizeof(*window->entries));
    return window->entries == NULL ? ERR_NOMEM : 0;
}

void window_free(struct window *window)
{
    free(window->entries);
    window->entries = NULL;
}

static struct window_entry *entry_of(struct window *window, uint64_t tag)
{
    return &window->entries[tag % window->capacity];
}

uint64_t window_add(struct window *window, uint64_t number, int64_t now_ms)
{
    CHECK(window_has_room(window));
    *entry_of(window, window->next) = (struct window_entry){.number = number, .sent_ms = now_ms};
    window->waiting++;
    return window->next++;
}

int64_t window_oldest_ms(const struct window *window)
{
    return window->waiting == 0 ? INT64_MAX
                                : window->entries[window->first % window->capacity].sent_ms;
}

/* NULL: not outstanding. */
static struct window_entry *waiting_entry(struct window *window, uint64_t tag)
{
    if (tag < window->first || tag >= window->next) {
        return NULL;
    }
    struct window_entry *entry = entry_of(window, tag);
    return entry->settled ? NULL : entry;
}

bool window_returned(struct window *window, uint64_t tag)
{
    struct window_entry *entry = waiting_entry(window, tag);
    if (entry == NULL) {
        return false;
    }
    entry->returned = true;
    return true;
}

static void settle_one(struct window *window, struct window_entry *entry, bool confirmed,
                       window_settled *settled, void *context)
{
    entry->settled = true;
    window->waiting--;
    settled(context, entry->number, confirmed && !entry->returned);
}

bool window_settle(struct window *window, uint64_t tag, bool multiple, bool confirmed,
                   window_settled *settled, void *context)
{
    if (multiple && tag == 0) {
        tag = window->next - 1;
    }
    if (multiple) {
        /* All may have been settled one by one before; the tag itself must exist. */
        if (tag >= window->next) {
            return false;
        }
        for (uint64_t one = window->first; one <= tag; one++) {
            struct window_entry *entry = entry_of(window, one);
            if (!entry->settled) {
                settle_one(window, entry, confirmed, settled, context);
            }
        }
    } else {
        struct window_entry *entry = waiting_entry(window, tag);
        if (entry == NULL) {
            return false;
        }
        settle_one(window, entry, confirmed, settled, context);
    }
    while (window->first < window->next && entry_of(window, window->first)->settled) {
        window->first++;
    }
    return true;
}

void window_lose(struct window *window, window_settled *settled, void *context)
{
    if (window->next > window->first) {
        (void)window_settle(window, 0, true, false, settled, context);
    }
    window->first = 1;
    window->next = 1;
}
