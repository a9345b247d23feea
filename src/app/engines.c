/* See engines.h. */
#include "app/engines.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/ledgers.h"
#include "backend/amqp/queue_amqp.h"
#include "backend/mariadb/lease_mariadb.h"
#include "backend/mariadb/ledger_mariadb.h"
#include "backend/redis/gate_redis.h"
#include "backend/redis/segments_redis.h"
#include "backend/redis/topology.h"
#include "base/check.h"
#include "base/crypt.h"
#include "base/err.h"
#include "flow/balance.h"
#include "flow/recover.h"
#include "obs/log.h"

#define RETRY_MIN_MS 50
#define RETRY_MAX_MS 1000
/* How long to wait at start for somebody to say how many masters there are. */
#define MASTERS_TRIES 50
#define MASTERS_PAUSE_US 100000
/* The keeper's work. A lost segment is back after the drain, the reading and the replays. */
#define KEEP_LEASE_MS 20000 /* longer than reading one segment from the ledger takes */
#define KEEP_POLL_MS 50
#define KEEP_LOOK_MS 300
#define KEEP_DRAIN_MS 1000
#define KEEP_REPLAY_MS 1500
#define BALANCE_MOVES 8
#define BALANCE_PAUSE_MS 200
#define BALANCE_WISH_MS 5000
#define PAYMENTS_PREFETCH 256

/* ---- Redis ---- */

/* As configured, or as many as there are masters, which somebody has to know. */
static int count_segments(struct engines *engines)
{
    uint32_t count = (uint32_t)engines->config->redis_segments;
    for (int i = 0; count == 0 && i < MASTERS_TRIES; i++) {
        count = topology_segments(engines->topology);
        if (count == 0) {
            (void)usleep(MASTERS_PAUSE_US);
        }
    }
    if (count == 0) {
        char text[TOPOLOGY_TEXT_MAX];
        topology_trouble(engines->topology, text);
        return assembly_fail("nobody says how many Redis masters there are: set redis.segments, "
                             "or start Redis first",
                             ERR_IO, text);
    }
    engines->segments_count = count < SEGMENTS_MAX ? count : SEGMENTS_MAX;
    struct regions regions;
    const char *why = "";
    if (regions_parse(engines->config->redis_regions, engines->segments_count, &regions, &why) !=
        0) {
        return assembly_fail("cannot use redis.regions", ERR_INVALID, why);
    }
    return 0;
}

int engines_open(struct engines *engines, const struct config *config, struct clock_port *clock)
{
    char text[TOPOLOGY_TEXT_MAX] = "";
    char host[40] = "host";
    uint64_t random = 0;
    engines->config = config;
    engines->clock = clock;
    (void)gethostname(host, sizeof(host) - 1);
    crypt_random(&random, sizeof(random));
    (void)snprintf(engines->name, sizeof(engines->name), "%s-%d-%08x", host, (int)getpid(),
                   (unsigned)(random & 0xffffffff));
    int error = ledgers_folder_id(config, engines->worker);
    if (error != 0) {
        return assembly_fail("cannot read or make the data folder's name", error, config->data_dir);
    }
    struct topology_options options = {.url = config->redis_url,
                                       .password_file = config->redis_password_file,
                                       .sentinel_password_file =
                                           config->redis_sentinel_password_file,
                                       .timeout_ms = (uint32_t)config->redis_timeout_ms};
    error = topology_open(&options, &engines->topology, text, sizeof(text));
    if (error != 0) {
        return assembly_fail("cannot use redis.url", error, text);
    }
    return count_segments(engines);
}

uint32_t engines_segments(const struct engines *engines)
{
    return engines->segments_count;
}

/* Before the loops run: a front that says it is ready is connected, if there is anything to connect
 * to. */
static void connect_lanes(struct engines *engines, uint32_t lanes)
{
    struct gate_port *gate = redis_gate_port(engines->gate);
    for (int64_t i = 0; i < engines->config->redis_timeout_ms; i++) {
        bool ready = true;
        for (uint32_t lane = 0; lane < lanes; lane++) {
            (void)gate_collect(gate, lane);
            (void)gate_flush(gate, lane);
            for (uint32_t s = 0; s < engines->segments_count; s++) {
                ready = ready && redis_gate_ready(engines->gate, lane, s);
            }
        }
        if (ready) {
            return;
        }
        (void)usleep(1000);
    }
    log_event(LOG_WARN, "redis.not_connected",
              LOG_STR("what", "not every segment's server answers; tried again"));
}

int engines_gate(struct engines *engines, uint32_t lanes, struct gate_port **ret_gate)
{
    const struct config *config = engines->config;
    struct redis_gate_config options = {
        .topology = engines->topology,
        .segments = engines->segments_count,
        .loops = lanes,
        .prefix = config->redis_prefix,
        .connect_timeout_ms = (uint32_t)config->redis_timeout_ms,
        .call_timeout_ms = (uint32_t)config->redis_timeout_ms,
        .retry_min_ms = RETRY_MIN_MS,
        .retry_max_ms = RETRY_MAX_MS,
        .in_flight_max = (uint32_t)config->redis_in_flight,
        .wait_replicas = (uint32_t)config->redis_wait_replicas,
        .wait_timeout_ms = (uint32_t)config->redis_wait_timeout_ms,
        .clock = engines->clock,
    };
    crypt_random(&options.seed, sizeof(options.seed));
    int error = redis_gate_new(&options, &engines->gate);
    if (error != 0) {
        return assembly_fail("cannot make the gate's connections", error, "");
    }
    connect_lanes(engines, lanes);
    *ret_gate = redis_gate_port(engines->gate);
    return 0;
}

