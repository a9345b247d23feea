/*
 * One pipelined connection to one Redis server, for one loop. Whatever is sent in a turn leaves in
 * one write (link_flush); answers are handed out in the order of the questions.
 *
 * Happy path: connect, greet (all steps of handshake.h at once), ready. A script Redis forgot is loaded again and its call sent again behind it.
 *
 * WAIT: where the owner wants replicas behind a promise, its answer is held until a WAIT behind it is
 * answered. One is under way at a time: whatever is answered before it is covered by it.
 *
 * MOVED and ASK: nothing ran. The router may send the call over another link; without one it is
 * REDIS_NOT_ASKED.
 *
 * What can go wrong: a connection that ends, an answer that takes too long, an answer that is no
 * Redis: the link is closed, every call in flight is told REDIS_NOT_KNOWN, and a new connection is
 * tried after a growing pause. A link that is not ready takes nothing, so that a caller knows at
 * once that nothing was asked. Nothing here blocks. SIGPIPE must be ignored: hiredis writes plainly.
 *
 * Used by one thread.
 */
#ifndef SLUICE_BACKEND_REDIS_LINK_H
#define SLUICE_BACKEND_REDIS_LINK_H

#include "backend/redis/errors.h"
#include "backend/redis/handshake.h"

/* One call; its owner keeps it until `done`. */
struct redis_op {
    struct redis_op *next;
    int64_t since_us;
    void *held;       /* the link's: an answer that waits for replicas */
    uint32_t segment; /* the router's */
    uint8_t script;   /* enum redis_script */
    uint8_t tries;
    uint8_t hops;  /* redirections followed */
    bool req;      /* ASKING goes before it */
    bool preceded; /* the answer to that is still to come */
};

/* The words of one command, as the protocol wants them. */
#define REDIS_WORDS_HEAD 16
struct redis_words {
    struct out out; /* the first REDIS_WORDS_HEAD bytes are kept for the count */
    uint32_t count;
};
struct redis_words words_over(char *memory, size_t cap);
void words_put(struct redis_words *words, struct span word);
void words_u64(struct redis_words *words, uint64_t value);
void words_i64(struct redis_words *words, int64_t value);
/* The whole command, its count in front; in the memory of the words. */
struct span words_end(struct redis_words *words);

struct redis_link;
struct link_owner {
    void *context;
    /* Puts the number of keys, the keys and the arguments. Also called when a call is sent again. */
    void (*encode)(void *context, const struct redis_link *link, struct redis_op *op,
                   struct redis_words *words);
    /* The link has let go of op. REDIS_ANSWERED: reply is what the script said. */
    void (*done)(void *context, struct redis_op *op, enum redis_outcome outcome, struct span reply);
    /* The answer is a promise that should have replicas. NULL: none is. */
    bool (*promises)(void *context, const struct redis_op *op, struct span reply);
};

/* Who knows the other links. Neither may free a link. */
struct link_router {
    void *context; /* NULL: there is no router */
    /* True: the call was taken over. */
    bool (*redirect)(void *context, struct redis_link *link, struct redis_op *op,
                     const struct redis_redirect *to);
    /* The connection failed, or the server says that it cannot serve now. */
    void (*suspect)(void *context, struct redis_link *link);
};

struct link_config {
    const char *host; /* a numeric address: looking up a name would block */
    uint16_t port;
    const char *username; /* NULL: the default user */
    const char *password; /* NULL: none */
    uint32_t connect_timeout_ms;
    uint32_t call_timeout_ms;
    uint32_t retry_min_ms;
    uint32_t retry_max_ms;
    uint32_t in_flight_max;
    int epoll; /* where the socket is watched; data.ptr is the link */
    uint64_t seed;
    const struct redis_scripts *scripts;
    uint32_t wait_replicas; /* 0: no WAIT */
    uint32_t wait_timeout_ms;
    struct link_owner owner;
    struct link_router router;
};

struct link_numbers {
    uint64_t connects;
    uint64_t losses; /* of a connection that was ready */
    uint64_t reloads;
    uint64_t writes;
    uint64_t calls;
    uint64_t redirects; /* MOVED and ASK */
    uint64_t waits;
    uint64_t waits_short; /* fewer replicas than wanted */
};

/* The strings of config are borrowed. ERR_INVALID: not a numeric address. ERR_NOMEM. */
int link_new(const struct link_config *config, struct redis_link **ret_link);
/* Calls in flight are told REDIS_NOT_KNOWN. */
void link_free(struct redis_link *link);

bool link_ready(const struct redis_link *link);
/* Of the server at the other end; of a ready link. REDIS_RUN_ID characters. */
struct span link_run_id(const struct redis_link *link);
/* Why the last connection failed or ended; never NULL. */
const char *link_trouble(const struct redis_link *link);
void link_count(const struct redis_link *link, struct link_numbers *ret_numbers);
/* Nothing is in flight or held. */
bool link_idle(const struct redis_link *link);

/* 0: sent with the next flush. ERR_CLOSED: not ready; ERR_FULL: too many in flight. */
int link_send(struct redis_link *link, struct redis_op *op, int64_t now_us);
/* The same for a call that another link was told to send here; asking: for this once. */
int link_send_again(struct redis_link *link, struct redis_op *op, bool req, int64_t now_us);
void link_flush(struct redis_link *link);
/* What epoll said of the socket. */
void link_event(struct redis_link *link, uint32_t events, int64_t now_us);
/* Connects, retries and gives up by time. */
void link_tick(struct redis_link *link, int64_t now_us);
/* When link_tick has something to do next; INT64_MAX: nothing. */
int64_t link_next_us(const struct redis_link *link);

#endif
