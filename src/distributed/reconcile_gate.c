/* Compares a segment's gate with the ledger. See reconcile.h. */
#include <stdlib.h>

#include "base/err.h"
#include "distributed/reconcile_private.h"

/* How often the gate's numbers are read until the checks before and after show the same event. */
#define TRIES_MAX 5

#define GATE_NUMBERS                                                                               \
    (KIND(DIFFERENCE_GATE_TOTAL) | KIND(DIFFERENCE_GATE_SHORT) | KIND(DIFFERENCE_GATE_STUCK))

/* An item's numbers at the gate, and how the events after the gate's cursor change them. */
struct gate_numbers {
    uint64_t item;
    bool known;
    struct item_view view;
    int64_t alive_later; /* change in the ledger by events the gate has not applied */
    int64_t share_later;
    bool transfers; /* units of it may be leaving */
};

struct looking {
    struct reconcile *reconcile;
    uint32_t segment;
    uint64_t epoch;
    struct segment_state state;
    struct gate_numbers *numbers; /* by item */
    size_t count;
    uint64_t target; /* the segment's last event in the snapshot */
};

static struct gate_numbers *find_numbers(const struct looking *looking, uint64_t item)
{
    for (size_t i = 0; i < looking->count; i++) {
        if (looking->numbers[i].item == item) {
            return &looking->numbers[i];
        }
    }
    return NULL;
}

static bool is_whole(const struct looking *looking, const struct segment_state *state)
{
    return state->outcome == SEGMENT_DONE && state->open && state->epoch == looking->epoch;
}

/* ---- the gate's numbers ---- */

static void ask_items(struct looking *looking, size_t from, size_t count)
{
    struct reconcile *reconcile = looking->reconcile;
    for (size_t i = 0; i < count; i++) {
        reconcile->requests[i] = (struct gate_request){.kind = GATE_REQUEST_ITEM,
                                                       .loop = reconcile->options.loop,
                                                       .segment = looking->segment,
                                                       .item = looking->numbers[from + i].item};
    }
    reconcile_ask(reconcile, count);
    for (size_t i = 0; i < count; i++) {
        looking->numbers[from + i].known = gate_request_done(&reconcile->requests[i]);
        looking->numbers[from + i].view = reconcile->requests[i].view;
    }
}

/* Reads all items between two checks that show the same event; looking->state is the second
 * check. */
static bool ask_all(struct looking *looking)
{
    struct segments *segments = looking->reconcile->ports.segments;
    for (int i = 0; i < TRIES_MAX; i++) {
        struct segment_state before;
        segments_look(segments, looking->segment, &before);
        if (!is_whole(looking, &before)) {
            return false; /* the gate would not answer either */
        }
        for (size_t at = 0; at < looking->count; at += SEGMENTS_MAX) {
            size_t left = looking->count - at;
            ask_items(looking, at, left < SEGMENTS_MAX ? left : SEGMENTS_MAX);
        }
        segments_look(segments, looking->segment, &looking->state);
        if (!is_whole(looking, &looking->state)) {
            return false;
        }
        if (before.event == looking->state.event) {
            return true;
        }
    }
    return false;
}

/* ---- between the gate's cursor and the snapshot ---- */

static void add_event(struct looking *looking, const struct ledger_event *event)
{
    struct gate_numbers *numbers = find_numbers(looking, event->item);
    if (numbers == NULL) {
        return;
    }
    switch (event->kind) {
    case EVENT_ORDER_LOCKED:
        numbers->alive_later += event->qty;
        break;
    case EVENT_ORDER_EXPIRED:
    case EVENT_ORDER_CANCELLED:
        numbers->alive_later -= event->qty;
        break;
    case EVENT_ITEM_RESTOCKED:
    case EVENT_ITEM_TRANSFERRED:
    case EVENT_ITEM_LOADED:
        numbers->share_later += event->a;
        break;
    default:
        break;
    }
}

/* Reads the events in (after, until]: the segment's own, or all, for transfers that left it. */
static bool read_events(struct looking *looking, uint64_t after, uint64_t until, bool own)
{
    struct reconcile *reconcile = looking->reconcile;
    struct ledger_query query = {.kind = QUERY_EVENTS,
                                 .segment = own ? (int32_t)looking->segment : SEGMENT_ALL,
                                 .after = after,
                                 .events = reconcile->page.events,
                                 .limit = RECONCILE_PAGE};
    bool more = query.after < until;
    while (more) {
        if (!reconcile_read(reconcile, &query)) {
            return false;
        }
        more = query.count == RECONCILE_PAGE;
        for (uint32_t i = 0; i < query.count; i++) {
            const struct ledger_event *event = &query.events[i];
            query.after = event->number;
            if (event->number > until) {
                return true;
            }
            if (own) {
                looking->target = event->number;
                add_event(looking, event);
            } else if (event->kind == EVENT_ITEM_TRANSFERRED) {
                struct gate_numbers *numbers = find_numbers(looking, event->item);
                if (numbers != NULL) {
                    numbers->transfers = true;
                }
            }
        }
    }
    return true;
}

