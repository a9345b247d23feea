/* See sim_server.h. Checks come first; a script that answers anything but DONE wrote nothing. */
#include "sim_server.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static void *must(void *memory)
{
    CHECK(memory != NULL);
    return memory;
}

/* Room for one more. */
static void *grown(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room) {
        return array;
    }
    *room = *room < 16 ? 16 : *room * 2;
    return must(realloc(array, *room * size));
}

static void *copied(const void *array, size_t count, size_t room, size_t size)
{
    if (room == 0) {
        return NULL;
    }
    void *copy = must(malloc(room * size));
    if (count > 0) {
        memcpy(copy, array, count * size);
    }
    return copy;
}

/* ---- life ---- */

void server_state_init(struct server_state *ret_state)
{
    *ret_state = (struct server_state){0};
}

static void drop_segment(struct server_state *state)
{
    free(state->memory);
    free(state->staged);
    free(state->transfers);
    state->memory = NULL;
    state->staged = NULL;
    state->staged_count = 0;
    state->staged_orders = 0;
    state->staged_room = 0;
    state->transfers = NULL;
    state->transfers_count = 0;
    state->transfers_room = 0;
}

void server_state_done(struct server_state *state)
{
    drop_segment(state);
    free(state->outbox);
    *state = (struct server_state){0};
}

static void *gate_memory(struct gate_sizes sizes)
{
    size_t bytes = gate_bytes(sizes);
    void *memory = must(aligned_alloc(64, bytes > 0 ? bytes : 64));
    memset(memory, 0, bytes);
    return memory;
}

static void gate_copy(const struct gate *from, const void *memory, struct gate *ret_to,
                      void *ret_memory)
{
    memcpy(ret_memory, memory, gate_bytes(from->sizes));
    gate_init(ret_to, from->sizes, ret_memory, from->hash_key);
    ret_to->order_pool = from->order_pool;
    ret_to->buyer_pool = from->buyer_pool;
    ret_to->item_pool = from->item_pool;
    ret_to->sales_used = from->sales_used;
    ret_to->applied_event = from->applied_event;
    ret_to->highest_ms = from->highest_ms;
    ret_to->shares = from->shares;
}

void server_state_copy(const struct server_state *from, struct server_state *ret_to)
{
    *ret_to = *from;
    if (from->memory != NULL) {
        ret_to->memory = gate_memory(from->gate.sizes);
        gate_copy(&from->gate, from->memory, &ret_to->gate, ret_to->memory);
    }
    ret_to->staged =
        copied(from->staged, from->staged_count, from->staged_room, sizeof(*from->staged));
    ret_to->transfers = copied(from->transfers, from->transfers_count, from->transfers_room,
                               sizeof(*from->transfers));
    ret_to->outbox =
        copied(from->outbox, from->outbox_count, from->outbox_room, sizeof(*from->outbox));
}

/* ---- what the ledger committed, and decisions ---- */

static void outbox_add(struct server_state *state, const struct gate_command *command,
                       int64_t now_ms)
{
    state->outbox =
        grown(state->outbox, state->outbox_count, &state->outbox_room, sizeof(*state->outbox));
    state->outbox[state->outbox_count++] = (struct server_entry){
        .number = ++state->numbers, .epoch = state->epoch, .command = *command, .at_ms = now_ms};
}

/* A decision made again was in its window when it was made, whatever became of the sale since, and
 * within the shares. */
static enum verdict step_again(struct gate *gate, struct gate_command *command,
                               struct gate_effects *effects)
{
    uint32_t item = gate_find_item(gate, command->item);
    struct gate_sale *sale = item != GATE_NONE ? &gate->sales[gate->items[item].sale_slot] : NULL;
    uint8_t state = sale != NULL ? sale->state : 0;
    if (sale != NULL) {
        sale->state = SALE_OPEN;
    }
    command->accepted = true;
    enum verdict verdict = gate_step(gate, command, effects);
    if (sale != NULL) {
        sale->state = state;
    }
    return verdict;
}

