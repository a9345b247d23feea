/* A decision as a queue message: one line of text, so that an operator can read parked messages. */
#ifndef SLUICE_DISTRIBUTED_MESSAGE_H
#define SLUICE_DISTRIBUTED_MESSAGE_H

#include "distributed/booking_channel.h"

#define MESSAGE_MAX 192

/* "1 SEGMENT EPOCH ORDER USER ITEM QTY CREATED_AT_MS"; the leading 1 is the format's version. */
struct span message_write(char ret_text[MESSAGE_MAX], const struct decision *decision);
/* ERR_INVALID: not a message of ours. */
int message_read(struct span text, struct decision *ret_decision);

#endif
