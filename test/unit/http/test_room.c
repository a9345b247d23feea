/*
 * When there is little room, some clients give way: connections that send nothing, clients that do
 * not read, addresses with many connections. The other clients must not notice.
 */
#define _GNU_SOURCE /* memmem */
#include "base/check.h"
#include "base/err.h"
#include "http/addresses.h"
#include "server_fixture.h"

enum { PLACES = 64 }; /* of the fixture; four of them are kept free */

static void advance(struct fixture *f, int64_t ms)
{
    f->now_ms += ms;
    settle(f);
}

/* The fixture with other options. */
static void restart(struct fixture *f)
{
    struct http_app app = f->server->app;
    http_server_free(f->server);
    assert_int_equal(http_server_new(f->net, &f->options, &app, &f->server), 0);
}

/* --- Silence ------------------------------------------------------------------------------------
 */

static void test_the_first_request_has_its_time_from_the_start(void **state)
{
    struct fixture *f = *state;
    uint32_t silent = connect_peer(f);
    uint32_t slow = connect_peer(f);
    advance(f, 900);
    send_text(f, slow, "GET /a HT"); /* it does not begin anew with the first byte */
    advance(f, 99);
    assert_false(memory_net_closed(f->net, silent));
    expect_text(f, slow, "");
    advance(f, 1);
    assert_true(memory_net_closed(f->net, silent));
    expect_text(f, silent, "");
    expect_status(f, slow, 408);
    assert_int_equal(http_server_counts(f->server).timeouts, 2);
}

static void test_a_new_connection_closes_the_one_idle_longest(void **state)
{
    struct fixture *f = *state;
    uint32_t stream = connect_peer(f);
    uint32_t waits = connect_peer(f);
    uint32_t reads = connect_peer(f);
    send_text(f, stream, GET("/events"));
    send_text(f, waits, GET("/wait"));
    send_text(f, reads, "GET /half HT");
    uint32_t used = connect_peer(f);
    uint32_t silent[PLACES];
    size_t count = 0;
    while (http_server_connections(f->server) < PLACES - 4) {
        silent[count++] = connect_peer(f);
    }
    advance(f, 200); /* `used` is older than the silent ones, but has spoken since */
    send_text(f, used, GET("/a"));
    expect_text(f, used, OK("1", "a"));
    for (size_t i = 0; i < count; i++) {
        uint32_t c = connect_peer(f);
        assert_true(memory_net_closed(f->net, silent[i]) || c == silent[i]);
        send_text(f, c, GET("/b"));
        expect_text(f, c, OK("1", "b"));
        assert_int_equal(http_server_connections(f->server), PLACES - 4);
        assert_int_equal(http_server_counts(f->server).displaced, i + 1);
    }
    send_text(f, used, GET("/c"));
    expect_text(f, used, OK("1", "c"));
    send_text(f, reads, "TP/1.1\r\n" H "\r\n");
    expect_text(f, reads, OK("4", "half"));
    assert_true(http_answer(f->server, f->kept[1], 200, "text/plain", "", span_of("w")));
    expect_text(f, waits, OK("1", "w"));
    assert_true(http_stream_send(f->server, f->kept[0], span_of("data: 1\n\n")));
    assert_int_equal(f->gone_count, 0);
}

/* The oldest idle connection has a request that is not reported yet. */
static void test_a_request_that_has_arrived_is_answered_first(void **state)
{
    struct fixture *f = *state;
    uint32_t first = connect_peer(f);
    uint32_t second = connect_peer(f);
    while (http_server_connections(f->server) < PLACES - 4) {
        (void)connect_peer(f);
    }
    (void)memory_net_connect(f->net);
    struct net_event accepted[4];
    assert_int_equal(net_poll(f->net, accepted, 4, 0), 1);
    memory_net_send(f->net, first, span_of(GET("/a")));
    http_server_events(f->server, accepted, 1, f->now_ms);
    expect_text(f, first, OK("1", "a"));
    assert_false(memory_net_closed(f->net, first));
    assert_true(memory_net_closed(f->net, second));
    settle(f);
}

