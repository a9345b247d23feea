/* See embedded_gate.h. Lock order: engine->lock, then the journal's; the
 * lock of the notices is taken last. */
#include "embedded/embedded_gate.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "embedded/gate_content.h"
#include "obs/log.h"

/* Watched orders that may change between two iterations of a loop before it has to look up all it
 * watches: 4096 * 16 bytes. */
#define NOTICES_MAX 4096
/* Orders looked up in one hold of the gate's lock: about a microsecond. */
#define NOTICES_A_LOCK 16

struct notices {
    pthread_mutex_t lock;
    size_t count;
    bool all;
    struct order_id ids[NOTICES_MAX];
};

struct embedded_gate {
    struct gate_port port; /* must be first */
    struct order_notices order_notices;
    pthread_mutex_t lock;
    struct gate *gate;
    struct journal *journal;
    uint32_t loops;
    struct waker *wakers;    /* one per loop */
    struct notices *notices; /* one per loop */
    struct gate_sweep sweep; /* the ledger writer's, under the lock */
    int64_t sweep_at_ms;
    uint64_t evicted;
};

static void lock(pthread_mutex_t *mutex)
{
    CHECK(pthread_mutex_lock(mutex) == 0);
}

static void unlock(pthread_mutex_t *mutex)
{
    CHECK(pthread_mutex_unlock(mutex) == 0);
}

/* ---- requests ---- */

/* ---- orders that were evicted ---- */

static void ask_the_ledger(const struct embedded_gate *engine, struct gate_request *request)
{
    request->refusal = REFUSAL_UNKNOWN_OUTCOME;
    request->ask_ledger = true;
    request->asked_lsn = journal_last_lsn(engine->journal);
}

/* The order is not in the gate. True: it may have been evicted, and the request is answered with the
 * ledger's row, or comes back so that the ledger is asked. */
static bool answer_evicted(const struct embedded_gate *engine, struct gate_request *request)
{
    const struct gate *gate = engine->gate;
    uint32_t item_slot = gate_find_item(gate, order_id_item(request->id));
    if (item_slot == GATE_NONE || !gate_maybe_evicted(gate, item_slot, request->id)) {
        return false;
    }
    if (request->ledger == GATE_LEDGER_LACKS) {
        if (gate->items[item_slot].evicted_lsn <= request->asked_lsn) {
            return false;
        }
    }
    /* Only final orders are evicted. The row of one that was not final when it was read is old. */
    if (request->ledger != GATE_LEDGER_HAS ||
        !order_state_final((enum order_state)request->ledger_order.state)) {
        ask_the_ledger(engine, request);
        return true;
    }
    request->has_order = true;
    request->order = request->ledger_order;
    return true;
}

/* The same for a buy, which names its buyer and a quantity. */
static bool answer_evicted_buy(const struct embedded_gate *engine, struct gate_request *request)
{
    if (!answer_evicted(engine, request)) {
        return false;
    }
    if (!request->has_order) {
        return true;
    }
    const struct gate *gate = engine->gate;
    if (request->order.user != request->user || request->order.qty != request->qty) {
        request->has_order = false;
        request->refusal =
            request->order.user != request->user ? REFUSAL_BAD_TICKET : REFUSAL_DIFFERENT_REQUEST;
        return true;
    }
    /* What he holds now, not when the ledger was asked. */
    const struct gate_buyer *buyer =
        gate_find_buyer(gate, gate_find_item(gate, request->order.item), request->user);
    request->held = buyer != NULL ? buyer->held : 0;
    request->existed = true;
    return true;
}

/* Answers an order that exists. False: there is none. A buyer without a record never had an order of
 * the item: records stay. */