static void reserve(struct server_state *state, const struct server_script *script,
                    struct server_answer *answer)
{
    struct gate_command command = script->command;
    if (script->buy) {
        if (script->floor && command.now_ms < state->gate.highest_ms) {
            command.now_ms = state->gate.highest_ms;
        }
        bool full = script->outbox_max != 0 && state->outbox_count >= script->outbox_max;
        if (full && gate_find_order(&state->gate, command.id) == GATE_NONE) {
            answer->verdict = VERDICT_REFUSED;
            answer->effects.refusal = REFUSAL_OVERLOADED;
            answer->effects.bound = GATE_BOUND_OUTBOX;
            return;
        }
        answer->verdict = gate_step(&state->gate, &command, &answer->effects);
    } else {
        command.ticket_expires_ms = UINT64_MAX >> 1;
        command.accepted = true; /* it is not asked for a cooling time that began since */
        answer->verdict = step_again(&state->gate, &command, &answer->effects);
    }
    if (answer->verdict == VERDICT_DONE) {
        command.ticket_expires_ms = script->command.ticket_expires_ms;
        command.accepted = false;
        outbox_add(state, &command, script->now_ms);
        answer->wrote = true;
    }
}

/* TRANSFER_OUT takes what there is, once. */
static void transfer_out(struct server_state *state, const struct server_script *script,
                         struct server_answer *answer)
{
    const struct gate_command *command = &script->command;
    uint32_t slot = gate_find_item(&state->gate, command->item);
    for (size_t i = 0; i < state->transfers_count; i++) {
        if (order_id_equal(state->transfers[i].id, command->id)) {
            answer->verdict = VERDICT_ALREADY_APPLIED;
            answer->taken = state->transfers[i].taken;
            return;
        }
    }
    if (slot == GATE_NONE) {
        answer->verdict = VERDICT_REFUSED;
        answer->effects.refusal = REFUSAL_NO_SUCH_ITEM;
        return;
    }
    struct gate_item *item = &state->gate.items[slot];
    answer->taken = command->amount < item->available ? command->amount : item->available;
    item->available -= answer->taken;
    item->total -= answer->taken;
    item->version++;
    state->transfers = grown(state->transfers, state->transfers_count, &state->transfers_room,
                             sizeof(*state->transfers));
    state->transfers[state->transfers_count++] =
        (struct server_transfer){command->id, answer->taken};
    answer->verdict = VERDICT_DONE;
    answer->wrote = true;
}

/* An order without the units it would move: never so while the segment is whole. */
static bool is_broken(const struct gate *gate, const struct gate_command *command)
{
    uint32_t slot = gate_find_order(gate, command->id);
    if (slot == GATE_NONE || command->kind == GATE_CONFIRM) {
        return false;
    }
    const struct gate_order *order = &gate->orders[slot];
    const struct gate_buyer *buyer = gate_find_buyer(gate, order->item_slot, order->user);
    return gate->items[order->item_slot].locked < order->qty ||
           (command->kind != GATE_PAY && (buyer == NULL || buyer->held < order->qty));
}

static bool moves_order(enum gate_kind kind)
{
    return kind == GATE_CONFIRM || kind == GATE_FAIL_ORDER || kind == GATE_PAY ||
           kind == GATE_CANCEL || kind == GATE_CANCEL_LATE || kind == GATE_CANCEL_COOLING ||
           kind == GATE_EXPIRE || kind == GATE_EXPIRE_COOLING;
}

static struct gate_buyer *buyer_at(struct gate *gate, uint32_t item, uint64_t user)
{
    const struct gate_buyer *there = gate_find_buyer(gate, item, user);
    uint32_t slot =
        there != NULL ? (uint32_t)(there - gate->buyers)
                      : gate_add_buyer(gate, &(struct gate_buyer){.user = user, .item_slot = item});
    return &gate->buyers[slot];
}

/* An order that failed without having been decided here is noted: its buyer sees it, and it was one
 * of his attempts. */
static bool note_failed(struct gate *gate, const struct gate_command *command,
                        struct gate_effects *ret_effects)
{
    uint32_t item = gate_find_item(gate, order_id_item(command->id));
    if (command->kind != GATE_FAIL_ORDER || command->user == 0 || item == GATE_NONE ||
        gate_find_order(gate, command->id) != GATE_NONE) {
        return false;
    }
    buyer_at(gate, item, command->user)->failed_attempts++;
    uint32_t slot = gate_add_order(gate, &(struct gate_order){.id = command->id,
                                                              .user = command->user,
                                                              .item_slot = item,
                                                              .qty = command->qty,
                                                              .created_at_ms = command->now_ms,
                                                              .version = 2,
                                                              .state = ORDER_FAILED,
                                                              .reason = (uint8_t)command->reason});
    gate->applied_event = command->event;
    *ret_effects = (struct gate_effects){.slot = slot, .item_slot = item};
    return true;
}

