/*
 * The steps of a job: ticket -> buy -> result -> pay or cancel. Happy path: an answer arrives, the
 * functions below take from it what the job needs and what the client was told, and queue a
 * verdict. When all answers of this turn are read and the tell file is written, bench_flow_advance
 * runs the verdicts and submits the next requests. So no request depends on an answer that is not
 * in the file yet.
 *
 * What can go wrong: refusals (counted by code), answers that contradict earlier ones (counted as
 * backwards; the audit fails), requests without an answer (repeated as the options allow; otherwise
 * the outcome is unknown, and the audit accepts either).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/err.h"
#include "bench/bench.h"

#define RETRY_DEFAULT_MS 50
#define RETRY_MAX_MS 2000

static void counter_add(atomic_uint_fast64_t *counter)
{
    /* One writer: a load and a store without a locked instruction. */
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + 1, memory_order_relaxed);
}

/* --- requests ---------------------------------------------------------------------------- */

static const char *worker_token(struct bench_worker *worker, const struct bench_job *job)
{
    char **token = &worker->tokens[job->user_index];
    if (*token == NULL) {
        char text[BENCH_TOKEN_MAX];
        size_t len =
            bench_token_write(&worker->shared->keys, job->user, worker->token_expires_s, text);
        *token = bench_grow(NULL, len + 1);
        memcpy(*token, text, len);
        (*token)[len] = '\0';
    }
    return *token;
}

static void render_common(struct bench_worker *worker, const struct bench_job *job, struct out *out)
{
    out_lit(out, " HTTP/1.1\r\nHost: ");
    out_text(out, worker->shared->target.host);
    out_lit(out, "\r\nAuthorization: Bearer ");
    out_text(out, worker_token(worker, job));
}

static void render_buy(struct bench_worker *worker, const struct bench_job *job, struct out *out)
{
    char body[32];
    struct out qty = out_over(body, sizeof(body));
    out_lit(&qty, "{\"qty\":");
    out_u64(&qty, worker->options->qty);
    out_char(&qty, '}');
    out_lit(out, "POST /v1/buy/");
    out_bytes(out, job->ticket, job->ticket_len);
    render_common(worker, job, out);
    out_lit(out, "\r\nContent-Type: application/json\r\nContent-Length: ");
    out_u64(out, qty.len);
    out_lit(out, "\r\n\r\n");
    out_put(out, out_span(&qty));
}

/* A payment notice from the shop. The order id is also the payment id. */
static void render_pay(struct bench_worker *worker, const struct bench_job *job, struct out *out)
{
    char text[256];
    struct span id = {job->order_id, job->order_id_len};
    struct out body = out_over(text, sizeof(text));
    out_lit(&body, "{\"payment_id\":\"");
    out_put(&body, id);
    out_lit(&body, "\",\"order_id\":\"");
    out_put(&body, id);
    out_lit(&body, "\",\"amount_cents\":");
    out_i64(&body, job->amount_cents);
    out_char(&body, '}');
    char seconds[24];
    struct out timestamp = out_over(seconds, sizeof(seconds));
    out_i64(&timestamp, (int64_t)time(NULL));
    char signature[BENCH_SIGNATURE_LEN];
    bench_signature_write(&worker->shared->keys, id, out_span(&timestamp), out_span(&body),
                          signature);

    out_lit(out, "POST /v1/payments HTTP/1.1\r\nHost: ");
    out_text(out, worker->shared->target.host);
    out_lit(out, "\r\nContent-Type: application/json\r\nwebhook-id: ");
    out_put(out, id);
    out_lit(out, "\r\nwebhook-timestamp: ");
    out_put(out, out_span(&timestamp));
    out_lit(out, "\r\nwebhook-signature: ");
    out_bytes(out, signature, sizeof(signature));
    out_lit(out, "\r\nContent-Length: ");
    out_u64(out, body.len);
    out_lit(out, "\r\n\r\n");
    out_put(out, out_span(&body));
}

