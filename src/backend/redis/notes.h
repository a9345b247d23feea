/*
 * Texts in Redis other than calls and answers: decisions in the outbox, and news. docs/REDIS.md
 * lists their formats.
 */
#ifndef SLUICE_BACKEND_REDIS_NOTES_H
#define SLUICE_BACKEND_REDIS_NOTES_H

#include "port/segments.h"

#define NOTE_MAX 192

/* Parses an entry: 1 EPOCH ORDER USER ITEM QTY CREATED. ERR_INVALID: another format. */
int note_entry(struct span text, struct outbox_entry *ret_entry);
/* Parses news from the channel of a segment, or from the common one. ERR_INVALID. */
int note_news(struct span text, uint32_t segment, struct segment_news *ret_news);
/* Writes news for the common channel. */
void note_tell(struct out *out, const struct segment_news *news);

#endif
