/* The servers, the workers' side (port/segments.h), and the faults. See sim_segments.h. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "sim_segments_private.h"

static void *must(void *memory)
{
    CHECK(memory != NULL);
    return memory;
}

static int64_t wall_ms(const struct sim_segments *sim)
{
    return clock_wall_ms(sim->options.clock);
}

/* ---- one server ---- */

static void log_add(const struct sim_segments *sim, struct server *server,
                    const struct server_script *script)
{
    size_t keep = sim->options.forget_max;
    if (server->log_count == server->log_room) {
        struct server_answer answer;
        size_t fold = server->log_count > keep ? server->log_count - keep : 0;
        for (size_t i = 0; i < fold; i++) {
            server_run(&server->base, &server->log[i], &answer);
        }
        server->log_count -= fold;
        if (fold > 0) {
            memmove(server->log, server->log + fold, server->log_count * sizeof(*server->log));
        } else {
            server->log_room = (keep + 32) * 2;
            server->log = must(realloc(server->log, server->log_room * sizeof(*server->log)));
        }
    }
    server->log[server->log_count++] = *script;
    server->writes++;
}

bool sim_run_script(const struct sim_segments *sim, uint32_t segment, struct server_script *script,
                    struct server_answer *ret_answer)
{
    struct server *server = &sim->servers[segment];
    if (server->away) {
        return false;
    }
    script->run = server->run;
    script->now_ms = wall_ms(sim);
    server_run(&server->live, script, ret_answer);
    if (ret_answer->wrote) {
        log_add(sim, server, script);
    }
    return true;
}

bool sim_answer_lost(const struct sim_segments *sim, uint32_t segment)
{
    struct server *server = &sim->servers[segment];
    if (server->lose == 0) {
        return false;
    }
    server->lose--;
    return true;
}

static enum segment_outcome run_and_tell(const struct sim_segments *sim, uint32_t segment,
                                         struct server_script *script,
                                         struct server_answer *ret_answer)
{
    if (!sim_run_script(sim, segment, script, ret_answer)) {
        return SEGMENT_NOT_ASKED;
    }
    return sim_answer_lost(sim, segment) ? SEGMENT_NOT_KNOWN : ret_answer->outcome;
}

/* ---- news ---- */

static void publish(const struct sim_segments *sim, const struct segment_news *news)
{
    for (struct worker *worker = sim->workers; worker != NULL; worker = worker->next) {
        if (worker->news_count == NEWS_MAX) {
            worker->news_count = 0;
            worker->news_lost = true;
        }
        uint32_t at = (worker->news_first + worker->news_count++) % NEWS_MAX;
        worker->news[at] = *news;
    }
}

/* What a script that changed something tells. */
static void publish_change(const struct sim_segments *sim, uint32_t segment,
                           const struct gate_command *command, const struct server_answer *answer)
{
    struct segment_news news = {
        .segment = segment, .epoch = sim->servers[segment].live.epoch, .item = command->item};
    if (!answer->wrote) {
        return;
    }
    switch (command->kind) {
    case GATE_CONFIRM:
    case GATE_FAIL_ORDER:
    case GATE_PAY:
    case GATE_CANCEL:
    case GATE_CANCEL_LATE:
    case GATE_CANCEL_COOLING:
    case GATE_EXPIRE:
    case GATE_EXPIRE_COOLING:
        news.kind = NEWS_ORDER;
        news.order = answer->order;
        publish(sim, &news);
        news.kind = NEWS_ITEM;
        news.item = answer->order.item;
        break;
    case GATE_RESTOCK:
    case GATE_LOAD_ITEM:
    case GATE_TRANSFER_IN:
    case GATE_TRANSFER_OUT:
        news.kind = NEWS_ITEM;
        break;
    case GATE_RESERVE:
    case GATE_SKIP:
        return;
    default:
        news.kind = NEWS_SALE;
        news.sale = command->sale;
        break;
    }
    publish(sim, &news);
}

/* ---- port/segments ---- */

