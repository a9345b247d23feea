/*
 * A thread of a front of the distributed engine that checks servers for operators: the state of
 * segments, queue and leases, once a second (distributed/cluster_status.h), and parked messages, on
 * request (distributed/parked_messages.h). It has its own connections, so it delays no other
 * thread.
 */
#ifndef SLUICE_APP_CLUSTER_STATUS_THREAD_H
#define SLUICE_APP_CLUSTER_STATUS_THREAD_H

#include "app/backends.h"

struct cluster_status_thread;

/* Errors are logged. */
int cluster_status_thread_start(struct assembly *parts, struct backends *backends,
                                struct segment_table *segment_table,
                                struct cluster_status_thread **ret_cluster_status_thread);
/* NULL is fine, here and below. */
void cluster_status_thread_stop(struct cluster_status_thread *cluster_status_thread);
void cluster_status_thread_free(struct cluster_status_thread *cluster_status_thread);

#endif
