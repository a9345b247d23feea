/*
 * The scripts of lua/ at build time, ready to be loaded into Redis.
 *
 * They use the names of verdicts, refusals, states and limits of the C code. The names are replaced
 * by their numbers here, so each fact has one list. An unknown name stops the program at the first
 * use of the scripts, in any test. Scripts of ledger events share event.lua, which is inserted
 * after their first line.
 */
#ifndef SLUICE_BACKEND_REDIS_SCRIPTS_H
#define SLUICE_BACKEND_REDIS_SCRIPTS_H

#include "base/bytes.h"

/* Orders and buyers of an item are spread over this many hashes, so that forgetting, scanning and
 * moving a slot work in smaller pieces. Not more: a hash of up to 128 entries is searched linearly.
 * Part of the keys: a change needs a new epoch. */
#define REDIS_BUCKETS 16

#define REDIS_SCRIPTS(X)                                                                           \
    X(SCRIPT_CLAIM, "claim.lua", NULL)                                                             \
    X(SCRIPT_RESTORE, "restore.lua", NULL)                                                         \
    X(SCRIPT_STATE, "state.lua", NULL)                                                             \
    X(SCRIPT_RESERVE, "reserve.lua", NULL)                                                         \
    X(SCRIPT_MOVE, "move.lua", "event.lua")                                                        \
    X(SCRIPT_STOCK, "stock.lua", "event.lua")                                                      \
    X(SCRIPT_SALE, "sale.lua", "event.lua")                                                        \
    X(SCRIPT_FORGET, "forget.lua", "event.lua")                                                    \
    X(SCRIPT_BROKEN, "broken.lua", NULL)                                                           \
    X(SCRIPT_LOOK, "look.lua", NULL)

enum redis_script {
#define X(name, file, head) name,
    REDIS_SCRIPTS(X)
#undef X
        SCRIPT_COUNT
};

struct redis_scripts {
    struct span texts[SCRIPT_COUNT];
};

/* ERR_NOMEM. Free with scripts_free. */
int scripts_new(struct redis_scripts **ret_scripts);
void scripts_free(struct redis_scripts *scripts);
/* Replaces names by numbers; comments and strings stay. ERR_INVALID: unknown name; ERR_FULL:
 * ret_text is too small. */
int scripts_resolve(struct span text, struct out *ret_text);

#endif
