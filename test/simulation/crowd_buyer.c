/*
 * Buyers: take a ticket, buy, follow the order, pay or cancel or leave it, look again. Any client
 * plays any user, so one user may act on several connections at once. A request without an answer is
 * repeated unchanged.
 */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "crowd.h"

static const struct span nothing = {"", 0};

static struct span format(char *text, size_t cap, const char *form, const char *a)
{
    int n = snprintf(text, cap, form, a);
    CHECK(n > 0 && (size_t)n < cap);
    return (struct span){text, (size_t)n};
}

/* ---- asking ---- */

static struct sim_request request_of(const struct purchase *purchase, enum sim_call call)
{
    return (struct sim_request){.call = call,
                                .user = purchase->user,
                                .sale = purchase->sale->id,
                                .item = purchase->item->id,
                                .order = purchase->order,
                                .qty = purchase->qty,
                                .ticket_expires_ms = purchase->expires_at_ms};
}

static void ask_item(struct sim *sim, struct client *client, const struct purchase *purchase)
{
    char id[24];
    char path[64];
    struct sim_request request = request_of(purchase, CALL_ITEM);
    request.user = 0;
    (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)purchase->item->id);
    switch (sim_below(sim, 6)) {
    case 0:
        request.call = CALL_TIME;
        client_send(sim, client, request, "GET", span_of("/v1/time"), UINT64_MAX, nothing, nothing);
        return;
    case 1:
        request.call = CALL_ITEM_EVENTS;
        client_send(sim, client, request, "GET",
                    format(path, sizeof(path), "/v1/items/%s/events", id), UINT64_MAX, nothing,
                    nothing);
        return;
    default:
        client_send(sim, client, request, "GET", format(path, sizeof(path), "/v1/items/%s", id),
                    UINT64_MAX, nothing, nothing);
    }
}

static void ask_ticket(struct sim *sim, struct client *client)
{
    char id[24];
    char path[64];
    (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)client->now.item->id);
    struct sim_request request = request_of(&client->now, CALL_TICKET);
    request.order = (struct order_id){0, 0};
    client_send(sim, client, request, "POST", format(path, sizeof(path), "/v1/items/%s/ticket", id),
                client->now.user, nothing, nothing);
}

static void ask_buy(struct sim *sim, struct client *client, const struct purchase *purchase,
                    uint32_t qty)
{
    char path[128];
    char body[32];
    struct sim_request request = request_of(purchase, CALL_BUY);
    request.qty = qty;
    int n = snprintf(body, sizeof(body), "{\"qty\":%u}", qty);
    struct span json = {body, (size_t)n};
    client_send(sim, client, request, "POST",
                format(path, sizeof(path), "/v1/buy/%s", purchase->ticket), purchase->user, nothing,
                qty == 1 && sim_chance(sim, 300) ? nothing : json);
}

static void ask_order(struct sim *sim, struct client *client, const struct purchase *purchase)
{
    char id[ORDER_ID_TEXT + 1] = {0};
    char path[128];
    struct sim_request request = request_of(purchase, CALL_ORDER);
    order_id_text(purchase->order, id);
    if (sim_chance(sim, sim->plan.watch)) {
        request.call = CALL_ORDER_EVENTS;
        client_send(sim, client, request, "GET",
                    format(path, sizeof(path), "/v1/orders/%s/events", id), purchase->user, nothing,
                    nothing);
        return;
    }
    (void)format(path, sizeof(path), "/v1/orders/%s", id);
    if (sim_chance(sim, sim->plan.poll)) {
        size_t n = strlen(path);
        request.wait_ms = sim_between(sim, 1, 3000);
        (void)snprintf(path + n, sizeof(path) - n, "?wait_ms=%lld%s", (long long)request.wait_ms,
                       sim_chance(sim, 300) ? "&status=LOCKED" : "");
    }
    client_send(sim, client, request, "GET", span_of(path), purchase->user, nothing, nothing);
}

static void ask_cancel(struct sim *sim, struct client *client, const struct purchase *purchase)
{
    char id[ORDER_ID_TEXT + 1] = {0};
    char path[128];
    order_id_text(purchase->order, id);
    client_send(sim, client, request_of(purchase, CALL_CANCEL), "POST",
                format(path, sizeof(path), "/v1/orders/%s/cancel", id), purchase->user, nothing,
                nothing);
}

/* The payment system: as Standard Webhooks describes. With another amount than the order's it is a
 * cheat, under a new payment_id as under one that was used before. */
