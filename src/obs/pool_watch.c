/* See pool_watch.h. */
#include "obs/pool_watch.h"

#include "obs/log.h"

/* A level counts as left when the pool is this far below it. */
#define HYSTERESIS 10U

static const unsigned levels[] = {0, 50, 80, 95};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static void tell(enum metrics_pool pool, struct metrics_level level, bool rises)
{
    log_event(rises ? LOG_WARN : LOG_INFO, rises ? "pool.fills" : "pool.empties",
              LOG_STR("pool", metrics_pool_text(pool)), LOG_U64("used", level.used),
              LOG_U64("size", level.size), LOG_U64("percent", metrics_percent(level)));
}

static void look(struct pool_watch *watch, enum metrics_pool pool, struct metrics_level level)
{
    uint8_t before = watch->reached[pool];
    uint8_t now = before;
    unsigned percent = metrics_percent(level);
    while (now + 1U < LEVELS && percent >= levels[now + 1]) {
        now++;
    }
    while (now > 0 && percent + HYSTERESIS < levels[now]) {
        now--;
    }
    watch->reached[pool] = now;
    if (now != before) {
        tell(pool, level, now > before);
    }
}

void pool_watch_look(struct pool_watch *watch, const struct metrics *metrics)
{
    for (unsigned i = 0; i < POOL_COUNT; i++) {
        look(watch, (enum metrics_pool)i, metrics_level(metrics, (enum metrics_pool)i));
    }
}
