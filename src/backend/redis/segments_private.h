/* Shared by the files of port/segments.h on Redis: segments_redis.c, rebuild.c, outbox.c,
 * news.c. */
#ifndef SLUICE_BACKEND_REDIS_SEGMENTS_PRIVATE_H
#define SLUICE_BACKEND_REDIS_SEGMENTS_PRIVATE_H

#include "backend/redis/segments_redis.h"
#include "backend/redis/wire.h"

#define SEGMENTS_KEY_MAX (REDIS_PREFIX_MAX + 32)

struct stream_id {
    uint64_t ms;
    uint64_t seq;
};

/* State of this worker at the outbox of one segment. */
struct outbox_connection_set {
    bool grouped;             /* the group exists */
    bool away;                /* the last attempt failed; already reported */
    bool own;                 /* entries held before come first */
    uint64_t connection;      /* the connection it used last */
    struct stream_id own_to;  /* entries up to here have come */
    int64_t claim_us;         /* when to look for entries of dead workers */
    struct stream_id pending; /* the pending list was read up to here */
};

/* A connection that receives news. */
struct ear {
    struct wire wire;
    uint64_t connection; /* the one it subscribed on */
    uint64_t plain;      /* segments it has sent SUBSCRIBE for */
    uint64_t sharded;    /* segments it need not send SSUBSCRIBE for */
    uint32_t awaited;    /* plain subscriptions not yet answered */
    uint64_t asked;      /* sharded ones not yet answered; answers come in this order */
    bool missed;         /* report NEWS_LOST once they are */
    bool pinged;
    int64_t retry_us;  /* a subscription was refused: none before this */
    int64_t heard_us;  /* last message received ... */
    int64_t pinged_us; /* ... and last ping sent */
};

struct sweep {
    bool wanted;
    uint64_t cursor;
};

struct segments_redis {
    struct segments port; /* first member */
    struct segments_redis_options options;
    struct wire_config wire_config;
    int wake_fd;
    uint32_t turn;                              /* the segment of the outbox to read first */
    bool outbox_trouble;                        /* ERR_IO is to be returned */
    uint64_t generation;                        /* of the topology when servers was read */
    struct topology_node servers[SEGMENTS_MAX]; /* without a host: not known yet */
    struct wire wires[TOPOLOGY_NODES_MAX];
    struct ear ears[TOPOLOGY_NODES_MAX];
    struct outbox_connection_set connection_sets[SEGMENTS_MAX];
    struct sweep sweeps[SEGMENTS_MAX];
};

static inline struct segments_redis *segments_of(struct segments *segments)
{
    return (struct segments_redis *)segments;
}
static inline int64_t segments_now_us(const struct segments_redis *s)
{
    return clock_boot_us(s->options.clock);
}
static inline int64_t segments_deadline_us(const struct segments_redis *s)
{
    return segments_now_us(s) + (int64_t)s->options.timeout_ms * 1000;
}

/* The present server of a segment. NULL: not known yet. */
const struct topology_node *segments_server(struct segments_redis *s, uint32_t segment);
/* A usable connection to it; NULL: none now. */
struct wire *segments_ready(struct segments_redis *s, uint32_t segment, int64_t deadline_us);
/* Writes PREFIX{TAG}:NAME with a NUL. */
void segments_key(const struct segments_redis *s, uint32_t segment, const char *name,
                  char *ret_key);
struct codec_place segments_place(const struct segments_redis *s, const struct wire *wire,
                                  uint32_t segment, uint64_t epoch);
/* Waits until the time, or until woken: true. */
bool segments_wait(struct segments_redis *s, int64_t until_us);

/*
 * One call of a script and its answer. put writes the words; it is called again if the script has
 * to be loaded first. SEGMENT_DONE: *ret_reply is a text from *ret_wire; the caller frees it.
 */
typedef void segments_put(struct redis_words *words, const struct codec_place *place,
                          const void *what);
enum segment_outcome segments_eval(struct segments_redis *s, uint32_t segment, uint64_t epoch,
                                   enum redis_script script, segments_put *put, const void *what,
                                   struct wire **ret_wire, redisReply **ret_reply);
void segments_state(struct segments_redis *s, uint32_t segment, struct segment_state *ret_state);
enum segment_outcome segments_outcome(enum redis_outcome outcome);

enum segment_outcome segments_rebuild_steps(struct segments *segments, uint32_t segment,
                                            uint64_t epoch, uint64_t fence,
                                            const struct segment_step *steps, size_t count);
int segments_outbox_take(struct segments *segments, uint64_t mask, struct outbox_entry *ret_entries,
                         size_t max, int64_t wait_ms, size_t *ret_count);
int segments_outbox_done(struct segments *segments, const struct outbox_entry *entries,
                         size_t count);
int segments_news_take(struct segments *segments, struct segment_news *ret_news, size_t max,
                       int64_t wait_ms, size_t *ret_count);
void segments_news_tell(struct segments *segments, const struct segment_news *news);

#endif
