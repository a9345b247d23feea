/* See api_world.h. */
#include "api_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"

#define KEY_BYTE 7

/* ---- the reader ---- */

static void reader_read(struct ledger *ledger, struct ledger_query *query)
{
    struct memory_ledger *inner = ((struct api_reader *)ledger)->inner;
    if (query->kind != QUERY_ORDERS) {
        (void)ledger_read(&inner->ledger, query);
        return;
    }
    query->error = 0;
    query->count = 0;
    for (size_t i = inner->orders_count; i > 0 && query->count < query->limit; i--) {
        if (query->user == 0 || inner->orders[i - 1].user == query->user) {
            query->orders[query->count++] = inner->orders[i - 1];
        }
    }
}

static void reader_write(struct ledger *ledger, struct ledger_batch *batch)
{
    (void)ledger;
    (void)batch;
    CHECK(!"the ledger reader only reads");
}

/* ---- life ---- */

static void make_settings(struct api_settings *settings)
{
    *settings = (struct api_settings){.webhook_key_len = 32,
                                      .ticket_ttl_ms = 60000,
                                      .ticket_window_ms = 60000,
                                      .webhook_window_s = 300,
                                      .http = {.connections_max = API_CONNECTIONS,
                                               .small_buffers = 8,
                                               .large_buffers = 2,
                                               .header_timeout_ms = 10000,
                                               .idle_timeout_ms = 600000,
                                               .write_timeout_ms = 10000}};
    settings->token_keys.count = 1;
    settings->token_keys.keys[0].algorithm = TOKEN_HS256;
    memset(settings->token_keys.keys[0].key, KEY_BYTE, CRYPT_KEY_BYTES);
    settings->ticket_keys.count = 1;
    settings->ticket_keys.keys[0].number = 1;
    memset(settings->ticket_keys.keys[0].key, KEY_BYTE, CRYPT_SIP_KEY_BYTES);
    memset(settings->webhook_key, KEY_BYTE, 32);
    memcpy(settings->admin_token, API_ADMIN, sizeof(API_ADMIN));
}

void api_world_up(struct api_world *ret_world, uint64_t seed)
{
    static const struct ledger_ops reader_ops = {.write = reader_write, .read = reader_read};
    struct api_world *world = ret_world;
    memset(world, 0, sizeof(*world));
    CHECK(crypt_start() == 0);
    ledger_writer_world_init(&world->ledger_writer);
    world->ledger_writer.sizes.orders = world->ledger_writer.sizes.buyers = 5000;
    CHECK(ledger_writer_world_up(&world->ledger_writer) == 0);
    ledger_writer_world_open_sale(&world->ledger_writer);
    world->reader = (struct api_reader){{.ops = &reader_ops}, &world->ledger_writer.ledger};
    CHECK(ledger_reader_new(world->ledger_writer.wakers, &world->reader.ledger, 1,
                            &world->ledger_reader) == 0);
    CHECK(ledger_reader_new(world->ledger_writer.wakers, &world->reader.ledger, 1,
                            &world->operator_reader) == 0);
    CHECK(metrics_init(&world->metrics, 1) == 0);
    make_settings(&world->settings);
    fake_clock_init(&world->gate_clock, LEDGER_WRITER_NOW);
    late_gate_init(&world->gate, embedded_gate_port(world->ledger_writer.engine),
                   &world->gate_clock.port, seed);
    world->shared.embedded_gate = world->ledger_writer.engine;
    world->shared.notices = embedded_gate_notices(world->ledger_writer.engine);
    world->shared.journal = world->ledger_writer.journal;
    world->shared.wakers = world->ledger_writer.wakers;
    world->shared.gate = &world->gate.port;
    world->shared.ledger_writer = world->ledger_writer.ledger_writer;
    world->shared.ledger_reader = world->ledger_reader;
    world->shared.operator_reader = world->operator_reader;
    world->shared.catalog = world->ledger_writer.catalog;
    world->shared.time = &world->ledger_writer.time;
    world->shared.metrics = &world->metrics;
    world->shared.answer_cache = answer_cache_new();
    CHECK(world->shared.answer_cache != NULL);
    world->shared.demo = true;
    world->shared.loops = 1;
    world->shared.tokens_remembered = 32;
    atomic_store(&world->shared.settings, &world->settings);
    atomic_store(&world->shared.ready, true);
    world->net = memory_net_new(API_CONNECTIONS);
    CHECK(api_worker_new(&world->shared, 0, world->net, &world->worker) == 0);
}

void api_world_down(struct api_world *world)
{
    api_worker_free(world->worker);
    memory_net_free(world->net);
    late_gate_done(&world->gate);
    answer_cache_free(world->shared.answer_cache);
    metrics_done(&world->metrics);
    ledger_reader_free(world->operator_reader);
    ledger_reader_free(world->ledger_reader);
    ledger_writer_world_done(&world->ledger_writer);
}

/* ---- iterating ---- */

bool api_world_iterate(struct api_world *world)
{
    return api_worker_iterate(world->worker, 1000000);
}

void api_world_flush(struct api_world *world)
{
    for (int i = 0; i < 4; i++) {
        (void)api_world_iterate(world);
        ledger_writer_world_flush(&world->ledger_writer);
    }
}

void api_world_pass(struct api_world *world)
{
    fake_clock_pass_us(&world->gate_clock, world->gate.delay_us * 10);
    api_world_flush(world);
}

void api_world_settle(struct api_world *world)
{
    for (int i = 0; i < 12; i++) { /* as many steps as any call has, and some */
        (void)api_world_iterate(world);
        (void)ledger_writer_world_settle(&world->ledger_writer);
        ledger_reader_iterate(world->ledger_reader);
        ledger_reader_iterate(world->operator_reader);
    }
}

