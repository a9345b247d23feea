/*
 * The files in the binary. index.html is "/", a folder's is the folder; the HTML of store/ and
 * demo/ is templates, which page_cache.c makes pages of; every other file is
 * "/assets/<name>.<hash>.<ext>", named after its own contents, so that browsers and caches keep it
 * for ever and a new build is a new name.
 *
 * static_start does all the work once: it writes the hashed names into every "/assets/<name>" that
 * pages, styles and scripts mention, hashes what came out, and packs it. Answering is a lookup and
 * sends the bytes without copying them. After static_start any loop may call static_answer.
 */
#ifndef SLUICE_PAGES_STATIC_H
#define SLUICE_PAGES_STATIC_H

#include "http/server.h"
#include "pages/assets.h"

/* ERR_NOMEM, or ERR_INVALID where files mention each other in a circle (their hashes would, too).
 */
int static_start(const struct web_asset *assets, size_t count);
void static_stop(void);

/* What every page is sent with. Pictures of items are wherever the shop keeps them, by https; all
 * else is from here. */
#define STATIC_PAGE_HEADERS                                                                        \
    "X-Content-Type-Options: nosniff\r\n"                                                          \
    "Content-Security-Policy: default-src 'self'; img-src 'self' https: data:; "                   \
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'\r\n"           \
    "Referrer-Policy: same-origin\r\n"

/* A template with its names of files hashed, by its path below web/; it lasts until static_stop.
 * False: there is none. */
bool static_template(const char *path, struct span *ret_text);

/* The index-th file's address under /assets/, NULL for one that has none there; false: no such
 * file. */
bool static_path(size_t index, const char **ret_path);

/* Where a file of ours that is named "/assets/<name>" is served; any other address is its own. */
const char *static_address(const char *name);

/* Answers and returns true, or returns false: no such path. */
bool static_answer(struct http_server *server, struct http_exchange exchange,
                   const struct http_request *request);

#endif
