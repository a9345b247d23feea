/*
 * The bytes of one connection through the real connection handling, over a network in memory. The
 * same bytes are delivered in several ways: at once, in pieces, byte by byte, to a client that
 * reads slowly, with time running out, with the client gone. A small application answers, some of
 * it later and some as a stream.
 *
 * What must be true, however they are delivered:
 *  - each request the application gets is the next one of the bytes, as a naive reading finds it
 *    (http_reading.c), and its framing is beyond doubt: no smuggling;
 *  - answers are well-formed, in order, one for each request, and the right one; at most one more,
 *    which refuses what could not be read and closes;
 *  - nothing is handled or answered behind an answer that says it closes, and no plain request
 *    goes unanswered before that;
 *  - the bytes sent are the same (except 100 Continue, which only a client that waits for it gets);
 *  - in the end the connection is closed and every buffer given back.
 * All but the last but one also hold where there are no buffers left to borrow.
 *
 * In the input the bytes 0xfe N C stand for 256 * (N + 1) times C: limits are far away otherwise.
 */
#define _GNU_SOURCE /* memmem */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#include "http/connection.h"
#include "http_reading.h"
#include "memory_net.h"

#define STREAM_MAX 400000U
#define REQUESTS_MAX 4096
#define BYTEWISE_MAX 600
#define BIG_BYTES 70000 /* more than the answers of a turn */
#define DATE "Date: Thu, 01 Jan 1970 00:00:01 GMT\r\n"
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

enum { SMALL_BUFFERS = 8, LARGE_BUFFERS = 4, RESERVED_BUFFERS = 2 };

static const struct http_options options = {.connections_max = 2,
                                            .small_buffers = SMALL_BUFFERS,
                                            .large_buffers = LARGE_BUFFERS,
                                            .reserved_buffers = RESERVED_BUFFERS,
                                            .address_max = 1,
                                            .header_timeout_ms = 1000,
                                            .idle_timeout_ms = 5000,
                                            .write_timeout_ms = 3000};

/* One request the application got. */
struct handled {
    struct span path;
    bool head;
};

static struct run {
    uint32_t connection;
    struct http_reading reading;
    struct handled handled[REQUESTS_MAX];
    size_t count;
    struct http_exchange kept; /* the exchange that is owed an answer, or the stream */
    bool pending;
    bool streaming;
    bool short_of_buffers;
} run;

/* One server for all runs: each must leave it as it found it. */
static struct net *net;
static struct http_server *server;
static int64_t now_ms = 1000;
static char big[BIG_BYTES];

/* ---- the application ---- */

static bool path_begins(struct span path, char second)
{
    return path.len > 1 && path.at[1] == second;
}

/* What the answer to request n says. */
static struct span answer_body(size_t n, char *memory, size_t cap)
{
    struct out out = out_over(memory, cap);
    struct span path = run.handled[n].path;
    if (path_begins(path, 'b')) {
        return (struct span){big, sizeof(big)};
    }
    out_format(&out, "%zu:", n);
    out_put(&out, path);
    return out_span(&out);
}

static void answer(struct http_exchange exchange, size_t n)
{
    char memory[HTTP_LINE_MAX + 64];
    struct span path = run.handled[n].path;
    struct span body = answer_body(n, memory, sizeof(memory));
    if (path_begins(path, 'n')) {
        CHECK(http_answer(server, exchange, 204, NULL, "X-A: b\r\n", (struct span){NULL, 0}));
    } else if (path_begins(path, 'r')) {
        CHECK(http_answer_ready(server, exchange,
                                span_of("HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nno")));
    } else if (path_begins(path, 'p')) {
        CHECK(http_answer_problem(server, exchange, REFUSAL_SOLD_OUT, "X-A: b\r\n"));
    } else if (path_begins(path, 'b')) {
        CHECK(http_answer_lasting(server, exchange, 200, "text/plain", "", body));
    } else {
        CHECK(http_answer(server, exchange, 200, "text/plain", "", body));
    }
}

