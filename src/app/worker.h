/*
 * A thread that iterates until it is stopped. Every background thread of the program is one of
 * these; what it does in an iteration is its owner's.
 */
#ifndef SLUICE_APP_WORKER_H
#define SLUICE_APP_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct worker {
    const char *name; /* of the thread; at most 15 characters */
    int nice;         /* how much CPU it leaves to others; 0: as all */
    /* One iteration; it may wait. False: there is nothing more to do, and the thread ends. */
    bool (*iterate)(void *context);
    /* Any thread: ends the wait of an iteration. NULL: it never waits long. */
    void (*wake)(void *context);
    /* On the thread, after its last iteration. NULL: nothing. */
    void (*end)(void *context);
    void *context;
    /* the worker's own */
    _Atomic bool stopping;
    pthread_t thread;
    bool running;
};

/* ERR_NOMEM. */
int worker_start(struct worker *worker);
/* Asks the thread to end and does not wait for it. Any number of times, also if it never started. */
void worker_ask(struct worker *worker);
/* Asks it to end and waits. */
void worker_stop(struct worker *worker);

static inline bool worker_is_stopping(const struct worker *worker)
{
    return atomic_load(&worker->stopping);
}

#endif
