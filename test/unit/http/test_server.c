/*
 * The server over a network in memory: connections, answers, pipelining, limits, timeouts,
 * draining. No sockets and no clock: the test is the peer and the time.
 */
#include "server_fixture.h"

/* --- Requests and answers -----------------------------------------------------------------------
 */

static void test_one_request_costs_one_read_and_one_write(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    struct memory_net_counts before = memory_net_counts(f->net);
    send_text(f, c, GET("/abc"));
    expect_text(f, c, OK("3", "abc"));
    struct memory_net_counts after = memory_net_counts(f->net);
    assert_int_equal(after.reads - before.reads, 1);
    assert_int_equal(after.writes - before.writes, 1);
    assert_int_equal(after.watches, 0);
    assert_int_equal(http_server_connections(f->server), 1);
    expect_nothing_held(f);
}

static void test_pipelined_answers_leave_in_one_write(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    struct memory_net_counts before = memory_net_counts(f->net);
    send_text(f, c, GET("/a") "\r\n" GET("/b") GET("/c"));
    expect_text(f, c, OK("1", "a") OK("1", "b") OK("1", "c"));
    assert_int_equal(memory_net_counts(f->net).writes - before.writes, 1);
    expect_nothing_held(f);
}

static void test_bytes_may_come_one_by_one(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    static const char text[] =
        GET("/a") "POST /p HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nxyz"
                  "POST /q HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
                  "1\r\nx\r\n2\r\nyz\r\n0\r\nT: u\r\n\r\n" GET("/b");
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        memory_net_send(f->net, c, (struct span){text + i, 1});
        settle(f);
    }
    expect_text(f, c, OK("1", "a") OK("3", "xyz") OK("3", "xyz") OK("1", "b"));
    expect_nothing_held(f);
}

static void test_head_has_the_length_and_no_body(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, "HEAD /abc HTTP/1.1\r\n" H "\r\n" GET("/d"));
    expect_text(f, c, OK("3", "") OK("1", "d"));
    send_text(f, c, "HEAD /ready HTTP/1.1\r\n" H "\r\n");
    expect_text(f, c, "HTTP/1.1 409 Conflict\r\n" DATE "Content-Length: 2\r\n\r\n");
}

static void test_no_content_has_no_length(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, GET("/none"));
    expect_text(f, c, "HTTP/1.1 204 No Content\r\n" DATE "X-A: b\r\n\r\n");
}

static void test_ready_bytes_get_date_and_connection(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, GET("/ready"));
    expect_text(f, c, "HTTP/1.1 409 Conflict\r\n" DATE "Content-Length: 2\r\n\r\nno");
    send_text(f, c, "GET /ready HTTP/1.1\r\n" H "Connection: close\r\n\r\n");
    expect_text(
        f, c, "HTTP/1.1 409 Conflict\r\n" DATE "Connection: close\r\nContent-Length: 2\r\n\r\nno");
    assert_true(memory_net_closed(f->net, c));
}

static void test_who_closes_and_who_stays(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        const char *connection; /* NULL: no such line */
        bool closes;
    } rows[] = {
        {GET("/a"), NULL, false},
        {"GET /a HTTP/1.1\r\n" H "Connection: close\r\n\r\n", "close", true},
        {"GET /a HTTP/1.0\r\n\r\n", "close", true},
        {"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t c = connect_peer(f);
        char expected[256];
        (void)snprintf(expected, sizeof(expected),
                       "HTTP/1.1 200 OK\r\n" DATE "%s%s%s"
                       "Content-Type: text/plain\r\nContent-Length: 1\r\n\r\na",
                       rows[i].connection == NULL ? "" : "Connection: ",
                       rows[i].connection == NULL ? "" : rows[i].connection,
                       rows[i].connection == NULL ? "" : "\r\n");
        send_text(f, c, rows[i].text);
        expect_text(f, c, expected);
        assert_int_equal(memory_net_closed(f->net, c), rows[i].closes);
    }
}

static void test_nothing_is_read_behind_a_closing_request(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, "GET /a HTTP/1.1\r\n" H "Connection: close\r\n\r\n" GET("/b"));
    assert_int_equal(f->handled, 1);
    assert_true(memory_net_finished(f->net, c)); /* lingers: the peer was still sending */
    assert_false(memory_net_closed(f->net, c));
    memory_net_fin(f->net, c);
    settle(f);
    assert_true(memory_net_closed(f->net, c));
}