static bool answer_existing(struct embedded_gate *engine, struct gate_request *request)
{
    uint32_t item_slot = gate_find_item(engine->gate, request->item);
    uint32_t slot = gate_find_order(engine->gate, request->id);
    if (slot == GATE_NONE) {
        return item_slot != GATE_NONE &&
               gate_find_buyer(engine->gate, item_slot, request->user) != NULL &&
               answer_evicted_buy(engine, request);
    }
    const struct gate_order *order = &engine->gate->orders[slot];
    if (order->user != request->user) {
        request->refusal = REFUSAL_BAD_TICKET;
    } else if (order->qty != request->qty) {
        request->refusal = REFUSAL_DIFFERENT_REQUEST;
    } else {
        const struct gate_buyer *buyer =
            gate_find_buyer(engine->gate, order->item_slot, order->user);
        request->existed = true;
        request->held = buyer != NULL ? buyer->held : 0;
        gate_view_order(engine->gate, slot, &request->order);
        request->has_order = true;
        request->lsn = order->lsn;
    }
    return true;
}

/* Nothing can be decided now. An existing order is still answered. */
static void buy_without_journal(struct embedded_gate *engine, struct gate_request *request,
                                bool failed)
{
    if (!answer_existing(engine, request)) {
        request->refusal = failed ? REFUSAL_DEGRADED : REFUSAL_OVERLOADED;
        request->bound = failed ? GATE_BOUND_NONE : GATE_BOUND_JOURNAL;
    }
}

static void ask_buy(struct embedded_gate *engine, struct gate_request *request)
{
    struct gate *gate = engine->gate;
    if (request->if_new != REFUSAL_NONE) {
        if (!answer_existing(engine, request)) {
            request->refusal = request->if_new;
        }
        return;
    }
    bool failed =
        journal_failed(engine->journal) || journal_space(engine->journal) != JOURNAL_SPACE_OK;
    if (failed || !journal_has_room(engine->journal, 1)) {
        buy_without_journal(engine, request, failed);
        return;
    }
    struct gate_command command = {
        .kind = GATE_RESERVE,
        /* Never decide with a time below one that is in the journal. */
        .now_ms = request->now_ms > gate->highest_ms ? request->now_ms : gate->highest_ms,
        .id = request->id,
        .user = request->user,
        .item = request->item,
        .qty = request->qty,
        .ticket_expires_ms = (uint64_t)request->ticket_expires_ms,
        .absent_lsn = request->ledger == GATE_LEDGER_LACKS ? request->asked_lsn : 0,
    };
    struct gate_effects effects;
    enum verdict verdict = gate_step(gate, &command, &effects);
    request->held = effects.held;
    request->limit = effects.limit;
    request->available = effects.available;
    request->locked = effects.locked;
    if (verdict == VERDICT_REFUSED && effects.ask_ledger) {
        CHECK(answer_evicted_buy(engine, request));
        return;
    }
    if (verdict == VERDICT_REFUSED) {
        request->refusal = effects.refusal;
        request->bound = effects.bound;
        request->cooling_until_ms = effects.cooling_until_ms;
        return;
    }
    struct gate_order *order = &gate->orders[effects.slot];
    if (verdict == VERDICT_DONE) {
        /* There was room, and we hold the lock. If the journal failed since then, the order never
         * becomes durable, and its waiters learn that the outcome is unknown. */
        uint64_t lsn = UINT64_MAX;
        (void)gate_content_append(engine->journal, &command, &lsn);
        order->lsn = lsn;
    }
    request->existed = verdict == VERDICT_ALREADY_APPLIED;
    request->has_order = true;
    gate_view_order(gate, effects.slot, &request->order);
    request->lsn = order->lsn;
}

