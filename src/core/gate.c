/*
 * The gate's step function and its tables. gate.h describes what it is and who may call it.
 *
 * Happy path: RESERVE finds no order with its id, the window is open, units are available, and the
 * buyer is below the limit. Units move from available to locked; the buyer's record and the order
 * are written. Later commands move the order on; step_order() is the only place that does.
 *
 * What can go wrong: nothing but a refusal. A refused command has changed nothing: every condition,
 * room in both pools included, is looked at before the first write. "From here on it succeeds" marks
 * that place in each step.
 *
 * What stays true after every step: available + locked + sold == total for every item, a buyer's
 * held is the sum of his orders alive, every chain ends. Each step checks this for the entries it
 * touched (gate_check.h); gate_audit() checks all of it.
 */
#include "core/gate.h"

#include "base/check.h"
#include "core/gate_check.h"
#include "core/gate_private.h"

const char *gate_kind_text(enum gate_kind kind)
{
    static const char *const texts[] = {"none",
#define X(name, text, fields) text,
                                        GATE_COMMANDS(X)
#undef X
    };
    CHECK((unsigned)kind < GATE_KIND_COUNT);
    return texts[kind];
}

const char *gate_bound_text(enum gate_bound bound)
{
    static const char *const texts[] = {
#define X(name, text) text,
        GATE_BOUNDS(X)
#undef X
    };
    CHECK((unsigned)bound < GATE_BOUND_COUNT);
    return texts[bound];
}

/* ---- memory ---- */

static size_t align64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

static uint32_t bucket_count(uint32_t capacity)
{
    uint32_t n = 64;
    while (n < capacity && n < 1U << 31) {
        n <<= 1;
    }
    return n;
}

static size_t pool_bytes(uint32_t capacity, size_t entry)
{
    return align64((size_t)capacity * entry) + align64((size_t)bucket_count(capacity) * 4);
}

size_t gate_bytes(struct gate_sizes sizes)
{
    return pool_bytes(sizes.orders, sizeof(struct gate_order)) +
           pool_bytes(sizes.buyers, sizeof(struct gate_buyer)) +
           pool_bytes(sizes.items, sizeof(struct gate_item)) +
           align64((size_t)sizes.sales * sizeof(struct gate_sale));
}

static void *take(char **at, size_t n)
{
    void *taken = *at;
    *at += align64(n);
    return taken;
}

static struct gate_table table_over(char **at, uint32_t capacity)
{
    uint32_t buckets = bucket_count(capacity);
    return (struct gate_table){take(at, (size_t)buckets * 4), buckets - 1};
}

void gate_init(struct gate *ret_gate, struct gate_sizes sizes, void *memory, uint64_t hash_key)
{
    char *at = memory;
    *ret_gate = (struct gate){.sizes = sizes,
                              .hash_key = hash_key,
                              .shares = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}};
    ret_gate->orders = take(&at, (size_t)sizes.orders * sizeof(struct gate_order));
    ret_gate->order_table = table_over(&at, sizes.orders);
    ret_gate->order_pool.capacity = sizes.orders;
    ret_gate->buyers = take(&at, (size_t)sizes.buyers * sizeof(struct gate_buyer));
    ret_gate->buyer_table = table_over(&at, sizes.buyers);
    ret_gate->buyer_pool.capacity = sizes.buyers;
    ret_gate->items = take(&at, (size_t)sizes.items * sizeof(struct gate_item));
    ret_gate->item_table = table_over(&at, sizes.items);
    ret_gate->item_pool.capacity = sizes.items;
    ret_gate->sales = take(&at, (size_t)sizes.sales * sizeof(struct gate_sale));
    CHECK((size_t)(at - (char *)memory) == gate_bytes(sizes));
}

/* Rounded up, so that every share of a pool is at least one entry. */
static uint32_t share_of(uint32_t capacity, uint32_t percent, uint32_t least)
{
    uint64_t share = ((uint64_t)capacity * percent + 99) / 100;
    return percent >= 100 ? UINT32_MAX : share < least ? least : (uint32_t)share;
}