static void test_date_follows_the_time_given(void **state)
{
    struct fixture *f = *state;
    static const struct {
        int64_t second;
        const char *date;
    } rows[] = {{784111777, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"},
                {951782400, "Date: Tue, 29 Feb 2000 00:00:00 GMT\r\n"},
                {1709251199, "Date: Thu, 29 Feb 2024 23:59:59 GMT\r\n"},
                {1735689599, "Date: Tue, 31 Dec 2024 23:59:59 GMT\r\n"},
                {1893456000, "Date: Tue, 01 Jan 2030 00:00:00 GMT\r\n"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        f->now_ms = rows[i].second * 1000 + 999;
        settle(f);
        uint32_t c = connect_peer(f);
        send_text(f, c, GET("/none"));
        struct span got = memory_net_take(f->net, c);
        assert_memory_equal(got.at + strlen("HTTP/1.1 204 No Content\r\n"), rows[i].date,
                            strlen(rows[i].date));
    }
}

static void test_continue_is_said_once_and_only_when_waited_for(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
#define EXPECT "POST /p HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    send_text(f, c, GET("/a") EXPECT);
    expect_text(f, c, OK("1", "a") "HTTP/1.1 100 Continue\r\n\r\n");
    send_text(f, c, "x");
    expect_text(f, c, "");
    send_text(f, c, "yz");
    expect_text(f, c, OK("3", "xyz"));
    send_text(f, c, EXPECT "xyz");
    expect_text(f, c, OK("3", "xyz"));
    send_text(f, c,
              "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 999999\r\n\r\n");
    expect_status(f, c, 413);
}

/* --- What is refused ----------------------------------------------------------------------------
 */

static void test_refused_requests_are_told_and_closed(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        int status;
    } rows[] = {
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\n" H "\r\n", 505},
        {"BREW / HTTP/1.1\r\n" H "\r\n", 501},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 300000\r\n\r\n", 413},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n" H "Expect: tea\r\n\r\n", 417},
        {"\x16\x03\x01", 400},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t c = connect_peer(f);
        send_text(f, c, GET("/a"));
        expect_status(f, c, 200);
        memory_net_send(f->net, c, span_of(rows[i].text));
        send_text(f, c, "and more that must not be read as a request" GET("/b"));
        expect_status(f, c, rows[i].status);
        assert_true(memory_net_finished(f->net, c));
        assert_false(memory_net_closed(f->net, c));
        send_text(f, c, GET("/c"));
        assert_int_equal(memory_net_unread(f->net, c), 0); /* drained, so no reset */
        expect_text(f, c, "");
        f->now_ms += HTTP_LINGER_MS;
        settle(f);
        assert_true(memory_net_closed(f->net, c));
    }
    assert_int_equal(f->handled, sizeof(rows) / sizeof(rows[0]));
    expect_nothing_held(f);
}

static void test_a_refusal_is_a_problem_and_says_close(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, "GET / HTTP/1.1\r\n\r\n");
    expect_text(f, c,
                "HTTP/1.1 400 Bad Request\r\n" DATE "Connection: close\r\n"
                "Content-Type: application/problem+json\r\nContent-Length: 11\r\n\r\nbad_request");
}

static void test_too_long_a_body_is_refused_before_it_comes(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, "POST / HTTP/1.1\r\n" H "Content-Length: 262145\r\n\r\n");
    expect_status(f, c, 413);
    expect_nothing_held(f);
}

/* --- Buffers ------------------------------------------------------------------------------------
 */

static void post_body(struct fixture *f, uint32_t c, size_t len)
{
    char head[128];
    (void)snprintf(head, sizeof(head), "POST /p HTTP/1.1\r\n" H "Content-Length: %zu\r\n\r\n", len);
    send_text(f, c, head);
    for (size_t at = 0; at < len; at += 50000) {
        memory_net_send(f->net, c, (struct span){huge, len - at < 50000 ? len - at : 50000});
        settle(f);
    }
}

static void test_the_largest_body_arrives_whole(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    post_body(f, c, HTTP_BODY_MAX);
    struct span got = memory_net_take(f->net, c);
    static const char head[] =
        "HTTP/1.1 200 OK\r\n" DATE "Content-Type: text/plain\r\nContent-Length: 262144\r\n\r\n";
    assert_int_equal(got.len, sizeof(head) - 1 + HTTP_BODY_MAX);
    assert_memory_equal(got.at, head, sizeof(head) - 1);
    expect_nothing_held(f);
}

