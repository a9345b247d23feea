/* See gate_redis.h. A connection set has a fixed pool of ops, one per call in flight. */
#include "backend/redis/gate_redis.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "backend/redis/links.h"
#include "base/check.h"
#include "base/err.h"
#include "port/segments.h"

struct gate_op {
    struct redis_op op; /* first: the link returns a pointer to it */
    struct gate_request *request;
};

/* The connections of one loop, and the answers from them. */
struct connection_set {
    struct redis_gate *gate;
    struct redis_links *links;
    struct gate_op *ops;
    struct redis_op *free;
    struct gate_request *requests; /* answered, oldest first */
    struct gate_request **requests_end;
    uint64_t not_known;
    uint64_t stale;
};

struct redis_gate {
    struct gate_port port;
    struct redis_gate_config config;
    struct redis_scripts *scripts;
    struct connection_set *connection_sets;
    _Atomic uint64_t epochs[SEGMENTS_MAX];
};

/* ---- requests ---- */

static void buy_command(const struct gate_request *request, struct gate_command *ret_command)
{
    *ret_command = (struct gate_command){
        .kind = GATE_RESERVE,
        .now_ms = request->now_ms,
        .id = request->id,
        .user = request->user,
        .item = request->item,
        .qty = request->qty,
        .ticket_expires_ms = (uint64_t)request->ticket_expires_ms,
    };
}

static void encode(void *context, const struct redis_link *link, struct redis_op *op,
                   struct redis_words *words)
{
    const struct connection_set *connection_set = context;
    struct gate_request *request = ((struct gate_op *)op)->request;
    struct codec_place place = {
        .prefix = connection_set->gate->config.prefix,
        .segment = request->segment,
        .epoch = atomic_load(&connection_set->gate->epochs[request->segment]),
        .run_id = link_run_id(link),
    };
    request->epoch = place.epoch; /* the epoch it is decided in */
    if (request->kind == GATE_REQUEST_BUY) {
        struct gate_command command;
        buy_command(request, &command);
        codec_reserve(words, &place, &command);
    } else {
        codec_look(words, &place, request);
    }
}

/* ---- answers ---- */

static void answer_ask(struct gate_request *request, const struct codec_answer *answer)
{
    request->refusal = answer->effects.refusal;
    request->bound = answer->effects.bound;
    request->held = answer->effects.held;
    request->limit = answer->effects.limit;
    request->available = answer->effects.available;
    request->locked = answer->effects.locked;
    request->has_order = answer->has_order;
    request->cooling_until_ms = answer->cooling_until_ms;
    if (request->kind == GATE_REQUEST_TICKET) {
        request->held = answer->held;
        request->attempt = answer->attempt;
        request->barred = answer->barred;
    } else if (answer->has_order) {
        request->existed =
            request->kind == GATE_REQUEST_BUY && answer->verdict == VERDICT_ALREADY_APPLIED;
        request->order = answer->order;
        request->order.id = request->id;
        request->order.item = order_id_item(request->id);
    }
    if (answer->has_item) {
        request->view = answer->view;
        request->view.item = request->item;
    }
}

static void done(void *context, struct redis_op *op, enum redis_outcome outcome, struct span reply)
{
    struct connection_set *connection_set = context;
    struct gate_request *request = ((struct gate_op *)op)->request;
    struct codec_answer answer = {0};
    if (outcome == REDIS_ANSWERED) {
        outcome = codec_read(reply, &answer);
    }
    connection_set->not_known += outcome == REDIS_NOT_KNOWN;
    connection_set->stale += outcome == REDIS_STALE;
    if (outcome == REDIS_ANSWERED) {
        answer_ask(request, &answer);
    } else {
        request->outcome = outcome == REDIS_NOT_ASKED ? GATE_OUTCOME_AWAY : GATE_OUTCOME_UNKNOWN;
    }
    request->next = NULL;
    *connection_set->requests_end = request;
    connection_set->requests_end = &request->next;
    op->next = connection_set->free;
    connection_set->free = op;
}