struct gate_shares gate_shares_of(struct gate_sizes sizes, struct gate_percents percents)
{
    /* A limit per buyer is seldom above this; a small gate is not for one buyer all the same. */
    uint32_t least =
        sizes.orders / 10 < GATE_BUYER_SHARE_LEAST ? sizes.orders / 10 : GATE_BUYER_SHARE_LEAST;
    return (struct gate_shares){
        .buyer_orders = share_of(sizes.orders, percents.buyer, least),
        .item_orders = share_of(sizes.orders, percents.item, 1),
        .sale_orders = share_of(sizes.orders, percents.sale, 1),
        .sale_buyers = share_of(sizes.buyers, percents.sale, 1),
    };
}

void gate_limit(struct gate *gate, struct gate_percents percents)
{
    gate->shares = gate_shares_of(gate->sizes, percents);
}

/* ---- look-ups ---- */

static inline uint32_t find_order(const struct gate *gate, const uint32_t *bucket,
                                  struct order_id id)
{
    uint32_t link = *bucket;
    while (link != 0 && !order_id_equal(gate->orders[link - 1].id, id)) {
        link = gate->orders[link - 1].next_hash;
    }
    return link - 1; /* 0 - 1 is GATE_NONE */
}

uint32_t gate_find_order(const struct gate *gate, struct order_id id)
{
    return find_order(gate, order_bucket(gate, id), id);
}

uint32_t gate_find_item(const struct gate *gate, uint64_t item)
{
    uint32_t link = *item_bucket(gate, item);
    while (link != 0 && gate->items[link - 1].id != item) {
        link = gate->items[link - 1].next_hash;
    }
    return link - 1;
}

uint32_t gate_find_sale(const struct gate *gate, uint64_t sale)
{
    for (uint32_t i = 0; i < gate->sizes.sales; i++) {
        if (gate->sales[i].used && gate->sales[i].id == sale) {
            return i;
        }
    }
    return GATE_NONE;
}

const struct gate_buyer *gate_find_buyer(const struct gate *gate, uint32_t item_slot, uint64_t user)
{
    return find_buyer(gate, buyer_bucket(gate, item_slot, user), item_slot, user);
}

void gate_view_order(const struct gate *gate, uint32_t slot, struct order_view *ret_view)
{
    const struct gate_order *order = &gate->orders[slot];
    *ret_view = (struct order_view){
        .id = order->id,
        .user = order->user,
        .item = gate->items[order->item_slot].id,
        .qty = order->qty,
        .state = order->state,
        .reason = order->reason,
        .version = order->version,
        .created_at_ms = order->created_at_ms,
        .pay_by_ms = order->pay_by_ms,
        .lsn = order->lsn,
    };
}

void gate_view_item(const struct gate *gate, uint32_t item_slot, struct item_view *ret_view)
{
    const struct gate_item *item = &gate->items[item_slot];
    const struct gate_sale *sale = &gate->sales[item->sale_slot];
    *ret_view = (struct item_view){
        .item = item->id,
        .sale = sale->id,
        .total = item->total,
        .available = item->available,
        .locked = item->locked,
        .sold = item->sold,
        .limit_per_user = item->limit,
        .sale_state = sale->state,
        .starts_at_ms = sale->starts_at_ms,
        .ends_at_ms = sale->ends_at_ms,
        .version = item->version,
    };
}

enum sale_state gate_sale_state_at(const struct gate_sale *sale, int64_t now_ms)
{
    if (sale->state == SALE_CLOSED || now_ms >= sale->ends_at_ms) {
        return SALE_CLOSED;
    }
    if (sale->state == SALE_WARM && now_ms >= sale->starts_at_ms) {
        return SALE_OPEN;
    }
    return (enum sale_state)sale->state;
}

/* ---- entries ---- */

/* Behind the order of the link `after` in its item's list; 0: in front of all. */
static uint32_t add_order(struct gate *gate, uint32_t *bucket, struct gate_buyer *buyer,
                          const struct gate_order *order, uint32_t after)
{
    CHECK(!index_pool_full(&gate->order_pool) && buyer != NULL);
    uint32_t slot = index_pool_take(&gate->order_pool, order_links(gate));
    struct gate_item *item = &gate->items[order->item_slot];
    gate->orders[slot] = *order;
    index_chain_add(bucket, order_links(gate), slot);
    index_list_insert(&item->orders, item_order_links(gate), slot, after);
    if (!order_state_final((enum order_state)order->state)) {
        buyer->live++;
        item->live++;
        gate->sales[item->sale_slot].live++;
    }
    return slot;
}

