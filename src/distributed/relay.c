/* See relay.h. Decisions in flight are kept in slots. A message's number is its slot
 * and that slot's use count, because a decision that was booked directly may leave its
 * slot before the queue answers. */
#include "distributed/relay.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/err.h"
#include "distributed/message.h"
#include "obs/log.h"

#define TAKE_MAX BOOKING_CHANNEL_MAX
#define REMOVE_MAX 128
/* How long the queue may confirm nothing before the outboxes are
 * checked, and how often they are then. */
#define CROWD_AFTER_MS 1000
/* The most that a rate may save up, as a part of a second. */
#define BURST_MS 100

enum slot_state { SLOT_FREE, SLOT_WAITING, SLOT_SENT, SLOT_STORED };

struct slot {
    struct outbox_entry entry;
    enum slot_state state;
    uint32_t use;           /* grows each time it becomes free */
    struct backoff backoff; /* of its booking: it delays no other decision */
};

struct relay {
    struct segments *segments;
    struct queue *queue;
    struct booking_channel *booking_channel;
    struct inside_time *time;
    struct metrics_slot *metrics;
    struct relay_options options;
    struct slot *slots;
    uint32_t used;    /* slots that are not free */
    uint32_t waiting; /* to be sent, for the first time or again */
    uint32_t stored;  /* confirmed or booked, and not yet removed from the outbox */
    struct outbox_entry *taken;
    struct decision *decisions;
    int64_t confirmed_ms; /* when the queue last confirmed something */
    bool direct;
    bool probing;   /* direct: one message is in flight, to see if the queue is back */
    uint64_t probe; /* its number */
    bool crowded;   /* the queue is away, and an outbox exceeds direct_outbox */
    int64_t look_ms;
    int64_t credit;    /* thousandths of decisions that may be booked directly ... */
    int64_t credit_ms; /* ... as of this time */
    uint32_t book_at;  /* the slot to check first */
};

static void set_state(struct relay *relay, struct slot *slot, enum slot_state state)
{
    slot->use += state == SLOT_FREE;
    relay->used -= slot->state != SLOT_FREE;
    relay->waiting -= slot->state == SLOT_WAITING;
    relay->stored -= slot->state == SLOT_STORED;
    slot->state = state;
    relay->used += state != SLOT_FREE;
    relay->waiting += state == SLOT_WAITING;
    relay->stored += state == SLOT_STORED;
}

static uint64_t number_of(const struct relay *relay, const struct slot *slot)
{
    return (uint64_t)slot->use << 32 | (uint64_t)(slot - relay->slots);
}

static void decision_of(const struct outbox_entry *entry, struct decision *ret_decision)
{
    *ret_decision = (struct decision){
        .segment = entry->segment, .epoch = entry->epoch, .command = entry->command};
}

/* ---- into the slots ---- */

static void take(struct relay *relay, int64_t wait_ms)
{
    uint32_t room = relay->options.window - relay->used;
    size_t count = 0;
    uint64_t all = relay->booking_channel->segment_table->count == 64
                       ? UINT64_MAX
                       : (1ULL << relay->booking_channel->segment_table->count) - 1;
    int error = segments_take(relay->segments, all, relay->taken, room < TAKE_MAX ? room : TAKE_MAX,
                              wait_ms, &count);
    if (error != 0) {
        static struct log_limit limit;
        if (error != ERR_AGAIN) {
            const struct relay_options *options = &relay->options;
            log_event_limited(
                &limit, 10000, LOG_WARN, "relay.cannot_read_outbox", LOG_ERR("error", error),
                LOG_STR("server", "redis"),
                LOG_STR("words", options->words ? options->words(options->words_context) : ""));
        }
        return;
    }
    uint32_t at = 0;
    for (size_t i = 0; i < count; i++) {
        while (relay->slots[at].state != SLOT_FREE) {
            at++;
        }
        relay->slots[at].entry = relay->taken[i];
        relay->slots[at].backoff = (struct backoff){0};
        set_state(relay, &relay->slots[at], SLOT_WAITING);
    }
    metrics_add(relay->metrics, METRIC_RELAY_TAKEN_TOTAL, count);
}

