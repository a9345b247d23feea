/*
 * The scripts of lua/, as they were when this binary was built, ready to be loaded into Redis.
 *
 * They name verdicts, refusals, states and bounds as the C code does; the names are replaced by
 * their numbers here, so that each fact has one list. A name that no list has stops the program at
 * its first use of the scripts, in any test. Scripts of ledger events have one beginning,
 * event.lua, which is put behind their first line.
 */
#ifndef SLUICE_BACKEND_REDIS_SCRIPTS_H
#define SLUICE_BACKEND_REDIS_SCRIPTS_H

#include "base/bytes.h"

/* Orders and buyers of an item are spread over so many hashes: forgetting, scanning and moving a
 * slot to another node go in smaller pieces. Not more: a hash of up to 128 entries is searched from
 * end to end. Part of the keys: changing it needs a new epoch. */
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
/* Names replaced by numbers, comments and strings left alone. ERR_INVALID: a name no list has;
 * ERR_FULL: ret_text too small. */
int scripts_resolve(struct span text, struct out *ret_text);

#endif
