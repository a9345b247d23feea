/*
 * The handshake with a Redis server, for every client: the pipelined link of a loop (link.h), the
 * wire of a thread that waits (wire.h), and the questions of discover.h, which only log in.
 *
 * It is a list of steps without I/O: handshake_command gives the command of a step, the client sends
 * it in its own way and passes the answer to handshake_answer. All commands may be sent at once.
 *
 * Happy path: handshake_connect; the socket is writable: handshake_connected; AUTH (only with a
 * password), INFO (which server is this, and may it decide), SCRIPT LOAD of each script.
 *
 * What can go wrong: there is no connection, the server refuses the password, it is a replica, it may
 * evict keys, or it is no Redis. The client gets the reason as a text, closes the connection and
 * tries again later. When to give up is the client's business, too.
 *
 * Nothing here blocks, and nothing is shared between threads.
 */
#ifndef SLUICE_BACKEND_REDIS_HANDSHAKE_H
#define SLUICE_BACKEND_REDIS_HANDSHAKE_H

#include <hiredis/hiredis.h>

#include "backend/redis/scripts.h"

#define REDIS_RUN_ID 40
#define REDIS_SHA 40
#define REDIS_TEXT_MAX 128

enum handshake_step {
    HANDSHAKE_AUTH,
    HANDSHAKE_INFO,
    HANDSHAKE_LOAD, /* and one for each script */
    HANDSHAKE_END = HANDSHAKE_LOAD + SCRIPT_COUNT
};

struct handshake_login {
    const char *username; /* NULL: the default user */
    const char *password; /* NULL: none */
};

/* What the server said: all that later calls need. */
struct handshake_server {
    char run_id[REDIS_RUN_ID];
    char sha[SCRIPT_COUNT][REDIS_SHA];
};

/* For hiredis. The words are borrowed from the login and the scripts. */
struct handshake_command {
    int count;
    const char *words[3];
    size_t lens[3];
};

/* NULL: not even begun, ret_why says why. */
redisContext *handshake_connect(const char *host, uint16_t port, char ret_why[REDIS_TEXT_MAX]);
/* The socket is writable. False: there is no connection, ret_why says why. */
bool handshake_connected(const redisContext *context, char ret_why[REDIS_TEXT_MAX]);

/* False: the login does not need this step. scripts: for the steps from HANDSHAKE_LOAD on. */
bool handshake_command(enum handshake_step step, const struct handshake_login *login,
                       const struct redis_scripts *scripts, struct handshake_command *ret_command);
/* NULL, or why this server cannot be used; that text lasts as long as the reply. */
const char *handshake_answer(enum handshake_step step, const redisReply *reply,
                             struct handshake_server *server);

/* The text of a string, a status or an error; empty for other replies. */
struct span reply_text(const redisReply *reply);
/* The value of a line "name:value" of INFO; empty: none. */
struct span info_value(struct span info, const char *name);

#endif