static void flow_render(void *context, struct bench_request *request, struct out *out)
{
    struct bench_worker *worker = context;
    struct bench_job *job = request->job;
    if (job->bytes != NULL) {
        out_bytes(out, job->bytes, job->bytes_len);
        return;
    }
    request->known = (int8_t)(job->answer == NULL ? ANSWER_NONE : job->answer->state);
    switch ((enum bench_step)request->step) {
    case STEP_TICKET:
        out_lit(out, "POST /v1/items/");
        out_u64(out, job->item);
        out_lit(out, "/ticket");
        render_common(worker, job, out);
        out_lit(out, "\r\nContent-Length: 0\r\n\r\n");
        break;
    case STEP_BUY:
        job->asked = true;
        render_buy(worker, job, out);
        break;
    case STEP_RESULT:
        out_lit(out, "GET /v1/orders/");
        out_bytes(out, job->order_id, job->order_id_len);
        out_lit(out, "?wait_ms=");
        out_u64(out, worker->options->wait_ms);
        render_common(worker, job, out);
        out_lit(out, "\r\n\r\n");
        break;
    case STEP_PAY:
        render_pay(worker, job, out);
        break;
    case STEP_CANCEL:
        out_lit(out, "POST /v1/orders/");
        out_bytes(out, job->order_id, job->order_id_len);
        out_lit(out, "/cancel");
        render_common(worker, job, out);
        out_lit(out, "\r\nContent-Length: 0\r\n\r\n");
        break;
    case STEP_GET:
    case STEP_COUNT:
        CHECK(false);
    }
}

static void job_submit(struct bench_worker *worker, struct bench_job *job, enum bench_step step,
                       int64_t due_ns, bool duplicate)
{
    struct bench_request request = {
        .job = job,
        .due_ns = due_ns,
        .step = (uint8_t)step,
        .known = ANSWER_NONE,
        .duplicate = duplicate,
    };
    job->open++;
    net_submit(&worker->net, &request);
}

/* The first buy of a job, with its random choices. */
static void job_buy(struct bench_worker *worker, struct bench_job *job, int64_t due_ns)
{
    struct bench_request request = {
        .job = job,
        .due_ns = due_ns,
        .step = STEP_BUY,
        .known = ANSWER_NONE,
        .drop = job->drops,
    };
    job->open++;
    net_submit(&worker->net, &request);
    if (job->duplicates) {
        worker->stats.duplicates++;
        job_submit(worker, job, STEP_BUY, due_ns, true);
    }
}

/* --- answers ----------------------------------------------------------------------------- */

static void ready_push(struct bench_worker *worker, const struct bench_request *request,
                       enum bench_verdict verdict, uint32_t delay_ms)
{
    if (worker->ready_count == worker->ready_cap) {
        worker->ready_cap = worker->ready_cap == 0 ? 256 : worker->ready_cap * 2;
        worker->ready = bench_grow(worker->ready, worker->ready_cap * sizeof(*worker->ready));
    }
    worker->ready[worker->ready_count++] = (struct bench_ready){*request, verdict, delay_ms};
}

static void refused_count(struct bench_stats *stats, struct span code)
{
    for (size_t i = 0; i < stats->refused_count; i++) {
        if (span_is(code, stats->refused[i].text)) {
            stats->refused[i].count++;
            return;
        }
    }
    if (code.len >= sizeof(stats->refused[0].text) || stats->refused_count == BENCH_CODES_MAX) {
        return;
    }
    struct bench_code *added = &stats->refused[stats->refused_count++];
    memcpy(added->text, code.at, code.len);
    added->text[code.len] = '\0';
    added->count = 1;
}

/* The code of a refusal; without one, the status as a word. */
static struct span answer_code(const struct bench_answer *answer, char *memory, size_t cap)
{
    struct span code;
    if (bench_json_text(answer->body, "code", &code) == 0) {
        return code;
    }
    (void)snprintf(memory, cap, "http_%d", answer->status);
    return span_of(memory);
}

