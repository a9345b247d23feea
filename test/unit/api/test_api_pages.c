/*
 * An item's page that is not there: being made, never to be made, of an item that another front has
 * warmed, or of none. Browsers get a page, programs a problem.
 */
#include "late_gate_fixture.h"

#include "pages/page_cache.h"
#include "pages/static.h"
#include "unit/pages/page_shop.h"

/* A gate that answers for unknown items only when the test says so. */
static struct {
    struct gate_port port; /* first */
    struct gate_port *inner;
    struct gate_request *waiting;
    bool released;
    enum refusal refusal;
} gate;

static enum gate_submitted op_submit(struct gate_port *port, struct gate_request *request)
{
    (void)port;
    if (request->kind != GATE_REQUEST_ITEM || !request->may_wait) {
        return gate_submit(gate.inner, request);
    }
    gate.waiting = request;
    return GATE_PENDING;
}

static struct gate_request *op_collect(struct gate_port *port, uint32_t loop)
{
    (void)port;
    struct gate_request *request = gate.released ? gate.waiting : NULL;
    if (request != NULL) {
        request->refusal = gate.refusal;
        request->next = NULL;
        gate.waiting = NULL;
        return request;
    }
    return gate_collect(gate.inner, loop);
}

static int64_t op_flush(struct gate_port *port, uint32_t loop)
{
    (void)port;
    return gate_flush(gate.inner, loop);
}

static struct page_cache *page_cache;

static void open_shop(size_t memory_bytes)
{
    char problem[256] = "";
    struct page_cache_options options = {.memory_bytes = memory_bytes, .base_url = ""};
    assert_int_equal(static_start(shop_assets, shop_assets_count), 0);
    assert_int_equal(page_cache_new(&options, &page_cache, problem, sizeof(problem)), 0);
    world.shared.page_cache = page_cache;
}

static void make_pages(void)
{
    struct page_cache_made made;
    assert_int_equal(page_cache_make(page_cache, world.ledger_writer.catalog, &made), 0);
}

static int open_and_set_up(void **state)
{
    int error = set_up(state);
    static const struct gate_ops ops = {
        .submit = op_submit, .collect = op_collect, .flush = op_flush};
    memset(&gate, 0, sizeof(gate));
    gate.port.ops = &ops;
    gate.inner = world.worker->gate;
    gate.refusal = REFUSAL_NO_SUCH_ITEM;
    return error;
}

static int close_and_tear_down(void **state)
{
    int error = tear_down(state);
    page_cache_free(page_cache);
    static_stop();
    return error;
}

static const char *get(const char *path, bool person)
{
    world.headers = person ? "Accept: text/html\r\n" : NULL;
    return api_world_call(&world, "GET", path, 1, NULL);
}

static void expect_person_later(const char *heard)
{
    expect_status(heard, 503);
    expect_text(heard, "Retry-After: 1\r\n");
    expect_text(heard, "<title>missing</title>");
}

/* The catalog has the item, the edition has not. */
static void a_page_that_is_being_made(void **state)
{
    (void)state;
    open_shop(1 << 20);
    expect_person_later(get("/items/11", true));
    const char *heard = get("/items/11", false);
    expect_status(heard, 503);
    expect_text(heard, "the page is being made");
    expect_text(heard, "Retry-After: ");
    make_pages();
    expect_status(get("/items/11", true), 200);
    heard = get("/items/99", true);
    expect_status(heard, 404);
    expect_text(heard, "<title>missing</title>");
    expect_no_text(heard, "Retry-After");
    expect_text(get("/items/99", false), "\"no_such_item\"");
}

/* No page is being made, so the answer does not say to wait. */
static void a_page_that_has_no_room(void **state)
{
    (void)state;
    open_shop(1);
    make_pages();
    const char *heard = get("/items/11", true);
    expect_status(heard, 404);
    expect_no_text(heard, "Retry-After");
    heard = get("/items/11", false);
    expect_status(heard, 404);
    expect_text(heard, "this item has no page here");
}

static uint32_t ask_late(void)
{
    uint32_t connection = api_world_connect(&world);
    api_world_send(&world, connection, "GET", "/items/21", 1, NULL);
    api_world_settle(&world);
    assert_non_null(gate.waiting);
    assert_string_equal(api_world_heard(&world, connection), "");
    return connection;
}

static const char *release(uint32_t connection)
{
    gate.released = true;
    api_world_settle(&world);
    return api_world_heard(&world, connection);
}

/* It is waited for, as GET /v1/items/{item} waits; then it is being made here, too. */
static void an_item_that_another_front_has_warmed(void **state)
{
    (void)state;
    open_shop(1 << 20);
    world.worker->gate = &gate.port;
    world.headers = "Accept: text/html\r\n";
    uint32_t connection = ask_late();
    assert_int_equal(catalog_put(world.ledger_writer.catalog, shop_sale(2, SALE_WARM, "new")), 0);
    gate.refusal = REFUSAL_NONE;
    expect_person_later(release(connection));
}

static void an_item_that_nobody_can_look_for(void **state)
{
    (void)state;
    open_shop(1 << 20);
    world.worker->gate = &gate.port;
    world.headers = "Accept: text/html\r\n";
    uint32_t connection = ask_late();
    gate.refusal = REFUSAL_DEGRADED;
    expect_person_later(release(connection));
    gate.released = false;
    connection = ask_late();
    gate.refusal = REFUSAL_NO_SUCH_ITEM;
    const char *heard = release(connection);
    expect_status(heard, 404);
    expect_text(heard, "<title>missing</title>");
}

int main(void)
{
#define PAGES(name) cmocka_unit_test_setup_teardown(name, open_and_set_up, close_and_tear_down)
    const struct CMUnitTest tests[] = {
        PAGES(a_page_that_is_being_made),
        PAGES(a_page_that_has_no_room),
        PAGES(an_item_that_another_front_has_warmed),
        PAGES(an_item_that_nobody_can_look_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
