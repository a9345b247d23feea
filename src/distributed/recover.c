/* See recover.h. */
#include "distributed/recover.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "distributed/segment_snapshot.h"
#include "obs/log.h"

#define STEPS_MAX 256
/* How far a gate that is ahead of its ledger (restored from a backup) is followed at once. */
#define RAISES_MAX 1000
/* Between two readings of the epochs, while every segment looks as the last one said. */
#define EPOCHS_EVERY_MS 1000

/* A segment that needs recovery. */
struct job {
    uint32_t segment;
    char lease[LEASE_NAME_MAX];
    uint64_t token;
    int64_t kept_ms; /* when the lease was last taken */
    uint64_t gate_epoch;
    uint64_t epoch; /* the ledger's epoch; the new one once it is raised */
    bool first;     /* the ledger has never had one: nothing can be in flight */
    bool failed;
};

struct recover {
    struct recover_ports ports;
    struct recover_options options;
    struct job jobs[SEGMENTS_MAX];
    uint32_t jobs_count;
    struct segment_step steps[STEPS_MAX];
    size_t steps_count;
    uint64_t epochs[SEGMENTS_MAX]; /* as the ledger said last */
    int64_t epochs_ms;             /* when */
    bool epochs_known;
};

/* Why the segment needs recovery, for the log. NULL: it does not. */
static const char *need_of(const struct segment_state *state, uint64_t ledger_epoch)
{
    if (ledger_epoch == 0) {
        return "new";
    }
    if (state->outcome == SEGMENT_STALE) {
        return state->epoch == 0 ? "empty" : state->older ? "older_version" : "another_server";
    }
    if (state->epoch != ledger_epoch) {
        return "another_epoch";
    }
    if (!state->open) {
        return "unfinished";
    }
    return state->broken ? "broken" : NULL;
}

static void fail(struct recover *recover, struct job *job, const char *step, const char *why)
{
    job->failed = true;
    log_event(LOG_WARN, "recover.stopped", LOG_U64("segment", job->segment),
              LOG_U64("epoch", job->epoch), LOG_STR("at", step), LOG_STR("why", why));
    lease_drop(recover->ports.lease, job->lease);
}

static const char *outcome_text(enum segment_outcome outcome)
{
    static const char *const texts[] = {"done",   "not_asked", "not_known", "stale",
                                        "fenced", "gap",       "broken"};
    CHECK((unsigned)outcome < sizeof(texts) / sizeof(texts[0]));
    return texts[outcome];
}

/* Renews the lease when a third of it has passed. False: it is no longer ours, or may not be. */
static bool keep_lease(struct recover *recover, struct job *job, const char *step)
{
    uint64_t token = 0;
    int64_t now_ms = blocking_now(&recover->ports.blocking);
    if (now_ms - job->kept_ms < recover->options.lease_ms / 3) {
        return true;
    }
    int error = lease_take(recover->ports.lease, job->lease, recover->options.lease_ms, &token);
    if (error == 0 && token == job->token) {
        job->kept_ms = now_ms;
        return true;
    }
    fail(recover, job, step, error != 0 ? err_text(error) : "the lease was another's meanwhile");
    return false;
}

/* Renews the leases of all segments, because each waits while another is worked on. */
static void keep_leases(struct recover *recover, const char *step)
{
    for (uint32_t i = 0; i < recover->jobs_count; i++) {
        if (!recover->jobs[i].failed) {
            (void)keep_lease(recover, &recover->jobs[i], step);
        }
    }
}

/* ---- segments in need ---- */

static int read_epochs(struct recover *recover, uint64_t *ret_epochs)
{
    struct segment_row rows[SEGMENTS_MAX];
    struct ledger_query query = {
        .kind = QUERY_SEGMENTS, .segment = SEGMENT_ALL, .segments = rows, .limit = SEGMENTS_MAX};
    int error = ledger_read(recover->ports.ledger, &query);
    if (error != 0) {
        return error;
    }
    for (uint32_t i = 0; i < SEGMENTS_MAX; i++) {
        ret_epochs[i] = 0;
    }
    for (uint32_t i = 0; i < query.count; i++) {
        if (rows[i].segment < SEGMENTS_MAX) {
            ret_epochs[rows[i].segment] = rows[i].epoch;
        }
    }
    return 0;
}

static bool is_away(const struct segment_state *state)
{
    return state->outcome != SEGMENT_DONE && state->outcome != SEGMENT_STALE;
}

/* Takes the lease of a segment in need and checks it again: another
 * process may just have rebuilt it. */