static enum http_outcome on_handle(void *context, struct http_exchange exchange,
                                   const struct http_request *request)
{
    (void)context;
    CHECK(!run.pending && !run.streaming && run.count < REQUESTS_MAX);
    struct handled *handled = &run.handled[run.count];
    http_reading_next(&run.reading, request, &handled->path);
    handled->head = request->method == HTTP_HEAD;
    run.count++;
    run.kept = exchange;
    if (path_begins(handled->path, 'w')) {
        run.pending = true;
        return HTTP_PENDING;
    }
    if (path_begins(handled->path, 's')) {
        run.streaming = http_stream_begin(server, exchange, "X-A: b\r\n");
        CHECK(run.streaming != handled->head);
        return HTTP_ANSWERED;
    }
    answer(exchange, run.count - 1);
    return HTTP_ANSWERED;
}

/* The head of a request whose body is large: it has a body, and is no request that was handled. */
static bool on_admit(void *context, struct http_exchange exchange,
                     const struct http_request *request, size_t body_len,
                     enum http_class *ret_class)
{
    (void)context;
    CHECK(!run.pending && !run.streaming && http_alive(server, exchange));
    CHECK(request->body.len == 0 && request->path.len > 0 && body_len <= HTTP_BODY_MAX);
    *ret_class = path_begins(request->path, 'o')   ? HTTP_CLASS_OPERATORS
                 : path_begins(request->path, 'm') ? HTTP_CLASS_PAYMENTS
                                                   : HTTP_CLASS_ANYONE;
    return true;
}

static void on_problem(void *context, enum refusal refusal, struct out *body)
{
    (void)context;
    out_text(body, refusal_text(refusal)->code);
}

static void on_gone(void *context, struct http_exchange exchange)
{
    (void)context;
    CHECK(run.pending || run.streaming);
    CHECK(exchange.generation == run.kept.generation);
    run.pending = run.streaming = false;
}

static void on_finished(void *context, struct http_exchange exchange)
{
    (void)context;
    CHECK(run.pending && exchange.generation == run.kept.generation);
}

/* ---- the client's side ---- */

static void settle(void)
{
    struct net_event events[4];
    int64_t next_ms;
    size_t n;
    unsigned turns = 0;
    do {
        n = net_poll(net, events, 4, 0);
        http_server_events(server, events, n, now_ms);
        http_server_timers(server, now_ms, &next_ms);
        CHECK(++turns < 1000000); /* a server that spins */
    } while (n > 0);
}

/* What the application owes is done now. True if there was anything. */
static bool pay(void)
{
    if (run.pending) {
        run.pending = false;
        answer(run.kept, run.count - 1);
        http_server_flush(server);
        return true;
    }
    if (run.streaming && http_stream_ready(server, run.kept)) {
        run.streaming = false;
        CHECK(http_stream_send(server, run.kept, span_of("data: x\n\n")));
        http_stream_end(server, run.kept);
        return true;
    }
    return false;
}

static void pump(void)
{
    do {
        settle();
    } while (pay());
}

static void run_begin(struct span stream)
{
    static const struct http_app app = {.handle = on_handle,
                                        .admit = on_admit,
                                        .problem = on_problem,
                                        .finished = on_finished,
                                        .gone = on_gone};
    if (net == NULL) {
        for (size_t i = 0; i < sizeof(big); i++) {
            big[i] = (char)('a' + (i + i / 26) % 26); /* no two pieces of it are alike for long */
        }
        net = memory_net_new(options.connections_max);
        CHECK(http_server_new(net, &options, &app, &server) == 0);
    }
    run.reading = (struct http_reading){.stream = stream};
    run.count = 0;
    run.connection = memory_net_connect(net);
    settle();
}

static void send_piece(size_t from, size_t len)
{
    memory_net_send(net, run.connection, (struct span){run.reading.stream.at + from, len});
}

/* The connection is gone, and nothing it used is missing. */
static void check_nothing_held(void)
{
    CHECK(memory_net_closed(net, run.connection));
    CHECK(http_server_connections(server) == 0 && http_server_busy(server) == 0);
    CHECK(!run.pending && !run.streaming);
    for (int pool = 0; pool < HTTP_POOLS; pool++) {
        struct http_buffer *all[SMALL_BUFFERS + LARGE_BUFFERS + 1];
        uint32_t n = 0;
        while ((all[n] = http_buffers_borrow(&server->buffers, pool)) != NULL) {
            n++;
        }
        CHECK(n == (pool == HTTP_POOL_SMALL   ? SMALL_BUFFERS
                    : pool == HTTP_POOL_LARGE ? LARGE_BUFFERS
                                              : RESERVED_BUFFERS));
        while (n > 0) {
            http_buffers_return(&server->buffers, all[--n]);
        }
    }
    CHECK(server->unsent == 0);
}

