/*
 * A front without HTTP, for tests of Redis topologies: it buys at a steady rate on one loop while a
 * test in Python does harm to the servers, and prints the answers of all buyers afterwards.
 *
 *   redis_probe URL SEGMENTS(0: as many as masters) PREFIX [WAIT_REPLICAS WAIT_TIMEOUT_MS
 *               [SENTINEL_PASSWORD_FILE]]
 *
 * Commands come as lines on stdin, each is answered by one line of JSON on stdout:
 *   segments             how many there are
 *   where SEGMENT        the address of its server, as the topology has it; its tag and slot
 *   rebuild SEGMENT EPOCH  makes it empty except for one item with STOCK units, for this server; asks
 *                        until it has been done
 *   look SEGMENT         its state, as port/segments has it
 *   ready                waits until every segment's link is ready
 *   buy COUNT            new buyers, one order each, one after the other in windows; waits for all
 *   start, stop          the same in the background, some thousand a second
 *   again ROUNDS         all whose outcome is not known ask again, so often at most (0: until all
 *                        have an answer)
 *   confirm SEGMENT COUNT  the event that confirms an order, for so many at most that were won there
 *   hear MS              news of so long: the confirmed orders ([segment, user]), the items
 *                        ([segment, item]), and how often news were lost
 *   told                 the answers of all buyers since the last `told`, by segment and epoch
 *   numbers              of links and topology
 *
 * Answers: won; refused (nothing ran, as the gate says: degraded, overloaded); unknown.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/posix/clock_posix.h"
#include "backend/redis/gate_redis.h"
#include "backend/redis/segments_redis.h"
#include "backend/redis/slot.h"
#include "base/check.h"

#define ITEM 11
#define STOCK 1000000
#define BUYERS_MAX 200000
#define WINDOW 64
#define TIMEOUT_MS 1000
#define GUARD_S 60
/* In the background: so many new ones each millisecond, at most. */
#define EACH_MS 2
/* Of one kind, in one command. */
#define HEARD_MAX 100000

enum fate { NOBODY, ASKED, WON, REFUSED, UNKNOWN };
static const char *const fates[] = {"nobody", "asked", "won", "refused", "unknown"};

struct buyer {
    struct gate_request request;
    enum fate fate;
    bool confirmed;
    uint64_t epoch; /* when asked */
};

struct probe {
    struct redis_topology *topology;
    struct redis_gate *gate;
    struct segments *segments;
    uint32_t count; /* of segments */
    uint64_t epochs[SEGMENTS_MAX];
    uint64_t events[SEGMENTS_MAX]; /* the last one applied */
    struct buyer *buyers;
    uint32_t bought; /* buyers so far */
    uint32_t told;
    uint32_t in_flight;
};

static int64_t now_us(void)
{
    return clock_boot_us(clock_posix());
}

/* ---- buying ---- */

static void settle(struct probe *probe, struct gate_request *request)
{
    struct buyer *buyer = request->owner;
    probe->in_flight--;
    if (gate_request_done(request)) {
        buyer->fate = WON;
    } else if (request->outcome == GATE_OUTCOME_UNKNOWN) {
        buyer->fate = UNKNOWN;
    } else if (request->outcome != GATE_OUTCOME_ANSWERED ||
               request->refusal == REFUSAL_OVERLOADED) {
        /* A buyer who retries after an unknown outcome may have an order whatever the answer. */
        buyer->fate = buyer->fate == UNKNOWN ? UNKNOWN : REFUSED;
    } else {
        (void)fprintf(stderr, "user %llu: refusal %d\n", (unsigned long long)request->user,
                      (int)request->refusal);
        exit(3);
    }
}

static void request(struct probe *probe, struct buyer *buyer, uint64_t user)
{
    uint32_t segment = segment_home(user, probe->count);
    buyer->request = (struct gate_request){.kind = GATE_REQUEST_BUY,
                                           .id = order_id_once(ITEM, user, 0),
                                           .user = user,
                                           .item = ITEM,
                                           .qty = 1,
                                           .segment = segment,
                                           .ticket_expires_ms = TIME_MAX_MS,
                                           .now_ms = clock_wall_ms(clock_posix()),
                                           .owner = buyer};
    if (buyer->fate == NOBODY) {
        buyer->fate = ASKED;
    }
    buyer->epoch = probe->epochs[segment];
    probe->in_flight++;
    if (gate_submit(redis_gate_port(probe->gate), &buyer->request) == GATE_ANSWERED) {
        settle(probe, &buyer->request);
    }
}

static void buy_new(struct probe *probe)
{
    CHECK(probe->bought < BUYERS_MAX);
    request(probe, &probe->buyers[probe->bought], probe->bought + 1);
    probe->bought++;
}

