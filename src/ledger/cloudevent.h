/*
 * Turns committed ledger events into CloudEvents 1.0 for the shop: JSON in structured mode, one
 * message each (docs/EVENTS.md). Pure. The same event always gives the same bytes, in any process and
 * at any time, because nothing in it changes later. So a duplicate is identical in every byte.
 *
 * One ledger event becomes zero, one or two messages. Events that do not concern the shop give
 * none. The order that takes an item's last unit is followed by item.sold_out, whose id derives
 * from the order event's id.
 */
#ifndef SLUICE_LEDGER_CLOUDEVENT_H
#define SLUICE_LEDGER_CLOUDEVENT_H

#include "port/ledger.h"

#define CLOUDEVENT_CONTENT_TYPE "application/cloudevents+json"
/* The longest URL, name and ids with every byte escaped, and 1,500 bytes for the rest. */
#define CLOUDEVENT_SOURCE_MAX 255
#define CLOUDEVENT_MAX                                                                             \
    (6 * (URL_MAX_BYTES + ORDER_ID_TEXT + NAME_MAX_BYTES + SKU_MAX_BYTES + PAYMENT_ID_MAX_BYTES +  \
          CLOUDEVENT_SOURCE_MAX) +                                                                 \
     1500)

/* The number of messages this event becomes. */
uint32_t cloudevent_count(const struct ledger_event *event);
/* The type of message `part`; also its routing key. */
const char *cloudevent_type(const struct ledger_event *event, uint32_t part);
/* Writes into memory of CLOUDEVENT_MAX bytes. order: the event's order, as it is now. sale: its
 * sale, with items. source: at most CLOUDEVENT_SOURCE_MAX bytes. */
struct span cloudevent_write(char *memory, const char *source, const struct ledger_event *event,
                             uint32_t part, const struct order_row *order,
                             const struct sale_row *sale);

#endif
