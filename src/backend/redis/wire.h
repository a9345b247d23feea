/*
 * One connection to one Redis server, for threads that wait. Commands are put into its buffer, sent
 * together, and their answers read one by one, each until a deadline.
 *
 * Happy path: wire_ready connects and greets (handshake.h); wire_put, wire_put, ...; wire_flush;
 * wire_read, wire_read, ...
 *
 * What can go wrong: a connection that ends, an answer that does not come until the deadline, an
 * answer that is no Redis: the wire is closed, what was asked may have run, and wire_ready makes a
 * new connection, after a pause that grows with each failure. SIGPIPE must be ignored.
 *
 * Used by one thread. Times are the clock's boot_us.
 */
#ifndef SLUICE_BACKEND_REDIS_WIRE_H
#define SLUICE_BACKEND_REDIS_WIRE_H

#include "backend/redis/codec.h"
#include "backend/redis/handshake.h"
#include "backend/redis/topology.h"
#include "port/clock.h"

struct wire_config {
    const char *username; /* NULL: the default user */
    const char *password; /* NULL: none */
    struct redis_scripts *scripts;
    struct clock_port *clock;
    struct redis_topology *topology; /* is told what has moved */
    uint64_t connections;            /* numbers them, over all wires */
};

struct wire {
    struct wire_config *config;
    struct topology_node node; /* without a host: the wire leads nowhere */
    redisContext *context;     /* NULL: not connected */
    uint64_t number;           /* of the connection */
    int64_t pause_ms;          /* after the last failure; 0: the last connection was made */
    int64_t next_us;           /* no new connection before this */
    struct handshake_server server;
    char trouble[REDIS_TEXT_MAX];
};

/* To another server from now on; closes what there was. */
void wire_lead(struct wire *wire, struct wire_config *config, const struct topology_node *node);
bool wire_leads_to(const struct wire *wire, const struct topology_node *node);
void wire_close(struct wire *wire, const char *why);

/* 0, or ERR_IO: no connection, trouble says why. Scripts are loaded only where they are wanted. */
int wire_ready(struct wire *wire, bool scripts, int64_t deadline_us);
/* After an answer NOSCRIPT. */
int wire_load(struct wire *wire, int64_t deadline_us);
static inline struct span wire_run_id(const struct wire *wire)
{
    return (struct span){wire->server.run_id, REDIS_RUN_ID};
}

/* Into the buffer of a ready wire. Of memory the first REDIS_WORDS_HEAD bytes are the wire's. */
struct redis_words wire_script(const struct wire *wire, enum redis_script script, char *memory,
                               size_t cap);
int wire_put(struct wire *wire, struct redis_words *words);
int wire_format(struct wire *wire, const char *format, ...);
/* ERR_IO: the wire is closed. */
int wire_flush(struct wire *wire, int64_t deadline_us);
/* The next answer; free it with freeReplyObject. ERR_IO: the wire is closed. */
int wire_read(struct wire *wire, int64_t deadline_us, redisReply **ret_reply);
/* The same without waiting; ERR_AGAIN: none yet. */
int wire_take(struct wire *wire, redisReply **ret_reply);

static inline bool wire_says(const redisReply *reply, const char *error)
{
    return reply->type == REDIS_REPLY_ERROR && error_begins(reply_text(reply), error);
}
/* What an error says of the call it answers. The wire is closed where it cannot serve any more; the
 * topology hears where the slot is now. */
enum redis_outcome wire_error(struct wire *wire, const redisReply *reply);

#endif