/* A time of the ledger, as far as it can be by the server's own. */
static int64_t believed_ms(const struct server_script *script, int64_t ledger_ms)
{
    int64_t most_ms = script->now_ms + SEGMENT_CLOCK_OFF_MS;
    return ledger_ms < most_ms ? ledger_ms : most_ms;
}

static void event(struct server_state *state, const struct server_script *script,
                  struct server_answer *answer)
{
    const struct gate_command *command = &script->command;
    struct gate *gate = &state->gate;
    if (command->event <= gate->applied_event) {
        answer->verdict = VERDICT_ALREADY_APPLIED;
        return;
    }
    if (script->after != gate->applied_event) {
        answer->outcome = SEGMENT_GAP;
        return;
    }
    uint32_t slot = gate_find_order(gate, command->id);
    bool would_move = moves_order(command->kind) && slot != GATE_NONE &&
                      !order_state_final((enum order_state)gate->orders[slot].state);
    if (would_move && is_broken(gate, command)) {
        answer->outcome = SEGMENT_BROKEN;
        return;
    }
    int64_t highest_ms = gate->highest_ms;
    answer->verdict = note_failed(gate, command, &answer->effects)
                          ? VERDICT_DONE
                          : gate_step(gate, command, &answer->effects);
    answer->wrote = answer->verdict == VERDICT_DONE || answer->verdict == VERDICT_MORE;
    int64_t time_ms = believed_ms(script, command->now_ms);
    gate->highest_ms = answer->wrote && time_ms > highest_ms ? time_ms : highest_ms;
}

static bool place_fits(const struct server_state *state, const struct server_script *script)
{
    return state->epoch != 0 && state->epoch == script->epoch && state->run == script->run;
}

static void call(struct server_state *state, const struct server_script *script,
                 struct server_answer *answer)
{
    if (!place_fits(state, script) || (script->buy && !state->open)) {
        answer->outcome = SEGMENT_STALE;
        return;
    }
    bool reserves = script->command.kind == GATE_RESERVE;
    if (script->fence < state->fence && script->fence != 0) {
        answer->outcome = SEGMENT_FENCED;
        return;
    }
    if (!reserves && !state->open && script->fence < state->fence) {
        answer->outcome = SEGMENT_STALE; /* half filled: only its rebuilder may apply */
        return;
    }
    if (reserves) {
        reserve(state, script, answer);
    } else if (script->command.kind == GATE_TRANSFER_OUT && script->command.event == 0) {
        transfer_out(state, script, answer);
    } else {
        event(state, script, answer);
    }
    if (answer->wrote && script->fence > state->fence) {
        state->fence = script->fence;
    }
    if (answer->outcome == SEGMENT_DONE && answer->effects.slot != GATE_NONE &&
        answer->verdict != VERDICT_REFUSED && answer->verdict != VERDICT_MORE) {
        answer->has_order = true;
        gate_view_order(&state->gate, answer->effects.slot, &answer->order);
    }
}

/* ---- rebuilding ---- */

static uint32_t share_or_none(uint32_t share)
{
    return share != 0 ? share : UINT32_MAX;
}

static struct gate_shares shares_or_none(struct gate_shares shares)
{
    return (struct gate_shares){
        share_or_none(shares.buyer_orders), share_or_none(shares.item_orders),
        share_or_none(shares.sale_orders), share_or_none(shares.sale_buyers)};
}

static void begin(struct server_state *state, const struct server_script *script,
                  struct server_answer *answer)
{
    if (place_fits(state, script) && (state->open || state->base == script->step.event)) {
        return;
    }
    if (state->epoch >= script->epoch) {
        answer->outcome = SEGMENT_STALE;
        return;
    }
    drop_segment(state);
    state->epoch = script->epoch;
    state->run = script->run;
    state->open = false;
    state->broken = false;
    state->base = script->step.event;
    state->memory = gate_memory(script->step.sizes);
    gate_init(&state->gate, script->step.sizes, state->memory, script->epoch);
    state->gate.shares = shares_or_none(script->step.shares);
    state->gate.applied_event = script->step.event;
    state->gate.highest_ms = believed_ms(script, script->step.highest_ms);
    answer->wrote = true;
}

static void fill_sale(struct gate *gate, const struct segment_step *step)
{
    struct gate_sale row = {.id = step->sale,
                            .starts_at_ms = step->starts_at_ms,
                            .ends_at_ms = step->ends_at_ms,
                            .bar_unpaid = step->bar_unpaid,
                            .state = (uint8_t)step->state};
    uint32_t slot = gate_find_sale(gate, step->sale);
    if (slot == GATE_NONE) {
        (void)gate_add_sale(gate, &row);
        return;
    }
    row.used = 1;
    row.items = gate->sales[slot].items;
    row.live = gate->sales[slot].live;
    row.buyers = gate->sales[slot].buyers;
    gate->sales[slot] = row;
}