static void expect_counts(const struct fixture *f, struct http_counts expected)
{
    struct http_counts counts = http_server_counts(f->server);
    assert_int_equal(counts.malformed, expected.malformed);
    assert_int_equal(counts.timeouts, expected.timeouts);
    assert_int_equal(counts.evicted, expected.evicted);
}

static void test_without_large_buffers_the_oldest_half_read_has_to_go(void **state)
{
    struct fixture *f = *state;
    uint32_t c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = connect_peer(f);
        send_text(f, c[i], "POST /p HTTP/1.1\r\n" H "Content-Length: 100000\r\n\r\n");
    }
    expect_status(f, c[0], 408);
    assert_true(memory_net_finished(f->net, c[0]));
    expect_text(f, c[1], "");
    expect_text(f, c[2], "");
    uint32_t d = connect_peer(f);
    post_body(f, d, 100000);
    expect_status(f, d, 200);
}

static void test_without_small_buffers_the_oldest_half_read_has_to_go(void **state)
{
    struct fixture *f = *state;
    uint32_t c[10];
    for (int i = 0; i < 9; i++) {
        c[i] = connect_peer(f);
        send_text(f, c[i], "GET /slow HTT");
    }
    expect_status(f, c[0], 408);
    expect_counts(f, (struct http_counts){.evicted = 1});
    assert_true(memory_net_finished(f->net, c[0]));
    for (int i = 1; i < 9; i++) {
        send_text(f, c[i], "P/1.1\r\n" H "\r\n");
        expect_text(f, c[i], OK("4", "slow"));
    }
    memory_net_fin(f->net, c[0]);
    settle(f);
    expect_nothing_held(f);
}

static void test_whole_requests_need_no_buffer_at_all(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 8; i++) {
        send_text(f, connect_peer(f), "GET /slow HTT");
    }
    uint32_t c = connect_peer(f);
    send_text(f, c, GET("/a") GET("/b"));
    expect_text(f, c, OK("1", "a") OK("1", "b"));
    assert_int_equal(http_server_busy(f->server), 8);
}

static void test_what_the_socket_does_not_take_is_kept_and_sent(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    memory_net_window(f->net, c, 100);
    send_text(f, c, GET("/big") GET("/b"));
    size_t got = memory_net_take(f->net, c).len;
    assert_int_equal(got, 100);
    assert_int_equal(http_server_busy(f->server), 1);
    assert_int_equal(f->handled, 1); /* not parsed while an answer is unsent */
    send_text(f, c, GET("/c"));
    assert_true(memory_net_unread(f->net, c) > 0); /* nor read */
    while (got < HUGE_BYTES) {
        memory_net_window(f->net, c, 30000);
        settle(f);
        got += memory_net_take(f->net, c).len;
    }
    memory_net_window(f->net, c, SIZE_MAX);
    settle(f);
    got += memory_net_take(f->net, c).len;
    assert_int_equal(f->handled, 3);
    static const char head[] =
        "HTTP/1.1 200 OK\r\n" DATE "Content-Type: text/plain\r\nContent-Length: 200000\r\n\r\n";
    assert_int_equal(got, sizeof(head) - 1 + HUGE_BYTES + 2 * (sizeof(OK("1", "b")) - 1));
    expect_nothing_held(f);
}

static void test_a_large_answer_nobody_can_keep_is_a_503(void **state)
{
    struct fixture *f = *state;
    uint32_t c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = connect_peer(f);
        memory_net_window(f->net, c[i], 100);
        send_text(f, c[i], GET("/big"));
    }
    assert_false(memory_net_closed(f->net, c[0]));
    assert_false(memory_net_closed(f->net, c[1]));
    assert_false(memory_net_closed(f->net, c[2])); /* two large buffers, both in use */
    memory_net_window(f->net, c[2], SIZE_MAX);
    settle(f);
    struct span got = memory_net_take(f->net, c[2]);
    assert_memory_equal(got.at, "HTTP/1.1 503 ", 13);
    assert_non_null(strstr(got.at, "Retry-After: 1\r\n"));
    assert_non_null(strstr(got.at, "\r\n\r\noverloaded"));
    send_text(f, c[2], GET("/a"));
    expect_text(f, c[2], OK("1", "a"));
    /* The one who has taken long to read gives way. */
    f->now_ms += HTTP_PATIENCE_MS;
    send_text(f, c[2], GET("/big"));
    assert_true(memory_net_take(f->net, c[2]).len > HUGE_BYTES);
    assert_true(memory_net_closed(f->net, c[0]));
    assert_false(memory_net_closed(f->net, c[1]));
}

