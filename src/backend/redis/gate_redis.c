/* See gate_redis.h. A lane has a fixed pool of ops, one for each call that may be in flight. */
#include "backend/redis/gate_redis.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "backend/redis/links.h"
#include "base/check.h"
#include "base/err.h"
#include "port/segments.h"

struct gate_op {
    struct redis_op op; /* first: the link hands it back */
    struct gate_ask *ask;
};

/* One loop's connections, and what came back over them. */
struct lane {
    struct redis_gate *gate;
    struct redis_links *links;
    struct gate_op *ops;
    struct redis_op *free;
    struct gate_ask *asks; /* answered, oldest first */
    struct gate_ask **asks_end;
    uint64_t not_known;
    uint64_t stale;
};

struct redis_gate {
    struct gate_port port;
    struct redis_gate_config config;
    struct redis_scripts *scripts;
    struct lane *lanes;
    _Atomic uint64_t epochs[SEGMENTS_MAX];
};

/* ---- what is asked ---- */

static void buy_command(const struct gate_ask *ask, struct gate_command *ret_command)
{
    *ret_command = (struct gate_command){
        .kind = GATE_RESERVE,
        .now_ms = ask->now_ms,
        .id = ask->id,
        .user = ask->user,
        .item = ask->item,
        .qty = ask->qty,
        .ticket_expires_ms = (uint64_t)ask->ticket_expires_ms,
    };
}

static void encode(void *context, const struct redis_link *link, struct redis_op *op,
                   struct redis_words *words)
{
    const struct lane *lane = context;
    struct gate_ask *ask = ((struct gate_op *)op)->ask;
    struct codec_place place = {
        .prefix = lane->gate->config.prefix,
        .segment = ask->segment,
        .epoch = atomic_load(&lane->gate->epochs[ask->segment]),
        .run_id = link_run_id(link),
    };
    ask->epoch = place.epoch; /* under which it is decided, if it is */
    if (ask->question == ASK_BUY) {
        struct gate_command command;
        buy_command(ask, &command);
        codec_reserve(words, &place, &command);
    } else {
        codec_look(words, &place, ask);
    }
}

/* ---- what is answered ---- */

static void answer_ask(struct gate_ask *ask, const struct codec_answer *answer)
{
    ask->refusal = answer->effects.refusal;
    ask->held = answer->effects.held;
    ask->limit = answer->effects.limit;
    ask->available = answer->effects.available;
    ask->locked = answer->effects.locked;
    ask->has_order = answer->has_order;
    if (ask->question == ASK_TICKET) {
        ask->held = answer->held;
        ask->attempt = answer->attempt;
        ask->barred = answer->barred;
    } else if (answer->has_order) {
        ask->existed = ask->question == ASK_BUY && answer->verdict == VERDICT_SAME;
        ask->order = answer->order;
        ask->order.id = ask->id;
        ask->order.item = order_id_item(ask->id);
    }
    if (answer->has_item) {
        ask->view = answer->view;
        ask->view.item = ask->item;
    }
}

static void done(void *context, struct redis_op *op, enum redis_outcome outcome, struct span reply)
{
    struct lane *lane = context;
    struct gate_ask *ask = ((struct gate_op *)op)->ask;
    struct codec_answer answer = {0};
    if (outcome == REDIS_ANSWERED) {
        outcome = codec_read(reply, &answer);
    }
    lane->not_known += outcome == REDIS_NOT_KNOWN;
    lane->stale += outcome == REDIS_STALE;
    if (outcome == REDIS_ANSWERED) {
        answer_ask(ask, &answer);
    } else {
        ask->refusal = outcome == REDIS_NOT_ASKED ? REFUSAL_DEGRADED : REFUSAL_UNKNOWN_OUTCOME;
    }
    ask->next = NULL;
    *lane->asks_end = ask;
    lane->asks_end = &ask->next;
    op->next = lane->free;
    lane->free = op;
}

/* What a front is about to promise. Told again, it is the same promise. */
static bool promises(void *context, const struct redis_op *op, struct span reply)
{
    const struct gate_ask *ask = ((const struct gate_op *)op)->ask;
    struct codec_answer answer = {0};
    (void)context;
    return ask->question == ASK_BUY && codec_read(reply, &answer) == REDIS_ANSWERED &&
           answer.has_order;
}

/* ---- the turn ---- */

static int64_t now_us(const struct redis_gate *gate)
{
    return clock_boot_us(gate->config.clock);
}

static int send_ask(struct redis_gate *gate, struct gate_ask *ask)
{
    struct lane *lane = &gate->lanes[ask->loop];
    if (lane->free == NULL) {
        return ERR_FULL;
    }
    struct gate_op *mine = (struct gate_op *)lane->free;
    enum redis_script script = ask->question == ASK_BUY ? SCRIPT_RESERVE : SCRIPT_LOOK;
    lane->free = mine->op.next;
    *mine = (struct gate_op){.op = {.script = (uint8_t)script}, .ask = ask};
    int error = links_send(lane->links, ask->segment, &mine->op, now_us(gate));
    if (error != 0) {
        mine->op.next = lane->free;
        lane->free = &mine->op;
    }
    return error;
}

/* What follows without asking: from the question alone (Redis never sees ids that cannot be), and
 * from a segment nobody knows the epoch of. */