uint32_t gate_add_order(struct gate *gate, const struct gate_order *order)
{
    const uint32_t *bucket = buyer_bucket(gate, order->item_slot, order->user);
    struct gate_buyer *buyer = find_buyer(gate, bucket, order->item_slot, order->user);
    return add_order(gate, order_bucket(gate, order->id), buyer, order,
                     gate->items[order->item_slot].orders.last);
}

static uint32_t add_buyer(struct gate *gate, uint32_t *bucket, const struct gate_buyer *buyer)
{
    CHECK(!index_pool_full(&gate->buyer_pool));
    uint32_t slot = index_pool_take(&gate->buyer_pool, buyer_links(gate));
    struct gate_item *item = &gate->items[buyer->item_slot];
    gate->buyers[slot] = *buyer;
    gate->buyers[slot].live = 0;
    index_chain_add(bucket, buyer_links(gate), slot);
    index_chain_add(&item->buyers, INDEX_LINKS(gate->buyers, next_item), slot);
    gate->sales[item->sale_slot].buyers++;
    return slot;
}

uint32_t gate_add_buyer(struct gate *gate, const struct gate_buyer *buyer)
{
    return add_buyer(gate, buyer_bucket(gate, buyer->item_slot, buyer->user), buyer);
}

uint32_t gate_add_item(struct gate *gate, const struct gate_item *item)
{
    CHECK(!index_pool_full(&gate->item_pool));
    uint32_t slot = index_pool_take(&gate->item_pool, item_links(gate));
    uint32_t *bucket = item_bucket(gate, item->id);
    CHECK(!gate->items[slot].used);
    gate->items[slot] = *item;
    gate->items[slot].used = 1;
    gate->items[slot].orders = (struct index_list){0, 0};
    gate->items[slot].buyers = 0;
    gate->items[slot].live = 0;
    index_chain_add(bucket, item_links(gate), slot);
    gate->sales[item->sale_slot].items++;
    return slot;
}

uint32_t gate_add_sale(struct gate *gate, const struct gate_sale *sale)
{
    for (uint32_t i = 0; i < gate->sizes.sales; i++) {
        if (!gate->sales[i].used) {
            gate->sales[i] = *sale;
            gate->sales[i].used = 1;
            gate->sales[i].items = 0;
            gate->sales[i].live = 0;
            gate->sales[i].buyers = 0;
            gate->sales_used++;
            return i;
        }
    }
    return GATE_NONE;
}

/* ---- the step ---- */

/* The window. The first refusal that applies: ended, not started, paused. */
static enum refusal window_refusal(const struct gate_sale *sale, int64_t now_ms)
{
    switch (gate_sale_state_at(sale, now_ms)) {
    case SALE_CLOSED:
        return REFUSAL_ENDED;
    case SALE_WARM:
        return REFUSAL_TOO_EARLY;
    case SALE_OPEN:
        return now_ms < sale->starts_at_ms ? REFUSAL_TOO_EARLY : REFUSAL_NONE;
    default:
        return REFUSAL_NOT_OPEN;
    }
}

static enum verdict existing_order(const struct gate *gate, const struct gate_command *command,
                                   uint32_t slot, struct gate_effects *effects)
{
    const struct gate_order *order = &gate->orders[slot];
    if (order->user != command->user) {
        return refuse(effects, REFUSAL_BAD_TICKET);
    }
    if (order->qty != command->qty) {
        return refuse(effects, REFUSAL_DIFFERENT_REQUEST);
    }
    effects->slot = slot;
    return VERDICT_ALREADY_APPLIED;
}

/* An ORDER_ONCE id must be of this buyer and carry the present number of failed attempts. It is
 * required if the limit is 1, and not allowed otherwise. */
static bool id_fits(const struct gate_command *command, const struct gate_item *item,
                    const struct gate_buyer *buyer)
{
    if (order_id_kind(command->id) == ORDER_ONCE) {
        return item->limit == 1 && order_id_user(command->id) == command->user &&
               order_id_attempt(command->id) == (buyer != NULL ? buyer->failed_attempts : 0);
    }
    return item->limit != 1;
}

/* Where a RESERVE's order and buyer are, or belong. */
struct reserve_places {
    uint32_t *order_bucket;
    uint32_t *buyer_bucket;
    struct gate_buyer *buyer; /* NULL: he never won a unit of the item */
};

