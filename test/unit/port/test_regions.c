/* Homes by region: the text, whose home is where, and shares by weight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/limits.h"
#include "port/ledger_rules.h"
#include "port/regions.h"
#include "port/segments.h"

static struct regions parsed(const char *text, uint32_t segments)
{
    struct regions regions;
    const char *why = "";
    if (regions_parse(text, segments, &regions, &why) != 0) {
        fail_msg("%s: %s", text, why);
    }
    return regions;
}

static void texts_that_are_right(void **state)
{
    (void)state;
    assert_int_equal(parsed("", 3).count, 0);
    struct regions regions = parsed("eu 1-1999 0,1; us 2000- 2 5", 3);
    assert_int_equal(regions.count, 2);
    assert_int_equal(regions.at[0].first, 1);
    assert_int_equal(regions.at[0].last, 1999);
    assert_int_equal(regions.at[0].segments, 3);
    assert_int_equal(regions.at[0].weight, 2); /* one for each segment */
    assert_int_equal(regions.at[1].last, ID_MAX);
    assert_int_equal(regions.at[1].segments, 4);
    assert_int_equal(regions.at[1].weight, 5);
    assert_int_equal(parsed("  a  7-7   63  ", 64).at[0].segments, 1ULL << 63);
    assert_int_equal(parsed("a 1-2 0,0", 1).at[0].weight, 1);
}

static void texts_that_are_wrong(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "eu",
        "eu 1-5",
        "eu 5 0",
        "eu 5-1 0",
        "eu -5 0",
        "eu a-5 0",
        "eu 1-9007199254740992 0",
        "eu 1-5 3", /* there are three */
        "eu 1-5 x",
        "eu 1-5 0,,1",
        "eu 1-5 64",
        "eu 1-5 0 0",
        "eu 1-5 0 1000001",
        "eu 1-5 0 1 1",
        "eu 1-5 0;; us 6-7 1",
        "eu 1-5 0; us 5-7 1", /* user 5 */
        "eu 1-5 0; us 6-7 0", /* segment 0 */
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct regions regions = {.count = 77};
        const char *why = "";
        if (regions_parse(texts[i], 3, &regions, &why) != ERR_INVALID) {
            fail_msg("%s is taken", texts[i]);
        }
        assert_true(why[0] != '\0');
        assert_int_equal(regions.count, 77);
    }
    struct regions regions;
    const char *why = "";
    char many[REGIONS_TEXT_MAX + 2];
    memset(many, ' ', sizeof(many));
    many[sizeof(many) - 1] = '\0';
    assert_int_equal(regions_parse(many, 3, &regions, &why), ERR_INVALID);
}

static void homes(void **state)
{
    (void)state;
    struct regions none = {.count = 0};
    struct regions regions = parsed("eu 1-1999 0,3; us 2000-2999 1", 4);
    uint32_t met[4] = {0};
    for (uint64_t user = 1; user <= 5000; user++) {
        uint32_t home = regions_home(&regions, user, 4);
        assert_int_equal(regions_home(&none, user, 4), segment_home(user, 4));
        assert_true(user > 1999 || home == 0 || home == 3);
        assert_true(user < 2000 || user > 2999 || home == 1);
        assert_true(user < 3000 || home == segment_home(user, 4)); /* in no region */
        met[home] += user <= 1999;
    }
    assert_true(met[0] > 800 && met[3] > 800);
    /* A sale that was warmed when there were fewer segments. */
    for (uint64_t user = 1; user <= 1999; user++) {
        assert_int_equal(regions_home(&regions, user, 3), 0);
    }
    struct regions late = parsed("eu 1-1999 3", 4);
    assert_int_equal(regions_home(&late, 5, 3), segment_home(5, 3));
}

static void shares(void **state)
{
    (void)state;
    struct sale_row sale = {.homes = 4, .regions = parsed("eu 1-9 0,1 8; us 10- 2 2", 4)};
    /* 3 is in no region, and weighs one. */
    static const uint64_t wanted[] = {400, 400, 200, 100};
    for (uint32_t s = 0; s < 4; s++) {
        assert_int_equal(ledger_home_share(&sale, 1100, s), wanted[s]);
    }
    static const uint64_t totals[] = {0, 1, 2, 3, 10, 999, STOCK_MAX};
    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
        for (sale.homes = 1; sale.homes <= 4; sale.homes++) {
            uint64_t sum = 0;
            for (uint32_t s = 0; s < sale.homes; s++) {
                sum += ledger_home_share(&sale, totals[i], s);
            }
            assert_int_equal(sum, totals[i]);
        }
    }
    sale = (struct sale_row){.homes = 3};
    assert_int_equal(ledger_home_share(&sale, 10, 0), 4);
    assert_int_equal(ledger_home_share(&sale, 10, 2), 3);
}

static void neighbours(void **state)
{
    (void)state;
    struct regions regions = parsed("eu 1-9 0,1; us 10- 2", 4);
    assert_int_equal(regions_around(&regions, 1), 3);
    assert_int_equal(regions_around(&regions, 2), 4);
    assert_int_equal(regions_around(&regions, 3), ~7ULL);
    struct regions none = {.count = 0};
    assert_int_equal(regions_around(&none, 5), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_that_are_right),
        cmocka_unit_test(texts_that_are_wrong),
        cmocka_unit_test(homes),
        cmocka_unit_test(shares),
        cmocka_unit_test(neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
