/* See proxy_request.h. */
#include "distributed/proxy_request.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"

#define TO(state) (1U << PROXY_REQUEST_##state)

/* A gate that ranks "sold out" before an expired ticket makes a LOOKING request wait for a refill.
 * Ours does not, but the gate is another machine's. */
static const uint32_t moves[PROXY_REQUEST_STATES] = {
    [PROXY_REQUEST_NEW] = TO(READING) | TO(LOOKING) | TO(ASKED) | TO(ANSWERED),
    [PROXY_REQUEST_READING] = TO(READING) | TO(LOOKING) | TO(ASKED) | TO(ANSWERED),
    [PROXY_REQUEST_LOOKING] = TO(REFILLING) | TO(ANSWERED),
    [PROXY_REQUEST_ASKED] = TO(REFILLING) | TO(ANSWERED),
    [PROXY_REQUEST_REFILLING] = TO(ASKED),
    [PROXY_REQUEST_ANSWERED] = 0,
};

int proxy_request_pool_init(struct proxy_request_pool *ret_pool, uint32_t capacity)
{
    struct proxy_request *records = calloc(capacity, sizeof(*records));
    if (records == NULL) {
        return ERR_NOMEM;
    }
    *ret_pool = (struct proxy_request_pool){.records = records, .capacity = capacity};
    return 0;
}

void proxy_request_pool_done(struct proxy_request_pool *pool)
{
    free(pool->records);
}

struct proxy_request *proxy_request_take(struct proxy_request_pool *pool,
                                         struct gate_request *request)
{
    struct proxy_request *record = pool->free;
    if (record != NULL) {
        pool->free = record->next;
    } else {
        CHECK(pool->fresh < pool->capacity);
        record = &pool->records[pool->fresh++];
    }
    *record = (struct proxy_request){.state = PROXY_REQUEST_NEW, .request = request};
    request->record = record;
    return record;
}

void proxy_request_return(struct proxy_request_pool *pool, struct proxy_request *record)
{
    CHECK(record->state == PROXY_REQUEST_ANSWERED && record->request->record == record);
    record->request->record = NULL;
    record->request = NULL;
    record->next = pool->free;
    pool->free = record;
}

bool proxy_request_may_move(enum proxy_request_state from, enum proxy_request_state to)
{
    return (moves[from] >> to & 1) != 0;
}

void proxy_request_move(struct proxy_request_pool *pool, struct proxy_request *record,
                        enum proxy_request_state to)
{
    CHECK(proxy_request_may_move(record->state, to));
    pool->reading -= record->state == PROXY_REQUEST_READING;
    pool->reading += to == PROXY_REQUEST_READING;
    record->state = to;
}
