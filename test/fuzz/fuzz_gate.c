/*
 * The gate against the naive model of it (test/unit/core/gate_model.c), like test_gate_model.c, but
 * with the fuzzer in the place of the dice. Bytes become commands over few sales, items and buyers,
 * on gates so small that they fill up.
 *
 * After each command verdict, refusal, what the buyer holds and everything in the gate are the
 * model's. What was journalled makes a round trip through its record into a second gate with other
 * hash buckets, which ends up the same. Every counter fits the orders it stands for (gate_audit).
 */
#include "fuzz.h"

#include <stdlib.h>

#include "core/record.h"
#include "gate_model.h"

#define SALES 3
#define ITEMS 5
#define USERS 8
#define COMMANDS_MAX 300

static const struct gate_sizes gates[] = {
    {.orders = 40, .buyers = 20, .items = 5, .sales = 3},
    {.orders = 1, .buyers = 1, .items = 1, .sales = 1},
    {.orders = 5, .buyers = 30, .items = 4, .sales = 2},
    {.orders = 200, .buyers = 3, .items = 5, .sales = 3},
    {.orders = 250, .buyers = 60, .items = 5, .sales = 3},
};

/* The run: two gates in one block each, and the time. */
static struct gate gate;
static struct gate second;
static int64_t now_ms;
static struct gate_command unfinished; /* a FORGET that wants to be sent again */

static uint64_t draw_item(struct fuzz_input *in)
{
    return 1 + fuzz_below(in, ITEMS);
}

/* An order that exists, where there is one, or might have. */
static struct order_id draw_order(struct fuzz_input *in)
{
    uint8_t which = fuzz_byte(in);
    if (which < 240 && model.orders_count > 0) {
        return model.orders[which % model.orders_count].id;
    }
    return order_id_fresh(draw_item(in), 1, which % 8);
}

static void draw_reserve(struct fuzz_input *in, struct gate_command *c)
{
    static const uint32_t many[] = {2, 3, 5, 30, 200, QTY_MAX};
    uint8_t how = fuzz_byte(in);
    c->item = draw_item(in);
    c->user = 1 + fuzz_below(in, USERS);
    c->qty = how < 200 ? 1 : many[how % 6];
    c->ticket_expires_ms = (uint64_t)now_ms + (how % 8);
    const struct model_item *item = item_of(c->item);
    const struct model_buyer *buyer = buyer_of(c->item, c->user);
    uint32_t attempt = buyer != NULL ? (uint32_t)buyer->failed_attempts : 0;
    bool once = item != NULL && item->limit == 1;
    switch (fuzz_below(in, 16)) {
    case 4: /* evicted */
        if (model.evicted_count == 0) {
            break;
        }
        c->id = model.evicted[how % (model.evicted_count < MODEL_EVICTED ? model.evicted_count
                                                                         : MODEL_EVICTED)];
        c->item = order_id_item(c->id);
        return;
    case 0:
        once = !once;
        break;
    case 1:
        attempt = fuzz_below(in, 4);
        break;
    case 2: /* another buyer's */
        c->id = order_id_once(c->item, 1 + fuzz_below(in, USERS), attempt);
        return;
    case 3: /* any order, perhaps in its owner's words */
        c->id = draw_order(in);
        c->item = order_id_item(c->id);
        if (order_of(c->id) != NULL && how % 2 == 0) {
            c->user = order_of(c->id)->user;
            c->qty = (uint32_t)order_of(c->id)->qty;
        }
        return;
    default:
        break;
    }
    c->id = once ? order_id_once(c->item, c->user, attempt)
                 : order_id_fresh(c->item, now_ms, fuzz_byte(in));
}

/* The fields its kind lists; all others stay 0. */
static void draw_event(struct fuzz_input *in, struct gate_command *c)
{
    static const uint64_t amounts[] = {0, 1, 2, 7, 100, STOCK_MAX, STOCK_MAX + 1, UINT64_MAX};
    static const uint32_t limits[] = {1, 0, 3, 5};
    static const uint32_t reasons[] = {REFUSAL_LIMIT_REACHED, REFUSAL_NO_STOCK};
    uint8_t some = fuzz_byte(in);
    switch (c->kind) {
    case GATE_CONFIRM:
    case GATE_FAIL_ORDER:
    case GATE_PAY:
    case GATE_CANCEL:
    case GATE_CANCEL_LATE:
    case GATE_CANCEL_COOLING:
    case GATE_EXPIRE:
    case GATE_EXPIRE_COOLING:
        c->id = draw_order(in);
        c->item = order_id_item(c->id);
        bool timed = c->kind == GATE_CONFIRM || c->kind == GATE_CANCEL_COOLING ||
                     c->kind == GATE_EXPIRE_COOLING;
        c->time_ms = timed ? (uint64_t)now_ms + some : 0;
        c->reason = c->kind == GATE_FAIL_ORDER ? reasons[some % 2] : 0;
        return;
    case GATE_RESTOCK:
    case GATE_TRANSFER_OUT:
    case GATE_TRANSFER_IN:
        c->item = draw_item(in);
        c->amount = amounts[some % 8];
        return;
    default:
        break;
    }
    bool sized = c->kind == GATE_LOAD_SALE || c->kind == GATE_OPEN;
    bool ends = c->kind == GATE_LOAD_SALE || c->kind == GATE_RETIME;
    bool of_sale = c->kind != GATE_SKIP && c->kind != GATE_SET_TIME && c->kind != GATE_KIND_NONE;
    c->sale = of_sale ? 1 + some % SALES : 0;
    c->starts_at_ms = sized ? (uint64_t)now_ms + fuzz_byte(in) % 16 - 8 : 0;
    c->ends_at_ms = ends ? (uint64_t)now_ms + fuzz_number(in, 2) : 0;
    c->bar_unpaid = c->kind == GATE_LOAD_SALE && some >= 128;
    if (c->kind == GATE_LOAD_ITEM) {
        c->item = draw_item(in);
        c->limit = limits[some / SALES % 4];
        c->amount = fuzz_number(in, 2) % 600;
    }
    c->qty = c->kind == GATE_FORGET ? fuzz_byte(in) : 0;
}

