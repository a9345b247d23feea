/* CloudEvents: the message of each event, byte by byte; and that the longest texts fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ledger/cloudevent.h"

#define AT_MS 1794840428123LL /* 2026-11-16T14:47:08.123Z */

static struct item_row items[] = {{.id = 6, .sale = 3, .name = "other", .sku = "no"},
                                  {.id = 7, .sale = 3, .name = "A \"mug\"", .sku = "MUG/1"}};
static const struct sale_row sale = {.id = 3,
                                     .currency = "CNY",
                                     .pay_url = "https://shop.example/pay?o={order_id}&x=1",
                                     .items_count = 2,
                                     .items = items};

static struct order_row row(void)
{
    return (struct order_row){.id = order_id_once(7, 42, 0),
                              .user = 42,
                              .sale = 3,
                              .item = 7,
                              .qty = 2,
                              .state = ORDER_PAID, /* by now */
                              .amount_cents = 19800,
                              .created_at_ms = AT_MS - 500,
                              .locked_at_ms = AT_MS,
                              .pay_by_ms = AT_MS + 600000,
                              .ended_at_ms = AT_MS + 1000,
                              .currency = "CNY",
                              .payment_id = "pay-1"};
}

static struct ledger_event event(enum ledger_event_kind kind)
{
    return (struct ledger_event){.number = 123,
                                 .kind = kind,
                                 .at_ms = AT_MS,
                                 .sale = 3,
                                 .item = 7,
                                 .user = 42,
                                 .id = order_id_once(7, 42, 0),
                                 .qty = 2};
}

/* Compares, with the order's id filled in for @. */
static void assert_written(const struct ledger_event *e, uint32_t part, const struct order_row *o,
                           const char *expected)
{
    char memory[CLOUDEVENT_MAX];
    char text[2048];
    char id[ORDER_ID_TEXT];
    size_t len = 0;
    order_id_text(e->id, id);
    for (const char *c = expected; *c != '\0'; c++) {
        if (*c == '@') {
            memcpy(text + len, id, sizeof(id));
            len += sizeof(id);
        } else {
            text[len++] = *c;
        }
    }
    text[len] = '\0';
    struct span written = cloudevent_write(memory, "/sluice", e, part, o, &sale);
    memory[written.len] = '\0';
    assert_string_equal(memory, text);
}

#define BEGINNING(id, type, subject, sequence)                                                     \
    "{\"specversion\":\"1.0\",\"id\":\"" id "\",\"source\":\"/sluice\",\"type\":\"" type           \
    "\",\"subject\":\"" subject                                                                    \
    "\",\"time\":\"2026-11-16T14:47:08.123Z\",\"sequence\":\"" sequence                            \
    "\",\"datacontenttype\":\"application/json\",\"data\":{"
#define ORDER                                                                                      \
    "\"order_id\":\"@\",\"sale_id\":3,\"item_id\":7,\"sku\":\"MUG/1\",\"user_id\":42,\"qty\":2,"
#define MONEY                                                                                      \
    "\"amount_cents\":19800,\"currency\":\"CNY\",\"pay_url\":\"https://shop.example/"              \
    "pay?o=@&x=1\","
#define NUMBER "00000000000000000123"

static void test_what_is_told(void **state)
{
    struct order_row paid_by_now = row();
    struct ledger_event e = event(EVENT_ORDER_LOCKED);
    (void)state;
    e.a = paid_by_now.pay_by_ms;
    assert_int_equal(cloudevent_count(&e), 1);
    assert_string_equal(cloudevent_type(&e, 0), "order.locked");
    /* As it was then, not as it is. */
    assert_written(&e, 0, &paid_by_now,
                   BEGINNING("123", "order.locked", "@", NUMBER) ORDER
                   "\"status\":\"LOCKED\",\"reason\":null," MONEY
                   "\"pay_by_ms\":1794841028123,\"created_at_ms\":1794840427623,"
                   "\"at_ms\":1794840428123,\"payment_id\":null}}");
    e = event(EVENT_ORDER_PAID);
    assert_written(&e, 0, &paid_by_now,
                   BEGINNING("123", "order.paid", "@", NUMBER) ORDER
                   "\"status\":\"PAID\",\"reason\":null," MONEY
                   "\"pay_by_ms\":1794841028123,\"created_at_ms\":1794840427623,"
                   "\"at_ms\":1794840428123,\"payment_id\":\"pay-1\"}}");
    struct order_row failed = row();
    failed.state = ORDER_FAILED;
    failed.pay_by_ms = failed.locked_at_ms = 0;
    failed.payment_id[0] = '\0';
    e = event(EVENT_ORDER_FAILED);
    e.reason = REFUSAL_LIMIT_REACHED;
    assert_written(&e, 0, &failed,
                   BEGINNING("123", "order.failed", "@", NUMBER) ORDER
                   "\"status\":\"FAILED\",\"reason\":\"limit_reached\"," MONEY
                   "\"pay_by_ms\":null,\"created_at_ms\":1794840427623,"
                   "\"at_ms\":1794840428123,\"payment_id\":null}}");
    e = event(EVENT_ORDER_EXPIRED);
    assert_string_equal(cloudevent_type(&e, 0), "order.expired");
    e = event(EVENT_ORDER_CANCELLED);
    assert_string_equal(cloudevent_type(&e, 0), "order.cancelled");
}