/* ---- to the queue ---- */

/* Publishes at most max. */
static void publish(struct relay *relay, uint32_t max)
{
    for (uint32_t i = 0; i < relay->options.window && relay->waiting > 0 && max > 0; i++) {
        struct slot *slot = &relay->slots[i];
        if (slot->state != SLOT_WAITING) {
            continue;
        }
        struct decision decision;
        char text[MESSAGE_MAX];
        decision_of(&slot->entry, &decision);
        relay->probe = number_of(relay, slot);
        if (queue_publish(relay->queue, relay->probe, message_write(text, &decision)) != 0) {
            return; /* no room in its window, or no connection */
        }
        set_state(relay, slot, SLOT_SENT);
        relay->probing = relay->direct;
        max--;
    }
}

static void hear(struct relay *relay, int64_t wait_ms)
{
    struct queue_outcome outcomes[256];
    size_t count = 0;
    if (queue_outcomes(relay->queue, outcomes, 256, wait_ms, &count) != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t number = outcomes[i].number;
        bool confirmed = outcomes[i].kind == QUEUE_CONFIRMED;
        CHECK((uint32_t)number < relay->options.window);
        struct slot *slot = &relay->slots[(uint32_t)number];
        if (slot->state == SLOT_SENT && number_of(relay, slot) == number) {
            set_state(relay, slot, confirmed ? SLOT_STORED : SLOT_WAITING);
        } /* else it was booked meanwhile */
        relay->probing = relay->probing && number != relay->probe;
        relay->confirmed_ms = confirmed ? inside_time_ms(relay->time) : relay->confirmed_ms;
        metrics_add(relay->metrics,
                    confirmed ? METRIC_RELAY_CONFIRMED_TOTAL : METRIC_RELAY_UNCONFIRMED_TOTAL, 1);
    }
}

/* ---- directly to the ledger writer ---- */

static void booked(struct relay *relay, struct slot *slot, const struct decision *decision)
{
    static struct log_limit limit;
    if (decision->booking == BOOKING_SETTLED) {
        set_state(relay, slot, SLOT_STORED);
        return;
    }
    backoff_failed(&slot->backoff, inside_time_ms(relay->time));
    if (decision->booking == BOOKING_POISON) {
        char id[ORDER_ID_TEXT];
        order_id_text(decision->command.id, id);
        log_event_limited(&limit, 10000, LOG_ERROR, "relay.cannot_book",
                          LOG_SPAN("order", ((struct span){id, sizeof(id)})),
                          LOG_U64("item", decision->command.item),
                          LOG_U64("segment", decision->segment),
                          LOG_STR("what", "the ledger takes neither it nor its failure; kept"));
    }
}

static bool can_book(const struct slot *slot, int64_t now_ms)
{
    return (slot->state == SLOT_WAITING || slot->state == SLOT_SENT) &&
           backoff_is_over(&slot->backoff, now_ms);
}

static bool has_rate(const struct relay *relay)
{
    return relay->queue != NULL && atomic_load(&relay->options.runtime_limits->direct_rate) > 0;
}

/* How many decisions may be booked directly now. */
static size_t may_book(struct relay *relay, int64_t now_ms)
{
    int64_t rate = atomic_load(&relay->options.runtime_limits->direct_rate);
    int64_t most = rate * BURST_MS > 1000 ? rate * BURST_MS : 1000;
    if (!has_rate(relay)) {
        return TAKE_MAX;
    }
    if (now_ms > relay->credit_ms) { /* a long time is worth no more than a burst */
        int64_t passed_ms = now_ms - relay->credit_ms < most ? now_ms - relay->credit_ms : most;
        relay->credit += passed_ms * rate;
        relay->credit_ms = now_ms;
    }
    relay->credit = relay->credit < most ? relay->credit : most;
    return relay->credit / 1000 < TAKE_MAX ? (size_t)(relay->credit / 1000) : TAKE_MAX;
}

