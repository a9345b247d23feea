/*
 * Shared by the files of the load tool: the options, a job (one attempt to buy), a request (one
 * step of a job) and a worker (one thread with its connections, jobs and counters).
 *
 *   bench.c          the command: options, threads, live line, audit, report
 *   bench_options.c  the command line
 *   bench_worker.c   one thread: its phases, arrivals, timers
 *   bench_flow.c     what an answer means for a job, and the job's next step
 *   bench_net.c      connections: epoll, sending, receiving, reconnecting
 *   bench_queue.c    waiting requests: in order, and by time
 *   bench_http.c     reading answers
 *   bench_token.c    signing
 *   bench_answers.c  the clients' answers
 *   bench_audit.c    comparison with the ledger, which bench_ledger.c reads
 *   bench_report.c   the table and the JSON
 *
 * Everything in a worker belongs to its thread, except the atomic counters of the live line.
 */
#ifndef SLUICE_BENCH_BENCH_H
#define SLUICE_BENCH_BENCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hist.h"
#include "base/prng.h"
#include "bench/bench_answers.h"
#include "bench/bench_http.h"
#include "bench/bench_net.h"
#include "bench/bench_queue.h"
#include "bench/bench_token.h"

#define BENCH_ITEMS_MAX 256
#define BENCH_THREADS_MAX 64
#define BENCH_CODES_MAX 64

struct bench_options {
    const char *url;
    const char *data;
    const char *get_path; /* NULL unless --get */
    const char *tell;     /* NULL unless --tell */
    uint64_t items[BENCH_ITEMS_MAX];
    size_t item_count;
    uint64_t users;
    uint64_t first_user;
    uint64_t orders_per_user;
    uint64_t requests; /* 0: no limit */
    double duration_s; /* 0: no limit */
    double rate;       /* arrivals a second, open loop only */
    bool open_loop;
    uint32_t connections;
    uint32_t threads;
    uint32_t pipeline;
    uint32_t source_spread; /* 0: the system chooses the source address */
    uint32_t qty;
    uint32_t retries;
    uint32_t wait_ms;
    double duplicates_percent;
    double drops_percent;
    double pay_percent;
    double cancel_percent;
    bool poll_result;
    bool prefetch;
    bool hammer;
    bool keep_going;
    bool audit;
    bool json;
    uint64_t seed;
};

enum bench_parsed { BENCH_RUN, BENCH_HELP_SHOWN, BENCH_USAGE };
/* Prints what is wrong to stderr before it returns BENCH_USAGE. */
enum bench_parsed bench_options_parse(int argc, char **argv, struct bench_options *ret_options);

/* The steps of a job and their names in reports. */
#define BENCH_STEPS(X)                                                                             \
    X(STEP_GET, "get")                                                                             \
    X(STEP_TICKET, "ticket")                                                                       \
    X(STEP_BUY, "buy")                                                                             \
    X(STEP_RESULT, "result")                                                                       \
    X(STEP_PAY, "pay")                                                                             \
    X(STEP_CANCEL, "cancel")

enum bench_step {
#define X(name, text) name,
    BENCH_STEPS(X)
#undef X
        STEP_COUNT
};

/* One attempt of one user to buy one item; or, with bytes set, one request that is repeated until
 * the end. */
struct bench_job {
    struct bench_job *previous; /* among the live jobs of the worker */
    struct bench_job *next;     /* there, or in a list of prepared or free jobs */
    uint64_t user_index;        /* of the worker's own users */
    uint64_t user;
    uint64_t item;
    int64_t amount_cents;
    struct answer *answer; /* what is known of its order; NULL: nothing yet */
    char *ticket;
    char *bytes; /* the complete request of a hammering job */
    uint32_t ticket_len;
    uint32_t bytes_len;
    uint32_t retries_left;
    uint32_t open;   /* its requests that wait, are sent or are delayed */
    uint8_t step;    /* of the repeated request */
    bool ended;      /* no step follows; freed when open is 0 */
    bool asked;      /* a buy was sent */
    bool refused;    /* a buy was refused for good */
    bool unknown;    /* a buy ended without a final answer */
    bool duplicates; /* random choices for this job */
    bool drops;
    bool pays;
    bool cancels;
    uint8_t order_id_len;
    char order_id[BENCH_ORDER_ID_MAX];
};