static int take_job(struct recover *recover, uint32_t segment, struct recover_round *round)
{
    struct job *job = &recover->jobs[recover->jobs_count];
    struct segment_state state;
    uint64_t epochs[SEGMENTS_MAX];
    *job = (struct job){.segment = segment, .kept_ms = blocking_now(&recover->ports.blocking)};
    (void)snprintf(job->lease, sizeof(job->lease), "segment-%u", segment);
    int error =
        lease_take(recover->ports.lease, job->lease, recover->options.lease_ms, &job->token);
    if (error != 0) {
        round->busy += error == ERR_BUSY;
        round->failed += error != ERR_BUSY;
        return 0;
    }
    error = read_epochs(recover, epochs);
    if (error != 0) {
        lease_drop(recover->ports.lease, job->lease);
        return error;
    }
    segments_look(recover->ports.segments, segment, &state);
    const char *need = need_of(&state, epochs[segment]);
    if (is_away(&state) || need == NULL) {
        round->away += is_away(&state);
        round->whole += !is_away(&state);
        lease_drop(recover->ports.lease, job->lease);
        return 0;
    }
    job->gate_epoch = state.epoch;
    job->epoch = epochs[segment];
    job->first = epochs[segment] == 0;
    recover->jobs_count++;
    /* A new segment is made, not repaired. */
    log_event(job->first ? LOG_INFO : LOG_WARN, "recover.begins", LOG_U64("segment", segment),
              LOG_U64("epoch", job->epoch), LOG_STR("need", need));
    return 0;
}

/* The epochs of the ledger, at most EPOCHS_EVERY_MS old. They change when a segment is rebuilt;
 * whoever takes a job reads them again. */
static int know_epochs(struct recover *recover)
{
    int64_t now_ms = blocking_now(&recover->ports.blocking);
    int64_t age_ms = now_ms - recover->epochs_ms;
    if (recover->epochs_known && age_ms >= 0 && age_ms < EPOCHS_EVERY_MS) {
        return 0;
    }
    int error = read_epochs(recover, recover->epochs);
    recover->epochs_known = error == 0;
    recover->epochs_ms = now_ms;
    return error;
}

static int find_jobs(struct recover *recover, struct recover_round *round)
{
    const uint64_t *epochs = recover->epochs;
    int error = know_epochs(recover);
    recover->jobs_count = 0;
    for (uint32_t i = 0; error == 0 && i < recover->options.segments; i++) {
        struct segment_state state;
        segments_look(recover->ports.segments, i, &state);
        if (is_away(&state)) {
            round->away++;
        } else if (need_of(&state, epochs[i]) == NULL) {
            round->whole++;
        } else {
            recover->epochs_known = false;
            error = take_job(recover, i, round);
        }
    }
    return error;
}

/* ---- waiting ---- */

static void tell(struct recover *recover, const struct job *job, uint64_t epoch)
{
    segments_tell(
        recover->ports.segments,
        &(struct segment_news){.kind = NEWS_EPOCH, .segment = job->segment, .epoch = epoch});
}

static bool is_drained(const struct recover *recover)
{
    const struct recover_options *options = &recover->options;
    bool drained = true;
    for (uint32_t i = 0; drained && i < recover->jobs_count; i++) {
        const struct job *job = &recover->jobs[i];
        drained =
            job->first || job->failed ||
            (options->pending != NULL && options->pending(options->context, job->segment) == 0);
    }
    return drained;
}

static bool is_all_first(const struct recover *recover)
{
    bool all = true;
    for (uint32_t i = 0; i < recover->jobs_count; i++) {
        all = all && (recover->jobs[i].first || recover->jobs[i].failed);
    }
    return all;
}

/* Waits until `ends` returns true, at most for_ms, and keeps the leases meanwhile. */
static void wait(struct recover *recover, int64_t for_ms, bool (*ends)(const struct recover *),
                 const char *step)
{
    int64_t poll_ms = recover->options.poll_ms;
    for (int64_t left_ms = for_ms; left_ms > 0 && !ends(recover); left_ms -= poll_ms) {
        blocking_sleep(&recover->ports.blocking, left_ms < poll_ms ? left_ms : poll_ms);
        keep_leases(recover, step);
    }
}

/* ---- the epoch ---- */

/* Raises the epoch above the ledger's and the gate's. If the answer to a raise is
 * lost, nobody fills that epoch. */
