/* Server-sent events: sending, slow and failing watchers, ends. */
#include "server_fixture.h"

/* --- Streams ------------------------------------------------------------------------------------
 */

#define STREAM                                                                                     \
    "HTTP/1.1 200 OK\r\n" DATE "Connection: close\r\nContent-Type: text/event-stream\r\n"          \
    "Cache-Control: no-store\r\n\r\ndata: 0\n\n"

static void test_a_stream_sends_until_it_ends(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, GET("/a") GET("/events") GET("/never"));
    expect_text(f, c, OK("1", "a") STREAM);
    assert_true(http_stream_ready(f->server, f->kept[0]));
    assert_true(http_stream_send(f->server, f->kept[0], span_of("data: 1\n\n")));
    expect_text(f, c, "data: 1\n\n");
    f->now_ms += 100000; /* a quiet stream is not idle */
    settle(f);
    assert_true(http_stream_send(f->server, f->kept[0], span_of("data: 2\n\n")));
    http_stream_end(f->server, f->kept[0]);
    expect_text(f, c, "data: 2\n\n");
    assert_true(memory_net_finished(f->net, c));
    assert_false(http_stream_send(f->server, f->kept[0], span_of("data: 3\n\n")));
    assert_int_equal(f->handled, 2);
    memory_net_fin(f->net, c);
    settle(f);
    assert_int_equal(f->gone_count, 0);
    expect_nothing_held(f);
}

static void test_a_slow_stream_skips_and_goes_on(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, GET("/events"));
    expect_text(f, c, STREAM);
    memory_net_window(f->net, c, 4);
    assert_true(http_stream_send(f->server, f->kept[0], span_of("data: 1\n\n")));
    assert_false(http_stream_ready(f->server, f->kept[0]));
    assert_false(http_stream_send(f->server, f->kept[0], span_of("data: 2\n\n")));
    memory_net_window(f->net, c, SIZE_MAX);
    settle(f);
    assert_true(http_stream_ready(f->server, f->kept[0]));
    assert_true(http_stream_send(f->server, f->kept[0], span_of("data: 3\n\n")));
    expect_text(f, c, "data: 1\n\ndata: 3\n\n");
    memory_net_window(f->net, c, 1);
    assert_true(http_stream_send(f->server, f->kept[0], span_of("data: 4\n\n")));
    f->now_ms += 3000;
    settle(f);
    assert_true(memory_net_closed(f->net, c));
    assert_int_equal(f->gone_count, 1);
    expect_nothing_held(f);
}

static void test_an_end_waits_for_what_is_unsent(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, GET("/events"));
    expect_text(f, c, STREAM);
    memory_net_window(f->net, c, 4);
    assert_true(http_stream_send(f->server, f->kept[0], span_of("data: 1\n\n")));
    http_stream_end(f->server, f->kept[0]);
    settle(f);
    assert_false(memory_net_closed(f->net, c));
    memory_net_window(f->net, c, SIZE_MAX);
    settle(f);
    expect_text(f, c, "data: 1\n\n");
    assert_true(memory_net_closed(f->net, c));
    assert_int_equal(f->gone_count, 0);
}

static void test_a_failing_stream_is_told_after_the_send_and_once(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, GET("/events"));
    memory_net_reset(f->net, c);
    assert_false(http_stream_send(f->server, f->kept[0], span_of("data: 1\n\n")));
    assert_false(http_alive(f->server, f->kept[0]));
    assert_int_equal(f->gone_count, 0); /* not inside the caller's loop */
    assert_false(memory_net_closed(f->net, c));
    http_server_flush(f->server);
    assert_int_equal(f->gone_count, 1);
    assert_true(memory_net_closed(f->net, c));
    settle(f);
    assert_int_equal(f->gone_count, 1);
}

static void test_a_peer_that_leaves_a_stream_is_told_of(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, GET("/events"));
    memory_net_fin(f->net, c);
    settle(f);
    assert_int_equal(f->gone_count, 1);
    assert_true(memory_net_closed(f->net, c));
}

static void test_head_of_a_stream_is_its_headers(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, "HEAD /events HTTP/1.1\r\n" H "\r\n");
    assert_false(f->begun);
    expect_text(f, c,
                "HTTP/1.1 200 OK\r\n" DATE "Connection: close\r\n"
                "Content-Type: text/event-stream\r\nCache-Control: no-store\r\n\r\n");
    assert_true(memory_net_closed(f->net, c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_a_stream_sends_until_it_ends),
        T(test_a_slow_stream_skips_and_goes_on),
        T(test_an_end_waits_for_what_is_unsent),
        T(test_a_failing_stream_is_told_after_the_send_and_once),
        T(test_a_peer_that_leaves_a_stream_is_told_of),
        T(test_head_of_a_stream_is_its_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
