/*
 * The loop's turn, routing, and answers that wait. See front.h.
 *
 * What stays true: nothing is told before its LSN is durable (front_after is the only way to wait
 * for it); an op, query or ask under way is freed exactly once, whether or not its connection lives; a
 * latched journal turns every waiting answer into "outcome not known, same ticket".
 */
#include "http/front.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/err.h"
#include "http/front_private.h"
#include "http/static.h"
#include "http/watch.h"

/* Office ops and queries of one loop under way, about 1 KiB each, by whose they are: buyers who list
 * their orders must not keep the shop's payments out. */
static const uint32_t budgets[BUDGET_COUNT] = {
    [BUDGET_SHOP] = 4096, [BUDGET_OPERATOR] = 256, [BUDGET_BUYER] = 512};
#define CALLS_MAX (4096 + 256 + 512)
#define EVENTS_A_TURN 512

/* ---- waiting for durable_lsn ---- */

bool front_durable(const struct front *front, uint64_t lsn)
{
    return lsn <= journal_durable_lsn(front->journal);
}

struct slot *front_slot(struct front *front, struct http_exchange exchange)
{
    CHECK(exchange.connection < front->slots_count);
    struct slot *slot = &front->slots[exchange.connection];
    if (slot->generation != exchange.generation) {
        CHECK(slot->watch == WATCH_NOTHING);
        slot->generation = exchange.generation;
        slot->wait = WAIT_NOTHING;
        slot->finished = false;
    }
    return slot;
}

bool front_after(struct front *front, uint64_t lsn, struct http_exchange exchange,
                 struct front_call *call)
{
    if (front->waits_count == front->waits_capacity) {
        return false;
    }
    uint32_t mask = front->waits_capacity - 1;
    /* In order: an older LSN behind a newer one just waits with it. */
    if (front->waits_count > 0) {
        uint64_t last = front->waits[(front->waits_head + front->waits_count - 1) & mask].lsn;
        lsn = lsn < last ? last : lsn;
    }
    front->waits[(front->waits_head + front->waits_count) & mask] =
        (struct waiting){lsn, exchange, call};
    front->waits_count++;
    return true;
}

static void call_finish(struct front *front, struct front_call *call)
{
    if (http_alive(front->server, call->exchange)) {
        if (call->write.error != 0) {
            front_refuse_error(front, call->exchange, call->write.error);
        } else {
            call->done(front, call);
        }
    }
    front_call_free(front, call);
}

static void answer_waiting(struct front *front, const struct waiting *waiting, bool lost)
{
    if (waiting->call != NULL) {
        if (lost) {
            waiting->call->write.error = ERR_LATCHED;
        }
        call_finish(front, waiting->call);
        return;
    }
    struct slot *slot = &front->slots[waiting->exchange.connection];
    if (slot->generation != waiting->exchange.generation ||
        !http_alive(front->server, waiting->exchange)) {
        return;
    }
    enum wait_kind kind = (enum wait_kind)slot->wait;
    slot->wait = WAIT_NOTHING;
    switch (kind) {
    case WAIT_BUY:
        buy_answer(front, waiting->exchange, slot, lost);
        break;
    case WAIT_VIEW:
        view_answer(front, waiting->exchange, slot, lost);
        break;
    case WAIT_PUSH:
        if (lost) {
            watch_lost(front, waiting->exchange);
        } else {
            watch_push(front, waiting->exchange);
        }
        break;
    case WAIT_NOTHING:
        break;
    }
}

static bool answer_durable(struct front *front)
{
    bool lost = journal_latched(front->journal);
    uint64_t durable = journal_durable_lsn(front->journal);
    uint32_t count = front->waits_count; /* what is added meanwhile waits for its own turn */
    uint32_t done = 0;
    for (; done < count; done++) {
        struct waiting waiting = front->waits[front->waits_head];
        bool is_durable = waiting.lsn <= durable;
        if (!is_durable && !lost) {
            break;
        }
        front->waits_head = (front->waits_head + 1) & (front->waits_capacity - 1);
        front->waits_count--;
        answer_waiting(front, &waiting, !is_durable);
    }
    return done > 0;
}

/* ---- calls ---- */

struct front_call *front_call_new(struct asking *asking,
                                  void (*done)(struct front *front, struct front_call *call),
                                  enum front_budget budget)
{
    struct front *front = asking->front;
    bool room = front->calls[budget] < budgets[budget];
    struct front_call *call = room ? calloc(1, sizeof(*call)) : NULL;
    if (call != NULL) {
        front->calls[budget]++;
        call->budget = budget;
        call->exchange = asking->exchange;
        call->done = done;
        call->write.loop = front->loop;
    }
    return call;
}

