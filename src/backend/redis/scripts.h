/*
 * The scripts of lua/ at build time, ready to be loaded into Redis.
 *
 * They use the names of verdicts, refusals, states and limits of the C code. The names are replaced
 * by their numbers here, so each fact has one list. An unknown name stops the program at the first
 * use of the scripts, in any test. Scripts share files: news.lua publishes, event.lua begins every
 * ledger event.
 *
 * The scripts for a Cluster publish news with SPUBLISH, the others with PUBLISH (news.lua).
 */
#ifndef SLUICE_BACKEND_REDIS_SCRIPTS_H
#define SLUICE_BACKEND_REDIS_SCRIPTS_H

#include "base/bytes.h"

/* Orders and buyers of an item are spread over this many hashes, so that forgetting, scanning and
 * moving a slot work in smaller pieces. Not more: a hash of up to 128 entries is searched linearly.
 * Part of the keys: a change needs a new epoch. */
#define REDIS_BUCKETS 16

/*
 * What the keys of a segment contain, and how. It is a part of `place`, so a call of another version
 * changes nothing, and a segment that an older version has filled is rebuilt. Change it whenever
 * scripts of two versions must not run on the same keys.
 *   2: shares of buyers, items and sales; packed numbers
 */
#define REDIS_LAYOUT 2

/* Name, file, and the files that are inserted after its first line. */
#define REDIS_SCRIPTS(X)                                                                           \
    X(SCRIPT_CLAIM, "claim.lua", NULL, NULL)                                                       \
    X(SCRIPT_RESTORE, "restore.lua", "news.lua", NULL)                                             \
    X(SCRIPT_STATE, "state.lua", NULL, NULL)                                                       \
    X(SCRIPT_RESERVE, "reserve.lua", NULL, NULL)                                                   \
    X(SCRIPT_MOVE, "move.lua", "news.lua", "event.lua")                                            \
    X(SCRIPT_STOCK, "stock.lua", "news.lua", "event.lua")                                          \
    X(SCRIPT_SALE, "sale.lua", "news.lua", "event.lua")                                            \
    X(SCRIPT_FORGET, "forget.lua", "news.lua", "event.lua")                                        \
    X(SCRIPT_BROKEN, "broken.lua", NULL, NULL)                                                     \
    X(SCRIPT_LOOK, "look.lua", NULL, NULL)

enum redis_script {
#define X(name, file, first, second) name,
    REDIS_SCRIPTS(X)
#undef X
        SCRIPT_COUNT
};

struct redis_scripts {
    struct span texts[SCRIPT_COUNT];
};

/* cluster: for the servers of a Cluster. ERR_NOMEM. Free with scripts_free. */
int scripts_new(bool cluster, struct redis_scripts **ret_scripts);
void scripts_free(struct redis_scripts *scripts);
/* Replaces names by numbers; comments and strings stay. ERR_INVALID: unknown name; ERR_FULL:
 * ret_text is too small. */
int scripts_resolve(struct span text, bool cluster, struct out *ret_text);

#endif
