/*
 * The crowd: clients with one connection each, which send requests, wait, give up and retry. The
 * referee sees all requests and answers. crowd_buyer.c, crowd_cheat.c and crowd_operator.c choose
 * the next request.
 */
#define _GNU_SOURCE
#include "crowd.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"

#define TEXT_MAX 16384

static char text_bytes[TEXT_MAX];
static struct out text;

struct out *crowd_text(void)
{
    text = out_over(text_bytes, sizeof(text_bytes));
    return &text;
}

void crowd_bearer(struct sim *sim, struct out *out, uint64_t user)
{
    char token[TOKEN_MAX_BYTES];
    out_lit(out, "authorization: Bearer ");
    if (user == 0) {
        out_text(out, sim->settings.admin_token);
    } else {
        size_t n =
            token_sign(&sim->settings.token_keys.keys[0], user, SIM_EPOCH_MS / 1000 * 2, token);
        out_put(out, (struct span){token, n});
    }
    out_lit(out, "\r\n");
}

/* ---- sending ---- */

static void act(struct sim *sim, uint32_t number, uint64_t serial);

void client_later(struct sim *sim, struct client *client, int64_t delay_us)
{
    (void)sim_after(sim, delay_us, "a client acts", act, client->number, client->serial);
}

static void act(struct sim *sim, uint32_t number, uint64_t serial)
{
    struct client *client = &sim->clients[number];
    if (client->waiting || client->serial != serial || sim->closing) {
        return;
    }
    if (client->wire < 0) {
        client->wire = wire_connect(sim, number);
        pile_clear(&client->in);
        if (client->wire < 0) {
            client_later(sim, client, sim_about(sim, 50000));
            return;
        }
    }
    if (number == 0) {
        operator_act(sim, client);
    } else {
        buyer_act(sim, client);
    }
}

static void unheard(struct sim *sim, struct client *client)
{
    client->in_stream = client->streaming = false;
    pile_clear(&client->in);
    if (!client->waiting) {
        return;
    }
    client->waiting = false;
    client->serial++;
    sim_note(sim, "a request stays unanswered", client->request.number, client->request.call, 0);
    referee_unheard(sim->referee, &client->request);
    if (client->number != 0) {
        buyer_unheard(sim, client);
    }
    client_later(sim, client, sim_about(sim, sim->plan.think_us));
}

static void give_up(struct sim *sim, uint32_t number, uint64_t serial)
{
    struct client *client = &sim->clients[number];
    if (!client->waiting || client->serial != serial) {
        return;
    }
    if (client->wire >= 0) {
        wire_drop(sim, (uint32_t)client->wire, sim_chance(sim, 500));
        client->wire = -1;
    }
    unheard(sim, client);
}

void client_cut(struct sim *sim, uint32_t number)
{
    struct client *client = &sim->clients[number];
    client->wire = -1;
    unheard(sim, client);
}

static void cut_now(struct sim *sim, uint32_t number, uint64_t serial)
{
    struct client *client = &sim->clients[number];
    if (client->waiting && client->serial == serial && client->wire >= 0 && !sim->healed) {
        sim_fault_happened(sim, FAULT_NET_CUT);
        wire_cut(sim, (uint32_t)client->wire);
    }
}

void client_send(struct sim *sim, struct client *client, struct sim_request request,
                 const char *method, struct span path, uint64_t user, struct span more_headers,
                 struct span body)
{
    struct out *out = crowd_text();
    out_text(out, method);
    out_lit(out, " ");
    out_put(out, path);
    out_lit(out, " HTTP/1.1\r\nhost: shop\r\n");
    if (user != UINT64_MAX) {
        crowd_bearer(sim, out, user);
    }
    out_put(out, more_headers);
    if (body.len > 0) {
        out_lit(out, "content-type: application/json\r\ncontent-length: ");
        out_u64(out, body.len);
        out_lit(out, "\r\n");
    } else if (strcmp(method, "GET") != 0) {
        out_lit(out, "content-length: 0\r\n");
    }
    out_lit(out, "\r\n");
    out_put(out, body);
    CHECK(!out->overflow);
    request.number = ++sim->result.requests;
    request.sent_us = sim->now_us;
    client->request = request;
    client->waiting = true;
    client->serial++;
    client->streaming = request.call == CALL_ORDER_EVENTS || request.call == CALL_ITEM_EVENTS;
    sim_note(sim, sim_call_text(request.call), request.number, client->number, request.user);
    referee_sent(sim->referee, &client->request);
    wire_send(sim, (uint32_t)client->wire, out->at, out->len,
              sim_chance(sim, sim->plan.split) && !sim->healed);
    if (sim_chance(sim, sim->plan.stall) && !sim->healed) {
        wire_stall(sim, (uint32_t)client->wire, (size_t)sim_below(sim, 300),
                   sim_about(sim, 200000));
    }
    if (sim_chance(sim, sim->plan.cut)) {
        (void)sim_after(sim, sim_about(sim, sim->plan.net_us * 2), "a cut", cut_now, client->number,
                        client->serial);
    }
    int64_t patience = request.wait_ms * 1000 + sim_between(sim, 2000000, 8000000);
    (void)sim_after(sim, patience, "a client loses patience", give_up, client->number,
                    client->serial);
}