static void apply(struct segments *segments, struct segment_call *calls, size_t count)
{
    const struct sim_segments *sim = ((struct worker *)segments)->sim;
    uint64_t stopped = 0; /* segments whose later events have to wait */
    for (size_t i = 0; i < count; i++) {
        struct segment_call *call = &calls[i];
        bool is_event = call->command.event != 0;
        struct server_answer answer = {0};
        CHECK(call->segment < sim->options.segments);
        call->has_order = false;
        call->taken = 0;
        call->refusal = REFUSAL_NONE;
        if (is_event && (stopped >> call->segment & 1) != 0) {
            call->outcome = SEGMENT_GAP;
            continue;
        }
        struct server_script script = {.kind = SCRIPT_CALL,
                                       .epoch = call->epoch,
                                       .fence = call->fence,
                                       .after = call->after,
                                       .command = call->command};
        call->outcome = run_and_tell(sim, call->segment, &script, &answer);
        if (call->outcome == SEGMENT_DONE) {
            call->verdict = answer.verdict;
            call->refusal = answer.effects.refusal;
            call->taken = answer.taken;
            call->has_order = answer.has_order;
            call->order = answer.order;
        }
        publish_change(sim, call->segment, &call->command, &answer);
        if (call->outcome != SEGMENT_DONE || call->verdict == VERDICT_REFUSED) {
            stopped |= 1ULL << call->segment;
        }
    }
}

static void look(struct segments *segments, uint32_t segment, struct segment_state *ret_state)
{
    const struct sim_segments *sim = ((struct worker *)segments)->sim;
    CHECK(segment < sim->options.segments);
    const struct server *server = &sim->servers[segment];
    const struct server_state *live = &server->live;
    *ret_state = (struct segment_state){.outcome = SEGMENT_NOT_ASKED};
    if (server->away) {
        return;
    }
    if (sim_answer_lost(sim, segment)) {
        ret_state->outcome = SEGMENT_NOT_KNOWN;
        return;
    }
    bool ours = live->epoch != 0 && live->run == server->run;
    ret_state->outcome = ours ? SEGMENT_DONE : SEGMENT_STALE;
    ret_state->epoch = live->epoch;
    ret_state->open = live->open;
    ret_state->broken = live->broken;
    ret_state->event = live->epoch != 0 ? live->gate.applied_event : 0;
    ret_state->fence = live->fence;
    ret_state->server_ms = wall_ms(sim);
    ret_state->outbox = live->outbox_count;
    if (live->epoch != 0) {
        ret_state->sizes = live->gate.sizes;
        ret_state->used =
            (struct gate_sizes){live->gate.order_pool.used, live->gate.buyer_pool.used,
                                live->gate.item_pool.used, live->gate.sales_used};
    }
    for (size_t i = 0; i < live->outbox_count; i++) {
        uint64_t at_ms = (uint64_t)live->outbox[i].at_ms;
        if (ret_state->oldest_ms == 0 || at_ms < ret_state->oldest_ms) {
            ret_state->oldest_ms = at_ms;
        }
    }
}

static enum segment_outcome rebuild(struct segments *segments, uint32_t segment, uint64_t epoch,
                                    uint64_t fence, const struct segment_step *steps, size_t count)
{
    const struct sim_segments *sim = ((struct worker *)segments)->sim;
    CHECK(segment < sim->options.segments);
    for (size_t i = 0; i < count; i++) {
        struct server_answer answer = {0};
        struct server_script script = {
            .kind = SCRIPT_STEP, .epoch = epoch, .fence = fence, .step = steps[i]};
        enum segment_outcome outcome = run_and_tell(sim, segment, &script, &answer);
        if (answer.wrote && steps[i].kind == STEP_OPEN) {
            publish(sim,
                    &(struct segment_news){.kind = NEWS_EPOCH, .segment = segment, .epoch = epoch});
        }
        if (outcome != SEGMENT_DONE) {
            return outcome;
        }
    }
    return SEGMENT_DONE;
}

/* One entry of a segment, or 0. ERR_IO: it may be held now, and nobody knows. */
static int take_one(struct worker *worker, uint32_t segment, struct outbox_entry *ret_entry,
                    bool *ret_found)
{
    struct server_script script = {.kind = SCRIPT_TAKE,
                                   .worker = worker->name,
                                   .number = worker->behind[segment],
                                   .held = worker->again[segment],
                                   .claim_ms = worker->sim->options.claim_ms};
    struct server_answer answer;
    enum segment_outcome outcome = run_and_tell(worker->sim, segment, &script, &answer);
    *ret_found = false;
    if (outcome == SEGMENT_NOT_KNOWN) {
        worker->again[segment] = true;
        worker->behind[segment] = 0;
    }
    if (outcome != SEGMENT_DONE) {
        return ERR_IO;
    }
    if (answer.entry.number == 0) {
        bool was_again = worker->again[segment];
        worker->again[segment] = false;
        return was_again ? take_one(worker, segment, ret_entry, ret_found) : 0;
    }
    if (script.held) {
        worker->behind[segment] = answer.entry.number;
    }
    *ret_found = true;
    *ret_entry = (struct outbox_entry){.segment = segment,
                                       .epoch = answer.entry.epoch,
                                       .mark = {answer.entry.number, 0},
                                       .command = answer.entry.command};
    return 0;
}

