/* Passes, what counts, the queue, and repairs. See reconcile.h. */
#include "distributed/reconcile.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "distributed/message.h"
#include "distributed/reconcile_private.h"
#include "obs/log.h"

/* In a pass: a lost connection is made again within the gate's longest pause (backends.c) and a
 * handshake. */
#define AWAY_MS 3000

/* ---- lists ---- */

void *reconcile_grow(struct reconcile *reconcile, void **array, size_t count, size_t *room,
                     size_t size)
{
    if (count < *room) {
        return *array;
    }
    size_t more = *room == 0 ? 64 : *room * 2;
    void *grown = realloc(*array, more * size);
    if (grown == NULL) {
        reconcile->error = ERR_NOMEM;
        return NULL;
    }
    *array = grown;
    *room = more;
    return grown;
}

static void list_add(struct reconcile *reconcile, struct difference_list *list,
                     const struct difference *difference)
{
    if (reconcile_grow(reconcile, (void **)&list->at, list->count, &list->room,
                       sizeof(*list->at)) != NULL) {
        list->at[list->count++] = *difference;
    }
}

void reconcile_found(struct reconcile *reconcile, struct difference difference)
{
    list_add(reconcile, &reconcile->found, &difference);
}

void reconcile_unsure(struct reconcile *reconcile, uint64_t kinds, uint32_t segment, uint64_t item)
{
    const struct unsure *last =
        reconcile->unsures_count > 0 ? &reconcile->unsures[reconcile->unsures_count - 1] : NULL;
    if (last != NULL && last->kinds == kinds && last->segment == segment && last->item == item) {
        return;
    }
    struct unsure *unsures =
        reconcile_grow(reconcile, (void **)&reconcile->unsures, reconcile->unsures_count,
                       &reconcile->unsures_room, sizeof(*unsures));
    if (unsures != NULL) {
        unsures[reconcile->unsures_count++] = (struct unsure){kinds, segment, item};
    }
}

void reconcile_unanswered(struct reconcile *reconcile, uint64_t kinds, uint32_t segment,
                          uint64_t item)
{
    reconcile->result.unanswered++;
    reconcile_unsure(reconcile, kinds, segment, item);
}

bool reconcile_ends(struct reconcile *reconcile)
{
    const struct reconcile_options *options = &reconcile->options;
    if (reconcile->error == 0 && options->ending != NULL && options->ending(options->context)) {
        reconcile->error = ERR_CLOSED;
    }
    return reconcile->error != 0;
}

bool reconcile_read(struct reconcile *reconcile, struct ledger_query *query)
{
    if (!reconcile_ends(reconcile)) {
        reconcile->error = ledger_read(reconcile->ports.ledger, query);
    }
    return reconcile->error == 0;
}

bool reconcile_last_event(struct reconcile *reconcile, uint64_t *ret_event)
{
    struct ledger_query query = {.kind = QUERY_STATE, .segment = SEGMENT_ALL};
    if (!reconcile_read(reconcile, &query)) {
        return false;
    }
    *ret_event = query.last_event;
    return true;
}

void reconcile_ask(struct reconcile *reconcile, size_t count)
{
    blocking_gate_requests(&reconcile->ports.blocking, reconcile->ports.gate, reconcile->requests,
                           count, &reconcile->away_ms);
}

/* ---- what was seen before ---- */

static bool is_same(const struct difference *a, const struct difference *b)
{
    return a->kind == b->kind && a->segment == b->segment && a->item == b->item &&
           a->user == b->user && order_id_equal(a->id, b->id) && a->mark == b->mark;
}

static const struct difference *find(const struct difference_list *list,
                                     const struct difference *difference)
{
    for (size_t i = 0; i < list->count; i++) {
        if (is_same(&list->at[i], difference)) {
            return &list->at[i];
        }
    }
    return NULL;
}

static bool is_unsure(const struct reconcile *reconcile, const struct difference *difference)
{
    for (size_t i = 0; i < reconcile->unsures_count; i++) {
        const struct unsure *unsure = &reconcile->unsures[i];
        if ((unsure->kinds & KIND(difference->kind)) != 0 &&
            (unsure->segment == UNSURE_ALL || unsure->segment == difference->segment) &&
            (unsure->item == 0 || unsure->item == difference->item)) {
            return true;
        }
    }
    return false;
}

/* A difference that this pass saw keeps the time it was first seen. One that it could not check
 * stays as it was and does not count now. */