/* Effects: the item, and its numbers and the buyer's before the step. Nothing here is refused. */
static void reserve_units(struct gate *gate, const struct gate_command *command,
                          const struct reserve_places *places, struct gate_effects *effects)
{
    uint32_t held = effects->held;
    uint64_t locked = effects->locked;
    struct gate_item *item = &gate->items[effects->item_slot];
    struct gate_buyer *buyer = places->buyer;
    if (buyer == NULL) {
        struct gate_buyer entry = {.user = command->user, .item_slot = effects->item_slot};
        buyer = &gate->buyers[add_buyer(gate, places->buyer_bucket, &entry)];
    }
    struct gate_order entry = {.id = command->id,
                               .user = command->user,
                               .created_at_ms = command->now_ms,
                               .qty = command->qty,
                               .item_slot = effects->item_slot,
                               .version = 1,
                               .state = ORDER_QUEUED};
    effects->slot = add_order(gate, places->order_bucket, buyer, &entry, 0);
    buyer->held += command->qty;
    item->available -= command->qty;
    item->locked += command->qty;
    item->version++;
    effects->held = buyer->held;
    effects->available = item->available;
    effects->locked = item->locked;
    gate_check_reserved(&gate->orders[effects->slot], buyer, item, held, locked);
}

/* What has no room for one more order, and one more buyer if he has no record yet; GATE_BOUND_NONE:
 * there is room. The pools come first, because a replayed record needs them, too. */
static enum gate_bound full_bound(const struct gate *gate, const struct gate_command *command,
                                  const struct gate_item *item, const struct gate_buyer *buyer)
{
    const struct gate_sale *sale = &gate->sales[item->sale_slot];
    const struct gate_shares *shares = &gate->shares;
    if (index_pool_full(&gate->order_pool)) {
        return GATE_BOUND_ORDERS;
    }
    if (buyer == NULL && index_pool_full(&gate->buyer_pool)) {
        return GATE_BOUND_BUYERS;
    }
    if (buyer != NULL && buyer->held > UINT32_MAX - command->qty) {
        return GATE_BOUND_UNITS;
    }
    if (command->accepted) {
        return GATE_BOUND_NONE;
    }
    if (buyer != NULL && buyer->live >= shares->buyer_orders) {
        return GATE_BOUND_BUYER_SHARE;
    }
    if (item->live >= shares->item_orders) {
        return GATE_BOUND_ITEM_SHARE;
    }
    if (sale->live >= shares->sale_orders) {
        return GATE_BOUND_SALE_SHARE;
    }
    return buyer == NULL && sale->buyers >= shares->sale_buyers ? GATE_BOUND_SALE_BUYERS
                                                                : GATE_BOUND_NONE;
}

/* The order may have been evicted, and the ledger was not asked since. An order that was evicted
 * after the ledger was asked has an LSN above that moment's. A buyer without a record never had an
 * order of the item: records stay. */
static bool must_ask_ledger(const struct gate *gate, const struct gate_command *command,
                            uint32_t item_slot, const struct gate_buyer *buyer)
{
    bool asked =
        command->absent_lsn != 0 && gate->items[item_slot].evicted_lsn <= command->absent_lsn;
    return buyer != NULL && !command->accepted && !asked &&
           gate_maybe_evicted(gate, item_slot, command->id);
}

/* A decision that was made before the cooling time began is not asked for it when it is made again. */
static bool is_barred(const struct gate_buyer *buyer, const struct gate_command *command)
{
    return buyer->barred || (command->now_ms < buyer->cooling_until_ms && !command->accepted);
}

