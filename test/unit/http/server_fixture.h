/*
 * What the tests of the server share: a server over a network in memory, a small application, and
 * the test's hands on the peer's side and on the time.
 *
 * The application answers GET /name with "name" at once; /big with HUGE_BYTES; /none with 204;
 * /ready with ready-made bytes; /wait later (the exchange is in `kept`); /events with a stream
 * (kept, too); a POST with its own body; and whatever fixture_answers answers.
 */
#ifndef SLUICE_TEST_SERVER_FIXTURE_H
#define SLUICE_TEST_SERVER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "http/connection.h"
#include "http/server.h"
#include "memory_net.h"
#include <cmocka.h>

#define H "Host: a\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" H "\r\n"
#define DATE "Date: Thu, 01 Jan 1970 00:00:01 GMT\r\n"
#define OK(len, body)                                                                              \
    "HTTP/1.1 200 OK\r\n" DATE "Content-Type: text/plain\r\nContent-Length: " len "\r\n\r\n" body

enum { HUGE_BYTES = 200000 };
extern char huge[HUGE_BYTES];

/* Asked first for what no other path answers; NULL: nobody. */
typedef bool fixture_answer(struct http_server *server, struct http_exchange exchange,
                            const struct http_request *request);
extern fixture_answer *fixture_answers;

struct fixture {
    struct net *net;
    struct http_server *server;
    struct http_options options;
    int64_t now_ms;
    struct http_exchange kept[64];
    size_t kept_count;
    struct http_exchange gone[64];
    size_t gone_count;
    size_t handled;
    bool begun;
};

int setup(void **state);
int teardown(void **state);

/* Turns of the loop until nothing happens; a server that spins on an event fails here. */
void settle(struct fixture *f);
uint32_t connect_peer(struct fixture *f);
void send_text(struct fixture *f, uint32_t c, const char *text);
void expect_text(struct fixture *f, uint32_t c, const char *text);
void expect_status(struct fixture *f, uint32_t c, int status);
/* Nothing borrowed, nothing busy: what an idle server looks like. */
void expect_nothing_held(struct fixture *f);

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
