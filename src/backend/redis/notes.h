/*
 * What Redis carries for us as lines of text besides calls and answers: decisions in the outbox, and
 * news. docs/REDIS.md lists the forms.
 */
#ifndef SLUICE_BACKEND_REDIS_NOTES_H
#define SLUICE_BACKEND_REDIS_NOTES_H

#include "port/segments.h"

#define NOTE_MAX 192

/* An entry's text: 1 EPOCH ORDER USER ITEM QTY CREATED. ERR_INVALID: not of this form. */
int note_entry(struct span text, struct outbox_entry *ret_entry);
/* News that came on the channel of a segment, or on everyone's. ERR_INVALID. */
int note_news(struct span text, uint32_t segment, struct segment_news *ret_news);
/* For everyone's channel. */
void note_tell(struct out *out, const struct segment_news *news);

#endif
