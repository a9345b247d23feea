/*
 * Decisions a second of the gate on Redis, one at a time and in a pipeline, beside the least a sale
 * could do there: a script that counts one number down. All in turns in one run, because absolute
 * rates move between minutes; the medians and the ratios are printed. CPU time of the server for
 * each decision comes from Redis itself, that of the asking side from the kernel.
 *
 *   bench_redis_gate [decisions a run, default 20000]
 *
 * $SLUICE_TEST_REDIS (HOST:PORT) names the server, which should have nothing else to do; without it
 * one is started on a free port and stopped at the end.
 */
#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/posix/clock_posix.h"
#include "backend/redis/gate_redis.h"
#include "backend/redis/segments_redis.h"
#include "base/check.h"

#define ROUNDS 5
#define DEPTH_MAX 128
#define ITEM 11
#define SOLD_OUT_ITEM 12
#define NOW_MS 1700000000000LL

enum what { PLAIN, WIN, AGAIN, SOLD_OUT, CONFIRM, KINDS };
static const char *const names[] = {"counting down", "reserve, wins", "reserve, repeated",
                                    "reserve, sold out", "confirm"};
static const int depths[] = {1, 16, DEPTH_MAX};
#define DEPTHS (int)(sizeof(depths) / sizeof(depths[0]))

static const char plain_script[] = "local n = tonumber(redis.call('GET', KEYS[1]))\n"
                                   "if n <= 0 then return 0 end\n"
                                   "redis.call('DECR', KEYS[1])\n"
                                   "return 1\n";

struct figures {
    double rate[ROUNDS];
    double server_us[ROUNDS];
    double client_us[ROUNDS];
};
static struct figures figures[DEPTHS][KINDS];

struct bench {
    char host[64];
    uint16_t port;
    struct redis_gate *gate;
    struct segments *segments;
    redisContext *plain;
    char sha[41];
    uint64_t epoch;
    uint64_t event;
    uint64_t user; /* the next buyer */
};

