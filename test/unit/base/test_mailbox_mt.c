/* Posts between threads arrive all, once, and each sender's in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mailbox.h"

#define SENDERS 3
#define POSTS 5000

struct letter {
    struct post post; /* first */
    int sender;
    int number;
};

static struct letter letters[SENDERS][POSTS];
static struct mailbox box;

static void *send_all(void *context)
{
    int sender = (int)(intptr_t)context;
    for (int i = 0; i < POSTS; i++) {
        letters[sender][i].sender = sender;
        letters[sender][i].number = i;
        mailbox_post(&box, &letters[sender][i].post);
    }
    return NULL;
}

static void test_all_arrive_in_order(void **state)
{
    (void)state;
    pthread_t threads[SENDERS];
    int next[SENDERS] = {0};
    int got = 0;
    mailbox_init(&box);
    for (intptr_t i = 0; i < SENDERS; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, send_all, (void *)i));
    }
    while (got < SENDERS * POSTS) {
        mailbox_wait(&box, 60000000);
        for (struct post *post = mailbox_take(&box); post != NULL; post = post->next) {
            const struct letter *letter = (const struct letter *)post;
            assert_int_equal(next[letter->sender], letter->number);
            next[letter->sender]++;
            got++;
        }
    }
    for (int i = 0; i < SENDERS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    assert_null(mailbox_take(&box));
    mailbox_done(&box);
}

static void test_a_ring_ends_a_wait_even_if_it_came_first(void **state)
{
    (void)state;
    mailbox_init(&box);
    mailbox_ring(&box);
    mailbox_wait(&box, 60000000); /* would hang for a minute */
    mailbox_wait(&box, 1000);     /* a ring counts once; this one runs out */
    assert_null(mailbox_take(&box));
    mailbox_done(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_arrive_in_order),
        cmocka_unit_test(test_a_ring_ends_a_wait_even_if_it_came_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