static void job_tell(struct bench_worker *worker, const struct bench_job *job, int http_status,
                     struct span status)
{
    struct span id = {job->order_id, job->order_id_len};
    if (id.len == 0) {
        id = (struct span){"-", 1}; /* no ticket yet */
    }
    if (tell_line(&worker->tell, id, job->user, job->item, worker->options->qty, http_status,
                  status) != 0) {
        bench_fail(worker->shared, "out of memory");
    }
}

/* Handles an answer that shows the job's order. False: the answer makes no sense. */
static bool order_seen(struct bench_worker *worker, const struct bench_request *request,
                       const struct bench_answer *answer)
{
    struct bench_job *job = request->job;
    struct span id;
    struct span status;
    enum order_state state;
    if (bench_json_text(answer->body, "order_id", &id) != 0 ||
        bench_json_text(answer->body, "status", &status) != 0 ||
        order_state_parse(status, &state) != 0) {
        return false;
    }
    if (!span_equal(id, (struct span){job->order_id, job->order_id_len})) {
        worker->stats.backwards++; /* one ticket, two orders */
        return false;
    }
    if (job->answer == NULL) {
        if (answer_put(&worker->answer, id, &job->answer) != 0) {
            bench_fail(worker->shared, "out of memory");
            return false;
        }
        job->answer->user = job->user;
        job->answer->item = job->item;
        job->answer->qty = worker->options->qty;
    }
    if (job->answer->state == ANSWER_NONE && order_state_alive(state)) {
        counter_add(&worker->stats.orders);
    }
    if (!answer_advance(job->answer, request->known, state)) {
        worker->stats.backwards++;
    }
    (void)bench_json_number(answer->body, "amount_cents", &job->amount_cents);
    job_tell(worker, job, answer->status, status);
    return true;
}

static bool retry_allowed(struct bench_worker *worker, struct bench_job *job)
{
    if (worker->options->keep_going && !worker->deadline_seen) {
        return true;
    }
    if (job->retries_left == 0) {
        return false;
    }
    job->retries_left--;
    return true;
}

static uint32_t retry_delay_ms(const struct bench_answer *answer)
{
    int64_t delay_ms = RETRY_DEFAULT_MS;
    (void)bench_json_number(answer->body, "retry_after_ms", &delay_ms);
    return (uint32_t)(delay_ms > RETRY_MAX_MS ? RETRY_MAX_MS : delay_ms);
}

/* Handles a refusal of any step; returns what the job does next. */
static enum bench_verdict refusal_digest(struct bench_worker *worker,
                                         const struct bench_request *request,
                                         const struct bench_answer *answer)
{
    struct bench_job *job = request->job;
    char memory[32];
    struct span code = answer_code(answer, memory, sizeof(memory));
    refused_count(&worker->stats, code);
    job_tell(worker, job, answer->status, code);
    bool passing = answer->status == 503 || answer->status == 429 || span_is(code, "queued");
    if (request->step == STEP_BUY) {
        struct span retry;
        if (answer->status >= 500 && (bench_json_text(answer->body, "retry", &retry) != 0 ||
                                      span_is(retry, "same-ticket"))) {
            job->unknown = true;
        } else if (!passing) {
            job->refused = true;
        }
    }
    bool about_order = request->step == STEP_BUY || request->step == STEP_RESULT;
    if (about_order && !passing && request->known != ANSWER_NONE) {
        worker->stats.backwards++; /* the order existed and is now refused or not found */
    }
    if (request->duplicate) {
        return VERDICT_NOTHING;
    }
    return passing && retry_allowed(worker, job) ? VERDICT_RETRY : VERDICT_END;
}

