/* A decision as the queue carries it: one line of text, so that an operator can read what is parked. */
#ifndef SLUICE_FLOW_MESSAGE_H
#define SLUICE_FLOW_MESSAGE_H

#include "flow/booking_channel.h"

#define MESSAGE_MAX 192

/* "1 SEGMENT EPOCH ORDER USER ITEM QTY CREATED_AT_MS"; 1 is the format. */
struct span message_write(char ret_text[MESSAGE_MAX], const struct decision *decision);
/* ERR_INVALID: not one of ours. */
int message_read(struct span text, struct decision *ret_decision);

#endif
