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

size_t http_buffers_bytes(uint32_t small, uint32_t large)
{
    return (size_t)small * HTTP_SMALL_BUFFER + (size_t)large * HTTP_LARGE_BUFFER;
}

static int pool_init(struct http_pool *pool, uint32_t size, uint32_t count)
{
    *pool = (struct http_pool){.size = size, .count = count};
    pool->memory = count == 0 ? NULL : aligned_alloc(64, (size_t)size * count);
    return count > 0 && pool->memory == NULL ? ERR_NOMEM : 0;
}

int http_buffers_init(struct http_buffers *buffers, uint32_t small, uint32_t large)
{
    int err = pool_init(&buffers->small, HTTP_SMALL_BUFFER, small);
    if (err != 0) {
        return err;
    }
    err = pool_init(&buffers->large, HTTP_LARGE_BUFFER, large);
    if (err != 0) {
        free(buffers->small.memory);
    }
    return err;
}

void http_buffers_done(struct http_buffers *buffers)
{
    free(buffers->small.memory);
    free(buffers->large.memory);
}

struct http_buffer *http_buffers_borrow(struct http_buffers *buffers, bool large)
{
    struct http_pool *pool = large ? &buffers->large : &buffers->small;
    struct http_buffer *buffer = pool->free;
    if (buffer != NULL) {
        pool->free = buffer->next;
    } else if (pool->used < pool->count) {
        buffer = (struct http_buffer *)(void *)(pool->memory + (size_t)pool->used * pool->size);
        pool->used++;
    } else {
        return NULL;
    }
    *buffer = (struct http_buffer){.large = large, .at = buffer->data};
    return buffer;
}

void http_buffers_return(struct http_buffers *buffers, struct http_buffer *buffer)
{
    struct http_pool *pool = buffer->large ? &buffers->large : &buffers->small;
    CHECK((char *)buffer >= pool->memory &&
          (char *)buffer < pool->memory + (size_t)pool->used * pool->size);
    if (buffer->hold != NULL) {
        http_hold_release(buffer->hold);
    }
    buffer->next = pool->free;
    pool->free = buffer;
}