static enum verdict step_reserve(struct gate *gate, const struct gate_command *command,
                                 struct gate_effects *effects)
{
    uint32_t item_slot = gate_find_item(gate, command->item);
    if (item_slot == GATE_NONE || order_id_item(command->id) != command->item) {
        return refuse(effects, REFUSAL_NO_SUCH_ITEM);
    }
    const struct gate_item *item = &gate->items[item_slot];
    uint32_t *bucket = buyer_bucket(gate, item_slot, command->user);
    struct gate_buyer *buyer = find_buyer(gate, bucket, item_slot, command->user);
    struct reserve_places places = {order_bucket(gate, command->id), bucket, buyer};
    effects->item_slot = item_slot;
    effects->held = buyer != NULL ? buyer->held : 0;
    effects->limit = item->limit;
    effects->available = item->available;
    effects->locked = item->locked;
    uint32_t slot = find_order(gate, places.order_bucket, command->id);
    if (slot != GATE_NONE) {
        return existing_order(gate, command, slot, effects);
    }
    if (must_ask_ledger(gate, command, item_slot, buyer)) {
        effects->ask_ledger = true;
        return refuse(effects, REFUSAL_UNKNOWN_OUTCOME);
    }
    if (command->now_ms >= (int64_t)command->ticket_expires_ms || !id_fits(command, item, buyer)) {
        return refuse(effects, REFUSAL_BAD_TICKET);
    }
    enum refusal window = window_refusal(&gate->sales[item->sale_slot], command->now_ms);
    if (window != REFUSAL_NONE) {
        return refuse(effects, window);
    }
    if (item->available == 0) {
        return refuse(effects, REFUSAL_SOLD_OUT);
    }
    if (buyer != NULL && is_barred(buyer, command)) {
        effects->cooling_until_ms = buyer->cooling_until_ms;
        return refuse(effects, REFUSAL_BARRED);
    }
    if (buyer != NULL && buyer->failed_attempts >= BUYER_FAILED_ATTEMPTS_MAX) {
        return refuse(effects, REFUSAL_LIMIT_REACHED);
    }
    if (item->limit > 0 && (uint64_t)effects->held + command->qty > item->limit) {
        return refuse(effects, REFUSAL_LIMIT_REACHED);
    }
    if (command->qty > item->available) {
        return refuse(effects, REFUSAL_SOLD_OUT);
    }
    effects->bound = full_bound(gate, command, item, buyer);
    if (effects->bound != GATE_BOUND_NONE) {
        return refuse(effects, REFUSAL_OVERLOADED);
    }
    /* From here on it succeeds. */
    reserve_units(gate, command, &places, effects);
    return VERDICT_DONE;
}

/* Takes the units of an order that ended unsold from the buyer. The next ORDER_ONCE id is a new
 * one, unless the buyer is barred. A later cooling time never ends an earlier one sooner. */
static void buyer_lets_go(struct gate *gate, const struct gate_order *order, bool bar,
                          int64_t cooling_until_ms)
{
    uint32_t *bucket = buyer_bucket(gate, order->item_slot, order->user);
    struct gate_buyer *buyer = find_buyer(gate, bucket, order->item_slot, order->user);
    CHECK(buyer != NULL && buyer->held >= order->qty);
    CHECK(gate_buyer_in_limit(buyer, &gate->items[order->item_slot]));
    uint32_t held = buyer->held;
    buyer->held -= order->qty;
    if (bar) {
        buyer->barred = true;
    } else {
        buyer->failed_attempts++;
    }
    if (buyer->barred) {
        buyer->cooling_until_ms = 0;
    } else if (cooling_until_ms > buyer->cooling_until_ms) {
        buyer->cooling_until_ms = cooling_until_ms;
    }
    CHECK(buyer->held == held - order->qty);
}

static void move_units(struct gate *gate, const struct gate_order *order, enum order_move move,
                       const struct gate_command *command)
{
    struct gate_item *item = &gate->items[order->item_slot];
    const struct gate_sale *sale = &gate->sales[item->sale_slot];
    item->version++;
    if (move == MOVE_CONFIRM) {
        return;
    }
    CHECK(item->locked >= order->qty);
    item->locked -= order->qty;
    if (move == MOVE_PAY) {
        item->sold += order->qty;
        return;
    }
    if (move == MOVE_REFUSE && command->reason == REFUSAL_NO_STOCK) {
        item->total -= order->qty; /* the units never existed: write them off */
    } else {
        item->available += order->qty;
    }
    bool cools = command->kind == GATE_CANCEL_COOLING || command->kind == GATE_EXPIRE_COOLING;
    buyer_lets_go(gate, order,
                  command->kind == GATE_CANCEL_LATE ||
                      (move == MOVE_EXPIRE && sale->bar_unpaid != 0),
                  cools ? (int64_t)command->time_ms : 0);
}

