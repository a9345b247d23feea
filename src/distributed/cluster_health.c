/* See cluster_health.h. */
#include "distributed/cluster_health.h"

#include "obs/log.h"

static const char *const texts[TROUBLE_COUNT] = {
#define X(name, text) [TROUBLE_##name] = text,
    CLUSTER_TROUBLES(X)
#undef X
};

const char *cluster_trouble_text(enum cluster_trouble trouble)
{
    return texts[trouble];
}

static void set(struct cluster_health *health, enum cluster_trouble trouble, bool is_on,
                int64_t since_ms, uint64_t n, int64_t now_ms)
{
    struct cluster_trouble_state *state = &health->troubles[trouble];
    if (is_on != state->is_on) {
        log_event(is_on ? LOG_WARN : LOG_INFO, is_on ? "cluster.trouble" : "cluster.well",
                  LOG_STR("what", texts[trouble]),
                  LOG_I64("for_ms", now_ms - (is_on ? since_ms : state->since_ms)),
                  LOG_U64("n", is_on ? n : state->n));
    }
    *state = (struct cluster_trouble_state){
        .is_on = is_on, .since_ms = is_on ? since_ms : 0, .n = is_on ? n : 0};
}

/* Returns whether it is consumed. */
static bool judge_consumers(struct cluster_health *health, enum cluster_trouble trouble,
                            const struct queue_depths *depths, int64_t *seen_ms, int64_t now_ms)
{
    if (depths == NULL) {
        *seen_ms = 0; /* not known: it begins anew */
        set(health, trouble, false, 0, 0, now_ms);
        return false;
    }
    if (depths->consumers > 0 || *seen_ms == 0) {
        *seen_ms = now_ms;
    }
    set(health, trouble, now_ms - *seen_ms >= HEALTH_CONSUMER_MS, *seen_ms, depths->ready, now_ms);
    return depths->consumers > 0;
}

static void begin_period(struct cluster_health *health, uint64_t longest_before, int64_t now_ms)
{
    health->period_ms = now_ms;
    health->shortest = UINT64_MAX;
    health->longest = 0;
    health->longest_before = longest_before;
}

/* What merely goes up and down under load does not grow. */
static void judge_growth(struct cluster_health *health, const struct queue_depths *queue,
                         bool is_consumed, int64_t now_ms)
{
    const struct cluster_trouble_state *state = &health->troubles[TROUBLE_QUEUE_GROWS];
    uint64_t ready = queue != NULL ? queue->ready : 0;
    if (!is_consumed || health->period_ms == 0) {
        begin_period(health, UINT64_MAX, now_ms);
        set(health, TROUBLE_QUEUE_GROWS, false, 0, 0, now_ms);
        return;
    }
    health->shortest = ready < health->shortest ? ready : health->shortest;
    health->longest = ready > health->longest ? ready : health->longest;
    bool grows = state->is_on && ready > health->longest_before;
    int64_t since_ms = state->since_ms;
    if (now_ms - health->period_ms >= HEALTH_GROWS_MS) {
        grows = health->shortest > health->longest_before;
        since_ms = state->is_on ? since_ms : health->period_ms - HEALTH_GROWS_MS;
        begin_period(health, health->longest, now_ms);
    }
    set(health, TROUBLE_QUEUE_GROWS, grows, since_ms, ready, now_ms);
}

static void judge_lease(struct cluster_health *health, const struct cluster_look *look,
                        int64_t now_ms)
{
    bool changed = look->has_lease && (look->lease_token != health->lease_token ||
                                       look->lease_until_ms != health->lease_until_ms);
    if (!look->leases_known) {
        health->renewed_ms = 0;
    } else if (changed || health->renewed_ms == 0) {
        health->renewed_ms = now_ms;
        health->lease_token = look->lease_token;
        health->lease_until_ms = look->lease_until_ms;
    }
    bool unheld = look->leases_known && now_ms - health->renewed_ms >= HEALTH_LEASE_MS;
    set(health, TROUBLE_NO_KEEPER, unheld, health->renewed_ms, 0, now_ms);
}

void cluster_health_judge(struct cluster_health *health, const struct cluster_look *look,
                          int64_t now_ms)
{
    bool is_consumed =
        judge_consumers(health, TROUBLE_NO_BOOKER, look->queue, &health->consumed_ms, now_ms);
    (void)judge_consumers(health, TROUBLE_NO_PAYMENT_CONSUMER, look->payments, &health->payments_ms,
                          now_ms);
    judge_growth(health, look->queue, is_consumed, now_ms);
    judge_lease(health, look, now_ms);
    bool old = look->outbox_known && look->outbox_lag_ms >= HEALTH_OUTBOX_MS;
    set(health, TROUBLE_OUTBOX_OLD, old, now_ms - (int64_t)look->outbox_lag_ms, look->outbox,
        now_ms);
}

int64_t cluster_health_unrenewed_ms(const struct cluster_health *health, int64_t now_ms)
{
    return health->renewed_ms == 0 ? 0 : now_ms - health->renewed_ms;
}
