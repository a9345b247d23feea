/* Requests that come without waiting for answers: each is answered, in order, and others have their
 * turn, whatever buffers are left. */
#include "server_fixture.h"

#include <string.h>

#include "base/prng.h"

static void test_a_long_pipeline_lets_others_have_their_turn(void **state)
{
    struct fixture *f = *state;
    uint32_t greedy = connect_peer(f);
    uint32_t other = connect_peer(f);
    for (int i = 0; i < 200; i++) {
        memory_net_send(f->net, greedy, span_of("HEAD /a HTTP/1.1\r\n" H "\r\n"));
    }
    memory_net_send(f->net, other, span_of(GET("/b")));
    struct net_event events[64];
    int64_t next_ms;
    size_t n = net_poll(f->net, events, 64, 0);
    assert_int_equal(n, 2);
    http_server_events(f->server, events, n, f->now_ms);
    expect_text(f, other, OK("1", "b"));
    assert_true(f->handled < 100);
    http_server_timers(f->server, f->now_ms, &next_ms);
    assert_int_equal(next_ms, f->now_ms); /* there is more to do */
    settle(f);
    assert_int_equal(f->handled, 201);
    (void)memory_net_take(f->net, greedy);
    expect_nothing_held(f);
}

/* Sends so many requests at once; all of them must be answered. */
static void expect_pipeline_answered(struct fixture *f, int count)
{
    uint32_t c = connect_peer(f);
    size_t before = f->handled;
    for (int i = 0; i < count; i++) {
        memory_net_send(f->net, c, span_of("HEAD /a HTTP/1.1\r\n" H "\r\n"));
    }
    settle(f);
    assert_int_equal(f->handled - before, (size_t)count);
    assert_false(memory_net_finished(f->net, c));
    struct span heard = memory_net_take(f->net, c);
    assert_int_equal(heard.len % (size_t)count, 0); /* nothing but that many of the same */
    assert_true(heard.len > 0);
}

/* There are few large buffers, and large bodies have them. */
static void test_a_long_pipeline_needs_no_large_buffer(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        send_text(f, connect_peer(f), "POST /p HTTP/1.1\r\n" H "Content-Length: 100000\r\n\r\n");
    }
    expect_pipeline_answered(f, 2000);
    assert_int_equal(http_server_busy(f->server), 2); /* nobody had to go for it */
}

static void test_a_long_pipeline_needs_no_small_buffer(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 8; i++) {
        send_text(f, connect_peer(f), GET("/wait") GET("/x")); /* each keeps a small buffer */
    }
    expect_pipeline_answered(f, 100);
}

/* What follows a large body was read with it, and stays where it is. */
static void test_a_long_pipeline_behind_a_large_body(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, "POST /p HTTP/1.1\r\n" H "Content-Length: 100000\r\n\r\n");
    for (int i = 0; i < 8; i++) {
        send_text(f, connect_peer(f), GET("/wait") GET("/x"));
    }
    memory_net_send(f->net, c, (struct span){huge, 100000});
    for (int i = 0; i < 500; i++) {
        memory_net_send(f->net, c, span_of("HEAD /a HTTP/1.1\r\n" H "\r\n"));
    }
    size_t before = f->handled;
    settle(f);
    assert_int_equal(f->handled - before, 501);
    assert_false(memory_net_finished(f->net, c));
}

static void test_many_pipelined_answers_are_complete_and_in_order(void **state)
{
    struct fixture *f = *state;
    enum { MANY = 3000 };
    uint32_t c = connect_peer(f);
    char text[128];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(text, sizeof(text), "GET /%06d HTTP/1.1\r\n" H "\r\n", i);
        memory_net_send(f->net, c, span_of(text));
    }
    struct prng prng = prng_of(1);
    char *all = malloc((size_t)MANY * 256);
    size_t len = 0;
    for (int i = 0; i < 100000 && len < MANY * (sizeof(OK("6", "000000")) - 1); i++) {
        memory_net_window(f->net, c, prng_below(&prng, 8192));
        settle(f);
        struct span got = memory_net_take(f->net, c);
        memcpy(all + len, got.at, got.len);
        len += got.len;
    }
    for (int i = 0; i < MANY; i++) {
        char expected[256];
        (void)snprintf(expected, sizeof(expected), OK("6", "%06d"), i);
        assert_memory_equal(all + (size_t)i * strlen(expected), expected, strlen(expected));
    }
    free(all);
    expect_nothing_held(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_a_long_pipeline_lets_others_have_their_turn),
        T(test_a_long_pipeline_needs_no_large_buffer),
        T(test_a_long_pipeline_needs_no_small_buffer),
        T(test_a_long_pipeline_behind_a_large_body),
        T(test_many_pipelined_answers_are_complete_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