static double wall_us(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static double client_us(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return 1e6 * (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static redisReply *ask_plain(struct bench *bench, const char *command)
{
    redisReply *reply = redisCommand(bench->plain, command);
    CHECK(reply != NULL && reply->type != REDIS_REPLY_ERROR);
    return reply;
}

static double server_us(struct bench *bench)
{
    redisReply *reply = ask_plain(bench, "INFO cpu");
    const char *sys = strstr(reply->str, "used_cpu_sys:");
    const char *user = strstr(reply->str, "used_cpu_user:");
    CHECK(sys != NULL && user != NULL);
    double us = 1e6 * (strtod(sys + 13, NULL) + strtod(user + 14, NULL));
    freeReplyObject(reply);
    return us;
}

/* ---- one run ---- */

static void wait_for(struct bench *bench)
{
    struct pollfd fd = {.fd = redis_gate_fd(bench->gate, 0), .events = POLLIN};
    (void)gate_flush(redis_gate_port(bench->gate), 0);
    (void)poll(&fd, 1, 100);
}

static void run_plain(struct bench *bench, int decisions, int depth)
{
    for (int i = 0; i < decisions; i += depth) {
        for (int k = 0; k < depth; k++) {
            CHECK(redisAppendCommand(bench->plain, "EVALSHA %s 1 bench:plain", bench->sha) == 0);
        }
        for (int k = 0; k < depth; k++) {
            redisReply *reply = NULL;
            CHECK(redisGetReply(bench->plain, (void **)&reply) == 0 && reply->integer == 1);
            freeReplyObject(reply);
        }
    }
}

static void run_asks(struct bench *bench, enum what what, int decisions, int depth)
{
    static struct gate_request requests[DEPTH_MAX];
    struct gate_port *port = redis_gate_port(bench->gate);
    uint64_t item = what == SOLD_OUT ? SOLD_OUT_ITEM : ITEM;
    uint64_t user = what == AGAIN ? bench->user - (uint64_t)decisions - DEPTH_MAX : bench->user;
    for (int i = 0; i < decisions; i += depth) {
        for (int k = 0; k < depth; k++, user++) {
            requests[k] = (struct gate_request){.kind = GATE_REQUEST_BUY,
                                                .id = order_id_once(item, user, 0),
                                                .user = user,
                                                .item = item,
                                                .qty = 1,
                                                .ticket_expires_ms = NOW_MS + 1000,
                                                .now_ms = NOW_MS};
            CHECK(gate_submit(port, &requests[k]) == GATE_PENDING);
        }
        for (int k = 0; k < depth;) {
            struct gate_request *request = gate_collect(port, 0);
            if (request == NULL) {
                wait_for(bench);
                continue;
            }
            for (; request != NULL; request = request->next, k++) {
                CHECK(gate_request_refused(request,
                                           what == SOLD_OUT ? REFUSAL_SOLD_OUT : REFUSAL_NONE));
                CHECK(request->existed == (what == AGAIN));
            }
        }
    }
    bench->user = what == WIN ? user : bench->user;
}

/* The orders of the last run of winners. */
static void run_confirms(struct bench *bench, int decisions, int depth)
{
    static struct segment_call calls[DEPTH_MAX];
    uint64_t user = bench->user - (uint64_t)decisions - DEPTH_MAX;
    for (int i = 0; i < decisions; i += depth) {
        for (int k = 0; k < depth; k++, user++) {
            calls[k] = (struct segment_call){.epoch = bench->epoch,
                                             .after = bench->event,
                                             .command = {.kind = GATE_CONFIRM,
                                                         .now_ms = NOW_MS,
                                                         .event = bench->event + 1,
                                                         .id = order_id_once(ITEM, user, 0),
                                                         .item = ITEM,
                                                         .time_ms = NOW_MS + 900000}};
            bench->event++;
        }
        segments_apply(bench->segments, calls, (size_t)depth);
        for (int k = 0; k < depth; k++) {
            CHECK(calls[k].outcome == SEGMENT_DONE && calls[k].verdict == VERDICT_DONE);
        }
    }
}

/* An empty server, a fresh segment, winners enough for what is asked again. */
static void prepare(struct bench *bench, int decisions)
{
    const struct segment_step steps[] = {
        {.kind = STEP_BEGIN,
         .event = 3,
         .sizes = {.orders = 100000000, .buyers = 100000000, .items = 9, .sales = 9}},
        {.kind = STEP_SALE, .sale = 1, .state = SALE_OPEN, .ends_at_ms = NOW_MS + 1000},
        {.kind = STEP_ITEM,
         .sale = 1,
         .item = ITEM,
         .total = 1000000000,
         .available = 1000000000,
         .limit = 1},
        {.kind = STEP_ITEM, .sale = 1, .item = SOLD_OUT_ITEM, .limit = 1},
        {.kind = STEP_OPEN},
    };
    freeReplyObject(ask_plain(bench, "FLUSHALL"));
    freeReplyObject(ask_plain(bench, "SET bench:plain 1000000000"));
    CHECK(segments_rebuild(bench->segments, 0, ++bench->epoch, 0, steps, 5) == SEGMENT_DONE);
    gate_place(redis_gate_port(bench->gate), 0, bench->epoch);
    bench->event = 3;
    bench->user = 1;
    run_asks(bench, WIN, decisions + 2 * DEPTH_MAX, DEPTH_MAX);
}

static void measure(struct bench *bench, int depth, enum what what, int decisions, int round)
{
    struct figures *ret = &figures[depth][what];
    int n = depths[depth] == 1 ? decisions / 4 : decisions;
    n = (n + depths[depth] - 1) / depths[depth] * depths[depth];
    double server = server_us(bench);
    double client = client_us();
    double from = wall_us();
    if (what == PLAIN) {
        run_plain(bench, n, depths[depth]);
    } else if (what == CONFIRM) {
        run_confirms(bench, n, depths[depth]);
    } else {
        run_asks(bench, what, n, depths[depth]);
    }
    double took = wall_us() - from;
    ret->client_us[round] = (client_us() - client) / n;
    ret->server_us[round] = (server_us(bench) - server) / n;
    ret->rate[round] = 1e6 * n / took;
}

/* ---- the whole ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(const double *values)
{
    double sorted[ROUNDS];
    memcpy(sorted, values, sizeof(sorted));
    qsort(sorted, ROUNDS, sizeof(sorted[0]), by_value);
    return sorted[ROUNDS / 2];
}

static void report(void)
{
    for (int depth = 0; depth < DEPTHS; depth++) {
        double base = median(figures[depth][PLAIN].rate);
        double base_us = median(figures[depth][PLAIN].server_us);
        printf("%d at a time\n", depths[depth]);
        for (int what = 0; what < KINDS; what++) {
            const struct figures *f = &figures[depth][what];
            double rate = median(f->rate);
            double us = median(f->server_us);
            printf("  %-18s %8.0f/s  %5.2f of counting; server %6.2f us (%5.2f times), "
                   "client %5.2f us\n",
                   names[what], rate, rate / base, us, us / base_us, median(f->client_us));
        }
    }
}

static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

/* 0: not ours. */
static pid_t find_server(struct bench *bench)
{
    const char *given = getenv("SLUICE_TEST_REDIS");
    if (given != NULL) {
        CHECK(sscanf(given, "%63[^:]:%hu", bench->host, &bench->port) == 2);
        return 0;
    }
    char port[8];
    (void)snprintf(bench->host, sizeof(bench->host), "127.0.0.1");
    bench->port = free_port();
    (void)snprintf(port, sizeof(port), "%u", bench->port);
    (void)fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        (void)execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1",
                     "--save", "", "--appendonly", "no", "--loglevel", "warning", "--logfile",
                     "/dev/null", (char *)NULL);
        _exit(127);
    }
    return pid;
}

static bool connect_plain(struct bench *bench)
{
    for (int i = 0; i < 500; i++) {
        bench->plain = redisConnect(bench->host, bench->port);
        CHECK(bench->plain != NULL);
        if (bench->plain->err == 0) {
            return true;
        }
        redisFree(bench->plain);
        (void)usleep(10000);
    }
    return false;
}

static void run(struct bench *bench, int decisions)
{
    char url[96];
    char error[512];
    struct redis_topology *topology = NULL;
    (void)snprintf(url, sizeof(url), "redis://%s:%u", bench->host, bench->port);
    CHECK(topology_open(&(struct topology_options){.url = url}, &topology, error, sizeof(error)) ==
          0);
    struct redis_gate_config config = {.topology = topology,
                                       .segments = 1,
                                       .loops = 1,
                                       .prefix = "bench",
                                       .connect_timeout_ms = 5000,
                                       .call_timeout_ms = 60000,
                                       .retry_min_ms = 10,
                                       .retry_max_ms = 100,
                                       .in_flight_max = DEPTH_MAX,
                                       .clock = clock_posix()};
    struct segments_redis_options options = {.topology = topology,
                                             .segments = 1,
                                             .prefix = "bench",
                                             .timeout_ms = 60000,
                                             .worker = "bench",
                                             .outbox_max = 1000000000,
                                             .clock = clock_posix()};
    CHECK(redis_gate_new(&config, &bench->gate) == 0);
    CHECK(segments_redis_open(&options, &bench->segments) == 0);
    while (!redis_gate_ready(bench->gate, 0, 0)) {
        CHECK(gate_collect(redis_gate_port(bench->gate), 0) == NULL);
        wait_for(bench);
    }
    redisReply *sha = redisCommand(bench->plain, "SCRIPT LOAD %s", plain_script);
    CHECK(sha != NULL && sha->type == REDIS_REPLY_STRING);
    (void)snprintf(bench->sha, sizeof(bench->sha), "%s", sha->str);
    freeReplyObject(sha);
    for (int round = 0; round < ROUNDS; round++) {
        for (int depth = 0; depth < DEPTHS; depth++) {
            prepare(bench, decisions);
            for (enum what what = PLAIN; what < KINDS; what++) {
                measure(bench, depth, what, decisions, round);
            }
        }
    }
    redis_gate_free(bench->gate);
    segments_redis_close(bench->segments);
    topology_close(topology);
    redisFree(bench->plain);
}

int main(int argc, char **argv)
{
    struct bench bench = {.epoch = 0};
    int decisions = argc > 1 ? atoi(argv[1]) : 20000;
    if (decisions < DEPTH_MAX) {
        (void)fprintf(stderr, "usage: bench_redis_gate [decisions a run]\n");
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    pid_t server = find_server(&bench);
    bool connected = connect_plain(&bench);
    if (connected) {
        run(&bench, decisions);
        report();
    } else {
        (void)fprintf(stderr, "no Redis at %s:%u\n", bench.host, bench.port);
    }
    if (server > 0) {
        (void)kill(server, SIGTERM);
        (void)waitpid(server, NULL, 0);
    }
    return connected ? 0 : 1;
}
