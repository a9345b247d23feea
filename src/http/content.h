/*
 * Something to be sent as it is, often: its bytes, the same packed with gzip, and the hash that
 * names them. Answering is choosing: 304, packed or plain. Nothing is made or copied here on the
 * way.
 */
#ifndef SLUICE_HTTP_CONTENT_H
#define SLUICE_HTTP_CONTENT_H

#include "http/server.h"

#define CONTENT_HASH 16 /* characters */

struct content {
    const char *type;
    struct span body;
    struct span packed; /* at NULL: there is only the body */
    char hash[CONTENT_HASH + 1];
};

/* Fills hash from body. */
void content_name(struct content *content);

/* headers: further complete lines. hold: what counts the bytes, NULL where they last. A status of
 * 200 becomes 304 where If-None-Match has the entity's tag. The two forms have tags of their
 * own. */
void content_answer(struct http_server *server, struct http_exchange exchange,
                    const struct http_request *request, int status, const struct content *content,
                    const char *headers, struct http_hold *hold);

#endif