/* ---- hearing ---- */

static void heard(struct sim *sim, struct client *client, const struct head *head, struct span body)
{
    struct sim_answer answer;
    const char *why = "";
    client->waiting = false;
    client->serial++;
    if (answer_read(&client->request, head, body, &answer, &why) != 0) {
        sim_broken(sim, 0, "request %llu (%s): answer %d is not well-formed: %s: %.*s",
                   (unsigned long long)client->request.number, sim_call_text(client->request.call),
                   head->status, why, body.len < 200 ? (int)body.len : 200, body.at);
        return;
    }
    sim->result.answers++;
    sim->result.decisions += client->request.call == CALL_BUY;
    sim_note(sim, "is answered", client->request.number, (uint64_t)answer.status,
             answer.has_order ? (uint64_t)answer.order.state : (uint8_t)answer.code[0]);
    referee_heard(sim->referee, &client->request, &answer);
    if (client->request.call == CALL_CHEAT && answer.status / 100 != 4 && answer.status != 503) {
        sim_broken(sim, 0, "a cheater's request %llu is answered with %d",
                   (unsigned long long)client->request.number, answer.status);
    }
    if (client->number == 0) {
        operator_heard(sim, client, &answer);
    } else {
        buyer_heard(sim, client, &answer, body);
    }
    answer_done(&answer);
    int64_t think_us = sim->plan.think_us;
    if (client->number == 0) { /* sets up in haste, then operates at leisure */
        think_us = client->next_sale < sim->plan.sales_count ? 1 + think_us / 8 : think_us * 8;
    }
    client_later(sim, client, sim_about(sim, think_us));
}

static void stream_event(struct sim *sim, struct client *client, struct span event)
{
    char *at = (char *)event.at;
    char *end = at + event.len;
    struct span data = {NULL, 0};
    bool item = client->request.call == CALL_ITEM_EVENTS;
    bool numbers = false;
    while (at < end) {
        char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end == NULL ? end : line_end;
        if (strncmp(at, "data: ", 6) == 0) {
            data = (struct span){at + 6, (size_t)(line_end - at - 6)};
        } else if (strncmp(at, "id: ", 4) == 0) {
            client->stream_id = strtoull(at + 4, NULL, 10);
        } else if (strncmp(at, "event: item\n", 12) == 0) {
            numbers = true;
        }
        at = line_end + 1;
    }
    if (data.at == NULL) {
        return; /* a heartbeat */
    }
    struct sim_told told;
    struct sim_answer answer = {.status = 200};
    if (!item && told_read(data, &told) == 0) {
        sim_note(sim, "is streamed", client->request.number, client->stream_id, told.state);
        referee_streamed(sim->referee, &client->request, client->stream_id, &told);
        buyer_streamed(client, &told);
    } else if (item && numbers && numbers_read(data, &answer) == 0) {
        referee_item_streamed(sim->referee, &client->request, &answer);
    } else if (!item || numbers) {
        sim_broken(sim, 0, "request %llu: a stream's event is not well-formed: %.*s",
                   (unsigned long long)client->request.number, (int)data.len, data.at);
    }
}