static void test_the_last_unit(void **state)
{
    struct order_row order = row();
    struct ledger_event e = event(EVENT_ORDER_LOCKED);
    (void)state;
    e.b = 1;
    assert_int_equal(cloudevent_count(&e), 2);
    assert_string_equal(cloudevent_type(&e, 0), "order.locked");
    assert_string_equal(cloudevent_type(&e, 1), "item.sold_out");
    assert_written(
        &e, 1, &order,
        BEGINNING("123-sold_out", "item.sold_out", "7",
                  NUMBER
                  ".1") "\"item_id\":7,\"sale_id\":3,\"sku\":\"MUG/1\",\"name\":\"A \\\"mug\\\"\","
                        "\"at_ms\":1794840428123}}");
}

static void test_what_is_not_told(void **state)
{
    (void)state;
    for (int kind = EVENT_NONE + 1; kind < EVENT_KIND_COUNT; kind++) {
        struct ledger_event e = event((enum ledger_event_kind)kind);
        bool order = strncmp(ledger_event_text(e.kind), "order.", 6) == 0;
        e.b = kind == EVENT_ORDER_LOCKED ? 0 : 1; /* limits, ends: nothing of this */
        assert_int_equal(cloudevent_count(&e), order);
    }
}

/* Texts as long as they may be, of what needs the most bytes. */
static void test_the_longest_fits(void **state)
{
    static struct item_row longest_item = {.id = ID_MAX, .sale = ID_MAX};
    static struct sale_row longest = {.id = ID_MAX, .items_count = 1, .items = &longest_item};
    char memory[CLOUDEVENT_MAX];
    char source[CLOUDEVENT_SOURCE_MAX + 1];
    struct order_row order = row();
    (void)state;
    memset(source, 1, CLOUDEVENT_SOURCE_MAX);
    source[CLOUDEVENT_SOURCE_MAX] = '\0';
    memset(longest.pay_url, 1, URL_MAX_BYTES - 10);
    memcpy(longest.pay_url + URL_MAX_BYTES - 10, "{order_id}", 10);
    memset(longest_item.sku, 1, SKU_MAX_BYTES);
    memset(longest_item.name, 1, NAME_MAX_BYTES);
    memset(order.payment_id, 1, PAYMENT_ID_MAX_BYTES);
    order.amount_cents = INT64_MAX;
    struct ledger_event e = event(EVENT_ORDER_PAID);
    e.number = UINT64_MAX;
    e.sale = e.item = e.user = ID_MAX;
    e.qty = UINT32_MAX;
    e.at_ms = order.pay_by_ms = order.created_at_ms = TIME_MAX_MS;
    struct span written = cloudevent_write(memory, source, &e, 0, &order, &longest);
    assert_true(written.len > (size_t)6 * URL_MAX_BYTES && written.len < CLOUDEVENT_MAX);
    memory[written.len] = '\0';
    assert_non_null(strstr(memory, "\"time\":\"9999-12-31T23:59:59.999Z\""));
    assert_non_null(strstr(memory, "\"payment_id\":\"\\u0001"));
    e.kind = EVENT_ORDER_LOCKED;
    e.b = 1;
    assert_true(cloudevent_write(memory, source, &e, 1, &order, &longest).len < CLOUDEVENT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_told),
        cmocka_unit_test(test_the_last_unit),
        cmocka_unit_test(test_what_is_not_told),
        cmocka_unit_test(test_the_longest_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