static void raise_epoch(struct recover *recover, struct job *job)
{
    const struct recover_ports *ports = &recover->ports;
    bool raised = false;
    for (int i = 0; i < RAISES_MAX && (!raised || job->epoch <= job->gate_epoch); i++) {
        struct ledger_op op = {.kind = LEDGER_EPOCH, .segment = job->segment, .epoch = job->epoch};
        int error = blocking_write(&ports->blocking, ports->ledger, &op, job->lease, job->token);
        if (error != 0 || (op.refusal != REFUSAL_NONE && op.refusal != REFUSAL_STALE_EPOCH)) {
            fail(recover, job, "epoch",
                 error != 0 ? err_text(error) : refusal_text(op.refusal)->title);
            return;
        }
        raised = op.refusal == REFUSAL_NONE;
        job->epoch = op.epoch;
    }
    if (!raised || job->epoch <= job->gate_epoch) {
        fail(recover, job, "epoch", "the gate's epoch is far above the ledger's");
    }
}

/* ---- filling ---- */

/* Sends the gathered steps. Repeating them after a lost answer could overwrite newer data, so any
 * outcome but DONE ends the attempt. */
static void send_steps(struct recover *recover, struct job *job)
{
    keep_leases(recover, "fill");
    if (recover->steps_count == 0 || job->failed) {
        return;
    }
    enum segment_outcome outcome =
        segments_rebuild(recover->ports.segments, job->segment, job->epoch, job->token,
                         recover->steps, recover->steps_count);
    recover->steps_count = 0;
    if (outcome != SEGMENT_DONE) {
        fail(recover, job, "fill", outcome_text(outcome));
    }
}

static void add_step(struct recover *recover, struct job *job, struct segment_step step)
{
    recover->steps[recover->steps_count++] = step;
    if (recover->steps_count == STEPS_MAX) {
        send_steps(recover, job);
        recover->steps_count = 0;
    }
}

/* How often an order in this state has changed. A buyer's view never goes back. */
static uint16_t version_of(enum order_state state)
{
    return state == ORDER_LOCKED || state == ORDER_FAILED ? 2 : 3;
}

static struct segment_step order_step(const struct segment_snapshot_order *order)
{
    return (struct segment_step){.kind = STEP_ORDER,
                                 .item = order->item,
                                 .order = {.id = order->id,
                                           .user = order->user,
                                           .item = order->item,
                                           .qty = order->qty,
                                           .state = order->state,
                                           .reason = order->reason,
                                           .version = version_of((enum order_state)order->state),
                                           .created_at_ms = order->created_at_ms,
                                           .pay_by_ms = order->pay_by_ms}};
}

static struct segment_step item_step(const struct job *job,
                                     const struct segment_snapshot_item *item)
{
    uint64_t alive = item->locked + item->sold;
    if (alive > item->amount) { /* the ledger refuses this; sell nothing more of it */
        log_event(LOG_ERROR, "recover.oversold", LOG_U64("segment", job->segment),
                  LOG_U64("item", item->item), LOG_U64("share", item->amount),
                  LOG_U64("alive", alive));
    }
    uint64_t total = alive > item->amount ? alive : item->amount;
    return (struct segment_step){.kind = STEP_ITEM,
                                 .sale = item->sale,
                                 .item = item->item,
                                 .total = total,
                                 .available = total - alive,
                                 .locked = item->locked,
                                 .sold = item->sold,
                                 .limit = item->limit,
                                 .buyers = item->buyers,
                                 .live = item->live};
}

/* Items come last. Until an item is there, a replay that comes too early gets
 * NO_SUCH_ITEM and changes nothing. */
static void fill_gate(struct recover *recover, struct job *job,
                      const struct segment_snapshot *snapshot)
{
    recover->steps_count = 0;
    add_step(recover, job,
             (struct segment_step){.kind = STEP_BEGIN,
                                   .event = snapshot->event,
                                   .highest_ms = snapshot->highest_ms,
                                   .sizes = recover->options.sizes,
                                   .shares = recover->options.shares});
    for (size_t i = 0; i < snapshot->sales_count && !job->failed; i++) {
        const struct segment_snapshot_sale *sale = &snapshot->sales[i];
        add_step(recover, job,
                 (struct segment_step){.kind = STEP_SALE,
                                       .sale = sale->id,
                                       .starts_at_ms = sale->starts_at_ms,
                                       .ends_at_ms = sale->ends_at_ms,
                                       .state = sale->state,
                                       .bar_unpaid = sale->bar_unpaid});
    }
    for (size_t i = 0; i < snapshot->buyers_count && !job->failed; i++) {
        const struct segment_snapshot_buyer *buyer = &snapshot->buyers[i];
        add_step(recover, job,
                 (struct segment_step){.kind = STEP_BUYER,
                                       .item = buyer->item,
                                       .user = buyer->user,
                                       .held = buyer->held,
                                       .failed_attempts = buyer->failed_attempts,
                                       .live = buyer->live,
                                       .barred = buyer->barred,
                                       .cooling_until_ms = buyer->cooling_until_ms});
    }
    for (size_t i = 0; i < snapshot->orders_count && !job->failed; i++) {
        add_step(recover, job, order_step(&snapshot->orders[i]));
    }
    for (size_t i = 0; i < snapshot->items_count && !job->failed; i++) {
        add_step(recover, job, item_step(job, &snapshot->items[i]));
    }
    send_steps(recover, job);
}