/* Whole events of a stream; what is left stays in the pile. */
static void read_stream(struct sim *sim, struct client *client)
{
    struct pile *in = &client->in;
    for (;;) {
        char *from = in->at + in->from;
        size_t n = in->len - in->from;
        char *end = n >= 2 ? memmem(from, n, "\n\n", 2) : NULL;
        if (end == NULL || sim_is_broken(sim)) {
            return;
        }
        stream_event(sim, client, (struct span){from, (size_t)(end - from + 1)});
        in->from += (size_t)(end - from) + 2;
    }
}

void client_receive(struct sim *sim, uint32_t number, const char *bytes, size_t n)
{
    struct client *client = &sim->clients[number];
    struct head head;
    const char *why = "";
    pile_add(&client->in, bytes, n);
    if (client->in_stream) {
        read_stream(sim, client);
        return;
    }
    const char *from = client->in.at + client->in.from;
    size_t have = client->in.len - client->in.from;
    int got = head_read(from, have, &head, &why);
    if (got < 0 || (got > 0 && !client->waiting && head.status != 408)) {
        sim_broken(sim, 0, "client %u: %s: %.*s", number, got < 0 ? why : "an answer to nothing",
                   have < 200 ? (int)have : 200, from);
        return;
    }
    if (got == 0) {
        return;
    }
    if (head.stream) {
        client->in.from += head.bytes;
        client->in_stream = true;
        client->stream_id = 0;
        read_stream(sim, client);
        return;
    }
    if (have < head.bytes + head.length) {
        return;
    }
    if (client->waiting) {
        heard(sim, client, &head, (struct span){from + head.bytes, head.length});
    }
    client->in.from += head.bytes + head.length;
    if (client->in.from == client->in.len) {
        pile_clear(&client->in);
    } else if (!sim_is_broken(sim)) {
        sim_broken(sim, 0, "client %u: bytes behind an answer", number);
    }
    if (head.close && client->wire >= 0) {
        wire_drop(sim, (uint32_t)client->wire, false);
        client->wire = -1;
    }
}

/* ---- life ---- */

bool crowd_idle(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        if (sim->clients[i].waiting) {
            return false;
        }
    }
    return true;
}

static void make_settings(struct sim *sim)
{
    struct api_settings *settings = &sim->settings;
    *settings = (struct api_settings){
        .number = 1,
        .admin_token = "operators-only",
        .webhook_key_len = 32,
        .token_leeway_ms = 0,
        .ticket_ttl_ms = sim_between(sim, 500, 60000),
        .ticket_window_ms = sim_between(sim, 0, 60000),
        .late_cancel_ms = sim->plan.late_cancel_ms,
        .cooling_ms = sim->plan.cooling_ms,
        .webhook_window_s = 1000000000, /* the payment system's clock is not what is tested here */
        .http = {.connections_max = SIM_WIRES_MAX,
                 .small_buffers = (uint32_t)sim_between(sim, 4, 32),
                 .large_buffers = 2,
                 .header_timeout_ms = 10000,
                 .idle_timeout_ms = sim_between(sim, 1000, 60000),
                 .write_timeout_ms = sim_between(sim, 1000, 10000)},
    };
    settings->token_keys.count = 1;
    settings->token_keys.keys[0].algorithm = TOKEN_HS256;
    settings->ticket_keys.count = 1;
    settings->ticket_keys.keys[0].number = 1;
    for (size_t i = 0; i < CRYPT_KEY_BYTES; i++) {
        settings->token_keys.keys[0].key[i] = (uint8_t)prng_next(&sim->prng);
        settings->webhook_key[i] = (uint8_t)prng_next(&sim->prng);
    }
    for (size_t i = 0; i < CRYPT_SIP_KEY_BYTES; i++) {
        settings->ticket_keys.keys[0].key[i] = (uint8_t)prng_next(&sim->prng);
    }
}

void crowd_init(struct sim *sim)
{
    make_settings(sim);
    sim->clients = calloc(SIM_CLIENTS_MAX, sizeof(*sim->clients));
    CHECK(sim->clients != NULL);
    for (uint32_t i = 0; i < SIM_CLIENTS_MAX; i++) {
        sim->clients[i].number = i;
        sim->clients[i].wire = -1;
    }
}

void crowd_start(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan.clients; i++) {
        client_later(sim, &sim->clients[i], i == 0 ? 0 : sim_about(sim, 500000));
    }
}

void crowd_done(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_CLIENTS_MAX; i++) {
        free(sim->clients[i].in.at);
    }
    free(sim->clients);
}
