/* See sim_queue.h. */
#include "sim_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/prng.h"

#define RETRIES_MAX 8
#define WINDOW_DEFAULT 1024
#define PREFETCH_DEFAULT 2048
/* As the real queue has it: taken so often and never settled, a message is put aside. */
#define PATIENCE_DEFAULT 20

enum sim_place { AT_READY, AT_RETRY, AT_PARKED, AT_CONSUMER };

struct sim_message {
    uint64_t id;    /* of its publishing */
    uint64_t order; /* the lowest is taken first */
    enum sim_place place;
    int64_t due_ms;          /* RETRY */
    struct sim_queue *taker; /* CONSUMER */
    uint64_t tag;
    uint32_t deliveries; /* that were not settled */
    uint32_t attempts;
    uint32_t len;
    char body[QUEUE_BODY_MAX];
    char reason[QUEUE_REASON_MAX + 1];
};

struct sim_outcome {
    struct queue_outcome outcome;
    int64_t due_ms;
    uint64_t id; /* of the message; 0: it is not there */
    bool event;
};

struct sim_queue {
    struct queue queue; /* first: what the port sees */
    struct sim_broker *broker;
    struct sim_queue *next;
    bool publisher;
    uint32_t limit; /* window or prefetch */
    uint64_t session;
    uint64_t next_tag;
    uint32_t out; /* taken and not settled */
    bool consumes;
    struct sim_outcome *outcomes;
    uint32_t outcome_count;
    uint64_t answered; /* the newest event that has its outcome */
};

struct sim_broker {
    struct prng prng;
    struct sim_queue_faults faults;
    int64_t now_ms;
    int64_t up_ms; /* down before */
    uint32_t retry_s[RETRIES_MAX];
    uint32_t retry_count;
    uint32_t patience;
    struct sim_message *messages; /* in no order */
    size_t count;
    size_t room;
    struct sim_event *events;
    size_t events_count;
    uint64_t next_id;
    uint64_t next_order;
    uint64_t next_session;
    uint64_t digest;
    struct sim_queue *queues;
};

static struct sim_queue *of(struct queue *queue)
{
    return (struct sim_queue *)(void *)queue;
}

static bool strikes(struct sim_broker *broker, uint32_t chance)
{
    return chance > 0 && prng_below(&broker->prng, 1000) < chance;
}

static void note(struct sim_broker *broker, uint64_t what, uint64_t which)
{
    broker->digest = (broker->digest ^ what ^ which << 8) * 0x100000001b3ULL;
}

static bool is_up(const struct sim_broker *broker)
{
    return broker->now_ms >= broker->up_ms;
}

/* ---- messages ---- */

static struct sim_message *add(struct sim_broker *broker, const struct sim_message *like)
{
    if (broker->count == broker->room) {
        broker->room = broker->room == 0 ? 64 : broker->room * 2;
        broker->messages = realloc(broker->messages, broker->room * sizeof(*broker->messages));
        CHECK(broker->messages != NULL);
    }
    struct sim_message *message = &broker->messages[broker->count++];
    *message = *like;
    message->order = broker->next_order++;
    return message;
}

static void drop(struct sim_broker *broker, struct sim_message *message)
{
    *message = broker->messages[--broker->count];
}

/* The one that lies there longest; NULL: none. */
static struct sim_message *first_at(struct sim_broker *broker, enum sim_place place, uint64_t after)
{
    struct sim_message *first = NULL;
    for (size_t i = 0; i < broker->count; i++) {
        struct sim_message *message = &broker->messages[i];
        if (message->place == place && message->order >= after &&
            (first == NULL || message->order < first->order)) {
            first = message;
        }
    }
    return first;
}

static void end_pauses(struct sim_broker *broker)
{
    for (size_t i = 0; i < broker->count; i++) {
        struct sim_message *message = &broker->messages[i];
        if (message->place == AT_RETRY && message->due_ms <= broker->now_ms) {
            message->place = AT_READY;
            message->order = broker->next_order++;
        }
    }
}

