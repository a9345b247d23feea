/* The network on real loopback sockets: what port/net.h promises, and the listener. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/posix/clock_posix.h"
#include "backend/posix/net_epoll.h"
#include "base/err.h"
#include <cmocka.h>

enum { MAX = 4, HANG_US = 60000000 };

struct fixture {
    struct net_listener *listener;
    struct net *net;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_int_equal(net_epoll_listen("127.0.0.1:0", 1, &f->listener), 0);
    assert_int_equal(net_epoll_new(f->listener, 0, MAX, &f->net), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    net_epoll_free(f->net);
    net_listener_free(f->listener);
    free(f);
    return 0;
}

static int dial(const struct fixture *f)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(net_listener_port(f->listener))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Polls until the wanted thing is reported for the connection (or, with UINT32_MAX, for any). */
static uint32_t wait_for(struct fixture *f, uint32_t connection, uint32_t what)
{
    struct net_event events[8];
    for (;;) {
        size_t n = net_poll(f->net, events, 8, HANG_US);
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++) {
            if ((connection == UINT32_MAX || events[i].connection == connection) &&
                (events[i].what & what) != 0) {
                return events[i].connection;
            }
        }
    }
}

static void close_by_reset(int fd)
{
    struct linger now = {1, 0};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
    (void)close(fd);
}

static void test_bytes_go_both_ways(void **state)
{
    struct fixture *f = *state;
    char bytes[16];
    int fd = dial(f);
    uint32_t c = wait_for(f, UINT32_MAX, NET_ACCEPTED);
    assert_int_equal(net_read(f->net, c, bytes, sizeof(bytes)), ERR_AGAIN);
    assert_int_equal(write(fd, "hello", 5), 5);
    wait_for(f, c, NET_READABLE);
    assert_int_equal(net_read(f->net, c, bytes, sizeof(bytes)), 5);
    assert_memory_equal(bytes, "hello", 5);
    struct net_piece pieces[] = {{"ab", 2}, {"cde", 3}};
    assert_int_equal(net_write(f->net, c, pieces, 2), 5);
    assert_int_equal(net_write(f->net, c, pieces, 1), 2);
    assert_int_equal(recv(fd, bytes, 7, MSG_WAITALL), 7);
    assert_memory_equal(bytes, "abcdeab", 7);
    struct net_address peer = net_peer(f->net, c);
    assert_int_equal(peer.family, 4);
    assert_memory_equal(peer.bytes, "\x7f\0\0\1", 4);
    net_close(f->net, c);
    assert_int_equal(recv(fd, bytes, 1, 0), 0);
    (void)close(fd);
}

static void test_readiness_is_level_triggered_and_can_be_muted(void **state)
{
    struct fixture *f = *state;
    struct net_event events[8];
    int fd = dial(f);
    uint32_t c = wait_for(f, UINT32_MAX, NET_ACCEPTED);
    assert_int_equal(write(fd, "x", 1), 1);
    wait_for(f, c, NET_READABLE);
    wait_for(f, c, NET_READABLE);
    net_watch(f->net, c, 0);
    assert_int_equal(net_poll(f->net, events, 8, 0), 0);
    net_watch(f->net, c, NET_WRITABLE);
    wait_for(f, c, NET_WRITABLE);
    net_watch(f->net, c, NET_READABLE);
    wait_for(f, c, NET_READABLE);
    (void)close(fd);
}

