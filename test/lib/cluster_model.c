/* See cluster_model.h. */
#include "cluster_model.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "ledger/event_effects.h"

#define BATCH 32

static void *must(void *memory)
{
    CHECK(memory != NULL);
    return memory;
}

static int64_t now_ms(const struct cluster_world *world)
{
    return clock_wall_ms((struct clock_port *)&world->clock.port);
}

/* ---- seeds ---- */

static uint64_t running_seed;

static void tell_seed(int signal)
{
    char text[64];
    int len = snprintf(text, sizeof(text), "SLUICE_SEED=%llu\n", (unsigned long long)running_seed);
    (void)signal;
    if (running_seed != 0 && len > 0) {
        (void)!write(STDERR_FILENO, text, (size_t)len);
    }
}

void model_seed(uint64_t seed)
{
    (void)signal(SIGABRT, tell_seed);
    running_seed = seed;
}

int model_print_seed(void **state)
{
    (void)state;
    tell_seed(0);
    running_seed = 0;
    return 0;
}

void model_seeds(uint64_t *first, uint64_t *last)
{
    const char *given = getenv("SLUICE_SEED");
    if (given != NULL) {
        *first = *last = strtoull(given, NULL, 10);
    }
}

/* ---- life ---- */

struct item_row *model_item(const struct cluster_world *world, uint64_t item)
{
    struct sale_row *sale;
    return memory_item(&world->ledger, item, &sale);
}

static struct item_row item_row(uint64_t id, uint32_t limit)
{
    return (struct item_row){
        .id = id, .limit_per_user = limit, .total = MODEL_UNITS, .price_cents = 100};
}

static void open_sale(struct cluster_world *world)
{
    struct item_row items[] = {item_row(CLUSTER_ONCE, 1), item_row(CLUSTER_THREE, 3),
                               item_row(CLUSTER_FREE, 0)};
    struct sale_row sale = {.id = CLUSTER_SALE,
                            .pay_within_s = CLUSTER_PAY_MS / 1000,
                            .starts_at_ms = CLUSTER_NOW - 1000,
                            .ends_at_ms = CLUSTER_NOW + 100000000,
                            .currency = "EUR",
                            .items_count = 3,
                            .items = items};
    struct ledger_op create = {.kind = LEDGER_SALE_CREATE, .sale_in = &sale};
    struct ledger_op open = {
        .kind = LEDGER_SALE_MOVE, .sale_id = CLUSTER_SALE, .target = SALE_OPEN};
    CHECK(cluster_run(world, &create) == REFUSAL_NONE && cluster_run(world, &open) == REFUSAL_NONE);
}

void model_grow(struct cluster_world *world, uint32_t segments)
{
    CHECK(segments >= world->count);
    world->count = segments;
    world->ledger.segments = segments;
}

void model_init(struct cluster_world *ret_world, struct cluster_options options)
{
    cluster_init(ret_world, options);
    ret_world->model.homes = ret_world->count;
    open_sale(ret_world);
    ret_world->model.worker = sim_segments_front(ret_world->sim, 1);
}

uint32_t model_home(const struct cluster_world *world, uint64_t user)
{
    return regions_home(&world->ledger.sales[0]->regions, user, world->model.homes);
}

void model_done(struct cluster_world *world)
{
    sim_segments_front_free(world->model.worker);
    free(world->model.journal);
    free(world->model.messages);
    cluster_done(world);
}

/* ---- buying ---- */

static struct order_id new_id(struct cluster_world *world, uint32_t segment, uint64_t user,
                              uint64_t item)
{
    if (item == CLUSTER_ONCE) {
        struct gate_request request = {
            .kind = GATE_REQUEST_TICKET, .segment = segment, .user = user, .item = item};
        CHECK(gate_submit(world->model.worker, &request) == GATE_ANSWERED);
        return order_id_once(item, user, request.attempt);
    }
    return order_id_fresh(item, now_ms(world), ++world->sequence << 6 | segment);
}

static void told_add(struct model_decision **list, size_t *count,
                     const struct model_decision *decision)
{
    *list = must(realloc(*list, (*count + 1) * sizeof(**list)));
    (*list)[(*count)++] = *decision;
}

