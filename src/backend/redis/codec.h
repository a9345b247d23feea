/*
 * Encodes commands and requests of the gate as calls of the scripts, and decodes their answers.
 *
 * Keys of segment 3 under the prefix "sluice" at epoch 7 (docs/REDIS.md lists all); {3} keeps them
 * in one hash slot:
 *   sluice{3}:meta   sluice{3}:out   sluice{3}:7:i:ITEM   sluice{3}:7:o:ITEM:BUCKET   ...
 */
#ifndef SLUICE_BACKEND_REDIS_CODEC_H
#define SLUICE_BACKEND_REDIS_CODEC_H

#include "backend/redis/link.h"
#include "port/gate.h"
#include "port/segments.h"

#define REDIS_PREFIX_MAX 64

/* The segment, epoch and server of a call. Every call begins with it. */
struct codec_place {
    const char *prefix;
    uint32_t segment;
    uint64_t epoch;
    struct span run_id;
};

/* Enough for any call: five keys of a prefix, a tag and two ids, and fifteen numbers. */
#define CODEC_CALL_MAX 2048

struct codec_answer {
    enum verdict verdict;
    struct gate_effects effects; /* without slots */
    bool has_order;              /* the answer has an order; GATE_REQUEST_TICKET: there is one */
    struct order_view order;     /* without id and item, which the caller knows */
    bool has_item;
    struct item_view view; /* without the item's id */
    uint32_t held;
    uint32_t attempt;
    bool barred;
    int64_t cooling_until_ms; /* also of a buy that is refused for it */
    uint64_t taken;           /* by a transfer */
    uint64_t seen;            /* REDIS_GAP: the event applied last; REDIS_FENCED: the token */
};

enum redis_script codec_script(enum gate_kind kind);
/* A buy. */
void codec_reserve(struct redis_words *words, const struct codec_place *place,
                   const struct gate_command *command);
/* Any command of port/segments.h. The script refuses an unknown kind. */
void codec_call(struct redis_words *words, const struct codec_place *place,
                const struct segment_call *call);
/* GATE_REQUEST_TICKET, GATE_REQUEST_ORDER, GATE_REQUEST_ITEM. */
void codec_look(struct redis_words *words, const struct codec_place *place,
                const struct gate_request *request);
/* place->epoch is the new one. outbox_max 0: no limit. */
void codec_claim(struct redis_words *words, const struct codec_place *place, uint64_t fence,
                 const struct segment_step *step, uint64_t outbox_max);
/* Begins a call that fills a segment; codec_row appends a step (any except BEGIN). */
void codec_restore(struct redis_words *words, const struct codec_place *place, uint64_t fence);
void codec_row(struct redis_words *words, const struct segment_step *step);
void codec_broken(struct redis_words *words, const struct codec_place *place);
void codec_state(struct redis_words *words, const struct codec_place *place);

/* PREFIX{SEGMENT}:NAME, and the prefix of the keys of the place's epoch. */
void codec_name(struct out *out, const struct codec_place *place, const char *name);
void codec_epoch_keys(struct out *out, const struct codec_place *place);

/* REDIS_NOT_KNOWN: not an answer of our scripts. */
enum redis_outcome codec_read(struct span reply, struct codec_answer *ret_answer);
/* run_id: of the server that answered. NOT_KNOWN: not an answer of state.lua. */
void codec_read_state(struct span reply, struct span run_id, struct segment_state *ret_state);

#endif
