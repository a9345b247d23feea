/*
 * Reads the ledger for the audit: the items from the public API, their orders page by page from the
 * admin API. Happy path: one pass agrees with the clients' answers. While something is missing,
 * the pass is repeated, since bookings and returned units may still be in progress. The verdict
 * comes when nothing has changed for a while.
 *
 * What can go wrong: the server is down (retried for a minute: it may be restarting), refuses the
 * token, or answers something that is not in the contract (printed; the audit fails).
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/limits.h"
#include "bench/bench.h"
#include "bench/bench_audit.h"

#define PATIENCE_NS 60000000000LL
#define STILL_NS 5000000000LL
#define PAUSE_NS 200000000L

/* ERR_AGAIN: not reachable now. ERR_IO: a wrong answer, which has been printed. */
static int request(struct bench_shared *shared, const char *path, json_t **ret_json)
{
    int status = 0;
    char *body = NULL;
    size_t len = 0;
    if (bench_call(&shared->target, path, shared->keys.admin_token, &status, &body, &len) != 0) {
        return ERR_AGAIN;
    }
    json_error_t where;
    json_t *json = status == 200 ? json_loadb(body, len, 0, &where) : NULL;
    int error = 0;
    if (json != NULL) {
        *ret_json = json;
    } else if (status == 503 || status == 429) {
        error = ERR_AGAIN;
    } else {
        (void)fprintf(stderr, "sluice bench: audit: GET %s answered %d: %.200s\n", path, status,
                      body);
        error = ERR_IO;
    }
    free(body);
    return error;
}

static bool member(const json_t *object, const char *name, int64_t *ret_value)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_integer(value)) {
        return false;
    }
    *ret_value = json_integer_value(value);
    return true;
}

static bool member_id(const json_t *object, const char *name, uint64_t *ret_id)
{
    int64_t value = 0;
    if (!member(object, name, &value) || value <= 0) {
        return false;
    }
    *ret_id = (uint64_t)value;
    return true;
}

static int malformed(const char *what)
{
    (void)fprintf(stderr, "sluice bench: audit: %s does not look as the contract says\n", what);
    return ERR_IO;
}

static int item_fetch(struct bench_shared *shared, struct audit_item *item)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/items/%" PRIu64, item->id);
    json_t *json = NULL;
    int error = request(shared, path, &json);
    if (error != 0) {
        return error;
    }
    if (!member(json, "total", &item->total) || !member(json, "available", &item->available) ||
        !member(json, "locked", &item->locked) || !member(json, "sold", &item->sold) ||
        !member(json, "limit_per_user", &item->limit_per_user)) {
        error = malformed(path);
    }
    json_decref(json);
    return error;
}

static int order_add(struct audit_ledger *ledger, const json_t *json)
{
    struct ledger_order order;
    const char *id = json_string_value(json_object_get(json, "order_id"));
    const char *status = json_string_value(json_object_get(json, "status"));
    if (id == NULL || status == NULL || strlen(id) > BENCH_ORDER_ID_MAX ||
        order_state_parse(span_of(status), &order.state) != 0 ||
        !member_id(json, "user_id", &order.user) || !member_id(json, "item_id", &order.item) ||
        !member(json, "qty", &order.qty)) {
        return malformed("an order");
    }
    order.id_len = (uint8_t)strlen(id);
    memcpy(order.id, id, order.id_len);
    if (ledger->order_count == ledger->order_cap) {
        ledger->order_cap = ledger->order_cap * 2 + 1024;
        ledger->orders = bench_grow(ledger->orders, ledger->order_cap * sizeof(order));
    }
    ledger->orders[ledger->order_count++] = order;
    return 0;
}

/* The cursor of the next page, escaped for a query; false: none. */
static bool page_next(const json_t *page, char *ret_after, size_t cap)
{
    const json_t *next = json_object_get(page, "next");
    if (json_is_integer(next)) {
        (void)snprintf(ret_after, cap, "&after=%" JSON_INTEGER_FORMAT, json_integer_value(next));
        return true;
    }
    if (json_is_string(next)) {
        (void)snprintf(ret_after, cap, "&after=%s", json_string_value(next));
        return true;
    }
    return false;
}