static bool buy(struct cluster_world *world, uint64_t user, uint64_t item, uint32_t qty, bool told)
{
    uint32_t segment = model_home(world, user);
    struct gate_request request = {.kind = GATE_REQUEST_BUY,
                                   .segment = segment,
                                   .id = new_id(world, segment, user, item),
                                   .user = user,
                                   .item = item,
                                   .qty = qty,
                                   .now_ms = now_ms(world),
                                   .ticket_expires_ms = now_ms(world) + 60000};
    CHECK(gate_submit(world->model.worker, &request) == GATE_ANSWERED);
    if (!gate_request_done(&request) || request.existed || !told) {
        return gate_request_done(&request);
    }
    struct model_decision decision = {.segment = segment,
                                      .epoch = world->model.epochs[segment],
                                      .told = true,
                                      .command = {.kind = GATE_RESERVE,
                                                  .now_ms = request.order.created_at_ms,
                                                  .id = request.id,
                                                  .user = user,
                                                  .item = item,
                                                  .qty = qty}};
    told_add(&world->model.journal, &world->model.journal_count, &decision);
    return true;
}

bool model_buy(struct cluster_world *world, uint64_t user, uint64_t item, uint32_t qty)
{
    return buy(world, user, item, qty, true);
}

bool model_buy_untold(struct cluster_world *world, uint64_t user, uint64_t item, uint32_t qty)
{
    return buy(world, user, item, qty, false);
}

/* ---- behind the front ---- */

void model_relay(struct cluster_world *world)
{
    struct outbox_entry entries[BATCH];
    size_t count = 0;
    if (segments_take(world->hands, UINT64_MAX, entries, BATCH, 0, &count) != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        told_add(&world->model.messages, &world->model.messages_count,
                 &(struct model_decision){.segment = entries[i].segment,
                                          .epoch = entries[i].epoch,
                                          .command = entries[i].command});
    }
    (void)segments_done(world->hands, entries, count);
}

/* Decides again what an older epoch decided. True: it is settled, or another message carries it. */
static bool decide_again(struct cluster_world *world, const struct model_decision *decision)
{
    struct segment_state state;
    struct segment_call call = {.segment = decision->segment,
                                .epoch = world->ledger.epochs[decision->segment],
                                .command = decision->command};
    segments_look(world->hands, decision->segment, &state);
    segments_apply(world->hands, &call, 1);
    if (call.outcome != SEGMENT_DONE ||
        (call.refusal == REFUSAL_NO_SUCH_ITEM && (state.outcome != SEGMENT_DONE || !state.open))) {
        return false;
    }
    if (call.verdict == VERDICT_REFUSED) {
        struct ledger_op op = {.kind = LEDGER_FAIL,
                               .command = decision->command,
                               .segment = decision->segment,
                               .reason = call.refusal};
        (void)cluster_run(world, &op);
    }
    return true;
}

static bool book_one(struct cluster_world *world, const struct model_decision *decision)
{
    struct ledger_op op = {.kind = LEDGER_BOOK,
                           .command = decision->command,
                           .lsn = 1,
                           .segment = decision->segment,
                           .epoch = decision->epoch};
    enum refusal refusal = cluster_run(world, &op);
    CHECK(refusal == REFUSAL_NONE || refusal == REFUSAL_STALE_EPOCH);
    return refusal == REFUSAL_NONE || decide_again(world, decision);
}

void model_book(struct cluster_world *world)
{
    size_t kept = 0;
    size_t count = world->model.messages_count;
    for (size_t i = 0; i < count; i++) {
        struct model_decision decision = world->model.messages[i];
        if (!book_one(world, &decision)) {
            world->model.messages[kept++] = decision;
        }
    }
    world->model.messages_count = kept;
}

static void apply_to(struct cluster_world *world, uint32_t segment)
{
    struct segment_state state;
    struct ledger_event events[BATCH];
    struct segment_call calls[BATCH];
    segments_look(world->hands, segment, &state);
    if (state.outcome != SEGMENT_DONE || !state.open) {
        return;
    }
    struct ledger_query query = {.kind = QUERY_EVENTS,
                                 .segment = (int32_t)segment,
                                 .after = state.event,
                                 .events = events,
                                 .limit = BATCH};
    CHECK(ledger_read(&world->ledger.ledger, &query) == 0);
    uint64_t after = state.event;
    for (uint32_t i = 0; i < query.count; i++) {
        calls[i] = (struct segment_call){.segment = segment, .epoch = state.epoch, .after = after};
        event_effects_command(&events[i], now_ms(world), &calls[i].command);
        after = events[i].number;
    }
    segments_apply(world->hands, calls, query.count);
    for (uint32_t i = 0; i < query.count; i++) {
        struct segment_call *call = &calls[i];
        bool stuck = call->outcome == SEGMENT_DONE && call->verdict != VERDICT_DONE &&
                     call->verdict != VERDICT_MORE;
        if (stuck) { /* nothing to do for it: only the cursor moves on */
            call->command.kind = GATE_SKIP;
            segments_apply(world->hands, call, 1);
            return;
        }
    }
}

