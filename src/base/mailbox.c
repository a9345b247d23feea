/* A mutex, a condition and a linked list; see mailbox.h. */
#include "base/mailbox.h"

#include <stddef.h>
#include <time.h>

#include "base/check.h"

void mailbox_init(struct mailbox *ret_mailbox)
{
    pthread_condattr_t attr;
    *ret_mailbox = (struct mailbox){.first = NULL};
    ret_mailbox->last = &ret_mailbox->first;
    CHECK(pthread_mutex_init(&ret_mailbox->lock, NULL) == 0);
    CHECK(pthread_condattr_init(&attr) == 0);
    CHECK(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&ret_mailbox->filled, &attr) == 0);
    (void)pthread_condattr_destroy(&attr);
}

void mailbox_done(struct mailbox *mailbox)
{
    (void)pthread_cond_destroy(&mailbox->filled);
    (void)pthread_mutex_destroy(&mailbox->lock);
}

void mailbox_post(struct mailbox *mailbox, struct post *post)
{
    post->next = NULL;
    CHECK(pthread_mutex_lock(&mailbox->lock) == 0);
    bool was_empty = mailbox->first == NULL;
    *mailbox->last = post;
    mailbox->last = &post->next;
    CHECK(pthread_mutex_unlock(&mailbox->lock) == 0);
    if (was_empty) {
        (void)pthread_cond_signal(&mailbox->filled);
    }
}

struct post *mailbox_take(struct mailbox *mailbox)
{
    CHECK(pthread_mutex_lock(&mailbox->lock) == 0);
    struct post *first = mailbox->first;
    mailbox->first = NULL;
    mailbox->last = &mailbox->first;
    CHECK(pthread_mutex_unlock(&mailbox->lock) == 0);
    return first;
}

void mailbox_ring(struct mailbox *mailbox)
{
    CHECK(pthread_mutex_lock(&mailbox->lock) == 0);
    mailbox->rung = true;
    CHECK(pthread_mutex_unlock(&mailbox->lock) == 0);
    (void)pthread_cond_signal(&mailbox->filled);
}

void mailbox_wait(struct mailbox *mailbox, int64_t timeout_us)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + timeout_us % 1000000 * 1000;
    until.tv_sec += timeout_us / 1000000 + ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    CHECK(pthread_mutex_lock(&mailbox->lock) == 0);
    while (mailbox->first == NULL && !mailbox->rung) {
        if (pthread_cond_timedwait(&mailbox->filled, &mailbox->lock, &until) != 0) {
            break;
        }
    }
    mailbox->rung = false;
    CHECK(pthread_mutex_unlock(&mailbox->lock) == 0);
}