static int take(struct segments *segments, uint64_t mask, struct outbox_entry *ret_entries,
                size_t max, int64_t wait_ms, size_t *ret_count)
{
    struct worker *worker = (struct worker *)segments;
    uint32_t n = worker->sim->options.segments;
    uint64_t left = mask; /* segments that may have more */
    int error = 0;
    size_t count = 0;
    (void)wait_ms;
    while (left != 0 && count < max) { /* one of each in turn */
        for (uint32_t i = 0; i < n && count < max; i++) {
            uint32_t segment = (worker->turn + i) % n;
            bool found = false;
            if ((left >> segment & 1) != 0 &&
                take_one(worker, segment, &ret_entries[count], &found) != 0) {
                error = ERR_IO;
            }
            left &= found ? UINT64_MAX : ~(1ULL << segment);
            count += found;
        }
        left &= n < 64 ? (1ULL << n) - 1 : UINT64_MAX;
    }
    worker->turn = (worker->turn + 1) % n;
    if (count > 0) {
        *ret_count = count;
        return 0;
    }
    return error != 0 ? error : ERR_AGAIN;
}

static int done(struct segments *segments, const struct outbox_entry *entries, size_t count)
{
    const struct sim_segments *sim = ((struct worker *)segments)->sim;
    int error = 0;
    for (size_t i = 0; i < count; i++) {
        struct server_script script = {.kind = SCRIPT_DONE, .number = entries[i].mark[0]};
        struct server_answer answer;
        if (run_and_tell(sim, entries[i].segment, &script, &answer) != SEGMENT_DONE) {
            error = ERR_IO;
        }
    }
    return error;
}

static int news(struct segments *segments, struct segment_news *ret_news, size_t max,
                int64_t wait_ms, size_t *ret_count)
{
    struct worker *worker = (struct worker *)segments;
    size_t count = 0;
    (void)wait_ms;
    if (worker->news_lost && max > 0) {
        worker->news_lost = false;
        ret_news[count++] = (struct segment_news){.kind = NEWS_LOST};
    }
    for (; count < max && worker->news_count > 0; worker->news_count--) {
        ret_news[count++] = worker->news[worker->news_first];
        worker->news_first = (worker->news_first + 1) % NEWS_MAX;
    }
    if (count == 0) {
        return ERR_AGAIN;
    }
    *ret_count = count;
    return 0;
}

static void tell(struct segments *segments, const struct segment_news *news)
{
    struct sim_segments *sim = ((struct worker *)segments)->sim;
    if (news->kind != NEWS_BROKEN) {
        publish(sim, news);
        return;
    }
    struct server *server = &sim->servers[news->segment];
    server->live.broken |= !server->away && server->live.epoch == news->epoch;
}

static void wake(struct segments *segments)
{
    (void)segments; /* nothing waits here */
}

static const struct segments_ops worker_ops = {apply, look, rebuild, take, done, news, tell, wake};

struct segments *sim_segments_worker(struct sim_segments *sim, uint32_t name)
{
    struct worker *worker = must(calloc(1, sizeof(*worker)));
    CHECK(name != SERVER_WORKER_NONE);
    worker->segments.ops = &worker_ops;
    worker->sim = sim;
    worker->name = name;
    worker->news_lost = true; /* whatever was said before it listened */
    memset(worker->again, 1, sizeof(worker->again));
    worker->next = sim->workers;
    sim->workers = worker;
    return &worker->segments;
}

void sim_segments_worker_free(struct segments *segments)
{
    struct worker *worker = (struct worker *)segments;
    if (worker == NULL) {
        return;
    }
    struct worker **link = &worker->sim->workers;
    while (*link != worker) {
        link = &(*link)->next;
    }
    *link = worker->next;
    free(worker);
}

/* ---- faults ---- */