static void test_half_closing_works_from_both_sides(void **state)
{
    struct fixture *f = *state;
    char byte;
    int fd = dial(f);
    uint32_t c = wait_for(f, UINT32_MAX, NET_ACCEPTED);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    wait_for(f, c, NET_READABLE);
    assert_int_equal(net_read(f->net, c, &byte, 1), 0);
    assert_int_equal(net_write(f->net, c, &(struct net_piece){"y", 1}, 1), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    net_close(f->net, c);
    (void)close(fd);

    fd = dial(f);
    c = wait_for(f, UINT32_MAX, NET_ACCEPTED);
    net_finish(f->net, c);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    assert_int_equal(write(fd, "z", 1), 1);
    wait_for(f, c, NET_READABLE);
    assert_int_equal(net_read(f->net, c, &byte, 1), 1);
    (void)close(fd);
    wait_for(f, c, NET_HUNG_UP);
}

static void test_a_reset_is_a_hang_up_and_an_error(void **state)
{
    struct fixture *f = *state;
    char byte;
    int fd = dial(f);
    uint32_t c = wait_for(f, UINT32_MAX, NET_ACCEPTED);
    net_watch(f->net, c, 0);
    close_by_reset(fd);
    wait_for(f, c, NET_HUNG_UP);
    assert_int_equal(net_read(f->net, c, &byte, 1), ERR_IO);
    assert_int_equal(net_write(f->net, c, &(struct net_piece){"y", 1}, 1), ERR_IO);
    net_close(f->net, c);
}

static void test_a_full_socket_takes_part_and_says_when_there_is_room(void **state)
{
    struct fixture *f = *state;
    static char bytes[1 << 20];
    int fd = dial(f);
    uint32_t c = wait_for(f, UINT32_MAX, NET_ACCEPTED);
    int64_t sent = 0;
    int64_t n;
    while ((n = net_write(f->net, c, &(struct net_piece){bytes, sizeof(bytes)}, 1)) > 0) {
        sent += n;
    }
    assert_int_equal(n, ERR_AGAIN);
    net_watch(f->net, c, NET_WRITABLE);
    while (sent > 0) {
        ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
        assert_true(got > 0);
        sent -= got;
    }
    wait_for(f, c, NET_WRITABLE);
    (void)close(fd);
}

/* Of a peer who reads nothing the kernel keeps a bounded number of bytes, for a bounded time. */
static void test_who_does_not_read_costs_little(void **state)
{
    struct fixture *f = *state;
    static char bytes[65536];
    int fd = dial(f);
    int least = 4096;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)), 0);
    uint32_t connection = wait_for(f, UINT32_MAX, NET_ACCEPTED);
    int64_t taken = 0;
    int64_t wrote;
    while ((wrote = net_write(f->net, connection, &(struct net_piece){bytes, sizeof(bytes)}, 1)) >
           0) {
        taken += wrote;
    }
    assert_int_equal(wrote, ERR_AGAIN);
    assert_in_range(taken, 4096, 256 * 1024);
    unsigned found = 0;
    for (int own = 3; own < 64; own++) { /* the accepted socket is among ours */
        struct sockaddr_in at = {0};
        unsigned ms = 0;
        socklen_t len = sizeof(at);
        socklen_t ms_len = sizeof(ms);
        if (own != fd && getpeername(own, (struct sockaddr *)&at, &len) == 0 &&
            getsockopt(own, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &ms_len) == 0) {
            int unsent = 0;
            socklen_t unsent_len = sizeof(unsent);
            assert_int_equal(ms, 30000);
            assert_int_equal(getsockopt(own, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, &unsent_len),
                             0);
            assert_int_equal(unsent, 16384);
            found++;
        }
    }
    assert_int_equal(found, 1);
    (void)close(fd);
}

/* A writer that takes its time hears of the room again, without an event of the peer. */
static void test_room_is_reported_until_it_is_used(void **state)
{
    struct fixture *f = *state;
    char bytes[100] = {0};
    int fd = dial(f);
    uint32_t c = wait_for(f, UINT32_MAX, NET_ACCEPTED);
    net_watch(f->net, c, NET_WRITABLE);
    for (int i = 0; i < 5; i++) {
        wait_for(f, c, NET_WRITABLE);
        assert_int_equal(net_write(f->net, c, &(struct net_piece){bytes, sizeof(bytes)}, 1),
                         sizeof(bytes));
    }
    net_watch(f->net, c, NET_READABLE);
    net_abort(f->net, c); /* what was written and not read is dropped */
    char got[1000];
    ssize_t n;
    do {
        n = recv(fd, got, sizeof(got), 0);
    } while (n > 0);
    assert_int_equal(n, -1);
    assert_int_equal(errno, ECONNRESET);
    (void)close(fd);
}