void model_apply(struct cluster_world *world)
{
    for (uint32_t i = 0; i < world->count; i++) {
        apply_to(world, i);
    }
}

/* ---- the front's ear ---- */

static void replay(struct cluster_world *world, uint32_t segment)
{
    bool whole = true;
    for (size_t i = 0; i < world->model.journal_count; i++) {
        const struct model_decision *decision = &world->model.journal[i];
        if (decision->segment == segment &&
            memory_ledger_order(&world->ledger, decision->command.id) == NULL) {
            whole = decide_again(world, decision) && whole;
        }
    }
    world->model.owes[segment] = !whole;
}

/* The front goes on with a segment of this epoch; 0: not for now. */
static void place(struct cluster_world *world, uint32_t segment, uint64_t epoch)
{
    gate_place(world->model.worker, segment, epoch);
    world->model.owes[segment] |= epoch != 0 && epoch != world->model.epochs[segment];
    world->model.epochs[segment] = epoch;
}

/* What a look says; for when news was lost. */
static void look_again(struct cluster_world *world)
{
    for (uint32_t i = 0; i < world->count; i++) {
        struct segment_state state;
        segments_look(world->hands, i, &state);
        place(world, i, state.outcome == SEGMENT_DONE && state.open ? state.epoch : 0);
    }
}

void model_hear(struct cluster_world *world)
{
    struct segment_news news[BATCH];
    size_t count = 0;
    while (segments_news(world->hands, news, BATCH, 0, &count) == 0) {
        for (size_t i = 0; i < count; i++) {
            if (news[i].kind == NEWS_LOST) {
                look_again(world);
            } else if (news[i].kind == NEWS_EPOCH) {
                place(world, news[i].segment, news[i].epoch);
            }
        }
    }
    for (uint32_t i = 0; i < world->count; i++) {
        if (world->model.owes[i]) {
            replay(world, i);
        }
    }
}

void model_turn(struct cluster_world *world)
{
    model_hear(world);
    model_relay(world);
    model_book(world);
    model_apply(world);
}

static uint64_t progress(const struct cluster_world *world)
{
    uint64_t sum = world->ledger.events_count + world->model.messages_count * 1000003;
    for (uint32_t i = 0; i < world->count; i++) {
        sum += sim_segments_writes(world->sim, i);
    }
    return sum;
}

void model_settle(struct cluster_world *world)
{
    uint64_t before;
    look_again(world);
    do {
        before = progress(world);
        model_turn(world);
    } while (progress(world) != before);
}

/* ---- what others do ---- */

static void stir_order(struct cluster_world *world)
{
    if (world->ledger.orders_count == 0) {
        return;
    }
    const struct order_row *row =
        &world->ledger.orders[prng_below(&world->prng, world->ledger.orders_count)];
    struct ledger_op op = {.kind = prng_below(&world->prng, 2) == 0 ? LEDGER_PAY : LEDGER_CANCEL,
                           .id = row->id,
                           .amount_cents = row->amount_cents};
    order_id_text(row->id, op.key);
    (void)cluster_run(world, &op);
}

