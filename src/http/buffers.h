/*
 * The borrowed buffers of one server: two pools of fixed size, small and large. A half-read request
 * and an answer the socket did not take hold one; nobody holds one between requests.
 *
 * Nothing is allocated after http_buffers_init, and memory that was never borrowed is never
 * touched. An empty pool is an ordinary outcome (NULL): the caller decides who has to go.
 */
#ifndef SLUICE_HTTP_BUFFERS_H
#define SLUICE_HTTP_BUFFERS_H

#include "http/parser.h"

/* As input, data[0..len) are the bytes read. As output, at[0..len) are the bytes to be sent: in
 * data, or anywhere else where they last. */
struct http_buffer {
    struct http_buffer *next; /* of the output behind this one; of the free ones */
    const char *at;
    size_t len;
    struct http_hold *hold;        /* counts this buffer while at is bytes of its; NULL: none */
    struct http_progress progress; /* of the request in data */
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
    struct http_buffer *free; /* the last one given back is the first one lent: it is warm */
    uint32_t size;            /* of one buffer */
    uint32_t count;
    uint32_t used; /* buffers of memory that were lent at least once */
};

struct http_buffers {
    struct http_pool small;
    struct http_pool large;
};

size_t http_buffers_bytes(uint32_t small, uint32_t large);
/* ERR_NOMEM. */
int http_buffers_init(struct http_buffers *buffers, uint32_t small, uint32_t large);
void http_buffers_done(struct http_buffers *buffers);
/* Empty, or NULL where the pool is. */
struct http_buffer *http_buffers_borrow(struct http_buffers *buffers, bool large);
void http_buffers_return(struct http_buffers *buffers, struct http_buffer *buffer);

#endif