/* ---- what was answered ---- */

struct sent {
    int status;
    bool closes;
    bool has_length;
    size_t length;
    size_t body; /* where it begins */
};

static bool takes(struct span line, const char *name, struct span *ret_value)
{
    size_t len = strlen(name);
    if (line.len < len || memcmp(line.at, name, len) != 0) {
        return false;
    }
    *ret_value = (struct span){line.at + len, line.len - len};
    return true;
}

/* The head of an answer at `at`: its form is right, and nothing is there twice. */
static struct sent read_head(struct span bytes, size_t at)
{
    struct sent sent = {.status = 0};
    unsigned dates = 0;
    for (bool first = true;; first = false) {
        struct span value;
        const char *end = memchr(bytes.at + at, '\r', bytes.len - at);
        CHECK(end != NULL && end + 1 < bytes.at + bytes.len && end[1] == '\n');
        struct span line = {bytes.at + at, (size_t)(end - bytes.at) - at};
        at += line.len + 2;
        if (first) {
            CHECK(takes(line, "HTTP/1.1 ", &value) && value.len > 4 && value.at[3] == ' ');
            sent.status = (value.at[0] - '0') * 100 + (value.at[1] - '0') * 10 + value.at[2] - '0';
            CHECK(sent.status >= 200 && sent.status <= 505);
            continue;
        }
        if (line.len == 0) {
            break;
        }
        CHECK(memchr(line.at, ':', line.len) != NULL && memchr(line.at, '\n', line.len) == NULL);
        if (takes(line, "Content-Length: ", &value)) {
            uint64_t length = 0;
            CHECK(!sent.has_length && span_parse_u64(value, HTTP_ANSWER_MAX, &length) == 0);
            sent.has_length = true;
            sent.length = (size_t)length;
        } else if (takes(line, "Connection: ", &value)) {
            CHECK(!sent.closes && (span_is(value, "close") || span_is(value, "keep-alive")));
            sent.closes = span_is(value, "close");
        } else {
            dates += takes(line, "Date: ", &value);
        }
    }
    CHECK(dates == 1);
    sent.body = at;
    return sent;
}

/* The answer to request n begins at `at`. Returns where it ends. */
static size_t check_answer(struct span bytes, size_t at, size_t n, bool *ret_closes)
{
    char memory[HTTP_LINE_MAX + 64];
    const struct handled *handled = &run.handled[n];
    struct sent sent = read_head(bytes, at);
    struct span body = answer_body(n, memory, sizeof(memory));
    int status = 200;
    bool stream = false;
    if (path_begins(handled->path, 'n')) {
        status = 204;
        body = (struct span){NULL, 0};
    } else if (path_begins(handled->path, 'r')) {
        status = 409;
        body = span_of("no");
    } else if (path_begins(handled->path, 'p')) {
        status = 409;
        body = span_of("sold_out");
    } else if (path_begins(handled->path, 's')) {
        body = span_of("data: x\n\n");
        stream = true;
    }
    if (run.short_of_buffers && sent.status == 503 && path_begins(handled->path, 'b')) {
        status = 503; /* nothing could have kept it */
        body = span_of("overloaded");
    }
    CHECK(sent.status == status && sent.has_length == (status != 204 && !stream));
    CHECK(!sent.has_length || sent.length == body.len);
    CHECK(!stream || sent.closes);
    *ret_closes = sent.closes;
    if (handled->head) {
        return sent.body;
    }
    CHECK(body.len <= bytes.len - sent.body);
    CHECK(body.len == 0 || memcmp(bytes.at + sent.body, body.at, body.len) == 0);
    return sent.body + body.len;
}

