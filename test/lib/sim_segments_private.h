/* What sim_segments.c (servers, workers, faults) and sim_front.c (fronts' asks) share. */
#ifndef SLUICE_TEST_SIM_SEGMENTS_PRIVATE_H
#define SLUICE_TEST_SIM_SEGMENTS_PRIVATE_H

#include "sim_segments.h"
#include "sim_server.h"

#define NEWS_MAX 256

/* A segment on its server. `base` trails `live` by what stands in the log. */
struct server {
    uint64_t run;
    bool away;
    uint32_t lose;
    struct server_state live;
    struct server_state base;
    struct server_script *log;
    size_t log_count, log_room;
    uint64_t writes;
};

struct worker {
    struct segments segments;
    struct sim_segments *sim;
    uint32_t name;
    uint32_t turn; /* the segment looked at first */
    bool
        again[SEGMENTS_MAX]; /* what it holds comes first: it has just started, or lost an answer */
    uint64_t behind[SEGMENTS_MAX]; /* of those: the last one given out */
    struct segment_news news[NEWS_MAX];
    uint32_t news_first, news_count;
    bool news_lost;
    struct worker *next;
};

/* An ask under way. */
struct request {
    struct sim_front *front; /* NULL: gone */
    struct gate_request *gate_request;
    struct gate_request copy;
    uint64_t epoch;
    int64_t runs_us;
    int64_t answers_us;
    bool ran;
    struct request *next; /* in the order they were sent */
};

struct sim_front {
    struct gate_port port;
    struct sim_segments *sim;
    uint32_t loops;
    uint64_t epochs[SEGMENTS_MAX];
    int64_t runs_us[LOOPS_MAX]; /* one after the other, as on a connection */
    int64_t answers_us[LOOPS_MAX];
};

struct sim_segments {
    struct sim_segments_options options;
    struct server *servers;
    uint64_t runs;
    struct worker *workers;
    struct request *requests;
};

/* Runs a script and logs it; false: away. Whether its answer arrives is another matter. */
bool sim_run_script(const struct sim_segments *sim, uint32_t segment, struct server_script *script,
                    struct server_answer *ret_answer);
bool sim_answer_lost(const struct sim_segments *sim, uint32_t segment);
void sim_free_requests(struct sim_segments *sim);

#endif