/* --- Pending ------------------------------------------------------------------------------------
 */

static void test_a_pending_answer_holds_up_those_behind_it(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, GET("/a") GET("/wait") GET("/b") "GET /c HT");
    expect_text(f, c, OK("1", "a"));
    assert_int_equal(f->handled, 2);
    assert_int_equal(http_server_busy(f->server), 1);
    send_text(f, c, "TP/1.1\r\n" H "\r\n");
    expect_text(f, c, "");
    assert_true(memory_net_unread(f->net, c) > 0);
    assert_true(http_answer(f->server, f->kept[0], 200, "text/plain", "", span_of("later")));
    assert_false(http_alive(f->server, f->kept[0]));
    assert_false(http_answer(f->server, f->kept[0], 200, "text/plain", "", span_of("twice")));
    http_server_flush(f->server);
    settle(f);
    expect_text(f, c, OK("5", "later") OK("1", "b") OK("1", "c"));
    expect_nothing_held(f);
    assert_int_equal(f->gone_count, 0);
}

static void test_pending_without_more_input_changes_no_watch(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    for (size_t i = 0; i < 10; i++) {
        send_text(f, c, GET("/wait"));
        assert_true(http_answer(f->server, f->kept[i], 200, "text/plain", "", span_of("x")));
        http_server_flush(f->server);
        expect_text(f, c, OK("1", "x"));
    }
    assert_int_equal(memory_net_counts(f->net).watches, 0);
}

static void test_a_half_closed_peer_gets_its_answers(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    memory_net_send(f->net, c, span_of(GET("/wait") GET("/b")));
    memory_net_fin(f->net, c);
    settle(f);
    assert_false(memory_net_closed(f->net, c));
    assert_true(http_answer_ready(f->server, f->kept[0],
                                  span_of("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")));
    settle(f);
    expect_text(f, c, "HTTP/1.1 200 OK\r\n" DATE "Content-Length: 1\r\n\r\nx" OK("1", "b"));
    assert_true(memory_net_closed(f->net, c));
    assert_int_equal(f->gone_count, 0);

    uint32_t d = memory_net_connect(f->net);
    memory_net_send(f->net, d, span_of(GET("/a")));
    memory_net_fin(f->net, d);
    settle(f);
    expect_text(f, d, OK("1", "a"));
    assert_true(memory_net_closed(f->net, d));
}

static void test_a_peer_that_hangs_up_is_told_of_once(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, GET("/wait") GET("/b"));
    memory_net_reset(f->net, c);
    settle(f);
    assert_int_equal(f->gone_count, 1);
    assert_int_equal(f->gone[0].generation, f->kept[0].generation);
    assert_true(memory_net_closed(f->net, c));
    assert_false(http_answer(f->server, f->kept[0], 200, "text/plain", "", span_of("x")));
    /* The number is used again: the old exchange stays dead. */
    uint32_t d = connect_peer(f);
    assert_int_equal(c, d);
    send_text(f, d, GET("/wait"));
    assert_false(http_alive(f->server, f->kept[0]));
    assert_true(http_alive(f->server, f->kept[1]));
    assert_int_equal(http_peer(f->server, f->kept[1]).family, 4);
    assert_int_equal(http_peer(f->server, f->kept[0]).family, 0);
    expect_text(f, d, "");
    assert_int_equal(f->gone_count, 1);
}

static void test_requests_nobody_can_keep_are_dropped_with_a_close(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 8; i++) {
        uint32_t other = connect_peer(f);
        send_text(f, other, GET("/wait") GET("/x")); /* each keeps a small buffer */
    }
    uint32_t c = connect_peer(f);
    send_text(f, c, GET("/wait") GET("/x"));
    assert_true(http_answer(f->server, f->kept[8], 200, "text/plain", "", span_of("y")));
    settle(f);
    expect_text(f, c,
                "HTTP/1.1 200 OK\r\n" DATE "Connection: close\r\nContent-Type: text/plain\r\n"
                "Content-Length: 1\r\n\r\ny");
    assert_true(memory_net_finished(f->net, c));
}

