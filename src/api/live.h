/* The dashboard's feed and the numbers of a running process, as JSON. */
#ifndef SLUICE_API_LIVE_H
#define SLUICE_API_LIVE_H

#include "api/api.h"

/* The feed as one object: time, numbers, and the items of sales that are not closed. */
void live_json(struct api_worker *worker, struct out *out);
/* The members funnel, latencies and rejects, each with a comma before it: the numbers of this process
 * since its start, for all sales. */
void live_funnel(struct api_worker *worker, struct out *out);
/* The member engine, and for the distributed engine segments, queues, leases and the process's
 * threads, each with a comma before it. What is not known yet is left out. */
void live_engine(struct api_worker *worker, struct out *out);

#endif
