/* What anybody may read: the list of sales and the metrics from memory, and buyers' lists while an
 * operator's report is being read. */
#include "late_gate_fixture.h"

/* What came for a GET without a token. `headers`: complete lines. */
static const char *get(const char *path, const char *headers)
{
    world.headers = headers;
    const char *heard = api_world_call(&world, "GET", path, 1, NULL);
    world.headers = NULL;
    return heard;
}

static void pass_ms(int64_t ms)
{
    fake_clock_pass_ms(&world.ledger_writer.clock, ms);
    api_world_settle(&world);
}

static bool shows(const char *heard, int available)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "\"available\":%d,", available);
    return strstr(heard, text) != NULL;
}

static void tag_of(const char *heard, char ret_tag[64])
{
    const char *at = strstr(heard, "ETag: ");
    assert_non_null(at);
    size_t len = strcspn(at + 6, "\r");
    assert_true(len < 64);
    memcpy(ret_tag, at + 6, len);
    ret_tag[len] = '\0';
}

static void the_list_is_at_most_a_second_old(void **state)
{
    (void)state;
    assert_true(shows(get("/v1/sales", NULL), LEDGER_WRITER_UNITS));
    (void)queued_order(1);
    pass_ms(900);
    assert_false(shows(get("/v1/sales", NULL), LEDGER_WRITER_UNITS - 1));
    pass_ms(100);
    assert_true(shows(get("/v1/sales", NULL), LEDGER_WRITER_UNITS - 1));
}

static void an_item_shows_every_decision_at_once(void **state)
{
    (void)state;
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/items/%u", LEDGER_WRITER_FREE);
    assert_true(shows(get(path, NULL), LEDGER_WRITER_UNITS));
    for (int i = 1; i <= 3; i++) {
        (void)queued_order((uint64_t)i);
        assert_true(shows(get(path, NULL), LEDGER_WRITER_UNITS - i));
    }
}

static void a_list_that_says_the_same_keeps_its_tag(void **state)
{
    (void)state;
    char tag[64];
    char later[64];
    char header[128];
    tag_of(get("/v1/sales", NULL), tag);
    pass_ms(5000);
    (void)snprintf(header, sizeof(header), "If-None-Match: %s\r\n", tag);
    const char *heard = get("/v1/sales", header);
    assert_int_equal(api_world_status(heard), 304);
    assert_null(strstr(heard, "\"sales\""));
    assert_non_null(strstr(heard, "Cache-Control: public, max-age=1\r\n"));
    (void)queued_order(1);
    pass_ms(1000);
    heard = get("/v1/sales", header);
    assert_int_equal(api_world_status(heard), 200);
    tag_of(heard, later);
    assert_string_not_equal(tag, later);
}

/* The start and the end of a sale, and an operator's change, are not a second late. */
static void the_state_of_a_sale_is_never_late(void **state)
{
    (void)state;
    assert_non_null(strstr(get("/v1/sales", NULL), "\"state\":\"open\""));
    struct ledger_writer_op *pause =
        ledger_writer_op_new(&world.ledger_writer, LEDGER_SALE_MOVE, 0);
    pause->op.sale_id = LEDGER_WRITER_SALE;
    pause->op.target = SALE_PAUSED;
    ledger_writer_world_do(&world.ledger_writer, pause);
    ledger_writer_op_free(pause);
    assert_non_null(strstr(get("/v1/sales", NULL), "\"state\":\"paused\""));
}

static void a_range_of_time_keeps_the_sales_that_meet_it(void **state)
{
    (void)state;
    char path[128];
    const struct sale_row *sale = NULL;
    catalog_lock(world.shared.catalog);
    sale = catalog_sale(world.shared.catalog, LEDGER_WRITER_SALE);
    int64_t starts_ms = sale->starts_at_ms;
    int64_t ends_ms = sale->ends_at_ms;
    catalog_unlock(world.shared.catalog);
    const struct {
        int64_t from_ms, to_ms;
        bool kept;
    } cases[] = {{ends_ms - 1, ends_ms, true},     {ends_ms, ends_ms + 5, false},
                 {starts_ms, starts_ms + 1, true}, {starts_ms - 5, starts_ms, false},
                 {0, ends_ms * 2, true},           {0, 0, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(path, sizeof(path), "/v1/sales?from_ms=%lld&to_ms=%lld",
                       (long long)cases[i].from_ms, (long long)cases[i].to_ms);
        assert_int_equal(strstr(get(path, NULL), "\"id\"") != NULL, cases[i].kept);
    }
    assert_int_equal(api_world_status(get("/v1/sales?from_ms=-1", NULL)), 400);
    assert_int_equal(api_world_status(get("/v1/sales?to_ms=1x", NULL)), 400);
}

static void metrics_are_made_a_few_times_a_second(void **state)
{
    (void)state;
    char made[64];
    unsigned different = 0;
    memset(made, 0, sizeof(made));
    for (int i = 0; i < 100; i++) {
        const char *heard = get("/metrics", NULL);
        const char *at = strstr(heard, "\nsluice_http_requests_total ");
        char count[64];
        assert_non_null(at);
        (void)snprintf(count, sizeof(count), "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
        different += strcmp(count, made) != 0 ? 1 : 0;
        memcpy(made, count, sizeof(made));
    }
    assert_in_range(different, 2, 10);
    pass_ms(1000);
    const char *at = strstr(get("/metrics", NULL), "\nsluice_http_requests_total ");
    assert_true(strncmp(at + 1, made, strlen(made)) != 0);
}

/* The thread of operators' reads does nothing here, as while it reads a long report. */
static void a_buyer_does_not_wait_behind_a_report(void **state)
{
    (void)state;
    char path[64];
    struct ledger_reader *stuck = world.operator_reader;
    (void)queued_order(1);
    uint32_t operator= api_world_connect(&world);
    (void)snprintf(path, sizeof(path), "/v1/admin/sales/%u/report", LEDGER_WRITER_SALE);
    api_world_send(&world, operator, "GET", path, 0, NULL);
    uint32_t buyer = api_world_connect(&world);
    api_world_send(&world, buyer, "GET", "/v1/me/orders", 1, NULL);
    for (int i = 0; i < 12; i++) {
        (void)api_world_iterate(&world);
        (void)ledger_writer_world_settle(&world.ledger_writer);
        ledger_reader_iterate(world.ledger_reader);
    }
    assert_int_equal(api_world_status(api_world_heard(&world, buyer)), 200);
    assert_int_equal(api_world_status(api_world_heard(&world, operator)), 0);
    ledger_reader_iterate(stuck);
    api_world_answer(&world);
    assert_int_not_equal(api_world_status(api_world_heard(&world, operator)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_list_is_at_most_a_second_old),
        TEST(an_item_shows_every_decision_at_once),
        TEST(a_list_that_says_the_same_keeps_its_tag),
        TEST(the_state_of_a_sale_is_never_late),
        TEST(a_range_of_time_keeps_the_sales_that_meet_it),
        TEST(metrics_are_made_a_few_times_a_second),
        TEST(a_buyer_does_not_wait_behind_a_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
