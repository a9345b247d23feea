/*
 * The operator: creates, warms and opens the sales of the plan, then pauses and resumes, restocks,
 * moves an end, closes. A request without an answer is repeated unchanged.
 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "crowd.h"

static const struct span nothing = {"", 0};

static void create(struct sim *sim, struct client *client, const struct plan_sale *sale)
{
    char body[4096];
    struct out out = out_over(body, sizeof(body));
    char text[300];
    int n = snprintf(
        text, sizeof(text),
        "{\"id\":%llu,\"name\":\"sale %llu\",\"starts_at_ms\":%lld,\"ends_at_ms\":%lld,"
        "\"pay_within_s\":%u,\"bar_unpaid\":%s,\"items\":[",
        (unsigned long long)sale->id, (unsigned long long)sale->id, (long long)sale->starts_ms,
        (long long)sale->ends_ms, sale->pay_within_s, sale->bar_unpaid ? "true" : "false");
    out_put(&out, (struct span){text, (size_t)n});
    struct sale_row row = {.id = sale->id,
                           .bar_unpaid = sale->bar_unpaid,
                           .pay_within_s = sale->pay_within_s,
                           .starts_at_ms = sale->starts_ms,
                           .ends_at_ms = sale->ends_ms,
                           .items_count = sale->items_count};
    struct item_row items[SIM_ITEMS_MAX];
    for (uint32_t i = 0; i < sale->items_count; i++) {
        const struct plan_item *item = &sale->items[i];
        n = snprintf(text, sizeof(text),
                     "%s{\"id\":%llu,\"name\":\"thing\",\"price_cents\":%u,\"total\":%u,"
                     "\"limit_per_user\":%u}",
                     i > 0 ? "," : "", (unsigned long long)item->id, item->price_cents, item->total,
                     item->limit);
        out_put(&out, (struct span){text, (size_t)n});
        items[i] = (struct item_row){.id = item->id,
                                     .sale = sale->id,
                                     .price_cents = item->price_cents,
                                     .limit_per_user = item->limit,
                                     .total = item->total,
                                     .available = item->total};
    }
    out_lit(&out, "]}");
    CHECK(!out.overflow);
    row.items = items;
    client_send(sim, client,
                (struct sim_request){.call = CALL_SALE_CREATE, .sale = sale->id, .sale_row = &row},
                "POST", span_of("/v1/admin/sales"), 0, nothing, (struct span){body, out.len});
    client->request.sale_row = NULL; /* it was read when it was sent */
}

static void move(struct sim *sim, struct client *client, uint64_t sale, enum sale_state target)
{
    static const char *const words[] = {[SALE_WARM] = "warm",
                                        [SALE_OPEN] = "open",
                                        [SALE_PAUSED] = "pause",
                                        [SALE_CLOSED] = "close"};
    char path[96];
    (void)snprintf(path, sizeof(path), "/v1/admin/sales/%llu/%s", (unsigned long long)sale,
                   words[target]);
    client_send(sim, client,
                (struct sim_request){.call = CALL_SALE_MOVE, .sale = sale, .target = target},
                "POST", span_of(path), 0, nothing, nothing);
}

static void restock(struct sim *sim, struct client *client)
{
    const struct plan_sale *sale = &sim->plan.sales[sim_below(sim, sim->plan.sales_count)];
    const struct plan_item *item = &sale->items[sim_below(sim, sale->items_count)];
    char path[96];
    char body[96];
    struct sim_request request = {.call = CALL_RESTOCK,
                                  .sale = sale->id,
                                  .item = item->id,
                                  .amount = (uint64_t)sim_between(sim, 1, 20)};
    if (client->again) { /* whatever became of the last one: the same words */
        request = client->request;
    } else {
        (void)snprintf(request.key, sizeof(request.key), "more-%llu",
                       (unsigned long long)++client->restocks);
    }
    (void)snprintf(path, sizeof(path), "/v1/admin/items/%llu/restock",
                   (unsigned long long)request.item);
    int n = snprintf(body, sizeof(body), "{\"add\":%llu,\"request_id\":\"%s\"}",
                     (unsigned long long)request.amount, request.key);
    client_send(sim, client, request, "POST", span_of(path), 0, nothing,
                (struct span){body, (size_t)n});
}

static void change_end(struct sim *sim, struct client *client, uint64_t sale)
{
    char path[64];
    char body[64];
    struct sim_request request = {
        .call = CALL_SALE_CHANGE,
        .sale = sale,
        .ends_at_ms = SIM_EPOCH_MS + sim->now_us / 1000 +
                      (sim_chance(sim, 200) ? sim_between(sim, -1000, 3000) : 40000)};
    (void)snprintf(path, sizeof(path), "/v1/admin/sales/%llu", (unsigned long long)sale);
    int n = snprintf(body, sizeof(body), "{\"ends_at_ms\":%lld}", (long long)request.ends_at_ms);
    client_send(sim, client, request, "PUT", span_of(path), 0, nothing,
                (struct span){body, (size_t)n});
}

/* Sale by sale: create, warm, and open unless it opens by itself. */
static bool set_up(struct sim *sim, struct client *client)
{
    if (client->next_sale == sim->plan.sales_count) {
        return false;
    }
    const struct plan_sale *sale = &sim->plan.sales[client->next_sale];
    if (client->next_step == 0) {
        create(sim, client, sale);
    } else {
        move(sim, client, sale->id, sale->opens_by_itself ? SALE_WARM : SALE_OPEN);
    }
    return true;
}

void operator_act(struct sim *sim, struct client *client)
{
    if (set_up(sim, client)) {
        return;
    }
    uint64_t sale = sim->plan.sales[sim_below(sim, sim->plan.sales_count)].id;
    if (client->again && client->request.call == CALL_RESTOCK) {
        restock(sim, client);
        return;
    }
    if (!sim_chance(sim, sim->plan.operate)) {
        client_send(sim, client, (struct sim_request){.call = CALL_TIME}, "GET",
                    span_of("/v1/time"), UINT64_MAX, nothing, nothing);
        return;
    }
    switch (sim_below(sim, 10)) {
    case 0:
        move(sim, client, sale, SALE_PAUSED);
        return;
    case 1:
        change_end(sim, client, sale);
        return;
    case 2:
        move(sim, client, sale, sim_chance(sim, 50) ? SALE_CLOSED : SALE_OPEN);
        return;
    case 3:
    case 4:
    case 5:
        restock(sim, client);
        return;
    default:
        move(sim, client, sale, SALE_OPEN);
    }
}

void operator_heard(struct sim *sim, struct client *client, const struct sim_answer *answer)
{
    client->again = client->request.call == CALL_RESTOCK && sim_chance(sim, 300);
    if (client->next_sale == sim->plan.sales_count) {
        return;
    }
    bool created = answer->status == 201 || strcmp(answer->code, "exists") == 0;
    if (client->request.call == CALL_SALE_CREATE && created) {
        client->next_step = 1;
    } else if (client->request.call == CALL_SALE_MOVE && answer->status == 200) {
        client->next_step = 0;
        client->next_sale++;
    }
}