static int orders_fetch(struct bench_shared *shared, uint64_t item, struct audit_ledger *ledger)
{
    char after[256] = "";
    bool more = true;
    while (more) {
        char path[512];
        (void)snprintf(path, sizeof(path), "/v1/admin/orders?item=%" PRIu64 "&limit=%u%s", item,
                       PAGE_LIMIT_MAX, after);
        json_t *page = NULL;
        int error = request(shared, path, &page);
        if (error != 0) {
            return error;
        }
        const json_t *orders = json_object_get(page, "orders");
        if (!json_is_array(orders)) {
            error = malformed(path);
        }
        for (size_t i = 0; error == 0 && i < json_array_size(orders); i++) {
            error = order_add(ledger, json_array_get(orders, i));
        }
        more = error == 0 && page_next(page, after, sizeof(after));
        json_decref(page);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

static int ledger_fetch(struct bench_shared *shared, struct audit_ledger *ledger)
{
    const struct bench_options *options = &shared->options;
    ledger->order_count = 0;
    ledger->item_count = 0;
    for (size_t i = 0; i < options->item_count; i++) {
        bool repeated = false;
        for (size_t j = 0; j < i; j++) {
            repeated = repeated || options->items[j] == options->items[i];
        }
        if (repeated) {
            continue;
        }
        struct audit_item *item = &ledger->items[ledger->item_count++];
        *item = (struct audit_item){.id = options->items[i]};
        int error = orders_fetch(shared, item->id, ledger);
        if (error == 0) {
            error = item_fetch(shared, item);
        }
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

/* A number that changes when the ledger or the counters do. */
static uint64_t ledger_digest(const struct audit_ledger *ledger)
{
    uint64_t digest = ledger->order_count;
    for (size_t i = 0; i < ledger->order_count; i++) {
        digest = digest * 31 + (uint64_t)ledger->orders[i].state;
    }
    for (size_t i = 0; i < ledger->item_count; i++) {
        const struct audit_item *item = &ledger->items[i];
        digest = digest * 31 + (uint64_t)item->available;
        digest = digest * 31 + (uint64_t)item->locked;
        digest = digest * 31 + (uint64_t)item->sold;
    }
    return digest;
}

int audit_run(struct bench_shared *shared, struct audit_result *ret_result)
{
    struct audit_ledger ledger = {0};
    ledger.items = bench_grow(NULL, shared->options.item_count * sizeof(*ledger.items));
    const struct answer_table *tables[BENCH_THREADS_MAX];
    for (uint32_t i = 0; i < shared->options.threads; i++) {
        tables[i] = &shared->workers[i].answer;
    }
    int64_t begin_ns = bench_now_ns();
    int64_t moved_ns = begin_ns;
    uint64_t digest = 0;
    bool settled = false;
    int error = 0;
    while (!settled) {
        struct audit_result result;
        error = ledger_fetch(shared, &ledger);
        int64_t now_ns = bench_now_ns();
        if (error == 0) {
            audit_compare(&ledger, tables, shared->options.threads, NULL, &result);
            moved_ns = ledger_digest(&ledger) != digest ? now_ns : moved_ns;
            digest = ledger_digest(&ledger);
        }
        settled = (error == 0 && (audit_ok(&result) || now_ns - moved_ns > STILL_NS)) ||
                  error == ERR_IO || now_ns - begin_ns > PATIENCE_NS;
        if (!settled) {
            struct timespec pause = {.tv_nsec = PAUSE_NS};
            (void)nanosleep(&pause, NULL);
        }
    }
    if (error == ERR_AGAIN) {
        (void)fprintf(stderr, "sluice bench: audit: %s does not answer\n", shared->options.url);
        error = ERR_IO;
    }
    if (error == 0) {
        audit_compare(&ledger, tables, shared->options.threads, stderr, ret_result);
    }
    free(ledger.orders);
    free(ledger.items);
    return error;
}
