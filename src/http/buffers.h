/*
 * The buffers of one server: two pools of fixed size, small and large. Connections borrow buffers
 * for incomplete requests, for pipelined requests that wait, and for unsent answers.
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

/* For input, data[0..len) are the bytes to handle. For output, at[0..len) are the bytes to send:
 * in data, or stable bytes elsewhere. */
struct http_buffer {
    struct http_buffer *next; /* in the unsent output, or in the list of returned buffers */
    const char *at;
    size_t len;
    struct http_hold *hold;        /* a reference to the bytes at `at`; NULL: none */
    struct http_progress progress; /* input: of the first request in data */
    bool large;
    char data[];
};

#define HTTP_SMALL_DATA (HTTP_SMALL_BUFFER - sizeof(struct http_buffer))
#define HTTP_LARGE_DATA (HTTP_LARGE_BUFFER - sizeof(struct http_buffer))

static inline size_t http_buffer_cap(const struct http_buffer *buffer)
{
    return buffer->large ? HTTP_LARGE_DATA : HTTP_SMALL_DATA;
}

struct http_pool {
    char *memory;
    struct http_buffer *free; /* returned buffers; the last one is borrowed first: it is cached */
    uint32_t size;            /* of one buffer */
    uint32_t count;
    uint32_t used; /* buffers that were borrowed at least once: the first ones of memory */
};

struct http_buffers {
    struct http_pool small;
    struct http_pool large;
};

/* Bytes of memory that so many buffers take. */
size_t http_buffers_bytes(uint32_t small, uint32_t large);
/* ERR_NOMEM. */
int http_buffers_init(struct http_buffers *buffers, uint32_t small, uint32_t large);
void http_buffers_done(struct http_buffers *buffers);
/* An empty buffer; NULL: all are borrowed. */
struct http_buffer *http_buffers_borrow(struct http_buffers *buffers, bool large);
/* Releases the buffer's hold. */
void http_buffers_return(struct http_buffers *buffers, struct http_buffer *buffer);

#endif