/* Takes what was answered; waits for something to happen, so long at most. */
static void turn(struct probe *probe, int wait_ms)
{
    struct gate_port *port = redis_gate_port(probe->gate);
    int64_t next_us = gate_flush(port, 0);
    int64_t left_ms = (next_us - now_us()) / 1000 + 1;
    int wait = next_us == INT64_MAX || left_ms > wait_ms ? wait_ms : left_ms < 0 ? 0 : (int)left_ms;
    struct pollfd fds[] = {{.fd = redis_gate_fd(probe->gate, 0), .events = POLLIN}};
    (void)poll(fds, 1, wait);
    for (struct gate_request *request = gate_collect(port, 0); request != NULL;) {
        struct gate_request *next = request->next;
        settle(probe, request);
        request = next;
    }
}

static void finish(struct probe *probe)
{
    while (probe->in_flight > 0) {
        turn(probe, 10);
    }
}

static bool all_ready(const struct probe *probe)
{
    for (uint32_t i = 0; i < probe->count; i++) {
        if (!redis_gate_ready(probe->gate, 0, i)) {
            return false;
        }
    }
    return true;
}

static void ready(struct probe *probe)
{
    int64_t guard_us = now_us() + GUARD_S * 1000000LL;
    while (!all_ready(probe) && now_us() < guard_us) {
        turn(probe, 10);
    }
    (void)printf("{\"ready\": %s}\n", all_ready(probe) ? "true" : "false");
}

static uint32_t unknown(const struct probe *probe)
{
    uint32_t count = 0;
    for (uint32_t i = probe->told; i < probe->bought; i++) {
        count += probe->buyers[i].fate == UNKNOWN;
    }
    return count;
}

/* rounds 0: as many as it takes. */
static void again(struct probe *probe, uint64_t rounds)
{
    int64_t guard_us = now_us() + GUARD_S * 1000000LL;
    for (uint64_t round = 0; unknown(probe) > 0 && now_us() < guard_us; round++) {
        if (rounds > 0 && round == rounds) {
            break;
        }
        for (uint32_t i = probe->told; i < probe->bought; i++) {
            if (probe->buyers[i].fate == UNKNOWN) {
                request(probe, &probe->buyers[i], probe->buyers[i].request.user);
                while (probe->in_flight >= WINDOW) {
                    turn(probe, 10);
                }
            }
        }
        finish(probe);
        turn(probe, 10);
    }
    (void)printf("{\"left\": %u}\n", unknown(probe));
}

/* ---- segments ---- */

static const char *outcome_text(enum segment_outcome outcome)
{
    static const char *const texts[] = {"done",   "not asked", "not known", "stale",
                                        "fenced", "gap",       "broken"};
    return texts[outcome];
}

static void rebuild(struct probe *probe, uint32_t segment, uint64_t epoch)
{
    int64_t guard_us = now_us() + GUARD_S * 1000000LL;
    struct segment_step steps[] = {
        {.kind = STEP_BEGIN,
         .sizes = {.orders = BUYERS_MAX, .buyers = BUYERS_MAX, .items = 4, .sales = 2}},
        {.kind = STEP_SALE,
         .sale = 1,
         .starts_at_ms = 1000,
         .ends_at_ms = TIME_MAX_MS,
         .state = SALE_OPEN},
        {.kind = STEP_ITEM,
         .sale = 1,
         .item = ITEM,
         .total = STOCK,
         .available = STOCK,
         .limit = 1},
        {.kind = STEP_OPEN},
    };
    enum segment_outcome outcome = SEGMENT_NOT_ASKED;
    uint32_t tries = 0;
    while ((outcome == SEGMENT_NOT_ASKED || outcome == SEGMENT_NOT_KNOWN) && now_us() < guard_us) {
        tries++;
        outcome = segments_rebuild(probe->segments, segment, epoch, epoch, steps,
                                   sizeof(steps) / sizeof(steps[0]));
        turn(probe, outcome == SEGMENT_DONE ? 0 : 20);
    }
    if (outcome == SEGMENT_DONE) {
        probe->epochs[segment] = epoch;
        probe->events[segment] = 0;
        gate_place(redis_gate_port(probe->gate), segment, epoch);
    }
    (void)printf("{\"outcome\": \"%s\", \"tries\": %u, \"trouble\": \"%s\"}\n",
                 outcome_text(outcome), tries, segments_redis_trouble(probe->segments, segment));
}

static void look(struct probe *probe, uint32_t segment)
{
    struct segment_state state;
    segments_look(probe->segments, segment, &state);
    (void)printf("{\"outcome\": \"%s\", \"epoch\": %llu, \"open\": %s}\n",
                 outcome_text(state.outcome), (unsigned long long)state.epoch,
                 state.open ? "true" : "false");
}