/* ---- events ---- */

static void event_add(struct sim_broker *broker, uint64_t id, const char *key, struct span body)
{
    size_t count = broker->events_count;
    if (count == 0 || (count >= 16 && (count & (count - 1)) == 0)) {
        size_t room = count == 0 ? 16 : 2 * count;
        broker->events = realloc(broker->events, room * sizeof(*broker->events));
        CHECK(broker->events != NULL);
    }
    struct sim_event *event = &broker->events[broker->events_count++];
    *event = (struct sim_event){.id = id, .len = body.len, .body = malloc(body.len + 1)};
    CHECK(event->body != NULL && strlen(key) < sizeof(event->key));
    memcpy(event->key, key, strlen(key) + 1);
    memcpy(event->body, body.at, body.len);
    event->body[body.len] = '\0';
}

/* All that came of one announcement. */
static void event_drop(struct sim_broker *broker, uint64_t id)
{
    size_t kept = 0;
    for (size_t i = 0; i < broker->events_count; i++) {
        if (broker->events[i].id == id) {
            free(broker->events[i].body);
        } else {
            broker->events[kept++] = broker->events[i];
        }
    }
    broker->events_count = kept;
}

const struct sim_event *sim_broker_event(const struct sim_broker *broker, size_t at)
{
    return at < broker->events_count ? &broker->events[at] : NULL;
}

/* ---- connections ---- */

static void note_answered(struct sim_queue *queue, const struct sim_outcome *outcome)
{
    if (outcome->event && outcome->id > queue->answered) {
        queue->answered = outcome->id;
    }
}

static void lose_publisher(struct sim_queue *queue)
{
    struct sim_broker *broker = queue->broker;
    bool gone = false; /* a channel is read in order: behind a lost event all are lost ... */
    for (uint32_t i = 0; i < queue->outcome_count; i++) {
        if (queue->outcomes[i].due_ms <= broker->now_ms) {
            note_answered(queue, &queue->outcomes[i]);
        }
    }
    for (uint32_t i = 0; i < queue->outcome_count; i++) {
        struct sim_outcome *under_way = &queue->outcomes[i];
        if (under_way->due_ms <= broker->now_ms) {
            continue; /* it had arrived */
        }
        under_way->due_ms = broker->now_ms;
        under_way->outcome.kind = QUEUE_UNCONFIRMED;
        /* It may have been lost on the way there, or the answer on the way back. */
        bool lost = prng_below(&broker->prng, 2) == 0;
        if (under_way->event) {
            gone = gone || (lost && under_way->id > queue->answered); /* ... and before, none */
            if (gone) {
                event_drop(broker, under_way->id);
            }
            continue;
        }
        for (size_t m = 0; lost && under_way->id != 0 && m < broker->count; m++) {
            struct sim_message *message = &broker->messages[m];
            if (message->id == under_way->id && message->place == AT_READY &&
                message->deliveries == 0 && message->attempts == 0) {
                drop(broker, message);
                break;
            }
        }
    }
}

static void lose_consumer(struct sim_queue *queue)
{
    struct sim_broker *broker = queue->broker;
    for (size_t i = 0; i < broker->count; i++) {
        struct sim_message *message = &broker->messages[i];
        if (message->place == AT_CONSUMER && message->taker == queue) {
            message->deliveries++;
            message->place = message->deliveries > broker->patience ? AT_PARKED : AT_READY;
            message->taker = NULL;
        }
    }
    queue->out = 0;
}

static void lose(struct sim_queue *queue)
{
    note(queue->broker, 1, queue->session);
    queue->session = queue->broker->next_session++;
    queue->next_tag = 1;
    if (queue->publisher) {
        lose_publisher(queue);
    } else {
        lose_consumer(queue);
    }
}

/* ---- publisher ---- */

