/*
 * The report of a sale: its figures and their totals. api/report.c reads them from the ledger and
 * writes JSON; report_html.c writes one HTML page with charts.
 */
#ifndef SLUICE_PAGES_REPORT_H
#define SLUICE_PAGES_REPORT_H

#include "base/bytes.h"
#include "obs/incident_log.h"
#include "obs/tally.h"
#include "port/ledger.h"

#define REPORT_STEPS 60
#define REPORT_FAULTS 100

/* One sale's figures from the ledger. */
struct report_part {
    struct sale_row *sale;
    struct report_row *rows; /* one for each item, in the sale's order */
    uint32_t count;
    struct sale_summary summary;
};

/* Units over time, step by step. */
struct report_course {
    int64_t from_ms;
    int64_t step_ms;
    struct series_row steps[REPORT_STEPS];
};

enum { COURSE_RUSH, COURSE_WHOLE, COURSE_COUNT };

struct report {
    bool html;
    bool chinese;
    uint64_t sale_id;
    struct report_part own;
    struct report_part previous;                /* sale NULL: none */
    struct report_course courses[COURSE_COUNT]; /* from the first order to the last; to the end */
    /* Counts and incidents of this process at the time of writing. */
    struct tally_sum tally;
    struct tally_sum previous_tally;
    size_t faults_count;
    struct incident_log_entry faults[REPORT_FAULTS];
    int64_t faults_since_ms;
    int64_t now_ms;
};

/* Sums over the items. */
struct report_totals {
    uint64_t total; /* units */
    uint64_t orders[ORDER_STATE_COUNT];
    uint64_t units[ORDER_STATE_COUNT];
    uint64_t made;   /* orders */
    uint64_t booked; /* orders that were LOCKED at some time */
    int64_t paid_cents;
    int64_t first_ms, last_ms;
};
struct report_totals report_total(const struct report_part *part);
/* 0 if the whole is 0. */
uint64_t report_permille(uint64_t part, uint64_t whole);
uint64_t report_sold_permille(const struct report_totals *totals);
uint64_t report_unpaid_permille(const struct report_totals *totals);

/* Whether this process has counted all requests of the sale. */
bool report_counted_whole(const struct report *report);

void report_html(const struct report *report, struct out *out);

#endif