static enum verdict step_order(struct gate *gate, const struct gate_command *command,
                               enum order_move move, struct gate_effects *effects)
{
    uint32_t slot = gate_find_order(gate, command->id);
    if (slot == GATE_NONE) {
        return refuse(effects, REFUSAL_NOT_FOUND);
    }
    struct gate_order *order = &gate->orders[slot];
    enum order_state to = order_move_to(move);
    effects->slot = slot;
    effects->item_slot = order->item_slot;
    if (order->state == to) {
        return VERDICT_ALREADY_APPLIED;
    }
    if (order->state != order_move_from(move)) {
        return refuse(effects, REFUSAL_BAD_STATE);
    }
    /* From here on it succeeds. */
    struct gate_item *item = &gate->items[order->item_slot];
    uint64_t locked = item->locked;
    uint64_t sold = item->sold;
    order->state = (uint8_t)to;
    order->version++;
    if (order_state_final(to)) {
        uncount_live(gate, order);
    }
    if (move == MOVE_CONFIRM) {
        order->pay_by_ms = (int64_t)command->time_ms;
    } else if (move == MOVE_REFUSE) {
        order->reason = (uint8_t)command->reason;
    } else if (command->kind == GATE_CANCEL_LATE) {
        order->reason = (uint8_t)REFUSAL_BARRED;
    }
    move_units(gate, order, move, command);
    effects->available = item->available;
    effects->locked = item->locked;
    gate_check_moved(order, item, locked, sold);
    return VERDICT_DONE;
}

static enum verdict step_stock(struct gate *gate, const struct gate_command *command,
                               struct gate_effects *effects)
{
    uint32_t slot = gate_find_item(gate, command->item);
    if (slot == GATE_NONE) {
        return refuse(effects, REFUSAL_NO_SUCH_ITEM);
    }
    struct gate_item *item = &gate->items[slot];
    const struct gate_item before = *item;
    bool out = command->kind == GATE_TRANSFER_OUT;
    effects->item_slot = slot;
    effects->available = item->available;
    if (out && item->available < command->amount) {
        return refuse(effects, REFUSAL_SOLD_OUT);
    }
    if (!out && (command->amount > STOCK_MAX || item->total + command->amount > STOCK_MAX)) {
        return refuse(effects, REFUSAL_BAD_REQUEST);
    }
    /* From here on it succeeds. */
    if (out) {
        item->available -= command->amount;
        item->total -= command->amount;
    } else {
        item->available += command->amount;
        item->total += command->amount;
    }
    item->version++;
    effects->available = item->available;
    effects->locked = item->locked;
    gate_check_stock(item, &before, command);
    return VERDICT_DONE;
}

static enum verdict step_load_sale(struct gate *gate, const struct gate_command *command,
                                   struct gate_effects *effects)
{
    if (gate_find_sale(gate, command->sale) != GATE_NONE) {
        return VERDICT_ALREADY_APPLIED;
    }
    if (gate->sales_used == gate->sizes.sales) {
        effects->bound = GATE_BOUND_SALES;
        return refuse(effects, REFUSAL_OVERLOADED);
    }
    /* From here on it succeeds. */
    uint32_t slot =
        gate_add_sale(gate, &(struct gate_sale){.id = command->sale,
                                                .starts_at_ms = (int64_t)command->starts_at_ms,
                                                .ends_at_ms = (int64_t)command->ends_at_ms,
                                                .bar_unpaid = command->bar_unpaid,
                                                .state = SALE_WARM});
    CHECK(slot == gate_find_sale(gate, command->sale) && gate->sales_used <= gate->sizes.sales);
    return VERDICT_DONE;
}

static enum verdict step_load_item(struct gate *gate, const struct gate_command *command,
                                   struct gate_effects *effects)
{
    uint32_t sale_slot = gate_find_sale(gate, command->sale);
    if (sale_slot == GATE_NONE) {
        return refuse(effects, REFUSAL_NOT_FOUND);
    }
    if (gate_find_item(gate, command->item) != GATE_NONE) {
        return VERDICT_ALREADY_APPLIED;
    }
    if (command->amount > STOCK_MAX) {
        return refuse(effects, REFUSAL_BAD_REQUEST);
    }
    if (index_pool_full(&gate->item_pool)) {
        effects->bound = GATE_BOUND_ITEMS;
        return refuse(effects, REFUSAL_OVERLOADED);
    }
    /* From here on it succeeds. */
    effects->item_slot = gate_add_item(gate, &(struct gate_item){.id = command->item,
                                                                 .total = command->amount,
                                                                 .available = command->amount,
                                                                 .version = 1,
                                                                 .sale_slot = sale_slot,
                                                                 .limit = command->limit});
    effects->available = command->amount;
    CHECK(effects->item_slot == gate_find_item(gate, command->item));
    CHECK(gate_item_adds_up(&gate->items[effects->item_slot]));
    return VERDICT_DONE;
}