static void test_newcomers_wait_until_there_is_a_place(void **state)
{
    struct fixture *f = *state;
    struct net_event events[8];
    int fds[MAX + 1];
    uint32_t numbers[MAX];
    for (int i = 0; i <= MAX; i++) {
        fds[i] = dial(f);
    }
    for (int i = 0; i < MAX; i++) {
        numbers[i] = UINT32_MAX;
    }
    size_t seen = 0;
    while (seen < MAX) {
        size_t n = net_poll(f->net, events, 8, HANG_US);
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++) {
            assert_true(events[i].connection < MAX);
            numbers[seen++] = events[i].connection;
        }
    }
    assert_int_equal(net_poll(f->net, events, 8, 0), 0);
    net_close(f->net, numbers[2]);
    assert_int_equal(wait_for(f, UINT32_MAX, NET_ACCEPTED), numbers[2]);
    for (int i = 0; i <= MAX; i++) {
        (void)close(fds[i]);
    }
}

static void test_accepting_recovers_from_a_lack_of_descriptors(void **state)
{
    struct fixture *f = *state;
    struct net_event events[8];
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int fd = dial(f);
    struct rlimit none = {(rlim_t)fd + 1, before.rlim_max}; /* not one more */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    /* It pauses: the first poll sees that a connection waits, and the others last their time. A loop
     * that tried again at once would poll thousands of times meanwhile. */
    assert_int_equal(net_poll(f->net, events, 8, 1000), 0);
    int polls = 0;
    for (int64_t from_us = clock_boot_us(clock_posix()), us = 0; us < 300000; polls++) {
        assert_int_equal(net_poll(f->net, events, 8, 30000), 0);
        us = clock_boot_us(clock_posix()) - from_us;
    }
    assert_in_range(polls, 1, 16); /* ten waits, three of them ended by a pause that is over */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    while (net_poll(f->net, events, 8, -1) == 0) {
    }
    assert_int_equal(events[0].what & NET_ACCEPTED, NET_ACCEPTED);
    (void)close(fd);
}

/* The last descriptors are for files: no connection gets one, and accepting pauses. */
static void test_connections_leave_descriptors_for_files(void **state)
{
    struct fixture *f = *state;
    struct net_event events[8];
    int fd = dial(f);
    int next = dup(fd); /* the number that the connection would get */
    assert_true(next >= 0);
    (void)close(next);
    net_epoll_files(f->net, next);
    assert_int_equal(net_poll(f->net, events, 8, 1000), 0);
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 0); /* it is told at once */
    int again = dial(f);                        /* it has the number that was free */
    net_epoll_files(f->net, again + 2);
    while (net_poll(f->net, events, 8, -1) == 0) {
    }
    assert_int_equal(events[0].what & NET_ACCEPTED, NET_ACCEPTED);
    (void)close(fd);
    (void)close(again);
}

static void test_letting_go_takes_in_who_waits(void **state)
{
    struct fixture *f = *state;
    char byte;
    int fd = dial(f);
    net_accepting(f->net, true);
    net_accepting(f->net, false);
    uint32_t c = wait_for(f, UINT32_MAX, NET_ACCEPTED);
    assert_int_equal(write(fd, "x", 1), 1);
    wait_for(f, c, NET_READABLE);
    assert_int_equal(net_read(f->net, c, &byte, 1), 1);
    /* The port is free for the next server at once, though a connection is still open. */
    char address[32];
    struct net_listener *next;
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", net_listener_port(f->listener));
    assert_int_equal(net_epoll_listen(address, 2, &next), 0);
    net_listener_free(next);
    (void)close(fd);
}