/* Without the 100 Continues and the dates, which differ, into a copy that the caller frees. */
static struct span without_continue(struct span bytes)
{
    char *copy = malloc(bytes.len + 1);
    struct out out = out_over(copy, bytes.len + 1);
    size_t len = sizeof(CONTINUE) - 1;
    CHECK(copy != NULL);
    for (size_t at = 0; at < bytes.len;) {
        const char *from = bytes.at + at;
        size_t rest = bytes.len - at;
        const char *interim = memmem(from, rest, CONTINUE, len);
        const char *date = memmem(from, rest, "\nDate: ", 7);
        if (date != NULL && (interim == NULL || date < interim)) {
            out_bytes(&out, from, (size_t)(date - from) + 1);
            out_text(&out, DATE);
            at += (size_t)(date - from) + sizeof(DATE);
        } else {
            size_t n = interim != NULL ? (size_t)(interim - from) : rest;
            out_bytes(&out, from, n);
            at += n + (interim != NULL ? len : 0);
        }
    }
    return out_span(&out);
}

/* A request that nobody could mistake: "GET /letters HTTP/1.1", one header, all of it there. */
static bool is_plain(struct span bytes)
{
    static const char end[] = " HTTP/1.1\r\nHost: a\r\n\r\n";
    struct span rest;
    if (!takes(bytes, "GET /", &rest)) {
        return false;
    }
    size_t word = 0;
    while (word < rest.len && word < 100 && rest.at[word] >= 'a' && rest.at[word] <= 'z') {
        word++;
    }
    struct span behind = {rest.at + word, rest.len - word};
    return takes(behind, end, &rest);
}

/* What was not handled, though the connection had not said that it closes, is not a plain request
 * behind a few empty lines. */
static void check_unread(struct span unread)
{
    struct span rest = unread;
    for (unsigned i = 0; i <= HTTP_BLANK_LINES_MAX; i++) {
        CHECK(!is_plain(rest));
        if (!takes(rest, "\r\n", &rest)) {
            return;
        }
    }
}

/* All that was sent, the whole run: one answer for each request and perhaps a refusal. Returns the
 * bytes, to be freed; *ret_refused is where the refusal begins, or the end. */
static struct span check_answers(size_t *ret_refused)
{
    struct span bytes = without_continue(memory_net_take(net, run.connection));
    size_t at = 0;
    bool closes = false;
    for (size_t n = 0; n < run.count; n++) {
        CHECK(!closes); /* nothing is handled behind an answer that closes */
        at = check_answer(bytes, at, n, &closes);
    }
    *ret_refused = at;
    if (!closes && !run.short_of_buffers) {
        check_unread((struct span){run.reading.stream.at + run.reading.at,
                                   run.reading.stream.len - run.reading.at});
    }
    if (at < bytes.len) {
        CHECK(!closes);
        struct sent sent = read_head(bytes, at);
        struct span unread = {run.reading.stream.at + http_reading_start(&run.reading),
                              run.reading.stream.len - http_reading_start(&run.reading)};
        struct span rest;
        CHECK(sent.status >= 400 && sent.closes && sent.has_length);
        /* A HEAD may be refused before so much of it is there that it can be told. */
        bool bodiless = takes(unread, "HEAD ", &rest) && sent.body == bytes.len;
        CHECK(bodiless || sent.body + sent.length == bytes.len);
    }
    return bytes;
}

/* ---- the ways to deliver ---- */

static void deliver_at_once(void)
{
    send_piece(0, run.reading.stream.len);
    pump();
}

/* In pieces whose sizes the seed draws; what is owed is paid at once, or much later. */
static void deliver_pieces(uint32_t seed)
{
    size_t len = run.reading.stream.len;
    for (size_t from = 0; from < len;) {
        seed = seed * 1664525 + 1013904223;
        size_t most = (seed >> 8) % 4 == 0 ? 4000 : 40;
        size_t n = 1 + (seed >> 12) % most;
        n = n < len - from ? n : len - from;
        send_piece(from, n);
        from += n;
        if ((seed >> 10) % 2 == 0) {
            pump();
        } else {
            settle();
        }
    }
    pump();
}

static void deliver_bytes(void)
{
    for (size_t i = 0; i < run.reading.stream.len; i++) {
        send_piece(i, 1);
        pump();
    }
}

/* The client takes a few bytes at a time. */
static void deliver_to_slow_reader(size_t window)
{
    send_piece(0, run.reading.stream.len);
    size_t idle = 0;
    while (idle < 3) { /* an owed answer, its rest, and nothing more */
        uint32_t writes = memory_net_counts(net).writes;
        memory_net_window(net, run.connection, window);
        settle();
        bool paid = pay();
        idle = paid || memory_net_counts(net).writes != writes ? 0 : idle + 1;
    }
    memory_net_window(net, run.connection, SIZE_MAX);
    pump();
}

