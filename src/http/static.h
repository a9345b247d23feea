/*
 * The pages in the binary. index.html is "/"; every other file is "/assets/<name>.<hash>.<ext>",
 * named after its own contents, so that browsers and caches keep it for ever and a new build is a
 * new name.
 *
 * static_start does all the work once: it writes the hashed names into every "/assets/<name>" that
 * pages, styles and scripts mention, hashes what came out, and builds the headers. Answering is a
 * lookup and sends the bytes without copying them. After static_start any loop may call
 * static_answer.
 */
#ifndef SLUICE_HTTP_STATIC_H
#define SLUICE_HTTP_STATIC_H

#include "http/assets.h"
#include "http/server.h"

/* ERR_NOMEM, or ERR_INVALID where files mention each other in a circle (their hashes would, too).
 */
int static_start(const struct web_asset *assets, size_t count);
void static_stop(void);

/* Answers and returns true, or returns false: no such path. */
bool static_answer(struct http_server *server, struct http_exchange exchange,
                   const struct http_request *request);

#endif