void api_world_answer(struct api_world *world)
{
    for (int i = 0; i < 100; i++) {
        api_world_settle(world);
        if (world->gate.under_way == 0) {
            return;
        }
        fake_clock_pass_us(&world->gate_clock, world->gate.delay_us * 10);
    }
    CHECK(!"requests to the gate never end");
}

/* ---- the clients' side ---- */

uint32_t api_world_connect(struct api_world *world)
{
    return memory_net_connect(world->net);
}

static void send_request(struct api_world *world, uint32_t connection, const char *method,
                         const char *path, const char *headers, const char *body)
{
    char text[4096];
    size_t length = body != NULL ? strlen(body) : 0;
    int n = snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: a\r\n%s", method, path, headers);
    if (body != NULL) {
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      "Content-Type: application/json\r\nContent-Length: %zu\r\n", length);
    }
    n += snprintf(text + n, sizeof(text) - (size_t)n, "\r\n%s", body != NULL ? body : "");
    CHECK(n > 0 && (size_t)n < sizeof(text));
    memory_net_send(world->net, connection, (struct span){text, (size_t)n});
}

void api_world_send(struct api_world *world, uint32_t connection, const char *method,
                    const char *path, uint64_t user, const char *body)
{
    char headers[TOKEN_MAX_BYTES + 128];
    char token[TOKEN_MAX_BYTES + 1] = API_ADMIN;
    if (user != 0) {
        int64_t expires_s = inside_time_ms(&world->ledger_writer.time) / 1000 + 1000;
        size_t len = token_sign(&world->settings.token_keys.keys[0], user, expires_s, token);
        token[len] = '\0';
    }
    (void)snprintf(headers, sizeof(headers), "Authorization: Bearer %s\r\n%s", token,
                   world->headers != NULL ? world->headers : "");
    send_request(world, connection, method, path, headers, body);
}

void api_world_send_payment(struct api_world *world, uint32_t connection, struct order_id id,
                            const char *payment_id, int64_t amount_cents)
{
    char order[ORDER_ID_TEXT + 1] = "";
    char body[256];
    char stamp[32];
    char headers[512];
    uint8_t tag[CRYPT_HMAC_BYTES];
    char signature[64] = "";
    order_id_text(id, order);
    (void)snprintf(body, sizeof(body),
                   "{\"payment_id\":\"%s\",\"order_id\":\"%s\",\"amount_cents\":%lld}", payment_id,
                   order, (long long)amount_cents);
    (void)snprintf(stamp, sizeof(stamp), "%lld",
                   (long long)(inside_time_ms(&world->ledger_writer.time) / 1000));
    struct span parts[] = {span_of(payment_id), span_of("."), span_of(stamp), span_of("."),
                           span_of(body)};
    crypt_hmac_sha256((struct span){(const char *)world->settings.webhook_key, 32}, parts, 5, tag);
    base64_encode(tag, sizeof(tag), signature);
    (void)snprintf(headers, sizeof(headers),
                   "webhook-id: %s\r\nwebhook-timestamp: %s\r\nwebhook-signature: v1,%s\r\n",
                   payment_id, stamp, signature);
    send_request(world, connection, "POST", "/v1/payments", headers, body);
}

const char *api_world_heard(struct api_world *world, uint32_t connection)
{
    static char text[65536];
    struct span heard = memory_net_take(world->net, connection);
    CHECK(heard.len < sizeof(text));
    memcpy(text, heard.at, heard.len);
    text[heard.len] = '\0';
    return text;
}

int api_world_status(const char *heard)
{
    int status = 0;
    return sscanf(heard, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

const char *api_world_call(struct api_world *world, const char *method, const char *path,
                           uint64_t user, const char *body)
{
    uint32_t connection = api_world_connect(world);
    api_world_send(world, connection, method, path, user, body);
    api_world_answer(world);
    const char *heard = api_world_heard(world, connection);
    memory_net_reset(world->net, connection);
    api_world_settle(world);
    return heard;
}

bool api_world_member(const char *heard, const char *name, char *ret_value, size_t size)
{
    char mark[64];
    (void)snprintf(mark, sizeof(mark), "\"%s\":\"", name);
    const char *at = strstr(heard, mark);
    if (at == NULL) {
        return false;
    }
    at += strlen(mark);
    size_t len = strcspn(at, "\"");
    CHECK(len < size);
    memcpy(ret_value, at, len);
    ret_value[len] = '\0';
    return true;
}

const char *api_world_path(struct order_id id, const char *rest)
{
    static char path[128];
    char order[ORDER_ID_TEXT + 1] = "";
    order_id_text(id, order);
    (void)snprintf(path, sizeof(path), "/v1/orders/%s%s", order, rest);
    return path;
}

struct order_id api_world_buy(struct api_world *world, uint64_t user, uint64_t item)
{
    char path[160];
    char ticket[128];
    char order[64];
    struct order_id id;
    (void)snprintf(path, sizeof(path), "/v1/items/%llu/ticket", (unsigned long long)item);
    const char *heard = api_world_call(world, "POST", path, user, NULL);
    CHECK(api_world_status(heard) == 201);
    CHECK(api_world_member(heard, "ticket", ticket, sizeof(ticket)));
    (void)snprintf(path, sizeof(path), "/v1/buy/%s", ticket);
    heard = api_world_call(world, "POST", path, user, "{\"qty\":1}");
    CHECK(api_world_status(heard) == 202);
    CHECK(api_world_member(heard, "order_id", order, sizeof(order)));
    CHECK(order_id_parse(span_of(order), &id) == 0);
    return id;
}