/* One byte each: none of them is idle. They have a second. */
static void test_incomplete_requests_give_way_after_a_while(void **state)
{
    struct fixture *f = *state;
    f->options.small_buffers = PLACES;
    f->options.header_timeout_ms = 60000;
    restart(f);
    uint32_t slow[PLACES];
    for (size_t i = 0; i < PLACES - 4; i++) {
        slow[i] = connect_peer(f);
        send_text(f, slow[i], "G");
    }
    uint32_t patient = connect_peer(f);
    assert_int_equal(http_server_counts(f->server).displaced, 0);
    send_text(f, patient, GET("/a"));
    expect_text(f, patient, OK("1", "a"));
    memory_net_fin(f->net, patient);
    advance(f, HTTP_PATIENCE_MS);
    uint32_t next = connect_peer(f);
    expect_status(f, slow[0], 408);
    assert_true(memory_net_closed(f->net, slow[0]));
    expect_text(f, slow[1], "");
    send_text(f, next, GET("/b"));
    expect_status(f, next, 200);
}

/* No place is left, so no new connection comes that could take one. */
static void test_a_full_table_does_not_stay_full(void **state)
{
    struct fixture *f = *state;
    f->options.small_buffers = PLACES;
    f->options.header_timeout_ms = 60000;
    restart(f);
    int64_t next_ms = 0;
    for (size_t i = 0; i < PLACES; i++) {
        send_text(f, connect_peer(f), "G");
    }
    assert_int_equal(http_server_connections(f->server), PLACES);
    http_server_timers(f->server, f->now_ms, &next_ms);
    assert_in_range(next_ms, f->now_ms + 1, f->now_ms + HTTP_PATIENCE_MS / 2);
    advance(f, HTTP_PATIENCE_MS);
    assert_int_equal(http_server_connections(f->server), PLACES - 1);
}

/* --- Addresses ----------------------------------------------------------------------------------
 */

static void test_an_address_has_its_share(void **state)
{
    struct fixture *f = *state;
    f->options.address_max = 3;
    restart(f);
    uint32_t c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = connect_peer(f);
    }
    uint32_t more = connect_peer(f); /* all peers of the fixture have one address */
    assert_true(memory_net_closed(f->net, more));
    assert_int_equal(http_server_counts(f->server).crowded, 1);
    memory_net_fin(f->net, c[1]);
    settle(f);
    more = connect_peer(f);
    send_text(f, more, GET("/a"));
    expect_text(f, more, OK("1", "a"));
}

static struct net_address address(uint8_t family, uint32_t number, uint8_t rest)
{
    struct net_address made = {.family = family};
    memcpy(made.bytes, &number, sizeof(number));
    made.bytes[15] = family == 6 ? rest : 0;
    return made;
}

static void test_addresses_are_counted_one_by_one(void **state)
{
    (void)state;
    enum { CONNECTIONS = 500, ADDRESSES = 250 };
    struct address_counts *counts = address_counts_new(CONNECTIONS, 2);
    uint32_t model[ADDRESSES] = {0};
    uint32_t random = 1;
    assert_non_null(counts);
    for (int i = 0; i < 100000; i++) {
        random = random * 1664525U + 1013904223U;
        uint32_t which = (random >> 8) % ADDRESSES;
        struct net_address one = address(which % 2 ? 4 : 6, which / 2, (uint8_t)(random >> 16));
        if ((random >> 30) < 2) {
            assert_int_equal(address_counts_add(counts, one), model[which] < 2);
            model[which] += model[which] < 2;
        } else if (model[which] > 0) {
            address_counts_remove(counts, one);
            model[which]--;
        }
    }
    struct net_address unknown = {0};
    for (int i = 0; i < 5; i++) {
        assert_true(address_counts_add(counts, unknown)); /* never counted */
    }
    address_counts_remove(counts, unknown);
    address_counts_free(counts);
}

/* --- Large buffers ------------------------------------------------------------------------------
 */

static enum http_class admitted_class;
static size_t asked;

static bool admit(void *context, struct http_exchange exchange, const struct http_request *request,
                  size_t body_len, enum http_class *ret_class)
{
    struct fixture *f = context;
    asked++;
    assert_int_equal(request->body.len, 0);
    assert_true(body_len > 0);
    if (request->authorization.at == NULL) {
        assert_true(http_answer_problem(f->server, exchange, REFUSAL_UNAUTHENTICATED, ""));
        return false;
    }
    *ret_class = span_is(request->authorization, "boss") ? HTTP_CLASS_OPERATORS : admitted_class;
    return true;
}

static void with_admission(struct fixture *f)
{
    f->options.reserved_buffers = 2;
    f->server->app.admit = admit;
    admitted_class = HTTP_CLASS_ANYONE;
    asked = 0;
    restart(f);
}