static bool mark_transfers(struct looking *looking)
{
    struct reconcile *reconcile = looking->reconcile;
    struct ledger_query query = {.kind = QUERY_TRANSFERS,
                                 .segment = SEGMENT_ALL,
                                 .transfers = reconcile->page.transfers,
                                 .limit = RECONCILE_PAGE};
    if (!reconcile_read(reconcile, &query)) {
        return false;
    }
    for (uint32_t i = 0; i < query.count; i++) {
        struct gate_numbers *numbers = find_numbers(looking, query.transfers[i].item);
        if (numbers != NULL && query.transfers[i].segment == looking->segment) {
            numbers->transfers = true;
        }
    }
    for (size_t i = 0; query.count == RECONCILE_PAGE && i < looking->count; i++) {
        looking->numbers[i].transfers = true; /* there may be more of them */
    }
    return true;
}

/* ---- comparing ---- */

static struct difference difference_of(const struct looking *looking, enum difference_kind kind,
                                       uint64_t found, uint64_t expected)
{
    return (struct difference){.kind = kind,
                               .segment = looking->segment,
                               .epoch = looking->epoch,
                               .found = found,
                               .expected = expected};
}

static void compare_numbers(const struct looking *looking, const struct segment_snapshot *snapshot,
                            const struct gate_numbers *numbers)
{
    struct reconcile *reconcile = looking->reconcile;
    const struct segment_snapshot_item *item = segment_snapshot_item(snapshot, numbers->item);
    bool caught_up = looking->target <= looking->state.event;
    struct difference difference;
    if (!numbers->known) {
        reconcile_unanswered(reconcile, GATE_NUMBERS, looking->segment, numbers->item);
        return;
    }
    if (item == NULL) {
        reconcile_unsure(reconcile, GATE_NUMBERS, looking->segment, numbers->item);
        return;
    }
    uint64_t share = item->amount - (uint64_t)numbers->share_later;
    uint64_t alive = item->locked + item->sold - (uint64_t)numbers->alive_later;
    uint64_t at_gate = numbers->view.locked + numbers->view.sold;
    if (numbers->transfers) {
        reconcile_unsure(reconcile, KIND(DIFFERENCE_GATE_TOTAL), looking->segment, numbers->item);
    } else if (numbers->view.total != share) {
        difference = difference_of(looking, DIFFERENCE_GATE_TOTAL, numbers->view.total, share);
        difference.item = numbers->item;
        reconcile_found(reconcile, difference);
    }
    if (at_gate < alive) {
        difference = difference_of(looking, DIFFERENCE_GATE_SHORT, at_gate, alive);
        difference.item = numbers->item;
        reconcile_found(reconcile, difference);
    }
    if (looking->state.outbox > 0 || reconcile->flowing || !caught_up) {
        reconcile_unsure(reconcile, KIND(DIFFERENCE_GATE_STUCK), looking->segment, numbers->item);
    } else if (at_gate > alive) {
        difference = difference_of(looking, DIFFERENCE_GATE_STUCK, at_gate, alive);
        difference.item = numbers->item;
        difference.mark = numbers->view.version;
        reconcile_found(reconcile, difference);
    }
}

/* ---- orders ---- */

/* Waits, within the bound, until the gate has applied what the snapshot shows. Else it is
 * behind. */
static bool wait_for_gate(struct looking *looking)
{
    struct reconcile *reconcile = looking->reconcile;
    int64_t left_ms = reconcile->options.bound_ms;
    while (looking->state.event < looking->target && left_ms > 0) {
        blocking_sleep(&reconcile->ports.blocking, reconcile->options.poll_ms);
        left_ms -= reconcile->options.poll_ms;
        segments_look(reconcile->ports.segments, looking->segment, &looking->state);
        if (!is_whole(looking, &looking->state)) {
            return false;
        }
    }
    if (looking->state.event < looking->target) {
        reconcile_found(reconcile, difference_of(looking, DIFFERENCE_GATE_BEHIND,
                                                 looking->state.event, looking->target));
        return false;
    }
    return true;
}