static bool ticket_digest(struct bench_worker *worker, struct bench_job *job,
                          const struct bench_answer *answer)
{
    struct span ticket;
    struct span id;
    if (bench_json_text(answer->body, "ticket", &ticket) != 0 ||
        bench_json_text(answer->body, "order_id", &id) != 0 || id.len == 0 ||
        id.len > BENCH_ORDER_ID_MAX || ticket.len > 1024) {
        return false;
    }
    job->ticket = bench_grow(job->ticket, ticket.len + 1);
    memcpy(job->ticket, ticket.at, ticket.len);
    job->ticket_len = (uint32_t)ticket.len;
    memcpy(job->order_id, id.at, id.len);
    job->order_id_len = (uint8_t)id.len;
    job->answer = answer_find(&worker->answer, id); /* an earlier attempt may know the order */
    return true;
}

static void flow_answered(void *context, const struct bench_request *request,
                          const struct bench_answer *answer)
{
    struct bench_worker *worker = context;
    struct bench_job *job = request->job;
    worker->last_answer_ns = bench_now_ns();
    counter_add(&worker->stats.requests);
    int64_t latency_us = (worker->last_answer_ns - request->due_ns) / 1000;
    hist_add(&worker->stats.latency[request->step], (uint64_t)(latency_us > 0 ? latency_us : 0));
    if (job->bytes != NULL) {
        if (answer->status >= 300) {
            char memory[32];
            refused_count(&worker->stats, answer_code(answer, memory, sizeof(memory)));
        }
        ready_push(worker, request, VERDICT_RESEND, 0);
        return;
    }
    if (answer->status >= 300) {
        uint32_t delay_ms = retry_delay_ms(answer);
        ready_push(worker, request, refusal_digest(worker, request, answer), delay_ms);
        return;
    }
    bool sense = request->step == STEP_TICKET ? ticket_digest(worker, job, answer)
                                              : order_seen(worker, request, answer);
    if (!sense) {
        counter_add(&worker->stats.errors);
        job->unknown = true;
    }
    enum bench_verdict verdict = sense ? VERDICT_NEXT : VERDICT_END;
    ready_push(worker, request, request->duplicate ? VERDICT_NOTHING : verdict, 0);
}

static void flow_lost(void *context, const struct bench_request *request, enum bench_loss loss)
{
    struct bench_worker *worker = context;
    struct bench_job *job = request->job;
    if (loss == LOSS_DROPPED) {
        worker->stats.drops++;
    } else {
        counter_add(&worker->stats.errors);
    }
    if (request->step == STEP_BUY) {
        job->unknown = true;
    }
    enum bench_verdict verdict = VERDICT_END;
    if (job->bytes != NULL || loss == LOSS_DROPPED) {
        verdict = VERDICT_RESEND;
    } else if (request->duplicate) {
        verdict = VERDICT_NOTHING;
    } else if (retry_allowed(worker, job)) {
        verdict = VERDICT_RETRY;
    }
    ready_push(worker, request, verdict, 0);
}

const struct bench_net_events bench_flow_events = {
    .render = flow_render,
    .answered = flow_answered,
    .lost = flow_lost,
};

/* --- jobs -------------------------------------------------------------------------------- */

static void live_add(struct bench_worker *worker, struct bench_job *job)
{
    job->previous = NULL;
    job->next = worker->live;
    if (worker->live != NULL) {
        worker->live->previous = job;
    }
    worker->live = job;
    worker->live_count++;
}

static void live_remove(struct bench_worker *worker, struct bench_job *job)
{
    if (job->previous != NULL) {
        job->previous->next = job->next;
    } else {
        worker->live = job->next;
    }
    if (job->next != NULL) {
        job->next->previous = job->previous;
    }
    worker->live_count--;
}

static bool chosen(struct prng *prng, double percent)
{
    return prng_below(prng, 1000000) < (uint64_t)(percent * 10000);
}