struct bench_code {
    char text[32];
    uint64_t count;
};

struct bench_stats {
    atomic_uint_fast64_t requests; /* answered */
    atomic_uint_fast64_t orders;   /* order ids won, each counted once */
    atomic_uint_fast64_t errors;   /* requests without an answer */
    uint64_t retries;
    uint64_t duplicates;
    uint64_t drops;
    uint64_t backwards; /* answers that contradict earlier ones */
    struct bench_code refused[BENCH_CODES_MAX];
    size_t refused_count;
    struct hist latency[STEP_COUNT]; /* microseconds, each from when the request was due */
};

/* What to do after an answer, or without one, once the tell file is written. */
enum bench_verdict { VERDICT_NEXT, VERDICT_RETRY, VERDICT_RESEND, VERDICT_END, VERDICT_NOTHING };

struct bench_ready {
    struct bench_request request;
    enum bench_verdict verdict;
    uint32_t delay_ms;
};

enum bench_phase { PHASE_CONNECT, PHASE_TICKETS, PHASE_SETTLE, PHASE_MEASURE };

struct bench_shared;

struct bench_worker {
    struct bench_shared *shared;
    const struct bench_options *options;
    uint32_t index;
    uint32_t connections; /* this worker's share */
    pthread_t thread;
    struct bench_net net;
    struct request_heap sleeping;
    struct bench_ready *ready;
    size_t ready_count;
    size_t ready_cap;
    struct bench_job *live;
    size_t live_count;
    struct bench_job *free_jobs;
    struct bench_job *prepared; /* with a ticket, in order of the tickets */
    struct bench_job *prepared_last;
    struct bench_job *hot; /* hammering or about to */
    size_t hot_count;
    struct bench_job *winners; /* got an order while the stock was being sold out */
    char **tokens;             /* one per user of this worker, signed when first needed */
    uint64_t user_count;
    uint64_t job_count; /* attempts of this worker */
    uint64_t jobs_made;
    uint64_t request_limit; /* of a hammer, with --requests */
    uint64_t tickets;
    enum bench_phase phase;
    struct answer_table answer;
    struct tell tell;
    struct prng prng;
    int64_t token_expires_s;
    int64_t start_ns;
    int64_t deadline_ns; /* INT64_MAX: none */
    int64_t last_answer_ns;
    bool deadline_seen;  /* no new jobs are started */
    int64_t measured_ns; /* length of the measurement, and what was counted in it */
    uint64_t measured_requests;
    uint64_t measured_orders;
    struct bench_stats stats;
};

/* Shared by the workers: read-only while they run, except stop and the barrier. */
struct bench_shared {
    struct bench_options options;
    struct bench_target target;
    struct bench_keys keys;
    struct bench_worker *workers;
    pthread_barrier_t barrier;
    int tell_fd;
    int64_t start_ns; /* of the measurement; written between two barriers */
    atomic_bool stop; /* finish what has started, start nothing new */
    atomic_bool failed;
    atomic_bool measuring;
    atomic_uint_fast32_t running;
};

/* bench_worker.c */
void *bench_worker_run(void *worker); /* main function of the thread */
void bench_worker_init(struct bench_shared *shared, uint32_t index);
void bench_worker_done(struct bench_worker *worker);
/* Prints why to stderr (once) and stops all workers. */
void bench_fail(struct bench_shared *shared, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* bench_flow.c: the callbacks of bench_net, and what runs after them. */
extern const struct bench_net_events bench_flow_events;
/* Acts on all answers of this turn. The tell file has been written. */
void bench_flow_advance(struct bench_worker *worker, int64_t now_ns);
/* Creates the next job and submits its first request. False: no job left. */
bool bench_flow_start(struct bench_worker *worker, int64_t due_ns);
/* Gives every connection a request that is repeated until the end. */
void bench_flow_hammer(struct bench_worker *worker);
/* Marks the outcome of unfinished jobs as unknown. */
void bench_flow_abandon(struct bench_worker *worker);

/* bench.c */
int64_t bench_now_ns(void);
/* realloc that ends the program with a message if there is no memory. */
void *bench_grow(void *old, size_t size);
extern const char *const bench_step_text[STEP_COUNT];

#endif
