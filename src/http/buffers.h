/*
 * The buffers of one server: pools of fixed size, one of small buffers and one of large buffers for
 * each class of exchange (enum http_class). Connections borrow buffers for incomplete requests, for
 * pipelined requests that wait, and for unsent answers. Of the large pools, anyone may take only the
 * first; so what anonymous clients do leaves operators and payments theirs.
 *
 * http_buffers_init allocates all memory. Memory that was never borrowed is never touched.
 *
 * What can go wrong: a pool is empty. Then http_buffers_borrow returns NULL, and the caller decides
 * which connection is refused.
 *
 * Threads: the loop's own.
 */
#ifndef SLUICE_HTTP_BUFFERS_H
#define SLUICE_HTTP_BUFFERS_H

#include "http/parser.h"

enum http_pool_kind {
    HTTP_POOL_SMALL,
    HTTP_POOL_LARGE, /* HTTP_POOL_LARGE + an enum http_class */
    HTTP_POOLS = HTTP_POOL_LARGE + HTTP_CLASSES,
};

/* For input, data[0..len) are the bytes to handle. For output, at[0..len) are the bytes to send:
 * in data, or stable bytes elsewhere. */
struct http_buffer {
    struct http_buffer *next; /* in the unsent output, or in the list of returned buffers */
    const char *at;
    size_t len;
    struct http_hold *hold;        /* a reference to the bytes at `at`; NULL: none */
    struct http_progress progress; /* input: of the first request in data */
    uint8_t pool;                  /* enum http_pool_kind */
    char data[];
};

#define HTTP_SMALL_DATA (HTTP_SMALL_BUFFER - sizeof(struct http_buffer))
#define HTTP_LARGE_DATA (HTTP_LARGE_BUFFER - sizeof(struct http_buffer))

static inline bool http_buffer_large(const struct http_buffer *buffer)
{
    return buffer->pool != HTTP_POOL_SMALL;
}
static inline size_t http_buffer_cap(const struct http_buffer *buffer)
{
    return http_buffer_large(buffer) ? HTTP_LARGE_DATA : HTTP_SMALL_DATA;
}

struct http_pool {
    char *memory;
    struct http_buffer *free; /* returned buffers; the last one is borrowed first: it is cached */
    uint32_t size;            /* of one buffer */
    uint32_t count;
    uint32_t used; /* buffers that were borrowed at least once: the first ones of memory */
    uint32_t lent; /* buffers that are borrowed now */
};

struct http_buffers {
    struct http_pool pools[HTTP_POOLS];
};

/* Bytes of memory that so many buffers take. */
size_t http_buffers_bytes(const uint32_t counts[HTTP_POOLS]);
/* ERR_NOMEM. */
int http_buffers_init(struct http_buffers *buffers, const uint32_t counts[HTTP_POOLS]);
void http_buffers_done(struct http_buffers *buffers);
/* An empty buffer; NULL: all are borrowed. */
struct http_buffer *http_buffers_borrow(struct http_buffers *buffers, enum http_pool_kind kind);
/* How many can be borrowed. */
static inline uint32_t http_buffers_left(const struct http_buffers *buffers,
                                         enum http_pool_kind kind)
{
    return buffers->pools[kind].count - buffers->pools[kind].lent;
}
/* Releases the buffer's hold. */
void http_buffers_return(struct http_buffers *buffers, struct http_buffer *buffer);

#endif