static void fill_buyer(struct gate *gate, uint32_t item, const struct segment_step *step)
{
    struct gate_buyer *buyer = buyer_at(gate, item, step->user);
    buyer->held = step->held;
    buyer->failed_attempts = step->failed_attempts;
    buyer->barred = step->barred;
    buyer->cooling_until_ms = step->cooling_until_ms;
}

/* An order may come before its buyer, and again with another state. */
static void fill_order(struct gate *gate, uint32_t item, const struct segment_step *step)
{
    const struct order_view *view = &step->order;
    const struct gate_order entry = {.id = view->id,
                                     .user = view->user,
                                     .item_slot = item,
                                     .qty = view->qty,
                                     .created_at_ms = view->created_at_ms,
                                     .pay_by_ms = view->pay_by_ms,
                                     .version = (uint8_t)view->version,
                                     .state = view->state,
                                     .reason = view->reason};
    struct gate_buyer *buyer = buyer_at(gate, item, view->user);
    uint32_t slot = gate_find_order(gate, view->id);
    if (slot == GATE_NONE) {
        (void)gate_add_order(gate, &entry);
        return;
    }
    struct gate_order *order = &gate->orders[slot];
    uint32_t live = !order_state_final((enum order_state)view->state);
    uint32_t was_live = !order_state_final((enum order_state)order->state);
    struct gate_item *at = &gate->items[item];
    buyer->live += live - was_live;
    at->live += live - was_live;
    gate->sales[at->sale_slot].live += live - was_live;
    order->user = entry.user;
    order->qty = entry.qty;
    order->created_at_ms = entry.created_at_ms;
    order->pay_by_ms = entry.pay_by_ms;
    order->version = entry.version;
    order->state = entry.state;
    order->reason = entry.reason;
}

static void fill_entry(struct gate *gate, uint32_t item, const struct segment_step *step)
{
    if (step->kind == STEP_BUYER) {
        fill_buyer(gate, item, step);
    } else {
        fill_order(gate, item, step);
    }
}

/* Live orders are counted as given, not as found: a real server stores what it is told. */
static void fill_live(struct server_state *state, uint32_t slot, const struct segment_step *step)
{
    struct gate_item *item = &state->gate.items[slot];
    struct gate_sale *sale = &state->gate.sales[item->sale_slot];
    sale->live += step->live - item->live;
    item->live = step->live;
    for (size_t i = 0; i < state->staged_count; i++) {
        const struct segment_step *staged = &state->staged[i];
        if (staged->item == step->item && staged->kind == STEP_BUYER) {
            buyer_at(&state->gate, slot, staged->user)->live = staged->live & INT32_MAX;
        }
    }
}

/* Versions of items grow over epochs, too: each has 2^30 of them. */
static uint64_t fill_version(const struct server_state *state)
{
    return (state->epoch << 30) + 1;
}

/* Buyers and orders may come before their item, as on a server that knows them by key alone. */
static void fill_item(struct server_state *state, const struct segment_step *step)
{
    struct gate *gate = &state->gate;
    uint32_t slot = gate_find_item(gate, step->item);
    if (slot == GATE_NONE) {
        slot =
            gate_add_item(gate, &(struct gate_item){.id = step->item,
                                                    .version = 1,
                                                    .sale_slot = gate_find_sale(gate, step->sale)});
    }
    struct gate_item *item = &gate->items[slot];
    item->total = step->total;
    item->available = step->available;
    item->locked = step->locked;
    item->sold = step->sold;
    item->limit = step->limit;
    for (size_t i = 0; i < state->staged_count; i++) {
        if (state->staged[i].item == step->item) {
            fill_entry(gate, slot, &state->staged[i]);
        }
    }
    fill_live(state, slot, step);
    size_t kept = 0;
    for (size_t i = 0; i < state->staged_count; i++) {
        if (state->staged[i].item == step->item) {
            state->staged_orders -= state->staged[i].kind == STEP_ORDER;
        } else {
            state->staged[kept++] = state->staged[i];
        }
    }
    state->staged_count = kept;
}

/* What has changed since it was filled is left alone: an item with its buyers and orders, a sale once
 * an event has been applied. */
