/*
 * A body that is sent often: its bytes, the same bytes compressed with gzip, and their hash. An
 * answer is 304, the compressed body, or the plain one. Nothing is compressed or hashed for a
 * request. Nothing can go wrong here.
 *
 * Threads: content_answer() is called on the server's loop. Any thread may read a struct content
 * that does not change.
 */
#ifndef SLUICE_HTTP_CONTENT_H
#define SLUICE_HTTP_CONTENT_H

#include "http/server.h"

#define CONTENT_HASH 16 /* characters */

struct content {
    const char *type;
    struct span body;
    struct span packed; /* gzip; at is NULL: none */
    char hash[CONTENT_HASH + 1];
};

/* Sets hash from body. */
void content_name(struct content *content);

/* headers: further complete header lines. hold: as for http_answer_held(). A status of 200 becomes
 * 304 if If-None-Match has the tag of the body. The two forms of the body have different tags. */
void content_answer(struct http_server *server, struct http_exchange exchange,
                    const struct http_request *request, int status, const struct content *content,
                    const char *headers, struct http_hold *hold);

#endif
