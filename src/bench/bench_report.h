/* The result of the load tool: collected from the workers, printed as a table or as JSON. */
#ifndef SLUICE_BENCH_BENCH_REPORT_H
#define SLUICE_BENCH_BENCH_REPORT_H

#include "bench/bench.h"
#include "bench/bench_audit.h"

struct bench_report {
    uint64_t requests;
    uint64_t orders;
    uint64_t errors;
    uint64_t retries;
    uint64_t duplicates;
    uint64_t drops;
    uint64_t backwards;
    double seconds;
    double requests_per_s;
    double orders_per_s;
    struct bench_code refused[BENCH_CODES_MAX];
    size_t refused_count;
    struct hist latency; /* of every step except long polls, whose time depends on the order */
    struct hist steps[STEP_COUNT];
    bool audited;
    struct audit_result audit;
};

/* Call it after the workers have ended. */
void bench_report_gather(const struct bench_shared *shared, struct bench_report *ret_report);
void bench_report_print(const struct bench_report *report);
/* ERR_NOMEM */
int bench_report_print_json(const struct bench_report *report);

#endif
