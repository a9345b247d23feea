/*
 * Published messages that are not settled, by their number on the channel: 1, 2, 3 ... The broker
 * settles one, or all up to one, in any order. Each is reported once.
 *
 * A returned message was routed to no queue: a later confirm of it counts as a failure.
 */
#ifndef SLUICE_BACKEND_AMQP_WINDOW_H
#define SLUICE_BACKEND_AMQP_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

struct window_entry {
    uint64_t number; /* the caller's number */
    int64_t sent_ms;
    bool settled;
    bool returned;
};

struct window {
    struct window_entry *entries; /* capacity of them: tag modulo capacity */
    uint32_t capacity;
    uint32_t waiting; /* not settled */
    uint64_t first;   /* the oldest that is not settled, or next */
    uint64_t next;    /* the tag of the next message */
};

typedef void window_settled(void *context, uint64_t number, bool confirmed);

int window_init(struct window *window, uint32_t capacity); /* ERR_NOMEM */
void window_free(struct window *window);
/* Whether one more fits: at most capacity tags lie between the oldest unsettled one and the
 * newest. */
static inline bool window_has_room(const struct window *window)
{
    return window->next - window->first < window->capacity;
}
/* Needs room. Returns the tag that the broker will use. */
uint64_t window_add(struct window *window, uint64_t number, int64_t now_ms);
/* When the oldest unsettled one was added; INT64_MAX: none. */
int64_t window_oldest_ms(const struct window *window);
/* False: no such message; the broker and we disagree. */
bool window_returned(struct window *window, uint64_t tag);
/* multiple: all up to tag, or all if tag is 0. False: no such message. */
bool window_settle(struct window *window, uint64_t tag, bool multiple, bool confirmed,
                   window_settled *settled, void *context);
/* The channel is lost: unsettled messages are not confirmed, and numbers start at 1 again. */
void window_lose(struct window *window, window_settled *settled, void *context);

#endif