static struct bench_job *job_make(struct bench_worker *worker)
{
    const struct bench_options *options = worker->options;
    struct bench_job *job = worker->free_jobs;
    if (job == NULL) {
        job = bench_grow(NULL, sizeof(*job));
    } else {
        worker->free_jobs = job->next;
        free(job->ticket);
        free(job->bytes);
    }
    uint64_t number = worker->jobs_made++;
    uint64_t round = number / worker->user_count;
    *job = (struct bench_job){.user_index = number % worker->user_count};
    uint64_t user_number = job->user_index * options->threads + worker->index;
    job->user = options->first_user + user_number;
    job->item = options->items[(user_number + round) % options->item_count];
    job->retries_left = options->retries;
    /* Drawn per job, not per event: the same seed chooses the same jobs, whatever the timing. */
    struct prng prng = prng_of(options->seed ^ (number * options->threads + worker->index) << 20);
    job->duplicates = chosen(&prng, options->duplicates_percent);
    job->drops = chosen(&prng, options->drops_percent);
    job->pays = chosen(&prng, options->pay_percent);
    job->cancels = !job->pays && chosen(&prng, options->cancel_percent);
    return job;
}

static bool job_has_order(const struct bench_job *job)
{
    return job->answer != NULL && job->answer->state != ANSWER_NONE;
}

/* What the audit may conclude from a job that never saw an order. */
static void job_settle(struct bench_worker *worker, const struct bench_job *job)
{
    struct answer *answer = NULL;
    if (!job->asked || job_has_order(job) || (!job->refused && !job->unknown)) {
        return;
    }
    if (answer_put(&worker->answer, (struct span){job->order_id, job->order_id_len}, &answer) !=
        0) {
        bench_fail(worker->shared, "out of memory");
        return;
    }
    answer->user = job->user;
    answer->item = job->item;
    answer->qty = worker->options->qty;
    answer->unknown = answer->unknown || job->unknown;
    answer->refused = answer->refused || job->refused;
}

static void job_finish(struct bench_worker *worker, struct bench_job *job)
{
    live_remove(worker, job);
    job_settle(worker, job);
    struct bench_job **list = &worker->free_jobs;
    if (worker->phase == PHASE_TICKETS && job->ticket != NULL) {
        worker->tickets++;
        job->ended = false;
        job->next = NULL;
        *(worker->prepared == NULL ? &worker->prepared : &worker->prepared_last->next) = job;
        worker->prepared_last = job;
        return;
    }
    if (worker->phase == PHASE_SETTLE) {
        bool winner = job_has_order(job);
        list = winner ? &worker->winners : &worker->hot;
        worker->hot_count += winner ? 0 : 1;
    }
    job->next = *list;
    *list = job;
}

bool bench_flow_start(struct bench_worker *worker, int64_t due_ns)
{
    bool has_ticket = worker->phase == PHASE_SETTLE ||
                      (worker->phase == PHASE_MEASURE && worker->options->prefetch);
    struct bench_job *job = worker->prepared;
    if (has_ticket) {
        if (job == NULL) {
            return false;
        }
        worker->prepared = job->next;
        live_add(worker, job);
        job_buy(worker, job, due_ns);
        return true;
    }
    if (worker->jobs_made == worker->job_count) {
        return false;
    }
    job = job_make(worker);
    live_add(worker, job);
    job_submit(worker, job, STEP_TICKET, due_ns, false);
    return true;
}

/* The step after one that succeeded. */
static void job_next(struct bench_worker *worker, struct bench_job *job, enum bench_step step,
                     int64_t now_ns)
{
    switch (step) {
    case STEP_TICKET:
        if (worker->phase == PHASE_TICKETS) {
            job->ended = true;
        } else {
            job_buy(worker, job, now_ns);
        }
        return;
    case STEP_BUY:
        if (worker->options->poll_result && worker->phase == PHASE_MEASURE) {
            job_submit(worker, job, STEP_RESULT, now_ns, false);
        } else {
            job->ended = true;
        }
        return;
    case STEP_RESULT:
        if (job->answer->state == ORDER_QUEUED) {
            job_submit(worker, job, STEP_RESULT, now_ns, false);
        } else if (job->answer->state == ORDER_LOCKED && job->pays) {
            job_submit(worker, job, STEP_PAY, now_ns, false);
        } else if (job->answer->state == ORDER_LOCKED && job->cancels) {
            job_submit(worker, job, STEP_CANCEL, now_ns, false);
        } else {
            job->ended = true;
        }
        return;
    case STEP_PAY:
    case STEP_CANCEL:
    case STEP_GET:
    case STEP_COUNT:
        job->ended = true;
        return;
    }
}

