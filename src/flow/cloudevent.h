/*
 * What the ledger has committed, as CloudEvents 1.0 for the shop: JSON in structured mode, one message
 * each (docs/EVENTS.md). Pure. The same event gives the same bytes, whenever and by whomever it is
 * written: nothing in it changes after the event, so a duplicate is a duplicate in every byte.
 *
 * An event of the ledger becomes none, one or two of them: what is not the shop's business none; the
 * order that took an item's last unit is followed by item.sold_out, whose id is made from its own.
 */
#ifndef SLUICE_FLOW_CLOUDEVENT_H
#define SLUICE_FLOW_CLOUDEVENT_H

#include "port/ledger.h"

#define CLOUDEVENT_CONTENT_TYPE "application/cloudevents+json"
/* URL, name and ids at their longest, every byte escaped, and 1,500 bytes for the rest. */
#define CLOUDEVENT_SOURCE_MAX 255
#define CLOUDEVENT_MAX                                                                             \
    (6 * (URL_MAX_BYTES + ORDER_ID_TEXT + NAME_MAX_BYTES + SKU_MAX_BYTES + PAYMENT_ID_MAX_BYTES +  \
          CLOUDEVENT_SOURCE_MAX) +                                                                 \
     1500)

/* How many messages the event is. */
uint32_t cloudevent_count(const struct ledger_event *event);
/* The type of its part-th message, which is its routing key, too. */
const char *cloudevent_type(const struct ledger_event *event, uint32_t part);
/* Into memory of CLOUDEVENT_MAX bytes. order: the event's, as it is now; sale: its sale, with items.
 * source: at most CLOUDEVENT_SOURCE_MAX bytes. */
struct span cloudevent_write(char *memory, const char *source, const struct ledger_event *event,
                             uint32_t part, const struct order_row *order,
                             const struct sale_row *sale);

#endif