static void merge(struct reconcile *reconcile, int64_t began_ms)
{
    struct difference_list now = {0};
    int64_t ended_ms = blocking_now(&reconcile->ports.blocking);
    reconcile->counting.count = 0;
    for (size_t i = 0; i < reconcile->found.count; i++) {
        struct difference difference = reconcile->found.at[i];
        if (is_unsure(reconcile, &difference) || find(&now, &difference) != NULL) {
            continue;
        }
        const struct difference *before = find(&reconcile->pending, &difference);
        difference.since_ms = before != NULL ? before->since_ms : ended_ms;
        list_add(reconcile, &now, &difference);
        if (before != NULL && began_ms - before->since_ms >= reconcile->options.bound_ms) {
            list_add(reconcile, &reconcile->counting, &difference);
        }
    }
    for (size_t i = 0; i < reconcile->pending.count; i++) {
        const struct difference *before = &reconcile->pending.at[i];
        if (is_unsure(reconcile, before) && find(&now, before) == NULL) {
            list_add(reconcile, &now, before);
        }
    }
    free(reconcile->pending.at);
    reconcile->pending = now;
}

/* ---- the queue, and what was promised ---- */

static bool is_readable(const struct queue_message *message)
{
    struct decision decision;
    return message_read((struct span){message->body, message->len}, &decision) == 0;
}

static void look_at_parked(struct reconcile *reconcile)
{
    reconcile->parked_count = 0;
    if (reconcile->parked == NULL) {
        reconcile->parked = calloc(RECONCILE_PAGE, sizeof(*reconcile->parked));
    }
    reconcile->parked_error = reconcile->parked == NULL
                                  ? ERR_NOMEM
                                  : queue_parked(reconcile->ports.queue, reconcile->parked,
                                                 RECONCILE_PAGE, false, &reconcile->parked_count);
}

/* Whether parked messages may explain units at the gate. A message that cannot be parsed belongs to
 * no order and stays until somebody removes it, so it must not put everything else in doubt. */
static bool parked_flows(const struct reconcile *reconcile, uint64_t parked)
{
    bool flows = reconcile->parked_error != 0 || reconcile->parked_count < parked;
    for (size_t i = 0; i < reconcile->parked_count; i++) {
        flows = flows || is_readable(&reconcile->parked[i]);
    }
    return flows;
}

static void check_depths(struct reconcile *reconcile)
{
    struct queue_depths depths = {0};
    reconcile->flowing = false;
    if (reconcile->ports.queue != NULL) {
        int error = queue_depths(reconcile->ports.queue, &depths);
        look_at_parked(reconcile);
        reconcile->flowing =
            error != 0 || depths.ready + depths.retry > 0 || parked_flows(reconcile, depths.parked);
    }
}

/* Reads the states of the orders in the ledger; QUEUED: no row. False: the pass has failed. */
static bool read_known(struct reconcile *reconcile, const struct decision *decisions, size_t count,
                       struct order_row *ret_rows)
{
    struct order_id ids[RECONCILE_PAGE];
    for (size_t i = 0; i < count; i++) {
        ids[i] = decisions[i].command.id;
    }
    struct ledger_query query = {.kind = QUERY_KNOWN,
                                 .segment = SEGMENT_ALL,
                                 .ids = ids,
                                 .orders = ret_rows,
                                 .limit = (uint32_t)count};
    return count == 0 || reconcile_read(reconcile, &query);
}

static struct difference decision_of(enum difference_kind kind, const struct decision *decision)
{
    return (struct difference){.kind = kind,
                               .segment = decision->segment,
                               .item = decision->command.item,
                               .user = decision->command.user,
                               .id = decision->command.id,
                               .epoch = decision->epoch,
                               .command = decision->command};
}

static void check_parked(struct reconcile *reconcile, struct order_row *rows)
{
    const struct queue_message *messages = reconcile->parked;
    uint64_t unreadable = 0;
    if (reconcile->ports.queue == NULL) {
        return;
    }
    if (reconcile->parked_error != 0) {
        reconcile_unanswered(reconcile, KIND(DIFFERENCE_PARKED), UNSURE_ALL, 0);
        return;
    }
    for (size_t i = 0; i < reconcile->parked_count; i++) {
        struct decision decision;
        /* Unparseable messages cannot be told apart, so they are numbered. */
        struct difference difference = {.segment = DIFFERENCE_NO_SEGMENT, .mark = unreadable};
        if (message_read((struct span){messages[i].body, messages[i].len}, &decision) == 0) {
            if (!read_known(reconcile, &decision, 1, rows)) {
                return;
            }
            difference = decision_of(DIFFERENCE_PARKED, &decision);
            difference.expected = rows[0].state != ORDER_QUEUED;
        } else {
            unreadable++;
        }
        difference.kind = DIFFERENCE_PARKED;
        difference.found = messages[i].attempts;
        reconcile_found(reconcile, difference);
    }
}

