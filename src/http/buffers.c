/* See buffers.h. A pool is one block of memory and a list of the returned buffers. */
#include "http/buffers.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"

_Static_assert(HTTP_SMALL_BUFFER % 64 == 0 && HTTP_LARGE_BUFFER % 64 == 0, "buffers stay aligned");
_Static_assert(HTTP_LARGE_DATA >=
                   HTTP_HEADERS_MAX + HTTP_BODY_MAX + HTTP_TRAILERS_MAX + HTTP_CHUNK_LINE_MAX,
               "the largest request fits a large buffer");
_Static_assert(HTTP_LARGE_DATA >= HTTP_READ_BUFFER, "the bytes of one read fit a large buffer");

static uint32_t size_of(int kind)
{
    return kind == HTTP_POOL_SMALL ? HTTP_SMALL_BUFFER : HTTP_LARGE_BUFFER;
}

size_t http_buffers_bytes(const uint32_t counts[HTTP_POOLS])
{
    size_t bytes = 0;
    for (int kind = 0; kind < HTTP_POOLS; kind++) {
        bytes += (size_t)counts[kind] * size_of(kind);
    }
    return bytes;
}

int http_buffers_init(struct http_buffers *buffers, const uint32_t counts[HTTP_POOLS])
{
    *buffers = (struct http_buffers){0};
    for (int kind = 0; kind < HTTP_POOLS; kind++) {
        struct http_pool *pool = &buffers->pools[kind];
        pool->size = size_of(kind);
        pool->count = counts[kind];
        pool->memory =
            pool->count == 0 ? NULL : aligned_alloc(64, (size_t)pool->size * pool->count);
        if (pool->count > 0 && pool->memory == NULL) {
            http_buffers_done(buffers);
            return ERR_NOMEM;
        }
    }
    return 0;
}

void http_buffers_done(struct http_buffers *buffers)
{
    for (int kind = 0; kind < HTTP_POOLS; kind++) {
        free(buffers->pools[kind].memory);
    }
}

struct http_buffer *http_buffers_borrow(struct http_buffers *buffers, enum http_pool_kind kind)
{
    struct http_pool *pool = &buffers->pools[kind];
    struct http_buffer *buffer = pool->free;
    if (buffer != NULL) {
        pool->free = buffer->next;
    } else if (pool->used < pool->count) {
        buffer = (struct http_buffer *)(void *)(pool->memory + (size_t)pool->used * pool->size);
        pool->used++;
    } else {
        return NULL;
    }
    pool->lent++;
    *buffer = (struct http_buffer){.pool = (uint8_t)kind, .at = buffer->data};
    return buffer;
}

void http_buffers_return(struct http_buffers *buffers, struct http_buffer *buffer)
{
    struct http_pool *pool = &buffers->pools[buffer->pool];
    CHECK((char *)buffer >= pool->memory &&
          (char *)buffer < pool->memory + (size_t)pool->used * pool->size);
    if (buffer->hold != NULL) {
        http_hold_release(buffer->hold);
    }
    pool->lent--;
    buffer->next = pool->free;
    pool->free = buffer;
}
