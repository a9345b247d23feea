/* One POST to somebody else's server: of several addresses, silent ones leave time for the
 * others. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "app/hook.h"
#include "base/err.h"

#define ADDRESSES 3
#define WITHIN_MS 1500

static struct sockaddr_in endpoints[ADDRESSES];
static struct addrinfo addresses[ADDRESSES];
static int fds[ADDRESSES];
static int knocking[8];
static _Atomic bool stopping;
static char problem[256];

static int listen_at(struct sockaddr_in *ret_place, int backlog)
{
    socklen_t len = sizeof(*ret_place);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret_place = (struct sockaddr_in){.sin_family = AF_INET};
    ret_place->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)ret_place, len), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)ret_place, &len), 0);
    return fd;
}

/* Nobody accepts, and the backlog is full: a new connection gets no answer. */
static void fill(const struct sockaddr_in *place, int *ret_knocking, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ret_knocking[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(ret_knocking[i], (const struct sockaddr *)place, sizeof(*place));
    }
}

static void *answer_one(void *context)
{
    char bytes[4096];
    int fd = accept(*(int *)context, NULL, NULL);
    (void)!read(fd, bytes, sizeof(bytes));
    (void)!write(fd, "HTTP/1.1 204 No Content\r\n\r\n", 27);
    (void)close(fd);
    return NULL;
}

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < ADDRESSES; i++) {
        fds[i] = listen_at(&endpoints[i], i == ADDRESSES - 1 ? 8 : 0);
        addresses[i] = (struct addrinfo){.ai_family = AF_INET,
                                         .ai_socktype = SOCK_STREAM,
                                         .ai_addr = (struct sockaddr *)&endpoints[i],
                                         .ai_addrlen = sizeof(endpoints[i]),
                                         .ai_next = i + 1 < ADDRESSES ? &addresses[i + 1] : NULL};
    }
    fill(&endpoints[0], knocking, 4);
    fill(&endpoints[1], knocking + 4, 4);
    atomic_store(&stopping, false);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < ADDRESSES; i++) {
        (void)close(fds[i]);
    }
    for (size_t i = 0; i < sizeof(knocking) / sizeof(knocking[0]); i++) {
        (void)close(knocking[i]);
    }
    return 0;
}

static int post(const struct addrinfo *at)
{
    struct hook hook;
    assert_int_equal(hook_parse("http://shop.example/purge", &hook), 0);
    problem[0] = '\0';
    return hook_post_at(&hook, at, WITHIN_MS, span_of("{}"), &stopping, problem, sizeof(problem));
}

static void test_silent_addresses_leave_time_for_the_last(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, answer_one, &fds[ADDRESSES - 1]), 0);
    assert_int_equal(post(addresses), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void test_all_silent(void **state)
{
    (void)state;
    addresses[1].ai_next = NULL;
    assert_int_equal(post(addresses), ERR_IO);
    assert_string_equal(problem, "no answer in time");
    assert_int_equal(post(NULL), ERR_IO);
    assert_string_equal(problem, "it has no address");
}

static void test_the_end_is_seen_at_once(void **state)
{
    (void)state;
    struct hook hook;
    atomic_store(&stopping, true);
    assert_int_equal(post(addresses), ERR_IO);
    assert_string_equal(problem, "the server stops");
    assert_int_equal(hook_parse("http://no-such-host.invalid/", &hook), 0);
    assert_int_equal(hook_post(&hook, span_of("{}"), &stopping, problem, sizeof(problem)), ERR_IO);
    assert_string_equal(problem, "the server stops");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_silent_addresses_leave_time_for_the_last),
        TEST(test_all_silent),
        TEST(test_the_end_is_seen_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