/* Connections to it end: workers begin with what they hold again. */
static void disconnect(const struct sim_segments *sim, uint32_t segment)
{
    for (struct worker *worker = sim->workers; worker != NULL; worker = worker->next) {
        worker->again[segment] = true;
        worker->behind[segment] = 0;
    }
}

void sim_segments_away(struct sim_segments *sim, uint32_t segment, bool away)
{
    sim->servers[segment].away = away;
    disconnect(sim, segment);
}

void sim_segments_lose(struct sim_segments *sim, uint32_t segment, uint32_t count)
{
    sim->servers[segment].lose = count;
}

uint32_t sim_segments_failover(struct sim_segments *sim, uint32_t segment, uint32_t forget)
{
    struct server *server = &sim->servers[segment];
    struct server_answer answer;
    size_t k = forget < sim->options.forget_max ? forget : sim->options.forget_max;
    k = k < server->log_count ? k : server->log_count;
    server->log_count -= k;
    server->run = ++sim->runs;
    disconnect(sim, segment);
    uint64_t numbers = server->live.numbers;
    for (size_t i = 0; i < server->log_count; i++) {
        server_run(&server->base, &server->log[i], &answer);
    }
    server->log_count = 0;
    server->base.numbers = numbers; /* they are times, really: none is given out again */
    server_state_done(&server->live);
    server_state_copy(&server->base, &server->live);
    return (uint32_t)k;
}

void sim_segments_empty(struct sim_segments *sim, uint32_t segment)
{
    struct server *server = &sim->servers[segment];
    uint64_t numbers = server->live.numbers;
    server_state_done(&server->live);
    server_state_done(&server->base);
    server->live.numbers = server->base.numbers = numbers;
    server->log_count = 0;
    server->run = ++sim->runs;
    disconnect(sim, segment);
}

bool sim_segments_break(struct sim_segments *sim, uint32_t segment, uint64_t item)
{
    struct server *server = &sim->servers[segment];
    uint32_t slot = server->live.epoch != 0 ? gate_find_item(&server->live.gate, item) : GATE_NONE;
    if (slot == GATE_NONE) {
        return false;
    }
    struct gate_item *broken = &server->live.gate.items[slot];
    broken->available += broken->locked;
    broken->locked = 0;
    /* The log would not lead there: from here on it begins with what is. */
    server_state_done(&server->base);
    server_state_copy(&server->live, &server->base);
    server->log_count = 0;
    return true;
}

void sim_segments_lose_news(struct sim_segments *sim)
{
    for (struct worker *worker = sim->workers; worker != NULL; worker = worker->next) {
        worker->news_count = 0;
        worker->news_lost = true;
    }
}

/* ---- what is there ---- */

uint64_t sim_segments_epoch(const struct sim_segments *sim, uint32_t segment)
{
    return sim->servers[segment].live.epoch;
}

bool sim_segments_open(const struct sim_segments *sim, uint32_t segment)
{
    const struct server *server = &sim->servers[segment];
    return server->live.epoch != 0 && server->live.open && server->live.run == server->run;
}

const struct gate *sim_segments_gate(const struct sim_segments *sim, uint32_t segment)
{
    const struct server_state *live = &sim->servers[segment].live;
    return live->epoch != 0 ? &live->gate : NULL;
}

uint64_t sim_segments_outbox(const struct sim_segments *sim, uint32_t segment)
{
    return sim->servers[segment].live.outbox_count;
}

uint64_t sim_segments_writes(const struct sim_segments *sim, uint32_t segment)
{
    return sim->servers[segment].writes;
}

/* ---- life ---- */

struct sim_segments *sim_segments_new(struct sim_segments_options options)
{
    struct sim_segments *sim = must(calloc(1, sizeof(*sim)));
    CHECK(options.segments >= 1 && options.segments <= SEGMENTS_MAX && options.clock != NULL);
    sim->options = options;
    sim->servers = must(calloc(options.segments, sizeof(*sim->servers)));
    for (uint32_t i = 0; i < options.segments; i++) {
        sim->servers[i].run = ++sim->runs;
    }
    return sim;
}

void sim_segments_free(struct sim_segments *sim)
{
    if (sim == NULL) {
        return;
    }
    CHECK(sim->workers == NULL);
    sim_free_requests(sim);
    for (uint32_t i = 0; i < sim->options.segments; i++) {
        server_state_done(&sim->servers[i].live);
        server_state_done(&sim->servers[i].base);
        free(sim->servers[i].log);
    }
    free(sim->servers);
    free(sim);
}
