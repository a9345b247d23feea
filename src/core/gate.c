/*
 * The gate's step function and its tables. gate.h describes what it is and who may call it.
 *
 * Happy path: RESERVE finds no order with its id, the window is open, units are available, and the
 * buyer is below the limit. Units move from available to locked; the buyer's record and the order
 * are written. Later commands move the order on; step_order() is the only place that does.
 *
 * What can go wrong: a command can be refused. A refused command has changed nothing: all checks,
 * including room in both pools, come before the first write.
 *
 * Invariants after every step: available + locked + sold == total for every item, a buyer's held is
 * the sum of the buyer's live orders, every chain ends. gate_audit() checks all of it.
 */
#include "core/gate.h"

#include "base/check.h"

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

static struct gate_pool pool_over(char **at, uint32_t capacity)
{
    uint32_t buckets = bucket_count(capacity);
    return (struct gate_pool){
        .buckets = take(at, (size_t)buckets * 4), .bucket_mask = buckets - 1, .capacity = capacity};
}

void gate_init(struct gate *ret_gate, struct gate_sizes sizes, void *memory, uint64_t hash_key)
{
    char *at = memory;
    *ret_gate = (struct gate){.sizes = sizes, .hash_key = hash_key};
    ret_gate->orders = take(&at, (size_t)sizes.orders * sizeof(struct gate_order));
    ret_gate->order_pool = pool_over(&at, sizes.orders);
    ret_gate->buyers = take(&at, (size_t)sizes.buyers * sizeof(struct gate_buyer));
    ret_gate->buyer_pool = pool_over(&at, sizes.buyers);
    ret_gate->items = take(&at, (size_t)sizes.items * sizeof(struct gate_item));
    ret_gate->item_pool = pool_over(&at, sizes.items);
    ret_gate->sales = take(&at, (size_t)sizes.sales * sizeof(struct gate_sale));
    CHECK((size_t)(at - (char *)memory) == gate_bytes(sizes));
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

static bool pool_full(const struct gate_pool *pool)
{
    return pool->used == pool->capacity;
}

/* ---- look-ups ---- */

static uint32_t *order_bucket(const struct gate *gate, struct order_id id)
{
    uint64_t h = mix(mix(id.hi ^ gate->hash_key) ^ id.lo);
    return &gate->order_pool.buckets[h & gate->order_pool.bucket_mask];
}

static uint32_t *buyer_bucket(const struct gate *gate, uint32_t item_slot, uint64_t user)
{
    uint64_t h = mix(mix(user ^ gate->hash_key) ^ item_slot);
    return &gate->buyer_pool.buckets[h & gate->buyer_pool.bucket_mask];
}

static uint32_t *item_bucket(const struct gate *gate, uint64_t item)
{
    return &gate->item_pool.buckets[mix(item ^ gate->hash_key) & gate->item_pool.bucket_mask];
}

uint32_t gate_find_order(const struct gate *gate, struct order_id id)
{
    uint32_t link = *order_bucket(gate, id);
    while (link != 0 && !order_id_equal(gate->orders[link - 1].id, id)) {
        link = gate->orders[link - 1].next_hash;
    }
    return link - 1; /* 0 - 1 is GATE_NONE */
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

static struct gate_buyer *find_buyer(const struct gate *gate, uint32_t item_slot, uint64_t user)
{
    uint32_t link = *buyer_bucket(gate, item_slot, user);
    while (link != 0) {
        struct gate_buyer *buyer = &gate->buyers[link - 1];
        if (buyer->user == user && buyer->item_slot == item_slot) {
            return buyer;
        }
        link = buyer->next_hash;
    }
    return NULL;
}

const struct gate_buyer *gate_find_buyer(const struct gate *gate, uint32_t item_slot, uint64_t user)
{
    return find_buyer(gate, item_slot, user);
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

/* A slot of a pool that has room: from the free list, or the next one never used. */
static uint32_t order_take(struct gate *gate)
{
    struct gate_pool *pool = &gate->order_pool;
    pool->used++;
    if (pool->free != 0) {
        uint32_t slot = pool->free - 1;
        pool->free = gate->orders[slot].next_hash;
        return slot;
    }
    return pool->fresh++;
}

static uint32_t buyer_take(struct gate *gate)
{
    struct gate_pool *pool = &gate->buyer_pool;
    pool->used++;
    if (pool->free != 0) {
        uint32_t slot = pool->free - 1;
        pool->free = gate->buyers[slot].next_hash;
        return slot;
    }
    return pool->fresh++;
}

static uint32_t item_take(struct gate *gate)
{
    struct gate_pool *pool = &gate->item_pool;
    pool->used++;
    if (pool->free != 0) {
        uint32_t slot = pool->free - 1;
        pool->free = gate->items[slot].next_hash;
        return slot;
    }
    return pool->fresh++;
}

uint32_t gate_add_order(struct gate *gate, const struct gate_order *order)
{
    CHECK(!pool_full(&gate->order_pool));
    uint32_t slot = order_take(gate);
    struct gate_item *item = &gate->items[order->item_slot];
    uint32_t *bucket = order_bucket(gate, order->id);
    gate->orders[slot] = *order;
    gate->orders[slot].used = 1;
    gate->orders[slot].next_hash = *bucket;
    gate->orders[slot].next_item = item->orders;
    *bucket = slot + 1;
    item->orders = slot + 1;
    return slot;
}

uint32_t gate_add_buyer(struct gate *gate, const struct gate_buyer *buyer)
{
    CHECK(!pool_full(&gate->buyer_pool));
    uint32_t slot = buyer_take(gate);
    struct gate_item *item = &gate->items[buyer->item_slot];
    uint32_t *bucket = buyer_bucket(gate, buyer->item_slot, buyer->user);
    gate->buyers[slot] = *buyer;
    gate->buyers[slot].next_hash = *bucket;
    gate->buyers[slot].next_item = item->buyers;
    *bucket = slot + 1;
    item->buyers = slot + 1;
    return slot;
}

uint32_t gate_add_item(struct gate *gate, const struct gate_item *item)
{
    CHECK(!pool_full(&gate->item_pool));
    uint32_t slot = item_take(gate);
    uint32_t *bucket = item_bucket(gate, item->id);
    gate->items[slot] = *item;
    gate->items[slot].used = 1;
    gate->items[slot].orders = 0;
    gate->items[slot].buyers = 0;
    gate->items[slot].next_hash = *bucket;
    *bucket = slot + 1;
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
            gate->sales_used++;
            return i;
        }
    }
    return GATE_NONE;
}

/* ---- the step ---- */

static enum verdict refuse(struct gate_effects *effects, enum refusal refusal)
{
    effects->refusal = refusal;
    return VERDICT_REFUSED;
}

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

static void reserve_units(struct gate *gate, const struct gate_command *command, uint32_t item_slot,
                          struct gate_buyer *buyer, struct gate_effects *effects)
{
    struct gate_item *item = &gate->items[item_slot];
    if (buyer == NULL) {
        uint32_t slot = gate_add_buyer(
            gate, &(struct gate_buyer){.user = command->user, .item_slot = item_slot});
        buyer = &gate->buyers[slot];
    }
    effects->slot = gate_add_order(gate, &(struct gate_order){.id = command->id,
                                                              .user = command->user,
                                                              .created_at_ms = command->now_ms,
                                                              .qty = command->qty,
                                                              .item_slot = item_slot,
                                                              .version = 1,
                                                              .state = ORDER_QUEUED});
    buyer->held += command->qty;
    item->available -= command->qty;
    item->locked += command->qty;
    item->version++;
    effects->held = buyer->held;
    effects->available = item->available;
    effects->locked = item->locked;
}

static enum verdict step_reserve(struct gate *gate, const struct gate_command *command,
                                 struct gate_effects *effects)
{
    uint32_t item_slot = gate_find_item(gate, command->item);
    if (item_slot == GATE_NONE || order_id_item(command->id) != command->item) {
        return refuse(effects, REFUSAL_NO_SUCH_ITEM);
    }
    const struct gate_item *item = &gate->items[item_slot];
    struct gate_buyer *buyer = find_buyer(gate, item_slot, command->user);
    effects->item_slot = item_slot;
    effects->held = buyer != NULL ? buyer->held : 0;
    effects->limit = item->limit;
    effects->available = item->available;
    effects->locked = item->locked;
    uint32_t slot = gate_find_order(gate, command->id);
    if (slot != GATE_NONE) {
        return existing_order(gate, command, slot, effects);
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
    if (buyer != NULL && buyer->barred) {
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
    if (pool_full(&gate->order_pool) || (buyer == NULL && pool_full(&gate->buyer_pool)) ||
        effects->held > UINT32_MAX - command->qty) {
        return refuse(effects, REFUSAL_OVERLOADED);
    }
    reserve_units(gate, command, item_slot, buyer, effects);
    return VERDICT_DONE;
}

/* Takes the units of an order that ended unsold from the buyer. The next ORDER_ONCE id is a new
 * one, unless the buyer is barred. */
static void buyer_lets_go(struct gate *gate, const struct gate_order *order, bool bar)
{
    struct gate_buyer *buyer = find_buyer(gate, order->item_slot, order->user);
    CHECK(buyer != NULL && buyer->held >= order->qty);
    buyer->held -= order->qty;
    if (bar) {
        buyer->barred = 1;
    } else {
        buyer->failed_attempts++;
    }
}

static void move_units(struct gate *gate, const struct gate_order *order, enum order_move move,
                       enum refusal reason)
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
    if (move == MOVE_REFUSE && reason == REFUSAL_NO_STOCK) {
        item->total -= order->qty; /* the units never existed: write them off */
    } else {
        item->available += order->qty;
    }
    buyer_lets_go(gate, order, move == MOVE_EXPIRE && sale->bar_unpaid != 0);
}

static enum verdict step_order(struct gate *gate, const struct gate_command *command,
                               enum order_move move, struct gate_effects *effects)
{
    uint32_t slot = gate_find_order(gate, command->id);
    if (slot == GATE_NONE) {
        return refuse(effects, REFUSAL_NOT_FOUND);
    }
    struct gate_order *order = &gate->orders[slot];
    effects->slot = slot;
    effects->item_slot = order->item_slot;
    if (order->state == order_move_to(move)) {
        return VERDICT_ALREADY_APPLIED;
    }
    if (order->state != order_move_from(move)) {
        return refuse(effects, REFUSAL_BAD_STATE);
    }
    order->state = (uint8_t)order_move_to(move);
    order->version++;
    if (move == MOVE_CONFIRM) {
        order->pay_by_ms = (int64_t)command->time_ms;
    } else if (move == MOVE_REFUSE) {
        order->reason = (uint8_t)command->reason;
    }
    move_units(gate, order, move, (enum refusal)command->reason);
    effects->available = gate->items[order->item_slot].available;
    effects->locked = gate->items[order->item_slot].locked;
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
    effects->item_slot = slot;
    effects->available = item->available;
    if (command->kind == GATE_TRANSFER_OUT) {
        if (item->available < command->amount) {
            return refuse(effects, REFUSAL_SOLD_OUT);
        }
        item->available -= command->amount;
        item->total -= command->amount;
    } else {
        if (command->amount > STOCK_MAX || item->total + command->amount > STOCK_MAX) {
            return refuse(effects, REFUSAL_BAD_REQUEST);
        }
        item->available += command->amount;
        item->total += command->amount;
    }
    item->version++;
    effects->available = item->available;
    effects->locked = item->locked;
    return VERDICT_DONE;
}

static enum verdict step_load_sale(struct gate *gate, const struct gate_command *command,
                                   struct gate_effects *effects)
{
    if (gate_find_sale(gate, command->sale) != GATE_NONE) {
        return VERDICT_ALREADY_APPLIED;
    }
    if (gate->sales_used == gate->sizes.sales) {
        return refuse(effects, REFUSAL_OVERLOADED);
    }
    gate_add_sale(gate, &(struct gate_sale){.id = command->sale,
                                            .starts_at_ms = (int64_t)command->starts_at_ms,
                                            .ends_at_ms = (int64_t)command->ends_at_ms,
                                            .bar_unpaid = command->bar_unpaid,
                                            .state = SALE_WARM});
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
    if (pool_full(&gate->item_pool)) {
        return refuse(effects, REFUSAL_OVERLOADED);
    }
    effects->item_slot = gate_add_item(gate, &(struct gate_item){.id = command->item,
                                                                 .total = command->amount,
                                                                 .available = command->amount,
                                                                 .version = 1,
                                                                 .sale_slot = sale_slot,
                                                                 .limit = command->limit});
    effects->available = command->amount;
    return VERDICT_DONE;
}

/* Items show the state of their sale, so their versions change with it. */
static void touch_items(struct gate *gate, uint32_t sale_slot)
{
    for (uint32_t i = 0; i < gate->item_pool.fresh; i++) {
        if (gate->items[i].used && gate->items[i].sale_slot == sale_slot) {
            gate->items[i].version++;
        }
    }
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
    touch_items(gate, slot);
    return VERDICT_DONE;
}

/* ---- forgetting ---- */

static void unlink_order(struct gate *gate, uint32_t slot)
{
    struct gate_order *order = &gate->orders[slot];
    uint32_t *link = order_bucket(gate, order->id);
    while (*link != slot + 1) {
        CHECK(*link != 0);
        link = &gate->orders[*link - 1].next_hash;
    }
    *link = order->next_hash;
    *order = (struct gate_order){.next_hash = gate->order_pool.free};
    gate->order_pool.free = slot + 1;
    gate->order_pool.used--;
}

static void unlink_buyer(struct gate *gate, uint32_t slot)
{
    struct gate_buyer *buyer = &gate->buyers[slot];
    uint32_t *link = buyer_bucket(gate, buyer->item_slot, buyer->user);
    while (*link != slot + 1) {
        CHECK(*link != 0);
        link = &gate->buyers[*link - 1].next_hash;
    }
    *link = buyer->next_hash;
    *buyer = (struct gate_buyer){.next_hash = gate->buyer_pool.free};
    gate->buyer_pool.free = slot + 1;
    gate->buyer_pool.used--;
}

static void unlink_item(struct gate *gate, uint32_t slot)
{
    struct gate_item *item = &gate->items[slot];
    uint32_t *link = item_bucket(gate, item->id);
    while (*link != slot + 1) {
        CHECK(*link != 0);
        link = &gate->items[*link - 1].next_hash;
    }
    *link = item->next_hash;
    gate->sales[item->sale_slot].items--;
    *item = (struct gate_item){.next_hash = gate->item_pool.free};
    gate->item_pool.free = slot + 1;
    gate->item_pool.used--;
}

/* Frees up to *budget entries of an item, orders first; true when nothing of it is left. */
static bool forget_item(struct gate *gate, uint32_t slot, uint32_t *budget)
{
    struct gate_item *item = &gate->items[slot];
    for (; *budget > 0 && item->orders != 0; (*budget)--) {
        uint32_t order = item->orders - 1;
        item->orders = gate->orders[order].next_item;
        unlink_order(gate, order);
    }
    for (; *budget > 0 && item->buyers != 0; (*budget)--) {
        uint32_t buyer = item->buyers - 1;
        item->buyers = gate->buyers[buyer].next_item;
        unlink_buyer(gate, buyer);
    }
    return item->orders == 0 && item->buyers == 0;
}

/* Forgets a sale in steps, so that the lock is never held long. The ledger wrote the event only
 * after the sale was closed and all its orders were final. */
static enum verdict step_forget(struct gate *gate, const struct gate_command *command,
                                struct gate_effects *effects)
{
    uint32_t sale_slot = gate_find_sale(gate, command->sale);
    if (sale_slot == GATE_NONE) {
        return VERDICT_ALREADY_APPLIED;
    }
    if (gate->sales[sale_slot].state != SALE_CLOSED || command->qty == 0) {
        return refuse(effects, REFUSAL_BAD_STATE);
    }
    uint32_t budget = command->qty;
    gate->sales[sale_slot].forgetting = 1;
    for (uint32_t i = 0; i < gate->item_pool.fresh; i++) {
        if (!gate->items[i].used || gate->items[i].sale_slot != sale_slot) {
            continue;
        }
        if (!forget_item(gate, i, &budget)) {
            return VERDICT_MORE;
        }
        unlink_item(gate, i);
    }
    gate->sales[sale_slot] = (struct gate_sale){0};
    gate->sales_used--;
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
        return step_order(gate, command, MOVE_CANCEL, effects);
    case GATE_EXPIRE:
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
        return step_forget(gate, command, effects);
    case GATE_SKIP:
        return VERDICT_DONE;
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
    if (command->kind != GATE_RESERVE && command->event <= gate->applied_event) {
        return VERDICT_ALREADY_APPLIED;
    }
    enum verdict verdict = dispatch(gate, command, ret_effects);
    if (verdict == VERDICT_DONE || verdict == VERDICT_MORE) {
        if (command->now_ms > gate->highest_ms) {
            gate->highest_ms = command->now_ms;
        }
    }
    if (command->kind != GATE_RESERVE && verdict == VERDICT_DONE) {
        gate->applied_event = command->event;
    }
    return verdict;
}