static void compare_order(const struct looking *looking, const struct segment_snapshot_order *order,
                          const struct gate_request *request)
{
    struct reconcile *reconcile = looking->reconcile;
    uint64_t state = ORDER_STATE_COUNT;
    if (gate_request_done(request)) {
        state = request->order.state;
        bool moved_on = order->state == ORDER_LOCKED && order_state_final(request->order.state) &&
                        request->order.state != ORDER_FAILED;
        if (state == order->state || moved_on) {
            return;
        }
    } else if (!gate_request_refused(request, REFUSAL_NOT_FOUND)) {
        reconcile_unanswered(reconcile, KIND(DIFFERENCE_GATE_ORDER), looking->segment, order->item);
        return;
    }
    struct difference difference =
        difference_of(looking, DIFFERENCE_GATE_ORDER, state, order->state);
    difference.item = order->item;
    difference.user = order->user;
    difference.id = order->id;
    reconcile_found(reconcile, difference);
}

static void compare_orders(struct looking *looking, const struct segment_snapshot *snapshot)
{
    struct reconcile *reconcile = looking->reconcile;
    for (size_t at = 0; at < snapshot->orders_count && !reconcile_ends(reconcile);
         at += SEGMENTS_MAX) {
        size_t left = snapshot->orders_count - at;
        size_t count = left < SEGMENTS_MAX ? left : SEGMENTS_MAX;
        for (size_t i = 0; i < count; i++) {
            reconcile->requests[i] = (struct gate_request){.kind = GATE_REQUEST_ORDER,
                                                           .loop = reconcile->options.loop,
                                                           .segment = looking->segment,
                                                           .id = snapshot->orders[at + i].id};
        }
        reconcile_ask(reconcile, count);
        for (size_t i = 0; i < count; i++) {
            compare_order(looking, &snapshot->orders[at + i], &reconcile->requests[i]);
        }
        reconcile->result.orders += count;
    }
}

/* ---- a segment ---- */

static bool list_items(struct looking *looking)
{
    const struct reconcile *reconcile = looking->reconcile;
    looking->numbers = calloc(reconcile->shares_count + 1, sizeof(*looking->numbers));
    if (looking->numbers == NULL) {
        looking->reconcile->error = ERR_NOMEM;
        return false;
    }
    for (size_t i = 0; i < reconcile->shares_count; i++) {
        if (reconcile->shares[i].segment == looking->segment) {
            looking->numbers[looking->count++].item = reconcile->shares[i].item;
        }
    }
    return true;
}

static void compare_gate(struct looking *looking, const struct segment_snapshot *snapshot,
                         uint64_t before)
{
    struct reconcile *reconcile = looking->reconcile;
    looking->target = looking->state.event;
    if (!read_events(looking, looking->state.event, snapshot->event, true) ||
        !read_events(looking, before, snapshot->event, false) || !mark_transfers(looking)) {
        return;
    }
    for (size_t i = 0; i < looking->count; i++) {
        compare_numbers(looking, snapshot, &looking->numbers[i]);
    }
    if (wait_for_gate(looking)) {
        compare_orders(looking, snapshot);
    } else {
        reconcile_unsure(reconcile, KIND(DIFFERENCE_GATE_ORDER), looking->segment, 0);
    }
}

static void check_outbox(struct looking *looking)
{
    struct reconcile *reconcile = looking->reconcile;
    const struct segment_state *state = &looking->state;
    int64_t age_ms = blocking_now(&reconcile->ports.blocking) - (int64_t)state->oldest_ms;
    if (state->outbox > 0 && age_ms > reconcile->options.bound_ms) {
        struct difference difference =
            difference_of(looking, DIFFERENCE_OUTBOX, state->outbox, state->oldest_ms);
        difference.mark = state->oldest_ms;
        reconcile_found(reconcile, difference);
    }
}

void reconcile_segment(struct reconcile *reconcile, uint32_t segment)
{
    struct looking looking = {
        .reconcile = reconcile, .segment = segment, .epoch = reconcile->epochs[segment]};
    struct segment_snapshot snapshot;
    uint64_t before = 0;
    if (!reconcile_last_event(reconcile, &before) || !list_items(&looking)) {
        return;
    }
    bool transfers_known = mark_transfers(&looking);
    bool asked = transfers_known && ask_all(&looking);
    reconcile->error = reconcile->error != 0 ? reconcile->error
                                             : segment_snapshot_read(reconcile->ports.ledger,
                                                                     segment, NULL, &snapshot);
    if (reconcile->error != 0) {
        free(looking.numbers);
        return;
    }
    if (asked) {
        check_outbox(&looking);
        compare_gate(&looking, &snapshot, before);
    } else {
        reconcile_unanswered(reconcile,
                             GATE_NUMBERS | KIND(DIFFERENCE_GATE_ORDER) |
                                 KIND(DIFFERENCE_GATE_BEHIND) | KIND(DIFFERENCE_OUTBOX),
                             segment, 0);
    }
    reconcile_orders(reconcile, &snapshot);
    segment_snapshot_done(&snapshot);
    free(looking.numbers);
}