static void where(struct probe *probe, uint32_t segment)
{
    char host[REDIS_HOST_MAX] = "";
    uint16_t port = 0;
    uint64_t generation = 0;
    (void)topology_address(probe->topology, segment, host, &port, &generation);
    (void)printf("{\"host\": \"%s\", \"port\": %u, \"tag\": \"%s\", \"slot\": %u}\n", host, port,
                 slot_tag(segment), slot_of(span_of(slot_tag(segment))));
}

/* ---- events and news ---- */

/* The next buyer with an order at the segment that is not confirmed. NULL: none. */
static struct buyer *next_order(struct probe *probe, uint32_t segment)
{
    for (uint32_t i = 0; i < probe->bought; i++) {
        struct buyer *buyer = &probe->buyers[i];
        if (buyer->fate == WON && !buyer->confirmed && buyer->request.segment == segment &&
            buyer->epoch == probe->epochs[segment]) {
            return buyer;
        }
    }
    return NULL;
}

static void confirm(struct probe *probe, uint32_t segment, uint64_t most)
{
    uint64_t done = 0;
    for (uint64_t count = 0; count < most; count++) {
        struct buyer *buyer = next_order(probe, segment);
        if (buyer == NULL) {
            break;
        }
        struct segment_call call = {.segment = segment,
                                    .epoch = buyer->epoch,
                                    .after = probe->events[segment],
                                    .command = {.kind = GATE_CONFIRM,
                                                .event = probe->events[segment] + 1,
                                                .id = buyer->request.id,
                                                .item = ITEM,
                                                .now_ms = buyer->request.now_ms,
                                                .time_ms = TIME_MAX_MS}};
        segments_apply(probe->segments, &call, 1);
        if (call.outcome != SEGMENT_DONE || call.verdict != VERDICT_DONE) {
            break;
        }
        buyer->confirmed = true;
        probe->events[segment]++;
        done++;
    }
    (void)printf("{\"done\": %llu}\n", (unsigned long long)done);
}

static void tell_pairs(const char *name, uint64_t pairs[][2], size_t count)
{
    (void)printf("\"%s\": [", name);
    for (size_t i = 0; i < count; i++) {
        (void)printf("%s[%llu, %llu]", i > 0 ? ", " : "", (unsigned long long)pairs[i][0],
                     (unsigned long long)pairs[i][1]);
    }
    (void)printf("]");
}

static void hear(struct probe *probe, int64_t ms)
{
    static uint64_t orders[HEARD_MAX][2];
    static uint64_t items[HEARD_MAX][2];
    int64_t until_us = now_us() + ms * 1000;
    size_t order_count = 0;
    size_t item_count = 0;
    uint32_t lost = 0;
    for (int64_t left_us = ms * 1000; left_us > 0; left_us = until_us - now_us()) {
        struct segment_news news;
        size_t count = 0;
        if (segments_news(probe->segments, &news, 1, (left_us + 999) / 1000, &count) != 0) {
            continue;
        }
        CHECK(order_count < HEARD_MAX && item_count < HEARD_MAX);
        if (news.kind == NEWS_ORDER) {
            orders[order_count][0] = news.segment;
            orders[order_count++][1] = news.order.user;
        } else if (news.kind == NEWS_ITEM) {
            items[item_count][0] = news.segment;
            items[item_count++][1] = news.item;
        }
        lost += news.kind == NEWS_LOST;
    }
    (void)printf("{\"lost\": %u, ", lost);
    tell_pairs("orders", orders, order_count);
    (void)printf(", ");
    tell_pairs("items", items, item_count);
    (void)printf("}\n");
}

/* ---- telling ---- */

static void tell(struct probe *probe)
{
    const char *between = "";
    (void)printf("[");
    for (; probe->told < probe->bought; probe->told++) {
        const struct buyer *buyer = &probe->buyers[probe->told];
        if (buyer->fate == ASKED) {
            break; /* the next time */
        }
        (void)printf("%s[%llu, %u, %llu, \"%s\"]", between, (unsigned long long)buyer->request.user,
                     buyer->request.segment, (unsigned long long)buyer->epoch, fates[buyer->fate]);
        between = ", ";
    }
    (void)printf("]\n");
}

static void tell_numbers(struct probe *probe)
{
    struct redis_gate_numbers numbers;
    struct topology_numbers looks;
    redis_gate_count(probe->gate, 0, &numbers);
    topology_count(probe->topology, &looks);
    (void)printf(
        "{\"looks\": %llu, \"looks_failed\": %llu, "
        "\"links\": %u, \"connects\": %llu, \"losses\": %llu, \"redirects\": %llu, "
        "\"waits\": %llu, \"waits_short\": %llu, \"stale\": %llu}\n",
        (unsigned long long)looks.looks, (unsigned long long)looks.failures, numbers.ready,
        (unsigned long long)numbers.links.connects, (unsigned long long)numbers.links.losses,
        (unsigned long long)numbers.links.redirects, (unsigned long long)numbers.links.waits,
        (unsigned long long)numbers.links.waits_short, (unsigned long long)numbers.stale);
}