static void ask_ticket(const struct embedded_gate *engine, struct gate_request *request)
{
    const struct gate *gate = engine->gate;
    uint32_t slot = gate_find_item(gate, request->item);
    if (slot == GATE_NONE) {
        request->refusal = REFUSAL_NO_SUCH_ITEM;
        return;
    }
    gate_view_item(gate, slot, &request->view);
    const struct gate_buyer *buyer = gate_find_buyer(gate, slot, request->user);
    if (buyer != NULL) {
        request->held = buyer->held;
        request->attempt = buyer->failed_attempts;
        request->barred = buyer->barred != 0;
        request->cooling_until_ms = buyer->cooling_until_ms;
    }
    /* The order of the present attempt, also if it was evicted. */
    request->has_order =
        gate->items[slot].limit == 1 && buyer != NULL && (buyer->held > 0 || buyer->barred);
}

static void ask_order(struct embedded_gate *engine, struct gate_request *request)
{
    uint32_t slot = gate_find_order(engine->gate, request->id);
    if (slot == GATE_NONE) {
        if (!answer_evicted(engine, request)) {
            request->refusal = REFUSAL_NOT_FOUND;
        }
        return;
    }
    if (request->watch) {
        engine->gate->orders[slot].watch |= 1ULL << request->loop;
    }
    request->has_order = true;
    gate_view_order(engine->gate, slot, &request->order);
    request->lsn = request->order.lsn;
}

static void ask_item(const struct embedded_gate *engine, struct gate_request *request)
{
    uint32_t slot = gate_find_item(engine->gate, request->item);
    if (slot == GATE_NONE) {
        request->refusal = REFUSAL_NO_SUCH_ITEM;
        return;
    }
    gate_view_item(engine->gate, slot, &request->view);
}

/* One line a second for each bound. */
static void log_full(const struct gate_request *request)
{
    static struct log_limit limits[GATE_BOUND_COUNT];
    log_event_limited(&limits[request->bound], 1000, LOG_WARN, "gate.full",
                      LOG_STR("bound", gate_bound_text(request->bound)),
                      LOG_U64("item", request->item), LOG_U64("user", request->user));
}

static enum gate_submitted embedded_gate_submit(struct gate_port *port,
                                                struct gate_request *request)
{
    struct embedded_gate *engine = (struct embedded_gate *)port;
    lock(&engine->lock);
    switch (request->kind) {
    case GATE_REQUEST_BUY:
        ask_buy(engine, request);
        break;
    case GATE_REQUEST_TICKET:
        ask_ticket(engine, request);
        break;
    case GATE_REQUEST_ORDER:
        ask_order(engine, request);
        break;
    case GATE_REQUEST_ITEM:
        ask_item(engine, request);
        break;
    }
    unlock(&engine->lock);
    if (request->bound != GATE_BOUND_NONE) {
        log_full(request);
    }
    return GATE_ANSWERED;
}

static struct gate_request *embedded_gate_collect(struct gate_port *port, uint32_t loop)
{
    (void)port;
    (void)loop;
    return NULL;
}

static int64_t embedded_gate_flush(struct gate_port *port, uint32_t loop)
{
    (void)port;
    (void)loop;
    return INT64_MAX;
}

static void embedded_gate_place(struct gate_port *port, uint32_t segment, uint64_t epoch)
{
    (void)port;
    (void)segment;
    (void)epoch;
}

static const struct gate_ops embedded_gate_ops = {embedded_gate_submit, embedded_gate_collect,
                                                  embedded_gate_flush, embedded_gate_place};

/* ---- ledger events ---- */

/* Leaves a notice for every loop that watches the order. The caller holds the gate's lock. */
static uint64_t notify(struct embedded_gate *engine, struct gate_order *order)
{
    uint64_t watching = order->watch;
    order->watch = 0;
    for (uint32_t i = 0; i < engine->loops; i++) {
        if ((watching >> i & 1) == 0) {
            continue;
        }
        struct notices *notices = &engine->notices[i];
        lock(&notices->lock);
        if (notices->count < NOTICES_MAX) {
            notices->ids[notices->count++] = order->id;
            order->notices++; /* it stays until the notice is taken */
        } else {
            notices->all = true;
        }
        unlock(&notices->lock);
    }
    return watching;
}