static void test_one_handler_may_answer_another_exchange(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    uint32_t d = connect_peer(f);
    send_text(f, c, GET("/wait") GET("/c"));
    send_text(f, d, GET("/a") GET("/free") GET("/b"));
    expect_text(f, c, OK("5", "freed") OK("1", "c"));
    expect_text(f, d, OK("1", "a") OK("4", "free") OK("1", "b"));
    expect_nothing_held(f);
}

/* --- Time ---------------------------------------------------------------------------------------
 */

static void test_a_slow_request_gets_408_however_it_drips(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    static const char text[] = "GET /a HTTP/1.1\r\nHost: abcdefghijklmnop";
    for (int i = 0; i < 9; i++) {
        memory_net_send(f->net, c, (struct span){text + i, 1});
        settle(f);
        f->now_ms += 100;
    }
    settle(f);
    expect_text(f, c, "");
    f->now_ms += 100;
    settle(f);
    struct span got = memory_net_take(f->net, c);
    assert_memory_equal(got.at, "HTTP/1.1 408 ", 13);
    expect_counts(f, (struct http_counts){.timeouts = 1});
    assert_non_null(strstr(got.at, "Retry-After: 1\r\n"));
    assert_true(memory_net_finished(f->net, c));
    f->now_ms += HTTP_LINGER_MS;
    settle(f);
    assert_true(memory_net_closed(f->net, c));
    expect_nothing_held(f);
}

/* Half a line end, then the other half: no request has begun, and none is given up. */
static void test_an_empty_line_in_two_reads_is_no_half_read_request(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, GET("/none"));
    expect_status(f, c, 204);
    send_text(f, c, "\r");
    send_text(f, c, "\n");
    expect_nothing_held(f);
    f->now_ms += f->options.header_timeout_ms;
    settle(f);
    expect_text(f, c, "");
    send_text(f, c, GET("/none"));
    expect_status(f, c, 204);
    f->now_ms += f->options.idle_timeout_ms;
    settle(f);
    assert_true(memory_net_closed(f->net, c));
}

static void test_empty_lines_are_counted_over_reads(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    for (unsigned i = 0; i < 2 * HTTP_BLANK_LINES_MAX; i++) {
        if (i == HTTP_BLANK_LINES_MAX) { /* a request in between, and they begin anew */
            send_text(f, c, GET("/none"));
            expect_status(f, c, 204);
        }
        send_text(f, c, "\r\n");
        expect_text(f, c, "");
    }
    send_text(f, c, "\r\n");
    expect_status(f, c, 400);
}

/* A request that is given up has a body in its answer unless it is itself a HEAD. */
static void test_408_after_a_head_has_its_body(void **state)
{
    struct fixture *f = *state;
    static const char *const half[] = {"GET /y HT", "HEAD /y HT"};
    for (size_t i = 0; i < 2; i++) {
        uint32_t c = connect_peer(f);
        send_text(f, c, i == 0 ? "HEAD /a HTTP/1.1\r\n" H "\r\n" : GET("/none"));
        (void)memory_net_take(f->net, c);
        send_text(f, c, half[i]);
        f->now_ms += f->options.header_timeout_ms;
        settle(f);
        struct span got = memory_net_take(f->net, c);
        assert_memory_equal(got.at, "HTTP/1.1 408 ", 13);
        assert_int_equal(strstr(got.at, "\r\n\r\ntimeout") != NULL, i == 0);
    }
}

static void test_each_pipelined_request_has_its_own_time(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, "GET /none HT");
    f->now_ms += 900;
    send_text(f, c, "TP/1.1\r\n" H "\r\nGET /b HT");
    expect_status(f, c, 204);
    f->now_ms += 900; /* too late for the first, in time for the second */
    settle(f);
    expect_text(f, c, "");
    f->now_ms += 100;
    settle(f);
    expect_status(f, c, 408);
}