static struct gate_command draw_command(struct fuzz_input *in)
{
    uint8_t choice = fuzz_byte(in);
    now_ms += choice / 64;
    struct gate_command c = {.kind = choice % 32, .now_ms = now_ms};
    if (c.kind > GATE_KIND_COUNT) { /* most commands of a sale are these */
        c.kind = c.kind % 3 == 0 ? GATE_CONFIRM : GATE_RESERVE;
    }
    if (c.kind == GATE_KIND_COUNT && unfinished.kind == GATE_FORGET) {
        return unfinished;
    }
    c.kind = c.kind == GATE_KIND_COUNT ? GATE_RESERVE : c.kind;
    if (c.kind == GATE_RESERVE) {
        draw_reserve(in, &c);
        c.absent_lsn = fuzz_byte(in) < 32;
        return c;
    }
    if (c.kind == GATE_EVICT) {
        c.id = draw_order(in);
        return c;
    }
    draw_event(in, &c);
    /* The next event, mostly; also one that was applied before, and one further on. */
    uint8_t number = fuzz_byte(in);
    c.event = number < 8    ? model.event - (model.event > 0 ? number % model.event : 0)
              : number < 16 ? model.event + number
                            : model.event + 1;
    return c;
}

/* The command goes through its record into the second gate, as a restart would do it. */
static void replay(const struct gate_command *c, enum verdict verdict)
{
    uint8_t bytes[RECORD_MAX_BYTES];
    struct gate_command back;
    struct gate_effects effects;
    CHECK(record_decode(bytes, record_encode(c, bytes), &back) == 0);
    back.accepted = true;
    CHECK(gate_step(&second, &back, &effects) == verdict);
}

static void step(const struct gate_command *c)
{
    struct gate_effects effects;
    struct answer want = model_step(c);
    enum verdict verdict = gate_step(&gate, c, &effects);
    bool changed = verdict == VERDICT_DONE || verdict == VERDICT_MORE;
    model_compare_effects(&gate, c, &want, verdict, &effects);
    if (c->kind == GATE_FORGET && changed) {
        model_forgotten(&gate, c, verdict == VERDICT_DONE);
    }
    if (c->kind == GATE_FORGET) {
        unfinished = verdict == VERDICT_MORE ? *c : (struct gate_command){.kind = GATE_KIND_NONE};
    }
    if (changed) {
        replay(c, verdict);
    }
    model_compare(&gate);
}

/* The answers to buyers of a sale, at the moments where it changes. */
static void check_states(void)
{
    for (size_t i = 0; i < model.sales_count; i++) {
        const struct model_sale *sale = &model.sales[i];
        const int64_t moments[] = {now_ms, sale->start - 1, sale->start, sale->end - 1, sale->end};
        const struct gate_sale *found = &gate.sales[gate_find_sale(&gate, sale->id)];
        for (size_t j = 0; j < sizeof(moments) / sizeof(moments[0]); j++) {
            bool over = sale->state == SALE_CLOSED || moments[j] >= sale->end;
            bool begun = sale->state == SALE_WARM && moments[j] >= sale->start;
            enum sale_state state = over ? SALE_CLOSED : begun ? SALE_OPEN : sale->state;
            CHECK(gate_sale_state_at(found, moments[j]) == state);
        }
    }
}

/* The same block for every run: cleared, not allocated anew. */
static void gate_open(struct gate *ret_gate, struct gate_sizes sizes, int which, uint64_t hash_key)
{
    static void *memory[2];
    static const struct gate_sizes largest = {
        .orders = 250, .buyers = 60, .items = ITEMS, .sales = SALES};
    if (memory[which] == NULL) {
        memory[which] = aligned_alloc(64, gate_bytes(largest));
        CHECK(memory[which] != NULL);
    }
    CHECK(gate_bytes(sizes) <= gate_bytes(largest));
    memset(memory[which], 0, gate_bytes(sizes));
    gate_init(ret_gate, sizes, memory[which], hash_key);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct fuzz_input in = {bytes, size};
    struct gate_sizes sizes = gates[fuzz_below(&in, sizeof(gates) / sizeof(gates[0]))];
    gate_open(&gate, sizes, 0, 1);
    gate_open(&second, sizes, 1, fuzz_byte(&in));
    model_clear(sizes);
    unfinished = (struct gate_command){.kind = GATE_KIND_NONE};
    now_ms = 1000;
    for (int i = 0; in.left > 0 && i < COMMANDS_MAX; i++) {
        struct gate_command command = draw_command(&in);
        step(&command);
    }
    check_states();
    gate_audit(&gate);
    gate_audit(&second);
    model_compare(&second);
    return 0;
}