/* Whether the answer is a win, which must be on replicas first. A repeated win is the same
 * promise. */
static bool promises(void *context, const struct redis_op *op, struct span reply)
{
    const struct gate_request *request = ((const struct gate_op *)op)->request;
    struct codec_answer answer = {0};
    (void)context;
    return request->kind == GATE_REQUEST_BUY && codec_read(reply, &answer) == REDIS_ANSWERED &&
           answer.has_order;
}

/* ---- the iteration ---- */

static int64_t now_us(const struct redis_gate *gate)
{
    return clock_boot_us(gate->config.clock);
}

static int send_ask(struct redis_gate *gate, struct gate_request *request)
{
    struct connection_set *connection_set = &gate->connection_sets[request->loop];
    if (connection_set->free == NULL) {
        return ERR_FULL;
    }
    struct gate_op *mine = (struct gate_op *)connection_set->free;
    enum redis_script script = request->kind == GATE_REQUEST_BUY ? SCRIPT_RESERVE : SCRIPT_LOOK;
    connection_set->free = mine->op.next;
    *mine = (struct gate_op){.op = {.script = (uint8_t)script}, .request = request};
    int error = links_send(connection_set->links, request->segment, &mine->op, now_us(gate));
    if (error != 0) {
        mine->op.next = connection_set->free;
        connection_set->free = &mine->op;
    }
    return error;
}

/* What the question alone refuses. Redis never sees ids that cannot exist. */
static enum refusal refusal_here(const struct redis_gate *gate, const struct gate_request *request)
{
    if (request->kind != GATE_REQUEST_ORDER &&
        (request->item > ID_MAX || request->user > ID_MAX ||
         (request->kind == GATE_REQUEST_BUY && order_id_item(request->id) != request->item))) {
        return REFUSAL_NO_SUCH_ITEM;
    }
    if (request->segment >= gate->config.segments) { /* from an invented id */
        return request->kind == GATE_REQUEST_ORDER ? REFUSAL_NOT_FOUND : REFUSAL_NO_SUCH_ITEM;
    }
    return REFUSAL_NONE;
}

static enum gate_submitted submit(struct gate_port *port, struct gate_request *request)
{
    struct redis_gate *gate = (struct redis_gate *)port;
    request->refusal = refusal_here(gate, request);
    if (request->refusal != REFUSAL_NONE) {
        return GATE_ANSWERED;
    }
    if (atomic_load(&gate->epochs[request->segment]) == 0) {
        request->outcome = GATE_OUTCOME_UNKNOWN;
        return GATE_ANSWERED;
    }
    int error = send_ask(gate, request);
    if (error != 0) {
        request->outcome = error == ERR_FULL ? GATE_OUTCOME_FULL : GATE_OUTCOME_AWAY;
        return GATE_ANSWERED;
    }
    return GATE_PENDING;
}

static struct gate_request *collect(struct gate_port *port, uint32_t loop)
{
    struct redis_gate *gate = (struct redis_gate *)port;
    struct connection_set *connection_set = &gate->connection_sets[loop];
    if (connection_set->requests == NULL) {
        links_turn(connection_set->links, now_us(gate));
    }
    struct gate_request *requests = connection_set->requests;
    connection_set->requests = NULL;
    connection_set->requests_end = &connection_set->requests;
    return requests;
}

int redis_gate_fd(const struct redis_gate *gate, uint32_t loop)
{
    return links_fd(gate->connection_sets[loop].links);
}

static int64_t flush(struct gate_port *port, uint32_t loop)
{
    const struct connection_set *connection_set =
        &((struct redis_gate *)port)->connection_sets[loop];
    links_flush(connection_set->links);
    return connection_set->requests != NULL ? 0 : links_next_us(connection_set->links);
}

static void place(struct gate_port *port, uint32_t segment, uint64_t epoch)
{
    struct redis_gate *gate = (struct redis_gate *)port;
    CHECK(segment < gate->config.segments);
    atomic_store(&gate->epochs[segment], epoch);
}

