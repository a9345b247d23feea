/*
 * A TCP proxy between a link and its server, pumped by the test itself, so that what is lost, and
 * when, is the test's choice and not the scheduler's.
 */
#ifndef SLUICE_TEST_PROXY_H
#define SLUICE_TEST_PROXY_H

#include <stdbool.h>
#include <stdint.h>

enum proxy_mode {
    PROXY_PASS,
    PROXY_HOLD,         /* nothing goes either way */
    PROXY_DROP_ANSWERS, /* the server is asked, what it answers is lost */
    PROXY_DRIP,         /* answers come through some 50 bytes a pump, about one at a time */
};

struct proxy {
    int listener;
    int client; /* -1: none */
    int server;
    uint16_t port; /* where it listens */
    enum proxy_mode mode;
    uint64_t dropped; /* bytes */
};

void proxy_open(struct proxy *proxy);
void proxy_close(struct proxy *proxy);
/* Moves what can be moved, without waiting. */
void proxy_pump(struct proxy *proxy, const char *host, uint16_t port);
/* Ends the connection, if there is one. */
void proxy_cut(struct proxy *proxy);

#endif