/* ---- commands ---- */

/* False: the end. */
static bool obey(struct probe *probe, const char *line, bool *running)
{
    unsigned long long number = 0;
    unsigned long long second = 0;
    char word[16] = "";
    if (sscanf(line, "%15s %llu %llu", word, &number, &second) < 1) {
        return false;
    }
    if (strcmp(word, "segments") == 0) {
        (void)printf("{\"segments\": %u}\n", probe->count);
    } else if (strcmp(word, "where") == 0) {
        where(probe, (uint32_t)number);
    } else if (strcmp(word, "rebuild") == 0) {
        rebuild(probe, (uint32_t)number, second);
    } else if (strcmp(word, "look") == 0) {
        look(probe, (uint32_t)number);
    } else if (strcmp(word, "ready") == 0) {
        ready(probe);
    } else if (strcmp(word, "again") == 0) {
        again(probe, number);
    } else if (strcmp(word, "confirm") == 0) {
        confirm(probe, (uint32_t)number, second);
    } else if (strcmp(word, "hear") == 0) {
        hear(probe, (int64_t)number);
    } else if (strcmp(word, "told") == 0) {
        tell(probe);
    } else if (strcmp(word, "numbers") == 0) {
        tell_numbers(probe);
    } else if (strcmp(word, "buy") == 0) {
        for (; number > 0; number--) {
            buy_new(probe);
            while (probe->in_flight >= WINDOW) {
                turn(probe, 10);
            }
        }
        finish(probe);
        (void)printf("{}\n");
    } else if (strcmp(word, "start") == 0 || strcmp(word, "stop") == 0) {
        *running = strcmp(word, "start") == 0;
        if (!*running) {
            finish(probe);
        }
        (void)printf("{}\n");
    } else {
        return false;
    }
    (void)fflush(stdout);
    return true;
}

/* One loop: commands as they come, buyers in between. */
static void run(struct probe *probe)
{
    char line[128];
    bool running = false;
    int64_t last_us = now_us();
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    setvbuf(stdin, NULL, _IONBF, 0); /* what poll sees is all there is */
    for (;;) {
        turn(probe, running ? 1 : 10);
        for (int i = 0; running && i < EACH_MS && now_us() - last_us >= 1000 &&
                        probe->in_flight < WINDOW && probe->bought < BUYERS_MAX;
             i++) {
            buy_new(probe);
            last_us = i + 1 == EACH_MS ? now_us() : last_us;
        }
        if (poll(&in, 1, 0) > 0 &&
            (fgets(line, sizeof(line), stdin) == NULL || !obey(probe, line, &running))) {
            return;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        (void)fprintf(stderr, "usage: redis_probe URL SEGMENTS PREFIX [REPLICAS TIMEOUT_MS]\n");
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    struct probe probe = {.buyers = calloc(BUYERS_MAX, sizeof(struct buyer))};
    char error[512] = "";
    CHECK(probe.buyers != NULL);
    struct topology_options where_options = {.url = argv[1],
                                             .sentinel_password_file = argc > 6 ? argv[6] : NULL,
                                             .timeout_ms = TIMEOUT_MS};
    if (topology_open(&where_options, &probe.topology, error, sizeof(error)) != 0) {
        (void)fprintf(stderr, "%s\n", error);
        return 1;
    }
    probe.count = (uint32_t)strtoul(argv[2], NULL, 10);
    probe.count = probe.count != 0 ? probe.count : topology_segments(probe.topology);
    struct redis_gate_config gate = {
        .topology = probe.topology,
        .segments = probe.count,
        .loops = 1,
        .prefix = argv[3],
        .connect_timeout_ms = TIMEOUT_MS,
        .call_timeout_ms = TIMEOUT_MS,
        .retry_min_ms = 10,
        .retry_max_ms = 500,
        .in_flight_max = 2 * WINDOW,
        .seed = 1,
        .wait_replicas = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0,
        .wait_timeout_ms = argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 10) : 0,
        .clock = clock_posix(),
    };
    struct segments_redis_options segments = {
        .topology = probe.topology,
        .segments = probe.count,
        .prefix = argv[3],
        .timeout_ms = TIMEOUT_MS,
        .worker = "probe",
        .clock = clock_posix(),
    };
    CHECK(redis_gate_new(&gate, &probe.gate) == 0);
    CHECK(segments_redis_open(&segments, &probe.segments) == 0);
    run(&probe);
    segments_redis_close(probe.segments);
    redis_gate_free(probe.gate);
    topology_close(probe.topology);
    free(probe.buyers);
    return 0;
}