static void test_a_wake_ends_the_wait_once(void **state)
{
    struct fixture *f = *state;
    struct net_event events[8];
    net_wake(f->net);
    net_wake(f->net);
    assert_int_equal(net_poll(f->net, events, 8, -1), 0);
    assert_int_equal(net_poll(f->net, events, 8, 1500), 0);
}

static void test_a_port_in_use_is_refused(void **state)
{
    struct fixture *f = *state;
    struct net_listener *other = NULL;
    char address[32];
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", net_listener_port(f->listener));
    assert_int_equal(net_epoll_listen(address, 1, &other), ERR_BUSY);
    (void)snprintf(address, sizeof(address), "0.0.0.0:%u", net_listener_port(f->listener));
    assert_int_equal(net_epoll_listen(address, 1, &other), ERR_BUSY);
    assert_null(other);
}

static void test_loops_share_a_port(void **state)
{
    (void)state;
    struct net_listener *listener;
    struct net *nets[2];
    assert_int_equal(net_epoll_listen("127.0.0.1:0", 2, &listener), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(net_epoll_new(listener, i, 64, &nets[i]), 0);
    }
    struct fixture f = {listener, NULL};
    int fds[32];
    size_t accepted = 0;
    for (int i = 0; i < 32; i++) {
        fds[i] = dial(&f);
    }
    while (accepted < 32) {
        struct net_event events[64];
        accepted += net_poll(nets[0], events, 64, 0);
        accepted += net_poll(nets[1], events, 64, 0);
    }
    for (int i = 0; i < 32; i++) {
        (void)close(fds[i]);
    }
    net_epoll_free(nets[0]);
    net_epoll_free(nets[1]);
    net_listener_free(listener);
}

static void test_addresses(void **state)
{
    (void)state;
    struct net_listener *listener = NULL;
    static const char *const bad[] = {"",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:08",
                                      ":80",
                                      "localhost:80",
                                      "[::1]",
                                      "[::1:80",
                                      "::1:80",
                                      "[127.0.0.1]:80",
                                      "127.0.0.1:-1",
                                      "127.0.0.1:8 ",
                                      "[]:80",
                                      "[:80"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(net_epoll_listen(bad[i], 1, &listener), ERR_INVALID);
    }
    assert_int_equal(net_epoll_listen("192.0.2.1:0", 1, &listener), ERR_NOTFOUND);
    assert_null(listener);
    int err = net_epoll_listen("[::1]:0", 1, &listener);
    if (err == 0) { /* a machine without IPv6 has no such address */
        assert_int_not_equal(net_listener_port(listener), 0);
        net_listener_free(listener);
    }
}

static void test_clocks_run(void **state)
{
    (void)state;
    struct clock_port *clock = clock_posix();
    int64_t boot_us = clock_boot_us(clock);
    assert_true(clock_wall_ms(clock) > 1600000000000);
    assert_true(clock_boot_us(clock) >= boot_us);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_bytes_go_both_ways),
        T(test_readiness_is_level_triggered_and_can_be_muted),
        T(test_half_closing_works_from_both_sides),
        T(test_a_reset_is_a_hang_up_and_an_error),
        T(test_a_full_socket_takes_part_and_says_when_there_is_room),
        T(test_who_does_not_read_costs_little),
        T(test_room_is_reported_until_it_is_used),
        T(test_newcomers_wait_until_there_is_a_place),
        T(test_accepting_recovers_from_a_lack_of_descriptors),
        T(test_connections_leave_descriptors_for_files),
        T(test_letting_go_takes_in_who_waits),
        T(test_a_wake_ends_the_wait_once),
        T(test_a_port_in_use_is_refused),
        cmocka_unit_test(test_loops_share_a_port),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_clocks_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