#define LARGE_POST(headers) "POST /p HTTP/1.1\r\n" H headers "Content-Length: 100000\r\n\r\n"

static void test_a_body_is_refused_from_the_head_before_it_has_a_buffer(void **state)
{
    struct fixture *f = *state;
    with_admission(f);
    uint32_t c = connect_peer(f);
    send_text(f, c, LARGE_POST("Expect: 100-continue\r\n"));
    struct span got = memory_net_take(f->net, c);
    assert_memory_equal(got.at, "HTTP/1.1 401 ", 13); /* and no "100 Continue" */
    assert_non_null(strstr(got.at, "Connection: close\r\n"));
    assert_true(memory_net_finished(f->net, c));
    assert_int_equal(f->handled, 0);
    expect_nothing_held(f);
    /* The same for chunks, when they have outgrown a small buffer; a small body is not asked for. */
    uint32_t d = connect_peer(f);
    send_text(f, d, "POST /p HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n5\r\n");
    send_text(f, d, "abcde\r\n");
    assert_int_equal(asked, 1);
    send_text(f, d, "2000\r\n");
    expect_status(f, d, 401);
    assert_int_equal(asked, 2);
    expect_nothing_held(f);
}

static void test_anonymous_bodies_leave_operators_their_buffers(void **state)
{
    struct fixture *f = *state;
    with_admission(f);
    uint32_t c[6];
    for (int i = 0; i < 6; i++) { /* more than there are buffers: the oldest give way */
        c[i] = connect_peer(f);
        send_text(f, c[i], LARGE_POST("Authorization: me\r\n"));
    }
    uint32_t boss[2];
    for (int i = 0; i < 2; i++) {
        boss[i] = connect_peer(f);
        send_text(f, boss[i], LARGE_POST("Authorization: boss\r\n"));
    }
    for (int i = 0; i < 6; i++) {
        uint32_t more = connect_peer(f);
        send_text(f, more, LARGE_POST("Authorization: me\r\n"));
    }
    assert_int_equal(asked, 14);
    for (int i = 0; i < 2; i++) {
        memory_net_send(f->net, boss[i], (struct span){huge, 100000});
        settle(f);
        expect_status(f, boss[i], 200);
    }
}

/* Once asked, a request keeps what it was given, however its body arrives. */
static void test_an_admitted_body_arrives_in_pieces(void **state)
{
    struct fixture *f = *state;
    with_admission(f);
    uint32_t c = connect_peer(f);
    send_text(f, c, LARGE_POST("Authorization: boss\r\nExpect: 100-continue\r\n"));
    expect_text(f, c, "HTTP/1.1 100 Continue\r\n\r\n");
    for (int i = 0; i < 100; i++) {
        memory_net_send(f->net, c, (struct span){huge, 1000});
        settle(f);
    }
    expect_status(f, c, 200);
    assert_int_equal(asked, 1);
    send_text(f, c, GET("/a")); /* and the connection stays open */
    expect_text(f, c, OK("1", "a"));
    expect_nothing_held(f);
}

/* --- Answers that nobody reads ------------------------------------------------------------------
 */

static bool operators_big(struct http_server *server, struct http_exchange exchange,
                          const struct http_request *request)
{
    if (span_is(request->authorization, "boss")) {
        http_use_class(server, exchange, HTTP_CLASS_OPERATORS);
    }
    struct span body = {huge, sizeof(huge)};
    return span_is(request->path, "/file")
               ? http_answer_lasting(server, exchange, 200, "text/plain", "", body)
               : http_answer(server, exchange, 200, "text/plain", "", body);
}

static void test_non_readers_leave_operators_their_answers(void **state)
{
    struct fixture *f = *state;
    with_admission(f);
    fixture_answers = operators_big;
    for (int i = 0; i < 4; i++) {
        uint32_t c = connect_peer(f);
        memory_net_window(f->net, c, 100);
        send_text(f, c, GET("/big"));
    }
    uint32_t boss = connect_peer(f);
    memory_net_window(f->net, boss, 100);
    send_text(f, boss, "GET /big HTTP/1.1\r\n" H "Authorization: boss\r\n\r\n");
    memory_net_window(f->net, boss, SIZE_MAX);
    settle(f);
    struct span got = memory_net_take(f->net, boss);
    assert_memory_equal(got.at, "HTTP/1.1 200 ", 13);
    assert_true(got.len > HUGE_BYTES);
    fixture_answers = NULL;
}