static int sim_publish(struct queue *port, uint64_t number, struct span body)
{
    struct sim_queue *queue = of(port);
    struct sim_broker *broker = queue->broker;
    CHECK(queue->publisher);
    if (body.len > QUEUE_BODY_MAX) {
        return ERR_INVALID;
    }
    if (!is_up(broker) || queue->outcome_count == queue->limit) {
        return ERR_AGAIN;
    }
    struct sim_outcome *under_way = &queue->outcomes[queue->outcome_count++];
    *under_way = (struct sim_outcome){
        .outcome = {.number = number, .kind = QUEUE_CONFIRMED},
        .due_ms = broker->now_ms +
                  (int64_t)prng_below(&broker->prng, (uint64_t)broker->faults.outcome_ms + 1)};
    note(broker, 2, number);
    if (strikes(broker, broker->faults.lose_message)) {
        under_way->outcome.kind = QUEUE_UNCONFIRMED;
        return 0;
    }
    struct sim_message message = {
        .id = broker->next_id++, .place = AT_READY, .len = (uint32_t)body.len};
    if (body.len > 0) {
        memcpy(message.body, body.at, body.len);
    }
    under_way->id = message.id;
    struct sim_message *there = add(broker, &message);
    if (strikes(broker, broker->faults.reorder)) {
        there->order = prng_below(&broker->prng, broker->next_order);
    }
    if (strikes(broker, broker->faults.duplicate)) {
        (void)add(broker, &message);
    }
    if (strikes(broker, broker->faults.lose_confirm)) {
        under_way->outcome.kind = QUEUE_UNCONFIRMED;
    }
    return 0;
}

static int sim_announce(struct queue *port, uint64_t number, const char *key, struct span body)
{
    struct sim_queue *queue = of(port);
    struct sim_broker *broker = queue->broker;
    CHECK(queue->publisher);
    if (body.len > QUEUE_EVENT_MAX) {
        return ERR_INVALID;
    }
    if (!is_up(broker) || queue->outcome_count == queue->limit) {
        return ERR_AGAIN;
    }
    struct sim_outcome *under_way = &queue->outcomes[queue->outcome_count++];
    *under_way = (struct sim_outcome){
        .outcome = {.number = number, .kind = QUEUE_CONFIRMED},
        .due_ms = broker->now_ms +
                  (int64_t)prng_below(&broker->prng, (uint64_t)broker->faults.outcome_ms + 1),
        .id = broker->next_id++,
        .event = true};
    note(broker, 9, number);
    bool lost = strikes(broker, broker->faults.lose_message);
    if (!lost) {
        event_add(broker, under_way->id, key, body);
    }
    if (lost || strikes(broker, broker->faults.lose_confirm)) {
        under_way->outcome.kind = QUEUE_UNCONFIRMED;
    }
    return 0;
}

static int sim_outcomes(struct queue *port, struct queue_outcome *ret_outcomes, size_t max,
                        int64_t wait_ms, size_t *ret_count)
{
    struct sim_queue *queue = of(port);
    size_t count = 0;
    uint32_t kept = 0;
    (void)wait_ms;
    for (uint32_t i = 0; i < queue->outcome_count; i++) {
        if (count < max && queue->outcomes[i].due_ms <= queue->broker->now_ms) {
            note_answered(queue, &queue->outcomes[i]);
            ret_outcomes[count++] = queue->outcomes[i].outcome;
        } else {
            queue->outcomes[kept++] = queue->outcomes[i];
        }
    }
    queue->outcome_count = kept;
    if (count == 0) {
        return ERR_AGAIN;
    }
    *ret_count = count;
    return 0;
}

/* ---- consumer ---- */

static void show(const struct sim_message *message, uint64_t session,
                 struct queue_message *ret_message)
{
    ret_message->tag = message->tag;
    ret_message->session = session;
    ret_message->redelivered = message->deliveries > 0;
    ret_message->attempts = message->attempts;
    ret_message->len = message->len;
    memcpy(ret_message->body, message->body, message->len);
    memcpy(ret_message->reason, message->reason, sizeof(message->reason));
}