int engines_gate_fd(const struct engines *engines, uint32_t lane)
{
    return redis_gate_fd(engines->gate, lane);
}

int engines_new_segments(struct engines *engines, const char *thread,
                         struct segments **ret_segments)
{
    const struct config *config = engines->config;
    size_t at = 0;
    while (engines->segments[at] != NULL) {
        at++;
    }
    CHECK(at < ENGINES_MAX);
    struct segments_redis_options options = {.topology = engines->topology,
                                             .segments = engines->segments_count,
                                             .prefix = config->redis_prefix,
                                             .timeout_ms = (uint32_t)config->redis_timeout_ms,
                                             .worker = engines->worker,
                                             .outbox_max = (uint64_t)config->redis_outbox,
                                             .clock = engines->clock};
    int error = segments_redis_open(&options, &engines->segments[at]);
    if (error != 0) {
        return assembly_fail("cannot use Redis", error, thread);
    }
    *ret_segments = engines->segments[at];
    return 0;
}

/* ---- MariaDB ---- */

static struct ledger_mariadb_options ledger_options(const struct engines *engines)
{
    const struct config *config = engines->config;
    return (struct ledger_mariadb_options){.url = config->ledger_url,
                                           .password_file = config->ledger_password_file,
                                           .owner = engines->name,
                                           .segments = engines->segments_count,
                                           .regions = config->redis_regions,
                                           .timeout_s = (uint32_t)config->ledger_timeout_s};
}

static int new_ledger(struct engines *engines, enum ledger_mariadb_mode mode,
                      struct ledger **ret_ledger)
{
    size_t at = 0;
    while (engines->ledgers[at] != NULL) {
        at++;
    }
    CHECK(at < ENGINES_MAX);
    struct ledger_mariadb_options options = ledger_options(engines);
    int error = ledger_mariadb_open(&options, mode, &engines->ledgers[at]);
    if (error != 0) {
        return assembly_fail("cannot open the ledger", error, ledger_mariadb_error(NULL));
    }
    *ret_ledger = engines->ledgers[at];
    return 0;
}

int engines_new_reader(struct engines *engines, struct ledger **ret_ledger)
{
    return new_ledger(engines, MARIADB_READER, ret_ledger);
}

int engines_new_writer(struct engines *engines, struct ledger **ret_ledger)
{
    return new_ledger(engines, MARIADB_WRITER, ret_ledger);
}

int engines_new_lease(struct engines *engines, struct lease_port **ret_lease)
{
    struct ledger_mariadb_options options = ledger_options(engines);
    size_t at = 0;
    while (engines->leases[at] != NULL) {
        at++;
        CHECK(at < ENGINES_LEASES);
    }
    int error = lease_mariadb_open(&options, engines->name, &engines->leases[at]);
    if (error != 0) {
        return assembly_fail("cannot open the leases", error, ledger_mariadb_error(NULL));
    }
    *ret_lease = engines->leases[at];
    return 0;
}

/* ---- RabbitMQ ---- */

static int open_queue(struct engines *engines, const struct queue_amqp_options *options,
                      enum queue_amqp_role role, struct queue **ret_queue)
{
    size_t at = 0;
    while (engines->queues[at] != NULL) {
        at++;
    }
    CHECK(at < ENGINES_MAX);
    int error = queue_amqp_open(options, role, &engines->queues[at]);
    if (error != 0) {
        return assembly_fail("cannot use amqp.url", error, queue_amqp_error(NULL));
    }
    *ret_queue = engines->queues[at];
    return 0;
}

int engines_new_queue(struct engines *engines, bool publisher, struct queue **ret_queue)
{
    const struct config *config = engines->config;
    *ret_queue = NULL;
    if (config->amqp_url[0] == '\0') {
        return 0;
    }
    struct queue_amqp_options options = {.url = config->amqp_url,
                                         .password_file = config->amqp_password_file,
                                         .exchange = config->amqp_queue,
                                         .queue = config->amqp_queue,
                                         .classic = config->amqp_quorum == 0,
                                         .window = (uint32_t)config->amqp_window,
                                         .prefetch = (uint32_t)config->amqp_prefetch,
                                         .content_type = "text/plain"};
    return open_queue(engines, &options, publisher ? QUEUE_AMQP_PUBLISHER : QUEUE_AMQP_CONSUMER,
                      ret_queue);
}