/* Books published decisions, too: a queue that is reachable but confirms nothing would keep them. A
 * decision that goes both ways is booked once. */
static void book(struct relay *relay)
{
    uint32_t at[TAKE_MAX];
    size_t count = 0;
    int64_t now_ms = inside_time_ms(relay->time);
    size_t most = may_book(relay, now_ms);
    for (uint32_t k = 0; k < relay->options.window && count < most; k++) {
        uint32_t i = relay->book_at; /* in turn: none is passed by those that are taken later */
        relay->book_at = i + 1 < relay->options.window ? i + 1 : 0;
        if (can_book(&relay->slots[i], now_ms)) {
            decision_of(&relay->slots[i].entry, &relay->decisions[count]);
            at[count++] = i;
        }
    }
    if (count == 0) {
        return;
    }
    relay->credit -= has_rate(relay) ? (int64_t)count * 1000 : 0;
    booking_channel_run(relay->booking_channel, relay->decisions, count);
    for (size_t i = 0; i < count; i++) {
        booked(relay, &relay->slots[at[i]], &relay->decisions[i]);
    }
}

/* ---- out of the slots ---- */

/* Removes entries from their outboxes. Returns a bit for each segment that failed; it is asked again
 * in the next iteration. */
static uint64_t remove_entries(struct relay *relay, const struct outbox_entry *entries,
                               size_t count)
{
    struct outbox_entry own[REMOVE_MAX];
    uint64_t asked = 0;
    uint64_t failed = 0;
    if (segments_done(relay->segments, entries, count) == 0) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) { /* one that is away holds up no other */
        uint64_t bit = 1ULL << entries[i].segment;
        size_t n = 0;
        for (size_t k = i; (asked & bit) == 0 && k < count; k++) {
            if (entries[k].segment == entries[i].segment) {
                own[n++] = entries[k];
            }
        }
        asked |= bit;
        failed |= n > 0 && segments_done(relay->segments, own, n) != 0 ? bit : 0;
    }
    return failed;
}

static void remove_stored(struct relay *relay)
{
    struct outbox_entry entries[REMOVE_MAX];
    uint32_t at[REMOVE_MAX];
    uint64_t failed = 0;
    for (uint32_t i = 0; i < relay->options.window && relay->stored > 0;) {
        size_t count = 0;
        for (; i < relay->options.window && count < REMOVE_MAX; i++) {
            const struct slot *slot = &relay->slots[i];
            if (slot->state == SLOT_STORED && (failed >> slot->entry.segment & 1) == 0) {
                entries[count] = slot->entry;
                at[count++] = i;
            }
        }
        failed |= count > 0 ? remove_entries(relay, entries, count) : 0;
        for (size_t k = 0; k < count; k++) {
            if ((failed >> entries[k].segment & 1) == 0) {
                set_state(relay, &relay->slots[at[k]], SLOT_FREE);
            }
        }
    }
}

/* ---- an iteration ---- */

/* While the queue confirms nothing: checks if an outbox exceeds its limit. If one does, `crowded`
 * stays set until the queue is back. */
static void look_at_outboxes(struct relay *relay, int64_t now_ms)
{
    int64_t most = atomic_load(&relay->options.runtime_limits->direct_outbox);
    if (now_ms - relay->confirmed_ms <= CROWD_AFTER_MS || most == 0) {
        relay->crowded = false;
        return;
    }
    if (relay->crowded || now_ms < relay->look_ms) {
        return;
    }
    relay->look_ms = now_ms + CROWD_AFTER_MS;
    for (uint32_t s = 0; s < relay->booking_channel->segment_table->count; s++) {
        struct segment_state state;
        segments_look(relay->segments, s, &state);
        relay->crowded =
            relay->crowded || (state.outcome == SEGMENT_DONE && state.outbox > (uint64_t)most);
    }
}