static void test_stable_bytes_are_written_piece_by_piece(void **state)
{
    struct fixture *f = *state;
    fixture_answers = operators_big;
    uint32_t c = connect_peer(f);
    memory_net_send(f->net, c, span_of(GET("/file")));
    struct net_event events[4];
    size_t n = net_poll(f->net, events, 4, 0);
    http_server_events(f->server, events, n, f->now_ms);
    size_t first = memory_net_take(f->net, c).len; /* the socket would take all */
    assert_in_range(first, HTTP_WRITE_MAX, HTTP_WRITE_MAX + 200);
    n = net_poll(f->net, events, 4, 0);
    http_server_events(f->server, events, n, f->now_ms);
    assert_int_equal(memory_net_take(f->net, c).len, HTTP_WRITE_MAX);
    settle(f);
    assert_int_equal(memory_net_take(f->net, c).len + HTTP_WRITE_MAX + first,
                     HUGE_BYTES + sizeof(OK("200000", "")) - 1);
    expect_nothing_held(f);
    fixture_answers = NULL;
}

static void test_unsent_bytes_have_a_limit(void **state)
{
    struct fixture *f = *state;
    f->options.unsent_max = 3 * (HUGE_BYTES + 1000); /* with heads */
    f->options.small_buffers = 32;
    restart(f);
    fixture_answers = operators_big;
    uint32_t c[4];
    for (int i = 0; i < 4; i++) {
        c[i] = connect_peer(f);
        memory_net_window(f->net, c[i], 100);
        send_text(f, c[i], GET("/file"));
    }
    assert_int_equal(http_server_counts(f->server).unkept, 1);
    memory_net_window(f->net, c[3], SIZE_MAX);
    settle(f);
    expect_status(f, c[3], 503);
    send_text(f, c[3], GET("/none")); /* small answers are not concerned */
    expect_status(f, c[3], 204);
    /* A client that has taken long gives way, even if it reads a little now and then. */
    for (int i = 0; i < 10; i++) {
        memory_net_window(f->net, c[0], 100);
        advance(f, HTTP_PATIENCE_MS / 10);
    }
    send_text(f, c[3], GET("/file"));
    settle(f);
    assert_true(memory_net_take(f->net, c[3]).len > HUGE_BYTES);
    assert_true(memory_net_closed(f->net, c[0]));
    assert_false(memory_net_closed(f->net, c[1]));
    assert_int_equal(http_server_counts(f->server).slow, 1);
    for (int i = 1; i < 3; i++) {
        memory_net_window(f->net, c[i], SIZE_MAX);
    }
    settle(f);
    assert_int_equal(f->server->unsent, 0);
    expect_nothing_held(f);
    fixture_answers = NULL;
}

/* An event that could not be kept is not begun: the caller sends a newer one later. */
static void test_a_large_event_that_cannot_be_kept_is_not_begun(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        uint32_t c = connect_peer(f);
        memory_net_window(f->net, c, 100);
        send_text(f, c, GET("/big"));
    }
    uint32_t stream = connect_peer(f);
    send_text(f, stream, GET("/events"));
    (void)memory_net_take(f->net, stream);
    struct span event = {huge, sizeof(huge)};
    assert_false(http_stream_send(f->server, f->kept[0], event));
    expect_text(f, stream, "");
    assert_true(http_alive(f->server, f->kept[0]));
    f->now_ms += HTTP_PATIENCE_MS;
    settle(f);
    assert_true(http_stream_send(f->server, f->kept[0], event));
    assert_int_equal(memory_net_take(f->net, stream).len, HUGE_BYTES);
}

/* --- Clients that read no answers, by other ways to hold what others need ------------------------ */

/* 5000 bytes of a header line, of a request that so needs a large buffer. */
#define LONG_LINE_BYTES 5000

/* A client that reads nothing has sent these bytes, in two parts. */
static uint32_t non_reader(struct fixture *f, const char *first, const char *second)
{
    uint32_t c = connect_peer(f);
    memory_net_window(f->net, c, 10);
    send_text(f, c, first);
    if (second != NULL) {
        send_text(f, c, second);
    }
    return c;
}

