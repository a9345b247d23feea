/* The dashboard's feed and the numbers of a running process, as JSON. */
#ifndef SLUICE_API_LIVE_H
#define SLUICE_API_LIVE_H

#include "api/api.h"

/* One whole object: time, numbers, items that are not over. */
void live_json(struct api_worker *worker, struct out *out);
/* The members funnel, latencies and rejects, with a comma before them: this process's numbers since
 * its start, over all sales. */
void live_funnel(struct api_worker *worker, struct out *out);
/* Which engine it is, and what the distributed one has beside: segments, queues, leases, with a
 * comma before each. What is not known yet is absent. */
void live_engine(struct api_worker *worker, struct out *out);

#endif