int embedded_gate_apply(struct embedded_gate *engine, const struct gate_command *command,
                        uint64_t *ret_lsn, enum refusal *ret_refusal)
{
    *ret_lsn = 0;
    lock(&engine->lock);
    while (!journal_has_room(engine->journal, 1)) {
        unlock(&engine->lock);
        if (journal_failed(engine->journal)) {
            return ERR_JOURNAL_FAILED;
        }
        if (journal_space(engine->journal) == JOURNAL_SPACE_NONE) {
            return ERR_NOSPACE; /* the ledger has the event: it is read again when there is space */
        }
        (void)sched_yield(); /* the journal thread is writing the other buffer */
        lock(&engine->lock);
    }
    int error = 0;
    uint64_t watching = 0;
    struct gate_effects effects;
    enum verdict verdict = gate_step(engine->gate, command, &effects);
    if (verdict == VERDICT_DONE || verdict == VERDICT_MORE) {
        uint64_t lsn = UINT64_MAX;
        error = gate_content_append(engine->journal, command, &lsn);
        *ret_lsn = lsn;
        if (effects.slot != GATE_NONE) {
            struct gate_order *order = &engine->gate->orders[effects.slot];
            order->lsn = lsn;
            watching = notify(engine, order);
        }
    }
    unlock(&engine->lock);
    for (uint32_t i = 0; watching != 0 && i < engine->loops; i++) {
        if ((watching >> i & 1) != 0) {
            waker_wake(&engine->wakers[i]);
        }
    }
    if (verdict == VERDICT_REFUSED) {
        *ret_refusal = effects.refusal;
        return ERR_INVALID;
    }
    return verdict == VERDICT_MORE && error == 0 ? ERR_AGAIN : error;
}

uint64_t embedded_gate_applied_event(struct embedded_gate *engine)
{
    lock(&engine->lock);
    uint64_t event = engine->gate->applied_event;
    unlock(&engine->lock);
    return event;
}

void embedded_gate_room(struct embedded_gate *engine, uint32_t *ret_sales, uint32_t *ret_items)
{
    lock(&engine->lock);
    *ret_sales = engine->gate->sizes.sales - engine->gate->sales_used;
    *ret_items = engine->gate->item_pool.capacity - engine->gate->item_pool.used;
    unlock(&engine->lock);
}

bool embedded_gate_sale_idle(struct embedded_gate *engine, uint64_t sale)
{
    bool idle = true;
    lock(&engine->lock);
    const struct gate *gate = engine->gate;
    uint32_t slot = gate_find_sale(gate, sale);
    for (uint32_t i = 0; slot != GATE_NONE && idle && i < gate->item_pool.fresh; i++) {
        idle =
            !gate->items[i].used || gate->items[i].sale_slot != slot || gate->items[i].locked == 0;
    }
    unlock(&engine->lock);
    return idle;
}

/* ---- evicting ---- */

/* Some holds of the gate's lock in one call, each for some microseconds. */
#define EVICT_HOLDS 32
#define EVICT_LOOKS 64
/* All orders have been looked at: a gate full of orders that cannot leave is not searched all the
 * time. */
#define SWEEP_EVERY_MS 100
/* Nothing could leave among the last 2,048: buyers need the lock more. A million orders are looked at
 * within three seconds. */
#define FRUITLESS_PAUSE_MS 5

/* Its final state is durable, and every loop that watches it has it. */
static bool may_leave(const struct embedded_gate *engine, const struct gate_order *order)
{
    return order->notices == 0 && order->lsn <= journal_durable_lsn(engine->journal);
}

