/*
 * Cheaters: forged tokens and tickets, other people's tickets and orders, impossible quantities,
 * unsigned payments. All of them must be refused and change nothing.
 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "crowd.h"

static const struct span nothing = {"", 0};

static void buy(struct sim *sim, struct client *client, const char *ticket, uint64_t user,
                const char *body)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "/v1/buy/%s", ticket);
    client_send(sim, client, (struct sim_request){.call = CALL_CHEAT, .user = user}, "POST",
                span_of(path), user, nothing, span_of(body));
}

static void forge_ticket(struct sim *sim, struct client *client)
{
    char ticket[TICKET_TEXT + 1] = {0};
    struct ticket_keys keys = sim->settings.ticket_keys;
    const struct plan_item *item = &sim->plan.sales[0].items[0];
    struct ticket made = {.user = 1,
                          .item = item->id,
                          .id = order_id_once(item->id, 1, 0),
                          .expires_at_ms = SIM_EPOCH_MS * 2};
    keys.keys[0].key[sim_below(sim, CRYPT_SIP_KEY_BYTES)] ^= (uint8_t)(1 << sim_below(sim, 8));
    ticket_sign(&keys, &made, ticket);
    buy(sim, client, ticket, 1, "{\"qty\":1}");
}

static void forge_token(struct sim *sim, struct client *client)
{
    char token[TOKEN_MAX_BYTES];
    char header[TOKEN_MAX_BYTES + 64];
    struct token_key key = sim->settings.token_keys.keys[0];
    key.key[sim_below(sim, CRYPT_KEY_BYTES)] ^= (uint8_t)(1 << sim_below(sim, 8));
    size_t n = token_sign(&key, 1, SIM_EPOCH_MS / 1000 * 2, token);
    (void)snprintf(header, sizeof(header), "authorization: Bearer %.*s\r\n", (int)n, token);
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/items/%llu/ticket",
                   (unsigned long long)sim->plan.sales[0].items[0].id);
    client_send(sim, client, (struct sim_request){.call = CALL_CHEAT}, "POST", span_of(path),
                UINT64_MAX, sim_chance(sim, 500) ? nothing : span_of(header), nothing);
}

static void pay_unsigned(struct sim *sim, struct client *client, const struct purchase *purchase)
{
    char id[ORDER_ID_TEXT + 1] = {0};
    char body[200];
    order_id_text(purchase->order, id);
    (void)snprintf(body, sizeof(body),
                   "{\"payment_id\":\"free\",\"order_id\":\"%s\",\"amount_cents\":%llu}", id,
                   (unsigned long long)purchase->item->price_cents * purchase->qty);
    client_send(
        sim, client, (struct sim_request){.call = CALL_CHEAT}, "POST", span_of("/v1/payments"),
        UINT64_MAX,
        sim_chance(sim, 300)
            ? nothing
            : span_of("webhook-id: x\r\nwebhook-timestamp: 1800000000\r\n"
                      "webhook-signature: v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n"),
        span_of(body));
}

static void peep(struct sim *sim, struct client *client, const struct purchase *purchase)
{
    char id[ORDER_ID_TEXT + 1] = {0};
    char path[96];
    bool cancel = sim_chance(sim, 500);
    order_id_text(purchase->order, id);
    (void)snprintf(path, sizeof(path), "/v1/orders/%s%s", id, cancel ? "/cancel" : "");
    client_send(sim, client, (struct sim_request){.call = CALL_CHEAT}, cancel ? "POST" : "GET",
                span_of(path), purchase->user + 1, nothing, nothing);
}

void cheat_act(struct sim *sim, struct client *client)
{
    static const char *const bodies[] = {
        "{\"qty\":0}",          "{\"qty\":-1}", "{\"qty\":1.5}",        "{\"qty\":\"1\"}",
        "{\"qty\":2147483648}", "[1]",          "{\"qty\":1,\"qty\":1}"};
    const struct purchase *old = client->remembered_count > 0
                                     ? &client->remembered[sim_below(sim, client->remembered_count)]
                                     : NULL;
    switch (old == NULL ? sim_below(sim, 2) : sim_below(sim, 6)) {
    case 0:
        forge_ticket(sim, client);
        return;
    case 1:
        forge_token(sim, client);
        return;
    case 2:
        buy(sim, client, old->ticket, old->user + 1, "{\"qty\":1}");
        return;
    case 3:
        buy(sim, client, old->ticket, old->user, bodies[sim_below(sim, 7)]);
        return;
    case 4:
        pay_unsigned(sim, client, old);
        return;
    default:
        peep(sim, client, old);
    }
}