static void test_idle_connections_end_and_used_ones_live(void **state)
{
    struct fixture *f = *state;
    uint32_t idle = connect_peer(f);
    uint32_t used = connect_peer(f);
    send_text(f, idle, GET("/none"));
    expect_status(f, idle, 204);
    send_text(f, used, GET("/none"));
    expect_status(f, used, 204);
    for (int i = 0; i < 10; i++) {
        f->now_ms += 1000;
        settle(f);
        send_text(f, used, GET("/none"));
        expect_status(f, used, 204);
        assert_int_equal(memory_net_closed(f->net, idle), i >= 4);
    }
    f->now_ms += 5000;
    settle(f);
    assert_true(memory_net_closed(f->net, used));
    expect_text(f, used, "");
    expect_text(f, idle, "");
    assert_int_equal(http_server_connections(f->server), 0);
}

/* The loop runs its timers before it polls. After the process stood still, they have expired, and the
 * bytes that arrived meanwhile are in the sockets. */
static void test_a_request_that_waited_in_its_socket_is_read_before_its_time_is_judged(void **state)
{
    struct fixture *f = *state;
    uint32_t never_spoke = connect_peer(f);
    uint32_t half_read = connect_peer(f);
    uint32_t idle = connect_peer(f);
    uint32_t still_half = connect_peer(f);
    uint32_t silent = connect_peer(f);
    send_text(f, half_read, "GET /none HT");
    send_text(f, still_half, "GET /none HT");
    send_text(f, idle, GET("/none"));
    expect_status(f, idle, 204);
    memory_net_send(f->net, never_spoke, span_of(GET("/none")));
    memory_net_send(f->net, half_read, span_of("TP/1.1\r\n" H "\r\n"));
    memory_net_send(f->net, idle, span_of(GET("/none")));
    memory_net_send(f->net, still_half, span_of("T"));
    f->now_ms += f->options.idle_timeout_ms;
    int64_t next_ms = 0;
    http_server_timers(f->server, f->now_ms, &next_ms);
    expect_status(f, never_spoke, 204);
    expect_status(f, half_read, 204);
    expect_status(f, idle, 204);
    expect_status(f, still_half, 408); /* bytes alone are no progress */
    assert_true(memory_net_closed(f->net, silent));
    expect_counts(f, (struct http_counts){.timeouts = 2});
    settle(f);
    assert_false(memory_net_closed(f->net, never_spoke));
    assert_false(memory_net_closed(f->net, idle));
    f->now_ms += f->options.idle_timeout_ms;
    settle(f);
    assert_true(memory_net_closed(f->net, never_spoke));
    expect_nothing_held(f);
}

static void test_empty_lines_do_not_keep_a_connection(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    send_text(f, c, GET("/none"));
    expect_status(f, c, 204);
    for (int i = 0; i < 4; i++) { /* as many as are taken */
        f->now_ms += 1250;
        send_text(f, c, "\r\n");
    }
    assert_true(memory_net_closed(f->net, c));
}

static void test_a_peer_that_takes_nothing_is_left(void **state)
{
    struct fixture *f = *state;
    uint32_t c = connect_peer(f);
    memory_net_window(f->net, c, 10);
    send_text(f, c, GET("/big"));
    for (int i = 0; i < 5; i++) { /* as long as it takes something it may be slow */
        f->now_ms += 2000;
        memory_net_window(f->net, c, 10);
        settle(f);
    }
    assert_false(memory_net_closed(f->net, c));
    f->now_ms += 3000;
    settle(f);
    assert_true(memory_net_closed(f->net, c));
    expect_nothing_held(f);
}

static void test_the_next_timer_is_told_exactly(void **state)
{
    struct fixture *f = *state;
    int64_t next_ms = 0;
    http_server_timers(f->server, f->now_ms, &next_ms);
    assert_int_equal(next_ms, INT64_MAX);
    uint32_t c = connect_peer(f);
    http_server_timers(f->server, f->now_ms, &next_ms);
    assert_int_equal(next_ms, f->now_ms + 1000);
    send_text(f, c, GET("/none"));
    http_server_timers(f->server, f->now_ms, &next_ms);
    assert_int_equal(next_ms, f->now_ms + 5000);
    send_text(f, c, "GET");
    http_server_timers(f->server, f->now_ms, &next_ms);
    assert_int_equal(next_ms, f->now_ms + 1000);
    f->options.header_timeout_ms = 200;
    http_server_retime(f->server, &f->options);
    http_server_timers(f->server, f->now_ms, &next_ms);
    assert_int_equal(next_ms, f->now_ms + 200);
    send_text(f, c, " /wait HTTP/1.1\r\n" H "\r\n");
    http_server_timers(f->server, f->now_ms, &next_ms);
    assert_int_equal(next_ms, INT64_MAX);
}