void model_stir(struct cluster_world *world)
{
    static const uint64_t items[] = {CLUSTER_ONCE, CLUSTER_THREE, CLUSTER_FREE};
    struct ledger_op op = {0};
    switch (prng_below(&world->prng, 12)) {
    case 0:
        op.kind = LEDGER_RESTOCK;
        op.item = items[prng_below(&world->prng, 3)];
        op.amount = 1 + prng_below(&world->prng, 5);
        (void)snprintf(op.key, sizeof(op.key), "r%u", ++world->sequence);
        (void)cluster_run(world, &op);
        break;
    case 1:
        op.kind = LEDGER_SALE_MOVE;
        op.sale_id = CLUSTER_SALE;
        op.target = prng_below(&world->prng, 2) == 0 ? SALE_PAUSED : SALE_OPEN;
        (void)cluster_run(world, &op);
        break;
    case 2: /* a decision nobody will book: too old, or a poison message */
        if (world->model.messages_count > 0) {
            op.kind = LEDGER_FAIL;
            op.command = world->model.messages[0].command;
            op.segment = world->model.messages[0].segment;
            op.reason = REFUSAL_DEGRADED;
            (void)cluster_run(world, &op);
        }
        break;
    default:
        stir_order(world);
        break;
    }
}

/* ---- what must be true ---- */

/* Every counter of the ledger against the orders it stands for: promise 2, and shares. */
static void audit_item(const struct memory_ledger *ledger, const struct item_row *item)
{
    uint64_t shares = 0;
    uint64_t locked = 0;
    uint64_t sold = 0;
    for (uint32_t s = 0; s < ledger->segments; s++) {
        static const struct memory_share none = {.amount = 0};
        const struct memory_share *share = memory_share(ledger, item->id, s);
        uint64_t share_locked = 0;
        uint64_t share_sold = 0;
        share = share != NULL ? share : &none; /* just added */
        for (size_t i = 0; i < ledger->orders_count; i++) {
            const struct order_row *order = &ledger->orders[i];
            if (order->item == item->id && order->segment == s) {
                share_locked += order->state == ORDER_LOCKED ? order->qty : 0;
                share_sold += order->state == ORDER_PAID ? order->qty : 0;
            }
        }
        CHECK(share->locked == share_locked && share->sold == share_sold);
        CHECK(share->locked + share->sold <= share->amount);
        shares += share->amount;
        locked += share_locked;
        sold += share_sold;
    }
    CHECK(shares == item->total && item->locked == locked && item->sold == sold);
    CHECK(item->available + locked + sold == item->total);
}

/* Promise 5: what a buyer holds, over all segments. */
static void audit_buyer(const struct memory_ledger *ledger, const struct order_row *of,
                        uint32_t limit)
{
    uint64_t held = 0;
    for (size_t i = 0; i < ledger->orders_count; i++) {
        const struct order_row *order = &ledger->orders[i];
        if (order->item == of->item && order->user == of->user && order_state_alive(order->state)) {
            held += order->qty;
        }
    }
    CHECK(limit == 0 || held <= limit);
}

void model_audit(const struct cluster_world *world)
{
    for (uint32_t i = 0; i < world->ledger.sales[0]->items_count; i++) {
        audit_item(&world->ledger, &world->ledger.sales[0]->items[i]);
    }
    for (size_t i = 0; i < world->ledger.orders_count; i++) {
        const struct order_row *order = &world->ledger.orders[i];
        audit_buyer(&world->ledger, order, model_item(world, order->item)->limit_per_user);
    }
    for (uint32_t i = 0; i < world->count; i++) {
        const struct gate *gate = sim_segments_gate(world->sim, i);
        CHECK(gate == NULL || !sim_segments_open(world->sim, i) || gate_consistent(gate));
    }
}

static void agree_on_orders(const struct cluster_world *world)
{
    uint64_t at_gates = 0;
    for (size_t i = 0; i < world->ledger.orders_count; i++) {
        const struct order_row *row = &world->ledger.orders[i];
        const struct gate *gate = sim_segments_gate(world->sim, row->segment);
        uint32_t slot = gate_find_order(gate, row->id);
        CHECK(slot != GATE_NONE && gate->orders[slot].state == row->state);
        CHECK(gate->orders[slot].user == row->user && gate->orders[slot].qty == row->qty);
    }
    for (uint32_t i = 0; i < world->count; i++) {
        at_gates += sim_segments_gate(world->sim, i)->order_pool.used;
    }
    CHECK(at_gates == world->ledger.orders_count);
}

/* Until when his orders make a buyer wait; 0: he is barred for good, or need not. */
static int64_t cooling_until(const struct memory_ledger *ledger, const struct buyer_row *buyer)
{
    int64_t until_ms = 0;
    for (size_t i = 0; i < ledger->orders_count && !buyer->barred; i++) {
        const struct order_row *row = &ledger->orders[i];
        if (row->item == buyer->item && row->user == buyer->user &&
            row->cooling_until_ms > until_ms) {
            until_ms = row->cooling_until_ms;
        }
    }
    return until_ms;
}