static void ask_pay(struct sim *sim, struct client *client, struct purchase *purchase,
                    int64_t more_cents)
{
    char id[ORDER_ID_TEXT + 1] = {0};
    char body[200];
    char headers[300];
    char stamp[24];
    uint8_t tag[CRYPT_HMAC_BYTES];
    char base64[64];
    order_id_text(purchase->order, id);
    if (purchase->payment[0] == '\0') {
        (void)snprintf(purchase->payment, sizeof(purchase->payment), "the-payment-%llu",
                       (unsigned long long)sim->result.requests);
    }
    struct sim_request request = request_of(purchase, more_cents == 0 ? CALL_PAY : CALL_CHEAT);
    request.amount_cents = (int64_t)purchase->item->price_cents * purchase->qty + more_cents;
    (void)snprintf(request.key, sizeof(request.key), "%s", purchase->payment);
    int n = snprintf(body, sizeof(body),
                     "{\"payment_id\":\"%s\",\"order_id\":\"%s\",\"amount_cents\":%lld}",
                     request.key, id, (long long)request.amount_cents);
    (void)snprintf(stamp, sizeof(stamp), "%lld", (long long)(SIM_EPOCH_MS / 1000));
    const struct span parts[] = {
        span_of(request.key), span_of("."), span_of(stamp), span_of("."), {body, (size_t)n}};
    crypt_hmac_sha256((struct span){(const char *)sim->settings.webhook_key, 32}, parts, 5, tag);
    CHECK(sodium_bin2base64(base64, sizeof(base64), tag, sizeof(tag),
                            sodium_base64_VARIANT_ORIGINAL) != NULL);
    (void)snprintf(headers, sizeof(headers),
                   "webhook-id: %s\r\nwebhook-timestamp: %s\r\nwebhook-signature: v1,%s\r\n",
                   request.key, stamp, base64);
    request.user = 0;
    client_send(sim, client, request, "POST", span_of("/v1/payments"), UINT64_MAX, span_of(headers),
                (struct span){body, (size_t)n});
}

/* ---- what next ---- */

static void choose_purchase(struct sim *sim, struct purchase *ret_purchase)
{
    const struct plan *plan = &sim->plan;
    const struct plan_sale *sale = &plan->sales[sim_below(sim, plan->sales_count)];
    *ret_purchase = (struct purchase){.user = 1 + sim_below(sim, plan->users),
                                      .sale = sale,
                                      .item = &sale->items[sim_below(sim, sale->items_count)]};
    ret_purchase->qty = (uint32_t)sim_between(sim, 1, plan->qty_max);
    if (ret_purchase->item->limit == 1 && sim_chance(sim, 950)) {
        ret_purchase->qty = 1;
    }
    ret_purchase->late = sim_chance(sim, plan->late);
}

/* An old purchase: everything said of it before must still hold. */
static void revisit(struct sim *sim, struct client *client)
{
    struct purchase *old = &client->remembered[sim_below(sim, client->remembered_count)];
    client->errand = ERRAND_ONCE;
    client->now = *old;
    switch (sim_below(sim, 8)) {
    case 0:
        ask_buy(sim, client, old, old->qty + (uint32_t)sim_chance(sim, sim->plan.other_qty));
        return;
    case 1:
        ask_cancel(sim, client, old);
        return;
    case 2:
        ask_pay(sim, client, old, sim_chance(sim, sim->plan.other_qty) ? 1 : 0);
        return;
    case 3:
    case 4:
        ask_buy(sim, client, old, old->qty);
        return;
    default:
        ask_order(sim, client, old);
    }
}

static void begin(struct sim *sim, struct client *client)
{
    client->tries = 0;
    if (sim_chance(sim, sim->plan.cheat)) {
        client->errand = ERRAND_ONCE;
        cheat_act(sim, client);
        return;
    }
    if (client->remembered_count > 0 && sim_chance(sim, 250)) {
        revisit(sim, client);
        return;
    }
    choose_purchase(sim, &client->now);
    if (sim_chance(sim, sim->plan.look)) {
        client->errand = ERRAND_ONCE;
        ask_item(sim, client, &client->now);
        return;
    }
    if (sim->plan.sqlite && sim_chance(sim, sim->plan.my_orders)) {
        client->errand = ERRAND_ONCE;
        struct sim_request request = {.call = CALL_MY_ORDERS, .user = client->now.user};
        client_send(sim, client, request, "GET", span_of("/v1/me/orders?limit=200"),
                    client->now.user, nothing, nothing);
        return;
    }
    client->errand = ERRAND_TICKET;
    ask_ticket(sim, client);
}

static void settle(struct sim *sim, struct client *client)
{
    struct purchase *now = &client->now;
    int64_t left_us = (now->pay_by_ms - SIM_EPOCH_MS) * 1000 - sim->now_us;
    if (now->late && left_us > 0 && left_us < 60000000) {
        now->late = false; /* pays at the last moment, or a moment too late */
        client_later(sim, client, left_us + sim_between(sim, 0, 60000));
        return;
    }
    client->errand = ERRAND_LOOK;
    if (sim_chance(sim, sim->plan.pay)) {
        ask_pay(sim, client, now, sim_chance(sim, sim->plan.other_qty) ? -1 : 0);
    } else if (sim_chance(sim, sim->plan.cancel)) {
        ask_cancel(sim, client, now);
    } else {
        ask_order(sim, client, now);
    }
}