static void test_non_readers_give_way_to_new_connections(void **state)
{
    struct fixture *f = *state;
    f->options.small_buffers = PLACES;
    restart(f);
    uint32_t c[PLACES];
    for (size_t i = 0; i < PLACES - 4; i++) {
        c[i] = non_reader(f, GET("/a"), NULL);
    }
    uint32_t early = connect_peer(f);
    assert_int_equal(http_server_counts(f->server).slow, 0); /* they have a second */
    memory_net_fin(f->net, early);
    advance(f, HTTP_PATIENCE_MS);
    uint32_t next = connect_peer(f);
    assert_true(memory_net_closed(f->net, c[0]));
    assert_false(memory_net_closed(f->net, c[1]));
    assert_int_equal(http_server_counts(f->server).slow, 1);
    send_text(f, next, GET("/b"));
    expect_status(f, next, 200);
}

/* A large request in two parts, and others behind an answer that is not read. */
static void test_requests_behind_an_unread_answer_give_up_their_buffer(void **state)
{
    struct fixture *f = *state;
    static char many[HTTP_READ_BUFFER];
    char first[LONG_LINE_BYTES + 100];
    struct out out = out_over(many, sizeof(many) - 1);
    out_lit(&out, "\r\n\r\n");
    while (out.len < HTTP_SMALL_BUFFER * 3) {
        out_lit(&out, GET("/a"));
    }
    many[out.len] = '\0';
    (void)snprintf(first, sizeof(first), "GET /a HTTP/1.1\r\n" H "X: %.*s", LONG_LINE_BYTES, huge);
    for (int i = 0; i < 2; i++) {
        (void)non_reader(f, first, many);
    }
    assert_int_equal(http_buffers_left(&f->server->buffers, HTTP_POOL_LARGE), 0);
    advance(f, HTTP_PATIENCE_MS);
    uint32_t honest = connect_peer(f);
    send_text(f, honest, first);
    send_text(f, honest, "\r\n\r\n");
    expect_status(f, honest, 200);
    assert_int_equal(http_server_counts(f->server).slow, 1);
}

/* An answer that is not read, and behind it an incomplete request that holds a large buffer. */
static void test_an_incomplete_request_behind_an_unread_answer_gives_way(void **state)
{
    struct fixture *f = *state;
    char bytes[LONG_LINE_BYTES + 200];
    (void)snprintf(bytes, sizeof(bytes), GET("/a") "GET /a HTTP/1.1\r\n" H "X: %.*s",
                   LONG_LINE_BYTES, huge);
    const char *incomplete = bytes + sizeof(GET("/a")) - 1;
    for (int i = 0; i < 2; i++) {
        (void)non_reader(f, bytes, NULL);
    }
    assert_int_equal(http_buffers_left(&f->server->buffers, HTTP_POOL_LARGE), 0);
    advance(f, HTTP_PATIENCE_MS / 2);
    uint32_t early = connect_peer(f);
    send_text(f, early, incomplete);
    expect_status(f, early, 503);
    advance(f, HTTP_PATIENCE_MS / 2);
    uint32_t honest = connect_peer(f);
    send_text(f, honest, incomplete);
    send_text(f, honest, "\r\n\r\n");
    expect_status(f, honest, 200);
}

/* Requests behind one whose answer the application owes. */
static void test_requests_behind_a_pending_answer_give_up_their_buffer(void **state)
{
    struct fixture *f = *state;
    static char waits[HTTP_READ_BUFFER];
    char large[LONG_LINE_BYTES + 100];
    struct out out = out_over(waits, sizeof(waits) - 1);
    out_lit(&out, GET("/wait"));
    while (out.len < HTTP_SMALL_BUFFER * 3) {
        out_lit(&out, GET("/a"));
    }
    waits[out.len] = '\0';
    (void)snprintf(large, sizeof(large), "GET /a HTTP/1.1\r\n" H "X: %.*s", LONG_LINE_BYTES, huge);
    uint32_t c[2];
    for (int i = 0; i < 2; i++) {
        c[i] = connect_peer(f);
        send_text(f, c[i], waits);
        advance(f, HTTP_PATIENCE_MS / 2);
    }
    uint32_t honest = connect_peer(f);
    send_text(f, honest, large); /* the first has waited for a second, the other one has not */
    assert_int_equal(http_server_counts(f->server).evicted, 1);
    uint32_t early = connect_peer(f);
    send_text(f, early, large); /* takes that of the incomplete one */
    expect_status(f, honest, 408);
    send_text(f, early, "\r\n\r\n");
    expect_status(f, early, 200);
    for (int i = 0; i < 2; i++) {
        assert_true(http_answer(f->server, f->kept[i], 200, "text/plain", "", span_of("waited")));
    }
    http_server_flush(f->server);
    settle(f);
    struct span got = memory_net_take(f->net, c[0]);
    assert_non_null(memmem(got.at, got.len, "Connection: close\r\n", 19));
    assert_memory_equal(got.at + got.len - 6, "waited", 6); /* and nothing behind it */
    assert_true(memory_net_finished(f->net, c[0]));
    assert_true(memory_net_take(f->net, c[1]).len > HTTP_SMALL_BUFFER); /* all answers */
    memory_net_fin(f->net, c[0]);
    memory_net_fin(f->net, honest);
    settle(f);
    expect_nothing_held(f);
}

