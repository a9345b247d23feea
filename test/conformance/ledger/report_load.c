/* See report_load.h. */
#include "report_load.h"

#include <stdlib.h>

void report_load_read(struct fixture *f)
{
    struct report_row rows[2];
    struct series_row series[60];
    struct ledger_query queries[] = {
        {.kind = QUERY_REPORT, .sale = 1, .limit = 2, .report = rows},
        {.kind = QUERY_SUMMARY, .sale = 1},
        {.kind = QUERY_SERIES, .sale = 1, .from_ms = T0, .step_ms = 100, .limit = 60},
        {.kind = QUERY_SERIES,
         .sale = 1,
         .from_ms = T0,
         .step_ms = 60000,
         .and_later = true,
         .limit = 60}};
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        queries[i].series = series;
        (void)ledger_read(f->ledger, &queries[i]);
        assert_int_equal(queries[i].error, 0);
    }
}

void report_load_orders(struct fixture *f, uint64_t item, uint32_t count)
{
    struct ledger_op *ops = calloc(count, sizeof(*ops));
    struct ledger_op **list = calloc(count, sizeof(*list));
    assert_true(ops != NULL && list != NULL);
    for (uint32_t i = 0; i < count; i++) {
        ops[i] = book_fresh(item, 1 + i % 100, 1, 1000 + i);
        ops[i].command.now_ms = T0 + i * 20000LL / count;
        list[i] = &ops[i];
    }
    write_batch(f, T0 + 20000, list, count);
    free(ops);
    free(list);
}

void report_load_sales(struct fixture *f)
{
    sale_open(f, 1, REPORTED_ITEM, 2, 100000, 0, false);
    sale_open(f, 2, OTHER_ITEM, 1, 1000000, 0, false);
    for (uint32_t i = 0; i < 20; i++) {
        struct ledger_op op = book_fresh(REPORTED_ITEM + i % 2, 1 + i / 3, 1, i);
        op.command.now_ms = T0 + 100 * i;
        write_op(f, T0 + 100 * i + 5, &op);
    }
}