/* The same ticket at another place at the same time: a proxy, a double click, a second tab that
 * looks for the order before any answer has shown it. */
static void send_twice(struct sim *sim, const struct client *client)
{
    for (uint32_t i = 1; i < sim->plan.clients; i++) {
        struct client *other = &sim->clients[i];
        if (other != client && !other->waiting && other->wire >= 0 &&
            (other->errand == ERRAND_NONE || other->errand == ERRAND_ONCE)) {
            sim_fault_happened(sim, FAULT_NET_TWICE);
            other->now = client->now;
            other->errand = sim_chance(sim, 500) ? ERRAND_BUY : ERRAND_FOLLOW;
            other->tries = 0;
            client_later(sim, other, sim_about(sim, sim->plan.net_us));
            return;
        }
    }
}

void buyer_act(struct sim *sim, struct client *client)
{
    struct purchase *now = &client->now;
    switch (client->errand) {
    case ERRAND_TICKET:
        ask_ticket(sim, client);
        return;
    case ERRAND_BUY:
        ask_buy(sim, client, now, now->qty);
        if (sim_chance(sim, sim->plan.twice) && !sim->healed) {
            send_twice(sim, client);
        }
        return;
    case ERRAND_FOLLOW:
        ask_order(sim, client, now);
        return;
    case ERRAND_SETTLE:
        settle(sim, client);
        return;
    case ERRAND_LOOK:
        if (sim_chance(sim, sim->plan.again)) {
            ask_buy(sim, client, now, now->qty);
        } else {
            ask_order(sim, client, now);
        }
        client->errand = ERRAND_ONCE;
        return;
    case ERRAND_NONE:
    case ERRAND_ONCE:
        begin(sim, client);
    }
}

/* ---- hearing ---- */

static void remember(struct sim *sim, struct client *client)
{
    size_t at = client->remembered_count < REMEMBERED ? client->remembered_count++
                                                      : sim_below(sim, REMEMBERED);
    client->remembered[at] = client->now;
}

static void heard_buy(struct sim *sim, struct client *client, const struct sim_answer *answer)
{
    struct purchase *now = &client->now;
    if (answer->has_order) {
        now->known = true;
        now->state = answer->order.state;
        remember(sim, client);
        client->errand = now->state == ORDER_QUEUED && !sim_chance(sim, sim->plan.hasty)
                             ? ERRAND_FOLLOW
                             : ERRAND_SETTLE;
    } else if (strcmp(answer->retry, "same-ticket") == 0 || answer->status == 503) {
        client->errand = ++client->tries < 20 ? ERRAND_BUY : ERRAND_NONE;
    } else if (strcmp(answer->retry, "later") == 0 && client->tries++ < 3) {
        client->errand = ERRAND_BUY;
    } else {
        client->errand = ERRAND_NONE;
    }
}

void buyer_heard(struct sim *sim, struct client *client, const struct sim_answer *answer,
                 struct span body)
{
    struct purchase *now = &client->now;
    switch (client->errand) {
    case ERRAND_TICKET:
        client->errand = ERRAND_NONE;
        if (answer->status == 201 && ticket_read(body, now->ticket) == 0) {
            now->order = answer->ticket_order;
            now->expires_at_ms = answer->expires_at_ms;
            client->errand = ERRAND_BUY;
        } else if (answer->status == 425 && client->tries++ < 3) {
            client->errand = ERRAND_TICKET;
        }
        return;
    case ERRAND_BUY:
        heard_buy(sim, client, answer);
        return;
    case ERRAND_FOLLOW:
        if (answer->has_order && answer->order.state != ORDER_QUEUED) {
            now->state = answer->order.state;
            now->pay_by_ms = answer->order.pay_by_ms;
            client->errand = ERRAND_SETTLE;
        } else if (answer->status == 404 && !now->known) {
            client->errand = ERRAND_BUY; /* it looked before it bought */
        } else if (client->tries++ > 20) {
            client->errand = ERRAND_NONE;
        }
        return;
    default:
        return;
    }
}

void buyer_streamed(struct client *client, const struct sim_told *told)
{
    client->now.state = told->state;
    client->now.pay_by_ms = told->pay_by_ms;
}

void buyer_unheard(struct sim *sim, struct client *client)
{
    (void)sim;
    if (client->errand == ERRAND_FOLLOW && client->now.state != ORDER_QUEUED) {
        client->errand = ERRAND_SETTLE;
    }
    if (client->tries++ > 20) {
        client->errand = ERRAND_NONE;
    }
}