/* Evicts among the next orders of the sweep. False: there is nothing more to do now. */
static bool evict_some(struct embedded_gate *engine, int64_t now_ms)
{
    struct gate *gate = engine->gate;
    uint32_t looks = EVICT_LOOKS;
    while (looks > 0 && journal_space(engine->journal) == JOURNAL_SPACE_OK &&
           journal_has_room(engine->journal, 1) && gate_sweep_wanted(gate, &engine->sweep)) {
        uint32_t slot = gate_sweep_next(gate, &engine->sweep, &looks);
        if (slot == GATE_NONE) {
            engine->sweep_at_ms = engine->sweep.active ? 0 : now_ms + SWEEP_EVERY_MS;
            break;
        }
        if (!may_leave(engine, &gate->orders[slot])) {
            continue;
        }
        struct gate_command command = {
            .kind = GATE_EVICT, .now_ms = gate->highest_ms, .id = gate->orders[slot].id};
        struct gate_effects effects;
        uint64_t lsn = 0;
        CHECK(gate_step(gate, &command, &effects) == VERDICT_DONE);
        (void)gate_content_append(engine->journal, &command, &lsn);
        engine->evicted++;
    }
    return looks == 0 && engine->sweep.active;
}

int64_t embedded_gate_evict(struct embedded_gate *engine, int64_t now_ms)
{
    uint64_t before = engine->evicted;
    bool more = now_ms >= engine->sweep_at_ms;
    for (int i = 0; more && i < EVICT_HOLDS; i++) {
        lock(&engine->lock);
        more = evict_some(engine, now_ms);
        unlock(&engine->lock);
    }
    if (!more) {
        return INT64_MAX;
    }
    return engine->evicted > before ? 0 : FRUITLESS_PAUSE_MS;
}

/* Takes out up to max ids. Does not need the gate's lock. */
static size_t take_notices(struct notices *notices, struct order_id *ret_ids, size_t max, bool *all)
{
    lock(&notices->lock);
    size_t n = notices->count < max ? notices->count : max;
    for (size_t i = 0; i < n; i++) {
        ret_ids[i] = notices->ids[--notices->count];
    }
    *all = *all || notices->all;
    notices->all = false;
    unlock(&notices->lock);
    return n;
}

static struct embedded_gate *engine_of(struct order_notices *notices)
{
    return (struct embedded_gate *)((char *)notices -
                                    offsetof(struct embedded_gate, order_notices));
}

static size_t embedded_gate_take(struct order_notices *notices, uint32_t loop,
                                 struct order_view *ret_views, size_t max, bool *ret_all)
{
    struct embedded_gate *engine = engine_of(notices);
    struct order_id ids[NOTICES_A_LOCK];
    size_t count = 0;
    size_t n = 0;
    *ret_all = false;
    do {
        size_t room = max - count < NOTICES_A_LOCK ? max - count : NOTICES_A_LOCK;
        n = take_notices(&engine->notices[loop], ids, room, ret_all);
        if (n == 0) {
            break; /* as nearly always: the gate's lock was not touched */
        }
        lock(&engine->lock);
        for (size_t i = 0; i < n; i++) {
            uint32_t slot = gate_find_order(engine->gate, ids[i]);
            if (slot == GATE_NONE) {
                continue; /* it has left the gate since */
            }
            struct gate_order *order = &engine->gate->orders[slot];
            /* Later changes are not in this view, so they must cause a notice again. */
            order->watch |= 1ULL << loop;
            order->notices -= order->notices > 0;
            gate_view_order(engine->gate, slot, &ret_views[count++]);
        }
        unlock(&engine->lock);
    } while (count < max);
    return count;
}

/* The gate knows who watches an order (gate_request.watch), so there is nothing more to count. */
static void embedded_gate_watch(struct order_notices *notices, uint32_t loop, struct order_id id)
{
    (void)notices;
    (void)loop;
    (void)id;
}

static const struct order_notices_ops notices_ops = {embedded_gate_take, embedded_gate_watch,
                                                     embedded_gate_watch};

struct order_notices *embedded_gate_notices(struct embedded_gate *engine)
{
    return &engine->order_notices;
}