void front_call_free(struct front *front, struct front_call *call)
{
    sale_row_free(call->sale_in);
    sale_row_free(call->write.op.sale);
    front->calls[call->budget]--;
    free(call);
}

enum http_outcome front_write(struct front *front, struct front_call *call)
{
    office_post(front->shared->office, &call->write);
    return HTTP_PENDING;
}

static size_t row_size(enum ledger_query_kind kind)
{
    switch (kind) {
    case QUERY_SALES:
        return sizeof(struct sale_row *);
    case QUERY_EVENTS:
        return sizeof(struct ledger_event);
    case QUERY_REPORT:
        return sizeof(struct report_row);
    case QUERY_SERIES:
        return sizeof(struct series_row);
    default:
        return sizeof(struct order_row);
    }
}

struct front_query *front_query_new(struct asking *asking, enum ledger_query_kind kind,
                                    uint32_t limit,
                                    void (*done)(struct front *front, struct front_query *query),
                                    enum front_budget budget)
{
    struct front *front = asking->front;
    bool room = front->calls[budget] < budgets[budget];
    struct front_query *query = room ? calloc(1, sizeof(*query)) : NULL;
    void *rows = query != NULL ? calloc(limit > 0 ? limit : 1, row_size(kind)) : NULL;
    if (rows == NULL) {
        free(query);
        return NULL;
    }
    front->calls[budget]++;
    query->budget = budget;
    struct ledger_query *q = &query->clerk.query;
    q->kind = kind;
    q->limit = limit;
    q->state = -1;
    q->segment = SEGMENT_ALL;
    q->sales = kind == QUERY_SALES ? rows : NULL;
    q->events = kind == QUERY_EVENTS ? rows : NULL;
    q->report = kind == QUERY_REPORT ? rows : NULL;
    q->series = kind == QUERY_SERIES ? rows : NULL;
    bool other = q->sales != NULL || q->events != NULL || q->report != NULL || q->series != NULL;
    q->orders = other ? NULL : rows;
    query->exchange = asking->exchange;
    query->done = done;
    query->uses = 1;
    query->clerk.loop = front->loop;
    return query;
}

void front_query_keep(struct front_query *query)
{
    query->uses++;
}

void front_query_release(struct front *front, struct front_query *query)
{
    struct ledger_query *q = &query->clerk.query;
    if (--query->uses > 0) {
        return;
    }
    for (uint32_t i = 0; q->sales != NULL && i < q->count; i++) {
        sale_row_free(q->sales[i]);
    }
    free(q->sales);
    free(q->events);
    free(q->report);
    free(q->series);
    free(q->orders);
    if (query->own != NULL) {
        query->own_free(query->own);
    }
    front->calls[query->budget]--;
    free(query);
}

enum http_outcome front_query_post(struct front *front, struct front_query *query)
{
    clerk_post(front->shared->clerk, &query->clerk);
    return HTTP_PENDING;
}

/* Everything other threads have finished for this loop. True if there was anything. */
static bool collect(struct front *front)
{
    struct office_op *ops = office_collect(front->shared->office, front->loop);
    struct clerk_query *queries = clerk_collect(front->shared->clerk, front->loop);
    bool any = ops != NULL || queries != NULL;
    while (ops != NULL) {
        struct front_call *call = (struct front_call *)ops;
        ops = (struct office_op *)ops->post.next;
        bool wait = call->write.error == 0 && !front_durable(front, call->write.lsn);
        if (!wait || !front_after(front, call->write.lsn, call->exchange, call)) {
            call_finish(front, call);
        }
    }
    while (queries != NULL) {
        struct front_query *query = (struct front_query *)queries;
        queries = (struct clerk_query *)queries->post.next;
        if (http_alive(front->server, query->exchange)) {
            query->done(front, query);
        }
        front_query_release(front, query);
    }
    /* Before the notices: an order that begins to be watched here may be among them. */
    any = asks_collect(front) || any;
    any = reconciles_collect(front) || any;
    any = parkings_collect(front) || any;
    return watch_notices(front) || any;
}

/* ---- routing ---- */

/* Matches path against a pattern; parts in braces into ret_parts. */
static bool match(const char *pattern, struct span path, struct span *ret_parts)
{
    size_t at = 0;
    int part = 0;
    while (*pattern != '\0') {
        if (*pattern != '{') {
            if (at == path.len || path.at[at] != *pattern) {
                return false;
            }
            at++;
            pattern++;
            continue;
        }
        size_t from = at;
        while (at < path.len && path.at[at] != '/') {
            at++;
        }
        if (at == from || part == 2) {
            return false;
        }
        ret_parts[part++] = (struct span){path.at + from, at - from};
        pattern = strchr(pattern, '}') + 1;
    }
    return at == path.len;
}

