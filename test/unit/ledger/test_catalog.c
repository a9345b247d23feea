/* The catalog: sales by id, items wherever they are, rows replaced and taken away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "ledger/catalog.h"

static struct catalog *catalog;

static int set_up(void **state)
{
    (void)state;
    catalog = catalog_new();
    return catalog == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    catalog_free(catalog);
    return 0;
}

/* A sale with count items: first, first + step ... */
static struct sale_row *sale_with(uint64_t id, const char *name, uint32_t count, uint64_t first,
                                  uint64_t step)
{
    struct sale_row *sale = calloc(1, sizeof(*sale));
    assert_non_null(sale);
    sale->id = id;
    sale->items_count = count;
    sale->items = calloc(count > 0 ? count : 1, sizeof(*sale->items));
    assert_non_null(sale->items);
    (void)snprintf(sale->name, sizeof(sale->name), "%s", name);
    for (uint32_t i = 0; i < count; i++) {
        sale->items[i].id = first + i * step;
        sale->items[i].sale = id;
        (void)snprintf(sale->items[i].name, sizeof(sale->items[i].name), "%s %u", name, i);
    }
    return sale;
}

static void assert_item(uint64_t item, uint64_t sale, const char *name)
{
    const struct sale_row *found = NULL;
    const struct item_row *row = catalog_item(catalog, item, &found);
    assert_non_null(row);
    assert_int_equal(row->id, item);
    assert_int_equal(found->id, sale);
    assert_string_equal(row->name, name);
    assert_true(row >= found->items && row < found->items + found->items_count);
}

static void assert_no_item(uint64_t item)
{
    const struct sale_row *found = NULL;
    assert_null(catalog_item(catalog, item, &found));
    assert_null(found);
}

static void an_empty_catalog_has_nothing(void **state)
{
    (void)state;
    size_t count = 1;
    catalog_lock(catalog);
    (void)catalog_sales(catalog, &count);
    assert_int_equal(count, 0);
    assert_null(catalog_sale(catalog, 1));
    assert_no_item(1);
    catalog_unlock(catalog);
    catalog_remove(catalog, 1); /* nothing to remove is fine */
    catalog_free(NULL);
}

static void sales_are_listed_by_id_and_items_are_found(void **state)
{
    (void)state;
    assert_int_equal(catalog_put(catalog, sale_with(5, "five", 2, 50, 1)), 0);
    assert_int_equal(catalog_put(catalog, sale_with(9, "nine", 1, 3, 1)), 0);
    assert_int_equal(catalog_put(catalog, sale_with(2, "two", 3, 40, 20)), 0);
    assert_int_equal(catalog_put(catalog, sale_with(7, "seven", 0, 0, 0)), 0);
    size_t count = 0;
    catalog_lock(catalog);
    struct sale_row *const *sales = catalog_sales(catalog, &count);
    assert_int_equal(count, 4);
    assert_true(sales[0]->id == 2 && sales[1]->id == 5 && sales[2]->id == 7 && sales[3]->id == 9);
    assert_string_equal(catalog_sale(catalog, 7)->name, "seven");
    assert_null(catalog_sale(catalog, 6));
    assert_item(50, 5, "five 0");
    assert_item(51, 5, "five 1");
    assert_item(3, 9, "nine 0");
    assert_item(40, 2, "two 0");
    assert_item(60, 2, "two 1");
    assert_item(80, 2, "two 2");
    assert_no_item(41);
    catalog_unlock(catalog);
}

static void a_newer_row_replaces_the_older_one_with_all_its_items(void **state)
{
    (void)state;
    assert_int_equal(catalog_put(catalog, sale_with(1, "old", 3, 10, 1)), 0);
    assert_int_equal(catalog_put(catalog, sale_with(2, "other", 1, 20, 1)), 0);
    assert_int_equal(catalog_put(catalog, sale_with(1, "new", 2, 12, 1)), 0);
    size_t count = 0;
    catalog_lock(catalog);
    (void)catalog_sales(catalog, &count);
    assert_int_equal(count, 2);
    assert_string_equal(catalog_sale(catalog, 1)->name, "new");
    assert_no_item(10);
    assert_no_item(11);
    assert_item(12, 1, "new 0");
    assert_item(13, 1, "new 1");
    assert_item(20, 2, "other 0");
    catalog_unlock(catalog);
}

static void a_removed_sale_takes_its_items_along(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 4; id++) {
        assert_int_equal(catalog_put(catalog, sale_with(id, "s", 2, id * 10, 1)), 0);
    }
    catalog_remove(catalog, 2);
    catalog_remove(catalog, 2);
    catalog_remove(catalog, 99);
    size_t count = 0;
    catalog_lock(catalog);
    (void)catalog_sales(catalog, &count);
    assert_int_equal(count, 3);
    assert_null(catalog_sale(catalog, 2));
    assert_no_item(20);
    assert_no_item(21);
    assert_item(11, 1, "s 1");
    assert_item(30, 3, "s 0");
    catalog_unlock(catalog);
}

/* Many changes, against a list of which sale has which version. */
static void it_holds_what_was_put_last(void **state)
{
    (void)state;
    enum { SALES = 20 };
    uint32_t versions[SALES + 1] = {0}; /* 0: not there; else its number of items */
    struct prng prng = prng_of(17);
    for (int i = 0; i < 2000; i++) {
        uint64_t sale = 1 + prng_below(&prng, SALES);
        if (prng_below(&prng, 3) == 0) {
            catalog_remove(catalog, sale);
            versions[sale] = 0;
        } else {
            versions[sale] = 1 + (uint32_t)prng_below(&prng, 9);
            /* Items of different sales lie between each other. */
            assert_int_equal(
                catalog_put(catalog, sale_with(sale, "x", versions[sale], sale, SALES)), 0);
        }
        size_t want = 0;
        size_t count = 0;
        catalog_lock(catalog);
        for (uint64_t s = 1; s <= SALES; s++) {
            want += versions[s] > 0;
            assert_int_equal(catalog_sale(catalog, s) != NULL, versions[s] > 0);
            for (uint32_t k = 0; k < 10; k++) {
                const struct sale_row *found = NULL;
                const struct item_row *row = catalog_item(catalog, s + k * SALES, &found);
                assert_int_equal(row != NULL, k < versions[s]);
                assert_true(row == NULL || found->id == s);
            }
        }
        (void)catalog_sales(catalog, &count);
        assert_int_equal(count, want);
        catalog_unlock(catalog);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_empty_catalog_has_nothing),
        TEST(sales_are_listed_by_id_and_items_are_found),
        TEST(a_newer_row_replaces_the_older_one_with_all_its_items),
        TEST(a_removed_sale_takes_its_items_along),
        TEST(it_holds_what_was_put_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
