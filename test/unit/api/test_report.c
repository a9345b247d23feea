/* The report as a page: refusals by reason, each once and with its sum, in both languages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "pages/report.h"

static char text[262144];
static struct report report;
static struct sale_row sale;

static int setup(void **state)
{
    (void)state;
    memset(&report, 0, sizeof(report));
    memset(&sale, 0, sizeof(sale));
    sale.state = SALE_CLOSED;
    memcpy(sale.name, "Noon", 5);
    memcpy(sale.currency, "CNY", 4);
    report.own.sale = &sale;
    report.tally.since_ms = 1;
    return 0;
}

static const char *page(bool chinese)
{
    struct out out = out_over(text, sizeof(text) - 1);
    report.chinese = chinese;
    report_html(&report, &out);
    assert_false(out.overflow);
    text[out.len] = '\0';
    return text;
}

static unsigned times(const char *all, const char *what)
{
    unsigned count = 0;
    for (const char *at = all; (at = strstr(at, what)) != NULL; at++) {
        count++;
    }
    return count;
}

static void refusals_that_share_a_code_are_one_row(void **state)
{
    (void)state;
    report.tally.refused[REFUSAL_DEGRADED] = 1;
    report.tally.refused[REFUSAL_UNKNOWN_OUTCOME] = 20;
    report.tally.refused[REFUSAL_STALE_EPOCH] = 300;
    report.tally.refused[REFUSAL_SOLD_OUT] = 100;
    report.tally.refused[REFUSAL_NO_STOCK] = 11;
    const char *all = page(false);
    assert_int_equal(times(all, "degraded"), 1);
    assert_int_equal(times(all, ">sold_out<"), 1);
    assert_non_null(strstr(all, "<td>321</td>"));
    assert_non_null(strstr(all, "<td>111</td>"));
    /* The most frequent first, and the whole width is its own. */
    assert_true(strstr(all, "<td>321</td>") < strstr(all, "<td>111</td>"));
    assert_int_equal(times(all, "width=\"100.00\""), 1);
}

static void every_reason_has_its_words(void **state)
{
    (void)state;
    for (unsigned i = 1; i < REFUSAL_COUNT; i++) {
        char bare[96];
        const char *code = refusal_text((enum refusal)i)->code;
        (void)snprintf(bare, sizeof(bare), "<th>%s <code", code);
        report.tally.refused[i] = 1;
        for (int chinese = 0; chinese < 2; chinese++) {
            const char *all = page(chinese == 1);
            assert_non_null(strstr(all, code));
            if (strstr(all, bare) != NULL) {
                fail_msg("%s has no words", code);
            }
        }
        report.tally.refused[i] = 0;
    }
    report.tally.refused[REFUSAL_SOLD_OUT] = 1;
    assert_non_null(strstr(page(true), "<th>已售罄 <code class=\"soft\">sold_out</code>"));
    report.tally.refused[REFUSAL_SOLD_OUT] = 0;
    assert_non_null(strstr(page(true), "没有。"));
}

static void the_state_is_in_the_language_of_the_page(void **state)
{
    (void)state;
    assert_non_null(strstr(page(false), " · closed</p>"));
    assert_non_null(strstr(page(true), " · 已结束</p>"));
    sale.state = SALE_OPEN;
    assert_non_null(strstr(page(true), " · 进行中</p>"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(refusals_that_share_a_code_are_one_row, setup),
        cmocka_unit_test_setup(every_reason_has_its_words, setup),
        cmocka_unit_test_setup(the_state_is_in_the_language_of_the_page, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