/* --- Draining -----------------------------------------------------------------------------------
 */

static void test_draining_ends_the_idle_and_serves_the_rest(void **state)
{
    struct fixture *f = *state;
    uint32_t idle = connect_peer(f);
    uint32_t pending = connect_peer(f);
    uint32_t reading = connect_peer(f);
    uint32_t late = connect_peer(f);
    send_text(f, pending, GET("/wait"));
    send_text(f, reading, "GET /r HTT");
    memory_net_send(f->net, late, span_of(GET("/l"))); /* arrived, not reported */
    http_server_drain(f->server);
    assert_false(memory_net_accepting(f->net));
    assert_true(memory_net_closed(f->net, idle));
    expect_text(f, idle, "");
#define CLOSED(len, body)                                                                          \
    "HTTP/1.1 200 OK\r\n" DATE                                                                     \
    "Connection: close\r\nContent-Type: text/plain\r\nContent-Length: " len "\r\n\r\n" body
    expect_text(f, late, CLOSED("1", "l"));
    assert_true(memory_net_closed(f->net, late));
    assert_int_equal(http_server_busy(f->server), 2);
    send_text(f, reading, "P/1.1\r\n" H "\r\n");
    expect_text(f, reading, CLOSED("1", "r"));
    assert_true(http_answer(f->server, f->kept[0], 200, "text/plain", "", span_of("p")));
    expect_text(f, pending, CLOSED("1", "p"));
    assert_true(memory_net_closed(f->net, pending));
    assert_int_equal(http_server_connections(f->server), 0);
    expect_nothing_held(f);
}

static void test_memory_is_as_announced(void **state)
{
    (void)state;
    struct http_options options = {.connections_max = 10000};
    assert_true(sizeof(struct connection) <= 64);
    assert_true(http_server_bytes(&options) < 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_one_request_costs_one_read_and_one_write),
        T(test_pipelined_answers_leave_in_one_write),
        T(test_bytes_may_come_one_by_one),
        T(test_head_has_the_length_and_no_body),
        T(test_no_content_has_no_length),
        T(test_ready_bytes_get_date_and_connection),
        T(test_who_closes_and_who_stays),
        T(test_nothing_is_read_behind_a_closing_request),
        T(test_date_follows_the_time_given),
        T(test_continue_is_said_once_and_only_when_waited_for),
        T(test_refused_requests_are_told_and_closed),
        T(test_a_refusal_is_a_problem_and_says_close),
        T(test_too_long_a_body_is_refused_before_it_comes),
        T(test_the_largest_body_arrives_whole),
        T(test_without_large_buffers_the_oldest_half_read_has_to_go),
        T(test_without_small_buffers_the_oldest_half_read_has_to_go),
        T(test_whole_requests_need_no_buffer_at_all),
        T(test_what_the_socket_does_not_take_is_kept_and_sent),
        T(test_a_large_answer_nobody_can_keep_is_a_503),
        T(test_a_pending_answer_holds_up_those_behind_it),
        T(test_pending_without_more_input_changes_no_watch),
        T(test_a_half_closed_peer_gets_its_answers),
        T(test_a_peer_that_hangs_up_is_told_of_once),
        T(test_requests_nobody_can_keep_are_dropped_with_a_close),
        T(test_one_handler_may_answer_another_exchange),
        T(test_a_slow_request_gets_408_however_it_drips),
        T(test_an_empty_line_in_two_reads_is_no_half_read_request),
        T(test_empty_lines_are_counted_over_reads),
        T(test_408_after_a_head_has_its_body),
        T(test_each_pipelined_request_has_its_own_time),
        T(test_idle_connections_end_and_used_ones_live),
        T(test_a_request_that_waited_in_its_socket_is_read_before_its_time_is_judged),
        T(test_empty_lines_do_not_keep_a_connection),
        T(test_a_peer_that_takes_nothing_is_left),
        T(test_the_next_timer_is_told_exactly),
        T(test_draining_ends_the_idle_and_serves_the_rest),
        T(test_memory_is_as_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