int engines_new_payments(struct engines *engines, struct queue **ret_queue)
{
    const struct config *config = engines->config;
    char refused[sizeof(config->amqp_payments) + sizeof(".refused")];
    *ret_queue = NULL;
    if (config->amqp_url[0] == '\0' || config->amqp_payments[0] == '\0') {
        return 0;
    }
    (void)snprintf(refused, sizeof(refused), "%s.refused", config->amqp_payments);
    struct queue_amqp_options options = {.url = config->amqp_url,
                                         .password_file = config->amqp_password_file,
                                         .exchange = config->amqp_payments,
                                         .queue = config->amqp_payments,
                                         .parked = refused,
                                         .classic = config->amqp_quorum == 0,
                                         .prefetch = PAYMENTS_PREFETCH,
                                         .content_type = "application/json"};
    return open_queue(engines, &options, QUEUE_AMQP_CONSUMER, ret_queue);
}

void engines_link_seen(struct engines *engines, enum engines_link link, bool away)
{
    if (away) {
        (void)atomic_fetch_or(&engines->links_away, 1U << link);
    } else {
        (void)atomic_fetch_and(&engines->links_away, ~(1U << link));
    }
    (void)atomic_fetch_or(&engines->links_seen, 1U << link);
}

bool engines_links_up(const struct engines *engines, bool *ret_known)
{
    *ret_known = atomic_load(&engines->links_seen) != 0;
    return *ret_known && atomic_load(&engines->links_away) == 0;
}

/* ---- keeping ---- */

int engines_keep(struct engines *engines, struct await await, uint32_t balance_lane,
                 const struct gate_sizes *sizes)
{
    struct ledger *writer = NULL;
    struct segments *segments = NULL;
    int error = new_ledger(engines, MARIADB_WRITER, &writer);
    if (error == 0) {
        error = engines_new_segments(engines, "keeper", &segments);
    }
    if (error != 0) {
        return error;
    }
    engines->keeping = writer;
    struct recover_ports ports = {
        .segments = segments, .ledger = writer, .lease = engines->leases[0], .await = await};
    struct recover_options options = {.segments = engines->segments_count,
                                      .sizes = *sizes,
                                      .lease_ms = KEEP_LEASE_MS,
                                      .poll_ms = KEEP_POLL_MS,
                                      .drain_ms = KEEP_DRAIN_MS,
                                      .replay_ms = KEEP_REPLAY_MS};
    error = recover_new(ports, options, &engines->recover);
    if (error != 0 || engines->segments_count < 2) {
        return error == 0 ? 0 : assembly_fail("cannot start the keeper", error, "");
    }
    struct balance_ports balance_ports = {.segments = segments,
                                          .gate = redis_gate_port(engines->gate),
                                          .ledger = writer,
                                          .lease = engines->leases[0],
                                          .await = await};
    struct balance_options balance_options = {.segments = engines->segments_count,
                                              .loop = balance_lane,
                                              .moves_max = BALANCE_MOVES,
                                              .lease_ms = KEEP_LEASE_MS,
                                              .pause_ms = BALANCE_PAUSE_MS,
                                              .wish_ms = BALANCE_WISH_MS};
    error = balance_new(balance_ports, balance_options, &engines->balance);
    return error == 0 ? 0 : assembly_fail("cannot start the keeper", error, "");
}

bool engines_refill(struct engines *engines, uint32_t segment, uint64_t item, uint64_t units)
{
    if (!atomic_load(&engines->balances)) {
        return false;
    }
    balance_ask(engines->balance, segment, item, units);
    return true;
}

bool engines_keep_round(struct engines *engines, int64_t now_ms)
{
    if (now_ms >= engines->look_ms) {
        struct recover_round rebuilt = {0};
        int error = recover_round(engines->recover, &rebuilt);
        engines->look_ms = now_ms + KEEP_LOOK_MS;
        if (error != 0) {
            static struct log_limit limit;
            const char *words = ledger_mariadb_error(engines->keeping);
            log_event_limited(&limit, 10000, LOG_WARN, "keeper.cannot_look",
                              LOG_ERR("error", error), LOG_STR("server", "mariadb"),
                              LOG_STR("words", words[0] != '\0'
                                                   ? words
                                                   : lease_mariadb_error(engines->leases[0])));
        }
    }
    struct balance_round moved = {0};
    if (engines->balance != NULL) {
        atomic_store(&engines->balances, balance_round(engines->balance, &moved) == 0);
    }
    return moved.units > 0;
}

void engines_keep_end(struct engines *engines)
{
    atomic_store(&engines->balances, false);
    if (engines->balance != NULL) {
        balance_end(engines->balance);
    }
}

void engines_close(struct engines *engines)
{
    balance_free(engines->balance);
    recover_free(engines->recover);
    for (int i = 0; i < ENGINES_MAX; i++) {
        if (engines->segments[i] != NULL) {
            segments_redis_close(engines->segments[i]);
        }
        ledger_mariadb_close(engines->ledgers[i]);
        queue_amqp_close(engines->queues[i]);
    }
    for (int i = 0; i < ENGINES_LEASES; i++) {
        lease_mariadb_close(engines->leases[i]);
    }
    redis_gate_free(engines->gate);
    topology_close(engines->topology);
}