/* Attempts and bars, too: the next order id of a buyer follows from them. */
static void agree_on_buyers(const struct cluster_world *world, uint32_t segment)
{
    struct buyer_row rows[BATCH * 32];
    const struct gate *gate = sim_segments_gate(world->sim, segment);
    struct ledger_query query = {.kind = QUERY_SEGMENT_BUYERS,
                                 .segment = (int32_t)segment,
                                 .buyers = rows,
                                 .limit = BATCH * 32};
    (void)ledger_read((struct ledger *)&world->ledger.ledger, &query);
    CHECK(query.error == 0 && query.count < query.limit);
    for (uint32_t i = 0; i < query.count; i++) {
        const struct gate_buyer *buyer =
            gate_find_buyer(gate, gate_find_item(gate, rows[i].item), rows[i].user);
        CHECK(buyer != NULL && buyer->held == rows[i].held &&
              buyer->failed_attempts == rows[i].failed_attempts &&
              (buyer->barred != 0) == rows[i].barred &&
              buyer->cooling_until_ms == cooling_until(&world->ledger, &rows[i]));
    }
    CHECK(gate->buyer_pool.used == query.count);
}

void model_agree(const struct cluster_world *world)
{
    static const uint64_t items[] = {CLUSTER_ONCE, CLUSTER_THREE, CLUSTER_FREE};
    model_audit(world);
    for (uint32_t i = 0; i < world->count; i++) {
        CHECK(sim_segments_open(world->sim, i));
        CHECK(sim_segments_epoch(world->sim, i) == world->ledger.epochs[i]);
        CHECK(sim_segments_outbox(world->sim, i) == 0);
        for (size_t k = 0; k < sizeof(items) / sizeof(items[0]); k++) {
            const struct gate *gate = sim_segments_gate(world->sim, i);
            const struct gate_item *item = &gate->items[gate_find_item(gate, items[k])];
            const struct memory_share *share = memory_share(&world->ledger, items[k], i);
            CHECK(item->total == share->amount); /* promise 1, with nothing in transit */
            CHECK(item->locked == share->locked && item->sold == share->sold);
        }
    }
    CHECK(world->model.messages_count == 0);
    agree_on_orders(world);
    for (uint32_t i = 0; i < world->count; i++) {
        agree_on_buyers(world, i);
    }
    for (size_t i = 0; i < world->model.journal_count; i++) {
        CHECK(memory_ledger_order(&world->ledger, world->model.journal[i].command.id) != NULL);
    }
}

/* ---- a process ---- */

/* Counts a call. False: it is dead. */
static bool lives(struct model_process *process)
{
    process->calls++;
    if (process->dies_at != 0 && process->calls >= process->dies_at) {
        return false;
    }
    if (process->meanwhile != NULL && process->calls > process->skips && !process->busy) {
        process->busy = true;
        process->meanwhile(process);
        process->busy = false;
    }
    return true;
}