/* The queue is away if it confirmed nothing for a while, and back when it confirms again. */
static void choose_way(struct relay *relay, int64_t now_ms)
{
    if (relay->queue == NULL) {
        relay->direct = true;
        return;
    }
    if (relay->used == relay->stored && !relay->direct) {
        relay->confirmed_ms = now_ms; /* nothing was there to be confirmed */
    }
    look_at_outboxes(relay, now_ms);
    bool direct =
        relay->crowded ||
        now_ms - relay->confirmed_ms > atomic_load(&relay->options.runtime_limits->direct_after_ms);
    if (direct != relay->direct) {
        log_event(direct ? LOG_WARN : LOG_INFO, direct ? "relay.queue_away" : "relay.queue_back",
                  LOG_STR("what", direct ? "decisions go straight to the ledger" : ""));
        relay->direct = direct;
        relay->probing = false;
    }
}

/* How long to wait for entries, if there is nothing else to do. */
static int64_t pause_ms(struct relay *relay, int64_t now_ms, int64_t wait_ms)
{
    int64_t credit_ms = 0; /* until there is some */
    if (relay->used > relay->stored && !relay->direct) {
        return 0; /* it waits for the queue instead */
    }
    if (has_rate(relay) && may_book(relay, now_ms) == 0) {
        int64_t rate = atomic_load(&relay->options.runtime_limits->direct_rate);
        credit_ms = rate > 0 ? (1000 - relay->credit + rate - 1) / rate : 0;
        credit_ms = credit_ms < wait_ms ? credit_ms : wait_ms;
    }
    for (uint32_t i = 0; relay->used > relay->stored && i < relay->options.window; i++) {
        const struct slot *slot = &relay->slots[i];
        int64_t left_ms = slot->backoff.next_ms - now_ms;
        if ((slot->state == SLOT_WAITING || slot->state == SLOT_SENT) && left_ms < wait_ms) {
            wait_ms = left_ms > 0 ? left_ms : 0;
        }
    }
    return wait_ms < credit_ms ? credit_ms : wait_ms;
}

void relay_iterate(struct relay *relay, int64_t wait_ms)
{
    int64_t now_ms = inside_time_ms(relay->time);
    choose_way(relay, now_ms);
    int64_t pause = pause_ms(relay, now_ms, wait_ms);
    if (relay->used < relay->options.window) {
        take(relay, pause);
    } else if (pause > 0) {
        ledger_writer_wait(relay->booking_channel->ledger_writer, relay->booking_channel->mailbox,
                           pause * 1000);
    }
    if (relay->queue != NULL) {
        publish(relay, !relay->direct ? UINT32_MAX : relay->probing ? 0 : 1);
        hear(relay, relay->used > relay->stored && !relay->direct ? wait_ms : 0);
    }
    if (relay->direct) {
        book(relay);
    }
    if (relay->stored > 0) {
        remove_stored(relay);
    }
    metrics_set(relay->metrics, METRIC_RELAY_UNDER_WAY, relay->used);
}

int relay_new(struct segments *segments, struct queue *queue,
              struct booking_channel *booking_channel, struct inside_time *time,
              struct metrics_slot *metrics, struct relay_options options, struct relay **ret_relay)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    if (relay == NULL) {
        return ERR_NOMEM;
    }
    relay->segments = segments;
    relay->queue = queue;
    relay->booking_channel = booking_channel;
    relay->time = time;
    relay->metrics = metrics;
    relay->options = options;
    relay->slots = calloc(options.window, sizeof(*relay->slots));
    relay->taken = calloc(TAKE_MAX, sizeof(*relay->taken));
    relay->decisions = calloc(TAKE_MAX, sizeof(*relay->decisions));
    relay->confirmed_ms = inside_time_ms(time);
    if (relay->slots == NULL || relay->taken == NULL || relay->decisions == NULL) {
        relay_free(relay);
        return ERR_NOMEM;
    }
    *ret_relay = relay;
    return 0;
}

void relay_free(struct relay *relay)
{
    if (relay == NULL) {
        return;
    }
    free(relay->slots);
    free(relay->taken);
    free(relay->decisions);
    free(relay);
}