static bool files(struct http_server *server, struct http_exchange exchange,
                  const struct http_request *request)
{
    return span_is(request->path, "/file") &&
           http_answer_lasting(server, exchange, 200, "text/plain", "",
                               (struct span){huge, sizeof(huge)});
}

/* Answers, streams and requests that wait hold all small buffers. */
static void test_non_readers_give_up_small_buffers(void **state)
{
    struct fixture *f = *state;
    static const char *const sent[] = {GET("/a"), GET("/a") GET("/wait"), GET("/events")};
    fixture_answers = files;
    while (http_buffers_left(&f->server->buffers, HTTP_POOL_SMALL) > 0) {
        uint32_t left = http_buffers_left(&f->server->buffers, HTTP_POOL_SMALL);
        (void)non_reader(f, sent[left % 3], NULL);
    }
    uint32_t honest = connect_peer(f);
    send_text(f, honest, GET("/file"));
    expect_status(f, honest, 503);
    send_text(f, honest, "GET /half HT");
    expect_status(f, honest, 503);
    advance(f, HTTP_PATIENCE_MS);
    uint32_t open = http_server_connections(f->server);
    honest = connect_peer(f);
    send_text(f, honest, GET("/file"));
    assert_true(memory_net_take(f->net, honest).len > HUGE_BYTES);
    assert_int_equal(http_server_connections(f->server), open - 3 + 1);
    assert_int_equal(f->gone_count, 2); /* those of the three that had an exchange */
    for (size_t i = 0; i < f->gone_count; i++) {
        assert_false(http_answer(f->server, f->gone[i], 200, "text/plain", "", span_of("late")));
    }
    while (http_buffers_left(&f->server->buffers, HTTP_POOL_SMALL) > 0) {
        (void)non_reader(f, GET("/a"), NULL);
    }
    send_text(f, honest, "GET /half HT");
    send_text(f, honest, "TP/1.1\r\n" H "\r\n");
    expect_status(f, honest, 200);
    /* A small answer that the socket takes in part is not cut, either. */
    while (http_buffers_left(&f->server->buffers, HTTP_POOL_SMALL) > 0) {
        (void)non_reader(f, GET("/a"), NULL);
    }
    uint32_t slow = connect_peer(f);
    memory_net_window(f->net, slow, 10);
    send_text(f, slow, GET("/a"));
    memory_net_window(f->net, slow, SIZE_MAX);
    settle(f);
    assert_int_equal(memory_net_take(f->net, slow).len, sizeof(OK("1", "a")) - 1);
    fixture_answers = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_the_first_request_has_its_time_from_the_start),
        T(test_a_new_connection_closes_the_one_idle_longest),
        T(test_a_request_that_has_arrived_is_answered_first),
        T(test_incomplete_requests_give_way_after_a_while),
        T(test_a_full_table_does_not_stay_full),
        T(test_an_address_has_its_share),
        cmocka_unit_test(test_addresses_are_counted_one_by_one),
        T(test_a_body_is_refused_from_the_head_before_it_has_a_buffer),
        T(test_anonymous_bodies_leave_operators_their_buffers),
        T(test_an_admitted_body_arrives_in_pieces),
        T(test_non_readers_leave_operators_their_answers),
        T(test_stable_bytes_are_written_piece_by_piece),
        T(test_unsent_bytes_have_a_limit),
        T(test_a_large_event_that_cannot_be_kept_is_not_begun),
        T(test_non_readers_give_way_to_new_connections),
        T(test_requests_behind_an_unread_answer_give_up_their_buffer),
        T(test_an_incomplete_request_behind_an_unread_answer_gives_way),
        T(test_requests_behind_a_pending_answer_give_up_their_buffer),
        T(test_non_readers_give_up_small_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