static void check_promised(struct reconcile *reconcile, struct order_row *rows)
{
    const struct reconcile_options *options = &reconcile->options;
    struct decision *decisions = reconcile->page.decisions;
    int64_t before_ms = blocking_now(&reconcile->ports.blocking) - options->bound_ms;
    size_t at = 0;
    size_t count = RECONCILE_PAGE;
    while (options->promised != NULL && count == RECONCILE_PAGE) {
        count = options->promised(options->context, before_ms, at, decisions, RECONCILE_PAGE);
        CHECK(count <= RECONCILE_PAGE);
        if (!read_known(reconcile, decisions, count, rows)) {
            return;
        }
        for (size_t i = 0; i < count; i++) {
            if (rows[i].state == ORDER_QUEUED) {
                reconcile_found(reconcile, decision_of(DIFFERENCE_DECISION, &decisions[i]));
            }
        }
        at += count;
    }
}

/* ---- a pass ---- */

static void read_epochs(struct reconcile *reconcile)
{
    struct segment_row rows[SEGMENTS_MAX];
    struct ledger_query query = {
        .kind = QUERY_SEGMENTS, .segment = SEGMENT_ALL, .segments = rows, .limit = SEGMENTS_MAX};
    if (!reconcile_read(reconcile, &query)) {
        return;
    }
    for (uint32_t i = 0; i < query.count; i++) {
        if (rows[i].segment < SEGMENTS_MAX) {
            reconcile->epochs[rows[i].segment] = rows[i].epoch;
        }
        if (rows[i].segment < reconcile->options.segments) {
            gate_place(reconcile->ports.gate, rows[i].segment, rows[i].epoch);
        }
    }
}

static void compare_all(struct reconcile *reconcile)
{
    struct order_row *rows = calloc(RECONCILE_PAGE, sizeof(*rows));
    if (rows == NULL) {
        reconcile->error = ERR_NOMEM;
        return;
    }
    read_epochs(reconcile);
    if (reconcile->error == 0) {
        reconcile_ledger(reconcile);
    }
    check_depths(reconcile);
    for (uint32_t i = 0; reconcile->error == 0 && i < reconcile->options.segments; i++) {
        reconcile_segment(reconcile, i);
    }
    if (reconcile->error == 0) {
        check_parked(reconcile, rows);
    }
    if (reconcile->error == 0) {
        check_promised(reconcile, rows);
    }
    free(rows);
}

int reconcile_pass(struct reconcile *reconcile, struct reconcile_result *ret_result)
{
    int64_t began_ms = blocking_now(&reconcile->ports.blocking);
    reconcile->error = 0;
    reconcile->found.count = 0;
    reconcile->unsures_count = 0;
    reconcile->away_ms = AWAY_MS;
    reconcile->result = (struct reconcile_result){0};
    compare_all(reconcile);
    if (reconcile->error == 0) {
        merge(reconcile, began_ms);
    }
    if (reconcile->error != 0) {
        return reconcile->error;
    }
    reconcile->passes++;
    reconcile->result.differences = reconcile->counting.at;
    reconcile->result.count = reconcile->counting.count;
    reconcile->result.seen = reconcile->pending.count;
    reconcile->result.unsure = (uint32_t)reconcile->unsures_count;
    reconcile->result.passes = reconcile->passes;
    *ret_result = reconcile->result;
    return 0;
}

int reconcile_now(struct reconcile *reconcile, struct reconcile_result *ret_result)
{
    int error = reconcile_pass(reconcile, ret_result);
    if (error != 0) {
        return error;
    }
    blocking_sleep(&reconcile->ports.blocking, reconcile->options.bound_ms);
    return reconcile_pass(reconcile, ret_result);
}

/* ---- repairs ---- */

/* Decides again. A gate that does not know the order decides it, and its outbox carries it
 * on. If the gate knows the order, its message was lost, and it is booked directly. If the
 * gate refuses the order, it fails. */