struct read_heartbeat {
    struct recover *recover;
    const struct job *job;
};

static bool read_goes_on(void *context)
{
    struct read_heartbeat *heartbeat = context;
    keep_leases(heartbeat->recover, "read");
    return !heartbeat->job->failed;
}

static void make_anew(struct recover *recover, struct job *job)
{
    const struct recover_ports *ports = &recover->ports;
    struct read_heartbeat heartbeat = {recover, job};
    struct segment_snapshot snapshot;
    raise_epoch(recover, job);
    if (job->failed) {
        return;
    }
    int error = segment_snapshot_read(
        ports->ledger, job->segment, &(struct segment_snapshot_heartbeat){read_goes_on, &heartbeat},
        &snapshot);
    if (error != 0 && !job->failed) {
        fail(recover, job, "read", err_text(error));
    }
    if (error != 0) {
        return;
    }
    fill_gate(recover, job, &snapshot);
    if (!job->failed) {
        log_event(LOG_INFO, "recover.filled", LOG_U64("segment", job->segment),
                  LOG_U64("epoch", job->epoch), LOG_U64("event", snapshot.event),
                  LOG_U64("orders", snapshot.orders_count), LOG_U64("items", snapshot.items_count));
        tell(recover, job, job->epoch);
    }
    segment_snapshot_done(&snapshot);
}

/* Repeats the call after a lost answer: opening is idempotent. */
static void open_gate(struct recover *recover, struct job *job)
{
    struct segment_step step = {.kind = STEP_OPEN};
    if (!keep_lease(recover, job, "open")) {
        return;
    }
    enum segment_outcome outcome = SEGMENT_NOT_KNOWN;
    for (int i = 0; i < 3 && outcome == SEGMENT_NOT_KNOWN; i++) {
        outcome = segments_rebuild(recover->ports.segments, job->segment, job->epoch, job->token,
                                   &step, 1);
    }
    if (outcome != SEGMENT_DONE) {
        fail(recover, job, "open", outcome_text(outcome));
        return;
    }
    tell(recover, job, job->epoch);
    lease_drop(recover->ports.lease, job->lease);
    log_event(LOG_INFO, "recover.open", LOG_U64("segment", job->segment),
              LOG_U64("epoch", job->epoch));
}

/* ---- the round ---- */

static void for_each(struct recover *recover, void (*work)(struct recover *, struct job *))
{
    for (uint32_t i = 0; i < recover->jobs_count; i++) {
        if (!recover->jobs[i].failed) {
            work(recover, &recover->jobs[i]);
        }
    }
}

static void tell_lost(struct recover *recover, struct job *job)
{
    tell(recover, job, 0);
}

int recover_round(struct recover *recover, struct recover_round *ret_round)
{
    *ret_round = (struct recover_round){0};
    int error = find_jobs(recover, ret_round);
    if (error != 0) {
        for (uint32_t i = 0; i < recover->jobs_count; i++) {
            lease_drop(recover->ports.lease, recover->jobs[i].lease);
        }
        return error;
    }
    for_each(recover, tell_lost);
    wait(recover, recover->options.drain_ms, is_drained, "drain");
    for_each(recover, make_anew);
    wait(recover, recover->options.replay_ms, is_all_first, "replay");
    for_each(recover, open_gate);
    for (uint32_t i = 0; i < recover->jobs_count; i++) {
        ret_round->failed += recover->jobs[i].failed;
        ret_round->rebuilt += !recover->jobs[i].failed;
    }
    return 0;
}

/* ---- life ---- */

int recover_new(struct recover_ports ports, struct recover_options options,
                struct recover **ret_recover)
{
    CHECK(options.segments >= 1 && options.segments <= SEGMENTS_MAX && options.poll_ms > 0);
    struct recover *recover = calloc(1, sizeof(*recover));
    if (recover == NULL) {
        return ERR_NOMEM;
    }
    recover->ports = ports;
    recover->options = options;
    *ret_recover = recover;
    return 0;
}

void recover_free(struct recover *recover)
{
    free(recover);
}
