/* Troubles are reported with their age. A part that does not answer is not judged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "distributed/cluster_health.h"

static struct cluster_health health;
static struct queue_depths queue;
static struct queue_depths payments;
static struct cluster_look seen;
static int64_t now_ms;

static int set_up(void **state)
{
    (void)state;
    memset(&health, 0, sizeof(health));
    queue = payments = (struct queue_depths){.consumers = 1};
    seen = (struct cluster_look){.queue = &queue,
                                 .payments = &payments,
                                 .leases_known = true,
                                 .has_lease = true,
                                 .lease_token = 1,
                                 .lease_until_ms = 5,
                                 .outbox_known = true};
    now_ms = 1000;
    return 0;
}

/* A look after so many milliseconds, in which a keeper renews its lease. */
static void look_after(int64_t ms, bool renewed)
{
    now_ms += ms;
    seen.lease_until_ms += renewed ? ms : 0;
    cluster_health_judge(&health, &seen, now_ms);
}

static bool is_on(enum cluster_trouble trouble)
{
    return health.troubles[trouble].is_on;
}

static uint32_t troubles(void)
{
    uint32_t count = 0;
    for (int i = 0; i < TROUBLE_COUNT; i++) {
        count += health.troubles[i].is_on;
    }
    return count;
}

static void who_works_is_no_trouble(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        queue.ready = (uint64_t)(i % 10) * 1000;
        seen.outbox = 500;
        seen.outbox_lag_ms = 9999;
        look_after(1000, true);
        assert_int_equal(troubles(), 0);
    }
}

static void a_queue_that_nobody_consumes_is_told(void **state)
{
    (void)state;
    look_after(0, true);
    queue = (struct queue_depths){.ready = 7};
    look_after(1000, true);
    look_after(1000, true);
    assert_int_equal(troubles(), 0); /* its connection may come back */
    look_after(1000, true);
    assert_int_equal(troubles(), 1);
    assert_true(is_on(TROUBLE_NO_BOOKER));
    assert_int_equal(health.troubles[TROUBLE_NO_BOOKER].n, 7);
    assert_int_equal(health.troubles[TROUBLE_NO_BOOKER].since_ms, now_ms - 3000);
    payments.consumers = 0;
    look_after(HEALTH_CONSUMER_MS, true);
    assert_true(is_on(TROUBLE_NO_PAYMENT_CONSUMER));
    queue.consumers = payments.consumers = 2;
    look_after(1000, true);
    assert_int_equal(troubles(), 0);
}

/* The first look of a front: nobody knows since when. */
static void what_was_never_there_is_told_too(void **state)
{
    (void)state;
    queue = payments = (struct queue_depths){0};
    seen.has_lease = false;
    look_after(0, false);
    assert_int_equal(troubles(), 0);
    look_after(HEALTH_CONSUMER_MS, false);
    assert_int_equal(troubles(), 2);
    look_after(HEALTH_LEASE_MS - HEALTH_CONSUMER_MS, false);
    assert_true(is_on(TROUBLE_NO_KEEPER));
}

static void a_lease_that_nobody_renews_is_told(void **state)
{
    (void)state;
    look_after(0, true);
    look_after(1000, true);
    look_after(HEALTH_LEASE_MS - 1, false);
    assert_int_equal(troubles(), 0);
    look_after(1, false);
    assert_true(is_on(TROUBLE_NO_KEEPER));
    assert_int_equal(cluster_health_unrenewed_ms(&health, now_ms), HEALTH_LEASE_MS);
    look_after(60000, false);
    assert_int_equal(cluster_health_unrenewed_ms(&health, now_ms), HEALTH_LEASE_MS + 60000);
    seen.lease_token++; /* another keeper */
    look_after(1000, false);
    assert_int_equal(troubles(), 0);
}

static void what_does_not_answer_is_not_judged(void **state)
{
    (void)state;
    look_after(0, true);
    seen.queue = seen.payments = NULL;
    seen.leases_known = seen.outbox_known = false;
    seen.outbox_lag_ms = 60000;
    look_after(60000, false);
    assert_int_equal(troubles(), 0);
    seen.queue = &queue;
    seen.leases_known = true;
    queue.consumers = 0;
    look_after(1000, false);
    assert_int_equal(troubles(), 0); /* it may just have come back itself */
    look_after(HEALTH_LEASE_MS, false);
    assert_true(is_on(TROUBLE_NO_BOOKER) && is_on(TROUBLE_NO_KEEPER));
}

static void an_old_outbox_is_told(void **state)
{
    (void)state;
    seen.outbox = 30;
    seen.outbox_lag_ms = HEALTH_OUTBOX_MS;
    look_after(0, true);
    assert_true(is_on(TROUBLE_OUTBOX_OLD));
    assert_int_equal(health.troubles[TROUBLE_OUTBOX_OLD].n, 30);
    assert_int_equal(health.troubles[TROUBLE_OUTBOX_OLD].since_ms, now_ms - HEALTH_OUTBOX_MS);
}

static void a_queue_that_only_grows_is_told(void **state)
{
    (void)state;
    look_after(0, true);
    for (int64_t ms = 1000; ms < 2 * HEALTH_GROWS_MS; ms += 1000) {
        queue.ready += 10;
        look_after(1000, true);
        assert_int_equal(troubles(), 0);
    }
    for (int i = 0; i < 100; i++) {
        queue.ready += 10;
        look_after(1000, true);
        assert_true(is_on(TROUBLE_QUEUE_GROWS));
        assert_int_equal(health.troubles[TROUBLE_QUEUE_GROWS].n, queue.ready);
    }
    queue.ready = 5;
    look_after(1000, true);
    assert_int_equal(troubles(), 0);
    for (int64_t ms = 0; ms < 3 * HEALTH_GROWS_MS; ms += 1000) {
        look_after(1000, true); /* a few always wait */
        assert_int_equal(troubles(), 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(who_works_is_no_trouble),
        TEST(a_queue_that_nobody_consumes_is_told),
        TEST(what_was_never_there_is_told_too),
        TEST(a_lease_that_nobody_renews_is_told),
        TEST(what_does_not_answer_is_not_judged),
        TEST(an_old_outbox_is_told),
        TEST(a_queue_that_only_grows_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