static bool route_exists(const struct front *front, const struct route *route)
{
    bool health_loop = front->loop == front->shared->loops - 1;
    if (front->shared->health_only && route->scope != ROUTE_HEALTH) {
        return false;
    }
    switch (route->scope) {
    case ROUTE_DEMO:
        return front->shared->demo;
    case ROUTE_HEALTH:
        return !front->shared->private_health || health_loop;
    case ROUTE_PUBLIC:
        break;
    }
    return !(front->shared->private_health && health_loop);
}

static const char *method_text(enum http_method method)
{
    static const char *const texts[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", ""};
    return texts[method];
}

static enum http_outcome refuse_method(struct asking *asking)
{
    char text[96];
    struct span parts[2];
    struct out allow = out_over(text, sizeof(text) - 1);
    out_lit(&allow, "Allow: OPTIONS");
    for (size_t i = 0; i < routes_count; i++) {
        if (route_exists(asking->front, &routes[i]) &&
            match(routes[i].pattern, asking->request->path, parts)) {
            out_lit(&allow, ", ");
            out_text(&allow, method_text(routes[i].method));
            if (routes[i].method == HTTP_GET) {
                out_lit(&allow, ", HEAD");
            }
        }
    }
    out_lit(&allow, "\r\n");
    text[allow.len] = '\0';
    return front_refuse(asking->front, asking->exchange,
                        &(struct refused){.refusal = REFUSAL_METHOD_NOT_ALLOWED,
                                          .headers = text,
                                          .detail = "use one of the methods in the Allow header"});
}

static bool origin_allowed(const struct front *front, struct span origin)
{
    const char *list = front->settings->cors_origins;
    while (*list != '\0') {
        size_t skip = strspn(list, " ,");
        list += skip;
        size_t len = strcspn(list, " ,");
        if (len > 0 &&
            (span_equal(origin, (struct span){list, len}) || (len == 1 && *list == '*'))) {
            return true;
        }
        list += len;
    }
    return false;
}

/* Remembers which of the configured origins asks, for the answer's headers. */
static void note_origin(struct front *front, struct http_exchange exchange, struct span origin)
{
    struct slot *slot = &front->slots[exchange.connection];
    if (origin.at != NULL) {
        slot = front_slot(front, exchange);
        slot->origin_len =
            (uint8_t)(origin.len < sizeof(slot->origin) && origin_allowed(front, origin)
                          ? origin.len
                          : 0);
        memcpy(slot->origin, origin.at, slot->origin_len);
    } else if (slot->origin_len != 0) {
        slot->origin_len = 0;
    }
}

static enum http_outcome answer_options(struct asking *asking)
{
    char text[512];
    struct span origin = asking->request->origin;
    struct out headers = out_over(text, sizeof(text) - 1);
    out_lit(&headers, "Allow: GET, HEAD, POST, PUT, DELETE, OPTIONS\r\nVary: Origin\r\n");
    if (origin.at != NULL && origin_allowed(asking->front, origin)) {
        out_lit(&headers, "Access-Control-Allow-Origin: ");
        out_put(&headers, origin);
        out_lit(&headers,
                "\r\nAccess-Control-Allow-Methods: GET, POST, PUT, DELETE\r\n"
                "Access-Control-Allow-Headers: authorization, content-type, last-event-id\r\n"
                "Access-Control-Max-Age: 7200\r\n");
    }
    text[headers.overflow ? 0 : headers.len] = '\0';
    (void)http_answer(asking->front->server, asking->exchange, 204, NULL, text,
                      (struct span){NULL, 0});
    return HTTP_ANSWERED;
}

static enum http_outcome admit(struct asking *asking, const struct route *route)
{
    struct front *front = asking->front;
    struct span authorization = asking->request->authorization;
    if (route->need == NEED_ADMIN) {
        struct span token = span_of(front->settings->admin_token);
        if (!token_is_admin(authorization, token)) {
            bool buyer = false;
            bool known = token_check(front->tokens, &front->settings->token_keys, authorization,
                                     http_peer(front->server, asking->exchange), asking->now_ms,
                                     front->settings->token_leeway_ms, &asking->user,
                                     &buyer) == REFUSAL_NONE;
            return front_refuse_simply(front, asking->exchange,
                                       known ? REFUSAL_FORBIDDEN : REFUSAL_UNAUTHENTICATED,
                                       "send Authorization: Bearer with the admin token "
                                       "(sluice token --admin prints it)");
        }
    } else if (route->need == NEED_BUYER) {
        bool known = false;
        enum refusal refusal =
            token_check(front->tokens, &front->settings->token_keys, authorization,
                        http_peer(front->server, asking->exchange), asking->now_ms,
                        front->settings->token_leeway_ms, &asking->user, &known);
        if (refusal != REFUSAL_NONE) {
            return front_refuse_simply(front, asking->exchange, refusal,
                                       "log in and send Authorization: Bearer with a valid token");
        }
        metrics_add(front->metrics,
                    known ? METRIC_TOKENS_REMEMBERED_TOTAL : METRIC_TOKENS_VERIFIED_TOTAL, 1);
    }
    return route->handle(asking);
}

static enum http_outcome handle(void *context, struct http_exchange exchange,
                                const struct http_request *request)
{
    struct front *front = context;
    struct asking asking = {
        .front = front, .exchange = exchange, .request = request, .now_ms = front->now_ms};
    metrics_add(front->metrics, METRIC_HTTP_REQUESTS_TOTAL, 1);
    if (request->method == HTTP_OPTIONS) {
        return answer_options(&asking);
    }
    note_origin(front, exchange, request->origin);
    enum http_method method = request->method == HTTP_HEAD ? HTTP_GET : request->method;
    bool path_known = false;
    for (size_t i = 0; i < routes_count; i++) {
        const struct route *route = &routes[i];
        if (!route_exists(front, route) || !match(route->pattern, request->path, asking.part)) {
            continue;
        }
        if (route->method == method) {
            return admit(&asking, route);
        }
        path_known = true;
    }
    if (path_known) {
        return refuse_method(&asking);
    }
    if (!(front->shared->private_health && front->loop == front->shared->loops - 1) &&
        !front->shared->health_only && static_answer(front->server, exchange, request)) {
        return HTTP_ANSWERED;
    }
    return front_refuse_simply(front, exchange, REFUSAL_NOT_FOUND,
                               "no such path; /openapi.json lists them");
}

static void finished(void *context, struct http_exchange exchange)
{
    watch_finished(context, exchange);
}

static void gone(void *context, struct http_exchange exchange, uint64_t tag)
{
    (void)tag;
    watch_gone(context, exchange);
}

/* ---- the turn ---- */

static void settings_follow(struct front *front)
{
    struct front_settings *settings = atomic_load(&front->shared->settings);
    if (settings != front->settings) {
        front->settings = settings;
        atomic_store(&front->shared->settings_seen[front->loop], settings->number);
        token_memory_clear(front->tokens);
        http_server_retime(front->server, &settings->http);
    }
}

static bool drain(struct front *front)
{
    if (!front->draining) {
        front->draining = true;
        http_server_drain(front->server);
    }
    watch_drain(front);
    http_server_flush(front->server);
    /* Ops and asks under way come back to this loop's memory, so they are waited for in any case. */
    bool busy = http_server_busy(front->server) > 0 && !atomic_load(&front->shared->cut_off);
    busy = busy || front->asks_used > 0;
    for (int i = 0; i < BUDGET_COUNT; i++) {
        busy = busy || front->calls[i] > 0;
    }
    return busy;
}

/* What other threads brought: collect, then answer what became durable. */
static bool collect_and_answer(struct front *front)
{
    bool any = collect(front);
    any = answer_durable(front) || any;
    if (any) {
        http_server_flush(front->server);
    }
    return any;
}

static int64_t timers(struct front *front)
{
    int64_t http_next = INT64_MAX;
    int64_t watch_next = watch_tick(front);
    http_server_timers(front->server, front->now_ms, &http_next);
    http_server_flush(front->server);
    int64_t next = http_next < watch_next ? http_next : watch_next;
    return next <= front->now_ms ? 0
           : next == INT64_MAX   ? INT64_MAX
                                 : (next - front->now_ms) * 1000;
}

/* Sends what was asked of the gate. How long to sleep at most, so that its answers are collected. */
static int64_t flush_gate(struct front *front, int64_t sleep_us)
{
    int64_t until_us = gate_flush(front->gate, front->loop);
    if (until_us == INT64_MAX) {
        return sleep_us;
    }
    int64_t gate_us = until_us - clock_boot_us(front->shared->time->clock);
    gate_us = gate_us > 0 ? gate_us : 0;
    return gate_us < sleep_us ? gate_us : sleep_us;
}

bool front_turn(struct front *front, int64_t sleep_max_us)
{
    struct net_event events[EVENTS_A_TURN];
    settings_follow(front);
    front->now_ms = inside_time_ms(front->shared->time);
    (void)collect_and_answer(front);
    int64_t sleep_us = timers(front);
    sleep_us = sleep_us < sleep_max_us ? sleep_us : sleep_max_us;
    size_t n = net_poll(front->net, events, EVENTS_A_TURN, 0);
    if (n == 0 && sleep_us > 0) {
        uint64_t wants = front->waits_count > 0 ? front->waits[front->waits_head].lsn : UINT64_MAX;
        waker_sleepy(front->waker, wants);
        /* One more look: whoever finishes something from here on sees that we sleep. */
        if (!collect_and_answer(front)) {
            n = net_poll(front->net, events, EVENTS_A_TURN, flush_gate(front, sleep_us));
        }
        waker_awake(front->waker);
        front->now_ms = inside_time_ms(front->shared->time);
    }
    settings_follow(front); /* what came in was sent after they were published, perhaps */
    http_server_events(front->server, events, n, front->now_ms);
    if (front->asks_used >
        0) { /* all that this turn asked, together; they do not wait for the next */
        (void)gate_flush(front->gate, front->loop);
    }
    metrics_set(front->metrics, METRIC_HTTP_CONNECTIONS, http_server_connections(front->server));
    if (atomic_load_explicit(&front->shared->draining, memory_order_relaxed)) {
        return drain(front);
    }
    return true;
}

/* ---- life ---- */

static int front_start(struct front *front)
{
    const struct http_app app = {.context = front,
                                 .handle = handle,
                                 .problem = front_problem,
                                 .finished = finished,
                                 .gone = gone};
    size_t bytes = (size_t)front->slots_count * sizeof(*front->slots);
    /* Mapped, not allocated: connections that never wait never touch theirs. */
    void *slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slots == MAP_FAILED) {
        return ERR_NOMEM;
    }
    front->slots = slots;
    front->waits_capacity = 64;
    while (front->waits_capacity < front->slots_count * 2 + CALLS_MAX) {
        front->waits_capacity *= 2;
    }
    front->waits = calloc(front->waits_capacity, sizeof(*front->waits));
    front->scratch = malloc(FRONT_SCRATCH_BYTES);
    front->tokens = token_memory_new(front->shared->tokens_remembered);
    if (front->waits == NULL || front->scratch == NULL || front->tokens == NULL) {
        return ERR_NOMEM;
    }
    front_ready_make(front);
    int error = watch_start(front);
    error = error != 0 ? error : asks_start(front);
    return error != 0 ? error
                      : http_server_new(front->net, &front->settings->http, &app, &front->server);
}