/* ---- life ---- */

static const struct gate_ops gate_ops = {submit, collect, flush, place};

static int connection_set_open(struct redis_gate *gate, struct connection_set *connection_set,
                               uint64_t seed)
{
    const struct redis_gate_config *config = &gate->config;
    size_t ops = (size_t)config->in_flight_max * config->segments;
    connection_set->gate = gate;
    connection_set->requests_end = &connection_set->requests;
    connection_set->ops = calloc(ops, sizeof(*connection_set->ops));
    if (connection_set->ops == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < ops; i++) {
        connection_set->ops[i].op.next = connection_set->free;
        connection_set->free = &connection_set->ops[i].op;
    }
    struct links_config links = {
        .topology = config->topology,
        .segments = config->segments,
        .link = {.connect_timeout_ms = config->connect_timeout_ms,
                 .call_timeout_ms = config->call_timeout_ms,
                 .retry_min_ms = config->retry_min_ms,
                 .retry_max_ms = config->retry_max_ms,
                 .in_flight_max = config->in_flight_max,
                 .wait_replicas = config->wait_replicas,
                 .wait_timeout_ms = config->wait_timeout_ms,
                 .scripts = gate->scripts,
                 .owner = {connection_set, encode, done, promises}},
        .seed = seed,
    };
    return links_new(&links, &connection_set->links);
}

int redis_gate_new(const struct redis_gate_config *config, struct redis_gate **ret_gate)
{
    CHECK(config->loops >= 1 && config->loops <= LOOPS_MAX);
    if (config->segments == 0 || config->segments > SEGMENTS_MAX || config->in_flight_max == 0 ||
        strlen(config->prefix) > REDIS_PREFIX_MAX || strpbrk(config->prefix, "{}") != NULL) {
        return ERR_INVALID;
    }
    struct redis_gate *gate = calloc(1, sizeof(*gate));
    struct connection_set *connection_sets = calloc(config->loops, sizeof(*connection_sets));
    if (gate == NULL || connection_sets == NULL) {
        free(gate);
        free(connection_sets);
        return ERR_NOMEM;
    }
    gate->port.ops = &gate_ops;
    gate->config = *config;
    gate->connection_sets = connection_sets;
    int error = scripts_new(topology_is_cluster(config->topology), &gate->scripts);
    for (uint32_t i = 0; error == 0 && i < config->loops; i++) {
        error = connection_set_open(gate, &connection_sets[i], config->seed + ((uint64_t)i << 32));
    }
    if (error != 0) {
        redis_gate_free(gate);
        return error;
    }
    *ret_gate = gate;
    return 0;
}

void redis_gate_free(struct redis_gate *gate)
{
    if (gate == NULL) {
        return;
    }
    for (uint32_t i = 0; i < gate->config.loops; i++) {
        struct connection_set *connection_set = &gate->connection_sets[i];
        links_free(connection_set->links);
        free(connection_set->ops);
    }
    scripts_free(gate->scripts);
    free(gate->connection_sets);
    free(gate);
}

struct gate_port *redis_gate_port(struct redis_gate *gate)
{
    return &gate->port;
}

bool redis_gate_ready(const struct redis_gate *gate, uint32_t loop, uint32_t segment)
{
    return links_ready(gate->connection_sets[loop].links, segment);
}

const char *redis_gate_trouble(const struct redis_gate *gate, uint32_t loop, uint32_t segment)
{
    return links_trouble(gate->connection_sets[loop].links, segment);
}

void redis_gate_count(const struct redis_gate *gate, uint32_t loop,
                      struct redis_gate_numbers *ret_numbers)
{
    const struct connection_set *connection_set = &gate->connection_sets[loop];
    *ret_numbers = (struct redis_gate_numbers){.not_known = connection_set->not_known,
                                               .stale = connection_set->stale};
    links_count(connection_set->links, &ret_numbers->links, &ret_numbers->ready);
}