static void process_apply(struct segments *port, struct segment_call *calls, size_t count)
{
    const struct process_segments *segments = (const struct process_segments *)port;
    if (lives(segments->process)) {
        segments_apply(segments->to, calls, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        calls[i].outcome = SEGMENT_NOT_ASKED;
    }
}

static void process_look(struct segments *port, uint32_t segment, struct segment_state *ret_state)
{
    const struct process_segments *segments = (const struct process_segments *)port;
    *ret_state = (struct segment_state){.outcome = SEGMENT_NOT_ASKED};
    if (lives(segments->process)) {
        segments_look(segments->to, segment, ret_state);
    }
}

/* Every step is a place to die at. */
static enum segment_outcome process_rebuild(struct segments *port, uint32_t segment, uint64_t epoch,
                                            uint64_t fence, const struct segment_step *steps,
                                            size_t count)
{
    const struct process_segments *segments = (const struct process_segments *)port;
    for (size_t i = 0; i < count; i++) {
        if (!lives(segments->process)) {
            return SEGMENT_NOT_KNOWN;
        }
        enum segment_outcome outcome =
            segments_rebuild(segments->to, segment, epoch, fence, &steps[i], 1);
        if (outcome != SEGMENT_DONE) {
            return outcome;
        }
    }
    return SEGMENT_DONE;
}

static void process_tell(struct segments *port, const struct segment_news *news)
{
    const struct process_segments *segments = (const struct process_segments *)port;
    if (lives(segments->process)) {
        segments_tell(segments->to, news);
    }
}

static const struct segments_ops process_segments_ops = {
    .apply = process_apply, .look = process_look, .rebuild = process_rebuild, .tell = process_tell};

static enum gate_submitted process_submit(struct gate_port *port, struct gate_request *request)
{
    const struct process_gate *gate = (const struct process_gate *)port;
    if (lives(gate->process)) {
        return gate_submit(gate->to, request);
    }
    request->outcome = GATE_OUTCOME_AWAY;
    return GATE_ANSWERED;
}

static void process_place(struct gate_port *port, uint32_t segment, uint64_t epoch)
{
    gate_place(((const struct process_gate *)port)->to, segment, epoch);
}

/* Every request is answered at once. */
static struct gate_request *process_collect(struct gate_port *port, uint32_t loop)
{
    (void)port;
    (void)loop;
    return NULL;
}

static const struct gate_ops process_gate_ops = {
    .submit = process_submit, .collect = process_collect, .place = process_place};

static void process_write(struct ledger *port, struct ledger_batch *batch)
{
    struct process_ledger *ledger = (struct process_ledger *)port;
    struct model_process *process = ledger->process;
    batch->error = ERR_IO;
    if (!lives(process)) {
        return;
    }
    (void)ledger_write(&ledger->to.ledger, batch);
    process->unleased += batch->lease == NULL;
    process->fenced += batch->error == ERR_BUSY;
    if (batch->error == 0) {
        batch->error = process->lose_next;
    }
    process->lose_next = 0;
}

static void process_read(struct ledger *port, struct ledger_query *query)
{
    struct process_ledger *ledger = (struct process_ledger *)port;
    struct model_process *process = ledger->process;
    query->count = 0;
    query->error = lives(process) ? process->fail_reads : ERR_IO;
    if (query->error == 0) {
        (void)ledger_read(&ledger->to.ledger, query);
    }
    if (query->error == 0 && process->spoil != NULL) {
        process->spoil(process, query);
    }
}

static const struct ledger_ops process_ledger_ops = {.write = process_write, .read = process_read};

static int process_take(struct lease_port *port, const char *name, int64_t ttl_ms,
                        uint64_t *ret_token)
{
    struct process_lease *lease = (struct process_lease *)port;
    return lives(lease->process) ? lease_take(&lease->to.port, name, ttl_ms, ret_token) : ERR_IO;
}

static void process_drop(struct lease_port *port, const char *name)
{
    struct process_lease *lease = (struct process_lease *)port;
    if (lives(lease->process)) {
        lease_drop(&lease->to.port, name);
    }
}

static const struct lease_ops process_lease_ops = {process_take, process_drop};

static void process_sleep(void *context, int64_t ms)
{
    struct model_process *process = context;
    fake_clock_pass_ms(&process->world->clock, ms);
    if (!process->world->model.still) {
        model_turn(process->world);
    }
}

static int64_t process_now(void *context)
{
    return now_ms(((struct model_process *)context)->world);
}

void model_process_init(struct model_process *ret_process, struct cluster_world *world,
                        uint32_t name)
{
    struct model_process *process = ret_process;
    char holder[16];
    *process = (struct model_process){.world = world};
    process->segments = (struct process_segments){
        {&process_segments_ops}, process, sim_segments_worker(world->sim, name)};
    process->gate =
        (struct process_gate){{&process_gate_ops}, process, sim_segments_front(world->sim, 1)};
    process->ledger.port.ops = &process_ledger_ops;
    process->ledger.process = process;
    memory_port_init(&process->ledger.to, &world->ledger);
    process->lease.port.ops = &process_lease_ops;
    process->lease.process = process;
    (void)snprintf(holder, sizeof(holder), "p%u", name);
    memory_holder_init(&process->lease.to, &world->ledger, holder);
    process->blocking = (struct blocking){process, process_sleep, process_now};
}

void model_process_done(struct model_process *process)
{
    memory_port_done(&process->ledger.to);
    sim_segments_front_free(process->gate.to);
    sim_segments_worker_free(process->segments.to);
}