static bool has_changed(const struct server_state *state, const struct segment_step *step)
{
    if (step->kind == STEP_SALE) {
        return state->gate.applied_event != state->base;
    }
    uint32_t slot = gate_find_item(&state->gate, step->item);
    return slot != GATE_NONE && state->gate.items[slot].version != fill_version(state);
}

static bool has_room(const struct server_state *state, const struct segment_step *step)
{
    const struct gate *gate = &state->gate;
    switch (step->kind) {
    case STEP_SALE:
        return gate_find_sale(gate, step->sale) != GATE_NONE ||
               gate->sales_used < gate->sizes.sales;
    case STEP_ITEM:
        return gate_find_sale(gate, step->sale) != GATE_NONE &&
               (gate_find_item(gate, step->item) != GATE_NONE ||
                gate->item_pool.used < gate->sizes.items);
    case STEP_BUYER:
        return gate->buyer_pool.used + state->staged_count - state->staged_orders <
               gate->sizes.buyers;
    default:
        return gate->order_pool.used + state->staged_orders < gate->sizes.orders;
    }
}

static void fill(struct server_state *state, const struct segment_step *step,
                 struct server_answer *answer)
{
    if (!has_room(state, step)) {
        answer->outcome = SEGMENT_BROKEN;
        return;
    }
    if (step->kind == STEP_SALE) {
        fill_sale(&state->gate, step);
    } else if (step->kind == STEP_ITEM) {
        fill_item(state, step);
    } else {
        uint32_t slot = gate_find_item(&state->gate, step->item);
        if (slot != GATE_NONE) {
            fill_entry(&state->gate, slot, step);
        } else {
            state->staged = grown(state->staged, state->staged_count, &state->staged_room,
                                  sizeof(*state->staged));
            state->staged[state->staged_count++] = *step;
            state->staged_orders += step->kind == STEP_ORDER;
        }
    }
    answer->wrote = true;
}

static void step(struct server_state *state, const struct server_script *script,
                 struct server_answer *answer)
{
    if (script->fence < state->fence) {
        answer->outcome = SEGMENT_FENCED;
        return;
    }
    if (script->step.kind == STEP_BEGIN) {
        begin(state, script, answer);
    } else if (!place_fits(state, script)) {
        answer->outcome = SEGMENT_STALE;
    } else if (script->step.kind == STEP_OPEN) {
        answer->wrote = !state->open;
        state->open = true;
    } else if (!state->open && !has_changed(state, &script->step)) {
        fill(state, &script->step, answer);
    }
    if (answer->outcome == SEGMENT_DONE && script->fence > state->fence) {
        state->fence = script->fence;
        answer->wrote = true;
    }
}

/* ---- the outbox ---- */

static bool can_take(const struct server_entry *entry, const struct server_script *script)
{
    if (script->held) {
        return entry->worker == script->worker && entry->number > script->number;
    }
    return entry->worker == SERVER_WORKER_NONE ||
           (entry->worker != script->worker &&
            script->now_ms - entry->since_ms >= script->claim_ms);
}

static void take(struct server_state *state, const struct server_script *script,
                 struct server_answer *answer)
{
    for (size_t i = 0; i < state->outbox_count; i++) {
        struct server_entry *entry = &state->outbox[i];
        if (can_take(entry, script)) {
            entry->worker = script->worker;
            entry->since_ms = script->now_ms;
            answer->entry = *entry;
            answer->wrote = true;
            return;
        }
    }
}

static void done(struct server_state *state, const struct server_script *script,
                 struct server_answer *answer)
{
    for (size_t i = 0; i < state->outbox_count; i++) {
        if (state->outbox[i].number != script->number) {
            continue;
        }
        size_t behind = state->outbox_count - i - 1;
        memmove(&state->outbox[i], &state->outbox[i + 1], behind * sizeof(*state->outbox));
        state->outbox_count--;
        answer->wrote = true;
        return;
    }
}

void server_run(struct server_state *state, const struct server_script *script,
                struct server_answer *ret_answer)
{
    *ret_answer = (struct server_answer){
        .outcome = SEGMENT_DONE,
        .verdict = VERDICT_DONE,
        .effects = {.slot = GATE_NONE, .item_slot = GATE_NONE},
    };
    switch (script->kind) {
    case SCRIPT_CALL:
        call(state, script, ret_answer);
        break;
    case SCRIPT_STEP:
        step(state, script, ret_answer);
        break;
    case SCRIPT_TAKE:
        take(state, script, ret_answer);
        break;
    case SCRIPT_DONE:
        done(state, script, ret_answer);
        break;
    }
}