static enum refusal refusal_here(const struct redis_gate *gate, const struct gate_ask *ask)
{
    if (ask->question != ASK_ORDER &&
        (ask->item > ID_MAX || ask->user > ID_MAX ||
         (ask->question == ASK_BUY && order_id_item(ask->id) != ask->item))) {
        return REFUSAL_NO_SUCH_ITEM;
    }
    if (ask->segment >= gate->config.segments) { /* of an id that somebody made up */
        return ask->question == ASK_ORDER ? REFUSAL_NOT_FOUND : REFUSAL_NO_SUCH_ITEM;
    }
    return atomic_load(&gate->epochs[ask->segment]) == 0 ? REFUSAL_UNKNOWN_OUTCOME : REFUSAL_NONE;
}

static enum gate_submitted submit(struct gate_port *port, struct gate_ask *ask)
{
    struct redis_gate *gate = (struct redis_gate *)port;
    ask->refusal = refusal_here(gate, ask);
    if (ask->refusal != REFUSAL_NONE) {
        return GATE_ANSWERED;
    }
    int error = send_ask(gate, ask);
    if (error != 0) {
        ask->refusal = error == ERR_FULL ? REFUSAL_OVERLOADED : REFUSAL_DEGRADED;
        return GATE_ANSWERED;
    }
    return GATE_ASKED;
}

static struct gate_ask *collect(struct gate_port *port, uint32_t loop)
{
    struct redis_gate *gate = (struct redis_gate *)port;
    struct lane *lane = &gate->lanes[loop];
    if (lane->asks == NULL) {
        links_turn(lane->links, now_us(gate));
    }
    struct gate_ask *asks = lane->asks;
    lane->asks = NULL;
    lane->asks_end = &lane->asks;
    return asks;
}

int redis_gate_fd(const struct redis_gate *gate, uint32_t loop)
{
    return links_fd(gate->lanes[loop].links);
}

static int64_t flush(struct gate_port *port, uint32_t loop)
{
    const struct lane *lane = &((struct redis_gate *)port)->lanes[loop];
    links_flush(lane->links);
    return lane->asks != NULL ? 0 : links_next_us(lane->links);
}

static void place(struct gate_port *port, uint32_t segment, uint64_t epoch)
{
    struct redis_gate *gate = (struct redis_gate *)port;
    CHECK(segment < gate->config.segments);
    atomic_store(&gate->epochs[segment], epoch);
}

/* ---- life ---- */

static const struct gate_ops gate_ops = {submit, collect, flush, place};

static int lane_open(struct redis_gate *gate, struct lane *lane, uint64_t seed)
{
    const struct redis_gate_config *config = &gate->config;
    size_t ops = (size_t)config->in_flight_max * config->segments;
    lane->gate = gate;
    lane->asks_end = &lane->asks;
    lane->ops = calloc(ops, sizeof(*lane->ops));
    if (lane->ops == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < ops; i++) {
        lane->ops[i].op.next = lane->free;
        lane->free = &lane->ops[i].op;
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
                 .owner = {lane, encode, done, promises}},
        .seed = seed,
    };
    return links_new(&links, &lane->links);
}

int redis_gate_new(const struct redis_gate_config *config, struct redis_gate **ret_gate)
{
    CHECK(config->loops >= 1 && config->loops <= LOOPS_MAX);
    if (config->segments == 0 || config->segments > SEGMENTS_MAX || config->in_flight_max == 0 ||
        strlen(config->prefix) > REDIS_PREFIX_MAX || strpbrk(config->prefix, "{}") != NULL) {
        return ERR_INVALID;
    }
    struct redis_gate *gate = calloc(1, sizeof(*gate));
    struct lane *lanes = calloc(config->loops, sizeof(*lanes));
    if (gate == NULL || lanes == NULL) {
        free(gate);
        free(lanes);
        return ERR_NOMEM;
    }
    gate->port.ops = &gate_ops;
    gate->config = *config;
    gate->lanes = lanes;
    int error = scripts_new(&gate->scripts);
    for (uint32_t i = 0; error == 0 && i < config->loops; i++) {
        error = lane_open(gate, &lanes[i], config->seed + ((uint64_t)i << 32));
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
        struct lane *lane = &gate->lanes[i];
        links_free(lane->links);
        free(lane->ops);
    }
    scripts_free(gate->scripts);
    free(gate->lanes);
    free(gate);
}

struct gate_port *redis_gate_port(struct redis_gate *gate)
{
    return &gate->port;
}

bool redis_gate_ready(const struct redis_gate *gate, uint32_t loop, uint32_t segment)
{
    return links_ready(gate->lanes[loop].links, segment);
}

const char *redis_gate_trouble(const struct redis_gate *gate, uint32_t loop, uint32_t segment)
{
    return links_trouble(gate->lanes[loop].links, segment);
}

void redis_gate_count(const struct redis_gate *gate, uint32_t loop,
                      struct redis_gate_numbers *ret_numbers)
{
    const struct lane *lane = &gate->lanes[loop];
    *ret_numbers = (struct redis_gate_numbers){.not_known = lane->not_known, .stale = lane->stale};
    links_count(lane->links, &ret_numbers->links, &ret_numbers->ready);
}