/* The client says its last word; then nothing is left of it, soon. */
static void leave(void)
{
    memory_net_fin(net, run.connection);
    settle();
}

static void compare_way(struct span stream, struct span wanted, uint32_t way, uint32_t seed)
{
    size_t refused = 0;
    run_begin(stream);
    switch (way) {
    case 0:
        deliver_pieces(seed);
        break;
    case 1:
        deliver_bytes();
        break;
    default:
        deliver_to_slow_reader(1 + seed % 3000 * (seed % 7) + wanted.len / 50);
        break;
    }
    leave();
    struct span bytes = check_answers(&refused);
    CHECK(span_equal(bytes, wanted));
    free((char *)bytes.at);
    check_nothing_held();
}

/* Nothing more comes, and time passes: a request that is half there is answered with 408. */
static void check_time_out(struct span stream, struct span wanted, uint32_t seed)
{
    size_t refused = 0;
    run_begin(stream);
    deliver_pieces(seed);
    for (int i = 0; i < 8; i++) {
        now_ms += 1001;
        settle();
    }
    struct span bytes = check_answers(&refused);
    CHECK(bytes.len >= wanted.len && memcmp(bytes.at, wanted.at, wanted.len) == 0);
    if (bytes.len > wanted.len) {
        CHECK(refused == wanted.len && read_head(bytes, refused).status == 408);
    }
    free((char *)bytes.at);
    check_nothing_held();
}

/* Others have the buffers: some requests are refused or go unanswered, and all else holds. */
static void check_short_of_buffers(struct span stream, uint32_t seed)
{
    struct http_buffer *taken[SMALL_BUFFERS + LARGE_BUFFERS];
    size_t count = 0;
    size_t refused = 0;
    run_begin(stream);
    while (count < SMALL_BUFFERS - seed % 2) {
        taken[count++] = http_buffers_borrow(&server->buffers, HTTP_POOL_SMALL);
    }
    while (count < SMALL_BUFFERS - seed % 2 + LARGE_BUFFERS - seed / 2 % 2) {
        taken[count++] = http_buffers_borrow(&server->buffers, HTTP_POOL_LARGE);
    }
    deliver_pieces(seed);
    leave();
    run.short_of_buffers = true;
    struct span bytes = check_answers(&refused);
    run.short_of_buffers = false;
    free((char *)bytes.at);
    while (count > 0) {
        http_buffers_return(&server->buffers, taken[--count]);
    }
    check_nothing_held();
}

/* The client is gone in the middle. */
static void check_reset(struct span stream, uint32_t seed)
{
    run_begin(stream);
    send_piece(0, stream.len > 0 ? seed % stream.len : 0);
    if (seed % 2 == 0) {
        settle();
    }
    memory_net_reset(net, run.connection);
    settle();
    check_nothing_held();
}

static struct span expand(struct fuzz_input *in)
{
    static char memory[STREAM_MAX];
    size_t len = 0;
    while (in->left > 0 && len < sizeof(memory)) {
        uint8_t byte = fuzz_byte(in);
        size_t times = byte == 0xfe ? ((size_t)fuzz_byte(in) + 1) * 256 : 1;
        byte = byte == 0xfe ? fuzz_byte(in) : byte;
        times = times < sizeof(memory) - len ? times : sizeof(memory) - len;
        memset(memory + len, byte, times);
        len += times;
    }
    return (struct span){memory, len};
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct fuzz_input in = {bytes, size};
    uint32_t seed = (uint32_t)fuzz_number(&in, 3);
    struct span stream = expand(&in);
    size_t refused = 0;
    run_begin(stream);
    deliver_at_once();
    leave();
    struct span wanted = check_answers(&refused);
    check_nothing_held();
    compare_way(stream, wanted, 0, seed);
    if (stream.len <= BYTEWISE_MAX) {
        compare_way(stream, wanted, 1, seed);
    }
    compare_way(stream, wanted, 2, seed);
    check_time_out(stream, wanted, seed ^ 0x5555);
    check_short_of_buffers(stream, seed);
    check_reset(stream, seed);
    free((char *)wanted.at);
    return 0;
}