static int sim_take(struct queue *port, struct queue_message *ret_messages, size_t max,
                    int64_t wait_ms, size_t *ret_count)
{
    struct sim_queue *queue = of(port);
    struct sim_broker *broker = queue->broker;
    size_t count = 0;
    (void)wait_ms;
    CHECK(!queue->publisher);
    queue->consumes = true;
    end_pauses(broker);
    while (is_up(broker) && count < max && queue->out < queue->limit) {
        struct sim_message *message = first_at(broker, AT_READY, 0);
        if (message == NULL) {
            break;
        }
        message->place = AT_CONSUMER;
        message->taker = queue;
        message->tag = queue->next_tag++;
        queue->out++;
        note(broker, 3, message->id);
        show(message, queue->session, &ret_messages[count++]);
    }
    if (count == 0) {
        return ERR_AGAIN;
    }
    *ret_count = count;
    return 0;
}

static void settle_message(struct sim_broker *broker, struct sim_message *message,
                           const char *reason, int how)
{
    if (how == QUEUE_ACK) {
        drop(broker, message);
        return;
    }
    struct sim_message copy = *message;
    message->taker = NULL;
    message->deliveries = 0;
    message->order = broker->next_order++;
    message->place = AT_PARKED;
    bool last = message->attempts >= broker->retry_count;
    if (how == QUEUE_LATER || (how == QUEUE_RETRY && !last)) {
        uint32_t pause = last ? broker->retry_count - 1 : message->attempts;
        message->due_ms = broker->now_ms + broker->retry_s[pause] * 1000LL;
        message->attempts = pause + 1;
        message->place = AT_RETRY;
    }
    if (how == QUEUE_PARK) {
        memcpy(message->reason, reason, sizeof(message->reason));
    }
    if (strikes(broker, broker->faults.duplicate)) {
        /* The copy was confirmed, the ack of the original was lost. */
        copy.place = AT_READY;
        copy.taker = NULL;
        copy.deliveries++;
        (void)add(broker, &copy);
    }
}

static int sim_settle(struct queue *port, const struct queue_message *taken, int how)
{
    struct sim_queue *queue = of(port);
    struct sim_broker *broker = queue->broker;
    if (!is_up(broker) || taken->session != queue->session) {
        return ERR_CLOSED;
    }
    for (size_t i = 0; i < broker->count; i++) {
        struct sim_message *message = &broker->messages[i];
        if (message->place != AT_CONSUMER || message->taker != queue ||
            message->tag != taken->tag) {
            continue;
        }
        note(broker, 4 + (uint64_t)how, message->id);
        if (strikes(broker, broker->faults.lose_settle)) {
            lose(queue);
            return 0; /* it left us; it did not arrive */
        }
        queue->out--;
        settle_message(broker, message, taken->reason, how);
        return 0;
    }
    return ERR_IO; /* settled before */
}

/* ---- either ---- */

static int sim_depths(struct queue *port, struct queue_depths *ret_depths)
{
    struct sim_broker *broker = of(port)->broker;
    struct queue_depths depths = {0};
    if (!is_up(broker)) {
        return ERR_AGAIN;
    }
    end_pauses(broker);
    for (size_t i = 0; i < broker->count; i++) {
        enum sim_place place = broker->messages[i].place;
        depths.ready += place == AT_READY;
        depths.retry += place == AT_RETRY;
        depths.parked += place == AT_PARKED;
    }
    for (const struct sim_queue *queue = broker->queues; queue != NULL; queue = queue->next) {
        depths.consumers += queue->consumes;
    }
    *ret_depths = depths;
    return 0;
}