int front_new(struct front_shared *shared, uint32_t loop, struct net *net, struct front **ret_front)
{
    struct front *front = calloc(1, sizeof(*front));
    if (front == NULL) {
        return ERR_NOMEM;
    }
    front->shared = shared;
    front->settings = atomic_load(&shared->settings);
    front->loop = loop;
    front->net = net;
    front->metrics = metrics_slot(shared->metrics, loop);
    front->gate = shared->gate != NULL ? shared->gate : engine_port(shared->engine);
    front->journal = engine_journal(shared->engine);
    front->waker = engine_waker(shared->engine, loop);
    front->slots_count = front->settings->http.connections_max;
    front->now_ms = inside_time_ms(shared->time);
    front->wheel_ms = front->now_ms / WHEEL_STEP_MS * WHEEL_STEP_MS;
    crypt_random(&front->prng.state, sizeof(front->prng.state));
    int error = front_start(front);
    if (error != 0) {
        front_free(front);
        return error;
    }
    *ret_front = front;
    return 0;
}

void front_free(struct front *front)
{
    if (front == NULL) {
        return;
    }
    if (front->server != NULL) {
        http_server_free(front->server);
    }
    watch_done(front);
    asks_done(front);
    token_memory_free(front->tokens);
    free(front->scratch);
    free(front->waits);
    if (front->slots != NULL) {
        (void)munmap(front->slots, (size_t)front->slots_count * sizeof(*front->slots));
    }
    free(front);
}

/* ---- for handlers ---- */

struct front_shared *front_shared(struct front *front)
{
    return front->shared;
}

struct front_settings *front_settings(struct front *front)
{
    return front->settings;
}

struct http_server *front_server(struct front *front)
{
    return front->server;
}

uint32_t front_loop(const struct front *front)
{
    return front->loop;
}

struct out front_scratch(struct front *front)
{
    return out_over(front->scratch, FRONT_SCRATCH_BYTES);
}
