/*
 * What tests of the gate on Redis share: a gate and the segments behind it on the server that
 * $SLUICE_TEST_REDIS names (HOST:PORT), asked and waited for; a third, plain connection for looking
 * and for doing harm; a clock that can be moved on. Each world has keys of its own.
 */
#ifndef SLUICE_TEST_REDIS_WORLD_H
#define SLUICE_TEST_REDIS_WORLD_H

#include <hiredis/hiredis.h>

#include "backend/redis/gate_redis.h"
#include "backend/redis/segments_redis.h"
#include "proxy.h"

struct world {
    struct clock_port clock; /* first: the clock is found by it */
    int64_t moved_us;        /* the clock is so far ahead */
    char host[64];
    uint16_t port;
    char prefix[32];
    struct redis_topology *topology; /* of the gate */
    struct redis_topology *direct;   /* of the segments */
    struct gate_request *answered;   /* by the gate, and not handed out yet */
    struct redis_gate *gate;
    struct segments *segments;
    redisContext *admin;
    struct proxy *proxy; /* NULL: the gate talks to the server itself; the segments always do */
    uint64_t epoch;
    uint64_t event; /* applied last */
};

struct world_answer {
    enum verdict verdict;
    enum refusal refusal;
    enum gate_bound bound;      /* of a buy */
    uint32_t held, limit;       /* of a buy */
    uint64_t available, locked; /* of a buy */
    int64_t cooling_until_ms;   /* of a buy */
    bool has_order;
    struct order_view order;
};

/* Skips the test where there is no Redis. timeout_ms: of a call. The link is ready. */
struct world *world_new(uint32_t call_timeout_ms);
/* The same with a proxy, which stays the caller's, on the gate's way. */
struct world *world_behind(struct proxy *proxy, uint32_t call_timeout_ms);
void world_free(struct world *world);

/* An empty, open segment 0 under the next epoch. */
void world_claim(struct world *world, struct gate_sizes sizes);
void world_claim_shares(struct world *world, struct gate_sizes sizes, struct gate_shares shares);
/* Asks and waits. */
void world_ask(struct world *world, struct gate_request *request);
/* An event for segment 0, behind the last one. */
struct segment_call world_event(const struct world *world, const struct gate_command *command);
/* One call; the world's cursor moves with it. */
void world_apply(struct world *world, struct segment_call *call);
/* A command to segment 0 that must be answered: a buy at the gate, an event at the segment. */
enum verdict world_step(struct world *world, const struct gate_command *command,
                        struct world_answer *ret_answer);
/* The plain way of putting a segment there: rows, and opened. */
enum segment_outcome world_rebuild(struct world *world, uint64_t epoch, uint64_t fence,
                                   const struct segment_step *steps, size_t count);
/* A turn of the loop: sends, and waits for something, 20 ms at most. */
void world_turn(struct world *world);
/* Turns until the link is ready again, and the segments answer. */
void world_reconnect(struct world *world);
/* The next ask that comes back. */
struct gate_request *world_next_ask(struct world *world);

/* Of one server. */
struct redis_topology *world_topology(const char *host, uint16_t port);

/* A command on the plain connection. Free the reply. */
redisReply *world_admin(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* One whose reply does not matter. */
void world_do(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The segment is another server's from now on. */
void world_other_run(struct world *world);
/* The server ends and starts again, with what was saved last. */
void world_restart(struct world *world);
/* The plain connection anew, after the server went away. */
void world_admin_again(struct world *world);

#endif
