/* The dashboard's feed and the numbers of a running process, as JSON. */
#ifndef SLUICE_HTTP_LIVE_H
#define SLUICE_HTTP_LIVE_H

#include "http/front.h"

/* One whole object: time, numbers, items that are not over. */
void live_json(struct front *front, struct out *out);
/* The numbers alone, as members, each with a comma before it. */
void live_numbers(struct front *front, struct out *out);

#endif
