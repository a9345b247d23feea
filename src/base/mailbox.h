/*
 * A queue of posts between threads: many senders, one receiver, in order. A post is a link inside a
 * struct of the sender. The receiver owns it from the post until it answers.
 */
#ifndef SLUICE_BASE_MAILBOX_H
#define SLUICE_BASE_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct post {
    struct post *next;
};

struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct post *first;
    struct post **last;
    bool rung; /* mailbox_ring was called since the last wait */
};

void mailbox_init(struct mailbox *ret_mailbox);
void mailbox_done(struct mailbox *mailbox);
void mailbox_post(struct mailbox *mailbox, struct post *post);
/* Everything posted so far, oldest first, NULL-terminated; NULL when empty. Never waits. */
struct post *mailbox_take(struct mailbox *mailbox);
/* Wakes the receiver without a post. */
void mailbox_ring(struct mailbox *mailbox);
/* Returns when there is a post, after mailbox_ring, or after timeout_us. */
void mailbox_wait(struct mailbox *mailbox, int64_t timeout_us);

#endif