static bool settle(struct reconcile *reconcile, const struct difference *difference)
{
    struct segment_call call = {.segment = difference->segment,
                                .epoch = reconcile->epochs[difference->segment],
                                .command = difference->command};
    struct ledger_op op = {.kind = LEDGER_BOOK,
                           .command = difference->command,
                           .lsn = 1,
                           .segment = difference->segment,
                           .epoch = call.epoch};
    struct segment_state state;
    if (call.segment >= reconcile->options.segments) {
        return false; /* added since this process began: another one's to repair */
    }
    segments_look(reconcile->ports.segments, call.segment, &state);
    if (state.outcome != SEGMENT_DONE || !state.open) {
        return false;
    }
    segments_apply(reconcile->ports.segments, &call, 1);
    if (call.outcome != SEGMENT_DONE || call.verdict == VERDICT_DONE) {
        return call.outcome == SEGMENT_DONE;
    }
    if (call.verdict == VERDICT_REFUSED) {
        op.kind = LEDGER_FAIL;
        op.reason = call.refusal;
    }
    int error = blocking_write(&reconcile->ports.blocking, reconcile->ports.ledger, &op, NULL, 0);
    return error == 0 && op.refusal == REFUSAL_NONE;
}

static bool redrive(struct reconcile *reconcile)
{
    size_t count = 0;
    return reconcile->parked != NULL && queue_parked(reconcile->ports.queue, reconcile->parked,
                                                     RECONCILE_PAGE, true, &count) == 0;
}

/* The news may be lost, so the segment's own state shows whether it arrived. A segment that was
 * rebuilt since no longer has this difference. */
static bool have_rebuilt(struct reconcile *reconcile, const struct difference *difference)
{
    struct segment_state state;
    segments_tell(reconcile->ports.segments, &(struct segment_news){.kind = NEWS_BROKEN,
                                                                    .segment = difference->segment,
                                                                    .epoch = difference->epoch});
    segments_look(reconcile->ports.segments, difference->segment, &state);
    return state.outcome == SEGMENT_DONE && (state.broken || state.epoch > difference->epoch);
}

static bool repair(struct reconcile *reconcile, const struct difference *difference)
{
    switch (difference->kind) {
    case DIFFERENCE_GATE_TOTAL:
    case DIFFERENCE_GATE_SHORT:
    case DIFFERENCE_GATE_STUCK:
    case DIFFERENCE_GATE_ORDER:
        return have_rebuilt(reconcile, difference);
    case DIFFERENCE_PARKED:
        return redrive(reconcile);
    case DIFFERENCE_DECISION:
        return settle(reconcile, difference);
    default:
        return false;
    }
}

size_t reconcile_repair(struct reconcile *reconcile)
{
    size_t repaired = 0;
    for (size_t i = 0; i < reconcile->counting.count; i++) {
        struct difference *difference = &reconcile->counting.at[i];
        char id[ORDER_ID_TEXT];
        if (difference->repaired || !repair(reconcile, difference)) {
            continue;
        }
        order_id_text(difference->id, id);
        difference->repaired = true;
        repaired++;
        log_event(LOG_WARN, "reconcile.repaired",
                  LOG_STR("difference", difference_text(difference->kind)),
                  LOG_U64("segment", difference->segment), LOG_U64("item", difference->item),
                  LOG_SPAN("order", ((struct span){id, sizeof(id)})),
                  LOG_U64("found", difference->found), LOG_U64("expected", difference->expected));
    }
    return repaired;
}

/* ---- life ---- */

int reconcile_new(struct reconcile_ports ports, struct reconcile_options options,
                  struct reconcile **ret_reconcile)
{
    CHECK(options.segments >= 1 && options.segments <= SEGMENTS_MAX && options.poll_ms > 0);
    struct reconcile *reconcile = calloc(1, sizeof(*reconcile));
    if (reconcile == NULL) {
        return ERR_NOMEM;
    }
    reconcile->ports = ports;
    reconcile->options = options;
    *ret_reconcile = reconcile;
    return 0;
}

void reconcile_free(struct reconcile *reconcile)
{
    if (reconcile == NULL) {
        return;
    }
    free(reconcile->parked);
    free(reconcile->stocks);
    free(reconcile->shares);
    free(reconcile->found.at);
    free(reconcile->unsures);
    free(reconcile->pending.at);
    free(reconcile->counting.at);
    free(reconcile);
}