/* Slots looked at in one hold of the lock: some microseconds. */
#define SLOTS_A_LOCK 256

size_t embedded_gate_orders(struct embedded_gate *engine, uint32_t *slot,
                            struct order_view *ret_views, size_t max)
{
    size_t count = 0;
    lock(&engine->lock);
    const struct gate *gate = engine->gate;
    for (uint32_t i = 0; i < SLOTS_A_LOCK && count < max && *slot < gate->order_pool.fresh; i++) {
        if (gate->orders[*slot].user != 0) { /* a freed entry is all zeros */
            gate_view_order(gate, *slot, &ret_views[count++]);
        }
        ++*slot;
    }
    if (*slot >= gate->order_pool.fresh) {
        *slot = GATE_NONE;
    }
    unlock(&engine->lock);
    return count;
}

bool embedded_gate_order(struct embedded_gate *engine, struct order_id id,
                         struct order_view *ret_view)
{
    lock(&engine->lock);
    uint32_t slot = gate_find_order(engine->gate, id);
    if (slot != GATE_NONE) {
        gate_view_order(engine->gate, slot, ret_view);
    }
    unlock(&engine->lock);
    return slot != GATE_NONE;
}

bool embedded_gate_may_lack(struct embedded_gate *engine, uint64_t item, struct order_id id,
                            enum order_state state)
{
    lock(&engine->lock);
    uint32_t slot = gate_find_item(engine->gate, item);
    bool may = slot == GATE_NONE ||
               (order_state_final(state) && gate_maybe_evicted(engine->gate, slot, id));
    unlock(&engine->lock);
    return may;
}

void embedded_gate_count(struct embedded_gate *engine, struct embedded_gate_numbers *ret_numbers)
{
    lock(&engine->lock);
    ret_numbers->orders = engine->gate->order_pool.used;
    ret_numbers->buyers = engine->gate->buyer_pool.used;
    ret_numbers->items = engine->gate->item_pool.used;
    ret_numbers->sales = engine->gate->sales_used;
    ret_numbers->sizes = engine->gate->sizes;
    ret_numbers->evicted = engine->evicted;
    unlock(&engine->lock);
    ret_numbers->durable_lsn = journal_durable_lsn(engine->journal);
    ret_numbers->last_lsn = journal_last_lsn(engine->journal);
}

/* ---- life ---- */

int embedded_gate_new(struct gate *gate, struct journal *journal, struct waker *wakers,
                      uint32_t loops, struct embedded_gate **ret_engine)
{
    CHECK(loops >= 1 && loops <= LOOPS_MAX);
    struct embedded_gate *engine = calloc(1, sizeof(*engine));
    if (engine == NULL) {
        return ERR_NOMEM;
    }
    engine->notices = calloc(loops, sizeof(*engine->notices));
    if (engine->notices == NULL) {
        free(engine);
        return ERR_NOMEM;
    }
    engine->port.ops = &embedded_gate_ops;
    engine->order_notices.ops = &notices_ops;
    engine->wakers = wakers;
    engine->gate = gate;
    engine->journal = journal;
    engine->loops = loops;
    CHECK(pthread_mutex_init(&engine->lock, NULL) == 0);
    for (uint32_t i = 0; i < loops; i++) {
        CHECK(pthread_mutex_init(&engine->notices[i].lock, NULL) == 0);
    }
    *ret_engine = engine;
    return 0;
}

void embedded_gate_free(struct embedded_gate *engine)
{
    if (engine == NULL) {
        return;
    }
    for (uint32_t i = 0; i < engine->loops; i++) {
        (void)pthread_mutex_destroy(&engine->notices[i].lock);
    }
    (void)pthread_mutex_destroy(&engine->lock);
    free(engine->notices);
    free(engine);
}

struct gate_port *embedded_gate_port(struct embedded_gate *engine)
{
    return &engine->port;
}
