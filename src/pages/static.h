/*
 * The files in the binary. index.html is "/"; the index.html of a folder is the folder. The HTML of
 * store/ and demo/ are templates for page_cache.c. Every other file is
 * "/assets/<name>.<hash>.<ext>", named after its content, so browsers and caches may keep it
 * forever and a new build has new names.
 *
 * static_start does all the work once: it replaces every "/assets/<name>" in pages, styles and
 * scripts by the hashed name, hashes the result and compresses it. An answer is a lookup and sends
 * the bytes without a copy. After static_start any loop may call static_answer.
 */
#ifndef SLUICE_PAGES_STATIC_H
#define SLUICE_PAGES_STATIC_H

#include "http/content.h"
#include "http/server.h"
#include "pages/assets.h"

/* ERR_NOMEM, or ERR_INVALID if files mention each other in a cycle. */
int static_start(const struct web_asset *assets, size_t count);
void static_stop(void);

/* Headers of every page. Item pictures may come from any https host; everything else from this
 * server. */
#define STATIC_PAGE_HEADERS                                                                        \
    "X-Content-Type-Options: nosniff\r\n"                                                          \
    "Content-Security-Policy: default-src 'self'; img-src 'self' https: data:; "                   \
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'\r\n"           \
    "Referrer-Policy: same-origin\r\n"

/* A template with hashed file names, by its path below web/; valid until static_stop. False:
 * none. */
bool static_template(const char *path, struct span *ret_text);

/* The address of file number `index` under /assets/, NULL if it has none; false: no such file. */
bool static_path(size_t index, const char **ret_path);

/* The content of a file, by its path below web/; valid until static_stop. NULL: none. */
const struct content *static_content(const char *path);

/* The hashed address of our file "/assets/<name>"; other addresses are returned unchanged. */
const char *static_address(const char *name);

/* Answers and returns true, or returns false: no such path. */
bool static_answer(struct http_server *server, struct http_exchange exchange,
                   const struct http_request *request);

#endif
