/*
 * The journal's thread: flushes what was appended, batch by batch, and logs when it cannot. A full
 * disk makes it wait for space; any other error ends its work and the promises of this server.
 */
#ifndef SLUICE_APP_JOURNAL_THREAD_H
#define SLUICE_APP_JOURNAL_THREAD_H

#include "app/assembly.h"
#include "app/worker.h"

/* Zeroed before the start. */
struct journal_thread {
    struct assembly *parts;
    struct worker worker;
    bool waits; /* for space, and it was logged */
};

/* Logs its error. */
int journal_thread_start(struct journal_thread *thread, struct assembly *parts);
/* Also if it never started. Flushes what is appended. */
void journal_thread_stop(struct journal_thread *thread);

#endif