static void ready_run(struct bench_worker *worker, const struct bench_ready *ready, int64_t now_ns)
{
    struct bench_job *job = ready->request.job;
    struct bench_request again = ready->request;
    again.drop = false;
    job->open--;
    switch (ready->verdict) {
    case VERDICT_NEXT:
        job_next(worker, job, (enum bench_step)ready->request.step, now_ns);
        break;
    case VERDICT_RETRY:
        worker->stats.retries++;
        job->open++;
        if (ready->delay_ms > 0) {
            again.due_ns = now_ns + (int64_t)ready->delay_ms * 1000000;
            request_heap_push(&worker->sleeping, again.due_ns, &again);
        } else {
            net_submit(&worker->net, &again); /* the client is still waiting: due stays */
        }
        break;
    case VERDICT_RESEND:
        again.due_ns = job->bytes != NULL ? now_ns : again.due_ns;
        job->open++;
        net_submit(&worker->net, &again);
        break;
    case VERDICT_END:
        job->ended = true;
        break;
    case VERDICT_NOTHING:
        break;
    }
    if (job->ended && job->open == 0) {
        job_finish(worker, job);
    }
}

void bench_flow_advance(struct bench_worker *worker, int64_t now_ns)
{
    for (size_t i = 0; i < worker->ready_count; i++) {
        ready_run(worker, &worker->ready[i], now_ns);
    }
    worker->ready_count = 0;
}

/* The request of a hammering job, ready to send. */
static void job_bytes_make(struct bench_worker *worker, struct bench_job *job)
{
    char memory[BENCH_REQUEST_MAX];
    struct out out = out_over(memory, sizeof(memory));
    if (worker->options->get_path != NULL) {
        job->step = STEP_GET;
        out_lit(&out, "GET ");
        out_text(&out, worker->options->get_path);
        out_lit(&out, " HTTP/1.1\r\nHost: ");
        out_text(&out, worker->shared->target.host);
        out_lit(&out, "\r\n\r\n");
    } else {
        job->step = STEP_BUY;
        job->unknown = true; /* repeated many times: any outcome is possible */
        job_settle(worker, job);
        render_buy(worker, job, &out);
    }
    CHECK(!out.overflow);
    job->bytes = bench_grow(NULL, out.len);
    job->bytes_len = (uint32_t)out.len;
    memcpy(job->bytes, out.at, out.len);
}

void bench_flow_hammer(struct bench_worker *worker)
{
    struct bench_job **last = &worker->hot;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = worker->winners; /* used only if there are too few losers */
    worker->winners = NULL;
    size_t slots = (size_t)worker->connections * worker->options->pipeline;
    int64_t now_ns = bench_now_ns();
    for (size_t i = 0; i < slots; i++) {
        struct bench_job *job = worker->hot;
        if (worker->options->get_path != NULL) {
            job = bench_grow(NULL, sizeof(*job));
            *job = (struct bench_job){0};
        } else if (job != NULL) {
            worker->hot = job->next;
        } else {
            return;
        }
        job_bytes_make(worker, job);
        job->ended = false;
        live_add(worker, job);
        job_submit(worker, job, (enum bench_step)job->step, now_ns, false);
    }
}

void bench_flow_abandon(struct bench_worker *worker)
{
    for (struct bench_job *job = worker->live; job != NULL; job = job->next) {
        job->unknown = true;
        job_settle(worker, job);
    }
}
