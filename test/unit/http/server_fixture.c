/* See server_fixture.h. */
#include "server_fixture.h"

char huge[HUGE_BYTES];
fixture_answer *fixture_answers;

static enum http_outcome app_handle(void *context, struct http_exchange exchange,
                                    const struct http_request *request)
{
    struct fixture *f = context;
    struct http_server *s = f->server;
    f->handled++;
    if (span_is(request->path, "/wait")) {
        f->kept[f->kept_count++] = exchange;
        return HTTP_PENDING;
    }
    if (span_is(request->path, "/events")) {
        f->begun = http_stream_begin(s, exchange, "Cache-Control: no-store\r\n");
        if (f->begun) {
            f->kept[f->kept_count++] = exchange;
            assert_true(http_stream_send(s, exchange, span_of("data: 0\n\n")));
        }
        return HTTP_ANSWERED;
    }
    if (span_is(request->path, "/free")) {
        assert_true(http_answer(s, f->kept[0], 200, "text/plain", "", span_of("freed")));
    }
    struct span body = {request->path.at + 1, request->path.len - 1};
    if (span_is(request->path, "/ready")) {
        assert_true(http_answer_ready(
            s, exchange, span_of("HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nno")));
        return HTTP_ANSWERED;
    }
    if (span_is(request->path, "/none")) {
        assert_true(http_answer(s, exchange, 204, NULL, "X-A: b\r\n", (struct span){0}));
        return HTTP_ANSWERED;
    }
    if (span_is(request->path, "/big")) {
        body = (struct span){huge, sizeof(huge)};
    }
    if (request->method == HTTP_POST) {
        body = request->body;
    }
    if (fixture_answers == NULL || !fixture_answers(s, exchange, request)) {
        assert_true(http_answer(s, exchange, 200, "text/plain", "", body));
    }
    assert_false(http_alive(s, exchange));
    return HTTP_ANSWERED;
}

static void app_problem(void *context, enum refusal refusal, struct out *body)
{
    (void)context;
    out_format(body, "%s", refusal_text(refusal)->code);
}

static void app_gone(void *context, struct http_exchange exchange)
{
    struct fixture *f = context;
    assert_false(http_alive(f->server, exchange));
    f->gone[f->gone_count++] = exchange;
}

static void app_finished(void *context, struct http_exchange exchange)
{
    struct fixture *f = context;
    assert_true(http_alive(f->server, exchange));
}

static void start(struct fixture *f)
{
    struct http_app app = {.context = f,
                           .handle = app_handle,
                           .problem = app_problem,
                           .finished = app_finished,
                           .gone = app_gone};
    f->net = memory_net_new(f->options.connections_max);
    f->now_ms = 1000;
    assert_int_equal(http_server_new(f->net, &f->options, &app, &f->server), 0);
}

int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->options = (struct http_options){.connections_max = 64,
                                       .small_buffers = 8,
                                       .large_buffers = 2,
                                       .header_timeout_ms = 1000,
                                       .idle_timeout_ms = 5000,
                                       .write_timeout_ms = 3000};
    memset(huge, 'x', sizeof(huge));
    start(f);
    *state = f;
    return 0;
}

int teardown(void **state)
{
    struct fixture *f = *state;
    http_server_free(f->server);
    memory_net_free(f->net);
    free(f);
    return 0;
}

/* --- The test as peer ---------------------------------------------------------------------------
 */

/* One turn; how many events it had. */
static size_t turn(struct fixture *f)
{
    struct net_event events[64];
    int64_t next_ms;
    size_t n = net_poll(f->net, events, 64, 0);
    http_server_events(f->server, events, n, f->now_ms);
    http_server_timers(f->server, f->now_ms, &next_ms);
    return n + (next_ms <= f->now_ms); /* there is more to do at once */
}

void settle(struct fixture *f)
{
    for (int i = 0; turn(f) > 0; i++) {
        assert_true(i < 1000);
    }
}

uint32_t connect_peer(struct fixture *f)
{
    uint32_t c = memory_net_connect(f->net);
    settle(f);
    return c;
}

void send_text(struct fixture *f, uint32_t c, const char *text)
{
    memory_net_send(f->net, c, span_of(text));
    settle(f);
}

void expect_text(struct fixture *f, uint32_t c, const char *text)
{
    struct span got = memory_net_take(f->net, c);
    if (!span_is(got, text)) {
        fail_msg("got <%.*s> instead of <%s>", (int)got.len, got.at, text);
    }
}

void expect_status(struct fixture *f, uint32_t c, int status)
{
    struct span got = memory_net_take(f->net, c);
    char line[32];
    (void)snprintf(line, sizeof(line), "HTTP/1.1 %d ", status);
    if (got.len < strlen(line) || memcmp(got.at, line, strlen(line)) != 0) {
        fail_msg("got <%.*s> instead of %d", (int)got.len, got.at, status);
    }
}

void expect_nothing_held(struct fixture *f)
{
    assert_int_equal(http_server_busy(f->server), 0);
    for (int large = 0; large < 2; large++) {
        uint32_t n = 0;
        uint32_t count = large ? f->options.large_buffers : f->options.small_buffers;
        struct http_buffer *all[64];
        while ((all[n] = http_buffers_borrow(&f->server->buffers, large)) != NULL) {
            n++;
        }
        assert_int_equal(n, count);
        while (n > 0) {
            http_buffers_return(&f->server->buffers, all[--n]);
        }
    }
}