/* Items show their sale's state, so their versions move with it. Returns how many there are. */
static uint32_t touch_items(struct gate *gate, uint32_t sale_slot)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < gate->item_pool.fresh; i++) {
        if (gate->items[i].used && gate->items[i].sale_slot == sale_slot) {
            gate->items[i].version++;
            count++;
        }
    }
    return count;
}

static enum verdict step_sale(struct gate *gate, const struct gate_command *command,
                              struct gate_effects *effects)
{
    uint32_t slot = gate_find_sale(gate, command->sale);
    if (slot == GATE_NONE) {
        return refuse(effects, REFUSAL_NOT_FOUND);
    }
    struct gate_sale *sale = &gate->sales[slot];
    /* Closed is final. Its end may still be sent again (a change of the name does that). */
    if (sale->state == SALE_CLOSED && command->kind != GATE_CLOSE && command->kind != GATE_RETIME) {
        return refuse(effects, REFUSAL_BAD_STATE);
    }
    /* From here on it succeeds. */
    switch (command->kind) {
    case GATE_OPEN:
        sale->state = SALE_OPEN;
        sale->starts_at_ms = (int64_t)command->starts_at_ms;
        break;
    case GATE_PAUSE:
        sale->state = SALE_PAUSED;
        break;
    case GATE_CLOSE:
        sale->state = SALE_CLOSED;
        break;
    default:
        sale->ends_at_ms = (int64_t)command->ends_at_ms;
        break;
    }
    uint32_t touched = touch_items(gate, slot);
    CHECK(touched == sale->items);
    return VERDICT_DONE;
}

static enum verdict dispatch(struct gate *gate, const struct gate_command *command,
                             struct gate_effects *effects)
{
    switch (command->kind) {
    case GATE_RESERVE:
        return step_reserve(gate, command, effects);
    case GATE_CONFIRM:
        return step_order(gate, command, MOVE_CONFIRM, effects);
    case GATE_FAIL_ORDER:
        return step_order(gate, command, MOVE_REFUSE, effects);
    case GATE_PAY:
        return step_order(gate, command, MOVE_PAY, effects);
    case GATE_CANCEL:
    case GATE_CANCEL_LATE:
    case GATE_CANCEL_COOLING:
        return step_order(gate, command, MOVE_CANCEL, effects);
    case GATE_EXPIRE:
    case GATE_EXPIRE_COOLING:
        return step_order(gate, command, MOVE_EXPIRE, effects);
    case GATE_RESTOCK:
    case GATE_TRANSFER_OUT:
    case GATE_TRANSFER_IN:
        return step_stock(gate, command, effects);
    case GATE_LOAD_SALE:
        return step_load_sale(gate, command, effects);
    case GATE_LOAD_ITEM:
        return step_load_item(gate, command, effects);
    case GATE_OPEN:
    case GATE_PAUSE:
    case GATE_CLOSE:
    case GATE_RETIME:
        return step_sale(gate, command, effects);
    case GATE_FORGET:
        return gate_step_forget(gate, command, effects);
    case GATE_SKIP:
        return VERDICT_DONE;
    case GATE_EVICT:
        return gate_step_evict(gate, command, effects);
    case GATE_SET_TIME:
    case GATE_KIND_NONE:
    case GATE_KIND_COUNT:
        break;
    }
    return refuse(effects, REFUSAL_BAD_REQUEST);
}

enum verdict gate_step(struct gate *gate, const struct gate_command *command,
                       struct gate_effects *ret_effects)
{
    *ret_effects = (struct gate_effects){.slot = GATE_NONE, .item_slot = GATE_NONE};
    if (command->kind == GATE_SET_TIME) {
        gate->highest_ms = command->now_ms;
        return VERDICT_DONE;
    }
    bool follows = command->kind != GATE_RESERVE && command->kind != GATE_EVICT;
    if (follows && command->event <= gate->applied_event) {
        return VERDICT_ALREADY_APPLIED;
    }
    enum verdict verdict = dispatch(gate, command, ret_effects);
    if (verdict == VERDICT_DONE || verdict == VERDICT_MORE) {
        CHECK(ret_effects->refusal == REFUSAL_NONE);
        if (command->now_ms > gate->highest_ms) {
            gate->highest_ms = command->now_ms;
        }
    }
    if (follows && verdict == VERDICT_DONE) {
        gate->applied_event = command->event;
    }
    return verdict;
}