static int sim_parked(struct queue *port, struct queue_message *ret_messages, size_t max,
                      bool redrive, size_t *ret_count)
{
    struct sim_broker *broker = of(port)->broker;
    size_t count = 0;
    uint64_t after = 0;
    if (!is_up(broker)) {
        return ERR_AGAIN;
    }
    while (count < max) {
        struct sim_message *message = first_at(broker, AT_PARKED, after);
        if (message == NULL) {
            break;
        }
        after = message->order + 1;
        show(message, 0, &ret_messages[count++]);
        if (redrive) {
            message->place = AT_READY;
            message->order = broker->next_order++;
            message->attempts = 0;
            message->deliveries = 0;
            message->reason[0] = '\0';
            note(broker, 8, message->id);
        }
    }
    *ret_count = count;
    return 0;
}

static void sim_wake(struct queue *port)
{
    (void)port; /* nobody waits */
}

/* ---- life ---- */

struct sim_broker *sim_broker_new(uint64_t seed, const uint32_t *retry_s, size_t retry_count)
{
    struct sim_broker *broker = calloc(1, sizeof(*broker));
    CHECK(broker != NULL && retry_count <= RETRIES_MAX);
    broker->prng = prng_of(seed);
    broker->next_id = 1;
    broker->next_session = 1;
    broker->retry_count = (uint32_t)retry_count;
    broker->patience = PATIENCE_DEFAULT;
    memcpy(broker->retry_s, retry_s, retry_count * sizeof(*retry_s));
    return broker;
}

void sim_broker_free(struct sim_broker *broker)
{
    CHECK(broker->queues == NULL);
    for (size_t i = 0; i < broker->events_count; i++) {
        free(broker->events[i].body);
    }
    free(broker->events);
    free(broker->messages);
    free(broker);
}

void sim_broker_time(struct sim_broker *broker, int64_t now_ms)
{
    CHECK(now_ms >= broker->now_ms);
    broker->now_ms = now_ms;
}

void sim_broker_faults(struct sim_broker *broker, const struct sim_queue_faults *faults)
{
    broker->faults = *faults;
}

void sim_broker_cut(struct sim_broker *broker)
{
    for (struct sim_queue *queue = broker->queues; queue != NULL; queue = queue->next) {
        lose(queue);
    }
}

void sim_broker_down(struct sim_broker *broker, int64_t until_ms)
{
    sim_broker_cut(broker);
    broker->up_ms = until_ms;
}

void sim_broker_patience(struct sim_broker *broker, uint32_t deliveries)
{
    broker->patience = deliveries;
}

uint64_t sim_broker_messages(const struct sim_broker *broker)
{
    return broker->count;
}

uint64_t sim_broker_digest(const struct sim_broker *broker)
{
    return broker->digest;
}

struct queue *sim_queue_open(struct sim_broker *broker, bool publisher, uint32_t window,
                             uint32_t prefetch)
{
    static const struct queue_ops ops = {.publish = sim_publish,
                                         .outcomes = sim_outcomes,
                                         .take = sim_take,
                                         .settle = sim_settle,
                                         .depths = sim_depths,
                                         .parked = sim_parked,
                                         .wake = sim_wake,
                                         .announce = sim_announce};
    struct sim_queue *queue = calloc(1, sizeof(*queue));
    CHECK(queue != NULL);
    queue->queue.ops = &ops;
    queue->broker = broker;
    queue->publisher = publisher;
    queue->limit = publisher ? window : prefetch;
    queue->limit = queue->limit != 0 ? queue->limit : publisher ? WINDOW_DEFAULT : PREFETCH_DEFAULT;
    queue->session = broker->next_session++;
    queue->next_tag = 1;
    if (publisher) {
        queue->outcomes = calloc(queue->limit, sizeof(*queue->outcomes));
        CHECK(queue->outcomes != NULL);
    }
    queue->next = broker->queues;
    broker->queues = queue;
    return &queue->queue;
}

void sim_queue_close(struct queue *port)
{
    if (port == NULL) {
        return;
    }
    struct sim_queue *queue = of(port);
    struct sim_queue **at = &queue->broker->queues;
    lose(queue);
    while (*at != queue) {
        at = &(*at)->next;
    }
    *at = queue->next;
    free(queue->outcomes);
    free(queue);
}
